/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A core provider made up for tests. See unit_fake_core.h. */
#include "unit_fake_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "mem/mem.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "xfer/life.h"
#include "xfer/reports.h"

struct fake_core fake;
struct xfer fake_xfer;
struct xfer_cq fake_cq;

/* ---- what it is given ---- */

static void fake_hold(const struct fake_op *op)
{
	if (fake.count == fake.room) {
		fake.room = fake.room ? 2 * fake.room : 64;
		fake.held = realloc(fake.held, fake.room * sizeof *fake.held);
		assert_non_null(fake.held);
	}
	fake.held[fake.count++] = *op;
}

static ssize_t fake_recv(const struct iovec *iov, size_t count, void *context, uint64_t tag,
			 uint64_t flags)
{
	const struct fake_op op = {
		.kind = FAKE_RECV,
		.internal = tag & FAKE_TAG_BIT,
		.context = context,
		.tag = tag,
		.flags = flags,
		.buf = count ? iov->iov_base : NULL,
		.len = mem_iov_len(iov, count),
	};

	if (op.internal && fake.no_recvs)
		return -FI_EAGAIN;
	if (!op.internal && fake.recv_error)
		return fake.recv_error;
	fake_hold(&op);
	return 0;
}

static ssize_t fake_send(fi_addr_t addr, const struct iovec *text, void *context, uint64_t tag,
			 uint64_t data)
{
	struct fake_op op = {
		.kind = FAKE_SEND,
		.internal = tag & FAKE_TAG_BIT,
		.context = context,
		.tag = tag,
		.data = data,
	};

	if (addr == FAKE_DEAD || addr >= FAKE_PEERS ||
	    (op.internal ? fake.no_internal : fake.no_sends))
		return -FI_EAGAIN;
	fake.sent[addr]++;
	if (op.internal && text && text->iov_len <= sizeof op.text) {
		op.text_len = text->iov_len;
		memcpy(op.text, text->iov_base, text->iov_len);
	}
	fake_hold(&op);
	return 0;
}

static ssize_t fake_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return fake_recv(msg->msg_iov, msg->iov_count, msg->context, 0, flags);
}

static ssize_t fake_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return fake_send(msg->addr, NULL, msg->context, 0, msg->data);
}

static ssize_t fake_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return fake_recv(msg->msg_iov, msg->iov_count, msg->context, msg->tag, flags);
}

static ssize_t fake_tsendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return fake_send(msg->addr, msg->iov_count ? msg->msg_iov : NULL, msg->context,
			 msg->tag, msg->data);
}

/* It is sent when the call returns, and nobody hears of that. */
static ssize_t fake_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			       fi_addr_t addr)
{
	if (addr == FAKE_DEAD || fake.no_sends)
		return -FI_EAGAIN;
	fake.sent[addr]++;
	return 0;
}

static ssize_t fake_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				fi_addr_t addr, uint64_t tag)
{
	return fake_injectdata(ep, buf, len, data, addr);
}

static ssize_t fake_rma(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	fake_hold(&(struct fake_op){.kind = FAKE_RMA, .context = msg->context});
	return 0;
}

static ssize_t fake_atomic(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	fake_hold(&(struct fake_op){.kind = FAKE_RMA, .context = msg->context});
	return 0;
}

static ssize_t fake_cancel(fid_t fid, void *context)
{
	for (size_t i = 0; i < fake.count; i++) {
		if (fake.held[i].context == context)
			fake.held[i].cancelled = true;
	}
	return 0;
}

static ssize_t fake_read(struct fid_cq *cq, void *buf, size_t count)
{
	return -FI_EAGAIN;
}

static int fake_close(struct fid *fid)
{
	return 0;
}

static int fake_close_ep(struct fid *fid)
{
	fake.count = 0;
	return 0;
}

struct fake_op fake_take(size_t index)
{
	struct fake_op op;

	assert_true(index < fake.count);
	op = fake.held[index];
	memmove(&fake.held[index], &fake.held[index + 1],
		(--fake.count - index) * sizeof *fake.held);
	return op;
}

/* ---- what is over it ---- */

static struct fi_ops fake_cq_fid_ops = {.size = sizeof fake_cq_fid_ops, .close = fake_close};
static struct fi_ops_cq fake_cq_ops = {.size = sizeof fake_cq_ops, .read = fake_read};
static struct fid_cq fake_cq_core = {.fid.ops = &fake_cq_fid_ops, .ops = &fake_cq_ops};
static struct fi_ops fake_ep_fid_ops = {.size = sizeof fake_ep_fid_ops, .close = fake_close_ep};
/* It has none */
static int fake_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	return -FI_ENOPROTOOPT;
}

