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
 * Each side moves only in its own process's progress. A process that makes none holds up the others. NICs go on by
 * themselves (core_nics_run()): a read, a write and a long message's bytes need nobody's.
 */
#include "core.h"
#include "exhaust.h"
#include "fiber.h"

#include "base/amo.h"
#include "base/base.h"

#include "xfer/wire.h"

/* The kernel takes so much at once */
#define CORE_BUFFERS ((size_t) 1 << 20)

struct core_eps core_eps = TAILQ_HEAD_INITIALIZER(core_eps);
uint64_t core_controls;
struct core_conns core_conns = TAILQ_HEAD_INITIALIZER(core_conns);
static uint64_t due;

uint64_t core_delay(const void *line, uint64_t usual)
{
	if (exhaust_on)
		return exhaust_ticket(TICKET_ARRIVAL, line) - world.now;
	return usual / 2 + world_upto(usual) +
	       (world_upto(40) ? 0 : world_upto(world_upto(4) ? SIM_MS : 30 * SIM_MS));
}

uint64_t core_end_delay(const struct core_send *send, uint64_t usual)
{
	return exhaust_on ? exhaust_ticket(TICKET_END, send) - world.now
			  : core_delay(send, usual);
}

static bool core_later(uint64_t at)
{
	if (!world_later(at))
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

void core_asked(void)
{
	if (world.child)
		world_fail("n%u: a child of fork() asks the core for what is its parent's",
			   world.current);
}

/* ---- completions ---- */

void core_wire_complete(struct core_cq *cq, struct core_done comp)
{
	struct core_done *last = calloc(1, sizeof *last);

	*last = comp;
	TAILQ_INSERT_TAIL(&cq->comps, last, link);
	world.moved = true;
}

void core_send_done(struct core_send *send, int err, uint64_t after)
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
			      : send->kind == SEND_READ || send->result ? FI_READ | FI_RMA
									: FI_WRITE | FI_RMA;

	send->told = true;
	ep->posted--;
	core_count(ep, kind, send->err);
	if (send->result && !send->err)
		memcpy(send->result, send->bytes, send->len);
	if (send->kind == SEND_READ && !send->err && !ep->model->nic) {
		check_granted(ep->name.node, send->bytes, send->len);
		core_scatter(send->iov, NULL, send->count, send->bytes, send->len);
	}
	if (send->tells || send->err)
		core_wire_complete(ep->txcq, (struct core_done){
						     .entry = {.op_context = send->context,
							       .flags = kind,
							       .len = send->len},
						     .src = FI_ADDR_NOTAVAIL,
						     .err = send->err,
					     });
}

/* ---- arrivals ---- */

static const struct model *model_of(const struct core_conn *conn)
{
	return conn->src->model;
}

/*
 * A core may end the connection over an error. But a peer that was lost for a fault goes on with what was lent to it. What was lent
 * to one that was only silent stays. What a NIC reads may be the application's, which has it back.
 */
static void rma_end(struct core_send *send, int err, uint64_t after)
{
	const struct core_conn *conn = send->conn;

	send->state = SEND_LANDED;
	core_send_done(send, err, after);
	if (!err)
		return;
	if (!(model_of(conn)->nic ? check_fails : check_breaks)(conn->to.node))
		world_fail("n%u: what is not granted is read or written at n%u",
			   conn->src->name.node, conn->to.node);
	world_tell("n%u: remote memory is not reached: %s", conn->src->name.node,
		   fi_strerror(err));
}

/* Whoever asks reads or writes it, whatever its owner does. False: not so */
static bool rma_reach(struct core_send *send)
{
	const struct core_conn *conn = send->conn;
	const bool reads = send->kind == SEND_READ;

	if (!model_of(conn)->reaches ||
	    !(reads || (send->kind == SEND_WRITE && !(send->flags & FI_DELIVERY_COMPLETE))))
		return false;
	core_send_tell(send, "reaches");
	rma_end(send, conn->dst && conn->dst->alive ? core_mem_reach(conn->dst, send) : FI_EIO,
		core_end_delay(send, 1000));
	return true;
}

