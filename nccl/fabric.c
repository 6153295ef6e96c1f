/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The domain, ports, operations and regions. See fabric.h. */
#include "fabric.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

/* Completions read at a time */
#define FABRIC_BATCH 16

/* The variable that names the provider, as fi_info(1) prints it */
#define FABRIC_CHOICE "P2P_NCCL_PROVIDER"

#define FABRIC_VERSION FI_VERSION(1, 17)
#define FABRIC_MESSAGES (FI_TAGGED | FI_HMEM)
#define FABRIC_REMOTE (FI_RMA | FI_ATOMIC)

/* Of the CUDA driver: the ordinal of the device that memory belongs to */
#define CUDA_POINTER_ORDINAL 9

/**
 * struct fabric - what the process has open.
 * @users:	how often fabric_open() was called and not fabric_close()
 * @keys:	the last key that was asked for, where the provider chooses none
 */
static struct {
	pthread_mutex_t lock;
	unsigned int users;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	uint64_t keys;
	nccl_logger logger;
} fabric = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what is said ---- */

void fabric_logger(nccl_logger logger)
{
	__atomic_store_n(&fabric.logger, logger, __ATOMIC_RELAXED);
}

void fabric_say(int level, const char *file, int line, const char *format, ...)
{
	nccl_logger logger = __atomic_load_n(&fabric.logger, __ATOMIC_RELAXED);
	char text[512];
	va_list args;

	if (!logger)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	logger(level, NCCL_LOG_NET, file, line, "%s", text);
}

int fabric_failed(int err, const char *what)
{
	if (!err)
		return NCCL_SUCCESS;
	fabric_warn("%s: %s", what, fi_strerror(abs(err)));
	return NCCL_SYSTEM_ERROR;
}

/* ---- the domain ---- */

/*
 * Where no provider is chosen: not one that reaches this host alone. Nor net or tcp by themselves: they give endpoints of a
 * domain each other's messages, and read nothing behind a message that has no receive yet.
 */
static bool fabric_fits(const struct fi_info *info)
{
	const char *name = info->fabric_attr->prov_name;

	if (getenv(FABRIC_CHOICE) || strstr(name, "ofi_rxm"))
		return true;
	return strncmp(name, "shm", 3) && strncmp(name, "net", 3) && strncmp(name, "tcp", 3);
}

static int fabric_find(uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL, *at;
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->caps = caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_HMEM |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	if (getenv(FABRIC_CHOICE))
		hints->fabric_attr->prov_name = strdup(getenv(FABRIC_CHOICE));
	ret = fi_getinfo(FABRIC_VERSION, NULL, NULL, 0, hints, &list);
	fi_freeinfo(hints);
	for (at = list; at && !fabric_fits(at); at = at->next)
		;
	if (!ret && !at)
		ret = -FI_ENODATA;
	if (!ret)
		fabric.info = fi_dupinfo(at);
	fi_freeinfo(list);
	return ret ? ret : fabric.info ? 0 : -FI_ENOMEM;
}

static void fabric_shut(void)
{
	if (fabric.domain)
		fi_close(&fabric.domain->fid);
	if (fabric.fabric)
		fi_close(&fabric.fabric->fid);
	if (fabric.info)
		fi_freeinfo(fabric.info);
	fabric.domain = NULL;
	fabric.fabric = NULL;
	fabric.info = NULL;
}

/*
 * Kernels of NCCL's wait for what is transferred: ofi_p2p is to make no call that waits for them. Other threads read the
 * environment meanwhile, and setenv() frees what they read. So they get another array, and the old one stays.
 */
static void fabric_cuda_api(void)
{
	size_t count = 0;
	char **longer;

	if (getenv("FI_P2P_CUDA_API"))
		return;
	while (environ && environ[count])
		count++;
	longer = calloc(count + 2, sizeof *longer);
	if (!longer)
		return;
	if (count)
		memcpy(longer, environ, count * sizeof *longer);
	/* they outlive the plugin, which NCCL may unload */
	longer[count] = strdup("FI_P2P_CUDA_API=async");
	__atomic_store_n(&environ, longer, __ATOMIC_RELEASE);
}

