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

#include "net_port.h"

#define NET_MAGIC 0x70327034u

/* What a handle has */
struct net_handle {
	uint32_t magic;
	uint32_t tag;
	struct fabric_name name;
};

_Static_assert(sizeof(struct net_handle) <= NCCL_HANDLE_MAX, "a handle is too long");

/* How many threads move a communicator's messages, and the most */
#define NET_THREADS "P2P_NCCL_THREADS"
#define NET_THREADS_MAX 16

/**
 * struct net - what init() returns: the endpoints of a communicator of NCCL's.
 * @opened:	@ports are there, as NCCL has listened or connected. A communicator within a host does neither.
 * @sends, @recvs:	how often it has connected and listened: ports take turns
 */
struct net {
	pthread_mutex_t lock;
	bool opened;
	unsigned int count, sends, recvs;
	struct net_port ports[NET_THREADS_MAX];
};

/* The last tag: none is used twice in a process, as some providers mix the messages of its endpoints */
static uint32_t net_tags;

/* The threads that the variable asks for; without it NCCL's thread does the work. One that makes no sense is said. */
static unsigned int net_threads(void)
{
	const char *text = getenv(NET_THREADS);
	char *end;
	long value;

	if (!text || !*text)
		return 0;
	value = strtol(text, &end, 10);
	if (!*end && value >= 0 && value <= NET_THREADS_MAX)
		return (unsigned int) value;
	fabric_warn(NET_THREADS "=%s: from 0 to %d", text, NET_THREADS_MAX);
	return 0;
}

/* The ports, opened by the first that wants one. @turn counts who wanted one. */
static int net_port_next(struct net *net, unsigned int *turn, struct net_port **port)
{
	const unsigned int threads = net_threads();
	int ret = 0;

	pthread_mutex_lock(&net->lock);
	while (!net->opened && !ret) {
		ret = net_port_open(&net->ports[net->count], threads > 0);
		net->count += !ret;
		net->opened = net->count >= threads;
	}
	if (!ret)
		*port = &net->ports[(*turn)++ % net->count];
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
	}
	*ctx = net;
	return fabric_failed(ret, "opening a domain");
}

/* NCCL 2.28 also calls it, with no context, when init() has failed */
static int net_finalize(void *ctx)
{
	struct net *net = ctx;

	if (!net)
		return NCCL_SUCCESS;
	for (unsigned int i = 0; i < net->count; i++)
		net_port_close(&net->ports[i]);
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

static int net_comm_new(struct net_port *port, bool sends, uint32_t tag, fi_addr_t peer,
			void **comm)
{
	struct net_comm *made = malloc(sizeof *made);

	if (!made)
		return NCCL_SYSTEM_ERROR;
	*made = (struct net_comm){port, sends, tag, peer, 0};
	*comm = made;
	return NCCL_SUCCESS;
}

static int net_listen(void *ctx, int dev, void *handle, void **listen_comm)
{
	struct net_handle said = {.magic = NET_MAGIC};
	struct net *net = ctx;
	struct net_port *port = NULL;
	int ret = net_port_next(net, &net->recvs, &port);

	if (ret)
		return ret;
	net_port_lock(port);
	ret = port->fabric.ep ? fabric_port_name(&port->fabric, &said.name) : -FI_ESHUTDOWN;
	net_port_unlock(port);
	if (ret)
		return fabric_failed(ret, "the name of an endpoint");
	said.tag = __atomic_add_fetch(&net_tags, 1, __ATOMIC_RELAXED);
	memcpy(handle, &said, sizeof said);
	return net_comm_new(port, false, said.tag, FI_ADDR_UNSPEC, listen_comm);
}

static int net_connect(void *ctx, int dev, void *handle, void **send_comm, void **dev_comm)
{
	struct net_handle said;
	struct net *net = ctx;
	struct net_port *port = NULL;
	fi_addr_t peer;
	int ret;

	memcpy(&said, handle, sizeof said);
	if (said.magic != NET_MAGIC) {
		fabric_warn("a peer's handle is not of this plugin. Load it on all ranks");
		return NCCL_INVALID_USAGE;
	}
	ret = net_port_next(net, &net->sends, &port);
	if (ret)
		return ret;
	net_port_lock(port);
	ret = fabric_port_insert(&port->fabric, &said.name, &peer);
	net_port_unlock(port);
	if (ret)
		return fabric_failed(ret, "a peer's name");
	return net_comm_new(port, true, said.tag, peer, send_comm);
}

static int net_accept(void *listen_comm, void **recv_comm, void **dev_comm)
{
	const struct net_comm *listens = listen_comm;

	return net_comm_new(listens->port, false, listens->tag, FI_ADDR_UNSPEC, recv_comm);
}

static int net_comm_close(void *comm)
{
	net_port_drop(((struct net_comm *) comm)->port, comm);
	free(comm);
	return NCCL_SUCCESS;
}

/* ---- regions ---- */

static int net_reg_mr(void *comm, void *data, size_t size, int type, void **mr)
{
	struct net_port *port = ((struct net_comm *) comm)->port;
	struct fabric_mr *made = malloc(sizeof *made);
	int ret = made ? fabric_mr_open(&port->fabric, data, size, type, made) : -FI_ENOMEM;

	if (!ret) {
		net_port_lock(port);
		ret = fabric_mr_bind(&port->fabric, made);
		net_port_unlock(port);
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

static int net_dereg_mr(void *comm, void *mr)
{
	net_port_abort(((struct net_comm *) comm)->port, mr);
	fabric_mr_close(mr);
	free(mr);
	return NCCL_SUCCESS;
}

/* ---- messages ---- */

/* NCCL asks again where it gets no request */
static int net_req_post(struct net_comm *comm, void *data, size_t size, void *mr, void **made)
{
	struct net_req *req = malloc(sizeof *req);
	ssize_t ret;

	if (!req)
		return NCCL_SYSTEM_ERROR;
	*req = (struct net_req){
		.port = comm->port,
		.comm = comm,
		.sends = comm->sends,
		.data = data,
		.size = size,
		.mr = mr,
	};
	ret = net_port_post(req);
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
	struct net_port *port = req->port;
	int err;

	*done = net_port_ended(req);
	if (!*done)
		return fabric_failed(__atomic_load_n(&port->shut, __ATOMIC_RELAXED)
					     ? FI_ESHUTDOWN
					     : 0,
				     "a message");
	if (sizes)
		sizes[0] = (int) (req->sends ? req->size : req->op.len);
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
