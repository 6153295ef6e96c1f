/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the attacks of fi_p2p_hostile (hostile.c) have in common. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "ft_test.h"
#include "hostile_wire.h"
#include "xfer/lane.h"
#include "xfer/lane_core.h"

enum { VICTIM, FRIEND, LIAR, RANKS };

#define LONG ((size_t) 1 << 20)
#define CHUNK 65536
#define WRITES 16384

/* Messages are lent where others are on their way */
#define BAITS 4

#define LETTERS 64 /* that the liar can hear at a time */

/** struct known - what any peer of the victim's is told */
struct known {
	struct ft_name name;
	uint64_t tag_bit, key, base;
};

/**
 * struct liar_lanes - the liar's one endpoint for lanes, and what was said of lanes.
 * @name, @len:	the endpoint's own
 * @kind, @number, @count, @to: what the victim has offered: LANES(asks), by addresses
 * @answers, @answered: how often it has answered, and what last
 */
struct liar_lanes {
	struct lane_core core;
	struct fid_ep *ep;
	uint8_t name[WIRE_NAME_MAX];
	size_t len;
	uint64_t kind;
	uint32_t number;
	unsigned int count;
	fi_addr_t to[LANES_MAX];
	size_t answers;
	uint32_t answered;
};

/* @ctx.ep is the core's alone in the liar, which has what comes behind @known */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf mem, shared, host;
	struct ft_req bait[BAITS], good, done;
	struct known known;
	struct ft_name name;
	uint64_t tag, token, host_id, next_id;
	struct ipc_spaces spaces;
	struct wire_msg announced; /* the bait */
	uint64_t asked;            /* by which id, until there is an answer */
	struct wire_msg answer;    /* the last one */
	bool granted;              /* pieces were asked for */
	size_t pieces;
	size_t supplies;
	struct liar_lanes lanes;
	struct ft_req heard[LETTERS];
	uint8_t ears[LETTERS][WIRE_MSG_MAX];
};

/**
 * struct scene - one attack.
 * @bait, @baits: length and number of the messages that the victim sends to the liar
 * @early:	the friend's message is under way meanwhile, and its receive comes later
 * @attack:	in the liar
 * @recant:	the same, in the end; may be NULL
 * @deaf:	the liar takes no pieces
 * @lanes:	all have lanes, and the friend's messages travel by those before and after
 * @rxm:	lanes are of ofi_rxm, which has room for so many receives
 */
struct scene {
	const char *name;
	size_t bait, baits;
	bool early;
	int (*attack)(struct side *s);
	int (*recant)(struct side *s);
	bool deaf;
	bool lanes;
	bool rxm;
};

/* What the liar says: any message; a long write, and an answer to one or to a bait; that it gives up */
int hostile_say(struct side *s, struct wire_msg msg);
struct wire_msg hostile_write(struct side *s);
struct wire_msg hostile_take(uint64_t id, size_t len, uint32_t flags);
int hostile_give_up(struct side *s, uint64_t id, bool to_sender);

/* Says @count messages, each of another id, in as few letters as can be */
int hostile_flood(struct side *s, struct wire_msg msg, size_t count);
int hostile_recant_writes(struct side *s);

/* Takes what has come. Returns 0, though nothing may have, or an error */
int hostile_hear(struct side *s);

#define HOSTILE_UNTIL(s, what)                                                                 \
	do {                                                                                   \
		while (!(what)) {                                                              \
			FT_TRY(hostile_hear(s));                                               \
			FT_TRY(ft_idle(&(s)->ctx));                                            \
		}                                                                              \
	} while (0)

/* Says it, and waits for what comes of it. What is to be supplied then is not. */
int hostile_ask(struct side *s, struct wire_msg msg);

/* ---- hostile_lanes.c ---- */

/* Gives the environment lanes, for this provider below ofi_p2p: 0, or that it cannot be */
int hostile_lanes_prepare(const char *prov, bool rxm);

/* Opens the liar's lane; hears what the victim says of lanes; closes it */
int hostile_lanes_open(struct side *s);
int hostile_lanes_heard(struct side *s, const struct wire_msg *msg);
void hostile_lanes_close(struct side *s);

/*
 * What is said of lanes; names of what are none; lanes that were never named; the first messages, and pieces; all that
 * lanes have room for
 */
int hostile_lanes_said(struct side *s);
int hostile_lanes_named(struct side *s);
int hostile_lanes_unknown(struct side *s);
int hostile_lanes_pieces(struct side *s);
int hostile_lanes_flood(struct side *s);

#endif /* HOSTILE_H */
