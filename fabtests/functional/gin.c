/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_gin: libnccl-gin-p2p is called as NCCL calls it, without NCCL: its messages, and then puts and signals by the
 * interface of 2.28 and by that of 2.30, between two to four ranks. All to all with many puts under way; a signal that
 * follows puts of other sizes, and tells of all of them; contexts, weak signals, reads, flushes; and what is wrong.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gin_world.h"

#define WORDS 64
#define CONTEXTS 3

size_t gin_len(size_t i)
{
	static const size_t sizes[] = {8, LARGEST, 1, 70001, 4096, 128 << 10};

	return sizes[i % FT_COUNT(sizes)];
}

struct ft_slot gin_slot(const struct world *w, bool in, int rank, size_t len)
{
	const size_t base = ((in ? (size_t) w->proc->ranks : 0) + (size_t) rank) * SLOT;

	return (struct ft_slot){&w->data, base, SLOT, base + OFFSET, len};
}

uint64_t gin_key(size_t round, int from, int to)
{
	return round * 1000 + (uint64_t) from * 10 + (uint64_t) to;
}

/* ---- waiting ---- */

static int progress(struct world *w)
{
	if (!w->coll)
		return 0;
	return gin_check(w->rma ? w->rma->progress(w->ctx) : w->v11->progress(w->coll),
			 "progress");
}

/* All ranks meet, and go on meanwhile */
static int meet(struct world *w)
{
	struct pollfd polled = {.events = POLLIN};
	char byte = 0;

	for (int i = 0; i < w->proc->ranks; i++)
		if (i != w->proc->rank)
			FT_TRY(ft_oob_send(w->proc->fd[i], &byte, 1));
	for (int i = 0; i < w->proc->ranks; i++) {
		polled.fd = w->proc->fd[i];
		while (i != w->proc->rank && poll(&polled, 1, 0) <= 0)
			FT_TRY(progress(w));
		if (i != w->proc->rank)
			FT_TRY(ft_oob_recv(w->proc->fd[i], &byte, 1, w->proc->opts.timeout));
	}
	ft_progress_note();
	return 0;
}

static int finish(struct world *w, void **reqs, size_t count)
{
	const double end = ft_usec() + (double) w->proc->opts.timeout * 1e6;
	int done;

	for (size_t i = 0; i < count; i++) {
		for (done = 0; !done;) {
			FT_CHECK(ft_usec() < end, "request %zu of %zu does not end", i, count);
			FT_TRY(gin_check(w->rma ? w->rma->test(w->coll, reqs[i], &done)
						: w->v11->test(w->coll, reqs[i], &done),
					 "test"));
		}
	}
	ft_progress_note();
	return 0;
}

/* Waits until the word of @rank is what it has to be */
static int wait_word(struct world *w, int rank)
{
	const double end = ft_usec() + (double) w->proc->opts.timeout * 1e6;
	uint64_t word = 0;

	while (word != w->expected[rank]) {
		FT_CHECK(ft_usec() < end && word <= w->expected[rank],
			 "rank %d's signals are %llu, not %llu", rank,
			 (unsigned long long) word, (unsigned long long) w->expected[rank]);
		FT_TRY(progress(w));
		FT_TRY(w->words.ops->from(&word, w->words.addr + rank * (int) sizeof(word),
					  sizeof(word)));
	}
	ft_progress_note();
	return 0;
}

/* ---- puts and signals ---- */

/* Of NCCL 2.29.7: the interface, where it is under test, and the context of the next put */
static const struct nccl_gin_v12 *v12;
static int v12_context;

