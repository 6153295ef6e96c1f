/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The environment: configuration and injected faults. emu_enter opens every exported function.
 * So it can make each of them fail at a given call, and counts the calls. An example:
 *
 *   CUDAEMU_FAIL="cuMemcpyAsync:5,cuMemHostAlloc:1+,cuMemAlloc:2:801"
 *
 * This fails the fifth cuMemcpyAsync, every cuMemHostAlloc, and the second cuMemAlloc with code
 * 801. Names carry no _v2: the fault hits every version of the function.
 */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMU_MAX_FAULTS 32
#define EMU_MAX_FUNCTIONS 1024

struct emu_fault {
	char name[64];
	unsigned long nth;
	bool onwards;
	CUresult code;
	unsigned long calls;
};

__thread bool emu_in_callback;
static struct emu_fault emu_faults[EMU_MAX_FAULTS];
static int emu_nfaults;
static struct {
	const char *function;
	unsigned long calls;
} emu_counts[EMU_MAX_FUNCTIONS];
static unsigned long emu_broken_from, emu_broken_calls;
static pthread_once_t emu_env_once = PTHREAD_ONCE_INIT;

static unsigned long emu_env_number(const char *name, unsigned long fallback)
{
	const char *s = getenv(name);

	return s && *s ? strtoul(s, NULL, 0) : fallback;
}

static void emu_fault_parse(const char *item)
{
	struct emu_fault *fault = &emu_faults[emu_nfaults];
	const char *colon = strchr(item, ':');
	size_t len = colon ? (size_t) (colon - item) : strlen(item);
	char *end;

	if (len == 0 || len >= sizeof(fault->name) || emu_nfaults == EMU_MAX_FAULTS) {
		fprintf(stderr, "cudaemu: CUDAEMU_FAIL: bad item \"%s\"\n", item);
		abort(); /* a test that injects nothing must not pass */
	}
	memcpy(fault->name, item, len);
	fault->nth = 1;
	fault->code = CUDA_ERROR_UNKNOWN;
	if (colon) {
		fault->nth = strtoul(colon + 1, &end, 0);
		fault->onwards = *end == '+';
		end += fault->onwards;
		if (*end == ':')
			fault->code = (CUresult) strtoul(end + 1, &end, 0);
		if (*end || !fault->nth) {
			fprintf(stderr, "cudaemu: CUDAEMU_FAIL: bad item \"%s\"\n", item);
			abort();
		}
	}
	emu_nfaults++;
}

static void emu_env_read(void)
{
	const char *env = getenv("CUDAEMU_FAIL");
	char *list, *item, *save = NULL;

	if (env) {
		list = strdup(env);
		for (item = strtok_r(list, ", ", &save); item;
		     item = strtok_r(NULL, ", ", &save))
			emu_fault_parse(item);
		free(list);
	}
	emu_config_read(&emu.conf);
}

void emu_config_read(struct emu_config *conf)
{
	const char *gbps = getenv("CUDAEMU_COPY_GBPS");
	const char *loading = getenv("CUDA_MODULE_LOADING");

	conf->devices = (int) emu_env_number("CUDAEMU_DEVICES", 2);
	if (conf->devices > EMU_MAX_DEVICES)
		conf->devices = EMU_MAX_DEVICES;
	conf->memory = (uint64_t) emu_env_number("CUDAEMU_MEMORY_MB", 2048) << 20;
	conf->copy_latency_us = (unsigned int) emu_env_number("CUDAEMU_COPY_LATENCY_US", 0);
	conf->kernel_latency_ms = (unsigned int) emu_env_number("CUDAEMU_KERNEL_LATENCY_MS", 0);
	conf->copy_gbps = gbps ? strtod(gbps, NULL) : 0;
	conf->shuffle = getenv("CUDAEMU_SHUFFLE") != NULL;
	conf->shuffle_seed = emu_env_number("CUDAEMU_SHUFFLE", 0);
	conf->hang_copy = emu_env_number("CUDAEMU_HANG_COPY", 0);
	conf->no_dmabuf = emu_env_number("CUDAEMU_NO_DMABUF", 0) != 0;
	conf->no_memops = emu_env_number("CUDAEMU_NO_MEMOPS", 0) != 0;
	conf->unordered = emu_env_number("CUDAEMU_UNORDERED", 0) != 0;
	conf->eager = loading && !strcmp(loading, "EAGER");
	conf->host = (int) emu_env_number("CUDAEMU_HOST", -1);
	conf->no_init = emu_env_number("CUDAEMU_NO_INIT", 0) != 0;
}

