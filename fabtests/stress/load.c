/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_load: 64 endpoints and all protocols at once, with less staging memory than they want. All ends, and
 * nobody is left behind: when half of the operations have been done, no peer has less than half of its share of
 * them. What is counted is operations, and no time. See load.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "load.h"

#define QUICK_SPOKES 15
#define WARM_PART 8
#define UNFINISHED_MAX 40

/*
 * Parameters, unless the environment has them. Of ofi_p2p's: 20 pieces, and ten messages of middling length.
 * Of ofi_rxm's: of its own accord each endpoint sets aside 90 MiB.
 */
static const char *const parameters[][2] = {
	{"FI_P2P_CHUNK_SIZE", "131072"},   {"FI_P2P_EAGER_SIZE", "65536"},
	{"FI_P2P_PINNED_SIZE", "4194304"}, {"FI_OFI_RXM_BUFFER_SIZE", "8192"},
	{"FI_OFI_RXM_MSG_RX_SIZE", "32"},
};

#define NO_PEEKS (QUIRK_PEEK | QUIRK_EPS | QUIRK_UNEXPECTED)

/* clang-format off */
const struct load_kind load_kinds[] = {
	{"host", FI_TAGGED, 0, true, {false, false}, 0, 40000, 32, &load_send, &load_recv},
	{"short", FI_TAGGED, 0, true, {true, true}, 0, 4096, 32, &load_send, &load_recv},
	{"short, back", FI_TAGGED, 0, false, {true, false}, 0, 4096, 32, &load_send, &load_recv},
	{"middling", FI_TAGGED, 0, true, {true, true}, 16385, 65536, 16, &load_send, &load_recv},
	{"middling, back", FI_TAGGED, 0, false, {true, true}, 4097, 65536, 16, &load_send, &load_recv},
	{"long", FI_TAGGED, LOAD_ALIKE, true, {true, true}, 65537, 400000, 16, &load_send, &load_recv},
	{"long, back", FI_TAGGED, LOAD_ALIKE, false, {true, true}, 65537, 400000, 16, &load_send,
	 &load_recv},
	{"long, to the host", FI_TAGGED, LOAD_ALIKE, true, {true, false}, 65537, 400000, 16, &load_send,
	 &load_recv},
	{"bursts", FI_TAGGED, 0, true, {true, true}, 8, 64, LOAD_BURSTS, &load_burst_send, &load_burst_recv, 8},
	{"bursts, back", FI_TAGGED, 0, false, {true, true}, 8, 64, LOAD_BURSTS, &load_burst_send,
	 &load_burst_recv, 32},
	{"peek", FI_TAGGED, NO_PEEKS, false, {true, true}, 0, 4096, 16, &load_send, &load_peek},
	{"peek, announced", FI_TAGGED, NO_PEEKS | LOAD_OURS, false, {true, true}, 65537, 100000, 16,
	 &load_send, &load_peek},
	/* between two buffers a message may find none */
	{"multi-receive", FI_MSG | FI_MULTI_RECV, QUIRK_UNEXPECTED | QUIRK_MULTI | LOAD_OURS, true, {true, true}, 1,
	 LOAD_MULTI_LARGEST, 16, &load_send_untagged, &load_multi},
	{"write and read", FI_RMA, 0, true, {true, true}, 1, 100000, 16, &load_put, NULL},
	{"write and read, back", FI_RMA, 0, false, {true, true}, 1, 4096, 16, &load_put, NULL},
	{"atomic", FI_ATOMIC, QUIRK_ATOMICS, true, {true, true}, LOAD_SUMS, LOAD_SUMS, 32, &load_add, NULL},
	{"atomic, back", FI_ATOMIC, QUIRK_ATOMICS, false, {true, true}, LOAD_SUMS, LOAD_SUMS, 32, &load_add,
	 NULL},
};
/* clang-format on */
const size_t load_kind_count = FT_COUNT(load_kinds);

_Static_assert(FT_COUNT(load_kinds) <= LOAD_KINDS_MAX, "a kind has a place");

/* ---- what is fair ---- */

/* Half of the operations that are counted here have been done, or half of those of a kind. */
static void note_half(struct load *load, unsigned int lane, uint64_t *half)
{
	memset(half, 0, load->spokes * sizeof(*half));
	for (size_t i = 0; i < load->end_count; i++) {
		const struct load_end *end = &load->end[i];

		if (end->role && end->role->counts && (end->lane == lane || lane == LOAD_ALL))
			half[end->spoke] +=
				end->number + load_share(load, end->kind) - end->target;
	}
}

