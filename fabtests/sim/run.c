/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One run: the script, then peace, then proof that all is well again, then the end. See sim.h. */
#include "base/base.h"
#include "exhaust.h"
#include "fiber.h"
#include "gate.h"
#include "kernel.h"

#include <sys/resource.h>
#include <unistd.h>

/* For so long everything may take to end, once faults have stopped [ns] */
#define RUN_PATIENCE (60 * SIM_S)
/* Idle processes look as seldom as that, at most; and while the world is awake [ns] */
#define RUN_LOOK (200 * SIM_MS)
#define RUN_LOOK_AWAKE (50 * SIM_MS)

/*
 * So many turns are enough to know within 5 s that a process has ended: while the world is awake, two are one look of the
 * provider's, which counts as 200 ms at most
 */
#define RUN_TURNS 60

/* The tag of the round in which nothing is a reason any more */
#define ROUND_SECOND 4

static const struct script *script;
static bool begun[SIM_FAULTS], over[SIM_FAULTS];
static unsigned int idle;
static uint64_t looked; /* [s] */

/* ---- faults ---- */

/* Is it to be feared that a peer is taken for dead that only rests? */
static void fault_of_silence(const struct fault_plan *fault)
{
	if (script->timeout)
		check_reason(fault->node, SIM_NODES, check_silence);
}

static void fault_pause(const struct fault_plan *fault, enum node_state state)
{
	struct node *node = &nodes[fault->node];

	fault_of_silence(fault);
	if (node->state != NODE_RUNS)
		return;
	world_tell("n%u: %s", fault->node, fault_names[fault->kind]);
	node->state = state;
	node->until = world.now + fault->span;
}

static void fault_kill(const struct fault_plan *fault)
{
	check_death(fault->node);
	if (nodes[fault->node].state != NODE_DEAD)
		node_kill(fault->node);
}

static void fault_close(const struct fault_plan *fault)
{
	const unsigned int e = fault->ep % script->eps;

	if (nodes[fault->node].state != NODE_RUNS || !nodes[fault->node].eps[e].open)
		return;
	check_reason_ep(fault->node, e, "an endpoint was closed");
	node_wish(fault->node, node_ep_close, e);
}

static void fault_leave(const struct fault_plan *fault)
{
	if (nodes[fault->node].state != NODE_RUNS)
		return;
	check_death(fault->node);
	node_wish(fault->node, node_leave, 0);
}

/* Few are left, or none */
static void fault_full(const struct fault_plan *fault)
{
	/* what kernels ask for waits no longer for a greeting, which needs descriptors */
	if (script->rings)
		fault_of_silence(fault);
	if (nodes[fault->node].state != NODE_DEAD)
		gate_fill(fault->node, fault->span % 3 ? (int) (fault->span % 32) : 0);
}

static void fault_lane(const struct fault_plan *fault)
{
	if (fault->renamed == 2)
		core_cut(fault->node, 1 + (unsigned int) (fault->span % 5));
	else if (fault->renamed)
		core_refuse(fault->node, true);
	else
		core_reset(fault->node, fault->peer, true);
}

/* The core alone would break the parent's connections as a child closes them */
static void fault_fork(const struct fault_plan *fault)
{
	if (nodes[fault->node].state == NODE_RUNS && !nodes[fault->node].plain)
		node_wish(fault->node, node_fork, fault->renamed);
}

/* Its operations may fail, and those with it */
static void fault_lie(const struct fault_plan *fault)
{
	check_reason(fault->node, SIM_NODES, "a process lies");
	if (fault->node == world.liar)
		lie_begin(fault);
}

/* What it is asked for may fail then */
static void fault_memory(const struct fault_plan *fault)
{
	check_reason(fault->node, SIM_NODES, "memory was short");
	gate_scarce(fault->node, fault->often);
}

