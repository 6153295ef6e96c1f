/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Test data. Every byte depends on the message that it belongs to, and on its place there. So
 * data of another message, shifted data and missing data all show. Guard bytes around a payload
 * show writes outside of it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ft.h"

/* splitmix64's output function: any two inputs give unrelated words */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

uint64_t ft_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ULL;
	return mix(*state);
}

static uint64_t word_at(uint64_t start, size_t index)
{
	uint64_t x = start + index * 0x9e3779b97f4a7c15ULL;

	return x ^ (x >> 29);
}

void ft_pattern_fill(void *buf, size_t len, uint64_t key)
{
	const uint64_t start = mix(key + 1);
	unsigned char *pos = buf;
	size_t i;

	for (i = 0; i < len / sizeof(uint64_t); i++) {
		uint64_t word = word_at(start, i);

		memcpy(pos + i * sizeof(word), &word, sizeof(word));
	}
	if (len % sizeof(uint64_t)) {
		uint64_t word = word_at(start, i);

		memcpy(pos + i * sizeof(word), &word, len % sizeof(word));
	}
}

ssize_t ft_pattern_diff(const void *buf, size_t len, uint64_t key, unsigned char *expected)
{
	const uint64_t start = mix(key + 1);
	const unsigned char *pos = buf;

	for (size_t off = 0; off < len; off += sizeof(uint64_t)) {
		const uint64_t word = word_at(start, off / sizeof(word));
		const size_t n = FT_MIN(len - off, sizeof(word));
		uint64_t found;

		/* a call for each word would take more time than all else that a test does */
		if (n == sizeof(word)) {
			memcpy(&found, pos + off, sizeof(found));
			if (found == word)
				continue;
		}
		for (size_t i = 0; i < n; i++) {
			memcpy(expected, (const char *) &word + i, 1);
			if (pos[off + i] != *expected)
				return (ssize_t) (off + i);
		}
	}
	return -1;
}

/* A host copy of device memory, kept from one call to the next */
static int scratch_get(size_t len, unsigned char **mem)
{
	static unsigned char *scratch;
	static size_t have;

	if (len >= have) {
		free(scratch);
		have = 0;
		scratch = malloc(len + 1); /* never NULL, not even for messages of no bytes */
		if (!scratch)
			return ft_fail(-FI_ENOMEM, "malloc", "%zu bytes to compare", len);
		have = len + 1;
	}
	*mem = scratch;
	return 0;
}

static int slot_write(const struct ft_slot *slot, size_t payload, uint64_t key)
{
	unsigned char *mem;

	FT_TRY(scratch_get(slot->room, &mem));
	memset(mem, FT_GUARD, slot->room);
	ft_pattern_fill(mem + (slot->off - slot->base), payload, key);
	return slot->buf->ops->to(slot->buf->addr + slot->base, mem, slot->room);
}

int ft_slot_fill(const struct ft_slot *slot, uint64_t key)
{
	return slot_write(slot, slot->len, key);
}

int ft_slot_arm(const struct ft_slot *slot)
{
	return slot_write(slot, 0, 0);
}

int ft_slot_read(const struct ft_slot *slot, unsigned char **mem)
{
	FT_TRY(scratch_get(slot->room, mem));
	return slot->buf->ops->from(*mem, slot->buf->addr + slot->base, slot->room);
}

int ft_slot_holds(const struct ft_slot *slot, size_t len, uint64_t key)
{
	unsigned char *mem, expected;

	FT_TRY(ft_slot_read(slot, &mem));
	return ft_pattern_diff(mem + (slot->off - slot->base), len, key, &expected) < 0;
}

static int guard_check(const unsigned char *mem, size_t from, size_t to, size_t payload,
		       const char *what)
{
	for (size_t i = from; i < to; i++)
		FT_CHECK(mem[i] == FT_GUARD,
			 "%s: byte %zd relative to the message was overwritten: "
			 "guard %#04x, found %#04x",
			 what, (ssize_t) i - (ssize_t) payload, FT_GUARD, mem[i]);
	return 0;
}

static int guards_check(const struct ft_slot *slot, const unsigned char *mem, size_t got,
			const char *what)
{
	const size_t start = slot->off - slot->base;

	FT_TRY(guard_check(mem, 0, start, start, what));
	return guard_check(mem, start + got, slot->room, start, what);
}

int ft_slot_guards(const struct ft_slot *slot, size_t got, const char *what)
{
	unsigned char *mem;

	FT_TRY(ft_slot_read(slot, &mem));
	return guards_check(slot, mem, got, what);
}

int ft_slot_check(const struct ft_slot *slot, size_t got, uint64_t key, const char *what)
{
	const size_t start = slot->off - slot->base;
	unsigned char *mem, expected;
	ssize_t diff;

	FT_TRY(ft_slot_read(slot, &mem));
	diff = ft_pattern_diff(mem + start, got, key, &expected);
	FT_CHECK(diff < 0,
		 "%s: wrong data in %s memory at offset %zd of %zu: expected "
		 "%#04x, found %#04x",
		 what, slot->buf->ops->name, diff, got, expected, mem[start + (size_t) diff]);
	return guards_check(slot, mem, got, what);
}

int ft_verify(const struct ft_buf *buf, size_t off, size_t len, uint64_t key)
{
	unsigned char *mem = (unsigned char *) buf->addr + off, expected;
	ssize_t diff;

	if (buf->ops->iface != FI_HMEM_SYSTEM) {
		FT_TRY(scratch_get(len, &mem));
		FT_TRY(buf->ops->from(mem, buf->addr + off, len));
	}
	diff = ft_pattern_diff(mem, len, key, &expected);
	FT_CHECK(diff < 0,
		 "message %" PRIu64 ": wrong data in %s memory at offset %zd of "
		 "%zu: expected %#04x, found %#04x",
		 key, buf->ops->name, diff, len, expected, mem[diff]);
	return 0;
}
