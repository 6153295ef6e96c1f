/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_cntr: counters. Each operation is counted once, and a receive not before its data
 * is in place; with completion queues of every kind beside them, and with none; thresholds,
 * timeouts and errors.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ft_test.h"

#define COUNT 12
#define LARGEST ((size_t) (3 << 20))
#define WAIT_MS 60000
#define SHORT_MS 50

struct side {
	struct ft_pair pair;
	struct fid_cntr *tx, *rx;
	uint64_t sent, received;
};

static int open_cntrs(struct ft_ctx *ctx)
{
	struct side *s = ctx->test;

	FT_TRY(ft_cntr_open(ctx, FI_WAIT_UNSPEC, FI_SEND, &s->tx));
	return ft_cntr_open(ctx, FI_WAIT_UNSPEC, FI_RECV, &s->rx);
}

static int side_open(struct side *s, struct ft_proc *proc, uint64_t cq_flags)
{
	memset(s, 0, sizeof(*s));
	FT_TRY(ft_pair_hints(&s->pair, proc));
	s->pair.ctx.cq_flags = cq_flags;
	s->pair.ctx.prepare = open_cntrs;
	s->pair.ctx.test = s;
	return ft_pair_open(&s->pair, LARGEST);
}

static int side_close(struct side *s)
{
	struct fid *const cntrs[] = {&s->tx->fid, &s->rx->fid};

	FT_CHECK(fi_close(&s->tx->fid) == -FI_EBUSY,
		 "a counter that an endpoint counts with could be closed");
	return ft_pair_close(&s->pair, cntrs, FT_COUNT(cntrs));
}

/* Leaves queues and counters alone. */
static int post(struct side *s, const struct ft_op *op)
{
	ssize_t ret;

	while ((ret = ft_post_once(&s->pair.ctx, op)) == -FI_EAGAIN) {
		fi_cntr_read(s->tx);
		FT_TRY(ft_idle(&s->pair.ctx));
	}
	return ret ? ft_fail((int) ret, "posting", "%zu bytes", op->iov[0].iov_len) : 0;
}

static int wait_for(struct fid_cntr *cntr, uint64_t value, const char *what)
{
	int ret = fi_cntr_wait(cntr, value, WAIT_MS);

	if (ret)
		return ft_fail(ret, "fi_cntr_wait", "%s: %" PRIu64 " of %" PRIu64, what,
			       fi_cntr_read(cntr), value);
	return 0;
}

static enum ft_call send_call(const struct side *s, size_t i, size_t len)
{
	static const enum ft_call calls[] = {
		FT_SEND, FT_SENDV, FT_SENDMSG, FT_SENDDATA, FT_INJECT, FT_INJECTDATA,
	};

	return calls[i % (len <= s->pair.ctx.info->tx_attr->inject_size ? 6 : 4)];
}

static int send_one(struct side *s, size_t kind, size_t i, size_t len)
{
	const struct ft_slot slot = {&s->pair.buf[kind], 0, len + FT_ROOM, 64, len};
	struct ft_req req = {0};
	struct ft_op op = {
		.call = send_call(s, i, len),
		.tagged = i % 2,
		.addr = s->pair.peer,
		.tag = 7,
		.req = &req,
	};

	FT_TRY(ft_slot_fill(&slot, i));
	ft_op_buf(&op, slot.buf, slot.off, len);
	FT_TRY(post(s, &op));
	s->sent++;
	/* counted, so the buffer is free for the next one */
	return wait_for(s->tx, s->sent, "sent");
}

static int recv_one(struct side *s, size_t kind, size_t i, size_t len)
{
	const struct ft_slot slot = {&s->pair.buf[kind], 0, len + FT_ROOM, 64, len};
	struct ft_req req = {0};
	struct ft_op op = {
		.call = i % 3 ? FT_RECV : FT_RECVMSG,
		.tagged = i % 2,
		.addr = s->pair.peer,
		.tag = 7,
		.req = &req,
	};

	FT_TRY(ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, len);
	FT_TRY(post(s, &op));
	if (i % 4 == 0)
		FT_TRY(ft_meet(s->pair.proc)); /* else the message may be there first */
	s->received++;
	FT_TRY(wait_for(s->rx, s->received, "received"));
	return ft_slot_check(&slot, len, i, "a message that was counted");
}

static int check_totals(const struct side *s)
{
	uint64_t sent = fi_cntr_read(s->tx), received = fi_cntr_read(s->rx);

	FT_CHECK(sent == s->sent && received == s->received,
		 "%" PRIu64 " sends are counted as %" PRIu64 ", %" PRIu64
		 " receives as %" PRIu64,
		 s->sent, sent, s->received, received);
	FT_CHECK(!fi_cntr_readerr(s->tx) && !fi_cntr_readerr(s->rx),
		 "errors are counted, there were none");
	return 0;
}

static int exchange(struct side *s, size_t from, size_t to, size_t len)
{
	for (size_t i = 0; i < COUNT; i++) {
		const bool sends = (size_t) s->pair.proc->rank == i / 2 % 2;

		if (sends && i % 4 == 0)
			FT_TRY(ft_meet(s->pair.proc));
		FT_TRY(sends ? send_one(s, from, i, len) : recv_one(s, to, i, len));
	}
	FT_TRY(ft_meet(s->pair.proc));
	return check_totals(s);
}

/* What reports there are: as many as operations, or none */
static int check_reports(struct side *s, uint64_t want)
{
	struct fi_cq_tagged_entry entry;
	uint64_t found = 0;
	ssize_t n;

	while ((n = fi_cq_read(s->pair.ctx.cq, &entry, 1)) == 1)
		found++;
	FT_CHECK(n == -FI_EAGAIN, "fi_cq_read: %zd", n);
	FT_CHECK(found == want, "%" PRIu64 " reports instead of %" PRIu64, found, want);
	return 0;
}

