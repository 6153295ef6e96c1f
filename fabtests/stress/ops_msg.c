/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kinds of operations: messages, tagged or not, receives that are cancelled. */
#include <string.h>

#include "stress.h"

#define FAMILIES 4 /* groups of tagged messages that match in order, each way */
#define TAG_LOW 0xffULL
#define TAG_HIGH 0x3fffffff00000000ULL
#define TAG_SHIFT 8

static const struct stress_call send_calls[] = {
	{.name = "send", .call = FT_SEND},
	{.name = "sendv", .call = FT_SENDV, .split = true},
	{.name = "sendmsg", .call = FT_SENDMSG, .split = true, .msg = true},
	{.name = "sendmsg", .call = FT_SENDMSG, .split = true, .msg = true},
	{.name = "sendmsg", .call = FT_SENDMSG, .split = true, .msg = true},
	{.name = "senddata", .call = FT_SENDDATA, .data = true},
	{.name = "inject", .call = FT_INJECT, .inject = true},
	{.name = "injectdata", .call = FT_INJECTDATA, .data = true, .inject = true},
};

static const struct stress_call recv_calls[] = {
	{.name = "recv", .call = FT_RECV},
	{.name = "recvv", .call = FT_RECVV, .split = true},
	{.name = "recvmsg", .call = FT_RECVMSG, .split = true, .msg = true},
};

static const struct stress_call cancel_call = {.name = "cancel"};

/* ---- planning ---- */

/* A receive that reports nothing is done when its data is there: it needs some. */
static void plan_recv_call(const struct stress_plan *plan, struct stress_op *op, uint64_t *rnd)
{
	struct stress_end *to = &op->end[TO];
	bool reported;

	to->call = &recv_calls[stress_pick(rnd, FT_COUNT(recv_calls))];
	if (!stress_plan_selective(plan, to))
		return;
	reported = !op->size || (op->has_data && plan->quirks & QUIRK_DATA);
	if (reported)
		to->call = &recv_calls[FT_COUNT(recv_calls) - 1];
	to->signal = to->call->msg && (reported || stress_coin(rnd));
}

static void plan_send_call(const struct stress_plan *plan, struct stress_op *op, uint64_t *rnd)
{
	struct stress_end *from = &op->end[FROM];

	do
		from->call = &send_calls[stress_pick(rnd, FT_COUNT(send_calls))];
	while (from->call->inject && op->size > plan->inject);
	op->has_data = from->call->data;
	if (from->call->inject)
		from->signal = false;
	else if (stress_plan_selective(plan, from))
		from->signal = from->call->msg && stress_coin(rnd);
	if (!from->call->msg)
		return;
	op->has_data = stress_coin(rnd);
	op->flags = op->has_data ? FI_REMOTE_CQ_DATA : 0;
	if (op->size <= plan->inject && stress_pick(rnd, 4) == 0)
		op->flags |= FI_INJECT;
	else
		op->flags |= stress_plan_levels(plan, op, rnd);
	/* said twice, on the endpoints that report all */
	if (from->signal && (stress_plan_selective(plan, from) || stress_coin(rnd)))
		op->flags |= FI_COMPLETION;
}

/* Calls and places at both ends */
static bool plan_message(const struct stress_plan *plan, struct stress_round *round,
			 struct stress_op *op, uint64_t *rnd)
{
	const size_t slack = stress_coin(rnd) ? stress_pick(rnd, 3000) : 0;

	plan_send_call(plan, op, rnd);
	plan_recv_call(plan, op, rnd);
	return stress_plan_end(round, op, FROM, op->size, false, rnd) &&
	       stress_plan_end(round, op, TO, op->size + slack, false, rnd);
}

/* A number that stands for a pair of endpoints, in one direction */
static int pair_of(const struct stress_op *op)
{
	return (int) ((op->end[FROM].ep * STRESS_EPS + op->end[TO].ep) * 2) +
	       op->end[FROM].rank;
}

static bool msg_plan(const struct stress_plan *plan, struct stress_round *round,
		     struct stress_op *op, uint64_t *rnd)
{
	struct stress_end *from = &op->end[FROM], *to = &op->end[TO];

