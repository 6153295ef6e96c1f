/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_threads: one endpoint in the hands of several threads at once (FI_THREAD_SAFE):
 * some send, some receive, each reads the queue and finds the others' completions, and one
 * reads counters. A sleeping read is woken from another thread; of two that sleep, neither
 * sleeps through what comes.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "ft_test.h"

#define PAIRS 2 /* of a sending and a receiving thread, at each end */
#define ROUNDS 24
#define LARGEST ((size_t) (2 << 20))
#define NAPS 500
#define NAP_LEN ((size_t) 70000)

/* pattern.c has one buffer for all */
static pthread_mutex_t patterns = PTHREAD_MUTEX_INITIALIZER;

/* Around calls, where the core cannot have several at a time; see loses_messages() */
static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;

/* Of @req only the context is in use: what it says is for one thread alone. */
struct op {
	struct ft_req req;
	atomic_bool done;
	atomic_int err;
};

struct shared {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct fid_cntr *cntr;
	struct ft_buf buf[2 * PAIRS][2];
	size_t kind_count, pairs;
	bool loses;
	fi_addr_t peer;
	atomic_bool failed;
	atomic_bool ended;
	atomic_size_t taken; /* by those that sleep */
};

struct worker {
	struct shared *shared;
	pthread_t thread;
	size_t index;
	bool sends;
	int ret;
};

/*
 * shm of 1.17 has no lock between finding no receive for a message and keeping it as unexpected
 * (smr_progress_cmd_msg()): a receive that another thread posts meanwhile, and it, wait for ever.
 * Where there are GPUs, the provider and the hook have a lock.
 */
static bool loses_messages(const struct ft_opts *opts)
{
	return opts->iface == FI_HMEM_SYSTEM && opts->prov && !strncmp(opts->prov, "shm", 3) &&
	       FI_VERSION_LT(fi_version(), FI_VERSION(1, 18));
}

static void call_begin(const struct shared *s)
{
	if (s->loses)
		pthread_mutex_lock(&calls);
}

static void call_end(const struct shared *s)
{
	if (s->loses)
		pthread_mutex_unlock(&calls);
}

static int open_cntr(struct ft_ctx *ctx)
{
	struct shared *s = ctx->test;
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
	int ret = fi_cntr_open(ctx->domain, &attr, &s->cntr, NULL);

	if (ret)
		return ft_fail(ret, "fi_cntr_open", "counter");
	ret = fi_ep_bind(ctx->ep, &s->cntr->fid, FI_SEND | FI_RECV);
	return ret ? ft_fail(ret, "fi_ep_bind", "counter") : 0;
}

static int shared_open(struct shared *s, struct ft_proc *proc, bool counts)
{
	enum fi_hmem_iface kinds[2];

	memset(s, 0, sizeof(*s));
	s->proc = proc;
	s->loses = loses_messages(&proc->opts);
	s->kind_count = ft_kinds(&proc->opts, kinds);
	FT_TRY(ft_test_hints(proc, &s->ctx));
	s->ctx.hints->domain_attr->threading = FI_THREAD_SAFE;
	s->ctx.cq_attr.wait_obj = FI_WAIT_UNSPEC;
	s->ctx.prepare = counts ? open_cntr : NULL;
	s->ctx.test = s;
	FT_TRY(ft_test_open(proc, &s->ctx));
	FT_TRY(ft_test_connect(proc, &s->ctx));
	s->peer = s->ctx.peer[!proc->rank];
	/* without tags nobody could tell whose message it is */
	s->pairs = ft_has_tags(&s->ctx) ? PAIRS : 1;
	for (size_t i = 0; i < 2 * s->pairs; i++)
		for (size_t k = 0; k < s->kind_count; k++)
			FT_TRY(ft_buf_alloc(&s->ctx, &s->buf[i][k], kinds[k],
					    LARGEST + FT_ROOM));
	return 0;
}

static int shared_close(struct shared *s)
{
	int ret;

	for (size_t i = 0; i < 2 * s->pairs; i++)
		for (size_t k = 0; k < s->kind_count; k++)
			ft_buf_free(&s->buf[i][k]);
	ret = fi_close(&s->ctx.ep->fid);
	s->ctx.ep = NULL;
	if (!ret && s->cntr)
		ret = fi_close(&s->cntr->fid);
	return ret ? ft_fail(ret, "fi_close", "endpoint, counter") : ft_close(&s->ctx);
}

/* Whose operation has failed, and how, is told by the queue. */
static ssize_t read_error(struct shared *s)
{
	union {
		struct fi_cq_err_entry entry;
		char room[sizeof(struct fi_cq_err_entry) + 256];
	} err = {.room = {0}};
	ssize_t n = fi_cq_readerr(s->ctx.cq, &err.entry, 0);
	struct op *op = err.entry.op_context;

	if (n != 1)
		return n;
	ft_err("an operation failed: %s, provider's error %d, flags %" PRIx64,
	       fi_strerror(err.entry.err), err.entry.prov_errno, err.entry.flags);
	atomic_store(&op->err, err.entry.err);
	atomic_store(&op->done, true);
	return n;
}

