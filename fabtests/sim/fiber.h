/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The threads of simulated processes, and what a process has of its own. All run in one thread of the system: a fiber
 * runs until it waits, or gives way, and run.c picks the next one.
 *
 * The provider's variables are in one section of the program (gate.syms says how they come there). Each process has a
 * copy of it, which is in its place while the process's code runs.
 */
#ifndef P2P_SIM_FIBER_H
#define P2P_SIM_FIBER_H

#include <stdbool.h>
#include <stdint.h>

struct fiber;

/* From now on the provider's variables are node @i's, and world.current is @i */
void process_enter(unsigned int i);
/* They are world.current's, if @addr is one of them */
void process_enter_for(const void *addr);
/* They are as at the start of a program */
void process_begin(unsigned int i);

/* A thread of the current process. It first runs when it is resumed. */
struct fiber *fiber_start(void *(*run)(void *arg), void *arg);
/* It runs until it waits, gives way or ends. Called by the world, not by a fiber */
void fiber_resume(struct fiber *fiber);
/* It has ended, and is forgotten */
void fiber_free(struct fiber *fiber);
/* All of a process's end where they are */
void fiber_kill_all(unsigned int i);

/* The thread that runs; NULL: the world */
struct fiber *fiber_self(void);
/* Has it nothing to wait for? */
bool fiber_is_ready(const struct fiber *fiber);
bool fiber_has_ended(const struct fiber *fiber);

/*
 * The thread waits until @ready says so, or until that time [ns]. True: @ready said so. It may look at no variable of the
 * provider's but for process_enter_for(). The world itself cannot wait: then it fails.
 */
bool fiber_wait(bool (*ready)(const void *what), const void *what, uint64_t until);
/* It gives way, and goes on at a later step */
void fiber_yield(void);
/* It may give way, if its process has other threads */
void fiber_switch_point(void);

/* There are no other threads from now on, in any process: this is a child of fork() */
void fiber_alone(void);

/* Each of a process's threads but its first one, which is the application's; from NULL on, up to NULL */
struct fiber *fiber_next(unsigned int i, struct fiber *before);
/* The first moment at which one of those that may run stops waiting [ns]; UINT64_MAX: never */
uint64_t fiber_due(void);

/*
 * If @fiber_timed: how long all fibers have run and moved something, without what the core has taken aside [ns of a
 * processor]; and the time, or 0
 */
extern bool fiber_timed;
extern uint64_t fiber_spent, fiber_aside;
uint64_t fiber_clock(void);

#endif /* P2P_SIM_FIBER_H */
