/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Extensions of the libfabric p2p provider: what an application may ask of ofi_p2p, and of
 * FI_HOOK=p2p, beyond the standard interfaces. fi_p2p(7) describes both.
 *
 * This header needs nothing but libfabric's own headers. A program that includes it links
 * nothing more.
 */
#ifndef FI_EXT_P2P_H
#define FI_EXT_P2P_H

#include <stddef.h>
#include <stdint.h>
#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * FI_P2P - capability bit in fi_info.caps: buffers may be GPU memory.
 *
 * This holds over every core provider, and on a libfabric built without GPU support. The bit
 * implies FI_HMEM. It stands in fi_info.caps only, never in the caps of tx_attr or rx_attr.
 *
 * fi_getinfo(3) has FI_HMEM, and leaves bits 60 to 63 of the capabilities to providers.
 */
#define FI_P2P (1ULL << 62)

/**
 * FI_MR_P2P - mr_mode bit: the application registers the device memory that it uses.
 *
 * The rules are those of FI_MR_HMEM in fi_mr(3). The provider then looks memory up and pins
 * it once, and not for each operation. Only an application that sets the bit in its hints
 * gets it back.
 */
#define FI_MR_P2P (1 << 28)

/**
 * enum fi_p2p_path - the way that a message's bytes took at this end.
 * @FI_P2P_PATH_HOST:	host memory: the core provider's own path, not touched
 * @FI_P2P_PATH_STAGE:	device memory, copied through pinned host memory
 * @FI_P2P_PATH_IPC:	device memory, one copy from device to device within the host
 * @FI_P2P_PATH_PEER:	device memory, read or written by the NIC itself
 * @FI_P2P_PATH_MAX:	how many there are
 *
 * fi_p2p(7) says which messages may go which way.
 */
enum fi_p2p_path {
	FI_P2P_PATH_HOST,
	FI_P2P_PATH_STAGE,
	FI_P2P_PATH_IPC,
	FI_P2P_PATH_PEER,
	FI_P2P_PATH_MAX
};

/** The room for a reason in struct fi_p2p_stats [bytes], with the terminating zero */
#define FI_P2P_REASON_MAX 320

/**
 * struct fi_p2p_stats - what an endpoint has carried since it was opened.
 * @tx_msgs:	messages posted for sending, by path
 * @tx_bytes:	their payload [bytes], by path
 * @rx_msgs:	completed receives, by path
 * @rx_bytes:	their payload [bytes], by path
 * @copies:	asynchronous copies started between device and host memory
 * @copy_bytes:	their length [bytes]
 * @pins:		pieces of device memory given to the NIC for this endpoint
 * @cache_hits:	how often the NIC already had such a piece
 * @evictions:	pieces taken back from the NIC to make room for others
 * @reason:	why the last message of a path took this path, and no better one. A string
 *		is empty if no message took the path.
 * @commits:	writes and atomic operations of peers that were made durable here: see FI_RMA_PMEM in
 *		fi_p2p(7)
 * @lane_pieces: pieces of messages that were sent over further connections: see FI_P2P_LANES in fi_p2p(7)
 * @lent:	messages, and writes and reads of remote memory, that were left in staging memory here for their
 *		receivers to read
 *
 * The arrays have one element for each enum fi_p2p_path.
 *
 * The counts of FI_P2P_PATH_HOST are not complete:
 * - Sent messages count from the first opening of FI_P2P_STATS_OPS. They count from the
 *   endpoint's opening if the parameter FI_P2P_STATS is set. To count a message costs it some
 *   nanoseconds.
 * - Receives that the core provider completes by itself do not count.
 *
 * The structure may grow at its end in later versions.
 */
struct fi_p2p_stats {
	uint64_t tx_msgs[FI_P2P_PATH_MAX];
	uint64_t tx_bytes[FI_P2P_PATH_MAX];
	uint64_t rx_msgs[FI_P2P_PATH_MAX];
	uint64_t rx_bytes[FI_P2P_PATH_MAX];
	uint64_t copies;
	uint64_t copy_bytes;
	uint64_t pins;
	uint64_t cache_hits;
	uint64_t evictions;
	char reason[FI_P2P_PATH_MAX][FI_P2P_REASON_MAX];
	uint64_t commits;
	uint64_t lane_pieces;
	uint64_t lent;
};

/**
 * The name for fi_open_ops(&ep->fid, FI_P2P_STATS_OPS, 0, (void **) &ops, NULL): see
 * fi_domain(3)
 */
#define FI_P2P_STATS_OPS "p2p_stats_ops"

