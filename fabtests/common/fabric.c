/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Opens and closes an endpoint with its AV or EQ and its CQ. Registers buffers. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ft.h"

#define CQ_SIZE 4096
#define TAIL_ROOM 256 /* libfabric's structs grow at the end, and it may copy them whole */

static const uint64_t mr_modes =
	FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

static int set_name(char **field, const char *value)
{
	if (!value)
		return 0;
	*field = strdup(value);
	return *field ? 0 : ft_fail(-FI_ENOMEM, "strdup", "hints");
}

int ft_hints(struct ft_ctx *ctx, const struct ft_opts *opts)
{
	struct fi_info *hints;

	memset(ctx, 0, sizeof(*ctx));
	ctx->opts = opts;
	ctx->cq_fd = -1;
	ctx->cq_attr.format = FI_CQ_FORMAT_TAGGED;
	ctx->cq_attr.size = CQ_SIZE;
	ctx->cq_attr.wait_obj = opts->wait == FT_WAIT_SREAD ? FI_WAIT_UNSPEC
				: opts->wait == FT_WAIT_FD  ? FI_WAIT_FD
							    : FI_WAIT_NONE;
	hints = fi_allocinfo();
	if (!hints)
		return ft_fail(-FI_ENOMEM, "fi_allocinfo", "hints");
	ctx->hints = hints;
	FT_TRY(set_name(&hints->fabric_attr->prov_name, opts->prov));
	FT_TRY(set_name(&hints->fabric_attr->name, opts->fabric));
	FT_TRY(set_name(&hints->domain_attr->name, opts->domain));
	hints->ep_attr->type = opts->ep_type;
	hints->caps = opts->tagged ? FI_TAGGED : FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	/*
	 * verbs offers remote cq data only to an application that knows that it takes a receive
	 */
	if (opts->ep_type == FI_EP_MSG)
		hints->mode |= FI_RX_CQ_DATA;
	hints->domain_attr->mr_mode = (int) mr_modes;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	if (opts->delivery_complete)
		hints->tx_attr->op_flags |= FI_DELIVERY_COMPLETE;
	if (opts->init_iface != FI_HMEM_SYSTEM && !opts->no_hmem) {
		hints->caps |= FI_HMEM;
		hints->domain_attr->mr_mode |= FI_MR_HMEM;
	}
	return 0;
}

/* Providers may have addresses that are no hosts, so this is asked once they have refused one. */
static bool no_host(const char *node)
{
	struct addrinfo *found;

	if (!node)
		return false;
	if (getaddrinfo(node, NULL, NULL, &found))
		return true;
	freeaddrinfo(found);
	return false;
}

/* The commonest mistakes end here, so this says what was asked for. */
static int getinfo_failed(const struct ft_ctx *ctx, int ret, const char *node)
{
	const struct fi_info *hints = ctx->hints;
	const char *prov = hints->fabric_attr->prov_name;
	const bool msg = ft_connected(ctx);

	return ft_fail(
		ret, "fi_getinfo",
		"no provider matches -p '%s'%s%s%s%s%s%s%s; fi_p2p_info%s%s%s says what "
		"there is, and why%s%s",
		prov ? prov : "(any)", msg ? ", -e msg" : "",
		hints->fabric_attr->name ? ", -f" : "", hints->domain_attr->name ? ", -d" : "",
		node ? ", address " : "", node ? node : "",
		no_host(node) ? " (no host has that name)" : "",
		hints->caps & FI_HMEM ? ", FI_HMEM" : "", prov ? " -p '" : "", prov ? prov : "",
		prov ? "'" : "",
		hints->caps & FI_HMEM && !(prov && strstr(prov, "ofi_p2p"))
			? "; device memory needs ';ofi_p2p' at the end of -p, or FI_HOOK=p2p with --no-hmem"
			: "",
		msg && hints->caps & FI_TAGGED
			? "; few providers have tagged messages over connections: try -o msg"
			: "");
}

int ft_getinfo(struct ft_ctx *ctx, const char *node, const char *service, uint64_t flags)
{
	int ret = fi_getinfo(ctx->opts->api_version, node, service, flags, ctx->hints,
			     &ctx->info);

	return ret ? getinfo_failed(ctx, ret, node) : 0;
}

