/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_settled: what the application has written to device memory is in what is read of it as soon as the call
 * has returned, or the stream has been synchronised. So it is for each kind of CUDA memory, for each way in which an
 * application may have written it, and whoever reads: a send, a write to the peer, the peer's read, and its atomic
 * operation. Each round has other bytes, so bytes of the round before show.
 *
 * At first the endpoint is there before the process uses the GPU; then the other way round.
 */
#include <stdlib.h>
#include <string.h>

#include "cudamem.h"
#include "ft_test.h"
#include "dev/p2p_cuda_abi.h"

#define LARGEST ((size_t) (1 << 20))

static const size_t sizes[] = {8, 4096, 32768, 65536, 131072, LARGEST};

static struct {
	CUresult (*copy_htod)(CUdeviceptr dst, const void *src, size_t len);
	CUresult (*copy_any)(CUdeviceptr dst, CUdeviceptr src, size_t len);
	CUresult (*copy_dtod)(CUdeviceptr dst, CUdeviceptr src, size_t len);
	CUresult (*copy_async)(CUdeviceptr dst, const void *src, size_t len, CUstream stream);
	CUresult (*set)(CUdeviceptr dst, unsigned char byte, size_t len);
	CUresult (*set_async)(CUdeviceptr dst, unsigned char byte, size_t len, CUstream stream);
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_sync)(CUstream stream);
	CUresult (*stream_destroy)(CUstream stream);
} cuda;

static const struct ft_symbol symbols[] = {
	{"cuMemcpyHtoD_v2", &cuda.copy_htod},
	{"cuMemcpy", &cuda.copy_any},
	{"cuMemcpyDtoD_v2", &cuda.copy_dtod},
	{"cuMemcpyHtoDAsync_v2", &cuda.copy_async},
	{"cuMemsetD8_v2", &cuda.set},
	{"cuMemsetD8Async", &cuda.set_async},
	{"cuStreamCreate", &cuda.stream_create},
	{"cuStreamSynchronize", &cuda.stream_sync},
	{"cuStreamDestroy_v2", &cuda.stream_destroy},
};

enum writer { BY_HTOD, BY_ANY, BY_DEVICE, BY_SET, BY_STREAM, BY_STREAM_SET, WRITERS };
static const char *const writers[] = {"cuMemcpyHtoD",       "cuMemcpy",
				      "cuMemcpyDtoD",       "cuMemset",
				      "a copy in a stream", "a memset in a stream"};

enum reader { SENT, WRITTEN, READ, FETCHED, READERS };
static const char *const readers[] = {"sent", "written to the peer", "read by the peer",
				      "fetched by the peer"};

struct name {
	uint64_t base, key;
};

/*
 * Rank 1 writes @buf and rank 0 checks what it gets in host memory, @taken.
 * @host: pageable, what is copied to the device; @right: what rank 0 expects; @by: device memory that it is copied by
 * @target: @taken, for writes; @source: rank 1's @buf; @reached: peers reach them; @fetches: elements of one atomic operation
 */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	CUstream stream;
	unsigned char *host;
	struct ft_buf by, taken;
	struct name target, source;
	bool reached;
	size_t fetches;
	uint64_t round;
};

/* What is written in this round */
static void make_bytes(struct side *s, size_t len, enum writer writer)
{
	if (writer == BY_SET || writer == BY_STREAM_SET)
		memset(s->host, (int) (s->round & 0xff), len);
	else
		ft_pattern_fill(s->host, len, s->round);
}

static int write_in_stream(struct side *s, CUdeviceptr dst, size_t len, enum writer writer)
{
	if (writer == BY_STREAM)
		FT_TRY(ft_cuda_check(cuda.copy_async(dst, s->host, len, s->stream),
				     "cuMemcpyHtoDAsync"));
	else
		FT_TRY(ft_cuda_check(cuda.set_async(dst, s->host[0], len, s->stream),
				     "cuMemsetD8Async"));
	return ft_cuda_check(cuda.stream_sync(s->stream), "cuStreamSynchronize");
}

static int write_buffer(struct side *s, const struct ft_buf *buf, size_t len,
			enum writer writer)
{
	const CUdeviceptr dst = (uintptr_t) buf->addr, by = (uintptr_t) s->by.addr;

