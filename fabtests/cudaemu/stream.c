/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Streams: each is a queue of operations, which a thread of the stream executes in order. If a
 * caller has to wait anyway and the stream is idle, the caller executes its operation itself.
 *
 * The legacy default stream is ordered with every other stream of its context that was not
 * created as non-blocking. Enqueueing adds waits for the other side's last operation.
 */
#include "emu.h"
#include "grid.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMU_STREAM_MAGIC 0x53545221u

/* For a thread, where host functions run, too */
#define EMU_STACK ((size_t) 1 << 20)

/* ---- the driver's own lock; everything here is called with the emulator's lock held ---- */

static pthread_cond_t emu_held_cond = PTHREAD_COND_INITIALIZER;
static bool emu_held;

/* For calls that do not begin while another thread is in a call that holds */
void emu_hold_pass(void)
{
	while (emu_held)
		pthread_cond_wait(&emu_held_cond, &emu.lock);
}

/* For calls that wait for what the device does, and let no other thread begin meanwhile */
void emu_hold_begin(void)
{
	emu_hold_pass();
	emu_held = true;
}

void emu_hold_end(void)
{
	emu_held = false;
	pthread_cond_broadcast(&emu_held_cond);
}

/* ---- queue; everything here is called with the lock held ---- */

struct emu_op *emu_op_new(enum emu_op_kind kind)
{
	struct emu_op *op = calloc(1, sizeof(*op));

	if (!op)
		emu_die("operation of a stream");
	op->kind = kind;
	return op;
}

void emu_op_free(struct emu_op *op)
{
	if (op->kind == EMU_OP_COPY)
		free(op->copy.staging);
	if (op->kind == EMU_OP_KERNEL)
		free(op->grid);
	free(op);
}

struct emu_op *emu_op_copy(const struct emu_op *op)
{
	struct emu_op *copy = emu_op_new(op->kind);

	*copy = *op;
	if (op->kind == EMU_OP_KERNEL)
		copy->grid = emu_grid_copy(op->grid, op->grid->args);
	if (op->kind == EMU_OP_COPY && op->copy.staging) {
		copy->copy.staging = malloc(op->copy.width * op->copy.height);
		if (!copy->copy.staging)
			emu_die("staging memory of a copy");
		memcpy(copy->copy.staging, op->copy.staging, op->copy.width * op->copy.height);
		copy->copy.src = copy->copy.staging;
	}
	return copy;
}

static bool emu_stream_pending(const struct CUstream_st *stream)
{
	return stream->done_seq != stream->tail_seq;
}

/* Runs the head of the queue in the calling thread. No other thread does so meanwhile. */
static void emu_stream_run_head(struct CUstream_st *stream)
{
	struct emu_op *op = stream->head;

	stream->busy = true;
	pthread_mutex_unlock(&emu.lock);
	emu_op_run(stream, op);
	pthread_mutex_lock(&emu.lock);
	stream->head = op->next;
	if (!stream->head)
		stream->tail = &stream->head;
	stream->done_seq = op->seq;
	stream->busy = false;
	pthread_cond_broadcast(&stream->done);
	emu_op_free(op);
}

static void *emu_stream_thread(void *arg)
{
	struct CUstream_st *stream = arg;

	pthread_mutex_lock(&emu.lock);
	for (;;) {
		while (!stream->head || stream->busy)
			pthread_cond_wait(&stream->work, &emu.lock);
		emu_stream_run_head(stream);
	}
	return NULL;
}

/*
 * The thread is detached: the process may end at any moment, and tears down nothing under it. It needs little of what
 * addresses a process may have left. False: not even that
 */
static bool emu_stream_start(struct CUstream_st *stream)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, EMU_STACK);
	ret = pthread_create(&thread, &attr, emu_stream_thread, stream);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return !ret;
}

static void emu_stream_append(struct CUstream_st *stream, struct emu_op *op)
{
	op->seq = ++stream->tail_seq;
	op->next = NULL;
	*stream->tail = op;
	stream->tail = &op->next;
}

void emu_stream_kick(struct CUstream_st *stream)
{
	pthread_cond_signal(&stream->work);
}

void emu_stream_follow(struct CUstream_st *stream, struct CUstream_st *other)
{
	struct emu_op *op;

	if (!emu_stream_pending(other))
		return;
	op = emu_op_new(EMU_OP_WAIT);
	op->wait.stream = other;
	op->wait.seq = other->tail_seq;
	emu_stream_append(stream, op);
}

static bool emu_stream_blocks(const struct CUstream_st *stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING) && stream != stream->ctx->legacy;
}

/* Adds the order that the legacy stream imposes */
void emu_stream_order(struct CUstream_st *stream)
{
	struct CUstream_st *other;

	if (emu_stream_blocks(stream)) {
		emu_stream_follow(stream, stream->ctx->legacy);
		return;
	}
	if (stream != stream->ctx->legacy)
		return;
	for (other = emu.streams; other; other = other->next)
		if (other->ctx == stream->ctx && emu_stream_blocks(other))
			emu_stream_follow(stream, other);
}

