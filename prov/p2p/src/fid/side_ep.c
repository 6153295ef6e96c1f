/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The side endpoint. See side_ep.h. */
#include "fid/side_ep.h"

#include <stdlib.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "base/log.h"
#include "base/room.h"
#include "xfer/life.h"

/* The waker counts what comes and goes here, too (wait.h) */
#define SIDE_EP_COUNTED (FI_SEND | FI_RECV)

static int side_ep_resolve(struct xfer_ep *xfer, const void *name, size_t len, bool learn,
			   fi_addr_t *addr)
{
	return av_resolve(container_of(xfer, struct p2p_side_ep, xfer)->av, name, len, learn,
			  addr);
}

static int side_ep_lookup(struct xfer_ep *xfer, fi_addr_t addr, void *name, size_t *len)
{
	return av_lookup_name(container_of(xfer, struct p2p_side_ep, xfer)->av, addr, name,
			      len);
}

static const struct xfer_names side_ep_names = {
	.resolve = side_ep_resolve,
	.lookup = side_ep_lookup,
};

static int side_ep_bind(struct p2p_side_ep *side)
{
	const struct p2p_ep *ep = side->ep;
	struct fid_cntr *waker = ep->domain->xfer.wait.waker;
	struct fid_ep *core = side->xfer.core;
	int ret = fi_ep_bind(core, &ep->xfer.txcq->core->fid, FI_TRANSMIT);

	if (!ret)
		ret = fi_ep_bind(core, &ep->xfer.rxcq->core->fid, FI_RECV);
	if (!ret)
		ret = fi_ep_bind(core, &side->av->core->fid, 0);
	if (!ret && ep->xfer.wakes) {
		ret = fi_ep_bind(core, &waker->fid, SIDE_EP_COUNTED);
		side->xfer.wakes = !ret;
	}
	return ret;
}

static int side_ep_start(struct p2p_side_ep *side)
{
	struct xfer_ep *xfer = &side->xfer;
	int ret = side_ep_bind(side);

	xfer->names = &side_ep_names;
	if (!ret)
		ret = fi_enable(xfer->core);
	xfer->name_len = sizeof xfer->name;
	if (!ret)
		ret = fi_getname(&xfer->core->fid, xfer->name, &xfer->name_len);
	return ret;
}

static int side_ep_open(struct xfer_ep *front, struct xfer_ep **opened)
{
	struct p2p_ep *ep = container_of(front, struct p2p_ep, xfer);
	struct p2p_side_ep *side = ep->side;
	int ret = room_spare(ROOM_ENDPOINT);

	if (!ret)
		ret = core_info_beside(side->info, front->name, front->name_len);
	if (!ret)
		ret = av_open_own(ep->domain, &side->av);
	if (!ret)
		ret = fi_endpoint(ep->domain->core, side->info, &side->xfer.core, side);
	if (ret)
		return ret;
	ret = side_ep_start(side);
	if (ret) {
		fi_close(&side->xfer.core->fid);
		return ret;
	}
	ret = xfer_ep_init_side(&side->xfer, front);
	if (ret)
		return ret;
	P2P_INFO("opened an endpoint for long messages\n");
	*opened = &side->xfer;
	return 0;
}

int side_ep_init(struct p2p_ep *ep, const struct fi_info *core)
{
	struct p2p_side_ep *side = calloc(1, sizeof *side);

	if (!side)
		return -FI_ENOMEM;
	side->info = core_info_aside(core);
	if (!side->info) {
		free(side);
		return -FI_ENOMEM;
	}
	side->ep = ep;
	ep->side = side;
	ep->xfer.side_open = side_ep_open;
	return 0;
}

void side_ep_fini(struct p2p_ep *ep)
{
	struct p2p_side_ep *side = ep->side;

	if (!side)
		return;
	if (side->av)
		fi_close(&side->av->fid.fid);
	lf.freeinfo(side->info);
	free(side);
}
