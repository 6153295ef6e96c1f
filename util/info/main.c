/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_p2p_info: options, order, exit status. See info.h. */
#include "check.h"
#include "info.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "config.h"

/* Exit status */
enum { MAIN_WORKS, MAIN_DOES_NOT, MAIN_USAGE };

static const char main_help[] =
	"Usage: fi_p2p_info [option...]\n"
	"Tells which way messages from GPU memory would take on this machine, and why.\n"
	"\n"
	"  -p PROVIDER    only this one: \"tcp;ofi_rxm;ofi_p2p\"; or a core provider, \"tcp\",\n"
	"                 for ours over it; with FI_HOOK=p2p, for itself below the hook\n"
	"  --check HOST[:PORT]  meet fi_p2p_info --serve on another host, and print what happens\n"
	"                 between the two: providers, paths, lanes\n"
	"  --serve [PORT] wait for one --check (port " INFO_CHECK_PORT ")\n"
	"  --waiting PID  print what ofi_p2p in that process of this host waits for\n"
	"  --json         print everything as JSON\n"
	"  --root DIR     read DIR/sys and DIR/proc instead of /sys and /proc (for tests)\n"
	"  --version      print the version\n"
	"  -h, --help     print this summary\n"
	"\n"
	"Exit status: 0 when every GPU has a path that works, 1 when one has none or no\n"
	"provider of ours is offered, 2 for a wrong command line. With --check and --serve: 0\n"
	"when messages went both ways. With --waiting: 0 when the process has answered.\n";

static const struct option main_options[] = {
	{"check", required_argument, NULL, 'c'},   {"serve", no_argument, NULL, 's'},
	{"waiting", required_argument, NULL, 'w'}, {"json", no_argument, NULL, 'j'},
	{"root", required_argument, NULL, 'r'},    {"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
};

static int main_usage(const char *problem)
{
	if (problem)
		fprintf(stderr, "fi_p2p_info: %s\n", problem);
	fprintf(stderr, "fi_p2p_info: -h lists the options\n");
	return MAIN_USAGE;
}

struct main_wish {
	const char *provider, *check, *serve, *waiting;
	bool json;
};

/* Returns -1, or the exit status of a program that has no more to do */
static int main_options_read(int argc, char **argv, struct main_wish *wish)
{
	const char *wrong;
	int option;

	while ((option = getopt_long(argc, argv, "p:h", main_options, NULL)) != -1) {
		switch (option) {
		case 'p':
			wish->provider = optarg;
			break;
		case 'c':
			wish->check = optarg;
			break;
		case 's':
			wish->serve = INFO_CHECK_PORT;
			break;
		case 'w':
			wish->waiting = optarg;
			break;
		case 'j':
			wish->json = true;
			break;
		case 'r':
			info_root_set(optarg);
			break;
		case 'V':
			puts("fi_p2p_info " PACKAGE_VERSION);
			return MAIN_WORKS;
		case 'h':
			fputs(main_help, stdout);
			return MAIN_WORKS;
		default:
			return main_usage(NULL);
		}
	}
	if (wish->serve && optind < argc)
		wish->serve = argv[optind++];
	if (optind < argc)
		return main_usage(info_text("%s: no arguments are expected", argv[optind]));
	if (wish->json && !HAVE_JSON_C)
		return main_usage("--json: built without json-c");
	if ((wish->check || wish->serve) && wish->json)
		return main_usage("--json: not with --check or --serve");
	if (wish->serve && (wish->check || wish->provider))
		return main_usage("--serve: the other host chooses");
	if (wish->waiting && (wish->check || wish->serve || wish->provider || wish->json))
		return main_usage("--waiting: alone, the process is asked");
	if (wish->waiting && (wish->waiting[strspn(wish->waiting, "0123456789")] ||
			      strtol(wish->waiting, NULL, 10) <= 0))
		return main_usage(info_text("--waiting: '%s' is no process", wish->waiting));
	wrong = wish->serve   ? check_link_wrong_port(wish->serve)
		: wish->check ? check_link_wrong_host(wish->check)
			      : NULL;
	if (wrong)
		return main_usage(
			info_text("--%s: %s", wish->serve ? "serve" : "check", wrong));
	return -1;
}

static bool main_print(struct info *info, const struct main_wish *wish, int ret)
{
	if (wish->check)
		return info_check(info, wish->check, wish->provider);
	if (wish->serve)
		return info_serve(info, wish->serve);
	if (wish->json)
		info_print_json(info);
	else
		info_print_table(info);
	if (ret)
		fprintf(stderr, "fi_p2p_info: fi_getinfo: %s: no endpoints of %s%s\n",
			fi_strerror(-ret), wish->provider ? wish->provider : "ofi_p2p",
			wish->provider && !info->library.hooked ? ", nor over it" : "");
	return info_works(info);
}

int main(int argc, char **argv)
{
	struct main_wish wish = {NULL};
	static struct info info;
	bool works;
	int ret = main_options_read(argc, argv, &wish);

	if (ret >= 0)
		return ret;
	if (wish.waiting)
		return info_waiting(wish.waiting) ? MAIN_WORKS : MAIN_DOES_NOT;
	info_library(&info.library);
	info_settings(&info);
	if (wish.provider)
		info_settings_order(&info, wish.provider);
	info_system(&info.system);
	info_gpus_cuda(&info);
	info_gpus_rocr(&info);
	info_gpus_pci(&info);
	info_nics(&info);
	info_ways(&info);
	ret = info_paths(&info, wish.provider);
	if (ret)
		info_stacks(&info, wish.provider);
	if (!wish.provider && !info.library.restricted)
		info_stacks_room(&info);
	info_costs(&info);
	/* two hosts are another matter, if only there is a provider */
	if (!info.library.layered || (!wish.check && !wish.serve))
		info_advise(&info);
	works = main_print(&info, &wish, ret);
	if (fflush(stdout) || ferror(stdout)) {
		perror("fi_p2p_info: stdout");
		return MAIN_DOES_NOT;
	}
	return works ? MAIN_WORKS : MAIN_DOES_NOT;
}
