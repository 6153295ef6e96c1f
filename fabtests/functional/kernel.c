/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_kernel: each rank's GPU runs something that ends only when it sees what the other rank
 * wrote there. Meanwhile rank 0's writes, reads, atomic operations and messages from and to that
 * memory complete; to memory that is used for the first time, too, and to host memory.
 *
 * Nothing here may wait for the default stream: the copies are busygpu.h's. Each rank has a GPU of
 * its own where there are two. With one, a copy from device to device would wait for a place on a
 * multiprocessor (FI_P2P_PATH=stage).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "busygpu.h"
#include "ft_test.h"

#define SHORT_LEN 8
#define LONG_LEN ((size_t) 65536)
#define SIZE (2 * LONG_LEN)
#define END 0x600d
#define SECONDS 20 /* a kernel that nobody ends */

/* Memory that is known before the kernel runs, that is made while it runs, and of the host */
enum place { KNOWN, NEW, HOST, PLACES };

static const char *const places[PLACES] = {"known device", "new device", "host"};

/** struct target - memory of rank 1's */
struct target {
	uint64_t key, base;
};

/**
 * struct side - one rank.
 * @word:	what the GPU looks at; @there: the other rank's
 * @memory:	of rank 1, reached by rank 0, by enum place
 * @local:	of rank 0, by kind
 */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	size_t kinds;
	struct ft_buf word, memory[PLACES], local[2];
	struct target there, target[PLACES];
	bool atomics;
	uint64_t number;
};

/* ---- memory ---- */

static int put(const struct ft_buf *buf, size_t at, const void *data, size_t len)
{
	if (buf->ops->iface != FI_HMEM_SYSTEM)
		return busygpu_to(buf->addr + at, data, len);
	memcpy(buf->addr + at, data, len);
	return 0;
}

static int get(const struct ft_buf *buf, size_t at, void *data, size_t len)
{
	if (buf->ops->iface != FI_HMEM_SYSTEM)
		return busygpu_from(data, buf->addr + at, len);
	memcpy(data, buf->addr + at, len);
	return 0;
}

static int fill(const struct ft_buf *buf, size_t at, size_t len, uint64_t key)
{
	unsigned char data[LONG_LEN];

	ft_pattern_fill(data, len, key);
	return put(buf, at, data, len);
}

/* @len bytes of @key's pattern, and the rest as it was */
static int check(const struct ft_buf *buf, size_t len, uint64_t key, const char *what)
{
	unsigned char data[SIZE], expected;
	ssize_t diff;

	FT_TRY(get(buf, 0, data, sizeof(data)));
	diff = ft_pattern_diff(data, len, key, &expected);
	FT_CHECK(diff < 0, "%s: byte %zd is %#x, not %#x", what, diff, data[diff], expected);
	for (size_t i = len; i < sizeof(data); i++)
		FT_CHECK(data[i] == FT_GUARD, "%s: byte %zu is %#x", what, i, data[i]);
	return 0;
}

static int clear(const struct ft_buf *buf)
{
	unsigned char data[SIZE];

	memset(data, FT_GUARD, sizeof(data));
	return put(buf, 0, data, sizeof(data));
}

/* ---- operations ---- */

enum kind { WRITE, READ, FETCH_ADD, MESSAGE, INJECTED, KINDS };

static const char *const names[KINDS] = {"write", "read", "fetch-add", "message",
					 "injected write"};

static ssize_t post_once(struct side *side, enum kind kind, const struct ft_buf *local,
			 const struct target *target, size_t len, struct ft_req *req)
{
	struct fid_ep *ep = side->ctx.ep;
	const fi_addr_t peer = side->ctx.peer[1];

	switch (kind) {
	case WRITE:
		return fi_write(ep, local->addr, len, local->desc, peer, target->base,
				target->key, req);
	case INJECTED:
		return fi_inject_write(ep, local->addr, len, peer, target->base, target->key);
	case READ:
		return fi_read(ep, local->addr, len, local->desc, peer, target->base,
			       target->key, req);
	default:
		return fi_fetch_atomic(ep, local->addr, 1, local->desc, local->addr + LONG_LEN,
				       local->desc, peer, target->base, target->key, FI_UINT64,
				       FI_SUM, req);
	}
}

static int post(struct side *side, enum kind kind, const struct ft_buf *local,
		const struct target *target, size_t len, struct ft_req *req)
{
	ssize_t ret;
	int n;

	while ((ret = post_once(side, kind, local, target, len, req)) == -FI_EAGAIN) {
		n = ft_progress(&side->ctx);
		if (n < 0)
			return n;
		FT_TRY(n ? 0 : ft_idle(&side->ctx));
	}
	return ret ? ft_fail((int) ret, names[kind], "not posted") : 0;
}

