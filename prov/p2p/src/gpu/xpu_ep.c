/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Exported endpoints: rings, and the operations that kernels put there. See xpu.h. */
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "gpu/xpu.h"

/* Of one ring, so many operations are posted before others have their turn */
#define XPU_TURN 4

/* So many full rings have their turn in a long look; in so many turns that post, looks are short once they are */
#define XPU_TURNS 4
#define XPU_BRIEF 64

/* So many rings are looked at each time, if they had nothing lately: a part of 64 */
#define XPU_WINDOW 16

/* After all have been looked at so many times, all are cold again */
#define XPU_ROUNDS 4096

/* ---- what waits ---- */

/* Whom an operation is for. A target that there is not is nobody's. */
static fi_addr_t xpu_ep_peer(const struct xpu_ep *ep, const struct ring_op *op)
{
	const struct xpu_peer *peer;

	if (op->kind == FI_P2P_XPU_KIND_OP)
		return xpu_op_peer(op);
	peer = xpu_peer_of(ep, op->target);
	return peer ? peer->addr : FI_ADDR_NOTAVAIL;
}

static bool xpu_op_fences(const struct ring_op *op)
{
	return op->kind == FI_P2P_XPU_KIND_OP && op->flags & FI_FENCE;
}

/* The line of a peer; NULL: there is none */
static struct xpu_line *xpu_line_find(const struct xpu_ring *ring, fi_addr_t peer)
{
	struct xpu_line *line;

	LIST_FOREACH(line, &ring->lines, entry) {
		if (line->peer == peer)
			break;
	}
	return line;
}

static struct xpu_line *xpu_line_get(struct xpu_ring *ring, fi_addr_t peer)
{
	struct xpu_line *line = xpu_line_find(ring, peer);

	if (line)
		return line;
	line = calloc(1, sizeof *line);
	if (!line)
		return NULL;
	line->peer = peer;
	STAILQ_INIT(&line->held);
	LIST_INSERT_HEAD(&ring->lines, line, entry);
	return line;
}

/* An operation waits, so that others may pass. False: it stays in the ring, and so do all behind it. */
static bool xpu_ring_hold(struct xpu_ep *ep, struct xpu_ring *ring, const struct ring_op *op)
{
	struct xpu_held *held = STAILQ_FIRST(&ep->spare);
	struct xpu_line *line;

	if (ring->held == ring->ring.size)
		return false;
	line = xpu_line_get(ring, xpu_ep_peer(ep, op));
	if (!line)
		return false;
	if (held)
		STAILQ_REMOVE_HEAD(&ep->spare, entry);
	else
		held = malloc(sizeof *held);
	/* an empty line is freed at the next look */
	ring->held += held != NULL;
	if (!held)
		return false;
	held->op = *op;
	STAILQ_INSERT_TAIL(&line->held, held, entry);
	ring->fenced = xpu_op_fences(op);
	return true;
}

/* Posts an operation. False: later */
static bool xpu_ring_post(struct xpu_ep *ep, struct xpu_ring *ring, const struct ring_op *op,
			  struct xpu_patience *patience)
{
	int ret;

	if (xpu_op_waits(ep, ring, op))
		return false;
	ret = xpu_op_post(ep, ring, op);
	/* what has been done already waits for as long as there is no room to tell */
	if (op->kind != FI_P2P_XPU_KIND_ENDED)
		ret = xpu_op_patience(patience, xpu_ep_peer(ep, op), ret);
	if (ret == -FI_EAGAIN)
		return false;
	if (ret && (op->kind == FI_P2P_XPU_KIND_PUT || op->kind == FI_P2P_XPU_KIND_NONE))
		xpu_put_failed(ep, ring, op);
	return !ret || xpu_op_fail(ep->ep, op, ret);
}