static struct fi_ops_ep fake_ep_ops = {
	.size = sizeof fake_ep_ops,
	.cancel = fake_cancel,
	.getopt = fake_getopt,
};
static struct fi_ops_msg fake_msg = {
	.size = sizeof fake_msg,
	.recvmsg = fake_recvmsg,
	.sendmsg = fake_sendmsg,
	.injectdata = fake_injectdata,
};
static struct fi_ops_tagged fake_tagged = {
	.size = sizeof fake_tagged,
	.recvmsg = fake_trecvmsg,
	.sendmsg = fake_tsendmsg,
	.injectdata = fake_tinjectdata,
};
static struct fi_ops_rma fake_rma_ops = {
	.size = sizeof fake_rma_ops,
	.readmsg = fake_rma,
	.writemsg = fake_rma,
};
static struct fi_ops_atomic fake_atomic_ops = {
	.size = sizeof fake_atomic_ops,
	.writemsg = fake_atomic,
};
static struct fid_ep fake_ep_core = {
	.fid.ops = &fake_ep_fid_ops,
	.ops = &fake_ep_ops,
	.msg = &fake_msg,
	.tagged = &fake_tagged,
	.rma = &fake_rma_ops,
	.atomic = &fake_atomic_ops,
};

static int fake_resolve(struct xfer_channel *channel, const void *name, size_t len, bool learn,
			fi_addr_t *addr)
{
	snprintf(fake.asked, sizeof fake.asked, "%.*s", (int) len, (const char *) name);
	*addr = fake.named;
	return fake.stranger && !learn ? -FI_ENOENT : 0;
}

static int fake_lookup(struct xfer_channel *channel, fi_addr_t addr, void *name, size_t *len)
{
	*len = 0;
	return 0;
}

static void fake_print(const struct xfer_channel *channel, fi_addr_t addr, char *text,
		       size_t room)
{
	snprintf(text, room, "peer %d", (int) addr);
}

struct xfer_peer *fake_peer(struct xfer_ep *ep, fi_addr_t addr)
{
	struct xfer_peer *peer;

	p2p_lock_take(&fake_xfer.lock);
	peer = xfer_peer_get(ep, addr);
	assert_non_null(peer);
	assert_int_equal(xfer_peer_admit(peer, FAKE_TOKEN(addr)), 0);
	peer->state = XFER_PEER_KNOWN;
	peer->open = true;
	peer->spaces = fake_xfer.ipc.spaces;
	ep->proto->news = true;
	p2p_lock_drop(&fake_xfer.lock);
	return peer;
}

void fake_cq_open(struct xfer_cq *cq)
{
	*cq = (struct xfer_cq){.core = &fake_cq_core, .fd = -1};
	xfer_cq_init(cq, &fake_xfer);
}

void fake_start(bool shared)
{
	fake = (struct fake_core){.named = FAKE_ALIVE};
	assert_int_equal(xfer_init(&fake_xfer, &protos, shared, NULL), 0);
	fake_cq_open(&fake_cq);
}

void fake_stop(void)
{
	assert_int_equal(xfer_cq_fini(&fake_cq), 0);
	xfer_give_back(&fake_xfer);
	xfer_fini(&fake_xfer);
	free(fake.held);
}

static const struct xfer_channel_ops fake_ops = {
	.resolve = fake_resolve,
	.lookup = fake_lookup,
	.print = fake_print,
};

static const struct xfer_channel fake_channel = {
	.core = &fake_ep_core,
	.ops = &fake_ops,
	.name = "fake",
	.name_len = 4,
	.inbox.open = true,
	.inbox.wanted = 16,
};

void fake_ep_init(struct xfer_ep *ep, struct xfer_cq *cq)
{
	*ep = (struct xfer_ep){
		.front = fake_channel,
		.followed = FI_RECV,
		.rxcq = cq,
		.txcq = cq,
		.iov_limit = 1,
		.recv_iov_limit = 1,
		.ours = ~0ULL,
		.started = true,
	};
}

void fake_ep_open(struct xfer_ep *ep, struct xfer_cq *cq)
{
	fake_ep_init(ep, cq);
	assert_int_equal(xfer_ep_init(ep, &fake_xfer), 0);
	xfer_ep_add(ep);
	for (int addr = 0; addr < FAKE_KNOWN; addr++)
		fake_peer(ep, addr);
}

void fake_side_open(struct xfer_ep *ep)
{
	ep->quirks |= QUIRK_STALLS;
	ep->side.core = &fake_ep_core;
	ep->side.ops = &fake_ops;
	memcpy(ep->side.name, fake_channel.name, fake_channel.name_len);
	ep->side.name_len = fake_channel.name_len;
	ep->side.inbox.open = true;
	ep->side.inbox.wanted = 16;
}

void fake_ep_close(struct xfer_ep *ep)
{
	assert_int_equal(xfer_ep_fini(ep), 0);
	memset(ep, 0, sizeof *ep);
}
