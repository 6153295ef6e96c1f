/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Tokens that are lost: who bears one is told, whatever the two ends have forgotten of each other. */
#include "unit_hello.h"

#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "proto/hello_facts.h"
#include "proto/rndv_match.h"
#include "xfer/ctrl.h"
#include "xfer/life.h"
#include "xfer/loss.h"
#include "xfer/progress.h"
#include "xfer/reports.h"

#define ID 0x1234500000000077

static void lose_new(void)
{
	p2p_lock_take(&fake_xfer.lock);
	xfer_peer_lose(xfer_peer_find(&hello_ep, FAKE_NEW), -FI_ECONNRESET);
	p2p_lock_drop(&fake_xfer.lock);
}

static bool orphaned(uint64_t id)
{
	bool ret;

	p2p_lock_take(&fake_xfer.lock);
	ret = rndv_orphaned(&fake_xfer, id);
	p2p_lock_drop(&fake_xfer.lock);
	return ret;
}

/* The last message says that @token is lost */
static void assert_reset(uint64_t token)
{
	struct wire_msg msg;

	assert_true(sent(0, &msg));
	assert_true(wire_resets(&msg));
	assert_int_equal(msg.grant, token);
}

/* What an endpoint bears is lost at the one that gave it: nobody else can say so, and it is told once. */
void test_reset(void **state)
{
	struct wire_msg reset = greeting(0, 0);

	open_ep();
	hear(greeting(WIRE_ANSWERS, greet().grant));
	assert_int_equal(ready(FAKE_NEW), 0);
	reset.grant = GRANT + 1;
	hear(reset);
	assert_int_equal(ready(FAKE_NEW), 0);
	reset.grant = GRANT;
	hear(reset);
	assert_int_equal(ready(FAKE_NEW), -FI_ECONNRESET);
	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	hear(reset);
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_GREETED);
	close_ep();
}

/* Who is told may hold the token for lost by which it would know the sender: both have lost each other. */
void test_reset_of_lost(void **state)
{
	struct wire_msg reset = greeting(0, 0);

	open_ep();
	reset.token = meet();
	lose_new();
	assert_int_equal(ready(FAKE_NEW), -FI_ECONNRESET);
	meet();
	assert_int_equal(ready(FAKE_NEW), 0);
	reset.grant = GRANT;
	hear(reset);
	assert_int_equal(ready(FAKE_NEW), -FI_ECONNRESET);
	close_ep();
}

/* What it left unanswered before it was lost is no reason to ask it seldom. An answer that comes again changes nothing. */
void test_asked_anew(void **state)
{
	struct wire_msg answer;
	struct xfer_peer *peer;

	open_ep();
	meet();
	p2p_lock_take(&fake_xfer.lock);
	peer = xfer_peer_find(&hello_ep, FAKE_NEW);
	/* something is kept for it meanwhile */
	xfer_peer_hold(peer);
	peer->life.asks = peer->life.probes = 5;
	p2p_lock_drop(&fake_xfer.lock);
	lose_new();
	assert_int_equal(ready(FAKE_NEW), -FI_ECONNRESET);
	answer = greeting(WIRE_ANSWERS, meet());
	assert_int_equal(peer->life.asks + peer->life.probes, 0);
	peer->life.probes = 1;
	answer.epoch = peer->epoch;
	hear(answer);
	assert_int_equal(ready(FAKE_NEW), 0);
	assert_int_equal(peer->life.probes, 1);
	p2p_lock_take(&fake_xfer.lock);
	xfer_peer_put(peer);
	p2p_lock_drop(&fake_xfer.lock);
	close_ep();
}

/* A peer that is known may ask in doubt whether that process is still there. Whether it was lost is in the answer. */
void test_doubts(void **state)
{
	struct wire_msg ask, answer;

	open_ep();
	answer = greeting(WIRE_ANSWERS, meet());
	hear(answer);
	assert_int_equal(ready(FAKE_NEW), 0);
	answer.epoch = 1;
	hear(answer);
	assert_int_equal(ready(FAKE_NEW), -FI_ECONNRESET);
	ask = greet();
	assert_int_equal(ask.epoch, 1);
	answer.token = ask.grant;
	hear(answer);
	assert_int_equal(ready(FAKE_NEW), 0);

	lose_new();
	assert_int_equal(answered().epoch, 2);
	close_ep();
}

/* Whatever comes with a lost token is answered by that, also when the peer has been greeted anew. */
void test_bearer_told(void **state)
{
	struct wire_msg ask;
	uint64_t token;
	size_t count;

	open_ep();
	token = meet();
	lose_new();
	hear((struct wire_msg){.type = WIRE_PROBE, .token = token});
	assert_reset(token);
	assert_int_equal(ready(FAKE_NEW), -FI_ECONNRESET);
	meet();
	hear((struct wire_msg){.type = WIRE_DONE, .to_sender = true, .id = ID, .token = token});
	assert_reset(token);
	/* one that says the same is not answered: the two would go on for ever */
	count = sent_count();
	ask = greeting(0, token);
	ask.grant = GRANT + 1;
	hear(ask);
	assert_int_equal(sent_count(), count);
	assert_int_equal(ready(FAKE_NEW), 0);
	close_ep();
}

