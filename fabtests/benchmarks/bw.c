/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_bw: bandwidth. The client sends windows of messages. The server answers each window
 * with a small message from host memory.
 */
#include "bench.h"

#define ACK_SIZE 4

/* Every message of a window has its own place, unless --one-buffer says otherwise. */
static size_t place(const struct bench *b, size_t size, size_t slot)
{
	return b->opts.one_buffer ? 0 : slot * size;
}

static int send_window(struct bench *b, size_t size, size_t count)
{
	const bool inject = bench_may_inject(b, size);

	FT_TRY(bench_ctrl_recv(b, ACK_SIZE));
	for (size_t i = 0; i < count; i++, b->message++) {
		const size_t off = place(b, size, i);

		if (b->opts.verify) {
			struct ft_slot slot = {&b->tx, off, size, off, size};

			FT_TRY(ft_slot_fill(&slot, b->message));
		}
		FT_TRY(bench_send(b, off, size, inject, &b->tx_req[i]));
	}
	FT_TRY(ft_wait(&b->ctx, b->tx_req, count));
	return ft_wait(&b->ctx, &b->ctrl_rx_req, 1);
}

static int post_window(struct bench *b, size_t size, size_t count)
{
	for (size_t i = 0; i < count; i++)
		FT_TRY(bench_recv(b, place(b, size, i), size, &b->rx_req[i]));
	return 0;
}

static int take_window(struct bench *b, size_t size, size_t count)
{
	FT_TRY(ft_wait(&b->ctx, b->rx_req, count));
	for (size_t i = 0; i < count; i++, b->message++) {
		FT_CHECK(b->rx_req[i].comp.len == size, "a message of %zu bytes arrived as %zu",
			 size, b->rx_req[i].comp.len);
		if (b->opts.verify)
			FT_TRY(ft_verify(&b->rx, place(b, size, i), size, b->message));
	}
	return 0;
}

static int measure(struct bench *b, size_t size, long count, struct ft_result *res)
{
	size_t left = (size_t) count, now = FT_MIN(left, b->window);
	uint64_t windows = 0;
	double start;

	FT_TRY(bench_sync_prepare(b));
	if (!b->client)
		FT_TRY(post_window(b, size, now));
	FT_TRY(bench_sync(b));
	start = ft_usec();
	for (; left; left -= now, now = FT_MIN(left, b->window), windows++) {
		if (b->client) {
			FT_TRY(send_window(b, size, now));
			continue;
		}
		FT_TRY(take_window(b, size, now));
		/* the receives of the next window are posted before the client may send it */
		FT_TRY(post_window(b, size, FT_MIN(left - now, b->window)));
		FT_TRY(bench_ctrl_send(b, ACK_SIZE));
	}
	*res = (struct ft_result){
		.usec = ft_usec() - start,
		.bytes = size,
		.sent = (uint64_t) count,
		.acked = windows,
		.xfers_per_sent = 1,
	};
	return 0;
}

int main(int argc, char **argv)
{
	static const struct bench_kind kind = {
		.id = 2,
		.name = "bw",
		.purpose = "Bandwidth of messages between two RDM endpoints, in host or GPU "
			   "memory.",
		.scope = FT_SCOPE_BENCH | FT_SCOPE_BW,
		.measure = measure,
	};

	return bench_main(&kind, argc, argv);
}
