/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The GPU's own copies. See floor.h. */
#include "floor.h"

#include "dev/p2p_cuda_abi.h"

#define LANES 2
#define TRIES 200 /* the copies by which two ways to wait are compared */

/**
 * struct lane - copies one way
 * @src, @dst:	the buffers. In host memory, too, CUDA's address is the CPU's.
 * @flag:	in pinned memory: the device writes @mark there after the copies before it
 */
struct lane {
	CUstream stream;
	CUdeviceptr src, dst;
	CUcontext src_ctx, dst_ctx;
	volatile uint32_t *flag;
	uint32_t mark;
};

static struct {
	enum ft_floor kind;
	struct lane lanes[LANES];
	bool flagged; /* waits for the flag, not for the stream */
	CUdeviceptr here, there;
	CUcontext ctx, peer_ctx;
	void *host;
	CUresult (*device_get)(CUdevice *dev, int ordinal);
	CUresult (*ctx_retain)(CUcontext *ctx, CUdevice dev);
	CUresult (*ctx_get)(CUcontext *ctx);
	CUresult (*ctx_set)(CUcontext ctx);
	CUresult (*enable_peer)(CUcontext ctx, unsigned int flags);
	CUresult (*mem_alloc)(CUdeviceptr *ptr, size_t size);
	CUresult (*mem_free)(CUdeviceptr ptr);
	CUresult (*host_alloc)(void **ptr, size_t size, unsigned int flags);
	CUresult (*host_free)(void *ptr);
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_destroy)(CUstream stream);
	CUresult (*stream_sync)(CUstream stream);
	CUresult (*stream_write)(CUstream stream, CUdeviceptr ptr, uint32_t value,
				 unsigned int flags);
	CUresult (*copy)(CUdeviceptr dst, CUdeviceptr src, size_t len, CUstream stream);
	CUresult (*copy_peer)(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
			      CUcontext src_ctx, size_t len, CUstream stream);
} cuda;

static const struct ft_symbol symbols[] = {
	{"cuDeviceGet", &cuda.device_get},
	{"cuDevicePrimaryCtxRetain", &cuda.ctx_retain},
	{"cuCtxGetCurrent", &cuda.ctx_get},
	{"cuCtxSetCurrent", &cuda.ctx_set},
	{"cuCtxEnablePeerAccess", &cuda.enable_peer},
	{"cuMemAlloc_v2", &cuda.mem_alloc},
	{"cuMemFree_v2", &cuda.mem_free},
	{"cuMemHostAlloc", &cuda.host_alloc},
	{"cuMemFreeHost", &cuda.host_free},
	{"cuStreamCreate", &cuda.stream_create},
	{"cuStreamDestroy_v2", &cuda.stream_destroy},
	{"cuStreamSynchronize", &cuda.stream_sync},
	{"cuStreamWriteValue32_v2", &cuda.stream_write},
	{"cuMemcpyAsync", &cuda.copy},
	{"cuMemcpyPeerAsync", &cuda.copy_peer},
};

/* Starts @count copies, and the operation that tells that they have ended */
static int lane_start(struct lane *l, size_t size, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		FT_TRY(cuda.kind == FT_FLOOR_PEER
			       ? ft_cuda_check(cuda.copy_peer(l->dst, l->dst_ctx, l->src,
							      l->src_ctx, size, l->stream),
					       "cuMemcpyPeerAsync")
			       : ft_cuda_check(cuda.copy(l->dst, l->src, size, l->stream),
					       "cuMemcpyAsync"));
	if (!cuda.flagged)
		return 0;
	return ft_cuda_check(cuda.stream_write(l->stream, (CUdeviceptr) (uintptr_t) l->flag,
					       ++l->mark, CU_STREAM_WRITE_VALUE_DEFAULT),
			     "cuStreamWriteValue32");
}

static int lane_wait(struct lane *l)
{
	if (!cuda.flagged)
		return ft_cuda_check(cuda.stream_sync(l->stream), "cuStreamSynchronize");
	while (*l->flag != l->mark)
		;
	return 0;
}

static int lane_run(struct lane *l, size_t size, uint64_t count)
{
	FT_TRY(lane_start(l, size, count));
	return lane_wait(l);
}

/* How often one operation copies that way, one copy after the other */
static int passes(const struct turns_row *row, int lane)
{
	if (cuda.kind == FT_FLOOR_PEER)
		return lane == 0;
	if (row->test == TURNS_FETCH)
		return 2;
	return row->test == TURNS_ATOMIC && lane == 0 ? 2 : 1;
}

/* Makes the copies of one message, one after the other; or those of both lanes at once */
static int copies(const struct turns_row *row)
{
	struct lane *const l = cuda.lanes;

	if (row->test == TURNS_BOTH_WAYS) {
		FT_TRY(lane_start(&l[0], row->size, row->window));
		FT_TRY(lane_run(&l[1], row->size, row->window));
		return lane_wait(&l[0]);
	}
	for (int lane = 0; lane < LANES; lane++)
		for (int i = passes(row, lane); i > 0; i--)
			FT_TRY(lane_run(&l[lane], row->size, 1));
	return 0;
}