static bool rma_is_by_nic(const struct core_send *send)
{
	return model_of(send->conn)->nic &&
	       (send->kind == SEND_READ || send->kind == SEND_WRITE);
}

static bool save_room(const struct core_conn *conn, const struct core_send *send)
{
	const struct model *model = model_of(conn);

	return !model->stalls ||
	       (send->tagged && conn->saved < model->saved && send->len <= model->saved_len);
}

/* False: it stays where it is, and holds up what comes behind it */
static bool send_arrive(struct core_conn *conn, struct core_send *send)
{
	struct core_ep *ep = conn->dst;
	struct core_recv *recv;

	if (send->kind != SEND_MSG) {
		core_send_tell(send, "there");
		rma_end(send, core_mem_reach(ep, send), core_end_delay(send, 3000));
		return true;
	}
	recv = send->claim ? NULL : core_recv_find(ep, send);
	if (recv) {
		core_send_tell(send, "there");
		core_send_meet(ep, send, recv);
		return true;
	}
	if (send->claim)
		return false;
	if (!save_room(conn, send))
		return false;
	core_send_save(ep, send);
	core_send_tell(send, "early");
	if (send->confirms && !send->long_ && model_of(conn)->delivers == DELIVERS_THERE)
		core_send_done(send, 0, core_end_delay(send, 3000));
	return true;
}

/* ---- connections ---- */

static bool ep_has(const struct core_ep *ep, struct core_name name)
{
	return ep->name.node == name.node && ep->name.port == name.port;
}

static struct core_ep *ep_named(struct core_name name)
{
	struct core_ep *ep;

	TAILQ_FOREACH(ep, &core_eps, link) {
		if (ep->alive && ep->enabled && ep_has(ep, name))
			return ep;
	}
	return NULL;
}

/* Was it an endpoint's of the process that @by is of, and is closed? A process that lies makes names up */
static bool ep_is_closed(const struct core_ep *by, struct core_name name)
{
	const struct core_ep *ep;
	bool was = false;

	TAILQ_FOREACH(ep, &core_eps, link)
		was |= ep_has(ep, name) && ep->life == by->life;
	return was && !ep_named(name);
}

/* Something may happen there from now on, for those of its ends that live */
static void conn_wake(struct core_conn *conn)
{
	if (!conn->is_out && conn->src->alive)
		TAILQ_INSERT_TAIL(&conn->src->domain->out, conn, out);
	conn->is_out |= conn->src->alive;
	if (!conn->dst || !conn->dst->alive)
		return;
	if (!conn->is_in)
		TAILQ_INSERT_TAIL(&conn->dst->domain->in, conn, in);
	conn->is_in = true;
}

static void conn_rest(struct core_conn *conn, bool out, bool in)
{
	if (out && conn->is_out)
		TAILQ_REMOVE(&conn->src->domain->out, conn, out);
	if (in && conn->is_in)
		TAILQ_REMOVE(&conn->dst->domain->in, conn, in);
	conn->is_out &= !out;
	conn->is_in &= !in;
}

/* The last one that was looked for is the first one */
static struct core_conn *conn_find(struct core_ep *src, struct core_name to)
{
	struct core_conn *conn;

	LIST_FOREACH(conn, &src->conns, of_src) {
		if (conn->state == CONN_BROKEN || conn->to.node != to.node ||
		    conn->to.port != to.port)
			continue;
		LIST_REMOVE(conn, of_src);
		LIST_INSERT_HEAD(&src->conns, conn, of_src);
		return conn;
	}
	return NULL;
}

static struct core_conn *conn_open(struct core_ep *src, struct core_name to)
{
	struct core_conn *conn = calloc(1, sizeof *conn);

	*conn = (struct core_conn){
		.state = src->model->connects ? CONN_ASKED : CONN_UP,
		.at = world.now + core_delay(conn, ep_named(to) ? 20000 : SIM_MS),
		.src = src,
		.dst = ep_named(to),
		.to = to,
	};
	TAILQ_INIT(&conn->sends);
	TAILQ_INSERT_TAIL(&core_conns, conn, link);
	LIST_INSERT_HEAD(&src->conns, conn, of_src);
	conn_wake(conn);
	return conn;
}

