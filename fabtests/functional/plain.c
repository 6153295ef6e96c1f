/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_plain: endpoints that are not reliable datagrams, over core providers that have more than messages.
 * What is sent to a multicast group arrives, from each kind of memory. No operation waits for a counter, which the
 * core provider would take for one of its own. Listeners and endpoints live longer than the infos that they were
 * opened with.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_trigger.h>

#include "ft_test.h"

#define GROUP 0xef010203 /* 239.1.2.3 */
#define LEN ((size_t) 1000)

/* Hints for one core provider, below ofi_p2p or the hook */
static int plain_hints(struct ft_proc *proc, struct ft_ctx *ctx, const char *core,
		       enum fi_ep_type type, uint64_t caps)
{
	char name[64];

	FT_TRY(ft_hints(ctx, &proc->opts));
	snprintf(name, sizeof(name), "%s%s", core, ft_hook_active() ? "" : ";ofi_p2p");
	free(ctx->hints->fabric_attr->prov_name);
	ctx->hints->fabric_attr->prov_name = strdup(name);
	ctx->hints->ep_attr->type = type;
	ctx->hints->caps = caps;
	if (!ft_hook_active() && proc->opts.iface != FI_HMEM_SYSTEM)
		ctx->hints->caps |= FI_HMEM;
	ctx->hints->tx_attr->msg_order = ctx->hints->rx_attr->msg_order = 0;
	ctx->hints->domain_attr->resource_mgmt = FI_RM_UNSPEC;
	ctx->cq_attr.format = FI_CQ_FORMAT_MSG;
	return 0;
}

/* Waits for @count completions. */
static int plain_wait(struct ft_ctx *ctx, int count)
{
	struct fi_cq_msg_entry entry;
	ssize_t ret;

	while (count > 0) {
		ret = fi_cq_read(ctx->cq, &entry, 1);
		if (ret == -FI_EAGAIN)
			FT_TRY(ft_idle(ctx));
		else if (ret < 0)
			return ft_fail((int) ret, "fi_cq_read", "%d are missing", count);
		else
			count--;
	}
	return 0;
}

/* ---- multicast ---- */

static int bind_eq(struct ft_ctx *ctx)
{
	int ret;

	FT_TRY(ft_eq_open(ctx));
	ret = fi_ep_bind(ctx->ep, &ctx->eq->fid, 0);
	return ret ? ft_fail(ret, "fi_ep_bind", "event queue") : 0;
}

/* The group has the endpoint's own port: it is where the datagrams arrive */
static int join_group(struct ft_ctx *ctx, struct fid_mc **group)
{
	struct sockaddr_in address;
	struct ft_name name;
	int ret;

	FT_TRY(ft_getname(ctx, &name));
	memcpy(&address, name.bytes, sizeof(address));
	address.sin_addr.s_addr = htonl(GROUP);
	ret = fi_join(ctx->ep, &address, 0, group, NULL);
	return ret ? ft_fail(ret, "fi_join", "239.1.2.3") : 0;
}

/* The endpoint sends to its group, so to itself. */
static int to_group(struct ft_ctx *ctx, struct fid_mc *group, uint64_t flags,
		    enum fi_hmem_iface from, enum fi_hmem_iface to, uint64_t key)
{
	struct ft_buf buf[2];
	struct ft_slot slot[2];
	struct iovec iov;
	struct fi_msg msg;
	int ret;

	FT_TRY(ft_buf_alloc(ctx, &buf[0], from, LEN + FT_ROOM));
	FT_TRY(ft_buf_alloc(ctx, &buf[1], to, LEN + FT_ROOM));
	for (int i = 0; i < 2; i++)
		slot[i] = (struct ft_slot){&buf[i], 0, LEN + FT_ROOM, 64, LEN};
	FT_TRY(ft_slot_fill(&slot[0], key));
	FT_TRY(ft_slot_arm(&slot[1]));
	ret = (int) fi_recv(ctx->ep, buf[1].addr + 64, LEN, buf[1].desc, FI_ADDR_UNSPEC, NULL);
	if (ret)
		return ft_fail(ret, "fi_recv", "of the group");
	iov = (struct iovec){buf[0].addr + 64, LEN};
	msg = (struct fi_msg){&iov, &buf[0].desc, 1, fi_mc_addr(group), NULL, 0};
	ret = (int) fi_sendmsg(ctx->ep, &msg, FI_MULTICAST | FI_COMPLETION | flags);
	if (ret)
		return ft_fail(ret, "fi_sendmsg", "to the group");
	FT_TRY(plain_wait(ctx, 2));
	FT_TRY(ft_slot_check(&slot[1], LEN, key, "what was sent to the group"));
	ft_buf_free(&buf[0]);
	ft_buf_free(&buf[1]);
	return 0;
}

