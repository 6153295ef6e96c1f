/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Poll sets: which of several queues and counters have something? */
#ifndef P2P_POLLSET_H
#define P2P_POLLSET_H

#include "fid/domain.h"

/* One of a set's objects; @value, @errors: what its counter said last */
struct pollset_entry {
	struct fid *fid;
	uint64_t value;
	uint64_t errors;
	LIST_ENTRY(pollset_entry) entry;
};

struct p2p_pollset {
	struct fid_poll fid;
	struct p2p_domain *domain;
	struct p2p_lock lock;
	LIST_HEAD(, pollset_entry) entries;
	LIST_ENTRY(p2p_pollset) entry;
};

static inline struct p2p_pollset *pollset_of(struct fid *fid)
{
	return container_of(fid, struct p2p_pollset, fid.fid);
}

int pollset_open(struct fid_domain *domain, struct fi_poll_attr *attr,
		 struct fid_poll **pollset);

/* Takes a queue or a counter that is closed out of all sets. */
void pollset_forget(const struct fid *fid);

#endif /* P2P_POLLSET_H */
