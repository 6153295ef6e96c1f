/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_enqueue: MPI calls in CUDA streams (rdma/fi_p2p_mpi.h). The stream sets what is sent, and keeps what has been
 * received: so each byte tells whether a call was in its turn. The host waits in the end. With the argument "low", MPI
 * has not the level of threads that this needs.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_p2p_mpi.h>

#include "cu.h"
#include "ft_test.h"
#include "mpi_test.h"

#define ROUNDS 24
#define LARGEST ((size_t) 300001)
#define LONG ((size_t) 1 << 20)
#define TAG 5
#define NUMBERS 3000
#define GAP 0x5a
#define LATER_US 50000

/**
 * struct line - a stream, and a communicator with it.
 * @out, @in, @log: memory of the GPU's: LONG bytes each, and ROUNDS * LARGEST
 * @host:	LONG bytes of the host's
 */
struct line {
	struct mpi_run *run;
	void *cuda;
	MPIX_Stream stream;
	MPI_Comm comm;
	char *out, *in, *log, *host;
	int left, right;
};

static unsigned char content(int rank, size_t round)
{
	return (unsigned char) (1 + round + 40 * (size_t) rank);
}

static int code_is(int code, int wanted, const char *what)
{
	int class = MPI_SUCCESS;

	MPI_Error_class(code, &class);
	FT_CHECK(class == wanted, "%s: error class %d, not %d", what, class, wanted);
	return 0;
}

/* ---- lines ---- */

static MPI_Info info_of(const char *type, const void *handle, int len)
{
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, "type", type);
	MPIX_Info_set_hex(info, "value", handle, len);
	return info;
}

static int stream_make(void *cuda, MPIX_Stream *stream)
{
	MPI_Info info = info_of("cudaStream_t", &cuda, sizeof cuda);
	const int ret = MPIX_Stream_create(info, stream);

	MPI_Info_free(&info);
	return ret;
}

static int line_open(struct mpi_run *run, struct line *line)
{
	*line = (struct line){
		.run = run,
		.out = run->pool[1].buf.addr,
		.in = run->pool[1].buf.addr + LONG,
		.log = run->pool[1].buf.addr + 2 * LONG,
		.host = run->pool[0].buf.addr,
		.left = (run->rank + run->ranks - 1) % run->ranks,
		.right = (run->rank + 1) % run->ranks,
	};
	CU(stream_create(&line->cuda, CU_NON_BLOCKING));
	FT_TRY(code_is(stream_make(line->cuda, &line->stream), MPI_SUCCESS, "a stream"));
	MPIX_Stream_comm_create(MPI_COMM_WORLD, line->stream, &line->comm);
	return 0;
}

static int line_close(struct line *line)
{
	CU(synchronize(line->cuda));
	MPI_Comm_free(&line->comm);
	FT_TRY(code_is(MPIX_Stream_free(&line->stream), MPI_SUCCESS, "a stream at its end"));
	FT_CHECK(line->stream == MPIX_STREAM_NULL, "a stream is there after its end");
	CU(stream_destroy(line->cuda));
	return 0;
}

static int line_set(struct line *line, char *to, unsigned char value, size_t len)
{
	CU(set((uintptr_t) to, value, len, line->cuda));
	return 0;
}

/* Keeps what has been received, which is overwritten then. */
static int line_keep(struct line *line, size_t round, size_t len)
{
	CU(copy((uintptr_t) line->log + round * len, (uintptr_t) line->in, len, line->cuda));
	return line_set(line, line->in, 0, len);
}

static int all_are(const struct line *line, const char *addr, size_t len, unsigned char wanted,
		   const char *what)
{
	char *bytes = malloc(len);
	size_t at = 0;

	FT_CHECK(bytes, "no memory for %zu bytes", len);
	FT_TRY(line->run->pool[1].buf.ops->from(bytes, addr, len));
	while (at < len && (unsigned char) bytes[at] == wanted)
		at++;
	if (at < len)
		ft_err("%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, at, len,
		       (unsigned char) bytes[at], wanted);
	free(bytes);
	return at < len ? -FI_EOTHER : 0;
}

