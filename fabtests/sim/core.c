/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The simulated core provider's objects and calls. See core.h; core_mem.c has regions. */
#include "core.h"
#include "fiber.h"

#include "base/base.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <rdma/fi_cm.h>

static struct core_ep *ep_of(struct fid_ep *fid)
{
	return container_of(fid, struct core_ep, fid);
}

/* ---- names ---- */

static size_t name_put(struct core_name name, void *to)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t) name.port)};

	if (world.script->model->strings)
		return (size_t) snprintf(to, 32, "fi_sim://%u:%u", name.node, name.port) + 1;
	in.sin_addr.s_addr = htonl(0x0a000001 + name.node);
	memcpy(to, &in, sizeof in);
	return sizeof in;
}

static bool name_get(const void *from, struct core_name *name)
{
	struct sockaddr_in in;
	bool is;

	if (world.script->model->strings) {
		is = sscanf(from, "fi_sim://%u:%u", &name->node, &name->port) == 2;
	} else {
		memcpy(&in, from, sizeof in);
		*name = (struct core_name){ntohl(in.sin_addr.s_addr) - 0x0a000001,
					   ntohs(in.sin_port)};
		is = in.sin_family == AF_INET;
	}
	return is && name->node < SIM_NODES && name->port;
}

size_t core_name(unsigned int node, unsigned int port, void *name)
{
	return name_put((struct core_name){node, port}, name);
}

unsigned int core_port(const void *name)
{
	struct core_name is = {0, 0};

	return name_get(name, &is) ? is.port : 0;
}

unsigned int core_node(const void *name)
{
	struct core_name is = {SIM_NODES, 0};

	return name_get(name, &is) ? is.node : SIM_NODES;
}

/* ---- address vectors ---- */

static int av_close(struct fid *fid)
{
	struct core_av *av = container_of(fid, struct core_av, fid.fid);

	core_asked();
	av->domain->open--;
	free(av);
	return 0;
}

/* The entry of a name, or a free one */
static size_t av_place(const struct core_av *av, struct core_name name)
{
	size_t at;

	for (at = 0; at < CORE_AV; at++) {
		if (av->names[at].port == name.port && av->names[at].node == name.node)
			return at;
	}
	for (at = 0; at < CORE_AV && av->names[at].port;)
		at++;
	return at;
}

/* A name that a process has made up: of somewhere else, where nobody is. False: no core takes it */
static bool name_made_up(const void *from, struct core_name *name)
{
	struct sockaddr_in in;

	*name = (struct core_name){SIM_NODES, 1};
	if (world.script->model->strings)
		return strlen(from) > 0;
	memcpy(&in, from, sizeof in);
	name->port = ntohs(in.sin_port);
	return in.sin_family == AF_INET && name->port;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		     uint64_t flags, void *context)
{
	struct core_av *av = container_of(fid, struct core_av, fid);
	const size_t len = world.script->model->strings ? 0 : sizeof(struct sockaddr_in);

	for (size_t i = 0; i < count; i++) {
		struct core_name name;
		size_t at;

		const void *from = (const char *) addr + i * len;

		if ((!len && i) || (!name_get(from, &name) && world.liar == SIM_NODES))
			world_fail("n%u: a name that is none is inserted", av->domain->node);
		if (!name_get(from, &name) && !name_made_up(from, &name))
			return (int) i;
		at = av_place(av, name);
		if (at == CORE_AV)
			world_fail("n%u: more than %d addresses", av->domain->node, CORE_AV);
		av->names[at] = name;
		av->uses[at]++;
		if (fi_addr)
			fi_addr[i] = at;
	}
	return (int) count;
}

static int av_remove(struct fid_av *fid, fi_addr_t *addr, size_t count, uint64_t flags)
{
	struct core_av *av = container_of(fid, struct core_av, fid);

	for (size_t i = 0; i < count; i++) {
		if (addr[i] >= CORE_AV || !av->uses[addr[i]])
			world_fail("n%u: an address that is none is removed", av->domain->node);
		if (!--av->uses[addr[i]])
			av->names[addr[i]] = (struct core_name){0, 0};
	}
	return 0;
}

