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
#include "base/process.h"
#include "base/random.h"
#include "base/room.h"
#include "base/thread.h"

/* a library does not end the process when memory is short */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define KEEPALIVE_MAGIC 0x7032704bu /* "p2pK" */

enum { KEEPALIVE_ASKS = 1, KEEPALIVE_ANSWERS, KEEPALIVE_RESETS };

/*
 * In one look, so many sockets are read, and so much is taken from each: more may come meanwhile. To drain a socket is to
 * take all that it had, which is less than that: Linux keeps some 280 datagrams.
 */
#define KEEPALIVE_READY 16
#define KEEPALIVE_BATCH 16
#define KEEPALIVE_ALL 512

/* A question, or its answer; or @nonce is a dead token */
struct keepalive_msg {
	uint32_t magic;
	uint32_t kind;
	uint64_t process;
	uint64_t nonce;
};

/**
 * struct keepalive - an endpoint of another process.
 * @sock:	the endpoint of ours that asks; NULL: it cannot be asked
 * @here:	its process has the same id in this namespace
 * @nonce:	the number that its answers repeat
 * @at:		an IPv4 address is mapped: ::ffff:a.b.c.d
 * @token:	it bears this one in its messages; @reset: it has said that this one is dead
 * @answers, @refused, @reset: whoever takes in datagrams writes them
 */
struct keepalive {
	const struct keepalive_sock *sock;
	bool here;
	uint64_t nonce;
	uint64_t process;
	struct sockaddr_in6 at;
	uint64_t token;
	uint64_t reset;
	unsigned int answers;
	bool refused;
	UT_hash_handle hh;
};

/**
 * struct keepalive_sock - the socket of one endpoint.
 * @number:	no other one of the process has it, or has had it: events name the socket by it
 * @users:	who may use @fd: its owner, and whoever takes in what has come
 * @family:	AF_INET6, which serves both kinds of IP, or AF_INET
 * @process:	our number
 */
struct keepalive_sock {
	uint64_t number;
	unsigned int users;
	int fd;
	sa_family_t family;
	uint16_t port;
	uint64_t process;
	struct keepalive_service *service;
	UT_hash_handle hh;
};

/**
 * struct keepalive_service - this process's thread.
 * @users:	sockets, and whoever takes in what has come; the last one ends it
 * @set:	an epoll instance: what the thread looks at
 * @stop:	an eventfd, in @set as number 0: the thread is to end
 * @reads:	held while what has come is taken from a socket, and until it is noted: so who finds nothing there knows
 *		all that has come
 */
struct keepalive_service {
	unsigned int users;
	int set;
	int stop;
	pthread_t thread;
	pthread_mutex_t reads;
};

/* PROCESS_TABLES guards them, and the counts of users. Nobody holds it over a call of the system. */
static struct keepalive_service *keepalive_service;
static struct keepalive_sock *keepalive_socks;
static struct keepalive *keepalive_asked;

/* ---- datagrams ---- */

/* An address in the form that the socket wants. Returns its length */
static socklen_t keepalive_form(const struct keepalive_sock *sock,
				const struct sockaddr_in6 *at, struct sockaddr_in6 *form)
{
	struct sockaddr_in at4 = {.sin_family = AF_INET, .sin_port = at->sin6_port};

	*form = *at;
	if (sock->family == AF_INET6)
		return sizeof *form;
	if (at->sin6_family == AF_INET6) {
		memcpy(&at4.sin_addr, at->sin6_addr.s6_addr + 12, sizeof at4.sin_addr);
		memcpy(form, &at4, sizeof at4);
	}
	return sizeof at4;
}

/* The first call may tell the error of an earlier question */
static void keepalive_send_to(const struct keepalive_sock *sock,
			      const struct keepalive_msg *msg, const struct sockaddr_in6 *at)
{
	struct sockaddr_in6 form;
	const socklen_t len = keepalive_form(sock, at, &form);
	int tries = 2;

	while (tries-- && sendto(sock->fd, msg, sizeof *msg, MSG_DONTWAIT,
				 (const struct sockaddr *) &form, len) < 0)
		;
}

