/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_getinfo: what fi_getinfo() says about ofi_p2p, for all the ways to ask, compared
 * with what the core provider below says about itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "ft_test.h"

#define SUFFIX ";ofi_p2p"
#define UNKNOWN_CAP (1ULL << 61)
#define CORE_MODES                                                                             \
	(FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

struct query {
	const char *prov; /* NULL: any */
	uint64_t caps;
	int mr_mode;
	const char *node, *service;
	uint64_t flags;
	enum fi_progress progress;
	uint64_t tag_format;
	uint64_t comp_order;
};

struct names {
	char full[128];  /* tcp;ofi_rxm;ofi_p2p */
	char core[128];  /* tcp;ofi_rxm */
	char first[128]; /* tcp */
};

static int ask(const struct ft_opts *opts, const struct query *query, struct fi_info **info)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	*info = NULL;
	if (!hints)
		return -FI_ENOMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = query->caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = query->mr_mode;
	hints->domain_attr->data_progress = query->progress;
	hints->ep_attr->mem_tag_format = query->tag_format;
	hints->tx_attr->comp_order = hints->rx_attr->comp_order = query->comp_order;
	if (query->prov)
		hints->fabric_attr->prov_name = strdup(query->prov);
	ret = fi_getinfo(opts->api_version, query->node, query->service, query->flags, hints,
			 info);
	fi_freeinfo(hints);
	return ret;
}

static bool is_ours(const struct fi_info *info)
{
	const char *name = info->fabric_attr->prov_name;
	size_t len = strlen(name);

	return len > strlen(SUFFIX) && !strcmp(name + len - strlen(SUFFIX), SUFFIX);
}

static const struct fi_info *first_named(const struct fi_info *list, const char *name)
{
	for (; list; list = list->next)
		if (!strcmp(list->fabric_attr->prov_name, name))
			return list;
	return NULL;
}

static int bits(uint64_t format)
{
	return format ? 64 - __builtin_clzll(format) : 0;
}

/* What holds for every info of ours, however it was asked for. */
static int check_one(const struct fi_info *info, const struct query *query)
{
	const char *name = info->fabric_attr->prov_name;

	FT_CHECK(info->caps & FI_P2P || !(query->caps & FI_P2P), "%s: caps lack FI_P2P", name);
	FT_CHECK(info->caps & FI_HMEM || !(query->caps & (FI_HMEM | FI_P2P)),
		 "%s: caps lack FI_HMEM", name);
	FT_CHECK(!(info->tx_attr->caps & FI_P2P) && !(info->rx_attr->caps & FI_P2P),
		 "%s: FI_P2P stands in tx or rx attributes", name);
	FT_CHECK(!(info->domain_attr->mr_mode & FI_MR_P2P) || (query->mr_mode & FI_MR_P2P),
		 "%s: FI_MR_P2P was returned unasked", name);
	FT_CHECK(info->domain_attr->cq_data_size == 4, "%s: cq_data_size %zu instead of 4",
		 name, info->domain_attr->cq_data_size);
	FT_CHECK((info->domain_attr->mr_mode & ~query->mr_mode) == 0,
		 "%s: mr_mode %#x has bits that were not offered (%#x)", name,
		 info->domain_attr->mr_mode, query->mr_mode);
	FT_CHECK((info->domain_attr->data_progress == FI_PROGRESS_AUTO) ==
			 (query->progress == FI_PROGRESS_AUTO),
		 "%s: data_progress %d where %d was asked for", name,
		 (int) info->domain_attr->data_progress, (int) query->progress);
	return 0;
}

static bool same_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return a_len == b_len && (!a_len || !memcmp(a, b, a_len));
}

/* No two that differ in nothing but the tag format: peers would not know which one to take. */
static int check_twins(const struct fi_info *info, const struct query *query)
{
	const char *name = info->fabric_attr->prov_name;

	for (const struct fi_info *other = info->next; other; other = other->next)
		FT_CHECK(strcmp(name, other->fabric_attr->prov_name) ||
				 strcmp(info->domain_attr->name, other->domain_attr->name) ||
				 info->caps != other->caps ||
				 !same_bytes(info->src_addr, info->src_addrlen, other->src_addr,
					     other->src_addrlen) ||
				 info->ep_attr->mem_tag_format ==
					 other->ep_attr->mem_tag_format,
			 "%s, caps %#" PRIx64 ": offered with tags %#" PRIx64 " and %#" PRIx64,
			 name, query->caps, info->ep_attr->mem_tag_format,
			 other->ep_attr->mem_tag_format);
	return 0;
}

