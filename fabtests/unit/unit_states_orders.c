/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages in orders that networks, threads and liars bring. See unit_states.h. */
#include "unit_states.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "mem/mem.h"
#include "proto/post.h"
#include "proto/rndv_stale.h"
#include "proto/proto_state.h"
#include "xfer/progress.h"
#include "xfer/region.h"
#include "xfer/reports.h"

static struct scene scene;

/* Has the core the marker, or the message, of this request? */
static bool core_has(const struct xfer_req *req)
{
	for (size_t i = 0; i < fake.count; i++) {
		if (fake.held[i].context == &req->ctx)
			return true;
	}
	return false;
}

static void expect_reports(unsigned int reports)
{
	scene_close(&scene);
	assert_int_equal(scene.reports, reports);
}

/*
 * An answer comes while the marker waits in the queue: whoever sends it can have matched nothing. What
 * is behind it in the queue is sent all the same, in order.
 */
void test_answered_in_queue(void **state)
{
	for (unsigned int said = 0; said < SAID_COUNT; said++) {
		struct xfer_req *req[3];
		uint64_t id;

		scene_open(&scene, NULL);
		fake.no_sends = true;
		for (size_t i = 0; i < UNIT_COUNT(req); i++)
			req[i] = scene_send(&scene, i == 1 ? 100 : SCENE_LEN, 0);
		scene_copy();
		assert_int_equal(scene.ep.waiting, 3);
		/* one that was refused ends with its marker */
		id = req[0]->transfer.id;
		scene_say_of(&scene, said, id);
		assert_int_equal(req[0]->state, XFER_MARKING);
		assert_int_equal(scene.ep.waiting, 3);
		assert_int_equal(scene.ep.ready, 3);

		fake.no_sends = false;
		xfer_progress(&fake_xfer);
		for (size_t i = 0; i < UNIT_COUNT(req); i++)
			assert_true(core_has(req[i]));
		assert_int_equal(scene.ep.waiting, 0);
		assert_int_equal(scene.ep.ready, 0);
		scene_drain(&scene);
		scene_say_of(&scene, SAID_REFUSED, id);
		scene_say_of(&scene, SAID_REFUSED, req[2]->transfer.id);
		expect_reports(3);
	}
}

/* Each TAKE says all: which comes first does not matter, and what one says twice counts once. */
void test_take_late(void **state)
{
	scene_open(&scene, NULL);
	scene.id = scene_send(&scene, SCENE_LEN, 0)->transfer.id;
	for (int i = 0; i < 2; i++) {
		scene_say(&scene, SAID_TAKE_MORE);
		scene_say(&scene, SAID_TAKE_PIECE);
		assert_int_equal(scene_state(&scene), XFER_PUSHING);
		assert_int_equal(scene.req->transfer.next, 2);
	}
	scene_say(&scene, SAID_TAKE_REST);
	assert_int_equal(scene_state(&scene), XFER_ENDING);
	assert_int_equal(scene.req->transfer.next, SCENE_PIECES);
	assert_int_equal(fake_xfer.wrong, 0);
	scene_drain(&scene);
	expect_reports(1);
}

/* So may the DONE of what nothing is wanted of come first. */
void test_done_first(void **state)
{
	scene_open(&scene, NULL);
	scene.id = scene_send(&scene, SCENE_LEN, FI_DELIVERY_COMPLETE)->transfer.id;
	scene_say(&scene, SAID_DONE);
	scene_say(&scene, SAID_TAKE_NOTHING);
	assert_int_equal(scene_state(&scene), XFER_ENDING);
	assert_int_equal(fake_xfer.wrong, 0);
	scene_drain(&scene);
	assert_int_equal(scene_state(&scene), XFER_ENDED);
	/* it is over, so nobody knows of it any more */
	scene_say(&scene, SAID_TAKE_NOTHING);
	assert_int_equal(fake_xfer.wrong, 0);
	expect_reports(1);
}

