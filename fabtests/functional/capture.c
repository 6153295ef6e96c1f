/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_capture: a thread captures a stream into a graph, in global mode, while messages from and to device memory
 * are posted and come: both the message and the capture have to be right. The driver spoils the capture if any
 * thread makes a call meanwhile that might be unsafe, and fails that call.
 *
 * Either end captures, or both, in the thread that makes progress or in another one, a stream that is blocking
 * or not. What happens meanwhile: the first endpoint is opened, and the first messages come; new memory of
 * each kind is met; memory is registered; what is known already is used; a stream of the GPU posts; all is
 * closed. With --auto, whoever captures calls nothing of libfabric's until the peer has its completion.
 */
#include <pthread.h>
#include <stdio.h>

#include <rdma/fi_ext_p2p.h>

#include "cu.h"
#include "cudamem.h"
#include "ft_test.h"
#include "dev/p2p_cuda_abi.h"

static const size_t sizes[] = {8, 5000, 65536, 300001, 2000003};

#define LARGEST ((size_t) 2000003)
#define ROOM (LARGEST + FT_ROOM)

static CUresult (*ctx_get_current)(CUcontext *ctx);
static CUresult (*ctx_set_current)(CUcontext ctx);

static const struct ft_symbol symbols[] = {
	{"cuCtxGetCurrent", &ctx_get_current},
	{"cuCtxSetCurrent", &ctx_set_current},
};

/**
 * struct camera - what captures a stream, by itself or in a thread of its own
 * @captures:	it does at the moment
 * @other:	in that thread
 * @asked, @did: how often the thread was asked to begin or to end, and has done it
 */
struct camera {
	CUcontext ctx;
	void *stream[2]; /* blocking, non-blocking */
	void *work;
	bool blocking, captures, other;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned int asked, did;
	bool stop;
	int ret;
};

static int camera_turn(struct camera *camera)
{
	void *stream = camera->stream[!camera->blocking], *graph = NULL;

	camera->captures = !camera->captures;
	if (camera->captures) {
		CU(capture_begin(stream, CU_CAPTURE_GLOBAL));
		CU(set((uintptr_t) camera->work, 1, 64, stream));
		return 0;
	}
	CU(capture_end(stream, &graph));
	FT_CHECK(graph, "the capture ended without a graph");
	CU(graph_destroy(graph));
	return 0;
}

static void *camera_run(void *arg)
{
	struct camera *camera = arg;

	pthread_mutex_lock(&camera->lock);
	camera->ret = ft_cuda_check(ctx_set_current(camera->ctx), "cuCtxSetCurrent");
	while (!camera->stop) {
		if (camera->did == camera->asked) {
			pthread_cond_wait(&camera->cond, &camera->lock);
			continue;
		}
		if (!camera->ret)
			camera->ret = camera_turn(camera);
		camera->did++;
		pthread_cond_broadcast(&camera->cond);
	}
	pthread_mutex_unlock(&camera->lock);
	return NULL;
}

/* Begins, or ends */
static int camera_ask(struct camera *camera)
{
	int ret;

	if (!camera->other)
		return camera_turn(camera);
	pthread_mutex_lock(&camera->lock);
	camera->asked++;
	pthread_cond_broadcast(&camera->cond);
	while (camera->did != camera->asked)
		pthread_cond_wait(&camera->cond, &camera->lock);
	ret = camera->ret;
	pthread_mutex_unlock(&camera->lock);
	return ret;
}

static int camera_open(struct camera *camera, int device)
{
	FT_TRY(cudamem_pool.init(device));
	FT_TRY(cu_load());
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	FT_TRY(ft_cuda_check(ctx_get_current(&camera->ctx), "cuCtxGetCurrent"));
	CU(stream_create(&camera->stream[0], 0));
	CU(stream_create(&camera->stream[1], CU_NON_BLOCKING));
	FT_TRY(ft_cuda_ops.alloc(64, &camera->work));
	pthread_mutex_init(&camera->lock, NULL);
	pthread_cond_init(&camera->cond, NULL);
	if (pthread_create(&camera->thread, NULL, camera_run, camera))
		return ft_fail(-FI_EAGAIN, "pthread_create", "camera");
	return 0;
}

static int camera_close(struct camera *camera)
{
	pthread_mutex_lock(&camera->lock);
	camera->stop = true;
	pthread_cond_broadcast(&camera->cond);
	pthread_mutex_unlock(&camera->lock);
	pthread_join(camera->thread, NULL);
	ft_cuda_ops.release(camera->work);
	CU(stream_destroy(camera->stream[0]));
	CU(stream_destroy(camera->stream[1]));
	return 0;
}

/* @stream: what no camera captures; @streams: operations may begin there */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct camera camera;
	void *stream;
	bool streams;
	uint64_t round;
};

enum how { POSTED, REGISTERED, BY_STREAM };

/* Who captures: bits, by rank */
static bool captures(const struct side *s, unsigned int who)
{
	return who >> s->proc->rank & 1;
}

