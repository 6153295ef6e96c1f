/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory that has no handle which could be told to others (virtual memory). Its owner
 * opens a descriptor for each process that asks.
 *
 * A thread of the owner's answers on a local socket, which is named after the process. So
 * nobody waits until the application makes progress. Each end refuses another user's process.
 * Who asks has to know the word that the offer of the memory has.
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
 * Makes this process answer from now on. @process: its number. May be called again. Returns 0
 * or a negative error, logged.
 */
int ipc_share_start(uint64_t process);

/* Ends that. Has to be called before the library is unloaded. */
void ipc_share_stop(void);

/*
 * From now on, and until it is revoked, @mem is given to who knows the word that is put to
 * @word (DEV_IPC_HANDLE bytes). 0 or a negative error
 */
int ipc_share_grant(const struct dev_mem *mem, struct ipc_share **share, void *word);
void ipc_share_revoke(struct ipc_share *share);

/*
 * Asks the owner for a descriptor of the memory that @offer is about. The caller closes @fd.
 *
 * The answer takes some dozens of microseconds. If the owner is stopped, the wait is limited.
 * Returns 0, or a negative error with @why.
 */
int ipc_share_get(const struct ipc_offer *offer, int *fd, const char **why);

#endif /* P2P_IPC_SHARE_H */