/**
 * struct fi_p2p_stats_ops - the functions that fi_open_ops() returns for an endpoint.
 * @size:	the size of this structure [bytes]. An older provider lacks what is beyond it.
 * @read:	tells what an endpoint has carried
 * @path:	tells which path a message would take now
 *
 * The provider owns the structure. It is valid until the endpoint is closed. Any thread may
 * call the functions. With FI_THREAD_DOMAIN the application serialises them with its other
 * calls of the domain: see fi_domain(3).
 *
 * int read(struct fid *fid, struct fi_p2p_stats *stats, size_t size)
 * @fid:	the endpoint, as &ep->fid
 * @stats:	the caller's; read() fills its first @size bytes
 * @size:	sizeof *stats of the caller [bytes]. If it is more than the provider's structure
 *		has, read() leaves the rest as it is.
 *
 * The counts are approximate while transfers are under way.
 *
 * Returns 0, or -FI_EINVAL if @fid is not an endpoint of this provider or @stats is NULL.
 *
 * int path(struct fid *fid, const void *buf, size_t len, enum fi_p2p_path *path,
 *	    char *reason, size_t size)
 * @fid:	the endpoint, as &ep->fid
 * @buf:	the buffer that the message would be sent from
 * @len:	the message's length [bytes]
 * @path:	gets the path
 * @reason:	the caller's; gets a string: why that path, or why no better one
 * @size:	the room at @reason [bytes], with the terminating zero: FI_P2P_REASON_MAX
 *		is enough
 *
 * path() may pin the memory, as a message would. It does not know the receiver, on which the
 * path of a message may depend, too: see fi_p2p(7).
 *
 * Returns 0 or a negative error. Only 0 and -FI_EOPNOTSUPP come with a path and a reason.
 * -FI_EINVAL	@fid is not an endpoint of this provider; @path or @reason is NULL; or @buf
 *		is NULL, and @len is not 0
 * -FI_EFAULT	the bytes at @buf are not all of one piece of memory. fi_send() would return
 *		the same: fi_msg(3).
 * -FI_EAGAIN	there is no room for a message now
 * -FI_EOPNOTSUPP
 *		FI_P2P_PATH (fi_p2p(7)) or FI_OPT_FI_HMEM_P2P (fi_endpoint(3)) forbids the
 *		message
 */
struct fi_p2p_stats_ops {
	size_t size;
	int (*read)(struct fid *fid, struct fi_p2p_stats *stats, size_t size);
	int (*path)(struct fid *fid, const void *buf, size_t len, enum fi_p2p_path *path,
		    char *reason, size_t size);
};

/**
 * enum fi_p2p_stream_kind - what a stream starts.
 *
 * They are the calls of these names of fi_msg(3), fi_tagged(3), fi_rma(3) and fi_atomic(3).
 */
enum fi_p2p_stream_kind {
	FI_P2P_STREAM_SEND,
	FI_P2P_STREAM_RECV,
	FI_P2P_STREAM_TSEND,
	FI_P2P_STREAM_TRECV,
	FI_P2P_STREAM_WRITE,
	FI_P2P_STREAM_READ,
	FI_P2P_STREAM_ATOMIC
};

/**
 * struct fi_p2p_stream_op - an operation for a stream.
 * @kind:	which one
 * @flags:	as for fi_sendmsg() and its like, beside those that the endpoint was opened with
 * @buf, @len, @desc: the buffer; of FI_P2P_STREAM_ATOMIC, @len is a number of values
 * @peer:	its address
 * @tag, @ignore: of tagged messages
 * @addr, @key:	the peer's memory
 * @data:	with FI_REMOTE_CQ_DATA
 * @datatype, @op: enum fi_datatype and enum fi_op of FI_P2P_STREAM_ATOMIC
 * @context:	of its completion
 */
struct fi_p2p_stream_op {
	enum fi_p2p_stream_kind kind;
	uint64_t flags;
	void *buf;
	size_t len;
	void *desc;
	fi_addr_t peer;
	uint64_t tag;
	uint64_t ignore;
	uint64_t addr;
	uint64_t key;
	uint64_t data;
	int datatype;
	int op;
	void *context;
};

/** The name for fi_open_ops(3) of an endpoint, a completion queue or a counter */
#define FI_P2P_STREAM_OPS "p2p_stream_ops"