static int multicast(struct ft_proc *proc)
{
	enum fi_hmem_iface kinds[2];
	const size_t count = ft_kinds(&proc->opts, kinds);
	struct fid_mc *group;
	struct ft_ctx ctx;
	int ret;

	FT_TRY(plain_hints(proc, &ctx, "udp", FI_EP_DGRAM, FI_MSG | FI_MULTICAST));
	ctx.hints->addr_format = FI_SOCKADDR_IN;
	ctx.prepare = bind_eq;
	if (!ft_offered(&ctx)) {
		printf("note: no multicast by udp here\n");
		return ft_close(&ctx);
	}
	/* at all addresses, as no other socket gets what is sent to a group */
	FT_TRY(ft_getinfo(&ctx, NULL, "0", FI_SOURCE));
	FT_TRY(ft_open(&ctx));
	FT_TRY(join_group(&ctx, &group));
	for (size_t i = 0; i < 2 * count * count; i++)
		FT_TRY(to_group(&ctx, group, i % 2 ? FI_INJECT : 0, kinds[i / 2 / count],
				kinds[i / 2 % count], i));
	ret = fi_close(&group->fid);
	if (ret)
		return ft_fail(ret, "fi_close", "group");
	return ft_close(&ctx);
}

/* ---- operations that wait for counters ---- */

static int refused(int ret, const char *what)
{
	FT_CHECK(ret == -FI_ENOSYS, "%s with FI_TRIGGER: %s, not -FI_ENOSYS", what,
		 ret ? fi_strerror(-ret) : "taken");
	return 0;
}

/* A call of each kind, from or to @buf */
static int calls_refused(struct ft_ctx *ctx, const struct ft_buf *buf, struct fid_cntr *cntr)
{
	struct fi_triggered_context context = {.event_type = FI_TRIGGER_THRESHOLD};
	struct iovec iov = {buf->addr, LEN};
	struct fi_rma_iov remote = {0, LEN, 0};
	void *desc = buf->desc;
	const struct fi_msg msg = {&iov, &desc, 1, ctx->peer[0], &context, 0};
	const struct fi_msg_tagged tagged = {&iov, &desc, 1, ctx->peer[0], 0, 0, &context, 0};
	const struct fi_msg_rma rma = {&iov, &desc, 1, ctx->peer[0], &remote, 1, &context, 0};

	context.trigger.threshold.cntr = cntr;
	context.trigger.threshold.threshold = 1;
	FT_TRY(refused((int) fi_recvmsg(ctx->ep, &msg, FI_TRIGGER), "fi_recvmsg"));
	FT_TRY(refused((int) fi_sendmsg(ctx->ep, &msg, FI_TRIGGER), "fi_sendmsg"));
	FT_TRY(refused((int) fi_trecvmsg(ctx->ep, &tagged, FI_TRIGGER), "fi_trecvmsg"));
	FT_TRY(refused((int) fi_tsendmsg(ctx->ep, &tagged, FI_TRIGGER), "fi_tsendmsg"));
	FT_TRY(refused((int) fi_readmsg(ctx->ep, &rma, FI_TRIGGER), "fi_readmsg"));
	return refused((int) fi_writemsg(ctx->ep, &rma, FI_TRIGGER), "fi_writemsg");
}

static int atomics_refused(struct ft_ctx *ctx)
{
	uint64_t value = 1, before;
	struct fi_ioc ioc = {&value, 1}, result = {&before, 1};
	struct fi_rma_ioc remote = {0, 1, 0};
	const struct fi_msg_atomic msg = {.msg_iov = &ioc,
					  .iov_count = 1,
					  .addr = ctx->peer[0],
					  .rma_iov = &remote,
					  .rma_iov_count = 1,
					  .datatype = FI_UINT64,
					  .op = FI_SUM};

	FT_TRY(refused((int) fi_atomicmsg(ctx->ep, &msg, FI_TRIGGER), "fi_atomicmsg"));
	FT_TRY(refused((int) fi_fetch_atomicmsg(ctx->ep, &msg, &result, NULL, 1, FI_TRIGGER),
		       "fi_fetch_atomicmsg"));
	return refused((int) fi_compare_atomicmsg(ctx->ep, &msg, &ioc, NULL, 1, &result, NULL,
						  1, FI_TRIGGER),
		       "fi_compare_atomicmsg");
}

