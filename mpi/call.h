/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One call of MPI on its way through the library. A wrapper opens it, names its buffers, calls MPI, and closes it: or keeps
 * it, if MPI goes on when the call has returned. A buffer of a GPU's that MPI would touch is replaced by host memory of
 * the same layout (mirror.h). A call from within MPI, and one of a process without a GPU, is not opened.
 */
#ifndef P2P_MPI_CALL_H
#define P2P_MPI_CALL_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mirror.h"
#include "report.h"

#define CALL_PUBLIC __attribute__((visibility("default")))

/* Defines MPI_@name and PMPI_@name, and says MPI's own @real */
#define CALL_WRAPPER(name, declared)                                                           \
	CALL_PUBLIC int MPI_##name declared __attribute__((alias("PMPI_" #name)));             \
	CALL_PUBLIC int PMPI_##name declared

#define CALL_REAL(name, declared)                                                              \
	static int(*real) declared;                                                            \
                                                                                               \
	if (!real)                                                                             \
	*(void **) &real = call_symbol("PMPI_" #name)

/* What becomes of a buffer */
#define CALL_READ 1
#define CALL_WRITE 2
/* It goes down to libfabric as it is, if it has no gaps */
#define CALL_DIRECT MIRROR_DIRECT
/* So does each part of it, if none has gaps, and they are long */
#define CALL_PARTS MIRROR_PARTS
/* Nothing need be there */
#define CALL_ABSENT MIRROR_ABSENT

/* What a rank is in a call with a root: between two groups, some are neither */
#define ROLE_ROOT 1
#define ROLE_OTHER 2
#define ROLE_MEMBER 4

/* Buffers of a call, at most */
#define CALL_BUFFERS 3

struct parts_flow;

/**
 * struct call - a call that is open.
 * @number:	which one it is, of report_names
 * @mirrors:	what its buffers were replaced by
 * @gpu:	it had a buffer of a GPU's
 * @error:	the first thing that went wrong: MPI_SUCCESS, or an error class
 * @why:	what that was
 * @flow:	its messages, if it has a request for them (parts.h); else NULL
 * @in_place:	one of its buffers was MPI_IN_PLACE
 * @sparable:	what the report advises may help
 * @reporter:	what has the error handler
 */
struct call {
	unsigned int number;
	bool gpu;
	struct mirror *mirrors[CALL_BUFFERS];
	int count;
	int error;
	const char *why;
	struct parts_flow *flow;
	bool in_place, sparable;
	struct call_reporter {
		MPI_Comm comm;
		MPI_Win win;
		MPI_File file;
	} reporter;
};

#define CALL_COMM(of) ((struct call_reporter){of, MPI_WIN_NULL, MPI_FILE_NULL})
#define CALL_WIN(of) ((struct call_reporter){MPI_COMM_NULL, of, MPI_FILE_NULL})
#define CALL_FILE(of) ((struct call_reporter){MPI_COMM_NULL, MPI_WIN_NULL, of})

/* The function of that name that comes after ours: MPI's own, or a tool's. It ends the process if there is none. */
void *call_symbol(const char *name);

/* Begins a call. False: nothing is to be done, and the wrapper calls MPI. */
bool call_open(struct call *call, unsigned int number, struct call_reporter reporter);

/* These name a buffer, and replace it if need be. Shapes are those of calls.txt. */
void call_block(struct call *call, int access, void **buf, size_t count, MPI_Datatype type);
void call_vector(struct call *call, int access, void **buf, size_t peers, const int counts[],
		 const int displs[], MPI_Datatype type);
void call_vectors(struct call *call, int access, void **buf, size_t peers, const int counts[],
		  const int displs[], const MPI_Datatype types[]);
void call_vectors_long(struct call *call, int access, void **buf, size_t peers,
		       const int counts[], const MPI_Aint displs[], const MPI_Datatype types[]);
/* @blocks blocks, one behind the other: partitions are those that MPI is told of by themselves. */
void call_blocks(struct call *call, int access, void **buf, size_t blocks, MPI_Count count,
		 MPI_Datatype type);
void call_partitions(struct call *call, int access, void **buf, int partitions, MPI_Count count,
		     MPI_Datatype type);

/* The same with the counts of MPI 4 */
void call_vector_c(struct call *call, int access, void **buf, size_t peers,
		   const MPI_Count counts[], const MPI_Aint displs[], MPI_Datatype type);
void call_vectors_c(struct call *call, int access, void **buf, size_t peers,
		    const MPI_Count counts[], const MPI_Aint displs[],
		    const MPI_Datatype types[]);

/* What shapes are of; an error has been told to the communicator, and the answer is 0. */
int call_role(MPI_Comm comm, int root);
size_t call_peers(MPI_Comm comm);
size_t call_own(MPI_Comm comm);
size_t call_rank(MPI_Comm comm);
size_t call_neighbors(MPI_Comm comm, bool in);
size_t call_sum(const int counts[], size_t count);
size_t call_sum_c(const MPI_Count counts[], size_t count);
/* Bytes of @count elements; 0: none, or MPI says better what is wrong */
size_t call_bytes(size_t count, MPI_Datatype type);
/* CALL_DIRECT if a message to or from @peer goes down to libfabric: MPICH's CPU copies what a rank sends to itself. */
int call_direct(MPI_Comm comm, int peer);
/* CALL_DIRECT if a broadcast that blocks does: short ones are quicker through host memory. */
int call_direct_all(MPI_Comm comm, size_t count, MPI_Datatype type);
/* @count for each of @ranks; what is no count stays none */
size_t call_times(size_t ranks, MPI_Count count);

/*
 * What to return instead of calling MPI, after the error handler: MPI_SUCCESS if nothing has gone wrong. call_report() and
 * call_failed() are for an error class of ours; the text of the latter names the call. call_ready() copies what MPI is about to
 * read as well.
 */
int call_error(struct call *call);
int call_report(const struct call_reporter *reporter, int error, const char *why);
int call_failed(const struct call *call, int error, const char *why);
int call_ready(struct call *call);
/* Notes what has gone wrong, if nothing has so far: an error class. */
void call_fail(struct call *call, int error, const char *why);
/* Has MPI refused a message, or has one failed? Then the call has the error. @ret: what MPI has returned */
bool call_check(struct call *call, int ret);
/* With @why: tells that to MPI_COMM_WORLD's error handler, and returns its code. Else returns @ret. */
int call_told(int ret, const char *why);

/* These end a wrapper, and return what it returns. @ret: what MPI has returned */
int call_close(struct call *call, int ret);
int call_keep(struct call *call, int ret, const MPI_Request *request);
int call_persist(struct call *call, int ret, const MPI_Request *request);
int call_window(struct call *call, int ret, MPI_Win win, int target);
int call_split(struct call *call, int ret, MPI_File file);
/* @owner: what has the buffer, or 0 */
int call_attach(struct call *call, int ret, uintptr_t owner);

/* A split collective of @file has ended with @ret. */
int call_split_end(MPI_File file, int ret);

/* Does the user want the library? And a report? */
bool call_wants(void);
/* The names of providers, separated by commas, that Open MPI is to choose from; NULL: it was not told any */
const char *call_providers(void);
/*
 * May messages be a GPU's memory? Of several providers Open MPI takes the first that libfabric has, which puts ours behind
 * the core's. So all of them have to be ours.
 */
bool call_carried(void);
bool call_reports(void);

/* Calls from within MPI are let through from here to call_leave(). False: this is one, or MPI does not run */
bool call_enter(void);
void call_leave(void);
/* What is called between these is the application's. call_suspend() says whether this is within a call, for call_resume() */
bool call_suspend(void);
void call_resume(bool within);

/* A session has begun: MPI runs without MPI_Init(). MPI_Finalize() has returned. */
void call_session(void);
void call_end_world(void);

#endif /* P2P_MPI_CALL_H */
