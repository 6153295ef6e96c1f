/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages: NCCL's calls of the plugin's interface for networks. See gin.c. */
#include <string.h>

#include "gin_world.h"

#define CROWD 1200

struct way {
	void *comm, *mr[2];
};

/* Messages around a ring, from host and device memory by turns */
static int ring_round(struct world *w, struct way *out, struct way *in, size_t round)
{
	const int me = w->proc->rank, ranks = w->proc->ranks;
	const int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
	const size_t len = gin_len(round);
	const struct ft_slot from = gin_slot(w, false, next, len);
	const struct ft_slot to = gin_slot(w, true, before, LARGEST);
	const double end = ft_usec() + (double) w->proc->opts.timeout * 1e6;
	void *target = w->data.addr + to.off, *send = NULL, *recv = NULL;
	size_t room = LARGEST;
	int tag = 0, sent = 0, came = 0, size = -1;

	FT_TRY(ft_slot_fill(&from, gin_key(round, me, next)));
	FT_TRY(ft_slot_arm(&to));
	while (!sent || !came) {
		FT_CHECK(ft_usec() < end, "a message of %zu bytes does not end", len);
		if (!recv)
			FT_TRY(gin_check(w->net->irecv(in->comm, 1, &target, &room, &tag,
						       &in->mr[0], NULL, &recv),
					 "irecv"));
		if (!send)
			FT_TRY(gin_check(w->net->isend(out->comm, w->data.addr + from.off, len,
						       tag, out->mr[0], NULL, &send),
					 "isend"));
		if (send && !sent)
			FT_TRY(gin_check(w->net->test(send, &sent, NULL), "test of a send"));
		if (recv && !came)
			FT_TRY(gin_check(w->net->test(recv, &came, &size),
					 "test of a receive"));
	}
	FT_CHECK((size_t) size == len, "%d bytes have come, not %zu", size, len);
	return ft_slot_check(&to, len, gin_key(round, before, me), "a message");
}

/*
 * More messages than libfabric takes at once, and receives after them: what does not fit has no request, as NCCL has it, and
 * holds nothing up.
 */
static int crowd(struct world *w, struct way *out, struct way *in)
{
	const int next = (w->proc->rank + 1) % w->proc->ranks;
	const size_t len = (size_t) 32 << 10;
	const double end = ft_usec() + (double) w->proc->opts.timeout * 1e6;
	const struct ft_slot from = gin_slot(w, false, next, len),
			     to = gin_slot(w, true, 0, len);
	void *reqs[2 * CROWD] = {NULL}, *target = w->data.addr + to.off;
	size_t room = len, begun = 0, ended = 0;
	int tag = 0, done;

	while (ended < FT_COUNT(reqs)) {
		FT_CHECK(ft_usec() < end, "%zu messages have begun, %zu ended", begun, ended);
		/* first what is sent, then what is received; each waits for a request */
		for (size_t i = 0; i < FT_COUNT(reqs); i++) {
			if (reqs[i])
				continue;
			if (i < CROWD)
				FT_TRY(gin_check(w->net->isend(out->comm,
							       w->data.addr + from.off, len,
							       tag, out->mr[0], NULL, &reqs[i]),
						 "isend"));
			else
				FT_TRY(gin_check(w->net->irecv(in->comm, 1, &target, &room,
							       &tag, &in->mr[0], NULL,
							       &reqs[i]),
						 "irecv"));
			begun += reqs[i] != NULL;
		}
		for (size_t i = 0; i < FT_COUNT(reqs); i++) {
			if (!reqs[i] || reqs[i] == &tag)
				continue;
			FT_TRY(gin_check(w->net->test(reqs[i], &done, NULL), "test"));
			if (done)
				reqs[i] = &tag;
			ended += done != 0;
		}
	}
	ft_progress_note();
	return ft_meet_all(w->proc);
}

/*
 * NCCL aborts without waiting for what it receives: it deregisters that memory, and frees it. So a message that comes late is the
 * next receive's.
 */
static int aborted(struct world *w, struct way *out, struct way *in)
{
	const int type = w->data.ops->iface == FI_HMEM_CUDA ? NCCL_CUDA : NCCL_HOST;
	const struct ft_slot to = gin_slot(w, true, w->proc->rank, LARGEST);
	void *target = w->data.addr + to.off, *req = NULL;
	size_t room = LARGEST;
	int tag = 0;

	while (!req)
		FT_TRY(gin_check(w->net->irecv(in->comm, 1, &target, &room, &tag, &in->mr[0],
					       NULL, &req),
				 "irecv"));
	FT_TRY(gin_check(w->net->dereg_mr(in->comm, in->mr[0]), "deregistering"));
	FT_TRY(gin_check(w->net->reg_mr(in->comm, w->data.addr, w->data.size, type, &in->mr[0]),
			 "registering"));
	FT_TRY(ft_meet_all(w->proc));
	return ring_round(w, out, in, 0);
}

/* Two ways of a ring: to the next rank, and from the one before */
static int ring_connect(struct world *w, void *ctx, char handles[][NCCL_HANDLE_MAX],
			struct way *out, struct way *in)
{
	const int me = w->proc->rank, next = (me + 1) % w->proc->ranks;
	const int type = w->data.ops->iface == FI_HMEM_CUDA ? NCCL_CUDA : NCCL_HOST;
	void *listens, *unused = NULL;

