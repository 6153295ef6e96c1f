/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Communication that a GPU starts: the calls of kernels, for CUDA, HIP, and plain C or C++.
 *
 * Names, arguments and results are those of rdma/fi_xpu_device.h of libfabric 2.7, which its manual
 * pages describe: fi_xpu(3), and fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3), fi_cq(3), fi_cntr(3).
 * What differs is said at each call. With FI_P2P_XPU_PREFIX defined before, only the names that begin
 * with fi_p2p_xpu_ are defined. A program that moves to a provider of libfabric's own includes
 * rdma/fi_xpu_device.h instead.
 *
 * Errors are negative FI_E* values:
 * -FI_EAGAIN	an operation: the ring is full, and nothing was posted. A queue: it is empty
 * -FI_EINVAL	the object is another provider's, or was exported by another release of ofi_p2p
 * -FI_ECANCELED the object is no longer exported
 * Whatever else fails is told later, by an error entry of the queue and the errors of the counter
 * that the endpoint is bound to.
 *
 * Scopes: all threads of a scope make the same call with the same arguments. One of them acts, and all
 * get the result; what a call writes, goes to the @buf of that thread, the first of the scope. FI_XPU_DEVICE
 * is for one thread of the grid: the others get 0 at once.
 *
 * Memory: an operation makes visible what its threads have written before. This fence may take a
 * microsecond. FI_P2P_XPU_NO_FENCE omits it: one __threadfence_system() before may serve
 * many operations. What a completion tells of is visible when the call returns that tells of it.
 *
 * Threads: any may call at any time; see FI_P2P_XPU_EXCLUSIVE.
 *
 * Mapped memory (target_map): the threads of @scope write, read and do atomic operations there themselves. Of FI_XPU_DEVICE the
 * first one does. Completions tell of them as of all others. What is long, or is asked for with FI_REMOTE_CQ_DATA or
 * FI_COMMIT_COMPLETE, goes by the proxy; so does all of an endpoint that was opened with FI_FENCE.
 */
#ifndef FI_P2P_XPU_DEVICE_H
#define FI_P2P_XPU_DEVICE_H

#include <rdma/fi_errno.h>
#include <rdma/fi_p2p_xpu.h>
#include <rdma/fi_p2p_xpu_abi.h>
#include <rdma/fi_p2p_xpu_mapped.h>
#include <rdma/fi_p2p_xpu_ring.h>
#include <rdma/fi_p2p_xpu_rma.h>
#ifdef FI_P2P_HAVE_FI_XPU
#include <rdma/fi_xpu_device.h>
#endif

/** A flag of fi_p2p_xpu_put_signal() */
#define FI_P2P_XPU_SIGNAL_ADD (1ULL << 61)

/* ---- operations ---- */