static bool keepalive_read_msg(const void *buf, ssize_t len, struct keepalive_msg *msg)
{
	if (len != sizeof *msg)
		return false;
	memcpy(msg, buf, sizeof *msg);
	msg->kind = le32toh(msg->kind);
	return le32toh(msg->magic) == KEEPALIVE_MAGIC;
}

/* The question with this number has its answer, or found nobody */
static void keepalive_told(uint64_t nonce, bool refused)
{
	struct keepalive *keepalive;

	process_lock(PROCESS_TABLES);
	HASH_FIND(hh, keepalive_asked, &nonce, sizeof nonce, keepalive);
	if (keepalive && refused)
		__atomic_store_n(&keepalive->refused, true, __ATOMIC_RELAXED);
	else if (keepalive)
		__atomic_fetch_add(&keepalive->answers, 1, __ATOMIC_RELAXED);
	process_unlock(PROCESS_TABLES);
}

/* Whoever bears it says that it is dead. That is rare, so all are looked through */
static void keepalive_told_reset(uint64_t token)
{
	struct keepalive *keepalive, *next;

	process_lock(PROCESS_TABLES);
	HASH_ITER(hh, keepalive_asked, keepalive, next) {
		if (__atomic_load_n(&keepalive->token, __ATOMIC_RELAXED) == token)
			__atomic_store_n(&keepalive->reset, token, __ATOMIC_RELAXED);
	}
	process_unlock(PROCESS_TABLES);
}

static void keepalive_hear(const struct keepalive_sock *sock, struct keepalive_msg *msg,
			   const struct sockaddr_in6 *from)
{
	const bool ours = le64toh(msg->process) == sock->process;

	if (msg->kind == KEEPALIVE_ASKS && ours) {
		msg->kind = htole32(KEEPALIVE_ANSWERS);
		keepalive_send_to(sock, msg, from);
	} else if (msg->kind == KEEPALIVE_RESETS && ours) {
		keepalive_told_reset(le64toh(msg->nonce));
	} else if (msg->kind == KEEPALIVE_ANSWERS) {
		keepalive_told(msg->nonce, false);
	}
}

/* A host tells that a question has found no port. It repeats the question, which it cannot guess. */
static void keepalive_hear_error(const struct msghdr *head, const struct keepalive_msg *msg)
{
	const struct sock_extended_err *error = NULL;
	struct cmsghdr *part;

	for (part = CMSG_FIRSTHDR(head); part;
	     part = CMSG_NXTHDR((struct msghdr *) head, part)) {
		if ((part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR) ||
		    (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR))
			error = (const struct sock_extended_err *) CMSG_DATA(part);
	}
	if (error && error->ee_errno == ECONNREFUSED)
		keepalive_told(msg->nonce, true);
}

/* False: there is nothing to receive now */
static bool keepalive_receive(const struct keepalive_sock *sock, int flags)
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
	ssize_t len = recvmsg(sock->fd, &head, flags | MSG_DONTWAIT);

	if (len < 0)
		/* an error of what was sent is told here, too */
		return errno != EAGAIN && errno != EINTR && errno != EBADF;
	if (!keepalive_read_msg(room, len, &msg))
		return true;
	if (flags & MSG_ERRQUEUE)
		keepalive_hear_error(&head, &msg);
	else
		keepalive_hear(sock, &msg, &from);
	return true;
}

/* What has come to a socket, but not without end: @most datagrams */
static void keepalive_take(const struct keepalive_sock *sock, int most)
{
	for (int i = 0; i < most; i++) {
		if (!keepalive_receive(sock, MSG_ERRQUEUE) && !keepalive_receive(sock, 0))
			break;
	}
}

/* ---- who uses what ---- */

/* The socket that an event names, for use; NULL: it has been closed meanwhile */
static struct keepalive_sock *keepalive_sock_get(uint64_t number)
{
	struct keepalive_sock *sock;

	process_lock(PROCESS_TABLES);
	HASH_FIND(hh, keepalive_socks, &number, sizeof number, sock);
	if (sock)
		sock->users++;
	process_unlock(PROCESS_TABLES);
	return sock;
}

