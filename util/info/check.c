/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* --check and --serve: what each side says, and what both print. See check.h. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "xfer/wire.h"

/* What a host says of itself. Each member is a line, with that word before it. */
struct check_host {
	const char *host, *boot, *program, *libfabric, *provider, *wire, *gpu, *only, *offers;
};

static const struct {
	const char *word;
	size_t at;
} check_lines[] = {
	{"host", offsetof(struct check_host, host)},
	{"boot", offsetof(struct check_host, boot)},
	{"program", offsetof(struct check_host, program)},
	{"libfabric", offsetof(struct check_host, libfabric)},
	{"provider", offsetof(struct check_host, provider)},
	{"wire", offsetof(struct check_host, wire)},
	{"gpu", offsetof(struct check_host, gpu)},
	{"only", offsetof(struct check_host, only)},
	{"offers", offsetof(struct check_host, offers)},
};

static const char **check_line(struct check_host *host, size_t i)
{
	return (const char **) ((char *) host + check_lines[i].at);
}

static const char *check_provider(const struct info *info)
{
	for (size_t i = 0; i < info->library.provider_count; i++) {
		const struct info_provider *each = &info->library.providers[i];

		if (info->library.layered && !strcmp(each->name, "ofi_p2p"))
			return info_text("%u.%u", FI_MAJOR(each->version),
					 FI_MINOR(each->version));
	}
	return "";
}

static void check_describe(struct check_host *host, const struct info *info)
{
	char name[256] = "";

	gethostname(name, sizeof name - 1);
	host->host = info_text("%s", name);
	host->boot = info_file_line("/proc/sys/kernel/random/boot_id");
	host->program = info_text("%d.%d", P2P_VERSION_MAJOR, P2P_VERSION_MINOR);
	host->libfabric = info->library.release;
	host->provider = check_provider(info);
	host->wire = info_text("%d %d", WIRE_VERSION_OLDEST, WIRE_VERSION);
	host->only = info->library.restricted;
	host->gpu = "";
	for (size_t i = 0; i < info->gpu_count && !*host->gpu; i++) {
		if (info->gpus[i].buffer && info_gpu_works(info, i))
			host->gpu = info->gpus[i].name ? info->gpus[i].name : "a GPU";
	}
	host->offers = "";
	for (size_t i = 0; i < info->offer_count; i++) {
		if (!info->offers[i].error)
			host->offers =
				info_text("%s %s ", host->offers, info->offers[i].provider);
	}
}

static const char *check_meet(struct check_link *link, struct check_host *here,
			      struct check_host *there)
{
	for (size_t i = 0; i < INFO_COUNT(check_lines); i++)
		check_link_say(link, check_lines[i].word, *check_line(here, i));
	for (size_t i = 0; i < INFO_COUNT(check_lines); i++) {
		*check_line(there, i) = check_link_hear(link, check_lines[i].word);
		if (!*check_line(there, i))
			return "the other one has gone, or is no fi_p2p_info of this kind";
	}
	return NULL;
}

/* ---- which provider ---- */

static bool check_has(const struct check_host *host, const char *provider)
{
	return strstr(host->offers, info_text(" %s ", provider));
}

static bool check_same_host(const struct check_host *here, const struct check_host *there)
{
	return here->boot && *here->boot && !strcmp(here->boot, there->boot);
}

/* The first that both have. Those that stay within a host are for one host. */
static const char *check_choose(const struct info *info, const struct check_host *here,
				const struct check_host *there)
{
	for (size_t i = 0; i < info->offer_count; i++) {
		const char *provider = info->offers[i].provider;

		if (check_has(here, provider) && check_has(there, provider) &&
		    (check_same_host(here, there) || !info_is_local(provider)))
			return provider;
	}
	return NULL;
}

/* ---- what is printed ---- */

static void check_print_host(const char *which, const struct check_host *host)
{
	printf("  %-12s%s: fi_p2p_info %s, libfabric %s, %s%s\n", which, host->host,
	       host->program, host->libfabric,
	       *host->provider ? "ofi_p2p " : "ofi_p2p is not loaded", host->provider);
	printf("  %-12s%s\n", "",
	       *host->gpu ? host->gpu : "no GPU that can be used: host memory");
}

static void check_print_way(const char *which, const struct check_result *result)
{
	static const char *const lengths[] = {"8 bytes", "1 MiB"};

	for (int i = 0; i < 2; i++) {
		if (result->path[i] && *result->path[i])
			printf("  %-12s%s: %s: %s\n", i ? "" : which, lengths[i],
			       result->path[i], result->reason[i]);
	}
	if (result->error && *result->error)
		printf("  %-12s%s\n", which, result->error);
}

static void check_print_lanes(const struct check_result *here, const struct check_result *there)
{
	unsigned long out = strtoul(here->lane_pieces, NULL, 10);
	unsigned long in = strtoul(there->lane_pieces, NULL, 10);

	if (out || in)
		printf("  %-12sof four long messages, %lu pieces to there and %lu from there "
		       "went over lanes\n",
		       "lanes", out, in);
	else
		printf("  %-12snone\n", "lanes");
}

/* ---- what is to be done ---- */

