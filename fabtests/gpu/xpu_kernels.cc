/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels that communicate. See xpu_kernels.h. */
#include "gpu_kernel.h"
#include "gpu_xpu.h"

#include "xpu_kernels.h"

#ifndef GPU_COMPILED
#include <thread>
#include <vector>
#endif

/* ---- what kernels have in common ---- */

#define XPU_FAIL(args, code) ((args).result[xpu_block()] = (uint64_t) (code))

__device__ static inline unsigned int xpu_block(void)
{
	return blockIdx.x;
}

__device__ static uint64_t xpu_part(const struct xpu_args &args, uint64_t i)
{
	return (xpu_block() * args.count + i) * args.len;
}

/* What all blocks have posted is counted, or this block has failed. */
__device__ static void xpu_await(struct xpu_args &args, struct fid_xpu_cntr *cntr)
{
	const uint64_t all = args.base + args.count * args.blocks;

	fi_p2p_xpu_cntr_wait(cntr, all, args.timeout, args.scope);
	if (fi_p2p_xpu_cntr_read(cntr, args.scope) < all)
		XPU_FAIL(args, 1000);
}

#include "xpu_kernels_rma.h"

/* ---- kernels ---- */

__device__ static void xpu_write(struct xpu_args &args)
{
	const uint64_t flags =
		args.kernel == XPU_COMMIT ? FI_COMMIT_COMPLETE : FI_DELIVERY_COMPLETE;
	int ret = 0;

	for (uint64_t i = 0; i < args.count && !ret; i++) {
		const uint64_t at = xpu_part(args, i);

		if (args.careful && fi_p2p_xpu_cntr_readerr(&args.tx, args.scope)) {
			ret = -FI_EIO;
			break;
		}
		if (args.kernel == XPU_PUT)
			XPU_RETRY(ret,
				  fi_p2p_xpu_put(&args.ep, args.target, at, at + args.shift,
						 (uint32_t) args.len, 0, args.scope));
		else
			XPU_RETRY(ret,
				  fi_p2p_xpu_write(&args.ep, args.buf + at, args.len,
						   &args.desc, 0, &args.peer, args.there + at,
						   args.key, nullptr, flags, args.scope));
	}
	/* signals come after puts, so that both sides know what has come */
	if (args.kernel == XPU_PUT && !ret) {
		XPU_RETRY(ret, fi_p2p_xpu_signal_set(&args.ep, args.signal_target,
						     xpu_block() * sizeof(uint64_t), 1, 0,
						     args.scope));
		while (!ret && !fi_p2p_xpu_load(&args.signal[xpu_block()]))
			gpu_spin();
	}
	if (ret) {
		XPU_FAIL(args, -ret);
		return;
	}
	if (xpu_block())
		return;
	xpu_await(args, &args.tx);
}

__device__ static void xpu_send(struct xpu_args &args)
{
	int ret = 0;

	for (uint64_t i = 0; i < args.count && !ret; i++) {
		const uint64_t tag = xpu_block() * args.count + i;

		XPU_RETRY(ret, fi_p2p_xpu_tsend(&args.ep, args.buf + xpu_part(args, i),
						args.len, &args.desc, 0, &args.peer, tag,
						nullptr, 0, args.scope));
	}
	if (ret)
		XPU_FAIL(args, -ret);
	else if (!xpu_block())
		xpu_await(args, &args.tx);
}