static int line_check(struct line *line, int source, size_t len, const char *what)
{
	CU(synchronize(line->cuda));
	for (size_t i = 0; i < ROUNDS; i++)
		FT_TRY(all_are(line, line->log + i * len, len, content(source, i), what));
	return 0;
}

/* ---- scenes ---- */

/* Round a ring, all of it before the host waits. */
static int ring(struct line *line, size_t len)
{
	MPI_Request requests[2];

	for (size_t i = 0; i < ROUNDS; i++) {
		FT_TRY(line_set(line, line->out, content(line->run->rank, i), len));
		MPIX_Irecv_enqueue(line->in, (int) len, MPI_BYTE, line->left, TAG, line->comm,
				   &requests[0]);
		MPIX_Isend_enqueue(line->out, (int) len, MPI_BYTE, line->right, TAG, line->comm,
				   &requests[1]);
		if (i % 2) {
			MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE);
		} else {
			MPIX_Wait_enqueue(&requests[1], MPI_STATUS_IGNORE);
			MPIX_Wait_enqueue(&requests[0], MPI_STATUS_IGNORE);
		}
		FT_CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL,
			 "requests are there after waits for them");
		FT_TRY(line_keep(line, i, len));
	}
	return line_check(line, line->left, len, "round the ring");
}

/* Ranks with an even number send, and get the same back from the host memory of others. */
static int echo(struct line *line, size_t len)
{
	const int rank = line->run->rank, other = rank ^ 1;
	MPI_Status statuses[ROUNDS];
	int count;

	for (size_t i = 0; i < ROUNDS; i++) {
		if (rank % 2) {
			MPIX_Recv_enqueue(line->host, (int) len, MPI_BYTE, other, MPI_ANY_TAG,
					  line->comm, &statuses[i]);
			MPIX_Send_enqueue(line->host, (int) len, MPI_BYTE, other, TAG,
					  line->comm);
			continue;
		}
		FT_TRY(line_set(line, line->out, content(rank, i), len));
		MPIX_Send_enqueue(line->out, (int) len, MPI_BYTE, other, (int) i, line->comm);
		FT_TRY(line_set(line, line->out, 0, len));
		MPIX_Recv_enqueue(line->in, (int) len, MPI_BYTE, other, TAG, line->comm,
				  MPI_STATUS_IGNORE);
		FT_TRY(line_keep(line, i, len));
	}
	if (rank % 2 == 0)
		return line_check(line, rank, len, "from host memory");
	CU(synchronize(line->cuda));
	for (int i = 0; i < ROUNDS; i++) {
		MPI_Get_count(&statuses[i], MPI_BYTE, &count);
		FT_CHECK(statuses[i].MPI_SOURCE == other && statuses[i].MPI_TAG == i &&
				 count == (int) len && statuses[i].MPI_ERROR == MPI_SUCCESS,
			 "round %d: source %d, tag %d, %d bytes", i, statuses[i].MPI_SOURCE,
			 statuses[i].MPI_TAG, count);
	}
	return 0;
}

/* The others' messages of both streams come in the other order: neither stream may hold the other. */
static int cross(struct line *line, size_t len)
{
	const int rank = line->run->rank, other = rank ^ 1;
	struct line second;

	(void) len;
	FT_TRY(line_open(line->run, &second));
	second.out = line->log;
	second.in = line->log + LONG;
	if (rank % 2) {
		MPIX_Recv_enqueue(second.in, LONG, MPI_BYTE, other, TAG, second.comm,
				  MPI_STATUS_IGNORE);
		usleep(LATER_US);
		MPIX_Recv_enqueue(line->in, LONG, MPI_BYTE, other, TAG, line->comm,
				  MPI_STATUS_IGNORE);
		CU(synchronize(second.cuda));
		CU(synchronize(line->cuda));
		FT_TRY(all_are(line, second.in, LONG, 2, "of the second stream"));
		FT_TRY(all_are(line, line->in, LONG, 1, "of the first stream"));
	} else {
		FT_TRY(line_set(line, line->out, 1, LONG));
		FT_TRY(line_set(&second, second.out, 2, LONG));
		MPIX_Send_enqueue(line->out, LONG, MPI_BYTE, other, TAG, line->comm);
		usleep(LATER_US);
		MPIX_Send_enqueue(second.out, LONG, MPI_BYTE, other, TAG, second.comm);
	}
	return line_close(&second);
}

