/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Start-up, as an MPI library does it: each rank opens an endpoint, all tell each other their names, and each sends to all.
 * All ranks begin together. Names go by sockets of the test's, beside the provider. With --ops lanes they send until messages of
 * rank 0's take lanes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "scale.h"
#include "turns.h"

#define SMALL 8

/** struct figures - of one rank; times since the first call [us]; @cpu: the processor's, until @opened; @lanes: a message had them */
struct figures {
	double opened, named, met, cpu, lanes;
	struct ft_usage usage;
};

/** struct message - of @len bytes to each rank, and from each */
struct message {
	struct ft_buf tx, rx;
	size_t len;
};

/* What @from sends to @to */
static uint64_t key(int from, int to)
{
	return (uint64_t) (from * FT_MAX_RANKS + to);
}

static int fill(const struct ft_proc *proc, struct message *m)
{
	for (int i = 0; i < proc->ranks; i++) {
		const size_t at = (size_t) i * m->len;
		const struct ft_slot out = {&m->tx, at, m->len, at, m->len};
		const struct ft_slot in = {&m->rx, at, m->len, at, m->len};

		FT_TRY(ft_slot_fill(&out, key(proc->rank, i)));
		FT_TRY(ft_slot_arm(&in));
	}
	return 0;
}

static int post(struct ft_ctx *ctx, const struct message *m, bool send, int peer, int tag,
		struct ft_req *req)
{
	struct ft_op op = {
		.call = send ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = send ? ctx->peer[peer] : FI_ADDR_UNSPEC,
		.tag = (uint64_t) tag,
		.req = req,
	};

	ft_op_buf(&op, send ? &m->tx : &m->rx, (size_t) peer * m->len, m->len);
	return ft_post(ctx, &op);
}

/* Not all ranks begin with the same peer */
static int meet_all(const struct ft_proc *proc, struct ft_ctx *ctx, const struct message *m)
{
	struct ft_req reqs[2 * FT_MAX_RANKS];
	size_t count = 0;

	for (int i = 1; i < proc->ranks; i++) {
		const int peer = (proc->rank + i) % proc->ranks;

		FT_TRY(post(ctx, m, false, peer, peer, &reqs[count++]));
	}
	for (int i = 1; i < proc->ranks; i++) {
		const int peer = (proc->rank + i) % proc->ranks;

		FT_TRY(post(ctx, m, true, peer, proc->rank, &reqs[count++]));
	}
	return ft_wait(ctx, reqs, count);
}

static int verify(const struct ft_proc *proc, const struct message *m)
{
	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_verify(&m->rx, (size_t) i * m->len, m->len,
					 key(i, proc->rank)));
	return 0;
}

static void grown(struct ft_usage *usage, const struct ft_usage *before)
{
	usage->own -= FT_MIN(usage->own, before->own);
	usage->pss -= FT_MIN(usage->pss, before->pss);
	usage->descriptors -= before->descriptors;
	usage->threads -= before->threads;
}

static double processor_usec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

/* Lanes are opened while the first messages go without them */
static int meet_by_lanes(struct ft_proc *proc, struct ft_ctx *ctx, const struct message *m)
{
	const double end = ft_usec() + (double) proc->opts.timeout * 1e6;
	uint64_t pieces = 0;

	while (!pieces) {
		FT_CHECK(ft_usec() < end, "no message has taken a lane");
		FT_TRY(meet_all(proc, ctx, m));
		FT_TRY(ft_lane_pieces(ctx, &pieces));
		FT_TRY(scale_tell(proc, &pieces, sizeof(pieces)));
		ft_progress_note();
	}
	return 0;
}

static int measure(struct ft_proc *proc, struct ft_ctx *ctx, struct message *m, bool lanes,
		   struct figures *f)
{
	const size_t room = m->len * (size_t) proc->ranks;
	const double began = ft_usec(), spent = processor_usec();

