/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The gate: all that the provider asks of the system. gate.syms lists it. The linker leads each call of the provider's
 * objects to the function of gate.c or gate_fd.c that has its name behind "sim_". Nothing else is asked of the system:
 * contrib/check-calls looks.
 */
#ifndef P2P_SIM_GATE_H
#define P2P_SIM_GATE_H

#include "sim.h"

#include <errno.h>

/* Defines what the provider's call of @name becomes. Only objects whose symbols were renamed call it */
#define GATE(type, name, ...)                                                                  \
	type sim_##name(__VA_ARGS__);                                                          \
	type sim_##name(__VA_ARGS__)

/* Sets errno, and says so in the call's value */
static inline int gate_failed(int err)
{
	errno = err;
	return -1;
}

/* [ns] from a timeout [ms], which may be negative: for ever */
static inline uint64_t gate_until(int64_t timeout)
{
	return timeout < 0 ? UINT64_MAX : world.now + (uint64_t) timeout * SIM_MS;
}

/* A process that lives, by its number as the current one's host has it. SIM_NODES: there is none */
unsigned int gate_node(long pid);

/* From now on one of so many requests of a process's for memory fails; 0: none. Does this one? */
void gate_scarce(unsigned int node, unsigned int often);
bool gate_has_none(void);
bool gate_is_scarce(unsigned int node);
/* What each process has on its heap [bytes] */
extern size_t gate_heap[SIM_NODES];

/* A process's descriptors are closed with it */
void gate_close_all(unsigned int node);
unsigned int gate_open_count(unsigned int node);
void gate_fill(unsigned int node, int spare);
/* What is called when the current process forks, in the order of the calls; and what is in its shared pages */
enum fork_moment { FORK_BEFORE, FORK_PARENT, FORK_CHILD, FORK_MOMENTS };
void gate_forks(enum fork_moment moment);
uint64_t gate_pages_sum(unsigned int node);
/* Of a descriptor that is opened: exec() closes it */
void gate_closes(int flags);
/* So many shared pages are mapped; and the process ends */
unsigned int gate_mapped(unsigned int node);
void gate_unmap_all(unsigned int node);
/* No pages can be shared until then [ns] */
void gate_short(uint64_t until);
/* A descriptor of the GPU's memory, which gpu_memory_put() is called with once nobody has it any more */
int gate_memory(void *memory);
void *gate_memory_of(int fd);
/* What a process has mapped of a descriptor's, for mmap(); -1: it is no file */
int gate_real_fd(int fd);
/* Has the current process made that file? And one of the pages that a process has made, or NULL */
bool gate_is_own(int fd);
void *gate_own_page(unsigned int node, size_t *len);

/* A descriptor of the core's, which is readable when @readable says so of @of; -1: there are too many */
int gate_core_fd(bool (*readable)(void *of), void *of);

/* What the simulator calls itself */
struct pollfd;
int sim_close(int fd);
int sim_eventfd(unsigned int count, int flags);
ssize_t sim_read(int fd, void *buf, size_t len);
ssize_t sim_write(int fd, const void *buf, size_t len);
int sim_poll(struct pollfd *fds, unsigned long count, int timeout);

#endif /* P2P_SIM_GATE_H */
