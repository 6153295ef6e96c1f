/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints and memory of one process: see load.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

struct ft_ctx *load_ctx(struct load *load, const struct load_end *end)
{
	return &load->ctx[load->proc->rank ? end->spoke : 0];
}

struct load_end *load_end_of(struct load *load, unsigned int lane, unsigned int spoke)
{
	for (size_t i = spoke; i < load->end_count; i += load->spokes)
		if (load->end[i].lane == lane)
			return &load->end[i];
	return NULL;
}

/* ---- what is offered ---- */

static void hint(struct load *load, uint64_t cap)
{
	struct ft_ctx *ctx = &load->ctx[0];

	ctx->hints->caps |= cap;
	if (!ft_offered(ctx))
		ctx->hints->caps &= ~cap;
}

static int hints(struct load *load)
{
	struct ft_ctx *ctx = &load->ctx[0];

	FT_TRY(ft_test_hints(load->proc, ctx));
	hint(load, FI_MULTI_RECV);
	hint(load, FI_RMA);
	hint(load, FI_ATOMIC);
	ctx->hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	if (ft_offered(ctx))
		load->delivery = FI_DELIVERY_COMPLETE;
	ctx->hints->tx_attr->op_flags = 0;
	ctx->min_multi_recv = LOAD_MULTI_LARGEST;
	ctx->took = load_took;
	ctx->test = load;
	load->caps = ctx->hints->caps;
	return 0;
}

/* Some offer atomic operations, and have none that bring something back */
static bool adds(struct load *load)
{
	size_t count;

	return !fi_fetch_atomicvalid(load->ctx[0].ep, FI_UINT64, FI_SUM, &count) &&
	       count >= LOAD_ELEMENTS;
}

/* Why there are no lanes of a kind here; NULL: there are */
static const char *left_out(struct load *load, const struct load_kind *kind)
{
	const bool hook = ft_hook_active();

	if (kind->caps & ~load->caps || (kind->caps & FI_ATOMIC && !adds(load)))
		return "the core provider does not offer it";
	if (kind->quirks & LOAD_OURS && hook)
		return "it takes the protocol that a hook has not";
	if (kind->quirks & load->quirks)
		return "the core provider does it wrong";
	return NULL;
}

/* ---- opening ---- */

static int open_spoke(struct load *load, unsigned int spoke)
{
	struct ft_ctx *ctx = &load->ctx[spoke];

	*ctx = load->ctx[0];
	ctx->ep = NULL;
	return ft_ep_open(ctx);
}

/* Is the memory of a kind at this end a device's? With a hook, the core's CPU touches all but plain messages */
static bool on_device(const struct load *load, const struct load_kind *kind, bool starts)
{
	const bool plain = !(kind->caps & (FI_RMA | FI_ATOMIC | FI_MULTI_RECV));

	return kind->device[!starts] && load->proc->opts.iface != FI_HMEM_SYSTEM &&
	       (plain || !ft_hook_active());
}

/* What the other process reaches is guards; where it adds up, zeros */
static int arm_targets(struct load *load, unsigned int lane)
{
	static const char zeros[sizeof(uint64_t) * LOAD_ELEMENTS];
	const struct load_kind *kind = &load_kinds[lane];
	const struct ft_buf *buf = &load->mem[lane][0];

	for (unsigned int spoke = 0; spoke < load->spokes; spoke++) {
		const size_t base = spoke * load_stride(kind);
		const struct ft_slot slot = {buf, base, load_stride(kind), base, 0};

		FT_TRY(ft_slot_arm(&slot));
		if (kind->caps & FI_ATOMIC)
			FT_TRY(buf->ops->to(buf->addr + base + LOAD_MARGIN, zeros,
					    sizeof(zeros)));
	}
	return 0;
}

static int open_kind(struct load *load, unsigned int lane)
{
	const struct load_kind *kind = &load_kinds[lane];
	const bool starts = kind->up == (load->proc->rank != 0);
	const struct load_role *role = starts ? kind->start : kind->take;
	enum fi_hmem_iface kinds[2];
	struct ft_ctx *ctx = &load->ctx[0];

	ft_kinds(&load->proc->opts, kinds);
	if (!kind->take)
		ctx->mr_access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	for (int i = 0; i < 2; i++)
		FT_TRY(ft_buf_alloc(ctx, &load->mem[lane][i],
				    kinds[on_device(load, kind, starts)],
				    load->spokes * load_stride(kind)));
	ctx->mr_access = 0;
	for (unsigned int spoke = 0; spoke < load->spokes; spoke++)
		load->end[load->end_count++] = (struct load_end){
			.kind = kind,
			.role = role,
			.lane = lane,
			.spoke = spoke,
		};
	for (size_t i = load->end_count - load->spokes; kind->burst && i < load->end_count;
	     i++) {
		load->end[i].part = calloc(kind->burst, sizeof(*load->end[i].part));
		if (!load->end[i].part)
			return ft_fail(-FI_ENOMEM, "calloc", "%u requests", kind->burst);
	}
	return role ? 0 : arm_targets(load, lane);
}

