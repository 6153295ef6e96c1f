/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What users may get wrong in libfabric's own variables where they name us: FI_PROVIDER and
 * FI_HOOK. libfabric says nothing of it, and then the application does without us.
 */
#ifndef P2P_ENV_H
#define P2P_ENV_H

#include <stdbool.h>
#include <stddef.h>

/* How many letters have to be changed, put in or left out to make @b of @a? Of 64 letters at most */
size_t env_distance(const char *a, const char *b);

/*
 * Looks at a stack of providers, such as "tcp;ofi_rxm;ofi_p2p". Returns false if we are meant to be
 * in it and it is none that libfabric understands, as one with spaces or colons: @right then gets one that
 * it does. Where no core is named it has @usual.
 */
bool env_stack(const char *stack, const char *usual, char *right, size_t size);

/* Tells what is wrong with FI_PROVIDER and FI_HOOK (P2P_TELL). @usual: as above */
void env_check(const char *usual);

#endif /* P2P_ENV_H */
