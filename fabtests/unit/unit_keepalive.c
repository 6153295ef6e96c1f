/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of keepalive.h: who asks and who answers at which address of this host; ports that are closed; and
 * strangers.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xfer/keepalive.h"

#define OURS 0x1122334455667788
#define LIMIT 30 /* s: what has not been heard by then never is */

static struct sockaddr_in name_of(const char *text)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(1)};

	assert_int_equal(inet_pton(AF_INET, text, &name.sin_addr), 1);
	return name;
}

static struct keepalive_sock *listen_at(const char *text)
{
	const struct sockaddr_in name = name_of(text);
	struct keepalive_sock *sock = keepalive_listen(OURS, &name, sizeof name);

	assert_non_null(sock);
	assert_int_not_equal(keepalive_port(sock), 0);
	return sock;
}

static struct keepalive *open_at(struct keepalive_sock *from, const char *text, uint16_t port)
{
	const struct sockaddr_in name = name_of(text);
	struct keepalive *keepalive =
		keepalive_open(from, OURS, port, &name, sizeof name, false, false);

	assert_non_null(keepalive);
	return keepalive;
}

/* Asks until there has been one more answer */
static void hear(struct keepalive *keepalive)
{
	const unsigned int before = keepalive_signs(keepalive).answers;

	alarm(LIMIT);
	while (keepalive_signs(keepalive).answers == before) {
		keepalive_ask(keepalive);
		keepalive_drain();
		sched_yield();
	}
	alarm(0);
}

/* Asks until it is known that nobody is there */
static void miss(struct keepalive *keepalive)
{
	alarm(LIMIT);
	while (!keepalive_signs(keepalive).gone) {
		keepalive_ask(keepalive);
		keepalive_drain();
		sched_yield();
	}
	alarm(0);
}

/* The port is at the endpoint's address. A refusal elsewhere counts for nothing, as nobody has answered there. */
static void test_address(void **state)
{
	struct keepalive_sock *sock = listen_at("127.0.0.2"), *other = listen_at("127.0.0.3");
	const uint16_t port = keepalive_port(sock);
	struct keepalive *there = open_at(other, "127.0.0.2", port);
	struct keepalive *elsewhere = open_at(other, "127.0.0.4", port);

	for (int i = 0; i < 50; i++) {
		keepalive_ask(elsewhere);
		hear(there);
	}
	assert_int_equal(keepalive_signs(elsewhere).answers, 0);
	assert_false(keepalive_signs(elsewhere).gone);
	assert_false(keepalive_signs(there).gone);
	keepalive_sock_close(sock);
	miss(there);
	keepalive_close(there);
	keepalive_close(elsewhere);
	keepalive_sock_close(other);
}

static void test_wildcard(void **state)
{
	struct keepalive_sock *sock = listen_at("0.0.0.0"), *other = listen_at("127.0.0.1");
	struct keepalive *here = open_at(other, "127.0.0.1", keepalive_port(sock));
	struct keepalive *there = open_at(other, "127.0.0.9", keepalive_port(sock));
	struct keepalive *back = open_at(sock, "127.0.0.1", keepalive_port(other));

	hear(here);
	hear(there);
	hear(back);
	keepalive_close(back);
	keepalive_sock_close(sock);
	miss(here);
	miss(there);
	keepalive_close(here);
	keepalive_close(there);
	keepalive_sock_close(other);
}

/* An endpoint whose address is no IP address is asked on this host alone */
static void test_no_ip(void **state)
{
	static const char name[] = "fi_shm://1234";
	struct keepalive_sock *sock = keepalive_listen(OURS, name, sizeof name);
	struct keepalive *near, *far;

	assert_non_null(sock);
	far = keepalive_open(sock, OURS, keepalive_port(sock), name, sizeof name, false, false);
	assert_non_null(far);
	near = keepalive_open(sock, OURS, keepalive_port(sock), name, sizeof name, true, false);
	assert_non_null(near);
	keepalive_ask(far);
	hear(near);
	assert_int_equal(keepalive_signs(far).answers, 0);
	keepalive_close(far);
	keepalive_close(near);
	keepalive_sock_close(sock);
}

