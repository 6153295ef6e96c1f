/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels that read, write and do atomic operations by the calls of fi_xpu(3). A part of xpu_kernels.cc. */
#ifndef XPU_KERNELS_RMA_H
#define XPU_KERNELS_RMA_H

__device__ static void xpu_read(struct xpu_args &args)
{
	int ret = 0;

	for (uint64_t i = 0; i < args.count && !ret; i++) {
		const uint64_t at = xpu_part(args, i);

		XPU_RETRY(ret, fi_p2p_xpu_read(&args.ep, args.buf + at, args.len, &args.desc,
					       &args.peer, args.there + at, args.key, nullptr,
					       0, args.scope));
	}
	if (ret)
		XPU_FAIL(args, -ret);
	else if (!xpu_block())
		xpu_await(args, &args.rx);
}

/* One entry of anybody's write; adds its context. 0 or an error */
__device__ static int xpu_parts_entry(struct xpu_args &args, uint64_t *sum)
{
	struct fi_cq_tagged_entry entry = {};

	if (fi_p2p_xpu_cq_sread(&args.cq, &entry, 1, 1, args.scope) != 1)
		return -FI_EIO;
	/* one thread has acted, and has the entry */
	if (!FI_P2P_XPU_THREAD && entry.flags != (FI_WRITE | FI_RMA))
		return -FI_EINVAL;
	*sum += (uint64_t) entry.op_context;
	return 0;
}

__device__ static void xpu_parts(struct xpu_args &args)
{
	const uint64_t writes = 2 * args.count;
	uint64_t sum = 0;
	int ret = 0;

	for (uint64_t i = 0; i < writes && !ret; i++) {
		const uint64_t at = xpu_part(args, i / 2) + (i % 2 ? XPU_SHORT : 0);
		const uint64_t len = i % 2 ? args.len - XPU_SHORT : XPU_SHORT;

		XPU_RETRY(ret,
			  fi_p2p_xpu_write(&args.ep, args.buf + at, len, &args.desc, 0,
					   &args.peer, args.there + at, args.key,
					   (void *) (xpu_block() * writes + i + 1),
					   FI_COMPLETION | FI_DELIVERY_COMPLETE, args.scope));
	}
	for (uint64_t i = 0; i < writes && !ret; i++)
		ret = xpu_parts_entry(args, &sum);
	if (!FI_P2P_XPU_THREAD)
		args.result[xpu_block()] = ret ? 0 : sum;
}

/* One thread, as the next one */
__device__ static void xpu_ticket(struct xpu_args &args)
{
	uint64_t *words = (uint64_t *) args.buf, sum = 0;
	int ret = 0;

	words[0] = 1;
	for (uint64_t i = 1; i <= args.count && !ret; i++) {
		if (args.first)
			XPU_RETRY(ret,
				  fi_p2p_xpu_fetch_atomic(&args.ep, &words[0], 1, &args.desc,
							  &words[i], &args.desc, &args.peer,
							  args.there, args.key, FI_UINT64,
							  FI_SUM, nullptr, 0, args.scope));
		else
			words[i] = fi_p2p_xpu_word_add((uint64_t) args.in, 1, 1);
	}
	if (args.first && !ret)
		xpu_await(args, &args.rx);
	for (uint64_t i = 1; i <= args.count && !ret; i++)
		sum += words[i];
	args.result[0] = ret ? 0 : sum;
}

/* Its result is the error that it gets at once */
__device__ static void xpu_elsewhere(struct xpu_args &args)
{
	int ret;

	XPU_RETRY(ret, fi_p2p_xpu_fetch_atomic(&args.ep, args.buf, 1, &args.desc, args.in,
					       &args.desc, &args.peer, args.there, args.key,
					       FI_UINT64, FI_SUM, nullptr, 0, args.scope));
	args.result[xpu_block()] = (uint64_t) -ret;
}

__device__ static void xpu_swap(struct xpu_args &args)
{
	volatile uint32_t *words = (volatile uint32_t *) args.buf;
	uint64_t won = 0;
	int ret = 0;

	words[1] = 0;
	for (uint64_t i = 1; won < args.count && !ret; i++) {
		words[0] = words[1] + 1;
		if (args.first) {
			XPU_RETRY(ret,
				  fi_p2p_xpu_compare_atomic(&args.ep, args.buf, 1, &args.desc,
							    args.buf + 4, &args.desc,
							    args.buf + 8, &args.desc,
							    &args.peer, args.there, args.key,
							    FI_UINT32, FI_CSWAP, nullptr, 0,
							    args.scope));
			fi_p2p_xpu_cntr_wait(&args.rx, args.base + i, args.timeout, args.scope);
		} else {
			words[2] = (uint32_t) fi_p2p_xpu_word_swap_if((uint64_t) args.in, 0,
								      words[1], words[0]);
		}
		/* what was there is what the next one expects, or what this one has made of it */
		if (words[2] == words[1])
			won++;
		words[1] = words[2] == words[1] ? words[0] : words[2];
	}
	if (ret)
		XPU_FAIL(args, -ret);
}

#endif /* XPU_KERNELS_RMA_H */
