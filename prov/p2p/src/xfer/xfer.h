/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The life of an operation that the core provider cannot do alone.
 *
 * A request is made by xfer_post(), goes through core operations and copies, and ends as
 * a report in its completion queue. Everything moves in xfer_progress(), which the reads
 * of completion queues call as long as xfer_busy(). Nothing blocks.
 *
 * Threads: one lock a domain (struct xfer.lock). The functions marked [locked] want it
 * held, the others take it themselves.
 */
#ifndef P2P_XFER_H
#define P2P_XFER_H

#include <sys/queue.h>

#include "base/base.h"
#include "mem/board.h"
#include "base/cell.h"
#include "mem/copy.h"
#include "xfer/core.h"
#include "mem/desc_cache.h"
#include "proto/seen_ids.h"
#include "mem/ipc.h"
#include "base/lock.h"
#include "mem/nic_map.h"
#include "path/path.h"
#include "mem/stage.h"
#include "xfer/wait.h"
#include "xfer/wire.h"
#include <rdma/fi_ext_p2p.h>

struct rndv_lent_read;
struct multi_recv_buf;
struct multi_recv_msg;
struct pin;
struct region;
struct xfer;
struct xfer_ep;
struct xfer_req;

/**
 * struct xfer_ctx - the context of a core operation of ours; every record begins with one.
 * @core:	room for core providers that ask for FI_CONTEXT or FI_CONTEXT2
 * @ep:		NULL: the endpoint is closed (struct xfer.retired)
 * @cq:		the queue in which its completion came
 * @done:	called with the operation's completion [locked]
 * @drop:	called instead when the endpoint closes: frees the record [locked]
 * @live:	all records of @ep, or those that are retired
 */
struct xfer_ctx {
	struct fi_context2 core;
	struct xfer_ep *ep;
	struct xfer_cq *cq;
	void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp);
	void (*drop)(struct xfer_ctx *ctx);
	LIST_ENTRY(xfer_ctx) live;
};

LIST_HEAD(xfer_ctxs, xfer_ctx);

/* A completion for the user, waiting to be read; lives in a cell */
struct xfer_report {
	STAILQ_ENTRY(xfer_report) entry;
	struct core_comp comp;
};

STAILQ_HEAD(xfer_reports, xfer_report);

/* What we count of a counter; read without the lock. @point: who sleeps on it, or NULL */
struct xfer_cntr {
	uint64_t value;
	uint64_t errors;
	struct wait_point *point;
};

/* What an endpoint's counters count: a flag each, from FI_READ to FI_REMOTE_WRITE */
#define XFER_COUNT_KINDS 6
#define XFER_COUNT_ALL                                                                         \
	(FI_READ | FI_WRITE | FI_RECV | FI_SEND | FI_REMOTE_READ | FI_REMOTE_WRITE)

/**
 * struct xfer_cq - a completion queue.
 * @core:	the core's queue, in FI_CQ_FORMAT_TAGGED, or in FI_CQ_FORMAT_DATA if it is
 *		@narrow: the core has no tags
 * @source:	the core tells where messages come from
 * @reports:	what is to be delivered before anything is read from @core
 * @count:	how many; read without the lock
 * @reader:	takes what is reported next if no other report waits; NULL: nobody is there
 * @failed:	what reading @core ended with, once it cannot be read any more
 * @silent:	it is not the application's: there is nobody to report to
 * @fd:		the core queue's descriptor to sleep on, or -1
 * @point:	where to sleep until there is something to read, or NULL
 */
struct xfer_cq {
	struct xfer *xfer;
	struct fid_cq *core;
	bool source;
	bool narrow;
	bool silent;
	unsigned int count;
	int fd;
	struct wait_point *point;
	struct xfer_reports reports;
	struct core_comp *reader;
	int failed;
	LIST_ENTRY(xfer_cq) entry;
};

TAILQ_HEAD(xfer_list, xfer_req);

