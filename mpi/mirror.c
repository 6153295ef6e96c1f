/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Copies between a GPU buffer and the host memory that MPI gets in its place. See mirror.h. */
#include "mirror.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lane.h"
#include "mem/mem.h"
#include "pack.h"

/*
 * A copy of this many bytes takes about as long as beginning another one, as another row of one, as another run that a
 * kernel copies, and as that kernel's beginning.
 */
#define MIRROR_COPY_COST 32768
#define MIRROR_ROW_COST 1024
#define MIRROR_PACK_COST 256
#define MIRROR_KERNEL_COST (16 * MIRROR_COPY_COST)
/* Runs of up to so many bytes, up to so many together, are left to a kernel */
#define MIRROR_SHORT 8192
#define MIRROR_FEW 8
/* Parts of at least so many bytes, on average, are messages by themselves */
#define MIRROR_PART 65536

static const char mirror_leaves[] =
	"the buffer is longer than the GPU's allocation that it begins in";

static const char mirror_gone[] =
	"the buffer is in no memory, or the GPU's memory that it was in has been freed";

static const char mirror_no_memory[] = "no memory for what it is about";

const char mirror_overflows[] = "the data is longer than any memory";

/* ---- what is where ---- */

static bool mirror_bounds(struct mirror *mirror)
{
	bool any = false;

	for (size_t i = 0; i < mirror->count; i++) {
		const struct mirror_part *part = &mirror->parts[i];
		MPI_Aint first, last, way;

		if (part->count == 0 || part->layout->count == 0)
			continue;
		if (__builtin_add_overflow(part->at, part->layout->low, &first) ||
		    __builtin_add_overflow(part->at, part->layout->high, &last) ||
		    __builtin_mul_overflow((MPI_Aint) part->count - 1, part->layout->extent,
					   &way) ||
		    __builtin_add_overflow(way < 0 ? first : last, way,
					   way < 0 ? &first : &last))
			return false;
		mirror->low = any && mirror->low < first ? mirror->low : first;
		mirror->high = any && mirror->high > last ? mirror->high : last;
		any = true;
	}
	return true;
}

/* One run of neighbours, in the order of the signature, and MPI knows that */
static bool mirror_gapless(const struct mirror *mirror)
{
	return mirror->count == 1 && !mirror->parts[0].layout->shifted &&
	       (layout_dense(mirror->parts[0].layout) ||
		(mirror->parts[0].count == 1 && mirror->parts[0].layout->count == 1));
}

/* Each part by itself, and long enough that a message costs less than a mirror */
static bool mirror_long_parts(const struct mirror *mirror, size_t bytes)
{
	for (size_t i = 0; i < mirror->count; i++) {
		if (mirror->parts[i].layout->shifted || !layout_dense(mirror->parts[i].layout))
			return false;
	}
	return bytes / mirror->count >= MIRROR_PART;
}

static bool mirror_within(const struct dev_mem *mem, const char *addr, size_t len)
{
	return mem->ops && (uintptr_t) addr >= mem->base && len <= mem->size &&
	       (uintptr_t) addr - mem->base <= mem->size - len;
}

/* Is the first of @len bytes a GPU's? @absent: nothing need be there */
static int mirror_ask(const char *addr, size_t len, bool absent, struct dev_mem *mem,
		      const char **why)
{
	int ret;

	if (len == 0 || mem_in_heap(addr, len) || mem_in_stack(addr, len))
		return 0;
	ret = mem_find_device(addr, 1, mem);
	if (ret < 0) {
		*why = "the GPU's runtime does not say whose memory it is: it is asked for none in a stream's host function";
	} else if (ret == 0 && !absent &&
		   ((uintptr_t) addr < DEV_PAGE || !mem_readable(addr))) {
		*why = mirror_gone;
		ret = -1;
	}
	return ret;
}

/* Is the first byte a GPU's? As mirror_ask(). With MPI_BOTTOM types have addresses, and may have some of each kind. */
static int mirror_find(struct mirror *mirror, bool absent, const char **why)
{
	const bool all = mirror->buf == MPI_BOTTOM;
	int ret = 0;

	for (size_t i = 0, asked = 0; i < mirror->count && ret == 0 && (all || !asked); i++) {
		const struct mirror_part *part = &mirror->parts[i];
		const size_t runs = all ? part->layout->count : 1;

		for (size_t k = 0;
		     part->count && k < runs && k < part->layout->count && ret == 0;
		     k++, asked++) {
			mirror->first = mirror->buf + part->at + part->layout->runs[k].at;
			ret = mirror_ask(mirror->first, part->layout->runs[k].len, absent,
					 &mirror->mem, why);
		}
	}
	return ret;
}

