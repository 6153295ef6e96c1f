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

#ifdef __cplusplus
}
#endif

#endif /* FI_EXT_P2P_H */