	/* only one sender, so that receives from any source know what they get */
	from->ep = round->source[to->rank][to->ep];
	if (round->multi[to->rank][to->ep])
		return false;
	op->size = stress_plan_size(plan, round, rnd);
	op->group = pair_of(op);
	return plan_message(plan, round, op, rnd);
}

static void plan_tag(struct stress_op *op, uint64_t id, uint64_t ignore, uint64_t *rnd)
{
	op->tag = id << TAG_SHIFT | (ft_random(rnd) & TAG_LOW) | (ft_random(rnd) & TAG_HIGH);
	op->ignore = ignore;
	/* ignored bits of the receive's tag mean nothing, whatever they are */
	op->match = (op->tag & ~ignore) | (ft_random(rnd) & ignore & (TAG_LOW | TAG_HIGH));
}

/*
 * A message's tag is its own or that of a family. The members of a family come from one
 * endpoint and go to one; some of their receives ignore what makes them differ.
 */
static bool tagged_plan(const struct stress_plan *plan, struct stress_round *round,
			struct stress_op *op, uint64_t *rnd)
{
	static const uint64_t masks[] = {0, TAG_LOW, TAG_HIGH, TAG_LOW | TAG_HIGH};
	struct stress_end *from = &op->end[FROM], *to = &op->end[TO];
	uint64_t family = stress_pick(rnd, 3 * FAMILIES);
	uint64_t ignore = masks[stress_pick(rnd, FT_COUNT(masks))];
	uint64_t id = FAMILIES + op->number;

	if (plan->quirks & QUIRK_IGNORE)
		ignore = 0;
	op->size = stress_plan_size(plan, round, rnd);
	if (round->wild) {
		/* all that goes to an endpoint is one family, and any receive takes any
		 */
		from->ep = round->source[to->rank][to->ep];
		op->group = 200 + pair_of(op);
		ignore = ~0ULL;
	} else if (family < FAMILIES) {
		from->ep = (unsigned int) family % round->eps;
		to->ep = (unsigned int) family / 2 % round->eps;
		op->group = 100 + (int) family * 2 + from->rank;
		id = family;
	}
	plan_tag(op, id, ignore, rnd);
	return plan_message(plan, round, op, rnd);
}

/* ---- posting ---- */

static ssize_t message_post(struct stress *s, struct stress_op *op, int end, bool tagged,
			    uint64_t flags)
{
	const struct stress_end *e = &op->end[end];
	const struct ft_buf *buf = &s->arena[end][e->kind != FI_HMEM_SYSTEM];
	const bool unnamed = end == FROM && e->call->inject;
	struct ft_op post = {
		.call = (enum ft_call) e->call->call,
		.tagged = tagged,
		.addr = end == FROM || op->directed ? s->peer[op->end[!end].ep]
						    : FI_ADDR_UNSPEC,
		.tag = end == FROM ? op->tag : op->match,
		.ignore = op->ignore,
		.data = op->data,
		.flags = flags,
		.req = unnamed ? NULL : &s->part[op->number][end].req,
	};

	ft_op_buf(&post, buf, e->off, e->len);
	if (e->call->split)
		post.count = stress_cut(s, post.iov, buf->addr + e->off, e->len,
					s->plan.iov_limit[end], op->cuts >> end * 8, 1);
	for (size_t i = 0; i < post.count; i++)
		post.desc[i] = buf->desc;
	return ft_post_once(&s->ctx[e->ep], &post);
}

static ssize_t message_send(struct stress *s, struct stress_op *op, bool tagged)
{
	const struct ft_slot slot = stress_slot(s, op, FROM);
	ssize_t ret = message_post(s, op, FROM, tagged, op->flags);

	/* An injected buffer is ours again at once. */
	if (!ret && (op->end[FROM].call->inject || op->flags & FI_INJECT))
		ret = ft_slot_arm(&slot);
	return ret;
}

static ssize_t message_recv(struct stress *s, struct stress_op *op, bool tagged)
{
	return message_post(s, op, TO, tagged, op->end[TO].signal ? FI_COMPLETION : 0);
}

static ssize_t msg_start(struct stress *s, struct stress_op *op)
{
	return message_send(s, op, false);
}

static ssize_t msg_take(struct stress *s, struct stress_op *op)
{
	return message_recv(s, op, false);
}

