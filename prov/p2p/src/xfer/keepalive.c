/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Signs of life from other processes. See keepalive.h. */
#include "xfer/keepalive.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <linux/errqueue.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"

/* a library does not end the process when memory is short */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define KEEPALIVE_MAGIC 0x7032704bu /* "p2pK" */

enum { KEEPALIVE_ASKS = 1, KEEPALIVE_ANSWERS, KEEPALIVE_BURIES };

/* So many dead tokens are remembered; and messages, and sockets, are taken in at a time */
#define KEEPALIVE_GRAVES 256
#define KEEPALIVE_BATCH 256
#define KEEPALIVE_READY 64

/* A question, or its answer; or @nonce is a dead token */
struct keepalive_msg {
	uint32_t magic;
	uint32_t kind;
	uint64_t process;
	uint64_t nonce;
};

/**
 * struct keepalive - an endpoint of another process that may be asked for.
 * @nonce:	the number that its answers repeat
 * @at:		an IPv4 address is mapped: ::ffff:a.b.c.d
 * @answers, @refused: the thread writes them
 */
struct keepalive {
	uint64_t nonce;
	uint64_t process;
	struct sockaddr_in6 at;
	unsigned int answers;
	bool refused;
	UT_hash_handle hh;
};

/**
 * struct keepalive_service - this process's thread and its sockets.
 * @fd:		asks; and is asked for endpoints that have no socket of their own
 * @family:	AF_INET6, which serves both kinds of IP, or AF_INET
 * @set:	an epoll instance: what the thread looks at
 * @stop:	an eventfd: the thread is to end
 * @owner:	a child has its parent's variables, and not the thread
 */
struct keepalive_service {
	int fd;
	int family;
	int set;
	int stop;
	pthread_t thread;
	pid_t owner;
	unsigned int users;
	uint16_t port;
	uint64_t process;
};

static pthread_mutex_t keepalive_lock = PTHREAD_MUTEX_INITIALIZER;
static struct keepalive_service *keepalive_service;
static struct keepalive *keepalive_asked;
static uint64_t keepalive_graves[KEEPALIVE_GRAVES];
static unsigned int keepalive_grave_count;

/* ---- the thread ---- */

/* The one whose question has this number. With the lock held */
static struct keepalive *keepalive_find(uint64_t nonce)
{
	struct keepalive *found;

	HASH_FIND(hh, keepalive_asked, &nonce, sizeof nonce, found);
	return found;
}

static bool keepalive_read_msg(const void *buf, ssize_t len, struct keepalive_msg *msg)
{
	if (len != sizeof *msg)
		return false;
	memcpy(msg, buf, sizeof *msg);
	msg->kind = le32toh(msg->kind);
	return le32toh(msg->magic) == KEEPALIVE_MAGIC;
}

/* With the lock held */
static void keepalive_hear(const struct keepalive_service *service, int fd,
			   struct keepalive_msg *msg, const struct sockaddr_in6 *from,
			   socklen_t from_len)
{
	bool ours = le64toh(msg->process) == service->process;
	struct keepalive *keepalive;

	if (msg->kind == KEEPALIVE_ASKS && ours) {
		msg->kind = htole32(KEEPALIVE_ANSWERS);
		sendto(fd, msg, sizeof *msg, MSG_DONTWAIT, (const struct sockaddr *) from,
		       from_len);
	} else if (msg->kind == KEEPALIVE_BURIES && ours) {
		keepalive_graves[keepalive_grave_count % KEEPALIVE_GRAVES] =
			le64toh(msg->nonce);
		__atomic_fetch_add(&keepalive_grave_count, 1, __ATOMIC_RELEASE);
	} else if (msg->kind == KEEPALIVE_ANSWERS) {
		keepalive = keepalive_find(msg->nonce);
		if (keepalive)
			__atomic_fetch_add(&keepalive->answers, 1, __ATOMIC_RELAXED);
	}
}

/*
 * A host tells that a question has found no port. It repeats the question, which it cannot guess. With
 * the lock held
 */
