/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_waiting: one process waits, and the other one asks fi_p2p_info --waiting what for. The answer names each operation,
 * how far it is, and what would end it. A process that makes no calls is told from one that waits, as is a stopped
 * one; and a number that is no process of ours gets an error. With FT_SLEEPS set, whoever waits sleeps in
 * fi_cq_sread().
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ft_test.h"

enum { ASKS, WAITS };

#define LONG ((size_t) 1 << 20)
#define SHORT ((size_t) 64)
#define TAG_WARM 1
#define TAG_SENT 0x51
#define TAG_NONE 0x52
#define SLEEP_MS 30000

/* The command lies beside the programs, or in its folder of a build tree */
static int command_path(char *path, size_t room)
{
	char exe[PATH_MAX] = {0};
	const char *dir;

	if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		return ft_errno("readlink", "for the folder of the programs");
	dir = dirname(exe);
	snprintf(path, room, "%s/fi_p2p_info", dir);
	if (access(path, X_OK))
		snprintf(path, room, "%s/../util/info/fi_p2p_info", dir);
	return access(path, X_OK) ? ft_skip("there is no fi_p2p_info beside %s", dir) : 0;
}

/* Runs it with @args, and returns its exit status; @text gets what it prints, and stderr */
static int command(const char *const args[2], char *text, size_t room)
{
	char path[PATH_MAX];
	posix_spawn_file_actions_t actions;
	int ends[2], status, ret;
	size_t len = 0;
	ssize_t got;
	pid_t pid;

	FT_TRY(command_path(path, sizeof(path)));
	if (pipe2(ends, O_CLOEXEC))
		return ft_errno("pipe2", "for what the command prints");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
	ret = posix_spawn(&pid, path, &actions, NULL,
			  (char *const[]){path, (char *) args[0], (char *) args[1], NULL},
			  environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	while (!ret && len < room - 1 && (got = read(ends[0], text + len, room - 1 - len)) > 0)
		len += (size_t) got;
	text[len] = '\0';
	close(ends[0]);
	if (ret)
		return ft_fail(-ret, "posix_spawn", "%s", path);
	if (waitpid(pid, &status, 0) != pid)
		return ft_errno("waitpid", path);
	FT_CHECK(WIFEXITED(status), "%s %s ended with 0x%x", path, args[0], status);
	ft_progress_note();
	return WEXITSTATUS(status);
}

/*
 * What the command is linked with may be missing, as where the programs run in another root. It gives back no memory when it
 * ends, which the sanitizer is not to look at.
 */
static int runs(struct ft_proc *proc)
{
	const char *options = getenv("ASAN_OPTIONS");
	char text[4096];
	int status;

	snprintf(text, sizeof(text), "%s:detect_leaks=0", options ? options : "");
	setenv("ASAN_OPTIONS", text, 1);
	status = command((const char *const[2]){"--version"}, text, sizeof(text));
	if (status < 0 || status == FT_SKIP)
		return status;
	return status ? ft_skip("fi_p2p_info does not run here: %s", text) : 0;
}

static int ask(long pid, char *text, size_t room)
{
	char number[32];

	snprintf(number, sizeof(number), "%ld", pid);
	return command((const char *const[2]){"--waiting", number}, text, room);
}

/* Asks about @pid: the exit status has to be @status, and all of @parts in one line */
static int expect(long pid, int status, const char *const *parts)
{
	char text[16384], copy[sizeof(text)], *rest, *line;
	const int found = ask(pid, text, sizeof(text));
	size_t i;

	if (found < 0 || found == FT_SKIP)
		return found;
	FT_CHECK(found == status, "exit status %d, not %d:\n%s", found, status, text);
	strcpy(copy, text);
	for (line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		for (i = 0; parts[i] && strstr(line, parts[i]); i++)
			;
		if (!parts[i])
			return 0;
	}
	FT_CHECK(false, "no line has \"%s\" and what goes with it:\n%s", parts[0], text);
}

#define EXPECT(pid, status, ...)                                                               \
	FT_TRY(expect(pid, status, (const char *const[]){__VA_ARGS__, NULL}))

/* ---- numbers that are no process of ours ---- */

static int wrong_numbers(void)
{
	const pid_t ended = fork();

	if (!ended)
		_exit(0);
	FT_CHECK(ended > 0 && waitpid(ended, NULL, 0) == ended, "fork or waitpid: %d", errno);
	EXPECT(ended, 1, "--waiting", "there is no such process");
	/* the one that watches the ranks has not loaded libfabric's providers */
	EXPECT(getppid(), 1, "--waiting", "has not loaded ofi_p2p");
	return 0;
}

/* ---- what waits ---- */

static int post(struct ft_pair *pair, bool sends, size_t kind, size_t len, uint64_t tag,
		struct ft_req *req)
{
	const struct ft_buf *buf = &pair->buf[kind];
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = ft_has_tags(&pair->ctx),
		.addr = pair->peer,
		.tag = tag,
		.req = req,
	};

	*req = (struct ft_req){0};
	ft_op_buf(&op, buf, sends ? 0 : buf->size / 2, len);
	return ft_post(&pair->ctx, &op);
}