/* Has a part of it arrived where the reader stands? Only of the first one that is cut off */
static bool send_is_torn(const struct core_send *send)
{
	const struct core_send *before;

	if (!model_of(send->conn)->stalls || send->kind != SEND_MSG || send->state != SEND_WIRE)
		return false;
	TAILQ_FOREACH(before, &send->conn->sends, link) {
		if (before == send)
			break;
		if (before->torn)
			return false;
	}
	return send->long_ || (!exhaust_on && !world_upto(2));
}

/* It takes a receive, if there is one. Who has claimed it is told at that receive */
static void send_tear(struct core_send *send)
{
	send->recv = send->claim ? NULL : core_recv_find(send->conn->dst, send);
	core_send_land(send->conn->dst, send, FI_ECONNRESET);
}

/* The rest of it does not come */
static void send_cut(struct core_send *send)
{
	struct core_ep *dst = send->conn->dst;

	if ((send->state == SEND_WANTED || send->state == SEND_FILLED) && dst && dst->alive)
		core_send_land(dst, send, FI_ECONNRESET);
	else if (send_is_torn(send))
		send->torn = true;
	else if (send->state != SEND_SAVED)
		send->state = SEND_LANDED;
}

/* Nobody is there: what waits ends so, once that is known */
void core_conn_break(struct core_conn *conn, int err)
{
	struct core_send *send;

	conn->state = CONN_BROKEN;
	conn_wake(conn);
	if (conn->dst)
		world_tell("n%u:%u loses its connection to n%u:%u", conn->src->name.node,
			   conn->src->name.port, conn->to.node, conn->to.port);
	TAILQ_FOREACH(send, &conn->sends, link) {
		if (!send->done_at &&
		    !(send->long_ && send->state != SEND_QUEUED && model_of(conn)->keeps))
			core_send_done(send, err, 0);
		/* what was said to be sent gets there: a write before what goes by the next connection */
		if (send->state == SEND_WIRE && send->kind == SEND_WRITE && !send->confirms &&
		    conn->dst && conn->dst->alive)
			rma_end(send, core_mem_reach(conn->dst, send), 0);
		if (send->state != SEND_WIRE || send->long_ || send->confirms)
			send_cut(send);
	}
}

static void conn_fill(struct core_conn *conn, struct core_send *send)
{
	if (core_later(send->at))
		return;
	core_gather(send);
	lie_send(send);
	send->state = SEND_FILLED;
	send->at = world.now + core_delay(send, 3000) + send->len / 10;
}

/* In shared memory the first bytes lie beside the announcement, and a message that is not longer needs its sender no more */
static bool send_is_placed(const struct core_send *send)
{
	return model_of(send->conn)->reaches && send->len <= SIM_PLACED;
}

/* An operation of the sender's goes on its way, if there is room. False: those behind it wait, too */
static bool conn_launch(struct core_conn *conn, struct core_send *send)
{
	if (conn->state != CONN_UP || conn->flying > model_of(conn)->window)
		return false;
	if ((!send->long_ || send_is_placed(send)) && !send->bytes && !rma_is_by_nic(send) &&
	    send->kind != SEND_READ)
		core_gather(send);
	lie_send(send);
	if (rma_reach(send))
		return true;
	send->state = SEND_WIRE;
	if (rma_is_by_nic(send)) {
		send->at = world.now + core_delay(conn, 3000) + send->len / 10;
		core_send_tell(send, "goes");
		return true;
	}
	conn->flying += send->long_ ? 64 : send->len + 64;
	send->at = world.now + core_delay(conn, 3000) + (send->long_ ? 0 : send->len / 10);
	core_send_tell(send, "goes");
	if (!send->long_ && !send->confirms)
		core_send_done(send, 0, core_end_delay(send, 1000));
	if (core_cuts(conn, send))
		core_conn_break(conn, FI_ECONNRESET);
	return true;
}

