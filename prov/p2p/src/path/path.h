/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which way a message takes, and why. A pure function: it reads structs and calls
 * nothing, so that what it says can be tested, logged and printed alike.
 */
#ifndef P2P_PATH_H
#define P2P_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rdma/fi_ext_p2p.h>

/**
 * enum path_proto - how the bytes of one message are carried.
 * @PATH_CORE:	the core provider's call with the user's own buffer
 * @PATH_SHORT:	copied to a pinned slot, sent from there as one message
 * @PATH_LENT:	copied to a pinned slot, then announced, and read from there by the receiver's
 *		core; if that cannot, as PATH_LONG
 * @PATH_LONG:	announced, then sent in pieces as the receiver asks for them
 * @PATH_WHOLE:	copied to a host buffer of full length, sent from there as one message
 * @PATH_READ:	announced, then read by the receiver, whose NIC reaches it
 * @PATH_DIRECT: the core provider's call with device memory that the NIC reaches
 * @PATH_ACROSS: announced, then copied from device to device by the receiver, if it is a process
 *		on the same host that can; else as PATH_LONG
 * @PATH_NONE:	not allowed to travel in any way that there is
 */
enum path_proto {
	PATH_CORE,
	PATH_SHORT,
	PATH_LENT,
	PATH_LONG,
	PATH_WHOLE,
	PATH_READ,
	PATH_DIRECT,
	PATH_ACROSS,
	PATH_NONE
};

/* Is a message announced with its memory, which the receiver may take or not? */
static inline bool path_offers(enum path_proto proto)
{
	return proto == PATH_READ || proto == PATH_ACROSS;
}

/* Which ways the user and the application leave open: as FI_OPT_FI_HMEM_P2P has them */
enum path_wish {
	PATH_ANY,
	PATH_NO_NIC,      /* any but the NIC's own */
	PATH_PEER_LONG,   /* what is longer than plain_max has to go the NIC's way */
	PATH_PEER_ONLY,   /* everything has */
	PATH_ACROSS_LONG, /* what is longer than plain_max has to go across the host */
	PATH_STAGE_ONLY
};

/* Why a receiver does not copy what it is offered from device to device: travels (wire.h) */
enum path_far {
	PATH_FAR_UNKNOWN, /* it did not say */
	PATH_FAR_NOT,     /* it does copy it */
	PATH_FAR_HOST,
	PATH_FAR_BUFFER,
	PATH_FAR_WISH,
	PATH_FAR_CLOSED,
	PATH_FAR_BUSY,
	PATH_FAR_KINDS
};

/**
 * struct path_query - what the choice depends on.
 * @device:	the buffer is device memory
 * @layered:	the peer runs ofi_p2p too (always so over the layered provider)
 * @stalls:	the core provider reads nothing more from a peer whose message has no
 *		receive yet, so that pieces and answers could wait behind it for ever, and
 *		there is no endpoint aside for them
 * @len:	the message's length, in @pieces
 * @short_max:	longest message that fits a slot; @plain_max: longest one that has to
 *		wait for a slot, as it may not be announced
 * @slot:	there is a free slot for it now
 * @name_len:	length of the endpoint's own name, @name_max what an announcement holds
 * @inject:	the buffer may not be read any more once the call has returned
 * @wish:	what is left open
 * @peer:	the NIC reaches the buffer; if not, @peer_why
 * @direct:	over a hook: the NIC, and no CPU, touches what is sent or received, if it is
 *		longer than @inline_max
 * @near:	all peers that the core provider reaches are on this host
 * @follows:	the receiver takes announcements of messages that are not longer than @plain_max
 * @refuses:	it has not opened what it was offered before
 * @across:	the buffer can be opened by other processes of this host; receiving: the sender's
 *		is open here; if not, @across_why
 * @lends:	what is longer than @lend_min and in a slot its receiver may read there, and there are
 *		others under way to read with it
 */
struct path_query {
	bool device;
	bool layered;
	bool stalls;
	size_t len;
	size_t short_max;
	size_t plain_max;
	bool slot;
	size_t name_len;
	size_t name_max;
	bool inject;
	enum path_wish wish;
	bool peer;
	const char *peer_why;
	size_t pieces;
	bool direct;
	size_t inline_max;
	bool near;
	bool follows;
	bool refuses;
	bool across;
	const char *across_why;
	bool lends;
	size_t lend_min;
};

struct path_choice {
	enum fi_p2p_path path;
	enum path_proto proto;
	const char *reason;
};

struct path_choice path_choose(const struct path_query *query);

/*
 * May the NIC's way be of use to this message, if its buffer can be given to it? Asked
 * before that is tried; when not, @why.
 */
bool path_wants_peer(const struct path_query *query, const char **why);

/* The same for a copy from device to device within the host */
bool path_wants_across(const struct path_query *query, const char **why);

/* Why a receiver that was offered a message copies it, or not, in words (any number will do) */
const char *path_far_reason(uint64_t far);

#endif /* P2P_PATH_H */
