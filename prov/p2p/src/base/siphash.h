/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * SipHash-2-4 (J.-P. Aumasson, D. J. Bernstein, 2012): numbers that nobody can guess who does not have
 * the key.
 */
#ifndef P2P_SIPHASH_H
#define P2P_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t k[2];
};

/* Computes the keyed hash SipHash-2-4, which nobody can predict without the key. */
uint64_t siphash(const struct siphash_key *key, const void *data, size_t len);

/* Maps numbers of 32 bits to others, one to one, by that hash. (Luby and Rackoff, 1988) */
uint32_t siphash_permute(const struct siphash_key *key, uint32_t number);

#endif /* P2P_SIPHASH_H */
