/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The command line. One table holds every option: its letter, the programs that know it, its
 * help and what it does. Letters are those of libfabric's fabtests.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_ext_p2p.h>

#include "config.h"
#include "ft.h"

#define EXIT_USAGE 2
#define OOB_PORT "3000" /* the default of libfabric's fabtests, too */

enum {
	OPT_NO_HMEM = 256,
	OPT_ONE_BUFFER,
	OPT_INIT_DEVICE,
	OPT_TIMEOUT,
	OPT_SEED,
	OPT_API,
	OPT_SECONDS,
	OPT_FIRST,
	OPT_ROUNDS,
	OPT_OPS,
	OPT_FATE,
	OPT_EXPECT_PATH,
	OPT_EXPECT_REASON,
	OPT_FLOOR,
	OPT_JSON,
	OPT_REMOTE,
	OPT_AUTO,
	OPT_EXPECT_GDRCOPY,
	OPT_FLAT,
	OPT_BURSTS,
	OPT_RANKS,
	OPT_VERSION,
};

struct option_row {
	int letter;
	const char *long_name;
	int has_arg; /* no_argument and so on, of getopt */
	unsigned int scope;
	const char *arg; /* as the help shows it */
	const char *help;
};

static const struct option_row rows[] = {
	{'p', NULL, required_argument, FT_SCOPE_ANY, " PROVIDER",
	 "provider name, e.g. \"tcp;ofi_rxm;ofi_p2p\""},
	{'f', NULL, required_argument, FT_SCOPE_ANY, " FABRIC", "fabric name"},
	{'d', NULL, required_argument, FT_SCOPE_ANY, " DOMAIN", "domain name"},
	{'e', NULL, required_argument, FT_SCOPE_BENCH | FT_SCOPE_TEST, " TYPE",
	 "endpoint type: rdm, or msg for connected ones (rdm)"},
	{'s', NULL, required_argument, FT_SCOPE_ANY, " ADDRESS", "source address"},
	{'B', NULL, required_argument, FT_SCOPE_BENCH, " PORT", "source port (server: 9228)"},
	{'P', NULL, required_argument, FT_SCOPE_BENCH, " PORT", "destination port (9228)"},
	{'E', NULL, optional_argument, FT_SCOPE_BENCH, "[=PORT]",
	 "exchange endpoint names over a TCP socket (" OOB_PORT ")"},
	{'b', NULL, optional_argument, FT_SCOPE_PAIR, "[=PORT]",
	 "as -E, and synchronise over that socket too"},
	{'S', NULL, required_argument, FT_SCOPE_PAIR | FT_SCOPE_SIZES | FT_SCOPE_SCALE, " SIZE",
	 "message sizes: SIZE,..., \"all\", or r:START,STEP,END"},
	{'I', NULL, required_argument, FT_SCOPE_BENCH, " NUMBER",
	 "iterations (default: by size)"},
	{'w', NULL, required_argument, FT_SCOPE_BENCH, " NUMBER", "warmup iterations (10)"},
	{'W', NULL, required_argument, FT_SCOPE_BW | FT_SCOPE_OVERHEAD | FT_SCOPE_SUITE,
	 " NUMBER", "messages per window (64), each with its own buffer"},
	{'o', NULL, required_argument, FT_SCOPE_PAIR, " KIND",
	 "kind of messages: tagged or msg (tagged; with -e msg: msg)"},
	{'t', NULL, required_argument, FT_SCOPE_BENCH, " KIND", "same as -o"},
	{'c', NULL, required_argument, FT_SCOPE_PAIR, " METHOD",
	 "wait for completions by spin, yield, sread or fd "
	 "(spin, which yields after 100 us; on a single processor, yield)"},
	{'j', NULL, required_argument, FT_SCOPE_BENCH, " SIZE",
	 "inject messages up to this size (default: the provider's)"},
	{'U', NULL, no_argument, FT_SCOPE_BENCH, "", "ask for FI_DELIVERY_COMPLETE"},
	{'v', NULL, no_argument, FT_SCOPE_BENCH, "", "verify every byte that arrives"},
	{'m', NULL, no_argument, FT_SCOPE_BENCH, "", "machine readable output"},
	{'D', NULL, required_argument, FT_SCOPE_ALL, " MEMORY",
	 "memory of the buffers: cuda, rocr or system (system)"},
	{'i', NULL, required_argument, FT_SCOPE_ALL, " NUMBER", "GPU (0)"},
	{OPT_ONE_BUFFER, "one-buffer", no_argument, FT_SCOPE_BW, "",
	 "one buffer for all messages of a window (not with -v): it stays in the CPU's cache"},
	{OPT_INIT_DEVICE, "init-device", required_argument, FT_SCOPE_PAIR, " MEMORY",
	 "initialise the GPU as if it were -D MEMORY, whatever -D says"},
	{OPT_EXPECT_PATH, "expect-path", required_argument, FT_SCOPE_BENCH, " PATH",
	 "fail if device memory travelled otherwise: stage, ipc or peer"},
	{OPT_EXPECT_REASON, "expect-reason", required_argument, FT_SCOPE_BENCH, " TEXT",
	 "fail if that path's reason does not have this in it"},
	{OPT_NO_HMEM, "no-hmem", no_argument, FT_SCOPE_ANY, "",
	 "do not ask for FI_HMEM for device memory (default with FI_HOOK=p2p)"},
	{OPT_API, "api", required_argument, FT_SCOPE_ANY, " MAJOR.MINOR",
	 "libfabric API version to ask for (1.17)"},
	{OPT_TIMEOUT, "timeout", required_argument, FT_SCOPE_ALL, " SECONDS",
	 "give up after so long without progress (FT_TIMEOUT, else 60; 15 without a server)"},
	{'q', NULL, no_argument, FT_SCOPE_TEST | FT_SCOPE_MPI, "", "quick: fewer combinations"},
	{OPT_SECONDS, "seconds", required_argument,
	 FT_SCOPE_STRESS | FT_SCOPE_SUITE | FT_SCOPE_LOAD, " NUMBER",
	 "how long to go on (10, or as long as --rounds takes)"},
	{OPT_FIRST, "first", required_argument, FT_SCOPE_STRESS, " NUMBER",
	 "the round to begin with (0)"},
	{OPT_ROUNDS, "rounds", required_argument,
	 FT_SCOPE_STRESS | FT_SCOPE_OVERHEAD | FT_SCOPE_SUITE | FT_SCOPE_ROUNDS |
		 FT_SCOPE_LOAD | FT_SCOPE_SCALE,
	 " NUMBER", "end after so many rounds"},
	{OPT_OPS, "ops", required_argument,
	 FT_SCOPE_STRESS | FT_SCOPE_FAULTS | FT_SCOPE_KILL | FT_SCOPE_SUITE | FT_SCOPE_SCALE,
	 " LIST", "operations to choose from, with commas (all that the provider offers)"},
	{OPT_FATE, "fate", required_argument, FT_SCOPE_KILL, " LIST",
	 "what becomes of a peer, with commas: kill, stop, pause, late (all)"},
	{OPT_SEED, "seed", required_argument,
	 FT_SCOPE_TEST | FT_SCOPE_MPI | FT_SCOPE_STRESS | FT_SCOPE_OVERHEAD | FT_SCOPE_SUITE,
	 " NUMBER", "seed of the random choices (default: the time)"},
	{OPT_FLOOR, "floor", required_argument, FT_SCOPE_SUITE, " KIND",
	 "also what the GPU's own copies take: to and from the host (copy), or from GPU to GPU "
	 "(peer)"},
	{OPT_REMOTE, "remote", no_argument, FT_SCOPE_SUITE | FT_SCOPE_BENCH, "",
	 "measure operations on the server's memory, not messages"},
	{OPT_AUTO, "auto", no_argument, FT_SCOPE_TEST | FT_SCOPE_STRESS, "",
	 "ask for automatic progress; skipped where the core provider has none"},
	{OPT_EXPECT_GDRCOPY, "expect-gdrcopy", no_argument, FT_SCOPE_TEST | FT_SCOPE_STRESS, "",
	 "fail if no device memory was copied by way of gdrcopy (on the emulator)"},
	{OPT_FLAT, "flat", no_argument, FT_SCOPE_STRESS | FT_SCOPE_LOAD, "",
	 "fail if memory, descriptors or mappings grow after half of --seconds"},
	{OPT_BURSTS, "bursts", required_argument, FT_SCOPE_LOAD, " NUMBER",
	 "bursts of short messages with each peer, both ways, in a round (16)"},
	{OPT_RANKS, "ranks", required_argument, FT_SCOPE_RANKS | FT_SCOPE_SCALE, " NUMBER",
	 "how many ranks (one number after another)"},
	{OPT_JSON, "json", no_argument, FT_SCOPE_SUITE | FT_SCOPE_BENCH, "",
	 "one JSON object a line"},
	{OPT_VERSION, "version", no_argument, FT_SCOPE_ALL, "", "print the version"},
	{'h', "help", no_argument, FT_SCOPE_ALL, "", "this help"},
};

