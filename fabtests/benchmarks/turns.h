/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the benchmarks that compare have in common.
 *
 * Several ways to send the same messages are open in one pair of processes. They take turns of
 * a millisecond or so. So whatever else the machine does meets all of them. The results are
 * ratios within a round of turns.
 *
 * The client says what is to be done, and the server obeys.
 */
#ifndef FT_TURNS_H
#define FT_TURNS_H

#include "ft.h"

#define TURNS_SIDES 4 /* at most */
#define TURNS_ROUNDS 1000

/**
 * enum turns_test - what is done in a turn. Those that verify fill and compare, and are not timed.
 *
 * From TURNS_WRITE on the client reaches the server's memory. Atomic operations add one uint64_t.
 */
enum turns_test {
	TURNS_LATENCY,
	TURNS_STREAM,
	TURNS_BOTH_WAYS,
	TURNS_VERIFY,
	TURNS_WRITE,
	TURNS_WRITE_DATA,
	TURNS_READ,
	TURNS_ATOMIC,
	TURNS_FETCH,
	TURNS_VERIFY_RMA,
	TURNS_VERIFY_ATOMIC,
	TURNS_TESTS
};

/**
 * struct turns_row - turns of one kind, as the client tells the server
 *
 * A row without rounds is the end.
 *
 * @window:	the messages under way: sent, and not yet acknowledged. Or the operations on remote
 *		memory that have not ended
 * @batch:	the messages that one acknowledgment stands for; it divides @window. An
 *		acknowledgment has 4 bytes of host memory.
 * @count:	the messages of a turn that are timed, for each side; multiples of @window
 */
struct turns_row {
	uint64_t test, tagged, inject, size, window, batch, rounds, seed;
	uint64_t count[TURNS_SIDES];
};

/** struct turns_ep - an endpoint of ofi_p2p's, or of the core provider's below it */
struct turns_ep {
	struct ft_opts opts;
	struct ft_ctx ctx;
	fi_addr_t peer;
};

/**
 * struct turns_side - one of those that take turns
 * @ep:		the endpoint for its messages; several sides may share one
 * @tx, @rx:	the data; every message of a window has its own place
 * @target:	@rx, as the peer may reach it; after turns_share()
 * @key, @base:	the same of the peer
 * @own:	if it sends no messages: what it does in a turn instead. This is done @count
 *		times, and the time of one goes to @usec.
 */
struct turns_side {
	struct turns_ep *ep;
	struct ft_buf *tx, *rx;
	struct ft_buf target;
	uint64_t key, base;
	int (*own)(void *arg, const struct turns_row *row, uint64_t count, double *usec);
	void *arg;
};

/** struct turns_slot - an operation; @busy until its completion has been read */
struct turns_slot {
	struct fi_context2 context;
	bool busy;
};

/**
 * struct turns - the program
 *
 * Its owner fills @opts, by ft_options_parse(), and @sides.
 *
 * @order:	the order of the turns, another one in each round
 * @usec:	what a message took each side, by rounds of the last row. In a row of both
 *		ways, what a message each way took.
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

/** turns_sizes() - set the sizes that are measured without -S */
int turns_sizes(struct ft_opts *opts, const size_t *sizes, size_t count);
/** turns_start() - start GPU and socket. Both ends then have the client's seed. */
int turns_start(struct turns *t);
/** turns_remote() - does the test reach remote memory? */
static inline bool turns_remote(uint64_t test)
{
	return test >= TURNS_WRITE;
}

/** turns_alone() - is it a row whose operations each begin when the one before has ended? */
static inline bool turns_alone(const struct turns_row *row)
{
	return row->test == TURNS_LATENCY || (turns_remote(row->test) && row->window == 1);
}

/**
 * turns_open() - open an endpoint of the provider of -p, or of the core provider below it. @caps:
 * what it is to do besides messages, of which FI_ATOMIC may not be offered
 */
int turns_open(struct turns *t, struct turns_ep *ep, bool ours, uint64_t caps);
/** turns_share() - let the peer reach the side's receive buffer; both ends call it in turn */
int turns_share(struct turns *t, struct turns_side *s);
/** turns_unshare() - before the buffer is freed */
void turns_unshare(struct turns_side *s);
/** turns_slots() - make room for windows of @window messages, once @ep is open */
int turns_slots(struct turns *t, struct turns_ep *ep, size_t window);
/** turns_shuffle() - change the order of the sides */
void turns_shuffle(struct turns *t);
/** turns_tell() - the client: have both ends do all rounds of t->row */
int turns_tell(struct turns *t);
/** turns_obey() - the server: do the same for the next row */
int turns_obey(struct turns *t);
/**
 * turns_plan() - the client: find the counts for turns of about @turn_usec, by one short round
 * of any length. Gives the time of a whole round to @round [us].
 */
int turns_plan(struct turns *t, double turn_usec, double *round);
/** turns_stop() - part: no side closes before the other has all that it waits for */
int turns_stop(struct turns *t);

/** turns_quantile() - sort, and return the quantile @q; 0.5 is the median */
double turns_quantile(double *values, size_t count, double q);

#endif /* FT_TURNS_H */
