/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * p2p_sim: a world that is simulated, in one thread, in virtual time. A seed decides everything, and a run is the same
 * to the byte each time.
 *
 * Simulated: 2 to 5 processes with the unchanged provider from fid/ down, with one to three endpoints, which have side
 * endpoints; the third one has a domain, an address vector and a queue of its own. The application above calls
 * libfabric's functions only, and so does the provider below. All that the provider asks of the system goes through a gate
 * (gate.c): time, random numbers, descriptors, datagrams, shared pages, locks, threads. Its threads and the
 * applications' are fibers (fiber.c), which may be switched at each lock and at each call of the core. Its threads are
 * those of lanes, of automatic progress, for signs of life, and who gives other processes memory. Only dev/dev is replaced
 * (gpu.c). The core provider is a table of properties (core_models.c), what moves by them (core_wire.c), and how messages
 * meet receives (core_match.c): connections that need the peer's progress, stalls, when "sent" is said, -FI_EAGAIN, order,
 * limits.
 *
 * Processes are of one host, of two, or each alone; over shm all are of one. Those of a host have boards, see each other's
 * descriptors and numbers, and share device memory (gpu_mem.c), by handles or by descriptors over local sockets
 * (gate_local.c). An application has its memory in allocations of their own, or in one for many. It frees them between
 * operations, and has them again at the same address under a new number. What is open elsewhere keeps the old bytes, as
 * drivers do it, so what is stale shows. A copy may touch no memory that its process does not have, or has given back.
 *
 * Over verbs a NIC reads and writes what is registered (core_mem.c): host memory, and a device's by its address or as a
 * dma-buf. It needs nobody's progress, and comes late: what it finds then is what counts. It refuses a region now and then,
 * or has room for few. Descriptors and keys are checked. What has no key, or one of a region that is closed, breaks the
 * connection.
 *
 * Between host and device memory travel (op.c) messages with and without tags, to receives for one sender or any, with
 * remote cq data, injected, in several pieces, with FI_FENCE and FI_DELIVERY_COMPLETE; reads, writes, and atomic
 * operations. Receivers peek, claim, discard and cancel, or have buffers for many messages. Endpoints may have counters.
 * One process may have the hook, or no plugin. Endpoints are closed amid that and opened again, addresses removed and
 * inserted again, processes leave; and the other faults of sim.h happen. An application uses a buffer again as soon as
 * it may, and once its endpoint is closed.
 *
 * A process forks by a fork() of the simulator's (node_fork()): the child's world has that process alone, with one thread
 * and its parent's variables, locks and descriptors. It runs the handlers, and ends; or closes all before. It may ask
 * neither core nor driver, wait for no thread, send nothing, and write to no shared page. What exec() does is known: it
 * closes descriptors, and all have to be opened so.
 *
 * An application has one thread or two. It reads its queues, asks a poll set, or sleeps (node_sleep.c): in
 * fi_cq_sreadfrom(), on descriptors, for a wait set, in fi_cntr_wait(). It sleeps without an end, and nobody reads the
 * core's queues meanwhile but threads of the provider's. Lanes have cores of their own, whose connections break, and which
 * refuse posts. Models fail the run where their core would crash or lose messages: at a thread that posts a receive beside one
 * that reads (QUIRK_SERIAL), or at what is left of a closed endpoint (QUIRK_LITTERS).
 *
 * Operations wait for counters of the application's (op_trigger.c), by FI_TRIGGER or as deferred work: for a clock, or for
 * the operation before. Or a stream of the GPU begins them (op_stream.c), by the proxy: it waits for the clock, and a kernel
 * fills the buffer. Streams go on while their process computes, sleeps or is stopped (gpu_stream.c). Some are captured into
 * graphs, which are launched several times, ahead or not (op_graph.c).
 *
 * The last domain of a process may be its GPU's: the host exports its queue, endpoints and counters (gpu_ring.c). Kernels
 * post by rings and read there (op_ring.c), with the code of rdma/fi_p2p_xpu_device.h. They go on while their process does
 * not, and are stuck now and then. What they store comes late, in any order. They put, and signal then: what a signal tells
 * of has to be there.
 *
 * The rules are the functions of check.c. After the faults there is peace: everything has to end, all that live have to
 * understand each other again, everything has to come back, and all is closed.
 *
 * A script is what is to happen: the seed makes it, or a file has it. A run that fails is reduced to the fewest
 * operations and faults with which it fails in the same way. Where that was a defect, the script stays in scripts/, as each change of the code gives seeds
 * another meaning. exhaust.c tries all orders of small worlds. mutants/ has defects of the past, to see whether seeds find
 * them.
 *
 * Not simulated yet: shared contexts; two threads that read buffers for many messages; children of fork() that open objects
 * of their own. A note is read at once: none is taken back amid that. A process has one GPU. A broken connection loses
 * nothing that was said to be sent, and a write is there then. Over TCP it may be lost: then a signal tells too much.
 *
 * A process may lie (lie.c), until it ends: its control messages, markers, pieces, datagrams, board and local sockets, and
 * what it asks of remote memory. It has regions of its own at its peers. Honest processes keep all rules among each other.
 * What they have with the liar may end in any way, with any bytes, within its buffers, and ends when the liar has. The liar
 * gets nothing of what lies around buffers. What its kernels put, or others put to it, may be signalled by any word.
 *
 * Memory is short in a process: what its provider asks for is not there, now and then, but where its application opens or
 * closes something.
 *
 * Known, and left out of the rules (op_end_lost(), end_known()):
 * - Nothing ends what waits for an endpoint that has ended before it answered its first datagram, where the core says
 *   nothing either; nor if a new one has its address. Its message may have met another one's receive. The first one counts
 *   anew for what is sent there after its address was removed.
 * - What waits for a counter, in a stream or in a ring, may go only when its peer is gone: the core has no room for it then,
 *   and says no more. Nothing overtakes it in its stream. A ring that is full of such, or has a fence among them, waits as a
 *   whole.
 * - Of a put that has failed the error does not tell which one it was. As many may be missing as errors were told.
 * - Over cores that stall, remote memory of a peer is waited for once the core has lost or refused both greetings, or
 *   there were no descriptors to answer them. With FI_P2P_PEER_TIMEOUT it is refused. What is behind that in a stream, or
 *   in a ring or a queue to that peer, waits, too; and so does what is fenced behind it.
 * - A receive or a peek waits for ever if the core has lost an announcement, and its sender's process has another
 *   endpoint that is known here; or if that went to the endpoint that was there before. The marker tells a domain, and no
 *   endpoint. It does so, too, if the core has lost the greeting that makes its sender known here, and that has given up.
 * - A receive for any sender that has met a liar's marker with a made-up number waits for ever.
 * - Over cores that stall, an answer about remote memory waits behind a message of its owner's that has no receive, as the
 *   core's own answers do (is_stalled()). A greeting waits so behind a message to the owner, at most as long as
 *   FI_P2P_PEER_TIMEOUT says.
 * - A receiver that is asked to peek at what will not come is told of a message of no bytes.
 * - ofi_rxm keeps a long message for ever if its connection breaks; and 1.17 if it is discarded. Then nothing that is
 *   fenced begins behind it (core_keeps(); nobody discards those over that model). Nor does what such a piece is of end.
 *
 * conform/ compares the models with the cores. contrib/check runs it, and contrib/vm/check for verbs.
 */