/* Only the last user closes the socket: so nobody reads from what has its number afterwards. */
static void keepalive_sock_put(struct keepalive_sock *sock)
{
	bool last;

	process_lock(PROCESS_TABLES);
	last = !--sock->users;
	process_unlock(PROCESS_TABLES);
	if (!last)
		return;
	if (sock->fd >= 0)
		close(sock->fd);
	free(sock);
}

/* Takes what has come, @most from each socket. How many had something; negative: the thread is to end */
static int keepalive_look(const struct keepalive_service *service, int most)
{
	struct epoll_event ready[KEEPALIVE_READY];
	struct keepalive_sock *sock;
	bool on = true;
	int count = epoll_wait(service->set, ready, KEEPALIVE_READY, 0);

	for (int i = 0; i < count; i++) {
		if (!ready[i].data.u64) {
			on = false;
			continue;
		}
		sock = keepalive_sock_get(ready[i].data.u64);
		if (!sock)
			continue;
		keepalive_take(sock, most);
		keepalive_sock_put(sock);
	}
	return on ? count : -FI_ESHUTDOWN;
}

/* False: the thread is to end. A program may close descriptors that are not its own */
static bool keepalive_turn(struct keepalive_service *service)
{
	struct epoll_event ready;
	int ret;

	if (epoll_wait(service->set, &ready, 1, -1) < 0)
		return errno == EINTR;
	pthread_mutex_lock(&service->reads);
	ret = keepalive_look(service, KEEPALIVE_BATCH);
	pthread_mutex_unlock(&service->reads);
	return ret >= 0;
}

static void *keepalive_run(void *arg)
{
	while (keepalive_turn(arg))
		;
	return NULL;
}

/* ---- the thread's life ---- */

