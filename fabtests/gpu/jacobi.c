/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_jacobi: a Jacobi iteration on a grid that two GPUs share. After each iteration each has to have
 * the other's row at the seam. That is done in four forms: by the host, by a stream, by a graph, and by
 * the kernel. The result of each is compared, bit by bit, with that of the host alone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "cu.h"
#include "forms.h"
#include "jacobi_kernels.h"

#define TAG 5

/* The host is no more iterations ahead of the GPU. Launches into a full queue spin, which costs its time. */
#define AHEAD 50

struct run {
	struct xpu_side side;
	struct jacobi jacobi;
	void *stream;
	double *expected, *start;
	size_t len; /* of both arrays */
};

/* ---- what is expected ---- */

static double border(uint64_t row, uint64_t col, uint64_t rows, uint64_t cols)
{
	if (!row)
		return (double) col;
	if (row == rows + 1)
		return (double) (cols - col);
	return !col || col == cols - 1 ? (double) row / 3 : 0;
}

/* Computes the whole grid, of twice the rows, and keeps this rank's part of it. */
static int expect(struct run *run)
{
	const uint64_t rows = 2 * run->jacobi.rows, cols = run->jacobi.cols;
	const uint64_t mine = (uint64_t) run->side.proc->rank * run->jacobi.rows * cols;
	const size_t size = (rows + 2) * cols;
	double *grid = calloc(2 * size, sizeof(*grid)), *old, *next;

	FT_CHECK(grid, "no memory for %zu values", size);
	for (uint64_t i = 0; i < size; i++)
		grid[i] = grid[size + i] = border(i / cols, i % cols, rows, cols);
	memcpy(run->start, grid + mine, run->len / 2);
	memcpy((char *) run->start + run->len / 2, grid + mine, run->len / 2);
	for (uint64_t it = 0; it < run->jacobi.iterations; it++) {
		old = grid + it % 2 * size;
		next = grid + (it + 1) % 2 * size;
		for (uint64_t at = cols; at < (rows + 1) * cols; at++) {
			if (at % cols && at % cols != cols - 1)
				next[at] = 0.25 * ((old[at - 1] + old[at + 1]) +
						   (old[at - cols] + old[at + cols]));
		}
	}
	memcpy(run->expected, grid + run->jacobi.iterations % 2 * size + mine, run->len / 2);
	free(grid);
	return 0;
}

/* The rows of this rank are as expected, all bits of them. */
static int check(struct run *run, const char *form)
{
	const struct jacobi *jacobi = &run->jacobi;
	const size_t row = jacobi->cols * sizeof(double), len = run->len / 2;
	char *found = malloc(len);
	int ret;

	FT_CHECK(found, "no memory for %zu bytes", len);
	ret = run->side.in.ops->from(found, run->side.in.addr + jacobi->iterations % 2 * len,
				     len);
	if (!ret && memcmp(found + row, (char *) run->expected + row, len - 2 * row)) {
		ft_err("%s: the grid is not that of one process", form);
		ret = -FI_EOTHER;
	}
	free(found);
	return ret;
}

/* ---- the forms ---- */

static void *row(const struct run *run, int array, uint64_t number)
{
	const struct jacobi *jacobi = &run->jacobi;

	return jacobi->grid + ((uint64_t) array * (jacobi->rows + 2) + number) * jacobi->cols;
}

/* Sleeps until the stream has done all, so that the processor's time tells what else there was to do. */
static int finish(const struct run *run)
{
	void *event;

	CU(event_create(&event, CU_EVENT_BLOCKING));
	CU(event_record(event, run->stream));
	CU(event_synchronize(event));
	CU(event_destroy(event));
	return 0;
}

static int by_kernel(struct run *run)
{
	FT_CHECK(!jacobi_run(&run->jacobi, run->stream), "a kernel cannot be launched");
	return finish(run);
}

static int by_host(struct run *run)
{
	struct ft_ctx *ctx = &run->side.ctx;
	const size_t len = run->jacobi.cols * sizeof(double);
	const fi_addr_t peer = ctx->peer[!run->side.proc->rank];

	for (uint64_t i = 0; i < run->jacobi.iterations; i++) {
		const int to = !(i % 2);
		struct ft_req reqs[2] = {{.done = false}, {.done = false}};
		struct ft_op recv = {
			.call = FT_RECVMSG,
			.tagged = true,
			.iov = {{row(run, to, run->jacobi.halo), len}},
			.desc = {run->side.in.desc},
			.count = 1,
			.addr = peer,
			.tag = TAG,
			.flags = FI_COMPLETION,
			.req = &reqs[0],
		};
		struct ft_op send = recv;

		send.call = FT_SENDMSG;
		send.iov[0].iov_base = row(run, to, run->jacobi.send);
		send.req = &reqs[1];
		FT_CHECK(!jacobi_step(&run->jacobi, (int) (i % 2), run->stream),
			 "a kernel cannot be launched");
		CU(synchronize(run->stream));
		FT_TRY(ft_post(ctx, &recv));
		FT_TRY(ft_post(ctx, &send));
		FT_TRY(ft_wait(ctx, reqs, 2));
	}
	return 0;
}

