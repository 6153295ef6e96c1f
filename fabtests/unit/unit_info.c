/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of info.c: hints on their way to the cores, answers on their way back, with
 * made-up cores at the borders and with those of the libfabric at hand.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_p2p.h>

#include "base/base.h"
#include "base/libfabric.h"
#include "path/info.h"
#include "path/info_tags.h"
#include "path/quirks.h"
#include "core_info.h"

static void test_tag_bit(void **state)
{
	static const struct {
		uint64_t format;
		uint64_t bit;
	} cases[] = {
		{TAG_63, 1ULL << 63},
		{TAG_64 >> 1, 1ULL << 63},
		{INT64_MAX, 1ULL << 63},
		{1ULL << 62, 1ULL << 63},
		{TAG_64 >> 2, 1ULL << 62},
		{(1ULL << 62) - 1, 1ULL << 62},
		{1ULL << 60, 1ULL << 61},
		{(1ULL << 61) - 1, 1ULL << 61},
		/* too few: the fields of our own tags would not fit below */
		{(1ULL << 60) - 1, 0},
		{1ULL << 59, 0},
		{UINT32_MAX, 0},
		{1, 0},
		{0, 0},
		/* all are the application's */
		{TAG_64, 0},
		{UINT64_MAX, 0},
		{1ULL << 63, 0},
	};

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		if (info_tag_bit(cases[i].format) != cases[i].bit)
			fail_msg("0x%zx: 0x%zx", (size_t) cases[i].format,
				 (size_t) info_tag_bit(cases[i].format));
	}
}

/* What was offered counts: by core, and by whether it has collectives; what nobody has offered stays. */
static void test_offers(void **state)
{
	static const struct {
		const char *core;
		uint64_t caps, format;
	} offers[] = {
		{"one", 0, INT64_MAX},
		{"one", FI_COLLECTIVE, INT64_MAX >> 1},
		{"two", 0, INT64_MAX >> 2},
	};
	struct fi_info *core = core_make();

	core->caps &= ~FI_COLLECTIVE;
	free(core->fabric_attr->prov_name);
	core->fabric_attr->prov_name = strdup("one");
	assert_int_equal(info_offered_format(core, 0xff), 0xff);
	/* often enough to make room for others */
	for (size_t i = 0; i < 100; i++) {
		core->fabric_attr->prov_name[0] = (char) ('A' + i % 50);
		core->ep_attr->mem_tag_format = i;
		info_offer(core);
	}
	for (size_t i = 0; i < UNIT_COUNT(offers); i++) {
		memcpy(core->fabric_attr->prov_name, offers[i].core, 3);
		core->caps = (core->caps & ~FI_COLLECTIVE) | offers[i].caps;
		core->ep_attr->mem_tag_format = offers[i].format;
		info_offer(core);
	}
	for (size_t i = 0; i < UNIT_COUNT(offers); i++) {
		memcpy(core->fabric_attr->prov_name, offers[i].core, 3);
		core->caps = (core->caps & ~FI_COLLECTIVE) | offers[i].caps;
		assert_int_equal(info_offered_format(core, 0), offers[i].format);
		assert_int_equal(info_offered_format(core, UINT64_MAX), offers[i].format);
		assert_int_equal(info_offered_format(core, offers[i].format), offers[i].format);
	}
	fi_freeinfo(core);
}

static void test_names(void **state)
{
	static const struct {
		const char *name, *core, *excluded;
	} cases[] = {
		{NULL, NULL, NULL},
		{"", "", ""},
		{"ofi_p2p", "", ""},
		{"OFI_P2P", "", ""},
		{"tcp", "tcp", ""},
		{"TCP", "TCP", ""},
		{"tcp;ofi_p2p", "tcp", ""},
		{"ofi_p2p;tcp", "tcp", ""},
		{"tcp;ofi_rxm;ofi_p2p", "tcp;ofi_rxm", ""},
		{"tcp;Ofi_P2p;ofi_rxm", "tcp;ofi_rxm", ""},
		{"ofi_p2p;tcp;ofi_p2p;ofi_rxm;ofi_p2p", "tcp;ofi_rxm", ""},
		{"^shm", "", "^shm"},
		{"^ofi_p2p", "", "^ofi_p2p"},
		{"tcp;^ofi_rxm;^ofi_p2p", "tcp", "^ofi_rxm;^ofi_p2p"},
		{"^ofi_rxm;tcp;^shm", "tcp", "^ofi_rxm;^shm"},
		{"ofi_p2p2", "ofi_p2p2", ""},
		{"xofi_p2p;ofi_p2", "xofi_p2p;ofi_p2", ""},
	};
	char *core, *excluded;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = excluded = (char *) 1;
		assert_int_equal(info_name_split(cases[i].name, &core, &excluded), 0);
		if (!cases[i].core) {
			assert_null(core);
			assert_null(excluded);
			continue;
		}
		assert_string_equal(core, cases[i].core);
		assert_string_equal(excluded, cases[i].excluded);
		free(core);
		free(excluded);
	}
}

