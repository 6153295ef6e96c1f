/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads, writes and atomic operations of fi_xpu(3) that kernels do themselves, where the peer's memory is mapped (target_map of
 * rdma/fi_p2p_xpu.h). Not for applications.
 *
 *	kernel ── range? ► a place in the ring, if it is to be told ► loads and stores ► fence ► KIND_ENDED in that place
 *
 * What suits no range is the proxy's, and so is what is too long, and what its flags ask of the peer's host.
 */
#ifndef FI_P2P_XPU_RMA_H
#define FI_P2P_XPU_RMA_H

#include <rdma/fi_p2p_xpu_amo.h>
#include <rdma/fi_p2p_xpu_mapped.h>

/**
 * struct fi_p2p_xpu_rma - an operation, as its words say.
 * @op:		FI_P2P_XPU_OP_...; @type, @amo: of an atomic one
 * @size:	of one of its elements, 1 if it is none; @len: of all [bytes]
 * @reads, @writes: the peer's memory
 * @addr, @local, @result, @compare: where that and the arrays are; what the operation does not have is @local
 */
struct fi_p2p_xpu_rma {
	unsigned int op;
	int type, amo;
	uint32_t size;
	int reads, writes;
	uint64_t len;
	uint64_t addr, local, result, compare;
};

/* Of one without a size nothing is known: the proxy does it. */
FI_P2P_XPU_FUNC struct fi_p2p_xpu_rma fi_p2p_xpu_rma_of(const uint64_t *words, uint64_t what)
{
	struct fi_p2p_xpu_rma rma;

	rma.op = (unsigned int) (what & FI_P2P_XPU_OP_MASK);
	rma.type = (int) (what >> FI_P2P_XPU_DATATYPE_SHIFT & 0xff);
	rma.amo = (int) (what >> FI_P2P_XPU_ATOMIC_SHIFT & 0xff);
	rma.size = 1;
	rma.reads = rma.op != FI_P2P_XPU_OP_WRITE && rma.op != FI_P2P_XPU_OP_ATOMIC;
	rma.writes = rma.op != FI_P2P_XPU_OP_READ;
	rma.len = words[FI_P2P_XPU_W_LEN];
	rma.addr = words[FI_P2P_XPU_W_ADDR];
	rma.local = words[FI_P2P_XPU_W_BUF];
	rma.result = rma.compare = rma.local;
	if (rma.op < FI_P2P_XPU_OP_ATOMIC)
		return rma;
	rma.size = fi_p2p_xpu_amo_size(rma.type, rma.amo, rma.op == FI_P2P_XPU_OP_COMPARE);
	if (rma.len > FI_P2P_XPU_ATOMIC_MAX || (!rma.reads && rma.amo == FI_ATOMIC_READ))
		rma.size = 0;
	rma.len *= rma.size;
	if (rma.reads)
		rma.result = words[FI_P2P_XPU_W_RESULT];
	if (rma.op == FI_P2P_XPU_OP_COMPARE)
		rma.compare = words[FI_P2P_XPU_W_DATA];
	/* what only reads has no operands */
	rma.writes = rma.amo != FI_ATOMIC_READ;
	if (!rma.writes)
		rma.local = rma.compare = rma.result;
	return rma;
}

/* Are so many bytes from @at on within those from @begin on? */
FI_P2P_XPU_FUNC int fi_p2p_xpu_rma_within(uint64_t at, uint64_t bytes, uint64_t begin,
					  uint64_t len)
{
	return at - begin <= len && bytes <= len - (at - begin);
}

