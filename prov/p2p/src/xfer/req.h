/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A request: an operation of the user's, or of a peer's, from post to report. All [locked]. */
#ifndef P2P_REQ_H
#define P2P_REQ_H

#include "path/path.h"
#include "xfer/xfer.h"

struct pin;
struct region;
struct xfer_arrival;

/**
 * enum xfer_state - where a request is. The state says which list the request is on, whether its
 * peer's answers find it by its id, and which control messages fit. xfer_req_move() alone changes it;
 * req_state.c has the table.
 *
 * Any request:
 * @XFER_CORE:	the core has it, or nobody yet
 * @XFER_COPYING: it has come whole, and is copied to the device; or a request's bytes are copied before it goes, or after
 *		its answer has come
 * @XFER_CLAIMED: a peek has found it; the core keeps it for the receive that takes it
 * @XFER_ENDING: nothing more begins: it has failed, or all of it has gone; it ends when what is in flight has ended
 * @XFER_ENDED:	it is about to be freed
 *
 * Sending, in ep.sendq:
 * @XFER_GREETING: the peer has yet to say whether it takes announcements
 * @XFER_STAGING: its copy to the host is under way
 * @XFER_READY:	it may be sent
 * @XFER_MARKING: it is announced, and its marker may be sent
 *
 * Sending, when the peer may answer:
 * @XFER_ANNOUNCED: its marker is on its way, or it has none; nobody has answered
 * @XFER_PUSHING: the receiver asks for pieces, or for all of it, which is sent when its marker has gone; or a DONE is to come
 * @XFER_ASKING: the owner of remote memory is asked, and answers with DONE, or ANNOUNCE for a long read
 *
 * Receiving an announced message; the third is of RMA by the core, too:
 * @XFER_MATCHED: a receive or a peek has met a marker, and waits for the announcement
 * @XFER_PULLING: pieces come, once the sender knows of some that are posted
 * @XFER_MOVING: this end alone moves it: the core reads the sender's slot or buffer, or reads or writes remote memory; or
 *		a device copies it from the other
 * @XFER_TELLING: it is here; the core has no room yet for what tells the sender so
 */
enum xfer_state {
	XFER_CORE,
	XFER_COPYING,
	XFER_CLAIMED,
	XFER_ENDED,
	XFER_GREETING,
	XFER_STAGING,
	XFER_READY,
	XFER_MARKING,
	XFER_ANNOUNCED,
	XFER_PUSHING,
	XFER_ASKING,
	XFER_MATCHED,
	XFER_PULLING,
	XFER_MOVING,
	XFER_TELLING,
	XFER_ENDING,
	XFER_STATES
};

/**
 * struct xfer_transfer - a request whose bytes travel in more than one message.
 * @id:		the sender's number for it; the peer's answers carry it
 * @via, @to:	its pieces and answers take this channel, to this address there
 * @wanted:	bytes that will travel; all of @pieces have @chunk of them, but for the last; @next is
 *		the first piece that has not begun
 * @number:	the receiver's number for it, in the pieces' tags
 * @lanes:	its pieces travel over so many lanes; 0: between @via and @to
 * @in_flight:	parts that the core or a device has now: pieces, copies, the marker
 * @copying:	those of them that a device copies from or to the user's buffer
 * @starved:	since when it wants a slot [ms]; 0: it does not
 * @since:	receiving: when all of it was here [ms]; sending by lanes: since when nothing has moved, or when its receiver was
 *		asked; 0: something has moved
 * @status:	the first error
 * @own:		sending: the offer that its announcement has, while it may be taken
 * @reading:	receiving: the copy, if it reads what this process has offered
 * @send.asked:	the receiver has asked for pieces below that one
 * @send.checks: so often its receiver was asked what has come, since it said something last
 * @send.anew:	its receiver has asked for pieces once more: a lane may keep the memory of others
 * @send.wants_done: the announcement says that a DONE is waited for
 * @send.unmarked: its marker was not sent
 * @send.lost:	its peer is lost: none of its pieces is waited for there
 * @send.kept:	its peer was silent too long, and may yet read the slot: that counts as in flight
 * @recv.arrival: what is known of the message
 * @recv.granted: posted pieces that the sender does not know of
 * @recv.far:	whether the offer is taken
 * @recv.lost:	a lane of it has died: 1 more than the first piece that is to come anew; 0: none
 * @chain:	requests with a like id (struct xfer.sending)
 */
struct xfer_transfer {
	uint64_t id;
	struct xfer_channel *via;
	fi_addr_t to;
	uint64_t wanted;
	uint64_t next;
	uint64_t pieces;
	uint32_t chunk;
	uint32_t number;
	unsigned int lanes;
	unsigned int in_flight;
	unsigned int copying;
	uint32_t starved;
	uint64_t since;
	int status;
	union {
		struct ipc_own own;
		struct ipc_reading reading;
	};
	union {
		struct {
			uint64_t asked;
			uint8_t checks;
			bool anew;
			bool wants_done;
			bool unmarked;
			bool lost;
			bool kept;
		} send;
		struct {
			struct xfer_arrival *arrival;
			uint32_t lost;
			uint16_t granted;
			enum path_far far : 8;
		} recv;
	};
	LIST_ENTRY(xfer_req) chain;
};

