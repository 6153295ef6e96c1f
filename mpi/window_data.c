/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The origin's side of windows on GPU memory: operations on data, and what waits for their replies. The buffers here are
 * in host memory: the wrappers have put mirrors in the place of those that were not (call.h).
 */
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "window.h"

/* Bytes of requests and replies that are on their way, at most, so that memory for them has a bound */
#define WINDOW_FLYING (8u << 20)

/* Where in a buffer the next byte is */
struct window_walk {
	struct layout *layout;
	size_t count, element, run, done;
};

/**
 * struct window_pending - a request that has no reply yet.
 * @number:	which one it is: there is no other one of that number, at any time
 * @bytes:	that it and its reply take
 * @fetched:	that the reply has
 * @result:	where those go: into the runs that @walk tells
 */
struct window_pending {
	TAILQ_ENTRY(window_pending) entry;
	uint64_t number;
	size_t bytes, fetched;
	char *result;
	struct window_walk walk;
};

/* An operation, as MPI's calls have it */
struct window_data {
	enum window_kind kind;
	bool fetch;
	const void *origin;
	MPI_Count origin_count;
	MPI_Datatype origin_type;
	void *result;
	MPI_Count result_count;
	MPI_Datatype result_type;
	int target;
	MPI_Aint disp;
	MPI_Count target_count;
	MPI_Datatype target_type;
	MPI_Op op;
};

/* The same, understood: @from is where its data is, @to the window's memory, @into where what is fetched goes */
struct window_plan {
	struct window_walk from, to, into;
	MPI_Aint base;
	size_t bytes;
	struct window_head head;
};

static size_t window_flying;

/* ---- walks ---- */

/* The next neighbours, @max at most. The walk has not ended. */
static size_t walk_next(struct window_walk *walk, size_t max, MPI_Aint *at)
{
	const struct layout *layout = walk->layout;
	const struct layout_run *run = &layout->runs[walk->run];
	const bool dense = layout_dense(layout);
	const size_t len = (dense ? walk->count * run->len : run->len) - walk->done,
		     taken = len < max ? len : max;

	*at = (MPI_Aint) walk->element * layout->extent + run->at + (MPI_Aint) walk->done;
	walk->done += taken;
	if (taken < len || dense)
		return taken;
	walk->done = 0;
	if (++walk->run == layout->count) {
		walk->run = 0;
		walk->element++;
	}
	return taken;
}

/* Copies @len bytes between a buffer and @packed. */
static void walk_copy(struct window_walk *walk, char *buf, char *packed, size_t len, bool pack)
{
	while (len) {
		MPI_Aint at;
		const size_t part = walk_next(walk, len, &at);

		if (pack)
			memcpy(packed, buf + at, part);
		else
			memcpy(buf + at, packed, part);
		packed += part;
		len -= part;
	}
}

static size_t walk_bytes(const struct window_walk *walk)
{
	return walk->layout ? walk->count * walk->layout->size : 0;
}

/* ---- replies ---- */

static void window_end_locked(struct window_peer *peer, struct window_pending *pending,
			      enum window_error error)
{
	if (error && !peer->error)
		peer->error = error;
	TAILQ_REMOVE(&peer->pending, pending, entry);
	window_flying -= pending->bytes;
	layout_put(pending->walk.layout);
	free(pending);
	window_wake();
}

void window_lost_locked(struct window *window, const struct window_head *head, fi_addr_t to)
{
	for (int i = 0; i < window->ranks; i++) {
		struct window_peer *peer = &window->peers[i];

		if (peer->addr != to)
			continue;
		if (head->kind == WINDOW_REPLY)
			window_fatal("libfabric does not reach a rank with an answer");
		/* an unlock has no reply */
		peer->error = peer->error ? peer->error : WINDOW_LOST;
		while (!TAILQ_EMPTY(&peer->pending))
			window_end_locked(peer, TAILQ_FIRST(&peer->pending), WINDOW_LOST);
	}
}

