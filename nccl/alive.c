/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whether another process lives. See alive.h. */
#include "alive.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union alive_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	uint8_t bytes[FABRIC_NAME_MAX];
};

/* The address of an endpoint, with another port. Returns its length; 0: it has none of a kind that we know */
static socklen_t alive_address(const struct fabric_name *name, uint16_t port,
			       union alive_address *address)
{
	const uint32_t format = fabric_info()->addr_format;

	if (format != FI_SOCKADDR && format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6)
		return 0;
	memcpy(address->bytes, name->bytes, sizeof address->bytes);
	if (address->any.sa_family == AF_INET)
		address->in.sin_port = htons(port);
	else if (address->any.sa_family == AF_INET6)
		address->in6.sin6_port = htons(port);
	else
		return 0;
	return address->any.sa_family == AF_INET ? sizeof address->in : sizeof address->in6;
}

/* Sockets of alive_open(), which a child of fork() closes; 0: none. One that finds no room stays open there. */
#define ALIVE_MOST 64
static int alive_fds[ALIVE_MOST];

static void alive_forked(void)
{
	for (int i = 0; i < ALIVE_MOST; i++) {
		if (alive_fds[i])
			close(alive_fds[i]);
		alive_fds[i] = 0;
	}
}

static void alive_begin(void)
{
	pthread_atfork(NULL, NULL, alive_forked);
}

/* The first place that has @old gets @new. */
static void alive_note(int old, int new)
{
	bool done = false;

	for (int i = 0; i < ALIVE_MOST && !done; i++) {
		int has = old;

		done = __atomic_compare_exchange_n(&alive_fds[i], &has, new, false,
						   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

int alive_open(const struct fabric_name *name, uint16_t *port)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	union alive_address address;
	socklen_t len = alive_address(name, 0, &address);
	int fd = len ? socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;

	*port = 0;
	if (fd < 0)
		return -1;
	if (bind(fd, &address.any, len) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, &address.any, &len)) {
		close(fd);
		return -1;
	}
	*port = ntohs(address.any.sa_family == AF_INET ? address.in.sin_port
						       : address.in6.sin6_port);
	pthread_once(&once, alive_begin);
	alive_note(0, fd);
	return fd;
}

void alive_close(int fd)
{
	alive_note(fd, 0);
	close(fd);
}

bool alive_ended(const struct fabric_name *name, uint16_t port, int *fd)
{
	union alive_address address;
	const socklen_t len = port ? alive_address(name, port, &address) : 0;
	ssize_t got = -1;
	char byte;

	if (!len)
		return false;
	errno = EAGAIN;
	if (*fd >= 0) {
		got = recv(*fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
	} else {
		*fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
			     0);
		if (*fd >= 0)
			connect(*fd, &address.any, len);
	}
	if (!got || (got < 0 && (errno == ECONNREFUSED || errno == ECONNRESET)))
		return true;
	/* what has failed otherwise says nothing, and the kernel would say once more as if the other end had closed it */
	if (*fd >= 0 && got < 0 && errno != EAGAIN && errno != EINPROGRESS) {
		close(*fd);
		*fd = -1;
	}
	return false;
}
