/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_as: a program that looks for "efa" alone, and for domains whose names end in "-rdm", finds ofi_p2p there with
 * FI_P2P_AS. It asks for a domain by its name, and opens all that takes an info. Names below ofi_p2p are refused.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ft_test.h"

#define NAME "efa"
#define SUFFIX "-rdm"

static struct fi_info *hints_for(const struct ft_proc *proc, const char *domain)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_TAGGED | FI_HMEM;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_HMEM | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT;
	hints->fabric_attr->prov_name = strdup(NAME);
	hints->domain_attr->name = domain ? strdup(domain) : NULL;
	return hints;
}

/* In a process of its own: libfabric reads the variable once. Is the provider of the test still there? */
static int refused(const struct ft_proc *proc, const char *value)
{
	struct fi_info *hints, *list;
	pid_t child = fork();
	int status;

	if (!child) {
		setenv("FI_P2P_AS", value, 1);
		hints = hints_for(proc, NULL);
		free(hints->fabric_attr->prov_name);
		hints->fabric_attr->prov_name = strdup(proc->opts.prov);
		_exit(!!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &list));
	}
	FT_CHECK(waitpid(child, &status, 0) == child && !status,
		 "FI_P2P_AS=%s: no provider %s; status 0x%x", value, proc->opts.prov, status);
	return 0;
}

static int names_are(const struct fi_info *info)
{
	const char *name = info->domain_attr->name;

	FT_CHECK(!strcmp(info->fabric_attr->prov_name, NAME), "one is called %s",
		 info->fabric_attr->prov_name);
	FT_CHECK(strlen(name) > strlen(SUFFIX) &&
			 !strcmp(name + strlen(name) - strlen(SUFFIX), SUFFIX),
		 "a domain is called %s", name);
	return 0;
}

/* Entries that this build does not know: ofi_p2p has the first, and the second is one of no release. */
static int entries_behind(struct fid_domain *domain)
{
	typedef int (*entry)(struct fid_domain * domain, void *, void *, void *);
	const size_t last = offsetof(struct fi_ops_domain, endpoint2) / sizeof(entry);
	const entry *table = (const entry *) (const void *) domain->ops;
	void *made = NULL;

	FT_CHECK(domain->ops->size > (last + 1) * sizeof(entry), "the table has %zu bytes",
		 domain->ops->size);
	FT_CHECK(table[last + 1](domain, NULL, &made, NULL) < 0, "the first was called");
	FT_CHECK(table[last + 2](domain, NULL, &made, NULL) == -FI_ENOSYS,
		 "the second was called");
	return 0;
}

static int open_all(struct fi_info *info)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *eps[2];
	struct fid_cq *cq;
	struct fid_av *av;
	int ret = fi_fabric(info->fabric_attr, &fabric, NULL);

	if (!ret)
		ret = fi_domain(fabric, info, &domain, NULL);
	if (!ret)
		FT_TRY(entries_behind(domain));
	if (!ret)
		ret = fi_cq_open(domain, &cq_attr, &cq, NULL);
	if (!ret)
		ret = fi_av_open(domain, &av_attr, &av, NULL);
	if (!ret)
		ret = fi_endpoint(domain, info, &eps[0], NULL);
	if (!ret)
		ret = fi_endpoint2(domain, info, &eps[1], 0, NULL);
	for (size_t i = 0; i < FT_COUNT(eps) && !ret; i++) {
		ret = fi_ep_bind(eps[i], &cq->fid, FI_TRANSMIT | FI_RECV);
		if (!ret)
			ret = fi_ep_bind(eps[i], &av->fid, 0);
		if (!ret)
			ret = fi_enable(eps[i]);
	}
	if (ret)
		return ft_fail(ret, "opening", "%s", info->domain_attr->name);
	for (size_t i = 0; i < FT_COUNT(eps) && !ret; i++)
		ret = fi_close(&eps[i]->fid);
	if (!ret)
		ret = fi_close(&av->fid);
	if (!ret)
		ret = fi_close(&cq->fid);
	if (!ret)
		ret = fi_close(&domain->fid);
	if (!ret)
		ret = fi_close(&fabric->fid);
	return ret ? ft_fail(ret, "fi_close", "at the end") : 0;
}

static int run(struct ft_proc *proc)
{
	char value[256];
	struct fi_info *hints, *list, *again;
	int ret;

	FT_TRY(refused(proc, "ofi_p2p"));
	FT_TRY(refused(proc, "ofi_rxm"));
	FT_TRY(refused(proc, "tcp=ofi_rxm;tcp"));
	snprintf(value, sizeof(value), NAME "=%s", proc->opts.prov);
	setenv("FI_P2P_AS", value, 1);
	hints = hints_for(proc, NULL);
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &list);
	fi_freeinfo(hints);
	if (ret)
		return ft_fail(ret, "fi_getinfo", NAME);
	for (struct fi_info *info = list; info; info = info->next)
		FT_TRY(names_are(info));
	hints = hints_for(proc, list->domain_attr->name);
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &again);
	fi_freeinfo(hints);
	if (ret)
		return ft_fail(ret, "fi_getinfo", "by the name %s", list->domain_attr->name);
	FT_CHECK(!strcmp(again->domain_attr->name, list->domain_attr->name),
		 "asked for %s, got %s", list->domain_attr->name, again->domain_attr->name);
	FT_TRY(open_all(again));
	fi_freeinfo(again);
	fi_freeinfo(list);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Another provider's name.",
		.ranks = 1,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
