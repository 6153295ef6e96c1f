/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Shows that modules of PTX are loaded and run as by a driver, and that what is wrong is refused. */
#include "emu_test.h"

#include <stdlib.h>
#include <string.h>

#define HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"
#define ENTRY HEAD ".visible .entry f(.param .u64 to, .param .u32 value)\n{\n"
#define REGISTERS ".reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n"

/* Each thread adds the value and its number to a word of its own, if there is one */
static const char adds[] = ENTRY REGISTERS
	"ld.param.u64 %d0, [to];	// a comment\n"
	"ld.param.u32 %r0, [value];\n"
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
	"mad.lo.u32 %r1, %r1, %r2, %r3;\n"
	"mul.wide.u32 %d1, %r1, 4;\nadd.u64 %d0, %d0, %d1;\n"
	"setp.ge.u32 %p0, %r1, 10;\n@%p0 bra END;\n"
	"ld.global.u32 %r2, [%d0+4];\nadd.u32 %r2, %r2, %r0;\nadd.u32 %r2, %r2, %r1;\n"
	"st.global.u32 [%d0+4], %r2;\n"
	"END:\nsetp.eq.u32 %p1, %r3, 0;\nbar.red.or.pred %p1, 0, %p1;\n"
	"@%p1 ret;\nst.global.u32 [%d0], %r0;\nret;\n}\n";

/* 7 is what comes if a narrow number is as wide as its type, with its sign */
static const char narrow[] = ENTRY REGISTERS
	"ld.param.u64 %d0, [to];\nmov.u32 %r0, -1;\n"
	"setp.eq.u32 %p0, %r0, -1;\nsetp.lt.s32 %p1, %r0, 0;\nand.pred %p0, %p0, %p1;\n"
	"st.global.u8 [%d0], %r0;\nld.global.s8 %r1, [%d0];\n"
	"setp.lt.s32 %p1, %r1, 0;\nand.pred %p0, %p0, %p1;\n"
	"mul.wide.u32 %d1, %r1, 2;\nsetp.eq.u64 %p1, %d1, 8589934590;\n"
	"and.pred %p0, %p0, %p1;\nselp.b32 %r2, 7, 8, %p0;\n"
	"st.global.u32 [%d0], %r2;\nret;\n}\n";

static CUcontext ctx;
static CUstream stream;

static int setup(void **state)
{
	ok(cuInit(0));
	ok(cuDevicePrimaryCtxRetain(&ctx, 0));
	ok(cuCtxSetCurrent(ctx));
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return 0;
}