static void __attribute__((format(printf, 1, 2), noreturn)) usage_error(const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ft_err("%s (-h lists the options)", text);
	exit(EXIT_USAGE);
}

static const char *program_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void print_help(const char *prog, const char *purpose, unsigned int scope)
{
	prog = program_name(prog);
	if (!(scope & FT_SCOPE_PAIR))
		printf("Usage: %s [OPTIONS]\n", prog);
	else
		printf("Usage: %s [OPTIONS]          start the server\n"
		       "       %s [OPTIONS] SERVER   connect to it\n",
		       prog, prog);
	printf("\n%s\n\nOptions:\n", purpose);
	for (size_t i = 0; i < FT_COUNT(rows); i++) {
		char left[64], letter[4] = "";

		if (!(rows[i].scope & scope))
			continue;
		if (rows[i].letter < OPT_NO_HMEM)
			snprintf(letter, sizeof(letter), "-%c", rows[i].letter);
		snprintf(left, sizeof(left), "%s%s%s%s%s", letter,
			 *letter && rows[i].long_name ? ", " : "",
			 rows[i].long_name ? "--" : "",
			 rows[i].long_name ? rows[i].long_name : "", rows[i].arg);
		printf("  %-22s %s\n", left, rows[i].help);
	}
	if (!(scope & FT_SCOPE_PAIR))
		printf("\nWithout -p the provider is that of FT_PROVIDER, else of "
		       "FI_PROVIDER, in the environment.\n"
		       "Exit status: 0 passed, 77 skipped, else failed.\n");
}