/* One message each way: connections are there, and each end knows the other one */
static int warm(struct ft_pair *pair, size_t kind, size_t len)
{
	struct ft_req req[2];

	FT_TRY(post(pair, false, kind, len, TAG_WARM, &req[0]));
	FT_TRY(post(pair, true, kind, len, TAG_WARM, &req[1]));
	FT_TRY(ft_wait(&pair->ctx, req, 2));
	return ft_barrier(pair->proc, &pair->ctx);
}

static int hear(struct ft_pair *pair)
{
	char byte;
	int ret = ft_oob_recv(pair->proc->fd[!pair->proc->rank], &byte, 1,
			      pair->proc->opts.timeout);

	ft_progress_note();
	return ret;
}

/* Reads the queue until the other one has asked */
static int wait_asked(struct ft_pair *pair)
{
	struct pollfd other = {.fd = pair->proc->fd[ASKS], .events = POLLIN};
	int n;

	while (!poll(&other, 1, 1)) {
		n = ft_progress(&pair->ctx);
		if (n < 0)
			return n;
		ft_progress_note();
	}
	return hear(pair);
}

static int tell(struct ft_pair *pair)
{
	return ft_oob_send(pair->proc->fd[!pair->proc->rank], "", 1);
}

static int waits(struct ft_pair *pair, size_t kind)
{
	struct ft_req req[2];

	FT_TRY(post(pair, true, kind, LONG, TAG_SENT, &req[0]));
	FT_TRY(post(pair, false, kind, SHORT, TAG_NONE, &req[1]));
	FT_TRY(tell(pair));
	FT_TRY(wait_asked(pair));
	/* no calls at all until it was asked again */
	FT_TRY(tell(pair));
	FT_TRY(hear(pair));
	FT_TRY(ft_wait(&pair->ctx, req, 2));
	/* nothing is under way any more */
	FT_TRY(tell(pair));
	return wait_asked(pair);
}