/* ---- hints ---- */

static void test_hints(void **state)
{
	static const struct {
		struct hints_case in, out;
	} cases[] = {
		{{0}, {.type = FI_EP_RDM}},
		{{.type = FI_EP_RDM}, {.type = FI_EP_RDM}},
		{{.caps = FI_TAGGED}, {.type = FI_EP_RDM, .caps = NEEDED}},
		{{.caps = FI_MSG | FI_HMEM | FI_P2P}, {.type = FI_EP_RDM, .caps = NEEDED}},
		{{.caps = MESSAGES}, {.type = FI_EP_RDM, .caps = MESSAGES}},
		{{.caps = FI_P2P}, {.type = FI_EP_RDM}},
		{{.caps = REMOTE}, {.type = FI_EP_RDM, .caps = NEEDED | REMOTE}},
		{{.tx_caps = FI_MSG | FI_HMEM},
		 {.type = FI_EP_RDM, .tx_caps = NEEDED & ~FI_RECV}},
		{{.rx_caps = FI_TAGGED | FI_SOURCE},
		 {.type = FI_EP_RDM, .rx_caps = (NEEDED & ~FI_SEND) | FI_SOURCE}},
		{{.tx_caps = FI_HMEM, .rx_caps = FI_HMEM}, {.type = FI_EP_RDM}},
		{{.tx_size = 1, .rx_size = 512},
		 {.type = FI_EP_RDM, .tx_size = 1 + R, .rx_size = 512 + R}},
		{{.tx_iov = P2P_IOV_MAX, .rx_iov = 1},
		 {.type = FI_EP_RDM, .tx_iov = P2P_IOV_MAX, .rx_iov = 1}},
		{{.data_size = 4, .format = TAG_63, .progress = FI_PROGRESS_MANUAL},
		 {.type = FI_EP_RDM, .progress = FI_PROGRESS_MANUAL}},
		{{.progress = FI_PROGRESS_AUTO},
		 {.type = FI_EP_RDM, .progress = FI_PROGRESS_AUTO}},
	};
	struct fi_info *hints;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		const struct hints_case *out = &cases[i].out;

		hints = hints_make(&cases[i].in);
		if (info_hints_to_core(hints))
			fail_msg("row %zu is refused", i);
		assert_int_equal(hints->ep_attr->type, out->type);
		assert_int_equal(hints->ep_attr->mem_tag_format, out->format);
		assert_int_equal(hints->caps, out->caps);
		assert_int_equal(hints->tx_attr->caps, out->tx_caps);
		assert_int_equal(hints->rx_attr->caps, out->rx_caps);
		assert_int_equal(hints->tx_attr->size, out->tx_size);
		assert_int_equal(hints->rx_attr->size, out->rx_size);
		assert_int_equal(hints->tx_attr->iov_limit, out->tx_iov);
		assert_int_equal(hints->rx_attr->iov_limit, out->rx_iov);
		assert_int_equal(hints->domain_attr->cq_data_size, out->data_size);
		assert_int_equal(hints->domain_attr->data_progress, out->progress);
		assert_int_equal(hints->domain_attr->mr_mode, FI_MR_PROV_KEY);
		fi_freeinfo(hints);
	}
}

static void test_hints_refused(void **state)
{
	static const struct hints_case cases[] = {
		{.caps = FI_MULTICAST},
		{.caps = FI_TAGGED | 1ULL << 61},
		/* fi_getinfo(3): it requires FI_RMA */
		{.caps = FI_MSG | FI_RMA_PMEM},
		/* operations that wait for counters are for layered endpoints */
		{.type = FI_EP_MSG, .caps = FI_MSG | FI_TRIGGER},
		{.type = FI_EP_DGRAM, .tx_caps = FI_MSG | FI_TRIGGER},
		{.type = FI_EP_DGRAM, .rx_caps = FI_MSG | FI_TRIGGER},
		{.type = FI_EP_DGRAM, .caps = FI_MSG | FI_NAMED_RX_CTX},
		{.tx_caps = FI_MSG | FI_P2P},
		{.rx_caps = FI_MSG | FI_P2P},
		{.data_size = 5},
		{.data_size = 8},
		{.format = TAG_64},
		{.format = 1ULL << 63},
		{.tx_iov = P2P_IOV_MAX + 1},
		{.rx_iov = P2P_IOV_MAX + 1},
		{.rma_iov = 2},
		/* the reserve on top of these is more than there is */
		{.tx_size = SIZE_MAX},
		{.rx_size = SIZE_MAX - R + 1},
	};
	struct fi_info *hints;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		hints = hints_make(&cases[i]);
		if (info_hints_to_core(hints) != -FI_ENODATA)
			fail_msg("row %zu is not refused", i);
		fi_freeinfo(hints);
	}
}

