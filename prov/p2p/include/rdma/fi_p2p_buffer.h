/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RDMA buffer objects: pinned memory of the host or of a GPU that peers read and write by its id.
 * Link with -lp2p-buffer. The library calls public libfabric functions alone, so it works over any
 * provider that has FI_RMA. fi_p2p_buffer(3) describes every call.
 *
 * The interface follows IRDMA_buffer of NVIDIA's DiCE API: id, GPU id, data, size, duplicate(),
 * is_gpudirect(), retain() and release()
 * (raytracing-docs.nvidia.com, nvindex/reference/dice, class mi::neuraylib::IRDMA_buffer).
 * What registering memory means is in fi_mr(3).
 *
 * Errors are negative FI_E* codes. Outputs are set only after success.
 *
 * Threads: any thread may call any function. Calls that reach the domain are serialised by the
 * application as its threading model says (fi_domain(3)). These do not reach it:
 * p2p_buffer_retain(), p2p_buffer_duplicate(), p2p_buffer_data(), p2p_buffer_cdata(),
 * p2p_buffer_size(), p2p_buffer_gpu(), p2p_buffer_desc(), and p2p_buffer_release() of all but the
 * last reference to the memory.
 */
#ifndef FI_P2P_BUFFER_H
#define FI_P2P_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The place of a buffer that is in the host's memory. GPUs are counted from 0. */
#define P2P_BUFFER_HOST (-1)

/** The room that every id has enough of [bytes] */
#define P2P_BUFFER_ID_MAX 256

/** struct p2p_buffer_context - what the buffers of one endpoint share. */
struct p2p_buffer_context;

/**
 * struct p2p_buffer - a counted reference to memory, or to a part of it.
 *
 * It is either local memory, or the memory of a peer after p2p_buffer_attach(). One is a view if
 * p2p_buffer_duplicate() has made it.
 */
struct p2p_buffer;

/** What the library keeps of memory that several buffers share */
struct p2p_buffer_memory;
struct p2p_buffer_slot;

/**
 * struct p2p_buffer_op - one transfer under way.
 * @context:	completions of the transfer have its address as their op_context, which is that of
 *		the structure, too
 *
 * The application provides it, and keeps it until the transfer has ended. All other fields are
 * the library's. It need not be initialised.
 */
struct p2p_buffer_op {
	struct fi_context2 context;
	struct p2p_buffer_memory *local;
	struct p2p_buffer_memory *remote;
	struct p2p_buffer_slot *slot;
	size_t local_at;
	size_t remote_at;
	size_t left;
	size_t piece;
	uint32_t state;
	uint32_t reads;
};

/**
 * p2p_buffer_context_open() - begin with buffers for an endpoint.
 * @domain:	the endpoint's domain
 * @ep:		the endpoint: enabled, and with FI_RMA. Transfers are posted to it
 * @info:	what domain and endpoint were opened with; it may be freed afterwards
 * @context:	gets the context
 *
 * Domain and endpoint stay the application's, and have to stay open for as long as the context.
 *
 * Returns 0, -FI_EINVAL if an argument is NULL, -FI_EOPNOTSUPP if @info has no FI_RMA, or -FI_ENOMEM.
 */
int p2p_buffer_context_open(struct fid_domain *domain, struct fid_ep *ep,
			    const struct fi_info *info, struct p2p_buffer_context **context);

/**
 * p2p_buffer_context_close() - end with buffers.
 * @context:	has no buffers any more, and no transfers
 *
 * Returns 0, -FI_EINVAL if @context is NULL, -FI_EBUSY while there are buffers or transfers, or the
 * error of fi_close(3). After an error the context is still open.
 */
int p2p_buffer_context_close(struct p2p_buffer_context *context);

/**
 * p2p_buffer_alloc() - allocate and register memory.
 * @context:	the context
 * @gpu:	P2P_BUFFER_HOST, or the number of a GPU. CUDA counts them, else ROCm if there is no
 *		GPU of CUDA's
 * @size:	its length [bytes], not 0
 * @buffer:	gets the buffer, with one reference
 *
 * Host memory has its pages at once. What the provider wants pinned stays so until the last
 * reference is gone. Then the library frees the memory.
 *
 * Registering GPU memory may fail. The buffer is of use all the same: the library copies it through
 * pinned host memory for p2p_buffer_read() and p2p_buffer_write(). Peers cannot attach to it, and
 * p2p_buffer_id() tells why.
 *
 * Returns 0 or:
 * -FI_EINVAL	@size is 0, there is no such GPU, or an argument is NULL
 * -FI_ENOSYS	there is no GPU runtime
 * -FI_ENOMEM	there is not enough memory
 * -FI_EIO	the GPU runtime failed
 * or, for host memory, the error of fi_mr_regattr().
 */
