/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Puts, gets and signals. See gin.h. */
#include "gin_coll.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define GIN_MAGIC 0x70327048u

/* Requests that have their memory together, as the values of signals may want a region */
#define GIN_BATCH 256

/* What a handle has */
struct gin_handle {
	uint32_t magic;
	struct fabric_name name;
	uint16_t alive;
};

_Static_assert(sizeof(struct gin_handle) <= NCCL_HANDLE_MAX, "a handle is too long");

/* Signals under way in a lane. Behind them, those for the same word become one. */
#define GIN_SIGNALS 4

/* A rank that has been waited for so long is asked whether it lives, again and again [ms] */
#define GIN_LATE 500

struct gin_req;

/**
 * struct gin_req - a request.
 * @lane:	what it has its order in
 * @near, @far:	where the bytes are here, and at @rank
 * @moves:	bytes are to be moved, and have not been yet
 * @value:	of its signal, which is to be added to the word at @word, if it @signals
 * @strong:	after all bytes that are before it in @lane
 * @number:	in the order in which they were asked for: its own, or the least of @added
 * @begun:	its signal is under way
 * @lost:	a region of it was closed before all had ended. What has not begun yet does not begin.
 * @added:	requests whose signals this one's has taken along
 * @reported:	it has ended
 * @looked:	the turn of its port when it was tested last
 * @since:	when it was asked for [ms]
 */
struct gin_req {
	struct fabric_op op;
	struct gin_coll *coll;
	struct gin_lane *lane;
	uint32_t rank;
	bool reads;
	bool moves;
	bool signals;
	bool strong;
	bool begun;
	bool lost;
	bool reported;
	unsigned int number;
	unsigned int looked;
	uint64_t since;
	int err;
	struct gin_place near;
	struct gin_place far;
	size_t size;
	struct gin_place word;
	uint64_t value;
	void *value_desc;
	TAILQ_ENTRY(gin_req) entry;
	STAILQ_HEAD(, gin_req) added;
	STAILQ_ENTRY(gin_req) free;
};

/**
 * struct gin_lane - what is under way with a rank in a context.
 * @reqs:	in their order, those whose bytes move, or that wait for others' bytes
 * @signals:	signals that are under way, and behind them those that wait until fewer are
 * @begun:	how many are under way
 * @asked:	how many requests there were
 */
struct gin_lane {
	TAILQ_HEAD(gin_reqs, gin_req) reqs;
	struct gin_reqs signals;
	unsigned int begun;
	unsigned int asked;
};

struct gin_batch {
	struct fabric_mr mr;
	SLIST_ENTRY(gin_batch) entry;
	struct gin_req reqs[GIN_BATCH];
};

/** struct gin_ctx - contexts: @lanes of each, one for each rank */
struct gin_ctx {
	struct gin_coll *coll;
	int count;
	LIST_ENTRY(gin_ctx) entry;
	struct gin_lane lanes[];
};

/* ---- connecting ---- */

int gin_listen(void *handle, void **listens)
{
	struct gin_handle said = {.magic = GIN_MAGIC};
	struct gin_listener *made = calloc(1, sizeof *made);
	int ret = made ? fabric_port_open(&made->port) : -FI_ENOMEM;

	if (!ret) {
		ret = fabric_port_name(&made->port, &said.name);
		if (ret)
			fabric_port_close(&made->port);
	}
	if (ret) {
		free(made);
		return fabric_failed(ret, "opening an endpoint for puts");
	}
	made->users = 1;
	made->alive = alive_open(&said.name, &said.alive);
	memcpy(handle, &said, sizeof said);
	*listens = made;
	return NCCL_SUCCESS;
}

int gin_listen_close(void *listens)
{
	struct gin_listener *listener = listens;

	if (--listener->users)
		return NCCL_SUCCESS;
	if (listener->alive >= 0)
		alive_close(listener->alive);
	fabric_port_close(&listener->port);
	free(listener);
	return NCCL_SUCCESS;
}

static int gin_peers_insert(struct gin_coll *coll, void *handles[])
{
	struct gin_handle said;
	int ret;

	for (uint32_t i = 0; i < coll->nranks; i++) {
		memcpy(&said, handles[i], sizeof said);
		coll->peers[i].name = said.name;
		coll->peers[i].port = said.alive;
		if (said.magic != GIN_MAGIC) {
			fabric_warn(
				"the handle of rank %u is not of this plugin. Load it on all "
				"ranks",
				i);
			return NCCL_INVALID_USAGE;
		}
		ret = fabric_port_insert(coll->port, &said.name, &coll->peers[i].addr);
		if (ret)
			return fabric_failed(ret, "a peer's name");
	}
	return NCCL_SUCCESS;
}

