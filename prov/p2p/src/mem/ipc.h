/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory of one process in the hands of another one on the same host: what is told of it
 * (an offer), and what both ends keep of that. Only this file and ipc_share.c call the GPU
 * runtimes' ipc_ operations.
 *
 * An allocation is known by its id, and a process by a random number. Neither ever comes again,
 * so a freed and re-used address finds nothing of what was there before.
 *
 * Runtimes may refuse to open memory that lies where something else is still open. So stale
 * memory is closed first. If there is no room, the import that was unused for longest is
 * closed.
 *
 * The caller's lock guards it.
 */
#ifndef P2P_IPC_H
#define P2P_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* a library does not end the process when memory is short */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/retry.h"
#include "dev/dev.h"

struct ipc_share;

/**
 * struct ipc_offer - what a process tells others of a buffer in its device memory.
 * @host:	tells who can open it: one number on one running host, among the processes of
 *		one user in one container
 * @process:	the process that has the memory
 * @id:		the allocation's id in that process
 * @base:	where the allocation begins in that process
 * @size:	the allocation's length [bytes]
 * @offset:	where in the allocation the buffer begins [bytes]
 * @device:	the device's number in that process
 * @shared:	the owner gives a descriptor to a process that asks (ipc_share.h)
 * @handle:	what the runtime opens the memory by; if @shared: what the owner is asked with
 */
struct ipc_offer {
	uint64_t host;
	uint64_t process;
	uint64_t id;
	uint64_t base;
	uint64_t size;
	uint64_t offset;
	uint32_t device;
	bool shared;
	uint8_t handle[DEV_IPC_HANDLE];
};

/*
 * An allocation of ours, by its id. @why: why the runtime refuses to export it, which it is asked again when
 * @retry says so; NULL: it has @handle. @share: it is given to who knows that; NULL: it need not be asked for
 */
struct ipc_export {
	uint64_t id;
	const char *why;
	struct retry retry;
	uint8_t handle[DEV_IPC_HANDLE];
	struct ipc_share *share;
	TAILQ_ENTRY(ipc_export) used;
	UT_hash_handle hh;
};

TAILQ_HEAD(ipc_exports, ipc_export);

/**
 * struct ipc_own - an offer of this process's that stands: its message is under way.
 * @number:	the message's number
 * @id:		the allocation's
 * @addr, @len:	the buffer
 * @entry:	@entry.le_prev is NULL if it does not stand
 */
struct ipc_own {
	uint64_t number;
	uint64_t id;
	uintptr_t addr;
	size_t len;
	LIST_ENTRY(ipc_own) entry;
};

/**
 * struct ipc_claim - an offer that has come in a message; a peer may say anything.
 * @peer:	who has sent it
 * @number:	the message's number there
 * @len:	the message's length [bytes]
 */
struct ipc_claim {
	uint64_t peer;
	uint64_t number;
	size_t len;
	const struct ipc_offer *offer;
};

/*
 * The owner of an allocation, where it is there, what it is opened by, and in which context
 * here. Who names another's allocation has another handle, and gets an import of its own.
 */
struct ipc_key {
	uint64_t process;
	uint64_t id;
	uint64_t base;
	void *ctx;
	uint8_t handle[DEV_IPC_HANDLE];
};

/**
 * struct ipc_import - another process's allocation, opened here.
 * @size:	its length [bytes], as its runtime confirms
 * @shared:	it is attached, not opened
 * @addr:	where it is here
 * @users:	how many have it from ipc_open()
 */
struct ipc_import {
	struct ipc_key key;
	const struct dev_ops *ops;
	uint64_t size;
	bool shared;
	void *addr;
	unsigned int users;
	TAILQ_ENTRY(ipc_import) used;
	UT_hash_handle hh;
};

TAILQ_HEAD(ipc_imports, ipc_import);

/*
 * A device of another process whose memory, of one kind, could not be opened in a context here,
 * who offered it, and when it may be tried again
 */
struct ipc_failure {
	uint64_t peer;
	uint64_t process;
	uint32_t device;
	bool shared;
	void *ctx;
	struct retry retry;
};

#define IPC_FAILURES 32

/**
 * struct ipc - one domain's exports and imports.
 * @host, @process: as in this process's offers
 * @exports, @imports: by id and by key
 * @exported, @imported: the same, with what was used last at the end
 * @failures:	what is not tried again too soon; the newest takes the place of the oldest
 */
struct ipc {
	uint64_t host;
	uint64_t process;
	struct ipc_export *exports;
	struct ipc_exports exported;
	struct ipc_import *imports;
	struct ipc_imports imported;
	struct ipc_failure failures[IPC_FAILURES];
	unsigned int next_failure;
};

/* @random: a number for this process, if this is the first of its domains */
void ipc_init(struct ipc *ipc, uint64_t random);

/* Closes what is not in use. At ipc_fini() nothing may be in use any more. */
void ipc_trim(struct ipc *ipc);
void ipc_fini(struct ipc *ipc);

/*
 * What others can open the allocation @mem by; they need the @len bytes at @addr of it. Valid
 * until the next call. NULL, with @why: others cannot open it.
 */
const struct ipc_export *ipc_export(struct ipc *ipc, const struct dev_mem *mem,
				    const void *addr, size_t len, const char **why);

/* Fills @offer with all that there is to tell of the buffer at @addr in @mem */
void ipc_describe(const struct ipc *ipc, const struct ipc_export *export,
		  const struct dev_mem *mem, const void *addr, struct ipc_offer *offer);

/*
 * From now on, and until it falls, the offer made of the buffer at @addr in @mem for message
 * @number stands. Other domains of this process may take it, in other threads.
 */
void ipc_own_stand(struct ipc_own *own, uint64_t number, const struct dev_mem *mem,
		   const void *addr, size_t len);

/* Nothing, if it does not stand */
void ipc_own_fall(struct ipc_own *own);

/* Does the offer come from a process whose memory this process can open? */
static inline bool ipc_near(const struct ipc *ipc, const struct ipc_offer *offer)
{
	return offer->host == ipc->host;
}

/*
 * Opens what a near process offers, in the context of @local, or finds it open. Fills @addr
 * with the buffer's place here, and @import for ipc_close(). If the memory is this process's
 * own, @import is NULL, and there is nothing to close: such an offer has to stand.
 *
 * -FI_EAGAIN: too much is in use now. -FI_EOPNOTSUPP: this memory cannot be opened, or is not
 * what the peer says (logged). If a runtime refused it, other memory of that peer's device and
 * process is left alone for a while (retry.h).
 */
int ipc_open(struct ipc *ipc, const struct ipc_claim *claim, const struct dev_mem *local,
	     struct ipc_import **import, void **addr);
void ipc_close(struct ipc_import *import);

#endif /* P2P_IPC_H */
