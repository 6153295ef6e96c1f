/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completions that the core provider tells of late, in another order, or as errors.
 *
 * BUSYCORE_LATE=N: each completion is held back for up to N reads of its queue. Those that may be told
 * are told a few at a time, in any order. fi_endpoint(3) allows that where no order of completions is
 * asked for (comp_order). Those of one buffer (FI_MULTI_RECV) keep theirs, as the last one ends it
 * BUSYCORE_CUT=N: the N-th receive that has bytes ends with FI_ETRUNC, and half of them
 * BUSYCORE_LOSE=N: the N-th receive ends with FI_EIO, and nothing is told of its message
 *
 * BUSYCORE_PAUSE=N: one of N reads of a queue takes some milliseconds, in which the core does nothing
 *
 * BUSYCORE_SEED seeds the random choices. Who reads a queue takes what the core has for it, in the name
 * of all. So fi_trywait(3) lets nobody sleep while something is held back, and who sleeps already is woken.
 */
#include "busycore.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <rdma/fi_errno.h>

/* Completions of one queue that are held back at a time, at most */
#define LATE_HELD 64

/*
 * Untagged receives of up to so many bytes keep their order: fi_p2p_multirecv knows its messages by it. No
 * core promises that, but all of them complete short messages so.
 */
#define LATE_SHORT 8192

/* How long a read takes that takes long [ns] */
#define LATE_PAUSE 5000000

/* @reads: for so many reads it is held back; @err: what it ends with */
struct held {
	TAILQ_ENTRY(held) entry;
	struct fi_cq_tagged_entry comp;
	fi_addr_t src;
	unsigned int reads;
	int err;
	size_t olen;
};

/**
 * struct late - one queue
 * @core:	its own calls
 * @size:	of an entry
 * @sleeps:	somebody may sleep on it
 * @most:	reads for which a completion is held back, at most; 0: all are told at once, in order
 * @pauses:	one of so many reads takes long; 0: none does
 * @closed:	so many endpoints had been closed when nothing was held back for the last time
 */
struct late {
	pthread_mutex_t lock;
	const struct fi_ops_cq *core;
	size_t size;
	bool sleeps;
	unsigned int most;
	unsigned int pauses;
	unsigned int seed;
	unsigned int count;
	unsigned int closed;
	TAILQ_HEAD(, held) held;
};

/* Endpoints that have been closed */
static unsigned int late_closed;

/* Completions that are held back, of all queues */
static unsigned int late_held;

bool late_wanted(void)
{
	return getenv("BUSYCORE_LATE") || getenv("BUSYCORE_CUT") || getenv("BUSYCORE_LOSE") ||
	       getenv("BUSYCORE_PAUSE");
}

bool late_holds(const struct fid *fid)
{
	struct busy *busy = fid->fclass == FI_CLASS_CQ ? busy_find(fid) : NULL;
	bool holds;

	if (!busy || !busy->late)
		return false;
	pthread_mutex_lock(&busy->late->lock);
	holds = !TAILQ_EMPTY(&busy->late->held);
	pthread_mutex_unlock(&busy->late->lock);
	return holds;
}

/* Is this the one of its kind that the variable @name wants? Over all queues */
static bool late_chosen(const char *name, long *count)
{
	const char *wish = getenv(name);

	if (!wish || __atomic_add_fetch(count, 1, __ATOMIC_RELAXED) != atol(wish))
		return false;
	fprintf(stderr, "fault: %s=%s\n", name, wish);
	return true;
}

static void late_spoil(struct held *held)
{
	static long cuts, losses;
	struct fi_cq_tagged_entry *comp = &held->comp;

	if (!(comp->flags & FI_RECV))
		return;
	if (comp->len && late_chosen("BUSYCORE_CUT", &cuts)) {
		held->err = FI_ETRUNC;
		held->olen = comp->len - comp->len / 2;
		comp->len /= 2;
	} else if (late_chosen("BUSYCORE_LOSE", &losses)) {
		held->err = FI_EIO;
		*comp = (struct fi_cq_tagged_entry){
			.op_context = comp->op_context,
			.flags = comp->flags & ~FI_REMOTE_CQ_DATA,
		};
	}
}

/* Takes what the core has. Returns -FI_EAGAIN, or an error that the core has next */
static ssize_t late_take(struct late *late, struct fid_cq *cq)
{
	struct fi_cq_tagged_entry comp = {0};
	fi_addr_t src = FI_ADDR_NOTAVAIL;
	struct held *held;
	ssize_t ret;

	while (late->count < LATE_HELD) {
		ret = late->core->readfrom(cq, &comp, 1, &src);
		if (ret != 1)
			return ret;
		held = calloc(1, sizeof(*held));
		if (!held)
			abort();
		held->comp = comp;
		held->src = src;
		if (late->most)
			held->reads = (unsigned int) rand_r(&late->seed) % (late->most + 1);
		late_spoil(held);
		TAILQ_INSERT_TAIL(&late->held, held, entry);
		late->count++;
		__atomic_add_fetch(&late_held, 1, __ATOMIC_RELAXED);
	}
	return -FI_EAGAIN;
}

void late_hurry(void)
{
	__atomic_add_fetch(&late_closed, 1, __ATOMIC_RELAXED);
}

/* A core's queue has nothing of a closed endpoint any more once it has been read empty. */
static void late_wait(struct late *late)
{
	const unsigned int closed = __atomic_load_n(&late_closed, __ATOMIC_RELAXED);
	const bool hurry = late->closed != closed;
	struct held *held;

	TAILQ_FOREACH(held, &late->held, entry)
		held->reads = hurry || !held->reads ? 0 : held->reads - 1;
	if (TAILQ_EMPTY(&late->held))
		late->closed = closed;
}

