/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The questions, put to a core provider: side 0 here, side 1 in processes of their own. See conform.h. */
#include "conform.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* For so long what is expected is waited for, and what is not [ms] */
#define WAIT_MOST 20000
#define WAIT_LEAST 150

/* A process that is side 1 for a while. All are there before libfabric is, which does not survive fork() */
struct other {
	int to[2], from[2];
	pid_t pid;
};

static const char *provider, *address;
static struct player player;
static struct other others[OTHERS], *other;
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
	pipe_put(other->to[1], call, sizeof *call);
	pipe_get(other->from[0], &answer, sizeof answer);
	return answer;
}

void side_kill(void)
{
	kill(other->pid, SIGKILL);
	waitpid(other->pid, NULL, 0);
}

void side_next(void)
{
	struct card card;

	other = other ? other + 1 : others;
	player_show(&player, &card);
	pipe_put(other->to[1], &card, sizeof card);
	pipe_get(other->from[0], &card, sizeof card);
	player_meet(&player, &card);
}

uint64_t side_caps(void)
{
	long caps = 0;

	expected(QUESTION_CAPS, &caps);
	return (uint64_t) caps;
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

static void open_core(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE | side_caps();
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->fabric_attr->prov_name = strdup(provider);
	if (fi_getinfo(FI_VERSION(1, 17), address, NULL, address ? FI_SOURCE : 0, hints,
		       &info) ||
	    fi_fabric(info->fabric_attr, &fabric, NULL)) {
		fprintf(stderr, "%s is not here\n", provider);
		exit(77);
	}
	player_open(&player, fabric, info);
}

/* The first that is read is who the other one is */
static void obey(const struct other *self)
{
	struct answer answer;
	struct card far, card;
	struct call call;

	if (read(self->to[0], &far, sizeof far) != sizeof far)
		return;
	open_core();
	player_show(&player, &card);
	pipe_put(self->from[1], &card, sizeof card);
	player_meet(&player, &far);
	while (read(self->to[0], &call, sizeof call) == sizeof call) {
		answer = player_call(&player, &call);
		pipe_put(self->from[1], &answer, sizeof answer);
	}
}

/* Its pipes' other ends are ours alone, so that it ends when we do */
static void start(struct other *self)
{
	if (pipe(self->to) || pipe(self->from))
		fail("pipe");
	self->pid = fork();
	if (self->pid < 0)
		fail("fork");
	if (self->pid) {
		close(self->to[0]);
		close(self->from[1]);
		return;
	}
	for (const struct other *at = others; at <= self; at++)
		close(at->to[1]);
	obey(self);
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc < 3 || argc > 4 || !(model = fopen(argv[2], "r"))) {
		fprintf(stderr,
			"Usage: p2p_conform_core PROVIDER ANSWERS_OF_THE_MODEL [ADDRESS]\n");
		return 2;
	}
	provider = argv[1];
	address = argv[3];
	for (size_t i = 0; i < OTHERS; i++)
		start(&others[i]);
	open_core();
	ask_all();
	return 0;
}
