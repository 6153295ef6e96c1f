/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu: kernels post operations and wait for them (rdma/fi_p2p_xpu_device.h). Two ranks run the
 * same kernel, or one sends and the other receives; then all bytes are compared. Without -D, threads
 * of the host are the kernels.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xpu_side.h"

#define BLOCKS 6
#define COUNT 5
#define MANY 50000
#define MANY_NEAR 40
#define LARGEST ((size_t) 100003)
#define WRONG_KEY 0x5a5a

/* ---- scenes ---- */

static unsigned char *scratch; /* BLOCKS * COUNT * LARGEST bytes */

static int fill(struct xpu_side *side, struct ft_buf *buf, size_t len, int value)
{
	memset(scratch, value, len);
	return buf->ops->to(buf->addr, scratch, len);
}

/* What @rank has for message @i of @block, in each byte */
static unsigned char content(int rank, uint64_t block, uint64_t i)
{
	return (unsigned char) (i + 1 + block + (uint64_t) !rank);
}

static int fill_out(struct xpu_side *side)
{
	const struct xpu_args *args = &side->args;

	for (uint64_t i = 0; i < args->blocks * args->count; i++)
		memset(scratch + i * args->len,
		       content(side->proc->rank, i / args->count, i % args->count), args->len);
	return side->out.ops->to(side->out.addr + args->shift, scratch,
				 args->blocks * args->count * args->len);
}

static int check(struct xpu_side *side, const struct ft_buf *buf, const char *what)
{
	const struct xpu_args *args = &side->args;
	const size_t len = args->blocks * args->count * args->len;

	FT_TRY(buf->ops->from(scratch, buf->addr, len));
	for (size_t at = 0; at < len; at++) {
		const uint64_t i = at / args->len;
		const unsigned char expected =
			content(!side->proc->rank, i / args->count, i % args->count);

		FT_CHECK(scratch[at] == expected,
			 "%s: byte %zu of %zu of message %" PRIu64 " is 0x%02x, not 0x%02x",
			 what, at % args->len, (size_t) args->len, i, scratch[at], expected);
	}
	return 0;
}

static int scene_begin(struct xpu_side *side, uint64_t count, size_t len)
{
	struct xpu_args *args = &side->args;

	args->blocks = BLOCKS;
	args->count = count;
	args->len = len;
	args->base = fi_cntr_read(side->tx);
	FT_TRY(fill(side, &side->in, BLOCKS * count * len, 0xee));
	FT_TRY(fill(side, &side->signal, XPU_SIGNALS * sizeof(uint64_t), 0));
	FT_TRY(fill_out(side));
	return ft_meet_all(side->proc);
}

/* All that kernels have posted in a scene is counted: the next one begins with that count. */
static int await_count(struct xpu_side *side, uint64_t operations)
{
	while (fi_cntr_read(side->tx) < side->args.base + operations) {
		FT_CHECK(!fi_cntr_readerr(side->tx), "a put or a signal has failed");
		FT_TRY(ft_idle(&side->ctx));
	}
	return 0;
}

static int scene_writes(struct xpu_side *side, size_t len, unsigned int threads)
{
	static const enum xpu_kernel kernels[] = {XPU_WRITE, XPU_PUT, XPU_SIGNAL};
	static const uint64_t operations[] = {COUNT, COUNT + 1, 2 * COUNT};

	for (size_t i = 0; i < FT_COUNT(kernels); i++) {
		FT_TRY(scene_begin(side, COUNT, len));
		FT_TRY(xpu_side_run(side, kernels[i], threads, NULL));
		FT_TRY(await_count(side, BLOCKS * operations[i]));
		FT_TRY(ft_meet_all(side->proc));
		FT_TRY(check(side, &side->in, "written"));
	}
	return 0;
}

/* Memory of the host's that the peer's kernels put and signal to: @to_data and @to_words are its numbers as targets */
struct near {
	struct ft_buf data, words;
	uint32_t to_data, to_words;
};

