/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is to happen: made from a seed, printed, and read again. See sim.h. */
#include "sim.h"

#include <errno.h>

const char *const fault_names[FAULT_KINDS] = {
	"busy",  "stop",      "kill",  "restart", "reset",  "hard",   "lose",
	"gpu",   "datagrams", "close", "forget",  "leave",  "refuse", "full",
	"pages", "lane",      "fork",  "lie",     "memory", "pin",
};
static const char *const op_kinds[] = {"message", "write", "read", "add", "fetch", "swap"};

/* What may follow on a line: numbers that are 0 if they are not there */
struct word {
	const char *name;
	size_t offset;
};

static const struct word world_words[] = {
	{"eps", offsetof(struct script, eps)},
	{"sources", offsetof(struct script, sources)},
	{"directs", offsetof(struct script, directs)},
	{"fences", offsetof(struct script, fences)},
	{"multi", offsetof(struct script, multi)},
	{"counted", offsetof(struct script, counted)},
	{"hook", offsetof(struct script, hook)},
	{"hosts", offsetof(struct script, hosts)},
	{"shares", offsetof(struct script, shares)},
	{"lanes", offsetof(struct script, lanes)},
	{"rests", offsetof(struct script, rests)},
	{"pairs", offsetof(struct script, pairs)},
	{"autos", offsetof(struct script, autos)},
	{"alone", offsetof(struct script, alone)},
	{"triggers", offsetof(struct script, triggers)},
	{"pinned", offsetof(struct script, pinned)},
	{"eager", offsetof(struct script, eager)},
	{"pins", offsetof(struct script, pins)},
	{"room", offsetof(struct script, room)},
	{"maps", offsetof(struct script, maps)},
	{"ways", offsetof(struct script, ways)},
	{"staged", offsetof(struct script, staged)},
	{"rings", offsetof(struct script, rings)},
	{NULL, 0},
};
static const struct word op_plan_words[] = {
	{"from_ep", offsetof(struct op_plan, from_ep)},
	{"to_ep", offsetof(struct op_plan, to_ep)},
	{"untagged", offsetof(struct op_plan, untagged)},
	{"data", offsetof(struct op_plan, data)},
	{"directed", offsetof(struct op_plan, directed)},
	{"pieces", offsetof(struct op_plan, pieces)},
	{"fence", offsetof(struct op_plan, fence)},
	{"look", offsetof(struct op_plan, look)},
	{"cancel", offsetof(struct op_plan, cancel)},
	{"trigger", offsetof(struct op_plan, trigger)},
	{"recv_trigger", offsetof(struct op_plan, recv_trigger)},
	{"chained", offsetof(struct op_plan, chained)},
	{"stream", offsetof(struct op_plan, stream)},
	{"recv_stream", offsetof(struct op_plan, recv_stream)},
	{"put", offsetof(struct op_plan, put)},
	{"graph", offsetof(struct op_plan, graph)},
	{NULL, 0},
};
static const struct word fault_words[] = {
	{"ep", offsetof(struct fault_plan, ep)},
	{"renamed", offsetof(struct fault_plan, renamed)},
	{"lies", offsetof(struct fault_plan, lies)},
	{"often", offsetof(struct fault_plan, often)},
	{NULL, 0},
};

static unsigned int *word_value(const struct word *word, const void *of)
{
	return (unsigned int *) ((uintptr_t) of + word->offset);
}

static void words_print(const struct word *words, const void *of, FILE *to)
{
	for (; words->name; words++) {
		if (*word_value(words, of))
			fprintf(to, " %s %u", words->name, *word_value(words, of));
	}
	fprintf(to, "\n");
}

static bool words_read(const struct word *words, void *of, const char *line)
{
	char name[16];
	unsigned int value;
	int len;

	for (; sscanf(line, "%15s %u%n", name, &value, &len) == 2; line += len) {
		const struct word *word = words;

		while (word->name && strcmp(word->name, name))
			word++;
		if (!word->name)
			return false;
		*word_value(word, of) = value;
	}
	return strspn(line, " \n") == strlen(line);
}

