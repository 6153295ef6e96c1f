/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels that move atoms, also from rank to rank, and how C programs launch them */
#ifndef COMD_KERNELS_H
#define COMD_KERNELS_H

#include "xpu_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__CUDACC__) || defined(__HIP__)
#define COMD_FUNC __host__ __device__ static inline
#else
#define COMD_FUNC static inline
#endif

/* The length of a rank's cell, and how far an atom gets in a step */
#define COMD_CELL 1000
#define COMD_FASTEST 400

/* @trace depends on all places where it has been. All is of integers, so that every compiler computes alike. */
struct comd_atom {
	uint32_t id, trace;
	int32_t at[2], speed[2];
};

/* What a rank sends to a neighbour */
struct comd_message {
	uint64_t count;
	struct comd_atom atom[];
};

/* Ways to leave a cell along an axis */
enum { COMD_DOWN, COMD_UP, COMD_WAYS };

/* How a kernel exchanges messages */
enum comd_form {
	COMD_PUT,  /* puts, and signals that bear the length */
	COMD_SEND, /* messages with tags */
};

/**
 * struct comd - a rank's cell. Ranks are a ring, or a torus.
 *
 * In each step the atoms move. Then, along one axis after another, those that have left go to the neighbours. A
 * turn is one axis of one step.
 *
 * @list:	the atoms, in turns in the first and in the second list; @listed: how many are in each
 * @out:	messages for the neighbours, by axis and way
 * @in:		messages from them: two of each, for odd and even steps. A neighbour may be one step ahead.
 * @most:	room of lists and messages [atoms]
 * @cells:	how many cells there are along each axis; @cell: which is this one
 * @axes:	how many axes have more than one cell
 * @ep, @tx, @rx: exported
 * @target, @signal_target, @peer: the neighbours, by axis and way; @peer is raw, as are @out_desc and @in_desc
 * @signal:	words that neighbours set: for each message of @in the step and the length
 * @meet:	where blocks meet; zero at first
 * @failed:	not 0: the kernel has ended by an error
 * @steps:	of comd_run(); @blocks: of all kernels
 */
struct comd {
	struct comd_atom *list[2];
	uint64_t *listed;
	char *out, *in;
	uint64_t most;
	int32_t cells[2], cell[2];
	int axes;
	struct fid_xpu_ep ep;
	struct fid_xpu_cntr tx, rx;
	uint32_t target[2][COMD_WAYS], signal_target[2][COMD_WAYS];
	uint64_t peer[2][COMD_WAYS], out_desc, in_desc;
	uint64_t *signal, *meet, *failed;
	uint64_t steps;
	unsigned int blocks, threads;
};

/* One step of an atom, wherever it is */
COMD_FUNC void comd_advance(struct comd_atom *atom, const int32_t *cells, uint64_t step)
{
	const uint32_t hash = (atom->id + 1) * 2654435761U ^ (uint32_t) step * 2246822519U;

	for (int axis = 0; axis < 2; axis++) {
		const int32_t edge = cells[axis] * COMD_CELL;
		int32_t speed = atom->speed[axis] + (int32_t) (hash >> (8 + 8 * axis)) % 9 - 4;

		if (speed > COMD_FASTEST || speed < -COMD_FASTEST)
			speed = -speed / 2;
		atom->speed[axis] = speed;
		atom->at[axis] = (atom->at[axis] + speed + edge) % edge;
		atom->trace = atom->trace * 31 + (uint32_t) atom->at[axis];
	}
}

/* Which way has an atom left the cell? It has gone at most to the next one. -1: it is still there */
COMD_FUNC int comd_way(const struct comd_atom *atom, const int32_t *cell, int axis)
{
	if (atom->at[axis] / COMD_CELL == cell[axis])
		return -1;
	return atom->speed[axis] > 0 ? COMD_UP : COMD_DOWN;
}

/* The length of a message */
COMD_FUNC uint64_t comd_bytes(uint64_t atoms)
{
	return sizeof(struct comd_message) + atoms * sizeof(struct comd_atom);
}

/* Where messages are [bytes], and which word tells of one of @in */
COMD_FUNC uint64_t comd_out(const struct comd *comd, int axis, int way)
{
	return (uint64_t) (axis * COMD_WAYS + way) * comd_bytes(comd->most);
}

COMD_FUNC uint64_t comd_word(uint64_t step, int axis, int way)
{
	return (step % 2 * 2 + (uint64_t) axis) * COMD_WAYS + (uint64_t) way;
}

COMD_FUNC uint64_t comd_in(const struct comd *comd, uint64_t step, int axis, int way)
{
	return comd_word(step, axis, way) * comd_bytes(comd->most);
}

#define COMD_WORDS (2 * 2 * COMD_WAYS) /* and messages of @in */

/*
 * The first half of a turn: moves atoms, along the first axis, and fills messages. The second half adds what the
 * neighbours have sent. 0 or an error of the GPU
 */
int comd_pack(const struct comd *comd, uint64_t step, int axis, void *stream);
int comd_unpack(const struct comd *comd, uint64_t step, int axis, void *stream);

/*
 * Loads the kernels. Otherwise CUDA does so when they are launched first, and may wait for the whole context then:
 * for a stream, too, that waits for a message. 0 or an error of the GPU
 */
int comd_load(void);

/* All steps in one kernel, which exchanges messages itself */
int comd_run(const struct comd *comd, enum comd_form form, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* COMD_KERNELS_H */
