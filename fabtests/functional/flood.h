/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Many messages in flight in both directions: the engine of two tests. */
#ifndef FT_FLOOD_H
#define FT_FLOOD_H

#include "ft_test.h"

#define FLOOD_MAX 128

/**
 * struct flood_round - what a round is like
 * @count:	messages each way
 * @tagged:	else (and where there are no tags) untagged, and always received in order
 * @one_tag:	all messages have the same tag: only order tells them apart. Else each has
 *		its own, and receives are posted in a random order
 * @any_source:	some receives take from any source, the others from the peer
 * @ignore:	some receives ignore some of the tag's bits
 * @early:	receives, of 100, that are posted before anything is sent
 * @sizes, @size_count: to choose from, at random; none: any up to @largest
 */
struct flood_round {
	size_t count;
	bool tagged, one_tag;
	bool any_source, ignore;
	unsigned int early;
	const size_t *sizes;
	size_t size_count, largest;
};

/** flood() - run the rounds, in both ranks; opens and closes the endpoint */
int flood(struct ft_proc *proc, const struct flood_round *rounds, size_t count);

#endif /* FT_FLOOD_H */
