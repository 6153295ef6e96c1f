/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages of exchanges, and the agreement before. See exchange.h. */
#include "exchange.h"

#include <string.h>

#include "hidden.h"
#include "lane.h"

/* What a rank says before a call */
#define EXCHANGE_GPU 1    /* it has data in a GPU's memory */
#define EXCHANGE_CANNOT 2 /* it does not take part */
#define EXCHANGE_SMALL 4  /* it has little memory */

#define EXCHANGE_TAG 0

bool exchange_open(struct exchange *exchange, unsigned int number, MPI_Comm comm)
{
	const MPI_Comm hidden = hidden_of(comm);

	if (hidden == MPI_COMM_NULL || !call_enter())
		return false;
	*exchange = (struct exchange){.comm = hidden};
	exchange->call.number = number;
	exchange->call.reporter = CALL_COMM(comm);
	PMPI_Comm_rank(hidden, &exchange->rank);
	PMPI_Comm_size(hidden, &exchange->ranks);
	return true;
}

bool exchange_agreed(struct exchange *exchange)
{
	int bits = (exchange->bytes ? EXCHANGE_GPU : 0) |
		   (exchange->cannot ? EXCHANGE_CANNOT : 0) |
		   (exchange->small ? EXCHANGE_SMALL : 0);

	if (PMPI_Allreduce(MPI_IN_PLACE, &bits, 1, MPI_INT, MPI_BOR, exchange->comm) !=
		    MPI_SUCCESS ||
	    (bits & ~EXCHANGE_SMALL) != EXCHANGE_GPU) {
		call_leave();
		return false;
	}
	exchange->small = bits & EXCHANGE_SMALL;
	if (exchange->bytes)
		report_count(exchange->call.number, true, REPORT_EXCHANGED, exchange->bytes);
	return true;
}

int exchange_close(struct exchange *exchange)
{
	const int ret = call_error(&exchange->call);

	call_leave();
	return ret;
}

void exchange_copy(struct call *call, const struct exchange_area *to, char *dst,
		   const struct exchange_area *from, const char *src, size_t len)
{
	const struct exchange_area *gpu = to->gpu ? to : from;
	const char *why = NULL;
	struct lane *lane;
	int ret;

	if (dst == src || len == 0)
		return;
	if (!gpu->gpu) {
		memcpy(dst, src, len);
		return;
	}
	ret = lane_open(&gpu->mem, &lane, &why);
	/* what the program has written to @from may be under way: no message of it has settled it */
	if (ret == MPI_SUCCESS && from->gpu)
		lane_settle(lane, &from->mem);
	if (ret == MPI_SUCCESS)
		ret = lane_close(lane, lane_copy(lane, dst, (char *) src, len, true, &why),
				 &why);
	if (ret != MPI_SUCCESS)
		call_fail(call, ret, why);
}

/* ---- messages ---- */

/* As much of @piece as one message takes; *@addr: where that is */
static size_t exchange_part(const struct exchange_flow *flow,
			    const struct exchange_piece *piece, char **addr)
{
	const size_t left = piece->len > flow->at ? piece->len - flow->at : 0;

	*addr = piece->addr + flow->at;
	return left < EXCHANGE_MESSAGE ? left : EXCHANGE_MESSAGE;
}

/* The next peer: what is sent goes to the one that is as far ahead as the one that is received from is behind. */
static void exchange_post(struct exchange_flow *flow)
{
	struct exchange *exchange = flow->exchange;
	MPI_Request *requests = flow->requests[flow->begun % EXCHANGE_WINDOW];
	const int step = ++flow->begun, ranks = exchange->ranks;
	const int to = (exchange->rank + step) % ranks,
		  from = (exchange->rank + ranks - step) % ranks;
	size_t len;
	char *addr;

	requests[0] = requests[1] = MPI_REQUEST_NULL;
	len = exchange_part(flow, &flow->in[from], &addr);
	if (len && !exchange->ends)
		exchange->ends =
			call_check(&exchange->call,
				   PMPI_Irecv(addr, (int) len, MPI_BYTE, from, EXCHANGE_TAG,
					      exchange->comm, &requests[0]));
	len = exchange_part(flow, &flow->out[to], &addr);
	if (len && !exchange->ends)
		exchange->ends =
			call_check(&exchange->call,
				   PMPI_Isend(addr, (int) len, MPI_BYTE, to, EXCHANGE_TAG,
					      exchange->comm, &requests[1]));
}

static void exchange_wait(struct exchange_flow *flow)
{
	MPI_Request *requests = flow->requests[flow->ended++ % EXCHANGE_WINDOW];

	for (int i = 0; i < 2; i++)
		call_check(&flow->exchange->call, PMPI_Wait(&requests[i], MPI_STATUS_IGNORE));
}

/* Those that have messages one way only need not go in step. */
static int exchange_window(const struct exchange_flow *flow)
{
	const struct exchange *exchange = flow->exchange;
	size_t out = 0, in = 0;

	for (int i = 0; i < exchange->ranks; i++) {
		if (i == exchange->rank)
			continue;
		out = flow->out[i].len > out ? flow->out[i].len : out;
		in = flow->in[i].len > in ? flow->in[i].len : in;
	}
	return (out < in ? out : in) < EXCHANGE_ALONE ? EXCHANGE_WINDOW : 1;
}

void exchange_begin(struct exchange_flow *flow)
{
	struct exchange *exchange = flow->exchange;
	char *src, *dst;
	size_t len;

	flow->begun = flow->ended = 0;
	flow->window = exchange_window(flow);
	while (flow->begun < exchange->ranks - 1 && flow->begun < flow->window)
		exchange_post(flow);
	len = exchange_part(flow, &flow->out[exchange->rank], &src);
	exchange_part(flow, &flow->in[exchange->rank], &dst);
	exchange_copy(&exchange->call, flow->to, dst, flow->from, src, len);
}

void exchange_end(struct exchange_flow *flow)
{
	while (flow->ended < flow->begun) {
		exchange_wait(flow);
		if (flow->begun < flow->exchange->ranks - 1)
			exchange_post(flow);
	}
}

void exchange_all(struct exchange *exchange, const struct exchange_piece *out,
		  const struct exchange_area *from, const struct exchange_piece *in,
		  const struct exchange_area *to)
{
	struct exchange_flow flow = {.exchange = exchange,
				     .out = out,
				     .in = in,
				     .from = from,
				     .to = to};
	size_t longest = 0;

	for (int i = 0; i < exchange->ranks; i++) {
		longest = out[i].len > longest ? out[i].len : longest;
		longest = in[i].len > longest ? in[i].len : longest;
	}
	for (; flow.at < longest; flow.at += EXCHANGE_MESSAGE) {
		exchange_begin(&flow);
		exchange_end(&flow);
	}
}
