/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that begin when a stream of the GPU gets there (FI_P2P_STREAM_OPS of rdma/fi_ext_p2p.h).
 *
 * Each operation and each wait has a word in pinned host memory. What was put into one stream is a
 * line of entries, in that order. The proxy looks at the first entry of each line:
 *
 *	stream                              proxy
 *	writes RUNG ----------------------> an operation: posts it, and goes on
 *
 *	waits until PASS                    a wait: looks whether the counter is there
 *	             <--------------------- writes PASS
 *	writes RUNG ----------------------> goes on
 *
 * Entries of a graph stay, and the line begins again after the last one. Others are freed.
 */
#ifndef P2P_STREAM_H
#define P2P_STREAM_H

#include <stdbool.h>
#include <rdma/fabric.h>

/* The table of FI_P2P_STREAM_OPS: as fid_more_ops of fid.h */
bool stream_own_ops(struct fid *fid, const char *name, void **ops);

#endif /* P2P_STREAM_H */
