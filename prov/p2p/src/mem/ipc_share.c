/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Device memory shared by descriptors. See ipc_share.h. */
#include "mem/ipc_share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/room.h"
#include "base/thread.h"

#define IPC_SHARE_BACKLOG 64

/*
 * Those that have connected and not asked yet, at most. The one that has been silent for longest makes room for another one.
 */
#define IPC_SHARE_CLIENTS 32

/*
 * How long the owner waits for a question [ms], and the other process for the answer [us]. All that this one has under way
 * waits meanwhile.
 */
#define IPC_SHARE_PATIENCE 2000
#define IPC_SHARE_PATIENCE_ASKING 300000

/* How long to wait when this process has no room for another connection [ms] */
#define IPC_SHARE_PAUSE 10

#define IPC_SHARE_MAGIC 0x7032706e
#define IPC_SHARE_MAGIC_LOOK 0x7032706c

/* For a descriptor */
struct ipc_share_ask {
	uint32_t magic;
	uint32_t zero;
	uint64_t id;
	uint64_t base;
	uint64_t size;
	uint8_t word[IPC_SHARE_WORD];
};

/* @status: 0 if a descriptor comes with the answer, else a negative error */
struct ipc_share_answer {
	uint32_t magic;
	int32_t status;
};

/* Which of @count allocations are there still? */
struct ipc_share_look {
	uint32_t magic;
	uint32_t count;
	struct ipc_place places[IPC_PLACES];
};

/* @gone: a bit for each that is not */
struct ipc_share_seen {
	uint32_t magic;
	uint32_t count;
	uint64_t gone;
};

/* What is asked */
union ipc_share_question {
	uint32_t magic;
	struct ipc_share_ask ask;
	struct ipc_share_look look;
};

/* Room for one descriptor, though the system may put two there */
union ipc_share_room {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* -1: there is none, errno says why */
static int ipc_share_socket(int flags)
{
	const struct timeval patience = {.tv_usec = IPC_SHARE_PATIENCE_ASKING};
	int fd;

	errno = -room_spare(1);
	fd = errno ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return -1;
	/* connect() counts as sending; who listens waits in poll() alone */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	return fd;
}

static socklen_t ipc_share_address(uint64_t process, struct sockaddr_un *address)
{
	int len;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	len = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, IPC_SHARE_NAME,
		       process);
	return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) len);
}

/* All users whom a user namespace does not map have this id there (user_namespaces(7)). */
#define IPC_SHARE_NOBODY 65534

/* Is this process's id one user's alone? */
static bool ipc_share_user_known(void)
{
	unsigned long count = 0;
	FILE *map;

	if (geteuid() != IPC_SHARE_NOBODY)
		return true;
	map = fopen("/proc/self/uid_map", "re");
	if (map && fscanf(map, "%*u %*u %lu", &count) != 1)
		count = 0;
	if (map)
		fclose(map);
	return count >= UINT32_MAX;
}

/* Is the other end of the same user? */
static bool ipc_share_trusts(int fd)
{
	socklen_t len = sizeof(struct ucred);
	struct ucred peer;

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && peer.uid == geteuid() &&
	       ipc_share_user_known();
}

/* ---- what is shared ---- */

/* @fd: the board; negative: it is an allocation */
struct ipc_share {
	uint64_t id;
	int fd;
	uint8_t word[IPC_SHARE_WORD];
	LIST_ENTRY(ipc_share) entry;
};

static LIST_HEAD(, ipc_share) ipc_shares = LIST_HEAD_INITIALIZER(ipc_shares);

int ipc_share_grant(uint64_t id, int fd, struct ipc_share **result, void *word)
{
	struct ipc_share *share = calloc(1, sizeof *share);

	if (!share)
		return -FI_ENOMEM;
	share->id = id;
	share->fd = fd;
	if (word && random_fill(share->word, sizeof share->word)) {
		free(share);
		return -FI_EIO;
	}
	if (word) {
		memset(word, 0, DEV_IPC_HANDLE);
		memcpy(word, share->word, sizeof share->word);
	}
	process_lock(PROCESS_TABLES);
	LIST_INSERT_HEAD(&ipc_shares, share, entry);
	process_unlock(PROCESS_TABLES);
	*result = share;
	return 0;
}

void ipc_share_revoke(struct ipc_share *share)
{
	process_lock(PROCESS_TABLES);
	LIST_REMOVE(share, entry);
	process_unlock(PROCESS_TABLES);
	free(share);
}

