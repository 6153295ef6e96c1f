/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of ipc.c: two "processes" in one, with a made-up runtime between them that is as
 * strict as a driver may be: it opens nothing where something else is still open.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/conf.h"
#include "dev/dev_none.h"
#include "mem/ipc.h"

#define MiB ((size_t) 1 << 20)
#define BASE ((uintptr_t) 0x7f0000000000)

/* Where the fake runtime puts what it opens */
#define HERE ((uintptr_t) 0x10000000000)

/* What a handle says */
struct fake_handle {
	uint64_t id;
	uint64_t base;
	uint64_t size;
};

struct fake_open {
	struct fake_handle handle;
	void *ctx;
	uintptr_t addr;
	int opens;
};

static struct {
	int exports, opens, closes;
	int count;        /* open now */
	int fail_exports; /* the next so many */
	int fail_opens;
	int room; /* how many may be open; 0: any number */
	struct fake_open open[256];
} fake;

static int fake_export(const struct dev_mem *mem, void *handle, const char **why)
{
	const struct fake_handle all = {mem->id, mem->base, mem->size};

	fake.exports++;
	if (fake.fail_exports) {
		fake.fail_exports--;
		*why = "the test says so";
		return -FI_EOPNOTSUPP;
	}
	memset(handle, 0, DEV_IPC_HANDLE);
	memcpy(handle, &all, sizeof all);
	return 0;
}

static int fake_open(const struct dev_mem *mem, const void *opaque, void **addr,
		     const char **why)
{
	static uintptr_t next = HERE;
	struct fake_open *room = NULL;
	struct fake_handle handle;

	fake.opens++;
	*why = "the test says so";
	if (fake.fail_opens) {
		fake.fail_opens--;
		return -FI_EOPNOTSUPP;
	}
	memcpy(&handle, opaque, sizeof handle);
	for (size_t i = 0; i < UNIT_COUNT(fake.open); i++) {
		struct fake_open *it = &fake.open[i];

		if (!it->opens)
			room = it;
		else if (it->ctx == mem->ctx && it->handle.id != handle.id &&
			 it->handle.base < handle.base + handle.size &&
			 handle.base < it->handle.base + it->handle.size)
			return -FI_EALREADY;
		/* nothing is open twice: what is open is to be found */
		assert_false(it->opens && it->ctx == mem->ctx && it->handle.id == handle.id);
	}
	if (!room || (fake.room && fake.count == fake.room))
		return -FI_ENOMEM;
	*room = (struct fake_open){handle, mem->ctx, next, 1};
	next += handle.size;
	fake.count++;
	*addr = (void *) room->addr;
	return 0;
}

static struct fake_open *fake_find(const void *addr)
{
	for (size_t i = 0; i < UNIT_COUNT(fake.open); i++) {
		if (fake.open[i].opens && fake.open[i].addr == (uintptr_t) addr)
			return &fake.open[i];
	}
	return NULL;
}

static void fake_close(void *ctx, void *addr)
{
	struct fake_open *it = fake_find(addr);

	assert_non_null(it);
	assert_ptr_equal(it->ctx, ctx);
	it->opens = 0;
	fake.closes++;
	fake.count--;
}

/* What the runtime says of memory that it has opened; nothing else is looked at */
static int fake_has(const void *addr, struct dev_mem *mem)
{
	const struct fake_open *it = fake_find(addr);

	assert_non_null(it);
	*mem = (struct dev_mem){.base = it->addr, .size = it->handle.size};
	return 1;
}

static const struct dev_ops fake_dev = {
	.name = "fake",
	.find = fake_has,
	.ipc_export = fake_export,
	.ipc_open = fake_open,
	.ipc_close = fake_close,
};

static const struct dev_ops mute_dev = {
	.name = "mute",
	.ipc_export = dev_none_ipc_export,
	.ipc_open = dev_none_ipc_open,
};

/* ---- the two ends ---- */

static struct ipc owner, user;
static const struct dev_mem local = {.ops = &fake_dev, .ctx = &owner};
static const struct dev_mem other_local = {.ops = &fake_dev, .ctx = &user, .ordinal = 1};