/* Each line has its turn. Returns how many operations could be posted */
static int xpu_lines_look(struct xpu_ep *ep, struct xpu_ring *ring)
{
	struct xpu_line *line, *next;
	struct xpu_held *held;
	int posted = 0;

	for (line = LIST_FIRST(&ring->lines); line; line = next) {
		next = LIST_NEXT(line, entry);
		for (int i = 0; i < XPU_TURN && (held = STAILQ_FIRST(&line->held)); i++) {
			if (!xpu_ring_post(ep, ring, &held->op, &line->patience))
				break;
			if (xpu_op_fences(&held->op))
				ring->fenced = false;
			STAILQ_REMOVE_HEAD(&line->held, entry);
			STAILQ_INSERT_HEAD(&ep->spare, held, entry);
			ring->held--;
			posted++;
		}
		if (STAILQ_EMPTY(&line->held) && !line->patience.gave_up) {
			LIST_REMOVE(line, entry);
			free(line);
		}
	}
	return posted;
}

/* Posts what has come out of the ring, unless something to its peer waits. False: later */
static bool xpu_ring_take(struct xpu_ep *ep, struct xpu_ring *ring, const struct ring_op *op)
{
	struct xpu_line *line = xpu_line_find(ring, xpu_ep_peer(ep, op));
	struct xpu_patience none = {0};

	if (!line)
		return xpu_ring_post(ep, ring, op, &none);
	return STAILQ_EMPTY(&line->held) && xpu_ring_post(ep, ring, op, &line->patience);
}

/* ---- rings ---- */

/*
 * Posts what waits, and what is in a ring. Returns how many operations there were that could be posted. The ring is full if
 * that and what still waits are a turn's.
 */
static int xpu_ring_look(struct xpu_ep *ep, unsigned int number)
{
	const uint64_t bit = UINT64_C(1) << number % 64;
	struct xpu_ring *ring = &ep->rings[number];
	int posted = ring->held ? xpu_lines_look(ep, ring) : 0, taken;
	struct ring_op op;

	for (taken = 0; taken < XPU_TURN && posted < XPU_TURN && !ring->fenced; taken++) {
		if (!ring_peek(&ring->ring, &op))
			break;
		if (xpu_ring_take(ep, ring, &op))
			posted++;
		else if (!xpu_ring_hold(ep, ring, &op))
			break;
		ring_next(&ring->ring);
	}
	if (taken)
		ring_tell(&ring->ring);
	if ((unsigned int) posted + ring->held >= XPU_TURN)
		ep->full[number / 64] |= bit;
	else
		ep->full[number / 64] &= ~bit;
	return posted;
}

/* Looks whether some of the rings have something that had nothing lately, other ones each time. */
static void xpu_rings_find(struct xpu_ep *ep)
{
	uint64_t *hot = &ep->hot[ep->window / 64];
	uint64_t cold = ~*hot >> ep->window % 64 & ((1U << XPU_WINDOW) - 1);
	unsigned int ring;

	for (; cold; cold &= cold - 1) {
		ring = ep->window + (unsigned int) __builtin_ctzll(cold);
		if (ring < ep->ring_count &&
		    (ep->rings[ring].held || ring_has(&ep->rings[ring].ring)))
			*hot |= UINT64_C(1) << ring % 64;
	}
	ep->window += XPU_WINDOW;
	if (ep->window < ep->ring_count)
		return;
	ep->window = 0;
	if (++ep->rounds < XPU_ROUNDS)
		return;
	ep->rounds = 0;
	for (unsigned int i = 0; i < ep->words; i++)
		ep->hot[i] = 0;
}

/* The next of the full rings, in turn; -1: there is none */
static int xpu_ring_next_full(struct xpu_ep *ep)
{
	unsigned int at = ep->turn;
	uint64_t left;

	for (unsigned int i = 0; i <= ep->words; i++) {
		left = ep->full[at / 64] >> at % 64;
		if (left)
			return (int) (at + (unsigned int) __builtin_ctzll(left));
		at = (at / 64 + 1) % ep->words * 64;
	}
	return -1;
}

/*
 * Posts what is in the rings that had something lately, but those that are full. True: one had something, and has
 * nothing left now. @moved: some could be posted
 */
