/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Many ranks at once. Each has three endpoints: the core provider's, one of ofi_p2p's over it, and another one of the core
 * provider's as a control. They take turns, with the same buffers, in an order and then in the opposite one. A ratio is of one
 * round of turns. The slowest rank's time counts. After each turn all that arrived last is compared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale.h"
#include "turns.h"

#define WINDOW 64
#define ROUNDS 11
#define ROUNDS_QUICK 2
#define TURN_US 20000
#define TURN_QUICK_US 500
#define ACK_TAG FT_MAX_RANKS

enum role { CORE, OURS, CONTROL, ROLES };

/** struct side - one of the three */
struct side {
	struct ft_opts opts;
	char prov[128];
	struct ft_ctx ctx;
};

/**
 * struct turns_of_all - this rank's part
 * @slots:	the messages that are under way in each direction, each with its own part of a buffer
 * @usec:	for each round and role, in rank 0: one window of messages, or one exchange of all with all
 */
struct turns_of_all {
	struct ft_proc *proc;
	struct side sides[ROLES];
	struct ft_buf tx, rx;
	struct ft_req *reqs;
	size_t size, slots;
	bool pairs;
	uint64_t row;
	double usec[TURNS_ROUNDS][ROLES];
};

static int post(struct turns_of_all *t, struct side *side, bool send, int peer, size_t slot,
		size_t len, uint64_t tag, struct ft_req *req)
{
	struct ft_op op = {
		.call = send ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = send ? side->ctx.peer[peer] : FI_ADDR_UNSPEC,
		.tag = tag,
		.req = req,
	};

	ft_op_buf(&op, send ? &t->tx : &t->rx, slot * t->size, len);
	return ft_post(&side->ctx, &op);
}

/* ---- what is measured ---- */

static bool sends(const struct turns_of_all *t)
{
	return t->proc->rank < t->proc->ranks / 2;
}

/* The other one of the pair */
static int partner(const struct turns_of_all *t)
{
	const int half = t->proc->ranks / 2;

	return sends(t) ? t->proc->rank + half : t->proc->rank - half;
}

/* A window one way, and a byte back */
static int pair_once(struct turns_of_all *t, struct side *side)
{
	const int peer = partner(t);
	const bool send = sends(t);
	struct ft_req ack;

	if (send)
		FT_TRY(post(t, side, false, peer, 0, 1, ACK_TAG, &ack));
	for (size_t i = 0; i < t->slots; i++)
		FT_TRY(post(t, side, send, peer, i, t->size, 0, &t->reqs[i]));
	FT_TRY(ft_wait(&side->ctx, t->reqs, t->slots));
	if (!send)
		FT_TRY(post(t, side, true, peer, 0, 1, ACK_TAG, &ack));
	return ft_wait(&side->ctx, &ack, 1);
}

/* Not all ranks begin with the same peer */
static int alltoall_once(struct turns_of_all *t, struct side *side)
{
	const int ranks = t->proc->ranks, rank = t->proc->rank;
	size_t count = 0;

	for (int i = 1; i < ranks; i++) {
		const int peer = (rank + ranks - i) % ranks;

		FT_TRY(post(t, side, false, peer, (size_t) peer, t->size, (uint64_t) peer,
			    &t->reqs[count++]));
	}
	for (int i = 1; i < ranks; i++) {
		const int peer = (rank + i) % ranks;

		FT_TRY(post(t, side, true, peer, (size_t) peer, t->size, (uint64_t) rank,
			    &t->reqs[count++]));
	}
	return ft_wait(&side->ctx, t->reqs, count);
}

/* ---- data ---- */

static uint64_t key(const struct turns_of_all *t, int from, size_t slot, int to)
{
	return ((t->row * FT_MAX_RANKS + (uint64_t) from) * FT_MAX_RANKS + (uint64_t) to) *
		       WINDOW +
	       slot;
}

/* Who sends what a slot gets; negative: nobody does */
static int sender(const struct turns_of_all *t, size_t slot)
{
	if (t->pairs)
		return sends(t) ? -1 : partner(t);
	return (int) slot == t->proc->rank ? -1 : (int) slot;
}