static int asks(struct ft_pair *pair, size_t kind, long pid)
{
	const bool p2p = ft_is_p2p(&pair->ctx);
	char name_text[256];
	const char *peer = name_text, *colon;
	struct ft_name name;
	size_t room = sizeof(name_text);
	struct ft_req req[2];

	FT_TRY(ft_getname(&pair->ctx, &name));
	fi_av_straddr(pair->ctx.av, name.bytes, name_text, &room);
	/* shm of 2.1 has no prefix in what is looked up */
	colon = strstr(peer, "://");
	peer = colon ? colon + strlen("://") : peer;
	FT_TRY(hear(pair));
	EXPECT(pid, 0, "process", " over ", "1 endpoint");
	/* over a hook nothing is announced, and the core may have sent it */
	if (p2p)
		EXPECT(pid, 0, "send, tag 0x51 ", "1048576", peer, "announced",
		       "the peer's receive");
	EXPECT(pid, 0, "receive, tag 0x52 ", "64", peer, "a message that fits it");
	FT_TRY(tell(pair));
	FT_TRY(hear(pair));
	if (!pair->proc->opts.automatic)
		EXPECT(pid, 1, "has made no call of libfabric", "it computes");
	FT_CHECK(!kill((pid_t) pid, SIGSTOP), "kill: %d", errno);
	EXPECT(pid, 1, "has made no call of libfabric", "it is stopped");
	FT_CHECK(!kill((pid_t) pid, SIGCONT), "kill: %d", errno);
	FT_TRY(tell(pair));
	FT_TRY(post(pair, false, kind, LONG, TAG_SENT, &req[0]));
	FT_TRY(post(pair, true, kind, SHORT, TAG_NONE, &req[1]));
	FT_TRY(ft_wait(&pair->ctx, req, 2));
	FT_TRY(hear(pair));
	EXPECT(pid, 0, "Nothing of ofi_p2p's is under way");
	return tell(pair);
}

/* A receive is all that there is, so the thread sleeps until its message comes */
static int sleeps(struct ft_pair *pair, size_t kind)
{
	struct fi_cq_tagged_entry comp;
	struct ft_req req;
	ssize_t ret;

	FT_TRY(post(pair, false, kind, SHORT, TAG_NONE, &req));
	FT_TRY(tell(pair));
	do {
		ret = fi_cq_sread(pair->ctx.cq, &comp, 1, NULL, SLEEP_MS);
	} while (ret == -FI_EINTR);
	FT_CHECK(ret == 1 && comp.op_context == &req, "fi_cq_sread: %zd", ret);
	return 0;
}

static int asks_sleeper(struct ft_pair *pair, size_t kind, long pid)
{
	struct ft_req req;

	FT_TRY(hear(pair));
	EXPECT(pid, 0, "receive, tag 0x52 ", "64", "a message that fits it");
	FT_TRY(post(pair, true, kind, SHORT, TAG_NONE, &req));
	return ft_wait(&pair->ctx, &req, 1);
}

static int end_waits(struct ft_pair *pair, size_t kind, bool sleep)
{
	long pid = getpid();

	FT_TRY(ft_oob_send(pair->proc->fd[ASKS], &pid, sizeof(pid)));
	return sleep ? sleeps(pair, kind) : waits(pair, kind);
}

static int end_asks(struct ft_pair *pair, size_t kind, bool sleep)
{
	long pid;

	FT_TRY(wrong_numbers());
	FT_TRY(ft_oob_recv(pair->proc->fd[WAITS], &pid, sizeof(pid), pair->proc->opts.timeout));
	return sleep ? asks_sleeper(pair, kind, pid) : asks(pair, kind, pid);
}

static int run(struct ft_proc *proc)
{
	static struct ft_pair pair; /* requests are under way until the end */
	const bool sleep = getenv("FT_SLEEPS");
	size_t kind;

	if (sleep)
		proc->opts.wait = FT_WAIT_SREAD;
	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, 2 * LONG));
	kind = proc->opts.iface == FI_HMEM_SYSTEM ? 0 : 1;
	FT_TRY(warm(&pair, kind, SHORT));
	FT_TRY(warm(&pair, kind, LONG));
	FT_TRY(proc->rank == WAITS ? end_waits(&pair, kind, sleep)
				   : end_asks(&pair, kind, sleep));
	FT_TRY(ft_barrier(proc, &pair.ctx));
	return ft_pair_close(&pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "What fi_p2p_info --waiting says of a process that waits.",
		.ranks = 2,
		.may_die = -1,
		.ask = runs,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