int p2p_buffer_alloc(struct p2p_buffer_context *context, int gpu, size_t size,
		     struct p2p_buffer **buffer);

/**
 * p2p_buffer_wrap() - register memory of the application's.
 * @context:	the context
 * @gpu:	where it is: P2P_BUFFER_HOST, or the number of its GPU
 * @data:	its beginning
 * @size:	its length [bytes], not 0
 * @buffer:	gets the buffer, with one reference
 *
 * The memory stays the application's. It has to stay allocated until the last reference is gone.
 *
 * Returns what p2p_buffer_alloc() does; also -FI_EINVAL if the memory is not on that GPU, or goes
 * beyond the end of the address space.
 */
int p2p_buffer_wrap(struct p2p_buffer_context *context, int gpu, void *data, size_t size,
		    struct p2p_buffer **buffer);

/**
 * p2p_buffer_id() - what a peer needs to attach to a buffer.
 * @buffer:	a local buffer or view
 * @id:		gets the id, of @len bytes at most. P2P_BUFFER_ID_MAX is enough for any
 * @len:	the room at @id [bytes]; gets the id's length
 *
 * The id has place, size, RMA address and key, in network byte order, and a checksum. It may be sent
 * to other machines in any way.
 *
 * Who has the id can read and write the memory. The id of a view shows its part alone. But its key
 * is that of all the memory, and a peer that does not play by the rules can reach all of it.
 *
 * Returns 0, -FI_EINVAL if @buffer is attached, released, or NULL, or @id or @len is NULL,
 * -FI_ETOOSMALL if there is too little room, or for GPU memory the error that registering it for
 * peers has ended with. That is -FI_EOPNOTSUPP if the provider takes no GPU memory.
 */
int p2p_buffer_id(struct p2p_buffer *buffer, void *id, size_t *len);

/**
 * p2p_buffer_attach() - make a buffer of what a peer has sent.
 * @context:	the context
 * @peer:	the owner's address. A connected endpoint has no use for it
 * @id:		the id
 * @len:	its length [bytes]
 * @buffer:	gets the buffer, with one reference. It is remote: it has no data here
 *
 * The owner keeps the memory. Once it has released it, transfers end with an error.
 *
 * A damaged id is refused. One that was forged well is not, but then the owner's provider refuses
 * what goes beyond the registered memory.
 *
 * Returns 0, -FI_EINVAL if the id makes no sense or an argument is NULL, -FI_ENOMEM, or the error of
 * fi_mr_map_raw().
 */
int p2p_buffer_attach(struct p2p_buffer_context *context, fi_addr_t peer, const void *id,
		      size_t len, struct p2p_buffer **buffer);

/**
 * p2p_buffer_data() - the memory, to be written. Memory of a GPU is for its calls and kernels.
 * @buffer:	a buffer or view
 *
 * Returns NULL for a remote buffer, and for one that is NULL or released.
 */
void *p2p_buffer_data(struct p2p_buffer *buffer);

/** p2p_buffer_cdata() - the same, to be read only. */
const void *p2p_buffer_cdata(const struct p2p_buffer *buffer);

/** p2p_buffer_size() - its length [bytes]; 0 for one that is NULL or released. */
size_t p2p_buffer_size(const struct p2p_buffer *buffer);

/**
 * p2p_buffer_gpu() - its place: the number of the GPU of its owner, or P2P_BUFFER_HOST.
 * @buffer:	a buffer or view
 *
 * Returns P2P_BUFFER_HOST, too, for one that is NULL or released.
 */
int p2p_buffer_gpu(const struct p2p_buffer *buffer);

/**
 * p2p_buffer_desc() - the descriptor for messages from or to the buffer: see fi_mr_desc() in fi_mr(3).
 * @buffer:	a local buffer or view
 *
 * Returns NULL where there is none. GPU memory that the provider does not take has none, and must
 * not be given to it.
 */
void *p2p_buffer_desc(const struct p2p_buffer *buffer);

/**
 * p2p_buffer_is_gpudirect() - does the NIC read and write this GPU memory itself?
 * @buffer:	a local buffer or view
 *
 * ofi_p2p and FI_HOOK=p2p are asked for the path of the memory, by FI_P2P_STATS_OPS
 * (rdma/fi_ext_p2p.h). Memory of the application's of at most 4096 bytes counts as copied, as messages
 * of that length are. Of another provider it is told if it registered the memory and has FI_MR_HMEM,
 * the mode of those that pin GPU memory.
 *
 * Returns 1 or 0, or -FI_EINVAL if @buffer is NULL or released. It is 0 for host memory and for
 * remote buffers.
 */
