/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RDMA buffer objects: what the files of this folder share. They are a library of their own over
 * public libfabric calls, so nothing here includes more of the provider's than its public headers and
 * what is below the provider: base/ and dev/.
 *
 * A buffer or a view (struct p2p_buffer) is a small object with a reference to the memory
 * (struct p2p_buffer_memory). The last reference closes the memory region. A transfer has references
 * to both memories, and a slot where bytes are copied between GPU and host. They are copied where the provider does not
 * take the address of GPU memory; the endpoint is asked for the path, if that is ours.
 */
#ifndef P2P_BUFFER_BUFFER_H
#define P2P_BUFFER_BUFFER_H

#include <assert.h>
#include <pthread.h>
#include <sys/types.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_p2p.h>
#include <rdma/fi_p2p_buffer.h>

#include "buffer/gpu.h"

/* Structures of libfabric grow at their end, and a newer one may copy the whole of its own. */
#define BUFFER_TAIL_ROOM 256

/* A piece that is copied between GPU and host [bytes], and how many may be under way at a time */
#define BUFFER_SLOT_SIZE ((size_t) 1 << 20)
#define BUFFER_SLOTS 8

/* So many released buffers of a context are recognised */
#define BUFFER_DEAD_KEPT 256

#define BUFFER_ALIVE 0x62756666657221ffULL
#define BUFFER_DEAD 0x646561642d627566ULL

/** struct buffer_mr - a memory region, or none. @shared: 0, or why no peer may reach it */
struct buffer_mr {
	struct fid_mr *mr;
	int shared;
};

/**
 * struct p2p_buffer_memory - local memory, or a peer's.
 * @refs:	buffers, views and transfers that refer to it; the last one closes it
 * @data:	NULL: it is a peer's
 * @gpu:	its place; @dev has no ops for the host's, and for a peer's
 * @owned:	we have allocated it
 * @direct:	the provider takes its address
 * @base:	the RMA address of its first byte
 * @key:	the peer's key; @mapped: it has to be unmapped
 * @orphan:	its last reference was a transfer's, and it could not be closed
 */
struct p2p_buffer_memory {
	LIST_ENTRY(p2p_buffer_memory) entry;
	struct p2p_buffer_context *context;
	size_t refs;
	char *data;
	size_t size;
	int gpu;
	struct dev_mem dev;
	bool owned;
	bool direct;
	bool mapped;
	bool orphan;
	struct buffer_mr reg;
	uint64_t base;
	uint64_t key;
	fi_addr_t peer;
};

/** struct p2p_buffer_slot - host memory for one piece, and what copies between it and all GPUs of a runtime. */
struct p2p_buffer_slot {
	SLIST_ENTRY(p2p_buffer_slot) entry;
	struct dev_queue *queue;
	char *data;
	struct buffer_mr reg;
};

struct p2p_buffer {
	STAILQ_ENTRY(p2p_buffer) entry;
	uint64_t magic;
	uint32_t refs;
	struct p2p_buffer_memory *memory;
	size_t offset;
	size_t size;
};

/**
 * struct p2p_buffer_context - what the buffers of an endpoint share.
 * @owner:	the process that opened it
 * @stats:	NULL: no GPU was used yet, or the provider is neither ofi_p2p nor hooked by us
 * @mr_mode:	with the bits that FI_MR_BASIC stands for
 * @key_mask:	the bits that a key of our choice may have
 * @lock:	for all that follows
 * @slots:	those that no transfer has; @slots_used: how many others there are
 * @dead:	released buffers, the oldest first
 */
struct p2p_buffer_context {
	pid_t owner;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fi_p2p_stats_ops *stats;
	int mr_mode;
	uint64_t caps;
	uint64_t key_mask;
	uint64_t op_flags;
	size_t max_msg_size;
	pthread_mutex_t lock;
	LIST_HEAD(, p2p_buffer_memory) memories;
	SLIST_HEAD(, p2p_buffer_slot) slots;
	size_t slots_used;
	STAILQ_HEAD(, p2p_buffer) dead;
	size_t dead_count;
};

/* ---- buffer.c ---- */

/* Is it a buffer that was not released? A debug build ends here if it was. */
static inline bool buffer_alive(const struct p2p_buffer *buffer)
{
	assert(!buffer || buffer->magic != BUFFER_DEAD);
	return buffer && buffer->magic == BUFFER_ALIVE;
}

/* Is a part wholly inside @size bytes? */
static inline bool buffer_inside(size_t size, size_t offset, size_t len)
{
	return offset <= size && len <= size - offset;
}

/* Takes a reference to memory of which the caller has one. */
void buffer_memory_get(struct p2p_buffer_memory *memory);

/* Gives one back. If it was the last, and the memory cannot be closed, it is still there. */
int buffer_memory_put(struct p2p_buffer_memory *memory);

/*
 * Makes a buffer of all of @memory, whose only reference passes to it, and lists the memory. After
 * an error the reference is the caller's.
 */
int buffer_new(struct p2p_buffer_memory *memory, struct p2p_buffer **buffer);

/* ---- buffer_mr.c ---- */

/* Registers host memory for this end alone. */
int buffer_mr_open(struct p2p_buffer_context *context, void *data, size_t size,
		   struct buffer_mr *reg);

/* Registers memory for peers. If that fails for a GPU's, registers it for this end alone. */
int buffer_mr_open_shared(struct p2p_buffer_context *context, const struct dev_ops *ops,
			  int gpu, void *data, size_t size, struct buffer_mr *reg);

/* Closes the region if there is one. After an error the call may be made again. */
int buffer_mr_close(struct buffer_mr *reg);

/* Does the provider take the address of that GPU memory? */
bool buffer_gpu_taken(struct p2p_buffer_context *context, const void *data, size_t size);

/* ---- buffer_slot.c ---- */

/* Gets a slot that copies of the GPU memory find pinned. -FI_EAGAIN: all are in use. */
int buffer_slot_get(struct p2p_buffer_context *context, const struct p2p_buffer_memory *memory,
		    struct p2p_buffer_slot **slot);
void buffer_slot_put(struct p2p_buffer_context *context, struct p2p_buffer_slot *slot);

/* Frees all slots, while no transfer is under way. After an error the call may be made again. */
int buffer_slots_free(struct p2p_buffer_context *context);

#endif /* P2P_BUFFER_BUFFER_H */
