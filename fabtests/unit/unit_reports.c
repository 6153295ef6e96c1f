/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of reports.c and of what becomes of records: receives that are followed up, long
 * messages whose peer is silent or says odd things, over a core provider made up here, whose
 * completions the test has in its hands.
 */
#include "unit_fake_core.h"

#include <netinet/in.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "proto/post.h"
#include "proto/proto_state.h"
#include "proto/rndv_choose.h"
#include "proto/rndv_match.h"
#include "proto/rndv_plain.h"
#include "proto/rndv_send.h"
#include "xfer/ctrl.h"
#include "xfer/keepalive.h"
#include "xfer/life.h"
#include "xfer/progress.h"
#include "xfer/reports.h"

static ssize_t try_recv(struct xfer_ep *ep, void *context)
{
	static char buf[8];
	const struct iovec iov = {buf, sizeof buf};
	const struct p2p_op op = {
		.type = FI_OP_RECV,
		.msg.msg_iov = &iov,
		.msg.iov_count = 1,
		.msg.addr = FI_ADDR_UNSPEC,
		.flags = FI_COMPLETION,
		.msg.context = context,
	};

	return xfer_post(ep, &op);
}

/* Posts a receive; the core's context of it */
static void *recv_post(struct xfer_ep *ep, void *context)
{
	assert_int_equal(try_recv(ep, context), 0);
	return fake.held[fake.count - 1].context;
}

/* A reader of the core's queue has found this there */
static enum xfer_taken take(void *core_context, int err, struct core_comp *report)
{
	const struct core_comp comp = {.context = core_context, .len = 3, .err = err};

	return xfer_take(&fake_cq, &comp, report);
}

static void next_is(bool error, const void *context)
{
	struct core_comp comp;

	assert_int_equal(xfer_cq_next(&fake_cq, error, &comp), 1);
	assert_ptr_equal(comp.context, context);
}

/* What comes while no other report waits is read at once, else in its turn. */
static void test_order(void **state)
{
	char users[5], foreign;
	void *posted[UNIT_COUNT(users)];
	struct core_comp report;
	struct xfer_ep ep;

	fake_start(true);
	fake_ep_open(&ep, &fake_cq);
	for (size_t i = 0; i < UNIT_COUNT(users); i++)
		posted[i] = recv_post(&ep, &users[i]);

	assert_int_equal(take(&foreign, 0, &report), XFER_PLAIN);
	assert_int_equal(take(posted[0], 0, &report), XFER_REPORTED);
	assert_ptr_equal(report.context, &users[0]);
	assert_int_equal(report.len, 3);
	assert_false(xfer_cq_has(&fake_cq));

	/* errors are for fi_cq_readerr(3) */
	assert_int_equal(take(posted[1], FI_ECANCELED, &report), XFER_TAKEN);
	assert_int_equal(take(posted[2], 0, &report), XFER_TAKEN);
	assert_int_equal(xfer_cq_next(&fake_cq, false, &report), -FI_EAVAIL);
	next_is(true, &users[1]);
	assert_int_equal(take(posted[3], 0, &report), XFER_TAKEN);
	next_is(false, &users[2]);
	next_is(false, &users[3]);
	assert_int_equal(take(posted[4], 0, &report), XFER_REPORTED);
	assert_ptr_equal(report.context, &users[4]);
	assert_int_equal(fake_xfer.cells.used, 0);
	fake_ep_close(&ep);
	fake_stop();
}

/* Every other report is to go. What stays loses its context, and keeps its place. */
static bool sift_keep(void *arg, struct core_comp *comp)
{
	const size_t i = (size_t) ((char *) comp->context - (char *) arg);

	comp->context = NULL;
	return i % 2;
}

static void test_sift(void **state)
{
	char users[5];
	struct core_comp comp;

	fake_start(false);
	assert_int_equal(xfer_cq_sift(&fake_cq, sift_keep, users), 0);
	p2p_lock_take(&fake_xfer.lock);
	for (size_t i = 0; i < UNIT_COUNT(users); i++) {
		comp = (struct core_comp){.context = &users[i], .len = i};
		xfer_cq_report(&fake_cq, &comp);
	}
	p2p_lock_drop(&fake_xfer.lock);
	assert_int_equal(xfer_cq_sift(&fake_cq, sift_keep, users), 3);
	for (size_t i = 1; i < UNIT_COUNT(users); i += 2) {
		assert_int_equal(xfer_cq_next(&fake_cq, false, &comp), 1);
		assert_null(comp.context);
		assert_int_equal(comp.len, i);
	}
	assert_false(xfer_cq_has(&fake_cq));
	assert_int_equal(fake_xfer.cells.used, 0);
	fake_stop();
}

