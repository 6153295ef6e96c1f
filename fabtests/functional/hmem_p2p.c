/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_hmem_p2p: what FI_OPT_FI_HMEM_P2P says is done. For each of its values, a short and a
 * long message between device memories: the provider is asked which way it would take, that
 * has to be one which the value allows, and the bytes have to be counted there. What may not
 * travel is refused, and refusing does no harm. And what FI_OPT_CUDA_API_PERMITTED leads to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_ext_p2p.h>

#include "ft_test.h"

#define SHORT_LEN 1000   /* ofi_p2p copies that much, where it has a protocol */
#define LONG_LEN 1100000 /* beyond FI_P2P_EAGER_SIZE */

static const struct value {
	const char *name;
	int number;
} values[] = {
	{"FI_HMEM_P2P_ENABLED", FI_HMEM_P2P_ENABLED},
	{"FI_HMEM_P2P_REQUIRED", FI_HMEM_P2P_REQUIRED},
	{"FI_HMEM_P2P_DISABLED", FI_HMEM_P2P_DISABLED},
	{"FI_HMEM_P2P_PREFERRED", FI_HMEM_P2P_PREFERRED},
};

/**
 * struct side - one end.
 * @reaches:	the NIC does, the long message's buffer
 * @across:	else it is copied from device to device, within this host; @near: which is all
 *		that the core provider reaches
 */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf buf;
	bool reaches;
	bool across;
	bool near;
	uint64_t number;
};

static struct ft_slot place(const struct side *side, size_t len)
{
	return (struct ft_slot){.buf = &side->buf,
				.room = len + FT_ROOM,
				.off = FT_ROOM / 2,
				.len = len};
}

/* What FI_P2P_PATH asks for; "auto" is what is done without it */
static const char *wished(void)
{
	const char *path = getenv("FI_P2P_PATH");

	return path ? path : "auto";
}

/* The way that a message has to take, or how it has to be refused */
static int expected(const struct side *side, int value, size_t len)
{
	const bool may_not = !strcmp(wished(), "peer") && len == LONG_LEN;

	if (side->reaches && value != FI_HMEM_P2P_DISABLED &&
	    (len == LONG_LEN || ft_connected(&side->ctx)))
		return FI_P2P_PATH_PEER;
	if (value == FI_HMEM_P2P_REQUIRED || (may_not && value != FI_HMEM_P2P_DISABLED))
		return -FI_EOPNOTSUPP;
	return side->near && side->across && len == LONG_LEN ? FI_P2P_PATH_IPC
							     : FI_P2P_PATH_STAGE;
}

/* Where the other end is, is not known before */
static int goes(const struct side *side, int path, size_t len)
{
	return side->across && len == LONG_LEN && path == FI_P2P_PATH_STAGE ? FI_P2P_PATH_IPC
									    : path;
}

/* Within a host, short messages are staged until the receiver has said that they need not be */
static int counted(const struct side *side, int path, uint64_t *bytes)
{
	const bool sends = side->proc->rank == 0;
	uint64_t across = 0;

	if (path == FI_P2P_PATH_STAGE && side->near)
		FT_TRY(ft_path_bytes(side->ctx.ep, sends, FI_P2P_PATH_IPC, &across));
	FT_TRY(ft_path_bytes(side->ctx.ep, sends, path, bytes));
	*bytes += across;
	return 0;
}

/* By way @path; a negative one is how the send has to be refused */
static int transfer(struct side *side, const struct ft_slot *slot, int path, const char *what)
{
	const bool sends = side->proc->rank == 0;
	struct ft_req req = {0};
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = sends ? side->ctx.peer[1] : FI_ADDR_UNSPEC,
		.tag = ++side->number,
		.req = &req,
	};
	uint64_t before, after;
	ssize_t ret;

	ft_op_buf(&op, &side->buf, slot->off, slot->len);
	if (path < 0) {
		ret = sends ? ft_post_once(&side->ctx, &op) : path;
		FT_CHECK(ret == path, "%s: posted with %zd, expected %d", what, ret, path);
		return 0;
	}
	FT_TRY(counted(side, path, &before));
	FT_TRY(sends ? ft_slot_fill(slot, side->number) : ft_slot_arm(slot));
	/* over a connection, no message may come before its receive */
	FT_TRY(sends ? ft_barrier(side->proc, &side->ctx) : 0);
	FT_TRY(ft_post(&side->ctx, &op));
	FT_TRY(sends ? 0 : ft_barrier(side->proc, &side->ctx));
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	FT_TRY(counted(side, path, &after));
	FT_CHECK(after - before == slot->len, "%s: %zu bytes went by way %d", what,
		 (size_t) (after - before), path);
	return sends ? 0 : ft_slot_check(slot, slot->len, side->number, what);
}

static int message(struct side *side, const struct value *value, size_t len)
{
	const struct ft_slot slot = place(side, len);
	const int path = ft_path(side->ctx.ep, &side->buf, len);
	char what[64];

	snprintf(what, sizeof(what), "%s, %zu bytes", value->name, len);
	FT_CHECK(path == expected(side, value->number, len), "%s: would go by way %d", what,
		 path);
	FT_TRY(transfer(side, &slot, goes(side, path, len), what));
	return ft_barrier(side->proc, &side->ctx);
}

/*
 * What the sender may stage, and the receiver may not: the receive ends with an error, the
 * send with one or none. Over a hook, such a receive has no way to be posted.
 */
