/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of copy.c on a backend that does what it is told, when it is told: ends of
 * copies one by one, numbers that wrap around, a device that fails under way.
 */
#include "unit_copy.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

struct fake_queue {
	struct dev_queue base;
	uint32_t reached;
};

/* What the backend shall do, and what was done with it */
static struct {
	uint32_t first_mark;
	int open_fails; /* which call of each kind fails; 0: none */
	int copy_fails;
	int mark_fails;
	int poll_status;
	int opens, closes, copies, marks, drains;
	struct dev_queue *drained; /* the last one */
	struct fake_queue *queues[8];
} fake;

static int fake_open(const struct dev_mem *mem, struct dev_queue **queue)
{
	struct fake_queue *opened;

	if (fake.opens + 1 == fake.open_fails)
		return -FI_ENOMEM;
	opened = calloc(1, sizeof *opened);
	assert_non_null(opened);
	opened->base.ops = mem->ops;
	opened->base.ctx = mem->ctx;
	opened->base.marked = opened->reached = fake.first_mark;
	opened->base.reached = &opened->reached;
	fake.queues[fake.opens++] = opened;
	*queue = &opened->base;
	return 0;
}

static void fake_close(struct dev_queue *queue)
{
	fake.closes++;
	free(queue);
}

static int fake_copy(struct dev_queue *queue, void *dst, const void *src, size_t len)
{
	return ++fake.copies == fake.copy_fails ? -FI_EIO : 0;
}

static int fake_mark(struct dev_queue *queue)
{
	if (++fake.marks == fake.mark_fails)
		return -FI_EIO;
	queue->marked++;
	return 0;
}

static int fake_poll(struct dev_queue *queue)
{
	return fake.poll_status;
}

static void fake_drain(struct dev_queue *queue)
{
	fake.drains++;
	fake.drained = queue;
}

static const struct dev_ops fake_ops = {
	.name = "fake",
	.queue_open = fake_open,
	.queue_close = fake_close,
	.queue_copy = fake_copy,
	.queue_mark = fake_mark,
	.queue_poll = fake_poll,
	.queue_drain = fake_drain,
};

static struct copy_engines engines;
static const struct dev_mem mem = {.ops = &fake_ops, .ctx = &fake};

static int setup(void **state)
{
	memset(&fake, 0, sizeof fake);
	copy_engines_init(&engines);
	return 0;
}

static int teardown(void **state)
{
	copy_engines_fini(&engines);
	assert_int_equal(fake.opens, fake.closes);
	return 0;
}

static int start(enum copy_dir dir, struct job *job)
{
	static char device[8], host[8];
	const struct iovec iov[] = {{device, 3}, {device + 3, sizeof device - 3}};

	job_init(job);
	return copy_start(&engines, &mem, dir, iov, UNIT_COUNT(iov), host, &job->copy);
}

/* Marks around zero: the later number is the smaller one */
static void test_marks_wrap(void **state)
{
	struct job jobs[6];

	fake.first_mark = UINT32_MAX - 2;
	for (int i = 0; i < 6; i++)
		assert_int_equal(start(COPY_OUT, &jobs[i]), 0);
	copy_progress(&engines);
	assert_int_equal(engines.pending, 6);
	for (unsigned int i = 0; i < 6; i++) {
		fake.queues[COPY_OUT]->reached++;
		copy_progress(&engines);
		assert_int_equal(engines.pending, 5 - i);
		for (unsigned int j = 0; j < 6; j++)
			assert_int_equal(jobs[j].calls, j <= i);
		assert_int_equal(jobs[i].status, 0);
	}
}

/* Neither direction waits for the other */
static void test_directions_apart(void **state)
{
	struct job in, out;

	assert_int_equal(start(COPY_IN, &in), 0);
	assert_int_equal(start(COPY_OUT, &out), 0);
	fake.queues[COPY_OUT]->reached = 1;
	copy_progress(&engines);
	assert_int_equal(out.calls, 1);
	assert_int_equal(in.calls, 0);
	assert_int_equal(engines.pending, 1);
	fake.queues[COPY_IN]->reached = 1;
	copy_progress(&engines);
	assert_int_equal(in.calls, 1);
	assert_int_equal(out.calls, 1);
}

