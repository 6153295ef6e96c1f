/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The state of a small world as one number, for exhaust.c. Two worlds with one number are taken for the same, so all
 * that decides what comes next has to be in it: what the application waits for, what the provider keeps, and what is in
 * the core. Pointers are not, nor are times, as time stands still.
 */
#include "core.h"
#include "exhaust.h"

#include "base/base.h"
#include "fid/domain.h"
#include "proto/proto_state.h"
#include "proto/rndv_match.h"
#include "xfer/peer.h"
#include "xfer/req.h"
#include "xfer/sendq.h"

static uint64_t digest;

static void mix(uint64_t value)
{
	digest = (digest ^ value) * 0x9e3779b97f4a7c15ULL;
	digest ^= digest >> 29;
}

static void mix_bytes(const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < len; i++)
		digest = (digest ^ at[i]) * 0x100000001b3ULL;
	mix(len);
}

/* ---- the application ---- */

static void mix_ops(void)
{
	for (size_t i = 0; i < op_count; i++) {
		for (unsigned int end = 0; end < 2; end++) {
			const struct op_end *at = &ops[i].ends[end];

			mix((uint64_t) at->posted | (uint64_t) at->done << 1 |
			    (uint64_t) at->skipped << 2 | (uint64_t) at->cancelled << 3 |
			    (uint64_t) at->looking << 4 | (uint64_t) at->found << 5 |
			    (uint64_t) at->closed << 6);
			mix((uint64_t) at->err);
			mix(at->len);
		}
	}
}

/* ---- the provider ---- */

static void mix_peer(const struct xfer_peer *peer)
{
	mix(peer->addr);
	mix(peer->to);
	mix(peer->via == &peer->ep->front);
	mix(peer->state | (uint64_t) peer->facts << 8 | peer->epoch << 40);
	mix((uint64_t) peer->lost);
	mix(peer->process);
	mix(peer->sends | (uint64_t) peer->users << 32);
	mix(peer->slots[0] | (uint64_t) peer->slots[1] << 32);
	mix(peer->spares[0] | (uint64_t) peer->spares[1] << 32);
	mix(peer->waited);
	mix(peer->repeats);
	for (unsigned int i = 0; i < XFER_PEER_TOKENS; i++) {
		mix(peer->tokens[i].token);
		mix(peer->tokens[i].lost);
		mix(peer->tokens[i].heard[0] | (uint64_t) peer->tokens[i].heard[1] << 32);
	}
	mix(peer->theirs.token);
	mix(peer->theirs.count[0] | (uint64_t) peer->theirs.count[1] << 32);
	mix(peer->life.quiet | (uint64_t) peer->life.silent << 32);
	mix(peer->life.port | (uint64_t) peer->life.gone << 32);
	mix(peer->life.answers | (uint64_t) peer->life.asked << 32);
	mix(peer->life.asks | (uint64_t) peer->life.unheard << 32);
	mix(peer->life.probed | (uint64_t) peer->life.probes << 32);
}

static void mix_transfer(const struct xfer_req *req)
{
	const struct xfer_transfer *transfer = &req->transfer;

	mix(transfer->id);
	mix(transfer->wanted);
	mix(transfer->next | (uint64_t) transfer->pieces << 32);
	mix(transfer->chunk | (uint64_t) transfer->number << 32);
	mix(transfer->in_flight | (uint64_t) transfer->copying << 32);
	mix((uint64_t) transfer->status);
	if (req->recv) {
		mix(transfer->recv.granted | (uint64_t) transfer->recv.far << 32);
		return;
	}
	mix(transfer->send.asked);
	mix(transfer->send.wants_done | (uint64_t) transfer->send.lost << 1 |
	    (uint64_t) transfer->send.kept << 2);
}

/* A request that has not begun to travel in parts has nothing of that yet */
static void mix_req(const struct xfer_req *req)
{
	mix(req->state | (uint64_t) req->recv << 8 | (uint64_t) req->reported << 9 |
	    (uint64_t) req->path.proto << 16);
	mix(req->addr);
	mix(req->tag);
	mix(req->len);
	mix(req->slot != NULL);
	mix(req->reserve != NULL);
	mix(req->peer != NULL);
	mix((uint64_t) req->comp.err);
	if (req->state == XFER_STAGING)
		mix(req->copied);
	if (req->state >= XFER_MARKING && !(req->op_flags & FI_PEEK) && req->peer)
		mix_transfer(req);
}

static void mix_out(const struct xfer_out *out)
{
	mix(out->addr);
	mix(out->tag);
	mix((uint64_t) out->ret);
	mix((uint64_t) out->behind | (uint64_t) (out->until != 0) << 1);
	for (size_t i = 0; i < out->count; i++) {
		if (gpu_has(out->iov[i].iov_base) || out->iov[i].iov_len > 4096)
			mix(out->iov[i].iov_len);
		else
			mix_bytes(out->iov[i].iov_base, out->iov[i].iov_len);
	}
}

