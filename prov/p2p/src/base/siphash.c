/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* SipHash. See siphash.h. */
#include "base/siphash.h"

#include <endian.h>
#include <string.h>

struct siphash_state {
	uint64_t v[4];
};

#define SIPHASH_ROTATE(x, bits) ((x) << (bits) | (x) >> (64 - (bits)))

/* Mixes the state with so many of SipHash's rounds. */
static void siphash_rounds(struct siphash_state *s, int rounds)
{
	uint64_t *v = s->v;

	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = SIPHASH_ROTATE(v[1], 13) ^ v[0];
		v[3] = SIPHASH_ROTATE(v[3], 16) ^ v[2];
		v[0] = SIPHASH_ROTATE(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = SIPHASH_ROTATE(v[1], 17) ^ v[2];
		v[3] = SIPHASH_ROTATE(v[3], 21) ^ v[0];
		v[2] = SIPHASH_ROTATE(v[2], 32);
	}
}

/* Mixes one word of the input into the state. */
static void siphash_word(struct siphash_state *s, uint64_t word)
{
	s->v[3] ^= word;
	siphash_rounds(s, 2);
	s->v[0] ^= word;
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t len)
{
	struct siphash_state s = {{
		key->k[0] ^ 0x736f6d6570736575,
		key->k[1] ^ 0x646f72616e646f6d,
		key->k[0] ^ 0x6c7967656e657261,
		key->k[1] ^ 0x7465646279746573,
	}};
	const uint8_t *at = data;
	uint64_t word, last = 0;
	size_t left;

	for (left = len; left >= sizeof word; left -= sizeof word) {
		memcpy(&word, at, sizeof word);
		siphash_word(&s, le64toh(word));
		at += sizeof word;
	}
	memcpy(&last, at, left);
	siphash_word(&s, le64toh(last) | (uint64_t) len << 56);
	s.v[2] ^= 0xff;
	siphash_rounds(&s, 4);
	return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

uint32_t siphash_permute(const struct siphash_key *key, uint32_t number)
{
	uint16_t half[2] = {(uint16_t) number, (uint16_t) (number >> 16)};

	for (uint16_t round = 0; round < 4; round++) {
		const uint16_t in[] = {round, half[round % 2]};

		half[!(round % 2)] ^= (uint16_t) siphash(key, in, sizeof in);
	}
	return (uint32_t) half[1] << 16 | half[0];
}
