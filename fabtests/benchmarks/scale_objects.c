/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What one more object costs. Of each kind there are 1, 10, 100 and 1,000, which stay open until the last is there. A row has
 * what those of one step took, divided by their number. Rank 0 does that, the others nothing.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "scale.h"

#define MOST 1000
#define MOST_QUICK 10
#define REGION 4096
#define LONGEST_US 20e6 /* a step that would take longer is left out */

/** struct objects - @made: those of the kind that is measured; @next: which one comes */
struct objects {
	struct ft_ctx ctx;
	struct ft_buf host, device;
	struct ft_name name;
	struct fid *made[MOST];
	fi_addr_t addrs[MOST];
	int next;
};

/* ---- one of each kind ---- */

static int domain_make(struct objects *o, struct fid **fid)
{
	struct fid_domain *domain;
	const int ret = fi_domain(o->ctx.fabric, o->ctx.info, &domain, NULL);

	*fid = ret ? NULL : &domain->fid;
	return ret;
}

static int endpoint_make(struct objects *o, struct fid **fid)
{
	struct fid_ep *ep;
	int ret = fi_endpoint(o->ctx.domain, o->ctx.info, &ep, NULL);

	if (ret)
		return ret;
	*fid = &ep->fid;
	ret = fi_ep_bind(ep, &o->ctx.av->fid, 0);
	ret = ret ? ret : fi_ep_bind(ep, &o->ctx.cq->fid, FI_TRANSMIT | FI_RECV);
	return ret ? ret : fi_enable(ep);
}

static int cq_make(struct objects *o, struct fid **fid)
{
	struct fid_cq *cq;
	const int ret = fi_cq_open(o->ctx.domain, &o->ctx.cq_attr, &cq, NULL);

	*fid = ret ? NULL : &cq->fid;
	return ret;
}

static int cntr_make(struct objects *o, struct fid **fid)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr;
	const int ret = fi_cntr_open(o->ctx.domain, &attr, &cntr, NULL);

	*fid = ret ? NULL : &cntr->fid;
	return ret;
}

static int av_make(struct objects *o, struct fid **fid)
{
	struct fi_av_attr attr = {.type = o->ctx.info->domain_attr->av_type};
	struct fid_av *av;
	const int ret = fi_av_open(o->ctx.domain, &attr, &av, NULL);

	*fid = ret ? NULL : &av->fid;
	return ret;
}

static int region_make(struct objects *o, const struct ft_buf *buf, struct fid **fid)
{
	const struct iovec iov = {buf->addr + (size_t) o->next * REGION, REGION};
	union {
		struct fi_mr_attr attr;
		char room[sizeof(struct fi_mr_attr) + 256]; /* newer ones are longer */
	} mr = {.room = {0}};
	struct fid_mr *fid_mr;
	int ret;

	mr.attr.mr_iov = &iov;
	mr.attr.iov_count = 1;
	mr.attr.access = FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
	mr.attr.requested_key = (uint64_t) (MOST + o->next);
	if (buf->ops->iface != FI_HMEM_SYSTEM) {
		mr.attr.iface = buf->ops->iface;
		mr.attr.device.reserved = (uint64_t) o->ctx.opts->device;
	}
	ret = fi_mr_regattr(o->ctx.domain, &mr.attr, 0, &fid_mr);
	*fid = ret ? NULL : &fid_mr->fid;
	return ret;
}

static int host_region_make(struct objects *o, struct fid **fid)
{
	return region_make(o, &o->host, fid);
}

static int device_region_make(struct objects *o, struct fid **fid)
{
	return region_make(o, &o->device, fid);
}

/* A host that there is not: nothing is sent to it */
static int address_make(struct objects *o, struct fid **fid)
{
	struct sockaddr_in in;
	int ret;

	memcpy(&in, o->name.bytes, sizeof(in));
	in.sin_addr.s_addr = htonl(0x0a630001 + (uint32_t) o->next);
	ret = fi_av_insert(o->ctx.av, &in, 1, &o->addrs[o->next], 0, NULL);
	return ret == 1 ? 0 : -FI_EADDRNOTAVAIL;
}

/* ---- steps ---- */