/* Fills @fd as in struct ipc_share */
static bool ipc_share_granted(const struct ipc_share_ask *ask, int *fd)
{
	const struct ipc_share *share;

	process_lock(PROCESS_TABLES);
	LIST_FOREACH(share, &ipc_shares, entry) {
		if (share->id == ask->id && !memcmp(share->word, ask->word, sizeof ask->word))
			break;
	}
	if (share)
		*fd = share->fd;
	process_unlock(PROCESS_TABLES);
	return share;
}

/* ---- the owner ---- */

/* Its owner revokes a board before it closes @board, which may be another file's number then */
static int ipc_share_open_board(const struct ipc_share_ask *ask, int board, int *fd)
{
	*fd = fcntl(board, F_DUPFD_CLOEXEC, 0);
	if (*fd >= 0 && ipc_share_granted(ask, &board))
		return 0;
	if (*fd >= 0)
		close(*fd);
	return -FI_ENOENT;
}

struct ipc_share_opening {
	const struct ipc_share_ask *ask;
	int *fd;
};

static int ipc_share_open_memory(void *arg)
{
	const struct ipc_share_opening *opening = arg;
	const struct ipc_share_ask *ask = opening->ask;
	struct dev_mem mem;
	const char *why;

	if (dev_find((void *) (uintptr_t) ask->base, &mem) != 1 || mem.id != ask->id ||
	    mem.base != ask->base || mem.size != ask->size)
		return -FI_ENOENT;
	return mem.ops->ipc_share(&mem, opening->fd, &why);
}

/* A descriptor of what is asked for, if that is offered now */
static int ipc_share_open(const struct ipc_share_ask *ask, int *fd)
{
	struct ipc_share_opening opening = {ask, fd};
	int board = -1;

	if (!ipc_share_granted(ask, &board))
		return -FI_ENOENT;
	if (board >= 0)
		return ipc_share_open_board(ask, board, fd);
	return ipc_own_hold(ask->id, ipc_share_open_memory, &opening);
}

