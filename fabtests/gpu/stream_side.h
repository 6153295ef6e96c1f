/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One of two ranks whose CUDA streams communicate: its endpoint, counters and memory, and what it knows of the other one. */
#ifndef STREAM_SIDE_H
#define STREAM_SIDE_H

#include "cu.h"
#include "ft_test.h"

/**
 * struct stream_side - one of the ranks.
 * @tx, @rx:	count sends and writes, and receives; reads are @rx's, or with @tx_reads @tx's
 * @out, @in:	what is sent or written, and where the peer's comes
 * @there, @key: the peer's @in
 * @caps:	asked for besides
 */
struct stream_side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct fid_cntr *tx, *rx;
	struct ft_buf out, in;
	fi_addr_t peer;
	void *stream;
	uint64_t there, key, caps;
	bool tx_reads;
};

/* Where a byte of the buffer is, for calls of the driver */
static inline uintptr_t at(const struct ft_buf *buf, size_t offset)
{
	return (uintptr_t) buf->addr + offset;
}

/** stream_side_open() - open all of it, with buffers of @size bytes; the caller has set @caps and @tx_reads */
int stream_side_open(struct stream_side *side, struct ft_proc *proc, size_t size);

/** stream_side_swap() - give the other rank @mine of @len bytes, and get its own */
int stream_side_swap(struct stream_side *side, const void *mine, void *theirs, size_t len);

/** stream_side_end() - when the stream has ended, close the endpoint and the counters, and free the buffers; the rest stays open */
int stream_side_end(struct stream_side *side);

#endif /* STREAM_SIDE_H */
