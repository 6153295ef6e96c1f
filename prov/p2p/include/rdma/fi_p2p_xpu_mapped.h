/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What kernels do themselves where the peer's memory is mapped (target_map of rdma/fi_p2p_xpu.h): puts and signals by loads
 * and stores. Not for applications.
 *
 *	kernel ── check ► a place in the ring, if it is to be counted ► copy or store ► KIND_DONE in that place
 */
#ifndef FI_P2P_XPU_MAPPED_H
#define FI_P2P_XPU_MAPPED_H

#include <rdma/fi_p2p_xpu_ring.h>

/* Of @count threads that copy together, a thread is number @index. */
struct fi_p2p_xpu_part {
	uint32_t index, count;
};

/* A division takes long, so a thread that is alone does none. */
FI_P2P_XPU_FUNC struct fi_p2p_xpu_part fi_p2p_xpu_part_of(int scope)
{
	struct fi_p2p_xpu_part part = {0, 1};
	uint32_t lanes, first;

	switch (scope) {
	case FI_XPU_SUBGROUP:
		lanes = (uint32_t) FI_P2P_XPU_LANES;
		part.index = (uint32_t) FI_P2P_XPU_THREAD % lanes;
		first = (uint32_t) FI_P2P_XPU_THREAD - part.index;
		part.count = (uint32_t) FI_P2P_XPU_THREADS - first;
		if (part.count > lanes)
			part.count = lanes;
		break;
	case FI_XPU_WORK_GROUP:
		part.index = (uint32_t) FI_P2P_XPU_THREAD;
		part.count = (uint32_t) FI_P2P_XPU_THREADS;
		break;
	case FI_XPU_DEVICE:
		part.index = FI_P2P_XPU_BLOCK || FI_P2P_XPU_THREAD;
		break;
	default:
		break;
	}
	return part;
}

/* Words of a copy, which may be of any type */
typedef struct {
	uint64_t lo, hi;
} __attribute__((aligned(16), may_alias)) fi_p2p_xpu_16;
typedef uint64_t fi_p2p_xpu_8 __attribute__((may_alias));
typedef uint32_t fi_p2p_xpu_4 __attribute__((may_alias));
typedef uint16_t fi_p2p_xpu_2 __attribute__((may_alias));

/* Four at a time: their loads are under way together */
#define FI_P2P_XPU_COPY(type, to, from, units, part)                                           \
	do {                                                                                   \
		type *out = (type *) (uintptr_t) (to);                                         \
		const type *in = (const type *) (uintptr_t) (from);                            \
		uint64_t at = (part).index;                                                    \
		const uint64_t n = (part).count;                                               \
                                                                                               \
		for (; at + 3 * n < (units); at += 4 * n) {                                    \
			const type a = in[at], b = in[at + n], c = in[at + 2 * n],             \
				   d = in[at + 3 * n];                                         \
                                                                                               \
			out[at] = a;                                                           \
			out[at + n] = b;                                                       \
			out[at + 2 * n] = c;                                                   \
			out[at + 3 * n] = d;                                                   \
		}                                                                              \
		for (; at < (units); at += n)                                                  \
			out[at] = in[at];                                                      \
	} while (0)

/* One thread's part of a copy. Words are as long as both addresses and what is left allow. */
FI_P2P_XPU_FUNC void fi_p2p_xpu_copy(uint64_t to, uint64_t from, uint64_t len,
				     struct fi_p2p_xpu_part part)
{
	uint64_t units, done;
	unsigned int bits;

	while (len) {
		for (bits = 4; bits && ((to | from) & ((1U << bits) - 1) || len >> bits == 0);
		     bits--)
			;
		/* one word alone, if longer ones may follow */
		units = bits < 4 && !((to ^ from) & ((2U << bits) - 1)) ? 1 : len >> bits;
		if (bits == 4)
			FI_P2P_XPU_COPY(fi_p2p_xpu_16, to, from, units, part);
		else if (bits == 3)
			FI_P2P_XPU_COPY(fi_p2p_xpu_8, to, from, units, part);
		else if (bits == 2)
			FI_P2P_XPU_COPY(fi_p2p_xpu_4, to, from, units, part);
		else if (bits == 1)
			FI_P2P_XPU_COPY(fi_p2p_xpu_2, to, from, units, part);
		else
			FI_P2P_XPU_COPY(char, to, from, units, part);
		done = units << bits;
		to += done;
		from += done;
		len -= done;
	}
}

