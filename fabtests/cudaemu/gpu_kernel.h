/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For sources of kernels that compile as CUDA, as HIP, and for the emulator:
 *
 *   nvcc -x cu -c kernels.cc        for a GPU
 *   hipcc -x hip -c kernels.cc      for AMD's, whose runtime has the same calls under names of its own
 *   g++ -std=c++17 -c kernels.cc    for the emulator, which has to be the libcuda.so.1 at run time
 *
 * A kernel is an ordinary CUDA one. Five things have names of ours, as no macro can make the
 * emulator's form of CUDA's:
 *
 *   GPU_LAUNCH(kernel, grid, block, stream, args...)   kernel<<<grid, block, 0, stream>>>(args...);
 *                                                      its value is the error, 0 for none
 *   GPU_LOAD(kernel)                                   loads it, so that its first launch waits for
 *                                                      nothing; its value is the error
 *   GPU_SHARED(type, name)                             __shared__ type name;
 *   GPU_SHARED_ARRAY(type, name, count)                __shared__ type name[count];
 *   gpu_spin()                                         in each loop that waits for another's store:
 *                                                      the emulator's threads share a few processors
 *
 * Each thread of a grid is one of the host's. A loop that may wait long calls __nanosleep().
 *
 * On the emulator a kernel runs in a process of its own. kernel.h says what it sees of the
 * application's memory. __device__ and __constant__ variables are not there: pass pointers.
 * __syncwarp() takes no mask. The atomic functions are those of 32 and 64 bits below.
 */
#ifndef CUDAEMU_GPU_KERNEL_H
#define CUDAEMU_GPU_KERNEL_H

#if defined(__CUDACC__) || defined(__HIP__)

#ifdef __HIP__
#include <hip/hip_runtime.h>

#define cudaError_t hipError_t
#define cudaSuccess hipSuccess
#define cudaGetLastError hipGetLastError
#define cudaStream_t hipStream_t
#define cudaEvent_t hipEvent_t
#define cudaEventBlockingSync hipEventBlockingSync
#define cudaEventCreateWithFlags hipEventCreateWithFlags
#define cudaEventRecord hipEventRecord
#define cudaEventSynchronize hipEventSynchronize
#define cudaEventDestroy (void) hipEventDestroy
#define cudaFuncAttributes hipFuncAttributes
#define cudaFuncGetAttributes(about, kernel)                                                   \
	hipFuncGetAttributes(about, (const void *) (kernel))
#define cudaHostRegister hipHostRegister
#define cudaHostRegisterMapped hipHostRegisterMapped
#define cudaHostUnregister hipHostUnregister
#define __nanosleep(ns) __builtin_amdgcn_s_sleep(1)
#else
#include <cuda_runtime.h>
#endif

#define GPU_COMPILED 1
#define GPU_SHARED(type, name) __shared__ type name
#define GPU_SHARED_ARRAY(type, name, count) __shared__ type name[count]
#define GPU_LAUNCH(kernel, grid, block, stream, ...)                                           \
	(kernel<<<grid, block, 0, stream>>>(__VA_ARGS__), (int) cudaGetLastError())

template <typename Kernel> static inline int gpu_load(Kernel *kernel)
{
	cudaFuncAttributes about;

	return (int) cudaFuncGetAttributes(&about, kernel);
}

#define GPU_LOAD(kernel) gpu_load(kernel)

static __device__ inline void gpu_spin()
{
}

#else /* for the emulator */

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include <tuple>
#include <type_traits>

#include "kernel.h"

#define __global__
#define __launch_bounds__(threads)
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))

typedef struct CUstream_st *cudaStream_t;

struct dim3 : cudaemu_dim3 {
	dim3(unsigned int nx = 1, unsigned int ny = 1, unsigned int nz = 1)
	    : cudaemu_dim3{nx, ny, nz}
	{
	}
};

/* ---- what the emulator exports ---- */

struct gpu_emulator {
	cudaemu_launch_fn *launch;
	cudaemu_load_fn *load;
	cudaemu_place_fn *place;
	cudaemu_sync_block_fn *sync_block;
	cudaemu_sync_warp_fn *sync_warp;
	cudaemu_shared_fn *shared;

	gpu_emulator()
	{
		void *lib = dlopen("libcuda.so.1", RTLD_NOW);

		find(lib, "cudaemu_place", place);
		find(lib, "cudaemu_sync_block", sync_block);
		find(lib, "cudaemu_sync_warp", sync_warp);
		find(lib, "cudaemu_shared", shared);
		find(lib, "cudaemu_launch", launch);
		find(lib, "cudaemu_load", load);
	}

	template <typename Function>
	static void find(void *lib, const char *name, Function *&function)
	{
		function = reinterpret_cast<Function *>(lib ? dlsym(lib, name) : nullptr);
	}

