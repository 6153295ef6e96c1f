/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_touch: on the emulator, whoever touches device memory with the CPU dies. That is
 * what makes the other programs' results mean something there: code that reads or writes
 * a device pointer cannot pass by accident.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ft_test.h"

#define SIZE 8192

enum {
	TOUCHED = 90, /* exit status of a child that lived on */
	BROKEN,
};

static int on_emulator(const struct ft_mem_ops *ops, bool *emulated)
{
	char name[128] = "";

	FT_TRY(ops->device_name(name, sizeof(name)));
	*emulated = strstr(name, "emulated") != NULL;
	return 0;
}

/* The child: allocates, checks that copies work, then reads or writes the pointer. */
static int touch(const struct ft_opts *opts, bool write)
{
	const struct ft_mem_ops *ops = ft_mem_ops(opts->iface);
	const struct rlimit no_core = {0};
	unsigned char data[64], back[64];
	volatile unsigned char *ptr;
	void *addr;
	bool emulated;

	/* Nobody else looks after it: the watchdog is a thread. */
	alarm((unsigned int) opts->timeout);
	setrlimit(RLIMIT_CORE, &no_core);
	/* A sanitizer's handler would turn the signal into an exit. */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	if (ops->init(opts->device) || on_emulator(ops, &emulated))
		return BROKEN;
	if (!emulated)
		return FT_SKIP;
	ft_pattern_fill(data, sizeof(data), 1);
	if (ops->alloc(SIZE, &addr) || ops->to(addr, data, sizeof(data)) ||
	    ops->from(back, addr, sizeof(back)) || memcmp(data, back, sizeof(data)))
		return BROKEN;
	ptr = addr;
	if (write)
		ptr[0] = 0;
	else
		back[0] = ptr[SIZE - 1];
	return TOUCHED;
}

static int expect_death(const struct ft_opts *opts, bool write)
{
	const char *what = write ? "writing to" : "reading";
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return ft_errno("fork", "child");
	if (!pid)
		_exit(touch(opts, write));
	if (waitpid(pid, &status, 0) != pid)
		return ft_errno("waitpid", "child");
	if (WIFEXITED(status) && WEXITSTATUS(status) == FT_SKIP)
		return ft_skip("not on the emulator: a real driver may map device memory");
	FT_CHECK(WIFSIGNALED(status),
		 "%s device memory with the CPU: the process lived on and "
		 "ended with exit status %d",
		 what, WEXITSTATUS(status));
	FT_CHECK(WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS,
		 "%s device memory ended with signal %d (%s)", what, WTERMSIG(status),
		 strsignal(WTERMSIG(status)));
	return 0;
}

/*
 * Forks while there is one thread: the address sanitizer's allocator may be locked by another
 * one, and is so in the child for ever.
 */
static int ask(struct ft_proc *proc)
{
	if (proc->opts.iface == FI_HMEM_SYSTEM)
		return ft_skip("needs device memory (-D)");
	FT_TRY(expect_death(&proc->opts, false));
	return expect_death(&proc->opts, true);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Touching emulated device memory with the CPU kills.",
		.ranks = 1,
		.may_die = -1,
		.ask = ask,
	};

	return ft_test_main(&test, argc, argv);
}
