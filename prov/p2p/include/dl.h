/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 1: loading a library that may not be there, with all functions of a table or none.
 */
#ifndef P2P_DL_H
#define P2P_DL_H

#include <stddef.h>

/**
 * struct dl_symbol - one function to look up.
 * @name:	its symbol
 * @older:	the symbol to try when @name is not there, or NULL
 * @slot:	where the address goes
 * @optional:	the library is of use without it; @slot is then NULL
 */
struct dl_symbol {
	const char *name;
	const char *older;
	void **slot;
	int optional;
};

/*
 * Opens the library @soname: the one that the process has loaded, else that in @dir if
 * @dir is not NULL, else wherever the system finds it; and fills the table's slots. Nothing is filled unless every function that is not optional was found.
 * Returns a handle, or NULL (logged at info level: not having a GPU is no
 * fault).
 */
void *dl_open(const char *dir, const char *soname, const struct dl_symbol *symbols,
	      size_t count);

#endif /* P2P_DL_H */
