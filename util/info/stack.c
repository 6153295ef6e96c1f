/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Nothing is offered of the providers that were asked for, by -p or by FI_PROVIDER: which part is
 * wrong, and what is right? See info.h.
 */
#include "info.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/statvfs.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/env.h"
#include "path/quirks.h"

/* libfabric's own flags: all providers answer, those too that FI_PROVIDER hides */
#define STACK_ALL (P2P_GETINFO_INTERNAL | 1ULL << 60)
#define STACK_SHM "/dev/shm"
/* Names are separated by semicolons; these are taken for them */
#define STACK_WRONG ": \t"

/* What a stack of providers has here */
enum stack_has { STACK_NOTHING, STACK_OTHERS, STACK_RDM };

static enum stack_has stack_ask(const char *core)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;
	enum stack_has has = STACK_NOTHING;

	if (!hints)
		return has;
	hints->fabric_attr->prov_name = strdup(core);
	if (!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, STACK_ALL, hints, &found)) {
		for (const struct fi_info *each = found; each; each = each->next) {
			if (strcasecmp(each->fabric_attr->prov_name, core))
				continue;
			if (each->ep_attr->type == FI_EP_RDM)
				has = STACK_RDM;
			else if (!has)
				has = STACK_OTHERS;
		}
		fi_freeinfo(found);
	}
	fi_freeinfo(hints);
	return has;
}

/* ---- names ---- */

static bool stack_loaded(const struct info *info, const char *name)
{
	for (size_t i = 0; i < info->library.provider_count; i++) {
		if (!strcasecmp(info->library.providers[i].name, name))
			return true;
	}
	return false;
}

/* Our own name, or meant to be: env_check() and info_settings_order() say where it belongs */
static bool stack_ours(const char *name)
{
	return !strcasecmp(name, "p2p") || env_distance(name, P2P_NAME) <= 2;
}

/* Do they differ by one letter, by two letters of many, or by the order of two? */
static bool stack_near(const char *a, const char *b)
{
	size_t distance = env_distance(a, b), same = 0;

	while (a[same] && a[same] == b[same])
		same++;
	return distance == 1 || (distance == 2 && strlen(a) > 4) ||
	       (distance == 2 && a[same] && b[same] && a[same] == b[same + 1] &&
		a[same + 1] == b[same]);
}

/* The provider that is meant by @name, which is none; NULL: nobody can tell */
static const char *stack_meant(const struct info *info, const char *name)
{
	const char *util = info_text("ofi_%s", name);

	if (stack_loaded(info, util))
		return util;
	for (size_t i = 0; i < info->library.provider_count; i++) {
		if (stack_near(name, info->library.providers[i].name))
			return info->library.providers[i].name;
	}
	return NULL;
}

/**
 * struct stack - providers over each other, as they were asked for.
 * @core:	what is meant, without our name
 * @unknown:	the first name that no provider has; NULL: all are there
 * @hopeless:	nobody can tell what is meant by it
 */
struct stack {
	const char *core, *unknown;
	bool hopeless;
};

static void stack_add(const struct info *info, struct stack *stack, const char *name)
{
	const char *meant = stack_loaded(info, name) ? name : stack_meant(info, name);

	if (stack_ours(name))
		return;
	if (meant != name && !stack->unknown)
		stack->unknown = info_text("%s", name);
	stack->hopeless |= !meant;
	stack->core =
		info_text("%s%s%s", stack->core, *stack->core ? ";" : "", meant ? meant : name);
}

/* ---- what is wrong ---- */

/* What keeps a provider from working over memory that processes share */
static const char *stack_room(void)
{
	struct statvfs fs;

	if (statvfs(STACK_SHM, &fs))
		return info_text(STACK_SHM ": %s", strerror(errno));
	return info_text(STACK_SHM
			 " has %llu KiB free, and libfabric wants megabytes there for "
			 "each processor: remove what lies there, or make it larger "
			 "(mount -o remount,size=2g " STACK_SHM
			 "; for a container, --shm-size=2g)",
			 (unsigned long long) fs.f_bavail * fs.f_frsize / 1024);
}

/* Its providers are loaded, and it offers nothing. */
static const char *stack_idle(const char *core)
{
	if (!strcasecmp(core, "shm") || !strcasecmp(core, "sm2"))
		return stack_room();
	return info_text("it finds no device, or its parts do not work in this order: "
			 "FI_LOG_LEVEL=info fi_info -p '%s'",
			 core);
}

/* What is wrong with @text, a stack that was asked for by @option? NULL: nothing */
static const char *stack_fault(const struct info *info, const char *option, const char *text)
{
	struct stack stack = {.core = ""};
	char *save, *rest = info_text("%s", text);
	enum stack_has has;
	const char *right;

	for (char *name = strtok_r(rest, ";" STACK_WRONG, &save); name;
	     name = strtok_r(NULL, ";" STACK_WRONG, &save))
		stack_add(info, &stack, name);
	if (!*stack.core)
		return NULL;
	if (stack.hopeless)
		return info_text("there is no provider %s here, or it finds no device: fi_info "
				 "-l lists those that there are. Over TCP: %s'" QUIRKS_USUAL
				 ";" P2P_NAME "'",
				 stack.unknown, option);
	has = stack_ask(stack.core);
	right = info_text("%s'%s%s;" P2P_NAME "'", option, stack.core,
			  has == STACK_OTHERS ? ";" QUIRKS_RDM_OVER : "");
	if (stack.unknown)
		return info_text("there is no provider %s here: %s", stack.unknown, right);
	if (has == STACK_OTHERS)
		return info_text("%s has no reliable datagram endpoints in libfabric %s: %s",
				 stack.core, info->library.release, right);
	if (!has)
		return info_text("%s offers nothing: %s", stack.core, stack_idle(stack.core));
	if (strpbrk(text, STACK_WRONG))
		return info_text("semicolons stand between providers: %s", right);
	return NULL;
}

static void stack_explain(struct info *info, const char *option, const char *text)
{
	char order[512];
	/* this has been told */
	const bool wrong = !env_stack(text, QUIRKS_USUAL, order, sizeof order);
	const char *fault = stack_fault(info, option, wrong ? order : text);

	if (fault)
		info_add_advice(info, info_text("%s%s: %s", option, text, fault));
	else if (!wrong && info->library.restricted && info->library.layered)
		info_add_advice(info, info_text("FI_PROVIDER=%s hides all others: unset it",
						info->library.restricted));
}

void info_stacks(struct info *info, const char *provider)
{
	const char *list = info->library.restricted;
	char *save, *rest = info_text("%s", list ? list : "");

	if (provider)
		stack_explain(info, "-p ", provider);
	else if (*rest == '^')
		info_add_advice(info, info_text("FI_PROVIDER=%s: what follows the ^ is not "
						"offered, nor what is over it: unset it",
						list));
	else
		for (char *stack = strtok_r(rest, ",", &save); stack;
		     stack = strtok_r(NULL, ",", &save))
			stack_explain(info, "FI_PROVIDER=", stack);
}

void info_stacks_room(struct info *info)
{
	for (size_t i = 0; i < info->offer_count; i++) {
		if (info_is_local(info->offers[i].provider))
			return;
	}
	if (stack_loaded(info, "shm") && !stack_ask("shm"))
		info_add_advice(info, info_text("shm offers nothing: %s", stack_room()));
}
