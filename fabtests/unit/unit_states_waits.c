/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What requests wait for, and what they hold meanwhile. See unit_states.h. */
#include "unit_states.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "mem/mem.h"
#include "proto/hello_facts.h"
#include "proto/post.h"
#include "proto/proto.h"
#include "proto/rndv_stale.h"
#include "xfer/loss.h"
#include "xfer/progress.h"
#include "xfer/region.h"
#include "xfer/reports.h"

/* So often progress is made without news */
#define PASSES 10

static struct scene scene;

/* ---- the NIC ---- */

static int mr_close(struct fid *fid)
{
	return 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr)
{
	static struct fi_ops ops = {.size = sizeof ops, .close = mr_close};
	static struct fid_mr region = {.fid.ops = &ops};

	*mr = &region;
	return 0;
}

/* It takes device memory, and the board. What is to be lent has a key, and is refused */
static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		  uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
		  void *context)
{
	return key ? -FI_ENOMEM : mr_regattr(fid, NULL, flags, mr);
}

static struct fi_ops_mr nic_mr_ops = {
	.size = sizeof nic_mr_ops,
	.reg = mr_reg,
	.regattr = mr_regattr,
};
static struct fid_domain nic = {.mr = &nic_mr_ops};

static void nic_start(void)
{
	conf.pin = CONF_PIN_PEERMEM;
	fake_xfer.map.domain = &nic;
}

static void nic_stop(void)
{
	conf.pin = CONF_PIN_AUTO;
	nic_map_trim(&fake_xfer.map);
	fake_xfer.notes.mr = NULL;
	fake_xfer.map.domain = NULL;
}

/* How many have device memory in the NIC's hands */
static unsigned int nic_users(void)
{
	const struct nic_map_entry *entry;
	unsigned int users = 0;

	TAILQ_FOREACH(entry, &fake_xfer.map.used, used)
		users += entry->users;
	return users;
}

/* ---- who waits ---- */

/* An endpoint whose peer is in @state */
static struct xfer_peer *open_to(enum xfer_peer_state state)
{
	struct xfer_peer *peer;

	scene_open(&scene, NULL);
	scene.ep.policy = PATH_ANY;
	peer = fake_peer(&scene.ep, FAKE_ALIVE);
	peer->state = state;
	peer->open = state == XFER_PEER_KNOWN;
	return peer;
}

static void look(void)
{
	for (int i = 0; i < PASSES; i++)
		xfer_progress(&fake_xfer);
}

static void finish(unsigned int reports)
{
	scene_drain(&scene);
	scene_give_up(&scene);
	scene_close(&scene);
	assert_int_equal(scene.reports, reports);
}

/* Who waits keeps no memory in the NIC's hands: neither for the answer, nor for others' ends. */
void test_waits_unpinned(void **state)
{
	struct xfer_peer *peer = open_to(XFER_PEER_NEW);
	size_t cells;

	nic_start();
	scene_send(&scene, SCENE_LEN, 0);
	assert_int_equal(scene_state(&scene), XFER_GREETING);
	cells = fake_xfer.cells.used;
	look();
	assert_int_equal(nic_users(), 0);
	assert_int_equal(fake_xfer.cells.used, cells);

	fake_peer(&scene.ep, FAKE_ALIVE)->sends = XFER_PEER_SENDS;
	look();
	assert_int_equal(scene_state(&scene), XFER_GREETING);
	assert_int_equal(nic_users(), 0);
	assert_int_equal(fake_xfer.cells.used, cells);

	peer->sends = 0;
	look();
	assert_int_equal(scene_state(&scene), XFER_ANNOUNCED);
	assert_int_equal(nic_users(), 1);
	scene.id = scene.req->transfer.id;
	finish(1);
	assert_int_equal(nic_users(), 0);
	nic_stop();
}

