/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Long messages copied from device to device. The memory of another process is open here. All [locked]. */
#ifndef P2P_RNDV_ACROSS_H
#define P2P_RNDV_ACROSS_H

#include "proto/rndv_match.h"

/* Opens what the sender offers, as req->import, with @from; or says why not */
enum path_far rndv_across_open(struct xfer_arrival *arrival, void **from);

/* Copies all of the message from the sender's memory, which is open here at @from */
void rndv_across(struct xfer_req *req, void *from);

#endif /* P2P_RNDV_ACROSS_H */