/* The 8 bytes that a raw address or descriptor is; NULL stands for @none */
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_raw(const void *raw, uint64_t none)
{
	return raw ? *(const uint64_t *) raw : none;
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_flags(uint64_t flags)
{
	uint64_t packed = 0;

	if (flags & FI_COMPLETION)
		packed |= FI_P2P_XPU_F_COMPLETION;
	if (flags & FI_REMOTE_CQ_DATA)
		packed |= FI_P2P_XPU_F_REMOTE_CQ_DATA;
	if (flags & FI_INJECT)
		packed |= FI_P2P_XPU_F_INJECT;
	if (flags & FI_INJECT_COMPLETE)
		packed |= FI_P2P_XPU_F_INJECT_COMPLETE;
	if (flags & FI_TRANSMIT_COMPLETE)
		packed |= FI_P2P_XPU_F_TRANSMIT_COMPLETE;
	if (flags & FI_DELIVERY_COMPLETE)
		packed |= FI_P2P_XPU_F_DELIVERY_COMPLETE;
	if (flags & FI_FENCE)
		packed |= FI_P2P_XPU_F_FENCE;
	if (flags & FI_COMMIT_COMPLETE)
		packed |= FI_P2P_XPU_F_COMMIT_COMPLETE;
	return packed << FI_P2P_XPU_FLAGS_SHIFT;
}

FI_P2P_XPU_FUNC int fi_p2p_xpu_post(struct fid_xpu_ep *ep, const uint64_t *words, uint64_t what,
				    uint64_t flags, int scope)
{
	struct fi_p2p_xpu_way way;
	int ret = fi_p2p_xpu_ep_way(ep, &way);

	if (ret)
		return ret;
	what |= fi_p2p_xpu_flags(flags);
	if (__builtin_expect(!!(way.tell & FI_P2P_XPU_TELL_RANGES), 0) &&
	    fi_p2p_xpu_rma_may(what)) {
		ret = fi_p2p_xpu_rma_post(way, words, what, flags, scope);
		if (ret != FI_P2P_XPU_NOT_MAPPED)
			return ret;
	}
	ret = 0;
	if (fi_p2p_xpu_enter(scope)) {
		if (!(flags & FI_P2P_XPU_NO_FENCE))
			fi_p2p_xpu_fence();
		ret = fi_p2p_xpu_way_post_op(way, words, what);
	}
	return fi_p2p_xpu_leave(scope, ret);
}

/*
 * Posts an operation that has no result. @at: where the remote memory is, or the tag; @with: its key, or the bits of the tag that
 * do not count. @peer and @desc are raw
 */
FI_P2P_XPU_FUNC int fi_p2p_xpu_post_plain(struct fid_xpu_ep *ep, uint64_t what, const void *buf,
					  size_t len, const void *desc, const void *peer,
					  uint64_t at, uint64_t with, void *context,
					  uint64_t data, uint64_t flags, int scope)
{
	const uint64_t words[FI_P2P_XPU_WORDS] = {
		(uintptr_t) buf,
		len,
		fi_p2p_xpu_raw(desc, 0),
		fi_p2p_xpu_raw(peer, FI_ADDR_UNSPEC),
		at,
		with,
		(uintptr_t) context,
		data,
	};

	return fi_p2p_xpu_post(ep, words, what, flags, scope);
}

/** As fi_xpu_send() of fi_msg(3). @data: with FI_REMOTE_CQ_DATA in @flags */
FI_P2P_XPU_FUNC int fi_p2p_xpu_send(struct fid_xpu_ep *ep, const void *buf, size_t len,
				    void *desc, uint64_t data, void *dest_addr, void *context,
				    uint64_t flags, int scope)
{
	return fi_p2p_xpu_post_plain(ep, FI_P2P_XPU_OP_SEND, buf, len, desc, dest_addr, 0, 0,
				     context, data, flags, scope);
}

/** As fi_xpu_recv() of fi_msg(3) */
FI_P2P_XPU_FUNC int fi_p2p_xpu_recv(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
				    void *src_addr, void *context, uint64_t flags, int scope)
{
	return fi_p2p_xpu_post_plain(ep, FI_P2P_XPU_OP_RECV, buf, len, desc, src_addr, 0, 0,
				     context, 0, flags, scope);
}

/** As fi_xpu_tsend() of fi_tagged(3). @data: with FI_REMOTE_CQ_DATA in @flags */
FI_P2P_XPU_FUNC int fi_p2p_xpu_tsend(struct fid_xpu_ep *ep, const void *buf, size_t len,
				     void *desc, uint64_t data, void *dest_addr, uint64_t tag,
				     void *context, uint64_t flags, int scope)
{
	return fi_p2p_xpu_post_plain(ep, FI_P2P_XPU_OP_TSEND, buf, len, desc, dest_addr, tag, 0,
				     context, data, flags, scope);
}

/** As fi_xpu_trecv() of fi_tagged(3) */
FI_P2P_XPU_FUNC int fi_p2p_xpu_trecv(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
				     void *src_addr, uint64_t tag, uint64_t ignore,
				     void *context, uint64_t flags, int scope)
{
	return fi_p2p_xpu_post_plain(ep, FI_P2P_XPU_OP_TRECV, buf, len, desc, src_addr, tag,
				     ignore, context, 0, flags, scope);
}

/** As fi_xpu_write() of fi_rma(3). @data: with FI_REMOTE_CQ_DATA in @flags */
FI_P2P_XPU_FUNC int fi_p2p_xpu_write(struct fid_xpu_ep *ep, const void *buf, size_t len,
				     void *desc, uint64_t data, void *dest_addr, uint64_t addr,
				     uint64_t key, void *context, uint64_t flags, int scope)
{
	return fi_p2p_xpu_post_plain(ep, FI_P2P_XPU_OP_WRITE, buf, len, desc, dest_addr, addr,
				     key, context, data, flags, scope);
}

/** fi_p2p_xpu_write() with FI_REMOTE_CQ_DATA */
FI_P2P_XPU_FUNC int fi_p2p_xpu_writedata(struct fid_xpu_ep *ep, const void *buf, size_t len,
					 void *desc, uint64_t data, void *dest_addr,
					 uint64_t addr, uint64_t key, void *context,
					 uint64_t flags, int scope)
{
	return fi_p2p_xpu_write(ep, buf, len, desc, data, dest_addr, addr, key, context,
				flags | FI_REMOTE_CQ_DATA, scope);
}

/** As fi_xpu_read() of fi_rma(3) */
FI_P2P_XPU_FUNC int fi_p2p_xpu_read(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
				    void *src_addr, uint64_t addr, uint64_t key, void *context,
				    uint64_t flags, int scope)
{
	return fi_p2p_xpu_post_plain(ep, FI_P2P_XPU_OP_READ, buf, len, desc, src_addr, addr,
				     key, context, 0, flags, scope);
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_atomic_what(int op, int datatype, int atomic)
{
	/* what is none is refused, and no other */
	if ((datatype | atomic) & ~0xff)
		return FI_P2P_XPU_OP_MASK;
	return (uint64_t) op | (uint64_t) datatype << FI_P2P_XPU_DATATYPE_SHIFT |
	       (uint64_t) atomic << FI_P2P_XPU_ATOMIC_SHIFT;
}

/** As fi_xpu_atomic() of fi_atomic(3) */
FI_P2P_XPU_FUNC int fi_p2p_xpu_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count,
				      void *desc, void *dest_addr, uint64_t addr, uint64_t key,
				      int datatype, int op, void *context, uint64_t flags,
				      int scope)
{
	return fi_p2p_xpu_post_plain(ep,
				     fi_p2p_xpu_atomic_what(FI_P2P_XPU_OP_ATOMIC, datatype, op),
				     buf, count, desc, dest_addr, addr, key, context, 0, flags,
				     scope);
}

/** As fi_xpu_fetch_atomic() of fi_atomic(3) */
FI_P2P_XPU_FUNC int fi_p2p_xpu_fetch_atomic(struct fid_xpu_ep *ep, const void *buf,
					    size_t count, void *desc, void *result,
					    void *result_desc, void *dest_addr, uint64_t addr,
					    uint64_t key, int datatype, int op, void *context,
					    uint64_t flags, int scope)
{
	const uint64_t words[FI_P2P_XPU_WORDS] = {
		(uintptr_t) buf,
		count,
		fi_p2p_xpu_raw(desc, 0),
		fi_p2p_xpu_raw(dest_addr, FI_ADDR_UNSPEC),
		addr,
		key,
		(uintptr_t) context,
		0,
		(uintptr_t) result,
		fi_p2p_xpu_raw(result_desc, 0),
	};

	return fi_p2p_xpu_post(ep, words,
			       fi_p2p_xpu_atomic_what(FI_P2P_XPU_OP_FETCH, datatype, op), flags,
			       scope);
}

/** As fi_xpu_compare_atomic() of fi_atomic(3) */
FI_P2P_XPU_FUNC int fi_p2p_xpu_compare_atomic(struct fid_xpu_ep *ep, const void *buf,
					      size_t count, void *desc, const void *compare,
					      void *compare_desc, void *result,
					      void *result_desc, void *dest_addr, uint64_t addr,
					      uint64_t key, int datatype, int op, void *context,
					      uint64_t flags, int scope)
{
	const uint64_t words[FI_P2P_XPU_WORDS] = {
		(uintptr_t) buf,
		count,
		fi_p2p_xpu_raw(desc, 0),
		fi_p2p_xpu_raw(dest_addr, FI_ADDR_UNSPEC),
		addr,
		key,
		(uintptr_t) context,
		(uintptr_t) compare,
		(uintptr_t) result,
		fi_p2p_xpu_raw(result_desc, 0),
		fi_p2p_xpu_raw(compare_desc, 0),
	};

	return fi_p2p_xpu_post(ep, words,
			       fi_p2p_xpu_atomic_what(FI_P2P_XPU_OP_COMPARE, datatype, op),
			       flags, scope);
}

/* ---- short operations, of one trigger ---- */

/**
 * fi_p2p_xpu_put() - writes to a target of struct fi_p2p_xpu_ops.target_add
 * @target:	its number
 * @offset:	where to, from the target's addr on [bytes]
 * @local:	where from, from the target's buf on [bytes]; both are less than 2^40
 * @len:	[bytes]
 * @flags:	FI_P2P_XPU_NO_FENCE or 0
 *
 * It is counted, and fails, as fi_xpu_write() does; it has no completion entry. A target or an offset that there is
 * not is an error of that kind, too. Errors beyond a thousand that nobody has read are counted only.
 *
 * Where the target is mapped (target_map), the threads of @scope copy together, of FI_XPU_DEVICE the first one. The call
 * returns when they have read all bytes. -FI_EINVAL: there is no such offset. @flags do not matter, and @local is not checked.
 */
FI_P2P_XPU_FUNC int fi_p2p_xpu_put(struct fid_xpu_ep *ep, uint32_t target, uint64_t offset,
				   uint64_t local, uint32_t len, uint64_t flags, int scope)
{
	return fi_p2p_xpu_short_post(ep,
				     fi_p2p_xpu_short_of(FI_P2P_XPU_KIND_PUT, target, offset,
							 local, len),
				     fi_p2p_xpu_short_none(), flags, scope);
}

/**
 * fi_p2p_xpu_signal_set(), fi_p2p_xpu_signal_add() - set the 8 bytes at @offset of a target, or
 * add to them
 *
 * Puts that the same ring has posted before to the same peer are there first. If one has failed, this
 * fails with FI_ECANCELED, as long as the counter has errors; without a counter, from then on. Adding wants FI_ATOMIC.
 *
 * Setting and adding to one word have no order, as writes and atomic operations have none: wait for the counter in between.
 *
 * Where the target is mapped, the kernel stores, or adds. Then it comes after the puts of the call's threads, and after those
 * that they have learned of by a barrier or an acquire. Additions are atomic among those of GPUs that do the same.
 * -FI_EINVAL: there is no such offset, or the word is not aligned
 */
FI_P2P_XPU_FUNC int fi_p2p_xpu_signal_set(struct fid_xpu_ep *ep, uint32_t target,
					  uint64_t offset, uint64_t value, uint64_t flags,
					  int scope)
{
	return fi_p2p_xpu_short_post(ep, fi_p2p_xpu_short_none(),
				     fi_p2p_xpu_short_of(FI_P2P_XPU_KIND_SET, target, offset,
							 value, 8),
				     flags, scope);
}

FI_P2P_XPU_FUNC int fi_p2p_xpu_signal_add(struct fid_xpu_ep *ep, uint32_t target,
					  uint64_t offset, uint64_t value, uint64_t flags,
					  int scope)
{
	return fi_p2p_xpu_short_post(ep, fi_p2p_xpu_short_none(),
				     fi_p2p_xpu_short_of(FI_P2P_XPU_KIND_ADD, target, offset,
							 value, 8),
				     flags, scope);
}

/**
 * fi_p2p_xpu_put_signal() - fi_p2p_xpu_put(), and behind it fi_p2p_xpu_signal_set(), in one call, which takes less time
 * @word:	the target of the signal, of the same peer as @target
 * @word_offset, @value: of the signal
 * @flags:	also FI_P2P_XPU_SIGNAL_ADD: the value is added, as by fi_p2p_xpu_signal_add()
 *
 * Both are posted, or none. They count as two operations.
 */
FI_P2P_XPU_FUNC int fi_p2p_xpu_put_signal(struct fid_xpu_ep *ep, uint32_t target,
					  uint64_t offset, uint64_t local, uint32_t len,
					  uint32_t word, uint64_t word_offset, uint64_t value,
					  uint64_t flags, int scope)
{
	const unsigned int kind =
		flags & FI_P2P_XPU_SIGNAL_ADD ? FI_P2P_XPU_KIND_ADD : FI_P2P_XPU_KIND_SET;

	return fi_p2p_xpu_short_post(ep,
				     fi_p2p_xpu_short_of(FI_P2P_XPU_KIND_PUT, target, offset,
							 local, len),
				     fi_p2p_xpu_short_of(kind, word, word_offset, value, 8),
				     flags, scope);
}

/* ---- bursts ---- */

/**
 * struct fi_p2p_xpu_burst - many short operations of one thread, whose ring's state stays in registers.
 *
 * A call of fi_p2p_xpu_put() finds the ring and its state in memory, which takes 0.25 us on an H200; within a
 * burst, a put takes 0.07. It is for endpoints that were exported with FI_P2P_XPU_EXCLUSIVE.
 * Until its end the ring is the burst's: nobody posts to it in another way. Its members are private.
 */
struct fi_p2p_xpu_burst {
	struct fi_p2p_xpu_way way;
	struct fi_p2p_xpu_open open;
};

/**
 * fi_p2p_xpu_burst_begin() - take the block's ring
 * @flags:	FI_P2P_XPU_NO_FENCE or 0: the burst's operations make visible what was written before it
 *
 * 0, -FI_EINVAL as all operations, or -FI_EOPNOTSUPP if rings have more than one user, or any target of the endpoint is
 * mapped.
 */
FI_P2P_XPU_FUNC int fi_p2p_xpu_burst_begin(struct fid_xpu_ep *ep,
					   struct fi_p2p_xpu_burst *burst, uint64_t flags)
{
	const int ret = fi_p2p_xpu_ep_way(ep, &burst->way);

	if (ret)
		return ret;
	if (!burst->way.own || burst->way.mapped)
		return -FI_EOPNOTSUPP;
	if (!(flags & FI_P2P_XPU_NO_FENCE))
		fi_p2p_xpu_fence();
	burst->open = fi_p2p_xpu_way_open(burst->way);
	return 0;
}

FI_P2P_XPU_FUNC int fi_p2p_xpu_burst_post(struct fi_p2p_xpu_burst *burst,
					  struct fi_p2p_xpu_short op)
{
	const uint64_t at = burst->open.head;
	int ret;

	if ((uint32_t) (at - burst->open.done) >= burst->open.size) {
		ret = fi_p2p_xpu_ring_room(burst->way.ring, at);
		if (ret)
			return ret;
		burst->open.done = burst->way.ring->done;
	}
	fi_p2p_xpu_open_put(burst->open, at, fi_p2p_xpu_short_trigger(op));
	burst->open.head = at + 1;
	return 0;
}

/** As fi_p2p_xpu_put(), fi_p2p_xpu_signal_set() and fi_p2p_xpu_signal_add() */
FI_P2P_XPU_FUNC int fi_p2p_xpu_burst_put(struct fi_p2p_xpu_burst *burst, uint32_t target,
					 uint64_t offset, uint64_t local, uint32_t len)
{
	return fi_p2p_xpu_burst_post(burst, fi_p2p_xpu_short_of(FI_P2P_XPU_KIND_PUT, target,
								offset, local, len));
}

FI_P2P_XPU_FUNC int fi_p2p_xpu_burst_signal_set(struct fi_p2p_xpu_burst *burst, uint32_t target,
						uint64_t offset, uint64_t value)
{
	return fi_p2p_xpu_burst_post(burst, fi_p2p_xpu_short_of(FI_P2P_XPU_KIND_SET, target,
								offset, value, 8));
}

FI_P2P_XPU_FUNC int fi_p2p_xpu_burst_signal_add(struct fi_p2p_xpu_burst *burst, uint32_t target,
						uint64_t offset, uint64_t value)
{
	return fi_p2p_xpu_burst_post(burst, fi_p2p_xpu_short_of(FI_P2P_XPU_KIND_ADD, target,
								offset, value, 8));
}

/** fi_p2p_xpu_burst_end() - give the ring back */
FI_P2P_XPU_FUNC void fi_p2p_xpu_burst_end(struct fi_p2p_xpu_burst *burst)
{
	burst->way.ring->head = burst->open.head;
}

/* ---- counters ---- */

FI_P2P_XPU_FUNC struct fi_p2p_xpu_cntr_dev *fi_p2p_xpu_cntr(const struct fid_xpu_cntr *cntr)
{
	struct fi_p2p_xpu_cntr_dev *dev = (struct fi_p2p_xpu_cntr_dev *) cntr->fid.prov_ctx;

	return cntr->fid.prov_id == FI_XPU_PROV_P2P && dev->abi == FI_P2P_XPU_ABI ? dev : 0;
}

FI_P2P_XPU_FUNC struct fi_p2p_xpu_count fi_p2p_xpu_cntr_once(const struct fid_xpu_cntr *cntr)
{
	struct fi_p2p_xpu_cntr_dev *dev = fi_p2p_xpu_cntr(cntr);
	struct fi_p2p_xpu_watch watch = {0, 0, {0, 0}};

	if (!dev)
		return watch.seen;
	watch = fi_p2p_xpu_watch_begin(dev);
	while (!fi_p2p_xpu_watch_see(dev, &watch))
		fi_p2p_xpu_pause();
	fi_p2p_xpu_watch_end(dev, &watch);
	return watch.seen;
}

/**
 * As fi_xpu_cntr_read() of fi_cntr(3). Each thread reads by itself, whatever the scope.
 */
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_cntr_read(struct fid_xpu_cntr *cntr, int scope)
{
	(void) scope;
	return fi_p2p_xpu_cntr_once(cntr).value;
}

/** As fi_xpu_cntr_readerr() of fi_cntr(3) */
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_cntr_readerr(struct fid_xpu_cntr *cntr, int scope)
{
	(void) scope;
	return fi_p2p_xpu_cntr_once(cntr).errors & ~FI_P2P_XPU_CLOSED;
}

/* One thread waits. @timeout: [ms], or negative */
FI_P2P_XPU_FUNC void fi_p2p_xpu_cntr_await(struct fi_p2p_xpu_cntr_dev *dev, uint64_t threshold,
					   int timeout)
{
	const uint64_t end =
		timeout < 0 ? ~0ULL : fi_p2p_xpu_now() + (uint64_t) timeout * 1000000U;
	struct fi_p2p_xpu_watch watch = fi_p2p_xpu_watch_begin(dev);

	for (;;) {
		if (fi_p2p_xpu_watch_see(dev, &watch) &&
		    (watch.seen.value >= threshold || watch.seen.errors))
			break;
		if (end != ~0ULL && fi_p2p_xpu_now() >= end)
			break;
		fi_p2p_xpu_pause();
	}
	fi_p2p_xpu_watch_end(dev, &watch);
}

/**
 * As fi_xpu_cntr_wait() of fi_cntr(3): returns when the counter has reached @threshold, is no longer
 * exported, or @timeout [ms] has passed (negative: never). It returns, too, if the counter has errors, old
 * ones included: fi_xpu_cntr_seterr() makes it forget them. The caller reads the counter to learn which it
 * was.
 */
FI_P2P_XPU_FUNC void fi_p2p_xpu_cntr_wait(struct fid_xpu_cntr *cntr, uint64_t threshold,
					  int timeout, int scope)
{
	struct fi_p2p_xpu_cntr_dev *dev = fi_p2p_xpu_cntr(cntr);

	if (!dev)
		return;
	if (fi_p2p_xpu_enter(scope))
		fi_p2p_xpu_cntr_await(dev, threshold, timeout);
	(void) fi_p2p_xpu_leave(scope, 0);
}

FI_P2P_XPU_FUNC int fi_p2p_xpu_cntr_change(struct fid_xpu_cntr *cntr, int op, uint64_t value,
					   int scope)
{
	const uint64_t words[FI_P2P_XPU_WORDS] = {value};
	struct fi_p2p_xpu_cntr_dev *dev = fi_p2p_xpu_cntr(cntr);
	struct fi_p2p_xpu_way way = {0, 0, 0, 0};
	int ret = 0;

	if (!dev)
		return -FI_EINVAL;
	way.ring = &dev->ring;
	if (fi_p2p_xpu_enter(scope))
		ret = fi_p2p_xpu_way_post_op(way, words, (uint64_t) op);
	return fi_p2p_xpu_leave(scope, ret);
}

/** As fi_xpu_cntr_add(), _set(), _adderr() and _seterr() of fi_cntr(3): soon, in the order of calls */
FI_P2P_XPU_FUNC int fi_p2p_xpu_cntr_add(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	return fi_p2p_xpu_cntr_change(cntr, FI_P2P_XPU_OP_CNTR_ADD, value, scope);
}

FI_P2P_XPU_FUNC int fi_p2p_xpu_cntr_set(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	return fi_p2p_xpu_cntr_change(cntr, FI_P2P_XPU_OP_CNTR_SET, value, scope);
}

FI_P2P_XPU_FUNC int fi_p2p_xpu_cntr_adderr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	return fi_p2p_xpu_cntr_change(cntr, FI_P2P_XPU_OP_CNTR_ADDERR, value, scope);
}

