/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the calls with GPU buffers have done: FI_P2P_MPI=report has MPI_Finalize print it. */
#ifndef P2P_MPI_REPORT_H
#define P2P_MPI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How a buffer's bytes went: down as they were; with the host's memory standing in; to other ranks by the library itself. And
 * how many of those by the host another call like this one might spare it
 */
enum report_way {
	REPORT_AS_IT_IS,
	REPORT_BY_HOST,
	REPORT_EXCHANGED,
	REPORT_SPARABLE,
	REPORT_WAYS
};

struct report_count {
	uint64_t calls, bytes[REPORT_WAYS];
};

/* Made by generate, with the wrappers: a name and a count of each, and what keeps its data from the host, or NULL */
extern const char *const report_names[], *const report_remedies[];
extern const unsigned int report_calls;
extern struct report_count report_counts[];

/* A call had a buffer of @bytes; @first: no other one before */
void report_count(unsigned int number, bool first, enum report_way way, size_t bytes);

/* All ranks call this: the first one prints the sums of all, if that is wished for; its own, if others lack the library. */
void report_print(void);

#endif /* P2P_MPI_REPORT_H */