/* Is all of a run where the first byte of the data is, or the host's, if types have addresses? */
static bool mirror_has_run(const struct mirror *mirror, MPI_Aint at, size_t len)
{
	const struct iovec run = {mirror->buf + at, len};
	struct dev_mem mem;

	if (mirror->apart)
		apart_add(mirror->apart, run.iov_base, len);
	return mem_classify(&run, 1, &mirror->mem, &mem) == 0 &&
	       (mem.ops || mirror->buf == MPI_BOTTOM);
}

static bool mirror_has_part(const struct mirror *mirror, const struct mirror_part *part)
{
	const struct layout *layout = part->layout;
	const bool dense = layout_dense(layout);

	for (size_t i = 0; i < (dense ? part->count > 0 : part->count); i++) {
		for (size_t k = 0; k < layout->count; k++) {
			if (!mirror_has_run(mirror,
					    part->at + (MPI_Aint) i * layout->extent +
						    layout->runs[k].at,
					    layout->runs[k].len * (dense ? part->count : 1)))
				return false;
		}
	}
	return true;
}

/* Is all of the buffer there? Before MPI does anything. */
static int mirror_check(struct mirror *mirror, const char **why)
{
	const size_t len = (size_t) (mirror->high - mirror->low);
	const struct iovec all = {mirror->buf + mirror->low, len};
	struct dev_mem mem;

	/* that also forgets that the host's memory was there once */
	if ((mirror->mem.mapped || mirror_within(&mirror->mem, all.iov_base, len)) &&
	    mem_classify(&all, 1, &mirror->mem, &mem) == 0 && mem.ops)
		return MPI_SUCCESS;
	if (len > APART_NEAR && !(mirror->apart = calloc(1, sizeof *mirror->apart))) {
		*why = mirror_no_memory;
		return MPI_ERR_NO_MEM;
	}
	for (size_t i = 0; i < mirror->count; i++) {
		if (!mirror_has_part(mirror, &mirror->parts[i])) {
			*why = mirror_leaves;
			return MPI_ERR_BUFFER;
		}
	}
	return MPI_SUCCESS;
}

/* ---- copies ---- */

/**
 * struct mirror_copy - copies of a mirror.
 * @lane:	NULL: nothing is copied, but counted
 * @cost:	what it takes, in bytes; @packed: with a kernel
 * @pack:	what a kernel copies; without memory: nothing
 * @at, @len, @rows, @pitch: runs that were met last, alike and at one distance, and are not copied so far
 */
struct mirror_copy {
	struct mirror *mirror;
	struct lane *lane;
	bool out;
	const char *why;
	size_t cost, packed;
	struct pack pack;
	MPI_Aint at, pitch;
	size_t len, rows;
};

/* Bytes beyond the allocation of the first one: virtual memory has several; of types with addresses any may be the host's. */
static int mirror_range_elsewhere(struct mirror_copy *copy, MPI_Aint at, size_t len)
{
	struct mirror *mirror = copy->mirror;
	struct dev_mem mem = {0};
	int ret = dev_find(mirror->buf + at, &mem);

	if (ret == 0 && mirror->buf == MPI_BOTTOM) {
		if (copy->out)
			memcpy(mirror->buf + at, mirror->host + at, len);
		else
			memcpy(mirror->host + at, mirror->buf + at, len);
		return MPI_SUCCESS;
	}
	if (ret <= 0 || !(mem.mapped || mirror_within(&mem, mirror->buf + at, len))) {
		copy->why = mirror_leaves;
		return MPI_ERR_BUFFER;
	}
	lane_settle(copy->lane, &mem);
	return lane_copy(copy->lane, mirror->buf + at, mirror->host + at, len, copy->out,
			 &copy->why);
}

static int mirror_range(struct mirror_copy *copy, MPI_Aint at, size_t len)
{
	struct mirror *mirror = copy->mirror;

	if (!mirror_within(&mirror->mem, mirror->buf + at, len))
		return mirror_range_elsewhere(copy, at, len);
	return lane_copy(copy->lane, mirror->buf + at, mirror->host + at, len, copy->out,
			 &copy->why);
}

