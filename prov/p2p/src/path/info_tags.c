/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The tags that we offer. See info_tags.h. */
#include "path/info_tags.h"

#include <string.h>
#include <strings.h>
#include <rdma/fi_endpoint.h>

#include "base/base.h"
#include "base/process.h"
#include "path/info.h"

/* The fields of internal tags lie below this bit (wire.h) */
#define INFO_TAG_BIT_MIN 61

/* Formats up to this one are names of a tag's layout, and not masks (FI_TAG_MAX_FORMAT) */
#define INFO_TAG_FORMATS (1ULL << 16)

/* 63 bits, as a mask of alternating fields of one bit each */
#define INFO_TAG_63_BITS 0x5555555555555555ULL

uint64_t info_tag_bit(uint64_t format)
{
	int bit = 64 - __builtin_clzll(format | 1);

	return bit < INFO_TAG_BIT_MIN || bit > 63 ? 0 : 1ULL << bit;
}

uint64_t info_tag_format(uint64_t core_format)
{
	return core_format < INFO_TAG_FORMATS ? INFO_TAG_63_BITS : core_format >> 1;
}

/* ---- what tags were offered ---- */

/* More than there are core providers. The oldest entry makes room for one more. */
#define INFO_OFFERS 32
#define INFO_OFFER_NAME 64

/* A core with FI_COLLECTIVE may have a bit less for tags. */
struct info_offer {
	char core[INFO_OFFER_NAME];
	bool collective;
	uint64_t format;
};

static struct info_offer info_offers[INFO_OFFERS];
static size_t info_offer_count;

static bool info_offer_is(const struct info_offer *offer, const struct fi_info *info)
{
	return info->fabric_attr && info->fabric_attr->prov_name &&
	       !strncasecmp(offer->core, info->fabric_attr->prov_name, sizeof offer->core - 1);
}

static bool info_offer_fits(const struct info_offer *offer, const struct fi_info *info)
{
	return info_offer_is(offer, info) &&
	       offer->collective == !!(info->caps & FI_COLLECTIVE);
}

void info_offer(const struct fi_info *info)
{
	struct info_offer *offer;
	size_t count;

	if (!info_is_rdm(info) || !info->fabric_attr->prov_name)
		return;
	process_lock(PROCESS_TABLES);
	count = P2P_MIN(info_offer_count, INFO_OFFERS);
	for (offer = info_offers; offer < info_offers + count; offer++) {
		if (info_offer_fits(offer, info))
			break;
	}
	if (offer == info_offers + count)
		offer = &info_offers[info_offer_count++ % INFO_OFFERS];
	*offer = (struct info_offer){
		.collective = info->caps & FI_COLLECTIVE,
		.format = info->ep_attr->mem_tag_format,
	};
	strncpy(offer->core, info->fabric_attr->prov_name, sizeof offer->core - 1);
	process_unlock(PROCESS_TABLES);
}

uint64_t info_offered_format(const struct fi_info *core, uint64_t format)
{
	const struct info_offer *offer;
	uint64_t offered = format;

	process_lock(PROCESS_TABLES);
	for (size_t i = 0; i < P2P_MIN(info_offer_count, INFO_OFFERS); i++) {
		offer = &info_offers[i];
		if (info_offer_is(offer, core) && offer->format == format) {
			offered = format;
			break;
		}
		if (info_offer_fits(offer, core))
			offered = offer->format;
	}
	process_unlock(PROCESS_TABLES);
	return offered;
}