FI_P2P_XPU_FUNC int fi_p2p_xpu_cntr_seterr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
	return fi_p2p_xpu_cntr_change(cntr, FI_P2P_XPU_OP_CNTR_SETERR, value, scope);
}

/* ---- completion queues ---- */

FI_P2P_XPU_FUNC struct fi_p2p_xpu_cq_dev *fi_p2p_xpu_cq(const struct fid_xpu_cq *cq)
{
	struct fi_p2p_xpu_cq_dev *dev = (struct fi_p2p_xpu_cq_dev *) cq->fid.prov_ctx;

	return cq->fid.prov_id == FI_XPU_PROV_P2P && dev->abi == FI_P2P_XPU_ABI ? dev : 0;
}

/* Is the entry at a position there? 1, 0, or -FI_EAVAIL if it is an error */
FI_P2P_XPU_FUNC int fi_p2p_xpu_cq_there(const struct fi_p2p_xpu_cq_dev *dev, uint64_t at)
{
	const uint64_t turn = fi_p2p_xpu_load(&dev->entries[at & (dev->size - 1)].turn);

	if ((turn & ~FI_P2P_XPU_ERROR) != at + 1)
		return 0;
	return turn & FI_P2P_XPU_ERROR ? -FI_EAVAIL : 1;
}

