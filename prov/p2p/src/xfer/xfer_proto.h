/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the engine asks of a protocol. It knows each as a row of the table that xfer_init() is
 * given (proto/proto.h), and none by name. All [locked].
 */
#ifndef P2P_XFER_PROTO_H
#define P2P_XFER_PROTO_H

#include "path/path.h"
#include "xfer/xfer.h"

/**
 * struct xfer_proto - one protocol. Where an entry is NULL, nothing is to be done.
 * @name:	for the log
 * @paths:	the ways that its sends take: a bit, PROTO_PATH(), for each
 * @start:	begins to send a request's buffer, @op's. 0, or an error: the caller frees the
 *		request; -FI_EAGAIN: not now
 * @matched:	a marker has come to this request's receive, its completion in req->comp
 * @stray:	a marker has come to a receive that is not followed up
 * @body:	a marked message with bytes has come: puts the user's own data into its completion
 * @message:	a control message has come, by type, that fits the state (enum xfer_fit) of the request
 *		@req that it answers; NULL: it answers none
 * @failed:	a message could not be copied, or begun: if its receiver can be told, that takes its place, and the
 *		request is MARKING
 * @tell:	a request with a notice has ended well: sends that, and reports the end of both
 * @progress:	begins what can begin now
 * @watch:	another @passed milliseconds have passed, in which this process has looked (XFER_WATCH)
 * @told:	what waited for control messages to be sent may go on
 * @unsent:	a control message, or a piece that has a receive, could not be sent by @channel to @addr
 * @unheard:	a control message has come that bears a token which is not good any more; or, if @token is NULL,
 *		that was never given to anybody, as far as is known, or is of another version of ours: its type and id are
 *		known
 * @cut:	what a peer has sent by lanes and is not here is lost: all of it; or, of message @id, if a piece before @next is
 *		not here by that @lane
 * @lost:	a peer is lost (loss.h): ends with @status what is under way with it
 * @drop:	forgets a request whose endpoint closes
 * @cq_drop:	forgets what would be reported in a queue that closes
 * @ep_close:	the endpoint is about to be closed; @ret: -FI_EBUSY if it cannot be
 */
struct xfer_proto {
	const char *name;
	uint32_t paths;
	ssize_t (*start)(struct xfer_req *req, const struct p2p_op *op);
	void (*matched)(struct xfer_req *req);
	void (*stray)(struct xfer_cq *cq, const struct core_comp *comp);
	void (*body)(struct xfer *xfer, struct core_comp *comp);
	void (*message[WIRE_TYPES])(struct xfer_ep *ep, struct xfer_req *req,
				    const struct wire_msg *msg);
	void (*failed)(struct xfer_req *req, int status);
	void (*tell)(struct xfer_req *req);
	void (*progress)(struct xfer *xfer);
	void (*watch)(struct xfer *xfer, unsigned int passed);
	void (*told)(struct xfer *xfer);
	void (*unsent)(struct xfer_channel *channel, fi_addr_t addr, int status);
	void (*unheard)(struct xfer_ep *ep, const struct xfer_token *token,
			const struct wire_msg *msg);
	void (*cut)(struct xfer_peer *peer, uint64_t id, unsigned int lane, uint64_t next);
	void (*lost)(struct xfer_peer *peer, int status);
	void (*drop)(struct xfer_req *req);
	void (*cq_drop)(struct xfer_cq *cq);
	void (*ep_close)(struct xfer_ep *ep, int *ret);
};

/**
 * struct xfer_protos - all protocols of a kind of domains.
 * @table:	their rows, ended by NULL
 * @marks:	the bits of remote cq data that tell messages of theirs; 0: none is announced. @user_data: the user's
 * @init, @fini: make and free what they keep of a domain (struct xfer.proto); @ep_init, @ep_fini: of
 *		an endpoint (struct xfer_ep.proto). 0 or -FI_ENOMEM
 */
struct xfer_protos {
	const struct xfer_proto *const *table;
	uint64_t marks;
	uint64_t user_data;
	int (*init)(struct xfer *xfer);
	void (*fini)(struct xfer *xfer);
	int (*ep_init)(struct xfer_ep *ep);
	void (*ep_fini)(struct xfer_ep *ep);
};

#define PROTO_PATH(path) (1u << (path))

/* Calls @entry of every protocol that has one, in the table's order */
#define XFER_PROTO_EACH(xfer, entry, ...)                                                      \
	do {                                                                                   \
		for (const struct xfer_proto *const *each = (xfer)->protos->table; *each;      \
		     each++) {                                                                 \
			if ((*each)->entry)                                                    \
				(*each)->entry(__VA_ARGS__);                                   \
		}                                                                              \
	} while (0)

#endif /* P2P_XFER_PROTO_H */