/* Ids are counted, each sender's from somewhere, so that these are of one length */
#define XFER_CHAINS 256
#define xfer_chain(chains, id) (&(chains)[((id) ^ (id) >> 24) % XFER_CHAINS])

/**
 * struct xfer - one domain's transfers.
 * @mark:	the cq_data bit that makes a message a marker; 0 over a hook
 * @busy:	requests that need xfer_progress(), and the thread that makes it: as long as there
 *		is any, the core's queues are read under the lock only. Itself read without it
 * @apart:	peers may ask at any time, in another queue than the one that is read. Read without
 *		the lock
 * @watch_at:	when to look for transfers that do not move [ms]
 * @quiet:	the core's queues had nothing at the last look
 * @passing:	xfer_progress() is under way
 * @spare:	pieces that may begin without a slot now
 * @sending:	announced messages, until the receiver has answered for all of it
 * @arriving:	announcements and markers waiting for each other, and what is being received.
 *		Both in chains, by id; @open: how many there are
 * @looking:	of @arriving, those whose note has yet to be put up: it is looked for again
 * @heard:	what has been announced, where that is asked for (rndv_marker_spent())
 * @pushing, @pulling: long messages on their way out and in
 * @bouncing:	remote memory operations of the core's that device memory here is staged for
 * @borrowing:	messages that lie in their senders' staging memory and are to be read (rndv_lent.h);
 *		@reading: those that are being read, by the core's @reads
 * @regions:	memory that we let peers reach, by key
 * @descs:	what descriptors tell of buffers
 * @key_mark:	the bit that makes a key one of ours; without it the core serves it
 * @keys_ours:	the application chooses the keys: all of them are ours to serve
 * @atomics_ours: atomic operations are ours to serve under the core's keys, too
 * @retired:	records of closed endpoints that a thread may still hold a completion of; since
 *		@retired_at [ms] new ones come to the list number @retired_last
 * @wait:	who sleeps until something happens
 * @map:	device memory in the NIC's hands
 * @ipc:	device memory in other processes' hands, and theirs in ours
 * @board:	announcements for other processes of the host; @boards: theirs
 * @local:	the core wants descriptors of host memory: one that is valid, for memory that
 *		the NIC will not touch. NULL: it wants none
 * @local_flags: what to register host memory with
 * @virt_addr:	remote addresses are the owner's (FI_MR_VIRT_ADDR), not offsets
 * @direct:	see struct path_query
 */
struct xfer {
	uint64_t mark;
	struct cell_pool cells;
	unsigned int busy;
	bool apart;
	struct p2p_lock lock;
	struct stage stage;
	struct copy_engines copies;
	uint64_t id_base;
	uint32_t id_next;
	uint32_t transfer_next;
	uint64_t watch_at;
	bool quiet;
	bool passing;
	unsigned int spare;
	LIST_HEAD(, xfer_req) sending[XFER_CHAINS];
	LIST_HEAD(, rndv_arrival) arriving[XFER_CHAINS];
	unsigned int open;
	LIST_HEAD(, rndv_arrival) looking;
	struct seen_ids heard;
	struct xfer_list pushing;
	struct xfer_list pulling;
	struct xfer_list bouncing;
	struct xfer_list borrowing;
	struct xfer_list reading;
	LIST_HEAD(, rndv_lent_read) reads;
	struct region *regions;
	struct desc_cache descs;
	uint64_t key_mark;
	bool keys_ours;
	bool atomics_ours;
	LIST_HEAD(, xfer_cq) cqs;
	LIST_HEAD(, xfer_ep) eps;
	struct xfer_ctxs retired[2];
	unsigned int retired_last;
	uint64_t retired_at;
	struct wait_domain wait;
	struct nic_map map;
	struct ipc ipc;
	struct board board;
	struct board_far *boards;
	struct stage_reserve *local;
	uint64_t local_flags;
	bool virt_addr;
	bool direct;
};

