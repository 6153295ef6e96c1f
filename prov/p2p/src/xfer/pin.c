/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Buffers in the NIC's hands. See pin.h. */
#include "xfer/pin.h"

#include <assert.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/trace.h"

_Static_assert(sizeof(struct pin) <= CELL_SIZE, "a pin is a cell");

static int pin_new(struct xfer_req *req)
{
	assert(!req->pin);
	req->pin = cell_get(&req->ctx.ep->xfer->cells);
	if (!req->pin)
		return -FI_EAGAIN;
	*req->pin = (struct pin){.desc = {NULL}};
	return 0;
}

void pin_release(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (!req->pin)
		return;
	for (size_t i = 0; i < P2P_IOV_MAX; i++) {
		if (req->pin->map[i])
			nic_map_put(req->pin->map[i]);
		if (req->pin->local[i])
			fi_close(&req->pin->local[i]->fid);
	}
	cell_put(&req->ctx.ep->xfer->cells, req->pin);
	req->pin = NULL;
	req->direct = false;
}

int pin_device(struct xfer_req *req, const char **why)
{
	struct xfer_ep *ep = req->ctx.ep;
	const char *refusal = "out of memory";
	struct dev_mem mem = req->mem;
	int ret = pin_new(req);

	xfer_assert_locked(req->ctx.ep->xfer);
	for (size_t i = 0; !ret && i < req->count; i++) {
		const struct iovec *iov = &req->iov[i];

		if (!iov->iov_len)
			continue;
		/* pieces may lie in allocations of their own, of the device that is flushed */
		if (req->count > 1 && dev_find(iov->iov_base, &mem) != 1) {
			refusal = "some of the buffer is host memory";
			ret = -FI_EOPNOTSUPP;
		} else if (mem.ops != req->mem.ops || mem.ordinal != req->mem.ordinal) {
			refusal = "the buffer lies on several devices";
			ret = -FI_EOPNOTSUPP;
		}
		if (!ret)
			ret = nic_map_get(&ep->xfer->map, &ep->stats, &mem, iov->iov_base,
					  iov->iov_len, PIN_ACCESS, &req->pin->map[i],
					  &refusal);
		if (!ret)
			req->pin->desc[i] = fi_mr_desc(req->pin->map[i]->mr);
	}
	if (!ret)
		return 0;
	*why = refusal;
	pin_release(req);
	return ret;
}

/* What other processes can open the buffer by. For how long they may, a note tells. NULL, with @why: they cannot */
static const struct ipc_export *pin_export(const struct xfer_req *req, const char **why)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	*why = "there is no room for a note for processes of this host, or no board";
	return board_room(&xfer->notes.board, xfer->id_base)
		       ? ipc_export(&xfer->ipc, &req->mem, req->iov[0].iov_base, req->len, why)
		       : NULL;
}

/*
 * Whose NIC reads a message sees on our board whether that stands: the NIC may come to it when it has ended here, and its
 * memory has become another one's. False: there is no such board, or no room on it. Who has nothing but the NIC (@must) waits
 * for room
 */
static bool pin_stands(struct xfer *xfer, bool must, const char **why)
{
	struct iovec board;

	*why = "there is no board, or no room on it, by which a NIC could see that the message stands";
	if (!board_room(&xfer->notes.board, xfer->id_base) &&
	    !(must && board_open(&xfer->notes.board, xfer->id_base)))
		return false;
	if (xfer->notes.mr)
		return true;
	board = board_memory(&xfer->notes.board);
	return !fi_mr_reg(xfer->map.domain, board.iov_base, board.iov_len, FI_REMOTE_READ, 0, 0,
			  xfer->local_flags, &xfer->notes.mr, NULL);
}

void pin_word(const struct xfer *xfer, uint64_t id, struct fi_rma_iov *remote)
{
	const uintptr_t word = (uintptr_t) board_word(&xfer->notes.board, id | WIRE_MARK);

	xfer_assert_locked(xfer);
	remote->addr =
		word -
		(xfer->virt_addr ? 0 : (uintptr_t) board_memory(&xfer->notes.board).iov_base);
	remote->len = sizeof id;
	remote->key = fi_mr_key(xfer->notes.mr);
}

