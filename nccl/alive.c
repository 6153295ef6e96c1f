/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whether another process lives. See alive.h. */
#include "alive.h"

#include <errno.h>
#include <netinet/in.h>
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

int alive_open(const struct fabric_name *name, uint16_t *port)
{
	union alive_address address;
	socklen_t len = alive_address(name, 0, &address);
	int fd = len ? socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

	*port = 0;
	if (fd < 0)
		return -1;
	if (bind(fd, &address.any, len) || getsockname(fd, &address.any, &len)) {
		close(fd);
		return -1;
	}
	*port = ntohs(address.any.sa_family == AF_INET ? address.in.sin_port
						       : address.in6.sin6_port);
	return fd;
}

/* Returns a socket for questions to that address, or -1 */
static int alive_connect(const union alive_address *address, socklen_t len)
{
	int fd = socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || !connect(fd, &address->any, len))
		return fd;
	close(fd);
	return -1;
}

bool alive_ended(const struct fabric_name *name, uint16_t port, int *fd)
{
	union alive_address address;
	const socklen_t len = port ? alive_address(name, port, &address) : 0;

	if (len && *fd < 0)
		*fd = alive_connect(&address, len);
	/* an earlier one was refused */
	return *fd >= 0 && send(*fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
	       errno == ECONNREFUSED;
}
