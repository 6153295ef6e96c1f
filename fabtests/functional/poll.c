/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_poll: poll sets. A queue is reported if and only if there is something to read,
 * whatever goes on inside; a counter when it has changed. With a counter and without, as operations that are counted
 * may take another way to the queue.
 */
#include <string.h>

#include "ft_test.h"

#define LARGEST ((size_t) (3 << 20))

struct side {
	struct ft_pair pair;
	struct fid_cntr *rx; /* or NULL */
	struct fid_poll *poll;
	uint64_t received;
	bool cntr_seen;
};

static int open_cntr(struct ft_ctx *ctx)
{
	struct side *s = ctx->test;
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
	int ret = fi_cntr_open(ctx->domain, &attr, &s->rx, &s->rx);

	if (ret)
		return ft_fail(ret, "fi_cntr_open", "counter");
	ret = fi_ep_bind(ctx->ep, &s->rx->fid, FI_RECV);
	return ret ? ft_fail(ret, "fi_ep_bind", "counter") : 0;
}

static int side_open(struct side *s, struct ft_proc *proc, bool counts)
{
	struct fi_poll_attr attr = {0};
	int ret;

	memset(s, 0, sizeof(*s));
	FT_TRY(ft_pair_hints(&s->pair, proc));
	s->pair.ctx.prepare = counts ? open_cntr : NULL;
	s->pair.ctx.test = s;
	FT_TRY(ft_pair_open(&s->pair, LARGEST));
	s->pair.ctx.cq->fid.context = &s->pair.ctx.cq;
	ret = fi_poll_open(s->pair.ctx.domain, &attr, &s->poll);
	if (ret)
		return ft_fail(ret, "fi_poll_open", "poll set");
	FT_TRY(fi_poll_add(s->poll, &s->pair.ctx.cq->fid, 0));
	if (s->rx)
		FT_TRY(fi_poll_add(s->poll, &s->rx->fid, 0));
	return 0;
}

static int side_close(struct side *s)
{
	struct fid *const rx = s->rx ? &s->rx->fid : NULL;
	int ret;

	FT_TRY(fi_poll_del(s->poll, &s->pair.ctx.cq->fid, 0));
	if (rx)
		FT_TRY(fi_poll_del(s->poll, rx, 0));
	ret = fi_close(&s->poll->fid);
	if (ret)
		return ft_fail(ret, "fi_close", "poll set");
	return ft_pair_close(&s->pair, &rx, rx ? 1 : 0);
}

static int cntr_found(struct side *s)
{
	const uint64_t value = fi_cntr_read(s->rx);

	FT_CHECK(value == s->received + 1, "fi_poll reports a counter that did not change");
	s->received = value;
	s->cntr_seen = true;
	return 0;
}

static int cq_found(struct side *s, struct ft_req *req)
{
	struct fi_cq_tagged_entry entry;
	const ssize_t n = fi_cq_read(s->pair.ctx.cq, &entry, 1);

	FT_CHECK(n == 1, "fi_poll reports a queue, fi_cq_read says %zd", n);
	FT_CHECK(entry.op_context == req, "a completion of something else");
	req->done = true;
	return 0;
}

/* Until the set has told of @req, and of the counter if that counts it */
static int poll_for(struct side *s, struct ft_req *req, bool counted)
{
	void *found[2];

	s->cntr_seen = false;
	while (!req->done || (counted && !s->cntr_seen)) {
		const int n = fi_poll(s->poll, found, 2);

		if (n < 0)
			return ft_fail(n, "fi_poll", "poll set");
		for (int i = 0; i < n; i++) {
			if (found[i] == &s->rx)
				FT_TRY(cntr_found(s));
			else if (found[i] == &s->pair.ctx.cq)
				FT_TRY(cq_found(s, req));
			else
				FT_CHECK(false, "fi_poll reports an unknown context");
		}
		if (!n)
			FT_TRY(ft_idle(&s->pair.ctx));
	}
	return 0;
}

static int transfer(struct side *s, size_t from, size_t to, size_t len, bool early)
{
	const bool sends = ft_pair_sends(&s->pair);
	struct ft_req req = {0};
	struct ft_op op;
	const struct ft_slot slot = ft_pair_message(&s->pair, from, to, len, 5, &req, &op);
	void *found[2];
	ssize_t ret;

	FT_TRY(sends ? ft_slot_fill(&slot, len) : ft_slot_arm(&slot));
	if (sends == early)
		FT_TRY(ft_meet(s->pair.proc));
	while ((ret = ft_post_once(&s->pair.ctx, &op)) == -FI_EAGAIN)
		FT_CHECK(!fi_poll(s->poll, found, 2), "fi_poll reports what nobody sent");
	if (ret)
		return ft_fail((int) ret, "posting", "%zu bytes", len);
	if (sends != early)
		FT_TRY(ft_meet(s->pair.proc));
	FT_TRY(poll_for(s, &req, s->rx && !sends));
	ret = fi_poll(s->poll, found, 2);
	FT_CHECK(!ret, "fi_poll reports %zd objects with nothing new", ret);
	FT_TRY(ft_meet(s->pair.proc));
	return sends ? 0 : ft_slot_check(&slot, len, len, "a message that was polled for");
}

static int all(struct ft_proc *proc, bool counts)
{
	static const size_t sizes[] = {8, 20000, LARGEST};
	struct side s;

	FT_TRY(side_open(&s, proc, counts));
	for (size_t i = 0; i < 2 * FT_COUNT(sizes); i++)
		for (size_t kinds = 0; kinds < s.pair.kind_count * s.pair.kind_count; kinds++)
			FT_TRY(transfer(&s, kinds % s.pair.kind_count,
					kinds / s.pair.kind_count, sizes[i / 2], i % 2 == 0));
	return side_close(&s);
}

static int run(struct ft_proc *proc)
{
	const char *prov = proc->opts.prov ? proc->opts.prov : "";

	FT_TRY(all(proc, false));
	if (!strncmp(prov, "net", 3) && !ft_has_ours(&proc->opts))
		return proc->rank ? FT_SKIP
				  : ft_skip("counters of net crash in libfabric 1.17");
	if (!ft_has_cntrs(&proc->opts))
		return proc->rank ? FT_SKIP : ft_skip("no counters by this provider");
	return all(proc, true);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Poll sets with queues and counters.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
