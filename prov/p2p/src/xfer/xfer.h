/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A domain's transfers: operations that the core cannot do alone.
 *
 * xfer_post() makes a request. Core operations and copies carry it on, and it ends as a report
 * in its completion queue. Everything moves in xfer_progress(), which reads of completion
 * queues call as long as xfer_busy(). Nothing blocks.
 *
 * Threads: each domain has one lock, struct xfer.lock. A function marked [locked] wants it
 * held, and begins with xfer_assert_locked(). The others take it themselves.
 */
#ifndef P2P_XFER_H
#define P2P_XFER_H

#include <sys/queue.h>

#include "base/base.h"
#include "base/cell.h"
#include "mem/copy.h"
#include "base/siphash.h"
#include "xfer/core.h"
#include "xfer/note.h"
#include "mem/desc_cache.h"
#include "mem/flusher.h"
#include "mem/ipc.h"
#include "xfer/keepalive.h"
#include "base/lock.h"
#include "mem/nic_map.h"
#include "path/path.h"
#include "path/quirks.h"
#include "mem/stage.h"
#include "xfer/survey.h"
#include "xfer/wait.h"
#include "xfer/wire.h"
#include <rdma/fi_ext_p2p.h>

struct lanes;
struct proto_domain;
struct proto_ep;
struct region;
struct xfer;
struct xfer_channel;
struct xfer_ep;
struct xfer_out;
struct xfer_protos;
struct xfer_peer;
struct xfer_req;
struct xfer_token;

/**
 * struct xfer_ctx - the context of a core operation of ours. Every record begins with one.
 * @core:	room for cores that ask for FI_CONTEXT or FI_CONTEXT2
 * @ep:		NULL: the endpoint is closed (struct xfer.retired)
 * @cq:		the queue in which its completion came
 * @done:	called with the operation's completion [locked]
 * @drop:	called instead when the endpoint closes; frees the record [locked]
 * @live:	on the list of all records of @ep, or of those that are retired
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

/* A completion that waits for the application to read it; lives in a cell */
struct xfer_report {
	STAILQ_ENTRY(xfer_report) entry;
	struct core_comp comp;
};

STAILQ_HEAD(xfer_reports, xfer_report);

/* What we count for a counter; read without the lock. @point: a sleeper's, or NULL */
struct xfer_cntr {
	uint64_t value;
	uint64_t errors;
	struct wait_point *point;
};

/**
 * struct xfer_work - an operation that has waited for a counter (FI_QUEUE_WORK), and is under way now. It is
 * a cell, and the context of its request.
 * @context:	the user's
 * @report:	the user wants to hear of success
 * @cntr:	counts it, in place of the endpoint's counters; or NULL
 * @ended:	frees the record [locked]
 */
struct xfer_work {
	void *context;
	bool report;
	struct xfer_cntr *cntr;
	void (*ended)(struct xfer_work *work);
};

/* What an endpoint's counters count: one flag each, from FI_READ to FI_REMOTE_WRITE */
#define XFER_COUNT_KINDS 6
#define XFER_COUNT_ALL                                                                         \
	(FI_READ | FI_WRITE | FI_RECV | FI_SEND | FI_REMOTE_READ | FI_REMOTE_WRITE)

/**
 * struct xfer_cq - a completion queue.
 * @core:	the core's queue, in FI_CQ_FORMAT_TAGGED; or, if it is @narrow, in FI_CQ_FORMAT_DATA, as
 *		the core has no tags
 * @source:	the core tells where messages come from
 * @silent:	it is not the application's: there is nobody to report to, unless @kept
 * @count:	the number of @reports; read without the lock
 * @fd:		the descriptor of @core to sleep on, or -1
 * @point:	where to sleep until there is something to read, or NULL
 * @reports:	what is delivered before anything is read from @core
 * @reader:	where a read under way takes its completion, if no report waits before it; or NULL
 * @heard:	so many control messages were in the last read of @core; @hears: more wait, and are read before any is answered
 * @failed:	the error that reading @core ended with, once it cannot be read any more
 */
struct xfer_cq {
	struct xfer *xfer;
	struct fid_cq *core;
	bool source;
	bool narrow;
	bool silent;
	bool kept;
	unsigned int count;
	int fd;
	struct wait_point *point;
	struct xfer_reports reports;
	struct core_comp *reader;
	unsigned int heard;
	bool hears;
	int failed;
	LIST_ENTRY(xfer_cq) entry;
};

TAILQ_HEAD(xfer_list, xfer_req);
TAILQ_HEAD(xfer_outs, xfer_out);

/* How often progress looks at what does not move [ms] */
#define XFER_WATCH 100
/* So much time at most counts between two looks: who was held up has not looked, and what came may be here */
#define XFER_LOOK_MAX (2 * XFER_WATCH)
/* That nothing comes for so long is said once [ms] */
#define XFER_SILENCE 30000u

