/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Running of unit tests and scenes. See unit.h. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

/* Far more than any scene takes, with any sanitizer */
#define UNIT_SCENE_SECONDS 120

static struct fi_provider unit_provider = {
	.version = FI_VERSION(0, 1),
	.fi_version = FI_VERSION(1, 17),
	.name = "unit",
};

int unit_main(int argc, char **argv, const struct unit *unit)
{
	log_prov = &unit_provider;
	if (argc < 2)
		return _cmocka_run_group_tests(program_invocation_short_name, unit->tests,
					       unit->test_count, unit->setup, unit->teardown);
	/* one that hangs fails */
	alarm(UNIT_SCENE_SECONDS);
	for (size_t i = 0; i < unit->scene_count; i++) {
		if (!strcmp(unit->scenes[i].name, argv[1]))
			return _cmocka_run_group_tests(argv[1], &unit->scenes[i], 1, NULL,
						       NULL);
	}
	fprintf(stderr, "%s: no scene %s\n", argv[0], argv[1]);
	return 127;
}

void unit_play(const char *scene, const char *const *env)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		for (; *env; env++)
			putenv((char *) (uintptr_t) *env);
		execl("/proc/self/exe", program_invocation_short_name, scene, (char *) NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	if (status)
		print_error("%s with %s: wait status 0x%x\n", scene, *env ? *env : "nothing",
			    status);
	assert_int_equal(status, 0);
}

void unit_fill(void *buf, size_t len, unsigned int seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 1664525 + 1013904223;
		((unsigned char *) buf)[i] = x >> 24;
	}
}

/* They are what the table ends with */
void unit_ops_complete(const struct dev_ops *ops)
{
	void *entry;

	for (size_t at = offsetof(struct dev_ops, load); at < sizeof *ops; at += sizeof entry) {
		memcpy(&entry, (const char *) ops + at, sizeof entry);
		assert_non_null(entry);
	}
}

size_t unit_resident(const void *addr)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	size_t first, last, kb = 0;
	bool found = false, inside = false;
	char line[512];

	assert_non_null(smaps);
	while (!found && fgets(line, sizeof line, smaps)) {
		if (sscanf(line, "%zx-%zx ", &first, &last) == 2)
			inside = (uintptr_t) addr >= first && (uintptr_t) addr < last;
		else
			found = inside && sscanf(line, "Rss: %zu", &kb) == 1;
	}
	fclose(smaps);
	assert_true(found);
	return kb << 10;
}
