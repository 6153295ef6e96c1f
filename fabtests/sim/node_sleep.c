/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Applications that sleep until there is something for them. See sim.h.
 *
 * A thread sleeps without an end: what could end, and stays because nobody wakes it, fails the run as all that does not
 * end. While it sleeps, nobody reads the core's queues but threads of the provider's. What the application itself has to do
 * wakes it by the bell, a thread that libfabric lets call beside others: it signals a queue, writes to a descriptor, or
 * counts an error. It does so once, and somebody has to hear it.
 */
#include "exhaust.h"
#include "fiber.h"
#include "gate.h"
#include "kernel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <rdma/fi_eq.h>

static unsigned int domain_count(void)
{
	return SIM_DOMAIN_OF(world.script->eps - 1) + 1;
}

/* ---- what a process waits by ---- */

static enum node_rest rest_of(unsigned int i)
{
	const struct script *script = world.script;
	const struct node *node = &nodes[i];
	const bool layered = !node->plain && !node->hook;
	/* without us, it would crash where an endpoint closes */
	const bool waits = script->model->waits && !(node->plain && script->model->litters);
	enum node_rest rest = script->rests >> i * SIM_REST_BITS & ((1 << SIM_REST_BITS) - 1);

	if (node->plain && (rest == REST_SET || rest == REST_POLLSET))
		rest = REST_FD;
	/* who sleeps on a counter reads no queue meanwhile, so nobody may wait for what a completion is followed by */
	if (rest == REST_CNTR && (!layered || !script->counted || script->multi ||
				  node->app[1] || domain_count() > 1))
		rest = REST_SREAD;
	/* each thread has a queue */
	if (rest == REST_SREAD && domain_count() > 1 && (!node->app[1] || script->multi))
		rest = REST_FD;
	/* the bell may not call */
	if (rest != REST_POLLSET && layered && script->alone >> i & 1 && !node->app[1])
		rest = rest == REST_POLL ? REST_POLL : REST_FD;
	/* it reads no queue of the kernels' */
	if (kernels_have(i, domain_count() - 1) && rest != REST_POLL)
		rest = waits ? REST_FD : REST_POLL;
	if ((rest == REST_FD || rest == REST_SET) && !waits)
		rest = domain_count() > 1 || script->alone >> i & 1 ? REST_POLL : REST_SREAD;
	return rest;
}

void node_rest_choose(unsigned int i)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD};
	struct node *node = &nodes[i];

	node->rest = rest_of(i);
	node->asleep = node->wakes = 0;
	node->rung = node->away = false;
	node->awaited = NULL;
	node->ringer = -1;
	node->set = NULL;
	if (node->rest == REST_SET &&
	    node->fabric->ops->wait_open(node->fabric, &attr, &node->set))
		world_fail("n%u: no wait set", i);
	if (node->rest == REST_FD)
		node->ringer = sim_eventfd(0, EFD_CLOEXEC);
}

void node_rest_cq(unsigned int i, struct fi_cq_attr *attr)
{
	static const enum fi_wait_obj objs[] = {
		[REST_POLL] = FI_WAIT_NONE,    [REST_SREAD] = FI_WAIT_UNSPEC,
		[REST_FD] = FI_WAIT_FD,        [REST_SET] = FI_WAIT_SET,
		[REST_POLLSET] = FI_WAIT_NONE, [REST_CNTR] = FI_WAIT_NONE,
	};

	attr->wait_obj = objs[nodes[i].rest];
	attr->wait_set = nodes[i].set;
}

/* A second thread may not sleep on a counter that the first one closes */
static bool counters_have_fds(const struct node *node)
{
	return node->rest == REST_FD && !node->app[1];
}

enum fi_wait_obj node_rest_cntr(unsigned int i)
{
	if (nodes[i].rest == REST_CNTR)
		return FI_WAIT_UNSPEC;
	return counters_have_fds(&nodes[i]) ? FI_WAIT_FD : FI_WAIT_NONE;
}

/* ---- the bell ---- */

/* Is it to be posted, as far as that can be told? */
static bool end_wants(const struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];
	const bool directed = op->plan.directed && world.script->directs;

	if (op_is_ringed(op, end))
		return op_ring_wants(op, end);
	if (at->posted && !end && op_graph_wants(op))
		return true;
	if (at->posted)
		return at->cancel_at && world.now >= at->cancel_at;
	if (at->looking || world.now < at->look_at ||
	    world_later(SIM_S + (end ? op->plan.recv_at : op->plan.at)))
		return false;
	if (!op_end_lives(op, !end) && !(end && op->ends[0].posted))
		return true;
	return ((end && !directed) ||
		node_addr(op_node(op, end), op_ep(op, end), op_node(op, !end),
			  op_ep(op, !end)) != FI_ADDR_NOTAVAIL) &&
	       op_is_next(op, end);
}

