/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_lanecut: connections of lanes are cut, as the system refuses what their threads send: when lanes are tried for
 * the first time, and amid messages. What was under way by them fails or arrives, at both ends. Later messages arrive,
 * and soon they have lanes again. Their threads are late now and then, as on a busy machine: so messages of different
 * lanes overtake each other, and come when nobody waits for them any more.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ft_test.h"

#define LEN (((size_t) 2 << 20) + 1)
#define TAG 3
/* Each time lanes are left alone for twice as long */
#define CUTS 6
#define LATE 24

/* So many sends of lanes' threads are refused from now on, which cuts the connection */
static int refused;

/* Is this a lane's thread? */
static bool by_lane(void)
{
	static __thread char name[16];

	if (!name[0])
		pthread_getname_np(pthread_self(), name, sizeof(name));
	return !strcmp(name, "p2p_lane");
}

static bool refuses(void)
{
	if (__atomic_load_n(&refused, __ATOMIC_RELAXED) <= 0 || !by_lane() ||
	    __atomic_fetch_sub(&refused, 1, __ATOMIC_RELAXED) <= 0)
		return false;
	errno = ECONNRESET;
	return true;
}

/* One look in so many is late, by up to as many [ms] */
static void be_late(void)
{
	static __thread unsigned int seed;
	struct timespec late = {0};

	if (!seed)
		seed = (unsigned int) gettid();
	if (rand_r(&seed) % LATE)
		return;
	late.tv_nsec = rand_r(&seed) % LATE * 1000000L;
	nanosleep(&late, NULL);
}

#define EXPORT __attribute__((visibility("default")))

/* These stand before libc's, for libfabric, too */
EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	if (refuses())
		return -1;
	return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return refuses() ? -1 : syscall(SYS_sendmsg, fd, msg, flags);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
	if (by_lane())
		be_late();
	return (int) syscall(SYS_epoll_pwait, fd, events, most, timeout, NULL, 0);
}

/* One end of a message from rank @from, which may fail */
static int message(struct ft_pair *pair, int from, uint64_t key)
{
	const bool sends = pair->proc->rank == from;
	const struct ft_slot slot = {&pair->buf[pair->kind_count - 1], 0, LEN + FT_ROOM, 64,
				     LEN};
	struct ft_req req = {.done = false};
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = pair->peer,
		.tag = TAG,
		.req = &req,
	};

	FT_TRY(sends ? ft_slot_fill(&slot, key) : ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, LEN);
	FT_TRY(ft_post(&pair->ctx, &op));
	FT_TRY(ft_wait_any_result(&pair->ctx, &req, 1));
	ft_progress_note();
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	return sends || req.err ? 0 : ft_slot_check(&slot, LEN, key, "a message");
}

/* Has rank @from had all its sends refused that were to be, and pieces sent by lanes since? */
static int goes_by_lanes(struct ft_pair *pair, int from, uint64_t *before, uint8_t *goes)
{
	const int fd = pair->proc->fd[!pair->proc->rank];
	uint64_t pieces;

	if (pair->proc->rank != from)
		return ft_oob_recv(fd, goes, 1, pair->proc->opts.timeout);
	FT_TRY(ft_lane_pieces(&pair->ctx, &pieces));
	if (__atomic_load_n(&refused, __ATOMIC_RELAXED) > 0)
		*before = pieces;
	*goes = pieces > *before;
	return ft_oob_send(fd, goes, 1);
}

/* Messages from rank @from, until they go by lanes */
static int until_lanes(struct ft_pair *pair, int from, uint64_t *key)
{
	const double end = ft_usec() + (double) pair->proc->opts.timeout * 1e6;
	uint64_t before;
	uint8_t goes = 0;

	FT_TRY(ft_lane_pieces(&pair->ctx, &before));
	while (!goes) {
		FT_CHECK(ft_usec() < end, "no lane is used for %ld s (--timeout)",
			 pair->proc->opts.timeout);
		FT_TRY(message(pair, from, ++*key));
		FT_TRY(goes_by_lanes(pair, from, &before, &goes));
	}
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct ft_pair pair;
	uint64_t key = 0;

	refused = 2;
	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, LEN + FT_ROOM));
	for (int from = 0; from < 2; from++) {
		for (int cut = 0; cut <= CUTS; cut++) {
			FT_TRY(until_lanes(&pair, from, &key));
			if (proc->rank == from && cut < CUTS)
				__atomic_store_n(&refused, 1 + cut % 3, __ATOMIC_RELAXED);
		}
	}
	FT_TRY(ft_barrier(proc, &pair.ctx));
	return ft_pair_close(&pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Lanes whose connections are cut.",
		.scope = FT_SCOPE_TEST,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};
	struct ft_opts opts;

	ft_options_parse(&opts, test.scope, test.purpose, argc, argv);
	/* TCP is all that lanes are for */
	if (!opts.prov || !strcmp(opts.prov, "shm;ofi_p2p") || strstr(opts.prov, "verbs"))
		return ft_skip("there are no lanes here");
	setenv("FI_P2P_PATH", "stage", 1);
	setenv("FI_P2P_LANES", "3", 1);
	return ft_test_round(&test, &opts);
}