static const char *option_name(int letter)
{
	static char name[3] = "-";

	for (size_t i = 0; i < FT_COUNT(rows); i++)
		if (rows[i].letter == letter && letter >= OPT_NO_HMEM)
			return rows[i].long_name;
	name[1] = (char) letter;
	return name;
}

static uint64_t number(const char *text, int letter, uint64_t min, uint64_t max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end || !isdigit((unsigned char) *text) || value < min ||
	    value > max)
		usage_error("option %s: '%s' is not a number from %llu to %llu",
			    option_name(letter), text, (unsigned long long) min,
			    (unsigned long long) max);
	return value;
}

static int choice(const char *text, int letter, const char *const *names, int count)
{
	for (int i = 0; i < count; i++)
		if (!strcasecmp(text, names[i]))
			return i;
	usage_error("option %s: '%s' is not known", option_name(letter), text);
}

static void add_size(struct ft_opts *opts, size_t size)
{
	size_t *sizes = realloc(opts->sizes, (opts->size_count + 1) * sizeof(*sizes));

	if (!sizes)
		usage_error("option -S: out of memory");
	opts->sizes = sizes;
	opts->sizes[opts->size_count++] = size;
}

static void parse_sizes(struct ft_opts *opts, const char *text)
{
	unsigned long long start, step, end;
	char rest;

	opts->size_count = 0;
	if (!strcasecmp(text, "all")) {
		/* powers of two and the steps half way between them, up to 8 MiB */
		for (size_t size = 1; size <= 1 << 23; size *= 2) {
			add_size(opts, size);
			if (size > 1 && size < 1 << 23)
				add_size(opts, size + size / 2);
		}
	} else if (!strncmp(text, "r:", 2)) {
		if (sscanf(text, "r:%llu,%llu,%llu%c", &start, &step, &end, &rest) != 3 ||
		    !step || start > end || (end - start) / step > 100000)
			usage_error("option -S: '%s' is not r:START,STEP,END", text);
		for (; start <= end; start += step)
			add_size(opts, start);
	} else {
		for (const char *comma; (comma = strchr(text, ',')); text = comma + 1) {
			char one[32];

			snprintf(one, sizeof(one), "%.*s", (int) (comma - text), text);
			add_size(opts, number(one, 'S', 0, SIZE_MAX / 2));
		}
		add_size(opts, number(text, 'S', 0, SIZE_MAX / 2));
	}
}

/* A port of TCP, as its text */
static const char *port(const char *text, int letter)
{
	number(text, letter, 1, 65535);
	return text;
}

static void parse_oob(struct ft_opts *opts, int letter, const char *arg)
{
	opts->oob_addr = true;
	opts->oob_port = OOB_PORT;
	if (arg && *arg == '=')
		arg++;
	if (arg && *arg)
		opts->oob_port = port(arg, letter);
}

