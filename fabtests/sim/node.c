/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The processes: the provider under test, from fid/ down, and what an application opens above it. See sim.h. */
#include "fiber.h"
#include "gate.h"
#include "kernel.h"

#include "fid/domain.h"
#include "fid/ep.h"
#include "gpu/trigger.h"
#include "gpu/xpu.h"
#include "mem/ipc_share.h"
#include "path/info.h"
#include "path/info_tags.h"
#include "proto/proto_state.h"
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fi_cm.h>
#include <rdma/providers/fi_prov.h>

struct node nodes[SIM_NODES];
void (*node_application)(unsigned int i);

/* ---- memory ---- */

uint8_t *node_buffer(unsigned int node, bool dev, size_t len)
{
	uint8_t *mem = dev ? gpu_alloc(node, len + 2 * SIM_GUARD) : malloc(len + 2 * SIM_GUARD);

	memset(mem, SIM_GUARD_BYTE, len + 2 * SIM_GUARD);
	return mem + SIM_GUARD;
}

void node_buffer_free(uint8_t *buf)
{
	if (gpu_has(buf))
		gpu_free(buf - SIM_GUARD);
}

/* ---- open ---- */

static void open_fabric(unsigned int i)
{
	const struct script *script = world.script;
	struct node *node = &nodes[i];
	struct fid_fabric *core = core_fabric(i, NULL);
	struct fi_info *hints;
	const char *why = "";

	node->info = core_info(i, script->model);
	node->fabric = core;
	if (node->hook)
		SIM_MUST(fabric_open(core, &kind_hook, NULL, NULL, &node->fabric));
	if (node->plain || node->hook)
		return;
	hints = fi_allocinfo();
	hints->caps =
		FI_MSG | FI_TAGGED | FI_RMA | FI_HMEM |
		(script->model->atomics ? FI_ATOMIC : 0) | (script->sources ? FI_SOURCE : 0) |
		(script->directs ? FI_DIRECTED_RECV : 0) | (script->multi ? FI_MULTI_RECV : 0) |
		(script->fences ? FI_FENCE : 0) | (script->triggers ? FI_TRIGGER : 0);
	hints->domain_attr->mr_mode = node->info->domain_attr->mr_mode;
	if (script->autos >> i & 1 && script->model->automatic)
		hints->domain_attr->data_progress = node->info->domain_attr->data_progress =
			FI_PROGRESS_AUTO;
	if (!info_from_core(hints, node->info, fi_version(), &why))
		world_fail("not offered: %s", why);
	fi_freeinfo(hints);
	info_offer(node->info);
	if (script->alone >> i & 1 && !(script->pairs >> i & 1))
		node->info->domain_attr->threading = FI_THREAD_DOMAIN;
	SIM_MUST(fabric_open(core, &kind_p2p, script->triggers ? &triggers : NULL, NULL,
			     &node->fabric));
}

/* What peers may read and write */
static void open_regions(unsigned int i, unsigned int d)
{
	struct node *node = &nodes[i];

	const unsigned int count = world.liar == SIM_NODES ? 2 : SIM_REGIONS;

	for (unsigned int r = 0; r < count; r++) {
		/* nobody guesses it */
		const uint64_t key = count * (SIM_DOMAINS * i + d) + r + 1 +
				     (world.liar == SIM_NODES ? 0 : 0x3c5a0000);

		if (!node->shown[r])
			node->shown[r] = r % 2 ? gpu_alloc(i, SIM_SHOWN) : malloc(SIM_SHOWN);
		SIM_MUST(fi_mr_reg(node->domains[d].domain, node->shown[r], SIM_SHOWN,
				   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0,
				   &node->domains[d].mr[r], NULL));
	}
}

static void domain_begin(unsigned int i, unsigned int d)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 1024};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP,
					 .wait_obj = FI_WAIT_NONE};
	struct node *node = &nodes[i];
	struct node_domain *domain = &node->domains[d];

	*domain = (struct node_domain){.domain = NULL};
	if (!kernels_have(i, d))
		node_rest_cq(i, &cq_attr);
	SIM_MUST(fi_domain(node->fabric, node->info, &domain->domain, NULL));
	SIM_MUST(fi_av_open(domain->domain, &av_attr, &domain->av, NULL));
	SIM_MUST(fi_cq_open(domain->domain, &cq_attr, &domain->cq, domain));
	if (world.script->triggers && !node->plain && !node->hook) {
		SIM_MUST(fi_cntr_open(domain->domain, &cntr_attr, &domain->clock, NULL));
		SIM_MUST(fi_cntr_open(domain->domain, &cntr_attr, &domain->chain, NULL));
	}
	if (!node->plain && !node->hook)
		open_regions(i, d);
	kernels_open(i, d);
}

