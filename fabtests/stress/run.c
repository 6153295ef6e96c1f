/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The course of a round: posting what the plan says, and waiting for it. See stress.h. */
#include <poll.h>

#include "stress.h"

#define CQ_BATCH 7     /* of no power of two: batches end anywhere */
#define PATIENCE 1000  /* attempts to start what the provider has no room for */
#define ARRIVED_US 500 /* how often to look for data that nothing reports */
#define STRAYS 20      /* looks for completions that should not be */

/* ---- completions ---- */

static int read_error(struct stress *s, struct fid_cq *cq)
{
	union {
		struct fi_cq_err_entry entry;
		char room[sizeof(struct fi_cq_err_entry) + 256]; /* newer ones are longer */
	} err = {.room = {0}};
	ssize_t ret = fi_cq_readerr(cq, &err.entry, 0);
	const struct fi_cq_err_entry *e = &err.entry;
	const struct fi_cq_tagged_entry comp = {
		.op_context = e->op_context,
		.flags = e->flags,
		.len = e->len,
		.buf = e->buf,
		.data = e->data,
		.tag = e->tag,
	};

	if (ret == -FI_EAGAIN)
		return 0;
	if (ret < 0)
		return ft_fail((int) ret, "fi_cq_readerr", "after -FI_EAVAIL");
	/* libfabric's shm reports errors with the wrong sign */
	FT_TRY(stress_completed(s, &comp, FI_ADDR_NOTAVAIL, e->err < 0 ? -e->err : e->err));
	return 1;
}

static int read_queue(struct stress *s, struct fid_cq *cq)
{
	struct fi_cq_tagged_entry comp[CQ_BATCH];
	fi_addr_t src[CQ_BATCH];
	ssize_t ret;

	for (int i = 0; i < CQ_BATCH; i++)
		src[i] = FI_ADDR_NOTAVAIL;
	if (s->plan.caps & FI_SOURCE)
		ret = fi_cq_readfrom(cq, comp, CQ_BATCH, src);
	else
		ret = fi_cq_read(cq, comp, CQ_BATCH);
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL)
		return read_error(s, cq);
	if (ret < 0)
		return ft_fail((int) ret, "fi_cq_read", "completion queue");
	for (ssize_t i = 0; i < ret; i++)
		FT_TRY(stress_completed(s, &comp[i], src[i], 0));
	return (int) ret;
}

int stress_progress(struct stress *s)
{
	int total = 0;

	for (int i = 0; i < STRESS_CQS; i++) {
		int n = read_queue(s, s->cq[i]);

		if (n < 0)
			return n;
		total += n;
	}
	if (total)
		ft_progress_note();
	return total;
}

int stress_turn(struct stress *s)
{
	int n = stress_progress(s);

	if (n < 0)
		return n;
	return n ? 0 : ft_idle(&s->ctx[0]);
}

int stress_barrier(struct stress *s)
{
	const int fd = s->proc->fd[!s->proc->rank];
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	char byte = 0;

	FT_TRY(ft_oob_send(fd, &byte, 1));
	while (poll(&pfd, 1, 0) <= 0)
		FT_TRY(stress_turn(s));
	FT_TRY(ft_oob_recv(fd, &byte, 1, s->proc->opts.timeout));
	ft_progress_note();
	return 0;
}

/* ---- posting ---- */

static int failed(const struct stress_op *op, ssize_t ret)
{
	char what[512];

	stress_op_name(op, what, sizeof(what));
	return ft_fail((int) ret, "posting", "%s", what);
}

/* What begins operation number @n, or receives it: 0, -FI_EAGAIN or an error, told */
static int post_once(struct stress *s, unsigned int n, bool start)
{
	struct stress_op *op = &s->round.op[n];
	const int end = start ? op->type->starter : !op->type->starter;
	struct stress_part *part = &s->part[n][end];
	ssize_t ret;

	/* it may complete before the call returns, seen by another's progress */
	part->posted = true;
	ret = start ? op->type->start(s, op) : op->type->take(s, op);
	if (ret == -FI_EAGAIN) {
		part->posted = false;
		return -FI_EAGAIN;
	}
	ft_progress_note();
	return ret ? failed(op, ret) : 0;
}

static int post(struct stress *s, unsigned int n, bool start)
{
	int ret;

	while ((ret = post_once(s, n, start)) == -FI_EAGAIN)
		FT_TRY(stress_turn(s));
	return ret;
}

/* Is there something for us to post among @list's @at-th and later? Moves @at to it. */
static bool next_start(const struct stress *s, unsigned int *at)
{
	for (; *at < s->round.count; ++*at) {
		const struct stress_op *op = &s->round.op[*at];

		if (op->end[op->type->starter].rank == s->proc->rank)
			return true;
	}
	return false;
}