/* Their versions of the protocol overlap: returns the one that is spoken, or 0 */
static int check_wire(const struct check_host *there)
{
	int oldest, newest;

	if (sscanf(there->wire, "%d %d", &oldest, &newest) != 2)
		return 0;
	if (newest > WIRE_VERSION)
		newest = WIRE_VERSION;
	return newest >= oldest && newest >= WIRE_VERSION_OLDEST ? newest : 0;
}

static void check_advise(struct info *info, const struct check_host *here,
			 const struct check_host *there)
{
	bool both = *here->provider && *there->provider;

	if (!*there->provider)
		info_add_advice(
			info,
			"there: ofi_p2p is not loaded: install it, and see fi_p2p_info "
			"there. Until then messages from a GPU here go there whole, which "
			"is slower, and there is none from a GPU there");
	if (!check_wire(there))
		info_add_advice(info, info_text("the two releases speak no version of the "
						"protocol that both know (here %s, there %s): "
						"install one release on both",
						here->wire, there->wire));
	else if (both && strcmp(here->provider, there->provider))
		info_add_advice(info, "the releases of ofi_p2p differ: install one on both");
	if (strcmp(here->libfabric, there->libfabric))
		info_add_advice(info,
				"the releases of libfabric differ, so there are no lanes: "
				"install one on both");
	if (strcmp(here->only ? here->only : "", there->only))
		info_add_advice(info,
				"FI_PROVIDER differs, so there are no lanes: set it alike");
}

/* ---- the order of things ---- */

/* Messages by @provider, with all that is said before and after them. False: not all is well. */
static bool check_messages(struct check_link *link, struct info *info, const char *provider)
{
	struct check_result here = {.lane_pieces = "0"}, there = {.lane_pieces = "0"};
	struct check_ep ep = {.ops = NULL};
	const char *address;

	/* within a host, addresses are names of processes */
	here.error = check_ep_open(&ep, info, provider,
				   info_is_local(provider) ? NULL : check_link_own(link));
	check_link_say(link, "address", here.error ? "" : check_ep_address(&ep));
	address = check_link_hear(link, "address");
	if (!here.error && (!address || !*address))
		here.error = "the other host cannot open it, or has gone";
	link->turn = here.error ? NULL : check_ep_turn;
	link->arg = &ep;
	if (!here.error)
		check_ep_exchange(&ep, address, &here);
	for (int i = 0; i < 2; i++) {
		check_link_say(link, "path", here.path[i]);
		check_link_say(link, "reason", here.reason[i]);
	}
	check_link_say(link, "lanes", here.lane_pieces);
	check_link_say(link, "error", here.error);
	for (int i = 0; i < 2; i++) {
		there.path[i] = check_link_hear(link, "path");
		there.reason[i] = check_link_hear(link, "reason");
	}
	there.lane_pieces = check_link_hear(link, "lanes");
	there.error = check_link_hear(link, "error");
	/* neither closes before the other one has all */
	check_link_say(link, "closing", "");
	check_link_hear(link, "closing");
	info_close(&ep.fids);
	if (!there.lane_pieces || !there.error) {
		there.lane_pieces = "0";
		there.error = "the other one has gone";
	}
	check_print_way("to there", &here);
	check_print_way("from there", &there);
	check_print_lanes(&here, &there);
	info_advise_peers(info, here.reason[1] ? here.reason[1] : "");
	return !here.error && !*there.error;
}

static bool check_talk(struct check_link *link, struct info *info, bool serves,
		       const char *provider)
{
	struct check_host here = {NULL}, there = {NULL};
	const char *why, *used;
	bool works = false;

	check_describe(&here, info);
	why = check_meet(link, &here, &there);
	if (why) {
		fprintf(stderr, "fi_p2p_info: %s\n", why);
		return false;
	}
	used = provider ? provider : check_choose(info, &here, &there);
	if (serves)
		used = check_link_hear(link, "use");
	else
		check_link_say(link, "use", used);
	printf("between two hosts\n");
	check_print_host("here", &here);
	check_print_host("there", &there);
	check_advise(info, &here, &there);
	if (!used || !*used || !check_has(&here, used) || !check_has(&there, used)) {
		printf("  %-12s%s\n", "provider",
		       used && *used ? info_text("%s: not both have it", used)
				     : "none of ours that both have");
	} else {
		printf("  %-12s%s\n", "provider", used);
		printf("  %-12s%s\n", "protocol",
		       check_wire(&there) ? info_text("version %d", check_wire(&there))
					  : "no version that both know");
		works = check_messages(link, info, used);
	}
	info_print_advice(info);
	return works;
}

/* @why: there is no link; or NULL */
static bool check_over(struct check_link *link, const char *why, struct info *info, bool serves,
		       const char *provider)
{
	bool works;

	if (why) {
		fprintf(stderr, "fi_p2p_info: %s\n", why);
		return false;
	}
	works = check_talk(link, info, serves, provider);
	close(link->fd);
	return works;
}

bool info_check(struct info *info, const char *other, const char *provider)
{
	struct check_link link = {.fd = -1};
	const char *why = check_link_connect(&link, other);

	return check_over(&link, why, info, false, provider);
}

bool info_serve(struct info *info, const char *port)
{
	struct check_link link = {.fd = -1};
	const char *why = check_link_serve(&link, port);

	return check_over(&link, why, info, true, NULL);
}