/* All that an application may say it can do; two of it are not for us */
/* Applications may open objects with infos of their own making. */
static void test_opened_without_parts(void **state)
{
	void **parts[] = {NULL, NULL, NULL, NULL, NULL};
	struct fi_info *info;

	for (size_t i = 0; i < UNIT_COUNT(parts); i++) {
		info = core_make();
		parts[0] = (void **) &info->tx_attr;
		parts[1] = (void **) &info->rx_attr;
		parts[2] = (void **) &info->ep_attr;
		parts[3] = (void **) &info->domain_attr;
		parts[4] = (void **) &info->fabric_attr;
		free(*parts[i]);
		*parts[i] = NULL;
		assert_int_equal(info_to_core(info, VERSION), 0);
		info_core_add_maps(info);
		info_core_add_lending(info);
		assert_true(info->caps & FI_READ);
		fi_freeinfo(info);
	}
}

static void test_modes(void **state)
{
	struct fi_info *hints = hints_make(&(struct hints_case){0});

	hints->mode = hints->tx_attr->mode = hints->rx_attr->mode = ~0ULL;
	assert_int_equal(info_hints_to_core(hints), 0);
	assert_int_equal(hints->mode, ~(FI_MSG_PREFIX | 1ULL << 51));
	assert_int_equal(hints->tx_attr->mode, hints->mode);
	assert_int_equal(hints->rx_attr->mode, hints->mode);
	hints->mode = FI_CONTEXT | 1ULL << 51;
	assert_int_equal(info_to_core(hints, VERSION), 0);
	assert_int_equal(hints->mode, FI_CONTEXT);
	fi_freeinfo(hints);
}

static void test_hints_without_parts(void **state)
{
	struct fi_info hints = {.caps = FI_TAGGED | FI_P2P};

	assert_int_equal(info_hints_to_core(&hints), 0);
	assert_int_equal(hints.caps, NEEDED);
}

/* ---- answers ---- */

static void test_core_refused(void **state)
{
	static const struct {
		enum fi_ep_type type;
		uint64_t caps, format;
		size_t data_size, tx_size, rx_size;
		int mr_mode;
		bool fits;
	} cases[] = {
		{FI_EP_RDM, NEEDED, TAG_64, 8, R + 1, R + 1, 0, true},
		{FI_EP_RDM, NEEDED, TAG_64, 16, 1 << 20, 1 << 20, FI_MR_PROV_KEY, true},
		{FI_EP_RDM, NEEDED, TAG_64 >> 1, 8, 99, 99, 0, true},
		{FI_EP_RDM, NEEDED, 1ULL << 61, 8, 99, 99, 0, true},
		{FI_EP_RDM, NEEDED, 1ULL << 60, 8, 99, 99, 0, false},
		{FI_EP_RDM, NEEDED, UINT32_MAX, 8, 99, 99, 0, false},
		{FI_EP_MSG, NEEDED, TAG_64, 8, 99, 99, 0, false},
		{FI_EP_DGRAM, NEEDED, TAG_64, 8, 99, 99, 0, false},
		{FI_EP_RDM, NEEDED & ~FI_TAGGED, TAG_64, 8, 99, 99, 0, false},
		{FI_EP_RDM, NEEDED & ~FI_MSG, TAG_64, 8, 99, 99, 0, false},
		{FI_EP_RDM, NEEDED & ~FI_RECV, TAG_64, 8, 99, 99, 0, false},
		{FI_EP_RDM, NEEDED, TAG_64, 4, 99, 99, 0, false},
		{FI_EP_RDM, NEEDED, TAG_64, 7, 99, 99, 0, false},
		{FI_EP_RDM, NEEDED, TAG_64, 0, 99, 99, 0, false},
		{FI_EP_RDM, NEEDED, TAG_64, 8, R, 99, 0, false},
		{FI_EP_RDM, NEEDED, TAG_64, 8, 99, R, 0, false},
		{FI_EP_RDM, NEEDED, TAG_64, 8, 99, 0, 0, false},
		{FI_EP_RDM, NEEDED, TAG_64, 8, 99, 99, FI_MR_LOCAL, false},
	};
	struct fi_info *core;
	const char *why;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = core_make();
		core->ep_attr->type = cases[i].type;
		core->ep_attr->mem_tag_format = cases[i].format;
		core->caps = cases[i].caps;
		core->domain_attr->cq_data_size = cases[i].data_size;
		core->domain_attr->mr_mode = cases[i].mr_mode;
		core->tx_attr->size = cases[i].tx_size;
		core->rx_attr->size = cases[i].rx_size;
		why = NULL;
		if (info_from_core(NULL, core, VERSION, &why) != cases[i].fits)
			fail_msg("row %zu: %s", i, why ? why : "taken");
		assert_true(cases[i].fits || (why && *why));
		fi_freeinfo(core);
	}

	/* one that offers all of it, and loses what the marks are in */
	core = core_make();
	free(core->fabric_attr->prov_name);
	core->fabric_attr->prov_name = strdup("sm2");
	assert_false(info_from_core(NULL, core, VERSION, &why));
	fi_freeinfo(core);
}