static int av_lookup(struct fid_av *fid, fi_addr_t addr, void *name, size_t *len)
{
	const struct core_av *av = container_of(fid, struct core_av, fid);
	char text[64];
	size_t size;

	if (addr >= CORE_AV || !av->names[addr].port)
		return -FI_EINVAL;
	size = name_put(av->names[addr], text);
	memcpy(name, text, *len < size ? *len : size);
	*len = size;
	return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	struct core_name name = {0, 0};

	name_get(addr, &name);
	*len = (size_t) snprintf(buf, *len, "n%u:%u", name.node, name.port) + 1;
	return buf;
}

static struct fi_ops av_fi_ops = {.size = sizeof av_fi_ops, .close = av_close};
static struct fi_ops_av av_ops = {.size = sizeof av_ops,
				  .insert = av_insert,
				  .remove = av_remove,
				  .lookup = av_lookup,
				  .straddr = av_straddr};

static int av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **to,
		   void *context)
{
	struct core_av *av = calloc(1, sizeof *av);

	av->domain = container_of(fid, struct core_domain, fid);
	av->domain->open++;
	av->fid = (struct fid_av){.fid = {.fclass = FI_CLASS_AV,
					  .context = context,
					  .ops = &av_fi_ops},
				  .ops = &av_ops};
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	*to = &av->fid;
	return 0;
}

/* ---- data transfer calls ---- */

void core_call_begin(struct core_domain *domain, enum core_call call)
{
	const struct fiber *self = fiber_self();

	if (!domain->safe && domain->inside && domain->inside != self)
		world_fail("n%u: two threads are in the core, which was told FI_THREAD_DOMAIN",
			   domain->node);
	domain->inside = self;
	fiber_switch_point();
	if (!domain->model->serial)
		return;
	/* a message that has found no receive, and is not yet among those that wait for one (QUIRK_SERIAL) */
	if (call == CALL_RECEIVES && domain->reader && domain->reader != self)
		world_fail("n%u: the core loses a message: a thread posts a receive while "
			   "another one reads",
			   domain->node);
	if (call == CALL_READS) {
		domain->reader = self;
		fiber_switch_point();
	}
}

void core_call_end(struct core_domain *domain)
{
	if (domain->reader == fiber_self())
		domain->reader = NULL;
	fiber_switch_point();
	domain->inside = NULL;
}

static void iov_take(struct iovec *to, size_t *count, const struct iovec *iov, size_t n)
{
	if (n > CORE_IOV)
		world_fail("n%u: %zu pieces", world.current, n);
	if (n)
		memcpy(to, iov, n * sizeof *iov);
	*count = n;
}

ssize_t core_post_send(struct core_ep *ep, struct core_send *send, fi_addr_t addr)
{
	ssize_t ret;

	core_call_begin(ep->domain, CALL_SENDS);
	ret = core_wire_send(ep, send, addr);
	if (ret)
		free(send);
	core_call_end(ep->domain);
	return ret;
}

static ssize_t do_send(struct fid_ep *fid, const struct iovec *iov, void *const *desc, size_t n,
		       fi_addr_t addr, bool tagged, uint64_t tag, uint64_t data, uint64_t flags,
		       void *context, bool tells)
{
	struct core_send *send = calloc(1, sizeof *send);

	iov_take(send->iov, &send->count, iov, n);
	if (!(flags & FI_INJECT))
		core_mem_take(ep_of(fid)->domain, iov, n, desc, send->mr);
	for (size_t i = 0; i < n; i++)
		send->len += iov[i].iov_len;
	send->tagged = tagged;
	send->tag = tag;
	send->has_data = flags & FI_REMOTE_CQ_DATA;
	send->data = data;
	send->flags = flags;
	send->context = context;
	send->tells = tells;
	return core_post_send(ep_of(fid), send, addr);
}

static ssize_t ep_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return do_send(fid, msg->msg_iov, msg->desc, msg->iov_count, msg->addr, false, 0,
		       msg->data, flags, msg->context, true);
}

static ssize_t ep_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
		       fi_addr_t addr, void *context)
{
	const struct iovec iov = {(void *) buf, len};

	return do_send(fid, &iov, &desc, 1, addr, false, 0, 0, 0, context, true);
}

static ssize_t ep_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			     fi_addr_t addr)
{
	const struct iovec iov = {(void *) buf, len};

	return do_send(fid, &iov, NULL, 1, addr, false, 0, data, FI_INJECT | FI_REMOTE_CQ_DATA,
		       NULL, false);
}