/*
 * Are there @threshold entries from @head on? Or as many as there will be, before an error, or as the queue is no longer
 * exported? The one at @head is there.
 */
FI_P2P_XPU_FUNC int fi_p2p_xpu_cq_enough(const struct fi_p2p_xpu_cq_dev *dev, uint64_t head,
					 uint64_t threshold)
{
	int there = 1;

	if (threshold > dev->size)
		threshold = dev->size;
	if (threshold <= 1 || fi_p2p_xpu_cq_there(dev, head + threshold - 1) > 0)
		return 1;
	for (uint64_t at = 1; there > 0 && at < threshold; at++)
		there = fi_p2p_xpu_cq_there(dev, head + at);
	return there < 0 || fi_p2p_xpu_load(&dev->queue->closed);
}

/* The thread that looks at the queue reads up to @count entries, if @threshold are there or an error is. */
FI_P2P_XPU_FUNC int64_t fi_p2p_xpu_cq_take(struct fi_p2p_xpu_cq_dev *dev, char *buf,
					   size_t count, uint64_t *src, uint64_t threshold)
{
	const uint64_t head = fi_p2p_xpu_peek(&dev->head);
	const struct fi_p2p_xpu_entry *entry;
	size_t read = 0;
	int there = fi_p2p_xpu_cq_there(dev, head);

	if (there < 0)
		return there;
	if (there && !fi_p2p_xpu_cq_enough(dev, head, threshold))
		there = 0;
	while (there > 0 && read < count) {
		entry = &dev->entries[(head + read) & (dev->size - 1)];
		for (uint32_t i = 0; i < dev->entry_size / 8; i++)
			((uint64_t *) (buf + read * dev->entry_size))[i] = (&entry->context)[i];
		if (src)
			src[read] = entry->src;
		read++;
		there = read < count ? fi_p2p_xpu_cq_there(dev, head + read) : 0;
	}
	if (!read)
		return fi_p2p_xpu_load(&dev->queue->closed) ? -FI_ECANCELED : -FI_EAGAIN;
	fi_p2p_xpu_poke(&dev->head, head + read);
	fi_p2p_xpu_store(&dev->queue->read, head + read);
	return (int64_t) read;
}

