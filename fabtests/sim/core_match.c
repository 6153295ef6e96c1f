/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages and receives find each other in the simulated core provider. See core.h. */
#include "core.h"
#include "exhaust.h"

static fi_addr_t core_av_find(const struct core_av *av, struct core_name name)
{
	for (fi_addr_t i = 0; av && i < CORE_AV; i++) {
		if (av->names[i].port == name.port && av->names[i].node == name.node)
			return i;
	}
	return FI_ADDR_NOTAVAIL;
}

/* The receive ends, with the message or without */
static void recv_report(struct core_ep *ep, struct core_recv *recv,
			const struct core_send *send, int err)
{
	size_t len = 0;
	struct core_done comp = {
		.entry = {.op_context = recv->context,
			  .flags = FI_RECV | (recv->tagged ? FI_TAGGED : FI_MSG)},
		.src = FI_ADDR_NOTAVAIL,
		.err = err,
	};

	if (send && !err && core_losing[ep->name.node] && core_is_internal(send)) {
		core_losing[ep->name.node] = false;
		core_losses[ep->name.node][send->conn->src->name.node]++;
		comp.err = FI_EIO;
		core_send_tell(send, "lost");
	} else if (send && !err) {
		if (core_is_by_nic(send))
			core_mem_check(ep->domain, recv->iov, recv->count, recv->mr, FI_RECV);
		len = core_scatter(recv->iov, core_is_by_nic(send) ? recv->mr : NULL,
				   recv->count, send->bytes, send->len);
		if (len < send->len) {
			comp.err = ep->model->negative ? -FI_ETRUNC : FI_ETRUNC;
			if (send->long_ || ep->model->counts)
				comp.olen = send->len - len;
		}
		comp.entry.flags |= send->has_data ? FI_REMOTE_CQ_DATA : 0;
		/* otherwise it has what the core left there */
		if (send->has_data)
			ep->data = send->data;
		comp.entry.data = ep->data;
		comp.entry.tag = send->tag;
		comp.entry.len = len;
		comp.src = core_av_find(ep->av, send->conn->src->name);
	}
	if (recv->owner)
		comp.entry.buf = recv->iov[0].iov_base;
	if (recv->last || recv->multi)
		comp.entry.flags |= FI_MULTI_RECV;
	core_wire_complete(ep->rxcq, comp);
	core_count(ep, FI_RECV, comp.err);
	if (recv->owner && !--recv->owner->users && recv->owner->full && ep->model->gives)
		core_wire_complete(ep->rxcq, (struct core_done){
						     .entry = {.op_context = recv->context,
							       .flags = FI_MULTI_RECV},
						     .src = FI_ADDR_NOTAVAIL,
					     });
	ep->receives--;
	/* parts of it may be under way: its record stays */
	if (!recv->multi)
		free(recv);
}

/* A part of a buffer for many messages, for one of them */
static struct core_recv *multi_part(struct core_ep *ep, struct core_recv *multi, size_t len)
{
	struct core_recv *part = malloc(sizeof *part);
	struct iovec *left = &multi->iov[0];

	*part = *multi;
	part->multi = false;
	part->owner = multi;
	part->iov[0].iov_len = len < left->iov_len ? len : left->iov_len;
	left->iov_base = (uint8_t *) left->iov_base + part->iov[0].iov_len;
	left->iov_len -= part->iov[0].iov_len;
	multi->users++;
	if (left->iov_len < ep->least || !left->iov_len) {
		TAILQ_REMOVE(&ep->recvs, multi, link);
		multi->full = true;
		part->last = !ep->model->gives;
	} else {
		ep->receives++;
	}
	return part;
}

/* The receive that a message has come for, or NULL */
struct core_recv *core_recv_find(struct core_ep *ep, const struct core_send *send)
{
	struct core_recv *recv;

	TAILQ_FOREACH(recv, &ep->recvs, link) {
		if (core_recv_fits(ep, recv, send))
			break;
	}
	if (recv && recv->multi)
		return multi_part(ep, recv, send->len);
	if (recv)
		TAILQ_REMOVE(&ep->recvs, recv, link);
	return recv;
}

/* ---- matching ---- */

bool core_recv_fits(const struct core_ep *ep, const struct core_recv *recv,
		    const struct core_send *send)
{
	if (recv->tagged != send->tagged ||
	    (send->tagged && (recv->tag ^ send->tag) & ~recv->ignore))
		return false;
	return recv->src == FI_ADDR_UNSPEC ||
	       recv->src == core_av_find(ep->av, send->conn->src->name);
}

void core_send_land(struct core_ep *ep, struct core_send *send, int err)
{
	struct core_recv *recv = send->recv;

	send->recv = NULL;
	send->state = SEND_LANDED;
	if (send->bytes)
		check_granted(ep->name.node, send->bytes, send->len);
	lie_hear(ep->name.node, send);
	if (recv)
		recv_report(ep, recv, send, err);
	if ((send->long_ && !send->lost) || send->confirms)
		core_send_done(send, err, core_end_delay(send, 3000));
	if (send->kind == SEND_MSG) {
		free(send->bytes);
		send->bytes = NULL;
	}
}

