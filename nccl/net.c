/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages of NCCL's (its ncclNet interface, version 11), by tagged messages of libfabric. NCCL 2.28 takes puts and
 * signals (gin.c) only from a library that has this, too.
 *
 *	receiver                                                         sender
 *	listen: picks a tag  --- handle(name, tag), by NCCL ----------> connect: inserts the name
 *	accept               <=== messages with that tag ==============
 *
 * Endpoints need no connection. So connect and accept return at once, and a receive waits until somebody sends.
 */
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "fabric.h"

#define NET_MAGIC 0x70327034u

/* What a handle has */
struct net_handle {
	uint32_t magic;
	uint32_t tag;
	struct fabric_name name;
};

_Static_assert(sizeof(struct net_handle) <= NCCL_HANDLE_MAX, "a handle is too long");

/**
 * struct net - what init() returns: the endpoint of a communicator of NCCL's, and the messages under way.
 * @opened:	@port is there, as NCCL has listened or connected. A communicator within a host does neither.
 */
struct net {
	pthread_mutex_t lock;
	bool opened;
	struct fabric_port port;
	LIST_HEAD(, net_req) reqs;
};

/** struct net_comm - messages one way: those with @tag, at @net; to @peer, if it @sends */
struct net_comm {
	struct net *net;
	bool sends;
	uint32_t tag;
	fi_addr_t peer;
};

/** struct net_req - a message, until NCCL has heard of its end. @ended: libfabric has done with it */
struct net_req {
	struct fabric_op op;
	struct net_comm *comm;
	void *data;
	size_t size;
	struct fabric_mr *mr;
	bool ended;
	LIST_ENTRY(net_req) entry;
};

/* The last tag: none is used twice in a process, as some providers mix the messages of its endpoints */
static uint32_t net_tags;

static int net_port_open(struct net *net)
{
	int ret = 0;

	pthread_mutex_lock(&net->lock);
	if (!net->opened)
		ret = fabric_port_open(&net->port);
	net->opened = !ret;
	pthread_mutex_unlock(&net->lock);
	return fabric_failed(ret, "opening an endpoint");
}

/* ---- the device ---- */

static int net_init(void **ctx, uint64_t comm, void *config, nccl_logger log, void *profiler)
{
	struct net *net = calloc(1, sizeof *net);
	int ret;

	fabric_logger(log);
	ret = net ? fabric_open() : -FI_ENOMEM;
	if (ret) {
		free(net);
		net = NULL;
	} else {
		pthread_mutex_init(&net->lock, NULL);
		LIST_INIT(&net->reqs);
	}
	*ctx = net;
	return fabric_failed(ret, "opening a domain");
}

/* NCCL 2.28 also calls it, with no context, when init() has failed */
static int net_finalize(void *ctx)
{
	struct net *net = ctx;
	struct net_req *req;

	if (!net)
		return NCCL_SUCCESS;
	if (net->opened)
		fabric_port_close(&net->port);
	while ((req = LIST_FIRST(&net->reqs))) {
		LIST_REMOVE(req, entry);
		free(req);
	}
	pthread_mutex_destroy(&net->lock);
	free(net);
	fabric_close();
	return NCCL_SUCCESS;
}

static int net_devices(int *count)
{
	*count = 1;
	return NCCL_SUCCESS;
}

static int net_properties(int dev, struct nccl_props_v11 *props)
{
	const size_t most = fabric_info()->ep_attr->max_msg_size;

	*props = (struct nccl_props_v11){
		.device = fabric_props(NCCL_DEVICE_HOST, 0, 1),
		.parts = {.count = 1},
		.p2p_max = most < (size_t) 1 << 40 ? most : (size_t) 1 << 40,
		.coll_max = most < (size_t) 1 << 40 ? most : (size_t) 1 << 40,
		.multi_max = 1,
	};
	return NCCL_SUCCESS;
}

/* ---- communicators ---- */

static int net_comm_new(struct net *net, bool sends, uint32_t tag, fi_addr_t peer, void **comm)
{
	struct net_comm *made = malloc(sizeof *made);

	if (!made)
		return NCCL_SYSTEM_ERROR;
	*made = (struct net_comm){net, sends, tag, peer};
	*comm = made;
	return NCCL_SUCCESS;
}

