/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_badinput: buffers that cannot be right are refused with an error code when they
 * are posted: nothing is sent, nothing crashes, and the next good message works.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "ft_test.h"

#define SIZE 65536
#define STRADDLE 4096
#define GOOD_TAG 7
#define BAD_TAG 8

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf host, device;
	char *freed, *freed_unseen;
	bool have_device;
};

/**
 * struct bad_case - one wrong operation
 * @device:	needs device memory
 * @spoil:	makes it out of a good send or receive of host memory
 */
struct bad_case {
	const char *name;
	bool device;
	void (*spoil)(const struct side *s, struct ft_op *op);
};

/* cuMemAlloc gives whole pages at least: far beyond them nothing of ours is mapped. */
static void past_end(const struct side *s, struct ft_op *op)
{
	op->iov[0] = (struct iovec){s->device.addr + SIZE - 16, (size_t) 1 << 40};
	op->desc[0] = s->device.desc;
}

static void outside(const struct side *s, struct ft_op *op)
{
	op->iov[0] = (struct iovec){s->device.addr, SIZE_MAX - (uintptr_t) s->device.addr};
	op->desc[0] = s->device.desc;
}

/* One buffer that begins in the host's page below a device allocation */
static void straddle(const struct side *s, struct ft_op *op)
{
	op->iov[0] = (struct iovec){s->device.addr - STRADDLE, 2 * STRADDLE};
	op->desc[0] = NULL;
}

static void straddle_large(const struct side *s, struct ft_op *op)
{
	op->iov[0] = (struct iovec){s->device.addr - STRADDLE, STRADDLE + SIZE};
	op->desc[0] = NULL;
}

/* Device memory that was used for a message, and some that was not, and freed */
static void freed(const struct side *s, struct ft_op *op)
{
	op->iov[0] = (struct iovec){s->freed, 4096};
	op->desc[0] = NULL;
}

static void freed_unseen(const struct side *s, struct ft_op *op)
{
	op->iov[0] = (struct iovec){s->freed_unseen, 4096};
	op->desc[0] = NULL;
}

static void no_address(const struct side *s, struct ft_op *op)
{
	op->iov[0] = (struct iovec){NULL, 4096};
	op->desc[0] = NULL;
}

static void no_address_second(const struct side *s, struct ft_op *op)
{
	op->iov[1] = (struct iovec){NULL, 1};
	op->desc[1] = NULL;
	op->count = 2;
}

static void too_many_pieces(const struct side *s, struct ft_op *op)
{
	const size_t limit =
		FT_MAX(s->ctx.info->tx_attr->iov_limit, s->ctx.info->rx_attr->iov_limit);

	/* The provider has to look at the count before it looks at the pieces. */
	op->count = limit + 1;
}

static const struct bad_case cases[] = {
	{"a length beyond the end of a device allocation", true, past_end},
	{"a length that wraps around the address space", true, outside},
	{"a buffer that runs from host into device memory", true, straddle},
	{"a buffer that runs from host over all the device memory", true, straddle_large},
	{"device memory that has been freed", true, freed},
	{"freed device memory that was never used", true, freed_unseen},
	{"no address", false, no_address},
	{"no address for the second piece", false, no_address_second},
	{"more pieces than iov_limit", false, too_many_pieces},
};

static struct ft_op base_op(const struct side *s, enum ft_call call, struct ft_req *req)
{
	struct ft_op op = {
		.call = call,
		.tagged = true,
		.addr = s->ctx.peer[!s->proc->rank],
		.tag = BAD_TAG,
		.req = req,
	};

	ft_op_buf(&op, &s->host, 0, 4096);
	return op;
}

/* Posts all variants of one wrong operation; each must be refused on the spot. */
static int refused(struct side *s, const struct bad_case *bad)
{
	static const struct {
		enum ft_call call;
		const char *name;
	} calls[] = {
		{FT_SENDV, "fi_tsendv"},
		{FT_SENDMSG, "fi_tsendmsg"},
		{FT_RECVV, "fi_trecvv"},
		{FT_RECVMSG, "fi_trecvmsg"},
	};

	for (size_t i = 0; i < FT_COUNT(calls); i++) {
		static struct ft_req req; /* a provider that takes it may complete it */
		struct ft_op op = base_op(s, calls[i].call, &req);
		ssize_t ret;

		bad->spoil(s, &op);
		ret = ft_post_once(&s->ctx, &op);
		FT_CHECK(ret == -FI_EINVAL || ret == -FI_EFAULT || ret == -FI_EMSGSIZE ||
				 ret == -FI_ENOSYS || ret == -FI_EOPNOTSUPP,
			 "%s with %s returned %zd (%s), not -FI_EINVAL or -FI_EFAULT",
			 calls[i].name, bad->name, ret,
			 ret ? fi_strerror((int) -ret) : "taken");
	}
	return 0;
}

