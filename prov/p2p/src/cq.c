/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 5: completion queues. See cq.h.
 *
 * As long as no transfer of ours is under way, a read is the core's read, with a look at
 * each entry. Otherwise all of the domain's queues are drained into reports first, so that
 * transfers advance whichever queue the application reads.
 */
#include "cq.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rdma/fi_errno.h>

#include "av.h"
#include "log.h"

/* Entries read at once when the application's format is not the core's */
#define CQ_BATCH 16

/* Completions of our own that the core's queue has to hold besides the application's */
#define CQ_RESERVE 128

/* How long a waiting read sleeps while transfers need other queues read, too [ms] */
#define CQ_WAIT_SLICE 1

static void cq_entry_put(const struct p2p_cq *cq, void *buf, size_t index,
			 const struct fi_cq_tagged_entry *entry)
{
	/* each format is the beginning of the next */
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};
	size_t size = sizes[cq->format];

	memmove((char *) buf + index * size, entry, size);
}

/* ---- reports ---- */

static ssize_t cq_read_reports(struct p2p_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	struct fi_cq_tagged_entry entry;
	struct core_comp comp;
	ssize_t read = 0;
	int ret = 0;

	if (!count)
		return __atomic_load_n(&cq->xfer.count, __ATOMIC_RELAXED) ? 0 : -FI_EAGAIN;
	while (read < (ssize_t) count) {
		ret = xfer_cq_next(&cq->xfer, false, &comp);
		if (ret != 1)
			break;
		entry = (struct fi_cq_tagged_entry){
			.op_context = comp.context,
			.flags = comp.flags,
			.len = comp.len,
			.buf = comp.buf,
			.data = comp.data,
			.tag = comp.tag,
		};
		cq_entry_put(cq, buf, read, &entry);
		if (src)
			src[read] = av_user_addr(cq->av, comp.src);
		read++;
	}
	if (read)
		return read;
	if (ret < 0)
		return ret;
	return __atomic_load_n(&cq->xfer.count, __ATOMIC_RELAXED) ? -FI_EAVAIL : -FI_EAGAIN;
}

/* ---- the core's queue ---- */

/* fi_cq_read and its three relatives; @timeout 0: does not wait */
static ssize_t cq_core_read(struct p2p_cq *cq, struct fi_cq_tagged_entry *entries,
			    size_t count, fi_addr_t *src, int timeout)
{
	struct fid_cq *core = cq->xfer.core;

	if (cq->xfer.source)
		return timeout ? fi_cq_sreadfrom(core, entries, count, src, NULL, timeout)
			       : fi_cq_readfrom(core, entries, count, src);
	return timeout ? fi_cq_sread(core, entries, count, NULL, timeout)
		       : fi_cq_read(core, entries, count);
}

/* Deals with what is not the application's among @read entries; how many are left */
static ssize_t cq_filter(struct p2p_cq *cq, struct fi_cq_tagged_entry *entries,
			 fi_addr_t *src, ssize_t read)
{
	struct core_comp comp;
	ssize_t kept = 0;

	for (ssize_t i = 0; i < read; i++) {
		fi_addr_t from = cq->xfer.source ? src[i] : FI_ADDR_NOTAVAIL;

		if (p2p_unlikely(xfer_concerned(&cq->xfer, entries[i].op_context,
						entries[i].flags, entries[i].data))) {
			core_comp_from_entry(&entries[i], from, &comp);
			if (xfer_take(&cq->xfer, &comp))
				continue;
		}
		if (kept != i)
			entries[kept] = entries[i];
		if (cq->xfer.source)
			src[kept] = av_user_addr(cq->av, from);
		kept++;
	}
	return kept;
}