static ssize_t tagged_start(struct stress *s, struct stress_op *op)
{
	return message_send(s, op, true);
}

static ssize_t tagged_take(struct stress *s, struct stress_op *op)
{
	return message_recv(s, op, true);
}

const struct stress_type stress_msg = {
	.name = "msg",
	.caps = FI_MSG,
	.weight = 4,
	.starter = FROM,
	.plan = msg_plan,
	.start = msg_start,
	.take = msg_take,
	.flags = {FI_SEND | FI_MSG, FI_RECV | FI_MSG},
	.counter = {CNTR_SEND, CNTR_RECV},
};

const struct stress_type stress_tagged = {
	.name = "tagged",
	.caps = FI_TAGGED,
	.weight = 8,
	.starter = FROM,
	.plan = tagged_plan,
	.start = tagged_start,
	.take = tagged_take,
	.flags = {FI_SEND | FI_TAGGED, FI_RECV | FI_TAGGED},
	.counter = {CNTR_SEND, CNTR_RECV},
};

/* ---- probes: a peek until the message is there, then its receive ---- */

/* To an endpoint that reports and counts neither more nor less than what is asked for */
#define PROBED_EP 0

/*
 * The tag is its own, as is the receive's time: it is waited for as it is posted. A message
 * that another receive may take is none.
 */
static bool probe_plan(const struct stress_plan *plan, struct stress_round *round,
		       struct stress_op *op, uint64_t *rnd)
{
	const struct stress_end *from = &op->end[FROM];
	bool whole;

	op->end[TO].ep = PROBED_EP;
	if (plan->quirks & QUIRK_PEEK || round->wild ||
	    (plan->quirks & QUIRK_EPS && round->eps > 1) ||
	    (plan->quirks & QUIRK_UNEXPECTED && op->when == EARLY))
		return false;
	op->when = LAST;
	op->size = stress_plan_size(plan, round, rnd);
	plan_tag(op, FAMILIES + op->number, 0, rnd);
	whole = op->size <= 4096 ||
		(from->kind != FI_HMEM_SYSTEM && op->size > plan->announced);
	op->claim = stress_coin(rnd) && (whole || !(plan->quirks & QUIRK_CLAIM));
	if (!plan_message(plan, round, op, rnd))
		return false;
	op->end[TO].call = &recv_calls[FT_COUNT(recv_calls) - 1];
	return true;
}

static ssize_t probe_peek(struct stress *s, struct stress_op *op)
{
	struct stress_part *part = &s->part[op->number][TO];
	const struct ft_op peek = {
		.call = FT_RECVMSG,
		.tagged = true,
		.addr = op->directed ? s->peer[op->end[FROM].ep] : FI_ADDR_UNSPEC,
		.tag = op->match,
		.flags = FI_PEEK | FI_COMPLETION | (op->claim ? FI_CLAIM : 0),
		.req = &part->req,
	};
	ssize_t ret;

	part->probing = true;
	ret = ft_post_once(&s->ctx[PROBED_EP], &peek);
	part->probing = !ret;
	return ret ? ret : -FI_EAGAIN;
}

static ssize_t probe_take(struct stress *s, struct stress_op *op)
{
	const struct stress_part *part = &s->part[op->number][TO];

	if (part->probing)
		return -FI_EAGAIN;
	if (!part->found)
		return probe_peek(s, op);
	return message_post(s, op, TO, true, FI_COMPLETION | (op->claim ? FI_CLAIM : 0));
}

const struct stress_type stress_probe = {
	.name = "probe",
	.caps = FI_TAGGED,
	.weight = 2,
	.starter = FROM,
	.plan = probe_plan,
	.start = tagged_start,
	.take = probe_take,
	.flags = {FI_SEND | FI_TAGGED, FI_RECV | FI_TAGGED},
	.counter = {CNTR_SEND, CNTR_RECV},
};

/* ---- cancelled receives: nothing comes, and one process does it all ---- */

static bool cancel_plan(const struct stress_plan *plan, struct stress_round *round,
			struct stress_op *op, uint64_t *rnd)
{
	struct stress_end *from = &op->end[FROM], *to = &op->end[TO];

