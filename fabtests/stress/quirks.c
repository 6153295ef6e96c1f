/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What libfabric's own providers are known to do wrong or not at all, with or without
 * ours on top: plans leave it out.
 */
#include <stdio.h>
#include <string.h>

#include "stress.h"

#define ANY_VERSION FI_VERSION(255, 0)

/* With ours on top: as bad, made up for, or so where there may be device memory */
enum cure { STAYS, CURED, CURED_HMEM };

/* @prov: without ours; ofi_rxm is meant over any; @from, @below: versions of libfabric */
static const struct {
	const char *prov;
	enum cure cure;
	uint32_t from, below;
	unsigned int quirks;
	const char *why;
} table[] = {
	{"shm", STAYS, 0, FI_VERSION(1, 18), QUIRK_IGNORE,
	 "compares unexpected messages with the wrong side's ignored bits"},
	{"shm", STAYS, 0, ANY_VERSION, QUIRK_MIX,
	 "receives from any source and directed ones lose their order"},
	{"ofi_rxm", STAYS, FI_VERSION(1, 18), ANY_VERSION, QUIRK_MIX,
	 "receives from any source and directed ones lose their order"},
	{"shm", STAYS, 0, FI_VERSION(2, 0), QUIRK_ORDER,
	 "loses the order when some receives are posted before and some after arrival"},
	{"shm", CURED, 0, ANY_VERSION, QUIRK_DATA,
	 "reports messages with remote cq data that were not to be reported"},
	{"shm", STAYS, 0, ANY_VERSION, QUIRK_NOTHING,
	 "hangs when the delivery of an empty message is asked for"},
	{"ofi_rxm", STAYS, 0, ANY_VERSION, QUIRK_DELIVERY,
	 "calls a message delivered that lies in a buffer of its own"},
	{"ofi_rxm", STAYS, 0, ANY_VERSION, QUIRK_EMPTY,
	 "loses messages of several pieces of which one is empty"},
	{"shm", STAYS, 0, FI_VERSION(1, 19), QUIRK_PEEK, "takes peeks for receives"},
	{"shm", STAYS, 0, FI_VERSION(1, 19), QUIRK_NOMEM,
	 "says -FI_ENOMEM when all of its receives are in use"},
	{"net", STAYS, 0, ANY_VERSION, QUIRK_PEEK,
	 "looks for the first message that has come, and no further"},
	{"ofi_rxm", STAYS, 0, ANY_VERSION, QUIRK_CLAIM,
	 "claims only the first part of a message that comes in several"},
	{"verbs;ofi_rxm", CURED_HMEM, 0, ANY_VERSION, QUIRK_ATOMICS,
	 "reports other sends than those that ended, after atomic operations"},
	{"net", STAYS, 0, ANY_VERSION, QUIRK_EPS,
	 "mixes up the unexpected messages of a domain's endpoints"},
	{"net", STAYS, 0, ANY_VERSION, QUIRK_DELIVERY,
	 "calls a message delivered that lies in a buffer of its own"},
	{"net", STAYS, 0, ANY_VERSION, QUIRK_COUNTERS,
	 "crashes when it counts a message that came before its receive"},
	{"net", STAYS, 0, ANY_VERSION, QUIRK_SELECTIVE, "reports what was not to be reported"},
	{"net", STAYS, 0, ANY_VERSION, QUIRK_UNEXPECTED,
	 "reads no more from a peer whose message has no receive"},
	{"net", STAYS, 0, ANY_VERSION, QUIRK_UNEVEN,
	 "reads from some of many peers less than from others"},
	{"shm", STAYS, FI_VERSION(2, 0), ANY_VERSION, QUIRK_DELIVERY,
	 "calls a message delivered that lies in a buffer of its own"},
	{"shm", STAYS, FI_VERSION(2, 0), ANY_VERSION, QUIRK_MULTI,
	 "does not return from a read when a long message meets a buffer for many"},
	{"tcp", CURED, FI_VERSION(1, 18), ANY_VERSION, QUIRK_SELECTIVE,
	 "does not report multi-receives where only what is asked for is reported"},
	{"tcp", STAYS, FI_VERSION(1, 18), ANY_VERSION, QUIRK_EPS,
	 "mixes up the unexpected messages of a domain's endpoints"},
	{"tcp", STAYS, FI_VERSION(1, 18), ANY_VERSION, QUIRK_DELIVERY,
	 "calls a message delivered that lies in a buffer of its own"},
	{"tcp", CURED, FI_VERSION(1, 18), ANY_VERSION, QUIRK_REMOTE,
	 "counts no reads of peers, and writes only if they come with data"},
	{"tcp", STAYS, FI_VERSION(1, 18), ANY_VERSION, QUIRK_UNEXPECTED,
	 "stops at 64 unexpected messages"},
};

/* Our part of the name is not the core's. */
static bool matches(const char *prov, bool hmem, const char *core, enum cure cure)
{
	const bool stays = cure == STAYS || (cure == CURED_HMEM && !hmem);
	size_t len = strlen(core);
	const char *over = strstr(prov, ";ofi_rxm");

	if (over && !strcmp(core, "ofi_rxm"))
		prov = over + 1;
	return !strncmp(prov, core, len) &&
	       (!prov[len] || (stays && !strcmp(prov + len, ";ofi_p2p")));
}

unsigned int stress_quirks(const char *prov, bool hmem, bool say)
{
	unsigned int quirks = 0;

	for (size_t i = 0; i < FT_COUNT(table); i++) {
		if (!matches(prov, hmem, table[i].prov, table[i].cure) ||
		    fi_version() < table[i].from || fi_version() >= table[i].below)
			continue;
		quirks |= table[i].quirks;
		if (say)
			printf("note: left out, as %s %s\n", table[i].prov, table[i].why);
	}
	return quirks;
}
