/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_waitset: wait sets, and descriptors of counters. Whoever sleeps, in fi_wait() or on
 * a descriptor, wakes when a message, an event or a peer's write is there, whoever made the
 * progress for it; and sleeps while nothing moves.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ft_test.h"

#define LARGEST ((size_t) (3 << 20))
#define WAIT_MS 30000
#define SHORT_MS 20
#define IDLE_MS 300
#define WAKES_MAX 2000 /* in IDLE_MS; see wait.c */
#define WAKES_FEW 100  /* where nothing has to be looked for every millisecond */
#define MEDDLE_NS 50000

/* What the core provider has, or that it cannot be asked */
enum offer {
	OFFER_SET = 1 << 0,
	OFFER_CNTR = 1 << 1,
	OFFER_FAILED = 1 << 2,
};

/**
 * struct way - what is slept on: a set (of a counter, the queue for receives and an event
 *		queue), or the counter alone
 * @set, @cntr:	their wait objects; FI_WAIT_NONE: there is no set
 * @native:	by poll(), not in fi_wait()
 * @cq:		wait object of queues that are in no set: the one for sends never is
 * @counted:	there is no queue for receives, which are counted only
 * @meddled:	another thread makes progress all the time; else there is but one in the domain
 */
struct way {
	const char *name;
	enum fi_wait_obj set, cntr;
	bool native;
	enum fi_wait_obj cq;
	bool counted;
	bool meddled;
};

static const struct way ways[] = {
	{"fi_wait()", FI_WAIT_UNSPEC, FI_WAIT_SET, .cq = FI_WAIT_FD},
	{"a set's descriptor", FI_WAIT_FD, FI_WAIT_SET, true, FI_WAIT_FD, .counted = true},
	{"a set's list", FI_WAIT_POLLFD, FI_WAIT_SET, true, FI_WAIT_FD, .meddled = true},
	{"a counter's descriptor", FI_WAIT_NONE, FI_WAIT_FD, true, FI_WAIT_FD},
	{"a counter's list", FI_WAIT_NONE, FI_WAIT_POLLFD, true, FI_WAIT_FD, .meddled = true},
	{"a counter by itself", FI_WAIT_NONE, FI_WAIT_FD, true, FI_WAIT_FD, .counted = true},
	{"a counter beside a blind queue", FI_WAIT_NONE, FI_WAIT_FD, true, FI_WAIT_NONE},
};

/**
 * struct side - one of the two ranks; rank 1 sends
 * @cntr:	counts sends and receives, or with @remote what peers write
 * @count:	what it is known to have counted
 */
struct side {
	struct ft_pair pair;
	const struct way *way;
	struct fid_wait *set;
	struct fid_cq *rx_cq;
	struct fid_cntr *cntr;
	struct fid_eq *eq;
	uint64_t count;
	bool remote;
	pthread_t meddler;
	atomic_bool ended;
};

/* ---- what there is ---- */

static int core_offer(const struct ft_proc *proc)
{
	struct fi_wait_attr set_attr = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_FD};
	struct ft_proc core = *proc;
	struct ft_ctx ctx = {0};
	struct fid_cntr *cntr;
	char *prov = core.opts.prov ? strdup(core.opts.prov) : NULL;
	char *ours = prov ? strstr(prov, ";ofi_p2p") : NULL;
	int found = 0;

	if (ours)
		*ours = '\0';
	core.opts.prov = prov;
	core.opts.no_hmem = true;
	unsetenv("FI_HOOK");
	if (ft_test_hints(&core, &ctx) || ft_getinfo(&ctx, NULL, NULL, 0) ||
	    ft_fabric_open(&ctx) || fi_domain(ctx.fabric, ctx.info, &ctx.domain, NULL))
		return OFFER_FAILED;
	if (!fi_wait_open(ctx.fabric, &set_attr, &cq_attr.wait_set) &&
	    !fi_cq_open(ctx.domain, &cq_attr, &ctx.cq, NULL))
		found |= OFFER_SET;
	if (!fi_cntr_open(ctx.domain, &cntr_attr, &cntr, NULL))
		found |= OFFER_CNTR;
	return found;
}

/* What the core provider offers */
static int offer;

/* Asks it without us, in a process that has not seen us */
static int ask_core(struct ft_proc *proc)
{
	pid_t pid;
	int status;

	if (!ft_has_ours(&proc->opts))
		return 0;
	pid = fork();
	if (!pid)
		_exit(core_offer(proc));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return ft_errno("fork", "to ask the core provider");
	FT_CHECK(WIFEXITED(status) && !(WEXITSTATUS(status) & OFFER_FAILED),
		 "asking the core provider ended with status 0x%x", status);
	offer = WEXITSTATUS(status);
	return 0;
}

