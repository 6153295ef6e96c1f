/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * All orders of a small world. See exhaust.h.
 *
 * A world is a few operations of two nodes, and at most one fault. Time stands still. What is on its way (a
 * message, a connection, a completion, a copy, and a call that the application may make at any time) has a ticket. A
 * step draws one of them, or lets the fault happen, or some time pass, where the world has that. Then all processes have
 * turns until nothing moves any more; or another ticket is drawn first, so that two things are there at once. Once all
 * operations have ended, or nothing is left to draw, run.c goes on as it always does, with all of its rules.
 *
 * A run is a list of choices. It is repeated in a process of its own up to its last choice, and then takes the first
 * choice each time. A run that comes to a state in which another one has been is cut: what comes next is known. The next
 * run has the last choice that leaves another one, and that one (depth first). So all states are seen, and it ends.
 *
 * What is not tried: a process that waits with its turn while others have several; other lengths of time.
 */
#include "exhaust.h"
#include "fiber.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_CHOICES 4096
#define MOST_TICKETS 65536
#define TABLE_SIZE (1u << 25)
/* Turns that processes have without an end are a defect, too */
#define MOST_TURNS 1000

/* ---- the worlds ---- */

/* In the place of a time: it may happen at any time */
#define ANY_TIME (TICKET_FIRST - 1)

/**
 * struct small - a small world.
 * @quick:	seconds
 * @at_once:	so many tickets may be drawn before processes have their turns
 * @tickets:	what has tickets beside arrivals
 * @spans:	so often time may pass, while something is under way, for @span [ms]
 * @has_fault:	@fault happens, at any time; @closes: a node whose operations have ended closes instead, at any time
 */
struct small {
	const char *name;
	const char *model;
	bool quick;
	const char *says;
	unsigned int nodes, lanes;
	unsigned int at_once;
	bool tickets[TICKET_DATAGRAM + 1];
	unsigned int spans, span;
	bool has_fault, closes;
	struct fault_plan fault;
	size_t op_count;
	struct op_plan ops[4];
};

/* @size bytes from device memory of @a to that of @b, posted at @at_a and @at_b */
#define MESSAGE(a, b, size, at_a, at_b)                                                        \
	{                                                                                      \
		.from = (a), .to = (b), .len = (size), .from_dev = true, .to_dev = true,       \
		.at = (at_a), .recv_at = (at_b)                                                \
	}

