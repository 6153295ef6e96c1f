/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu_rma: kernels read, write and do atomic operations by the calls of fi_xpu(3). First the proxy posts them all. Then
 * the peer's memory is mapped: kernels do themselves what is short, the proxy the rest, and nobody sees a difference. Once
 * the owner has closed its region, the proxy's are refused. So it shows which those are.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "xpu_side.h"

#define BLOCKS 6
#define COUNT 5
#define LONGEST ((size_t) 20011)
#define SIZE (BLOCKS * COUNT * LONGEST + 64)
/* One thread copies so much itself, wherever it begins */
#define SHORTEST 61
#define TICKETS 2000

static unsigned char *scratch; /* SIZE bytes */

static int fill(const struct ft_buf *buf, uint64_t key)
{
	ft_pattern_fill(scratch, buf->size, key);
	return buf->ops->to(buf->addr, scratch, buf->size);
}

static int scene_begin(struct xpu_side *side, uint64_t blocks, uint64_t count, size_t len,
		       int scope)
{
	struct xpu_args *args = &side->args;

	args->blocks = blocks;
	args->count = count;
	args->len = len;
	args->scope = scope;
	FT_TRY(fill(&side->in, 10 + (uint64_t) side->proc->rank));
	FT_TRY(fill(&side->out, 20 + (uint64_t) side->proc->rank));
	return ft_meet_all(side->proc);
}

/* Of @buf, @len bytes from @at on are those from @from on of what the pattern of @key fills; all others are as they were, by @old */
static int check(const struct ft_buf *buf, size_t at, size_t len, size_t from, uint64_t key,
		 uint64_t old, const char *what)
{
	unsigned char *expected = malloc(2 * buf->size);
	size_t i = 0;

	FT_CHECK(expected, "no memory for %zu bytes", buf->size);
	ft_pattern_fill(expected, buf->size, old);
	ft_pattern_fill(expected + buf->size, buf->size, key);
	memcpy(expected + at, expected + buf->size + from, len);
	FT_TRY(buf->ops->from(scratch, buf->addr, buf->size));
	while (i < buf->size && scratch[i] == expected[i])
		i++;
	free(expected);
	FT_CHECK(i == buf->size, "%s: byte %zu of %zu is wrong", what, i, at + len);
	return 0;
}

/* Writes, or with XPU_READ reads, whose bytes here lie @shift further from an aligned address than those there */
static int scene_bytes(struct xpu_side *side, enum xpu_kernel kernel, size_t len,
		       unsigned int threads, int scope, size_t shift)
{
	const uint64_t peer = (uint64_t) !side->proc->rank, rank = (uint64_t) side->proc->rank;
	const size_t all = BLOCKS * COUNT * len;
	struct xpu_args *args = &side->args;

	FT_TRY(scene_begin(side, BLOCKS, COUNT, len, scope));
	args->base = fi_cntr_read(kernel == XPU_READ ? side->rx : side->tx);
	args->buf = side->out.addr + shift;
	FT_TRY(xpu_side_run(side, kernel, threads, NULL));
	args->buf = side->out.addr;
	FT_TRY(ft_meet_all(side->proc));
	if (kernel == XPU_READ)
		return check(&side->out, shift, all, 0, 10 + peer, 20 + rank, "read");
	return check(&side->in, 0, all, shift, 20 + peer, 10 + rank, "written");
}

static int scene_shapes(struct xpu_side *side, unsigned int threads)
{
	static const size_t lens[] = {1, 8, 77, 1000, 4096, LONGEST};
	static const enum xpu_kernel kernels[] = {XPU_WRITE, XPU_READ};

	for (size_t k = 0; k < FT_COUNT(kernels); k++) {
		for (size_t i = 0; i < FT_COUNT(lens); i++) {
			FT_TRY(scene_bytes(side, kernels[k], lens[i], threads,
					   FI_XPU_WORK_GROUP, 0));
			FT_TRY(scene_bytes(side, kernels[k], lens[i], threads, FI_XPU_SUBGROUP,
					   1));
			FT_TRY(scene_bytes(side, kernels[k], lens[i], 1, FI_XPU_WORK_ITEM, 4));
		}
	}
	return 0;
}

