/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mrcntr: a counter that is bound to a memory region counts what peers write there, and fi_cntr_wait() waits for
 * it, though it was opened without a wait object. For cores that know such counters: sockets does. Then an endpoint's
 * counter counts more writes than a descriptor's pipe would hold that nobody reads.
 */
#include <string.h>

#include "ft_test.h"

#define KEY 77
#define LEN 4096
#define WRITES 5
#define MANY 320
#define WAIT_MS 30000

struct side {
	struct ft_ctx ctx;
	struct fid_cntr *cntr;
	struct fid_cntr *sent;
	struct fid_mr *mr;
	unsigned char bytes[LEN];
};

/* Somebody may sleep on it */
static int open_sent(struct ft_ctx *ctx)
{
	struct side *s = ctx->test;

	return ft_cntr_open(ctx, FI_WAIT_UNSPEC, FI_WRITE, &s->sent);
}

static int share(struct side *s)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
	int ret = fi_cntr_open(s->ctx.domain, &attr, &s->cntr, NULL);

	if (!ret)
		ret = fi_mr_reg(s->ctx.domain, s->bytes, LEN, FI_REMOTE_WRITE, 0, KEY,
				FI_RMA_EVENT, &s->mr, NULL);
	if (!ret)
		ret = fi_mr_bind(s->mr, &s->cntr->fid, FI_REMOTE_WRITE);
	return ret ? ft_fail(ret, "fi_mr_bind", "a counter of a region") : 0;
}

static int own(struct side *s, struct ft_proc *proc)
{
	unsigned char expected[LEN];

	for (uint64_t i = 1; i <= WRITES; i++) {
		const int ret = fi_cntr_wait(s->cntr, i, WAIT_MS);

		FT_CHECK(!ret, "fi_cntr_wait: %s", fi_strerror(-ret));
		FT_CHECK(fi_cntr_read(s->cntr) == i, "the region's counter is %zu after %zu",
			 (size_t) fi_cntr_read(s->cntr), (size_t) i);
		ft_pattern_fill(expected, LEN, i);
		FT_CHECK(!memcmp(expected, s->bytes, LEN), "write %zu is counted, not there",
			 (size_t) i);
		FT_TRY(ft_barrier(proc, &s->ctx));
	}
	return 0;
}

static int post_write(struct side *s, struct ft_req *req)
{
	ssize_t ret;

	memset(req, 0, sizeof(*req));
	while ((ret = fi_write(s->ctx.ep, s->bytes, LEN, NULL, s->ctx.peer[1], 0, KEY, req)) ==
	       -FI_EAGAIN)
		FT_TRY(ft_idle(&s->ctx));
	FT_CHECK(!ret, "fi_write: %s", fi_strerror((int) -ret));
	return 0;
}

static int initiate(struct side *s, struct ft_proc *proc)
{
	static struct ft_req req[MANY];

	for (uint64_t i = 1; i <= WRITES; i++) {
		ft_pattern_fill(s->bytes, LEN, i);
		FT_TRY(post_write(s, req));
		FT_TRY(ft_wait(&s->ctx, req, 1));
		FT_TRY(ft_barrier(proc, &s->ctx));
	}
	for (int i = 0; i < MANY; i++)
		FT_TRY(post_write(s, &req[i]));
	FT_TRY(ft_wait(&s->ctx, req, MANY));
	FT_CHECK(fi_cntr_read(s->sent) == WRITES + MANY, "%zu writes are counted, not %d",
		 (size_t) fi_cntr_read(s->sent), WRITES + MANY);
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct side s = {.cntr = NULL};

	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.hints->caps |= FI_RMA | FI_RMA_EVENT;
	s.ctx.hints->domain_attr->mr_mode = 0;
	s.ctx.prepare = open_sent;
	s.ctx.test = &s;
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	if (proc->rank)
		FT_TRY(share(&s));
	FT_TRY(ft_barrier(proc, &s.ctx));
	FT_TRY(proc->rank ? own(&s, proc) : initiate(&s, proc));
	FT_TRY(ft_meet(proc));
	if (proc->rank) {
		FT_CHECK(!fi_close(&s.mr->fid), "fi_close of the region");
		FT_CHECK(!fi_close(&s.cntr->fid), "fi_close of the counter");
	}
	FT_CHECK(!fi_close(&s.ctx.ep->fid), "fi_close of the endpoint");
	s.ctx.ep = NULL;
	FT_CHECK(!fi_close(&s.sent->fid), "fi_close of its counter");
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Counters of memory regions.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