static int near_share(struct xpu_side *side, struct ft_buf *buf, size_t size, uint32_t *target)
{
	const int fd = side->proc->fd[!side->proc->rank];
	struct {
		uint64_t base, key;
	} mine, theirs;

	FT_TRY(ft_buf_alloc(&side->ctx, buf, FI_HMEM_SYSTEM, size));
	FT_TRY(ft_buf_share(&side->ctx, buf, FI_REMOTE_READ | FI_REMOTE_WRITE));
	mine.base = buf->base;
	mine.key = buf->key;
	FT_TRY(ft_oob_send(fd, &mine, sizeof(mine)));
	FT_TRY(ft_oob_recv(fd, &theirs, sizeof(theirs), side->proc->opts.timeout));
	return xpu_side_target(side, &side->out, theirs.base, theirs.key, target);
}

static int near_open(struct xpu_side *side, struct near *near)
{
	FT_TRY(near_share(side, &near->data, BLOCKS * COUNT * LARGEST, &near->to_data));
	return near_share(side, &near->words, BLOCKS * sizeof(uint64_t), &near->to_words);
}

static void near_close(struct near *near)
{
	ft_buf_free(&near->data);
	ft_buf_free(&near->words);
}

/* What has been signalled is there: of each block, one message after the other */
static int near_check(struct xpu_side *side, const struct ft_buf *data,
		      const struct ft_buf *words)
{
	const struct xpu_args *args = &side->args;
	uint64_t told[BLOCKS], seen[BLOCKS] = {0}, left = args->blocks * args->count;

	while (left) {
		FT_TRY(words->ops->from(told, words->addr, sizeof(told)));
		for (uint64_t block = 0; block < args->blocks; block++) {
			const uint64_t last = __atomic_load_n(&told[block], __ATOMIC_ACQUIRE);

			FT_CHECK(last >= seen[block] && last <= args->count,
				 "a signal goes from %" PRIu64 " to %" PRIu64, seen[block],
				 last);
			for (; seen[block] < last; seen[block]++, left--) {
				const uint64_t i = block * args->count + seen[block];

				FT_TRY(data->ops->from(scratch, data->addr + i * args->len,
						       args->len));
				/* all bytes are alike */
				FT_CHECK(scratch[0] == content(!side->proc->rank, block,
							       seen[block]) &&
						 !memcmp(scratch, scratch + 1, args->len - 1),
					 "signalled, and message %" PRIu64 " is not there", i);
			}
		}
		FT_TRY(ft_idle(&side->ctx));
	}
	return 0;
}

/*
 * Signals after puts, as fast as the ring takes them. @data: memory of the host's gets the puts, and a device's the
 * signals; else the other way round
 */
static int scene_near(struct xpu_side *side, struct near *near, size_t len, bool data)
{
	struct xpu_args *args = &side->args;
	const uint32_t target = args->target, signal_target = args->signal_target;
	int ret;

	FT_TRY(scene_begin(side, len == LARGEST ? COUNT : MANY_NEAR, len));
	memset(near->data.addr, 0, near->data.size);
	memset(near->words.addr, 0, near->words.size);
	FT_TRY(ft_meet_all(side->proc));
	args->kernel = XPU_NEAR;
	if (data)
		args->target = near->to_data;
	else
		args->signal_target = near->to_words;
	args->scope = FI_XPU_WORK_ITEM;
	ret = xpu_launch(args, BLOCKS, 1, side->device);
	FT_CHECK(!ret, "launch: %d", ret);
	/* copies out of the device stand behind its kernel, and meanwhile keep the proxy's from beginning */
	if (side->device >= 0)
		FT_CHECK(!xpu_join(side->device), "a kernel that signals");
	FT_TRY(data ? near_check(side, &near->data, &side->signal)
		    : near_check(side, &side->in, &near->words));
	if (side->device < 0)
		FT_CHECK(!xpu_join(side->device), "threads that signal");
	FT_TRY(await_count(side, 2 * BLOCKS * args->count));
	args->target = target;
	args->signal_target = signal_target;
	args->scope = FI_XPU_WORK_GROUP;
	return ft_meet_all(side->proc);
}

