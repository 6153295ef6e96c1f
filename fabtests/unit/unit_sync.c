/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of dev_cuda_sync.c on the emulated driver: which contexts get CU_CTX_SYNC_MEMOPS, when, and
 * what else stays as it is.
 */
#include "unit.h"

#include <pthread.h>

#include "../cudaemu/driver.h"
#include "base/conf.h"
#include "base/thread.h"
#include "mem/mem.h"

#define SIZE 65536

static unsigned int flags_of(CUdevice device, bool active)
{
	unsigned int flags = 0;
	int is_active = 0;

	assert_int_equal(cuDevicePrimaryCtxGetState(device, &flags, &is_active), CUDA_SUCCESS);
	assert_int_equal(is_active, active);
	return flags;
}

static void set_flags(CUdevice device, unsigned int flags)
{
	assert_int_equal(cuDevicePrimaryCtxSetFlags_v2(device, flags), CUDA_SUCCESS);
}

static void *pool_alloc(void)
{
	CUdeviceptr ptr = 0;

	assert_int_equal(cuMemAllocAsync(&ptr, SIZE, NULL), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
	return (void *) (uintptr_t) ptr;
}

static void pool_free(void *addr)
{
	assert_int_equal(cuMemFreeAsync((uintptr_t) addr, NULL), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
}

/* As a call that posts or registers it does */
static void classify(void *addr)
{
	const struct iovec iov = {addr, SIZE};
	struct dev_mem mem;

	assert_int_equal(mem_classify(&iov, 1, NULL, &mem), 0);
	assert_non_null(mem.ops);
}

/* Also those that nobody has retained yet, which stay so */
static void test_opened(void **state)
{
	set_flags(0, CU_CTX_SCHED_YIELD);
	set_flags(1, CU_CTX_SCHED_SPIN);
	dev_sync();
	assert_int_equal(flags_of(0, true), CU_CTX_SCHED_YIELD | CU_CTX_SYNC_MEMOPS);
	assert_int_equal(flags_of(1, false), CU_CTX_SCHED_SPIN | CU_CTX_SYNC_MEMOPS);
	set_flags(0, 0);
	set_flags(1, 0);
}

static void test_own_context(void **state)
{
	unsigned int flags = 0;
	CUcontext ctx;

	assert_int_equal(cuCtxCreate_v2(&ctx, CU_CTX_SCHED_SPIN, 0), CUDA_SUCCESS);
	dev_sync();
	assert_int_equal(cuCtxGetFlags(&flags), CUDA_SUCCESS);
	assert_int_equal(flags & (CU_CTX_SCHED_MASK | CU_CTX_SYNC_MEMOPS),
			 CU_CTX_SCHED_SPIN | CU_CTX_SYNC_MEMOPS);
	assert_int_equal(cuCtxDestroy_v2(ctx), CUDA_SUCCESS);
	unit_dev_use(0);
	set_flags(0, 0);
}

/* Of a context's own memory the attribute is enough. Of a pool's, flags are looked after at each allocation */
static void test_memory(void **state)
{
	void *plain = unit_dev_alloc(SIZE), *pool = pool_alloc(), *more = pool_alloc();
	unsigned int on = 0;

	classify(plain);
	assert_int_equal(flags_of(0, true), 0);
	assert_int_equal(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					       (uintptr_t) plain),
			 CUDA_SUCCESS);
	assert_true(on);
	classify(pool);
	assert_int_equal(flags_of(0, true), CU_CTX_SYNC_MEMOPS);
	set_flags(0, CU_CTX_SCHED_SPIN);
	classify(pool);
	assert_int_equal(flags_of(0, true), CU_CTX_SCHED_SPIN);
	classify(more);
	assert_int_equal(flags_of(0, true), CU_CTX_SCHED_SPIN | CU_CTX_SYNC_MEMOPS);
	unit_dev_free(plain);
	pool_free(pool);
	pool_free(more);
	set_flags(0, 0);
}

static void *run_classify(void *addr)
{
	classify(addr);
	return NULL;
}

/* A thread of ours leaves contexts alone, and the application's next call sets the flag */
static void test_own_thread(void **state)
{
	void *pool = pool_alloc();
	pthread_t thread;

	assert_false(thread_is_ours());
	assert_int_equal(thread_start(&thread, "unit", run_classify, pool), 0);
	pthread_join(thread, NULL);
	assert_int_equal(flags_of(0, true), 0);
	classify(pool);
	assert_int_equal(flags_of(0, true), CU_CTX_SYNC_MEMOPS);
	pool_free(pool);
	set_flags(0, 0);
}

static void test_left_out(void **state)
{
	void *pool = pool_alloc();

	conf.sync_memops = false;
	dev_sync();
	classify(pool);
	assert_int_equal(flags_of(0, true), 0);
	conf.sync_memops = true;
	/* no call may wait for a kernel then */
	conf.cuda_api = CONF_API_ASYNC;
	dev_sync();
	classify(pool);
	assert_int_equal(flags_of(0, true), 0);
	conf.cuda_api = CONF_API_STRICT;
	pool_free(pool);
}

/* As a driver before CUDA 12.1, which does not know the flag: the application is told, and goes on */
static void scene_refused(void **state)
{
	void *pool;

	unit_dev_start();
	pool = pool_alloc();
	dev_sync();
	classify(pool);
	assert_int_equal(flags_of(0, true), 0);
}

static void test_refused(void **state)
{
	static const char *const env[] =
		{"CUDAEMU_FAIL=cuDevicePrimaryCtxSetFlags:1+:1,cuCtxSetFlags:1+:1", NULL};

	unit_play("scene_refused", env);
}

static int setup(void **state)
{
	unit_dev_start();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opened),   cmocka_unit_test(test_own_context),
		cmocka_unit_test(test_memory),   cmocka_unit_test(test_own_thread),
		cmocka_unit_test(test_left_out), cmocka_unit_test(test_refused),
	};
	const struct CMUnitTest scenes[] = {cmocka_unit_test(scene_refused)};
	const struct unit unit = {tests, UNIT_COUNT(tests), scenes, UNIT_COUNT(scenes), setup,
				  NULL};

	return unit_main(argc, argv, &unit);
}
