/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* User objects: what a program wants to be told of when no graph needs it any more. */
#include "graph.h"

#include <limits.h>
#include <stdlib.h>

#define EMU_OBJECT_MAGIC 0x4f424a54u

struct CUuserObject_st {
	uint32_t magic;
	void *data;
	CUhostFn destroy;
	uint64_t refs;
};

static bool emu_object_valid(const struct CUuserObject_st *object, unsigned int count)
{
	return object && object->magic == EMU_OBJECT_MAGIC && count && count <= INT_MAX;
}

/*
 * The destructor runs in a stream's thread, and may call the driver as little as a host function.
 * The stream is another one's as soon as that is done.
 */
static void emu_object_end(struct CUuserObject_st *object, struct CUstream_st **streams,
			   size_t count)
{
	struct CUstream_st *stream;
	struct emu_op *op;
	size_t i;

	if (emu_stream_create(&emu.dev[0].primary, CU_STREAM_NON_BLOCKING, 0, &stream))
		emu_die("stream for a user object");
	for (i = 0; i < count; i++)
		emu_stream_follow(stream, streams[i]);
	op = emu_op_new(EMU_OP_END);
	op->call.fn = object->destroy;
	op->call.data = object->data;
	emu_stream_enqueue(stream, op);
	emu_stream_retire(stream);
	object->magic = 0;
	free(object);
}

void emu_held_copy(struct emu_held **to, const struct emu_held *from)
{
	struct emu_held *held;

	for (; from; from = from->next) {
		held = malloc(sizeof(*held));
		if (!held)
			emu_die("what holds a user object");
		*held = *from;
		held->object->refs += held->count;
		held->next = *to;
		*to = held;
	}
}

void emu_held_drop(struct emu_held **held, struct CUstream_st **streams, size_t count)
{
	struct emu_held *first;

	while (*held) {
		first = *held;
		*held = first->next;
		first->object->refs -= first->count;
		if (!first->object->refs)
			emu_object_end(first->object, streams, count);
		free(first);
	}
}

EMU_API(cuUserObjectCreate, CUuserObject *out, void *data, CUhostFn destroy, unsigned int refs,
	unsigned int flags)
{
	struct CUuserObject_st *object;

	EMU_ENTER(EMU_NEED_INIT);
	if (!out || !destroy || !refs || refs > INT_MAX ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	object = calloc(1, sizeof(*object));
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->magic = EMU_OBJECT_MAGIC;
	object->data = data;
	object->destroy = destroy;
	object->refs = refs;
	*out = object;
	return CUDA_SUCCESS;
}

EMU_API(cuUserObjectRetain, CUuserObject object, unsigned int count)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	if (emu_object_valid(object, count)) {
		object->refs += count;
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuUserObjectRelease, CUuserObject object, unsigned int count)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	if (emu_object_valid(object, count) && count <= object->refs) {
		object->refs -= count;
		if (!object->refs)
			emu_object_end(object, NULL, 0);
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuGraphRetainUserObject, CUgraph graph, CUuserObject object, unsigned int count,
	unsigned int flags)
{
	struct emu_held *held;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	if (flags & ~(unsigned int) CU_GRAPH_USER_OBJECT_MOVE)
		return rc;
	pthread_mutex_lock(&emu.lock);
	if (emu_graph_valid(graph) && emu_object_valid(object, count)) {
		held = malloc(sizeof(*held));
		if (!held)
			emu_die("what holds a user object");
		held->object = object;
		held->count = count;
		held->next = graph->held;
		graph->held = held;
		if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
			object->refs += count;
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuGraphReleaseUserObject, CUgraph graph, CUuserObject object, unsigned int count)
{
	struct emu_held **link, *held = NULL;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	if (emu_graph_valid(graph) && emu_object_valid(object, count)) {
		for (link = &graph->held; *link; link = &(*link)->next)
			if ((*link)->object == object && (*link)->count == count)
				break;
		held = *link;
		if (held) {
			*link = held->next;
			held->next = NULL;
			emu_held_drop(&held, NULL, 0);
			rc = CUDA_SUCCESS;
		}
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
