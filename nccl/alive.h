/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether another process lives, by its kernel: each process listens at a TCP port, and accepts nobody. A connection to it
 * ends with the process, and a new one is refused then. Silence says nothing: a process that computes, or a host that does
 * not answer, is waited for. The addresses are those of endpoints, so they have to be of the Internet's kinds.
 */
#ifndef P2P_NCCL_ALIVE_H
#define P2P_NCCL_ALIVE_H

#include "fabric.h"

/**
 * alive_open() - a port that others ask, with an endpoint of that name. Returns its socket, or -1: nobody can ask. A child of
 * fork() closes it, as it would look like its parent.
 */
int alive_open(const struct fabric_name *name, uint16_t *port);
void alive_close(int fd);

/**
 * alive_ended() - has the process with that endpoint and port ended? It is asked now, and the answer comes by a later call.
 * @fd:	a socket for that, -1 before the first call; the caller closes it
 */
bool alive_ended(const struct fabric_name *name, uint16_t port, int *fd);

#endif /* P2P_NCCL_ALIVE_H */
