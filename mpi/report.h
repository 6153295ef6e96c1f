/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the calls with GPU buffers have done: FI_P2P_MPI=report has MPI_Finalize print it. */
#ifndef P2P_MPI_REPORT_H
#define P2P_MPI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that went down as they were, and bytes that the host's memory stood in for */
struct report_count {
	uint64_t calls, as_they_are, by_host;
};

/* Made by generate, with the wrappers: a name and a count of each */
extern const char *const report_names[];
extern const unsigned int report_calls;
extern struct report_count report_counts[];

/* A call had a buffer of @bytes; @first: no other one before */
void report_count(unsigned int number, bool first, bool by_host, size_t bytes);

/* All ranks call this: the first one prints the sums of all, if that is wished for. */
void report_print(void);

#endif /* P2P_MPI_REPORT_H */
