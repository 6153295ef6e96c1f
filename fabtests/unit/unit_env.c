/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of env.c, and of how conf.c and env.c tell users of their mistakes: on stderr, unless there is
 * a log.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fabric.h>

#include "base/conf.h"
#include "base/env.h"

static void test_distance(void **state)
{
	static const struct {
		const char *a, *b;
		size_t distance;
	} rows[] = {
		{"", "", 0},
		{"a", "", 1},
		{"", "ab", 2},
		{"abc", "abc", 0},
		{"abc", "abd", 1},
		{"abc", "ac", 1},
		{"abc", "abxc", 1},
		{"kitten", "sitting", 3},
		{"ofi_p2p", "ofi_rxm", 3},
	};

	for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
		assert_int_equal(env_distance(rows[i].a, rows[i].b), rows[i].distance);
		assert_int_equal(env_distance(rows[i].b, rows[i].a), rows[i].distance);
	}
}

static void test_long_names(void **state)
{
	char text[300], other[300];

	memset(text, 'a', sizeof text - 1);
	memset(other, 'b', sizeof other - 1);
	text[sizeof text - 1] = other[sizeof other - 1] = '\0';
	assert_int_equal(env_distance(text, text), 0);
	assert_int_equal(env_distance(text, other), 64);
}

static void test_stack(void **state)
{
	static const struct {
		const char *stack, *right; /* NULL: nothing is wrong */
	} rows[] = {
		{"tcp;ofi_rxm;ofi_p2p", NULL},
		{"TCP;ofi_rxm;OFI_P2P", NULL},
		{"shm;ofi_p2p", NULL},
		{"tcp;ofi_rxm", NULL},
		{"ofi_rxm;tcp", NULL},
		{"", NULL},
		{"verbs", NULL},
		{"tcp;ofi_rxm;^ofi_p2p", NULL},
		{"a;b;c;d;e;f;g;h;i;ofi_p2p", NULL},
		{"ofi_p2p", "tcp;ofi_rxm;ofi_p2p"},
		{"p2p", "tcp;ofi_rxm;ofi_p2p"},
		{"ofi_p2p;tcp;ofi_rxm", "tcp;ofi_rxm;ofi_p2p"},
		{"tcp;ofi_p2p;ofi_rxm", "tcp;ofi_rxm;ofi_p2p"},
		{"ofi_rxm;tcp;ofi_p2p", "tcp;ofi_rxm;ofi_p2p"},
		{"ofi_p2p;shm", "shm;ofi_p2p"},
		{"tcp;ofi_rxm;p2p", "tcp;ofi_rxm;ofi_p2p"},
		{"verbs;ofi_rxm;ofi-p2p", "verbs;ofi_rxm;ofi_p2p"},
		{"verbs;ofi_rxm;ofip2p", "verbs;ofi_rxm;ofi_p2p"},
		{"tcp:ofi_rxm:ofi_p2p", "tcp;ofi_rxm;ofi_p2p"},
		{"tcp; ofi_rxm; ofi_p2p", "tcp;ofi_rxm;ofi_p2p"},
		{" shm ;ofi_p2p ", "shm;ofi_p2p"},
		{"ofi_p2p tcp", "tcp;ofi_p2p"},
		{"tcp:ofi_rxm", NULL},
	};
	char right[300];

	for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
		assert_int_equal(env_stack(rows[i].stack, "tcp;ofi_rxm", right, sizeof right),
				 !rows[i].right);
		if (rows[i].right)
			assert_string_equal(right, rows[i].right);
	}
}

struct told {
	const char *set[2];
	const char *says; /* NULL: nothing */
};