/* ---- open and close ---- */

static int open_cntr(struct ft_ctx *ctx)
{
	struct side *s = ctx->test;
	struct fi_cntr_attr attr = {.wait_obj = s->way->cntr, .wait_set = s->set};
	int ret = fi_cntr_open(ctx->domain, &attr, &s->cntr, NULL);

	if (ret)
		return ft_fail(ret, "fi_cntr_open", "for %s", s->way->name);
	ret = fi_ep_bind(ctx->ep, &s->cntr->fid,
			 s->remote ? FI_REMOTE_WRITE : FI_SEND | FI_RECV);
	return ret ? ft_fail(ret, "fi_ep_bind", "counter") : 0;
}

static int open_set(struct ft_ctx *ctx)
{
	struct side *s = ctx->test;
	struct fi_wait_attr attr = {.wait_obj = s->way->set};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_SET, .flags = FI_WRITE};
	int ret = fi_wait_open(ctx->fabric, &attr, &s->set);

	if (ret)
		return ft_fail(ret, "fi_wait_open", "for %s", s->way->name);
	eq_attr.wait_set = s->set;
	ret = fi_eq_open(ctx->fabric, &eq_attr, &s->eq, NULL);
	return ret ? ft_fail(ret, "fi_eq_open", "in a set") : 0;
}

static int prepare(struct ft_ctx *ctx)
{
	struct side *s = ctx->test;
	const bool set = s->way->set != FI_WAIT_NONE;
	struct fi_cq_attr attr = ctx->cq_attr;
	int ret;

	if (set)
		FT_TRY(open_set(ctx));
	FT_TRY(open_cntr(ctx));
	if (s->way->counted && !s->remote)
		return 0;
	attr.wait_obj = set ? FI_WAIT_SET : s->way->cq;
	attr.wait_set = s->set;
	ret = fi_cq_open(ctx->domain, &attr, &s->rx_cq, NULL);
	if (!ret)
		ret = fi_ep_bind(ctx->ep, &s->rx_cq->fid, FI_RECV);
	return ret ? ft_fail(ret, "fi_cq_open", "for %s", s->way->name) : 0;
}