bool ft_offered(const struct ft_ctx *ctx)
{
	struct fi_info *info;
	int ret = fi_getinfo(ctx->opts->api_version, NULL, NULL, 0, ctx->hints, &info);

	if (!ret)
		fi_freeinfo(info);
	return !ret;
}

bool ft_is_p2p(const struct ft_ctx *ctx)
{
	const char *last = strrchr(ctx->info->fabric_attr->prov_name, ';');

	return last && !strcmp(last, ";ofi_p2p") && !ft_connected(ctx);
}

size_t ft_whole_max(const struct ft_ctx *ctx)
{
	const char *set = getenv("FI_OFI_RXM_BUFFER_SIZE");

	if (!strstr(ctx->info->fabric_attr->prov_name, "ofi_rxm"))
		return SIZE_MAX;
	return set ? strtoul(set, NULL, 0) : 16384;
}

bool ft_connected(const struct ft_ctx *ctx)
{
	return ctx->hints->ep_attr->type == FI_EP_MSG;
}

static int open_cq(struct ft_ctx *ctx)
{
	int ret = fi_cq_open(ctx->domain, &ctx->cq_attr, &ctx->cq, NULL);

	if (ret == -FI_ENOSYS && ft_connected(ctx)) {
		/* verbs has no tags */
		ctx->cq_attr.format = FI_CQ_FORMAT_DATA;
		ret = fi_cq_open(ctx->domain, &ctx->cq_attr, &ctx->cq, NULL);
	}
	if (ret)
		return ft_fail(ret, "fi_cq_open", "provider %s%s",
			       ctx->info->fabric_attr->prov_name,
			       ctx->cq_attr.wait_obj != FI_WAIT_NONE
				       ? " may not offer this wait object: try -c spin"
				       : "");
	if (ctx->cq_attr.wait_obj != FI_WAIT_FD)
		return 0;
	ret = fi_control(&ctx->cq->fid, FI_GETWAIT, &ctx->cq_fd);
	return ret ? ft_fail(ret, "fi_control(FI_GETWAIT)", "no descriptor: try -c spin") : 0;
}

/*
 * Endpoints of shm have no place for the option until they are enabled. Those of ofi_rxm take
 * it then.
 */
static int set_min_multi_recv(struct ft_ctx *ctx, bool enabled)
{
	const bool late = !strncmp(ctx->info->fabric_attr->prov_name, "shm", 3);
	int ret;

	if (!ctx->min_multi_recv || late != enabled)
		return 0;
	ret = fi_setopt(&ctx->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
			&ctx->min_multi_recv, sizeof(ctx->min_multi_recv));
	return ret ? ft_fail(ret, "fi_setopt", "FI_OPT_MIN_MULTI_RECV") : 0;
}

static int open_av(struct ft_ctx *ctx)
{
	struct fi_av_attr attr = {.type = ctx->av_type};
	int ret;

	if (attr.type == FI_AV_UNSPEC)
		attr.type = ctx->info->domain_attr->av_type;
	ret = fi_av_open(ctx->domain, &attr, &ctx->av, NULL);
	return ret ? ft_fail(ret, "fi_av_open", "type %s",
			     fi_tostr(&attr.type, FI_TYPE_AV_TYPE))
		   : 0;
}

int ft_fabric_open(struct ft_ctx *ctx)
{
	int ret = ctx->fabric ? 0 : fi_fabric(ctx->info->fabric_attr, &ctx->fabric, NULL);

	return ret ? ft_fail(ret, "fi_fabric", "%s", ctx->info->fabric_attr->prov_name) : 0;
}

int ft_cntr_open(struct ft_ctx *ctx, enum fi_wait_obj wait_obj, uint64_t flags,
		 struct fid_cntr **cntr)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = wait_obj};
	int ret = fi_cntr_open(ctx->domain, &attr, cntr, NULL);

	if (ret)
		return ft_fail(ret, "fi_cntr_open", "provider %s",
			       ctx->info->fabric_attr->prov_name);
	if (flags)
		ret = fi_ep_bind(ctx->ep, &(*cntr)->fid, flags);
	return ret ? ft_fail(ret, "fi_ep_bind", "counter") : 0;
}

