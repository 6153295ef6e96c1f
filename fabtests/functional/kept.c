/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_kept: what a receiver keeps of a peer's device memory, and what it remembers of failures.
 *
 * Rank 1 allocates, sends, and frees, again and again. Rank 0 may keep open some of what has been freed, and not
 * all of it, but for virtual memory; and when nothing comes any more, nothing of it, though the owner calls nothing of
 * libfabric's then.
 *
 * With FT_ASLEEP it sleeps meanwhile, as a program does that has nothing else to do.
 *
 * With -q something of that fails once (CUDAEMU_FAIL): messages are right all the same, and in time they go from
 * device to device again.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_ext_p2p.h>

#include "cudamem.h"
#include "ft_test.h"

#define LEN 1100000                    /* beyond FI_P2P_EAGER_SIZE */
#define ALLOCATION ((size_t) 32 << 20) /* so much is kept open for it */
#define ROUNDS 40
#define OPEN_MOST                                                                              \
	12         /* what FI_P2P may have open at a time of what is gone, 256 MiB, and some */
#define TRIES 5000 /* messages until a failure has passed */

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct fi_p2p_stats_ops *stats;
	struct ft_buf room;
	uint64_t number;
	unsigned long (*calls)(const char *name);
};

static bool receives(const struct side *side)
{
	return side->proc->rank == 0;
}

static struct ft_slot place(const struct ft_buf *buf)
{
	return (struct ft_slot){.buf = buf,
				.room = LEN + FT_ROOM,
				.off = FT_ROOM / 2,
				.len = LEN};
}

/* One message, out of @buf at the sender */
static int move(struct side *side, const struct ft_buf *buf)
{
	const struct ft_slot slot = place(receives(side) ? &side->room : buf);
	struct ft_req req = {0};
	struct ft_op op = {
		.call = receives(side) ? FT_RECV : FT_SEND,
		.tagged = true,
		.addr = receives(side) ? FI_ADDR_UNSPEC : side->ctx.peer[0],
		.tag = ++side->number,
		.req = &req,
	};

	ft_op_buf(&op, slot.buf, slot.off, LEN);
	FT_TRY(receives(side) ? ft_slot_arm(&slot) : ft_slot_fill(&slot, side->number));
	FT_TRY(ft_post(&side->ctx, &op));
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	return receives(side) ? ft_slot_check(&slot, LEN, side->number, "message") : 0;
}

/* ---- what is open ---- */

static unsigned long kept(const struct side *side)
{
	return side->calls("cuIpcOpenMemHandle") - side->calls("cuIpcCloseMemHandle") +
	       side->calls("cuMemImportFromShareableHandle") - side->calls("cuMemUnmap");
}

static bool waits(void)
{
	const char *api = getenv("FI_P2P_CUDA_API");

	return api && !strcmp(api, "async");
}

static void *sleeper(void *arg)
{
	struct ft_ctx *ctx = arg;
	struct fi_cq_tagged_entry comp;

	/* until it is woken */
	fi_cq_sread(ctx->cq, &comp, 1, NULL, -1);
	return NULL;
}

/* Until no more than @count are open, or for as long as nothing may come */
static int sleep_until(struct side *side, unsigned long count)
{
	const double until = ft_usec() + side->proc->opts.timeout * 1e6 / 2;
	pthread_t thread;

	if (pthread_create(&thread, NULL, sleeper, &side->ctx))
		return ft_errno("pthread_create", "a sleeper");
	while (kept(side) > count && ft_usec() < until)
		poll(NULL, 0, 10);
	FT_CHECK(kept(side) <= count, "%lu freed allocations stay open while it sleeps",
		 kept(side) - count);
	fi_cq_signal(side->ctx.cq);
	pthread_join(thread, NULL);
	return 0;
}