/* The proxy's thread posts it */
static int post_by_stream(struct side *s, const struct ft_op *op)
{
	const struct fi_p2p_stream_op what = {
		.kind = op->call == FT_SEND ? FI_P2P_STREAM_TSEND : FI_P2P_STREAM_TRECV,
		.flags = FI_COMPLETION,
		.buf = op->iov[0].iov_base,
		.len = op->iov[0].iov_len,
		.desc = op->desc[0],
		.peer = op->addr,
		.tag = op->tag,
		.context = op->req,
	};
	int ret = fi_p2p_stream_post(s->ctx.ep, &what, s->stream);

	return ret ? ft_fail(ret, "fi_p2p_stream_post", "%zu bytes", what.len) : 0;
}

/*
 * One message, and captures around it. Who captures makes no progress, where it is automatic and the other end does
 * not capture.
 */
static int exchange(struct side *s, struct ft_buf *buf, size_t len, unsigned int who,
		    enum how how)
{
	const bool sends = s->proc->rank == 1, mine = captures(s, who);
	const bool rests = s->proc->opts.automatic && mine && who != 3;
	const struct ft_slot slot = {buf, 0, len + FT_ROOM, 64, len};
	struct ft_req req = {0};
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = s->ctx.peer[!s->proc->rank],
		.tag = ++s->round,
		.req = &req,
	};
	char what[96];

	FT_TRY(sends ? ft_slot_fill(&slot, s->round) : ft_slot_arm(&slot));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	if (mine)
		FT_TRY(camera_ask(&s->camera));
	if (how == REGISTERED)
		FT_TRY(ft_buf_share(&s->ctx, buf, FI_REMOTE_READ));
	ft_op_buf(&op, buf, slot.off, len);
	FT_TRY(how == BY_STREAM ? post_by_stream(s, &op) : ft_post(&s->ctx, &op));
	if (!rests)
		FT_TRY(ft_wait(&s->ctx, &req, 1));
	if (s->proc->opts.automatic)
		FT_TRY(ft_meet(s->proc));
	if (mine)
		FT_TRY(camera_ask(&s->camera));
	if (rests)
		FT_TRY(ft_wait(&s->ctx, &req, 1));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	snprintf(what, sizeof(what), "%zu bytes of %s memory, captured by %u", len,
		 buf->ops->name, who);
	return sends ? 0 : ft_slot_check(&slot, len, s->round, what);
}

/* New memory for each capture, and the same again: it is known then */
static int play(struct side *s, const struct ft_mem_ops *ops)
{
	for (size_t i = 0; i < FT_COUNT(sizes); i++) {
		const unsigned int who = 1 + (unsigned int) (i + s->round) % 3;
		struct ft_buf buf = {0};

		s->camera.blocking = s->round / 2 % 2;
		s->camera.other = s->round / 4 % 2;
		FT_TRY(ft_buf_alloc_by(&s->ctx, &buf, ops, ROOM));
		FT_TRY(exchange(s, &buf, sizes[i], who,
				i % 2 && s->ctx.info->caps & FI_RMA ? REGISTERED : POSTED));
		for (unsigned int again = 1; again <= 3; again++)
			FT_TRY(exchange(s, &buf, sizes[i], again, POSTED));
		if (s->streams)
			FT_TRY(exchange(s, &buf, sizes[i], who, BY_STREAM));
		ft_buf_free(&buf);
	}
	return 0;
}

/*
 * The first endpoint that a process opens once it has a context sets a flag of that context, which spoils captures
 * (docs/limits.md): so that one is opened without
 */
static int open_first(struct side *s)
{
	FT_TRY(ft_test_hints(s->proc, &s->ctx));
	FT_TRY(ft_test_open(s->proc, &s->ctx));
	FT_TRY(ft_test_connect(s->proc, &s->ctx));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(ft_close(&s->ctx));
	s->ctx = (struct ft_ctx){0};
	return 0;
}

/* An endpoint, and its first messages, while both capture */
static int open_captured(struct side *s, bool other)
{
	s->camera.other = other;
	FT_TRY(ft_test_hints(s->proc, &s->ctx));
	/* for streams */
	s->ctx.hints->domain_attr->threading = FI_THREAD_SAFE;
	FT_TRY(camera_ask(&s->camera));
	FT_TRY(ft_test_open(s->proc, &s->ctx));
	FT_TRY(ft_test_connect(s->proc, &s->ctx));
	s->streams = ft_is_p2p(&s->ctx);
	return camera_ask(&s->camera);
}

static int close_captured(struct side *s)
{
	FT_TRY(camera_ask(&s->camera));
	FT_TRY(ft_close(&s->ctx));
	return camera_ask(&s->camera);
}

static int run(struct ft_proc *proc)
{
	static const struct ft_mem_ops *const kinds[] = {&ft_cuda_ops, &cudamem_vmm_plain,
							 &cudamem_pool, &cudamem_managed,
							 &cudamem_vmm_shared};
	struct side s = {.proc = proc};

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(camera_open(&s.camera, proc->opts.device));
	CU(stream_create(&s.stream, CU_NON_BLOCKING));
	FT_TRY(open_first(&s));
	for (int other = 1; other >= 0; other--) {
		FT_TRY(open_captured(&s, other));
		for (size_t i = 0; i < FT_COUNT(kinds); i++)
			FT_TRY(play(&s, kinds[i]));
		FT_TRY(ft_barrier(proc, &s.ctx));
		s.camera.other = other;
		FT_TRY(close_captured(&s));
		s.ctx = (struct ft_ctx){0};
	}
	CU(stream_destroy(s.stream));
	return camera_close(&s.camera);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose =
			"A thread captures a stream while messages come, and both are right.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
