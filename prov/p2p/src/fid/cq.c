/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues. See cq.h.
 *
 * As long as no transfer of ours is under way, a read is the core's read, with a look at each
 * entry. Otherwise it drains all of the domain's queues into reports first: transfers advance
 * whichever queue the application reads. Peers may ask for a transfer in a queue that the
 * application does not read. Where they may, one read in 256 that finds nothing looks there, too.
 */
#include "fid/cq.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fid/av.h"
#include "base/clock.h"
#include "fid/fid.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "fid/native.h"
#include "fid/pollset.h"
#include "xfer/life.h"
#include "xfer/progress.h"
#include "xfer/reports.h"
#include "xfer/sleep.h"

/* The entries of one read of the core that does not go straight into the caller's buffer */
#define CQ_BATCH 16

/* Writes an entry in the queue's format; each format is the beginning of the next */
static inline void cq_entry_put(const struct p2p_cq *cq, void *buf, size_t index,
				const struct fi_cq_tagged_entry *entry)
{
	switch (cq->format) {
	case FI_CQ_FORMAT_CONTEXT:
		memcpy((struct fi_cq_entry *) buf + index, entry, sizeof(struct fi_cq_entry));
		break;
	case FI_CQ_FORMAT_MSG:
		memcpy((struct fi_cq_msg_entry *) buf + index, entry,
		       sizeof(struct fi_cq_msg_entry));
		break;
	case FI_CQ_FORMAT_DATA:
		memcpy((struct fi_cq_data_entry *) buf + index, entry,
		       sizeof(struct fi_cq_data_entry));
		break;
	default:
		((struct fi_cq_tagged_entry *) buf)[index] = *entry;
	}
}

/* Turns a report into libfabric's largest kind of entry without an error. Some peeks do not say that there is data. */
static struct fi_cq_tagged_entry cq_entry(const struct core_comp *comp)
{
	return (struct fi_cq_tagged_entry){
		.op_context = comp->context,
		.flags = comp->flags & ~FI_PEEK,
		.len = comp->len,
		.buf = comp->buf,
		.data = comp->flags & (FI_REMOTE_CQ_DATA | FI_PEEK) ? comp->data : 0,
		.tag = comp->tag,
	};
}

/* The vector is closed: no queue of its domain keeps a pointer to it. */
static void cq_forget_av(const struct p2p_av *av)
{
	struct xfer *xfer = &av->domain->xfer;
	struct xfer_cq *xfer_cq;

	p2p_lock_take(&xfer->lock);
	LIST_FOREACH(xfer_cq, &xfer->cqs, entry) {
		struct p2p_cq *cq = container_of(xfer_cq, struct p2p_cq, xfer);

		/* a queue of our own has no vector, and no struct p2p_cq around it */
		if (xfer_cq->silent || cq->av != av)
			continue;
		cq->many_avs |= !av_same(av);
		cq->av = NULL;
	}
	p2p_lock_drop(&xfer->lock);
}

void cq_set_av(struct p2p_cq *cq, struct p2p_av *av)
{
	/* the queue may be bound before the vector */
	if (!av)
		return;
	cq->many_avs |= cq->av && cq->av != av;
	cq->av = av;
	/* other threads may bind other queues to it */
	__atomic_store_n(&av->closed, cq_forget_av, __ATOMIC_RELAXED);
}

/* ---- reports ---- */

/* Gives the application the reports that wait in the queue. */
static ssize_t cq_read_reports(struct p2p_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	struct fi_cq_tagged_entry entry;
	struct core_comp comp;
	ssize_t read = 0;
	int ret = 0;

	if (!count)
		return xfer_cq_has(&cq->xfer) ? 0 : -FI_EAGAIN;
	while (read < (ssize_t) count) {
		ret = xfer_cq_next(&cq->xfer, false, &comp);
		if (ret != 1)
			break;
		entry = cq_entry(&comp);
		cq_entry_put(cq, buf, read, &entry);
		if (src)
			src[read] = cq_user_addr(cq, comp.src);
		read++;
	}
	if (read)
		return read;
	return ret < 0 ? ret : -FI_EAGAIN;
}