static int message(struct side *side, const struct ft_buf *buf, size_t len)
{
	const bool sends = side->proc->rank == 0;
	struct ft_req req = {0};
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = sends ? side->ctx.peer[1] : FI_ADDR_UNSPEC,
		.tag = side->number,
		.req = &req,
	};

	ft_op_buf(&op, buf, 0, len);
	FT_TRY(ft_post(&side->ctx, &op));
	return ft_wait(&side->ctx, &req, 1);
}

/*
 * What was injected is there some time, and so is what the core itself writes to its owner's host
 * memory: it is read until it is
 */
static int arrived(struct side *side, const struct target *target, size_t len, uint64_t key)
{
	unsigned char data[LONG_LEN], expected;
	struct ft_req req;

	do {
		req = (struct ft_req){0};
		FT_TRY(clear(&side->local[0]));
		FT_TRY(post(side, READ, &side->local[0], target, len, &req));
		FT_TRY(ft_wait(&side->ctx, &req, 1));
		FT_TRY(get(&side->local[0], 0, data, len));
		FT_TRY(ft_idle(&side->ctx));
	} while (ft_pattern_diff(data, len, key, &expected) >= 0);
	return 0;
}

static int initiate(struct side *side, enum kind kind, const struct ft_buf *local,
		    const struct target *target, size_t len, const char *what)
{
	const uint64_t key = side->number;
	uint64_t addend = key, before;
	struct ft_req req = {0};

	FT_TRY(clear(local));
	if (kind == FETCH_ADD)
		FT_TRY(put(local, 0, &addend, sizeof(addend)));
	else if (kind != READ)
		FT_TRY(fill(local, 0, len, key));
	if (kind == MESSAGE)
		return message(side, local, len);
	FT_TRY(post(side, kind, local, target, len, &req));
	if (kind == INJECTED) {
		FT_TRY(clear(local));
		return arrived(side, target, len, key);
	}
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	if (kind == WRITE && target == &side->target[HOST])
		return arrived(side, target, len, key);
	if (kind == READ)
		return check(local, len, key, what);
	if (kind == FETCH_ADD) {
		FT_TRY(get(local, LONG_LEN, &before, sizeof(before)));
		FT_CHECK(before == ~key, "%s: fetched %#" PRIx64 ", not %#" PRIx64, what,
			 before, ~key);
	}
	return 0;
}

/* The owner's part: memory as the operation shall find it, and what it has to leave */
static int prepare(struct side *side, enum kind kind, const struct ft_buf *memory, size_t len)
{
	const uint64_t before = ~side->number;

	FT_TRY(clear(memory));
	if (kind == READ)
		return fill(memory, 0, len, side->number);
	return kind == FETCH_ADD ? put(memory, 0, &before, sizeof(before)) : 0;
}

static int conclude(struct side *side, enum kind kind, const struct ft_buf *memory, size_t len,
		    const char *what)
{
	uint64_t after;

	if (kind != FETCH_ADD)
		return check(memory, len, side->number, what);
	FT_TRY(get(memory, 0, &after, sizeof(after)));
	FT_CHECK(after == UINT64_MAX, "%s: the sum is %#" PRIx64, what, after);
	return 0;
}

static int step(struct side *side, enum kind kind, size_t from, size_t to, size_t len)
{
	const bool owner = side->proc->rank == 1;
	const struct ft_buf *memory = &side->memory[to];
	char what[80];
	bool runs;

	snprintf(what, sizeof(what), "%s of %zu bytes, %s memory here, %s memory there",
		 names[kind], len, from ? "device" : "host", places[to]);
	side->number++;
	FT_TRY(owner ? prepare(side, kind, memory, len) : 0);
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	if (!owner)
		FT_TRY(initiate(side, kind, &side->local[from], &side->target[to], len, what));
	else if (kind == MESSAGE)
		FT_TRY(message(side, memory, len));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(owner ? conclude(side, kind, memory, len, what) : 0);
	FT_TRY(busygpu_runs(&runs));
	FT_CHECK(runs, "%s: the GPU had nothing to do meanwhile", what);
	return 0;
}

static int steps(struct side *side, size_t from, size_t to)
{
	for (int kind = 0; kind < KINDS; kind++) {
		if (kind == FETCH_ADD && !side->atomics)
			continue;
		FT_TRY(step(side, kind, from, to, SHORT_LEN));
		if (kind != FETCH_ADD && kind != INJECTED)
			FT_TRY(step(side, kind, from, to, LONG_LEN));
	}
	return 0;
}

/* ---- the whole ---- */