static const struct kind {
	const char *name;
	int (*make)(struct objects *o, struct fid **fid);
} kinds[] = {
	{"domain", domain_make},
	{"endpoint", endpoint_make},
	{"completion queue", cq_make},
	{"counter", cntr_make},
	{"address vector", av_make},
	{"address", address_make},
	{"region of host memory", host_region_make},
	{"region of device memory", device_region_make},
};

static bool is_offered(const struct objects *o, const struct kind *kind)
{
	if (kind->make == address_make)
		return o->ctx.info->addr_format == FI_SOCKADDR_IN;
	return kind->make != device_region_make || o->device.addr;
}

static size_t memory_available(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	size_t kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib << 10;
}

static bool has_room(size_t descriptors)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_NOFILE, &limit) && descriptors < limit.rlim_cur / 2;
}

/** struct step - what one object of a step took */
struct step {
	double usec, own, descriptors, threads;
};

static int take_step(struct objects *o, const struct kind *kind, int until, struct step *step)
{
	const int count = until - o->next;
	struct ft_usage before, after;
	double began;

	FT_TRY(ft_usage_read(&before));
	began = ft_usec();
	for (; o->next < until; o->next++) {
		const int ret = kind->make(o, &o->made[o->next]);

		if (ret)
			return ft_fail(ret, kind->name, "number %d", o->next + 1);
	}
	step->usec = (ft_usec() - began) / count;
	FT_TRY(ft_usage_read(&after));
	step->own = ((double) after.own - (double) before.own) / count;
	step->descriptors = ((double) after.descriptors - (double) before.descriptors) / count;
	step->threads = ((double) after.threads - (double) before.threads) / count;
	ft_progress_note();
	return 0;
}

/* Would as many more of the last step's kind be too much for this machine? */
static bool is_too_much(const struct step *last, int more)
{
	return last->usec * more > LONGEST_US ||
	       last->own * more > (double) memory_available() / 2 ||
	       !has_room((size_t) (FT_MAX(last->descriptors, 0) * more));
}

static int undo(struct objects *o, const struct kind *kind)
{
	while (o->next--) {
		const int ret = kind->make == address_make
					? fi_av_remove(o->ctx.av, &o->addrs[o->next], 1, 0)
					: fi_close(o->made[o->next]);

		if (ret)
			return ft_fail(ret, "closing", "a %s", kind->name);
	}
	o->next = 0;
	return 0;
}

static int measure(struct objects *o, const struct kind *kind)
{
	const int most = o->ctx.opts->quick ? MOST_QUICK : MOST;
	struct step step = {.usec = 0};

	for (int until = 1; until <= most; until *= 10) {
		if (is_too_much(&step, until - o->next))
			break;
		FT_TRY(take_step(o, kind, until, &step));
		printf("{\"test\": \"object\", \"provider\": \"%s\", \"kind\": \"%s\", \"count\": %d, "
		       "\"us\": %.2f, \"own\": %.0f, \"descriptors\": %.2f, \"threads\": %.2f}\n",
		       o->ctx.opts->prov, kind->name, until, step.usec, step.own,
		       step.descriptors, step.threads);
	}
	return undo(o, kind);
}

int scale_objects(struct ft_proc *proc)
{
	static struct objects o;
	struct rlimit limit;

	if (proc->rank)
		return 0;
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	FT_TRY(ft_mem_ops(proc->opts.iface)->init(proc->opts.device));
	FT_TRY(ft_hints(&o.ctx, &proc->opts));
	o.ctx.hints->caps |= FI_RMA;
	FT_TRY(ft_getinfo(&o.ctx, proc->opts.src_addr, NULL,
			  proc->opts.src_addr ? FI_SOURCE : 0));
	FT_TRY(ft_open(&o.ctx));
	FT_TRY(ft_getname(&o.ctx, &o.name));
	FT_TRY(ft_buf_alloc(&o.ctx, &o.host, FI_HMEM_SYSTEM, (size_t) MOST * REGION));
	if (proc->opts.iface != FI_HMEM_SYSTEM)
		FT_TRY(ft_buf_alloc(&o.ctx, &o.device, proc->opts.iface,
				    (size_t) MOST * REGION));
	for (size_t i = 0; i < FT_COUNT(kinds); i++)
		if (is_offered(&o, &kinds[i]))
			FT_TRY(measure(&o, &kinds[i]));
	ft_buf_free(&o.host);
	ft_buf_free(&o.device);
	return ft_close(&o.ctx);
}
