/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Collective calls in which each rank knows its own parts only, as messages between the ranks: each sends its parts from
 * where they lie, in host memory or a GPU's. Ranks need not ask each other, as messages do not tell the one from the other.
 * So all such calls, on communicators that have a hidden one (hidden.h), go this way.
 *
 * Messages are posted in an order that both ends know. So those of one rank for another arrive where they belong, also if
 * several calls are under way, as all ranks begin these in the same order. All are posted at once, but for long parts of a call
 * that blocks: these go one peer at a time.
 *
 * A call that does not block has one request of MPI's for all of its messages, a generalized one. MPI carries the messages as
 * it carries others. The program's calls that ask for the request look whether they have ended, and then end it: no thread does.
 */
#ifndef P2P_MPI_PARTS_H
#define P2P_MPI_PARTS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "call.h"

/**
 * struct parts - what a rank gives, or gets.
 * @number:	how many there are
 * @peers:	the rank that each is for, or of; NULL: the i-th is for rank i
 * @turned:	the parts of a pair are each other's way back: what one end sends as the first of them, the other gets as the second
 * @count, @type: elements of each
 * @counts, @types: the same where parts differ
 * @displs, @far: where they are, in extents of the type, or bytes if there are @types; neither: one behind the other
 * @same:	all parts are the first one
 */
struct parts {
	char *buf;
	int number;
	const int *peers;
	bool turned, same;
	int count;
	MPI_Datatype type;
	const int *counts, *displs;
	const MPI_Aint *far;
	const MPI_Datatype *types;
};

/* Do the calls of @comm go this way? All ranks get the same answer. @sendbuf: if all have MPI_IN_PLACE there, or none; else NULL */
bool parts_can(MPI_Comm comm, const void *sendbuf);

/* Are they so many bytes that messages of their own pay? */
bool parts_long(MPI_Comm comm, size_t count, MPI_Datatype type);

/* The one of rank @rank, for all: what is given if MPI_IN_PLACE is where that would be */
struct parts parts_of(const struct parts *parts, int rank);

/*
 * Carries a call out, or begins it, if it has a @request: then @call has its flow. True: *@ret is what it returns. False: MPI says
 * better what is wrong. If @call has an error already, or there is no memory, other ranks get messages without data, and so end.
 */
bool parts_run(struct call *call, int *ret, MPI_Comm comm, const struct parts *out,
	       const struct parts *in, MPI_Request *request);

/* Have all messages ended? Then the request has. @wait: until they have */
bool parts_ended(struct parts_flow *flow, bool wait);
/* Behind that: returns MPI_SUCCESS, or an error class with @why. */
int parts_close(struct parts_flow *flow, const char **why);

#endif /* P2P_MPI_PARTS_H */
