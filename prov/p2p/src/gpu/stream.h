/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that begin when a stream of the GPU gets there (FI_P2P_STREAM_OPS of rdma/fi_ext_p2p.h).
 *
 * The proxy posts them, and lets streams go on that wait. stream_line.h says how both know of each other.
 */
#ifndef P2P_STREAM_H
#define P2P_STREAM_H

#include <stdbool.h>
#include <rdma/fabric.h>

/* The table of FI_P2P_STREAM_OPS: as fid_more_ops of fid.h */
bool stream_own_ops(struct fid *fid, const char *name, void **ops);

#endif /* P2P_STREAM_H */