/* What was to be lent, and cannot be, goes in another way, and keeps one slot. */
void test_waits_unlent(void **state)
{
	const struct stage_pool *pool = &fake_xfer.stage.pools[STAGE_SHORT_OUT];

	open_to(XFER_PEER_NEW);
	conf.eager_size = SCENE_LEN;
	fake_xfer.stage.lender = &nic;
	unit_clock_stop();
	scene_send(&scene, SCENE_LEN, 0);
	assert_int_equal(scene_state(&scene), XFER_GREETING);
	assert_int_equal(pool->idle, pool->count);
	fake_peer(&scene.ep, FAKE_ALIVE);
	xfer_progress(&fake_xfer);
	assert_false(retry_due(&fake_xfer.stage.lend));
	assert_int_equal(scene_state(&scene), XFER_GREETING);
	assert_int_equal(pool->idle, pool->count);
	xfer_progress(&fake_xfer);
	assert_int_equal(scene_state(&scene), XFER_STAGING);
	assert_int_equal(pool->idle, pool->count - 1);
	unit_clock_run();
	conf.eager_size = SCENE_WHOLE;
	finish(1);
}

/* One look after what does not move, at a slot of @pool that a peer may read: is it still kept? */
static bool is_kept(const struct stage_pool *pool)
{
	p2p_lock_take(&fake_xfer.lock);
	rndv_proto.watch(&fake_xfer, XFER_WATCH);
	p2p_lock_drop(&fake_xfer.lock);
	return pool->idle == pool->count - 1;
}

/* What a peer says that is known again, in a new epoch */
static void hear(struct xfer_peer *peer, const struct wire_msg *msg)
{
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(xfer_peer_admit(peer, FAKE_TOKEN(FAKE_NEW)), 0);
	peer->open = true;
	xfer_token_count(xfer_token_find(&scene.ep, FAKE_TOKEN(FAKE_NEW)), msg);
	p2p_lock_drop(&fake_xfer.lock);
}

/*
 * A silent peer may read what was lent to it, however often it counts as lost. It has done so once it is heard by the way
 * that its reads take.
 */
void test_waits_kept(void **state)
{
	const struct stage_pool *pool = &fake_xfer.stage.pools[STAGE_SHORT_OUT];
	const struct wire_msg front = {.type = WIRE_ANNOUNCE, .front = true};
	const struct wire_msg side = {.type = WIRE_PROBE};
	struct xfer_peer *peer;
	fi_addr_t to;

	scene_open(&scene, NULL);
	peer = fake_peer(&scene.ep, FAKE_ALIVE);
	to = peer->to;
	/* another test had the core refuse a key */
	fake_xfer.stage.lend = (struct retry){.delay = 0};
	scene_write_lent(&scene);
	scene_copy();
	assert_true(is_kept(pool));
	for (int i = 0; i < 2; i++) {
		p2p_lock_take(&fake_xfer.lock);
		xfer_peer_lose(peer, -FI_ETIMEDOUT);
		p2p_lock_drop(&fake_xfer.lock);
		assert_true(is_kept(pool));
	}
	peer->to = FAKE_OTHER;
	hear(peer, &front);
	assert_true(is_kept(pool));
	hear(peer, &side);
	assert_false(is_kept(pool));
	assert_int_equal(pool->idle, pool->count);
	peer->to = to;
	finish(1);
}

/*
 * What is injected to a peer that was lost is copied at once, as the buffer is the application's again: whether it
 * fits a slot or not, and whether the peer answers or is lost once more.
 */
