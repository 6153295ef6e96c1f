/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections, for -e msg. One end listens, and opens its endpoint when a request comes. The
 * other end asks. Events of the connection come in an event queue.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ft.h"

#define SLEEP_MS 100  /* between looks at the clock and at the peers */
#define TAIL_ROOM 256 /* for what peers and newer releases add to an event */

int ft_eq_open(struct ft_ctx *ctx)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	int ret = ctx->eq ? 0 : fi_eq_open(ctx->fabric, &attr, &ctx->eq, NULL);

	return ret ? ft_fail(ret, "fi_eq_open", "%s", ctx->info->fabric_attr->prov_name) : 0;
}

int ft_listen(struct ft_ctx *ctx, int fd)
{
	struct ft_name name;
	int ret;

	FT_TRY(ft_fabric_open(ctx));
	FT_TRY(ft_eq_open(ctx));
	ret = fi_passive_ep(ctx->fabric, ctx->info, &ctx->pep, NULL);
	if (ret)
		return ft_fail(ret, "fi_passive_ep", "%s", ctx->info->fabric_attr->prov_name);
	ret = fi_pep_bind(ctx->pep, &ctx->eq->fid, 0);
	if (ret)
		return ft_fail(ret, "fi_pep_bind", "event queue");
	ret = fi_listen(ctx->pep);
	if (ret)
		return ft_fail(ret, "fi_listen", "%s", ctx->info->fabric_attr->prov_name);
	FT_TRY(ft_getname(ctx, &name));
	return fd < 0 ? 0 : ft_oob_send(fd, &name, sizeof(name));
}

int ft_resolve_listener(struct ft_ctx *ctx, int fd)
{
	struct fi_info *hints = ctx->hints;
	struct ft_name name;

	FT_TRY(ft_oob_recv(fd, &name, sizeof(name), ctx->opts->timeout));
	hints->dest_addrlen = FT_MIN(name.len, sizeof(name.bytes));
	hints->dest_addr = malloc(hints->dest_addrlen);
	if (!hints->dest_addr)
		return ft_fail(-FI_ENOMEM, "malloc", "the listener's name");
	memcpy(hints->dest_addr, name.bytes, hints->dest_addrlen);
	return ft_getinfo(ctx, NULL, NULL, 0);
}

static int read_error(struct ft_ctx *ctx)
{
	union {
		struct fi_eq_err_entry entry;
		char room[sizeof(struct fi_eq_err_entry) + TAIL_ROOM];
	} err = {.room = {0}};
	ssize_t ret = fi_eq_readerr(ctx->eq, &err.entry, 0);
	char text[128];

	if (ret < 0)
		return ft_fail((int) ret, "fi_eq_readerr", "after -FI_EAVAIL");
	return ft_fail(-err.entry.err, "fi_eq_readerr", "connection: %s",
		       fi_eq_strerror(ctx->eq, err.entry.prov_errno, err.entry.err_data, text,
				      sizeof(text)));
}

ssize_t ft_eq_wait_any(struct ft_ctx *ctx, uint32_t *type, struct ft_event *event)
{
	const double begun = ft_usec(), deadline = begun + (double) ctx->opts->timeout * 1e6;
	ssize_t ret;

	while ((ret = fi_eq_sread(ctx->eq, type, event->room, sizeof(event->room), SLEEP_MS,
				  0)) == -FI_EAGAIN) {
		for (int i = 0; i < ctx->watch_count; i++)
			if (ft_oob_closed(ctx->watch_fd[i]))
				return ft_fail(-FI_ECONNRESET, "connecting",
					       "the peer has ended; its output says why");
		FT_TRY(ft_absent(ctx, ft_usec() - begun));
		if (ft_usec() > deadline)
			return ft_fail(-FI_ETIMEDOUT, "connecting",
				       "no event for %ld s (--timeout)", ctx->opts->timeout);
	}
	ft_progress_note();
	event->data_len =
		ret > (ssize_t) sizeof(event->entry) ? (size_t) ret - sizeof(event->entry) : 0;
	return ret;
}

int ft_eq_wait(struct ft_ctx *ctx, uint32_t type, struct ft_event *event)
{
	uint32_t found;
	ssize_t ret = ft_eq_wait_any(ctx, &found, event);

	if (ret == -FI_EAVAIL)
		return read_error(ctx);
	if (ret < 0)
		return ft_fail((int) ret, "fi_eq_sread", "event queue");
	FT_CHECK(ret >= (ssize_t) sizeof(event->entry) && found == type,
		 "event %" PRIu32 " of %zd bytes instead of %" PRIu32, found, ret, type);
	return 0;
}

int ft_request_wait(struct ft_ctx *ctx)
{
	struct ft_event event;

	FT_TRY(ft_eq_wait(ctx, FI_CONNREQ, &event));
	FT_CHECK(event.entry.fid == &ctx->pep->fid,
		 "a connection request for another endpoint");
	fi_freeinfo(ctx->info);
	ctx->info = event.entry.info;
	return 0;
}

int ft_connect(struct ft_ctx *ctx)
{
	struct ft_event event;
	int ret;

	if (!ft_connected(ctx))
		return 0;
	ret = ctx->pep ? fi_accept(ctx->ep, NULL, 0)
		       : fi_connect(ctx->ep, ctx->info->dest_addr, NULL, 0);
	if (ret)
		return ft_fail(ret, ctx->pep ? "fi_accept" : "fi_connect", "%s",
			       ctx->info->fabric_attr->prov_name);
	FT_TRY(ft_eq_wait(ctx, FI_CONNECTED, &event));
	FT_CHECK(event.entry.fid == &ctx->ep->fid, "another endpoint is connected");
	return 0;
}
