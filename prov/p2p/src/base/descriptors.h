/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Descriptors that this process may open yet (RLIMIT_NOFILE). The core needs some for its connections, and without
 * them no message arrives. What we open beside it makes messages faster, or tells of dead peers: it may be left out.
 */
#ifndef P2P_DESCRIPTORS_H
#define P2P_DESCRIPTORS_H

/* So many are the core's and the application's: at least as many as the core takes for a few peers */
#define DESCRIPTORS_KEPT 16

/* May we open one for ourselves? 0, or -FI_EMFILE: there would be no more than DESCRIPTORS_KEPT. Two calls of the system */
int descriptors_spare(void);

#endif /* P2P_DESCRIPTORS_H */
