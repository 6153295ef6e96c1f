/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which device reaches which memory; and memory that other processes have open */
#include "rules.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- devices ---- */

static CUcontext ctxs[2];
static CUstream streams[2];

static bool open_two(void)
{
	void *words;
	int count, i;

	rules_open();
	RULES_MUST(cuDeviceGetCount(&count));
	if (count < 2) {
		rules_row("(this part needs two devices)");
		return false;
	}
	for (i = 0; i < 2; i++) {
		RULES_MUST(cuDevicePrimaryCtxRetain(&ctxs[i], i));
		RULES_MUST(cuCtxSetCurrent(ctxs[i]));
		RULES_MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	}
	RULES_MUST(cuCtxSetCurrent(ctxs[0]));
	RULES_MUST(cuMemHostAlloc(&rules.pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
	RULES_MUST(cuMemHostAlloc(&words, sizeof(*rules.words), CU_MEMHOSTALLOC_PORTABLE));
	rules.words = words;
	return true;
}

/* By each device: the attributes with its context current, a copy in its stream, and its access */
static void show_access(const char *what, CUdeviceptr ptr)
{
	unsigned long long flags, device_pointer, ctx;
	unsigned int access, ordinal;
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUresult rc, copied;
	int i;

	for (i = 0; i < 2; i++) {
		location.id = i;
		flags = 9;
		access = 9;
		ordinal = 9;
		device_pointer = ctx = 0;
		cuCtxSetCurrent(ctxs[i]);
		rc = cuMemGetAccess(&flags, &location, ptr);
		printf("%s, device %d: cuMemGetAccess %s %llu", what, i, rules_name(rc), flags);
		rc = cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, ptr);
		printf(", ACCESS_FLAGS %s %u", rules_name(rc), access);
		rc = cuPointerGetAttribute(&device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
					   ptr);
		printf(", DEVICE_POINTER %s %d", rules_name(rc), device_pointer == ptr);
		rc = cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr);
		printf(", ORDINAL %s %u", rules_name(rc), ordinal);
		rc = cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, ptr);
		printf(", CONTEXT %s %d", rules_name(rc), !!ctx);
		copied = cuMemcpyAsync((CUdeviceptr) (uintptr_t) rules.pinned, ptr, 64,
				       streams[i]);
		rc = cuStreamSynchronize(streams[i]);
		rules_row(", copy %s %s", rules_name(copied), rules_name(rc));
	}
}

static CUresult access_both(CUdeviceptr ptr)
{
	CUresult rc = rules_vmm_access(ptr, 2 << 20, 0);

	return rc ? rc : rules_vmm_access(ptr, 2 << 20, 1);
}

void rules_access(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr ptr;

	if (!open_two())
		return;
	RULES_MUST(cuMemAlloc_v2(&ptr, 4096));
	show_access("cuMemAlloc of device 0", ptr);
	ptr = rules_vmm_new(2 << 20, 0, &handle);
	show_access("vmm of device 0, no access", ptr);
	rules_row("set: %s", rules_name(rules_vmm_access(ptr, 2 << 20, 0)));
	show_access("vmm of device 0, access of device 0", ptr);
	ptr = rules_vmm_new(2 << 20, 0, &handle);
	rules_row("set: %s", rules_name(rules_vmm_access(ptr, 2 << 20, 1)));
	show_access("vmm of device 0, access of device 1", ptr);
	ptr = rules_vmm_new(2 << 20, 0, &handle);
	rules_row("set: %s", rules_name(access_both(ptr)));
	show_access("vmm of device 0, access of both", ptr);
}

/* The error sticks: so the kernel is the last thing that the part does */
void rules_access_kernel(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr ptr;
	CUresult rc;
	int device;

	if (!open_two())
		return;
	ptr = rules_vmm_new(2 << 20, 0, &handle);
	RULES_MUST(rules_vmm_access(ptr, 2 << 20, 0));
	for (device = 0; device < 2; device++) {
		RULES_MUST(cuCtxSetCurrent(ctxs[device]));
		rules_kernel_load((unsigned int) device, RULES_MODULE);
		memset(rules.words, 0, sizeof(*rules.words));
		rules.words->stop = 1;
		rc = rules_kernel_launch((unsigned int) device, streams[device], rules.words,
					 ptr);
		rules_row(
			"a kernel of device %d stores to vmm of device 0 with access of device 0: %s, %s",
			device, rules_name(rc),
			rules_name(cuStreamSynchronize(streams[device])));
	}
}

/* ---- memory that another process has open ---- */

/* In units of the peer's allocations */
static const char *freed(long before, long after)
{
	const long unit = (long) (RULES_PEER_SIZE >> 20);

	return after - before > unit / 2 ? "comes free" : "stays in use";
}

static void credit_plain(struct rules_peer *peer, bool opened)
{
	long before = rules_peer_ask(peer, 'i'), after = rules_peer_ask(peer, 'f');

	rules_row("cuMemAlloc that is %s, freed by its owner: %s",
		  opened ? "open in another process" : "closed again", freed(before, after));
}

