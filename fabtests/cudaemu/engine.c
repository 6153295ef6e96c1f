/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Execution of one operation. Here bytes move, values are compared and time is modelled. Called
 * without the lock.
 */
#define _GNU_SOURCE
#include "emu.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A shorter sleep overshoots too much to be worth it */
#define EMU_SPIN_NS 50000ull
#define EMU_SHUFFLE_NS 200000ull
/* Longer copies are moved as fast as this machine can */
#define EMU_WORDS_MAX 65536

static uint64_t emu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t) ts.tv_sec * 1000000000ull + (uint64_t) ts.tv_nsec;
}

static void emu_sleep_until(uint64_t ns)
{
	struct timespec ts = {
		.tv_sec = (time_t) (ns / 1000000000ull),
		.tv_nsec = (long) (ns % 1000000000ull),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL))
		;
}

static void emu_delay(uint64_t ns)
{
	uint64_t end = emu_now() + ns;

	if (ns > EMU_SPIN_NS)
		emu_sleep_until(end - EMU_SPIN_NS);
	while (emu_now() < end)
		;
}

/* With shuffling, half of the operations of every stream come late */
static void emu_shuffle(struct CUstream_st *stream)
{
	uint64_t x = stream->rng;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	stream->rng = x;
	if (x >> 63)
		emu_delay(x % EMU_SHUFFLE_NS);
}

static uint64_t emu_copy_ns(size_t bytes)
{
	uint64_t ns = emu.conf.copy_latency_us * 1000ull;

	if (emu.conf.copy_gbps > 0)
		ns += (uint64_t) ((double) bytes / emu.conf.copy_gbps);
	return ns;
}

/*
 * Copies to the host cross a bus in whole words, if both ends begin with one. Programs may rely
 * on no order of these words. So this goes from the end on, as nobody expects.
 */
static void emu_move_words(char *dst, const char *src, size_t len)
{
	uint32_t word;

	while (len) {
		len -= sizeof(word);
		memcpy(&word, src + len, sizeof(word));
		__atomic_store_n((uint32_t *) (void *) (dst + len), word, __ATOMIC_RELEASE);
	}
}

static void emu_move(const struct emu_op *op, char *dst, const char *src)
{
	size_t len = op->copy.width;

	if (op->copy.dir == EMU_TO_HOST && len <= EMU_WORDS_MAX &&
	    !(((uintptr_t) dst | (uintptr_t) src | len) % sizeof(uint32_t)))
		emu_move_words(dst, src, len);
	else
		memmove(dst, src, len);
}

static void emu_run_copy(struct emu_op *op)
{
	pthread_mutex_t *engine = &emu.dev[op->copy.dev].engine[op->copy.dir];
	uint64_t ns = emu_copy_ns(op->copy.width * op->copy.height);
	const char *src = op->copy.src;
	char *dst = op->copy.dst;
	size_t row;

	while (op->copy.hang)
		pause();
	/* the bytes appear at the end of the modelled time, never before */
	if (ns) {
		pthread_mutex_lock(engine);
		emu_delay(ns);
		pthread_mutex_unlock(engine);
	}
	for (row = 0; row < op->copy.height; row++) {
		emu_move(op, dst, src);
		dst += op->copy.dpitch;
		src += op->copy.spitch;
	}
}

static void emu_run_set(struct emu_op *op)
{
	size_t i;

	if (op->set.width == 1) {
		memset(op->set.dst, (int) op->set.value, op->set.count);
		return;
	}
	/* little-endian: the low bytes of the value are those to store */
	for (i = 0; i < op->set.count; i++)
		memcpy(op->set.dst + i * (size_t) op->set.width, &op->set.value,
		       (size_t) op->set.width);
}

static void emu_run_wait(struct emu_op *op)
{
	pthread_mutex_lock(&emu.lock);
	if (op->wait.stream)
		emu_stream_wait(op->wait.stream, op->wait.seq);
	pthread_mutex_unlock(&emu.lock);
}

static void emu_run_record(struct CUstream_st *stream, struct emu_op *op)
{
	struct CUevent_st *event = op->event;

	pthread_mutex_lock(&emu.lock);
	if (event->point.stream == stream && event->point.seq == op->seq)
		event->ns = emu_now();
	pthread_mutex_unlock(&emu.lock);
}

