/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of copy.c on an emulated device, of either vendor. Every test is a scene,
 * and how it is played depends on the vendor: slow, without some ability of the device,
 * with calls of its library that fail.
 */
#include "unit_copy.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fabric.h>

#include "mem/mem.h"

unsigned int jobs_ended;

static void job_done(struct copy *copy, int status)
{
	struct job *job = container_of(copy, struct job, copy);

	job->turn = jobs_ended++;
	job->calls++;
	job->status = status;
}

void job_init(struct job *job)
{
	memset(job, 0, sizeof *job);
	job->copy.done = job_done;
	job->status = 1;
}

void jobs_wait(struct copy_engines *engines)
{
	while (__atomic_load_n(&engines->pending, __ATOMIC_RELAXED)) {
		copy_progress(engines);
		sched_yield();
	}
}

/* Static: where a device hangs, they are never closed and yet no leak */
static struct copy_engines engines;

/* ---- bytes ---- */

#define ROOM ((size_t) 256 << 10)

/* Pieces lie this far apart, and what is between them stays as it was */
#define GAP 13

/* Pinned: with other memory, a copy is over before it has begun */
static unsigned char *host, *got;
static unsigned char want[ROOM];

static void begin(void)
{
	unit_dev_start();
	host = unit_dev_pinned(ROOM);
	got = unit_dev_pinned(ROOM);
	copy_engines_init(&engines);
}

static void check_pieces(const struct dev_mem *mem, char *dev, const size_t *lens, size_t count)
{
	struct iovec iov[P2P_IOV_MAX];
	size_t len = 0, at = GAP;
	struct job job;

	unit_fill(want, ROOM, 1);
	unit_dev_write(dev, want, ROOM);
	unit_fill(host, ROOM, 2);
	for (size_t i = 0; i < count; i++) {
		iov[i] = (struct iovec){dev + at, lens[i]};
		memcpy(want + at, host + len, lens[i]);
		len += lens[i];
		at += lens[i] + GAP;
	}
	job_init(&job);
	assert_int_equal(copy_start(&engines, mem, COPY_IN, iov, count, host, &job.copy), 0);
	assert_int_equal(engines.pending, 1);
	assert_int_equal(job.calls, 0);
	jobs_wait(&engines);
	assert_int_equal(job.calls, 1);
	assert_int_equal(job.status, 0);
	unit_dev_read(got, dev, ROOM);
	assert_memory_equal(got, want, ROOM);

	unit_fill(got, ROOM, 3);
	unit_fill(want, ROOM, 3);
	memcpy(want + 1, host, len);
	job_init(&job);
	assert_int_equal(copy_start(&engines, mem, COPY_OUT, iov, count, got + 1, &job.copy),
			 0);
	jobs_wait(&engines);
	assert_int_equal(job.status, 0);
	assert_memory_equal(got, want, ROOM);
}

static void scene_bytes(void **state)
{
	static const struct {
		size_t lens[P2P_IOV_MAX];
		size_t count;
	} cases[] = {
		{{1}, 1},
		{{0}, 1},
		{{4096}, 1},
		{{65537}, 1},
		{{7, 64, 3}, 3},
		{{0, 4097, 0, 1, 65535, 0}, 6},
		{{1, 2, 3, 4, 5, 6, 7, 8}, 8},
		{{16381, 1, 32749, 16, 8191, 4099, 2, 100003}, 8},
	};
	struct dev_mem mem;
	char *dev;

	begin();
	for (int ordinal = 0; ordinal < 2; ordinal++) {
		unit_dev_use(ordinal);
		dev = unit_dev_alloc(ROOM);
		assert_true(dev_find(dev, &mem));
		for (size_t i = 0; i < UNIT_COUNT(cases); i++)
			check_pieces(&mem, dev, cases[i].lens, cases[i].count);
	}
	copy_engines_fini(&engines);
}

/* ---- many ---- */

/* More than the marks that a queue with events has */
#define MANY 700