#include "exhaust.h"

#include <getopt.h>
#include <glob.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The seeds of a run without arguments. With its sanitizer each takes a hundred times as long */
#ifdef __SANITIZE_ADDRESS__
#define SIM_FEW 3
#else
#define SIM_FEW 40
#endif

/* @digest, @cuts: struct world; @why: it has failed, numbers apart */
struct outcome {
	bool good;
	struct {
		uint64_t digest;
		uint64_t cuts;
	} told;
	char why[WORLD_WHY];
};

/* Two failures are of one kind if nothing but numbers differs */
static void without_numbers(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			*to++ = *text;
	}
	*to = 0;
}

/* Each run has a process of its own, so that none finds what another one has left. @quiet: prints nothing */
static struct outcome outcome_of(const struct script *script, bool verbose, bool quiet)
{
	struct outcome outcome = {.good = false};
	int ends[2], status;
	pid_t child;

	fflush(stdout);
	*world_why = 0;
	if (pipe(ends))
		abort();
	child = fork();
	if (!child) {
		if (quiet && !freopen("/dev/null", "w", stdout))
			abort();
		run_limit(quiet ? SIM_LIMIT / 4 : SIM_LIMIT);
		run_script(script, verbose);
		fflush(stdout);
		outcome.told.digest = world.digest;
		outcome.told.cuts = world.cuts;
		_exit(write(ends[1], &outcome.told, sizeof outcome.told) !=
		      sizeof outcome.told);
	}
	close(ends[1]);
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	outcome.good = WIFEXITED(status) && !WEXITSTATUS(status) &&
		       read(ends[0], &outcome.told, sizeof outcome.told) == sizeof outcome.told;
	close(ends[0]);
	if (WIFSIGNALED(status))
		snprintf(world_why, WORLD_WHY, "%s", strsignal(WTERMSIG(status)));
	if (WIFSIGNALED(status) && !quiet)
		printf("FAILED: %s\n", world_why);
	without_numbers(world_why);
	memcpy(outcome.why, world_why, WORLD_WHY);
	return outcome;
}

