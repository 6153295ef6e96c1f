/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a backend puts into struct dev_ops where its runtime cannot do it. All entries are there,
 * so that no caller tests for NULL: -FI_ENOSYS, false, or -1 for a node.
 */
#ifndef P2P_DEV_NONE_H
#define P2P_DEV_NONE_H

#include "dev/dev.h"

void dev_none_sync(void);
int dev_none_current(struct dev_mem *mem);
bool dev_none_gone(const void *ctx);
int dev_none_copy_short(const struct dev_mem *mem, void *dst, const void *src, size_t len);
int dev_none_node(const struct dev_mem *mem);
int dev_none_queue_rows(struct dev_queue *queue, void *dst, const void *src, size_t len,
			size_t rows, size_t pitch);
int dev_none_queue_batch(struct dev_queue *queue, const struct dev_copy *copies, size_t count);
int dev_none_queue_put(struct dev_queue *queue, const struct dev_copy *copies, size_t count);
int dev_none_ipc_export(const struct dev_mem *mem, void *handle, const char **why);
int dev_none_ipc_open(const struct dev_mem *mem, const void *handle, void **addr,
		      const char **why);
void dev_none_ipc_close(void *ctx, void *addr);
int dev_none_ipc_share(const struct dev_mem *mem, int *fd, const char **why);
int dev_none_ipc_attach(const struct dev_mem *mem, int fd, size_t size, void **addr,
			const char **why);
void dev_none_ipc_detach(void *addr, size_t size);
void dev_none_device_close(void *ctx);
int dev_none_host_address(const struct dev_mem *mem, void *host, void **addr);
int dev_none_window_open(const struct dev_mem *mem, size_t len, struct dev_window *window);
void dev_none_window_close(const struct dev_mem *mem, struct dev_window *window);
int dev_none_stream_steps(const struct dev_mem *mem, void *stream, const struct dev_step *steps,
			  size_t count);
int dev_none_stream_copy(const struct dev_mem *mem, void *stream, const struct dev_copy *copy);
const char *dev_none_loads_late(void);
int dev_none_kernel_load(const struct dev_mem *mem, const char *text, const char *name,
			 void **kernel);
int dev_none_queue_kernel(struct dev_queue *queue, void *kernel, void **args,
			  unsigned int blocks, unsigned int threads);
int dev_none_stream_captured(void *stream, uint64_t *id, void **graph);
int dev_none_graph_keep(void *graph, void (*end)(void *arg), void *arg);

#endif /* P2P_DEV_NONE_H */