/*
 * A confirmation was on its way for so long that its sender has been lost since. It makes nobody known, and what is
 * announced behind it will not be waited for.
 */
void test_old_confirmation(void **state)
{
	struct wire_msg first, announce = {
				       .type = WIRE_ANNOUNCE,
				       .id = ID,
				       .len = 100000,
				       .chunk = 4096,
			       };

	open_ep();
	first = answered();
	hear(greeting(WIRE_CONFIRMS, first.grant));
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_KNOWN);
	/* said again by who is known it changes nothing */
	hear(greeting(WIRE_CONFIRMS, first.grant));
	lose_new();

	hear(greeting(WIRE_CONFIRMS, first.grant));
	assert_int_not_equal(state_of(FAKE_NEW), XFER_PEER_KNOWN);
	assert_reset(first.grant);
	assert_int_equal(fake_xfer.wrong, 0);
	announce.token = first.grant;
	hear(announce);
	assert_reset(first.grant);
	assert_true(orphaned(ID));

	/* a new greeting is another matter */
	hear(greeting(WIRE_CONFIRMS, answered().grant));
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_KNOWN);
	close_ep();
}

static bool spoke(void)
{
	bool ret;

	p2p_lock_take(&fake_xfer.lock);
	ret = xfer_peer_spoke(xfer_peer_find(&hello_ep, FAKE_NEW));
	p2p_lock_drop(&fake_xfer.lock);
	return ret;
}

/*
 * A peer that was lost may read what it was lent before. To answer a greeting shows nothing, as the peer may not know yet that
 * it was lost. What it says with its next token does, and so does a confirmation.
 */
void test_renewed(void **state)
{
	struct wire_msg confirm;

	open_ep();
	meet();
	lose_new();
	assert_int_equal(ready(FAKE_NEW), -FI_ECONNRESET);
	hear(greeting(WIRE_ANSWERS, greet().grant));
	assert_int_equal(ready(FAKE_NEW), 0);
	assert_false(spoke());
	assert_true(sent(0, &confirm));
	hear((struct wire_msg){.type = WIRE_PROBE, .token = confirm.grant});
	assert_true(spoke());
	lose_new();
	assert_false(spoke());
	hear(greeting(WIRE_CONFIRMS, answered().grant));
	assert_true(spoke());
	close_ep();
}

static int gone_status;

static void gone_ready(struct xfer_arrival *arrival)
{
	gone_status = arrival->status;
	rndv_arrival_free(arrival, &fake_xfer);
}

/* The marker of a message with @id has come, and its announcement has not */
static void mark_alone(uint64_t id)
{
	struct xfer_arrival *arrival;
	int err;

	gone_status = 0;
	arrival = rndv_arrival_claim(&fake_xfer, id, gone_ready, &err);
	assert_non_null(arrival);
	rndv_arrival_bind(arrival, &hello_ep);
	rndv_arrival_check(arrival, &hello_ep);
}

static void hours(unsigned int count)
{
	for (unsigned int i = 0; i < 3600 * count; i++)
		rndv_arrivals_watch(&fake_xfer, 1000);
}

/* Its sender lives, is known again, and announces a message whose receive has failed meanwhile: it is told. */
static void announced_late(uint64_t id)
{
	struct wire_msg answer, confirm, abort;

	assert_int_equal(ready(FAKE_NEW), -FI_ECONNRESET);
	answer = greeting(WIRE_ANSWERS, greet().grant);
	answer.id = xfer_board_owner(id);
	hear(answer);
	assert_true(sent(0, &confirm));
	hear((struct wire_msg){.type = WIRE_ANNOUNCE,
			       .token = confirm.grant,
			       .id = id,
			       .len = 100000,
			       .chunk = 4096});
	assert_true(sent(0, &abort));
	assert_int_equal(abort.type, WIRE_DONE);
	assert_int_equal(abort.id, id);
	assert_true(abort.to_sender);
	lose_new();
}

/*
 * The announcement of a message is lost, and it is not known whose it is. It is waited for as long as one of those lives
 * that it may be from: endpoints of one domain have ids alike.
 */
void test_marker_alone(void **state)
{
	const uint64_t owner = xfer_board_owner(ID);
	struct wire_msg answer = greeting(WIRE_ANSWERS, 0);
	struct xfer_peer *other;

	open_ep();
	answer.token = greet().grant;
	answer.id = owner;
	hear(answer);
	p2p_lock_take(&fake_xfer.lock);
	other = xfer_peer_find(&hello_ep, FAKE_ALIVE);
	other->owner = owner;
	mark_alone(ID);
	hours(10);
	xfer_peer_lose(xfer_peer_find(&hello_ep, FAKE_NEW), -FI_ECONNRESET);
	hours(10);
	assert_int_equal(gone_status, 0);
	xfer_peer_lose(other, -FI_ECONNRESET);
	hours(20);
	assert_int_equal(gone_status, -FI_ECONNRESET);
	/* and if it comes when they are lost already, after three seconds */
	mark_alone(ID + 1);
	rndv_arrivals_watch(&fake_xfer, 2900);
	assert_int_equal(gone_status, 0);
	rndv_arrivals_watch(&fake_xfer, 200);
	assert_int_equal(gone_status, -FI_ECONNRESET);
	p2p_lock_drop(&fake_xfer.lock);
	announced_late(ID);
	p2p_lock_take(&fake_xfer.lock);
	/* nothing is known of others */
	mark_alone(ID ^ UINT64_C(1) << 61);
	hours(10);
	assert_int_equal(gone_status, 0);
	p2p_lock_drop(&fake_xfer.lock);
	close_ep();
}

