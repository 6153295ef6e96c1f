/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Collective calls as exchanges, or as rounds of them. See collective.h. */
#include "collective.h"

#include <stdint.h>
#include <stdlib.h>

#include "exchange.h"
#include "kernel.h"
#include "layout.h"
#include "rounds.h"

/**
 * struct collective - one that is about to be carried out.
 * @send, @recv: this rank's memory
 * @out, @in:	pieces to and from each rank, if all exchange
 * @starts:	of segments, for rounds
 */
struct collective {
	struct exchange exchange;
	struct exchange_area send, recv;
	struct exchange_piece *out, *in;
	size_t *starts;
};

/* ---- whether ---- */

/* How long @count elements of @type are, @parts times; 0: not long enough, or MPI says better what is wrong */
static size_t collective_bytes(MPI_Comm comm, size_t count, MPI_Datatype type, size_t parts)
{
	size_t bytes;
	int size;

	if (comm == MPI_COMM_NULL || type == MPI_DATATYPE_NULL || (ptrdiff_t) count <= 0 ||
	    PMPI_Type_size(type, &size) != MPI_SUCCESS || size <= 0 ||
	    __builtin_mul_overflow(count, (size_t) size, &bytes) ||
	    __builtin_mul_overflow(bytes, parts, &bytes))
		return 0;
	return bytes / EXCHANGE_PIECE < call_own(comm) ? 0 : bytes;
}

static size_t collective_ranks(MPI_Comm comm)
{
	return comm == MPI_COMM_NULL ? 0 : call_own(comm);
}

static bool collective_is_root(MPI_Comm comm, int root)
{
	return comm != MPI_COMM_NULL && (int) call_rank(comm) == root;
}

static bool collective_open(struct collective *c, unsigned int number, MPI_Comm comm)
{
	size_t ranks;

	*c = (struct collective){0};
	if (!exchange_open(&c->exchange, number, comm))
		return false;
	ranks = (size_t) c->exchange.ranks;
	c->out = calloc(2 * ranks, sizeof *c->out);
	c->in = c->out ? c->out + ranks : NULL;
	c->starts = calloc(ranks + 1, sizeof *c->starts);
	if (!c->out || !c->starts)
		c->exchange.cannot = true;
	return true;
}

static void collective_free(struct collective *c)
{
	free(c->out);
	free(c->starts);
}

static bool collective_agreed(struct collective *c)
{
	if (exchange_agreed(&c->exchange))
		return true;
	collective_free(c);
	return false;
}

static bool collective_close(struct collective *c, int *ret)
{
	collective_free(c);
	*ret = exchange_close(&c->exchange);
	return true;
}

/* ---- memory ---- */

/* The area has @bytes from @low to @high, which must be in one allocation. */
static void collective_span(struct collective *c, struct exchange_area *area, ptrdiff_t low,
			    ptrdiff_t high, size_t bytes)
{
	const uintptr_t first = (uintptr_t) (area->addr + low);
	int found;

	if (bytes == 0)
		return;
	found = dev_active() ? dev_find((void *) first, &area->mem) : 0;
	area->gpu = found > 0;
	if (area->gpu)
		c->exchange.bytes += bytes;
	if (found < 0 || first == 0 ||
	    (area->gpu &&
	     (size_t) (high - low) > area->mem.size - (size_t) (first - area->mem.base)))
		c->exchange.cannot = true;
}

/* The area begins where data of @type does at @buf. Returns the bytes of an element, or 0: it has gaps. */
static size_t collective_area(struct collective *c, struct exchange_area *area, const void *buf,
			      MPI_Datatype type)
{
	struct layout *layout =
		buf == MPI_IN_PLACE || type == MPI_DATATYPE_NULL ? NULL : layout_get(type);
	size_t size = 0;

	if (layout && layout->count && layout_dense(layout)) {
		area->addr = (char *) buf + layout->runs[0].at;
		size = layout->size;
	} else {
		c->exchange.cannot = true;
	}
	layout_put(layout);
	return size;
}

/* The area has @count elements, which must be @bytes. */
static void collective_block(struct collective *c, struct exchange_area *area, const void *buf,
			     size_t count, MPI_Datatype type, size_t bytes)
{
	const size_t size = collective_area(c, area, buf, type);
	size_t len;

	if (__builtin_mul_overflow(count, size, &len) || len != bytes)
		c->exchange.cannot = true;
	else
		collective_span(c, area, 0, (ptrdiff_t) bytes, bytes);
}

/* ---- exchanges ---- */

static bool collective_all(struct collective *c, int *ret)
{
	exchange_all(&c->exchange, c->out, &c->send, c->in, &c->recv);
	return collective_close(c, ret);
}

