/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels of a Jacobi iteration on a part of a grid, and how C programs launch them */
#ifndef JACOBI_KERNELS_H
#define JACOBI_KERNELS_H

#include "xpu_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct jacobi - a rank's part of the grid.
 * @grid:	two arrays, one behind the other, of @rows + 2 rows of @cols values. The first and the last
 *		row are the neighbour's, or the border
 * @send:	the row that the neighbour wants; @halo: the one of its that we want
 * @ep, @tx:	exported; @target: the peer's arrays, @signal_target: its words
 * @signal:	how far the peer is; @meet: where blocks meet: two words, zero at first
 * @blocks:	of the grid of threads
 */
struct jacobi {
	double *grid;
	uint64_t rows, cols;
	uint64_t send, halo;
	struct fid_xpu_ep ep;
	struct fid_xpu_cntr tx;
	uint32_t target, signal_target;
	uint64_t *signal;
	uint64_t *meet;
	uint64_t iterations;
	unsigned int blocks;
};

/* One iteration, from array @from to the other one. 0 or an error of the GPU */
int jacobi_step(const struct jacobi *jacobi, int from, void *stream);

/* All of them in one kernel, which puts its row to the peer and waits for the peer's */
int jacobi_run(const struct jacobi *jacobi, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* JACOBI_KERNELS_H */
