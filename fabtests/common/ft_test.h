/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the functional programs share beyond ft.h: tests that run as several processes. One more
 * process watches them.
 */
#ifndef FT_TEST_H
#define FT_TEST_H

#include "ft.h"

/** struct ft_proc - what one of the test's processes knows; fd[] are socketpairs */
struct ft_proc {
	struct ft_opts opts;
	int rank, ranks;
	int fd[FT_MAX_RANKS];
};

/**
 * struct ft_test - a functional program
 * @scope:	the options that it has (enum ft_scope); 0: those of a test
 * @run:	called in each process. libfabric and the GPU are untouched before. Returns 0, an
 *		error, or FT_SKIP (after ft_skip()). NULL: @ask does all.
 * @ask:	called before @run, while there is one thread, so that it may fork(2). Returns
 *		what @run does. NULL: there is nothing to ask.
 * @most_ranks:	it is repeated with each number of ranks from @ranks to this; 0: it is not
 * @connects:	it also runs over connected endpoints, then between two ranks, whatever @ranks
 *		is
 * @measures:	it is a benchmark, whose waits never rest
 * @may_die:	the rank that is meant to kill itself with SIGKILL, or -1
 */
struct ft_test {
	const char *purpose;
	unsigned int scope;
	int ranks;
	int most_ranks;
	bool connects, measures;
	int may_die;
	int (*ask)(struct ft_proc *proc);
	int (*run)(struct ft_proc *proc);
};

int ft_test_main(const struct ft_test *test, int argc, char **argv);
/**
 * ft_test_round() - what ft_test_main() does with the command line's options, as often as one likes.
 * Returns the exit status that the ranks' ends make.
 */
int ft_test_round(const struct ft_test *test, const struct ft_opts *opts);
/**
 * ft_descriptors() - how many descriptors this process has, without core providers' sockets, as
 * ofi_rxm of 1.17 may leave one of those open; and without where ofi_p2p answers who asks for
 * offered memory, which stays open from the first offer on.
 */
int ft_descriptors(void);
/** ft_skip() - say why on stdout. Returns FT_SKIP. */
int ft_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** ft_over_verbs() - does -p name the provider of NICs? */
bool ft_over_verbs(const struct ft_opts *opts);
/** ft_has_cntrs() - are there counters? verbs has none, so we have none over its endpoints. */
bool ft_has_cntrs(const struct ft_opts *opts);
/**
 * ft_has_events() - does FI_RMA_EVENT, asked for with the rest of the hints, lead to counts?
 */
bool ft_has_events(const struct ft_ctx *ctx);
/** ft_test_hints() - does what ft_hints() does, and asks for what most tests need */
int ft_test_hints(struct ft_proc *proc, struct ft_ctx *ctx);
/**
 * ft_test_open() calls getinfo and opens what it finds. ft_test_connect() exchanges names and
 * fills ctx->peer, or connects. Rank 0 is the end that listens.
 */
int ft_test_open(struct ft_proc *proc, struct ft_ctx *ctx);
int ft_test_connect(struct ft_proc *proc, struct ft_ctx *ctx);
/** ft_barrier() - meet every other rank; drives progress while it waits */
int ft_barrier(struct ft_proc *proc, struct ft_ctx *ctx);
/**
 * ft_meet(), ft_meet_all() - a barrier of the first two ranks, and of all of them, without any
 * progress
 */
int ft_meet(struct ft_proc *proc);
int ft_meet_all(struct ft_proc *proc);
/**
 * struct ft_soak - rounds of two ranks. @said: when it was told how far they are; @warm: what this process
 * had after half of the time, with --flat
 */
struct ft_soak {
	struct ft_proc *proc;
	double began, said;
	uint64_t rounds;
	struct ft_usage warm;
};

/*
 * With --flat a process may end with so much more than it was warm with. Memory: half of what a domain's reserves
 * may keep (STAGE_BACKED_MAX), as they get their pages by and by. Mappings: a thread that has come, and what an
 * allocator splits.
 */
