/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_load. Rank 0 has one endpoint, the hub. Rank 1 has all the others, the spokes, in one domain.
 * Each spoke does everything with the hub at once. A lane is one kind of operation between one spoke and the
 * hub: as soon as one has ended, the lane begins the next.
 *
 *	load_side.c	endpoints and memory of one process
 *	load_ends.c	what is done at each end of a lane
 *	load_burst.c	the same for bursts of short messages
 *	load.c		the kinds of lanes; rounds; whether it was fair
 *
 * Both ends know a lane's operations beforehand: all that there is to an operation follows from the seed, the
 * lane and its number.
 */
#ifndef FT_LOAD_H
#define FT_LOAD_H

#include <limits.h>
#include <stdatomic.h>

#include "stress.h"

#define LOAD_KINDS_MAX 32
#define LOAD_SPOKES_MAX 63
#define LOAD_MULTIS 2 /* buffers of the hub for many messages */
#define LOAD_MULTI_LEN ((size_t) 256 << 10)
#define LOAD_MULTI_LARGEST                                                                     \
	((size_t) 7000) /* in one piece of ofi_rxm's, which mixes up several */
#define LOAD_MARGIN 64
#define LOAD_ELEMENTS 8 /* of an atomic operation */
#define LOAD_SUMS (LOAD_ELEMENTS * sizeof(uint64_t))

struct load;
struct load_end;

/**
 * struct load_role - what one end of a lane does.
 * @prepare:	fills the memory of the next operation
 * @post:	begins it, or the phase of it that it is in. NULL: what arrives is found elsewhere
 * @ended:	checks what has come. 1: the operation is over; 0: it has another phase; or -FI_E*
 * @counts:	operations are counted at this end
 */
struct load_role {
	int (*prepare)(struct load *load, struct load_end *end);
	ssize_t (*post)(struct load *load, struct load_end *end);
	int (*ended)(struct load *load, struct load_end *end);
	bool counts;
};

extern const struct load_role load_send, load_send_untagged, load_recv, load_peek, load_multi,
	load_put, load_add, load_burst_send, load_burst_recv;

/**
 * struct load_kind - a kind of lane.
 * @caps:	what fi_getinfo has to offer for it
 * @quirks:	faults of core providers (quirks.c) with which it cannot be. LOAD_OURS: nor can it be with a
 *		hook; LOAD_ALIKE: all of its operations wait for slots of one sort
 * @up:		spokes begin; else the hub does
 * @device:	is the memory a device's, where the operation begins and at the other end
 * @least:	bytes
 * @most:	bytes
 * @count:	operations of a lane in a round; LOAD_BURSTS: as many as --bursts says
 * @burst:	an operation is so many messages of one length, all of them under way at once; 0: it is one
 * @start:	the role of the end that begins
 * @take:	that of the other end; NULL: it calls nothing
 */
struct load_kind {
	const char *name;
	uint64_t caps;
	unsigned int quirks;
	bool up;
	bool device[2];
	size_t least, most;
	unsigned int count;
	const struct load_role *start, *take;
	unsigned int burst;
};

#define LOAD_BURSTS UINT_MAX
#define LOAD_OURS (1U << 31)
#define LOAD_ALIKE (1U << 30)

extern const struct load_kind load_kinds[];
extern const size_t load_kind_count;

/**
 * struct load_end - this process's end of a lane.
 * @role:	NULL: nothing is done here
 * @number:	of the operation; @target: those before this one are to be done
 * @phase:	of the operation
 * @sum:	of atomic operations: what the target has
 * @part:	the messages of a burst; @ended: so many of them have
 */
struct load_end {
	struct ft_req req; /* first: op_context */
	const struct load_kind *kind;
	const struct load_role *role;
	unsigned int lane, spoke;
	uint64_t number, target;
	int phase;
	bool prepared, posted;
	uint64_t sum[LOAD_ELEMENTS];
	struct ft_req *part;
	unsigned int ended;
};

