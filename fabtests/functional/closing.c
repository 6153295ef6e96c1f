/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_closing: endpoints of one domain that send to each other are closed one after the other amid
 * their messages, and opened again: no crash, nothing that cannot be closed, and what is let end is right.
 */
#include <stdio.h>
#include <string.h>

#include "ft_test.h"

#define ENDPOINTS 3
#define EACH 6 /* messages from each endpoint to each */
#define COUNT (ENDPOINTS * ENDPOINTS * EACH)
#define SIZE ((size_t)60000)
#define PLACE (SIZE + FT_ROOM)

struct node {
	struct fid_ep *ep;
	fi_addr_t addr;
};

struct state {
	struct ft_ctx ctx;
	struct ft_buf tx, rx;
	struct node node[ENDPOINTS];
	struct ft_req send[COUNT], recv[COUNT];
	uint64_t random, key;
};

static int node_open(struct state *s, struct node *n)
{
	struct ft_name name = {.len = sizeof(name.bytes)};
	size_t len = sizeof(name.bytes);
	int ret = fi_endpoint(s->ctx.domain, s->ctx.info, &n->ep, NULL);

	if (!ret)
		ret = fi_ep_bind(n->ep, &s->ctx.cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(n->ep, &s->ctx.av->fid, 0);
	if (!ret)
		ret = fi_enable(n->ep);
	if (!ret)
		ret = fi_getname(&n->ep->fid, name.bytes, &len);
	if (ret)
		return ft_fail(ret, "endpoint", "opened again");
	ret = fi_av_insert(s->ctx.av, name.bytes, 1, &n->addr, 0, NULL);
	return ret == 1 ? 0 : ft_fail(ret < 0 ? ret : -FI_EOTHER, "fi_av_insert", "a name");
}

static struct ft_slot slot(const struct ft_buf *buf, size_t i)
{
	return (struct ft_slot){buf, i * PLACE, PLACE, i * PLACE + 64, SIZE};
}

/* Message @i, between the endpoints that its number says */
static int post(struct state *s, size_t i)
{
	const struct node *from = &s->node[i / EACH % ENDPOINTS];
	const struct node *to = &s->node[i / EACH / ENDPOINTS];
	const struct ft_slot in = slot(&s->rx, i), out = slot(&s->tx, i);
	ssize_t ret;

	FT_TRY(ft_slot_arm(&in));
	FT_TRY(ft_slot_fill(&out, s->key + i));
	while ((ret = fi_trecv(to->ep, s->rx.addr + in.off, SIZE, s->rx.desc, FI_ADDR_UNSPEC, i, 0,
			       &s->recv[i])) == -FI_EAGAIN)
		FT_TRY(ft_progress(&s->ctx) < 0);
	if (ret)
		return ft_fail((int)ret, "fi_trecv", "message %zu", i);
	while ((ret = fi_tsend(from->ep, s->tx.addr + out.off, SIZE, s->tx.desc, to->addr, i,
			       &s->send[i])) == -FI_EAGAIN)
		FT_TRY(ft_progress(&s->ctx) < 0);
	return ret ? ft_fail((int)ret, "fi_tsend", "message %zu", i) : 0;
}

static int check_all(struct state *s)
{
	FT_TRY(ft_wait(&s->ctx, s->send, COUNT));
	FT_TRY(ft_wait(&s->ctx, s->recv, COUNT));
	for (size_t i = 0; i < COUNT; i++) {
		const struct ft_slot in = slot(&s->rx, i);

		FT_TRY(ft_slot_check(&in, SIZE, s->key + i, "a message between endpoints"));
	}
	return 0;
}

/* A few reads of the queue; what goes on at closed endpoints ends with errors, or not at all */
static void progress(struct state *s, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ft_progress(&s->ctx);
}

static int cycle(struct state *s, bool whole)
{
	int ret;

	s->key += COUNT;
	memset(s->send, 0, sizeof(s->send));
	memset(s->recv, 0, sizeof(s->recv));
	for (size_t i = 0; i < ENDPOINTS; i++)
		FT_TRY(node_open(s, &s->node[i]));
	for (size_t i = 0; i < COUNT; i++)
		FT_TRY(post(s, i));
	if (whole)
		FT_TRY(check_all(s));
	else
		progress(s, ft_random(&s->random) % 60);
	for (size_t i = 0; i < ENDPOINTS; i++) {
		ret = fi_close(&s->node[i].ep->fid);
		if (ret)
			return ft_fail(ret, "fi_close", "endpoint %zu", i);
		progress(s, 50);
	}
	for (size_t i = 0; i < ENDPOINTS; i++) {
		ret = fi_av_remove(s->ctx.av, &s->node[i].addr, 1, 0);
		if (ret)
			return ft_fail(ret, "fi_av_remove", "endpoint %zu", i);
	}
	return 0;
}

/*
 * "net" crashes at a connection that is being made to a closed endpoint, "shm" when something is
 * sent to one of the same process; ofi_rxm of 1.17 cannot close its fabric any more when one had sent
 * host memory in parts.
 */
static bool core_survives(const struct ft_proc *proc)
{
	const char *prov = proc->opts.prov;

	return prov && !strncmp(prov, "tcp;", 4) &&
	       (proc->opts.iface != FI_HMEM_SYSTEM || !strstr(prov, "ofi_rxm"));
}

static int run(struct ft_proc *proc)
{
	static struct state s;
	const size_t cycles = proc->opts.quick ? 20 : 200;

	if (!core_survives(proc))
		return ft_skip("%s does not survive this, or not with such memory",
			       proc->opts.prov ? proc->opts.prov : "the core provider");

	s.random = proc->opts.seed;
	FT_TRY(ft_test_hints(proc, &s.ctx));
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.tx, proc->opts.iface, COUNT * PLACE));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.rx, proc->opts.iface, COUNT * PLACE));
	for (size_t i = 0; i < cycles; i++) {
		if (cycle(&s, i % 2))
			return ft_fail(-FI_EOTHER, "test", "cycle %zu", i);
	}
	ft_buf_free(&s.tx);
	ft_buf_free(&s.rx);
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Endpoints are closed amid their messages, and opened again.",
		.ranks = 1,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