/* Any thread may find any operation's completion. */
static int progress(struct shared *s)
{
	struct fi_cq_tagged_entry entries[4];
	ssize_t n;

	call_begin(s);
	n = fi_cq_read(s->ctx.cq, entries, FT_COUNT(entries));
	call_end(s);
	for (ssize_t i = 0; i < n; i++)
		atomic_store(&((struct op *) entries[i].op_context)->done, true);
	if (n == -FI_EAVAIL)
		n = read_error(s);
	if (n == -FI_EAGAIN)
		sched_yield();
	FT_CHECK(n >= 0 || n == -FI_EAGAIN, "reading the queue: %zd", n);
	FT_CHECK(!atomic_load(&s->failed), "another thread failed");
	return 0;
}

static int post(struct worker *w, size_t kind, size_t len, uint64_t tag, struct op *op)
{
	struct shared *s = w->shared;
	const struct ft_buf *buf = &s->buf[w->index][kind];
	struct ft_op call = {
		.call = w->sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = s->peer,
		.tag = tag,
		.req = &op->req,
	};
	ssize_t ret;

	ft_op_buf(&call, buf, 64, len);
	do {
		call_begin(s);
		ret = ft_post_once(&s->ctx, &call);
		call_end(s);
		if (ret == -FI_EAGAIN)
			FT_TRY(progress(s));
	} while (ret == -FI_EAGAIN);
	return ret ? ft_fail((int) ret, "posting", "%zu bytes", len) : 0;
}

static int transfer(struct worker *w, size_t round)
{
	static const size_t sizes[] = {0, 40, 5000, 70000, LARGEST};
	const size_t len = sizes[round % FT_COUNT(sizes)];
	struct shared *s = w->shared;
	const size_t kind = (round + w->sends) % s->kind_count;
	const struct ft_slot slot = {&s->buf[w->index][kind], 0, len + FT_ROOM, 64, len};
	const uint64_t tag = w->index / 2 * ROUNDS + round;
	struct op op = {.done = false};
	int ret;

	pthread_mutex_lock(&patterns);
	ret = w->sends ? ft_slot_fill(&slot, tag) : ft_slot_arm(&slot);
	pthread_mutex_unlock(&patterns);
	FT_TRY(ret);
	FT_TRY(post(w, kind, len, tag, &op));
	while (!atomic_load(&op.done))
		FT_TRY(progress(s));
	FT_CHECK(!atomic_load(&op.err), "an operation failed: %s",
		 fi_strerror(atomic_load(&op.err)));
	if (w->sends)
		return 0;
	pthread_mutex_lock(&patterns);
	ret = ft_slot_check(&slot, len, tag, "a message among threads");
	pthread_mutex_unlock(&patterns);
	return ret;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct shared *s = w->shared;

	/* a device's context is a thread's */
	for (size_t k = 0; !w->ret && k < s->kind_count; k++)
		w->ret = s->buf[0][k].ops->init(s->proc->opts.device);
	for (size_t round = 0; !w->ret && round < ROUNDS; round++)
		w->ret = transfer(w, round);
	if (w->ret)
		atomic_store(&s->failed, true);
	return NULL;
}

/* A counter only grows, and no further than there are operations. */
static void *count(void *arg)
{
	struct worker *w = arg;
	struct shared *s = w->shared;
	uint64_t value, last = 0;

	while (!w->ret && !atomic_load(&s->ended)) {
		call_begin(s);
		value = fi_cntr_read(s->cntr);
		call_end(s);
		if (value < last || value > 2 * s->pairs * ROUNDS || fi_cntr_readerr(s->cntr)) {
			ft_err("the counter went from %" PRIu64 " to %" PRIu64, last, value);
			w->ret = -FI_EOTHER;
		}
		last = value;
		sched_yield();
	}
	return NULL;
}

static int start(struct worker *w, void *(*run)(void *) )
{
	int err = pthread_create(&w->thread, NULL, run, w);

	return err ? ft_fail(-err, "pthread_create", "worker") : 0;
}

static int traffic(struct ft_proc *proc, bool counts)
{
	struct worker workers[2 * PAIRS] = {0}, counter = {0};
	struct shared s;
	int ret = 0;

	FT_TRY(shared_open(&s, proc, counts));
	counter.shared = &s;
	if (counts)
		FT_TRY(start(&counter, count));
	for (size_t i = 0; i < 2 * s.pairs; i++) {
		workers[i].shared = &s;
		workers[i].index = i;
		workers[i].sends = i % 2;
		FT_TRY(start(&workers[i], work));
	}
	for (size_t i = 0; i < 2 * s.pairs; i++) {
		pthread_join(workers[i].thread, NULL);
		ret = ret ? ret : workers[i].ret;
	}
	atomic_store(&s.ended, true);
	if (counts) {
		pthread_join(counter.thread, NULL);
		ret = ret ? ret : counter.ret;
		FT_CHECK(ret || fi_cntr_read(s.cntr) == 2 * s.pairs * ROUNDS,
			 "%" PRIu64 " operations counted of %zu", fi_cntr_read(s.cntr),
			 2 * s.pairs * ROUNDS);
	}
	FT_TRY(ret);
	FT_TRY(ft_barrier(proc, &s.ctx));
	return shared_close(&s);
}