static int scene_messages(struct xpu_side *side, size_t len, unsigned int threads)
{
	for (int sender = 0; sender < 2; sender++) {
		FT_TRY(scene_begin(side, COUNT, len));
		side->args.buf = sender == side->proc->rank ? side->out.addr : side->in.addr;
		FT_TRY(xpu_side_run(side, sender == side->proc->rank ? XPU_SEND : XPU_RECV,
				    threads, NULL));
		side->args.buf = side->out.addr;
		FT_TRY(ft_meet_all(side->proc));
		if (sender != side->proc->rank)
			FT_TRY(check(side, &side->in, "received"));
	}
	return 0;
}

/* Until what the peer's kernel has added is there */
static int await_word(struct xpu_side *side, const struct ft_buf *buf, uint64_t value)
{
	uint64_t word = 0;

	do {
		FT_TRY(buf->ops->from(&word, buf->addr, sizeof(word)));
		FT_TRY(ft_idle(&side->ctx));
	} while (word < value);
	FT_CHECK(word == value, "a word is %" PRIu64 ", not %" PRIu64, word, value);
	return ft_meet_all(side->proc);
}

static int scene_atomics(struct xpu_side *side, unsigned int threads)
{
	size_t most;

	/* where the core has none for host memory, there are none */
	if (fi_atomicvalid(side->ctx.ep, FI_UINT64, FI_SUM, &most))
		return 0;
	FT_TRY(scene_begin(side, COUNT, 16));
	FT_TRY(xpu_side_run(side, XPU_ADD, threads, NULL));
	FT_TRY(await_word(side, &side->signal, BLOCKS * COUNT));
	FT_TRY(scene_begin(side, COUNT, 16));
	FT_TRY(fill(side, &side->in, sizeof(uint64_t), 0));
	FT_TRY(ft_meet_all(side->proc));
	side->args.base = fi_cntr_read(side->rx);
	FT_TRY(xpu_side_run(side, XPU_FETCH, threads, NULL));
	return await_word(side, &side->in, BLOCKS * COUNT);
}

/* The signal behind a put that is refused does not come. */
static int scene_half(struct xpu_side *side, unsigned int threads)
{
	uint64_t word = 1;

	FT_TRY(scene_begin(side, 1, 16));
	side->args.blocks = 1;
	FT_TRY(xpu_side_run(side, XPU_HALF, threads, NULL));
	FT_TRY(ft_meet_all(side->proc));
	FT_TRY(side->signal.ops->from(&word, side->signal.addr, sizeof(word)));
	FT_CHECK(!word, "signalled, and its put was refused");
	return ft_meet_all(side->proc);
}

static int scene_errors(struct xpu_side *side, unsigned int threads)
{
	/* with host memory a core may end the connection */
	const enum xpu_kernel last = side->device < 0 ? XPU_NOBODY : XPU_WRONG;

	FT_TRY(scene_half(side, threads));
	for (int kernel = XPU_NOBODY; kernel >= (int) last; kernel--) {
		FT_TRY(scene_begin(side, 1, 16));
		side->args.blocks = 1;
		side->args.key ^= WRONG_KEY;
		FT_TRY(xpu_side_run(side, (enum xpu_kernel) kernel, threads, NULL));
		side->args.key ^= WRONG_KEY;
		FT_TRY(ft_meet_all(side->proc));
	}
	return 0;
}

static int scene_counter(struct xpu_side *side, unsigned int threads)
{
	int ret;

	FT_TRY(scene_begin(side, 200, 16));
	side->args.blocks = 1;
	FT_TRY(xpu_side_run(side, XPU_COUNT, threads, NULL));
	side->args.kernel = XPU_WAIT;
	FT_TRY(xpu_launch(&side->args, 1, threads, side->device));
	ret = side->xpu->unexport(side->xpu_ctx, &side->args.rx.fid);
	FT_CHECK(!ret, "unexport: %d", ret);
	FT_CHECK(side->xpu->unexport(side->xpu_ctx, &side->args.rx.fid) == -FI_EINVAL,
		 "a counter is exported no more, twice");
	FT_CHECK(!xpu_join(side->device), "a kernel that waits");
	return ft_meet_all(side->proc);
}

