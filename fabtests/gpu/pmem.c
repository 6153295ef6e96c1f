/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_pmem: the host, a kernel and a stream write to a file of another rank with FI_COMMIT_COMPLETE. What
 * is complete is durable: it is in the file, and msync() was called for it since it was written. In the
 * end its owner is killed right after a completion, and every byte is there. Without FI_COMMIT_COMPLETE
 * msync() is not called, so this test would find out if it were not called at all. Who writes may die, too.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "cu.h"
#include "pmem_file.h"
#include "xpu_side.h"

#define VICTIM 1
#define LARGEST ((size_t) 1048577)
#define COMMIT (FI_COMMIT_COMPLETE | FI_COMPLETION)

/* ---- the host ---- */

/**
 * struct host - a rank that the host writes from, or to.
 * @buf:	of rank 0, by kind
 * @next:	what of the file is not written yet
 * @key:	of the next pattern
 * @commits:	how many operations have been made durable
 */
struct host {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct pmem_file file;
	struct ft_buf buf[2];
	size_t kinds, next;
	uint64_t key, commits;
};

/* How a write asks to be durable: by the flags of a call, by those of the endpoint, or not */
enum way { MESSAGE, DEFAULT, INJECT, WAYS, NOT_AT_ALL };

/** struct op - a write of @len bytes of the pattern @key, from @buf at @from to the file at @at */
struct op {
	enum way way;
	const struct ft_buf *buf;
	size_t from, at, len;
	uint64_t key;
};

static ssize_t write_once(struct host *host, const struct op *op, struct ft_req *req)
{
	const uint64_t addr = host->file.base + op->at;
	const struct iovec iov = {op->buf->addr + op->from, op->len};
	const struct fi_rma_iov rma = {addr, op->len, host->file.key};
	void *desc = op->buf->desc;
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = host->ctx.peer[VICTIM],
		.rma_iov = &rma,
		.rma_iov_count = 1,
		.context = req,
	};

	if (op->way == DEFAULT)
		return fi_write(host->ctx.ep, iov.iov_base, op->len, desc, msg.addr, addr,
				rma.key, req);
	return fi_writemsg(host->ctx.ep, &msg,
			   op->way == NOT_AT_ALL ? FI_COMPLETION
			   : op->way == INJECT   ? COMMIT | FI_INJECT
						 : COMMIT);
}

/* After a post had no room */
static int make_room(struct host *host)
{
	int n = ft_progress(&host->ctx);

	return n < 0 ? n : n ? 0 : ft_idle(&host->ctx);
}

/* Posts it, with its pattern. @posted: what the call returns */
static int post(struct host *host, const struct op *op, struct ft_req *req, ssize_t *posted)
{
	unsigned char *bytes = malloc(op->len);
	int ret;

	FT_CHECK(bytes, "no memory for %zu bytes", op->len);
	ft_pattern_fill(bytes, op->len, op->key);
	ret = op->buf->ops->to(op->buf->addr + op->from, bytes, op->len);
	free(bytes);
	FT_TRY(ret);
	*req = (struct ft_req){.done = false};
	while ((*posted = write_once(host, op, req)) == -FI_EAGAIN)
		FT_TRY(make_room(host));
	return 0;
}

/* Writes, and waits. @err: as the completion has it */
static int write_to(struct host *host, const struct op *op, int *err)
{
	struct ft_req req;
	ssize_t posted;

	FT_TRY(post(host, op, &req, &posted));
	*err = (int) -posted;
	if (posted)
		return 0;
	FT_TRY(ft_wait_any_result(&host->ctx, &req, 1));
	*err = req.err;
	return 0;
}

/* A place of @len bytes, at no even address, that shares no page with others */
static size_t place(struct host *host, size_t len)
{
	const size_t at = host->next + 3;

	host->next = (at + len + PMEM_PAGE) & ~(PMEM_PAGE - 1);
	return at;
}

static struct op op_new(struct host *host, enum way way, const struct ft_buf *buf, size_t len)
{
	return (struct op){
		.way = way,
		.buf = buf,
		.at = place(host, len),
		.len = len,
		.key = ++host->key,
	};
}

