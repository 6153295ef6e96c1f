/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Parts of collective calls as messages. See parts.h. */
#include "parts.h"

#include <limits.h>
#include <stdlib.h>

#include "exchange.h"
#include "hidden.h"
#include "lane.h"
#include "layout.h"

/**
 * struct parts_flow - a call that is under way.
 * @call:	has the error
 * @comm:	the hidden one
 * @request:	the program's; MPI_REQUEST_NULL: the call blocks
 * @count:	messages; @ended: the first ones of them
 */
struct parts_flow {
	struct call call;
	MPI_Comm comm;
	int rank, count, ended;
	MPI_Request request, messages[];
};

/* @len: its bytes, without gaps */
struct parts_part {
	char *addr;
	int count;
	MPI_Datatype type;
	size_t len;
};

/* ---- what is where ---- */

static int parts_peer(const struct parts *parts, int i)
{
	return parts->peers ? parts->peers[i] : i;
}

static int parts_tag(const struct parts *parts, int i, bool sends)
{
	return !parts->turned ? 0 : sends ? i : i ^ 1;
}

static int parts_count(const struct parts *parts, int i)
{
	return parts->counts ? parts->counts[i] : parts->count;
}

static MPI_Datatype parts_type(const struct parts *parts, int i)
{
	return parts->types ? parts->types[i] : parts->type;
}

/* Where the @i-th part begins, from the buffer on */
static MPI_Aint parts_at(const struct parts *parts, int i)
{
	MPI_Aint low, extent = 0;

	if (parts->types)
		return parts->far ? parts->far[i] : parts->displs[i];
	if (parts->same)
		return 0;
	PMPI_Type_get_extent(parts->type, &low, &extent);
	return extent * (parts->displs ? parts->displs[i] : (MPI_Aint) i * parts->count);
}

/* The @i-th part. False: it is nobody's, or there is nothing in it */
static bool parts_part(const struct parts *parts, int i, struct parts_part *part)
{
	int size = 0;

	/* types that nothing is of may be no types */
	if (parts_peer(parts, i) == MPI_PROC_NULL || parts_count(parts, i) == 0)
		return false;
	*part = (struct parts_part){parts->buf + parts_at(parts, i), parts_count(parts, i),
				    parts_type(parts, i), 0};
	if (PMPI_Type_size(part->type, &size) != MPI_SUCCESS || size <= 0)
		return false;
	part->len = (size_t) part->count * (size_t) size;
	return true;
}

/* Has MPI nothing to say against them? */
static bool parts_fine(const struct parts *parts)
{
	if (parts->number && parts->buf == MPI_IN_PLACE)
		return false;
	for (int i = 0; i < parts->number; i++) {
		const int count = parts_count(parts, i);

		if (count < 0 || (count && (parts_type(parts, i) == MPI_DATATYPE_NULL ||
					    (parts->counts && !parts->displs && !parts->far))))
			return false;
	}
	return true;
}

/* Where @part is, if it has no gaps: returns its bytes, or 0 */
static size_t parts_area(const struct parts_part *part, struct exchange_area *area)
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

/* ---- what a rank has for itself ---- */

/* Of a type with gaps, to one without, or the other way round */
static void parts_own_message(struct parts_flow *flow, const struct parts_part *out,
			      const struct parts_part *in)
{
	call_check(&flow->call, PMPI_Sendrecv(out->addr, out->count, out->type, flow->rank, 0,
					      in->addr, in->count, in->type, flow->rank, 0,
					      flow->comm, MPI_STATUS_IGNORE));
}

/* MPI may have the CPU copy what a rank sends itself. So what is a GPU's there has host memory in its place meanwhile. */
static void parts_own_part(struct parts_flow *flow, const struct parts_part *out,
			   const struct parts_part *in)
{
	struct exchange_area from = {0}, to = {0}, host = {0};
	const size_t len = parts_area(out, &from), room = parts_area(in, &to),
		     bytes = from.gpu ? len : room;
	struct parts_part sent = *out, got = *in;
	const struct dev_mem *mem = from.gpu ? &from.mem : &to.mem;
	const char *why;
	int ret;

	if (len && len == room) {
		exchange_copy(&flow->call, &to, to.addr, &from, from.addr, len);
		return;
	}
	if (!from.gpu && !to.gpu) {
		parts_own_message(flow, out, in);
		return;
	}
	ret = lane_memory(mem, bytes, &host.addr, &why);
	if (ret != MPI_SUCCESS) {
		call_fail(&flow->call, ret, why);
		return;
	}
	if (from.gpu) {
		exchange_copy(&flow->call, &host, host.addr, &from, from.addr, len);
		sent.addr = host.addr - (from.addr - out->addr);
	} else {
		got.addr = host.addr - (to.addr - in->addr);
	}
	parts_own_message(flow, &sent, &got);
	if (!from.gpu)
		exchange_copy(&flow->call, &to, to.addr, &host, host.addr, room);
	lane_memory_free(mem, host.addr, bytes);
}

