/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packs short runs. See pack.h. The pinned memory has the gate, then a table of runs, which grows upwards, and at its end
 * their bytes, which grow downwards. When the two meet, or at the end, a kernel copies them.
 */
#include "pack.h"

#include <mpi.h>
#include <stdint.h>
#include <string.h>

#include "kernel.h"

#define PACK_MEMORY (4ul << 20)
/* One warp copies no more at a time */
#define PACK_PIECE 1024
#define PACK_EVER INT64_MAX

static struct kernel_gate *pack_gate(const struct pack *pack)
{
	return (struct kernel_gate *) pack->memory;
}

static struct kernel_run *pack_table(const struct pack *pack)
{
	return (struct kernel_run *) (pack_gate(pack) + 1);
}

/* Where a run is on the GPU, and in the packed memory as the GPU has it */
static uint64_t pack_there(const struct pack *pack, const struct kernel_run *run)
{
	return pack->out ? run->to : run->from;
}

static char *pack_here(const struct pack *pack, const struct kernel_run *run)
{
	return pack->memory + ((pack->out ? run->from : run->to) - (uintptr_t) pack->device);
}

/* ---- what the kernel does, and what is done without it ---- */

enum pack_end {
	PACK_DONE,
	PACK_LEFT,  /* some of it may be done, and nothing goes on */
	PACK_STUCK, /* nothing is done, and the lane's kernel has not begun */
	PACK_FAILED,
};

static enum pack_end pack_launch(struct pack *pack)
{
	struct kernel_gate *gate = pack_gate(pack);
	int ret;

	/* what is in the queue so far needs no multiprocessor */
	if (lane_wait(*pack->lane, PACK_EVER) < 0)
		return PACK_FAILED;
	*gate = (struct kernel_gate){0};
	if (!kernel_copy(*pack->lane, (const struct kernel_run *) (pack->device + sizeof *gate),
			 pack->count, (struct kernel_gate *) pack->device))
		return PACK_LEFT;
	ret = lane_wait(*pack->lane, KERNEL_WAIT_NS);
	if (ret != 0)
		return ret < 0 ? PACK_FAILED : PACK_DONE;
	if (!__atomic_load_n(&gate->begun, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&gate->ends, 1, __ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&gate->begun, __ATOMIC_SEQ_CST))
			return PACK_STUCK;
	}
	/* it has room, and ends soon */
	if (lane_wait(*pack->lane, PACK_EVER) < 0)
		return PACK_FAILED;
	return gate->ends ? PACK_LEFT : PACK_DONE;
}

static int pack_one_by_one(struct pack *pack, const char **why)
{
	const struct kernel_run *run = pack_table(pack), *end = run + pack->count;
	int ret = MPI_SUCCESS;

	for (; run < end && ret == MPI_SUCCESS; run++)
		ret = lane_copy(*pack->lane, (char *) (uintptr_t) pack_there(pack, run),
				pack_here(pack, run), run->len, pack->out, why);
	if (ret == MPI_SUCCESS && lane_wait(*pack->lane, PACK_EVER) < 0) {
		*why = "a copy from or to the GPU has failed";
		ret = MPI_ERR_OTHER;
	}
	return ret;
}

static void pack_unpack(const struct pack *pack)
{
	const struct kernel_run *run = pack_table(pack), *end = run + pack->count;

	for (; run < end && !pack->out; run++)
		memcpy((char *) (uintptr_t) run->from + pack->way, pack_here(pack, run),
		       run->len);
}

static int pack_flush(struct pack *pack, const char **why)
{
	struct lane *stuck = NULL;
	int ret = MPI_SUCCESS;

	switch (pack_launch(pack)) {
	case PACK_DONE:
		break;
	case PACK_STUCK:
		stuck = *pack->lane;
		ret = lane_open(pack->mem, pack->lane, why);
		if (ret != MPI_SUCCESS)
			break;
		/* fall through */
	case PACK_LEFT:
		ret = pack_one_by_one(pack, why);
		break;
	case PACK_FAILED:
		*why = "a kernel that copies has failed";
		ret = MPI_ERR_OTHER;
	}
	if (ret == MPI_SUCCESS)
		pack_unpack(pack);
	pack->count = pack->used = 0;
	if (stuck) {
		lane_park(stuck, pack->memory, PACK_MEMORY);
		pack->memory = NULL;
	}
	return ret;
}

/* ---- runs ---- */

bool pack_open(struct pack *pack)
{
	const struct dev_mem *own = lane_device(*pack->lane);
	const char *why;
	void *device;

	if (!kernel_copies(*pack->lane, pack->mem) ||
	    lane_memory(own, PACK_MEMORY, &pack->memory, &why) != MPI_SUCCESS)
		return false;
	if (own->ops->host_address(own, pack->memory, &device)) {
		lane_memory_free(own, pack->memory, PACK_MEMORY);
		pack->memory = NULL;
		return false;
	}
	pack->device = device;
	return true;
}

int pack_run(struct pack *pack, char *gpu, size_t len, const char **why)
{
	int ret = MPI_SUCCESS;

	while (len && ret == MPI_SUCCESS) {
		const size_t piece = len < PACK_PIECE ? len : PACK_PIECE;
		struct kernel_run *run = pack_table(pack) + pack->count;
		/* as far from a multiple of 8 as on the GPU */
		const size_t used =
			pack->used + piece + (0 - (pack->used + piece + (uintptr_t) gpu)) % 8;

		if (!pack->memory)
			return lane_copy(*pack->lane, gpu, gpu + pack->way, len, pack->out,
					 why);
		if ((char *) (run + 1) > pack->memory + PACK_MEMORY - used) {
			ret = pack_flush(pack, why);
			continue;
		}
		*run = (struct kernel_run){.len = piece};
		if (pack->out) {
			run->from = (uintptr_t) pack->device + PACK_MEMORY - used;
			run->to = (uintptr_t) gpu;
			memcpy(pack_here(pack, run), gpu + pack->way, piece);
		} else {
			run->from = (uintptr_t) gpu;
			run->to = (uintptr_t) pack->device + PACK_MEMORY - used;
		}
		pack->count++;
		pack->used = used;
		gpu += piece;
		len -= piece;
	}
	return ret;
}

int pack_close(struct pack *pack, int ret, const char **why)
{
	if (ret == MPI_SUCCESS && pack->count)
		ret = pack_flush(pack, why);
	if (pack->memory)
		lane_memory_free(lane_device(*pack->lane), pack->memory, PACK_MEMORY);
	return ret;
}