static void keepalive_hear_error(const struct msghdr *head, const struct keepalive_msg *msg)
{
	const struct sock_extended_err *error = NULL;
	struct keepalive *keepalive;
	struct cmsghdr *part;

	for (part = CMSG_FIRSTHDR(head); part;
	     part = CMSG_NXTHDR((struct msghdr *) head, part)) {
		if ((part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR) ||
		    (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR))
			error = (const struct sock_extended_err *) CMSG_DATA(part);
	}
	if (!error || error->ee_errno != ECONNREFUSED)
		return;
	keepalive = keepalive_find(msg->nonce);
	if (keepalive)
		__atomic_store_n(&keepalive->refused, true, __ATOMIC_RELAXED);
}

/* False: there is nothing to receive now. With the lock held */
static bool keepalive_receive(const struct keepalive_service *service, int fd, int flags)
{
	uint64_t room[64], control[64];
	struct iovec iov = {room, sizeof room};
	struct sockaddr_in6 from;
	struct msghdr head = {
		.msg_name = &from,
		.msg_namelen = sizeof from,
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control,
	};
	struct keepalive_msg msg;
	ssize_t len = recvmsg(fd, &head, flags | MSG_DONTWAIT);

	if (len < 0)
		/* an error of what was sent is told here, too */
		return errno != EAGAIN && errno != EINTR;
	if (!keepalive_read_msg(room, len, &msg))
		return true;
	if (flags & MSG_ERRQUEUE)
		keepalive_hear_error(&head, &msg);
	else
		keepalive_hear(service, fd, &msg, &from, head.msg_namelen);
	return true;
}

/* What has come to a socket, but not without end: more may come meanwhile. With the lock held */
static void keepalive_take(const struct keepalive_service *service, int fd)
{
	for (int i = 0; i < KEEPALIVE_BATCH; i++) {
		if (!keepalive_receive(service, fd, MSG_ERRQUEUE) &&
		    !keepalive_receive(service, fd, 0))
			break;
	}
}

/* With the lock held: so none of the sockets is closed meanwhile */
static void keepalive_take_all(const struct keepalive_service *service)
{
	struct epoll_event ready[KEEPALIVE_READY];
	int count = epoll_wait(service->set, ready, KEEPALIVE_READY, 0);

	for (int i = 0; i < count; i++) {
		if (ready[i].data.fd != service->stop)
			keepalive_take(service, ready[i].data.fd);
	}
}

/* Waits until there is something to take. False: the thread is to end */
static bool keepalive_wait(const struct keepalive_service *service)
{
	struct epoll_event ready[KEEPALIVE_READY];
	int count = epoll_wait(service->set, ready, KEEPALIVE_READY, -1);

	for (int i = 0; i < count; i++) {
		if (ready[i].data.fd == service->stop)
			return false;
	}
	/* a program may close descriptors that are not its own */
	return count >= 0 || errno == EINTR;
}

static void *keepalive_run(void *arg)
{
	const struct keepalive_service *service = arg;

	while (keepalive_wait(service)) {
		pthread_mutex_lock(&keepalive_lock);
		keepalive_take_all(service);
		pthread_mutex_unlock(&keepalive_lock);
	}
	return NULL;
}

/* ---- its life ---- */

/* What an IPv6 socket has to be told, to serve IPv4 as well */
static int keepalive_socket_widen(int fd)
{
	const int off = 0, on = 1;

	return setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) ||
	       setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on);
}

/* A socket for both kinds of IP, or where there is no IPv6, for the other. Negative: an error */
static int keepalive_socket(uint16_t *port, int *family)
{
	/* the wildcard address in both; the port is at one place in both, too */
	struct sockaddr_in6 at = {.sin6_family = AF_INET6};
	socklen_t len = sizeof at;
	const int on = 1;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0) {
		at.sin6_family = AF_INET;
		len = sizeof(struct sockaddr_in);
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	}
	if (fd < 0)
		return -errno;
	*family = at.sin6_family;
	if ((*family == AF_INET6 && keepalive_socket_widen(fd)) ||
	    setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on) ||
	    bind(fd, (struct sockaddr *) &at, len) ||
	    getsockname(fd, (struct sockaddr *) &at, &len)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	*port = ntohs(at.sin6_port);
	return fd;
}

static void keepalive_service_free(struct keepalive_service *service)
{
	if (service->fd >= 0)
		close(service->fd);
	if (service->stop >= 0)
		close(service->stop);
	if (service->set >= 0)
		close(service->set);
	free(service);
}

