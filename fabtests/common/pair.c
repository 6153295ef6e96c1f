/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One of two ranks, with an endpoint and a buffer of each kind. See ft_test.h. */
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "ft_test.h"

#define TAG 5

int ft_pair_hints(struct ft_pair *pair, struct ft_proc *proc)
{
	memset(pair, 0, sizeof(*pair));
	pair->proc = proc;
	return ft_test_hints(proc, &pair->ctx);
}

int ft_pair_open(struct ft_pair *pair, size_t len)
{
	FT_TRY(ft_test_open(pair->proc, &pair->ctx));
	return ft_pair_join(pair, len);
}

int ft_pair_join(struct ft_pair *pair, size_t len)
{
	enum fi_hmem_iface kinds[2];

	pair->kind_count = ft_kinds(&pair->proc->opts, kinds);
	FT_TRY(ft_test_connect(pair->proc, &pair->ctx));
	pair->peer = pair->ctx.peer[!pair->proc->rank];
	for (size_t i = 0; i < pair->kind_count; i++)
		FT_TRY(ft_buf_alloc(&pair->ctx, &pair->buf[i], kinds[i], len + FT_ROOM));
	return 0;
}

int ft_pair_close(struct ft_pair *pair, struct fid *const *bound, size_t count)
{
	int ret;

	for (size_t i = 0; i < pair->kind_count; i++)
		ft_buf_free(&pair->buf[i]);
	ret = fi_close(&pair->ctx.ep->fid);
	pair->ctx.ep = NULL;
	for (size_t i = 0; !ret && i < count; i++)
		ret = fi_close(bound[i]);
	return ret ? ft_fail(ret, "fi_close", "endpoint, or what was bound to it")
		   : ft_close(&pair->ctx);
}

struct ft_slot ft_pair_message(struct ft_pair *pair, size_t from, size_t to, size_t len,
			       uint64_t tag, struct ft_req *req, struct ft_op *op)
{
	const bool sends = ft_pair_sends(pair);
	const struct ft_slot slot = {&pair->buf[sends ? from : to], 0, len + FT_ROOM, 64, len};

	*op = (struct ft_op){
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = pair->peer,
		.tag = tag,
		.req = req,
	};
	ft_op_buf(op, slot.buf, slot.off, len);
	return slot;
}

int ft_pair_post(struct ft_pair *pair, const struct ft_op *op)
{
	ssize_t ret;

	while ((ret = ft_post_once(&pair->ctx, op)) == -FI_EAGAIN)
		fi_cq_read(pair->ctx.cq, NULL, 0);
	return ret ? ft_fail((int) ret, "posting", "%zu bytes", op->iov[0].iov_len) : 0;
}

int ft_pair_transfer(struct ft_pair *pair, size_t from, size_t to, size_t len, bool early,
		     int (*wait)(struct ft_pair *pair, struct ft_req *req))
{
	const bool sends = ft_pair_sends(pair);
	struct ft_req req = {0};
	struct ft_op op;
	const struct ft_slot slot = ft_pair_message(pair, from, to, len, TAG, &req, &op);

	FT_TRY(sends ? ft_slot_fill(&slot, len) : ft_slot_arm(&slot));
	if (!sends && early)
		FT_TRY(ft_pair_post(pair, &op));
	FT_TRY(ft_meet(pair->proc));
	if (sends || !early)
		FT_TRY(ft_pair_post(pair, &op));
	FT_TRY(wait(pair, &req));
	return sends ? 0 : ft_slot_check(&slot, len, len, "a message that was waited for");
}

int ft_lane_pieces(struct ft_ctx *ctx, uint64_t *count)
{
	struct fi_p2p_stats_ops *ops;
	struct fi_p2p_stats stats = {.lane_pieces = 0};
	int ret = fi_open_ops(&ctx->ep->fid, FI_P2P_STATS_OPS, 0, (void **) &ops, NULL);

	if (!ret)
		ret = ops->read(&ctx->ep->fid, &stats, sizeof(stats));
	*count = stats.lane_pieces;
	return ret ? ft_fail(ret, "fi_open_ops", FI_P2P_STATS_OPS) : 0;
}