/* At least as many as there are states (enum xfer_state) */
#define XFER_STATES_MAX 32

/* Each sender counts its ids from somewhere, so the chains are of one length. */
#define XFER_CHAINS 256
#define xfer_chain(chains, id) (&(chains)[((id) ^ (id) >> 24) % XFER_CHAINS])

/* Records of closed endpoints: a thread may still hold a completion of them. New ones come to list @last, since @at [ms] */
struct xfer_retired {
	struct xfer_ctxs lists[2];
	unsigned int last;
	uint64_t at;
};

/**
 * struct xfer - one domain's transfers.
 * @protos:	the protocols, and their @marks; @proto: what they keep here
 * @busy:	requests that need xfer_progress(), the thread that makes it, and @serial. While there is any,
 *		the core's queues are read under the lock only. Itself read without it
 * @serial:	receives are posted under the lock only, as is the core's queue read, once threads or receives of
 *		ours may be beside the application's (QUIRK_SERIAL)
 * @apart:	peers may ask at any time, in another queue than the one that is read; read without the
 *		lock
 * @flusher:	makes memory durable that peers have written; it has a thread once there is such memory
 * @id_base:	our part of ids (xfer_board_owner())
 * @secret:	makes ids and tokens that nobody can guess, of @made, which counts them
 * @passing:	xfer_progress() is under way
 * @sending:	requests whose peer answers to their id, in chains, by it
 * @open:	how many those are, with the arrivals
 * @looks:	things that nothing tells of, so that somebody has to look for them
 * @in:		requests by state, where the state means a list of the domain's (req.h)
 * @busy_peers: the peers that something is under way with
 * @unsent:	so many of them have something that waits to be sent (sendq.h)
 * @survey:	what is told to who asks what it waits for
 * @losing:	what is under way with a peer is being ended
 * @farewell:	how long the close of an endpoint waits for control messages to leave, and that of a
 *		region for what peers do there [ms]
 * @wrong:	control messages that fitted nothing, and were dropped (req_state.h)
 * @unread:	why the last one was dropped that could not be read
 * @regions:	memory that we let peers reach, by key
 * @descs:	what descriptors tell of buffers
 * @key_mark:	the bit that makes a key ours; the core serves a key without it
 * @keys_ours:	the application chooses the keys: we serve all of them
 * @quirks:	what is special about the core (path/quirks.h), and matters here: not over a hook, say, or without
 *		device memory
 * @retired:	records of closed endpoints
 * @wait:	who sleeps until something happens
 * @map:	device memory in the NIC's hands
 * @ipc:	device memory in other processes' hands, and theirs in ours
 * @notes:	control messages by memory, within the host
 * @local:	host memory, and a descriptor for what the NIC will not touch, where the core wants
 *		descriptors of all; NULL: it wants none
 * @local_flags: what to register host memory with
 * @virt_addr:	remote addresses are the owner's (FI_MR_VIRT_ADDR), not offsets
 * @works:	operations that wait for counters; read without the lock
 * @works_go:	posts those whose counters have come far enough, not [locked]; NULL: the application has not
 *		asked for FI_TRIGGER, and there are none
 */
#define XFER_WORDS 64
struct xfer {
	uint64_t marks;
	const struct xfer_protos *protos;
	struct proto_domain *proto;
	struct cell_pool cells;
	unsigned int busy;
	bool serial;
	bool apart;
	struct p2p_lock lock;
	struct stage stage;
	struct copy_engines copies;
	struct flusher flusher;
	uint64_t id_base;
	struct siphash_key secret;
	uint64_t made;
	bool passing;
	LIST_HEAD(, xfer_req) sending[XFER_CHAINS];
	unsigned int open;
	unsigned int looks;
	struct xfer_list in[XFER_STATES_MAX];
	LIST_HEAD(, xfer_peer) busy_peers;
	unsigned int unsent;
	struct survey survey;
	bool losing;
	int farewell;
	uint64_t wrong;
	const char *unread;
	struct region *regions;
	struct desc_cache descs;
	uint64_t key_mark;
	bool keys_ours;
	uint64_t quirks;
	LIST_HEAD(, xfer_cq) cqs;
	LIST_HEAD(, xfer_ep) eps;
	struct xfer_retired retired;
	struct wait_domain wait;
	struct nic_map map;
	struct ipc ipc;
	struct notes notes;
	struct stage_reserve *local;
	uint64_t local_flags;
	bool virt_addr;
	unsigned int works;
	void (*works_go)(struct xfer *xfer);
};

/* Begins every function that is marked [locked]; nothing in a release. */
#define xfer_assert_locked(xfer) p2p_lock_assert_held(&(xfer)->lock)

