/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many lanes pay (lane.h): as many as there are processors for. A thread of a lane that waits for a processor
 * costs more than it brings.
 *
 * At the start we count the processors that the process may run on. Other processes may use them, too, and nothing
 * tells how much. So we watch the threads while they run: the kernel counts for how long each has run, and for
 * how long it was ready to run and did not.
 */
#ifndef P2P_LANE_LOAD_H
#define P2P_LANE_LOAD_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct lane_load - the number of lanes in use.
 * @most:	so many at most
 * @use:	so many now: 0, or at least 2
 * @looked:	when that was last thought about [ms]
 * @ran, @waited: what the threads had run and waited then [ns]
 */
struct lane_load {
	unsigned int most;
	unsigned int use;
	uint64_t looked;
	uint64_t ran;
	uint64_t waited;
};

/* The number of lanes for a process such as this: from 2 to @most, or 1: none */
unsigned int lane_load_start(unsigned int most);

/* What the calling thread's times can be read from (lane_load_read()), or -1 */
int lane_load_open(void);

/* Adds a thread's times [ns] to @ran and @waited */
void lane_load_read(int fd, uint64_t *ran, uint64_t *waited);

/* Is it time [ms] to think about the number? Then lane_load_think() is told the times of all threads. */
bool lane_load_due(const struct lane_load *load, uint64_t now);
void lane_load_think(struct lane_load *load, uint64_t now, uint64_t ran, uint64_t waited);

#endif /* P2P_LANE_LOAD_H */
