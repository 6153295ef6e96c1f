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

#include "dev/dev_none.h"

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
	int batch_fails;
	int put_fails;
	int poll_status;
	int opens, closes, copies, batches, pieces, puts, marks, drains, shorts;
	struct dev_queue *drained; /* the last one */
	struct fake_queue *queues[8];
} fake;

static int fake_open(const struct dev_mem *mem, bool asks, struct dev_queue **queue)
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

static int fake_batch(struct dev_queue *queue, const struct dev_copy *copies, size_t count)
{
	assert_in_range(count, 1, DEV_BATCH);
	for (size_t i = 0; i < count; i++)
		assert_int_not_equal(copies[i].len, 0);
	fake.pieces += (int) count;
	return ++fake.batches == fake.batch_fails ? -FI_EIO : 0;
}

static int fake_put(struct dev_queue *queue, const struct dev_copy *copies, size_t count)
{
	assert_in_range(count, 1, DEV_BATCH);
	for (size_t i = 0; i < count; i++)
		assert_in_range(copies[i].len, 1, DEV_PUT);
	if (++fake.puts == fake.put_fails)
		return -FI_ENOSYS;
	queue->marked++;
	return 0;
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
	.copy_short = dev_none_copy_short,
	.queue_open = fake_open,
	.queue_close = fake_close,
	.queue_copy = fake_copy,
	.queue_batch = dev_none_queue_batch,
	.queue_put = dev_none_queue_put,
	.queue_mark = fake_mark,
	.queue_poll = fake_poll,
	.queue_drain = fake_drain,
};

/* One that can do more: what comes to the host can be watched, and see struct dev_ops */
static const struct dev_ops fake_word_ops = {
	.name = "fake words",
	.words = true,
	.batches = true,
	.copy_short = dev_none_copy_short,
	.queue_open = fake_open,
	.queue_close = fake_close,
	.queue_copy = fake_copy,
	.queue_batch = fake_batch,
	.queue_put = fake_put,
	.queue_mark = fake_mark,
	.queue_poll = fake_poll,
	.queue_drain = fake_drain,
};

static int fake_short(const struct dev_mem *mem, void *dst, const void *src, size_t len)
{
	fake.shorts++;
	return 0;
}

/* And one whose memory the CPU reaches */
static const struct dev_ops fake_short_ops = {
	.name = "fake short",
	.queue_open = fake_open,
	.queue_close = fake_close,
	.queue_copy = fake_copy,
	.queue_batch = fake_batch,
	.queue_mark = fake_mark,
	.queue_poll = fake_poll,
	.queue_drain = fake_drain,
	.copy_short = fake_short,
};

