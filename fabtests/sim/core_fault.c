/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Faults of the core provider: what it refuses or loses, and connections that break. See sim.h. */
#include <string.h>
#include <rdma/fi_errno.h>

#include "core.h"

/*
 * The next post of the node; and of one of its lanes. The connection by which one of its lanes sends so many more pieces:
 * behind the last of them
 */
static bool refusing[SIM_NODES], refusing_lane[SIM_NODES];
static unsigned int cutting[SIM_NODES];
bool core_losing[SIM_NODES];
unsigned int core_losses[SIM_NODES][SIM_NODES];

void core_reset(unsigned int a, unsigned int b, bool lanes)
{
	struct core_conn *conn;

	TAILQ_FOREACH(conn, &core_conns, link) {
		if (conn->state != CONN_BROKEN && !conn->src->model->silent &&
		    (!lanes || conn->src->lane) &&
		    ((conn->src->name.node == a && conn->to.node == b) ||
		     (conn->src->name.node == b && conn->to.node == a)))
			core_conn_break(conn, FI_ECONNRESET);
	}
}

void core_cut(unsigned int node, unsigned int pieces)
{
	cutting[node] = pieces;
}

bool core_cuts(const struct core_conn *conn, const struct core_send *send)
{
	const bool piece = conn->src->lane && send->len > sizeof(uint64_t[2]);

	if (!piece || !cutting[conn->src->name.node] || --cutting[conn->src->name.node])
		return false;
	world.cuts++;
	return true;
}

void core_refuse(unsigned int node, bool lanes)
{
	(lanes ? refusing_lane : refusing)[node] = true;
}

bool core_refuses(const struct core_ep *ep)
{
	bool *refuses = &(ep->lane ? refusing_lane : refusing)[ep->name.node];

	if (!*refuses)
		return false;
	*refuses = false;
	/* by its lanes nothing is lost */
	if (!ep->lane)
		core_losses[ep->name.node][ep->name.node]++;
	world_tell("n%u: the core refuses a post", ep->name.node);
	return true;
}

void core_lose(unsigned int node)
{
	core_losing[node] = true;
}

void core_calm(void)
{
	memset(refusing, 0, sizeof refusing);
	memset(refusing_lane, 0, sizeof refusing_lane);
	memset(cutting, 0, sizeof cutting);
	memset(core_losing, 0, sizeof core_losing);
}
