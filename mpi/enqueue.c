/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* MPI calls in a stream of the GPU. See enqueue.h. */
#include "enqueue.h"

#ifdef FI_P2P_MPI_STREAMS
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "kernel.h"
#include "lane.h"

/* The words of a stream, and how far apart they are in it */
#define ENQUEUE_WORDS 4096
#define ENQUEUE_APART 16

/* ---- streams ---- */

static bool enqueue_word(MPI_Info info, const char *key, char text[MPI_MAX_INFO_VAL + 1])
{
	int found = 0;

	return info != MPI_INFO_NULL &&
	       PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, text, &found) == MPI_SUCCESS && found;
}

/* The stream that @info names: bytes as they are in memory */
static bool enqueue_handle(MPI_Info info, void **handle)
{
	char text[MPI_MAX_INFO_VAL + 1];
	unsigned char bytes[sizeof *handle];

	if (!enqueue_word(info, "type", text) || strcmp(text, "cudaStream_t") != 0 ||
	    !enqueue_word(info, "value", text) || strlen(text) != 2 * sizeof bytes ||
	    strspn(text, "0123456789abcdefABCDEF") != 2 * sizeof bytes)
		return false;
	for (size_t i = 0; i < sizeof bytes; i++)
		sscanf(text + 2 * i, "%2hhx", &bytes[i]);
	memcpy(handle, bytes, sizeof bytes);
	return true;
}

static bool enqueue_pin(struct p2p_mpi_stream *stream, const char **why)
{
	const struct dev_ops *ops = stream->mem.ops;
	void *there;

	if (!stream->memory) {
		if (lane_memory(&stream->mem, ENQUEUE_WORDS, &stream->memory, why) !=
		    MPI_SUCCESS)
			return false;
		memset(stream->memory, 0, ENQUEUE_WORDS);
	}
	/* a reset of the device may have unpinned it */
	if (ops->host_address(&stream->mem, stream->memory, &there) &&
	    (ops->pin(&stream->mem, stream->memory, ENQUEUE_WORDS) ||
	     ops->host_address(&stream->mem, stream->memory, &there)))
		return false;
	stream->come = (uint64_t *) stream->memory;
	stream->gone = stream->come + ENQUEUE_APART;
	stream->come_there = there;
	stream->gone_there = stream->come_there + ENQUEUE_APART;
	return true;
}

/* Why the stream takes nothing now, or NULL */
static const char *enqueue_refuses(const struct p2p_mpi_stream *stream)
{
	uint64_t id;
	void *graph;

	switch (stream->mem.ops->stream_captured(stream->stream, &id, &graph)) {
	case 0:
		return NULL;
	case 1:
		return "the stream is being captured: graphs cannot have MPI's calls";
	default:
		return "the GPU's driver does not tell whether the stream is being captured: there "
		       "is no such stream, or it is the default one, and another one is captured";
	}
}

static int enqueue_make(MPI_Info info, struct p2p_mpi_stream *stream, const char **why)
{
	struct dev_step first = {.wait = false};
	int level = MPI_THREAD_SINGLE;

	*why = "FI_P2P_MPI=no leaves this library out, and streams need it";
	if (!call_wants())
		return MPI_ERR_UNSUPPORTED_OPERATION;
	*why = "a thread of this library calls MPI for streams: ask MPI_Init_thread() for "
	       "MPI_THREAD_MULTIPLE";
	PMPI_Query_thread(&level);
	if (level < MPI_THREAD_MULTIPLE)
		return MPI_ERR_UNSUPPORTED_OPERATION;
	*why = "a stream has the type \"cudaStream_t\", and as its value what "
	       "MPIX_Info_set_hex() makes of the handle";
	if (!enqueue_handle(info, &stream->stream))
		return MPI_ERR_INFO_VALUE;
	*why = "no GPU is current in this thread, as it is after cudaSetDevice()";
	if (dev_current(&stream->mem) <= 0)
		return MPI_ERR_OTHER;
	*why = "there is no pinned memory for a stream";
	if (!enqueue_pin(stream, why))
		return MPI_ERR_NO_MEM;
	*why = enqueue_refuses(stream);
	if (*why)
		return MPI_ERR_OTHER;
	first.word = stream->come_there;
	first.value = stream->number;
	/* all that would wait for streams later */
	dev_sync();
	kernel_begins(&stream->mem);
	*why = "this GPU's streams can neither write nor wait for host memory";
	if (stream->mem.ops->stream_steps(&stream->mem, stream->stream, &first, 1))
		return MPI_ERR_UNSUPPORTED_OPERATION;
	*why = "there is no thread for streams";
	return enqueue_start() ? MPI_SUCCESS : MPI_ERR_OTHER;
}