/* It is complete: it is durable if that was asked for, and only then */
static int check(struct host *host, const struct op *op)
{
	if (op->way == NOT_AT_ALL)
		return pmem_file_lacks(&host->file, op->at, op->len, op->key);
	host->commits++;
	return pmem_file_holds(&host->file, op->at, op->len, op->key);
}

static int write_one(struct host *host, enum way way, const struct ft_buf *buf, size_t len)
{
	const struct op op = op_new(host, way, buf, len);
	int err;

	FT_TRY(write_to(host, &op, &err));
	FT_CHECK(!err, "a write of %zu bytes fails with %d", len, err);
	return check(host, &op);
}

static int scene_writes(struct host *host, const struct ft_buf *buf)
{
	static const size_t lens[] = {1, 8, 4096, 4097, 100003, LARGEST};
	const size_t inject = host->ctx.info->tx_attr->inject_size;

	for (size_t i = 0; i < FT_COUNT(lens); i++) {
		for (int way = 0; way < WAYS; way++) {
			if (way != INJECT || lens[i] <= inject)
				FT_TRY(write_one(host, (enum way) way, buf, lens[i]));
			/* there is room for one of those */
			if (lens[i] == LARGEST)
				break;
		}
	}
	return 0;
}

static int scene_unasked(struct host *host, const struct ft_buf *buf)
{
	FT_TRY(write_one(host, NOT_AT_ALL, buf, 100));
	return write_one(host, NOT_AT_ALL, buf, 70001);
}

#define MANY 128
#define MANY_LEN (LARGEST / MANY)

static struct op ops[MANY];
static struct ft_req reqs[MANY];

/* Short ones and long ones, to be durable or not, all at once, of either kind of memory */
static int post_many(struct host *host)
{
	ssize_t posted;

	for (size_t i = 0; i < MANY; i++) {
		ops[i] = op_new(host, i % 3 ? MESSAGE : NOT_AT_ALL, &host->buf[i % host->kinds],
				i % 5 ? 100 : MANY_LEN);
		ops[i].from = i * MANY_LEN;
		FT_TRY(post(host, &ops[i], &reqs[i], &posted));
		FT_CHECK(!posted, "write %zu of many: %zd", i, posted);
	}
	return 0;
}

static int scene_many(struct host *host)
{
	FT_TRY(post_many(host));
	FT_TRY(ft_wait(&host->ctx, reqs, MANY));
	for (size_t i = 0; i < MANY; i++)
		FT_TRY(check(host, &ops[i]));
	return 0;
}

/* What cannot be made durable is an error, not complete. */
static int scene_broken(struct host *host, const struct ft_buf *buf)
{
	static const size_t lens[] = {100, 2 * PMEM_PAGE};

	for (size_t i = 0; i < FT_COUNT(lens); i++) {
		const struct op op = {
			.way = MESSAGE,
			.buf = buf,
			.at = PMEM_SIZE - lens[i],
			.len = lens[i],
		};
		int err;

		FT_TRY(write_to(host, &op, &err));
		FT_CHECK(err == FI_EIO, "msync fails, and a write of %zu bytes ends with %d",
			 lens[i], err);
	}
	return 0;
}

/* Other memory than a file is refused: at once, or by its owner. */
static int scene_elsewhere(struct host *host, const struct pmem_file *elsewhere)
{
	const struct op op = {.way = MESSAGE, .buf = &host->buf[0], .len = 100};
	const struct pmem_file file = host->file;
	int err, ret;

	host->file.key = elsewhere->key;
	host->file.base = elsewhere->base;
	ret = write_to(host, &op, &err);
	host->file = file;
	FT_TRY(ret);
	FT_CHECK(err == FI_EOPNOTSUPP,
		 "what is not in a file is to be durable, and that ends with %d", err);
	return 0;
}

