/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_trigger: operations that wait for counters. Deferred work of every kind between every pair of memory
 * kinds; FI_TRIGGER, by flag and by an alias; chains within a process and between two; many works on one
 * counter, queued in any order; what is cancelled, flushed or wrong.
 *
 * Nothing may begin before its counter has come so far. All must be counted once, by the named counter.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trigger.h"

/* ---- plain operations ---- */

/* Posts a plain operation with the arguments of a job */
static int post_plain(struct side *s, enum fi_op_type type)
{
	struct fid_ep *ep = s->pair.ctx.ep;
	struct job job;
	ssize_t ret;

	trigger_job_init(s, &job, type, &s->pair.buf[0], 64, 0);
	ret = type == FI_OP_READ    ? fi_readmsg(ep, &job.op.rma.msg, 0)
	      : type == FI_OP_WRITE ? fi_writemsg(ep, &job.op.rma.msg, 0)
				    : fi_atomicmsg(ep, &job.op.atomic.msg, 0);
	return ret ? ft_fail((int) ret, "a plain operation", "type %d", type) : 0;
}

/*
 * The first remote operations wait in the queue until the owner answers, which it does not before it has met
 * us. They are nobody's work: a flush leaves them there, and they are counted.
 */
static int plain(struct side *s)
{
	const uint64_t tx = fi_cntr_read(s->tx);
	const bool atomics = s->pair.ctx.info->caps & FI_ATOMIC;

	if (!ft_pair_sends(&s->pair)) {
		FT_TRY(ft_meet(s->pair.proc));
		return ft_barrier(s->pair.proc, &s->pair.ctx);
	}
	FT_TRY(post_plain(s, FI_OP_WRITE));
	FT_TRY(post_plain(s, FI_OP_READ));
	if (atomics)
		FT_TRY(post_plain(s, FI_OP_ATOMIC));
	FT_TRY(trigger_control(s, FI_FLUSH_WORK, s->trigger));
	FT_TRY(trigger_control(s, FI_FLUSH_WORK, NULL));
	FT_TRY(ft_meet(s->pair.proc));
	FT_TRY(trigger_wait_for(s->tx, tx + 2 + atomics,
				"plain operations, after FI_FLUSH_WORK"));
	return ft_barrier(s->pair.proc, &s->pair.ctx);
}

/* ---- each operation ---- */

/* Queues a job, which goes at once (@met) or later, and waits until the counter that was named has counted it. */
static int go(struct side *s, struct job *job, bool met)
{
	const uint64_t reached = fi_cntr_read(s->trigger), done = fi_cntr_read(s->done);
	const uint64_t tx = fi_cntr_read(s->tx), rx = fi_cntr_read(s->rx);

	FT_TRY(trigger_queue(s, job, met ? reached : reached + 1));
	if (!met) {
		FT_TRY(trigger_stays(s->done, done, "a work that is to wait"));
		FT_TRY(fi_cntr_add(s->trigger, 1));
	}
	FT_TRY(trigger_wait_for(s->done, done + 1, "a deferred work"));
	FT_CHECK(fi_cntr_read(s->tx) == tx && fi_cntr_read(s->rx) == rx,
		 "a deferred work is counted by its endpoint's counters");
	return trigger_no_reports(s);
}

/* A deferred send meets a deferred receive. */
static int messages(struct side *s, bool tagged, size_t from, size_t to, size_t len)
{
	const bool sends = ft_pair_sends(&s->pair);
	const struct ft_slot slot = trigger_slot_of(&s->pair.buf[sends ? from : to], len);
	const enum fi_op_type types[] = {FI_OP_RECV, FI_OP_SEND, FI_OP_TRECV, FI_OP_TSEND};
	struct job job;

	s->number++;
	FT_TRY(sends ? ft_slot_fill(&slot, s->number) : ft_slot_arm(&slot));
	trigger_job_init(s, &job, types[2 * tagged + sends], slot.buf, len, 0);
	FT_TRY(go(s, &job, s->number % 2));
	return sends ? 0 : ft_slot_check(&slot, len, s->number, "a deferred message");
}

