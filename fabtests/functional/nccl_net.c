/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The plugin's objects: NICs, endpoints, connections, regions. See nccl.h. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/fi_ext.h>

#include "nccl.h"

/* Of libfabric 1.18 and 1.20, which a build with older headers lacks */
#define NCCL_SHARED_MEMORY_PERMITTED (FI_OPT_XPU_TRIGGER + 2)
#define NCCL_CUDA_API_PERMITTED (FI_OPT_XPU_TRIGGER + 1)
#define NCCL_MR_DMABUF (1ULL << 40)

struct nccl_dmabuf {
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr;
};

bool nccl_is_gpu(const struct ft_proc *proc)
{
	return proc->opts.iface != FI_HMEM_SYSTEM;
}

int nccl_close(struct fid *fid, const char *what)
{
	int ret = fi_close(fid);

	return ret ? ft_fail(ret, "fi_close", "%s", what) : 0;
}

/* ---- what there is ---- */

static void set_common_hints(struct fi_info *hints)
{
	hints->caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->mr_key_size = 2;
}

static void set_hints(struct fi_info *hints, enum nccl_kind kind, bool gpu,
		      const struct fi_info *like)
{
	set_common_hints(hints);
	if (gpu) {
		hints->caps |= FI_HMEM;
		hints->domain_attr->mr_mode |= FI_MR_HMEM;
	}
	if (kind == NCCL_SENDRECV) {
		hints->caps |= FI_TAGGED | (gpu ? FI_RMA | FI_READ : 0);
		hints->domain_attr->mr_mode |= FI_MR_ENDPOINT;
		hints->domain_attr->threading = FI_THREAD_SAFE;
		hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
		return;
	}
	hints->caps |= FI_RMA;
	hints->domain_attr->threading = FI_THREAD_COMPLETION;
	hints->domain_attr->cq_data_size = 4;
	if (kind == NCCL_RDMA) {
		hints->domain_attr->mr_mode |= FI_MR_ENDPOINT;
		return;
	}
	hints->caps |= FI_SOURCE;
	hints->mode |= FI_RX_CQ_DATA;
	hints->domain_attr->name = strdup(like->domain_attr->name);
	hints->fabric_attr->name = strdup(like->fabric_attr->name);
}

/* Is this one that the plugin would take, after it has taken @first? */
static bool fits(const struct ft_proc *proc, const struct fi_info *info,
		 const struct fi_info *first, bool loopback)
{
	if (strcmp(info->fabric_attr->prov_name, proc->opts.prov))
		return false;
	if (!strncmp(proc->opts.prov, "tcp", 3) && info->addr_format != FI_SOCKADDR_IN)
		return false;
	if (!loopback && !strcmp(info->domain_attr->name, "lo"))
		return false;
	return !first || (info->caps == first->caps && info->mode == first->mode &&
			  info->addr_format == first->addr_format &&
			  info->ep_attr->type == first->ep_attr->type &&
			  info->ep_attr->protocol == first->ep_attr->protocol &&
			  !strcmp(info->fabric_attr->name, first->fabric_attr->name));
}

static struct fi_info *filter(const struct ft_proc *proc, const struct fi_info *all,
			      bool loopback)
{
	struct fi_info *first = NULL, **last = &first;

	for (; all; all = all->next) {
		if (!fits(proc, all, first, loopback))
			continue;
		*last = fi_dupinfo(all);
		if (!*last)
			break;
		last = &(*last)->next;
	}
	return first;
}

int nccl_find(struct ft_proc *proc, enum nccl_kind kind, const struct fi_info *like,
	      struct fi_info **list, uint32_t *version)
{
	/* the plugin tries the first three in turn; the last is for a libfabric without any of them */
	static const uint32_t versions[] = {FI_VERSION(1, 20), FI_VERSION(1, 18),
					    FI_VERSION(1, 6)};
	struct fi_info *hints = fi_allocinfo(), *all = NULL;
	int ret = -FI_ENODATA;

	if (!hints)
		return -FI_ENOMEM;
	set_hints(hints, kind, nccl_is_gpu(proc), like);
	for (size_t i = 0; ret && i < FT_COUNT(versions); i++) {
		*version = versions[i];
		ret = fi_getinfo(*version, NULL, NULL, 0, hints, &all);
	}
	fi_freeinfo(hints);
	if (ret)
		return ft_skip("there is nothing for the plugin's hints");
	*list = filter(proc, all, false);
	if (!*list)
		*list = filter(proc, all, true);
	fi_freeinfo(all);
	return *list ? 0 : ft_skip("no %s for the plugin's hints", proc->opts.prov);
}

