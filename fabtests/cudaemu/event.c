/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Events: a point in the order of a stream, and the time when the stream came to it */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

#define EMU_EVENT_MAGIC 0x45565421u

/* Destroyed events are used again for new ones, so a look at a stale handle is safe */
static struct CUevent_st *emu_events;

static CUresult emu_event_check(const struct CUevent_st *event)
{
	if (!event || event->magic != EMU_EVENT_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	return emu_ctx_is_open(event->ctx) && event->ctx->id == event->ctx_id
		       ? emu_ctx_error(event->ctx)
		       : CUDA_ERROR_INVALID_CONTEXT;
}

static bool emu_event_done(const struct CUevent_st *event)
{
	return !event->point.stream || event->point.stream->done_seq >= event->point.seq;
}

EMU_API(cuEventCreate, CUevent *out, unsigned int flags)
{
	struct CUevent_st *event;

	EMU_ENTER(EMU_NEED_CTX);
	if (!out ||
	    flags & ~(unsigned int) (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
				     CU_EVENT_INTERPROCESS) ||
	    (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	event = emu_events;
	if (event)
		emu_events = event->next;
	else
		event = malloc(sizeof(*event));
	if (event) {
		memset(event, 0, sizeof(*event));
		event->magic = EMU_EVENT_MAGIC;
		event->flags = flags;
		event->ctx = emu_ctx_current();
		event->ctx_id = event->ctx->id;
		*out = event;
	}
	pthread_mutex_unlock(&emu.lock);
	return event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EMU_API(cuEventDestroy_v2, CUevent event)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	rc = emu_event_check(event);
	if (rc == CUDA_SUCCESS) {
		event->magic = 0;
		event->point.stream = NULL;
		free(event->after.node);
		event->next = emu_events;
		emu_events = event;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
EMU_API_ALIAS(cuEventDestroy, cuEventDestroy_v2);

/* The event now stands for the stream's latest operation */
void emu_event_record(struct CUevent_st *event, struct CUstream_st *stream)
{
	event->point = (struct emu_point){stream, stream->tail_seq};
	event->capture = 0;
}

/* Makes of a wait for an event one for the point that it has now */
void emu_event_wait(struct emu_op *op)
{
	const struct CUevent_st *event = op->event;

	op->kind = EMU_OP_WAIT;
	op->wait = event->point;
}

static CUresult emu_event_enqueue(CUevent event, CUstream stream, unsigned int flags)
{
	const unsigned int external = CU_EVENT_RECORD_EXTERNAL;
	struct emu_op *op;
	CUresult rc;

	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_get(stream, &stream);
	if (rc == CUDA_SUCCESS)
		rc = emu_event_check(event);
	if (rc == CUDA_SUCCESS && event->ctx != stream->ctx)
		rc = CUDA_ERROR_INVALID_HANDLE;
	if (rc == CUDA_SUCCESS && (flags & ~external || (flags & external && !stream->capture)))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc == CUDA_SUCCESS && stream->capture && !(flags & external)) {
		emu_capture_record(stream, event);
	} else if (rc == CUDA_SUCCESS) {
		op = emu_op_new(EMU_OP_RECORD);
		op->event = event;
		emu_stream_enqueue(stream, op);
		if (!stream->capture)
			emu_event_record(event, stream);
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuEventRecordWithFlags, CUevent event, CUstream stream, unsigned int flags)
{
	EMU_ENTER(EMU_NEED_INIT);
	return emu_event_enqueue(event, stream, flags);
}

EMU_API(cuEventRecord, CUevent event, CUstream stream)
{
	EMU_ENTER(EMU_NEED_DRIVER);
	return emu_event_enqueue(event, stream, 0);
}

EMU_API(cuEventQuery, CUevent event)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_DRIVER);
	pthread_mutex_lock(&emu.lock);
	rc = emu_event_check(event);
	if (rc == CUDA_SUCCESS)
		rc = emu_capture_asks(event);
	if (rc == CUDA_SUCCESS)
		rc = emu_event_done(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuEventSynchronize, CUevent event)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	rc = emu_event_check(event);
	if (rc == CUDA_SUCCESS)
		rc = emu_capture_asks(event);
	if (rc == CUDA_SUCCESS && event->point.stream) {
		emu_stream_wait(event->point.stream, event->point.seq);
		rc = emu_ctx_error(event->ctx);
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuEventElapsedTime_v2, float *ms, CUevent start, CUevent end)
{
	CUresult rc = CUDA_SUCCESS;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	if (emu_event_check(start) || emu_event_check(end) || !start->point.stream ||
	    !end->point.stream || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		rc = CUDA_ERROR_INVALID_HANDLE;
	else if (!emu_event_done(start) || !emu_event_done(end))
		rc = CUDA_ERROR_NOT_READY;
	else
		*ms = (float) ((double) (int64_t) (end->ns - start->ns) / 1e6);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
EMU_API_ALIAS(cuEventElapsedTime, cuEventElapsedTime_v2);

/* Called with the lock held */
static CUresult emu_wait_submit(struct CUstream_st *stream, struct CUevent_st *event,
				unsigned int flags)
{
	struct emu_op *op;

	if (flags & ~(unsigned int) CU_EVENT_WAIT_EXTERNAL ||
	    (flags & CU_EVENT_WAIT_EXTERNAL && !stream->capture))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_EVENT_WAIT_EXTERNAL) {
		op = emu_op_new(EMU_OP_WAIT_EVENT);
		op->event = event;
	} else if (stream->capture || event->capture) {
		return emu_capture_wait(stream, event);
	} else if (!emu_event_done(event)) {
		op = emu_op_new(EMU_OP_WAIT);
		op->wait = event->point;
	} else {
		return CUDA_SUCCESS;
	}
	emu_stream_enqueue(stream, op);
	return CUDA_SUCCESS;
}

EMU_API(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned int flags)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_get(stream, &stream);
	if (rc == CUDA_SUCCESS)
		rc = emu_event_check(event);
	if (rc == CUDA_SUCCESS)
		rc = emu_wait_submit(stream, event, flags);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