/* Nor for all of an endpoint's operations */
static int flags_refused(struct ft_ctx *ctx)
{
	uint64_t flags = FI_TRANSMIT | FI_TRIGGER;
	struct fid_ep *ep;

	FT_TRY(refused(fi_control(&ctx->ep->fid, FI_SETOPSFLAG, &flags), "FI_SETOPSFLAG"));
	ctx->info->tx_attr->op_flags |= FI_TRIGGER;
	FT_TRY(refused(fi_endpoint(ctx->domain, ctx->info, &ep, NULL), "fi_endpoint"));
	ctx->info->tx_attr->op_flags &= ~FI_TRIGGER;
	return 0;
}

static int triggers(struct ft_proc *proc)
{
	enum fi_hmem_iface kinds[2];
	const size_t count = ft_kinds(&proc->opts, kinds);
	struct fid_cntr *cntr;
	struct ft_name name;
	struct ft_buf buf;
	struct ft_ctx ctx;
	int ret;

	/* fi_p2p_trigger shows that it keeps them */
	if (ft_hook_active())
		return 0;
	FT_TRY(plain_hints(proc, &ctx, "sockets", FI_EP_DGRAM, FI_MSG));
	if (!ft_offered(&ctx)) {
		printf("note: no sockets here\n");
		return ft_close(&ctx);
	}
	ctx.hints->caps |= FI_TRIGGER;
	FT_CHECK(!ft_offered(&ctx), "FI_TRIGGER is offered");
	ctx.hints->caps &= ~FI_TRIGGER;
	FT_TRY(ft_getinfo(&ctx, "127.0.0.1", "0", FI_SOURCE));
	FT_CHECK(!(ctx.info->caps & FI_TRIGGER), "FI_TRIGGER is offered unasked");
	FT_TRY(ft_open(&ctx));
	FT_TRY(ft_getname(&ctx, &name));
	FT_TRY(ft_av_insert(&ctx, name.bytes, &ctx.peer[0]));
	FT_TRY(ft_cntr_open(&ctx, FI_WAIT_NONE, 0, &cntr));
	for (size_t i = 0; i < count; i++) {
		FT_TRY(ft_buf_alloc(&ctx, &buf, kinds[i], LEN));
		FT_TRY(calls_refused(&ctx, &buf, cntr));
		ft_buf_free(&buf);
	}
	FT_TRY(atomics_refused(&ctx));
	FT_TRY(flags_refused(&ctx));
	ret = fi_close(&cntr->fid);
	if (ret)
		return ft_fail(ret, "fi_close", "counter");
	return ft_close(&ctx);
}

/* ---- requests to connect ---- */

/**
 * struct request - a listener, and an endpoint that asks to be connected, in one fabric.
 * @eq:		of the listener, and of the endpoint
 * @name:	where the listener is
 */
struct request {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq[2];
	struct fid_pep *pep;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct sockaddr_in name;
};

static int request_info(struct ft_ctx *ctx, struct fi_info **info)
{
	int ret = fi_getinfo(ctx->opts->api_version, "127.0.0.1", "0", FI_SOURCE, ctx->hints,
			     info);

	return ret ? ft_fail(ret, "fi_getinfo", "127.0.0.1") : 0;
}

static int request_listen(struct ft_ctx *ctx, struct request *req)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	size_t len = sizeof(req->name);
	struct fi_info *info;
	int ret;

	FT_TRY(request_info(ctx, &info));
	ret = fi_fabric(info->fabric_attr, &req->fabric, NULL);
	for (int i = 0; i < 2 && !ret; i++)
		ret = fi_eq_open(req->fabric, &attr, &req->eq[i], NULL);
	if (!ret)
		ret = fi_passive_ep(req->fabric, info, &req->pep, NULL);
	fi_freeinfo(info);
	if (!ret)
		ret = fi_pep_bind(req->pep, &req->eq[0]->fid, 0);
	if (!ret)
		ret = fi_listen(req->pep);
	if (!ret)
		ret = fi_getname(&req->pep->fid, &req->name, &len);
	return ret ? ft_fail(ret, "fi_passive_ep ... fi_listen", "a listener") : 0;
}