/* Its peer is lost while its marker waits: it is not sent any more, and whatever is said is late. */
void test_failed_in_queue(void **state)
{
	for (unsigned int said = 0; said < SAID_COUNT; said++) {
		scene_open(&scene, NULL);
		fake.no_sends = true;
		scene.id = scene_send(&scene, SCENE_LEN, FI_DELIVERY_COMPLETE)->transfer.id;
		scene_lose(&scene);
		assert_int_equal(scene_state(&scene), XFER_MARKING);
		fake.no_sends = false;
		xfer_progress(&fake_xfer);
		assert_int_equal(scene_state(&scene), XFER_ENDED);
		scene_say(&scene, said);
		scene_drain(&scene);
		expect_reports(1);
	}
}

/* The application hears of an error, once. */
static void expect_error(void)
{
	struct core_comp comp;

	assert_int_equal(scene_state(&scene), XFER_ENDED);
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	assert_int_equal(comp.err, FI_EIO);
	expect_reports(0);
}

/* The last thing that the core was given to send for the request, or its marker, fails there. */
static void last_send_fails(bool internal)
{
	for (size_t i = fake.count; i--;) {
		if (fake.held[i].kind != FAKE_SEND || fake.held[i].internal != internal)
			continue;
		scene_end(i, 0, FI_EIO);
		return;
	}
	fail_msg("the core sends nothing");
}

/* All pieces have begun, and one fails then: that is no success, the receiver is told, and gets the piece empty. */
void test_failed_late(void **state)
{
	size_t sent;

	scene_open(&scene, NULL);
	scene.id = scene_send(&scene, SCENE_LEN, 0)->transfer.id;
	scene_say(&scene, SAID_TAKE_ALL);
	assert_int_equal(scene_state(&scene), XFER_ENDING);
	scene_copy();
	sent = fake.sent[FAKE_ALIVE];
	last_send_fails(true);
	assert_int_equal(fake.sent[FAKE_ALIVE], sent + 2);
	scene_drain(&scene);
	expect_error();
}

/*
 * The owner is lost while what is written to it is copied to a slot, and is back when that has ended. It hears of
 * nothing, and the application of the loss: before, its buffer is still read. The slot is free again.
 */
void test_lost_while_copied(void **state)
{
	const struct stage_pool *pool = &fake_xfer.stage.pools[STAGE_SHORT_OUT];
	struct core_comp comp;
	size_t sent;

	scene_open(&scene, NULL);
	scene_write_lent(&scene);
	assert_int_equal(pool->idle, pool->count - 1);
	sent = fake.sent[FAKE_ALIVE];
	scene_lose(&scene);
	assert_int_not_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	fake_peer(&scene.ep, FAKE_ALIVE)->state = XFER_PEER_KNOWN;
	scene_copy();
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	assert_int_equal(comp.err, FI_ECONNABORTED);
	assert_int_equal(scene_state(&scene), XFER_ENDED);
	assert_int_equal(fake.sent[FAKE_ALIVE], sent);
	assert_int_equal(pool->idle, pool->count);
	expect_reports(0);
}

/* A peer may ask for as many pieces as there are bytes: their records are not made all at once. */
void test_asked_for_tiny(void **state)
{
	const uint32_t few = 1000;
	size_t sent;

	/* on a slow machine a peer is probed meanwhile */
	unit_clock_stop();
	for (size_t i = 0; i < scene_kind_count; i++) {
		const struct scene_kind *kind = &scene_kinds[i];

		if (kind->state != XFER_ANNOUNCED || kind->served)
			continue;
		scene_open(&scene, kind);
		sent = fake.sent[FAKE_ALIVE];
		scene_say(&scene, SAID_TAKE_TINY);
		assert_in_range(fake_xfer.cells.used, 1, few);
		scene_drain(&scene);
		assert_int_equal(fake.sent[FAKE_ALIVE] - sent, SCENE_LEN / SCENE_TINY);
		scene_give_up(&scene);
		assert_int_equal(scene_state(&scene), XFER_ENDED);
		expect_reports(1);
	}
	unit_clock_run();
}

