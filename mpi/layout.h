/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where the bytes of a datatype are: a list of runs, made once for a type and kept with it. */
#ifndef P2P_MPI_LAYOUT_H
#define P2P_MPI_LAYOUT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

struct layout_run {
	MPI_Aint at;
	size_t len;
};

/**
 * struct layout - of one element of a type.
 * @refs:	who has it
 * @runs:	its bytes, in the order of the type's signature; neighbours are one
 * @size:	how many bytes they are
 * @extent:	from an element to the next one
 * @low, @high:	the first byte, and the one behind the last
 * @leaf:	the predefined type that all its parts are of; MPI_DATATYPE_NULL: they are of several
 * @shifted:	it has parts that do not begin with their data: the MPI may pack it even if there are no gaps
 */
struct layout {
	int refs;
	bool shifted;
	size_t count, room, size;
	struct layout_run *runs;
	MPI_Aint extent, low, high;
	MPI_Datatype leaf;
};

/* The layout of @type, or NULL: there is no memory, or no such type. The caller gives it back. */
struct layout *layout_get(MPI_Datatype type);
struct layout *layout_hold(struct layout *layout);
void layout_put(struct layout *layout);

/* Have elements of this no gaps, within them and between? */
bool layout_dense(const struct layout *layout);

#endif /* P2P_MPI_LAYOUT_H */
