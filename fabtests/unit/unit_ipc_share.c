/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of ipc_share.c: an owner that nobody can upset, and askers who get an error where
 * there is nothing to get. That memory is shared is shown by fi_p2p_ipc, between processes.
 */
#include "unit.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "mem/ipc_share.h"

#define THREADS 8
#define ASKS 50

/* No other run of this test has it */
static uint64_t number(void)
{
	return 0x7000000000000000 + (uint64_t) getpid();
}

static int ask(uint64_t process, const char **why)
{
	const struct ipc_offer offer = {.process = process, .id = 1, .base = 4096, .size = 64};
	int fd = -1, ret = ipc_share_get(&offer, &fd, why);

	assert_int_equal(fd, -1);
	return ret;
}

static int connect_to(uint64_t process)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int len = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
				 IPC_SHARE_NAME, process);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *) &address,
				 (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 +
					      (size_t) len)),
			 0);
	return fd;
}

/* Nobody has such a number; then somebody has, but not the memory */
static void test_nothing(void **state)
{
	const char *why = NULL;

	assert_int_equal(ask(number(), &why), -FI_EIO);
	assert_non_null(strstr(why, "cannot be asked"));
	assert_int_equal(ipc_share_start(number()), 0);
	assert_int_equal(ipc_share_start(number()), 0);
	assert_int_equal(ask(number(), &why), -FI_EOPNOTSUPP);
	assert_non_null(strstr(why, "does not share"));
}

/* What is no question gets no answer, and does not end the answers */
static void test_noise(void **state)
{
	char noise[200];
	const char *why;
	int fd;

	memset(noise, 0x5a, sizeof(noise));
	for (size_t len = 0; len < sizeof(noise); len += 8) {
		fd = connect_to(number());
		if (len)
			assert_int_equal(send(fd, noise, len, MSG_NOSIGNAL), len);
		/* of no length: gone without a word */
		if (len)
			assert_int_equal(recv(fd, noise, sizeof(noise), 0), 0);
		close(fd);
	}
	assert_int_equal(ask(number(), &why), -FI_EOPNOTSUPP);
}

static void *ask_often(void *arg)
{
	const char *why;

	for (int i = 0; i < ASKS; i++)
		if (ask(number(), &why) != -FI_EOPNOTSUPP)
			return arg;
	return NULL;
}

static void test_many(void **state)
{
	pthread_t threads[THREADS];
	void *bad;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, state), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &bad), 0);
		assert_null(bad);
	}
}

/* ThreadSanitizer takes a child's thread for the parent's that had the same address */
#ifdef __SANITIZE_THREAD__
#define CHILD_ANSWERS 0
#else
#define CHILD_ANSWERS 1
#endif

/* A child answers for itself, and its end is not its parent's */
static void test_child(void **state)
{
	const uint64_t parent = number();
	const pid_t pid = fork();
	const char *why;
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		status = CHILD_ANSWERS &&
			 (ipc_share_start(number()) || ask(number(), &why) != -FI_EOPNOTSUPP);
		status = status || ask(parent, &why) != -FI_EOPNOTSUPP;
		ipc_share_stop();
		_exit(status);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ask(parent, &why), -FI_EOPNOTSUPP);
}

/* After the end nobody answers, until it begins again */
static void test_stop(void **state)
{
	const char *why;

	ipc_share_stop();
	ipc_share_stop();
	assert_int_equal(ask(number(), &why), -FI_EIO);
	assert_int_equal(ipc_share_start(number()), 0);
	assert_int_equal(ask(number(), &why), -FI_EOPNOTSUPP);
	ipc_share_stop();
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing), cmocka_unit_test(test_noise),
		cmocka_unit_test(test_many),    cmocka_unit_test(test_child),
		cmocka_unit_test(test_stop),
	};
	static const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