/* Copies the runs that were met. */
static int mirror_rows(struct mirror_copy *copy)
{
	char *buf = copy->mirror->buf + copy->at, *host = copy->mirror->host + copy->at;
	const size_t rows = copy->rows, span = (rows - 1) * (size_t) copy->pitch + copy->len;
	const bool few = rows < MIRROR_FEW && copy->len <= MIRROR_SHORT;
	const size_t cost = MIRROR_COPY_COST + (rows - 1) * MIRROR_ROW_COST + rows * copy->len;
	int ret = MPI_SUCCESS;

	copy->rows = 0;
	if (!copy->lane) {
		copy->cost += cost;
		copy->packed += few ? rows * (MIRROR_PACK_COST + copy->len) : cost;
		return ret;
	}
	if (few && copy->pack.memory && mirror_within(&copy->mirror->mem, buf, span)) {
		for (size_t i = 0; i < rows && ret == MPI_SUCCESS; i++)
			ret = pack_run(&copy->pack, buf + (MPI_Aint) i * copy->pitch, copy->len,
				       &copy->why);
		return ret;
	}
	if (rows > 1 && mirror_within(&copy->mirror->mem, buf, span) &&
	    lane_rows(copy->lane, buf, host, copy->len, rows, (size_t) copy->pitch, copy->out))
		return ret;
	for (size_t i = 0; i < rows && ret == MPI_SUCCESS; i++)
		ret = mirror_range(copy, copy->at + (MPI_Aint) i * copy->pitch, copy->len);
	return ret;
}

/* Meets a run. */
static int mirror_run(struct mirror_copy *copy, MPI_Aint at, size_t len)
{
	/* from the last one */
	const MPI_Aint way = at - copy->at - (MPI_Aint) (copy->rows - 1) * copy->pitch;
	int ret = MPI_SUCCESS;

	if (copy->rows == 1 && way == (MPI_Aint) copy->len) {
		copy->len += len;
		return ret;
	}
	if (copy->rows && copy->len == len &&
	    (copy->rows == 1 ? way >= (MPI_Aint) len && way <= DEV_PITCH
			     : way == copy->pitch)) {
		copy->pitch = way;
		copy->rows++;
		return ret;
	}
	if (copy->rows)
		ret = mirror_rows(copy);
	copy->at = at;
	copy->len = len;
	copy->rows = 1;
	copy->pitch = 0;
	return ret;
}

static int mirror_part_runs(struct mirror_copy *copy, const struct mirror_part *part)
{
	const struct layout *layout = part->layout;
	int ret = MPI_SUCCESS;

	if (layout->count && layout_dense(layout))
		return mirror_run(copy, part->at + layout->runs[0].at,
				  part->count * layout->runs[0].len);
	for (size_t i = 0; i < part->count && ret == MPI_SUCCESS; i++) {
		for (size_t k = 0; k < layout->count && ret == MPI_SUCCESS; k++)
			ret = mirror_run(copy,
					 part->at + (MPI_Aint) i * layout->extent +
						 layout->runs[k].at,
					 layout->runs[k].len);
	}
	return ret;
}

static int mirror_runs(struct mirror_copy *copy)
{
	const struct mirror *mirror = copy->mirror;
	int ret = MPI_SUCCESS;

	for (size_t i = 0; i < mirror->count && ret == MPI_SUCCESS; i++) {
		if (mirror->parts[i].count && !(mirror->moved && mirror->moved[i]))
			ret = mirror_part_runs(copy, &mirror->parts[i]);
	}
	return copy->rows && ret == MPI_SUCCESS ? mirror_rows(copy) : ret;
}

/* What there is to do is counted, and then done in the way that takes least. */
static int mirror_best(struct mirror_copy *copy)
{
	struct mirror *mirror = copy->mirror;
	const size_t span = (size_t) (mirror->high - mirror->low);
	struct mirror_copy count = {.mirror = mirror};
	int ret;

	mirror_runs(&count);
	count.packed += MIRROR_KERNEL_COST;
	/* with all that is between the runs: nothing is written there */
	if (!copy->out && mirror_within(&mirror->mem, mirror->buf + mirror->low, span) &&
	    span + MIRROR_COPY_COST < count.cost && span + MIRROR_COPY_COST < count.packed)
		return mirror_range(copy, mirror->low, span);
	copy->pack = (struct pack){&copy->lane, &mirror->mem, copy->out,
				   .way = mirror->host - mirror->buf};
	if (count.packed >= count.cost || !pack_open(&copy->pack))
		return mirror_runs(copy);
	ret = mirror_runs(copy);
	return pack_close(&copy->pack, ret, &copy->why);
}

/* A request that is started again, or ends late, may find another allocation in the place of the first one. */
static int mirror_lane(struct mirror *mirror, struct lane **lane, const char **why)
{
	if (dev_find(mirror->first, &mirror->mem) > 0)
		return lane_open(&mirror->mem, lane, why);
	*why = mirror_gone;
	return MPI_ERR_BUFFER;
}

/* What mirror_copy() was called with, and returns */
struct mirror_lent {
	struct mirror *mirror;
	bool out;
	const char **why;
	int ret;
};

/* In a stream's host function the driver begins no copies: there a thread of ours does this */
static void *mirror_copy_lent(void *arg)
{
	struct mirror_lent *lent = arg;
	struct mirror_copy copy = {.mirror = lent->mirror, .out = lent->out};

	lent->ret = mirror_lane(lent->mirror, &copy.lane, lent->why);
	if (lent->ret != MPI_SUCCESS)
		return NULL;
	lent->ret = mirror_best(&copy);
	*lent->why = copy.why;
	if (copy.lane)
		lent->ret = lane_close(copy.lane, lent->ret, lent->why);
	return NULL;
}