/*
 * In ofi_rxm 1.17 the message that is matched last gives a buffer for many back, though long ones of other senders may be on
 * their way there. Over the hook an application has the core's own completions, and would have to count. Here it waits.
 */
bool core_send_waits(const struct core_send *send)
{
	const struct core_recv *recv = send->recv;

	return recv && recv->last && recv->owner->users > 1 &&
	       nodes[send->conn->dst->name.node].hook;
}

void core_send_meet(struct core_ep *ep, struct core_send *send, struct core_recv *recv)
{
	const struct core_conn *conn = send->conn;

	send->recv = recv;
	if (core_is_by_nic(send))
		core_mem_check(ep->domain, recv->iov, recv->count, recv->mr, FI_RECV);
	if (send->long_ && !send->bytes && (conn->state == CONN_BROKEN || !conn->src->alive)) {
		core_send_land(ep, send, FI_ECONNRESET);
	} else if (send->long_ && !send->bytes) {
		send->state = SEND_WANTED;
		send->at = world.now + core_delay(send, 3000);
	} else if (core_send_waits(send)) {
		send->state = SEND_FILLED;
		send->at = world.now;
	} else {
		core_send_land(ep, send, 0);
	}
}

static struct core_send *saved_find(struct core_ep *ep, const struct core_recv *recv)
{
	struct core_send *send;
	struct core_ep *other;

	/* it is taken for one that was claimed */
	if (ep->model->claims && recv->tagged && recv->tag >> 63)
		return NULL;
	TAILQ_FOREACH(send, &ep->saved, saved) {
		if (!send->claim && core_recv_fits(ep, recv, send))
			return send;
	}
	if (!ep->model->mixes)
		return NULL;
	TAILQ_FOREACH(other, &core_eps, link) {
		if (other == ep || other->domain != ep->domain || !other->alive)
			continue;
		TAILQ_FOREACH(send, &other->saved, saved) {
			if (!send->claim && core_recv_fits(ep, recv, send))
				return send;
		}
	}
	return NULL;
}

void core_send_save(struct core_ep *ep, struct core_send *send)
{
	struct core_send *last = NULL;

	send->state = SEND_SAVED;
	if (ep->model->sorts)
		TAILQ_FOREACH_REVERSE(last, &ep->saved, core_sends, saved)
	if (last->conn == send->conn)
		break;
	if (last)
		TAILQ_INSERT_AFTER(&ep->saved, last, send, saved);
	else
		TAILQ_INSERT_TAIL(&ep->saved, send, saved);
	send->conn->saved++;
}

static void saved_take(struct core_send *send)
{
	TAILQ_REMOVE(&send->conn->dst->saved, send, saved);
	send->conn->saved--;
}

/* Is it still there? It may have ended, and be freed */
static bool recv_posted(const struct core_ep *ep, const struct core_recv *recv)
{
	const struct core_recv *other;

	TAILQ_FOREACH(other, &ep->recvs, link) {
		if (other == recv)
			return true;
	}
	return false;
}

ssize_t core_wire_recv(struct core_ep *ep, struct core_recv *recv)
{
	const bool multi = recv->multi;
	struct core_send *send;

	ep->receives++;
	TAILQ_INSERT_TAIL(&ep->recvs, recv, link);
	do {
		send = saved_find(ep, recv);
		if (!send)
			break;
		saved_take(send);
		core_send_meet(ep, send, core_recv_find(ep, send));
	} while (multi && recv_posted(ep, recv) && !recv->full);
	return 0;
}

bool core_recv_waits(const struct core_ep *ep, const struct core_send *send)
{
	const struct core_recv *recv;

	TAILQ_FOREACH(recv, &ep->recvs, link) {
		if (core_recv_fits(ep, recv, send))
			return true;
	}
	return false;
}

/* What waits without a receive: saved, or before a reader that has stopped there */
static struct core_send *early_find(struct core_ep *ep, const struct core_recv *recv)
{
	struct core_send *send = saved_find(ep, recv);
	struct core_conn *conn;

	if (send || !ep->model->stalls)
		return send;
	TAILQ_FOREACH(conn, &core_conns, link) {
		if (conn->dst != ep)
			continue;
		TAILQ_FOREACH(send, &conn->sends, link) {
			if (send->state >= SEND_QUEUED && send->state <= SEND_WIRE)
				break;
		}
		if (send && send->state == SEND_WIRE && !world_later(send->at) &&
		    !send->claim && send->kind == SEND_MSG && core_recv_fits(ep, recv, send) &&
		    !core_recv_waits(ep, send))
			return send;
	}
	return NULL;
}

/* It no longer waits without a receive */
static void early_take(struct core_send *send)
{
	if (send->state == SEND_SAVED)
		saved_take(send);
	else
		send->conn->flying -= send->long_ ? 64 : send->len + 64;
}

static void send_discard(struct core_send *send)
{
	core_send_tell(send, "discarded");
	send->lost = send->conn->dst->model->loses;
	early_take(send);
	core_send_land(send->conn->dst, send, 0);
}

