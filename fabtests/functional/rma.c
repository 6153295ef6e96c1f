/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_rma: every call that reads or writes remote memory, between every pair of memory
 * kinds, with keys of the provider's choice and of the application's. Checks every byte,
 * the guards around, remote cq data; that each operation is counted once at its target, and
 * not before the data is in place (FI_RMA_EVENT); and that a wrong key, range or access is an
 * error at the initiator and touches nothing.
 *
 * Rank 0 initiates, rank 1 owns the target memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "ft_test.h"

#define GUARD_LEN 64
#define WAIT_MS 60000
/* What is injected at a time, and of what size, where the core allows it */
#define INJECTED 256
#define INJECT_SIZE 16384

enum rma_call {
	RMA_WRITE,
	RMA_WRITEV,
	RMA_WRITEMSG,
	RMA_WRITEDATA,
	RMA_INJECT,
	RMA_INJECTDATA,
	RMA_READ,
	RMA_READV,
	RMA_READMSG,
};

static const struct variant {
	const char *name;
	enum rma_call call;
	uint64_t flags;
	bool read, split, data, inject;
} variants[] = {
	{"write", RMA_WRITE, 0, false, false, false, false},
	{"writev", RMA_WRITEV, 0, false, true, false, false},
	{"writemsg", RMA_WRITEMSG, 0, false, true, false, false},
	{"writemsg(delivery)", RMA_WRITEMSG, FI_DELIVERY_COMPLETE, false, false, false, false},
	{"writemsg(data)", RMA_WRITEMSG, FI_REMOTE_CQ_DATA, false, true, true, false},
	{"writemsg(inject)", RMA_WRITEMSG, FI_INJECT, false, false, false, true},
	{"writedata", RMA_WRITEDATA, 0, false, false, true, false},
	{"inject", RMA_INJECT, 0, false, false, false, true},
	{"injectdata", RMA_INJECTDATA, 0, false, false, true, true},
	{"read", RMA_READ, 0, true, false, false, false},
	{"readv", RMA_READV, 0, true, true, false, false},
	{"readmsg", RMA_READMSG, 0, true, true, false, false},
};

static const size_t sizes[] = {
	1,     7,     64,    2049,   4095,    4096,    4097,    16385,
	65535, 65536, 65537, 262144, 1048575, 1048576, 1048577, 10 * 1048576 + 3,
};

static const size_t offsets[] = {0, 1, 63};

/* What the owner counts */
static const uint64_t events[] = {FI_REMOTE_READ, FI_REMOTE_WRITE};

/* What rank 0 has to know of a buffer of rank 1's; @nic: the core's NIC serves it */
struct target {
	uint64_t key, base, nic;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf local[2], shared[2]; /* by kind: host, device */
	struct fid_mr *first[2];           /* another region of what is shared */
	struct target target[2];
	uint64_t number;
	struct fid_cntr *cntr[FT_COUNT(events)]; /* NULL: without FI_RMA_EVENT */
	uint64_t counted[FT_COUNT(events)];
};

struct op {
	const struct variant *variant;
	int from, to; /* kinds: of the initiator's memory, of the target's */
	size_t size, offset;
	char what[160];
};

static size_t cut(const struct ft_buf *buf, size_t off, size_t len, bool split, bool described,
		  struct iovec *iov, void **desc)
{
	const size_t first = split ? len / 3 : 0;

	desc[0] = desc[1] = described ? buf->desc : NULL;
	iov[0] = (struct iovec){buf->addr + off, first ? first : len};
	iov[1] = (struct iovec){buf->addr + off + first, len - first};
	return first ? 2 : 1;
}

static ssize_t post_once(struct side *side, const struct op *op, const struct target *target,
			 struct ft_req *req)
{
	const struct ft_buf *local = &side->local[op->from];
	const size_t at = GUARD_LEN + op->offset, len = op->size;
	char *const buf = local->addr + at;
	const fi_addr_t peer = side->ctx.peer[1];
	struct fid_ep *ep = side->ctx.ep;
	const uint64_t addr = target->base + at, data = 0x5a000000 + side->number;
	struct iovec iov[2];
	void *desc[2];
	/* where descriptors need not be, every other operation has one */
	const bool described =
		side->ctx.info->domain_attr->mr_mode & FI_MR_LOCAL || side->number % 2;
	size_t count = cut(local, at, len, op->variant->split, described, iov, desc);
	struct fi_rma_iov rma = {addr, len, target->key};
	const struct fi_msg_rma msg = {iov, desc, count, peer, &rma, 1, req, data};

