/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_p2p_pingpong: latency. A message goes to the server, and one of the same size returns. */
#include "bench.h"

/* With -v, the ping is message 2n and the pong 2n + 1. */
static int put(struct bench *b, size_t size, uint64_t number)
{
	if (b->opts.verify) {
		struct ft_slot slot = {&b->tx, 0, size, 0, size};

		FT_TRY(ft_slot_fill(&slot, number));
	}
	return bench_send(b, 0, size, bench_may_inject(b, size), b->tx_req);
}

/*
 * Waits for a message. With @again, posts the receive for the next one at once, before the
 * answer that makes the peer send it.
 */
static int get(struct bench *b, size_t size, uint64_t number, bool again)
{
	FT_TRY(ft_wait(&b->ctx, b->rx_req, 1));
	FT_CHECK(b->rx_req->comp.len == size, "a message of %zu bytes arrived as %zu", size,
		 b->rx_req->comp.len);
	if (b->opts.verify)
		FT_TRY(ft_verify(&b->rx, 0, size, number));
	return again ? bench_recv(b, 0, size, b->rx_req) : 0;
}

static int measure(struct bench *b, size_t size, long count, struct ft_result *res)
{
	double start;

	FT_TRY(bench_sync_prepare(b));
	FT_TRY(bench_recv(b, 0, size, b->rx_req));
	FT_TRY(bench_sync(b));
	start = ft_usec();
	for (long i = 0; i < count; i++, b->message += 2) {
		const bool again = i + 1 < count;

		if (b->client) {
			FT_TRY(put(b, size, b->message));
			FT_TRY(get(b, size, b->message + 1, again));
		} else {
			FT_TRY(get(b, size, b->message, again));
			FT_TRY(put(b, size, b->message + 1));
		}
		FT_TRY(ft_wait(&b->ctx, b->tx_req, 1));
	}
	*res = (struct ft_result){
		.usec = ft_usec() - start,
		.bytes = size,
		.sent = (uint64_t) count,
		.acked = (uint64_t) count,
		.xfers_per_sent = 2,
	};
	return 0;
}

int main(int argc, char **argv)
{
	static const struct bench_kind kind = {
		.id = 1,
		.name = "pingpong",
		.purpose = "Latency of messages between two RDM endpoints, in host or GPU "
			   "memory.",
		.scope = FT_SCOPE_BENCH,
		.measure = measure,
	};

	return bench_main(&kind, argc, argv);
}