/*
 * Is nobody there any more, and is that known? Time does not stop at that moment: a ring tries to reach a dead process again
 * and again, and it would stop for each try.
 */
static bool conn_is_cut(const struct core_conn *conn)
{
	return conn->state != CONN_BROKEN && !model_of(conn)->silent &&
	       (!conn->dst || !conn->dst->alive) && !world_later(conn->at);
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
	if (conn_is_cut(conn))
		core_conn_break(conn, conn->dst ? FI_ECONNRESET : FI_ECONNREFUSED);
	for (send = TAILQ_FIRST(&conn->sends); send; send = next) {
		next = TAILQ_NEXT(send, link);
		if (send->state == SEND_QUEUED && open)
			open = conn_launch(conn, send);
		if (send->state == SEND_WANTED && conn->state != CONN_BROKEN &&
		    !model_of(conn)->nic)
			conn_fill(conn, send);
		if (!send->told && send->done_at && !core_later(send->done_at))
			send_report(send);
		if (send->told && send->state == SEND_LANDED && !send->claim) {
			TAILQ_REMOVE(&conn->sends, send, link);
			exhaust_forget(send);
			free(send->bytes);
			free(send);
		}
	}
}

/* A message overtakes reads, and no writes */
static bool rma_is_passed(const struct core_send *send)
{
	return rma_is_by_nic(send) && send->kind == SEND_READ;
}

/* What the receiver's progress does for one connection to it */
static void conn_pull(struct core_conn *conn)
{
	struct core_send *send, *next;

	if (conn->state == CONN_ASKED && !core_later(conn->at)) {
		conn->state = CONN_ACCEPTED;
		conn->at = world.now + core_delay(conn, 20000);
	}
	for (send = TAILQ_FIRST(&conn->sends); send; send = next) {
		next = TAILQ_NEXT(send, link);
		if (send->state == SEND_FILLED && !core_later(send->at) &&
		    !core_send_waits(send)) {
			core_send_tell(send, "lands");
			core_send_land(conn->dst, send, 0);
		}
		/* a connection that stalls has one message at a time before its reader */
		if (model_of(conn)->stalls &&
		    (send->state == SEND_WANTED || send->state == SEND_FILLED))
			return;
		if (send->state != SEND_WIRE || rma_is_passed(send))
			continue;
		if (core_later(send->at) || rma_is_by_nic(send))
			return;
		if (send->torn)
			send_tear(send);
		else if (!send_arrive(conn, send))
			return;
		conn->flying -= send->long_ ? 64 : send->len + 64;
		if (model_of(conn)->stalls && send->state == SEND_WANTED)
			return;
	}
}

/* ---- what progress would find: as the functions above, which do it ---- */

static bool conn_pushes(const struct core_conn *conn)
{
	const struct core_send *send;
	bool open = conn->state == CONN_UP && conn->flying <= model_of(conn)->window;

	if ((conn->state == CONN_ACCEPTED && !core_later(conn->at)) || conn_is_cut(conn))
		return true;
	TAILQ_FOREACH(send, &conn->sends, link) {
		if ((send->state == SEND_QUEUED && open) ||
		    (send->state == SEND_WANTED && conn->state != CONN_BROKEN &&
		     !model_of(conn)->nic && !core_later(send->at)) ||
		    (!send->told && send->done_at && !core_later(send->done_at)))
			return true;
	}
	return false;
}

static bool send_arrives(const struct core_conn *conn, const struct core_send *send)
{
	return send->kind != SEND_MSG ||
	       (!send->claim && (core_recv_waits(conn->dst, send) || save_room(conn, send)));
}

static bool conn_pulls(const struct core_conn *conn)
{
	const struct core_send *send;

	if (conn->state == CONN_ASKED && !core_later(conn->at))
		return true;
	TAILQ_FOREACH(send, &conn->sends, link) {
		if (send->state == SEND_FILLED && !core_later(send->at) &&
		    !core_send_waits(send))
			return true;
		if (model_of(conn)->stalls &&
		    (send->state == SEND_WANTED || send->state == SEND_FILLED))
			return false;
		if (send->state == SEND_WIRE && !rma_is_passed(send))
			return !core_later(send->at) && !rma_is_by_nic(send) &&
			       send_arrives(conn, send);
	}
	return false;
}