/**
 * struct xfer_ep - one endpoint's side of it.
 * @core:	the core's endpoint
 * @txcq, @rxcq: where its operations report; NULL: not bound
 * @send_limit, @recv_limit, @rma_limit: calls about fewer bytes of host memory are the core's own
 *		as they are: see xfer_ep_limit(); read without the lock
 * @followed:	the operations (FI_SEND, FI_RECV, ...) that are followed up even where the core
 *		could do and report them by itself: we count them, or add descriptors
 * @cntrs:	the counters, see xfer_count_index()
 * @wakes:	the waker counts what the core completes here (wait.h)
 * @renamed:	the application's addresses are not the core's
 * @tally:	somebody wants host messages counted, too
 * @rx_flags:	what receives without flags do; FI_COMPLETION included where the queue is not
 *		selective
 * @layered:	the peers run ofi_p2p: markers, control messages, pieces
 * @stalls:	the core reads nothing more from a peer whose message has no receive yet
 * @aside:	where it does, the endpoint for what may not wait behind such a message, once there
 *		is one; @aside_open: opens it, or is NULL when that is of no use
 * @front:	the application's endpoint that this is the one aside of, or itself
 * @lends:	what is staged whole may be left for the receiver's core to read (rndv_lent.h)
 * @letter:	a control message that waits for others to go with it
 * @mixes:	messages without a receive are taken by any endpoint whose receive has their tag
 * @litters:	its queues' descriptors are of no use once it is closed
 * @listens:	internal receives are posted, but for @deaf of them
 * @counts_remote: peers' accesses may be counted: an operation may not become several
 * @tag_bit:	the tag bit that is ours; 0: none
 * @data_mask:	the bits of remote cq data that are the user's; operations come here with no others
 * @iov_limit:	of what is sent, and of RMA; @recv_iov_limit: of what is received
 * @name:	the endpoint's own name, for announcements
 * @resolve:	finds the address of a peer by its name, inserting it if need be
 * @lookup:	finds the name of a peer by its address
 * @sendq:	messages waiting for their copy or for room in the core: none may overtake
 *		another to the same address
 * @outq:	control messages and pieces waiting for room in the core
 * @waiting:	length of @sendq; read without the lock
 * @ready:	how many of them may be sent
 * @copying:	copies in flight for its records
 * @peeks:	the core knows FI_PEEK, FI_CLAIM and FI_DISCARD for tagged messages
 * @peek_data:	the completion flag by which a peek tells that a message has cq data; 0:
 *		such data comes without a flag
 * @claimed:	messages that were claimed and not yet received
 * @multis:	multi-receive buffers that the core holds
 * @multi_msgs:	messages in such buffers that are not reported yet, in order
 * @wish, @near: see struct path_query
 * @follows:	peers are told that all receives here are followed up; @trial: they are, for so
 *		many receives more, though nobody has been told (hello.h)
 * @peers:	what is known of them, by address; @peer_count of them
 * @inline_max:	what the core sends may be copied by its CPU up to this length
 * @reason:	why the last message took a path, see struct fi_p2p_stats
 */
struct xfer_ep {
	struct fid_ep *core;
	size_t send_limit;
	size_t recv_limit;
	uint64_t tag_bit;
	unsigned int waiting;
	bool layered;
	bool renamed;
	bool tally;
	struct fi_p2p_stats stats;
	size_t rma_limit;
	uint64_t followed;
	uint64_t rx_flags;
	struct xfer *xfer;
	struct xfer_cq *txcq;
	struct xfer_cq *rxcq;
	struct xfer_cntr *cntrs[XFER_COUNT_KINDS];
	bool wakes;
	bool stalls;
	bool lends;
	bool mixes;
	bool litters;
	bool listens;
	unsigned int deaf;
	bool counts_remote;
	bool closing;
	bool started;
	uint64_t data_mask;
	size_t iov_limit;
	size_t recv_iov_limit;
	uint8_t name[WIRE_NAME_MAX];
	size_t name_len;
	int (*resolve)(struct xfer_ep *ep, const void *name, size_t len, fi_addr_t *addr);
	int (*lookup)(struct xfer_ep *ep, fi_addr_t addr, void *name, size_t *len);
	struct xfer_ep *front;
	struct xfer_ep *aside;
	int (*aside_open)(struct xfer_ep *ep, struct xfer_ep **aside);
	struct xfer_list sendq;
	unsigned int ready;
	TAILQ_HEAD(, xfer_out) outq;
	struct xfer_out *letter;
	unsigned int copying;
	bool peeks;
	uint64_t peek_data;
	TAILQ_HEAD(, xfer_req) claimed;
	LIST_HEAD(, multi_recv_buf) multis;
	TAILQ_HEAD(, multi_recv_msg) multi_msgs;
	struct xfer_ctxs live;
	LIST_ENTRY(xfer_ep) entry;
	enum path_wish wish;
	bool near;
	bool follows;
	unsigned int trial;
	uint8_t *peers;
	size_t peer_count;
	size_t inline_max;
	const char *reason[FI_P2P_PATH_MAX];
};

