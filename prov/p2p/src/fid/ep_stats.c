/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The statistics of an endpoint. See ep_stats.h. */
#include "fid/ep_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "fid/fid.h"
#include "proto/post.h"
#include "xfer/ep_state.h"

/* The endpoint that the application names; NULL: it is none of ours */
static struct p2p_ep *ep_stats_ep(struct fid *fid)
{
	return fid_class(fid) && fid->fclass == FI_CLASS_EP ? ep_of(fid) : NULL;
}

static int ep_stats_read(struct fid *fid, struct fi_p2p_stats *stats, size_t size)
{
	struct p2p_ep *ep = ep_stats_ep(fid);
	struct fi_p2p_stats now;

	if (!ep || !stats)
		return -FI_EINVAL;
	p2p_lock_take(&ep->domain->xfer.lock);
	now = ep->xfer.stats;
	for (int i = 0; i < FI_P2P_PATH_MAX; i++)
		snprintf(now.reason[i], sizeof now.reason[i], "%s",
			 ep->xfer.reason[i] ? ep->xfer.reason[i] : "");
	p2p_lock_drop(&ep->domain->xfer.lock);
	memcpy(stats, &now, P2P_MIN(size, sizeof now));
	return 0;
}

static int ep_stats_path(struct fid *fid, const void *buf, size_t len, enum fi_p2p_path *path,
			 char *reason, size_t size)
{
	struct p2p_ep *ep = ep_stats_ep(fid);
	const struct iovec iov = {(void *) buf, len};
	const struct p2p_op op = {.type = FI_OP_SEND,
				  .msg.msg_iov = &iov,
				  .msg.iov_count = 1,
				  .msg.addr = FI_ADDR_NOTAVAIL};
	struct path_choice choice = {.reason = ""};
	int ret;

	if (!ep || !path || !reason)
		return -FI_EINVAL;
	ret = xfer_ask_path(&ep->xfer, &op, &choice);
	*path = choice.path;
	snprintf(reason, size, "%s", choice.reason);
	return ret;
}

bool ep_stats_own_ops(struct fid *fid, const char *name, void **ops)
{
	static struct fi_p2p_stats_ops stats_ops = {
		.size = sizeof(struct fi_p2p_stats_ops),
		.read = ep_stats_read,
		.path = ep_stats_path,
	};
	struct p2p_ep *ep = ep_stats_ep(fid);

	if (!ep || strcmp(name, FI_P2P_STATS_OPS))
		return false;
	p2p_lock_take(&ep->domain->xfer.lock);
	__atomic_store_n(&ep->xfer.tally, true, __ATOMIC_RELAXED);
	xfer_ep_limit(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
	*ops = &stats_ops;
	return true;
}

static void ep_stats_print_text(const struct p2p_ep *ep)
{
	static const char *const names[FI_P2P_PATH_MAX] = {"host", "staged", "ipc", "peer"};
	const struct fi_p2p_stats *stats = &ep->xfer.stats;

	for (int i = 0; i < FI_P2P_PATH_MAX; i++) {
		if (stats->tx_msgs[i] || stats->rx_msgs[i])
			fprintf(stderr,
				"libfabric:p2p: endpoint %p: %s: sent %" PRIu64 " (%" PRIu64
				" bytes), received %" PRIu64 " (%" PRIu64 " bytes)%s%s\n",
				(const void *) ep, names[i], stats->tx_msgs[i],
				stats->tx_bytes[i], stats->rx_msgs[i], stats->rx_bytes[i],
				ep->xfer.reason[i] ? ": " : "",
				ep->xfer.reason[i] ? ep->xfer.reason[i] : "");
	}
	fprintf(stderr,
		"libfabric:p2p: endpoint %p: copies %" PRIu64 " (%" PRIu64
		" bytes), pins %" PRIu64 ", found pinned %" PRIu64 ", taken back %" PRIu64 "\n",
		(const void *) ep, stats->copies, stats->copy_bytes, stats->pins,
		stats->cache_hits, stats->evictions);
	if (stats->commits)
		fprintf(stderr,
			"libfabric:p2p: endpoint %p: made durable %" PRIu64
			" operations of peers\n",
			(const void *) ep, stats->commits);
	if (stats->lane_pieces)
		fprintf(stderr,
			"libfabric:p2p: endpoint %p: sent %" PRIu64 " pieces by lanes\n",
			(const void *) ep, stats->lane_pieces);
	if (stats->lent)
		fprintf(stderr,
			"libfabric:p2p: endpoint %p: left %" PRIu64
			" messages in slots, for their receivers to read\n",
			(const void *) ep, stats->lent);
	if (ep->domain->xfer.wrong)
		fprintf(stderr,
			"libfabric:p2p: endpoint %p: its domain has dropped %" PRIu64
			" control messages that no honest peer sends\n",
			(const void *) ep, ep->domain->xfer.wrong);
}

/* A string; reasons may be others' words */
static void ep_stats_json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if ((unsigned char) *text < ' ')
			fprintf(out, "\\u%04x", *text);
		else
			fputc(*text, out);
	}
	fputc('"', out);
}

static void ep_stats_json_path(FILE *out, const struct p2p_ep *ep, enum fi_p2p_path path)
{
	static const char *const names[FI_P2P_PATH_MAX] = {"host", "stage", "ipc", "peer"};
	const struct fi_p2p_stats *stats = &ep->xfer.stats;

	fprintf(out,
		"%s\"%s\":{\"tx_msgs\":%" PRIu64 ",\"tx_bytes\":%" PRIu64
		",\"rx_msgs\":%" PRIu64 ",\"rx_bytes\":%" PRIu64 ",\"reason\":",
		path ? "," : "", names[path], stats->tx_msgs[path], stats->tx_bytes[path],
		stats->rx_msgs[path], stats->rx_bytes[path]);
	ep_stats_json_string(out, ep->xfer.reason[path] ? ep->xfer.reason[path] : "");
	fputc('}', out);
}

/* The names are those of struct fi_p2p_stats. One line, written at once: ranks share stderr. */
static void ep_stats_print_json(const struct p2p_ep *ep)
{
	const struct fi_p2p_stats *stats = &ep->xfer.stats;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	fprintf(out, "{\"provider\":\"%s\",\"pid\":%d,\"endpoint\":\"%p\",\"paths\":{",
		log_prov->name, (int) getpid(), (const void *) ep);
	for (int i = 0; i < FI_P2P_PATH_MAX; i++)
		ep_stats_json_path(out, ep, i);
	fprintf(out,
		"},\"copies\":%" PRIu64 ",\"copy_bytes\":%" PRIu64 ",\"pins\":%" PRIu64
		",\"cache_hits\":%" PRIu64 ",\"evictions\":%" PRIu64 ",\"commits\":%" PRIu64
		",\"lane_pieces\":%" PRIu64 ",\"lent\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n",
		stats->copies, stats->copy_bytes, stats->pins, stats->cache_hits,
		stats->evictions, stats->commits, stats->lane_pieces, stats->lent,
		ep->domain->xfer.wrong);
	if (!fclose(out))
		fputs(text, stderr);
	free(text);
}

void ep_stats_print(const struct p2p_ep *ep)
{
	if (conf.stats == CONF_STATS_YES)
		ep_stats_print_text(ep);
	else if (conf.stats == CONF_STATS_JSON)
		ep_stats_print_json(ep);
}
