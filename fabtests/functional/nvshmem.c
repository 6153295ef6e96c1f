/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_nvshmem: the calls of NVSHMEM's transport by libfabric (3.4, its verbs persona), without NVSHMEM. Each rank has two
 * endpoints with counters, and no completions: one for host calls, and one for what kernels ask a thread for, which also
 * looks at both all the time. Puts, gets, single values, atomics with operands on the stack; and puts with a signal: the
 * thread waits for the put, and adds to the signal then.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "ft_test.h"

/* NVSHMEM's numbers */
#define INJECT_MIN 16
#define CQ_READS 300
#define NAME_ROOM 512

enum which { PROXY, HOST, EPS };

#define LARGEST (((size_t) 1 << 20) + 3)
#define SLOT (LARGEST + FT_ROOM)
#define OFFSET 64
#define SIZE (4 * SLOT)
#define WORDS 64
#define BURST 200
#define VALUES 50

struct name {
	char bytes[NAME_ROOM];
};

/** struct key - how peers reach a region */
struct key {
	uint64_t key, base;
};

/** struct region - memory, and how each rank's is reached */
struct region {
	struct ft_buf buf;
	struct fid_mr *mr;
	void *desc;
	struct key keys[FT_MAX_RANKS];
};

/** struct end - an endpoint. @submitted: operations, which its counter counts when they have ended */
struct end {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_av *av;
	uint64_t submitted;
};

/**
 * struct order - what a kernel has asked for: a put of @len bytes with a signal, or without if @word is NULL.
 * @asked, @done: by the kernel, and by the thread
 */
struct order {
	size_t to, from, len;
	uint64_t *word;
	bool asked, done;
};

struct world {
	struct ft_proc *proc;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct end ends[EPS];
	struct region data, words, results;
	int next, before;
	pthread_t thread;
	struct order order;
	bool stop;
	int ret;
};

/* ---- what NVSHMEM asks for ---- */

static int find(struct world *w)
{
	struct fi_info *hints = fi_allocinfo(), *list;
	const struct fi_info *info;
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->caps = FI_RMA | FI_HMEM | FI_ATOMIC;
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	setenv("FI_PROVIDER", w->proc->opts.prov, 1);
	ret = fi_getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, &list);
	fi_freeinfo(hints);
	if (ret == -FI_ENODATA)
		return ft_skip("no %s for NVSHMEM's hints", w->proc->opts.prov);
	if (ret)
		return ft_fail(ret, "fi_getinfo", "what NVSHMEM asks for");
	info = list;
	while (info && strcmp(info->fabric_attr->prov_name, w->proc->opts.prov))
		info = info->next;
	w->info = info ? fi_dupinfo(info) : NULL;
	fi_freeinfo(list);
	if (!w->info)
		return ft_skip("no %s for NVSHMEM's hints", w->proc->opts.prov);
	FT_CHECK(w->info->tx_attr->inject_size >= INJECT_MIN, "only %zu bytes can be injected",
		 w->info->tx_attr->inject_size);
	FT_CHECK(w->info->domain_attr->mr_mode & FI_MR_PROV_KEY,
		 "the provider chooses no keys");
	return 0;
}

static int end_open(struct world *w, struct end *end)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = EPS * FT_MAX_RANKS};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fi_cq_attr cq_attr = {.size = 0};
	int ret = fi_av_open(w->domain, &av_attr, &end->av, NULL);

	if (!ret)
		ret = fi_endpoint(w->domain, w->info, &end->ep, NULL);
	if (!ret)
		ret = fi_cq_open(w->domain, &cq_attr, &end->cq, NULL);
	if (!ret)
		ret = fi_cntr_open(w->domain, &cntr_attr, &end->cntr, NULL);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->cq->fid,
				 FI_SELECTIVE_COMPLETION | FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->cntr->fid, FI_READ | FI_WRITE);
	if (!ret)
		ret = fi_enable(end->ep);
	return ret ? ft_fail(ret, "opening an endpoint", "%s", w->proc->opts.prov) : 0;
}