/* What the peer asks for twice it gets once, and it chooses once. */
void test_asked_twice(void **state)
{
	static const enum said asks[] = {SAID_TAKE_PIECE, SAID_TAKE_ALL, SAID_TAKE_NOTHING,
					 SAID_TAKE_PLAIN};

	for (size_t i = 0; i < UNIT_COUNT(asks); i++) {
		for (size_t j = 0; j < UNIT_COUNT(asks); j++) {
			const bool pieces = i < 2 && j < 2;
			enum xfer_state after;
			uint64_t begun;

			scene_open(&scene, NULL);
			scene.id = scene_send(&scene, SCENE_LEN, FI_DELIVERY_COMPLETE)
					   ->transfer.id;
			scene_say(&scene, asks[i]);
			after = scene_state(&scene);
			begun = scene.req->transfer.next;
			begun = pieces && j ? SCENE_PIECES : begun;
			scene_say(&scene, asks[j]);
			assert_int_equal(scene_state(&scene), after);
			assert_int_equal(scene.req->transfer.next, begun);
			assert_int_equal(fake_xfer.wrong, !pieces);
			scene_drain(&scene);
			scene_give_up(&scene);
			expect_reports(1);
		}
	}
}

/* ---- arrivals ---- */

/* The marker of SCENE_ID comes: to the receive that the core has, or to one that is not followed up */
static void mark(bool followed)
{
	const struct core_comp comp = {
		.context = followed ? fake_take(0).context : &scene.reports,
		.flags = FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA,
		.data = WIRE_MARK | SCENE_ID,
	};

	scene_complete(&comp);
}

/* The marker and two messages: it comes before both, between them or after them. */
static void marked(bool followed, unsigned int first, unsigned int second, int when)
{
	scene_open(&scene, followed ? &scene_kinds[0] : NULL);
	if (!when)
		mark(followed);
	scene_say(&scene, first);
	if (when == 1)
		mark(followed);
	scene_say(&scene, second);
	if (when == 2)
		mark(followed);
	scene_drain(&scene);
	scene_give_up(&scene);
	scene_close(&scene);
	if (scene.reports != 1)
		fail_msg("%s, %s, and the marker at %d: %u reports", said_name(first),
			 said_name(second), when, scene.reports);
}

static void marked_all(bool followed)
{
	for (unsigned int first = 0; first < SAID_COUNT; first++) {
		for (unsigned int second = 0; second < SAID_COUNT; second++) {
			for (int when = 0; when < 3; when++)
				marked(followed, first, second, when);
		}
	}
}

void test_marked(void **state)
{
	marked_all(true);
}

void test_marked_untracked(void **state)
{
	marked_all(false);
}

/* A message is announced twice: the first one counts, whether it is received then or later. */
void test_announced_twice(void **state)
{
	for (int when = 0; when < 3; when++) {
		scene_open(&scene, &scene_kinds[0]);
		if (!when)
			mark(true);
		scene_say(&scene, SAID_ANNOUNCE);
		if (when == 1)
			mark(true);
		scene_say(&scene, SAID_ANNOUNCE_LENT);
		if (when == 2)
			mark(true);
		assert_int_equal(fake_xfer.wrong, 1);
		assert_int_equal(scene_state(&scene), XFER_PULLING);
		scene_drain(&scene);
		assert_int_equal(scene_state(&scene), XFER_ENDED);
		expect_reports(1);
	}
}

/* ---- offers of this process's memory, from peers ---- */

/* What the peer may write to and read, and what was never offered to it: both device memory */
static struct {
	char *reached, *secret;
	struct region region;
} forged;

