/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kernels of ours, as PTX text that the GPU's driver compiles: no compiler is needed. One is made when it is first wanted
 * in a context. Loading it waits for the kernels that run there.
 */
#ifndef P2P_MPI_KERNEL_H
#define P2P_MPI_KERNEL_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "lane.h"

/* Is there a kernel for this? Whether a GPU takes it, kernel_reduce() tells. */
bool kernel_reduces(MPI_Op op, MPI_Datatype type);

/*
 * Begins @out = @a @op @b, as MPI_Reduce_local() does with @a in and @b in and out. All are of the lane's GPU; @out may
 * be one of the others. With an error nothing has begun: let the data go through the host.
 */
int kernel_reduce(struct lane *lane, MPI_Op op, MPI_Datatype type, void *out, const void *a,
		  const void *b, size_t count, const char **why);

#endif /* P2P_MPI_KERNEL_H */
