/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A port of the net interface: an endpoint, and the messages under way there. NCCL's thread moves them, when it tests one. Or a
 * thread of the port does:
 *
 *	NCCL's thread                      the port's
 *	post: queue, return           ---> begin, in order for each communicator; progress
 *	test: has it ended?           <--- ended
 *
 * So NCCL's thread waits for no copy, and messages of several ports are copied at the same time.
 */
#ifndef P2P_NCCL_NET_PORT_H
#define P2P_NCCL_NET_PORT_H

#include "fabric.h"

/**
 * struct net_port - an endpoint of a communicator of NCCL's.
 * @fabric:	libfabric's part; its lock is held while bytes are copied
 * @lock:	of @all and @queue; never held for long
 * @wake:	to the thread, which sleeps while nothing is under way
 * @threaded:	it has a thread
 * @callers:	threads that wait for @fabric's lock, which the port's thread hardly ever lets go (atomic)
 * @under_way:	messages that have not ended (atomic)
 * @shut:	the endpoint is closed, so some of them never end (atomic)
 * @all:	messages that NCCL has not heard the end of
 * @queue:	those that the thread has not seen yet
 * @waiting:	those that have not begun, in their order [fabric's lock]
 * @turn:	how often the thread has begun what waits
 */
struct net_port {
	struct fabric_port fabric;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool threaded, stop;
	bool shut;
	unsigned int callers, under_way, turn;
	LIST_HEAD(, net_req) all;
	STAILQ_HEAD(net_queue, fabric_op) queue, waiting;
};

/** struct net_comm - messages one way: those with @tag, at @port; to @peer, if it @sends. @full: the turn without room */
struct net_comm {
	struct net_port *port;
	bool sends;
	uint32_t tag;
	fi_addr_t peer;
	unsigned int full;
};

/**
 * struct net_req - a message, until NCCL has heard of its end.
 * @comm:	not to be looked at once it has begun: NCCL may have closed it
 * @ended:	libfabric has done with it (atomic)
 */
struct net_req {
	struct fabric_op op;
	struct net_port *port;
	struct net_comm *comm;
	void *data;
	size_t size;
	struct fabric_mr *mr;
	bool sends, ended;
	LIST_ENTRY(net_req) entry;
};

int net_port_open(struct net_port *port, bool threaded);
void net_port_close(struct net_port *port);

/** net_port_lock() - for calls of libfabric with the port's endpoint, in any thread but the port's own */
void net_port_lock(struct net_port *port);
void net_port_unlock(struct net_port *port);

/** net_port_post() - begins @req, which is the port's unless that fails. -FI_EAGAIN: there is no room */
ssize_t net_port_post(struct net_req *req);
/** net_port_ended() - makes progress. True: the port knows @req no more */
bool net_port_ended(struct net_req *req);
/** net_port_drop() - ends messages of @comm that have not begun */
void net_port_drop(struct net_port *port, const struct net_comm *comm);
/** net_port_abort() - ends all that uses @mr, if need be with the endpoint */
void net_port_abort(struct net_port *port, const struct fabric_mr *mr);

#endif /* P2P_NCCL_NET_PORT_H */