/*
 * Finds the range that has all of it, and sets where kernels find the peer's memory. 0: there is none; else the range's @what.
 * *@mapped_there: the peer's memory is mapped, if not that here
 */
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_rma_find(const struct fi_p2p_xpu_mapped *mapped,
					     const struct fi_p2p_xpu_rma *rma, uint64_t peer,
					     uint64_t key, uint64_t *to, int *mapped_there)
{
	const struct fi_p2p_xpu_table *table = (const struct fi_p2p_xpu_table *) mapped;
	const struct fi_p2p_xpu_range *range = &table->range[FI_P2P_XPU_RANGE_AT(peer, key)];
	const uint64_t wanted = (rma->reads ? FI_P2P_XPU_RANGE_READ : 0) |
				(rma->writes ? FI_P2P_XPU_RANGE_WRITE : 0);

	for (const struct fi_p2p_xpu_range *end = range + FI_P2P_XPU_PROBES; range < end;
	     range++) {
		/* all of this in one trip to memory */
		const struct fi_p2p_xpu_word2 name = fi_p2p_xpu_const2(&range->peer);
		const struct fi_p2p_xpu_word2 place = fi_p2p_xpu_const2(&range->addr);
		const struct fi_p2p_xpu_word2 both = fi_p2p_xpu_const2(&range->len);
		const struct fi_p2p_xpu_word2 rest = fi_p2p_xpu_const2(&range->local_len);

		if (!rest.hi)
			break;
		if (name.lo != peer || name.hi != key || wanted & ~rest.hi ||
		    !fi_p2p_xpu_rma_within(rma->addr, rma->len, place.lo, both.lo))
			continue;
		*mapped_there = 1;
		if (!fi_p2p_xpu_rma_within(rma->local, rma->len, both.hi, rest.lo) ||
		    !fi_p2p_xpu_rma_within(rma->result, rma->len, both.hi, rest.lo) ||
		    !fi_p2p_xpu_rma_within(rma->compare, rma->len, both.hi, rest.lo))
			continue;
		*to = place.hi + (rma->addr - place.lo);
		return rest.hi;
	}
	return 0;
}

/* Is it short enough for so many threads, and are its words aligned, where they are? */
FI_P2P_XPU_FUNC int fi_p2p_xpu_rma_suits(const struct fi_p2p_xpu_rma *rma, uint64_t to,
					 uint32_t threads)
{
	const uint64_t apart = (to ^ rma->local) | 16;

	if (rma->op >= FI_P2P_XPU_OP_ATOMIC)
		return !((to | rma->local | rma->result | rma->compare) & (rma->size - 1));
	return rma->len <= FI_P2P_XPU_WORDS_MAX * threads * (apart & -apart);
}

/* One of a type of 4 or 8 bytes */
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_rma_word(uint64_t at, uint32_t size)
{
	return size == 8 ? *(const fi_p2p_xpu_8 *) (uintptr_t) at
			 : *(const fi_p2p_xpu_4 *) (uintptr_t) at;
}

/* One thread's part of an atomic operation */
FI_P2P_XPU_FUNC void fi_p2p_xpu_rma_atomic(const struct fi_p2p_xpu_rma *rma, uint64_t to,
					   struct fi_p2p_xpu_part part)
{
	const uint64_t step = (uint64_t) part.count * rma->size;
	uint64_t old;

	for (uint64_t at = (uint64_t) part.index * rma->size; at < rma->len; at += step) {
		old = fi_p2p_xpu_amo_do(rma->type, rma->amo, to + at,
					fi_p2p_xpu_rma_word(rma->local + at, rma->size),
					fi_p2p_xpu_rma_word(rma->compare + at, rma->size));
		if (!rma->reads)
			continue;
		if (rma->size == 8)
			*(fi_p2p_xpu_8 *) (uintptr_t) (rma->result + at) = old;
		else
			*(fi_p2p_xpu_4 *) (uintptr_t) (rma->result + at) = (uint32_t) old;
	}
}

/* Each of the threads that act together calls it. */
FI_P2P_XPU_FUNC void fi_p2p_xpu_rma_do(const struct fi_p2p_xpu_rma *rma, uint64_t to,
				       struct fi_p2p_xpu_part part)
{
	/* words of other types than the caller's: not before its stores, and not behind what follows */
	__asm__ __volatile__("" ::: "memory");
	if (part.index >= part.count)
		;
	else if (rma->op >= FI_P2P_XPU_OP_ATOMIC)
		fi_p2p_xpu_rma_atomic(rma, to, part);
	else if (rma->op == FI_P2P_XPU_OP_READ)
		fi_p2p_xpu_copy(rma->local, to, rma->len, part);
	else
		fi_p2p_xpu_copy(to, rma->local, rma->len, part);
	__asm__ __volatile__("" ::: "memory");
}

