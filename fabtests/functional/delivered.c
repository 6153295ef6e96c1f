/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_delivered: the attributes of an endpoint ask for FI_DELIVERY_COMPLETE. A write that has completed has
 * arrived, though its target calls libfabric no more. Many atomic operations at once have each their own bytes.
 */
#include <string.h>

#include "ft_test.h"

#define LARGEST ((size_t) 300000)
/* Looks at the queue while the target makes no progress: enough for what is not told by the target */
#define LOOKS 2000
/* Atomic operations at once, and how often: more than a core has buffers that it gave back twice */
#define ATOMICS ((size_t) 16)
#define ROUNDS 20
#define ELEMENTS ((size_t) 17)

static const size_t sizes[] = {8, 1000, 70000, LARGEST};
static const char *const calls[] = {"fi_write", "fi_writev"};

struct target {
	uint64_t key, base;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf local, shared;
	struct target target;
};

static int side_open(struct side *s, struct ft_proc *proc, uint64_t caps,
		     enum fi_hmem_iface from, enum fi_hmem_iface to)
{
	memset(s, 0, sizeof(*s));
	s->proc = proc;
	FT_TRY(ft_test_hints(proc, &s->ctx));
	s->ctx.hints->caps |= caps;
	s->ctx.hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	FT_TRY(ft_test_open(proc, &s->ctx));
	FT_TRY(ft_test_connect(proc, &s->ctx));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->local, from, LARGEST + FT_ROOM));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->shared, to, LARGEST + FT_ROOM));
	FT_TRY(ft_buf_share(&s->ctx, &s->shared, FI_REMOTE_WRITE | FI_REMOTE_READ));
	s->target = (struct target){s->shared.key, s->shared.base};
	return 0;
}

static ssize_t post_once(struct side *s, size_t call, const struct ft_slot *slot,
			 struct ft_req *req)
{
	char *const buf = s->local.addr + slot->off;
	const uint64_t addr = s->target.base + slot->off;
	const fi_addr_t peer = s->ctx.peer[1];
	const struct iovec iov = {buf, slot->len};

	if (call)
		return fi_writev(s->ctx.ep, &iov, &s->local.desc, 1, peer, addr, s->target.key,
				 req);
	return fi_write(s->ctx.ep, buf, slot->len, s->local.desc, peer, addr, s->target.key,
			req);
}

static int post(struct side *s, size_t call, const struct ft_slot *slot, struct ft_req *req)
{
	ssize_t ret;

	FT_TRY(ft_slot_fill(slot, slot->len));
	FT_TRY(ft_oob_recv(s->proc->fd[1], &s->target, sizeof(s->target),
			   s->proc->opts.timeout));
	while ((ret = post_once(s, call, slot, req)) == -FI_EAGAIN)
		FT_CHECK(ft_progress(&s->ctx) >= 0, "no progress");
	return ret ? ft_fail((int) ret, calls[call], "%zu bytes", slot->len) : 0;
}

/* Tells the target whether the write has completed while nobody called libfabric there. */
static int initiator(struct side *s, size_t call, const struct ft_slot *slot)
{
	struct ft_req req = {0};
	bool early;

	FT_TRY(post(s, call, slot, &req));
	for (int i = 0; i < LOOKS && !req.done; i++)
		FT_CHECK(ft_progress(&s->ctx) >= 0, "no progress");
	early = req.done;
	FT_TRY(ft_oob_send(s->proc->fd[1], &early, sizeof(early)));
	return ft_wait(&s->ctx, &req, 1);
}

static int target(struct side *s, size_t call, const struct ft_slot *slot)
{
	bool early;

	FT_TRY(ft_slot_arm(slot));
	FT_TRY(ft_oob_send(s->proc->fd[0], &s->target, sizeof(s->target)));
	FT_TRY(ft_oob_recv(s->proc->fd[0], &early, sizeof(early), s->proc->opts.timeout));
	return early ? ft_slot_check(slot, slot->len, slot->len, calls[call]) : 0;
}

/* @meets: the two ends have met before. At first the target has to make progress until they have. */
static int one(struct side *s, size_t call, size_t len, bool meets)
{
	const bool initiates = s->proc->rank == 0;
	const struct ft_slot slot = {initiates ? &s->local : &s->shared, 0, LARGEST + FT_ROOM,
				     64, len};
	struct ft_req req = {0};

	if (meets) {
		FT_TRY(initiates ? initiator(s, call, &slot) : target(s, call, &slot));
	} else if (initiates) {
		FT_TRY(post(s, call, &slot, &req));
		FT_TRY(ft_wait(&s->ctx, &req, 1));
	} else {
		FT_TRY(ft_slot_arm(&slot));
		FT_TRY(ft_oob_send(s->proc->fd[0], &s->target, sizeof(s->target)));
	}
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	return initiates ? 0 : ft_slot_check(&slot, len, len, calls[call]);
}

