/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Puts and signals. Where the peer's memory is mapped (target_map of rdma/fi_p2p_xpu.h), kernels do them themselves, by loads
 * and stores. Not for applications.
 *
 *	kernel ── check ► a place in the ring, if it is to be counted ► copy or store ► KIND_DONE in that place
 */
#ifndef FI_P2P_XPU_MAPPED_H
#define FI_P2P_XPU_MAPPED_H

#include <rdma/fi_p2p_xpu_ring.h>

/*
 * struct fi_p2p_xpu_short - a put or a signal, of one trigger. @kind: as of that. @value: of a put, where it is from; @len: 8 of
 * a signal
 */
struct fi_p2p_xpu_short {
	unsigned int kind;
	uint32_t target;
	uint64_t offset, value, len;
};

FI_P2P_XPU_FUNC struct fi_p2p_xpu_short fi_p2p_xpu_short_of(unsigned int kind, uint32_t target,
							    uint64_t offset, uint64_t value,
							    uint64_t len)
{
	const struct fi_p2p_xpu_short op = {kind, target, offset, value, len};

	return op;
}

/* There is no such operation */
FI_P2P_XPU_FUNC struct fi_p2p_xpu_short fi_p2p_xpu_short_none(void)
{
	return fi_p2p_xpu_short_of(FI_P2P_XPU_KIND_NONE, 0, 0, 0, 0);
}

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

