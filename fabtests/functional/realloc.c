/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_realloc: buffers are freed and allocated again, round after round, at addresses
 * that were others', while other buffers' messages are under way, and used at once: for
 * sending, receiving, and by the peer, which reads or writes them. Whoever still has a
 * mapping of what was there before moves other bytes than these. All bytes of the buffers
 * are compared, when something has arrived in them and again when they are freed: a
 * mapping that is left over may also write to memory that is somebody else's by then.
 *
 * Both ranks derive the same rounds from the seed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <rdma/fi_ext_p2p.h>

#include "cudamem.h"
#include "ft_test.h"

#define ROUNDS 10000
#define QUICK_ROUNDS 500
#define BUFFERS 8
#define GUARD_LEN 64
#define SIZE_MIN 8192
#define SIZE_USUAL 65536
#define SIZE_LARGE (1 << 20)
#define LEN_MIN 4097    /* shorter ones are never left to the NIC */
#define LEN_GDRCOPY 128 /* longer ones, and to the device 4096, are never left to the CPU */
#define FREED 64        /* addresses that are remembered */

/* cuMemAlloc's is the commonest */
static const struct ft_mem_ops *const cuda_kinds[] = {
	&ft_cuda_ops, &ft_cuda_ops, &ft_cuda_ops, &cudamem_vmm, &cudamem_vmm_two, &cudamem_pool,
};

enum use {
	USE_SEND,
	USE_RECV,
	USE_READ, /* by the peer, as the next */
	USE_WRITE,
	USES
};

/* A buffer, and what is in it: the pattern of @key as far as @slot.len, guards elsewhere
 */
struct piece {
	struct ft_buf buf;
	struct ft_slot slot;
	uint64_t key;
};

/* @len bytes from rank @from's buffer to the other's; @number is their pattern's */
struct transfer {
	uint64_t number;
	int from;
	size_t buffer[2]; /* by rank */
	size_t off, len;
	struct ft_req req;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct piece pieces[BUFFERS];
	size_t sizes[2][BUFFERS]; /* by rank */
	struct ft_buf look;       /* host memory */
	bool rma;
	uint64_t random, round, reused;
	void *freed[FREED];
	size_t frees;
};

static uint64_t below(struct side *side, uint64_t limit)
{
	return ft_random(&side->random) % limit;
}

/* ---- buffers ---- */

static int piece_check(const struct side *side, size_t i, const char *when)
{
	const struct piece *piece = &side->pieces[i];
	char what[128];

	snprintf(what, sizeof(what),
		 "round %" PRIu64 ": buffer %zu, %zu bytes of %s memory, %s", side->round, i,
		 piece->buf.size, piece->buf.ops->name, when);
	return ft_slot_check(&piece->slot, piece->slot.len, piece->key, what);
}

/* What @len bytes at @off are to become, or are: the pattern of @key */
static struct ft_slot *piece_use(struct side *side, size_t i, size_t off, size_t len,
				 uint64_t key)
{
	struct piece *piece = &side->pieces[i];

	piece->key = key;
	piece->slot = (struct ft_slot){.buf = &piece->buf,
				       .room = piece->buf.size,
				       .off = off,
				       .len = len};
	return &piece->slot;
}

static int piece_alloc(struct side *side, size_t i, const struct ft_mem_ops *ops, size_t size)
{
	struct piece *piece = &side->pieces[i];

	FT_TRY(ft_buf_alloc_by(&side->ctx, &piece->buf, ops, size));
	for (size_t k = 0; k < FT_MIN(side->frees, FREED); k++)
		if (side->freed[k] == piece->buf.addr) {
			side->reused++;
			break;
		}
	return ft_slot_arm(piece_use(side, i, 0, 0, 0));
}

/* The peer may have all it wants of a region before this end has seen the last of it */
static int close_region(struct side *side, struct ft_buf *buf)
{
	int ret, n;

	while (buf->mr) {
		ret = fi_close(&buf->mr->fid);
		if (ret && ret != -FI_EBUSY)
			return ft_fail(ret, "fi_close", "memory region");
		if (!ret) {
			buf->mr = NULL;
			break;
		}
		n = ft_progress(&side->ctx);
		FT_TRY(n < 0 ? n : n ? 0 : ft_idle(&side->ctx));
	}
	return 0;
}

