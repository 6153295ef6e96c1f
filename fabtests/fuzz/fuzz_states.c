/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One end of all protocols, over the core provider that the unit tests make up. An input is what the
 * application posts, what the core completes and how, what a peer says, and when progress is made.
 *
 * Whatever that was, then everything ends: the core ends what it has, and the peer gives up all that it
 * was heard of. Every operation is reported once, and nothing is left of the endpoint.
 */
#include "unit_states.h"

#include "fuzz_msg.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "proto/post.h"
#include "proto/proto_state.h"
#include "proto/rndv_match.h"
#include "xfer/ctrl.h"
#include "xfer/life.h"
#include "xfer/progress.h"
#include "xfer/region.h"
#include "xfer/reports.h"
#include "xfer/xfer_proto.h"

#define OPS 32
#define STEPS 200
#define ROUNDS 32 /* until all has ended */
#define GRANT 9   /* the peer's token for who it hears */
#define KEY_DEVICE (SCENE_KEY_MARK | 3)

/* Of the application's operations: what became of each, by its context */
enum { NONE, POSTED, REPORTED };

static struct scene scene;
static struct xfer_peer *peer;
static uint8_t ops[OPS];
static uint8_t *device;
static uint8_t host[SCENE_LEN];
static struct region region_device;
static uint64_t words[XFER_WORDS];
static struct stage_reserve local = {.addr = words};
static uint64_t posts, messages, moves;

/* ---- the core's domain: it takes the registrations that it is asked for ---- */

static int mr_close(struct fid *fid)
{
	return 0;
}

static struct fi_ops mr_fid_ops = {.size = sizeof mr_fid_ops, .close = mr_close};
static struct fid_mr mr = {.fid.ops = &mr_fid_ops, .key = 5};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **to)
{
	*to = &mr;
	return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		  uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **to,
		  void *context)
{
	*to = &mr;
	return 0;
}

static struct fi_ops_mr nic_mr_ops = {
	.size = sizeof nic_mr_ops,
	.reg = mr_reg,
	.regattr = mr_regattr,
};
static struct fid_domain nic = {.mr = &nic_mr_ops};

/* ---- what the application does ---- */

static void reported(const struct core_comp *comp)
{
	const uint8_t *op = comp->context;

	free(comp->err_data);
	/* a message that no receive was posted with, to a receive that is not followed up */
	if (op < ops || op >= ops + OPS)
		return;
	FUZZ_CHECK(*op == POSTED);
	ops[op - ops] = REPORTED;
}

/* The core's queue has this; the application reads it where it is not ours to deal with. */
static void complete(const struct core_comp *comp)
{
	struct core_comp report;

	switch (xfer_take(&fake_cq, comp, &report)) {
	case XFER_PLAIN:
		reported(comp);
		break;
	case XFER_REPORTED:
		reported(&report);
		break;
	default:
		break;
	}
}

/* Operation number @index of the core's ends. */
static void end_one(size_t index, struct core_comp *comp)
{
	const struct fake_op op = fake_take(index);

	comp->context = op.context;
	comp->flags |= op.kind == FAKE_RECV   ? FI_RECV | FI_TAGGED
		       : op.kind == FAKE_SEND ? FI_SEND | FI_TAGGED
					      : FI_RMA;
	complete(comp);
}

static void read_queue(void)
{
	struct core_comp comp;

	while (xfer_cq_next(&fake_cq, false, &comp) == 1 ||
	       xfer_cq_next(&fake_cq, true, &comp) == 1)
		reported(&comp);
}

/* Has a message been claimed with this context, and not received yet? */
static bool claimed(const uint8_t *op)
{
	const struct xfer_req *req;

	TAILQ_FOREACH(req, &fake_xfer.in[XFER_CLAIMED], entry) {
		if (req->context == op)
			return true;
	}
	return false;
}

/* A context that is free; NULL: there is none */
static uint8_t *op_new(void)
{
	for (size_t i = 0; i < OPS; i++) {
		if (ops[i] != POSTED && !claimed(&ops[i]))
			return &ops[i];
	}
	return NULL;
}

static void posted(uint8_t *op, ssize_t ret)
{
	posts++;
	FUZZ_CHECK(ret <= 0);
	*op = ret ? NONE : POSTED;
}

/* Host or device memory, of a length that takes a path of its own */
static struct iovec buffer(struct fuzz *in)
{
	static const uint32_t lens[] = {0,           1,    100,         4096,     4097,
					SCENE_WHOLE, 8193, SCENE_PIECE, SCENE_LEN};
	const size_t len = lens[fuzz_pick(in, FUZZ_COUNT(lens))];

