/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Capture: what a stream is asked to do becomes a node of a graph. Streams join a capture by waiting
 * for an event that was recorded in it.
 *
 * Refused calls give the errors of the driver's documentation, and spoil the capture, as they do
 * there. What the documentation calls potentially unsafe is what rules.h200 shows: what allocates or
 * frees device or pinned memory, registers, asks whether something has ended, or waits for it; but no
 * virtual memory, no memory of other processes, no context, and no synchronous copy.
 */
#include "graph.h"

#include <stdlib.h>

static struct emu_capture *emu_captures;
static uint64_t emu_capture_ids;
static __thread CUstreamCaptureMode emu_thread_mode;

static struct emu_capture *emu_capture_find(uint64_t id)
{
	struct emu_capture *capture;

	for (capture = emu_captures; capture; capture = capture->next)
		if (capture->id == id)
			break;
	return capture;
}

/* ---- what other calls may do meanwhile ---- */

static bool emu_stream_is_legacy(const struct CUstream_st *stream)
{
	return stream == stream->ctx->legacy;
}

/* Does a stream capture that the legacy stream would wait for? If so, spoil those captures. */
static bool emu_capture_implicit(const struct CUctx_st *ctx, bool spoil)
{
	struct CUstream_st *stream;
	bool found = false;

	for (stream = emu.streams; stream; stream = stream->next) {
		if (stream->ctx != ctx || !stream->capture ||
		    stream->flags & CU_STREAM_NON_BLOCKING)
			continue;
		found = true;
		if (spoil)
			stream->capture->invalid = true;
	}
	return found;
}

/* For calls that can: an error if the stream's capture has none to come, or would have to know */
CUresult emu_capture_check(struct CUstream_st *stream)
{
	if (stream->capture)
		return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
						: CUDA_SUCCESS;
	if (emu_stream_is_legacy(stream) && emu_capture_implicit(stream->ctx, true))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	return CUDA_SUCCESS;
}

