/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Chooses the path of a message. See path.h. */
#include "path/path.h"

#include "path/cost.h"

/* Says why only host memory can carry a message, whatever else there is; NULL: other ways may */
static const char *path_only_stage(const struct path_query *query)
{
	if (!query->len)
		return "an empty message";
	if (query->policy == PATH_STAGE_ONLY)
		return "FI_P2P_PATH or FI_OPT_FI_HMEM_P2P wants it staged";
	if (query->inject)
		return "injected: the buffer is the application's again at once";
	return NULL;
}

/* Why a message cannot be announced with its memory; NULL: it can */
static const char *path_announce_not(const struct path_query *query)
{
	if (query->foreign)
		return "the receiver has not answered a greeting of this provider's";
	if (query->stalls)
		return "this core provider stops at a message that has no receive yet";
	if (query->unnamed)
		return "the core provider's addresses are too long to announce";
	if (query->pieces > 1)
		return "a buffer of several pieces, and an announcement has one key";
	return NULL;
}

bool path_wants_peer(const struct path_query *query, const char **why)
{
	*why = path_only_stage(query);
	if (*why)
		return false;
	if (query->policy == PATH_NO_NIC)
		*why = "FI_OPT_FI_HMEM_P2P leaves the NIC out";
	else if (query->policy == PATH_ACROSS_LONG)
		*why = "FI_P2P_PATH=ipc leaves the NIC out";
	else if (!query->announced && !query->direct)
		*why = "over a hook, and the core provider's CPU may touch a message's buffer";
	else if (!query->announced && query->len <= query->inline_max)
		*why = "short: the core provider's CPU copies it into the work request";
	else if (query->announced && query->len <= query->plain_max)
		*why = "short message: one copy is cheaper than a round trip";
	else if (query->announced)
		*why = path_announce_not(query);
	return !*why;
}

/* Chooses among the ways through host memory */
static enum path_proto path_stage(const struct path_query *query)
{
	const bool announces = query->announced && !query->inject && !query->stalls &&
			       !query->foreign && !query->unnamed;

	if (query->lends && announces && query->slot && query->len <= query->short_max &&
	    (query->asked || query->len > cost_lend_min()))
		return PATH_LENT;
	if (query->len <= query->short_max && (query->slot || query->len <= query->plain_max))
		return PATH_SHORT;
	return announces ? PATH_LONG : PATH_WHOLE;
}

bool path_wants_across(const struct path_query *query, const char **why)
{
	*why = path_only_stage(query);
	if (*why)
		return false;
	if (query->policy == PATH_PEER_LONG || query->policy == PATH_PEER_ONLY)
		*why = "FI_P2P_PATH or FI_OPT_FI_HMEM_P2P leaves nothing but the NIC";
	else if (query->announced && query->len <= query->plain_max && !query->follows)
		*why = query->near
			       ? "short message: its receiver has not said that it follows up all"
			       : "short message: one copy is cheaper than a round trip";
	else if (query->announced)
		*why = path_announce_not(query);
	if (*why || !query->announced || query->policy == PATH_ACROSS_LONG ||
	    path_stage(query) == PATH_LONG)
		return !*why;
	/* a receiver that cannot take it so would have to ask for it first */
	if (!query->near && !query->asked && !(query->takes && query->len > cost_lend_min()))
		*why = "short enough to be sent at once, to whatever host";
	else if (query->refuses)
		*why = "short enough to be sent at once to who has refused it before";
	return !*why;
}

const char *path_far_reason(uint64_t far)
{
	static const char *const reasons[PATH_FAR_KINDS] = {
		[PATH_FAR_UNKNOWN] = "the receiver asks for the message in pieces",
		[PATH_FAR_NOT] = "one copy from device to device, within the host",
		[PATH_FAR_HOST] = "the receiver is on another host",
		[PATH_FAR_BUFFER] = "the receiver's buffer is host memory",
		[PATH_FAR_POLICY] = "the receiver's FI_P2P_PATH or FI_OPT_FI_HMEM_P2P wants it "
				    "staged",
		[PATH_FAR_CLOSED] =
			"the receiver cannot open the sender's memory, or its board",
		[PATH_FAR_BUSY] =
			"the receiver has as much of other processes' memory in use as "
			"FI_P2P_MAP_COUNT allows, or may close none beside kernels that wait",
		[PATH_FAR_USER] =
			"the receiver is another user's, or has another user id in its user namespace",
		[PATH_FAR_SPACES] =
			"the receiver is in another network namespace, and in another PID or "
			"user namespace",
		[PATH_FAR_NET] = "the receiver is in another network namespace, where it "
				 "cannot ask for virtual memory",
		[PATH_FAR_NUMBER] = "the receiver is in another PID namespace, and has the "
				    "sender's process id there",
	};

	return reasons[far < PATH_FAR_KINDS ? far : PATH_FAR_UNKNOWN];
}

struct path_choice path_choose(const struct path_query *query)
{
	const char *why, *far_why;
	bool peer = path_wants_peer(query, &why) && query->peer;
	bool across = path_wants_across(query, &far_why) && query->across;
	bool here = query->near || query->policy == PATH_ACROSS_LONG || !query->announced;

	if (peer)
		return (struct path_choice){FI_P2P_PATH_PEER,
					    query->announced ? PATH_READ : PATH_DIRECT,
					    "the NIC reaches the device memory"};
	if (!why)
		why = query->peer_why;
	/* the receiver's host is not known yet */
	if (across)
		return (struct path_choice){here ? FI_P2P_PATH_IPC : FI_P2P_PATH_STAGE,
					    PATH_ACROSS,
					    here ? path_far_reason(PATH_FAR_NOT) : why};
	if (query->near || query->policy == PATH_ACROSS_LONG)
		why = far_why ? far_why : query->across_why;
	if (query->len &&
	    (query->policy == PATH_PEER_ONLY ||
	     ((query->policy == PATH_PEER_LONG || query->policy == PATH_ACROSS_LONG) &&
	      query->len > query->plain_max)))
		return (struct path_choice){FI_P2P_PATH_STAGE, PATH_NONE, why};
	return (struct path_choice){FI_P2P_PATH_STAGE, path_stage(query), why, query->foreign};
}