void emu_stream_enqueue(struct CUstream_st *stream, struct emu_op *op)
{
	if (stream->capture) {
		emu_capture_add(stream, op);
		return;
	}
	emu_stream_order(stream);
	emu_stream_append(stream, op);
	emu_stream_kick(stream);
}

void emu_stream_wait(struct CUstream_st *stream, uint64_t seq)
{
	while (stream->done_seq < seq)
		pthread_cond_wait(&stream->done, &emu.lock);
}

/* Waits for all that is in the stream, and for what its next operation would have to follow */
void emu_stream_drain(struct CUstream_st *stream)
{
	struct CUstream_st *other;

	if (stream == stream->ctx->legacy)
		for (other = emu.streams; other; other = other->next)
			if (other->ctx == stream->ctx && emu_stream_blocks(other))
				emu_stream_wait(other, other->tail_seq);
	emu_stream_wait(stream, stream->tail_seq);
}

void emu_stream_enqueue_and_wait(struct CUstream_st *stream, struct emu_op *op)
{
	uint64_t seq;

	emu_stream_order(stream);
	emu_stream_append(stream, op);
	seq = op->seq;
	if (stream->head == op) {
		emu_stream_run_head(stream);
		if (stream->head)
			emu_stream_kick(stream);
		return;
	}
	emu_stream_kick(stream);
	emu_stream_wait(stream, seq);
}

/* Streams are never freed, so the list may be walked across waits */
static void emu_streams_wait(const struct CUctx_st *ctx, CUdevice dev)
{
	struct CUstream_st *stream;

	for (stream = emu.streams; stream; stream = stream->next)
		if (ctx ? stream->ctx == ctx : stream->ctx->dev == dev)
			emu_stream_wait(stream, stream->tail_seq);
}

void emu_ctx_wait(struct CUctx_st *ctx)
{
	emu_streams_wait(ctx, EMU_NO_DEVICE);
}

void emu_device_wait(CUdevice dev)
{
	emu_streams_wait(NULL, dev);
}

void emu_ctx_drop_streams(struct CUctx_st *ctx)
{
	struct CUstream_st *stream;

	for (stream = emu.streams; stream; stream = stream->next)
		if (stream->ctx == ctx && stream->magic) {
			emu_capture_leave(stream);
			stream->magic = 0;
			stream->orphan = !stream->implicit;
		}
}

/* ---- handles ---- */

/* Destroyed and drained streams are used again, with their threads; not orphans, which are recognised */
static struct CUstream_st *emu_stream_unused(void)
{
	struct CUstream_st *stream;

	for (stream = emu.streams; stream; stream = stream->next)
		if (stream->magic != EMU_STREAM_MAGIC && !stream->orphan &&
		    !emu_stream_pending(stream))
			return stream;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return NULL;
	stream->tail = &stream->head;
	pthread_cond_init(&stream->work, NULL);
	pthread_cond_init(&stream->done, NULL);
	if (!emu_stream_start(stream)) {
		free(stream);
		return NULL;
	}
	stream->rng = emu.conf.shuffle_seed * 0x9e3779b97f4a7c15ull + ++emu.next_id;
	stream->next = emu.streams;
	emu.streams = stream;
	return stream;
}

CUresult emu_stream_create(struct CUctx_st *ctx, unsigned int flags, int priority,
			   struct CUstream_st **out)
{
	struct CUstream_st *stream = emu_stream_unused();

	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->magic = EMU_STREAM_MAGIC;
	stream->ctx = ctx;
	stream->flags = flags;
	stream->priority = priority;
	stream->implicit = false;
	*out = stream;
	return CUDA_SUCCESS;
}

static CUresult emu_stream_orphan(const struct CUstream_st *stream)
{
	if (!emu_ctx_is_open(stream->ctx))
		return stream->ctx->primary ? CUDA_ERROR_INVALID_CONTEXT
					    : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	fprintf(stderr,
		"cudaemu: a stream of before its context was reset: a driver crashes\n");
	abort();
}

CUresult emu_stream_find(CUstream handle, struct CUstream_st **out)
{
	struct CUctx_st *ctx = emu_ctx_current();
	CUresult rc;

	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
		rc = emu_ctx_check(ctx);
		if (rc != CUDA_SUCCESS)
			return rc;
		*out = handle == CU_STREAM_PER_THREAD ? ctx->per_thread : ctx->legacy;
		return emu_ctx_error(ctx);
	}
	if (handle->orphan)
		return emu_stream_orphan(handle);
	if (handle->magic != EMU_STREAM_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	*out = handle;
	return emu_ctx_error(handle->ctx);
}