static struct copy_engines engines;
static const struct dev_mem mem = {.ops = &fake_ops, .ctx = &fake};
static const struct dev_mem word_mem = {.ops = &fake_word_ops, .ctx = &fake};
static const struct dev_mem short_mem = {.ops = &fake_short_ops, .ctx = &fake};

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
		assert_int_equal(copy_start(&engines, i % 2 ? &other : &mem, COPY_OUT, &iov, 1,
					    &byte, &jobs[i].copy),
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

/* ---- watching what comes ---- */

#define WORDS 6

static uint32_t device_words[WORDS + 1], host_words[WORDS + 1];

/* A copy of @len bytes, @shift bytes into both ends */
static void start_words(size_t len, size_t host_shift, size_t device_shift, struct job *job)
{
	const struct iovec iov = {(char *) device_words + device_shift, len};

	job_init(job);
	assert_int_equal(copy_start(&engines, &word_mem, COPY_OUT, &iov, 1,
				    (char *) host_words + host_shift, &job->copy),
			 0);
}

/*
 * Words come in any order, and the last of them ends the copy: no mark is asked for as it begins,
 * and none is waited for, though one is asked for where this takes longer than it should.
 */
static void test_words_come(void **state)
{
	static const int orders[][WORDS] = {{0, 1, 2, 3, 4, 5},
					    {5, 4, 3, 2, 1, 0},
					    {5, 0, 4, 1, 3, 2},
					    {2, 3, 1, 4, 5, 0}};
	struct job job;
	int marks;

	for (size_t i = 0; i < UNIT_COUNT(orders); i++) {
		marks = fake.marks;
		start_words(WORDS * 4, 0, 0, &job);
		assert_int_equal(fake.marks, marks);
		for (int j = 0; j < WORDS; j++) {
			copy_progress(&engines);
			assert_int_equal(job.calls, 0);
			host_words[orders[i][j]] = 7;
		}
		copy_progress(&engines);
		assert_int_equal(job.calls, 1);
		assert_int_equal(job.status, 0);
		assert_int_equal(engines.pending, 0);
	}
	assert_int_equal(fake.queues[COPY_OUT]->reached, 0);
	assert_int_equal(fake.copies, UNIT_COUNT(orders));
}

/* Data that looks as if it had not come: a mark is asked for in the end, once, and tells
 */
static void test_words_like_the_sign(void **state)
{
	uint32_t sign;
	struct job job;

	start_words(WORDS * 4, 0, 0, &job);
	sign = host_words[2];
	for (int i = 0; i < WORDS; i++)
		host_words[i] = i == 2 ? sign : ~sign;
	while (!fake.marks)
		copy_progress(&engines);
	for (int i = 0; i < 100; i++)
		copy_progress(&engines);
	assert_int_equal(fake.marks, 1);
	assert_int_equal(job.calls, 0);
	fake.queues[COPY_OUT]->reached = 1;
	copy_progress(&engines);
	assert_int_equal(job.calls, 1);
	assert_int_equal(job.status, 0);
	/* the next time the same data is told from the sign */
	start_words(4, 0, 0, &job);
	assert_int_not_equal(host_words[0], sign);
	host_words[0] = sign;
	copy_progress(&engines);
	assert_int_equal(job.calls, 1);
	assert_int_equal(fake.marks, 1);
}

/* The mark that one copy needs tells of those before it as well, and of none behind it */
static void test_words_and_marks(void **state)
{
	struct job first, second, third;

	start_words(4, 0, 0, &first);
	job_init(&second);
	start_words(WORDS * 4 - 3, 4, 4, &second);
	assert_int_equal(fake.marks, 1);
	start_words(4, 0, 0, &third);
	assert_int_equal(fake.marks, 1);
	fake.queues[COPY_OUT]->reached = 1;
	copy_progress(&engines);
	assert_int_equal(first.calls, 1);
	assert_int_equal(second.calls, 1);
	assert_int_equal(third.calls, 0);
	host_words[0] = 1;
	copy_progress(&engines);
	assert_int_equal(third.calls, 1);
}

/* What cannot be told word by word has a mark from the beginning */
static void test_no_words(void **state)
{
	static uint32_t device_many[4097], host_many[4097];
	static const struct {
		size_t len, host_shift, device_shift;
		int marks;
	} cases[] = {{4, 0, 0, 0}, {8, 4, 8, 0}, {4, 1, 0, 1}, {4, 0, 2, 1},
		     {3, 0, 0, 1}, {5, 0, 0, 1}, {0, 0, 0, 1}, {WORDS * 4, 0, 0, 0}};
	struct job job, more[3];
	struct iovec iov[2];

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		setup(state);
		start_words(cases[i].len, cases[i].host_shift, cases[i].device_shift, &job);
		assert_int_equal(fake.marks, cases[i].marks);
		fake.queues[COPY_OUT]->reached++;
		fake.queues[COPY_OUT]->base.marked = fake.queues[COPY_OUT]->reached;
		copy_progress(&engines);
		assert_int_equal(job.calls, 1);
		teardown(state);
	}
	setup(state);
	/* too long, in two pieces, or the other way */
	for (int i = 0; i < 3; i++) {
		iov[0] = (struct iovec){device_many, i ? 4 : sizeof device_many};
		iov[1] = (struct iovec){device_many + 8, 4};
		job_init(&more[i]);
		assert_int_equal(copy_start(&engines, &word_mem, i == 2 ? COPY_IN : COPY_OUT,
					    iov, i ? 2 : 1, host_many, &more[i].copy),
				 0);
		assert_int_equal(fake.marks, i + 1);
	}
	fake.queues[COPY_OUT]->reached = 2;
	fake.queues[COPY_IN]->reached = 1;
	copy_progress(&engines);
	assert_int_equal(engines.pending, 0);
}

/* The mark that is asked for cannot be put: the copy ends with that error */
static void test_late_mark_fails(void **state)
{
	struct job job;

	fake.mark_fails = 1;
	start_words(4, 0, 0, &job);
	while (!job.calls)
		copy_progress(&engines);
	assert_int_equal(job.status, -FI_EIO);
	assert_int_equal(fake.drains, 1);
	assert_int_equal(engines.pending, 0);
}