static int teardown(void **state)
{
	ok(cuStreamDestroy_v2(stream));
	ok(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

static CUresult launch(CUfunction function, unsigned int blocks, CUdeviceptr to, uint32_t value)
{
	void *params[] = {&to, &value};

	return cuLaunchKernel(function, blocks, 1, 1, 4, 1, 1, 0, stream, params, NULL);
}

static void test_runs(void **state)
{
	uint32_t words[12];
	CUmodule module;
	CUfunction function;
	CUdeviceptr d;

	ok(cuMemAlloc_v2(&d, sizeof(words)));
	ok(cuModuleLoadData(&module, adds));
	fails(cuModuleGetFunction(&function, module, "g"), CUDA_ERROR_NOT_FOUND);
	ok(cuModuleGetFunction(&function, module, "f"));
	fails(launch(function, 0, d, 0), CUDA_ERROR_INVALID_VALUE);
	/* in the order of the stream */
	ok(cuMemsetD8Async(d, 1, sizeof(words), stream));
	ok(launch(function, 3, d, 100));
	ok(launch(function, 3, d, 1000));
	ok(cuMemcpyDtoHAsync_v2(words, d, sizeof(words), stream));
	ok(cuStreamSynchronize(stream));
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(words[i], i == 0 || i == 11 ? 0x01010101
							     : 0x01010101 + 1100 + 2 * (i - 1));
	ok(cuModuleUnload(module));
	fails(launch(function, 1, d, 0), CUDA_ERROR_INVALID_HANDLE);
	fails(cuModuleGetFunction(&function, module, "f"), CUDA_ERROR_INVALID_HANDLE);
	fails(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	ok(cuMemFree_v2(d));
}

static void test_narrow(void **state)
{
	uint32_t word;
	CUmodule module;
	CUfunction function;
	CUdeviceptr d;

	ok(cuMemAlloc_v2(&d, sizeof(word)));
	ok(cuModuleLoadData(&module, narrow));
	ok(cuModuleGetFunction(&function, module, "f"));
	ok(launch(function, 1, d, 0));
	ok(cuMemcpyDtoHAsync_v2(&word, d, sizeof(word), stream));
	ok(cuStreamSynchronize(stream));
	assert_int_equal(word, 7);
	ok(cuModuleUnload(module));
	ok(cuMemFree_v2(d));
}

/* A context's, and of no other */
static void test_contexts(void **state)
{
	CUcontext own;
	CUmodule module;
	CUfunction function;

	ok(cuCtxCreate_v2(&own, 0, 0));
	ok(cuModuleLoadData(&module, adds));
	ok(cuModuleGetFunction(&function, module, "f"));
	fails(launch(function, 1, 0, 0), CUDA_ERROR_INVALID_HANDLE);
	ok(cuCtxDestroy_v2(own));
	ok(cuCtxSetCurrent(ctx));
	fails(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
}

/* It ends, and the context with it */
static int scene_bad_address(void)
{
	uint32_t word;
	CUmodule module;
	CUfunction function;
	CUdeviceptr d, other;
	CUcontext own;

	emu_test_use(0);
	good(cuCtxGetCurrent(&ctx));
	good(cuCtxCreate_v2(&own, 0, 0));
	good(cuMemAlloc_v2(&other, 1024));
	good(cuCtxPopCurrent_v2(&own));
	good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	good(cuModuleLoadData(&module, adds));
	good(cuModuleGetFunction(&function, module, "f"));
	/* the tenth word is the last one that it touches */
	good(cuMemAlloc_v2(&d, 11 * sizeof(word)));
	good(launch(function, 3, d, 1));
	good(cuStreamSynchronize(stream));
	/* another context's */
	good(launch(function, 3, getenv("EMU_TEST_OTHER") ? other : d + sizeof(word), 1));
	want(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	want(cuMemAlloc_v2(&d, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
	return 0;
}

static void test_bad_address(void **state)
{
	emu_test_plays("bad-address", NULL, NULL);
	emu_test_plays("bad-address", "EMU_TEST_OTHER", "1");
}

static void test_refused(void **state)
{
	static const char *const wrong[] = {
		".target sm_50\n",
		HEAD ".entry f()\n{\nret;\n}\n",
		ENTRY REGISTERS "warpsync 1;\nret;\n}\n",
		ENTRY REGISTERS "bar.red.or.pred %p1, 0, %r1;\nret;\n}\n",
		ENTRY REGISTERS "add.u32 %r0, %r1, %d1;\nret;\n}\n",
		ENTRY REGISTERS "add.u16 %r0, %r1, %r1;\nret;\n}\n",
		ENTRY REGISTERS "add.f32 %r0, %r1, %r1;\nret;\n}\n",
		ENTRY REGISTERS "add.u32 %r0, %r1, %r4;\nret;\n}\n",
		ENTRY REGISTERS "add.u32 %r0, %r1;\nret;\n}\n",
		ENTRY REGISTERS "add.u32 1, %r1, %r1;\nret;\n}\n",
		ENTRY REGISTERS "setp.lt.u32 %r0, %r1, %r1;\nret;\n}\n",
		ENTRY REGISTERS "ld.global.u32 %r0, [%r1];\nret;\n}\n",
		ENTRY REGISTERS "ld.param.u64 %d0, [value];\nret;\n}\n",
		ENTRY REGISTERS "ld.param.u64 %d0, [other];\nret;\n}\n",
		ENTRY REGISTERS "bra NOWHERE;\nret;\n}\n",
		ENTRY REGISTERS "mov.u32 %r0, 1\nret;\n}\n",
		ENTRY REGISTERS "ret;\n",
	};
	CUmodule module;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		print_message("%zu: ", i);
		fails(cuModuleLoadData(&module, wrong[i]), CUDA_ERROR_INVALID_PTX);
	}
	fails(cuModuleLoadData(&module, "\177ELF"), CUDA_ERROR_NO_BINARY_FOR_GPU);
	fails(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* Within a graph it runs when that is launched, and loading spoils a capture */
static void test_capture(void **state)
{
	uint32_t word = 5;
	CUmodule module, other;
	CUfunction function;
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr d;

	ok(cuMemAlloc_v2(&d, 2 * sizeof(word)));
	ok(cuMemsetD32_v2(d, word, 2));
	ok(cuModuleLoadData(&module, adds));
	ok(cuModuleGetFunction(&function, module, "f"));
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	{
		void *params[] = {&d, &word};

		ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	}
	ok(cuStreamEndCapture(stream, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, stream));
	ok(cuGraphLaunch(exec, stream));
	ok(cuMemcpyDtoHAsync_v2(&word, d + 4, sizeof(word), stream));
	ok(cuStreamSynchronize(stream));
	assert_int_equal(word, 15);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	fails(cuModuleLoadData(&other, adds), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuModuleUnload(module));
	ok(cuMemFree_v2(d));
}

int main(int argc, char **argv)
{
	static const struct emu_test_scene scenes[] = {
		{"bad-address", scene_bad_address},
		{NULL, NULL},
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),     cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_contexts), cmocka_unit_test(test_bad_address),
		cmocka_unit_test(test_refused),  cmocka_unit_test(test_capture),
	};

	if (argc == 2)
		return emu_test_play(scenes, argv[1]);
	return cmocka_run_group_tests(tests, setup, teardown);
}
