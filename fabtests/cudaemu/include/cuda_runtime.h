/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What examples use of the CUDA runtime's interface, declared by us. So the tree builds the
 * examples without the toolkit. The functions are in cudart.c.
 */
#ifndef CUDAEMU_CUDA_RUNTIME_H
#define CUDAEMU_CUDA_RUNTIME_H

#include <stddef.h>

typedef int cudaError_t;

enum cudaMemcpyKind {
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
};

cudaError_t cudaMalloc(void **out, size_t size);
cudaError_t cudaFree(void *ptr);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind);

#endif /* CUDAEMU_CUDA_RUNTIME_H */