static bool xpu_rings_look(struct xpu_ep *ep, bool *moved)
{
	bool emptied = false;
	int posted;

	for (unsigned int i = 0; i < ep->words; i++) {
		for (uint64_t hot = ep->hot[i] & ~ep->full[i]; hot; hot &= hot - 1) {
			const unsigned int bit = (unsigned int) __builtin_ctzll(hot);

			posted = xpu_ring_look(ep, i * 64 + bit);
			*moved |= posted > 0;
			emptied |= posted && !(ep->full[i] >> bit & 1);
		}
	}
	return emptied;
}

/* The next of the full rings has its turn. Returns how many operations could be posted; -1: no ring is full */
static int xpu_rings_turn(struct xpu_ep *ep)
{
	const int next = xpu_ring_next_full(ep);
	int posted;

	if (next < 0)
		return -1;
	ep->turn = (unsigned int) (next + 1) % ep->ring_count;
	ring_fetch(&ep->rings[xpu_ring_next_full(ep)].ring, XPU_TURN);
	ep->turns++;
	ep->in_turn = true;
	posted = xpu_ring_look(ep, (unsigned int) next);
	ep->in_turn = false;
	ep->brief -= ep->brief && posted;
	return posted;
}

/*
 * A look at each of many rings takes longer than what one of them waits for. So those that had
 * something lately are looked at each time, and a few of the others. A ring that had more than a turn's
 * operations is full: of those, one has its turn at a time, and the others are looked at in between.
 *
 * What ends is seen after a look. So a look is short for a while if one has posted beside full ones, as it waits for an
 * answer. Then a turn's puts also wait until the peer has those of the last turn, as the core's queue and the network's know
 * no turns. Else looks are longer, as the core and the device do better with many at once.
 */
bool xpu_ep_look(struct xpu_ep *ep)
{
	unsigned int turns = ep->brief ? 1 : XPU_TURNS;
	bool moved = false, emptied;
	int posted;

	if (ep->ending)
		return false;
	xpu_rings_find(ep);
	do {
		emptied = xpu_rings_look(ep, &moved);
		posted = xpu_rings_turn(ep);
		if (posted < 0)
			break;
		moved |= posted > 0;
		if (emptied)
			ep->brief = XPU_BRIEF;
	} while (!emptied && --turns);
	return moved;
}

/* ---- export ---- */

static void xpu_lines_free(struct xpu_ep *ep, struct xpu_ring *ring)
{
	struct xpu_line *line;

	while ((line = LIST_FIRST(&ring->lines))) {
		STAILQ_CONCAT(&ep->spare, &line->held);
		LIST_REMOVE(line, entry);
		free(line);
	}
}

static void xpu_ep_free(struct xpu_ep *ep)
{
	struct xpu_held *held;

	for (unsigned int i = 0; ep->rings && i < ep->ring_count; i++)
		xpu_lines_free(ep, &ep->rings[i]);
	while ((held = STAILQ_FIRST(&ep->spare))) {
		STAILQ_REMOVE_HEAD(&ep->spare, entry);
		free(held);
	}
	for (unsigned int i = 0; i < ep->peer_count; i++) {
		free(ep->peers[i].ring_puts);
		free(ep->peers[i].failed);
	}
	free(ep->peers);
	free(ep->targets);
	free(ep->rings);
	free(ep->hot);
	free(ep->full);
	free(ep);
}

/* Its own queues have no reader any more. Puts that are under way are nobody's until they end. */
static void xpu_ep_end(struct fid_export *export)
{
	struct xpu_ep *ep = container_of(export, struct xpu_ep, export);
	struct xpu_ctx *ctx = ep->ctx;

	proxy_hold(ctx->proxy);
	for (unsigned int i = 0; i < ep->ring_count; i++)
		ring_end(&ep->rings[i].ring);
	LIST_REMOVE(ep, entry);
	fid_export_remove(export);
	for (int i = 0; i < 2; i++)
		ep->ep->own[i].kept = false;
	for (int i = 0; i < XPU_PUTS; i++) {
		struct xpu_put *put = &ctx->puts[i];

		if (!put->ring || put->ep != ep)
			continue;
		put->ring = NULL;
		put->orphan_of = ep->ep->xfer.number;
		ctx->orphans++;
	}
	proxy_release(ctx->proxy);
	xpu_ep_free(ep);
}