#define FT_FLAT_BYTES ((size_t) 16 << 20)
#define FT_FLAT_MAPPINGS 16

void ft_soak_begin(struct ft_soak *soak, struct ft_proc *proc);
/**
 * ft_soak_more() - before each round: is there one, after --seconds and --rounds? Rank 0 says so in both, as
 * clocks differ, and tells what both have done. In the end, with --flat, this fails if the process has more
 * memory, descriptors or mappings than when it was warm.
 */
int ft_soak_more(struct ft_soak *soak, uint64_t ops, uint64_t bytes, bool *more);
/**
 * ft_test_own_device() - give each rank a CUDA device of its own, where there are enough: kernels that wait
 * for each other had better run at the same time
 */
int ft_test_own_device(struct ft_proc *proc);
/** ft_kinds() - the kinds of memory under test: host, and the device's with -D */
size_t ft_kinds(const struct ft_opts *opts, enum fi_hmem_iface kinds[2]);

/**
 * struct ft_pair - one of two ranks that send to each other @buf: by kind: host, and the
 * device's with -D
 */
struct ft_pair {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf buf[2];
	size_t kind_count;
	fi_addr_t peer;
};

/** ft_pair_hints() - ask for what most tests need; the caller may change pair->ctx after it */
int ft_pair_hints(struct ft_pair *pair, struct ft_proc *proc);
/** ft_lane_pieces() - how many pieces of messages the endpoint has sent by lanes */
int ft_lane_pieces(struct ft_ctx *ctx, uint64_t *count);
/** ft_pair_open() - open endpoint and peer, and buffers with room for @len bytes and guards */
int ft_pair_open(struct ft_pair *pair, size_t len);
/** ft_pair_join() - the same, but the endpoint is open already */
int ft_pair_join(struct ft_pair *pair, size_t len);
/** ft_pair_close() - close the endpoint, and then the @count objects that were @bound to it */
int ft_pair_close(struct ft_pair *pair, struct fid *const *bound, size_t count);
/**
 * ft_pair_sends() - does this rank send? In tests in which all messages go one way, rank 1
 * does.
 */
static inline bool ft_pair_sends(const struct ft_pair *pair)
{
	return pair->proc->rank == 1;
}
/**
 * ft_pair_message() - make such a message of @len bytes, between buffers of the kinds @from and
 * @to. Fills @op with this rank's end of it, and returns where its data lies.
 */
struct ft_slot ft_pair_message(struct ft_pair *pair, size_t from, size_t to, size_t len,
			       uint64_t tag, struct ft_req *req, struct ft_op *op);
/**
 * ft_pair_post() - post @op. While there is no room, this reads the queue, and takes nothing
 * from it.
 */
int ft_pair_post(struct ft_pair *pair, const struct ft_op *op);
/**
 * ft_pair_transfer() - transfer such a message. @wait waits for its end in its own way. @early:
 * the receive is there before the message is sent, else after it.
 */
int ft_pair_transfer(struct ft_pair *pair, size_t from, size_t to, size_t len, bool early,
		     int (*wait)(struct ft_pair *pair, struct ft_req *req));

/* ---- host.c: hosts of their own ---- */

/**
 * ft_host_fork() - fork a rank, on its host where fi_p2p_hosts has made some. Reports nothing.
 */
pid_t ft_host_fork(int rank);
/** ft_host_signals() - may ranks send each other signals? Not where each has a PID namespace of its own. */
bool ft_host_signals(void);
/** ft_link_there() - is there a network between hosts that can be told something? */
bool ft_link_there(void);
/**
 * ft_link_tell() - have the network between hosts obey: "cut HOST", "mend HOST", "reset PORT PORT", or
 * "count" (relay.h). It does once this returns. One rank at a time may. Gets how many packets were @lost so far. Skips
 * without such a network.
 */
int ft_link_tell(const char *command, uint64_t *lost);

#endif /* FT_TEST_H */
