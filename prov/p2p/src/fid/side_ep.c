/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The side endpoint. See side_ep.h. */
#include "fid/side_ep.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "base/log.h"
#include "base/room.h"
#include "xfer/ctrl.h"

/* The waker counts what comes and goes here, too (wait.h) */
#define SIDE_EP_COUNTED (FI_SEND | FI_RECV)

static struct p2p_ep *side_ep_of(const struct xfer_channel *side)
{
	return container_of(side->ep, struct p2p_ep, xfer);
}

static int side_ep_resolve(struct xfer_channel *side, const void *name, size_t len, bool learn,
			   fi_addr_t *addr)
{
	return av_resolve(side_ep_of(side)->side_av, name, len, learn, addr);
}

static int side_ep_lookup(struct xfer_channel *side, fi_addr_t addr, void *name, size_t *len)
{
	return av_lookup_name(side_ep_of(side)->side_av, addr, name, len);
}

static int side_ep_start(struct xfer_channel *side)
{
	const struct p2p_ep *ep = side_ep_of(side);
	int ret = fi_ep_bind(side->core, &ep->xfer.txcq->core->fid, FI_TRANSMIT);

	if (!ret)
		ret = fi_ep_bind(side->core, &ep->xfer.rxcq->core->fid, FI_RECV);
	if (!ret)
		ret = fi_ep_bind(side->core, &ep->side_av->core->fid, 0);
	if (!ret && ep->xfer.wakes)
		ret = fi_ep_bind(side->core, &ep->domain->xfer.wait.waker->fid,
				 SIDE_EP_COUNTED);
	if (!ret)
		ret = fi_enable(side->core);
	side->name_len = sizeof side->name;
	if (!ret)
		ret = fi_getname(&side->core->fid, side->name, &side->name_len);
	return ret;
}

static int side_ep_open(struct xfer_channel *side)
{
	struct p2p_ep *ep = side_ep_of(side);
	int ret = room_spare(ROOM_ENDPOINT);

	if (!ret)
		ret = core_info_beside(ep->side_info, ep->xfer.front.name,
				       ep->xfer.front.name_len);
	if (!ret)
		ret = av_open_own(ep->domain, &ep->side_av);
	if (!ret)
		ret = fi_endpoint(ep->domain->core, ep->side_info, &side->core, side);
	if (ret)
		return ret;
	ret = side_ep_start(side);
	if (ret) {
		fi_close(&side->core->fid);
		return ret;
	}
	ctrl_listen(side);
	/* who sleeps without a descriptor has something to look for now */
	wait_wake_all(&ep->domain->xfer.wait);
	P2P_INFO("opened an endpoint for long messages\n");
	return 0;
}

static const struct xfer_channel_ops side_ep_ops = {
	.open = side_ep_open,
	.resolve = side_ep_resolve,
	.lookup = side_ep_lookup,
};

int side_ep_init(struct p2p_ep *ep, const struct fi_info *core)
{
	ep->side_info = core_info_aside(core);
	ep->xfer.side.ops = &side_ep_ops;
	return ep->side_info ? 0 : -FI_ENOMEM;
}

void side_ep_fini(struct p2p_ep *ep)
{
	if (ep->side_av)
		fi_close(&ep->side_av->fid.fid);
	lf.freeinfo(ep->side_info);
}