static int open_multis(struct load *load)
{
	enum fi_hmem_iface kinds[2];
	const size_t count = ft_kinds(&load->proc->opts, kinds);

	for (size_t i = 0; i < LOAD_MULTIS; i++) {
		struct load_multi_buf *multi = &load->multi[i];

		FT_TRY(ft_buf_alloc(&load->ctx[0], &multi->buf,
				    kinds[ft_hook_active() ? 0 : i % count], LOAD_MULTI_LEN));
		FT_TRY(load_multi_post(load, multi));
	}
	return 0;
}

/* What the other process has to know */
struct hello {
	struct ft_name name[LOAD_SPOKES_MAX];
	struct load_far far[LOAD_KINDS_MAX];
};

static int meet(struct load *load)
{
	const int fd = load->proc->fd[!load->proc->rank];
	const unsigned int mine = load->proc->rank ? load->spokes : 1;
	const unsigned int theirs = load->proc->rank ? 1 : load->spokes;
	static struct hello hello, other;

	for (unsigned int i = 0; i < mine; i++)
		FT_TRY(ft_getname(&load->ctx[i], &hello.name[i]));
	for (size_t i = 0; i < load_kind_count; i++) {
		const struct ft_buf *buf = &load->mem[i][0];

		if (!buf->mr)
			continue;
		hello.far[i].key = fi_mr_key(buf->mr);
		if (load->ctx[0].info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
			hello.far[i].addr = (uintptr_t) buf->addr;
	}
	FT_TRY(ft_oob_send(fd, &hello, sizeof(hello)));
	FT_TRY(ft_oob_recv(fd, &other, sizeof(other), load->proc->opts.timeout));
	memcpy(load->far, other.far, sizeof(load->far));
	for (unsigned int i = 0; i < theirs; i++)
		FT_TRY(ft_av_insert(&load->ctx[0], other.name[i].bytes, &load->peer[i]));
	return 0;
}

int load_open(struct load *load)
{
	struct ft_ctx *ctx = &load->ctx[0];

	FT_TRY(hints(load));
	FT_TRY(ft_getinfo(ctx, NULL, NULL, 0));
	load->quirks = stress_quirks(ctx->info->fabric_attr->prov_name,
				     ctx->info->caps & FI_HMEM, false);
	load->expected = load->quirks & (QUIRK_UNEXPECTED | QUIRK_EPS);
	FT_TRY(ft_open(ctx));
	for (unsigned int i = 1; load->proc->rank && i < load->spokes; i++)
		FT_TRY(open_spoke(load, i));
	for (unsigned int i = 0; i < load_kind_count; i++) {
		const char *why = left_out(load, &load_kinds[i]);

		if (why && !load->proc->rank)
			printf("note: no %s: %s\n", load_kinds[i].name, why);
		if (!why)
			FT_TRY(open_kind(load, i));
	}
	if (!load->proc->rank && load->caps & FI_MULTI_RECV)
		FT_TRY(open_multis(load));
	return meet(load);
}

int load_close(struct load *load)
{
	int ret;

	for (unsigned int i = 1; load->proc->rank && i < load->spokes; i++) {
		ret = fi_close(&load->ctx[i].ep->fid);
		if (ret)
			return ft_fail(ret, "fi_close", "spoke %u", i);
	}
	/* regions and the buffers that are posted go after their endpoint */
	ret = load->ctx[0].ep ? fi_close(&load->ctx[0].ep->fid) : 0;
	load->ctx[0].ep = NULL;
	if (ret)
		return ft_fail(ret, "fi_close", "endpoint");
	for (size_t i = 0; i < load_kind_count; i++) {
		ft_buf_free(&load->mem[i][0]);
		ft_buf_free(&load->mem[i][1]);
	}
	for (int i = 0; i < LOAD_MULTIS; i++)
		ft_buf_free(&load->multi[i].buf);
	for (size_t i = 0; i < load->end_count; i++)
		free(load->end[i].part);
	return ft_close(&load->ctx[0]);
}