/* @head: of a reply, of one of the window's ranks, of @len bytes in all */
static void window_answered(struct window *window, const struct window_head *head, size_t len)
{
	struct window_peer *peer = &window->peers[head->rank];
	struct window_pending *pending;
	enum window_error error = head->error;

	window_lock();
	TAILQ_FOREACH(pending, &peer->pending, entry) {
		if (pending->number == head->op)
			break;
	}
	window_unlock();
	/* nobody has asked, or not again */
	if (!pending)
		return;
	/* it has one of the errors, or all that was asked for */
	if (error >= WINDOW_ERRORS ||
	    (!error && (head->len != pending->fetched || len != sizeof *head + head->len)))
		error = WINDOW_WRONG;
	/* this thread alone ends requests, so that it is still there */
	if (!error)
		walk_copy(&pending->walk, pending->result, (char *) (head + 1), head->len,
			  false);
	window_lock();
	window_end_locked(peer, pending, error);
	window_unlock();
}

void window_arrived(const void *data, size_t len)
{
	const struct window_head *head = data;
	struct window *window;

	if (len < sizeof *head)
		return;
	window = window_get(head->window);
	/* there is no answer to others than its ranks */
	if (window && head->rank >= 0 && head->rank < window->ranks) {
		if (head->kind == WINDOW_REPLY)
			window_answered(window, head, len);
		else
			window_serve(window, head, len);
	}
	window_put();
}

/* ---- requests ---- */

/* Sends @message. @pending: with what the reply needs; NULL: there is none */
static void window_send(struct window *window, int target, struct window_pending *pending,
			struct service_message *message)
{
	static uint64_t number;
	struct window_peer *peer = &window->peers[target];
	struct window_head *head = (void *) message->data;

	head->window = peer->window;
	head->rank = window->rank;
	if (!pending)
		return service_send(message, peer->addr);
	window_lock();
	while (window_flying && window_flying + pending->bytes > WINDOW_FLYING)
		window_wait(window);
	window_flying += pending->bytes;
	head->op = pending->number = ++number;
	TAILQ_INSERT_TAIL(&peer->pending, pending, entry);
	window_unlock();
	service_send(message, peer->addr);
}

void window_ask(struct window *window, int target, enum window_kind kind, uint32_t unit)
{
	struct service_message *message = service_message(sizeof(struct window_head));
	struct window_pending *pending =
		!message || kind == WINDOW_UNLOCK ? NULL : calloc(1, sizeof *pending);

	if (!message || (!pending && kind != WINDOW_UNLOCK))
		window_fatal("no memory to tell another rank");
	*(struct window_head *) message->data =
		(struct window_head){.kind = (uint16_t) kind, .unit = unit};
	window_send(window, target, pending, message);
}

int window_flush(struct window *window, int target)
{
	static const struct {
		int error;
		const char *why;
	} errors[WINDOW_ERRORS] = {
		[WINDOW_RANGE] = {MPI_ERR_RMA_RANGE,
				  "the target has no such memory attached to the window"},
		[WINDOW_GONE] =
			{MPI_ERR_RMA_RANGE,
			 "the target's GPU memory of the window is freed, or shorter than the window"},
		[WINDOW_FAILED] = {MPI_ERR_OTHER,
				   "the target could not copy from or to its GPU memory"},
		[WINDOW_NO_MEM] = {MPI_ERR_NO_MEM, "no memory for an operation on a window"},
		[WINDOW_LOST] = {MPI_ERR_OTHER, "libfabric does not reach the target"},
		[WINDOW_WRONG] = {MPI_ERR_INTERN,
				  "the target does not understand what it was asked for"},
	};
	const int first = target == WINDOW_ALL ? 0 : target,
		  end = target == WINDOW_ALL ? window->ranks : target + 1;
	enum window_error error = WINDOW_FINE;

	window_lock();
	for (int i = first; i < end; i++) {
		struct window_peer *peer = &window->peers[i];

		while (!TAILQ_EMPTY(&peer->pending))
			window_wait(window);
		error = error ? error : peer->error;
		peer->error = WINDOW_FINE;
	}
	window_unlock();
	return error ? window_error(window, errors[error].error, errors[error].why)
		     : MPI_SUCCESS;
}