/* A buffer of the hub's for many messages */
struct load_multi_buf {
	struct ft_req req; /* first: op_context */
	struct ft_buf buf;
	bool posted;
};

/* Where the other process has a kind's memory */
struct load_far {
	uint64_t addr, key;
};

#define LOAD_ALL LOAD_KINDS_MAX

/**
 * struct load_tally - operations of a round that are counted in this process.
 * @count:	of a spoke
 * @done:	of all
 * @half:	of each spoke, when half of all were done
 */
struct load_tally {
	unsigned int count;
	uint64_t done;
	uint64_t half[LOAD_SPOKES_MAX];
};

/**
 * struct load - one process.
 * @ctx:	endpoints: the hub, or the spokes. The first one owns what they share
 * @peer:	the spokes' addresses, or the hub's
 * @rnd:	chooses which end is looked at first
 * @mem:	by kind: what goes or comes; and what comes back
 * @ready:	by kind and spoke: receives posted so far
 * @expected:	nothing is sent before its receive is there
 */
struct load {
	struct ft_proc *proc;
	struct ft_ctx ctx[LOAD_SPOKES_MAX];
	fi_addr_t peer[LOAD_SPOKES_MAX];
	unsigned int spokes, quirks;
	uint64_t caps, delivery;
	struct load_end end[LOAD_KINDS_MAX * LOAD_SPOKES_MAX];
	size_t end_count;
	uint64_t rnd;
	struct ft_buf mem[LOAD_KINDS_MAX][2];
	struct load_far far[LOAD_KINDS_MAX];
	struct load_multi_buf multi[LOAD_MULTIS];
	_Atomic uint64_t *ready;
	bool expected;
	struct load_tally tally[LOAD_KINDS_MAX + 1];
	uint64_t ops, bytes;
};

/* ---- load.c ---- */

/** load_count() - one of @end's operations is over: the next one may begin */
void load_count(struct load *load, struct load_end *end);
/** load_share() - operations of a lane in a round */
unsigned int load_share(const struct load *load, const struct load_kind *kind);

/* ---- load_ends.c ---- */

/** load_step() - does what there is to do at @end. 1: something, 0: nothing, or -FI_E* */
int load_step(struct load *load, struct load_end *end);
/** load_key() - of an operation's data; load_size() has its bytes, or those of each message of a burst */
uint64_t load_key(const struct load_end *end, uint64_t number);
size_t load_size(const struct load *load, const struct load_end *end);
/** load_shift() - how far an operation's data lies behind where it could begin [0 to LOAD_MARGIN - 1] */
size_t load_shift(const struct load *load, const struct load_end *end);
/** load_name() - the operation in words, until the next call */
const char *load_name(const struct load_end *end);
/** load_ready() - how many of a lane's operations have had their receives posted */
_Atomic uint64_t *load_ready(struct load *load, const struct load_end *end);
/** load_op() - @call for the operation's message, but for its buffer and request */
struct ft_op load_op(const struct load *load, const struct load_end *end, enum ft_call call);
/** load_took() - takes a completion of a buffer for many messages: see struct ft_ctx */
int load_took(struct ft_ctx *ctx, const struct fi_cq_tagged_entry *comp);
/** load_multi_post() - posts such a buffer, if there is room */
int load_multi_post(struct load *load, struct load_multi_buf *multi);
/** load_stride() - from one spoke's memory of a kind to the next one's */
size_t load_stride(const struct load_kind *kind);
/** load_check_targets() - nothing was written beside what was to be written */
int load_check_targets(struct load *load);

/* ---- load_burst.c ---- */

/** load_burst_over() - have all messages of the burst ended? */
bool load_burst_over(struct load_end *end);

/* ---- load_side.c ---- */

int load_open(struct load *load);
int load_close(struct load *load);
struct ft_ctx *load_ctx(struct load *load, const struct load_end *end);
/** load_end_of() - this process's end of a lane */
struct load_end *load_end_of(struct load *load, unsigned int lane, unsigned int spoke);

#endif /* FT_LOAD_H */