/* One put, with a signal if @value is not 0 */
static int put(struct world *w, int context, int to, size_t len, uint64_t value, bool strong,
	       void **req)
{
	const struct ft_slot from = gin_slot(w, false, to, len);
	const uint64_t far = gin_slot(w, true, w->proc->rank, len).off;
	const uint64_t word = (uint64_t) w->proc->rank * sizeof(uint64_t);
	const uint32_t rank = (uint32_t) to,
		       op = value == 1 ? NCCL_SIGNAL_INC : NCCL_SIGNAL_ADD;

	v12_context = context;
	if (w->v11 && !value)
		return gin_check(w->v11->iput(w->coll, from.off, w->data_mr, len, far,
					      w->data_mr, rank, req),
				 "iput");
	if (w->v11)
		return gin_check(w->v11->iput_signal(w->coll, from.off, w->data_mr, len, far,
						     w->data_mr, rank, word, w->words_mr, value,
						     op, req),
				 "iputSignal");
	if (!value)
		return gin_check(w->rma->iput(w->ctx, context, from.off, w->data_mr, len, far,
					      w->data_mr, rank, req),
				 "iput");
	return gin_check(w->rma->iput_signal(w->ctx, context, from.off, w->data_mr, len, far,
					     w->data_mr, rank, word, w->words_mr, value, op,
					     strong, req),
			 "iputSignal");
}

/*
 * Each rank writes to all, itself as well: the whole in several puts of the same bytes, and a signal. @apart: the signal comes by itself,
 * behind those; else with the last one. All is there once the signal is seen.
 */
static int all_to_all(struct world *w, size_t round, bool apart)
{
	const int me = w->proc->rank, ranks = w->proc->ranks;
	const size_t len = gin_len(round);
	const uint64_t value = round % 2 ? 1 : 7 + round;
	void *reqs[FT_MAX_RANKS * (DEPTH + 1)];
	struct ft_slot slot;
	size_t count = 0;

	for (int i = 0; i < ranks; i++) {
		slot = gin_slot(w, false, i, len);
		FT_TRY(ft_slot_fill(&slot, gin_key(round, me, i)));
		slot = gin_slot(w, true, i, len);
		FT_TRY(ft_slot_arm(&slot));
		w->expected[i] += value;
	}
	FT_TRY(meet(w));
	for (int depth = 0; depth < DEPTH; depth++)
		for (int i = 0; i < ranks; i++)
			FT_TRY(put(w, (int) round % CONTEXTS, i, len,
				   depth == DEPTH - 1 && !apart ? value : 0, true,
				   &reqs[count++]));
	for (int i = 0; apart && i < ranks; i++)
		FT_TRY(put(w, (int) round % CONTEXTS, i, 0, value, true, &reqs[count++]));
	for (int i = 0; i < ranks; i++) {
		FT_TRY(wait_word(w, i));
		slot = gin_slot(w, true, i, len);
		FT_TRY(ft_slot_check(&slot, len, gin_key(round, i, me), "what was put"));
	}
	FT_TRY(finish(w, reqs, count));
	return meet(w);
}

/* What is not in a region, or unknown, is refused, and nothing is written. */
static int wrong(struct world *w)
{
	const int other = (w->proc->rank + 1) % w->proc->ranks;
	const uint32_t rank = (uint32_t) other;
	void *req;
	int ret;

	ret = w->v11 ? w->v11->iput(w->coll, 0, w->data_mr, w->data.size + 1, 0, w->data_mr,
				    rank, &req)
		     : w->rma->iput(w->ctx, 0, 0, w->data_mr, w->data.size + 1, 0, w->data_mr,
				    rank, &req);
	FT_CHECK(ret == NCCL_INVALID_ARGUMENT, "a put beyond the region: result %d", ret);
	ret = w->v11 ? w->v11->iput_signal(w->coll, 0, w->data_mr, 8, 0, w->data_mr, rank,
					   w->words.size - 4, w->words_mr, 1, NCCL_SIGNAL_INC,
					   &req)
		     : w->rma->iput_signal(w->ctx, 0, 0, w->data_mr, 8, 0, w->data_mr, rank,
					   w->words.size - 4, w->words_mr, 1, NCCL_SIGNAL_INC,
					   true, &req);
	FT_CHECK(ret == NCCL_INVALID_ARGUMENT, "a signal beyond the region: result %d", ret);
	ret = w->v11 ? w->v11->iput(w->coll, 0, w->data_mr, 8, 0, w->data_mr,
				    (uint32_t) w->proc->ranks, &req)
		     : w->rma->iput(w->ctx, CONTEXTS, 0, w->data_mr, 8, 0, w->data_mr, rank,
				    &req);
	FT_CHECK(ret == NCCL_INVALID_ARGUMENT, "an unknown rank or context: result %d", ret);
	ret = v12 ? v12->iput(w->coll, 0, w->data_mr, 8, 0, w->data_mr, rank, CONTEXTS, &req)
		  : NCCL_INVALID_ARGUMENT;
	FT_CHECK(ret == NCCL_INVALID_ARGUMENT, "an unknown context of 2.29: result %d", ret);
	return 0;
}

