/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The calls to send and receive: fi_msg(3) and fi_tagged(3). */
#ifndef P2P_MSG_H
#define P2P_MSG_H

#include <rdma/fi_tagged.h>

extern struct fi_ops_msg msg_ops;
extern struct fi_ops_tagged msg_tagged_ops;

#endif /* P2P_MSG_H */