/* Random numbers of its own, so that a run's do not depend on how much a script draws */
static uint64_t state;

static uint64_t draw(uint64_t limit)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return limit ? (z ^ z >> 31) % limit : 0;
}

/*
 * Lengths of all classes, and where they meet: FI_P2P_EAGER_SIZE is 8192 here, FI_P2P_CHUNK_SIZE 16384. Or both are 65536,
 * so that there are messages of middling length, which receivers read
 */
/* When messages are posted whose lanes are cut, and when that is */
#define CUTS_SPAN (200 * SIM_MS)

static size_t draw_len(const struct script *script)
{
	static const size_t lens[][16] = {
		{0, 1, 100, 1000, 4096, 4097, 8192, 8193, 9000, 16384, 16385, 20000, 40000,
		 100000, 200000, 600000},
		{0, 1, 1000, 4096, 4097, 9000, 16385, 34000, 34200, 40000, 50000, 65536, 65537,
		 100000, 200000, 600000},
	};

	return lens[script->eager != 0][draw(draw(6) ? 14 : SIM_COUNT(lens[0]))];
}

/* How it is posted, besides */
static void make_kind(const struct script *script, struct op_plan *plan)
{
	const struct model *model = script->model;

	plan->from_ep = (unsigned int) draw(script->eps);
	plan->to_ep = (unsigned int) draw(script->eps);
	plan->pieces = draw(6) || plan->inject ? 0 : 2 + (unsigned int) draw(3);
	plan->fence = !draw(12);
	if (plan->kind != OP_MESSAGE) {
		if (model->atomics && !draw(3)) {
			plan->kind = (enum op_kind)(OP_ADD + draw(3));
			plan->len = 8 + 8 * draw(draw(2) ? 10 : 128);
			plan->pieces = 0;
		}
		return;
	}
	plan->untagged = !draw(5);
	plan->data = !draw(4);
	/* without a tag, all receives of an endpoint take any sender's messages, or none does */
	plan->directed = plan->untagged ? (plan->to + plan->to_ep) % 2 : draw(2);
	if (plan->untagged && script->multi && plan->len > SIM_MULTI_LEN)
		plan->len = SIM_MULTI_LEN;
	if (!plan->untagged && model->peeks && !script->counted && !draw(8))
		plan->look = 1 + (unsigned int) draw(LOOKS - 1);
	else if (!draw(16))
		plan->cancel = 1 + (unsigned int) draw(draw(2) ? 300 : 100000);
}

/* A stream begins it */
static void make_stream(struct op_plan *plan)
{
	plan->stream = 1 + (unsigned int) draw(SIM_STREAMS);
	plan->pieces = plan->data = plan->cancel = 0;
	if (plan->kind != OP_MESSAGE)
		return;
	plan->recv_stream = (unsigned int) draw(1 + SIM_STREAMS);
	/* those of one stream keep their order */
	plan->tag = 8 + (plan->stream - 1) * (1 + SIM_STREAMS) + plan->recv_stream;
}

/*
 * Which of its ends wait for counters. Such have tags of their own, since nothing says what comes first where others are
 * posted beside them
 */
static void make_trigger(struct op_plan *plan)
{
	const unsigned int which = (unsigned int) draw(4);
	const uint64_t most = draw(2) ? 2000 : 400000;

	if (plan->inject || plan->untagged || plan->kind == OP_FETCH || plan->kind == OP_SWAP ||
	    draw(3))
		return;
	plan->trigger = 1 + (unsigned int) draw(most);
	plan->look = plan->fence = 0;
	plan->chained = which == 1;
	if (which == 3 && plan->kind <= OP_READ)
		make_stream(plan);
	if (which == 3 || plan->kind != OP_MESSAGE)
		return;
	plan->tag = 5 + which;
	if (which != 1)
		plan->recv_trigger = 1 + (unsigned int) draw(most);
	if (which == 2)
		plan->trigger = 0;
}