static void open_counters(unsigned int i, struct node_ep *ep, struct fid_domain *domain)
{
	static const uint64_t kinds[] = {FI_SEND, FI_RECV, FI_READ, FI_WRITE};
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP,
				    .wait_obj = node_rest_cntr(i)};

	for (size_t k = 0; k < SIM_COUNT(kinds); k++) {
		SIM_MUST(fi_cntr_open(domain, &attr, &ep->cntrs[k], NULL));
		SIM_MUST(fi_ep_bind(ep->ep, &ep->cntrs[k]->fid, kinds[k]));
	}
}

/* Both of them are posted again and again */
static void multis_turn(unsigned int i, unsigned int e)
{
	struct node_ep *ep = &nodes[i].eps[e];

	for (struct node_multi *multi = ep->multis; multi; multi = multi->next) {
		struct iovec iov = {.iov_len = SIM_MULTI};
		const struct fi_msg msg = {.msg_iov = &iov,
					   .iov_count = 1,
					   .addr = FI_ADDR_UNSPEC,
					   .context = &multi->context};

		if (multi->posted || multi->closed)
			continue;
		iov.iov_base = multi->buf;
		free(multi->used);
		multi->used = calloc(SIM_MULTI, sizeof *multi->used);
		/* another thread may have a completion before the call returns */
		multi->posted = true;
		if (fi_recvmsg(ep->ep, &msg, FI_MULTI_RECV))
			multi->posted = false;
	}
}

static void open_multis(unsigned int i, struct node_ep *ep)
{
	size_t least = SIM_MULTI_LEN;

	for (unsigned int m = 0; m < SIM_MULTIS; m++) {
		struct node_multi *multi = calloc(1, sizeof *multi);

		multi->buf = node_buffer(i, (i + ep->port + m) % 2, SIM_MULTI);
		multi->next = ep->multis;
		ep->multis = multi;
	}
	SIM_MUST(fi_setopt(&ep->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			   sizeof least));
}

static void node_ep_open(unsigned int i, unsigned int e)
{
	struct node *node = &nodes[i];
	struct node_ep *ep = &node->eps[e];
	struct node_domain *domain = &node->domains[SIM_DOMAIN_OF(e)];
	struct fi_info *info = fi_dupinfo(node->info);

	info->src_addrlen = core_name(i, ep->port, info->src_addr);
	SIM_MUST(fi_endpoint(domain->domain, info, &ep->ep, NULL));
	fi_freeinfo(info);
	SIM_MUST(fi_ep_bind(ep->ep, &domain->av->fid, 0));
	SIM_MUST(fi_ep_bind(ep->ep, &domain->cq->fid, FI_TRANSMIT | FI_RECV));
	memset(ep->cntrs, 0, sizeof ep->cntrs);
	memset(ep->counts, 0, sizeof ep->counts);
	memset(ep->met, 0, sizeof ep->met);
	memset(ep->removed, 0, sizeof ep->removed);
	memset(ep->blind, 0, sizeof ep->blind);
	if (world.script->counted && !node->plain && !node->hook)
		open_counters(i, ep, domain->domain);
	if (world.script->multi && !node->plain && !kernels_have(i, SIM_DOMAIN_OF(e)))
		open_multis(i, ep);
	SIM_MUST(fi_enable(ep->ep));
	kernels_ep_open(i, e);
	ep->open = true;
	world_tell("n%u:%u: opened", i, ep->port);
	op_adopt(i, e);
}

/* A program's begin */
static void node_begin(unsigned int i, unsigned int unused)
{
	struct node *node = &nodes[i];

	node_configure();
	memset(node->shown, 0, sizeof node->shown);
	memset(node->shown_used, 0, sizeof node->shown_used);
	open_fabric(i);
	node_rest_choose(i);
	for (unsigned int e = 0; e < world.script->eps; e++) {
		if (!e || SIM_DOMAIN_OF(e) != SIM_DOMAIN_OF(e - 1))
			domain_begin(i, SIM_DOMAIN_OF(e));
		if (!node->eps[e].port)
			node->eps[e].port = CORE_PORT + e;
		node_ep_open(i, e);
	}
	node_rest_begin(i);
}