/* The length of a function's name without its version */
static size_t emu_name_length(const char *function)
{
	size_t len = strlen(function);

	if (len > 3 && function[len - 3] == '_' && function[len - 2] == 'v')
		len -= 3;
	return len;
}

static CUresult emu_fault_check(const char *function)
{
	size_t len = emu_name_length(function);
	struct emu_fault *fault;
	unsigned long call;

	for (fault = emu_faults; fault < emu_faults + emu_nfaults; fault++) {
		if (strlen(fault->name) != len || memcmp(fault->name, function, len))
			continue;
		call = __atomic_add_fetch(&fault->calls, 1, __ATOMIC_RELAXED);
		if (call == fault->nth)
			fprintf(stderr, "fault: %s:%lu\n", fault->name, call);
		if (call == fault->nth || (fault->onwards && call > fault->nth))
			return fault->code;
	}
	return CUDA_SUCCESS;
}

unsigned long cudaemu_break(unsigned long nth)
{
	const unsigned long from = __atomic_exchange_n(&emu_broken_from, 0, __ATOMIC_SEQ_CST);
	const unsigned long calls = __atomic_exchange_n(&emu_broken_calls, 0, __ATOMIC_SEQ_CST);

	__atomic_store_n(&emu_broken_from, nth, __ATOMIC_SEQ_CST);
	return from && calls >= from ? calls - from + 1 : 0;
}

static CUresult emu_broken_check(void)
{
	const unsigned long from = __atomic_load_n(&emu_broken_from, __ATOMIC_SEQ_CST);

	return from && __atomic_add_fetch(&emu_broken_calls, 1, __ATOMIC_SEQ_CST) >= from
		       ? CUDA_ERROR_LAUNCH_FAILED
		       : CUDA_SUCCESS;
}

static void emu_count(const char *function)
{
	size_t at = (uintptr_t) function / 16;
	const char *there = NULL;

	/* each function has one address, and there are fewer of them than places */
	do {
		at = (at + 1) % EMU_MAX_FUNCTIONS;
		there = NULL;
	} while (!__atomic_compare_exchange_n(&emu_counts[at].function, &there, function, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
		 there != function);
	__atomic_add_fetch(&emu_counts[at].calls, 1, __ATOMIC_RELAXED);
}

unsigned long cudaemu_calls(const char *name)
{
	unsigned long calls = 0;
	const char *function;

	for (int i = 0; i < EMU_MAX_FUNCTIONS; i++) {
		function = __atomic_load_n(&emu_counts[i].function, __ATOMIC_RELAXED);
		if (function && (!name || (strlen(name) == emu_name_length(function) &&
					   !strncmp(name, function, strlen(name)))))
			calls += __atomic_load_n(&emu_counts[i].calls, __ATOMIC_RELAXED);
	}
	return calls;
}

CUresult emu_enter(const char *function, enum emu_need need)
{
	CUresult rc = CUDA_SUCCESS;

	emu_count(function);
	pthread_once(&emu_env_once, emu_env_read);
	if (__atomic_load_n(&emu.ended, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_DEINITIALIZED;
	if (emu_nfaults)
		rc = emu_fault_check(function);
	if (rc == CUDA_SUCCESS)
		rc = emu_broken_check();
	if (rc == CUDA_SUCCESS && need >= EMU_NEED_DRIVER &&
	    !__atomic_load_n(&emu.initialised, __ATOMIC_ACQUIRE))
		rc = CUDA_ERROR_NOT_INITIALIZED;
	if (rc == CUDA_SUCCESS && need >= EMU_NEED_INIT && emu_in_callback)
		rc = CUDA_ERROR_NOT_PERMITTED;
	if (rc == CUDA_SUCCESS && need >= EMU_NEED_CTX)
		rc = emu_ctx_check(emu_ctx_current());
	if (rc == CUDA_SUCCESS && need >= EMU_NEED_CTX)
		rc = emu_ctx_error(emu_ctx_current());
	return rc;
}
