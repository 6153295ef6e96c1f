/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Modules of PTX text, and the launch of what is in them: see ptx.h. No compiled image suits an emulated device. Their
 * kernels need no process, as each access is looked up.
 *
 * A module belongs to the context that was current when it was loaded. Loading waits for the kernels that run there,
 * lazily or eagerly, and holds up other threads' copies meanwhile; a first launch does not (rules.h200).
 */
#include "emu.h"
#include "grid.h"
#include "ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Neither is ever freed, so that a look at a stale handle is safe. */
struct CUfunc_st {
	struct CUfunc_st *next;
	const struct CUmod_st *module;
	const struct ptx_entry *entry;
};

struct CUmod_st {
	struct CUmod_st *next;
	bool loaded;
	struct CUctx_st *ctx;
	unsigned int ctx_id;
	struct CUfunc_st *functions;
};

static struct CUmod_st *emu_modules;

/* Is it one, and is it there? Called with the lock held. */
static bool emu_module_valid(const struct CUmod_st *module)
{
	const struct CUmod_st *known = emu_modules;

	while (known && known != module)
		known = known->next;
	return known && known->loaded && emu_ctx_is_open(known->ctx) &&
	       known->ctx->id == known->ctx_id;
}

static bool emu_function_valid(const struct CUfunc_st *function)
{
	for (const struct CUmod_st *module = emu_modules; module; module = module->next)
		for (const struct CUfunc_st *known = module->functions; known;
		     known = known->next)
			if (known == function)
				return emu_module_valid(module);
	return false;
}

static struct CUmod_st *emu_module_new(const struct ptx_entry *entry)
{
	struct CUmod_st *module = calloc(1, sizeof(*module));

	if (!module)
		emu_die("module");
	for (; entry; entry = entry->next) {
		struct CUfunc_st *function = malloc(sizeof(*function));

		if (!function)
			emu_die("function of a module");
		*function = (struct CUfunc_st){module->functions, module, entry};
		module->functions = function;
	}
	return module;
}

static CUresult emu_module_load(CUmodule *out, const void *image)
{
	const struct ptx_entry *entry;
	struct CUmod_st *module;

	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	/* text begins so, and ends with a zero */
	if (*(const char *) image != '.' && *(const char *) image != '/')
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	entry = ptx_parse(image);
	if (!entry)
		return CUDA_ERROR_INVALID_PTX;
	module = emu_module_new(entry);
	pthread_mutex_lock(&emu.lock);
	emu_hold_pass();
	module->ctx = emu_ctx_current();
	module->ctx_id = module->ctx->id;
	module->loaded = true;
	emu_kernel_load(module->ctx, module, true);
	module->next = emu_modules;
	emu_modules = module;
	pthread_mutex_unlock(&emu.lock);
	*out = module;
	return CUDA_SUCCESS;
}

EMU_API(cuModuleLoadData, CUmodule *module, const void *image)
{
	EMU_ENTER_UNSAFE(EMU_NEED_CTX);
	return emu_module_load(module, image);
}

EMU_API(cuModuleLoadDataEx, CUmodule *module, const void *image, unsigned int count,
	void *options, void **values)
{
	EMU_ENTER_UNSAFE(EMU_NEED_CTX);
	return emu_module_load(module, image);
}