/* From now on the thread looks at @fd. 0 or a negative error */
static int keepalive_watch(const struct keepalive_service *service, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(service->set, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static struct keepalive_service *keepalive_service_new(uint64_t process)
{
	struct keepalive_service *service = calloc(1, sizeof *service);

	if (!service)
		return NULL;
	service->owner = getpid();
	service->process = process;
	service->set = epoll_create1(EPOLL_CLOEXEC);
	service->stop = eventfd(0, EFD_CLOEXEC);
	service->fd = keepalive_socket(&service->port, &service->family);
	if (service->fd >= 0 && !keepalive_watch(service, service->fd) &&
	    !keepalive_watch(service, service->stop) &&
	    !thread_start(&service->thread, "p2p_keepalive", keepalive_run, service))
		return service;
	P2P_WARN("no signs of life are given (%s): peers take this process for dead if it does "
		 "not call libfabric for FI_P2P_PEER_TIMEOUT\n",
		 service->fd < 0 ? fi_strerror(-service->fd) : "no thread");
	keepalive_service_free(service);
	return NULL;
}

/* With the lock held */
static void keepalive_use_begin(struct keepalive_use *use, uint64_t process)
{
	use->tried = true;
	if (keepalive_service && keepalive_service->owner != getpid()) {
		keepalive_service_free(keepalive_service);
		keepalive_service = NULL;
	}
	if (!keepalive_service)
		keepalive_service = keepalive_service_new(process);
	if (keepalive_service) {
		keepalive_service->users++;
		use->port = keepalive_service->port;
	}
}

/* With the lock held */
static void keepalive_ear_open(struct keepalive_ear *ear)
{
	int family;

	ear->fd = keepalive_socket(&ear->port, &family);
	ear->own = ear->fd >= 0 && !keepalive_watch(keepalive_service, ear->fd);
	if (ear->own)
		return;
	if (ear->fd >= 0)
		close(ear->fd);
	ear->port = keepalive_service->port;
	P2P_INFO("no socket for signs of life of one endpoint: peers do not see when it is "
		 "closed\n");
}

uint16_t keepalive_port(struct keepalive_use *use, struct keepalive_ear *ear, uint64_t process)
{
	if (ear->port || (use->tried && !use->port))
		return ear->port;
	pthread_mutex_lock(&keepalive_lock);
	if (!use->tried)
		keepalive_use_begin(use, process);
	if (use->port)
		keepalive_ear_open(ear);
	pthread_mutex_unlock(&keepalive_lock);
	return ear->port;
}

void keepalive_hush(struct keepalive_ear *ear)
{
	if (!ear->own)
		return;
	pthread_mutex_lock(&keepalive_lock);
	if (keepalive_service && keepalive_service->owner == getpid()) {
		/* who has never had an answer does not believe that nobody is there */
		keepalive_take(keepalive_service, ear->fd);
		/* a child may have the descriptor, too: it would stay in the set */
		epoll_ctl(keepalive_service->set, EPOLL_CTL_DEL, ear->fd, NULL);
	}
	close(ear->fd);
	pthread_mutex_unlock(&keepalive_lock);
	*ear = (struct keepalive_ear){.port = 0};
}

void keepalive_end(struct keepalive_use *use)
{
	const uint64_t one = 1;
	struct keepalive_service *last = NULL;

	if (!use->port)
		return;
	pthread_mutex_lock(&keepalive_lock);
	if (keepalive_service->owner == getpid() && !--keepalive_service->users) {
		last = keepalive_service;
		keepalive_service = NULL;
	}
	pthread_mutex_unlock(&keepalive_lock);
	*use = (struct keepalive_use){.port = 0};
	if (!last)
		return;
	while (write(last->stop, &one, sizeof one) < 0 && errno == EINTR)
		;
	pthread_join(last->thread, NULL);
	keepalive_service_free(last);
}

/* ---- who is asked ---- */

/* Where its host is. False: nobody knows */
static bool keepalive_host(struct sockaddr_in6 *at, const void *name, size_t len, bool near)
{
	struct sockaddr_in in = {.sin_family = AF_UNSPEC};

	*at = (struct sockaddr_in6){.sin6_family = AF_UNSPEC};
	memcpy(&in, name, P2P_MIN(len, sizeof in));
	if (in.sin_family == AF_INET6 && len >= sizeof *at) {
		memcpy(at, name, sizeof *at);
		return true;
	}
	if (in.sin_family != AF_INET || len < sizeof in) {
		if (!near)
			return false;
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	/* ::ffff:a.b.c.d */
	at->sin6_family = AF_INET6;
	memset(at->sin6_addr.s6_addr + 10, 0xff, 2);
	memcpy(at->sin6_addr.s6_addr + 12, &in.sin_addr, 4);
	return true;
}

struct keepalive *keepalive_open(uint64_t process, uint16_t port, const void *name, size_t len,
				 bool near)
{
	struct keepalive *keepalive = calloc(1, sizeof *keepalive);

	if (!keepalive)
		return NULL;
	if (!port || !keepalive_host(&keepalive->at, name, len, near) ||
	    random_fill(&keepalive->nonce, sizeof keepalive->nonce)) {
		free(keepalive);
		return NULL;
	}
	keepalive->at.sin6_port = htons(port);
	keepalive->process = process;
	pthread_mutex_lock(&keepalive_lock);
	HASH_ADD(hh, keepalive_asked, nonce, sizeof keepalive->nonce, keepalive);
	pthread_mutex_unlock(&keepalive_lock);
	if (keepalive->hh.tbl)
		return keepalive;
	free(keepalive);
	return NULL;
}

void keepalive_close(struct keepalive *keepalive)
{
	if (!keepalive)
		return;
	pthread_mutex_lock(&keepalive_lock);
	HASH_DELETE(hh, keepalive_asked, keepalive);
	pthread_mutex_unlock(&keepalive_lock);
	free(keepalive);
}

static void keepalive_send(struct keepalive *keepalive, uint32_t kind, uint64_t nonce)
{
	const struct keepalive_msg msg = {
		.magic = htole32(KEEPALIVE_MAGIC),
		.kind = htole32(kind),
		.process = htole64(keepalive->process),
		.nonce = nonce,
	};
	const struct sockaddr *at = (const struct sockaddr *) &keepalive->at;
	struct sockaddr_in at4 = {.sin_family = AF_INET, .sin_port = keepalive->at.sin6_port};
	socklen_t len = sizeof keepalive->at;
	int tries = 2;

	pthread_mutex_lock(&keepalive_lock);
	if (keepalive_service && keepalive_service->family == AF_INET) {
		memcpy(&at4.sin_addr, keepalive->at.sin6_addr.s6_addr + 12, 4);
		at = (const struct sockaddr *) &at4;
		len = sizeof at4;
	}
	/* the first call may tell the error of an earlier question */
	while (keepalive_service && tries-- &&
	       sendto(keepalive_service->fd, &msg, sizeof msg, MSG_DONTWAIT, at, len) < 0)
		;
	pthread_mutex_unlock(&keepalive_lock);
}

void keepalive_ask(struct keepalive *keepalive)
{
	keepalive_send(keepalive, KEEPALIVE_ASKS, keepalive->nonce);
}

void keepalive_bury(struct keepalive *keepalive, uint64_t token)
{
	keepalive_send(keepalive, KEEPALIVE_BURIES, htole64(token));
}

void keepalive_drain(void)
{
	pthread_mutex_lock(&keepalive_lock);
	if (keepalive_service)
		keepalive_take_all(keepalive_service);
	pthread_mutex_unlock(&keepalive_lock);
}

bool keepalive_buried(uint64_t token)
{
	bool buried = false;

	if (!__atomic_load_n(&keepalive_grave_count, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_lock(&keepalive_lock);
	for (unsigned int i = 0; i < KEEPALIVE_GRAVES; i++)
		buried |= keepalive_graves[i] == token;
	pthread_mutex_unlock(&keepalive_lock);
	return buried;
}

unsigned int keepalive_answers(const struct keepalive *keepalive)
{
	return __atomic_load_n(&keepalive->answers, __ATOMIC_RELAXED);
}

bool keepalive_gone(const struct keepalive *keepalive)
{
	return keepalive_answers(keepalive) &&
	       __atomic_load_n(&keepalive->refused, __ATOMIC_RELAXED);
}
