/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages between two endpoints of a domain: the marker meets a receive of one, here, and its announcement has come to the
 * other, there. Either may close first. See unit_states.h.
 */
#include "unit_states.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "proto/post.h"
#include "proto/proto_state.h"
#include "xfer/life.h"
#include "xfer/progress.h"
#include "xfer/reports.h"

/* So long a close waits; and for what is being copied [ms] */
#define FAREWELL 50
#define PATIENCE 10000

static struct scene here, there, third;

static bool is_piece(const struct fake_op *op)
{
	return op->kind == FAKE_RECV && op->internal && !(op->flags & FI_PEEK);
}

/* So many pieces the core is to receive */
static size_t pieces(void)
{
	size_t count = 0;

	for (size_t i = 0; i < fake.count; i++)
		count += is_piece(&fake.held[i]);
	return count;
}

/* The core ends the first one that it has. */
static void piece_ends(size_t len, int err)
{
	size_t i = 0;

	while (i < fake.count && !is_piece(&fake.held[i]))
		i++;
	scene_end(i, len, err);
}

/* So often the sender is told to give up */
static size_t aborts(void)
{
	struct wire_msg msg;
	size_t count = 0;
	const char *why;

	for (size_t i = 0; i < fake.count; i++) {
		const struct fake_op *op = &fake.held[i];

		if (op->kind == FAKE_SEND && op->internal &&
		    !wire_decode(op->text, op->text_len, &msg, &why))
			count += msg.type == WIRE_DONE;
	}
	return count;
}

/* The application's receive that was posted last meets the marker. */
static void mark(void)
{
	size_t i = fake.count - 1;

	while (fake.held[i].kind != FAKE_RECV || fake.held[i].internal)
		i--;
	scene_complete(&(struct core_comp){
		.context = fake_take(i).context,
		.flags = FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA,
		.data = WIRE_MARK | SCENE_ID,
	});
}

/* The scenes' messages have one id. */
static void forget_lost(void)
{
	seen_ids_fini(&fake_xfer.proto->lost);
}

/* Cores that mix endpoints stall. */
static void start(const char *name)
{
	forget_lost();
	fake_xfer.farewell = FAREWELL;
	scene_open(&there, NULL);
	scene_open(&here, scene_kind_named(name));
	there.ep.quirks |= QUIRK_STALLS;
	here.ep.quirks |= QUIRK_STALLS;
}

/* The last one closes. */
static void finish(struct scene *scene)
{
	fake_xfer.farewell = 0;
	scene_close(scene);
}

/* What the application hears of the receive: once, an error or 0 */
static void expect_end(int err)
{
	struct core_comp comp = {.err = 0};

	assert_int_equal(scene_state(&here), XFER_ENDED);
	assert_int_equal(xfer_cq_next(&fake_cq, err != 0, &comp), 1);
	assert_int_equal(comp.err, err);
	assert_ptr_equal(comp.context, &here.reports);
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 0);
	assert_int_equal(xfer_cq_next(&fake_cq, false, &comp), 0);
}

/* ---- the endpoint of the announcement closes first ---- */

static void close_there(int err)
{
	fake_ep_close(&there.ep);
	xfer_progress(&fake_xfer);
	expect_end(err);
	finish(&here);
	assert_int_equal(here.reports, 0);
}

void test_closed_across(void **state)
{
	/* pieces are with the core; the sender is told, and the core has all that goes with its endpoint */
	start("matched");
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	xfer_progress(&fake_xfer);
	assert_int_equal(pieces(), SCENE_PIECES);
	close_there(FI_ECANCELED);

	/* none are yet */
	start("matched");
	fake.no_recvs = true;
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	xfer_progress(&fake_xfer);
	assert_int_equal(scene_state(&here), XFER_PULLING);
	close_there(FI_ECANCELED);

	/* they come by the endpoint beside it, and the announcement was the first */
	start("a receive");
	scene_side(&there);
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	mark();
	xfer_progress(&fake_xfer);
	assert_int_equal(pieces(), SCENE_PIECES);
	close_there(FI_ECANCELED);
}

/* One piece is being copied to the device. */
void test_closed_across_copying(void **state)
{
	start("matched");
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	xfer_progress(&fake_xfer);
	piece_ends(SCENE_PIECE, 0);
	assert_int_equal(here.req->transfer.copying, 1);
	fake_xfer.farewell = PATIENCE;
	close_there(FI_ECANCELED);
}

