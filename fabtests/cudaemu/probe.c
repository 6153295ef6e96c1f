/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Prints what a CUDA driver answers to odd questions. The text must be the same from a real
 * driver and from the emulator: run it on both and compare. Every line is an expression and its
 * result, so that a difference names itself.
 *
 * probe.h200 is what driver 580 (CUDA 13.0) says on an H200. Without udmabuf, the emulator
 * differs in the exports of dma-bufs. By hand, where LIB is the build tree's
 * fabtests/cudaemu/lib:
 *
 *   gcc -I/usr/local/cuda/include probe.c -o probe -L$LIB -lcuda
 *   LD_LIBRARY_PATH=$LIB ./probe | diff probe.h200 -
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <cuda.h>

static const char *name(CUresult rc)
{
	const char *s = NULL;

	cuGetErrorName(rc, &s);
	return s ? s + (strncmp(s, "CUDA_", 5) ? 0 : 5) : "?";
}

#define P(expr) printf("%-78s %s\n", #expr, name(expr))
#define H(text) printf("-- %s\n", text)

static const struct {
	CUpointer_attribute a;
	const char *name;
} attrs[] = {
#define A(x)                                                                                   \
	{                                                                                      \
		CU_POINTER_ATTRIBUTE_##x, #x                                                   \
	}
	A(CONTEXT),
	A(MEMORY_TYPE),
	A(DEVICE_POINTER),
	A(HOST_POINTER),
	A(SYNC_MEMOPS),
	A(BUFFER_ID),
	A(IS_MANAGED),
	A(DEVICE_ORDINAL),
	A(IS_LEGACY_CUDA_IPC_CAPABLE),
	A(RANGE_START_ADDR),
	A(RANGE_SIZE),
	A(MAPPED),
	A(ALLOWED_HANDLE_TYPES),
	A(IS_GPU_DIRECT_RDMA_CAPABLE),
	A(ACCESS_FLAGS),
	A(MEMPOOL_HANDLE),
};

