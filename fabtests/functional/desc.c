/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_desc: descriptors. Registered device memory has one, and whatever descriptor comes with
 * a buffer, its own, another region's or none, the message is of the buffer that the address
 * says. fi_p2p_calls counts what its own spares; fi_p2p_rma does the same for remote memory.
 */
#include <inttypes.h>
#include <string.h>

#include "cudamem.h"
#include "ft_test.h"

#define LARGEST ((size_t) 100000)
#define MR_KEY 77
#define DATA 0xfedcba9876543210ULL /* all 64 bits count, or else the lowest */

static const size_t sizes[] = {0, 8, 4096, 70000, LARGEST};

/* Whose descriptor comes with a buffer */
enum whose {
	OWN,
	NONE,
	ANOTHERS, /* of device memory that it does not lie in */
	HOSTS,    /* of host memory, though it lies in a device's */
	WHOSE
};

static const char *const whose_names[WHOSE] = {"its own", "no", "another region's",
					       "host memory's"};

struct side {
	struct ft_pair pair;
	struct ft_buf other; /* device memory */
	uint64_t tag;
};

/* Of what the sender gives, as much as the provider carries */
static uint64_t data_of(const struct side *s)
{
	const size_t size = s->pair.ctx.info->domain_attr->cq_data_size;

	return size < sizeof(DATA) ? DATA & ((1ULL << 8 * size) - 1) : DATA;
}

static void describe(const struct side *s, struct ft_op *op, enum whose whose)
{
	if (whose == NONE)
		op->desc[0] = NULL;
	else if (whose == ANOTHERS)
		op->desc[0] = s->other.desc;
	else if (whose == HOSTS)
		op->desc[0] = s->pair.buf[0].desc;
}

/* One message; the sender's descriptor and the receiver's are of the same kind */
static int message(struct side *s, size_t from, size_t to, size_t len, enum whose whose)
{
	static const enum ft_call calls[][2] = {
		{FT_SEND, FT_RECV},
		{FT_SENDV, FT_RECVV},
		{FT_SENDMSG, FT_RECVMSG},
		{FT_SENDDATA, FT_RECV},
	};
	const bool sends = ft_pair_sends(&s->pair);
	struct ft_req req = {0};
	struct ft_slot slot;
	struct ft_op op;

	for (size_t i = 0; i < FT_COUNT(calls); i++) {
		slot = ft_pair_message(&s->pair, from, to, len, ++s->tag, &req, &op);
		FT_TRY(ft_slot_fill(&slot, sends ? s->tag : ~s->tag));
		op.call = calls[i][!sends];
		op.flags = op.call == FT_SENDMSG || op.call == FT_RECVMSG ? FI_COMPLETION : 0;
		op.tagged = i % 2;
		op.data = DATA;
		describe(s, &op, whose);
		FT_TRY(ft_post(&s->pair.ctx, &op));
		FT_TRY(ft_wait(&s->pair.ctx, &req, 1));
		if (!sends)
			FT_TRY(ft_slot_check(&slot, len, s->tag, "a message"));
		if (!sends && req.comp.flags & FI_REMOTE_CQ_DATA)
			FT_CHECK(req.comp.data == data_of(s), "data %#" PRIx64, req.comp.data);
		FT_TRY(ft_barrier(s->pair.proc, &s->pair.ctx));
		memset(&req, 0, sizeof(req));
	}
	return 0;
}

/* Registered addresses of nothing may become device memory, unless FI_MR_ALLOCATED is promised. */
static int later(struct ft_proc *proc)
{
	const size_t room = LARGEST + FT_ROOM;
	struct side s = {.tag = 0};
	struct ft_buf late = {0}, usual;
	struct fid_mr *mr;
	const char *before;
	int ret;

	FT_TRY(ft_pair_hints(&s.pair, proc));
	s.pair.ctx.hints->domain_attr->mr_mode &= ~FI_MR_ALLOCATED;
	FT_TRY(ft_pair_open(&s.pair, LARGEST));
	FT_TRY(ft_buf_alloc_by(&s.pair.ctx, &late, &cudamem_vmm_plain, room));
	before = late.addr;
	ft_buf_free(&late);
	ret = fi_mr_reg(s.pair.ctx.domain, before, room, FI_SEND | FI_RECV, 0, MR_KEY, 0, &mr,
			NULL);
	FT_CHECK(!ret, "fi_mr_reg of addresses of nothing: %s", fi_strerror(-ret));
	FT_TRY(ft_buf_alloc_by(&s.pair.ctx, &late, &cudamem_vmm_plain, room));
	FT_CHECK(late.addr == before, "%p instead of %p", late.addr, before);
	usual = s.pair.buf[1];
	s.pair.buf[1] = late;
	s.pair.buf[1].desc = fi_mr_desc(mr);
	for (size_t i = 0; i < FT_COUNT(sizes); i++)
		FT_TRY(message(&s, 1, 1, sizes[i], OWN));
	s.pair.buf[1] = usual;
	FT_CHECK(!fi_close(&mr->fid), "fi_close of a region");
	ft_buf_free(&late);
	return ft_pair_close(&s.pair, NULL, 0);
}

static int run(struct ft_proc *proc)
{
	struct side s = {.tag = 0};

	if (proc->opts.iface == FI_HMEM_SYSTEM)
		return ft_skip("needs device memory (-D)");
	/* verbs wants that promise */
	if (proc->opts.iface == FI_HMEM_CUDA && !ft_over_verbs(&proc->opts))
		FT_TRY(later(proc));
	FT_TRY(ft_pair_hints(&s.pair, proc));
	s.pair.ctx.mr_access = FI_SEND | FI_RECV;
	FT_TRY(ft_pair_open(&s.pair, LARGEST));
	FT_TRY(ft_buf_alloc(&s.pair.ctx, &s.other, proc->opts.iface, LARGEST));
	FT_CHECK(s.pair.buf[1].desc && s.other.desc && s.pair.buf[1].desc != s.other.desc,
		 "descriptors %p and %p of two regions of device memory", s.pair.buf[1].desc,
		 s.other.desc);
	for (size_t i = 0; i < WHOSE * FT_COUNT(sizes) * 4; i++) {
		const enum whose whose = i % WHOSE;
		const size_t len = sizes[i / WHOSE % FT_COUNT(sizes)];
		const size_t kinds = i / WHOSE / FT_COUNT(sizes);

		if (message(&s, kinds % 2, kinds / 2, len, whose))
			return ft_fail(-FI_EOTHER, "test",
				       "%zu bytes from %s to %s memory, with %s descriptor",
				       len, s.pair.buf[kinds % 2].ops->name,
				       s.pair.buf[kinds / 2].ops->name, whose_names[whose]);
	}
	ft_buf_free(&s.other);
	return ft_pair_close(&s.pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Descriptors of registered memory, right and wrong ones.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