/**
 * struct fi_p2p_stream_ops - operations that begin when a stream of the GPU gets there.
 * @size:	the size of this structure [bytes]
 * @post:	puts an operation into a stream
 * @wait:	holds a stream
 * @map:	has streams copy a peer's memory themselves; a provider with less @size lacks it
 *
 * The functions below are easier to call. The provider owns the structure. Any thread may call its
 * functions. The domain was opened with FI_THREAD_SAFE. The stream is one of the device that is
 * current in the calling thread: a CUstream, or a cudaStream_t.
 *
 * int post(struct fid_ep *ep, const struct fi_p2p_stream_op *op, void *stream)
 * Returns at once. A thread of the provider posts the operation when the stream gets there. The stream
 * goes on at once. The buffer is the provider's until the operation has completed: its completion goes to
 * the queue and the counter of the endpoint, as that of any other operation. An error that would be
 * returned by fi_send() becomes an error entry.
 *
 * int wait(struct fid *fid, uint64_t threshold, void *stream)
 * Holds the stream. @fid is a counter: until it has counted @threshold, or has errors, old ones included
 * (fi_cntr_seterr() makes it forget them). @fid is a queue: until @threshold completions are there to be
 * read, or an error is the first. The host has to look for errors.
 *
 * A stream that is being captured into a graph: the operation begins each time the graph gets there.
 * A graph runs once at a time, and not as two executable graphs. A wait for a counter, then, is for
 * @threshold further counts: since it was captured, and since the last such wait of this graph for
 * this counter. Operations that have failed are among them, also if fi_cntr_seterr() has cleared their
 * errors. If fi_cntr_set() does not raise the counter, the next wait is for @threshold counts from the
 * value that was set. If it does, that is as if so much had been counted. A wait that an error has ended
 * has used @threshold counts: those that are missing may still come.
 * A wait for a queue is refused. What the graph names stays open as long as the graph.
 *
 * int map(struct fid_ep *ep, fi_addr_t peer, const void *share, size_t len)
 * Opens device memory of a peer on this host, of which its owner has filled @share: fi_p2p_xpu_ops.mr_share(). From then on
 * a write or a read of that peer and key becomes a copy of the stream's own, if the buffer is memory of the stream's device.
 * No thread posts it, and all that comes later in the stream comes after it. The proxy only counts and reports it. Operations
 * with FI_INJECT, FI_REMOTE_CQ_DATA or FI_COMMIT_COMPLETE, those beyond the region, and those whose buffer lies in more than one
 * allocation, stay the proxy's. Wait for all of them alike.
 * The memory stays open until the domain is closed, also after the peer has closed the region or has ended: copies then
 * reach nobody, and no error tells. The peer counts and reports nothing of them. Close the domain when no stream and no
 * graph has such a copy any more. All this holds for the device that is current in the call: map on each. If @peer becomes another
 * peer's address, map that one's memory, on each of them, before you post.
 * -FI_EINVAL	@share is none
 * -FI_EOPNOTSUPP the peer is not on this host, is another user's, or is this process; the endpoint was opened with FI_FENCE; or
 *		FI_P2P_PATH=stage. The log says which. The proxy goes on
 * -FI_EAGAIN	other memory of that process is open there, or too much (FI_P2P_MAP_SIZE, FI_P2P_MAP_COUNT)
 *
 * All return 0 or a negative error:
 * -FI_EINVAL	an object is not of this provider, or @op makes no sense
 * -FI_EOPNOTSUPP the domain was not opened with FI_THREAD_SAFE, is not of ofi_p2p, or a queue
 *		is waited for in a graph
 * -FI_ENODEV	no device is current
 * -FI_ENOSYS	the device's streams cannot read and write memory
 * -FI_EAGAIN	too much is put into streams, and not done yet
 */
struct fi_p2p_stream_ops {
	size_t size;
	int (*post)(struct fid_ep *ep, const struct fi_p2p_stream_op *op, void *stream);
	int (*wait)(struct fid *fid, uint64_t threshold, void *stream);
	int (*map)(struct fid_ep *ep, fi_addr_t peer, const void *share, size_t len);
};

/** fi_p2p_stream_post() - calls fi_p2p_stream_ops.post of the endpoint's provider */
static inline int fi_p2p_stream_post(struct fid_ep *ep, const struct fi_p2p_stream_op *op,
				     void *stream)
{
	struct fi_p2p_stream_ops *ops;
	int ret = fi_open_ops(&ep->fid, FI_P2P_STREAM_OPS, 0, (void **) &ops, NULL);

	return ret ? ret : ops->post(ep, op, stream);
}

/** fi_p2p_stream_wait() - calls fi_p2p_stream_ops.wait of the queue's or the counter's provider */
static inline int fi_p2p_stream_wait(struct fid *fid, uint64_t threshold, void *stream)
{
	struct fi_p2p_stream_ops *ops;
	int ret = fi_open_ops(fid, FI_P2P_STREAM_OPS, 0, (void **) &ops, NULL);

	return ret ? ret : ops->wait(fid, threshold, stream);
}