/*
 * Many operations of all blocks at once: each adds 1 to a word of the peer's, so that none is lost or
 * done twice. Between those, puts, whose bytes are compared.
 */
static int scene_many(struct xpu_side *side, uint64_t rounds)
{
	struct xpu_args *args = &side->args;
	size_t most;

	if (fi_atomicvalid(side->ctx.ep, FI_UINT64, FI_SUM, &most))
		rounds = 0;
	if (!rounds)
		return 0;
	FT_TRY(scene_begin(side, COUNT, 64));
	for (uint64_t i = 1; i <= rounds; i++) {
		args->count = MANY;
		args->base = fi_cntr_read(side->tx);
		FT_TRY(xpu_side_run(side, XPU_ADD, 1, NULL));
		FT_TRY(await_word(side, &side->signal, BLOCKS * MANY));
		FT_TRY(scene_writes(side, LARGEST, 1));
		FT_TRY(scene_begin(side, COUNT, 64));
		if (!side->proc->rank && i % 10 == 0)
			printf("%" PRIu64 " rounds, %" PRIu64 " additions\n", i,
			       i * BLOCKS * MANY);
	}
	return 0;
}

static int refuse_close(struct fid *fid, const char *what)
{
	int ret = fi_close(fid);

	FT_CHECK(ret == -FI_EBUSY, "%s is in use, and its close is %d", what, ret);
	return 0;
}

/* Objects that are in use are not closed, and kernels use them as before. */
static int scene_close(struct xpu_side *side)
{
	FT_TRY(refuse_close(&side->ctx.cq->fid, "a queue"));
	FT_TRY(refuse_close(&side->tx->fid, "a counter"));
	FT_TRY(refuse_close(&side->ctx.domain->fid, "a domain"));
	FT_TRY(scene_writes(side, 8, 1));
	return scene_messages(side, 8, 1);
}

/* ---- memory that kernels store to themselves ---- */

static int refuse_host(struct xpu_side *side)
{
	unsigned char share[FI_P2P_XPU_SHARE];
	size_t len = sizeof(share);
	int ret = xpu_side_shares(side) ? side->xpu->mr_share(side->in.mr, share, &len)
					: -FI_EOPNOTSUPP;

	FT_CHECK(ret == -FI_EOPNOTSUPP, "kernels are to map memory of the host: %d", ret);
	return 0;
}

/* What suits no target, or another one */
static int refuse_shares(struct xpu_side *side)
{
	const uint32_t number = side->args.target;
	unsigned char share[FI_P2P_XPU_SHARE];
	struct fi_p2p_xpu_ops *xpu = side->xpu;
	size_t len = 0;

	FT_CHECK(xpu->mr_share(side->in.mr, NULL, &len) == -FI_ETOOSMALL && len &&
			 len <= sizeof(share),
		 "a share fits no room, of %zu bytes", len);
	FT_TRY(xpu->mr_share(side->in.mr, share, &len));
	FT_CHECK(xpu->target_map(side->ctx.ep, number, share, len) == -FI_EKEYREJECTED,
		 "a share of another region's");
	FT_CHECK(xpu->target_map(side->ctx.ep, number, share, len - 1) == -FI_EINVAL,
		 "a share that is too short");
	FT_CHECK(xpu->target_map(side->ctx.ep, number + 2, share, len) == -FI_EINVAL,
		 "a target that there is not");
	share[0] ^= 1;
	FT_CHECK(xpu->target_map(side->ctx.ep, number, share, len) == -FI_EINVAL,
		 "what is no share");
	return 0;
}

/* A put that leaves the peer's memory fails at once, and nothing of it is counted. */
static int refuse_outside(struct xpu_side *side)
{
	uint64_t result;

	side->args.blocks = 1;
	side->args.count = 1;
	side->args.len = side->in.size + 1;
	FT_TRY(xpu_side_run(side, XPU_NEAR, 1, &result));
	FT_CHECK(result == FI_EINVAL, "a put beyond mapped memory: %" PRIu64, result);
	return ft_meet_all(side->proc);
}

