/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lanes: further connections, each with a thread of its own, for the pieces of long messages.
 *
 * A core's endpoint over TCP is as fast as one connection and one thread. So an endpoint may have lanes: core
 * endpoints aside (lane_core.h). How many of them are used depends on the processors (lane_load.h).
 *
 * A lane's thread posts what it is given, and reads its queue. It knows nothing of messages, and takes no lock of the
 * engine's but to wake somebody who sleeps (wait_domain.dozing). It hands completions to whoever makes progress, as if
 * they came from the endpoint's own queue.
 *
 * Peers agree on lanes in rndv_lanes.c. Lanes close with their endpoint: until then nothing of theirs is freed
 * that the core may still use.
 */
#ifndef P2P_LANE_H
#define P2P_LANE_H

#include "base/conf.h"
#include "xfer/xfer.h"

/* So many at most; as many names go into one message */
#define LANES_MAX 8

/*
 * Prepares lanes for an endpoint that is opened with @info at the core, if FI_P2P_LANES asks for some and such an
 * endpoint may have any. 0 or -FI_ENOMEM
 */
int lanes_init(struct xfer_ep *ep, const struct fi_info *info);

/*
 * The endpoint's lanes, which are opened now if there are none, as many as FI_P2P_LANES says. Their number; 0: it
 * has none now
 */
unsigned int lanes_open(struct xfer_ep *ep);

/* What lanes of peers must be, too: lane_core_kind(); 0: there are none */
uint64_t lanes_kind(const struct xfer_ep *ep);

/* Tells whether long messages from host memory may have lanes, too. Not [locked] */
static inline bool lanes_host(const struct xfer_ep *ep)
{
	return conf.lanes_host && ep->lanes;
}

/* Returns the length from which on messages have lanes */
size_t lanes_len_min(const struct xfer_ep *ep);

/* How many lanes are to be used now, if there are any: 0, or at least 2 */
unsigned int lanes_use(struct xfer_ep *ep);

/* The names of the first @count lanes, one behind the other; returns the length of one */
size_t lanes_names(const struct xfer_ep *ep, unsigned int count, void *names);

/* Inserts the name of a peer's lane at ours with the same number. 0 or an error */
int lanes_insert(struct xfer_ep *ep, unsigned int index, const void *name, fi_addr_t *addr);

/*
 * Keeps @count receives of each lane's, as those of a silent peer's messages stay for long: nobody else is to wait
 * behind them. @held: a peer's, which holds no more than it leaves; NULL: anybody's, half of all together. False:
 * there are none now. lanes_leave() gives them back.
 */
bool lanes_keep(struct xfer_ep *ep, unsigned int *held, unsigned int count);
void lanes_leave(struct xfer_ep *ep, unsigned int *held, unsigned int count);

/* Lane number @index */
struct xfer_channel *lanes_channel(const struct xfer_ep *ep, uint64_t index);

/* Gives a record to its lane, which has it until it ends */
void lanes_post(struct xfer_out *out);

/* Takes it back, if it has not ended: it ends with FI_ECANCELED, unless the core sends it already */
void lanes_cancel(struct xfer_out *out);

/* The same of a receive, and nobody waits for its end any more */
void lanes_forget(struct xfer_out *out);

/* Ends what lanes have done (wait_ended_take()) */
void lanes_progress(struct xfer_ep *ep);

/* Ends the threads and closes the lanes, if there are any. What they had is left to the caller, before lanes_free(). */
void lanes_close(struct xfer_ep *ep);
void lanes_free(struct xfer_ep *ep);

#endif /* P2P_LANE_H */
