/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_frozen: the sender's process does not answer when the receiver asks it for its board, as one that is stopped. To ask
 * takes time, in which the receiver does nothing else. So it asks once, all messages arrive, and once the sender has
 * answered they go from device to device. Both ranks are in PID namespaces of their own (fi_p2p_hosts --containers pid).
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <rdma/fi_ext_p2p.h>

#include "ft_test.h"

#define LEN ((size_t) 300001)
#define MESSAGES 4
#define NAME "ofi_p2p."

/* The sender's thread that answers waits while @frozen. How often the receiver has @asked */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t thawed = PTHREAD_COND_INITIALIZER;
static bool frozen;
static unsigned int asked;

static void freeze(bool on)
{
	pthread_mutex_lock(&lock);
	frozen = on;
	pthread_cond_broadcast(&thawed);
	pthread_mutex_unlock(&lock);
}

#define EXPORT __attribute__((visibility("default")))

/* These stand before libc's */
EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int domain = AF_UNSPEC;
	socklen_t size = sizeof(domain);

	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
	pthread_mutex_lock(&lock);
	while (domain == AF_UNIX && frozen)
		pthread_cond_wait(&thawed, &lock);
	pthread_mutex_unlock(&lock);
	return (int) syscall(SYS_accept4, fd, addr, len, flags);
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	const struct sockaddr_un *local = (const struct sockaddr_un *) addr;

	if (addr->sa_family == AF_UNIX && !strncmp(local->sun_path + 1, NAME, strlen(NAME)))
		__atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
	return (int) syscall(SYS_connect, fd, addr, len);
}

static int wait_one(struct ft_pair *pair, struct ft_req *req)
{
	return ft_wait(&pair->ctx, req, 1);
}

/* From device to device. Was it copied there? */
static int message(struct ft_pair *pair, uint8_t *across)
{
	uint64_t before, after;

	FT_TRY(ft_path_bytes(pair->ctx.ep, true, FI_P2P_PATH_IPC, &before));
	FT_TRY(ft_pair_transfer(pair, 1, 1, LEN, true, wait_one));
	FT_TRY(ft_path_bytes(pair->ctx.ep, true, FI_P2P_PATH_IPC, &after));
	*across = after > before;
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	return ft_pair_sends(pair)
		       ? ft_oob_send(pair->proc->fd[0], across, 1)
		       : ft_oob_recv(pair->proc->fd[1], across, 1, pair->proc->opts.timeout);
}

/* Are the two in one PID namespace? */
static int together(struct ft_proc *proc, bool *result)
{
	const int fd = proc->fd[!proc->rank];
	struct stat here;
	ino_t there;

	if (stat("/proc/self/ns/pid", &here))
		return ft_errno("stat", "/proc/self/ns/pid");
	FT_TRY(ft_oob_send(fd, &here.st_ino, sizeof(here.st_ino)));
	FT_TRY(ft_oob_recv(fd, &there, sizeof(there), proc->opts.timeout));
	*result = here.st_ino == there;
	return 0;
}

static int run(struct ft_proc *proc)
{
	const double end = ft_usec() + (double) proc->opts.timeout * 1e6;
	struct ft_pair pair;
	uint8_t across;
	bool one = false;

	FT_TRY(together(proc, &one));
	if (one || proc->opts.iface == FI_HMEM_SYSTEM)
		return proc->rank ? FT_SKIP
				  : ft_skip("for containers, and with -D (fi_p2p_hosts)");
	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, LEN));
	freeze(ft_pair_sends(&pair));
	for (int i = 0; i < MESSAGES; i++) {
		FT_TRY(message(&pair, &across));
		FT_CHECK(!across, "message %d was copied from an owner that is frozen", i);
	}
	FT_CHECK(ft_pair_sends(&pair) || asked == 1,
		 "an owner that does not answer was asked %u times", asked);
	freeze(false);
	do {
		FT_CHECK(ft_usec() < end,
			 "no message is copied for %ld s, though its owner answers",
			 proc->opts.timeout);
		FT_TRY(message(&pair, &across));
	} while (!across);
	return ft_pair_close(&pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "An owner of device memory that does not answer holds up nobody.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