/*
 * Some of the numbers, by a type that a kernel packs, while the stream waits for a message already. The type is gone when the
 * stream gets there, and so are communicator and stream.
 */
static int gaps(struct line *line, size_t len)
{
	const size_t bytes = 2 * NUMBERS * sizeof(int);
	int at[NUMBERS], numbers[2 * NUMBERS];
	MPI_Request request;
	MPI_Datatype type;
	MPIX_Stream stream;
	MPI_Comm comm;

	(void) len;
	for (int i = 0; i < NUMBERS; i++)
		at[i] = 2 * i + (i % 7 == 0);
	FT_TRY(code_is(stream_make(line->cuda, &stream), MPI_SUCCESS, "a stream"));
	MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm);
	MPI_Type_create_indexed_block(NUMBERS, 1, at, MPI_INT, &type);
	MPI_Type_commit(&type);
	FT_TRY(line_set(line, line->in, GAP, bytes));
	FT_TRY(line_set(line, line->out, content(line->run->rank, 0), bytes));
	MPIX_Irecv_enqueue(line->in, 1, type, line->left, TAG, comm, &request);
	MPIX_Send_enqueue(line->out, 1, type, line->right, TAG, comm);
	FT_TRY(line_set(line, line->out, 0, bytes));
	MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
	CU(copy((uintptr_t) line->log, (uintptr_t) line->in, bytes, line->cuda));
	MPI_Type_free(&type);
	MPI_Comm_free(&comm);
	MPIX_Stream_free(&stream);
	CU(synchronize(line->cuda));
	FT_TRY(line->run->pool[1].buf.ops->from(numbers, line->log, bytes));
	for (int i = 0; i < 2 * NUMBERS; i++) {
		const bool sent = i == at[i / 2];
		const int wanted = 0x01010101 * (sent ? content(line->left, 0) : GAP);

		FT_CHECK(numbers[i] == wanted, "number %d is 0x%x, not 0x%x", i, numbers[i],
			 wanted);
	}
	return 0;
}

/*
 * Each round has a stream and a communicator of its own. The stream is freed before it is used, and the communicator before the
 * CUDA stream gets there.
 */
static int fleeting(struct line *line, size_t len)
{
	for (size_t i = 0; i < ROUNDS; i++) {
		MPI_Request requests[2];
		MPIX_Stream stream;
		MPI_Comm comm;

		FT_TRY(code_is(stream_make(line->cuda, &stream), MPI_SUCCESS, "a stream"));
		MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm);
		MPIX_Stream_free(&stream);
		FT_TRY(line_set(line, line->out, content(line->run->rank, i), len));
		MPIX_Isend_enqueue(line->out, (int) len, MPI_BYTE, line->right, TAG, comm,
				   &requests[0]);
		MPIX_Irecv_enqueue(line->in, (int) len, MPI_BYTE, line->left, TAG, comm,
				   &requests[1]);
		MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE);
		MPI_Comm_free(&comm);
		FT_TRY(line_keep(line, i, len));
	}
	return line_check(line, line->left, len, "by fleeting streams");
}

static int sum(struct line *line, size_t len)
{
	unsigned char all = 0;

	len -= len % sizeof(int);
	if (len == 0)
		return 0;
	for (int rank = 0; rank < line->run->ranks; rank++)
		all = (unsigned char) (all + rank + 1);
	for (size_t i = 0; i < ROUNDS; i++) {
		char *from = i % 2 ? line->in : line->out;
		const unsigned char value = (unsigned char) (line->run->rank + 1);

		FT_TRY(line_set(line, from, value, len));
		MPIX_Allreduce_enqueue(i % 2 ? MPI_IN_PLACE : from, line->in,
				       (int) (len / sizeof(int)), MPI_INT, MPI_SUM, line->comm);
		FT_TRY(line_set(line, line->out, 0, len));
		FT_TRY(line_keep(line, i, len));
	}
	CU(synchronize(line->cuda));
	return all_are(line, line->log, ROUNDS * len, all, "a sum");
}

