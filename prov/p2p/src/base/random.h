/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Numbers that nobody can guess. */
#ifndef P2P_RANDOM_H
#define P2P_RANDOM_H

#include <stddef.h>

/* Fills @len bytes at @buf, at most 256. 0, or -FI_EIO (logged) */
int random_fill(void *buf, size_t len);

#endif /* P2P_RANDOM_H */
