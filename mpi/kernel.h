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
#include <stdint.h>

#include "lane.h"

/* A kernel that has not begun in this time may be waiting for what comes after the call */
#define KERNEL_WAIT_NS 200000000ull

/* This thread loads no kernel from now on: the driver waits for all streams meanwhile, and one may wait for the thread. */
void kernel_load_none(void);

/* Does a kernel begin now? If kernels of the program have all multiprocessors, let the data go through the host. */
bool kernel_begins(const struct dev_mem *mem);

/* Is there a kernel for this? Whether a GPU takes it, kernel_reduce() tells. */
bool kernel_reduces(MPI_Op op, MPI_Datatype type);

/*
 * Does the host find the same, but for the bits of what is no number? Open MPI's vector code saturates short integers, and
 * compares 0 with -0, and what is no number, in its own way.
 */
bool kernel_agrees(MPI_Op op, MPI_Datatype type);

/*
 * Begins @out = @a @op @b, as MPI_Reduce_local() does with @a in and @b in and out. All are of the lane's GPU; @out may
 * be one of the others. With an error nothing has begun: let the data go through the host. It
 * begins once a multiprocessor has room: kernel_begins() is to be asked first.
 */
int kernel_reduce(struct lane *lane, MPI_Op op, MPI_Datatype type, void *out, const void *a,
		  const void *b, size_t count, const char **why);

/* Bytes that a kernel copies, between places that are each the GPU's or pinned */
struct kernel_run {
	uint64_t from, to, len;
};

/*
 * What tells whether a kernel has begun, and keeps it from doing so, in pinned memory. Both are 0 at first. Who has set
 * @ends and finds that @begun is not set is safe: the kernel will do nothing.
 */
struct kernel_gate {
	uint32_t begun, ends;
};

/* Can it copy to and from @mem, and from and to pinned memory? */
bool kernel_copies(struct lane *lane, const struct dev_mem *mem);
/*
 * Begins these copies, which may be none, of which the longest take longest: one warp does it. @runs, @gate: pinned memory, as the device
 * finds it. False: nothing has begun
 */
bool kernel_copy(struct lane *lane, const struct kernel_run *runs, size_t count,
		 struct kernel_gate *gate);

#endif /* P2P_MPI_KERNEL_H */