/* Puts and reads, with weak signals in contexts by turns, and a flush behind them */
static int weak(struct world *w)
{
	const int me = w->proc->rank, next = (me + 1) % w->proc->ranks;
	const int before = (me + w->proc->ranks - 1) % w->proc->ranks;
	const size_t len = gin_len(1);
	struct ft_slot from = gin_slot(w, false, next, len),
		       to = gin_slot(w, true, before, len);
	void *reqs[2 * DEPTH + 1];
	size_t count = 0;

	FT_TRY(ft_slot_fill(&from, gin_key(99, me, next)));
	FT_TRY(ft_slot_arm(&to));
	FT_TRY(meet(w));
	for (int i = 0; i < DEPTH; i++)
		FT_TRY(put(w, i % CONTEXTS, next, len, 3, false, &reqs[count++]));
	w->expected[before] += 3 * DEPTH;
	FT_TRY(wait_word(w, before));
	FT_TRY(ft_slot_check(&to, len, gin_key(99, before, me), "what was put"));
	FT_TRY(finish(w, reqs, count));
	FT_TRY(meet(w));
	/* what the rank before has for me is read into what came from it */
	FT_TRY(ft_slot_arm(&to));
	from = gin_slot(w, false, me, len);
	FT_TRY(gin_check(w->rma->iget(w->ctx, 1, from.off, w->data_mr, len, to.off, w->data_mr,
				      (uint32_t) before, &reqs[0]),
			 "iget"));
	FT_TRY(gin_check(w->rma->iflush(w->ctx, 1, w->data_mr, (uint32_t) before, &reqs[1]),
			 "iflush"));
	FT_TRY(finish(w, &reqs[1], 1));
	FT_TRY(ft_slot_check(&to, len, gin_key(99, before, me), "what was read"));
	FT_TRY(finish(w, reqs, 1));
	return meet(w);
}

/* A flush ends although weak signals behind it never cease. */
static int flush_amid(struct world *w)
{
	const int ranks = w->proc->ranks, next = (w->proc->rank + 1) % ranks;
	void *reqs[DEPTH], *flush;
	int done = 0;

	for (size_t i = 0; i < DEPTH * DEPTH; i++) {
		if (i >= DEPTH)
			FT_TRY(finish(w, &reqs[i % DEPTH], 1));
		FT_TRY(put(w, 0, next, 0, 1, false, &reqs[i % DEPTH]));
		if (i == DEPTH)
			w->rma->iflush(w->ctx, 0, w->data_mr, (uint32_t) next, &flush);
		if (i >= DEPTH && !done)
			FT_TRY(gin_check(w->rma->test(w->coll, flush, &done), "test"));
	}
	FT_CHECK(done, "a flush waits for what is behind it");
	w->expected[(next + 2 * ranks - 2) % ranks] += DEPTH * DEPTH;
	return finish(w, reqs, DEPTH);
}

static int register_one(struct world *w, void *addr, size_t size, int type, uint64_t flags,
			void **mr)
{
	void *unused;

	return gin_check(w->rma ? w->rma->reg_mr(w->coll, addr, size, type, flags, mr)
				: w->v11->reg_mr(w->coll, addr, size, type, flags, mr, &unused),
			 "registering");
}