/* ---- several together ---- */

/* @count pieces of @len bytes each, in host memory that is pinned */
static void start_pinned(enum copy_dir dir, size_t count, size_t len, struct job *job)
{
	static char device[8][1000], host[8 * 1000];
	struct iovec iov[8];

	for (size_t i = 0; i < count; i++)
		iov[i] = (struct iovec){device[i], len};
	job_init(job);
	job->copy.pinned = true;
	assert_int_equal(copy_start(&engines, &word_mem, dir, iov, count, host, &job->copy), 0);
}

/* The first begins at once, those behind it together, and one mark tells of them all */
static void test_begin_together(void **state)
{
	struct job jobs[5];

	for (int i = 0; i < 5; i++)
		start_pinned(COPY_IN, 2, 100, &jobs[i]);
	assert_int_equal(fake.copies, 2);
	assert_int_equal(fake.marks, 1);
	assert_int_equal(fake.batches, 0);
	copy_push(&engines);
	assert_int_equal(fake.copies, 2);
	assert_int_equal(fake.batches, 1);
	assert_int_equal(fake.pieces, 8);
	assert_int_equal(fake.marks, 2);
	copy_progress(&engines);
	assert_int_equal(engines.pending, 5);
	fake.queues[COPY_IN]->reached = 1;
	copy_progress(&engines);
	assert_int_equal(engines.pending, 4);
	fake.queues[COPY_IN]->reached = 2;
	copy_progress(&engines);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(jobs[i].calls, 1);
		assert_int_equal(jobs[i].status, 0);
	}
	assert_int_equal(fake.batches, 1);
}

/* One that is held back alone begins as one alone; it may also be in the other direction
 */
static void test_held_alone(void **state)
{
	struct job jobs[3];

	start_pinned(COPY_IN, 1, 100, &jobs[0]);
	start_pinned(COPY_IN, 1, 100, &jobs[1]);
	start_pinned(COPY_OUT, 1, 101, &jobs[2]);
	assert_int_equal(fake.copies, 2);
	copy_progress(&engines);
	assert_int_equal(fake.copies, 3);
	assert_int_equal(fake.batches, 0);
	assert_int_equal(fake.marks, 3);
	fake.queues[COPY_IN]->reached = 2;
	fake.queues[COPY_OUT]->reached = 1;
	copy_progress(&engines);
	assert_int_equal(engines.pending, 0);
}

/* No more are held back than begin at once, and what is not held back does not overtake
 * them */
static void test_held_begin_by_themselves(void **state)
{
	static char device[100], host[100];
	const struct iovec iov = {device, sizeof device};
	struct job jobs[1 + DEV_BATCH + 2], other;

	for (size_t i = 0; i < UNIT_COUNT(jobs); i++) {
		start_pinned(COPY_IN, 1, 100, &jobs[i]);
		assert_int_equal(fake.batches, i >= DEV_BATCH);
	}
	job_init(&other);
	assert_int_equal(copy_start(&engines, &word_mem, COPY_IN, &iov, 1, host, &other.copy),
			 0);
	assert_int_equal(fake.batches, 2);
	assert_int_equal(fake.pieces, DEV_BATCH + 2);
	assert_int_equal(fake.copies, 2);
	assert_int_equal(fake.marks, 4);
	fake.queues[COPY_IN]->reached = 3;
	copy_progress(&engines);
	assert_int_equal(engines.pending, 1);
	fake.queues[COPY_IN]->reached = 4;
	copy_progress(&engines);
	assert_int_equal(engines.pending, 0);
}

/* All end that the device has passed with this mark. */
static void pass_mark(uint32_t mark)
{
	fake.queues[COPY_IN]->reached = mark;
	copy_progress(&engines);
	assert_int_equal(engines.pending, 0);
}

static void start_ordered_len(const struct dev_mem *to, bool ordered, size_t len,
			      struct job *job)
{
	static char device[100], host[100];
	const struct iovec iov = {device, len};

	job_init(job);
	job->copy.pinned = true;
	job->copy.ordered = ordered;
	assert_int_equal(copy_start(&engines, to, COPY_IN, &iov, 1, host, &job->copy), 0);
}

static void start_ordered(const struct dev_mem *to, bool ordered, struct job *job)
{
	start_ordered_len(to, ordered, 100, job);
}

/*
 * Those that are to keep their order begin one by one, with one mark, and in nobody's batch. The CPU copies
 * none while another is under way; what need not keep order it does.
 */