/* Rank 1 reads or writes rank 0's memory. */
static int remote(struct side *s, bool write, size_t from, size_t to, size_t len)
{
	const bool initiates = ft_pair_sends(&s->pair);
	const struct ft_slot slot =
		trigger_slot_of(initiates ? &s->pair.buf[from] : &s->shared[to], len);
	const bool fills = initiates == write;
	struct job job;

	s->number++;
	FT_TRY(fills ? ft_slot_fill(&slot, s->number) : ft_slot_arm(&slot));
	FT_TRY(ft_meet(s->pair.proc));
	if (initiates) {
		trigger_job_init(s, &job, write ? FI_OP_WRITE : FI_OP_READ, slot.buf, len, to);
		FT_TRY(go(s, &job, s->number % 2));
	}
	FT_TRY(ft_barrier(s->pair.proc, &s->pair.ctx));
	return fills ? 0 : ft_slot_check(&slot, len, s->number, "deferred RMA");
}

static int elements_check(const struct ft_buf *buf, const void *addr, uint64_t want,
			  const char *what)
{
	uint64_t found[ELEMENTS];

	FT_TRY(buf->ops->from(found, addr, sizeof(found)));
	for (size_t i = 0; i < ELEMENTS; i++)
		FT_CHECK(found[i] == want, "%s: element %zu is %" PRIu64 ", not %" PRIu64, what,
			 i, found[i], want);
	return 0;
}

static int elements_fill(const struct ft_buf *buf, void *addr, uint64_t value)
{
	uint64_t elements[ELEMENTS];

	for (size_t i = 0; i < ELEMENTS; i++)
		elements[i] = value;
	return buf->ops->to(addr, elements, sizeof(elements));
}

/* Adds 7 to 5, or swaps 5 for 7, in rank 0's memory. */
static int atomic(struct side *s, enum fi_op_type type, size_t from, size_t to)
{
	const struct ft_buf *local = &s->pair.buf[from], *shared = &s->shared[to];
	const bool initiates = ft_pair_sends(&s->pair);
	struct job job;

	s->number++;
	FT_TRY(elements_fill(shared, shared->addr, 5));
	FT_TRY(elements_fill(local, local->addr, 7));
	FT_TRY(elements_fill(local, local->addr + 8 * ELEMENTS, 0));
	FT_TRY(elements_fill(local, local->addr + 16 * ELEMENTS, 5));
	FT_TRY(ft_meet(s->pair.proc));
	if (initiates) {
		trigger_job_init(s, &job, type, local, 0, to);
		FT_TRY(go(s, &job, s->number % 2));
		FT_TRY(elements_check(local, local->addr + 8 * ELEMENTS,
				      type == FI_OP_ATOMIC ? 0 : 5, "what was there before"));
	}
	FT_TRY(ft_barrier(s->pair.proc, &s->pair.ctx));
	return initiates ? 0
			 : elements_check(shared, shared->addr,
					  type == FI_OP_COMPARE_ATOMIC ? 7 : 12,
					  "a deferred atomic operation");
}

static int each_operation(struct side *s)
{
	static const size_t sizes[] = {0, 64, 20000, LARGEST};
	const size_t kinds = s->pair.kind_count;

	for (size_t i = 0; i < kinds * kinds; i++) {
		const size_t from = i % kinds, to = i / kinds, target = to % s->targets;

		for (size_t n = 0; n < FT_COUNT(sizes); n++) {
			FT_TRY(messages(s, false, from, to, sizes[n]));
			FT_TRY(messages(s, true, from, to, sizes[n]));
			if (!sizes[n])
				continue;
			FT_TRY(remote(s, true, from, target, sizes[n]));
			FT_TRY(remote(s, false, from, target, sizes[n]));
		}
		for (enum fi_op_type t = FI_OP_ATOMIC;
		     s->pair.ctx.info->caps & FI_ATOMIC && t <= FI_OP_COMPARE_ATOMIC; t++)
			FT_TRY(atomic(s, t, from, target));
	}
	return 0;
}

/* ---- counters that change counters ---- */