static int good_message(struct side *s, const struct ft_buf *buf, uint64_t key)
{
	const struct ft_slot slot = {buf, 0, 30000 + FT_ROOM, 64, 30000};
	const bool send = s->proc->rank == 0;
	struct ft_req req = {0};
	struct ft_op op = base_op(s, send ? FT_SEND : FT_RECV, &req);

	op.tag = GOOD_TAG;
	op.ignore = send ? 0 : ~0ULL >> 2; /* anything that was sent by mistake matches */
	ft_op_buf(&op, buf, slot.off, slot.len);
	FT_TRY(send ? ft_slot_fill(&slot, key) : ft_slot_arm(&slot));
	FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_wait(&s->ctx, &req, 1));
	if (send)
		return 0;
	FT_CHECK(req.comp.tag == GOOD_TAG, "a message arrived that was refused to its sender");
	return ft_slot_check(&slot, slot.len, key, "the message after a refused one");
}

/* Arguments that fi_open_ops, fi_getname and the like may not take; no fabric involved.
 */
static int null_arguments(struct side *s)
{
	size_t len = 0;
	int ret;

	ret = fi_getname(&s->ctx.ep->fid, NULL, &len);
	FT_CHECK(ret == -FI_ETOOSMALL, "fi_getname without room returned %d (%s)", ret,
		 fi_strerror(-ret));
	FT_CHECK(len > 0, "fi_getname without room does not say how much it needs");
	ret = fi_cq_read(s->ctx.cq, NULL, 0) == -FI_EAVAIL;
	FT_CHECK(!ret, "fi_cq_read of no entries reports an error that nobody made");
	return 0;
}

/* All at once, so that none takes the place of another */
static int make_freed(struct side *s)
{
	struct ft_buf seen, unseen;

	FT_TRY(ft_buf_alloc(&s->ctx, &seen, s->proc->opts.iface, SIZE));
	FT_TRY(ft_buf_alloc(&s->ctx, &unseen, s->proc->opts.iface, SIZE));
	FT_TRY(good_message(s, &seen, 0));
	s->freed = seen.addr;
	s->freed_unseen = unseen.addr;
	ft_buf_free(&seen);
	ft_buf_free(&unseen);
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc, .have_device = proc->opts.iface != FI_HMEM_SYSTEM};

	FT_TRY(ft_test_hints(proc, &s.ctx));
	FT_TRY(ft_getinfo(&s.ctx, NULL, NULL, 0));
	if (!ft_is_p2p(&s.ctx)) {
		FT_TRY(ft_close(&s.ctx));
		return ft_skip(
			"needs ofi_p2p: core providers do not check what they are given");
	}
	FT_TRY(ft_open(&s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.host, FI_HMEM_SYSTEM, SIZE));
	if (s.have_device)
		FT_TRY(ft_buf_alloc(&s.ctx, &s.device, proc->opts.iface, SIZE));
	if (s.have_device) {
		void *below = s.device.addr - STRADDLE;

		/* if something is there already, that is host memory as well */
		mmap(below, STRADDLE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	}
	FT_TRY(null_arguments(&s));
	if (s.have_device)
		FT_TRY(make_freed(&s));
	for (size_t i = 0; i < FT_COUNT(cases); i++) {
		if (cases[i].device && !s.have_device)
			continue;
		FT_TRY(refused(&s, &cases[i]));
		FT_TRY(good_message(&s, &s.host, i));
		if (s.have_device)
			FT_TRY(good_message(&s, &s.device, i));
	}
	FT_TRY(ft_barrier(proc, &s.ctx));
	ft_buf_free(&s.host);
	if (s.have_device)
		ft_buf_free(&s.device);
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Wrong buffers are refused and do no harm.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