/* @with: one of the two, or SIM_NODES */
static void make_op(struct script *script, struct op_plan *plan, uint64_t begin,
		    unsigned int with)
{
	*plan = (struct op_plan){
		.kind = draw(5)   ? OP_MESSAGE
			: draw(2) ? OP_WRITE
				  : OP_READ,
		.from = (unsigned int) draw(script->nodes),
		.len = draw_len(script),
		.from_dev = draw(4),
		.to_dev = draw(4),
		.tag = (unsigned int) draw(3),
		.delivery = !draw(6),
		.at = begin + draw(SIM_MS),
	};
	/* seldom its own process's */
	do
		plan->to = (unsigned int) draw(script->nodes);
	while (plan->to == plan->from && draw(10));
	if (with < SIM_NODES && plan->from != with)
		plan->to = with;
	plan->recv_at = draw(3) ? plan->at : begin + draw(draw(2) ? 2 * SIM_MS : 500 * SIM_MS);
	plan->inject = plan->kind == OP_MESSAGE && plan->len <= 1000 && !draw(3);
	make_kind(script, plan);
	if (plan->kind != OP_MESSAGE && plan->len > 40000)
		plan->len = 40000;
	/* what may have lanes, if others are under way: the last piece of some is so short that a core keeps it */
	if (plan->kind == OP_MESSAGE && script->lanes && !plan->inject && !plan->untagged &&
	    !draw(4))
		plan->len = draw(3) ? 98305 : draw(4) ? 100000 : 200000;
	/* who is without the plugin has no device memory, and none to be read or written */
	if (script->plain && plan->from == script->nodes - 1)
		plan->from_dev = false;
	if (script->plain && plan->to == script->nodes - 1)
		plan->to_dev = false;
	if ((script->plain || script->hook) &&
	    (plan->from == script->nodes - 1 || plan->to == script->nodes - 1)) {
		plan->kind = OP_MESSAGE;
		plan->delivery &= !script->hook;
	}
	if (script->triggers)
		make_trigger(plan);
}

/* Have both its processes the plugin, and no hook? */
static bool is_whole(const struct script *script, const struct op_plan *plan)
{
	const unsigned int whole = script->nodes - (script->plain || script->hook);

	return plan->from < whole && plan->to < whole;
}

/* Of what it had as a message, nothing is left */
static void make_write(struct op_plan *plan)
{
	plan->kind = OP_WRITE;
	plan->inject = plan->delivery = false;
	plan->untagged = plan->data = plan->fence = plan->look = plan->cancel = 0;
	plan->recv_trigger = plan->recv_stream = 0;
}

/*
 * Kernels put. Nothing is drawn for that, so that the rest of a script stays what it is.
 * @number: of the operation, and the seed
 */
static void make_put(const struct script *script, struct op_plan *plan, uint64_t number)
{
	const bool short_ = plan->kind == OP_MESSAGE && plan->len <= 40000;

	if (!(script->rings >> plan->from & 1) || !is_whole(script, plan) ||
	    SIM_DOMAIN_OF(plan->from_ep) != SIM_DOMAIN_OF(script->eps - 1) ||
	    !(plan->kind == OP_WRITE || (short_ && number % 4 == 0)))
		return;
	plan->put = plan->kind == OP_MESSAGE || number % 3;
	if (!plan->put)
		return;
	make_write(plan);
	plan->trigger = plan->chained = plan->stream = 0;
}

/*
 * Half of what streams begin is in graphs: writes, and sums. Nothing is drawn for that either.
 * @number: of the operation, and the seed
 */
static void make_graph(const struct script *script, struct op_plan *plan, uint64_t number)
{
	if (!plan->stream || plan->kind == OP_READ || plan->len > 40000 || number % 2 ||
	    !is_whole(script, plan))
		return;
	make_write(plan);
	plan->graph = 2 + (unsigned int) (number / 2 % 4);
	if (!script->model->atomics || number / 2 % 3 == 0)
		return;
	plan->kind = OP_ADD;
	plan->len = 8 + 8 * (number % 128);
}

