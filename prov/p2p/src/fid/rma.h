/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The calls to read and write remote memory: fi_rma(3). */
#ifndef P2P_RMA_H
#define P2P_RMA_H

#include <rdma/fi_rma.h>

extern struct fi_ops_rma rma_ops;

#endif /* P2P_RMA_H */
