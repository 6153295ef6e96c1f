/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * PTX text, as a driver gets it in place of a compiled module. What this knows is what the project's own kernels
 * (mpi/kernel.c) are written in, and all else is an error: so is a register of the wrong width, as for ptxas.
 *
 * Entries with parameters of 32 and 64 bits; registers .pred, .b32 and .b64; integers for immediates; x of a grid's three
 * dimensions; no shared memory. Threads run one after the other, in the order of their numbers. So at a barrier only the
 * first one can tell the others something: what a later one tells is an error.
 */
#ifndef CUDAEMU_PTX_H
#define CUDAEMU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_PARAMS 16
#define PTX_IMMEDIATES 64

/**
 * struct ptx_entry - a kernel of a module
 * @width:	of each parameter, in bytes
 * @immediate:	each number of the text that an instruction reads
 * @registers:	of all kinds
 */
struct ptx_entry {
	struct ptx_entry *next;
	char name[64];
	unsigned int params, width[PTX_PARAMS];
	char param[PTX_PARAMS][32];
	unsigned int immediates, registers;
	uint64_t immediate[PTX_IMMEDIATES];
	struct ptx_op *ops;
	size_t count;
};

/* The entries of a text, or NULL if it is wrong: what is wrong about it is on stderr. They stay. */
struct ptx_entry *ptx_parse(const char *text);

/* Memory of the device that a kernel may touch: its address there, and where it is here */
struct ptx_part {
	uint64_t base;
	size_t size;
	char *rw;
	bool read_only;
};

/**
 * struct ptx_grid - a kernel that runs.
 * @params:	as many as the entry has, each in 64 bits
 * @part:	all memory that it may touch, in the order of addresses
 */
struct ptx_grid {
	const struct ptx_entry *entry;
	const uint64_t *params;
	unsigned int blocks, threads;
	const struct ptx_part *part;
	size_t parts;
};

/* Runs all threads of a grid. False: one has touched what it may not, and the others have not run. */
bool ptx_run(const struct ptx_grid *grid);

#endif /* CUDAEMU_PTX_H */
