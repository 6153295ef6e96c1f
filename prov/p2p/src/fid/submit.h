/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where an endpoint's operations go on, whoever has filled them: works that wait for counters, streams, kernels, and
 * those of libfabric's calls that do not go to the core at once.
 */
#ifndef P2P_SUBMIT_H
#define P2P_SUBMIT_H

#include "fid/ep.h"
#include "xfer/op.h"

/*
 * Posts an operation, which is changed by that. 0, -FI_EAGAIN: there is no room now, or another error. Who is not
 * asked to pass by what operations with FI_TRIGGER do calls @ep->submit
 */
ssize_t ep_submit(struct p2p_ep *ep, struct p2p_op *op);

/*
 * Tells whether one piece of a buffer, which has an address, is device memory, or that is not known. Then
 * xfer_post() asks again, and may have to tell of an error. @seen: for struct p2p_op
 */
static inline bool submit_is_device(const struct p2p_ep *ep, const void *buf, size_t len,
				    const void *desc, struct dev_mem *seen)
{
	return dev_active() &&
	       desc_cache_find_device(&ep->xfer.xfer->descs, buf, len, desc, seen);
}

#endif /* P2P_SUBMIT_H */