static void *meddle(void *arg)
{
	const struct timespec pause = {.tv_nsec = MEDDLE_NS};
	struct side *s = arg;

	while (!s->ended) {
		fi_cntr_read(s->cntr);
		fi_cq_read(s->pair.ctx.cq, NULL, 0);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static int side_open(struct side *s)
{
	s->pair.ctx.cq_attr.wait_obj = s->way->cq;
	s->pair.ctx.tx_only = true;
	s->pair.ctx.prepare = prepare;
	s->pair.ctx.test = s;
	if (s->way->meddled)
		s->pair.ctx.hints->domain_attr->threading = FI_THREAD_SAFE;
	FT_TRY(ft_pair_open(&s->pair, LARGEST));
	if (s->way->meddled)
		FT_CHECK(!pthread_create(&s->meddler, NULL, meddle, s), "pthread_create");
	return 0;
}

static int side_close(struct side *s)
{
	struct fid *bound[4] = {&s->cntr->fid};
	size_t count = 1;

	s->ended = true;
	if (s->way->meddled)
		pthread_join(s->meddler, NULL);
	if (s->rx_cq)
		bound[count++] = &s->rx_cq->fid;
	if (s->set) {
		FT_CHECK(fi_close(&s->set->fid) == -FI_EBUSY, "a set in use could be closed");
		bound[count++] = &s->eq->fid;
		bound[count++] = &s->set->fid;
	}
	return ft_pair_close(&s->pair, bound, count);
}

/* ---- sleeping ---- */

static int descriptor(struct fid *fid, enum fi_wait_obj wait_obj, struct pollfd *pfd)
{
	struct fi_wait_pollfd polled = {.nfds = 0, .fd = pfd};
	enum fi_wait_obj found;

	FT_TRY(fi_control(fid, FI_GETWAITOBJ, &found));
	FT_CHECK(found == wait_obj, "a wait object is %d, not %d", found, wait_obj);
	pfd->events = POLLIN;
	if (wait_obj == FI_WAIT_FD)
		return fi_control(fid, FI_GETWAIT, &pfd->fd);
	FT_CHECK(fi_control(fid, FI_GETWAIT, &polled) == -FI_ETOOSMALL && polled.nfds == 1,
		 "FI_GETWAIT without room");
	return fi_control(fid, FI_GETWAIT, &polled);
}

/* 1: woken, or there was something; 0: not in @ms; or an error */
static int sleep_once(struct side *s, int ms)
{
	const struct way *way = s->way;
	struct fid *fid = s->set ? &s->set->fid : &s->cntr->fid;
	struct pollfd pfd;
	int ret;

	if (!way->native) {
		ret = fi_wait(s->set, ms);
		if (ret == -FI_ETIMEDOUT)
			return 0;
		return ret ? ft_fail(ret, "fi_wait", "a set") : 1;
	}
	ret = descriptor(fid, s->set ? way->set : way->cntr, &pfd);
	if (ret)
		return ft_fail(ret, "fi_control(FI_GETWAIT)", "for %s", way->name);
	ret = fi_trywait(s->pair.ctx.fabric, &fid, 1);
	if (ret == -FI_EAGAIN)
		return 1;
	if (ret)
		return ft_fail(ret, "fi_trywait", "for %s", way->name);
	ret = poll(&pfd, 1, ms);
	return ret < 0 ? ft_errno("poll", way->name) : ret;
}

static int sleep_for(struct side *s, const char *what)
{
	const int ret = sleep_once(s, WAIT_MS);

	FT_CHECK(ret, "%s slept through %s", s->way->name, what);
	return ret < 0 ? ret : 0;
}

/* Nothing comes: how often does a waiting process wake? */
static int idle(struct side *s)
{
	const unsigned int most = s->way->cq == FI_WAIT_NONE ? WAKES_MAX : WAKES_FEW;
	const double end = ft_usec() + IDLE_MS * 1e3;
	struct fi_cq_tagged_entry entry;
	unsigned int wakes = 0;
	int ret;

	while (ft_usec() < end) {
		FT_CHECK(!s->rx_cq || fi_cq_read(s->rx_cq, &entry, 1) == -FI_EAGAIN,
			 "a report of nothing");
		FT_CHECK(fi_cntr_read(s->cntr) == s->count, "nothing was counted");
		ret = sleep_once(s, IDLE_MS);
		if (ret < 0)
			return ret;
		wakes++;
	}
	FT_CHECK(wakes < most, "%s: %u times awake in %d ms", s->way->name, wakes, IDLE_MS);
	return 0;
}

/* ---- messages ---- */

/*
 * What is counted is reported (if there is a queue), so the counter is looked at first. If another
 * thread is about to do both, it may have done one.
 */
static int wait_for(struct ft_pair *pair, struct ft_req *req)
{
	struct side *s = pair->ctx.test;
	struct fid_cq *cq = ft_pair_sends(pair) ? pair->ctx.cq : s->rx_cq;
	struct fi_cq_tagged_entry entry = {.op_context = req};
	bool counted = false;
	ssize_t n = cq ? 0 : 1;

	while (!counted || n != 1) {
		counted = fi_cntr_read(s->cntr) == s->count + 1;
		if (n != 1)
			n = fi_cq_read(cq, &entry, 1);
		FT_CHECK(n == 1 || n == -FI_EAGAIN, "fi_cq_read: %zd", n);
		FT_CHECK(n == 1 || !counted || s->way->meddled, "counted and not reported");
		if (!counted)
			FT_TRY(sleep_for(s, "a message"));
	}
	FT_CHECK(entry.op_context == req, "a completion of something else");
	s->count++;
	return 0;
}

/* ---- events, of queues and of values that the application changes ---- */

static void *write_event(void *arg)
{
	struct fi_eq_entry entry = {.data = 42};
	struct side *s = arg;

	return fi_eq_write(s->eq, FI_NOTIFY, &entry, sizeof(entry), 0) == sizeof(entry) ? s
											: NULL;
}

static int events(struct side *s)
{
	struct fi_eq_entry entry;
	pthread_t writer;
	uint32_t event;
	void *written;
	ssize_t n;

	FT_CHECK(!pthread_create(&writer, NULL, write_event, s), "pthread_create");
	while ((n = fi_eq_read(s->eq, &event, &entry, sizeof(entry), 0)) == -FI_EAGAIN)
		FT_TRY(sleep_for(s, "an event"));
	pthread_join(writer, &written);
	FT_CHECK(written, "fi_eq_write");
	FT_CHECK(n == sizeof(entry) && event == FI_NOTIFY && entry.data == 42,
		 "an event was changed on its way");
	return 0;
}

static void *add_one(void *arg)
{
	struct side *s = arg;

	return fi_cntr_add(s->cntr, 1) ? NULL : s;
}

static int additions(struct side *s)
{
	pthread_t adder;
	void *added;

	FT_CHECK(!pthread_create(&adder, NULL, add_one, s), "pthread_create");
	s->count++;
	while (fi_cntr_read(s->cntr) != s->count)
		FT_TRY(sleep_for(s, "an addition"));
	pthread_join(adder, &added);
	FT_CHECK(added, "fi_cntr_add");
	return 0;
}

/* Another member comes and goes, while the others stay. */
static int passer_by(struct side *s)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_SET, .wait_set = s->set};
	struct fid_cntr *cntr;
	int ret;

	FT_TRY(fi_cntr_open(s->pair.ctx.domain, &attr, &cntr, NULL));
	ret = sleep_once(s, 0);
	return ret < 0 ? ret : fi_close(&cntr->fid);
}