/* ---- NICs ---- */

static int dev_open(struct nccl_dev *dev, const struct fi_info *info)
{
	int ret;

	dev->info = fi_dupinfo(info);
	if (!dev->info)
		return -FI_ENOMEM;
	ret = fi_fabric(dev->info->fabric_attr, &dev->fabric, NULL);
	if (ret)
		return ft_fail(ret, "fi_fabric", "%s", info->fabric_attr->name);
	ret = fi_domain(dev->fabric, dev->info, &dev->domain, NULL);
	return ret ? ft_fail(ret, "fi_domain", "%s", info->domain_attr->name) : 0;
}

int nccl_devs_open(struct ft_proc *proc, enum nccl_kind kind, struct nccl_dev devs[NCCL_DEVS])
{
	struct fi_info *list, *info;
	uint32_t version;
	int ret = nccl_find(proc, kind, NULL, &list, &version);

	if (ret)
		return ret;
	info = list;
	for (size_t i = 0; !ret && i < NCCL_DEVS; i++) {
		devs[i] = (struct nccl_dev){.proc = proc, .version = version};
		ret = dev_open(&devs[i], info);
		info = info->next ? info->next : list;
	}
	fi_freeinfo(list);
	return ret;
}

int nccl_devs_close(struct nccl_dev devs[NCCL_DEVS])
{
	int ret;

	for (size_t i = 0; i < NCCL_DEVS; i++) {
		ret = fi_close(&devs[i].domain->fid);
		/*
		 * ofi_rxm has a long message before its sender knows, and registrations until then: an endpoint
		 * that is closed in between loses them
		 */
		if (ret == -FI_EBUSY && strstr(devs[i].info->fabric_attr->prov_name, "ofi_rxm"))
			printf("note: ofi_rxm does not close its domain right after long messages\n");
		else if (ret)
			return ft_fail(ret, "fi_close", "domain");
		else
			FT_TRY(nccl_close(&devs[i].fabric->fid, "fabric"));
		fi_freeinfo(devs[i].info);
	}
	return 0;
}

/* A page more than is asked for, in whole pages: as the plugin does */
static struct iovec whole_pages(void *addr, size_t len)
{
	const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE), start = (uintptr_t) addr;
	const uintptr_t first = start / page * page;

	return (struct iovec){(void *) first, (start + len - first + page - 1) / page * page};
}

/* The descriptor is of no use here: what is behind it is for a NIC, if there is one */
int nccl_register_dmabuf(struct nccl_dev *dev, const struct fi_mr_attr *common, char *base,
			 uint64_t offset, size_t len, struct fid_mr **mr)
{
	const struct nccl_dmabuf buffer = {
		.fd = open("/dev/null", O_RDWR | O_CLOEXEC),
		.offset = offset,
		.len = len,
		.base_addr = base,
	};
	struct fi_mr_attr attr = *common;
	int ret;

	attr.mr_iov = (const struct iovec *) &buffer;
	ret = fi_mr_regattr(dev->domain, &attr, NCCL_MR_DMABUF, mr);
	/* NCCL closes it as soon as the memory is registered */
	close(buffer.fd);
	return ret;
}

int nccl_register(struct nccl_dev *dev, void *addr, size_t len, bool gpu, bool dmabuf,
		  uint64_t access, struct fid_mr **mr)
{
	const uint64_t offset = 4096;
	struct iovec iov = whole_pages(addr, len);
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = access,
		.iface = gpu ? dev->proc->opts.iface : FI_HMEM_SYSTEM,
	};
	int ret;

	if (gpu && attr.iface == FI_HMEM_CUDA)
		attr.device.cuda = dev->proc->opts.device;
	if (!(dev->info->domain_attr->mr_mode & FI_MR_PROV_KEY))
		attr.requested_key = ++dev->next_key;
	ret = dmabuf ? nccl_register_dmabuf(dev, &attr, (char *) addr - offset, offset, len, mr)
		     : fi_mr_regattr(dev->domain, &attr, 0, mr);
	return ret ? ft_fail(ret, "fi_mr_regattr", "%zu bytes%s", len,
			     dmabuf ? " of a dma-buf" : "")
		   : 0;
}

/* ---- endpoints ---- */