static ssize_t cq_read_core(struct p2p_cq *cq, void *buf, size_t count, fi_addr_t *src,
			    int timeout)
{
	bool direct = cq->format == FI_CQ_FORMAT_TAGGED && (src || !cq->xfer.source);
	struct fi_cq_tagged_entry batch[CQ_BATCH], *entries = direct ? buf : batch;
	fi_addr_t batch_src[CQ_BATCH], *from = direct ? src : batch_src;
	ssize_t ret;

	if (!direct)
		count = P2P_MIN(count, CQ_BATCH);
	ret = cq_core_read(cq, entries, count, from, timeout);
	if (p2p_unlikely(ret == -FI_EAVAIL)) {
		xfer_progress(cq->xfer.xfer);
		return cq_read_reports(cq, buf, count, src);
	}
	if (ret <= 0)
		return ret;
	ret = cq_filter(cq, entries, from, ret);
	for (ssize_t i = 0; i < ret && !direct; i++) {
		cq_entry_put(cq, buf, i, &entries[i]);
		if (src && cq->xfer.source)
			src[i] = from[i];
	}
	for (ssize_t i = 0; i < ret && src && !cq->xfer.source; i++)
		src[i] = FI_ADDR_NOTAVAIL;
	if (ret)
		return ret;
	/* what was taken may have ended something */
	return cq_read_reports(cq, buf, count, src);
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct p2p_cq *cq = (struct p2p_cq *) fid;

	if (p2p_unlikely(!buf && count)) {
		P2P_WARN("fi_cq_read of %zu entries without a buffer\n", count);
		return -FI_EINVAL;
	}
	if (xfer_busy(cq->xfer.xfer)) {
		xfer_progress(cq->xfer.xfer);
		return cq_read_reports(cq, buf, count, src);
	}
	if (__atomic_load_n(&cq->xfer.count, __ATOMIC_RELAXED))
		return cq_read_reports(cq, buf, count, src);
	if (!count)
		return fi_cq_read(cq->xfer.core, NULL, 0);
	return cq_read_core(cq, buf, count, src, 0);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

/* ---- waiting ---- */

static int64_t cq_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
			    const void *cond, int timeout)
{
	struct p2p_cq *cq = (struct p2p_cq *) fid;
	int64_t end = timeout < 0 ? INT64_MAX : cq_now_ms() + timeout;
	int64_t left, now;
	ssize_t ret;

	for (;;) {
		ret = cq_readfrom(fid, buf, count, src);
		if (ret != -FI_EAGAIN)
			return ret;
		now = cq_now_ms();
		if (now >= end)
			return -FI_EAGAIN;
		if (__atomic_load_n(&cq->xfer.xfer->copies.pending, __ATOMIC_RELAXED)) {
			/* no file descriptor tells of a copy's end */
			sched_yield();
			continue;
		}
		left = timeout < 0 ? -1 : end - now;
		if (xfer_busy(cq->xfer.xfer))
			left = CQ_WAIT_SLICE;
		ret = cq_read_core(cq, buf, count, src, (int) left);
		/* -FI_ECANCELED, -FI_EINTR: fi_cq_signal() or a signal */
		if (ret != -FI_EAGAIN)
			return ret;
	}
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond,
			int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

bool cq_has_work(const struct fid *fid)
{
	const struct p2p_cq *cq = (const struct p2p_cq *) fid;

	return __atomic_load_n(&cq->xfer.count, __ATOMIC_RELAXED) ||
	       xfer_busy(cq->xfer.xfer);
}

static int cq_signal(struct fid_cq *fid)
{
	return fi_cq_signal(((struct p2p_cq *) fid)->xfer.core);
}

/* ---- errors ---- */

static void cq_err_data_put(struct p2p_cq *cq, const struct core_comp *comp,
			    struct fi_cq_err_entry *buf)
{
	/* the application's buffer, as API 1.5 and later have it; else ours, until next time */
	if (buf->err_data && buf->err_data_size) {
		buf->err_data_size = P2P_MIN(buf->err_data_size, comp->err_data_size);
		memcpy(buf->err_data, comp->err_data, buf->err_data_size);
		free(comp->err_data);
		return;
	}
	free(cq->err_data);
	cq->err_data = comp->err_data;
	buf->err_data = comp->err_data;
	buf->err_data_size = comp->err_data_size;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct p2p_cq *cq = (struct p2p_cq *) fid;
	struct core_comp comp;

	if (!buf)
		return -FI_EINVAL;
	if (xfer_cq_next(&cq->xfer, true, &comp) != 1)
		return -FI_EAGAIN;
	buf->op_context = comp.context;
	buf->flags = comp.flags;
	buf->len = comp.len;
	buf->buf = comp.buf;
	buf->data = comp.data;
	buf->tag = comp.tag;
	buf->olen = comp.olen;
	buf->err = comp.err;
	buf->prov_errno = comp.prov_errno;
	cq_err_data_put(cq, &comp, buf);
	return 1;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data,
			       char *buf, size_t len)
{
	return fi_cq_strerror(((struct p2p_cq *) fid)->xfer.core, prov_errno, err_data, buf,
			      len);
}

/* ---- open and close ---- */

static int cq_close(struct fid *fid)
{
	struct p2p_cq *cq = (struct p2p_cq *) fid;
	int ret = xfer_cq_fini(&cq->xfer);

	if (ret)
		return ret;
	free(cq->err_data);
	free(cq);
	return 0;
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = fid_no_bind,
	.control = fid_control,
	.ops_open = fid_ops_open,
};

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

int cq_open(struct fid_domain *domain_fid, struct fi_cq_attr *attr, struct fid_cq **cq_fid,
	    void *context)
{
	struct p2p_domain *domain = (struct p2p_domain *) domain_fid;
	struct fi_cq_attr core_attr;
	struct p2p_cq *cq;
	int ret;

	if (!cq_fid)
		return -FI_EINVAL;
	core_attr = attr ? *attr : (struct fi_cq_attr){0};
	if (core_attr.format > FI_CQ_FORMAT_TAGGED) {
		P2P_WARN("completion queue format %d is unknown\n", core_attr.format);
		return -FI_ENOSYS;
	}
	cq = calloc(1, sizeof *cq);
	if (!cq)
		return -FI_ENOMEM;
	/* unspecified is ours to choose */
	cq->format = core_attr.format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_TAGGED
							     : core_attr.format;
	if (attr)
		attr->format = cq->format;
	core_attr.format = FI_CQ_FORMAT_TAGGED;
	if (core_attr.size)
		core_attr.size += CQ_RESERVE;
	ret = fi_cq_open(domain->core, &core_attr, &cq->xfer.core, cq);
	if (ret) {
		free(cq);
		return ret;
	}
	cq->domain = domain;
	cq->xfer.source = domain->source;
	xfer_cq_init(&cq->xfer, &domain->xfer);
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->fid.ops = &cq_ops;
	*cq_fid = &cq->fid;
	return 0;
}