static int scene_atomics(struct host *host)
{
	const struct ft_buf *buf = &host->buf[host->kinds - 1];
	const size_t at = (host->next + 15) & ~(size_t) 7;
	const uint64_t addr = host->file.base + at, values[] = {40, 0};
	uint64_t word, found;
	ssize_t ret;

	host->next = at + PMEM_PAGE;
	if (!(host->ctx.info->caps & FI_ATOMIC))
		return 0;
	for (uint64_t i = 1; i <= 2; i++) {
		struct ft_req req = {.done = false};

		FT_TRY(buf->ops->to(buf->addr, values, sizeof(values)));
		do {
			ret = i == 1 ? fi_atomic(host->ctx.ep, buf->addr, 1, buf->desc,
						 host->ctx.peer[VICTIM], addr, host->file.key,
						 FI_UINT64, FI_SUM, &req)
				     : fi_fetch_atomic(host->ctx.ep, buf->addr, 1, buf->desc,
						       buf->addr + 8, buf->desc,
						       host->ctx.peer[VICTIM], addr,
						       host->file.key, FI_UINT64, FI_SUM, &req);
			FT_TRY(ret == -FI_EAGAIN ? make_room(host) : 0);
		} while (ret == -FI_EAGAIN);
		if (ret)
			return ft_fail((int) ret, "fi_atomic", "FI_COMMIT_COMPLETE");
		FT_TRY(ft_wait(&host->ctx, &req, 1));
		FT_TRY(pmem_file_word(&host->file, at, &word));
		FT_CHECK(word == 40 * i, "a durable word is %" PRIu64 ", not %" PRIu64, word,
			 40 * i);
		host->commits++;
	}
	FT_TRY(buf->ops->from(&found, buf->addr + 8, sizeof(found)));
	FT_CHECK(found == 40, "what was fetched is %" PRIu64, found);
	return 0;
}

/* Both know how many operations were to be made durable, and the provider has counted. */
static int check_count(struct host *host)
{
	const int fd = host->proc->fd[!host->proc->rank];
	struct fi_p2p_stats_ops *ops;
	struct fi_p2p_stats stats;
	uint64_t commits;
	int ret;

	FT_TRY(ft_barrier(host->proc, &host->ctx));
	if (host->proc->rank != VICTIM)
		return ft_oob_send(fd, &host->commits, sizeof(host->commits));
	FT_TRY(ft_oob_recv(fd, &commits, sizeof(commits), host->proc->opts.timeout));
	ret = fi_open_ops(&host->ctx.ep->fid, FI_P2P_STATS_OPS, 0, (void **) &ops, NULL);
	if (!ret)
		ret = ops->read(&host->ctx.ep->fid, &stats, sizeof(stats));
	if (ret)
		return ft_fail(ret, "fi_open_ops", FI_P2P_STATS_OPS);
	FT_CHECK(stats.commits == commits, "%" PRIu64 " operations are durable, not %" PRIu64,
		 stats.commits, commits);
	return 0;
}

static int write_all(struct host *host)
{
	struct pmem_file elsewhere;

	FT_TRY(pmem_file_meet(&host->file, host->proc));
	FT_TRY(ft_oob_recv(host->proc->fd[VICTIM], &elsewhere, sizeof(elsewhere),
			   host->proc->opts.timeout));
	for (size_t i = 0; i < host->kinds; i++) {
		FT_TRY(scene_writes(host, &host->buf[i]));
		FT_TRY(scene_unasked(host, &host->buf[i]));
		FT_TRY(scene_broken(host, &host->buf[i]));
	}
	FT_TRY(scene_many(host));
	FT_TRY(scene_elsewhere(host, &elsewhere));
	FT_TRY(scene_atomics(host));
	FT_TRY(check_count(host));
	for (size_t i = 0; i < host->kinds; i++)
		ft_buf_free(&host->buf[i]);
	pmem_file_close(&host->file);
	return ft_close(&host->ctx);
}