static void *node_run(void *arg);

/* Has its application two threads? A core that loses messages so is guarded by ours, not by the hook */
static bool has_pair(unsigned int i)
{
	return world.script->pairs >> i & 1 &&
	       !(world.script->model->serial && (nodes[i].plain || nodes[i].hook));
}

void node_open(unsigned int i)
{
	struct node *node = &nodes[i];

	fiber_kill_all(i);
	process_begin(i);
	node->state = NODE_RUNS;
	node->pid = 1000 + i + SIM_NODES * (long) node->life;
	node->plain = world.script->plain && i == world.script->nodes - 1;
	node->hook = world.script->hook && !node->plain && i == world.script->nodes - 1;
	node->wished = node->granted = 0;
	node->bell = NULL;
	node->posting = 0;
	node->granting = node->ends = false;
	node->turns = 0;
	for (unsigned int t = 0; t < SIM_THREADS; t++) {
		node->turning[t] = false;
		node->app[t] = !t || has_pair(i)
				       ? fiber_start(node_run,
						     (void *) (uintptr_t) (i * SIM_THREADS + t))
				       : NULL;
	}
	node_wish(i, node_begin, 0);
	/* nothing in it waits for other processes */
	while (node_is_acting(i))
		node_step(i, true);
}

/* ---- close ---- */

/* Who has not had an answer from it yet does not learn that it has ended */
static void node_ep_end(unsigned int i, unsigned int e)
{
	struct node_ep *ep = &nodes[i].eps[e];

	for (unsigned int at = 0; ep->open && at < SIM_NODES * SIM_EPS; at++) {
		struct node_ep *other = &nodes[at / SIM_EPS].eps[at % SIM_EPS];

		if (other->met[i][e] != ep->life + 1)
			other->blind[i][e] = ep->port;
	}
	ep->life += ep->open;
	ep->open = false;
}

static void close_ep(const struct node_ep *ep)
{
	SIM_MUST(fi_close(&ep->ep->fid));
	for (size_t k = 0; k < SIM_COUNT(ep->cntrs); k++) {
		if (ep->cntrs[k])
			SIM_MUST(fi_close(&ep->cntrs[k]->fid));
	}
}

/* No stream waits for one then: that would hold up the close of another domain */
static void close_clock(struct node_domain *domain)
{
	if (!domain->clock)
		return;
	op_graphs_close(world.current, (unsigned int) (domain - nodes[world.current].domains));
	SIM_MUST(fi_close(&domain->clock->fid));
	SIM_MUST(fi_close(&domain->chain->fid));
	domain->clock = domain->chain = NULL;
}

static void close_domain(struct node_domain *domain)
{
	struct fid_domain *last = domain->domain;

	for (size_t r = 0; r < SIM_REGIONS; r++) {
		if (domain->mr[r])
			SIM_MUST(fi_close(&domain->mr[r]->fid));
	}
	SIM_MUST(fi_close(&domain->cq->fid));
	kernels_close(world.current, (unsigned int) (domain - nodes[world.current].domains));
	SIM_MUST(fi_close(&domain->av->fid));
	if (domain->polls)
		SIM_MUST(fi_close(&domain->polls->fid));
	/* nobody looks into what is half closed */
	domain->domain = NULL;
	SIM_MUST(fi_close(&last->fid));
}

static void close_domains(struct node *node)
{
	const unsigned int count = SIM_DOMAIN_OF(world.script->eps - 1) + 1;

	for (unsigned int d = 0; d < count; d++)
		close_clock(&node->domains[d]);
	for (unsigned int d = 0; d < count; d++)
		close_domain(&node->domains[d]);
}

/* What was under way there is not heard of any more, and nothing is written */
void node_ep_close(unsigned int i, unsigned int e)
{
	struct node_ep *ep = &nodes[i].eps[e];

	if (!ep->open)
		return;
	world_tell("n%u:%u: closes", i, ep->port);
	for (size_t k = 0; k < SIM_COUNT(ep->cntrs) && ep->cntrs[k]; k++)
		check_counted(i, e);
	kernels_ep_close(i, e);
	close_ep(ep);
	op_close(i, e);
	for (struct node_multi *multi = ep->multis; multi; multi = multi->next)
		multi->closed = true;
	node_ep_end(i, e);
}