static ssize_t ep_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t addr)
{
	const struct iovec iov = {(void *) buf, len};

	return do_send(fid, &iov, NULL, 1, addr, false, 0, 0, FI_INJECT, NULL, false);
}

static ssize_t ep_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return do_send(fid, msg->msg_iov, msg->desc, msg->iov_count, msg->addr, true, msg->tag,
		       msg->data, flags, msg->context, true);
}

static ssize_t ep_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			fi_addr_t addr, uint64_t tag, void *context)
{
	const struct iovec iov = {(void *) buf, len};

	return do_send(fid, &iov, &desc, 1, addr, true, tag, 0, 0, context, true);
}

static ssize_t ep_tinjectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t addr, uint64_t tag)
{
	const struct iovec iov = {(void *) buf, len};

	return do_send(fid, &iov, NULL, 1, addr, true, tag, data, FI_INJECT | FI_REMOTE_CQ_DATA,
		       NULL, false);
}

static ssize_t ep_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t addr,
			  uint64_t tag)
{
	const struct iovec iov = {(void *) buf, len};

	return do_send(fid, &iov, NULL, 1, addr, true, tag, 0, FI_INJECT, NULL, false);
}

static ssize_t take_recv(struct core_ep *ep, const struct iovec *iov, void *const *desc,
			 size_t n, fi_addr_t addr, bool tagged, uint64_t tag, uint64_t ignore,
			 uint64_t flags, void *context)
{
	struct core_recv *recv;

	if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD) && !ep->model->peeks) ||
	    (flags & FI_MULTI_RECV && !ep->model->multi))
		world_fail("the simulated core has no such receives: flags %llx",
			   (unsigned long long) flags);
	if (ep->receives >= 4 * ep->model->queue)
		return ep->model->nomem ? -FI_ENOMEM : -FI_EAGAIN;
	if (!world.calm && world_upto(100) < world.script->full)
		return -FI_EAGAIN;
	recv = calloc(1, sizeof *recv);
	iov_take(recv->iov, &recv->count, iov, n);
	core_mem_take(ep->domain, iov, n, desc, recv->mr);
	recv->tagged = tagged;
	recv->tag = tag;
	recv->ignore = ignore;
	/* without FI_DIRECTED_RECV the address means nothing */
	recv->src = ep->directs ? addr : FI_ADDR_UNSPEC;
	recv->context = context;
	recv->multi = flags & FI_MULTI_RECV;
	if (flags & FI_PEEK) {
		core_wire_peek(ep, recv, flags);
		free(recv);
		return 0;
	}
	return flags & FI_CLAIM ? core_wire_claimed(ep, recv, flags & FI_DISCARD)
				: core_wire_recv(ep, recv);
}

static ssize_t do_recv(struct fid_ep *fid, const struct iovec *iov, void *const *desc, size_t n,
		       fi_addr_t addr, bool tagged, uint64_t tag, uint64_t ignore,
		       uint64_t flags, void *context)
{
	struct core_ep *ep = ep_of(fid);
	ssize_t ret;

	core_call_begin(ep->domain, CALL_RECEIVES);
	ret = take_recv(ep, iov, desc, n, addr, tagged, tag, ignore, flags, context);
	core_call_end(ep->domain);
	return ret;
}

static ssize_t ep_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return do_recv(fid, msg->msg_iov, msg->desc, msg->iov_count, msg->addr, false, 0, 0,
		       flags, msg->context);
}

static ssize_t ep_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return do_recv(fid, msg->msg_iov, msg->desc, msg->iov_count, msg->addr, true, msg->tag,
		       msg->ignore, flags, msg->context);
}

static ssize_t ep_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t addr,
			uint64_t tag, uint64_t ignore, void *context)
{
	const struct iovec iov = {buf, len};

	return do_recv(fid, &iov, &desc, 1, addr, true, tag, ignore, 0, context);
}

static ssize_t do_rma(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags,
		      enum send_kind kind, bool tells)
{
	struct core_domain *domain = ep_of(fid)->domain;
	struct core_send *send = calloc(1, sizeof *send);