static int be_written(struct host *host)
{
	struct pmem_file elsewhere = {.file = -1};

	FT_TRY(pmem_file_make(&host->file, host->proc, &host->ctx));
	FT_TRY(ft_buf_share(&host->ctx, &host->buf[host->kinds - 1], FI_REMOTE_WRITE));
	elsewhere.key = host->buf[host->kinds - 1].key;
	elsewhere.base = host->buf[host->kinds - 1].base;
	FT_TRY(ft_oob_send(host->proc->fd[0], &elsewhere, sizeof(elsewhere)));
	FT_TRY(check_count(host));
	for (size_t i = 0; i < host->kinds; i++)
		ft_buf_free(&host->buf[i]);
	FT_TRY(fi_close(&host->file.mr->fid));
	pmem_file_close(&host->file);
	return ft_close(&host->ctx);
}

static int open_host(struct host *host, struct ft_proc *proc)
{
	enum fi_hmem_iface kinds[2];

	*host = (struct host){.proc = proc, .next = PMEM_PAGE};
	host->kinds = ft_kinds(&proc->opts, kinds);
	FT_TRY(ft_test_hints(proc, &host->ctx));
	host->ctx.hints->caps |= FI_RMA | FI_RMA_PMEM | FI_ATOMIC;
	host->ctx.hints->tx_attr->op_flags |= FI_COMMIT_COMPLETE;
	if (!ft_offered(&host->ctx))
		host->ctx.hints->caps &= ~FI_ATOMIC;
	FT_TRY(ft_test_open(proc, &host->ctx));
	FT_TRY(ft_test_connect(proc, &host->ctx));
	for (size_t i = 0; i < host->kinds; i++)
		FT_TRY(ft_buf_alloc(&host->ctx, &host->buf[i], kinds[i], LARGEST));
	return 0;
}

static int run_host(struct ft_proc *proc)
{
	struct host host;

	FT_TRY(open_host(&host, proc));
	return proc->rank == VICTIM ? be_written(&host) : write_all(&host);
}

/* ---- who writes dies ---- */

static int write_and_die(struct host *host)
{
	FT_TRY(pmem_file_meet(&host->file, host->proc));
	FT_TRY(post_many(host));
	raise(SIGKILL);
	return -FI_EOTHER;
}

/* All closes, with writes that are being made durable, and others that go no further. */
static int survive(struct host *host)
{
	/* ofi_rxm keeps what it has registered for a message whose sender dies while it reads that */
	const bool keeps = MANY_LEN > ft_whole_max(&host->ctx);
	int ret;

	FT_TRY(pmem_file_make(&host->file, host->proc, &host->ctx));
	while (!ft_oob_closed(host->proc->fd[0])) {
		ret = ft_progress(&host->ctx);
		FT_TRY(ret < 0 ? ret : 0);
	}
	ret = fi_close(&host->ctx.ep->fid);
	if (ret)
		return ft_fail(ret, "fi_close", "endpoint");
	host->ctx.ep = NULL;
	ret = fi_close(&host->file.mr->fid);
	if (ret)
		return ft_fail(ret, "fi_close", "region");
	for (size_t i = 0; i < host->kinds; i++)
		ft_buf_free(&host->buf[i]);
	pmem_file_close(&host->file);
	ret = ft_close(&host->ctx);
	if (ret != -FI_EBUSY || !keeps)
		return ret;
	printf("note: ofi_rxm does not close its domain after a peer's death\n");
	return 0;
}

static int run_death(struct ft_proc *proc)
{
	struct host host;

	FT_TRY(open_host(&host, proc));
	return proc->rank == VICTIM ? survive(&host) : write_and_die(&host);
}

/* ---- kernels and streams ---- */

#define BLOCKS 4
#define COUNT 3
#define KERNEL_LARGEST ((size_t) 70001)

/* Fills the buffer with the pattern of @key */
static int fill(struct xpu_side *side, size_t len, uint64_t key)
{
	unsigned char *bytes = malloc(len);
	int ret;

	FT_CHECK(bytes, "no memory for %zu bytes", len);
	ft_pattern_fill(bytes, len, key);
	ret = side->out.ops->to(side->out.addr, bytes, len);
	free(bytes);
	return ret;
}

