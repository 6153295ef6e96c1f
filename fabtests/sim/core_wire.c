/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What moves in the simulated core provider. See core.h, and the properties in sim.h.
 *
 *	sender                                                       receiver
 *	QUEUED: for the connection, and for room on the way
 *	WIRE                 --- message, or its announcement -----> SAVED, or stalls; or meets a receive
 *	                     <----------------- wants its bytes ---- WANTED, if it is long
 *	FILLED               --- bytes -----------------------------> LANDED
 *	done                 <------------------------- confirms ----
 *
 * Each side moves only in its own process's progress. A process that makes none holds up the others.
 */
#include "core.h"

#include "base/base.h"

#include "xfer/wire.h"

struct core_eps core_eps = TAILQ_HEAD_INITIALIZER(core_eps);
static TAILQ_HEAD(, core_conn) conns = TAILQ_HEAD_INITIALIZER(conns);
static bool refusing[SIM_NODES], losing[SIM_NODES];
static uint64_t due;

static const struct model *model(void)
{
	return world.script->model;
}

/* A delay of about @usual [ns], and a long one at times */
static uint64_t delay(uint64_t usual)
{
	return usual / 2 + world_upto(usual) +
	       (world_upto(40) ? 0 : world_upto(world_upto(4) ? SIM_MS : 30 * SIM_MS));
}

static bool core_later(uint64_t at)
{
	if (at <= world.now)
		return false;
	if (at < due)
		due = at;
	return true;
}

uint64_t core_due(void)
{
	const uint64_t first = due;

	due = UINT64_MAX;
	return first;
}

/* ---- memory ---- */

/* The core's CPU touches no device memory */
static void core_span(const void *addr, size_t len)
{
	if (len && (gpu_has(addr) || gpu_has((const uint8_t *) addr + len - 1)))
		world_fail("n%u: the core touches device memory", world.current);
}

static void gather(struct core_send *send)
{
	size_t at = 0;

	send->bytes = malloc(send->len + 1);
	for (size_t i = 0; i < send->count; i++) {
		core_span(send->iov[i].iov_base, send->iov[i].iov_len);
		if (send->iov[i].iov_len)
			memcpy(send->bytes + at, send->iov[i].iov_base, send->iov[i].iov_len);
		at += send->iov[i].iov_len;
	}
}

static size_t scatter(const struct iovec *iov, size_t count, const uint8_t *bytes, size_t len)
{
	size_t at = 0, part;

	for (size_t i = 0; i < count && at < len; i++) {
		part = iov[i].iov_len < len - at ? iov[i].iov_len : len - at;
		core_span(iov[i].iov_base, part);
		memcpy(iov[i].iov_base, bytes + at, part);
		at += part;
	}
	return at;
}

/* ---- words for what is told ---- */

static const char *send_word(const struct core_send *send, char *text, size_t room)
{
	struct wire_msg msg;
	const char *why;

	if (send->kind != SEND_MSG)
		snprintf(text, room, "%s of %zu", send->kind == SEND_READ ? "read" : "write",
			 send->len);
	else if (send->tagged && send->tag & 1ULL << 63 && send->tag & WIRE_TAG_PIECE)
		snprintf(text, room, "piece of %zu", send->len);
	else if (send->tagged && send->tag & 1ULL << 63 && send->bytes &&
		 !wire_decode(send->bytes, send->len, &msg, &why))
		snprintf(text, room, "%s %llx flags %x", wire_type_name(msg.type),
			 (unsigned long long) (msg.id & 0xffffff), msg.flags);
	else if (send->has_data && send->data & WIRE_MARK)
		snprintf(text, room, "marker %llx",
			 (unsigned long long) (send->data & 0xffffff));
	else
		snprintf(text, room, "message of %zu tag %llx", send->len,
			 (unsigned long long) send->tag);
	return text;
}