/* Many of one thread's, if the proxy posts them */
static int scene_burst(struct xpu_side *side, size_t len, bool mapped)
{
	struct xpu_args *args = &side->args;
	uint64_t result[BLOCKS];

	FT_TRY(scene_begin(side, COUNT, len));
	args->blocks = 1;
	FT_TRY(xpu_side_run(side, XPU_BURST, 1, result));
	FT_CHECK(!result[0] == mapped, "a burst, where memory %s mapped",
		 mapped ? "is" : "is not");
	FT_TRY(await_count(side, mapped ? 0 : args->count));
	FT_TRY(ft_meet_all(side->proc));
	args->count = 1;
	return mapped ? 0 : check(side, &side->in, "put in a burst");
}

/* Memory of this process, which nothing would keep there, and the peer's a second time */
static int refuse_again(struct xpu_side *side)
{
	unsigned char share[FI_P2P_XPU_SHARE];
	size_t len = sizeof(share);
	uint32_t number;
	int ret;

	FT_TRY(side->xpu->mr_share(side->in.mr, share, &len));
	ret = side->xpu->target_map(side->ctx.ep, side->args.target, share, len);
	FT_CHECK(ret == -FI_EALREADY, "a target is mapped twice: %d", ret);
	FT_TRY(xpu_side_target(side, &side->out, side->in.base, side->in.key, &number));
	ret = side->xpu->target_map(side->ctx.ep, number, share, len);
	FT_CHECK(ret == -FI_EOPNOTSUPP, "memory of this process is mapped: %d", ret);
	return 0;
}

/* Copies whose ends are aligned in different ways */
static int scene_shifted(struct xpu_side *side, unsigned int threads)
{
	for (side->args.shift = 1; side->args.shift <= 8; side->args.shift++) {
		FT_TRY(scene_begin(side, COUNT, 4097));
		FT_TRY(xpu_side_run(side, XPU_PUT, threads, NULL));
		FT_TRY(await_count(side, BLOCKS * (COUNT + 1)));
		FT_TRY(ft_meet_all(side->proc));
		FT_TRY(check(side, &side->in, "put from elsewhere"));
	}
	side->args.shift = 0;
	return 0;
}

/* Puts and signals are there, and counted, as if the proxy had posted them. */
static int scene_mapped(struct xpu_side *side, uint64_t flags, unsigned int threads)
{
	static const size_t lens[] = {1, 8, 77, 4096, LARGEST};
	const char *path = getenv("FI_P2P_PATH");
	const bool near = !path || strcmp(path, "stage");
	bool can;

	if (side->device < 0)
		return refuse_host(side);
	if (near)
		FT_TRY(refuse_shares(side));
	FT_TRY(xpu_side_map(side, &can));
	FT_CHECK(can == near, "memory %s mapped", can ? "is" : "is not");
	for (size_t i = 0; i < FT_COUNT(lens); i++) {
		FT_TRY(scene_writes(side, lens[i], threads));
		side->args.scope = FI_XPU_SUBGROUP;
		FT_TRY(scene_writes(side, lens[i], threads));
		side->args.scope = FI_XPU_WORK_GROUP;
		if (flags)
			FT_TRY(scene_burst(side, lens[i], near));
	}
	FT_TRY(scene_shifted(side, threads));
	FT_TRY(scene_atomics(side, threads));
	if (!near)
		return 0;
	FT_TRY(refuse_outside(side));
	return refuse_again(side);
}

