/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers' device memory that streams copy to and from themselves: a write or a read is a copy of the stream's own, and
 * the proxy only reports it.
 *
 *	owner: mr_share (gpu/xpu.h) ► the application ► stream_map_open ► ipc_open
 *
 * Reads and writes have no order among them (INFO_ORDER), so a copy may overtake what the proxy has posted. All that comes
 * later in the stream begins when the copy has ended.
 *
 * The proxy's lock guards the list. What has been opened stays so until the domain is closed, as a graph may run again.
 */
#ifndef P2P_STREAM_MAP_H
#define P2P_STREAM_MAP_H

#include <sys/queue.h>

#include "gpu/xpu.h"

/**
 * struct stream_map - a region of a peer's.
 * @ep:		the endpoint whose @peer it is; NULL: that is closed
 * @addr:	where the region is here
 */
struct stream_map {
	const struct p2p_ep *ep;
	fi_addr_t peer;
	struct xpu_share share;
	struct ipc_import *import;
	void *addr;
	SLIST_ENTRY(stream_map) entry;
};

SLIST_HEAD(stream_maps, stream_map);

/*
 * Opens what the peer shares, in the context of @local. @number: as for xpu_share_open(). Not for use under the proxy's lock. 0, or
 * an error, which is logged
 */
int stream_map_open(const struct p2p_ep *ep, fi_addr_t peer, const struct xpu_share *share,
		    const struct dev_mem *local, uint64_t number, struct stream_map **map);

/* May it be a copy, for what is asked for and the memory at this end? Not for use under the proxy's lock */
bool stream_map_suits(const struct ring_op *op, const struct dev_mem *local);

/* Is all of the peer's memory open that the operation is about? Then @copy is what it comes to. */
bool stream_maps_find(const struct stream_maps *maps, const struct p2p_ep *ep,
		      const struct ring_op *op, struct dev_copy *copy);

/* The endpoint is closed. */
void stream_maps_forget(struct stream_maps *maps, const struct fid *ep);

/* The address stands for @process now, and for no other one. */
void stream_maps_forget_others(struct stream_maps *maps, const struct p2p_ep *ep,
			       fi_addr_t peer, uint64_t process);

/* No stream copies any more. */
void stream_maps_close(struct stream_maps *maps, struct p2p_domain *domain);

#endif /* P2P_STREAM_MAP_H */