static void count_one(struct load *load, unsigned int lane)
{
	struct load_tally *tally = &load->tally[lane];

	if (++tally->done == (uint64_t) load->spokes * tally->count / 2)
		note_half(load, lane, tally->half);
}

unsigned int load_share(const struct load *load, const struct load_kind *kind)
{
	return kind->count == LOAD_BURSTS ? (unsigned int) load->proc->opts.bursts
					  : kind->count;
}

void load_count(struct load *load, struct load_end *end)
{
	const unsigned int messages = FT_MAX(end->kind->burst, 1U);
	const bool counts = end->role->counts;

	load->bytes += counts ? load_size(load, end) * messages : 0;
	load->ops += counts ? messages : 0;
	end->number++;
	end->phase = 0;
	end->prepared = false;
	if (!counts)
		return;
	count_one(load, end->lane);
	count_one(load, LOAD_ALL);
}

/*
 * Is it to be even? What a peer does in all is, where there is our protocol. Of one kind, only what waits for slots
 * of one sort is compared: a message that finds a shorter way free is quicker than one that does not. Over shm it
 * is not even, for reasons that are not known (docs/reliability.md).
 */
static bool compared(const struct load *load, unsigned int lane)
{
	if (!ft_is_p2p(&load->ctx[0]) || load->quirks & QUIRK_UNEVEN ||
	    !strncmp(load->ctx[0].info->fabric_attr->prov_name, "shm", 3))
		return false;
	return lane == LOAD_ALL || load_kinds[lane].quirks & LOAD_ALIKE;
}

/* The spokes that had done least and most */
static void find_extremes(const struct load *load, unsigned int lane, unsigned int *least,
			  unsigned int *most)
{
	const uint64_t *half = load->tally[lane].half;

	*least = *most = 0;
	for (unsigned int spoke = 1; spoke < load->spokes; spoke++) {
		if (half[spoke] < half[*least])
			*least = spoke;
		if (half[spoke] > half[*most])
			*most = spoke;
	}
}

static const char *lane_name(const struct load *load, unsigned int lane)
{
	if (lane < LOAD_ALL)
		return load_kinds[lane].name;
	return load->proc->rank ? "all, at spokes" : "all, at the hub";
}

static void print_shares(const struct load *load)
{
	unsigned int least, most;

	for (unsigned int lane = 0; lane <= LOAD_ALL; lane++) {
		const struct load_tally *tally = &load->tally[lane];

		if (!tally->count)
			continue;
		find_extremes(load, lane, &least, &most);
		printf("%-24s share %u, least %" PRIu64 " (spoke %u), most %" PRIu64
		       " (spoke %u)\n",
		       lane_name(load, lane), tally->count / 2, tally->half[least], least,
		       tally->half[most], most);
	}
}

static int check_fair(const struct load *load)
{
	unsigned int least, most;

	for (unsigned int lane = 0; lane <= LOAD_ALL; lane++) {
		const struct load_tally *tally = &load->tally[lane];

		find_extremes(load, lane, &least, &most);
		FT_CHECK(tally->half[least] * 4 >= tally->count || !compared(load, lane),
			 "%s: when half of all was done, spoke %u had %" PRIu64
			 ", and spoke %u %" PRIu64 ", where a share is %u",
			 lane_name(load, lane), least, tally->half[least], most,
			 tally->half[most], tally->count / 2);
	}
	return 0;
}

/* ---- rounds ---- */

static bool all_over(const struct load *load)
{
	for (size_t i = 0; i < load->end_count; i++)
		if (load->end[i].role &&
		    (load->end[i].posted || load->end[i].number < load->end[i].target))
			return false;
	return true;
}

/* A look at all ends. Which one is first is random: who comes early finds more room than who comes late. */
static int turn(struct load *load)
{
	const size_t first = ft_random(&load->rnd) % load->end_count;
	int moved = 0, came;

	/* all that has come: a look at all ends takes longer than one at the queue */
	while ((came = ft_progress(&load->ctx[0])) > 0)
		moved += came;
	moved = came < 0 ? came : moved;
	for (size_t i = 0; moved >= 0 && i < load->end_count; i++) {
		const int ret = load_step(load, &load->end[(first + i) % load->end_count]);

		moved = ret < 0 ? ret : moved + ret;
	}
	for (int i = 0; moved >= 0 && i < LOAD_MULTIS; i++)
		if (load->multi[i].buf.addr && !load->multi[i].posted)
			FT_TRY(load_multi_post(load, &load->multi[i]));
	if (moved > 0)
		ft_progress_note();
	return moved ? FT_MIN(moved, 0) : ft_idle(&load->ctx[0]);
}