static int scenes(struct ft_proc *proc, uint64_t flags)
{
	static const size_t lens[] = {1, 8, 4096, LARGEST};
	const unsigned int threads = proc->opts.iface == FI_HMEM_SYSTEM || flags ? 1 : 4;
	struct xpu_side side = {0};
	struct near near;

	FT_TRY(xpu_side_open(&side, proc, flags, BLOCKS * COUNT * LARGEST, BLOCKS, false));
	FT_TRY(scene_mapped(&side, flags, threads));
	/* a target that cannot be mapped: the proxy posts to its peer again */
	FT_TRY(near_open(&side, &near));
	for (size_t i = 0; i < FT_COUNT(lens); i++) {
		FT_TRY(scene_writes(&side, lens[i], threads));
		FT_TRY(scene_messages(&side, lens[i], threads));
		FT_TRY(scene_near(&side, &near, lens[i], false));
		FT_TRY(scene_near(&side, &near, lens[i], true));
	}
	FT_TRY(scene_close(&side));
	FT_TRY(scene_atomics(&side, threads));
	FT_TRY(scene_errors(&side, threads));
	FT_TRY(scene_many(&side, proc->opts.rounds));
	FT_TRY(scene_counter(&side, threads));
	near_close(&near);
	return xpu_side_close(&side);
}

/* An alias of an endpoint is not exported, and has no targets. */
static int refuse_alias(struct xpu_side *side, struct fid_ep *alias)
{
	const struct fi_p2p_xpu_target target = {.buf = side->out.addr};
	struct fid_xpu_ep handle;
	uint32_t number;

	FT_CHECK(side->xpu->ep_export(side->xpu_ctx, alias, 0, &handle) == -FI_EINVAL,
		 "an alias is exported");
	FT_CHECK(side->xpu->target_add(alias, &target, &number) == -FI_EINVAL,
		 "an alias has a target");
	return 0;
}

/* A domain with FI_TRIGGER, whose endpoints have aliases */
static int aliases(struct ft_proc *proc)
{
	struct xpu_side side = {.caps = FI_TRIGGER};
	struct fid_ep *alias;

	FT_TRY(xpu_side_open(&side, proc, 0, BLOCKS * COUNT * 8, BLOCKS, false));
	FT_TRY(fi_ep_alias(side.ctx.ep, &alias, FI_TRANSMIT));
	FT_TRY(refuse_alias(&side, alias));
	FT_TRY(refuse_close(&side.ctx.ep->fid, "an endpoint with an alias"));
	FT_TRY(scene_close(&side));
	FT_TRY(fi_close(&alias->fid));
	return xpu_side_close(&side);
}

/* A kernel that stores itself goes on when the owner has closed the region. */
static int closed(struct ft_proc *proc)
{
	struct xpu_side side = {0};
	bool can;

	if (proc->opts.iface == FI_HMEM_SYSTEM)
		return 0;
	FT_TRY(xpu_side_open(&side, proc, 0, BLOCKS * COUNT * LARGEST, BLOCKS, false));
	FT_TRY(xpu_side_map(&side, &can));
	if (can) {
		FT_TRY(fi_close(&side.in.mr->fid));
		side.in.mr = NULL;
		FT_TRY(scene_begin(&side, COUNT, LARGEST));
		FT_TRY(xpu_side_run(&side, XPU_SIGNAL, 1, NULL));
		FT_TRY(await_count(&side, 2 * BLOCKS * COUNT));
		FT_TRY(ft_meet_all(proc));
		FT_TRY(check(&side, &side.in, "put to a closed region"));
	}
	return xpu_side_close(&side);
}

static int run(struct ft_proc *proc)
{
	scratch = malloc(BLOCKS * COUNT * LARGEST);
	if (!scratch)
		return -FI_ENOMEM;
	FT_TRY(scenes(proc, 0));
	FT_TRY(ft_meet_all(proc));
	/* not where blocks share rings */
	if (!getenv("FI_P2P_XPU_RINGS"))
		FT_TRY(scenes(proc, FI_P2P_XPU_EXCLUSIVE));
	FT_TRY(ft_meet_all(proc));
	FT_TRY(aliases(proc));
	FT_TRY(ft_meet_all(proc));
	FT_TRY(closed(proc));
	free(scratch);
	return 0;
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "GPU kernels that send, receive, write, read and wait.",
		.scope = FT_SCOPE_TEST | FT_SCOPE_ROUNDS,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