/* Any block may read any entry: each has as many as it has posted, whose they are. */
__device__ static void xpu_recv(struct xpu_args &args)
{
	struct fi_cq_tagged_entry entry = {};
	uint64_t read = 0;
	int64_t got;
	int ret = 0;

	for (uint64_t i = 0; i < args.count && !ret; i++) {
		const uint64_t tag = xpu_block() * args.count + i;

		XPU_RETRY(ret, fi_p2p_xpu_trecv(&args.ep, args.buf + xpu_part(args, i),
						args.len, &args.desc, &args.peer, tag, 0,
						(void *) (tag + 1), FI_COMPLETION, args.scope));
	}
	while (!ret && read < args.count) {
		got = fi_p2p_xpu_cq_sread(&args.cq, &entry, 1, 1, args.scope);
		if (got != 1)
			ret = (int) got;
		/* one thread has acted, and has the entry */
		else if (!FI_P2P_XPU_THREAD &&
			 ((uint64_t) entry.op_context != entry.tag + 1 ||
			  entry.len != args.len || !(entry.flags & FI_RECV)))
			XPU_FAIL(args, 2000);
		read++;
	}
	if (ret)
		XPU_FAIL(args, -ret);
}

/* A put and a signal, to words that count up from 1: by one call, or by two; every other block adds. 0 or an error */
__device__ static int xpu_put_signal(struct xpu_args &args, uint64_t at, uint64_t word,
				     uint64_t value)
{
	const bool adds = args.adds && xpu_block() % 2;
	const uint32_t len = (uint32_t) args.len;
	int ret = 0;

	if (value % 2) {
		XPU_RETRY(ret,
			  fi_p2p_xpu_put_signal(&args.ep, args.target, at, at, len,
						args.signal_target, word, adds ? 1 : value,
						adds ? FI_P2P_XPU_SIGNAL_ADD : 0, args.scope));
		return ret;
	}
	XPU_RETRY(ret, fi_p2p_xpu_put(&args.ep, args.target, at, at, len, 0, args.scope));
	while (!ret) {
		ret = adds ? fi_p2p_xpu_signal_add(&args.ep, args.signal_target, word, 1,
						   FI_P2P_XPU_NO_FENCE, args.scope)
			   : fi_p2p_xpu_signal_set(&args.ep, args.signal_target, word, value,
						   FI_P2P_XPU_NO_FENCE, args.scope);
		if (ret != -FI_EAGAIN)
			break;
		gpu_spin();
		ret = 0;
	}
	return ret;
}

__device__ static void xpu_signal(struct xpu_args &args)
{
	const uint64_t word = xpu_block() * sizeof(uint64_t);
	int ret = 0;

	for (uint64_t i = 1; i <= args.count && !ret; i++) {
		for (int turn = 0; turn < 2 && !ret; turn++) {
			if (turn == !args.first) {
				const uint64_t at = xpu_part(args, i - 1);

				ret = xpu_put_signal(args, at, word, i);
				continue;
			}
			while (fi_p2p_xpu_load(&args.signal[xpu_block()]) < i &&
			       !fi_p2p_xpu_cntr_readerr(&args.tx, args.scope))
				gpu_spin();
			/* what was signalled is there */
			if (args.in[xpu_part(args, i - 1)] !=
			    (char) (i + xpu_block() + (uint64_t) !args.first))
				ret = -3000;
		}
	}
	if (ret)
		XPU_FAIL(args, -ret);
}

__device__ static void xpu_near(struct xpu_args &args)
{
	const uint64_t word = xpu_block() * sizeof(uint64_t);
	int ret = 0;

	for (uint64_t i = 0; i < args.count && !ret; i++) {
		const uint64_t at = xpu_part(args, i);

		ret = xpu_put_signal(args, at, word, i + 1);
	}
	if (ret)
		XPU_FAIL(args, -ret);
}

__device__ static void xpu_add(struct xpu_args &args)
{
	uint64_t *words = (uint64_t *) args.buf + 2 * xpu_block();
	int ret = 0;

	words[0] = 1;
	for (uint64_t i = 0; i < args.count && !ret; i++) {
		if (args.kernel == XPU_ADD)
			XPU_RETRY(ret, fi_p2p_xpu_signal_add(&args.ep, args.signal_target, 0, 1,
							     0, args.scope));
		else
			XPU_RETRY(ret,
				  fi_p2p_xpu_fetch_atomic(&args.ep, &words[0], 1, &args.desc,
							  &words[1], &args.desc, &args.peer,
							  args.there, args.key, FI_UINT64,
							  FI_SUM, nullptr, 0, args.scope));
	}
	if (ret)
		XPU_FAIL(args, -ret);
	else if (!xpu_block())
		xpu_await(args, args.kernel == XPU_ADD ? &args.tx : &args.rx);
}