/* The flags that need the peer's host, or the order of all that is under way */
#define FI_P2P_XPU_RMA_NOT                                                                     \
	((uint64_t) (FI_P2P_XPU_F_REMOTE_CQ_DATA | FI_P2P_XPU_F_FENCE |                        \
		     FI_P2P_XPU_F_COMMIT_COMPLETE)                                             \
	 << FI_P2P_XPU_FLAGS_SHIFT)

/* Does the kernel do it itself, where its memory is mapped? */
FI_P2P_XPU_FUNC int fi_p2p_xpu_rma_may(uint64_t what)
{
	const uint64_t op = what & FI_P2P_XPU_OP_MASK;

	return op >= FI_P2P_XPU_OP_WRITE && op <= FI_P2P_XPU_OP_COMPARE &&
	       !(what & FI_P2P_XPU_RMA_NOT);
}

/* Or is it one that the proxy does, or refuses, wherever its memory is? */
FI_P2P_XPU_FUNC int fi_p2p_xpu_rma_known(const struct fi_p2p_xpu_rma *rma)
{
	return rma->op < FI_P2P_XPU_OP_ATOMIC ||
	       (rma->size && rma->len && rma->len <= FI_P2P_XPU_ATOMIC_MAX);
}

/*
 * An operation of FI_P2P_XPU_WORDS, for which fi_p2p_xpu_rma_may() has been asked. It has ended when its place in the ring says
 * so: behind a fence, as the owner and the host may look then. What is read is not what a cache had. 0, -FI_EAGAIN,
 * -FI_EOPNOTSUPP or FI_P2P_XPU_NOT_MAPPED
 */
FI_P2P_XPU_FUNC_APART int fi_p2p_xpu_rma_post(struct fi_p2p_xpu_way way, const uint64_t *words,
					      uint64_t what, uint64_t flags, int scope)
{
	const struct fi_p2p_xpu_part part = fi_p2p_xpu_part_of(scope);
	const struct fi_p2p_xpu_rma rma = fi_p2p_xpu_rma_of(words, what);
	const int tell = !!(way.tell & FI_P2P_XPU_TELL_OPS);
	struct fi_p2p_xpu_open open;
	struct fi_p2p_xpu_word2 ended;
	uint64_t range, to = 0, position = 0;
	int first, mapped = 0, ret = 0;

	if (!fi_p2p_xpu_rma_known(&rma))
		return FI_P2P_XPU_NOT_MAPPED;
	range = fi_p2p_xpu_rma_find(way.mapped, &rma, words[FI_P2P_XPU_W_PEER],
				    words[FI_P2P_XPU_W_KEY], &to, &mapped);
	/* a word that the proxy changed, too, would lose what other kernels add meanwhile */
	if (!range || !fi_p2p_xpu_rma_suits(&rma, to, part.count))
		return mapped && rma.op >= FI_P2P_XPU_OP_ATOMIC ? -FI_EOPNOTSUPP
								: FI_P2P_XPU_NOT_MAPPED;
	first = fi_p2p_xpu_enter(scope);
	/* not before all have come here, as another thread of the scope may have used the ring */
	open = fi_p2p_xpu_way_open(way);
	if (first && (rma.reads || !(flags & FI_P2P_XPU_NO_FENCE)))
		fi_p2p_xpu_fence();
	if (first && tell)
		ret = fi_p2p_xpu_way_take(way, &open, 1, &position);
	ret = fi_p2p_xpu_leave(scope, ret);
	if (ret)
		return ret;
	fi_p2p_xpu_rma_do(&rma, to, part);
	/* all have done their part */
	ret = fi_p2p_xpu_leave(scope, 0);
	if (!first || !tell)
		return ret;
	fi_p2p_xpu_fence();
	ended.lo = words[FI_P2P_XPU_W_CONTEXT];
	ended.hi = (uint64_t) FI_P2P_XPU_KIND_ENDED << FI_P2P_XPU_KIND_SHIFT |
		   (range & FI_P2P_XPU_TARGETS_MASK) << FI_P2P_XPU_TARGET_SHIFT |
		   (what & (0xffULL << FI_P2P_XPU_FLAGS_SHIFT | FI_P2P_XPU_OP_MASK));
	fi_p2p_xpu_open_put(open, position, ended);
	return 0;
}

#endif /* FI_P2P_XPU_RMA_H */