/*
 * What verbs has for the data of a write is not what ofi_rxm's messages carry. Its keys get room
 * for marks beside them, and lose it again.
 */
static void test_core_data(void **state)
{
	static const struct {
		const char *name;
		bool fits;
	} cases[] = {{"verbs;ofi_rxm", true}, {"verbs", false}};
	struct fi_info *core;
	const char *why;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = core_make();
		core->fabric_attr->prov_name = strdup(cases[i].name);
		core->domain_attr->cq_data_size = 4;
		core->domain_attr->mr_key_size = 4;
		assert_int_equal(info_from_core(NULL, core, VERSION, &why), cases[i].fits);
		if (cases[i].fits) {
			assert_int_equal(core->domain_attr->cq_data_size, 4);
			assert_int_equal(core->domain_attr->mr_key_size, 8);
			assert_int_equal(info_to_core(core, VERSION), 0);
			assert_int_equal(core->domain_attr->cq_data_size, 4);
			assert_int_equal(core->domain_attr->mr_key_size, 4);
		}
		fi_freeinfo(core);
	}
}

/* What is offered follows from what was asked for */
static void test_caps(void **state)
{
	const uint64_t secondary = MESSAGES & ~(FI_MSG | FI_TAGGED | SOURCE);
	const struct {
		uint64_t wanted, caps;
	} cases[] = {
		{0, MESSAGES | REMOTE | FI_HMEM | FI_P2P},
		{FI_RMA | FI_HMEM,
		 FI_RMA | secondary | (REMOTE & ~FI_ATOMIC) | FI_HMEM | FI_P2P},
		{FI_MSG, FI_MSG | secondary},
		{FI_MSG | FI_SOURCE, FI_MSG | FI_SOURCE | secondary},
		{FI_MSG | SOURCE, FI_MSG | SOURCE | secondary},
		{FI_MSG | FI_MULTI_RECV, FI_MSG | SOURCE | secondary},
		{FI_TAGGED | FI_RECV, FI_TAGGED | secondary},
		{FI_MSG | FI_HMEM, FI_MSG | secondary | FI_HMEM | FI_P2P},
		{FI_MSG | FI_P2P, FI_MSG | secondary | FI_HMEM | FI_P2P},
	};
	struct fi_info *core, *hints = fi_allocinfo();
	const char *why;

	assert_non_null(hints);
	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = core_make();
		hints->caps = cases[i].wanted;
		hints->domain_attr->mr_mode = i % 2 ? FI_MR_P2P | FI_MR_ALLOCATED : 0;
		assert_true(info_from_core(hints, core, VERSION, &why));
		assert_int_equal(core->caps, cases[i].caps);
		assert_int_equal(core->tx_attr->caps & (FI_RMA | FI_WRITE | FI_P2P),
				 cases[i].caps & FI_RMA ? FI_RMA | FI_WRITE : 0);
		assert_int_equal(core->rx_attr->caps & (FI_REMOTE_READ | FI_P2P),
				 cases[i].caps & FI_RMA ? FI_REMOTE_READ : 0);
		assert_int_equal(core->tx_attr->caps & FI_HMEM, cases[i].caps & FI_HMEM);
		assert_int_equal(core->rx_attr->caps & FI_HMEM, cases[i].caps & FI_HMEM);
		assert_int_equal(core->rx_attr->caps & FI_SOURCE, cases[i].caps & FI_SOURCE);
		assert_int_equal(core->tx_attr->size, 2048 - R);
		assert_int_equal(core->rx_attr->size, 1);
		assert_int_equal(core->tx_attr->iov_limit, P2P_IOV_MAX);
		assert_int_equal(core->rx_attr->iov_limit, 4);
		assert_int_equal(core->tx_attr->comp_order | core->rx_attr->comp_order, 0);
		assert_int_equal(core->domain_attr->mr_mode, hints->domain_attr->mr_mode);
		fi_freeinfo(core);
	}

	/* a part of an endpoint has no more than the whole */
	core = core_make();
	hints->caps = FI_MSG;
	hints->rx_attr->caps = FI_MSG | FI_RECV | FI_SOURCE;
	assert_true(info_from_core(hints, core, VERSION, &why));
	assert_int_equal((core->caps | core->rx_attr->caps) & SOURCE, 0);
	fi_freeinfo(core);
	fi_freeinfo(hints);
}

