/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Two ranks that survive a third one, and go on talking to each other */
#ifndef SURVIVORS_H
#define SURVIVORS_H

#include "xpu_side.h"

/**
 * survivors_run_rank() - one of three ranks, of which @victim dies.
 *
 * Kernels and streams of the others talk to it, and to each other. What concerns the victim ends by errors. What
 * the survivors say to each other arrives, before and after that, byte by byte.
 */
int survivors_run_rank(struct ft_proc *proc, int victim);

#endif /* SURVIVORS_H */
