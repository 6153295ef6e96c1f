/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A request in each of its states. See unit_states.h. */
#include "unit_states.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "mem/mem.h"
#include "proto/post.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "xfer/ctrl.h"
#include "xfer/life.h"
#include "xfer/loss.h"
#include "xfer/progress.h"
#include "xfer/region.h"
#include "xfer/reports.h"
#include "xfer/xfer_proto.h"

/* Device memory, here and of what is offered; host memory, and what of it peers reach */
static void *device, *device_there;
static char host[SCENE_LEN], reached[SCENE_LEN];
static struct region region;

/* What slots that are lent, and the NIC's memory, would be registered with */
static int mr_close(struct fid *fid)
{
	return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		  uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
		  void *context)
{
	static struct fi_ops ops = {.size = sizeof ops, .close = mr_close};
	static struct fid_mr region = {.fid.ops = &ops};

	region.key = key;
	*mr = &region;
	return 0;
}

static struct fi_ops_mr nic_mr_ops = {.size = sizeof nic_mr_ops, .reg = mr_reg};
static struct fid_domain nic = {.mr = &nic_mr_ops};

/* ---- what the application and the core do ---- */

void scene_complete(const struct core_comp *comp)
{
	xfer_take(&fake_cq, comp, NULL);
}

/* What the NIC reads is whether the sender's message stands */
static uint64_t scene_words[XFER_WORDS];
static struct stage_reserve scene_local = {.addr = scene_words};

void scene_end(size_t index, size_t len, int err)
{
	const struct fake_op op = fake_take(index);

	for (size_t i = 0; i < XFER_WORDS; i++)
		scene_words[i] = SCENE_ID | WIRE_MARK;
	fake_xfer.local = op.kind == FAKE_RMA ? &scene_local : NULL;
	scene_complete(&(struct core_comp){
		.context = op.context,
		.flags = op.kind == FAKE_RECV ? FI_RECV | FI_TAGGED : FI_SEND | FI_TAGGED,
		.len = len,
		.err = err,
	});
	fake_xfer.local = NULL;
}

/* Which of the core's operations is the latest of a kind? */
static size_t scene_held(enum fake_kind kind, bool internal)
{
	for (size_t i = fake.count; i--;) {
		if (fake.held[i].kind == kind && fake.held[i].internal == internal)
			return i;
	}
	fail_msg("the core has no such operation");
	return 0;
}

/* The request of the operation that was posted last, or that serves a peer */
static void scene_find(struct scene *scene, bool served)
{
	struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &scene->ep.live, live) {
		scene->req = (struct xfer_req *) ctx;
		if (xfer_ctx_is_req(ctx) && scene->req->served == served)
			return;
	}
	fail_msg("there is no request");
}

/* What the peer answers to, if it does: else there is no id, and SCENE_ID will do */
static void scene_name(struct scene *scene)
{
	const struct xfer_req *req;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		LIST_FOREACH(req, &fake_xfer.sending[i], transfer.chain) {
			if (req == scene->req)
				scene->id = req->transfer.id;
		}
	}
}

static ssize_t scene_call(struct scene *scene, fi_addr_t addr, bool recv, void *buf, size_t len,
			  uint64_t flags)
{
	const struct iovec iov = {buf, len};
	const struct p2p_op op = {
		.type = recv ? FI_OP_TRECV : FI_OP_TSEND,
		.msg.msg_iov = &iov,
		.msg.iov_count = 1,
		.msg.addr = addr,
		.flags = flags | FI_COMPLETION,
		.msg.context = &scene->reports,
	};

	return xfer_post(&scene->ep, &op);
}

static void scene_post(struct scene *scene, bool recv, void *buf, size_t len, uint64_t flags)
{
	assert_int_equal(scene_call(scene, FAKE_ALIVE, recv, buf, len, flags), 0);
	scene_find(scene, false);
	scene_name(scene);
}

ssize_t scene_try(struct scene *scene, fi_addr_t addr, size_t len)
{
	return scene_call(scene, addr, false, device, len, 0);
}

struct xfer_req *scene_send(struct scene *scene, size_t len, uint64_t flags)
{
	scene_post(scene, false, device, len, flags);
	return scene->req;
}