#define FORGED_KEY (SCENE_KEY_MARK | 7)

static void forged_start(void)
{
	static char bytes[SCENE_LEN];
	struct region *region = &forged.region;

	forged.reached = unit_dev_alloc(SCENE_LEN);
	forged.secret = unit_dev_alloc(SCENE_LEN);
	*region = (struct region){
		.key = FORGED_KEY,
		.access = FI_REMOTE_READ | FI_REMOTE_WRITE,
		.iov = {{forged.reached, SCENE_LEN}},
		.count = 1,
		.len = SCENE_LEN,
	};
	assert_int_equal(mem_classify(region->iov, 1, NULL, &region->mem), 0);
	unit_fill(bytes, sizeof bytes, 1);
	unit_dev_write(forged.secret, bytes, sizeof bytes);
	unit_fill(bytes, sizeof bytes, 2);
	unit_dev_write(forged.reached, bytes, sizeof bytes);
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(region_add(&fake_xfer, region, false), 0);
	p2p_lock_drop(&fake_xfer.lock);
}

static void forged_stop(void)
{
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(region_remove(&fake_xfer, &forged.region), 0);
	p2p_lock_drop(&fake_xfer.lock);
	unit_dev_free(forged.reached);
	unit_dev_free(forged.secret);
}

/* A peer writes what it says is at @offset in the secret: is that there then? */
static bool forged_write(uint64_t id, size_t offset, size_t len)
{
	static char there[SCENE_LEN], secret[SCENE_LEN];
	struct wire_msg msg = {
		.type = WIRE_CALL,
		.op = FI_ATOMIC_WRITE,
		.id = id,
		.len = len,
		.chunk = SCENE_PIECE,
		.flags = WIRE_WANT_DONE,
		.key = FORGED_KEY,
		.name = "peer",
		.name_len = 4,
	};

	scene_note(&scene, &msg);
	scene_describe(forged.secret + offset, len, &msg.offer);
	scene_dispatch(&scene, &msg);
	scene_copy();
	unit_dev_sync();
	unit_dev_read(there, forged.reached, len);
	unit_dev_read(secret, forged.secret + offset, len);
	scene_say_of(&scene, SAID_GIVEN_UP, id);
	scene_drain(&scene);
	board_take_down(&scene.board, id | WIRE_MARK);
	return !memcmp(there, secret, len);
}

/*
 * A peer writes to memory that it may reach, and offers what is this process's own. That is taken
 * from this process alone, for the message that it was offered for, as long as that is under way.
 */
void test_offer_forged(void **state)
{
	struct dev_mem mem;

	forged_start();
	assert_true(dev_find(forged.secret, &mem));
	scene_open(&scene, NULL);
	scene.ep.policy = PATH_ANY;
	assert_false(forged_write(SCENE_ID, 0, SCENE_LEN));

	ipc_own_stand(&scene.own, SCENE_ID + 1, &mem, forged.secret + 9, 30000);
	assert_false(forged_write(SCENE_ID, 9, 30000));
	assert_false(forged_write(SCENE_ID + 1, 10, 29999));
	assert_false(forged_write(SCENE_ID + 1, 9, 30001));
	assert_false(forged_write(SCENE_ID + 1, 8, 30000));
	assert_true(forged_write(SCENE_ID + 1, 9, 30000));
	ipc_own_fall(&scene.own);
	scene_close(&scene);
	forged_stop();
}