/* Remote operations with device memory are not in order; who needs one goes without */
static void test_order(void **state)
{
	static const struct {
		uint64_t wanted, tx_order, rx_order, caps, order;
		bool fits;
		size_t raw_size;
	} cases[] = {
		{0, 0, 0, MESSAGES | REMOTE | FI_HMEM | FI_P2P, FI_ORDER_SAS, true},
		{0, 0, FI_ORDER_RAR, MESSAGES | REMOTE, FI_ORDER_STRICT, true},
		{0, FI_ORDER_WAW, 0, MESSAGES | REMOTE, FI_ORDER_STRICT, true},
		{FI_RMA | FI_HMEM, FI_ORDER_SAS, FI_ORDER_SAS,
		 (MESSAGES | REMOTE | FI_HMEM | FI_P2P) &
			 ~(FI_MSG | FI_TAGGED | FI_ATOMIC | SOURCE),
		 FI_ORDER_SAS, true},
		{FI_RMA | FI_HMEM, FI_ORDER_WAW, 0, 0, 0, false},
		{FI_RMA | FI_HMEM, 0, FI_ORDER_SAW, 0, 0, false},
		{FI_RMA | FI_HMEM, 0, 0, 0, 0, false, 8},
		{FI_RMA, 0, 0, (MESSAGES | REMOTE) & ~(FI_MSG | FI_TAGGED | FI_ATOMIC | SOURCE),
		 FI_ORDER_STRICT, true, 8},
		{FI_MSG | FI_HMEM, FI_ORDER_WAW, 0,
		 (MESSAGES | FI_HMEM | FI_P2P) & ~(FI_TAGGED | SOURCE), FI_ORDER_STRICT, true},
	};
	struct fi_info *core, *hints = fi_allocinfo();
	const char *why;

	assert_non_null(hints);
	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = core_make();
		core->tx_attr->msg_order = core->rx_attr->msg_order = FI_ORDER_STRICT;
		hints->caps = cases[i].wanted;
		hints->tx_attr->msg_order = cases[i].tx_order;
		hints->rx_attr->msg_order = cases[i].rx_order;
		hints->ep_attr->max_order_raw_size = cases[i].raw_size;
		why = NULL;
		assert_int_equal(info_from_core(hints, core, VERSION, &why), cases[i].fits);
		assert_true(cases[i].fits || (why && *why));
		if (cases[i].fits) {
			assert_int_equal(core->caps, cases[i].caps);
			assert_int_equal(core->tx_attr->msg_order, cases[i].order);
			assert_int_equal(core->rx_attr->msg_order, cases[i].order);
		}
		fi_freeinfo(core);
	}
	fi_freeinfo(hints);
}