/* NCCL's thread puts values of kernels' from host memory of its own, and since 2.30 it has signals there, too */
static int values(struct world *w)
{
	uint64_t host[2] = {(uint64_t) w->proc->rank + 40, 0}, got = 0;
	const int me = w->proc->rank, next = (me + 1) % w->proc->ranks;
	const int before = (me + w->proc->ranks - 1) % w->proc->ranks;
	const double end = ft_usec() + (double) w->proc->opts.timeout * 1e6;
	const uint64_t far = gin_slot(w, true, me, sizeof(got)).off;
	void *mr, *req;

	FT_TRY(register_one(w, host, sizeof(host), NCCL_HOST, 0, &mr));
	FT_TRY(gin_check(w->rma ? w->rma->iput_signal(w->ctx, 0, 0, mr, sizeof(got), far,
						      w->data_mr, (uint32_t) next, sizeof(got),
						      mr, 0, NCCL_SIGNAL_INC, true, &req)
				: w->v11->iput_signal(w->coll, 0, mr, sizeof(got), far,
						      w->data_mr, (uint32_t) next, sizeof(got),
						      mr, 0, NCCL_SIGNAL_INC, &req),
			 "iputSignal of a value"));
	while (!__atomic_load_n(&host[1], __ATOMIC_ACQUIRE)) {
		FT_CHECK(ft_usec() < end, "a signal in host memory does not come");
		FT_TRY(progress(w));
	}
	FT_TRY(w->data.ops->from(&got,
				 w->data.addr + gin_slot(w, true, before, sizeof(got)).off,
				 sizeof(got)));
	FT_CHECK(got == (uint64_t) before + 40 && host[1] == 1, "value %llu, signal %llu",
		 (unsigned long long) got, (unsigned long long) host[1]);
	FT_TRY(finish(w, &req, 1));
	FT_TRY(meet(w));
	return gin_check(w->rma ? w->rma->dereg_mr(w->coll, mr) : w->v11->dereg_mr(w->coll, mr),
			 "deregistering");
}

/* Contexts that end while a put of theirs is under way, and others of the communicator go on */
static int left(struct world *w)
{
	struct nccl_rma_config_v14 config = {.contexts = CONTEXTS, .rank_stride = 1};
	const int me = w->proc->rank, next = (me + 1) % w->proc->ranks;
	void *ctx = w->ctx, *req;

	FT_TRY(gin_check(w->rma->create_context(w->coll, &config, &w->ctx), "more contexts"));
	FT_TRY(put(w, 0, next, LARGEST, 0, true, &req));
	FT_TRY(gin_check(w->rma->destroy_context(w->ctx), "end of contexts"));
	w->ctx = ctx;
	FT_TRY(finish(w, &req, 1));
	return meet(w);
}

static int connect_all(struct world *w, void *ctx)
{
	char handles[FT_MAX_RANKS][NCCL_HANDLE_MAX];
	struct nccl_rma_config_v14 config = {.contexts = CONTEXTS, .rank_stride = 1};
	void *all[FT_MAX_RANKS], *listens, *other;
	const int me = w->proc->rank, ranks = w->proc->ranks;

	FT_TRY(gin_check(w->rma ? w->rma->listen(ctx, 0, handles[me], &listens)
				: w->v11->listen(ctx, 0, handles[me], &listens),
			 "listen"));
	FT_TRY(gin_exchange(w->proc, w->proc->ranks, handles, NCCL_HANDLE_MAX));
	for (int i = 0; i < ranks; i++)
		all[i] = handles[i];
	FT_TRY(gin_check(w->rma ? w->rma->connect(ctx, all, ranks, me, listens, &w->coll)
				: w->v11->connect(ctx, all, ranks, me, listens, &w->coll),
			 "connect"));
	FT_CHECK((w->rma ? w->rma->connect(ctx, all, ranks, me, listens, &other)
			 : w->v11->connect(ctx, all, ranks, me, listens, &other)) ==
			 NCCL_INVALID_ARGUMENT,
		 "two communicators of one endpoint");
	if (w->rma)
		FT_TRY(gin_check(w->rma->create_context(w->coll, &config, &w->ctx),
				 "contexts"));
	return gin_check(w->rma ? w->rma->close_listen(listens) : w->v11->close_listen(listens),
			 "close of a listener");
}

