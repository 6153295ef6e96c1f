/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Device memory shared by descriptors. See ipc_share.h. */
#include "mem/ipc_share.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/thread.h"

#define IPC_SHARE_BACKLOG 64

/*
 * How long the owner waits for a question, and the other process for the answer [us]. The
 * answer may have to wait for the questions of others.
 */
#define IPC_SHARE_PATIENCE 200000
#define IPC_SHARE_PATIENCE_ASKING 900000

/* How long to wait when this process has no room for another connection [ms] */
#define IPC_SHARE_PAUSE 10

#define IPC_SHARE_MAGIC 0x7032706d

struct ipc_share_ask {
	uint32_t magic;
	uint32_t zero;
	uint64_t id;
	uint64_t base;
	uint64_t size;
};

/* @status: 0 if a descriptor comes with the answer, else a negative error */
struct ipc_share_answer {
	uint32_t magic;
	int32_t status;
};

/* Room for one descriptor */
union ipc_share_room {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int ipc_share_socket(void)
{
	const struct timeval patience = {.tv_usec = IPC_SHARE_PATIENCE_ASKING};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	/*
	 * connect() counts as sending, so this bounds it; accept() counts as receiving, without
	 * a bound
	 */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
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

/* Is the other end of the same user? If so, limits the wait for it to @patience [us]. */
static bool ipc_share_trusts(int fd, suseconds_t patience)
{
	const struct timeval limit = {.tv_usec = patience};
	socklen_t len = sizeof(struct ucred);
	struct ucred peer;

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && peer.uid == geteuid() &&
	       !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

/* ---- the owner ---- */

/* A descriptor of what is asked for, if the same allocation is still there */
static int ipc_share_open(const struct ipc_share_ask *ask, int *fd)
{
	struct dev_mem mem;
	const char *why;

	if (!dev_find((void *) (uintptr_t) ask->base, &mem) || mem.id != ask->id ||
	    mem.base != ask->base || mem.size != ask->size)
		return -FI_ENOENT;
	return mem.ops->ipc_share(&mem, fd, &why);
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
	if (sendmsg(conn, &msg, MSG_NOSIGNAL) < 0)
		P2P_INFO("who asked for memory is gone: %s\n", strerror(errno));
}

static void ipc_share_answer(int conn)
{
	struct ipc_share_ask ask;
	int status, fd = -1;

	if (!ipc_share_trusts(conn, IPC_SHARE_PATIENCE) ||
	    recv(conn, &ask, sizeof ask, 0) != sizeof ask || ask.magic != IPC_SHARE_MAGIC) {
		P2P_WARN("somebody asks for memory who is another user, or no ofi_p2p\n");
		return;
	}
	status = ipc_share_open(&ask, &fd);
	ipc_share_reply(conn, status, fd);
	if (!status)
		close(fd);
}

static void *ipc_share_serve(void *arg)
{
	const int fd = *(const int *) arg;
	int conn;

	for (;;) {
		conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (conn >= 0) {
			ipc_share_answer(conn);
			close(conn);
		} else if (errno == EINVAL || errno == EBADF) {
			/* ipc_share_stop() has ended it */
			return NULL;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			P2P_WARN("accept4: %s\n", strerror(errno));
			poll(NULL, 0, IPC_SHARE_PAUSE);
		}
	}
}

/*
 * @owner: the process that the rest belongs to. A child has the variables, but not the thread.
 */
static struct {
	pthread_mutex_t lock;
	pid_t owner;
	int fd;
	pthread_t thread;
} ipc_share = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int ipc_share_listen(uint64_t process)
{
	struct sockaddr_un address;
	const socklen_t len = ipc_share_address(process, &address);
	int ret;

	ipc_share.fd = ipc_share_socket();
	if (ipc_share.fd >= 0 && !bind(ipc_share.fd, (struct sockaddr *) &address, len) &&
	    !listen(ipc_share.fd, IPC_SHARE_BACKLOG)) {
		ret = thread_start(&ipc_share.thread, "p2p_share", ipc_share_serve,
				   &ipc_share.fd);
	} else {
		ret = -errno;
		P2P_WARN("device memory that has no handle is not shared with other "
			 "processes: %s\n",
			 strerror(-ret));
	}
	if (ret && ipc_share.fd >= 0)
		close(ipc_share.fd);
	return ret;
}

int ipc_share_start(uint64_t process)
{
	int ret = 0;

	pthread_mutex_lock(&ipc_share.lock);
	if (ipc_share.owner != getpid()) {
		/* the descriptor is the parent's */
		if (ipc_share.owner)
			close(ipc_share.fd);
		ret = ipc_share_listen(process);
		ipc_share.owner = ret ? 0 : getpid();
	}
	pthread_mutex_unlock(&ipc_share.lock);
	return ret;
}

void ipc_share_stop(void)
{
	pthread_mutex_lock(&ipc_share.lock);
	if (ipc_share.owner == getpid()) {
		shutdown(ipc_share.fd, SHUT_RDWR);
		pthread_join(ipc_share.thread, NULL);
		close(ipc_share.fd);
		ipc_share.owner = 0;
	}
	pthread_mutex_unlock(&ipc_share.lock);
}

/* ---- the others ---- */

/* The descriptor that came with an answer, or -1 */
static int ipc_share_received(struct msghdr *msg)
{
	const struct cmsghdr *head = CMSG_FIRSTHDR(msg);
	int fd;

	if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
	    head->cmsg_len != CMSG_LEN(sizeof fd))
		return -1;
	memcpy(&fd, CMSG_DATA(head), sizeof fd);
	return fd;
}

static int ipc_share_ask(int conn, const struct ipc_offer *offer, int *fd, const char **why)
{
	const struct ipc_share_ask ask = {
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

	*why = "the owner of the memory does not answer";
	if (send(conn, &ask, sizeof ask, MSG_NOSIGNAL) != sizeof ask ||
	    recvmsg(conn, &msg, MSG_CMSG_CLOEXEC) != sizeof answer ||
	    answer.magic != IPC_SHARE_MAGIC)
		return -FI_EIO;
	*fd = ipc_share_received(&msg);
	if (!answer.status && *fd >= 0)
		return 0;
	if (*fd >= 0)
		close(*fd);
	*why = "the owner of the memory does not share it";
	return -FI_EOPNOTSUPP;
}

int ipc_share_get(const struct ipc_offer *offer, int *fd, const char **why)
{
	struct sockaddr_un address;
	const socklen_t len = ipc_share_address(offer->process, &address);
	int conn = ipc_share_socket(), ret = -FI_EIO;

	*why = "no socket to ask the owner of the memory";
	if (conn < 0)
		return ret;
	if (connect(conn, (struct sockaddr *) &address, len))
		*why = "the owner of the memory cannot be asked (another network namespace?)";
	else if (!ipc_share_trusts(conn, IPC_SHARE_PATIENCE_ASKING))
		*why = "who answers for the owner of the memory is another user";
	else
		ret = ipc_share_ask(conn, offer, fd, why);
	close(conn);
	return ret;
}