	return (struct iovec){fuzz_rarely(in, 3) ? host : device, len};
}

static void post_send(struct fuzz *in, uint8_t *op)
{
	static const uint64_t flags[] = {0, FI_DELIVERY_COMPLETE, FI_INJECT, FI_REMOTE_CQ_DATA,
					 FI_TRANSMIT_COMPLETE};
	const struct iovec iov = buffer(in);
	const struct p2p_op send = {
		.type = !fuzz_rarely(in, 3) ? FI_OP_TSEND : FI_OP_SEND,
		.msg.msg_iov = &iov,
		.msg.iov_count = 1,
		.msg.addr = FAKE_ALIVE,
		.flags = flags[fuzz_pick(in, FUZZ_COUNT(flags))] | FI_COMPLETION,
		.msg.context = op,
	};

	posted(op, xfer_post(&scene.ep, &send));
}

static void post_recv(struct fuzz *in, uint8_t *op)
{
	static const uint64_t peeks[] = {0,
					 0,
					 0,
					 FI_PEEK,
					 FI_PEEK | FI_CLAIM,
					 FI_PEEK | FI_DISCARD,
					 FI_CLAIM,
					 FI_CLAIM | FI_DISCARD};
	const struct iovec iov = buffer(in);
	struct p2p_op recv = {
		.type = FI_OP_TRECV,
		.msg.msg_iov = &iov,
		.msg.iov_count = 1,
		.msg.addr = FI_ADDR_UNSPEC,
		.flags = peeks[fuzz_pick(in, FUZZ_COUNT(peeks))] | FI_COMPLETION,
		.msg.context = op,
	};
	const struct xfer_req *first = TAILQ_FIRST(&fake_xfer.in[XFER_CLAIMED]);

	/* what was claimed is named by the context that it was claimed with */
	if (recv.flags & FI_CLAIM && !(recv.flags & FI_PEEK)) {
		if (!first || *(uint8_t *) first->context != REPORTED)
			return;
		op = recv.msg.context = first->context;
	}
	posted(op, xfer_post(&scene.ep, &recv));
}

static void post_multi(struct fuzz *in, uint8_t *op)
{
	const struct iovec iov = {fuzz_rarely(in, 2) ? host : device, SCENE_LEN};
	const struct p2p_op recv = {
		.type = FI_OP_RECV,
		.msg.msg_iov = &iov,
		.msg.iov_count = 1,
		.msg.addr = FI_ADDR_UNSPEC,
		.flags = FI_MULTI_RECV | FI_COMPLETION,
		.msg.context = &scene,
	};

	/* it is reported as often as messages come */
	posts++;
	xfer_post(&scene.ep, &recv);
}

static void post_rma(struct fuzz *in, uint8_t *op)
{
	static const uint64_t flags[] = {0, FI_INJECT, FI_DELIVERY_COMPLETE, FI_REMOTE_CQ_DATA};
	const struct iovec iov = buffer(in);
	const struct fi_rma_iov remote = {
		.len = iov.iov_len,
		.key = fuzz_rarely(in, 4) ? 1 : SCENE_KEY_THERE,
	};
	const struct p2p_op rma = {
		.type = fuzz_rarely(in, 2) ? FI_OP_READ : FI_OP_WRITE,
		.rma.msg_iov = &iov,
		.rma.iov_count = 1,
		.rma.addr = FAKE_ALIVE,
		.rma.rma_iov = &remote,
		.rma.rma_iov_count = 1,
		.flags = flags[fuzz_pick(in, FUZZ_COUNT(flags))] | FI_COMPLETION,
		.rma.context = op,
	};

	posted(op, xfer_post_rma(&scene.ep, &rma));
}

