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

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

/* FI_MR_DMABUF, of libfabric 1.20 and later. With it, attr->mr_iov is no list of buffers. */
#define LF_MR_DMABUF (1ULL << 40)

/* Room for releases where the structure is longer than in the header of this build */
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

/* Binds the functions. Returns 0, or -FI_ENOSYS if the library lacks one (logged). */
int libfabric_bind(void);

#endif /* P2P_LIBFABRIC_H */
