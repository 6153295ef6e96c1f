/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is known of peers, a byte each. Most of it is about peers on the same host.
 *
 * A short message from device memory may be offered like a long one (wire.h), and not staged.
 * Its receiver must follow up all receives (struct xfer_ep.follows), as a marker that meets any
 * other receive is lost. The first such message to a peer asks it, with HELLO. Until it
 * answers, short messages are staged.
 *
 * The first offer to a peer tells it of our board (board.h). Once it says that it reads the
 * board, announcements to it are notes.
 *
 * Applications such as MPI initialise their GPU after the endpoint. So, where there is a GPU,
 * all receives are followed up at first. That ends after HELLO_TRIAL of them, unless device
 * memory has been seen or a peer has asked. All [locked].
 */
#ifndef P2P_HELLO_H
#define P2P_HELLO_H

#include "path/path.h"
#include "xfer/xfer.h"

/* Fills in what is known of the peer at @addr; asks it if that is nothing yet */
void hello_query(struct xfer_ep *ep, fi_addr_t addr, struct path_query *query);

/* The endpoint is about to be enabled: does it follow up all receives? */
void hello_start(struct xfer_ep *ep);

/* A receive into host memory is followed up; or device memory is in use */
void hello_trial(struct xfer_ep *ep, bool device);

/* Does the peer at @addr look for announcements on our board? */
bool hello_reads(const struct xfer_ep *ep, fi_addr_t addr);

/*
 * It has not answered a note: tells it of our board once more. It may have been started anew, and
 * know nothing of it.
 */
void hello_remind(struct xfer_ep *ep, fi_addr_t addr);

/* It did not take the @len bytes that it was offered; @plain: they met a multi-receive buffer */
void hello_declined(struct xfer_ep *ep, fi_addr_t addr, size_t len, enum path_far far,
		    bool plain);

/*
 * May messages be lent to the peer at @addr (rndv_lent.h)? Not once it has asked for one in another
 * way: it cannot read, or they meet multi-receive buffers.
 */
bool hello_borrows(const struct xfer_ep *ep, fi_addr_t addr);
void hello_borrows_not(struct xfer_ep *ep, fi_addr_t addr);

/* @addr is nobody's any more */
void hello_forget(struct xfer *xfer, fi_addr_t addr);

#endif /* P2P_HELLO_H */
