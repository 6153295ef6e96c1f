/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_wait: waiting for completions in every way that there is, also while transfers are
 * under way that need the other queue; nobody wakes without need.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "ft_test.h"

#define LARGEST ((size_t) (5 << 20))
#define WAIT_MS 30000
#define IDLE_MS 300
#define WAKES_MAX 2000 /* in IDLE_MS; whoever does not sleep wakes a hundred times as often */

struct side {
	struct ft_pair pair;
	struct fid_cq *rx_cq; /* pair.ctx.cq is for sends */
};

static int bind_rx_cq(struct ft_ctx *ctx)
{
	struct side *s = ctx->test;

	return ft_rx_cq_open(ctx, &s->rx_cq);
}

static int side_open(struct side *s, struct ft_proc *proc, enum fi_wait_obj wait_obj)
{
	FT_TRY(ft_pair_hints(&s->pair, proc));
	s->pair.ctx.cq_attr.wait_obj = wait_obj;
	s->pair.ctx.tx_only = true;
	s->pair.ctx.prepare = bind_rx_cq;
	s->pair.ctx.test = s;
	return ft_pair_open(&s->pair, LARGEST);
}

static int wait_fd(struct fid_cq *cq, enum fi_wait_obj wait_obj, int *fd)
{
	struct pollfd room[8];
	struct fi_wait_pollfd polled = {.nfds = FT_COUNT(room), .fd = room};
	int ret = fi_control(&cq->fid, FI_GETWAIT,
			     wait_obj == FI_WAIT_POLLFD ? (void *) &polled : (void *) fd);

	if (ret)
		return ft_fail(ret, "fi_control(FI_GETWAIT)", "wait object %d", wait_obj);
	if (wait_obj == FI_WAIT_POLLFD)
		*fd = room[0].fd;
	return 0;
}

/* Sleeps on the queue's descriptor if fi_trywait() allows. What poll() says; 1: not allowed */
static int sleep_on(struct side *s, struct fid_cq *cq, int cq_fd, int ms)
{
	struct pollfd pfd = {.fd = cq_fd, .events = POLLIN};
	struct fid *fid = &cq->fid;
	int ret = fi_trywait(s->pair.ctx.fabric, &fid, 1);

	if (ret == -FI_EAGAIN)
		return 1;
	if (ret)
		return ft_fail(ret, "fi_trywait", "completion queue");
	ret = poll(&pfd, 1, ms);
	return ret < 0 ? ft_errno("poll", "completion queue's descriptor") : ret;
}

