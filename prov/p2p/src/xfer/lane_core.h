/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The core's objects of a lane (lane.h), in a fabric of their own. Threads that share a domain take turns; and a thread
 * that reads an event queue makes progress for the whole fabric, in place of the other lanes' threads.
 */
#ifndef P2P_LANE_CORE_H
#define P2P_LANE_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

/* @fd: what to sleep on until @cq has something */
struct lane_core {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	int fd;
};

/*
 * What lanes are opened with, beside an endpoint that the core has opened with @info and that has this name; NULL:
 * there is nothing. Where an endpoint of the core's takes much memory (QUIRK_DEAR) they are of another provider's, if
 * that is there. The caller frees it.
 */
struct fi_info *lane_core_info(const struct fi_info *info, const void *name, size_t len);

/* Does each lane take much memory? */
bool lane_core_dear(const struct fi_info *info);

/* A number that is the same where lanes understand each other: of the provider and its release */
uint64_t lane_core_kind(const struct fi_info *info);

/* 0 or an error. What is open is to be closed either way. */
int lane_core_open(struct lane_core *core, struct fi_info *info, struct fid_ep **ep);
void lane_core_close(struct lane_core *core, struct fid_ep *ep);

#endif /* P2P_LANE_CORE_H */
