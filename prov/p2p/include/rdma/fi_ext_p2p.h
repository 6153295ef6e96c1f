/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Extensions of the libfabric p2p provider: what an application may ask of ofi_p2p
 * (and of FI_HOOK=p2p) beyond the standard interfaces. Needs nothing but libfabric's
 * own headers; nothing here has to be linked.
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
 * FI_P2P - capability bit in fi_info.caps: buffers may be GPU memory, whatever the
 * core provider can do with it, on a libfabric built without GPU support too.
 *
 * Implies FI_HMEM. It stands in fi_info.caps only, never in tx_attr or rx_attr caps
 * (fi_getinfo(3): bits 60 to 63 of the capabilities are the provider's own).
 */
#define FI_P2P (1ULL << 62)

/**
 * FI_MR_P2P - mr_mode bit: the application registers the device memory that it uses
 * (as FI_MR_HMEM has it in fi_mr(3)), so that lookups and pins are done once. Returned
 * only to an application that set it in its hints.
 */
#define FI_MR_P2P (1 << 28)

/**
 * enum fi_p2p_path - the way that a message's bytes took at this end.
 * @FI_P2P_PATH_HOST:	host memory: the core provider's own path, not touched
 * @FI_P2P_PATH_STAGE:	device memory, copied through pinned host memory
 * @FI_P2P_PATH_IPC:	device memory, one device-to-device copy within the host
 * @FI_P2P_PATH_PEER:	device memory, read or written by the NIC itself
 */
enum fi_p2p_path {
	FI_P2P_PATH_HOST,
	FI_P2P_PATH_STAGE,
	FI_P2P_PATH_IPC,
	FI_P2P_PATH_PEER,
	FI_P2P_PATH_MAX
};

/** Longest reason in struct fi_p2p_stats, the terminating zero included */
#define FI_P2P_REASON_MAX 320

/**
 * struct fi_p2p_stats - what an endpoint has carried since it was opened.
 * @tx_msgs, @tx_bytes:	messages posted for sending and their payload, by path; those from host
 *			memory since FI_P2P_STATS_OPS were opened first, or since the endpoint
 *			was if FI_P2P_STATS is set: to count them costs them some nanoseconds
 * @rx_msgs, @rx_bytes:	receives completed and their payload, by path; receives into host
 *			memory that the core provider completes by itself are not counted
 * @copies, @copy_bytes: asynchronous copies started between device and host memory
 * @pins:		pieces of device memory given to the NIC for this endpoint
 * @cache_hits:		times that such a piece was found given already
 * @evictions:		pieces taken back from the NIC to make room for others
 * @reason:		why the last message that took a path took it, and not a better one;
 *			empty strings where none did
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

/** Name for fi_open_ops(&ep->fid, FI_P2P_STATS_OPS, 0, (void **) &ops, NULL) */
#define FI_P2P_STATS_OPS "p2p_stats_ops"

/**
 * struct fi_p2p_stats_ops - returned by fi_open_ops; owned by the provider, valid as long
 * as the endpoint is open. Functions may be called from any thread.
 * @size:	size of this structure: what is beyond it, an older provider does not have
 * @read:	fills @stats (the first @size bytes of it) for endpoint @fid. Returns 0, or
 *		-FI_EINVAL when @fid is not an endpoint of ours or @stats is NULL. Counts read
 *		while transfers run are approximate.
 * @path:	tells which path a message of the @len bytes at @buf would take now from
 *		endpoint @fid, and in @reason (of @size bytes) why, or why no better one.
 *		Memory may be pinned for that, as for a message. Returns 0, -FI_EINVAL when
 *		@fid is not an endpoint of ours or a pointer is NULL, -FI_EAGAIN when there is
 *		no room for a message now, -FI_EFAULT when @buf is not what it should be
 *		(fi_send would return the same), or -FI_EOPNOTSUPP when FI_P2P_PATH or
 *		FI_OPT_FI_HMEM_P2P forbid to send it; @reason is filled then, too.
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