static int setup(void **state)
{
	memset(&fake, 0, sizeof fake);
	conf.map_count = 8;
	conf.map_size = SIZE_MAX / 2;
	conf.cuda_api = CONF_API_STRICT;
	/* the numbers are no other program's */
	ipc_init(&owner, 0x6000000000000000 + ((uint64_t) getpid() << 16));
	ipc_init(&user, 0);
	/* they are one process, and shall not know */
	user.process = owner.process + 1;
	return 0;
}

static int teardown(void **state)
{
	ipc_fini(&owner);
	ipc_fini(&user);
	unit_clock_run();
	assert_int_equal(fake.count, 0);
	return 0;
}

static struct dev_mem alloc(uintptr_t base, size_t size)
{
	static uint64_t id;

	return (struct dev_mem){.ops = &fake_dev,
				.base = base,
				.size = size,
				.id = ++id,
				.ordinal = 3};
}

static void offer_of(const struct dev_mem *mem, size_t offset, struct ipc_offer *offer)
{
	const struct ipc_export *export;
	const char *why;

	export = ipc_export(&owner, mem, (void *) mem->base, mem->size, &why);
	assert_non_null(export);
	ipc_describe(&owner, export, mem, (void *) (mem->base + offset), offer);
}

/* The user is offered that by @peer. */
static int open_offer(const struct ipc_offer *offer, uint64_t peer, const struct dev_mem *in,
		      struct ipc_import **import, void **addr)
{
	const struct ipc_claim claim = {.peer = peer, .offer = offer};

	return ipc_open(&user, &claim, in, import, addr);
}

/* Opens @offset bytes into @mem, and checks that it is that memory */
static struct ipc_import *open_at(const struct dev_mem *mem, size_t offset,
				  const struct dev_mem *in)
{
	struct ipc_import *import = NULL;
	const struct fake_open *opened;
	struct ipc_offer offer;
	void *addr;

	offer_of(mem, offset, &offer);
	assert_int_equal(open_offer(&offer, 1, in, &import, &addr), 0);
	assert_non_null(import);
	opened = fake_find((char *) addr - offset);
	assert_non_null(opened);
	assert_int_equal(opened->handle.id, mem->id);
	assert_ptr_equal(opened->ctx, in->ctx);
	return import;
}

static int open_fails(const struct dev_mem *mem, const struct dev_mem *in)
{
	struct ipc_import *import;
	struct ipc_offer offer;
	void *addr;

	offer_of(mem, 0, &offer);
	return open_offer(&offer, 1, in, &import, &addr);
}

/* Each is exported once and opened once, however often it is used */
static void test_once(void **state)
{
	const struct dev_mem mem = alloc(BASE, MiB);
	struct ipc_import *first, *second;

	first = open_at(&mem, 0, &local);
	second = open_at(&mem, 4097, &local);
	assert_ptr_equal(first, second);
	ipc_close(&user, first);
	ipc_close(&user, second);
	for (size_t i = 0; i < 100; i++)
		ipc_close(&user, open_at(&mem, i, &local));
	assert_int_equal(fake.exports, 1);
	assert_int_equal(fake.opens, 1);
	assert_int_equal(fake.closes, 0);
	/* in another context it has to be opened again */
	ipc_close(&user, open_at(&mem, 0, &other_local));
	assert_int_equal(fake.opens, 2);
	ipc_trim(&user);
	assert_int_equal(fake.closes, 2);
}

/* Does the owner take it for its own memory, which it has offered? */
static bool owner_takes(const struct ipc_offer *offer, uint64_t number, size_t len)
{
	const struct ipc_claim claim = {.number = number, .len = len, .offer = offer};
	struct ipc_import *import = (struct ipc_import *) &owner;
	void *addr;
	int ret = ipc_open(&owner, &claim, &local, &import, &addr);

	assert_true(!ret || ret == -FI_EOPNOTSUPP);
	assert_true(ret || (!import && addr == (void *) (BASE + 77)));
	return !ret;
}

