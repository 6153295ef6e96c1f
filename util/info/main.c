/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_p2p_info: options, order, exit status. See info.h. */
#include "info.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
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
	"  --json         print everything as JSON\n"
	"  --root DIR     read DIR/sys and DIR/proc instead of /sys and /proc (for tests)\n"
	"  --version      print the version\n"
	"  -h, --help     print this summary\n"
	"\n"
	"Exit status: 0 when every GPU has a path that works, 1 when one has none or no\n"
	"provider of ours is offered, 2 for a wrong command line.\n";

static const struct option main_options[] = {
	{"json", no_argument, NULL, 'j'},
	{"root", required_argument, NULL, 'r'},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int main_usage(const char *problem)
{
	if (problem)
		fprintf(stderr, "fi_p2p_info: %s\n", problem);
	fprintf(stderr, "fi_p2p_info: -h lists the options\n");
	return MAIN_USAGE;
}

int main(int argc, char **argv)
{
	static struct info info;
	const char *provider = NULL;
	bool json = false;
	int option, ret;

	while ((option = getopt_long(argc, argv, "p:h", main_options, NULL)) != -1) {
		switch (option) {
		case 'p':
			provider = optarg;
			break;
		case 'j':
			json = true;
			break;
		case 'r':
			info_root_set(optarg);
			break;
		case 'V':
			printf("fi_p2p_info %d.%d\n", P2P_VERSION_MAJOR, P2P_VERSION_MINOR);
			return MAIN_WORKS;
		case 'h':
			fputs(main_help, stdout);
			return MAIN_WORKS;
		default:
			return main_usage(NULL);
		}
	}
	if (optind < argc)
		return main_usage(info_text("%s: no arguments are expected", argv[optind]));
	if (json && !HAVE_JSON_C)
		return main_usage("--json: built without json-c");

	info_library(&info.library);
	info_settings(&info);
	if (provider)
		info_settings_order(&info, provider);
	info_system(&info.system);
	info_gpus_cuda(&info);
	info_gpus_rocr(&info);
	info_gpus_pci(&info);
	info_nics(&info);
	info_ways(&info);
	ret = info_paths(&info, provider);
	if (ret && provider)
		info_settings_provider(&info, provider);
	info_advise(&info);
	if (json)
		info_print_json(&info);
	else
		info_print_table(&info);
	if (ret)
		fprintf(stderr, "fi_p2p_info: fi_getinfo: %s: no endpoints of %s%s\n",
			fi_strerror(-ret), provider ? provider : "ofi_p2p",
			provider && !info.library.hooked ? ", nor over it" : "");
	if (fflush(stdout) || ferror(stdout)) {
		perror("fi_p2p_info: stdout");
		return MAIN_DOES_NOT;
	}
	return info_works(&info) ? MAIN_WORKS : MAIN_DOES_NOT;
}