bool op_wants(unsigned int node)
{
	const struct op *op;
	unsigned int end;

	for (size_t i = 0; (op = op_todo(node, i, &end)); i++) {
		if (op_end_is_open(op, end) && end_wants(op, end))
			return true;
	}
	return false;
}

/* Does this end surely come to a good end, so that it is counted? */
static bool is_certain(const struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	if (!op_end_exists(op, end) || !at->posted || at->done || at->cancelled || at->closed ||
	    op->plan.untagged || op->plan.look || op->plan.chained || op->spare ||
	    check_may_fail(op) || !op_end_lives(op, 0) || !op_end_lives(op, 1))
		return false;
	for (size_t i = 0; i < op_count; i++) {
		if (ops[i].plan.cancel || ops[i].spare)
			return false;
	}
	return op->plan.kind != OP_MESSAGE || op->ends[!end].posted;
}

static bool bell_due(const void *of)
{
	const struct node *node = of;
	const unsigned int i = (unsigned int) (node - nodes);

	/* the core's own signal may be taken back by a thread that reads */
	if ((node->rung && !node->plain) || !node->asleep)
		return false;
	return node_wants(i) ||
	       (node->awaited && !is_certain(node->awaited, op_node(node->awaited, 1) == i));
}

static void bell_ring(struct node *node)
{
	const uint64_t one = 1;
	int ret = 0;

	node->rung = true;
	if (node->rest == REST_FD)
		ret = sim_write(node->ringer, &one, sizeof one) == sizeof one ? 0 : -FI_EIO;
	else if (node->rest == REST_CNTR)
		ret = fi_cntr_adderr(node->awaited_cntr, 1);
	for (unsigned int d = 0; d < domain_count() && node->rest != REST_FD; d++) {
		if (node->rest != REST_CNTR && !ret)
			ret = fi_cq_signal(node->domains[d].cq);
	}
	if (ret)
		world_fail("n%u: nobody can be woken: %s", world.current, fi_strerror(-ret));
}

static void *bell_run(void *of)
{
	struct node *node = of;

	while (node->state != NODE_DEAD) {
		if (fiber_wait(bell_due, node, UINT64_MAX))
			bell_ring(node);
		fiber_yield();
	}
	return NULL;
}

void node_rest_begin(unsigned int i)
{
	struct node *node = &nodes[i];
	struct fi_poll_attr attr = {.flags = 0};

	for (unsigned int d = 0; d < domain_count() && node->rest == REST_POLLSET; d++) {
		struct node_domain *domain = &node->domains[d];

		if (domain->domain->ops->poll_open(domain->domain, &attr, &domain->polls) ||
		    domain->polls->ops->poll_add(domain->polls, &domain->cq->fid, 0))
			world_fail("n%u: no poll set", i);
	}
	if (node->rest != REST_POLL && node->rest != REST_POLLSET)
		node->bell = fiber_start(bell_run, node);
}

void node_rest_end(unsigned int i)
{
	struct node *node = &nodes[i];

	if (node->set && fi_close(&node->set->fid))
		world_fail("n%u: a wait set does not close", i);
	if (node->ringer >= 0)
		sim_close(node->ringer);
}

/* ---- sleeping ---- */

/* All that may be waited for; returns how many there are */
static int things_of(const struct node *node, struct fid **things)
{
	int count = 0;

	for (unsigned int d = 0; d < domain_count(); d++) {
		if (!node->domains[d].ctx)
			things[count++] = &node->domains[d].cq->fid;
	}
	for (unsigned int e = 0; counters_have_fds(node) && e < world.script->eps; e++) {
		for (size_t k = 0; node->eps[e].open && k < SIM_COUNT(node->eps[e].cntrs);
		     k++) {
			if (node->eps[e].cntrs[k])
				things[count++] = &node->eps[e].cntrs[k]->fid;
		}
	}
	return count;
}

static void sleep_fd(struct node *node)
{
	struct fid *things[SIM_DOMAINS + 4 * SIM_EPS];
	struct pollfd polled[SIM_DOMAINS + 4 * SIM_EPS + 1];
	const int count = things_of(node, things);
	const int ret = node->fabric->ops->trywait(node->fabric, things, count);
	uint64_t rings;

	if (ret == -FI_EAGAIN)
		return;
	if (ret)
		world_fail("n%u: fi_trywait: %s", world.current, fi_strerror(-ret));
	for (int i = 0; i < count; i++) {
		polled[i] = (struct pollfd){.events = POLLIN};
		if (fi_control(things[i], FI_GETWAIT, &polled[i].fd))
			world_fail("n%u: there is no descriptor", world.current);
	}
	polled[count] = (struct pollfd){.fd = node->ringer, .events = POLLIN};
	sim_poll(polled, (unsigned long) count + 1, -1);
	if (polled[count].revents)
		sim_read(node->ringer, &rings, sizeof rings);
}

static void sleep_set(struct node *node)
{
	const int ret = node->set->ops->wait(node->set, -1);

	if (ret)
		world_fail("n%u: fi_wait: %s", world.current, fi_strerror(-ret));
}