/**
 * struct ctrl_inbox - internal receives of a channel, for control messages (ctrl.c).
 * @open:	messages may come that others than greetings are
 * @wanted:	so many receives; the core has them, but for @refused, which it had no room for, and @missing, for
 *		which there was no memory
 * @posted:	those that the core has, in the order in which they were posted
 */
struct ctrl_inbox {
	bool open;
	unsigned int wanted;
	unsigned int refused;
	unsigned int missing;
	struct xfer_outs posted;
};

/**
 * struct xfer_channel_ops - what the owner of a channel's objects does.
 * @open:	opens a channel when it is first wanted: 0, or an error, after which there is nothing to close
 * @resolve:	finds the address of a peer by its name; if it has none, inserts it (@learn), or returns
 *		-FI_ENOENT
 * @lookup:	finds the name of a peer by its address; @print: writes it in words
 */
struct xfer_channel_ops {
	int (*open)(struct xfer_channel *channel);
	int (*resolve)(struct xfer_channel *channel, const void *name, size_t len, bool learn,
		       fi_addr_t *addr);
	int (*lookup)(struct xfer_channel *channel, fi_addr_t addr, void *name, size_t *len);
	void (*print)(const struct xfer_channel *channel, fi_addr_t addr, char *text,
		      size_t room);
};

/**
 * struct xfer_channel - a core endpoint, and what we send and receive there by itself: the front, the side, or a lane.
 * @core:	the core's endpoint; NULL: it is not open
 * @ep:		the application's endpoint
 * @outq:	control messages and pieces that wait for room in the core
 * @lane:	its number among the lanes, each of which has a thread (lane.h), and nothing of what follows; -1: it is none
 * @owed:	control messages that the core has not sent yet, there or with the core
 * @letter:	control messages, in one of the core's, that wait for others to go with them
 * @inbox:	its receives for control messages
 * @ops:	NULL: it cannot be opened
 * @name:	its own name, for announcements
 */
struct xfer_channel {
	struct fid_ep *core;
	struct xfer_ep *ep;
	struct xfer_outs outq;
	int lane;
	unsigned int owed;
	struct xfer_out *letter;
	struct ctrl_inbox inbox;
	const struct xfer_channel_ops *ops;
	uint8_t name[WIRE_NAME_MAX];
	size_t name_len;
};

/**
 * struct xfer_ep - one endpoint's transfers.
 * @send_limit, @recv_limit, @rma_limit: a call about fewer bytes of host memory is the core's own as it
 *		is: see xfer_ep_limit(); read without the lock
 * @tag_bit:	the tag bit that is ours; 0: none
 * @waiting:	length of @sendq; read without the lock
 * @renamed:	the application's addresses are not the core's
 * @tally:	somebody wants host messages counted, too
 * @followed:	the kinds of operations (FI_SEND, FI_RECV, ...) that are followed up even where the core
 *		could complete them alone: we count them, or add descriptors
 * @ours:	flags and capabilities that are not the core's to keep (fid/kind.h)
 * @rx_flags:	what receives without flags do; FI_COMPLETION included where the queue is not
 *		selective
 * @txcq, @rxcq: where its operations report; NULL: not bound
 * @cntrs:	the counters, see xfer_count_index()
 * @wakes:	the waker counts what the core completes here (wait.h)
 * @front:	the channel of the application's own messages
 * @side:	where the core stalls, a second one, once it is wanted (fid/side_ep.h)
 * @quirks:	those of the domain
 * @number:	no other endpoint of the process has it, or has had it
 * @counts_remote: peers' accesses may be counted: one operation may not become several
 * @data_mask:	the bits of remote cq data that are the user's. Operations come here with no others
 * @iov_limit:	of what is sent, and of RMA; @recv_iov_limit: of what is received
 * @lanes:	further connections (lane.h); NULL: there never are any
 * @sendq:	messages that wait for their copy or for room in the core. None may overtake another to
 *		the same address
 * @resumes:	whom post_progress() looks at next in @sendq, or NULL
 * @ready:	how many of them may be sent
 * @copying:	copies in flight for its records, and memory that is made durable for them
 * @policy:	see struct path_query
 * @proto:	what protocols keep here
 * @peers, @tokens, @pasts: see peer.h
 * @inline_max:	the core's CPU may copy what is sent up to this length
 * @reason:	why the last message took a path, see struct fi_p2p_stats
 */
