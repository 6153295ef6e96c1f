/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_installed: being installed changes nothing that a program sees which does not want ofi_p2p. Three processes
 * ask libfabric the same questions: the first one has no plugins, the second has ours, and the third has the hook
 * around all fabrics. What is not ours has to be the same in their answers, in order.
 *
 * The questions are all kinds of hints, at every version of the API. A process that crashes fails the test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ft_test.h"

#define RANKS 3
#define OURS "p2p" /* in the names of our providers, and of no other */

/**
 * struct parts - all that hints may point at; static, as answers tell addresses, and ranks compare them
 * @info:	points at them, until a question takes one away
 */
struct parts {
	struct fi_info info;
	struct fi_tx_attr tx;
	struct fi_rx_attr rx;
	struct fi_ep_attr ep;
	struct fi_domain_attr domain;
	struct fi_fabric_attr fabric;
	struct fid_nic nic;
	struct fi_device_attr device;
	struct fi_bus_attr bus;
	struct fi_link_attr link;
	struct fid_domain domain_fid;
	struct fid_fabric fabric_fid;
	uint8_t bytes[128];
};

/* All of it zeroed, and the objects not opened by anybody */
static void parts_init(struct parts *parts)
{
	memset(parts, 0, sizeof(*parts));
	parts->info.tx_attr = &parts->tx;
	parts->info.rx_attr = &parts->rx;
	parts->info.ep_attr = &parts->ep;
	parts->info.domain_attr = &parts->domain;
	parts->info.fabric_attr = &parts->fabric;
}

/* ---- what questions change of hints that are zeroed, or those of a provider ---- */

static void keep(struct parts *p, struct fi_info *info)
{
}

static void no_tx(struct parts *p, struct fi_info *info)
{
	info->tx_attr = NULL;
}

static void no_rx(struct parts *p, struct fi_info *info)
{
	info->rx_attr = NULL;
}

static void no_ep(struct parts *p, struct fi_info *info)
{
	info->ep_attr = NULL;
}

static void no_domain(struct parts *p, struct fi_info *info)
{
	info->domain_attr = NULL;
}

static void no_fabric(struct parts *p, struct fi_info *info)
{
	info->fabric_attr = NULL;
}

static void nothing(struct parts *p, struct fi_info *info)
{
	memset(info, 0, sizeof(*info));
}

/*
 * It has no operations. libfabric 2.x copies hints of programs that were built with 1.x, and crashes when it calls the
 * copy operation of their NIC (fi_getinfo_1_7()), with no plugins, too. So they leave out the NIC.
 */
static void zeroed_nic(struct parts *p, struct fi_info *info)
{
	if (FI_MAJOR(fi_version()) == FI_MAJOR_VERSION)
		info->nic = &p->nic;
}

static void nic_of_zeroes(struct parts *p, struct fi_info *info)
{
	p->nic.device_attr = &p->device;
	p->nic.bus_attr = &p->bus;
	p->nic.link_attr = &p->link;
	zeroed_nic(p, info);
}

static void no_nic(struct parts *p, struct fi_info *info)
{
	info->nic = NULL;
}

static void no_names(struct parts *p, struct fi_info *info)
{
	if (info->fabric_attr)
		info->fabric_attr->name = info->fabric_attr->prov_name = NULL;
	if (info->domain_attr)
		info->domain_attr->name = NULL;
}

static void empty_addresses(struct parts *p, struct fi_info *info)
{
	info->src_addr = info->dest_addr = p->bytes;
	info->src_addrlen = info->dest_addrlen = 0;
}

static void no_addresses(struct parts *p, struct fi_info *info)
{
	info->src_addr = info->dest_addr = NULL;
	info->src_addrlen = info->dest_addrlen = 0;
}

static void empty_keys(struct parts *p, struct fi_info *info)
{
	p->ep.auth_key = p->domain.auth_key = p->bytes;
	info->ep_attr = &p->ep;
	info->domain_attr = &p->domain;
}

static void zeroed_objects(struct parts *p, struct fi_info *info)
{
	p->domain.domain = &p->domain_fid;
	p->fabric.fabric = &p->fabric_fid;
	info->domain_attr = &p->domain;
	info->fabric_attr = &p->fabric;
}

static void zeroed_handle(struct parts *p, struct fi_info *info)
{
	info->handle = &p->domain_fid.fid;
}

/* What NVSHMEM asks for */
static void remote_memory(struct parts *p, struct fi_info *info)
{
	zeroed_nic(p, info);
	info->caps = FI_RMA | FI_HMEM | FI_ATOMIC;
	p->ep.type = FI_EP_RDM;
	p->tx.op_flags = FI_DELIVERY_COMPLETE;
	p->domain.threading = FI_THREAD_SAFE;
	p->domain.mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
}

static void all_modes(struct parts *p, struct fi_info *info)
{
	zeroed_nic(p, info);
	info->mode = ~0ULL;
	if (info->domain_attr)
		info->domain_attr->mr_mode = ~3;
}

typedef void (*change_fn)(struct parts *p, struct fi_info *info);