static int freed(struct side *side, const struct ft_mem_ops *ops)
{
	const double until = ft_usec() + side->proc->opts.timeout * 1e6;
	const unsigned long before = kept(side), closed = side->calls("cuIpcCloseMemHandle");
	const bool stays = waits() && ops == &ft_cuda_ops;
	struct ft_buf buf;

	/* of another size each, so that none is where another was */
	for (int i = 0; i < ROUNDS; i++) {
		if (!receives(side))
			FT_TRY(ft_buf_alloc_by(&side->ctx, &buf, ops,
					       ALLOCATION + (size_t) i * (2 << 20)));
		FT_TRY(move(side, &buf));
		if (!receives(side))
			ft_buf_free(&buf);
		else if (ops ==
			 &ft_cuda_ops) /* of virtual memory, what was used just now may be */
			FT_CHECK(kept(side) - before <= OPEN_MOST,
				 "%s memory: %lu freed allocations are open", ops->name,
				 kept(side) - before);
	}
	if (receives(side) && side->proc->opts.wait == FT_WAIT_SREAD)
		FT_TRY(sleep_until(side, before));
	/* without any progress at the owner */
	while (receives(side) && !stays && kept(side) != before) {
		FT_CHECK(ft_usec() < until, "%s memory: %lu freed allocations stay open",
			 ops->name, kept(side) - before);
		FT_TRY(ft_progress_for(&side->ctx, 1000));
	}
	FT_CHECK(!stays || side->calls("cuIpcCloseMemHandle") == closed,
		 "memory was closed, though kernels may wait");
	return ft_meet(side->proc);
}

/* ---- failures that pass ---- */

static int by_ipc(struct side *side, uint64_t *count)
{
	struct fi_p2p_stats stats;

	FT_TRY(side->stats->read(&side->ctx.ep->fid, &stats, sizeof(stats)));
	*count = receives(side) ? stats.rx_msgs[FI_P2P_PATH_IPC]
				: stats.tx_msgs[FI_P2P_PATH_IPC];
	return 0;
}

/* Until two messages in a row have gone from device to device, as both ends count them */
static int passes(struct side *side, const struct ft_mem_ops *ops)
{
	uint64_t before, after;
	struct ft_buf buf = {0};
	int row = 0, i = 0;
	bool ipc, also;

	if (!receives(side))
		FT_TRY(ft_buf_alloc_by(&side->ctx, &buf, ops, LEN + FT_ROOM));
	for (; row < 2 && i < TRIES; i++) {
		FT_TRY(by_ipc(side, &before));
		FT_TRY(move(side, &buf));
		FT_TRY(ft_barrier(side->proc, &side->ctx));
		FT_TRY(by_ipc(side, &after));
		ipc = after > before;
		FT_TRY(ft_oob_send(side->proc->fd[!side->proc->rank], &ipc, sizeof(ipc)));
		FT_TRY(ft_oob_recv(side->proc->fd[!side->proc->rank], &also, sizeof(also),
				   side->proc->opts.timeout));
		FT_CHECK(ipc == also, "%s memory: the ends do not agree on message %d",
			 ops->name, i);
		row = ipc ? row + 1 : 0;
	}
	FT_CHECK(row == 2, "%s memory: after one failure %d messages are staged", ops->name, i);
	ft_buf_free(&buf);
	return ft_meet(side->proc);
}

static int run(struct ft_proc *proc)
{
	static const struct ft_mem_ops *const kinds[] = {&ft_cuda_ops, &cudamem_vmm_shared};
	struct side side = {.proc = proc};
	void *driver;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return proc->rank ? FT_SKIP : ft_skip("needs CUDA memory (-D cuda)");
	if (getenv("FT_ASLEEP"))
		proc->opts.wait = FT_WAIT_SREAD;
	FT_TRY(ft_test_hints(proc, &side.ctx));
	FT_TRY(cudamem_vmm.init(proc->opts.device));
	FT_TRY(ft_test_open(proc, &side.ctx));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (driver)
		side.calls = (unsigned long (*)(const char *))(
			uintptr_t) dlsym(driver, "cudaemu_calls");
	if (!side.calls ||
	    fi_open_ops(&side.ctx.ep->fid, FI_P2P_STATS_OPS, 0, (void **) &side.stats, NULL))
		return proc->rank ? FT_SKIP : ft_skip("needs ofi_p2p, and the emulated GPU");
	FT_TRY(ft_buf_alloc_by(&side.ctx, &side.room, &ft_cuda_ops, LEN + FT_ROOM));
	for (size_t i = 0; i < FT_COUNT(kinds); i++)
		FT_TRY(proc->opts.quick ? passes(&side, kinds[i]) : freed(&side, kinds[i]));
	ft_buf_free(&side.room);
	FT_TRY(ft_barrier(proc, &side.ctx));
	return ft_close(&side.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose =
			"What a receiver keeps open of memory that is freed. -q: failures that pass.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
