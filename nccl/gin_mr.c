/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Regions. All ranks register them together, and tell each other how each one's part is reached:
 *
 *	rank                                                             each other rank
 *	                     --- message(region, key, base) ----------->
 *	                     <------------ message(region, key, base) ---
 *	if that is late      --- connection --------------------------->
 *	gives it up          <--- refused, if the process has ended -----
 */
#include "gin_coll.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

/* ---- keys ---- */

static ssize_t gin_said_begin(struct fabric_op *op)
{
	struct gin_said *said = (struct gin_said *) op;
	const fi_addr_t peer = said->coll->peers[said->rank].addr;
	struct fid_ep *ep = said->coll->port->ep;

	if (said->coll->peers[said->rank].dead)
		return -FI_ECONNRESET;
	return said->sends
		       ? fi_tsend(ep, said->key, sizeof *said->key, said->coll->keys_mr.desc,
				  peer, said->tag, &op->context)
		       : fi_trecv(ep, said->key, sizeof *said->key, said->coll->keys_mr.desc,
				  peer, said->tag, 0, &op->context);
}

static void gin_said_done(struct fabric_op *op)
{
	struct gin_said *said = (struct gin_said *) op;

	if (op->err)
		said->key->err = -op->err;
	said->ended = true;
}

/* How many messages are awaited; those of and to dead ranks are cancelled */
static unsigned int gin_said_left(struct gin_coll *coll)
{
	unsigned int left = 0;

	for (uint32_t i = 0; i < 2 * coll->nranks; i++) {
		struct gin_said *said = &coll->said[i];

		if (said->ended)
			continue;
		left++;
		if (gin_peer_died(coll, said->rank, coll->asks))
			fabric_op_cancel(coll->port, &said->op);
	}
	return left;
}

/* Tells all other ranks of this one's key, and hears theirs */
static void gin_keys_exchange(struct gin_coll *coll)
{
	const uint64_t tag = (uint64_t) coll->regions++ << 32;

	coll->asks = gin_ms();
	gin_lock(coll);
	for (uint32_t i = 0; i < 2 * coll->nranks; i++) {
		const uint32_t rank = i % coll->nranks;
		const bool sends = i >= coll->nranks;

		coll->said[i] = (struct gin_said){
			.op = {.begin = gin_said_begin, .done = gin_said_done},
			.coll = coll,
			.rank = rank,
			.sends = sends,
			.ended = rank == coll->rank,
			.tag = tag | (sends ? coll->rank : rank),
			.key = &coll->keys[sends ? coll->rank : rank],
		};
		if (rank != coll->rank)
			fabric_op_post(coll->port, &coll->said[i].op);
	}
	fabric_progress(coll->port);
	while (gin_said_left(coll)) {
		gin_unlock(coll);
		sched_yield();
		gin_lock(coll);
		fabric_progress(coll->port);
	}
	gin_unlock(coll);
}

/* ---- regions ---- */

/* One that was closed, or a new one */
static struct gin_mr *gin_mr_new(struct gin_coll *coll)
{
	struct gin_mr *mr;

	gin_lock(coll);
	LIST_FOREACH(mr, &coll->mrs, entry)
		if (!mr->open)
			break;
	if (!mr && (mr = calloc(1, sizeof *mr + coll->nranks * sizeof mr->keys[0]))) {
		mr->coll = coll;
		LIST_INSERT_HEAD(&coll->mrs, mr, entry);
	}
	gin_unlock(coll);
	return mr;
}

int gin_mr_open(struct gin_coll *coll, void *data, size_t size, int type, struct gin_mr **made)
{
	struct gin_mr *mr = gin_mr_new(coll);
	struct gin_key *own = &coll->keys[coll->rank];
	int ret = 0;

	/* the others wait for what is said of it, also if it fails here */
	*own = (struct gin_key){.size = size, .err = -FI_ENOMEM};
	if (mr) {
		own->err = fabric_mr_open(data, size, type, &mr->mr);
		gin_lock(coll);
		if (!own->err)
			own->err = fabric_mr_bind(coll->port, &mr->mr);
		gin_unlock(coll);
		own->key = mr->mr.key;
		own->base = mr->mr.base;
	}
	gin_keys_exchange(coll);
	for (uint32_t i = 0; !ret && i < coll->nranks; i++)
		ret = coll->keys[i].err;
	if (ret) {
		if (mr)
			fabric_mr_close(&mr->mr);
		return fabric_failed(ret, "registering memory on all ranks");
	}
	gin_lock(coll);
	memcpy(mr->keys, coll->keys, coll->nranks * sizeof mr->keys[0]);
	mr->open = true;
	gin_unlock(coll);
	*made = mr;
	return NCCL_SUCCESS;
}

int gin_mr_close(struct gin_mr *mr)
{
	struct gin_coll *coll = mr->coll;
	struct fabric_mr closing;

	gin_lock(coll);
	closing = mr->mr;
	mr->mr.mr = NULL;
	mr->open = false;
	gin_reqs_lose(coll, mr);
	gin_unlock(coll);
	fabric_mr_close(&closing);
	return NCCL_SUCCESS;
}
