/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_ipc: between two processes of one host, device memory is copied from device to
 * device, and everything else is not: messages, reads and writes of many kinds, each with the
 * way that it has to take at either end. What went another way, or was counted elsewhere, is
 * an error, as is a byte that is not right. Then buffers are freed and allocated again.
 *
 * With -q the receiver sees many messages in host memory before all that, and takes short ones
 * as if there were no GPU from then on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_ext_p2p.h>

#include "cudamem.h"
#include "ft_test.h"

#define SHORT_LEN 1000 /* longer ones may be announced to anybody */
#define MIDDLE_LEN                                                                             \
	60001 /* if others are under way, sent at once to a peer that may be anywhere */
#define LONG_LEN 1100000 /* beyond FI_P2P_EAGER_SIZE */
#define ROUNDS 200
#define HOST_ROUNDS 1100 /* more than ofi_p2p waits for device memory */

#define HOST FI_P2P_PATH_HOST
#define STAGE FI_P2P_PATH_STAGE
#define IPC FI_P2P_PATH_IPC

/* By IPC over shm, else staged; what the core may do and report by itself */
enum { NOT_COUNTED = -1, NEAR_IPC = -2, CORE = -3 };

enum how { MESSAGE, WRITE, READ };

/**
 * struct kind_case - from rank 0's memory to rank 1's.
 * @len, @room:	what is sent, and of what length is the receive (0: the same)
 * @from_pieces, @to_pieces: what the buffer is divided into (0: not)
 * @near:	only over shm: what cores deliver of a message that is too long differs
 * @tx, @rx:	the way that each end has to count
 */
