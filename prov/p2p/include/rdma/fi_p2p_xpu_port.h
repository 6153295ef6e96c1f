/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is different on each kind of processor that runs rdma/fi_p2p_xpu_device.h: loads and stores that
 * others see, time, and how the threads of a block meet. Not for applications, but for programs whose
 * threads play a kernel's part.
 */
#ifndef FI_P2P_XPU_PORT_H
#define FI_P2P_XPU_PORT_H

#include <rdma/fi_p2p_xpu_abi.h>

#if defined(__CUDACC__) || defined(__HIPCC__)

#define FI_P2P_XPU_FUNC __device__ static inline
#define FI_P2P_XPU_FUNC_APART __device__ static __attribute__((noinline, unused))

FI_P2P_XPU_FUNC void fi_p2p_xpu_store16(struct fi_p2p_xpu_word2 *to, uint64_t lo, uint64_t hi)
{
#if defined(__CUDA_ARCH__)
	/* callers order it; without "memory", a loop keeps the ring's state in registers */
	asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(lo),
		     "l"(hi));
#else
	__atomic_store_n(&to->lo, lo, __ATOMIC_RELAXED);
	__atomic_store_n(&to->hi, hi, __ATOMIC_RELEASE);
#endif
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_load(const uint64_t *from)
{
#if defined(__CUDA_ARCH__)
	uint64_t value;

	asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
		     : "=l"(value)
		     : "l"(from)
		     : "memory");
	return value;
#else
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
#endif
}

FI_P2P_XPU_FUNC void fi_p2p_xpu_store(uint64_t *to, uint64_t value)
{
#if defined(__CUDA_ARCH__)
	asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#else
	__atomic_store_n(to, value, __ATOMIC_RELEASE);
#endif
}

/* The same as an atomic addition */
FI_P2P_XPU_FUNC void fi_p2p_xpu_add(uint64_t *to, uint64_t value)
{
#if defined(__CUDA_ARCH__)
	asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(to), "l"(value)
		     : "memory");
#elif defined(__HIP_DEVICE_COMPILE__)
	__hip_atomic_fetch_add(to, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
#else
	__atomic_fetch_add(to, value, __ATOMIC_RELEASE);
#endif
}

/* In no order with anything else */
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_peek(const uint64_t *from)
{
	return *(const volatile uint64_t *) from;
}

FI_P2P_XPU_FUNC void fi_p2p_xpu_poke(uint64_t *to, uint64_t value)
{
	*(volatile uint64_t *) to = value;
}

/* Two words of the host's at once */
FI_P2P_XPU_FUNC void fi_p2p_xpu_load2(const uint64_t *from, uint64_t *first, uint64_t *second)
{
#if defined(__CUDA_ARCH__)
	asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(*first), "=l"(*second)
		     : "l"(from)
		     : "memory");
#else
	*first = __atomic_load_n(from, __ATOMIC_ACQUIRE);
	*second = __atomic_load_n(from + 1, __ATOMIC_ACQUIRE);
#endif
}

/* Among threads of the same device */
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_load_near(const uint64_t *from)
{
#if defined(__CUDA_ARCH__)
	uint64_t value;

	asm volatile("ld.acquire.gpu.global.u64 %0, [%1];"
		     : "=l"(value)
		     : "l"(from)
		     : "memory");
	return value;
#else
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
#endif
}

