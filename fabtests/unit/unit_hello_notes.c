/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Notes on the boards of peers: they may be read before, or after, their writers are known. */
#include "unit_hello.h"

#include <sys/resource.h>
#include <rdma/fi_errno.h>

#include "proto/hello.h"
#include "proto/hello_facts.h"
#include "proto/rndv_match.h"
#include "xfer/progress.h"
#include "xfer/reports.h"

#define ID (77ULL << 24 | 1)
#define LEN 100000

/* What a receiver hears of the message */
static struct {
	bool known;
	int status;
	uint64_t len;
} told;

static void note_told(struct xfer_arrival *arrival)
{
	told.known = true;
	told.status = arrival->status;
	told.len = arrival->total;
	rndv_arrival_free(arrival, &fake_xfer);
}

/* A peer's board, which can be read here */
static struct board theirs;

static void open_notes(void)
{
	const uint64_t owner = xfer_board_owner(ID);

	open_ep();
	theirs = (struct board){.page = NULL};
	told.known = false;
	assert_int_equal(board_far_open(&fake_xfer.notes.boards, owner,
					board_open(&theirs, owner), 0, true),
			 0);
}

static void close_notes(void)
{
	assert_int_equal(fake_xfer.open, 0);
	assert_int_equal(fake_xfer.looks, 0);
	board_close(&theirs);
	close_ep();
}

/* The peer writes its note */
static void put_up(uint64_t token)
{
	const struct wire_msg msg = {
		.type = WIRE_ANNOUNCE,
		.token = token,
		.id = ID,
		.len = LEN,
		.chunk = 65536,
	};
	void *text = board_note(&theirs, ID);

	assert_non_null(text);
	board_show(&theirs, ID, wire_encode(&msg, text));
}

/* A marker comes, to a receive of the endpoint's */
static void mark_as(uint64_t id)
{
	struct xfer_arrival *arrival;
	int err;

	p2p_lock_take(&fake_xfer.lock);
	arrival = rndv_arrival_claim(&fake_xfer, id, note_told, &err);
	assert_non_null(arrival);
	rndv_arrival_bind(arrival, &hello_ep);
	rndv_arrival_check(arrival, &hello_ep);
	p2p_lock_drop(&fake_xfer.lock);
}

static void mark(void)
{
	mark_as(ID);
}

/* It is given up, or bears a token of long ago. It may be there before its marker, or come later. */
void test_note_given_up(void **state)
{
	static const int statuses[] = {-FI_ECANCELED, -FI_ECONNABORTED};

	for (size_t i = 0; i < 2 * UNIT_COUNT(statuses); i++) {
		open_notes();
		if (i & 1)
			mark();
		put_up(FAKE_TOKEN(FAKE_NEW));
		if (i < 2)
			board_give_up(&theirs, ID, statuses[0]);
		if (i & 1)
			xfer_progress(&fake_xfer);
		else
			mark();
		assert_true(told.known);
		assert_int_equal(told.status, statuses[i / 2]);
		close_notes();
	}
}

/* It was lost, and does not know that. */
void test_note_stale(void **state)
{
	open_notes();
	p2p_lock_take(&fake_xfer.lock);
	xfer_peer_expire(xfer_peer_find(&hello_ep, FAKE_ALIVE));
	p2p_lock_drop(&fake_xfer.lock);
	put_up(FAKE_TOKEN(FAKE_ALIVE));
	mark();
	assert_true(told.known);
	assert_int_equal(told.status, -FI_ECONNABORTED);
	close_notes();
}

/* No sender of ours gives a message the number 0. A marker with that waits as others do, and can be given up. */
void test_note_of_nobody(void **state)
{
	open_notes();
	mark_as(0);
	mark();
	assert_false(told.known);
	p2p_lock_take(&fake_xfer.lock);
	rndv_arrival_free(rndv_arrival_find(&fake_xfer, 0), &fake_xfer);
	rndv_arrival_free(rndv_arrival_find(&fake_xfer, ID), &fake_xfer);
	assert_true(LIST_EMPTY(&fake_xfer.notes.looks));
	p2p_lock_drop(&fake_xfer.lock);
	close_notes();
}