void rules_credit(void)
{
	struct rules_peer peer, second;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr ptr, vmm;
	long before, after;

	rules_peer_start(&peer);
	rules_peer_start(&second);
	rules_open();
	RULES_MUST(
		cuIpcOpenMemHandle_v2(&ptr, second.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	RULES_MUST(cuIpcCloseMemHandle(ptr));
	credit_plain(&second, false);
	RULES_MUST(
		cuIpcOpenMemHandle_v2(&ptr, peer.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	credit_plain(&peer, true);
	rules_row("a copy from it then: %s", rules_name(cuMemsetD8_v2(ptr, 1, 4096)));
	before = rules_peer_ask(&peer, 'i');
	rules_row("cuIpcCloseMemHandle: %s", rules_name(cuIpcCloseMemHandle(ptr)));
	after = rules_peer_ask(&peer, 'i');
	rules_row("closed by the other process then: %s", freed(before, after));

	RULES_MUST(cuMemImportFromShareableHandle(&handle, (void *) (uintptr_t) peer.fd,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(peer.fd);
	RULES_MUST(cuMemAddressReserve(&vmm, RULES_PEER_SIZE, 0, 0, 0));
	RULES_MUST(cuMemMap(vmm, RULES_PEER_SIZE, 0, handle, 0));
	RULES_MUST(rules_vmm_access(vmm, RULES_PEER_SIZE, 0));
	RULES_MUST(cuMemRelease(handle));
	before = rules_peer_ask(&peer, 'i');
	after = rules_peer_ask(&peer, 'u');
	rules_row("vmm that is mapped in another process, released by its owner: %s",
		  freed(before, after));
	before = after;
	RULES_MUST(cuMemUnmap(vmm, RULES_PEER_SIZE));
	after = rules_peer_ask(&peer, 'i');
	rules_row("unmapped by the other process then: %s", freed(before, after));
	before = after;
	after = rules_peer_ask(&second, 'u');
	rules_row("vmm whose descriptor another process has, released by its owner: %s",
		  freed(before, after));
	close(second.fd);
	before = after;
	after = rules_peer_ask(&second, 'i');
	rules_row("the descriptor is closed then: %s", freed(before, after));
	rules_peer_end(&peer);
	rules_peer_end(&second);
}

/* ---- what is told of other processes' memory ---- */

static void show_import(const char *what, CUdeviceptr ptr)
{
	unsigned long long value;
	CUresult rc;
	size_t i;
	static const struct {
		CUpointer_attribute attr;
		const char *name;
		bool pointer;
	} attrs[] = {
		{CU_POINTER_ATTRIBUTE_CONTEXT, "CONTEXT", true},
		{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "MEMORY_TYPE", false},
		{CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "SYNC_MEMOPS", false},
		{CU_POINTER_ATTRIBUTE_IS_MANAGED, "IS_MANAGED", false},
		{CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "DEVICE_ORDINAL", false},
		{CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, "IS_LEGACY_CUDA_IPC_CAPABLE",
		 false},
		{CU_POINTER_ATTRIBUTE_RANGE_SIZE, "RANGE_SIZE", false},
		{CU_POINTER_ATTRIBUTE_MAPPED, "MAPPED", false},
		{CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, "ALLOWED_HANDLE_TYPES", false},
		{CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, "IS_GPU_DIRECT_RDMA_CAPABLE",
		 false},
		{CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "ACCESS_FLAGS", false},
		{CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "MEMPOOL_HANDLE", true},
	};

	for (i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		value = 0;
		rc = cuPointerGetAttribute(&value, attrs[i].attr, ptr);
		rules_row("%s, %s: %s %llu", what, attrs[i].name, rules_name(rc),
			  attrs[i].pointer ? !!value : value);
	}
}

void rules_imports(void)
{
	const unsigned int on = 1;
	CUmemGenericAllocationHandle handle;
	struct rules_peer peer;
	CUipcMemHandle again;
	CUdeviceptr ptr, second, vmm;

	rules_peer_start(&peer);
	rules_open();
	RULES_MUST(
		cuIpcOpenMemHandle_v2(&ptr, peer.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	show_import("opened", ptr);
	rules_row("opened, set SYNC_MEMOPS: %s",
		  rules_name(
			  cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr)));
	rules_row("opened, cuIpcGetMemHandle: %s", rules_name(cuIpcGetMemHandle(&again, ptr)));
	second = 0;
	rules_row("opened twice: %s",
		  rules_name(cuIpcOpenMemHandle_v2(&second, peer.handle,
						   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	rules_row("opened twice, the same address: %d", ptr == second);
	rules_row("opened, cuMemFree: %s", rules_name(cuMemFree_v2(ptr)));
	rules_row("cuIpcCloseMemHandle within it: %s",
		  rules_name(cuIpcCloseMemHandle(ptr + 4096)));
	rules_row("cuIpcCloseMemHandle: %s", rules_name(cuIpcCloseMemHandle(ptr)));
	rules_row("cuIpcCloseMemHandle again: %s", rules_name(cuIpcCloseMemHandle(ptr)));
	rules_row("cuIpcCloseMemHandle once more: %s", rules_name(cuIpcCloseMemHandle(ptr)));
	rules_peer_ask(&peer, 'f');
	rules_row("opened after its owner has freed it: %s",
		  rules_name(cuIpcOpenMemHandle_v2(&ptr, peer.handle,
						   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	RULES_MUST(cuMemImportFromShareableHandle(&handle, (void *) (uintptr_t) peer.fd,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	RULES_MUST(cuMemAddressReserve(&vmm, RULES_PEER_SIZE, 0, 0, 0));
	RULES_MUST(cuMemMap(vmm, RULES_PEER_SIZE, 0, handle, 0));
	RULES_MUST(rules_vmm_access(vmm, RULES_PEER_SIZE, 0));
	show_import("imported", vmm);
	rules_peer_end(&peer);
}