/* What the application has seen of the ends that are counted is less than was counted, or something counts soon */
static void sleep_cntr(struct node *node, unsigned int i)
{
	for (size_t j = 0; j < 2 * op_count; j++) {
		const struct op *op = &ops[j / 2];
		const unsigned int end = j % 2, k = op_counts(op, end);
		const struct node_ep *ep = &node->eps[op_ep(op, end)];
		int ret;

		/* both may be this node's: the first one is looked for again by bell_due() */
		if (op_node(op, end) != i || op_node(op, !end) == i || !is_certain(op, end))
			continue;
		node->awaited = op;
		node->awaited_cntr = ep->cntrs[k];
		ret = fi_cntr_wait(ep->cntrs[k], ep->counts[k] + 1, -1);
		node->awaited = NULL;
		if (ret && ret != -FI_EAVAIL)
			world_fail("n%u: fi_cntr_wait: %s", i, fi_strerror(-ret));
		return;
	}
}

static void sleeps(unsigned int i)
{
	nodes[i].asleep++;
}

static void has_woken(unsigned int i)
{
	nodes[i].asleep--;
	nodes[i].wakes++;
	nodes[i].rung = false;
}

struct away {
	const struct node *node;
	unsigned int wakes;
};

static bool away_ends(const void *of)
{
	const struct away *away = of;
	const unsigned int i = (unsigned int) (away->node - nodes);

	return away->node->wakes != away->wakes || node_wants(i);
}

/* A thread that has got something may have enough of it: others that sleep are woken for what comes */
static void go_away(unsigned int i, unsigned int t)
{
	struct node *node = &nodes[i];
	const struct away away = {node, node->wakes};

	if (node->rest != REST_SREAD || !node->app[1] || world.script->multi ||
	    domain_count() > 1 || node->away || !node->asleep || world_upto(3))
		return;
	node->away = true;
	fiber_wait(away_ends, &away, UINT64_MAX);
	node->away = false;
}

/* May thread @t sleep in a read of the queue of domain @d? */
static bool waits_in_read(unsigned int i, unsigned int d, unsigned int t)
{
	return nodes[i].rest == REST_SREAD && (domain_count() == 1 || d == t) && !node_wants(i);
}

/* ---- reading ---- */

static ssize_t read_some(unsigned int i, unsigned int d, unsigned int t,
			 struct fi_cq_tagged_entry *entries, size_t count, fi_addr_t *src)
{
	struct node_domain *domain = &nodes[i].domains[d];
	void *told = domain;
	ssize_t ret = 1;

	if (domain->polls)
		ret = domain->polls->ops->poll(domain->polls, &told, 1);
	if (ret < 0 || told != domain)
		world_fail("n%u: a poll set tells of nothing that is in it: %zd", i, ret);
	if (!ret)
		return -FI_EAGAIN;
	if (!waits_in_read(i, d, t))
		return fi_cq_readfrom(domain->cq, entries, count, src);
	sleeps(i);
	ret = fi_cq_sreadfrom(domain->cq, entries, count, src, NULL, -1);
	has_woken(i);
	return ret;
}

void node_take(unsigned int i, unsigned int d, const struct fi_cq_tagged_entry *entry,
	       fi_addr_t src)
{
	const struct fi_cq_err_entry whole = {.op_context = entry->op_context,
					      .flags = entry->flags,
					      .len = entry->len,
					      .buf = entry->buf,
					      .data = entry->data,
					      .tag = entry->tag};

	op_take(i, d, &whole, src);
}

void node_read(unsigned int i, unsigned int d, unsigned int t)
{
	struct fid_cq *cq = nodes[i].domains[d].cq;
	struct fi_cq_tagged_entry entries[4];
	struct fi_cq_err_entry error;
	fi_addr_t src[4];
	bool got = false;
	ssize_t read;

	do {
		read = read_some(i, d, t, entries, SIM_COUNT(entries), src);
		got |= read > 0;
		for (ssize_t at = 0; at < read; at++)
			node_take(i, d, &entries[at], src[at]);
		if (read == -FI_EAVAIL) {
			memset(&error, 0, sizeof error);
			if (fi_cq_readerr(cq, &error, 0) == 1)
				op_take(i, d, &error, FI_ADDR_NOTAVAIL);
		} else if (read < 0 && read != -FI_EAGAIN) {
			world_fail("n%u: fi_cq_read: %s", i, fi_strerror((int) -read));
		}
	} while (read == SIM_COUNT(entries));
	if (got)
		go_away(i, t);
}

void node_rest(unsigned int i, unsigned int t)
{
	struct node *node = &nodes[i];

	if ((node->rest != REST_FD && node->rest != REST_SET && node->rest != REST_CNTR) ||
	    node_wants(i))
		return;
	sleeps(i);
	if (node->rest == REST_FD)
		sleep_fd(node);
	else if (node->rest == REST_SET)
		sleep_set(node);
	else
		sleep_cntr(node, i);
	has_woken(i);
}
