/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of dev_cuda_gdr.c, and of what copy.c and mem.c make of it, on the emulated driver and
 * library: which ends the process if memory is used that is not there any more, or by two threads
 * at once, and counts its calls. Each test is a scene.
 */
#include "unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "../cudaemu/driver.h"
#include "../cudaemu/emu.h"
#include "base/base.h"
#include "base/conf.h"
#include "mem/mem.h"
#include "unit_copy.h"

/* Of dev_cuda_gdr.c */
#define WINDOW ((size_t) 65536)
#define WINDOWS 64
#define OUT_MAX 128
#define IN_MAX 4096
#define PATIENCE 512

#define ROOM (3 * WINDOW)

static unsigned char bytes[ROOM], want[ROOM], got[ROOM];
static struct dev_mem mem;

static char *begin(size_t len)
{
	char *dev;

	unit_dev_start();
	conf.gdrcopy = true;
	dev = unit_dev_alloc(len);
	assert_true(dev_find(dev, &mem));
	return dev;
}

static int copy_short(void *dst, const void *src, size_t len)
{
	return mem.ops->copy_short(&mem, dst, src, len);
}

/* By the library, in either direction */
static unsigned long copies(void)
{
	return cudaemu_calls("gdr_copy_to_mapping") + cudaemu_calls("gdr_copy_from_mapping");
}

/* By the driver, which has other names for what the tests themselves copy by */
static unsigned long driver_copies(void)
{
	return cudaemu_calls("cuMemcpy") + cudaemu_calls("cuMemcpyAsync") +
	       cudaemu_calls("cuMemcpyBatchAsync") + cudaemu_calls("cuStreamBatchMemOp");
}

/* ---- bytes ---- */

/* @len bytes at @at in and out again, or neither; all of the buffers is looked at */
static void check_bytes(char *dev, size_t at, size_t len)
{
	const unsigned int parts = at / WINDOW == (at + len - 1) / WINDOW ? 1 : 2;
	unsigned long before = copies();

	unit_fill(bytes, ROOM, (unsigned int) (at + len));
	unit_fill(want, ROOM, 1);
	unit_dev_write(dev, want, ROOM);
	if (len <= IN_MAX) {
		assert_int_equal(copy_short(dev + at, bytes + 1, len), 0);
		memcpy(want + at, bytes + 1, len);
		before += parts;
	} else {
		assert_int_equal(copy_short(dev + at, bytes + 1, len), -FI_ENOSYS);
	}
	assert_int_equal(copies(), before);
	unit_dev_read(got, dev, ROOM);
	assert_memory_equal(got, want, ROOM);

	memcpy(bytes, want, ROOM);
	unit_fill(got, ROOM, 2);
	unit_fill(want, ROOM, 2);
	if (len <= OUT_MAX) {
		assert_int_equal(copy_short(got + 5, dev + at, len), 0);
		memcpy(want + 5, bytes + at, len);
		before += parts;
	} else {
		assert_int_equal(copy_short(got + 5, dev + at, len), -FI_ENOSYS);
	}
	assert_int_equal(copies(), before);
	assert_memory_equal(got, want, ROOM);
}

static void scene_bytes(void **state)
{
	static const size_t lens[] = {1, 2, 3, 4, 7, 8, 64, 127, 128, 129, 4095, 4096, 4097};
	static const size_t ats[] = {0,
				     1,
				     3,
				     8,
				     13,
				     WINDOW - 4096,
				     WINDOW - 128,
				     WINDOW - 127,
				     WINDOW - 1,
				     WINDOW,
				     2 * WINDOW - 64,
				     2 * WINDOW - 7};
	char *dev = begin(ROOM);

	for (size_t i = 0; i < UNIT_COUNT(ats); i++)
		for (size_t j = 0; j < UNIT_COUNT(lens); j++)
			check_bytes(dev, ats[i], lens[j]);
	/* to the last byte, and no further */
	check_bytes(dev, ROOM - 128, 128);
	check_bytes(dev, ROOM - 1, 1);
	assert_int_equal(copy_short(dev + ROOM - 1, bytes, 2), -FI_ENOSYS);
	assert_int_equal(copy_short(bytes, dev + ROOM - 1, 2), -FI_ENOSYS);
	assert_int_equal(cudaemu_calls("gdr_pin_buffer"), ROOM / WINDOW);
}

