/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Puts, gets and signals between the ranks of a communicator, in contexts. gin_api.c has NCCL's interfaces to them.
 *
 * A signal is strong: who sees it sees all that its rank put to that rank before, in that context. So the addition to its
 * word begins when all of that has been delivered. A weak signal waits for its own put alone.
 *
 * Functions return an enum nccl_result.
 */
#ifndef P2P_NCCL_GIN_H
#define P2P_NCCL_GIN_H

#include "fabric.h"

struct gin_coll;
struct gin_ctx;
struct gin_mr;
struct gin_req;

/** struct gin_place - a part of a region, @off bytes from its beginning */
struct gin_place {
	const struct gin_mr *mr;
	uint64_t off;
};

/** struct gin_signal - what is added to a word of @place, or nothing if there is no region */
struct gin_signal {
	struct gin_place place;
	uint64_t value;
	bool strong;
};

/** gin_listen() - opens what gin_connect() connects, and says in @handle how it is reached */
int gin_listen(void *handle, void **listens);
int gin_listen_close(void *listens);

/** gin_connect() - connects all ranks, once. The communicator has the endpoint that gin_listen() has opened. */
int gin_connect(void *handles[], int nranks, int rank, void *listens, struct gin_coll **coll);
int gin_coll_close(struct gin_coll *coll);

/** gin_ctx_open() - @count contexts, with an order of its own in each. @coll closes them, too */
int gin_ctx_open(struct gin_coll *coll, int count, struct gin_ctx **ctx);
void gin_ctx_close(struct gin_ctx *ctx);

/** gin_ctx_coll() - the communicator of contexts */
struct gin_coll *gin_ctx_coll(const struct gin_ctx *ctx);

/** gin_mr_open() - registers memory. All ranks have to call it, in the same order, and hear of each other's. */
int gin_mr_open(struct gin_coll *coll, void *data, size_t size, int type, struct gin_mr **mr);
/** gin_mr_close() - NCCL aborts so amid requests, while its thread goes on: what has not begun yet is cancelled. */
int gin_mr_close(struct gin_mr *mr);

/** gin_put() - writes @size bytes to @rank, then signals. Both places are regions of all ranks. */
int gin_put(struct gin_ctx *ctx, int context, struct gin_place from, size_t size,
	    struct gin_place to, uint32_t rank, const struct gin_signal *signal,
	    struct gin_req **req);

/** gin_get() - reads @size bytes from @rank */
int gin_get(struct gin_ctx *ctx, int context, struct gin_place from, size_t size,
	    struct gin_place to, uint32_t rank, struct gin_req **req);

/** gin_flush() - ends when all that was begun with @rank before has ended */
int gin_flush(struct gin_ctx *ctx, int context, uint32_t rank, struct gin_req **req);

/**
 * gin_test() - whether a request has @done: it is gone then. One that has failed never is done, as NCCL 2.28 takes what is
 * done for delivered, whatever this returns. All that begins later is refused, which NCCL 2.28 does look at.
 */
int gin_test(struct gin_req *req, int *done);

/** gin_progress() - moves everything of @coll on */
int gin_progress(struct gin_coll *coll);

/** gin_failed() - has anything failed? */
bool gin_failed(const struct gin_coll *coll);

#endif /* P2P_NCCL_GIN_H */
