/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls whose data changes on its way. Each rank owns a segment of it. In a round all ranks give an owner their parts of its
 * segment, into scratch memory, where it adds them in the order of ranks. Then it delivers the sum. So all get the same, and
 * scratch memory is bounded. In MPI_Alltoall() in place, nothing is added: the parts wait there until theirs have been sent.
 * Segments that fit into one round may overlap: then several ranks add the same.
 *
 *   owner            others
 *     │ ◄── parts ─── │  round 0
 *     │ ◄── parts ─── │  round 1
 *    adds             │
 *     │ ──── sum ───► │  of round 0
 */
#ifndef P2P_MPI_ROUNDS_H
#define P2P_MPI_ROUNDS_H

#include "exchange.h"

/* Who gets the sum, if it is not one rank: all; each its own segment, at the beginning of its memory */
#define ROUNDS_ALL (-1)
#define ROUNDS_OWN (-2)

/* Where in the data a rank's segment begins, and how long it is */
struct rounds_segment {
	size_t at, len;
};

/**
 * struct rounds - such a call.
 * @in, @out:	what a rank gives, and gets; in place, both are the same
 * @segments:	of each rank
 * @size:	of an element
 * @op:		what adds, or MPI_OP_NULL: then @out gets each part where the part for that rank was
 * @root:	who gets the sum
 * @scratch:	two rounds, with a slot of @slot bytes for each rank
 * @most:	bytes of a part, at most
 */
struct rounds {
	struct exchange *exchange;
	struct exchange_area in, out;
	struct rounds_segment *segments;
	size_t size;
	MPI_Op op;
	MPI_Datatype type;
	int root;
	struct exchange_area scratch;
	struct exchange_piece *pieces;
	size_t slot, most, longest;
};

/* Does a segment of @len bytes fit into one round, however little memory there is? */
bool rounds_fits(size_t len, int ranks);

/* Gets memory, or has the exchange left to MPI: before all ranks agree. */
void rounds_prepare(struct rounds *rounds);
void rounds_run(struct rounds *rounds);
/* Gives it back: with or without a run */
void rounds_release(struct rounds *rounds);

#endif /* P2P_MPI_ROUNDS_H */
