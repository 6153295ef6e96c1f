/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_settled: what a synchronous copy has written to device memory is in the message that is sent, and in what
 * is written to the peer, as soon as the copy has returned. The application synchronises nothing, and each
 * round has other bytes, so bytes of the round before show. So it is for each kind of CUDA memory, by either
 * call, and from pageable memory as from device memory that is copied on.
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

static CUresult (*copy_htod)(CUdeviceptr dst, const void *src, size_t len);
static CUresult (*copy_any)(CUdeviceptr dst, CUdeviceptr src, size_t len);
static CUresult (*copy_dtod)(CUdeviceptr dst, CUdeviceptr src, size_t len);

static const struct ft_symbol symbols[] = {
	{"cuMemcpyHtoD_v2", &copy_htod},
	{"cuMemcpy", &copy_any},
	{"cuMemcpyDtoD_v2", &copy_dtod},
};

/* @host: pageable, and other memory that it is copied by; @taken: where what comes is copied to */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	unsigned char *host;
	struct ft_buf by, taken, target;
	uint64_t base, key;
	uint64_t round;
};

enum way { BY_HTOD, BY_ANY, BY_DEVICE, WAYS };

static int write_buffer(struct side *s, const struct ft_buf *buf, size_t len, enum way way)
{
	const CUdeviceptr dst = (uintptr_t) buf->addr, by = (uintptr_t) s->by.addr;

	ft_pattern_fill(s->host, len, s->round);
	switch (way) {
	case BY_HTOD:
		return ft_cuda_check(copy_htod(dst, s->host, len), "cuMemcpyHtoD");
	case BY_ANY:
		return ft_cuda_check(copy_any(dst, (uintptr_t) s->host, len), "cuMemcpy");
	default:
		FT_TRY(ft_cuda_check(copy_htod(by, s->host, len), "cuMemcpyHtoD"));
		return ft_cuda_check(copy_dtod(dst, by, len), "cuMemcpyDtoD");
	}
}

static int check(const struct side *s, const struct ft_buf *buf, size_t len, const char *what,
		 const char *kind)
{
	unsigned char expected;
	ssize_t diff;

	FT_TRY(buf->ops->from(s->host, buf->addr, len));
	diff = ft_pattern_diff(s->host, len, s->round, &expected);
	FT_CHECK(diff < 0, "%zu bytes of %s memory, %s: byte %zd is 0x%02x and not 0x%02x", len,
		 kind, what, diff, s->host[diff], expected);
	return 0;
}

static int message(struct side *s, const struct ft_buf *buf, size_t len, enum way way)
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
	if (sends)
		FT_TRY(write_buffer(s, buf, len, way));
	FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_wait(&s->ctx, &req, 1));
	if (!sends)
		FT_TRY(check(s, &s->taken, len, "sent", buf->ops->name));
	return ft_barrier(s->proc, &s->ctx);
}

static int remote_write(struct side *s, const struct ft_buf *buf, size_t len)
{
	struct ft_req req = {0};
	void *desc = buf->desc;
	const struct iovec iov = {buf->addr, len};
	const struct fi_rma_iov remote = {s->base, len, s->key};
	const struct fi_msg_rma msg = {&iov,    &desc, 1,    s->ctx.peer[!s->proc->rank],
				       &remote, 1,     &req, 0};
	ssize_t ret;

	while ((ret = fi_writemsg(s->ctx.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE)) ==
	       -FI_EAGAIN) {
		if (ft_progress(&s->ctx) < 0)
			return -FI_EOTHER;
	}
	if (ret)
		return ft_fail((int) ret, "fi_writemsg", "%zu bytes", len);
	return ft_wait(&s->ctx, &req, 1);
}

static int written(struct side *s, const struct ft_buf *buf, size_t len, enum way way)
{
	if (s->proc->rank == 1) {
		FT_TRY(write_buffer(s, buf, len, way));
		FT_TRY(remote_write(s, buf, len));
	}
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	if (s->proc->rank == 0)
		FT_TRY(check(s, &s->target, len, "written to a peer", buf->ops->name));
	return ft_barrier(s->proc, &s->ctx);
}

static int play(struct side *s, const struct ft_mem_ops *ops, int rounds)
{
	struct ft_buf buf = {0};

	FT_TRY(ft_buf_alloc_by(&s->ctx, &buf, ops, LARGEST));
	for (size_t i = 0; i < FT_COUNT(sizes); i++) {
		for (int round = 0; round < rounds; round++) {
			for (enum way way = 0; way < WAYS; way++) {
				s->round++;
				FT_TRY(message(s, &buf, sizes[i], way));
				s->round++;
				if (s->base)
					FT_TRY(written(s, &buf, sizes[i], way));
			}
		}
	}
	ft_buf_free(&buf);
	return 0;
}

/* Rank 0's memory, as rank 1 names it */
static int share(struct side *s)
{
	uint64_t names[2];

	if (!(s->ctx.info->caps & FI_RMA))
		return 0;
	if (s->proc->rank == 0) {
		FT_TRY(ft_buf_share(&s->ctx, &s->target, FI_REMOTE_WRITE));
		names[0] = s->target.base;
		names[1] = s->target.key;
		FT_TRY(ft_oob_send(s->proc->fd[1], names, sizeof(names)));
	} else {
		FT_TRY(ft_oob_recv(s->proc->fd[0], names, sizeof(names),
				   s->proc->opts.timeout));
	}
	s->base = names[0];
	s->key = names[1];
	return 0;
}

static int play_all(struct side *s, bool gpu_first)
{
	static const struct ft_mem_ops *const kinds[] = {&ft_cuda_ops, &cudamem_vmm_plain,
							 &cudamem_pool, &cudamem_managed};
	const int device = s->proc->opts.device;

	if (gpu_first)
		FT_TRY(cudamem_pool.init(device));
	FT_TRY(ft_test_hints(s->proc, &s->ctx));
	FT_TRY(ft_test_open(s->proc, &s->ctx));
	FT_TRY(ft_test_connect(s->proc, &s->ctx));
	FT_TRY(cudamem_pool.init(device));
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	FT_TRY(ft_buf_alloc_by(&s->ctx, &s->by, &ft_cuda_ops, LARGEST));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->taken, FI_HMEM_SYSTEM, LARGEST));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->target, FI_HMEM_SYSTEM, LARGEST));
	FT_TRY(share(s));
	for (size_t i = 0; i < FT_COUNT(kinds); i++)
		FT_TRY(play(s, kinds[i], s->proc->opts.quick ? 1 : 200));
	ft_buf_free(&s->by);
	ft_buf_free(&s->taken);
	ft_buf_free(&s->target);
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
		.purpose = "What a synchronous copy has written is in what is sent behind it.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