	switch (op->variant->call) {
	case RMA_WRITE:
		return fi_write(ep, buf, len, desc[0], peer, addr, target->key, req);
	case RMA_WRITEV:
		return fi_writev(ep, iov, desc, count, peer, addr, target->key, req);
	case RMA_WRITEMSG:
		return fi_writemsg(ep, &msg, op->variant->flags);
	case RMA_WRITEDATA:
		return fi_writedata(ep, buf, len, desc[0], data, peer, addr, target->key, req);
	case RMA_INJECT:
		return fi_inject_write(ep, buf, len, peer, addr, target->key);
	case RMA_INJECTDATA:
		return fi_inject_writedata(ep, buf, len, data, peer, addr, target->key);
	case RMA_READ:
		return fi_read(ep, buf, len, desc[0], peer, addr, target->key, req);
	case RMA_READV:
		return fi_readv(ep, iov, desc, count, peer, addr, target->key, req);
	case RMA_READMSG:
		return fi_readmsg(ep, &msg, op->variant->flags);
	}
	return -FI_EINVAL;
}

static int post(struct side *side, const struct op *op, const struct target *target,
		struct ft_req *req)
{
	ssize_t ret;

	while ((ret = post_once(side, op, target, req)) == -FI_EAGAIN) {
		int n = ft_progress(&side->ctx);

		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(&side->ctx));
	}
	return ret ? ft_fail((int) ret, op->what, "not posted") : 0;
}

static struct ft_slot place(const struct ft_buf *buf, const struct op *op)
{
	return (struct ft_slot){
		.buf = buf,
		.room = 2 * GUARD_LEN + op->offset + op->size,
		.off = GUARD_LEN + op->offset,
		.len = op->size,
	};
}

static bool never_completes(const struct op *op)
{
	return op->variant->call == RMA_INJECT || op->variant->call == RMA_INJECTDATA;
}

/* What was injected is delivered some time: until then nobody can look at it. */
static int flush(struct side *side, const struct op *op)
{
	/* the owner sees it counted, and each look would be */
	const bool counted = side->cntr[0];
	const struct variant read = {"read", RMA_READ, 0, true, false, false, false};
	struct op look = *op;
	struct ft_req req = {0};
	const struct ft_slot slot = place(&side->local[0], op);
	unsigned char expected;
	ssize_t diff;

	look.variant = &read;
	look.from = 0;
	if (counted)
		return 0;
	do {
		req = (struct ft_req){.done = false};
		FT_TRY(post(side, &look, &side->target[op->to], &req));
		FT_TRY(ft_wait(&side->ctx, &req, 1));
		diff = ft_pattern_diff(slot.buf->addr + slot.off, op->size, side->number,
				       &expected);
		FT_TRY(diff < 0 ? 0 : ft_idle(&side->ctx));
	} while (diff >= 0);
	return 0;
}

static int initiate(struct side *side, const struct op *op)
{
	const struct variant *variant = op->variant;
	const struct ft_slot slot = place(&side->local[op->from], op);
	const uint64_t flag = variant->read ? FI_READ : FI_WRITE;
	struct ft_req req = {0};

	FT_TRY(variant->read ? ft_slot_arm(&slot) : ft_slot_fill(&slot, side->number));
	FT_TRY(post(side, op, &side->target[op->to], never_completes(op) ? NULL : &req));
	if (variant->inject)
		FT_TRY(ft_slot_arm(&slot));
	if (never_completes(op))
		return flush(side, op);
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	FT_CHECK((req.comp.flags & (FI_RMA | flag)) == (FI_RMA | flag),
		 "%s: completion flags %#" PRIx64, op->what, req.comp.flags);
	/* without delivery-complete, where the core serves it, the bytes may be on their way */
	if (!variant->read)
		return flush(side, op);
	return ft_slot_check(&slot, op->size, side->number, op->what);
}