static void fault_begin(const struct fault_plan *fault)
{
	world_tell("fault: %s of n%u", fault_names[fault->kind], fault->node);
	switch (fault->kind) {
	case FAULT_BUSY:
		fault_pause(fault, NODE_BUSY);
		break;
	case FAULT_STOP:
		fault_pause(fault, NODE_STOPPED);
		break;
	case FAULT_KILL:
	case FAULT_RESTART:
		fault_kill(fault);
		break;
	case FAULT_RESET:
		if (!script->model->silent)
			check_reason(fault->node, fault->peer, "a connection broke");
		core_reset(fault->node, fault->peer, false);
		break;
	case FAULT_HARD:
		check_reason(fault->node, SIM_NODES, "the core refused a post");
		core_refuse(fault->node, false);
		break;
	case FAULT_LOSE:
		check_reason(fault->node, SIM_NODES, "the core lost a message");
		core_lose(fault->node);
		break;
	case FAULT_GPU:
		check_reason(fault->node, SIM_NODES, "a GPU failed");
		gpu_fail(fault->node);
		break;
	case FAULT_CLOSE:
		fault_close(fault);
		break;
	case FAULT_FORGET:
		node_forget(fault->node, fault->peer, true);
		break;
	case FAULT_LEAVE:
		fault_leave(fault);
		break;
	case FAULT_FORK:
		fault_fork(fault);
		break;
	case FAULT_REFUSE:
		gpu_refuse(fault->node, world.now + fault->span);
		break;
	case FAULT_FULL:
		fault_full(fault);
		break;
	case FAULT_PAGES:
		gate_short(world.now + fault->span);
		break;
	case FAULT_PIN:
		core_mem_refuse(fault->node);
		break;
	case FAULT_LANE:
		fault_lane(fault);
		break;
	case FAULT_LIE:
		fault_lie(fault);
		break;
	case FAULT_MEMORY:
		fault_memory(fault);
		break;
	default:
		world_lose_datagrams(fault->span);
	}
}

void run_fault(const struct fault_plan *fault)
{
	fault_begin(fault);
}

/* A new address, which nobody has had */
static void fault_rename(struct node_ep *ep)
{
	ep->port += SIM_EPS;
}

static void fault_end(const struct fault_plan *fault)
{
	struct node *node = &nodes[fault->node];

	if ((fault->kind == FAULT_RESTART || fault->kind == FAULT_LEAVE) &&
	    node->state == NODE_DEAD && fault->span) {
		for (unsigned int e = 0; fault->renamed && e < script->eps; e++)
			fault_rename(&node->eps[e]);
		node_open(fault->node);
		check_successor(fault->node);
	}
	if (fault->kind == FAULT_CLOSE && node->state != NODE_DEAD)
		node_wish(fault->node, node_ep_reopen,
			  fault->ep % script->eps + (fault->renamed ? SIM_EPS : 0));
	if (fault->kind == FAULT_LIE) {
		lie_end();
		fault_kill(fault);
	}
	if (fault->kind == FAULT_MEMORY)
		gate_scarce(fault->node, 0);
	if (fault->kind == FAULT_FORGET)
		node_forget(fault->node, fault->peer, false);
	if (fault->kind == FAULT_FULL)
		gate_fill(fault->node, -1);
}

static bool is_full(unsigned int node)
{
	bool full = false;

	for (size_t i = 0; i < script->fault_count; i++)
		full |= begun[i] && !over[i] && script->faults[i].kind == FAULT_FULL &&
			script->faults[i].node == node;
	return full;
}

/* To leave takes its time. A process that opens counters with an endpoint waits until there are descriptors for them */
static bool fault_lasts(const struct fault_plan *fault)
{
	if (fault->kind == FAULT_CLOSE)
		return script->counted && is_full(fault->node);
	return fault->kind == FAULT_LEAVE && node_is_acting(fault->node);
}

/* A process that opens an endpoint has descriptors until it is open */
static bool fault_waits(const struct fault_plan *fault)
{
	return fault->kind == FAULT_FULL && script->counted && node_is_acting(fault->node);
}

/* Has nothing gone wrong, but that processes rest? */
static bool only_rests(void)
{
	for (size_t i = 0; i < script->fault_count; i++) {
		if (begun[i] && script->faults[i].kind != FAULT_BUSY &&
		    script->faults[i].kind != FAULT_STOP)
			return false;
	}
	return true;
}

/* True: none is left */
static bool faults_turn(void)
{
	bool all = true;

	for (size_t i = 0; i < script->fault_count; i++) {
		const struct fault_plan *fault = &script->faults[i];
		const uint64_t at = SIM_S + fault->at;

		if (fault->dropped || over[i])
			continue;
		all = false;
		if (!begun[i] && (world.now < at || fault_waits(fault)))
			continue;
		if (!begun[i])
			fault_begin(fault);
		begun[i] = true;
		if (world.now >= at + fault->span && !fault_lasts(fault)) {
			over[i] = true;
			fault_end(fault);
		}
	}
	for (unsigned int i = 0; i < script->nodes; i++) {
		struct node *node = &nodes[i];

		if ((node->state == NODE_BUSY || node->state == NODE_STOPPED) &&
		    world.now >= node->until) {
			node->state = NODE_RUNS;
			world_tell("n%u: goes on", i);
		}
		all &= (node->state == NODE_RUNS && !node_is_acting(i)) ||
		       node->state == NODE_DEAD;
	}
	return all;
}