static void scene_post_rma(struct scene *scene, bool read, void *buf, size_t len, uint64_t key,
			   uint64_t flags)
{
	const struct iovec iov = {buf, len};
	const struct fi_rma_iov remote = {.len = len, .key = key};
	const struct p2p_op op = {
		.type = read ? FI_OP_READ : FI_OP_WRITE,
		.rma.msg_iov = &iov,
		.rma.iov_count = 1,
		.rma.addr = FAKE_ALIVE,
		.rma.rma_iov = &remote,
		.rma.rma_iov_count = 1,
		.flags = flags | FI_COMPLETION,
		.rma.context = &scene->reports,
	};

	assert_int_equal(xfer_post_rma(&scene->ep, &op), 0);
	scene_find(scene, false);
	scene_name(scene);
}

/* A receive, with what is to be announced to it already marked, unless it is a peek */
static void scene_receive(struct scene *scene, void *buf, size_t len, uint64_t flags,
			  bool marked)
{
	struct core_comp comp = {
		.flags = FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA,
		.data = WIRE_MARK | SCENE_ID,
	};

	scene_post(scene, true, buf, len, flags);
	if (!marked)
		return;
	comp.context = fake_take(scene_held(FAKE_RECV, false)).context;
	scene_complete(&comp);
}

void scene_lose(struct scene *scene)
{
	p2p_lock_take(&fake_xfer.lock);
	xfer_lose(&scene->ep.front, FAKE_ALIVE, -FI_ECONNABORTED);
	p2p_lock_drop(&fake_xfer.lock);
}

void scene_copy(void)
{
	while (fake_xfer.copies.pending)
		xfer_progress(&fake_xfer);
}

/* ---- what the peer says ---- */

void scene_dispatch(struct scene *scene, struct wire_msg *msg)
{
	char buf[WIRE_MSG_MAX];
	struct wire_msg decoded;
	const char *why;
	size_t len;

	if (!(msg->type == WIRE_HELLO && msg->flags & WIRE_ASKS))
		msg->token = scene->token;
	len = wire_encode(msg, buf);

	if (wire_decode(buf, len, &decoded, &why))
		fail_msg("%s: %s", wire_type_name(msg->type), why);
	p2p_lock_take(&fake_xfer.lock);
	ctrl_dispatch(&scene->ep, &decoded);
	p2p_lock_drop(&fake_xfer.lock);
}

void scene_say_of(struct scene *scene, enum said said, uint64_t id)
{
	struct wire_msg msg = *said_msg(said);

	msg.id = id;
	if (msg.type == WIRE_ANNOUNCE && msg.to_sender) {
		msg.id = SCENE_ID_SUPPLY;
		msg.key = id;
	}
	scene_dispatch(scene, &msg);
}

void scene_say(struct scene *scene, enum said said)
{
	scene_say_of(scene, said, scene->id);
}

/* ---- the states ---- */

void scene_side(struct scene *scene)
{
	fake_side_open(&scene->ep);
	fake_peer(&scene->ep, FAKE_ALIVE)->via = &scene->ep.side;
}

static void bring_core(struct scene *scene)
{
	scene_receive(scene, host, sizeof host, 0, false);
}

/* The peer has not said anything yet. */
static void bring_greeting(struct scene *scene)
{
	fake_peer(&scene->ep, FAKE_ALIVE)->state = XFER_PEER_NEW;
	scene_send(scene, SCENE_LEN, 0);
}

static void bring_staging(struct scene *scene)
{
	scene_send(scene, 100, 0);
}

static void bring_ready(struct scene *scene)
{
	fake.no_sends = true;
	bring_staging(scene);
	scene_copy();
}

static void bring_marking(struct scene *scene)
{
	fake.no_sends = true;
	scene_send(scene, SCENE_LEN, 0);
}

static void bring_announced(struct scene *scene)
{
	scene_send(scene, SCENE_LEN, 0);
}

static void bring_announced_delivery(struct scene *scene)
{
	scene_send(scene, SCENE_LEN, FI_DELIVERY_COMPLETE);
}

static void bring_announced_offered(struct scene *scene)
{
	scene->ep.policy = PATH_ANY;
	bring_announced(scene);
}

/* Others are on their way out of such slots, as it seems. */
static void bring_announced_lent(struct scene *scene)
{
	struct stage_slot *other =
		stage_slot_get(&fake_xfer.stage, STAGE_WHOLE_OUT, SCENE_LEN, NULL);

	conf.eager_size = SCENE_LEN;
	fake_xfer.stage.lender = &nic;
	scene_send(scene, SCENE_LEN, 0);
	scene_copy();
	fake_xfer.stage.lender = NULL;
	conf.eager_size = SCENE_WHOLE;
	scene_name(scene);
	stage_slot_put(&fake_xfer.stage, other);
}