/* ---- the core's queue ---- */

/* Tells whether an entry of the core's queue may be ours. What has no data may have a marker's from ofi_rxm, and MPICH reads it. */
static inline bool cq_concerned(const struct p2p_cq *cq, struct fi_cq_tagged_entry *entry)
{
	if (p2p_unlikely(
		    xfer_concerned(&cq->xfer, entry->op_context, entry->flags, entry->data)))
		return true;
	entry->data = entry->flags & FI_REMOTE_CQ_DATA ? entry->data : 0;
	return false;
}

/* Tells whether all @read entries are the application's alone, so that they need no further look. */
static inline bool cq_plain(const struct p2p_cq *cq, struct fi_cq_tagged_entry *entries,
			    ssize_t read)
{
	ssize_t plain = 0;

	while (plain < read && !cq_concerned(cq, &entries[plain]))
		plain++;
	return plain && plain == read;
}

/*
 * Takes out what is not the application's among @read entries. If it ends something, the report of
 * that takes its place. Returns how many entries there are then.
 */
static ssize_t cq_filter(struct p2p_cq *cq, struct fi_cq_tagged_entry *entries, fi_addr_t *src,
			 ssize_t read)
{
	struct core_comp comp, report;
	enum xfer_taken taken;
	ssize_t kept = 0;

	for (ssize_t i = 0; i < read; i++) {
		fi_addr_t from = cq->xfer.source ? src[i] : FI_ADDR_NOTAVAIL;

		taken = XFER_PLAIN;
		if (cq_concerned(cq, &entries[i])) {
			core_comp_from_entry(&entries[i], from, &comp);
			taken = xfer_take(&cq->xfer, &comp, &report);
		}
		if (taken == XFER_TAKEN)
			continue;
		if (taken == XFER_REPORTED) {
			entries[kept] = cq_entry(&report);
			from = report.src;
		} else if (kept != i) {
			entries[kept] = entries[i];
		}
		if (cq->xfer.source)
			src[kept] = cq_user_addr(cq, from);
		kept++;
	}
	return kept;
}

/*
 * Turns what a read of the core's queue has returned into what the application's read returns.
 * @ret: an error, or the number of entries, which come from the addresses @from and may lie in
 * @buf.
 */
static ssize_t cq_take(struct p2p_cq *cq, struct fi_cq_tagged_entry *entries, fi_addr_t *from,
		       ssize_t ret, void *buf, size_t count, fi_addr_t *src)
{
	if (p2p_unlikely(ret == -FI_EAVAIL)) {
		xfer_progress(cq->xfer.xfer);
		return cq_read_reports(cq, buf, count, src);
	}
	if (ret <= 0)
		return ret;
	ret = cq_filter(cq, entries, from, ret);
	for (ssize_t i = 0; i < ret && entries != buf; i++)
		cq_entry_put(cq, buf, i, &entries[i]);
	for (ssize_t i = 0; i < ret && src; i++)
		src[i] = cq->xfer.source ? from[i] : FI_ADDR_NOTAVAIL;
	if (ret)
		return ret;
	/* what was taken may have ended something */
	return cq_read_reports(cq, buf, count, src);
}

/*
 * Is there something? What the core has may be ours, so progress looks at it. And not every core tells: sockets answers
 * a read of no entries with -FI_EAGAIN, whatever it has.
 */
static P2P_NOINLINE ssize_t cq_peek(struct p2p_cq *cq)
{
	xfer_progress(cq->xfer.xfer);
	return cq_read_reports(cq, NULL, 0, NULL);
}

/*
 * Tells, once in 256 reads that have found nothing, that it is time to look elsewhere. Several threads may
 * count at once and lose some, which does no harm.
 */
P2P_GLANCE bool cq_in_vain(struct p2p_cq *cq)
{
	return p2p_unlikely(!++cq->vain);
}