static int fabric_begin(void)
{
	int ret;

	fabric_cuda_api();
	ret = fabric_find(FABRIC_MESSAGES | FABRIC_REMOTE);
	if (ret)
		ret = fabric_find(FABRIC_MESSAGES);
	if (ret) {
		fabric_warn("libfabric has no provider that transfers GPU memory to other "
			    "hosts: %s. fi_p2p_info says why",
			    fi_strerror(-ret));
		return ret;
	}
	ret = fi_fabric(fabric.info->fabric_attr, &fabric.fabric, NULL);
	if (!ret)
		ret = fi_domain(fabric.fabric, fabric.info, &fabric.domain, NULL);
	if (ret)
		fabric_shut();
	else
		fabric_note("over %s", fabric.info->fabric_attr->prov_name);
	return ret;
}

int fabric_open(void)
{
	int ret = 0;

	pthread_mutex_lock(&fabric.lock);
	if (!fabric.users)
		ret = fabric_begin();
	if (!ret)
		fabric.users++;
	pthread_mutex_unlock(&fabric.lock);
	return ret;
}

void fabric_close(void)
{
	pthread_mutex_lock(&fabric.lock);
	if (!--fabric.users)
		fabric_shut();
	pthread_mutex_unlock(&fabric.lock);
}

const struct fi_info *fabric_info(void)
{
	return fabric.info;
}

bool fabric_reaches(void)
{
	return (fabric.info->caps & FABRIC_REMOTE) == FABRIC_REMOTE;
}

struct nccl_props fabric_props(int type, int version, int batch)
{
	return (struct nccl_props){
		.name = "p2p",
		.memory = NCCL_HOST | NCCL_CUDA,
		.speed = 100000,
		.port = 1,
		.comms_max = 65536,
		.recvs_max = batch,
		.device_type = type,
		.device_version = version,
	};
}

/* ---- ports ---- */