struct xfer_ep {
	size_t send_limit;
	size_t recv_limit;
	uint64_t tag_bit;
	unsigned int waiting;
	bool renamed;
	bool tally;
	struct xfer_channel front;
	size_t rma_limit;
	uint64_t followed;
	uint64_t ours;
	uint64_t rx_flags;
	uint64_t data_mask;
	struct fi_p2p_stats stats;
	struct xfer_channel side;
	struct xfer *xfer;
	struct xfer_cq *txcq;
	struct xfer_cq *rxcq;
	struct xfer_cntr *cntrs[XFER_COUNT_KINDS];
	bool wakes;
	uint64_t quirks;
	bool counts_remote;
	bool closing;
	bool started;
	uint64_t number;
	size_t iov_limit;
	size_t recv_iov_limit;
	struct lanes *lanes;
	struct xfer_list sendq;
	struct xfer_req *resumes;
	unsigned int ready;
	unsigned int copying;
	struct xfer_ctxs live;
	LIST_ENTRY(xfer_ep) entry;
	enum path_policy policy;
	struct proto_ep *proto;
	struct xfer_peer *peers;
	struct xfer_token *tokens;
	TAILQ_HEAD(, xfer_peer) pasts;
	size_t inline_max;
	const char *reason[FI_P2P_PATH_MAX];
};

/*
 * @protos: the table of protocols. @shared: several threads may call at a time. @local_mr_domain: see stage_init()
 */
int xfer_init(struct xfer *xfer, const struct xfer_protos *protos, bool shared,
	      struct fid_domain *local_mr_domain);
void xfer_fini(struct xfer *xfer);

/*
 * Gives back what is registered with the core's domain, which is about to be closed, if no
 * endpoint is left
 */
void xfer_give_back(struct xfer *xfer);

/* The core wants descriptors of host memory, too. 0 or -FI_ENOMEM; may be called again */
int xfer_want_local(struct xfer *xfer);

/*
 * Puts calls to the core under the lock (QUIRK_SERIAL): device memory comes, a peer with such memory, or a
 * thread of ours that posts [locked]
 */
void xfer_serialise(struct xfer *xfer);

/*
 * Pins staging memory and opens the copy queues for the device that @mem is on, if that was not done
 * yet. It takes milliseconds. So whoever first hears of a device calls it, before the data path needs
 * any of that. 0 or a negative error, logged [locked]
 */
int xfer_ready(struct xfer *xfer, const struct dev_mem *mem);

/* Tells whether transfers or a thread of ours need the lock and xfer_progress(). */
static inline bool xfer_busy(const struct xfer *xfer)
{
	return __atomic_load_n(&xfer->busy, __ATOMIC_RELAXED) > xfer->serial;
}

/* Tells whether anything is under way, apart from the thread that moves it [locked] */
static inline bool xfer_moving(const struct xfer *xfer)
{
	xfer_assert_locked(xfer);
	return xfer->busy > (unsigned int) xfer->serial + (xfer->wait.mover != NULL);
}

/* Begins works whose counter may have reached its threshold. Not [locked] */
static inline void xfer_works_turn(struct xfer *xfer)
{
	if (p2p_unlikely(__atomic_load_n(&xfer->works, __ATOMIC_ACQUIRE)))
		xfer->works_go(xfer);
}

/* Returns the owner of the board that the transaction @id is announced on, if it is on one */
static inline uint64_t xfer_board_owner(uint64_t id)
{
	return id & WIRE_ID_MASK & ~WIRE_ID_RANDOM;
}

/* Tells whether messages are announced here, by markers. Over a hook none are: peers need not know of us. */
static inline bool xfer_announces(const struct xfer *xfer)
{
	return xfer->marks;
}

/* Tells whether what this domain has to hear may come to another queue than the one that is read. */
static inline bool xfer_apart(const struct xfer *xfer)
{
	return __atomic_load_n(&xfer->apart, __ATOMIC_RELAXED);
}

/* Fills in a record of a core operation, and puts it on its endpoint's list. */
void xfer_ctx_init(struct xfer_ctx *ctx, struct xfer_ep *ep,
		   void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp),
		   void (*drop)(struct xfer_ctx *ctx));

/* Takes a record off its endpoint's list and frees its cell */
void xfer_ctx_free(struct xfer_ctx *ctx);

/*
 * Frees records of closed endpoints that have rested long enough: when cells are scarce, for less
 * time.
 */
void xfer_retired_turn(struct xfer *xfer);

/* Counts transfers that a peer's answer, or announcement, is about, up or down */
static inline void xfer_open_add(struct xfer *xfer, int change)
{
	xfer_assert_locked(xfer);
	__atomic_store_n(&xfer->open, xfer->open + (unsigned int) change, __ATOMIC_RELAXED);
}

/*
 * Tells whether there are transfers that a peer's message is about. Their peers may be lost, though no request
 * waits. Not [locked]
 */
static inline bool xfer_open(const struct xfer *xfer)
{
	return __atomic_load_n(&xfer->open, __ATOMIC_RELAXED);
}

/* Counts what needs xfer_progress(), beside requests, up or down */
void xfer_busy_add(struct xfer *xfer, int change);

#endif /* P2P_XFER_H */