/* A peer says that the token is dead which it bears. Another token is nobody's */
static void test_dead(void **state)
{
	struct keepalive_sock *sock = listen_at("127.0.0.1"), *other = listen_at("127.0.0.1");
	struct keepalive *there = open_at(other, "127.0.0.1", keepalive_port(sock));
	struct keepalive *back = open_at(sock, "127.0.0.1", keepalive_port(other));

	keepalive_expect(back, 5);
	keepalive_reset(there, 6);
	/* by its answer the word before it has come, too */
	hear(there);
	assert_int_equal(keepalive_signs(back).reset, 0);
	keepalive_reset(there, 5);
	hear(there);
	assert_int_equal(keepalive_signs(back).reset, 5);
	keepalive_expect(back, 7);
	assert_int_equal(keepalive_signs(back).reset, 5);
	keepalive_close(there);
	keepalive_close(back);
	keepalive_sock_close(sock);
	keepalive_sock_close(other);
}

/* It cannot be asked, and has ended: its id tells on its own host */
static void test_ended(void **state)
{
	const pid_t child = fork();
	struct keepalive *near, *far, *alive;
	int status;

	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	near = keepalive_open(NULL, (uint32_t) child, 0, NULL, 0, true, true);
	/* of another PID namespace, where the id is another process's */
	far = keepalive_open(NULL, (uint32_t) child, 0, NULL, 0, true, false);
	alive = keepalive_open(NULL, (uint32_t) getpid(), 0, NULL, 0, true, true);
	assert_true(keepalive_signs(near).gone);
	assert_false(keepalive_signs(far).gone);
	assert_false(keepalive_signs(alive).gone);
	keepalive_close(near);
	keepalive_close(far);
	keepalive_close(alive);
	assert_false(keepalive_signs(NULL).gone);
}

/* A child lives, and has had the descriptors: the port is closed when its parent closes it all the same. */
static void test_child(void **state)
{
	struct keepalive_sock *sock = listen_at("127.0.0.1"), *other = listen_at("127.0.0.1");
	struct keepalive *keepalive = open_at(other, "127.0.0.1", keepalive_port(sock));
	int fd[2], status;
	pid_t child;
	char end;

	hear(keepalive);
	assert_int_equal(pipe(fd), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		close(fd[1]);
		_exit(read(fd[0], &end, 1) ? 1 : 0);
	}
	close(fd[0]);
	keepalive_sock_close(sock);
	miss(keepalive);
	close(fd[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	keepalive_close(keepalive);
	keepalive_sock_close(other);
}

/* A child has sockets of its own, though its parent's thread was at work */
static void test_child_listens(void **state)
{
	struct keepalive_sock *sock = listen_at("127.0.0.1");
	struct keepalive *keepalive = open_at(sock, "127.0.0.1", keepalive_port(sock));
	int status;
	pid_t child;

	for (int i = 0; i < 30; i++) {
		keepalive_ask(keepalive);
		child = fork();
		assert_true(child >= 0);
		if (!child) {
			sock = listen_at("127.0.0.1");
			keepalive = open_at(sock, "127.0.0.1", keepalive_port(sock));
			hear(keepalive);
			keepalive_close(keepalive);
			keepalive_sock_close(sock);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	hear(keepalive);
	keepalive_close(keepalive);
	keepalive_sock_close(sock);
}

struct stranger {
	atomic_bool stop;
	struct sockaddr_in at;
};

static void *flood(void *arg)
{
	struct stranger *stranger = arg;
	const uint32_t msg[6] = {0x4b703270, 1, 2, 3, 4, 5};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	while (!atomic_load(&stranger->stop))
		sendto(fd, msg, sizeof msg, MSG_DONTWAIT,
		       (const struct sockaddr *) &stranger->at, sizeof stranger->at);
	close(fd);
	return NULL;
}

/* One look ends, whatever comes meanwhile; and so does a close */
static void test_flood(void **state)
{
	struct keepalive_sock *sock = listen_at("127.0.0.1"), *other;
	struct stranger stranger = {.at = name_of("127.0.0.1")};
	pthread_t thread;

	stranger.at.sin_port = htons(keepalive_port(sock));
	assert_int_equal(pthread_create(&thread, NULL, flood, &stranger), 0);
	alarm(LIMIT);
	for (int i = 0; i < 300; i++) {
		keepalive_drain();
		other = listen_at("127.0.0.1");
		keepalive_sock_close(other);
	}
	keepalive_sock_close(sock);
	alarm(0);
	atomic_store(&stranger.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_address),       cmocka_unit_test(test_wildcard),
		cmocka_unit_test(test_no_ip),         cmocka_unit_test(test_child),
		cmocka_unit_test(test_child_listens), cmocka_unit_test(test_flood),
		cmocka_unit_test(test_dead),          cmocka_unit_test(test_ended),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
