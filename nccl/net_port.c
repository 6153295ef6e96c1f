/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See net_port.h. */
#include "net_port.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

void net_port_lock(struct net_port *port)
{
	__atomic_add_fetch(&port->callers, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&port->fabric.lock);
	__atomic_sub_fetch(&port->callers, 1, __ATOMIC_RELAXED);
}

void net_port_unlock(struct net_port *port)
{
	pthread_mutex_unlock(&port->fabric.lock);
}

static bool net_req_ended(const struct net_req *req)
{
	return __atomic_load_n(&req->ended, __ATOMIC_ACQUIRE);
}

/* NCCL may free the request as soon as it has ended */
static void net_req_done(struct fabric_op *op)
{
	struct net_req *req = (struct net_req *) op;

	__atomic_sub_fetch(&req->port->under_way, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&req->ended, true, __ATOMIC_RELEASE);
}

static void net_req_fail(struct net_req *req, int err)
{
	req->op.err = err;
	net_req_done(&req->op);
}

static ssize_t net_req_begin(struct net_req *req)
{
	const struct net_comm *comm = req->comm;
	struct fid_ep *ep = req->port->fabric.ep;
	void *desc = req->mr ? req->mr->desc : NULL;

	if (!ep)
		return -FI_ESHUTDOWN;
	return comm->sends ? fi_tsend(ep, req->data, req->size, desc, comm->peer, comm->tag,
				      &req->op.context)
			   : fi_trecv(ep, req->data, req->size, desc, comm->peer, comm->tag, 0,
				      &req->op.context);
}

/* ---- the thread ---- */

/* What NCCL has posted since is behind what waits [fabric's lock] */
static void net_port_take(struct net_port *port)
{
	pthread_mutex_lock(&port->lock);
	STAILQ_CONCAT(&port->waiting, &port->queue);
	pthread_mutex_unlock(&port->lock);
}

/* A message without room holds up those of its communicator, and no others: what gives it room may be behind it. */
static void net_port_begin(struct net_port *port)
{
	struct net_queue left = STAILQ_HEAD_INITIALIZER(left);
	struct fabric_op *op;

	net_port_take(port);
	port->turn++;
	while ((op = STAILQ_FIRST(&port->waiting))) {
		struct net_req *req = (struct net_req *) op;
		struct net_comm *comm = req->comm;
		ssize_t ret = -FI_EAGAIN;

		STAILQ_REMOVE_HEAD(&port->waiting, entry);
		if (comm->full != port->turn)
			ret = net_req_begin(req);
		if (ret == -FI_EAGAIN) {
			comm->full = port->turn;
			STAILQ_INSERT_TAIL(&left, op, entry);
		} else if (ret) {
			net_req_fail(req, (int) -ret);
		}
	}
	STAILQ_CONCAT(&port->waiting, &left);
}

/* Waits until something is under way. False: the port closes */
static bool net_port_rest(struct net_port *port)
{
	bool goes_on;

	pthread_mutex_lock(&port->lock);
	while (!port->stop && (!__atomic_load_n(&port->under_way, __ATOMIC_RELAXED) ||
			       __atomic_load_n(&port->shut, __ATOMIC_RELAXED)))
		pthread_cond_wait(&port->wake, &port->lock);
	goes_on = !port->stop;
	pthread_mutex_unlock(&port->lock);
	do
		sched_yield();
	while (__atomic_load_n(&port->callers, __ATOMIC_RELAXED));
	return goes_on;
}

static void *net_port_run(void *arg)
{
	struct net_port *port = arg;

	while (net_port_rest(port)) {
		pthread_mutex_lock(&port->fabric.lock);
		net_port_begin(port);
		fabric_progress(&port->fabric);
		pthread_mutex_unlock(&port->fabric.lock);
	}
	return NULL;
}

/* Signals are for the application's threads */
static int net_port_start(struct net_port *port)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&port->thread, NULL, net_port_run, port);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	port->threaded = !ret;
	return -ret;
}

int net_port_open(struct net_port *port, bool threaded)
{
	int ret;

	*port = (struct net_port){.threaded = false};
	LIST_INIT(&port->all);
	STAILQ_INIT(&port->queue);
	STAILQ_INIT(&port->waiting);
	ret = fabric_port_open(&port->fabric, threaded);
	if (ret)
		return ret;
	pthread_mutex_init(&port->lock, NULL);
	pthread_cond_init(&port->wake, NULL);
	ret = threaded ? net_port_start(port) : 0;
	if (ret)
		net_port_close(port);
	return ret;
}

