/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a kernel's process runs. */
#ifndef CUDAEMU_GRID_H
#define CUDAEMU_GRID_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel.h"

#define EMU_BLOCK_THREADS 1024
/* What an H100 has for each block */
#define EMU_BLOCK_SHARED (227u << 10)

struct emu_grid {
	void (*fn)(void *args);
	/* instead of it, and of a process: what runs all of the grid here; false: it has gone wrong */
	bool (*here)(const struct CUstream_st *stream, const void *args);
	void *args;
	size_t size; /* of the arguments */
	struct cudaemu_dim3 grid, block;
	unsigned int shared;
};

/* Can a device run it? */
bool emu_grid_valid(const struct emu_grid *grid);

/* Makes all threads, each one of the calling process, and waits until *here has counted them */
void emu_grid_create(const struct emu_grid *grid, uint32_t *here);

/* Lets them run, and returns when the kernel has ended. Nothing here allocates memory. */
void emu_grid_run(void);

#endif /* CUDAEMU_GRID_H */