bool core_wire_pends(const struct core_domain *domain,
		     bool (*concerns)(const struct core_ep *ep, const void *of), const void *of)
{
	const struct core_conn *conn;
	bool pends = false;

	/* all of them, as each tells when something of its own is due */
	TAILQ_FOREACH(conn, &domain->out, out) {
		if (conn->src->alive && concerns(conn->src, of))
			pends |= conn_pushes(conn);
	}
	TAILQ_FOREACH(conn, &domain->in, in) {
		if (conn->dst->alive && concerns(conn->dst, of))
			pends |= conn_pulls(conn);
	}
	return pends;
}

/* Nothing happens there until something is sent, or an end is closed */
static bool conn_is_quiet(const struct core_conn *conn)
{
	return TAILQ_EMPTY(&conn->sends) && conn->state == CONN_UP && conn->dst &&
	       conn->dst->alive;
}

/* True: it is no more */
static bool conn_end(struct core_conn *conn)
{
	if (conn->state != CONN_BROKEN || !TAILQ_EMPTY(&conn->sends))
		return false;
	conn_rest(conn, true, true);
	TAILQ_REMOVE(&core_conns, conn, link);
	LIST_REMOVE(conn, of_src);
	exhaust_forget(conn);
	free(conn);
	return true;
}

static void progress(struct core_domain *domain)
{
	struct core_conn *conn, *next;

	core_asked();
	for (conn = TAILQ_FIRST(&domain->out); conn; conn = next) {
		conn_push(conn);
		next = TAILQ_NEXT(conn, out);
		if (!conn_end(conn) && conn_is_quiet(conn))
			conn_rest(conn, true, false);
	}
	for (conn = TAILQ_FIRST(&domain->in); conn; conn = next) {
		conn_pull(conn);
		next = TAILQ_NEXT(conn, in);
		if (!conn_end(conn) && conn_is_quiet(conn))
			conn_rest(conn, false, true);
	}
}

void core_wire_progress(struct core_domain *domain)
{
	const uint64_t begun = fiber_clock();

	progress(domain);
	fiber_aside += fiber_clock() - begun;
}

/* ---- NICs ---- */

/* Either end sees that the connection is gone, in both directions */
static void nic_breaks(struct core_conn *conn)
{
	struct core_conn *back;

	check_reason(conn->src->name.node, conn->to.node, "a NIC was refused memory");
	core_conn_break(conn, FI_ECONNRESET);
	TAILQ_FOREACH(back, &core_conns, link) {
		if (back->src == conn->dst && back->dst == conn->src &&
		    back->state != CONN_BROKEN)
			core_conn_break(back, FI_ECONNRESET);
	}
}

/* It comes to a read or write: what lies at both ends now is what counts. False: the connection is gone */
static bool nic_reach(struct core_conn *conn, struct core_send *send)
{
	const bool reads = send->kind == SEND_READ;
	int err;

	core_send_tell(send, "reaches");
	if (!reads && !send->bytes)
		core_gather(send);
	err = core_mem_reach(conn->dst, send);
	if (!err && reads) {
		core_mem_check_send(send);
		core_scatter(send->iov, send->mr, send->count, send->bytes, send->len);
	}
	rma_end(send, err, core_end_delay(send, 2000));
	if (err)
		nic_breaks(conn);
	return !err;
}

static void nic_run(struct core_conn *conn)
{
	struct core_send *send;
	bool in_turn = true;

	TAILQ_FOREACH(send, &conn->sends, link) {
		if (send->state == SEND_WANTED)
			conn_fill(conn, send);
		if (send->state != SEND_WIRE || !rma_is_by_nic(send) || !in_turn)
			continue;
		in_turn = !core_later(send->at);
		if (in_turn && !nic_reach(conn, send))
			return;
	}
}

