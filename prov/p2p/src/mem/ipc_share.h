/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory that has no handle which could be told to others (virtual memory): its
 * owner opens a descriptor for whoever asks. A thread of the owner's answers, on a local socket
 * that is named after the process, so that nobody waits for the application to make progress.
 * Both ends want the other to be the same user's.
 */
#ifndef P2P_IPC_SHARE_H
#define P2P_IPC_SHARE_H

#include <inttypes.h>

#include "mem/ipc.h"

/* What the socket is called: without the zero in front that such names begin with */
#define IPC_SHARE_NAME "ofi_p2p.%016" PRIx64

/*
 * From now on this process, whose number is @process, answers. May be called again. 0 or a
 * negative error, logged.
 */
int ipc_share_start(uint64_t process);

/* Ends that: before the library is unloaded */
void ipc_share_stop(void);

/*
 * Asks its owner for a descriptor of what @offer is about; the caller closes @fd. Waits for the
 * answer, which takes some dozens of microseconds, and not long for an owner that is stopped. 0 or a
 * negative error, with @why.
 */
int ipc_share_get(const struct ipc_offer *offer, int *fd, const char **why);

#endif /* P2P_IPC_SHARE_H */