/* All is here, and the DONE waits for room. */
void test_closed_across_telling(void **state)
{
	struct wire_msg msg = *said_msg(SAID_ANNOUNCE);

	start("a receive");
	mark();
	msg.id = SCENE_ID;
	msg.flags = WIRE_WANT_DONE;
	scene_dispatch(&there, &msg);
	xfer_progress(&fake_xfer);
	fake.no_internal = true;
	for (int i = 0; i < SCENE_PIECES; i++)
		piece_ends(SCENE_PIECE, 0);
	assert_int_equal(scene_state(&here), XFER_TELLING);
	close_there(0);
}

/* The message comes between the beginning and the end of the close: nothing of it begins. */
void test_closed_across_late(void **state)
{
	start("matched");
	there.ep.proto->closes = true;
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	expect_end(FI_ECANCELED);
	assert_int_equal(aborts(), 1);
	fake_ep_close(&there.ep);
	finish(&here);
}

/* ---- the endpoint of the receive closes first ---- */

static void close_here(void)
{
	struct core_comp comp;

	assert_int_equal(xfer_ep_fini(&here.ep), -FI_EBUSY);
	assert_int_equal(aborts(), 1);
	assert_int_equal(pieces(), SCENE_PIECES);
	for (size_t i = 0; i < fake.count; i++)
		assert_int_equal(fake.held[i].cancelled, is_piece(&fake.held[i]));
	/* the last one is on its way into the buffer, and cannot be taken back */
	while (pieces() > 1)
		piece_ends(0, FI_ECANCELED);
	assert_int_equal(xfer_ep_fini(&here.ep), -FI_EBUSY);
	piece_ends(SCENE_PIECE, 0);
	assert_int_equal(scene_state(&here), XFER_ENDED);
	fake_ep_close(&here.ep);
	assert_true(xfer_cq_next(&fake_cq, true, &comp) == 1);
	assert_int_equal(comp.err, FI_ECANCELED);
	scene_say_of(&there, SAID_GIVEN_UP, SCENE_ID);
	finish(&there);
}

/* The core of the other endpoint may write into the buffer of the receive: the endpoint is open until it does not. */
void test_closes_across(void **state)
{
	start("a receive");
	mark();
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	xfer_progress(&fake_xfer);
	close_here();

	start("a receive");
	scene_side(&there);
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	mark();
	xfer_progress(&fake_xfer);
	close_here();
}

/* What has no piece, or has not been announced, is no reason to wait. The sender hears that nobody wants it. */
void test_closes_across_idle(void **state)
{
	start("matched");
	fake.no_recvs = true;
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	xfer_progress(&fake_xfer);
	fake_ep_close(&here.ep);
	scene_say_of(&there, SAID_GIVEN_UP, SCENE_ID);
	finish(&there);

	start("matched");
	fake_ep_close(&here.ep);
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	assert_int_equal(aborts(), 1);
	finish(&there);
	forget_lost();
}

/* ---- peeks ---- */

/* Another endpoint has seen the marker before, and closes: the receive goes on. */
void test_peeked_across(void **state)
{
	struct core_comp comp;

	forget_lost();
	scene_open(&third, scene_kind_named("peeking"));
	start("matched");
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	fake_ep_close(&third.ep);
	xfer_progress(&fake_xfer);
	assert_int_equal(scene_state(&here), XFER_PULLING);
	scene_say_of(&there, SAID_GIVEN_UP, SCENE_ID);
	while (pieces())
		piece_ends(0, FI_ECANCELED);
	assert_int_equal(scene_state(&here), XFER_ENDED);
	fake_ep_close(&there.ep);
	finish(&here);

	/* before anything is known */
	scene_open(&third, scene_kind_named("peeking"));
	start("matched");
	fake_ep_close(&third.ep);
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	xfer_progress(&fake_xfer);
	close_there(FI_ECANCELED);

	/* before its marker is received */
	scene_open(&there, NULL);
	scene_open(&third, scene_kind_named("peeking"));
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	assert_int_equal(xfer_cq_next(&fake_cq, false, &comp), 1);
	fake_ep_close(&third.ep);
	scene_open(&here, scene_kind_named("a receive"));
	mark();
	xfer_progress(&fake_xfer);
	assert_int_equal(scene_state(&here), XFER_PULLING);
	close_there(FI_ECANCELED);
}