/* Makes progress on other queues, when this one had nothing and the domain has work there. */
static P2P_NOINLINE ssize_t cq_read_elsewhere(struct p2p_cq *cq, void *buf, size_t count,
					      fi_addr_t *src)
{
	const struct xfer *xfer = cq->xfer.xfer;

	if (!xfer_apart(xfer) && !xfer_open(xfer) && !ipc_keeps(&xfer->ipc) &&
	    !survey_asked(&xfer->survey))
		return -FI_EAGAIN;
	/* what comes there seldom comes alone: the next read looks again */
	if (xfer_cq_progress(&cq->xfer))
		__atomic_store_n(&cq->vain, UINT8_MAX, __ATOMIC_RELAXED);
	return cq_read_reports(cq, buf, count, src);
}

/*
 * The core's read, under the lock: the core loses messages where a receive is posted meanwhile (QUIRK_SERIAL). Otherwise
 * as below
 */
static ssize_t cq_read_alone(struct p2p_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	struct fi_cq_tagged_entry batch[CQ_BATCH];
	struct fi_cq_tagged_entry *entries = cq->format == FI_CQ_FORMAT_TAGGED ? buf : batch;
	fi_addr_t from[CQ_BATCH];
	ssize_t ret;

	p2p_lock_take(&cq->xfer.xfer->lock);
	ret = xfer_cq_read(&cq->xfer, entries, P2P_MIN(count, CQ_BATCH), from);
	p2p_lock_drop(&cq->xfer.xfer->lock);
	if (ret == -FI_EAGAIN)
		return cq_in_vain(cq) ? cq_read_elsewhere(cq, buf, count, src) : ret;
	return cq_take(cq, entries, from, ret, buf, count, src);
}

/* Reads where there is more than the core's own: reports, transfers, or a call without a buffer. */
static P2P_NOINLINE ssize_t cq_read_ours(struct p2p_cq *cq, void *buf, size_t count,
					 fi_addr_t *src)
{
	if (!count)
		return cq_peek(cq);
	if (!buf) {
		P2P_WARN("fi_cq_read of %zu entries without a buffer\n", count);
		return -FI_EINVAL;
	}
	if (!xfer_cq_has(&cq->xfer)) {
		if (!xfer_busy(cq->xfer.xfer))
			return cq_read_alone(cq, buf, count, src);
		xfer_cq_progress(&cq->xfer);
	}
	return cq_read_reports(cq, buf, count, src);
}

/*
 * The read that applications call most often. Mostly it finds nothing, and otherwise nothing of
 * ours. It costs a few loads and branches besides the core's read.
 *
 * The core reads into @entries, which may be @buf, and into @from, which have @room. @from is
 * NULL if the core's queue has tags and tells no sources.
 */