static int fill(struct turns_of_all *t)
{
	for (size_t i = 0; i < t->slots; i++) {
		const struct ft_slot out = {&t->tx, i * t->size, t->size, i * t->size, t->size};

		FT_TRY(ft_slot_fill(&out, t->pairs ? key(t, t->proc->rank, i, 0)
						   : key(t, t->proc->rank, 0, (int) i)));
	}
	return 0;
}

static int verify(const struct turns_of_all *t)
{
	for (size_t i = 0; i < t->slots; i++) {
		const int from = sender(t, i);

		if (from >= 0)
			FT_TRY(ft_verify(&t->rx, i * t->size, t->size,
					 t->pairs ? key(t, from, i, 0)
						  : key(t, from, 0, t->proc->rank)));
	}
	return 0;
}

/* ---- turns ---- */

/* @usec: of the slowest rank, for one of @count, in rank 0 */
static int take_turn(struct turns_of_all *t, struct side *side, uint64_t count, double *usec)
{
	double all[FT_MAX_RANKS], took;

	memset(t->rx.addr, FT_GUARD, t->slots * t->size);
	FT_TRY(ft_barrier(t->proc, &side->ctx));
	took = ft_usec();
	for (uint64_t i = 0; i < count; i++)
		FT_TRY(t->pairs ? pair_once(t, side) : alltoall_once(t, side));
	took = ft_usec() - took;
	FT_TRY(ft_barrier(t->proc, &side->ctx));
	FT_TRY(verify(t));
	FT_TRY(scale_gather(t->proc, &took, sizeof(took), all));
	*usec = 0;
	for (int i = 0; !t->proc->rank && i < t->proc->ranks; i++)
		*usec = FT_MAX(*usec, all[i] / (double) count);
	return 0;
}

static int take_round(struct turns_of_all *t, uint64_t count, double usec[ROLES])
{
	const int last = 2 * ROLES - 1;
	double took[2 * ROLES];

	for (int i = 0; i <= last; i++)
		FT_TRY(take_turn(t, &t->sides[i < ROLES ? i : last - i], count, &took[i]));
	for (int i = 0; i < ROLES; i++)
		usec[i] = (took[i] + took[last - i]) / 2;
	return 0;
}

static double quantile(const struct turns_of_all *t, uint64_t rounds, enum role role,
		       bool ratio, double q)
{
	double values[TURNS_ROUNDS];

	for (uint64_t r = 0; r < rounds; r++)
		values[r] = ratio ? t->usec[r][CORE] / t->usec[r][role] : t->usec[r][role];
	return turns_quantile(values, rounds, q);
}

static void print(const struct turns_of_all *t, uint64_t rounds, uint64_t count)
{
	printf("{\"test\": \"%s\", \"provider\": \"%s\", \"ranks\": %d, \"size\": %zu, \"window\": %zu, "
	       "\"count\": %zu, \"rounds\": %zu, \"core_us\": %.3f, \"ours_us\": %.3f",
	       t->pairs ? "pairs" : "alltoall", t->proc->opts.prov, t->proc->ranks, t->size,
	       t->pairs ? t->slots : 1, (size_t) count, (size_t) rounds,
	       quantile(t, rounds, CORE, false, 0.5), quantile(t, rounds, OURS, false, 0.5));
	for (enum role role = OURS; role <= CONTROL; role++) {
		const char *const name = role == OURS ? "ratio" : "control";

		printf(", \"%s\": %.4f, \"%s_q1\": %.4f, \"%s_q3\": %.4f", name,
		       quantile(t, rounds, role, true, 0.5), name,
		       quantile(t, rounds, role, true, 0.25), name,
		       quantile(t, rounds, role, true, 0.75));
	}
	printf("}\n");
}