/* It gets its parts in the order in which it gives them, unless they are in their place. */
static void parts_own(struct parts_flow *flow, const struct parts *out, const struct parts *in)
{
	struct parts_part sent, got;

	for (int i = 0, k = -1; i < in->number; i++) {
		if (parts_peer(in, i) != flow->rank)
			continue;
		if (in->turned)
			k = i ^ 1;
		else
			for (k++; k < out->number && parts_peer(out, k) != flow->rank;)
				k++;
		if (k < out->number && parts_part(out, k, &sent) && parts_part(in, i, &got) &&
		    !(sent.addr == got.addr && sent.type == got.type))
			parts_own_part(flow, &sent, &got);
	}
}

/* ---- messages ---- */

static void parts_post(struct parts_flow *flow, const struct parts *parts, int i, bool sends)
{
	const int peer = parts_peer(parts, i), tag = parts_tag(parts, i, sends);
	MPI_Request *request = &flow->messages[flow->count];
	struct parts_part part;

	if (peer == flow->rank || !parts_part(parts, i, &part))
		return;
	flow->count +=
		!call_check(&flow->call, sends ? PMPI_Isend(part.addr, part.count, part.type,
							    peer, tag, flow->comm, request)
					       : PMPI_Irecv(part.addr, part.count, part.type,
							    peer, tag, flow->comm, request));
}

/* With a part for each rank, what is sent goes to the one that is as far ahead as the one that is received from is behind. */
static void parts_post_step(struct parts_flow *flow, const struct parts *parts, int step,
			    bool sends)
{
	const int number = parts->number;

	parts_post(flow, parts,
		   parts->peers ? step : (flow->rank + (sends ? step : number - step)) % number,
		   sends);
}

/*
 * This rank has no data to give, nor room for any: others get messages without data, and all that they send is taken, so that
 * they end. A message that is cut short would not end at its sender over ofi_rxm.
 */
static void parts_excuse(const struct parts *parts, MPI_Comm comm, bool sends)
{
	struct parts_part part;
	MPI_Request request;
	int rank;

	PMPI_Comm_rank(comm, &rank);
	for (int i = 0; i < parts->number; i++) {
		const int peer = parts_peer(parts, i), tag = parts_tag(parts, i, sends);

		if (peer == rank || !parts_part(parts, i, &part))
			continue;
		if (sends) {
			if (PMPI_Isend(NULL, 0, MPI_BYTE, peer, tag, comm, &request) ==
			    MPI_SUCCESS)
				PMPI_Request_free(&request);
		} else {
			char *memory = malloc(part.len);

			PMPI_Recv(memory, memory && part.len <= INT_MAX ? (int) part.len : 0,
				  MPI_BYTE, peer, tag, comm, MPI_STATUS_IGNORE);
			free(memory);
		}
	}
}

static void parts_post_all(struct parts_flow *flow, const struct parts *parts, bool sends)
{
	for (int step = 0; step < parts->number; step++)
		parts_post_step(flow, parts, step, sends);
}

/* Are there parts for and of others that go one peer at a time? See EXCHANGE_ALONE. */
static bool parts_alone(const struct parts_flow *flow, const struct parts *parts)
{
	struct parts_part part;

	for (int i = 0; !parts->peers && i < parts->number; i++) {
		if (i != flow->rank && parts_part(parts, i, &part) &&
		    part.len >= EXCHANGE_ALONE)
			return true;
	}
	return false;
}