static const change_fn changes[] = {
	keep,          no_tx,      no_rx,         no_ep,           no_domain,    no_fabric,
	nothing,       zeroed_nic, nic_of_zeroes, empty_addresses, no_addresses, zeroed_objects,
	zeroed_handle, empty_keys, remote_memory, all_modes,
};

/* Of what a provider has answered. Without addresses, for shm prints one that has no end */
static const change_fn found_changes[] = {
	keep,      no_tx,  no_rx,      no_ep,        no_domain,
	no_fabric, no_nic, zeroed_nic, no_addresses, no_names,
};

/* ---- answers ---- */

/* Where a question's answer is written: text, without what is ours */
struct answer {
	FILE *file;
	char *text;
	size_t len;
};

/* Addresses of shm and sm2 end with the number of the process: it goes, and so does its length. */
static void cut_pid(void *addr, size_t *len)
{
	static const char prefixes[][10] = {"fi_shm://", "fi_sm2://"};
	const size_t prefix = sizeof(prefixes[0]);

	if (!addr || *len < prefix ||
	    (memcmp(addr, prefixes[0], prefix - 1) && memcmp(addr, prefixes[1], prefix - 1)))
		return;
	*len = prefix;
	((char *) addr)[*len - 1] = '\0';
}

static bool is_ours(const struct fi_info *info)
{
	return info->fabric_attr && info->fabric_attr->prov_name &&
	       strstr(info->fabric_attr->prov_name, OURS);
}

static const char *nic_name(const struct fi_info *info)
{
	return info->nic && info->nic->device_attr ? info->nic->device_attr->name : NULL;
}

static bool has_nic(const struct fi_info *list, const char *name)
{
	for (; list; list = list->next)
		if (!is_ours(list) && nic_name(list) && !strcmp(nic_name(list), name))
			return true;
	return false;
}

/*
 * Programs look for RDMA devices among all infos that have a NIC. They compare its name, and what they find, they take:
 * where no provider is named, it has to be one that is there without us.
 */
static void print_nics(FILE *file, bool named, const struct fi_info *list)
{
	for (const struct fi_info *info = list; info; info = info->next) {
		if (!info->nic)
			continue;
		if (!nic_name(info))
			fprintf(file, "a NIC of %s has no name\n",
				info->fabric_attr->prov_name);
		else if (!named && !has_nic(list, nic_name(info)))
			fprintf(file, "NIC %s is there for %s alone\n", nic_name(info),
				info->fabric_attr->prov_name);
	}
}

/* A question that only we answer is one that is not answered without us. */
static void print_answer(FILE *file, int ret, struct fi_info *list)
{
	bool others = false;

	for (; !ret && list; list = list->next) {
		if (is_ours(list))
			continue;
		others = true;
		cut_pid(list->src_addr, &list->src_addrlen);
		cut_pid(list->dest_addr, &list->dest_addrlen);
		fprintf(file, "%s", fi_tostr(list, FI_TYPE_INFO));
	}
	if (!others)
		fprintf(file, "%s\n", fi_strerror(ret ? -ret : FI_ENODATA));
}

static void ask(struct answer *answer, uint32_t version, const char *node, uint64_t flags,
		const struct fi_info *hints)
{
	struct fi_info *list = NULL;
	int ret = fi_getinfo(version, node, node ? "7471" : NULL, flags, hints, &list);

	fprintf(answer->file, "version %u.%u node %s flags %#llx\n", FI_MAJOR(version),
		FI_MINOR(version), node ? node : "-", (unsigned long long) flags);
	print_answer(answer->file, ret, list);
	if (ret)
		return;
	print_nics(answer->file,
		   getenv("FI_PROVIDER") ||
			   (hints && hints->fabric_attr && hints->fabric_attr->prov_name),
		   list);
	fi_freeinfo(list);
}

/* ---- the processes ---- */

/* Where texts differ first: the line of @text, for the eye */
static const char *line_of(const char *text, size_t at, int *len)
{
	size_t start = at;

	while (start && text[start - 1] != '\n')
		start--;
	*len = (int) strcspn(text + start, "\n");
	return text + start;
}

static int check_same(const char *right, const char *other, const char *who, const char *what,
		      size_t number)
{
	const char *lines[2];
	size_t at = 0;
	int len[2];

	while (right[at] && right[at] == other[at])
		at++;
	lines[0] = line_of(right, at, &len[0]);
	lines[1] = line_of(other, at, &len[1]);
	FT_CHECK(right[at] == other[at], "%s %zu: with %s installed it is '%.*s', not '%.*s'",
		 what, number, who, len[1], lines[1], len[0], lines[0]);
	return 0;
}