static const struct kind_case {
	const char *name;
	enum how how;
	const struct ft_mem_ops *from, *to;
	size_t len, room;
	size_t from_pieces, to_pieces;
	bool delivery, near;
	int tx, rx;
	const char *reason;
} cases[] = {
	{"write", WRITE, &ft_cuda_ops, &ft_cuda_ops, .len = LONG_LEN, .tx = IPC, .rx = IPC},
	{"read", READ, &ft_cuda_ops, &ft_cuda_ops, .len = LONG_LEN, .tx = NOT_COUNTED,
	 .rx = IPC},
	{"middling write", WRITE, &ft_cuda_ops, &ft_cuda_ops, .len = MIDDLE_LEN, .tx = IPC,
	 .rx = IPC},
	{"middling read", READ, &ft_cuda_ops, &ft_cuda_ops, .len = MIDDLE_LEN,
	 .tx = NOT_COUNTED, .rx = IPC},
	{"write of virtual memory", WRITE, &cudamem_vmm, &ft_cuda_ops, .len = LONG_LEN,
	 .tx = STAGE, .rx = STAGE},
	{"read into virtual memory", READ, &ft_cuda_ops, &cudamem_vmm, .len = LONG_LEN,
	 .tx = NOT_COUNTED, .rx = IPC},
	{"long", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = LONG_LEN, .tx = IPC, .rx = IPC,
	 .reason = "one copy from device to device"},
	{"middling", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = MIDDLE_LEN, .tx = IPC,
	 .rx = IPC},
	{"short", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = SHORT_LEN, .tx = NEAR_IPC,
	 .rx = NEAR_IPC},
	{"a byte", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = 1, .tx = NEAR_IPC,
	 .rx = NEAR_IPC},
	{"delivered", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = LONG_LEN, .delivery = true,
	 .tx = IPC, .rx = IPC},
	{"into pieces", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = LONG_LEN, .to_pieces = 3,
	 .tx = IPC, .rx = IPC},
	{"from pieces", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = LONG_LEN, .from_pieces = 3,
	 .tx = STAGE, .rx = STAGE},
	{"into a larger buffer", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = LONG_LEN,
	 .room = LONG_LEN + 100, .tx = IPC, .rx = IPC},
	{"truncated", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = LONG_LEN, .room = 12345,
	 .tx = IPC, .rx = NOT_COUNTED},
	{"short, truncated", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = SHORT_LEN, .room = 77,
	 .near = true, .tx = IPC, .rx = NOT_COUNTED},
	{"device to host", MESSAGE, &ft_cuda_ops, NULL, .len = LONG_LEN, .tx = STAGE,
	 .rx = HOST, .reason = "the receiver's buffer is host memory"},
	{"middling, after that", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = MIDDLE_LEN,
	 .tx = NEAR_IPC, .rx = NEAR_IPC},
	{"short, device to host", MESSAGE, &ft_cuda_ops, NULL, .len = SHORT_LEN, .tx = STAGE,
	 .rx = CORE},
	{"host to device", MESSAGE, NULL, &ft_cuda_ops, .len = LONG_LEN, .tx = CORE,
	 .rx = STAGE},
	{"from virtual memory", MESSAGE, &cudamem_vmm, &ft_cuda_ops, .len = LONG_LEN,
	 .tx = STAGE, .rx = STAGE},
	{"into virtual memory", MESSAGE, &ft_cuda_ops, &cudamem_vmm, .len = LONG_LEN, .tx = IPC,
	 .rx = IPC},
	{"middling, after a long one", MESSAGE, &ft_cuda_ops, &ft_cuda_ops, .len = MIDDLE_LEN,
	 .tx = IPC, .rx = IPC},
	{"from shared virtual memory", MESSAGE, &cudamem_vmm_shared, &ft_cuda_ops,
	 .len = LONG_LEN, .tx = IPC, .rx = IPC},
	{"the same once more", MESSAGE, &cudamem_vmm_shared, &cudamem_vmm_shared,
	 .len = LONG_LEN, .tx = IPC, .rx = IPC},
	{"a byte of it", MESSAGE, &cudamem_vmm_shared, &ft_cuda_ops, .len = 1, .tx = NEAR_IPC,
	 .rx = NEAR_IPC},
	{"write of it", WRITE, &cudamem_vmm_shared, &ft_cuda_ops, .len = LONG_LEN, .tx = IPC,
	 .rx = IPC},
	{"read of it", READ, &cudamem_vmm_shared, &ft_cuda_ops, .len = LONG_LEN,
	 .tx = NOT_COUNTED, .rx = IPC},
	{"from two pieces of it", MESSAGE, &cudamem_vmm_shared_two, &ft_cuda_ops,
	 .len = LONG_LEN, .tx = STAGE, .rx = STAGE},
	{"into two pieces of it", MESSAGE, &ft_cuda_ops, &cudamem_vmm_shared_two,
	 .len = LONG_LEN, .tx = IPC, .rx = IPC},
	{"from a pool", MESSAGE, &cudamem_pool, &ft_cuda_ops, .len = LONG_LEN, .tx = STAGE,
	 .rx = STAGE},
	{"into a pool", MESSAGE, &ft_cuda_ops, &cudamem_pool, .len = LONG_LEN, .tx = IPC,
	 .rx = IPC},
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct fi_p2p_stats_ops *stats;
	bool near;
	bool rma;
	bool late; /* -q */
	uint64_t number;
};

struct target {
	uint64_t key, addr;
};

static bool sends(const struct side *side)
{
	return side->proc->rank == 0;
}

static struct ft_slot place(const struct ft_buf *buf, size_t len)
{
	return (struct ft_slot){.buf = buf,
				.room = len + FT_ROOM,
				.off = FT_ROOM / 2 + 1,
				.len = len};
}

/* ---- what is counted ---- */

static int read_stats(struct side *side, struct fi_p2p_stats *stats)
{
	return side->stats->read(&side->ctx.ep->fid, stats, sizeof(*stats));
}