static void scene_many(void **state)
{
	static const size_t at[COPY_DIRS] =
		{[COPY_IN] = 0, [COPY_OUT] = MANY, [COPY_ACROSS] = 2 * MANY};
	static struct job jobs[COPY_DIRS][MANY];
	unsigned char *other[COPY_DIRS];
	unsigned int last[COPY_DIRS] = {0}, begun = jobs_ended;
	struct dev_mem mem;
	struct iovec iov;
	char *dev;

	begin();
	dev = unit_dev_alloc(3 * MANY);
	unit_fill(want, 3 * MANY, 9);
	unit_dev_write(dev, want, 3 * MANY);
	unit_fill(host, MANY, 10);
	other[COPY_IN] = host;
	other[COPY_OUT] = got;
	other[COPY_ACROSS] = (unsigned char *) dev + MANY;
	memset(got, 0, MANY);
	assert_true(dev_find(dev, &mem));
	for (size_t i = 0; i < MANY; i++) {
		for (int dir = 0; dir < COPY_DIRS; dir++) {
			job_init(&jobs[dir][i]);
			jobs[dir][i].copy.pinned = i % 100 < 90;
			iov = (struct iovec){dev + at[dir] + i, 1};
			assert_int_equal(copy_start(&engines, &mem, dir, &iov, 1,
						    other[dir] + i, &jobs[dir][i].copy),
					 0);
		}
		/* nobody is told, whatever has ended: that is for copy_progress() */
		assert_int_equal(engines.pending, COPY_DIRS * (i + 1));
	}
	assert_int_equal(jobs_ended, begun);
	jobs_wait(&engines);
	assert_int_equal(jobs_ended, begun + COPY_DIRS * MANY);
	for (int dir = 0; dir < COPY_DIRS; dir++) {
		for (size_t i = 0; i < MANY; i++) {
			assert_int_equal(jobs[dir][i].calls, 1);
			assert_int_equal(jobs[dir][i].status, 0);
			assert_true(!i || jobs[dir][i].turn > last[dir]);
			last[dir] = jobs[dir][i].turn;
		}
	}
	assert_memory_equal(got, want + MANY, MANY);
	unit_dev_read(got, dev, 3 * MANY);
	assert_memory_equal(got, host, MANY);
	assert_memory_equal(got + 2 * MANY, want + MANY, MANY);
	copy_engines_fini(&engines);
	unit_dev_free(dev);
}

/* Closing waits for what is in flight: nothing writes to the host memory afterwards */
static void scene_close(void **state)
{
	enum { JOBS = 16, LEN = ROOM / JOBS };
	struct dev_mem mem;
	struct job jobs[JOBS];
	struct iovec iov;
	char *dev;

	begin();
	dev = unit_dev_alloc(ROOM);
	unit_fill(want, ROOM, 4);
	unit_dev_write(dev, want, ROOM);
	assert_true(dev_find(dev, &mem));
	for (size_t i = 0; i < JOBS; i++) {
		job_init(&jobs[i]);
		iov = (struct iovec){dev + i * LEN, LEN};
		assert_int_equal(copy_start(&engines, &mem, COPY_OUT, &iov, 1, got + i * LEN,
					    &jobs[i].copy),
				 0);
	}
	copy_engines_fini(&engines);
	assert_memory_equal(got, want, ROOM);
	memset(got, 0, ROOM);
	unit_dev_sync();
	for (size_t i = 0; i < ROOM; i++)
		assert_int_equal(got[i], 0);
}

/* ---- failures ---- */

/*
 * Some call of the driver fails once: exactly one copy cannot be started, and the others
 * are as if nothing had been.
 */
static void scene_one_fails(void **state)
{
	enum { JOBS = 6, PIECES = 3, LEN = 1000 };
	struct job jobs[JOBS];
	struct dev_mem mem;
	struct iovec iov[PIECES];
	unsigned int failed = 0;
	bool bad[JOBS];
	char *dev;

	begin();
	dev = unit_dev_alloc(JOBS * PIECES * LEN);
	assert_true(dev_find(dev, &mem));
	unit_fill(host, JOBS * PIECES * LEN, 5);
	for (int i = 0; i < JOBS; i++) {
		job_init(&jobs[i]);
		for (int j = 0; j < PIECES; j++)
			iov[j] = (struct iovec){dev + (i * PIECES + j) * LEN, LEN};
		bad[i] = copy_start(&engines, &mem, COPY_IN, iov, PIECES,
				    host + i * PIECES * LEN, &jobs[i].copy) < 0;
		failed += bad[i];
		assert_int_equal(engines.pending, i + 1 - failed);
	}
	assert_int_equal(failed, 1);
	jobs_wait(&engines);
	unit_dev_read(got, dev, JOBS * PIECES * LEN);
	for (int i = 0; i < JOBS; i++) {
		assert_int_equal(jobs[i].calls, !bad[i]);
		if (bad[i])
			continue;
		assert_int_equal(jobs[i].status, 0);
		assert_memory_equal(got + i * PIECES * LEN, host + i * PIECES * LEN,
				    PIECES * LEN);
	}
	copy_engines_fini(&engines);
}

/*
 * Some call fails once, when copies begin together: no more than one fails, and then
 * nothing is wrong with the others.
 */
