/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The questions, put to a core provider: side 0 here, side 1 in a process of its own. See conform.h. */
#include "conform.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <rdma/fi_cm.h>

/* For so long what is expected is waited for, and what is not [ms] */
#define WAIT_MOST 20000
#define WAIT_LEAST 400

static struct player player;
static int to_other[2], from_other[2];
static pid_t other;
static int64_t begun;
static FILE *model;

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

static void pipe_get(int fd, void *to, size_t len)
{
	if (read(fd, to, len) != (ssize_t) len)
		fail("read");
}

static void pipe_put(int fd, const void *from, size_t len)
{
	if (write(fd, from, len) != (ssize_t) len)
		fail("write");
}

struct answer side_call(unsigned int side, const struct call *call)
{
	struct answer answer;

	if (!side)
		return player_call(&player, call);
	pipe_put(to_other[1], call, sizeof *call);
	pipe_get(from_other[0], &answer, sizeof answer);
	return answer;
}

void side_kill(void)
{
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void wait_begin(void)
{
	begun = now_ms();
}

bool wait_over(bool expected)
{
	return now_ms() - begun > (expected ? WAIT_MOST : WAIT_LEAST);
}

bool expected(const char *question, long *number)
{
	const size_t len = strlen(question);
	char line[128];

	rewind(model);
	while (fgets(line, sizeof line, model)) {
		if (!strncmp(line, question, len) && !strncmp(line + len, ": ", 2)) {
			*number = atol(line + len + 2);
			return true;
		}
	}
	return false;
}

static void open_core(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	const bool near = !strcmp(provider, "shm");

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->fabric_attr->prov_name = strdup(provider);
	if (fi_getinfo(FI_VERSION(1, 17), near ? NULL : "127.0.0.1", NULL, near ? 0 : FI_SOURCE,
		       hints, &info) ||
	    fi_fabric(info->fabric_attr, &fabric, NULL)) {
		fprintf(stderr, "%s is not here\n", provider);
		exit(77);
	}
	player_open(&player, fabric, info);
}

/* Both tell each other their names */
static void meet(int in, int out)
{
	char name[256] = {0}, peer[256];
	size_t len = sizeof name;

	if (fi_getname(&player.ep->fid, name, &len))
		exit(2);
	pipe_put(out, name, sizeof name);
	pipe_get(in, peer, sizeof peer);
	if (fi_av_insert(player.av, peer, 1, &player.peer, 0, NULL) != 1)
		exit(2);
}

static void obey(void)
{
	struct answer answer;
	struct call call;

	while (read(to_other[0], &call, sizeof call) == sizeof call) {
		answer = player_call(&player, &call);
		pipe_put(from_other[1], &answer, sizeof answer);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 3 || !(model = fopen(argv[2], "r"))) {
		fprintf(stderr, "Usage: p2p_conform_core PROVIDER ANSWERS_OF_THE_MODEL\n");
		return 2;
	}
	if (pipe(to_other) || pipe(from_other))
		fail("pipe");
	other = fork();
	if (other < 0)
		fail("fork");
	if (!other)
		close(to_other[1]);
	open_core(argv[1]);
	if (!other) {
		meet(to_other[0], from_other[1]);
		obey();
	}
	meet(from_other[0], to_other[1]);
	ask_all();
	return 0;
}