/* For calls that cannot become a node */
CUresult emu_capture_refuse(struct CUstream_st *stream)
{
	if (!stream->capture)
		return CUDA_SUCCESS;
	stream->capture->invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Is the calling thread kept from unsafe calls by this capture? */
static bool emu_capture_forbids(const struct emu_capture *capture)
{
	if (emu_thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (pthread_equal(capture->thread, pthread_self()))
		return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return emu_thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult emu_capture_unsafe(void)
{
	struct emu_capture *capture;
	CUresult rc = CUDA_SUCCESS;

	for (capture = emu_captures; capture; capture = capture->next)
		if (emu_capture_forbids(capture)) {
			capture->invalid = true;
			rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	return rc;
}

CUresult emu_capture_unsafe_unlocked(void)
{
	CUresult rc;

	pthread_mutex_lock(&emu.lock);
	rc = emu_capture_unsafe();
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* Whoever waits for a whole context waits for what is being captured, too, in whatever mode */
CUresult emu_capture_refuse_ctx(const struct CUctx_st *ctx)
{
	struct CUstream_st *stream;
	CUresult rc = CUDA_SUCCESS;

	for (stream = emu.streams; stream; stream = stream->next)
		if (stream->ctx == ctx && stream->capture)
			rc = emu_capture_refuse(stream);
	return rc;
}

CUresult emu_capture_asks_stream(struct CUstream_st *stream)
{
	CUresult rc = emu_capture_check(stream);

	if (rc == CUDA_SUCCESS)
		rc = emu_capture_refuse(stream);
	return rc == CUDA_SUCCESS ? emu_capture_unsafe() : rc;
}

EMU_API(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = emu_thread_mode;

	EMU_ENTER(EMU_NEED_INIT);
	if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	emu_thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

/* ---- capturing ---- */

void emu_capture_add(struct CUstream_st *stream, struct emu_op *op)
{
	emu_graph_append(stream->capture->graph, op, &stream->after);
}

/* The event now stands for what its stream's next node would follow. */
void emu_capture_record(struct CUstream_st *stream, struct CUevent_st *event)
{
	size_t i;

	event->capture = stream->capture->id;
	event->point.stream = NULL;
	emu_nodes_clear(&event->after);
	for (i = 0; i < stream->after.count; i++)
		emu_nodes_add(&event->after, stream->after.node[i]);
}

CUresult emu_capture_wait(struct CUstream_st *stream, const struct CUevent_st *event)
{
	struct emu_capture *capture = emu_capture_find(event->capture);
	size_t i;

	if (!event->capture) {
		stream->capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (!capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->capture && stream->capture != capture) {
		stream->capture->invalid = capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (emu_stream_is_legacy(stream)) {
		capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	stream->capture = capture;
	for (i = 0; i < event->after.count; i++)
		emu_nodes_add(&stream->after, event->after.node[i]);
	return CUDA_SUCCESS;
}

CUresult emu_capture_asks(const struct CUevent_st *event)
{
	struct emu_capture *capture = emu_capture_find(event->capture);

	if (!event->capture)
		return emu_capture_unsafe();
	if (capture)
		capture->invalid = true;
	return CUDA_ERROR_CAPTURED_EVENT;
}

/* ---- begin, end ---- */

/* Takes the capture from all streams. Its graph stays. */
static void emu_capture_end(struct emu_capture *capture)
{
	struct emu_capture **link;
	struct CUstream_st *stream;

	for (stream = emu.streams; stream; stream = stream->next)
		if (stream->capture == capture) {
			stream->capture = NULL;
			emu_nodes_clear(&stream->after);
		}
	for (link = &emu_captures; *link != capture; link = &(*link)->next)
		;
	*link = capture->next;
	capture->graph->capturing = false;
	free(capture);
}

/* The stream is no more. Without the one where it began, a capture has no end. */
void emu_capture_leave(struct CUstream_st *stream)
{
	struct emu_capture *capture = stream->capture;
	struct CUgraph_st *graph;

	if (!capture)
		return;
	capture->invalid = true;
	stream->capture = NULL;
	emu_nodes_clear(&stream->after);
	if (capture->origin != stream)
		return;
	graph = capture->graph;
	emu_capture_end(capture);
	emu_graph_destroy(graph);
}

static CUresult emu_capture_begin(struct CUstream_st *stream, CUstreamCaptureMode mode)
{
	struct emu_capture *capture;

	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (emu_stream_is_legacy(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->graph = emu_graph_new();
	capture->graph->capturing = true;
	capture->id = ++emu_capture_ids;
	capture->origin = stream;
	capture->mode = mode;
	capture->thread = pthread_self();
	capture->next = emu_captures;
	emu_captures = capture;
	stream->capture = capture;
	return CUDA_SUCCESS;
}

EMU_API(cuStreamBeginCapture_v2, CUstream stream, CUstreamCaptureMode mode)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_find(stream, &stream);
	if (rc == CUDA_SUCCESS)
		rc = emu_capture_begin(stream, mode);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* Does all lead to what the stream where it began would do next? */
static bool emu_capture_joined(const struct emu_capture *capture)
{
	const struct emu_nodes *nodes = &capture->graph->nodes;
	size_t i, j;

	for (i = 0; i < nodes->count; i++)
		nodes->node[i]->reached = false;
	for (i = 0; i < capture->origin->after.count; i++)
		capture->origin->after.node[i]->reached = true;
	for (i = nodes->count; i-- > 0;) {
		if (!nodes->node[i]->reached)
			return false;
		for (j = 0; j < nodes->node[i]->after.count; j++)
			nodes->node[i]->after.node[j]->reached = true;
	}
	return true;
}

static CUresult emu_capture_finish(struct CUstream_st *stream, CUgraph *out)
{
	struct emu_capture *capture = stream->capture;
	struct CUgraph_st *graph;
	CUresult rc;

	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->origin != stream) {
		capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    !pthread_equal(capture->thread, pthread_self()))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	rc = capture->invalid               ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
	     : !emu_capture_joined(capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
					    : CUDA_SUCCESS;
	graph = capture->graph;
	emu_capture_end(capture);
	if (rc != CUDA_SUCCESS) {
		emu_graph_destroy(graph);
		graph = NULL;
	}
	*out = graph;
	return rc;
}

EMU_API(cuStreamEndCapture, CUstream stream, CUgraph *out)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_find(stream, &stream);
	if (rc == CUDA_SUCCESS)
		rc = emu_capture_finish(stream, out);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* ---- questions ---- */

static CUresult emu_capture_status(CUstream handle, struct CUstream_st **stream,
				   CUstreamCaptureStatus *status)
{
	CUresult rc = emu_stream_find(handle, stream);

	if (rc != CUDA_SUCCESS)
		return rc;
	if (emu_stream_is_legacy(*stream) && emu_capture_implicit((*stream)->ctx, false))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*status = !(*stream)->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
		  : (*stream)->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
						: CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return CUDA_SUCCESS;
}

EMU_API(cuStreamIsCapturing, CUstream stream, CUstreamCaptureStatus *status)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	rc = emu_capture_status(stream, &stream, status);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuStreamGetCaptureInfo_v2, CUstream stream, CUstreamCaptureStatus *status,
	cuuint64_t *id, CUgraph *graph, const CUgraphNode **after, size_t *count)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	rc = emu_capture_status(stream, &stream, status);
	if (rc == CUDA_SUCCESS && *status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		if (id)
			*id = stream->capture->id;
		if (graph)
			*graph = stream->capture->graph;
		if (after)
			*after = stream->after.node;
		if (count)
			*count = stream->after.count;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* No edge says anything but that it is one */
EMU_API(cuStreamGetCaptureInfo_v3, CUstream stream, CUstreamCaptureStatus *status,
	cuuint64_t *id, CUgraph *graph, const CUgraphNode **after,
	const CUgraphEdgeData **edges, size_t *count)
{
	CUresult rc;

	if (edges && !after)
		return CUDA_ERROR_INVALID_VALUE;
	rc = cuStreamGetCaptureInfo_v2(stream, status, id, graph, after, count);
	if (rc != CUDA_SUCCESS || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE || !edges)
		return rc;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_find(stream, &stream);
	if (rc == CUDA_SUCCESS) {
		free(stream->edges);
		stream->edges = calloc(stream->after.count + 1, sizeof(*stream->edges));
		*edges = stream->edges;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