/* An offer of ours stands as long as its message is under way, and no longer. */
void test_offer_stands(void **state)
{
	struct ipc_import *import;
	struct ipc_offer offer;
	struct ipc_claim claim = {.len = SCENE_LEN, .offer = &offer};
	struct dev_mem mem;
	void *addr;

	scene_open(&scene, NULL);
	scene.ep.policy = PATH_ANY;
	scene.id = scene_send(&scene, SCENE_LEN, 0)->transfer.id;
	mem = scene.req->mem;
	claim.number = scene.id;
	scene_describe(scene.req->iov[0].iov_base, SCENE_LEN, &offer);
	assert_int_equal(ipc_open(&fake_xfer.ipc, &claim, &mem, &import, &addr), 0);
	assert_ptr_equal(addr, scene.req->iov[0].iov_base);
	scene_drain(&scene);
	assert_int_equal(ipc_open(&fake_xfer.ipc, &claim, &mem, &import, &addr), 0);
	scene_say(&scene, SAID_DONE);
	assert_int_equal(scene_state(&scene), XFER_ENDED);
	assert_int_equal(ipc_open(&fake_xfer.ipc, &claim, &mem, &import, &addr),
			 -FI_EOPNOTSUPP);
	scene_close(&scene);
}

/* Another message begins (1) or ends (-1). */
static void other(int change)
{
	p2p_lock_take(&fake_xfer.lock);
	xfer_busy_add(&fake_xfer, change);
	p2p_lock_drop(&fake_xfer.lock);
}

/* The next look at what does not move */
static void look(void)
{
	fake_xfer.survey.looked -= XFER_WATCH;
	xfer_progress(&fake_xfer);
}

/*
 * A sender is lost whose pieces may be on their way to the side endpoint. Their receives are taken back, and
 * the core discards what comes all the same: one after the other, and again at the next look.
 */
void test_stale_pieces(void **state)
{
	static const int ends[] = {0, 0, FI_ENOMSG};

	scene_open(&scene, scene_kind_named("pulling, side"));
	scene.ep.quirks |= QUIRK_STALLS;
	other(1);
	look();
	scene_lose(&scene);
	while (fake.count) {
		const bool piece = fake.held[0].kind == FAKE_RECV;

		assert_int_equal(fake.held[0].cancelled, piece);
		scene_end(0, 0, piece ? FI_ECANCELED : 0);
	}
	assert_int_equal(scene_state(&scene), XFER_ENDED);
	for (unsigned int looks = 0; looks < 2; looks++) {
		look();
		for (size_t i = 0; i < UNIT_COUNT(ends); i++) {
			assert_int_equal(fake.count, 1);
			assert_int_equal(fake.held[0].flags,
					 FI_PEEK | FI_DISCARD | FI_COMPLETION);
			assert_int_equal(fake.held[0].tag, FAKE_TAG_BIT | WIRE_TAG_PIECE);
			scene_end(0, SCENE_PIECE, ends[i]);
		}
		assert_int_equal(fake.count, 0);
	}
	other(-1);
	expect_reports(1);
}

/* The core gives back what was cancelled, oldest first, and with success has sent what it was to send. */
static void give_back(void)
{
	for (size_t left = fake.count; left--;) {
		const bool cancelled = fake.held[0].cancelled;

		scene_end(0, 0, cancelled ? FI_ECANCELED : 0);
	}
}

/* A write of a peer's within the host, and the pieces of it that the core has receives for */
static void near_pieces(struct fake_op pieces[SCENE_PIECES])
{
	scene_open(&scene, scene_kind_named("pulling, a write"));
	scene.ep.quirks |= QUIRK_NEAR;
	for (size_t i = 0, n = 0; i < fake.count; i++) {
		if (fake.held[i].kind != FAKE_RECV)
			continue;
		assert_true(n < SCENE_PIECES);
		pieces[n++] = fake.held[i];
	}
}

/*
 * The same within a host. There each piece has a receive again, into memory that nobody reads, so that its
 * sender is told of the end of later messages. It ends when the piece is here, or at the close.
 */