	FT_TRY(ft_test_hints(proc, ctx));
	FT_TRY(ft_test_open(proc, ctx));
	f->opened = ft_usec() - began;
	/* what comes next is spinning, too */
	f->cpu = processor_usec() - spent;
	FT_TRY(ft_test_connect(proc, ctx));
	FT_TRY(ft_buf_alloc(ctx, &m->tx, proc->opts.iface, room));
	FT_TRY(ft_buf_alloc(ctx, &m->rx, proc->opts.iface, room));
	FT_TRY(fill(proc, m));
	f->named = ft_usec() - began;
	FT_TRY(meet_all(proc, ctx, m));
	f->met = ft_usec() - began;
	if (lanes)
		FT_TRY(meet_by_lanes(proc, ctx, m));
	f->lanes = ft_usec() - began;
	return verify(proc, m);
}

/* The median of one figure of each rank, @at bytes into its figures; @slowest: the greatest */
static double middle(const struct figures *all, int ranks, size_t at, bool whole,
		     double *slowest)
{
	double values[FT_MAX_RANKS], result;

	for (int i = 0; i < ranks; i++) {
		const char *const field = (const char *) &all[i] + at;

		values[i] = whole ? (double) *(const size_t *) (const void *) field
				  : *(const double *) (const void *) field;
	}
	result = turns_quantile(values, (size_t) ranks, 0.5);
	if (slowest)
		*slowest = values[ranks - 1];
	return result;
}

#define MIDDLE(field, whole)                                                                   \
	middle(all, proc->ranks, offsetof(struct figures, field), whole, NULL)

static void print(const struct ft_proc *proc, const struct message *m, bool lanes,
		  const struct figures *all)
{
	double slowest;
	const double met =
		middle(all, proc->ranks, offsetof(struct figures, met), false, &slowest);

	printf("{\"test\": \"%s\", \"provider\": \"%s\", \"memory\": \"%s\", \"ranks\": %d, "
	       "\"size\": %zu, \"open_us\": %.0f, \"open_cpu_us\": %.0f, \"names_us\": %.0f, \"messages_us\": %.0f, "
	       "\"lanes_us\": %.0f, \"total_us\": %.0f, \"slowest_us\": %.0f, \"own\": %.0f, \"pss\": %.0f, "
	       "\"descriptors\": %.0f, \"threads\": %.0f}\n",
	       lanes ? "lanes" : "start", proc->opts.prov, m->tx.ops->name, proc->ranks, m->len,
	       MIDDLE(opened, false), MIDDLE(cpu, false),
	       MIDDLE(named, false) - MIDDLE(opened, false), met - MIDDLE(named, false),
	       MIDDLE(lanes, false) - met, met, slowest, MIDDLE(usage.own, true),
	       MIDDLE(usage.pss, true), MIDDLE(usage.descriptors, true),
	       MIDDLE(usage.threads, true));
}

/* There are more ranks than devices */
static int share_devices(struct ft_proc *proc)
{
	int count = 0;

	if (proc->opts.iface == FI_HMEM_CUDA)
		FT_TRY(ft_cuda_devices(&count));
	if (count)
		proc->opts.device = proc->rank % count;
	return 0;
}

int scale_start(struct ft_proc *proc, bool lanes)
{
	static struct figures all[FT_MAX_RANKS];
	struct message m = {.len = proc->opts.size_count ? proc->opts.sizes[0] : SMALL};
	struct ft_usage before;
	struct figures mine;
	struct ft_ctx ctx;

	FT_TRY(share_devices(proc));
	/* the GPU's runtime is the application's */
	FT_TRY(ft_mem_ops(proc->opts.iface)->init(proc->opts.device));
	FT_TRY(ft_meet_all(proc));
	FT_TRY(ft_usage_read(&before));
	FT_TRY(measure(proc, &ctx, &m, lanes, &mine));
	FT_TRY(ft_barrier(proc, &ctx));
	FT_TRY(ft_usage_read(&mine.usage));
	grown(&mine.usage, &before);
	FT_TRY(scale_gather(proc, &mine, sizeof(mine), all));
	if (!proc->rank)
		print(proc, &m, lanes, all);
	FT_TRY(ft_barrier(proc, &ctx));
	ft_buf_free(&m.tx);
	ft_buf_free(&m.rx);
	return ft_close(&ctx);
}