static const struct small smalls[] = {
	{.name = "greeting",
	 .model = "rxm",
	 .quick = true,
	 .says = "two processes greet each other at once",
	 .nodes = 2,
	 .at_once = 2,
	 .op_count = 2,
	 .ops = {MESSAGE(0, 1, 9000, ANY_TIME, 0), MESSAGE(1, 0, 9000, ANY_TIME, 0)}},
	{.name = "greeting-side",
	 .model = "tcp2",
	 .says = "the same, where side endpoints have connections of their own",
	 .nodes = 2,
	 .at_once = 1,
	 .op_count = 2,
	 .ops = {MESSAGE(0, 1, 9000, ANY_TIME, 0), MESSAGE(1, 0, 9000, 0, 0)}},
	{.name = "rendezvous-side",
	 .model = "tcp2",
	 .says = "a long message, and a short one behind it, where a message without a receive stops all",
	 .nodes = 2,
	 .at_once = 1,
	 .op_count = 2,
	 .ops = {MESSAGE(0, 1, 70000, 0, ANY_TIME), MESSAGE(0, 1, 1000, 0, ANY_TIME)}},
	{.name = "lent",
	 .model = "rxm",
	 .quick = true,
	 .says = "messages that are left in slots, for the receiver's core to read",
	 .nodes = 2,
	 .at_once = 1,
	 .op_count = 2,
	 .ops = {MESSAGE(0, 1, 20000, 0, ANY_TIME), MESSAGE(0, 1, 20000, 0, 0)}},
	{.name = "lanes",
	 .model = "rxm",
	 .says = "long messages: by the time of the last two their pieces may have two lanes",
	 .nodes = 2,
	 .lanes = 2,
	 .at_once = 1,
	 .op_count = 3,
	 .ops = {MESSAGE(0, 1, 98305, 0, 0), MESSAGE(0, 1, 98305, ANY_TIME, 0),
		 MESSAGE(0, 1, 98305, ANY_TIME, 0)}},
	{.name = "farewell",
	 .model = "rxm",
	 .quick = true,
	 .says = "a sender closes as soon as its messages are sent",
	 .nodes = 2,
	 .at_once = 1,
	 .closes = true,
	 .fault = {.node = 0},
	 .op_count = 2,
	 .ops = {MESSAGE(0, 1, 20000, 0, ANY_TIME), MESSAGE(0, 1, 1000, 0, 0)}},
	{.name = "farewell-side",
	 .model = "tcp2",
	 .says = "the same with side endpoints",
	 .nodes = 2,
	 .at_once = 1,
	 .closes = true,
	 .fault = {.node = 0},
	 .op_count = 2,
	 .ops = {MESSAGE(0, 1, 20000, 0, ANY_TIME), MESSAGE(0, 1, 1000, 0, 0)}},
	{.name = "reset",
	 .model = "rxm",
	 .says = "the connections break, at any time",
	 .nodes = 2,
	 .at_once = 1,
	 .has_fault = true,
	 .fault = {.kind = FAULT_RESET, .node = 0, .peer = 1},
	 .op_count = 2,
	 .ops = {MESSAGE(0, 1, 20000, 0, ANY_TIME), MESSAGE(1, 0, 9000, 0, 0)}},
	{.name = "lost",
	 .model = "rxm",
	 .says = "a process dies, at any time",
	 .nodes = 2,
	 .at_once = 1,
	 .tickets = {[TICKET_COPY] = true},
	 .has_fault = true,
	 .fault = {.kind = FAULT_KILL, .node = 1, .peer = 0},
	 .op_count = 2,
	 .ops = {MESSAGE(0, 1, 40000, 0, ANY_TIME), MESSAGE(1, 0, 9000, 0, 0)}},
	{.name = "lost-shm",
	 .model = "shm",
	 .says = "the same where nobody tells of that",
	 .nodes = 2,
	 .at_once = 1,
	 .has_fault = true,
	 .fault = {.kind = FAULT_KILL, .node = 1, .peer = 0},
	 .op_count = 1,
	 .ops = {MESSAGE(0, 1, 20000, 0, ANY_TIME)}},
	{.name = "silence",
	 .model = "rxm",
	 .quick = true,
	 .says = "a message, while time passes twice before all of it is there",
	 .nodes = 2,
	 .at_once = 1,
	 .spans = 2,
	 .span = 2500,
	 .op_count = 1,
	 .ops = {MESSAGE(0, 1, 20000, 0, ANY_TIME)}},
};

void exhaust_list(FILE *to)
{
	for (size_t i = 0; i < SIM_COUNT(smalls); i++)
		fprintf(to, "      %-16s %-5s %s%s\n", smalls[i].name, smalls[i].model,
			smalls[i].says, smalls[i].quick ? "" : " (long)");
}

/* ---- what a run tells its parent ---- */

enum run_end { RUN_FAILED, RUN_CUT, RUN_ENDED };

/**
 * struct shared - @choices: those that are given (@given), and those that were made (@made), each of @counts
 * @table:	the states that have been seen, by their digests; 0: free
 */
struct shared {
	unsigned int given, made;
	unsigned int choices[MOST_CHOICES], counts[MOST_CHOICES];
	enum run_end end;
	uint64_t states;
	uint64_t table[TABLE_SIZE];
};

static struct shared *shared;
static const struct small *small;
bool exhaust_on;

/* ---- choices ---- */

static unsigned int choose(unsigned int count)
{
	const unsigned int at = shared->made;

	if (count < 2)
		return 0;
	if (at == MOST_CHOICES)
		world_fail("more than %d choices", MOST_CHOICES);
	if (at >= shared->given)
		shared->choices[at] = 0;
	shared->counts[at] = count;
	shared->made++;
	return shared->choices[at];
}

/* True: another run has been here */
static bool seen(uint64_t digest)
{
	digest += !digest;
	for (uint64_t at = digest;; at++) {
		uint64_t *place = &shared->table[at % TABLE_SIZE];

		if (*place == digest)
			return true;
		if (*place)
			continue;
		if (shared->states > TABLE_SIZE / 2)
			world_fail("more than %u states", TABLE_SIZE / 2);
		*place = digest;
		shared->states++;
		return false;
	}
}