static int piece_free(struct side *side, size_t i)
{
	struct piece *piece = &side->pieces[i];

	FT_TRY(piece_check(side, i, "when it is freed"));
	FT_TRY(close_region(side, &piece->buf));
	side->freed[side->frees++ % FREED] = piece->buf.addr;
	ft_buf_free(&piece->buf);
	return 0;
}

/* Of the device under test, if @device; a number more than is needed is no harm */
static const struct ft_mem_ops *choose_kind(struct side *side, bool device)
{
	const uint64_t n = below(side, FT_COUNT(cuda_kinds));
	const enum fi_hmem_iface iface = side->proc->opts.iface;

	if (!device)
		return ft_mem_ops(FI_HMEM_SYSTEM);
	return iface == FI_HMEM_CUDA ? cuda_kinds[n] : ft_mem_ops(iface);
}

static size_t choose_size(struct side *side)
{
	const size_t most = below(side, 8) ? SIZE_USUAL : SIZE_LARGE;

	return SIZE_MIN + below(side, most - SIZE_MIN + 1);
}

/* ---- transfers ---- */

/* Not those of @used, if there is one */
static void choose_buffers(struct side *side, struct transfer *transfer,
			   const struct transfer *used)
{
	for (int rank = 0; rank < 2; rank++) {
		size_t i = below(side, used ? BUFFERS - 1 : BUFFERS);

		transfer->buffer[rank] = used ? (used->buffer[rank] + 1 + i) % BUFFERS : i;
	}
}

static void choose_part(struct side *side, struct transfer *transfer)
{
	const size_t room = FT_MIN(side->sizes[0][transfer->buffer[0]],
				   side->sizes[1][transfer->buffer[1]]) -
			    3 * GUARD_LEN;
	const size_t part = side->proc->opts.expect_gdrcopy
				    ? 1 + below(side, LEN_GDRCOPY + 1)
				    : LEN_MIN + below(side, room - LEN_MIN + 1);

	transfer->len = below(side, 2) ? room : part;
	transfer->off = GUARD_LEN + below(side, GUARD_LEN);
}

/* At the end that sends, the bytes; at the other, guards where they are to come */
static int prepare(struct side *side, const struct transfer *transfer, struct ft_op *op)
{
	const int rank = side->proc->rank;
	const size_t i = transfer->buffer[rank];
	const struct ft_slot *slot =
		piece_use(side, i, transfer->off, transfer->len, transfer->number);

	ft_op_buf(op, &side->pieces[i].buf, transfer->off, transfer->len);
	return rank == transfer->from ? ft_slot_fill(slot, transfer->number)
				      : ft_slot_arm(slot);
}

static int message_start(struct side *side, struct transfer *transfer)
{
	const int rank = side->proc->rank;
	struct ft_op op = {
		.call = rank == transfer->from ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = side->ctx.peer[!rank],
		.tag = transfer->number,
		.req = &transfer->req,
	};

	FT_TRY(prepare(side, transfer, &op));
	return ft_post(&side->ctx, &op);
}

static int message_end(struct side *side, struct transfer *transfer, const char *when)
{
	FT_TRY(ft_wait(&side->ctx, &transfer->req, 1));
	if (side->proc->rank == transfer->from)
		return 0;
	FT_CHECK(transfer->req.comp.len == transfer->len,
		 "round %" PRIu64 ": %zu bytes, of %zu", side->round, transfer->req.comp.len,
		 transfer->len);
	return piece_check(side, transfer->buffer[side->proc->rank], when);
}

/* ---- remote memory ---- */

struct target {
	uint64_t key, addr;
};