/* Neither end is in the allocation; it is not one of cuMemAlloc; nobody has asked for it */
static void scene_others(void **state)
{
	char *dev = begin(100), *other = unit_dev_alloc(100);
	CUdeviceptr pool = 0;

	assert_int_equal(copy_short(bytes, got, 8), -FI_ENOSYS);
	assert_int_equal(copy_short(other, bytes, 8), -FI_ENOSYS);
	assert_int_equal(copy_short(bytes, other, 8), -FI_ENOSYS);
	assert_int_equal(cuMemAllocAsync(&pool, 100, NULL), CUDA_SUCCESS);
	unit_dev_sync();
	assert_true(dev_find((void *) (uintptr_t) pool, &mem));
	assert_int_equal(copy_short((void *) (uintptr_t) pool, bytes, 8), -FI_ENOSYS);
	assert_true(dev_find(dev, &mem));
	conf.gdrcopy = false;
	assert_int_equal(copy_short(dev, bytes, 8), -FI_ENOSYS);
	assert_int_equal(cudaemu_calls("gdr_open"), 0);
	conf.gdrcopy = true;
	assert_int_equal(copy_short(dev, bytes, 8), 0);
	assert_int_equal(cudaemu_calls("gdr_open"), 1);
}

/* ---- windows ---- */

static void check_window(char *dev, size_t i, int result)
{
	const unsigned char value[3] = {(unsigned char) i, (unsigned char) (i >> 8), 77};

	assert_int_equal(copy_short(dev + i * WINDOW + i, value, sizeof value), result);
	if (result)
		return;
	unit_dev_read(got, dev + i * WINDOW + i, sizeof value);
	assert_memory_equal(got, value, sizeof value);
}

static void scene_windows(void **state)
{
	char *dev = begin(2 * WINDOWS * WINDOW), *other;

	for (size_t i = 0; i < WINDOWS; i++)
		check_window(dev, i, 0);
	assert_int_equal(cudaemu_calls("gdr_pin_buffer"), WINDOWS);
	check_window(dev, 0, 0);
	/* one more, in the place of the one whose last use is longest ago; not at once */
	for (size_t i = 1; i < PATIENCE; i++)
		check_window(dev, WINDOWS + i % WINDOWS, -FI_ENOSYS);
	assert_int_equal(cudaemu_calls("gdr_unpin_buffer"), 0);
	check_window(dev, WINDOWS, 0);
	check_window(dev, WINDOWS, 0);
	assert_int_equal(cudaemu_calls("gdr_pin_buffer"), WINDOWS + 1);
	assert_int_equal(cudaemu_calls("gdr_unmap"), 1);
	assert_int_equal(cudaemu_calls("gdr_unpin_buffer"), 1);
	check_window(dev, 0, 0);
	check_window(dev, 2, 0);
	check_window(dev, 1, -FI_ENOSYS);
	/* with the allocation, all windows go, when the next one is opened */
	other = unit_dev_alloc(10);
	unit_dev_free(dev);
	assert_true(dev_find(other, &mem));
	for (size_t i = 2; i < PATIENCE; i++)
		check_window(other, 0, -FI_ENOSYS);
	check_window(other, 0, 0);
	assert_int_equal(cudaemu_calls("gdr_unpin_buffer"), WINDOWS + 1);
}

/* The same address again and again, of another allocation each time */
static void scene_freed(void **state)
{
	char *dev = begin(1000), *again;
	const size_t rounds = 3 * WINDOWS;

	for (size_t i = 0; i < rounds; i++) {
		unit_fill(bytes, 100, (unsigned int) i);
		assert_int_equal(copy_short(dev + i, bytes, 100), 0);
		unit_dev_read(got, dev + i, 100);
		assert_memory_equal(got, bytes, 100);
		memset(got, 0, 100);
		assert_int_equal(copy_short(got, dev + i, 100), 0);
		assert_memory_equal(got, bytes, 100);
		unit_dev_free(dev);
		again = unit_dev_alloc(1000);
		assert_ptr_equal(again, dev);
		assert_true(dev_find(dev, &mem));
	}
	assert_int_equal(cudaemu_calls("gdr_pin_buffer"), rounds);
	assert_int_equal(cudaemu_calls("gdr_unpin_buffer"), rounds - 1);
}