/* Each rank gives all others @size bytes, which are at @all[rank] here. */
static int allgather(struct ft_proc *proc, void *all, size_t size)
{
	char *at = all;

	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_send(proc->fd[i], at + (size_t) proc->rank * size, size));
	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_recv(proc->fd[i], at + (size_t) i * size, size,
					   proc->opts.timeout));
	return 0;
}

/* All endpoints of all ranks are in both vectors, in their order. */
static int connect_ends(struct world *w)
{
	struct name names[FT_MAX_RANKS][EPS];
	size_t len;
	int ret;

	for (int i = 0; i < EPS; i++) {
		len = sizeof(names[0][0]);
		ret = fi_getname(&w->ends[i].ep->fid, names[w->proc->rank][i].bytes, &len);
		if (ret)
			return ft_fail(ret, "fi_getname", "an endpoint");
	}
	FT_TRY(allgather(w->proc, names, sizeof(names[0])));
	for (int i = 0; i < EPS; i++)
		for (int j = 0; j < EPS * w->proc->ranks; j++) {
			ret = fi_av_insert(w->ends[i].av, names[j / EPS][j % EPS].bytes, 1,
					   NULL, 0, NULL);
			FT_CHECK(ret == 1, "fi_av_insert returned %d", ret);
		}
	return 0;
}

static int open_ends(struct world *w)
{
	int ret = fi_fabric(w->info->fabric_attr, &w->fabric, NULL);

	if (!ret)
		ret = fi_domain(w->fabric, w->info, &w->domain, NULL);
	if (ret)
		return ft_fail(ret, "fi_domain", "%s", w->proc->opts.prov);
	/* only the domain has FI_HMEM */
	w->info->caps = FI_RMA | FI_ATOMIC;
	w->info->mode = 0;
	for (int i = 0; i < EPS; i++)
		FT_TRY(end_open(w, &w->ends[i]));
	return connect_ends(w);
}

static int region_open(struct world *w, struct region *region, enum fi_hmem_iface iface,
		       size_t size)
{
	struct ft_buf *buf = &region->buf;
	struct iovec iov = {.iov_len = size};
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
		.iface = iface,
	};
	void *addr;
	int ret;

	*buf = (struct ft_buf){.ops = ft_mem_ops(iface), .size = size};
	FT_TRY(buf->ops->init(w->proc->opts.device));
	FT_TRY(buf->ops->alloc(size, &addr));
	buf->addr = iov.iov_base = addr;
	if (iface == FI_HMEM_CUDA)
		attr.device.cuda = w->proc->opts.device;
	ret = fi_mr_regattr(w->domain, &attr, 0, &region->mr);
	if (ret)
		return ft_fail(ret, "fi_mr_regattr", "%s memory", buf->ops->name);
	region->desc = fi_mr_desc(region->mr);
	region->keys[w->proc->rank] = (struct key){
		.key = fi_mr_key(region->mr),
		.base = w->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) addr : 0,
	};
	return allgather(w->proc, region->keys, sizeof(region->keys[0]));
}

static int region_close(struct region *region)
{
	int ret = fi_close(&region->mr->fid);

	region->buf.ops->release(region->buf.addr);
	return ret ? ft_fail(ret, "fi_close", "a region") : 0;
}

static int close_ends(struct world *w)
{
	int ret = 0;

	for (int i = 0; i < EPS && !ret; i++) {
		ret = fi_close(&w->ends[i].ep->fid);
		if (!ret)
			ret = fi_close(&w->ends[i].cq->fid);
		if (!ret)
			ret = fi_close(&w->ends[i].cntr->fid);
	}
	for (int i = 0; i < EPS && !ret; i++)
		ret = fi_close(&w->ends[i].av->fid);
	if (!ret)
		ret = fi_close(&w->domain->fid);
	if (!ret)
		ret = fi_close(&w->fabric->fid);
	fi_freeinfo(w->info);
	return ret ? ft_fail(ret, "fi_close", "at the end") : 0;
}

/* ---- operations ---- */

static int progress(struct world *w)
{
	char entries[CQ_READS * sizeof(struct fi_cq_data_entry)];
	fi_addr_t from[CQ_READS];
	ssize_t ret;

	for (int i = 0; i < EPS; i++) {
		FT_CHECK(!fi_cntr_readerr(w->ends[i].cntr), "endpoint %d counts an error", i);
		ret = fi_cq_readfrom(w->ends[i].cq, entries, CQ_READS, from);
		FT_CHECK(ret == -FI_EAGAIN, "fi_cq_readfrom of endpoint %d returned %zd", i,
			 ret);
	}
	return 0;
}