static int counters(struct side *s)
{
	const uint64_t reached = fi_cntr_read(s->trigger);
	struct job job[3];
	struct fid_cntr *other;

	FT_TRY(ft_cntr_open(&s->pair.ctx, FI_WAIT_UNSPEC, 0, &other));
	trigger_job_init_cntr(s, &job[0], FI_OP_CNTR_SET, other, 5);
	trigger_job_init_cntr(s, &job[1], FI_OP_CNTR_ADD, other, 5);
	FT_TRY(trigger_queue(s, &job[1], reached + 2));
	FT_TRY(trigger_queue(s, &job[0], reached + 1));
	/* and what waits for the other one changes this one */
	trigger_job_init_cntr(s, &job[2], FI_OP_CNTR_ADD, s->trigger, 3);
	job[2].work.triggering_cntr = other;
	FT_TRY(trigger_queue(s, &job[2], 10));
	FT_CHECK(fi_close(&other->fid) == -FI_EBUSY, "a counter with works could be closed");
	FT_TRY(trigger_stays(other, 0, "a counter that is to be changed later"));
	FT_TRY(fi_cntr_add(s->trigger, 1));
	FT_TRY(trigger_wait_for(other, 5, "FI_OP_CNTR_SET"));
	FT_TRY(fi_cntr_add(s->trigger, 1));
	FT_TRY(trigger_wait_for(other, 10, "FI_OP_CNTR_ADD"));
	FT_TRY(trigger_wait_for(s->trigger, reached + 5, "FI_OP_CNTR_ADD in turn"));
	/* an error counts for thresholds, too */
	trigger_job_init_cntr(s, &job[0], FI_OP_CNTR_ADD, s->trigger, 1);
	job[0].work.triggering_cntr = other;
	FT_TRY(trigger_queue(s, &job[0], 11));
	FT_TRY(fi_cntr_adderr(other, 1));
	FT_TRY(trigger_wait_for(s->trigger, reached + 6, "a threshold that an error reaches"));
	return fi_close(&other->fid) ? ft_fail(-FI_EBUSY, "fi_close", "a counter") : 0;
}

/* ---- chains ---- */

/* Each write waits for the one before it. */
static int chain(struct side *s)
{
	const uint64_t done = fi_cntr_read(s->done), reached = fi_cntr_read(s->trigger);
	struct job *job = calloc(CHAIN, sizeof(*job));
	int ret = job ? 0 : -FI_ENOMEM;

	for (size_t i = 0; !ret && i < CHAIN; i++) {
		trigger_job_init(s, &job[i], FI_OP_WRITE, &s->pair.buf[0], 64, 0);
		if (i)
			job[i].work.triggering_cntr = s->done;
		ret = trigger_queue(s, &job[i], i ? done + i : reached + 1);
	}
	if (!ret)
		ret = trigger_stays(s->done, done, "a chain");
	if (!ret)
		ret = fi_cntr_add(s->trigger, 1);
	if (!ret)
		ret = trigger_wait_for(s->done, done + CHAIN, "a chain of writes");
	FT_TRY(ret);
	free(job);
	return ft_barrier(s->pair.proc, &s->pair.ctx);
}

/* Each write waits for the peer's one, which waits for ours. */
static int chain_of_two(struct side *s)
{
	const uint64_t done = fi_cntr_read(s->done), came = fi_cntr_read(s->remote);
	const bool first = ft_pair_sends(&s->pair);
	struct job *job = calloc(CHAIN, sizeof(*job));
	int ret = job ? 0 : -FI_ENOMEM;

	/* both have read what had come */
	if (!ret)
		ret = ft_meet(s->pair.proc);
	for (size_t i = 0; !ret && i < CHAIN; i++) {
		trigger_job_init(s, &job[i], FI_OP_WRITE, &s->pair.buf[s->pair.kind_count - 1],
				 64, s->targets - 1);
		job[i].work.triggering_cntr = s->remote;
		ret = trigger_queue(s, &job[i], came + i + !first);
	}
	if (!ret)
		ret = trigger_wait_for(s->remote, came + CHAIN, "the peer's writes");
	if (!ret)
		ret = trigger_wait_for(s->done, done + CHAIN, "writes that answer the peer's");
	FT_TRY(ret);
	free(job);
	return ft_barrier(s->pair.proc, &s->pair.ctx);
}

/* ---- many, in order ---- */

