/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Domains that the GPU's kernels have (gpu_ring.c), and the operations that they post by rings (op_ring.c). */
#ifndef P2P_SIM_KERNEL_H
#define P2P_SIM_KERNEL_H

#include "sim.h"

bool kernels_have(unsigned int i, unsigned int d);
/* With the domain, and with an endpoint of it: they are exported; and before they are closed */
void kernels_open(unsigned int i, unsigned int d);
void kernels_ep_open(unsigned int i, unsigned int e);
void kernels_ep_close(unsigned int i, unsigned int e);
void kernels_close(unsigned int i, unsigned int d);
/* All go on; and when one does next [ns] */
void kernels_run(void);
uint64_t kernels_due(void);
/* Blocks of threads of a node's kernels, and rings of an endpoint's */
#define SIM_BLOCKS 4
#define SIM_RINGS_OF(script) (1 + (unsigned int) ((script)->noise >> 1) % SIM_BLOCKS)
/* How many operations a ring has room for */
#define SIM_SLOTS_OF(script) (SIM_RINGS_OF(script) > 1 ? 4U << (script)->noise % 4 : 1024)
/* What they have stored comes to its place at once; or never, as their process has ended */
void kernels_settle(unsigned int i, bool lost);
/* What is in the rings of an endpoint; and do they see what its counters have counted? */
uint64_t kernels_ring_left(const struct node_ep *ep);
void kernels_check_counts(unsigned int i, unsigned int e);
bool op_is_ringed(const struct op *op, unsigned int end);
/* Its block, and the number of that one's ring */
unsigned int op_block(const struct op *op, unsigned int end);
unsigned int op_ring(const struct op *op, unsigned int end);
ssize_t op_post_ring(struct op *op, unsigned int end);
/* The host's part: a put's target. And is there something to do? */
void op_ring_prepare(struct op *op);
bool op_ring_wants(const struct op *op, unsigned int end);
/* The signal of a put has come */
void op_signalled(struct op *op);
/* Its end has a buffer from now on */
void op_allocate(struct op *op, unsigned int end);
/* A kernel posts what is next, of that block, up to @most of them */
void op_ring_turn(unsigned int node, unsigned int block, unsigned int most);

/* What they cannot do is left out of its plan */
void op_ring_fit(struct op *op);

#endif /* P2P_SIM_KERNEL_H */
