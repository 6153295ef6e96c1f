/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What both halves of the unit tests of copy.c use: copies that remember their end. */
#ifndef P2P_UNIT_COPY_H
#define P2P_UNIT_COPY_H

#include "unit.h"

#include "mem/copy.h"

/**
 * struct job - a copy.
 * @turn:	how many ended before it, in all
 * @calls:	how often it was told of its end, with @status at last
 */
struct job {
	struct copy copy;
	unsigned int turn;
	unsigned int calls;
	int status;
};

extern unsigned int jobs_ended;

void job_init(struct job *job);

/* Progress until nothing is pending */
void jobs_wait(struct copy_engines *engines);

/* How the scenes are played: as a vendor's emulation can */
extern const struct unit_copy_play {
	const char *scene;
	const char *env[3];
} unit_copy_plays[];
extern const size_t unit_copy_play_count;

extern const struct CMUnitTest unit_copy_fake_tests[];
extern const size_t unit_copy_fake_count;

#endif /* P2P_UNIT_COPY_H */
