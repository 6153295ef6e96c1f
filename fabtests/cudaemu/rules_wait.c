/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which calls wait for a kernel that waits for the host, and whom they hold up meanwhile */
#include "rules.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* What the call does beside a kernel in the stream, and what copies by other threads do then */
static void print_wait(const struct rules_call *call, const char *where, CUstream stream)
{
	struct rules_held held, copy;
	bool returned, copied = true;

	if (call->before)
		call->before();
	cuCtxSynchronize();
	rules_kernel_spin(stream);
	returned = rules_returns(&held, call->call);
	if (!returned) {
		copied = rules_returns(&copy, rules_copy_aside);
		rules_kernel_stop();
		rules_join(&copy);
	}
	rules_kernel_stop();
	rules_join(&held);
	cuCtxSynchronize();
	if (call->after)
		call->after();
	printf(" %s %s%s", where, returned ? "returns" : "waits",
	       returned ? ""
	       : copied ? ", copies go on"
			: ", copies wait, too");
}

/* A stream in which kernel 0 has run, so that it is loaded */
static CUstream warm(void)
{
	CUstream stream;

	RULES_MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	rules_kernel_load(0, RULES_MODULE);
	rules_kernel_spin(stream);
	rules_kernel_stop();
	RULES_MUST(cuCtxSynchronize());
	return stream;
}

static void row_wait(const struct rules_call *call, CUstream other)
{
	printf("%s:", call->name);
	print_wait(call, "default", NULL);
	print_wait(call, "| non-blocking", other);
	rules_row("%s", "");
}

static void waits(void)
{
	CUstream other = warm();
	size_t i;

	for (i = 0; i < rules_calls_count; i++)
		if (rules_calls[i].waits)
			row_wait(&rules_calls[i], other);
}

void rules_waits(void)
{
	rules_open_all();
	waits();
}

void rules_waits_flag(void)
{
	rules_open_all();
	RULES_MUST(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SYNC_MEMOPS));
	waits();
}

static CUresult primary_plain(void)
{
	return cuDevicePrimaryCtxSetFlags_v2(0, 0);
}

static CUresult primary_sync(void)
{
	return cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SYNC_MEMOPS);
}

static CUresult current_plain(void)
{
	return cuCtxSetFlags(0);
}

static CUresult current_sync(void)
{
	return cuCtxSetFlags(CU_CTX_SYNC_MEMOPS);
}

/* Calls that change the flags, beside a kernel */
void rules_waits_set(void)
{
	static const struct rules_call sets[] = {
		{"cuDevicePrimaryCtxSetFlags(SYNC_MEMOPS)", primary_plain, primary_sync, NULL,
		 true},
		{"cuDevicePrimaryCtxSetFlags(0)", primary_sync, primary_plain, NULL, true},
		{"cuCtxSetFlags(SYNC_MEMOPS)", current_plain, current_sync, NULL, true},
		{"cuCtxSetFlags(0)", current_sync, current_plain, NULL, true},
	};
	CUstream other;
	size_t i;

	rules_open_all();
	other = warm();
	for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		row_wait(&sets[i], other);
}

static struct rules_peer peer;
static CUdeviceptr opened;

