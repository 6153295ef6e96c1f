/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a program has of libfabric 2.7 for fi_xpu(3), whatever the headers of this build have: numbers of
 * entries in tables, and where members of attributes are, with 8 bytes a pointer. Like the inline functions
 * there, the calls here do not look at a table's size.
 */
#ifndef XPU_NATIVE_H
#define XPU_NATIVE_H

#include <stdint.h>
#include <string.h>
#include <rdma/fi_p2p_xpu.h>

#define NATIVE_XPU (1ULL << 44)
#define NATIVE_GET_MR_XPU_DESC 21

/* The entries; a table's size is number 0 */
enum {
	NATIVE_DOMAIN_ENDPOINT2 = 11,
	NATIVE_DOMAIN_XPU_CTX,
	NATIVE_EP_EXPORT_XPU = 8,
	NATIVE_CQ_EXPORT_XPU = 8,
	NATIVE_CNTR_EXPORT_XPU = 8,
	NATIVE_AV_LOOKUP2 = 11,
};

/* Where attributes have xpu_ctx, or the number of contexts [bytes] */
enum {
	NATIVE_EP_ATTR_XPU_CTX = 96,
	NATIVE_CQ_ATTR_XPU_CTX = 40,
	NATIVE_CNTR_ATTR_XPU_CTX = 24,
	NATIVE_DOMAIN_ATTR_XPU_CTXS = 224,
};

/* Attributes, with room for what newer headers have */
union native_attr {
	struct fi_ep_attr ep;
	struct fi_cq_attr cq;
	struct fi_cntr_attr cntr;
	char room[256];
};

static inline void native_attr_set(union native_attr *attr, size_t offset,
				   struct fid_xpu_ctx *ctx)
{
	memcpy(attr->room + offset, &ctx, sizeof(ctx));
}

/** struct native_desc - the argument of fi_control() for a raw descriptor */
struct native_desc {
	void *buf;
	size_t *len;
	uint64_t flags;
	struct fid_xpu_ctx *ctx;
};

typedef void (*native_entry)(void);

static inline native_entry native_get(const void *table, size_t number)
{
	native_entry entry;

	memcpy(&entry, (const char *) table + number * sizeof(entry), sizeof(entry));
	return entry;
}

static inline int native_xpu_ctx(struct fid_domain *domain, struct fi_xpu_attr *attr,
				 struct fid_xpu_ctx **ctx, void *context)
{
	int (*call)(struct fid_domain *, struct fi_xpu_attr *, struct fid_xpu_ctx **, void *) =
		(__typeof__(call)) native_get(domain->ops, NATIVE_DOMAIN_XPU_CTX);

	return call(domain, attr, ctx, context);
}

static inline int native_ep_export(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *xpu)
{
	int (*call)(struct fid_ep *, uint64_t, struct fid_xpu_ep *) =
		(__typeof__(call)) native_get(ep->ops, NATIVE_EP_EXPORT_XPU);

	return call(ep, flags, xpu);
}

static inline int native_cq_export(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *xpu)
{
	int (*call)(struct fid_cq *, uint64_t, struct fid_xpu_cq *) =
		(__typeof__(call)) native_get(cq->ops, NATIVE_CQ_EXPORT_XPU);

	return call(cq, flags, xpu);
}

static inline int native_cntr_export(struct fid_cntr *cntr, uint64_t flags,
				     struct fid_xpu_cntr *xpu)
{
	int (*call)(struct fid_cntr *, uint64_t, struct fid_xpu_cntr *) =
		(__typeof__(call)) native_get(cntr->ops, NATIVE_CNTR_EXPORT_XPU);

	return call(cntr, flags, xpu);
}

static inline int native_av_lookup2(struct fid_av *av, fi_addr_t addr, void *buf, size_t *len,
				    uint64_t flags, struct fid_xpu_ctx *ctx)
{
	int (*call)(struct fid_av *, fi_addr_t, void *, size_t *, uint64_t,
		    struct fid_xpu_ctx *) =
		(__typeof__(call)) native_get(av->ops, NATIVE_AV_LOOKUP2);

	return call(av, addr, buf, len, flags, ctx);
}

static inline int native_mr_desc(struct fid_mr *mr, void *buf, size_t *len, uint64_t flags,
				 struct fid_xpu_ctx *ctx)
{
	struct native_desc desc = {buf, len, flags, ctx};

	return fi_control(&mr->fid, NATIVE_GET_MR_XPU_DESC, &desc);
}

#endif /* XPU_NATIVE_H */
