/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * p2p_sim: a world that is simulated, in one thread, in virtual time. A seed decides everything, and a run is the same
 * to the byte each time.
 *
 * Simulated: 2 to 5 processes with the unchanged provider from fid/ down, each with a domain, an address vector, a
 * queue, an endpoint, its side endpoint, and a host of its own. The application above calls libfabric's functions only,
 * and so does the provider below. base/clock, base/random, xfer/keepalive, xfer/gone and dev/dev are replaced when the
 * program is linked (world.c, gpu.c). The core provider is a table of properties (core_models.c) and what moves by them
 * (core_wire.c): connections that need the peer's progress, stalls, when "sent" is said, -FI_EAGAIN, order, limits.
 * Messages of all lengths travel, and reads and writes, between host and device memory; and the faults of sim.h happen.
 *
 * The rules are the functions of check.c. After the faults there is peace: everything has to end, all that live have to
 * understand each other again, everything has to come back, and all is closed.
 *
 * A script is what is to happen: the seed makes it, or a file has it. A run that fails is reduced to the fewest
 * operations and faults. Where that was a defect, the script stays in scripts/, as each change of the code gives seeds
 * another meaning.
 *
 * Not simulated yet: processes of one host (boards, ipc); lanes, the thread of automatic progress, proxies, and threads
 * at all; NICs that reach device memory; several endpoints, queues and domains; address vectors that change;
 * multi-receive, peeks and claims of the application; atomic operations; untagged and directed messages, remote cq
 * data; triggers, streams, kernels; the hook. A broken connection loses nothing that was said to be sent, and an
 * endpoint is closed once, at the end. Nobody lies.
 *
 * Known, and left out of the rules: nothing ends what waits for a process that has died before it answered its first
 * datagram, where the core says nothing either, and no other process has its address. Over net and tcp, where a greeting
 * and the one that repeats it are lost, remote memory is waited for.
 *
 * What comes next (in this order): endpoints and peers that come and go; peeks, multi-receive, cq data and atomics; a
 * program that compares the models with the cores; processes of one host; threads as steps; liars; defects put back as
 * patches; all orders of small worlds.
 */
#include "sim.h"

#include <getopt.h>
#include <glob.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Runs that take longer [s] hang */
#define SIM_LIMIT 20

struct outcome {
	bool good;
	uint64_t digest;
};

/* Each run has a process of its own, as the provider's variables are a process's. @quiet: prints nothing */
static struct outcome outcome_of(const struct script *script, bool verbose, bool quiet)
{
	struct outcome outcome = {.good = false};
	int ends[2], status;
	pid_t child;

	fflush(stdout);
	if (pipe(ends))
		abort();
	child = fork();
	if (!child) {
		if (quiet && !freopen("/dev/null", "w", stdout))
			abort();
		alarm(SIM_LIMIT);
		run_script(script, verbose);
		fflush(stdout);
		_exit(write(ends[1], &world.digest, sizeof world.digest) !=
		      sizeof world.digest);
	}
	close(ends[1]);
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	outcome.good =
		WIFEXITED(status) && !WEXITSTATUS(status) &&
		read(ends[0], &outcome.digest, sizeof outcome.digest) == sizeof outcome.digest;
	close(ends[0]);
	if (WIFSIGNALED(status) && !quiet)
		printf("FAILED: %s\n", strsignal(WTERMSIG(status)));
	return outcome;
}

/* ---- shrinking ---- */

static bool *script_flag(struct script *script, size_t i)
{
	return i < script->op_count ? &script->ops[i].dropped
				    : &script->faults[i - script->op_count].dropped;
}

/* Leaves out what it fails without, in pieces that get shorter */
static void shrink(struct script *script)
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
			if (any && !outcome_of(&less, false, true).good)
				*script = less;
		}
	}
}

static void fail(const struct script *script, const char *name, bool shrinks)
{
	struct script least = *script;

	printf("%s fails\n", name);
	if (!shrinks)
		return;
	shrink(&least);
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
	fprintf(to,
		"; else the seed chooses\n"
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
	bool twice, all, whole, print, verbose;
};

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
	if (outcome.good && options->twice)
		same = outcome_of(script, false, true).digest == outcome.digest;
	if (!same)
		printf("%s is not the same twice\n", name);
	if (!outcome.good)
		fail(script, name, !options->whole);
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
		script_make(&script, seed, options->model);
		snprintf(name, sizeof name, "seed %lu (%s)", seed, script.model->name);
		failed += !run_one(options, &script, name);
		if (failed && !options->all)
			break;
	}
	if (!options->print)
		printf("%lu seeds, %lu failed\n", seed - options->from, failed);
	return failed;
}

static bool parse(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{"seeds", required_argument, NULL, 's'},
		{"seconds", required_argument, NULL, 't'},
		{"model", required_argument, NULL, 'm'},
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
	const struct options options = {.from = 1, .to = 40, .twice = true, .all = true};
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

int main(int argc, char **argv)
{
	struct options options = {.from = 1, .to = 100};

	if (argc == 1)
		return run_kept() != 0;
	if (!parse(argc, argv, &options)) {
		usage(stderr);
		return 2;
	}
	if (optind == argc)
		return run_seeds(&options) != 0;
	return run_scripts(&options, argv + optind, (size_t) (argc - optind)) != 0;
}