static void post_atomic(struct fuzz *in, uint8_t *op)
{
	static const enum fi_op_type kinds[] = {FI_OP_ATOMIC, FI_OP_FETCH_ATOMIC,
						FI_OP_COMPARE_ATOMIC};
	struct fi_ioc memory = {fuzz_rarely(in, 2) ? host : device, 1 + fuzz_pick(in, 8)};
	const struct fi_rma_ioc remote = {.count = memory.count, .key = SCENE_KEY_THERE};
	const enum fi_op_type kind = kinds[fuzz_pick(in, FUZZ_COUNT(kinds))];
	const struct p2p_op atomic = {
		.type = kind,
		.atomic.msg_iov = &memory,
		.atomic.iov_count = 1,
		.compare.msg_iov = &memory,
		.compare.iov_count = kind == FI_OP_COMPARE_ATOMIC,
		.fetch.msg_iov = &memory,
		.fetch.iov_count = kind != FI_OP_ATOMIC,
		.atomic.addr = FAKE_ALIVE,
		.atomic.rma_iov = &remote,
		.atomic.rma_iov_count = 1,
		.atomic.datatype = FI_UINT64,
		.atomic.op = kind == FI_OP_COMPARE_ATOMIC ? FI_CSWAP : FI_SUM,
		.flags = FI_COMPLETION,
		.atomic.context = op,
	};

	posted(op, xfer_post_atomic(&scene.ep, &atomic));
}

static void post(struct fuzz *in)
{
	static void (*const kinds[])(struct fuzz * in, uint8_t * op) = {
		post_send, post_send, post_recv, post_recv, post_multi, post_rma, post_atomic,
	};
	uint8_t *op = op_new();

	if (op)
		kinds[fuzz_pick(in, FUZZ_COUNT(kinds))](in, op);
}

/* ---- what the peer and the core do ---- */

/* Is it a receive for control messages? */
static bool listens(const struct fake_op *op)
{
	return op->kind == FAKE_RECV && op->internal && !(op->tag & WIRE_TAG_PIECE);
}

static void learn(struct fuzz_known *known)
{
	const struct xfer_arrival *arrival;
	const struct xfer_req *req;

	for (size_t i = XFER_PEER_TOKENS; i--;) {
		if (peer->tokens[i].token)
			fuzz_admit(known, peer->tokens[i].token);
	}
	for (unsigned int i = 0; i < 4; i++)
		fuzz_know(known, SCENE_ID + i);
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		LIST_FOREACH(arrival, &fake_xfer.proto->arriving[i], chain)
			fuzz_know(known, arrival->id);
	}
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		LIST_FOREACH(req, &fake_xfer.sending[i], transfer.chain)
			fuzz_know(known, req->transfer.id);
	}
}

/* A letter comes, if there is a receive for it. */
static void hear(const void *letter, size_t len)
{
	for (size_t i = 0; i < fake.count; i++) {
		if (!listens(&fake.held[i]) || fake.held[i].cancelled)
			continue;
		memcpy(fake.held[i].buf, letter, len);
		end_one(i, &(struct core_comp){.len = len});
		return;
	}
}

static void say(struct fuzz *in)
{
	struct fuzz_known known = {
		.keys = {SCENE_KEY_HERE, KEY_DEVICE, SCENE_KEY_THERE},
		.key_count = 3,
		.host = fake_xfer.ipc.host,
		.grant = GRANT,
		.name = "peer",
		.name_len = 4,
		.side = "side",
		.side_len = 4,
	};
	uint8_t letter[WIRE_MSG_MAX];

	messages++;
	learn(&known);
	hear(letter, fuzz_letter(in, &known, letter));
}

/* What a multi-receive buffer gets is one message of some; the last one releases it. */
static void end_multi(struct fuzz *in, size_t index, struct core_comp *comp)
{
	struct fake_op *op = &fake.held[index];
	const size_t len = P2P_MIN(comp->len, op->len);

	comp->context = op->context;
	comp->flags |= FI_RECV | FI_MSG;
	comp->buf = op->buf;
	comp->len = len;
	op->buf = (char *) op->buf + len;
	op->len -= len;
	if (comp->err || op->len < 64 || fuzz_rarely(in, 8)) {
		comp->flags |= FI_MULTI_RECV;
		fake_take(index);
	}
	complete(comp);
}

/* The core ends one operation: well, as a marker, short, or with an error. */
static void end(struct fuzz *in)
{
	static const int errs[] = {FI_EIO, FI_ETRUNC, FI_ENOMSG, FI_ECANCELED};
	const size_t index = fake.count ? fuzz_take(in, 1) % fake.count : 0;
	const unsigned int how = fuzz_pick(in, 16);
	struct core_comp comp = {.src = FAKE_ALIVE};
	const struct fake_op *op;

	if (!fake.count || listens(&fake.held[index]))
		return;
	op = &fake.held[index];
	comp.len = how < 4 || !op->len ? op->len : fuzz_take(in, 2) % (op->len + 1);
	if (how == 15 || op->cancelled)
		comp.err = op->cancelled ? FI_ECANCELED : errs[fuzz_pick(in, 4)];
	if (op->kind == FAKE_RECV && !op->internal && how >= 8 && !comp.err) {
		comp.flags |= FI_REMOTE_CQ_DATA;
		comp.data = WIRE_MARK | (SCENE_ID + fuzz_pick(in, 4));
		comp.len = how >= 14 ? comp.len : 0;
	}
	if (op->flags & FI_MULTI_RECV)
		end_multi(in, index, &comp);
	else
		end_one(index, &comp);
}

