/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Capabilities that are ours to offer, whatever the core has: path/info.c. */
#include "unit.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_p2p.h>

#include "base/base.h"
#include "base/conf.h"
#include "base/libfabric.h"
#include "path/quirks.h"
#include "core_info.h"

/* Accesses of peers are counted by the core, or by us for those who ask for it */
static void test_events(void **state)
{
	static const struct {
		const char *name;
		uint32_t version;
		uint64_t wanted, order;
		bool events, all, ordered, fits;
	} cases[] = {
		{"shm", VERSION, FI_RMA, 0, true, false, true, true},
		{"shm", VERSION, FI_RMA | FI_RMA_EVENT, FI_ORDER_WAW, true, false, true, true},
		{"tcp", VERSION, 0, 0, false, false, false, true},
		{"tcp", VERSION, FI_RMA, FI_ORDER_WAW, false, false, true, true},
		{"tcp", VERSION, FI_RMA | FI_RMA_EVENT, 0, true, true, false, true},
		{"net", NET_VERSION, FI_RMA | FI_RMA_EVENT | FI_HMEM, 0, true, true, false,
		 true},
		{"tcp", VERSION, FI_RMA | FI_RMA_EVENT, FI_ORDER_WAW, false, false, false,
		 false},
		{"tcp", VERSION, FI_MSG | FI_RMA_EVENT, FI_ORDER_WAW, false, false, true, true},
	};
	struct fi_info *core, *hints = fi_allocinfo();
	const char *why;
	uint64_t mark;
	uint64_t quirks;
	bool ours;

	assert_non_null(hints);
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		const uint64_t event = cases[i].events ? FI_RMA_EVENT : 0;

		core = core_make();
		core->fabric_attr->prov_name = strdup(cases[i].name);
		core->tx_attr->msg_order = core->rx_attr->msg_order = FI_ORDER_STRICT;
		core->rx_attr->caps |= FI_RMA_EVENT;
		hints->caps = cases[i].wanted;
		hints->tx_attr->msg_order = cases[i].order;
		quirks = quirks_of(core, cases[i].version);
		assert_int_equal(info_from_core(hints, core, cases[i].version, &why),
				 cases[i].fits);
		if (cases[i].fits) {
			assert_int_equal(core->caps & FI_RMA_EVENT, event);
			assert_int_equal(core->rx_attr->caps & FI_RMA_EVENT, event);
			assert_int_equal(info_serves_all(core, quirks), cases[i].all);
			assert_int_equal(core->tx_attr->msg_order,
					 cases[i].ordered ? FI_ORDER_STRICT : FI_ORDER_SAS);
		}
		if (cases[i].all) {
			info_keys(core, true, &mark, &ours);
			assert_int_equal(mark, 1ULL << 63);
			core->domain_attr->mr_mode = 0;
			info_keys(core, true, &mark, &ours);
			assert_true(!mark && ours);
		}
		fi_freeinfo(core);
	}
	fi_freeinfo(hints);
}

