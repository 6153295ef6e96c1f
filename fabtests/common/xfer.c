/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posting operations, driving progress and waiting for completions. No wait is endless: each
 * watches the clock (--timeout) and the sockets to the peers. A thread watches for calls that
 * do not return.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ft.h"

#define CQ_BATCH 16
#define LOOK_AROUND_US 20000 /* how often a spinning wait looks at the sockets */
#define SPINS_PER_CLOCK 64   /* a look at the clock in every poll would show in latencies */
#define SPIN_US 100          /* then a wait yields: the peer may need the processor */
#define QUIET_US 100000   /* then it is one for a time limit, and others have the processor */
#define REST_NS 100000    /* between two polls of such a wait */
#define SLEEP_MS 100      /* the longest sleep of the other ways to wait */
#define WATCHDOG_GRACE 10 /* the waits report a timeout better, so they come first */
#define EXIT_TIMEOUT 124

static _Atomic uint64_t progress_count;

/*
 * For the one thread that transfers: when it last saw progress, and when it last looked around
 */
static double last_progress, last_look;

double ft_usec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

void ft_progress_note(void)
{
	atomic_fetch_add_explicit(&progress_count, 1, memory_order_relaxed);
	last_progress = 0;
}

static void *watchdog(void *arg)
{
	const long timeout = (long) (intptr_t) arg;
	uint64_t seen = 0;
	long quiet = 0;

	for (;;) {
		uint64_t now;

		sleep(1);
		now = atomic_load_explicit(&progress_count, memory_order_relaxed);
		quiet = now == seen ? quiet + 1 : 0;
		seen = now;
		if (quiet >= timeout + WATCHDOG_GRACE) {
			ft_err("watchdog: no progress for %ld s, and a call into "
			       "libfabric or the GPU does not return",
			       quiet);
			_exit(EXIT_TIMEOUT);
		}
	}
	return NULL;
}

int ft_watchdog_start(long timeout)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, watchdog, (void *) (intptr_t) timeout);

	if (err)
		return ft_fail(-err, "pthread_create", "watchdog");
	pthread_detach(thread);
	return 0;
}

bool ft_has_tags(const struct ft_ctx *ctx)
{
	return ctx->hints->caps & FI_TAGGED;
}

void ft_op_buf(struct ft_op *op, const struct ft_buf *buf, size_t off, size_t len)
{
	op->iov[0] = (struct iovec){buf->addr + off, len};
	op->desc[0] = buf->desc;
	op->count = 1;
}

static ssize_t post_msg(struct ft_ctx *ctx, const struct ft_op *op)
{
	struct fid_ep *ep = ctx->ep;
	void *const base = op->iov[0].iov_base, *context = op->req;
	const size_t len = op->iov[0].iov_len;
	void **desc = (void **) op->desc;
	const struct fi_msg msg = {op->iov, desc, op->count, op->addr, context, op->data};

	switch (op->call) {
	case FT_SEND:
		return fi_send(ep, base, len, desc[0], op->addr, context);
	case FT_SENDV:
		return fi_sendv(ep, op->iov, desc, op->count, op->addr, context);
	case FT_SENDMSG:
		return fi_sendmsg(ep, &msg, op->flags);
	case FT_SENDDATA:
		return fi_senddata(ep, base, len, desc[0], op->data, op->addr, context);
	case FT_INJECT:
		return fi_inject(ep, base, len, op->addr);
	case FT_INJECTDATA:
		return fi_injectdata(ep, base, len, op->data, op->addr);
	case FT_RECV:
		return fi_recv(ep, base, len, desc[0], op->addr, context);
	case FT_RECVV:
		return fi_recvv(ep, op->iov, desc, op->count, op->addr, context);
	case FT_RECVMSG:
		return fi_recvmsg(ep, &msg, op->flags);
	}
	return -FI_EINVAL;
}

static ssize_t post_tagged(struct ft_ctx *ctx, const struct ft_op *op)
{
	struct fid_ep *ep = ctx->ep;
	void *const base = op->iov[0].iov_base, *context = op->req;
	const size_t len = op->iov[0].iov_len;
	void **desc = (void **) op->desc;
	const uint64_t tag = op->tag, ignore = op->ignore;
	const struct fi_msg_tagged msg = {op->iov, desc,   op->count, op->addr,
					  tag,     ignore, context,   op->data};

	switch (op->call) {
	case FT_SEND:
		return fi_tsend(ep, base, len, desc[0], op->addr, tag, context);
	case FT_SENDV:
		return fi_tsendv(ep, op->iov, desc, op->count, op->addr, tag, context);
	case FT_SENDMSG:
		return fi_tsendmsg(ep, &msg, op->flags);
	case FT_SENDDATA:
		return fi_tsenddata(ep, base, len, desc[0], op->data, op->addr, tag, context);
	case FT_INJECT:
		return fi_tinject(ep, base, len, op->addr, tag);
	case FT_INJECTDATA:
		return fi_tinjectdata(ep, base, len, op->data, op->addr, tag);
	case FT_RECV:
		return fi_trecv(ep, base, len, desc[0], op->addr, tag, ignore, context);
	case FT_RECVV:
		return fi_trecvv(ep, op->iov, desc, op->count, op->addr, tag, ignore, context);
	case FT_RECVMSG:
		return fi_trecvmsg(ep, &msg, op->flags);
	}
	return -FI_EINVAL;
}