/* 1: once more. Otherwise what @ret says; the operation counts. */
static int again(struct world *w, enum which which, ssize_t ret)
{
	if (ret == -FI_EAGAIN) {
		FT_TRY(progress(w));
		return 1;
	}
	if (ret)
		return ft_fail((int) ret, "an operation", "endpoint %d", which);
	w->ends[which].submitted++;
	return 0;
}

static int quiet(struct world *w, enum which which)
{
	const double end = ft_usec() + (double) w->proc->opts.timeout * 1e6;
	struct end *at = &w->ends[which];
	uint64_t count;

	while ((count = fi_cntr_read(at->cntr)) != at->submitted) {
		FT_CHECK(count < at->submitted && ft_usec() < end,
			 "%llu of %llu operations have ended", (unsigned long long) count,
			 (unsigned long long) at->submitted);
		FT_TRY(progress(w));
		sched_yield();
	}
	ft_progress_note();
	return 0;
}

static fi_addr_t addr_of(int rank, enum which which)
{
	return (fi_addr_t) rank * EPS + which;
}

static int move(struct world *w, enum which which, bool reads, size_t far, size_t near,
		size_t len)
{
	struct fid_ep *ep = w->ends[which].ep;
	const struct key *key = &w->data.keys[w->next];
	char *addr = w->data.buf.addr + near;
	const fi_addr_t peer = addr_of(w->next, which);
	ssize_t ret;
	int more;

	do {
		ret = reads ? fi_read(ep, addr, len, w->data.desc, peer, key->base + far,
				      key->key, NULL)
			    : fi_write(ep, addr, len, w->data.desc, peer, key->base + far,
				       key->key, NULL);
		more = again(w, which, ret);
	} while (more == 1);
	return more;
}

/* A single value, on the stack */
static int value(struct world *w, enum which which, size_t word, uint64_t put)
{
	const struct key *key = &w->words.keys[w->next];
	const struct iovec iov = {&put, sizeof(put)};
	const struct fi_rma_iov far = {key->base + word * sizeof(put), sizeof(put), key->key};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = addr_of(w->next, which),
		.rma_iov = &far,
		.rma_iov_count = 1,
	};
	int more;

	do
		more = again(w, which, fi_writemsg(w->ends[which].ep, &msg, FI_INJECT));
	while (more == 1);
	put = ~0ULL;
	return more;
}

/** struct amo - an atomic operation. @fetches: what was there goes to the first of the results */
struct amo {
	enum fi_op op;
	size_t word;
	uint64_t operand, compare;
	bool fetches;
};

static int atomic(struct world *w, enum which which, struct amo amo)
{
	struct fid_ep *ep = w->ends[which].ep;
	const struct key *key = &w->words.keys[w->next];
	const struct fi_ioc operand = {&amo.operand, 1}, compare = {&amo.compare, 1};
	const struct fi_rma_ioc far = {key->base + amo.word * sizeof(uint64_t), 1, key->key};
	struct fi_ioc result = {w->results.buf.addr, 1};
	const struct fi_msg_atomic msg = {
		.msg_iov = amo.op == FI_ATOMIC_READ ? NULL : &operand,
		.iov_count = amo.op != FI_ATOMIC_READ,
		.addr = addr_of(w->next, which),
		.rma_iov = &far,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = amo.op,
	};
	ssize_t ret;
	int more;

	do {
		if (amo.op == FI_CSWAP)
			ret = fi_compare_atomicmsg(ep, &msg, &compare, NULL, 1, &result,
						   &w->results.desc, 1, FI_INJECT);
		else if (amo.fetches)
			ret = fi_fetch_atomicmsg(ep, &msg, &result, &w->results.desc, 1,
						 FI_INJECT);
		else
			ret = fi_atomicmsg(ep, &msg, FI_INJECT);
		more = again(w, which, ret);
	} while (more == 1);
	amo.operand = amo.compare = ~0ULL;
	return more;
}

/* ---- the thread that does what kernels ask for ---- */

