/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What every file may use: a few macros, and the names that libfabric's core
 * and its utility providers share without having them in an installed header.
 */
#ifndef P2P_BASE_H
#define P2P_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fabric.h>

#define P2P_NAME "ofi_p2p"
#define P2P_HOOK_NAME "ofi_hook_p2p"

#define p2p_likely(x) __builtin_expect(!!(x), 1)
#define p2p_unlikely(x) __builtin_expect(!!(x), 0)

/* Written out in each of its callers, where what they give is known */
#define P2P_INLINE static inline __attribute__((always_inline))

/* Kept out of its callers, which then need not keep anything for it */
#define P2P_NOINLINE __attribute__((noinline))

/* The same: what seldom happens shall cost those nothing that call it */
#define P2P_APART __attribute__((noinline, cold))

/* Not to be looked for in other libraries, which takes a load */
#define P2P_HIDDEN __attribute__((visibility("hidden")))

/*
 * For small functions that look, without a lock, at what other threads may change, where each
 * instruction counts: a plain load is part of the comparison, an atomic one never is. Only for who
 * looks once in a call of the application's: a loop may look once for all its rounds.
 */
#ifdef __SANITIZE_THREAD__ /* gcc's, which looks at what has moved to a caller all the same */
#define P2P_GLANCE static __attribute__((no_sanitize("thread"), noipa, unused))
#else
#define P2P_GLANCE static inline __attribute__((no_sanitize("thread")))
#endif

#define P2P_MIN(a, b) ((a) < (b) ? (a) : (b))
#define P2P_MAX(a, b) ((a) > (b) ? (a) : (b))
#define P2P_ALIGN_UP(x, a) (((x) + (a) -1) & ~((size_t) (a) -1))

/* What every message on its way to the core or back makes us look at lies together in these. */
#define P2P_CACHE_LINE 64

/* Zeroed memory that begins with a cache line, for free(3); NULL: there is none */
static inline void *p2p_new(size_t size)
{
	void *obj = aligned_alloc(P2P_CACHE_LINE, P2P_ALIGN_UP(size, P2P_CACHE_LINE));

	return obj ? memset(obj, 0, size) : NULL;
}

/* More pieces than this in one message are not offered (fi_tx_attr.iov_limit) */
#define P2P_IOV_MAX 8

/*
 * Flags of fi_getinfo that libfabric keeps for its own providers; the same bits in
 * every release since 1.10.
 */
#define P2P_GETINFO_INTERNAL (1ULL << 58)
#define P2P_OFFLOAD_PROV_ONLY (1ULL << 61)

#endif /* P2P_BASE_H */