/* Memory of the process itself is where it is, if it has offered it: anybody may say so */
static void test_own(void **state)
{
	const struct dev_mem mem = alloc(BASE, MiB);
	struct ipc_own first = {.number = 0}, second = {.number = 0};
	struct ipc_offer offer;

	offer_of(&mem, 77, &offer);
	assert_true(ipc_near(&owner, &offer));
	assert_false(owner_takes(&offer, 5, 100));
	ipc_own_stand(&first, 5, &mem, (void *) (BASE + 77), 100);
	ipc_own_stand(&second, 6, &mem, (void *) (BASE + 77), 50);
	assert_true(owner_takes(&offer, 5, 100));
	assert_true(owner_takes(&offer, 6, 50));
	assert_false(owner_takes(&offer, 5, 101));
	assert_false(owner_takes(&offer, 6, 100));
	assert_false(owner_takes(&offer, 5 + 256, 100));
	offer.offset++;
	assert_false(owner_takes(&offer, 5, 99));
	offer.offset--;
	offer.id++;
	assert_false(owner_takes(&offer, 5, 100));
	offer.id--;
	ipc_own_fall(&first);
	assert_false(owner_takes(&offer, 5, 100));
	assert_true(owner_takes(&offer, 6, 50));
	ipc_own_fall(&second);
	ipc_own_fall(&second);
	assert_false(owner_takes(&offer, 6, 50));
	assert_int_equal(fake.opens, 0);
}

/* Memory is as long as its runtime says, not as its peer does. Nothing of a lie stays open. */
static void test_size(void **state)
{
	const struct dev_mem mem = alloc(BASE, MiB);
	struct ipc_import *import;
	struct ipc_offer offer;
	void *addr;

	offer_of(&mem, MiB, &offer);
	offer.size = MiB + 1;
	assert_int_equal(open_offer(&offer, 1, &local, &import, &addr), -FI_EOPNOTSUPP);
	offer.size = SIZE_MAX;
	assert_int_equal(open_offer(&offer, 1, &local, &import, &addr), -FI_EOPNOTSUPP);
	assert_int_equal(fake.opens, 2);
	assert_int_equal(fake.count, 0);
	/* nor is the owner thought to have what cannot be opened */
	ipc_close(&user, open_at(&mem, 5, &local));
	assert_int_equal(fake.count, 1);
	offer.size = MiB + 1;
	assert_int_equal(open_offer(&offer, 1, &local, &import, &addr), -FI_EOPNOTSUPP);
	ipc_close(&user, open_at(&mem, 5, &local));
	assert_int_equal(fake.opens, 3);
}

/* Who says that its memory is another's finds it, and the other one finds its own. */
static void test_named_as_other(void **state)
{
	const struct dev_mem mem = alloc(BASE, MiB), lie = alloc(BASE + 8 * MiB, MiB);
	struct ipc_import *import;
	struct ipc_offer offer, bad;
	void *addr;

	offer_of(&mem, 0, &offer);
	offer_of(&lie, 0, &bad);
	bad.id = offer.id;
	bad.base = offer.base;
	assert_int_equal(open_offer(&bad, 2, &local, &import, &addr), 0);
	assert_int_equal(fake_find(addr)->handle.id, lie.id);
	ipc_close(&user, open_at(&mem, 0, &local));
	ipc_close(&user, import);

	/* what of it cannot be opened is not held against the other one */
	bad.device++;
	bad.handle[0]++;
	/* it is tried again without what else is open */
	fake.fail_opens = 2;
	assert_int_equal(open_offer(&bad, 2, &local, &import, &addr), -FI_EOPNOTSUPP);
	offer.device++;
	offer.id++;
	offer.base += 4 * MiB;
	memcpy(offer.handle, &(struct fake_handle){offer.id, offer.base, MiB},
	       sizeof(struct fake_handle));
	assert_int_equal(open_offer(&offer, 1, &local, &import, &addr), 0);
	ipc_close(&user, import);
}