void test_waits_injected(void **state)
{
	static const size_t lens[] = {SCENE_TINY, SCENE_LEN};
	static char before[SCENE_LEN], after[SCENE_LEN];

	for (size_t i = 0; i < 2 * UNIT_COUNT(lens); i++) {
		struct xfer_peer *peer = open_to(XFER_PEER_NEW);
		const size_t len = lens[i / 2];
		void *buf;

		peer->facts |= HELLO_LOST;
		buf = scene_send(&scene, len, FI_INJECT)->iov[0].iov_base;
		assert_int_equal(scene_state(&scene), XFER_GREETING);
		unit_dev_read(before, buf, len);
		unit_fill(after, len, (unsigned int) i);
		unit_dev_write(buf, after, len);
		look();
		assert_int_equal(scene_state(&scene), XFER_GREETING);
		if (i % 2) {
			scene_lose(&scene);
			look();
			assert_int_equal(scene_state(&scene), XFER_ENDED);
			finish(1);
			continue;
		}
		fake_peer(&scene.ep, FAKE_ALIVE)->facts = 0;
		xfer_progress(&fake_xfer);
		assert_int_equal(scene_state(&scene), XFER_CORE);
		assert_memory_equal(scene.req->slot->addr, before, len);
		assert_memory_not_equal(scene.req->slot->addr, after, len);
		finish(1);
	}
}

/* An injected write by the core is copied in its call, or refused: also where all other slots are left to other peers. */
void test_waits_shared(void **state)
{
	const struct iovec iov = {unit_dev_alloc(SCENE_TINY), SCENE_TINY};
	const struct fi_rma_iov there = {.len = SCENE_TINY, .key = 1};
	const struct p2p_op op = {
		.type = FI_OP_WRITE,
		.rma.msg_iov = &iov,
		.rma.iov_count = 1,
		.rma.addr = FAKE_ALIVE,
		.rma.rma_iov = &there,
		.rma.rma_iov_count = 1,
		.rma.context = &scene.reports,
		.flags = FI_COMPLETION | FI_INJECT,
	};
	unsigned int *held;

	scene_open(&scene, NULL);
	held = &fake_peer(&scene.ep, FAKE_ALIVE)->slots[0];
	*held = 1u << 20;
	assert_int_equal(xfer_post_rma(&scene.ep, &op), -FI_EAGAIN);
	*held = 0;
	assert_int_equal(xfer_post_rma(&scene.ep, &op), 0);
	assert_true(*held);
	finish(1);
	unit_dev_free(iov.iov_base);
}

/* A receive of more places than one read may have would wait for room in it for ever: it asks for pieces. */
void test_waits_unread(void **state)
{
	static char host[SCENE_LEN];
	const struct iovec halves[] = {{host, SCENE_LEN / 2},
				       {host + SCENE_LEN / 2, SCENE_LEN / 2}};
	const struct p2p_op op = {
		.type = FI_OP_TRECV,
		.msg.msg_iov = halves,
		.msg.iov_count = UNIT_COUNT(halves),
		.msg.addr = FI_ADDR_UNSPEC,
		.flags = FI_COMPLETION,
		.msg.context = &scene.reports,
	};

	open_to(XFER_PEER_KNOWN);
	scene.ep.recv_iov_limit = UNIT_COUNT(halves);
	fake_xfer.stage.lender = &nic;
	/* the other one has been given up in other tests */
	scene.id = SCENE_ID + 200;
	assert_int_equal(xfer_post(&scene.ep, &op), 0);
	scene.req = fake_take(fake.count - 1).context;
	scene_complete(&(struct core_comp){
		.context = scene.req,
		.flags = FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA,
		.data = WIRE_MARK | scene.id,
	});
	scene_say(&scene, SAID_ANNOUNCE_LENT);
	look();
	assert_int_equal(scene_state(&scene), XFER_PULLING);
	finish(1);
}

/*
 * Who waits is asked once a pass and peer at most, however many there are: not at all, as long as the peer has not
 * answered, and no time has passed.
 */
