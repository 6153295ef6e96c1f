/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A GPU runtime that is installed and comes into the process late, or never: dev_active() and
 * dl_watch(). This program is not linked with the emulated driver, but the linker can find it.
 */
#include "unit.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../cudaemu/driver.h"
#include "dev/dl.h"
#include "mem/mem.h"

#define DRIVER "libcuda.so.1"
#define SIZE 65536
#define THREADS 4

/* The C library's, which nobody here uses */
static const char *const others[] = {"libanl.so.1", "libBrokenLocale.so.1"};

static char host[SIZE]; /* neither heap nor stack */

static void *open_library(const char *name)
{
	void *lib = dlopen(name, RTLD_NOW);

	if (!lib)
		fail_msg("%s", dlerror());
	return lib;
}

/* What another thread does to the list of libraries just when it has been read, once */
static const char *comes;
static void *goes;

int dl_iterate_phdr(int (*look)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
	__typeof(&dl_iterate_phdr) real = (__typeof(real)) dlsym(RTLD_NEXT, "dl_iterate_phdr");
	const char *name = comes;
	void *lib = goes;
	int ret = real(look, data);

	comes = NULL;
	goes = NULL;
	if (name)
		open_library(name);
	if (lib)
		assert_int_equal(dlclose(lib), 0);
	return ret;
}

/* A device's memory, as an application gets it that has loaded the driver itself */
static void *alloc(void *driver)
{
	/* clang-format off */
	__typeof(&cuInit) init = (__typeof(init)) dlsym(driver, "cuInit");
	__typeof(&cuDevicePrimaryCtxRetain) retain =
		(__typeof(retain)) dlsym(driver, "cuDevicePrimaryCtxRetain");
	__typeof(&cuCtxSetCurrent) use = (__typeof(use)) dlsym(driver, "cuCtxSetCurrent");
	__typeof(&cuMemAlloc_v2) mem_alloc = (__typeof(mem_alloc)) dlsym(driver, "cuMemAlloc_v2");
	/* clang-format on */
	CUdeviceptr ptr = 0;
	CUcontext ctx;

	assert_int_equal(init(0), CUDA_SUCCESS);
	assert_int_equal(retain(&ctx, 0), CUDA_SUCCESS);
	assert_int_equal(use(ctx), CUDA_SUCCESS);
	assert_int_equal(mem_alloc(&ptr, SIZE), CUDA_SUCCESS);
	return (void *) (uintptr_t) ptr;
}

static void start_idle(void)
{
	struct dev_mem mem;

	assert_false(dev_active());
	dev_init();
	assert_true(dev_present);
	assert_false(dl_loaded(DRIVER));
	assert_false(dev_active());
	assert_false(mem_is_device(host, sizeof host));
	assert_int_equal(mem_classify(&(struct iovec){host, SIZE}, 1, NULL, &mem), 0);
	assert_null(mem.ops);
}

/* Memory of the device's is known from now on, and other memory is not taken for it */
static void expect_active(void *driver)
{
	char *ptr = alloc(driver);
	struct dev_mem mem;

	assert_true(dev_active());
	assert_true(mem_is_device(ptr, SIZE));
	assert_true(mem_is_device(ptr + SIZE - 1, 1));
	assert_false(mem_is_device(host, sizeof host));
	assert_int_equal(mem_classify(&(struct iovec){ptr, SIZE}, 1, NULL, &mem), 0);
	assert_non_null(mem.ops);
	assert_int_equal(mem.size, SIZE);
}

/* One look for each library that comes, and that was it */
static void scene_others(void **state)
{
	void *lib;

	start_idle();
	assert_null(*dev_news);
	for (size_t i = 0; i < UNIT_COUNT(others); i++) {
		lib = open_library(others[i]);
		assert_non_null(*dev_news);
		assert_false(dev_active());
		assert_null(*dev_news);
		/* the record that is watched stays */
		assert_int_equal(dlclose(lib), 0);
		assert_null(*dev_news);
		assert_false(dev_active());
	}
	assert_false(dl_loaded(DRIVER));
}

