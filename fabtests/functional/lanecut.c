/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_lanecut: connections of lanes are cut, when lanes are tried for the first time, and amid messages: as the system
 * refuses what their threads send, or as the sender or the receiver ends the connection. On hosts of their own the network
 * resets it, at both ends; and at last drops all that one sends, amid a piece, so that neither end is told. No message fails, each byte is right, and soon messages have lanes again. Lanes' threads are late now and then, as on a busy machine:
 * so messages of different lanes overtake each other, and come when nobody waits for them any more. Without -q they are
 * not, and what each cut costs is printed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
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
#define CUTS 8
#define LATE 24
#define SHORT 64
#define AMID ((size_t) 16 << 10)

/* How a connection ends, from now on so many calls of lanes' threads later: */
enum cut_kind {
	CUT_REFUSED,  /* a send is refused */
	CUT_SENT,     /* the connection ends behind a send */
	CUT_RECEIVED, /* or behind a receive */
	CUT_KINDS,
	CUT_AMID /* nothing passes any more, behind a receive of a part of a piece */
};

/* @after: 0: it is cut already. @again: then another one is, so many short sends later: those try lanes; 0: none */
static struct {
	enum cut_kind kind;
	int after;
	int again;
} cut;

/* It tells of a cut: what it sends then is no lane's */
static __thread bool telling;

/* Is this a lane's call? */
static bool by_lane(void)
{
	static __thread char name[16];

	if (!name[0])
		pthread_getname_np(pthread_self(), name, sizeof(name));
	return !telling && !strcmp(name, "p2p_lane");
}

/* Is it this call's turn? */
static bool is_cut_by(enum cut_kind kind)
{
	return __atomic_load_n(&cut.after, __ATOMIC_ACQUIRE) > 0 && cut.kind == kind &&
	       by_lane() && __atomic_sub_fetch(&cut.after, 1, __ATOMIC_RELAXED) == 0;
}

static bool is_cut_again(size_t len)
{
	return len <= SHORT && __atomic_load_n(&cut.after, __ATOMIC_ACQUIRE) <= 0 &&
	       __atomic_load_n(&cut.again, __ATOMIC_RELAXED) > 0 && by_lane() &&
	       __atomic_sub_fetch(&cut.again, 1, __ATOMIC_RELAXED) == 0;
}

/* What the system refuses is no business of the network's */
static enum cut_kind first_kind(void)
{
	return ft_link_there() ? CUT_SENT : CUT_REFUSED;
}

/* Ends the connection, here or by the network */
static void cut_off(int fd)
{
	struct sockaddr_storage ends[2] = {{.ss_family = AF_UNSPEC}};
	socklen_t len[2] = {sizeof(ends[0]), sizeof(ends[1])};
	char command[32];
	uint64_t lost;

	if (!ft_link_there()) {
		shutdown(fd, SHUT_RDWR);
		return;
	}
	getsockname(fd, (struct sockaddr *) &ends[0], &len[0]);
	getpeername(fd, (struct sockaddr *) &ends[1], &len[1]);
	snprintf(command, sizeof(command), "%s %u %u",
		 cut.kind == CUT_AMID ? "silence" : "reset",
		 ntohs(((const struct sockaddr_in *) &ends[0])->sin_port),
		 ntohs(((const struct sockaddr_in *) &ends[1])->sin_port));
	telling = true;
	if (ft_link_tell(command, &lost))
		abort();
	telling = false;
}

static bool refuses(void)
{
	if (!is_cut_by(CUT_REFUSED))
		return false;
	errno = ECONNRESET;
	return true;
}

/* Is the connection to end behind a send? The network ends it before: so this is lost, though the core calls it sent. */
static bool ends(int fd, size_t len)
{
	if (!is_cut_by(CUT_SENT) && !is_cut_again(len))
		return false;
	if (ft_link_there())
		cut_off(fd);
	return !ft_link_there();
}

/*
 * Ends the connection if that is to be. What is on its way here is lost then: the sender's system is told so by a reset, and
 * its core may have told already that it is sent. Returns @ret, what the call has led to
 */
static ssize_t ended(int fd, bool end, ssize_t ret)
{
	const int err = errno;

	if (end)
		cut_off(fd);
	errno = err;
	return ret;
}

/* @len: there was room for so much. A core that has room for a whole piece puts it into its place */
static ssize_t received(int fd, size_t len, ssize_t ret)
{
	const bool amid = len > AMID && (size_t) ret < len;

	return ended(fd, ret > 0 && (is_cut_by(CUT_RECEIVED) || (amid && is_cut_by(CUT_AMID))),
		     ret);
}

static bool is_late, measures;

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
	bool end;

	if (refuses())
		return -1;
	end = ends(fd, len);
	return ended(fd, end, syscall(SYS_sendto, fd, buf, len, flags, NULL, 0));
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	size_t len = 0;
	bool end;

	if (refuses())
		return -1;
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		len += msg->msg_iov[i].iov_len;
	end = ends(fd, len);
	return ended(fd, end, syscall(SYS_sendmsg, fd, msg, flags));
}

EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	return received(fd, len, syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	size_t len = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		len += msg->msg_iov[i].iov_len;
	return received(fd, len, syscall(SYS_recvmsg, fd, msg, flags));
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
	if (is_late && by_lane())
		be_late();
	return (int) syscall(SYS_epoll_pwait, fd, events, most, timeout, NULL, 0);
}

/* One end of a message from rank @from, which takes so long [ms] */
static int message(struct ft_pair *pair, int from, uint64_t key, double *took)
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
	double begun;

	FT_TRY(sends ? ft_slot_fill(&slot, key) : ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, LEN);
	begun = ft_usec();
	FT_TRY(ft_post(&pair->ctx, &op));
	FT_TRY(ft_wait_any_result(&pair->ctx, &req, 1));
	*took = (ft_usec() - begun) / 1000;
	FT_CHECK(!req.err, "message %" PRIu64 " fails: %s", key, fi_strerror(req.err));
	ft_progress_note();
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	return sends ? 0 : ft_slot_check(&slot, LEN, key, "a message");
}

/* Tells both ranks what one of them knows */
static int told(struct ft_pair *pair, int from, uint8_t *what)
{
	const int fd = pair->proc->fd[!pair->proc->rank];

	return pair->proc->rank == from ? ft_oob_send(fd, what, 1)
					: ft_oob_recv(fd, what, 1, pair->proc->opts.timeout);
}

/*
 * Messages from rank @from, until @by has cut a connection, if it is to, and after that one has gone by lanes. Prints how
 * long the first one took, and the one in which it was cut
 */
static int until_lanes(struct ft_pair *pair, int from, int by, uint64_t *key)
{
	const double end = ft_usec() + (double) pair->proc->opts.timeout * 1e6;
	uint64_t before, pieces;
	uint8_t whole = 0, goes = 0;
	double took;

	while (!goes) {
		FT_CHECK(ft_usec() < end, "no lane is used for %ld s (--timeout)",
			 pair->proc->opts.timeout);
		FT_TRY(ft_lane_pieces(&pair->ctx, &before));
		FT_TRY(message(pair, from, ++*key, &took));
		FT_TRY(ft_lane_pieces(&pair->ctx, &pieces));
		goes = whole && pieces > before;
		FT_TRY(told(pair, from, &goes));
		if (!whole) {
			whole = __atomic_load_n(&cut.after, __ATOMIC_RELAXED) <= 0;
			if (whole && pair->proc->rank == by && measures)
				printf("cut %d: %.1f ms\n", (int) cut.kind, took);
		} else if (!goes && pair->proc->rank == by && measures) {
			printf("without lanes: %.1f ms\n", took);
		}
		FT_TRY(told(pair, by, &whole));
		if (goes && pair->proc->rank == by && measures)
			printf("lanes: %.1f ms\n", took);
	}
	return 0;
}

/* Cuts connections while rank @from sends */
static int cut_all(struct ft_pair *pair, int from, uint64_t *key)
{
	FT_TRY(until_lanes(pair, from, from, key));
	measures = !pair->proc->opts.quick;
	for (int i = 0; i < CUTS; i++) {
		const int first = first_kind();
		const enum cut_kind kind =
			(enum cut_kind)(first + i % ((int) CUT_KINDS - first));
		const int by = kind == CUT_RECEIVED ? !from : from;

		if (pair->proc->rank == by) {
			cut.kind = kind;
			cut.again = ft_link_there() ? rand() % 5 : 0;
			__atomic_store_n(&cut.after, 1 + rand() % 40, __ATOMIC_RELEASE);
		}
		FT_TRY(until_lanes(pair, from, by, key));
	}
	measures = false;
	return 0;
}

/* A connection falls silent while rank 1 sends. The lane is not used again before TCP gives that up */
static int fall_silent(struct ft_pair *pair, uint64_t *key)
{
	uint8_t silent = 0;
	double took;

	if (pair->proc->rank == 0) {
		cut.kind = CUT_AMID;
		cut.again = 0;
		__atomic_store_n(&cut.after, 1 + rand() % 8, __ATOMIC_RELEASE);
	}
	while (!silent) {
		FT_TRY(message(pair, 1, ++*key, &took));
		silent = __atomic_load_n(&cut.after, __ATOMIC_RELAXED) <= 0;
		FT_TRY(told(pair, 0, &silent));
	}
	if (pair->proc->rank == 0 && !pair->proc->opts.quick)
		printf("silent: %.1f ms\n", took);
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct ft_pair pair;
	uint64_t key = 0;

	srand((unsigned int) proc->opts.seed + (unsigned int) proc->rank);
	is_late = proc->opts.quick;
	cut.kind = first_kind();
	cut.after = 2;
	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, LEN + FT_ROOM));
	for (int from = 0; from < 2; from++)
		FT_TRY(cut_all(&pair, from, &key));
	if (ft_link_there())
		FT_TRY(fall_silent(&pair, &key));
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