/* A receive that is not followed up may be that of any endpoint on its queue, and has no room. */
void test_note_untracked(void **state)
{
	int context;
	const struct core_comp marker = {
		.context = &context,
		.flags = FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA,
		.data = WIRE_MARK | ID,
	};
	struct core_comp comp;
	struct wire_msg answer;
	struct xfer_ep other;

	open_notes();
	fake_ep_open(&other, &fake_cq);
	fake_peer(&hello_ep, FAKE_NEW);
	put_up(FAKE_TOKEN(FAKE_NEW));
	xfer_take(&fake_cq, &marker, NULL);
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	assert_ptr_equal(comp.context, &context);
	assert_int_equal(comp.err, FI_ETRUNC);
	assert_int_equal(comp.olen, LEN);
	assert_int_equal(fake.sent[FAKE_NEW], 1);
	assert_true(sent(0, &answer));
	assert_int_equal(answer.type, WIRE_TAKE);
	assert_int_equal(answer.len, 0);
	fake_ep_close(&other);
	close_notes();
}

/* The peer is met with a message that it may be told of by a note: is it told of our board? */
static bool told_of_board(void)
{
	struct path_query query = {
		.announced = true,
		.near = true,
		.len = LEN,
		.plain_max = WIRE_PLAIN_MAX,
		.pieces = 1,
	};
	const size_t before = sent_count();
	struct wire_msg said;

	p2p_lock_take(&fake_xfer.lock);
	hello_meet(&hello_ep, FAKE_NEW, &query);
	p2p_lock_drop(&fake_xfer.lock);
	return sent_count() > before && sent(0, &said) && said.flags & WIRE_BOARD;
}

/*
 * There is no board when a peer gets to be known, as descriptors are short. It is told of it when there is one; and again,
 * as it may have been short of something as well, until it says that it reads it.
 */
void test_board_late(void **state)
{
	struct wire_msg said, reads = greeting(WIRE_READS, 0);
	struct rlimit limit, none;

	open_ep();
	unit_clock_stop();
	hello_ep.quirks |= QUIRK_NEAR;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){0, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	reads.token = greet().grant;
	reads.key = fake_xfer.ipc.host;
	hear(greeting(WIRE_ANSWERS, reads.token));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(sent(0, &said));
	assert_false(said.flags & WIRE_BOARD);
	unit_clock_pass(1000);
	assert_true(told_of_board());
	assert_false(told_of_board());
	unit_clock_pass(1000);
	assert_true(told_of_board());
	hear(reads);
	unit_clock_pass(60000);
	assert_false(told_of_board());
	unit_clock_run();
	close_ep();
}

/* ---- what is offered ---- */

/* Would a short message to the peer be offered? */
static bool offered(void)
{
	struct path_query query = {.takes = false};

	hello_query(&hello_ep, FAKE_NEW, &query);
	return query.takes;
}

/* Namespaces keep both processes apart, for ever or for now, or only one kind of memory, which is nothing to the other one */
static void look_apart(struct xfer_peer *peer)
{
	static const struct {
		enum path_far far;
		bool now, later;
	} apart[] = {
		{PATH_FAR_NET, true, true},
		{PATH_FAR_NUMBER, true, true},
		{PATH_FAR_USER, false, false},
		{PATH_FAR_SPACES, false, true},
	};

	for (size_t i = 0; i < UNIT_COUNT(apart); i++) {
		peer->facts &= ~HELLO_REFUSES;
		peer->offers = (struct retry){.delay = 0};
		assert_true(hello_takes_offers(peer));
		hello_offered(peer, 100000, apart[i].far, false);
		assert_int_equal(hello_takes_offers(peer), apart[i].now);
		peer->offers = (struct retry){.delay = 0};
		assert_int_equal(hello_takes_offers(peer), apart[i].later);
	}
}

/* Short messages are offered to who takes them, until one was not taken, and again once a long one was. */
void test_short_offers(void **state)
{
	static const struct {
		enum path_far far;
		bool plain;
	} declined[] = {
		{PATH_FAR_BUFFER, false},
		{PATH_FAR_BUSY, false},
		{PATH_FAR_UNKNOWN, true},
	};
	struct xfer_peer *peer;

	open_ep();
	meet();
	p2p_lock_take(&fake_xfer.lock);
	peer = xfer_peer_find(&hello_ep, FAKE_NEW);
	peer->host = fake_xfer.ipc.host;
	assert_true(offered());
	for (size_t i = 0; i < UNIT_COUNT(declined); i++) {
		hello_offered(peer, 20000, declined[i].far, declined[i].plain);
		assert_false(offered());
		hello_offered(peer, 100000, PATH_FAR_NOT, false);
		assert_true(offered());
	}
	look_apart(peer);
	p2p_lock_drop(&fake_xfer.lock);
	close_ep();
}