static void parse_api(struct ft_opts *opts, const char *text)
{
	unsigned int major, minor;
	char rest;

	if (sscanf(text, "%u.%u%c", &major, &minor, &rest) != 2 || major > 255 || minor > 255)
		usage_error("option --api: '%s' is not MAJOR.MINOR", text);
	opts->api_version = FI_VERSION(major, minor);
}

static enum fi_hmem_iface memory(const char *text, int letter)
{
	static const char *const names[] = {"system", "cuda", "rocr"};
	static const enum fi_hmem_iface ifaces[] = {FI_HMEM_SYSTEM, FI_HMEM_CUDA, FI_HMEM_ROCR};

	return ifaces[choice(text, letter, names, FT_COUNT(names))];
}

/* Applies an option about the peer and the way to it. False: it is no such option. */
static bool apply_peer(struct ft_opts *opts, int letter, const char *arg)
{
	static const char *const types[] = {"rdm", "msg"};
	static const char *const waits[] = {"spin", "yield", "sread", "fd"};

	switch (letter) {
	case 'p':
		opts->prov = arg;
		break;
	case 'f':
		opts->fabric = arg;
		break;
	case 'd':
		opts->domain = arg;
		break;
	case 'e':
		opts->ep_type =
			choice(arg, letter, types, FT_COUNT(types)) ? FI_EP_MSG : FI_EP_RDM;
		break;
	case 's':
		opts->src_addr = arg;
		break;
	case 'B':
		opts->src_port = port(arg, letter);
		break;
	case 'P':
		opts->dst_port = port(arg, letter);
		break;
	case 'b':
		opts->oob_sync = true;
		parse_oob(opts, letter, arg);
		break;
	case 'E':
		parse_oob(opts, letter, arg);
		break;
	case 'c':
		opts->wait = (enum ft_wait) choice(arg, letter, waits, FT_COUNT(waits));
		break;
	case OPT_API:
		parse_api(opts, arg);
		break;
	case OPT_TIMEOUT:
		opts->timeout = opts->patience = (long) number(arg, letter, 1, 86400);
		break;
	case OPT_AUTO:
		opts->automatic = true;
		break;
	default:
		return false;
	}
	return true;
}

/* Applies an option about what is sent, from which memory, and what is printed of it */
static bool apply_message(struct ft_opts *opts, int letter, const char *arg)
{
	static const char *const kinds[] = {"tagged", "msg"};

	switch (letter) {
	case 'S':
		parse_sizes(opts, arg);
		break;
	case 'I':
		opts->iterations = (long) number(arg, letter, 1, INT_MAX);
		break;
	case 'w':
		opts->warmup = (long) number(arg, letter, 0, INT_MAX);
		break;
	case 'W':
		opts->window = (long) number(arg, letter, 1, 65536);
		break;
	case 'o':
	case 't':
		opts->tagged = choice(arg, letter, kinds, FT_COUNT(kinds)) == 0;
		opts->kind_given = true;
		break;
	case 'j':
		opts->inject_size = (long) number(arg, letter, 0, LONG_MAX);
		break;
	case 'U':
		opts->delivery_complete = true;
		break;
	case 'v':
		opts->verify = true;
		break;
	case 'm':
		opts->machine_readable = true;
		break;
	case 'D':
		opts->iface = memory(arg, letter);
		break;
	case 'i':
		opts->device = (int) number(arg, letter, 0, INT_MAX);
		break;
	case OPT_INIT_DEVICE:
		opts->init_iface = memory(arg, letter);
		break;
	case OPT_NO_HMEM:
		opts->no_hmem = true;
		break;
	case OPT_ONE_BUFFER:
		opts->one_buffer = true;
		break;
	default:
		return false;
	}
	return true;
}

/* Applies an option that only tests have */
static void apply_test(struct ft_opts *opts, int letter, const char *arg)
{
	static const char *const paths[] = {"stage", "ipc", "peer"};
	static const char *const floors[] = {"none", "copy", "peer"};

	switch (letter) {
	case 'q':
		opts->quick = true;
		break;
	case OPT_SEED:
		opts->seed = number(arg, letter, 0, UINT64_MAX);
		break;
	case OPT_SECONDS:
		opts->seconds = (long) number(arg, letter, 1, 1000000);
		break;
	case OPT_FIRST:
		opts->first = number(arg, letter, 0, INT64_MAX);
		break;
	case OPT_ROUNDS:
		opts->rounds = number(arg, letter, 1, INT64_MAX);
		break;
	case OPT_EXPECT_PATH:
		opts->expect_path =
			FI_P2P_PATH_STAGE + choice(arg, letter, paths, FT_COUNT(paths));
		break;
	case OPT_EXPECT_REASON:
		opts->expect_reason = arg;
		break;
	case OPT_FLOOR:
		opts->floor = (enum ft_floor) choice(arg, letter, floors, FT_COUNT(floors));
		break;
	case OPT_FLAT:
		opts->flat = true;
		break;
	case OPT_RANKS:
		opts->ranks = (int) number(arg, letter, 2, FT_MAX_RANKS);
		break;
	case OPT_BURSTS:
		opts->bursts = number(arg, letter, 0, 1000000);
		break;
	case OPT_JSON:
		opts->json = true;
		break;
	case OPT_REMOTE:
		opts->remote = true;
		break;
	case OPT_EXPECT_GDRCOPY:
		opts->expect_gdrcopy = true;
		break;
	case OPT_OPS:
		opts->ops = arg;
		break;
	case OPT_FATE:
		opts->fate = arg;
		break;
	}
}

