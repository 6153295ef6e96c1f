/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The calls of fi_cm(3), for endpoints active and passive: the core's own. */
#ifndef P2P_CM_H
#define P2P_CM_H

#include <rdma/fi_cm.h>

extern struct fi_ops_cm cm_ops;

#endif /* P2P_CM_H */
