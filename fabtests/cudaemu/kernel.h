/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the emulated driver exports for kernels, in C and C++. Sources of kernels include
 * gpu_kernel.h instead, which makes CUDA's names of it.
 *
 * Each run of a kernel is a process of its own: a child of the application's, made when the stream
 * comes to the kernel. There, device memory is mapped for loads and stores. In the application's
 * process it stays out of the CPU's reach, also while a kernel runs.
 *
 * What a kernel can see:
 *
 *   memory of all devices, of other processes (IPC)   shared: the device's engines see each store
 *   pinned memory (cuMemHostAlloc), managed memory    shared with the application, same address
 *   registered memory (cuMemHostRegister), malloc,    a snapshot of when the kernel began;
 *   global and static variables                       what the kernel stores is lost
 *   memory that is allocated while the kernel runs    not there: the kernel crashes
 *
 * A kernel can neither call the driver, nor use the application's descriptors but for the first
 * three. A program that waits for any child (wait(), waitpid(-1)) may get a kernel's process.
 */
#ifndef CUDAEMU_KERNEL_H
#define CUDAEMU_KERNEL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

struct cudaemu_dim3 {
	unsigned int x, y, z;
};

/**
 * struct cudaemu_place - where in its grid a thread of a kernel is
 */
struct cudaemu_place {
	struct cudaemu_dim3 thread, block, block_dim, grid_dim;
};

/**
 * cudaemu_launch() - appends a kernel to a stream
 * @stream:	any stream of the driver's
 * @kernel:	the kernel, as its address: what tells it from others when it is loaded
 * @fn:		what each thread of the grid calls
 * @args:	what @fn gets: a copy, the same for all threads, aligned as malloc() does
 * @size:	the length of @args
 * @grid:	the number of blocks
 * @block:	the number of threads in each block; 1024 at most
 * @shared:	the length of the launch's own shared memory (cudaemu_shared())
 *
 * A kernel that ends by a signal leaves an error that sticks to the context:
 * CUDA_ERROR_ILLEGAL_ADDRESS for SIGSEGV and SIGBUS, else CUDA_ERROR_LAUNCH_FAILED. Other kernels of the context end, too.
 *
 * Kernels are loaded lazily: the first launch of each in a context waits for the kernels that run
 * there, and holds up other threads' copies meanwhile (CUDA_MODULE_LOADING=EAGER: no launch does).
 *
 * Returns CUDA's error codes.
 */
typedef int cudaemu_launch_fn(struct CUstream_st *stream, const void *kernel,
			      void (*fn)(void *args), const void *args, size_t size,
			      struct cudaemu_dim3 grid, struct cudaemu_dim3 block,
			      unsigned int shared);

/**
 * cudaemu_load() - loads a kernel into the current context, ahead of its first launch
 * @kernel:	as for cudaemu_launch()
 */
typedef int cudaemu_load_fn(const void *kernel);

/* The others are for threads of a kernel alone */

/* cudaemu_place() - the calling thread's place. It changes while no function of the kernel runs. */
typedef const struct cudaemu_place *cudaemu_place_fn(void);

/* cudaemu_sync_block() - waits for all threads of the block that have not returned */
typedef void cudaemu_sync_block_fn(void);

/* cudaemu_sync_warp() - waits for all threads of the warp that have not returned */
typedef void cudaemu_sync_warp_fn(void);

/**
 * cudaemu_shared() - memory of the block: the same for all its threads that have the same @key
 * @key:	any address; NULL for the memory that the launch has asked for
 * @size:	how much of it; for NULL, 0
 */
typedef void *cudaemu_shared_fn(const void *key, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* CUDAEMU_KERNEL_H */