struct path_choice pin_choose(struct xfer_req *req, struct path_query *query)
{
	const bool must = query->policy == PATH_PEER_LONG || query->policy == PATH_PEER_ONLY;
	const char *why;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (path_wants_peer(query, &query->peer_why))
		query->peer = !pin_device(req, &query->peer_why);
	if (query->peer && query->announced &&
	    !pin_stands(req->ctx.ep->xfer, must, &query->peer_why)) {
		pin_release(req);
		query->peer = false;
	}
	if (!query->peer && query->announced && path_wants_across(query, &why)) {
		req->export = pin_export(req, &query->across_why);
		query->across = req->export;
	}
	return path_choose(query);
}

int pin_choose_rma(struct xfer_req *req, size_t len, const char *far_why,
		   const char *across_why)
{
	const struct xfer_ep *ep = req->ctx.ep;
	/* no protocol of ours is between the core and the buffer, as over a hook */
	struct path_query query = {
		.len = len,
		.plain_max = WIRE_PLAIN_MAX,
		.inject = req->op_flags & FI_INJECT,
		.policy = ep->policy,
		.peer_why = far_why,
		.direct = true,
		.inline_max = req->recv ? 0 : ep->inline_max,
		.across = !across_why,
		.across_why = across_why,
	};

	xfer_assert_locked(req->ctx.ep->xfer);
	req->path = far_why ? path_choose(&query) : pin_choose(req, &query);
	req->direct = req->path.proto == PATH_DIRECT;
	P2P_TRACE(req_path, req, req->path.path, req->path.reason);
	if (req->path.proto != PATH_NONE)
		return 0;
	P2P_WARN("%zu bytes of %s device %d may not be staged: %s\n", len, req->mem.ops->name,
		 req->mem.ordinal, req->path.reason);
	return -FI_EOPNOTSUPP;
}

int pin_local(struct xfer *xfer, const struct iovec *iov, struct fid_mr **mr, void **desc)
{
	int ret = fi_mr_reg(xfer->map.domain, iov->iov_base, iov->iov_len,
			    PIN_ACCESS & ~FI_REMOTE_READ, 0, 0, xfer->local_flags, mr, NULL);

	xfer_assert_locked(xfer);
	if (ret)
		P2P_WARN("fi_mr_reg of %zu bytes of host memory: %s\n", iov->iov_len,
			 fi_strerror(-ret));
	else
		*desc = fi_mr_desc(*mr);
	return ret;
}

/*
 * Short messages are copied by the core's CPU: any descriptor will do for them, and
 * registering would cost more than the copy. One that is too long for a short receive may
 * come by the NIC, which then refuses the descriptor: the receive fails either way.
 */
int pin_host(struct xfer_req *req, void *const *desc, bool far)
{
	struct xfer *xfer = req->ctx.ep->xfer;
	int ret;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!xfer->local)
		return 0;
	ret = pin_new(req);
	for (size_t i = 0; !ret && i < req->count; i++) {
		const struct iovec *iov = &req->iov[i];

		req->pin->desc[i] = desc && desc[i] ? desc[i] : xfer->local->desc;
		if ((desc && desc[i]) || (!far && req->len <= WIRE_PLAIN_MAX) || !iov->iov_len)
			continue;
		ret = pin_local(xfer, iov, &req->pin->local[i], &req->pin->desc[i]);
	}
	if (ret)
		pin_release(req);
	return ret;
}

void pin_slice(const struct xfer_req *req, size_t offset, size_t count, void **desc)
{
	size_t pieces = 0;

	xfer_assert_locked(req->ctx.ep->xfer);
	memset(desc, 0, count * sizeof *desc);
	/* the pieces that mem_iov_slice() gives */
	for (size_t i = 0; req->pin && i < req->count && pieces < count; i++) {
		if (offset >= req->iov[i].iov_len) {
			offset -= req->iov[i].iov_len;
			continue;
		}
		desc[pieces++] = req->pin->desc[i];
		offset = 0;
	}
}

void pin_remote(const struct xfer_req *req, struct fi_rma_iov *remote)
{
	const struct nic_map_entry *entry = req->pin->map[0];
	uintptr_t addr = (uintptr_t) req->iov[0].iov_base;

	xfer_assert_locked(req->ctx.ep->xfer);
	remote->addr = req->ctx.ep->xfer->virt_addr ? addr : addr - entry->start;
	remote->len = req->len;
	remote->key = fi_mr_key(entry->mr);
}
