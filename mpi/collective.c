/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Collective calls as rounds of exchanges. See collective.h. */
#include "collective.h"

#include <stdint.h>
#include <stdlib.h>

#include "exchange.h"
#include "hidden.h"
#include "kernel.h"
#include "layout.h"
#include "rounds.h"

/**
 * struct collective - one that is about to be carried out.
 * @send, @recv: this rank's memory
 * @segments:	for rounds
 */
struct collective {
	struct exchange exchange;
	struct exchange_area send, recv;
	struct rounds_segment *segments;
};

/* ---- whether ---- */

/* How long @count elements of @type are, @parts times; 0: not long enough, or MPI says better what is wrong */
static size_t collective_bytes(MPI_Comm comm, size_t count, MPI_Datatype type, size_t parts)
{
	size_t bytes;

	if (comm == MPI_COMM_NULL ||
	    __builtin_mul_overflow(call_bytes(count, type), parts, &bytes) ||
	    bytes < HIDDEN_PIECE_NEAR)
		return 0;
	return bytes / hidden_piece(comm) < call_own(comm) ? 0 : bytes;
}

static size_t collective_ranks(MPI_Comm comm)
{
	return comm == MPI_COMM_NULL ? 0 : call_own(comm);
}

static bool collective_open(struct collective *c, unsigned int number, MPI_Comm comm)
{
	*c = (struct collective){0};
	if (!exchange_open(&c->exchange, number, comm))
		return false;
	c->segments = calloc((size_t) c->exchange.ranks, sizeof *c->segments);
	c->exchange.cannot = !c->segments;
	return true;
}

/* The area has @count elements, which must be @bytes without gaps, in one allocation. */
static void collective_block(struct collective *c, struct exchange_area *area, const void *buf,
			     size_t count, MPI_Datatype type, size_t bytes)
{
	struct layout *layout =
		buf == MPI_IN_PLACE || type == MPI_DATATYPE_NULL ? NULL : layout_get(type);
	size_t len;
	int found = -1;

	if (layout && layout->count && layout_dense(layout) &&
	    !__builtin_mul_overflow(count, layout->size, &len) && len == bytes) {
		area->addr = (char *) buf + layout->runs[0].at;
		found = dev_active() ? dev_find(area->addr, &area->mem) : 0;
	}
	area->gpu = found > 0;
	if (area->gpu)
		c->exchange.bytes += bytes;
	if (found < 0 || !area->addr ||
	    (area->gpu &&
	     bytes > area->mem.size - (size_t) ((uintptr_t) area->addr - area->mem.base)))
		c->exchange.cannot = true;
	layout_put(layout);
}

/* ---- rounds ---- */

static bool collective_rounds(struct collective *c, struct rounds *rounds, int *ret)
{
	rounds->exchange = &c->exchange;
	rounds->in = c->send;
	rounds->out = c->recv;
	rounds->segments = c->segments;
	rounds_prepare(rounds);
	if (!exchange_agreed(&c->exchange)) {
		rounds_release(rounds);
		free(c->segments);
		return false;
	}
	rounds_run(rounds);
	rounds_release(rounds);
	free(c->segments);
	*ret = exchange_close(&c->exchange);
	return true;
}

bool collective_alltoall(unsigned int number, int *ret, const void *sendbuf, int sendcount,
			 MPI_Datatype sendtype, void *recvbuf, int recvcount,
			 MPI_Datatype recvtype, MPI_Comm comm)
{
	const size_t ranks = collective_ranks(comm);
	const size_t bytes = collective_bytes(comm, (size_t) recvcount, recvtype, ranks);
	struct rounds rounds = {.size = 1, .op = MPI_OP_NULL};
	struct collective c;

	(void) sendcount;
	(void) sendtype;
	if (sendbuf != MPI_IN_PLACE || !bytes || !collective_open(&c, number, comm))
		return false;
	collective_block(&c, &c.recv, recvbuf, ranks * (size_t) recvcount, recvtype, bytes);
	c.send = c.recv;
	for (size_t i = 0; c.segments && i < ranks; i++)
		c.segments[i] = (struct rounds_segment){i * (bytes / ranks), bytes / ranks};
	return collective_rounds(&c, &rounds, ret);
}

/* ---- reductions ---- */

/* What is reduced: @counts elements for each rank, or as many for each as @count allows; @root: as of struct rounds */
struct collective_reduction {
	const void *sendbuf;
	void *recvbuf;
	size_t count;
	const int *counts;
	MPI_Datatype type;
	MPI_Op op;
	int root;
};