void test_stale_near(void **state)
{
	struct fake_op pieces[SCENE_PIECES];

	near_pieces(pieces);
	scene_lose(&scene);
	give_back();
	assert_int_equal(scene_state(&scene), XFER_ENDED);
	assert_int_equal(fake.count, SCENE_PIECES);
	for (size_t i = 0; i < SCENE_PIECES; i++) {
		assert_int_equal(fake.held[i].tag, pieces[i].tag);
		assert_ptr_equal(fake.held[i].buf, fake.held[0].buf);
		assert_ptr_not_equal(fake.held[i].buf, pieces[i].buf);
		assert_true(fake.held[i].len >= SCENE_PIECE);
		assert_false(fake.held[i].cancelled);
	}
	scene_end(0, SCENE_PIECE, 0);
	assert_int_equal(fake.count, SCENE_PIECES - 1);
	expect_reports(0);
}

/* The same where there is no record for them but their own, and no memory for what they bring: they wait for that, in any order */
void test_stale_near_starved(void **state)
{
	struct stage_pool *pool = &fake_xfer.stage.pools[STAGE_PIECE];
	struct stage_reserve *sink = fake_xfer.stage.sink;
	struct cell_pool *cells = &fake_xfer.cells;
	const size_t size = pool->size;
	struct fake_op pieces[SCENE_PIECES];
	uint32_t touched;

	near_pieces(pieces);
	scene_lose(&scene);
	touched = cells->touched;
	cells->free = NULL;
	cells->touched = CELL_COUNT;
	fake_xfer.stage.sink = NULL;
	pool->size = SIZE_MAX;
	give_back();
	cells->touched = touched;
	fake_xfer.stage.sink = sink;
	pool->size = size;
	assert_int_equal(fake.count, 0);
	look();
	assert_int_equal(fake.count, SCENE_PIECES);
	for (size_t i = 0; i < SCENE_PIECES; i++)
		assert_int_equal(fake.held[i].tag, pieces[SCENE_PIECES - 1 - i].tag);
	expect_reports(0);
}

/* Who gives up sends only pieces that it had begun, by the number that it knows: those may come, also if it is lost then. */
void test_stale_near_aborted(void **state)
{
	struct wire_msg abort = {.type = WIRE_DONE, .status = -FI_EIO};
	struct fake_op pieces[SCENE_PIECES];

	for (int i = 0; i < 3; i++) {
		const bool known = i < 2;

		near_pieces(pieces);
		abort.id = scene.id;
		abort.count = (uint32_t) i;
		abort.transfer = (uint32_t) (pieces[0].tag >> WIRE_TAG_TRANSFER_SHIFT) + !known;
		scene_dispatch(&scene, &abort);
		scene_lose(&scene);
		give_back();
		assert_int_equal(scene_state(&scene), XFER_ENDED);
		assert_int_equal(fake.count, known ? abort.count : 0);
		if (fake.count)
			assert_int_equal(fake.held[0].tag, pieces[0].tag);
		expect_reports(0);
	}
}

/* ---- staging memory, and peers that do not go on ---- */

/* More than there are slots for, of three pieces each */
#define WRITES 100

/* A peer asks for long writes, whose pieces do not come. */
static void write_from(fi_addr_t peer, uint64_t id, uint64_t count)
{
	struct wire_msg msg = *said_msg(SAID_WRITE_LONG);

	msg.key = FORGED_KEY;
	scene.token = FAKE_TOKEN(peer);
	for (uint64_t i = 0; i < count; i++) {
		msg.id = id + i;
		scene_dispatch(&scene, &msg);
	}
	scene.token = FAKE_TOKEN(FAKE_ALIVE);
}

/* How many pieces of the peer's the core has receives for */
static unsigned int pulled(fi_addr_t peer)
{
	const struct xfer_req *req;
	unsigned int pieces = 0;

	TAILQ_FOREACH(req, &fake_xfer.in[XFER_PULLING], entry)
		pieces += req->peer->addr == peer ? req->transfer.in_flight : 0;
	return pieces;
}