/* What has not ended says what it hangs on. */
static void print_unfinished(const struct load *load)
{
	int left = UNFINISHED_MAX;

	for (size_t i = 0; i < load->end_count && left; i++) {
		const struct load_end *end = &load->end[i];

		if (!end->role || (!end->posted && end->number == end->target))
			continue;
		ft_err("%s, spoke %u, operation %" PRIu64 " has not ended, phase %d%s",
		       end->kind->name, end->spoke, end->number, end->phase,
		       end->posted ? "" : ": not posted");
		left--;
	}
	for (int i = 0; i < LOAD_MULTIS; i++)
		if (load->multi[i].posted)
			ft_err("buffer %d for many messages is posted", i);
}

/* @part: of the operations of a round, one of so many */
static int run_round(struct load *load, unsigned int part)
{
	int ret;

	for (size_t i = 0; i < load->end_count; i++)
		load->end[i].target += load_share(load, load->end[i].kind) / part;
	while (!all_over(load)) {
		ret = turn(load);
		if (ret) {
			print_unfinished(load);
			return ret;
		}
	}
	FT_TRY(ft_barrier(load->proc, &load->ctx[0]));
	return load_check_targets(load);
}

static int run_fair_round(struct load *load, bool say)
{
	int ret;

	memset(load->tally, 0, sizeof(load->tally));
	for (size_t i = 0; i < load->end_count; i += load->spokes) {
		const struct load_end *end = &load->end[i];

		if (!end->role || !end->role->counts)
			continue;
		load->tally[end->lane].count = load_share(load, end->kind);
		load->tally[LOAD_ALL].count += load->tally[end->lane].count;
	}
	FT_TRY(run_round(load, 1));
	ret = check_fair(load);
	if (ret || say)
		print_shares(load);
	return ret;
}

static int run_rounds(struct load *load)
{
	struct ft_soak soak;
	bool more;

	/* until spokes are connected and greeted, the first ones are ahead */
	FT_TRY(run_round(load, WARM_PART));
	ft_soak_begin(&soak, load->proc);
	for (;;) {
		FT_TRY(ft_soak_more(&soak, load->ops, load->bytes, &more));
		if (!more)
			return 0;
		FT_TRY(run_fair_round(load, soak.rounds == 1));
	}
}

static _Atomic uint64_t *ready;

static int run(struct ft_proc *proc)
{
	struct load *load = calloc(1, sizeof(*load));
	int ret;

	if (!load)
		return ft_fail(-FI_ENOMEM, "calloc", "%zu bytes", sizeof(*load));
	load->proc = proc;
	load->ready = ready;
	load->rnd = proc->opts.seed;
	load->spokes = proc->opts.quick ? QUICK_SPOKES : LOAD_SPOKES_MAX;
	proc->opts.wait = FT_WAIT_YIELD;
	if (!proc->opts.seconds && !proc->opts.rounds)
		proc->opts.rounds = 1;
	for (size_t i = 0; i < FT_COUNT(parameters); i++)
		setenv(parameters[i][0], parameters[i][1], 0);
	/*
	 * As many peers as an endpoint has. ofi_rxm's queues have room for 256 completions of each, and go round
	 * in it: for 1,024 peers, its default, each endpoint would touch 12 MiB by and by.
	 */
	setenv("FI_UNIVERSE_SIZE", proc->rank ? "1" : "64", 0);
	ret = load_open(load);
	if (!ret)
		ret = run_rounds(load);
	if (!ret)
		ret = load_close(load);
	/* After an error operations may still be under way into it: leave it to exit. */
	if (!ret)
		free(load);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose =
			"64 endpoints (-q: 16) and all protocols at once, with little memory to "
			"stage by. All ends,\nand no peer has less than half of its share. "
			"With --bursts 200 most operations are short.",
		.scope = FT_SCOPE_TEST | FT_SCOPE_LOAD,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	ready = mmap(NULL, LOAD_KINDS_MAX * LOAD_SPOKES_MAX * sizeof(*ready),
		     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ready == MAP_FAILED)
		return EXIT_FAILURE;
	return ft_test_main(&test, argc, argv);
}