void test_waits_unasked(void **state)
{
	const size_t before = conf.hello_timeout;
	struct xfer_peer *peer = open_to(XFER_PEER_NEW);
	struct xfer_req *req[3];
	uint64_t hits;

	nic_start();
	for (size_t i = 0; i < UNIT_COUNT(req); i++)
		req[i] = scene_send(&scene, SCENE_LEN, 0);
	hits = scene.ep.stats.cache_hits;
	look();
	assert_int_equal(scene.ep.stats.cache_hits, hits);
	fake_peer(&scene.ep, FAKE_ALIVE)->sends = XFER_PEER_SENDS;
	look();
	assert_int_equal(scene.ep.stats.cache_hits, hits + PASSES);
	peer->sends = 0;
	xfer_progress(&fake_xfer);
	for (size_t i = 0; i < UNIT_COUNT(req); i++) {
		assert_int_equal(req[i]->state, XFER_ANNOUNCED);
		scene_say_of(&scene, SAID_REFUSED, req[i]->transfer.id);
	}
	finish(UNIT_COUNT(req));

	/* who is late is found so by time alone */
	open_to(XFER_PEER_NEW);
	scene_send(&scene, SCENE_LEN, 0);
	look();
	assert_int_equal(scene_state(&scene), XFER_GREETING);
	conf.hello_timeout = 0;
	fake_xfer.survey.looked = 0;
	xfer_progress(&fake_xfer);
	assert_int_equal(scene_state(&scene), XFER_STAGING);
	conf.hello_timeout = before;
	finish(1);
	nic_stop();
}

/* A peer answers while what was to go whole to it is copied: that is announced after all, and counted once. */
void test_waits_answered(void **state)
{
	const size_t timeout = conf.hello_timeout, chunk = conf.chunk_size;
	struct xfer_peer *peer = open_to(XFER_PEER_NEW);

	scene.ep.policy = PATH_STAGE_ONLY;
	scene_send(&scene, SCENE_LEN, 0);
	conf.hello_timeout = 0;
	conf.chunk_size = SCENE_PIECE;
	fake_xfer.survey.looked = 0;
	xfer_progress(&fake_xfer);
	assert_int_equal(scene_state(&scene), XFER_STAGING);
	peer->state = XFER_PEER_KNOWN;
	peer->open = true;
	while (scene_state(&scene) == XFER_STAGING)
		xfer_progress(&fake_xfer);
	xfer_progress(&fake_xfer);
	assert_int_equal(scene_state(&scene), XFER_ANNOUNCED);
	assert_null(scene.req->reserve);
	assert_int_equal(scene.ep.stats.tx_msgs[FI_P2P_PATH_STAGE], 1);
	assert_int_equal(scene.ep.stats.tx_bytes[FI_P2P_PATH_STAGE], SCENE_LEN);
	scene_say_of(&scene, SAID_REFUSED, scene.req->transfer.id);
	conf.hello_timeout = timeout;
	conf.chunk_size = chunk;
	finish(1);
}

/*
 * The receiver has no memory for the announcement of a message whose marker still waits. The marker goes, as a receive is to
 * fail by it; and its sender does not wait for more.
 */
void test_waits_refused(void **state)
{
	open_to(XFER_PEER_KNOWN);
	scene.ep.policy = PATH_STAGE_ONLY;
	fake.no_sends = true;
	scene.id = scene_send(&scene, SCENE_LEN, FI_DELIVERY_COMPLETE)->transfer.id;
	scene_say(&scene, SAID_REFUSED);
	assert_int_equal(scene_state(&scene), XFER_MARKING);
	fake.no_sends = false;
	xfer_progress(&fake_xfer);
	assert_int_not_equal(fake.count, 0);
	scene_drain(&scene);
	assert_int_equal(scene_state(&scene), XFER_ENDED);
	finish(1);
}