/* A message that is too long for its receive: the stream goes on, and who looks is told. */
static int truncated(struct line *line, size_t len)
{
	const int rank = line->run->rank, other = rank ^ 1;
	struct line wrong;
	MPI_Status status;

	(void) len;
	FT_TRY(line_open(line->run, &wrong));
	MPI_Comm_set_errhandler(wrong.comm, MPI_ERRORS_RETURN);
	FT_TRY(line_set(&wrong, wrong.out, 1, LONG));
	if (rank % 2)
		MPIX_Recv_enqueue(wrong.in, LONG / 2, MPI_BYTE, other, TAG, wrong.comm,
				  &status);
	else
		MPIX_Send_enqueue(wrong.out, LONG, MPI_BYTE, other, TAG, wrong.comm);
	FT_TRY(line_set(&wrong, wrong.log, 2, 8));
	CU(synchronize(wrong.cuda));
	FT_TRY(all_are(&wrong, wrong.log, 8, 2, "behind an error"));
	if (rank % 2 == 0)
		return line_close(&wrong);
	FT_TRY(code_is(status.MPI_ERROR, MPI_ERR_TRUNCATE, "the status of a receive"));
	MPI_Comm_free(&wrong.comm);
	FT_TRY(code_is(MPIX_Stream_free(&wrong.stream), MPI_ERR_TRUNCATE, "a stream"));
	CU(stream_destroy(wrong.cuda));
	return 0;
}