/* One thread reads; -FI_EAGAIN, too, while another one does */
FI_P2P_XPU_FUNC int64_t fi_p2p_xpu_cq_try(struct fi_p2p_xpu_cq_dev *dev, char *buf,
					  size_t count, uint64_t *src, uint64_t threshold)
{
	int64_t ret;

	if (!fi_p2p_xpu_look(&dev->looking))
		return -FI_EAGAIN;
	ret = fi_p2p_xpu_cq_take(dev, buf, count, src, threshold);
	fi_p2p_xpu_store_near(&dev->looking, 0);
	return ret;
}

/**
 * As fi_xpu_cq_readfrom() of fi_cq(3): entries of the queue's format. @src_addr: room for @count raw
 * addresses, or NULL
 */
FI_P2P_XPU_FUNC int64_t fi_p2p_xpu_cq_readfrom(struct fid_xpu_cq *cq, void *buf, size_t count,
					       void *src_addr, int scope)
{
	struct fi_p2p_xpu_cq_dev *dev = fi_p2p_xpu_cq(cq);
	int ret = 0;

	if (!dev)
		return -FI_EINVAL;
	if (fi_p2p_xpu_enter(scope))
		ret = (int) fi_p2p_xpu_cq_try(dev, (char *) buf, count, (uint64_t *) src_addr,
					      1);
	return fi_p2p_xpu_leave(scope, ret);
}

