/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pins: a request's buffer in the hands of the core's NIC. Device memory comes from the map.
 * Host memory is registered where the core wants that (struct xfer.local). All [locked].
 */
#ifndef P2P_PIN_H
#define P2P_PIN_H

#include "mem/nic_map.h"
#include "xfer/req.h"

/* What device memory is registered for: messages' own, and remote access by the core */
#define PIN_ACCESS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ)

/**
 * struct pin - a buffer in the NIC's hands; lives in a cell.
 * @desc:	the descriptors of its pieces
 * @map:	where they come from; or @local, of host memory, which are closed with it
 */
struct pin {
	void *desc[P2P_IOV_MAX];
	struct nic_map_entry *map[P2P_IOV_MAX];
	struct fid_mr *local[P2P_IOV_MAX];
};

/*
 * Chooses a path by path_choose() for a request's device buffer, given to the NIC if that is of use, or else
 * to other processes (req->export)
 */
struct path_choice pin_choose(struct xfer_req *req, struct path_query *query);

/*
 * Chooses a path for the core's own read or write of @len bytes of remote memory, whose end here the buffer
 * is. What is chosen becomes the request's path. @far_why: what is wrong with the other end for that; NULL:
 * nothing. @across_why: why no copy from device to device can do it instead; NULL: one can. 0, or
 * -FI_EOPNOTSUPP when it may not be staged (logged).
 */
int pin_choose_rma(struct xfer_req *req, size_t len, const char *far_why,
		   const char *across_why);

/* Gives the NIC a request's device buffer: 0, or an error with @why (see nic_map_get()) */
int pin_device(struct xfer_req *req, const char **why);

/*
 * Sees to it that a request's host buffer has descriptors where the core wants them: those
 * of @desc, the application's, else our own. @far: the NIC itself will reach it, however
 * short. 0 or a negative error, logged
 */
int pin_host(struct xfer_req *req, void *const *desc, bool far);

/* Registers host memory with a core that wants that: 0 with @mr and @desc, or an error, logged */
int pin_local(struct xfer *xfer, const struct iovec *iov, struct fid_mr **mr, void **desc);

/* The word by which peers' NICs see whether the message @id stands: 8 bytes of our board, once pin_choose() has chosen a NIC */
void pin_word(const struct xfer *xfer, uint64_t id, struct fi_rma_iov *remote);

/* Takes back a request's hold on descriptors and mappings */
void pin_release(struct xfer_req *req);

/* The descriptors of the part of a request's buffer that begins @offset bytes in */
void pin_slice(const struct xfer_req *req, size_t offset, size_t count, void **desc);

/* The remote address of a pinned buffer's first byte, and its key */
void pin_remote(const struct xfer_req *req, struct fi_rma_iov *remote);

#endif /* P2P_PIN_H */
