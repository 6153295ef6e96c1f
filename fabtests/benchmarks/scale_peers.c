/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What endpoints and peers cost.
 *
 * One process has one endpoint. The other process has all its peers. Each peer has a domain of
 * its own, as if it were a process. They come one by one and stay, idle. Whenever there are
 * twice as many, a line tells what they took.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scale.h"

#define PEERS 64
#define PEERS_QUICK 4
#define TAG 1
#define SMALL 8
#define LARGE (1 << 20)
#define EMPTY_READS 100000

/** struct figures - of the process with the peers, which sends them to the other one */
struct figures {
	size_t rss;
	double open_usec;
};

/** struct scale - one of the processes; @ctxs has its only endpoint, or the peers */
struct scale {
	struct ft_proc *proc;
	struct ft_ctx ctxs[PEERS];
	struct ft_buf tx, rx, device;
	size_t rss;
};

static int post(struct ft_ctx *ctx, enum ft_call call, const struct ft_buf *buf, size_t len,
		fi_addr_t addr, struct ft_req *req)
{
	struct ft_op op = {
		.call = call,
		.tagged = true,
		.addr = addr,
		.tag = TAG,
		.req = req,
	};

	ft_op_buf(&op, buf, 0, len);
	return ft_post(ctx, &op);
}

/*
 * Opens an endpoint and tells the other process its name. A peer also learns the other's name.
 */
static int open_one(struct scale *s, struct ft_ctx *ctx, double *usec)
{
	const int fd = s->proc->fd[!s->proc->rank];
	struct ft_name name;
	double start;

	FT_TRY(ft_hints(ctx, &s->proc->opts));
	ctx->watch_fd[ctx->watch_count++] = fd;
	FT_TRY(ft_getinfo(ctx, s->proc->opts.src_addr, NULL,
			  s->proc->opts.src_addr ? FI_SOURCE : 0));
	start = ft_usec();
	FT_TRY(ft_open(ctx));
	*usec = ft_usec() - start;
	FT_TRY(ft_getname(ctx, &name));
	return ft_oob_send(fd, &name, sizeof(name));
}

static int take_name(struct scale *s, struct ft_name *name)
{
	return ft_oob_recv(s->proc->fd[!s->proc->rank], name, sizeof(*name),
			   s->proc->opts.timeout);
}

/* ---- the process with the peers ---- */

/* Answers a short message, and the long one from device memory, if there is any. */
static int answer(struct scale *s, struct ft_ctx *ctx, fi_addr_t addr)
{
	const bool device = s->proc->opts.iface != FI_HMEM_SYSTEM;
	struct ft_req in, out;

	for (int i = 0; i <= device; i++) {
		FT_TRY(post(ctx, FT_RECV, &s->rx, i ? LARGE : SMALL, FI_ADDR_UNSPEC, &in));
		FT_TRY(ft_wait(ctx, &in, 1));
		if (i)
			FT_TRY(ft_verify(&s->rx, 0, LARGE, 0));
		FT_TRY(post(ctx, FT_SEND, &s->rx, SMALL, addr, &out));
		FT_TRY(ft_wait(ctx, &out, 1));
	}
	return 0;
}

static int run_peers(struct scale *s, int peers)
{
	struct figures figures = {0};
	struct ft_name name;
	size_t rss;

	FT_TRY(take_name(s, &name));
	for (int i = 0; i < peers; i++) {
		struct ft_ctx *ctx = &s->ctxs[i];
		fi_addr_t addr;

		FT_TRY(open_one(s, ctx, &figures.open_usec));
		if (!i) {
			/* what a process has once is not to count as a peer's */
			FT_TRY(ft_buf_alloc(ctx, &s->rx, FI_HMEM_SYSTEM, LARGE));
			FT_TRY(ft_resident(&s->rss));
		}
		FT_TRY(ft_av_insert(ctx, name.bytes, &addr));
		FT_TRY(answer(s, ctx, addr));
		FT_TRY(ft_resident(&rss));
		figures.rss = i ? (rss - FT_MIN(rss, s->rss)) / (size_t) i : 0;
		FT_TRY(ft_oob_send(s->proc->fd[0], &figures, sizeof(figures)));
	}
	FT_TRY(ft_meet(s->proc));
	ft_buf_free(&s->rx);
	for (int i = 0; i < peers; i++)
		FT_TRY(ft_close(&s->ctxs[i]));
	return 0;
}

