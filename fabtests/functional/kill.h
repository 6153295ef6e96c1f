/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What fi_p2p_kill does with a peer that dies or falls silent: scenes, which are operations of both
 * ranks, and what has to become of each.
 */
#ifndef KILL_H
#define KILL_H

#include "ft_test.h"

enum { SURVIVOR, VICTIM, OTHER, RANKS };

/**
 * enum kill_fate - what becomes of the victim
 * @KILL_KILL:	SIGKILL
 * @KILL_STOP:	SIGSTOP, for good
 * @KILL_PAUSE:	SIGSTOP, and SIGCONT long before the timeout
 * @KILL_LATE:	SIGSTOP, and SIGCONT when everything has ended at the survivor
 */
enum kill_fate { KILL_KILL, KILL_STOP, KILL_PAUSE, KILL_LATE, KILL_FATES };

/**
 * struct kill_plan - one round; drawn from the seed.
 * @scenes:	a bit for each, by its place in the table
 * @fate:	as above
 * @cold:	the two have never met before the first operation
 * @outside:	the survivor sends the signal, wherever the victim is; else the victim does, between two calls
 * @device:	is the memory of survivor and victim a device's?
 * @polls:	how often progress is made before the signal
 * @pause:	the same, by the survivor, before SIGCONT (KILL_PAUSE)
 */
struct kill_plan {
	uint64_t scenes;
	enum kill_fate fate;
	bool cold, outside, device[2];
	uint64_t polls, pause;
};

/**
 * enum kill_kind - an operation. Messages are tagged, but for those to a KILL_MULTI, a buffer for
 * many. KILL_FETCH adds one.
 */
enum kill_kind {
	KILL_SEND,
	KILL_SEND_MULTI,
	KILL_RECV,
	KILL_MULTI,
	KILL_WRITE,
	KILL_READ,
	KILL_FETCH,
};

/**
 * enum kill_when - the order in which operations are posted
 * @KILL_FIRST:	receives. They are there at both ends before anything is sent: libfabric's tcp (2.6
 *		still) crashes by itself when a peer dies that has sent half of an unexpected message
 * @KILL_THEN:	what the scene is about
 * @KILL_AFTER:	when the victim has met its fate; by the victim itself, when it is back
 */
enum kill_when { KILL_FIRST, KILL_THEN, KILL_AFTER, KILL_TIMES };

/** struct kill_part - @count operations of rank @by, of @len bytes each */
struct kill_part {
	int by;
	enum kill_kind kind;
	enum kill_when when;
	size_t len, count;
};

/**
 * struct kill_op - an operation of this rank
 * @there:	its place in the peer's region, for those on remote memory
 * @refused:	libfabric has not taken it
 * @settled:	what has come of it has been checked
 * @messages:	how many have come into a buffer for many, and how many of them from the third rank
 */
struct kill_op {
	const struct kill_part *part;
	const char *scene;
	uint64_t key;
	struct ft_slot slot, there;
	bool posted, refused, settled;
	size_t messages, others;
	struct ft_req req;
};

/** struct kill_note - what survivor and victim tell each other at the beginning */
struct kill_note {
	pid_t pid;
	uint64_t key, base;
};

#define KILL_OPS_MAX 400

/**
 * struct kill_side - a rank
 * @peer:	the other one of survivor and victim; @note is its
 * @data, @shared: the memory of its operations; what the peer reaches
 * @data_len, @shared_len: how much of them is in use; the latter by the rank that reaches it
 * @hail:	for messages that need not
 * @good:	for the exchanges that have to go right; @met: how many there were, by rank
 * @kinds:	operations that the provider has, a bit for each kind
 * @ops, @count: of this rank, in the order in which they are posted; @next: the first one that is not yet
 * @theirs:	the peer's on remote memory, as this rank sees them; @their_count
 * @when:	what may be posted now
 * @told:	the peer knows that all is posted here; @armed: and so it is there
 * @polls:	how often progress has been made since
 */
struct kill_side {
	struct ft_proc *proc;
	const struct kill_plan *plan;
	struct ft_ctx ctx;
	int peer;
	struct kill_note note;
	struct ft_buf data, shared, good, hail;
	size_t data_len, shared_len[2];
	uint64_t met[RANKS];
	unsigned int kinds;
	struct kill_op ops[KILL_OPS_MAX], theirs[KILL_OPS_MAX];
	size_t count, their_count, next;
	enum kill_when when;
	bool told, armed;
	uint64_t polls;
};

/** kill_is_ours() - is there device memory, and the provider's own protocol for it? */
bool kill_is_ours(const struct ft_opts *opts);
/** kill_scenes() - those that are named in @list (NULL: all), for what there is; 0: there is none */
uint64_t kill_scenes(const struct ft_opts *opts, const char *list);
/** kill_scene_name() - of the one at @place in the table, or NULL */
const char *kill_scene_name(size_t place);
/** kill_scenes_unmet() - those with messages that wait for their receive */
uint64_t kill_scenes_unmet(void);

/** kill_memory() - the memory of the survivor's or the victim's operations */
enum fi_hmem_iface kill_memory(const struct kill_side *s, int rank);

/** kill_ops_make() - list this rank's operations, with memory for them; kill_ops_free() frees that */
int kill_ops_make(struct kill_side *s);
void kill_ops_free(struct kill_side *s);
/** kill_ops_fill() - write what is to be sent, read and added to */
int kill_ops_fill(struct kill_side *s);
/** kill_post_due() - post what may be posted now, as far as there is room */
int kill_post_due(struct kill_side *s);
/** kill_posted() - has all been posted that may be before the victim meets its fate? */
bool kill_posted(const struct kill_side *s);

/**
 * kill_must_end() - does it end by itself, with success or an error, whatever becomes of the peer? Not where
 * it is the core's alone, or the core has a part in the application's own host memory, or it may be
 * fetching a message that comes whole. A receive does once it has met a message: see kill_cancel().
 */
bool kill_must_end(const struct kill_side *s, const struct kill_op *op);
/** kill_fetches() - may the core still be fetching a message that comes whole, from a peer that has stopped? */
bool kill_fetches(const struct kill_side *s);
/** kill_receives() - is it one that may never have met a message? */
bool kill_receives(const struct kill_op *op);
/** kill_cancel() - cancel all receives that have not ended: those that have met no message end so */
void kill_cancel(struct kill_side *s);
/**
 * kill_settle() - check what has ended: data, or the error. The memory of what has failed is filled
 * with guards, as it is the application's again. @whole: nothing may have failed.
 */
int kill_settle(struct kill_side *s, bool whole);
/** kill_untouched() - has nobody written to the memory of what has failed since? */
int kill_untouched(const struct kill_side *s);
/**
 * kill_written() - is all here that the peer has written, added, and sent to buffers for many? 1, 0 or
 * -FI_E*
 */
int kill_written(const struct kill_side *s);
/** kill_op_print() - what it is, and what has become of it */
void kill_op_print(const struct kill_op *op);

#endif /* KILL_H */
