/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What CUDA's own copies take: nothing that moves device memory can be quicker than
 * these. They take turns with the messages that they are compared with.
 */
#ifndef FT_FLOOR_H
#define FT_FLOOR_H

#include "turns.h"

/**
 * floor_open() - after turns_start(), for messages of up to @size bytes.
 * FT_FLOOR_COPY: from the device to pinned host memory and from there to the device;
 * FT_FLOOR_PEER: from the device to the device @peer. The quickest way to wait is found
 * out, and its name goes to @way.
 */
int floor_open(enum ft_floor kind, int peer, size_t size, const char **way);
/**
 * floor_turn() - a turn, as struct turns_side has it. As latency: one copy (each
 * way, if FT_FLOOR_COPY) that is waited for. As a stream: a window of copies at a time;
 * with FT_FLOOR_COPY the slower of the two ways. By both ways: both at once.
 */
int floor_turn(const struct turns_row *row, uint64_t count, double *usec);
void floor_close(void);

#endif /* FT_FLOOR_H */
