/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_scale: what start-up, peers and objects cost, and many ranks at once. Each source file has one --ops, or two. All but
 * scale_peers() print an object of JSON for each of their rows.
 */
#ifndef FT_SCALE_H
#define FT_SCALE_H

#include "ft_test.h"

/** scale_peers() - up to 64 endpoints of one process, as peers of one endpoint of another */
int scale_peers(struct ft_proc *proc);
/** scale_start() - from fi_getinfo to a message from each other rank, and with @lanes until one has taken lanes */
int scale_start(struct ft_proc *proc, bool lanes);
/** scale_objects() - up to 1,000 objects of each kind, in rank 0 */
int scale_objects(struct ft_proc *proc);
/** scale_turns() - many ranks at once, by the core provider alone and by ofi_p2p in turn */
int scale_turns(struct ft_proc *proc);

/** scale_gather() - rank 0 gets @size bytes of each rank's, @mine, in the order of ranks */
int scale_gather(struct ft_proc *proc, const void *mine, size_t size, void *all);
/** scale_tell() - all ranks get rank 0's @value */
int scale_tell(struct ft_proc *proc, void *value, size_t size);

#endif