static int check_query(const struct ft_opts *opts, const struct query *query,
		       const char *expected)
{
	const char *prov = query->prov ? query->prov : "(any)";
	struct fi_info *list;
	int ret = ask(opts, query, &list);

	if (ret)
		return ft_fail(ret, "fi_getinfo", "-p '%s' caps %#" PRIx64, prov, query->caps);
	FT_CHECK(first_named(list, expected),
		 "prov_name '%s', caps %#" PRIx64 ": no '%s' among the results", prov,
		 query->caps, expected);
	for (const struct fi_info *info = list; info; info = info->next) {
		FT_CHECK(is_ours(info) || !(query->caps & FI_P2P),
			 "FI_P2P is offered by %s, which is not ours",
			 info->fabric_attr->prov_name);
		if (is_ours(info)) {
			FT_TRY(check_one(info, query));
			FT_TRY(check_twins(info, query));
		}
	}
	fi_freeinfo(list);
	return 0;
}

static int check_names(const struct ft_opts *opts, const struct names *names)
{
	static const uint64_t caps[] = {
		FI_MSG | FI_TAGGED,
		FI_TAGGED | FI_HMEM,
		FI_MSG | FI_TAGGED | FI_P2P,
		FI_MSG | FI_P2P | FI_HMEM,
	};
	static const int modes[] = {CORE_MODES, CORE_MODES | FI_MR_HMEM,
				    CORE_MODES | FI_MR_P2P};
	/* libfabric puts nothing over shm unless it is asked to in so many words */
	const char *const one = strcmp(names->first, "shm") ? names->first : names->full;
	const char *const provs[] = {NULL, one, names->full};

	for (size_t i = 0; i < FT_COUNT(provs) * FT_COUNT(caps) * FT_COUNT(modes); i++) {
		struct query query = {
			.prov = provs[i % FT_COUNT(provs)],
			.caps = caps[i / FT_COUNT(provs) % FT_COUNT(caps)],
			.mr_mode = modes[i / FT_COUNT(provs) / FT_COUNT(caps)],
		};

		FT_TRY(check_query(opts, &query, names->full));
	}
	return 0;
}

/* The layered info against the core's, for the same question. */
static int compare(const struct ft_opts *opts, const struct names *names,
		   const struct query *common)
{
	struct query query = *common;
	const struct fi_info *core, *ours;
	struct fi_info *core_list, *our_list;

	query.prov = names->core;
	if (ask(opts, &query, &core_list)) {
		printf("note: %s does not answer for node %s\n", names->core,
		       query.node ? query.node : "(none)");
		return 0;
	}
	query.prov = names->full;
	FT_CHECK(!ask(opts, &query, &our_list),
		 "node %s service %s flags %#" PRIx64 ": %s answers, %s does not",
		 query.node ? query.node : "(none)", query.service ? query.service : "(none)",
		 query.flags, names->core, names->full);
	core = first_named(core_list, names->core);
	ours = first_named(our_list, names->full);
	FT_CHECK(core && ours, "%s: results have other names", names->full);
	FT_CHECK(same_bytes(core->dest_addr, core->dest_addrlen, ours->dest_addr,
			    ours->dest_addrlen),
		 "%s: other dest_addr than %s has", names->full, names->core);
	/* Without a service the core may choose a port, or a name, anew at each call. */
	FT_CHECK(core->src_addrlen == ours->src_addrlen &&
			 (!query.service || !query.flags ||
			  same_bytes(core->src_addr, core->src_addrlen, ours->src_addr,
				     ours->src_addrlen)),
		 "%s: other src_addr than %s has", names->full, names->core);
	FT_CHECK(core->addr_format == ours->addr_format, "%s: other addr_format", names->full);
	FT_CHECK(bits(ours->ep_attr->mem_tag_format) == bits(core->ep_attr->mem_tag_format) - 1,
		 "mem_tag_format: %s %#" PRIx64 ", %s %#" PRIx64 ": expected one bit fewer",
		 names->core, core->ep_attr->mem_tag_format, names->full,
		 ours->ep_attr->mem_tag_format);
	FT_CHECK(!strcmp(core->domain_attr->name, ours->domain_attr->name),
		 "domain %s under %s is %s", core->domain_attr->name, names->full,
		 ours->domain_attr->name);
	fi_freeinfo(core_list);
	fi_freeinfo(our_list);
	return 0;
}

static int check_addresses(const struct ft_opts *opts, const struct names *names)
{
	static const struct query queries[] = {
		{.caps = FI_TAGGED, .mr_mode = CORE_MODES},
		{.caps = FI_TAGGED,
		 .mr_mode = CORE_MODES,
		 .service = "7471",
		 .flags = FI_SOURCE},
		{.caps = FI_TAGGED,
		 .mr_mode = CORE_MODES,
		 .node = "127.0.0.1",
		 .service = "7471",
		 .flags = FI_SOURCE},
		{.caps = FI_TAGGED,
		 .mr_mode = CORE_MODES,
		 .node = "127.0.0.1",
		 .service = "7471"},
	};

	for (size_t i = 0; i < FT_COUNT(queries); i++)
		FT_TRY(compare(opts, names, &queries[i]));
	return 0;
}