/* Libraries that come and go while it is looked what has come say nothing of a driver */
static void scene_busy(void **state)
{
	comes = others[0];
	start_idle();
	assert_null(comes);
	assert_false(dl_loaded(DRIVER));
	goes = open_library(others[1]);
	assert_non_null(*dev_news);
	assert_false(dev_active());
	assert_null(goes);
	assert_false(dl_loaded(others[1]));
	assert_false(dl_loaded(DRIVER));
	assert_null(*dev_news);
	expect_active(open_library(DRIVER));
}

static void scene_late(void **state)
{
	start_idle();
	open_library(others[0]);
	assert_false(dev_active());
	open_library(others[1]);
	expect_active(open_library(DRIVER));
	/* once is enough */
	dev_init();
	assert_true(dev_active());
}

static void scene_early(void **state)
{
	void *driver = open_library(DRIVER);

	dev_init();
	assert_true(dev_present);
	expect_active(driver);
}

/* Who has only looked whether there is a driver */
static void scene_gone(void **state)
{
	void *driver;

	start_idle();
	assert_int_equal(dlclose(open_library(DRIVER)), 0);
	assert_false(dev_active());
	assert_false(dl_loaded(DRIVER));
	driver = open_library(DRIVER);
	assert_true(dev_active());
	/* it cannot be taken away from us any more */
	assert_int_equal(dlclose(driver), 0);
	assert_true(dl_loaded(DRIVER));
	assert_true(dev_active());
	expect_active(open_library(DRIVER));
}

static void *wait_active(void *shared)
{
	void *const *ptr = shared;
	void *addr;

	while (!dev_active())
		;
	while (!(addr = __atomic_load_n(ptr, __ATOMIC_ACQUIRE)))
		;
	return mem_is_device(addr, SIZE) && !mem_is_device(host, SIZE) ? addr : NULL;
}

static void scene_threads(void **state)
{
	pthread_t thread[THREADS];
	void *ptr = NULL, *found, *driver;

	start_idle();
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, wait_active, &ptr), 0);
	for (size_t i = 0; i < UNIT_COUNT(others); i++)
		open_library(others[i]);
	driver = open_library(DRIVER);
	__atomic_store_n(&ptr, alloc(driver), __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], &found), 0);
		assert_ptr_equal(found, ptr);
	}
}

#define SCENE(name)                                                                            \
	static void test_##name(void **state)                                                  \
	{                                                                                      \
		play("scene_" #name);                                                          \
	}

/* By the path that users take: a sanitizer's dlopen() does not see our run path */
static void play(const char *scene)
{
	const char *path = getenv("LD_LIBRARY_PATH");
	char set[4096];

	assert_true(snprintf(set, sizeof set, "LD_LIBRARY_PATH=%s:%s", UNIT_CUDAEMU,
			     path ? path : "") < (int) sizeof set);
	unit_play(scene, (const char *[]){set, NULL});
}

SCENE(others)
SCENE(busy)
SCENE(late)
SCENE(early)
SCENE(gone)
SCENE(threads)

/* A file of the name is no library: libc.so is a script for the linker */
static void test_installed(void **state)
{
	assert_true(dl_installed(NULL, "libc.so.6"));
	assert_false(dl_installed(NULL, "libc.so"));
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_others),    cmocka_unit_test(test_busy),
		cmocka_unit_test(test_late),      cmocka_unit_test(test_early),
		cmocka_unit_test(test_gone),      cmocka_unit_test(test_threads),
		cmocka_unit_test(test_installed),
	};
	static const struct CMUnitTest scenes[] = {
		cmocka_unit_test(scene_others), cmocka_unit_test(scene_busy),
		cmocka_unit_test(scene_late),   cmocka_unit_test(scene_early),
		cmocka_unit_test(scene_gone),   cmocka_unit_test(scene_threads),
	};
	static const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
		.scenes = scenes,
		.scene_count = UNIT_COUNT(scenes),
	};

	return unit_main(argc, argv, &unit);
}