/* The plugin takes these two answers for "it cannot be forbidden" */
static int forbid(struct fid_ep *ep, int name, const char *what, bool must)
{
	const bool no = false;
	int ret = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, &no, sizeof(no));

	if (ret && (must || (ret != -FI_EOPNOTSUPP && ret != -FI_ENOPROTOOPT)))
		return ft_fail(ret, "fi_setopt", "%s", what);
	return 0;
}

static int open_av(struct nccl_dev *dev, struct fid_av **av)
{
	struct fi_av_attr attr = {.type = FI_AV_UNSPEC};
	int ret = fi_av_open(dev->domain, &attr, av, NULL);

	return ret ? ft_fail(ret, "fi_av_open", "vector") : 0;
}

static int open_ep(struct nccl_dev *dev, struct fi_info *info, struct fid_cq *cq,
		   struct fid_av *av, struct fid_ep **ep)
{
	const char *api = getenv("FI_P2P_CUDA_API");
	int ret = fi_endpoint(dev->domain, info, ep, NULL);

	if (!ret)
		ret = fi_ep_bind(*ep, &cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(*ep, &av->fid, 0);
	if (ret)
		return ft_fail(ret, "fi_endpoint, fi_ep_bind", "endpoint");
	FT_TRY(forbid(*ep, NCCL_SHARED_MEMORY_PERMITTED, "FI_OPT_SHARED_MEMORY_PERMITTED",
		      false));
	if (dev->version >= FI_VERSION(1, 18))
		FT_TRY(forbid(*ep, NCCL_CUDA_API_PERMITTED, "FI_OPT_CUDA_API_PERMITTED",
			      api && !strcmp(api, "async")));
	ret = fi_enable(*ep);
	return ret ? ft_fail(ret, "fi_enable", "endpoint") : 0;
}

static int get_name(struct fid_ep *ep, struct nccl_name *name)
{
	size_t len = sizeof(name->bytes);
	int ret = fi_getname(&ep->fid, name->bytes, &len);

	return ret ? ft_fail(ret, "fi_getname", "endpoint") : 0;
}

static int insert(struct fid_av *av, const struct nccl_name *name, fi_addr_t *addr)
{
	int ret = fi_av_insert(av, name->bytes, 1, addr, 0, NULL);

	FT_CHECK(ret == 1, "fi_av_insert returned %d", ret);
	return 0;
}

static int cm_recv(struct nccl_ep *ep, struct nccl_cm_req *cm)
{
	memset(cm->msg, 0, sizeof(*cm->msg));
	NCCL_POST(ep, fi_recv(ep->cm_ep, cm->msg, sizeof(*cm->msg), fi_mr_desc(ep->cm_mr),
			      FI_ADDR_UNSPEC, &cm->req.context));
	return 0;
}

static int cm_sent(struct nccl_ep *ep, struct nccl_req *req)
{
	ep->cm_sent++;
	return 0;
}

static int cm_send(struct nccl_ep *ep, const struct nccl_name *to, struct nccl_cm_msg msg)
{
	struct nccl_cm_req *const cm = &ep->cm_send[ep->cm_sends++];
	fi_addr_t addr;

	FT_TRY(insert(ep->cm_av, to, &addr));
	msg.cm = ep->cm_name;
	msg.name = ep->name;
	*cm->msg = msg;
	cm->req.arrived = cm_sent;
	NCCL_POST(ep, fi_send(ep->cm_ep, cm->msg, sizeof(msg), fi_mr_desc(ep->cm_mr), addr,
			      &cm->req.context));
	return 0;
}

/* A connect message makes the end that receives, and its answer the end that sends. */
static int cm_arrived(struct nccl_ep *ep, struct nccl_req *req)
{
	struct nccl_cm_req *const cm = (struct nccl_cm_req *) req;
	const struct nccl_cm_msg msg = *cm->msg;
	struct nccl_comm *comm;

	FT_CHECK(req->comp.len == sizeof(msg) && msg.to < NCCL_COMMS,
		 "a connect message of %zu bytes", req->comp.len);
	comm = &ep->comm[msg.to];
	FT_CHECK(comm->sends == msg.answer && !comm->connected,
		 "communicator %u is asked to connect twice", msg.to);
	FT_TRY(insert(ep->av, &msg.name, &comm->peer));
	comm->tag = msg.answer ? msg.tag : ++ep->tags;
	comm->connected = true;
	if (!msg.answer)
		FT_TRY(cm_send(ep, &msg.cm,
			       (struct nccl_cm_msg){.answer = 1,
						    .to = msg.to,
						    .tag = comm->tag}));
	return cm_recv(ep, cm);
}

static int cm_open(struct nccl_ep *ep)
{
	const size_t count = NCCL_CM_RECVS + FT_COUNT(ep->cm_send);
	const size_t size = count * sizeof(*ep->cm_room);

	FT_TRY(open_av(ep->dev, &ep->cm_av));
	FT_TRY(open_ep(ep->dev, ep->dev->info, ep->cq, ep->cm_av, &ep->cm_ep));
	FT_TRY(get_name(ep->cm_ep, &ep->cm_name));
	ep->cm_room = calloc(1, size);
	if (!ep->cm_room)
		return -FI_ENOMEM;
	FT_TRY(nccl_register(ep->dev, ep->cm_room, size, false, false, FI_SEND | FI_RECV,
			     &ep->cm_mr));
	for (size_t i = 0; i < FT_COUNT(ep->cm_send); i++)
		ep->cm_send[i].msg = &ep->cm_room[NCCL_CM_RECVS + i];
	for (size_t i = 0; i < NCCL_CM_RECVS; i++) {
		ep->cm_recv[i].msg = &ep->cm_room[i];
		ep->cm_recv[i].req.arrived = cm_arrived;
		FT_TRY(cm_recv(ep, &ep->cm_recv[i]));
	}
	return 0;
}

/* GIN asks again, for the same NIC, and takes exactly one answer. */
static int open_gin_ep(struct nccl_ep *ep)
{
	struct fi_info *info;
	uint32_t version;
	int ret = nccl_find(ep->dev->proc, NCCL_GIN, ep->dev->info, &info, &version);

	if (ret)
		return ret;
	if (info->next)
		ft_err("more than one answer for GIN");
	else if (!(info->mode & FI_RX_CQ_DATA) || info->domain_attr->cq_data_size < 4)
		ft_err("mode 0x%zx and %zu bytes of cq data for GIN", (size_t) info->mode,
		       info->domain_attr->cq_data_size);
	else if (info->domain_attr->mr_mode & FI_MR_ENDPOINT)
		ft_err("FI_MR_ENDPOINT, which GIN does not have");
	else
		ret = open_ep(ep->dev, info, ep->cq, ep->av, &ep->ep);
	fi_freeinfo(info);
	return ret || ep->ep ? ret : -FI_EOTHER;
}

int nccl_ep_open(struct nccl_ep *ep, struct nccl_dev *dev, enum nccl_kind kind)
{
	struct fi_cq_attr attr = {
		.size = NCCL_CQ_SIZE,
		.format = kind == NCCL_SENDRECV ? FI_CQ_FORMAT_TAGGED : FI_CQ_FORMAT_DATA,
	};
	int ret;

	memset(ep, 0, sizeof(*ep));
	ep->dev = dev;
	ep->kind = kind;
	ret = fi_cq_open(dev->domain, &attr, &ep->cq, NULL);
	if (ret)
		return ft_fail(ret, "fi_cq_open", "queue");
	FT_TRY(open_av(dev, &ep->av));
	if (kind == NCCL_GIN)
		FT_TRY(open_gin_ep(ep));
	else
		FT_TRY(open_ep(dev, dev->info, ep->cq, ep->av, &ep->ep));
	FT_TRY(get_name(ep->ep, &ep->name));
	FT_TRY(insert(ep->av, &ep->name, &ep->self));
	for (size_t i = 0; i < NCCL_COMMS; i++)
		ep->comm[i].sends = (i + (size_t) dev->proc->rank) % 2 == 0;
	return kind == NCCL_GIN ? 0 : cm_open(ep);
}

int nccl_ep_abort(struct nccl_ep *ep)
{
	FT_TRY(nccl_close(&ep->ep->fid, "endpoint"));
	FT_TRY(nccl_close(&ep->av->fid, "vector"));
	ep->ep = NULL;
	ep->av = NULL;
	return 0;
}

int nccl_ep_close(struct nccl_ep *ep)
{
	if (ep->cm_ep) {
		FT_TRY(nccl_close(&ep->cm_ep->fid, "endpoint that connects"));
		FT_TRY(nccl_close(&ep->cm_mr->fid, "region of connect messages"));
		free(ep->cm_room);
		FT_TRY(nccl_close(&ep->cm_av->fid, "vector of the endpoint that connects"));
	}
	if (ep->ep)
		FT_TRY(nccl_ep_abort(ep));
	return nccl_close(&ep->cq->fid, "queue");
}

/* ---- progress ---- */

static int completed(struct nccl_ep *ep, const struct fi_cq_tagged_entry *comp,
		     fi_addr_t source)
{
	struct nccl_req *const req = comp->op_context;

	if (!req) {
		FT_CHECK(ep->foreign, "a completion without a context, flags 0x%zx",
			 (size_t) comp->flags);
		return ep->foreign(ep, comp);
	}
	FT_CHECK(!req->done, "an operation completes twice, flags 0x%zx", (size_t) comp->flags);
	req->comp = *comp;
	req->source = source;
	if (req->arrived)
		return req->arrived(ep, req);
	req->done = true;
	return 0;
}

static int failed(struct nccl_ep *ep)
{
	struct fi_cq_err_entry err = {0};
	ssize_t n = fi_cq_readerr(ep->cq, &err, 0);

	FT_CHECK(n == 1, "fi_cq_readerr returned %zd", n);
	return ft_fail(-err.err, "an operation", "flags 0x%zx", (size_t) err.flags);
}

/* Entries of the queue's format, as those of the longest one */
static struct fi_cq_tagged_entry entry_of(const struct nccl_ep *ep, const void *entries,
					  size_t i)
{
	struct fi_cq_tagged_entry entry = {.op_context = NULL};

	if (ep->kind == NCCL_SENDRECV)
		return ((const struct fi_cq_tagged_entry *) entries)[i];
	memcpy(&entry, (const struct fi_cq_data_entry *) entries + i,
	       sizeof(struct fi_cq_data_entry));
	return entry;
}

int nccl_progress(struct nccl_ep *ep)
{
	struct fi_cq_tagged_entry entries[NCCL_READS], entry;
	fi_addr_t sources[NCCL_READS] = {0};
	ssize_t n = ep->kind == NCCL_GIN ? fi_cq_readfrom(ep->cq, entries, NCCL_READS, sources)
					 : fi_cq_read(ep->cq, entries, NCCL_READS);

	for (ssize_t i = 0; i < n; i++) {
		entry = entry_of(ep, entries, (size_t) i);
		FT_TRY(completed(ep, &entry, sources[i]));
	}
	if (n == -FI_EAVAIL)
		return failed(ep);
	if (n == -FI_EAGAIN)
		sched_yield();
	else if (n > 0)
		ft_progress_note();
	return n < 0 && n != -FI_EAGAIN ? ft_fail((int) n, "fi_cq_read", "queue") : 0;
}

int nccl_posted(struct nccl_ep *ep, ssize_t ret, const char *call, bool *again)
{
	*again = ret == -FI_EAGAIN;
	if (*again)
		return nccl_progress(ep);
	return ret ? ft_fail((int) ret, "posting", "%s", call) : 0;
}

int nccl_wait(struct nccl_ep *ep, const struct nccl_req *req, size_t count)
{
	for (size_t i = 0; i < count; i++)
		while (!req[i].done)
			FT_TRY(nccl_progress(ep));
	return 0;
}

/* ---- connections ---- */

static bool connected(const struct nccl_ep *ep)
{
	for (size_t i = 0; i < NCCL_COMMS; i++)
		if (!ep->comm[i].connected)
			return false;
	return ep->cm_sent == ep->cm_sends;
}

int nccl_meet(struct ft_proc *proc, struct nccl_ep *eps, size_t count)
{
	struct pollfd there = {.fd = proc->fd[!proc->rank], .events = POLLIN};
	char byte = 1;

	FT_TRY(ft_oob_send(there.fd, &byte, sizeof(byte)));
	while (!poll(&there, 1, 0))
		for (size_t i = 0; i < count; i++)
			FT_TRY(nccl_progress(&eps[i]));
	return ft_oob_recv(there.fd, &byte, sizeof(byte), proc->opts.timeout);
}

int nccl_connect(struct ft_proc *proc, struct nccl_ep *ep)
{
	const int fd = proc->fd[!proc->rank];
	struct nccl_name listener;

	/* the handle goes by NCCL's own sockets */
	FT_TRY(ft_oob_send(fd, &ep->cm_name, sizeof(ep->cm_name)));
	FT_TRY(ft_oob_recv(fd, &listener, sizeof(listener), proc->opts.timeout));
	for (uint32_t i = 0; i < NCCL_COMMS; i++)
		if (ep->comm[i].sends)
			FT_TRY(cm_send(ep, &listener, (struct nccl_cm_msg){.to = i}));
	while (!connected(ep))
		FT_TRY(nccl_progress(ep));
	return nccl_meet(proc, ep, 1);
}
