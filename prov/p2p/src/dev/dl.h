/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Loading a library that may not be there, with all functions of a table or none. */
#ifndef P2P_DL_H
#define P2P_DL_H

#include <stdbool.h>
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
 * Opens the library @soname: the process' own, else that in @dir if @dir is not NULL, else the system's; and fills the table's
 * slots, unless a function that is not optional is missing. Returns a handle, or NULL (logged at info level, as it is no fault).
 */
void *dl_open(const char *dir, const char *soname, const struct dl_symbol *symbols,
	      size_t count);

/* Is the library in the process? */
bool dl_loaded(const char *soname);

/* Could dl_open() open it, as far as is known without loading it? Why not is logged at info level. */
bool dl_installed(const char *dir, const char *soname);

/*
 * Returns the address of a pointer that is NULL until another library comes into the process, or NULL where that cannot be had.
 * dl_news() reads it at any time without a lock: it is in the dynamic linker's record of the library that came last (dlinfo(3),
 * RTLD_DI_LINKMAP), which stays for good from now on.
 */
void *const *dl_watch(void);

/* Tells whether another library has come. The thread sanitizer does not know of the dynamic linker's lock. */
__attribute__((no_sanitize("thread"))) static inline bool dl_news(void *const *watch)
{
	return __atomic_load_n(watch, __ATOMIC_RELAXED);
}

#endif /* P2P_DL_H */