static int side_close(struct side *s)
{
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	ft_buf_free(&s->local);
	ft_buf_free(&s->shared);
	return ft_close(&s->ctx);
}

static int way(struct ft_proc *proc, enum fi_hmem_iface from, enum fi_hmem_iface to)
{
	struct side s;

	FT_TRY(side_open(&s, proc, FI_RMA, from, to));
	FT_TRY(one(&s, 0, sizes[0], false));
	for (size_t i = 0; i < FT_COUNT(sizes); i++) {
		for (size_t call = 0; call < FT_COUNT(calls); call++)
			FT_TRY(one(&s, call, sizes[i], true));
	}
	return side_close(&s);
}

/* Where the operation of this number finds its operands, and leaves them */
static struct ft_slot atomic_slot(const struct side *s, size_t number)
{
	const size_t room = ELEMENTS * 8 + FT_ROOM;

	return (struct ft_slot){s->proc->rank ? &s->shared : &s->local, number * room, room,
				number * room + 64, ELEMENTS * 8};
}

static int atomic_post(struct side *s, size_t number, uint64_t key, struct ft_req *req)
{
	const struct ft_slot slot = atomic_slot(s, number);
	ssize_t ret;

	FT_TRY(ft_slot_fill(&slot, key));
	while ((ret = fi_atomic(s->ctx.ep, s->local.addr + slot.off, ELEMENTS, s->local.desc,
				s->ctx.peer[1], s->target.base + slot.off, s->target.key,
				FI_UINT64, FI_ATOMIC_WRITE, req)) == -FI_EAGAIN)
		FT_CHECK(ft_progress(&s->ctx) >= 0, "no progress");
	return ret ? ft_fail((int) ret, "fi_atomic", "operation %zu", number) : 0;
}

/* All of them under way together. Each round has other bytes. */
static int atomics_round(struct side *s, uint64_t round)
{
	struct ft_req reqs[ATOMICS];

	memset(reqs, 0, sizeof(reqs));
	for (size_t i = 0; i < ATOMICS; i++) {
		const struct ft_slot slot = atomic_slot(s, i);

		if (s->proc->rank)
			FT_TRY(ft_slot_arm(&slot));
	}
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	for (size_t i = 0; i < ATOMICS && s->proc->rank == 0; i++)
		FT_TRY(atomic_post(s, i, round * ATOMICS + i, &reqs[i]));
	if (s->proc->rank == 0)
		FT_TRY(ft_wait(&s->ctx, reqs, ATOMICS));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	for (size_t i = 0; i < ATOMICS && s->proc->rank; i++) {
		const struct ft_slot slot = atomic_slot(s, i);

		FT_TRY(ft_slot_check(&slot, slot.len, round * ATOMICS + i, "fi_atomic"));
	}
	return 0;
}

/* 1: the provider offers atomic operations, which not every core has; 0: it does not */
static int has_atomics(struct ft_proc *proc)
{
	struct ft_ctx ctx;
	bool offered;

	FT_TRY(ft_test_hints(proc, &ctx));
	ctx.hints->caps |= FI_RMA | FI_ATOMIC;
	offered = ft_offered(&ctx);
	FT_TRY(ft_close(&ctx));
	return offered;
}

static int atomics(struct ft_proc *proc, enum fi_hmem_iface from, enum fi_hmem_iface to)
{
	struct side s;

	FT_TRY(side_open(&s, proc, FI_RMA | FI_ATOMIC, from, to));
	if (s.proc->rank == 0)
		FT_TRY(ft_oob_recv(proc->fd[1], &s.target, sizeof(s.target),
				   proc->opts.timeout));
	else
		FT_TRY(ft_oob_send(proc->fd[0], &s.target, sizeof(s.target)));
	for (uint64_t round = 0; round < ROUNDS; round++)
		FT_TRY(atomics_round(&s, round));
	return side_close(&s);
}

static int run(struct ft_proc *proc)
{
	enum fi_hmem_iface ifaces[2];
	const size_t kinds = ft_kinds(&proc->opts, ifaces);
	int has;

	for (size_t i = 0; i < kinds * kinds; i++)
		FT_TRY(way(proc, ifaces[i % kinds], ifaces[i / kinds]));
	has = has_atomics(proc);
	if (has <= 0)
		return has;
	/* without FI_HMEM they are the core's, with its faults */
	for (size_t i = 0; kinds > 1 && i < kinds * kinds; i++)
		FT_TRY(atomics(proc, ifaces[i % kinds], ifaces[i / kinds]));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose =
			"Writes and atomic operations of an endpoint that asks for delivery.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