CALL_PUBLIC int MPIX_Info_set_hex(MPI_Info info, const char *key, const void *value,
				  int value_size)
{
	char text[MPI_MAX_INFO_VAL + 1] = "";

	if (value_size < 0 || value_size > MPI_MAX_INFO_VAL / 2)
		return call_told(MPI_ERR_INFO_VALUE, "MPI's values cannot have so many bytes");
	for (int i = 0; i < value_size; i++)
		snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *) value)[i]);
	return PMPI_Info_set(info, key, text);
}

/* One that nobody else has, or NULL */
static struct p2p_mpi_stream *enqueue_idle(void)
{
	struct p2p_mpi_stream *stream;

	pthread_mutex_lock(&enqueue.lock);
	stream = LIST_FIRST(&enqueue.idle);
	if (stream)
		LIST_REMOVE(stream, entry);
	pthread_mutex_unlock(&enqueue.lock);
	if (!stream && (stream = calloc(1, sizeof *stream))) {
		pthread_mutex_init(&stream->put, NULL);
		STAILQ_INIT(&stream->ops);
	}
	return stream;
}

CALL_PUBLIC int MPIX_Stream_create(MPI_Info info, MPIX_Stream *stream)
{
	struct p2p_mpi_stream *made = enqueue_idle();
	const char *why = "no memory for a stream";
	int ret = MPI_ERR_NO_MEM;

	*stream = MPIX_STREAM_NULL;
	if (made) {
		ret = enqueue_make(info, made, &why);
		made->refs = 1;
		made->error = MPI_SUCCESS;
		pthread_mutex_lock(&enqueue.lock);
		LIST_INSERT_HEAD(ret == MPI_SUCCESS ? &enqueue.streams : &enqueue.idle, made,
				 entry);
		pthread_mutex_unlock(&enqueue.lock);
	}
	if (ret != MPI_SUCCESS)
		return call_told(ret, why);
	*stream = made;
	return MPI_SUCCESS;
}

static void enqueue_ref(struct p2p_mpi_stream *stream, int more)
{
	pthread_mutex_lock(&enqueue.lock);
	stream->refs += more;
	enqueue_wake();
	pthread_mutex_unlock(&enqueue.lock);
}

CALL_PUBLIC int MPIX_Stream_free(MPIX_Stream *stream)
{
	struct p2p_mpi_stream *given = *stream;
	int ret;

	if (!given)
		return call_told(MPI_ERR_ARG, "MPIX_STREAM_NULL cannot be freed");
	*stream = MPIX_STREAM_NULL;
	ret = __atomic_load_n(&given->error, __ATOMIC_RELAXED);
	enqueue_ref(given, -1);
	return ret;
}

/* ---- communicators ---- */

static int enqueue_copied(MPI_Comm comm, int key, void *extra, void *from, void *to, int *flag)
{
	(void) comm;
	(void) key;
	(void) extra;
	enqueue_ref(from, 1);
	*(void **) to = from;
	*flag = 1;
	return MPI_SUCCESS;
}

static int enqueue_deleted(MPI_Comm comm, int key, void *value, void *extra)
{
	(void) comm;
	(void) key;
	(void) extra;
	enqueue_ref(value, -1);
	return MPI_SUCCESS;
}

static int enqueue_key(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int ret = MPI_SUCCESS;

	pthread_mutex_lock(&lock);
	if (enqueue.key == MPI_KEYVAL_INVALID)
		ret = PMPI_Comm_create_keyval(enqueue_copied, enqueue_deleted, &enqueue.key,
					      NULL);
	pthread_mutex_unlock(&lock);
	return ret;
}

/* The stream of a communicator, or NULL */
static struct p2p_mpi_stream *enqueue_of(MPI_Comm comm)
{
	void *stream = NULL;
	int found = 0;

	return enqueue.key != MPI_KEYVAL_INVALID && comm != MPI_COMM_NULL &&
			       PMPI_Comm_get_attr(comm, enqueue.key, &stream, &found) ==
				       MPI_SUCCESS &&
			       found
		       ? stream
		       : NULL;
}

CALL_PUBLIC int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm)
{
	int ret = MPI_Comm_dup(comm, newcomm);

	if (ret != MPI_SUCCESS)
		return ret;
	/* it may have that of @comm */
	if (!stream)
		return enqueue_of(*newcomm) ? PMPI_Comm_delete_attr(*newcomm, enqueue.key)
					    : MPI_SUCCESS;
	ret = enqueue_key();
	if (ret == MPI_SUCCESS) {
		enqueue_ref(stream, 1);
		ret = PMPI_Comm_set_attr(*newcomm, enqueue.key, stream);
		if (ret != MPI_SUCCESS)
			enqueue_ref(stream, -1);
	}
	if (ret != MPI_SUCCESS)
		MPI_Comm_free(newcomm);
	return ret;
}