	iov_take(send->iov, &send->count, msg->msg_iov, msg->iov_count);
	if (!(flags & FI_INJECT))
		core_mem_take(domain, msg->msg_iov, msg->iov_count, msg->desc, send->mr);
	for (size_t i = 0; i < msg->iov_count; i++)
		send->len += msg->msg_iov[i].iov_len;
	if (domain->model->nic && !send->len && send->count && gpu_has(send->iov[0].iov_base))
		world_fail("n%u: the core crashes at no bytes of a device's memory",
			   domain->node);
	send->kind = kind;
	send->remotes = msg->rma_iov_count;
	memcpy(send->remote, msg->rma_iov, msg->rma_iov_count * sizeof *msg->rma_iov);
	send->flags = flags;
	send->context = msg->context;
	send->tells = tells;
	return core_post_send(ep_of(fid), send, msg->addr);
}

static ssize_t ep_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return do_rma(fid, msg, flags, SEND_READ, true);
}

static ssize_t ep_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return do_rma(fid, msg, flags, SEND_WRITE, true);
}

static ssize_t ep_one(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t addr,
		      uint64_t remote, uint64_t key, void *context, uint64_t flags,
		      enum send_kind kind)
{
	const struct iovec iov = {buf, len};
	const struct fi_rma_iov place = {.addr = remote, .len = len, .key = key};
	const struct fi_msg_rma msg = {.msg_iov = &iov,
				       .desc = &desc,
				       .iov_count = 1,
				       .addr = addr,
				       .rma_iov = &place,
				       .rma_iov_count = 1,
				       .context = context};

	return do_rma(fid, &msg, flags, kind, !(flags & FI_INJECT));
}

static ssize_t ep_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t addr,
		       uint64_t remote, uint64_t key, void *context)
{
	return ep_one(fid, buf, len, desc, addr, remote, key, context, 0, SEND_READ);
}

static ssize_t ep_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			fi_addr_t addr, uint64_t remote, uint64_t key, void *context)
{
	return ep_one(fid, (void *) buf, len, desc, addr, remote, key, context, 0, SEND_WRITE);
}

static ssize_t ep_inject_write(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t addr,
			       uint64_t remote, uint64_t key)
{
	return ep_one(fid, (void *) buf, len, NULL, addr, remote, key, NULL, FI_INJECT,
		      SEND_WRITE);
}

static struct fi_ops_msg msg_ops = {.size = sizeof msg_ops,
				    .recvmsg = ep_recvmsg,
				    .send = ep_send,
				    .sendmsg = ep_sendmsg,
				    .inject = ep_inject,
				    .injectdata = ep_injectdata};
static struct fi_ops_tagged tagged_ops = {.size = sizeof tagged_ops,
					  .recv = ep_trecv,
					  .recvmsg = ep_trecvmsg,
					  .send = ep_tsend,
					  .sendmsg = ep_tsendmsg,
					  .inject = ep_tinject,
					  .injectdata = ep_tinjectdata};
static struct fi_ops_rma rma_ops = {.size = sizeof rma_ops,
				    .read = ep_read,
				    .readmsg = ep_readmsg,
				    .write = ep_write,
				    .writemsg = ep_writemsg,
				    .inject = ep_inject_write};

/* ---- endpoints ---- */

static ssize_t ep_cancel(fid_t fid, void *context)
{
	return core_wire_cancel(container_of(fid, struct core_ep, fid.fid), context)
		       ? 0
		       : -FI_ENOENT;
}