/* From @before to @after, @bytes were counted on the way @path, and nothing else */
static int check_stats(const struct side *side, const char *name,
		       const struct fi_p2p_stats *before, const struct fi_p2p_stats *after,
		       int path, size_t bytes)
{
	const uint64_t *from = sends(side) ? before->tx_bytes : before->rx_bytes;
	const uint64_t *to = sends(side) ? after->tx_bytes : after->rx_bytes;

	if (path == NEAR_IPC)
		path = side->near && !(side->late && bytes <= SHORT_LEN) ? IPC : STAGE;
	for (int i = path == CORE ? STAGE : HOST; i < FI_P2P_PATH_MAX; i++)
		FT_CHECK(to[i] - from[i] == (i == path ? bytes : 0),
			 "%s: %" PRIu64 " bytes of %zu by way %d, expected is way %d: %s", name,
			 to[i] - from[i], bytes, i, path, after->reason[i]);
	return 0;
}

/* ---- messages ---- */

static void divide(struct ft_op *op, const struct ft_buf *buf, size_t off, size_t len,
		   size_t pieces)
{
	ft_op_buf(op, buf, off, len);
	if (!pieces)
		return;
	op->call = op->call == FT_SEND ? FT_SENDV : FT_RECVV;
	op->count = pieces;
	for (size_t i = 0; i < pieces; i++) {
		op->iov[i].iov_base = buf->addr + off + i * (len / pieces);
		op->iov[i].iov_len = i + 1 < pieces ? len / pieces : len - i * (len / pieces);
		op->desc[i] = buf->desc;
	}
}

static int send_one(struct side *side, const struct kind_case *it, const struct ft_buf *buf,
		    struct ft_req *req)
{
	const struct ft_slot slot = place(buf, it->len);
	struct ft_op op = {
		.call = it->delivery ? FT_SENDMSG : FT_SEND,
		.tagged = true,
		.addr = side->ctx.peer[1],
		.tag = side->number,
		.flags = it->delivery ? FI_DELIVERY_COMPLETE : 0,
		.req = req,
	};

	divide(&op, buf, slot.off, it->len, it->from_pieces);
	FT_TRY(ft_slot_fill(&slot, side->number));
	FT_TRY(ft_post(&side->ctx, &op));
	return ft_wait(&side->ctx, req, 1);
}

static int recv_one(struct side *side, const struct kind_case *it, const struct ft_buf *buf,
		    struct ft_req *req)
{
	const size_t room = it->room ? it->room : it->len;
	const size_t got = FT_MIN(room, it->len);
	const struct ft_slot slot = place(buf, room);
	struct ft_op op = {
		.call = FT_RECV,
		.tagged = true,
		.addr = FI_ADDR_UNSPEC,
		.tag = side->number,
		.req = req,
	};

	divide(&op, buf, slot.off, room, it->to_pieces);
	FT_TRY(ft_slot_arm(&slot));
	FT_TRY(ft_post(&side->ctx, &op));
	FT_TRY(ft_wait_any_result(&side->ctx, req, 1));
	FT_CHECK(req->err == (got < it->len ? FI_ETRUNC : 0), "%s: the receive ended with %s",
		 it->name, fi_strerror(req->err));
	FT_CHECK(req->err || req->comp.len == got, "%s: %zu bytes, expected %zu", it->name,
		 req->comp.len, got);
	FT_CHECK(!req->err || req->olen == it->len - got,
		 "%s: %zu bytes too many, expected %zu", it->name, req->olen, it->len - got);
	return ft_slot_check(&slot, got, side->number, it->name);
}

/* ---- remote memory ---- */

static int reach(struct side *side, const struct kind_case *it, const struct ft_buf *buf,
		 struct ft_req *req)
{
	const struct ft_slot slot = place(buf, it->len);
	const fi_addr_t peer = side->ctx.peer[!side->proc->rank];
	char *at = buf->addr + slot.off;
	struct target target;
	ssize_t ret;

