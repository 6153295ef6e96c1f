/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a kernel's process runs. */
#ifndef CUDAEMU_GRID_H
#define CUDAEMU_GRID_H

#include <stdbool.h>

#include "kernel.h"

#define EMU_BLOCK_THREADS 1024
/* What an H100 has for each block */
#define EMU_BLOCK_SHARED (227u << 10)

struct emu_grid {
	void (*fn)(void *args);
	void *args;
	struct cudaemu_dim3 grid, block;
	unsigned int shared;
};

/* Can a device run it? */
bool emu_grid_valid(const struct emu_grid *grid);

/* Runs all threads, each as one of the calling process. Returns when the last one has ended. */
void emu_grid_run(const struct emu_grid *grid);

#endif /* CUDAEMU_GRID_H */
