/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_calls: what the driver is asked for a message, counted by the emulator: once
 * what the buffer is, unless a descriptor says it, and a copy. What follows a copy, and what
 * several messages at once take, is bounded; and nothing else is called.
 */
#include <string.h>

#include "ft_test.h"

#define MOST 64
#define LARGEST ((size_t) 64 << 10)
#define HOST ((size_t) 1 << 20) /* malloc() takes so much from elsewhere than the heap */

/* Those that may be called, in the order of enum what; how often does not matter from CURRENT to QUERY */
static const char *const names[] = {
	"cuPointerGetAttributes",
	"cuMemcpyAsync",
	"cuMemcpyBatchAsync",
	"cuStreamBatchMemOp",
	"cuStreamWriteValue32",
	"cuCtxGetCurrent",
	"cuCtxGetId",
	"cuThreadExchangeStreamCaptureMode",
	"cuStreamQuery",
	"gdr_copy_to_mapping",
	"gdr_copy_from_mapping",
};

enum what {
	ASK,
	COPY,
	BATCH,
	PUT,
	MARK,
	CURRENT,
	ID,
	MODE,
	QUERY,
	TO,
	FROM,
	WHATS,
};

/* How often each function was called, or may have been */
struct calls {
	unsigned long of[WHATS];
	unsigned long all;
};

/* A copy, and a mark where it is not seen to end; bytes that are put; host memory */
#define COPIED                                                                                 \
	{                                                                                      \
		[ASK] = 1, [COPY] = 1, [MARK] = 1                                              \
	}
#define PUT_THERE                                                                              \
	{                                                                                      \
		[ASK] = 1, [PUT] = 1                                                           \
	}
/* The same of a buffer that comes with its descriptor */
#define KNOWN_COPIED                                                                           \
	{                                                                                      \
		[COPY] = 1, [MARK] = 1                                                         \
	}
#define KNOWN_PUT                                                                              \
	{                                                                                      \
		[PUT] = 1                                                                      \
	}
/* By the CPU, without the driver */
#define ASKED_FROM                                                                             \
	{                                                                                      \
		[ASK] = 1, [FROM] = 1                                                          \
	}
#define ASKED_TO                                                                               \
	{                                                                                      \
		[ASK] = 1, [TO] = 1                                                            \
	}
#define ASKED                                                                                  \
	{                                                                                      \
		[ASK] = 1                                                                      \
	}

/*
 * @count messages of @size bytes at once, in host memory if @host; @known: with descriptors.
 * @tx, @rx: what they may take; a mark more than need be is put where a machine is slow to
 * see the end of a copy.
 */
static const struct row {
	const char *what;
	size_t size, count;
	bool inject, host, known;
	unsigned long tx[WHATS], rx[WHATS];
} rows[] = {
	{"8 bytes", 8, 1, false, false, false, COPIED, PUT_THERE},
	{"8 bytes, injected", 8, 1, true, false, false, COPIED, PUT_THERE},
	{"64 bytes", 64, 1, false, false, false, COPIED, COPIED},
	{"4 KiB", 4096, 1, false, false, false, COPIED, COPIED},
	{"64 KiB", 65536, 1, false, false, false, COPIED, COPIED},
	{"64 of 64 bytes",
	 64,
	 64,
	 false,
	 false,
	 false,
	 {[ASK] = 64, [COPY] = 2, [BATCH] = 4, [MARK] = 6},
	 {[ASK] = 64, [COPY] = 64, [BATCH] = 32, [MARK] = 64}},
	{"8 bytes of the host", 8, 1, false, true, false, ASKED, ASKED},
	{"8 bytes of the host, injected", 8, 1, true, true, false, ASKED, ASKED},
	{"8 bytes of the host, described", 8, 1, false, true, true, {0}, {0}},
	{"8 bytes, described", 8, 1, false, false, true, KNOWN_COPIED, KNOWN_PUT},
	{"64 KiB, described", 65536, 1, false, false, true, KNOWN_COPIED, KNOWN_COPIED},
};

/* The same by way of gdrcopy (--expect-gdrcopy) */
static const struct row gdr_rows[] = {
	{"8 bytes", 8, 1, false, false, false, ASKED_FROM, ASKED_TO},
	{"8 bytes, injected", 8, 1, true, false, false, ASKED_FROM, ASKED_TO},
	{"128 bytes", 128, 1, false, false, false, ASKED_FROM, ASKED_TO},
	{"129 bytes", 129, 1, false, false, false, COPIED, ASKED_TO},
	{"4 KiB", 4096, 1, false, false, false, COPIED, ASKED_TO},
	{"64 KiB", 65536, 1, false, false, false, COPIED, COPIED},
	{"64 of 64 bytes",
	 64,
	 64,
	 false,
	 false,
	 false,
	 {[ASK] = 64, [FROM] = 64},
	 {[ASK] = 64, [TO] = 64}},
	{"8 bytes of the host", 8, 1, false, true, false, ASKED, ASKED},
	{"8 bytes, described", 8, 1, false, false, true, {[FROM] = 1}, {[TO] = 1}},
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
		FT_CHECK((i >= CURRENT && i <= QUERY) || now <= most[i],
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
		if (!row->known)
			op.desc[0] = NULL;
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
	const bool gdr = proc->opts.expect_gdrcopy;
	const struct row *table = gdr ? gdr_rows : rows;
	const size_t count = gdr ? FT_COUNT(gdr_rows) : FT_COUNT(rows);
	struct ft_ctx ctx = {0};
	struct ft_buf bufs[2] = {{0}};
	struct calls calls;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(ft_test_hints(proc, &ctx));
	ctx.mr_access = FI_SEND | FI_RECV;
	FT_TRY(ft_test_open(proc, &ctx));
	FT_TRY(count_calls(&calls));
	FT_TRY(ft_test_connect(proc, &ctx));
	FT_TRY(ft_buf_alloc(&ctx, &bufs[0], FI_HMEM_CUDA, LARGEST));
	FT_TRY(ft_buf_alloc(&ctx, &bufs[1], FI_HMEM_SYSTEM, HOST));
	for (size_t i = 0; i < count; i++) {
		/* the first time, everything may be new */
		FT_TRY(play(proc, &ctx, bufs, &table[i], false));
		for (int again = 0; again < 5; again++)
			FT_TRY(play(proc, &ctx, bufs, &table[i], true));
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