	FT_TRY(ft_oob_recv(side->proc->fd[!side->proc->rank], &target, sizeof(target),
			   side->proc->opts.timeout));
	target.addr += slot.off;
	/* the owner may have to be greeted first */
	while ((ret = it->how == WRITE ? fi_write(side->ctx.ep, at, it->len, buf->desc, peer,
						  target.addr, target.key, req)
				       : fi_read(side->ctx.ep, at, it->len, buf->desc, peer,
						 target.addr, target.key, req)) == -FI_EAGAIN) {
		const int n = ft_progress(&side->ctx);

		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(&side->ctx));
	}
	if (ret)
		return ft_fail((int) ret, "fi_write or fi_read", "%s", it->name);
	return ft_wait(&side->ctx, req, 1);
}

static int remote(struct side *side, const struct kind_case *it, struct ft_buf *buf,
		  struct ft_req *req)
{
	const struct ft_slot slot = place(buf, it->len);
	const bool asks = sends(side) == (it->how == WRITE);
	struct target target;

	FT_TRY(sends(side) ? ft_slot_fill(&slot, side->number) : ft_slot_arm(&slot));
	if (!asks) {
		FT_TRY(ft_buf_share(&side->ctx, buf, FI_REMOTE_READ | FI_REMOTE_WRITE));
		target = (struct target){buf->key, buf->base};
		FT_TRY(ft_oob_send(side->proc->fd[!side->proc->rank], &target, sizeof(target)));
	} else {
		FT_TRY(reach(side, it, buf, req));
	}
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	return sends(side) ? 0 : ft_slot_check(&slot, it->len, side->number, it->name);
}

/* ---- the cases ---- */

/* How memory is shared that has no handle may be what the emulator lets fail. */
static int expected(const struct side *side, const struct kind_case *it)
{
	const int path = sends(side) ? it->tx : it->rx;
	const bool shared = it->from == &cudamem_vmm_shared;

	return shared && path != NOT_COUNTED && getenv("CUDAEMU_FAIL") ? STAGE : path;
}

static int one(struct side *side, const struct kind_case *it)
{
	const struct ft_mem_ops *ops = sends(side) ? it->from : it->to;
	const int path = expected(side, it);
	struct fi_p2p_stats before, after;
	struct ft_req req = {0};
	struct ft_buf buf = {0};

	side->number++;
	FT_TRY(ft_buf_alloc_by(&side->ctx, &buf, ops ? ops : ft_mem_ops(FI_HMEM_SYSTEM),
			       FT_MAX(it->len, it->room) + FT_ROOM));
	FT_TRY(read_stats(side, &before));
	if (it->how != MESSAGE)
		FT_TRY(remote(side, it, &buf, &req));
	else
		FT_TRY(sends(side) ? send_one(side, it, &buf, &req)
				   : recv_one(side, it, &buf, &req));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(read_stats(side, &after));
	FT_TRY(check_stats(side, it->name, &before, &after, path, it->len));
	FT_CHECK(!it->reason || !sends(side) || strstr(after.reason[path], it->reason),
		 "%s: the reason is \"%s\", and not \"%s\"", it->name, after.reason[path],
		 it->reason);
	ft_buf_free(&buf);
	return 0;
}

/* Short messages are staged until the receiver has said what it does */
static int greet(struct side *side)
{
	static const struct kind_case hello = {.name = "greeting", .len = SHORT_LEN};
	struct ft_op op = {.call = sends(side) ? FT_RECV : FT_SEND, .tagged = true};
	struct ft_req req = {0};
	struct ft_buf buf = {0};

	side->number++;
	FT_TRY(ft_buf_alloc_by(&side->ctx, &buf, &ft_cuda_ops, SHORT_LEN + FT_ROOM));
	FT_TRY(sends(side) ? send_one(side, &hello, &buf, &req)
			   : recv_one(side, &hello, &buf, &req));
	ft_buf_free(&buf);
	/* the answer is on its way before what the receiver sends then */
	side->number++;
	FT_TRY(ft_buf_alloc(&side->ctx, &buf, FI_HMEM_SYSTEM, 1));
	req = (struct ft_req){.done = false};
	op.addr = side->ctx.peer[!side->proc->rank];
	op.tag = side->number;
	op.req = &req;
	ft_op_buf(&op, &buf, 0, 1);
	FT_TRY(ft_post(&side->ctx, &op));
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	ft_buf_free(&buf);
	return ft_barrier(side->proc, &side->ctx);
}