static void send_tell(const struct core_send *send, const char *what)
{
	char text[80];

	world_tell("n%u:%u --%s--> n%u:%u %s", send->conn->src->name.node,
		   send->conn->src->name.port, what, send->conn->to.node, send->conn->to.port,
		   send_word(send, text, sizeof text));
}

/* ---- completions ---- */

void core_wire_complete(struct core_cq *cq, struct core_done comp)
{
	struct core_done *last = calloc(1, sizeof *last);

	*last = comp;
	TAILQ_INSERT_TAIL(&cq->comps, last, link);
	cq->count++;
	world.moved = true;
}

static void send_done(struct core_send *send, int err, uint64_t after)
{
	if (send->done_at)
		return;
	send->done_at = world.now + after;
	send->err = err;
}

static void send_report(struct core_send *send)
{
	struct core_ep *ep = send->conn->src;
	const uint64_t kind = send->kind == SEND_MSG
				      ? FI_SEND | (send->tagged ? FI_TAGGED : FI_MSG)
			      : send->kind == SEND_READ ? FI_READ | FI_RMA
							: FI_WRITE | FI_RMA;

	send->told = true;
	ep->posted--;
	if (send->kind == SEND_READ && !send->err)
		scatter(send->iov, send->count, send->bytes, send->len);
	if (send->tells || send->err)
		core_wire_complete(ep->txcq, (struct core_done){
						     .entry = {.op_context = send->context,
							       .flags = kind,
							       .len = send->len},
						     .src = FI_ADDR_NOTAVAIL,
						     .err = send->err,
					     });
}

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

	if (send && !err && losing[ep->name.node] && send->tagged && send->tag & 1ULL << 63) {
		losing[ep->name.node] = false;
		comp.err = FI_EIO;
		send_tell(send, "lost");
	} else if (send && !err) {
		len = scatter(recv->iov, recv->count, send->bytes, send->len);
		if (len < send->len) {
			comp.err = FI_ETRUNC;
			comp.olen = send->len - len;
		}
		comp.entry.flags |= send->has_data ? FI_REMOTE_CQ_DATA : 0;
		comp.entry.data = send->data;
		comp.entry.tag = send->tag;
		comp.entry.len = len;
		comp.src = core_av_find(ep->av, send->conn->src->name);
	}
	core_wire_complete(ep->rxcq, comp);
	ep->receives--;
	free(recv);
}

/* ---- matching ---- */

static bool recv_fits(const struct core_ep *ep, const struct core_recv *recv,
		      const struct core_send *send)
{
	if (recv->tagged != send->tagged ||
	    (send->tagged && (recv->tag ^ send->tag) & ~recv->ignore))
		return false;
	return recv->src == FI_ADDR_UNSPEC ||
	       recv->src == core_av_find(ep->av, send->conn->src->name);
}

static void send_land(struct core_ep *ep, struct core_send *send, int err)
{
	struct core_recv *recv = send->recv;

	send->recv = NULL;
	send->state = SEND_LANDED;
	if (recv)
		recv_report(ep, recv, send, err);
	if (send->long_ || send->confirms)
		send_done(send, err, delay(3000));
	if (send->kind == SEND_MSG) {
		free(send->bytes);
		send->bytes = NULL;
	}
}

static void send_meet(struct core_ep *ep, struct core_send *send, struct core_recv *recv)
{
	const struct core_conn *conn = send->conn;

	send->recv = recv;
	if (send->long_ && !send->bytes && (conn->state == CONN_BROKEN || !conn->src->alive)) {
		send_land(ep, send, FI_ECONNRESET);
	} else if (send->long_ && !send->bytes) {
		send->state = SEND_WANTED;
		send->at = world.now + delay(3000);
	} else {
		send_land(ep, send, 0);
	}
}

static struct core_send *saved_find(struct core_ep *ep, const struct core_recv *recv)
{
	struct core_send *send;
	struct core_ep *other;

