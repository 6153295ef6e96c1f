/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Failures that may pass: what has failed is left alone for a time that doubles with each failure, from
 * RETRY_LEAST to RETRY_MOST. So a failure that passes costs little time, and one that stays few attempts. Who has
 * done without a failure for RETRY_MOST starts anew.
 */
#ifndef P2P_RETRY_H
#define P2P_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#define RETRY_LEAST 1000000ULL    /* [ns] */
#define RETRY_MOST 60000000000ULL /* [ns] */

/**
 * struct retry - what is remembered of one thing; all zero before its first failure.
 * @delay:	how long it was left alone the last time [ns]; 0: it has never failed
 * @until:	when that was over [ns]
 */
struct retry {
	uint64_t delay;
	uint64_t until;
};

/* It has failed */
void retry_failed(struct retry *retry);

/* Is it time to try it again? */
bool retry_passed(const struct retry *retry);

/*
 * Tells whether something that has failed may be tried once more. It costs one load where nothing has failed.
 */
static inline bool retry_due(const struct retry *retry)
{
	return !retry->delay || retry_passed(retry);
}

#endif /* P2P_RETRY_H */