	FT_TRY(gin_check(w->net->listen(ctx, 0, handles[me], &listens), "listen"));
	FT_TRY(gin_exchange(w->proc, w->proc->ranks, handles, NCCL_HANDLE_MAX));
	FT_TRY(gin_check(w->net->connect(ctx, 0, handles[next], &out->comm, &unused),
			 "connect"));
	FT_TRY(gin_check(w->net->accept(listens, &in->comm, &unused), "accept"));
	FT_TRY(gin_check(w->net->close_listen(listens), "close of a listener"));
	FT_TRY(gin_check(w->net->reg_mr(out->comm, w->data.addr, w->data.size, type,
					&out->mr[0]),
			 "registering"));
	return gin_check(w->net->reg_mr(in->comm, w->data.addr, w->data.size, type, &in->mr[0]),
			 "registering");
}

static int ring_close(struct world *w, void *ctx, struct way *out, struct way *in)
{
	FT_TRY(gin_check(w->net->dereg_mr(out->comm, out->mr[0]), "deregistering"));
	FT_TRY(gin_check(w->net->dereg_mr(in->comm, in->mr[0]), "deregistering"));
	FT_TRY(gin_check(w->net->close_send(out->comm), "close"));
	FT_TRY(gin_check(w->net->close_recv(in->comm), "close"));
	return gin_check(w->net->finalize(ctx), "finalize");
}

/* Rank 0 begins a long message to rank 1, and does not move it on. Rank 1 waits a little for it. */
static int begin_one(struct world *w, struct way *out, struct way *in,
		     const struct ft_slot *slot, void **mr)
{
	void *target = slot->buf->addr + slot->off, *req = NULL;
	const bool sends = !w->proc->rank;
	size_t room = slot->len;
	int tag = 0, done = 0;

	FT_TRY(gin_check(w->net->reg_mr(sends ? out->comm : in->comm, slot->buf->addr,
					slot->buf->size, NCCL_HOST, mr),
			 "registering host memory"));
	while (sends && !req)
		FT_TRY(gin_check(w->net->isend(out->comm, target, room, tag, *mr, NULL, &req),
				 "isend"));
	FT_TRY(ft_meet_all(w->proc));
	while (w->proc->rank == 1 && !req)
		FT_TRY(gin_check(w->net->irecv(in->comm, 1, &target, &room, &tag, mr, NULL,
					       &req),
				 "irecv"));
	for (int i = 0; i < 1000 && w->proc->rank == 1 && !done; i++)
		FT_TRY(gin_check(w->net->test(req, &done, NULL), "test"));
	return 0;
}

/*
 * NCCL aborts while a message comes. Once its memory is deregistered nothing is written there any more, though the process' other
 * communicators go on. That memory is the host's, as NCCL stages.
 */
static int aborted_amid(struct world *w, struct way *out, struct way *in)
{
	char handles[FT_MAX_RANKS][NCCL_HANDLE_MAX];
	struct ft_buf host = {.ops = ft_mem_ops(FI_HMEM_SYSTEM), .size = SLOT};
	const struct ft_slot slot = {&host, 0, SLOT, OFFSET, LARGEST};
	struct way other_out = {NULL}, other_in = {NULL};
	void *ctx, *addr, *mr;

	FT_TRY(host.ops->alloc(host.size, &addr));
	host.addr = addr;
	FT_TRY(ft_slot_fill(&slot, 1));
	FT_TRY(gin_check(w->net->init(&ctx, 2, NULL, gin_say, NULL), "init of another"));
	FT_TRY(ring_connect(w, ctx, handles, &other_out, &other_in));
	FT_TRY(ring_round(w, &other_out, &other_in, 0));
	FT_TRY(begin_one(w, &other_out, &other_in, &slot, &mr));
	if (w->proc->rank) {
		FT_TRY(gin_check(w->net->dereg_mr(other_in.comm, mr), "deregistering"));
		FT_TRY(ft_slot_arm(&slot));
	}
	FT_TRY(ft_meet_all(w->proc));
	for (size_t round = 0; round < 2 * ROUNDS; round++)
		FT_TRY(ring_round(w, out, in, round));
	if (w->proc->rank)
		FT_TRY(ft_slot_guards(&slot, 0, "what NCCL has freed"));
	else
		FT_TRY(gin_check(w->net->dereg_mr(other_out.comm, mr), "deregistering"));
	FT_TRY(ring_close(w, ctx, &other_out, &other_in));
	host.ops->release(addr);
	return ft_meet_all(w->proc);
}

int gin_messages(struct world *w)
{
	char handles[FT_MAX_RANKS][NCCL_HANDLE_MAX];
	const int next = (w->proc->rank + 1) % w->proc->ranks;
	struct nccl_props_v11 props;
	struct way out = {NULL}, in = {NULL};
	void *ctx, *unused = NULL;
	int devices = 0;

	FT_TRY(gin_check(w->net->init(&ctx, 1, NULL, gin_say, NULL), "init of messages"));
	FT_TRY(gin_check(w->net->devices(&devices), "devices"));
	FT_TRY(gin_check(w->net->get_properties(0, &props), "properties"));
	FT_CHECK(devices == 1 && props.device.memory == (NCCL_HOST | NCCL_CUDA),
		 "one device for both");
	FT_TRY(ring_connect(w, ctx, handles, &out, &in));
	for (size_t round = 0; round < 2 * ROUNDS; round++)
		FT_TRY(ring_round(w, &out, &in, round));
	FT_TRY(ft_meet_all(w->proc));
	FT_TRY(crowd(w, &out, &in));
	FT_TRY(aborted(w, &out, &in));
	FT_TRY(aborted_amid(w, &out, &in));
	memset(handles[next], 1, NCCL_HANDLE_MAX);
	FT_CHECK(w->net->connect(ctx, 0, handles[next], &unused, &unused) == NCCL_INVALID_USAGE,
		 "a handle of somebody else's is taken");
	return ring_close(w, ctx, &out, &in);
}