/* ---- operations ---- */

/* The runs of the next request, behind its head: returns their bytes */
static size_t window_next_runs(struct window_plan *plan, struct window_head *head)
{
	struct layout_run *runs = (void *) (head + 1), *last = NULL;
	size_t room = SERVICE_LONGEST - sizeof *head, bytes = 0;

	while (plan->bytes && room >= sizeof *runs + head->unit) {
		const size_t fits = (room - sizeof *runs) / head->unit * head->unit;
		MPI_Aint at;
		const size_t len =
			walk_next(&plan->to, plan->bytes < fits ? plan->bytes : fits, &at);

		at += plan->base;
		if (last && last->at + (MPI_Aint) last->len == at) {
			last->len += len;
		} else {
			last = &runs[head->runs++];
			*last = (struct layout_run){at, len};
			room -= sizeof *runs;
		}
		room -= len;
		bytes += len;
		plan->bytes -= len;
	}
	return bytes;
}

/* One request. False: no memory */
static bool window_request(struct window *window, const struct window_data *data,
			   struct window_plan *plan)
{
	const size_t sent = plan->from.layout ? (data->kind == WINDOW_SWAP ? 2 : 1) : 0,
		     runs = layout_dense(plan->to.layout)
				    ? 1
				    : plan->to.count * plan->to.layout->count,
		     room = sizeof plan->head + runs * sizeof(struct layout_run) +
			    (sent ? sent : 1) * plan->bytes;
	struct service_message *message =
		service_message(room < SERVICE_LONGEST ? room : SERVICE_LONGEST);
	struct window_pending *pending = calloc(1, sizeof *pending);
	struct window_head *head;
	size_t bytes;
	MPI_Aint at;

	if (!message || !pending) {
		free(message);
		free(pending);
		return false;
	}
	head = (void *) message->data;
	*head = plan->head;
	bytes = window_next_runs(plan, head);
	head->len = sent * bytes;
	message->len = sizeof *head + head->runs * sizeof(struct layout_run) + head->len;
	if (sent)
		walk_copy(&plan->from, (char *) data->origin,
			  message->data + message->len - head->len, head->len, true);
	if (data->fetch) {
		pending->fetched = bytes;
		pending->result = data->result;
		pending->walk = plan->into;
		layout_hold(plan->into.layout);
		for (size_t left = bytes; left;)
			left -= walk_next(&plan->into, left, &at);
	}
	pending->bytes = message->len + bytes;
	window_send(window, data->target, pending, message);
	return true;
}

/* All but for the calculations that are none: those of user-defined operations are not for windows */
MPI_Op window_op(unsigned int calculation)
{
	static const MPI_Op ops[] = {MPI_REPLACE, MPI_NO_OP, MPI_SUM,    MPI_PROD,  MPI_MAX,
				     MPI_MIN,     MPI_LAND,  MPI_LOR,    MPI_LXOR,  MPI_BAND,
				     MPI_BOR,     MPI_BXOR,  MPI_MAXLOC, MPI_MINLOC};

	return calculation < sizeof ops / sizeof ops[0] ? ops[calculation] : MPI_OP_NULL;
}

/* One element as it lies in memory: pairs have gaps, but their calculations take them so */
static struct layout *window_whole(MPI_Datatype type, const struct layout *like)
{
	struct layout *layout = calloc(1, sizeof *layout);

