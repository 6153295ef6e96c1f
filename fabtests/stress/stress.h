/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_stress. Both processes derive the same rounds from the seed, so that each knows
 * what the other sends, in which order, and what is to be seen of it:
 *
 *	plan.c		a round: operations, where their data lies, when each end acts
 *	quirks.c	what a core provider is known to do wrong: planned around
 *	ops_msg.c, ops_rma.c, ops_atomic.c
 *			the kinds of operations: an entry of stress_types[] each
 *	side.c		endpoints, queues, counters and memory of one process
 *	run.c		a round's course: posting, waiting
 *	check.c		completions, data, counters
 *	stress.c	rounds one after the other; what is said of them
 *
 * A round depends on nothing but seed, number and what the provider offers: it can be
 * run without those before it.
 */
#ifndef FT_STRESS_H
#define FT_STRESS_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "ft_test.h"

#define STRESS_EPS 3 /* endpoints of a process; the last has a queue of its own */
#define STRESS_CQS 2
#define STRESS_COUNTED 1   /* this one has counters */
#define STRESS_SELECTIVE 2 /* this one reports only what it is asked to */
#define STRESS_OPS 64      /* in a round */
#define STRESS_ARENA ((size_t) 12 << 20)
#define STRESS_MULTI_ROOM ((size_t) 1 << 20)
#define STRESS_MARGIN 64 /* guard bytes on each side of a payload */

/* The two ends of an operation: where the data comes from, and where it goes */
enum { FROM, TO, ENDS };

/*
 * When a receive is posted: before anything is sent, among the sends, after all of them;
 * when everything else of the round is posted, so that it may wait for its message
 */
enum stress_when { EARLY, AMONG, LATE, LAST };

/* What is counted, in the order of stress_counters[] */
enum {
	CNTR_SEND,
	CNTR_RECV,
	CNTR_READ,
	CNTR_WRITE,
	CNTR_REMOTE_READ,
	CNTR_REMOTE_WRITE,
	CNTRS,
	CNTR_NONE = CNTRS
};

extern const uint64_t stress_counters[CNTRS];

/* Known faults of core providers, see quirks.c */
enum {
	QUIRK_IGNORE = 1 << 0,     /* ignored tag bits */
	QUIRK_MIX = 1 << 1,        /* receives from any source beside directed ones */
	QUIRK_ORDER = 1 << 2,      /* order, when only some receives are late */
	QUIRK_SELECTIVE = 1 << 3,  /* reports what was not to be reported */
	QUIRK_UNEXPECTED = 1 << 4, /* room for a few unexpected messages only */
	QUIRK_DEVICE = 1 << 5,     /* device memory in one-sided operations */
	QUIRK_DELIVERY = 1 << 6,   /* FI_DELIVERY_COMPLETE before the receive is posted */
	QUIRK_DATA = 1 << 7,       /* as QUIRK_SELECTIVE, for messages with remote cq data */
	QUIRK_COUNTERS = 1 << 8,   /* counters */
	QUIRK_EMPTY = 1 << 9,      /* pieces of no bytes */
	QUIRK_NOTHING = 1 << 10,   /* FI_DELIVERY_COMPLETE of no bytes */
	QUIRK_REMOTE = 1 << 12,    /* counters of what peers do */
	QUIRK_EPS = 1 << 11,       /* unexpected messages, with several endpoints */
	QUIRK_PEEK = 1 << 13,      /* FI_PEEK */
	QUIRK_CLAIM = 1 << 14,     /* FI_CLAIM of what the core sends in several parts */
	QUIRK_ATOMICS = 1 << 15,   /* atomic operations */
	QUIRK_UNEVEN = 1 << 17,    /* fairness among many peers */
	QUIRK_NOMEM = 1 << 16,     /* -FI_ENOMEM where there is no room now */
	QUIRK_MULTI = 1 << 18,     /* buffers for many messages */
};

struct stress;
struct stress_plan;
struct stress_round;
struct stress_op;

/**
 * struct stress_call - one of libfabric's functions
 * @call:	enum ft_call, or whatever its type of operation takes it for
 * @split:	takes several pieces; @msg: takes flags
 * @data:	always with remote cq data; @inject: the buffer is free when it returns
 */
struct stress_call {
	const char *name;
	int call;
	bool split, msg, data, inject;
};

