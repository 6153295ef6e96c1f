/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_peerdeath: a peer is killed while large transfers to and from it are under way.
 * The survivor does not crash or hang, goes on talking with another peer, and can close
 * everything soon, whether or not the lost operations ever completed. With FI_P2P_PEER_TIMEOUT
 * set, what it sends from device memory by way of ofi_p2p ends. Below fi_p2p_hosts the peer's
 * host dies with it: nothing tells the survivor then.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ft_test.h"

enum { SURVIVOR, VICTIM, OTHER, RANKS };

#define TRANSFERS 4
#define TAG_LOST 1
#define TAG_GOOD 2
#define GOOD_MESSAGES 8
#define GOOD_SIZE 300001
#define SETTLE_US 500e3 /* progress driven after the death */
#define CLOSE_LIMIT_US 10e6

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf lost, good;
	size_t lost_size;
	struct ft_req send[TRANSFERS], recv[TRANSFERS];
};

/* Not for ever: cores may try to connect again and again to one that is dead already. */
static int post(struct side *s, int peer, const struct ft_op *op)
{
	ssize_t ret;
	int n;

	while ((ret = ft_post_once(&s->ctx, op)) && !ft_oob_closed(s->proc->fd[peer])) {
		if (ret != -FI_EAGAIN)
			return ft_fail((int) ret, "posting", "a transfer");
		n = ft_progress(&s->ctx);
		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(&s->ctx));
	}
	return 0;
}

static int post_all(struct side *s, int peer, enum ft_call call)
{
	struct ft_req *reqs = call == FT_SEND ? s->send : s->recv;
	const size_t first = call == FT_SEND ? TRANSFERS : 0;

	for (size_t i = 0; i < TRANSFERS; i++) {
		struct ft_op op = {
			.call = call,
			.tagged = true,
			.addr = s->ctx.peer[peer],
			.tag = TAG_LOST,
			.req = &reqs[i],
		};

		ft_op_buf(&op, &s->lost, (first + i) * s->lost_size, s->lost_size);
		FT_TRY(post(s, peer, &op));
	}
	return 0;
}

/*
 * Receives are up on both sides before anything is sent: libfabric's tcp (2.6 still)
 * crashes by itself when a peer dies that has sent half of an unexpected message.
 */
static int start_transfers(struct side *s, int peer)
{
	char byte = 0;

	FT_TRY(post_all(s, peer, FT_RECV));
	FT_TRY(ft_oob_send(s->proc->fd[peer], &byte, 1));
	FT_TRY(ft_oob_recv(s->proc->fd[peer], &byte, 1, s->proc->opts.timeout));
	return post_all(s, peer, FT_SEND);
}

/* Both directions; @first says who sends first. */
static int good_exchange(struct side *s, int peer, bool first)
{
	for (uint64_t i = 0; i < 2 * GOOD_MESSAGES; i++) {
		const bool send = (i % 2 == 0) == first;
		const struct ft_slot slot = {&s->good, 0, GOOD_SIZE + FT_ROOM, 64, GOOD_SIZE};
		struct ft_req req = {0};
		struct ft_op op = {
			.call = send ? FT_SEND : FT_RECV,
			.tagged = true,
			.addr = s->ctx.peer[peer],
			.tag = TAG_GOOD,
			.req = &req,
		};

		FT_TRY(send ? ft_slot_fill(&slot, i) : ft_slot_arm(&slot));
		ft_op_buf(&op, slot.buf, slot.off, slot.len);
		FT_TRY(ft_post(&s->ctx, &op));
		FT_TRY(ft_wait(&s->ctx, &req, 1));
		if (!send)
			FT_TRY(ft_slot_check(&slot, GOOD_SIZE, i, "other peer's message"));
	}
	return 0;
}

/* A random number of polls into the transfers, so that runs die at different points. */
static int victim(struct side *s)
{
	uint64_t rnd = s->proc->opts.seed;
	const uint64_t polls = ft_random(&rnd) % 3000;
	uint64_t lost;

	FT_TRY(good_exchange(s, SURVIVOR, false));
	FT_TRY(start_transfers(s, SURVIVOR));
	for (uint64_t i = 0; i < polls; i++)
		if (ft_progress(&s->ctx) < 0)
			break;
	if (ft_link_there())
		FT_TRY(ft_link_tell("cut 1", &lost));
	raise(SIGKILL);
	return -FI_EOTHER;
}

