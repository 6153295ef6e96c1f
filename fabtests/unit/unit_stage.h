/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The parts of the unit tests of stage.c. */
#ifndef P2P_UNIT_STAGE_H
#define P2P_UNIT_STAGE_H

#include "unit.h"

extern const struct CMUnitTest unit_stage_reserve_tests[];
extern const size_t unit_stage_reserve_count;

extern const struct CMUnitTest unit_stage_parts_tests[];
extern const size_t unit_stage_parts_count;

#endif /* P2P_UNIT_STAGE_H */
