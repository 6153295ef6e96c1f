/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * GPUs whose kernels post operations: contexts, and what is exported in them (rdma/fi_p2p_xpu.h).
 *
 *	kernel ── ring ─► xpu_ep.c ► xpu_op.c ► the endpoint's own calls, as an application's
 *	kernel ◄─ entries, counts ◄─ xpu_cq.c, xpu_cntr.c ◄─ the queues and counters
 *
 * The proxy of the GPU looks at each context (xpu.c). What it does is what an application does that
 * has the objects for itself. So staging, ipc and the NIC's access come by themselves.
 *
 * Threads: the proxy's lock guards what is exported. The proxy holds it while it looks.
 */
#ifndef P2P_XPU_H
#define P2P_XPU_H

#include <sys/queue.h>
#include <rdma/fi_p2p_xpu.h>
#include <rdma/fi_p2p_xpu_abi.h>

#include "fid/cntr.h"
#include "fid/cq.h"
#include "fid/ep.h"
#include "fid/mr.h"
#include "fid/native.h"
#include "gpu/proxy.h"
#include "gpu/ring.h"

struct xpu_ep;
struct xpu_ring;

/**
 * struct xpu_shared - what an export shares with kernels.
 * @host:	memory of the host
 * @window:	memory of the device that the CPU can write, if there is any
 * @shown:	where the proxy writes what kernels look at, and does not read it; @shown_addr: where they do
 * @state:	memory of the device; @mapped: of an endpoint, its struct fi_p2p_xpu_table, or NULL
 *
 * A kernel may still look at it when the object is closed. So it stays until the context is.
 */
struct xpu_shared {
	struct gpu_host host;
	struct dev_window window;
	void *shown;
	void *shown_addr;
	void *state;
	void *mapped;
	SLIST_ENTRY(xpu_shared) entry;
};

/**
 * struct xpu_put - a put under way to @peer, a number of its endpoint's: its context.
 * @ring:	whose signals to @peer wait until it has ended; NULL: its endpoint is exported no more
 * @of_turn:	it was posted in a full ring's turn
 * @orphan_of:	then the number of the endpoint
 */
struct xpu_put {
	struct fi_context2 core;
	struct xpu_ep *ep;
	struct xpu_ring *ring;
	unsigned int peer;
	bool of_turn;
	uint64_t orphan_of;
	SLIST_ENTRY(xpu_put) entry;
};

/* As many puts of a context may be under way. To one peer they are no more than it leaves to others. */
#define XPU_PUTS 1024

/* For so long a turn's puts wait for those of the last one. A peer that does not call libfabric may keep them for ever. [ms] */
#define XPU_TURN_LATE 1000

/**
 * struct xpu_ctx - a GPU as a domain sees it.
 * @native:	it, as the objects know it that were opened for it
 * @shared:	what kernels may look at, of closed objects, too
 * @puts:	XPU_PUTS records; @free: those that are not in use, all but @under_way; @orphans: of these, those whose
 *		endpoint was being closed
 * @maps:	peers' memory that kernels may store to
 */
struct xpu_ctx {
	struct native_ctx native;
	struct gpu_dev dev;
	struct proxy *proxy;
	struct proxy_source source;
	LIST_HEAD(, xpu_ep) eps;
	LIST_HEAD(, xpu_cq) cqs;
	LIST_HEAD(, xpu_cntr) cntrs;
	SLIST_HEAD(, xpu_shared) shared;
	struct xpu_put *puts;
	SLIST_HEAD(, xpu_put) free;
	unsigned int under_way;
	unsigned int orphans;
	SLIST_HEAD(, xpu_map) maps;
};

static inline struct xpu_ctx *xpu_ctx_of(struct fid_xpu_ctx *fid)
{
	return container_of(fid, struct xpu_ctx, native.fid);
}