int p2p_buffer_is_gpudirect(struct p2p_buffer *buffer);

/**
 * p2p_buffer_duplicate() - make a view of a part of a buffer.
 * @buffer:	a buffer or view, local or remote
 * @offset:	where the part begins [bytes]
 * @size:	its length [bytes]; it may be 0
 *
 * The view has one reference of its own. It keeps the memory pinned, even after @buffer is released.
 *
 * Returns NULL if the part is not wholly inside @buffer, if @buffer is NULL or released, or if there
 * is not enough memory.
 */
struct p2p_buffer *p2p_buffer_duplicate(struct p2p_buffer *buffer, size_t offset, size_t size);

/**
 * p2p_buffer_retain() - take one reference more.
 *
 * Returns 0, -FI_EINVAL if @buffer is NULL or released, or -FI_EBUSY if there are 2^32 - 1.
 */
int p2p_buffer_retain(struct p2p_buffer *buffer);

/**
 * p2p_buffer_release() - give back one reference. After the last one, @buffer must not be used.
 *
 * Views and transfers have references to the memory of their own. The last one closes the memory
 * region, and then frees what the library has allocated.
 *
 * The library recognises the latest 256 released buffers of a context. A debug build ends the process
 * if one is used, and any other build returns the error.
 *
 * Returns 0, -FI_EINVAL if @buffer is NULL or released, or the error of fi_close(3), such as -FI_EBUSY
 * while a peer reads or writes the memory. Then the reference is still there, to be released again.
 */
int p2p_buffer_release(struct p2p_buffer *buffer);

/**
 * p2p_buffer_write() - begin to write to a peer's memory.
 * @local:	the source: a local buffer or view
 * @local_offset: where it begins there [bytes]
 * @remote:	the target: an attached buffer, or a view of one
 * @remote_offset: where it begins there [bytes]
 * @len:	how much [bytes]
 * @op:		the transfer
 *
 * A transfer is one or more pieces, one after the other: pieces of at most the endpoint's max_msg_size,
 * or of 1 MiB where the library copies between GPU and host. Each piece ends with a completion of
 * the endpoint's queue for FI_TRANSMIT, with @op as its op_context. Hand each one to
 * p2p_buffer_op_next().
 *
 * The buffers may be released while the transfer is under way. What a completion says of the target
 * is up to op_flags of tx_attr, as fi_cq(3) has it: with FI_DELIVERY_COMPLETE, the data is there.
 *
 * Where the library copies, the call waits for the copy, on a stream that waits for no kernel. As with
 * a NIC, kernels that write the memory have to have ended before.
 *
 * Returns 1 if a piece is under way, 0 if @len is 0, or:
 * -FI_EAGAIN	there is no room now. Read the queue, and call again
 * -FI_EINVAL	the part is not wholly inside one of the buffers; @local is remote, or @remote local;
 *		they are of different contexts; or one is NULL or released
 * -FI_EIO	the GPU runtime failed
 * or the error of fi_writemsg(). After an error nothing is under way.
 */
int p2p_buffer_write(struct p2p_buffer *local, size_t local_offset, struct p2p_buffer *remote,
		     size_t remote_offset, size_t len, struct p2p_buffer_op *op);

/**
 * p2p_buffer_read() - begin to read a peer's memory.
 *
 * The arguments and results are those of p2p_buffer_write(), with @local as the target.
 */
int p2p_buffer_read(struct p2p_buffer *local, size_t local_offset, struct p2p_buffer *remote,
		    size_t remote_offset, size_t len, struct p2p_buffer_op *op);

/**
 * p2p_buffer_op_next() - go on with a transfer after a completion of it.
 * @op:		the transfer, the op_context of the completion
 * @err:	0, or field err of the struct fi_cq_err_entry
 *
 * Returns:
 * 0		the transfer has ended. What was read is in place
 * 1		the next piece is under way: wait for its completion
 * -FI_EAGAIN	there is no room for the next piece. Read the queue, and call again with @err 0; any
 *		other @err ends the transfer
 * -FI_EINVAL	@op is not under way, or @err is negative
 * Any other negative error, such as -@err, means that the transfer has ended, and that parts of it
 * may be in place.
 */
int p2p_buffer_op_next(struct p2p_buffer_op *op, int err);

#ifdef __cplusplus
}
#endif

#endif /* FI_P2P_BUFFER_H */