/* What the core keeps, and we do not, is refused where somebody asks for it. */
static void test_asked_too_much(void **state)
{
	static const struct {
		uint64_t tx_order, rx_order;
		uint64_t core_format, format;
		bool fits;
	} cases[] = {
		{0, 0, TAG_64, 0, true},
		{FI_ORDER_STRICT, 0, TAG_64, 0, false},
		{0, FI_ORDER_STRICT, TAG_64, 0, false},
		{FI_ORDER_DATA, 0, TAG_64, 0, false},
		{0, FI_ORDER_DATA, TAG_64, 0, false},
		/* 63 bits, and 62; and names of a layout */
		{0, 0, TAG_64, ~0ULL >> 1, true},
		{0, 0, TAG_64, TAG_63, true},
		{0, 0, 1, ~0ULL >> 1, true},
		{0, 0, TAG_63, ~0ULL >> 1, false},
		{0, 0, TAG_63, 1ULL << 62, false},
		{0, 0, TAG_63, ~0ULL >> 2, true},
		{0, 0, TAG_63, 1ULL << 61, true},
		{0, 0, TAG_63, 1, true},
	};
	struct fi_info *core, *hints;
	const char *why;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = core_make();
		hints = hints_make(&(struct hints_case){.caps = FI_MSG});
		hints->tx_attr->comp_order = cases[i].tx_order;
		hints->rx_attr->comp_order = cases[i].rx_order;
		hints->ep_attr->mem_tag_format = cases[i].format;
		core->ep_attr->mem_tag_format = cases[i].core_format;
		why = NULL;
		if (info_from_core(hints, core, VERSION, &why) != cases[i].fits)
			fail_msg("row %zu: %s", i, why ? why : "taken");
		assert_true(cases[i].fits || (why && *why));
		fi_freeinfo(hints);
		fi_freeinfo(core);
	}
}

/* What fi_scalable_ep() and the like refuse is not promised, whatever the core has. */
static void test_contexts(void **state)
{
	static const struct {
		size_t tx, rx, max_tx, max_rx, max_stx, max_srx;
		enum fi_ep_type type;
		bool fits;
	} cases[] = {
		{.fits = true},
		{.tx = 1, .rx = 1, .max_tx = 1, .max_rx = 1, .fits = true},
		{.tx = 2},
		{.rx = 2},
		{.tx = FI_SHARED_CONTEXT},
		{.rx = FI_SHARED_CONTEXT},
		{.max_tx = 2},
		{.max_rx = 2},
		{.max_stx = 1},
		{.max_srx = 1},
		{.type = FI_EP_MSG, .fits = true},
		{.type = FI_EP_MSG, .tx = 2},
		{.type = FI_EP_MSG, .rx = 2},
		{.type = FI_EP_MSG, .tx = FI_SHARED_CONTEXT},
		{.type = FI_EP_MSG, .max_rx = 2},
		{.type = FI_EP_DGRAM, .max_stx = 1},
		/* receive contexts are shared where no message of ours is among what comes */
		{.type = FI_EP_MSG, .rx = FI_SHARED_CONTEXT, .max_srx = 1, .fits = true},
	};
	struct fi_info *core, *hints;
	const char *why;
	bool shares;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = core_make();
		core->caps |= FI_NAMED_RX_CTX;
		core->ep_attr->type = cases[i].type ? cases[i].type : FI_EP_RDM;
		shares = cases[i].rx == FI_SHARED_CONTEXT;
		core->ep_attr->tx_ctx_cnt = 16;
		core->ep_attr->rx_ctx_cnt = shares ? FI_SHARED_CONTEXT : 16;
		core->domain_attr->max_ep_tx_ctx = core->domain_attr->max_ep_rx_ctx = 16;
		core->domain_attr->max_ep_stx_ctx = core->domain_attr->max_ep_srx_ctx = 16;
		hints = hints_make(&(struct hints_case){.type = cases[i].type, .caps = FI_MSG});
		hints->ep_attr->tx_ctx_cnt = cases[i].tx;
		hints->ep_attr->rx_ctx_cnt = cases[i].rx;
		hints->domain_attr->max_ep_tx_ctx = cases[i].max_tx;
		hints->domain_attr->max_ep_rx_ctx = cases[i].max_rx;
		hints->domain_attr->max_ep_stx_ctx = cases[i].max_stx;
		hints->domain_attr->max_ep_srx_ctx = cases[i].max_srx;
		why = NULL;
		if (info_from_core(hints, core, VERSION, &why) != cases[i].fits)
			fail_msg("row %zu: %s", i, why ? why : "taken");
		assert_true(cases[i].fits || (why && *why));
		if (cases[i].fits) {
			assert_int_equal(core->ep_attr->tx_ctx_cnt, 1);
			assert_int_equal(core->ep_attr->rx_ctx_cnt,
					 shares ? FI_SHARED_CONTEXT : 1);
			assert_int_equal(core->caps & FI_NAMED_RX_CTX, 0);
			assert_int_equal(core->domain_attr->max_ep_tx_ctx, 1);
			assert_int_equal(core->domain_attr->max_ep_rx_ctx, 1);
			assert_int_equal(core->domain_attr->max_ep_stx_ctx, 0);
			assert_int_equal(core->domain_attr->max_ep_srx_ctx,
					 cases[i].type ? 16 : 0);
		}
		fi_freeinfo(hints);
		fi_freeinfo(core);
	}
}