static void mix_channel(const struct xfer_channel *channel)
{
	const struct ctrl_inbox *inbox = &channel->inbox;
	const struct xfer_out *out;

	mix((uint64_t) (channel->core != NULL) | (uint64_t) inbox->open << 1 |
	    (uint64_t) channel->owed << 32);
	mix(inbox->wanted | (uint64_t) inbox->refused << 16 | (uint64_t) inbox->missing << 32);
	if (channel->letter)
		mix_out(channel->letter);
	TAILQ_FOREACH(out, &channel->outq, entry)
		mix_out(out);
}

static void mix_ep(const struct xfer_ep *ep)
{
	const struct xfer_peer *peer, *next_peer;
	const struct xfer_token *token, *next;
	const struct xfer_ctx *ctx;
	const struct xfer_req *req;

	mix((uint64_t) ep->closing | (uint64_t) ep->proto->stale << 1 |
	    (uint64_t) ep->proto->news << 2);
	mix_channel(&ep->front);
	mix_channel(&ep->side);
	mix(ep->waiting | (uint64_t) ep->ready << 32);
	mix(ep->copying);
	mix(ep->proto->stale_count[false] | (uint64_t) ep->proto->strangers << 32);
	mix(ep->proto->stale_count[true]);
	TAILQ_FOREACH(req, &ep->sendq, entry)
		mix(req->state | (uint64_t) req->len << 8);
	LIST_FOREACH(ctx, &ep->live, live) {
		mix((uintptr_t) ctx->done);
		if (xfer_ctx_is_req(ctx))
			mix_req((const struct xfer_req *) ctx);
	}
	HASH_ITER(hh, ep->peers, peer, next_peer)
		mix_peer(peer);
	HASH_ITER(hh, ep->tokens, token, next)
		mix(token->token ^ token->lost);
}

static void mix_arrivals(const struct proto_domain *proto)
{
	const struct xfer_arrival *arrival;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		LIST_FOREACH(arrival, &proto->arriving[i], chain) {
			mix(arrival->id);
			mix((uint64_t) arrival->announced | (uint64_t) arrival->deserted << 1 |
			    (uint64_t) (arrival->ready != NULL) << 2 |
			    (uint64_t) (arrival->req != NULL) << 3 |
			    (uint64_t) (arrival->peer != NULL) << 4 |
			    (uint64_t) (arrival->suspect != NULL) << 5);
			mix((uint64_t) arrival->status);
			mix(arrival->waited);
			mix(arrival->total);
		}
	}
}

static void mix_node(unsigned int i)
{
	const struct xfer_ep *ep;
	const struct xfer *xfer;

	mix(nodes[i].state | (uint64_t) nodes[i].life << 8);
	for (unsigned int j = 0; j < SIM_NODES; j++)
		mix(nodes[i].eps[0].met[j][0] | (uint64_t) nodes[i].eps[0].blind[j][0] << 32);
	if (nodes[i].state == NODE_DEAD || nodes[i].plain || !nodes[i].domains[0].domain)
		return;
	mix(nodes[i].granted | (uint64_t) nodes[i].wished << 32);
	xfer = &domain_of(&nodes[i].domains[0].domain->fid)->xfer;
	mix(xfer->busy | (uint64_t) xfer->open << 32);
	mix(xfer->looks | (uint64_t) xfer->wrong << 32);
	mix(xfer->made);
	for (int pool = 0; pool < STAGE_POOLS; pool++)
		mix(xfer->stage.pools[pool].idle);
	LIST_FOREACH(ep, &xfer->eps, entry)
		mix_ep(ep);
	mix_arrivals(xfer->proto);
}

/* ---- the core ---- */

static void mix_send(const struct core_send *send)
{
	mix(send->kind | send->state << 4 | (uint64_t) send->long_ << 8 |
	    (uint64_t) send->told << 9 | (uint64_t) (send->recv != NULL) << 10 |
	    (uint64_t) world_later(send->at) << 11 | (uint64_t) (send->done_at != 0) << 12 |
	    (uint64_t) (send->done_at && world_later(send->done_at)) << 13);
	mix((uint64_t) send->err);
	mix(send->tag);
	mix(send->data);
	mix(send->len);
	if (send->bytes && send->len <= 4096)
		mix_bytes(send->bytes, send->len);
}

static void mix_core(void)
{
	const struct core_conn *conn;
	const struct core_recv *recv;
	const struct core_send *send;
	const struct core_ep *ep;

	TAILQ_FOREACH(ep, &core_eps, link) {
		mix(ep->name.node | ep->name.port << 8 | (uint64_t) ep->alive << 40);
		TAILQ_FOREACH(recv, &ep->recvs, link)
			mix(recv->tag ^ recv->ignore << 1 ^ recv->tagged);
		TAILQ_FOREACH(send, &ep->saved, saved)
			mix(send->tag ^ send->len);
	}
	TAILQ_FOREACH(conn, &core_conns, link) {
		mix(conn->state | conn->src->name.node << 4 | conn->to.node << 8 |
		    (uint64_t) conn->src->name.port << 16 | (uint64_t) conn->to.port << 40);
		mix(world_later(conn->at));
		TAILQ_FOREACH(send, &conn->sends, link)
			mix_send(send);
	}
}

uint64_t state_digest(void)
{
	digest = 0xcbf29ce484222325ULL;
	mix_ops();
	for (unsigned int i = 0; i < world.script->nodes; i++)
		mix_node(i);
	mix_core();
	return digest;
}
