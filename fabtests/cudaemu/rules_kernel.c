/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels that wait for the host, and always end: PTX for a GPU, C for the emulator. */
#include "rules.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel.h"

#define RULES_KERNEL_NS 3000000000ull

typedef struct CUlib_st *rules_library;

/* Only a GPU's driver has these, and only the emulator has the last one */
static struct {
	CUresult (*module_load)(CUmodule *module, const void *image);
	CUresult (*module_get)(CUfunction *function, CUmodule module, const char *name);
	CUresult (*library_load)(rules_library *library, const void *code, void *a, void *b,
				 unsigned int c, void *d, void *e, unsigned int f);
	CUresult (*library_get)(void **kernel, rules_library library, const char *name);
	CUresult (*kernel_function)(CUfunction *function, void *kernel);
	CUresult (*function_attribute)(int *value, int attribute, void *function);
	CUresult (*function_load)(void *function);
	CUresult (*launch)(void *function, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int, unsigned int,
			   CUstream stream, void **params, void **extra);
	cudaemu_launch_fn *emulated;
	cudaemu_load_fn *emulated_load;
} driver;

static void *functions[RULES_KERNELS];

static void rules_driver_find(void)
{
	driver.emulated = (cudaemu_launch_fn *) dlsym(RTLD_DEFAULT, "cudaemu_launch");
	driver.emulated_load = (cudaemu_load_fn *) dlsym(RTLD_DEFAULT, "cudaemu_load");
	*(void **) &driver.module_load = dlsym(RTLD_DEFAULT, "cuModuleLoadData");
	*(void **) &driver.module_get = dlsym(RTLD_DEFAULT, "cuModuleGetFunction");
	*(void **) &driver.library_load = dlsym(RTLD_DEFAULT, "cuLibraryLoadData");
	*(void **) &driver.library_get = dlsym(RTLD_DEFAULT, "cuLibraryGetKernel");
	*(void **) &driver.kernel_function = dlsym(RTLD_DEFAULT, "cuKernelGetFunction");
	*(void **) &driver.function_attribute = dlsym(RTLD_DEFAULT, "cuFuncGetAttribute");
	*(void **) &driver.function_load = dlsym(RTLD_DEFAULT, "cuFuncLoad");
	*(void **) &driver.launch = dlsym(RTLD_DEFAULT, "cuLaunchKernel");
}

/* ---- for the emulator, which knows kernels apart by their addresses ---- */

struct spin_args {
	struct rules_words *words;
	uint32_t *to;
};

static uint64_t rules_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t) ts.tv_sec * 1000000000ull + (uint64_t) ts.tv_nsec;
}

static void spin(void *arg)
{
	const struct timespec pause = {0, 100000};
	const uint64_t begun = rules_now();
	struct spin_args *args = arg;

	__atomic_store_n(&args->words->begun, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&args->words->stop, __ATOMIC_ACQUIRE) &&
	       rules_now() - begun < RULES_KERNEL_NS)
		nanosleep(&pause, NULL);
	if (args->to)
		__atomic_store_n(args->to, 1, __ATOMIC_SEQ_CST);
}

#define SPIN(n)                                                                                \
	static void spin##n(void *arg)                                                         \
	{                                                                                      \
		__asm__ volatile("" ::"i"(n));                                                 \
		spin(arg);                                                                     \
	}

SPIN(0)
SPIN(1)
SPIN(2)
SPIN(3)
SPIN(4)
SPIN(5)
SPIN(6)
SPIN(7)
SPIN(8)
SPIN(9)
SPIN(10)
SPIN(11)
SPIN(12)
SPIN(13)
SPIN(14)
SPIN(15)

static void (*const spins[RULES_KERNELS])(void *) = {
	spin0, spin1, spin2,  spin3,  spin4,  spin5,  spin6,  spin7,
	spin8, spin9, spin10, spin11, spin12, spin13, spin14, spin15,
};

/* ---- for a GPU ---- */

