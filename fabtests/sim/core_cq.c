/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The simulated core provider's completion queues, and how to sleep on one. See core.h.
 *
 * A queue's descriptor is readable while the queue has a completion, or its next read would move something on: where a
 * real core has bytes in a socket. A signal makes it readable, too. Some take that back at a read.
 */
#include "core.h"
#include "fiber.h"
#include "gate.h"

#include "base/base.h"

#include <poll.h>
#include <rdma/fi_eq.h>

static struct core_cq *cq_of(struct fid_cq *fid)
{
	return container_of(fid, struct core_cq, fid);
}

static bool cq_has_ep(const struct core_ep *ep, const void *cq)
{
	return ep->txcq == cq || ep->rxcq == cq;
}

static int cq_close(struct fid *fid)
{
	struct core_cq *cq = container_of(fid, struct core_cq, fid.fid);
	struct core_done *comp;
	struct core_ep *ep;

	core_asked();
	TAILQ_FOREACH(ep, &core_eps, link) {
		ep->txcq = ep->txcq == cq ? NULL : ep->txcq;
		ep->rxcq = ep->rxcq == cq ? NULL : ep->rxcq;
	}
	while ((comp = TAILQ_FIRST(&cq->comps))) {
		TAILQ_REMOVE(&cq->comps, comp, link);
		free(comp);
	}
	if (cq->fd >= 0)
		sim_close(cq->fd);
	cq->domain->open--;
	free(cq);
	return 0;
}

/* ---- reading ---- */

/* Has the same buffer a message of no bytes, of which nobody has been told yet? */
static bool cq_has_empty(const struct core_cq *cq, const struct core_done *comp)
{
	const struct core_done *other;
	bool has = false;

	TAILQ_FOREACH(other, &cq->comps, link)
		has |= other != comp && !other->entry.len &&
		       other->entry.op_context == comp->entry.op_context;
	return has;
}

/*
 * A buffer for many is given back last, by itself, or with the message that fills it up. The hook does not see to that:
 * the application has the core's own completions. The provider counts bytes; what has none ends when the core finds its
 * buffer, and so before what fills that up.
 */
static bool cq_is_last(const struct core_cq *cq, const struct core_done *comp)
{
	return comp->entry.flags & FI_MULTI_RECV &&
	       (!(comp->entry.flags & FI_RECV) || nodes[cq->domain->node].hook ||
		cq_has_empty(cq, comp));
}

/* Where completions are shuffled, one of the first few that are no errors, else the first */
static struct core_done *cq_next(struct core_cq *cq)
{
	struct core_done *comp = TAILQ_FIRST(&cq->comps), *other = comp;

	if (!comp || !world.script->shuffled)
		return comp;
	for (uint64_t skip = world_upto(4); skip && other; skip--) {
		other = TAILQ_NEXT(other, link);
		if (other && !other->err && !cq_is_last(cq, other))
			comp = other;
	}
	return comp;
}

static ssize_t cq_take(struct core_cq *cq, struct fi_cq_tagged_entry *entries, size_t count,
		       fi_addr_t *src)
{
	struct core_done *comp;
	const struct core_ep *ep;
	size_t read = 0;

	TAILQ_FOREACH(ep, &core_eps, link) {
		/* without the provider an application of two threads has to see to that itself */
		if (cq->domain->model->unready && ep->alive && !ep->enabled &&
		    cq_has_ep(ep, cq) && !nodes[cq->domain->node].plain)
			world_fail("n%u: the core crashes at a read, as an endpoint of the "
				   "queue is not enabled",
				   cq->domain->node);
	}
	core_wire_progress(cq->domain);
	while (read < count && (comp = cq_next(cq))) {
		if (comp->err)
			return read ? (ssize_t) read : -FI_EAVAIL;
		entries[read] = comp->entry;
		if (src)
			src[read] = comp->src;
		read++;
		TAILQ_REMOVE(&cq->comps, comp, link);
		free(comp);
	}
	if (!count && !TAILQ_EMPTY(&cq->comps))
		return 0;
	return read ? (ssize_t) read : -FI_EAGAIN;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct core_cq *cq = cq_of(fid);
	ssize_t ret;

	core_call_begin(cq->domain, CALL_READS);
	ret = cq_take(cq, buf, count, src);
	if (ret == -FI_EAGAIN && cq->domain->model->hushes)
		cq->signalled = false;
	core_call_end(cq->domain);
	return ret;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct core_cq *cq = cq_of(fid);
	struct core_done *comp;

	TAILQ_FOREACH(comp, &cq->comps, link) {
		if (comp->err)
			break;
	}
	if (!comp)
		return -FI_EAGAIN;
	buf->op_context = comp->entry.op_context;
	buf->flags = comp->entry.flags;
	buf->len = comp->entry.len;
	buf->buf = NULL;
	buf->data = comp->entry.data;
	buf->tag = comp->entry.tag;
	buf->olen = comp->olen;
	buf->err = comp->err;
	buf->prov_errno = comp->err;
	buf->err_data_size = 0;
	TAILQ_REMOVE(&cq->comps, comp, link);
	free(comp);
	return 1;
}

