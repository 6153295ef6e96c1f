/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An open endpoint: which calls may go to the core as they are, which are counted, and which side
 * endpoint carries messages that may not wait. life.h opens and closes it.
 */
#ifndef P2P_EP_STATE_H
#define P2P_EP_STATE_H

#include "mem/mem.h"
#include "path/cost.h"
#include "path/path.h"
#include "xfer/lane.h"
#include "xfer/xfer.h"

/* Is anything waiting to be sent? Only then xfer_ep_overtakes() may be true. */
static inline bool xfer_ep_waiting(const struct xfer_ep *ep)
{
	return __atomic_load_n(&ep->waiting, __ATOMIC_RELAXED);
}

/* A queue has come or gone, or an endpoint listens from now on or does not [locked]. */
void xfer_apart_update(struct xfer *xfer);

/* Tells whether what comes out of this queue may be for this endpoint, and it can answer. */
static inline bool xfer_ep_answers(const struct xfer_ep *ep, const struct xfer_cq *cq)
{
	return ep->rxcq == cq && ep->started && !ep->closing;
}

/*
 * The channel of all that may not wait behind the user's messages: the front, the side, or NULL, if that ought
 * to be there and is not [locked].
 */
struct xfer_channel *xfer_ep_side(struct xfer_ep *ep);

/*
 * Tells whether messages may be left in their slots for receivers to read. Not for a while when the core has
 * refused a key; and not where the core does not copy messages, and markers would be in the way of others [locked].
 */
static inline bool xfer_ep_lends(const struct xfer_ep *ep)
{
	xfer_assert_locked(ep->xfer);
	return !(ep->quirks & QUIRK_STALLS) && ep->xfer->stage.lender &&
	       retry_due(&ep->xfer->stage.lend);
}

/* Tells whether operations of this kind are followed up, whatever memory they are about. */
static inline bool xfer_ep_follows(const struct xfer_ep *ep, uint64_t kind)
{
	return p2p_unlikely(__atomic_load_n(&ep->followed, __ATOMIC_RELAXED) & kind);
}

/* Returns the index of a kind of operations among the counters. */
static inline unsigned int xfer_count_index(uint64_t kind)
{
	return (unsigned int) (__builtin_ctzll(kind) - __builtin_ctzll(FI_READ));
}

/*
 * Counts an operation of one kind (FI_SEND, ..., FI_REMOTE_WRITE) that has ended well or,
 * if @err, not [locked]. Nothing happens where we do not count it.
 */
void xfer_ep_count(struct xfer_ep *ep, uint64_t kind, int err);

/* Counts an operation for one counter [locked]. */
static inline void xfer_cntr_count(struct xfer *xfer, struct xfer_cntr *cntr, int err)
{
	uint64_t *count = err ? &cntr->errors : &cntr->value;

	xfer_assert_locked(xfer);
	__atomic_store_n(count, *count + 1, __ATOMIC_RELEASE);
	if (cntr->point)
		wait_wake(cntr->point);
	wait_wake_counted(&xfer->wait);
}

/*
 * Sets the endpoint's limits after a change of @renamed, @tally, @waiting, @followed or @rx_flags
 * [locked].
 */
void xfer_ep_limit(struct xfer_ep *ep);

/*
 * Tells whether a buffer of @len bytes needs nothing of ours, if it is host memory. @limit: the endpoint's for
 * that kind of call. At the beginning of a call
 */
P2P_GLANCE bool xfer_plain(const void *buf, size_t len, const size_t *limit)
{
	return p2p_likely(buf || !len) && p2p_likely(len < *limit);
}

/* The same of a buffer in pieces, which are host memory for sure. @most: how many the core takes */
P2P_GLANCE bool xfer_direct_iov(const struct iovec *iov, size_t count, size_t most,
				const size_t *limit)
{
	size_t len = 0;

	if (p2p_unlikely(dev_glance() || !iov || count > most))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!xfer_plain(iov[i].iov_base, iov[i].iov_len, limit))
			return false;
		len += iov[i].iov_len;
	}
	return len < *limit;
}

/* Returns the length below which receives with these flags need not be followed up for their own sake. */
static inline size_t xfer_recv_alone(const struct xfer_ep *ep, uint64_t flags)
{
	if (!xfer_announces(ep->xfer))
		return SIZE_MAX;
	return flags & FI_COMPLETION && !(flags & FI_MULTI_RECV) ? WIRE_PLAIN_MAX + 1 : 0;
}

/* Returns the length below which the core's own call may take receives, without the lock. */
static inline size_t xfer_recv_limit(const struct xfer_ep *ep, uint64_t flags)
{
	return ep->xfer->serial ? 0 : xfer_recv_alone(ep, flags);
}

/* Is this message from host memory long enough for lanes, where such messages may have some? */
static inline bool xfer_may_have_lanes(const struct xfer_ep *ep, const struct iovec *iov,
				       size_t count)
{
	return p2p_unlikely(lanes_host(ep)) && mem_iov_len(iov, count) >= cost_lanes_min(false);
}

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

/*
 * Begins a copy for a record of @ep, as copy_start() does. The callback begins with xfer_copy_ended(), which
 * is true when the endpoint is closing and the record must be left alone.
 */
int xfer_copy_start(struct xfer_ep *ep, const struct dev_mem *mem, enum copy_dir dir,
		    const struct iovec *iov, size_t count, void *host, struct copy *copy);
/* Counts a copy off; true when its endpoint is closing, and its record must be left alone. */
bool xfer_copy_ended(struct xfer_ep *ep);

/*
 * flusher_add() for a record of @ep [locked]. The callback begins with xfer_copy_ended(), too. The second
 * calls it for what has ended.
 */
void xfer_flush(struct xfer_ep *ep, struct flush *flush);
/* Takes in flushes of files that have ended. */
void xfer_flush_progress(struct xfer *xfer);

/* Begins a copy from the host, behind all copies that were started so (struct copy.ordered) [locked] */
int xfer_copy_in_order(struct xfer_ep *ep, const struct dev_mem *mem, const struct iovec *iov,
		       size_t count, void *host, struct copy *copy);

/*
 * Copies a buffer of any memory to the host and waits for that: for FI_INJECT alone, whose buffer is
 * the user's again when the call returns. 0 or a negative error [locked]
 */
int xfer_copy_now(struct xfer *xfer, const struct dev_mem *mem, const struct iovec *iov,
		  size_t count, void *host);

#endif /* P2P_EP_STATE_H */