/* The peer reads what is lent to it, and slots may be lent, or not any more. */
static void scene_lends(struct scene *scene, bool lends)
{
	struct wire_msg hello = {
		.type = WIRE_HELLO,
		.flags = WIRE_BORROWS,
		.oldest = WIRE_VERSION,
		.newest = WIRE_VERSION,
	};

	if (lends)
		scene_dispatch(scene, &hello);
	fake_xfer.stage.lender = lends ? &nic : NULL;
	conf.eager_size = lends ? SCENE_LEN : SCENE_WHOLE;
}

void scene_write_lent(struct scene *scene)
{
	scene_lends(scene, true);
	scene_post_rma(scene, false, device, SCENE_LEN, SCENE_KEY_THERE, 0);
	scene_lends(scene, false);
}

static void bring_announced_write_lent(struct scene *scene)
{
	scene_write_lent(scene);
	scene_copy();
	scene_name(scene);
	assert_non_null(scene->req->slot);
}

static void bring_announced_supply_lent(struct scene *scene)
{
	scene_lends(scene, true);
	scene_say_of(scene, SAID_READ_LONG, SCENE_ID);
	scene_lends(scene, false);
	scene_find(scene, true);
	scene_name(scene);
	assert_non_null(scene->req->slot);
}

static void bring_announced_write(struct scene *scene)
{
	scene_post_rma(scene, false, host, SCENE_LEN, SCENE_KEY_THERE, FI_INJECT);
}

static void bring_announced_supply(struct scene *scene)
{
	scene_say_of(scene, SAID_READ_LONG, SCENE_ID);
	scene_find(scene, true);
	scene_name(scene);
}

static void bring_pushing(struct scene *scene)
{
	bring_announced(scene);
	scene_say(scene, SAID_TAKE_PIECE);
}

static void bring_pushing_side(struct scene *scene)
{
	struct wire_msg msg = *said_msg(SAID_TAKE_PIECE);

	scene_side(scene);
	bring_announced(scene);
	msg.id = scene->id;
	scene_dispatch(scene, &msg);
	xfer_progress(&fake_xfer);
	assert_ptr_equal(scene->req->transfer.via, &scene->ep.side);
}

static void bring_whole(struct scene *scene)
{
	bring_announced(scene);
	scene_say(scene, SAID_TAKE_PLAIN);
}

static void bring_finishing(struct scene *scene)
{
	bring_announced_delivery(scene);
	scene_say(scene, SAID_TAKE_ALL);
}

static void bring_asking_write(struct scene *scene)
{
	scene_post_rma(scene, false, host, SCENE_SHORT, SCENE_KEY_THERE, 0);
}

static void bring_asking_read(struct scene *scene)
{
	scene_post_rma(scene, true, host, SCENE_SHORT, SCENE_KEY_THERE, 0);
}

static void bring_asking_long(struct scene *scene)
{
	scene_post_rma(scene, true, device, SCENE_LEN, SCENE_KEY_THERE, 0);
}

static void bring_sent(struct scene *scene)
{
	bring_announced(scene);
	scene_say(scene, SAID_TAKE_ALL);
}

static void bring_peeking(struct scene *scene)
{
	scene_receive(scene, NULL, 0, FI_PEEK, true);
}

static void bring_claimed(struct scene *scene)
{
	scene_receive(scene, NULL, 0, FI_PEEK | FI_CLAIM, true);
	scene_say(scene, SAID_ANNOUNCE);
}

static void bring_matched(struct scene *scene)
{
	scene_receive(scene, device, SCENE_LEN, 0, true);
}

static void bring_untold(struct scene *scene)
{
	fake.no_recvs = true;
	bring_matched(scene);
	scene_say(scene, SAID_ANNOUNCE);
}

static void bring_pulling(struct scene *scene)
{
	bring_matched(scene);
	scene_say(scene, SAID_ANNOUNCE);
	xfer_progress(&fake_xfer);
}

static void bring_pulling_side(struct scene *scene)
{
	struct wire_msg msg = *said_msg(SAID_ANNOUNCE);

	scene_side(scene);
	bring_matched(scene);
	msg.id = SCENE_ID;
	scene_dispatch(scene, &msg);
	xfer_progress(&fake_xfer);
	assert_ptr_equal(scene->req->transfer.via, &scene->ep.side);
}

