/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_av: an endpoint receives from peers that it has not inserted; inserting them
 * later gives FI_AV_TABLE's indices 0, 1, 2 all the same; lookup and removal; the same
 * with FI_AV_MAP. And both again with a vector that has been in use: a peer was inserted
 * twice, an address was removed and another took its place, and one left a hole, which is
 * nobody's source, and nothing can be sent to. A peer may be removed while a message of its
 * is on its way. Receives may have any address without FI_DIRECTED_RECV.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_rma.h>

#include "ft_test.h"

#define RANKS 3
#define TO_RECEIVER 0x100 /* tags: plus the sender's rank */
#define TO_SENDER 0x200
#define AFTER_REMOVE 0x300
#define NO_SOURCE 0x400
#define LEAVING 0x500
#define REFUSED 0x600
#define UNDIRECTED 0x700
#define FAR_OUT 100000 /* an index that nothing was inserted for */
#define READS 1000
#define REUSES 100
#define SETTLE_US 200e3

static const size_t sizes[] = {8, 5000, 100001, 2097155};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf buf[2];
	size_t kind_count;
	struct ft_name names[RANKS];
};

static int transfer_by(struct side *s, enum ft_call call, int kind, size_t size, fi_addr_t addr,
		       uint64_t tag, uint64_t key)
{
	const bool send = call < FT_RECV;
	const struct ft_slot slot = {&s->buf[kind], 0, size + FT_ROOM, 64, size};
	struct ft_req req = {0};
	struct ft_op op = {
		.call = call,
		.tagged = true,
		.addr = addr,
		.tag = tag,
		.req = &req,
	};

	FT_TRY(send ? ft_slot_fill(&slot, key) : ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_wait(&s->ctx, &req, 1));
	if (send)
		return 0;
	FT_CHECK(req.comp.len == size, "tag %#" PRIx64 ": %zu bytes of %zu", tag, req.comp.len,
		 size);
	return ft_slot_check(&slot, size, key, "message");
}

static int transfer(struct side *s, int kind, size_t size, fi_addr_t addr, uint64_t tag,
		    bool send, uint64_t key)
{
	return transfer_by(s, send ? FT_SEND : FT_RECV, kind, size, addr, tag, key);
}

/* All sizes, from and to each kind of memory. */
static int transfer_all(struct side *s, fi_addr_t addr, uint64_t tag, bool send)
{
	for (size_t i = 0; i < FT_COUNT(sizes); i++)
		for (size_t k = 0; k < s->kind_count; k++) {
			int ret =
				transfer(s, (int) k, sizes[i], addr, tag, send, (tag << 8) + i);

			if (ret) {
				ft_err("%s of %zu bytes, tag %#" PRIx64,
				       send ? "send" : "receive", sizes[i], tag);
				return ret;
			}
		}
	return 0;
}

static int exchange_names(struct side *s)
{
	struct ft_proc *proc = s->proc;
	struct ft_name *mine = &s->names[proc->rank];

	FT_TRY(ft_getname(&s->ctx, mine));
	for (int i = 0; i < RANKS; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_send(proc->fd[i], mine, sizeof(*mine)));
	for (int i = 0; i < RANKS; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_recv(proc->fd[i], &s->names[i], sizeof(s->names[i]),
					   proc->opts.timeout));
	return 0;
}

static int check_lookup(struct side *s, int rank, fi_addr_t addr)
{
	struct ft_name found = {0};
	size_t len = sizeof(found.bytes);
	int ret = fi_av_lookup(s->ctx.av, addr, found.bytes, &len);

	if (ret)
		return ft_fail(ret, "fi_av_lookup", "rank %d", rank);
	/* shm has another form of names in its AV, in libfabric 2.6 at least. */
	if (!strncmp(s->ctx.info->fabric_attr->prov_name, "shm", 3))
		return 0;
	FT_CHECK(len == s->names[rank].len && !memcmp(found.bytes, s->names[rank].bytes, len),
		 "fi_av_lookup: rank %d's name came back changed (%zu bytes, was %" PRIu64 ")",
		 rank, len, s->names[rank].len);
	return 0;
}

static int insert(struct side *s, int rank, bool table, fi_addr_t expected)
{
	FT_TRY(ft_av_insert(&s->ctx, s->names[rank].bytes, &s->ctx.peer[rank]));
	FT_CHECK(!table || s->ctx.peer[rank] == expected,
		 "fi_av_insert: rank %d got index %" PRIu64 " instead of %" PRIu64, rank,
		 s->ctx.peer[rank], expected);
	return check_lookup(s, rank, s->ctx.peer[rank]);
}