/* A freed and re-used address is other memory: the old one is closed before it is opened */
static void test_reused(void **state)
{
	struct dev_mem mem = alloc(BASE, MiB);
	struct ipc_import *import;

	for (int i = 0; i < 50; i++) {
		/* overlapping the one before, at either end */
		import = open_at(&mem, 5, &local);
		assert_int_equal(fake.count, 1);
		ipc_close(&user, import);
		mem = alloc(BASE + i % 3 * MiB / 2, 2 * MiB);
	}
	assert_int_equal(fake.opens, 50);
	/* what lies beside it, or belongs to another process, is left alone */
	mem = alloc(BASE + 8 * MiB, MiB);
	ipc_close(&user, open_at(&mem, 0, &local));
	mem = alloc(BASE + 9 * MiB, MiB);
	ipc_close(&user, open_at(&mem, 0, &local));
	assert_int_equal(fake.count, 3);
}

/* While the old one is in use the new one waits, and is not taken for impossible */
static void test_reused_in_use(void **state)
{
	const struct dev_mem old = alloc(BASE, MiB), now = alloc(BASE, MiB);
	struct ipc_import *import = open_at(&old, 0, &local);

	assert_int_equal(open_fails(&now, &local), -FI_EAGAIN);
	assert_int_equal(fake.opens, 1);
	ipc_close(&user, import);
	ipc_close(&user, open_at(&now, 0, &local));
	assert_int_equal(fake.count, 1);
}

/* No more than that many are kept, what was used last among them; what is in use stays */
static void test_bounded(void **state)
{
	struct dev_mem mems[20];
	struct ipc_import *held[8];
	int opens;

	for (size_t i = 0; i < UNIT_COUNT(mems); i++)
		mems[i] = alloc(BASE + i * MiB, MiB);
	for (size_t i = 0; i < UNIT_COUNT(mems); i++) {
		ipc_close(&user, open_at(&mems[i], 0, &local));
		ipc_close(&user, open_at(&mems[0], 0, &local));
		assert_true(fake.count <= 8);
	}
	assert_int_equal(fake.count, 8);
	opens = fake.opens;
	/* the first was used all the time, the others one after the other */
	ipc_close(&user, open_at(&mems[0], 0, &local));
	for (size_t i = 13; i < 20; i++)
		ipc_close(&user, open_at(&mems[i], 0, &local));
	assert_int_equal(fake.opens, opens);
	ipc_close(&user, open_at(&mems[12], 0, &local));
	assert_int_equal(fake.opens, opens + 1);

	for (size_t i = 0; i < 8; i++)
		held[i] = open_at(&mems[i], 0, &local);
	assert_int_equal(open_fails(&mems[8], &local), -FI_EAGAIN);
	ipc_trim(&user);
	assert_int_equal(fake.count, 8);
	ipc_close(&user, held[3]);
	ipc_close(&user, open_at(&mems[8], 0, &local));
	for (size_t i = 0; i < 8; i++) {
		if (i != 3)
			ipc_close(&user, held[i]);
	}
	assert_int_equal(fake.count, 8);
	/* as many exports */
	opens = fake.exports;
	for (size_t i = 0; i < UNIT_COUNT(mems); i++) {
		struct ipc_offer offer;

		offer_of(&mems[i], 0, &offer);
	}
	assert_true(fake.exports - opens >= 12);
}

/* The runtime has less room than we: all that is not in use is given back, and that helps */
static void test_runtime_full(void **state)
{
	struct dev_mem mems[6];
	struct ipc_import *held;

	fake.room = 4;
	for (size_t i = 0; i < UNIT_COUNT(mems); i++)
		mems[i] = alloc(BASE + i * MiB, MiB);
	held = open_at(&mems[0], 0, &local);
	for (size_t i = 1; i < UNIT_COUNT(mems); i++)
		ipc_close(&user, open_at(&mems[i], 0, &local));
	assert_ptr_equal(open_at(&mems[0], 0, &local), held);
	ipc_close(&user, held);
	ipc_close(&user, held);
}

/* ---- what is gone ---- */

/* Opens and closes it, of @size bytes, alone in its place */
static void use_once(size_t size)
{
	static uintptr_t next = BASE;
	const struct dev_mem mem = alloc(next, size);

	next += size;
	ipc_close(&user, open_at(&mem, 0, &local));
}

