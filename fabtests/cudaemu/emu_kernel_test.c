/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shows what kernels see and do on the emulator, and that all else keeps its rules meanwhile. The
 * kernels themselves are in emu_kernels.cc.
 */
#define _GNU_SOURCE
#include "emu_test.h"
#include "emu_kernels.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define COUNT 1000
#define BYTES (COUNT * sizeof(uint32_t))

static CUcontext ctx;
static CUstream stream;
static uint32_t *pinned; /* BYTES, for results */
static uint32_t *gate;   /* pinned as well */

static void *at(CUdeviceptr d)
{
	return (void *) (uintptr_t) d;
}

static int setup(void **state)
{
	void *p;

	ok(cuInit(0));
	ok(cuDevicePrimaryCtxRetain(&ctx, 0));
	ok(cuCtxSetCurrent(ctx));
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuMemHostAlloc(&p, BYTES, 0));
	pinned = p;
	ok(cuMemHostAlloc(&p, sizeof(*gate), 0));
	gate = p;
	return 0;
}

static int teardown(void **state)
{
	ok(cuMemFreeHost(gate));
	ok(cuMemFreeHost(pinned));
	ok(cuStreamDestroy_v2(stream));
	ok(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

static void gate_set(uint32_t value)
{
	__atomic_store_n(gate, value, __ATOMIC_SEQ_CST);
}

static void expect_numbers(CUdeviceptr d, uint32_t first)
{
	uint32_t i, out[COUNT];

	ok(cuMemcpyDtoH_v2(out, d, BYTES));
	for (i = 0; i < COUNT; i++)
		assert_int_equal(out[i], first + i);
}

/* Of each kind, and behind what was asked for nothing changes */
static void test_memory(void **state)
{
	CUdeviceptr d, pool, managed;

	ok(cuMemAlloc_v2(&d, BYTES + 4));
	ok(cuMemAllocAsync(&pool, BYTES, stream));
	ok(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	ok(cuMemsetD32_v2(d + BYTES, 77, 1));
	ok(launch_add(stream, at(d), NULL, COUNT, 5));
	ok(launch_add(stream, at(pool), at(d), COUNT, 1));
	ok(launch_add(stream, at(managed), at(pool), COUNT, 1));
	ok(launch_add(stream, pinned, at(managed), COUNT, 1));
	ok(cuStreamSynchronize(stream));
	expect_numbers(d, 5);
	expect_numbers(pool, 6);
	expect_numbers(managed, 7);
	expect_numbers((uintptr_t) pinned, 8);
	ok(cuMemcpyDtoH_v2(pinned, d + BYTES, 4));
	assert_int_equal(pinned[0], 77);
	assert_int_equal(*(uint32_t *) at(managed), 7);
	ok(cuMemFree_v2(managed));
	ok(cuMemFreeAsync(pool, stream));
	ok(cuMemFree_v2(d));
}

static void test_virtual_memory(void **state)
{
	const size_t size = 2 << 20;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr va;

	ok(cuMemAddressReserve(&va, size, 0, 0, 0));
	ok(cuMemCreate(&handle, size, &prop, 0));
	ok(cuMemMap(va, size, 0, handle, 0));
	ok(cuMemSetAccess(va, size, &access, 1));
	ok(launch_add(stream, at(va), NULL, COUNT, 3));
	ok(cuStreamSynchronize(stream));
	expect_numbers(va, 3);
	ok(cuMemUnmap(va, size));
	ok(cuMemRelease(handle));
	ok(cuMemAddressFree(va, size));
}

/* Copies around it do not overtake it, nor does an event behind it */
static void test_stream_order(void **state)
{
	CUdeviceptr a, b;
	CUevent event;
	uint32_t i;

	ok(cuMemAlloc_v2(&a, BYTES));
	ok(cuMemAlloc_v2(&b, BYTES));
	ok(cuEventCreate(&event, 0));
	gate_set(0);
	for (i = 0; i < COUNT; i++)
		pinned[i] = i * 3;
	ok(launch_wait(stream, gate));
	ok(cuMemcpyHtoDAsync_v2(a, pinned, BYTES, stream));
	ok(launch_add(stream, at(b), at(a), COUNT, 9));
	ok(cuMemcpyDtoHAsync_v2(pinned, b, BYTES, stream));
	ok(cuEventRecord(event, stream));
	fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	fails(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	assert_int_equal(pinned[COUNT - 1], (COUNT - 1) * 3);
	gate_set(1);
	ok(cuEventSynchronize(event));
	for (i = 0; i < COUNT; i++)
		assert_int_equal(pinned[i], i * 3 + 9);
	ok(cuStreamQuery(stream));
	ok(cuEventDestroy_v2(event));
	ok(cuMemFree_v2(b));
	ok(cuMemFree_v2(a));
}

static void expect_answer(struct kernel_line *line, uint32_t number)
{
	uint32_t got;

	__atomic_store_n(&line->to_kernel, number, __ATOMIC_SEQ_CST);
	while ((got = __atomic_load_n(&line->from_kernel, __ATOMIC_ACQUIRE)) != number + 1)
		sched_yield();
}

/* The CPU and a running kernel talk; the kernel adds up in device memory */
static void test_ping_pong(void **state)
{
	struct kernel_line *line = (void *) pinned;
	CUdeviceptr sum;
	uint64_t got;
	uint32_t i;

	ok(cuMemAlloc_v2(&sum, 8));
	ok(cuMemsetD8_v2(sum, 0, 8));
	ok(cuCtxSynchronize());
	memset(line, 0, sizeof(*line));
	line->from_kernel = KERNEL_STOP;
	ok(launch_answer(stream, line, at(sum)));
	for (i = 1; i <= 200; i++)
		expect_answer(line, i);
	fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	expect_answer(line, KERNEL_STOP);
	ok(cuStreamSynchronize(stream));
	ok(cuMemcpyDtoH_v2(&got, sum, 8));
	assert_int_equal(got, 200 * 201 / 2 + (uint64_t) KERNEL_STOP);
	ok(cuMemFree_v2(sum));
}

/* The same by another stream's writes to device memory, and its waits for what the kernel says */
static void test_ping_pong_by_stream(void **state)
{
	CUdeviceptr line, sum;
	CUstream other;
	uint32_t i;

	ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ok(cuMemAlloc_v2(&line, sizeof(struct kernel_line)));
	ok(cuMemAlloc_v2(&sum, 8));
	ok(cuMemsetD8_v2(line, 0, sizeof(struct kernel_line)));
	ok(cuMemsetD8_v2(sum, 0, 8));
	ok(cuCtxSynchronize());
	ok(launch_answer(stream, at(line), at(sum)));
	for (i = 1; i <= 20; i++) {
		ok(cuStreamWriteValue32_v2(other, line, i, 0));
		ok(cuStreamWaitValue32_v2(other, line + 4, i + 1, CU_STREAM_WAIT_VALUE_EQ));
	}
	ok(cuMemcpyDtoHAsync_v2(pinned, line, 8, other));
	ok(cuStreamSynchronize(other));
	assert_int_equal(pinned[0], 20);
	assert_int_equal(pinned[1], 21);
	fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	ok(cuStreamWriteValue32_v2(other, line, KERNEL_STOP, 0));
	ok(cuStreamSynchronize(stream));
	ok(cuMemFree_v2(sum));
	ok(cuMemFree_v2(line));
	ok(cuStreamDestroy_v2(other));
}

static void test_atomics(void **state)
{
	const unsigned int blocks = 300, threads = 40, all = blocks * threads;
	struct {
		int sum32;
		unsigned int by_cas;
		unsigned long long sum64;
	} got;
	CUdeviceptr d;

	ok(cuMemAlloc_v2(&d, sizeof(got)));
	ok(cuMemsetD8_v2(d, 0, sizeof(got)));
	ok(cuCtxSynchronize());
	ok(launch_count(stream, blocks, threads, at(d), at(d + 8), at(d + 4)));
	ok(cuStreamSynchronize(stream));
	ok(cuMemcpyDtoH_v2(&got, d, sizeof(got)));
	assert_int_equal(got.sum32, -(int) all);
	assert_int_equal(got.sum64, (unsigned long long) all << 32);
	assert_int_equal(got.by_cas, all);
	ok(cuMemFree_v2(d));
}

/* As many blocks as an H100 has multiprocessors wait for each other */
static void test_many_blocks(void **state)
{
	CUdeviceptr come;

	ok(cuMemAlloc_v2(&come, 12));
	ok(cuMemsetD8_v2(come, 0, 12));
	ok(cuCtxSynchronize());
	ok(launch_meet(stream, 132, 32, at(come)));
	ok(cuStreamSynchronize(stream));
	ok(cuMemcpyDtoH_v2(pinned, come, 12));
	assert_int_equal(pinned[0], 132);
	assert_int_equal(pinned[1], 132 * 32);
	assert_int_equal(pinned[2], 1);
	ok(cuMemFree_v2(come));
}

static void test_shared_memory(void **state)
{
	const uint32_t blocks = 10, n = KERNEL_TURN_THREADS;
	uint32_t i;

	for (i = 0; i < blocks * n; i++)
		pinned[i] = i;
	ok(launch_turn(stream, blocks, pinned));
	ok(cuStreamSynchronize(stream));
	for (i = 0; i < blocks * n; i++)
		assert_int_equal(pinned[i], i / n * n + n - 1 - i % n);
}

static void test_places(void **state)
{
	const uint32_t blocks = 3 * 2 * 2, threads = 5 * 2 * 3;
	uint64_t *to = (void *) pinned;
	uint32_t i;

	memset(to, 0, blocks * threads * sizeof(*to));
	ok(launch_places(stream, to));
	ok(cuStreamSynchronize(stream));
	for (i = 0; i < blocks * threads; i++)
		assert_true(to[i] == ((uint64_t) (i % threads) << 32 | i / threads));
	fails(launch_too_many(stream), CUDA_ERROR_INVALID_VALUE);
}

/* A kernel of one device reads and writes the memory of another */
static void test_two_devices(void **state)
{
	CUdeviceptr a, b;
	CUstream second;
	CUcontext other;

	ok(cuMemAlloc_v2(&a, BYTES));
	ok(cuDevicePrimaryCtxRetain(&other, 1));
	ok(cuCtxSetCurrent(other));
	ok(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	ok(cuMemAlloc_v2(&b, BYTES));
	ok(launch_add(stream, at(b), NULL, COUNT, 1));
	ok(cuStreamSynchronize(stream));
	ok(launch_add(second, at(a), at(b), COUNT, 1));
	ok(cuStreamSynchronize(second));
	expect_numbers(a, 2);
	ok(cuMemFree_v2(b));
	ok(cuStreamDestroy_v2(second));
	ok(cuDevicePrimaryCtxRelease_v2(1));
	ok(cuCtxSetCurrent(ctx));
	ok(cuMemFree_v2(a));
}

/* Captured, a kernel keeps its arguments, and runs when the graph is launched */
static void test_graph(void **state)
{
	CUdeviceptr from, to;
	CUgraphExec exec;
	CUgraph graph;
	uint32_t round;

	ok(cuMemAlloc_v2(&from, BYTES));
	ok(cuMemAlloc_v2(&to, BYTES));
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(launch_add(stream, at(to), at(from), COUNT, 7));
	ok(cuMemcpyDtoHAsync_v2(pinned, to, BYTES, stream));
	ok(cuStreamEndCapture(stream, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	for (round = 0; round < 3; round++) {
		ok(launch_add(stream, at(from), NULL, COUNT, round));
		ok(cuGraphLaunch(exec, stream));
		ok(cuStreamSynchronize(stream));
		assert_int_equal(pinned[COUNT - 1], COUNT - 1 + 7 + round);
	}
	ok(cuGraphExecDestroy(exec));
	ok(cuMemFree_v2(to));
	ok(cuMemFree_v2(from));
}

/* ---- scenes ---- */

static struct {
	CUstream stream, other;
	uint32_t *word; /* pinned: two of them, 0 */
	CUdeviceptr d;
} scene;

static void scene_open(void)
{
	void *p;

	/* sanitizers catch these, and would end with a report instead */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	signal(SIGABRT, SIG_DFL);
	signal(SIGILL, SIG_DFL);
	emu_test_use(0);
	good(cuStreamCreate(&scene.stream, CU_STREAM_NON_BLOCKING));
	good(cuStreamCreate(&scene.other, CU_STREAM_NON_BLOCKING));
	good(cuMemHostAlloc(&p, 4096, 0));
	scene.word = p;
	scene.word[0] = scene.word[1] = 0;
	good(cuMemAlloc_v2(&scene.d, BYTES));
}

/* The error is the answer to all until the context is made anew. Nothing goes on behind it. */
static void crash_checks(CUresult error)
{
	CUcontext again;
	CUdeviceptr d;

	want(cuStreamSynchronize(scene.stream), error);
	want(cuStreamSynchronize(scene.other), error);
	check(scene.word[1] == 0);
	want(cuStreamQuery(scene.stream), error);
	want(cuStreamQuery(NULL), error);
	want(cuMemAlloc_v2(&d, 1), error);
	want(cuMemFree_v2(scene.d), error);
	want(cuMemcpyDtoH_v2(scene.word, scene.d, 4), error);
	want(cuCtxSynchronize(), error);
	want(launch_wait(scene.stream, scene.word), error);
	good(cuDevicePrimaryCtxReset_v2(0));
	good(cuDevicePrimaryCtxRetain(&again, 0));
	good(cuMemAlloc_v2(&d, BYTES));
	good(launch_add(NULL, at(d), NULL, COUNT, 0));
	good(cuCtxSynchronize());
}

static void crash(uint32_t *where, CUresult error)
{
	CUresult behind;

	/* on the other stream one waits for what never comes, and so does the stream behind it */
	good(launch_wait(scene.other, scene.word));
	good(cuStreamWaitValue32_v2(scene.other, (uintptr_t) scene.word, 7, 0));
	good(launch_crash(scene.stream, where));
	/* the kernel may have crashed by now */
	behind = launch_add(scene.stream, scene.word, NULL, 2, 1);
	check(!behind || behind == error);
	behind = cuMemcpyDtoHAsync_v2(scene.word + 1, scene.d, 4, scene.stream);
	check(!behind || behind == error);
	crash_checks(error);
}

static int scene_bad_address(void)
{
	CUdeviceptr freed;

	scene_open();
	good(cuMemAlloc_v2(&freed, 4));
	good(cuMemFree_v2(freed));
	crash(at(freed), CUDA_ERROR_ILLEGAL_ADDRESS);
	return 0;
}

static int scene_trap(void)
{
	scene_open();
	crash(NULL, CUDA_ERROR_LAUNCH_FAILED);
	return 0;
}

static void test_crashes(void **state)
{
	emu_test_plays("bad-address", NULL, NULL);
	emu_test_plays("trap", NULL, NULL);
}

/* Waits until the kernel that answers is there */
static void scene_talk(void)
{
	struct kernel_line *line = (void *) scene.word;

	good(launch_answer(scene.stream, line, at(scene.d)));
	__atomic_store_n(&line->to_kernel, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&line->from_kernel, __ATOMIC_ACQUIRE) != 2)
		sched_yield();
}

static int scene_touch(void)
{
	scene_open();
	scene_talk();
	return *(volatile char *) at(scene.d);
}

static int scene_leave(void)
{
	scene_open();
	scene_talk();
	return 0;
}

static int scene_killed(void)
{
	scene_open();
	scene_talk();
	return raise(SIGKILL);
}

/* The kernel has the scene's standard output. That ends only when both have ended. */
static int play_to_the_end(const char *name)
{
	int line[2], old = dup(STDOUT_FILENO), status;
	char byte;

	assert_true(old >= 0);
	assert_int_equal(pipe(line), 0);
	assert_true(dup2(line[1], STDOUT_FILENO) >= 0);
	close(line[1]);
	status = emu_test_spawn(name, NULL, NULL);
	assert_true(dup2(old, STDOUT_FILENO) >= 0);
	assert_int_equal(read(line[0], &byte, 1), 0);
	close(line[0]);
	close(old);
	return status;
}

static void test_application_ends(void **state)
{
	int status = play_to_the_end("touch");

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert_int_equal(play_to_the_end("leave"), 0);
	status = play_to_the_end("killed");
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* A program that lets the system take the status of its children away */
static int scene_no_status(void)
{
	uint32_t out;

	scene_open();
	signal(SIGCHLD, SIG_IGN);
	good(launch_add(scene.stream, at(scene.d), NULL, COUNT, 4));
	good(cuStreamSynchronize(scene.stream));
	good(cuMemcpyDtoH_v2(&out, scene.d, 4));
	check(out == 4);
	good(launch_crash(scene.stream, NULL));
	want(cuStreamSynchronize(scene.stream), CUDA_ERROR_LAUNCH_FAILED);
	return 0;
}

static void test_no_status(void **state)
{
	emu_test_plays("no-status", NULL, NULL);
}

static void ipc_owner(int to, int from)
{
	CUipcMemHandle handle;
	uint32_t out[2];
	char byte;

	scene_open();
	good(cuIpcGetMemHandle(&handle, scene.d));
	check(write(to, &handle, sizeof(handle)) == (ssize_t) sizeof(handle));
	check(read(from, &byte, 1) == 1);
	good(cuMemcpyDtoH_v2(out, scene.d + BYTES - 8, 8));
	check(out[0] == 40 + COUNT - 2 && out[1] == 40 + COUNT - 1);
}

static void ipc_user(int from, int to)
{
	CUipcMemHandle handle;
	CUdeviceptr d;

	scene_open();
	check(read(from, &handle, sizeof(handle)) == (ssize_t) sizeof(handle));
	good(cuIpcOpenMemHandle_v2(&d, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	good(launch_add(scene.stream, at(d), NULL, COUNT, 40));
	good(cuStreamSynchronize(scene.stream));
	check(write(to, "", 1) == 1);
}

/* A kernel writes to another process's memory */
static int scene_ipc(void)
{
	int there[2], back[2], status;
	pid_t pid;

	check(pipe(there) == 0 && pipe(back) == 0);
	pid = fork();
	if (pid == 0) {
		ipc_user(there[0], back[1]);
		_exit(0);
	}
	ipc_owner(there[1], back[0]);
	check(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static void test_ipc_memory(void **state)
{
	emu_test_plays("ipc", NULL, NULL);
}

int main(int argc, char **argv)
{
	static const struct emu_test_scene scenes[] = {
		{"bad-address", scene_bad_address},
		{"trap", scene_trap},
		{"touch", scene_touch},
		{"leave", scene_leave},
		{"killed", scene_killed},
		{"no-status", scene_no_status},
		{"ipc", scene_ipc},
		{NULL, NULL},
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_virtual_memory),
		cmocka_unit_test(test_stream_order),
		cmocka_unit_test(test_ping_pong),
		cmocka_unit_test(test_ping_pong_by_stream),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_many_blocks),
		cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_two_devices),
		cmocka_unit_test(test_graph),
		cmocka_unit_test(test_crashes),
		cmocka_unit_test(test_application_ends),
		cmocka_unit_test(test_no_status),
		cmocka_unit_test(test_ipc_memory),
	};

	/* a first launch would wait for kernels that wait for what comes later: see rules.c */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	if (argc == 2)
		return emu_test_play(scenes, argv[1]);
	return cmocka_run_group_tests(tests, setup, teardown);
}