/* There are no compiled kernels for emulated devices, and no text comes in files */
EMU_API(cuModuleLoad, CUmodule *module, const char *file)
{
	EMU_ENTER(EMU_NEED_CTX);
	return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

EMU_API(cuModuleLoadFatBinary, CUmodule *module, const void *image)
{
	EMU_ENTER(EMU_NEED_CTX);
	return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

EMU_API(cuModuleUnload, CUmodule module)
{
	CUresult rc = CUDA_ERROR_INVALID_HANDLE;

	EMU_ENTER_UNSAFE(EMU_NEED_CTX);
	pthread_mutex_lock(&emu.lock);
	if (emu_module_valid(module)) {
		emu_ctx_wait(module->ctx);
		module->loaded = false;
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuModuleGetFunction, CUfunction *out, CUmodule module, const char *name)
{
	CUresult rc = CUDA_ERROR_INVALID_HANDLE;

	EMU_ENTER(EMU_NEED_CTX);
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	if (emu_module_valid(module)) {
		struct CUfunc_st *function = module->functions;

		while (function && strcmp(function->entry->name, name))
			function = function->next;
		rc = function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
		*out = function;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* ---- launches ---- */

struct emu_launch {
	const struct ptx_entry *entry;
	unsigned int blocks, threads;
	uint64_t params[PTX_PARAMS];
};

/* What a kernel may touch: memory of the device in its context, what is mapped for the device, and pinned memory */
static bool emu_reaches(const struct CUctx_st *ctx, const struct emu_alloc *alloc)
{
	if (emu_alloc_is_host(alloc) || !alloc->ctx || alloc->kind == EMU_MANAGED)
		return emu_access(alloc, ctx->dev);
	return alloc->ctx == ctx || (alloc->dev != ctx->dev && ctx->peers >> alloc->dev & 1);
}

static struct ptx_part *emu_reach(const struct CUctx_st *ctx, size_t *count)
{
	struct ptx_part *parts;

	pthread_mutex_lock(&emu.lock);
	/* one at least, which is of no bytes */
	parts = calloc(emu.nallocs + 1, sizeof(*parts));
	if (!parts)
		emu_die("what a kernel reaches");
	*count = 0;
	for (size_t i = 0; i < emu.nallocs; i++) {
		const struct emu_alloc *alloc = emu.allocs[i];

		if (!emu_reaches(ctx, alloc))
			continue;
		parts[(*count)++] = (struct ptx_part){alloc->base, alloc->size, alloc->rw,
						      emu_access(alloc, ctx->dev) ==
							      CU_MEM_ACCESS_FLAGS_PROT_READ};
	}
	pthread_mutex_unlock(&emu.lock);
	return parts;
}

static bool emu_launch_run(const struct CUstream_st *stream, const void *args)
{
	const struct emu_launch *launch = args;
	struct ptx_grid grid = {launch->entry,   launch->params, launch->blocks,
				launch->threads, NULL,           0};
	struct ptx_part *parts = emu_reach(stream->ctx, &grid.parts);
	bool fine;

	grid.part = parts;
	fine = ptx_run(&grid);
	if (!fine)
		fprintf(stderr, "cudaemu: the kernel %s touches what it may not\n",
			launch->entry->name);
	free(parts);
	return fine;
}

static struct emu_op *emu_launch_op(const struct emu_launch *launch)
{
	const struct emu_grid grid = {.here = emu_launch_run, .size = sizeof(*launch)};
	struct emu_op *op = emu_op_new(EMU_OP_KERNEL);

	op->grid = emu_grid_copy(&grid, launch);
	return op;
}

EMU_API(cuLaunchKernel, CUfunction function, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared, CUstream stream, void **params, void **extra)
{
	const struct emu_grid grid = {.grid = {grid_x, grid_y, grid_z},
				      .block = {block_x, block_y, block_z},
				      .shared = shared};
	struct emu_launch launch = {.blocks = grid_x, .threads = block_x};
	CUresult rc = CUDA_ERROR_INVALID_HANDLE;

	EMU_ENTER(EMU_NEED_CTX);
	if (!emu_grid_valid(&grid))
		return CUDA_ERROR_INVALID_VALUE;
	if (grid_y * grid_z * block_y * block_z != 1 || extra)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&emu.lock);
	emu_hold_pass();
	if (emu_function_valid(function))
		rc = emu_stream_get(stream, &stream);
	/* a stream of another context has no such kernel */
	if (rc == CUDA_SUCCESS && stream->ctx != function->module->ctx)
		rc = CUDA_ERROR_INVALID_HANDLE;
	if (rc == CUDA_SUCCESS && function->entry->params && !params)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc == CUDA_SUCCESS) {
		launch.entry = function->entry;
		for (unsigned int i = 0; i < launch.entry->params; i++)
			memcpy(&launch.params[i], params[i], launch.entry->width[i]);
		emu_stream_enqueue(stream, emu_launch_op(&launch));
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