/* Automatic where it was asked for and the core has it, whatever it offers unasked */
static void test_progress(void **state)
{
	static const struct {
		enum fi_progress asked, core, ours;
	} cases[] = {
		{FI_PROGRESS_UNSPEC, FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL},
		{FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL},
		{FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL},
		{FI_PROGRESS_AUTO, FI_PROGRESS_AUTO, FI_PROGRESS_AUTO},
		{FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL, FI_PROGRESS_UNSPEC},
	};
	struct fi_info *hints, *core;
	const char *why;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		hints = hints_make(&(struct hints_case){.progress = cases[i].asked});
		core = core_make();
		core->domain_attr->data_progress = cases[i].core;
		assert_int_equal(info_from_core(hints, core, VERSION, &why),
				 cases[i].ours != 0);
		if (cases[i].ours)
			assert_int_equal(core->domain_attr->data_progress, cases[i].ours);
		/* and it is our thread, not one of the core's, that makes it so */
		assert_int_equal(info_to_core(core, VERSION), 0);
		if (cases[i].ours)
			assert_int_equal(core->domain_attr->data_progress, FI_PROGRESS_MANUAL);
		fi_freeinfo(core);
		fi_freeinfo(hints);
	}
}

/* Endpoints without a protocol of ours: the core's, but for device memory */
static void test_plain(void **state)
{
	static const struct {
		enum fi_ep_type type;
		uint64_t wanted, core, caps;
		bool fits;
	} cases[] = {
		{FI_EP_MSG, FI_MSG, FI_MSG, FI_MSG, true},
		{FI_EP_MSG, FI_MSG | FI_HMEM, FI_MSG, FI_MSG | FI_HMEM | FI_P2P, true},
		/* kinds of memory alone are those of messages, and not of anything */
		{FI_EP_DGRAM, FI_HMEM, FI_MSG, FI_MSG | FI_HMEM | FI_P2P, true},
		{FI_EP_DGRAM, FI_MSG | FI_P2P, FI_MSG, FI_MSG | FI_HMEM | FI_P2P, true},
		{FI_EP_MSG, FI_RMA | FI_WRITE, FI_RMA | FI_WRITE, FI_RMA | FI_WRITE, true},
		{FI_EP_MSG, 0, FI_MSG | FI_RMA, FI_MSG | FI_RMA, true},
		{FI_EP_MSG, 0, FI_MSG, FI_MSG | FI_HMEM | FI_P2P, true},
		{FI_EP_MSG, 0, FI_MSG | FI_TRIGGER, FI_MSG | FI_HMEM | FI_P2P, true},
		/* peers could not reach it */
		{FI_EP_MSG, FI_RMA | FI_HMEM, FI_RMA, 0, false},
	};
	struct fi_info *core, *hints;
	const char *why;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		hints = hints_make(&(struct hints_case){.type = cases[i].type,
							.caps = cases[i].wanted,
							.data_size = 8});
		core = fi_dupinfo(hints);
		assert_int_equal(info_hints_to_core(core), 0);
		assert_int_equal(core->caps, cases[i].wanted == FI_HMEM
						     ? FI_MSG
						     : cases[i].wanted & ~(FI_HMEM | FI_P2P));
		assert_int_equal(core->domain_attr->cq_data_size, 8);
		assert_int_equal(core->ep_attr->type, cases[i].type);
		assert_int_equal(core->domain_attr->mr_mode, FI_MR_LOCAL | FI_MR_PROV_KEY);
		fi_freeinfo(core);

		core = core_make();
		core->ep_attr->type = cases[i].type;
		core->caps = cases[i].core;
		core->tx_attr->caps |= FI_TRIGGER;
		core->rx_attr->caps |= FI_TRIGGER;
		why = NULL;
		assert_int_equal(info_from_core(hints, core, VERSION, &why), cases[i].fits);
		if (cases[i].fits) {
			assert_int_equal(core->caps, cases[i].caps);
			assert_int_equal((core->tx_attr->caps | core->rx_attr->caps) &
						 FI_TRIGGER,
					 0);
			assert_int_equal(core->tx_attr->size, 2048);
			assert_int_equal(info_to_core(core, VERSION), 0);
			assert_int_equal(core->caps, cases[i].core & ~FI_TRIGGER);
		}
		assert_true(cases[i].fits || (why && *why));
		fi_freeinfo(core);
		fi_freeinfo(hints);
	}
}

