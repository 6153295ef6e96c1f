/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that kernels and the proxy share.
 *
 * Kernels put what they ask for into pinned host memory. What they look at, is in the device's memory where the CPU can
 * write there, which is sooner; otherwise it is in host memory, too.
 *
 * Pinned host memory is mapped shared, as an emulated device is another process. Where threads of the
 * host play the kernels' part (FI_HMEM_SYSTEM), all is host memory.
 */
#ifndef P2P_GPU_MEM_H
#define P2P_GPU_MEM_H

#include <stddef.h>
#include <rdma/fi_p2p_xpu.h>

#include "dev/dev.h"

/**
 * struct gpu_dev - a device, as a context knows it.
 * @mem:	what works there; @mem.ops is NULL where threads of the host are the kernels
 * @number:	the device's, as the application gave it
 * @import:	makes host memory accessible to kernels in the application's way, or NULL
 */
struct gpu_dev {
	struct dev_mem mem;
	uint64_t number;
	int (*import)(uint64_t device, void *host_addr, uint64_t size, uint64_t flags,
		      void **dev_addr);
};

/* @host: where the CPU finds it; @addr: where kernels do */
struct gpu_host {
	void *host;
	void *addr;
	size_t len;
	bool pinned;
};

/* 0 or a negative error, logged */
int gpu_dev_open(struct gpu_dev *dev, const struct fi_xpu_attr *attr);

/* Zeroed host memory; gpu_host_free() may have one that was never allocated, but is zero. */
int gpu_host_alloc(const struct gpu_dev *dev, size_t len, struct gpu_host *host);
/* Takes it from the device, which may wait for all that kernels and streams do. The host has it still */
void gpu_host_unpin(const struct gpu_dev *dev, struct gpu_host *host);
void gpu_host_free(const struct gpu_dev *dev, struct gpu_host *host);

/* As dev_ops.window_open. Where threads of the host play the kernels' part, there is none */
int gpu_window_open(const struct gpu_dev *dev, size_t len, struct dev_window *window);
void gpu_window_close(const struct gpu_dev *dev, struct dev_window *window);

/* Memory of the device, a copy of @init. gpu_state_free() may have NULL. */
int gpu_state_alloc(const struct gpu_dev *dev, const void *init, size_t len, void **addr);
/* Changes it for kernels that are launched later */
int gpu_state_store(const struct gpu_dev *dev, void *addr, const void *from, size_t len);
void gpu_state_free(const struct gpu_dev *dev, void *addr);

#endif /* P2P_GPU_MEM_H */