/* The first one has the text that is right. */
static int compare(struct ft_proc *proc, struct answer *answer, const char *what, size_t number)
{
	size_t len;
	char *other;

	if (fclose(answer->file))
		return ft_errno("fclose", "answer");
	if (proc->rank) {
		FT_TRY(ft_oob_send(proc->fd[0], &answer->len, sizeof(answer->len)));
		FT_TRY(ft_oob_send(proc->fd[0], answer->text, answer->len));
		free(answer->text);
		return 0;
	}
	for (int rank = 1; rank < RANKS; rank++) {
		FT_TRY(ft_oob_recv(proc->fd[rank], &len, sizeof(len), proc->opts.timeout));
		other = calloc(1, len + 1);
		if (!other)
			return ft_errno("calloc", "answer");
		FT_TRY(ft_oob_recv(proc->fd[rank], other, len, proc->opts.timeout));
		FT_TRY(check_same(answer->text, other, rank == 1 ? "the provider" : "the hook",
				  what, number));
		free(other);
	}
	free(answer->text);
	return 0;
}

static int begin(struct answer *answer)
{
	answer->file = open_memstream(&answer->text, &answer->len);
	return answer->file ? 0 : ft_errno("open_memstream", "answer");
}

/* Hints of zeroes with one change, at every version */
static int ask_zeroed(struct ft_proc *proc)
{
	const uint32_t newest = fi_version();
	struct answer answer;
	static struct parts parts;

	for (size_t i = 0; i < FT_COUNT(changes); i++) {
		FT_TRY(begin(&answer));
		for (uint32_t version = FI_VERSION(1, 0); version <= newest;
		     version = version == FI_VERSION(1, 22) ? FI_VERSION(2, 0) : version + 1) {
			parts_init(&parts);
			changes[i](&parts, &parts.info);
			ask(&answer, version, NULL, 0, &parts.info);
		}
		FT_TRY(compare(proc, &answer, "zeroed hints with change", i));
	}
	return 0;
}

/* What a provider has answered, given back as hints, with one change */
static int ask_found(struct ft_proc *proc, const struct fi_info *found, size_t number)
{
	static struct parts parts;
	struct answer answer;
	struct fi_info *hints;

	FT_TRY(begin(&answer));
	for (size_t i = 0; i < FT_COUNT(found_changes); i++) {
		hints = fi_dupinfo(found);
		if (!hints)
			return ft_errno("fi_dupinfo", "hints");
		/* what is taken away here is not freed */
		parts_init(&parts);
		parts.info = *hints;
		parts.domain = *hints->domain_attr;
		parts.fabric = *hints->fabric_attr;
		parts.info.domain_attr = &parts.domain;
		parts.info.fabric_attr = &parts.fabric;
		found_changes[i](&parts, &parts.info);
		ask(&answer, fi_version(), NULL, 0, &parts.info);
		fi_freeinfo(hints);
	}
	return compare(proc, &answer, "answer given back", number);
}

/* One of each provider and type of endpoint is enough. */
static bool like_the_last(const struct fi_info *info, const struct fi_info *last)
{
	return last && !strcmp(info->fabric_attr->prov_name, last->fabric_attr->prov_name) &&
	       info->ep_attr->type == last->ep_attr->type;
}

static int ask_all_found(struct ft_proc *proc)
{
	const struct fi_info *last = NULL;
	struct fi_info *list;
	size_t number = 0;
	int ret = fi_getinfo(fi_version(), NULL, NULL, 0, NULL, &list);

	if (ret)
		return ft_fail(ret, "fi_getinfo", "without hints");
	for (const struct fi_info *info = list; info; info = info->next) {
		if (is_ours(info) || like_the_last(info, last))
			continue;
		last = info;
		FT_TRY(ask_found(proc, info, number++));
	}
	fi_freeinfo(list);
	return 0;
}

/* Other arguments than hints */
static int ask_otherwise(struct ft_proc *proc)
{
	static const uint64_t flags[] = {0, FI_SOURCE, FI_NUMERICHOST, FI_PROV_ATTR_ONLY};
	static const char *const nodes[] = {NULL, "127.0.0.1"};
	struct answer answer;
	static struct parts parts;

	FT_TRY(begin(&answer));
	for (size_t i = 0; i < FT_COUNT(flags) * FT_COUNT(nodes); i++) {
		const char *node = nodes[i / FT_COUNT(flags)];

		ask(&answer, fi_version(), node, flags[i % FT_COUNT(flags)], NULL);
		parts_init(&parts);
		zeroed_nic(&parts, &parts.info);
		ask(&answer, fi_version(), node, flags[i % FT_COUNT(flags)], &parts.info);
	}
	return compare(proc, &answer, "arguments", 0);
}

static int run(struct ft_proc *proc)
{
	if (proc->opts.prov && !strstr(proc->opts.prov, "ofi_rxm"))
		return ft_skip(
			"all providers are asked, which once is enough: over tcp;ofi_rxm");
	/* no call of libfabric's has been made yet */
	if (!proc->rank)
		setenv("FI_PROVIDER_PATH", "/nonexistent", 1);
	if (proc->rank == 2)
		setenv("FI_HOOK", OURS, 1);
	FT_TRY(ask_otherwise(proc));
	FT_TRY(ask_zeroed(proc));
	return ask_all_found(proc);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Being installed changes nothing for who does not want ofi_p2p.",
		.ranks = RANKS,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