/**
 * struct xfer_req - an operation of the user's. What every request uses comes first: a receive of
 * host memory touches little but what is zeroed.
 * @state:	where it is
 * @op_flags, @context, @tag, @data, @addr: as the user gave them. FI_COMPLETION: the user wants to hear of success.
 *		FI_PEEK: it tells of a message, and receives none; @data is the marker's that it has found, 0 if none
 * @recv:	it receives, or reads remote memory
 * @cq, @done_flags: where it reports, and the flags of its completion, which tell what operation it is
 * @served:	it is done for a peer: an error is the peer's to hear of
 * @reported:	the user, or the peer, has heard of its end
 * @peer:	who is at its other end, once control messages are about it
 * @region:	the memory of ours that the peer reaches
 * @busy:	it is counted in xfer.busy
 * @mem:	the allocation that the buffer lies in; ops NULL: host memory
 * @iov, @count, @len: the buffer
 * @slot, @reserve: staging memory that it holds, one or none; @copy: the copy under way
 * @flush:	a peer's write is made durable
 * @comp:	what will be reported
 * @pin:	the buffer's descriptors, or NULL (pin.h)
 * @direct:	the core is given the buffer itself, though it is device memory
 * @export:	sending, until it is announced: what other processes open the buffer by
 * @import:	receiving: the sender's memory, open here
 * @lane_room:	receiving: so many receives of each lane are kept for it (lanes_keep())
 * @notice:	a cell, for a message that is sent when it has ended well (xfer_proto.tell); or NULL
 * @entry:	on the list of its state
 * @out:	in ep.sendq: what the core is to send with it
 * @target, @targets: the remote memory that the core, or its owner, is to reach
 * @copied:	it travels whole: bytes copied so far between the buffer and staging memory
 * @transfer:	it travels in parts; xfer_transfer_init() makes it so
 */
struct xfer_req {
	struct xfer_ctx ctx;
	enum xfer_state state;
	bool recv;
	bool served;
	bool reported;
	bool busy;
	bool direct;
	unsigned int lane_room;
	void *context;
	uint64_t op_flags;
	uint64_t tag;
	uint64_t data;
	fi_addr_t addr;
	struct xfer_cq *cq;
	uint64_t done_flags;
	size_t count;
	size_t len;
	struct dev_mem mem;
	struct path_choice path;
	struct stage_slot *slot;
	struct stage_reserve *reserve;
	struct xfer_peer *peer;
	struct region *region;
	struct pin *pin;
	struct ipc_import *import;
	const struct ipc_export *export;
	void *notice;
	struct core_comp comp;
	TAILQ_ENTRY(xfer_req) entry; /* not zeroed, nor is what follows */
	struct iovec iov[P2P_IOV_MAX];
	union {
		struct copy copy;
		struct flush flush;
	};
	struct {
		uint64_t data;
		uint64_t flags;
	} out;
	size_t targets;
	struct fi_rma_iov target[OP_RMA_MAX];
	size_t copied;
	struct xfer_transfer transfer;
};

/* So much of a new request is zeroed. The rest has no value until its user gives it one. */
#define XFER_REQ_ZEROED offsetof(struct xfer_req, entry)

_Static_assert(XFER_STATES <= XFER_STATES_MAX, "each has a list");
_Static_assert(sizeof(struct xfer_req) <= CELL_SIZE, "a request is a cell");

/* Gives a request the buffer of @op, which may not have more pieces than the endpoint allows */
void xfer_req_set_buffer(struct xfer_req *req, const struct p2p_op *op,
			 const struct dev_mem *mem);

/* Gives back the staging memory that it holds, of which @used bytes were written; or all it has */
void xfer_req_unstage(struct xfer_req *req, size_t used);
/* Gives back all that a request holds: memory, its peer, regions, descriptors and lanes. */
void xfer_req_release(struct xfer_req *req);

/* Makes a request for @op, whose buffer lies in @mem; NULL: none now */
struct xfer_req *xfer_req_new(struct xfer_ep *ep, const struct p2p_op *op,
			      const struct dev_mem *mem);

/* Makes a request for a read or write of at most OP_RMA_MAX pieces of remote memory */
struct xfer_req *xfer_req_new_rma(struct xfer_ep *ep, const struct p2p_op *op,
				  const struct dev_mem *mem);

/* The same for an atomic operation that gives @result */
struct xfer_req *xfer_req_new_atomic(struct xfer_ep *ep, const struct p2p_op *op,
				     const struct core_array *result);

/* Frees a request that was not begun */
void xfer_req_undo(struct xfer_req *req);

/* Counts the request, as long as it lives, as one that needs xfer_progress() */
void xfer_set_busy(struct xfer_req *req);

/* Binds a request to the record of its peer, which is watched from then on. @peer: or NULL */
void xfer_req_watch(struct xfer_req *req, struct xfer_peer *peer);

/* Ends a request: gives back what it holds and reports it (@err: positive, or 0) */
void xfer_req_end(struct xfer_req *req, int err);

/*
 * Reports that it has failed, before what is in flight has ended; nothing of that is the user's memory.
 * xfer_req_end() is still to come.
 */
void xfer_req_report_early(struct xfer_req *req, int err);

/* Tells whether this record is a request. Not [locked] */
bool xfer_ctx_is_req(const struct xfer_ctx *ctx);

#endif /* P2P_REQ_H */
