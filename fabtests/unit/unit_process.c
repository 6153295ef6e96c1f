/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of process.h: what a child of fork() finds of locks that other threads of its parent held. */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/process.h"

#define FORKS 100
#define CHILD_LIMIT 30 /* s */

static int forgotten;

static void forget(void)
{
	forgotten++;
}

/* The table: both are equal whenever nobody changes it */
static struct {
	unsigned long first, second;
} table;

struct worker {
	enum process_lock which;
	pthread_barrier_t turn;
	atomic_bool stop;
};

/* Holds a lock from one turn to the next */
static void *hold(void *arg)
{
	struct worker *worker = arg;

	process_lock(worker->which);
	pthread_barrier_wait(&worker->turn);
	pthread_barrier_wait(&worker->turn);
	process_unlock(worker->which);
	return NULL;
}

static void *change(void *arg)
{
	struct worker *worker = arg;

	while (!atomic_load(&worker->stop)) {
		process_lock(PROCESS_TABLES);
		__atomic_fetch_add(&table.first, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&table.second, 1, __ATOMIC_RELAXED);
		process_unlock(PROCESS_TABLES);
	}
	return NULL;
}

/* In a child: takes all locks, in their order. A signal ends it if it waits for one for ever */
static void take_all(void)
{
	signal(SIGALRM, SIG_DFL);
	alarm(CHILD_LIMIT);
	for (int i = 0; i < PROCESS_LOCKS; i++)
		process_lock((enum process_lock) i);
	_exit(table.first == table.second && forgotten == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void bear(void)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child)
		take_all();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(forgotten, 0);
}

static void test_held(void **state)
{
	struct worker worker;
	pthread_t thread;

	process_forget(forget);
	process_forget(forget);
	assert_int_equal(pthread_barrier_init(&worker.turn, NULL, 2), 0);
	for (int i = 0; i < PROCESS_TABLES; i++) {
		worker.which = (enum process_lock) i;
		assert_int_equal(pthread_create(&thread, NULL, hold, &worker), 0);
		pthread_barrier_wait(&worker.turn);
		bear();
		pthread_barrier_wait(&worker.turn);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	pthread_barrier_destroy(&worker.turn);
}

static void test_tables(void **state)
{
	struct worker worker = {.stop = false};
	pthread_t thread;

	process_forget(forget);
	assert_int_equal(pthread_create(&thread, NULL, change, &worker), 0);
	for (int i = 0; i < FORKS; i++)
		bear();
	atomic_store(&worker.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_tables),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