/**
 * struct xfer_out - the head of a record that is sent by itself, in any order.
 * @ret:	what trying to send it has led to: 0, -FI_EAGAIN or an error to be told
 * @post:	gives it to the core
 * @iov, @desc, @count, @addr, @tag: what to send; the buffer lives as long as the record
 */
struct xfer_out {
	struct xfer_ctx ctx;
	ssize_t ret;
	ssize_t (*post)(struct xfer_out *out);
	TAILQ_ENTRY(xfer_out) entry;
	struct iovec iov[P2P_IOV_MAX];
	void *desc[P2P_IOV_MAX];
	size_t count;
	fi_addr_t addr;
	uint64_t tag;
};

/**
 * struct xfer_req - an operation of the user's. What all of them use comes first: a receive of
 * host memory touches little else than what is zeroed.
 * @op_flags, @context, @tag, @data, @addr: as the user gave them; @data of a message that
 *		was peeked at is its marker's, 0 if it has none
 * @report:	the user wants to hear of success
 * @recv, @tagged: which operation; to read remote memory is to receive
 * @cq, @done_flags: where it reports, and the flags of its completion
 * @served:	done for a peer: an error is the peer's to hear of
 * @probe:	FI_PEEK: tells of a message, and receives none
 * @region:	the memory of ours that the peer reaches
 * @target, @targets: the remote memory that the core, or its owner, is to reach
 * @busy:	counted in xfer.busy
 * @mem:	the allocation that the buffer lies in; ops NULL: host memory
 * @iov, @count, @len: the buffer
 * @slot, @reserve: staging memory that it holds (one or none), at @host
 * @copied:	bytes copied between buffer and @host so far; @copy the step under way
 * @ready:	in ep.sendq: may be sent, as what @out says
 * @comp:	what will be reported
 * @pin:	the buffer's descriptors, or NULL (pin.h)
 * @direct:	the core is given the buffer itself, though it is device memory
 * @export:	sending, until it is announced: what other processes open the buffer by
 * @import:	receiving: the sender's memory, open here
 * @rndv:	the state of a long message, see rndv.c
 */