static int gin_said_open(struct gin_coll *coll)
{
	const size_t size = coll->nranks * sizeof *coll->keys;
	int ret = -FI_ENOMEM;

	coll->keys = calloc(1, size);
	coll->said = calloc((size_t) coll->nranks * 2, sizeof *coll->said);
	if (coll->keys && coll->said)
		ret = fabric_mr_local(coll->port, coll->keys, size, &coll->keys_mr);
	return fabric_failed(ret, "registering memory");
}

int gin_connect(void *handles[], int nranks, int rank, void *listens, struct gin_coll **made)
{
	struct gin_listener *listener = listens;
	struct gin_coll *coll;
	int ret;

	/* two communicators of one endpoint would take each other's keys */
	if (nranks < 1 || rank < 0 || rank >= nranks || listener->connected)
		return NCCL_INVALID_ARGUMENT;
	coll = calloc(1, sizeof *coll + (size_t) nranks * sizeof coll->peers[0]);
	if (!coll)
		return NCCL_SYSTEM_ERROR;
	coll->listener = listener;
	coll->port = &listener->port;
	coll->nranks = (uint32_t) nranks;
	coll->rank = (uint32_t) rank;
	LIST_INIT(&coll->ctxs);
	LIST_INIT(&coll->mrs);
	SLIST_INIT(&coll->batches);
	STAILQ_INIT(&coll->free);
	listener->users++;
	listener->connected = true;
	for (uint32_t i = 0; i < coll->nranks; i++)
		coll->peers[i].asks = -1;
	ret = gin_said_open(coll);
	if (!ret)
		ret = gin_peers_insert(coll, handles);
	if (ret)
		gin_coll_close(coll);
	else
		*made = coll;
	return ret;
}

/* ---- ranks that end ---- */

uint64_t gin_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/*
 * Nothing ends the receive of a message whose sender has died, nor a put to a rank that died before libfabric's first contact
 * with it.
 */
bool gin_peer_died(struct gin_coll *coll, uint32_t rank, uint64_t since)
{
	struct gin_peer *peer = &coll->peers[rank];
	const uint64_t now = gin_ms();

	if (!peer->dead && now - since >= GIN_LATE && now - peer->asked >= GIN_LATE) {
		peer->asked = now;
		peer->dead = alive_ended(&peer->name, peer->port, &peer->asks);
	}
	return peer->dead;
}

/* ---- requests ---- */

/* More of them, with their memory registered where the provider wants that for a signal's value */
static int gin_batch_open(struct gin_coll *coll)
{
	struct gin_batch *batch = calloc(1, sizeof *batch);
	int ret = batch ? fabric_mr_local(coll->port, batch, sizeof *batch, &batch->mr)
			: -FI_ENOMEM;

	if (ret) {
		free(batch);
		return ret;
	}
	SLIST_INSERT_HEAD(&coll->batches, batch, entry);
	for (size_t i = 0; i < GIN_BATCH; i++) {
		batch->reqs[i].value_desc = batch->mr.desc;
		STAILQ_INSERT_TAIL(&coll->free, &batch->reqs[i], free);
	}
	return 0;
}

/* A request as @asked for, in its order; or NULL [locked] */
static struct gin_req *gin_req_new(struct gin_ctx *ctx, int context,
				   const struct gin_req *asked)
{
	struct gin_coll *coll = ctx->coll;
	struct gin_req *req;
	void *desc;

	if (STAILQ_EMPTY(&coll->free) && gin_batch_open(coll))
		return NULL;
	req = STAILQ_FIRST(&coll->free);
	STAILQ_REMOVE_HEAD(&coll->free, free);
	desc = req->value_desc;
	*req = *asked;
	req->coll = coll;
	req->lane = &ctx->lanes[(uint32_t) context * coll->nranks + asked->rank];
	req->value_desc = desc;
	req->number = req->lane->asked++;
	req->looked = coll->port->turns;
	req->since = gin_ms();
	TAILQ_INSERT_TAIL(&req->lane->reqs, req, entry);
	return req;
}

static void gin_req_end(struct gin_req *req)
{
	req->reported = true;
	if (fabric_failed(req->err, "a put, get or signal"))
		__atomic_store_n(&req->coll->failed, true, __ATOMIC_RELAXED);
}