/* ---- the process with the one endpoint ---- */

/* Sends @len bytes of @buf, and receives a short message back */
static int exchange(struct scale *s, const struct ft_buf *buf, size_t len, fi_addr_t addr)
{
	struct ft_req req[2];

	FT_TRY(post(&s->ctxs[0], FT_RECV, &s->rx, SMALL, FI_ADDR_UNSPEC, &req[0]));
	FT_TRY(post(&s->ctxs[0], FT_SEND, buf, len, addr, &req[1]));
	FT_TRY(ft_wait(&s->ctxs[0], req, 2));
	return ft_verify(&s->rx, 0, SMALL, 0);
}

static int empty_read(struct fid_cq *cq, double *ns)
{
	struct fi_cq_tagged_entry comp;
	const double start = ft_usec();

	for (int i = 0; i < EMPTY_READS; i++)
		FT_CHECK(fi_cq_read(cq, &comp, 1) == -FI_EAGAIN,
			 "a completion that nobody waits for");
	*ns = (ft_usec() - start) * 1e3 / EMPTY_READS;
	return 0;
}

static int run_one(struct scale *s, int peers)
{
	const struct ft_opts *opts = &s->proc->opts;
	struct ft_ctx *ctx = &s->ctxs[0];
	double open_usec, first = 0, long_ones = 0, ns;
	struct figures figures;
	struct ft_name name;
	size_t rss;

	FT_TRY(open_one(s, ctx, &open_usec));
	FT_TRY(ft_buf_alloc(ctx, &s->tx, FI_HMEM_SYSTEM, LARGE));
	FT_TRY(ft_buf_alloc(ctx, &s->rx, FI_HMEM_SYSTEM, SMALL));
	ft_pattern_fill(s->tx.addr, LARGE, 0);
	if (opts->iface != FI_HMEM_SYSTEM) {
		FT_TRY(ft_buf_alloc(ctx, &s->device, opts->iface, LARGE));
		FT_TRY(s->device.ops->to(s->device.addr, s->tx.addr, LARGE));
	}
	FT_TRY(ft_resident(&s->rss));
	printf("%6s %12s %12s %12s %12s %12s %12s\n", "peers", "open us", "first us",
	       "device us", "KiB here", "KiB/endpoint", "read ns");
	for (int i = 1; i <= peers; i++) {
		fi_addr_t addr;
		double start;

		FT_TRY(take_name(s, &name));
		start = ft_usec();
		FT_TRY(ft_av_insert(ctx, name.bytes, &addr));
		FT_TRY(exchange(s, &s->tx, SMALL, addr));
		first = ft_usec() - start;
		start = ft_usec();
		if (opts->iface != FI_HMEM_SYSTEM)
			FT_TRY(exchange(s, &s->device, LARGE, addr));
		long_ones = ft_usec() - start;
		FT_TRY(ft_oob_recv(s->proc->fd[1], &figures, sizeof(figures), opts->timeout));
		if (i & (i - 1))
			continue;
		FT_TRY(empty_read(ctx->cq, &ns));
		FT_TRY(ft_resident(&rss));
		printf("%6d %12.0f %12.0f %12.0f %12zu %12zu %12.0f\n", i, figures.open_usec,
		       first, long_ones, (rss - FT_MIN(rss, s->rss)) >> 10, figures.rss >> 10,
		       ns);
	}
	FT_TRY(ft_meet(s->proc));
	ft_buf_free(&s->tx);
	ft_buf_free(&s->rx);
	ft_buf_free(&s->device);
	return ft_close(ctx);
}

int scale_peers(struct ft_proc *proc)
{
	static struct scale s;
	const int peers = proc->opts.quick ? PEERS_QUICK : PEERS;

	s.proc = proc;
	if (proc->rank > 1)
		return 0;
	return proc->rank ? run_peers(&s, peers) : run_one(&s, peers);
}