/** As fi_xpu_cq_read() of fi_cq(3) */
FI_P2P_XPU_FUNC int64_t fi_p2p_xpu_cq_read(struct fid_xpu_cq *cq, void *buf, size_t count,
					   int scope)
{
	return fi_p2p_xpu_cq_readfrom(cq, buf, count, 0, scope);
}

/* The thread that looks at the queue takes the error at its head: 1, or -FI_EAGAIN */
FI_P2P_XPU_FUNC int fi_p2p_xpu_cq_take_error(struct fi_p2p_xpu_cq_dev *dev,
					     struct fi_cq_err_entry *error)
{
	const uint64_t head = fi_p2p_xpu_peek(&dev->head);
	const struct fi_p2p_xpu_entry *entry = &dev->entries[head & (dev->size - 1)];

	if (fi_p2p_xpu_cq_there(dev, head) >= 0)
		return -FI_EAGAIN;
	error->op_context = (void *) (uintptr_t) entry->context;
	error->flags = entry->flags;
	error->len = entry->len;
	error->buf = (void *) (uintptr_t) entry->buf;
	error->data = entry->data;
	error->tag = entry->tag;
	error->olen = entry->olen;
	error->err = entry->err;
	error->prov_errno = entry->prov_errno;
	error->err_data_size = 0;
	fi_p2p_xpu_poke(&dev->head, head + 1);
	fi_p2p_xpu_store(&dev->queue->read, head + 1);
	return 1;
}