	TAILQ_FOREACH(send, &ep->saved, saved) {
		if (recv_fits(ep, recv, send))
			return send;
	}
	if (!model()->mixes)
		return NULL;
	TAILQ_FOREACH(other, &core_eps, link) {
		if (other == ep || other->domain != ep->domain || !other->alive)
			continue;
		TAILQ_FOREACH(send, &other->saved, saved) {
			if (recv_fits(ep, recv, send))
				return send;
		}
	}
	return NULL;
}

ssize_t core_wire_recv(struct core_ep *ep, struct core_recv *recv)
{
	struct core_send *send = saved_find(ep, recv);

	ep->receives++;
	if (!send) {
		TAILQ_INSERT_TAIL(&ep->recvs, recv, link);
		return 0;
	}
	TAILQ_REMOVE(&send->conn->dst->saved, send, saved);
	send->conn->saved--;
	send_meet(ep, send, recv);
	return 0;
}

/* What waits without a receive: saved, or before a reader that has stopped there */
static struct core_send *early_find(struct core_ep *ep, const struct core_recv *recv)
{
	struct core_send *send = saved_find(ep, recv);
	struct core_conn *conn;

	if (send || !model()->stalls)
		return send;
	TAILQ_FOREACH(conn, &conns, link) {
		if (conn->dst != ep)
			continue;
		TAILQ_FOREACH(send, &conn->sends, link) {
			if (send->state >= SEND_QUEUED && send->state <= SEND_WIRE)
				break;
		}
		if (send && send->state == SEND_WIRE && send->at <= world.now &&
		    send->kind == SEND_MSG && recv_fits(ep, recv, send))
			return send;
	}
	return NULL;
}

static void send_discard(struct core_send *send)
{
	struct core_conn *conn = send->conn;

	send_tell(send, "discarded");
	if (send->state == SEND_SAVED) {
		TAILQ_REMOVE(&conn->dst->saved, send, saved);
		conn->saved--;
	} else {
		conn->flying -= send->long_ ? 64 : send->len + 64;
	}
	send_land(conn->dst, send, 0);
}

void core_wire_peek(struct core_ep *ep, struct core_recv *recv, bool discard)
{
	struct core_send *send = early_find(ep, recv);
	struct core_done done = {
		.entry = {.op_context = recv->context, .flags = FI_RECV | FI_TAGGED},
		.src = FI_ADDR_NOTAVAIL,
		.err = send ? 0 : FI_ENOMSG,
	};

	if (send) {
		done.entry.len = send->len;
		done.entry.tag = send->tag;
		done.entry.data = send->data;
		done.entry.flags |= send->has_data ? FI_REMOTE_CQ_DATA : 0;
	}
	core_wire_complete(ep->rxcq, done);
	if (send && discard)
		send_discard(send);
}

bool core_wire_cancel(struct core_ep *ep, void *context)
{
	struct core_recv *recv;

	TAILQ_FOREACH(recv, &ep->recvs, link) {
		if (recv->context != context)
			continue;
		TAILQ_REMOVE(&ep->recvs, recv, link);
		recv_report(ep, recv, NULL, FI_ECANCELED);
		return true;
	}
	return false;
}

/* ---- arrivals ---- */

static struct core_mr *mr_find(const struct core_domain *domain, uint64_t key)
{
	struct core_mr *mr;

	LIST_FOREACH(mr, &domain->mrs, entry) {
		if (mr->fid.key == key)
			return mr;
	}
	return NULL;
}

