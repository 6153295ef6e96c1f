/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of lock.h: the assertion ends a process whose caller does not hold the lock; who looks again and again lets
 * others go first.
 */
#include "unit.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"

struct holder {
	struct p2p_lock *lock;
	pthread_barrier_t turn;
};

/* Holds the lock from one turn to the next */
static void *hold(void *arg)
{
	struct holder *holder = arg;

	p2p_lock_take(holder->lock);
	pthread_barrier_wait(&holder->turn);
	pthread_barrier_wait(&holder->turn);
	p2p_lock_drop(holder->lock);
	return NULL;
}

/* Does a process live on that asserts it? */
static bool asserts(const struct p2p_lock *lock)
{
	const struct rlimit no_core = {0};
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		setrlimit(RLIMIT_CORE, &no_core);
		close(STDERR_FILENO);
		p2p_lock_assert_held(lock);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : !WEXITSTATUS(status));
	return WIFEXITED(status);
}

static void check(bool shared)
{
	/* what the assertion lets through where the lock is not held */
#ifdef NDEBUG
	const bool unheld = true;
#else
	const bool unheld = false;
#endif
	struct p2p_lock lock;
	struct holder holder = {.lock = &lock};
	pthread_t thread;

	p2p_lock_init(&lock, shared);
	assert_int_equal(asserts(&lock), unheld);
	p2p_lock_take(&lock);
	assert_true(asserts(&lock));
	p2p_lock_drop(&lock);
	assert_int_equal(asserts(&lock), unheld);
	/* held, but by another thread */
	assert_int_equal(pthread_barrier_init(&holder.turn, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, hold, &holder), 0);
	pthread_barrier_wait(&holder.turn);
	assert_int_equal(asserts(&lock), unheld);
	pthread_barrier_wait(&holder.turn);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_barrier_destroy(&holder.turn);
	p2p_lock_fini(&lock);
}

static void test_shared(void **state)
{
	check(true);
}

static void test_not_shared(void **state)
{
	check(false);
}

struct waiter {
	struct p2p_lock *lock;
	bool had;
};

static void *wait_once(void *arg)
{
	struct waiter *waiter = arg;

	p2p_lock_take(waiter->lock);
	waiter->had = true;
	p2p_lock_drop(waiter->lock);
	return NULL;
}

static void test_poll(void **state)
{
	struct p2p_lock lock;
	struct waiter waiter = {.lock = &lock};
	unsigned int tries = 0;
	pthread_t thread;

	p2p_lock_init(&lock, true);
	assert_true(p2p_lock_poll(&lock));
	assert_false(p2p_lock_poll(&lock));
	assert_int_equal(pthread_create(&thread, NULL, wait_once, &waiter), 0);
	while (!__atomic_load_n(&lock.wanted, __ATOMIC_RELAXED))
		sched_yield();
	p2p_lock_drop(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(waiter.had);
	/* as if there were always another one that waits */
	lock.wanted = 1;
	while (tries < 2 * P2P_LOCK_PASSES && !p2p_lock_poll(&lock))
		tries++;
	assert_in_range(tries, 1, P2P_LOCK_PASSES);
	p2p_lock_drop(&lock);
	p2p_lock_fini(&lock);
	p2p_lock_init(&lock, false);
	assert_true(p2p_lock_poll(&lock));
	p2p_lock_drop(&lock);
	p2p_lock_fini(&lock);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_not_shared),
		cmocka_unit_test(test_poll),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
