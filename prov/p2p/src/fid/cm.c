/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections. See cm.h. */
#include "fid/cm.h"

#include <rdma/fi_endpoint.h>

#include "fid/collective.h"
#include "fid/ep.h"
#include "fid/fid.h"
#include "fid/pep.h"

static struct fid_ep *cm_core_ep(struct fid_ep *ep)
{
	return ep_of(&ep->fid)->xfer.front.core;
}

static int cm_setname(fid_t fid, void *addr, size_t addrlen)
{
	return fi_setname(fid_core(fid), addr, addrlen);
}

static int cm_getname(fid_t fid, void *addr, size_t *addrlen)
{
	return fi_getname(fid_core(fid), addr, addrlen);
}

static int cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return fi_getpeer(cm_core_ep(ep), addr, addrlen);
}

static int cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
	return fi_connect(cm_core_ep(ep), addr, param, paramlen);
}

static int cm_listen(struct fid_pep *pep)
{
	return fi_listen(pep_of(&pep->fid)->core);
}

static int cm_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
	return fi_accept(cm_core_ep(ep), param, paramlen);
}

static int cm_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	return fi_reject(pep_of(&pep->fid)->core, handle, param, paramlen);
}

static int cm_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return fi_shutdown(cm_core_ep(ep), flags);
}

struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = cm_setname,
	.getname = cm_getname,
	.getpeer = cm_getpeer,
	.connect = cm_connect,
	.listen = cm_listen,
	.accept = cm_accept,
	.reject = cm_reject,
	.shutdown = cm_shutdown,
	.join = collective_join,
};