/* What of a target is mapped, in the table of an endpoint; nothing if its @to is 0 */
FI_P2P_XPU_FUNC struct fi_p2p_xpu_mapped
fi_p2p_xpu_mapped_of(const struct fi_p2p_xpu_mapped *table, uint32_t target)
{
	struct fi_p2p_xpu_mapped mapped = {0, 0, 0, 0};
	struct fi_p2p_xpu_word2 both, more;

	if (target > FI_P2P_XPU_TARGETS_MASK)
		return mapped;
	both = fi_p2p_xpu_const2(&table[target]);
	more = fi_p2p_xpu_const2(&table[target].len);
	mapped.to = both.lo;
	mapped.from = both.hi;
	mapped.len = more.lo;
	return mapped;
}

/* @kind: as of a trigger. @value: of a put, where it is from; @len: 8 of a signal. 0 or -FI_EINVAL */
FI_P2P_XPU_FUNC int fi_p2p_xpu_mapped_check(const struct fi_p2p_xpu_mapped *mapped,
					    unsigned int kind, uint64_t offset, uint64_t len)
{
	if (offset > mapped->len || len > mapped->len - offset)
		return -FI_EINVAL;
	if (kind == FI_P2P_XPU_KIND_PUT)
		return mapped->from || !len ? 0 : -FI_EINVAL;
	return (mapped->to + offset) % 8 ? -FI_EINVAL : 0;
}

/* All threads of a scope call it. The first one signals: after what these have put, as they have met since. */
FI_P2P_XPU_FUNC void fi_p2p_xpu_mapped_do(const struct fi_p2p_xpu_mapped *mapped,
					  unsigned int kind, uint64_t offset, uint64_t value,
					  uint64_t len, struct fi_p2p_xpu_part part)
{
	uint64_t *word = (uint64_t *) (uintptr_t) (mapped->to + offset);

	if (part.index >= part.count)
		return;
	if (kind == FI_P2P_XPU_KIND_PUT)
		fi_p2p_xpu_copy(mapped->to + offset, mapped->from + value, len, part);
	else if (!part.index && kind == FI_P2P_XPU_KIND_SET)
		fi_p2p_xpu_store(word, value);
	else if (!part.index)
		fi_p2p_xpu_add(word, value);
}

/* Has the proxy count one operation. Its bytes have been read, and may still be on their way, as those of other puts. */
FI_P2P_XPU_FUNC void fi_p2p_xpu_mapped_count(struct fi_p2p_xpu_way way, uint64_t position,
					     uint32_t target)
{
	/* not before the copy */
	__asm__ __volatile__("" ::: "memory");
	fi_p2p_xpu_way_put(way, position, 0,
			   (uint64_t) FI_P2P_XPU_KIND_DONE << FI_P2P_XPU_KIND_SHIFT |
				   (uint64_t) target << FI_P2P_XPU_TARGET_SHIFT);
}

/* What it returns if the proxy is to do it */
#define FI_P2P_XPU_NOT_MAPPED 1

/*
 * The whole of it. @way: the ring whose place it takes, if it is counted. 0 or an error, and then nothing is done. It is
 * not inlined, so that other operations have the registers for themselves.
 */
FI_P2P_XPU_FUNC_APART int fi_p2p_xpu_mapped_post(struct fi_p2p_xpu_way way, unsigned int kind,
						 uint32_t target, uint64_t offset,
						 uint64_t value, uint64_t len, int scope)
{
	const struct fi_p2p_xpu_mapped mapped = fi_p2p_xpu_mapped_of(way.mapped, target);
	uint64_t position = 0;
	int ret, first;

	if (!mapped.to)
		return FI_P2P_XPU_NOT_MAPPED;
	ret = fi_p2p_xpu_mapped_check(&mapped, kind, offset, len);
	if (ret)
		return ret;
	first = fi_p2p_xpu_enter(scope);
	if (way.counted) {
		if (first)
			ret = fi_p2p_xpu_way_take(way, &position);
		ret = fi_p2p_xpu_leave(scope, ret);
		if (ret)
			return ret;
	}
	fi_p2p_xpu_mapped_do(&mapped, kind, offset, value, len, fi_p2p_xpu_part_of(scope));
	/* all have copied */
	ret = fi_p2p_xpu_leave(scope, ret);
	if (way.counted && first)
		fi_p2p_xpu_mapped_count(way, position, target);
	return ret;
}

#endif /* FI_P2P_XPU_MAPPED_H */