static int request_connect(struct ft_ctx *ctx, struct request *req)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_MSG};
	struct fi_info *info;
	int ret;

	FT_TRY(request_info(ctx, &info));
	ret = fi_domain(req->fabric, info, &req->domain, NULL);
	if (!ret)
		ret = fi_cq_open(req->domain, &attr, &req->cq, NULL);
	if (!ret)
		ret = fi_endpoint(req->domain, info, &req->ep, NULL);
	fi_freeinfo(info);
	if (!ret)
		ret = fi_ep_bind(req->ep, &req->eq[1]->fid, 0);
	if (!ret)
		ret = fi_ep_bind(req->ep, &req->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_enable(req->ep);
	if (!ret)
		ret = fi_connect(req->ep, &req->name, NULL, 0);
	return ret ? ft_fail(ret, "fi_domain ... fi_connect", "an endpoint") : 0;
}

/* Waits for an event at the listener. Both queues are read: some cores make progress there. */
static int request_wait(struct ft_ctx *ctx, struct request *req, struct fi_eq_cm_entry *entry)
{
	struct fi_eq_cm_entry other;
	uint32_t event;
	ssize_t ret;

	while ((ret = fi_eq_read(req->eq[0], &event, entry, sizeof(*entry), 0)) == -FI_EAGAIN) {
		ret = fi_eq_read(req->eq[1], &event, &other, sizeof(other), 0);
		FT_CHECK(ret == -FI_EAGAIN,
			 "the endpoint has an event (%zd) before the listener", ret);
		FT_TRY(ft_idle(ctx));
	}
	if (ret < 0)
		return ft_fail((int) ret, "fi_eq_read", "the listener's");
	FT_CHECK(event == FI_CONNREQ && entry->fid == &req->pep->fid && entry->info,
		 "event %u is no request at the listener", event);
	return 0;
}

static int request_close(struct request *req)
{
	struct fid *const fids[] = {
		&req->ep->fid,    &req->cq->fid,    &req->domain->fid, &req->pep->fid,
		&req->eq[0]->fid, &req->eq[1]->fid, &req->fabric->fid,
	};
	int ret;

	for (size_t i = 0; i < FT_COUNT(fids); i++) {
		ret = fi_close(fids[i]);
		if (ret)
			return ft_fail(ret, "fi_close", "object %zu", i);
	}
	return 0;
}

static int request(struct ft_proc *proc, const char *core)
{
	struct fi_eq_cm_entry entry;
	struct request req;
	struct ft_ctx ctx;
	const char *name;
	int ret;

	FT_TRY(plain_hints(proc, &ctx, core, FI_EP_MSG, FI_MSG));
	ctx.hints->addr_format = FI_SOCKADDR_IN;
	if (!ft_offered(&ctx)) {
		printf("note: no connections by %s here\n", core);
		return ft_close(&ctx);
	}
	FT_TRY(request_listen(&ctx, &req));
	FT_TRY(request_connect(&ctx, &req));
	FT_TRY(request_wait(&ctx, &req, &entry));
	name = entry.info->fabric_attr->prov_name;
	/* sockets names nobody */
	FT_CHECK(ft_hook_active() || (name && strstr(name, ";ofi_p2p")),
		 "a request's info names %s, not ofi_p2p", name ? name : "nobody");
	/* cores keep a request until it is answered, be its listener closed */
	ret = fi_reject(req.pep, entry.info->handle, NULL, 0);
	fi_freeinfo(entry.info);
	if (ret)
		return ft_fail(ret, "fi_reject", "the request");
	FT_TRY(request_close(&req));
	return ft_close(&ctx);
}

static int run(struct ft_proc *proc)
{
	FT_TRY(multicast(proc));
	FT_TRY(triggers(proc));
	FT_TRY(request(proc, "sockets"));
	return request(proc, "tcp");
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose =
			"Endpoints that are not reliable datagrams: multicast, no FI_TRIGGER, listeners.",
		.ranks = 1,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
