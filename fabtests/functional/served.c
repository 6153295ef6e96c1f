/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_served: the order in which an owner serves requests for its device memory, many of them
 * under way. On one place, each read and fetch finds what the operations before it have left. And
 * who sees a write sees those that were posted before it, wherever they went, and may close the region.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "busygpu.h"
#include "ft_test.h"

#define DEPTH 64
#define ROUNDS 10
#define STRIDE 64
#define DATA_LEN ((size_t) 4096)
#define FLAG (2 * DATA_LEN) /* where it lies, beside the data */
#define SIZE (3 * DEPTH * DATA_LEN)

struct target {
	uint64_t key, base;
};

/** struct side - @local: of rank 0, by kind; @memory: of rank 1 */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	size_t kinds;
	struct ft_buf local[2], memory;
	struct target target;
	bool atomics;
};

enum kind { WRITE, READ, FETCH_ADD };

/** struct op - @at: its place in @local; @to: in the target */
struct op {
	enum kind kind;
	const struct ft_buf *local;
	size_t at, to, len;
	struct ft_req req;
};

static ssize_t post_once(struct side *side, struct op *op)
{
	struct fid_ep *ep = side->ctx.ep;
	const fi_addr_t peer = side->ctx.peer[1];
	const uint64_t to = side->target.base + op->to;
	char *at = op->local->addr + op->at;

	if (op->kind == WRITE)
		return fi_write(ep, at, op->len, op->local->desc, peer, to, side->target.key,
				&op->req);
	if (op->kind == READ)
		return fi_read(ep, at, op->len, op->local->desc, peer, to, side->target.key,
			       &op->req);
	return fi_fetch_atomic(ep, at, 1, op->local->desc, at + STRIDE / 2, op->local->desc,
			       peer, to, side->target.key, FI_UINT64, FI_SUM, &op->req);
}

static int post(struct side *side, struct op *op)
{
	ssize_t ret;
	int n;

	op->req = (struct ft_req){0};
	while ((ret = post_once(side, op)) == -FI_EAGAIN) {
		n = ft_progress(&side->ctx);
		if (n < 0)
			return n;
		FT_TRY(n ? 0 : ft_idle(&side->ctx));
	}
	return ret ? ft_fail((int) ret, "posting", "an operation") : 0;
}

static int put(const struct ft_buf *buf, size_t at, const void *data, size_t len)
{
	return buf->ops->to(buf->addr + at, data, len);
}

static int value_at(const struct ft_buf *buf, size_t at, uint64_t *value)
{
	return buf->ops->from(value, buf->addr + at, sizeof(*value));
}

/* ---- one place ---- */

/* Writes, sums and reads of 8 bytes: what each of them has to find is known */
static int chain(struct side *side, size_t round)
{
	static struct op ops[3 * DEPTH];
	uint64_t value, found, expected = 0, seed = side->proc->opts.seed + round;
	struct op *op;

	for (size_t i = 0; i < 3 * DEPTH; i++) {
		op = &ops[i];
		*op = (struct op){
			.kind = ft_random(&seed) % 3,
			.local = &side->local[(i / 2 + round) % side->kinds],
			.at = i * STRIDE,
			.len = sizeof(value),
		};
		if (op->kind == FETCH_ADD && !side->atomics)
			op->kind = WRITE;
		value = op->kind == FETCH_ADD ? 1 : i * 1000 + round;
		FT_TRY(put(op->local, op->at, &value, sizeof(value)));
	}
	FT_TRY(put(&side->local[0], SIZE - STRIDE, &expected, sizeof(expected)));
	op = &(struct op){
		.local = &side->local[0],
		.at = SIZE - STRIDE,
		.len = sizeof(value),
	};
	FT_TRY(post(side, op));
	FT_TRY(ft_wait(&side->ctx, &op->req, 1));
	for (size_t i = 0; i < 3 * DEPTH; i++)
		FT_TRY(post(side, &ops[i]));
	for (size_t i = 0; i < 3 * DEPTH; i++) {
		op = &ops[i];
		FT_TRY(ft_wait(&side->ctx, &op->req, 1));
		if (op->kind == WRITE) {
			expected = i * 1000 + round;
			continue;
		}
		FT_TRY(value_at(op->local, op->at + (op->kind == READ ? 0 : STRIDE / 2),
				&found));
		FT_CHECK(found == expected,
			 "operation %zu of round %zu, a %s, found %" PRIu64 ", not %" PRIu64, i,
			 round, op->kind == READ ? "read" : "fetch", found, expected);
		expected += op->kind == FETCH_ADD;
	}
	return 0;
}

/* ---- one behind the other ---- */