static void scene_held_fails(void **state)
{
	enum { JOBS = 40, LEN = 3000 };
	struct job jobs[JOBS];
	struct dev_mem mem;
	struct iovec iov;
	unsigned int failed = 0;
	char *dev;

	begin();
	dev = unit_dev_alloc(JOBS * LEN);
	assert_true(dev_find(dev, &mem));
	unit_fill(host, JOBS * LEN, 6);
	for (int i = 0; i < JOBS; i++) {
		job_init(&jobs[i]);
		jobs[i].copy.pinned = true;
		iov = (struct iovec){dev + i * LEN, LEN};
		assert_int_equal(copy_start(&engines, &mem, COPY_IN, &iov, 1, host + i * LEN,
					    &jobs[i].copy),
				 0);
	}
	jobs_wait(&engines);
	unit_dev_read(got, dev, JOBS * LEN);
	for (int i = 0; i < JOBS; i++) {
		assert_int_equal(jobs[i].calls, 1);
		failed += jobs[i].status < 0;
		if (!jobs[i].status)
			assert_memory_equal(got + i * LEN, host + i * LEN, LEN);
	}
	assert_in_range(failed, 0, 1);
	copy_engines_fini(&engines);
}

/* Waiting for one of many, and for the first that there is */
static void scene_run(void **state)
{
	enum { LEN = 5000 };
	struct job others[3], job;
	struct dev_mem mem;
	struct iovec iov;
	char *dev;

	begin();
	dev = unit_dev_alloc(LEN);
	assert_true(dev_find(dev, &mem));
	unit_fill(host, LEN, 7);
	unit_dev_write(dev, host, LEN);
	for (size_t many = 0; many < 2; many++) {
		for (size_t len = 1; len <= LEN; len = len * 3 / 2 + 1) {
			for (size_t i = 0; many && i < UNIT_COUNT(others); i++) {
				job_init(&others[i]);
				others[i].copy.pinned = true;
				iov = (struct iovec){dev, LEN};
				assert_int_equal(copy_start(&engines, &mem, COPY_OUT, &iov, 1,
							    want + i * LEN, &others[i].copy),
						 0);
			}
			memset(got, 0, LEN);
			job_init(&job);
			iov = (struct iovec){dev, len};
			assert_int_equal(copy_run(&engines, &mem, COPY_OUT, &iov, 1, got,
						  &job.copy),
					 0);
			assert_memory_equal(got, host, len);
			assert_int_equal(job.calls, 0);
			jobs_wait(&engines);
			for (size_t i = 0; many && i < UNIT_COUNT(others); i++)
				assert_memory_equal(want + i * LEN, host, LEN);
		}
	}
	copy_engines_fini(&engines);
}

/*
 * The device fails while copies are under way: each is told so, with an error, once, from the
 * first on that it failed at, which need not be the one begun first
 */
static void device_fails(enum copy_dir dir)
{
	struct dev_mem mem;
	struct job jobs[5];
	bool failed = false;
	struct iovec iov;

	begin();
	iov = (struct iovec){unit_dev_alloc(100 * UNIT_COUNT(jobs)), 100};
	assert_true(dev_find(iov.iov_base, &mem));
	for (size_t i = 0; i < UNIT_COUNT(jobs);
	     i++, iov.iov_base = (char *) iov.iov_base + 100) {
		job_init(&jobs[i]);
		assert_int_equal(copy_start(&engines, &mem, dir, &iov, 1, got + i * 100,
					    &jobs[i].copy),
				 0);
	}
	jobs_wait(&engines);
	for (size_t i = 0; i < UNIT_COUNT(jobs); i++) {
		assert_int_equal(jobs[i].calls, 1);
		failed |= jobs[i].status < 0;
		assert_int_equal(jobs[i].status < 0, failed);
	}
	assert_true(failed);
	/* not closed: that would wait for the copy which never ends */
}

static void scene_device_fails(void **state)
{
	device_fails(COPY_IN);
}

/* The same of copies that may be told by what they bring: nothing */
static void scene_nothing_comes(void **state)
{
	device_fails(COPY_OUT);
}

/* ---- who plays what ---- */

static void test_plays(void **state)
{
	for (size_t i = 0; i < unit_copy_play_count; i++)
		unit_play(unit_copy_plays[i].scene, unit_copy_plays[i].env);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest own[] = {cmocka_unit_test(test_plays)};
	const struct CMUnitTest scenes[] = {
		cmocka_unit_test(scene_bytes),        cmocka_unit_test(scene_many),
		cmocka_unit_test(scene_close),        cmocka_unit_test(scene_one_fails),
		cmocka_unit_test(scene_device_fails), cmocka_unit_test(scene_nothing_comes),
		cmocka_unit_test(scene_held_fails),   cmocka_unit_test(scene_run),
	};
	const struct unit unit = {
		.tests = own,
		.test_count = UNIT_COUNT(own),
		.scenes = scenes,
		.scene_count = UNIT_COUNT(scenes),
	};
	const struct unit fake = {
		.tests = unit_copy_fake_tests,
		.test_count = unit_copy_fake_count,
	};

	if (argc == 1 && unit_main(argc, argv, &fake))
		return 1;
	return unit_main(argc, argv, &unit);
}