/* ---- tickets ---- */

static struct ticket {
	const void *line;
	bool drawn;
} tickets[MOST_TICKETS];
static unsigned int ticket_count, first_undrawn;

uint64_t exhaust_ticket(enum ticket_kind kind, const void *line)
{
	if (kind != TICKET_ARRIVAL && !small->tickets[kind])
		return world.now;
	if (ticket_count == MOST_TICKETS)
		world_fail("more than %d tickets", MOST_TICKETS);
	tickets[ticket_count].line = line;
	return TICKET_FIRST + ((uint64_t) ticket_count++ << TICKET_SHIFT);
}

bool exhaust_undrawn(uint64_t at)
{
	return exhaust_on && !tickets[(at - TICKET_FIRST) >> TICKET_SHIFT].drawn;
}

void exhaust_forget(const void *line)
{
	for (unsigned int i = first_undrawn; i < ticket_count; i++)
		tickets[i].drawn |= tickets[i].line == line;
}

static bool is_next(unsigned int ticket)
{
	for (unsigned int i = first_undrawn; i < ticket; i++) {
		if (!tickets[i].drawn && tickets[i].line == tickets[ticket].line)
			return false;
	}
	return !tickets[ticket].drawn;
}

/* Those that may be drawn now */
static unsigned int find_next(unsigned int *next, unsigned int room)
{
	unsigned int count = 0;

	while (first_undrawn < ticket_count && tickets[first_undrawn].drawn)
		first_undrawn++;
	for (unsigned int i = first_undrawn; i < ticket_count && count < room; i++) {
		if (is_next(i))
			next[count++] = i;
	}
	return count;
}

/* ---- steps ---- */

static unsigned int spans, drawn_at_once;
static bool fault_over;

static uint64_t digest_of_all(void)
{
	uint64_t digest = state_digest(), undrawn = 0;

	for (unsigned int i = first_undrawn; i < ticket_count; i++)
		undrawn += !tickets[i].drawn;
	digest ^= (undrawn << 8 | spans << 4 | drawn_at_once << 1 | fault_over) *
		  0xd6e8feb86659fd93ULL;
	return digest;
}

/* All processes do what they can. Time stands still, but within a turn, as some wait for a moment */
static void settle(void)
{
	const uint64_t now = world.now;
	uint64_t before, after = state_digest();
	unsigned int turns = 0;

	do {
		before = after;
		for (unsigned int i = 0; i < world.script->nodes; i++) {
			world_datagrams();
			node_step(i, true);
			world.now = now;
		}
		after = state_digest();
		if (++turns > MOST_TURNS)
			world_fail("turns without an end");
	} while (after != before);
}

static bool has_ended(unsigned int node)
{
	for (size_t i = 0; i < op_count; i++) {
		if ((ops[i].plan.from == node && !op_end_over(&ops[i], 0)) ||
		    (ops[i].plan.to == node && !op_end_over(&ops[i], 1)))
			return false;
	}
	return true;
}

/* Can that what the world has beside its operations happen now? */
static bool fault_is_due(void)
{
	if (fault_over)
		return false;
	return small->has_fault || (small->closes && has_ended(small->fault.node));
}

static void let_happen(void)
{
	fault_over = true;
	if (small->closes)
		node_wish(small->fault.node, node_close, 0);
	else
		run_fault(&small->fault);
}

/* One thing happens. False: nothing can */
static bool happen(void)
{
	unsigned int next[64], count = find_next(next, SIM_COUNT(next));
	const bool fault = fault_is_due();
	const bool passes = spans < small->spans;
	unsigned int choice;

	/* where nothing else can, time alone passes as run.c has it */
	if (!count && !fault)
		return false;
	choice = choose(count + fault + passes);
	if (choice < count)
		tickets[next[choice]].drawn = true;
	else if (fault && choice == count)
		let_happen();
	else {
		spans++;
		world.now += small->span * SIM_MS;
		world_tell("%u ms pass", small->span);
	}
	return true;
}

/* Who waits within a call does so for the time, where nothing else can happen. False: nobody does */
static bool time_passes(void)
{
	const uint64_t due = fiber_due();
	bool acting = false;

	for (unsigned int i = 0; i < world.script->nodes; i++)
		acting |= node_is_acting(i);
	if (!acting)
		return false;
	world.now += 50 * SIM_MS;
	if (due > world.now && due != UINT64_MAX)
		world.now = due;
	return true;
}

