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

/* Of what kernels share with the host */
int gpu_object_new(const struct dev_mem *mem, size_t len, void **addr);
int gpu_object_store(const struct dev_mem *mem, void *addr, const void *from, size_t len);
void gpu_object_free(const struct dev_mem *mem, void *addr);
int gpu_window_new(const struct dev_mem *mem, size_t len, struct dev_window *window);
void gpu_window_free(const struct dev_mem *mem, struct dev_window *window);

/* Of its streams (gpu_stream.c); and nothing in them has to do with this memory of the current process's any more */
int gpu_stream_steps(const struct dev_mem *mem, void *stream, const struct dev_step *steps,
		     size_t count);
void gpu_streams_leave(const void *addr, size_t len);
int gpu_stream_captured(void *stream, uint64_t *id, void **graph);
int gpu_graph_keep(void *graph, void (*end)(void *arg), void *arg);

/* What lies at an address of the current process's: a number, which nothing else there ever has. 0: host memory */
uint64_t gpu_place(const void *addr);
/* Where the bytes are that a copy of @node's is about. What lies there has to be @place still, and hold all of them */
uint8_t *gpu_bytes(unsigned int node, uint64_t place, const void *addr, size_t len);

/*
 * In a NIC's hands: the memory at an address, and the offset there. NULL: it is the host's. gpu_memory_put() gives it back.
 * The second: of a descriptor's
 */
struct gpu_block;
struct gpu_block *gpu_hold(const void *addr, size_t *offset);
struct gpu_block *gpu_hold_memory(int fd);
uint8_t *gpu_block_bytes(const struct gpu_block *block, size_t offset, size_t len);
/* Has its owner freed it? */
bool gpu_block_is_free(const struct gpu_block *block);
/* A dma-buf of what lies at an address of the current process's, which begins at the block's first byte */
int gpu_expose(const struct dev_mem *mem, uintptr_t addr, size_t len, int *fd, uint64_t *offset,
	       const char **why);

#endif /* P2P_SIM_GPU_H */