	if (!layout)
		return NULL;
	layout->refs = 1;
	layout->leaf = type;
	layout->size = (size_t) like->extent;
	layout->extent = layout->high = like->extent;
	layout->runs = malloc(sizeof *layout->runs);
	if (!layout->runs) {
		layout_put(layout);
		return NULL;
	}
	layout->runs[0] = (struct layout_run){0, layout->size};
	layout->count = layout->room = 1;
	return layout;
}

static int window_walk(struct window_walk *walk, MPI_Datatype type, MPI_Count count,
		       bool calculate, const char **why)
{
	if (count < 0) {
		*why = "the count is negative";
		return MPI_ERR_COUNT;
	}
	walk->count = (size_t) count;
	walk->layout = layout_get(type);
	if (!walk->layout) {
		*why = "this is no datatype, or there is no memory to take it apart";
		return MPI_ERR_TYPE;
	}
	if (calculate && walk->layout->leaf == type && !layout_dense(walk->layout)) {
		struct layout *whole = window_whole(type, walk->layout);

		layout_put(walk->layout);
		walk->layout = whole;
		*why = "no memory for a datatype";
		return whole ? MPI_SUCCESS : MPI_ERR_NO_MEM;
	}
	return MPI_SUCCESS;
}

/* What the calculation is, and of elements of which type */
static int window_plan_op(const struct window_data *data, struct window_plan *plan,
			  const char **why)
{
	const MPI_Datatype leaf = plan->to.layout->leaf;
	long double scratch[2][4] = {{0}};
	unsigned int calculation = 0;
	struct layout *layout;
	bool whole;

	while (window_op(calculation) != data->op && window_op(calculation) != MPI_OP_NULL)
		calculation++;
	plan->head.calculation = (uint16_t) calculation;
	plan->head.unit = 1;
	*why = "windows take predefined operations only";
	if (window_op(calculation) == MPI_OP_NULL)
		return MPI_ERR_OP;
	layout = leaf == MPI_DATATYPE_NULL ? NULL : layout_get(leaf);
	whole = layout && (layout_dense(layout) ||
			   (calculation > CALCULATE_NO_OP && leaf == data->target_type));
	/* elements are not cut in two */
	if (whole)
		plan->head.unit = (uint32_t) layout->extent;
	layout_put(layout);
	if (calculation <= CALCULATE_NO_OP)
		return MPI_SUCCESS;
	*why = "an accumulation wants a datatype of one predefined type; of pairs with gaps, that type itself";
	if (!whole)
		return MPI_ERR_TYPE;
	plan->head.type = calculate_type(leaf);
	*why = "accumulations take the predefined types of C's and Fortran's numbers";
	if (plan->head.type < 0)
		return MPI_ERR_TYPE;
	*why = NULL;
	/* whether it is defined for that type MPI says, and by its own error handler */
	return PMPI_Reduce_local(scratch[0], scratch[1], 1, leaf, data->op);
}

/* Where in the target's memory it is; dynamic windows have addresses, which the owner knows. */
static int window_plan_place(const struct window *window, const struct window_data *data,
			     struct window_plan *plan, const char **why)
{
	const struct window_peer *peer = &window->peers[data->target];
	const struct layout *layout = plan->to.layout;
	const MPI_Aint count = (MPI_Aint) plan->to.count;
	MPI_Aint way, low, high;

	if (window->flavor == MPI_WIN_FLAVOR_DYNAMIC) {
		plan->base = data->disp;
		return MPI_SUCCESS;
	}
	*why = "the displacement is negative";
	if (data->disp < 0)
		return MPI_ERR_DISP;
	*why = "the operation leaves the target's window";
	if (__builtin_mul_overflow(data->disp, (MPI_Aint) peer->unit, &plan->base) ||
	    __builtin_mul_overflow(count - 1, layout->extent, &way) ||
	    __builtin_add_overflow(plan->base, layout->low + (way < 0 ? way : 0), &low) ||
	    __builtin_add_overflow(plan->base, layout->high + (way > 0 ? way : 0), &high) ||
	    low < 0 || high > peer->size)
		return MPI_ERR_RMA_RANGE;
	return MPI_SUCCESS;
}

