/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The questions, put to a model. See conform.h. */
#include "../core.h"
#include "conform.h"

#include <rdma/fi_cm.h>

/* For so long something is waited for [ns of the world's time] */
#define WAIT (2 * SIM_S)

static struct player players[2];
static uint64_t begun;

struct answer side_call(unsigned int side, const struct call *call)
{
	world.current = side;
	world.now += 5000;
	/* a core without peeks takes one for a receive */
	if (call->kind == CALL_PEEK && !world.script->model->peeks)
		return player_call(&players[side],
				   &(struct call){CALL_RECV, call->id, call->tag});
	return player_call(&players[side], call);
}

void side_kill(void)
{
	core_kill(1);
	nodes[1].state = NODE_DEAD;
	nodes[1].life++;
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
	char name[64];

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
	for (unsigned int i = 0; i < 2; i++) {
		world.current = i;
		player_open(&players[i], core_fabric(i, NULL), core_info(i, script.model));
	}
	for (unsigned int i = 0; i < 2; i++) {
		core_name(!i, CORE_PORT, name);
		fi_av_insert(players[i].av, name, 1, &players[i].peer, 0, NULL);
	}
	ask_all();
	return 0;
}
