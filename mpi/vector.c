/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Vector collectives as messages. See vector.h. */
#include "vector.h"

#include "exchange.h"
#include "hidden.h"
#include "lane.h"
#include "layout.h"

/* Peers that a rank sends to at a time, and receives from */
#define VECTOR_WINDOW 16
#define VECTOR_TAG 0

/**
 * struct vector_side - what a rank gives, or gets.
 * @counts, @displs: of the part for each rank; NULL: there is one part of @count elements, for rank @only
 * @types:	of each part; NULL: all are of @type
 * @extent:	what displacements are counted in [bytes]
 */
struct vector_side {
	char *buf;
	const int *counts, *displs;
	const MPI_Datatype *types;
	MPI_Datatype type;
	MPI_Aint extent;
	int only, count;
};

struct vector_part {
	char *addr;
	int count;
	MPI_Datatype type;
};

/* Nothing, for no rank */
static const struct vector_side vector_nothing = {.only = -1};

/* The part for @rank. False: there is none, or nothing in it */
static bool vector_part(const struct vector_side *side, int rank, struct vector_part *part)
{
	int size = 0;

	if (!side->counts)
		*part = (struct vector_part){side->buf, side->only == rank ? side->count : 0,
					     side->type};
	else if (side->counts[rank] == 0)
		return false;
	else
		*part = (struct vector_part){side->buf + side->displs[rank] * side->extent,
					     side->counts[rank],
					     side->types ? side->types[rank] : side->type};
	return part->count > 0 && PMPI_Type_size(part->type, &size) == MPI_SUCCESS && size > 0;
}

static MPI_Aint vector_extent(MPI_Datatype type)
{
	MPI_Aint low, extent = 0;

	PMPI_Type_get_extent(type, &low, &extent);
	return extent;
}

/* Has MPI nothing to say against it? */
static bool vector_fine(struct vector_side *side, int ranks)
{
	if (side->buf == MPI_IN_PLACE)
		return false;
	for (int i = 0; i < ranks; i++) {
		const int count = side->counts      ? side->counts[i]
				  : side->only == i ? side->count
						    : 0;
		const MPI_Datatype type = side->types ? side->types[i] : side->type;

		if (count < 0 ||
		    (count && (type == MPI_DATATYPE_NULL || (side->counts && !side->displs))))
			return false;
	}
	/* displacements of parts of several types are in bytes */
	if (side->types)
		side->extent = 1;
	else if (side->counts && side->type != MPI_DATATYPE_NULL)
		side->extent = vector_extent(side->type);
	return true;
}

/* ---- messages ---- */

/* Where @part is, if it has no gaps: returns its bytes, or 0 */
static size_t vector_area(const struct vector_part *part, struct exchange_area *area)
{
	struct layout *layout = layout_get(part->type);
	size_t len = 0;

	if (layout && layout->count && layout_dense(layout)) {
		len = (size_t) part->count * layout->size;
		area->addr = part->addr + layout->runs[0].at;
		area->gpu = dev_active() && dev_find(area->addr, &area->mem) > 0;
	}
	layout_put(layout);
	return len;
}

/* What a rank has for itself: of a type with gaps, to one without, or the other way round */
static void vector_own_message(struct exchange *exchange, const struct vector_part *out,
			       const struct vector_part *in)
{
	exchange_check(exchange,
		       PMPI_Sendrecv(out->addr, out->count, out->type, exchange->rank,
				     VECTOR_TAG, in->addr, in->count, in->type, exchange->rank,
				     VECTOR_TAG, exchange->comm, MPI_STATUS_IGNORE));
}

/* MPI may have the CPU copy what a rank sends itself. So what is a GPU's there has host memory in its place meanwhile. */
static void vector_own(struct exchange *exchange, const struct vector_part *out,
		       const struct vector_part *in)
{
	struct exchange_area from = {0}, to = {0}, host = {0};
	const size_t len = vector_area(out, &from), room = vector_area(in, &to),
		     bytes = from.gpu ? len : room;
	struct vector_part sent = *out, got = *in;
	const struct dev_mem *mem = from.gpu ? &from.mem : &to.mem;
	const char *why;
	int ret;

	if (len && len == room) {
		exchange_copy(exchange, &to, to.addr, &from, from.addr, len);
		return;
	}
	if (!from.gpu && !to.gpu) {
		vector_own_message(exchange, out, in);
		return;
	}
	ret = lane_memory(mem, bytes, &host.addr, &why);
	if (ret != MPI_SUCCESS) {
		exchange_fail(exchange, ret, why);
		return;
	}
	if (from.gpu) {
		exchange_copy(exchange, &host, host.addr, &from, from.addr, len);
		sent.addr = host.addr - (from.addr - out->addr);
	} else {
		got.addr = host.addr - (to.addr - in->addr);
	}
	vector_own_message(exchange, &sent, &got);
	if (!from.gpu)
		exchange_copy(exchange, &to, to.addr, &host, host.addr, room);
	lane_memory_free(mem, host.addr, bytes);
}

