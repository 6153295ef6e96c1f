/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kernels of the emulator's test. Each function launches one, and returns CUDA's error. */
#ifndef EMU_KERNELS_H
#define EMU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

#define KERNEL_STOP UINT32_MAX

/* What the CPU and a kernel send each other numbers by */
struct kernel_line {
	uint32_t to_kernel, from_kernel;
};

/* to[i] = from[i] + add, by the threads of many blocks; from may be NULL: i + add */
int launch_add(struct CUstream_st *stream, uint32_t *to, const uint32_t *from, uint32_t count,
	       uint32_t add);
/* One thread: answers each number with the next one, up to KERNEL_STOP, and adds all to *sum */
int launch_answer(struct CUstream_st *stream, struct kernel_line *line, uint64_t *sum);
/* Sums up in all ways there are; each block adds 1 to blocks[its number] */
int launch_count(struct CUstream_st *stream, unsigned int blocks, unsigned int threads,
		 int *sum32, unsigned long long *sum64, unsigned int *by_cas);
/* Every block waits until all others have come. */
int launch_meet(struct CUstream_st *stream, unsigned int blocks, unsigned int threads,
		unsigned int *come);
/* Each block turns its numbers round, by way of shared memory. Odd threads return early. */
int launch_turn(struct CUstream_st *stream, unsigned int blocks, uint32_t *numbers);
/* Writes dimensions and coordinates of each thread: to[number of the thread] */
int launch_places(struct CUstream_st *stream, uint64_t *to);
/* Stores where at points, or traps if that is NULL */
int launch_crash(struct CUstream_st *stream, uint32_t *at);
/* Waits until *word is not 0 */
int launch_wait(struct CUstream_st *stream, uint32_t *word);
/* More threads than a block can have */
int launch_too_many(struct CUstream_st *stream);

#define KERNEL_TURN_THREADS 96

#ifdef __cplusplus
}
#endif

#endif /* EMU_KERNELS_H */