void core_nics_run(void)
{
	struct core_conn *conn;

	TAILQ_FOREACH(conn, &core_conns, link) {
		if (model_of(conn)->nic && conn->state == CONN_UP && conn->src->alive &&
		    conn->dst && conn->dst->alive)
			nic_run(conn);
	}
}

/* ---- posts ---- */

/* Does the model, or a fault, refuse it? */
static ssize_t send_refused(struct core_ep *ep)
{
	core_asked();
	if (core_refuses(ep))
		return -FI_EIO;
	if (!world.calm && world_upto(100) < world.script->full)
		return -FI_EAGAIN;
	return ep->posted >= (ep->model->posts ? ep->model->posts : ep->model->queue)
		       ? -FI_EAGAIN
		       : 0;
}

/* Does its end show that the peer has it? */
static bool send_confirms(const struct core_send *send)
{
	const struct model *model = model_of(send->conn);
	const bool asked = send->flags & FI_DELIVERY_COMPLETE;

	if (rma_is_by_nic(send))
		return true;
	switch (send->kind) {
	case SEND_MSG:
		return (asked && model->delivers != DELIVERS_NOT) ||
		       (send->len > model->eager && !send->long_);
	case SEND_WRITE:
		return asked || send->len > CORE_BUFFERS;
	default:
		return true;
	}
}

ssize_t core_wire_send(struct core_ep *ep, struct core_send *send, fi_addr_t addr)
{
	const struct model *model = ep->model;
	struct core_name to;
	struct core_conn *conn;
	ssize_t ret;

	if (!ep->av || addr >= CORE_AV || !ep->av->names[addr].port)
		world_fail("n%u: the core is to send to address %zu, which is nobody's",
			   ep->name.node, (size_t) addr);
	to = ep->av->names[addr];
	if (model->fragile && to.node == ep->name.node && ep_is_closed(ep, to))
		world_fail(
			"n%u: the core crashes at a send to a closed endpoint of its process",
			ep->name.node);
	ret = send_refused(ep);
	if (ret)
		return ret;
	conn = conn_find(ep, to);
	/* where nobody is told, a new process is not reached by what was open to the one before */
	if (!conn)
		conn = conn_open(ep, to);
	if (model->refuses && conn->state != CONN_UP)
		return -FI_EAGAIN;
	send->conn = conn;
	/* what is kept without a receive needs none to be there */
	send->long_ = send->kind == SEND_MSG && send->len > model->eager &&
		      send->len > model->saved_len;
	send->confirms = send_confirms(send);
	core_mem_check_send(send);
	if (send->flags & FI_INJECT && send->kind != SEND_READ)
		core_gather(send);
	ep->posted++;
	core_controls += send->kind == SEND_MSG && core_is_internal(send) &&
			 !(send->tag & WIRE_TAG_PIECE);
	TAILQ_INSERT_TAIL(&conn->sends, send, link);
	conn_wake(conn);
	if (rma_is_by_nic(send))
		conn_launch(conn, send);
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
	while (!dies && (recv = TAILQ_FIRST(&ep->recvs)))
		core_recv_cancel(ep, recv);
	for (conn = TAILQ_FIRST(&core_conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		if (conn->dst == ep) {
			conn->at = world.now + core_delay(conn, 50000);
			conn_rest(conn, false, true);
			conn_wake(conn);
		}
		if (conn->src != ep)
			continue;
		conn_rest(conn, true, false);
		cut = false;
		for (send = TAILQ_FIRST(&conn->sends); send; send = TAILQ_NEXT(send, link)) {
			/* what is on its way gets there, if it is whole, or is cut off, with all behind it */
			cut |= send->state == SEND_WIRE && !exhaust_on && !world_upto(6);
			if (send->state != SEND_WIRE || send->long_ || cut ||
			    rma_is_by_nic(send))
				send_cut(send);
			if (!dies && !send->told) {
				core_send_done(send, FI_ECANCELED, 0);
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
