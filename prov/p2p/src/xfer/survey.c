/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a domain waits for. See survey.h. */
#include "xfer/survey.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "config.h"
#include "mem/board.h"
#include "xfer/peer.h"
#include "xfer/req_state.h"

void survey_open(struct survey *survey, const char *core)
{
	struct survey_page *page = board_map_new(SURVEY_FILE, sizeof *page, &survey->fd);

	survey->page = page;
	if (!page)
		return;
	page->pid = getpid();
	snprintf(page->provider, sizeof page->provider, "%s " PACKAGE_VERSION " over %s",
		 log_prov->name, core);
	__atomic_store_n(&page->version, SURVEY_VERSION, __ATOMIC_RELEASE);
}

void survey_close(struct survey *survey)
{
	if (survey->page) {
		munmap(survey->page, sizeof *survey->page);
		close(survey->fd);
	}
}

/* Tells whether a request in this state travels in parts. In others it may do so, or not. */
static bool survey_parts(enum xfer_state state)
{
	return state == XFER_ANNOUNCED || state == XFER_PUSHING || state == XFER_ASKING ||
	       state == XFER_PULLING || state == XFER_MOVING || state == XFER_ENDING;
}

static void survey_put(struct survey_row *row, const struct xfer_req *req)
{
	const struct xfer_transfer *transfer = &req->transfer;
	const struct xfer_peer *peer = req->peer;
	const struct xfer_ep *ep = peer ? peer->ep : req->ctx.ep;
	const fi_addr_t addr = peer ? peer->addr : req->addr;

	*row = (struct survey_row){
		.request = (uintptr_t) req,
		.flags = req->done_flags,
		.tag = req->tag,
		.len = req->len,
		.state = req->state,
		.path = req->path.path,
		.proto = req->path.proto,
		.quiet = peer ? peer->life.quiet : 0,
		.silent = peer ? peer->life.silent : 0,
	};
	snprintf(row->state_name, sizeof row->state_name, "%s", xfer_state_name(req->state));
	if (addr != FI_ADDR_UNSPEC)
		ep->front.ops->print(&ep->front, addr, row->peer, sizeof row->peer);
	if (!survey_parts(req->state))
		return;
	row->id = transfer->id;
	row->moved = P2P_MIN(transfer->next * transfer->chunk, transfer->wanted);
	row->lanes = transfer->lanes;
	row->copying = transfer->copying > 0;
	row->starved = transfer->starved > 0;
}

/* The oldest operations come last, and stay where there is no room for all. A receive that the core has is without a message. */
static void survey_tell(const struct xfer *xfer, struct survey_page *page)
{
	uint32_t count = 0, receives = 0, endpoints = 0;
	const struct xfer_ctx *ctx;
	const struct xfer_ep *ep;
	uint64_t owed = 0, ended = 0;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		endpoints++;
		owed += ep->front.owed + ep->side.owed;
		for (int i = 0; i < FI_P2P_PATH_MAX; i++)
			ended += ep->stats.tx_msgs[i] + ep->stats.rx_msgs[i];
		LIST_FOREACH(ctx, &ep->live, live) {
			const struct xfer_req *req = (const struct xfer_req *) ctx;

			if (!xfer_ctx_is_req(ctx))
				continue;
			if (req->state == XFER_CORE && req->done_flags & FI_RECV)
				survey_put(&page->receives[receives++ % SURVEY_RECEIVES], req);
			else
				survey_put(&page->rows[count++ % SURVEY_ROWS], req);
		}
	}
	page->count = count;
	page->receive_count = receives;
	page->endpoints = endpoints;
	page->owed = owed;
	page->ended = ended;
	page->works = __atomic_load_n(&xfer->works, __ATOMIC_RELAXED);
}

void survey_look(struct xfer *xfer, uint64_t now)
{
	struct survey *survey = &xfer->survey;
	uint32_t asked;

	xfer_assert_locked(xfer);
	survey->looked = now;
	if (!survey->page)
		return;
	__atomic_store_n(&survey->page->looked, now, __ATOMIC_RELAXED);
	asked = __atomic_load_n(&survey->page->asked, __ATOMIC_ACQUIRE);
	if (asked == survey->told)
		return;
	survey_tell(xfer, survey->page);
	__atomic_store_n(&survey->told, asked, __ATOMIC_RELAXED);
	__atomic_store_n(&survey->page->told, asked, __ATOMIC_RELEASE);
}