/* ---- steps ---- */

/* Time goes on: little where something moves, else up to the next thing that is due */
static void step_time(void)
{
	const uint64_t dues[] = {core_due(), fiber_due(), world_datagrams_due(),
				 gpu_streams_due(), kernels_due()};
	const uint64_t look = world.awake ? RUN_LOOK_AWAKE : RUN_LOOK;
	uint64_t pass = 300 + world_upto(2000);

	idle = world.moved ? 0 : idle + 1;
	if (idle > 4) {
		pass = 1000ULL << (idle < 24 ? idle - 4 : 20);
		if (pass > look)
			pass = look;
		for (size_t i = 0; i < SIM_COUNT(dues); i++) {
			if (dues[i] > world.now && dues[i] - world.now < pass)
				pass = dues[i] - world.now;
		}
	}
	world.now += pass;
}

static bool step(void)
{
	const unsigned int first = (unsigned int) world_upto(script->nodes);
	bool calm;

	world.step++;
	world.moved = false;
	calm = faults_turn();
	/* not at each step, for the time that it takes */
	if (world.now / SIM_S > looked) {
		check_crowds();
		if (only_rests())
			check_unhindered();
	}
	looked = world.now / SIM_S;
	world_datagrams();
	lie_turn();
	gpu_streams_run();
	core_nics_run();
	kernels_run();
	for (unsigned int i = 0; i < script->nodes; i++)
		node_step((first + i) % script->nodes, idle > 4);
	step_time();
	return calm;
}

static bool all_ended(void)
{
	/* one of which it is known: most often it has not ended yet */
	static size_t slow;

	if (slow < op_count && !op_ended(&ops[slow]))
		return false;
	for (slow = 0; slow < op_count && op_ended(&ops[slow]);)
		slow++;
	return slow == op_count;
}

/* Until everything has ended, or for so long */
static void run_until_ended(uint64_t span)
{
	const uint64_t end = world.now + span;

	while (!all_ended() && world.now < end)
		step();
}

static void run_for(uint64_t span)
{
	const uint64_t end = world.now + span;

	while (world.now < end)
		step();
}

static void make_calm(void)
{
	world_tell("no faults from here on");
	world.calm = true;
	core_calm();
	core_mem_calm();
	gpu_calm();
	gate_short(0);
	world_lose_datagrams(0);
}

/* ---- phases ---- */

/* May all of the script's operations have been posted? */
static bool all_due(void)
{
	for (size_t i = 0; i < script->op_count; i++) {
		const struct op_plan *plan = &script->ops[i];

		if (!plan->dropped &&
		    (world_later(SIM_S + plan->at) || world_later(SIM_S + plan->recv_at)))
			return false;
	}
	return true;
}

static void run_faults(void)
{
	for (size_t i = 0; i < script->op_count; i++) {
		if (!script->ops[i].dropped)
			op_add(&script->ops[i]);
	}
	if (exhaust_on) {
		exhaust_run();
		/* time has passed there without a turn for anybody, so nothing is overdue */
		looked = world.now / SIM_S;
	} else {
		while (!step())
			;
	}
	make_calm();
	/* what counts as lost is posted all the same, if its peer is met until then */
	while (!all_due())
		step();
	run_until_ended(RUN_PATIENCE);
}

/*
 * A receive whose message does not come, for which there is a reason, is taken back. In the second round that is a message
 * which waits behind another one for ever (op_end_lost()): its receiver cannot know.
 */
static void cancel_receives(void)
{
	for (size_t i = 0; i < op_count; i++) {
		if (ops[i].plan.kind == OP_MESSAGE && !ops[i].ends[1].done &&
		    (ops[i].spare || ops[i].plan.cancel || check_may_fail(&ops[i])))
			op_cancel(&ops[i]);
	}
	run_until_ended(5 * SIM_S);
}

/* Was it sent, and has nobody received it? Then it may be in the way of all that comes behind it */
static bool is_astray(const struct op *op)
{
	/* the call that posts it may say -FI_EAGAIN yet, and it is sent later */
	return op->plan.kind == OP_MESSAGE && op->ends[0].posted && !op->ends[0].calling &&
	       !op->taken && op_end_lives(op, 0) &&
	       nodes[op->plan.to].eps[op->plan.to_ep].open &&
	       (op->ends[1].cancelled || check_may_fail(op));
}

