/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The thread that makes memory durable. See flusher.h. */
#include "mem/flusher.h"

#include "base/thread.h"

void flusher_init(struct flusher *flusher)
{
	*flusher = (struct flusher){.pending = 0};
	pthread_mutex_init(&flusher->lock, NULL);
	pthread_cond_init(&flusher->some, NULL);
	TAILQ_INIT(&flusher->asked);
	TAILQ_INIT(&flusher->ended);
}

/* The next one, which is waited for; NULL: the thread is to end */
static struct flush *flusher_next(struct flusher *flusher)
{
	struct flush *flush;

	while (TAILQ_EMPTY(&flusher->asked) && !flusher->stop)
		pthread_cond_wait(&flusher->some, &flusher->lock);
	flush = TAILQ_FIRST(&flusher->asked);
	if (flush)
		TAILQ_REMOVE(&flusher->asked, flush, entry);
	return flush;
}

static void *flusher_run(void *arg)
{
	struct flusher *flusher = arg;
	struct flush *flush;

	pthread_mutex_lock(&flusher->lock);
	while ((flush = flusher_next(flusher))) {
		pthread_mutex_unlock(&flusher->lock);
		flush->status = pmem_flush(flush->kind, flush->iov, flush->count);
		pthread_mutex_lock(&flusher->lock);
		TAILQ_INSERT_TAIL(&flusher->ended, flush, entry);
	}
	pthread_mutex_unlock(&flusher->lock);
	return NULL;
}

int flusher_start(struct flusher *flusher)
{
	int ret;

	if (flusher->runs)
		return 0;
	ret = thread_start(&flusher->thread, "p2p_flush", flusher_run, flusher);
	flusher->runs = !ret;
	return ret;
}

void flusher_fini(struct flusher *flusher)
{
	pthread_mutex_lock(&flusher->lock);
	flusher->stop = true;
	pthread_cond_signal(&flusher->some);
	pthread_mutex_unlock(&flusher->lock);
	if (flusher->runs)
		pthread_join(flusher->thread, NULL);
	pthread_cond_destroy(&flusher->some);
	pthread_mutex_destroy(&flusher->lock);
}

void flusher_add(struct flusher *flusher, struct flush *flush)
{
	flusher->pending++;
	pthread_mutex_lock(&flusher->lock);
	TAILQ_INSERT_TAIL(&flusher->asked, flush, entry);
	pthread_cond_signal(&flusher->some);
	pthread_mutex_unlock(&flusher->lock);
}

static struct flush *flusher_ended(struct flusher *flusher)
{
	struct flush *flush;

	pthread_mutex_lock(&flusher->lock);
	flush = TAILQ_FIRST(&flusher->ended);
	if (flush)
		TAILQ_REMOVE(&flusher->ended, flush, entry);
	pthread_mutex_unlock(&flusher->lock);
	return flush;
}

unsigned int flusher_progress(struct flusher *flusher)
{
	unsigned int ended = 0;
	struct flush *flush;

	while (flusher->pending && (flush = flusher_ended(flusher))) {
		flusher->pending--;
		ended++;
		flush->done(flush, flush->status);
	}
	return ended;
}