int ft_rx_cq_open(struct ft_ctx *ctx, struct fid_cq **cq)
{
	int ret = fi_cq_open(ctx->domain, &ctx->cq_attr, cq, NULL);

	if (ret)
		return ft_fail(ret, "fi_cq_open", "a second one");
	ret = fi_ep_bind(ctx->ep, &(*cq)->fid, FI_RECV);
	return ret ? ft_fail(ret, "fi_ep_bind", "completion queue for receives") : 0;
}

int ft_ep_open(struct ft_ctx *ctx)
{
	const bool connected = ft_connected(ctx);
	int ret;

	ret = fi_endpoint(ctx->domain, ctx->info, &ctx->ep, NULL);
	if (ret)
		return ft_fail(ret, "fi_endpoint", "%s", ctx->info->fabric_attr->prov_name);
	ret = fi_ep_bind(ctx->ep, connected ? &ctx->eq->fid : &ctx->av->fid, 0);
	if (ret)
		return ft_fail(ret, "fi_ep_bind", "%s",
			       connected ? "event queue" : "address vector");
	ret = fi_ep_bind(ctx->ep, &ctx->cq->fid,
			 FI_TRANSMIT | (ctx->tx_only ? 0 : FI_RECV) | ctx->cq_flags);
	if (ret)
		return ft_fail(ret, "fi_ep_bind", "completion queue");
	FT_TRY(set_min_multi_recv(ctx, false));
	if (ctx->prepare)
		FT_TRY(ctx->prepare(ctx));
	ret = fi_enable(ctx->ep);
	if (ret)
		return ft_fail(ret, "fi_enable", "%s", ctx->info->fabric_attr->prov_name);
	return set_min_multi_recv(ctx, true);
}

int ft_open(struct ft_ctx *ctx)
{
	int ret;

	FT_TRY(ft_fabric_open(ctx));
	FT_TRY(ctx->pep ? ft_request_wait(ctx) : 0);
	ret = fi_domain(ctx->fabric, ctx->info, &ctx->domain, NULL);
	if (ret)
		return ft_fail(ret, "fi_domain", "%s", ctx->info->domain_attr->name);
	FT_TRY(ft_connected(ctx) ? ft_eq_open(ctx) : open_av(ctx));
	FT_TRY(open_cq(ctx));
	return ft_ep_open(ctx);
}

static int close_fid(struct fid *fid, const char *what, int earlier)
{
	int ret = fid ? fi_close(fid) : 0;

	if (ret)
		ft_fail(ret, "fi_close", "%s", what);
	return earlier ? earlier : ret;
}

int ft_close(struct ft_ctx *ctx)
{
	int ret = 0;

	ret = close_fid(ctx->ep ? &ctx->ep->fid : NULL, "endpoint", ret);
	ret = close_fid(ctx->pep ? &ctx->pep->fid : NULL, "passive endpoint", ret);
	ret = close_fid(ctx->cq ? &ctx->cq->fid : NULL, "completion queue", ret);
	ret = close_fid(ctx->av ? &ctx->av->fid : NULL, "address vector", ret);
	ret = close_fid(ctx->domain ? &ctx->domain->fid : NULL, "domain", ret);
	ret = close_fid(ctx->eq ? &ctx->eq->fid : NULL, "event queue", ret);
	ret = close_fid(ctx->fabric ? &ctx->fabric->fid : NULL, "fabric", ret);
	fi_freeinfo(ctx->info);
	fi_freeinfo(ctx->hints);
	memset(ctx, 0, sizeof(*ctx));
	return ret;
}

int ft_getname(struct ft_ctx *ctx, struct ft_name *name)
{
	size_t len = sizeof(name->bytes);
	int ret;

	memset(name, 0, sizeof(*name));
	ret = fi_getname(ctx->ep ? &ctx->ep->fid : &ctx->pep->fid, name->bytes, &len);
	name->len = len;
	return ret ? ft_fail(ret, "fi_getname", "the name has %zu bytes", len) : 0;
}