/* Waits until the operation is counted, by all ways that the provider has. */
static int wait_counted(struct side *side, const struct op *op)
{
	struct fid_cntr *cntr = side->cntr[!op->variant->read];
	uint64_t *const value = &side->counted[!op->variant->read];
	int ret;

	++*value;
	if (side->number % 2 && ft_is_p2p(&side->ctx)) {
		ret = fi_cntr_wait(cntr, *value, WAIT_MS);
		if (ret)
			return ft_fail(ret, "fi_cntr_wait", "%s", op->what);
	}
	while (fi_cntr_read(cntr) < *value)
		FT_TRY(ft_idle(&side->ctx));
	ft_progress_note();
	return 0;
}

static int check_counted(const struct side *side, const char *what)
{
	for (size_t i = 0; i < FT_COUNT(events); i++) {
		const uint64_t value = fi_cntr_read(side->cntr[i]);

		FT_CHECK(value == side->counted[i],
			 "%s: the counter of %s is %" PRIu64 " after %" PRIu64 " operations",
			 what, fi_tostr(&events[i], FI_TYPE_CAPS), value, side->counted[i]);
	}
	return 0;
}

/* Where remote cq data takes a receive, as verbs has it, @event is that receive's. */
static int expect_data(struct side *side, struct ft_req *event)
{
	struct ft_op recv = {.call = FT_RECV, .req = event};

	side->ctx.remote = event;
	if (!(side->ctx.info->rx_attr->mode & FI_RX_CQ_DATA))
		return 0;
	ft_op_buf(&recv, &side->local[0], 0, 0);
	return ft_post(&side->ctx, &recv);
}

static int own(struct side *side, const struct op *op)
{
	const struct ft_slot slot = place(&side->shared[op->to], op);
	struct ft_req event = {0};

	FT_TRY(op->variant->read ? ft_slot_fill(&slot, side->number) : ft_slot_arm(&slot));
	FT_TRY(op->variant->data ? expect_data(side, &event) : 0);
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	if (op->variant->data) {
		FT_TRY(ft_wait(&side->ctx, &event, 1));
		FT_CHECK(event.comp.flags & FI_REMOTE_CQ_DATA &&
				 event.comp.data == 0x5a000000 + side->number,
			 "%s: completion has flags %#" PRIx64 ", data %#" PRIx64, op->what,
			 event.comp.flags, event.comp.data);
	}
	if (side->cntr[0]) {
		FT_TRY(wait_counted(side, op));
		FT_TRY(ft_slot_check(&slot, op->size, side->number, op->what));
	}
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	if (side->cntr[0])
		return check_counted(side, op->what);
	return ft_slot_check(&slot, op->size, side->number, op->what);
}

static int one(struct side *side, struct op *op)
{
	static const char *const kinds[] = {"host", "device"};
	int ret;

	side->number++;
	if (op->variant->inject && op->size > side->ctx.info->tx_attr->inject_size)
		return 0;
	snprintf(op->what, sizeof(op->what), "%s %" PRIu64 " of %zu bytes at %zu, %s to %s",
		 op->variant->name, side->number, op->size, op->offset, kinds[op->from],
		 kinds[op->to]);
	if (side->proc->rank == 1) {
		ret = own(side, op);
	} else {
		FT_TRY(ft_barrier(side->proc, &side->ctx));
		ret = initiate(side, op);
		if (!ret)
			ret = ft_barrier(side->proc, &side->ctx);
	}
	if (ret)
		ft_err("%s failed", op->what);
	return ret;
}

static int all(struct side *side, size_t kinds)
{
	const size_t step = !side->proc->opts.quick ? 1 : side->cntr[0] ? 7 : 3;
	struct op op;
	size_t i = 0;

	for (size_t v = 0; v < FT_COUNT(variants); v++) {
		op.variant = &variants[v];
		for (op.from = 0; op.from < (int) kinds; op.from++) {
			for (op.to = 0; op.to < (int) kinds; op.to++) {
				for (size_t s = 0; s < FT_COUNT(sizes); s++, i++) {
					if (i % step)
						continue;
					op.size = sizes[s];
					op.offset = offsets[i % FT_COUNT(offsets)];
					FT_TRY(one(side, &op));
				}
			}
		}
	}
	return 0;
}

