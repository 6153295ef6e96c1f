/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Host memory in the place of a GPU buffer that the CPU would touch. It has the same layout, so that a call of MPI's takes
 * it with the same counts, displacements and types. What MPI reads is copied there before the call, and what it has
 * written is copied back, byte for byte: gaps stay as they are.
 */
#ifndef P2P_MPI_MIRROR_H
#define P2P_MPI_MIRROR_H

#include <stdbool.h>
#include <stddef.h>

#include "apart.h"
#include "layout.h"
#include "dev/dev.h"

/* @count elements, @at bytes from where the buffer begins; it owns a reference to the layout */
struct mirror_part {
	MPI_Aint at;
	size_t count;
	struct layout *layout;
};

/**
 * struct mirror - a buffer of a GPU's, and its host memory.
 * @buf, @host:	what the application gave, and what MPI gets in its place
 * @first:	where data of the GPU's begins; @mem: the allocation that it is in
 * @low, @high:	the first byte, and the one behind the last, from @buf on
 * @apart:	the data is not in one allocation, and lies far apart; else NULL
 * @reads, @writes: what MPI does
 * @moved:	MPI is told of each part by itself: those that have been copied since the latest beginning; else NULL
 */
struct mirror {
	char *buf, *host;
	const char *first;
	struct dev_mem mem;
	MPI_Aint low, high;
	struct apart *apart;
	bool reads, writes;
	size_t count;
	struct mirror_part *parts;
	bool *moved;
};

/* A mirror is not made of data without gaps. */
#define MIRROR_DIRECT 4
/* Nor of parts without gaps, if they are long. */
#define MIRROR_PARTS 16
/* A buffer that is in no memory is MPI's to judge. */
#define MIRROR_ABSENT 8

/* All return MPI_SUCCESS, or an error class with @why. This one is MPI_ERR_COUNT: */
extern const char mirror_overflows[];

/*
 * Looks whether the buffer of these parts is a GPU's, and makes a mirror if it is: else *@mirror is NULL. It takes @parts,
 * which were allocated. @flags: MIRROR_... @bytes: how many a GPU has. MPI_ERR_BUFFER: the buffer is in no memory, or leaves it
 */
int mirror_make(struct mirror **mirror, void *buf, struct mirror_part *parts, size_t count,
		int flags, size_t *bytes, const char **why);
void mirror_free(struct mirror *mirror);

/* Copies what MPI is about to read. */
int mirror_fill(struct mirror *mirror, const char **why);
/* Copies what MPI has written. */
int mirror_drain(struct mirror *mirror, const char **why);

/*
 * The parts are copied one by one: what MPI reads, when it is told that a part is ready; what it has written, when a part has
 * arrived, or at the end. False: no memory
 */
bool mirror_divide(struct mirror *mirror);
/* Copies one part, unless that has been done. */
int mirror_move(struct mirror *mirror, size_t part, const char **why);

#endif /* P2P_MPI_MIRROR_H */
