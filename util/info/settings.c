/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Mistakes in the environment and on the command line. What the provider finds wrong is found by the
 * same functions (base/conf.h, base/env.h), which tell it here. See info.h.
 */
#include "info.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/conf.h"
#include "base/env.h"
#include "base/log.h"
#include "path/quirks.h"
#include "config.h"

#define SETTINGS_LAYERED "libp2p-fi.so"

static struct info *settings_of;
bool log_aloud;

/* In the place of the provider's: what is told becomes advice */
void log_tell(const char *func, int line, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	size_t len;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	len = strcspn(text, "\n");
	info_add_advice(settings_of, info_text("%.*s", (int) len, text));
}

/* ---- where the providers are ---- */

static void settings_object(struct info *info, const char *dir)
{
	char *path = info_text("%s/" SETTINGS_LAYERED, dir);
	void *object;

	if (access(path, F_OK)) {
		info_add_advice(info, info_text("FI_PROVIDER_PATH: %s has no " SETTINGS_LAYERED,
						dir));
		return;
	}
	object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (object)
		dlclose(object);
	else
		info_add_advice(info, info_text("FI_PROVIDER_PATH: %s", dlerror()));
}

static void settings_dir(struct info *info, const char *dir)
{
	DIR *open = opendir(dir);

	if (open) {
		closedir(open);
		settings_object(info, dir);
	} else {
		info_add_advice(info,
				info_text("FI_PROVIDER_PATH: %s: %s", dir, strerror(errno)));
	}
}

/* libfabric goes on without what it cannot load, and does not say so */
static void settings_path(struct info *info)
{
	char *save, *list;

	if (info->library.layered || !info->library.search)
		return;
	/* an order of preference */
	list = info_text("%s", info->library.search + (*info->library.search == '@'));
	for (char *dir = strtok_r(list, ":", &save); dir; dir = strtok_r(NULL, ":", &save))
		settings_dir(info, dir);
}

static void settings_release(struct info *info)
{
	for (size_t i = 0; i < info->library.provider_count; i++) {
		const struct info_provider *provider = &info->library.providers[i];

		if (!strcmp(provider->name, P2P_NAME) &&
		    provider->version != FI_VERSION(P2P_VERSION_MAJOR, P2P_VERSION_MINOR))
			info_add_advice(info,
					info_text(P2P_NAME
						  " is of release %u.%u, and this program of "
						  "%d.%d: install them together",
						  FI_MAJOR(provider->version),
						  FI_MINOR(provider->version),
						  P2P_VERSION_MAJOR, P2P_VERSION_MINOR));
	}
}

/* ---- the hook ---- */

static bool settings_hooked(const struct info *info)
{
	char *list = info->library.hooked ? info_text("%s", info->library.hooked) : NULL;
	char *save;

	for (char *name = list ? strtok_r(list, ";", &save) : NULL; name;
	     name = strtok_r(NULL, ";", &save)) {
		if (!strcasecmp(name, "p2p") || !strcasecmp(name, P2P_HOOK_NAME))
			return true;
	}
	return false;
}

static void settings_hook(struct info *info)
{
	if (!settings_hooked(info))
		return;
	if (!info->library.hook)
		info_add_advice(info,
				"FI_HOOK: libfabric has not loaded libp2p_hook-fi.so: it "
				"belongs beside " SETTINGS_LAYERED ", see FI_PROVIDER_PATH");
	else
		info_add_advice(
			info,
			"FI_HOOK=p2p: fi_getinfo is the core provider's then, and most have "
			"no FI_HMEM: leave FI_HMEM out of the hints, or use \";" P2P_NAME
			"\" without the hook");
}

/* ---- the provider that was asked for ---- */

void info_settings_order(struct info *info, const char *provider)
{
	char right[256];

	if (!env_stack(provider, QUIRKS_USUAL, right, sizeof right))
		info_add_advice(info, info_text("-p %s: semicolons stand between, the core "
						"provider comes first, and " P2P_NAME
						" last: -p '%s'",
						provider, right));
}

void info_settings(struct info *info)
{
	settings_of = info;
	conf_read();
	env_check(QUIRKS_USUAL);
	settings_path(info);
	settings_release(info);
	settings_hook(info);
}