/* Many that are injected are under way at a time, and their buffers are the user's already. */
static int injected(struct side *side, int kind)
{
	const struct variant variant = {
		"writemsg(inject) beside others",
		RMA_WRITEMSG,
		FI_INJECT,
		false,
		false,
		false,
		true,
	};
	const size_t size = FT_MIN(side->ctx.info->tx_attr->inject_size, INJECT_SIZE);
	const size_t room = INJECT_SIZE + 2 * GUARD_LEN;
	struct ft_buf *const buf = side->proc->rank ? &side->shared[kind] : &side->local[0];
	struct op op = {.variant = &variant, .to = kind, .size = size};
	struct ft_req reqs[INJECTED] = {0};
	struct ft_slot slots[INJECTED];
	const uint64_t first = side->number;

	for (size_t i = 0; i < INJECTED; i++) {
		slots[i] = (struct ft_slot){buf, i * room, room, i * room + GUARD_LEN, size};
		FT_TRY(ft_slot_arm(&slots[i]));
	}
	snprintf(op.what, sizeof(op.what), "%s", variant.name);
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	for (size_t i = 0; !side->proc->rank && i < INJECTED; i++) {
		side->number = first + i;
		op.offset = i * room;
		FT_TRY(ft_slot_fill(&slots[i], side->number));
		FT_TRY(post(side, &op, &side->target[kind], &reqs[i]));
		FT_TRY(ft_slot_arm(&slots[i]));
	}
	if (!side->proc->rank)
		FT_TRY(ft_wait(&side->ctx, reqs, INJECTED));
	for (size_t i = 0; !side->proc->rank && i < INJECTED; i++) {
		side->number = first + i;
		op.offset = i * room;
		FT_TRY(flush(side, &op));
	}
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	for (size_t i = 0; side->proc->rank && i < INJECTED; i++)
		FT_TRY(ft_slot_check(&slots[i], size, first + i, op.what));
	side->number = first + INJECTED;
	return 0;
}

/* ---- what must not work ---- */

static const struct wrong {
	const char *name;
	uint64_t key, addr; /* added to the right ones */
	size_t size;
	bool read;
} wrongs[] = {
	{"a wrong key", 77, 0, 100, false},
	{"a wrong key, long", 77, 0, 3000000, false},
	{"a wrong key to read", 77, 0, 100, true},
	{"too far", 0, 1ULL << 40, 100, false},
	{"before the beginning", 0, -(uint64_t) 65536, 100, true},
	{"past the end", 0, 1048576, 10 * 1048576, false},
	{"past the end, reading", 0, 1048576, 10 * 1048576, true},
};

static int refuse(struct side *side, const struct wrong *wrong, int kind)
{
	const struct variant write = {"write", RMA_WRITE, 0, false, false, false, false};
	const struct variant read = {"read", RMA_READ, 0, true, false, false, false};
	struct op op = {.variant = wrong->read ? &read : &write, .size = wrong->size};
	const struct ft_slot slot = place(&side->local[0], &op);
	struct target target = side->target[kind];
	struct ft_req req = {0};

	snprintf(op.what, sizeof(op.what), "%s", wrong->name);
	target.key += wrong->key;
	target.base += wrong->addr;
	FT_TRY(ft_slot_arm(&slot));
	FT_TRY(post(side, &op, &target, &req));
	FT_TRY(ft_wait_any_result(&side->ctx, &req, 1));
	FT_CHECK(req.err == FI_EKEYREJECTED || req.err == FI_EACCES, "%s: ended with %d (%s)",
		 op.what, req.err, fi_strerror(req.err));
	return ft_slot_check(&slot, 0, 0, op.what);
}

/* Keys that the core serves, of host memory or of what its NIC reaches, are its business;
 * some cores end the connection over it. */
static int refuse_all(struct side *side, int kind)
{
	struct ft_buf *shared = &side->shared[kind];
	const struct op whole = {.size = shared->size - 2 * GUARD_LEN};
	const struct ft_slot slot = place(shared, &whole);

	if (side->proc->rank == 1)
		FT_TRY(ft_slot_arm(&slot));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	for (size_t i = 0; side->proc->rank == 0 && i < FT_COUNT(wrongs); i++)
		FT_TRY(refuse(side, &wrongs[i], kind));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	return side->proc->rank == 1 ? ft_slot_check(&slot, 0, 0, "refused operations") : 0;
}