static int ep_option(fid_t fid, int level, int name, const void *value, size_t len)
{
	if (name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	memcpy(&container_of(fid, struct core_ep, fid.fid)->least, value, sizeof(size_t));
	return 0;
}

static int ep_option_get(fid_t fid, int level, int name, void *value, size_t *len)
{
	if (name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	memcpy(value, &container_of(fid, struct core_ep, fid.fid)->least, sizeof(size_t));
	return 0;
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
	const struct core_ep *ep = container_of(fid, struct core_ep, fid.fid);
	char text[64];
	const size_t size = name_put(ep->name, text), room = *len;

	memcpy(addr, text, room < size ? room : size);
	*len = size;
	return room < size ? -FI_ETOOSMALL : 0;
}

/* The memory stays: others may have something under way with it */
static int ep_close(struct fid *fid)
{
	struct core_ep *ep = container_of(fid, struct core_ep, fid.fid);

	core_asked();
	core_wire_close(ep, false);
	ep->closed = true;
	ep->domain->open--;
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct core_ep *ep = container_of(fid, struct core_ep, fid.fid);

	if (other->fclass == FI_CLASS_AV)
		ep->av = container_of(other, struct core_av, fid.fid);
	if (other->fclass == FI_CLASS_CQ && flags & FI_TRANSMIT)
		ep->txcq = container_of(other, struct core_cq, fid.fid);
	if (other->fclass == FI_CLASS_CQ && flags & FI_RECV)
		ep->rxcq = container_of(other, struct core_cq, fid.fid);
	if (other->fclass == FI_CLASS_CNTR)
		core_cntr_bind(ep, other, flags);
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct core_ep *ep = container_of(fid, struct core_ep, fid.fid);

	if (command != FI_ENABLE)
		return 0;
	if (!ep->av || !ep->txcq || !ep->rxcq)
		world_fail("n%u: an endpoint is enabled too early", ep->name.node);
	ep->enabled = true;
	return 0;
}

static struct fi_ops ep_fi_ops = {.size = sizeof ep_fi_ops,
				  .close = ep_close,
				  .bind = ep_bind,
				  .control = ep_control};
static struct fi_ops_ep ep_ops = {.size = sizeof ep_ops,
				  .cancel = ep_cancel,
				  .getopt = ep_option_get,
				  .setopt = ep_option};
static struct fi_ops_cm cm_ops = {.size = sizeof cm_ops, .getname = ep_getname};

/* An endpoint whose address has no port gets one that nobody has */
static unsigned int ep_port(const struct fi_info *info)
{
	static unsigned int last = 2 * CORE_PORT;
	struct core_name name = {0, 0};

	return info->src_addr && name_get(info->src_addr, &name) ? name.port : ++last;
}

static int ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **to,
		   void *context)
{
	struct core_ep *ep = calloc(1, sizeof *ep);

	ep->domain = container_of(fid, struct core_domain, fid);
	ep->domain->open++;
	ep->model = ep->domain->model;
	ep->lane = ep->domain->lane;
	ep->alive = true;
	ep->name = (struct core_name){ep->domain->node, ep_port(info)};
	ep->life = nodes[ep->name.node].life;
	ep->directs = info->caps & FI_DIRECTED_RECV;
	TAILQ_INIT(&ep->recvs);
	TAILQ_INIT(&ep->saved);
	LIST_INIT(&ep->conns);
	ep->fid = (struct fid_ep){.fid = {.fclass = FI_CLASS_EP,
					  .context = context,
					  .ops = &ep_fi_ops},
				  .ops = &ep_ops,
				  .cm = &cm_ops,
				  .msg = &msg_ops,
				  .tagged = &tagged_ops,
				  .rma = &rma_ops,
				  .atomic = &core_atomic_ops};
	TAILQ_INSERT_TAIL(&core_eps, ep, link);
	*to = &ep->fid;
	return 0;
}

/* ---- domains and fabrics ---- */

static unsigned int left[SIM_NODES];

static int domain_close(struct fid *fid)
{
	struct core_domain *domain = container_of(fid, struct core_domain, fid.fid);

	core_asked();
	if (domain->open)
		return -FI_EBUSY;
	left[domain->node]--;
	free(domain);
	return 0;
}

static struct fi_ops domain_fi_ops = {.size = sizeof domain_fi_ops, .close = domain_close};
static struct fi_ops_domain domain_ops = {.size = sizeof domain_ops,
					  .av_open = av_open,
					  .cq_open = core_cq_open,
					  .endpoint = ep_open,
					  .cntr_open = core_cntr_open,
					  .query_atomic = core_query_atomic};

struct core_fabric {
	struct fid_fabric fid;
	const struct model *model;
	unsigned int node;
	bool lane;
};

static int domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **to,
		       void *context)
{
	const struct core_fabric *fabric = container_of(fid, struct core_fabric, fid);
	struct core_domain *domain = calloc(1, sizeof *domain);

	if (info->domain_attr->data_progress == FI_PROGRESS_AUTO)
		world_fail(
			"n%u: the core is to make progress by a thread, and would lose messages",
			fabric->node);
	domain->node = fabric->node;
	domain->model = fabric->model;
	domain->lane = fabric->lane;
	domain->safe = info->domain_attr->threading != FI_THREAD_DOMAIN;
	domain->random_keys = info->domain_attr->mr_mode & FI_MR_PROV_KEY;
	domain->virt_addr = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	domain->local = domain->model->nic && info->domain_attr->mr_mode & FI_MR_LOCAL;
	LIST_INIT(&domain->mrs);
	TAILQ_INIT(&domain->out);
	TAILQ_INIT(&domain->in);
	domain->fid = (struct fid_domain){.fid = {.fclass = FI_CLASS_DOMAIN,
						  .context = context,
						  .ops = &domain_fi_ops},
					  .ops = &domain_ops,
					  .mr = &core_mr_ops};
	left[domain->node]++;
	*to = &domain->fid;
	return 0;
}