/**
 * As fi_xpu_cq_readerr() of fi_cq(3): @buf is a struct fi_cq_err_entry, whose err_data stays
 * empty. 1, or -FI_EAGAIN
 */
FI_P2P_XPU_FUNC int64_t fi_p2p_xpu_cq_readerr(struct fid_xpu_cq *cq, void *buf, uint64_t flags,
					      int scope)
{
	struct fi_p2p_xpu_cq_dev *dev = fi_p2p_xpu_cq(cq);
	int ret = 0;

	(void) flags;
	if (!dev)
		return -FI_EINVAL;
	if (fi_p2p_xpu_enter(scope)) {
		ret = -FI_EAGAIN;
		if (fi_p2p_xpu_look(&dev->looking)) {
			ret = fi_p2p_xpu_cq_take_error(dev, (struct fi_cq_err_entry *) buf);
			fi_p2p_xpu_store_near(&dev->looking, 0);
		}
	}
	return fi_p2p_xpu_leave(scope, ret);
}

/**
 * As fi_xpu_cq_sreadfrom() of fi_cq(3): waits until @threshold entries are there (0 and 1 are the same;
 * no more than the queue has room for), or an error, or the queue is no longer exported
 */
FI_P2P_XPU_FUNC int64_t fi_p2p_xpu_cq_sreadfrom(struct fid_xpu_cq *cq, void *buf, size_t count,
						void *src_addr, uint64_t threshold, int scope)
{
	struct fi_p2p_xpu_cq_dev *dev = fi_p2p_xpu_cq(cq);
	int ret = 0;

	if (!dev)
		return -FI_EINVAL;
	if (fi_p2p_xpu_enter(scope)) {
		while ((ret = (int) fi_p2p_xpu_cq_try(dev, (char *) buf, count,
						      (uint64_t *) src_addr, threshold)) ==
		       -FI_EAGAIN)
			fi_p2p_xpu_pause();
	}
	return fi_p2p_xpu_leave(scope, ret);
}