/* To its end */
static int rma(struct side *side, bool write, const struct ft_op *op,
	       const struct target *target)
{
	struct ft_ctx *ctx = &side->ctx;
	const struct iovec *iov = &op->iov[0];
	struct ft_req req = {0};
	ssize_t ret;
	int n;

	for (;;) {
		if (write)
			ret = fi_write(ctx->ep, iov->iov_base, iov->iov_len, op->desc[0],
				       op->addr, target->addr, target->key, &req);
		else
			ret = fi_read(ctx->ep, iov->iov_base, iov->iov_len, op->desc[0],
				      op->addr, target->addr, target->key, &req);
		if (ret != -FI_EAGAIN)
			break;
		n = ft_progress(ctx);
		FT_TRY(n < 0 ? n : n ? 0 : ft_idle(ctx));
	}
	if (ret)
		return ft_fail((int) ret, write ? "fi_write" : "fi_read", "%zu bytes",
			       iov->iov_len);
	return ft_wait(ctx, &req, 1);
}

/* A write is complete here before it is there: reads until it is */
static int see_written(struct side *side, const struct transfer *transfer, struct ft_op *op,
		       const struct target *target)
{
	unsigned char expected;

	ft_op_buf(op, &side->look, 0, transfer->len);
	for (;;) {
		FT_TRY(rma(side, false, op, target));
		if (ft_pattern_diff(side->look.addr, transfer->len, transfer->number,
				    &expected) < 0)
			return 0;
		FT_TRY(ft_idle(&side->ctx));
	}
}

static int share(struct side *side, const struct transfer *transfer)
{
	struct ft_buf *buf = &side->pieces[transfer->buffer[side->proc->rank]].buf;
	const uint64_t access =
		FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct target target;

	FT_TRY(close_region(side, buf));
	FT_TRY(ft_buf_share(&side->ctx, buf, access));
	target = (struct target){buf->key, buf->base + transfer->off};
	/* who waits at the barrier drives progress */
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	return ft_oob_send(side->proc->fd[!side->proc->rank], &target, sizeof(target));
}

static int reach(struct side *side, const struct transfer *transfer, struct ft_op *op)
{
	struct ft_proc *proc = side->proc;
	const bool write = transfer->from == proc->rank;
	struct target target;

	FT_TRY(ft_barrier(proc, &side->ctx));
	FT_TRY(ft_oob_recv(proc->fd[!proc->rank], &target, sizeof(target), proc->opts.timeout));
	FT_TRY(rma(side, write, op, &target));
	return write ? see_written(side, transfer, op, &target) : 0;
}

/* Rank @owner's buffer is written or read by the other rank */
static int remote(struct side *side, struct transfer *transfer, int owner)
{
	const int rank = side->proc->rank;
	struct ft_op op = {.addr = side->ctx.peer[!rank]};

	FT_TRY(prepare(side, transfer, &op));
	FT_TRY(rank == owner ? share(side, transfer) : reach(side, transfer, &op));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	return rank == transfer->from
		       ? 0
		       : piece_check(side, transfer->buffer[rank],
				     rank == owner ? "written by the peer" : "read into");
}

/* ---- rounds ---- */

static int one(struct side *side)
{
	const int owner = (int) below(side, 2);
	const enum use use = (enum use) below(side, side->rma ? USES : USE_RECV + 1);
	const bool remotely = use == USE_READ || use == USE_WRITE;
	const bool busy = !below(side, 3);
	/* through a hook, device memory is reached only from this end */
	const bool host = remotely && ft_hook_active();
	struct transfer fresh = {
		.number = 2 * side->round,
		.from = use == USE_SEND || use == USE_READ ? owner : !owner,
	};
	struct transfer other = {
		.number = 2 * side->round + 1,
		.from = (int) below(side, 2),
	};
	const struct ft_mem_ops *kind = choose_kind(side, !host);
	const bool same_size = below(side, 2);
	const size_t size = choose_size(side);
	size_t i;

	choose_buffers(side, &fresh, NULL);
	choose_buffers(side, &other, &fresh);
	choose_part(side, &other);
	i = fresh.buffer[owner];
	if (!same_size)
		side->sizes[owner][i] = size;
	choose_part(side, &fresh);

	FT_TRY(busy ? message_start(side, &other) : 0);
	if (owner == side->proc->rank) {
		FT_TRY(piece_free(side, i));
		FT_TRY(piece_alloc(side, i, kind, side->sizes[owner][i]));
	}
	if (remotely) {
		FT_TRY(remote(side, &fresh, owner));
	} else {
		FT_TRY(message_start(side, &fresh));
		FT_TRY(message_end(side, &fresh, "received into"));
	}
	return busy ? message_end(side, &other, "received into meanwhile") : 0;
}

