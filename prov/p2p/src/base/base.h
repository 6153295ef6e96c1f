/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What every file may use: a few macros, and names that no installed header of libfabric has.
 * libfabric's core and its utility providers share these names.
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

/* Headers of libfabric 1.17 have it, those of 2.1 do not. */
#ifndef container_of
#define container_of(ptr, type, field) ((type *) ((char *) (ptr) -offsetof(type, field)))
#endif

#define p2p_likely(x) __builtin_expect(!!(x), 1)
#define p2p_unlikely(x) __builtin_expect(!!(x), 0)

/* The compiler writes such a function out in each caller, where the arguments are known */
#define P2P_INLINE static inline __attribute__((always_inline))

/* The compiler keeps such a function out of its callers, which then save no registers for it */
#define P2P_NOINLINE __attribute__((noinline))

/* The same for what seldom happens: it shall cost its callers nothing */
#define P2P_APART __attribute__((noinline, cold))

/* Such a name is this object's own. So no access has to load its address first. */
#define P2P_HIDDEN __attribute__((visibility("hidden")))

/*
 * For small functions that look, without a lock, at what other threads may change.
 *
 * Use it where each instruction counts. The compiler makes a plain load part of the comparison,
 * and an atomic load never. Only functions that look once in a call of the application's may
 * use it: the compiler may turn the looks of a loop into one.
 */
/* gcc's sanitizer also looks at such code where it is part of a caller. So it stays apart. */
#ifdef __SANITIZE_THREAD__
#define P2P_GLANCE static __attribute__((no_sanitize("thread"), noipa, unused))
#else
#define P2P_GLANCE static inline __attribute__((no_sanitize("thread")))
#endif

#define P2P_MIN(a, b) ((a) < (b) ? (a) : (b))
#define P2P_MAX(a, b) ((a) > (b) ? (a) : (b))
#define P2P_ALIGN_UP(x, a) (((x) + (a) -1) & ~((size_t) (a) -1))

/*
 * The data that each message on its way to or from the core needs lies together in such lines.
 */
#define P2P_CACHE_LINE 64

/* Zeroed memory that begins with a cache line, to be freed by free(3). NULL: there is none */
static inline void *p2p_new(size_t size)
{
	void *obj = aligned_alloc(P2P_CACHE_LINE, P2P_ALIGN_UP(size, P2P_CACHE_LINE));

	return obj ? memset(obj, 0, size) : NULL;
}

/* The most pieces of one message that we offer (fi_tx_attr.iov_limit) */
#define P2P_IOV_MAX 8

/*
 * Flags of fi_getinfo that libfabric keeps for its own providers. The bits are the same in
 * every release since 1.10.
 */
#define P2P_GETINFO_INTERNAL (1ULL << 58)
#define P2P_OFFLOAD_PROV_ONLY (1ULL << 61)

#endif /* P2P_BASE_H */