static int register_all(struct world *w)
{
	const int type = w->data.ops->iface == FI_HMEM_CUDA ? NCCL_CUDA : NCCL_HOST;
	const uint64_t zero[WORDS] = {0};

	FT_TRY(w->words.ops->to(w->words.addr, zero, sizeof(zero)));
	memset(w->expected, 0, sizeof(w->expected));
	FT_TRY(register_one(w, w->data.addr, w->data.size, type, 0, &w->data_mr));
	return register_one(w, w->words.addr, w->words.size, type, 1, &w->words_mr);
}

/* NCCL 2.30.4 asks for errors, where it can, with a context of its own instead of ours. It begins with the communicator. */
static int close_all(struct world *w, void *ctx)
{
	void *own[32] = {w->coll};
	bool failed = false;

	if (w->rma)
		FT_TRY(gin_check(w->rma->last_error(w->ctx, &failed), "last error"));
	else if (w->v11->last_error)
		FT_TRY(gin_check(w->v11->last_error(own, &failed), "last error"));
	FT_CHECK(!failed, "something has failed");
	FT_TRY(gin_check(w->rma ? w->rma->dereg_mr(w->coll, w->data_mr)
				: w->v11->dereg_mr(w->coll, w->data_mr),
			 "deregistering"));
	FT_TRY(gin_check(w->rma ? w->rma->dereg_mr(w->coll, w->words_mr)
				: w->v11->dereg_mr(w->coll, w->words_mr),
			 "deregistering"));
	if (w->rma)
		FT_TRY(gin_check(w->rma->destroy_context(w->ctx), "end of contexts"));
	FT_TRY(gin_check(w->rma ? w->rma->close_coll(w->coll) : w->v11->close_coll(w->coll),
			 "close"));
	w->coll = w->ctx = NULL;
	return gin_check(w->rma ? w->rma->finalize(ctx) : w->v11->finalize(ctx), "finalize");
}

static int puts_of(struct world *w)
{
	void *ctx;

	FT_TRY(gin_check(w->rma ? w->rma->init(&ctx, 1, gin_say)
				: w->v11->init(&ctx, 1, gin_say),
			 "init"));
	FT_TRY(connect_all(w, ctx));
	FT_TRY(register_all(w));
	for (size_t round = 0; round < 2 * ROUNDS; round++)
		FT_TRY(all_to_all(w, round, round >= ROUNDS));
	FT_TRY(wrong(w));
	FT_TRY(values(w));
	if (w->rma)
		FT_TRY(weak(w));
	if (w->rma)
		FT_TRY(flush_amid(w));
	if (w->rma)
		FT_TRY(left(w));
	return close_all(w, ctx);
}

/* A communicator of its own, for what breaks it */
static int begin(struct world *w, void **ctx)
{
	FT_TRY(gin_check(w->v11->init(ctx, 1, gin_say), "init"));
	FT_TRY(connect_all(w, *ctx));
	FT_TRY(register_all(w));
	return meet(w);
}

/*
 * A put to what its owner has deregistered: it never is done, as NCCL 2.28 looks at that alone and counts the put. The signal
 * behind it is not sent. Since then all is refused, which NCCL tells the application.
 */