/*
 * Two of three worlds are narrow: few processes and operations, of few kinds, with faults of one kind or two. What they
 * have they have often, so a defect that needs one thing several times, and no other thing, shows sooner (Groce et al.,
 * Swarm Testing, ISSTA 2012).
 */
static void make_narrow(struct script *script)
{
	unsigned int *const features[] = {
		&script->full,   &script->timeout, &script->sources, &script->directs,
		&script->fences, &script->multi,   &script->counted, &script->hook,
		&script->lanes,  &script->rests,   &script->pairs,   &script->autos,
		&script->alone,  &script->rings,   &script->pinned,  &script->triggers,
		&script->pins,   &script->room,    &script->maps,    &script->staged,
	};

	for (size_t i = 0; i < SIM_COUNT(features); i++)
		*features[i] = draw(2) ? *features[i] : 0;
	script->plain &= !draw(2);
	script->eps = draw(3) ? 1 : script->eps;
	script->op_count = 3 + draw(20);
	script->fault_count = draw(4) ? 1 + draw(draw(2) ? 4 : 8) : 0;
}

/*
 * In some narrow worlds faults are of two kinds that had defects where they met. In others processes are stopped for
 * longer than their peers wait (true).
 */
static bool make_pair(struct script *script, enum fault_kind *faults)
{
	static const enum fault_kind pairs[][2] = {
		{FAULT_RESTART, FAULT_FORGET},
		{FAULT_STOP, FAULT_KILL},
		{FAULT_STOP, FAULT_STOP},
		{FAULT_STOP, FAULT_DATAGRAMS},
	};
	const size_t pair = draw(SIM_COUNT(pairs));

	memcpy(faults, pairs[pair], sizeof pairs[0]);
	script->fault_count = 2 + draw(3);
	if (pair < 2)
		return false;
	/* few, so that the others go on while one is stopped */
	script->fault_count = pair == 2 ? 1 + draw(2) : 2;
	script->timeout = 10 + (unsigned int) draw(30);
	/* within a host they tell each other without datagrams */
	if (faults[1] == FAULT_DATAGRAMS)
		script->hosts = 0;
	return true;
}

/*
 * A process is stopped amid an operation, for longer than its peers wait. Half of such operations are received only then.
 * While it is stopped no datagram comes through, if @plan is of that kind: so none tells the process that it was lost.
 */
static void make_long(struct script *script, struct fault_plan *plan)
{
	struct op_plan *amid = &script->ops[draw(script->op_count)];
	const bool sends = draw(2);

	if (plan->kind != FAULT_STOP) {
		plan->at = script->faults[0].at;
		plan->span = script->faults[0].span + draw(SIM_S);
		return;
	}
	plan->node = sends ? amid->from : amid->to;
	plan->at = amid->at + draw(2 * SIM_MS);
	plan->span = (script->timeout + 5) * SIM_S + draw(60 * SIM_S);
	if (draw(2))
		amid->recv_at = plan->at + draw(5 * SIM_S);
}

/* Like one before, at another time */
static void make_again(const struct script *script, struct op_plan *plan, uint64_t begin,
		       size_t kinds)
{
	const uint64_t at = begin + draw(SIM_MS);

	*plan = script->ops[draw(kinds)];
	plan->recv_at = plan->recv_at == plan->at ? at : begin + draw(2 * SIM_MS);
	plan->at = at;
}

/* One process lies: the first one has the plugin always. In all ways, or in few */
static void make_lie(struct fault_plan *plan)
{
	plan->node = 0;
	plan->span = draw(draw(2) ? 50 * SIM_MS : 5 * SIM_S);
	if (draw(2))
		plan->lies = 1U << draw(18) | 1U << draw(18);
	if (draw(3))
		plan->at = draw(2 * SIM_MS);
	plan->often = 1 + (unsigned int) draw(draw(2) ? 4 : 20);
}

