/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * GPU memory of the buffer library: allocated, recognised and copied by the vendor's runtime, which
 * is opened at run time. Nothing is loaded before a GPU is asked for.
 */
#ifndef P2P_BUFFER_GPU_H
#define P2P_BUFFER_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <rdma/fi_domain.h>

/**
 * struct gpu_ops - one runtime. All functions return 0 or a negative error.
 * @iface:	libfabric's name for its memory
 * @load:	opens the library, once, and initialises it
 * @hold:	keeps GPU @gpu ready, until @drop; -FI_EINVAL if there is none of that number
 * @owner:	which GPU has all of this memory; -FI_EINVAL if none has
 * @host_alloc:	allocates host memory that the GPU's copies find pinned, if it can be, and @queue for them
 * @to, @from:	copy from such memory to a GPU's, and back, and wait for that. @gpu is that of the
 *		queue. They do not wait for kernels.
 */
struct gpu_ops {
	enum fi_hmem_iface iface;
	int (*load)(void);
	int (*hold)(int gpu);
	void (*drop)(int gpu);
	int (*owner)(const void *data, size_t size, int *gpu);
	int (*alloc)(int gpu, size_t size, void **data);
	void (*free)(int gpu, void *data);
	int (*host_alloc)(int gpu, size_t size, void **data, void **queue);
	void (*host_free)(int gpu, void *data, void *queue);
	int (*to)(int gpu, void *queue, void *dst, const void *src, size_t size);
	int (*from)(int gpu, void *queue, void *dst, const void *src, size_t size);
};

extern const struct gpu_ops buffer_gpu_cuda;
extern const struct gpu_ops buffer_gpu_rocr;

/** struct gpu_symbol - a function of a library, and the pointer that is to point at it */
struct gpu_symbol {
	const char *name;
	void *slot;
};

/*
 * Opens a library for good and fills the slots: the one that the process has loaded, else that in
 * @dir if it is not NULL, else wherever the system finds it.
 */
int buffer_gpu_open(const char *dir, const char *soname, const struct gpu_symbol *symbols,
		    size_t count);

/* Finds the runtime that has such a GPU, and holds the GPU. */
int buffer_gpu_find(int gpu, const struct gpu_ops **ops);

/* Finds the runtime whose memory this is, and holds its GPU, which has to be @gpu. */
int buffer_gpu_find_owner(int gpu, const void *data, size_t size, const struct gpu_ops **ops);

#endif /* P2P_BUFFER_GPU_H */