static int many_received(struct side *s)
{
	struct ft_buf *buf = &s->pair.buf[s->pair.kind_count - 1];
	struct ft_req *req = calloc(MANY, sizeof(*req));
	unsigned char *data = malloc(MANY * 8);
	struct ft_op op = {.call = FT_RECVMSG,
			   .tagged = true,
			   .addr = s->pair.peer,
			   .tag = TAG,
			   .flags = FI_COMPLETION};
	uint64_t number;

	if (!req || !data)
		return -FI_ENOMEM;
	for (size_t i = 0; i < MANY; i++) {
		op.req = &req[i];
		ft_op_buf(&op, buf, 8 * i, 8);
		FT_TRY(ft_post(&s->pair.ctx, &op));
	}
	FT_TRY(ft_meet(s->pair.proc));
	FT_TRY(ft_wait(&s->pair.ctx, req, MANY));
	FT_TRY(buf->ops->from(data, buf->addr, MANY * 8));
	for (size_t i = 0; i < MANY; i++) {
		memcpy(&number, data + 8 * i, 8);
		FT_CHECK(number == i, "work %" PRIu64 " was the %zuth to go", number, i);
	}
	free(req);
	free(data);
	return 0;
}

/* Works are queued in any order, several of a threshold, and go by threshold, and then as queued. */
static int many_sent(struct side *s)
{
	const uint64_t done = fi_cntr_read(s->done), reached = fi_cntr_read(s->trigger);
	struct ft_buf *buf = &s->pair.buf[s->pair.kind_count - 1];
	struct job *job = calloc(MANY, sizeof(*job));
	uint64_t number[MANY], seed = s->pair.proc->opts.seed + 1;
	size_t order[MANY / 3];

	if (!job)
		return -FI_ENOMEM;
	for (size_t i = 0; i < MANY; i++)
		number[i] = i;
	FT_TRY(buf->ops->to(buf->addr, number, sizeof(number)));
	for (size_t i = 0; i < MANY / 3; i++) {
		const size_t j = ft_random(&seed) % (i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (size_t i = 0; i < MANY; i++) {
		const size_t threshold = order[i / 3], at = 3 * threshold + i % 3;

		trigger_job_init(s, &job[i], FI_OP_TSEND, buf, 8, 0);
		job[i].iov.iov_base = buf->addr + 8 * at;
		FT_TRY(trigger_queue(s, &job[i], reached + 1 + threshold));
	}
	FT_TRY(ft_meet(s->pair.proc));
	for (size_t i = 0; i < MANY / 3;) {
		const size_t step = FT_MIN(1 + ft_random(&seed) % 20, MANY / 3 - i);

		FT_TRY(fi_cntr_add(s->trigger, step));
		i += step;
	}
	FT_TRY(trigger_wait_for(s->done, done + MANY, "many works"));
	free(job);
	return 0;
}

static int many(struct side *s)
{
	FT_TRY(ft_pair_sends(&s->pair) ? many_sent(s) : many_received(s));
	return ft_barrier(s->pair.proc, &s->pair.ctx);
}

/* ---- FI_TRIGGER ---- */

/* The condition is in the context, of which nobody needs to know once the call has returned. */
static void set_condition(struct side *s, struct ft_req *req, uint64_t threshold)
{
	struct fi_triggered_context2 condition = {.event_type = FI_TRIGGER_THRESHOLD};

	condition.trigger.threshold.cntr = s->trigger;
	condition.trigger.threshold.threshold = threshold;
	memset(req, 0, sizeof(*req));
	memcpy(&req->context, &condition, sizeof(condition));
}

/* By fi_tsendmsg(3) with flags, or by an alias without; reported and counted as ever */
static int by_flag(struct side *s, struct fid_ep *alias, size_t kind)
{
	const uint64_t reached = fi_cntr_read(s->trigger), tx = fi_cntr_read(s->tx),
		       rx = fi_cntr_read(s->rx);
	const bool sends = ft_pair_sends(&s->pair);
	const struct ft_slot slot = trigger_slot_of(&s->pair.buf[kind], 20000);
	struct iovec iov = {slot.buf->addr + slot.off, slot.len};
	void *desc = slot.buf->desc;
	struct ft_req req;
	struct fi_msg_tagged msg = {&iov, &desc, 1, s->pair.peer, TAG, 0, &req, 0};
	struct fid_ep *ep = s->pair.ctx.ep;
	const uint64_t flags = FI_TRIGGER | FI_COMPLETION;
	ssize_t ret;

	set_condition(s, &req, reached + 1);
	FT_TRY(sends ? ft_slot_fill(&slot, kind) : ft_slot_arm(&slot));
	if (alias)
		ret = sends ? fi_tsend(alias, iov.iov_base, iov.iov_len, desc, s->pair.peer,
				       TAG, &req)
			    : fi_trecv(alias, iov.iov_base, iov.iov_len, desc, s->pair.peer,
				       TAG, 0, &req);
	else
		ret = sends ? fi_tsendmsg(ep, &msg, flags) : fi_trecvmsg(ep, &msg, flags);
	if (ret)
		return ft_fail((int) ret, "an operation with FI_TRIGGER", "%s",
			       alias ? "by an alias" : "by its flag");
	FT_TRY(trigger_stays(sends ? s->tx : s->rx, sends ? tx : rx,
			     "an operation with FI_TRIGGER"));
	FT_TRY(trigger_no_reports(s));
	FT_TRY(fi_cntr_add(s->trigger, 1));
	FT_TRY(ft_wait(&s->pair.ctx, &req, 1));
	FT_CHECK(fi_cntr_read(s->tx) == tx + sends && fi_cntr_read(s->rx) == rx + !sends,
		 "an operation with FI_TRIGGER is not counted by its endpoint");
	return sends ? 0 : ft_slot_check(&slot, slot.len, kind, "with FI_TRIGGER");
}

static int triggered(struct side *s)
{
	struct fid_ep *ep = s->pair.ctx.ep, *alias;
	struct ft_name name;
	size_t len = sizeof(name.bytes), room = sizeof(int);
	int p2p = FI_HMEM_P2P_DISABLED;
	int ret = fi_ep_alias(ep, &alias, FI_TRANSMIT | FI_RECV | FI_TRIGGER | FI_COMPLETION);

	if (ret)
		return ft_fail(ret, "fi_ep_alias", "with FI_TRIGGER");
	for (size_t kind = 0; kind < s->pair.kind_count; kind++) {
		FT_TRY(by_flag(s, NULL, kind));
		FT_TRY(by_flag(s, alias, kind));
	}
	FT_TRY(fi_getname(&alias->fid, name.bytes, &len));
	FT_TRY(fi_setopt(&alias->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &p2p, room));
	p2p = FI_HMEM_P2P_ENABLED;
	FT_TRY(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &p2p, &room));
	FT_CHECK(p2p == FI_HMEM_P2P_DISABLED, "an option was not set by an alias");
	p2p = FI_HMEM_P2P_ENABLED;
	FT_TRY(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &p2p, room));
	FT_CHECK(fi_close(&ep->fid) == -FI_EBUSY, "an endpoint with an alias could be closed");
	FT_TRY(fi_close(&alias->fid));
	return ft_barrier(s->pair.proc, &s->pair.ctx);
}