/* Memory that may only be read, and that is not registered any more */
static int refuse_access(struct side *side, int kind)
{
	const struct wrong writing = {"writing what may be read", 0, 0, 5000, false};
	const struct wrong gone = {"reading what is not shared any more", 0, 0, 5000, true};
	struct ft_buf *shared = &side->shared[kind];

	for (int round = 0; round < 2; round++) {
		if (side->proc->rank == 1 && round == 0) {
			FT_TRY(ft_buf_share(&side->ctx, shared, FI_REMOTE_READ));
			side->target[kind] = (struct target){shared->key, shared->base, 0};
			FT_TRY(ft_oob_send(side->proc->fd[0], &side->target[kind],
					   sizeof(side->target[kind])));
		} else if (side->proc->rank == 1) {
			FT_TRY(fi_close(&shared->mr->fid));
			shared->mr = NULL;
		} else if (round == 0) {
			FT_TRY(ft_oob_recv(side->proc->fd[1], &side->target[kind],
					   sizeof(side->target[kind]),
					   side->proc->opts.timeout));
		}
		FT_TRY(ft_barrier(side->proc, &side->ctx));
		if (side->proc->rank == 0)
			FT_TRY(refuse(side, round ? &gone : &writing, kind));
		FT_TRY(ft_barrier(side->proc, &side->ctx));
	}
	return 0;
}

/* ---- both kinds of keys ---- */

static int exchange(struct side *side, size_t kinds)
{
	const size_t len = sizeof(side->target);

	if (side->proc->rank == 0)
		return ft_oob_recv(side->proc->fd[1], side->target, len,
				   side->proc->opts.timeout);
	for (size_t i = 0; i < kinds; i++) {
		const struct ft_buf *shared = &side->shared[i];

		side->target[i] = (struct target){
			.key = shared->key,
			.base = shared->base,
			.nic = ft_path(side->ctx.ep, shared, shared->size) == FI_P2P_PATH_PEER,
		};
	}
	return ft_oob_send(side->proc->fd[0], side->target, len);
}

/* An allocation may have several regions; peers use the last. */
static int share_twice(struct side *side, int kind)
{
	const uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct ft_buf *shared = &side->shared[kind];

	FT_TRY(ft_buf_share(&side->ctx, shared, access));
	side->first[kind] = shared->mr;
	shared->mr = NULL;
	return ft_buf_share(&side->ctx, shared, access);
}

static int open_cntrs(struct ft_ctx *ctx)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct side *side = ctx->test;
	int ret;

	for (size_t i = 0; i < FT_COUNT(events); i++) {
		ret = fi_cntr_open(ctx->domain, &attr, &side->cntr[i], NULL);
		if (!ret)
			ret = fi_ep_bind(ctx->ep, &side->cntr[i]->fid, events[i]);
		if (ret)
			return ft_fail(ret, "fi_ep_bind", "counter of %s",
				       fi_tostr(&events[i], FI_TYPE_CAPS));
	}
	return 0;
}

static int close_all(struct side *side)
{
	int ret = 0;

	for (size_t i = 0; i < FT_COUNT(side->local); i++) {
		if (side->first[i])
			fi_close(&side->first[i]->fid);
		ft_buf_free(&side->local[i]);
		ft_buf_free(&side->shared[i]);
	}
	if (side->cntr[0]) {
		ret = fi_close(&side->ctx.ep->fid);
		side->ctx.ep = NULL;
	}
	for (size_t i = 0; !ret && side->cntr[0] && i < FT_COUNT(events); i++)
		ret = fi_close(&side->cntr[i]->fid);
	return ret ? ft_fail(ret, "fi_close", "endpoint and counters") : ft_close(&side->ctx);
}

/*
 * Through a hook, device memory can be read from and written to where the NIC reaches it;
 * else only at the initiator's end.
 */
static bool can_be_target(struct side *side, enum fi_hmem_iface iface)
{
	struct ft_buf buf;
	struct fid_mr *mr;
	int ret;

	if (!ft_hook_active() || iface == FI_HMEM_SYSTEM)
		return true;
	if (ft_buf_alloc(&side->ctx, &buf, iface, GUARD_LEN))
		return false;
	ret = fi_mr_reg(side->ctx.domain, buf.addr, buf.size, FI_REMOTE_READ, 0, 0, 0, &mr,
			NULL);
	if (!ret)
		fi_close(&mr->fid);
	ft_buf_free(&buf);
	return !ret;
}