/* ---- shrinking ---- */

static bool *script_flag(struct script *script, size_t i)
{
	return i < script->op_count ? &script->ops[i].dropped
				    : &script->faults[i - script->op_count].dropped;
}

static bool fails_so(const struct script *script, const char *why)
{
	const struct outcome outcome = outcome_of(script, false, true);

	return !outcome.good && !strcmp(outcome.why, why);
}

/* Leaves out what it fails in the same way without, in pieces that get shorter */
static void shrink(struct script *script, const char *why)
{
	const size_t count = script->op_count + script->fault_count;

	for (size_t piece = count / 2; piece; piece /= 2) {
		for (size_t at = 0; at < count; at += piece) {
			struct script less = *script;
			bool any = false;

			for (size_t i = at; i < at + piece && i < count; i++) {
				any |= !*script_flag(&less, i);
				*script_flag(&less, i) = true;
			}
			if (any && fails_so(&less, why))
				*script = less;
		}
	}
}

static void fail(const struct script *script, const char *name, const char *why, bool shrinks)
{
	struct script least = *script;

	printf("%s fails\n", name);
	if (!shrinks)
		return;
	shrink(&least, why);
	printf("---- the least that fails, for --script:\n");
	script_print(&least, stdout);
	printf("---- what happens:\n");
	outcome_of(&least, false, false);
}

/* ---- the program ---- */

static void usage(FILE *to)
{
	fprintf(to,
		"Usage: p2p_sim [OPTION]... [SCRIPT]...\n"
		"Without arguments: the scripts that are kept, and a few seeds, each twice.\n"
		"Runs simulated worlds of the provider, each from a seed or a script.\n\n"
		"  --seeds FROM-TO   these seeds (1-100)\n"
		"  --seconds N       goes on with later seeds for so long\n"
		"  --model NAME      one core provider:");
	for (size_t i = 0; i < model_count; i++)
		fprintf(to, " %s", models[i].name);
	fprintf(to, "; else the seed chooses\n"
		    "  --fault NAME      all faults are of one kind, and each seed has some:");
	for (size_t i = 0; i < FAULT_KINDS; i++)
		fprintf(to, "%s%s", i % 8 ? " " : "\n                    ", fault_names[i]);
	fprintf(to, "\n"
		    "  --exhaust NAME    all orders of a small world; \"quick\", \"all\":\n");
	exhaust_list(to);
	fprintf(to,
		"  --twice           each run is done twice, and has to be the same\n"
		"  --all             goes on after a failure\n"
		"  --no-shrink       a failing run is not reduced\n"
		"  --print           prints scripts, and runs nothing\n"
		"  --verbose         tells all that happens\n"
		"  --help            this help\n\n"
		"A failing run is reduced to a script, which SCRIPT takes. Exit status: 0 when all is well.\n");
}

struct options {
	unsigned long from, to;
	unsigned int seconds;
	const struct model *model;
	enum fault_kind fault;
	const char *small;
	bool twice, all, whole, print, verbose;
};

/* Of all that ran: struct world */
static uint64_t cuts;