/** As fi_xpu_cq_sread() of fi_cq(3) */
FI_P2P_XPU_FUNC int64_t fi_p2p_xpu_cq_sread(struct fid_xpu_cq *cq, void *buf, size_t count,
					    uint64_t threshold, int scope)
{
	return fi_p2p_xpu_cq_sreadfrom(cq, buf, count, 0, threshold, scope);
}

/* ---- the standard names ---- */

#ifndef FI_P2P_XPU_PREFIX
#define fi_xpu_send fi_p2p_xpu_send
#define fi_xpu_recv fi_p2p_xpu_recv
#define fi_xpu_tsend fi_p2p_xpu_tsend
#define fi_xpu_trecv fi_p2p_xpu_trecv
#define fi_xpu_write fi_p2p_xpu_write
#define fi_xpu_writedata fi_p2p_xpu_writedata
#define fi_xpu_read fi_p2p_xpu_read
#define fi_xpu_atomic fi_p2p_xpu_atomic
#define fi_xpu_fetch_atomic fi_p2p_xpu_fetch_atomic
#define fi_xpu_compare_atomic fi_p2p_xpu_compare_atomic
#define fi_xpu_cntr_read fi_p2p_xpu_cntr_read
#define fi_xpu_cntr_readerr fi_p2p_xpu_cntr_readerr
#define fi_xpu_cntr_wait fi_p2p_xpu_cntr_wait
#define fi_xpu_cntr_add fi_p2p_xpu_cntr_add
#define fi_xpu_cntr_set fi_p2p_xpu_cntr_set
#define fi_xpu_cntr_adderr fi_p2p_xpu_cntr_adderr
#define fi_xpu_cntr_seterr fi_p2p_xpu_cntr_seterr
#define fi_xpu_cq_read fi_p2p_xpu_cq_read
#define fi_xpu_cq_readfrom fi_p2p_xpu_cq_readfrom
#define fi_xpu_cq_readerr fi_p2p_xpu_cq_readerr
#define fi_xpu_cq_sread fi_p2p_xpu_cq_sread
#define fi_xpu_cq_sreadfrom fi_p2p_xpu_cq_sreadfrom
#endif

#endif /* FI_P2P_XPU_DEVICE_H */