/* It is there where the core provider has it. */
static int check_progress(const struct ft_opts *opts, const struct names *names)
{
	struct query query = {
		.prov = names->core,
		.caps = FI_TAGGED,
		.mr_mode = CORE_MODES,
		.progress = FI_PROGRESS_AUTO,
	};
	struct fi_info *list;
	bool offered = !ask(opts, &query, &list);
	int ret;

	fi_freeinfo(list);
	query.prov = names->full;
	query.caps |= FI_HMEM;
	if (offered)
		FT_TRY(check_query(opts, &query, names->full));
	ret = ask(opts, &query, &list);
	fi_freeinfo(list);
	FT_CHECK(offered || ret == -FI_ENODATA, "automatic progress, which %s has not, gave %d",
		 names->core, ret);
	query.progress = FI_PROGRESS_MANUAL;
	return check_query(opts, &query, names->full);
}

static int check_refusals(const struct ft_opts *opts, const struct names *names)
{
	const struct query unknown = {
		.prov = names->full,
		.caps = FI_TAGGED | UNKNOWN_CAP,
		.mr_mode = CORE_MODES,
	};
	const struct query no_target = {
		.prov = "nonsense" SUFFIX,
		.caps = FI_TAGGED,
		.mr_mode = CORE_MODES,
	};
	struct fi_info *list;
	int ret = ask(opts, &unknown, &list);

	FT_CHECK(ret == -FI_ENODATA, "an unknown capability gave %d (%s)", ret,
		 ret ? fi_strerror(-ret) : "results");
	ret = ask(opts, &no_target, &list);
	FT_CHECK(ret == -FI_ENODATA, "an unknown core provider gave %d (%s)", ret,
		 ret ? fi_strerror(-ret) : "results");
	return 0;
}

static int refused(const struct ft_opts *opts, const struct query *query, const char *what)
{
	struct fi_info *list;
	int ret = ask(opts, query, &list);

	fi_freeinfo(list);
	FT_CHECK(ret == -FI_ENODATA, "%s: %s instead of -FI_ENODATA", what,
		 ret ? fi_strerror(-ret) : "results");
	return 0;
}

/* The core has an order of completions, and one tag bit more. */
static int check_promises(const struct ft_opts *opts, const struct names *names)
{
	struct query query = {.prov = names->core, .caps = FI_TAGGED, .mr_mode = CORE_MODES};
	struct fi_info *list;
	int ret = ask(opts, &query, &list), most = 0;

	if (ret)
		return ft_fail(ret, "fi_getinfo", "-p '%s'", names->core);
	for (const struct fi_info *info = list; info; info = info->next)
		if (!strcmp(info->fabric_attr->prov_name, names->core))
			most = FT_MAX(most, bits(info->ep_attr->mem_tag_format));
	fi_freeinfo(list);
	query.prov = names->full;
	query.tag_format = ~0ULL >> (64 - most);
	FT_TRY(refused(opts, &query, "all of the core's tag bits"));
	query.tag_format >>= 1;
	FT_TRY(check_query(opts, &query, names->full));
	query.tag_format = 0;
	query.comp_order = FI_ORDER_STRICT;
	return refused(opts, &query, "an order of completions");
}

/* The first fabric of @prov that @opts lead to. Does an answer name it while it is open (fi_fabric(3))? */
static int names_open(const struct ft_opts *opts, const char *prov, bool *named)
{
	const struct query query = {.prov = prov};
	struct fid_fabric *fabric;
	struct fi_info *info, *again;

	FT_TRY(ask(opts, &query, &info));
	FT_TRY(fi_fabric(info->fabric_attr, &fabric, NULL));
	FT_TRY(ask(opts, &query, &again));
	*named = again->fabric_attr->fabric == fabric;
	fi_freeinfo(again);
	fi_freeinfo(info);
	return fi_close(&fabric->fid);
}

static int check_open(const struct ft_opts *opts, const struct names *names)
{
	bool core, ours;

	FT_TRY(names_open(opts, names->core, &core));
	FT_TRY(names_open(opts, names->full, &ours));
	FT_CHECK(ours == core, "fi_getinfo names an open fabric: %d, and the core's: %d", ours,
		 core);
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct names names;
	char *end;

	if (!proc->opts.prov || !strstr(proc->opts.prov, SUFFIX))
		return ft_skip("-p does not name ofi_p2p");
	snprintf(names.full, sizeof(names.full), "%s", proc->opts.prov);
	snprintf(names.core, sizeof(names.core), "%.*s",
		 (int) (strstr(names.full, SUFFIX) - names.full), names.full);
	snprintf(names.first, sizeof(names.first), "%s", names.core);
	end = strchr(names.first, ';');
	if (end)
		*end = '\0';
	FT_TRY(check_names(&proc->opts, &names));
	FT_TRY(check_addresses(&proc->opts, &names));
	FT_TRY(check_progress(&proc->opts, &names));
	FT_TRY(check_promises(&proc->opts, &names));
	FT_TRY(check_open(&proc->opts, &names));
	return check_refusals(&proc->opts, &names);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "What fi_getinfo says about ofi_p2p.",
		.ranks = 1,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