/* One core says that it has no memory for a receive when it has no room. Of all others that is so, and would stay so. */
void test_waits_unposted(void **state)
{
	static char host[SCENE_LEN];
	const struct iovec iov = {host, sizeof host};
	const struct p2p_op op = {
		.type = FI_OP_TRECV,
		.msg.msg_iov = &iov,
		.msg.iov_count = 1,
		.msg.addr = FI_ADDR_UNSPEC,
		.flags = FI_COMPLETION,
	};

	open_to(XFER_PEER_KNOWN);
	fake.recv_error = -FI_ENOMEM;
	assert_int_equal(xfer_post(&scene.ep, &op), -FI_ENOMEM);
	scene.ep.quirks |= QUIRK_RECV_NOMEM;
	assert_int_equal(xfer_post(&scene.ep, &op), -FI_EAGAIN);
	fake.recv_error = 0;
	assert_int_equal(xfer_post(&scene.ep, &op), 0);
	finish(0);
}

/*
 * The core has an operation on remote memory whose peer nobody had met as it began. It is known by now, and is lost: the core
 * may never tell, and the operands lie in our memory.
 */
void test_waits_unknown(void **state)
{
	static uint64_t word;
	const struct fi_ioc operand = {&word, 1};
	const struct fi_rma_ioc there = {.count = 1};
	const struct p2p_op op = {
		.type = FI_OP_ATOMIC,
		.atomic.msg_iov = &operand,
		.atomic.iov_count = 1,
		.atomic.addr = FAKE_ALIVE,
		.atomic.rma_iov = &there,
		.atomic.rma_iov_count = 1,
		.atomic.datatype = FI_UINT64,
		.atomic.op = FI_SUM,
		.atomic.context = &scene.reports,
		.flags = FI_COMPLETION,
	};
	struct xfer_peer *peer = open_to(XFER_PEER_NEW);
	struct core_comp comp;

	assert_int_equal(xfer_post_atomic(&scene.ep, &op), 0);
	assert_int_equal(peer->users, 1);
	fake_peer(&scene.ep, FAKE_ALIVE);
	scene_lose(&scene);
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	assert_int_equal(comp.err, FI_ECONNABORTED);
	finish(0);
}

/*
 * A peer's long write waits until a short one before it is in its place. The pass in which that ends asks for pieces: an
 * application that sleeps then makes no other one before something comes.
 */
void test_waits_behind_write(void **state)
{
	struct wire_msg msg = *said_msg(SAID_WRITE);
	struct xfer_list *pulling = &fake_xfer.in[XFER_PULLING];
	struct region region = {
		.key = SCENE_KEY_MARK | 8,
		.access = FI_REMOTE_WRITE,
		.iov = {{unit_dev_alloc(SCENE_SHORT), SCENE_SHORT}},
		.count = 1,
		.len = SCENE_SHORT,
	};

	assert_int_equal(mem_classify(region.iov, 1, NULL, &region.mem), 0);
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(region_add(&fake_xfer, &region, false), 0);
	p2p_lock_drop(&fake_xfer.lock);
	scene_open(&scene, NULL);
	msg.id = SCENE_ID + 1;
	msg.key = region.key;
	scene_dispatch(&scene, &msg);
	scene_say(&scene, SAID_WRITE_LONG);
	assert_true(TAILQ_EMPTY(pulling));
	scene_copy();
	scene.req = TAILQ_FIRST(pulling);
	assert_non_null(scene.req);
	assert_int_equal(scene.req->transfer.next, SCENE_PIECES);
	assert_int_equal(scene.req->transfer.recv.granted, 0);
	finish(0);
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(region_remove(&fake_xfer, &region), 0);
	p2p_lock_drop(&fake_xfer.lock);
	unit_dev_free(region.iov[0].iov_base);
}

