/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the two benchmarks share: client and server find each other, agree on the options, go
 * through the sizes, and part in good order.
 */
#ifndef FT_BENCH_H
#define FT_BENCH_H

#include "ft.h"

#define BENCH_DATA_TAG 1
#define BENCH_CTRL_TAG 2

/**
 * struct bench - a running benchmark
 * @tx, @rx:	the data, in the memory that -D names
 * @ctrl_*:	names, barriers and acknowledgments, in host memory
 * @key, @base:	the peer's @rx, for --remote
 * @tx_req, @rx_req: one for each message in flight, as many as the window has
 */
struct bench {
	struct ft_opts opts;
	struct ft_ctx ctx;
	bool client;
	int oob;
	fi_addr_t peer;
	uint64_t key, base;
	size_t inject_size;
	size_t window;
	uint64_t message; /* the number of the next message, counted over all sizes */
	struct ft_buf tx, rx, ctrl_tx, ctrl_rx;
	struct ft_req *tx_req, *rx_req;
	struct ft_req ctrl_tx_req, ctrl_rx_req;
};

/** struct bench_kind - what makes one benchmark different from the other */
struct bench_kind {
	uint32_t id;
	const char *name;
	const char *purpose;
	unsigned int scope;
	int (*measure)(struct bench *b, size_t size, long count, struct ft_result *res);
};

int bench_main(const struct bench_kind *kind, int argc, char **argv);

/** bench_send() - post data at @off. @inject: without a completion, so @req is not used. */
int bench_send(struct bench *b, size_t off, size_t len, bool inject, struct ft_req *req);
int bench_recv(struct bench *b, size_t off, size_t len, struct ft_req *req);
/**
 * bench_ctrl_recv() - post the receive of a control message. bench_ctrl_send() also waits for
 * its end.
 */
int bench_ctrl_recv(struct bench *b, size_t len);
int bench_ctrl_send(struct bench *b, size_t len);
/** bench_may_inject() - are messages of @len bytes sent without a completion? */
bool bench_may_inject(const struct bench *b, size_t len);
/**
 * bench_sync_prepare(), bench_sync() - a barrier. Data receives are posted between the two, as
 * untagged messages match in order, and the barrier's comes first.
 */
int bench_sync_prepare(struct bench *b);
int bench_sync(struct bench *b);

#endif /* FT_BENCH_H */