/* One thread has read a completion, another one closes the endpoint, and others go on. */
static void test_closed_meanwhile(void **state)
{
	struct xfer_ep closed, open;
	struct core_comp report;
	char first, second;
	void *read, *posted;

	fake_start(true);
	fake_ep_open(&closed, &fake_cq);
	fake_ep_open(&open, &fake_cq);
	read = recv_post(&closed, &first);
	fake_ep_close(&closed);
	posted = recv_post(&open, &second);
	assert_int_equal(take(read, 0, &report), XFER_TAKEN);
	assert_false(xfer_cq_has(&fake_cq));
	assert_int_equal(take(posted, 0, &report), XFER_REPORTED);
	assert_ptr_equal(report.context, &second);
	fake_ep_close(&open);
	fake_stop();
}

/* Records of closed endpoints do not use up the cells. */
static void closing_often(bool shared)
{
	const size_t records = 10000, rounds = 3 * CELL_COUNT / records;
	struct xfer_ep ep;
	ssize_t ret;

	fake_start(shared);
	for (size_t round = 0; round < rounds; round++) {
		fake_ep_open(&ep, &fake_cq);
		for (size_t i = 0; i < records; i++) {
			/* the first attempt may have gained nothing but the right to the next one */
			for (int attempts = 0; attempts < 3; attempts++) {
				ret = try_recv(&ep, NULL);
				if (ret != -FI_EAGAIN)
					break;
			}
			assert_int_equal(ret, 0);
		}
		fake_ep_close(&ep);
	}
	if (!shared)
		assert_int_equal(fake_xfer.cells.used, 0);
	fake_stop();
}

static void test_closing_often(void **state)
{
	closing_often(true);
	closing_often(false);
}

/* ---- long messages ---- */

static void send_long(struct xfer_ep *ep, fi_addr_t addr)
{
	const struct p2p_op op = {.type = FI_OP_TSEND, .msg.addr = addr};
	const struct dev_mem none = {.ops = NULL};
	struct xfer_req *req = xfer_req_new(ep, &op, &none);

	assert_non_null(req);
	assert_int_equal(rndv_start(req, &op), 0);
}

/* Nothing is heard of any peer for so long, in which progress looks often [ms] */
static void silence(unsigned int time)
{
	for (unsigned int i = 0; i < time / XFER_WATCH; i++) {
		fake_xfer.survey.looked -= XFER_WATCH;
		xfer_progress(&fake_xfer);
	}
}

/* A silent peer is probed less and less; and not at all while the core has no room for it. */
static void test_silence(void **state)
{
	const size_t messages = 16, timeout = conf.peer_timeout;
	size_t first, cells;
	struct xfer_ep ep;

	conf.peer_timeout = 0;
	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	p2p_lock_take(&fake_xfer.lock);
	for (size_t i = 0; i < messages; i++) {
		send_long(&ep, FAKE_ALIVE);
		send_long(&ep, FAKE_DEAD);
	}
	p2p_lock_drop(&fake_xfer.lock);
	xfer_progress(&fake_xfer);
	first = fake.sent[FAKE_ALIVE];
	cells = fake_xfer.cells.used;

	silence(600000);
	assert_in_range(fake.sent[FAKE_ALIVE] - first, 5, 15);
	/* the core has not said yet that what it has taken is sent */
	assert_int_equal(fake_xfer.cells.used, cells + fake.sent[FAKE_ALIVE] - first);
	fake_ep_close(&ep);
	assert_int_equal(fake_xfer.cells.used, 0);
	fake_stop();
	conf.peer_timeout = timeout;
}