static bool run_one(const struct options *options, const struct script *script,
		    const char *name)
{
	struct outcome outcome;
	bool same = true;

	if (options->print) {
		script_print(script, stdout);
		return true;
	}
	outcome = outcome_of(script, options->verbose, false);
	cuts += outcome.told.cuts;
	if (outcome.good && options->twice)
		same = outcome_of(script, false, true).told.digest == outcome.told.digest;
	if (!same)
		printf("%s is not the same twice\n", name);
	if (!outcome.good)
		fail(script, name, outcome.why, !options->whole);
	return outcome.good && same;
}

/* Returns how many failed */
static unsigned long run_seeds(const struct options *options)
{
	const time_t end = time(NULL) + options->seconds;
	unsigned long seed, failed = 0;
	static struct script script;
	char name[64];

	for (seed = options->from; seed <= options->to || time(NULL) < end; seed++) {
		script_make(&script, seed, options->model, options->fault);
		snprintf(name, sizeof name, "seed %lu (%s)", seed, script.model->name);
		failed += !run_one(options, &script, name);
		if (failed && !options->all)
			break;
	}
	if (!options->print)
		printf("%lu seeds, %lu failed, %llu lanes cut amid pieces\n",
		       seed - options->from, failed, (unsigned long long) cuts);
	return failed;
}

static bool parse(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{"seeds", required_argument, NULL, 's'},
		{"seconds", required_argument, NULL, 't'},
		{"model", required_argument, NULL, 'm'},
		{"fault", required_argument, NULL, 'f'},
		{"exhaust", required_argument, NULL, 'e'},
		{"twice", no_argument, NULL, '2'},
		{"all", no_argument, NULL, 'a'},
		{"no-shrink", no_argument, NULL, 'w'},
		{"print", no_argument, NULL, 'p'},
		{"verbose", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "hv", longs, NULL)) != -1) {
		if (c == 's' && sscanf(optarg, "%lu-%lu", &options->from, &options->to) == 1)
			options->to = options->from;
		if (c == 't')
			options->seconds = (unsigned int) atoi(optarg);
		if (c == 'm' && !(options->model = model_find(optarg)))
			return false;
		if (c == 'f' && (options->fault = script_fault(optarg)) == FAULT_KINDS)
			return false;
		if (c == 'e')
			options->small = optarg;
		options->twice |= c == '2';
		options->all |= c == 'a';
		options->whole |= c == 'w';
		options->print |= c == 'p';
		options->verbose |= c == 'v';
		if (c == 'h') {
			usage(stdout);
			exit(0);
		}
		if (c == '?')
			return false;
	}
	return true;
}

static unsigned long run_scripts(const struct options *options, char *const *paths,
				 size_t count)
{
	static struct script script;
	unsigned long failed = 0;

	for (size_t i = 0; i < count; i++)
		failed +=
			!script_read(&script, paths[i]) || !run_one(options, &script, paths[i]);
	return failed;
}

/* What make check runs */
static unsigned long run_kept(void)
{
	const struct options options = {.from = 1,
					.to = SIM_FEW,
					.fault = FAULT_KINDS,
					.twice = SIM_FEW > 3,
					.all = true};
	unsigned long failed;
	glob_t found;

	if (glob(SIM_SCRIPTS "/*.sim", 0, NULL, &found)) {
		fprintf(stderr, "no scripts in " SIM_SCRIPTS "\n");
		return 1;
	}
	failed = run_scripts(&options, found.gl_pathv, found.gl_pathc) + run_seeds(&options);
	globfree(&found);
	return failed;
}

static bool run_small(const char *name)
{
	const bool quick = !strcmp(name, "quick");

	return exhaust_world(quick || !strcmp(name, "all") ? NULL : name, quick);
}

int main(int argc, char **argv)
{
	struct options options = {.from = 1, .to = 100, .fault = FAULT_KINDS};

	world_why = mmap(NULL, WORLD_WHY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	if (world_why == MAP_FAILED)
		abort();
	if (argc == 1)
		return run_kept() != 0;
	if (!parse(argc, argv, &options)) {
		usage(stderr);
		return 2;
	}
	if (options.small)
		return !run_small(options.small);
	if (optind == argc)
		return run_seeds(&options) != 0;
	return run_scripts(&options, argv + optind, (size_t) (argc - optind)) != 0;
}
