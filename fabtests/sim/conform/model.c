/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The questions, put to a model. See conform.h. */
#include "../core.h"
#include "conform.h"

/* For so long something is waited for [ns of the world's time] */
#define WAIT (SIM_S / 2)

/* Node 0 has the first one, node 1 the others, one after the other */
static struct player players[1 + OTHERS], *other = players;
static uint64_t begun;

struct answer side_call(unsigned int side, const struct call *call)
{
	struct call as = *call;

	world.current = side;
	world.now += 5000;
	core_nics_run();
	/* a core without peeks takes one for a receive */
	if (call->kind == CALL_PEEK && !world.script->model->peeks) {
		as.kind = CALL_RECV;
		as.flags = 0;
	}
	return player_call(side ? other : players, &as);
}

void side_kill(void)
{
	core_kill(1);
	nodes[1].state = NODE_DEAD;
	nodes[1].life++;
}

void side_next(void)
{
	struct fi_info *info = core_info(1, world.script->model);
	struct card card;

	other++;
	nodes[1].state = NODE_RUNS;
	info->src_addrlen =
		core_name(1, CORE_PORT + (unsigned int) (other - players), info->src_addr);
	world.current = 1;
	player_open(other, core_fabric(1, NULL), info);
	player_show(players, &card);
	player_meet(other, &card);
	player_show(other, &card);
	player_meet(players, &card);
}

uint64_t side_caps(void)
{
	const struct model *model = world.script->model;

	return (model->directs ? FI_DIRECTED_RECV : 0) | (model->multi ? FI_MULTI_RECV : 0) |
	       (model->atomics ? FI_ATOMIC : 0) | (model->segments ? 0 : CAP_SEGMENTS);
}

void wait_begin(void)
{
	begun = world.now;
}

bool wait_over(bool expected)
{
	return world.now - begun > WAIT;
}

bool expected(const char *question, long *number)
{
	return false;
}

int main(int argc, char **argv)
{
	static struct script script;

	script = (struct script){.model = argc == 2 ? model_find(argv[1]) : NULL,
				 .noise = 1,
				 .nodes = 2,
				 .eps = 1};
	if (!script.model) {
		fprintf(stderr, "Usage: p2p_conform_model MODEL\n");
		return 2;
	}
	world_begin(&script, false);
	gpu_begin();
	player_open(&players[0], core_fabric(0, NULL), core_info(0, script.model));
	ask_all();
	return 0;
}