static void make_memory(struct fault_plan *plan)
{
	if (draw(3))
		plan->at = draw(2 * SIM_MS);
	plan->often = 1 + (unsigned int) draw(draw(2) ? 6 : 100);
}

/* So many kinds there are */
static unsigned int fault_kinds(const struct script *script)
{
	return script->model->nic ? FAULT_KINDS : FAULT_PIN;
}

/* @kind: that one; FAULT_KINDS: any */
static void make_fault(struct script *script, enum fault_kind kind, struct fault_plan *plan)
{
	const enum fault_kind drawn = (enum fault_kind) draw(fault_kinds(script));

	*plan = (struct fault_plan){
		.kind = kind == FAULT_KINDS ? drawn : kind,
		.node = (unsigned int) draw(script->nodes),
		.at = draw(draw(2) ? 5 * SIM_MS : 3 * SIM_S),
		.span = draw(2) ? draw(5 * SIM_S) : draw(120 * SIM_S),
	};
	do
		plan->peer = (unsigned int) draw(script->nodes);
	while (plan->peer == plan->node);
	if (plan->kind == FAULT_RESTART || plan->kind == FAULT_CLOSE ||
	    plan->kind == FAULT_FORGET)
		plan->span = 1 + draw(draw(2) ? 20 * SIM_MS : 4 * SIM_S);
	plan->ep = (unsigned int) draw(script->eps);
	/* what is new has other memory, and so shares none with who knew the one before */
	plan->renamed = script->model->fragile || draw(2);
	if (plan->kind == FAULT_LANE && !script->lanes)
		plan->kind = FAULT_RESET;
	if (plan->kind == FAULT_LEAVE && draw(2))
		plan->span = 0;
	if (plan->kind == FAULT_LIE)
		make_lie(plan);
	if (plan->kind == FAULT_MEMORY)
		make_memory(plan);
}

/* It comes before the last operation begins, at @end. Often it is short, or between the same two as @first */
static void make_between(const struct fault_plan *first, struct fault_plan *plan, uint64_t end)
{
	plan->at = draw(end);
	if (draw(2))
		plan->span = 1 + draw(800 * SIM_MS);
	if (plan->kind != first->kind || draw(3) == 0)
		return;
	plan->node = first->node;
	plan->peer = first->peer;
	plan->ep = first->ep;
}

/* How each process waits, and its threads */
static void make_threads(struct script *script)
{
	script->lanes = draw(3) || script->model->strings ? 0 : 2 + (unsigned int) draw(3);
	for (unsigned int i = 0; i < script->nodes; i++) {
		if (draw(2))
			script->rests |= (unsigned int) draw(RESTS) << i * SIM_REST_BITS;
		script->pairs |= (unsigned int) !draw(6) << i;
		script->autos |= (unsigned int) !draw(6) << i;
		script->alone |= (unsigned int) !draw(6) << i;
	}
}

/* What NICs have of device memory, and how. They need no more of it than there is in a few runs */
static void make_nics(struct script *script)
{
	if (!script->model->nic)
		return;
	script->ways = script->model->version < FI_VERSION(1, 20) ? 1 : (unsigned int) draw(3);
	script->pins = draw(3) ? 0 : 1 + (unsigned int) draw(12);
	script->room = draw(3) ? 0 : 64 << draw(9);
	script->maps = draw(3) ? 0 : 1 + (unsigned int) draw(6);
	for (unsigned int i = 0; i < script->nodes; i++)
		script->staged |= (unsigned int) !draw(8) << i;
}

/*
 * What one process has much to do with @with is alike, so that all of it wants the same. In half of the worlds receives
 * are posted when @rests does already.
 */