/* Who has not looked for long has not asked: a peer is lost when it leaves questions unanswered. */
static void test_held_up(void **state)
{
	const struct sockaddr_in name = {.sin_family = AF_INET};
	const size_t timeout = conf.peer_timeout;
	struct xfer_peer *peer;
	struct xfer_ep ep;

	conf.peer_timeout = 1;
	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	p2p_lock_take(&fake_xfer.lock);
	send_long(&ep, FAKE_ALIVE);
	peer = xfer_peer_find(&ep, FAKE_ALIVE);
	assert_non_null(peer);
	/* nothing has the port, and no thread here asks */
	ep.proto->keepalive = keepalive_listen(2, &name, sizeof name);
	assert_non_null(ep.proto->keepalive);
	peer->life.keepalive =
		keepalive_open(ep.proto->keepalive, 1, 1, &name, sizeof name, true, true);
	assert_non_null(peer->life.keepalive);
	/* as if it had answered now and then: it is not asked at once */
	peer->life.asks = 100;
	p2p_lock_drop(&fake_xfer.lock);

	for (int looks = 0; looks < 5; looks++) {
		fake_xfer.survey.looked -= 10000;
		xfer_progress(&fake_xfer);
		assert_int_equal(peer->state, XFER_PEER_KNOWN);
	}
	silence(1000);
	assert_int_not_equal(peer->state, XFER_PEER_KNOWN);
	fake_ep_close(&ep);
	fake_stop();
	conf.peer_timeout = timeout;
}

/*
 * What lacks a slot is given ordinary memory after a while, whatever it is: a read or write by way of the
 * core, too, of which no peer knows.
 */
static void test_spare(void **state)
{
	const struct p2p_op op = {.type = FI_OP_TSEND, .msg.addr = FAKE_ALIVE};
	const struct dev_mem none = {.ops = NULL};
	struct xfer_req *req;
	struct xfer_ep ep;

	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	p2p_lock_take(&fake_xfer.lock);
	req = xfer_req_new(&ep, &op, &none);
	assert_non_null(req);
	xfer_set_busy(req);
	p2p_lock_drop(&fake_xfer.lock);
	assert_int_equal(fake_xfer.proto->spare, 0);
	xfer_progress(&fake_xfer);
	assert_int_not_equal(fake_xfer.proto->spare, 0);
	fake_ep_close(&ep);
	fake_stop();
}

/* A request that has met the marker @id */
static struct xfer_req *marked_new(struct xfer_ep *ep, uint64_t flags, void *context,
				   uint64_t id)
{
	const struct p2p_op op = {
		.type = FI_OP_TRECV,
		.msg.addr = FI_ADDR_UNSPEC,
		.flags = flags | FI_COMPLETION,
		.msg.context = context,
	};
	const struct dev_mem none = {.ops = NULL};
	struct xfer_req *req = xfer_req_new(ep, &op, &none);

	assert_non_null(req);
	req->comp.data = WIRE_MARK | id;
	return req;
}

static void peek_found(struct xfer_req *req)
{
	xfer_req_end(req, 0);
}

/* A peek finds a marker */
static void marker_seen(struct xfer_ep *ep, uint64_t id, void *context)
{
	struct xfer_req *req;

	p2p_lock_take(&fake_xfer.lock);
	req = marked_new(ep, FI_PEEK, context, id);
	req->op_flags |= FI_PEEK;
	rndv_peeked(req, peek_found);
	p2p_lock_drop(&fake_xfer.lock);
}

/* It comes to a receive that is followed up */
static void marker_matched(struct xfer_ep *ep, uint64_t id, void *context)
{
	p2p_lock_take(&fake_xfer.lock);
	rndv_matched(marked_new(ep, 0, context, id));
	p2p_lock_drop(&fake_xfer.lock);
}

/* A marker comes to a short receive of host memory, which is not followed up */
static void marker_comes(struct xfer_cq *queue, uint64_t id)
{
	const struct core_comp comp = {.flags = FI_REMOTE_CQ_DATA, .data = WIRE_MARK | id};
	struct core_comp report;

	assert_int_equal(xfer_take(queue, &comp, &report), XFER_TAKEN);
}