/**
 * struct xpu_patience - how long the core has had no room for an operation.
 *
 * The operation waits for as long as it takes: its peer may compute, or be stopped. Where the user has set
 * FI_P2P_PEER_TIMEOUT it fails after that, and for as long all others to that peer that the core has no room for. A core
 * that finds its peer dead may connect anew for ever. If that is found out, others to that peer fail, too, for a while.
 *
 * @since:	the operation that is to be posted has been refused since [ms]; 0: it has not
 * @lost:	the peer
 * @gave_up:	when that was [ms]; 0: never
 * @told:	it was said that an operation waits
 */
struct xpu_patience {
	uint64_t since;
	fi_addr_t lost;
	uint64_t gave_up;
	bool told;
};

/* An operation that waits, taken out of its ring */
struct xpu_held {
	struct ring_op op;
	STAILQ_ENTRY(xpu_held) entry;
};

/**
 * struct xpu_line - operations of a ring to @peer: the first one waits, and so do those behind it.
 * @patience:	the first one's. While the peer is taken for lost the line stays, empty or not
 *
 * Receives are a line, too, as if they had a peer of their own.
 */
struct xpu_line {
	fi_addr_t peer;
	struct xpu_patience patience;
	STAILQ_HEAD(, xpu_held) held;
	LIST_ENTRY(xpu_line) entry;
};

/**
 * struct xpu_ring - one of an endpoint's rings.
 * @lines:	what waits, by peer; @held: how much that is, no more than the ring has slots
 * @fenced:	one of these has FI_FENCE: nothing behind it is taken out of the ring
 */
struct xpu_ring {
	struct ring ring;
	LIST_HEAD(, xpu_line) lines;
	uint64_t held;
	bool fenced;
};

/**
 * struct xpu_peer - who has targets.
 * @puts:	how many are under way to it; @ring_puts: the same, of each ring
 * @turn_puts:	the same, of full rings' turns; @turn: the last turn that had one; @turn_at: when one was the first [ms]
 * @refused:	a ring that waits for these has this number and one; 0: none does
 * @failed:	bits: the rings of which a put to it has failed
 * @mapped:	all its targets are
 */
struct xpu_peer {
	fi_addr_t addr;
	unsigned int puts, turn_puts, turn, refused;
	uint64_t turn_at;
	uint16_t *ring_puts;
	uint64_t *failed;
	bool mapped;
};

/* A target, the number of its peer, and what of it is mapped: as kernels find it by its number, and by peer and key */
struct xpu_target {
	struct fi_p2p_xpu_target is;
	unsigned int peer;
	struct fi_p2p_xpu_mapped mapped;
	struct fi_p2p_xpu_range range;
};

/**
 * struct xpu_ep - an exported endpoint.
 * @shared:	slots, parts and tails; its struct fi_p2p_xpu_ep_dev
 * @rings:	@ring_count of them
 * @hot:	a bit for each ring that had something lately, @words of 64
 * @full:	a bit for each that had more than a turn's operations; @turn: whose turn is next
 * @turns:	how many there were; @in_turn: it is one's turn
 * @window:	of the other rings, the first one that is looked at next; @rounds: of all, since @hot was empty
 * @brief:	the looks of so many turns are to be short
 * @puts:	how many are under way
 * @ending:	nothing more is posted
 * @exclusive:	each ring has one user at a time
 * @targets:	@target_count of them; @peers: @peer_count
 * @spare:	records for what waits
 * @mixed:	of the targets, some are memory that we serve, some are the core's: a signal may overtake
 *		a put that the core has sent, so these may have to wait until they are there
 */
struct xpu_ep {
	struct fid_export export;
	struct xpu_ctx *ctx;
	struct p2p_ep *ep;
	struct xpu_shared *shared;
	struct xpu_ring *rings;
	unsigned int ring_count;
	uint64_t *hot, *full;
	unsigned int words;
	unsigned int turn, turns;
	bool in_turn;
	unsigned int window;
	unsigned int rounds;
	unsigned int brief;
	unsigned int puts;
	bool ending;
	bool exclusive;
	struct xpu_target *targets;
	struct xpu_peer *peers;
	uint32_t target_count;
	unsigned int peer_count;
	STAILQ_HEAD(, xpu_held) spare;
	bool mixed;
	LIST_ENTRY(xpu_ep) entry;
};

