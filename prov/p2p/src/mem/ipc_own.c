/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Offers that stand. See ipc_own.h. */
#include "mem/ipc_own.h"

#include <rdma/fi_errno.h>

#include "base/process.h"

#define IPC_OWN_CHAINS 256

/*
 * The offers of all domains, by their numbers, and what reads them here. Each domain has a lock of its own, so these have
 * another one. PROCESS_READINGS is held from the look whether one stands until it is read, and while one falls. A driver
 * may hold up the thread that opens memory for others. So PROCESS_OPENING holds up the offers of @opening alone.
 */
static struct {
	uint64_t opening;
	LIST_HEAD(, ipc_own) chains[IPC_OWN_CHAINS];
	LIST_HEAD(, ipc_reading) readings;
} ipc_owns;

void ipc_own_stand(struct ipc_own *own, uint64_t number, const struct dev_mem *mem,
		   const void *addr, size_t len)
{
	own->number = number;
	own->id = mem->id;
	own->addr = (uintptr_t) addr;
	own->len = len;
	process_lock(PROCESS_TABLES);
	LIST_INSERT_HEAD(&ipc_owns.chains[number % IPC_OWN_CHAINS], own, entry);
	process_unlock(PROCESS_TABLES);
}

/* One that reads it, or NULL */
static struct ipc_reading *ipc_reading_of(const struct ipc_own *own)
{
	struct ipc_reading *reading;

	process_lock(PROCESS_TABLES);
	LIST_FOREACH(reading, &ipc_owns.readings, entry) {
		if (reading->number == own->number)
			break;
	}
	process_unlock(PROCESS_TABLES);
	return reading;
}

static void ipc_reading_end(struct ipc_reading *reading)
{
	process_lock(PROCESS_TABLES);
	LIST_REMOVE(reading, entry);
	process_unlock(PROCESS_TABLES);
	reading->queue = NULL;
}

void ipc_own_fall(struct ipc_own *own)
{
	struct ipc_reading *reading;
	bool opening;

	if (!own->entry.le_prev)
		return;
	process_lock(PROCESS_READINGS);
	process_lock(PROCESS_TABLES);
	LIST_REMOVE(own, entry);
	opening = ipc_owns.opening == own->id;
	process_unlock(PROCESS_TABLES);
	own->entry.le_prev = NULL;
	while ((reading = ipc_reading_of(own))) {
		reading->queue->ops->queue_drain(reading->queue);
		ipc_reading_end(reading);
	}
	process_unlock(PROCESS_READINGS);
	if (!opening)
		return;
	process_lock(PROCESS_OPENING);
	process_unlock(PROCESS_OPENING);
}

bool ipc_own_stands(uint64_t number, const struct ipc_own *like)
{
	const struct ipc_own *own;

	process_lock(PROCESS_TABLES);
	LIST_FOREACH(own, &ipc_owns.chains[number % IPC_OWN_CHAINS], entry) {
		if (own->number == number &&
		    (!like ||
		     (own->id == like->id && own->addr == like->addr && like->len <= own->len)))
			break;
	}
	process_unlock(PROCESS_TABLES);
	return own;
}

int ipc_read(struct ipc_reading *reading, uint64_t number, struct dev_queue *queue,
	     int (*start)(void *arg), void *arg)
{
	int ret;

	process_lock(PROCESS_READINGS);
	ret = ipc_own_stands(number, NULL) ? start(arg) : -FI_ECONNABORTED;
	if (!ret) {
		reading->queue = queue;
		reading->number = number;
		process_lock(PROCESS_TABLES);
		LIST_INSERT_HEAD(&ipc_owns.readings, reading, entry);
		process_unlock(PROCESS_TABLES);
	}
	process_unlock(PROCESS_READINGS);
	return ret;
}

void ipc_read_end(struct ipc_reading *reading)
{
	process_lock(PROCESS_READINGS);
	if (reading->queue)
		ipc_reading_end(reading);
	process_unlock(PROCESS_READINGS);
}

/* Is there one of this allocation? No such falls until this is called with 0. */
static bool ipc_own_open(uint64_t id)
{
	const struct ipc_own *own = NULL;

	process_lock(PROCESS_TABLES);
	ipc_owns.opening = id;
	for (int i = 0; i < IPC_OWN_CHAINS && !own && id; i++) {
		LIST_FOREACH(own, &ipc_owns.chains[i], entry) {
			if (own->id == id)
				break;
		}
	}
	process_unlock(PROCESS_TABLES);
	return own;
}

int ipc_own_hold(uint64_t id, int (*run)(void *arg), void *arg)
{
	int ret;

	process_lock(PROCESS_OPENING);
	ret = ipc_own_open(id) ? run(arg) : -FI_ENOENT;
	ipc_own_open(0);
	process_unlock(PROCESS_OPENING);
	return ret;
}