/* Pieces that never come do not take all of the core's receives: the oldest are given up. */
void test_stale_near_many(void **state)
{
	const uint64_t tag = FAKE_TAG_BIT | WIRE_TAG_PIECE;
	size_t most;

	scene_open(&scene, NULL);
	for (uint64_t i = 0; i < 1000; i++) {
		p2p_lock_take(&fake_xfer.lock);
		rndv_stale_expect(&scene.ep.front, tag | i);
		p2p_lock_drop(&fake_xfer.lock);
	}
	assert_int_equal(fake.count, 1000);
	for (most = 0; !fake.held[999 - most].cancelled; most++)
		assert_int_equal(fake.held[999 - most].tag, tag | (999 - most));
	assert_int_equal(most, 256);
	for (size_t i = 0; i < 1000 - most; i++)
		assert_true(fake.held[i].cancelled);
	scene_close(&scene);
}

/*
 * What was offered may be another message's by the time that it is copied: the note tells. Then the copy does not count,
 * and the sender hears so.
 */
void test_offer_fell(void **state)
{
	struct core_comp comp;

	scene_open(&scene, scene_kind_named("copying across"));
	board_take_down(&scene.board, SCENE_ID | WIRE_MARK);
	scene_copy();
	assert_int_equal(scene_state(&scene), XFER_ENDED);
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	assert_int_equal(comp.err, FI_ECONNABORTED);
	finish(0);
}

/* Where no note tells how long an offer stands, nothing is copied: pieces are asked for. */
void test_offer_unnoted(void **state)
{
	struct wire_msg msg = *said_msg(SAID_ANNOUNCE);

	scene_open(&scene, scene_kind_named("matched"));
	scene.ep.policy = PATH_ANY;
	msg.id = SCENE_ID;
	scene_note(&scene, &msg);
	scene_describe(scene.req->iov[0].iov_base, SCENE_LEN, &msg.offer);
	ipc_own_stand(&scene.own, SCENE_ID, &(struct dev_mem){.id = msg.offer.id},
		      scene.req->iov[0].iov_base, SCENE_LEN);
	msg.count++;
	scene_dispatch(&scene, &msg);
	assert_int_equal(scene_state(&scene), XFER_PULLING);
	finish(1);
}

/* An offer stands no longer than its sender waits, which is told of a loss though the core keeps the marker. */
void test_offer_falls_early(void **state)
{
	struct ipc_import *import;
	struct ipc_offer offer;
	struct ipc_claim claim = {.len = SCENE_LEN, .offer = &offer};
	struct core_comp comp;
	void *addr;

	scene_open(&scene, NULL);
	scene.ep.policy = PATH_ANY;
	claim.number = scene.id = scene_send(&scene, SCENE_LEN, 0)->transfer.id;
	scene_describe(scene.req->iov[0].iov_base, SCENE_LEN, &offer);
	scene_lose(&scene);
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	assert_int_not_equal(comp.err, 0);
	assert_int_equal(ipc_open(&fake_xfer.ipc, &claim, &scene.req->mem, &import, &addr),
			 -FI_EOPNOTSUPP);
	scene_drain(&scene);
	assert_int_equal(scene_state(&scene), XFER_ENDED);
	scene_close(&scene);
}

/* What the core reads or writes has other memory in need, too. */
void test_spare_for_core(void **state)
{
	struct stage_slots taken = LIST_HEAD_INITIALIZER(taken);
	struct stage_slot *slot;

	while ((slot = stage_slot_get(&fake_xfer.stage, STAGE_PIECE_OUT, SCENE_PIECE, NULL)))
		LIST_INSERT_HEAD(&taken, slot, entry);
	scene_open(&scene, scene_kind_named("bouncing"));
	assert_int_equal(scene.req->transfer.in_flight, 0);
	scene.req->transfer.starved -= 1000;
	fake_xfer.survey.looked -= XFER_WATCH;
	xfer_progress(&fake_xfer);
	assert_int_equal(scene.req->transfer.in_flight, 1);
	while ((slot = LIST_FIRST(&taken))) {
		LIST_REMOVE(slot, entry);
		stage_slot_put(&fake_xfer.stage, slot);
	}
	scene_drain(&scene);
	assert_int_equal(scene_state(&scene), XFER_ENDED);
	scene_close(&scene);
}
