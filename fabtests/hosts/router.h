/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A network in the kernel, where the relay would be the bottleneck: each host has a wire to this process's own network
 * namespace, which routes. A router, and no bridge, so that each host has one neighbour: the kernel's table of neighbours is
 * one for all namespaces, and too short for all pairs of 64 hosts.
 */
#ifndef ROUTER_H
#define ROUTER_H

/** router_make() - give this process a network namespace that routes. Gets it as a descriptor; 0 or -errno */
int router_make(int *router);
/** router_link() - in a host's new network namespace: lay its wire, named net0. 0 or -errno */
int router_link(int router, int host, const char *net);

#endif