/* ---- mistakes ---- */

static int mistakes(struct side *s)
{
	struct fi_wait_attr none = {.wait_obj = FI_WAIT_NONE};
	struct fi_wait_attr flags = {.wait_obj = FI_WAIT_FD, .flags = 1};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_SET};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_SET};
	struct ft_ctx *ctx = &s->pair.ctx;
	struct fi_cq_tagged_entry entry;
	struct fid_wait *set;
	struct fid_cntr *cntr;
	struct fid_eq *eq;
	struct fid_cq *cq;

	FT_CHECK(fi_wait_open(ctx->fabric, &none, &set) &&
			 fi_wait_open(ctx->fabric, &flags, &set),
		 "a set with bad attributes could be opened");
	FT_CHECK(fi_cq_open(ctx->domain, &cq_attr, &cq, NULL) == -FI_EINVAL &&
			 fi_cntr_open(ctx->domain, &cntr_attr, &cntr, NULL) == -FI_EINVAL &&
			 fi_eq_open(ctx->fabric, &eq_attr, &eq, NULL) == -FI_EINVAL,
		 "FI_WAIT_SET without a set");
	cq_attr.wait_set = (struct fid_wait *) s->cntr;
	FT_CHECK(fi_cq_open(ctx->domain, &cq_attr, &cq, NULL) == -FI_EINVAL,
		 "a counter was taken for a set");
	FT_CHECK((!s->rx_cq || fi_cq_sread(s->rx_cq, &entry, 1, NULL, 0) == -FI_ENOSYS) &&
			 fi_cntr_wait(s->cntr, s->count + 1, 0) == -FI_ENOSYS,
		 "an object in a set is waited for by itself");
	return 0;
}

/* A set with nothing in it */
static int empty(struct side *s)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD};
	struct fid_wait *set;

	FT_TRY(fi_wait_open(s->pair.ctx.fabric, &attr, &set));
	FT_CHECK(fi_wait(set, 0) == -FI_ETIMEDOUT && fi_wait(set, SHORT_MS) == -FI_ETIMEDOUT,
		 "fi_wait on an empty set");
	return fi_close(&set->fid);
}

/* ---- both together ---- */

static int messages(struct ft_proc *proc, const struct way *way)
{
	static const size_t sizes[] = {8, 20000, LARGEST};
	const char *prov = proc->opts.prov ? proc->opts.prov : "";
	struct side s = {.way = way};

	FT_TRY(ft_pair_hints(&s.pair, proc));
	FT_TRY(side_open(&s));
	for (size_t i = 0; i < 2 * FT_COUNT(sizes); i++) {
		for (size_t kinds = 0; kinds < s.pair.kind_count * s.pair.kind_count; kinds++)
			FT_TRY(ft_pair_transfer(&s.pair, kinds % s.pair.kind_count,
						kinds / s.pair.kind_count, sizes[i / 2], i % 2,
						wait_for));
		if (s.set)
			FT_TRY(passer_by(&s));
	}
	if (way->meddled)
		FT_TRY(additions(&s));
	if (s.set) {
		FT_TRY(events(&s));
		FT_TRY(mistakes(&s));
		FT_TRY(empty(&s));
	}
	FT_TRY(ft_meet(proc));
	/* net of libfabric 1.17 wakes all the time */
	if (!way->meddled && strncmp(prov, "net", 3))
		FT_TRY(idle(&s));
	FT_TRY(ft_meet(proc));
	return side_close(&s);
}

