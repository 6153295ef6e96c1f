/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Processes for the scenes of the emulator's tests */
#define _GNU_SOURCE
#include "emu_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int emu_test_spawn(const char *scene, const char *env, const char *value)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (env)
			setenv(env, value, 1);
		execl("/proc/self/exe", "emu_test", scene, (char *) NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

void emu_test_plays(const char *scene, const char *env, const char *value)
{
	assert_int_equal(emu_test_spawn(scene, env, value), 0);
}

int emu_test_play(const struct emu_test_scene *scenes, const char *name)
{
	for (; scenes->name; scenes++)
		if (!strcmp(scenes->name, name))
			return scenes->play();
	fprintf(stderr, "no scene %s\n", name);
	return 127;
}

void emu_test_use(int dev)
{
	CUcontext ctx;

	good(cuInit(0));
	good(cuDevicePrimaryCtxRetain(&ctx, dev));
	good(cuCtxSetCurrent(ctx));
}
