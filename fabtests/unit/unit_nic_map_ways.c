/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of nic_map.c: the ways into the NIC's hands, and why they are closed. */
#include "unit_nic_map.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"

/* A libfabric that does not register dma-bufs */
#define OLD true
#define MODULE FAKE_MODULE

#define NO_FLAG "dma-buf: libfabric " FAKE_RELEASE " cannot register one"
#define NO_DMABUF "no dma-buf of it"
#define DRIVER "dma-buf: the NIC's driver refuses"
#define ADDRESS "peer-mem: the NIC's driver refuses"
#define ABSENT "peer-mem: the kernel module " FAKE_MODULE " is not loaded"
#define SWITCHED(way) way ": switched off by FI_P2P_PIN"

/* What becomes of a row: dma-bufs made, registrations tried, reasons */
#define BY_DMABUF(e, a) .flags = FLAG_DMABUF, .exposes = (e), .asked = (a), .possible = true
#define BY_ADDRESS(e, a) .flags = FLAG_NOCACHE, .exposes = (e), .asked = (a), .possible = true
#define NOT_THIS(e, a, why)                                                                    \
	.exposes = (e), .asked = (a), .possible = true, .reasons = {why, why}
#define NEVER(e, a, one, other) .exposes = (e), .asked = (a), .reasons = {one, other}

/*
 * One device's first two allocations. What is closed is not tried for the second.
 * @old:	libfabric does not register dma-bufs
 * @flags:	those of the way it goes; 0: it does not, because of both @reasons
 * @exposes, @asked: the calls that this took
 * @possible:	what nic_map_possible() says in the end
 */
static const struct ladder {
	const char *name;
	bool old;
	unsigned int pin;
	const char *module;
	int expose_error;
	int dmabuf_error;
	int plain_error;
	uint64_t flags;
	unsigned int exposes;
	unsigned int asked;
	bool possible;
	const char *reasons[2];
} ladder[] = {
	/* a dma-buf first, whatever else there is */
	{"new, module", .module = MODULE, BY_DMABUF(2, 2)},
	{"new, no module", BY_DMABUF(2, 2)},
	{"old, module", OLD, .module = MODULE, BY_ADDRESS(0, 2)},
	{"old, the second module", OLD, .module = FAKE_MODULE_OLD, BY_ADDRESS(0, 2)},
	{"old, no module", OLD, NEVER(0, 0, NO_FLAG, ABSENT)},
	{"old, another's module", OLD, .module = "unit_peer", NEVER(0, 0, NO_FLAG, ABSENT)},
	/* the device makes none: never, or not of this memory */
	{"no dma-bufs, module", .module = MODULE, .expose_error = -FI_ENOSYS, BY_ADDRESS(1, 2)},
	{"no dma-bufs, no module", .expose_error = -FI_ENOSYS,
	 NEVER(1, 0, "dma-buf: " NO_DMABUF, ABSENT)},
	{"no dma-buf of it, module", .module = MODULE, .expose_error = -FI_EIO,
	 BY_ADDRESS(2, 2)},
	{"no dma-buf of it, no module", .expose_error = -FI_EIO, NOT_THIS(2, 0, NO_DMABUF)},
	{"no dma-buf of it, refused", .module = MODULE, .expose_error = -FI_EIO,
	 .plain_error = -FI_EINVAL, NOT_THIS(2, 2, "refuses to register this memory")},
	/* the NIC's driver refuses */
	{"no dma-buf for the driver, module", .module = MODULE, .dmabuf_error = -FI_EINVAL,
	 BY_ADDRESS(1, 3)},
	{"no dma-buf for the driver, no module", .dmabuf_error = -FI_EINVAL,
	 NEVER(1, 1, DRIVER, ABSENT)},
	{"neither for the driver", .module = MODULE, .dmabuf_error = -FI_EINVAL,
	 .plain_error = -FI_EINVAL, NEVER(1, 2, DRIVER, ADDRESS)},
	{"old, refused", OLD, .module = MODULE, .plain_error = -FI_EINVAL,
	 NEVER(0, 1, NO_FLAG, ADDRESS)},
	/* the user's choice */
	{"dmabuf", .pin = CONF_PIN_DMABUF, .module = MODULE, BY_DMABUF(2, 2)},
	{"dmabuf, old", OLD, CONF_PIN_DMABUF, MODULE,
	 NEVER(0, 0, NO_FLAG, SWITCHED("peer-mem"))},
	{"dmabuf, refused", .pin = CONF_PIN_DMABUF, .module = MODULE,
	 .dmabuf_error = -FI_EINVAL, NEVER(1, 1, DRIVER, SWITCHED("peer-mem"))},
	{"peermem", .pin = CONF_PIN_PEERMEM, .module = MODULE, BY_ADDRESS(0, 2)},
	{"peermem, no module", .pin = CONF_PIN_PEERMEM, BY_ADDRESS(0, 2)},
	{"peermem, refused", .pin = CONF_PIN_PEERMEM, .plain_error = -FI_EINVAL,
	 NEVER(0, 1, SWITCHED("dma-buf"), ADDRESS)},
	{"none", .pin = CONF_PIN_NONE, .module = MODULE,
	 NEVER(0, 0, SWITCHED("dma-buf"), SWITCHED("peer-mem"))},
};