static void emu_run_write_value(struct emu_op *op)
{
	if (op->memop.width == 4)
		__atomic_store_n((uint32_t *) op->memop.addr, (uint32_t) op->memop.value,
				 __ATOMIC_SEQ_CST);
	else
		__atomic_store_n((uint64_t *) op->memop.addr, op->memop.value,
				 __ATOMIC_SEQ_CST);
}

static bool emu_value_reached(const struct emu_op *op)
{
	bool wide = op->memop.width == 8;
	uint64_t want = op->memop.value;
	uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;
	uint64_t now;

	if (wide)
		now = __atomic_load_n((uint64_t *) op->memop.addr, __ATOMIC_ACQUIRE);
	else
		now = __atomic_load_n((uint32_t *) op->memop.addr, __ATOMIC_ACQUIRE);
	switch (op->memop.flags & ~(unsigned int) CU_STREAM_WAIT_VALUE_FLUSH) {
	case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic: the difference is signed */
		return wide ? (int64_t) (now - want) >= 0
			    : (int32_t) ((uint32_t) now - (uint32_t) want) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return now == (want & mask);
	case CU_STREAM_WAIT_VALUE_AND:
		return (now & want & mask) != 0;
	default:
		return (~(now | want) & mask) != 0;
	}
}

/* Looks at the value again and again, as programs change it without telling anybody */
static void emu_run_wait_value(struct CUstream_st *stream, struct emu_op *op)
{
	uint64_t start = emu_now();
	uint64_t now;

	while (!emu_value_reached(op) && !emu_ctx_error(stream->ctx)) {
		now = emu_now();
		if (now - start < EMU_SPIN_NS)
			sched_yield();
		else
			emu_sleep_until(now + EMU_SPIN_NS / 2);
	}
}

static void emu_run_free(struct emu_op *op)
{
	struct emu_alloc *alloc;

	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find(op->free_base);
	if (alloc && alloc->base == op->free_base && alloc->freeing)
		emu_alloc_destroy(alloc);
	pthread_mutex_unlock(&emu.lock);
}

static void emu_run_call(struct CUstream_st *stream, struct emu_op *op)
{
	CUresult error = emu_ctx_error(stream->ctx);

	emu_in_callback = true;
	if (op->call.callback)
		op->call.callback(stream, error, op->call.data);
	else if (!error || op->kind == EMU_OP_END)
		op->call.fn(op->call.data);
	emu_in_callback = false;
}

/* Is it left out once a kernel has failed? */
static bool emu_op_works(const struct emu_op *op)
{
	switch (op->kind) {
	case EMU_OP_COPY:
	case EMU_OP_SET:
	case EMU_OP_WRITE_VALUE:
	case EMU_OP_WAIT_VALUE:
	case EMU_OP_KERNEL:
		return true;
	default:
		return false;
	}
}

void emu_op_run(struct CUstream_st *stream, struct emu_op *op)
{
	if (emu_op_works(op) && emu_ctx_error(stream->ctx))
		return;
	if (emu.conf.shuffle && op->kind != EMU_OP_WAIT)
		emu_shuffle(stream);
	switch (op->kind) {
	case EMU_OP_COPY:
		emu_run_copy(op);
		break;
	case EMU_OP_SET:
		emu_run_set(op);
		break;
	case EMU_OP_WAIT:
	case EMU_OP_WAIT_EVENT:
		emu_run_wait(op);
		break;
	case EMU_OP_RECORD:
		emu_run_record(stream, op);
		break;
	case EMU_OP_WRITE_VALUE:
		emu_run_write_value(op);
		break;
	case EMU_OP_WAIT_VALUE:
		emu_run_wait_value(stream, op);
		break;
	case EMU_OP_CALL:
	case EMU_OP_END:
		emu_run_call(stream, op);
		break;
	case EMU_OP_KERNEL:
		emu_run_kernel(stream, op);
		break;
	case EMU_OP_FREE:
		emu_run_free(op);
		break;
	}
}
