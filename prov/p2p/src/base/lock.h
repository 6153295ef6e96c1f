/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A mutex that costs one branch if the application has promised to serialise its calls itself
 * (FI_THREAD_DOMAIN). It knows whether it is held.
 */
#ifndef P2P_LOCK_H
#define P2P_LOCK_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#define P2P_LOCK_PASSES 1024

struct p2p_lock {
	pthread_mutex_t mutex;
	bool shared; /* several threads may come, so the mutex is taken */
	bool held;
	unsigned int wanted; /* threads that wait for it */
	unsigned int passed; /* times that others went first */
#ifndef NDEBUG
	pthread_t owner; /* who holds it */
#endif
};

static inline void p2p_lock_init(struct p2p_lock *lock, bool shared)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->shared = shared;
	lock->held = false;
	lock->wanted = lock->passed = 0;
}

static inline void p2p_lock_fini(struct p2p_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

/* Takes a domain's lock; without a mutex where the application has promised one thread. */
static inline void p2p_lock_take(struct p2p_lock *lock)
{
	if (lock->shared && pthread_mutex_trylock(&lock->mutex)) {
		__atomic_add_fetch(&lock->wanted, 1, __ATOMIC_RELAXED);
		pthread_mutex_lock(&lock->mutex);
		__atomic_sub_fetch(&lock->wanted, 1, __ATOMIC_RELAXED);
	}
	assert(!lock->held);
	lock->held = true;
#ifndef NDEBUG
	lock->owner = pthread_self();
#endif
}

/* The same if nobody has it; false: somebody has. For a lock that is shared */
static inline bool p2p_lock_try(struct p2p_lock *lock)
{
	if (pthread_mutex_trylock(&lock->mutex))
		return false;
	lock->held = true;
#ifndef NDEBUG
	lock->owner = pthread_self();
#endif
	return true;
}

/*
 * The same, unless a thread has it or waits for it; false then. For threads that look again and again: a mutex is not fair,
 * so such a thread would keep others from it. Once in P2P_LOCK_PASSES times it waits, so they do not keep it out either.
 */
static inline bool p2p_lock_poll(struct p2p_lock *lock)
{
	if (lock->shared) {
		if (!__atomic_load_n(&lock->wanted, __ATOMIC_RELAXED) && p2p_lock_try(lock))
			return true;
		if (__atomic_add_fetch(&lock->passed, 1, __ATOMIC_RELAXED) % P2P_LOCK_PASSES)
			return false;
	}
	p2p_lock_take(lock);
	return true;
}

/* Gives a domain's lock back. */
static inline void p2p_lock_drop(struct p2p_lock *lock)
{
	assert(lock->held);
	lock->held = false;
	if (lock->shared)
		pthread_mutex_unlock(&lock->mutex);
}

/*
 * Begins a function whose caller must hold the lock, in the same thread. A release has no
 * check.
 */
#ifndef NDEBUG
static inline bool p2p_lock_held(const struct p2p_lock *lock)
{
	return lock->held && pthread_equal(lock->owner, pthread_self());
}
#define p2p_lock_assert_held(lock) assert(p2p_lock_held(lock))
#else
#define p2p_lock_assert_held(lock) ((void) (lock))
#endif

#endif /* P2P_LOCK_H */
