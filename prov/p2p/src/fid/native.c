/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* GPUs by libfabric's own calls. See native.h. */
#include "fid/native.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "base/log.h"
#include "fid/fid.h"

const struct fi_p2p_xpu_ops *native_calls;

int native_ctx_take(struct p2p_domain *domain, uint64_t flags, const void *attr, size_t offset,
		    struct native_ctx **taken)
{
	struct fid_xpu_ctx *fid = NULL;
	struct native_ctx *ctx;

	*taken = NULL;
	if (!(flags & LF_XPU))
		return 0;
	memcpy(&fid, (const char *) attr + offset, sizeof fid);
	if (!fid || !fid_class(&fid->fid) || fid->fid.fclass != LF_CLASS_XPU_CTX)
		goto refuse;
	ctx = container_of(fid, struct native_ctx, fid);
	if (ctx->domain != domain)
		goto refuse;
	__atomic_fetch_add(&ctx->users, 1, __ATOMIC_RELAXED);
	*taken = ctx;
	return 0;

refuse:
	P2P_WARN("FI_XPU: xpu_ctx is no context of the object's domain\n");
	return -FI_EINVAL;
}

int native_refuse(void)
{
	P2P_WARN("an export: the object was opened without FI_XPU in its flags\n");
	return -FI_EINVAL;
}

void native_ctx_drop(struct native_ctx *ctx)
{
	if (ctx)
		__atomic_fetch_sub(&ctx->users, 1, __ATOMIC_RELEASE);
}