/* One iteration: @sent and @received are what the counters are to come to. */
static int put_iteration(struct run *run, int from, uint64_t sent, uint64_t received)
{
	struct xpu_side *side = &run->side;
	const size_t len = run->jacobi.cols * sizeof(double);
	const fi_addr_t peer = side->ctx.peer[!side->proc->rank];

	/* the kernel does not touch that row, so the receive is there before the peer's message */
	FT_TRY(fi_p2p_stream_trecv(side->ctx.ep, row(run, !from, run->jacobi.halo), len,
				   side->in.desc, peer, TAG, 0, NULL, run->stream));
	FT_CHECK(!jacobi_step(&run->jacobi, from, run->stream), "a kernel cannot be launched");
	FT_TRY(fi_p2p_stream_tsend(side->ctx.ep, row(run, !from, run->jacobi.send), len,
				   side->in.desc, peer, TAG, NULL, run->stream));
	FT_TRY(fi_p2p_stream_wait(&side->tx->fid, sent, run->stream));
	return fi_p2p_stream_wait(&side->rx->fid, received, run->stream);
}

static int by_stream(struct run *run)
{
	const uint64_t sent = fi_cntr_read(run->side.tx), received = fi_cntr_read(run->side.rx);

	for (uint64_t i = 0; i < run->jacobi.iterations; i++) {
		FT_TRY(put_iteration(run, (int) (i % 2), sent + i + 1, received + i + 1));
		if (i % AHEAD == AHEAD - 1)
			FT_TRY(finish(run));
	}
	return finish(run);
}

/* A graph of two iterations, launched as often as it takes */
static int by_graph(struct run *run)
{
	void *graph, *exec;

	CU(capture_begin(run->stream, CU_CAPTURE_GLOBAL));
	FT_TRY(put_iteration(run, 0, 1, 1));
	FT_TRY(put_iteration(run, 1, 1, 1));
	CU(capture_end(run->stream, &graph));
	CU(instantiate(&exec, graph, 0));
	CU(graph_destroy(graph));
	for (uint64_t i = 0; i < run->jacobi.iterations / 2; i++) {
		CU(launch(exec, run->stream));
		if (i % (AHEAD / 2) == AHEAD / 2 - 1)
			FT_TRY(finish(run));
	}
	FT_TRY(finish(run));
	CU(exec_destroy(exec));
	return 0;
}

/* ---- running ---- */

static int form(struct run *run, const char *name, int (*iterate)(struct run *run))
{
	const struct xpu_side *side = &run->side;
	struct form_time time;

	FT_TRY(side->in.ops->to(side->in.addr, run->start, run->len));
	FT_TRY(form_begin(side, &time));
	FT_TRY(iterate(run));
	FT_TRY(form_end(side, &time, name, run->jacobi.iterations));
	FT_TRY(check(run, name));
	ft_progress_note();
	return 0;
}

static int forms(struct run *run)
{
	struct xpu_side *side = &run->side;

	FT_TRY(form(run, "kernel", by_kernel));
	FT_TRY(xpu_side_take_back(side));
	FT_TRY(ft_meet_all(side->proc));
	FT_TRY(form(run, "stream", by_stream));
	FT_TRY(form(run, "graph", by_graph));
	FT_TRY(form(run, "host", by_host));
	if (side->proc->opts.quick)
		return 0;
	/* once more, as the first of each begins cold */
	FT_TRY(form(run, "stream", by_stream));
	FT_TRY(form(run, "graph", by_graph));
	return form(run, "host", by_host);
}

static int run(struct ft_proc *proc)
{
	struct run run = {.jacobi = {.rows = proc->opts.quick ? 14 : 1024,
				     .cols = proc->opts.quick ? 33 : 2048,
				     .iterations = proc->opts.quick ? 10 : 1000,
				     .blocks = proc->opts.quick ? 3 : 128}};
	struct jacobi *jacobi = &run.jacobi;
	struct xpu_side *side = &run.side;
	int ret;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	run.len = 2 * (jacobi->rows + 2) * jacobi->cols * sizeof(double);
	run.start = malloc(run.len);
	run.expected = malloc(run.len);
	FT_CHECK(run.start && run.expected, "no memory for %zu bytes", run.len);
	FT_TRY(xpu_side_open(side, proc, 0, run.len, 2, false));
	FT_TRY(cu_load());
	CU(stream_create(&run.stream, CU_NON_BLOCKING));
	jacobi->grid = (double *) side->in.addr;
	jacobi->send = proc->rank ? 1 : jacobi->rows;
	jacobi->halo = proc->rank ? 0 : jacobi->rows + 1;
	jacobi->ep = side->args.ep;
	jacobi->tx = side->args.tx;
	jacobi->signal = (uint64_t *) side->signal.addr;
	jacobi->signal_target = side->args.signal_target;
	jacobi->meet = (uint64_t *) side->result.addr;
	FT_TRY(xpu_side_target(side, &side->in, side->args.there, side->args.key,
			       &jacobi->target));
	FT_TRY(xpu_side_clear(&side->signal));
	FT_TRY(xpu_side_clear(&side->result));
	FT_TRY(expect(&run));
	ret = forms(&run);
	free(run.start);
	free(run.expected);
	if (ret)
		return ret;
	CU(stream_destroy(run.stream));
	return xpu_side_close(side);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "A Jacobi iteration on two GPUs: by host, stream, graph and kernel.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