static void apply(struct ft_opts *opts, int letter, const char *arg)
{
	if (!apply_peer(opts, letter, arg) && !apply_message(opts, letter, arg))
		apply_test(opts, letter, arg);
}

/* Makes getopt's two descriptions of the same options */
static void describe(unsigned int scope, char *letters, struct option *longs)
{
	for (size_t i = 0; i < FT_COUNT(rows); i++) {
		if (!(rows[i].scope & scope))
			continue;
		if (rows[i].letter < OPT_NO_HMEM) {
			*letters++ = (char) rows[i].letter;
			for (int c = 0; c < rows[i].has_arg; c++)
				*letters++ = ':';
		}
		if (rows[i].long_name)
			*longs++ = (struct option){rows[i].long_name, rows[i].has_arg, NULL,
						   rows[i].letter};
	}
	*letters = '\0';
	*longs = (struct option){0};
}

bool ft_hook_active(void)
{
	const char *hooks = getenv("FI_HOOK");

	return hooks && strstr(hooks, "p2p");
}

bool ft_has_ours(const struct ft_opts *opts)
{
	return ft_hook_active() || (opts->prov && strstr(opts->prov, "ofi_p2p"));
}

bool ft_is_listed(const char *list, const char *name)
{
	const size_t len = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, len) && (!at[len] || at[len] == ','))
			return true;
	}
	return !list;
}

void ft_options_parse(struct ft_opts *opts, unsigned int scope, const char *purpose, int argc,
		      char **argv)
{
	char letters[3 * FT_COUNT(rows) + 1];
	struct option longs[FT_COUNT(rows) + 1];
	const char *timeout = getenv("FT_TIMEOUT");
	int letter;

	*opts = (struct ft_opts){
		.argc = argc,
		.argv = argv,
		.ep_type = FI_EP_RDM,
		.iface = FI_HMEM_SYSTEM,
		.init_iface = FI_HMEM_SYSTEM,
		.api_version = FI_VERSION(1, 17),
		.tagged = true,
		.warmup = 10,
		.window = 64,
		.inject_size = -1,
		.timeout = 60,
		.patience = 15,
		.expect_path = -1,
		.bursts = 16,
		.seed = (uint64_t) time(NULL),
		.no_hmem = ft_hook_active(),
		/* on a lone processor, a spinning process would keep its peers from running */
		.wait = sysconf(_SC_NPROCESSORS_ONLN) == 1 ? FT_WAIT_YIELD : FT_WAIT_SPIN,
	};
	ft_prefix_set(argv[0], -1);
	if (timeout)
		apply(opts, OPT_TIMEOUT, timeout);
	describe(scope, letters, longs);
	while ((letter = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (letter == '?')
			usage_error("bad command line");
		if (letter == 'h') {
			print_help(argv[0], purpose, scope);
			exit(EXIT_SUCCESS);
		}
		if (letter == OPT_VERSION) {
			printf("%s " PACKAGE_VERSION "\n", program_name(argv[0]));
			exit(EXIT_SUCCESS);
		}
		apply(opts, letter, optarg);
	}
	/* few providers have tags over connections */
	opts->tagged &= opts->kind_given || opts->ep_type == FI_EP_RDM;
	if (opts->init_iface == FI_HMEM_SYSTEM)
		opts->init_iface = opts->iface;
	if (optind < argc && (scope & FT_SCOPE_PAIR))
		opts->dst_addr = argv[optind++];
	if (optind < argc)
		usage_error("unexpected argument '%s'", argv[optind]);
	if (!(scope & FT_SCOPE_PAIR) && !opts->prov) {
		opts->prov = getenv("FT_PROVIDER");
		if (!opts->prov)
			opts->prov = getenv("FI_PROVIDER");
	}
}