static void *sleep_in_read(void *arg)
{
	struct worker *w = arg;
	struct fi_cq_tagged_entry entry;

	w->ret = (int) fi_cq_sread(w->shared->ctx.cq, &entry, 1, NULL, -1);
	atomic_store(&w->shared->ended, true);
	return NULL;
}

static int signalled(struct ft_proc *proc)
{
	struct worker sleeper = {0};
	struct shared s;

	FT_TRY(shared_open(&s, proc, false));
	sleeper.shared = &s;
	FT_TRY(start(&sleeper, sleep_in_read));
	/* whether it sleeps yet or not */
	FT_TRY(fi_cq_signal(s.ctx.cq));
	pthread_join(sleeper.thread, NULL);
	FT_CHECK(sleeper.ret == -FI_EAGAIN || sleeper.ret == -FI_ECANCELED,
		 "a read that fi_cq_signal() ended: %d", sleeper.ret);
	FT_TRY(ft_barrier(proc, &s.ctx));
	return shared_close(&s);
}

/* Whoever has got one of two messages stays away until another thread has got the other one. */
static void *nap(void *arg)
{
	struct worker *w = arg;
	struct shared *s = w->shared;
	struct fi_cq_tagged_entry entry;

	for (size_t round = 1; round <= NAPS && !atomic_load(&s->failed); round++) {
		ssize_t n = fi_cq_sread(s->ctx.cq, &entry, 1, NULL, -1);

		if (n != 1) {
			ft_err("a read that two threads sleep in: %zd", n);
			if (n == -FI_EAVAIL)
				read_error(s);
			w->ret = -FI_EOTHER;
			atomic_store(&s->failed, true);
			break;
		}
		atomic_fetch_add(&s->taken, 1);
		while (atomic_load(&s->taken) < 2 * round && !atomic_load(&s->failed))
			sched_yield();
	}
	return NULL;
}

static int nap_pair(struct worker ends[2], size_t round)
{
	struct shared *s = ends->shared;
	const size_t kind = round % s->kind_count;
	struct op op[2] = {{.done = false}, {.done = false}};
	struct ft_slot slot[2];

	for (size_t i = 0; i < 2; i++) {
		slot[i] = (struct ft_slot){&s->buf[i][kind], 0, NAP_LEN + FT_ROOM, 64, NAP_LEN};
		FT_TRY(ends[i].sends ? ft_slot_fill(&slot[i], 2 * round + i)
				     : ft_slot_arm(&slot[i]));
		if (!ends[i].sends)
			FT_TRY(post(&ends[i], kind, NAP_LEN, i, &op[i]));
	}
	FT_TRY(ft_meet(s->proc));
	for (size_t i = 0; i < 2 && ends[i].sends; i++)
		FT_TRY(post(&ends[i], kind, NAP_LEN, i, &op[i]));
	for (size_t i = 0; i < 2 && ends[i].sends; i++)
		while (!atomic_load(&op[i].done))
			FT_TRY(progress(s));
	if (ends->sends)
		return 0;
	while (atomic_load(&s->taken) < 2 * (round + 1)) {
		FT_CHECK(!atomic_load(&s->failed), "another thread failed");
		sched_yield();
	}
	for (size_t i = 0; i < 2; i++)
		FT_TRY(ft_slot_check(&slot[i], NAP_LEN, 2 * round + i, "a message that wakes"));
	ft_progress_note();
	return 0;
}

static int naps(struct ft_proc *proc)
{
	struct worker nappers[2] = {0}, ends[2] = {0};
	struct shared s;
	int ret = 0;

	FT_TRY(shared_open(&s, proc, false));
	for (size_t i = 0; i < 2; i++) {
		ends[i] = (struct worker){.shared = &s, .index = i, .sends = proc->rank};
		nappers[i].shared = &s;
		if (!proc->rank)
			FT_TRY(start(&nappers[i], nap));
	}
	for (size_t round = 0; round < NAPS && !ret; round++)
		ret = nap_pair(ends, round);
	if (ret)
		atomic_store(&s.failed, true);
	for (size_t i = 0; i < 2 && !proc->rank; i++) {
		pthread_join(nappers[i].thread, NULL);
		ret = ret ? ret : nappers[i].ret;
	}
	FT_TRY(ret);
	FT_TRY(ft_barrier(proc, &s.ctx));
	return shared_close(&s);
}

static int run(struct ft_proc *proc)
{
	FT_TRY(traffic(proc, false));
	/* what of cores alone fails here is told in cntr.c and wait.c */
	if (!ft_has_ours(&proc->opts))
		return 0;
	FT_TRY(ft_has_cntrs(&proc->opts) ? traffic(proc, true) : 0);
	FT_TRY(signalled(proc));
	return naps(proc);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Several threads on one endpoint, queue and counter.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