/* Does a way stay open when all errors are over that may pass? */
static bool opens_again(const struct ladder *row)
{
	const bool module = row->module && strcmp(row->module, "unit_peer");

	if (!row->old && row->expose_error != -FI_ENOSYS &&
	    (row->pin == CONF_PIN_AUTO || row->pin == CONF_PIN_DMABUF))
		return true;
	return row->pin == CONF_PIN_PEERMEM || (row->pin == CONF_PIN_AUTO && module);
}

/* What has failed is tried again, in time; what can never be is not */
static void ladder_again(const struct ladder *row, const struct dev_mem *first,
			 const struct dev_mem *second)
{
	if (fake.expose_error != -FI_ENOSYS)
		fake.expose_error = 0;
	fake.dmabuf_error = 0;
	fake.plain_error = 0;
	unit_clock_pass(RETRY_MOST / 1000000);
	if (opens_again(row)) {
		must_and_put(second, 0, 1);
		must_and_put(first, 0, 1);
	} else {
		must_not(second, 0, 1, -FI_EOPNOTSUPP, row->reasons[0]);
		must_not(first, 0, 1, -FI_EOPNOTSUPP, row->reasons[1]);
	}
}

void test_ladder(void **state)
{
	for (size_t i = 0; i < UNIT_COUNT(ladder); i++) {
		const struct ladder *row = &ladder[i];
		const struct dev_mem first = fake_alloc(BASE, PAGE),
				     second = fake_alloc(BASE + PAGE, PAGE);

		fake_begin(state);
		nic_map_init(&map, &fake_domain, NULL, !row->old);
		fake.module = row->module;
		fake.expose_error = row->expose_error;
		fake.dmabuf_error = row->dmabuf_error;
		fake.plain_error = row->plain_error;
		conf.pin = row->pin;
		/* the second look at the same memory asks nobody, before time has passed */
		for (int look = 0; look < 4; look++) {
			const struct dev_mem *mem = look & 1 ? &second : &first;

			if (row->flags) {
				assert_int_equal(must_and_put(mem, 0, 1)->flags, row->flags);
				continue;
			}
			must_not(mem, 0, 1, -FI_EOPNOTSUPP, row->reasons[0]);
			must_not(mem, 0, 1, -FI_EOPNOTSUPP, row->reasons[1]);
		}
		if (fake.exposes != row->exposes || fake.asked != row->asked)
			fail_msg("%s: %u exposed, %u registered", row->name, fake.exposes,
				 fake.asked);
		if (nic_map_possible(&map, &first, &got_why) != row->possible)
			fail_msg("%s: possible %d, %s", row->name, !row->possible, got_why);
		if (!row->possible)
			assert_non_null(strstr(got_why, row->reasons[1]));
		ladder_again(row, &first, &second);
		fake_end(state);
		fake_begin(state);
	}
}