__device__ static void xpu_wrong(struct xpu_args &args)
{
	struct fi_cq_tagged_entry entry = {};
	struct fi_cq_err_entry error = {};
	int64_t got;
	int ret;

	if (args.kernel == XPU_NOBODY)
		XPU_RETRY(ret, fi_p2p_xpu_put(&args.ep, FI_P2P_XPU_TARGETS - 1, 0, 0, 8, 0,
					      args.scope));
	else
		XPU_RETRY(ret, fi_p2p_xpu_write(&args.ep, args.buf, args.len, &args.desc, 0,
						&args.peer, args.there, args.key, args.buf,
						FI_COMPLETION, args.scope));
	if (ret) {
		XPU_FAIL(args, -ret);
		return;
	}
	fi_p2p_xpu_cntr_wait(&args.tx, ~0ULL, args.timeout, args.scope);
	if (fi_p2p_xpu_cntr_readerr(&args.tx, args.scope) != 1)
		XPU_FAIL(args, 4001);
	got = fi_p2p_xpu_cq_sread(&args.cq, &entry, 1, 1, args.scope);
	if (got != -FI_EAVAIL)
		XPU_FAIL(args, 4002);
	else if (fi_p2p_xpu_cq_readerr(&args.cq, &error, 0, args.scope) != 1 ||
		 (!FI_P2P_XPU_THREAD && error.err <= 0))
		XPU_FAIL(args, 4003);
	else if (!FI_P2P_XPU_THREAD &&
		 error.op_context != (args.kernel == XPU_WRONG ? args.buf : nullptr))
		XPU_FAIL(args, 4004);
	/* the next one waits, too */
	XPU_RETRY(ret, fi_p2p_xpu_cntr_seterr(&args.tx, 0, args.scope));
	while (fi_p2p_xpu_cntr_readerr(&args.tx, args.scope))
		gpu_spin();
}

/* Where memory is mapped, both fail at once. Else each leaves an error entry. */
__device__ static void xpu_half(struct xpu_args &args)
{
	struct fi_cq_err_entry error = {};
	int ret;

	XPU_RETRY(ret, fi_p2p_xpu_put_signal(&args.ep, args.target, 1ULL << 40, 0, 8,
					     args.signal_target, 0, 1, 0, args.scope));
	if (ret) {
		if (ret != -FI_EINVAL)
			XPU_FAIL(args, -ret);
		return;
	}
	while (fi_p2p_xpu_cntr_readerr(&args.tx, args.scope) < 2)
		gpu_spin();
	for (int i = 0; i < 2; i++) {
		while (fi_p2p_xpu_cq_readerr(&args.cq, &error, 0, args.scope) != 1)
			gpu_spin();
	}
	XPU_RETRY(ret, fi_p2p_xpu_cntr_seterr(&args.tx, 0, args.scope));
	while (fi_p2p_xpu_cntr_readerr(&args.tx, args.scope))
		gpu_spin();
}

__device__ static void xpu_count(struct xpu_args &args)
{
	uint64_t value = fi_p2p_xpu_cntr_read(&args.rx, args.scope);
	int ret = 0;

	for (uint64_t i = 0; i < args.count && !ret; i++)
		XPU_RETRY(ret, fi_p2p_xpu_cntr_add(&args.rx, 3, args.scope));
	fi_p2p_xpu_cntr_wait(&args.rx, value + 3 * args.count, args.timeout, args.scope);
	if (ret || fi_p2p_xpu_cntr_read(&args.rx, args.scope) != value + 3 * args.count)
		XPU_FAIL(args, 5000 - ret);
}

