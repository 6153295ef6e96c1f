/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Communicators that the application does not see, for messages of the library's own: one beside each of the application's.
 * It is made with that one, and freed with it. A child has one if its parent has, so that all ranks agree. There is none
 * where no rank can have a GPU, between two groups, for dynamic processes, nor beside what MPI_Comm_idup() makes, or
 * MPI_Comm_create_group(): several threads call that with one parent, and Open MPI 4.1 hangs if each makes two.
 */
#ifndef P2P_MPI_HIDDEN_H
#define P2P_MPI_HIDDEN_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* A process has no more at a time: MPICH allows some 2,000 communicators. */
#define HIDDEN_MOST 64

/* Is there any? One load. */
bool hidden_any(void);

/* Do some ranks of the world do without this library? Then nothing of its own may be asked of them. */
bool hidden_partly(void);

/* The one beside @comm, or MPI_COMM_NULL: all its ranks get the same answer. */
MPI_Comm hidden_of(MPI_Comm comm);

/* Are some of its ranks on another host, or may not copy from GPU to GPU? The same for all ranks */
bool hidden_far(MPI_Comm comm);

/*
 * Bytes of a rank's piece, on average, from which on collective calls go from GPU to GPU: shorter ones are quicker through
 * host memory. If all ranks are on one host that is where messages begin to be copied from GPU to GPU. Else they are
 * staged: 4 ranks over TCP break even between 64 and 256 KiB (docs/results/2026-11-30-h200-mpi.md).
 */
#define HIDDEN_PIECE_NEAR 65536
#define HIDDEN_PIECE_FAR 262144

/* One of the two, the same for all ranks */
size_t hidden_piece(MPI_Comm comm);

/*
 * Bytes up to which a broadcast is quicker through host memory: MPI sends it in a tree, and each message of GPU memory would be
 * staged by itself. Within a host longer ones are copied from GPU to GPU.
 */
#define HIDDEN_TREE_NEAR 16384
#define HIDDEN_TREE_FAR 524288

size_t hidden_tree(MPI_Comm comm);

/* Beside the world: after MPI_Init(), and before MPI_Finalize(). All ranks call these. */
void hidden_begin(void);
void hidden_end(void);

#endif /* P2P_MPI_HIDDEN_H */
