/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Stream sockets beside the fabric. They are the TCP connection of -E and -b, and the
 * socketpairs between a functional test's processes. Every wait has an end.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ft.h"

#define RETRY_MS 20 /* between attempts to reach a server that is not up yet */

static int poll_one(int fd, short events, long timeout, const char *what)
{
	struct pollfd pfd = {.fd = fd, .events = events};
	const double deadline = ft_usec() + (double) timeout * 1e6;

	for (;;) {
		double left_ms = (deadline - ft_usec()) / 1e3;
		int ret = poll(&pfd, 1, left_ms > 0 ? (int) left_ms + 1 : 0);

		if (ret > 0)
			return 0;
		if (ret == 0)
			return ft_fail(-FI_ETIMEDOUT, "poll", "%s: nothing for %ld s", what,
				       timeout);
		if (errno != EINTR)
			return ft_errno("poll", what);
	}
}

static int resolve(const char *addr, const char *port, int flags, struct addrinfo **list)
{
	const struct addrinfo want = {.ai_flags = flags, .ai_socktype = SOCK_STREAM};
	int ret = getaddrinfo(addr, port, &want, list);

	if (ret) {
		ft_err("getaddrinfo: %s: out-of-band address %s port %s", gai_strerror(ret),
		       addr ? addr : "(any)", port);
		return -FI_EADDRNOTAVAIL;
	}
	return 0;
}

static void set_nodelay(int fd)
{
	const int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Of the addresses that stand for all, IPv6's takes clients of IPv4, too. */
static const struct addrinfo *choose(const struct addrinfo *list, bool all)
{
	int sock = all ? socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;

	if (sock < 0)
		return list;
	close(sock);
	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next) {
		if (ai->ai_family == AF_INET6)
			return ai;
	}
	return list;
}

int ft_oob_listen(const char *addr, const char *port, long timeout, int *fd)
{
	const struct addrinfo *chosen;
	const int one = 1, zero = 0;
	struct addrinfo *list;
	int sock, conn, ret;

	FT_TRY(resolve(addr, port, AI_PASSIVE, &list));
	chosen = choose(list, !addr);
	sock = socket(chosen->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0) {
		ret = ft_errno("socket", "out-of-band");
		goto free_list;
	}
	setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (chosen->ai_family == AF_INET6 && !addr)
		setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(sock, chosen->ai_addr, chosen->ai_addrlen) || listen(sock, 1)) {
		ret = ft_fail(-errno, "bind",
			      "out-of-band port %s: choose another with "
			      "-E=PORT or -b=PORT on both sides",
			      port);
		goto close_sock;
	}
	ret = poll_one(sock, POLLIN, timeout, "waiting for the client (--timeout)");
	if (ret)
		goto close_sock;
	conn = accept(sock, NULL, NULL);
	if (conn < 0) {
		ret = ft_errno("accept", "out-of-band");
		goto close_sock;
	}
	set_nodelay(conn);
	*fd = conn;
close_sock:
	close(sock);
free_list:
	freeaddrinfo(list);
	return ret;
}

int ft_oob_connect(const char *addr, const char *port, long timeout, int *fd)
{
	const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
	const double begun = ft_usec(), deadline = begun + (double) timeout * 1e6;
	struct addrinfo *list;
	bool said = false;
	int err = 0;

	FT_TRY(resolve(addr, port, 0, &list));
	do {
		for (struct addrinfo *ai = list; ai; ai = ai->ai_next) {
			int sock = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

			if (sock >= 0 && !connect(sock, ai->ai_addr, ai->ai_addrlen)) {
				set_nodelay(sock);
				freeaddrinfo(list);
				*fd = sock;
				return 0;
			}
			err = errno;
			if (sock >= 0)
				close(sock);
		}
		if (!said && ft_usec() - begun > FT_SOON_US) {
			char server[256];

			snprintf(server, sizeof(server), "%s port %s", addr, port);
			ft_say_absent(server, strerror(err), timeout);
			said = true;
		}
		nanosleep(&pause, NULL);
	} while (ft_usec() < deadline);
	freeaddrinfo(list);
	return ft_fail(-err, "connect",
		       "out-of-band to %s port %s, tried for %ld s: is the "
		       "server running with the same -E or -b?",
		       addr, port, timeout);
}

int ft_oob_send(int fd, const void *buf, size_t len)
{
	const char *pos = buf;

	while (len) {
		ssize_t n = send(fd, pos, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ft_errno("send", "out-of-band: the peer has gone?");
		pos += n;
		len -= (size_t) n;
	}
	return 0;
}

int ft_oob_recv(int fd, void *buf, size_t len, long timeout)
{
	char *pos = buf;

	while (len) {
		ssize_t n;

		FT_TRY(poll_one(fd, POLLIN, timeout, "waiting for the peer (--timeout)"));
		n = recv(fd, pos, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ft_errno("recv", "out-of-band");
		if (n == 0)
			return ft_fail(-FI_ECONNRESET, "recv",
				       "the peer has ended; its output says why");
		pos += n;
		len -= (size_t) n;
	}
	return 0;
}

bool ft_oob_closed(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}