P2P_INLINE ssize_t cq_read_quick(struct p2p_cq *cq, void *buf, size_t count, fi_addr_t *src,
				 struct fi_cq_tagged_entry *entries, fi_addr_t *from,
				 size_t room)
{
	size_t most = P2P_MIN(count, room);
	ssize_t ret;

	if (p2p_unlikely(!buf || xfer_cq_ours(&cq->xfer)))
		return cq_read_ours(cq, buf, count, src);
	ret = from ? xfer_cq_read(&cq->xfer, entries, most, from)
		   : fi_cq_read(cq->xfer.core, entries, most);
	if (p2p_likely(ret == -FI_EAGAIN))
		return cq_in_vain(cq) ? cq_read_elsewhere(cq, buf, count, src) : ret;
	if (p2p_unlikely(!cq_plain(cq, entries, ret)))
		return ret ? cq_take(cq, entries, from, ret, buf, count, src) : cq_peek(cq);
	for (ssize_t i = 0; i < ret && entries != buf; i++)
		cq_entry_put(cq, buf, i, &entries[i]);
	for (ssize_t i = 0; i < ret && src; i++)
		src[i] = cq->xfer.source ? cq_user_addr(cq, from[i]) : FI_ADDR_NOTAVAIL;
	return ret;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct p2p_cq *cq = cq_of(&fid->fid);
	struct fi_cq_tagged_entry entries[CQ_BATCH];
	fi_addr_t from[CQ_BATCH];

	return cq_read_quick(cq, buf, count, src,
			     cq->format == FI_CQ_FORMAT_TAGGED ? buf : entries, from, CQ_BATCH);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

/* Reads for an application whose entries have the core's format. */
static ssize_t cq_read_tagged(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_read_quick(cq_of(&fid->fid), buf, count, NULL, buf, NULL, SIZE_MAX);
}

/* For one whose entries are shorter. */
static ssize_t cq_read_short(struct fid_cq *fid, void *buf, size_t count)
{
	struct fi_cq_tagged_entry entries[CQ_BATCH];

	return cq_read_quick(cq_of(&fid->fid), buf, count, NULL, entries, NULL, CQ_BATCH);
}

/* ---- waiting ---- */

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
			    const void *cond, int timeout)
{
	struct p2p_cq *cq = cq_of(&fid->fid);
	int64_t end = clock_end(timeout), left;
	unsigned int rounds = 0;
	ssize_t ret;

	if (cq->wait_obj == FI_WAIT_NONE || cq->wait_obj == FI_WAIT_SET)
		return -FI_ENOSYS;
	do {
		ret = cq_readfrom(fid, buf, count, src);
		if (ret != -FI_EAGAIN)
			return ret;
		left = clock_left(end);
		if (!left || __atomic_exchange_n(&cq->signalled, false, __ATOMIC_RELAXED))
			return -FI_EAGAIN;
		ret = sleep_on(cq->xfer.point, cq->xfer.xfer, left, &rounds);
	} while (!ret);
	return ret;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond,
			int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

int cq_trywait(struct fid *fid)
{
	struct p2p_cq *cq = cq_of(fid);

	return cq->xfer.point ? sleep_try(cq->xfer.point) : -FI_EINVAL;
}

static int cq_signal(struct fid_cq *fid)
{
	struct p2p_cq *cq = cq_of(&fid->fid);

	if (cq->wait_obj == FI_WAIT_NONE)
		return -FI_ENOSYS;
	__atomic_store_n(&cq->signalled, true, __ATOMIC_RELAXED);
	if (!cq->xfer.point)
		return 0;
	p2p_lock_take(&cq->xfer.xfer->lock);
	wait_wake(cq->xfer.point);
	p2p_lock_drop(&cq->xfer.xfer->lock);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct p2p_cq *cq = cq_of(fid);

	return waitset_control(fid, &cq->member, cq->xfer.point, cq->wait_obj, command, arg);
}

/* ---- errors ---- */

static void cq_err_data_put(struct p2p_cq *cq, const struct core_comp *comp,
			    struct fi_cq_err_entry *buf)
{
	/* since API 1.5 the application may have a buffer; else ours lives until the next error */
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

/* A member that this build's headers may lack. An older application's entry ends before it. */
static void cq_err_src_put(const struct p2p_cq *cq, fi_addr_t src, struct fi_cq_err_entry *buf)
{
	if (cq->domain->fabric->core->api_version >= LF_CQ_ERR_SRC_API)
		memcpy((char *) buf + LF_CQ_ERR_SRC, &src, sizeof src);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct p2p_cq *cq = cq_of(&fid->fid);
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
	/* what is no error of the core's has no number there */
	buf->prov_errno = comp.prov_errno ? comp.prov_errno : comp.err;
	cq_err_data_put(cq, &comp, buf);
	cq_err_src_put(cq, cq->xfer.source ? cq_user_addr(cq, comp.src) : FI_ADDR_NOTAVAIL,
		       buf);
	return 1;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data,
			       char *buf, size_t len)
{
	return fi_cq_strerror(cq_of(&fid->fid)->xfer.core, prov_errno, err_data, buf, len);
}

/* ---- open and close ---- */

static int cq_close(struct fid *fid)
{
	struct p2p_cq *cq = cq_of(fid);
	int ret;

	if (domain_inherited(cq->domain))
		return 0;
	if (xfer_cq_busy(&cq->xfer))
		return -FI_EBUSY;
	/*
	 * the proxy looks at the queue until it is told. A core that refuses the close of a queue without
	 * endpoints knows of a use that we do not, and GPUs have the queue no more
	 */
	fid_exports_end(&cq->exports);
	waitset_hold(&cq->member);
	ret = xfer_cq_fini(&cq->xfer);
	waitset_drop(&cq->member, !ret);
	if (ret)
		return ret;
	pollset_forget(fid);
	if (cq->xfer.point)
		wait_close(cq->xfer.point);
	free(cq->err_data);
	native_ctx_drop(cq->native);
	free(cq);
	return 0;
}

static struct fid_class cq_class = {
	.ops = FID_OPS(.close = cq_close, .bind = fid_no_bind, .control = cq_control),
	.core = offsetof(struct p2p_cq, xfer.core),
	.trywait = cq_trywait,
};

static int cq_export_xpu(struct fid_cq *fid, uint64_t flags, struct fid_xpu_cq *xpu)
{
	struct native_ctx *ctx = cq_of(&fid->fid)->native;

	return ctx ? native_calls->cq_export(&ctx->fid, fid, flags, xpu) : native_refuse();
}

static union table_cq cq_table = {
	.ops =
		{
			.read = cq_read,
			.readfrom = cq_readfrom,
			.readerr = cq_readerr,
			.sread = cq_sread,
			.sreadfrom = cq_sreadfrom,
			.signal = cq_signal,
			.strerror = cq_strerror,
		},
};

static __attribute__((constructor)) void cq_complete_table(void)
{
	table_complete(cq_table.entry, LF_CQ_EXPORT_XPU, (table_entry) cq_export_xpu);
}

/* Does such a wait object take a descriptor? */
static bool cq_sleeps(enum fi_wait_obj wait_obj)
{
	return wait_obj == FI_WAIT_UNSPEC || wait_obj == FI_WAIT_FD ||
	       wait_obj == FI_WAIT_POLLFD || wait_obj == FI_WAIT_SET;
}

/* Opens the core's queue with tags; or without, if the core has none and nobody needs them. */
static int cq_open_format(struct p2p_domain *domain, struct fi_cq_attr *attr, bool tags,
			  struct xfer_cq *cq, void *context)
{
	int ret;

	attr->format = FI_CQ_FORMAT_TAGGED;
	ret = fi_cq_open(domain->core, attr, &cq->core, context);
	if (ret != -FI_ENOSYS || tags)
		return ret;
	attr->format = FI_CQ_FORMAT_DATA;
	ret = fi_cq_open(domain->core, attr, &cq->core, context);
	cq->narrow = !ret;
	return ret;
}

int cq_open_core(struct p2p_domain *domain, struct fi_cq_attr *attr, bool sleeps,
		 struct xfer_cq *cq, void *context)
{
	enum fi_wait_obj wait_obj = attr->wait_obj;
	bool tags = attr->format == FI_CQ_FORMAT_TAGGED;
	/* our thread sleeps as well as it can */
	bool optional = wait_obj == FI_WAIT_UNSPEC || !sleeps;
	int ret;

	sleeps |= domain->automatic;

	/*
	 * The core's queue is no longer than the application asks for, though ours use it, too.
	 * Cores round up to a power of two, a queue twice as long costs every message, and
	 * cores keep what does not fit.
	 */
	if (sleeps)
		attr->wait_obj = FI_WAIT_FD;
	ret = cq_open_format(domain, attr, tags, cq, context);
	if (ret && sleeps && optional) {
		attr->wait_obj = wait_obj;
		sleeps = false;
		ret = cq_open_format(domain, attr, tags, cq, context);
	}
	if (ret)
		return ret;
	if (!sleeps || fi_control(&cq->core->fid, FI_GETWAIT, &cq->fd))
		cq->fd = -1;
	cq->source = domain->source;
	xfer_cq_init(cq, &domain->xfer);
	return 0;
}

/* Opens the core's queue and the point to sleep on. @attr: the application's, becomes the core's */
static int cq_open_parts(struct p2p_cq *cq, struct fi_cq_attr *attr, struct p2p_waitset **set)
{
	struct p2p_domain *domain = cq->domain;
	const bool plain = !xfer_announces(&domain->xfer);
	int ret = waitset_choose(domain->fabric, &attr->wait_obj, attr->wait_set, set);

	if (ret)
		return ret;
	ret = cq_open_core(domain, attr, cq_sleeps(cq->wait_obj), &cq->xfer, cq);
	if (ret)
		return ret;
	if (cq->xfer.fd >= 0) {
		ret = wait_open(&cq->point, &cq->xfer, waitset_fd(*set), plain);
		if (!ret)
			cq->xfer.point = &cq->point;
	} else if (*set) {
		P2P_INFO("the core provider has no descriptor for a wait set\n");
		ret = -FI_ENOSYS;
	}
	if (ret)
		xfer_cq_fini(&cq->xfer);
	return ret;
}

/* Sets the format, if the application has left it open, and the functions that suit it. */
static void cq_set_format(struct p2p_cq *cq)
{
	if (cq->format == FI_CQ_FORMAT_UNSPEC)
		cq->format = cq->xfer.narrow ? FI_CQ_FORMAT_DATA : FI_CQ_FORMAT_TAGGED;
	cq->table = cq_table;
	if (!cq->xfer.narrow && !cq->xfer.source)
		cq->table.ops.read =
			cq->format == FI_CQ_FORMAT_TAGGED ? cq_read_tagged : cq_read_short;
}

void cq_tell_sources(struct p2p_cq *cq)
{
	p2p_lock_take(&cq->xfer.xfer->lock);
	if (!cq->xfer.source) {
		cq->xfer.source = true;
		cq_set_format(cq);
	}
	p2p_lock_drop(&cq->xfer.xfer->lock);
}

int cq_open(struct fid_domain *domain_fid, struct fi_cq_attr *attr, struct fid_cq **cq_fid,
	    void *context)
{
	struct p2p_domain *domain = domain_of(&domain_fid->fid);
	struct fi_cq_attr core_attr;
	struct p2p_waitset *set;
	struct p2p_cq *cq;
	int ret;

	if (!cq_fid)
		return -FI_EINVAL;
	/* another provider shares its own queue with the core, which must see it as it is */
	if (attr && attr->flags & FI_PEER)
		return fi_cq_open(domain->core, attr, cq_fid, context);
	core_attr = attr ? *attr : (struct fi_cq_attr){0};
	if (core_attr.format > FI_CQ_FORMAT_TAGGED) {
		P2P_WARN("completion queue format %d is unknown\n", core_attr.format);
		return -FI_ENOSYS;
	}
	cq = p2p_new(sizeof *cq);
	if (!cq)
		return -FI_ENOMEM;
	ret = native_ctx_take(domain, core_attr.flags, attr, LF_CQ_ATTR_XPU_CTX, &cq->native);
	if (ret)
		goto free_cq;
	core_attr.flags &= ~LF_XPU;
	cq->domain = domain;
	cq->format = core_attr.format;
	cq->wait_obj = core_attr.wait_obj;
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_class.ops;
	cq->fid.ops = &cq->table.ops;
	ret = cq_open_parts(cq, &core_attr, &set);
	if (ret)
		goto drop_native;
	cq_set_format(cq);
	waitset_join(set, &cq->member, &cq->fid.fid);
	if (attr)
		attr->format = cq->format;
	*cq_fid = &cq->fid;
	return 0;

drop_native:
	native_ctx_drop(cq->native);
free_cq:
	free(cq);
	return ret;
}