/**
 * struct xpu_cq - an exported queue.
 * @entries:	where kernels read, @size of them; @queue: and what is beside them
 * @next:	the position of the next one
 */
struct xpu_cq {
	struct fid_export export;
	struct xpu_ctx *ctx;
	struct p2p_cq *cq;
	struct xpu_shared *shared;
	struct fi_p2p_xpu_queue *queue;
	struct fi_p2p_xpu_entry *entries;
	uint64_t size;
	uint64_t next;
	LIST_ENTRY(xpu_cq) entry;
};

/**
 * struct xpu_cntr - an exported counter.
 * @count:	what kernels read; @shown: the same
 * @ring:	what they change
 */
struct xpu_cntr {
	struct fid_export export;
	struct xpu_ctx *ctx;
	struct p2p_cntr *cntr;
	struct xpu_shared *shared;
	struct fi_p2p_xpu_count *count;
	struct fi_p2p_xpu_count shown;
	struct ring ring;
	LIST_ENTRY(xpu_cntr) entry;
};

/* The host's calls */
extern struct fi_p2p_xpu_ops xpu_ops;

/* The table of FI_P2P_XPU_OPS for a domain: fid.h, fid_more_ops */
bool xpu_own_ops(struct fid *fid, const char *name, void **ops);

/* Of the table, by kind of object. A new object is on its list, and the proxy looks at it. */
int xpu_ep_export(struct xpu_ctx *ctx, struct fid_ep *ep, uint64_t flags,
		  struct fid_xpu_ep *xpu);
int xpu_cq_export(struct xpu_ctx *ctx, struct fid_cq *cq, uint64_t flags,
		  struct fid_xpu_cq *xpu);
int xpu_cntr_export(struct xpu_ctx *ctx, struct fid_cntr *cntr, uint64_t flags,
		    struct fid_xpu_cntr *xpu);
int xpu_target_add(struct p2p_ep *ep, const struct fi_p2p_xpu_target *target, uint32_t *number);

/* The exported endpoint, or NULL */
struct xpu_ep *xpu_ep_find(struct p2p_ep *ep);

/* What mr_share() writes. A peer may say anything there. @shared: in place of the offer's */
struct xpu_share {
	uint64_t magic;
	uint64_t key;
	uint64_t base;
	uint64_t len;
	uint64_t access;
	uint64_t shared;
	struct ipc_offer offer;
};

/* What a peer's share says. 0, or -FI_EINVAL: it is none */
int xpu_share_read(const void *buf, size_t len, struct xpu_share *share);
/*
 * Opens the peer's memory in the context of @local: @addr is where its region begins. @peer: a number that no other peer
 * of the domain's has. 0, or an error with @why. Memory of this process is not opened: nothing would keep it there.
 */
int xpu_share_open(struct p2p_domain *domain, const struct dev_mem *local, uint64_t peer,
		   const struct xpu_share *share, struct ipc_import **import, void **addr,
		   const char **why);

/* Of the table, about memory that kernels store to: xpu_map.c */
int xpu_mr_share(struct p2p_mr *mr, void *share, size_t *len);
int xpu_target_map(struct xpu_ep *ep, uint32_t number, const void *share, size_t len);
/* Tells kernels which targets of an endpoint are mapped. 0 or a negative error */
int xpu_mapped_store(struct xpu_ep *ep);
/* No kernel stores any more. */
void xpu_maps_close(struct xpu_ctx *ctx);

/*
 * What the three have in common. May an object of @domain be exported, whose uses are @exports, where those
 * of this kind end by @end? @allowed: flags that it may have. 0 or an error
 */
int xpu_export_check(const struct xpu_ctx *ctx, const struct p2p_domain *domain,
		     const struct fid_exports *exports, void (*end)(struct fid_export *export),
		     uint64_t flags, uint64_t allowed);