/* libfabric may have no room for a rank that has ended, for ever. Then the request would hold up those to other ranks. */
static bool gin_req_hopeless(const struct gin_req *req)
{
	return req->lost || req->coll->peers[req->rank].dead;
}

/* Adds to the word */
static ssize_t gin_signal_begin(struct fabric_op *op)
{
	struct gin_req *req = (struct gin_req *) op;
	const struct gin_key *key = &req->word.mr->keys[req->rank];
	const struct fi_ioc ioc = {&req->value, 1};
	const struct fi_rma_ioc far = {key->base + req->word.off, 1, key->key};
	const struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.desc = &req->value_desc,
		.iov_count = 1,
		.addr = req->coll->peers[req->rank].addr,
		.rma_iov = &far,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = &op->context,
	};

	if (gin_req_hopeless(req))
		return -FI_ECANCELED;
	return fi_atomicmsg(req->coll->port->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION);
}

static void gin_lane_move(struct gin_lane *lane);

static void gin_signal_done(struct fabric_op *op)
{
	struct gin_req *req = (struct gin_req *) op, *added;
	struct gin_lane *lane = req->lane;

	STAILQ_FOREACH(added, &req->added, free) {
		added->err = op->err;
		gin_req_end(added);
	}
	req->err = op->err;
	TAILQ_REMOVE(&lane->signals, req, entry);
	gin_req_end(req);
	lane->begun--;
	gin_lane_move(lane);
}

/* Was @req asked for before @other? */
static bool gin_req_before(const struct gin_req *req, const struct gin_req *other)
{
	return (int) (req->number - other->number) < 0;
}

/* Begins the first signal that waits, with all that wait for its word. False: none waits, or enough are under way */
static bool gin_lane_signal(struct gin_lane *lane)
{
	struct gin_req *first, *at, *next;

	for (first = TAILQ_FIRST(&lane->signals); first && first->begun;)
		first = TAILQ_NEXT(first, entry);
	if (!first || lane->begun == GIN_SIGNALS)
		return false;
	STAILQ_INIT(&first->added);
	for (at = TAILQ_NEXT(first, entry); at; at = next) {
		next = TAILQ_NEXT(at, entry);
		if (at->word.mr != first->word.mr || at->word.off != first->word.off)
			continue;
		first->value += at->value;
		if (gin_req_before(at, first))
			first->number = at->number;
		TAILQ_REMOVE(&lane->signals, at, entry);
		STAILQ_INSERT_TAIL(&first->added, at, free);
	}
	lane->begun++;
	first->begun = true;
	first->op.begin = gin_signal_begin;
	first->op.done = gin_signal_done;
	fabric_op_post(first->coll->port, &first->op);
	return true;
}

/* A request whose bytes have been moved, and all that it tells of, leaves its order: it ends, or its signal is next. */
static void gin_req_leave(struct gin_req *req)
{
	TAILQ_REMOVE(&req->lane->reqs, req, entry);
	/* a request before it may have failed */
	if (req->strong && !req->err && gin_failed(req->coll))
		req->err = FI_ECANCELED;
	if (!req->signals || req->err)
		gin_req_end(req);
	else
		TAILQ_INSERT_TAIL(&req->lane->signals, req, entry);
}

/* Are there signals that were asked for before @req? */
static bool gin_signals_before(const struct gin_req *req)
{
	const struct gin_req *at = TAILQ_FIRST(&req->lane->signals);

	while (at && !gin_req_before(at, req))
		at = TAILQ_NEXT(at, entry);
	return at;
}

/* Requests leave that waited for others: a flush for all that is before it, strong signals for bytes alone. */
static void gin_lane_move(struct gin_lane *lane)
{
	struct gin_req *first;

	while ((first = TAILQ_FIRST(&lane->reqs)) && !first->moves &&
	       (first->signals || !gin_signals_before(first)))
		gin_req_leave(first);
	while (gin_lane_signal(lane))
		;
}

/* No bytes are left to move. */
static void gin_req_moved(struct gin_req *req)
{
	struct gin_lane *lane = req->lane;

	req->moves = false;
	if (!req->strong)
		gin_req_leave(req);
	gin_lane_move(lane);
}

