/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of nccl/alive.h: a port that does not answer is no death, and one that is closed is. */
#include "unit.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alive.h"

#define PENDING 8 /* connections, of which some stay without an answer */

static const struct fi_info info = {.addr_format = FI_SOCKADDR_IN};

const struct fi_info *fabric_info(void)
{
	return &info;
}

/* A connection is given up after three seconds, not two minutes. */
int socket(int domain, int type, int protocol)
{
	const int tries = 1;
	const int fd = (int) syscall(SYS_socket, domain, type, protocol);

	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &tries, sizeof(tries));
	return fd;
}

static struct fabric_name loopback(void)
{
	const struct sockaddr_in in = {.sin_family = AF_INET,
				       .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct fabric_name name = {.len = sizeof(in)};

	memcpy(name.bytes, &in, sizeof(in));
	return name;
}

/* Asks again and again until the process has ended. */
static void await_end(const struct fabric_name *name, uint16_t port, int *fd)
{
	while (!alive_ended(name, port, fd))
		poll(NULL, 0, 1);
}

static void ends(void **state)
{
	const struct fabric_name name = loopback();
	uint16_t port;
	const int listener = alive_open(&name, &port);
	int fd = -1;

	(void) state;
	assert_true(listener >= 0);
	for (int i = 0; i < 100; i++)
		assert_false(alive_ended(&name, port, &fd));
	alive_close(listener);
	await_end(&name, port, &fd);
	close(fd);
}

/* Its queue of connections is full, so the kernel drops what comes, as a firewall might. */
static void silent(void **state)
{
	const struct fabric_name name = loopback();
	struct sockaddr_in in;
	socklen_t len = sizeof(in);
	const int listener = socket(AF_INET, SOCK_STREAM, 0);
	int pending[PENDING], fd = -1;

	(void) state;
	memcpy(&in, name.bytes, sizeof(in));
	assert_int_equal(bind(listener, (struct sockaddr *) &in, len), 0);
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *) &in, &len), 0);
	for (int i = 0; i < PENDING; i++) {
		pending[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(pending[i], (struct sockaddr *) &in, len);
	}
	do {
		assert_false(alive_ended(&name, ntohs(in.sin_port), &fd));
		poll(NULL, 0, 1);
	} while (fd >= 0);
	/* it has been given up, and is asked anew */
	for (int i = 0; i < 100; i++)
		assert_false(alive_ended(&name, ntohs(in.sin_port), &fd));
	close(listener);
	await_end(&name, ntohs(in.sin_port), &fd);
	close(fd);
	for (int i = 0; i < PENDING; i++)
		close(pending[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends),
		cmocka_unit_test(silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