/* Persistent memory is ours to see to, for who asks for it, whatever the core has. */
static void test_pmem(void **state)
{
	static const struct {
		uint64_t core, wanted, flags;
		uint64_t caps, core_flags;
	} cases[] = {
		{0, FI_RMA | FI_RMA_PMEM, FI_COMMIT_COMPLETE, FI_RMA_PMEM,
		 FI_DELIVERY_COMPLETE},
		{FI_RMA_PMEM, FI_RMA | FI_RMA_PMEM, 0, FI_RMA_PMEM, 0},
		{FI_RMA_PMEM, FI_RMA | FI_RMA_PMEM, FI_COMMIT_COMPLETE | FI_INJECT, FI_RMA_PMEM,
		 FI_DELIVERY_COMPLETE | FI_INJECT},
		{FI_RMA_PMEM, FI_RMA, 0, 0, 0},
		{FI_RMA_PMEM, 0, 0, 0, 0},
		/* not asked for, so it is the core's to answer */
		{0, FI_RMA, FI_COMMIT_COMPLETE, 0, FI_COMMIT_COMPLETE},
	};
	struct fi_info *core, *hints, *asked;
	const char *why;
	uint64_t mark;
	bool ours;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		hints = hints_make(&(struct hints_case){.caps = cases[i].wanted});
		hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
		hints->tx_attr->op_flags = cases[i].flags;
		asked = fi_dupinfo(hints);
		assert_int_equal(info_hints_to_core(asked), 0);
		assert_int_equal(asked->caps & FI_RMA_PMEM, 0);
		assert_int_equal(asked->tx_attr->op_flags, cases[i].core_flags);
		core = core_make();
		core->caps |= cases[i].core;
		core->tx_attr->op_flags = asked->tx_attr->op_flags;
		assert_true(info_from_core(hints, core, VERSION, &why));
		assert_int_equal(core->caps & FI_RMA_PMEM, cases[i].caps);
		assert_int_equal(core->tx_attr->op_flags, cases[i].flags);
		info_keys(core, false, &mark, &ours);
		assert_int_equal(mark || ours, cases[i].caps || core->caps & FI_HMEM);
		assert_int_equal(info_to_core(core, VERSION), 0);
		assert_int_equal(core->caps & FI_RMA_PMEM, 0);
		assert_int_equal(core->tx_attr->op_flags, cases[i].core_flags);
		fi_freeinfo(core);
		fi_freeinfo(asked);
		fi_freeinfo(hints);
	}
}

/* Operations that wait for counters are offered to who asks, whatever the core has; so are counts of RMA then. */
static void test_triggers(void **state)
{
	const uint64_t both = FI_TRIGGER | FI_RMA_EVENT;
	const struct {
		uint64_t core, wanted, caps;
		bool serves;
	} cases[] = {
		{0, FI_RMA, 0, false},
		{both, 0, FI_RMA_EVENT, false},
		{both, FI_RMA | FI_RMA_EVENT, FI_RMA_EVENT, false},
		{0, FI_RMA | FI_TRIGGER, FI_TRIGGER, false},
		{both, FI_RMA | FI_TRIGGER, FI_TRIGGER, false},
		{0, FI_RMA | both, both, true},
		{both, FI_RMA | both, both, true},
	};
	struct fi_info *core, *hints = fi_allocinfo();
	const char *why;

	assert_non_null(hints);
	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		const int virt = cases[i].serves ? 0 : FI_MR_VIRT_ADDR;

		core = core_make();
		core->caps = (core->caps & ~both) | cases[i].core;
		core->rx_attr->caps = (core->rx_attr->caps & ~both) | cases[i].core;
		core->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
		hints->caps = cases[i].wanted;
		assert_true(info_from_core(hints, core, VERSION, &why));
		assert_int_equal(core->caps & both, cases[i].caps);
		assert_int_equal(core->rx_attr->caps & both, cases[i].caps);
		assert_int_equal(info_serves_all(core, 0), cases[i].serves);
		assert_int_equal(core->domain_attr->mr_mode & FI_MR_VIRT_ADDR, virt);
		core->tx_attr->op_flags = cases[i].caps & FI_TRIGGER;
		assert_int_equal(info_to_core(core, VERSION), 0);
		assert_int_equal(core->caps & FI_TRIGGER, 0);
		assert_int_equal(core->tx_attr->op_flags, 0);
		assert_int_equal(core->caps & FI_RMA_EVENT,
				 cases[i].caps & FI_TRIGGER ? 0 : cases[i].caps);
		assert_int_equal(core->domain_attr->mr_mode, FI_MR_VIRT_ADDR);
		fi_freeinfo(core);
	}
	/* nor is the core asked */
	hints->caps = FI_RMA | both;
	hints->ep_attr->type = FI_EP_RDM;
	assert_int_equal(info_hints_to_core(hints), 0);
	assert_int_equal(hints->caps, FI_RMA | NEEDED);
	assert_int_equal(hints->domain_attr->mr_mode, FI_MR_VIRT_ADDR);
	fi_freeinfo(hints);
}