CALL_PUBLIC int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream *stream)
{
	*stream = idx == 0 ? enqueue_of(comm) : MPIX_STREAM_NULL;
	return MPI_SUCCESS;
}

/* ---- operations ---- */

static const char enqueue_no_memory[] = "no memory for an operation in a stream";

static struct enqueue_op *enqueue_op(int count)
{
	struct enqueue_op *op = calloc(1, sizeof *op + (size_t) count * sizeof op->requests[0]);

	if (op)
		op->count = count;
	return op;
}

/* Puts an operation into the stream, which has it then. Returns why it does not, or NULL */
static const char *enqueue_put(struct p2p_mpi_stream *stream, struct enqueue_op *op)
{
	struct dev_step steps[] = {{.word = stream->come_there},
				   {.wait = true, .word = stream->gone_there}};
	const size_t count = op->waits ? 2 : 1;
	const char *why;

	pthread_mutex_lock(&stream->put);
	why = enqueue_refuses(stream);
	if (!why) {
		pthread_mutex_lock(&enqueue.lock);
		op->number = steps[0].value = steps[1].value = ++stream->number;
		STAILQ_INSERT_TAIL(&stream->ops, op, entry);
		enqueue_wake();
		pthread_mutex_unlock(&enqueue.lock);
		if (stream->mem.ops->stream_steps(&stream->mem, stream->stream, steps, count)) {
			why = "the GPU's driver puts nothing into the stream";
			pthread_mutex_lock(&enqueue.lock);
			STAILQ_REMOVE(&stream->ops, op, enqueue_op, entry);
			pthread_mutex_unlock(&enqueue.lock);
		}
	}
	pthread_mutex_unlock(&stream->put);
	return why;
}

/* Has the communicator a stream for operations? Else an error */
static int enqueue_ready(MPI_Comm comm)
{
	return enqueue_of(comm)
		       ? MPI_SUCCESS
		       : call_report(&CALL_COMM(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm),
				     MPI_ERR_COMM,
				     "this communicator has no stream: "
				     "MPIX_Stream_comm_create() makes one that has");
}

/* Puts an operation into the stream of @comm: one that begins @handle, which the stream has then, or a sum */
static int enqueue_add(MPI_Comm comm, MPI_Request handle, const struct enqueue_sum *sum,
		       bool waits, MPI_Status *status)
{
	struct p2p_mpi_stream *stream = enqueue_of(comm);
	struct enqueue_request *request = calloc(1, sizeof *request);
	struct enqueue_op *op = enqueue_op(1);
	const char *why = NULL;

	if (request && op) {
		*request = (struct enqueue_request){.handle = handle, .awaited = waits};
		op->requests[0] = request;
		op->begins = true;
		op->waits = waits;
		op->statuses = status == MPI_STATUS_IGNORE ? NULL : status;
		if (sum)
			op->sum = *sum;
		pthread_mutex_lock(&enqueue.lock);
		LIST_INSERT_HEAD(&stream->requests, request, entry);
		pthread_mutex_unlock(&enqueue.lock);
		why = enqueue_put(stream, op);
		if (!why)
			return MPI_SUCCESS;
		pthread_mutex_lock(&enqueue.lock);
		LIST_REMOVE(request, entry);
		pthread_mutex_unlock(&enqueue.lock);
	}
	free(request);
	free(op);
	if (handle != MPI_REQUEST_NULL)
		MPI_Request_free(&handle);
	return call_report(&CALL_COMM(comm), why ? MPI_ERR_OTHER : MPI_ERR_NO_MEM,
			   why ? why : enqueue_no_memory);
}

CALL_PUBLIC int MPIX_Send_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest,
				  int tag, MPI_Comm comm)
{
	MPI_Request handle;
	int ret = enqueue_ready(comm);

	if (ret == MPI_SUCCESS)
		ret = MPI_Send_init(buf, count, datatype, dest, tag, comm, &handle);
	return ret == MPI_SUCCESS ? enqueue_add(comm, handle, NULL, true, NULL) : ret;
}

