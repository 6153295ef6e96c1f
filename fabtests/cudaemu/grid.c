/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The inside of a kernel's process: threads, blocks, what they wait at, and what they share.
 *
 * Blocks run in seats. A seat has as many threads as a block. When its block has ended, the seat
 * takes the next one, as a multiprocessor does. All seats run at once. So blocks can wait for each
 * other as long as the grid has no more of them than there are seats.
 */
#define _GNU_SOURCE
#include "grid.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu.h"

#define GRID_WARP 32
#define GRID_WARPS (EMU_BLOCK_THREADS / GRID_WARP)
/* Threads of all seats together: a device has more, but a process has not. Blocks beyond that come when others have ended */
#define GRID_THREADS 6144
#define GRID_STACK (128u << 10)
/* Shared variables of one block */
#define GRID_VARIABLES 64
#define GRID_ALIGN 16

/* Threads that return from the kernel are not waited for any more */
struct grid_barrier {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned int members, waiting;
	unsigned long round;
};

struct grid_seat {
	pthread_barrier_t turn; /* between one block and the next */
	uint64_t block;
	struct grid_barrier all, warp[GRID_WARPS];
	pthread_mutex_t lock; /* the two below */
	size_t variables, used;
	struct grid_variable {
		const void *key;
		void *at;
	} variable[GRID_VARIABLES];
	char *memory;
};

struct grid_thread {
	struct grid_seat *seat;
	unsigned int number; /* within its block */
	struct cudaemu_place place;
};

static const struct emu_grid *grid_now;
static uint64_t grid_next; /* the block that no seat has taken yet */
static unsigned int grid_threads, grid_ended;
static uint32_t *grid_here; /* how many threads have come to the gate */
static pthread_mutex_t grid_gate = PTHREAD_MUTEX_INITIALIZER; /* shut until all are there */
static sem_t grid_all, grid_end; /* all are at the gate; all have ended */
static __thread struct grid_thread *grid_self;

static void __attribute__((noreturn)) grid_die(const char *what)
{
	fprintf(stderr, "cudaemu: kernel: %s\n", what);
	abort();
}

static unsigned int grid_size(struct cudaemu_dim3 d)
{
	return d.x * d.y * d.z;
}

bool emu_grid_valid(const struct emu_grid *grid)
{
	const struct cudaemu_dim3 *g = &grid->grid, *b = &grid->block;

	return g->x && g->y && g->z && g->x <= INT32_MAX && g->y <= UINT16_MAX &&
	       g->z <= UINT16_MAX && b->x && b->y && b->z && b->x <= EMU_BLOCK_THREADS &&
	       b->y <= EMU_BLOCK_THREADS && b->z <= 64 && grid_size(*b) <= EMU_BLOCK_THREADS &&
	       grid->shared <= EMU_BLOCK_SHARED;
}

static struct cudaemu_dim3 grid_coordinates(uint64_t number, struct cudaemu_dim3 size)
{
	return (struct cudaemu_dim3){
		.x = (unsigned int) (number % size.x),
		.y = (unsigned int) (number / size.x % size.y),
		.z = (unsigned int) (number / size.x / size.y),
	};
}

/* ---- barriers ---- */

static void grid_barrier_init(struct grid_barrier *barrier)
{
	pthread_mutex_init(&barrier->lock, NULL);
	pthread_cond_init(&barrier->cond, NULL);
}

/* Lets all go if the last one has come. Called with the barrier's lock held. */
static void grid_barrier_look(struct grid_barrier *barrier)
{
	if (barrier->waiting < barrier->members)
		return;
	barrier->waiting = 0;
	barrier->round++;
	pthread_cond_broadcast(&barrier->cond);
}

static void grid_barrier_wait(struct grid_barrier *barrier)
{
	unsigned long round;

	pthread_mutex_lock(&barrier->lock);
	round = barrier->round;
	barrier->waiting++;
	grid_barrier_look(barrier);
	while (barrier->round == round)
		pthread_cond_wait(&barrier->cond, &barrier->lock);
	pthread_mutex_unlock(&barrier->lock);
}

static void grid_barrier_leave(struct grid_barrier *barrier)
{
	pthread_mutex_lock(&barrier->lock);
	barrier->members--;
	grid_barrier_look(barrier);
	pthread_mutex_unlock(&barrier->lock);
}

/* ---- what kernels call ---- */

EMU_EXPORT cudaemu_place_fn cudaemu_place;
EMU_EXPORT cudaemu_sync_block_fn cudaemu_sync_block;
EMU_EXPORT cudaemu_sync_warp_fn cudaemu_sync_warp;
EMU_EXPORT cudaemu_shared_fn cudaemu_shared;

const struct cudaemu_place *cudaemu_place(void)
{
	return &grid_self->place;
}

void cudaemu_sync_block(void)
{
	grid_barrier_wait(&grid_self->seat->all);
}

void cudaemu_sync_warp(void)
{
	grid_barrier_wait(&grid_self->seat->warp[grid_self->number / GRID_WARP]);
}