/* Writes, or reads */
static ssize_t gin_bytes_begin(struct fabric_op *op)
{
	struct gin_req *req = (struct gin_req *) op;
	const struct gin_key *key = &req->far.mr->keys[req->rank];
	const struct fabric_mr *near = &req->near.mr->mr;
	void *desc = near->desc;
	const struct iovec iov = {(uint8_t *) near->data + req->near.off, req->size};
	const struct fi_rma_iov far = {key->base + req->far.off, req->size, key->key};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = req->coll->peers[req->rank].addr,
		.rma_iov = &far,
		.rma_iov_count = 1,
		.context = &op->context,
	};
	struct fid_ep *ep = req->coll->port->ep;

	if (gin_req_hopeless(req))
		return -FI_ECANCELED;
	return req->reads ? fi_readmsg(ep, &msg, FI_COMPLETION)
			  : fi_writemsg(ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION);
}

static void gin_bytes_done(struct fabric_op *op)
{
	struct gin_req *req = (struct gin_req *) op;

	req->err = op->err;
	gin_req_moved(req);
}

/* Is that in the region, here or at @rank? [locked] */
static bool gin_place_fits(const struct gin_place *place, size_t size, uint32_t rank, bool far)
{
	const uint64_t has = far ? place->mr->keys[rank].size : place->mr->mr.size;

	return place->mr->open && place->off <= has && size <= has - place->off;
}

static int gin_move(struct gin_ctx *ctx, int context, const struct gin_req *asked,
		    struct gin_req **made)
{
	struct gin_coll *coll = ctx->coll;
	struct gin_req *req = NULL;
	bool fits;

	if (gin_failed(coll))
		return NCCL_SYSTEM_ERROR;
	if (context < 0 || context >= ctx->count || asked->rank >= coll->nranks)
		return NCCL_INVALID_ARGUMENT;
	gin_lock(coll);
	fits = (!asked->moves ||
		(gin_place_fits(&asked->near, asked->size, asked->rank, false) &&
		 gin_place_fits(&asked->far, asked->size, asked->rank, true))) &&
	       (!asked->signals ||
		gin_place_fits(&asked->word, sizeof asked->value, asked->rank, true));
	if (fits)
		req = gin_req_new(ctx, context, asked);
	if (req) {
		req->op.begin = gin_bytes_begin;
		req->op.done = gin_bytes_done;
		if (req->moves)
			fabric_op_post(coll->port, &req->op);
		else
			gin_req_moved(req);
	}
	gin_unlock(coll);
	*made = req;
	if (!fits)
		fabric_warn("%zu bytes with rank %u are not in their regions", asked->size,
			    asked->rank);
	return !fits ? NCCL_INVALID_ARGUMENT : req ? NCCL_SUCCESS : NCCL_SYSTEM_ERROR;
}

int gin_put(struct gin_ctx *ctx, int context, struct gin_place from, size_t size,
	    struct gin_place to, uint32_t rank, const struct gin_signal *signal,
	    struct gin_req **req)
{
	const struct gin_req asked = {
		.rank = rank,
		.moves = size > 0,
		.near = from,
		.far = to,
		.size = size,
		.signals = signal,
		.strong = signal && signal->strong,
		.word = signal ? signal->place : (struct gin_place){NULL, 0},
		.value = signal ? signal->value : 0,
	};

	return gin_move(ctx, context, &asked, req);
}

int gin_get(struct gin_ctx *ctx, int context, struct gin_place from, size_t size,
	    struct gin_place to, uint32_t rank, struct gin_req **req)
{
	const struct gin_req asked = {
		.rank = rank,
		.reads = true,
		.moves = size > 0,
		.near = to,
		.far = from,
		.size = size,
	};

	return gin_move(ctx, context, &asked, req);
}

int gin_flush(struct gin_ctx *ctx, int context, uint32_t rank, struct gin_req **req)
{
	const struct gin_req asked = {.rank = rank, .strong = true};

	return gin_move(ctx, context, &asked, req);
}

/* libfabric may go on with the request until its endpoint is closed. */
static bool gin_req_died(struct gin_req *req)
{
	struct gin_coll *coll = req->coll;

	if (req->reported || !gin_peer_died(coll, req->rank, req->since))
		return false;
	if (!gin_failed(coll))
		fabric_warn("rank %u has ended", req->rank);
	__atomic_store_n(&coll->failed, true, __ATOMIC_RELAXED);
	return true;
}

