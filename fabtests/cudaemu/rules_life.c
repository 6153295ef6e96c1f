/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Contexts that are gone, processes that end, devices that are hidden */
#include "rules.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a context that was destroyed ---- */

static CUcontext gone;
static CUstream gone_stream;
static CUevent gone_event;
static CUdeviceptr gone_memory;
static void *gone_pinned;
static char page[8192] __attribute__((aligned(4096)));

static void make_gone(void)
{
	rules_open();
	RULES_MUST(cuStreamCreate(&rules.side, CU_STREAM_NON_BLOCKING));
	RULES_MUST(cuMemAlloc_v2(&rules.device, 4096));
	RULES_MUST(cuMemHostAlloc(&rules.pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
	RULES_MUST(cuCtxCreate_v2(&gone, 0, 0));
	RULES_MUST(cuStreamCreate(&gone_stream, CU_STREAM_NON_BLOCKING));
	RULES_MUST(cuEventCreate(&gone_event, CU_EVENT_DISABLE_TIMING));
	RULES_MUST(cuEventRecord(gone_event, gone_stream));
	RULES_MUST(cuMemAlloc_v2(&gone_memory, 4096));
	RULES_MUST(cuMemHostAlloc(&gone_pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
	RULES_MUST(cuMemHostRegister_v2(page, sizeof(page), 0));
	RULES_MUST(cuCtxSynchronize());
	RULES_MUST(cuCtxDestroy_v2(gone));
}

#define SHOW(call) rules_row("%s: %s", #call, rules_name(call))

static void show_gone(void)
{
	CUpointer_attribute attr = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned long long id, value = 0;
	void *data = &value;
	CUcontext current = NULL;
	CUipcMemHandle handle;
	CUstream made;
	CUdevice dev;

	SHOW(cuCtxGetCurrent(&current));
	rules_row("current is %s", !current               ? "none"
				   : current == gone      ? "the destroyed one"
				   : current == rules.ctx ? "the one before"
							  : "another");
	SHOW(cuCtxGetId(gone, &id));
	SHOW(cuPointerGetAttribute(&value, attr, gone_memory));
	value = 7;
	SHOW(cuPointerGetAttributes(1, &attr, &data, gone_memory));
	rules_row("its memory's type: %llu", value);
	SHOW(cuIpcGetMemHandle(&handle, gone_memory));
	SHOW(cuMemcpyDtoDAsync_v2(rules.device, gone_memory, 64, rules.side));
	SHOW(cuMemcpyDtoD_v2(rules.device, gone_memory, 64));
	SHOW(cuMemFree_v2(gone_memory));
	SHOW(cuMemFreeHost(gone_pinned));
	SHOW(cuMemHostUnregister(page));
	SHOW(cuCtxSetCurrent(gone));
	SHOW(cuCtxSetCurrent(rules.ctx));
	SHOW(cuCtxPushCurrent_v2(gone));
	cuCtxGetCurrent(&current);
	rules_row("pushed: current is %s", current == gone ? "the destroyed one" : "not it");
	if (current == gone) {
		SHOW(cuCtxGetDevice(&dev));
		SHOW(cuCtxSynchronize());
		SHOW(cuMemAlloc_v2(&gone_memory, 64));
		SHOW(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
		SHOW(cuCtxPopCurrent_v2(&current));
	}
	SHOW(cuMemcpyAsync(rules.device, (CUdeviceptr) (uintptr_t) rules.pinned, 64,
			   rules.side));
	SHOW(cuStreamSynchronize(rules.side));
}

void rules_destroyed(void)
{
	make_gone();
	show_gone();
	SHOW(cuCtxDestroy_v2(gone));
	SHOW(cuEventQuery(gone_event));
	SHOW(cuEventDestroy_v2(gone_event));
}

void rules_destroyed_query(void)
{
	make_gone();
	SHOW(cuStreamQuery(gone_stream));
	SHOW(cuStreamSynchronize(gone_stream));
}

void rules_destroyed_copy(void)
{
	make_gone();
	SHOW(cuMemcpyAsync(rules.device, (CUdeviceptr) (uintptr_t) rules.pinned, 64,
			   gone_stream));
}

void rules_destroyed_destroy(void)
{
	make_gone();
	SHOW(cuStreamDestroy_v2(gone_stream));
}

/* The primary context is reset, then retained again */
void rules_reset(void)
{
	CUcontext again;
	unsigned long long before = 0, after = 0;

	rules_open();
	gone = rules.ctx;
	RULES_MUST(cuMemAlloc_v2(&gone_memory, 4096));
	RULES_MUST(cuStreamCreate(&rules.side, CU_STREAM_NON_BLOCKING));
	RULES_MUST(cuCtxGetId(gone, &before));
	SHOW(cuDevicePrimaryCtxReset_v2(0));
	SHOW(cuCtxGetId(gone, &after));
	SHOW(cuCtxSynchronize());
	SHOW(cuMemFree_v2(gone_memory));
	SHOW(cuDevicePrimaryCtxRetain(&again, 0));
	rules_row("the same handle: %d", again == gone);
	SHOW(cuCtxGetId(again, &after));
	rules_row("the same id: %d", before == after);
	SHOW(cuCtxSynchronize());
	SHOW(cuMemFree_v2(gone_memory));
}

/* ---- the end of a process ---- */

static void show_ended(const char *when)
{
	CUpointer_attribute attr = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned long long value = 0, id;
	void *data = &value;
	CUcontext current;
	CUdeviceptr ptr;

	rules_row("%s", when);
	SHOW(cuInit(0));
	SHOW(cuPointerGetAttributes(1, &attr, &data, rules.device));
	SHOW(cuCtxGetCurrent(&current));
	SHOW(cuCtxGetId(rules.ctx, &id));
	SHOW(cuCtxPushCurrent_v2(rules.ctx));
	SHOW(cuMemcpyAsync(rules.device, (CUdeviceptr) (uintptr_t) rules.pinned, 64,
			   rules.side));
	SHOW(cuStreamSynchronize(rules.side));
	SHOW(cuStreamQuery(rules.side));
	SHOW(cuStreamDestroy_v2(rules.side));
	SHOW(cuMemAlloc_v2(&ptr, 64));
	SHOW(cuMemFree_v2(rules.device));
	SHOW(cuMemFreeHost(rules.pinned));
}

static void ended_late(void)
{
	show_ended("in a function of atexit() from before cuInit()");
	_exit(0);
}

static void ended_early(void)
{
	unsigned long long id;

	rules_row("in a function of atexit() from after cuInit()");
	SHOW(cuCtxGetId(rules.ctx, &id));
	SHOW(cuMemcpyAsync(rules.device, (CUdeviceptr) (uintptr_t) rules.pinned, 64,
			   rules.side));
}

static void open_for_exit(void)
{
	rules_open();
	RULES_MUST(cuStreamCreate(&rules.side, CU_STREAM_NON_BLOCKING));
	RULES_MUST(cuMemAlloc_v2(&rules.device, 4096));
	RULES_MUST(cuMemHostAlloc(&rules.pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
}

void rules_exit(void)
{
	atexit(ended_late);
	open_for_exit();
	atexit(ended_early);
	exit(0);
}

static int ending;

static void *ended_elsewhere(void *arg)
{
	cuCtxSetCurrent(rules.ctx);
	while (!__atomic_load_n(&ending, __ATOMIC_ACQUIRE))
		usleep(1000);
	show_ended("in another thread, while functions of atexit() run");
	_exit(0);
	return NULL;
}

static void ended_wait(void)
{
	__atomic_store_n(&ending, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

void rules_exit_thread(void)
{
	pthread_t thread;

	atexit(ended_wait);
	open_for_exit();
	pthread_create(&thread, NULL, ended_elsewhere, NULL);
	exit(0);
}

/* ---- devices ---- */

static void uuid_text(char *text, const CUuuid *uuid)
{
	const unsigned char *b = (const unsigned char *) uuid->bytes;
	int i, at = sprintf(text, "GPU-");

	for (i = 0; i < 16; i++)
		at += sprintf(text + at, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

/* The list of devices that a process sees, by bus ids. It is the answer to the parent, too. */
static void list_devices(char *list, size_t size, CUresult *init)
{
	int pipes[2], count = 0, i, n = 0;
	char id[32];
	pid_t pid;

	if (pipe(pipes))
		_exit(1);
	pid = fork();
	if (pid == 0) {
		CUresult rc = cuInit(0);

		if (rc == CUDA_SUCCESS)
			cuDeviceGetCount(&count);
		if (write(pipes[1], &rc, sizeof(rc)) != sizeof(rc))
			_exit(1);
		for (i = 0; i < count && i < 16; i++) {
			memset(id, 0, sizeof(id));
			cuDeviceGetPCIBusId(id, sizeof(id), i);
			if (write(pipes[1], id, sizeof(id)) != sizeof(id))
				_exit(1);
		}
		_exit(0);
	}
	close(pipes[1]);
	if (read(pipes[0], init, sizeof(*init)) != sizeof(*init))
		*init = CUDA_ERROR_UNKNOWN;
	list[0] = 0;
	while (n + sizeof(id) < size && read(pipes[0], list + n, sizeof(id)) == sizeof(id))
		n += sizeof(id);
	list[n] = 0;
	close(pipes[0]);
	waitpid(pid, NULL, 0);
}

static void show_visible(const char *name, const char *value, const char *all)
{
	char list[520];
	CUresult rc;
	size_t i, j;

	setenv("CUDA_VISIBLE_DEVICES", value, 1);
	list_devices(list, sizeof(list), &rc);
	printf("CUDA_VISIBLE_DEVICES=%s: %s", name, rules_name(rc));
	for (i = 0; list[i]; i += 32)
		for (j = 0; all[j]; j += 32)
			if (!strcmp(list + i, all + j))
				printf(" %zu", j / 32);
	rules_row("%s", "");
}

/* Only what is the same for one device and for many: the first two */
void rules_visible(void)
{
	static const char *const values[] =
		{"",    "-1",         "0",   "0,0", "0,-1", "-1,0",          "99",    "0,99",
		 "0,x", "NoDevFiles", "0x0", " 0",  "0 ",   "MIG-GPU-1/2/3", "MIG-1", "GPU-"};
	char all[520], uuid[64];
	CUuuid bytes;
	CUresult rc;
	size_t i;
	int pipes[2];

	unsetenv("CUDA_VISIBLE_DEVICES");
	list_devices(all, sizeof(all), &rc);
	if (pipe(pipes) || fork() == 0) {
		if (cuInit(0) || cuDeviceGetUuid_v2(&bytes, 0) ||
		    write(pipes[1], &bytes, sizeof(bytes)) != sizeof(bytes))
			_exit(1);
		_exit(0);
	}
	close(pipes[1]);
	if (read(pipes[0], &bytes, sizeof(bytes)) != sizeof(bytes))
		memset(&bytes, 0, sizeof(bytes));
	wait(NULL);
	uuid_text(uuid, &bytes);
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		show_visible(values[i], values[i], all);
	show_visible("(the uuid of 0)", uuid, all);
	uuid[12] = 0;
	show_visible("(the beginning of it)", uuid, all);
	if (all[0] && all[32]) {
		show_visible("1", "1", all);
		show_visible("1,0", "1,0", all);
		show_visible("0,1,0", "0,1,0", all);
		show_visible("1,99,0", "1,99,0", all);
	} else {
		rules_row("(the rest needs two devices)");
	}
}

#define CU_DEVICE_ATTRIBUTE_MPS_ENABLED 133

void rules_names(void)
{
	char name[128] = "", bus[32] = "";
	CUuuid uuid, other;
	int value = -1, i, set = 0;

	RULES_MUST(cuInit(0));
	SHOW(cuDeviceGetName(name, sizeof(name), 0));
	rules_row("a MIG device by its name: %d", !!strstr(name, "MIG"));
	SHOW(cuDeviceGetUuid_v2(&uuid, 0));
	for (i = 0; i < 16; i++)
		set |= uuid.bytes[i];
	rules_row("a uuid that is not zero: %d", !!set);
	SHOW(cuDeviceGetUuid(&other, 0));
	rules_row("both uuids are the same: %d", !memcmp(&uuid, &other, sizeof(uuid)));
	SHOW(cuDeviceGetPCIBusId(bus, sizeof(bus), 0));
	rules_row("length of the bus id: %zu", strlen(bus));
	SHOW(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0));
	rules_row("MPS: %d", value);
	SHOW(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
	rules_row("PAGEABLE_MEMORY_ACCESS: %d", value);
	SHOW(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0));
	rules_row("CONCURRENT_MANAGED_ACCESS: %d", value);
}
