/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of what the core's objects are opened with: infos of every kind that applications make, which those free
 * at once. The core here reads what it was given until its object is closed, as sockets does.
 */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_p2p.h>

#include "base/libfabric.h"
#include "core_info.h"
#include "fid/fabric.h"

/* ---- the core ---- */

/**
 * struct opened - an object of the core's.
 * @fid:	what it begins with, in all of them
 * @info:	what it was opened with
 * @text:	what that said then
 */
struct opened {
	union {
		struct fid_domain domain;
		struct fid_ep ep;
		struct fid_pep pep;
	} fid;
	const struct fi_info *info;
	char *text;
};

static unsigned int core_open_count;

static int core_close(struct fid *fid)
{
	struct opened *opened = (struct opened *) fid;

	assert_string_equal(fi_tostr(opened->info, FI_TYPE_INFO), opened->text);
	free(opened->text);
	free(opened);
	core_open_count--;
	return 0;
}

static int core_keep_fabric(struct fid *fid)
{
	return 0;
}

static struct fi_ops core_ops = {.size = sizeof core_ops, .close = core_close};
static struct fi_ops core_fabric_fid_ops = {
	.size = sizeof core_fabric_fid_ops,
	.close = core_keep_fabric,
};

static struct opened *core_open(const struct fi_info *info, size_t fclass)
{
	struct opened *opened = calloc(1, sizeof *opened);

	assert_non_null(opened);
	opened->fid.domain.fid.fclass = fclass;
	opened->fid.domain.fid.ops = &core_ops;
	opened->info = info;
	opened->text = strdup(fi_tostr(info, FI_TYPE_INFO));
	assert_non_null(opened->text);
	core_open_count++;
	return opened;
}

static int core_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			 void *context)
{
	*ep = &core_open(info, FI_CLASS_EP)->fid.ep;
	return 0;
}

static struct fi_ops_domain core_domain_ops = {
	.size = sizeof core_domain_ops,
	.endpoint = core_endpoint,
};

static int core_domain(struct fid_fabric *fabric, struct fi_info *info,
		       struct fid_domain **domain, void *context)
{
	struct opened *opened = core_open(info, FI_CLASS_DOMAIN);

	opened->fid.domain.ops = &core_domain_ops;
	*domain = &opened->fid.domain;
	return 0;
}

static int core_passive_ep(struct fid_fabric *fabric, struct fi_info *info,
			   struct fid_pep **pep, void *context)
{
	*pep = &core_open(info, FI_CLASS_PEP)->fid.pep;
	return 0;
}

static struct fi_ops_fabric core_fabric_ops = {
	.size = sizeof core_fabric_ops,
	.domain = core_domain,
	.passive_ep = core_passive_ep,
};

static struct fid_fabric core_fabric = {
	.fid = {.fclass = FI_CLASS_FABRIC, .ops = &core_fabric_fid_ops},
	.ops = &core_fabric_ops,
};

/* ---- the application ---- */

/* An info as fi_getinfo gives it */
static struct fi_info *info_found(void)
{
	struct fi_info *info = core_make();

	info->caps = NEEDED;
	info->ep_attr->mem_tag_format = TAG_63;
	info->fabric_attr->name = strdup("fabric");
	info->fabric_attr->prov_name = strdup("core;ofi_p2p");
	info->domain_attr->name = strdup("domain");
	info->src_addr = calloc(1, 16);
	info->src_addrlen = 16;
	info->dest_addr = calloc(1, 16);
	info->dest_addrlen = 16;
	return info;
}

/* Takes a part of it away that an application may leave out, so as nothing is freed that is not its own */
static void info_without(struct fi_info *info, size_t part)
{
	static struct fid_nic nobodys;

	if (part == 1) {
		free(info->tx_attr);
		info->tx_attr = NULL;
	} else if (part == 2) {
		free(info->rx_attr);
		info->rx_attr = NULL;
	} else if (part == 3) {
		free(info->fabric_attr->prov_name);
		info->fabric_attr->prov_name = NULL;
	} else if (part == 4) {
		free(info->fabric_attr->name);
		free(info->fabric_attr->prov_name);
		free(info->fabric_attr);
		info->fabric_attr = NULL;
	} else if (part == 5) {
		free(info->domain_attr->name);
		info->domain_attr->name = NULL;
	} else if (part == 6) {
		free(info->src_addr);
		info->src_addr = NULL;
	} else if (part == 7) {
		info->nic = &nobodys;
	}
}

#define PARTS 8

/* Nothing of it is readable as it was. */
static void info_end(struct fi_info *info)
{
	info->nic = NULL;
	info->caps = info->mode = ~0ULL;
	if (info->tx_attr)
		memset(info->tx_attr, 0xff, sizeof *info->tx_attr);
	if (info->rx_attr)
		memset(info->rx_attr, 0xff, sizeof *info->rx_attr);
	lf.freeinfo(info);
}

static void open_all(const struct fid_kind *kind, size_t part)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fi_info *info;
	struct fid_pep *pep;
	struct fid_ep *ep;

	assert_int_equal(fabric_open(&core_fabric, kind, NULL, NULL, &fabric), 0);
	info = info_found();
	info_without(info, part);
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
	info_end(info);
	info = info_found();
	info_without(info, part);
	assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
	info_end(info);
	info = info_found();
	info_without(info, part);
	assert_int_equal(fi_passive_ep(fabric, info, &pep, NULL), 0);
	info_end(info);
	assert_int_equal(core_open_count, 3);
	assert_int_equal(fi_close(&pep->fid), 0);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(core_open_count, 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
}

static void test_hook(void **state)
{
	for (size_t part = 0; part < PARTS; part++)
		open_all(&kind_hook, part);
}

static void test_p2p(void **state)
{
	for (size_t part = 0; part < PARTS; part++)
		open_all(&kind_p2p, part);
}

static int start(void **state)
{
	return libfabric_bind();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hook),
		cmocka_unit_test(test_p2p),
	};
	const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
		.setup = start,
	};

	return unit_main(argc, argv, &unit);
}