static const char *cq_strerror(struct fid_cq *fid, int err, const void *data, char *buf,
			       size_t len)
{
	return fi_strerror(err);
}

/* ---- sleeping ---- */

/* Is there something, or would a read find something? */
static bool cq_ready(const void *what)
{
	const struct core_cq *cq = what;

	return cq->signalled || !TAILQ_EMPTY(&cq->comps) ||
	       core_wire_pends(cq->domain, cq_has_ep, cq);
}

/* Some descriptors stay readable once there was something, until a read that waits (QUIRK_READABLE) */
static bool cq_readable(void *of)
{
	struct core_cq *cq = of;

	cq->stuck |= cq->domain->model->sticks && cq_ready(cq);
	return cq->stuck || cq_ready(cq);
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
			    const void *cond, int timeout)
{
	const uint64_t until = gate_until(timeout);
	struct core_cq *cq = cq_of(fid);
	bool signalled;
	ssize_t ret;

	if (cq->wait_obj == FI_WAIT_NONE)
		return -FI_ENOSYS;
	do {
		signalled = cq->signalled;
		ret = cq_readfrom(fid, buf, count, src);
		cq->stuck = false;
		/* another thread may be asleep there, and a signal come at any time: it wakes one */
		signalled = ret == -FI_EAGAIN && (signalled || cq->signalled);
		if (signalled)
			cq->signalled = false;
		if (ret != -FI_EAGAIN || signalled)
			return ret;
	} while (fiber_wait(cq_ready, cq, until));
	return -FI_EAGAIN;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond,
			int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct core_cq *cq = cq_of(fid);

	if (cq->wait_obj == FI_WAIT_NONE)
		return -FI_ENOSYS;
	cq->signalled = true;
	world.moved = true;
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	const struct core_cq *cq = container_of(fid, struct core_cq, fid.fid);

	if (command != FI_GETWAIT || cq->fd < 0)
		return -FI_ENOSYS;
	*(int *) arg = cq->fd;
	return 0;
}

/* It may sleep: then nothing is there, and what comes makes the descriptor readable */
static int cq_trywait(struct core_cq *cq)
{
	const struct core_ep *ep;

	TAILQ_FOREACH(ep, &core_eps, link) {
		if (cq->domain->model->litters && !nodes[cq->domain->node].plain &&
		    ep->closed && cq_has_ep(ep, cq))
			world_fail("n%u: the core crashes in fi_trywait(), as its queue had a "
				   "closed endpoint",
				   cq->domain->node);
	}
	if (cq->domain->model->sticks)
		return 0;
	cq->signalled = false;
	return cq_ready(cq) ? -FI_EAGAIN : 0;
}

int core_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	int ret = 0;

	for (int i = 0; i < count && !ret; i++) {
		if (fids[i]->fclass != FI_CLASS_CQ)
			world_fail("n%u: fi_trywait() of what is no queue", world.current);
		ret = cq_trywait(container_of(fids[i], struct core_cq, fid.fid));
	}
	return ret;
}

/* ---- open ---- */

static struct fi_ops cq_fi_ops = {.size = sizeof cq_fi_ops,
				  .close = cq_close,
				  .control = cq_control};
static struct fi_ops_cq cq_ops = {.size = sizeof cq_ops,
				  .read = cq_read,
				  .readfrom = cq_readfrom,
				  .readerr = cq_readerr,
				  .sread = cq_sread,
				  .sreadfrom = cq_sreadfrom,
				  .signal = cq_signal,
				  .strerror = cq_strerror};

int core_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **to,
		 void *context)
{
	struct core_domain *domain = container_of(fid, struct core_domain, fid);
	const bool wants_fd = attr->wait_obj == FI_WAIT_FD;
	struct core_cq *cq;

	if (attr->format != FI_CQ_FORMAT_TAGGED)
		world_fail("a queue without tags");
	if (attr->wait_obj == FI_WAIT_SET || attr->wait_obj == FI_WAIT_MUTEX_COND)
		world_fail("a wait object that the simulated core does not have");
	/* they do without: fi_cq_sread() alone works */
	if (wants_fd && !domain->model->waits)
		return -FI_ENOSYS;
	cq = calloc(1, sizeof *cq);
	*cq = (struct core_cq){.domain = domain, .wait_obj = attr->wait_obj, .fd = -1};
	TAILQ_INIT(&cq->comps);
	cq->fid = (struct fid_cq){.fid = {.fclass = FI_CLASS_CQ,
					  .context = context,
					  .ops = &cq_fi_ops},
				  .ops = &cq_ops};
	if (wants_fd) {
		cq->fd = gate_core_fd(cq_readable, cq);
		if (cq->fd < 0) {
			free(cq);
			return -FI_EMFILE;
		}
	}
	domain->open++;
	*to = &cq->fid;
	return 0;
}