/* The kernel's own, and the proxy's between them: each has an entry of the same contents, and all bytes come */
static int scene_parts(struct xpu_side *side, unsigned int threads)
{
	const uint64_t writes = 2 * BLOCKS * COUNT, base = fi_cntr_read(side->tx);
	uint64_t results[BLOCKS], sum = 0;

	FT_TRY(scene_begin(side, BLOCKS, COUNT, LONGEST, FI_XPU_WORK_GROUP));
	FT_TRY(xpu_side_run(side, XPU_PARTS, threads, results));
	for (int i = 0; i < BLOCKS; i++) {
		FT_CHECK(results[i], "block %d: an entry is wrong", i);
		sum += results[i];
	}
	FT_CHECK(sum == writes * (writes + 1) / 2,
		 "some entries are there twice, or not at all");
	while (fi_cntr_read(side->tx) < base + writes) {
		FT_CHECK(!fi_cntr_readerr(side->tx), "a write has failed");
		FT_TRY(ft_idle(&side->ctx));
	}
	FT_TRY(ft_meet_all(side->proc));
	return check(&side->in, 0, BLOCKS * COUNT * LONGEST, 0,
		     20 + (uint64_t) !side->proc->rank, 10 + (uint64_t) side->proc->rank,
		     "written in two parts");
}

/* Both ranks add to one word of the second's. @sum: what the kernel has told */
static int contend(struct xpu_side *side, enum xpu_kernel kernel, uint64_t *sum)
{
	const uint64_t zero = 0;

	FT_TRY(scene_begin(side, 1, TICKETS, 8, FI_XPU_WORK_ITEM));
	FT_TRY(side->in.ops->to(side->in.addr, &zero, sizeof(zero)));
	side->args.base = fi_cntr_read(side->rx);
	FT_TRY(ft_meet_all(side->proc));
	FT_TRY(xpu_side_run(side, kernel, 1, sum));
	return ft_meet_all(side->proc);
}

static int check_word(const struct xpu_side *side)
{
	uint64_t word = 0;

	FT_TRY(side->in.ops->from(&word, side->in.addr, sizeof(word)));
	FT_CHECK(!side->proc->rank || (uint32_t) word == 2 * TICKETS,
		 "of %d additions %" PRIu32 " are there", 2 * TICKETS, (uint32_t) word);
	return 0;
}

/* No two draw the same ticket: one from afar, the other where the word is */
static int scene_contended(struct xpu_side *side)
{
	const int fd = side->proc->fd[!side->proc->rank];
	const uint64_t all = 2 * TICKETS;
	uint64_t mine, theirs;

	FT_TRY(contend(side, XPU_TICKET, &mine));
	FT_TRY(check_word(side));
	FT_TRY(ft_oob_send(fd, &mine, sizeof(mine)));
	FT_TRY(ft_oob_recv(fd, &theirs, sizeof(theirs), side->proc->opts.timeout));
	FT_CHECK(mine + theirs == all * (all - 1) / 2, "a ticket was drawn twice");
	FT_TRY(contend(side, XPU_SWAP, &mine));
	FT_CHECK(!mine, "a comparison has failed with %" PRIu64, mine);
	return check_word(side);
}

/* A word that kernels change is not the proxy's to change, which the memory here would want */
static int scene_elsewhere(struct xpu_side *side)
{
	uint64_t error = 0;

	FT_TRY(scene_begin(side, 1, 1, 8, FI_XPU_WORK_ITEM));
	FT_TRY(xpu_side_run(side, XPU_ELSEWHERE, 1, &error));
	FT_CHECK(error == FI_EOPNOTSUPP,
		 "a result in another allocation: error %" PRIu64 ", not %d", error,
		 FI_EOPNOTSUPP);
	return ft_meet_all(side->proc);
}

/* The proxy is refused what suits no memory of the peer's, whatever is mapped */
static int refuse(struct xpu_side *side, size_t len, uint64_t at, uint64_t key)
{
	struct xpu_args *args = &side->args;
	const struct xpu_args before = *args;
	int ret;

	args->blocks = args->count = 1;
	args->len = len;
	args->scope = FI_XPU_WORK_GROUP;
	args->there += at;
	args->key ^= key;
	ret = xpu_side_run(side, XPU_WRONG, 1, NULL);
	*args = before;
	return ret ? ret : ft_meet_all(side->proc);
}