/* Known without asking: so much is possible before anything was tried */
void test_possible(void **state)
{
	const struct dev_mem mem = fake_alloc(BASE, PAGE);

	assert_true(nic_map_possible(&map, &mem, &got_why));
	nic_map_fini(&map);
	nic_map_init(&map, &fake_domain, NULL, false);
	assert_false(nic_map_possible(&map, &mem, &got_why));
	assert_non_null(strstr(got_why, ABSENT));
	assert_int_equal(fake.exposes + fake.asked, 0);
}

void test_no_domain(void **state)
{
	static const char reason[] = "there is none";
	const struct dev_mem mem = fake_alloc(BASE, PAGE);

	nic_map_init(&map, NULL, reason, true);
	assert_false(nic_map_possible(&map, &mem, &got_why));
	assert_ptr_equal(got_why, reason);
	must_not(&mem, 0, 1, -FI_EOPNOTSUPP, reason);
	assert_int_equal(fake.exposes + fake.asked, 0);
}

/* Memory that is no dma-buf and no address of the NIC's says nothing about other memory
 */
void test_refused_memory(void **state)
{
	const struct dev_mem bad = fake_alloc(BASE, PAGE), good = fake_alloc(2 * BASE, PAGE);

	fake.module = FAKE_MODULE;
	fake.expose_error = -FI_EOPNOTSUPP;
	fake.expose_id = bad.id;
	fake.plain_error = -FI_EFAULT;
	for (int again = 0; again < 3; again++)
		must_not(&bad, 0, 1, -FI_EOPNOTSUPP, "refuses");
	assert_int_equal(fake.exposes, 1);
	assert_int_equal(fake.asked, 1);
	/* neither way is closed */
	fake.plain_error = 0;
	assert_int_equal(must_and_put(&good, 0, 1)->flags, FLAG_DMABUF);
	nic_map_trim(&map);
	assert_int_equal(must_and_put(&bad, 0, 1)->flags, FLAG_NOCACHE);
	assert_int_equal(stats.cache_hits, 0);
}

/* Once some memory went that way, what is refused is refused because of the memory */
void test_refused_later(void **state)
{
	const struct dev_mem first = fake_alloc(BASE, PAGE), bad = fake_alloc(2 * BASE, PAGE),
			     next = fake_alloc(3 * BASE, PAGE);

	must_and_put(&first, 0, 1);
	fake.dmabuf_error = -FI_EINVAL;
	must_not(&bad, 0, 1, -FI_EOPNOTSUPP, "refuses to register this memory");
	fake.dmabuf_error = 0;
	must_not(&bad, 0, 1, -FI_EOPNOTSUPP, "refuses to register this memory");
	must_and_put(&next, 0, 1);
	must_and_put(&first, 0, 1);
	assert_int_equal(fake.asked, 3);
	assert_int_equal(stats.pins, 2);
	assert_int_equal(stats.cache_hits, 1);
}

/* What is known of a device holds for no other one, of that runtime's or another's */
void test_devices(void **state)
{
	struct dev_mem mem = fake_alloc(BASE, PAGE);

	fake.expose_error = -FI_ENOSYS;
	must_not(&mem, 0, 1, -FI_EOPNOTSUPP, "dma-buf: " NO_DMABUF);
	fake.expose_error = 0;
	must_not(&mem, 0, 1, -FI_EOPNOTSUPP, "dma-buf: " NO_DMABUF);
	mem = fake_alloc(BASE, PAGE);
	mem.ordinal = 1;
	must_and_put(&mem, 0, 1);
	mem = fake_alloc(BASE, PAGE);
	mem.ops = &fake_other_dev;
	must_and_put(&mem, 0, 1);
	mem = fake_alloc(BASE, PAGE);
	must_not(&mem, 0, 1, -FI_EOPNOTSUPP, "dma-buf: " NO_DMABUF);
	assert_int_equal(fake.exposes, 3);
}
