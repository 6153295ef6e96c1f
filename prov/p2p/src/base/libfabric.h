/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The libfabric that loaded us.
 *
 * fi_getinfo and its companions exist in several symbol versions. Linked, they would
 * tie the object to the release it was built with (and the oldest fi_dupinfo would cut
 * structures that have grown since). Bound at run time, in the default version, one
 * binary serves them all.
 */
#ifndef P2P_LIBFABRIC_H
#define P2P_LIBFABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

/* FI_MR_DMABUF, of libfabric 1.20 and later: attr->mr_iov is no list of buffers then */
#define LF_MR_DMABUF (1ULL << 40)

/* Longer than this header's structure, for releases where it has grown */
union libfabric_mr_attr {
	struct fi_mr_attr attr;
	char room[256];
};

struct lf {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
};

extern struct lf lf;

/* Binds the functions. 0, or -FI_ENOSYS when the library in memory lacks one (logged). */
int libfabric_bind(void);

#endif /* P2P_LIBFABRIC_H */