static int set_up(struct side *side)
{
	const enum fi_hmem_iface iface = side->proc->opts.iface;

	for (int rank = 0; rank < 2; rank++) {
		for (size_t i = 0; i < BUFFERS; i++) {
			side->sizes[rank][i] = choose_size(side);
			if (rank == side->proc->rank)
				FT_TRY(piece_alloc(side, i, ft_mem_ops(iface),
						   side->sizes[rank][i]));
		}
	}
	return ft_buf_alloc(&side->ctx, &side->look, FI_HMEM_SYSTEM, SIZE_LARGE);
}

static int tear_down(struct side *side)
{
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	for (size_t i = 0; i < BUFFERS; i++)
		FT_TRY(piece_free(side, i));
	ft_buf_free(&side->look);
	return ft_close(&side->ctx);
}

static int report(const struct side *side)
{
	struct fi_p2p_stats_ops *ops = NULL;
	struct fi_p2p_stats stats = {0};
	struct fid *ep = &side->ctx.ep->fid;

	printf("rank %d: %" PRIu64 " rounds%s, %zu buffers freed, %" PRIu64
	       " allocated where another had been",
	       side->proc->rank, side->round, side->rma ? "" : " without remote memory",
	       side->frees, side->reused);
	if (!fi_open_ops(ep, FI_P2P_STATS_OPS, 0, (void **) &ops, NULL) && ops) {
		FT_TRY(ops->read(ep, &stats, sizeof(stats)));
		printf("; %" PRIu64 " pins, %" PRIu64 " cache hits, %" PRIu64
		       " evictions; %" PRIu64 " bytes staged, %" PRIu64
		       " within the host, %" PRIu64 " by the NIC",
		       stats.pins, stats.cache_hits, stats.evictions,
		       stats.tx_bytes[FI_P2P_PATH_STAGE] + stats.rx_bytes[FI_P2P_PATH_STAGE],
		       stats.tx_bytes[FI_P2P_PATH_IPC] + stats.rx_bytes[FI_P2P_PATH_IPC],
		       stats.tx_bytes[FI_P2P_PATH_PEER] + stats.rx_bytes[FI_P2P_PATH_PEER]);
	}
	printf("\n");
	/* host memory's allocator may be one that avoids it, for sanitizers */
	FT_CHECK(side->reused || side->proc->opts.iface == FI_HMEM_SYSTEM,
		 "no address was another buffer's before: nothing was tested");
	return 0;
}

static int run(struct ft_proc *proc)
{
	const struct ft_opts *opts = &proc->opts;
	const uint64_t rounds = opts->rounds  ? opts->rounds
				: opts->quick ? QUICK_ROUNDS
					      : ROUNDS;
	struct side side = {.proc = proc, .random = opts->seed};
	int ret = 0;

	FT_TRY(ft_test_hints(proc, &side.ctx));
	side.ctx.hints->caps |= FI_RMA;
	side.rma = ft_offered(&side.ctx);
	if (!side.rma)
		side.ctx.hints->caps &= ~FI_RMA;
	FT_TRY(ft_test_open(proc, &side.ctx));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	if (opts->iface == FI_HMEM_CUDA)
		FT_TRY(cudamem_vmm.init(opts->device));
	FT_TRY(set_up(&side));
	for (; !ret && side.round < rounds; side.round += !ret)
		ret = one(&side);
	if (ret) {
		ft_err("round %" PRIu64 " failed; again: --seed %" PRIu64 " --rounds %" PRIu64,
		       side.round, opts->seed, side.round + 1);
		return ret;
	}
	FT_TRY(report(&side));
	return tear_down(&side);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Buffers at addresses that were other buffers' before.",
		.scope = FT_SCOPE_TEST | FT_SCOPE_ROUNDS,
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
