/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_lanes: long messages over lanes (FI_P2P_LANES), many at a time, both ways, between all kinds of memory,
 * of lengths that do and do not fit pieces and lanes. All have one tag: they come in order. Where both ends have
 * lanes, pieces travel over them; where one end has none, no piece does. Messages from host memory have lanes if
 * their sender is told so (FI_P2P_LANES_HOST), and some go by the core in between.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ft_test.h"

#define TAG 5

static const size_t sizes[] = {262144, 300001,        70000, (1 << 20) + 1,
			       4096,   (5 << 20) - 3, 262143};

#define MESSAGES FT_COUNT(sizes)
#define LARGEST ((size_t) 5 << 20)
#define PLACE (LARGEST + FT_ROOM)

/* What a child of either process does; or rank 0 forgets its peer, and inserts it again */
enum between { NOTHING, CHILD_EXITS, CHILD_CLOSES, FORGETS };

/*
 * FI_P2P_LANES of either rank; whether FI_PROVIDER leaves it nothing but ofi_rxm for them; whether pieces are to
 * travel over lanes; FI_P2P_LANES_HOST; the type of address vectors (Open MPI asks for maps). Lanes of two kinds do
 * not go together.
 */
static const struct scene {
	const char *lanes[2];
	bool rxm[2];
	bool used;
	bool host[2];
	enum fi_av_type av;
	enum between between;
} scenes[] = {{{"3", "3"}, .used = true},
	      {{"3", "3"}, .used = true, .between = CHILD_EXITS},
	      {{"3", "3"}, .used = true, .between = CHILD_CLOSES},
	      {{"3", "3"}, .used = true, .between = FORGETS},
	      {{"2", "8"}, .used = true, .av = FI_AV_MAP},
	      {{"3", "3"}, .used = true, .host = {true, true}, .av = FI_AV_TABLE},
	      {{"3", "3"}, .used = true, .host = {true, false}},
	      {{"3", "1"}, .used = false, .host = {true, true}},
	      {{"3", "1"}, .used = false},
	      {{"auto", "auto"}, .used = true},
	      {{"3", "3"}, {true, true}, .used = true, .av = FI_AV_TABLE},
	      {{"3", "3"}, {true, false}, .used = false}};

static const struct scene *scene;

static struct ft_slot place(struct ft_pair *pair, bool sends, size_t round, size_t i)
{
	const size_t kind = (round / (sends ? 1 : 2) + i) % pair->kind_count;
	const size_t base = (2 * i + sends) * PLACE;

	return (struct ft_slot){&pair->buf[kind], base, sizes[i] + FT_ROOM, base + 64,
				sizes[i]};
}

static uint64_t key_of(int sender, size_t round, size_t i)
{
	return 1000 * round + 10 * i + sender;
}

static int post(struct ft_pair *pair, bool sends, size_t round, struct ft_req reqs[MESSAGES])
{
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = pair->peer,
		.tag = TAG,
	};

	for (size_t i = 0; i < MESSAGES; i++) {
		const struct ft_slot slot = place(pair, sends, round, i);

		FT_TRY(sends ? ft_slot_fill(&slot, key_of(pair->proc->rank, round, i))
			     : ft_slot_arm(&slot));
		reqs[i] = (struct ft_req){0};
		op.req = &reqs[i];
		ft_op_buf(&op, slot.buf, slot.off, slot.len);
		FT_TRY(ft_post(&pair->ctx, &op));
	}
	return 0;
}

static int exchange(struct ft_pair *pair, size_t round)
{
	struct ft_req reqs[2][MESSAGES];

	FT_TRY(post(pair, false, round, reqs[0]));
	FT_TRY(post(pair, true, round, reqs[1]));
	FT_TRY(ft_wait(&pair->ctx, reqs[0], MESSAGES));
	FT_TRY(ft_wait(&pair->ctx, reqs[1], MESSAGES));
	for (size_t i = 0; i < MESSAGES; i++) {
		const struct ft_slot slot = place(pair, false, round, i);

		FT_TRY(ft_slot_check(&slot, sizes[i], key_of(!pair->proc->rank, round, i),
				     "a message by lanes"));
	}
	ft_progress_note();
	return 0;
}

/* Are pieces to go over lanes from here? Where there are fewer processors than it is told, lanes may be given up. */
static bool uses(const struct ft_pair *pair)
{
	return scene->used &&
	       (pair->proc->opts.iface != FI_HMEM_SYSTEM || scene->host[pair->proc->rank]);
}

static int check_used(struct ft_pair *pair)
{
	uint64_t pieces;

	FT_TRY(ft_lane_pieces(&pair->ctx, &pieces));
	FT_CHECK(!pieces == !uses(pair) || getenv("BUSYCORE_CPUS"),
		 "%" PRIu64 " pieces were sent over lanes, with %s of them here and %s there",
		 pieces, scene->lanes[pair->proc->rank], scene->lanes[!pair->proc->rank]);
	return 0;
}