static bool late_short(const struct held *held)
{
	const uint64_t kind = FI_RECV | FI_MSG;

	return (held->comp.flags & kind) == kind && held->comp.len <= LATE_SHORT;
}

/* Is there one that it may not be told before? */
static bool late_overtakes(const struct late *late, const struct held *held)
{
	const struct held *other;

	for (other = TAILQ_FIRST(&late->held); other != held; other = TAILQ_NEXT(other, entry))
		if (other->comp.op_context == held->comp.op_context ||
		    (late_short(other) && late_short(held)))
			return true;
	return false;
}

/* The one that is told next; NULL: none is told now */
static struct held *late_next(struct late *late)
{
	struct held *held, *next = NULL;
	int choice = 0;

	if (!late->most)
		return TAILQ_FIRST(&late->held);
	TAILQ_FOREACH(held, &late->held, entry)
		if (!held->reads && !late_overtakes(late, held) &&
		    rand_r(&late->seed) % ++choice == 0)
			next = held;
	return next;
}

static void late_drop(struct late *late, struct held *held)
{
	TAILQ_REMOVE(&late->held, held, entry);
	late->count--;
	__atomic_sub_fetch(&late_held, 1, __ATOMIC_RELAXED);
	free(held);
}

/* Tells of up to @count completions: how many, or -FI_EAVAIL */
static ssize_t late_tell(struct late *late, char *buf, size_t count, fi_addr_t *src)
{
	struct held *held;
	ssize_t told = 0;

	if (late->most && count)
		count = 1 + (size_t) rand_r(&late->seed) % count;
	while ((size_t) told < count && (held = late_next(late))) {
		if (held->err)
			return told ? told : -FI_EAVAIL;
		memcpy(buf + (size_t) told * late->size, &held->comp, late->size);
		if (src)
			src[told] = held->src;
		told++;
		late_drop(late, held);
	}
	return told;
}

static ssize_t late_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	const struct timespec pause = {.tv_nsec = LATE_PAUSE};
	struct late *late = busy_find(cq)->late;
	ssize_t ret, told;
	bool holds;

	pthread_mutex_lock(&late->lock);
	if (late->pauses && (unsigned int) rand_r(&late->seed) % late->pauses == 0)
		nanosleep(&pause, NULL);
	ret = late_take(late, cq);
	late_wait(late);
	told = late_tell(late, buf, count, src);
	holds = !TAILQ_EMPTY(&late->held);
	/* another thread may sleep on what this one has taken */
	if (holds && late->sleeps)
		late->core->signal(cq);
	pthread_mutex_unlock(&late->lock);
	if (told)
		return told;
	return holds && !count ? 0 : ret;
}

static ssize_t late_read(struct fid_cq *cq, void *buf, size_t count)
{
	return late_readfrom(cq, buf, count, NULL);
}

static ssize_t late_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct late *late = busy_find(cq)->late;
	struct held *held;
	ssize_t ret;

	pthread_mutex_lock(&late->lock);
	held = TAILQ_FIRST(&late->held);
	if (held && held->err) {
		entry->op_context = held->comp.op_context;
		entry->flags = held->comp.flags;
		entry->len = held->comp.len;
		entry->buf = held->comp.buf;
		entry->data = held->comp.data;
		entry->tag = held->comp.tag;
		entry->olen = held->olen;
		entry->err = held->err;
		entry->prov_errno = held->err;
		entry->err_data_size = 0;
		late_drop(late, held);
		ret = 1;
	} else {
		ret = late->core->readerr(cq, entry, flags);
	}
	pthread_mutex_unlock(&late->lock);
	return ret;
}

/* What a variable says; 0: it is not set */
static unsigned int late_number(const char *name)
{
	const char *text = getenv(name);

	return text ? (unsigned int) atoi(text) : 0;
}

/* Those that a queue which lay here before has told nobody of are gone with it */
static struct late *late_get(struct busy *busy)
{
	static unsigned int opened;
	struct late *late = busy->late;

	if (!late) {
		late = calloc(1, sizeof(*late));
		if (!late)
			abort();
		pthread_mutex_init(&late->lock, NULL);
		TAILQ_INIT(&late->held);
		busy->late = late;
	}
	while (!TAILQ_EMPTY(&late->held))
		late_drop(late, TAILQ_FIRST(&late->held));
	late->most = late_number("BUSYCORE_LATE");
	late->pauses = late_number("BUSYCORE_PAUSE");
	late->seed = busy_seed() + __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED);
	return late;
}

void late_opened(struct fid_cq *cq, const struct fi_cq_attr *attr)
{
	struct late *late = late_get(busy_new(cq));

	late->size = busy_entry_size(attr);
	late->sleeps = attr->wait_obj != FI_WAIT_NONE;
	late->core = cq->ops;
	cq->ops = busy_copy(cq->ops);
	cq->ops->read = late_read;
	cq->ops->readfrom = late_readfrom;
	cq->ops->readerr = late_readerr;
}

/* The core has counted what is held back: nothing would wake who sleeps until something else is counted. */
static int late_counter_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
	return __atomic_load_n(&late_held, __ATOMIC_RELAXED)
		       ? -FI_ETIMEDOUT
		       : busy_find(cntr)->cntr->wait(cntr, threshold, timeout);
}

void late_counter_opened(struct fid_cntr *cntr)
{
	busy_new(cntr)->cntr = cntr->ops;
	cntr->ops = busy_copy(cntr->ops);
	cntr->ops->wait = late_counter_wait;
}