static void bring_pulling_write(struct scene *scene)
{
	scene_say(scene, SAID_WRITE_LONG);
	scene_find(scene, true);
	xfer_progress(&fake_xfer);
}

static void bring_borrowing(struct scene *scene)
{
	fake_xfer.stage.lender = &nic;
	scene_receive(scene, device, SCENE_LEN, 0, true);
	scene_say(scene, SAID_ANNOUNCE_LENT);
}

static void bring_borrowing_write(struct scene *scene)
{
	fake_xfer.stage.lender = &nic;
	scene_say(scene, SAID_WRITE_LENT);
	scene_find(scene, true);
}

static void bring_reading(struct scene *scene)
{
	bring_borrowing(scene);
	xfer_progress(&fake_xfer);
}

static void bring_reading_supply(struct scene *scene)
{
	bring_asking_long(scene);
	fake_xfer.stage.lender = &nic;
	scene_say(scene, SAID_SUPPLY_LENT);
	xfer_progress(&fake_xfer);
	scene->id = SCENE_ID_SUPPLY;
}

void scene_describe(void *from, size_t len, struct ipc_offer *offer)
{
	const struct iovec iov = {from, len};
	const struct ipc_export *export;
	struct dev_mem mem;
	const char *why;

	assert_int_equal(mem_classify(&iov, 1, NULL, &mem), 0);
	export = ipc_export(&fake_xfer.ipc, &mem, from, len, &why);
	assert_non_null(export);
	ipc_describe(&fake_xfer.ipc, export, &mem, from, offer);
}

void scene_note(struct scene *scene, struct wire_msg *msg)
{
	const uint64_t place = board_open(&scene->board, xfer_board_owner(msg->id));

	assert_non_null(board_note(&scene->board, msg->id | WIRE_MARK));
	board_show(&scene->board, msg->id | WIRE_MARK, 1);
	msg->flags |= WIRE_OFFERED;
	msg->transfer = (uint32_t) (place >> 32);
	msg->count = (uint32_t) place;
}

/* Another domain of this process has offered it. */
static void bring_across(struct scene *scene)
{
	struct wire_msg msg = *said_msg(SAID_ANNOUNCE);

	bring_matched(scene);
	msg.id = SCENE_ID;
	scene_note(scene, &msg);
	scene_describe(device_there, SCENE_LEN, &msg.offer);
	ipc_own_stand(&scene->own, SCENE_ID, &(struct dev_mem){.id = msg.offer.id},
		      device_there, SCENE_LEN);
	scene->ep.policy = PATH_ANY;
	scene_dispatch(scene, &msg);
}

static void bring_fetching(struct scene *scene)
{
	struct wire_msg msg = *said_msg(SAID_ANNOUNCE);

	scene_receive(scene, host, SCENE_LEN, 0, true);
	msg.id = SCENE_ID;
	msg.flags = WIRE_READABLE | WIRE_WORD | WIRE_WANT_DONE;
	fake_xfer.map.domain = &nic;
	scene_dispatch(scene, &msg);
	fake_xfer.map.domain = NULL;
}

/* All pieces have come, and there is no room for the DONE. */
static void bring_telling(struct scene *scene)
{
	struct wire_msg msg = *said_msg(SAID_ANNOUNCE);

	scene_receive(scene, host, SCENE_LEN, 0, true);
	msg.id = SCENE_ID;
	msg.flags = WIRE_WANT_DONE;
	scene_dispatch(scene, &msg);
	xfer_progress(&fake_xfer);
	fake.no_internal = true;
	for (int i = 0; i < SCENE_PIECES; i++)
		scene_end(scene_held(FAKE_RECV, true), SCENE_PIECE, 0);
}

/* A piece is too short; the others are cancelled, and the core still has them. */
static void bring_received(struct scene *scene)
{
	bring_pulling(scene);
	scene_end(scene_held(FAKE_RECV, true), 1, 0);
}

/* The same where it comes by the side endpoint: the others stay, until the sender has answered. */
static void bring_received_side(struct scene *scene)
{
	bring_pulling_side(scene);
	scene_end(scene_held(FAKE_RECV, true), 1, 0);
}

static void bring_copying(struct scene *scene)
{
	scene_receive(scene, device, 100, 0, false);
	scene_end(scene_held(FAKE_RECV, false), 100, 0);
}

static void bring_bouncing(struct scene *scene)
{
	scene_post_rma(scene, false, device, SCENE_LEN, 1, 0);
}

