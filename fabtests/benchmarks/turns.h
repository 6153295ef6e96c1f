/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the benchmarks that compare have in common: several ways to send the same
 * messages, all open in one pair of processes, take turns of a millisecond or so, so that
 * whatever else the machine does meets all of them; what counts are ratios within a round
 * of turns.
 *
 * The client says what is to be done, the server obeys.
 */
#ifndef FT_TURNS_H
#define FT_TURNS_H

#include "ft.h"

#define TURNS_SIDES 4 /* at most */
#define TURNS_ROUNDS 1000

/** enum turns_test - what is done in a turn. VERIFY fills and compares, and is not timed
 */
enum turns_test { TURNS_LATENCY, TURNS_STREAM, TURNS_BOTH_WAYS, TURNS_VERIFY };

/**
 * struct turns_row - turns of one kind, as the client tells the server; no rounds: the
 *end
 * @window:	messages under way: sent, and not yet acknowledged
 * @batch:	messages that one acknowledgment, 4 bytes of host memory, stands for; a
 *		divisor of @window
 * @count:	messages of a turn that are timed, for each side; multiples of @window
 */
struct turns_row {
	uint64_t test, tagged, inject, size, window, batch, rounds, seed;
	uint64_t count[TURNS_SIDES];
};

/** struct turns_ep - an endpoint, of ofi_p2p's or of the core provider's below it */
struct turns_ep {
	struct ft_opts opts;
	struct ft_ctx ctx;
	fi_addr_t peer;
};

/**
 * struct turns_side - one that takes turns
 * @ep:		whose messages; several sides may share one
 * @tx, @rx:	the data; every message of a window has its own place
 * @own:	what it does in a turn instead, if it sends no messages: how long one of
 *		@count took goes to @usec
 */
struct turns_side {
	struct turns_ep *ep;
	struct ft_buf *tx, *rx;
	int (*own)(void *arg, const struct turns_row *row, uint64_t count, double *usec);
	void *arg;
};

/** struct turns_slot - an operation; @busy: until its completion has been read */
struct turns_slot {
	struct fi_context2 context;
	bool busy;
};

/**
 * struct turns - the program. Whoever has it fills @opts, by ft_options_parse(), and
 *@sides
 * @order:	of the turns; another in each round
 * @usec:	what a message took of each side, by rounds of the last row; by both ways,
 *what a message each way took
 * @slots:	the longest window
 */
struct turns {
	struct ft_opts opts;
	struct turns_side sides[TURNS_SIDES];
	int side_count;
	int order[TURNS_SIDES];
	bool client;
	int oob;
	struct turns_row row;
	double (*usec)[TURNS_SIDES];
	size_t slots;
	struct ft_buf ack_tx, ack_rx;
	struct turns_slot *tx, *rx, *acks_out, *acks_in;
};

/** turns_sizes() - what is measured without -S */
int turns_sizes(struct ft_opts *opts, const size_t *sizes, size_t count);
/** turns_start() - GPU and socket; the client's seed, the same at both ends */
int turns_start(struct turns *t);
/** turns_open() - of the provider of -p, or of the core provider below it */
int turns_open(struct turns *t, struct turns_ep *ep, bool ours);
/** turns_slots() - once @ep is open: room for windows of @window messages */
int turns_slots(struct turns *t, struct turns_ep *ep, size_t window);
/** turns_shuffle() - another order of the sides */
void turns_shuffle(struct turns *t);
/** turns_tell() - the client: all rounds of t->row, by both */
int turns_tell(struct turns *t);
/** turns_obey() - the server: the same, for the next row */
int turns_obey(struct turns *t);
/**
 * turns_plan() - the client: counts for turns of about @turn_usec, by one short round
 * without regard to the time. What a whole round will take, in usec, goes to @round.
 */
int turns_plan(struct turns *t, double turn_usec, double *round);
/** turns_stop() - nobody closes before the other has all it waits for */
int turns_stop(struct turns *t);

/** turns_quantile() - sorts; 0.5: the median */
double turns_quantile(double *values, size_t count, double q);

#endif /* FT_TURNS_H */