void node_ep_reopen(unsigned int i, unsigned int e)
{
	struct node_ep *ep = &nodes[i].eps[e % SIM_EPS];

	if (ep->open)
		return;
	/* an address that nobody has had. What is to go there is for this one, which may end before it is open */
	if (e >= SIM_EPS) {
		ep->port += SIM_EPS;
		op_adopt(i, e % SIM_EPS);
	}
	node_ep_open(i, e % SIM_EPS);
}

static bool others_have_ended(const void *of)
{
	const struct node *node = of;

	return !node->app[1] || fiber_has_ended(node->app[1]);
}

/* All of it, in order */
void node_close(unsigned int i, unsigned int unused)
{
	struct node *node = &nodes[i];

	world_tell("n%u: closes", i);
	node->ends = true;
	fiber_wait(others_have_ended, node, UINT64_MAX);
	for (unsigned int e = 0; e < world.script->eps; e++)
		node_ep_close(i, e);
	close_domains(node);
	node_rest_end(i);
	/* the provider is unloaded */
	if (!node->plain && !node->hook)
		ipc_share_stop();
	node->state = NODE_DEAD;
	check_closed(i);
}

static void node_end(unsigned int i)
{
	struct node *node = &nodes[i];

	core_kill(i);
	kernels_settle(i, true);
	gpu_streams_end(i);
	gate_close_all(i);
	gate_unmap_all(i);
	op_end_process(i);
	gpu_end(i);
	node->state = NODE_DEAD;
	node->life++;
	for (unsigned int e = 0; e < SIM_EPS; e++)
		node_ep_end(i, e);
}

/* Its memory stays, and nobody looks at it any more */
void node_kill(unsigned int i)
{
	world_tell("n%u: ends", i);
	node_end(i);
	fiber_kill_all(i);
}

void node_leave(unsigned int i, unsigned int unused)
{
	node_close(i, 0);
	node_end(i);
}

/* ---- fork() ---- */

/* Of the system's own fork(): the child has a copy of the world, with one thread, and does nothing there but that */
static void child_run(unsigned int i, bool closes)
{
	struct node *node = &nodes[i];

	world.child = true;
	node->pid += SIM_CHILD;
	fiber_alone();
	gate_fill(i, -1);
	gate_forks(FORK_CHILD);
	for (unsigned int e = 0; closes && e < world.script->eps; e++) {
		if (node->eps[e].open)
			close_ep(&node->eps[e]);
	}
	if (closes)
		close_domains(node);
	/* the provider is unloaded */
	ipc_share_stop();
	fflush(stdout);
	_exit(0);
}

/* A child leaves alone what is its parent's: the core, the GPU, datagrams, and shared pages */
void node_fork(unsigned int i, unsigned int closes)
{
	uint64_t pages;
	pid_t child;
	int status;

	world_tell("n%u: forks", i);
	gate_forks(FORK_BEFORE);
	pages = gate_pages_sum(i);
	fflush(stdout);
	child = fork();
	if (!child)
		child_run(i, closes);
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		world_fail("n%u: its child fails", i);
	if (gate_pages_sum(i) != pages)
		world_fail("n%u: its child has written to shared pages", i);
	/* then its other threads may go on, and write */
	gate_forks(FORK_PARENT);
}

/* ---- peers ---- */

/* The endpoint of a node's that peers ask at that port; SIM_EPS: none */
static unsigned int ep_by_port(unsigned int i, uint16_t port)
{
	unsigned int e;

	for (e = 0; e < SIM_EPS; e++) {
		struct p2p_ep *ep = nodes[i].eps[e].open && !nodes[i].plain && !nodes[i].hook
					    ? ep_of(&nodes[i].eps[e].ep->fid)
					    : NULL;

		if (ep && keepalive_port(ep->xfer.proto->keepalive) == port)
			break;
	}
	return e;
}

void node_heard(const void *bytes, size_t len, uint16_t port, unsigned int from,
		uint16_t from_port)
{
	const unsigned int i = world.current;
	const uint32_t *words = bytes;
	unsigned int e, peer_ep;

	/* an answer (xfer/keepalive.c) */
	if (from == SIM_NODES || len < 2 * sizeof *words || words[1] != 2)
		return;
	e = ep_by_port(i, port);
	peer_ep = ep_by_port(from, from_port);
	if (e == SIM_EPS || peer_ep == SIM_EPS)
		return;
	nodes[i].eps[e].met[from][peer_ep] = nodes[from].eps[peer_ep].life + 1;
	nodes[i].eps[e].removed[from][peer_ep] = false;
	/* of another address nothing is known by that */
	if (nodes[i].eps[e].blind[from][peer_ep] == nodes[from].eps[peer_ep].port)
		nodes[i].eps[e].blind[from][peer_ep] = 0;
}

