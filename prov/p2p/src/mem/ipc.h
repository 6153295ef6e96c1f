/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory of one process in the hands of another one on the same host: what is
 * told of it (an offer), and what is kept of that at both ends. With ipc_share.c, the only caller
 * of the GPU runtimes' ipc_ operations.
 *
 * An allocation is known by its id, which no other one of its process ever has, and a process
 * by a random number, which no other one has: a freed and re-used address finds nothing of
 * what was there before. Runtimes may refuse to open what lies where something else is still
 * open, so that is closed first. What is not in use makes room for others, what was not used
 * for longest first.
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

#include "dev/dev.h"

/**
 * struct ipc_offer - what a process tells others of a buffer in its device memory.
 * @host:	who can open it: the same number on one running host, among the processes of one
 *		user in one container
 * @process:	whose it is
 * @id:		the allocation, in that process; it is @size bytes at @base there
 * @offset:	where in the allocation the buffer begins
 * @device:	the device's number in that process
 * @shared:	the owner gives a descriptor of it to who asks (ipc_share.h)
 * @handle:	else what the runtime opens it by
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

/* An allocation of ours, by its id. @why: the runtime refuses to export it; NULL: @handle */
struct ipc_export {
	uint64_t id;
	const char *why;
	uint8_t handle[DEV_IPC_HANDLE];
	TAILQ_ENTRY(ipc_export) used;
	UT_hash_handle hh;
};

TAILQ_HEAD(ipc_exports, ipc_export);

/* Whose allocation, where it is there, and the context here that it is opened in */
struct ipc_key {
	uint64_t process;
	uint64_t id;
	uint64_t base;
	void *ctx;
};

/**
 * struct ipc_import - another process's allocation, opened here.
 * @size:	its size
 * @shared:	attached, not opened
 * @addr:	where it is here
 * @users:	who has it from ipc_open()
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

/* A device of another process whose memory, of one kind, could not be opened in a context here */
struct ipc_failure {
	uint64_t process;
	uint32_t device;
	bool shared;
	void *ctx;
};

#define IPC_FAILURES 32

/**
 * struct ipc - one domain's exports and imports.
 * @host, @process: as in this process's offers
 * @exports, @imports: by id and by key; @exported, @imported: the same, what was used last at
 *		the end
 * @failures:	what need not be tried again; the oldest is forgotten for the newest
 */
struct ipc {
	uint64_t host;
	uint64_t process;
	struct ipc_export *exports;
	struct ipc_exports exported;
	struct ipc_import *imports;
	struct ipc_imports imported;
	struct ipc_failure failures[IPC_FAILURES];
	unsigned int failed;
};

/* @random: a number for this process, if it is the first of its domains */
void ipc_init(struct ipc *ipc, uint64_t random);

/* Closes what is not in use; ipc_fini() wants nothing to be in use any more */
void ipc_trim(struct ipc *ipc);
void ipc_fini(struct ipc *ipc);

/*
 * What others can open the allocation @mem by, of which they need @len bytes from @addr on; valid
 * until the next call. NULL, with @why, when they cannot.
 */
const struct ipc_export *ipc_export(struct ipc *ipc, const struct dev_mem *mem,
				    const void *addr, size_t len, const char **why);

/* Fills @offer with what there is to tell of the buffer at @addr in it */
void ipc_describe(const struct ipc *ipc, const struct ipc_export *export,
		  const struct dev_mem *mem, const void *addr, struct ipc_offer *offer);

/* Does the offer come from where this process can open it? */
static inline bool ipc_near(const struct ipc *ipc, const struct ipc_offer *offer)
{
	return offer->host == ipc->host;
}

/*
 * Opens what a near process offers, in the context of @local, or finds it open. Fills @addr
 * with where the buffer is here, and @import for ipc_close() (NULL, and nothing to close, if it
 * is memory of this process). -FI_EAGAIN: too much is in use now; -FI_EOPNOTSUPP: it cannot be
 * opened, nor can other memory of that device and process.
 */
int ipc_open(struct ipc *ipc, const struct ipc_offer *offer, const struct dev_mem *local,
	     struct ipc_import **import, void **addr);
void ipc_close(struct ipc_import *import);

#endif /* P2P_IPC_H */
