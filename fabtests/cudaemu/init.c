/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Start of the emulated driver, its version, the names of its errors, and the lookup of its
 * functions by name.
 */
#define _GNU_SOURCE
#include "emu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define EMU_VERSION 13000

struct emu emu = {.lock = PTHREAD_MUTEX_INITIALIZER, .vendor = "CUDA"};

/* As with the real driver, nothing works in a child of a process that had initialised it */
static void emu_fork_child(void)
{
	__atomic_store_n(&emu.forked, true, __ATOMIC_RELAXED);
	__atomic_store_n(&emu.initialised, false, __ATOMIC_RELEASE);
}

/* Functions of atexit() from before cuInit() find the driver gone, as do threads that go on meanwhile */
static void emu_end(void)
{
	__atomic_store_n(&emu.ended, true, __ATOMIC_RELEASE);
}

/* This library, whatever its name is; the caller closes it. NULL: it is part of the program. */
static void *emu_self(int flags)
{
	static const char here;
	Dl_info info;

	return dladdr(&here, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | flags)
				    : NULL;
}

static CUresult emu_start(void)
{
	void *self = emu_self(RTLD_NODELETE);
	int i;

	/* a program may close the library while streams have threads */
	if (self)
		dlclose(self);
	if (getrandom(&emu.token, sizeof(emu.token), 0) != sizeof(emu.token))
		return CUDA_ERROR_OPERATING_SYSTEM;
	emu.token |= 1;
	emu.udmabuf = !emu.conf.no_dmabuf && emu.conf.host < 0 &&
		      access("/dev/udmabuf", R_OK | W_OK) == 0;
	for (i = 0; i < emu.conf.devices; i++)
		emu_device_init(&emu.dev[i], i);
	pthread_atfork(NULL, NULL, emu_fork_child);
	if (!strcmp(emu.vendor, "CUDA"))
		atexit(emu_end);
	fprintf(stderr,
		"cudaemu: EMULATED %s device (test only): %d devices, %llu MiB each%s%s\n",
		emu.vendor, emu.conf.devices, (unsigned long long) emu.conf.memory >> 20,
		emu.udmabuf ? "" : ", no dma-buf",
		emu.conf.no_memops ? ", no stream memory operations" : "");
	__atomic_store_n(&emu.initialised, true, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

EMU_API(cuInit, unsigned int flags)
{
	CUresult rc = CUDA_SUCCESS;

	EMU_ENTER(EMU_NEED_NOTHING);
	if (__atomic_load_n(&emu.forked, __ATOMIC_RELAXED))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (emu.conf.no_init || emu.conf.devices < 1)
		return CUDA_ERROR_NO_DEVICE;
	pthread_mutex_lock(&emu.lock);
	if (!emu.initialised)
		rc = emu_devices_see();
	if (rc == CUDA_SUCCESS && !emu.initialised)
		rc = emu_start();
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuDriverGetVersion, int *version)
{
	EMU_ENTER(EMU_NEED_NOTHING);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = EMU_VERSION;
	return CUDA_SUCCESS;
}

CUresult emu_error_name(CUresult rc, const char **name)
{
#define EMU_NAMED(code, value) {code, #code},
	static const struct {
		CUresult code;
		const char *name;
	} names[] = {P2P_CUDA_RESULTS(EMU_NAMED)};
#undef EMU_NAMED
	size_t i;

	*name = NULL;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].code == rc)
			*name = names[i].name;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_API(cuGetErrorName, CUresult error, const char **name)
{
	EMU_ENTER(EMU_NEED_NOTHING);
	return emu_error_name(error, name);
}

/* The emulator has no better words for an error than its name */
EMU_API(cuGetErrorString, CUresult error, const char **string)
{
	EMU_ENTER(EMU_NEED_NOTHING);
	return emu_error_name(error, string);
}

/* Functions whose versions differ in more than a suffix; the newest comes first */
static const struct emu_proc {
	const char *name, *symbol;
	int since;
} emu_procs[] = {
	{"cuCtxCreate", "cuCtxCreate_v4", 12050},
	{"cuCtxCreate", "cuCtxCreate_v3", 11040},
	{"cuCtxCreate", "cuCtxCreate_v2", 3020},
	{"cuGetProcAddress", "cuGetProcAddress_v2", 12000},
	{"cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000},
	{"cuGraphInstantiate", "cuGraphInstantiate_v2", 11000},
	{"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v3", 12030},
	{"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 11030},
	{"cuGetProcAddress", "cuGetProcAddress", 11030},
	{"cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2", 13000},
	{"cuMemcpyBatchAsync", "cuMemcpyBatchAsync", 12080},
};

static void *emu_symbol(const char *name)
{
	void *self = emu_self(0), *symbol;

	if (!self)
		return NULL;
	symbol = dlsym(self, name);
	dlclose(self);
	return symbol;
}

static CUdriverProcAddressQueryResult emu_proc_find(const char *name, int version, void **fn)
{
	char versioned[80];
	bool known = false;
	size_t i;

	*fn = NULL;
	for (i = 0; i < sizeof(emu_procs) / sizeof(emu_procs[0]); i++) {
		if (strcmp(emu_procs[i].name, name))
			continue;
		known = true;
		if (version >= emu_procs[i].since) {
			*fn = emu_symbol(emu_procs[i].symbol);
			return CU_GET_PROC_ADDRESS_SUCCESS;
		}
	}
	if (known)
		return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	/* callers name functions without a version, in the driver's own namespace */
	if (strncmp(name, "cu", 2) || !strncmp(name, "cuda", 4) || strstr(name, "_v"))
		return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	snprintf(versioned, sizeof(versioned), "%s_v2", name);
	*fn = emu_symbol(versioned);
	if (!*fn)
		*fn = emu_symbol(name);
	return *fn ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

EMU_API(cuGetProcAddress_v2, const char *symbol, void **fn, int version, cuuint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult result;

	EMU_ENTER(EMU_NEED_NOTHING);
	if (!symbol || !fn)
		return CUDA_ERROR_INVALID_VALUE;
	result = emu_proc_find(symbol, version, fn);
	if (status)
		*status = result;
	return *fn || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EMU_API(cuGetProcAddress, const char *symbol, void **fn, int version, cuuint64_t flags)
{
	return cuGetProcAddress_v2(symbol, fn, version, flags, NULL);
}