static const struct told rows[] = {
	{{NULL}, NULL},
	{{"FI_P2P_PATH=stage"}, NULL},
	{{"FI_P2P_PTAH=stage"}, "FI_P2P_PTAH is no parameter"},
	{{"FI_P2P_PTAH=stage"}, "there is: FI_P2P_PATH"},
	{{"FI_P2P_CHUNKSIZE=1m"}, "there is: FI_P2P_CHUNK_SIZE"},
	{{"FI_P2P_=1"}, "FI_P2P_ is no parameter"},
	{{"FI_P2P=1"}, NULL},
	{{"FI_P2P_PATH=foo"}, "FI_P2P_PATH=foo: use one of auto, peer, ipc, stage"},
	{{"FI_P2P_CHUNK_SIZE=16k"}, NULL},
	{{"FI_P2P_CHUNK_SIZE=16k", "FI_P2P_EAGER_SIZE=32k"}, "lowered to 16384"},
	{{"FI_P2P_PROXY_CPUS=a"}, "FI_P2P_PROXY_CPUS=a: use auto, or processors"},
	{{"FI_P2P_PROXY_CPUS=0-3,8"}, NULL},
	{{"FI_PROVIDER=ofi_p2p;tcp"}, "FI_PROVIDER='tcp;ofi_p2p'"},
	{{"FI_PROVIDER=tcp,ofi_p2p"}, NULL},
	{{"FI_PROVIDER=shm,ofi_p2p;tcp"}, "FI_PROVIDER='tcp;ofi_p2p'"},
	{{"FI_PROVIDER=^ofi_p2p"}, NULL},
	{{"FI_HOOK=p2p"}, NULL},
	{{"FI_HOOK=P2P;perf"}, NULL},
	{{"FI_HOOK=ofi_hook_p2p"}, NULL},
	{{"FI_HOOK=perf;noop"}, NULL},
	{{"FI_HOOK=pp2p"}, "no hook pp2p"},
	{{"FI_HOOK=perf;hook_p2p"}, "no hook hook_p2p"},
	{{"FI_HOOK=ofi_hook_p2"}, "FI_HOOK=p2p"},
	{{"FI_HOOK=pp2p", "FI_LOG_LEVEL=warn"}, "<warn> FI_HOOK=pp2p"},
};

static void child(const struct told *row, int out)
{
	struct fi_info *list = NULL;

	dup2(out, STDERR_FILENO);
	for (size_t i = 0; i < UNIT_COUNT(row->set) && row->set[i]; i++)
		putenv((char *) (uintptr_t) row->set[i]);
	/* libfabric reads its own variables */
	fi_getinfo(fi_version(), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &list);
	fi_freeinfo(list);
	conf_read();
	env_check("tcp;ofi_rxm");
	/* the other object of the two says it in the log alone */
	if (!getenv("FI_LOG_LEVEL")) {
		conf_read();
		env_check("tcp;ofi_rxm");
	}
	_exit(0);
}

/* What a process with that environment says on stderr */
static void hear(const struct told *row, char *text, size_t size)
{
	size_t len = 0;
	ssize_t got;
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		child(row, fds[1]);
	close(fds[1]);
	while ((got = read(fds[0], text + len, size - 1 - len)) > 0)
		len += (size_t) got;
	text[len] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_told(void **state)
{
	char text[16384], *found;

	for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
		hear(&rows[i], text, sizeof text);
		found = strstr(text, rows[i].says ? rows[i].says : "unit");
		if (!rows[i].says != !found)
			fail_msg("row %zu (%s): \"%s\"", i,
				 rows[i].set[0] ? rows[i].set[0] : "-", text);
		if (found && strstr(found + 1, rows[i].says) && !strchr(rows[i].says, '<'))
			fail_msg("row %zu (%s) is told twice: \"%s\"", i, rows[i].set[0], text);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_stack),
		cmocka_unit_test(test_told),
	};
	static const char *const names[] = {"FI_PROVIDER", "FI_HOOK", "FI_LOG_LEVEL",
					    "FI_LOG_PROV", "FI_PROVIDER_PATH"};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	for (size_t i = 0; i < UNIT_COUNT(names); i++)
		unsetenv(names[i]);
	return unit_main(argc, argv, &unit);
}