void net_port_close(struct net_port *port)
{
	struct net_req *req;

	if (port->threaded) {
		pthread_mutex_lock(&port->lock);
		port->stop = true;
		pthread_cond_signal(&port->wake);
		pthread_mutex_unlock(&port->lock);
		pthread_join(port->thread, NULL);
	}
	fabric_port_close(&port->fabric);
	while ((req = LIST_FIRST(&port->all))) {
		LIST_REMOVE(req, entry);
		free(req);
	}
	pthread_cond_destroy(&port->wake);
	pthread_mutex_destroy(&port->lock);
}

/* ---- messages ---- */

/* [port->lock] */
static void net_port_add(struct net_port *port, struct net_req *req)
{
	LIST_INSERT_HEAD(&port->all, req, entry);
	__atomic_add_fetch(&port->under_way, 1, __ATOMIC_RELAXED);
}

/*
 * Without room and a thread the port takes no request, and NCCL asks again: a message that waited here would hold up those to
 * other peers, and the receives that their sends wait for.
 */
static ssize_t net_port_post_now(struct net_port *port, struct net_req *req)
{
	ssize_t ret;

	net_port_lock(port);
	ret = net_req_begin(req);
	if (!ret) {
		pthread_mutex_lock(&port->lock);
		net_port_add(port, req);
		pthread_mutex_unlock(&port->lock);
	} else if (ret == -FI_EAGAIN) {
		fabric_progress(&port->fabric);
	}
	net_port_unlock(port);
	return ret;
}

ssize_t net_port_post(struct net_req *req)
{
	struct net_port *port = req->port;

	req->op.done = net_req_done;
	if (!port->threaded)
		return net_port_post_now(port, req);
	pthread_mutex_lock(&port->lock);
	net_port_add(port, req);
	STAILQ_INSERT_TAIL(&port->queue, &req->op, entry);
	pthread_cond_signal(&port->wake);
	pthread_mutex_unlock(&port->lock);
	return 0;
}

bool net_port_ended(struct net_req *req)
{
	struct net_port *port = req->port;

	if (!port->threaded && !net_req_ended(req)) {
		net_port_lock(port);
		fabric_progress(&port->fabric);
		net_port_unlock(port);
	}
	if (!net_req_ended(req))
		return false;
	pthread_mutex_lock(&port->lock);
	LIST_REMOVE(req, entry);
	pthread_mutex_unlock(&port->lock);
	return true;
}

/* ---- what NCCL gives up ---- */

/* Those of @comm or @mr that have not begun are cancelled [fabric's lock] */
static void net_port_purge(struct net_port *port, const struct net_comm *comm,
			   const struct fabric_mr *mr)
{
	struct fabric_op *op, *next;

	net_port_take(port);
	for (op = STAILQ_FIRST(&port->waiting); op; op = next) {
		struct net_req *req = (struct net_req *) op;

		next = STAILQ_NEXT(op, entry);
		if (!(comm && req->comm == comm) && !(mr && req->mr == mr))
			continue;
		STAILQ_REMOVE(&port->waiting, op, fabric_op, entry);
		net_req_fail(req, FI_ECANCELED);
	}
}

void net_port_drop(struct net_port *port, const struct net_comm *comm)
{
	if (!port->threaded)
		return;
	net_port_lock(port);
	net_port_purge(port, comm, NULL);
	net_port_unlock(port);
}

/* Is @mr used? Then @cancel asks libfabric to end that */
static bool net_port_uses(struct net_port *port, const struct fabric_mr *mr, bool cancel)
{
	struct net_req *req;
	bool uses = false;

	pthread_mutex_lock(&port->lock);
	LIST_FOREACH(req, &port->all, entry) {
		if (req->mr != mr || net_req_ended(req))
			continue;
		uses = true;
		if (cancel)
			fi_cancel(&port->fabric.ep->fid, &req->op.context);
	}
	pthread_mutex_unlock(&port->lock);
	return uses;
}

/*
 * NCCL aborts without waiting for its messages, and frees the memory next: nothing may be written there any more. libfabric
 * cancels no receive whose message has begun to come, nor what is sent. Nothing but the end of the endpoint ends these.
 */
void net_port_abort(struct net_port *port, const struct fabric_mr *mr)
{
	net_port_lock(port);
	net_port_purge(port, NULL, mr);
	if (port->fabric.ep && net_port_uses(port, mr, true)) {
		fabric_progress(&port->fabric);
		if (net_port_uses(port, mr, false)) {
			fabric_port_shut(&port->fabric);
			__atomic_store_n(&port->shut, !port->fabric.ep, __ATOMIC_RELAXED);
		}
	}
	net_port_unlock(port);
}