static void *grid_variable_new(struct grid_seat *seat, const void *key, size_t size)
{
	struct grid_variable *variable = &seat->variable[seat->variables];

	if (seat->variables == GRID_VARIABLES || size > EMU_BLOCK_SHARED - seat->used)
		grid_die("no more shared memory");
	variable->key = key;
	variable->at = seat->memory + seat->used;
	/* nobody may rely on what is in it */
	memset(variable->at, EMU_POISON_NEW, size);
	seat->used += EMU_ROUND_UP(size, GRID_ALIGN);
	seat->variables++;
	return variable->at;
}

void *cudaemu_shared(const void *key, size_t size)
{
	struct grid_seat *seat = grid_self->seat;
	void *at = NULL;
	size_t i;

	pthread_mutex_lock(&seat->lock);
	for (i = 0; i < seat->variables; i++)
		if (seat->variable[i].key == key)
			at = seat->variable[i].at;
	if (!at)
		at = grid_variable_new(seat, key, size);
	pthread_mutex_unlock(&seat->lock);
	return at;
}

/* ---- threads ---- */

/* Called by the first thread of the seat, while the others wait for it */
static void grid_seat_take(struct grid_seat *seat)
{
	unsigned int threads = grid_size(grid_now->block), warp;

	seat->block = __atomic_fetch_add(&grid_next, 1, __ATOMIC_RELAXED);
	seat->all.members = threads;
	for (warp = 0; warp * GRID_WARP < threads; warp++)
		seat->warp[warp].members = threads - warp * GRID_WARP < GRID_WARP
						   ? threads - warp * GRID_WARP
						   : GRID_WARP;
	seat->variables = seat->used = 0;
	grid_variable_new(seat, NULL, grid_now->shared);
}

static void grid_thread_blocks(struct grid_thread *thread)
{
	struct grid_seat *seat = thread->seat;
	struct cudaemu_dim3 size = grid_now->grid;

	for (;;) {
		if (thread->number == 0)
			grid_seat_take(seat);
		pthread_barrier_wait(&seat->turn);
		if (seat->block >= (uint64_t) size.x * size.y * size.z)
			return;
		thread->place.grid_dim = size;
		thread->place.block_dim = grid_now->block;
		thread->place.block = grid_coordinates(seat->block, size);
		thread->place.thread = grid_coordinates(thread->number, grid_now->block);
		grid_now->fn(grid_now->args);
		grid_barrier_leave(&seat->warp[thread->number / GRID_WARP]);
		grid_barrier_leave(&seat->all);
		pthread_barrier_wait(&seat->turn);
	}
}

/* Ends with the process, as the end of a thread alone would free memory */
static void *grid_thread_run(void *arg)
{
	grid_self = arg;
	/* once it is here, it needs no memory any more, not even for a sanitizer */
	if (__atomic_add_fetch(grid_here, 1, __ATOMIC_ACQ_REL) == grid_threads)
		sem_post(&grid_all);
	pthread_mutex_lock(&grid_gate);
	pthread_mutex_unlock(&grid_gate);
	grid_thread_blocks(arg);
	if (__atomic_add_fetch(&grid_ended, 1, __ATOMIC_ACQ_REL) == grid_threads)
		sem_post(&grid_end);
	for (;;)
		pause();
	return NULL;
}

static void grid_seat_init(struct grid_seat *seat)
{
	int warp;

	pthread_barrier_init(&seat->turn, NULL, grid_size(grid_now->block));
	pthread_mutex_init(&seat->lock, NULL);
	grid_barrier_init(&seat->all);
	for (warp = 0; warp < GRID_WARPS; warp++)
		grid_barrier_init(&seat->warp[warp]);
	seat->memory = mmap(NULL, EMU_BLOCK_SHARED, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (seat->memory == MAP_FAILED)
		grid_die("no memory");
}

void emu_grid_create(const struct emu_grid *grid, uint32_t *here)
{
	uint64_t blocks = (uint64_t) grid->grid.x * grid->grid.y * grid->grid.z;
	unsigned int threads = grid_size(grid->block), i;
	unsigned int seats = GRID_THREADS / threads;
	struct grid_thread *thread;
	struct grid_seat *seat;
	pthread_attr_t attr;
	pthread_t id;

	if (seats > blocks)
		seats = (unsigned int) blocks;
	grid_now = grid;
	grid_threads = seats * threads;
	grid_here = here;
	sem_init(&grid_all, 0, 0);
	sem_init(&grid_end, 0, 0);
	pthread_mutex_lock(&grid_gate);
	seat = calloc(seats, sizeof(*seat));
	thread = calloc(grid_threads, sizeof(*thread));
	if (!seat || !thread)
		grid_die("no memory");
	for (i = 0; i < seats; i++)
		grid_seat_init(&seat[i]);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, GRID_STACK);
	for (i = 0; i < grid_threads; i++) {
		thread[i].seat = &seat[i / threads];
		thread[i].number = i % threads;
		if (pthread_create(&id, &attr, grid_thread_run, &thread[i]))
			grid_die("no more threads");
	}
	pthread_attr_destroy(&attr);
	while (sem_wait(&grid_all))
		;
}

void emu_grid_run(void)
{
	pthread_mutex_unlock(&grid_gate);
	while (sem_wait(&grid_end))
		;
}