/* One of the short operations, as soon as there is room */
__device__ static int xpu_pass_put(struct xpu_args &args, uint32_t target, uint64_t at)
{
	int ret;

	XPU_RETRY(ret,
		  fi_p2p_xpu_put(&args.ep, target, at, at, (uint32_t) args.len, 0, args.scope));
	return ret;
}

__device__ static int xpu_pass_signal(struct xpu_args &args, uint32_t target, uint64_t value)
{
	int ret;

	XPU_RETRY(ret,
		  fi_p2p_xpu_signal_set(&args.ep, target, 0, args.base + value, 0, args.scope));
	return ret;
}

__device__ static void xpu_pass(struct xpu_args &args)
{
	int ret = 0;

	for (uint64_t i = 0; i < args.silent && !ret; i++)
		ret = xpu_pass_put(args, args.silent_target, i * args.len);
	if (!ret)
		ret = xpu_pass_signal(args, args.silent_signal, args.silent);
	for (uint64_t i = 0; i < args.count && !ret; i++) {
		ret = xpu_pass_put(args, args.target, i * args.len);
		if (!ret && (i + 1) % XPU_PASS_SIGNAL == 0)
			ret = xpu_pass_signal(args, args.signal_target, i + 1);
	}
	if (ret)
		XPU_FAIL(args, -ret);
}

__device__ static void xpu_wait(struct xpu_args &args)
{
	fi_p2p_xpu_cntr_wait(&args.rx, ~0ULL, -1, args.scope);
}

/* ---- for measurements ---- */

/* Returns 0 or a negative error */
__device__ static int xpu_burst(struct xpu_args &args)
{
	struct fi_p2p_xpu_burst burst = {};
	const uint64_t count = args.count;
	const uint32_t target = args.target, len = (uint32_t) args.len;
	int ret = fi_p2p_xpu_burst_begin(&args.ep, &burst, FI_P2P_XPU_NO_FENCE);

	if (ret)
		return ret;
	for (uint64_t i = 0; args.kernel == XPU_SET && i < count && !ret; i++)
		XPU_RETRY(ret, fi_p2p_xpu_burst_signal_set(&burst, target, 0, i));
	for (uint64_t i = 0; args.kernel != XPU_SET && i < count && !ret; i++)
		XPU_RETRY(ret, fi_p2p_xpu_burst_put(&burst, target, 0, 0, len));
	fi_p2p_xpu_burst_end(&burst);
	return ret;
}

__device__ static void xpu_issue(struct xpu_args &args)
{
	const uint64_t count = args.kernel == XPU_ISSUE ? args.count : 0;
	const uint32_t target = args.target, len = (uint32_t) args.len;
	uint64_t begin = fi_p2p_xpu_now(), issued;
	int ret = 0;

	if (!count)
		ret = xpu_burst(args);
	for (uint64_t i = 0; i < count && !ret; i++)
		XPU_RETRY(ret, fi_p2p_xpu_put(&args.ep, target, 0, 0, len, FI_P2P_XPU_NO_FENCE,
					      FI_XPU_WORK_ITEM));
	issued = fi_p2p_xpu_now() - begin;
	if (!xpu_block() && !ret)
		fi_p2p_xpu_cntr_wait(&args.tx, args.base + args.count * args.blocks,
				     args.timeout, args.scope);
	if (args.kernel == XPU_ISSUE || args.kernel == XPU_BURST)
		args.result[xpu_block()] = ret ? 0 : issued * 1000 / args.count;
	else
		args.result[xpu_block()] = ret ? 0 : fi_p2p_xpu_now() - begin;
}

/* What another block does while the first one is measured. False: it could not post */
__device__ static bool xpu_busy_once(struct xpu_args &args)
{
	if (args.posting)
		return !fi_p2p_xpu_put(&args.ep, args.target, 0, 0, 8, FI_P2P_XPU_NO_FENCE,
				       args.scope);
	return fi_p2p_xpu_load(&args.signal[xpu_block() * XPU_APART]);
}