static int broken(struct world *w)
{
	const double end = ft_usec() + (double) w->proc->opts.timeout * 1e6;
	const int me = w->proc->rank;
	void *ctx, *req, *signal;
	int ret = NCCL_SUCCESS, done = 0;
	uint64_t word = 0;

	FT_TRY(begin(w, &ctx));
	if (me)
		FT_TRY(gin_check(w->v11->dereg_mr(w->coll, w->data_mr), "deregistering"));
	FT_TRY(meet(w));
	if (!me) {
		FT_TRY(put(w, 0, 1, LARGEST, 0, true, &req));
		FT_TRY(put(w, 0, 1, 0, 7, true, &signal));
		while (ret == NCCL_SUCCESS && !done && ft_usec() < end)
			ret = w->v11->test(w->coll, req, &done);
		FT_CHECK(ret == NCCL_SYSTEM_ERROR && !done, "a lost put: result %d, done %d",
			 ret, done);
		for (ret = NCCL_SUCCESS; ret == NCCL_SUCCESS && !done && ft_usec() < end;)
			ret = w->v11->test(w->coll, signal, &done);
		FT_CHECK(ret == NCCL_SYSTEM_ERROR && !done,
			 "a signal behind a lost put: result %d, done %d", ret, done);
		ret = w->v11->iput(w->coll, 0, w->data_mr, 8, 0, w->data_mr, 1, &req);
		FT_CHECK(ret == NCCL_SYSTEM_ERROR, "a put after a lost one: result %d", ret);
		FT_TRY(gin_check(w->v11->dereg_mr(w->coll, w->data_mr), "deregistering"));
	}
	FT_TRY(meet(w));
	FT_TRY(w->words.ops->from(&word, w->words.addr, sizeof(word)));
	FT_CHECK(!word, "a signal tells of a put that was lost");
	FT_TRY(gin_check(w->v11->dereg_mr(w->coll, w->words_mr), "deregistering"));
	FT_TRY(gin_check(w->v11->close_coll(w->coll), "close"));
	w->coll = NULL;
	return gin_check(w->v11->finalize(ctx), "finalize");
}

/*
 * NCCL aborts: it deregisters memory amid requests, and its thread goes on to ask for more. The signal that has not begun yet is
 * not sent, and what names the region is refused.
 */
static int aborted(struct world *w)
{
	const double end = ft_usec() + (double) w->proc->opts.timeout * 1e6;
	void *ctx, *req, *other;
	int ret = NCCL_SUCCESS, done = 0;
	uint64_t word = 0;

	FT_TRY(begin(w, &ctx));
	if (!w->proc->rank) {
		FT_TRY(put(w, 0, 1, LARGEST, 7, true, &req));
		FT_TRY(gin_check(w->v11->dereg_mr(w->coll, w->words_mr), "deregistering"));
		ret = w->v11->iput(w->coll, 0, w->words_mr, 8, 0, w->data_mr, 1, &other);
		FT_CHECK(ret == NCCL_INVALID_ARGUMENT, "a put of freed memory: result %d", ret);
		for (ret = NCCL_SUCCESS; ret == NCCL_SUCCESS && !done && ft_usec() < end;)
			ret = w->v11->test(w->coll, req, &done);
		FT_CHECK(ret == NCCL_SYSTEM_ERROR && !done,
			 "a signal to freed memory: result %d, done %d", ret, done);
	}
	FT_TRY(meet(w));
	FT_TRY(w->words.ops->from(&word, w->words.addr, sizeof(word)));
	FT_CHECK(!word, "a signal has come behind an abort");
	/* the communicator closes the other region */
	FT_TRY(gin_check(w->v11->close_coll(w->coll), "close"));
	w->coll = NULL;
	return gin_check(w->v11->finalize(ctx), "finalize");
}

/* ---- NCCL 2.30's own way to the interface before the last one ---- */

static const struct nccl_rma_v13 *v13;

static int create_context_v13(void *coll, struct nccl_rma_config_v14 *config, void **ctx)
{
	struct nccl_gin_config_v13 wants = {.contexts = config->contexts};
	void *unused;

	return v13->create_context(coll, &wants, ctx, &unused);
}

static int reg_mr_v13(void *coll, void *data, size_t size, int type, uint64_t flags, void **mr)
{
	void *unused;

	return v13->reg_mr(coll, data, size, type, flags, mr, &unused);
}

static int iput_signal_v13(void *ctx, int context, uint64_t src_off, void *src_mr, size_t size,
			   uint64_t dst_off, void *dst_mr, uint32_t rank, uint64_t signal_off,
			   void *signal_mr, uint64_t value, uint32_t op, bool strong,
			   void **req)
{
	return v13->iput_signal(ctx, context, src_off, src_mr, size, dst_off, dst_mr, rank,
				signal_off, signal_mr, value, op, req);
}

static void as_v14(struct world *w)
{
	static struct nccl_rma_v14 table;

	table = *w->rma;
	table.create_context = create_context_v13;
	table.reg_mr = reg_mr_v13;
	table.iput_signal = iput_signal_v13;
	table.iput = v13->iput;
	table.iget = v13->iget;
	table.iflush = v13->iflush;
	table.test = v13->test;
	table.progress = v13->progress;
	w->rma = &table;
}