/* What kernels are given of an object of class @fclass */
struct fid_xpu xpu_export_handle(uint32_t fclass, const struct xpu_shared *shared);

/* @len bytes of host memory, and @shown bytes that kernels look at; NULL: there are none, which is logged */
struct xpu_shared *xpu_shared_alloc(struct xpu_ctx *ctx, size_t len, size_t shown);
/* What has been written to @shown so far is there before what is written later, and soon. */
void xpu_shared_order(const struct xpu_shared *shared);
void xpu_shared_free_all(struct xpu_ctx *ctx);

/* What the proxy does with each. True: there was something to do */
bool xpu_ep_look(struct xpu_ep *ep);
bool xpu_cq_look(struct xpu_cq *cq);

/* Takes out what tells of puts, and leaves the rest. False: there was nothing */
bool xpu_cq_sift(struct xpu_cq *cq);

bool xpu_cntr_look(struct xpu_cntr *cntr);

/* Takes the first report of a queue, good or bad, into @comp; the caller frees its err_data. False: none */
bool xpu_report_take(struct xfer_cq *cq, struct core_comp *comp);

/* A completion of a put of ours? Then that has ended, with @err or 0, and nobody else is told of it. */
bool xpu_put_ended(struct xpu_ctx *ctx, const void *context, int err);

/* A put of a ring has failed. So will signals to its peer, which would tell that it is there. */
void xpu_put_failed(struct xpu_ep *ep, const struct xpu_ring *ring, const struct ring_op *op);

/* Of a target; NULL: there is no such target */
static inline struct xpu_peer *xpu_peer_of(const struct xpu_ep *ep, uint32_t target)
{
	return target < ep->target_count ? &ep->peers[ep->targets[target].peer] : NULL;
}

/*
 * Does an operation wait for puts that are under way? A signal waits for those of its ring to its peer, a put for a
 * record, and in short looks for those of the last full ring's turn to its peer.
 * Puts end, so signals and records wait without limit: a peer that lives may take long. A turn waits for XPU_TURN_LATE.
 */
bool xpu_op_waits(const struct xpu_ep *ep, const struct xpu_ring *ring,
		  const struct ring_op *op);

/*
 * Posts an operation of an exported endpoint, or one with all of its arguments of any endpoint. 0,
 * -FI_EAGAIN for later, or an error that nobody knows of yet
 */
int xpu_op_post_full(struct p2p_ep *ep, const struct ring_op *op);
int xpu_op_post(struct xpu_ep *ep, struct xpu_ring *ring, const struct ring_op *op);

/* Whom an operation is for that has all of its arguments: FI_ADDR_UNSPEC if it is a receive */
fi_addr_t xpu_op_peer(const struct ring_op *op);

/*
 * What posting an operation to @peer comes to, which has returned @ret: that, or -FI_ETIMEDOUT. A receive waits for room
 * as long as it takes: nobody's death keeps it from having some.
 */
int xpu_op_patience(struct xpu_patience *patience, fi_addr_t peer, int ret);

/* Changes a counter as a kernel wants. 0 or a negative error */
int xpu_op_count(struct fid_cntr *cntr, const struct ring_op *op);

/* Entries that kernels have not read yet, at most; a power of two. As many errors of puts wait behind them. */
#define XPU_CQ_SIZE 1024

/* An operation has failed before it began: its queue and its counter tell. False: later, as there is no room to tell it */
bool xpu_op_fail(struct p2p_ep *ep, const struct ring_op *op, int error);

/* The device has done an operation with all of its arguments itself. 0, or -FI_EAGAIN: there is no room to report it */
int xpu_op_done(struct p2p_ep *ep, const struct ring_op *op);

/* The bytes of a ring's shared memory, and where its parts are at @host. Sets @dev for kernels. */
size_t xpu_ring_bytes(size_t size);
void xpu_ring_place(const struct gpu_host *host, size_t offset, size_t size, struct ring *ring,
		    struct fi_p2p_xpu_ring *dev);

#endif /* P2P_XPU_H */