static int scene_refused(struct xpu_side *side)
{
	/* with host memory a core may end the connection */
	if (side->device < 0)
		return 0;
	FT_TRY(refuse(side, 16, 0, 0x5a5a));
	FT_TRY(refuse(side, 16, SIZE, 0));
	FT_TRY(refuse(side, 16, SIZE - 15, 0));
	return refuse(side, 16, (uint64_t) -8, 0);
}

static int scene_all(struct xpu_side *side, unsigned int threads)
{
	FT_TRY(scene_shapes(side, threads));
	FT_TRY(scene_parts(side, threads));
	return scene_refused(side);
}

/* What kernels do themselves goes on, and nothing else */
static int scene_closed(struct xpu_side *side, unsigned int threads)
{
	FT_TRY(fi_close(&side->in.mr->fid));
	side->in.mr = NULL;
	FT_TRY(ft_meet_all(side->proc));
	for (size_t shift = 0; shift < 2; shift++) {
		FT_TRY(scene_bytes(side, XPU_WRITE, SHORTEST, threads, FI_XPU_WORK_GROUP,
				   shift));
		FT_TRY(scene_bytes(side, XPU_READ, SHORTEST, threads, FI_XPU_WORK_GROUP,
				   shift));
	}
	FT_TRY(scene_contended(side));
	return refuse(side, LONGEST, 0, 0);
}

static int scenes(struct ft_proc *proc, uint64_t flags)
{
	const char *path = getenv("FI_P2P_PATH");
	const bool near =
		proc->opts.iface != FI_HMEM_SYSTEM && (!path || strcmp(path, "stage"));
	const unsigned int threads = near && !flags ? 4 : 1;
	struct xpu_side side = {0};
	bool can = false;

	FT_TRY(xpu_side_open(&side, proc, flags, SIZE, BLOCKS, false));
	FT_TRY(scene_all(&side, threads));
	if (side.device >= 0)
		FT_TRY(xpu_side_map(&side, &can));
	FT_CHECK(can == near, "memory %s mapped", can ? "is" : "is not");
	if (can) {
		FT_TRY(scene_all(&side, threads));
		FT_TRY(scene_contended(&side));
		FT_TRY(scene_elsewhere(&side));
		FT_TRY(scene_closed(&side, threads));
	}
	return xpu_side_close(&side);
}

/* All that follows an operation with FI_FENCE waits for it. So such endpoints leave all of it to the proxy. */
static int fenced(struct ft_proc *proc)
{
	struct xpu_side side = {.caps = FI_FENCE};
	bool can;

	if (proc->opts.iface == FI_HMEM_SYSTEM)
		return 0;
	FT_TRY(xpu_side_open(&side, proc, 0, SIZE, BLOCKS, false));
	FT_TRY(xpu_side_map(&side, &can));
	FT_TRY(scene_bytes(&side, XPU_WRITE, 77, 4, FI_XPU_WORK_GROUP, 0));
	FT_TRY(fi_close(&side.in.mr->fid));
	side.in.mr = NULL;
	FT_TRY(ft_meet_all(proc));
	FT_TRY(refuse(&side, 16, 0, 0));
	return xpu_side_close(&side);
}

static int run(struct ft_proc *proc)
{
	scratch = malloc(SIZE);
	if (!scratch)
		return -FI_ENOMEM;
	FT_TRY(scenes(proc, 0));
	FT_TRY(ft_meet_all(proc));
	/* not where blocks share rings */
	if (!getenv("FI_P2P_XPU_RINGS"))
		FT_TRY(scenes(proc, FI_P2P_XPU_EXCLUSIVE));
	FT_TRY(ft_meet_all(proc));
	FT_TRY(fenced(proc));
	free(scratch);
	return 0;
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "GPU kernels that read, write and do atomic operations, by "
			   "themselves where memory is mapped.",
		.scope = FT_SCOPE_TEST,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