static int net_listen(void *ctx, int dev, void *handle, void **listen_comm)
{
	struct net_handle said = {.magic = NET_MAGIC};
	struct net *net = ctx;
	int ret = net_port_open(net);

	if (ret)
		return ret;
	pthread_mutex_lock(&net->port.lock);
	ret = net->port.ep ? fabric_port_name(&net->port, &said.name) : -FI_ESHUTDOWN;
	pthread_mutex_unlock(&net->port.lock);
	if (ret)
		return fabric_failed(ret, "the name of an endpoint");
	said.tag = __atomic_add_fetch(&net_tags, 1, __ATOMIC_RELAXED);
	memcpy(handle, &said, sizeof said);
	return net_comm_new(net, false, said.tag, FI_ADDR_UNSPEC, listen_comm);
}

static int net_connect(void *ctx, int dev, void *handle, void **send_comm, void **dev_comm)
{
	struct net_handle said;
	struct net *net = ctx;
	fi_addr_t peer;
	int ret;

	memcpy(&said, handle, sizeof said);
	if (said.magic != NET_MAGIC) {
		fabric_warn("a peer's handle is not of this plugin. Load it on all ranks");
		return NCCL_INVALID_USAGE;
	}
	ret = net_port_open(net);
	if (ret)
		return ret;
	pthread_mutex_lock(&net->port.lock);
	ret = fabric_port_insert(&net->port, &said.name, &peer);
	pthread_mutex_unlock(&net->port.lock);
	if (ret)
		return fabric_failed(ret, "a peer's name");
	return net_comm_new(net, true, said.tag, peer, send_comm);
}

static int net_accept(void *listen_comm, void **recv_comm, void **dev_comm)
{
	const struct net_comm *listens = listen_comm;

	return net_comm_new(listens->net, false, listens->tag, FI_ADDR_UNSPEC, recv_comm);
}

static int net_comm_close(void *comm)
{
	free(comm);
	return NCCL_SUCCESS;
}

/* ---- regions ---- */

static int net_reg_mr(void *comm, void *data, size_t size, int type, void **mr)
{
	struct fabric_port *port = &((struct net_comm *) comm)->net->port;
	struct fabric_mr *made = malloc(sizeof *made);
	int ret = made ? fabric_mr_open(data, size, type, made) : -FI_ENOMEM;

	if (!ret) {
		pthread_mutex_lock(&port->lock);
		ret = fabric_mr_bind(port, made);
		pthread_mutex_unlock(&port->lock);
	}
	if (ret) {
		free(made);
		return fabric_failed(ret, "registering memory");
	}
	*mr = made;
	return NCCL_SUCCESS;
}

/* NCCL does not ask for it, as the properties do not offer it */
static int net_reg_mr_dmabuf(void *comm, void *data, size_t size, int type, uint64_t off,
			     int fd, void **mr)
{
	return NCCL_INVALID_USAGE;
}

static bool net_mr_busy(const struct net *net, const void *mr)
{
	const struct net_req *req;

	LIST_FOREACH(req, &net->reqs, entry)
		if (req->mr == mr && !req->ended)
			return true;
	return false;
}

/*
 * NCCL aborts without waiting for its messages, and frees the memory next: nothing may be written there any more. libfabric
 * cancels no receive whose message has begun to come, nor what is sent. Nothing but the end of the endpoint ends these.
 */
static int net_dereg_mr(void *comm, void *mr)
{
	struct net *net = ((struct net_comm *) comm)->net;
	struct net_req *req;

	pthread_mutex_lock(&net->port.lock);
	if (net->port.ep && net_mr_busy(net, mr)) {
		LIST_FOREACH(req, &net->reqs, entry)
			if (req->mr == mr && !req->ended)
				fi_cancel(&net->port.ep->fid, &req->op.context);
		fabric_progress(&net->port);
		if (net_mr_busy(net, mr))
			fabric_port_shut(&net->port);
	}
	pthread_mutex_unlock(&net->port.lock);
	fabric_mr_close(mr);
	free(mr);
	return NCCL_SUCCESS;
}

