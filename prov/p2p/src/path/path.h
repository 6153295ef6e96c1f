/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which way a message takes, and why. The choice is a pure function: it reads structs and calls
 * nothing. So tests, log lines and fi_p2p_info all get the same answer.
 */
#ifndef P2P_PATH_H
#define P2P_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rdma/fi_ext_p2p.h>

/**
 * enum path_proto - how the bytes of one message are carried.
 * @PATH_CORE:	the core provider's call takes the user's own buffer
 * @PATH_SHORT:	copied to a pinned slot, sent from there as one message
 * @PATH_LENT:	copied to a pinned slot and announced; the receiver's core reads it from there.
 *		If that core cannot, the message goes as PATH_LONG does.
 * @PATH_LONG:	announced, then sent in pieces as the receiver asks for them
 * @PATH_WHOLE:	copied to a host buffer of full length, sent from there as one message
 * @PATH_READ:	announced, then read by the receiver, whose NIC reaches the buffer
 * @PATH_DIRECT: the core provider's call takes device memory that the NIC reaches
 * @PATH_ACROSS: announced, then copied from device to device by a receiver on the same host.
 *		If that process cannot, the message goes as PATH_LONG does.
 * @PATH_NONE:	the user or the application forbids every way that there is
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

/* Tells whether the announcement offers the message's memory. The receiver may take it or not. */
static inline bool path_offers(enum path_proto proto)
{
	return proto == PATH_READ || proto == PATH_ACROSS;
}

/* The ways that the user and the application leave open, as FI_OPT_FI_HMEM_P2P has them */
enum path_policy {
	PATH_ANY,
	PATH_NO_NIC,      /* any way but the NIC's own */
	PATH_PEER_LONG,   /* messages longer than plain_max have to go the NIC's way */
	PATH_PEER_ONLY,   /* all messages have to */
	PATH_ACROSS_LONG, /* messages longer than plain_max have to go across the host */
	PATH_STAGE_ONLY
};

/* Why a receiver does not copy offered memory from device to device. The number goes over the wire (wire.h). */
enum path_far {
	PATH_FAR_UNKNOWN, /* the receiver did not say */
	PATH_FAR_NOT,     /* the receiver does copy it */
	PATH_FAR_HOST,
	PATH_FAR_BUFFER,
	PATH_FAR_POLICY,
	PATH_FAR_CLOSED,
	PATH_FAR_BUSY,
	PATH_FAR_USER,   /* of another user on this host */
	PATH_FAR_SPACES, /* in namespaces where neither of the two sees the other */
	PATH_FAR_NET,    /* the memory has to be asked for */
	PATH_FAR_NUMBER, /* the two have one process id, each in its own namespace */
	PATH_FAR_KINDS
};

/**
 * struct path_query - what the choice depends on. The buffer is device memory; or, with @asked, host memory.
 * @announced:	its receiver may be told of it and take part, as one that runs ofi_p2p does. Else the core's own
 *		call carries it, or this end alone
 * @stalls:	a message without a receive stops the core provider, which then reads nothing
 *		more from that peer. There is no side endpoint. So pieces and answers could wait
 *		behind that message for ever.
 * @len:	the message's length [bytes], in @pieces buffers
 * @short_max:	the longest message that fits a slot [bytes]
 * @plain_max:	the longest message that may not be announced [bytes], so that it has to
 *		wait for a slot
 * @slot:	there is a free slot for the message now
 * @unnamed:	an announcement has no room for the endpoint's own name
 * @inject:	the buffer may not be read any more after the call has returned
 * @policy:	the ways that are left open
 * @peer:	the NIC reaches the buffer
 * @peer_why:	if not @peer: why
 * @direct:	over a hook: the NIC itself sends or receives what is longer than @inline_max,
 *		and no CPU touches it
 * @near:	all peers that the core provider reaches are on this host
 * @follows:	the receiver takes announcements of messages of up to @plain_max bytes, too
 * @foreign:	the receiver has not said that it takes announcements
 * @refuses:	the receiver has not opened what it was offered before
 * @takes:	the receiver is known to be on this host, and has not declined what it was offered last
 * @across:	sending: other processes of this host can open the buffer; receiving: the
 *		sender's buffer is open here
 * @across_why:	if not @across: why
 * @asked:	the receiver is asked in any case, so an offer costs nothing, and one message alone is worth lending
 * @lends:	the receiver may read the message in its slot, and others are under way, to be read with it (but for @asked)
 */
struct path_query {
	bool announced;
	bool stalls;
	size_t len;
	size_t short_max;
	size_t plain_max;
	bool slot;
	bool unnamed;
	bool inject;
	enum path_policy policy;
	bool peer;
	const char *peer_why;
	size_t pieces;
	bool direct;
	size_t inline_max;
	bool near;
	bool follows;
	bool foreign;
	bool refuses;
	bool takes;
	bool across;
	const char *across_why;
	bool asked;
	bool lends;
};

/* @foreign: it was chosen for a receiver that had not said that it takes announcements */
struct path_choice {
	enum fi_p2p_path path;
	enum path_proto proto;
	const char *reason;
	bool foreign;
};

/* Chooses a message's path and protocol, with the reason, from what is known of it and its peer. */
struct path_choice path_choose(const struct path_query *query);

/*
 * Tells whether the NIC's way may be of use to this message, if the NIC can be given its buffer. The caller
 * asks before it tries that. If the answer is false, @why says why.
 */
bool path_wants_peer(const struct path_query *query, const char **why);

/* Tells whether a copy from device to device within the host may be of use to this message. */
bool path_wants_across(const struct path_query *query, const char **why);

/*
 * Says in words why a receiver copies a message that it was offered, or does not. @far may be any number, as
 * it comes from the network.
 */
const char *path_far_reason(uint64_t far);

#endif /* P2P_PATH_H */
