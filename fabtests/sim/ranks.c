/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * p2p_ranks: many simulated processes, all of which send device memory to all others. It says what a process and a pair
 * of them cost: memory, control messages, time. Each is on a host of its own, unless the core is shm.
 *
 * In step s rank r sends to rank r + s, and receives from rank r - s, as MPI's pairwise exchange does; some steps are
 * under way at a time. Each byte is compared.
 */
#include "core.h"
#include "fiber.h"
#include "gate.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fi_cm.h>

/* Steps under way, and the bytes of a message: one is sent at once, the other one is left in a slot */
#define RANK_STEPS 16
static const size_t rank_lens[] = {1000, 20000};
#define RANK_ROOM 20480
#define RANK_KINDS SIM_COUNT(rank_lens)
#define RANK_OPS (2 * RANK_STEPS * RANK_KINDS)

/**
 * struct rank - what a process has to do.
 * @step:	the next one to begin; @done: operations that have ended
 * @bufs:	of each operation that may be under way: first those of sends; @step_of: its step, or 0; @posted: it is
 */
struct rank {
	unsigned int step;
	unsigned long done;
	bool begun;
	uint8_t *bufs[RANK_OPS];
	unsigned int step_of[RANK_OPS];
	bool posted[RANK_OPS];
	struct fi_context2 contexts[RANK_OPS];
};

static struct rank ranks[SIM_NODES];
static unsigned int rank_count;

static bool is_receive(unsigned int op)
{
	return op >= RANK_OPS / 2;
}

static unsigned int peer_of(unsigned int i, unsigned int op)
{
	const unsigned int step = ranks[i].step_of[op];

	return (is_receive(op) ? i + rank_count - step : i + step) % rank_count;
}

/* What one rank sends to another one */
static const uint8_t *bytes_of(unsigned int from, unsigned int to)
{
	static uint8_t bytes[256 + 20000];

	for (size_t at = 0; !bytes[1] && at < sizeof bytes; at++)
		bytes[at] = (uint8_t) (at * 13 + (at >> 8));
	return bytes + (from * 31 + to * 7) % 256;
}

static void rank_post(unsigned int i, unsigned int op)
{
	struct rank *rank = &ranks[i];
	struct fid_ep *ep = nodes[i].eps[0].ep;
	const size_t len = rank_lens[op % RANK_KINDS];
	const unsigned int peer = peer_of(i, op);
	const uint64_t tag = op % RANK_KINDS << 32 | (is_receive(op) ? peer : i);
	ssize_t ret;

	if (is_receive(op)) {
		ret = fi_trecv(ep, rank->bufs[op], len, NULL, FI_ADDR_UNSPEC, tag, 0,
			       &rank->contexts[op]);
	} else {
		memcpy(rank->bufs[op], bytes_of(i, peer), len);
		ret = fi_tsend(ep, rank->bufs[op], len, NULL, nodes[i].domains[0].addr[peer][0],
			       tag, &rank->contexts[op]);
	}
	if (ret && ret != -FI_EAGAIN)
		world_fail("rank %u: %s", i, fi_strerror((int) -ret));
	rank->posted[op] = !ret;
}

static void rank_take(unsigned int i, const struct fi_cq_tagged_entry *entry)
{
	struct rank *rank = &ranks[i];
	const unsigned int op =
		(unsigned int) ((struct fi_context2 *) entry->op_context - rank->contexts);
	const unsigned int peer = peer_of(i, op);

	if (is_receive(op) && (entry->len != rank_lens[op % RANK_KINDS] ||
			       memcmp(rank->bufs[op], bytes_of(peer, i), entry->len)))
		world_fail("rank %u: %zu wrong bytes from rank %u", i, entry->len, peer);
	rank->step_of[op] = 0;
	rank->posted[op] = false;
	rank->done++;
}

static void rank_begin(unsigned int i)
{
	struct node_domain *domain = &nodes[i].domains[0];
	uint8_t *mem;
	char name[64];

	ranks[i].begun = true;
	ranks[i].step = 1;
	for (unsigned int peer = 0; peer < rank_count; peer++) {
		core_name(peer, CORE_PORT, name);
		if (fi_av_insert(domain->av, name, 1, &domain->addr[peer][0], 0, NULL) != 1)
			world_fail("rank %u: a peer is not inserted", i);
	}
	mem = gpu_alloc(i, RANK_OPS * RANK_ROOM);
	for (unsigned int op = 0; op < RANK_OPS; op++)
		ranks[i].bufs[op] = mem + op * RANK_ROOM;
}