static size_t xpu_power_of_two(size_t least)
{
	size_t size = 1;

	while (size < least)
		size *= 2;
	return size;
}

/* Allocates what kernels and the proxy share. 0 or a negative error */
static int xpu_ep_alloc(struct xpu_ep *ep)
{
	const size_t size = xpu_power_of_two(conf.xpu_slots), bytes = xpu_ring_bytes(size);
	const struct gpu_host *host;
	struct fi_p2p_xpu_ep_dev *state;
	const size_t len = sizeof *state + conf.xpu_rings * sizeof state->ring[0];
	int ret;

	ep->ring_count = (unsigned int) conf.xpu_rings;
	ep->rings = calloc(ep->ring_count, sizeof *ep->rings);
	ep->words = (ep->ring_count + 63) / 64;
	ep->hot = calloc(ep->words, sizeof *ep->hot);
	ep->full = calloc(ep->words, sizeof *ep->full);
	if (!ep->rings || !ep->hot || !ep->full || posix_memalign((void **) &state, 128, len))
		return -FI_ENOMEM;
	ret = -FI_ENOMEM;
	ep->shared = xpu_shared_alloc(ep->ctx, ep->ring_count * bytes, 0);
	if (!ep->shared)
		goto free_state;
	host = &ep->shared->host;
	memset(state, 0, len);
	state->abi = FI_P2P_XPU_ABI | (ep->exclusive ? FI_P2P_XPU_OWNED : 0);
	state->rings = ep->ring_count;
	for (unsigned int i = 0; i < ep->ring_count; i++)
		xpu_ring_place(host, i * bytes, size, &ep->rings[i].ring, &state->ring[i]);
	ret = gpu_state_alloc(&ep->ctx->dev, state, len, &ep->shared->state);
free_state:
	free(state);
	return ret;
}

/*
 * Is all that tells of its operations read by the proxy, or by nobody? Called with the proxy's lock held
 */
static bool xpu_ep_bound_here(const struct xpu_ctx *ctx, const struct p2p_ep *ep)
{
	const struct xfer_cq *queues[] = {ep->xfer.txcq, ep->xfer.rxcq};
	const struct xpu_cq *cq;

	for (int i = 0; i < 2; i++) {
		if (!queues[i] || queues[i]->silent)
			continue;
		/* such a queue has no reader here */
		if (container_of(queues[i], struct p2p_cq, xfer)->native == &ctx->native)
			continue;
		LIST_FOREACH(cq, &ctx->cqs, entry) {
			if (&cq->cq->xfer == queues[i])
				break;
		}
		if (!cq)
			return false;
	}
	return true;
}

int xpu_ep_export(struct xpu_ctx *ctx, struct fid_ep *fid, uint64_t flags,
		  struct fid_xpu_ep *xpu)
{
	struct p2p_ep *p2p_ep = ep_of(&fid->fid);
	struct xpu_ep *ep;
	bool bound;
	int ret = xpu_export_check(ctx, p2p_ep->domain, &p2p_ep->exports, xpu_ep_end, flags,
				   FI_P2P_XPU_EXCLUSIVE);