/* Have both ends done what they do with lanes? These are agreed on while messages travel otherwise. */
static int settle(struct ft_pair *pair, bool *settled)
{
	const int fd = pair->proc->fd[!pair->proc->rank];
	uint8_t mine, theirs = 0;
	uint64_t pieces;

	FT_TRY(ft_lane_pieces(&pair->ctx, &pieces));
	mine = pieces || !uses(pair) || getenv("BUSYCORE_CPUS");
	FT_TRY(ft_oob_send(fd, &mine, 1));
	FT_TRY(ft_oob_recv(fd, &theirs, 1, pair->proc->opts.timeout));
	*settled = mine && theirs;
	return 0;
}

/* The child has copies of all descriptors, and none of the threads. What it does is not to reach the parent. */
static int bear(struct ft_pair *pair)
{
	int status = 0;
	pid_t child;

	child = fork();
	if (child < 0)
		return ft_errno("fork", "a child");
	if (!child) {
		if (scene->between == CHILD_CLOSES)
			fi_close(&pair->ctx.ep->fid);
		_exit(0);
	}
	while (waitpid(child, &status, WNOHANG) != child)
		FT_TRY(ft_idle(&pair->ctx));
	FT_CHECK(!status, "a child ended with %d", status);
	return 0;
}

static int forget(struct ft_pair *pair)
{
	struct ft_name name = {.len = sizeof(name.bytes)};
	int ret = fi_av_lookup(pair->ctx.av, pair->peer, name.bytes, &name.len);

	if (!ret)
		ret = fi_av_remove(pair->ctx.av, &pair->peer, 1, 0);
	return ret ? ft_fail(ret, "fi_av_remove", "the peer")
		   : ft_av_insert(&pair->ctx, name.bytes, &pair->peer);
}

static int halfway(struct ft_pair *pair)
{
	if (!scene->between)
		return 0;
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	if (scene->between != FORGETS)
		FT_TRY(bear(pair));
	else if (!pair->proc->rank)
		FT_TRY(forget(pair));
	return ft_barrier(pair->proc, &pair->ctx);
}

static int run(struct ft_proc *proc)
{
	const size_t rounds = proc->opts.quick ? 8 : 80;
	struct ft_pair pair;
	bool settled = false;
	double end;

	setenv("FI_P2P_LANES", scene->lanes[proc->rank], 1);
	setenv("FI_P2P_LANES_HOST", scene->host[proc->rank] ? "yes" : "no", 1);
	if (scene->rxm[proc->rank])
		setenv("FI_PROVIDER", "tcp;ofi_rxm", 1);
	FT_TRY(ft_pair_hints(&pair, proc));
	pair.ctx.hints->domain_attr->av_type = scene->av;
	FT_TRY(ft_pair_open(&pair, 2 * MESSAGES * PLACE));
	end = ft_usec() + (double) proc->opts.timeout * 1e6;
	for (size_t round = 0; round < rounds || !settled; round++) {
		FT_CHECK(ft_usec() < end,
			 "lanes are not used as they ought to be, for %ld s (--timeout)",
			 proc->opts.timeout);
		if (round == rounds / 2)
			FT_TRY(halfway(&pair));
		FT_TRY(exchange(&pair, round));
		if (round + 1 >= rounds)
			FT_TRY(settle(&pair, &settled));
	}
	FT_TRY(ft_barrier(proc, &pair.ctx));
	FT_TRY(check_used(&pair));
	return ft_pair_close(&pair, NULL, 0);
}

/* That this process may run on, or is told so (BUSYCORE_CPUS) */
static int processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);
}

static bool rxm_of_old(const struct ft_opts *opts)
{
	return !strcmp(opts->prov, "tcp;ofi_rxm;ofi_p2p") &&
	       FI_VERSION_LT(fi_version(), FI_VERSION(1, 18));
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Pieces of long messages over further connections.",
		.scope = FT_SCOPE_TEST,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};
	struct ft_opts opts;
	int ret = EXIT_SUCCESS;

	ft_options_parse(&opts, test.scope, test.purpose, argc, argv);
	/* TCP is all that lanes are for */
	if (!opts.prov || !strcmp(opts.prov, "shm;ofi_p2p") || strstr(opts.prov, "verbs"))
		return ft_skip("there are no lanes here");
	setenv("FI_P2P_PATH", "stage", 1);
	for (size_t i = 0; i < FT_COUNT(scenes) && ret == EXIT_SUCCESS; i++) {
		scene = &scenes[i];
		/* without a GPU the first one shows that host memory has no lanes unless it is told so */
		if (i && opts.iface == FI_HMEM_SYSTEM && !scene->host[0])
			continue;
		if (!strcmp(scene->lanes[0], "auto") && processors() < 4)
			continue;
		/* threads that spin take their time where the processors are not there: some scenes tell enough */
		if (getenv("BUSYCORE_CPUS") && i % 3)
			continue;
		/* there, FI_PROVIDER leaves out what lanes are made of; later releases have it in tcp itself */
		if (scene->rxm[0] && !rxm_of_old(&opts))
			continue;
		ret = ft_test_round(&test, &opts);
	}
	return ret;
}