/* However many transfers of a peer's stand still, another peer's have slots. */
void test_slots_shared(void **state)
{
	unsigned int first;

	forged_start();
	scene_open(&scene, NULL);
	write_from(FAKE_ALIVE, SCENE_ID, WRITES);
	xfer_progress(&fake_xfer);
	first = pulled(FAKE_ALIVE);
	write_from(FAKE_OTHER, SCENE_ID + WRITES, 1);
	xfer_progress(&fake_xfer);
	assert_int_equal(pulled(FAKE_OTHER), SCENE_PIECES);
	assert_int_equal(pulled(FAKE_ALIVE), first);
	scene_close(&scene);
	forged_stop();
}

/* Without slots, what is in need has other memory: one peer as well as the other. */
void test_spares_shared(void **state)
{
	struct stage_slots taken = LIST_HEAD_INITIALIZER(taken);
	struct stage_slot *slot;
	struct xfer_req *req;

	forged_start();
	scene_open(&scene, NULL);
	while ((slot = stage_slot_get(&fake_xfer.stage, STAGE_PIECE_IN, 1, NULL)))
		LIST_INSERT_HEAD(&taken, slot, entry);
	write_from(FAKE_ALIVE, SCENE_ID, WRITES);
	write_from(FAKE_OTHER, SCENE_ID + WRITES, 1);
	xfer_progress(&fake_xfer);
	assert_int_equal(pulled(FAKE_ALIVE) + pulled(FAKE_OTHER), 0);

	TAILQ_FOREACH(req, &fake_xfer.in[XFER_PULLING], entry)
		req->transfer.starved -= 1000;
	look();
	assert_int_equal(pulled(FAKE_ALIVE), 1);
	assert_int_equal(pulled(FAKE_OTHER), 1);
	look();
	assert_int_equal(pulled(FAKE_ALIVE), 1);
	while ((slot = LIST_FIRST(&taken))) {
		LIST_REMOVE(slot, entry);
		stage_slot_put(&fake_xfer.stage, slot);
	}
	scene_close(&scene);
	forged_stop();
}

/* Peers that take nothing may have all slots for short messages. After a while one to each peer goes without. */
void test_short_starved(void **state)
{
	struct stage_slots taken = LIST_HEAD_INITIALIZER(taken);
	struct stage_slot *slot;

	scene_open(&scene, NULL);
	while ((slot = stage_slot_get(&fake_xfer.stage, STAGE_WHOLE_OUT, 1, NULL)))
		LIST_INSERT_HEAD(&taken, slot, entry);
	assert_int_equal(scene_try(&scene, FAKE_ALIVE, SCENE_SHORT), -FI_EAGAIN);
	assert_int_equal(scene_try(&scene, FAKE_ALIVE, SCENE_SHORT), -FI_EAGAIN);
	fake_xfer.proto->starved -= 150;
	for (int round = 0; round < 2; round++) {
		assert_int_equal(scene_try(&scene, FAKE_ALIVE, SCENE_SHORT), 0);
		assert_int_equal(scene_try(&scene, FAKE_ALIVE, SCENE_SHORT), -FI_EAGAIN);
		/* those to others do not wait for it */
		assert_int_equal(scene_try(&scene, FAKE_OTHER, SCENE_SHORT), 0);
		assert_int_equal(scene_try(&scene, FAKE_OTHER, SCENE_SHORT), -FI_EAGAIN);
		scene_drain(&scene);
	}
	while ((slot = LIST_FIRST(&taken))) {
		LIST_REMOVE(slot, entry);
		stage_slot_put(&fake_xfer.stage, slot);
	}
	assert_int_equal(scene_try(&scene, FAKE_ALIVE, SCENE_SHORT), 0);
	assert_int_equal(fake_xfer.proto->starved, 0);
	scene_close(&scene);
}

