/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Offers of this process's device memory that stand. While one does, the application does not get the memory back, so it is
 * there. Without that, no other thread than the application's may ask the driver about virtual memory. Beside a cuMemUnmap()
 * of the same address, cuMemRetainAllocationHandle() writes to freed memory of the driver's, and cuPointerGetAttributes()
 * may crash.
 */
#ifndef P2P_IPC_OWN_H
#define P2P_IPC_OWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dev/dev.h"

/**
 * struct ipc_reading - a copy that reads, in this process, what the process itself has offered.
 * @queue:	that it is in; NULL: there is no such copy, or nobody has to wait for it any more
 * @number:	the message's
 */
struct ipc_reading {
	struct dev_queue *queue;
	uint64_t number;
	LIST_ENTRY(ipc_reading) entry;
};

/**
 * struct ipc_own - an offer of this process's that stands: its message is under way, or its region is open.
 * @number:	the message's number
 * @id:		the allocation's
 * @addr, @len:	the buffer; of a region @len is 0, as no message is about it
 * @entry:	@entry.le_prev is NULL if it does not stand
 */
struct ipc_own {
	uint64_t number;
	uint64_t id;
	uintptr_t addr;
	size_t len;
	LIST_ENTRY(ipc_own) entry;
};

/*
 * From now on, and until it falls, the offer made of the buffer at @addr in @mem for message
 * @number stands. Other domains of this process may take it, in other threads.
 */
void ipc_own_stand(struct ipc_own *own, uint64_t number, const struct dev_mem *mem,
		   const void *addr, size_t len);

/*
 * Withdraws an offer of device memory. Nothing, if it does not stand. Waits for copies in this process that
 * read the memory: it may be freed then. What other processes have opened stays.
 */
void ipc_own_fall(struct ipc_own *own);

/* Does an offer stand for message @number, of what @like says? NULL: of whatever */
bool ipc_own_stands(uint64_t number, const struct ipc_own *like);

/* Calls @run while an offer of the allocation @id stands; none of them falls meanwhile. Returns @run's result, or -FI_ENOENT */
int ipc_own_hold(uint64_t id, int (*run)(void *arg), void *arg);

/*
 * Has @start put a copy into @queue that reads the offer for message @number, if that stands; else -FI_ECONNABORTED. Once
 * the copy has ended, ipc_read_end().
 */
int ipc_read(struct ipc_reading *reading, uint64_t number, struct dev_queue *queue,
	     int (*start)(void *arg), void *arg);
void ipc_read_end(struct ipc_reading *reading);

#endif /* P2P_IPC_OWN_H */
