/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shows what a CUDA driver does if one thread asks about virtual memory that another one unmaps: it may crash. So run
 * this on both, and compare. By hand, where LIB is the build tree's fabtests/cudaemu/lib:
 *
 *   gcc -I/usr/local/cuda/include probe_unmap.c -o probe_unmap -L$LIB -lcuda -lpthread
 *   ./probe_unmap; LD_LIBRARY_PATH=$LIB ./probe_unmap
 *
 * Each row is a child that asks one thing for some seconds: probe_unmap [SECONDS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cuda.h>

#define SIZE ((size_t) 2 << 20)

struct question {
	const char *name;
	CUresult (*ask)(CUdeviceptr ptr);
};

static CUcontext ctx;
static CUdeviceptr base;
static int over;

static CUresult ask_retain(CUdeviceptr ptr)
{
	CUmemGenericAllocationHandle handle;
	CUresult rc = cuMemRetainAllocationHandle(&handle, (void *) ptr);

	return rc ? rc : cuMemRelease(handle);
}

static CUresult ask_attributes(CUdeviceptr ptr)
{
	CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				      CU_POINTER_ATTRIBUTE_BUFFER_ID,
				      CU_POINTER_ATTRIBUTE_CONTEXT,
				      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	unsigned long long id;
	CUcontext owner;
	unsigned int type;
	int ordinal;
	void *data[] = {&type, &id, &owner, &ordinal};

	return cuPointerGetAttributes(4, what, data, ptr);
}

static CUresult ask_id(CUdeviceptr ptr)
{
	unsigned long long id;

	return cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, ptr);
}

static CUresult ask_range(CUdeviceptr ptr)
{
	CUdeviceptr start;
	size_t size;

	return cuMemGetAddressRange(&start, &size, ptr);
}

/* What lies beside it stays there */
static CUresult ask_beside(CUdeviceptr ptr)
{
	return ask_attributes(ptr + SIZE);
}

static void *asker(void *arg)
{
	const struct question *question = arg;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		question->ask(base);
	return NULL;
}

/* No errors are expected of these, whoever asks */
static void must(CUresult rc, const char *call)
{
	if (rc) {
		printf("%s: error %d\n", call, (int) rc);
		exit(1);
	}
}
#define MUST(call) must(call, #call)

static void map(CUdeviceptr ptr)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	};
	const CUmemAccessDesc access = {.location = prop.location,
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	MUST(cuMemCreate(&handle, SIZE, &prop, 0));
	MUST(cuMemMap(ptr, SIZE, 0, handle, 0));
	MUST(cuMemSetAccess(ptr, SIZE, &access, 1));
	MUST(cuMemRelease(handle));
}

/* Returns how often it has unmapped the memory */
static unsigned long unmap(struct question *question, int seconds)
{
	time_t until;
	unsigned long rounds = 0;
	pthread_t thread;
	CUdevice device;

	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&ctx, device));
	MUST(cuCtxSetCurrent(ctx));
	MUST(cuMemAddressReserve(&base, 2 * SIZE, 0, 0, 0));
	map(base + SIZE);
	if (pthread_create(&thread, NULL, asker, question))
		exit(1);
	for (until = time(NULL) + seconds; time(NULL) < until; rounds++) {
		map(base);
		MUST(cuMemUnmap(base, SIZE));
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return rounds;
}

int main(int argc, char **argv)
{
	static struct question questions[] = {
		{"cuMemRetainAllocationHandle", ask_retain},
		{"cuPointerGetAttributes", ask_attributes},
		{"cuPointerGetAttribute: the id", ask_id},
		{"cuMemGetAddressRange", ask_range},
		{"cuPointerGetAttributes, beside it", ask_beside},
	};
	const int seconds = argc > 1 ? atoi(argv[1]) : 5;

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		int status = 0;

		printf("%-40s", questions[i].name);
		fflush(stdout);
		if (!fork()) {
			printf("unmapped %lu times\n", unmap(&questions[i], seconds));
			exit(0);
		}
		if (wait(&status) > 0 && WIFSIGNALED(status))
			printf("%s\n", strsignal(WTERMSIG(status)));
	}
	return 0;
}