/* The others are the core's, which may keep them for ever. */
static bool sends_end(const struct side *s)
{
	return getenv("FI_P2P_PEER_TIMEOUT") && s->proc->opts.iface != FI_HMEM_SYSTEM &&
	       strstr(s->ctx.info->fabric_attr->prov_name, "ofi_p2p");
}

static int drain(struct side *s)
{
	size_t done = 0, failed = 0;

	if (sends_end(s))
		for (size_t i = 0; i < TRANSFERS; i++)
			while (!s->send[i].done)
				FT_TRY(ft_progress_for(&s->ctx, SETTLE_US));
	FT_TRY(ft_progress_for(&s->ctx, SETTLE_US));
	for (size_t i = 0; i < TRANSFERS; i++) {
		done += s->send[i].done + s->recv[i].done;
		failed += (s->send[i].done && s->send[i].err) +
			  (s->recv[i].done && s->recv[i].err);
	}
	printf("of %d lost transfers %zu ended, %zu of them with an error\n", 2 * TRANSFERS,
	       done, failed);
	return 0;
}

static int survivor(struct side *s)
{
	FT_TRY(good_exchange(s, OTHER, true));
	/* they know each other */
	FT_TRY(good_exchange(s, VICTIM, true));
	FT_TRY(start_transfers(s, VICTIM));
	while (!ft_oob_closed(s->proc->fd[VICTIM])) {
		int n = ft_progress(&s->ctx);

		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(&s->ctx));
	}
	FT_TRY(drain(s));
	return good_exchange(s, OTHER, false);
}

static int closing(struct side *s)
{
	const bool rxm = strstr(s->ctx.info->fabric_attr->prov_name, "ofi_rxm");
	const double start = ft_usec();
	char byte = 0;
	int ret;

	if (s->proc->rank == SURVIVOR) {
		/* The endpoint first: it may still write into the buffers. */
		FT_TRY(fi_close(&s->ctx.ep->fid));
		s->ctx.ep = NULL;
	}
	ft_buf_free(&s->lost);
	ft_buf_free(&s->good);
	ret = ft_close(&s->ctx);
	/* ofi_rxm keeps its own registrations of lost rendezvous sends, so its domain. */
	if (ret == -FI_EBUSY && rxm)
		printf("note: ofi_rxm does not close its domain after a peer's death\n");
	else
		FT_TRY(ret);
	FT_CHECK(ft_usec() - start < CLOSE_LIMIT_US, "closing took %.1f s",
		 (ft_usec() - start) / 1e6);
	/* Neither leaves before the other has closed. */
	FT_TRY(ft_oob_send(s->proc->fd[s->proc->rank ^ OTHER], &byte, 1));
	return ft_oob_recv(s->proc->fd[s->proc->rank ^ OTHER], &byte, 1, s->proc->opts.timeout);
}

static int run(struct ft_proc *proc)
{
	static struct side s; /* the provider may hold requests until the very end */

	if (proc->opts.prov && !strncmp(proc->opts.prov, "shm", 3))
		return ft_skip("shm's peers share locks: one that is killed at the wrong "
			       "moment stops the others, whatever we do");
	if (ft_link_there() && proc->opts.prov && strstr(proc->opts.prov, "ofi_rxm"))
		return ft_skip(
			"ofi_rxm 1.17 crashes in fi_close() if the link to a peer stays cut "
			"(6 of 12 without ofi_p2p)");
	s.proc = proc;
	s.lost_size = (proc->opts.quick ? 8 : 32) * 1048576;
	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.watch_count = 0; /* that a peer goes is the point */
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.lost, proc->opts.iface, 2 * TRANSFERS * s.lost_size));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.good, proc->opts.iface, GOOD_SIZE + FT_ROOM));
	switch (proc->rank) {
	case SURVIVOR:
		FT_TRY(survivor(&s));
		break;
	case VICTIM:
		return victim(&s);
	case OTHER:
		FT_TRY(good_exchange(&s, SURVIVOR, false));
		FT_TRY(good_exchange(&s, SURVIVOR, true));
		break;
	}
	return closing(&s);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "A peer is killed in the middle of large transfers.",
		.ranks = RANKS,
		.may_die = VICTIM,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
