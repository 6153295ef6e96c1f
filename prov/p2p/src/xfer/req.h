/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A request: an operation of the user's, or of a peer's, from post to report. All [locked]. */
#ifndef P2P_REQ_H
#define P2P_REQ_H

#include "path/path.h"
#include "xfer/xfer.h"

struct pin;
struct region;

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

/* Gives a request the buffer of @op, which may not have more pieces than the endpoint allows */
void xfer_req_set_buffer(struct xfer_req *req, const struct core_op *op,
			 const struct dev_mem *mem);

/* Gives back the staging memory that it holds, of which @used bytes were written; or all it has */
void xfer_req_unstage(struct xfer_req *req, size_t used);
void xfer_req_release(struct xfer_req *req);

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

/* Ends a request: gives back what it holds and reports it (@err: positive, or 0) */
void xfer_req_end(struct xfer_req *req, int err);

/* Is this record a request? */
bool xfer_ctx_is_req(const struct xfer_ctx *ctx);

/* A number for a transaction that begins here */
uint64_t xfer_id_new(struct xfer *xfer);

/* The request under way whose peer answers to this id, or NULL */
struct xfer_req *xfer_sending_find(const struct xfer *xfer, uint64_t id);

/* Enters a request whose peer will answer to its id */
void xfer_sending_add(struct xfer_req *req);
void xfer_sending_remove(struct xfer_req *req);

/* Puts a request on one of xfer's lists, or takes it off the one that it is on */
void xfer_list_add(struct xfer_req *req, struct xfer_list *list);
void xfer_list_remove(struct xfer_req *req);

#endif /* P2P_REQ_H */
