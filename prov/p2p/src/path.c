/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 3: the policy. See path.h. */
#include "path.h"

bool path_wants_peer(const struct path_query *query, const char **why)
{
	*why = NULL;
	if (!query->len)
		*why = "an empty message";
	else if (query->wish == PATH_STAGE_ONLY)
		*why = "FI_P2P_PATH or FI_OPT_FI_HMEM_P2P wants it staged";
	else if (query->inject)
		*why = "injected: the buffer is the application's again at once";
	else if (!query->layered && !query->direct)
		*why = "over a hook, and the core provider's CPU may touch a message's buffer";
	else if (!query->layered && query->len <= query->inline_max)
		*why = "short: the core provider's CPU copies it into the work request";
	else if (query->layered && query->len <= query->plain_max)
		*why = "short message: one copy is cheaper than a round trip";
	else if (query->layered && query->stalls)
		*why = "this core provider stops at a message that has no receive yet";
	else if (query->layered && query->name_len > query->name_max)
		*why = "the core provider's addresses are too long to announce";
	else if (query->layered && query->pieces > 1)
		*why = "a buffer of several pieces, and an announcement has one key";
	return !*why;
}

/* The ways through host memory */
static enum path_proto path_stage(const struct path_query *query)
{
	if (query->len <= query->short_max && (query->slot || query->len <= query->plain_max))
		return PATH_SHORT;
	if (!query->layered || query->inject || query->stalls ||
	    query->name_len > query->name_max)
		return PATH_WHOLE;
	return PATH_LONG;
}

struct path_choice path_choose(const struct path_query *query)
{
	const char *why;
	bool peer = path_wants_peer(query, &why) && query->peer;

	if (!query->device)
		return (struct path_choice){FI_P2P_PATH_HOST, PATH_CORE, "host memory"};
	if (peer)
		return (struct path_choice){FI_P2P_PATH_PEER,
					    query->layered ? PATH_READ : PATH_DIRECT,
					    "the NIC reaches the device memory"};
	if (!why)
		why = query->peer_why;
	if (query->len && (query->wish == PATH_PEER_ONLY ||
			   (query->wish == PATH_PEER_LONG && query->len > query->plain_max)))
		return (struct path_choice){FI_P2P_PATH_STAGE, PATH_NONE, why};
	return (struct path_choice){FI_P2P_PATH_STAGE, path_stage(query), why};
}
