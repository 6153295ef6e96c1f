/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address vectors.
 *
 * An endpoint may have to answer a peer that the application never inserted. Such a peer goes into
 * the core's address vector, too, and must not shift the indices that the application sees. Until
 * the first one comes, the application's addresses are the core's. From then on a table leads from
 * the one to the other.
 */
#ifndef P2P_AV_H
#define P2P_AV_H

#include <pthread.h>
#include <rdma/fi_domain.h>

#include "base/base.h"
#include "fid/domain.h"
#include "fid/fid.h"

/**
 * struct p2p_av - an address vector.
 * @lock:	guards everything but @table, which is read without it
 * @indexed:	FI_AV_TABLE: the application's addresses are indices
 * @known:	the core's address of each peer that the application has inserted: by the
 *		application's index if addresses are indices, else in order. A longer table
 *		replaces one that is full, which is kept for its readers
 * @lowest:	entries of @known below this one are in use
 * @table:	leads from the application's addresses to the core's: @known, once a peer was
 *		learned; NULL: both are the same
 * @named:	@names was made, when the first peer was looked up
 * @names, @named_addrs: the core's addresses by name, and the same entries by address
 * @found:	what was looked up last, in @names, or NULL
 * @closed:	tells those who keep a pointer to the vector that it is closed; NULL: nobody does
 */
struct p2p_av {
	struct fid_av fid;
	struct fid_av *core;
	struct av_table *table;
	struct p2p_domain *domain;
	bool indexed;
	pthread_mutex_t lock;
	struct av_table *known;
	size_t lowest;
	bool named;
	struct av_name *names;
	struct av_name *named_addrs;
	struct av_name *found;
	void (*closed)(const struct p2p_av *av);
	struct fid_pair pair;
};

static inline struct p2p_av *av_of(struct fid *fid)
{
	return container_of(fid, struct p2p_av, fid.fid);
}

int av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
	    void *context);

/* Opens one that the application knows nothing of: only av_resolve() inserts into it */
int av_open_own(struct p2p_domain *domain, struct p2p_av **av);

/*
 * The name of one of the core's addresses, in the one form that names have here. @name: has room for WIRE_NAME_MAX. 0 or a
 * negative error
 */
int av_lookup_name(const struct p2p_av *av, fi_addr_t addr, void *name, size_t *len);

fi_addr_t av_core_addr_slow(const struct p2p_av *av, fi_addr_t addr);
fi_addr_t av_user_addr_slow(const struct p2p_av *av, fi_addr_t addr);

/* Tells whether the application's addresses are the core's. */
static inline bool av_same(const struct p2p_av *av)
{
	return p2p_unlikely(!av) || p2p_likely(!__atomic_load_n(&av->table, __ATOMIC_ACQUIRE));
}

/* Returns the core's address for one of the application's */
static inline fi_addr_t av_core_addr(const struct p2p_av *av, fi_addr_t addr)
{
	if (av_same(av))
		return addr;
	return av_core_addr_slow(av, addr);
}

/* Tells whether @addr names nobody. While the addresses are the core's, only the core knows. */
static inline bool av_unknown(const struct p2p_av *av, fi_addr_t addr)
{
	return addr != FI_ADDR_UNSPEC && av_core_addr(av, addr) == FI_ADDR_NOTAVAIL;
}

/* Replaces the application's address by the core's. -FI_EINVAL, and a warning: nobody has it */
int av_to_core(const struct p2p_av *av, fi_addr_t *addr);

/* The application's address for one of the core's; FI_ADDR_NOTAVAIL: it does not know the peer */
static inline fi_addr_t av_user_addr(const struct p2p_av *av, fi_addr_t addr)
{
	if (av_same(av))
		return addr;
	return av_user_addr_slow(av, addr);
}

/*
 * Finds the core's address of the peer with this name. Who is not known is inserted (@learn), or
 * -FI_ENOENT.
 */
int av_resolve(struct p2p_av *av, const void *name, size_t len, bool learn, fi_addr_t *addr);

#endif /* P2P_AV_H */