/* The next step begins where the operations of an earlier one have ended */
static void rank_next(unsigned int i)
{
	struct rank *rank = &ranks[i];
	const unsigned int at = rank->step % RANK_STEPS * RANK_KINDS;

	if (rank->step == rank_count)
		return;
	for (unsigned int k = 0; k < RANK_KINDS; k++) {
		if (rank->step_of[at + k] || rank->step_of[RANK_OPS / 2 + at + k])
			return;
	}
	for (unsigned int k = 0; k < RANK_KINDS; k++)
		rank->step_of[at + k] = rank->step_of[RANK_OPS / 2 + at + k] = rank->step;
	rank->step++;
}

static void rank_turn(unsigned int i)
{
	struct fi_cq_tagged_entry entries[8];
	ssize_t read;

	if (!ranks[i].begun)
		rank_begin(i);
	do {
		read = fi_cq_read(nodes[i].domains[0].cq, entries, SIM_COUNT(entries));
		for (ssize_t at = 0; at < read; at++)
			rank_take(i, &entries[at]);
		if (read < 0 && read != -FI_EAGAIN)
			world_fail("rank %u: fi_cq_read: %s", i, fi_strerror((int) -read));
	} while (read == SIM_COUNT(entries));
	for (unsigned int s = 0; s < RANK_STEPS; s++)
		rank_next(i);
	for (unsigned int op = RANK_OPS; op-- > 0;) {
		if (ranks[i].step_of[op] && !ranks[i].posted[op])
			rank_post(i, op);
	}
}

static bool all_done(void)
{
	const unsigned long each = 2 * RANK_KINDS * (rank_count - 1);

	for (unsigned int i = 0; i < rank_count; i++) {
		if (ranks[i].done < each)
			return false;
	}
	return true;
}

static void run(const char *model, unsigned int count)
{
	static struct script script;
	uint64_t pass = 2000;
	struct rusage usage;
	double pairs = count * (count - 1.0) / 2, heap = 0;

	script = (struct script){.model = model_find(model),
				 .noise = 1,
				 .nodes = count,
				 .eps = 1};
	rank_count = count;
	node_application = rank_turn;
	world_begin(&script, false);
	world.quiet = world.calm = true;
	check_begin();
	gpu_begin();
	for (unsigned int i = 0; i < count; i++)
		node_open(i);
	for (unsigned int i = 0; i < count; i++)
		heap -= (double) gate_heap[i];
	fiber_timed = true;
	while (!all_done()) {
		world.moved = false;
		for (unsigned int i = 0; i < count; i++)
			node_step(i, true);
		world_datagrams();
		/* where nothing moves, time passes faster: to look in vain is no part of what a message costs */
		pass = world.moved ? 200000 : pass < SIM_MS / 2 ? 2 * pass : SIM_MS;
		world.now += pass;
	}
	for (unsigned int i = 0; i < count; i++)
		heap += (double) gate_heap[i];
	getrusage(RUSAGE_SELF, &usage);
	printf("| %u | %.0f | %.2f | %.1f | %.2f | %.1f | %.0f |\n", count, heap / count / 1024,
	       heap / count / (count - 1) / 1024, (double) core_controls / pairs,
	       (double) fiber_spent / 1e3 / (pairs * 2 * RANK_KINDS),
	       (double) (world.now - SIM_S) / SIM_MS, (double) usage.ru_maxrss / 1024);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *model = "rxm";
	int status, failed = 0;

	if (argc > 2 && !strcmp(argv[1], "--model")) {
		model = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc < 2 || argv[1][0] == '-' || !model_find(model)) {
		fprintf(stderr,
			"Usage: p2p_ranks [--model NAME] RANKS...\n"
			"Simulates so many processes (at most %d) that all send to all.\n",
			SIM_NODES);
		return 2;
	}
	printf("| ranks | heap of a rank [KiB] | of each of its peers [KiB] | control messages of a pair | "
	       "time for a message [us] | simulated time [ms] | whole process [MiB] |\n"
	       "|---|---|---|---|---|---|---|\n");
	for (int at = 1; at < argc; at++) {
		const unsigned int count = (unsigned int) strtoul(argv[at], NULL, 10);
		pid_t child;

		fflush(stdout);
		child = count < 2 || count > SIM_NODES ? -1 : fork();
		if (!child) {
			run(model, count);
			_exit(0);
		}
		failed |= child < 0 || waitpid(child, &status, 0) != child || status;
	}
	return failed ? 1 : 0;
}