static int forget(struct side *s, int rank)
{
	int ret = fi_av_remove(s->ctx.av, &s->ctx.peer[rank], 1, 0);

	return ret ? ft_fail(ret, "fi_av_remove", "rank %d", rank) : 0;
}

/* An index that was removed is the lowest one that is free (fi_av(3)). */
static int reused(struct side *s, int rank)
{
	const fi_addr_t index = s->ctx.peer[rank];

	for (int i = 0; i < REUSES; i++) {
		FT_TRY(insert(s, rank, true, index));
		FT_TRY(forget(s, rank));
	}
	return 0;
}

static int use(struct side *s)
{
	FT_TRY(insert(s, 0, false, 0));
	FT_TRY(forget(s, 0));
	FT_TRY(insert(s, 1, false, 0));
	FT_TRY(insert(s, 1, false, 0));
	FT_TRY(insert(s, 0, false, 0));
	return forget(s, 0);
}

/* Rank 2, which is not inserted, sends, and nobody has asked for sources. */
static int no_source(struct side *s)
{
	const struct ft_slot slot = {&s->buf[0], 0, sizes[0] + FT_ROOM, 64, sizes[0]};
	struct fi_cq_tagged_entry entry;
	struct ft_req req = {0};
	struct ft_op op = {
		.call = FT_RECV,
		.tagged = true,
		.addr = FI_ADDR_UNSPEC,
		.tag = NO_SOURCE,
		.req = &req,
	};
	fi_addr_t src = 0;
	ssize_t ret;

	FT_TRY(ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	FT_TRY(ft_post(&s->ctx, &op));
	while ((ret = fi_cq_readfrom(s->ctx.cq, &entry, 1, &src)) == -FI_EAGAIN)
		FT_TRY(ft_idle(&s->ctx));
	FT_CHECK(ret == 1 && entry.op_context == &req, "fi_cq_readfrom gives %zd", ret);
	FT_CHECK(s->ctx.info->caps & FI_SOURCE || src == FI_ADDR_NOTAVAIL,
		 "a message comes from %#" PRIx64 ", without FI_SOURCE", src);
	return ft_slot_check(&slot, sizes[0], NO_SOURCE, "message");
}

/* Without a GPU messages go to the core as they are. Is it this one that carries them? */
static bool carried_by(const struct side *s, const char *core)
{
	const char *prov = s->ctx.info->fabric_attr->prov_name;
	const size_t len = strlen(core);

	return s->kind_count == 1 && !strncmp(prov, core, len) &&
	       (!prov[len] || !strcmp(prov + len, ";ofi_p2p"));
}

/* shm crashes at the answer of a peer that was removed: in 1.17 at any, later unless the peer copies by itself. */
static bool misses_peers(const struct side *s)
{
	return carried_by(s, "shm");
}

/* net, and at first tcp that came of it, read nothing of a peer behind a long message that has no receive. */
static bool stalls(const struct side *s)
{
	return FI_VERSION_LT(fi_version(), FI_VERSION(1, 19)) &&
	       (carried_by(s, "net") || carried_by(s, "tcp"));
}

/* Has it had to learn its peers? Over net and tcp they are answered by an endpoint of its own. */
static bool has_learned(const struct side *s)
{
	const char *prov = s->ctx.info->fabric_attr->prov_name;

	return ft_is_p2p(&s->ctx) && s->kind_count == 2 &&
	       (!strncmp(prov, "shm", 3) || strstr(prov, "ofi_rxm"));
}

/* From then on it is ofi_p2p that knows the indices, and refuses those of nobody. */
static int refused(struct side *s, fi_addr_t nobody)
{
	struct fid_ep *ep = s->ctx.ep;
	struct ft_req req = {0};
	struct ft_op op = {.addr = nobody, .tag = REFUSED, .req = &req};
	ssize_t ret;

	for (size_t i = 0; i < s->kind_count * FT_COUNT(sizes); i++) {
		const struct ft_buf *buf = &s->buf[i / FT_COUNT(sizes)];
		const size_t len = sizes[i % FT_COUNT(sizes)];
		const bool injected = len <= s->ctx.info->tx_attr->inject_size;

		ft_op_buf(&op, buf, 0, len);
		for (int call = FT_SEND; call <= FT_RECVMSG; call++) {
			if (!injected && (call == FT_INJECT || call == FT_INJECTDATA))
				continue;
			op.call = (enum ft_call) call;
			for (op.tagged = false;; op.tagged = true) {
				ret = ft_post_once(&s->ctx, &op);
				FT_CHECK(ret == -FI_EINVAL, "call %d, %zu bytes, nobody: %zd",
					 call, len, ret);
				if (op.tagged)
					break;
			}
		}
		if (!(s->ctx.info->caps & FI_RMA))
			continue;
		ret = fi_read(ep, buf->addr, len, buf->desc, nobody, 0, 1, &req);
		FT_CHECK(ret == -FI_EINVAL, "fi_read, %zu bytes, nobody: %zd", len, ret);
		ret = fi_write(ep, buf->addr, len, buf->desc, nobody, 0, 1, &req);
		FT_CHECK(ret == -FI_EINVAL, "fi_write, %zu bytes, nobody: %zd", len, ret);
		ret = injected ? fi_inject_write(ep, buf->addr, len, nobody, 0, 1) : -FI_EINVAL;
		FT_CHECK(ret == -FI_EINVAL, "fi_inject_write, %zu bytes, nobody: %zd", len,
			 ret);
	}
	return 0;
}

/* Rank 0. It does not know all until the others' messages are in. */
static int receiver(struct side *s, bool table, bool used)
{
	if (used)
		FT_TRY(use(s));
	for (int i = 1; i < RANKS; i++)
		FT_TRY(transfer_all(s, FI_ADDR_UNSPEC, TO_RECEIVER + (uint64_t) i, false));
	if (used)
		FT_TRY(no_source(s));
	FT_TRY(insert(s, 2, table && !used, 0));
	if (!used)
		FT_TRY(insert(s, 1, table, 1));
	for (int i = 1; i < RANKS; i++)
		FT_TRY(transfer_all(s, s->ctx.peer[i], TO_SENDER + (uint64_t) i, true));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(forget(s, 2));
	if (table && has_learned(s)) {
		FT_TRY(reused(s, 2));
		FT_TRY(refused(s, s->ctx.peer[2]));
		FT_TRY(refused(s, FAR_OUT));
	}
	FT_TRY(transfer_all(s, s->ctx.peer[1], AFTER_REMOVE, true));
	return check_lookup(s, 1, s->ctx.peer[1]);
}

static int sender(struct side *s, bool table, bool used)
{
	const uint64_t rank = (uint64_t) s->proc->rank;

	FT_TRY(insert(s, 0, table, 0));
	FT_TRY(transfer_all(s, s->ctx.peer[0], TO_RECEIVER + rank, true));
	if (used && rank == 2)
		FT_TRY(transfer(s, 0, sizes[0], s->ctx.peer[0], NO_SOURCE, true, NO_SOURCE));
	FT_TRY(transfer_all(s, FI_ADDR_UNSPEC, TO_SENDER + rank, false));
	FT_TRY(insert(s, s->proc->rank == 1 ? 2 : 1, table, 1));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	if (rank == 1)
		FT_TRY(transfer_all(s, s->ctx.peer[0], AFTER_REMOVE, false));
	return 0;
}

static int side_open_as(struct side *s, enum fi_av_type type, uint64_t caps)
{
	const size_t room = sizes[FT_COUNT(sizes) - 1] + FT_ROOM;
	enum fi_hmem_iface kinds[2];

	s->kind_count = ft_kinds(&s->proc->opts, kinds);
	FT_TRY(ft_test_hints(s->proc, &s->ctx));
	s->ctx.hints->domain_attr->av_type = type;
	s->ctx.av_type = type;
	s->ctx.hints->caps = (s->ctx.hints->caps & caps) | FI_RMA;
	if (!ft_offered(&s->ctx))
		s->ctx.hints->caps &= ~FI_RMA;
	FT_TRY(ft_test_open(s->proc, &s->ctx));
	for (size_t i = 0; i < s->kind_count; i++)
		FT_TRY(ft_buf_alloc(&s->ctx, &s->buf[i], kinds[i], room));
	return exchange_names(s);
}

static int side_open(struct side *s, enum fi_av_type type)
{
	return side_open_as(s, type, ~0ULL);
}

static int side_close(struct side *s)
{
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	/* what was lost may still come, and its buffer be written to */
	FT_TRY(fi_close(&s->ctx.ep->fid));
	s->ctx.ep = NULL;
	for (size_t i = 0; i < s->kind_count; i++)
		ft_buf_free(&s->buf[i]);
	return ft_close(&s->ctx);
}

static int with_type(struct ft_proc *proc, enum fi_av_type type, bool used)
{
	struct side s = {.proc = proc};

	FT_TRY(side_open(&s, type));
	FT_TRY(proc->rank == 0 ? receiver(&s, type == FI_AV_TABLE, used)
			       : sender(&s, type == FI_AV_TABLE, used));
	return side_close(&s);
}

/*
 * Rank 0 removes rank 1 between the beginning and the end of a long message. It may come whole
 * or not at all.
 */
static int removed_early(struct ft_proc *proc)
{
	const size_t size = sizes[FT_COUNT(sizes) - 1];
	const bool send = proc->rank == 1;
	struct side s = {.proc = proc};
	struct ft_req req = {0};
	struct ft_op op = {.call = send ? FT_SEND : FT_RECV, .tagged = true, .tag = LEAVING};
	struct ft_slot slot;

	FT_TRY(side_open(&s, FI_AV_TABLE));
	slot = (struct ft_slot){&s.buf[s.kind_count - 1], 0, size + FT_ROOM, 64, size};
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	op.req = &req;
	if (proc->rank == 2)
		return side_close(&s);
	FT_TRY(insert(&s, !proc->rank, true, 0));
	FT_TRY(transfer(&s, 0, 8, send ? s.ctx.peer[0] : FI_ADDR_UNSPEC, 0, send, 0));
	op.addr = send ? s.ctx.peer[0] : FI_ADDR_UNSPEC;
	FT_TRY(send ? ft_slot_fill(&slot, LEAVING) : ft_slot_arm(&slot));
	FT_TRY(send ? 0 : ft_post(&s.ctx, &op));
	FT_TRY(ft_meet(proc));
	FT_TRY(send ? ft_post(&s.ctx, &op) : 0);
	FT_TRY(ft_meet(proc));
	for (int i = 0; !send && i < READS; i++)
		if (ft_progress(&s.ctx) < 0)
			return -FI_EOTHER;
	FT_TRY(send ? 0 : forget(&s, 1));
	FT_TRY(ft_meet(proc));
	FT_TRY(ft_progress_for(&s.ctx, SETTLE_US));
	if (!send && req.done && !req.err)
		FT_TRY(ft_slot_check(&slot, size, LEAVING, "the message of who was removed"));
	return side_close(&s);
}

/* Rank 1 removes rank 0 while its message waits to be sent. It is sent all the same. */
static int removed_while_sending(struct ft_proc *proc)
{
	const size_t size = sizes[FT_COUNT(sizes) - 1];
	const bool send = proc->rank == 1;
	struct side s = {.proc = proc};
	struct ft_req req = {0};
	struct ft_op op = {.call = send ? FT_SEND : FT_RECV, .tagged = true, .tag = LEAVING};
	struct ft_slot slot;

	FT_TRY(side_open(&s, FI_AV_TABLE));
	if (proc->rank == 2 || misses_peers(&s))
		return side_close(&s);
	slot = (struct ft_slot){&s.buf[s.kind_count - 1], 0, size + FT_ROOM, 64, size};
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	op.req = &req;
	FT_TRY(insert(&s, !proc->rank, true, 0));
	FT_TRY(transfer(&s, 0, 8, send ? s.ctx.peer[0] : FI_ADDR_UNSPEC, 0, send, 0));
	op.addr = send ? s.ctx.peer[0] : FI_ADDR_UNSPEC;
	FT_TRY(send ? ft_slot_fill(&slot, LEAVING) : ft_slot_arm(&slot));
	FT_TRY(send ? 0 : ft_post(&s.ctx, &op));
	FT_TRY(ft_meet(proc));
	FT_TRY(send ? ft_post(&s.ctx, &op) : 0);
	FT_TRY(send ? forget(&s, 0) : 0);
	FT_TRY(ft_wait(&s.ctx, &req, 1));
	if (!send)
		FT_TRY(ft_slot_check(&slot, size, LEAVING, "a message to who was removed"));
	return side_close(&s);
}

/* Rank 0 removes rank 1, whose message has come and has no receive yet. */
static int removed_unmet(struct side *s)
{
	const size_t size = sizes[FT_COUNT(sizes) - 1];
	const bool send = s->proc->rank == 1;
	const struct ft_slot slot = {&s->buf[s->kind_count - 1], 0, size + FT_ROOM, 64, size};
	struct ft_req req = {0};
	struct ft_op op = {
		.call = send ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = send ? s->ctx.peer[0] : FI_ADDR_UNSPEC,
		.tag = LEAVING + 1,
		.req = &req,
	};

	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	FT_TRY(send ? ft_slot_fill(&slot, LEAVING) : ft_slot_arm(&slot));
	FT_TRY(send ? ft_post(&s->ctx, &op) : 0);
	/* what comes after it has come: so has it */
	FT_TRY(transfer(s, 0, 8, op.addr, LEAVING, send, 0));
	for (int i = 0; !send && i < READS; i++)
		if (ft_progress(&s->ctx) < 0)
			return -FI_EOTHER;
	FT_TRY(send ? 0 : forget(s, 1));
	FT_TRY(send ? 0 : ft_post(&s->ctx, &op));
	FT_TRY(ft_wait(&s->ctx, &req, 1));
	return send ? 0 : ft_slot_check(&slot, size, LEAVING, "a message of who was removed");
}

/* What happens in another vector of the domain, where the same addresses are others', is nobody's business here. */
static int remove_elsewhere(struct side *s)
{
	struct fid_av *const av = s->ctx.av;
	const fi_addr_t peer = s->ctx.peer[1];
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	int ret = fi_av_open(s->ctx.domain, &attr, &s->ctx.av, NULL);

	if (ret)
		return ft_fail(ret, "fi_av_open", "a second one");
	FT_TRY(insert(s, 2, true, 0));
	FT_TRY(forget(s, 2));
	ret = fi_close(&s->ctx.av->fid);
	s->ctx.av = av;
	s->ctx.peer[1] = peer;
	return ret ? ft_fail(ret, "fi_close", "a second address vector") : 0;
}

/* Rank 0 removes rank 1, which knows nothing of that, and sends again; and once more when it is inserted again. */
static int removed_and_heard(struct ft_proc *proc)
{
	const bool send = proc->rank == 1;
	struct side s = {.proc = proc};

	FT_TRY(side_open(&s, FI_AV_TABLE));
	/* shm does not survive that */
	if (proc->rank == 2 || !strncmp(s.ctx.info->fabric_attr->prov_name, "shm", 3))
		return side_close(&s);
	FT_TRY(insert(&s, !proc->rank, true, 0));
	for (int i = 0; i < 4; i++) {
		FT_TRY(transfer_all(&s, send ? s.ctx.peer[0] : FI_ADDR_UNSPEC, LEAVING, send));
		FT_TRY(ft_meet(proc));
		FT_TRY(!send && i == 0 ? remove_elsewhere(&s) : 0);
		FT_TRY(!send && i == 1 ? forget(&s, 1) : 0);
		FT_TRY(!send && i == 2 ? insert(&s, 1, false, 0) : 0);
		FT_TRY(ft_meet(proc));
	}
	FT_TRY(transfer_all(&s, s.ctx.peer[send ? 0 : 1], LEAVING, !send));
	if (ft_is_p2p(&s.ctx) && s.kind_count == 2)
		FT_TRY(removed_unmet(&s));
	return side_close(&s);
}

static int removed_and_inserted(struct side *s, int rank)
{
	FT_TRY(forget(s, rank));
	return insert(s, rank, false, 0);
}

/*
 * Rank 1 removes rank 0 while a long message waits for its receive, and inserts it again; @both: so does rank 0, which
 * has heard of the message. What is sent after it comes first: by then they have greeted each other anew.
 */
static int removed_between(struct ft_proc *proc, bool both)
{
	const size_t size = 1000001, base = 1 << 20;
	const bool send = proc->rank == 1;
	struct side s = {.proc = proc};
	struct ft_req req = {0};
	struct ft_op op = {.call = send ? FT_SEND : FT_RECV,
			   .tagged = true,
			   .tag = LEAVING + 1};
	struct ft_slot slot;

	FT_TRY(side_open(&s, FI_AV_TABLE));
	if (proc->rank == 2 || !ft_is_p2p(&s.ctx) || misses_peers(&s) || stalls(&s))
		return side_close(&s);
	FT_TRY(insert(&s, !proc->rank, true, 0));
	slot = (struct ft_slot){&s.buf[s.kind_count - 1], base, size + FT_ROOM, base + 64,
				size};
	FT_TRY(send ? ft_slot_fill(&slot, LEAVING) : ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	op.req = &req;
	op.addr = send ? s.ctx.peer[0] : FI_ADDR_UNSPEC;
	FT_TRY(send ? ft_post(&s.ctx, &op) : 0);
	FT_TRY(transfer(&s, 0, 8, op.addr, LEAVING, send, 0));
	FT_TRY(send || both ? removed_and_inserted(&s, !proc->rank) : 0);
	op.addr = s.ctx.peer[!proc->rank];
	FT_TRY(transfer(&s, (int) s.kind_count - 1, sizes[2], op.addr, LEAVING, send, 0));
	FT_TRY(send ? 0 : ft_post(&s.ctx, &op));
	FT_TRY(ft_wait(&s.ctx, &req, 1));
	if (!send)
		FT_TRY(ft_slot_check(&slot, size, LEAVING, "a message of before"));
	return side_close(&s);
}

/* A peek for a message from @addr, which nobody has sent */
static int peek_nothing(struct side *s, fi_addr_t addr)
{
	struct ft_req req = {0};
	const struct ft_op op = {
		.call = FT_RECVMSG,
		.tagged = true,
		.addr = addr,
		.tag = REFUSED,
		.flags = FI_PEEK,
		.req = &req,
	};

	/* shm has no FI_PEEK before */
	if (!strncmp(s->ctx.info->fabric_attr->prov_name, "shm", 3) &&
	    FI_VERSION_LT(fi_version(), FI_VERSION(1, 19)))
		return 0;
	FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_wait_any_result(&s->ctx, &req, 1));
	FT_CHECK(abs(req.err) == FI_ENOMSG, "a peek for nothing ended with %s",
		 fi_strerror(abs(req.err)));
	return 0;
}

/* Rank 0 learns of rank 1 by a long message, which needs an answer; the short one before it has no receive yet. */
static int learned_unmet(struct side *s, bool send)
{
	const fi_addr_t addr = send ? s->ctx.peer[0] : FI_ADDR_UNSPEC;

	for (int i = 0; i < 2; i++) {
		const bool unmet = i == !send;

		FT_TRY(transfer(s, unmet ? 0 : (int) s->kind_count - 1, sizes[unmet ? 0 : 2],
				addr, UNDIRECTED + 1 + unmet, send, unmet));
	}
	return 0;
}

/*
 * Without FI_DIRECTED_RECV a receive may have any address: rank 0 has inserted nobody, and has learned of rank 1.
 */
static int undirected(struct ft_proc *proc)
{
	static const fi_addr_t addrs[] = {0, FAR_OUT};
	const bool send = proc->rank == 1;
	struct side s = {.proc = proc};

	FT_TRY(side_open_as(&s, FI_AV_TABLE, ~FI_DIRECTED_RECV));
	if (proc->rank == 2 || s.ctx.info->caps & FI_DIRECTED_RECV)
		return side_close(&s);
	FT_TRY(send ? insert(&s, 0, true, 0) : 0);
	/* only there do processes greet */
	FT_TRY(ft_is_p2p(&s.ctx) ? learned_unmet(&s, send) : 0);
	FT_TRY(transfer_all(&s, send ? s.ctx.peer[0] : FI_ADDR_UNSPEC, UNDIRECTED, send));
	for (size_t i = 0; i < FT_COUNT(addrs) * FT_COUNT(sizes) * s.kind_count; i++) {
		const int kind = (int) (i % s.kind_count);
		const size_t size = sizes[i / s.kind_count % FT_COUNT(sizes)];
		const fi_addr_t addr =
			send ? s.ctx.peer[0] : addrs[i / s.kind_count / FT_COUNT(sizes)];

		for (int call = FT_RECV; call <= FT_RECVMSG; call++)
			FT_TRY(transfer_by(&s, send ? FT_SEND : (enum ft_call) call, kind, size,
					   addr, UNDIRECTED, i));
		FT_TRY(send || i % FT_COUNT(sizes) ? 0 : peek_nothing(&s, addr));
	}
	return side_close(&s);
}

static int run(struct ft_proc *proc)
{
	FT_TRY(undirected(proc));
	FT_TRY(removed_while_sending(proc));
	FT_TRY(removed_and_heard(proc));
	FT_TRY(removed_between(proc, false));
	FT_TRY(removed_between(proc, true));
	/* the rest is about peers that ofi_p2p has learned of */
	if (ft_hook_active())
		return 0;
	for (int used = 0; used < 2; used++) {
		FT_TRY(with_type(proc, FI_AV_TABLE, used));
		FT_TRY(with_type(proc, FI_AV_MAP, used));
	}
	return removed_early(proc);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Address vectors: peers learned from the wire, indices, removal.",
		.ranks = RANKS,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
