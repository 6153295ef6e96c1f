/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_calls: what the driver is asked for a message, counted by the emulator: once
 * what the buffer is, and a copy. What follows a copy, and what several messages at once
 * take, is bounded; and nothing else is called.
 */
#include <string.h>

#include "ft_test.h"

#define MOST 64
#define LARGEST ((size_t)64 << 10)

/* Those that may be called, in the order of enum what */
static const char *const names[] = {
	"cuPointerGetAttributes", "cuMemcpyAsync",        "cuMemcpyBatchAsync",
	"cuStreamBatchMemOp",     "cuStreamWriteValue32", "cuCtxGetCurrent",
	"cuStreamQuery",
};

enum what {
	ASK,
	COPY,
	BATCH,
	PUT,
	MARK,
	CURRENT,
	QUERY,
	WHATS,
};

/* How often each function was called, or may have been */
struct calls {
	unsigned long of[WHATS];
	unsigned long all;
};

/* A copy, and a mark where it is not seen to end; bytes that are put; host memory */
#define COPIED                                    \
	{                                         \
		[ASK] = 1, [COPY] = 1, [MARK] = 1 \
	}
#define PUT_THERE                    \
	{                            \
		[ASK] = 1, [PUT] = 1 \
	}
#define ASKED             \
	{                 \
		[ASK] = 1 \
	}

/*
 * @count messages of @size bytes at once, in host memory if @host. @tx, @rx: what they
 * may take; a mark more than need be is put where a machine is slow to see the end of a
 * copy.
 */
static const struct row {
	const char *what;
	size_t size, count;
	bool inject, host;
	unsigned long tx[WHATS], rx[WHATS];
} rows[] = {
	{"8 bytes", 8, 1, false, false, COPIED, PUT_THERE},
	{"8 bytes, injected", 8, 1, true, false, COPIED, PUT_THERE},
	{"64 bytes", 64, 1, false, false, COPIED, COPIED},
	{"4 KiB", 4096, 1, false, false, COPIED, COPIED},
	{"64 KiB", 65536, 1, false, false, COPIED, COPIED},
	{"64 of 64 bytes",
	 64,
	 64,
	 false,
	 false,
	 {[ASK] = 64, [COPY] = 2, [BATCH] = 4, [MARK] = 6},
	 {[ASK] = 64, [COPY] = 64, [BATCH] = 32, [MARK] = 64}},
	{"8 bytes of the host", 8, 1, false, true, ASKED, ASKED},
	{"8 bytes of the host, injected", 8, 1, true, true, ASKED, ASKED},
};

static int count_calls(struct calls *calls)
{
	for (int i = 0; i < WHATS; i++)
		FT_TRY(ft_cuda_calls(names[i], &calls->of[i]));
	return ft_cuda_calls(NULL, &calls->all);
}

static int check(const struct row *row, const struct calls *before, bool sends)
{
	const unsigned long *most = sends ? row->tx : row->rx;
	unsigned long now, known = 0;
	struct calls after;

	FT_TRY(count_calls(&after));
	for (int i = 0; i < WHATS; i++) {
		now = after.of[i] - before->of[i];
		known += now;
		FT_CHECK(i == CURRENT || i == QUERY || now <= most[i],
			 "%s, %s: %s called %lu times, not %lu", row->what,
			 sends ? "sent" : "received", names[i], now, most[i]);
	}
	FT_CHECK(after.all - before->all == known,
		 "%s, %s: %lu calls to the driver that it does not take", row->what,
		 sends ? "sent" : "received", after.all - before->all - known);
	return 0;
}

static int play(struct ft_proc *proc, struct ft_ctx *ctx, const struct ft_buf *bufs,
		const struct row *row, bool counted)
{
	static struct ft_req reqs[MOST];
	const bool sends = proc->rank == 0;
	struct calls before;
	struct ft_op op = {
		.call = sends ? row->inject ? FT_INJECT : FT_SEND : FT_RECV,
		.tagged = true,
		.addr = ctx->peer[!proc->rank],
		.tag = 5,
	};

	memset(reqs, 0, sizeof(reqs));
	if (sends)
		FT_TRY(ft_barrier(proc, ctx));
	FT_TRY(count_calls(&before));
	for (size_t i = 0; i < row->count; i++) {
		op.req = row->inject && sends ? NULL : &reqs[i];
		ft_op_buf(&op, &bufs[row->host], i * row->size, row->size);
		FT_TRY(ft_post(ctx, &op));
	}
	if (!sends)
		FT_TRY(ft_barrier(proc, ctx));
	if (!sends || !row->inject)
		FT_TRY(ft_wait(ctx, reqs, row->count));
	if (counted)
		FT_TRY(check(row, &before, sends));
	return ft_barrier(proc, ctx);
}

static int run(struct ft_proc *proc)
{
	struct ft_ctx ctx = {0};
	struct ft_buf bufs[2] = {{0}};
	struct calls calls;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(ft_test_hints(proc, &ctx));
	FT_TRY(ft_test_open(proc, &ctx));
	FT_TRY(count_calls(&calls));
	FT_TRY(ft_test_connect(proc, &ctx));
	FT_TRY(ft_buf_alloc(&ctx, &bufs[0], FI_HMEM_CUDA, LARGEST));
	FT_TRY(ft_buf_alloc(&ctx, &bufs[1], FI_HMEM_SYSTEM, LARGEST));
	for (size_t i = 0; i < FT_COUNT(rows); i++) {
		/* the first time, everything may be new */
		FT_TRY(play(proc, &ctx, bufs, &rows[i], false));
		for (int again = 0; again < 5; again++)
			FT_TRY(play(proc, &ctx, bufs, &rows[i], true));
	}
	ft_buf_free(&bufs[0]);
	ft_buf_free(&bufs[1]);
	return ft_close(&ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "What the driver is asked for a message (emulated device).",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
