/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Copies between a GPU buffer and the host memory that MPI gets in its place. See mirror.h. */
#include "mirror.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lane.h"

/* A copy of this many bytes takes about as long as beginning another one. */
#define MIRROR_COPY_COST 32768

/* ---- what is where ---- */

static bool mirror_bounds(struct mirror *mirror)
{
	bool any = false;

	for (size_t i = 0; i < mirror->count; i++) {
		const struct mirror_part *part = &mirror->parts[i];
		MPI_Aint first = part->at + part->layout->low,
			 last = part->at + part->layout->high, way;

		if (part->count == 0 || part->layout->count == 0)
			continue;
		if (__builtin_mul_overflow((MPI_Aint) part->count - 1, part->layout->extent,
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

/* Is the first byte a GPU's? With MPI_BOTTOM types have addresses, and may have some of each kind. */
static int mirror_find(struct mirror *mirror, const char **why)
{
	int ret = 0;

	for (size_t i = 0; i < mirror->count && ret == 0; i++) {
		const struct mirror_part *part = &mirror->parts[i];
		const size_t runs = mirror->buf == MPI_BOTTOM ? part->layout->count : 1;

		for (size_t k = 0;
		     part->count && k < runs && k < part->layout->count && ret == 0; k++)
			ret = dev_find(mirror->buf + part->at + part->layout->runs[k].at,
				       &mirror->mem);
	}
	if (ret < 0)
		*why = "the GPU's runtime does not say whose memory it is";
	return ret;
}

/* ---- copies ---- */

struct mirror_copy {
	struct mirror *mirror;
	struct lane *lane;
	bool out;
	const char *why;
};

static bool mirror_within(const struct dev_mem *mem, const char *addr, size_t len)
{
	return mem->ops && (uintptr_t) addr >= mem->base && len <= mem->size &&
	       (uintptr_t) addr - mem->base <= mem->size - len;
}

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
		copy->why = "the buffer is longer than the GPU's allocation that it begins in";
		return MPI_ERR_BUFFER;
	}
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

static int mirror_part_copy(struct mirror_copy *copy, const struct mirror_part *part)
{
	const struct layout *layout = part->layout;
	int ret = MPI_SUCCESS;

	if (layout->count && layout_dense(layout))
		return mirror_range(copy, part->at + layout->runs[0].at,
				    part->count * layout->runs[0].len);
	for (size_t i = 0; i < part->count && ret == MPI_SUCCESS; i++) {
		for (size_t k = 0; k < layout->count && ret == MPI_SUCCESS; k++)
			ret = mirror_range(copy,
					   part->at + (MPI_Aint) i * layout->extent +
						   layout->runs[k].at,
					   layout->runs[k].len);
	}
	return ret;
}

/* Are there so many runs that all between them had better be copied as well? Nothing is written there. */
static bool mirror_whole(const struct mirror *mirror)
{
	const size_t len = (size_t) (mirror->high - mirror->low);
	size_t runs = 0;

	for (size_t i = 0; i < mirror->count; i++)
		runs += layout_dense(mirror->parts[i].layout)
				? 1
				: mirror->parts[i].count * mirror->parts[i].layout->count;
	return len / MIRROR_COPY_COST < runs &&
	       mirror_within(&mirror->mem, mirror->buf + mirror->low, len);
}

static int mirror_copy(struct mirror *mirror, bool out, const char **why)
{
	struct mirror_copy copy = {mirror, NULL, out, NULL};
	int ret = lane_open(&mirror->mem, &copy.lane, why);

	if (ret != MPI_SUCCESS)
		return ret;
	if (!out && mirror_whole(mirror))
		ret = mirror_range(&copy, mirror->low, (size_t) (mirror->high - mirror->low));
	else
		for (size_t i = 0; i < mirror->count && ret == MPI_SUCCESS; i++) {
			if (mirror->parts[i].count)
				ret = mirror_part_copy(&copy, &mirror->parts[i]);
		}
	*why = copy.why;
	return lane_close(copy.lane, ret, why);
}

int mirror_fill(struct mirror *mirror, const char **why)
{
	return mirror->reads ? mirror_copy(mirror, false, why) : MPI_SUCCESS;
}

int mirror_drain(struct mirror *mirror, const char **why)
{
	return mirror->writes ? mirror_copy(mirror, true, why) : MPI_SUCCESS;
}

/* ---- a mirror ---- */

int mirror_make(struct mirror **result, void *buf, struct mirror_part *parts, size_t count,
		bool direct, size_t *bytes, const char **why)
{
	struct mirror *mirror = calloc(1, sizeof *mirror);
	int ret = MPI_SUCCESS, found = 0;

	*result = NULL;
	*bytes = 0;
	if (!mirror) {
		for (size_t i = 0; i < count; i++)
			layout_put(parts[i].layout);
		free(parts);
		*why = "no memory for what it is about";
		return MPI_ERR_NO_MEM;
	}
	mirror->buf = buf;
	mirror->parts = parts;
	mirror->count = count;
	if (!mirror_bounds(mirror)) {
		*why = "the data is longer than any memory";
		ret = MPI_ERR_COUNT;
	} else if (mirror->high > mirror->low) {
		found = mirror_find(mirror, why);
		ret = found < 0 ? MPI_ERR_BUFFER : MPI_SUCCESS;
	}
	for (size_t i = 0; found > 0 && i < count; i++)
		*bytes += parts[i].count * parts[i].layout->size;
	if (found > 0 && !(direct && mirror_gapless(mirror)))
		ret = lane_memory(&mirror->mem, (size_t) (mirror->high - mirror->low),
				  &mirror->host, why);
	if (!mirror->host) {
		mirror_free(mirror);
		return ret;
	}
	/* so that an offset is the same from either */
	mirror->host -= mirror->low;
	*result = mirror;
	return MPI_SUCCESS;
}

void mirror_free(struct mirror *mirror)
{
	if (mirror->host)
		lane_memory_free(&mirror->mem, mirror->host + mirror->low,
				 (size_t) (mirror->high - mirror->low));
	for (size_t i = 0; i < mirror->count; i++)
		layout_put(mirror->parts[i].layout);
	free(mirror->parts);
	free(mirror);
}