/* A piece of @len bytes for each rank, @step bytes apart */
static void collective_pieces(const struct collective *c, struct exchange_piece *pieces,
			      char *addr, size_t step, size_t len)
{
	for (int i = 0; i < c->exchange.ranks; i++)
		pieces[i] = (struct exchange_piece){addr + (size_t) i * step, len};
}

/* Between the root, which has @all, and each rank's @own, or MPI_IN_PLACE at the root */
static bool collective_rooted(unsigned int number, int *ret, bool gathers, const void *all,
			      int all_count, MPI_Datatype all_type, const void *own,
			      int own_count, MPI_Datatype own_type, int root, MPI_Comm comm)
{
	const bool here = collective_is_root(comm, root);
	const bool has_own = !here || own != MPI_IN_PLACE;
	const size_t ranks = collective_ranks(comm);
	const size_t bytes = here ? collective_bytes(comm, (size_t) all_count, all_type, ranks)
				  : collective_bytes(comm, (size_t) own_count, own_type, ranks);
	struct exchange_area *whole, *part;
	struct exchange_piece *pieces;
	struct collective c;

	if (!bytes || root < 0 || root >= (int) ranks || !collective_open(&c, number, comm))
		return false;
	whole = gathers ? &c.recv : &c.send;
	part = gathers ? &c.send : &c.recv;
	if (here)
		collective_block(&c, whole, all, ranks * (size_t) all_count, all_type, bytes);
	if (has_own)
		collective_block(&c, part, own, (size_t) own_count, own_type, bytes / ranks);
	if (!collective_agreed(&c))
		return false;
	pieces = gathers ? c.in : c.out;
	if (here)
		collective_pieces(&c, pieces, whole->addr, bytes / ranks, bytes / ranks);
	if (has_own)
		(gathers ? c.out : c.in)[root] =
			(struct exchange_piece){part->addr, bytes / ranks};
	else
		pieces[root].len = 0;
	return collective_all(&c, ret);
}

bool collective_gather(unsigned int number, int *ret, const void *sendbuf, int sendcount,
		       MPI_Datatype sendtype, void *recvbuf, int recvcount,
		       MPI_Datatype recvtype, int root, MPI_Comm comm)
{
	return collective_rooted(number, ret, true, recvbuf, recvcount, recvtype, sendbuf,
				 sendcount, sendtype, root, comm);
}

bool collective_scatter(unsigned int number, int *ret, const void *sendbuf, int sendcount,
			MPI_Datatype sendtype, void *recvbuf, int recvcount,
			MPI_Datatype recvtype, int root, MPI_Comm comm)
{
	return collective_rooted(number, ret, false, sendbuf, sendcount, sendtype, recvbuf,
				 recvcount, recvtype, root, comm);
}

bool collective_allgather(unsigned int number, int *ret, const void *sendbuf, int sendcount,
			  MPI_Datatype sendtype, void *recvbuf, int recvcount,
			  MPI_Datatype recvtype, MPI_Comm comm)
{
	const size_t ranks = collective_ranks(comm);
	const size_t bytes = collective_bytes(comm, (size_t) recvcount, recvtype, ranks);
	struct collective c;

	if (!bytes || !collective_open(&c, number, comm))
		return false;
	collective_block(&c, &c.recv, recvbuf, ranks * (size_t) recvcount, recvtype, bytes);
	if (sendbuf == MPI_IN_PLACE) {
		c.send = c.recv;
		c.send.addr += (size_t) c.exchange.rank * (bytes / ranks);
	} else {
		collective_block(&c, &c.send, sendbuf, (size_t) sendcount, sendtype,
				 bytes / ranks);
	}
	if (!collective_agreed(&c))
		return false;
	collective_pieces(&c, c.out, c.send.addr, 0, bytes / ranks);
	collective_pieces(&c, c.in, c.recv.addr, bytes / ranks, bytes / ranks);
	return collective_all(&c, ret);
}

/* The area has blocks of @counts elements at @displs, @bytes in all. Returns the bytes of an element. */
static size_t collective_vector(struct collective *c, struct exchange_area *area,
				const void *buf, const int counts[], const int displs[],
				MPI_Datatype type, size_t bytes)
{
	const size_t size = collective_area(c, area, buf, type);
	ptrdiff_t low = PTRDIFF_MAX, high = PTRDIFF_MIN;

	for (int i = 0; i < c->exchange.ranks; i++) {
		const ptrdiff_t at = displs[i] * (ptrdiff_t) size;

		if (counts[i] < 0)
			c->exchange.cannot = true;
		if (counts[i] <= 0)
			continue;
		low = at < low ? at : low;
		high = at + counts[i] * (ptrdiff_t) size > high
			       ? at + counts[i] * (ptrdiff_t) size
			       : high;
	}
	collective_span(c, area, low, high, bytes);
	return size;
}