static int fabric_close(struct fid *fid)
{
	core_asked();
	free(container_of(fid, struct core_fabric, fid.fid));
	return 0;
}

static struct fi_ops fabric_fi_ops = {.size = sizeof fabric_fi_ops, .close = fabric_close};

/* A wait set: the provider above has its own, and asks for one only to know whether there may be any */
static int set_close(struct fid *fid)
{
	core_asked();
	free(container_of(fid, struct fid_wait, fid));
	return 0;
}

static struct fi_ops set_fi_ops = {.size = sizeof set_fi_ops, .close = set_close};

static int set_open(struct fid_fabric *fid, struct fi_wait_attr *attr, struct fid_wait **to)
{
	*to = calloc(1, sizeof **to);
	(*to)->fid = (struct fid){.fclass = FI_CLASS_WAIT, .ops = &set_fi_ops};
	return 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof fabric_ops,
					  .domain = domain_open,
					  .wait_open = set_open,
					  .trywait = core_trywait};

struct fid_fabric *core_fabric(unsigned int node, const struct model *model)
{
	struct core_fabric *fabric = calloc(1, sizeof *fabric);

	fabric->node = node;
	fabric->model = model ? model : world.script->model;
	fabric->lane = model;
	fabric->fid =
		(struct fid_fabric){.fid = {.fclass = FI_CLASS_FABRIC, .ops = &fabric_fi_ops},
				    .ops = &fabric_ops,
				    .api_version = FI_VERSION(1, 17)};
	return &fabric->fid;
}

void core_forget(unsigned int node)
{
	left[node] = 0;
	core_mem_forget(node);
}

const char *core_left(unsigned int node)
{
	return left[node] ? "a domain of the core's" : NULL;
}

#define CORE_CAPS                                                                              \
	(FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE |                \
	 FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)

struct fi_info *core_info(unsigned int node, const struct model *model)
{
	struct fi_info *info = fi_allocinfo();
	char name[64];

	info->caps = CORE_CAPS | (model->directs ? FI_DIRECTED_RECV : 0) |
		     (model->multi ? FI_MULTI_RECV : 0) | (model->atomics ? FI_ATOMIC : 0);
	info->tx_attr->caps = info->rx_attr->caps = info->caps;
	info->src_addrlen = core_name(node, CORE_PORT, name);
	info->src_addr = malloc(sizeof name);
	memcpy(info->src_addr, name, info->src_addrlen);
	info->addr_format = model->strings ? FI_ADDR_STR : FI_SOCKADDR_IN;
	info->fabric_attr->prov_name = strdup(model->provider);
	info->fabric_attr->name = strdup("sim");
	info->domain_attr->name = strdup("sim");
	info->domain_attr->threading = FI_THREAD_SAFE;
	info->domain_attr->control_progress = info->domain_attr->data_progress =
		FI_PROGRESS_MANUAL;
	info->domain_attr->av_type = FI_AV_TABLE;
	info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	/* of verbs; ofi_rxm carries 8 bytes of data in messages all the same */
	info->domain_attr->mr_key_size = info->domain_attr->cq_data_size = model->nic ? 4 : 8;
	info->ep_attr->type = FI_EP_RDM;
	info->ep_attr->max_msg_size = SIZE_MAX;
	info->ep_attr->mem_tag_format = 0xaaaaaaaaaaaaaaaaULL >> model->claims;
	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
	info->tx_attr->size = model->queue;
	info->rx_attr->size = 4 * model->queue;
	info->tx_attr->inject_size = 4096;
	info->tx_attr->iov_limit = info->rx_attr->iov_limit = info->tx_attr->rma_iov_limit = 4;
	info->tx_attr->msg_order = info->rx_attr->msg_order = FI_ORDER_SAS;
	return info;
}