/* NCCL tests all requests before it asks for one more: one turn has to do for all of them. */
int gin_test(struct gin_req *req, int *done)
{
	struct gin_coll *coll = req->coll;
	int ret;

	gin_lock(coll);
	if (!req->reported && req->looked == coll->port->turns)
		fabric_progress(coll->port);
	req->looked = coll->port->turns;
	ret = gin_req_died(req) || (req->reported && req->err) ? NCCL_SYSTEM_ERROR
							       : NCCL_SUCCESS;
	*done = req->reported && !req->err;
	if (*done)
		STAILQ_INSERT_HEAD(&coll->free, req, free);
	gin_unlock(coll);
	return ret;
}

static void gin_list_lose(struct gin_reqs *reqs, const struct gin_mr *mr)
{
	struct gin_req *req;

	TAILQ_FOREACH(req, reqs, entry)
		if ((req->moves && (req->near.mr == mr || req->far.mr == mr)) ||
		    (req->signals && req->word.mr == mr))
			req->lost = true;
}

void gin_reqs_lose(struct gin_coll *coll, const struct gin_mr *mr)
{
	struct gin_ctx *ctx;

	LIST_FOREACH(ctx, &coll->ctxs, entry)
		for (size_t i = 0; i < (size_t) ctx->count * coll->nranks; i++) {
			gin_list_lose(&ctx->lanes[i].reqs, mr);
			gin_list_lose(&ctx->lanes[i].signals, mr);
		}
}

int gin_progress(struct gin_coll *coll)
{
	gin_lock(coll);
	fabric_progress(coll->port);
	gin_unlock(coll);
	return NCCL_SUCCESS;
}

bool gin_failed(const struct gin_coll *coll)
{
	return __atomic_load_n(&coll->failed, __ATOMIC_RELAXED);
}

/* ---- contexts ---- */

int gin_ctx_open(struct gin_coll *coll, int count, struct gin_ctx **made)
{
	const size_t lanes = (size_t) count * coll->nranks;
	struct gin_ctx *ctx =
		count > 0 ? calloc(1, sizeof *ctx + lanes * sizeof ctx->lanes[0]) : NULL;

	if (!ctx)
		return count > 0 ? NCCL_SYSTEM_ERROR : NCCL_INVALID_ARGUMENT;
	ctx->coll = coll;
	ctx->count = count;
	for (size_t i = 0; i < lanes; i++) {
		TAILQ_INIT(&ctx->lanes[i].reqs);
		TAILQ_INIT(&ctx->lanes[i].signals);
	}
	gin_lock(coll);
	LIST_INSERT_HEAD(&coll->ctxs, ctx, entry);
	gin_unlock(coll);
	*made = ctx;
	return NCCL_SUCCESS;
}

/* Lanes with requests under way stay until the communicator is closed. */
void gin_ctx_close(struct gin_ctx *ctx)
{
	struct gin_coll *coll = ctx->coll;
	const size_t lanes = (size_t) ctx->count * coll->nranks;
	size_t empty = 0;

	gin_lock(coll);
	while (empty < lanes && TAILQ_EMPTY(&ctx->lanes[empty].reqs) &&
	       TAILQ_EMPTY(&ctx->lanes[empty].signals))
		empty++;
	if (empty == lanes)
		LIST_REMOVE(ctx, entry);
	gin_unlock(coll);
	if (empty == lanes)
		free(ctx);
}

struct gin_coll *gin_ctx_coll(const struct gin_ctx *ctx)
{
	return ctx->coll;
}

int gin_coll_close(struct gin_coll *coll)
{
	struct gin_batch *batch;
	struct gin_ctx *ctx;
	struct gin_mr *mr;

	while ((ctx = LIST_FIRST(&coll->ctxs))) {
		LIST_REMOVE(ctx, entry);
		free(ctx);
	}
	/* regions may be the endpoint's, which may use requests until it is closed */
	LIST_FOREACH(mr, &coll->mrs, entry)
		fabric_mr_close(&mr->mr);
	fabric_mr_close(&coll->keys_mr);
	SLIST_FOREACH(batch, &coll->batches, entry)
	{
		fabric_mr_close(&batch->mr);
	}
	gin_listen_close(coll->listener);
	for (uint32_t i = 0; i < coll->nranks; i++)
		if (coll->peers[i].asks >= 0)
			close(coll->peers[i].asks);
	while ((batch = SLIST_FIRST(&coll->batches))) {
		SLIST_REMOVE_HEAD(&coll->batches, entry);
		free(batch);
	}
	while ((mr = LIST_FIRST(&coll->mrs))) {
		LIST_REMOVE(mr, entry);
		free(mr);
	}
	free(coll->keys);
	free(coll->said);
	free(coll);
	return NCCL_SUCCESS;
}