static const char rules_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry spin%u(.param .u64 words, .param .u64 to)\n{\n"
	".reg .pred %%p<4>;\n.reg .b32 %%r<4>;\n.reg .b64 %%d<8>;\n"
	"ld.param.u64 %%d1, [words];\nld.param.u64 %%d6, [to];\n"
	"mov.u32 %%r1, 1;\nst.volatile.u32 [%%d1+4], %%r1;\nmembar.sys;\n"
	"mov.u64 %%d2, %%globaltimer;\n"
	"AGAIN:\nld.volatile.u32 %%r2, [%%d1];\nsetp.ne.u32 %%p1, %%r2, 0;\n@%%p1 bra STOP;\n"
	"mov.u64 %%d3, %%globaltimer;\nsub.u64 %%d4, %%d3, %%d2;\n"
	"setp.lt.u64 %%p2, %%d4, %llu;\n@%%p2 bra AGAIN;\n"
	"STOP:\nsetp.eq.u64 %%p3, %%d6, 0;\n@%%p3 bra END;\n"
	"st.volatile.u32 [%%d6], %%r1;\n"
	"END:\nret;\n}\n";

/* ---- for both ---- */

void rules_kernel_load(unsigned int number, enum rules_way way)
{
	rules_library library;
	CUmodule module;
	CUfunction function;
	char ptx[2048], name[16];

	rules_driver_find();
	if (driver.emulated) {
		if (way == RULES_MODULE)
			RULES_MUST(
				(CUresult) driver.emulated_load((const void *) spins[number]));
		return;
	}
	snprintf(ptx, sizeof(ptx), rules_ptx, number, RULES_KERNEL_NS);
	snprintf(name, sizeof(name), "spin%u", number);
	if (way == RULES_MODULE) {
		RULES_MUST(driver.module_load(&module, ptx));
		RULES_MUST(driver.module_get(&function, module, name));
		functions[number] = function;
	} else {
		RULES_MUST(driver.library_load(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
		RULES_MUST(driver.library_get(&functions[number], library, name));
	}
}

CUresult rules_kernel_ahead(unsigned int number, enum rules_ahead ahead)
{
	CUfunction function;
	CUresult rc;
	int value;

	if (driver.emulated)
		return (CUresult) driver.emulated_load((const void *) spins[number]);
	rc = driver.kernel_function(&function, functions[number]);
	if (rc != CUDA_SUCCESS || ahead == RULES_AHEAD_FUNCTION)
		return rc;
	if (ahead == RULES_AHEAD_ATTRIBUTE)
		return driver.function_attribute(&value, 0, function);
	return driver.function_load ? driver.function_load(function) : CUDA_ERROR_NOT_FOUND;
}

CUresult rules_kernel_launch(unsigned int number, CUstream stream, struct rules_words *words,
			     CUdeviceptr to)
{
	struct spin_args args = {words, (uint32_t *) (uintptr_t) to};
	void *params[] = {&args.words, &args.to};

	if (driver.emulated)
		return (CUresult) driver.emulated(stream, (const void *) spins[number],
						  spins[number], &args, sizeof(args),
						  (struct cudaemu_dim3){1, 1, 1},
						  (struct cudaemu_dim3){1, 1, 1}, 0);
	return driver.launch(functions[number], 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

void rules_kernel_spin(CUstream stream)
{
	const uint64_t begun = rules_now();

	memset(rules.words, 0, sizeof(*rules.words));
	RULES_MUST(rules_kernel_launch(0, stream, rules.words, 0));
	while (!__atomic_load_n(&rules.words->begun, __ATOMIC_ACQUIRE))
		if (rules_now() - begun > 2 * RULES_KERNEL_NS)
			rules_must(CUDA_ERROR_TIMEOUT, "the kernel begins");
}

void rules_kernel_stop(void)
{
	__atomic_store_n(&rules.words->stop, 1, __ATOMIC_SEQ_CST);
}