	make_bytes(s, len, writer);
	switch (writer) {
	case BY_HTOD:
		return ft_cuda_check(cuda.copy_htod(dst, s->host, len), "cuMemcpyHtoD");
	case BY_ANY:
		return ft_cuda_check(cuda.copy_any(dst, (uintptr_t) s->host, len), "cuMemcpy");
	case BY_DEVICE:
		FT_TRY(ft_cuda_check(cuda.copy_htod(by, s->host, len), "cuMemcpyHtoD"));
		return ft_cuda_check(cuda.copy_dtod(dst, by, len), "cuMemcpyDtoD");
	case BY_SET:
		return ft_cuda_check(cuda.set(dst, s->host[0], len), "cuMemsetD8");
	default:
		return write_in_stream(s, dst, len, writer);
	}
}

/* How many of the last bytes an atomic operation fetches: those that a copy writes last */
static size_t fetched(const struct side *s, size_t len)
{
	return FT_MIN(len / 8, s->fetches) * 8;
}

static int check(struct side *s, size_t len, enum writer writer, enum reader reader,
		 const char *kind)
{
	const size_t start = reader == FETCHED ? len - fetched(s, len) : 0;
	const unsigned char *got = (unsigned char *) s->taken.addr;

	make_bytes(s, len, writer);
	for (size_t i = start; i < len; i++)
		FT_CHECK(got[i] == s->host[i],
			 "%zu bytes of %s memory, by %s, %s: byte %zu is 0x%02x and not 0x%02x",
			 len, kind, writers[writer], readers[reader], i, got[i], s->host[i]);
	return 0;
}

static ssize_t post_remote(struct side *s, const struct ft_buf *buf, size_t len,
			   enum reader reader, struct ft_req *req)
{
	const struct name *there = reader == WRITTEN ? &s->target : &s->source;
	const size_t start = reader == FETCHED ? len - fetched(s, len) : 0;
	char *here = (reader == WRITTEN ? buf : &s->taken)->addr + start;
	void *desc = (reader == WRITTEN ? buf : &s->taken)->desc;
	const struct iovec iov = {here, len};
	const struct fi_rma_iov remote = {there->base, len, there->key};
	const fi_addr_t peer = s->ctx.peer[!s->proc->rank];
	const struct fi_msg_rma msg = {&iov, &desc, 1, peer, &remote, 1, req, 0};

	if (reader == WRITTEN)
		return fi_writemsg(s->ctx.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	if (reader == READ)
		return fi_readmsg(s->ctx.ep, &msg, FI_COMPLETION);
	return fi_fetch_atomic(s->ctx.ep, here, fetched(s, len) / 8, desc, here, desc, peer,
			       there->base + start, there->key, FI_UINT64, FI_ATOMIC_READ, req);
}

static int remote(struct side *s, const struct ft_buf *buf, size_t len, enum reader reader)
{
	struct ft_req req = {0};
	ssize_t ret;

	while ((ret = post_remote(s, buf, len, reader, &req)) == -FI_EAGAIN) {
		if (ft_progress(&s->ctx) < 0)
			return -FI_EOTHER;
	}
	FT_CHECK(!ret, "%zu bytes that are %s are refused: %s", len, readers[reader],
		 fi_strerror((int) -ret));
	return ft_wait(&s->ctx, &req, 1);
}

static int message(struct side *s, const struct ft_buf *buf, size_t len)
{
	const bool sends = s->proc->rank == 1;
	struct ft_req req = {0};
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = s->ctx.peer[!s->proc->rank],
		.tag = s->round,
		.req = &req,
	};

	ft_op_buf(&op, sends ? buf : &s->taken, 0, len);
	FT_TRY(ft_post(&s->ctx, &op));
	return ft_wait(&s->ctx, &req, 1);
}

/* Rank 1 has written and rank 0 knows; nobody has synchronised anything for that. */
static int one(struct side *s, const struct ft_buf *buf, size_t len, enum writer writer,
	       enum reader reader)
{
	const bool writes = s->proc->rank == 1;

	s->round++;
	if (writes)
		FT_TRY(write_buffer(s, buf, len, writer));
	if (reader == READ || reader == FETCHED)
		FT_TRY(ft_meet(s->proc));
	if (reader == SENT)
		FT_TRY(message(s, buf, len));
	else if (writes == (reader == WRITTEN))
		FT_TRY(remote(s, buf, len, reader));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	if (!writes)
		FT_TRY(check(s, len, writer, reader, buf->ops->name));
	return ft_barrier(s->proc, &s->ctx);
}