/* The kernel learns by its counter that all it has written is durable. */
static int scene_kernel(struct xpu_side *side, const struct pmem_file *file, size_t at,
			size_t len, bool last)
{
	struct xpu_args *args = &side->args;
	struct pmem_file victim = *file;
	const size_t all = BLOCKS * COUNT * len;

	args->blocks = BLOCKS;
	args->count = COUNT;
	args->len = len;
	args->base = fi_cntr_read(side->tx);
	args->key = file->key;
	args->there = file->base + at;
	FT_TRY(fill(side, all, len));
	FT_TRY(xpu_side_run(side, XPU_COMMIT, 1, NULL));
	if (last)
		FT_TRY(pmem_file_kill(&victim, side->proc));
	return pmem_file_holds(file, at, all, len);
}

static int scene_stream(struct xpu_side *side, const struct pmem_file *file, size_t at,
			size_t len)
{
	struct fi_p2p_stream_op op =
		fi_p2p_stream_op_of(FI_P2P_STREAM_WRITE, side->out.addr, len, side->out.desc,
				    side->ctx.peer[VICTIM], NULL);
	const uint64_t before = fi_cntr_read(side->tx);
	void *stream;
	int ret;

	op.flags = FI_COMMIT_COMPLETE;
	op.addr = file->base + at;
	op.key = file->key;
	FT_TRY(cu_load());
	CU(stream_create(&stream, CU_NON_BLOCKING));
	FT_TRY(fill(side, len, at));
	ret = fi_p2p_stream_post(side->ctx.ep, &op, stream);
	if (!ret)
		ret = fi_p2p_stream_wait(&side->tx->fid, before + 1, stream);
	if (ret)
		return ft_fail(ret, "fi_p2p_stream_post", "FI_COMMIT_COMPLETE");
	CU(synchronize(stream));
	FT_TRY(pmem_file_holds(file, at, len, at));
	CU(stream_destroy(stream));
	return 0;
}

static int write_from_gpu(struct xpu_side *side)
{
	static const size_t lens[] = {56, 4096, KERNEL_LARGEST};
	struct pmem_file file;
	size_t at = 5;

	FT_TRY(pmem_file_meet(&file, side->proc));
	if (side->device >= 0)
		FT_TRY(scene_stream(side, &file, PMEM_SIZE / 2 + 1, KERNEL_LARGEST));
	for (size_t i = 0; i < FT_COUNT(lens); i++) {
		FT_TRY(scene_kernel(side, &file, at, lens[i], i == FT_COUNT(lens) - 1));
		at += (BLOCKS * COUNT + 1) * lens[i];
	}
	pmem_file_close(&file);
	return xpu_side_close(side);
}

/* Until it is killed */
static int wait_for_death(struct xpu_side *side)
{
	struct pmem_file file;

	FT_TRY(pmem_file_make(&file, side->proc, &side->ctx));
	for (;;)
		FT_TRY(ft_idle(&side->ctx));
}

static int run_kernel(struct ft_proc *proc)
{
	struct xpu_side side = {.caps = FI_RMA_PMEM};

	FT_TRY(xpu_side_open(&side, proc, 0, BLOCKS * COUNT * KERNEL_LARGEST, BLOCKS, false));
	return proc->rank == VICTIM ? wait_for_death(&side) : write_from_gpu(&side);
}

int main(int argc, char **argv)
{
	static const struct ft_test tests[] = {
		{
			.purpose = "Writes to a file of another rank that are to be durable.",
			.ranks = 2,
			.may_die = -1,
			.run = run_host,
		},
		{.ranks = 2, .may_die = VICTIM, .run = run_kernel},
		{.ranks = 2, .may_die = !VICTIM, .run = run_death},
	};
	struct ft_opts opts;
	int ret;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ft_options_parse(&opts, FT_SCOPE_TEST, tests[0].purpose, argc, argv);
	for (size_t i = 0; i < FT_COUNT(tests); i++) {
		ret = ft_test_round(&tests[i], &opts);
		if (ret != EXIT_SUCCESS)
			return ret;
	}
	printf("passed\n");
	return EXIT_SUCCESS;
}