/*
 * Over tcp;ofi_rxm who has the bytes leaves them in a slot for the other end to read: the initiator
 * what it writes, the owner what is read. Within a host that is so only with FI_P2P_PATH=stage.
 */
static int check_lent(struct side *side)
{
	const char *prov = side->ctx.info->fabric_attr->prov_name;
	const char *path = getenv("FI_P2P_PATH");
	struct fi_p2p_stats_ops *ops;
	struct fi_p2p_stats stats = {0};

	if (!ft_is_p2p(&side->ctx) || strncmp(prov, "tcp;ofi_rxm", 11) ||
	    side->proc->opts.iface == FI_HMEM_SYSTEM || !path || strcmp(path, "stage"))
		return 0;
	FT_CHECK(!fi_open_ops(&side->ctx.ep->fid, FI_P2P_STATS_OPS, 0, (void **) &ops, NULL),
		 "no path totals");
	FT_TRY(ops->read(&side->ctx.ep->fid, &stats, sizeof stats));
	FT_CHECK(stats.lent, "nothing was left in a slot for the peer to read");
	return 0;
}

static int with_keys(struct ft_proc *proc, bool chosen, bool counted)
{
	const size_t room = sizes[FT_COUNT(sizes) - 1] + 3 * GUARD_LEN;
	struct side side = {.proc = proc};
	enum fi_hmem_iface ifaces[2];
	const size_t kinds = ft_kinds(&proc->opts, ifaces);

	FT_TRY(ft_test_hints(proc, &side.ctx));
	side.ctx.hints->caps |= FI_RMA;
	side.ctx.mr_access = FI_READ | FI_WRITE;
	side.ctx.hints->tx_attr->inject_size = INJECT_SIZE;
	if (!ft_offered(&side.ctx))
		side.ctx.hints->tx_attr->inject_size = 0;
	/* not asked for by default: a core may need it */
	if (!chosen)
		side.ctx.hints->domain_attr->mr_mode &= ~FI_MR_PROV_KEY;
	if (counted) {
		side.ctx.hints->caps |= FI_RMA_EVENT;
		side.ctx.prepare = open_cntrs;
		side.ctx.test = &side;
		if (!ft_has_events(&side.ctx)) {
			fi_freeinfo(side.ctx.hints);
			return 0;
		}
	}
	if (ft_connected(&side.ctx) && !ft_offered(&side.ctx)) {
		ft_close(&side.ctx);
		return proc->rank ? FT_SKIP
				  : ft_skip("no remote memory over connections here%s",
					    kinds > 1 ? ", at least for device memory" : "");
	}
	FT_TRY(ft_test_open(proc, &side.ctx));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	for (size_t i = 0; i < kinds; i++) {
		FT_TRY(ft_buf_alloc(&side.ctx, &side.local[i], ifaces[i], room));
		FT_TRY(ft_buf_alloc(&side.ctx, &side.shared[i],
				    can_be_target(&side, ifaces[i]) ? ifaces[i]
								    : FI_HMEM_SYSTEM,
				    room));
		FT_TRY(share_twice(&side, (int) i));
	}
	FT_TRY(exchange(&side, kinds));
	FT_TRY(all(&side, kinds));
	FT_TRY(check_lent(&side));
	for (size_t i = 0; !counted && i < kinds; i++)
		FT_TRY(injected(&side, (int) i));
	for (size_t i = 0; !counted && i < kinds; i++) {
		if (!ft_is_p2p(&side.ctx) || !(side.ctx.info->caps & FI_HMEM) ||
		    side.target[i].nic ||
		    (chosen && side.shared[i].ops->iface == FI_HMEM_SYSTEM))
			continue;
		FT_TRY(refuse_all(&side, (int) i));
		FT_TRY(refuse_access(&side, (int) i));
	}
	return close_all(&side);
}

static int run(struct ft_proc *proc)
{
	/* a NIC chooses its keys: verbs is not there for who does not let it */
	const bool nic = ft_over_verbs(&proc->opts);

	for (int i = 0; i < 4; i++) {
		if (!(nic && i & 1))
			FT_TRY(with_keys(proc, !(i & 1), i & 2));
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Every call of fi_rma(3), memory kind, size, and what must fail.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