/*
 * Nobody knows the runtime that the memory is of. So the owner's thread says of all of it that it is gone. Tends until
 * it has said so of @bytes.
 */
static void hear_gone(size_t bytes)
{
	while (user.gone < bytes)
		ipc_tend(&user, false);
	assert_int_equal(user.gone, bytes);
}

/* What the owner has freed is closed when nothing has been used for a while; what is in use is not. */
static void test_gone(void **state)
{
	const struct dev_mem mem = alloc(BASE + 1000 * MiB, MiB);
	struct ipc_import *held;

	unit_clock_stop();
	held = open_at(&mem, 0, &local);
	for (int i = 0; i < 5; i++)
		use_once(MiB);
	hear_gone(5 * MiB);
	unit_clock_pass(IPC_QUIET - 1);
	ipc_tend(&user, true);
	assert_int_equal(fake.closes, 0);
	unit_clock_pass(1);
	ipc_tend(&user, false);
	assert_int_equal(fake.closes, 0);
	ipc_tend(&user, true);
	assert_int_equal(fake.closes, 5);
	assert_int_equal(user.bytes, MiB);
	assert_int_equal(user.gone, 0);
	ipc_close(&user, held);
	/* the first one that is not in use any more is asked about in time */
	unit_clock_pass(RETRY_MOST / 1000000);
	hear_gone(MiB);
	unit_clock_pass(IPC_QUIET);
	ipc_tend(&user, true);
	assert_int_equal(fake.count, 0);
	assert_false(ipc_keeps(&user));
}

/* What is offered again is not gone, whatever its owner has said. */
static void test_gone_not(void **state)
{
	const struct dev_mem mem = alloc(BASE, MiB);

	unit_clock_stop();
	ipc_close(&user, open_at(&mem, 0, &local));
	hear_gone(MiB);
	ipc_close(&user, open_at(&mem, 0, &local));
	assert_int_equal(user.gone, 0);
	assert_int_equal(fake.opens, 1);
}

/* An owner that does not answer has ended: all of its memory is gone. */
static void test_gone_process(void **state)
{
	const struct dev_mem mem = alloc(BASE, MiB);

	unit_clock_stop();
	owner.process += 100;
	ipc_close(&user, open_at(&mem, 0, &local));
	ipc_tend(&user, false);
	assert_int_equal(user.gone, MiB);
}

/* More than there may be is closed before more is opened, whatever else goes on, and whoever waits. */
static void test_gone_most(void **state)
{
	const size_t size = IPC_GONE_MOST / 2;

	unit_clock_stop();
	for (size_t i = 1; i <= 3; i++) {
		use_once(size);
		hear_gone(i * size);
		unit_clock_pass(10 * IPC_QUIET);
		ipc_tend(&user, false);
		assert_int_equal(fake.closes, 0);
	}
	use_once(size);
	assert_int_equal(fake.closes, 3);
	assert_int_equal(fake.count, 1);
}

/* To close waits for kernels. If they wait for messages nothing is closed before the end, and no more is opened. */
static void test_kernels_wait(void **state)
{
	const size_t size = IPC_GONE_MOST / 2;
	const struct dev_mem before = alloc(BASE + 1000 * MiB, MiB),
			     again = alloc(BASE + 1000 * MiB, MiB),
			     more = alloc(BASE + 4000 * MiB, MiB);

	unit_clock_stop();
	conf.cuda_api = CONF_API_ASYNC;
	ipc_close(&user, open_at(&before, 0, &local));
	assert_int_equal(open_fails(&again, &local), -FI_EAGAIN);
	for (size_t i = 1; i <= 2; i++) {
		use_once(size);
		hear_gone(i * size + MiB);
		unit_clock_pass(10 * IPC_QUIET);
		ipc_tend(&user, true);
	}
	assert_int_equal(open_fails(&more, &local), -FI_EAGAIN);
	conf.map_count = 4;
	assert_int_equal(open_fails(&more, &local), -FI_EAGAIN);
	assert_int_equal(fake.closes, 0);
	ipc_trim(&user);
	assert_int_equal(fake.count, 0);
	ipc_close(&user, open_at(&again, 0, &local));
}