/* The result says how often. */
__device__ static void xpu_busy(struct xpu_args &args)
{
	uint64_t posted = 0;

	while (!fi_p2p_xpu_load(args.over)) {
		posted += xpu_busy_once(args);
		gpu_spin();
	}
	args.result[xpu_block()] = posted;
}

/* One way of one turn. Returns 0 or a negative error */
__device__ static int xpu_turn(struct xpu_args &args, uint64_t i)
{
	int ret = 0;

	if (args.len)
		XPU_RETRY(ret, fi_p2p_xpu_put_signal(&args.ep, args.target, 0, 0,
						     (uint32_t) args.len, args.signal_target, 0,
						     i, 0, args.scope));
	else
		XPU_RETRY(ret, fi_p2p_xpu_signal_set(&args.ep, args.signal_target, 0, i,
						     FI_P2P_XPU_NO_FENCE, args.scope));
	return ret;
}

/* The same by plain stores, of all threads: where memory is mapped, no way is shorter */
__device__ static int xpu_store_turn(struct xpu_args &args, uint64_t i)
{
	const struct fi_p2p_xpu_mapped *table =
		((const struct fi_p2p_xpu_ep_dev *) args.ep.fid.prov_ctx)->mapped;
	const struct fi_p2p_xpu_mapped data = fi_p2p_xpu_mapped_of(table, args.target);
	const struct fi_p2p_xpu_mapped word = fi_p2p_xpu_mapped_of(table, args.signal_target);
	fi_p2p_xpu_16 *to = (fi_p2p_xpu_16 *) data.to;
	const fi_p2p_xpu_16 *from = (const fi_p2p_xpu_16 *) data.from;

	if (args.len == 8)
		*(uint64_t *) to = *(const uint64_t *) from;
	for (uint64_t at = FI_P2P_XPU_THREAD; at < args.len / 16; at += FI_P2P_XPU_THREADS)
		to[at] = from[at];
	(void) FI_P2P_XPU_SYNC_BLOCK(0);
	if (!FI_P2P_XPU_THREAD)
		fi_p2p_xpu_store((uint64_t *) word.to, i);
	return 0;
}

__device__ static int xpu_ping(struct xpu_args &args)
{
	int ret = 0;

	for (uint64_t i = 1; i <= args.count && !ret; i++) {
		for (int turn = 0; turn < 2 && !ret; turn++) {
			if (turn == !args.first) {
				ret = args.kernel == XPU_STORE ? xpu_store_turn(args, i)
							       : xpu_turn(args, i);
				continue;
			}
			if (!FI_P2P_XPU_THREAD)
				ret = gpu_await(args.signal, i, &args.tx);
			ret = FI_P2P_XPU_SYNC_BLOCK(ret);
		}
	}
	return ret;
}

__device__ static int xpu_round(struct xpu_args &args)
{
	int ret = 0;

	for (uint64_t i = 1; i <= args.count && !ret; i++) {
		XPU_RETRY(ret, fi_p2p_xpu_put(&args.ep, args.target, 0, 0, (uint32_t) args.len,
					      FI_P2P_XPU_NO_FENCE, args.scope));
		fi_p2p_xpu_cntr_wait(&args.tx, args.base + i, args.timeout, args.scope);
	}
	return ret;
}

/* With busy blocks that post, too, the counter does not tell whose puts have ended. Then a counter that
 * nobody else changes does. */
__device__ static int xpu_trip(struct xpu_args &args)
{
	int ret = 0;

	for (uint64_t i = 1; i <= args.count && !ret; i++) {
		XPU_RETRY(ret,
			  fi_p2p_xpu_read(&args.ep, args.buf, args.len, &args.desc, &args.peer,
					  args.there, args.key, nullptr, 0, args.scope));
		fi_p2p_xpu_cntr_wait(&args.rx, args.base + i, args.timeout, args.scope);
	}
	return ret;
}

