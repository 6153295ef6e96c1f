/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * GPUs by libfabric's own calls: fi_xpu(3), since 2.7. A program opens a context, then objects for it,
 * then exports these. The calls are those of FI_P2P_XPU_OPS, which has them on every release.
 */
#ifndef P2P_NATIVE_H
#define P2P_NATIVE_H

#include <rdma/fi_p2p_xpu.h>

#include "fid/domain.h"

/**
 * struct native_ctx - a context, as objects know it.
 * @users:	objects that were opened for it: it is closed after them
 */
struct native_ctx {
	struct fid_xpu_ctx fid;
	struct p2p_domain *domain;
	unsigned int users;
};

/* The calls, which a rank above has; NULL: a hook, which has none */
extern const struct fi_p2p_xpu_ops *native_calls;

/*
 * What an object is opened for. The attributes @attr have a pointer at @offset, but only if @flags have
 * LF_XPU. Sets @ctx, to NULL without that flag, or returns -FI_EINVAL.
 */
int native_ctx_take(struct p2p_domain *domain, uint64_t flags, const void *attr, size_t offset,
		    struct native_ctx **ctx);
/* The export of an object that was opened for no context: -FI_EINVAL (logged) */
int native_refuse(void);
/* The object is closed, or was not opened. @ctx may be NULL */
void native_ctx_drop(struct native_ctx *ctx);

#endif /* P2P_NATIVE_H */