static int obey(struct world *w, const struct order *order)
{
	FT_TRY(move(w, PROXY, false, order->to, order->from, order->len));
	FT_TRY(quiet(w, PROXY));
	if (!order->word)
		return 0;
	return atomic(w, PROXY, (struct amo){.op = FI_SUM, .word = 0, .operand = *order->word});
}

static void *proxy(void *arg)
{
	struct world *w = arg;
	int ret = 0;

	while (!ret && !__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		ret = progress(w);
		if (!ret && __atomic_exchange_n(&w->order.asked, false, __ATOMIC_ACQUIRE)) {
			ret = obey(w, &w->order);
			__atomic_store_n(&w->order.done, true, __ATOMIC_RELEASE);
		}
		sched_yield();
	}
	__atomic_store_n(&w->ret, ret, __ATOMIC_RELEASE);
	return NULL;
}

/* A kernel asks, and waits */
static int ask(struct world *w, size_t to, size_t from, size_t len, uint64_t *word)
{
	w->order = (struct order){.to = to, .from = from, .len = len, .word = word};
	__atomic_store_n(&w->order.asked, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&w->order.done, __ATOMIC_ACQUIRE)) {
		FT_TRY(__atomic_load_n(&w->ret, __ATOMIC_ACQUIRE));
		sched_yield();
	}
	return 0;
}

/* ---- the test ---- */

static struct ft_slot slot_of(struct world *w, int which, size_t len)
{
	const size_t base = (size_t) which * SLOT;

	return (struct ft_slot){&w->data.buf, base, SLOT, base + OFFSET, len};
}

static int word_is(struct world *w, size_t word, uint64_t expected)
{
	uint64_t got;

	FT_TRY(w->words.buf.ops->from(&got, w->words.buf.addr + word * sizeof(got),
				      sizeof(got)));
	FT_CHECK(got == expected, "word %zu is %llu, not %llu", word, (unsigned long long) got,
		 (unsigned long long) expected);
	return 0;
}

/* A kernel waits for its word */
static int word_wait(struct world *w, size_t word, uint64_t expected)
{
	const double end = ft_usec() + (double) w->proc->opts.timeout * 1e6;
	uint64_t got;

	do {
		FT_TRY(w->words.buf.ops->from(&got, w->words.buf.addr + word * sizeof(got),
					      sizeof(got)));
		FT_CHECK(got <= expected && ft_usec() < end, "word %zu is %llu, not %llu", word,
			 (unsigned long long) got, (unsigned long long) expected);
		sched_yield();
	} while (got != expected);
	ft_progress_note();
	return 0;
}

enum way { HOST_PUT, HOST_GET, KERNEL_PUT, KERNEL_PUT_SIGNAL, WAYS };

/* Of each rank to the next one, or from it, at odd places */
static int bytes(struct world *w, enum way way, size_t len, uint64_t *signals)
{
	const struct ft_slot out = slot_of(w, 0, len), in = slot_of(w, 1, len);
	const int from = way == HOST_GET ? w->next : w->before;
	uint64_t one = 1;

	FT_TRY(ft_slot_fill(&out, len + (uint64_t) w->proc->rank));
	FT_TRY(ft_slot_arm(&in));
	FT_TRY(ft_meet_all(w->proc));
	if (way == HOST_PUT)
		FT_TRY(move(w, HOST, false, in.off, out.off, len));
	else if (way == HOST_GET)
		FT_TRY(move(w, HOST, true, out.off, in.off, len));
	else
		FT_TRY(ask(w, in.off, out.off, len, way == KERNEL_PUT_SIGNAL ? &one : NULL));
	FT_TRY(quiet(w, HOST));
	if (way == KERNEL_PUT_SIGNAL)
		FT_TRY(word_wait(w, 0, ++*signals));
	else
		FT_TRY(ft_meet_all(w->proc));
	FT_TRY(ft_slot_check(&in, len, len + (uint64_t) from, "what has come"));
	return ft_meet_all(w->proc);
}