const struct scene_kind scene_kinds[] = {
	{"a receive", XFER_CORE, bring_core},
	{"greeting", XFER_GREETING, bring_greeting},
	{"staging", XFER_STAGING, bring_staging},
	{"ready", XFER_READY, bring_ready},
	{"marking", XFER_MARKING, bring_marking, .message = true},
	{"announced", XFER_ANNOUNCED, bring_announced, .message = true},
	{"announced, waits for delivery", XFER_ANNOUNCED, bring_announced_delivery,
	 .waits = true, .taken = true, .message = true},
	{"announced, offered", XFER_ANNOUNCED, bring_announced_offered, .taken = true,
	 .message = true},
	{"announced, lent", XFER_ANNOUNCED, bring_announced_lent, .waits = true, .taken = true,
	 .message = true},
	{"announced, a write", XFER_ANNOUNCED, bring_announced_write, .unmarked = true,
	 .waits = true, .taken = true},
	{"announced, supplies a read", XFER_ANNOUNCED, bring_announced_supply, .served = true,
	 .unmarked = true},
	{"announced, a lent write", XFER_ANNOUNCED, bring_announced_write_lent,
	 .unmarked = true, .waits = true, .taken = true},
	{"announced, lends what is read", XFER_ANNOUNCED, bring_announced_supply_lent,
	 .served = true, .unmarked = true, .waits = true, .taken = true},
	{"pushing", XFER_PUSHING, bring_pushing, .wanted = true},
	{"pushing, side", XFER_PUSHING, bring_pushing_side, .wanted = true},
	{"wanted whole", XFER_PUSHING, bring_whole, .whole = true},
	{"finishing", XFER_PUSHING, bring_finishing, .taken = true},
	{"asking for a write", XFER_ASKING, bring_asking_write},
	{"asking for a read", XFER_ASKING, bring_asking_read},
	{"asking for a long read", XFER_ASKING, bring_asking_long, .supplied = true},
	{"sent", XFER_ENDING, bring_sent},
	{"peeking", XFER_MATCHED, bring_peeking, .peek = true},
	{"claimed", XFER_CLAIMED, bring_claimed},
	{"matched", XFER_MATCHED, bring_matched},
	{"pulling, untold", XFER_PULLING, bring_untold, .idle = true},
	{"pulling", XFER_PULLING, bring_pulling},
	{"pulling, a write", XFER_PULLING, bring_pulling_write, .served = true},
	{"pulling, side", XFER_PULLING, bring_pulling_side},
	{"borrowing", XFER_MOVING, bring_borrowing, .idle = true},
	{"borrowing, a write", XFER_MOVING, bring_borrowing_write, .served = true,
	 .idle = true},
	{"reading", XFER_MOVING, bring_reading},
	{"reading, what was asked for", XFER_MOVING, bring_reading_supply},
	{"copying across", XFER_MOVING, bring_across},
	{"fetching", XFER_MOVING, bring_fetching},
	{"telling", XFER_TELLING, bring_telling},
	{"failed", XFER_ENDING, bring_received, .failed = true},
	{"failed, side", XFER_ENDING, bring_received_side, .failed = true},
	{"copying", XFER_COPYING, bring_copying},
	{"bouncing", XFER_MOVING, bring_bouncing, .alone = true},
};

const size_t scene_kind_count = UNIT_COUNT(scene_kinds);

const struct scene_kind *scene_kind_named(const char *name)
{
	for (size_t i = 0; i < scene_kind_count; i++) {
		if (!strcmp(scene_kinds[i].name, name))
			return &scene_kinds[i];
	}
	fail_msg("nothing is brought to %s", name);
	return NULL;
}

/* ---- its life ---- */

void scenes_start(void)
{
	struct dev_mem mem;

	unit_dev_start();
	device = unit_dev_alloc(SCENE_LEN);
	device_there = unit_dev_alloc(SCENE_LEN);
	assert_int_equal(mem_classify(&(struct iovec){device, SCENE_LEN}, 1, NULL, &mem), 0);
	conf.eager_size = SCENE_WHOLE;
	fake_start(false);
	assert_int_equal(stage_ready(&fake_xfer.stage, &mem), 0);
	fake_xfer.key_mark = SCENE_KEY_MARK;
	region = (struct region){
		.key = SCENE_KEY_HERE,
		.access = FI_REMOTE_READ | FI_REMOTE_WRITE,
		.iov = {{reached, sizeof reached}},
		.count = 1,
		.len = sizeof reached,
	};
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(region_add(&fake_xfer, &region, false), 0);
	p2p_lock_drop(&fake_xfer.lock);
}

