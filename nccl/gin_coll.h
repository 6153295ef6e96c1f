/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a communicator of gin.h has. gin.c has its requests, gin_mr.c its regions. */
#ifndef P2P_NCCL_GIN_COLL_H
#define P2P_NCCL_GIN_COLL_H

#include "alive.h"
#include "gin.h"

/** struct gin_key - how a rank's part of a region is reached; @err: it is not */
struct gin_key {
	uint64_t key;
	uint64_t base;
	uint64_t size;
	int32_t err;
};

/** struct gin_mr - a region of all ranks: @keys of each. @open: not closed yet [locked] */
struct gin_mr {
	struct fabric_mr mr;
	struct gin_coll *coll;
	bool open;
	LIST_ENTRY(gin_mr) entry;
	struct gin_key keys[];
};

/** struct gin_listener - an endpoint. NCCL and the communicator use it: @users of it, once it is @connected. @alive: see alive.h */
struct gin_listener {
	struct fabric_port port;
	int alive;
	unsigned int users;
	bool connected;
};

/** struct gin_said - what a rank says of a region: one message. @ended: it is over */
struct gin_said {
	struct fabric_op op;
	struct gin_coll *coll;
	uint32_t rank;
	bool sends;
	bool ended;
	uint64_t tag;
	struct gin_key *key;
};

/**
 * struct gin_peer - another rank.
 * @name, @port:	where it is asked whether it lives, by the socket @asks; -1: it was not asked yet
 * @asked:	when it was asked last [ms]
 * @dead:	it has ended
 */
struct gin_peer {
	fi_addr_t addr;
	struct fabric_name name;
	uint16_t port;
	int asks;
	uint64_t asked;
	bool dead;
};

/**
 * struct gin_coll - a communicator.
 * @regions:	how many were registered, by which ranks know each other's messages
 * @asks:	since when the keys of a region are waited for [ms]
 * @keys, @said:	what ranks tell each other of a region: room that is there before any fails
 * @failed:	something has failed
 * @mrs:	regions, also closed ones: when NCCL aborts, its thread may still name them [locked]
 */
struct gin_coll {
	struct gin_listener *listener;
	struct fabric_port *port;
	uint32_t nranks;
	uint32_t rank;
	uint32_t regions;
	uint64_t asks;
	struct gin_key *keys;
	struct fabric_mr keys_mr;
	struct gin_said *said;
	bool failed;
	LIST_HEAD(, gin_ctx) ctxs;
	LIST_HEAD(, gin_mr) mrs;
	SLIST_HEAD(, gin_batch) batches;
	STAILQ_HEAD(, gin_req) free;
	struct gin_peer peers[];
};

static inline void gin_lock(struct gin_coll *coll)
{
	pthread_mutex_lock(&coll->port->lock);
}

static inline void gin_unlock(struct gin_coll *coll)
{
	pthread_mutex_unlock(&coll->port->lock);
}

/** gin_reqs_lose() - what has not begun yet of requests that name @mr does not begin [locked] */
void gin_reqs_lose(struct gin_coll *coll, const struct gin_mr *mr);

/** gin_ms() - the time [ms] */
uint64_t gin_ms(void);

/** gin_peer_died() - has @rank ended, which has been waited for @since then? It is asked if that is long. [locked] */
bool gin_peer_died(struct gin_coll *coll, uint32_t rank, uint64_t since);

#endif /* P2P_NCCL_GIN_COLL_H */