static int fetched(struct world *w, struct amo amo, uint64_t expected)
{
	uint64_t got = ~expected;

	memcpy(w->results.buf.addr, &got, sizeof(got));
	amo.fetches = true;
	FT_TRY(atomic(w, HOST, amo));
	FT_TRY(quiet(w, HOST));
	memcpy(&got, w->results.buf.addr, sizeof(got));
	FT_CHECK(got == expected, "fetched %llu, not %llu", (unsigned long long) got,
		 (unsigned long long) expected);
	return 0;
}

static int words(struct world *w)
{
	const bool host = w->proc->opts.iface == FI_HMEM_SYSTEM;

	/* what is put to one word has no order without a quiet between */
	for (size_t i = 0; i < BURST; i++) {
		if (i % VALUES == 0)
			FT_TRY(quiet(w, HOST));
		FT_TRY(value(w, HOST, 10 + i % VALUES, i));
	}
	FT_TRY(quiet(w, HOST));
	FT_TRY(ft_meet_all(w->proc));
	/* the core counts what is injected before it has arrived */
	for (size_t i = BURST - VALUES; i < BURST; i++)
		FT_TRY(host ? word_wait(w, 10 + i % VALUES, i)
			    : word_is(w, 10 + i % VALUES, i));
	FT_TRY(ft_meet_all(w->proc));
	FT_TRY(atomic(w, HOST, (struct amo){.op = FI_ATOMIC_WRITE, .word = 9, .operand = 40}));
	FT_TRY(quiet(w, HOST));
	for (size_t i = 0; i < BURST; i++)
		FT_TRY(atomic(w, HOST, (struct amo){.op = FI_SUM, .word = 9, .operand = i}));
	FT_TRY(quiet(w, HOST));
	FT_TRY(fetched(w, (struct amo){.op = FI_SUM, .word = 9, .operand = 2},
		       40 + BURST * (BURST - 1) / 2));
	FT_TRY(fetched(w, (struct amo){.op = FI_ATOMIC_READ, .word = 9},
		       42 + BURST * (BURST - 1) / 2));
	FT_TRY(fetched(w,
		       (struct amo){.op = FI_CSWAP,
				    .word = 9,
				    .operand = 77,
				    .compare = 42 + BURST * (BURST - 1) / 2},
		       42 + BURST * (BURST - 1) / 2));
	FT_TRY(fetched(w, (struct amo){.op = FI_BXOR, .word = 9, .operand = 1}, 77));
	FT_TRY(ft_meet_all(w->proc));
	return word_is(w, 9, 76);
}

static int all(struct world *w)
{
	static const size_t lens[] = {8, 1, 4096, 65537, LARGEST};
	uint64_t signals = 0;

	for (size_t i = 0; i < FT_COUNT(lens); i++)
		for (enum way way = 0; way < WAYS; way++)
			FT_TRY(bytes(w, way, lens[i], &signals));
	return words(w);
}

static int run(struct ft_proc *proc)
{
	const uint64_t zero[WORDS] = {0};
	struct world w = {
		.proc = proc,
		.next = (proc->rank + 1) % proc->ranks,
		.before = (proc->rank + proc->ranks - 1) % proc->ranks,
	};
	int ret;

	FT_TRY(ft_test_own_device(proc));
	FT_TRY(find(&w));
	FT_TRY(open_ends(&w));
	FT_TRY(region_open(&w, &w.data, proc->opts.iface, SIZE));
	FT_TRY(region_open(&w, &w.words, proc->opts.iface, sizeof(zero)));
	FT_TRY(region_open(&w, &w.results, FI_HMEM_SYSTEM, sizeof(zero)));
	FT_TRY(w.words.buf.ops->to(w.words.buf.addr, zero, sizeof(zero)));
	ret = pthread_create(&w.thread, NULL, proxy, &w);
	if (ret)
		return ft_fail(-ret, "pthread_create", "the thread for kernels");
	ret = all(&w);
	if (!ret)
		ret = ft_meet_all(proc);
	__atomic_store_n(&w.stop, true, __ATOMIC_RELEASE);
	pthread_join(w.thread, NULL);
	FT_TRY(ret ? ret : w.ret);
	FT_TRY(region_close(&w.data));
	FT_TRY(region_close(&w.words));
	FT_TRY(region_close(&w.results));
	return close_ends(&w);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "What NVSHMEM calls.",
		.ranks = 2,
		.most_ranks = 3,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
