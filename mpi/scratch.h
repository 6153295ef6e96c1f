/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory for what comes from other ranks until it is used. That of GPUs is kept for the next call, so that other processes
 * open it once. Any thread may call these.
 */
#ifndef P2P_MPI_SCRATCH_H
#define P2P_MPI_SCRATCH_H

#include "exchange.h"

/* Bytes, at most; and what is asked for where there is no more */
#define SCRATCH_MOST (256ul << 20)
#define SCRATCH_SMALL (32ul << 20)

/* @len bytes of the GPU that has @beside. False: there are none. */
bool scratch_gpu(struct exchange_area *scratch, size_t len, const struct exchange_area *beside);
/* The same of the host, fit for copies from and to @beside */
bool scratch_host(struct exchange_area *scratch, size_t len,
		  const struct exchange_area *beside);
void scratch_give(struct exchange_area *scratch, size_t len);

#endif /* P2P_MPI_SCRATCH_H */