/* A message that goes on may send the one behind it, to somebody else, which fails, and is nobody's any more. */
void test_resumed_with_next(void **state)
{
	struct xfer_req *first, *next;

	forged_start();
	scene_open(&scene, NULL);
	fake_peer(&scene.ep, FAKE_ALIVE)->state = XFER_PEER_NEW;
	first = scene_send(&scene, SCENE_LEN, 0);
	next = scene_send(&scene, SCENE_SHORT, 0);
	next->addr = FAKE_OTHER;
	fake.no_sends = true;
	scene_copy();
	fake.no_sends = false;
	assert_int_equal(first->state, XFER_GREETING);
	assert_int_equal(next->state, XFER_READY);
	next->comp.err = FI_EIO;
	fake_peer(&scene.ep, FAKE_ALIVE)->state = XFER_PEER_KNOWN;
	xfer_progress(&fake_xfer);
	assert_int_equal(first->state, XFER_ANNOUNCED);
	assert_true(TAILQ_EMPTY(&scene.ep.sendq));
	scene_close(&scene);
	forged_stop();
}

/* Messages that markers in a multi-receive buffer stand for */
#define MULTI_WAITS (SCENE_ID + 100)
#define MULTI_FAILS (SCENE_ID + 101)

/* What the application has read of a multi-receive buffer: messages, and that it is its own again */
static struct {
	unsigned int received;
	unsigned int released;
} multi;

static void multi_read(const struct core_comp *comp)
{
	assert_ptr_equal(comp->context, &scene);
	multi.received += comp->len == SCENE_SHORT;
	multi.released += (comp->flags & FI_MULTI_RECV) != 0;
}

/* The core says of the buffer that a message of @len bytes has come, or the marker of @id. */
static void multi_comes(const struct fake_op *op, size_t at, size_t len, uint64_t id,
			uint64_t flags)
{
	const struct core_comp comp = {
		.context = op->context,
		.flags = FI_RECV | FI_MSG | flags | (id ? FI_REMOTE_CQ_DATA : 0),
		.buf = (char *) op->buf + at,
		.len = len,
		.data = id ? WIRE_MARK | id : 0,
		.src = FAKE_ALIVE,
	};
	struct core_comp report;

	if (xfer_take(&fake_cq, &comp, &report) == XFER_REPORTED)
		multi_read(&report);
	while (xfer_cq_next(&fake_cq, false, &report) == 1)
		multi_read(&report);
}

/*
 * The last that comes to a buffer is the marker of a message that has failed. A message before that waited for another
 * marker's is reported then, as nothing more can come; with it the buffer ends.
 */
void test_multi_recv_fails_last(void **state)
{
	void *device = unit_dev_alloc(SCENE_LEN);
	const struct iovec iov = {device, SCENE_LEN};
	const struct p2p_op op = {
		.type = FI_OP_RECV,
		.msg.msg_iov = &iov,
		.msg.iov_count = 1,
		.msg.addr = FI_ADDR_UNSPEC,
		.flags = FI_MULTI_RECV | FI_COMPLETION,
		.msg.context = &scene,
	};
	struct fake_op held;

	scene_open(&scene, NULL);
	assert_int_equal(xfer_post(&scene.ep, &op), 0);
	held = fake.held[fake.count - 1];
	assert_true(held.flags & FI_MULTI_RECV);
	multi_comes(&held, 0, 0, MULTI_WAITS, 0);
	multi_comes(&held, 0, SCENE_SHORT, 0, 0);
	scene_copy();
	scene_say_of(&scene, SAID_ANNOUNCE, MULTI_FAILS);
	scene_say_of(&scene, SAID_GIVEN_UP, MULTI_FAILS);
	assert_int_equal(multi.received, 0);
	fake_take(fake.count - 1);
	multi_comes(&held, SCENE_SHORT, 0, MULTI_FAILS, FI_MULTI_RECV);
	assert_int_equal(multi.received, 1);
	assert_int_equal(multi.released, 1);
	scene_say_of(&scene, SAID_GIVEN_UP, MULTI_WAITS);
	scene_close(&scene);
	unit_dev_free(device);
}
