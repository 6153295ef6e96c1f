/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory that streams copy to and from themselves. See stream_map.h. */
#include "gpu/stream_map.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "fid/flags.h"

int stream_map_open(const struct p2p_ep *ep, fi_addr_t peer, const struct xpu_share *share,
		    const struct dev_mem *local, uint64_t number, struct stream_map **opened)
{
	struct stream_map *map;
	const char *why;
	int ret;

	if (ep->caps & FI_FENCE) {
		P2P_INFO("streams do not copy a peer's memory themselves: what follows an "
			 "operation with FI_FENCE waits for it\n");
		return -FI_EOPNOTSUPP;
	}
	map = calloc(1, sizeof *map);
	if (!map)
		return -FI_ENOMEM;
	map->ep = ep;
	map->peer = peer;
	map->share = *share;
	ret = xpu_share_open(ep->domain, local, number, &map->share, &map->import, &map->addr,
			     &why);
	if (ret) {
		P2P_INFO("streams do not copy a peer's memory themselves: %s\n", why);
		free(map);
	} else {
		*opened = map;
	}
	return ret;
}

bool stream_map_suits(const struct ring_op *op, const struct dev_mem *local)
{
	const uintptr_t buf = op->word[FI_P2P_XPU_W_BUF];
	const size_t len = op->word[FI_P2P_XPU_W_LEN];
	struct dev_mem mem;

	return (op->op == FI_P2P_XPU_OP_WRITE || op->op == FI_P2P_XPU_OP_READ) && len &&
	       !(op->flags & ~(FLAGS_TX_PLAIN & ~FI_INJECT)) &&
	       dev_find((void *) buf, &mem) > 0 && mem.ops == local->ops &&
	       mem.ordinal == local->ordinal && len <= mem.size - (buf - mem.base);
}

bool stream_maps_find(const struct stream_maps *maps, const struct p2p_ep *ep,
		      const struct ring_op *op, struct dev_copy *copy)
{
	const bool writes = op->op == FI_P2P_XPU_OP_WRITE;
	void *buf = (void *) (uintptr_t) op->word[FI_P2P_XPU_W_BUF];
	const size_t len = op->word[FI_P2P_XPU_W_LEN];
	const struct stream_map *map;
	uint64_t offset;
	void *there;

	SLIST_FOREACH(map, maps, entry)
	{
		const struct xpu_share *share = &map->share;

		offset = op->word[FI_P2P_XPU_W_ADDR] - share->base;
		if (map->ep == ep && map->peer == op->word[FI_P2P_XPU_W_PEER] &&
		    share->key == op->word[FI_P2P_XPU_W_KEY] && offset <= share->len &&
		    len <= share->len - offset &&
		    share->access & (writes ? FI_REMOTE_WRITE : FI_REMOTE_READ))
			break;
	}
	if (!map)
		return false;
	there = (char *) map->addr + offset;
	*copy = writes ? (struct dev_copy){there, buf, len}
		       : (struct dev_copy){buf, there, len};
	return true;
}

void stream_maps_forget(struct stream_maps *maps, const struct fid *ep)
{
	struct stream_map *map;

	SLIST_FOREACH(map, maps, entry)
	{
		if (map->ep && &map->ep->fid.fid == ep)
			map->ep = NULL;
	}
}

void stream_maps_forget_others(struct stream_maps *maps, const struct p2p_ep *ep,
			       fi_addr_t peer, uint64_t process)
{
	struct stream_map *map;

	SLIST_FOREACH(map, maps, entry)
	{
		if (map->ep == ep && map->peer == peer && map->share.offer.process != process)
			map->ep = NULL;
	}
}

void stream_maps_close(struct stream_maps *maps, struct p2p_domain *domain)
{
	struct xfer *xfer = &domain->xfer;
	struct stream_map *map;

	p2p_lock_take(&xfer->lock);
	while ((map = SLIST_FIRST(maps))) {
		SLIST_REMOVE_HEAD(maps, entry);
		ipc_close(&xfer->ipc, map->import);
		free(map);
	}
	p2p_lock_drop(&xfer->lock);
}
