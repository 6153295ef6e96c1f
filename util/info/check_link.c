/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The TCP connection of --check and --serve. See check.h. */
#include "check.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* How long the other one may be silent [s]. Messages that do not arrive are found in less. */
#define LINK_SILENCE 60
/* How long a server is looked for [s]: who starts both at once need not count */
#define LINK_LOOK 3
#define LINK_TURN_MS 5
#define LINK_RETRY_MS 50

static double link_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* The host of HOST, HOST:PORT or [ADDRESS]:PORT. An address of IPv6 has several colons. */
static char *link_split(const char *where, const char **port)
{
	const char *colon = strrchr(where, ':');
	char *host = info_text("%s", where);

	*port = INFO_CHECK_PORT;
	if (colon && (strchr(where, ':') == colon || colon[-1] == ']')) {
		*port = colon + 1;
		host[colon - where] = '\0';
	}
	if (*host == '[' && host[strlen(host) - 1] == ']') {
		host[strlen(host) - 1] = '\0';
		host++;
	}
	return host;
}

const char *check_link_wrong_port(const char *port)
{
	const size_t len = strspn(port, "0123456789");
	const long number = len && len <= 5 && !port[len] ? strtol(port, NULL, 10) : 0;

	return number >= 1 && number <= 65535
		       ? NULL
		       : info_text("port '%s' is not a number from 1 to 65535", port);
}

const char *check_link_wrong_host(const char *where)
{
	const char *port;

	if (!*link_split(where, &port))
		return info_text("'%s' names no host", where);
	return check_link_wrong_port(port);
}

static const char *link_resolve(const char *host, const char *port, int flags,
				struct addrinfo **list)
{
	const struct addrinfo want = {.ai_flags = flags, .ai_socktype = SOCK_STREAM};
	int ret = getaddrinfo(host, port, &want, list);

	return ret ? info_text("%s port %s: %s", host ? host : "any address", port,
			       gai_strerror(ret))
		   : NULL;
}

/* At all addresses of this family: those of IPv6 are IPv4's, too, where the system has both in one socket */
static int link_listen(const struct addrinfo *list, int family)
{
	const int one = 1, zero = 0;
	int fd = -1;

	for (const struct addrinfo *each = list; each && fd < 0; each = each->ai_next) {
		if (each->ai_family != family)
			continue;
		fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		if (each->ai_family == AF_INET6)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
		if (bind(fd, each->ai_addr, each->ai_addrlen) || listen(fd, 1)) {
			close(fd);
			fd = -1;
		}
	}
	return fd;
}

const char *check_link_serve(struct check_link *link, const char *port)
{
	struct addrinfo *list;
	const char *why = link_resolve(NULL, port, AI_PASSIVE, &list);
	char host[256] = "this host";
	int fd;

	if (why)
		return why;
	fd = link_listen(list, AF_INET6);
	if (fd < 0)
		fd = link_listen(list, AF_INET);
	freeaddrinfo(list);
	if (fd < 0)
		return info_text("port %s: %s", port, strerror(errno));
	gethostname(host, sizeof host - 1);
	printf("waiting for: fi_p2p_info --check %s:%s\n", host, port);
	fflush(stdout);
	link->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	if (link->fd < 0)
		why = info_text("accept: %s", strerror(errno));
	close(fd);
	return why;
}

static int link_try(const struct addrinfo *list)
{
	int fd;

	for (; list; list = list->ai_next) {
		fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && !connect(fd, list->ai_addr, list->ai_addrlen))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

const char *check_link_connect(struct check_link *link, const char *where)
{
	const struct timespec pause = {.tv_nsec = LINK_RETRY_MS * 1000000L};
	const char *port, *host = link_split(where, &port), *why;
	const double end = link_now() + LINK_LOOK;
	struct addrinfo *list;

	why = link_resolve(host, port, 0, &list);
	if (why)
		return why;
	do {
		link->fd = link_try(list);
	} while (link->fd < 0 && link_now() < end && !nanosleep(&pause, NULL));
	if (link->fd < 0)
		why = info_text("%s port %s: %s: run fi_p2p_info --serve %s there first", host,
				port, strerror(errno), port);
	freeaddrinfo(list);
	return why;
}

const char *check_link_own(const struct check_link *link)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof addr;
	char host[NI_MAXHOST];

	if (getsockname(link->fd, (struct sockaddr *) &addr, &len) ||
	    getnameinfo((struct sockaddr *) &addr, len, host, sizeof host, NULL, 0,
			NI_NUMERICHOST))
		return NULL;
	/* an address of IPv4 in one of IPv6 */
	return info_text("%s", strncmp(host, "::ffff:", 7) ? host : host + 7);
}

void check_link_say(struct check_link *link, const char *word, const char *text)
{
	char *line = info_text("%s %s\n", word, text ? text : "");
	size_t len = strlen(line);
	ssize_t sent;

	while (len) {
		sent = send(link->fd, line, len, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return;
		line += sent;
		len -= (size_t) sent;
	}
}

/* Waits for more bytes. False: there are none, or no room */
static bool link_more(struct check_link *link)
{
	struct pollfd poller = {.fd = link->fd, .events = POLLIN};
	const double end = link_now() + LINK_SILENCE;
	ssize_t got;

	memmove(link->line, link->line + link->taken, link->have - link->taken);
	link->have -= link->taken;
	link->taken = 0;
	if (link->have == sizeof link->line)
		return false;
	while (poll(&poller, 1, link->turn ? LINK_TURN_MS : 1000) <= 0) {
		if (link->turn)
			link->turn(link->arg);
		if (link_now() > end)
			return false;
	}
	got = recv(link->fd, link->line + link->have, sizeof link->line - link->have, 0);
	if (got <= 0)
		return false;
	link->have += (size_t) got;
	return true;
}

static char *link_line(struct check_link *link)
{
	char *start, *end, *line;

	do {
		start = link->line + link->taken;
		end = memchr(start, '\n', link->have - link->taken);
		if (end) {
			line = info_text("%.*s", (int) (end - start), start);
			link->taken += (size_t) (end - start) + 1;
			return line;
		}
	} while (link_more(link));
	return NULL;
}

const char *check_link_hear(struct check_link *link, const char *word)
{
	const size_t len = strlen(word);
	char *line;

	while ((line = link_line(link))) {
		for (char *c = line; *c; c++)
			*c = *c >= ' ' && *c <= '~' ? *c : '?';
		if (!strncmp(line, word, len) && line[len] == ' ')
			return line + len + 1;
		if (!strncmp(line, "over ", 5))
			return NULL;
	}
	return NULL;
}