/* The messages of one step: what is sent goes to the rank that is as far ahead as the one that is received from is behind. */
static void vector_post(struct exchange *exchange, const struct vector_side *out,
			const struct vector_side *in, int step, MPI_Request requests[2])
{
	const int ranks = exchange->ranks, to = (exchange->rank + step) % ranks,
		  from = (exchange->rank + ranks - step) % ranks;
	struct vector_part part;

	requests[0] = requests[1] = MPI_REQUEST_NULL;
	if (vector_part(in, from, &part))
		exchange_check(exchange, PMPI_Irecv(part.addr, part.count, part.type, from,
						    VECTOR_TAG, exchange->comm, &requests[0]));
	if (vector_part(out, to, &part))
		exchange_check(exchange, PMPI_Isend(part.addr, part.count, part.type, to,
						    VECTOR_TAG, exchange->comm, &requests[1]));
}

static void vector_exchange(struct exchange *exchange, const struct vector_side *out,
			    const struct vector_side *in)
{
	MPI_Request requests[VECTOR_WINDOW][2];
	struct vector_part own_out, own_in;
	int begun = 1;

	for (int ended = 0; ended < exchange->ranks; ended++) {
		for (; begun < exchange->ranks && begun < ended + VECTOR_WINDOW; begun++)
			vector_post(exchange, out, in, begun, requests[begun % VECTOR_WINDOW]);
		if (ended == 0 && vector_part(out, exchange->rank, &own_out) &&
		    vector_part(in, exchange->rank, &own_in))
			vector_own(exchange, &own_out, &own_in);
		for (int i = 0; ended && i < 2; i++)
			exchange_check(exchange, PMPI_Wait(&requests[ended % VECTOR_WINDOW][i],
							   MPI_STATUS_IGNORE));
	}
}

/* ---- calls ---- */

/* Carries a call out, unless MPI says better what is wrong. */
static bool vector_run(int *ret, MPI_Comm comm, struct vector_side *out, struct vector_side *in)
{
	struct exchange exchange = {.comm = hidden_of(comm)};

	exchange.call.reporter = CALL_COMM(comm);
	PMPI_Comm_rank(exchange.comm, &exchange.rank);
	PMPI_Comm_size(exchange.comm, &exchange.ranks);
	if (!vector_fine(out, exchange.ranks) || !vector_fine(in, exchange.ranks))
		return false;
	vector_exchange(&exchange, out, in);
	*ret = call_error(&exchange.call);
	return true;
}

bool vector_can(MPI_Comm comm, const void *sendbuf)
{
	const MPI_Comm hidden = hidden_any() && comm != MPI_COMM_NULL && sendbuf != MPI_IN_PLACE
					? hidden_of(comm)
					: MPI_COMM_NULL;

	/* a rank alone has the program's own one: its messages would meet the program's receives */
	return hidden != MPI_COMM_NULL && hidden != MPI_COMM_SELF;
}

bool vector_gatherv(int *ret, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
		    void *recvbuf, const int recvcounts[], const int displs[],
		    MPI_Datatype recvtype, int root, MPI_Comm comm)
{
	const bool here = (int) call_rank(comm) == root;
	struct vector_side out = vector_nothing, in = vector_nothing;

	if (here ? !recvcounts : root < 0 || root >= (int) call_own(comm))
		return false;
	if (!here || sendbuf != MPI_IN_PLACE)
		out = (struct vector_side){.buf = (char *) sendbuf,
					   .type = sendtype,
					   .only = root,
					   .count = sendcount};
	if (here)
		in = (struct vector_side){recvbuf, recvcounts, displs, .type = recvtype};
	return vector_run(ret, comm, &out, &in);
}

bool vector_scatterv(int *ret, const void *sendbuf, const int sendcounts[], const int displs[],
		     MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
		     int root, MPI_Comm comm)
{
	const bool here = (int) call_rank(comm) == root;
	struct vector_side out = vector_nothing, in = vector_nothing;

	if (here ? !sendcounts : root < 0 || root >= (int) call_own(comm))
		return false;
	if (here)
		out = (struct vector_side){(char *) sendbuf, sendcounts, displs,
					   .type = sendtype};
	if (!here || recvbuf != MPI_IN_PLACE)
		in = (struct vector_side){.buf = recvbuf,
					  .type = recvtype,
					  .only = root,
					  .count = recvcount};
	return vector_run(ret, comm, &out, &in);
}

bool vector_alltoallv(int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
		      const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
		      MPI_Comm comm)
{
	struct vector_side out = {(char *) sendbuf, sendcounts, sdispls, .type = sendtype},
			   in = {recvbuf, recvcounts, rdispls, .type = recvtype};

	return sendcounts && recvcounts && vector_run(ret, comm, &out, &in);
}

bool vector_alltoallw(int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], const MPI_Datatype sendtypes[], void *recvbuf,
		      const int recvcounts[], const int rdispls[],
		      const MPI_Datatype recvtypes[], MPI_Comm comm)
{
	struct vector_side out = {(char *) sendbuf, sendcounts, sdispls, .types = sendtypes},
			   in = {recvbuf, recvcounts, rdispls, .types = recvtypes};

	return sendcounts && recvcounts && sendtypes && recvtypes &&
	       vector_run(ret, comm, &out, &in);
}
