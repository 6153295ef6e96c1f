/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Host memory in the place of data that lies far apart, as the host's and a GPU's parts of one datatype do. All of it is
 * displaced by the same distance, and only what is near to data is mapped.
 */
#ifndef P2P_MPI_APART_H
#define P2P_MPI_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is no further from other data than that is one piece with it. */
#define APART_NEAR ((uintptr_t) 1 << 30)

/* Pieces, at most */
#define APART_PIECES 16

struct apart {
	size_t count;
	struct apart_piece {
		uintptr_t low, high;
	} pieces[APART_PIECES];
	uintptr_t shift;
};

/* There is data of @len bytes. What is one piece too many is joined to another one. */
void apart_add(struct apart *apart, const void *data, size_t len);
/* Maps memory for all data, @shift bytes from it. False: none is free. */
bool apart_map(struct apart *apart);
void apart_unmap(const struct apart *apart);

#endif /* P2P_MPI_APART_H */