struct xfer_req {
	struct xfer_ctx ctx;
	void *context;
	uint64_t op_flags;
	uint64_t tag;
	uint64_t data;
	fi_addr_t addr;
	struct xfer_cq *cq;
	uint64_t done_flags;
	size_t count;
	size_t len;
	bool report;
	bool recv;
	bool tagged;
	bool served;
	bool probe;
	bool busy;
	bool ready;
	bool direct;
	struct dev_mem mem;
	struct path_choice path;
	struct stage_slot *slot;
	struct stage_reserve *reserve;
	struct region *region;
	struct pin *pin;
	struct ipc_import *import;
	const struct ipc_export *export;
	struct core_comp comp;
	void *host;
	void *host_desc;
	size_t copied;
	struct {
		size_t len;
		uint64_t data;
		uint64_t flags;
	} out;
	TAILQ_ENTRY(xfer_req) entry;
	size_t targets;
	struct {
		uint64_t id;
		struct xfer_ep *via; /* between which the rest of it travels */
		fi_addr_t to;
		uint64_t wanted; /* bytes that will travel */
		uint64_t next;   /* the piece to begin next */
		uint64_t pieces;
		uint64_t credits; /* sending: pieces that may begin */
		uint32_t chunk;
		uint32_t transfer;
		unsigned int in_flight; /* pieces begun and not ended */
		uint32_t starved;       /* since when it wants a slot [ms], 0: it does not */
		uint64_t heard; /* when the peer last did something or was to be probed [ms] */
		unsigned int probes; /* how often that was */
		unsigned int
			granted; /* receiving: pieces posted that the sender does not know of */
		enum path_far far;      /* receiving: whether an offer is taken */
		int status;             /* the first error */
		bool listed;            /* in xfer.sending */
		struct xfer_list *list; /* xfer.pushing, pulling, bouncing …, or none */
		bool marker_sent;
		bool answered;   /* sending: CTS is there; receiving: CTS was sent */
		bool fin_wanted; /* sending: FIN is still to come */
		bool fin_sent;   /* receiving: all is here, and the sender is told */
		bool plain;      /* sending: the receiver wants it whole */
		bool aborted;    /* the other side knows that this failed */
		struct rndv_arrival *arrival;
		LIST_ENTRY(xfer_req) chain; /* not zeroed, nor is what follows */
	} rndv;
	struct iovec iov[P2P_IOV_MAX];
	struct copy copy;
	struct fi_rma_iov target[CORE_RMA_MAX];
};

/* So much of a new request is zeroed; the rest has no value before who uses it gives it one */
#define XFER_REQ_ZEROED offsetof(struct xfer_req, rndv.chain)

_Static_assert(sizeof(struct xfer_req) <= CELL_SIZE, "a request is a cell");

/*
 * @layered: the peers run ofi_p2p. @shared: several threads may call at a time.
 * @local_mr_domain: see stage_init()
 */
int xfer_init(struct xfer *xfer, bool layered, bool shared, struct fid_domain *local_mr_domain);
void xfer_fini(struct xfer *xfer);

/*
 * Gives back what is registered with the core's domain, which is about to be closed, if no
 * endpoint is left
 */
void xfer_give_back(struct xfer *xfer);

/* The core wants descriptors of host memory, too. 0 or -FI_ENOMEM; may be called again */
int xfer_want_local(struct xfer *xfer);

static inline bool xfer_busy(const struct xfer *xfer)
{
	return __atomic_load_n(&xfer->busy, __ATOMIC_RELAXED);
}

/* The same, without the thread [locked] */
static inline bool xfer_moving(const struct xfer *xfer)
{
	return xfer->busy > (xfer->wait.mover != NULL);
}

/* Whose board the transaction @id is announced on, if it is on one */
static inline uint64_t xfer_board_owner(uint64_t id)
{
	return id & WIRE_ID_MASK & ~WIRE_ID_COUNT;
}

/* Is anything waiting to be sent? Only then xfer_ep_overtakes() may be true. */
static inline bool xfer_ep_waiting(const struct xfer_ep *ep)
{
	return __atomic_load_n(&ep->waiting, __ATOMIC_RELAXED);
}

/*
 * Would a message sent to @addr now overtake one that waits? Does what it can that it
 * would not.
 */
bool xfer_ep_overtakes(struct xfer_ep *ep, fi_addr_t addr);

/* Moves everything that can move: completions, copies, messages. The second one [locked] */
void xfer_progress(struct xfer *xfer);
void xfer_progress_locked(struct xfer *xfer);

/* The same, but no further than until there is a report in @cq. Did the core have anything? */
bool xfer_cq_progress(struct xfer_cq *cq);

/* A queue has come or gone, or an endpoint listens from now on or does not [locked]. */
void xfer_apart_update(struct xfer *xfer);

static inline bool xfer_apart(const struct xfer *xfer)
{
	return __atomic_load_n(&xfer->apart, __ATOMIC_RELAXED);
}