/* ---- given up, and wrong ---- */

static int given_up(struct side *s)
{
	const uint64_t reached = fi_cntr_read(s->trigger), done = fi_cntr_read(s->done);
	struct job job[4];

	for (size_t i = 0; i < FT_COUNT(job); i++) {
		trigger_job_init(s, &job[i], FI_OP_TSEND, &s->pair.buf[0], 64, 0);
		if (i == 3)
			job[i].work.triggering_cntr = s->tx;
		FT_TRY(trigger_queue(s, &job[i], i == 3 ? UINT64_MAX : reached + 1));
	}
	FT_TRY(trigger_control(s, FI_CANCEL_WORK, &job[1].work));
	FT_CHECK(trigger_control(s, FI_CANCEL_WORK, &job[1].work) == -FI_ENOENT,
		 "a work was cancelled twice");
	FT_TRY(trigger_control(s, FI_FLUSH_WORK, s->trigger));
	FT_CHECK(fi_close(&s->done->fid) == -FI_EBUSY,
		 "a counter that is to count a work could be closed");
	FT_TRY(trigger_control(s, FI_FLUSH_WORK, NULL));
	FT_CHECK(trigger_control(s, FI_CANCEL_WORK, &job[3].work) == -FI_ENOENT,
		 "a work was there that had been flushed with the domain");
	FT_TRY(fi_cntr_add(s->trigger, 1));
	return trigger_stays(s->done, done, "works that were given up");
}