/**
 * struct stress_type - a kind of operation
 * @caps:	what fi_getinfo has to offer for it
 * @weight:	how often it is planned, among the others
 * @starter:	the end that begins it. Its @start is called in the order of the plan,
 *again as long as it returns -FI_EAGAIN
 * @plan:	completes an operation of which ends and endpoints are chosen. False: it
 *		cannot be, in this round
 * @prepare:	fills an end's memory; NULL: the pattern of the key at FROM, guards at TO
 * @take:	what the other end posts when its time has come; NULL: nothing
 * @flags:	of the completion at each end; 0: there is none
 * @counter:	what counts at each end
 * @error:	what it ends with, at the end that takes
 * @multi:	several operations complete at one receive
 * @arrived:	is it there, where nothing reports it? 1, 0 or -FI_E*
 * @check:	says what is wrong with the data at @end. Both NULL: the pattern of the
 *		operation's key has to be at FROM still, and at TO
 */
struct stress_type {
	const char *name;
	uint64_t caps;
	unsigned int weight;
	int starter;
	bool (*plan)(const struct stress_plan *plan, struct stress_round *round,
		     struct stress_op *op, uint64_t *rnd);
	int (*prepare)(struct stress *s, const struct stress_op *op, int end);
	ssize_t (*start)(struct stress *s, struct stress_op *op);
	ssize_t (*take)(struct stress *s, struct stress_op *op);
	uint64_t flags[ENDS];
	int counter[ENDS];
	int error;
	bool multi;
	int (*arrived)(struct stress *s, const struct stress_op *op);
	int (*check)(struct stress *s, const struct stress_op *op, int end, const char *what);
};

extern const struct stress_type stress_msg, stress_tagged, stress_probe, stress_cancel,
	stress_multi, stress_write, stress_read, stress_atomic, stress_fetch, stress_compare;
extern const struct stress_type *const stress_types[];
extern const size_t stress_type_count;

/**
 * struct stress_end - one end of an operation
 * @call:	what is called here; NULL: nothing
 * @signal:	it is reported
 * @base, @room: the guarded part of the arena; @off, @len the buffer in it
 */
struct stress_end {
	int rank;
	unsigned int ep;
	enum fi_hmem_iface kind;
	const struct stress_call *call;
	bool signal;
	size_t base, off, len, room;
};

/**
 * struct stress_op - one operation
 * @size:	bytes that travel
 * @tag:	of the message; @match, @ignore: of its receive
 * @flags:	of the starter's *msg call
 * @directed:	received from its source only; @claim: found by a peek that claims it
 * @when, @place: when the receive is posted, and its place among the others
 * @group:	what matches in order; -1: nothing else can match
 * @cuts:	random, for the lengths of pieces
 * @key:	of the data
 * @leader:	multi-receive: the operation that has the buffer; @found: where in it,
 *from
 *		@end[TO].off on
 * @datatype, @atomic: of atomic operations
 */
struct stress_op {
	unsigned int number;
	const struct stress_type *type;
	struct stress_end end[ENDS];
	size_t size;
	uint64_t tag, match, ignore, data, flags;
	bool has_data, directed, claim;
	enum stress_when when;
	uint64_t place;
	int group;
	uint64_t cuts, key;
	unsigned int leader;
	size_t found;
	enum fi_datatype datatype;
	enum fi_op atomic;
};

/**
 * struct stress_round - what a round consists of
 * @largest:	no operation is longer
 * @takes:	operations by the order in which @ranks post their receives
 */
struct stress_round {
	uint64_t number;
	size_t largest;
	enum stress_when latest;
	enum stress_when earliest;
	bool directed, wild;
	unsigned int eps;                   /* how many are used */
	bool multi[2][STRESS_EPS];          /* untagged messages share a buffer */
	unsigned int source[2][STRESS_EPS]; /* of untagged messages */
	int multi_leader[2][STRESS_EPS];
	unsigned int unexpected;
	size_t used[2][ENDS][2];
	unsigned int count;
	struct stress_op op[STRESS_OPS];
	unsigned int takes[STRESS_OPS];
};

/**
 * struct stress_plan - what all rounds depend on; the same in both processes
 * @caps:	what fi_getinfo offers
 * @multi:	there are multi-receives among @types; @multi_min: FI_OPT_MIN_MULTI_RECV
 * @levels:	the completion levels (FI_DELIVERY_COMPLETE ...) that it offers
 * @types:	operations to choose from, an entry for each unit of weight
 * @announced:	messages from device memory that are longer than this are no messages of
 *		the core's
 */