/* Adds and removes queues; the caller has set core, source, silent and fd. */
void xfer_cq_init(struct xfer_cq *cq, struct xfer *xfer);

/*
 * Reads the core's queue: entries with tags, whatever it has, and where they come from if
 * it tells. As fi_cq_read(3)
 */
ssize_t xfer_cq_read_narrow(struct xfer_cq *cq, struct fi_cq_tagged_entry *entries,
			    size_t count, fi_addr_t *src);

static inline ssize_t xfer_cq_read(struct xfer_cq *cq, struct fi_cq_tagged_entry *entries,
				   size_t count, fi_addr_t *src)
{
	if (p2p_unlikely(cq->narrow))
		return xfer_cq_read_narrow(cq, entries, count, src);
	return cq->source ? fi_cq_readfrom(cq->core, entries, count, src)
			  : fi_cq_read(cq->core, entries, count);
}

/*
 * Reads what the core's queue has, or much of it: ours is dealt with, the user's becomes
 * reports. True: there was something, and there may be more [locked].
 */
bool xfer_cq_pull(struct xfer_cq *cq);

/* May what comes out of this queue be for this endpoint, and can it answer? */
static inline bool xfer_ep_answers(const struct xfer_ep *ep, const struct xfer_cq *cq)
{
	return ep->rxcq == cq && ep->started && !ep->closing;
}

/* The first one that it holds of, or the next one @after that; NULL: no more */
struct xfer_ep *xfer_cq_ep(const struct xfer_cq *cq, const struct xfer_ep *after);

/* Closes the core's queue. 0 or the core's error; then the queue is as before. */
int xfer_cq_fini(struct xfer_cq *cq);

/* Adds an endpoint; the caller sets what is not a list before it is started. */
void xfer_ep_init(struct xfer_ep *ep, struct xfer *xfer);

/*
 * The same for one aside of @front, whose core endpoint is enabled, and whose names can be resolved
 * and looked up. 0, or an error, after which the core's endpoint is closed [locked].
 */
int xfer_ep_init_aside(struct xfer_ep *aside, struct xfer_ep *front);

/*
 * Between which endpoints that which may not wait behind the user's messages travels: @ep, the one
 * aside of it, or NULL, if there ought to be one and is none [locked].
 */
struct xfer_ep *xfer_ep_beside(struct xfer_ep *ep);

/* The core's endpoint is enabled: posts the internal receives. */
int xfer_ep_start(struct xfer_ep *ep);

/*
 * Closes the core's endpoint, and the one aside of it, and ends what was under way on them without
 * reports. 0 or the core's error; then the endpoint is as before.
 */
int xfer_ep_fini(struct xfer_ep *ep);

/*
 * Any send or receive, of any memory. @op->flags has FI_COMPLETION where the user wants
 * to hear of success. 0, -FI_EAGAIN when there is no room now, or another error.
 */
ssize_t xfer_post(struct xfer_ep *ep, const struct core_op *op);

/*
 * Which way the send @op would take now: 0 with @choice, -FI_EOPNOTSUPP with its reason when
 * it may take none, or what mem_classify() returns. Pins memory as the send would.
 */
int xfer_ask_path(struct xfer_ep *ep, const struct core_op *op, struct path_choice *choice);

/*
 * Any read or write of remote memory, or atomic operation on it, that is not the core's
 * alone. As above.
 */
ssize_t xfer_post_rma(struct xfer_ep *ep, const struct core_rma *op);
ssize_t xfer_post_atomic(struct xfer_ep *ep, const struct core_atomic *op);

/* Is memory with this key reached by asking its owner, not by the core? */
static inline bool xfer_key_remote(const struct xfer *xfer, uint64_t key)
{
	return xfer->keys_ours || key & xfer->key_mark;
}

/* The same for an atomic operation: it may be so where reads and writes are the core's */
static inline bool xfer_key_atomic_remote(const struct xfer *xfer, uint64_t key)
{
	return xfer->atomics_ours || xfer_key_remote(xfer, key);
}

