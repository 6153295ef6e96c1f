/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The messages of --check and --serve. See check.h. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

/* A short message, and then long ones: the first of them may go without lanes */
#define EP_MESSAGES 5
/* A message that takes longer will not come [s] */
#define EP_PATIENCE 15
#define EP_NAME_MAX 512

static struct fi_info *ep_getinfo(const char *provider, const char *own)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;

	if (!hints)
		return NULL;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_HMEM;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	if (fi_getinfo(FI_VERSION(1, 17), own, NULL, own ? FI_SOURCE : 0, hints, &found))
		found = NULL;
	fi_freeinfo(hints);
	return found;
}

static const struct info_gpu *ep_gpu(const struct info *info)
{
	for (size_t i = 0; i < info->gpu_count; i++) {
		if (info->gpus[i].buffer && info_gpu_works(info, i))
			return &info->gpus[i];
	}
	return NULL;
}

const char *check_ep_open(struct check_ep *ep, const struct info *info, const char *provider,
			  const char *own)
{
	static char host[INFO_BUFFER];
	struct fi_info *found = own ? ep_getinfo(provider, own) : NULL;
	const char *why;
	int ret;

	/* the network of the TCP connection may be another one than the provider's */
	if (!found)
		found = ep_getinfo(provider, NULL);
	if (!found)
		return info_text("%s is not offered", provider);
	why = info_open(&ep->fids, found);
	fi_freeinfo(found);
	if (why)
		return why;
	ret = fi_open_ops(&ep->fids.ep->fid, FI_P2P_STATS_OPS, 0, (void **) &ep->ops, NULL);
	if (ret)
		return info_text("fi_open_ops: %s", fi_strerror(-ret));
	ep->gpu = ep_gpu(info);
	ep->buffer = ep->gpu ? ep->gpu->buffer : host;
	return NULL;
}

const char *check_ep_address(struct check_ep *ep)
{
	unsigned char name[EP_NAME_MAX];
	size_t len = sizeof name;
	char *text = NULL;

	if (fi_getname(&ep->fids.ep->fid, name, &len))
		return NULL;
	for (size_t i = 0; i < len; i++)
		text = info_text("%s%02x", text ? text : "", name[i]);
	return text;
}

static const char *ep_insert(struct check_ep *ep, const char *address, fi_addr_t *peer)
{
	unsigned char name[EP_NAME_MAX] = {0};
	unsigned int byte;

	for (size_t i = 0; i < sizeof name && sscanf(address + 2 * i, "%2x", &byte) == 1; i++) {
		name[i] = (unsigned char) byte;
		if (!address[2 * i + 1] || !address[2 * i + 2])
			break;
	}
	return fi_av_insert(ep->fids.av, name, 1, peer, 0, NULL) == 1
		       ? NULL
		       : "fi_av_insert: the other host's address is refused";
}

/* The operations of one message each way */
struct ep_turn {
	struct fi_context2 send, recv;
	bool sent, received;
};

static const char *ep_failed(struct check_ep *ep)
{
	union {
		struct fi_cq_err_entry entry;
		char room[256];
	} err;

	memset(&err, 0, sizeof err);
	if (fi_cq_readerr(ep->fids.cq, &err.entry, 0) != 1)
		return "fi_cq_read fails";
	return info_text("a message has failed: %s", fi_strerror(err.entry.err));
}

/* One look. Returns NULL, or an error */
static const char *ep_look(struct check_ep *ep, struct ep_turn *turn)
{
	struct fi_cq_tagged_entry comp;
	ssize_t ret = fi_cq_read(ep->fids.cq, &comp, 1);

	if (ret == -FI_EAVAIL)
		return ep_failed(ep);
	if (ret < 0 && ret != -FI_EAGAIN)
		return info_text("fi_cq_read: %s", fi_strerror((int) -ret));
	if (ret == 1 && turn) {
		turn->sent |= comp.op_context == &turn->send;
		turn->received |= comp.op_context == &turn->recv;
	}
	return NULL;
}

void check_ep_turn(void *ep)
{
	ep_look(ep, NULL);
}

static const char *ep_message(struct check_ep *ep, fi_addr_t peer, size_t len, uint64_t tag)
{
	struct ep_turn turn = {.sent = false};
	const time_t end = time(NULL) + EP_PATIENCE;
	bool posted = false, asked = false;
	const char *why = NULL;
	ssize_t ret = 0;

	while (!why && (!turn.sent || !turn.received)) {
		if (!asked) {
			ret = fi_trecv(ep->fids.ep, ep->buffer + INFO_LONG, len, NULL, peer,
				       tag, 0, &turn.recv);
			asked = !ret;
		}
		if (asked && !posted) {
			ret = fi_tsend(ep->fids.ep, ep->buffer, len, NULL, peer, tag,
				       &turn.send);
			posted = !ret;
		}
		if (ret && ret != -FI_EAGAIN)
			return info_text("%s: %s", asked ? "fi_tsend" : "fi_trecv",
					 fi_strerror((int) -ret));
		why = ep_look(ep, &turn);
		if (!why && time(NULL) > end)
			why = info_text("nothing %s for %d s: its sockets have other ports "
					"than this check. Look at firewalls, and at the "
					"interface that it uses",
					turn.sent ? "comes" : "goes", EP_PATIENCE);
	}
	return why;
}

/* The path that a message took: the one that counts one more */
static void ep_took(const struct fi_p2p_stats *before, const struct fi_p2p_stats *after,
		    struct check_result *result, int which)
{
	for (int path = 0; path < FI_P2P_PATH_MAX; path++) {
		if (after->tx_msgs[path] == before->tx_msgs[path])
			continue;
		result->path[which] = info_path_word((enum fi_p2p_path) path);
		result->reason[which] = *after->reason[path]
						? info_text("%s", after->reason[path])
						: info_text("%s memory", result->path[which]);
	}
}

void check_ep_exchange(struct check_ep *ep, const char *address, struct check_result *result)
{
	struct fi_p2p_stats before, after;
	fi_addr_t peer;

	memset(&before, 0, sizeof before);
	after = before;
	result->error = ep_insert(ep, address, &peer);
	for (int i = 0; i < EP_MESSAGES && !result->error; i++) {
		before = after;
		result->error = ep_message(ep, peer, i ? INFO_LONG : INFO_SHORT, (uint64_t) i);
		ep->ops->read(&ep->fids.ep->fid, &after, sizeof after);
		ep_took(&before, &after, result, i > 0);
	}
	result->lane_pieces = info_text("%llu", (unsigned long long) after.lane_pieces);
}