/* ---- NCCL 2.29.7's way to that of 2.28 ---- */

static int connect_v12(void *ctx, void *handles[], int nranks, int rank, void *listens,
		       void **coll)
{
	return v12->connect(ctx, handles, nranks, rank, CONTEXTS, DEPTH, listens, coll);
}

static int iput_v12(void *coll, uint64_t src_off, void *src_mr, size_t size, uint64_t dst_off,
		    void *dst_mr, uint32_t rank, void **req)
{
	return v12->iput(coll, src_off, src_mr, size, dst_off, dst_mr, rank, v12_context, req);
}

static int iput_signal_v12(void *coll, uint64_t src_off, void *src_mr, size_t size,
			   uint64_t dst_off, void *dst_mr, uint32_t rank, uint64_t signal_off,
			   void *signal_mr, uint64_t value, uint32_t op, void **req)
{
	return v12->iput_signal(coll, src_off, src_mr, size, dst_off, dst_mr, rank, signal_off,
				signal_mr, value, op, v12_context, req);
}

static int puts_of_v12(struct world *w, const struct nccl_gin_v12 *table)
{
	const struct nccl_gin_v11 as_v11 = {
		.init = table->init,
		.listen = table->listen,
		.connect = connect_v12,
		.reg_mr = table->reg_mr,
		.dereg_mr = table->dereg_mr,
		.close_coll = table->close_coll,
		.close_listen = table->close_listen,
		.iput = iput_v12,
		.iput_signal = iput_signal_v12,
		.test = table->test,
		.progress = table->progress,
		.finalize = table->finalize,
	};
	void *ctx;

	v12 = table;
	w->v11 = &as_v11;
	FT_TRY(begin(w, &ctx));
	for (size_t round = 0; round < CONTEXTS; round++)
		FT_TRY(all_to_all(w, round, round == 1));
	FT_TRY(wrong(w));
	FT_TRY(close_all(w, ctx));
	v12 = NULL;
	return 0;
}

/* ---- the plugin ---- */

static int buffer(struct world *w, struct ft_buf *buf, size_t size)
{
	void *addr;

	*buf = (struct ft_buf){.ops = ft_mem_ops(w->proc->opts.iface), .size = size};
	FT_TRY(buf->ops->init(w->proc->opts.device));
	FT_TRY(buf->ops->alloc(size, &addr));
	buf->addr = addr;
	return 0;
}

/* Where the provider has no atomic operations (tcp since libfabric 1.18), init has to say that there are no puts. */
static int refuses(struct world *w, bool *no_puts)
{
	struct ft_ctx hints;
	void *ctx;

	FT_TRY(ft_test_hints(w->proc, &hints));
	hints.hints->caps |= FI_RMA | FI_ATOMIC;
	*no_puts = !ft_offered(&hints);
	FT_TRY(ft_close(&hints));
	FT_CHECK(!*no_puts || w->v11->init(&ctx, 1, gin_say) == NCCL_SYSTEM_ERROR,
		 "puts without atomic operations");
	return 0;
}

/*
 * NCCL 2.28 finalizes messages whose init has failed; then they have no context, and it may try again. A provider that gives
 * endpoints each other's messages is not taken without a word.
 */
static int no_provider(struct world *w)
{
	void *ctx = NULL;

	setenv("P2P_NCCL_PROVIDER", "none", 1);
	FT_CHECK(w->net->init(&ctx, 1, NULL, gin_say, NULL) == NCCL_SYSTEM_ERROR,
		 "messages without a provider");
	FT_TRY(gin_check(w->net->finalize(ctx), "finalize after a failure"));
	unsetenv("P2P_NCCL_PROVIDER");
	if (w->net->init(&ctx, 1, NULL, gin_say, NULL) == NCCL_SUCCESS)
		FT_CHECK(strstr(gin_heard, "ofi_rxm") || (!strstr(gin_heard, "over net") &&
							  !strstr(gin_heard, "over tcp")),
			 "by itself it says: %s", gin_heard);
	setenv("P2P_NCCL_PROVIDER", w->proc->opts.prov, 1);
	return gin_check(w->net->finalize(ctx), "finalize after a choice");
}