/* So many bytes stay open, and what is used last does. What is longer is opened all the same. */
static void test_bytes(void **state)
{
	const struct dev_mem kept = alloc(BASE + 1000 * MiB, MiB),
			     large = alloc(BASE + 2000 * MiB, 9 * MiB);

	conf.map_size = 4 * MiB;
	for (int i = 0; i < 20; i++) {
		use_once(MiB);
		ipc_close(&user, open_at(&kept, 0, &local));
		assert_true(user.bytes <= conf.map_size);
	}
	assert_int_equal(fake.count, 4);
	assert_int_equal(fake.opens, 21);
	ipc_close(&user, open_at(&large, 0, &local));
	assert_int_equal(fake.count, 1);
	use_once(MiB);
	assert_int_equal(fake.count, 1);
}

/* More than one question can be about, of two processes: all are asked about, in turn */
static void test_gone_many(void **state)
{
	conf.map_count = 200;
	unit_clock_stop();
	for (int i = 0; i < 150; i++) {
		use_once(MiB);
		if (i == 70)
			owner.process += 100;
	}
	for (int i = 0; i < 10; i++) {
		unit_clock_pass(RETRY_MOST / 1000000);
		do
			ipc_tend(&user, false);
		while (user.look.number >= 0);
	}
	assert_int_equal(user.gone, 150 * MiB);
}

/* What cannot be opened is not tried again too soon, of that process and device and in that context */
static void test_failure(void **state)
{
	const struct dev_mem mem = alloc(BASE, MiB), next = alloc(BASE + MiB, MiB);
	struct dev_mem elsewhere = alloc(BASE + 2 * MiB, MiB);
	int opens;

	unit_clock_stop();
	fake.fail_opens = 2;
	for (uint64_t ms = 1; ms <= 2; ms++) {
		assert_int_equal(open_fails(&mem, &local), -FI_EOPNOTSUPP);
		opens = fake.opens;
		unit_clock_pass(ms - 1);
		for (int i = 0; i < 10; i++) {
			assert_int_equal(open_fails(&mem, &local), -FI_EOPNOTSUPP);
			assert_int_equal(open_fails(&next, &local), -FI_EOPNOTSUPP);
		}
		assert_int_equal(fake.opens, opens);
		unit_clock_pass(1);
	}
	assert_int_equal(fake.fail_opens, 0);
	ipc_close(&user, open_at(&mem, 0, &other_local));
	elsewhere.ordinal = 4;
	ipc_close(&user, open_at(&elsewhere, 0, &local));
	owner.process += 100;
	ipc_close(&user, open_at(&next, 0, &local));
	owner.process -= 100;
	/* what had failed has passed */
	ipc_close(&user, open_at(&mem, 0, &local));
}

/* Many failures: the oldest may be forgotten, the latest may not */
static void test_failures(void **state)
{
	struct dev_mem mem = alloc(BASE, MiB);
	int opens;

	unit_clock_stop();
	for (int i = 0; i < 5 * IPC_FAILURES; i++) {
		mem.ordinal = i;
		mem.id += 1000000;
		fake.fail_opens = 1;
		assert_int_equal(open_fails(&mem, &local), -FI_EOPNOTSUPP);
		assert_int_equal(fake.fail_opens, 0);
		opens = fake.opens;
		for (int j = P2P_MAX(i - IPC_FAILURES + 1, 0); j <= i; j++) {
			mem.ordinal = j;
			assert_int_equal(open_fails(&mem, &local), -FI_EOPNOTSUPP);
		}
		assert_int_equal(fake.opens, opens);
	}
}