/** fi_p2p_stream_map() - calls fi_p2p_stream_ops.map of the endpoint's provider */
static inline int fi_p2p_stream_map(struct fid_ep *ep, fi_addr_t peer, const void *share,
				    size_t len)
{
	struct fi_p2p_stream_ops *ops;
	int ret = fi_open_ops(&ep->fid, FI_P2P_STREAM_OPS, 0, (void **) &ops, NULL);

	if (!ret && ops->size <= offsetof(struct fi_p2p_stream_ops, map))
		ret = -FI_EOPNOTSUPP;
	return ret ? ret : ops->map(ep, peer, share, len);
}

/** fi_p2p_stream_op_of() - an operation with what most of them have; the caller sets the rest */
static inline struct fi_p2p_stream_op fi_p2p_stream_op_of(enum fi_p2p_stream_kind kind,
							  const void *buf, size_t len,
							  void *desc, fi_addr_t peer,
							  void *context)
{
	struct fi_p2p_stream_op op;

	__builtin_memset(&op, 0, sizeof(op));
	op.kind = kind;
	op.buf = (void *) (uintptr_t) buf;
	op.len = len;
	op.desc = desc;
	op.peer = peer;
	op.context = context;
	return op;
}

/**
 * fi_p2p_stream_send() and the others below - fi_p2p_stream_post() with arguments in the order of
 * fi_send(), fi_recv(), fi_tsend(), fi_trecv(), fi_write(), fi_read() and fi_atomic()
 */
static inline int fi_p2p_stream_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
				     fi_addr_t dest, void *context, void *stream)
{
	struct fi_p2p_stream_op op =
		fi_p2p_stream_op_of(FI_P2P_STREAM_SEND, buf, len, desc, dest, context);

	return fi_p2p_stream_post(ep, &op, stream);
}

/** See fi_p2p_stream_send(). */
static inline int fi_p2p_stream_recv(struct fid_ep *ep, void *buf, size_t len, void *desc,
				     fi_addr_t src, void *context, void *stream)
{
	struct fi_p2p_stream_op op =
		fi_p2p_stream_op_of(FI_P2P_STREAM_RECV, buf, len, desc, src, context);

	return fi_p2p_stream_post(ep, &op, stream);
}

/** See fi_p2p_stream_send(). */
static inline int fi_p2p_stream_tsend(struct fid_ep *ep, const void *buf, size_t len,
				      void *desc, fi_addr_t dest, uint64_t tag, void *context,
				      void *stream)
{
	struct fi_p2p_stream_op op =
		fi_p2p_stream_op_of(FI_P2P_STREAM_TSEND, buf, len, desc, dest, context);

	op.tag = tag;
	return fi_p2p_stream_post(ep, &op, stream);
}

/** See fi_p2p_stream_send(). */
static inline int fi_p2p_stream_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc,
				      fi_addr_t src, uint64_t tag, uint64_t ignore,
				      void *context, void *stream)
{
	struct fi_p2p_stream_op op =
		fi_p2p_stream_op_of(FI_P2P_STREAM_TRECV, buf, len, desc, src, context);

	op.tag = tag;
	op.ignore = ignore;
	return fi_p2p_stream_post(ep, &op, stream);
}

/** See fi_p2p_stream_send(). */
static inline int fi_p2p_stream_write(struct fid_ep *ep, const void *buf, size_t len,
				      void *desc, fi_addr_t dest, uint64_t addr, uint64_t key,
				      void *context, void *stream)
{
	struct fi_p2p_stream_op op =
		fi_p2p_stream_op_of(FI_P2P_STREAM_WRITE, buf, len, desc, dest, context);

	op.addr = addr;
	op.key = key;
	return fi_p2p_stream_post(ep, &op, stream);
}

/** See fi_p2p_stream_send(). */
static inline int fi_p2p_stream_read(struct fid_ep *ep, void *buf, size_t len, void *desc,
				     fi_addr_t src, uint64_t addr, uint64_t key, void *context,
				     void *stream)
{
	struct fi_p2p_stream_op op =
		fi_p2p_stream_op_of(FI_P2P_STREAM_READ, buf, len, desc, src, context);

	op.addr = addr;
	op.key = key;
	return fi_p2p_stream_post(ep, &op, stream);
}

/** See fi_p2p_stream_send(). */
static inline int fi_p2p_stream_atomic(struct fid_ep *ep, const void *buf, size_t count,
				       void *desc, fi_addr_t dest, uint64_t addr, uint64_t key,
				       int datatype, int atomic, void *context, void *stream)
{
	struct fi_p2p_stream_op op =
		fi_p2p_stream_op_of(FI_P2P_STREAM_ATOMIC, buf, count, desc, dest, context);

	op.addr = addr;
	op.key = key;
	op.datatype = datatype;
	op.op = atomic;
	return fi_p2p_stream_post(ep, &op, stream);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_EXT_P2P_H */
