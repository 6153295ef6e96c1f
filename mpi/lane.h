/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies between GPUs and the host, and pinned host memory for them, over dev/dev.h. Both are kept for the next call. All
 * functions that have a @why return MPI_SUCCESS, or an error class with it. Any thread may call them.
 */
#ifndef P2P_MPI_LANE_H
#define P2P_MPI_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dev/dev.h"

struct lane;

/* A queue of @mem's device, for this thread until lane_close() */
int lane_open(const struct dev_mem *mem, struct lane **lane, const char **why);
/* Copies from other memory than lane_open()'s see what the application has copied there. */
void lane_settle(struct lane *lane, const struct dev_mem *mem);
/* Begins a copy: @out: to the GPU */
int lane_copy(struct lane *lane, void *gpu, void *host, size_t len, bool out, const char **why);
/* The same for @rows rows of @len bytes, @pitch bytes apart; false: there is no such copy, and nothing has begun */
bool lane_rows(struct lane *lane, void *gpu, void *host, size_t len, size_t rows, size_t pitch,
	       bool out);
/* The device, in the context that the queue is of */
const struct dev_mem *lane_device(const struct lane *lane);
/* Puts a kernel into the queue, behind all copies; as dev_ops.queue_kernel */
int lane_launch(struct lane *lane, void *kernel, void **args, unsigned int blocks,
		unsigned int threads);
/* Have all copies and kernels so far ended within so many nanoseconds? Negative: one has failed */
int lane_wait(struct lane *lane, uint64_t ns);
/*
 * Instead of lane_close(), where a kernel has not begun: leaves it alone until that has ended, and then gives back @memory
 * of lane_memory()
 */
void lane_park(struct lane *lane, char *memory, size_t len);
/* Waits for all copies and kernels, and returns @ret, or what has failed */
int lane_close(struct lane *lane, int ret, const char **why);

/* Host memory for copies from and to @mem's device: of the pool, up to its bound */
int lane_memory(const struct dev_mem *mem, size_t len, char **memory, const char **why);
void lane_memory_free(const struct dev_mem *mem, char *memory, size_t len);

#endif /* P2P_MPI_LANE_H */
