/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The GPUs' memory: allocations, which applications free and have again at the same address, and those of other
 * processes that are open. What its owner has freed keeps its bytes as long as somebody has it open, as drivers do.
 */
#ifndef P2P_SIM_GPU_H
#define P2P_SIM_GPU_H

#include "sim.h"

#include "dev/dev.h"

/* Of the operations of dev/dev.h, those about memory. @ops: of which it is */
/* The current process's device */
void gpu_mem_device(const struct dev_ops *ops, struct dev_mem *mem);
int gpu_mem_find(const struct dev_ops *ops, const void *addr, struct dev_mem *mem);
int gpu_ipc_export(const struct dev_mem *mem, void *handle, const char **why);
int gpu_ipc_open(const struct dev_mem *mem, const void *handle, void **addr, const char **why);
void gpu_ipc_close(void *ctx, void *addr);
int gpu_ipc_share(const struct dev_mem *mem, int *fd, const char **why);
int gpu_ipc_attach(const struct dev_mem *mem, int fd, size_t size, void **addr,
		   const char **why);
void gpu_ipc_detach(void *addr, size_t size);

/* Of its streams (gpu_stream.c); and nothing in them has to do with this memory of the current process's any more */
int gpu_stream_steps(const struct dev_mem *mem, void *stream, const struct dev_step *steps,
		     size_t count);
void gpu_streams_leave(const void *addr, size_t len);

/* What lies at an address of the current process's: a number, which nothing else there ever has. 0: host memory */
uint64_t gpu_place(const void *addr);
/* Where the bytes are that a copy of @node's is about. What lies there has to be @place still, and hold all of them */
uint8_t *gpu_bytes(unsigned int node, uint64_t place, const void *addr, size_t len);

#endif /* P2P_SIM_GPU_H */