/* May it be claimed, or discarded? */
static void send_may_go(const struct core_send *send)
{
	if (send->conn->dst->model->segments && !send->long_ && send->len > SIM_SEGMENT)
		world_fail("n%u: the core gives no message in segments to who claims it",
			   send->conn->to.node);
}

void core_wire_peek(struct core_ep *ep, struct core_recv *recv, uint64_t flags)
{
	struct core_send *send = early_find(ep, recv);
	struct core_done done = {
		.entry = {.op_context = recv->context, .flags = FI_RECV | FI_TAGGED},
		.src = FI_ADDR_NOTAVAIL,
		.err = send ? 0 : FI_ENOMSG,
	};

	if (send) {
		done.entry.len = flags & FI_DISCARD && ep->model->loses ? 0 : send->len;
		done.entry.tag = send->tag;
		done.entry.data = send->data;
		if (send->has_data && !ep->model->unmarked)
			done.entry.flags |= FI_REMOTE_CQ_DATA;
		done.src = core_av_find(ep->av, send->conn->src->name);
	}
	core_wire_complete(ep->rxcq, done);
	if (send && flags & (FI_CLAIM | FI_DISCARD))
		send_may_go(send);
	if (send && flags & FI_CLAIM)
		send->claim = recv->context;
	if (send && flags & FI_DISCARD)
		send_discard(send);
}

/* What a closed endpoint had claimed went with it, and its context may be that of a claim of today */
static struct core_send *claimed_find(const struct core_ep *ep, const void *context)
{
	struct core_conn *conn;
	struct core_send *send;

	TAILQ_FOREACH(conn, &core_conns, link) {
		if (!conn->dst || !conn->dst->alive || conn->dst->domain != ep->domain)
			continue;
		TAILQ_FOREACH(send, &conn->sends, link) {
			if (send->claim == context)
				return send;
		}
	}
	world_fail("n%u: a message that was not claimed is received", ep->name.node);
}

ssize_t core_wire_claimed(struct core_ep *ep, struct core_recv *recv, bool discard)
{
	struct core_send *send = claimed_find(ep, recv->context);
	struct core_done done = {.entry = {.op_context = recv->context,
					   .flags = FI_RECV | FI_TAGGED},
				 .src = FI_ADDR_NOTAVAIL};

	send->claim = NULL;
	/* its connection has broken, and it with that */
	if (send->state == SEND_LANDED) {
		free(recv);
		return -FI_ENOMSG;
	}
	if (discard) {
		done.entry.len = send->len;
		done.entry.tag = send->tag;
		core_wire_complete(ep->rxcq, done);
		send_discard(send);
		free(recv);
		return 0;
	}
	ep->receives++;
	early_take(send);
	core_send_meet(ep, send, recv);
	return 0;
}

void core_recv_cancel(struct core_ep *ep, struct core_recv *recv)
{
	TAILQ_REMOVE(&ep->recvs, recv, link);
	recv->full = true;
	recv_report(ep, recv, NULL, FI_ECANCELED);
}

bool core_wire_cancel(struct core_ep *ep, void *context)
{
	struct core_recv *recv;

	TAILQ_FOREACH(recv, &ep->recvs, link) {
		if (recv->context != context)
			continue;
		core_recv_cancel(ep, recv);
		return true;
	}
	return false;
}

/* ---- what is never told ---- */

unsigned int core_lost(unsigned int a, unsigned int b)
{
	return core_losses[a][a] + core_losses[a][b] + core_losses[b][a] + core_losses[b][b];
}

/* Will its sender never hear of its end? */
static bool send_is_kept(const struct core_conn *conn, const struct core_send *send)
{
	const bool deserted = !conn->dst || !conn->dst->alive;

	if (send->told || send->done_at)
		return false;
	return conn->src->model->silent
		       ? deserted
		       : conn->src->model->keeps && send->long_ && conn->state == CONN_BROKEN &&
				 (deserted || send->state == SEND_LANDED);
}

/* Is it that operation? Its memory tells, or what is said of it */
static bool send_is_that(const struct core_send *send, const struct core_kept *what)
{
	for (size_t i = 0; i < send->count; i++) {
		const uintptr_t at = (uintptr_t) send->iov[i].iov_base - (uintptr_t) what->buf;

		if (send->iov[i].iov_len && at < what->len)
			return true;
	}
	if (send->kind != SEND_MSG)
		return what->rma;
	return !what->rma && send->tag == what->tag && send->len == what->len;
}

bool core_keeps(unsigned int node, unsigned int port, unsigned int to,
		const struct core_kept *what)
{
	const struct core_conn *conn;
	const struct core_send *send;

	TAILQ_FOREACH(conn, &core_conns, link) {
		if (conn->src->lane != !port || conn->src->name.node != node ||
		    (port && conn->src->name.port != port) || conn->to.node != to ||
		    (what->port && conn->to.port != what->port))
			continue;
		TAILQ_FOREACH(send, &conn->sends, link) {
			if (send_is_kept(conn, send) && (what->any || send_is_that(send, what)))
				return true;
		}
	}
	return false;
}
