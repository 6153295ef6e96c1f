/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kinds of CUDA memory besides cuMemAlloc's (ft_cuda_ops), each as a table of ft.h's.
 * Where one can, memory that is allocated after a free of the same size lies at the same
 * address.
 */
#ifndef FT_CUDAMEM_H
#define FT_CUDAMEM_H

#include "ft.h"

/**
 * cudamem_vmm: physical memory mapped into a reserved address range, for NICs if the
 * device allows; cudamem_vmm_plain: not for NICs; cudamem_vmm_two: two pieces of it,
 * whose border is in the middle of what is handed out; cudamem_vmm_shared,
 * cudamem_vmm_shared_two: the same, for other processes, not for NICs; cudamem_vmm_far: it lies on another device, and
 * this one alone may access it; cudamem_pool: of the
 * stream-ordered allocator; cudamem_managed: migrates between host and device; cudamem_far: cuMemAlloc's, of another device
 */
extern const struct ft_mem_ops cudamem_vmm, cudamem_vmm_plain, cudamem_vmm_two,
	cudamem_vmm_shared, cudamem_vmm_shared_two, cudamem_vmm_far, cudamem_pool,
	cudamem_managed, cudamem_far;

/** cudamem_exported() - does the driver say that it exports such memory as dma-bufs? */
int cudamem_exported(const struct ft_mem_ops *ops, bool *exported);

/** cudamem_many() - is there another device? Behind the init() of one of these */
bool cudamem_many(void);

#endif /* FT_CUDAMEM_H */