/* ---- failures ---- */

/* Nothing is there: it is found out once */
static void scene_no_driver(void **state)
{
	char *dev = begin(ROOM);

	for (int i = 0; i < 10; i++)
		assert_int_equal(copy_short(dev, bytes, 8), -FI_ENOSYS);
	assert_int_equal(cudaemu_calls("gdr_open"), 1);
	assert_int_equal(cudaemu_calls("gdr_pin_buffer"), 0);
}

/* An allocation that cannot be mapped is not tried again, and others are */
static void scene_no_window(void **state)
{
	char *dev = begin(ROOM), *other = unit_dev_alloc(ROOM);

	for (size_t i = 0; i < 30; i++)
		check_window(dev, i % 3, -FI_ENOSYS);
	assert_int_equal(cudaemu_calls("gdr_pin_buffer"), 1);
	assert_int_equal(copies(), 0);
	assert_true(dev_find(other, &mem));
	check_window(other, 0, 0);
	check_window(other, 1, 0);
	assert_int_equal(cudaemu_calls("gdr_pin_buffer"), 3);
	/* what was pinned in vain has been given up */
	assert_int_equal(cudaemu_calls("gdr_unpin_buffer"), cudaemu_calls("gdr_get_info") - 2);
}

static void scene_no_copy(void **state)
{
	char *dev = begin(ROOM);

	check_window(dev, 0, -FI_ENOSYS);
	check_window(dev, 0, 0);
}

/* ---- memory of our own ---- */

/* What the CPU writes there, the device has; what it has not written is 0 */
static void scene_own(void **state)
{
	struct dev_window own[2];
	char *dev = begin(ROOM);

	assert_true(dev_find(dev, &mem));
	for (size_t i = 0; i < UNIT_COUNT(own); i++) {
		assert_int_equal(mem.ops->window_open(&mem, WINDOW + 100, &own[i]), 0);
		assert_int_equal((uintptr_t) own[i].addr % WINDOW, 0);
		unit_fill(want, WINDOW, (unsigned int) i);
		memset(want + WINDOW, 0, 100);
		memcpy(own[i].map, want, WINDOW);
		dev_window_order();
		unit_dev_read(got, own[i].addr, WINDOW + 100);
		assert_memory_equal(got, want, WINDOW + 100);
	}
	unit_dev_read(got, own[0].addr, WINDOW);
	unit_fill(want, WINDOW, 0);
	assert_memory_equal(got, want, WINDOW);
	/* it is no window of the application's memory */
	check_window(dev, 0, 0);
	assert_int_equal(cudaemu_calls("gdr_pin_buffer"), 3);
	for (size_t i = 0; i < UNIT_COUNT(own); i++)
		mem.ops->window_close(&mem, &own[i]);
	assert_int_equal(cudaemu_calls("gdr_unpin_buffer"), 2);
	assert_int_equal(cudaemu_calls("cuMemFree"), 2);
	check_window(dev, 0, 0);
}

/* Nothing is left of what could not be mapped */
static void scene_own_none(void **state)
{
	struct dev_window own;
	char *dev = begin(ROOM);
	unsigned long failed;

	conf.gdrcopy = false;
	assert_int_equal(mem.ops->window_open(&mem, 100, &own), -FI_ENOSYS);
	assert_int_equal(cudaemu_calls("cuMemAlloc"), 1);
	conf.gdrcopy = true;
	assert_int_equal(mem.ops->window_open(&mem, 100, &own), -FI_ENOSYS);
	assert_int_equal(cudaemu_calls("cuMemFree"), cudaemu_calls("cuMemAlloc") - 1);
	/* but for the one that failed itself */
	failed = !cudaemu_calls("gdr_get_info") && cudaemu_calls("gdr_pin_buffer");
	assert_int_equal(cudaemu_calls("gdr_unpin_buffer"),
			 cudaemu_calls("gdr_pin_buffer") - failed);
	assert_non_null(dev);
}

/* ---- processes and threads ---- */

