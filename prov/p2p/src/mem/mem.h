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
 * Tells whether all of a buffer of @len > 0 bytes lies in the heap that grows with brk(2). Only the heap is
 * ever mapped there, so no driver has to be asked.
 *
 * False where that is not known. malloc() takes larger buffers, and those of other threads, from elsewhere.
 */
bool mem_in_heap(const void *addr, size_t len);

/*
 * Tells whether all of a buffer of @len > 0 bytes lies in the used part of the calling thread's stack. Nothing
 * else can be there as long as the thread runs on it.
 *
 * False where that is not known, and for other threads' stacks.
 */
bool mem_in_stack(const void *addr, size_t len);

/*
 * Looks for device memory at either end of a buffer. 1: there is, and @mem is filled with its allocation. 0:
 * no. Negative: the runtime does not say (-FI_EIO, logged), nor can the CPU read there: nothing may touch the buffer.
 *
 * Callers ask only if dev_active(). An operation on a host buffer pays for this question there, unless its
 * descriptor tells (desc_cache.h).
 */
int mem_find_device(const void *addr, size_t len, struct dev_mem *mem);

/* The same where only that matters */
static inline int mem_is_device(const void *addr, size_t len)
{
	struct dev_mem mem;

	return dev_active() ? mem_find_device(addr, len, &mem) : 0;
}

/*
 * Looks at every piece of a buffer. Fills @mem with the first device allocation found, or with
 * ops = NULL if all of it is host memory.
 *
 * @seen: an allocation that the same call of the application's has shown already, or NULL.
 * Nobody is asked about it again.
 *
 * Returns 0 or a negative error, logged with the piece:
 * -FI_EINVAL	a piece has a length but no address
 * -FI_EFAULT	a piece leaves the allocation that it begins in, or begins in host memory and
 *		runs into device memory; or the CPU would fault there, as where device memory
 *		has been freed
 * -FI_EIO	the runtime does not say what a piece is
 *
 * After this call, our copy queues see the copies that the application has made before it.
 */
int mem_classify(const struct iovec *iov, size_t count, const struct dev_mem *seen,
		 struct dev_mem *mem);

/*
 * Tells whether the context is gone in which memory that belongs to none was worked on. Then it has another one: look again
 */
bool mem_moved(const struct dev_mem *mem);

/* The same where nobody touches the memory now, as it is registered. Nothing need be there yet */
int mem_classify_untouched(const struct iovec *iov, size_t count, struct dev_mem *mem);

/*
 * The length of a buffer that is to be registered, without what its last page has behind the end of a device's
 * allocation: who registers whole pages names that, too
 */
size_t mem_page_len(const struct iovec *iov);

/*
 * Can the CPU read at @addr, which no runtime knows? The kernel is asked once for each page, and
 * again after device memory has been there.
 */
bool mem_readable(const void *addr);

/* Returns the bytes in @iov; SIZE_MAX if the sum is more than that */
size_t mem_iov_len(const struct iovec *iov, size_t count);

/*
 * Copies the part of @iov that begins @offset bytes in and is @len bytes long. Writes at most @count pieces to
 * @out, and returns how many. @out may not overlap @iov.
 */
size_t mem_iov_slice(const struct iovec *iov, size_t count, size_t offset, size_t len,
		     struct iovec *out);

/* Copies all of @iov, host memory, to the consecutive bytes at @host, or back */
void mem_gather(const struct iovec *iov, size_t count, void *host);
void mem_scatter(const struct iovec *iov, size_t count, const void *host);

#endif /* P2P_MEM_H */