/*
 * Has such a receive met what was in the way? Of those that were taken back, or wait for ever, as many may have met a
 * message whose sender is gone as there are such messages. One that was taken back while another of its endpoint's met something,
 * or before that, may have waited behind it: some cores stop reading.
 */
static bool is_in_vain(const struct op *spare)
{
	unsigned int gone = 0, waited = 0, met = 0;

	if (spare->ends[1].done &&
	    (spare->ends[1].err != FI_ECANCELED || !spare->ends[1].cancelled))
		return true;
	for (const struct op *op = ops; op < ops + op_count; op++) {
		met += op->spare && op->plan.to == spare->plan.to &&
		       op->plan.to_ep == spare->plan.to_ep && op->ends[1].done &&
		       op->ends[1].err != FI_ECANCELED &&
		       op->ends[1].tried_at >= spare->ends[1].tried_at;
		if (!check_same_stream(op, spare))
			continue;
		gone += !op->spare && op->ends[0].posted && !op->taken && !op_end_lives(op, 0);
		waited += op->spare && op->ends[1].cancelled &&
			  (!op->ends[1].done || op->ends[1].err == FI_ECANCELED);
	}
	return spare->ends[1].cancelled && (met || waited <= gone);
}

/*
 * A message whose receive ended without it gets another one (@spare), and one more for each that met what was in the way.
 * What comes to buffers for many needs none
 */
static bool wants_spare(const struct op *op, const struct op *spare)
{
	return !op->spare && (!spare || is_in_vain(spare)) && is_astray(op) && !op_is_multi(op);
}

/* True: one does; with @adds it gets it */
static bool spare_receives(const struct op **spares, bool adds)
{
	const size_t count = op_count;
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		if (!wants_spare(&ops[i], spares[i]))
			continue;
		any = true;
		if (adds)
			spares[i] = op_add_spare(&ops[i]);
	}
	return any;
}

/*
 * What is fenced behind such a message is sent only then, and its receive may have ended, too; so is what waited in a ring
 * that was full. And who is told that a receive is cancelled may have posted one more, which is taken back in its turn.
 */
static void run_strays(uint64_t patience)
{
	static const struct op *spares[SIM_OPS_ALL];
	size_t count;

	memset(spares, 0, sizeof spares);
	do {
		count = op_count;
		cancel_receives();
		spare_receives(spares, true);
		/* it may have come though nobody could have known, and all may count as ended */
		run_for(SIM_S);
		run_until_ended(patience);
	} while (op_count > count || spare_receives(spares, false));
}

/*
 * A message and a read between two endpoints. Before the second round each message is too long to go whole: only what is
 * announced to the successor of a lost peer is refused, and tells of the loss.
 */
static void run_pair(unsigned int from, unsigned int to, unsigned int tag, unsigned int from_ep,
		     unsigned int to_ep)
{
	const bool plain =
		nodes[from].plain || nodes[to].plain || nodes[from].hook || nodes[to].hook;
	struct op_plan plan = {
		.from = from,
		.to = to,
		.from_ep = from_ep,
		.to_ep = to_ep,
		.from_dev = !nodes[from].plain,
		.to_dev = !nodes[to].plain,
		.len = script->eager && tag != ROUND_SECOND ? 70000 : 30000,
		.tag = tag,
		.at = world.now - SIM_S,
		.recv_at = world.now - SIM_S,
	};

	op_add(&plan);
	plan.kind = OP_READ;
	plan.len = 5000;
	if (!plain)
		op_add(&plan);
}

/* Any two that live, with tags that nobody has used */
static void run_round(unsigned int tag)
{
	for (unsigned int from = 0; from < script->nodes; from++) {
		for (unsigned int to = 0; to < script->nodes; to++) {
			for (unsigned int e = 0; e < script->eps; e++) {
				const unsigned int to_ep =
					(unsigned int) (e + script->noise) % script->eps;

				if (from != to && nodes[from].state != NODE_DEAD &&
				    nodes[to].state != NODE_DEAD && nodes[from].eps[e].open &&
				    nodes[to].eps[to_ep].open)
					run_pair(from, to, tag, e, to_ep);
			}
		}
	}
	run_until_ended(RUN_PATIENCE);
}