bool collective_allgatherv(unsigned int number, int *ret, const void *sendbuf, int sendcount,
			   MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
			   const int displs[], MPI_Datatype recvtype, MPI_Comm comm)
{
	const size_t ranks = collective_ranks(comm);
	const size_t bytes =
		recvcounts && displs
			? collective_bytes(comm, call_sum(recvcounts, ranks), recvtype, 1)
			: 0;
	struct collective c;
	size_t size, own;

	if (!bytes || !collective_open(&c, number, comm))
		return false;
	size = collective_vector(&c, &c.recv, recvbuf, recvcounts, displs, recvtype, bytes);
	own = (size_t) recvcounts[c.exchange.rank] * size;
	if (sendbuf == MPI_IN_PLACE) {
		c.send = c.recv;
		c.send.addr += displs[c.exchange.rank] * (ptrdiff_t) size;
	} else if (sendcount || own) {
		collective_block(&c, &c.send, sendbuf, (size_t) sendcount, sendtype, own);
	}
	if (!collective_agreed(&c))
		return false;
	for (size_t i = 0; i < ranks; i++) {
		c.out[i] = (struct exchange_piece){c.send.addr, own};
		c.in[i] = (struct exchange_piece){c.recv.addr + displs[i] * (ptrdiff_t) size,
						  (size_t) recvcounts[i] * size};
	}
	return collective_all(&c, ret);
}

/* ---- rounds ---- */

static bool collective_rounds(struct collective *c, struct rounds *rounds, int *ret)
{
	rounds->exchange = &c->exchange;
	rounds->in = c->send;
	rounds->out = c->recv;
	rounds->starts = c->starts;
	rounds_prepare(rounds);
	if (!exchange_agreed(&c->exchange)) {
		rounds_release(rounds);
		collective_free(c);
		return false;
	}
	rounds_run(rounds);
	rounds_release(rounds);
	return collective_close(c, ret);
}

bool collective_alltoall(unsigned int number, int *ret, const void *sendbuf, int sendcount,
			 MPI_Datatype sendtype, void *recvbuf, int recvcount,
			 MPI_Datatype recvtype, MPI_Comm comm)
{
	const size_t ranks = collective_ranks(comm);
	const size_t bytes = collective_bytes(comm, (size_t) recvcount, recvtype, ranks);
	struct rounds rounds = {.size = 1, .op = MPI_OP_NULL};
	struct collective c;

	if (!bytes || !collective_open(&c, number, comm))
		return false;
	collective_block(&c, &c.recv, recvbuf, ranks * (size_t) recvcount, recvtype, bytes);
	if (sendbuf == MPI_IN_PLACE) {
		c.send = c.recv;
		for (size_t i = 0; c.starts && i <= ranks; i++)
			c.starts[i] = i * (bytes / ranks);
		return collective_rounds(&c, &rounds, ret);
	}
	collective_block(&c, &c.send, sendbuf, ranks * (size_t) sendcount, sendtype, bytes);
	if (!collective_agreed(&c))
		return false;
	collective_pieces(&c, c.out, c.send.addr, bytes / ranks, bytes / ranks);
	collective_pieces(&c, c.in, c.recv.addr, bytes / ranks, bytes / ranks);
	return collective_all(&c, ret);
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

static void collective_segments(struct collective *c, const struct collective_reduction *of,
				size_t size)
{
	const size_t ranks = (size_t) c->exchange.ranks;

	for (size_t i = 0; c->starts && i < ranks; i++)
		c->starts[i + 1] = of->counts ? c->starts[i] + (size_t) of->counts[i] * size
					      : (of->count / ranks * (i + 1) +
						 of->count % ranks * (i + 1) / ranks) *
							size;
}

static bool collective_reduction(unsigned int number, int *ret, MPI_Comm comm,
				 const struct collective_reduction *of)
{
	const size_t bytes = collective_bytes(comm, of->count, of->type, 1);
	const bool in_place = of->sendbuf == MPI_IN_PLACE;
	struct collective c;
	size_t gets = 0;
	int rank;

	if (!bytes || !kernel_reduces(of->op, of->type) || !collective_open(&c, number, comm))
		return false;
	rank = c.exchange.rank;
	collective_segments(&c, of, bytes / of->count);
	if (of->root == ROUNDS_ALL || of->root == rank)
		gets = bytes;
	else if (of->root == ROUNDS_OWN && c.starts)
		gets = c.starts[rank + 1] - c.starts[rank];
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
						  .root = of->root},
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