/* The sender says so; @status: of what has failed there */
static void say(struct xfer_ep *ep, enum wire_type type, uint64_t id, int status)
{
	struct wire_msg msg = {
		.type = type,
		.token = FAKE_TOKEN(FAKE_ALIVE),
		.id = id,
		.status = status,
		.len = 100000,
		.chunk = 65536,
	};

	p2p_lock_take(&fake_xfer.lock);
	ctrl_dispatch(ep, &msg);
	p2p_lock_drop(&fake_xfer.lock);
}

/* A marker that is never announced goes with its endpoint, or at the latest with its queue. */
static void test_marker_alone(void **state)
{
	struct xfer_ep first, last, other;
	struct xfer_cq shared;

	fake_start(false);
	fake_ep_open(&first, &fake_cq);
	marker_comes(&fake_cq, 1);
	fake_ep_close(&first);
	assert_int_equal(fake_xfer.cells.used, 0);

	/* it does not tell which of two it has come to: it may be the one that stays */
	fake_cq_open(&shared);
	fake_ep_open(&first, &shared);
	fake_ep_open(&last, &shared);
	marker_comes(&shared, 2);
	marker_comes(&shared, 3);
	fake_ep_close(&last);
	say(&first, WIRE_ANNOUNCE, 2, 0);
	assert_int_equal(shared.count, 1);
	fake_ep_close(&first);
	assert_int_equal(xfer_cq_fini(&shared), 0);
	assert_int_equal(fake_xfer.open, 0);

	fake_ep_open(&other, &fake_cq);
	say(&other, WIRE_ANNOUNCE, 3, 0);
	assert_false(xfer_cq_has(&shared));
	fake_ep_close(&other);
	assert_int_equal(fake_xfer.cells.used, 0);
	fake_stop();
}

/* The sender gives up, and its announcement is not here: what waits for that ends, peeks too. */
static void test_abort_first(void **state)
{
	struct xfer_ep ep;
	char peek, recv;

	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	marker_seen(&ep, 1, &peek);
	marker_matched(&ep, 1, &recv);
	say(&ep, WIRE_DONE, 1, -FI_EIO);
	next_is(false, &peek);
	next_is(true, &recv);
	assert_int_equal(fake_xfer.open, 0);

	/* peeked at only: what receives it later ends at once */
	marker_seen(&ep, 2, &peek);
	say(&ep, WIRE_DONE, 2, -FI_EIO);
	next_is(false, &peek);
	marker_matched(&ep, 2, &recv);
	next_is(true, &recv);
	assert_int_equal(fake_xfer.open, 0);
	assert_int_equal(fake_xfer.busy, 0);
	fake_ep_close(&ep);
	assert_int_equal(fake_xfer.cells.used, 0);
	fake_stop();
}

/* A message that is to come by itself comes before it was asked for: that is not it. */
static void test_body_first(void **state)
{
	struct core_comp comp = {.data = WIRE_MARK | 1, .len = 5};
	struct xfer_ep ep;
	char peek, place;

	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	marker_seen(&ep, 1, &peek);
	p2p_lock_take(&fake_xfer.lock);
	rndv_divert(&ep, 1, &place, NULL);
	assert_null(rndv_diverted(&fake_xfer, &comp));
	assert_int_equal(comp.err, FI_ECONNABORTED);
	p2p_lock_drop(&fake_xfer.lock);
	say(&ep, WIRE_ANNOUNCE, 1, 0);
	next_is(false, &peek);
	comp.data = WIRE_MARK | 1;
	comp.err = 0;
	p2p_lock_take(&fake_xfer.lock);
	assert_ptr_equal(rndv_diverted(&fake_xfer, &comp), &place);
	p2p_lock_drop(&fake_xfer.lock);
	assert_int_equal(comp.len, 5);
	assert_int_equal(fake_xfer.open, 0);
	fake_ep_close(&ep);
	assert_int_equal(fake_xfer.cells.used, 0);
	fake_stop();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),         cmocka_unit_test(test_closed_meanwhile),
		cmocka_unit_test(test_closing_often), cmocka_unit_test(test_silence),
		cmocka_unit_test(test_held_up),       cmocka_unit_test(test_spare),
		cmocka_unit_test(test_marker_alone),  cmocka_unit_test(test_abort_first),
		cmocka_unit_test(test_body_first),    cmocka_unit_test(test_sift),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