/* Takes the next report, which is an error, of @context */
static int take_error(struct side *s, void *context, int want, const char *what)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(s->pair.ctx.cq, &entry, 1)) == -FI_EAGAIN)
		FT_TRY(ft_idle(&s->pair.ctx));
	FT_CHECK(ret == -FI_EAVAIL, "%s: fi_cq_read: %zd", what, ret);
	ret = fi_cq_readerr(s->pair.ctx.cq, &err, 0);
	FT_CHECK(ret == 1 && err.op_context == context && (!want || abs(err.err) == want),
		 "%s: fi_cq_readerr: %zd, error %d", what, ret, err.err);
	return 0;
}

/* A cancelled operation with FI_TRIGGER, and a deferred receive that is under way */
static int cancelled(struct side *s)
{
	const uint64_t reached = fi_cntr_read(s->trigger), errors = fi_cntr_readerr(s->done);
	struct iovec iov = {s->pair.buf[0].addr, 64};
	void *desc = s->pair.buf[0].desc;
	struct ft_req req;
	struct fi_msg_tagged msg = {&iov, &desc, 1, s->pair.peer, TAG + 1, 0, &req, 0};
	struct fid_ep *ep = s->pair.ctx.ep;
	struct job job;

	set_condition(s, &req, reached + 1);
	FT_TRY(fi_tsendmsg(ep, &msg, FI_TRIGGER));
	FT_TRY(fi_cancel(&ep->fid, &req));
	FT_TRY(take_error(s, &req, FI_ECANCELED, "a cancelled operation"));
	trigger_job_init(s, &job, FI_OP_TRECV, &s->pair.buf[0], 64, 0);
	FT_TRY(trigger_queue(s, &job, reached));
	FT_TRY(fi_cancel(&ep->fid, &job.work.context));
	FT_TRY(take_error(s, &job.work.context, FI_ECANCELED, "a cancelled receive"));
	FT_CHECK(fi_cntr_readerr(s->done) == errors + 1, "its error is not counted");
	return fi_cntr_seterr(s->done, 0);
}

/* An error is reported, and counted by the counter that was named. */
static int failed(struct side *s)
{
	const uint64_t reached = fi_cntr_read(s->trigger), tx = fi_cntr_readerr(s->tx);
	struct job job;

	trigger_job_init(s, &job, FI_OP_WRITE, &s->pair.buf[0], 64, 0);
	job.remote.key ^= 0x5a5a;
	FT_TRY(trigger_queue(s, &job, reached));
	FT_TRY(take_error(s, &job.work.context, 0, "a write with a wrong key"));
	FT_CHECK(fi_cntr_readerr(s->done) == 1 && fi_cntr_readerr(s->tx) == tx,
		 "errors counted: %" PRIu64 " by the counter that was named",
		 fi_cntr_readerr(s->done));
	/* one that cannot even begin; over a hook the core judges that, and may crash */
	if (!ft_hook_active()) {
		trigger_job_init(s, &job, FI_OP_TSEND, &s->pair.buf[0], 64, 0);
		job.iov.iov_base = NULL;
		FT_TRY(trigger_queue(s, &job, reached));
		FT_TRY(take_error(s, &job.work.context, 0, "a message without a buffer"));
		FT_CHECK(fi_cntr_readerr(s->done) == 2, "its error is not counted");
	}
	FT_TRY(fi_cntr_seterr(s->done, 0));
	return ft_barrier(s->pair.proc, &s->pair.ctx);
}

static int refuses(struct side *s, struct job *job, int want, const char *what)
{
	int ret = trigger_control(s, FI_QUEUE_WORK, &job->work);

	FT_CHECK(ret == want, "%s: %d, not %d", what, ret, want);
	return 0;
}