unsigned int node_host(unsigned int i)
{
	const unsigned int hosts = world.script->hosts;

	if (world.script->model->strings)
		return 0;
	return hosts ? i % hosts : i;
}

fi_addr_t node_addr(unsigned int i, unsigned int e, unsigned int peer, unsigned int peer_ep)
{
	const struct node_domain *domain = &nodes[i].domains[SIM_DOMAIN_OF(e)];

	return domain->knows[peer] == KNOWS &&
			       domain->ports[peer][peer_ep] == nodes[peer].eps[peer_ep].port
		       ? domain->addr[peer][peer_ep]
		       : FI_ADDR_NOTAVAIL;
}

void node_forget(unsigned int i, unsigned int peer, bool forget)
{
	for (unsigned int d = 0; d < SIM_DOMAINS; d++) {
		enum node_knows *knows = &nodes[i].domains[d].knows[peer];

		if (nodes[i].domains[d].av)
			*knows = forget ? KNOWS_STILL : KNOWS;
	}
}

/* Addresses of peers are inserted, under their names of today; or removed, once nothing is about them */
static void peers_turn(unsigned int i, unsigned int d, unsigned int peer)
{
	struct node_domain *domain = &nodes[i].domains[d];
	char name[64];

	for (unsigned int e = 0; domain->knows[peer] == KNOWS && e < world.script->eps; e++) {
		const unsigned int port = nodes[peer].eps[e].port;

		if (!port || domain->ports[peer][e] == port)
			continue;
		core_name(peer, port, name);
		if (fi_av_insert(domain->av, name, 1, &domain->addr[peer][e], 0, NULL) != 1) {
			if (!gate_is_scarce(i))
				world_fail("n%u: a peer is not inserted", i);
			return;
		}
		domain->ports[peer][e] = port;
		world_tell("n%u: inserts n%u:%u as %zu", i, peer, port,
			   (size_t) domain->addr[peer][e]);
	}
	if (domain->knows[peer] != KNOWS_STILL || op_names(i, d, peer))
		return;
	domain->knows[peer] = KNOWS_NOT;
	for (unsigned int e = 0; e < world.script->eps; e++) {
		if (!domain->ports[peer][e])
			continue;
		world_tell("n%u: removes n%u:%u", i, peer, domain->ports[peer][e]);
		SIM_MUST(fi_av_remove(domain->av, &domain->addr[peer][e], 1, 0));
		domain->ports[peer][e] = 0;
		for (unsigned int own = 0; own < world.script->eps; own++) {
			if (SIM_DOMAIN_OF(own) == d)
				nodes[i].eps[own].removed[peer][e] = true;
		}
	}
}

/* ---- turns ---- */

/* In a turn, where it has nothing else to do: of some reads that find nothing one in 256 makes progress */
#define NODE_READS 128

/* Addresses and buffers for many are the first thread's. Of those buffers it alone reads, so that it knows which is last */
static void node_turn(unsigned int i, unsigned int t)
{
	const unsigned int domains = SIM_DOMAIN_OF(world.script->eps - 1) + 1;
	const unsigned int reads = world.awake ? NODE_READS : 1;
	struct node *node = &nodes[i];

	for (unsigned int at = 0; at < reads * domains && !(t && world.script->multi); at++) {
		if (!kernels_have(i, at % domains))
			node_read(i, at % domains, t);
	}
	if (node->granting)
		return;
	if (!node->posting++)
		op_todo_tidy(i);
	for (unsigned int at = 0; !t && at < domains * world.script->nodes; at++)
		peers_turn(i, at / world.script->nodes, at % world.script->nodes);
	for (unsigned int e = 0; !t && world.script->multi && e < world.script->eps; e++) {
		if (!node->plain && node->eps[e].open)
			multis_turn(i, e);
	}
	for (unsigned int d = 0; !t && d < domains; d++)
		op_triggers_turn(i, d);
	op_turn(i);
	node->turns += !t;
	node->posting--;
	if (!(t && world.script->multi))
		node_rest(i, t);
}