/* ---- messages ---- */

static ssize_t net_req_begin(struct net_req *req)
{
	const struct net_comm *comm = req->comm;
	struct fid_ep *ep = comm->net->port.ep;
	void *desc = req->mr ? req->mr->desc : NULL;

	if (!ep)
		return -FI_ESHUTDOWN;
	return comm->sends ? fi_tsend(ep, req->data, req->size, desc, comm->peer, comm->tag,
				      &req->op.context)
			   : fi_trecv(ep, req->data, req->size, desc, comm->peer, comm->tag, 0,
				      &req->op.context);
}

static void net_req_done(struct fabric_op *op)
{
	((struct net_req *) op)->ended = true;
}

/*
 * Without room there is no request, and NCCL asks again: a message that waited here would hold up those to other peers, and
 * the receives that their sends wait for.
 */
static int net_req_post(struct net_comm *comm, void *data, size_t size, void *mr, void **made)
{
	struct fabric_port *port = &comm->net->port;
	struct net_req *req = malloc(sizeof *req);
	ssize_t ret;

	if (!req)
		return NCCL_SYSTEM_ERROR;
	*req = (struct net_req){
		.op = {.done = net_req_done},
		.comm = comm,
		.data = data,
		.size = size,
		.mr = mr,
	};
	pthread_mutex_lock(&port->lock);
	ret = net_req_begin(req);
	if (!ret)
		LIST_INSERT_HEAD(&comm->net->reqs, req, entry);
	else if (ret == -FI_EAGAIN)
		fabric_progress(port);
	pthread_mutex_unlock(&port->lock);
	*made = ret ? NULL : req;
	if (!ret)
		return NCCL_SUCCESS;
	free(req);
	return ret == -FI_EAGAIN ? NCCL_SUCCESS : fabric_failed((int) ret, "a message");
}

static int net_isend(void *comm, void *data, size_t size, int tag, void *mr, void *profile,
		     void **req)
{
	return net_req_post(comm, data, size, mr, req);
}

static int net_irecv(void *comm, int count, void **data, size_t *sizes, int *tags, void **mrs,
		     void **profiles, void **req)
{
	if (count != 1)
		return NCCL_INTERNAL_ERROR;
	return net_req_post(comm, data[0], sizes[0], mrs[0], req);
}

/* What has been received is in its place when its receive ends */
static int net_iflush(void *comm, int count, void **data, int *sizes, void **mrs, void **req)
{
	*req = NULL;
	return NCCL_SUCCESS;
}

static int net_test(void *request, int *done, int *sizes)
{
	struct net_req *req = request;
	struct fabric_port *port = &req->comm->net->port;
	bool shut;
	int err;

	pthread_mutex_lock(&port->lock);
	if (!req->ended)
		fabric_progress(port);
	*done = req->ended;
	if (*done)
		LIST_REMOVE(req, entry);
	shut = !port->ep;
	pthread_mutex_unlock(&port->lock);
	if (!*done)
		return fabric_failed(shut ? FI_ESHUTDOWN : 0, "a message");
	if (sizes)
		sizes[0] = (int) (req->comm->sends ? req->size : req->op.len);
	err = req->op.err;
	free(req);
	return err ? fabric_failed(err, "a message") : NCCL_SUCCESS;
}

NCCL_EXPORT const struct nccl_net_v11 ncclNetPlugin_v11 = {
	.name = "p2p",
	.init = net_init,
	.devices = net_devices,
	.get_properties = net_properties,
	.listen = net_listen,
	.connect = net_connect,
	.accept = net_accept,
	.reg_mr = net_reg_mr,
	.reg_mr_dmabuf = net_reg_mr_dmabuf,
	.dereg_mr = net_dereg_mr,
	.isend = net_isend,
	.irecv = net_irecv,
	.iflush = net_iflush,
	.test = net_test,
	.close_send = net_comm_close,
	.close_recv = net_comm_close,
	.close_listen = net_comm_close,
	.finalize = net_finalize,
};