/* One thread's part of a copy of any kind. Words are as long as both addresses and what is left allow. */
FI_P2P_XPU_FUNC_APART void fi_p2p_xpu_copy_any(uint64_t to, uint64_t from, uint64_t len,
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

/* The same, in few instructions for one word, and for what is aligned */
FI_P2P_XPU_FUNC void fi_p2p_xpu_copy(uint64_t to, uint64_t from, uint64_t len,
				     struct fi_p2p_xpu_part part)
{
	const uint32_t bits = (uint32_t) (to | from | len);

	if (len == 8 && !(bits & 7)) {
		if (!part.index)
			*(fi_p2p_xpu_8 *) (uintptr_t) to =
				*(const fi_p2p_xpu_8 *) (uintptr_t) from;
	} else if (!(bits & 15)) {
		FI_P2P_XPU_COPY(fi_p2p_xpu_16, to, from, len >> 4, part);
	} else {
		fi_p2p_xpu_copy_any(to, from, len, part);
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

/* 0 or -FI_EINVAL */
FI_P2P_XPU_FUNC int fi_p2p_xpu_mapped_check(const struct fi_p2p_xpu_mapped *mapped,
					    const struct fi_p2p_xpu_short *op)
{
	if (op->offset > mapped->len || op->len > mapped->len - op->offset)
		return -FI_EINVAL;
	if (op->kind == FI_P2P_XPU_KIND_PUT)
		return mapped->from || !op->len ? 0 : -FI_EINVAL;
	return (mapped->to + op->offset) % 8 ? -FI_EINVAL : 0;
}

/* Has the proxy count one operation. Its bytes have been read, and may still be on their way, as those of other puts. */
FI_P2P_XPU_FUNC void fi_p2p_xpu_mapped_count(struct fi_p2p_xpu_open open, uint64_t position,
					     uint32_t target)
{
	const struct fi_p2p_xpu_word2 done = {0, (uint64_t) FI_P2P_XPU_KIND_DONE
								 << FI_P2P_XPU_KIND_SHIFT |
							 (uint64_t) target
								 << FI_P2P_XPU_TARGET_SHIFT};

	fi_p2p_xpu_open_put(open, position, done);
}

/* Each of the threads that copy calls it. */
FI_P2P_XPU_FUNC void fi_p2p_xpu_mapped_put(const struct fi_p2p_xpu_mapped *mapped,
					   const struct fi_p2p_xpu_short *op, int scope)
{
	const struct fi_p2p_xpu_part part = fi_p2p_xpu_part_of(scope);

	/* words of other types than the caller's: not before its stores, and not behind what follows */
	__asm__ __volatile__("" ::: "memory");
	if (part.index < part.count)
		fi_p2p_xpu_copy(mapped->to + op->offset, mapped->from + op->value, op->len,
				part);
	__asm__ __volatile__("" ::: "memory");
}

/* One thread calls it, after all of its scope have copied. */
FI_P2P_XPU_FUNC void fi_p2p_xpu_mapped_signal(const struct fi_p2p_xpu_mapped *mapped,
					      const struct fi_p2p_xpu_short *op)
{
	uint64_t *word = (uint64_t *) (uintptr_t) (mapped->to + op->offset);

	if (op->kind == FI_P2P_XPU_KIND_SET)
		fi_p2p_xpu_store(word, op->value);
	else
		fi_p2p_xpu_add(word, op->value);
}

/* What it returns if the proxy is to do it */
#define FI_P2P_XPU_NOT_MAPPED 1

/*
 * A put, a signal, or both: of what there is not, @kind is FI_P2P_XPU_KIND_NONE. @way: the ring whose places they take, if they
 * are counted. 0 or an error, and then nothing is done.
 */
FI_P2P_XPU_FUNC int fi_p2p_xpu_mapped_post(struct fi_p2p_xpu_way way,
					   struct fi_p2p_xpu_short put,
					   struct fi_p2p_xpu_short signal, int scope)
{
	const int puts = put.kind != FI_P2P_XPU_KIND_NONE;
	const int signals = signal.kind != FI_P2P_XPU_KIND_NONE;
	const int counted = !!(way.tell & FI_P2P_XPU_TELL_PUTS);
	const int first = fi_p2p_xpu_enter(scope);
	struct fi_p2p_xpu_mapped data = {0, 0, 0, 0}, word = {0, 0, 0, 0};
	struct fi_p2p_xpu_open open;
	uint64_t position = 0;
	int ret = 0;

	/* all of this in one trip to memory */
	if (puts)
		data = fi_p2p_xpu_mapped_of(way.mapped, put.target);
	if (signals)
		word = fi_p2p_xpu_mapped_of(way.mapped, signal.target);
	open = fi_p2p_xpu_way_open(way);
	if (!data.to && !word.to)
		return FI_P2P_XPU_NOT_MAPPED;
	if (puts && (!data.to || fi_p2p_xpu_mapped_check(&data, &put)))
		return -FI_EINVAL;
	if (signals && (!word.to || fi_p2p_xpu_mapped_check(&word, &signal)))
		return -FI_EINVAL;
	if (counted && first)
		ret = fi_p2p_xpu_way_take(way, &open, (uint32_t) (puts + signals), &position);
	if (puts) {
		if (counted)
			ret = fi_p2p_xpu_leave(scope, ret);
		if (!ret)
			fi_p2p_xpu_mapped_put(&data, &put, scope);
		/* all have copied */
		ret = fi_p2p_xpu_leave(scope, ret);
	}
	if (signals && first && !ret)
		fi_p2p_xpu_mapped_signal(&word, &signal);
	if (counted && first && !ret) {
		if (puts)
			fi_p2p_xpu_mapped_count(open, position, put.target);
		if (signals)
			fi_p2p_xpu_mapped_count(open, position + (uint64_t) puts,
						signal.target);
	}
	return puts || !counted ? ret : fi_p2p_xpu_leave(scope, ret);
}

/*
 * The same for threads that act together. They are not inlined, so that kernels with many calls stay small, and each takes only
 * what it needs, as all kernels have as many registers as the largest function that they call.
 */
FI_P2P_XPU_FUNC_APART int fi_p2p_xpu_mapped_put_together(struct fi_p2p_xpu_way way,
							 struct fi_p2p_xpu_short put, int scope)
{
	return fi_p2p_xpu_mapped_post(way, put, fi_p2p_xpu_short_none(), scope);
}

FI_P2P_XPU_FUNC_APART int fi_p2p_xpu_mapped_signal_together(struct fi_p2p_xpu_way way,
							    struct fi_p2p_xpu_short signal,
							    int scope)
{
	return fi_p2p_xpu_mapped_post(way, fi_p2p_xpu_short_none(), signal, scope);
}

FI_P2P_XPU_FUNC_APART int fi_p2p_xpu_mapped_both_together(struct fi_p2p_xpu_way way,
							  struct fi_p2p_xpu_short put,
							  struct fi_p2p_xpu_short signal,
							  int scope)
{
	return fi_p2p_xpu_mapped_post(way, put, signal, scope);
}

/* ---- by the kernel or by the proxy ---- */

/* Its trigger; the proxy refuses what does not fit */
FI_P2P_XPU_FUNC struct fi_p2p_xpu_word2 fi_p2p_xpu_short_trigger(struct fi_p2p_xpu_short op)
{
	const int put = op.kind == FI_P2P_XPU_KIND_PUT;
	struct fi_p2p_xpu_word2 words = {op.value, (uint64_t) FI_P2P_XPU_KIND_NONE
							   << FI_P2P_XPU_KIND_SHIFT};

	if (op.target <= FI_P2P_XPU_TARGETS_MASK &&
	    !((op.offset | (put ? op.value : 0)) >> FI_P2P_XPU_OFFSET_BITS))
		words.hi = (uint64_t) op.kind << FI_P2P_XPU_KIND_SHIFT |
			   (uint64_t) op.target << FI_P2P_XPU_TARGET_SHIFT | op.offset << 8;
	if (put) {
		words.lo = op.value << 24 | op.len >> 8;
		words.hi |= op.len & 0xff;
	}
	return words;
}

/* A put, a signal, or both. Where the memory is mapped, the kernel does them. Else the proxy does, by one trigger each. */
FI_P2P_XPU_FUNC int fi_p2p_xpu_short_post(struct fid_xpu_ep *ep, struct fi_p2p_xpu_short put,
					  struct fi_p2p_xpu_short signal, uint64_t flags,
					  int scope)
{
	const int puts = put.kind != FI_P2P_XPU_KIND_NONE;
	const int signals = signal.kind != FI_P2P_XPU_KIND_NONE;
	struct fi_p2p_xpu_way way;
	struct fi_p2p_xpu_open open;
	uint64_t position = 0;
	int ret = fi_p2p_xpu_ep_way(ep, &way);

	if (ret)
		return ret;
	if (__builtin_expect(way.mapped != 0, 0)) {
		if (scope == FI_XPU_WORK_ITEM)
			ret = fi_p2p_xpu_mapped_post(way, put, signal, FI_XPU_WORK_ITEM);
		else if (!signals)
			ret = fi_p2p_xpu_mapped_put_together(way, put, scope);
		else if (!puts)
			ret = fi_p2p_xpu_mapped_signal_together(way, signal, scope);
		else
			ret = fi_p2p_xpu_mapped_both_together(way, put, signal, scope);
		if (ret != FI_P2P_XPU_NOT_MAPPED)
			return ret;
	}
	ret = 0;
	if (fi_p2p_xpu_enter(scope)) {
		if (!(flags & FI_P2P_XPU_NO_FENCE))
			fi_p2p_xpu_fence();
		open = fi_p2p_xpu_way_open(way);
		ret = fi_p2p_xpu_way_take(way, &open, (uint32_t) (puts + signals), &position);
		if (!ret && puts)
			fi_p2p_xpu_open_put(open, position, fi_p2p_xpu_short_trigger(put));
		if (!ret && signals)
			fi_p2p_xpu_open_put(open, position + (uint64_t) puts,
					    fi_p2p_xpu_short_trigger(signal));
	}
	return fi_p2p_xpu_leave(scope, ret);
}

#endif /* FI_P2P_XPU_MAPPED_H */