static int counted(struct side *s, bool selective)
{
	static const size_t sizes[] = {0, 64, 20000, LARGEST};
	uint64_t injected = 0;

	for (size_t i = 0; i < FT_COUNT(sizes); i++) {
		for (size_t kinds = 0; kinds < s->pair.kind_count * s->pair.kind_count;
		     kinds++) {
			FT_TRY(exchange(s, kinds % s->pair.kind_count,
					kinds / s->pair.kind_count, sizes[i]));
			for (size_t m = 0; m < COUNT; m++)
				injected += (size_t) s->pair.proc->rank == m / 2 % 2 &&
					    send_call(s, m, sizes[i]) >= FT_INJECT &&
					    send_call(s, m, sizes[i]) <= FT_INJECTDATA;
		}
	}
	/* net, the forerunner of tcp's RDM endpoints in 1.17, reports all it does */
	if (selective && s->pair.proc->opts.prov && !strncmp(s->pair.proc->opts.prov, "net", 3))
		return 0;
	return check_reports(s, selective ? 0 : s->sent - injected + s->received);
}

/* Values set and added to; waits that end at once, and one that does not */
static int values(struct side *s)
{
	uint64_t value = fi_cntr_read(s->tx);
	int ret;

	FT_TRY(fi_cntr_add(s->tx, 5));
	FT_CHECK(fi_cntr_read(s->tx) == value + 5, "fi_cntr_add(5): %" PRIu64 " to %" PRIu64,
		 value, fi_cntr_read(s->tx));
	FT_TRY(fi_cntr_set(s->tx, 100));
	FT_CHECK(fi_cntr_read(s->tx) == 100, "fi_cntr_set(100): %" PRIu64, fi_cntr_read(s->tx));
	FT_TRY(fi_cntr_adderr(s->tx, 2));
	FT_TRY(fi_cntr_adderr(s->tx, 1));
	FT_CHECK(fi_cntr_readerr(s->tx) == 3, "fi_cntr_adderr: %" PRIu64,
		 fi_cntr_readerr(s->tx));
	/* errors of before are none of a wait's business */
	FT_CHECK(!fi_cntr_wait(s->tx, 100, WAIT_MS) && !fi_cntr_wait(s->tx, 3, 0),
		 "fi_cntr_wait for what is reached");
	ret = fi_cntr_wait(s->tx, 101, SHORT_MS);
	FT_CHECK(ret == -FI_ETIMEDOUT, "fi_cntr_wait for what never comes: %d", ret);
	FT_TRY(fi_cntr_seterr(s->tx, 0));
	FT_TRY(fi_cntr_set(s->tx, s->sent));
	return check_totals(s);
}

/* A receive that is cancelled is an error. */
static int errors(struct side *s)
{
	struct ft_req req = {0};
	struct ft_op op = {.call = FT_RECV, .tagged = true, .addr = s->pair.peer, .tag = 99};
	struct fi_cq_err_entry err = {0};
	ssize_t ret;

	for (size_t kind = 0; kind < s->pair.kind_count; kind++) {
		op.req = &req;
		ft_op_buf(&op, &s->pair.buf[kind], 0, 10000);
		FT_TRY(post(s, &op));
		ret = fi_cancel(&s->pair.ctx.ep->fid, &req);
		FT_CHECK(!ret, "fi_cancel: %zd", ret);
		while (fi_cntr_readerr(s->rx) != kind + 1)
			FT_TRY(ft_idle(&s->pair.ctx));
		while ((ret = fi_cq_readerr(s->pair.ctx.cq, &err, 0)) == -FI_EAGAIN)
			fi_cq_read(s->pair.ctx.cq, NULL, 0);
		FT_CHECK(ret == 1 && err.op_context == &req &&
				 (err.err == FI_ECANCELED || err.err == -FI_ECANCELED),
			 "a cancelled receive ended with %zd, %s", ret, fi_strerror(err.err));
		FT_CHECK(fi_cntr_read(s->rx) == s->received,
			 "a cancelled receive is counted as received");
	}
	return fi_cntr_seterr(s->rx, 0);
}

static int side_run(struct ft_proc *proc, uint64_t cq_flags)
{
	struct side s;

	FT_TRY(side_open(&s, proc, cq_flags));
	FT_TRY(counted(&s, cq_flags));
	FT_TRY(values(&s));
	/* cores count cancelled receives, or not, as they like */
	if (ft_has_ours(&proc->opts))
		FT_TRY(errors(&s));
	FT_TRY(ft_meet(s.pair.proc));
	return side_close(&s);
}

/*
 * Alone, net of libfabric 1.17 crashes with a counter at a message that was there before its
 * receive, fi_cntr_wait() of shm does not come back, nor does that of tcp's connected endpoints
 * before 1.18.
 */
static bool core_counts(const struct ft_opts *opts)
{
	const char *prov = opts->prov ? opts->prov : "";

	return ft_has_ours(opts) || (strncmp(prov, "net", 3) && strncmp(prov, "shm", 3) &&
				     (opts->ep_type != FI_EP_MSG || strncmp(prov, "tcp", 3) ||
				      fi_version() >= FI_VERSION(1, 18)));
}

static int run(struct ft_proc *proc)
{
	if (!ft_has_cntrs(&proc->opts) || !core_counts(&proc->opts))
		return proc->rank ? FT_SKIP
				  : ft_skip("no counters by this provider, or not alone");
	FT_TRY(side_run(proc, 0));
	return side_run(proc, FI_SELECTIVE_COMPLETION);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Counters: each operation once, when its data is in place.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
