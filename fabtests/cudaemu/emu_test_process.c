/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tests that need a process of their own: another environment, a crash, a second user of the
 * device.
 */
#define _GNU_SOURCE
#include "emu_test.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int scene_cpu_access(void)
{
	CUdeviceptr d;

	/* sanitizers catch the signal, and would end with a report instead */
	signal(SIGSEGV, SIG_DFL);
	emu_test_use(0);
	good(cuMemAlloc_v2(&d, 64));
	return *(volatile char *) (uintptr_t) d;
}

void test_cpu_access_dies(void **state)
{
	int status = emu_test_spawn("cpu-access", NULL, NULL);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

/* Ends by a signal, as a driver would, where all before was right */
static int scene_reset(void)
{
	CUpointer_attribute attr = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned long long before, after;
	unsigned int flags, type;
	void *out = &type;
	CUcontext ctx, again;
	CUstream stream;
	CUdeviceptr d;
	CUevent event;
	char *h = malloc(8192);
	int active;

	signal(SIGABRT, SIG_DFL);
	emu_test_use(0);
	good(cuCtxGetCurrent(&ctx));
	good(cuCtxGetId(ctx, &before));
	good(cuMemAlloc_v2(&d, 64));
	good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	good(cuEventCreate(&event, 0));
	good(cuMemHostRegister_v2(h, 8192, 0));

	good(cuDevicePrimaryCtxReset_v2(0));
	good(cuDevicePrimaryCtxGetState(0, &flags, &active));
	check(!active);
	want(cuCtxGetId(ctx, &after), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	want(cuMemAlloc_v2(&d, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	want(cuStreamQuery(stream), CUDA_ERROR_INVALID_CONTEXT);

	good(cuDevicePrimaryCtxRetain(&again, 0));
	check(again == ctx);
	good(cuCtxGetId(again, &after));
	check(after != before);
	want(cuPointerGetAttributes(1, &attr, &out, (uintptr_t) h), CUDA_SUCCESS);
	check(!type);
	want(cuMemHostUnregister(h), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	want(cuEventQuery(event), CUDA_ERROR_INVALID_CONTEXT);
	good(cuMemHostRegister_v2(h, 8192, 0));
	good(cuDevicePrimaryCtxRelease_v2(0));
	good(cuDevicePrimaryCtxGetState(0, &flags, &active));
	check(active);
	cuStreamQuery(stream);
	return 0;
}

void test_reset(void **state)
{
	int status = emu_test_spawn("reset", NULL, NULL);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void nothing_initialised(void)
{
	CUpointer_attribute attr = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned int type;
	void *out = &type;
	CUdeviceptr d;
	int n;

	want(cuPointerGetAttributes(1, &attr, &out, (uintptr_t) &n),
	     CUDA_ERROR_NOT_INITIALIZED);
	want(cuPointerGetAttribute(&type, attr, (uintptr_t) &n), CUDA_ERROR_NOT_INITIALIZED);
	want(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	want(cuMemAlloc_v2(&d, 1), CUDA_ERROR_NOT_INITIALIZED);
	want(cuStreamQuery(NULL), CUDA_ERROR_NOT_INITIALIZED);
	good(cuDriverGetVersion(&n));
}

static int scene_before_init(void)
{
	int n;

	nothing_initialised();
	want(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	good(cuInit(0));
	good(cuInit(0));
	good(cuDeviceGetCount(&n));
	check(n == 3);
	return 0;
}

void test_before_init(void **state)
{
	emu_test_plays("before-init", "CUDAEMU_DEVICES", "3");
}

static int scene_after_fork(void)
{
	int status;
	pid_t pid;

	emu_test_use(0);
	pid = fork();
	if (pid == 0) {
		nothing_initialised();
		want(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

void test_after_fork(void **state)
{
	emu_test_plays("after-fork", NULL, NULL);
}

static int scene_faults(void)
{
	CUdeviceptr d;
	void *h;

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, 16));
	want(cuMemAlloc_v2(&d, 16), CUDA_ERROR_NOT_SUPPORTED);
	good(cuMemAlloc_v2(&d, 16));
	good(cuMemHostAlloc(&h, 16, 0));
	want(cuMemHostAlloc(&h, 16, 0), CUDA_ERROR_UNKNOWN);
	want(cuMemHostAlloc(&h, 16, 0), CUDA_ERROR_UNKNOWN);
	want(cuMemcpyHtoD_v2(d, h, 16), CUDA_ERROR_UNKNOWN);
	good(cuMemcpyHtoD_v2(d, h, 16));
	return 0;
}

void test_faults(void **state)
{
	emu_test_plays("faults", "CUDAEMU_FAIL",
		       "cuMemAlloc:2:801,cuMemHostAlloc:2+,cuMemcpyHtoD");
}

static int scene_no_device(void)
{
	want(cuInit(0), CUDA_ERROR_NO_DEVICE);
	nothing_initialised();
	return 0;
}

void test_no_device(void **state)
{
	emu_test_plays("no-device", "CUDAEMU_NO_INIT", "1");
	emu_test_plays("no-device", "CUDAEMU_DEVICES", "0");
}

static int scene_no_memops(void)
{
	CUdeviceptr d;
	int can;

	emu_test_use(0);
	good(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
	check(can == 0);
	good(cuMemAlloc_v2(&d, 16));
	want(cuStreamWriteValue32_v2(NULL, d, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
	return 0;
}

void test_no_memops(void **state)
{
	emu_test_plays("no-memops", "CUDAEMU_NO_MEMOPS", "1");
}

/* Allocates more than 4 GiB, and uses nearly nothing of it */
static int scene_sparse(void)
{
	const size_t size = 6ull << 30;
	CUdeviceptr d;
	char out = 0;

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, size));
	good(cuMemcpyHtoD_v2(d + size - 1, "x", 1));
	good(cuMemcpyDtoH_v2(&out, d + size - 1, 1));
	check(out == 'x');
	good(cuMemFree_v2(d));
	good(cuMemAlloc_v2(&d, size));
	good(cuMemFree_v2(d));
	return 0;
}

void test_sparse_memory(void **state)
{
	emu_test_plays("sparse", "CUDAEMU_MEMORY_MB", "8192");
}

/* Streams are shuffled against each other. Each keeps its own order. */
static int scene_streams(void)
{
	CUstream streams[4];
	CUdeviceptr d;
	uint32_t *h, i, round;
	void *p;

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, 64));
	good(cuMemHostAlloc(&p, 4096, 0));
	h = p;
	for (i = 0; i < 4; i++)
		good(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	for (round = 1; round <= 20; round++) {
		for (i = 0; i < 4; i++) {
			good(cuStreamWriteValue32_v2(streams[i], d + i * 4, round, 0));
			good(cuMemcpyDtoHAsync_v2(h + i, d + i * 4, 4, streams[i]));
		}
		for (i = 0; i < 4; i++) {
			good(cuStreamSynchronize(streams[i]));
			check(h[i] == round);
		}
	}
	return 0;
}

void test_shuffle(void **state)
{
	emu_test_plays("streams", "CUDAEMU_SHUFFLE", "42");
}

void test_modelled_time(void **state)
{
	emu_test_plays("streams", "CUDAEMU_COPY_LATENCY_US", "20");
	emu_test_plays("streams", "CUDAEMU_COPY_GBPS", "0.0001");
}

/* The second copy never ends. The process must be able to end all the same. */
static int scene_hang(void)
{
	CUstream stream;
	CUdeviceptr d;
	CUevent event;
	void *h;

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, 16));
	good(cuMemHostAlloc(&h, 16, 0));
	good(cuEventCreate(&event, 0));
	good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	good(cuMemcpyHtoDAsync_v2(d, h, 16, stream));
	good(cuStreamSynchronize(stream));
	good(cuMemcpyHtoDAsync_v2(d, h, 16, stream));
	good(cuEventRecord(event, stream));
	good(cuMemcpyHtoD_v2(d, h, 16));
	want(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	want(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	good(cuStreamDestroy_v2(stream));
	return 0;
}

void test_hang(void **state)
{
	emu_test_plays("hang", "CUDAEMU_HANG_COPY", "2");
}

/* The first copy never ends: from pageable memory, the synchronous form returns once staged */
static int scene_staged(void)
{
	unsigned char host = 5;
	CUstream stream;
	CUdeviceptr d;

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, 16));
	good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	good(cuMemcpyHtoD_v2(d, &host, 1));
	want(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	good(cuMemcpyDtoHAsync_v2(&host, d, 1, stream));
	check(host == 0xdb);
	return 0;
}

/* Whoever makes memory synchronous waits for the synchronous copies that have not ended */
static int scene_made_synchronous(void)
{
	unsigned char host[16] = {0};
	unsigned int on = 1;
	CUdeviceptr d;

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, sizeof(host)));
	good(cuMemcpyHtoD_v2(d, host, sizeof(host)));
	good(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d));
	good(cuStreamQuery(NULL));
	return 0;
}

/* The context's flag makes synchronous forms wait, and whoever sets it waits for those before */
static int scene_flag(void)
{
	unsigned char host[16] = {0};
	unsigned int flags;
	CUdeviceptr d;
	CUcontext ctx;
	int active;

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, sizeof(host)));
	good(cuMemcpyHtoD_v2(d, host, sizeof(host)));
	good(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SYNC_MEMOPS));
	good(cuStreamQuery(NULL));
	good(cuMemcpyHtoD_v2(d, host, sizeof(host)));
	good(cuStreamQuery(NULL));
	good(cuMemcpyDtoD_v2(d, d + 8, 8));
	good(cuStreamQuery(NULL));
	/* of that context alone */
	good(cuCtxCreate_v2(&ctx, 0, 0));
	good(cuMemcpyHtoD_v2(d, host, sizeof(host)));
	good(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
	good(cuStreamQuery(NULL));
	good(cuCtxDestroy_v2(ctx));
	good(cuCtxSetFlags(0));
	good(cuDevicePrimaryCtxGetState(0, &flags, &active));
	check(flags == CU_CTX_SYNC_MEMOPS);
	return 0;
}

/* A long pageable source is staged piece by piece, and the last piece is late */
static int scene_late_end(void)
{
	static unsigned char host[1 << 20];
	unsigned char first = 0, last = 0;
	CUstream stream;
	CUdeviceptr d;

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, sizeof(host)));
	good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	memset(host, 7, sizeof(host));
	good(cuMemcpyHtoD_v2(d, host, sizeof(host)));
	want(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	good(cuMemcpyDtoHAsync_v2(&first, d, 1, stream));
	good(cuMemcpyDtoHAsync_v2(&last, d + sizeof(host) - 1, 1, stream));
	check(first == 7 && last == 0xdb);
	return 0;
}

void test_staged(void **state)
{
	emu_test_plays("late-end", "CUDAEMU_HANG_COPY", "2");
	emu_test_plays("flag", "CUDAEMU_COPY_LATENCY_US", "50000");
	emu_test_plays("staged", "CUDAEMU_HANG_COPY", "1");
	emu_test_plays("made-synchronous", "CUDAEMU_COPY_LATENCY_US", "50000");
}

/* Passes handles between the two sides; a byte each way says "your turn" */
struct ipc_line {
	int to_peer[2], from_peer[2];
};

static void ipc_say(int fd, const void *data, size_t size)
{
	check(write(fd, data, size) == (ssize_t) size);
}

static void ipc_hear(int fd, void *data, size_t size)
{
	check(read(fd, data, size) == (ssize_t) size);
}

static void ipc_exporter(const struct ipc_line *line)
{
	CUipcMemHandle handle;
	CUdeviceptr d, own;
	char text[8];

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, 100));
	good(cuMemcpyHtoD_v2(d, "to peer", 8));
	good(cuCtxSynchronize());
	good(cuIpcGetMemHandle(&handle, d + 10));
	want(cuIpcOpenMemHandle_v2(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	     CUDA_ERROR_INVALID_CONTEXT);
	ipc_say(line->to_peer[1], &handle, sizeof(handle));
	ipc_hear(line->from_peer[0], text, 1);
	good(cuMemcpyDtoH_v2(text, d + 50, 8));
	check(!strcmp(text, "to host"));
	good(cuMemFree_v2(d));
	ipc_say(line->to_peer[1], "", 1);
	ipc_hear(line->from_peer[0], text, 1);
}

static void ipc_importer(const struct ipc_line *line)
{
	CUipcMemHandle handle;
	CUdeviceptr d, again;
	unsigned int capable = 1;
	char text[8];

	emu_test_use(1);
	ipc_hear(line->to_peer[0], &handle, sizeof(handle));
	good(cuIpcOpenMemHandle_v2(&d, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	good(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	check(again == d);
	good(cuMemcpyDtoH_v2(text, d, 8));
	check(!strcmp(text, "to peer"));
	want(cuMemcpyDtoH_v2(text, d + 96, 8), CUDA_ERROR_INVALID_VALUE);
	good(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
				   d));
	check(!capable);
	want(cuMemFree_v2(d), CUDA_ERROR_INVALID_VALUE);
	good(cuMemcpyHtoD_v2(d + 50, "to host", 8));
	good(cuIpcCloseMemHandle(again));
	good(cuMemcpyDtoH_v2(text, d, 8));
	good(cuIpcCloseMemHandle(d));
	want(cuIpcCloseMemHandle(d), CUDA_ERROR_INVALID_VALUE);
	want(cuMemcpyDtoH_v2(text, d, 8), CUDA_ERROR_INVALID_VALUE);
	ipc_say(line->from_peer[1], "", 1);
	/* the other side has freed the memory: the handle is worth nothing now */
	ipc_hear(line->to_peer[0], text, 1);
	want(cuIpcOpenMemHandle_v2(&d, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	     CUDA_ERROR_INVALID_VALUE);
	ipc_say(line->from_peer[1], "", 1);
}

static int scene_ipc(void)
{
	struct ipc_line line;
	int status;
	pid_t pid;

	check(pipe(line.to_peer) == 0 && pipe(line.from_peer) == 0);
	/* before cuInit, so that each side is a process of its own to the driver */
	pid = fork();
	if (pid == 0) {
		ipc_importer(&line);
		_exit(0);
	}
	ipc_exporter(&line);
	check(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

void test_ipc(void **state)
{
	emu_test_plays("ipc", NULL, NULL);
}

/* A sanitizer takes addresses as it likes */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITS 0
#else
#define LIMITS 1
#endif

/* A process that has no addresses left gets no stream, as of a driver. It does not end. */
static int scene_crowded(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	struct rlimit before, crowded;
	unsigned long pages;
	CUstream stream;
	CUdeviceptr d;

	emu_test_use(0);
	good(cuMemAlloc_v2(&d, 8));
	check(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	check(getrlimit(RLIMIT_AS, &before) == 0);
	crowded = before;
	crowded.rlim_cur = pages * (rlim_t) sysconf(_SC_PAGESIZE);
	check(!LIMITS || setrlimit(RLIMIT_AS, &crowded) == 0);
	want(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
	     LIMITS ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
	check(setrlimit(RLIMIT_AS, &before) == 0);
	good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	good(cuMemsetD8Async(d, 1, 8, stream));
	good(cuStreamSynchronize(stream));
	return 0;
}

void test_crowded(void **state)
{
	emu_test_plays("crowded", NULL, NULL);
}

/* Makes a few calls of every emulated runtime, as a program does that opens it by name */
static void runtime_check(const char *library)
{
	void *lib = dlopen(library, RTLD_NOW);
	CUresult (*rt_malloc)(void **, size_t);
	CUresult (*rt_free)(void *);
	CUresult (*rt_memcpy)(void *, const void *, size_t, int);
	CUresult (*rt_last)(void);
	const char *(*rt_name)(int);
	char out[6];
	void *d;

	check(lib);
	*(void **) &rt_malloc = dlsym(lib, "cudaMalloc");
	*(void **) &rt_free = dlsym(lib, "cudaFree");
	*(void **) &rt_memcpy = dlsym(lib, "cudaMemcpy");
	*(void **) &rt_last = dlsym(lib, "cudaGetLastError");
	*(void **) &rt_name = dlsym(lib, "cudaGetErrorName");
	check(rt_malloc && rt_free && rt_memcpy && rt_last && rt_name);
	good(rt_free(NULL));
	good(rt_malloc(&d, 6));
	good(rt_memcpy(d, "hello", 6, 1));
	good(rt_memcpy(out, d, 6, 4));
	check(!strcmp(out, "hello"));
	want(rt_memcpy(d, "hello!!", 7, 1), CUDA_ERROR_INVALID_VALUE);
	want(rt_last(), CUDA_ERROR_INVALID_VALUE);
	good(rt_last());
	check(!strcmp(rt_name(1), "cudaErrorInvalidValue"));
	good(rt_free(d));
	/* threads of streams live on: the library must survive being closed */
	check(dlclose(lib) == 0);
}

static int scene_runtime(void)
{
	runtime_check("libcudart.so.13");
	runtime_check("libcudart.so.12");
	runtime_check("libcudart.so.11.0");
	runtime_check("libcudart.so");
	return 0;
}

/* Opens it by the path that users take, as a sanitizer's dlopen does not see our run path */
void test_runtime(void **state)
{
	Dl_info driver;
	char dir[PATH_MAX];

	assert_true(dladdr((void *) cuInit, &driver));
	assert_non_null(realpath(driver.dli_fname, dir));
	*strrchr(dir, '/') = 0;
	emu_test_plays("runtime", "LD_LIBRARY_PATH", dir);
}

int emu_test_process(const char *name)
{
	static const struct emu_test_scene scenes[] = {
		{"cpu-access", scene_cpu_access},
		{"reset", scene_reset},
		{"before-init", scene_before_init},
		{"after-fork", scene_after_fork},
		{"faults", scene_faults},
		{"no-device", scene_no_device},
		{"no-memops", scene_no_memops},
		{"sparse", scene_sparse},
		{"streams", scene_streams},
		{"hang", scene_hang},
		{"staged", scene_staged},
		{"flag", scene_flag},
		{"late-end", scene_late_end},
		{"made-synchronous", scene_made_synchronous},
		{"ipc", scene_ipc},
		{"crowded", scene_crowded},
		{"runtime", scene_runtime},
		{NULL, NULL},
	};

	return emu_test_play(scenes, name);
}