static bool can(const struct side *s, size_t len, enum reader reader)
{
	return reader == SENT || (s->reached && (reader != FETCHED || fetched(s, len)));
}

/* What @rank offers to the other end */
static int offer(struct side *s, int rank, struct ft_buf *buf, uint64_t access,
		 struct name *name)
{
	if (s->proc->rank != rank)
		return ft_oob_recv(s->proc->fd[rank], name, sizeof(*name),
				   s->proc->opts.timeout);
	FT_TRY(ft_buf_share(&s->ctx, buf, access));
	*name = (struct name){buf->base, buf->key};
	return ft_oob_send(s->proc->fd[!rank], name, sizeof(*name));
}

/* @first, @step: the sizes */
static int play(struct side *s, const struct ft_mem_ops *ops, size_t first, size_t step)
{
	const size_t all = FT_COUNT(sizes) / step * WRITERS * READERS;
	struct ft_buf buf = {0};

	FT_TRY(ft_buf_alloc_by(&s->ctx, &buf, ops, LARGEST));
	if (s->reached)
		FT_TRY(offer(s, 1, &buf, FI_REMOTE_READ, &s->source));
	for (size_t i = 0; i < all; i++) {
		const size_t len = sizes[first + i / READERS / WRITERS * step];
		const enum reader reader = i % READERS;

		if (can(s, len, reader))
			FT_TRY(one(s, &buf, len, i / READERS % WRITERS, reader));
	}
	ft_buf_free(&buf);
	return 0;
}

static int ask(struct side *s)
{
	FT_TRY(ft_test_hints(s->proc, &s->ctx));
	s->ctx.hints->caps |= FI_RMA | FI_ATOMIC;
	if (!ft_offered(&s->ctx))
		s->ctx.hints->caps &= ~FI_ATOMIC;
	if (!ft_offered(&s->ctx))
		s->ctx.hints->caps &= ~FI_RMA;
	return 0;
}

static int open_all(struct side *s)
{
	size_t count;

	FT_TRY(ask(s));
	FT_TRY(ft_test_open(s->proc, &s->ctx));
	FT_TRY(ft_test_connect(s->proc, &s->ctx));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->taken, FI_HMEM_SYSTEM, LARGEST));
	/* peers reach a device's memory where our protocol is */
	s->reached = ft_is_p2p(&s->ctx) && s->ctx.info->caps & FI_RMA;
	if (s->reached)
		FT_TRY(offer(s, 0, &s->taken, FI_REMOTE_WRITE, &s->target));
	s->fetches = 0;
	if (s->reached && s->ctx.info->caps & FI_ATOMIC &&
	    !fi_fetch_atomicvalid(s->ctx.ep, FI_UINT64, FI_ATOMIC_READ, &count))
		s->fetches = count;
	return 0;
}

static int play_all(struct side *s, bool gpu_first)
{
	static const struct ft_mem_ops *const kinds[] = {&ft_cuda_ops, &cudamem_vmm_plain,
							 &cudamem_pool, &cudamem_managed};
	const int device = s->proc->opts.device;
	const bool quick = s->proc->opts.quick;
	const size_t rounds = quick ? 1 : 200;

	if (gpu_first)
		FT_TRY(cudamem_pool.init(device));
	FT_TRY(open_all(s));
	FT_TRY(cudamem_pool.init(device));
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	FT_TRY(ft_cuda_check(cuda.stream_create(&s->stream, CU_STREAM_NON_BLOCKING),
			     "cuStreamCreate"));
	FT_TRY(ft_buf_alloc_by(&s->ctx, &s->by, &ft_cuda_ops, LARGEST));
	for (size_t i = 0; i < FT_COUNT(kinds) * rounds; i++)
		FT_TRY(play(s, kinds[i % FT_COUNT(kinds)], quick ? gpu_first * 2 : 0,
			    quick ? 3 : 1));
	ft_buf_free(&s->by);
	ft_buf_free(&s->taken);
	FT_TRY(ft_cuda_check(cuda.stream_destroy(s->stream), "cuStreamDestroy"));
	return ft_close(&s->ctx);
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc};
	int ret;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	s.host = malloc(LARGEST);
	if (!s.host)
		return ft_fail(-FI_ENOMEM, "malloc", "%zu bytes", LARGEST);
	ret = play_all(&s, false);
	if (!ret)
		ret = play_all(&s, true);
	free(s.host);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "What has been written to device memory is in what is read of it.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