static int read_one(struct side *s, struct fid_cq *cq, struct ft_req *want)
{
	const enum fi_wait_obj wait_obj = s->pair.ctx.cq_attr.wait_obj;
	const bool polls = wait_obj == FI_WAIT_FD || wait_obj == FI_WAIT_POLLFD;
	struct fi_cq_tagged_entry entry;
	int fd, woken = 0;
	ssize_t n;

	if (!polls) {
		n = fi_cq_sread(cq, &entry, 1, NULL, WAIT_MS);
	} else {
		FT_TRY(wait_fd(cq, wait_obj, &fd));
		while ((n = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN) {
			woken = sleep_on(s, cq, fd, WAIT_MS);
			if (woken < 0)
				return woken;
			FT_CHECK(woken, "poll() slept through a completion");
		}
	}
	FT_CHECK(n == 1, "waiting for a completion: %zd", n);
	FT_CHECK(entry.op_context == want, "a completion of something else");
	return 0;
}

static int wait_for(struct ft_pair *pair, struct ft_req *req)
{
	struct side *s = pair->ctx.test;

	return read_one(s, ft_pair_sends(pair) ? pair->ctx.cq : s->rx_cq, req);
}

/* Nothing comes: how often does a waiting process wake? */
static int idle(struct side *s, struct fid_cq *cq, const char *when)
{
	const double end = ft_usec() + IDLE_MS * 1e3;
	struct fi_cq_tagged_entry entry;
	unsigned int wakes = 0;
	int fd, ret;
	ssize_t n;

	FT_TRY(wait_fd(cq, s->pair.ctx.cq_attr.wait_obj, &fd));
	while (ft_usec() < end) {
		n = fi_cq_read(cq, &entry, 1);
		FT_CHECK(n == -FI_EAGAIN, "%s: fi_cq_read %zd", when, n);
		ret = sleep_on(s, cq, fd, IDLE_MS);
		if (ret < 0)
			return ret;
		wakes++;
	}
	FT_CHECK(wakes < WAKES_MAX, "%s: %u times awake in %d ms", when, wakes, IDLE_MS);
	return 0;
}

/* The receive is not there, so a long message from device memory cannot go on. */
static int idle_stuck(struct side *s)
{
	const size_t device = s->pair.kind_count - 1;
	const bool sends = ft_pair_sends(&s->pair);
	struct ft_req req = {0};
	struct ft_op op;

	ft_pair_message(&s->pair, device, device, LARGEST, 6, &req, &op);
	if (sends) {
		FT_TRY(ft_pair_post(&s->pair, &op));
		FT_TRY(idle(s, s->pair.ctx.cq, "with a message that is not received"));
		FT_TRY(ft_meet(s->pair.proc));
	} else {
		FT_TRY(ft_meet(s->pair.proc));
		FT_TRY(ft_pair_post(&s->pair, &op));
	}
	return read_one(s, sends ? s->pair.ctx.cq : s->rx_cq, &req);
}

/* Another endpoint of the same queues comes and goes. What was left of it there, ofi_rxm alone crashes at */
static int other_ep(struct side *s)
{
	struct fid_ep *ep;

	FT_TRY(fi_endpoint(s->pair.ctx.domain, s->pair.ctx.info, &ep, NULL));
	FT_TRY(fi_ep_bind(ep, &s->pair.ctx.av->fid, 0));
	FT_TRY(fi_ep_bind(ep, &s->pair.ctx.cq->fid, FI_TRANSMIT));
	FT_TRY(fi_ep_bind(ep, &s->rx_cq->fid, FI_RECV));
	FT_TRY(fi_enable(ep));
	FT_TRY(fi_close(&ep->fid));
	return ft_pair_transfer(&s->pair, 0, 0, LARGEST, 0, wait_for);
}

static int ways(struct ft_proc *proc, enum fi_wait_obj wait_obj)
{
	static const size_t sizes[] = {8, 20000, LARGEST};
	struct fid *rx_cq;
	struct side s;

	FT_TRY(side_open(&s, proc, wait_obj));
	for (size_t i = 0; i < 2 * FT_COUNT(sizes); i++)
		for (size_t kinds = 0; kinds < s.pair.kind_count * s.pair.kind_count; kinds++)
			FT_TRY(ft_pair_transfer(&s.pair, kinds % s.pair.kind_count,
						kinds / s.pair.kind_count, sizes[i / 2], i % 2,
						wait_for));
	FT_TRY(ft_meet(s.pair.proc));
	/* net of libfabric 1.17 wakes all the time */
	if (wait_obj == FI_WAIT_FD &&
	    strncmp(s.pair.ctx.info->fabric_attr->prov_name, "net", 3)) {
		FT_TRY(idle(&s, s.rx_cq, "without anything under way"));
		/* only what is announced waits for its receive */
		if (ft_is_p2p(&s.pair.ctx) && s.pair.kind_count == 2)
			FT_TRY(idle_stuck(&s));
		FT_TRY(ft_meet(s.pair.proc));
	}
	if (ft_has_ours(&proc->opts) && s.pair.ctx.info->ep_attr->type == FI_EP_RDM)
		FT_TRY(other_ep(&s));
	rx_cq = &s.rx_cq->fid;
	return ft_pair_close(&s.pair, &rx_cq, 1);
}

static int run(struct ft_proc *proc)
{
	const char *prov = proc->opts.prov ? proc->opts.prov : "";
	const bool shm = !strncmp(prov, "shm", 3);

	/* fi_cq_sread() of shm alone does not come back */
	if (shm && !ft_has_ours(&proc->opts))
		return proc->rank ? FT_SKIP : ft_skip("not by this provider alone");
	FT_TRY(ways(proc, FI_WAIT_UNSPEC));
	/* shm has no descriptors */
	if (shm)
		return ways(proc, FI_WAIT_YIELD);
	FT_TRY(ways(proc, FI_WAIT_FD));
	/* in core providers the descriptors are several, and change */
	return ft_has_ours(&proc->opts) ? ways(proc, FI_WAIT_POLLFD) : 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Waiting for completions, by every wait object.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