/* Addresses differ from run to run, so only what is stable is printed */
static void show(const char *what, void *p)
{
	unsigned long long v[2], all[16][2];
	CUpointer_attribute list[16];
	void *out[16];
	size_t i, n = sizeof(attrs) / sizeof(attrs[0]);

	printf("-- pointer %s\n", what);
	for (i = 0; i < n; i++) {
		v[0] = v[1] = 0;
		CUresult rc = cuPointerGetAttribute(v, attrs[i].a, (CUdeviceptr) p);
		long long x = v[0];

		if (attrs[i].a == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
		    attrs[i].a == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
		    attrs[i].a == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
			x = v[0] ? (long long) (v[0] - (unsigned long long) p) : -1;
		if (attrs[i].a == CU_POINTER_ATTRIBUTE_CONTEXT ||
		    attrs[i].a == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
		    attrs[i].a == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
			x = !!v[0];
		printf("%-28s %-20s %lld\n", attrs[i].name, name(rc), x);
	}
	memset(all, 0, sizeof(all));
	for (i = 0; i < n; i++) {
		list[i] = attrs[i].a;
		out[i] = all[i];
	}
	printf("plural %s:", name(cuPointerGetAttributes(n, list, out, (CUdeviceptr) p)));
	for (i = 0; i < n; i++)
		printf(" %s=%s%d", attrs[i].name, all[i][0] ? "set" : "0",
		       list[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (int) all[i][0] : 0);
	printf("\n");
	size_t size = 0;
	CUdeviceptr base = 0;
	CUresult rc = cuMemGetAddressRange(&base, &size, (CUdeviceptr) p);
	printf("range %s %lld %zu\n", name(rc), rc ? 0LL : (long long) (base - (CUdeviceptr) p),
	       size);
	int one = 1;
	P(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr) p));
	CUipcMemHandle h;
	P(cuIpcGetMemHandle(&h, (CUdeviceptr) p));
	int fd = -1;
	P(cuMemGetHandleForAddressRange(&fd, (CUdeviceptr) p, 4096,
					CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

/* How many bytes each attribute writes, for which a program must make room */
static void widths(CUdeviceptr p)
{
	unsigned char data[16];
	size_t i, n;

	H("widths of pointer attributes");
	for (i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		memset(data, 0xaa, sizeof(data));
		CUresult rc = cuPointerGetAttribute(data, attrs[i].a, p);

		for (n = sizeof(data); n && data[n - 1] == 0xaa; n--)
			;
		printf("%-28s %-20s %zu\n", attrs[i].name, name(rc), n);
	}
}

static void without_init(void)
{
	char buf[64];
	int n;
	CUcontext ctx;
	CUdeviceptr d = (CUdeviceptr) buf;
	unsigned flags;
	void *fn;
	CUdriverProcAddressQueryResult st;
	size_t sz;

	H("before cuInit");
	P(cuDriverGetVersion(&n));
	P(cuDeviceGetCount(&n));
	P(cuDeviceGet(&n, 0));
	P(cuCtxGetCurrent(&ctx));
	P(cuCtxSetCurrent(NULL));
	P(cuDevicePrimaryCtxGetState(0, &flags, &n));
	P(cuDevicePrimaryCtxRetain(&ctx, 0));
	P(cuPointerGetAttribute(buf, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
	CUpointer_attribute a = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	void *o = buf;
	P(cuPointerGetAttributes(1, &a, &o, d));
	P(cuMemAlloc(&d, 64));
	P(cuMemGetAddressRange(&d, &sz, d));
	P(cuMemcpy(d, d, 8));
	P(cuStreamQuery(NULL));
	P(cuCtxSynchronize());
	P(cuGetProcAddress("cuMemAlloc", &fn, 12000, 0, &st));
	P(cuMemHostRegister(buf, 64, 0));
	P(cuCtxGetDevice(&n));
}

static char page[1 << 20] __attribute__((aligned(4096)));

/*
 * One part makes these, and the next ones use them. They are in the text, so their names are
 * short.
 */
static CUcontext ctx, ctx2;
static CUdeviceptr d, d2, big, x;
static CUstream s;
static CUevent e, e2, e3;
static CUdevice dev;
static int n;
static unsigned u;
static size_t sz, sz2;
static float ms;
static void *hp, *hp2;
static char host[4096];
static CUipcMemHandle ih;

static void no_context(void)
{
	H("no context");
	P(cuCtxGetCurrent(&ctx));
	P(cuCtxGetDevice(&n));
	P(cuCtxSynchronize());
	P(cuCtxPopCurrent(&ctx));
	P(cuMemAlloc(&d, 64));
	P(cuMemFree(0));
	P(cuMemGetInfo(&sz, &sz2));
	P(cuMemHostAlloc(&hp, 64, 0));
	P(cuMemAllocHost(&hp, 64));
	P(cuMemHostRegister(page, 4096, 0));
	P(cuStreamCreate(&s, 0));
	P(cuEventCreate(&e, 0));
	P(cuStreamQuery(NULL));
	P(cuStreamSynchronize(NULL));
	P(cuMemcpy((CUdeviceptr) host, (CUdeviceptr) host + 8, 8));
	P(cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr) host));
	P(cuMemGetAddressRange(&d, &sz, (CUdeviceptr) host));
	P(cuDevicePrimaryCtxGetState(0, &u, &n));
	printf("flags %u active %d\n", u, n);
}

static void not_current(void)
{
	H("primary retained, not current");
	P(cuDevicePrimaryCtxRetain(&ctx, 0));
	P(cuDevicePrimaryCtxGetState(0, &u, &n));
	printf("flags %u active %d\n", u, n);
	P(cuMemAlloc(&d, 64));
	P(cuCtxSetCurrent(ctx));
	P(cuMemAlloc(&d, 4096));
	P(cuMemAlloc(&d2, 4096));
	P(cuMemAlloc(&big, 8 << 20));
	P(cuMemHostAlloc(&hp, 8192, 0));
	P(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	P(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	H("objects exist, no context current");
	P(cuCtxSetCurrent(NULL));
	P(cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
	P(cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr) host));
	P(cuMemGetAddressRange(&x, &sz, d));
	P(cuMemcpy(d, (CUdeviceptr) hp, 8));
	P(cuMemcpyHtoD(d, host, 8));
	P(cuMemcpyDtoH(host, d, 8));
	P(cuMemcpyAsync(d, (CUdeviceptr) hp, 8, s));
	P(cuMemcpyHtoDAsync(d, hp, 8, s));
	P(cuMemcpyDtoHAsync(hp, d, 8, s));
	P(cuMemcpyDtoDAsync(d2, d, 8, s));
	P(cuMemcpyAsync(d, (CUdeviceptr) hp, 8, NULL));
	P(cuMemsetD8(d, 0, 8));
	P(cuMemsetD8Async(d, 0, 8, s));
	P(cuEventRecord(e, s));
	P(cuEventRecord(e, NULL));
	P(cuEventSynchronize(e));
	P(cuEventQuery(e));
	P(cuStreamWaitEvent(s, e, 0));
	P(cuStreamSynchronize(s));
	P(cuStreamQuery(s));
	P(cuStreamWriteValue32(s, (CUdeviceptr) hp, 1, 0));
	P(cuMemHostGetDevicePointer(&x, hp, 0));
	P(cuMemHostGetFlags(&u, hp));
	P(cuMemHostRegister(page, 4096, 0));
	P(cuMemHostUnregister(page));
	P(cuIpcGetMemHandle(&ih, d));
	P(cuMemGetHandleForAddressRange(&n, big, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	n = 1;
	P(cuPointerSetAttribute(&n, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d2));
	P(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
				     CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
	P(cuMemFreeHost(hp));
	P(cuMemFree(d));
	P(cuStreamDestroy(s));
	P(cuEventDestroy(e));
}

static void allocations(void)
{
	H("context current");
	P(cuCtxSetCurrent(ctx));
	P(cuMemAlloc(&x, 0));
	P(cuMemAlloc(NULL, 64));
	P(cuMemAlloc(&x, 1ull << 50));
	P(cuMemFree(0));
	P(cuMemFree((CUdeviceptr) host));
	P(cuMemFree(big + 4096));
	P(cuMemAlloc(&d, 4096));
	printf("align %llu\n", (unsigned long long) (d & 511));
	P(cuMemHostAlloc(&hp, 8192, 0));
	P(cuMemHostAlloc(&hp2, 0, 0));
	P(cuMemFree((CUdeviceptr) hp));
	P(cuMemFreeHost((void *) d));
	P(cuMemFreeHost(host));
	P(cuMemFreeHost(NULL));
	P(cuMemHostAlloc(&hp, 8192, 0));
	P(cuMemHostGetFlags(&u, hp));
	printf("flags %u\n", u);
	P(cuMemHostGetFlags(&u, host));
	P(cuMemHostRegister(page, 8192, 0));
	P(cuMemHostRegister(page, 4096, 0));
	P(cuMemHostRegister(page + 4096, 8192, 0));
	P(cuMemHostRegister(page + 65536, 0, 0));
	P(cuMemHostRegister((void *) d, 4096, 0));
	P(cuMemHostRegister(hp, 4096, 0));
	P(cuMemHostGetDevicePointer(&x, page + 100, 0));
	P(cuMemHostGetDevicePointer(&x, page, 1));
	P(cuMemHostGetDevicePointer(&x, host, 0));
	P(cuMemHostGetFlags(&u, page));
	printf("flags %u\n", u);
	P(cuMemHostUnregister(page + 4096));
	P(cuMemHostUnregister(host));
	P(cuMemHostUnregister(hp));
}

static void pointers(void)
{
	widths(big);
	show("device", (void *) big);
	show("device interior", (void *) (big + 4096));
	show("pinned", hp);
	show("pinned interior", (char *) hp + 4096);
	show("registered", page);
	show("host", page + 65536);
	show("null", NULL);
	P(cuMemAllocManaged(&x, 8192, CU_MEM_ATTACH_GLOBAL));
	show("managed", (void *) x);
	P(cuMemFree(x));
	P(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	P(cuMemAllocAsync(&x, 8192, s));
	P(cuStreamSynchronize(s));
	show("pool", (void *) x);
	P(cuMemFreeAsync(x, s));
	P(cuStreamSynchronize(s));
	P(cuMemFreeAsync(d2, s));
	P(cuMemAllocAsync(&x, 8192, s));
	P(cuMemFree(x));
}

static void virtual_memory(void)
{
	CUmemGenericAllocationHandle mh;
	CUmemAllocationProp prop;
	CUmemAccessDesc acc;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.allocFlags.gpuDirectRDMACapable = 1;
	memset(&acc, 0, sizeof(acc));
	acc.location = prop.location;
	acc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	P(cuMemGetAllocationGranularity(&sz, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	printf("granularity %zu\n", sz);
	P(cuMemCreate(&mh, 4096, &prop, 0));
	P(cuMemCreate(&mh, 2 << 20, &prop, 0));
	P(cuMemAddressReserve(&x, 4096, 0, 0, 0));
	P(cuMemAddressReserve(&x, 8 << 20, 0, 0, 0));
	P(cuMemcpyHtoD(x, host, 8));
	show("reserved only", (void *) x);
	P(cuMemMap(x, 1 << 20, 0, mh, 0));
	P(cuMemMap(x, 2 << 20, 0, mh, 0));
	P(cuMemMap(x, 2 << 20, 0, mh, 0));
	show("vmm without access", (void *) x);
	P(cuMemcpyHtoD(x, host, 8));
	P(cuMemSetAccess(x, 2 << 20, &acc, 1));
	P(cuMemcpyHtoD(x, host, 8));
	show("vmm", (void *) x);
	P(cuMemMap(x + (2 << 20), 2 << 20, 0, mh, 0));
	P(cuMemSetAccess(x, 4 << 20, &acc, 1));
	P(cuMemcpyHtoD(x, page, 1 << 20));
	P(cuMemcpyHtoD(x + (3 << 20) + (1 << 19), page, 1 << 20));
	P(cuMemcpyDtoD(x + (1 << 20) + 4096, big, 2 << 20));
	show("vmm second", (void *) (x + (2 << 20)));
	P(cuMemFree(x));
	P(cuMemAddressFree(x, 8 << 20));
	P(cuMemRelease(mh));
	P(cuMemUnmap(x, 1 << 20));
	P(cuMemUnmap(x, 4 << 20));
	P(cuMemUnmap(x, 4 << 20));
	P(cuMemAddressFree(x, 4 << 20));
	P(cuMemAddressFree(x, 8 << 20));
}

static void copies(void)
{
	H("copies");
	P(cuMemcpyHtoD(d, host, 0));
	P(cuMemcpyHtoD(0, host, 8));
	P(cuMemcpyHtoD(d, NULL, 8));
	P(cuMemcpyHtoD(d, (void *) big, 8));
	P(cuMemcpyDtoH((void *) d, big, 8));
	P(cuMemcpyHtoD((CUdeviceptr) host, host + 64, 8));
	P(cuMemcpyDtoH(host, (CUdeviceptr) host + 64, 8));
	P(cuMemcpyHtoD((CUdeviceptr) hp, host + 64, 8));
	P(cuMemcpyDtoD((CUdeviceptr) hp, d, 8));
	P(cuMemcpyDtoD((CUdeviceptr) host, d, 8));
	P(cuMemcpy((CUdeviceptr) host, (CUdeviceptr) host + 64, 8));
	P(cuMemcpyHtoD(big + (8 << 20) - 4, host, 8));
	P(cuMemcpyHtoD(d + 4092, host, 8));
	P(cuMemsetD8(big + (8 << 20) - 4, 0, 8));
	P(cuMemsetD32(big + 2, 0, 1));
	P(cuMemsetD8((CUdeviceptr) host, 0, 8));
	P(cuMemcpyDtoDAsync(big, big + 4096, 4096, NULL));
	P(cuMemFree(big));
	P(cuMemFree(big));
	show("freed", (void *) big);
	P(cuMemcpyHtoD(big, host, 8));
	P(cuMemcpyPeer(d, ctx, d, ctx, 8));
	size_t bsz = 8, zero = 0;
	CUdeviceptr bd = d, bs = (CUdeviceptr) hp;
	CUmemcpyAttributes at = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	P(cuMemcpyBatchAsync(&bd, &bs, &bsz, 1, &at, &zero, 1, NULL));
	P(cuMemcpyBatchAsync(&bd, &bs, &bsz, 1, &at, &zero, 1, s));
	P(cuMemcpyBatchAsync(&bd, &bs, &bsz, 0, &at, &zero, 1, s));
	P(cuMemcpyBatchAsync(&bd, &bs, &bsz, 1, NULL, NULL, 0, s));
	bs = (CUdeviceptr) host;
	P(cuMemcpyBatchAsync(&bd, &bs, &bsz, 1, &at, &zero, 1, s));
	P(cuStreamSynchronize(s));
}

static void streams(void)
{
	H("streams, events, memops");
	P(cuStreamCreate(&s, 77));
	P(cuEventCreate(&e, 0));
	P(cuEventCreate(&e2, 0));
	P(cuEventCreate(&e3, CU_EVENT_DISABLE_TIMING));
	P(cuEventCreate(&e3, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
	P(cuEventCreate(&e3, CU_EVENT_INTERPROCESS));
	P(cuEventCreate(&e3, CU_EVENT_DISABLE_TIMING));
	P(cuEventQuery(e));
	P(cuEventSynchronize(e));
	P(cuStreamWaitEvent(s, e, 0));
	P(cuEventElapsedTime(&ms, e, e2));
	P(cuEventRecord(e, s));
	P(cuEventRecord(e2, s));
	P(cuEventRecord(e3, s));
	P(cuStreamSynchronize(s));
	P(cuEventElapsedTime(&ms, e, e2));
	P(cuEventElapsedTime(&ms, e, e3));
	P(cuEventQuery(NULL));
	P(cuEventRecord(NULL, s));
}

static void memops(void)
{
	memset(hp, 0, 64);
	P(cuStreamWaitValue32(s, (CUdeviceptr) hp, 1, CU_STREAM_WAIT_VALUE_EQ));
	P(cuStreamQuery(s));
	P(cuEventRecord(e, s));
	P(cuEventQuery(e));
	P(cuEventElapsedTime(&ms, e2, e));
	host[0] = 1;
	P(cuMemcpyHtoDAsync(d, host, 64, s));
	host[0] = 2;
	*(volatile int *) hp = 1;
	P(cuStreamSynchronize(s));
	P(cuMemcpyDtoH(host + 1, d, 1));
	printf("pageable source snapshot: %d\n", host[1]);
	P(cuStreamWaitValue32(s, (CUdeviceptr) hp + 2, 1, 0));
	P(cuStreamWaitValue32(s, (CUdeviceptr) hp, 1, 0x100));
	P(cuStreamWaitValue32(s, (CUdeviceptr) page + 65536, 1, 0));
	P(cuStreamWriteValue64(s, (CUdeviceptr) hp + 4, 1, 0));
	P(cuStreamWriteValue64(s, (CUdeviceptr) hp, 1,
			       CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	P(cuStreamWriteValue32(NULL, (CUdeviceptr) hp, 1, 0));
	P(cuStreamWriteValue32(s, d, 1, 0));
	P(cuStreamWriteValue32(s, (CUdeviceptr) page, 1, 0));
	P(cuStreamBatchMemOp(s, 0, NULL, 0));
	P(cuStreamSynchronize(CU_STREAM_LEGACY));
	P(cuStreamQuery(CU_STREAM_LEGACY));
	P(cuStreamQuery(CU_STREAM_PER_THREAD));
	P(cuStreamSynchronize(s));
}

static void ipc(void)
{
	H("ipc, dma-buf");
	P(cuMemAlloc(&big, 8 << 20));
	P(cuIpcGetMemHandle(&ih, big + 4096));
	P(cuIpcOpenMemHandle(&x, ih, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	P(cuIpcOpenMemHandle(&x, ih, 0));
	P(cuIpcCloseMemHandle(big));
	n = -1;
	P(cuMemGetHandleForAddressRange(&n, big, 65536, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					0));
	P(cuMemGetHandleForAddressRange(&n, big + 512, 65536,
					CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	P(cuMemGetHandleForAddressRange(&n, big, 100, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	P(cuMemGetHandleForAddressRange(&n, big, 16 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					0));
	P(cuMemGetHandleForAddressRange(&n, big, 65536, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					99));
}

static void procs(void)
{
	CUdriverProcAddressQueryResult st;
	void *fn;

	H("procs and contexts");
	P(cuGetProcAddress("cuMemAlloc", &fn, 12000, 0, &st));
	printf("found %d status %d\n", !!fn, st);
	P(cuGetProcAddress("cuNoSuchThing", &fn, 12000, 0, &st));
	printf("found %d status %d\n", !!fn, st);
	P(cuGetProcAddress("cuMemcpyBatchAsync", &fn, 12000, 0, &st));
	printf("found %d status %d\n", !!fn, st);
	P(cuGetProcAddress("cuMemAlloc_v2", &fn, 12000, 0, &st));
	printf("found %d status %d\n", !!fn, st);
	P(cuGetErrorName(12345, (const char **) &fn));
}

static void contexts(void)
{
	P(cuCtxGetFlags(&u));
	printf("flags %u\n", u);
	P(cuCtxGetApiVersion(ctx, &u));
	P(cuCtxGetApiVersion(NULL, &u));
	P(cuCtxCreate(&ctx2, NULL, 0, 0));
	P(cuCtxGetCurrent(&ctx));
	printf("current is the new one: %d\n", ctx == ctx2);
	P(cuMemcpyHtoD(d, host, 8));
	P(cuMemFree(d));
	P(cuStreamQuery(s));
	P(cuEventRecord(e, s));
	P(cuEventRecord(e, NULL));
	P(cuMemcpyHtoDAsync(big, hp, 8, s));
	P(cuCtxEnablePeerAccess(ctx2, 0));
	P(cuDeviceCanAccessPeer(&n, 0, 0));
	printf("can %d\n", n);
	P(cuCtxDestroy(ctx2));
	P(cuCtxGetCurrent(&ctx));
	printf("current %d\n", !!ctx);
	P(cuMemGetInfo(&sz, &sz2));
	P(cuDevicePrimaryCtxRelease(0));
	P(cuDevicePrimaryCtxRelease(0));
	P(cuDevicePrimaryCtxGetState(0, &u, &n));
	printf("active %d\n", n);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	without_init();
	H("init");
	P(cuInit(1));
	P(cuInit(0));
	P(cuDeviceGet(&dev, -1));
	P(cuDeviceGet(&dev, 99));
	P(cuDeviceGet(&dev, 0));
	if (argc > 1 && strcmp(argv[1], "attributes") == 0) {
		for (int i = 1; i < 160; i++)
			if (cuDeviceGetAttribute(&n, i, dev) == CUDA_SUCCESS)
				printf("attr %d %d\n", i, n);
		return 0;
	}
	P(cuDeviceGetAttribute(&n, 9999, dev));
	P(cuDeviceGetAttribute(&n, 1, 99));
	no_context();
	not_current();
	allocations();
	pointers();
	virtual_memory();
	copies();
	streams();
	memops();
	ipc();
	procs();
	contexts();
	fflush(stdout);
	if (fork() == 0) {
		without_init();
		P(cuInit(0));
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
	return 0;
}