/* Remote memory is read or written by its owner's progress. 0, or why not */
static int rma_do(struct core_ep *ep, struct core_send *send)
{
	const bool read = send->kind == SEND_READ;
	size_t at = 0;

	if (read)
		send->bytes = malloc(send->len + 1);
	for (size_t i = 0; i < send->remotes; i++) {
		const struct fi_rma_iov *remote = &send->remote[i];
		const struct core_mr *mr = mr_find(ep->domain, remote->key);
		const uint64_t base =
			mr && ep->domain->virt_addr ? (uintptr_t) mr->iov.iov_base : 0;
		uint8_t *mem;

		if (!mr || remote->addr < base || remote->addr - base > mr->iov.iov_len ||
		    mr->iov.iov_len - (remote->addr - base) < remote->len ||
		    !(mr->access & (read ? FI_REMOTE_READ : FI_REMOTE_WRITE)))
			return FI_EACCES;
		mem = (uint8_t *) mr->iov.iov_base + (remote->addr - base);
		core_span(mem, remote->len);
		if (read)
			memcpy(send->bytes + at, mem, remote->len);
		else
			memcpy(mem, send->bytes + at, remote->len);
		at += remote->len;
	}
	return 0;
}

static bool save_room(const struct core_conn *conn, const struct core_send *send)
{
	return !model()->stalls || (send->tagged && conn->saved < model()->saved &&
				    send->len <= model()->saved_len);
}

/* False: it stays where it is, and holds up what comes behind it */
static bool send_arrive(struct core_conn *conn, struct core_send *send)
{
	struct core_ep *ep = conn->dst;
	struct core_recv *recv;

	if (send->kind != SEND_MSG) {
		send->state = SEND_LANDED;
		send_tell(send, "there");
		send_done(send, rma_do(ep, send), delay(3000));
		if (send->err)
			world_tell("n%u: remote memory is not reached: %s",
				   conn->src->name.node, fi_strerror(send->err));
		return true;
	}
	TAILQ_FOREACH(recv, &ep->recvs, link) {
		if (recv_fits(ep, recv, send))
			break;
	}
	if (recv) {
		TAILQ_REMOVE(&ep->recvs, recv, link);
		send_tell(send, "there");
		send_meet(ep, send, recv);
		return true;
	}
	if (!save_room(conn, send))
		return false;
	send->state = SEND_SAVED;
	conn->saved++;
	TAILQ_INSERT_TAIL(&ep->saved, send, saved);
	send_tell(send, "early");
	return true;
}

/* ---- connections ---- */

static struct core_ep *ep_named(struct core_name name)
{
	struct core_ep *ep;

	TAILQ_FOREACH(ep, &core_eps, link) {
		if (ep->alive && ep->enabled && ep->name.node == name.node &&
		    ep->name.port == name.port)
			return ep;
	}
	return NULL;
}

static struct core_conn *conn_find(const struct core_ep *src, struct core_name to)
{
	struct core_conn *conn;

	TAILQ_FOREACH(conn, &conns, link) {
		if (conn->src == src && conn->state != CONN_BROKEN &&
		    conn->to.node == to.node && conn->to.port == to.port)
			return conn;
	}
	return NULL;
}

static struct core_conn *conn_open(struct core_ep *src, struct core_name to)
{
	struct core_conn *conn = calloc(1, sizeof *conn);

	*conn = (struct core_conn){
		.state = model()->connects ? CONN_ASKED : CONN_UP,
		.at = world.now + delay(ep_named(to) ? 20000 : SIM_MS),
		.src = src,
		.dst = ep_named(to),
		.to = to,
	};
	TAILQ_INIT(&conn->sends);
	TAILQ_INSERT_TAIL(&conns, conn, link);
	return conn;
}

/* The rest of it does not come */
static void send_cut(struct core_send *send)
{
	struct core_ep *dst = send->conn->dst;

	if ((send->state == SEND_WANTED || send->state == SEND_FILLED) && dst && dst->alive)
		send_land(dst, send, FI_ECONNRESET);
	else if (send->state != SEND_SAVED)
		send->state = SEND_LANDED;
}

