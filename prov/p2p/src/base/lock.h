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

struct p2p_lock {
	pthread_mutex_t mutex;
	bool shared; /* several threads may come, so the mutex is taken */
	bool held;
#ifndef NDEBUG
	pthread_t owner; /* who holds it */
#endif
};

static inline void p2p_lock_init(struct p2p_lock *lock, bool shared)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->shared = shared;
	lock->held = false;
}

static inline void p2p_lock_fini(struct p2p_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

/* Takes a domain's lock; without a mutex where the application has promised one thread. */
static inline void p2p_lock_take(struct p2p_lock *lock)
{
	if (lock->shared)
		pthread_mutex_lock(&lock->mutex);
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