/* The peek waits for what closes: it ends. */
void test_peeks_across(void **state)
{
	struct core_comp comp;

	forget_lost();
	scene_open(&third, scene_kind_named("peeking"));
	scene_open(&here, scene_kind_named("matched"));
	fake_ep_close(&here.ep);
	assert_int_equal(scene_state(&third), XFER_ENDED);
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	assert_int_equal(comp.err, FI_ECANCELED);
	finish(&third);
}

/* A peek has claimed it, and its sender's word is gone by the time that it is received. */
void test_claimed_across(void **state)
{
	const struct iovec iov = {&third, 0};
	struct p2p_op op = {
		.type = FI_OP_TRECV,
		.msg.msg_iov = &iov,
		.msg.iov_count = 1,
		.msg.addr = FAKE_ALIVE,
		.msg.context = &here.reports,
		.flags = FI_CLAIM | FI_COMPLETION,
	};
	struct core_comp comp;

	scene_open(&there, NULL);
	scene_open(&here, scene_kind_named("a receive"));
	op.flags |= FI_PEEK;
	assert_int_equal(xfer_post(&here.ep, &op), 0);
	mark();
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	assert_int_equal(xfer_cq_next(&fake_cq, false, &comp), 1);
	fake_ep_close(&there.ep);
	op.flags &= ~FI_PEEK;
	assert_int_equal(xfer_post(&here.ep, &op), 0);
	mark();
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	assert_int_equal(comp.err, FI_ECONNABORTED);
	finish(&here);
	forget_lost();
}

/* ---- multi-receive buffers ---- */

static char multi[SCENE_LEN];

static void start_multi(void)
{
	const struct iovec iov = {multi, sizeof multi};
	const struct p2p_op op = {
		.type = FI_OP_RECV,
		.msg.msg_iov = &iov,
		.msg.iov_count = 1,
		.msg.addr = FI_ADDR_UNSPEC,
		.flags = FI_MULTI_RECV | FI_COMPLETION,
		.msg.context = &here,
	};

	fake_xfer.farewell = FAREWELL;
	scene_open(&there, NULL);
	scene_open(&here, NULL);
	assert_int_equal(xfer_post(&here.ep, &op), 0);
	scene_complete(&(struct core_comp){
		.context = fake.held[fake.count - 1].context,
		.flags = FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA,
		.buf = multi,
		.data = WIRE_MARK | SCENE_ID,
		.src = FAKE_ALIVE,
	});
}

void test_multi_recv_across(void **state)
{
	start_multi();
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	assert_false(TAILQ_EMPTY(&here.ep.proto->multi_msgs));
	fake_ep_close(&there.ep);
	/* nothing is held back behind it any more */
	assert_true(TAILQ_EMPTY(&here.ep.proto->multi_msgs));
	finish(&here);

	start_multi();
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	fake_ep_close(&here.ep);
	scene_say_of(&there, SAID_GIVEN_UP, SCENE_ID);
	finish(&there);

	/* its announcement is late */
	start_multi();
	fake_ep_close(&here.ep);
	scene_say_of(&there, SAID_ANNOUNCE, SCENE_ID);
	scene_say_of(&there, SAID_GIVEN_UP, SCENE_ID);
	finish(&there);
}

/* ---- ways ---- */

/* The core of one endpoint reads nothing for another one's receive: what is lent, or the NIC reaches, comes in pieces. */
static void way(uint32_t flags)
{
	static struct fid_domain nic;
	struct wire_msg msg = *said_msg(SAID_ANNOUNCE_LENT);

	start("a receive");
	mark();
	fake_xfer.stage.lender = fake_xfer.map.domain = &nic;
	msg.id = SCENE_ID;
	msg.flags = flags;
	scene_dispatch(&there, &msg);
	fake_xfer.stage.lender = fake_xfer.map.domain = NULL;
	assert_int_equal(scene_state(&here), XFER_PULLING);
	xfer_progress(&fake_xfer);
	assert_int_equal(pieces(), SCENE_PIECES);
	close_there(FI_ECANCELED);
}

void test_ways_across(void **state)
{
	way(WIRE_LENT | WIRE_WANT_DONE);
	way(WIRE_READABLE | WIRE_WORD | WIRE_WANT_DONE);
}
