/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The network between hosts: packets are taken from each host's TUN device, and put into that of
 * the host whose address they bear. On the way they may get lost, or be late.
 */
#ifndef RELAY_H
#define RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define RELAY_HOSTS 64
#define RELAY_NET "10.83.0" /* host N is .N+1 there */
#define RELAY_MTU 9000
#define RELAY_FLOWS 256 /* the newest, two of each connection of TCP's */

/**
 * struct relay_flow - one way of a connection of TCP's, by its ports
 * @place:	how far in its stream what has passed has got
 * @cut:	nothing passes any more; @told: both ends have heard that, as something has got lost, or are not to hear it
 */
struct relay_flow {
	unsigned int source, dest;
	int from, to;
	uint32_t place;
	bool cut, told, silent;
};

/**
 * struct relay
 * @tun:	of each host
 * @cut:	nothing gets to this host, nor away from it
 * @flows:	what goes over TCP, each way
 * @loss:	percentage of packets that get lost, as @seed will have it
 * @delay_us:	for all packets
 * @lost:	packets that got lost so far, by a cut too
 * @queue:	what is under way; all packets take the same time
 */
struct relay {
	int tun[RELAY_HOSTS];
	int hosts;
	bool cut[RELAY_HOSTS];
	struct relay_flow flows[RELAY_FLOWS];
	unsigned int next_flow;
	unsigned int loss;
	double delay_us;
	uint64_t seed;
	uint64_t passed, lost;
	TAILQ_HEAD(, packet) queue;
	size_t queued;
};

/**
 * relay_run() - carry packets until the process @until has ended (a pidfd)
 *
 * What comes by the socket @control is obeyed meanwhile: "cut HOST", "mend HOST", "reset
 * PORT PORT", "silence PORT PORT", "count". The answer is the number of packets that got lost so far; it comes once the command holds.
 */
int relay_run(struct relay *relay, int control, int until);

#endif