/* GPUs that communicate are offered to who asks, whatever the core has, but not where contexts are the core's. */
static void test_xpu(void **state)
{
	const struct {
		uint64_t core, wanted, caps, mode;
		enum fi_ep_type type;
		bool fits;
	} cases[] = {
		{LF_XPU, FI_RMA, 0, 0, FI_EP_RDM, true},
		{LF_XPU, 0, 0, 0, FI_EP_RDM, true},
		{0, FI_RMA | LF_XPU, LF_XPU, 0, FI_EP_RDM, true},
		{LF_XPU, FI_RMA | LF_XPU, LF_XPU, 0, FI_EP_RDM, true},
		{0, FI_RMA | LF_XPU, 0, FI_CONTEXT, FI_EP_RDM, false},
		{LF_XPU, FI_RMA, 0, 0, FI_EP_MSG, true},
	};
	struct fi_info *core, *hints = fi_allocinfo();
	const char *why;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = core_make();
		core->ep_attr->type = hints->ep_attr->type = cases[i].type;
		core->caps |= cases[i].core;
		core->domain_attr->caps = cases[i].core;
		core->domain_attr->threading = FI_THREAD_DOMAIN;
		core->mode = cases[i].mode;
		hints->caps = cases[i].wanted;
		assert_int_equal(info_from_core(hints, core, VERSION, &why), cases[i].fits);
		if (cases[i].fits) {
			assert_int_equal(core->caps & LF_XPU, cases[i].caps);
			assert_int_equal(core->domain_attr->caps, cases[i].caps);
			assert_int_equal(core->domain_attr->threading,
					 cases[i].caps ? FI_THREAD_SAFE : FI_THREAD_DOMAIN);
			assert_int_equal(info_to_core(core, VERSION), 0);
			assert_int_equal((core->caps | core->domain_attr->caps) & LF_XPU, 0);
		}
		fi_freeinfo(core);
	}
	/* nor is the core asked */
	hints->caps = hints->domain_attr->caps = FI_RMA | LF_XPU;
	hints->domain_attr->mr_mode = LF_MR_XPU_DESC;
	hints->ep_attr->type = FI_EP_RDM;
	assert_int_equal(info_hints_to_core(hints), 0);
	assert_int_equal((hints->caps | hints->domain_attr->caps) & LF_XPU, 0);
	assert_int_equal(hints->domain_attr->mr_mode, 0);
	hints->caps = LF_XPU;
	hints->ep_attr->type = FI_EP_MSG;
	assert_int_equal(info_hints_to_core(hints), -FI_ENODATA);
	fi_freeinfo(hints);
}

/* What is injected from device memory waits: so less may be offered, but never less than is asked for. */
static void test_inject(void **state)
{
	const struct {
		size_t core, allowed, asked, offered;
	} cases[] = {
		{128, 1 << 20, 0, 128}, {128, 0, 0, 0},      {128, 64, 0, 64},
		{128, 0, 16, 16},       {128, 64, 128, 128},
	};
	struct fi_info *core, *hints = fi_allocinfo();
	const char *why;

	assert_non_null(hints);
	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = core_make();
		core->tx_attr->inject_size = cases[i].core;
		hints->tx_attr->inject_size = cases[i].asked;
		conf.inject_size = cases[i].allowed;
		assert_true(info_from_core(hints, core, VERSION, &why));
		assert_int_equal(core->tx_attr->inject_size, cases[i].offered);
		fi_freeinfo(core);
	}
	fi_freeinfo(hints);
}

/* Writes that take a receive: for who has them in mind, whatever the core has; the core hears nothing of it */
static void test_rx_cq_data(void **state)
{
	const uint64_t all = FI_RMA | FI_HMEM | FI_SOURCE;
	const struct {
		uint64_t caps, mode, expected;
	} cases[] = {
		{FI_MSG | all, FI_RX_CQ_DATA | FI_CONTEXT, FI_RX_CQ_DATA},
		{FI_MSG | all, ~0ULL, FI_RX_CQ_DATA},
		{FI_MSG | all, FI_CONTEXT, 0},
		{0, FI_RX_CQ_DATA, 0},
		{FI_RMA | FI_HMEM, FI_RX_CQ_DATA, 0},
		{FI_RMA | FI_SOURCE, FI_RX_CQ_DATA, 0},
		{FI_HMEM | FI_SOURCE, FI_RX_CQ_DATA, 0},
		{all | FI_TRIGGER, FI_RX_CQ_DATA, 0},
		{all | FI_RMA_EVENT, FI_RX_CQ_DATA, 0},
	};
	struct fi_info *core, *hints = fi_allocinfo();
	const char *why;

	assert_non_null(hints);
	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		hints->caps = cases[i].caps;
		hints->mode = cases[i].mode;
		core = core_make();
		assert_true(info_from_core(hints, core, VERSION, &why));
		assert_int_equal(core->mode, cases[i].expected);
		assert_int_equal(info_to_core(core, VERSION), 0);
		assert_int_equal(core->mode, 0);
		fi_freeinfo(core);
	}
	fi_freeinfo(hints);
}

