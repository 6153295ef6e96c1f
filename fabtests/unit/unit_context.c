/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of dev_cuda_ctx.c on the emulated driver: in which context virtual memory is worked on, and what becomes
 * of primary contexts. Each scene is a process that has none at first.
 */
#include "unit.h"

#include <pthread.h>

#include "../cudaemu/driver.h"
#include "mem/mem.h"

#define SIZE ((size_t) 2 << 20)

static CUcontext make_context(int ordinal)
{
	CUcontext ctx;

	assert_int_equal(cuCtxCreate_v2(&ctx, 0, ordinal), CUDA_SUCCESS);
	return ctx;
}

/* Mapped piece by piece, which takes no context */
static void *make_virtual(int ordinal)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
	};
	const CUmemAccessDesc access = {
		.location = prop.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr ptr = 0;

	assert_int_equal(cuMemAddressReserve(&ptr, SIZE, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemCreate(&handle, SIZE, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemMap(ptr, SIZE, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemSetAccess(ptr, SIZE, &access, 1), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
	return (void *) (uintptr_t) ptr;
}

static void expect_primary(int ordinal, bool expected)
{
	unsigned int flags;
	int active;

	assert_int_equal(cuDevicePrimaryCtxGetState(ordinal, &flags, &active), CUDA_SUCCESS);
	assert_int_equal(active, expected);
}

static struct dev_mem find(void *addr)
{
	struct dev_mem mem;

	assert_int_equal(dev_find(addr, &mem), 1);
	assert_true(mem.mapped);
	assert_int_equal(mem.base, (uintptr_t) addr);
	assert_int_equal(mem.size, SIZE);
	return mem;
}

/* The backend's record of the current context */
static void *current(void)
{
	struct dev_mem mem;

	assert_int_equal(dev_current(&mem), 1);
	return mem.ctx;
}

static void start(void)
{
	assert_int_equal(cuInit(0), CUDA_SUCCESS);
	dev_init();
}

static void *run_find(void *addr)
{
	return find(addr).ctx;
}

/* Of the device, and in all threads the same */
static void scene_current(void **state)
{
	void *addr, *found;
	pthread_t thread;

	start();
	addr = make_virtual(1);
	make_context(0);
	make_context(1);
	assert_ptr_equal(find(addr).ctx, current());
	assert_int_equal(pthread_create(&thread, NULL, run_find, addr), 0);
	assert_int_equal(pthread_join(thread, &found), 0);
	assert_ptr_equal(found, current());
	make_context(1);
	assert_ptr_equal(find(addr).ctx, found);
	expect_primary(0, false);
	expect_primary(1, false);
}

/* It was current where an endpoint was opened; no thread has it now */
static void scene_known(void **state)
{
	void *addr, *known;
	CUcontext ctx;

	start();
	addr = make_virtual(0);
	make_context(0);
	known = current();
	dev_sync();
	assert_int_equal(cuCtxPopCurrent_v2(&ctx), CUDA_SUCCESS);
	make_context(1);
	assert_ptr_equal(find(addr).ctx, known);
	expect_primary(0, false);
}

/* The memory stays, and is worked on in another one */
static void scene_destroyed(void **state)
{
	struct dev_mem before;
	CUcontext first, second;
	void *addr;

	start();
	addr = make_virtual(0);
	second = make_context(0);
	dev_sync();
	first = make_context(0);
	before = find(addr);
	assert_ptr_equal(before.ctx, current());
	assert_false(mem_moved(&before));
	assert_int_equal(cuCtxDestroy_v2(first), CUDA_SUCCESS);
	assert_true(mem_moved(&before));
	assert_ptr_equal(find(addr).ctx, current());
	assert_int_equal(find(addr).id, before.id);
	assert_int_equal(cuCtxDestroy_v2(second), CUDA_SUCCESS);
	make_context(0);
	assert_ptr_equal(find(addr).ctx, current());
	expect_primary(0, false);
}

/* The active one comes first. Who has it releases it: then it is gone, but for what is open in it */
static void scene_primary(void **state)
{
	struct dev_queue *queue;
	struct dev_mem mem;
	CUcontext primary;
	void *addr;

	start();
	addr = make_virtual(0);
	assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
	make_context(0);
	mem = find(addr);
	assert_ptr_not_equal(mem.ctx, current());
	assert_int_equal(mem.ops->queue_open(&mem, false, &queue), 0);
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	expect_primary(0, true);
	assert_false(mem_moved(&mem));
	assert_ptr_equal(find(addr).ctx, mem.ctx);
	mem.ops->queue_close(queue);
	expect_primary(0, false);
	assert_true(mem_moved(&mem));
	assert_ptr_equal(find(addr).ctx, current());
	expect_primary(0, false);
}

/* A reset takes what is open along, and leaves the count of those who retain it right */
static void scene_reset(void **state)
{
	struct dev_queue *queue;
	struct dev_mem mem;
	CUcontext primary;
	void *addr;

	start();
	addr = make_virtual(0);
	assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
	mem = find(addr);
	assert_int_equal(mem.ops->queue_open(&mem, false, &queue), 0);
	assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	mem.ops->queue_close(queue);
	assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
	assert_ptr_not_equal(find(addr).ctx, mem.ctx);
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	expect_primary(0, true);
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	expect_primary(0, false);
}

/* Nothing else is there, so it is made, and stays */
static void scene_none(void **state)
{
	void *addr, *ctx;

	start();
	addr = make_virtual(1);
	make_context(0);
	ctx = find(addr).ctx;
	expect_primary(0, false);
	expect_primary(1, true);
	assert_ptr_equal(find(addr).ctx, ctx);
	make_context(1);
	assert_ptr_equal(find(addr).ctx, ctx);
	expect_primary(1, true);
}

#define SCENE(name)                                                                            \
	static void test_##name(void **state)                                                  \
	{                                                                                      \
		unit_play("scene_" #name, (const char *[]){NULL});                             \
	}

SCENE(current)
SCENE(known)
SCENE(destroyed)
SCENE(primary)
SCENE(reset)
SCENE(none)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_current),   cmocka_unit_test(test_known),
		cmocka_unit_test(test_destroyed), cmocka_unit_test(test_primary),
		cmocka_unit_test(test_reset),     cmocka_unit_test(test_none),
	};
	static const struct CMUnitTest scenes[] = {
		cmocka_unit_test(scene_current),   cmocka_unit_test(scene_known),
		cmocka_unit_test(scene_destroyed), cmocka_unit_test(scene_primary),
		cmocka_unit_test(scene_reset),     cmocka_unit_test(scene_none),
	};
	const struct unit unit = {tests, UNIT_COUNT(tests), scenes, UNIT_COUNT(scenes), NULL,
				  NULL};

	return unit_main(argc, argv, &unit);
}