static void make_alike(struct script *script, size_t count, unsigned int with,
		       const struct fault_plan *rests)
{
	const bool late = draw(2);

	make_op(script, &script->ops[0], 0, with);
	for (size_t i = 0; i < count; i++) {
		struct op_plan *plan = &script->ops[i];

		make_again(script, plan, 0, 1);
		if (late)
			plan->recv_at = rests->at + draw(SIM_S);
	}
}

/*
 * One process rests when it has much to do with others, who have something to do with each other later. So it holds much
 * of what is scarce.
 */
static void make_crowd(struct script *script)
{
	const unsigned int rests = (unsigned int) draw(script->nodes);
	const bool alike = draw(2);
	const size_t many = alike ? SIM_OPS * 3 / 4 : SIM_OPS / 2, len = draw_len(script);

	script->pinned = 512;
	script->op_count = SIM_OPS;
	script->fault_count = 1;
	script->faults[0] = (struct fault_plan){
		.kind = draw(2) ? FAULT_BUSY : FAULT_STOP,
		.node = rests,
		.at = draw(4 * SIM_MS),
		.span = 30 * SIM_S + draw(60 * SIM_S),
	};
	if (alike)
		make_alike(script, many, rests, &script->faults[0]);
	for (size_t i = alike ? many : 0; i < SIM_OPS; i++)
		make_op(script, &script->ops[i], i < many ? 0 : SIM_S,
			i < many ? rests : SIM_NODES);
	for (size_t i = 0; i < many; i++) {
		struct op_plan *plan = &script->ops[i];

		if (plan->kind == OP_MESSAGE && !plan->inject && !plan->untagged) {
			plan->len = len;
			plan->from_dev = plan->to_dev = true;
		}
	}
}

/* Long messages over lanes, which are cut amid them. In half of the worlds there is nothing else */
static void make_cuts(struct script *script)
{
	const bool alike = draw(2);

	script->lanes = 2 + (unsigned int) draw(3);
	script->nodes = 2;
	script->eps = alike ? 1 : script->eps;
	script->plain = false;
	script->hook = script->hosts = script->triggers = script->rings = 0;
	script->op_count = SIM_OPS;
	script->fault_count = SIM_FAULTS;
	for (size_t i = 0; i < script->op_count; i++) {
		struct op_plan *plan = &script->ops[i];

		make_op(script, plan, draw(CUTS_SPAN), SIM_NODES);
		if (alike || draw(4)) {
			plan->kind = OP_MESSAGE;
			plan->inject = false;
			plan->untagged = plan->look = plan->cancel = 0;
			plan->from_dev = plan->to_dev = true;
			plan->len = draw(3) ? 98305 : 100000 << draw(3);
		}
	}
	for (size_t i = 0; i < script->fault_count; i++) {
		make_fault(script, FAULT_LANE, &script->faults[i]);
		script->faults[i].at = (i * 2 + draw(2)) * CUTS_SPAN / (2 * SIM_FAULTS);
		script->faults[i].renamed = draw(8) ? 2 : (unsigned int) draw(2);
	}
}

/* @end: they come between operations, before that; 0: they do not */
static void make_faults(struct script *script, const enum fault_kind *kinds, uint64_t end,
			bool outlasts)
{
	for (size_t i = 0; i < script->fault_count; i++) {
		make_fault(script, kinds[outlasts ? i : draw(2)], &script->faults[i]);
		if (end)
			make_between(&script->faults[0], &script->faults[i], end);
		if (outlasts)
			make_long(script, &script->faults[i]);
	}
}

void script_make(struct script *script, uint64_t seed, const struct model *model,
		 enum fault_kind fault)
{
	const unsigned int by_gpu = (unsigned int) (seed * 0xd1342543de82ef95ULL >> 40);
	/* of operations, and of faults, in a narrow world. In a slow one faults come between operations, and one receives late */
	size_t kinds = SIM_OPS;
	bool slow = false, outlasts = false;
	unsigned int late = SIM_NODES;
	enum fault_kind faults[2] = {fault, fault};
	uint64_t begin = 0;