/* How long a copy takes [us], if one lane makes @count of them in windows */
static int lane_usec(struct lane *l, const struct turns_row *row, uint64_t count, double *usec)
{
	double start;

	FT_TRY(lane_run(l, row->size, row->window));
	start = ft_usec();
	for (uint64_t i = 0; i < count; i += row->window)
		FT_TRY(lane_run(l, row->size, row->window));
	*usec = (ft_usec() - start) / (double) count;
	return 0;
}

int floor_turn(const struct turns_row *row, uint64_t count, double *usec)
{
	double start, other = 0;

	if (cuda.kind == FT_FLOOR_NONE)
		return 0;
	if (row->test != TURNS_BOTH_WAYS && !turns_alone(row)) {
		FT_TRY(lane_usec(&cuda.lanes[0], row, count, usec));
		if (cuda.kind == FT_FLOOR_COPY)
			FT_TRY(lane_usec(&cuda.lanes[1], row, count, &other));
		*usec = FT_MAX(*usec, other);
		return 0;
	}
	FT_TRY(copies(row));
	start = ft_usec();
	for (uint64_t i = 0; i < count; i += row->window)
		FT_TRY(copies(row));
	*usec = (ft_usec() - start) / (double) count;
	return 0;
}

/* Chooses flags, if the device can write them and polling them is not the slower way. */
static int choose_way(const char **way)
{
	static const char *const names[] = {"stream synchronised", "flag written by stream"};
	struct lane *const l = &cuda.lanes[0];
	double took[2];

	for (int flagged = 0; flagged <= 1; flagged++) {
		double start;

		cuda.flagged = flagged;
		if (flagged && cuda.stream_write(l->stream, (CUdeviceptr) (uintptr_t) l->flag,
						 0, CU_STREAM_WRITE_VALUE_DEFAULT))
			break;
		FT_TRY(lane_run(l, 1, 1));
		start = ft_usec();
		for (int i = 0; i < TRIES; i++)
			FT_TRY(lane_run(l, 1, 1));
		took[flagged] = ft_usec() - start;
		if (!flagged)
			took[1] = took[0] + 1; /* slower, unless the flag is tried */
	}
	cuda.flagged = took[1] < took[0];
	*way = names[cuda.flagged];
	return 0;
}

static int peer_open(int peer, size_t size)
{
	CUdevice dev;

	FT_TRY(ft_cuda_check(cuda.device_get(&dev, peer), "cuDeviceGet"));
	FT_TRY(ft_cuda_check(cuda.ctx_retain(&cuda.peer_ctx, dev), "cuDevicePrimaryCtxRetain"));
	FT_TRY(ft_cuda_check(cuda.ctx_set(cuda.peer_ctx), "cuCtxSetCurrent"));
	FT_TRY(ft_cuda_check(cuda.mem_alloc(&cuda.there, size), "cuMemAlloc"));
	/* where there is no access between the devices, the copies go another way */
	cuda.enable_peer(cuda.ctx, 0);
	FT_TRY(ft_cuda_check(cuda.ctx_set(cuda.ctx), "cuCtxSetCurrent"));
	cuda.enable_peer(cuda.peer_ctx, 0);
	return 0;
}

int floor_open(enum ft_floor kind, int peer, size_t size, const char **way)
{
	void *flags;

	if (kind == FT_FLOOR_NONE)
		return 0;
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	FT_TRY(ft_cuda_check(cuda.ctx_get(&cuda.ctx), "cuCtxGetCurrent"));
	FT_TRY(ft_cuda_check(cuda.mem_alloc(&cuda.here, size), "cuMemAlloc"));
	FT_TRY(ft_cuda_check(cuda.host_alloc(&flags, LANES * sizeof(uint32_t), 0),
			     "cuMemHostAlloc"));
	if (kind == FT_FLOOR_PEER) {
		FT_TRY(peer_open(peer, size));
	} else {
		FT_TRY(ft_cuda_check(cuda.host_alloc(&cuda.host, size, 0), "cuMemHostAlloc"));
		cuda.there = (CUdeviceptr) (uintptr_t) cuda.host;
	}
	cuda.kind = kind;
	for (int i = 0; i < LANES; i++) {
		struct lane *const l = &cuda.lanes[i];

		FT_TRY(ft_cuda_check(cuda.stream_create(&l->stream, CU_STREAM_NON_BLOCKING),
				     "cuStreamCreate"));
		l->flag = (volatile uint32_t *) flags + i;
		l->src = i ? cuda.there : cuda.here;
		l->dst = i ? cuda.here : cuda.there;
		l->src_ctx = i ? cuda.peer_ctx : cuda.ctx;
		l->dst_ctx = i ? cuda.ctx : cuda.peer_ctx;
	}
	return choose_way(way);
}

void floor_close(void)
{
	if (cuda.kind == FT_FLOOR_NONE)
		return;
	for (int i = 0; i < LANES; i++)
		ft_cuda_check(cuda.stream_destroy(cuda.lanes[i].stream), "cuStreamDestroy");
	ft_cuda_check(cuda.mem_free(cuda.here), "cuMemFree");
	ft_cuda_check(cuda.kind == FT_FLOOR_PEER ? cuda.mem_free(cuda.there)
						 : cuda.host_free(cuda.host),
		      "the other buffer");
	ft_cuda_check(cuda.host_free((void *) (uintptr_t) cuda.lanes[0].flag), "cuMemFreeHost");
}