/* A marker comes to a receive that was left to the core. */
static void mark_untracked(struct fuzz *in)
{
	const struct core_comp comp = {
		.context = &scene,
		.flags = FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA,
		.data = WIRE_MARK | (SCENE_ID + fuzz_pick(in, 4)),
		.src = FAKE_ALIVE,
	};

	complete(&comp);
}

static void move(void)
{
	moves++;
	scene_copy();
	xfer_progress(&fake_xfer);
}

static void step(struct fuzz *in)
{
	const unsigned int what = fuzz_pick(in, 32);

	if (what < 7)
		post(in);
	else if (what < 14)
		say(in);
	else if (what < 22)
		end(in);
	else if (what < 26)
		move();
	else if (what == 26)
		mark_untracked(in);
	else if (what == 27)
		fake.no_sends = !fake.no_sends;
	else if (what == 28)
		fake.no_recvs = !fake.no_recvs;
	else if (what == 29)
		fake.no_internal = !fake.no_internal;
	else if (what == 30)
		xfer_cancel(&scene.ep, &ops[fuzz_pick(in, OPS)]);
	else if (fuzz_rarely(in, 8))
		scene_lose(&scene);
	else
		read_queue();
}

/* ---- an input ---- */

static void open_side(void)
{
	fake_side_open(&scene.ep);
	scene.ep.side.inbox.open = false;
	scene.ep.side.inbox.wanted = 0;
	p2p_lock_take(&fake_xfer.lock);
	ctrl_listen(&scene.ep.side);
	p2p_lock_drop(&fake_xfer.lock);
	peer->via = &scene.ep.side;
}

/* What kinds of endpoints there are: by policies, and by what cores can do */
static void open_scene(struct fuzz *in)
{
	static const enum path_policy policies[] = {PATH_STAGE_ONLY, PATH_ANY, PATH_NO_NIC,
						    PATH_ACROSS_LONG};
	const unsigned int what = (unsigned int) fuzz_take(in, 1);

	scene_open(&scene, NULL);
	peer = fake_peer(&scene.ep, FAKE_ALIVE);
	scene.ep.policy = policies[fuzz_pick(in, FUZZ_COUNT(policies))];
	scene.ep.quirks = (what & 2 ? QUIRK_NEAR : 0) | (what & 8 ? 0 : QUIRK_PEEK_UNMARKED);
	scene.ep.proto->follows = what & 4;
	scene.ep.followed = what & 16 ? FI_RECV : FI_RECV | FI_SEND;
	fake_xfer.stage.lender = what & 1 ? &nic : NULL;
	fake_xfer.map.domain = what & 32 ? &nic : NULL;
	fake_xfer.local = what & 32 ? &local : NULL;
	conf.eager_size = what & 64 ? SCENE_LEN : SCENE_WHOLE;
	/* what nobody announces ends by that */
	conf.peer_timeout = 30;
	if (what & 128)
		open_side();
	peer->open = !fuzz_rarely(in, 4);
	if (!peer->open)
		peer->state = XFER_PEER_NEW;
	scene.ep.front.inbox.open = false;
	scene.ep.front.inbox.wanted = 0;
	p2p_lock_take(&fake_xfer.lock);
	ctrl_listen(&scene.ep.front);
	p2p_lock_drop(&fake_xfer.lock);
}

/* The core ends one of its operations well. False: it has none but receives that wait for a peer */
static bool end_next(bool all)
{
	for (size_t i = 0; i < fake.count; i++) {
		const struct fake_op *op = &fake.held[i];

		if (listens(op) || (op->kind == FAKE_RECV && !op->cancelled && !all))
			continue;
		end_one(i, &(struct core_comp){
				   .len = op->len,
				   .err = op->kind == FAKE_RECV ? FI_ECANCELED : 0,
			   });
		return true;
	}
	return false;
}