static void test_in_order(void **state)
{
	struct job jobs[7];

	start_ordered(&word_mem, false, &jobs[0]);
	start_ordered(&word_mem, false, &jobs[1]);
	assert_int_equal(fake.copies, 1);
	start_ordered(&word_mem, true, &jobs[2]);
	assert_int_equal(fake.copies, 2);
	assert_int_equal(fake.marks, 2);
	start_ordered(&word_mem, true, &jobs[3]);
	start_ordered(&short_mem, true, &jobs[4]);
	assert_int_equal(fake.copies, 2);
	assert_int_equal(fake.shorts, 0);
	start_ordered(&short_mem, false, &jobs[5]);
	assert_int_equal(fake.copies, 5);
	assert_int_equal(fake.marks, 3);
	assert_int_equal(fake.batches, 0);
	assert_int_equal(fake.shorts, 1);
	pass_mark(3);
	start_ordered(&short_mem, true, &jobs[6]);
	assert_int_equal(fake.shorts, 2);
	copy_progress(&engines);
	for (int i = 0; i < 7; i++)
		assert_int_equal(jobs[i].calls, 1);
}

/* What is not in order does not begin with what is */
static void test_in_order_apart(void **state)
{
	struct job jobs[5];

	for (int i = 0; i < 5; i++)
		start_ordered(&word_mem, i < 2, &jobs[i]);
	assert_int_equal(fake.copies, 2);
	copy_push(&engines);
	assert_int_equal(fake.batches, 1);
	assert_int_equal(fake.pieces, 3);
	pass_mark(3);
}

/* One of several in order does not begin: all do so again, as it is not known which have */
static void test_in_order_fails(void **state)
{
	struct job jobs[4];

	fake.copy_fails = 3;
	for (int i = 0; i < 4; i++)
		start_ordered(&word_mem, true, &jobs[i]);
	copy_push(&engines);
	assert_int_equal(fake.drains, 1);
	assert_int_equal(fake.copies, 6);
	pass_mark(4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(jobs[i].status, 0);
}

/* Several in order that are short enough are put at once. With a longer one among them they are copied. */
static void test_put_in_order(void **state)
{
	struct job jobs[DEV_BATCH + 2];

	for (size_t i = 0; i < UNIT_COUNT(jobs); i++) {
		start_ordered_len(&word_mem, true, DEV_PUT, &jobs[i]);
		assert_int_equal(fake.puts, i < DEV_BATCH ? 1 : 2);
	}
	copy_push(&engines);
	assert_int_equal(fake.puts, 3);
	pass_mark(3);
	for (size_t i = 0; i < 3; i++)
		start_ordered_len(&word_mem, true, i < 2 ? DEV_PUT : DEV_PUT + 1, &jobs[i]);
	copy_push(&engines);
	assert_int_equal(fake.puts, 4);
	assert_int_equal(fake.copies, 2);
	assert_int_equal(fake.marks, 1);
	pass_mark(5);
	/* the device would rather not */
	fake.put_fails = 6;
	for (size_t i = 0; i < 3; i++)
		start_ordered_len(&word_mem, true, DEV_PUT, &jobs[i]);
	copy_push(&engines);
	assert_int_equal(fake.puts, 6);
	assert_int_equal(fake.copies, 4);
	assert_int_equal(fake.marks, 2);
	pass_mark(7);
}

/* Together with pieces of others a copy has no more of them than fit */
static void test_held_pieces(void **state)
{
	struct job jobs[4];

	start_pinned(COPY_IN, 8, 10, &jobs[0]);
	start_pinned(COPY_IN, 7, 10, &jobs[1]);
	start_pinned(COPY_IN, 8, 10, &jobs[2]);
	assert_int_equal(fake.batches, 0);
	start_pinned(COPY_IN, 2, 10, &jobs[3]);
	assert_int_equal(fake.batches, 1);
	assert_int_equal(fake.pieces, 15);
	copy_push(&engines);
	assert_int_equal(fake.batches, 2);
	assert_int_equal(fake.pieces, 17);
	pass_mark(3);
}

/* They cannot begin together, and one of them not at all */
static void test_held_one_fails(void **state)
{
	struct job jobs[5];

	fake.batch_fails = 1;
	fake.copy_fails = 4;
	for (int i = 0; i < 5; i++)
		start_pinned(COPY_IN, 1, 100, &jobs[i]);
	copy_progress(&engines);
	pass_mark(4);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(jobs[i].calls, 1);
		assert_int_equal(jobs[i].status, i == 3 ? -FI_EIO : 0);
	}
	assert_int_equal(fake.drains, 2);
}

