/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * GPU memory of the buffer library, over dev/dev.h. No runtime is loaded before a GPU is asked for. All functions return
 * 0 or a negative error.
 */
#ifndef P2P_BUFFER_GPU_H
#define P2P_BUFFER_GPU_H

#include "dev/dev.h"

/*
 * Finds GPU @gpu: of the first runtime that has one of that number or, if @data is not NULL, of that which has all of
 * this memory there. -FI_EINVAL: there is none, -FI_ENOSYS: there is no runtime. The caller gives it back with
 * dev_ops.device_close
 */
int buffer_gpu_find(int gpu, const void *data, size_t size, struct dev_mem *mem);

/* Opens a queue for copies between GPUs of @mem's runtime and new host memory. It waits for no kernel. */
int buffer_gpu_open(const struct dev_mem *mem, size_t size, char **data,
		    struct dev_queue **queue);
void buffer_gpu_close(struct dev_queue *queue, char *data);

/* Copies, and waits for that */
int buffer_gpu_copy(struct dev_queue *queue, void *dst, const void *src, size_t size);

#endif /* P2P_BUFFER_GPU_H */
