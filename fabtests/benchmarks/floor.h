/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What CUDA's own copies take. Nothing that moves device memory can be quicker than these. They
 * take turns with the messages that they are compared with.
 */
#ifndef FT_FLOOR_H
#define FT_FLOOR_H

#include "turns.h"

/**
 * floor_open() - set up copies of up to @size bytes. turns_start() has to come before.
 *
 * FT_FLOOR_COPY: from the device to pinned host memory, and from there to the device.
 * FT_FLOOR_PEER: from the device to the device @peer. This finds the quickest way to wait, and
 * gives its name to @way.
 */
int floor_open(enum ft_floor kind, int peer, size_t size, const char **way);
/**
 * floor_turn() - a turn, as struct turns_side has it.
 *
 * Latency: one copy, and the wait for it; one each way with FT_FLOOR_COPY. Stream: a window of
 * copies at a time; with FT_FLOOR_COPY in the slower direction. Both ways: both directions at
 * once. Remote memory: as latency where one operation waits for the other, else as a stream. An
 * atomic operation copies from the device at both ends, and to it once, or if it fetches twice.
 */
int floor_turn(const struct turns_row *row, uint64_t count, double *usec);
void floor_close(void);

#endif /* FT_FLOOR_H */