CALL_PUBLIC int MPIX_Recv_enqueue(void *buf, int count, MPI_Datatype datatype, int source,
				  int tag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Request handle;
	int ret = enqueue_ready(comm);

	if (ret == MPI_SUCCESS)
		ret = MPI_Recv_init(buf, count, datatype, source, tag, comm, &handle);
	return ret == MPI_SUCCESS ? enqueue_add(comm, handle, NULL, true, status) : ret;
}

CALL_PUBLIC int MPIX_Isend_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest,
				   int tag, MPI_Comm comm, MPI_Request *request)
{
	int ret = enqueue_ready(comm);

	if (ret == MPI_SUCCESS)
		ret = MPI_Send_init(buf, count, datatype, dest, tag, comm, request);
	return ret == MPI_SUCCESS ? enqueue_add(comm, *request, NULL, false, NULL) : ret;
}

CALL_PUBLIC int MPIX_Irecv_enqueue(void *buf, int count, MPI_Datatype datatype, int source,
				   int tag, MPI_Comm comm, MPI_Request *request)
{
	int ret = enqueue_ready(comm);

	if (ret == MPI_SUCCESS)
		ret = MPI_Recv_init(buf, count, datatype, source, tag, comm, request);
	return ret == MPI_SUCCESS ? enqueue_add(comm, *request, NULL, false, NULL) : ret;
}

CALL_PUBLIC int MPIX_Allreduce_enqueue(const void *sendbuf, void *recvbuf, int count,
				       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
	const struct enqueue_sum sum = {sendbuf, recvbuf, count, datatype, op, comm};
	int ret = enqueue_ready(comm);

	return ret == MPI_SUCCESS ? enqueue_add(comm, MPI_REQUEST_NULL, &sum, true, NULL) : ret;
}

/* ---- waits ---- */

/* The request of that handle that nobody waits for, and its stream; or NULL. Called with the lock held */
static struct enqueue_request *enqueue_request(MPI_Request handle,
					       struct p2p_mpi_stream **stream)
{
	struct enqueue_request *request;

	LIST_FOREACH(*stream, &enqueue.streams, entry) {
		LIST_FOREACH(request, &(*stream)->requests, entry) {
			/* the thread frees the handles of others */
			if (!request->awaited && request->handle == handle)
				return request;
		}
	}
	return NULL;
}

/* Names the requests in @op, and finds their stream: NULL if they have not one. */
static struct p2p_mpi_stream *enqueue_take(struct enqueue_op *op, const MPI_Request handles[])
{
	struct p2p_mpi_stream *stream = NULL, *found;
	bool fine = true;

	pthread_mutex_lock(&enqueue.lock);
	for (int i = 0; i < op->count && fine; i++) {
		op->requests[i] = enqueue_request(handles[i], &found);
		if (op->requests[i])
			op->requests[i]->awaited = true;
		fine = op->requests[i] && (i == 0 || found == stream);
		stream = found;
	}
	pthread_mutex_unlock(&enqueue.lock);
	return fine ? stream : NULL;
}

/* Nobody waits for the requests in @op after all. */
static int enqueue_give_up(struct enqueue_op *op, int error, const char *why)
{
	pthread_mutex_lock(&enqueue.lock);
	for (int i = 0; i < op->count && op->requests[i]; i++)
		op->requests[i]->awaited = false;
	pthread_mutex_unlock(&enqueue.lock);
	free(op);
	return call_told(error, why);
}

CALL_PUBLIC int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[],
				     MPI_Status array_of_statuses[])
{
	struct p2p_mpi_stream *stream;
	struct enqueue_op *op;
	const char *why;

	if (count == 0)
		return MPI_SUCCESS;
	if (count < 0 || !array_of_requests)
		return call_told(MPI_ERR_ARG, "there is no such list of requests");
	op = enqueue_op(count);
	if (!op)
		return call_told(MPI_ERR_NO_MEM, enqueue_no_memory);
	op->waits = true;
	op->statuses = array_of_statuses == MPI_STATUSES_IGNORE ? NULL : array_of_statuses;
	stream = enqueue_take(op, array_of_requests);
	if (!stream)
		return enqueue_give_up(op, MPI_ERR_REQUEST,
				       "these are no requests of MPIX_Isend_enqueue() or "
				       "MPIX_Irecv_enqueue() in one stream");
	why = enqueue_put(stream, op);
	if (why)
		return enqueue_give_up(op, MPI_ERR_OTHER, why);
	for (int i = 0; i < count; i++)
		array_of_requests[i] = MPI_REQUEST_NULL;
	return MPI_SUCCESS;
}

CALL_PUBLIC int MPIX_Wait_enqueue(MPI_Request *request, MPI_Status *status)
{
	return MPIX_Waitall_enqueue(1, request,
				    status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status);
}
#endif