/* Rank 0 writes data and then a flag that says which, again and again, and waits for none */
static int announce(struct side *side, size_t round)
{
	static struct op ops[2 * DEPTH];
	unsigned char data[DATA_LEN];
	struct op *op;
	uint64_t flag;

	for (size_t i = 0; i < DEPTH; i++) {
		const struct ft_buf *local = &side->local[(i + round) % side->kinds];

		flag = round * DEPTH + i + 1;
		for (size_t at = 0; at < DATA_LEN; at += sizeof(flag))
			memcpy(data + at, &flag, sizeof(flag));
		op = &ops[2 * i];
		/* of several lengths, so that a short one may be tempted to overtake */
		op[0] = (struct op){
			.local = local,
			.at = 2 * i * DATA_LEN,
			.len = DATA_LEN >> i % 4,
		};
		op[1] = (struct op){
			.local = local,
			.at = (2 * i + 1) * DATA_LEN,
			.to = FLAG,
			.len = sizeof(flag),
		};
		FT_TRY(put(local, op[0].at, data, DATA_LEN));
		FT_TRY(put(local, op[1].at, &flag, sizeof(flag)));
	}
	for (size_t i = 0; i < 2 * DEPTH; i++)
		FT_TRY(post(side, &ops[i]));
	for (size_t i = 0; i < 2 * DEPTH; i++)
		FT_TRY(ft_wait(&side->ctx, &ops[i].req, 1));
	return 0;
}

/* Rank 1 looks at the flag first, and the data is no older */
static int observe(struct side *side, size_t round)
{
	const uint64_t last = (round + 1) * DEPTH;
	uint64_t flag = 0, data;
	int n;

	while (flag < last) {
		n = ft_progress(&side->ctx);
		FT_TRY(n < 0 ? n : 0);
		FT_TRY(ft_idle(&side->ctx));
		FT_TRY(busygpu_from(&flag, side->memory.addr + FLAG, sizeof(flag)));
		FT_TRY(busygpu_from(&data, side->memory.addr, sizeof(data)));
		FT_CHECK(data >= flag, "flag %" PRIu64 " is there, and its data is %" PRIu64,
			 flag, data);
	}
	return 0;
}

/* The last write is seen to be there, though we may not have looked after it since: it is no obstacle */
static int withdraw(struct side *side)
{
	int ret = fi_close(&side->memory.mr->fid);

	side->memory.mr = NULL;
	return ret ? ft_fail(ret, "fi_close", "a region to which everything has been written")
		   : 0;
}

/* ---- the whole ---- */

static const unsigned char zero[SIZE];

static int set_up(struct side *side)
{
	enum fi_hmem_iface ifaces[2];
	size_t most;

	side->kinds = ft_kinds(&side->proc->opts, ifaces);
	FT_TRY(ft_test_open(side->proc, &side->ctx));
	side->atomics = side->ctx.info->caps & FI_ATOMIC &&
			!fi_fetch_atomicvalid(side->ctx.ep, FI_UINT64, FI_SUM, &most);
	FT_TRY(ft_test_connect(side->proc, &side->ctx));
	for (size_t kind = 0; kind < side->kinds; kind++)
		FT_TRY(ft_buf_alloc(&side->ctx, &side->local[kind], ifaces[kind], SIZE));
	FT_TRY(ft_buf_alloc(&side->ctx, &side->memory, FI_HMEM_CUDA, SIZE));
	FT_TRY(busygpu_open(side->proc->opts.device));
	FT_TRY(put(&side->memory, 0, zero, SIZE));
	FT_TRY(ft_buf_share(&side->ctx, &side->memory, FI_REMOTE_READ | FI_REMOTE_WRITE));
	side->target = (struct target){side->memory.key, side->memory.base};
	if (side->proc->rank == 1)
		return ft_oob_send(side->proc->fd[0], &side->target, sizeof(side->target));
	return ft_oob_recv(side->proc->fd[1], &side->target, sizeof(side->target),
			   side->proc->opts.timeout);
}

static int run(struct ft_proc *proc)
{
	struct side side = {.proc = proc};
	const bool owner = proc->rank == 1;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	if (ft_over_verbs(&proc->opts))
		return ft_skip("a NIC serves device memory itself");
	FT_TRY(ft_test_hints(proc, &side.ctx));
	side.ctx.hints->caps |= FI_RMA | FI_ATOMIC;
	if (!ft_offered(&side.ctx))
		side.ctx.hints->caps &= ~FI_ATOMIC;
	FT_TRY(set_up(&side));
	for (size_t round = 0; !owner && round < ROUNDS; round++)
		FT_TRY(chain(&side, round));
	FT_TRY(ft_barrier(proc, &side.ctx));
	FT_TRY(owner ? put(&side.memory, 0, zero, SIZE) : 0);
	for (size_t round = 0; round < ROUNDS; round++) {
		FT_TRY(ft_barrier(proc, &side.ctx));
		FT_TRY(owner ? observe(&side, round) : announce(&side, round));
	}
	FT_TRY(owner ? withdraw(&side) : 0);
	FT_TRY(ft_barrier(proc, &side.ctx));
	for (size_t kind = 0; kind < side.kinds; kind++)
		ft_buf_free(&side.local[kind]);
	ft_buf_free(&side.memory);
	return ft_close(&side.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "The order in which requests for device memory are served.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