static void parts_in_step(struct parts_flow *flow, const struct parts *out,
			  const struct parts *in)
{
	for (int step = 1; step < in->number; step++) {
		parts_post_step(flow, in, step, false);
		parts_post_step(flow, out, step, true);
		parts_ended(flow, true);
	}
}

/* ---- calls ---- */

bool parts_can(MPI_Comm comm, const void *sendbuf)
{
	return hidden_any() && comm != MPI_COMM_NULL && sendbuf != MPI_IN_PLACE &&
	       hidden_of(comm) != MPI_COMM_NULL;
}

bool parts_long(MPI_Comm comm, size_t count, MPI_Datatype type)
{
	/* a count below 0 is MPI's to judge, on this rank alone: others may wait then, as they do in MPI */
	return call_bytes(count, type) >= hidden_piece(comm);
}

struct parts parts_of(const struct parts *parts, int rank)
{
	if (!parts_fine(parts) || !parts_count(parts, rank))
		return (struct parts){.number = 0};
	return (struct parts){.buf = parts->buf + parts_at(parts, rank),
			      .number = parts->number,
			      .same = true,
			      .count = parts_count(parts, rank),
			      .type = parts->type};
}

/* What the status of such a request says: nothing */
static int parts_query(void *none, MPI_Status *status)
{
	(void) none;
	status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
	PMPI_Status_set_cancelled(status, 0);
	return PMPI_Status_set_elements(status, MPI_BYTE, 0);
}

static int parts_freed(void *none)
{
	(void) none;
	return MPI_SUCCESS;
}

/* MPI has none of these cancelled. */
static int parts_cancelled(void *none, int complete)
{
	(void) none;
	(void) complete;
	return MPI_SUCCESS;
}

bool parts_run(struct call *call, int *ret, MPI_Comm comm, const struct parts *out,
	       const struct parts *in, MPI_Request *request)
{
	struct parts_flow *flow;
	const char *why;

	if (!parts_fine(out) || !parts_fine(in))
		return false;
	flow = call->error == MPI_SUCCESS
		       ? calloc(1, sizeof *flow + (size_t) (out->number + in->number) *
							  sizeof flow->messages[0])
		       : NULL;
	if (!flow && call->error == MPI_SUCCESS) {
		call_fail(call, MPI_ERR_NO_MEM,
			  "no memory for the messages of a collective call");
		*ret = call_error(call);
	}
	if (flow && request) {
		*ret = PMPI_Grequest_start(parts_query, parts_freed, parts_cancelled, NULL,
					   request);
		if (*ret != MPI_SUCCESS) {
			free(flow);
			flow = NULL;
		}
	}
	if (!flow) {
		parts_excuse(out, hidden_of(comm), true);
		parts_excuse(in, hidden_of(comm), false);
		return true;
	}
	flow->comm = hidden_of(comm);
	flow->request = request ? *request : MPI_REQUEST_NULL;
	PMPI_Comm_rank(flow->comm, &flow->rank);
	if (!request && parts_alone(flow, out) && parts_alone(flow, in)) {
		parts_own(flow, out, in);
		parts_in_step(flow, out, in);
	} else {
		parts_post_all(flow, in, false);
		parts_post_all(flow, out, true);
		parts_own(flow, out, in);
	}
	if (request) {
		call->flow = flow;
		return true;
	}
	parts_ended(flow, true);
	*ret = parts_close(flow, &why);
	if (*ret != MPI_SUCCESS)
		*ret = call_failed(call, *ret, why);
	return true;
}

bool parts_ended(struct parts_flow *flow, bool wait)
{
	int done = 1;

	while (flow->ended < flow->count && done) {
		MPI_Request *message = &flow->messages[flow->ended];
		const bool failed =
			call_check(&flow->call,
				   wait ? PMPI_Wait(message, MPI_STATUS_IGNORE)
					: PMPI_Test(message, &done, MPI_STATUS_IGNORE));

		done = done || failed;
		flow->ended += done;
	}
	if (flow->ended == flow->count && flow->request != MPI_REQUEST_NULL) {
		call_check(&flow->call, PMPI_Grequest_complete(flow->request));
		flow->request = MPI_REQUEST_NULL;
	}
	return flow->ended == flow->count;
}

int parts_close(struct parts_flow *flow, const char **why)
{
	const int error = flow->call.error;

	*why = flow->call.why;
	free(flow);
	return error;
}
