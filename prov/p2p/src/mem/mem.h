/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What kind of memory a message's buffer is. */
#ifndef P2P_MEM_H
#define P2P_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/base.h"
#include "dev/dev.h"

/*
 * Does all of a buffer of @len > 0 bytes lie in the heap that grows with brk(2)? Nothing
 * is ever mapped in there but the heap, so no driver has to be asked. False where it is
 * not known; malloc() takes larger buffers, and those of other threads, from elsewhere.
 */
bool mem_in_heap(const void *addr, size_t len);

/*
 * Does all of a buffer of @len > 0 bytes lie in the part of the calling thread's stack that
 * is in use? Nothing else can be there as long as the thread runs on it. False where it is
 * not known, and for other threads' stacks.
 */
bool mem_in_stack(const void *addr, size_t len);

/*
 * Is there device memory at either end of a buffer? Fills @mem with its allocation if so. Only
 * asked where dev_active(): that is what an operation on a host buffer pays for there, unless
 * its descriptor tells (desc_cache.h).
 */
bool mem_finds_device(const void *addr, size_t len, struct dev_mem *mem);

static inline bool mem_is_device(const void *addr, size_t len)
{
	struct dev_mem mem;

	return dev_active() && mem_finds_device(addr, len, &mem);
}

/*
 * Looks at every piece of a buffer. @seen: an allocation that the caller, in the same call of
 * the application's, has seen already: nobody is asked for it again; or NULL. Fills @mem with
 * the first device allocation found, or with ops = NULL when all of it is host memory. Returns
 *   -FI_EINVAL	a piece has length but no address
 *   -FI_EFAULT	a piece leaves the allocation that it begins in, or begins in host memory
 *		and runs into device memory
 * Both are logged, with the piece. Copies that the application made before are visible
 * to our copy queues afterwards.
 */
int mem_classify(const struct iovec *iov, size_t count, const struct dev_mem *seen,
		 struct dev_mem *mem);

/* The bytes in @iov; SIZE_MAX if the sum is more than that */
size_t mem_iov_len(const struct iovec *iov, size_t count);

/*
 * The part of @iov that begins @offset bytes in and is @len long. Writes at most @count
 * pieces to @out (which may not overlap @iov) and returns how many.
 */
size_t mem_iov_slice(const struct iovec *iov, size_t count, size_t offset, size_t len,
		     struct iovec *out);

/* Copies all of @iov, host memory, to the consecutive bytes at @host, or back */
void mem_gather(const struct iovec *iov, size_t count, void *host);
void mem_scatter(const struct iovec *iov, size_t count, const void *host);

#endif /* P2P_MEM_H */