/* Are there addresses to insert, or to remove? */
static bool peers_want(unsigned int i, unsigned int d, unsigned int peer)
{
	const struct node_domain *domain = &nodes[i].domains[d];
	bool wants = domain->knows[peer] == KNOWS_STILL && !op_names(i, d, peer);

	for (unsigned int e = 0; domain->knows[peer] == KNOWS && e < world.script->eps; e++)
		wants |= nodes[peer].eps[e].port &&
			 domain->ports[peer][e] != nodes[peer].eps[e].port;
	return wants;
}

static bool multis_want(unsigned int i, unsigned int e)
{
	const struct node_multi *multi = nodes[i].eps[e].multis;

	while (multi && (multi->posted || multi->closed))
		multi = multi->next;
	return multi && nodes[i].eps[e].open && !nodes[i].plain;
}

bool node_wants(unsigned int i)
{
	const struct node *node = &nodes[i];
	const unsigned int domains = SIM_DOMAIN_OF(world.script->eps - 1) + 1;
	bool wants = world.awake || node->granted != node->wished || node->state == NODE_BUSY ||
		     node->ends;

	for (unsigned int at = 0; !wants && at < domains * world.script->nodes; at++)
		wants = peers_want(i, at / world.script->nodes, at % world.script->nodes);
	for (unsigned int e = 0; !wants && world.script->multi && e < world.script->eps; e++)
		wants = multis_want(i, e);
	for (unsigned int d = 0; !wants && d < domains; d++)
		wants = op_triggers_want(i, d);
	return wants || op_wants(i);
}

/* ---- threads ---- */

void node_wish(unsigned int i, void (*grant)(unsigned int i, unsigned int arg),
	       unsigned int arg)
{
	struct node *node = &nodes[i];

	if (node->wished - node->granted == SIM_WISHES)
		world_fail("n%u: more than %d wishes", i, SIM_WISHES);
	node->wishes[node->wished++ % SIM_WISHES] = (struct wish){grant, arg};
}

bool node_is_acting(unsigned int i)
{
	return nodes[i].state != NODE_DEAD && nodes[i].granted != nodes[i].wished;
}

static bool nobody_posts(const void *of)
{
	return !((const struct node *) of)->posting;
}

static void node_grant(unsigned int i)
{
	struct node *node = &nodes[i];
	const struct wish wish = node->wishes[node->granted % SIM_WISHES];

	/* others may read meanwhile, and sleep */
	node->granting = true;
	fiber_wait(nobody_posts, node, UINT64_MAX);
	wish.grant(i, wish.arg);
	node->granting = false;
	node->granted++;
}

/* An application's thread: the first one opens and closes */
static void *node_run(void *arg)
{
	const unsigned int i = (unsigned int) (uintptr_t) arg / SIM_THREADS;
	const unsigned int t = (unsigned int) (uintptr_t) arg % SIM_THREADS;
	struct node *node = &nodes[i];
	bool opened = !t;

	while (node->state != NODE_DEAD && !(t && node->ends)) {
		node->turning[t] = true;
		opened |= node->granted > 0;
		if (!t && node->granted != node->wished)
			node_grant(i);
		else if (node_application)
			node_application(i);
		else if (opened)
			node_turn(i, t);
		node->turning[t] = false;
		fiber_yield();
	}
	return NULL;
}

/* An application that computes calls nothing. A call that it is in comes to its end before */
static bool may_run(const struct node *node, const struct fiber *fiber)
{
	if (node->state != NODE_BUSY)
		return node->state == NODE_RUNS;
	for (unsigned int t = 0; t < SIM_THREADS; t++) {
		if (node->app[t] == fiber)
			return node->turning[t];
	}
	return true;
}

void node_step(unsigned int i, bool all)
{
	struct fiber *fiber = NULL;

	/* they do not go in step */
	if (may_run(&nodes[i], nodes[i].app[0]) && (all || world_upto(4)) &&
	    fiber_is_ready(nodes[i].app[0]))
		fiber_resume(nodes[i].app[0]);
	while (nodes[i].state != NODE_DEAD && (fiber = fiber_next(i, fiber))) {
		if (may_run(&nodes[i], fiber) && (all || world_upto(2)) &&
		    fiber_is_ready(fiber))
			fiber_resume(fiber);
	}
}