static CUresult peer_open(void)
{
	return cuIpcOpenMemHandle_v2(&opened, peer.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static CUresult peer_close(void)
{
	return cuIpcCloseMemHandle(opened);
}

void rules_waits_peer(void)
{
	const struct rules_call open = {"cuIpcOpenMemHandle", NULL, peer_open, peer_close,
					true};
	const struct rules_call close = {"cuIpcCloseMemHandle", peer_open, peer_close, NULL,
					 true};
	CUstream other;

	rules_peer_start(&peer);
	rules_open_all();
	other = warm();
	row_wait(&open, other);
	row_wait(&close, other);
	rules_peer_end(&peer);
}

/* ---- what other threads can do while a call waits for a kernel ---- */

static CUdeviceptr spare;

static CUresult wait_in_free(void)
{
	return cuMemFree_v2(spare);
}

static CUresult wait_in_copy(void)
{
	return cuMemcpyHtoD_v2(rules.device, rules.pageable, 4096);
}

/* Each call while another thread is in "holder", which waits for a kernel */
static void print_meanwhile(const struct rules_call *call, const char *what,
			    CUresult (*holder)(void))
{
	struct rules_held held, asked;
	bool waits, returned;

	if (call->before)
		call->before();
	RULES_MUST(cuMemAlloc_v2(&spare, 4096));
	cuCtxSynchronize();
	rules_kernel_spin(NULL);
	waits = !rules_returns(&held, holder);
	returned = rules_returns(&asked, call->call);
	rules_kernel_stop();
	rules_join(&held);
	rules_join(&asked);
	cuCtxSynchronize();
	if (holder != wait_in_free)
		cuMemFree_v2(spare);
	if (call->after)
		call->after();
	printf(" %s %s", what, !waits ? "does not wait" : returned ? "returns" : "waits");
}

void rules_meanwhile(void)
{
	size_t i;

	rules_open_all();
	warm();
	for (i = 0; i < rules_calls_count; i++) {
		if (!rules_calls[i].held)
			continue;
		printf("%s:", rules_calls[i].name);
		print_meanwhile(&rules_calls[i], "during cuMemFree", wait_in_free);
		print_meanwhile(&rules_calls[i], "during cuMemcpyHtoD", wait_in_copy);
		rules_row("%s", "");
	}
}

/* ---- kernels that are launched for the first time ---- */

static unsigned int next_kernel;
static CUstream launch_stream;

static CUresult launch(void)
{
	return rules_kernel_launch(next_kernel, launch_stream, rules.words, 0);
}

/* Something runs in the device: what does the call do, and what do copies do? */
static void print_beside(const char *what, CUresult (*call)(void), void (*stop)(void))
{
	struct rules_held held, copy;
	bool returned, copied = true;

	returned = rules_returns(&held, call);
	if (!returned)
		copied = rules_returns(&copy, rules_copy_aside);
	stop();
	rules_join(&held);
	if (!returned)
		rules_join(&copy);
	cuCtxSynchronize();
	rules_row("%s: %s %s%s", what, rules_name(held.rc), returned ? "returns" : "waits",
		  returned ? ""
		  : copied ? ", copies go on"
			   : ", copies wait, too");
}

static void wait_for_value(CUstream stream)
{
	memset(rules.words, 0, sizeof(*rules.words));
	RULES_MUST(cuStreamWaitValue32_v2(stream, (CUdeviceptr) (uintptr_t) &rules.words->stop,
					  1, CU_STREAM_WAIT_VALUE_EQ));
}

static void load_next(enum rules_way way)
{
	rules_kernel_load(++next_kernel, way);
}

static void loading(const char *name, enum rules_way way, CUstream running)
{
	char what[80];

	load_next(way);
	rules_kernel_spin(running);
	snprintf(what, sizeof(what), "%s, first launch beside a kernel", name);
	print_beside(what, launch, rules_kernel_stop);
	rules_kernel_spin(running);
	snprintf(what, sizeof(what), "%s, second launch beside a kernel", name);
	print_beside(what, launch, rules_kernel_stop);
	load_next(way);
	wait_for_value(running);
	snprintf(what, sizeof(what), "%s, first launch beside a stream that waits for a value",
		 name);
	print_beside(what, launch, rules_kernel_stop);
	load_next(way);
	launch_stream = rules.blocking;
	rules_kernel_spin(running);
	snprintf(what, sizeof(what), "%s, first launch in a blocking stream", name);
	print_beside(what, launch, rules_kernel_stop);
	launch_stream = rules.side;
}

/* A copy of before the launch, which the host lets go by a value */
static void copy_let_go(CUstream running)
{
	CUdeviceptr words = (CUdeviceptr) (uintptr_t) rules.words;
	const struct timespec round = {0, 1000000};
	struct rules_held held;
	bool returned;
	int left = 250;

	load_next(RULES_LIBRARY);
	rules_kernel_spin(running);
	RULES_MUST(
		cuStreamWaitValue32_v2(rules.blocking, words + 8, 1, CU_STREAM_WAIT_VALUE_EQ));
	RULES_MUST(cuMemcpyAsync(rules.device, (CUdeviceptr) (uintptr_t) rules.pinned, 4096,
				 rules.blocking));
	RULES_MUST(cuStreamWriteValue32_v2(rules.blocking, words + 8, 2, 0));
	returned = rules_returns(&held, launch);
	__atomic_store_n(&rules.words->store, 1, __ATOMIC_SEQ_CST);
	for (; left && __atomic_load_n(&rules.words->store, __ATOMIC_ACQUIRE) != 2; left--)
		nanosleep(&round, NULL);
	rules_kernel_stop();
	rules_join(&held);
	cuCtxSynchronize();
	rules_row(
		"a copy that was queued before a first launch beside a kernel, and let go then: "
		"%s, the launch %s",
		left ? "goes on" : "waits", returned ? "returns" : "waits");
}

/* Is a kernel there once it was asked about? */
static void asked_before(CUstream running, enum rules_ahead ahead)
{
	CUresult rc;

	load_next(RULES_LIBRARY);
	rc = rules_kernel_ahead(next_kernel, ahead);
	rules_kernel_spin(running);
	rules_row("loaded ahead, way %d: %s", (int) ahead, rules_name(rc));
	print_beside("first launch then", launch, rules_kernel_stop);
}

static CUresult load(void)
{
	load_next(RULES_MODULE);
	return CUDA_SUCCESS;
}

/* As a kernel is loaded that a program has compiled at run time */
static void loaded_beside(CUstream running)
{
	rules_kernel_spin(running);
	print_beside("cuModuleLoadData beside a kernel", load, rules_kernel_stop);
	rules_kernel_spin(running);
	print_beside("first launch then", launch, rules_kernel_stop);
}

/* In its order: kernel 0 is known, and waits; a copy was begun before the launch */
static void copy_before(CUstream running)
{
	struct rules_held held;
	bool returned;

	load_next(RULES_LIBRARY);
	wait_for_value(running);
	RULES_MUST(cuMemcpyAsync(rules.device, (CUdeviceptr) (uintptr_t) rules.pinned, 4096,
				 running));
	RULES_MUST(
		cuStreamWriteValue32_v2(running, (CUdeviceptr) (uintptr_t) rules.pinned, 1, 0));
	returned = rules_returns(&held, launch);
	rules_kernel_stop();
	rules_join(&held);
	cuCtxSynchronize();
	rules_row("first launch beside a copy that waits in its stream: %s",
		  returned ? "returns" : "waits");
}

void rules_loading(void)
{
	CUstream running;
	CUmoduleLoadingMode mode = 0;

	rules_open_all();
	rules_row("cuModuleGetLoadingMode: %s", rules_name(cuModuleGetLoadingMode(&mode)));
	rules_row("lazy: %d", mode == CU_MODULE_LAZY_LOADING);
	running = warm();
	launch_stream = rules.side;
	loading("module", RULES_MODULE, running);
	loading("library", RULES_LIBRARY, running);
	copy_before(running);
	copy_let_go(running);
	asked_before(running, RULES_AHEAD_FUNCTION);
	asked_before(running, RULES_AHEAD_ATTRIBUTE);
	asked_before(running, RULES_AHEAD_LOAD);
	loaded_beside(running);
}
