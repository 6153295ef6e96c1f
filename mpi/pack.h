/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Short runs of a GPU's memory, copied by a kernel: many of them by one. Their bytes go through pinned memory, in which they
 * lie side by side, and from there to their places on the host by the CPU, or the other way.
 *
 * A kernel begins when a multiprocessor has room. If none has in KERNEL_WAIT_NS, the kernel is told to do nothing, and the
 * runs are copied one by one, which takes no multiprocessor.
 */
#ifndef P2P_MPI_PACK_H
#define P2P_MPI_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "lane.h"

/**
 * struct pack - runs that are on their way.
 * @lane:	the caller's, which may become another one
 * @mem:	what the runs are of
 * @out:	to the GPU
 * @way:	how far it is from a run's place on the GPU to that on the host
 * @memory, @device: pinned memory, NULL: no kernel copies; and where the GPU finds it
 * @count:	runs in it; @used: bytes of it from its end on
 */
struct pack {
	struct lane **lane;
	const struct dev_mem *mem;
	bool out;
	ptrdiff_t way;
	char *memory, *device;
	size_t count, used;
};

/* With @pack's first four members: is there a kernel for that? Else nothing is to be closed. */
bool pack_open(struct pack *pack);
/* Takes a run. Both return MPI_SUCCESS, or an error class with @why. */
int pack_run(struct pack *pack, char *gpu, size_t len, const char **why);
/* Waits until all have been copied, and returns @ret, or what has failed. With an error some are not copied. */
int pack_close(struct pack *pack, int ret, const char **why);

#endif /* P2P_MPI_PACK_H */