int ft_av_insert(struct ft_ctx *ctx, const void *name, fi_addr_t *addr)
{
	int ret;

	*addr = 0;
	if (ft_connected(ctx))
		return 0;
	ret = fi_av_insert(ctx->av, name, 1, addr, 0, NULL);
	if (ret != 1)
		return ft_fail(
			ret < 0 ? ret : -FI_EADDRNOTAVAIL, "fi_av_insert",
			"the peer's name was not taken (-p, -d the same on both sides?)");
	return 0;
}

static bool wants_registration(const struct ft_ctx *ctx, const struct ft_buf *buf)
{
	const int mode = ctx->info->domain_attr->mr_mode;

	return ctx->mr_access || (mode & FI_MR_LOCAL) ||
	       ((mode & FI_MR_HMEM) && buf->ops->iface != FI_HMEM_SYSTEM);
}

static int buf_register(struct ft_ctx *ctx, struct ft_buf *buf, uint64_t access)
{
	union {
		struct fi_mr_attr attr;
		char room[sizeof(struct fi_mr_attr) + TAIL_ROOM];
	} mr = {.room = {0}};
	struct iovec iov = {buf->addr, buf->size};
	int ret;

	mr.attr.mr_iov = &iov;
	mr.attr.iov_count = 1;
	mr.attr.access = access | ctx->mr_access;
	mr.attr.requested_key = ctx->next_key++;
	/* an application that did not ask for FI_HMEM does not know what it passes */
	if (ctx->info->caps & FI_HMEM && buf->ops->iface != FI_HMEM_SYSTEM) {
		mr.attr.iface = buf->ops->iface;
		mr.attr.device.reserved = (uint64_t) ctx->opts->device;
	}
	ret = fi_mr_regattr(ctx->domain, &mr.attr, 0, &buf->mr);
	if (ret) {
		buf->mr = NULL;
		return ft_fail(ret, "fi_mr_regattr", "%zu bytes of %s memory", buf->size,
			       buf->ops->name);
	}
	if (ctx->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		ret = fi_mr_bind(buf->mr, &ctx->ep->fid, 0);
		if (ret)
			return ft_fail(ret, "fi_mr_bind", "endpoint");
		ret = fi_mr_enable(buf->mr);
		if (ret)
			return ft_fail(ret, "fi_mr_enable", "%s memory", buf->ops->name);
	}
	buf->desc = fi_mr_desc(buf->mr);
	return 0;
}

int ft_buf_alloc_by(struct ft_ctx *ctx, struct ft_buf *buf, const struct ft_mem_ops *ops,
		    size_t size)
{
	void *addr;
	int ret;

	memset(buf, 0, sizeof(*buf));
	buf->ops = ops;
	FT_TRY(buf->ops->init(ctx->opts->device));
	FT_TRY(buf->ops->alloc(size, &addr));
	buf->addr = addr;
	buf->size = size;
	if (!wants_registration(ctx, buf))
		return 0;
	ret = buf_register(ctx, buf, FI_SEND | FI_RECV);
	if (ret)
		ft_buf_free(buf);
	return ret;
}

int ft_buf_alloc(struct ft_ctx *ctx, struct ft_buf *buf, enum fi_hmem_iface iface, size_t size)
{
	return ft_buf_alloc_by(ctx, buf, ft_mem_ops(iface), size);
}

int ft_buf_share(struct ft_ctx *ctx, struct ft_buf *buf, uint64_t access)
{
	const int mode = ctx->info->domain_attr->mr_mode;

	if (buf->mr)
		fi_close(&buf->mr->fid);
	FT_TRY(buf_register(ctx, buf, access));
	buf->key = fi_mr_key(buf->mr);
	buf->base = mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC) ? (uintptr_t) buf->addr : 0;
	return 0;
}

void ft_buf_free(struct ft_buf *buf)
{
	int ret = buf->mr ? fi_close(&buf->mr->fid) : 0;

	if (ret)
		ft_fail(ret, "fi_close", "memory region");
	if (buf->addr)
		buf->ops->release(buf->addr);
	memset(buf, 0, sizeof(*buf));
}