static bool next_take(const struct stress *s, enum stress_when when, unsigned int *at)
{
	for (; *at < s->round.count; ++*at) {
		const struct stress_op *op = &s->round.op[s->round.takes[*at]];

		if (op->when == when && op->type->take &&
		    op->end[!op->type->starter].rank == s->proc->rank)
			return true;
	}
	return false;
}

static int post_takes(struct stress *s, enum stress_when when)
{
	for (unsigned int at = 0; next_take(s, when, &at); at++)
		FT_TRY(post(s, s->round.takes[at], false));
	return 0;
}

/*
 * Sends and such, with receives among them. Where the provider has no room for long, the
 * receives that the other side may be waiting for go first, and then those that come
 * late.
 */
static int post_mixed(struct stress *s, unsigned int *start)
{
	uint64_t rnd = s->round.number * 2 + (uint64_t) s->proc->rank;
	unsigned int take = 0;
	int patience = PATIENCE;

	for (;;) {
		const bool starts = next_start(s, start), takes = next_take(s, AMONG, &take);
		bool first = starts && (!takes || stress_coin(&rnd));
		int ret;

		if (!starts && !takes)
			return 0;
		if (first && !patience) {
			if (!takes)
				return 0;
			first = false;
		}
		ret = post_once(s, first ? *start : s->round.takes[take], first);
		if (!ret) {
			++*(first ? start : &take);
			patience = PATIENCE;
			if (stress_pick(&rnd, 4) == 0)
				ret = stress_progress(s);
		} else if (ret == -FI_EAGAIN) {
			patience -= patience > 0;
			ret = stress_turn(s);
		}
		if (ret < 0)
			return ret;
	}
}

/* ---- the round ---- */

static int prepare_end(struct stress *s, unsigned int n, int end)
{
	const struct stress_op *op = &s->round.op[n];
	const struct ft_slot slot = stress_slot(s, op, end);
	struct stress_part *part = &s->part[n][end];

	*part = (struct stress_part){
		.op = n,
		.end = end,
		.mine = op->end[end].rank == s->proc->rank,
		.wanted = op->end[end].signal && op->type->flags[end],
	};
	if (!part->mine || !slot.room)
		return 0;
	if (op->type->prepare)
		return op->type->prepare(s, op, end);
	return end == FROM ? ft_slot_fill(&slot, op->key) : ft_slot_arm(&slot);
}

/* A send is not delivered before there is a receive for it. */
static int none_delivered(const struct stress *s)
{
	char what[512];

	for (unsigned int n = 0; n < s->round.count; n++) {
		const struct stress_op *op = &s->round.op[n];

		if (!(op->flags & FI_DELIVERY_COMPLETE) || op->when < LATE ||
		    !s->part[n][FROM].mine || !s->part[n][FROM].done || !op->type->take)
			continue;
		stress_op_name(op, what, sizeof(what));
		FT_CHECK(s->plan.quirks & QUIRK_DELIVERY,
			 "%s: delivered, but nobody has received it yet", what);
	}
	return 0;
}

static bool all_done(const struct stress *s)
{
	for (unsigned int n = 0; n < s->round.count; n++)
		for (int end = 0; end < ENDS; end++) {
			const struct stress_part *part = &s->part[n][end];

			if (part->mine && part->wanted && !part->done)
				return false;
		}
	return true;
}

static int wait_all(struct stress *s)
{
	double looked = 0;

	for (;;) {
		FT_TRY(stress_turn(s));
		if (all_done(s) && ft_usec() - looked > ARRIVED_US) {
			int ret = stress_arrived(s);

			if (ret)
				return ret < 0 ? ret : 0;
			looked = ft_usec();
		}
	}
}

int stress_round_run(struct stress *s)
{
	unsigned int start = 0;

	for (unsigned int n = 0; n < s->round.count; n++)
		for (int end = 0; end < ENDS; end++)
			FT_TRY(prepare_end(s, n, end));
	FT_TRY(post_takes(s, EARLY));
	FT_TRY(stress_barrier(s));
	FT_TRY(post_mixed(s, &start));
	FT_TRY(none_delivered(s));
	FT_TRY(stress_barrier(s));
	FT_TRY(post_takes(s, LATE));
	for (; next_start(s, &start); start++)
		FT_TRY(post(s, start, true));
	FT_TRY(post_takes(s, LAST));
	FT_TRY(wait_all(s));
	FT_TRY(stress_barrier(s));
	for (int i = 0; i < STRAYS; i++) {
		int n = stress_progress(s);

		if (n < 0)
			return n;
	}
	/* what is still to be counted may need both sides' progress */
	FT_TRY(stress_check_counters(s));
	FT_TRY(stress_barrier(s));
	return stress_check_round(s);
}
