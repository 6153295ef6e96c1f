/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 5: memory regions. See mr.h. */
#include "mr.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "log.h"
#include "mem.h"

static int mr_close(struct fid *fid)
{
	struct p2p_mr *mr = (struct p2p_mr *) fid;
	int ret = mr->core ? fi_close(&mr->core->fid) : 0;

	if (!ret)
		free(mr);
	return ret;
}

static void mr_show_core(struct p2p_mr *mr)
{
	mr->fid.mem_desc = fi_mr_desc(mr->core);
	mr->fid.key = fi_mr_key(mr->core);
}

static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct p2p_mr *mr = (struct p2p_mr *) fid;

	return mr->core ? fi_mr_bind(mr->core, fid_core(bfid), flags) : 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	struct p2p_mr *mr = (struct p2p_mr *) fid;
	int ret;

	if (!mr->core)
		return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
	ret = fi_control(&mr->core->fid, command, arg);
	if (!ret && command == FI_ENABLE)
		mr_show_core(mr);
	return ret;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
	.ops_open = fid_ops_open,
};

/* Remote access to device memory needs a core that can reach it, or a protocol. */
static int mr_check_access(uint64_t access)
{
	if (!(access & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return 0;
	P2P_WARN("device memory cannot be the target of remote access on this provider\n");
	return -FI_EOPNOTSUPP;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr_fid)
{
	struct p2p_domain *domain = (struct p2p_domain *) fid;
	struct dev_mem mem;
	struct p2p_mr *mr;
	int ret;

	if (fid->fclass != FI_CLASS_DOMAIN || !attr || !attr->mr_iov || !mr_fid)
		return -FI_EINVAL;
	ret = mem_classify(attr->mr_iov, attr->iov_count, &mem);
	if (!ret && mem.ops)
		ret = mr_check_access(attr->access);
	if (ret)
		return ret;
	if (!mem.ops && attr->iface != FI_HMEM_SYSTEM) {
		P2P_WARN("memory at %p is registered as a device's and is not (or its GPU "
			 "runtime cannot be loaded)\n",
			 attr->mr_iov[0].iov_base);
		return -FI_EINVAL;
	}

	mr = calloc(1, sizeof *mr);
	if (!mr)
		return -FI_ENOMEM;
	mr->domain = domain;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = attr->context;
	mr->fid.fid.ops = &mr_fid_ops;
	if (!mem.ops) {
		ret = fi_mr_regattr(domain->core, attr, flags, &mr->core);
		if (ret) {
			free(mr);
			return ret;
		}
		mr_show_core(mr);
	} else {
		mr->fid.key = attr->requested_key;
	}
	*mr_fid = &mr->fid;
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t requested_key, uint64_t flags,
		   struct fid_mr **mr, void *context)
{
	/* longer than this header's, for releases where the structure has grown */
	union {
		struct fi_mr_attr attr;
		char room[256];
	} u = {.room = {0}};

	u.attr.mr_iov = iov;
	u.attr.iov_count = count;
	u.attr.access = access;
	u.attr.offset = offset;
	u.attr.requested_key = requested_key;
	u.attr.context = context;
	/* FI_HMEM_SYSTEM stands for "whatever it is" here: the address tells */
	u.attr.iface = FI_HMEM_SYSTEM;
	return mr_regattr(fid, &u.attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		  uint64_t offset, uint64_t requested_key, uint64_t flags,
		  struct fid_mr **mr, void *context)
{
	struct iovec iov = {(void *) buf, len};

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