static int mirror_copy(struct mirror *mirror, bool out, const char **why)
{
	struct mirror_lent lent = {mirror, out, why, MPI_SUCCESS};

	if (!dev_lend(mirror_copy_lent, &lent))
		mirror_copy_lent(&lent);
	return lent.ret;
}

int mirror_fill(struct mirror *mirror, const char **why)
{
	if (mirror->moved) {
		memset(mirror->moved, 0, mirror->count);
		/* what MPI is told of later need not be there yet */
		if (!mirror->writes)
			return MPI_SUCCESS;
	}
	return mirror->reads ? mirror_copy(mirror, false, why) : MPI_SUCCESS;
}

int mirror_drain(struct mirror *mirror, const char **why)
{
	return mirror->writes ? mirror_copy(mirror, true, why) : MPI_SUCCESS;
}

bool mirror_divide(struct mirror *mirror)
{
	mirror->moved = calloc(mirror->count, sizeof *mirror->moved);
	return mirror->moved;
}

int mirror_move(struct mirror *mirror, size_t part, const char **why)
{
	struct mirror_copy copy = {.mirror = mirror, .out = mirror->writes};
	int ret;

	if (part >= mirror->count || mirror->moved[part])
		return MPI_SUCCESS;
	ret = mirror_lane(mirror, &copy.lane, why);
	if (ret != MPI_SUCCESS)
		return ret;
	ret = mirror_part_runs(&copy, &mirror->parts[part]);
	if (ret == MPI_SUCCESS && copy.rows)
		ret = mirror_rows(&copy);
	*why = copy.why;
	mirror->moved[part] = true;
	return lane_close(copy.lane, ret, why);
}

/* ---- a mirror ---- */

/* Host memory, in which an offset is the same as in the buffer */
static int mirror_memory(struct mirror *mirror, const char **why)
{
	int ret;

	if (!mirror->apart) {
		ret = lane_memory(&mirror->mem, (size_t) (mirror->high - mirror->low),
				  &mirror->host, why);
		mirror->host -= ret == MPI_SUCCESS ? mirror->low : 0;
		return ret;
	}
	if (!apart_map(mirror->apart)) {
		*why = "no addresses are free for parts of the host's and of a GPU's";
		return MPI_ERR_NO_MEM;
	}
	mirror->host = mirror->buf + mirror->apart->shift;
	return MPI_SUCCESS;
}

int mirror_make(struct mirror **result, void *buf, struct mirror_part *parts, size_t count,
		int flags, size_t *bytes, const char **why)
{
	struct mirror *mirror = calloc(1, sizeof *mirror);
	int ret = MPI_SUCCESS, found = 0;

	*result = NULL;
	*bytes = 0;
	if (!mirror) {
		for (size_t i = 0; i < count; i++)
			layout_put(parts[i].layout);
		free(parts);
		*why = mirror_no_memory;
		return MPI_ERR_NO_MEM;
	}
	mirror->buf = buf;
	mirror->parts = parts;
	mirror->count = count;
	if (!mirror_bounds(mirror)) {
		*why = mirror_overflows;
		ret = MPI_ERR_COUNT;
	} else if (mirror->high > mirror->low) {
		found = mirror_find(mirror, flags & MIRROR_ABSENT, why);
		ret = found < 0 ? MPI_ERR_BUFFER : MPI_SUCCESS;
	}
	if (found > 0)
		ret = mirror_check(mirror, why);
	for (size_t i = 0; found > 0 && ret == MPI_SUCCESS && i < count; i++)
		*bytes += parts[i].count * parts[i].layout->size;
	if (found > 0 && ret == MPI_SUCCESS &&
	    !(flags & MIRROR_DIRECT && mirror_gapless(mirror)) &&
	    !(flags & MIRROR_PARTS && mirror_long_parts(mirror, *bytes)))
		ret = mirror_memory(mirror, why);
	if (!mirror->host) {
		mirror_free(mirror);
		return ret;
	}
	*result = mirror;
	return MPI_SUCCESS;
}

void mirror_free(struct mirror *mirror)
{
	if (mirror->host && mirror->apart)
		apart_unmap(mirror->apart);
	else if (mirror->host)
		lane_memory_free(&mirror->mem, mirror->host + mirror->low,
				 (size_t) (mirror->high - mirror->low));
	for (size_t i = 0; i < mirror->count; i++)
		layout_put(mirror->parts[i].layout);
	free(mirror->moved);
	free(mirror->apart);
	free(mirror->parts);
	free(mirror);
}
