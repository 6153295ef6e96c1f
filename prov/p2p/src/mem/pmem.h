/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Mappings of files whose bytes are to outlive the machine's power. What a mapping is decides what makes its bytes durable.
 */
#ifndef P2P_PMEM_H
#define P2P_PMEM_H

#include <stddef.h>
#include <stdio.h>
#include <sys/uio.h>

/**
 * enum pmem_kind - what memory is.
 * @PMEM_NOT:	no mapping of a file that others see
 * @PMEM_FILE:	a mapping whose pages the kernel writes to the file: msync() is waited for
 * @PMEM_DAX:	persistent memory itself, mapped with MAP_SYNC or from a device: what is written there
 *		is durable once it has left the processor's caches
 */
enum pmem_kind { PMEM_NOT, PMEM_FILE, PMEM_DAX };

/* In words, for the log */
const char *pmem_kind_says(enum pmem_kind kind);

/* What all of @iov is: PMEM_DAX only if each byte is. 0 or a negative error, logged */
int pmem_look(const struct iovec *iov, size_t count, enum pmem_kind *kind);

/* The same, where @smaps has what /proc/self/smaps has: see proc(5) */
enum pmem_kind pmem_look_in(FILE *smaps, const struct iovec *iov, size_t count);

/* Makes the bytes of @iov durable, and waits for that: milliseconds. 0 or a negative error, logged */
int pmem_flush(enum pmem_kind kind, const struct iovec *iov, size_t count);

#endif /* P2P_PMEM_H */