static int share(struct side *side, struct ft_buf *buf, enum fi_hmem_iface iface,
		 struct target *target)
{
	FT_TRY(ft_buf_alloc(&side->ctx, buf, iface, SIZE));
	FT_TRY(ft_buf_share(&side->ctx, buf, FI_REMOTE_READ | FI_REMOTE_WRITE));
	*target = (struct target){buf->key, buf->base};
	return 0;
}

/* Each tells the other of its memory */
static int swap(struct side *side, const struct target *mine, struct target *theirs)
{
	const int fd = side->proc->fd[!side->proc->rank];

	FT_TRY(ft_oob_send(fd, mine, sizeof(*mine)));
	return ft_oob_recv(fd, theirs, sizeof(*theirs), side->proc->opts.timeout);
}

static int set_up(struct side *side)
{
	const uint32_t zero = 0;
	enum fi_hmem_iface ifaces[2];
	struct target mine;
	size_t most;

	side->kinds = ft_kinds(&side->proc->opts, ifaces);
	FT_TRY(ft_test_open(side->proc, &side->ctx));
	/* net of 1.17 has the capability, and no operations */
	side->atomics = side->ctx.info->caps & FI_ATOMIC &&
			!fi_fetch_atomicvalid(side->ctx.ep, FI_UINT64, FI_SUM, &most);
	FT_TRY(ft_test_connect(side->proc, &side->ctx));
	for (size_t kind = 0; kind < side->kinds; kind++)
		FT_TRY(ft_buf_alloc(&side->ctx, &side->local[kind], ifaces[kind], SIZE));
	FT_TRY(busygpu_open(side->proc->opts.device));
	FT_TRY(share(side, &side->word, FI_HMEM_CUDA, &mine));
	FT_TRY(busygpu_to(side->word.addr, &zero, sizeof(zero)));
	FT_TRY(swap(side, &mine, &side->there));
	FT_TRY(share(side, &side->memory[KNOWN], FI_HMEM_CUDA, &mine));
	FT_TRY(swap(side, &mine, &side->target[KNOWN]));
	FT_TRY(share(side, &side->memory[HOST], FI_HMEM_SYSTEM, &mine));
	FT_TRY(swap(side, &mine, &side->target[HOST]));
	return ft_barrier(side->proc, &side->ctx);
}

/* What the other's GPU waits for */
static int end(struct side *side)
{
	const uint32_t value = END;
	struct ft_req req = {0};
	ssize_t ret;
	bool runs = true;
	int n;

	FT_TRY(put(&side->local[0], 0, &value, sizeof(value)));
	/* the other one may still look whether its GPU is busy */
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	while ((ret = fi_write(side->ctx.ep, side->local[0].addr, sizeof(value),
			       side->local[0].desc, side->ctx.peer[!side->proc->rank],
			       side->there.base, side->there.key, &req)) == -FI_EAGAIN) {
		n = ft_progress(&side->ctx);
		FT_TRY(n < 0 ? n : ft_idle(&side->ctx));
	}
	if (ret)
		return ft_fail((int) ret, "fi_write", "the last one");
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	while (runs) {
		n = ft_progress(&side->ctx);
		FT_TRY(n < 0 ? n : ft_idle(&side->ctx));
		FT_TRY(busygpu_runs(&runs));
	}
	return ft_barrier(side->proc, &side->ctx);
}

static int run(struct ft_proc *proc)
{
	struct side side = {.proc = proc};
	struct target mine;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(ft_test_own_device(proc));
	FT_TRY(ft_mem_ops(FI_HMEM_CUDA)->init(proc->opts.device));
	FT_TRY(ft_test_hints(proc, &side.ctx));
	side.ctx.hints->caps |= FI_RMA | FI_ATOMIC;
	if (!ft_offered(&side.ctx))
		side.ctx.hints->caps &= ~FI_ATOMIC;
	if (!ft_offered(&side.ctx)) {
		FT_TRY(ft_close(&side.ctx));
		return ft_skip("%s has no remote memory", proc->opts.prov);
	}
	FT_TRY(set_up(&side));
	FT_TRY(busygpu_start(side.word.addr, END, SECONDS));
	FT_TRY(share(&side, &side.memory[NEW], FI_HMEM_CUDA, &mine));
	FT_TRY(swap(&side, &mine, &side.target[NEW]));
	for (size_t from = 0; from < side.kinds; from++)
		for (size_t to = 0; to < PLACES; to++)
			FT_TRY(steps(&side, from, to));
	FT_TRY(end(&side));
	for (size_t to = 0; to < PLACES; to++)
		ft_buf_free(&side.memory[to]);
	for (size_t from = 0; from < side.kinds; from++)
		ft_buf_free(&side.local[from]);
	ft_buf_free(&side.word);
	return ft_close(&side.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Remote operations while a kernel waits for them.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