	static const gpu_emulator &get()
	{
		static const gpu_emulator emulator;

		return emulator;
	}
};

/* The calling thread's place in its grid */
inline thread_local const cudaemu_place *gpu_place;

#define threadIdx (gpu_place->thread)
#define blockIdx (gpu_place->block)
#define blockDim (gpu_place->block_dim)
#define gridDim (gpu_place->grid_dim)
#define warpSize 32

/* ---- launching ---- */

/* Kernels take what is passed by value, byte by byte */
template <typename... Params> struct gpu_call {
	void (*kernel)(Params...);
	std::tuple<Params...> args;

	static void run(void *packed)
	{
		const gpu_call *call = static_cast<const gpu_call *>(packed);

		gpu_place = gpu_emulator::get().place();
		std::apply(call->kernel, call->args);
	}
};

template <typename... Params, typename... Args>
int gpu_launch(void (*kernel)(Params...), dim3 grid, dim3 block, cudaStream_t stream,
	       Args... args)
{
	static_assert((std::is_trivially_copyable<Params>::value && ...),
		      "kernels take their parameters as bytes");
	const gpu_call<Params...> call = {kernel, {args...}};

	if (!gpu_emulator::get().launch) {
		fprintf(stderr, "These kernels are compiled for the emulated libcuda.so.1.\n");
		return 801; /* CUDA_ERROR_NOT_SUPPORTED */
	}
	return gpu_emulator::get().launch(stream, reinterpret_cast<const void *>(kernel),
					  gpu_call<Params...>::run, &call, sizeof(call), grid,
					  block, 0);
}

template <typename Kernel> static inline int gpu_load(Kernel *kernel)
{
	/* a launch says so better */
	return gpu_emulator::get().load
		       ? gpu_emulator::get().load(reinterpret_cast<const void *>(kernel))
		       : 0;
}

#define GPU_LOAD(kernel) gpu_load(kernel)

#define GPU_LAUNCH(kernel, grid, block, stream, ...)                                           \
	gpu_launch(kernel, grid, block, stream, ##__VA_ARGS__)

/* ---- shared memory: one for each place in the source ---- */

#define GPU_SHARED_ARRAY(type, name, count)                                                    \
	static const char name##_key = 0;                                                      \
	auto &name = *static_cast<type(*)[count]>(                                             \
		gpu_emulator::get().shared(&name##_key, sizeof(type[count])))
#define GPU_SHARED(type, name)                                                                 \
	static const char name##_key = 0;                                                      \
	type &name = *static_cast<type *>(gpu_emulator::get().shared(&name##_key, sizeof(type)))

/* ---- threads ---- */

inline void __syncthreads()
{
	gpu_emulator::get().sync_block();
}

inline void __syncwarp()
{
	gpu_emulator::get().sync_warp();
}

inline void gpu_spin()
{
	sched_yield();
}

inline void __nanosleep(unsigned int ns)
{
	const struct timespec time = {0, static_cast<long>(ns < 1000000 ? ns : 1000000)};

	nanosleep(&time, nullptr);
}

[[noreturn]] inline void __trap()
{
	__builtin_trap();
}

/* In nanoseconds */
inline long long clock64()
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* ---- memory ---- */

/* The thread sanitizer knows no fences, nor does it see the other processes */
inline void __threadfence_system()
{
#ifdef __SANITIZE_THREAD__
	__asm__ volatile("" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

inline void __threadfence()
{
	__threadfence_system();
}

inline void __threadfence_block()
{
	__threadfence_system();
}

/* As on a GPU, atomic functions order nothing but themselves */
#define GPU_ATOMICS(type, scope)                                                               \
	inline type atomicAdd##scope(type *at, type value)                                     \
	{                                                                                      \
		return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);                        \
	}                                                                                      \
	inline type atomicExch##scope(type *at, type value)                                    \
	{                                                                                      \
		return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);                       \
	}                                                                                      \
	inline type atomicCAS##scope(type *at, type expected, type value)                      \
	{                                                                                      \
		__atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED,     \
					    __ATOMIC_RELAXED);                                 \
		return expected;                                                               \
	}

/* The types are those that CUDA has these for */
#define GPU_ATOMICS_SCOPES(type)                                                               \
	GPU_ATOMICS(type, )                                                                    \
	GPU_ATOMICS(type, _block)                                                              \
	GPU_ATOMICS(type, _system)

GPU_ATOMICS_SCOPES(int)
GPU_ATOMICS_SCOPES(unsigned int)
GPU_ATOMICS_SCOPES(unsigned long long)

#undef GPU_ATOMICS
#undef GPU_ATOMICS_SCOPES

#endif /* __CUDACC__ */
#endif /* CUDAEMU_GPU_KERNEL_H */