/* Nobody is there: what waits ends so, once that is known */
static void conn_break(struct core_conn *conn, int err)
{
	struct core_send *send;

	conn->state = CONN_BROKEN;
	if (conn->dst)
		world_tell("n%u:%u loses its connection to n%u:%u", conn->src->name.node,
			   conn->src->name.port, conn->to.node, conn->to.port);
	TAILQ_FOREACH(send, &conn->sends, link) {
		if (!send->done_at)
			send_done(send, err, 0);
		/* what was said to be sent gets there */
		if (send->state != SEND_WIRE || send->long_ || send->confirms)
			send_cut(send);
	}
}

static void conn_fill(struct core_conn *conn, struct core_send *send)
{
	if (core_later(send->at))
		return;
	gather(send);
	send->state = SEND_FILLED;
	send->at = world.now + delay(3000) + send->len / 10;
}

/* An operation of the sender's goes on its way, if there is room. False: those behind it wait, too */
static bool conn_launch(struct core_conn *conn, struct core_send *send)
{
	if (conn->state != CONN_UP || conn->flying > model()->window)
		return false;
	if (!send->long_ && !send->bytes && send->kind != SEND_READ)
		gather(send);
	send->state = SEND_WIRE;
	conn->flying += send->long_ ? 64 : send->len + 64;
	send->at = world.now + delay(3000) + (send->long_ ? 0 : send->len / 10);
	send_tell(send, "goes");
	if (send->kind == SEND_MSG && !send->long_ && !send->confirms)
		send_done(send, 0, delay(1000));
	return true;
}

/* What the sender's progress does for one connection of its */
static void conn_push(struct core_conn *conn)
{
	struct core_send *send, *next;
	bool open = true;

	if (conn->state == CONN_ACCEPTED && !core_later(conn->at)) {
		conn->state = CONN_UP;
		world.moved = true;
	}
	if (conn->state != CONN_BROKEN && !model()->silent &&
	    (!conn->dst || !conn->dst->alive) && !core_later(conn->at))
		conn_break(conn, conn->dst ? FI_ECONNRESET : FI_ECONNREFUSED);
	for (send = TAILQ_FIRST(&conn->sends); send; send = next) {
		next = TAILQ_NEXT(send, link);
		if (send->state == SEND_QUEUED && open)
			open = conn_launch(conn, send);
		if (send->state == SEND_WANTED && conn->state != CONN_BROKEN)
			conn_fill(conn, send);
		if (!send->told && send->done_at && !core_later(send->done_at))
			send_report(send);
		if (send->told && send->state == SEND_LANDED) {
			TAILQ_REMOVE(&conn->sends, send, link);
			free(send->bytes);
			free(send);
		}
	}
}

/* What the receiver's progress does for one connection to it */
static void conn_pull(struct core_conn *conn)
{
	struct core_send *send, *next;

	if (conn->state == CONN_ASKED && !core_later(conn->at)) {
		conn->state = CONN_ACCEPTED;
		conn->at = world.now + delay(20000);
	}
	for (send = TAILQ_FIRST(&conn->sends); send; send = next) {
		next = TAILQ_NEXT(send, link);
		if (send->state == SEND_FILLED && !core_later(send->at)) {
			send_tell(send, "lands");
			send_land(conn->dst, send, 0);
		}
		/* a connection that stalls has one message at a time before its reader */
		if (model()->stalls &&
		    (send->state == SEND_WANTED || send->state == SEND_FILLED))
			return;
		if (send->state != SEND_WIRE)
			continue;
		if (core_later(send->at) || !send_arrive(conn, send))
			return;
		conn->flying -= send->long_ ? 64 : send->len + 64;
		if (model()->stalls && send->state == SEND_WANTED)
			return;
	}
}

