/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the library under test sends: its calls of PMPI_Isend() come to sent.c, which counts them. */
#ifndef FT_MPI_SENT_H
#define FT_MPI_SENT_H

#include <stddef.h>

/**
 * struct mpi_sent - messages so far; a test sets it back.
 * @all, @watched: how many, and how many of them out of what mpi_sent_watch() was told
 */
struct mpi_sent {
	unsigned long all, watched;
};

extern struct mpi_sent mpi_sent;

/** mpi_sent_watch() - messages out of these bytes count by themselves */
void mpi_sent_watch(const void *addr, size_t len);

#endif /* FT_MPI_SENT_H */