/* Finds out how many a turn may have, and takes the turns of one row */
static int measure(struct turns_of_all *t, bool pairs, size_t size)
{
	const struct ft_opts *const opts = &t->proc->opts;
	const double turn = opts->quick ? TURN_QUICK_US : TURN_US;
	const uint64_t rounds = opts->rounds  ? opts->rounds
				: opts->quick ? ROUNDS_QUICK
					      : ROUNDS;
	uint64_t count = 1;

	FT_CHECK(rounds <= TURNS_ROUNDS, "--rounds: at most %d", TURNS_ROUNDS);
	t->pairs = pairs;
	t->size = size;
	t->slots = pairs ? WINDOW : (size_t) t->proc->ranks;
	t->row++;
	FT_TRY(fill(t));
	/* the first round connects */
	for (int trial = 0; trial < 2; trial++) {
		FT_TRY(take_round(t, count, t->usec[0]));
		count = (uint64_t) FT_MAX(turn / FT_MAX(t->usec[0][CORE], 0.1), 1);
		FT_TRY(scale_tell(t->proc, &count, sizeof(count)));
	}
	for (uint64_t r = 0; r < rounds; r++)
		FT_TRY(take_round(t, count, t->usec[r]));
	if (!t->proc->rank)
		print(t, rounds, count);
	return 0;
}

/* ---- start and end ---- */

static int open_side(struct turns_of_all *t, enum role role)
{
	struct ft_proc own = *t->proc;
	struct side *const side = &t->sides[role];
	char *suffix;

	FT_CHECK(own.opts.prov && strstr(own.opts.prov, ";ofi_p2p"),
		 "-p: it has to end in \";ofi_p2p\"");
	side->opts = own.opts;
	snprintf(side->prov, sizeof(side->prov), "%s", own.opts.prov);
	suffix = strstr(side->prov, ";ofi_p2p");
	if (role != OURS)
		*suffix = '\0';
	side->opts.prov = own.opts.prov = side->prov;
	own.opts.no_hmem |= role != OURS;
	FT_TRY(ft_test_hints(&own, &side->ctx));
	side->ctx.opts = &side->opts;
	FT_TRY(ft_test_open(&own, &side->ctx));
	FT_CHECK(ft_is_p2p(&side->ctx) == (role == OURS), "-p %s: it is %s that was found",
		 side->prov, side->ctx.info->fabric_attr->prov_name);
	return ft_test_connect(&own, &side->ctx);
}

static size_t largest(const size_t *sizes, size_t count)
{
	size_t most = 1;

	for (size_t i = 0; i < count; i++)
		most = FT_MAX(most, sizes[i]);
	return most;
}

int scale_turns(struct ft_proc *proc)
{
	static const size_t defaults[] = {8, 4096, 65536};
	static struct turns_of_all t;
	const size_t *const sizes = proc->opts.sizes ? proc->opts.sizes : defaults;
	const size_t count = proc->opts.sizes ? proc->opts.size_count : FT_COUNT(defaults);
	const size_t room = largest(sizes, count) * WINDOW;
	struct ft_ctx *const core = &t.sides[CORE].ctx;

	if (proc->ranks % 2 && ft_is_listed(proc->opts.ops, "pairs"))
		return ft_skip("pairs: for an even number of ranks");
	t.proc = proc;
	for (int role = 0; role < ROLES; role++)
		FT_TRY(open_side(&t, (enum role) role));
	FT_CHECK(!(t.sides[OURS].ctx.info->domain_attr->mr_mode & FI_MR_LOCAL),
		 "-p %s: a provider that wants its buffers registered is not measured",
		 proc->opts.prov);
	FT_TRY(ft_buf_alloc(core, &t.tx, FI_HMEM_SYSTEM, room));
	FT_TRY(ft_buf_alloc(core, &t.rx, FI_HMEM_SYSTEM, room));
	t.reqs = calloc(2 * WINDOW, sizeof(*t.reqs));
	if (!t.reqs)
		return ft_fail(-FI_ENOMEM, "calloc", "requests");
	for (size_t i = 0; i < count; i++) {
		if (ft_is_listed(proc->opts.ops, "pairs"))
			FT_TRY(measure(&t, true, sizes[i]));
		if (ft_is_listed(proc->opts.ops, "alltoall"))
			FT_TRY(measure(&t, false, sizes[i]));
	}
	free(t.reqs);
	ft_buf_free(&t.tx);
	ft_buf_free(&t.rx);
	for (int role = 0; role < ROLES; role++)
		FT_TRY(ft_close(&t.sides[role].ctx));
	return 0;
}