FI_P2P_XPU_FUNC void fi_p2p_xpu_store_near(uint64_t *to, uint64_t value)
{
#if defined(__CUDA_ARCH__)
	asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#else
	__atomic_store_n(to, value, __ATOMIC_RELEASE);
#endif
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_swap_if(uint64_t *at, uint64_t old, uint64_t value)
{
	return atomicCAS((unsigned long long *) at, (unsigned long long) old,
			 (unsigned long long) value);
}

/*
 * Words of 4 bytes, or of 8 if they are @wide, which all devices and the host may change meanwhile: a look, an exchange if
 * it is @old, and an addition. Each returns what was there.
 */
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_word_look(uint64_t at, int wide)
{
	return wide ? *(const volatile uint64_t *) at : *(const volatile uint32_t *) at;
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_word_swap_if(uint64_t at, int wide, uint64_t old,
						 uint64_t value)
{
	if (wide)
		return atomicCAS_system((unsigned long long *) at, (unsigned long long) old,
					(unsigned long long) value);
	return atomicCAS_system((unsigned int *) at, (unsigned int) old, (unsigned int) value);
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_word_add(uint64_t at, int wide, uint64_t value)
{
	if (wide)
		return atomicAdd_system((unsigned long long *) at, (unsigned long long) value);
	return atomicAdd_system((unsigned int *) at, (unsigned int) value);
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_now(void)
{
#if defined(__CUDA_ARCH__)
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
#elif defined(__HIP_DEVICE_COMPILE__)
	return wall_clock64() * 10; /* 100 MHz */
#else
	return 0;
#endif
}

#if defined(__CUDACC__)
#define fi_p2p_xpu_fence() asm volatile("fence.acq_rel.sys;" ::: "memory")
#else
#define fi_p2p_xpu_fence() __threadfence_system()
#endif
#define fi_p2p_xpu_pause()                                                                     \
	do {                                                                                   \
	} while (0)

#else /* threads of the host */

#include <time.h>

#define FI_P2P_XPU_FUNC static inline __attribute__((unused))
#define FI_P2P_XPU_FUNC_APART static __attribute__((noinline, unused))

FI_P2P_XPU_FUNC void fi_p2p_xpu_store16(struct fi_p2p_xpu_word2 *to, uint64_t lo, uint64_t hi)
{
	__atomic_store_n(&to->lo, lo, __ATOMIC_RELAXED);
	__atomic_store_n(&to->hi, hi, __ATOMIC_RELEASE);
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_load(const uint64_t *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

FI_P2P_XPU_FUNC void fi_p2p_xpu_store(uint64_t *to, uint64_t value)
{
	__atomic_store_n(to, value, __ATOMIC_RELEASE);
}

FI_P2P_XPU_FUNC void fi_p2p_xpu_add(uint64_t *to, uint64_t value)
{
	__atomic_fetch_add(to, value, __ATOMIC_RELEASE);
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_peek(const uint64_t *from)
{
	return __atomic_load_n(from, __ATOMIC_RELAXED);
}

FI_P2P_XPU_FUNC void fi_p2p_xpu_poke(uint64_t *to, uint64_t value)
{
	__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

FI_P2P_XPU_FUNC void fi_p2p_xpu_load2(const uint64_t *from, uint64_t *first, uint64_t *second)
{
	*first = __atomic_load_n(from, __ATOMIC_ACQUIRE);
	*second = __atomic_load_n(from + 1, __ATOMIC_ACQUIRE);
}

#define fi_p2p_xpu_load_near fi_p2p_xpu_load
#define fi_p2p_xpu_store_near fi_p2p_xpu_store

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_swap_if(uint64_t *at, uint64_t old, uint64_t value)
{
	__atomic_compare_exchange_n(at, &old, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return old;
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_word_look(uint64_t at, int wide)
{
	return wide ? __atomic_load_n((const uint64_t *) (uintptr_t) at, __ATOMIC_RELAXED)
		    : __atomic_load_n((const uint32_t *) (uintptr_t) at, __ATOMIC_RELAXED);
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_word_swap_if(uint64_t at, int wide, uint64_t old,
						 uint64_t value)
{
	uint32_t half = (uint32_t) old;

	if (wide)
		return fi_p2p_xpu_swap_if((uint64_t *) (uintptr_t) at, old, value);
	__atomic_compare_exchange_n((uint32_t *) (uintptr_t) at, &half, (uint32_t) value, 0,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return half;
}

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_word_add(uint64_t at, int wide, uint64_t value)
{
	return wide ? __atomic_fetch_add((uint64_t *) (uintptr_t) at, value, __ATOMIC_RELAXED)
		    : __atomic_fetch_add((uint32_t *) (uintptr_t) at, (uint32_t) value,
					 __ATOMIC_RELAXED);
}

#ifdef CLOCK_MONOTONIC
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000U + (uint64_t) now.tv_nsec;
}
#else /* modes of C that hide it (-std=c99): the C library has it all the same */
struct fi_p2p_xpu_time {
	time_t s;
	long ns;
};

extern int fi_p2p_xpu_clock(int clock, struct fi_p2p_xpu_time *now) __asm__("clock_gettime");

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_now(void)
{
	struct fi_p2p_xpu_time now;

	fi_p2p_xpu_clock(1 /* CLOCK_MONOTONIC of Linux */, &now);
	return (uint64_t) now.s * 1000000000U + (uint64_t) now.ns;
}
#endif

/* The thread sanitizer knows no fences. The stores that follow are of release. */
#if defined(__SANITIZE_THREAD__)
#define fi_p2p_xpu_fence()                                                                     \
	do {                                                                                   \
	} while (0)
#else
#define fi_p2p_xpu_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
#ifndef fi_p2p_xpu_pause
#include <sched.h>
#define fi_p2p_xpu_pause() sched_yield()
#endif

#endif

/* Two words that do not change while kernels know of them: at once, which spares a trip to memory after another */
FI_P2P_XPU_FUNC struct fi_p2p_xpu_word2 fi_p2p_xpu_const2(const void *from)
{
	struct fi_p2p_xpu_word2 words;

#if defined(__CUDA_ARCH__)
	const ulonglong2 both = __ldg((const ulonglong2 *) from);

	words.lo = both.x;
	words.hi = both.y;
#else
	__builtin_memcpy(&words, from, sizeof(words));
#endif
	return words;
}

/* Two words, each as by fi_p2p_xpu_peek() */
FI_P2P_XPU_FUNC void fi_p2p_xpu_peek2(const uint64_t *from, uint64_t *first, uint64_t *second)
{
#if defined(__CUDA_ARCH__)
	asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(*first), "=l"(*second)
		     : "l"(from));
#else
	*first = fi_p2p_xpu_peek(from);
	*second = fi_p2p_xpu_peek(from + 1);
#endif
}

#if defined(__CUDACC__) || defined(__HIPCC__)
/* All threads of the block get the first one's value. Mostly that is 0, and then they meet once. */
FI_P2P_XPU_FUNC int fi_p2p_xpu_sync_block(int value)
{
	__shared__ int first;
	const int mine = !threadIdx.x && !threadIdx.y && !threadIdx.z;

	if (!__syncthreads_or(mine ? value : 0))
		return 0;
	if (mine)
		first = value;
	__syncthreads();
	value = first;
	__syncthreads();
	return value;
}

/* The same for a warp's. A shuffle alone orders no memory. */
FI_P2P_XPU_FUNC int fi_p2p_xpu_sync_lanes(int value)
{
#if defined(__HIPCC__)
	__threadfence_block();
	return __shfl(value, 0);
#else
	__syncwarp();
	return __shfl_sync(0xffffffffU, value, 0);
#endif
}
#endif

/*
 * Which block and which of its threads this is, how many those are, and how all of a block, or of its lanes, get the
 * first one's value. A program whose threads play a kernel's part may define all of these.
 */
#ifndef FI_P2P_XPU_BLOCK
#if defined(__CUDACC__) || defined(__HIPCC__)
#define FI_P2P_XPU_BLOCK                                                                       \
	(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * (uint64_t) blockIdx.z))
#define FI_P2P_XPU_THREAD                                                                      \
	(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * (uint64_t) threadIdx.z))
#define FI_P2P_XPU_THREADS (blockDim.x * blockDim.y * blockDim.z)
#define FI_P2P_XPU_LANES warpSize
#define FI_P2P_XPU_SYNC_BLOCK(value) fi_p2p_xpu_sync_block(value)
#define FI_P2P_XPU_SYNC_LANES(value) fi_p2p_xpu_sync_lanes(value)
#else
#define FI_P2P_XPU_BLOCK 0U
#define FI_P2P_XPU_THREAD 0U
#define FI_P2P_XPU_THREADS 1U
#define FI_P2P_XPU_LANES 1U
#define FI_P2P_XPU_SYNC_BLOCK(value) (value)
#define FI_P2P_XPU_SYNC_LANES(value) (value)
#endif
#endif
/* programs of older releases know no such name: the first thread copies alone */
#ifndef FI_P2P_XPU_THREADS
#define FI_P2P_XPU_THREADS 1U
#endif

#endif /* FI_P2P_XPU_PORT_H */
