/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Data from ranks to ranks, where it lies: an exchange. Each rank sends a piece to each other one, and receives one, both in
 * host memory or a GPU's; its own piece it copies. Messages are bytes on a hidden communicator (hidden.h), so that MPI hands
 * them to libfabric unread.
 *
 * All ranks of a communicator make the same exchanges in the same order. A rank where something fails goes on, so that the
 * others end, and has the error in its call. But if MPI takes no message, another rank waits for that, and the rank does
 * not wait for others: its call ends with the error.
 */
#ifndef P2P_MPI_EXCHANGE_H
#define P2P_MPI_EXCHANGE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "call.h"
#include "dev/dev.h"

/* Bytes of a message, at most */
#define EXCHANGE_MESSAGE (1ul << 30)
/* Peers that a rank sends to at a time, and receives from */
#define EXCHANGE_WINDOW 8
/*
 * Bytes of a piece from which on there is one peer at a time. So ranks go in step, and each reads from a GPU that no other
 * reads from: four H200s get 344 GB/s each, and 183 otherwise (docs/results/2026-11-29-h200-four.md).
 */
#define EXCHANGE_ALONE (8ul << 20)

/* Of one rank */
struct exchange_piece {
	char *addr;
	size_t len;
};

/* Memory of one kind: of the GPU @mem if @gpu */
struct exchange_area {
	char *addr;
	bool gpu;
	struct dev_mem mem;
};

/**
 * struct exchange - a call that is carried out by exchanges.
 * @call:	which one, and what has gone wrong
 * @bytes:	how many of its data a GPU has
 * @cannot:	this rank wants it to be left to MPI
 * @small:	a rank has little memory for what comes from others
 * @ends:	MPI has not taken a message: no more are begun
 */
struct exchange {
	struct call call;
	MPI_Comm comm;
	int rank, ranks;
	size_t bytes;
	bool cannot, small, ends;
};

/**
 * struct exchange_flow - an exchange that is under way.
 * @out, @in:	a piece to and from each rank
 * @from, @to:	whose memory its own pieces are in
 * @at:		where messages begin in their pieces
 * @begun, @ended: peers so far, in the order of their distance
 * @window:	how many more have begun than ended, at most
 */
struct exchange_flow {
	struct exchange *exchange;
	const struct exchange_piece *out, *in;
	const struct exchange_area *from, *to;
	size_t at;
	int begun, ended, window;
	MPI_Request requests[EXCHANGE_WINDOW][2];
};

/* Begins a call on @comm, if that has a hidden communicator. False: it is left to MPI */
bool exchange_open(struct exchange *exchange, unsigned int number, MPI_Comm comm);
/* Do all ranks carry it out by exchanges? If not, it has ended. All must ask. */
bool exchange_agreed(struct exchange *exchange);
/* Ends it: what it returns, after the error handler */
int exchange_close(struct exchange *exchange);

/* Copies from either kind of memory to either. */
void exchange_copy(struct call *call, const struct exchange_area *to, char *dst,
		   const struct exchange_area *from, const char *src, size_t len);

/* Pieces of any length */
void exchange_all(struct exchange *exchange, const struct exchange_piece *out,
		  const struct exchange_area *from, const struct exchange_piece *in,
		  const struct exchange_area *to);
/* The same for up to EXCHANGE_MESSAGE bytes; others may be begun meanwhile. */
void exchange_begin(struct exchange_flow *flow);
void exchange_end(struct exchange_flow *flow);

#endif /* P2P_MPI_EXCHANGE_H */
