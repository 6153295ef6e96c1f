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
#define SIZE ((size_t) 60000)
#define PLACE (SIZE + FT_ROOM)

/* One of them: a context like the first, but for its endpoint */
struct node {
	struct ft_ctx ctx;
	fi_addr_t addr;
};

struct state {
	struct ft_ctx ctx;
	struct ft_buf tx, rx;
	struct node node[ENDPOINTS];
	struct ft_req send[COUNT], recv[COUNT];
	uint64_t random, key;
};

/*
 * For the leak sanitizer, by the name that it asks for. An endpoint of tcp 1.17's that is closed while
 * another connects to it loses the connection that it has just accepted (allocated under accept()).
 */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void)
{
	return "leak:libfabric.so";
}

static int node_open(struct state *s, struct node *n)
{
	struct ft_name name;

	n->ctx = s->ctx;
	FT_TRY(ft_ep_open(&n->ctx));
	FT_TRY(ft_getname(&n->ctx, &name));
	return ft_av_insert(&n->ctx, name.bytes, &n->addr);
}

static struct ft_slot slot(const struct ft_buf *buf, size_t i)
{
	return (struct ft_slot){buf, i * PLACE, PLACE, i * PLACE + 64, SIZE};
}

/* Message @i, between the endpoints that its number says */
static int post(struct state *s, size_t i)
{
	struct node *from = &s->node[i / EACH % ENDPOINTS],
		    *to = &s->node[i / EACH / ENDPOINTS];
	const struct ft_slot in = slot(&s->rx, i), out = slot(&s->tx, i);
	struct ft_op recv = {
		.call = FT_RECV,
		.tagged = true,
		.addr = FI_ADDR_UNSPEC,
		.tag = i,
		.req = &s->recv[i],
	};
	struct ft_op send = {
		.call = FT_SEND,
		.tagged = true,
		.addr = to->addr,
		.tag = i,
		.req = &s->send[i],
	};

	FT_TRY(ft_slot_arm(&in));
	FT_TRY(ft_slot_fill(&out, s->key + i));
	ft_op_buf(&recv, &s->rx, in.off, SIZE);
	ft_op_buf(&send, &s->tx, out.off, SIZE);
	FT_TRY(ft_post(&to->ctx, &recv));
	return ft_post(&from->ctx, &send);
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

static int post_all(struct state *s)
{
	s->key += COUNT;
	memset(s->send, 0, sizeof(s->send));
	memset(s->recv, 0, sizeof(s->recv));
	for (size_t i = 0; i < COUNT; i++)
		FT_TRY(post(s, i));
	return 0;
}

static int cycle(struct state *s, bool whole)
{
	int ret;

	for (size_t i = 0; i < ENDPOINTS; i++)
		FT_TRY(node_open(s, &s->node[i]));
	FT_TRY(post_all(s));
	if (whole)
		FT_TRY(check_all(s));
	else
		progress(s, ft_random(&s->random) % 60);
	for (size_t i = 0; i < ENDPOINTS; i++) {
		ret = fi_close(&s->node[i].ctx.ep->fid);
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
 * "net" crashes at a connection that is being made to a closed endpoint; ofi_rxm of 1.17 cannot close its
 * fabric any more when one had sent host memory in parts. shm crashes in its progress, at the memory of an
 * endpoint of this process that is closed: 1.17 in 3 of 24 runs, 2.1 in each. That it does so alone is not shown. The
 * simulator closes endpoints over its model of shm.
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