static int window_plan(const struct window *window, const struct window_data *data,
		       struct window_plan *plan, const char **why)
{
	const bool sends = data->op != MPI_NO_OP, calculates = sends && data->op != MPI_REPLACE;
	size_t room;
	int ret;

	*why = "the target is no rank of the window";
	if (data->target < 0 || data->target >= window->ranks)
		return MPI_ERR_RANK;
	plan->head.kind = (uint16_t) data->kind;
	plan->head.fetch = data->fetch;
	ret = window_walk(&plan->to, data->target_type, data->target_count, calculates, why);
	if (ret == MPI_SUCCESS && sends)
		ret = window_walk(&plan->from, data->origin_type, data->origin_count,
				  calculates, why);
	if (ret == MPI_SUCCESS && data->fetch)
		ret = window_walk(&plan->into, data->result_type, data->result_count,
				  calculates, why);
	if (ret != MPI_SUCCESS)
		return ret;
	plan->bytes = sends ? walk_bytes(&plan->from) : walk_bytes(&plan->to);
	if (plan->bytes == 0)
		return MPI_SUCCESS;
	room = walk_bytes(&plan->to);
	if (data->fetch && walk_bytes(&plan->into) < room)
		room = walk_bytes(&plan->into);
	*why = "the data does not fit where it goes";
	if (plan->bytes > room)
		return MPI_ERR_TRUNCATE;
	/* behind what is expected comes what replaces it */
	if (data->kind == WINDOW_SWAP)
		plan->from.count = 2;
	ret = window_plan_op(data, plan, why);
	return ret == MPI_SUCCESS ? window_plan_place(window, data, plan, why) : ret;
}

static int window_do(MPI_Win win, const struct window_data *data)
{
	struct window *window = window_find(win);
	struct window_plan plan = {.bytes = 0};
	const char *why = NULL;
	int ret;

	if (data->target == MPI_PROC_NULL)
		return MPI_SUCCESS;
	ret = window_plan(window, data, &plan, &why);
	while (ret == MPI_SUCCESS && plan.bytes) {
		if (!window_request(window, data, &plan)) {
			ret = MPI_ERR_NO_MEM;
			why = "no memory for an operation on a window";
		}
	}
	layout_put(plan.from.layout);
	layout_put(plan.to.layout);
	layout_put(plan.into.layout);
	return ret == MPI_SUCCESS || !why ? ret : window_error(window, ret, why);
}

/* ---- calls ---- */

int window_Put(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
	       MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type, MPI_Win win)
{
	return window_Accumulate(origin, origin_count, origin_type, target, disp, target_count,
				 target_type, MPI_REPLACE, win);
}

int window_Get(void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
	       MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type, MPI_Win win)
{
	return window_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, origin, origin_count,
				     origin_type, target, disp, target_count, target_type,
				     MPI_NO_OP, win);
}

int window_Accumulate(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
		      int target, MPI_Aint disp, MPI_Count target_count,
		      MPI_Datatype target_type, MPI_Op op, MPI_Win win)
{
	return window_Get_accumulate(origin, origin_count, origin_type, NULL, 0,
				     MPI_DATATYPE_NULL, target, disp, target_count, target_type,
				     op, win);
}

/* Without a type of the result, nothing is fetched. */
int window_Get_accumulate(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
			  void *result, MPI_Count result_count, MPI_Datatype result_type,
			  int target, MPI_Aint disp, MPI_Count target_count,
			  MPI_Datatype target_type, MPI_Op op, MPI_Win win)
{
	return window_do(win, &(struct window_data){.kind = WINDOW_DATA,
						    .fetch = result_type != MPI_DATATYPE_NULL,
						    .origin = origin,
						    .origin_count = origin_count,
						    .origin_type = origin_type,
						    .result = result,
						    .result_count = result_count,
						    .result_type = result_type,
						    .target = target,
						    .disp = disp,
						    .target_count = target_count,
						    .target_type = target_type,
						    .op = op});
}