/* Of operations; and of puts and signals: the answer to one may be missed long after its put has ended */
static size_t failures(void)
{
	size_t failed = 0;

	for (size_t i = 0; i < op_count; i++)
		failed += ops[i].ends[0].err || ops[i].ends[1].err;
	for (unsigned int at = 0; at < SIM_NODES * SIM_DOMAINS; at++)
		failed += nodes[at / SIM_DOMAINS].domains[at % SIM_DOMAINS].put_errors;
	return failed;
}

/*
 * Who has lost a peer tells so once more, to the next operation with that one: then there is another such round.
 * @failed:	so many operations had before the one that may tell
 */
static void run_again(size_t failed, unsigned int tag)
{
	if (failures() == failed)
		return;
	run_round(tag);
	run_strays(SIM_S);
	check_all_ended("in one more round after the faults");
}

static void run_first_rounds(void)
{
	const size_t failed = failures();

	run_round(3);
	/* a greeting of the round may have let one go: it is there, or is not */
	run_strays(SIM_S);
	check_all_ended("in the first round after the faults");
	run_again(failed, 14);
}

/*
 * How long what a fault does may stay unknown: a greeting that was lost is repeated after a minute, where the core has
 * little room for such. A process that has ended is known for it within 5 s, where somebody looks
 */
static uint64_t fault_heals(const struct fault_plan *fault)
{
	if (fault->dropped)
		return 0;
	switch (fault->kind) {
	case FAULT_LOSE:
		return 65 * SIM_S;
	case FAULT_KILL:
	case FAULT_RESTART:
	case FAULT_LEAVE:
		return 6 * SIM_S;
	default:
		return 0;
	}
}

/* What waits may fail then */
static void run_heal(void)
{
	const size_t failed = failures();
	uint64_t time = 0;

	for (size_t i = 0; i < script->fault_count; i++)
		time = P2P_MAX(time, fault_heals(&script->faults[i]));
	if (time) {
		run_for(time);
		run_again(failed, 15);
	}
}

static void run_close(unsigned int i)
{
	const uint64_t end = world.now + RUN_PATIENCE;

	node_wish(i, node_close, 0);
	while (node_is_acting(i)) {
		step();
		if (world.now > end)
			world_fail("n%u: to close does not end", i);
	}
}

/* Has a process something left, and had too few turns yet? Time goes on where a thread gives way amid one */
static bool looks_on(const unsigned int *turns)
{
	bool on = false;

	for (unsigned int i = 0; i < script->nodes; i++)
		on |= nodes[i].state != NODE_DEAD && !nodes[i].plain && !nodes[i].hook &&
		      nodes[i].turns - turns[i] < RUN_TURNS && check_is_left(i);
	return on;
}

/* A process that has ended is known for it within 5 s, where somebody looks. An answer to a made-up name waits for 30 s */
static void run_awake(void)
{
	unsigned int turns[SIM_NODES];
	uint64_t end;

	world.awake = true;
	for (unsigned int i = 0; i < script->nodes; i++)
		turns[i] = nodes[i].turns;
	run_for((world.liar == SIM_NODES ? 10 : 40) * SIM_S);
	for (end = world.now + RUN_PATIENCE; looks_on(turns) && world.now < end;)
		step();
}

static void run_end(void)
{
	run_awake();
	for (unsigned int i = 0; i < script->nodes; i++) {
		if (nodes[i].state == NODE_DEAD || nodes[i].plain || nodes[i].hook)
			continue;
		check_nothing_left(i);
		check_nothing_wrong(i);
	}
	check_places();
	for (unsigned int i = 0; i < script->nodes; i++) {
		if (nodes[i].state != NODE_DEAD)
			run_close(i);
	}
	check_frozen();
}

void run_limit(unsigned int seconds)
{
	const struct rlimit limit = {seconds, seconds + 1};

	if (setrlimit(RLIMIT_CPU, &limit))
		abort();
}

void run_script(const struct script *what, bool verbose)
{
	script = what;
	setvbuf(stdout, NULL, _IOLBF, 0);
	world_begin(script, verbose);
	check_begin();
	gpu_begin();
	for (unsigned int i = 0; i < script->nodes; i++)
		node_open(i);
	run_faults();
	run_strays(RUN_PATIENCE);
	check_all_ended("when faults have stopped");
	run_first_rounds();
	run_heal();
	check_no_excuse();
	run_round(ROUND_SECOND);
	/* what counts as lost may come all the same: without its receive it would stop all behind it */
	run_for(SIM_S);
	cancel_receives();
	check_all_ended("in the second round after the faults");
	run_end();
	if (verbose)
		printf("well: %llu steps, %.3f s\n", (unsigned long long) world.step,
		       (double) world.now / 1e9);
}