static void ipc_share_reply(int conn, int status, int fd)
{
	struct ipc_share_answer answer = {.magic = IPC_SHARE_MAGIC, .status = status};
	struct iovec iov = {&answer, sizeof answer};
	union ipc_share_room room = {
		.head.cmsg_len = CMSG_LEN(sizeof fd),
		.head.cmsg_level = SOL_SOCKET,
		.head.cmsg_type = SCM_RIGHTS,
	};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (!status) {
		memcpy(CMSG_DATA(&room.head), &fd, sizeof fd);
		msg.msg_control = &room;
		msg.msg_controllen = sizeof room;
	}
	if (sendmsg(conn, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		P2P_INFO("who asked for memory is gone: %s\n", strerror(errno));
}

static void ipc_share_give(int conn, const struct ipc_share_ask *ask)
{
	int fd = -1, status = ipc_share_open(ask, &fd);

	ipc_share_reply(conn, status, fd);
	if (!status)
		close(fd);
}

/* Has the allocation been freed? What its runtime does not say now it may say the next time. */
static bool ipc_share_freed(const struct ipc_place *place)
{
	uint64_t id;
	const int ret = dev_identify((void *) (uintptr_t) place->base, &id);

	return !ret || (ret == 1 && id != place->id);
}

static void ipc_share_tell(int conn, const struct ipc_share_look *look)
{
	struct ipc_share_seen seen = {.magic = IPC_SHARE_MAGIC_LOOK, .count = look->count};

	for (uint32_t i = 0; i < look->count; i++)
		seen.gone |= (uint64_t) ipc_share_freed(&look->places[i]) << i;
	/* who has not waited asks again */
	send(conn, &seen, sizeof seen, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static size_t ipc_share_look_size(uint32_t count)
{
	return offsetof(struct ipc_share_look, places) + count * sizeof(struct ipc_place);
}

/* It has asked, gone, or been silent for too long */
static void ipc_share_answer(int conn)
{
	union ipc_share_question question = {.magic = 0};
	/* of a longer message, the length is told that it had */
	const ssize_t len = recv(conn, &question, sizeof question, MSG_DONTWAIT | MSG_TRUNC);

	if (len == sizeof question.ask && question.magic == IPC_SHARE_MAGIC)
		ipc_share_give(conn, &question.ask);
	else if (question.magic == IPC_SHARE_MAGIC_LOOK && question.look.count &&
		 question.look.count <= IPC_PLACES &&
		 len == (ssize_t) ipc_share_look_size(question.look.count))
		ipc_share_tell(conn, &question.look);
	else
		P2P_WARN("somebody asks for memory who is no ofi_p2p, or says nothing\n");
}

/**
 * struct ipc_share_clients - who has connected, and not asked yet.
 * @fds:	what is polled: first who listens, then @count others, the oldest one first
 * @ends:	until when each of these is waited for (clock_end())
 */
struct ipc_share_clients {
	struct pollfd fds[1 + IPC_SHARE_CLIENTS];
	int64_t ends[1 + IPC_SHARE_CLIENTS];
	int count;
};

static void ipc_share_dismiss(struct ipc_share_clients *clients, int i)
{
	const size_t behind = clients->count - i;

	ipc_share_answer(clients->fds[i].fd);
	close(clients->fds[i].fd);
	memmove(&clients->fds[i], &clients->fds[i + 1], behind * sizeof *clients->fds);
	memmove(&clients->ends[i], &clients->ends[i + 1], behind * sizeof *clients->ends);
	clients->count--;
}

/* False: ipc_share_stop() has ended it */
static bool ipc_share_accept(struct ipc_share_clients *clients)
{
	int conn = accept4(clients->fds[0].fd, NULL, NULL, SOCK_CLOEXEC);

	if (conn < 0 && (errno == EINVAL || errno == EBADF))
		return false;
	if (conn < 0 && errno != EINTR && errno != ECONNABORTED) {
		P2P_WARN("accept4: %s\n", strerror(errno));
		poll(NULL, 0, IPC_SHARE_PAUSE);
	} else if (conn >= 0 && !ipc_share_trusts(conn)) {
		P2P_WARN("another user's process asks for memory\n");
		close(conn);
	} else if (conn >= 0) {
		if (clients->count == IPC_SHARE_CLIENTS)
			ipc_share_dismiss(clients, 1);
		clients->count++;
		clients->fds[clients->count] = (struct pollfd){.fd = conn, .events = POLLIN};
		clients->ends[clients->count] = clock_end(IPC_SHARE_PATIENCE);
	}
	return true;
}

static void *ipc_share_serve(void *arg)
{
	struct ipc_share_clients clients = {
		.fds = {{.fd = *(const int *) arg, .events = POLLIN}},
	};

	do {
		int wait = clients.count ? (int) clock_left(clients.ends[1]) : -1;

		if (poll(clients.fds, 1 + clients.count, wait) < 0)
			continue;
		for (int i = clients.count; i; i--) {
			if (clients.fds[i].revents || !clock_left(clients.ends[i]))
				ipc_share_dismiss(&clients, i);
		}
	} while (!clients.fds[0].revents || ipc_share_accept(&clients));
	while (clients.count)
		ipc_share_dismiss(&clients, clients.count);
	return NULL;
}

/* What the thread listens at, or -1 */
static int ipc_share_fd = -1;
static pthread_t ipc_share_thread;
/* It could not be started */
static struct retry ipc_share_retry;

/* A child has no such thread. Who asks its parent after that has ended is not to wait for an answer. */
static void ipc_share_forget(void)
{
	if (ipc_share_fd >= 0)
		close(ipc_share_fd);
	ipc_share_fd = -1;
}

static int ipc_share_listen(uint64_t process)
{
	struct sockaddr_un address;
	const socklen_t len = ipc_share_address(process, &address);
	int fd, ret;

	process_forget(ipc_share_forget);
	fd = ipc_share_fd = ipc_share_socket(0);
	if (fd >= 0 && !bind(fd, (struct sockaddr *) &address, len) &&
	    !listen(fd, IPC_SHARE_BACKLOG)) {
		ret = thread_start(&ipc_share_thread, "p2p_share", ipc_share_serve,
				   &ipc_share_fd);
	} else {
		ret = -errno;
		P2P_WARN("other processes cannot ask for device memory of this one: %s\n",
			 strerror(-ret));
	}
	if (!ret)
		return 0;
	retry_failed(&ipc_share_retry);
	ipc_share_fd = -1;
	if (fd >= 0)
		close(fd);
	return ret;
}

int ipc_share_start(uint64_t process)
{
	int ret = 0;

	process_lock(PROCESS_SHARING);
	if (ipc_share_fd < 0)
		ret = retry_due(&ipc_share_retry) ? ipc_share_listen(process) : -FI_EAGAIN;
	process_unlock(PROCESS_SHARING);
	return ret;
}

void ipc_share_stop(void)
{
	int fd;

	process_lock(PROCESS_SHARING);
	fd = ipc_share_fd;
	if (fd >= 0) {
		shutdown(fd, SHUT_RDWR);
		pthread_join(ipc_share_thread, NULL);
		/* first, as a child would close what has the number then */
		ipc_share_fd = -1;
		close(fd);
	}
	process_unlock(PROCESS_SHARING);
}

/* ---- the others ---- */

/* The descriptor that came with an answer; -1: none, or more than one, which are closed */
static int ipc_share_received(struct msghdr *msg)
{
	int fd = -1, next, count = 0;
	struct cmsghdr *head;

	for (head = CMSG_FIRSTHDR(msg); head; head = CMSG_NXTHDR(msg, head)) {
		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof next <= head->cmsg_len;
		     at += sizeof next) {
			memcpy(&next, (char *) head + at, sizeof next);
			if (fd >= 0)
				close(fd);
			fd = next;
			count++;
		}
	}
	if (fd < 0 || (count == 1 && !(msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC))))
		return fd;
	close(fd);
	return -1;
}

static int ipc_share_ask(int conn, const struct ipc_offer *offer, int *fd, const char **why)
{
	struct ipc_share_ask ask = {
		.magic = IPC_SHARE_MAGIC,
		.id = offer->id,
		.base = offer->base,
		.size = offer->size,
	};
	struct ipc_share_answer answer;
	struct iovec iov = {&answer, sizeof answer};
	union ipc_share_room room;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &room,
		.msg_controllen = sizeof room,
	};
	bool looked = false;
	int got = -1;
	ssize_t len;

	memcpy(ask.word, offer->handle, sizeof ask.word);
	*why = "the owner of the memory does not answer";
	if (send(conn, &ask, sizeof ask, MSG_NOSIGNAL) != sizeof ask)
		return -FI_EIO;
	/* as in ipc_share_seen() */
	while (!(len = recvmsg(conn, &msg, MSG_CMSG_CLOEXEC)) && !looked) {
		looked = true;
		msg.msg_controllen = sizeof room;
	}
	/* a signal is no answer, but one may come */
	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? -FI_EAGAIN : -FI_EIO;
	got = ipc_share_received(&msg);
	if (len == sizeof answer && answer.magic == IPC_SHARE_MAGIC) {
		*why = "the owner of the memory does not share it";
		if (!answer.status && got >= 0) {
			*fd = got;
			return 0;
		}
	}
	if (got >= 0)
		close(got);
	return -FI_EOPNOTSUPP;
}

int ipc_share_get(const struct ipc_offer *offer, int *fd, const char **why)
{
	struct sockaddr_un address;
	const socklen_t len = ipc_share_address(offer->process, &address);
	int conn = ipc_share_socket(0), ret = -FI_EIO;

	*fd = -1;
	*why = "no socket to ask the owner of the memory";
	if (conn < 0)
		return ret;
	if (connect(conn, (struct sockaddr *) &address, len)) {
		*why = "the owner of the memory cannot be asked";
		/* too many others wait for its answer, and a signal may come meanwhile */
		if (errno == EAGAIN || errno == EINTR)
			ret = -FI_EAGAIN;
	} else if (!ipc_share_trusts(conn)) {
		*why = "who answers for the owner of the memory is another user";
	} else {
		ret = ipc_share_ask(conn, offer, fd, why);
	}
	if (ret == -FI_EAGAIN)
		*fd = conn;
	else
		close(conn);
	return ret;
}

int ipc_share_look(uint64_t process, const struct ipc_place *places, uint32_t count)
{
	struct ipc_share_look look = {.magic = IPC_SHARE_MAGIC_LOOK, .count = count};
	struct sockaddr_un address;
	const socklen_t len = ipc_share_address(process, &address);
	int conn = ipc_share_socket(SOCK_NONBLOCK), ret;

	if (conn < 0)
		return -errno;
	memcpy(look.places, places, count * sizeof *places);
	if (connect(conn, (struct sockaddr *) &address, len))
		ret = -errno;
	else if (!ipc_share_trusts(conn))
		ret = -FI_EACCES;
	else if (send(conn, &look, ipc_share_look_size(count), MSG_NOSIGNAL) < 0)
		ret = -errno;
	else
		return conn;
	close(conn);
	return ret;
}

int ipc_share_seen(int conn, uint32_t count, uint64_t *gone)
{
	struct ipc_share_seen seen;
	ssize_t len = recv(conn, &seen, sizeof seen, MSG_DONTWAIT | MSG_TRUNC);

	/* Linux looks for an answer, and then for the end: both may have come in between */
	if (!len)
		len = recv(conn, &seen, sizeof seen, MSG_DONTWAIT | MSG_TRUNC);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return -FI_EAGAIN;
	close(conn);
	if (len != sizeof seen || seen.magic != IPC_SHARE_MAGIC_LOOK || seen.count != count)
		return -FI_EIO;
	*gone = seen.gone;
	return 0;
}