/* Cancels the receive that was posted with @context; -FI_ENOENT if it is not ours. */
ssize_t xfer_cancel(struct xfer_ep *ep, void *context);

/* Are operations of this kind followed up, whatever memory they are about? */
static inline bool xfer_ep_follows(const struct xfer_ep *ep, uint64_t kind)
{
	return p2p_unlikely(__atomic_load_n(&ep->followed, __ATOMIC_RELAXED) & kind);
}

static inline unsigned int xfer_count_index(uint64_t kind)
{
	return (unsigned int) (__builtin_ctzll(kind) - __builtin_ctzll(FI_READ));
}

/*
 * Counts an operation of one kind (FI_SEND, ..., FI_REMOTE_WRITE) that has ended well or,
 * if @err, not [locked]. Nothing happens where we do not count it.
 */
void xfer_ep_count(struct xfer_ep *ep, uint64_t kind, int err);

/*
 * Sets the endpoint's limits after a change of @renamed, @tally, @waiting, @followed or @rx_flags
 * [locked].
 */
void xfer_ep_limit(struct xfer_ep *ep);

/*
 * If a buffer of @len bytes is host memory, is there nothing of ours to heed? @limit: the
 * endpoint's for that kind of call. At the beginning of a call
 */
P2P_GLANCE bool xfer_plain(const void *buf, size_t len, const size_t *limit)
{
	return p2p_likely(buf || !len) && p2p_likely(len < *limit);
}

/* Receives with these flags need not be followed up for their own sake if shorter than this. */
static inline size_t xfer_recv_limit(const struct xfer_ep *ep, uint64_t flags)
{
	if (!ep->layered)
		return SIZE_MAX;
	return flags & FI_COMPLETION && !(flags & FI_MULTI_RECV) ? WIRE_PLAIN_MAX + 1 : 0;
}

/* What a completion in a core's queue turns out to be */
enum xfer_taken {
	XFER_PLAIN,   /* simply the user's */
	XFER_TAKEN,   /* ours, and dealt with */
	XFER_REPORTED /* the same, and there is a report to be read in its place */
};

/*
 * Deals with a completion that was read from a core's queue, and gives the @report that this
 * leads to if no other one waits: then the order is the core's.
 */
enum xfer_taken xfer_take(struct xfer_cq *cq, const struct core_comp *comp,
			  struct core_comp *report);

/* Is this entry possibly something for xfer_take()? */
static inline bool xfer_concerned(const struct xfer_cq *cq, const void *context, uint64_t flags,
				  uint64_t data)
{
	return cell_mine(&cq->xfer->cells, context) ||
	       ((flags & FI_REMOTE_CQ_DATA) && (data & cq->xfer->mark));
}

/* Puts a completion last in the queue's reports [locked]. */
void xfer_cq_report(struct xfer_cq *cq, const struct core_comp *comp);

/* Is there a report? */
static inline bool xfer_cq_has(const struct xfer_cq *cq)
{
	return __atomic_load_n(&cq->count, __ATOMIC_RELAXED);
}

/* Is there a report, or something under way that may lead to one? At the beginning of a call */
P2P_GLANCE bool xfer_cq_ours(const struct xfer_cq *cq)
{
	return cq->count | cq->xfer->busy;
}

/*
 * Takes the first report if it is an error, or if it is none, as @error says. What the
 * queue failed with, once the reports are read: a negative error; 1: taken; 0: no such;
 * -FI_EAVAIL: it is an error, and none was wanted.
 */
int xfer_cq_next(struct xfer_cq *cq, bool error, struct core_comp *comp);

/*
 * Addresses that, in the course of one walk along a queue, something has to wait for: what
 * else goes there waits too, and the rest does not wait for it. FI_ADDR_NOTAVAIL is every
 * address.
 */
struct xfer_blocked {
	fi_addr_t addr[16];
	size_t count;
};

bool xfer_blocked_has(const struct xfer_blocked *blocked, fi_addr_t addr);
void xfer_blocked_add(struct xfer_blocked *blocked, fi_addr_t addr);