/* Short messages in host memory */
static int talk(struct side *side)
{
	static const struct kind_case small = {.name = "host memory", .len = 8};
	struct ft_req req;
	struct ft_buf buf = {0};

	FT_TRY(ft_buf_alloc(&side->ctx, &buf, FI_HMEM_SYSTEM, 8 + FT_ROOM));
	for (int i = 0; i < HOST_ROUNDS; i++) {
		side->number++;
		req = (struct ft_req){.done = false};
		FT_TRY(sends(side) ? send_one(side, &small, &buf, &req)
				   : recv_one(side, &small, &buf, &req));
	}
	ft_buf_free(&buf);
	return ft_barrier(side->proc, &side->ctx);
}

/* Buffers of all sizes at addresses that were others': all of it from device to device */
static int reallocate(struct side *side, const struct ft_mem_ops *ops)
{
	struct fi_p2p_stats before, after;
	uint64_t random = side->proc->opts.seed, bytes = 0;
	struct kind_case it = {.name = "allocated again", .from = ops, .tx = IPC, .rx = IPC};
	struct ft_req req;
	struct ft_buf buf;

	FT_TRY(read_stats(side, &before));
	for (int i = 0; i < ROUNDS; i++) {
		side->number++;
		it.len = LONG_LEN + ft_random(&random) % LONG_LEN;
		bytes += it.len;
		req = (struct ft_req){.done = false};
		memset(&buf, 0, sizeof(buf));
		FT_TRY(ft_buf_alloc_by(&side->ctx, &buf, ops, it.len + FT_ROOM));
		FT_TRY(sends(side) ? send_one(side, &it, &buf, &req)
				   : recv_one(side, &it, &buf, &req));
		ft_buf_free(&buf);
	}
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(read_stats(side, &after));
	return check_stats(side, it.name, &before, &after, expected(side, &it), bytes);
}

static int run(struct ft_proc *proc)
{
	struct side side = {.proc = proc};

	if (proc->opts.iface != FI_HMEM_CUDA)
		return proc->rank ? FT_SKIP : ft_skip("needs CUDA memory (-D cuda)");
	FT_TRY(ft_test_hints(proc, &side.ctx));
	side.ctx.hints->caps |= FI_RMA;
	side.rma = ft_offered(&side.ctx);
	if (!side.rma)
		side.ctx.hints->caps &= ~FI_RMA;
	FT_TRY(cudamem_vmm.init(proc->opts.device));
	FT_TRY(ft_test_open(proc, &side.ctx));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	side.near = !strncmp(proc->opts.prov, "shm;", 4);
	if (fi_open_ops(&side.ctx.ep->fid, FI_P2P_STATS_OPS, 0, (void **) &side.stats, NULL))
		return proc->rank ? FT_SKIP : ft_skip("needs ofi_p2p");
	side.late = proc->opts.quick;
	FT_TRY(side.late ? talk(&side) : 0);
	FT_TRY(greet(&side));
	for (size_t i = 0; i < FT_COUNT(cases); i++)
		if ((side.rma || cases[i].how == MESSAGE) &&
		    ((side.near && !side.late) || !cases[i].near))
			FT_TRY(one(&side, &cases[i]));
	FT_TRY(reallocate(&side, &ft_cuda_ops));
	FT_TRY(reallocate(&side, &cudamem_vmm_shared));
	FT_TRY(ft_barrier(proc, &side.ctx));
	return ft_close(&side.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Device memory within a host, and the ways that it takes.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