static int refused(struct side *s)
{
	struct fid_ep *ep = s->pair.ctx.ep;
	struct fi_msg_tagged msg = {0};
	struct job job;

	trigger_job_init(s, &job, FI_OP_TSEND, &s->pair.buf[0], 64, 0);
	job.op.tagged.flags = FI_INJECT;
	FT_TRY(refuses(s, &job, -FI_ENOSYS, "FI_INJECT"));
	trigger_job_init(s, &job, FI_OP_RECV, &s->pair.buf[0], 64, 0);
	job.op.msg.flags = FI_MULTI_RECV;
	FT_TRY(refuses(s, &job, -FI_ENOSYS, "FI_MULTI_RECV"));
	trigger_job_init(s, &job, FI_OP_TSEND, &s->pair.buf[0], 64, 0);
	job.work.triggering_cntr = NULL;
	FT_TRY(refuses(s, &job, -FI_EINVAL, "no counter"));
	trigger_job_init(s, &job, FI_OP_TSEND, &s->pair.buf[0], 64, 0);
	job.op.tagged.ep = NULL;
	FT_TRY(refuses(s, &job, -FI_EINVAL, "no endpoint"));
	trigger_job_init(s, &job, FI_OP_TSEND, &s->pair.buf[0], 64, 0);
	job.op.tagged.msg.iov_count = 1000;
	FT_TRY(refuses(s, &job, -FI_EINVAL, "too many pieces"));
	trigger_job_init_cntr(s, &job, FI_OP_CNTR_ADD, s->done, 1);
	job.work.completion_cntr = s->done;
	FT_TRY(refuses(s, &job, -FI_EINVAL, "a change of a counter that is to be counted"));
	trigger_job_init(s, &job, FI_OP_TSEND, &s->pair.buf[0], 64, 0);
	job.work.op_type = 1000;
	FT_TRY(refuses(s, &job, -FI_ENOSYS, "an unknown operation"));
	FT_CHECK(fi_tsendmsg(ep, &msg, FI_TRIGGER) == -FI_EINVAL, "no context was taken");
	return 0;
}

/* With works waiting, the endpoint may be closed, and then the counters. */
static int left(struct side *s)
{
	static struct job job[2];

	trigger_job_init(s, &job[0], FI_OP_TSEND, &s->pair.buf[0], 64, 0);
	FT_TRY(trigger_queue(s, &job[0], UINT64_MAX));
	trigger_job_init(s, &job[1], FI_OP_TRECV, &s->pair.buf[0], 64, 0);
	FT_TRY(trigger_queue(s, &job[1], 0));
	FT_CHECK(fi_close(&s->trigger->fid) == -FI_EBUSY,
		 "a counter with works waiting could be closed");
	return ft_meet(s->pair.proc);
}

/* Who has not asked for FI_TRIGGER has no queue. */
static int without(struct ft_proc *proc)
{
	struct fi_deferred_work work = {0};
	struct ft_pair pair;

	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, 64));
	FT_CHECK(!(pair.ctx.info->caps & FI_TRIGGER),
		 "FI_TRIGGER is offered to who has not asked");
	FT_CHECK(fi_control(&pair.ctx.domain->fid, FI_QUEUE_WORK, &work) == -FI_ENOSYS,
		 "deferred work is taken without FI_TRIGGER");
	FT_TRY(ft_meet(proc));
	return ft_pair_close(&pair, NULL, 0);
}

static int run(struct ft_proc *proc)
{
	struct side s;

	if (!ft_has_cntrs(&proc->opts))
		return proc->rank ? FT_SKIP : ft_skip("no counters by this provider");
	/* over a hook, the core says who has it */
	if (!ft_hook_active())
		FT_TRY(without(proc));
	FT_TRY(trigger_open(&s, proc));
	/* first: what it is about is seen once only */
	FT_TRY(plain(&s));
	FT_TRY(each_operation(&s));
	FT_TRY(counters(&s));
	FT_TRY(chain(&s));
	FT_TRY(chain_of_two(&s));
	FT_TRY(many(&s));
	FT_TRY(triggered(&s));
	FT_TRY(given_up(&s));
	FT_TRY(cancelled(&s));
	FT_TRY(failed(&s));
	FT_TRY(refused(&s));
	FT_TRY(left(&s));
	return trigger_close(&s);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Operations that wait for counters, and deferred work.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
