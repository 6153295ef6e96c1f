/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a process has once, and what fork(2) makes of it. A child has copies of all memory and descriptors, and of
 * the threads only the one that called. Another thread may have held a lock, which nobody gives back there.
 *
 * All locks of a process are here, and no other lock is ever taken for a new object's sake. So a child may open
 * objects of its own. Those that it has inherited are its parent's, and to close one does nothing there
 * (process_inherited()): neither the core's connections nor the memory that peers look at are touched.
 */
#ifndef P2P_PROCESS_H
#define P2P_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

/*
 * Who holds one takes only those that come after it.
 *
 * PROCESS_TABLES guards tables. Nobody waits while holding it, and no call of the system is made. fork() takes it, so
 * a child finds the tables whole. The others may be held over calls of the system or of a driver. A child finds them
 * free, whoever held them: what they guard may be half done, and is begun anew.
 */
enum process_lock {
	PROCESS_POLLSETS,
	PROCESS_STREAMS,
	PROCESS_PROXIES,
	PROCESS_SHARING,
	PROCESS_READINGS,
	PROCESS_OPENING,
	PROCESS_RUNTIMES,
	PROCESS_MAPPINGS,
	PROCESS_CONTEXTS,
	PROCESS_TABLES,
	PROCESS_LOCKS
};

/* Takes one of the locks that guard the state of a process. */
void process_lock(enum process_lock which);
/* Gives such a lock back. */
void process_unlock(enum process_lock which);

/*
 * Has @forget called in each child, before fork() returns there: it drops what is the parent's alone, as threads are.
 * It may close descriptors, and takes no lock. A second time changes nothing.
 */
void process_forget(void (*forget)(void));

/* Another number in a child than in its parent, at the cost of a load */
extern unsigned int process_forks;

/* Was it another process, @owner, that opened the object? */
static inline bool process_inherited(pid_t owner)
{
	return owner != getpid();
}

/* Has a process of this host, and of our namespace, ended? Its id may be another one's by now: then it has not. */
bool process_ended(pid_t pid);

#endif /* P2P_PROCESS_H */