/* What cannot be exported is not asked for too soon again, and says why; other memory can */
static void test_refused(void **state)
{
	struct dev_mem mem = alloc(BASE, MiB), next = alloc(BASE + MiB, MiB);
	struct ipc_offer offer;
	const char *why;

	unit_clock_stop();
	fake.fail_exports = 2;
	for (int i = 0; i < 6; i++) {
		why = NULL;
		if (i == 3)
			unit_clock_pass(1);
		assert_null(ipc_export(&owner, &mem, (void *) mem.base, mem.size, &why));
		assert_string_equal(why, "the test says so");
		assert_int_equal(fake.exports, i < 3 ? 1 : 2);
	}
	offer_of(&next, 0, &offer);
	unit_clock_pass(2);
	offer_of(&mem, 0, &offer);

	/* a runtime that does not know such things, at either end */
	mem = alloc(BASE + 2 * MiB, MiB);
	mem.ops = &mute_dev;
	assert_null(ipc_export(&owner, &mem, (void *) mem.base, mem.size, &why));
	assert_non_null(why);
	mem.ctx = local.ctx;
	assert_int_equal(open_fails(&next, &mem), -FI_EOPNOTSUPP);
}

/* One host, two processes: a child is not its parent, whatever it has from it */
static void test_identity(void **state)
{
	struct ipc again, child;
	struct ipc_offer offer = {.host = owner.host};
	int status;
	pid_t pid;

	ipc_init(&again, 99);
	assert_int_equal(again.host, owner.host);
	assert_int_equal(again.process, owner.process);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		ipc_init(&child, 3);
		_exit(child.host != owner.host || child.process == owner.process);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(ipc_near(&user, &offer));
	offer.host ^= 1;
	assert_false(ipc_near(&user, &offer));
}

/* Allocations come and go, are used by several at a time, fail: nothing is ever stale */
static void test_torture(void **state)
{
	enum { PLACES = 12, USES = 6 };
	struct dev_mem mems[PLACES];
	struct ipc_import *uses[USES] = {NULL};
	int used[USES], opened = 0, refused = 0;
	unsigned int seed = 7;

	for (int i = 0; i < PLACES; i++)
		mems[i] = alloc(BASE + i * MiB, MiB);
	for (int round = 0; round < 20000; round++) {
		int place = rand_r(&seed) % PLACES, use = rand_r(&seed) % USES;
		const struct dev_mem *in = rand_r(&seed) % 2 ? &local : &other_local;

		if (uses[use]) {
			ipc_close(&user, uses[use]);
			uses[use] = NULL;
		}
		/* nobody frees what is being copied */
		for (int i = 0; i < USES && place >= 0; i++) {
			if (uses[i] && used[i] == place)
				place = -1;
		}
		if (place >= 0 && rand_r(&seed) % 3 == 0)
			mems[place] = alloc(BASE + place * MiB, MiB / (1 + rand_r(&seed) % 2));
		place = rand_r(&seed) % PLACES;
		fake.room = 4 + rand_r(&seed) % 8;
		if (fake.count >= fake.room) {
			refused++;
			continue;
		}
		uses[use] = open_at(&mems[place], rand_r(&seed) % (MiB / 2), in);
		used[use] = place;
		opened++;
		assert_true(fake.count <= 8);
	}
	assert_true(opened > 1000 && refused > 100 && fake.opens > 1000);
	for (int i = 0; i < USES; i++) {
		if (uses[i])
			ipc_close(&user, uses[i]);
	}
}

#define IPC_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		IPC_TEST(test_once),         IPC_TEST(test_own),
		IPC_TEST(test_size),         IPC_TEST(test_named_as_other),
		IPC_TEST(test_reused),       IPC_TEST(test_reused_in_use),
		IPC_TEST(test_bounded),      IPC_TEST(test_runtime_full),
		IPC_TEST(test_failure),      IPC_TEST(test_failures),
		IPC_TEST(test_refused),      IPC_TEST(test_identity),
		IPC_TEST(test_torture),      IPC_TEST(test_bytes),
		IPC_TEST(test_gone),         IPC_TEST(test_gone_not),
		IPC_TEST(test_gone_process), IPC_TEST(test_gone_most),
		IPC_TEST(test_kernels_wait), IPC_TEST(test_gone_many),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	/* one that hangs fails */
	alarm(120);
	return unit_main(argc, argv, &unit);
}
