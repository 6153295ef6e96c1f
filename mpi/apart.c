/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Looks for a distance at which there is room for all pieces. See apart.h. */
#include "apart.h"

#include <sys/mman.h>

#include "base/base.h"

/* The largest page of any kernel */
#define APART_PAGE 65536
/* The longest and the shortest distance, as bits, and that from which on both directions are tried: below a stack it may grow */
#define APART_LONGEST 45
#define APART_BOTH 30
#define APART_SHORTEST 21

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

void apart_add(struct apart *apart, const void *data, size_t len)
{
	uintptr_t low = (uintptr_t) data & ~(uintptr_t) (APART_PAGE - 1),
		  high = P2P_ALIGN_UP((uintptr_t) data + len, APART_PAGE);

	for (size_t i = 0; i < apart->count;) {
		const struct apart_piece *piece = &apart->pieces[i++];
		/* there is no room for one more, so the last one takes it */
		const bool full = i == APART_PIECES;

		if (!full && (low > piece->high + APART_NEAR || piece->low > high + APART_NEAR))
			continue;
		low = P2P_MIN(low, piece->low);
		high = P2P_MAX(high, piece->high);
		apart->pieces[i - 1] = apart->pieces[--apart->count];
		/* longer now, it may be near to others */
		i = 0;
	}
	apart->pieces[apart->count++] = (struct apart_piece){low, high};
}

static void apart_unmap_first(const struct apart *apart, size_t count)
{
	for (size_t i = 0; i < count; i++)
		munmap((void *) (apart->pieces[i].low + apart->shift),
		       apart->pieces[i].high - apart->pieces[i].low);
}

static bool apart_try(struct apart *apart, uintptr_t shift)
{
	apart->shift = shift;
	for (size_t i = 0; i < apart->count; i++) {
		const struct apart_piece *piece = &apart->pieces[i];
		void *const at = (void *) (piece->low + shift);
		void *found =
			mmap(at, piece->high - piece->low, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			     -1, 0);

		if (found == at)
			continue;
		/* kernels that do not know the flag map it elsewhere */
		if (found != MAP_FAILED)
			munmap(found, piece->high - piece->low);
		apart_unmap_first(apart, i);
		return false;
	}
	return true;
}

bool apart_map(struct apart *apart)
{
	for (int bit = APART_LONGEST; bit >= APART_SHORTEST; bit--) {
		for (uintptr_t odd = 1; odd < 8; odd += 2) {
			if (apart_try(apart, odd << bit) ||
			    (bit >= APART_BOTH && apart_try(apart, -(odd << bit))))
				return true;
		}
	}
	return false;
}

void apart_unmap(const struct apart *apart)
{
	apart_unmap_first(apart, apart->count);
}