/* The same with writes. The queue tells of no puts, so each entry is one of them */
__device__ static int xpu_lone(struct xpu_args &args)
{
	struct fi_cq_tagged_entry entry = {};
	int ret = 0;

	for (uint64_t i = 1; i <= args.count && !ret; i++) {
		XPU_RETRY(ret, fi_p2p_xpu_write(&args.ep, args.buf, args.len, &args.desc, 0,
						&args.peer, args.there, args.key, nullptr,
						FI_COMPLETION, args.scope));
		if (!ret && fi_p2p_xpu_cq_sread(&args.cq, &entry, 1, 1, args.scope) != 1)
			ret = -FI_EIO;
	}
	return ret;
}

__device__ static int xpu_echo(struct xpu_args &args)
{
	for (uint64_t i = 1; i <= args.count; i++) {
		fi_p2p_xpu_store16((struct fi_p2p_xpu_word2 *) args.signal, i, i);
		while (fi_p2p_xpu_load(&args.signal[XPU_APART]) < i)
			gpu_spin();
	}
	return 0;
}

__device__ static int xpu_asked(struct xpu_args &args)
{
	const uint64_t *word = (const uint64_t *) args.buf;
	const uint64_t before = fi_p2p_xpu_load(word);
	int ret = 0;

	for (uint64_t i = 1; i <= args.count && !ret; i++) {
		XPU_RETRY(ret, fi_p2p_xpu_put(&args.ep, args.target, 0, 0, (uint32_t) args.len,
					      FI_P2P_XPU_NO_FENCE, args.scope));
		while (fi_p2p_xpu_load(word) < before + i)
			gpu_spin();
	}
	return ret;
}

__device__ static void xpu_rest(struct xpu_args &args)
{
	while (!fi_p2p_xpu_load(&args.signal[XPU_REST_WORD]))
		__nanosleep(1000);
}

__device__ static void xpu_timed(struct xpu_args &args)
{
	uint64_t begin = fi_p2p_xpu_now(), counted;
	int ret;

	if (xpu_block()) {
		xpu_busy(args);
		return;
	}
	counted = fi_p2p_xpu_cntr_read(&args.tx, args.scope);
	if (args.kernel == XPU_PING || args.kernel == XPU_STORE)
		ret = xpu_ping(args);
	else if (args.kernel == XPU_ROUND)
		ret = xpu_round(args);
	else if (args.kernel == XPU_TRIP)
		ret = xpu_trip(args);
	else if (args.kernel == XPU_LONE)
		ret = xpu_lone(args);
	else if (args.kernel == XPU_ASKED)
		ret = xpu_asked(args);
	else
		ret = xpu_echo(args);
	args.result[0] = ret ? 0 : fi_p2p_xpu_now() - begin;
	args.result[args.blocks] = fi_p2p_xpu_cntr_read(&args.tx, args.scope) - counted;
	fi_p2p_xpu_store(args.over, 1);
}

/* A copy of the parameter: nvcc 13.0 compiled functions wrong that are given it by value */
__global__ static void __launch_bounds__(XPU_THREADS_MAX) xpu_run(struct xpu_args param)
{
	struct xpu_args args = param;

	switch (args.kernel) {
	case XPU_WRITE:
	case XPU_COMMIT:
	case XPU_PUT:
		xpu_write(args);
		break;
	case XPU_SEND:
		xpu_send(args);
		break;
	case XPU_RECV:
		xpu_recv(args);
		break;
	case XPU_SIGNAL:
		xpu_signal(args);
		break;
	case XPU_NEAR:
		xpu_near(args);
		break;
	case XPU_ADD:
	case XPU_FETCH:
		xpu_add(args);
		break;
	case XPU_READ:
		xpu_read(args);
		break;
	case XPU_PARTS:
		xpu_parts(args);
		break;
	case XPU_TICKET:
		xpu_ticket(args);
		break;
	case XPU_ELSEWHERE:
		xpu_elsewhere(args);
		break;
	case XPU_SWAP:
		xpu_swap(args);
		break;
	case XPU_HALF:
		xpu_half(args);
		break;
	case XPU_WRONG:
	case XPU_NOBODY:
		xpu_wrong(args);
		break;
	case XPU_ISSUE:
	case XPU_BURST:
	case XPU_RATE:
	case XPU_SET:
		xpu_issue(args);
		break;
	case XPU_PING:
	case XPU_STORE:
	case XPU_ROUND:
	case XPU_TRIP:
	case XPU_LONE:
	case XPU_ASKED:
	case XPU_ECHO:
		xpu_timed(args);
		break;
	case XPU_PASS:
		xpu_pass(args);
		break;
	case XPU_WAIT:
		xpu_wait(args);
		break;
	case XPU_REST:
		xpu_rest(args);
		break;
	default:
		xpu_count(args);
	}
}

