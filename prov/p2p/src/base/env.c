/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Mistakes in FI_PROVIDER and FI_HOOK. See env.h. */
#include "base/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "base/log.h"

/* What is no more than this far from our name is meant to be it */
#define ENV_NEAR 2
#define ENV_LETTERS 64
/* A variable that is longer is not looked at */
#define ENV_TEXT 256
#define ENV_NAMES 8

/* What of libfabric's providers works over others begins so */
#define ENV_UTIL "ofi_"

size_t env_distance(const char *a, const char *b)
{
	size_t row[ENV_LETTERS + 1], above, left, rows = strnlen(a, ENV_LETTERS),
						  columns = strnlen(b, ENV_LETTERS);

	for (size_t j = 0; j <= columns; j++)
		row[j] = j;
	for (size_t i = 0; i < rows; i++) {
		above = row[0]++;
		for (size_t j = 0; j < columns; j++) {
			left = row[j + 1];
			row[j + 1] = P2P_MIN(above + (a[i] != b[j]), P2P_MIN(left, row[j]) + 1);
			above = left;
		}
	}
	return row[columns];
}

/* Is this our name, or meant to be? */
static bool env_ours(const char *name)
{
	return !strcasecmp(name, "p2p") || env_distance(name, P2P_NAME) <= ENV_NEAR;
}

static void env_add(char *stack, size_t size, const char *name)
{
	size_t len = strlen(stack);

	snprintf(stack + len, size - len, "%s%s", len ? ";" : "", name);
}

/* Core providers first, then what works over them, then we */
static void env_sort(char *const *names, size_t count, char *right, size_t size)
{
	*right = '\0';
	for (int util = 0; util < 2; util++) {
		for (size_t i = 0; i < count; i++) {
			if (!env_ours(names[i]) &&
			    (strncasecmp(names[i], ENV_UTIL, strlen(ENV_UTIL)) == 0) == util)
				env_add(right, size, names[i]);
		}
	}
	env_add(right, size, P2P_NAME);
}

bool env_stack(const char *stack, const char *usual, char *right, size_t size)
{
	char text[ENV_TEXT], *names[ENV_NAMES], *save;
	size_t count = 0, ours = 0;

	if (strlen(stack) >= sizeof text)
		return true;
	strcpy(text, stack);
	for (char *name = strtok_r(text, "; :", &save); name;
	     name = strtok_r(NULL, "; :", &save)) {
		if (count == ENV_NAMES || *name == '^')
			return true;
		ours += env_ours(name);
		names[count++] = name;
	}
	if (!ours)
		return true;
	if (ours < count)
		env_sort(names, count, right, size);
	else
		snprintf(right, size, "%s;" P2P_NAME, usual);
	return !strcasecmp(stack, right);
}

/* FI_PROVIDER is a list of stacks. Those behind a "^" are not to be used. */
static void env_check_provider(const char *value, const char *usual)
{
	char text[ENV_TEXT], right[2 * ENV_TEXT], *save;
	bool list = strchr(value, ',');

	if (*value == '^' || strlen(value) >= sizeof text)
		return;
	strcpy(text, value);
	for (char *stack = strtok_r(text, ",", &save); stack;
	     stack = strtok_r(NULL, ",", &save)) {
		/* in a list its core may be another entry */
		if ((!list || strchr(stack, ';')) &&
		    !env_stack(stack, usual, right, sizeof right))
			P2P_TELL("FI_PROVIDER=%s: semicolons stand between, the core provider "
				 "comes first, and ofi_p2p last: FI_PROVIDER='%s'\n",
				 value, right);
	}
}

static bool env_hook_meant(const char *name)
{
	return strcasestr(name, "p2p") || env_distance(name, "p2p") == 1 ||
	       env_distance(name, P2P_HOOK_NAME) <= ENV_NEAR;
}

static void env_check_hook(const char *value)
{
	char text[ENV_TEXT], *save;

	if (strlen(value) >= sizeof text)
		return;
	strcpy(text, value);
	for (char *name = strtok_r(text, ";", &save); name; name = strtok_r(NULL, ";", &save)) {
		if (!strcasecmp(name, "p2p") || !strcasecmp(name, P2P_HOOK_NAME) ||
		    !env_hook_meant(name))
			continue;
		P2P_TELL("FI_HOOK=%s: there is no hook %s, so device memory is taken for the "
			 "host's: FI_HOOK=p2p\n",
			 value, name);
	}
}

void env_check(const char *usual)
{
	const char *provider = getenv("FI_PROVIDER"), *hook = getenv("FI_HOOK");

	if (provider)
		env_check_provider(provider, usual);
	if (hook)
		env_check_hook(hook);
}