static int fabric_port_bind(struct fabric_port *port)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	int ret = fi_cq_open(fabric.domain, &cq_attr, &port->cq, NULL);

	if (!ret)
		ret = fi_av_open(fabric.domain, &av_attr, &port->av, NULL);
	if (!ret)
		ret = fi_endpoint(fabric.domain, fabric.info, &port->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(port->ep, &port->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(port->ep, &port->av->fid, 0);
	return ret ? ret : fi_enable(port->ep);
}

int fabric_port_open(struct fabric_port *port)
{
	int ret;

	*port = (struct fabric_port){.ep = NULL};
	pthread_mutex_init(&port->lock, NULL);
	STAILQ_INIT(&port->stalled);
	ret = fabric_port_bind(port);
	if (ret)
		fabric_port_close(port);
	return ret;
}

void fabric_port_shut(struct fabric_port *port)
{
	int ret = port->ep ? fi_close(&port->ep->fid) : 0;

	if (ret)
		fabric_warn(
			"an endpoint does not close, so memory may be written that NCCL frees: %s",
			fi_strerror(-ret));
	else
		port->ep = NULL;
}

void fabric_port_close(struct fabric_port *port)
{
	fabric_port_shut(port);
	if (port->av)
		fi_close(&port->av->fid);
	if (port->cq)
		fi_close(&port->cq->fid);
	pthread_mutex_destroy(&port->lock);
}

int fabric_port_name(struct fabric_port *port, struct fabric_name *name)
{
	size_t len = sizeof name->bytes;
	int ret;

	memset(name, 0, sizeof *name);
	ret = fi_getname(&port->ep->fid, name->bytes, &len);
	name->len = (uint32_t) len;
	return ret;
}

int fabric_port_insert(struct fabric_port *port, const struct fabric_name *name,
		       fi_addr_t *addr)
{
	int ret = name->len <= sizeof name->bytes
			  ? fi_av_insert(port->av, name->bytes, 1, addr, 0, NULL)
			  : -FI_EINVAL;

	return ret == 1 ? 0 : ret < 0 ? ret : -FI_EINVAL;
}

/* ---- operations ---- */

static void fabric_op_end(struct fabric_op *op, int err, size_t len)
{
	op->err = err;
	op->len = len;
	op->done(op);
}

/* False: there is no room */
static bool fabric_op_try(struct fabric_op *op)
{
	ssize_t ret = op->begin(op);

	if (ret == -FI_EAGAIN)
		return false;
	if (ret)
		fabric_op_end(op, (int) -ret, 0);
	return true;
}

void fabric_op_post(struct fabric_port *port, struct fabric_op *op)
{
	if (!STAILQ_EMPTY(&port->stalled) || !fabric_op_try(op))
		STAILQ_INSERT_TAIL(&port->stalled, op, entry);
}

void fabric_op_cancel(struct fabric_port *port, struct fabric_op *op)
{
	const struct fabric_op *at;

	STAILQ_FOREACH(at, &port->stalled, entry)
		if (at == op)
			break;
	if (!at) {
		fi_cancel(&port->ep->fid, &op->context);
		return;
	}
	STAILQ_REMOVE(&port->stalled, op, fabric_op, entry);
	fabric_op_end(op, FI_ECANCELED, 0);
}

/* What has failed. False: nothing */
static bool fabric_read_error(struct fabric_port *port)
{
	struct fi_cq_err_entry error = {.err = 0};

	if (fi_cq_readerr(port->cq, &error, 0) != 1)
		return false;
	if (error.op_context)
		fabric_op_end(error.op_context, abs(error.err), error.len);
	return true;
}

void fabric_progress(struct fabric_port *port)
{
	struct fi_cq_tagged_entry entries[FABRIC_BATCH];
	struct fabric_op *op;
	ssize_t ret;

	port->turns++;
	do {
		ret = fi_cq_read(port->cq, entries, FABRIC_BATCH);
		for (ssize_t i = 0; i < ret; i++)
			fabric_op_end(entries[i].op_context, 0, entries[i].len);
	} while (ret == FABRIC_BATCH || (ret == -FI_EAVAIL && fabric_read_error(port)));
	while ((op = STAILQ_FIRST(&port->stalled))) {
		/* its end may lead to others, which are put last */
		STAILQ_REMOVE_HEAD(&port->stalled, entry);
		if (fabric_op_try(op))
			continue;
		STAILQ_INSERT_HEAD(&port->stalled, op, entry);
		return;
	}
}

/* ---- regions ---- */

/* The ordinal of the GPU with that memory, as its driver says */
static int fabric_cuda_ordinal(void *data, int *ordinal)
{
	typedef int (*asks)(void *value, int what, uint64_t addr);
	static asks found;
	asks ask = __atomic_load_n(&found, __ATOMIC_RELAXED);
	void *driver = ask ? NULL : dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (driver) {
		*(void **) &ask = dlsym(driver, "cuPointerGetAttribute");
		__atomic_store_n(&found, ask, __ATOMIC_RELAXED);
	}
	if (!ask || ask(ordinal, CUDA_POINTER_ORDINAL, (uint64_t) data))
		return -FI_EINVAL;
	return 0;
}

int fabric_mr_open(void *data, size_t size, int type, struct fabric_mr *mr)
{
	struct iovec iov = {data, size};
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = FI_SEND | FI_RECV,
		.iface = type == NCCL_CUDA ? FI_HMEM_CUDA : FI_HMEM_SYSTEM,
	};
	const int mode = fabric.info->domain_attr->mr_mode;
	int ret = 0;

	if (fabric_reaches())
		attr.access |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	if (type == NCCL_CUDA)
		ret = fabric_cuda_ordinal(data, &attr.device.cuda);
	if (!(mode & FI_MR_PROV_KEY))
		attr.requested_key = __atomic_add_fetch(&fabric.keys, 1, __ATOMIC_RELAXED);
	*mr = (struct fabric_mr){.data = data, .size = size};
	if (!ret)
		ret = fi_mr_regattr(fabric.domain, &attr, 0, &mr->mr);
	mr->base = mode & FI_MR_VIRT_ADDR ? (uint64_t) data : 0;
	return ret;
}

int fabric_mr_bind(struct fabric_port *port, struct fabric_mr *mr)
{
	int ret = 0;

	if (fabric.info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		ret = port->ep ? fi_mr_bind(mr->mr, &port->ep->fid, 0) : -FI_ESHUTDOWN;
		if (!ret)
			ret = fi_mr_enable(mr->mr);
	}
	if (ret) {
		fabric_mr_close(mr);
		return ret;
	}
	mr->desc = fi_mr_desc(mr->mr);
	mr->key = fi_mr_key(mr->mr);
	return 0;
}

int fabric_mr_local(struct fabric_port *port, void *data, size_t size, struct fabric_mr *mr)
{
	int ret;

	*mr = (struct fabric_mr){.data = data, .size = size};
	if (!(fabric.info->domain_attr->mr_mode & FI_MR_LOCAL))
		return 0;
	ret = fabric_mr_open(data, size, NCCL_HOST, mr);
	return ret ? ret : fabric_mr_bind(port, mr);
}

void fabric_mr_close(struct fabric_mr *mr)
{
	if (mr->mr)
		fi_close(&mr->mr->fid);
	mr->mr = NULL;
}
