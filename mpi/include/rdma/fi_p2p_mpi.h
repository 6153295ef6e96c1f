/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * MPI calls that take their turn in a stream of the GPU: they begin when the stream gets there, and the stream goes on when
 * they have ended. Link with -lp2p-mpi, before the MPI. libp2p-mpi(7) describes the library.
 *
 * Names, arguments and meaning are those of MPICH 4.2: the manual pages MPIX_Stream_create(3), MPIX_Send_enqueue(3) and
 * their relatives. Where mpi.h declares these calls itself, this header declares nothing, and the library leaves the
 * MPI's own.
 *
 *	MPI_Info_set(info, "type", "cudaStream_t");
 *	MPIX_Info_set_hex(info, "value", &cuda_stream, sizeof cuda_stream);
 *	MPIX_Stream_create(info, &stream);
 *	MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm);
 *	produce<<<..., cuda_stream>>>(buf);
 *	MPIX_Send_enqueue(buf, count, MPI_FLOAT, 1, 0, comm);
 *
 * Operations. Send, Recv, Isend, Irecv and Allreduce are those of MPI with the same name, datatypes and MPI_IN_PLACE
 * included. Their buffers are the GPU's or the host's. An operation reads and writes them when the stream has come to it, so
 * they stay as they are until then. Datatypes may be freed earlier, but for those of MPIX_Allreduce_enqueue(); so may
 * communicators.
 *
 * Errors are MPI's codes. What is wrong with a call's arguments, the call returns, after the communicator's error handler.
 * Nothing has been put into the stream then. What goes wrong when the operation is under way, the error handler gets in a
 * thread of the library. The stream goes on, status.MPI_ERROR has the code, and MPIX_Stream_free() returns the first one.
 *
 * Threads: any thread may call any function. MPI has to be initialised with MPI_THREAD_MULTIPLE.
 *
 * The thread of the library cannot copy while the driver waits for streams in another thread. So a stream that waits for
 * a message may wait for ever if the program meanwhile frees memory of CUDA's, loads a kernel, or launches one for the first
 * time.
 */
#ifndef FI_P2P_MPI_H
#define FI_P2P_MPI_H

#include <mpi.h>

/* MPICH has it since 4.1. */
#ifndef MPIX_STREAM_NULL
#define FI_P2P_MPI_STREAMS 1

#ifdef __cplusplus
extern "C" {
#endif

/** A stream of the GPU, as MPI calls know it */
typedef struct p2p_mpi_stream *MPIX_Stream;

/** What a communicator without a stream has */
#define MPIX_STREAM_NULL ((MPIX_Stream) 0)

/**
 * MPIX_Info_set_hex() - set a value that is bytes.
 * @info:	gets the value
 * @key:	its key
 * @value:	the bytes, which are written as two hexadecimal digits each
 * @value_size:	how many, MPI_MAX_INFO_VAL / 2 at most
 *
 * Returns MPI_SUCCESS, MPI_ERR_INFO_VALUE if they are too many, or the error of MPI_Info_set().
 */
int MPIX_Info_set_hex(MPI_Info info, const char *key, const void *value, int value_size);

/**
 * MPIX_Stream_create() - name a stream of the GPU.
 * @info:	"type" is "cudaStream_t"; "value" is the handle, by MPIX_Info_set_hex()
 * @stream:	gets the stream, or MPIX_STREAM_NULL after an error
 *
 * The handle stays the application's, and valid until all operations in it have ended. It is of the device that is current
 * in this thread, and not the per-thread default stream if several threads use it. The call waits for kernels that run, and
 * ends captures of other streams if it has to set a flag of their context (docs/limits.md#copies-that-return-early).
 *
 * Returns MPI_SUCCESS, after the error handler of MPI_COMM_WORLD:
 * MPI_ERR_UNSUPPORTED_OPERATION	MPI has a lower level than MPI_THREAD_MULTIPLE, FI_P2P_MPI=no leaves the
 *					library out, or streams of this GPU cannot wait
 * MPI_ERR_INFO_VALUE			@info names no such stream
 * MPI_ERR_OTHER			no device is current, or the stream is being captured
 * MPI_ERR_NO_MEM			there is no memory
 */
int MPIX_Stream_create(MPI_Info info, MPIX_Stream *stream);

/**
 * MPIX_Stream_free() - give a stream back.
 * @stream:	is MPIX_STREAM_NULL afterwards
 *
 * It waits for nothing: operations and communicators with this stream go on. If the stream has been synchronised before,
 * no error can come later.
 *
 * Returns MPI_SUCCESS, or the code of the first operation that has failed in this stream so far.
 */
int MPIX_Stream_free(MPIX_Stream *stream);

/**
 * MPIX_Stream_comm_create() - duplicate a communicator, for use with a stream.
 * @comm:	the communicator: all its ranks call this
 * @stream:	this rank's stream, or MPIX_STREAM_NULL
 * @newcomm:	gets the duplicate, of which duplicates have the stream, too
 *
 * Returns MPI_SUCCESS, or the error of MPI_Comm_dup().
 */
int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm);

/**
 * MPIX_Comm_get_stream() - tell a communicator's stream.
 * @comm:	the communicator
 * @idx:	0: there is one at most
 * @stream:	gets the stream, or MPIX_STREAM_NULL if there is none. It need not be given back
 */
int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream *stream);

/**
 * MPIX_Send_enqueue() - put MPI_Send() into the stream of @comm.
 *
 * Returns MPI_SUCCESS, the error that MPI finds in the arguments, MPI_ERR_COMM if @comm has no stream, or MPI_ERR_OTHER if
 * the stream is being captured, or takes no more. The capture stays valid.
 */
int MPIX_Send_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		      MPI_Comm comm);

/** MPIX_Recv_enqueue() - the same for MPI_Recv(). The library fills @status, which stays until then. */
int MPIX_Recv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		      MPI_Comm comm, MPI_Status *status);

/** MPIX_Allreduce_enqueue() - the same for MPI_Allreduce(). @datatype, @op and @comm stay until then. */
int MPIX_Allreduce_enqueue(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
			   MPI_Op op, MPI_Comm comm);

/**
 * MPIX_Isend_enqueue() - the same for MPI_Isend(): the stream does not wait.
 * @request:	one of MPIX_Wait_enqueue() and MPIX_Waitall_enqueue() has to follow. No other call takes it
 */
int MPIX_Isend_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		       MPI_Comm comm, MPI_Request *request);

/** MPIX_Irecv_enqueue() - the same for MPI_Irecv(). */
int MPIX_Irecv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		       MPI_Comm comm, MPI_Request *request);

/**
 * MPIX_Wait_enqueue() - have a request's stream wait until the operation has ended.
 * @request:	MPI_REQUEST_NULL afterwards
 * @status:	filled when the operation has ended, so it stays until then; or MPI_STATUS_IGNORE
 *
 * Returns MPI_SUCCESS, MPI_ERR_REQUEST if it is no such request, or waited for already, or MPI_ERR_OTHER as above. After an
 * error the request is as before.
 */
int MPIX_Wait_enqueue(MPI_Request *request, MPI_Status *status);

/** MPIX_Waitall_enqueue() - the same for requests of one stream; MPI_ERR_REQUEST if they are of several. */
int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[],
			 MPI_Status array_of_statuses[]);

#ifdef __cplusplus
}
#endif

#endif /* MPIX_STREAM_NULL */
#endif /* FI_P2P_MPI_H */