/* ---- processes of this host ---- */

/* The id of a process that has ended */
static pid_t ended(void)
{
	const pid_t child = fork();
	int status;

	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return child;
}

/*
 * A peer on this host has ended before it answered a datagram, as it gave no port at all. Its id tells, and nothing else
 * is taken for one: that of a process which lives, or that of another host.
 */
void test_ended_unheard(void **state)
{
	const struct {
		bool lives, far, apart, lost;
	} peers[] = {
		{.lost = true},
		{.lives = true},
		{.far = true},
		/* in another PID namespace, where the id is another process's */
		{.apart = true},
	};
	struct wire_msg answer;
	struct xfer_peer *peer;

	for (size_t i = 0; i < UNIT_COUNT(peers); i++) {
		open_ep();
		answer = greeting(WIRE_ANSWERS, greet().grant);
		answer.key = fake_xfer.ipc.host ^ peers[i].far;
		answer.data = fake_xfer.ipc.spaces.pid ^ peers[i].apart;
		answer.process = 5ULL << 32 | (uint32_t) (peers[i].lives ? getpid() : ended());
		hear(answer);
		p2p_lock_take(&fake_xfer.lock);
		peer = xfer_peer_find(&hello_ep, FAKE_NEW);
		xfer_peer_hold(peer);
		p2p_lock_drop(&fake_xfer.lock);
		for (unsigned int ms = 0; ms < 10000; ms += XFER_LOOK_MAX) {
			fake_xfer.survey.looked -= XFER_LOOK_MAX;
			xfer_progress(&fake_xfer);
		}
		assert_int_equal(ready(FAKE_NEW), peers[i].lost ? -FI_ECONNRESET : 0);
		p2p_lock_take(&fake_xfer.lock);
		xfer_peer_put(peer);
		p2p_lock_drop(&fake_xfer.lock);
		close_ep();
	}
}

/* ---- what cannot be said ---- */

/* The core fails to send the last control message */
static void fail_sent(void)
{
	struct core_comp comp = {.err = FI_EMFILE};
	size_t i = fake.count - 1;

	while (fake.held[i].kind != FAKE_SEND)
		i--;
	comp.context = fake_take(i).context;
	xfer_take(&fake_cq, &comp, NULL);
}

/* What goes beside the endpoint does not arrive: the peer is lost, and is told by the endpoint itself. */
void test_unsent_aside(void **state)
{
	struct wire_msg done = {.type = WIRE_DONE, .to_sender = true, .id = 5}, told;
	struct xfer_peer *peer;

	open_ep();
	fake_side_open(&hello_ep);
	hear(greeting(WIRE_ANSWERS, greet().grant));
	p2p_lock_take(&fake_xfer.lock);
	peer = xfer_peer_find(&hello_ep, FAKE_NEW);
	assert_ptr_equal(peer->via, &hello_ep.side);
	assert_int_equal(ctrl_tell(peer, &done), 0);
	p2p_lock_drop(&fake_xfer.lock);
	fail_sent();
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_FOREIGN);
	assert_true(sent(0, &told));
	assert_int_equal(told.type, WIRE_HELLO);
	assert_int_equal(told.token, GRANT);
	assert_int_equal(told.epoch, 1);
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(hello_ep.front.owed, 2);
	p2p_lock_drop(&fake_xfer.lock);
	close_ep();
}

/*
 * There is no memory for a request of a peer (@left 0), or for the answer: the peer, which waits for it, finds by the
 * counts that a message is missing.
 */
void test_owed(void **state)
{
	static void *cells[CELL_COUNT];
	struct wire_msg answer;
	uint64_t token;
	size_t count;

	for (size_t left = 0; left < 2; left++) {
		open_ep();
		token = meet();
		for (count = 0; (cells[count] = cell_get(&fake_xfer.cells)); count++)
			;
		for (size_t i = 0; i < left; i++)
			cell_put(&fake_xfer.cells, cells[--count]);
		hear((struct wire_msg){.type = WIRE_CALL,
				       .op = FI_ATOMIC_READ,
				       .flags = WIRE_FETCH,
				       .token = token,
				       .id = 7,
				       .key = 1,
				       .len = 8});
		while (count)
			cell_put(&fake_xfer.cells, cells[--count]);
		hear((struct wire_msg){.type = WIRE_PROBE, .token = token, .flags = WIRE_ASKS});
		assert_true(sent(0, &answer));
		assert_int_equal(answer.type, WIRE_PROBE);
		assert_int_equal(answer.count, 1);
		close_ep();
	}
}