/* FI_P2P_HMEM: device memory for who asks for remote memory and knows nothing of it */
static void test_hmem(void **state)
{
	const struct {
		uint64_t caps, order;
		enum fi_ep_type type;
		bool hmem;
	} cases[] = {
		{FI_RMA, 0, FI_EP_RDM, true},
		{FI_MSG | FI_ATOMIC, 0, FI_EP_RDM, true},
		{FI_MSG | FI_TAGGED, 0, FI_EP_RDM, false},
		{FI_RMA, FI_ORDER_WAW, FI_EP_RDM, false},
		{FI_RMA, 0, FI_EP_MSG, false},
	};
	const uint64_t hmem = FI_HMEM | FI_P2P;
	struct fi_info *core, *hints = fi_allocinfo();
	const char *why;
	uint64_t mark;
	bool ours;

	assert_non_null(hints);
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
	for (size_t i = 0; i < 2 * UNIT_COUNT(cases); i++) {
		const size_t row = i / 2;
		const bool expected = i % 2 && cases[row].hmem;

		conf.hmem = i % 2;
		core = core_make();
		core->caps &= ~hmem;
		core->ep_attr->type = hints->ep_attr->type = cases[row].type;
		core->tx_attr->msg_order = FI_ORDER_STRICT;
		hints->caps = cases[row].caps;
		hints->tx_attr->msg_order = cases[row].order;
		assert_true(info_from_core(hints, core, VERSION, &why));
		assert_int_equal(core->caps & hmem, expected ? hmem : 0);
		assert_int_equal(core->tx_attr->caps & FI_HMEM, expected ? FI_HMEM : 0);
		info_keys(core, false, &mark, &ours);
		assert_int_equal(!!mark, expected);
		fi_freeinfo(core);
	}
	conf.hmem = false;
	fi_freeinfo(hints);
}

/* Kinds of accesses without FI_RMA or FI_ATOMIC mean nothing, but an answer has whatever is asked for. */
static void test_kinds(void **state)
{
	static const uint64_t kinds = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	static const struct {
		uint64_t wanted, caps;
	} cases[] = {
		{FI_MSG, 0},
		{FI_MSG | FI_READ | FI_WRITE, FI_READ | FI_WRITE},
		{FI_TAGGED | FI_REMOTE_WRITE, FI_REMOTE_WRITE},
		{FI_RMA, kinds},
	};
	struct fi_info *core, *hints = fi_allocinfo();
	const char *why;

	assert_non_null(hints);
	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		core = core_make();
		core->fabric_attr->prov_name = strdup("tcp");
		core->caps |= FI_RMA | kinds;
		core->tx_attr->caps |= FI_RMA | FI_READ | FI_WRITE;
		hints->caps = cases[i].wanted;
		assert_true(info_from_core(hints, core, VERSION, &why));
		assert_int_equal(core->caps & kinds, cases[i].caps);
		assert_int_equal(core->tx_attr->caps & kinds,
				 cases[i].caps & (FI_READ | FI_WRITE));
		fi_freeinfo(core);
	}
	fi_freeinfo(hints);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),      cmocka_unit_test(test_events),
		cmocka_unit_test(test_pmem),       cmocka_unit_test(test_triggers),
		cmocka_unit_test(test_xpu),        cmocka_unit_test(test_inject),
		cmocka_unit_test(test_rx_cq_data), cmocka_unit_test(test_hmem),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