ssize_t ft_post_once(struct ft_ctx *ctx, const struct ft_op *op)
{
	if (op->req) {
		op->req->done = false;
		op->req->err = 0;
	}
	return op->tagged && ft_has_tags(ctx) ? post_tagged(ctx, op) : post_msg(ctx, op);
}

int ft_post(struct ft_ctx *ctx, const struct ft_op *op)
{
	static const char *const names[] = {
		[FT_SEND] = "send",       [FT_SENDV] = "sendv",
		[FT_SENDMSG] = "sendmsg", [FT_SENDDATA] = "senddata",
		[FT_INJECT] = "inject",   [FT_INJECTDATA] = "injectdata",
		[FT_RECV] = "recv",       [FT_RECVV] = "recvv",
		[FT_RECVMSG] = "recvmsg",
	};
	ssize_t ret;
	int n;

	for (;;) {
		char call[32];

		ret = ft_post_once(ctx, op);
		if (!ret) {
			ft_progress_note();
			return 0;
		}
		if (ret != -FI_EAGAIN) {
			snprintf(call, sizeof(call), "fi_%s%s", op->tagged ? "t" : "",
				 names[op->call]);
			return ft_fail((int) ret, call, "%zu pieces, the first of %zu bytes",
				       op->count, op->iov[0].iov_len);
		}
		n = ft_progress(ctx);
		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(ctx));
	}
}

static int read_error(struct ft_ctx *ctx)
{
	union {
		struct fi_cq_err_entry entry;
		char room[sizeof(struct fi_cq_err_entry) + 256]; /* newer entries are longer */
	} err = {.room = {0}};
	struct ft_req *req;
	char text[128];
	ssize_t ret = fi_cq_readerr(ctx->cq, &err.entry, 0);

	if (ret == -FI_EAGAIN)
		return 0;
	if (ret < 0)
		return ft_fail((int) ret, "fi_cq_readerr", "after fi_cq_read said -FI_EAVAIL");
	req = err.entry.op_context;
	if (!req)
		return ft_fail(-err.entry.err, "fi_cq_readerr",
			       "for no operation of ours: %s (%d), flags %#" PRIx64
			       ", tag %#" PRIx64 ", %zu bytes",
			       fi_cq_strerror(ctx->cq, err.entry.prov_errno, err.entry.err_data,
					      text, sizeof(text)),
			       err.entry.prov_errno, err.entry.flags, err.entry.tag,
			       err.entry.len);
	req->done = true;
	req->err = err.entry.err;
	req->prov_errno = err.entry.prov_errno;
	req->olen = err.entry.olen;
	req->comp = (struct fi_cq_tagged_entry){
		.op_context = req,
		.flags = err.entry.flags,
		.len = err.entry.len,
		.buf = err.entry.buf,
		.data = err.entry.data,
		.tag = err.entry.tag,
	};
	return 1;
}

static int take_one(struct ft_ctx *ctx, const struct fi_cq_tagged_entry *comp, const char *call)
{
	struct ft_req *req = comp->op_context;
	int ret = ctx->took ? ctx->took(ctx, comp) : 0;

	if (ret)
		return ret < 0 ? ret : 0;
	/* shm 2.1 leaves out what kind of remote data it is */
	if (comp->flags & FI_REMOTE_WRITE || (!req && comp->flags & FI_REMOTE_CQ_DATA))
		req = ctx->remote;
	FT_CHECK(req, "%s: a completion without our context", call);
	FT_CHECK(!req->done, "%s: the same operation completed twice", call);
	req->comp = *comp;
	req->done = true;
	return 0;
}