int window_Fetch_and_op(const void *origin, void *result, MPI_Datatype type, int target,
			MPI_Aint disp, MPI_Op op, MPI_Win win)
{
	return window_Get_accumulate(origin, 1, type, result, 1, type, target, disp, 1, type,
				     op, win);
}

int window_Compare_and_swap(const void *origin, const void *compare, void *result,
			    MPI_Datatype type, int target, MPI_Aint disp, MPI_Win win)
{
	char both[64];
	int size = 0;

	if (target == MPI_PROC_NULL)
		return MPI_SUCCESS;
	if (PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 0 ||
	    2 * (size_t) size > sizeof both)
		return window_error(
			window_find(win), MPI_ERR_TYPE,
			"MPI_Compare_and_swap wants an integer, a logical or a byte");
	memcpy(both, compare, (size_t) size);
	memcpy(both + size, origin, (size_t) size);
	return window_do(win, &(struct window_data){.kind = WINDOW_SWAP,
						    .fetch = true,
						    .origin = both,
						    .origin_count = 1,
						    .origin_type = type,
						    .result = result,
						    .result_count = 1,
						    .result_type = type,
						    .target = target,
						    .disp = disp,
						    .target_count = 1,
						    .target_type = type,
						    .op = MPI_REPLACE});
}

/* ---- calls with requests ---- */

static int window_query(void *state, MPI_Status *status)
{
	(void) state;
	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	status->MPI_SOURCE = MPI_UNDEFINED;
	status->MPI_TAG = MPI_UNDEFINED;
	return MPI_SUCCESS;
}

static int window_free_state(void *state)
{
	(void) state;
	return MPI_SUCCESS;
}

static int window_cancel(void *state, int complete)
{
	(void) state;
	(void) complete;
	return MPI_SUCCESS;
}

/* The operation that returned @ret ends now. So a request has ended when it begins, and MPI takes it like any other. */
static int window_request_done(int ret, int target, MPI_Win win, MPI_Request *request)
{
	*request = MPI_REQUEST_NULL;
	if (ret == MPI_SUCCESS && target != MPI_PROC_NULL)
		ret = window_flush(window_find(win), target);
	if (ret == MPI_SUCCESS)
		ret = PMPI_Grequest_start(window_query, window_free_state, window_cancel, NULL,
					  request);
	return ret == MPI_SUCCESS ? PMPI_Grequest_complete(*request) : ret;
}

int window_Rput(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
		int target, MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type,
		MPI_Win win, MPI_Request *request)
{
	return window_request_done(window_Put(origin, origin_count, origin_type, target, disp,
					      target_count, target_type, win),
				   target, win, request);
}

int window_Rget(void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
		MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type, MPI_Win win,
		MPI_Request *request)
{
	return window_request_done(window_Get(origin, origin_count, origin_type, target, disp,
					      target_count, target_type, win),
				   target, win, request);
}

int window_Raccumulate(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
		       int target, MPI_Aint disp, MPI_Count target_count,
		       MPI_Datatype target_type, MPI_Op op, MPI_Win win, MPI_Request *request)
{
	return window_request_done(window_Accumulate(origin, origin_count, origin_type, target,
						     disp, target_count, target_type, op, win),
				   target, win, request);
}

int window_Rget_accumulate(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
			   void *result, MPI_Count result_count, MPI_Datatype result_type,
			   int target, MPI_Aint disp, MPI_Count target_count,
			   MPI_Datatype target_type, MPI_Op op, MPI_Win win,
			   MPI_Request *request)
{
	return window_request_done(window_Get_accumulate(origin, origin_count, origin_type,
							 result, result_count, result_type,
							 target, disp, target_count,
							 target_type, op, win),
				   target, win, request);
}
