/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The side endpoint. See side_ep.h. */
#include "fid/side_ep.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "base/log.h"
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
	return fi_av_lookup(container_of(xfer, struct p2p_side_ep, xfer)->av->core, addr, name,
			    len);
}

/*
 * Takes the address of the application's endpoint, at any other port. If that endpoint listens at
 * all of a host's addresses, peers can do nothing with its name: -FI_EADDRNOTAVAIL.
 */
static int side_ep_address(struct p2p_side_ep *side)
{
	const struct xfer_ep *front = &side->ep->xfer;
	struct sockaddr_in6 *in6;
	struct sockaddr_in *in;
	void *addr;
	bool named;

	if (front->name_len < sizeof *in || front->name_len > WIRE_NAME_MAX)
		return -FI_EADDRNOTAVAIL;
	addr = calloc(1, P2P_MAX(front->name_len, sizeof *in6));
	if (!addr)
		return -FI_ENOMEM;
	memcpy(addr, front->name, front->name_len);
	in = addr;
	in6 = addr;
	if (in->sin_family == AF_INET) {
		named = in->sin_addr.s_addr != htonl(INADDR_ANY);
		in->sin_port = 0;
	} else {
		named = !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
		in6->sin6_port = 0;
	}
	free(side->info->src_addr);
	side->info->src_addr = addr;
	side->info->src_addrlen = front->name_len;
	return named ? 0 : -FI_EADDRNOTAVAIL;
}

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

	if (!ret)
		ret = fi_enable(xfer->core);
	xfer->name_len = sizeof xfer->name;
	if (!ret)
		ret = fi_getname(&xfer->core->fid, xfer->name, &xfer->name_len);
	if (ret)
		return ret;
	xfer->resolve = side_ep_resolve;
	xfer->lookup = side_ep_lookup;
	return 0;
}

static int side_ep_open(struct xfer_ep *front, struct xfer_ep **opened)
{
	struct p2p_ep *ep = container_of(front, struct p2p_ep, xfer);
	struct p2p_side_ep *side = ep->side;
	int ret = side_ep_address(side);

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
	side->info = lf.dupinfo(core);
	if (!side->info) {
		free(side);
		return -FI_ENOMEM;
	}
	/* peers that are not inserted yet send to it: QUIRK_DIRECTED */
	side->info->caps &= ~FI_DIRECTED_RECV;
	if (side->info->rx_attr)
		side->info->rx_attr->caps &= ~FI_DIRECTED_RECV;
	free(side->info->dest_addr);
	side->info->dest_addr = NULL;
	side->info->dest_addrlen = 0;
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
