/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The core's objects of a lane. See lane_core.h. */
#include "xfer/lane_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "path/quirks.h"
#include "xfer/core.h"

/* Operations that the core has at a time: it has memory for as many as there may be. Receives take little. */
#define LANE_SIZE ((size_t) 64)
#define LANE_RECVS ((size_t) 2048)

/* What does it with less memory, for the endpoint that @info is for; NULL: there is none */
static struct fi_info *lane_core_info_tcp(const struct fi_info *info)
{
	struct fi_info *hints = lf.dupinfo(NULL), *found = NULL;
	char *name;

	if (!hints)
		return NULL;
	if (asprintf(&name, "%s;^" P2P_NAME, quirks_tcp_alone(fi_version())) < 0)
		name = NULL;
	hints->caps = FI_MSG | FI_TAGGED;
	hints->addr_format = info->addr_format;
	hints->ep_attr->type = FI_EP_RDM;
	hints->rx_attr->size = LANE_RECVS;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->fabric_attr->prov_name = name;
	hints->src_addr = malloc(info->src_addrlen);
	if (name && hints->src_addr) {
		memcpy(hints->src_addr, info->src_addr, info->src_addrlen);
		hints->src_addrlen = info->src_addrlen;
		lf.getinfo(info->fabric_attr->api_version, NULL, NULL, P2P_GETINFO_INTERNAL,
			   hints, &found);
	}
	lf.freeinfo(hints);
	return found;
}

bool lane_core_dear(const struct fi_info *info)
{
	return quirks_of(info, fi_version()) & QUIRK_DEAR;
}

struct fi_info *lane_core_info(const struct fi_info *info, const void *name, size_t len)
{
	struct fi_info *lane = core_info_aside(info), *tcp = NULL;

	if (lane && core_info_beside(lane, name, len)) {
		lf.freeinfo(lane);
		return NULL;
	}
	/* what has such endpoints itself offers fewer receives to who does not ask for more */
	if (lane && quirks_of(info, fi_version()) & (QUIRK_DEAR | QUIRK_STALLS))
		tcp = lane_core_info_tcp(lane);
	if (tcp) {
		lf.freeinfo(lane);
		lane = tcp;
	}
	if (lane) {
		lane->tx_attr->size = P2P_MIN(lane->tx_attr->size, LANE_SIZE);
		lane->rx_attr->size = P2P_MIN(lane->rx_attr->size, LANE_RECVS);
	}
	return lane;
}

uint64_t lane_core_kind(const struct fi_info *info)
{
	uint64_t kind = fi_version();

	for (const char *at = info->fabric_attr->prov_name; *at; at++)
		kind = kind * 31 + (unsigned char) *at;
	return kind;
}

int lane_core_open(struct lane_core *core, struct fi_info *info, struct fid_ep **ep)
{
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_FD,
	};
	struct fi_av_attr av_attr = {.type = info->domain_attr->av_type};
	int ret = fi_fabric(info->fabric_attr, &core->fabric, NULL);

	if (!ret)
		ret = fi_domain(core->fabric, info, &core->domain, NULL);
	if (!ret)
		ret = fi_cq_open(core->domain, &cq_attr, &core->cq, NULL);
	if (!ret)
		ret = fi_control(&core->cq->fid, FI_GETWAIT, &core->fd);
	if (!ret)
		ret = fi_av_open(core->domain, &av_attr, &core->av, NULL);
	if (!ret)
		ret = fi_endpoint(core->domain, info, ep, NULL);
	if (!ret)
		ret = fi_ep_bind(*ep, &core->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(*ep, &core->av->fid, 0);
	return ret ? ret : fi_enable(*ep);
}

static void lane_core_close_fid(struct fid *fid)
{
	int ret = fid ? fi_close(fid) : 0;

	if (ret)
		P2P_WARN("a lane does not close: %s\n", fi_strerror(-ret));
}

void lane_core_close(struct lane_core *core, struct fid_ep *ep)
{
	lane_core_close_fid(ep ? &ep->fid : NULL);
	lane_core_close_fid(core->av ? &core->av->fid : NULL);
	lane_core_close_fid(core->cq ? &core->cq->fid : NULL);
	lane_core_close_fid(core->domain ? &core->domain->fid : NULL);
	lane_core_close_fid(core->fabric ? &core->fabric->fid : NULL);
}