/* The target does nothing but sleep: it is asked for what its core does not do. */
static int write_all(struct side *s)
{
	static const size_t sizes[] = {8, 20000, LARGEST};
	struct ft_proc *proc = s->pair.proc;
	struct ft_ctx *ctx = &s->pair.ctx;

	for (size_t i = 0; i < FT_COUNT(sizes) * s->pair.kind_count; i++) {
		struct ft_buf *buf = &s->pair.buf[i % s->pair.kind_count];
		const size_t len = sizes[i / s->pair.kind_count];
		const struct ft_slot slot = {buf, 0, len + FT_ROOM, 64, len};
		uint64_t target[2];
		struct ft_req req = {0};
		ssize_t ret;

		if (ft_pair_sends(&s->pair)) {
			FT_TRY(ft_slot_fill(&slot, i));
			FT_TRY(ft_oob_recv(proc->fd[0], target, sizeof(target),
					   proc->opts.timeout));
			while ((ret = fi_write(ctx->ep, buf->addr + slot.off, len, buf->desc,
					       s->pair.peer, target[0] + slot.off, target[1],
					       &req)) == -FI_EAGAIN)
				fi_cq_read(ctx->cq, NULL, 0);
			if (ret)
				return ft_fail((int) ret, "fi_write", "%zu bytes", len);
			FT_TRY(ft_wait(ctx, &req, 1));
			FT_TRY(ft_meet(proc));
			continue;
		}
		FT_TRY(ft_slot_arm(&slot));
		FT_TRY(ft_buf_share(ctx, buf, FI_REMOTE_WRITE));
		target[0] = buf->base;
		target[1] = buf->key;
		FT_TRY(ft_oob_send(proc->fd[1], target, sizeof(target)));
		s->count++;
		while (fi_cntr_read(s->cntr) < s->count)
			FT_TRY(sleep_for(s, "a write"));
		FT_TRY(ft_slot_check(&slot, len, i, "what a peer has written"));
		/* the writer may need an answer still */
		FT_TRY(ft_barrier(proc, ctx));
	}
	return 0;
}

static int writes(struct ft_proc *proc, const struct way *way)
{
	struct side s = {.way = way, .remote = true};

	FT_TRY(ft_pair_hints(&s.pair, proc));
	s.pair.ctx.hints->caps |= FI_RMA | FI_RMA_EVENT;
	if (!ft_has_events(&s.pair.ctx))
		return ft_close(&s.pair.ctx);
	FT_TRY(side_open(&s));
	FT_TRY(write_all(&s));
	return side_close(&s);
}

/* Where the core has none of it, we have not, either. */
static int refused(struct ft_proc *proc)
{
	struct fi_wait_attr set_attr = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_FD};
	struct fid_cntr *cntr;
	struct ft_ctx ctx;
	struct fid_cq *cq;

	FT_TRY(ft_test_hints(proc, &ctx));
	FT_TRY(ft_test_open(proc, &ctx));
	FT_TRY(ft_test_connect(proc, &ctx));
	if (!(offer & OFFER_SET))
		FT_CHECK(fi_wait_open(ctx.fabric, &set_attr, &cq_attr.wait_set) ||
				 fi_cq_open(ctx.domain, &cq_attr, &cq, NULL),
			 "a wait set, over a core provider that has none");
	if (!(offer & OFFER_CNTR))
		FT_CHECK(fi_cntr_open(ctx.domain, &cntr_attr, &cntr, NULL),
			 "a counter with a descriptor, over a core provider that has none");
	if (cq_attr.wait_set)
		FT_TRY(fi_close(&cq_attr.wait_set->fid));
	return ft_close(&ctx);
}

static int run(struct ft_proc *proc)
{
	const int all = OFFER_SET | OFFER_CNTR;

	if (!ft_has_ours(&proc->opts))
		return proc->rank ? FT_SKIP : ft_skip("core providers alone are not tested");
	if (offer != all)
		FT_TRY(refused(proc));
	for (size_t i = 0; i < FT_COUNT(ways); i++) {
		if (!(offer & OFFER_CNTR) ||
		    (ways[i].set != FI_WAIT_NONE && !(offer & OFFER_SET)))
			continue;
		FT_TRY(messages(proc, &ways[i]));
		FT_TRY(writes(proc, &ways[i]));
	}
	if (offer == all)
		return 0;
	return proc->rank ? FT_SKIP
			  : ft_skip("this provider has no %s",
				    offer & OFFER_CNTR ? "wait sets" : "counters to sleep on");
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Wait sets, and descriptors of counters.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.ask = ask_core,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
