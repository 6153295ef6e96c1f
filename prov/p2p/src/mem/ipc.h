/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory of one process in the hands of another one on the same host: what is told of it (an offer), and what both
 * ends keep of that. Only this file and ipc_share.c call the GPU runtimes' ipc_ operations.
 *
 * An allocation is known by its id, and a process by a random number. Neither ever comes again,
 * so a freed and re-used address finds nothing of what was there before.
 *
 * Runtimes may refuse to open memory that lies where something else is still open. So stale memory is closed first. If there
 * is no room, the import that was unused for longest is closed.
 *
 * Memory that its owner has freed comes back to the driver when the last process has closed it. So owners are
 * asked, without waiting, what there still is of what is open and unused. To close memory may wait for kernels of
 * the application, which may wait for a message. So what is gone is closed when no device memory has moved for
 * IPC_QUIET, or once there is more of it than IPC_GONE_MOST.
 *
 * If the application has said that its kernels wait, what was opened stays until ipc_trim(). What it is in the way of,
 * or what comes once IPC_GONE_MOST is gone, is refused then: its messages are staged.
 *
 * Of memory that was attached, not opened, the owner's driver must not be asked (ipc_own.h). To detach it waits for nothing.
 * So it is detached when it was unused for IPC_QUIET, or for IPC_BRIEF once more than IPC_GONE_MOST of it is unused.
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
#include "mem/ipc_own.h"

struct ipc_share;

/**
 * struct ipc_offer - what a process tells others of a buffer in its device memory.
 * @host:	tells who may open it: one number on one running host, among the processes of one user. Its upper half
 *		is the host's alone
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
 * The namespaces of a process, by their inode numbers on its host; 0: not known. In the same @pid a process has the same id
 * for others as for itself. In the same @net others can ask it (ipc_share.h).
 */
struct ipc_spaces {
	uint32_t pid;
	uint32_t net;
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

/* Memory that is gone and has not been closed yet, at most, where more is opened [bytes] */
#define IPC_GONE_MOST ((size_t) 256 << 20)

/* See above [ms] */
#define IPC_QUIET 1000
#define IPC_BRIEF 100

/* Questions that are further apart have no need to be asked in time [ns] */
#define IPC_RESTLESS 4000000000ULL

/* An allocation of another process's, by its id, and where it begins there */
struct ipc_place {
	uint64_t id;
	uint64_t base;
};

/* So many are asked about at once, at most */
#define IPC_PLACES 64

/**
 * struct ipc_look - a question to another process, which of its allocations there still are.
 * @number:	of the question (ipc_share.h); negative: there is none under way
 * @process:	who is asked, since @asked [ms], about @count of @places
 * @turn:	the number of questions so far
 * @pace:	one that finds nothing is followed by the next one later and later
 */
struct ipc_look {
	int number;
	uint64_t process;
	uint64_t asked;
	uint32_t count;
	struct ipc_place places[IPC_PLACES];
	uint64_t turn;
	struct retry pace;
};

/**
 * struct ipc_import - another process's allocation, opened here.
 * @size:	its length [bytes], as its runtime confirms
 * @shared:	it is attached, not opened
 * @addr:	where it is here
 * @users:	how many have it from ipc_open(); @used_at: when the latest use ended [ms]
 * @gone:	its owner has freed it, or does not answer any more
 * @looked:	the latest question about it (ipc_look.turn)
 */
struct ipc_import {
	struct ipc_key key;
	const struct dev_ops *ops;
	uint64_t size;
	bool shared;
	void *addr;
	unsigned int users;
	uint64_t used_at;
	bool gone;
	uint64_t looked;
	TAILQ_ENTRY(ipc_import) used;
	UT_hash_handle hh;
};

TAILQ_HEAD(ipc_imports, ipc_import);

/*
 * A device of another process whose memory, of one kind, could not be opened in a context here, who offered it, and when it
 * may be tried again: not before its owner has answered @question (ipc_share.h), unless that is negative
 */
struct ipc_failure {
	uint64_t peer;
	uint64_t process;
	uint32_t device;
	bool shared;
	void *ctx;
	int question;
	struct retry retry;
};

#define IPC_FAILURES 32

/**
 * struct ipc - one domain's exports and imports.
 * @host, @process: as in this process's offers; @spaces: where it is
 * @exports, @imports: by id and by key
 * @exported, @imported: the same, with what was used last at the end
 * @kept:	the number of imports; read without the lock
 * @bytes:	their length [bytes]; @gone: of those that are gone
 * @used_at:	when the latest use of one ended [ms]
 * @look:	the question that is under way
 * @failures:	what is not tried again too soon; the newest takes the place of the oldest
 */
struct ipc {
	uint64_t host;
	uint64_t process;
	struct ipc_spaces spaces;
	struct ipc_export *exports;
	struct ipc_exports exported;
	struct ipc_import *imports;
	struct ipc_imports imported;
	unsigned int kept;
	size_t bytes;
	size_t gone;
	uint64_t used_at;
	struct ipc_look look;
	struct ipc_failure failures[IPC_FAILURES];
	unsigned int next_failure;
};

/* @random: a number for this process, if this is the first of its domains */
void ipc_init(struct ipc *ipc, uint64_t random);

/* Tells whether other processes' memory is open here. Then ipc_tend() is to be called now and then. Not [locked] */
static inline bool ipc_keeps(const struct ipc *ipc)
{
	return __atomic_load_n(&ipc->kept, __ATOMIC_RELAXED);
}

/* The same: somebody who would sleep for long is to call it before */
static inline bool ipc_restless(const struct ipc *ipc)
{
	return ipc_keeps(ipc) && ipc->look.pace.delay < IPC_RESTLESS;
}

/* From now on kernels of this process wait for messages, whatever FI_P2P_CUDA_API says. Not [locked] */
void ipc_kernels_wait(void);

/* Asks whose memory is gone, and closes it if @still: no copy is under way */
void ipc_tend(struct ipc *ipc, bool still);

/* Closes what is not in use, and waits for kernels. At ipc_fini() nothing may be in use any more. */
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

/* Has a process of this host, whose PID namespace is @pid, the same id here as for itself? Not if that is not known */
static inline bool ipc_shares_ids(const struct ipc *ipc, uint32_t pid)
{
	return pid && pid == ipc->spaces.pid;
}

/* Does the offer come from a process of this user, on this host? */
static inline bool ipc_near(const struct ipc *ipc, const struct ipc_offer *offer)
{
	return offer->host == ipc->host;
}

/*
 * Opens what a near process offers, in the context of @local, or finds it open. Fills @addr
 * with the buffer's place here, and @import for ipc_close(). If the memory is this process's
 * own, @import is NULL, and there is nothing to close: such an offer has to stand, and is read by ipc_read().
 *
 * -FI_EAGAIN: too much is in use now, or may not be closed. -FI_EOPNOTSUPP: this memory cannot be opened, or is not
 * what the peer says (logged). If a runtime refused it, or the owner did not answer, other memory of that peer's device and
 * process is left alone for a while (retry.h).
 */
int ipc_open(struct ipc *ipc, const struct ipc_claim *claim, const struct dev_mem *local,
	     struct ipc_import **import, void **addr);
void ipc_close(struct ipc *ipc, struct ipc_import *import);

#endif /* P2P_IPC_H */
