/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The tags that we offer, one bit fewer than the core has. What was offered is kept when fi_getinfo's answer is gone. */
#ifndef P2P_INFO_TAGS_H
#define P2P_INFO_TAGS_H

#include <stdint.h>
#include <rdma/fabric.h>

/*
 * The tag bit that is ours, for an endpoint that advertises @format (mem_tag_format). It is the
 * one above those that the application may use. 0: there is none.
 */
uint64_t info_tag_bit(uint64_t format);

/* One bit less than the core has. The shift keeps the pattern of alternating fields. */
uint64_t info_tag_format(uint64_t core_format);

/* Remembers which tags our answer @info offers; its prov_name is still the core's. */
void info_offer(const struct fi_info *info);

/*
 * The mem_tag_format that was offered for @core (made by info_to_core()), where the application says @format. Both
 * ends derive the tag bit that is ours from it, so what an application writes there does not count: 0 often
 * means "not specified". @format itself if nothing was offered.
 */
uint64_t info_offered_format(const struct fi_info *core, uint64_t format);

#endif /* P2P_INFO_TAGS_H */