	if (ret)
		return ret;
	if (!p2p_ep->xfer.started)
		return -FI_EOPBADSTATE;
	proxy_hold(ctx->proxy);
	bound = xpu_ep_bound_here(ctx, p2p_ep);
	proxy_release(ctx->proxy);
	if (!bound) {
		P2P_WARN(
			"export of an endpoint: its completion queues are to be exported first\n");
		return -FI_EINVAL;
	}
	ep = calloc(1, sizeof *ep);
	if (!ep)
		return -FI_ENOMEM;
	STAILQ_INIT(&ep->spare);
	ep->export.end = xpu_ep_end;
	ep->ctx = ctx;
	ep->ep = p2p_ep;
	ep->exclusive = flags & FI_P2P_XPU_EXCLUSIVE;
	ret = xpu_ep_alloc(ep);
	if (ret) {
		xpu_ep_free(ep);
		return ret;
	}
	xpu->fid = xpu_export_handle(FI_CLASS_EP, ep->shared);
	proxy_hold(ctx->proxy);
	for (int i = 0; i < 2; i++)
		p2p_ep->own[i].kept = p2p_ep->own[i].core;
	fid_export_add(&p2p_ep->exports, &ep->export);
	LIST_INSERT_HEAD(&ctx->eps, ep, entry);
	proxy_release(ctx->proxy);
	return 0;
}

struct xpu_ep *xpu_ep_find(struct p2p_ep *ep)
{
	struct fid_export *export = fid_export_find(&ep->exports, xpu_ep_end);

	return export ? container_of(export, struct xpu_ep, export) : NULL;
}

/* ---- targets ---- */

/* The number of a peer, which is a new one if it has no targets yet. 0 or -FI_ENOMEM */
static int xpu_peer_get(struct xpu_ep *ep, fi_addr_t addr, unsigned int *number)
{
	struct xpu_peer *peers, new = {.addr = addr};

	for (*number = 0; *number < ep->peer_count; ++*number) {
		if (ep->peers[*number].addr == addr)
			return 0;
	}
	peers = realloc(ep->peers, (ep->peer_count + 1) * sizeof *peers);
	if (!peers)
		return -FI_ENOMEM;
	ep->peers = peers;
	new.ring_puts = calloc(ep->ring_count, sizeof *new.ring_puts);
	new.failed = calloc(ep->words, sizeof *new.failed);
	if (!new.ring_puts || !new.failed) {
		free(new.ring_puts);
		free(new.failed);
		return -FI_ENOMEM;
	}
	peers[ep->peer_count++] = new;
	return 0;
}

/* Adds a target. 0 or -FI_ENOMEM */
static int xpu_targets_grow(struct xpu_ep *ep, const struct fi_p2p_xpu_target *target)
{
	struct xpu_target *targets =
		realloc(ep->targets, (ep->target_count + 1) * sizeof *targets);
	int ret;

	if (!targets)
		return -FI_ENOMEM;
	ep->targets = targets;
	targets[ep->target_count] = (struct xpu_target){.is = *target};
	ret = xpu_peer_get(ep, target->dest_addr, &targets[ep->target_count].peer);
	ep->target_count += !ret;
	return ret;
}

/* The peer of the new target may have been mapped so far: kernels are told. Else there is no such target. 0 or an error */
static int xpu_target_unmaps(struct xpu_ep *ep)
{
	int ret = xpu_mapped_store(ep);

	proxy_hold(ep->ctx->proxy);
	ep->target_count -= ret != 0;
	proxy_release(ep->ctx->proxy);
	return ret;
}

int xpu_target_add(struct p2p_ep *p2p_ep, const struct fi_p2p_xpu_target *target,
		   uint32_t *number)
{
	const uint64_t mark = p2p_ep->domain->xfer.key_mark;
	struct xpu_ep *ep = xpu_ep_find(p2p_ep);
	int ret = -FI_ENOSPC;

	if (!ep)
		return -FI_EINVAL;
	proxy_hold(ep->ctx->proxy);
	if (ep->target_count == FI_P2P_XPU_TARGETS)
		goto release;
	ret = xpu_targets_grow(ep, target);
	if (ret)
		goto release;
	if ((ep->targets[0].is.key ^ target->key) & mark)
		ep->mixed = true;
	*number = ep->target_count - 1;
release:
	proxy_release(ep->ctx->proxy);
	return !ret && ep->shared->mapped ? xpu_target_unmaps(ep) : ret;
}
