/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 0: the libfabric that loaded us.
 *
 * fi_getinfo and its companions exist in several symbol versions. Linked, they would
 * tie the object to the release it was built with (and the oldest fi_dupinfo would cut
 * structures that have grown since). Bound at run time, in the default version, one
 * binary serves them all.
 */
#ifndef P2P_LF_H
#define P2P_LF_H

#include <rdma/fabric.h>

struct lf {
	int (*getinfo)(uint32_t version, const char *node, const char *service,
		       uint64_t flags, const struct fi_info *hints, struct fi_info **info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
};

extern struct lf lf;

/* Binds the functions. 0, or -FI_ENOSYS when the library in memory lacks one (logged). */
int lf_bind(void);

#endif /* P2P_LF_H */