/* ---- for the protocols (eager.c, rndv.c, rma_served.c, rma_core.c …) [locked] ---- */

/* Gives a request the buffer of @op, which may not have more pieces than the endpoint allows */
void xfer_req_set_buffer(struct xfer_req *req, const struct core_op *op,
			 const struct dev_mem *mem);

/* Gives back the staging memory that it holds, of which @used bytes were written; or all it has */
void xfer_req_unstage(struct xfer_req *req, size_t used);
void xfer_req_release(struct xfer_req *req);

void xfer_ctx_init(struct xfer_ctx *ctx, struct xfer_ep *ep,
		   void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp),
		   void (*drop)(struct xfer_ctx *ctx));

/* Takes a record off its endpoint's list and frees its cell */
void xfer_ctx_free(struct xfer_ctx *ctx);

/* A request for @op, whose buffer lies in @mem; NULL: none now */
struct xfer_req *xfer_req_new(struct xfer_ep *ep, const struct core_op *op,
			      const struct dev_mem *mem);

/* The same for a read or write of at most CORE_RMA_MAX pieces of remote memory */
struct xfer_req *xfer_req_new_rma(struct xfer_ep *ep, const struct core_rma *op,
				  const struct dev_mem *mem);

/* The same for an atomic operation that gives @result */
struct xfer_req *xfer_req_new_atomic(struct xfer_ep *ep, const struct core_atomic *op,
				     const struct core_array *result);

/* Frees a request that was not begun */
void xfer_req_undo(struct xfer_req *req);

/* Counts what needs xfer_progress(): a request as long as it lives, or anything else */
void xfer_set_busy(struct xfer_req *req);
void xfer_busy_add(struct xfer *xfer, int change);

/* Counts a message from host memory, of @len bytes, that the core was given, for who wants it */
static inline void xfer_ep_tally(struct xfer_ep *ep, size_t len)
{
	if (!__atomic_load_n(&ep->tally, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&ep->stats.tx_msgs[FI_P2P_PATH_HOST], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&ep->stats.tx_bytes[FI_P2P_PATH_HOST], len, __ATOMIC_RELAXED);
}

/* Counts a message, or a write, of @len bytes that is on its way [locked] */
void xfer_ep_sent(struct xfer_ep *ep, const struct path_choice *choice, size_t len);

/* Ends a request: gives back what it holds and reports it (@err: positive, or 0) */
void xfer_req_end(struct xfer_req *req, int err);

/* Makes a record one that is sent as a tagged message; the caller sets @iov and @count */
void xfer_out_init(struct xfer_out *out, struct xfer_ep *ep, fi_addr_t addr, uint64_t tag,
		   void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp),
		   void (*drop)(struct xfer_ctx *ctx));

/* Sends a record by itself: now or, when the core has no room, in progress */
void xfer_out_post(struct xfer_out *out);

/* Sends those that wait. Cores may have no room for a dead peer for ever: the others go on. */
void xfer_outq_flush(struct xfer_ep *ep);

/* Appends to the endpoint's sends; it may be sent; sends those that may and can be */
void xfer_sendq_add(struct xfer_req *req);
void xfer_sendq_ready(struct xfer_req *req);
void xfer_sendq_flush(struct xfer_ep *ep);

/* Does anything in there go to @addr? The same of what is sent by itself */
bool xfer_sendq_has(const struct xfer_ep *ep, fi_addr_t addr);
bool xfer_outq_has(const struct xfer_ep *ep, fi_addr_t addr);

/*
 * copy_start() for a record of @ep. The callback begins with xfer_copy_ended(), which
 * is true when the endpoint is closing and the record must be left alone.
 */
int xfer_copy_start(struct xfer_ep *ep, const struct dev_mem *mem, enum copy_dir dir,
		    const struct iovec *iov, size_t count, void *host, struct copy *copy);
bool xfer_copy_ended(struct xfer_ep *ep);

#endif /* P2P_XFER_H */
