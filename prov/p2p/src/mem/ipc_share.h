/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a process of this host asks the owner of device memory that it was offered. For a descriptor, where
 * there is no handle which could be told to others (virtual memory): the owner opens one for each process that
 * asks, and closes it at once, as it would keep the memory. For the owner's board (board.h), which a process that may not
 * look into the owner cannot open otherwise. And whether memory that is open still is there: what its
 * owner has freed comes back to the driver when the last process has closed it.
 *
 * A thread of the owner's answers on a local socket, which is named after the process. So
 * nobody waits until the application makes progress. Each end refuses another user's process.
 * Who asks for a descriptor has to know the word that the offer of the memory has.
 */
#ifndef P2P_IPC_SHARE_H
#define P2P_IPC_SHARE_H

#include <inttypes.h>

#include "mem/ipc.h"

/* The socket's name, without the zero that such names begin with */
#define IPC_SHARE_NAME "ofi_p2p.%016" PRIx64

/* The length of the word. It is where other memory has its handle. */
#define IPC_SHARE_WORD 16

struct ipc_share;

/*
 * Makes this process answer from now on. @process: its number. May be called again. Returns 0 or a negative error, logged.
 */
int ipc_share_start(uint64_t process);

/* Ends that. Has to be called before the library is unloaded. */
void ipc_share_stop(void);

/*
 * From now on, and until it is revoked, the allocation @id is given to who knows the word that is put to @word
 * (DEV_IPC_HANDLE bytes). Or the board @fd to anybody, by its owner in place of an id, and @word is NULL. 0 or a negative error
 */
int ipc_share_grant(uint64_t id, int fd, struct ipc_share **share, void *word);
void ipc_share_revoke(struct ipc_share *share);

/*
 * Asks the owner for a descriptor of the memory, or the board, that @offer is about. The caller closes @fd.
 *
 * The answer takes some dozens of microseconds, and is waited for a little. Returns 0, or a negative error with @why.
 * -FI_EAGAIN: the owner does not answer, it may be stopped. Then @fd is the question, for ipc_share_seen(). With another
 * error @fd is -1. -FI_EOPNOTSUPP: it has answered, and does not share that.
 */
int ipc_share_get(const struct ipc_offer *offer, int *fd, const char **why);

/*
 * Asks @process which of these @count allocations it still has, and does not wait. Returns the number of the
 * question, for ipc_share_seen(); -FI_ECONNREFUSED: nobody answers for that process; or another negative error.
 */
int ipc_share_look(uint64_t process, const struct ipc_place *places, uint32_t count);

/*
 * 0: the answer is here, with a bit in @gone for each allocation that has been freed. -FI_EAGAIN: not yet. Another
 * error: there is none, or it is to a question for a descriptor, which nobody waits for any more. But for -FI_EAGAIN the
 * question is over.
 */
int ipc_share_seen(int question, uint32_t count, uint64_t *gone);

#endif /* P2P_IPC_SHARE_H */