CUresult emu_stream_get(CUstream handle, struct CUstream_st **out)
{
	CUresult rc = emu_stream_find(handle, out);

	return rc == CUDA_SUCCESS ? emu_capture_check(*out) : rc;
}

/* What is queued still runs; then the stream is another one's */
void emu_stream_retire(struct CUstream_st *stream)
{
	emu_capture_leave(stream);
	stream->magic = 0;
}

EMU_API(cuStreamCreateWithPriority, CUstream *out, unsigned int flags, int priority)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_CTX);
	if (!out || flags & ~(unsigned int) CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_create(emu_ctx_current(), flags, priority, out);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuStreamCreate, CUstream *out, unsigned int flags)
{
	EMU_ENTER(EMU_NEED_CTX);
	return cuStreamCreateWithPriority(out, flags, 0);
}

/* Opens a function that asks about a stream. It ends with the lock held. */
static CUresult emu_stream_enter(const char *function, enum emu_need need, CUstream *stream)
{
	CUresult rc = emu_enter(function, need);

	if (rc != CUDA_SUCCESS)
		return rc;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_find(*stream, stream);
	if (rc != CUDA_SUCCESS)
		pthread_mutex_unlock(&emu.lock);
	return rc;
}

#define EMU_ENTER_STREAM(stream, need)                                                         \
	do {                                                                                   \
		CUresult enter_rc = emu_stream_enter(__func__, need, &(stream));               \
		if (enter_rc != CUDA_SUCCESS)                                                  \
			return enter_rc;                                                       \
	} while (0)

EMU_API(cuStreamDestroy_v2, CUstream stream)
{
	CUresult rc = CUDA_SUCCESS;

	EMU_ENTER_STREAM(stream, EMU_NEED_INIT);
	if (stream->implicit)
		rc = CUDA_ERROR_INVALID_HANDLE;
	else
		emu_stream_retire(stream);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
EMU_API_ALIAS(cuStreamDestroy, cuStreamDestroy_v2);

EMU_API(cuStreamQuery, CUstream stream)
{
	struct CUstream_st *other;
	bool pending;
	CUresult rc;

	EMU_ENTER_STREAM(stream, EMU_NEED_DRIVER);
	rc = emu_capture_asks_stream(stream);
	pending = emu_stream_pending(stream);
	if (stream == stream->ctx->legacy)
		for (other = emu.streams; other; other = other->next)
			pending |= other->ctx == stream->ctx && emu_stream_blocks(other) &&
				   emu_stream_pending(other);
	pthread_mutex_unlock(&emu.lock);
	return rc == CUDA_SUCCESS && pending ? CUDA_ERROR_NOT_READY : rc;
}

EMU_API(cuStreamSynchronize, CUstream stream)
{
	CUresult rc;

	EMU_ENTER_STREAM(stream, EMU_NEED_INIT);
	rc = emu_capture_asks_stream(stream);
	if (rc == CUDA_SUCCESS) {
		emu_stream_drain(stream);
		rc = emu_ctx_error(stream->ctx);
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* Functions that tell a property of a stream: one line each */
#define EMU_STREAM_GETTER(name, type, expr)                                                    \
	EMU_API(name, CUstream stream, type *out)                                              \
	{                                                                                      \
		EMU_ENTER_STREAM(stream, EMU_NEED_INIT);                                       \
		*out = (expr);                                                                 \
		pthread_mutex_unlock(&emu.lock);                                               \
		return CUDA_SUCCESS;                                                           \
	}

EMU_STREAM_GETTER(cuStreamGetFlags, unsigned int, stream->flags)
EMU_STREAM_GETTER(cuStreamGetPriority, int, stream->priority)
EMU_STREAM_GETTER(cuStreamGetCtx, CUcontext, stream->ctx)
EMU_STREAM_GETTER(cuStreamGetDevice, CUdevice, stream->ctx->dev)
EMU_STREAM_GETTER(cuStreamGetId, unsigned long long, (uintptr_t) stream)

static CUresult emu_stream_call(CUstream stream, CUhostFn fn, CUstreamCallback callback,
				void *data)
{
	struct emu_op *op;
	CUresult rc;

	if (!fn && !callback)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_get(stream, &stream);
	if (rc == CUDA_SUCCESS && callback)
		rc = emu_capture_refuse(stream);
	if (rc == CUDA_SUCCESS) {
		op = emu_op_new(EMU_OP_CALL);
		op->call.fn = fn;
		op->call.callback = callback;
		op->call.data = data;
		emu_stream_enqueue(stream, op);
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuLaunchHostFunc, CUstream stream, CUhostFn fn, void *data)
{
	EMU_ENTER(EMU_NEED_INIT);
	return emu_stream_call(stream, fn, NULL, data);
}

EMU_API(cuStreamAddCallback, CUstream stream, CUstreamCallback callback, void *data,
	unsigned int flags)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return emu_stream_call(stream, NULL, callback, data);
}