/* Of what ranks reduce together, each owns what it gets, or its share of what one or all get. */
static void collective_share(struct collective *c, const struct collective_reduction *of,
			     size_t size)
{
	const size_t ranks = (size_t) c->exchange.ranks;
	size_t end = 0;

	for (size_t i = 0; c->segments && i < ranks; i++) {
		const size_t at = end;

		end = of->counts ? at + (size_t) of->counts[i] * size
				 : (of->count / ranks * (i + 1) +
				    of->count % ranks * (i + 1) / ranks) *
					   size;
		c->segments[i] = (struct rounds_segment){at, end - at};
	}
}

/*
 * Is it quicker if each that gets the sum adds up all of it? That is one exchange, not two, of more bytes. All have to get the
 * same, and some may add on their GPU, others on the host.
 */
static bool collective_alone(const struct collective *c, const struct collective_reduction *of,
			     size_t bytes, MPI_Comm comm)
{
	return of->root != ROUNDS_OWN && !hidden_far(comm) &&
	       rounds_fits(bytes, c->exchange.ranks) &&
	       (of->root != ROUNDS_ALL || kernel_agrees(of->op, of->type));
}

static void collective_segments(struct collective *c, const struct collective_reduction *of,
				size_t bytes, bool alone)
{
	if (!alone)
		collective_share(c, of, bytes / of->count);
	for (int i = 0; alone && c->segments && i < c->exchange.ranks; i++)
		c->segments[i].len = of->root == ROUNDS_ALL || of->root == i ? bytes : 0;
}

static bool collective_reduction(unsigned int number, int *ret, MPI_Comm comm,
				 const struct collective_reduction *of)
{
	const size_t bytes = collective_bytes(comm, of->count, of->type, 1);
	const bool in_place = of->sendbuf == MPI_IN_PLACE;
	struct collective c;
	size_t gets = 0;
	bool alone;
	int rank;

	if (!bytes || !kernel_reduces(of->op, of->type) || !collective_open(&c, number, comm))
		return false;
	rank = c.exchange.rank;
	alone = collective_alone(&c, of, bytes, comm);
	collective_segments(&c, of, bytes, alone);
	if (of->root == ROUNDS_ALL || of->root == rank)
		gets = bytes;
	else if (of->root == ROUNDS_OWN && c.segments)
		gets = c.segments[rank].len;
	collective_block(&c, &c.send, in_place ? of->recvbuf : of->sendbuf, of->count, of->type,
			 bytes);
	if (gets && !in_place)
		collective_block(&c, &c.recv, of->recvbuf, gets / (bytes / of->count), of->type,
				 gets);
	else
		c.recv = c.send;
	if ((gets && of->sendbuf == of->recvbuf) || (in_place && of->root >= 0 && !gets))
		c.exchange.cannot = true;
	return collective_rounds(&c,
				 &(struct rounds){.size = bytes / of->count,
						  .op = of->op,
						  .type = of->type,
						  .root = alone ? ROUNDS_OWN : of->root},
				 ret);
}

bool collective_reduce(unsigned int number, int *ret, const void *sendbuf, void *recvbuf,
		       int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
	return root >= 0 && root < (int) collective_ranks(comm) &&
	       collective_reduction(number, ret, comm,
				    &(struct collective_reduction){sendbuf, recvbuf,
								   (size_t) count, NULL, type,
								   op, root});
}

bool collective_allreduce(unsigned int number, int *ret, const void *sendbuf, void *recvbuf,
			  int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	return collective_reduction(number, ret, comm,
				    &(struct collective_reduction){sendbuf, recvbuf,
								   (size_t) count, NULL, type,
								   op, ROUNDS_ALL});
}

bool collective_reduce_scatter_block(unsigned int number, int *ret, const void *sendbuf,
				     void *recvbuf, int recvcount, MPI_Datatype type, MPI_Op op,
				     MPI_Comm comm)
{
	const size_t ranks = collective_ranks(comm);

	return recvcount > 0 &&
	       collective_reduction(number, ret, comm,
				    &(struct collective_reduction){sendbuf, recvbuf,
								   (size_t) recvcount * ranks,
								   NULL, type, op, ROUNDS_OWN});
}

bool collective_reduce_scatter(unsigned int number, int *ret, const void *sendbuf,
			       void *recvbuf, const int recvcounts[], MPI_Datatype type,
			       MPI_Op op, MPI_Comm comm)
{
	const size_t ranks = collective_ranks(comm);

	for (size_t i = 0; recvcounts && i < ranks; i++) {
		if (recvcounts[i] < 0)
			return false;
	}
	return recvcounts &&
	       collective_reduction(number, ret, comm,
				    &(struct collective_reduction){sendbuf, recvbuf,
								   call_sum(recvcounts, ranks),
								   recvcounts, type, op,
								   ROUNDS_OWN});
}