/* Of several together only very few bytes are watched: one mark for all is less work */
static void test_held_longer(void **state)
{
	struct job jobs[3];

	start_pinned(COPY_OUT, 1, 400, &jobs[0]);
	assert_int_equal(fake.marks, 0);
	start_pinned(COPY_OUT, 1, 400, &jobs[1]);
	start_pinned(COPY_OUT, 1, 400, &jobs[2]);
	copy_push(&engines);
	assert_int_equal(fake.batches, 1);
	assert_int_equal(fake.marks, 1);
	fake.queues[COPY_OUT]->reached = 1;
	copy_progress(&engines);
	assert_int_equal(engines.pending, 0);
}

/* Words that can be watched need no mark, together as little as alone */
static void test_held_words(void **state)
{
	const struct iovec iov = {device_words, 4};
	struct job jobs[3];

	for (size_t i = 0; i < 3; i++) {
		job_init(&jobs[i]);
		jobs[i].copy.pinned = true;
		assert_int_equal(copy_start(&engines, &word_mem, COPY_OUT, &iov, 1,
					    host_words + i, &jobs[i].copy),
				 0);
	}
	copy_push(&engines);
	assert_int_equal(fake.batches, 1);
	assert_int_equal(fake.marks, 0);
	for (size_t i = 0; i < 3; i++)
		host_words[i] = 99;
	copy_progress(&engines);
	assert_int_equal(engines.pending, 0);
}

/* ---- bytes that are put ---- */

static void test_put(void **state)
{
	struct job job;

	start_pinned(COPY_IN, 1, DEV_PUT, &job);
	assert_int_equal(fake.puts, 1);
	assert_int_equal(fake.copies, 0);
	assert_int_equal(fake.marks, 0);
	copy_progress(&engines);
	assert_int_equal(job.calls, 0);
	fake.queues[COPY_IN]->reached = 1;
	copy_progress(&engines);
	assert_int_equal(job.calls, 1);
	/* the device would rather not */
	fake.put_fails = 2;
	start_pinned(COPY_IN, 1, DEV_PUT, &job);
	assert_int_equal(fake.puts, 2);
	assert_int_equal(fake.copies, 1);
	fake.queues[COPY_IN]->reached = 2;
	copy_progress(&engines);
	assert_int_equal(job.calls, 1);
	/* neither more bytes nor from the device, nor two pieces of them */
	start_pinned(COPY_IN, 1, DEV_PUT + 1, &job);
	fake.queues[COPY_IN]->reached = 3;
	copy_progress(&engines);
	start_pinned(COPY_OUT, 1, 7, &job);
	fake.queues[COPY_OUT]->reached = 1;
	copy_progress(&engines);
	start_pinned(COPY_IN, 2, 2, &job);
	fake.queues[COPY_IN]->reached = 4;
	copy_progress(&engines);
	assert_int_equal(fake.puts, 2);
	assert_int_equal(engines.pending, 0);
}

#define FAKE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

const struct CMUnitTest unit_copy_fake_tests[] = {
	FAKE_TEST(test_marks_wrap),      FAKE_TEST(test_directions_apart),
	FAKE_TEST(test_device_fails),    FAKE_TEST(test_starts_fail),
	FAKE_TEST(test_contexts),        FAKE_TEST(test_start_in_callback),
	FAKE_TEST(test_words_come),      FAKE_TEST(test_words_like_the_sign),
	FAKE_TEST(test_words_and_marks), FAKE_TEST(test_no_words),
	FAKE_TEST(test_late_mark_fails), FAKE_TEST(test_begin_together),
	FAKE_TEST(test_held_alone),      FAKE_TEST(test_held_begin_by_themselves),
	FAKE_TEST(test_held_pieces),     FAKE_TEST(test_in_order),
	FAKE_TEST(test_held_one_fails),  FAKE_TEST(test_held_longer),
	FAKE_TEST(test_held_words),      FAKE_TEST(test_put),
	FAKE_TEST(test_in_order_apart),  FAKE_TEST(test_in_order_fails),
	FAKE_TEST(test_put_in_order),
};
const size_t unit_copy_fake_count = UNIT_COUNT(unit_copy_fake_tests);