void core_wire_progress(struct core_domain *domain)
{
	struct core_conn *conn, *next;

	for (conn = TAILQ_FIRST(&conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		if (conn->src->domain == domain && conn->src->alive)
			conn_push(conn);
		if (conn->dst && conn->dst->domain == domain && conn->dst->alive)
			conn_pull(conn);
		if (conn->state == CONN_BROKEN && TAILQ_EMPTY(&conn->sends)) {
			TAILQ_REMOVE(&conns, conn, link);
			free(conn);
		}
	}
}

/* ---- posts ---- */

/* Does the model, or a fault, refuse it? */
static ssize_t send_refused(struct core_ep *ep)
{
	if (refusing[ep->name.node]) {
		refusing[ep->name.node] = false;
		world_tell("n%u: the core refuses a post", ep->name.node);
		return -FI_EIO;
	}
	if (!world.calm && world_upto(100) < world.script->full)
		return -FI_EAGAIN;
	return ep->posted >= model()->queue ? -FI_EAGAIN : 0;
}

ssize_t core_wire_send(struct core_ep *ep, struct core_send *send, fi_addr_t addr)
{
	struct core_name to;
	struct core_conn *conn;
	ssize_t ret;

	if (!ep->av || addr >= CORE_AV || !ep->av->names[addr].port)
		world_fail("n%u: the core is to send to address %zu, which is nobody's",
			   ep->name.node, (size_t) addr);
	to = ep->av->names[addr];
	ret = send_refused(ep);
	if (ret)
		return ret;
	conn = conn_find(ep, to);
	/* where nobody is told, a new process is not reached by what was open to the one before */
	if (!conn)
		conn = conn_open(ep, to);
	if (model()->refuses && conn->state != CONN_UP)
		return -FI_EAGAIN;
	send->conn = conn;
	send->long_ = send->kind == SEND_MSG && send->len > model()->eager;
	send->confirms = send->kind != SEND_MSG || send->flags & FI_DELIVERY_COMPLETE;
	if (send->flags & FI_INJECT && send->kind != SEND_READ)
		gather(send);
	ep->posted++;
	TAILQ_INSERT_TAIL(&conn->sends, send, link);
	return 0;
}

/* ---- ends ---- */

void core_wire_close(struct core_ep *ep, bool dies)
{
	struct core_conn *conn, *next;
	struct core_send *send;
	struct core_recv *recv;
	bool cut;

	ep->alive = false;
	while (!dies && (recv = TAILQ_FIRST(&ep->recvs))) {
		TAILQ_REMOVE(&ep->recvs, recv, link);
		recv_report(ep, recv, NULL, FI_ECANCELED);
	}
	for (conn = TAILQ_FIRST(&conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		if (conn->dst == ep)
			conn->at = world.now + delay(50000);
		if (conn->src != ep)
			continue;
		cut = false;
		for (send = TAILQ_FIRST(&conn->sends); send; send = TAILQ_NEXT(send, link)) {
			/* what is on its way gets there, if it is whole, or is cut off, with all behind it */
			cut |= send->state == SEND_WIRE && !world_upto(6);
			if (send->state != SEND_WIRE || send->long_ || cut)
				send_cut(send);
			if (!dies && !send->told) {
				send_done(send, FI_ECANCELED, 0);
				send_report(send);
			}
		}
	}
}

void core_kill(unsigned int node)
{
	struct core_ep *ep;

	TAILQ_FOREACH(ep, &core_eps, link) {
		if (ep->name.node == node && ep->alive)
			core_wire_close(ep, true);
	}
	core_forget(node);
}

void core_reset(unsigned int a, unsigned int b)
{
	struct core_conn *conn;

	TAILQ_FOREACH(conn, &conns, link) {
		if (conn->state != CONN_BROKEN && model()->connects &&
		    ((conn->src->name.node == a && conn->to.node == b) ||
		     (conn->src->name.node == b && conn->to.node == a)))
			conn_break(conn, FI_ECONNRESET);
	}
}

void core_refuse(unsigned int node)
{
	refusing[node] = true;
}

void core_lose(unsigned int node)
{
	losing[node] = true;
}

void core_calm(void)
{
	memset(refusing, 0, sizeof refusing);
	memset(losing, 0, sizeof losing);
}