	state = seed * 0x2545f4914f6cdd1dULL;
	*script = (struct script){
		.model = model ? model : &models[draw(model_count)],
		.noise = seed,
		.nodes = 2 + (unsigned int) (draw(2) ? 0 : draw(SIM_NODES - 1)),
		.full = draw(3) ? 0 : (unsigned int) draw(40),
		.shuffled = !draw(4),
		.plain = !draw(8),
		.timeout = draw(5) ? 0 : 10 + (unsigned int) draw(30),
		.eps = draw(2) ? 1 : 2 + (unsigned int) draw(SIM_EPS - 1),
		.sources = !draw(3),
		.directs = !draw(3),
		.fences = !draw(6),
		.multi = !draw(4),
		.counted = !draw(5),
		.hook = !draw(10),
		.hosts = draw(3) ? (unsigned int) draw(3) : 1,
		.shares = draw(4) != 0,
		.op_count = 4 + draw(draw(2) ? 20 : SIM_OPS - 4),
		.fault_count = draw(3) ? 1 + draw(draw(2) ? 2 : SIM_FAULTS - 1) : 0,
	};
	/* not drawn, so that others stay what they were */
	script->triggers = seed * 0x9e3779b97f4a7c15ULL >> 32 < (1ULL << 32) / 5;
	script->pinned = seed % 4 ? 0 : 512 << seed / 4 % 2;
	script->eager = by_gpu / 4096 % 4 ? 0 : 64;
	if (by_gpu % 5 == 0)
		script->rings = 1 + by_gpu / 5 % ((1U << script->nodes) - 1);
	script->directs &= script->model->directs;
	script->multi &= script->model->multi;
	script->hook &= !script->plain;
	make_threads(script);
	make_nics(script);
	if (fault == FAULT_LANE && !script->model->strings) {
		make_cuts(script);
		return;
	}
	if (draw(3)) {
		make_narrow(script);
		kinds = 1 + draw(4);
		slow = draw(2);
		late = slow ? (unsigned int) draw(script->nodes) : SIM_NODES;
		for (unsigned int i = 0; i < 2 && fault == FAULT_KINDS; i++)
			faults[i] = (enum fault_kind) draw(fault_kinds(script));
		if (fault == FAULT_KINDS && by_gpu / 64 % 4 == 0)
			outlasts = make_pair(script, faults);
	} else if (script->nodes > 2 && !script->plain && !draw(4) && fault == FAULT_KINDS) {
		make_crowd(script);
		return;
	}
	for (size_t i = 0; i < script->op_count; i++) {
		struct op_plan *plan = &script->ops[i];

		if (slow || !draw(12))
			begin += draw(slow ? 3 * SIM_S : 800 * SIM_MS);
		if (i < kinds) {
			make_op(script, plan, begin, SIM_NODES);
			make_put(script, plan, seed + i);
			make_graph(script, plan, seed + i);
		} else {
			make_again(script, plan, begin, kinds);
		}
		if (plan->to == late && draw(2))
			plan->recv_at = begin + draw(10 * SIM_S);
	}
	if (fault != FAULT_KINDS && !script->fault_count)
		script->fault_count = 1;
	make_faults(script, faults, slow ? begin : 0, outlasts);
}

void script_print(const struct script *script, FILE *to)
{
	fprintf(to, "world %s noise %llu nodes %u full %u shuffled %d plain %d timeout %u",
		script->model->name, (unsigned long long) script->noise, script->nodes,
		script->full, script->shuffled, script->plain, script->timeout);
	words_print(world_words, script, to);
	for (size_t i = 0; i < script->op_count; i++) {
		const struct op_plan *op = &script->ops[i];

		if (op->dropped)
			continue;
		fprintf(to,
			"%s from %u%c to %u%c len %zu tag %u inject %d delivery %d at %llu and %llu",
			op_kinds[op->kind], op->from, op->from_dev ? 'd' : 'h', op->to,
			op->to_dev ? 'd' : 'h', op->len, op->tag, op->inject, op->delivery,
			(unsigned long long) op->at, (unsigned long long) op->recv_at);
		words_print(op_plan_words, op, to);
	}
	for (size_t i = 0; i < script->fault_count; i++) {
		const struct fault_plan *fault = &script->faults[i];

		if (fault->dropped)
			continue;
		fprintf(to, "%s of %u with %u at %llu for %llu", fault_names[fault->kind],
			fault->node, fault->peer, (unsigned long long) fault->at,
			(unsigned long long) fault->span);
		words_print(fault_words, fault, to);
	}
}