/* Takes what a CQ read returned: marks the requests, and reads the error if there is one. */
static int take(struct ft_ctx *ctx, const struct fi_cq_tagged_entry *comp, ssize_t ret,
		const char *call)
{
	if (ret == -FI_EAGAIN || ret == 0)
		return 0;
	if (ret == -FI_EAVAIL)
		ret = read_error(ctx);
	else if (ret < 0)
		return ft_fail((int) ret, call, "completion queue");
	else
		for (ssize_t i = 0; i < ret; i++)
			FT_TRY(take_one(ctx, &comp[i], call));
	if (ret > 0)
		ft_progress_note();
	return (int) ret;
}

/*
 * An entry without a tag is only the beginning of one with a tag. So such entries are read one
 * by one.
 */
static size_t batch(const struct ft_ctx *ctx)
{
	return ctx->cq_attr.format == FI_CQ_FORMAT_TAGGED ? CQ_BATCH : 1;
}

int ft_progress(struct ft_ctx *ctx)
{
	struct fi_cq_tagged_entry comp[CQ_BATCH] = {{0}};

	return take(ctx, comp, fi_cq_read(ctx->cq, comp, batch(ctx)), "fi_cq_read");
}

static void rest(void)
{
	nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
}

int ft_progress_for(struct ft_ctx *ctx, double usec)
{
	const double end = ft_usec() + usec;
	int n = 0;

	while (n >= 0 && ft_usec() < end) {
		n = ft_progress(ctx);
		if (!n)
			rest();
	}
	return n < 0 ? n : 0;
}

/* Sleeps until the CQ may have something, for SLEEP_MS at most */
static int wait_fd(struct ft_ctx *ctx)
{
	struct pollfd pfd = {.fd = ctx->cq_fd, .events = POLLIN};
	struct fid *fid = &ctx->cq->fid;
	int ret = fi_trywait(ctx->fabric, &fid, 1);

	if (ret == -FI_EAGAIN)
		return 0;
	if (ret)
		return ft_fail(ret, "fi_trywait", "completion queue");
	if (poll(&pfd, 1, SLEEP_MS) < 0 && errno != EINTR)
		return ft_errno("poll", "completion queue's descriptor");
	return 0;
}

static int wait_sread(struct ft_ctx *ctx)
{
	struct fi_cq_tagged_entry comp[CQ_BATCH] = {{0}};
	ssize_t ret = fi_cq_sread(ctx->cq, comp, batch(ctx), NULL, SLEEP_MS);

	if (ret == -FI_EINTR)
		return 0;
	ret = take(ctx, comp, ret, "fi_cq_sread");
	return ret < 0 ? (int) ret : 0;
}

int ft_idle(struct ft_ctx *ctx)
{
	static unsigned int spins;
	static bool yields;
	double now;

	if (ctx->opts->wait == FT_WAIT_SPIN && ++spins % SPINS_PER_CLOCK && !yields)
		return 0;
	now = ft_usec();
	if (!last_progress)
		last_progress = now;
	if (now - last_look > LOOK_AROUND_US || now < last_look) {
		last_look = now;
		for (int i = 0; i < ctx->watch_count; i++)
			if (ft_oob_closed(ctx->watch_fd[i]))
				return ft_fail(-FI_ECONNRESET, "waiting",
					       "the peer ended while messages were under way; "
					       "its output says why");
		FT_TRY(ft_absent(ctx, now - last_progress));
		if (now - last_progress > (double) ctx->opts->timeout * 1e6)
			return ft_fail(-FI_ETIMEDOUT, "waiting",
				       "no completion for %ld s (--timeout); does the peer run "
				       "with the same options?",
				       ctx->opts->timeout);
	}
	switch (ctx->opts->wait) {
	case FT_WAIT_SPIN:
		yields = now - last_progress > SPIN_US;
		if (ctx->opts->rests && now - last_progress > QUIET_US)
			rest();
		else if (yields)
			sched_yield();
		return 0;
	case FT_WAIT_YIELD:
		sched_yield();
		return 0;
	case FT_WAIT_SREAD:
		return wait_sread(ctx);
	case FT_WAIT_FD:
		return wait_fd(ctx);
	}
	return 0;
}

int ft_wait_any_result(struct ft_ctx *ctx, struct ft_req *req, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		while (!req[i].done) {
			int n = ft_progress(ctx);

			if (n < 0)
				return n;
			if (!n)
				FT_TRY(ft_idle(ctx));
		}
	}
	return 0;
}

int ft_wait(struct ft_ctx *ctx, struct ft_req *req, size_t count)
{
	FT_TRY(ft_wait_any_result(ctx, req, count));
	for (size_t i = 0; i < count; i++)
		if (req[i].err)
			return ft_fail(-req[i].err, "fi_cq_readerr",
				       "operation %zu of %zu (%s)", i + 1, count,
				       req[i].comp.flags & FI_SEND ? "send" : "receive");
	return 0;
}