/* What is wrong with arguments. Nothing of this gets into the stream. */
static int arguments(struct line *line, size_t len)
{
	char *end = line->run->pool[1].buf.addr + line->run->pool[1].buf.size - 8;
	MPI_Info info = info_of("cudaStream_t", "none", 4);
	MPI_Request request, none = MPI_REQUEST_NULL;
	MPIX_Stream stream;
	MPI_Comm comm;

	(void) len;
	FT_TRY(code_is(MPIX_Send_enqueue(line->out, 1, MPI_BYTE, 0, TAG, MPI_COMM_WORLD),
		       MPI_ERR_COMM, "a communicator without a stream"));
	FT_TRY(code_is(MPIX_Send_enqueue(line->out, 1, MPI_BYTE, line->run->ranks, TAG,
					 line->comm),
		       MPI_ERR_RANK, "a rank that there is not"));
	FT_TRY(code_is(MPIX_Recv_enqueue(end, 16, MPI_BYTE, line->left, TAG, line->comm,
					 MPI_STATUS_IGNORE),
		       MPI_ERR_BUFFER, "a buffer that leaves its memory"));
	FT_TRY(code_is(MPIX_Wait_enqueue(&none, MPI_STATUS_IGNORE), MPI_ERR_REQUEST,
		       "no request"));
	MPI_Irecv(line->host, 1, MPI_BYTE, line->run->rank, TAG, MPI_COMM_WORLD, &request);
	FT_TRY(code_is(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST,
		       "a request of another kind"));
	MPI_Send(line->host + 8, 1, MPI_BYTE, line->run->rank, TAG, MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	FT_TRY(code_is(MPIX_Stream_create(MPI_INFO_NULL, &stream), MPI_ERR_INFO_VALUE,
		       "no info"));
	FT_TRY(code_is(MPIX_Stream_create(info, &stream), MPI_ERR_INFO_VALUE,
		       "a handle that is too short"));
	FT_CHECK(stream == MPIX_STREAM_NULL, "there is a stream after an error");
	FT_TRY(code_is(MPIX_Stream_free(&stream), MPI_ERR_ARG, "no stream"));
	MPI_Info_free(&info);
	MPIX_Comm_get_stream(line->comm, 0, &stream);
	FT_CHECK(stream == line->stream, "a communicator's stream is another one");
	MPIX_Comm_get_stream(line->comm, 1, &stream);
	FT_CHECK(stream == MPIX_STREAM_NULL, "a communicator has two streams");
	MPI_Comm_dup(line->comm, &comm);
	MPIX_Comm_get_stream(comm, 0, &stream);
	FT_CHECK(stream == line->stream, "a duplicate's stream is another one");
	MPI_Comm_free(&comm);
	MPIX_Stream_comm_create(line->comm, MPIX_STREAM_NULL, &comm);
	MPIX_Comm_get_stream(comm, 0, &stream);
	FT_CHECK(stream == MPIX_STREAM_NULL, "a duplicate without a stream has one");
	MPI_Comm_free(&comm);
	return 0;
}

/* While the stream is captured it takes nothing. The graph is as if nobody had tried. */
static int captured(struct line *line, size_t len)
{
	void *graph, *exec;
	MPIX_Stream stream;

	(void) len;
	FT_TRY(line_set(line, line->log, 0, 8));
	CU(capture_begin(line->cuda, CU_CAPTURE_GLOBAL));
	FT_TRY(code_is(MPIX_Send_enqueue(line->out, 1, MPI_BYTE, line->right, TAG, line->comm),
		       MPI_ERR_OTHER, "a send in a stream that is captured"));
	FT_TRY(code_is(stream_make(line->cuda, &stream), MPI_ERR_OTHER,
		       "a stream that is captured"));
	FT_TRY(line_set(line, line->log, 3, 8));
	CU(capture_end(line->cuda, &graph));
	CU(instantiate(&exec, graph, 0));
	CU(graph_destroy(graph));
	CU(launch(exec, line->cuda));
	CU(synchronize(line->cuda));
	CU(exec_destroy(exec));
	return all_are(line, line->log, 8, 3, "what a graph has set");
}

/* ---- the test ---- */

static const struct {
	const char *name;
	int (*run)(struct line *line, size_t len);
	bool lengths, errors;
} scenes[] = {
	{"a ring", ring, true, false},
	{"an echo", echo, true, false},
	{"fleeting streams", fleeting, true, false},
	{"sums", sum, true, false},
	{"crossing", cross, false, false},
	{"gaps", gaps, false, false},
	{"too long a message", truncated, false, false},
	{"arguments", arguments, false, true},
	{"a capture", captured, false, true},
};

static int run_all(struct mpi_run *run)
{
	const size_t lengths[] = {1, 4097, 65536, LARGEST};
	struct line line;

	if (run->threads < MPI_THREAD_MULTIPLE) {
		ft_err("this MPI has no MPI_THREAD_MULTIPLE");
		return -FI_EOTHER;
	}
	FT_TRY(cu_load());
	FT_TRY(line_open(run, &line));
	for (size_t i = 0; i < FT_COUNT(scenes); i++) {
		if (scenes[i].errors) {
			MPI_Comm_set_errhandler(line.comm, MPI_ERRORS_RETURN);
			MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		}
		for (size_t j = 0; j < (scenes[i].lengths ? FT_COUNT(lengths) : 1); j++) {
			mpi_stage(run, "%s, %zu bytes", scenes[i].name, lengths[j]);
			FT_TRY(scenes[i].run(&line, lengths[j]));
		}
	}
	return line_close(&line);
}

/* What MPIX_Stream_create() says where there can be no streams */
static const char *refused;

static int run_refused(struct mpi_run *run)
{
	char text[MPI_MAX_ERROR_STRING];
	MPIX_Stream stream;
	void *cuda;
	int len, ret;

	FT_TRY(cu_load());
	CU(stream_create(&cuda, CU_NON_BLOCKING));
	mpi_stage(run, "a stream that there cannot be");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	ret = stream_make(cuda, &stream);
	FT_TRY(code_is(ret, MPI_ERR_UNSUPPORTED_OPERATION, "a stream"));
	MPI_Error_string(ret, text, &len);
	FT_CHECK(strstr(text, refused), "it says: %s", text);
	CU(stream_destroy(cuda));
	return 0;
}

int main(int argc, char **argv)
{
	struct mpi_test test = {
		.purpose = "MPI calls in CUDA streams, with libp2p-mpi",
		.ranks = 2,
		.threads = MPI_THREAD_MULTIPLE,
		.cuda = true,
		.pool = 2 * LONG + ROUNDS * LARGEST,
		.run = run_all,
	};

	if (argc > 2 && !strcmp(argv[argc - 2], "refused")) {
		refused = argv[argc - 1];
		argc -= 2;
		test.run = run_refused;
		if (!strcmp(refused, "MPI_THREAD_MULTIPLE"))
			test.threads = MPI_THREAD_SERIALIZED;
	}
#ifndef FI_P2P_MPI_STREAMS
	ft_skip("this MPI has these calls itself");
	return FT_SKIP;
#endif
	return mpi_test_main(&test, argc, argv);
}