/* ---- launching ---- */

#ifdef GPU_COMPILED

int xpu_launch(const struct xpu_args *args, unsigned int blocks, unsigned int threads,
	       int device)
{
	(void) device;
	return GPU_LAUNCH(xpu_run, blocks, threads, 0, *args);
}

/* Sleeps: a thread that spins takes a processor, and the driver's lock, from the proxy. */
int xpu_join(int device)
{
	cudaEvent_t event;
	cudaError_t ret = cudaEventCreateWithFlags(&event, cudaEventBlockingSync);

	(void) device;
	if (ret == cudaSuccess) {
		ret = cudaEventRecord(event, 0);
		if (ret == cudaSuccess)
			ret = cudaEventSynchronize(event);
		cudaEventDestroy(event);
	}
	return (int) ret;
}

int xpu_pin(void *addr, size_t len)
{
	return (int) cudaHostRegister(addr, len, cudaHostRegisterMapped);
}

int xpu_unpin(void *addr)
{
	return (int) cudaHostUnregister(addr);
}

#else

static std::vector<std::thread> xpu_threads;

/* All busy blocks in one thread: a hundred threads would wait for processors, not for the core. */
static void xpu_crowd(struct xpu_args args, unsigned int blocks)
{
	cudaemu_place place = {};
	bool posted;

	place.grid_dim = {blocks, 1, 1};
	place.block_dim = {1, 1, 1};
	gpu_place = &place;
	while (!fi_p2p_xpu_load(args.over)) {
		posted = false;
		for (place.block.x = 1; place.block.x < blocks; place.block.x++) {
			if (!xpu_busy_once(args))
				continue;
			args.result[place.block.x]++;
			posted = true;
		}
		/* the rings have enough for longer than that */
		if (!posted)
			__nanosleep(200000);
	}
}

static void xpu_thread(struct xpu_args args, unsigned int block, unsigned int blocks)
{
	cudaemu_place place = {};

	place.block.x = block;
	place.grid_dim = {blocks, 1, 1};
	place.block_dim = {1, 1, 1};
	gpu_place = &place;
	xpu_run(args);
}

int xpu_launch(const struct xpu_args *args, unsigned int blocks, unsigned int threads,
	       int device)
{
	if (device >= 0)
		return GPU_LAUNCH(xpu_run, blocks, threads, 0, *args);
	if (args->posting) {
		xpu_threads.emplace_back(xpu_crowd, *args, blocks);
		blocks = 1;
	}
	for (unsigned int i = 0; i < blocks; i++)
		xpu_threads.emplace_back(xpu_thread, *args, i, blocks);
	return 0;
}

int xpu_join(int device)
{
	typedef int sync_fn(void);
	sync_fn *sync;

	if (device < 0) {
		for (std::thread &thread : xpu_threads)
			thread.join();
		xpu_threads.clear();
		return 0;
	}
	sync = (sync_fn *) dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxSynchronize");
	return sync ? sync() : -1;
}

/* A kernel of the emulator has a snapshot of memory that is not shared. */
int xpu_pin(void *addr, size_t len)
{
	return -1;
}

int xpu_unpin(void *addr)
{
	return -1;
}

#endif
