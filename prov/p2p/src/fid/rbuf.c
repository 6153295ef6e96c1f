/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Receive buffers that are chosen late. See rbuf.h. */
#include "fid/rbuf.h"

#include <string.h>
#include <sys/uio.h>
#include <rdma/fi_errno.h>

#include "fid/domain.h"
#include "fid/ep.h"

/* The providers' own agreement, by its name: its parts are not in libfabric's headers. */
#define RBUF_OPS "ofix_dynamic_rbuf_v2"

struct rbuf_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
	void *ep_context;
};

struct rbuf_ops {
	size_t size;
	ssize_t (*get)(struct rbuf_entry *entry, struct iovec *iov, size_t *count);
};

/* The core tells of its endpoint, whose context is ours (ep_open()). */
static ssize_t rbuf_get(struct rbuf_entry *entry, struct iovec *iov, size_t *count)
{
	const struct p2p_ep *ep = entry->ep_context;

	entry->ep_context = ep->fid.fid.context;
	return ep->domain->rbuf->get(entry, iov, count);
}

int rbuf_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
	static struct rbuf_ops handed = {.size = sizeof handed, .get = rbuf_get};
	struct p2p_domain *domain = domain_of(fid);
	const struct rbuf_ops *asked = ops;

	if (!name || !ops)
		return -FI_EINVAL;
	if (xfer_announces(&domain->xfer) || strcmp(name, RBUF_OPS) ||
	    asked->size != sizeof *asked)
		return -FI_ENOSYS;
	domain->rbuf = asked;
	return fi_set_ops(&domain->core->fid, name, flags, &handed, context);
}
