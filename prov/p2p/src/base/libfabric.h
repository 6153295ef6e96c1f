/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The libfabric that loaded us.
 *
 * fi_getinfo and its companions exist in several symbol versions. Linked functions would tie
 * the object to the release that it was built with. The oldest fi_dupinfo would also cut
 * structures that have grown since. So libfabric_bind() binds the default versions at run time.
 * One binary then works with all releases.
 */
#ifndef P2P_LIBFABRIC_H
#define P2P_LIBFABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

/* FI_MR_DMABUF, of libfabric 1.20 and later. With it, attr->mr_iov points at the structure below. */
#define LF_MR_DMABUF (1ULL << 40)

/* struct fi_mr_dmabuf: @len bytes from @offset on. They are at @base_addr + @offset, if that is not NULL */
struct lf_mr_dmabuf {
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr;
};

/* FI_BUFFERED_RECV works in 2.x, where it has no public name. */
#define LF_BUFFERED_RECV (1ULL << 51)
/* Applications of these APIs and later have struct fi_mr_attr with auth_key, and with iface */
#define LF_MR_AUTH_KEY_API FI_VERSION(1, 5)
#define LF_MR_IFACE_API FI_VERSION(1, 9)

/* Room for releases where the structure is longer than in the header of this build */
union libfabric_mr_attr {
	struct fi_mr_attr attr;
	char room[256];
};

/* The same for an info. What is behind our header's members is not known, and zero */
union libfabric_info {
	struct fi_info info;
	char room[512];
};

/*
 * Of libfabric 2.7 and later, for GPUs that communicate: fi_xpu(3). Before 2.0 the first bit was
 * FI_XPU_TRIGGER, which no core had. Attributes have a context only under that bit: an older
 * application's end before it.
 */
#define LF_XPU (1ULL << 44)
#define LF_MR_XPU_DESC (1 << 12)
#define LF_CLASS_XPU_CTX (FI_CLASS_PEER_AV_SET + 3)
#define LF_GET_MR_XPU_DESC (FI_EXPORT_FID + 2)

struct fid_xpu_ctx;

/* The argument of fi_control() with LF_GET_MR_XPU_DESC */
struct lf_mr_xpu_desc {
	void *buf;
	size_t *len;
	uint64_t flags;
	struct fid_xpu_ctx *ctx;
};

/* Where the member behind another one is [bytes] */
#define LF_BEHIND(type, member) (offsetof(type, member) + sizeof(((type *) NULL)->member))

/* Where attributes have the pointer to their context [bytes] */
#define LF_EP_ATTR_XPU_CTX LF_BEHIND(struct fi_ep_attr, auth_key)
#define LF_CQ_ATTR_XPU_CTX LF_BEHIND(struct fi_cq_attr, wait_set)
#define LF_CNTR_ATTR_XPU_CTX LF_BEHIND(struct fi_cntr_attr, flags)

/* Where tables have their entries [bytes] */
#define LF_DOMAIN_XPU_CTX LF_BEHIND(struct fi_ops_domain, endpoint2)
#define LF_EP_EXPORT_XPU LF_BEHIND(struct fi_ops_ep, tx_size_left)
#define LF_CQ_EXPORT_XPU LF_BEHIND(struct fi_ops_cq, strerror)
#define LF_CNTR_EXPORT_XPU LF_BEHIND(struct fi_ops_cntr, seterr)
/* behind insert_auth_key, lookup_auth_key, set_user_id */
#define LF_AV_LOOKUP2 (LF_BEHIND(struct fi_ops_av, av_set) + 3 * sizeof(void (*)(void)))

/* Where entries of errors have their source [bytes], for applications of API 1.20 and later */
#define LF_CQ_ERR_SRC LF_BEHIND(struct fi_cq_err_entry, err_data_size)
#define LF_CQ_ERR_SRC_API FI_VERSION(1, 20)

/* The end of struct fi_domain_attr, from tclass on */
struct lf_domain_attr_end {
	uint32_t tclass;
	size_t max_ep_auth_key;
	uint32_t max_group_id;
	uint64_t max_cntr_value;
	uint64_t max_err_cntr_value;
	size_t max_xpu_ctx_cnt;
};

/**
 * struct lf - the functions, and
 * @xpu:	whether structures have what belongs to LF_XPU. The version does not tell: libfabric
 *		had the members before it called itself 2.7
 */
struct lf {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
	bool xpu;
};

extern struct lf lf;

/*
 * A copy of an application's @info, or NULL. As fi_dupinfo(), which calls @info->nic whatever it is: here, what cannot
 * be copied is left out. NULL gives an empty one.
 */
struct fi_info *libfabric_copy_info(const struct fi_info *info);

/* Binds the functions. Returns 0, or -FI_ENOSYS if the library lacks one (logged). */
int libfabric_bind(void);

#endif /* P2P_LIBFABRIC_H */