/* Another run has been here: what comes next is known */
static void cut_if_seen(void)
{
	if (shared->made < shared->given || world.verbose || !seen(digest_of_all()))
		return;
	shared->end = RUN_CUT;
	_exit(0);
}

/* Operations that may be posted at any time have tickets, too */
static void plan_ops(void)
{
	for (size_t i = 0; i < op_count; i++) {
		struct op_plan *plan = &ops[i].plan;

		if (plan->at == ANY_TIME)
			plan->at = exhaust_ticket(TICKET_ARRIVAL, &ops[i].ends[0]) - SIM_S;
		if (plan->recv_at == ANY_TIME)
			plan->recv_at = exhaust_ticket(TICKET_ARRIVAL, &ops[i].ends[1]) - SIM_S;
	}
}

static bool all_over(void)
{
	for (unsigned int i = 0; i < world.script->nodes; i++) {
		if (!has_ended(i) || node_is_acting(i))
			return false;
	}
	return !fault_is_due();
}

void exhaust_run(void)
{
	plan_ops();
	settle();
	while (!all_over()) {
		cut_if_seen();
		if (!happen() && !time_passes())
			break;
		if (++drawn_at_once < small->at_once && choose(2))
			continue;
		drawn_at_once = 0;
		settle();
	}
	exhaust_on = false;
}

/* ---- runs ---- */

static void make_script(struct script *script)
{
	*script = (struct script){
		.model = model_find(small->model),
		.noise = 1,
		.nodes = small->nodes,
		.eps = 1,
		.lanes = small->lanes,
		.op_count = small->op_count,
	};
	memcpy(script->ops, small->ops, sizeof small->ops);
}

/* Says how it ended */
static void run_once(const struct script *script, bool verbose)
{
	int status;
	pid_t child;

	shared->made = 0;
	shared->end = RUN_FAILED;
	fflush(stdout);
	child = fork();
	if (!child) {
		run_limit(SIM_LIMIT);
		exhaust_on = true;
		run_script(script, verbose);
		shared->end = RUN_ENDED;
		fflush(stdout);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		shared->end = RUN_FAILED;
	if (WIFSIGNALED(status))
		printf("FAILED: %s\n", strsignal(WTERMSIG(status)));
}

/* The last choice that leaves another one is that one now. False: there is none */
static bool next_choices(void)
{
	unsigned int at = shared->made;

	while (at && shared->choices[at - 1] + 1 == shared->counts[at - 1])
		at--;
	if (!at)
		return false;
	shared->choices[at - 1]++;
	shared->given = at;
	return true;
}

static void tell_failure(const struct script *script)
{
	printf("---- the choices:");
	for (unsigned int i = 0; i < shared->made; i++)
		printf(" %u", shared->choices[i]);
	printf("\n---- what happens:\n");
	shared->given = shared->made;
	run_once(script, true);
}

static bool explore(void)
{
	static struct script script;
	unsigned long runs = 0, ended = 0;
	unsigned int longest = 0;
	bool good;

	make_script(&script);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shared == MAP_FAILED)
		abort();
	do {
		run_once(&script, false);
		runs++;
		ended += shared->end == RUN_ENDED;
		if (shared->made > longest)
			longest = shared->made;
	} while (shared->end != RUN_FAILED && next_choices());
	printf("%s (%s): %llu states, %lu runs, %lu of them to the end, at most %u choices%s\n",
	       small->name, small->model, (unsigned long long) shared->states, runs, ended,
	       longest, shared->end == RUN_FAILED ? ": FAILED" : "");
	good = shared->end != RUN_FAILED;
	if (!good)
		tell_failure(&script);
	munmap(shared, sizeof *shared);
	return good;
}

bool exhaust_world(const char *name, bool quick)
{
	bool good = true, any = false;

	for (size_t i = 0; i < SIM_COUNT(smalls); i++) {
		small = &smalls[i];
		if (name ? strcmp(small->name, name) != 0 : quick && !small->quick)
			continue;
		any = true;
		good &= explore();
	}
	if (!any)
		fprintf(stderr, "no small world is called %s\n", name);
	return good && any;
}