/* init sets a variable, while other threads may be reading the environment: what they read stays as it was. */
static int environment(struct world *w)
{
	char **before = environ, *copy[1024];
	size_t count = 0;
	void *ctx;

	unsetenv("FI_P2P_CUDA_API");
	while (before[count])
		count++;
	FT_CHECK(count < FT_COUNT(copy), "%zu variables", count);
	memcpy(copy, before, (count + 1) * sizeof(*copy));
	FT_TRY(gin_check(w->net->init(&ctx, 1, NULL, gin_say, NULL), "init"));
	FT_CHECK(!memcmp(copy, before, (count + 1) * sizeof(*copy)),
		 "the environment was changed under its readers");
	FT_CHECK(getenv("FI_P2P_CUDA_API"), "the variable was not set");
	return gin_check(w->net->finalize(ctx), "finalize");
}

/* NCCL 2.28 calls init of puts for its first communicator alone, but finalizes all. The others' messages go on. */
static int many_ends(struct world *w)
{
	struct nccl_props_v11 props;
	void *net, *first;

	FT_TRY(gin_check(w->net->init(&net, 1, NULL, gin_say, NULL), "init of messages"));
	FT_TRY(gin_check(w->v11->init(&first, 1, gin_say), "init"));
	FT_TRY(gin_check(w->v11->finalize(first), "finalize of the first"));
	FT_TRY(gin_check(w->v11->finalize(NULL), "finalize of the second"));
	FT_TRY(gin_check(w->net->get_properties(0, &props), "properties of the third"));
	return gin_check(w->net->finalize(net), "finalize of messages");
}

static int puts_by_all(struct world *w, void *plugin)
{
	bool no_puts;

	w->v11 = dlsym(plugin, "ncclGinPlugin_v11");
	FT_CHECK(w->v11, "no puts for NCCL 2.28");
	FT_TRY(refuses(w, &no_puts));
	if (no_puts)
		return 0;
	FT_TRY(many_ends(w));
	FT_TRY(puts_of(w));
	/* shm of 2.1 never ends a write to a region that is gone */
	if (!strstr(w->proc->opts.prov, "shm"))
		FT_TRY(broken(w));
	FT_TRY(aborted(w));
	FT_CHECK(dlsym(plugin, "ncclGinPlugin_v12"), "no puts for NCCL 2.29.7");
	FT_TRY(puts_of_v12(w, dlsym(plugin, "ncclGinPlugin_v12")));
	w->v11 = NULL;
	w->rma = dlsym(plugin, "ncclRmaPlugin_v14");
	FT_CHECK(w->rma, "no puts with weak signals");
	FT_TRY(puts_of(w));
	v13 = dlsym(plugin, "ncclRmaPlugin_v13");
	FT_CHECK(v13 && dlsym(plugin, "ncclGinPlugin_v13") == v13, "no puts for NCCL 2.30");
	as_v14(w);
	return puts_of(w);
}

static int run(struct ft_proc *proc)
{
	struct world w = {.proc = proc};
	void *plugin;

	FT_TRY(ft_test_own_device(proc));
	FT_TRY(gin_plugin_open(proc, &plugin));
	w.net = dlsym(plugin, "ncclNetPlugin_v11");
	FT_CHECK(w.net, "no messages");
	FT_TRY(buffer(&w, &w.data, 2 * (size_t) proc->ranks * SLOT));
	FT_TRY(buffer(&w, &w.words, WORDS * sizeof(uint64_t)));
	FT_TRY(environment(&w));
	FT_TRY(no_provider(&w));
	FT_TRY(gin_messages(&w));
	FT_TRY(puts_by_all(&w, plugin));
	w.data.ops->release(w.data.addr);
	w.words.ops->release(w.words.addr);
	return ft_meet_all(proc);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "NCCL's calls of libnccl-gin-p2p.",
		.ranks = 2,
		.most_ranks = 4,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