static void drain(bool all)
{
	fake.no_sends = fake.no_recvs = fake.no_internal = false;
	do {
		while (end_next(all))
			;
		move();
		read_queue();
	} while (end_next(all) || fake_xfer.copies.pending);
}

/* The peer has been greeted, if so: it answers at last. */
static void greet(void)
{
	const struct wire_msg answer = {
		.type = WIRE_HELLO,
		.flags = WIRE_ANSWERS,
		.token = peer->tokens[peer->current].token,
		.epoch = peer->epoch,
		.grant = GRANT,
		.oldest = WIRE_VERSION_OLDEST,
		.newest = WIRE_VERSION,
		.name = "peer",
		.name_len = 4,
	};
	uint8_t letter[WIRE_MSG_MAX];

	if (!peer->open)
		hear(letter, wire_encode(&answer, letter));
}

/* The peer gives up what has this number. */
static void give_up_one(uint64_t id, uint64_t token)
{
	static const struct wire_msg ends[] = {
		{.type = WIRE_DONE, .status = -FI_EIO, .to_sender = true},
		{.type = WIRE_DONE, .status = -FI_EIO},
	};
	uint8_t letter[WIRE_MSG_MAX];
	struct wire_msg msg;

	for (size_t i = 0; i < FUZZ_COUNT(ends); i++) {
		msg = ends[i];
		msg.id = id;
		msg.token = token;
		hear(letter, wire_encode(&msg, letter));
	}
}

/* It gives up whatever it might have heard of, with the token that it was given last. */
static void give_up(void)
{
	const struct xfer_token *given = &peer->tokens[peer->current];
	struct fuzz_known known = {.id_count = 0};

	learn(&known);
	for (size_t i = 0; i < P2P_MIN(known.id_count, FUZZ_IDS); i++) {
		give_up_one(known.ids[i], scene.token);
		if (given->token && given->token != scene.token)
			give_up_one(known.ids[i], given->token);
	}
}

/* What is under way: but for what the application has claimed, and not received. NULL: nothing */
static const struct xfer_req *stays(void)
{
	const struct xfer_ctx *ctx;
	const struct xfer_req *req;

	LIST_FOREACH(ctx, &scene.ep.live, live) {
		req = (const struct xfer_req *) ctx;
		if (xfer_ctx_is_req(ctx) && req->state != XFER_CLAIMED)
			return req;
	}
	return NULL;
}

static void check_ended(void)
{
	const struct xfer_req *req = stays();

	if (req) {
		fprintf(stderr, "a request stays: %s\n", xfer_state_name(req->state));
		abort();
	}
	for (size_t i = 0; i < OPS; i++)
		FUZZ_CHECK(ops[i] != POSTED);
}

static void start(void)
{
	fuzz_start();
	/* assertions of the unit tests' parts end the program, too */
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	scenes_start();
	device = unit_dev_alloc(SCENE_LEN);
	fake_xfer.key_mark = SCENE_KEY_MARK;
	region_device = (struct region){
		.key = KEY_DEVICE,
		.access = FI_REMOTE_READ | FI_REMOTE_WRITE,
		.iov = {{device, SCENE_LEN}},
		.count = 1,
		.len = SCENE_LEN,
	};
	FUZZ_CHECK(dev_find(device, &region_device.mem));
	p2p_lock_take(&fake_xfer.lock);
	FUZZ_CHECK(!region_add(&fake_xfer, &region_device, false));
	p2p_lock_drop(&fake_xfer.lock);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	start();
	fuzz_tell("operations posted", &posts);
	fuzz_tell("letters heard", &messages);
	fuzz_tell("passes of progress", &moves);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz in = {data, size};

	memset(ops, 0, sizeof ops);
	open_scene(&in);
	for (unsigned int steps = 0; steps < STEPS && in.left; steps++)
		step(&in);
	drain(false);
	/* where time passes meanwhile the peer may be lost, and be greeted anew */
	for (unsigned int i = 0; i < ROUNDS && (i < 4 || stays()); i++) {
		greet();
		drain(false);
		give_up();
		drain(true);
	}
	/* who was lost is not heard any more: what waits for its announcement ends with its time */
	p2p_lock_take(&fake_xfer.lock);
	rndv_arrivals_watch(&fake_xfer, 1000 * (unsigned int) conf.peer_timeout);
	p2p_lock_drop(&fake_xfer.lock);
	drain(true);
	check_ended();
	scene_close(&scene);
	FUZZ_CHECK(!region_device.users);
	return 0;
}