void scenes_stop(void)
{
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(region_remove(&fake_xfer, &region), 0);
	p2p_lock_drop(&fake_xfer.lock);
	fake_stop();
	unit_dev_free(device);
	unit_dev_free(device_there);
}

void scene_open(struct scene *scene, const struct scene_kind *kind)
{
	*scene = (struct scene){.id = SCENE_ID, .token = FAKE_TOKEN(FAKE_ALIVE)};
	fake_xfer.wrong = 0;
	fake_ep_open(&scene->ep, &fake_cq);
	scene->ep.tag_bit = FAKE_TAG_BIT;
	scene->ep.policy = PATH_STAGE_ONLY;
	if (!kind)
		return;
	kind->bring(scene);
	if (scene_state(scene) != kind->state)
		fail_msg("%s: %s", kind->name, xfer_state_name(scene_state(scene)));
	assert_int_equal(fake_xfer.wrong, 0);
}

enum xfer_state scene_state(const struct scene *scene)
{
	const struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &scene->ep.live, live) {
		if (ctx != &scene->req->ctx || !xfer_ctx_is_req(ctx))
			continue;
		/* its cell may be that of another one by now, which serves a peer */
		if (scene->req->served ? scene->req->transfer.id == scene->id
				       : scene->req->context == &scene->reports)
			return scene->req->state;
	}
	return XFER_ENDED;
}

/* The core ends one of its operations. False: it has none but receives of the application's */
static bool scene_end_next(void)
{
	const struct fake_op *op;

	for (size_t i = 0; i < fake.count; i++) {
		op = &fake.held[i];
		if (op->kind == FAKE_RECV && !op->internal && !op->cancelled)
			continue;
		scene_end(i, op->len, op->cancelled ? FI_ECANCELED : 0);
		return true;
	}
	return false;
}

void scene_drain(struct scene *scene)
{
	fake.no_sends = fake.no_recvs = fake.no_internal = false;
	do {
		while (scene_end_next())
			;
		xfer_progress(&fake_xfer);
	} while (scene_end_next() || fake_xfer.copies.pending ||
		 !TAILQ_EMPTY(&scene->ep.front.outq) || !TAILQ_EMPTY(&scene->ep.side.outq));
}

void scene_give_up(struct scene *scene)
{
	static const enum said ends[] = {SAID_REFUSED, SAID_GIVEN_UP};

	for (size_t i = 0; i < UNIT_COUNT(ends); i++)
		scene_say(scene, ends[i]);
	/* it will not answer a greeting either */
	fake_peer(&scene->ep, FAKE_ALIVE)->state = XFER_PEER_FOREIGN;
	/* what answers a read may have taken its place */
	scene_say_of(scene, SAID_GIVEN_UP, SCENE_ID_SUPPLY);
	for (size_t i = 0; i < fake.count; i++)
		fake.held[i].cancelled = true;
	scene_drain(scene);
}

void scene_close(struct scene *scene)
{
	struct core_comp comp;

	fake_ep_close(&scene->ep);
	assert_int_equal(fake_xfer.proto->words, 0);
	ipc_own_fall(&scene->own);
	board_close(&scene->board);
	board_far_close_all(&fake_xfer.notes.boards);
	fake.no_sends = fake.no_recvs = fake.no_internal = false;
	while (xfer_cq_next(&fake_cq, false, &comp) == 1 ||
	       xfer_cq_next(&fake_cq, true, &comp) == 1)
		scene->reports += comp.context == &scene->reports;
	assert_int_equal(fake_xfer.cells.used, 0);
	assert_int_equal(fake_xfer.open, 0);
	for (size_t i = 0; i < UNIT_COUNT(fake_xfer.notes.board.used); i++)
		assert_int_equal(fake_xfer.notes.board.used[i], 0);
	assert_int_equal(fake_xfer.busy, 0);
	assert_int_equal(fake_xfer.looks, 0);
	assert_int_equal(fake_xfer.copies.pending, 0);
	assert_int_equal(region.users, 0);
	for (size_t i = 0; i < XFER_STATES; i++)
		assert_true(TAILQ_EMPTY(&fake_xfer.in[i]));
	for (size_t i = 0; i < STAGE_POOLS; i++) {
		const struct stage_pool *pool = &fake_xfer.stage.pools[i];

		assert_int_equal(pool->idle, pool->count);
	}
}