static void scene_fork(void **state)
{
	char *dev = begin(ROOM);
	int status;
	pid_t pid;

	check_window(dev, 0, 0);
	pid = fork();
	if (!pid)
		_exit(copy_short(dev, bytes, 8) == -FI_ENOSYS ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	check_window(dev, 1, 0);
}

#define THREADS 4

static void *thread(void *arg)
{
	unsigned char value[40], back[40];
	struct dev_mem own;
	char *dev = arg;

	if (!dev_find(dev, &own))
		return NULL;
	for (size_t i = 0; i < 300; i++) {
		unit_fill(value, sizeof value, (unsigned int) i);
		/* more windows than there are: each may be given up while others copy */
		if (!own.ops->copy_short(&own, dev + i % 20 * WINDOW, value, sizeof value) &&
		    !own.ops->copy_short(&own, back, dev + i % 20 * WINDOW, sizeof back) &&
		    memcmp(value, back, sizeof value))
			return NULL;
	}
	return dev;
}

static void scene_threads(void **state)
{
	char *dev[THREADS] = {begin(20 * WINDOW)};
	pthread_t threads[THREADS];
	void *ret;

	for (int i = 1; i < THREADS; i++)
		dev[i] = unit_dev_alloc(20 * WINDOW);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, thread, dev[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &ret), 0);
		assert_ptr_equal(ret, dev[i]);
	}
	assert_in_range(cudaemu_calls("gdr_pin_buffer"), WINDOWS, 2 * WINDOWS);
}

/* ---- queues ---- */

static struct copy_engines engines;
static unsigned int ended;

static void job_done(struct copy *copy, int status)
{
	struct job *job = container_of(copy, struct job, copy);

	job->turn = ended++;
	job->calls++;
	job->status = status;
}

static void start(struct job *job, enum copy_dir dir, char *dev, size_t len, void *host)
{
	struct iovec iov = {dev, len};

	memset(job, 0, sizeof *job);
	job->copy.done = job_done;
	job->copy.pinned = true;
	assert_int_equal(copy_start(&engines, &mem, dir, &iov, 1, host, &job->copy), 0);
}

/* There at once, reported in its turn; what is held back before it begins all the same */
static void scene_queue(void **state)
{
	enum { LEN = 5000, JOBS = 12 };
	unsigned char *host[COPY_DIRS];
	struct job jobs[JOBS];
	unsigned long before;
	char *dev = begin(JOBS * LEN);

	copy_engines_init(&engines);
	for (int dir = COPY_OUT; dir <= COPY_IN; dir++) {
		host[dir] = unit_dev_pinned(JOBS * LEN);
		unit_fill(host[dir], JOBS * LEN, (unsigned int) dir);
		unit_fill(want, JOBS * LEN, 7);
		unit_dev_write(dev, want, JOBS * LEN);
		ended = 0;
		before = copies();
		for (int i = 0; i < JOBS; i++) {
			start(&jobs[i], dir, dev + i * LEN, i % 4 == 3 ? 8 : LEN,
			      host[dir] + i * LEN);
			assert_int_equal(jobs[i].calls, 0);
			assert_int_equal(engines.pending, i + 1);
			if (i % 4 != 3)
				continue;
			unit_dev_read(got, dev + i * LEN, 8);
			assert_memory_equal(got, host[dir] + i * LEN, 8);
		}
		assert_int_equal(copies(), before + JOBS / 4);
		while (engines.pending)
			copy_progress(&engines);
		unit_dev_read(got, dev, JOBS * LEN);
		for (int i = 0; i < JOBS; i++) {
			assert_int_equal(jobs[i].calls, 1);
			assert_int_equal(jobs[i].status, 0);
			assert_int_equal(jobs[i].turn, i);
			assert_memory_equal(got + i * LEN, host[dir] + i * LEN,
					    i % 4 == 3 ? 8 : LEN);
		}
	}
	copy_engines_fini(&engines);
}