/* From now on the thread looks at @fd, whose events have that number. 0 or a negative error */
static int keepalive_watch(const struct keepalive_service *service, int fd, uint64_t number)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = number};

	return epoll_ctl(service->set, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void keepalive_service_free(struct keepalive_service *service)
{
	if (service->stop >= 0)
		close(service->stop);
	if (service->set >= 0)
		close(service->set);
	pthread_mutex_destroy(&service->reads);
	free(service);
}

static struct keepalive_service *keepalive_service_new(void)
{
	struct keepalive_service *service = calloc(1, sizeof *service);

	if (!service)
		return NULL;
	pthread_mutex_init(&service->reads, NULL);
	service->set = epoll_create1(EPOLL_CLOEXEC);
	service->stop = eventfd(0, EFD_CLOEXEC);
	if (service->set >= 0 && service->stop >= 0 &&
	    !keepalive_watch(service, service->stop, 0) &&
	    !thread_start(&service->thread, "p2p_keepalive", keepalive_run, service))
		return service;
	keepalive_service_free(service);
	return NULL;
}

static void keepalive_service_end(struct keepalive_service *service)
{
	const uint64_t one = 1;

	while (write(service->stop, &one, sizeof one) < 0 && errno == EINTR)
		;
	pthread_join(service->thread, NULL);
	keepalive_service_free(service);
}

/* Returns the service that there is, for use. @fresh takes its place if there is none */
static struct keepalive_service *keepalive_service_get(struct keepalive_service *fresh)
{
	struct keepalive_service *service;

	process_lock(PROCESS_TABLES);
	if (!keepalive_service)
		keepalive_service = fresh;
	service = keepalive_service;
	if (service)
		service->users++;
	process_unlock(PROCESS_TABLES);
	return service;
}

/* Counts a user of the service off, and ends it behind the last one. */
static void keepalive_service_put(struct keepalive_service *service)
{
	bool last;

	process_lock(PROCESS_TABLES);
	last = !--service->users;
	if (last)
		keepalive_service = NULL;
	process_unlock(PROCESS_TABLES);
	if (last)
		keepalive_service_end(service);
}

/* The same, started if need be; NULL: that failed */
static struct keepalive_service *keepalive_service_start(void)
{
	struct keepalive_service *service = keepalive_service_get(NULL), *fresh;

	if (service)
		return service;
	fresh = keepalive_service_new();
	service = keepalive_service_get(fresh);
	/* another thread was first */
	if (fresh && fresh != service)
		keepalive_service_end(fresh);
	return service;
}

/*
 * A child has none of these threads. It closes the sockets: the host is to tell who asks its parent that nobody is
 * there, once that has ended.
 */
static void keepalive_forget(void)
{
	struct keepalive_sock *sock, *next;

	HASH_ITER(hh, keepalive_socks, sock, next) {
		if (sock->fd >= 0)
			close(sock->fd);
		sock->fd = -1;
	}
	if (keepalive_service) {
		close(keepalive_service->stop);
		close(keepalive_service->set);
	}
	keepalive_socks = NULL;
	keepalive_asked = NULL;
	keepalive_service = NULL;
}

/* ---- the socket of an endpoint ---- */

/*
 * Where the host of the endpoint with this name is. If that is no IP address only processes of the same host, @near, know.
 * False: nobody does
 */
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

/* IPv6 serves IPv4, too. 0 or -1, with errno */
static int keepalive_set_options(const struct keepalive_sock *sock)
{
	const int off = 0, on = 1;

	if (sock->family == AF_INET6 &&
	    (setsockopt(sock->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) ||
	     setsockopt(sock->fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on)))
		return -1;
	return setsockopt(sock->fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
}

/* At the endpoint's own address, be it the wildcard. 0 or a negative error */
static int keepalive_sock_bind(struct keepalive_sock *sock, const void *name, size_t name_len)
{
	struct sockaddr_in6 at, form;
	socklen_t len;

	if (!keepalive_host(&at, name, name_len, true))
		return -FI_EADDRNOTAVAIL;
	at.sin6_port = 0;
	len = keepalive_form(sock, &at, &form);
	if (keepalive_set_options(sock) || bind(sock->fd, (struct sockaddr *) &form, len) ||
	    getsockname(sock->fd, (struct sockaddr *) &form, &len))
		return -errno;
	/* at one place for both kinds of IP */
	sock->port = ntohs(form.sin6_port);
	return keepalive_watch(sock->service, sock->fd, sock->number);
}

/* In the table before it is bound: a child that another thread makes closes its copy. False: no memory */
static bool keepalive_sock_list(struct keepalive_sock *sock)
{
	static uint64_t count;

	process_lock(PROCESS_TABLES);
	sock->number = ++count;
	HASH_ADD(hh, keepalive_socks, number, sizeof sock->number, sock);
	process_unlock(PROCESS_TABLES);
	return sock->hh.tbl;
}

static void keepalive_sock_end(struct keepalive_sock *sock)
{
	struct keepalive_service *service = sock->service;

	process_lock(PROCESS_TABLES);
	if (sock->hh.tbl)
		HASH_DELETE(hh, keepalive_socks, sock);
	process_unlock(PROCESS_TABLES);
	/* whoever else uses it lets go of it soon, but the port is not to be read from any more */
	if (service && sock->fd >= 0)
		epoll_ctl(service->set, EPOLL_CTL_DEL, sock->fd, NULL);
	keepalive_sock_put(sock);
	if (service)
		keepalive_service_put(service);
}

static int keepalive_sock_open(struct keepalive_sock *sock, const void *name, size_t len)
{
	int ret = room_spare(1);

	if (ret)
		return ret;
	process_forget(keepalive_forget);
	sock->service = keepalive_service_start();
	if (!sock->service)
		return -FI_EAGAIN;
	sock->family = AF_INET6;
	sock->fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock->fd < 0 && errno == EAFNOSUPPORT) {
		sock->family = AF_INET;
		sock->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	}
	if (sock->fd < 0)
		return -errno;
	return keepalive_sock_list(sock) ? keepalive_sock_bind(sock, name, len) : -FI_ENOMEM;
}

struct keepalive_sock *keepalive_listen(uint64_t process, const void *name, size_t len)
{
	struct keepalive_sock *sock = calloc(1, sizeof *sock);
	int ret = -FI_ENOMEM;

	if (sock) {
		sock->users = 1;
		sock->fd = -1;
		sock->process = process;
		ret = keepalive_sock_open(sock, name, len);
	}
	if (!ret)
		return sock;
	P2P_WARN("an endpoint gives no signs of life, and asks for none (%s): peers do not see "
		 "when it is closed\n",
		 fi_strerror(-ret));
	if (sock)
		keepalive_sock_end(sock);
	return NULL;
}

uint16_t keepalive_port(const struct keepalive_sock *sock)
{
	return sock ? sock->port : 0;
}

void keepalive_sock_close(struct keepalive_sock *sock)
{
	if (!sock)
		return;
	/* who has never had an answer does not believe that nobody is there */
	pthread_mutex_lock(&sock->service->reads);
	keepalive_take(sock, KEEPALIVE_ALL);
	pthread_mutex_unlock(&sock->service->reads);
	keepalive_sock_end(sock);
}

/* ---- who is asked ---- */

struct keepalive *keepalive_open(const struct keepalive_sock *sock, uint64_t process,
				 uint16_t port, const void *name, size_t len, bool near,
				 bool here)
{
	struct keepalive *keepalive = calloc(1, sizeof *keepalive);

	if (!keepalive || random_fill(&keepalive->nonce, sizeof keepalive->nonce)) {
		free(keepalive);
		return NULL;
	}
	if (port && keepalive_host(&keepalive->at, name, len, near))
		keepalive->sock = sock;
	keepalive->at.sin6_port = htons(port);
	keepalive->here = here;
	keepalive->process = process;
	process_lock(PROCESS_TABLES);
	HASH_ADD(hh, keepalive_asked, nonce, sizeof keepalive->nonce, keepalive);
	process_unlock(PROCESS_TABLES);
	if (keepalive->hh.tbl)
		return keepalive;
	free(keepalive);
	return NULL;
}

void keepalive_close(struct keepalive *keepalive)
{
	if (!keepalive)
		return;
	process_lock(PROCESS_TABLES);
	HASH_DELETE(hh, keepalive_asked, keepalive);
	process_unlock(PROCESS_TABLES);
	free(keepalive);
}

static void keepalive_send(const struct keepalive *keepalive, uint32_t kind, uint64_t nonce)
{
	const struct keepalive_msg msg = {
		.magic = htole32(KEEPALIVE_MAGIC),
		.kind = htole32(kind),
		.process = htole64(keepalive->process),
		.nonce = nonce,
	};

	if (keepalive->sock)
		keepalive_send_to(keepalive->sock, &msg, &keepalive->at);
}

void keepalive_ask(struct keepalive *keepalive)
{
	if (keepalive)
		keepalive_send(keepalive, KEEPALIVE_ASKS, keepalive->nonce);
}

void keepalive_reset(struct keepalive *keepalive, uint64_t token)
{
	if (keepalive)
		keepalive_send(keepalive, KEEPALIVE_RESETS, htole64(token));
}

void keepalive_drain(void)
{
	struct keepalive_service *service = keepalive_service_get(NULL);
	int rounds = KEEPALIVE_READY;

	if (!service)
		return;
	pthread_mutex_lock(&service->reads);
	/* what matters may lie behind the questions of a minute, while this process was stopped */
	while (rounds-- && keepalive_look(service, KEEPALIVE_ALL) == KEEPALIVE_READY)
		;
	pthread_mutex_unlock(&service->reads);
	keepalive_service_put(service);
}

void keepalive_expect(struct keepalive *keepalive, uint64_t token)
{
	if (keepalive)
		__atomic_store_n(&keepalive->token, token, __ATOMIC_RELAXED);
}

struct keepalive_signs keepalive_signs(const struct keepalive *keepalive)
{
	struct keepalive_signs signs = {.answers = 0};

	if (!keepalive)
		return signs;
	signs.reset = __atomic_load_n(&keepalive->reset, __ATOMIC_RELAXED);
	signs.answers = __atomic_load_n(&keepalive->answers, __ATOMIC_RELAXED);
	if (signs.answers)
		signs.gone = __atomic_load_n(&keepalive->refused, __ATOMIC_RELAXED);
	else if (keepalive->here)
		signs.gone = process_ended((pid_t) (uint32_t) keepalive->process);
	return signs;
}