	from->rank = to->rank;
	from->call = &cancel_call;
	from->signal = false;
	op->when = EARLY;
	plan_tag(op, FAMILIES + STRESS_OPS + op->number, 0, rnd);
	to->call = &recv_calls[stress_pick(rnd, FT_COUNT(recv_calls))];
	return stress_plan_end(round, op, TO, stress_plan_size(plan, round, rnd), false, rnd);
}

static ssize_t cancel_start(struct stress *s, struct stress_op *op)
{
	return fi_cancel(&s->ctx[op->end[TO].ep].ep->fid, &s->part[op->number][TO].req);
}

static int cancel_check(struct stress *s, const struct stress_op *op, int end, const char *what)
{
	const struct ft_slot slot = stress_slot(s, op, TO);

	return end == TO ? ft_slot_guards(&slot, 0, what) : 0;
}

const struct stress_type stress_cancel = {
	.name = "cancel",
	.caps = FI_TAGGED,
	.weight = 1,
	.starter = FROM,
	.plan = cancel_plan,
	.start = cancel_start,
	.take = tagged_take,
	.flags = {0, FI_RECV | FI_TAGGED},
	.error = FI_ECANCELED,
	.counter = {CNTR_NONE, CNTR_NONE},
	.check = cancel_check,
};

/* ---- multi-receive: untagged messages, one after the other in one buffer ---- */

static bool multi_plan(const struct stress_plan *plan, struct stress_round *round,
		       struct stress_op *op, uint64_t *rnd)
{
	static const struct stress_call call = {.name = "recvmsg(multi)",
						.call = FT_RECVMSG,
						.msg = true};
	struct stress_end *from = &op->end[FROM], *to = &op->end[TO];
	int *leader = &round->multi_leader[to->rank][to->ep];
	struct stress_end *shared;

	from->ep = round->source[to->rank][to->ep];
	if (!round->multi[to->rank][to->ep])
		return false;
	if (plan->quirks & QUIRK_UNEXPECTED)
		op->when = EARLY;
	/* too long ones would leave too little for others, none at all no trace */
	op->size = 1 + stress_plan_size(plan, round, rnd) % 65536;
	if (*leader >= 0 && round->op[*leader].end[TO].len + op->size > STRESS_MULTI_ROOM / 2)
		return false;
	plan_send_call(plan, op, rnd);
	/* its data tells which message it is */
	if (!op->has_data && !from->call->msg)
		return false;
	op->has_data = true;
	if (from->call->msg)
		op->flags |= FI_REMOTE_CQ_DATA;
	if (!stress_plan_end(round, op, FROM, op->size, false, rnd))
		return false;
	if (*leader < 0)
		*leader = (int) op->number;
	op->leader = (unsigned int) *leader;
	shared = op->leader == op->number ? to : &round->op[op->leader].end[TO];
	shared->len += op->size;
	shared->call = &call;
	if (plan->quirks & QUIRK_DEVICE)
		shared->kind = FI_HMEM_SYSTEM;
	to->kind = shared->kind;
	return true;
}

static ssize_t multi_take(struct stress *s, struct stress_op *op)
{
	if (op->leader != op->number)
		return 0;
	return message_post(s, op, TO, false, FI_MULTI_RECV | FI_COMPLETION);
}

/* The leader's buffer, looked at once: what was written lies at its beginning. */
static int multi_check(struct stress *s, const struct stress_op *op, int end, const char *what)
{
	const struct ft_slot slot = stress_slot(s, &s->round.op[op->leader], TO);

	if (end == FROM)
		return stress_check_source(s, op, what);
	FT_TRY(ft_verify(slot.buf, slot.off + op->found, op->size, op->key));
	if (op->leader != op->number)
		return 0;
	/* where it ends the guards are intact; how it is used inside is the provider's */
	return ft_slot_guards(&slot, slot.len, what);
}

const struct stress_type stress_multi = {
	.name = "multi",
	.caps = FI_MSG | FI_MULTI_RECV,
	.weight = 3,
	.starter = FROM,
	.plan = multi_plan,
	.start = msg_start,
	.take = multi_take,
	.flags = {FI_SEND | FI_MSG, FI_RECV | FI_MSG},
	.counter = {CNTR_SEND, CNTR_RECV},
	.multi = true,
	.check = multi_check,
};