/* ---- there and back, with real cores ---- */

/* What of the core's capabilities is handed through */
static uint64_t handed(const struct fi_info *core, uint64_t caps)
{
	caps &= MESSAGES | REMOTE;
	return quirks_of(core, fi_version()) & QUIRK_UNCOUNTED ? caps & ~FI_RMA_EVENT : caps;
}

static void check_ours(const struct fi_info *ours, const struct fi_info *core)
{
	uint64_t format = ours->ep_attr->mem_tag_format, bit = info_tag_bit(format);

	assert_int_equal(ours->caps, handed(core, core->caps) | FI_HMEM | FI_P2P);
	assert_int_equal(ours->tx_attr->caps, handed(core, core->tx_attr->caps) | FI_HMEM);
	assert_int_equal(ours->rx_attr->caps, handed(core, core->rx_attr->caps) | FI_HMEM);
	assert_int_equal(ours->tx_attr->size, core->tx_attr->size - R);
	assert_int_equal(ours->rx_attr->size, core->rx_attr->size - R);
	assert_in_range(ours->tx_attr->iov_limit, 1, P2P_IOV_MAX);
	assert_int_equal(ours->domain_attr->cq_data_size, 4);
	assert_int_equal(ours->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	/* our bit is above the application's, and one that the core has */
	assert_true(bit > format);
	assert_true(bit < core->ep_attr->mem_tag_format * 2 ||
		    core->ep_attr->mem_tag_format >> 63 || bit == 1ULL << 63);
}

static void check_core_again(const struct fi_info *info, const struct fi_info *core)
{
	assert_string_equal(info->fabric_attr->prov_name, core->fabric_attr->prov_name);
	assert_int_equal(info->caps, handed(core, core->caps));
	assert_int_equal(info->tx_attr->caps, handed(core, core->tx_attr->caps));
	assert_int_equal(info->rx_attr->caps, handed(core, core->rx_attr->caps));
	assert_int_equal(info->tx_attr->size, core->tx_attr->size);
	assert_int_equal(info->rx_attr->size, core->rx_attr->size);
	assert_in_range(info->domain_attr->cq_data_size, 4, core->domain_attr->cq_data_size);
	assert_int_equal(info->domain_attr->mr_mode & FI_MR_P2P, 0);
}

/* Our answer made from @core, as libfabric gives it to the application */
static void check_core(const struct fi_info *core)
{
	struct fi_info *info = fi_dupinfo(core), *found = NULL;
	char name[128];
	const char *why;

	assert_non_null(info);
	if (!info_from_core(NULL, info, fi_version(), &why))
		fail_msg("%s: %s", core->fabric_attr->prov_name, why);
	check_ours(info, core);
	snprintf(name, sizeof name, "%s;" P2P_NAME, core->fabric_attr->prov_name);
	free(info->fabric_attr->prov_name);
	info->fabric_attr->prov_name = strdup(name);
	assert_int_equal(info_to_core(info, fi_version()), 0);
	check_core_again(info, core);
	/* and it is one that the core knows as its own */
	assert_int_equal(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, info, &found), 0);
	assert_string_equal(found->fabric_attr->prov_name, core->fabric_attr->prov_name);
	fi_freeinfo(found);
	fi_freeinfo(info);
}

static void test_real_cores(void **state)
{
	static const char *const names[] = {"tcp;ofi_rxm", "net", "shm"};
	struct fi_info *hints, *list, *core;
	int checked = 0;

	for (size_t i = 0; i < UNIT_COUNT(names); i++) {
		hints = hints_make(&(struct hints_case){0});
		hints->fabric_attr->prov_name = strdup(names[i]);
		hints->mode = FI_CONTEXT | FI_CONTEXT2;
		assert_int_equal(info_hints_to_core(hints), 0);
		list = NULL;
		if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &list))
			print_message("%s: not in this libfabric\n", names[i]);
		for (core = list; core; core = core->next) {
			check_core(core);
			checked++;
		}
		fi_freeinfo(list);
		fi_freeinfo(hints);
	}
	assert_true(checked);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tag_bit),
		cmocka_unit_test(test_offers),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_hints_refused),
		cmocka_unit_test(test_hints_without_parts),
		cmocka_unit_test(test_opened_without_parts),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_core_refused),
		cmocka_unit_test(test_core_data),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_asked_too_much),
		cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_progress),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_real_cores),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