/* A failed device ends all that waits, with its error, and each only once */
static void test_device_fails(void **state)
{
	struct job jobs[5];

	for (int i = 0; i < 5; i++)
		assert_int_equal(start(i % COPY_DIRS, &jobs[i]), 0);
	fake.poll_status = -FI_EIO;
	copy_progress(&engines);
	copy_progress(&engines);
	assert_int_equal(engines.pending, 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(jobs[i].calls, 1);
		assert_int_equal(jobs[i].status, -FI_EIO);
	}
}

/* What cannot be started is not pending, and nothing is left open or under way by it */
static void test_starts_fail(void **state)
{
	static const struct {
		int open, copy, mark;
	} cases[] = {{1, 0, 0}, {2, 0, 0}, {3, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 0, 1}};
	struct job bad, good;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		setup(state);
		fake.open_fails = cases[i].open;
		fake.copy_fails = cases[i].copy;
		fake.mark_fails = cases[i].mark;
		assert_true(start(COPY_IN, &bad) < 0);
		assert_int_equal(engines.pending, 0);
		assert_int_equal(fake.drains, !cases[i].open);
		if (fake.drains)
			assert_ptr_equal(fake.drained, &fake.queues[COPY_IN]->base);
		fake.open_fails = 0;
		assert_int_equal(start(COPY_IN, &good), 0);
		assert_int_equal(engines.pending, 1);
		fake.queues[fake.opens - COPY_DIRS + COPY_IN]->reached = 1;
		copy_progress(&engines);
		assert_int_equal(good.calls, 1);
		assert_int_equal(bad.calls, 0);
		assert_int_equal(fake.drains, !cases[i].open);
		teardown(state);
	}
	setup(state);
}

/* Contexts have queues of their own, and keep them */
static void test_contexts(void **state)
{
	struct dev_mem other = mem;
	struct job jobs[4];
	char byte;
	const struct iovec iov = {&byte, 1};

	other.ctx = &other;
	for (int i = 0; i < 4; i++) {
		job_init(&jobs[i]);
		assert_int_equal(copy_start(&engines, i % 2 ? &other : &mem, COPY_OUT,
					    &iov, 1, &byte, &jobs[i].copy),
				 0);
	}
	assert_int_equal(fake.opens, 2 * COPY_DIRS);
	fake.queues[COPY_DIRS + COPY_OUT]->reached = 2;
	copy_progress(&engines);
	for (int i = 0; i < 4; i++)
		assert_int_equal(jobs[i].calls, i % 2);
}

static struct job chained[10];

static void start_next(struct copy *copy, int status)
{
	struct job *job = container_of(copy, struct job, copy);

	job->calls++;
	if (job + 1 < chained + UNIT_COUNT(chained)) {
		assert_int_equal(start(COPY_OUT, job + 1), 0);
		job[1].copy.done = start_next;
	}
}

/* The end of one copy begins the next */
static void test_start_in_callback(void **state)
{
	assert_int_equal(start(COPY_OUT, &chained[0]), 0);
	chained[0].copy.done = start_next;
	for (unsigned int i = 0; i < UNIT_COUNT(chained); i++) {
		assert_int_equal(engines.pending, 1);
		fake.queues[COPY_OUT]->reached++;
		copy_progress(&engines);
		assert_int_equal(chained[i].calls, 1);
	}
	assert_int_equal(engines.pending, 0);
}

#define FAKE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

const struct CMUnitTest unit_copy_fake_tests[] = {
	FAKE_TEST(test_marks_wrap),   FAKE_TEST(test_directions_apart),
	FAKE_TEST(test_device_fails), FAKE_TEST(test_starts_fail),
	FAKE_TEST(test_contexts),     FAKE_TEST(test_start_in_callback),
};
const size_t unit_copy_fake_count = UNIT_COUNT(unit_copy_fake_tests);