/* Alone, it takes no call of the driver's, and tells nothing of how long one takes */
static void scene_alone(void **state)
{
	unsigned long before;
	struct copy_queue *queues;
	struct iovec iov;
	struct job job;
	char *dev = begin(ROOM);

	copy_engines_init(&engines);
	unit_fill(bytes, ROOM, 3);
	unit_dev_write(dev, bytes, ROOM);
	iov = (struct iovec){dev + 64, 8};
	start(&job, COPY_OUT, dev, 8, got);
	copy_await(&engines);
	assert_int_equal(job.calls, 1);
	queues = LIST_FIRST(&engines.list)->queues;
	before = driver_copies();
	for (int i = 0; i < 100; i++) {
		memset(got, 0, 8);
		start(&job, COPY_OUT, dev + 64, 8, got);
		copy_await(&engines);
		assert_int_equal(job.calls, 1);
		assert_memory_equal(got, bytes + 64, 8);
		start(&job, COPY_IN, dev + 128 + i, 4096, bytes + i);
		assert_true(copy_progress(&engines));
		assert_int_equal(job.status, 0);
		memset(got, 0, 8);
		job.calls = 0;
		assert_int_equal(copy_run(&engines, &mem, COPY_OUT, &iov, 1, got, &job.copy),
				 0);
		assert_memory_equal(got, bytes + 64, 8);
		assert_int_equal(job.calls, 0);
	}
	assert_int_equal(driver_copies(), before);
	assert_int_equal(copies(), 301);
	assert_int_equal(queues[COPY_OUT].usual, 0);
	assert_int_equal(queues[COPY_IN].usual, 0);
	/* what it does not take, the driver does */
	start(&job, COPY_IN, dev + 64, 4097, bytes);
	while (!copy_progress(&engines))
		;
	start(&job, COPY_OUT, dev + 64, 4097, got);
	while (!copy_progress(&engines))
		;
	assert_memory_equal(got, bytes, 4097);
	assert_int_equal(driver_copies(), before + 2);
	assert_int_equal(copies(), 301);
	copy_engines_fini(&engines);
}

/* ---- who plays what ---- */

#define FAIL(what) "CUDAEMU_FAIL=" what

static const struct unit_copy_play plays[] = {
	{"scene_bytes", {NULL}},
	{"scene_others", {NULL}},
	{"scene_windows", {NULL}},
	{"scene_freed", {NULL}},
	{"scene_no_driver", {FAIL("gdr_open:1")}},
	{"scene_no_window", {FAIL("gdr_pin_buffer:1")}},
	{"scene_no_window", {FAIL("gdr_get_info:1")}},
	{"scene_no_window", {FAIL("gdr_map:1")}},
	{"scene_no_copy", {FAIL("gdr_copy_to_mapping:1")}},
	{"scene_own", {NULL}},
	{"scene_own_none", {FAIL("gdr_open:1")}},
	{"scene_own_none", {FAIL("gdr_pin_buffer:1")}},
	{"scene_own_none", {FAIL("gdr_get_info:1")}},
	{"scene_own_none", {FAIL("gdr_map:1")}},
	{"scene_fork", {NULL}},
	{"scene_threads", {NULL}},
	{"scene_queue", {NULL}},
	{"scene_queue", {"CUDAEMU_COPY_LATENCY_US=200"}},
	{"scene_queue", {"CUDAEMU_NO_MEMOPS=1"}},
	{"scene_alone", {NULL}},
};

static void test_plays(void **state)
{
	for (size_t i = 0; i < UNIT_COUNT(plays); i++)
		unit_play(plays[i].scene, plays[i].env);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest own[] = {cmocka_unit_test(test_plays)};
	const struct CMUnitTest scenes[] = {
		cmocka_unit_test(scene_bytes),     cmocka_unit_test(scene_others),
		cmocka_unit_test(scene_windows),   cmocka_unit_test(scene_freed),
		cmocka_unit_test(scene_no_driver), cmocka_unit_test(scene_no_window),
		cmocka_unit_test(scene_no_copy),   cmocka_unit_test(scene_fork),
		cmocka_unit_test(scene_threads),   cmocka_unit_test(scene_queue),
		cmocka_unit_test(scene_alone),     cmocka_unit_test(scene_own),
		cmocka_unit_test(scene_own_none),
	};
	const struct unit unit = {
		.tests = own,
		.test_count = UNIT_COUNT(own),
		.scenes = scenes,
		.scene_count = UNIT_COUNT(scenes),
	};

	return unit_main(argc, argv, &unit);
}
