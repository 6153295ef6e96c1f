/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_flush: where a device does not order what NICs write to it, each message that a NIC
 * has put there is flushed before its receive completes, once; where it does, nothing is asked
 * of the driver. The emulator, which has either kind of device (CUDAEMU_UNORDERED), counts.
 */
#include <inttypes.h>
#include <rdma/fi_ext_p2p.h>

#include "ft_test.h"
#include "dev/p2p_cuda_abi.h"

#define MESSAGES 6
#define LEN 70000

static int unordered(bool *answer)
{
	static CUresult (*attribute)(int *value, CUdevice_attribute attr, CUdevice dev);
	static const struct ft_symbol symbols[] = {{"cuDeviceGetAttribute", &attribute}};
	int ordering;

	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	FT_TRY(ft_cuda_check(attribute(&ordering,
				       CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0),
			     "cuDeviceGetAttribute"));
	*answer = ordering < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
	return 0;
}

static int play(struct ft_proc *proc, struct ft_ctx *ctx, const struct ft_buf *buf,
		uint64_t key, unsigned long expected)
{
	const bool sends = proc->rank == 0;
	const struct ft_slot slot = {buf, 0, LEN, 0, LEN};
	unsigned long before, after;
	struct ft_req req = {0};
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = ctx->peer[!proc->rank],
		.tag = 5,
		.req = &req,
	};

	if (sends)
		FT_TRY(ft_slot_fill(&slot, key));
	else
		FT_TRY(ft_slot_arm(&slot));
	FT_TRY(ft_cuda_calls("cuFlushGPUDirectRDMAWrites", &before));
	ft_op_buf(&op, buf, 0, LEN);
	FT_TRY(ft_post(ctx, &op));
	FT_TRY(ft_wait(ctx, &req, 1));
	FT_TRY(ft_cuda_calls("cuFlushGPUDirectRDMAWrites", &after));
	FT_CHECK(after - before == (sends ? 0 : expected),
		 "%lu flushes for a message %s, not %lu", after - before,
		 sends ? "sent" : "received", sends ? 0 : expected);
	if (!sends)
		FT_TRY(ft_slot_check(&slot, LEN, key, "received"));
	return ft_barrier(proc, ctx);
}

static int run(struct ft_proc *proc)
{
	struct ft_ctx ctx = {0};
	struct ft_buf buf = {0};
	unsigned long calls;
	uint64_t bytes;
	bool flushes;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(ft_test_hints(proc, &ctx));
	FT_TRY(ft_test_open(proc, &ctx));
	FT_TRY(ft_cuda_calls(NULL, &calls));
	FT_TRY(ft_test_connect(proc, &ctx));
	FT_TRY(ft_buf_alloc(&ctx, &buf, FI_HMEM_CUDA, LEN));
	FT_TRY(unordered(&flushes));
	for (uint64_t i = 0; i < MESSAGES; i++)
		FT_TRY(play(proc, &ctx, &buf, i, flushes));
	FT_TRY(ft_path_bytes(ctx.ep, proc->rank == 0, FI_P2P_PATH_PEER, &bytes));
	FT_CHECK(bytes == MESSAGES * LEN, "%" PRIu64 " bytes went by the NIC, not %d", bytes,
		 MESSAGES * LEN);
	ft_buf_free(&buf);
	return ft_close(&ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "What a NIC writes to a device that does not order it is flushed "
			   "(emulated device).",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