struct stress_plan {
	uint64_t seed, caps, levels;
	unsigned int quirks;
	bool multi;
	size_t multi_min;
	enum fi_hmem_iface kinds[2];
	size_t kind_count;
	size_t inject;
	struct fid_ep *ep; /* to ask for its limits */
	size_t iov_limit[ENDS], rma_iov_limit;
	size_t announced;
	size_t size[16];
	size_t size_count;
	unsigned int types[64];
	size_t type_count;
};

/**
 * struct stress_part - one end of an operation, in the process that it belongs to
 * @probing:	a peek is under way; @found: it has found the message
 */
struct stress_part {
	struct ft_req req; /* first: op_context */
	unsigned int op;
	int end;
	bool mine, posted, wanted, done, released, probing, found;
};

/* Where the other process has its arenas, for one-sided operations */
struct stress_remote {
	uint64_t addr, key;
};

struct stress {
	struct ft_proc *proc;
	struct stress_plan plan;
	struct ft_ctx ctx[STRESS_EPS]; /* the first one owns what they share */
	struct fid_cq *cq[STRESS_CQS];
	struct fid_cntr *cntr[CNTRS]; /* NULL: not offered */
	uint64_t counted[CNTRS];
	fi_addr_t peer[STRESS_EPS];
	struct ft_buf arena[ENDS][2];
	struct stress_remote remote[ENDS][2];
	struct stress_round round;
	struct stress_part part[STRESS_OPS][ENDS];
	uint64_t ops, bytes;
};

/* ---- plan.c ---- */

uint64_t stress_pick(uint64_t *rnd, uint64_t count);
bool stress_coin(uint64_t *rnd);
void stress_plan_round(const struct stress_plan *plan, uint64_t number,
		       struct stress_round *round);
/** stress_plan_end() - a place for @len bytes at @end, aligned for atomics or not at all
 */
bool stress_plan_end(struct stress_round *round, struct stress_op *op, int end, size_t len,
		     bool aligned, uint64_t *rnd);
/** stress_plan_size() - a random size, as a rule next to a threshold */
size_t stress_plan_size(const struct stress_plan *plan, const struct stress_round *round,
			uint64_t *rnd);
/** stress_plan_selective() - does this end report only what it is asked to? */
bool stress_plan_selective(const struct stress_plan *plan, const struct stress_end *end);
/** stress_plan_levels() - flags of a *msg call: how complete is complete */
uint64_t stress_plan_levels(const struct stress_plan *plan, const struct stress_op *op,
			    uint64_t *rnd);
/** stress_op_name() - for messages: what it is, between what, how long */
void stress_op_name(const struct stress_op *op, char *text, size_t len);

/* ---- quirks.c ---- */

/* @hmem: with FI_HMEM. @say: prints what is left out, and why */
unsigned int stress_quirks(const char *prov, bool hmem, bool say);

/* ---- side.c ---- */

int stress_open(struct stress *s);
int stress_close(struct stress *s);
struct ft_slot stress_slot(const struct stress *s, const struct stress_op *op, int end);
/** stress_cut() - the pieces of a buffer: as many as @limit, of random lengths */
size_t stress_cut(const struct stress *s, struct iovec *iov, char *base, size_t len,
		  size_t limit, uint64_t cuts, size_t unit);

/* ---- run.c ---- */

int stress_round_run(struct stress *s);
int stress_barrier(struct stress *s);
/** stress_progress() - read all queues: how many completions, or -FI_E* */
int stress_progress(struct stress *s);
/** stress_turn() - progress, and when there was none a look at the clock and the peer */
int stress_turn(struct stress *s);

/* ---- check.c ---- */

/** stress_completed() - a completion was read; @err: positive, or 0 */
int stress_completed(struct stress *s, const struct fi_cq_tagged_entry *comp, fi_addr_t src,
		     int err);
/** stress_arrived() - has all come that nothing reports? 1, 0 or -FI_E* */
int stress_arrived(struct stress *s);
/** stress_check_source() - data that was sent is as it was, unless it was injected */
int stress_check_source(struct stress *s, const struct stress_op *op, const char *what);
int stress_check_counters(struct stress *s);
int stress_check_round(struct stress *s);

#endif /* FT_STRESS_H */