static int mixed(struct side *side, size_t len)
{
	const bool sends = side->proc->rank == 0;
	const int value = sends ? FI_HMEM_P2P_DISABLED : FI_HMEM_P2P_REQUIRED;
	const struct ft_slot slot = place(side, len);
	struct ft_req req = {0};
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = sends ? side->ctx.peer[1] : FI_ADDR_UNSPEC,
		.tag = ++side->number,
		.req = &req,
	};

	FT_TRY(fi_setopt(&side->ctx.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value,
			 sizeof(value)));
	FT_TRY(sends ? ft_slot_fill(&slot, side->number) : ft_slot_arm(&slot));
	ft_op_buf(&op, &side->buf, slot.off, slot.len);
	FT_TRY(ft_post(&side->ctx, &op));
	FT_TRY(ft_wait_any_result(&side->ctx, &req, 1));
	FT_CHECK(req.err == FI_EOPNOTSUPP || (sends && !req.err),
		 "%zu bytes that may not be staged at the receiver: %s ended with %d (%s)", len,
		 sends ? "the send" : "the receive", req.err, fi_strerror(req.err));
	FT_TRY(sends ? 0 : ft_slot_check(&slot, 0, 0, "a refused message"));
	return ft_barrier(side->proc, &side->ctx);
}

static int set(struct side *side, const struct value *value, bool *taken)
{
	const bool nic = ft_over_verbs(&side->proc->opts);
	int got, ret;
	size_t len = sizeof(got);

	ret = fi_setopt(&side->ctx.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value->number,
			sizeof(value->number));
	*taken = !ret;
	if (value->number == FI_HMEM_P2P_REQUIRED && !side->reaches) {
		FT_CHECK(ret == -FI_EOPNOTSUPP || (!ret && nic),
			 "%s where no NIC reaches device memory: %s", value->name,
			 fi_strerror(-ret));
		return 0;
	}
	if (ret)
		return ft_fail(ret, "fi_setopt", "%s", value->name);
	ret = fi_getopt(&side->ctx.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &got, &len);
	FT_CHECK(!ret && got == value->number, "%s: fi_getopt gives %d (%s)", value->name, got,
		 fi_strerror(-ret));
	return 0;
}

/* Came with libfabric 1.18, as the next of the enumeration */
#define CUDA_API_PERMITTED (FI_OPT_XPU_TRIGGER + 1)

/*
 * Who permits no calls to CUDA is told that some are made; or, where FI_P2P_CUDA_API asks for it, that
 * this does no harm. It does if kernels are loaded at their first launch.
 */
static int permit_api(struct side *side)
{
	const char *asked = getenv("FI_P2P_CUDA_API"), *loading = getenv("CUDA_MODULE_LOADING");
	const bool eager = side->proc->opts.iface != FI_HMEM_CUDA ||
			   (loading && !strcmp(loading, "EAGER"));
	const int expected = asked && !strcmp(asked, "async") && eager ? 0 : -FI_EOPNOTSUPP;

	for (int permitted = 1; permitted >= 0; permitted--) {
		const bool value = permitted;
		int ret = fi_setopt(&side->ctx.ep->fid, FI_OPT_ENDPOINT, CUDA_API_PERMITTED,
				    &value, sizeof(value));

		FT_CHECK(ret == (permitted ? 0 : expected),
			 "FI_OPT_CUDA_API_PERMITTED, %s: fi_setopt gives %d",
			 permitted ? "true" : "false", ret);
	}
	return 0;
}

static int run(struct ft_proc *proc)
{
	const int wrong = 4711;
	struct side side = {.proc = proc};
	bool taken;
	int ret;

	if (proc->opts.iface == FI_HMEM_SYSTEM)
		return proc->rank ? FT_SKIP : ft_skip("needs device memory (-D)");
	FT_TRY(ft_test_hints(proc, &side.ctx));
	FT_TRY(ft_test_open(proc, &side.ctx));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	FT_TRY(ft_buf_alloc(&side.ctx, &side.buf, proc->opts.iface, LONG_LEN + FT_ROOM));
	side.reaches = ft_path(side.ctx.ep, &side.buf, LONG_LEN) == FI_P2P_PATH_PEER;
	side.near = !strncmp(proc->opts.prov, "shm;", 4);
	side.across = ft_is_p2p(&side.ctx) && proc->opts.iface == FI_HMEM_CUDA &&
		      !strcmp(wished(), "auto");
	if (proc->rank == 0)
		printf("device memory is %sreached by the NIC\n", side.reaches ? "" : "not ");
	for (size_t i = 0; i < FT_COUNT(values); i++) {
		FT_TRY(set(&side, &values[i], &taken));
		if (!taken)
			continue;
		FT_TRY(message(&side, &values[i], SHORT_LEN));
		FT_TRY(message(&side, &values[i], LONG_LEN));
		if (values[i].number != FI_HMEM_P2P_REQUIRED || !ft_is_p2p(&side.ctx))
			continue;
		FT_TRY(mixed(&side, SHORT_LEN));
		FT_TRY(mixed(&side, LONG_LEN));
	}
	ret = fi_setopt(&side.ctx.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &wrong,
			sizeof(wrong));
	FT_CHECK(ret == -FI_EINVAL, "a value that there is not: fi_setopt gives %d", ret);
	FT_TRY(permit_api(&side));
	ft_buf_free(&side.buf);
	return ft_close(&side.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "FI_OPT_FI_HMEM_P2P: each value, and the ways that messages take.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