static int find_name(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(names[i], name))
			return (int) i;
	}
	return -1;
}

enum fault_kind script_fault(const char *name)
{
	const int kind = find_name(fault_names, FAULT_KINDS, name);

	return kind < 0 ? FAULT_KINDS : (enum fault_kind) kind;
}

static bool read_world(struct script *script, const char *line)
{
	char name[16];
	unsigned long long noise;
	int shuffled, plain, len;

	if (sscanf(line,
		   "world %15s noise %llu nodes %u full %u shuffled %d plain %d timeout %u%n",
		   name, &noise, &script->nodes, &script->full, &shuffled, &plain,
		   &script->timeout, &len) != 7 ||
	    !words_read(world_words, script, line + len))
		return false;
	script->eps = script->eps ? script->eps : 1;
	script->model = model_find(name);
	script->noise = noise;
	script->shuffled = shuffled;
	script->plain = plain;
	return script->model && script->nodes >= 2 && script->nodes <= SIM_NODES &&
	       script->eps <= SIM_EPS;
}

static bool read_op(struct script *script, const char *line)
{
	struct op_plan *op = &script->ops[script->op_count];
	unsigned long long at, recv_at;
	int inject, delivery, kind, len;
	char name[16], from, to;

	if (script->op_count == SIM_OPS ||
	    sscanf(line,
		   "%15s from %u%c to %u%c len %zu tag %u inject %d delivery %d at %llu and %llu%n",
		   name, &op->from, &from, &op->to, &to, &op->len, &op->tag, &inject, &delivery,
		   &at, &recv_at, &len) != 11 ||
	    !words_read(op_plan_words, op, line + len))
		return false;
	kind = find_name(op_kinds, SIM_COUNT(op_kinds), name);
	op->kind = (enum op_kind) kind;
	op->from_dev = from == 'd';
	op->to_dev = to == 'd';
	op->inject = inject;
	op->delivery = delivery;
	op->at = at;
	op->recv_at = recv_at;
	script->op_count++;
	return kind >= 0 && op->from < script->nodes && op->to < script->nodes &&
	       op->from_ep < script->eps && op->to_ep < script->eps;
}

static bool read_fault(struct script *script, const char *line)
{
	struct fault_plan *fault = &script->faults[script->fault_count];
	unsigned long long at, span;
	char name[16];
	int kind, len;

	if (script->fault_count == SIM_FAULTS ||
	    sscanf(line, "%15s of %u with %u at %llu for %llu%n", name, &fault->node,
		   &fault->peer, &at, &span, &len) != 5 ||
	    !words_read(fault_words, fault, line + len))
		return false;
	kind = find_name(fault_names, FAULT_KINDS, name);
	fault->kind = (enum fault_kind) kind;
	fault->at = at;
	fault->span = span;
	script->fault_count++;
	return kind >= 0 && fault->node < script->nodes && fault->peer < script->nodes;
}

bool script_read(struct script *script, const char *path)
{
	FILE *file = fopen(path, "r");
	char line[400];
	bool good = file;

	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return false;
	}
	*script = (struct script){.model = NULL};
	while (good && fgets(line, sizeof line, file)) {
		if (*line == '#' || *line == '\n')
			continue;
		good = script->model ? read_op(script, line) || read_fault(script, line)
				     : read_world(script, line);
		if (!good)
			fprintf(stderr, "%s: not understood: %s", path, line);
	}
	fclose(file);
	return good && script->model;
}
