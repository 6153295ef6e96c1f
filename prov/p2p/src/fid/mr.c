/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory regions. See mr.h. */
#include "fid/mr.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fid/cntr.h"
#include "fid/ep.h"
#include "fid/fid.h"
#include "fid/native.h"
#include "base/clock.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "base/random.h"
#include "mem/mem.h"
#include "path/quirks.h"
#include "xfer/pin.h"
#include "xfer/progress.h"

/* Gives back what it has of the domain's, and frees it. */
static void mr_free(struct p2p_mr *mr)
{
	struct xfer *xfer = &mr->domain->xfer;

	p2p_lock_take(&xfer->lock);
	if (mr->map)
		nic_map_put(mr->map);
	if (mr->desc)
		cell_put(&xfer->cells, mr->desc);
	if (mr->noted)
		desc_cache_host_remove(&xfer->descs, mr->fid.mem_desc, &mr->host);
	p2p_lock_drop(&xfer->lock);
	free(mr);
}

/*
 * Waits, for a bounded time, until no peer is at it: one may know that its access has ended before we
 * have read so. What is being copied takes microseconds, and is waited for in any case.
 */
static void mr_await(struct p2p_mr *mr)
{
	struct xfer *xfer = &mr->domain->xfer;
	const int64_t end = clock_end(xfer->farewell);

	while (mr->region.jobs || (mr->region.users && clock_left(end)))
		xfer_progress_turn(xfer);
}

static int mr_close(struct fid *fid)
{
	struct p2p_mr *mr = mr_of(fid);
	struct p2p_domain *domain = mr->domain;
	struct xfer *xfer = &domain->xfer;
	int ret = 0;

	if (domain_inherited(domain))
		return 0;
	if (mr->served) {
		p2p_lock_take(&xfer->lock);
		mr_await(mr);
		ret = region_remove(xfer, &mr->region);
		p2p_lock_drop(&xfer->lock);
		mr->served = ret;
	}
	if (!ret && mr->core)
		ret = fi_close(&mr->core->fid);
	if (ret)
		return ret;
	ipc_own_fall(&mr->own);
	mr_free(mr);
	domain_release(domain);
	return 0;
}

/* Notes the descriptor of the host memory; NULL: it has none, or may be other memory now */
static void mr_note(struct p2p_mr *mr, void *desc)
{
	struct xfer *xfer = &mr->domain->xfer;

	p2p_lock_take(&xfer->lock);
	if (mr->noted)
		desc_cache_host_remove(&xfer->descs, mr->fid.mem_desc, &mr->host);
	mr->noted = desc && mr->host.iov_len;
	if (mr->noted)
		desc_cache_host_add(&xfer->descs, desc, &mr->host);
	p2p_lock_drop(&xfer->lock);
}

static void mr_show_core(struct p2p_mr *mr)
{
	mr_note(mr, fi_mr_desc(mr->core));
	mr->fid.mem_desc = fi_mr_desc(mr->core);
	mr->fid.key = fi_mr_key(mr->core);
}

static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct p2p_mr *mr = mr_of(fid);
	int ret;

	if (mr->core) {
		ret = fi_mr_bind(mr->core, fid_core(bfid), flags);
		/* what peers do there, the core counts */
		if (!ret && bfid->fclass == FI_CLASS_CNTR && fid_class(bfid))
			cntr_of(bfid)->by_core = true;
		return ret;
	}
	return ep_posts(bfid) ? 0 : -FI_ENOSYS;
}

static int mr_xpu_desc(struct p2p_mr *mr, const struct lf_mr_xpu_desc *desc)
{
	if (!native_calls)
		return -FI_ENOSYS;
	return desc ? native_calls->mr_get_desc(&mr->fid, desc->buf, desc->len, desc->flags,
						desc->ctx)
		    : -FI_EINVAL;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	struct p2p_mr *mr = mr_of(fid);
	int ret;

	if (command == LF_GET_MR_XPU_DESC)
		return mr_xpu_desc(mr, arg);
	if (!mr->core)
		return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
	if (command == FI_REFRESH)
		mr_note(mr, NULL);
	ret = fi_control(&mr->core->fid, command, arg);
	if (!ret && command == FI_ENABLE)
		mr_show_core(mr);
	return ret;
}

static struct fid_class mr_class = {
	.ops = FID_OPS(.close = mr_close, .bind = mr_bind, .control = mr_control),
	.core = offsetof(struct p2p_mr, core),
};

/* Where keys are short, two may be the same by chance. So many are tried */
#define MR_KEY_TRIES 16

/*
 * A key of the provider's choice, which peers know that were told it, and no others. Those of
 * regions that we serve have the mark.
 */
static int mr_key_new(const struct xfer *xfer, bool ours, uint64_t *key)
{
	int ret = random_fill(key, sizeof *key);

	*key &= xfer->key_mark - 1;
	if (ours)
		*key |= xfer->key_mark;
	return ret;
}

/*
 * Who registers from address zero, or to the end of memory, means all memory that there is, on the
 * host and on devices. What kind it is shows when a peer asks for a part.
 */
static bool mr_is_all(const struct fi_mr_attr *attr)
{
	const struct iovec *iov = attr->mr_iov;
	uintptr_t start = (uintptr_t) iov->iov_base;

	return attr->iov_count == 1 && iov->iov_len && (!start || start + iov->iov_len < start);
}

/* Lets peers ask us for the memory under the key that the region has. */
static int mr_serve(struct p2p_mr *mr, const struct fi_mr_attr *attr, const struct dev_mem *mem)
{
	struct xfer *xfer = &mr->domain->xfer;
	struct region *region = &mr->region;
	int ret;

	if (!(attr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return 0;
	if (attr->iov_count > P2P_IOV_MAX)
		return -FI_EINVAL;
	region->key = mr->fid.key;
	region->access = attr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
	region->base = mr->domain->virt_addr ? (uintptr_t) attr->mr_iov[0].iov_base : 0;
	memcpy(region->iov, attr->mr_iov, attr->iov_count * sizeof *attr->mr_iov);
	region->count = attr->iov_count;
	region->len = mem_iov_len(attr->mr_iov, attr->iov_count);
	region->mem = *mem;
	region->all = mr_is_all(attr);
	region->pmem = mr->pmem;
	p2p_lock_take(&xfer->lock);
	/* regions may share a key if it is an allocation's, or of the core's cache */
	ret = region_add(xfer, region, mr->core || mr->map);
	p2p_lock_drop(&xfer->lock);
	mr->served = !ret;
	return ret;
}

/*
 * Gives device memory to the NIC; false: it cannot be. Peers read and write it by the core's key.
 * Atomic operations under that key are ours to serve.
 */
static bool mr_map(struct p2p_mr *mr, const struct fi_mr_attr *attr, const struct dev_mem *mem)
{
	struct xfer *xfer = &mr->domain->xfer;
	struct fi_p2p_stats stats = {.pins = 0};
	const char *why;
	int ret;

	/* the NIC would not count what peers do there */
	if (attr->iov_count != 1 || !xfer->virt_addr || xfer->keys_ours ||
	    mr->domain->serves_all)
		return false;
	p2p_lock_take(&xfer->lock);
	ret = nic_map_get(&xfer->map, &stats, mem, attr->mr_iov->iov_base,
			  attr->mr_iov->iov_len, attr->access ? attr->access : PIN_ACCESS,
			  &mr->map, &why);
	p2p_lock_drop(&xfer->lock);
	if (ret) {
		P2P_INFO("%zu bytes of %s device %d are not given to the NIC: %s\n",
			 attr->mr_iov->iov_len, mem->ops->name, mem->ordinal, why);
		return false;
	}
	mr->fid.mem_desc = fi_mr_desc(mr->map->mr);
	mr->fid.key = fi_mr_key(mr->map->mr);
	return true;
}

/* Peers may soon ask for that memory: its device is made ready now. Who uses it hears of errors. */
static void mr_meet_device(struct xfer *xfer, const struct dev_mem *mem)
{
	p2p_lock_take(&xfer->lock);
	xfer_ready(xfer, mem);
	p2p_lock_drop(&xfer->lock);
}

/* At most so many regions have descriptors of ours: operations need cells, too */
#define MR_DESCS (CELL_COUNT / 2)

/* Adds a descriptor of ours: a buffer that comes with it need not be looked up. */
static void mr_describe(struct p2p_mr *mr, const struct dev_mem *mem)
{
	struct xfer *xfer = &mr->domain->xfer;

	p2p_lock_take(&xfer->lock);
	mr->desc = xfer->cells.used < MR_DESCS ? cell_get(&xfer->cells) : NULL;
	p2p_lock_drop(&xfer->lock);
	if (mr->desc)
		*mr->desc = *mem;
	mr->fid.mem_desc = mr->desc;
}

/* Registers what the core cannot reach, or not under the key wanted, or would not count. */
static int mr_register_ours(struct p2p_mr *mr, const struct fi_mr_attr *attr,
			    const struct dev_mem *mem)
{
	const struct xfer *xfer = &mr->domain->xfer;
	int ret = -FI_ENOKEY;

	if (mem->ops && mr_map(mr, attr, mem))
		return xfer->quirks & QUIRK_ATOMICS ? mr_serve(mr, attr, mem) : 0;
	if (!xfer->key_mark && !xfer->keys_ours &&
	    attr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) {
		P2P_WARN(
			"device memory cannot be the target of remote access here: it takes "
			"ofi_p2p, reliable datagram endpoints, and a domain with FI_HMEM and FI_RMA "
			"or FI_ATOMIC. If the program cannot ask for FI_HMEM, set FI_P2P_HMEM=yes\n");
		return -FI_ENOSYS;
	}
	mr->fid.key = attr->requested_key;
	if (!xfer->key_mark)
		return xfer->keys_ours ? mr_serve(mr, attr, mem) : 0;
	for (int i = 0; ret == -FI_ENOKEY && i < MR_KEY_TRIES; i++) {
		ret = mr_key_new(xfer, true, &mr->fid.key);
		if (!ret)
			ret = mr_serve(mr, attr, mem);
	}
	return ret;
}

/*
 * Registers memory with the core, under a key of the core's, our or the application's choice. We
 * serve it, too, for what peers cannot do in one operation of the core's.
 */
static int mr_register_core(struct p2p_mr *mr, const struct fi_mr_attr *attr, uint64_t flags,
			    const struct dev_mem *mem)
{
	const struct xfer *xfer = &mr->domain->xfer;
	union libfabric_mr_attr u = {.room = {0}};
	int ret = -FI_ENOKEY;

	if (mr->domain->allocated && !(flags & LF_MR_DMABUF) && !mr_is_all(attr) &&
	    attr->iov_count == 1)
		mr->host = *attr->mr_iov;
	/* we cannot see what is behind a dma-buf */
	if (!xfer->key_mark || flags & LF_MR_DMABUF) {
		ret = fi_mr_regattr(mr->domain->core, attr, flags, &mr->core);
		if (!ret)
			mr_show_core(mr);
		return ret;
	}
	/* newer releases' fields behind these are about device memory: they stay zero */
	u.attr = *attr;
	for (int i = 0; ret == -FI_ENOKEY && i < MR_KEY_TRIES; i++) {
		ret = mr_key_new(xfer, false, &u.attr.requested_key);
		if (!ret)
			ret = fi_mr_regattr(mr->domain->core, &u.attr, flags, &mr->core);
	}
	if (ret)
		return ret;
	mr_show_core(mr);
	/* newer releases give no key to what no peer may reach */
	if (mr->fid.key == FI_KEY_NOTAVAIL)
		return 0;
	if (mr->fid.key & xfer->key_mark) {
		P2P_WARN("the core provider's key 0x%zx has the bit that is to tell keys of "
			 "ours\n",
			 (size_t) mr->fid.key);
		ret = -FI_EKEYREJECTED;
	} else {
		ret = mr_serve(mr, attr, mem);
	}
	if (ret)
		fi_close(&mr->core->fid);
	return ret;
}

/*
 * FI_RMA_PMEM: what peers write there is to be made durable. We do that, so they have to ask us. Over a hook,
 * and connected endpoints, it is the core's. 0 or an error
 */
static int mr_set_pmem(struct p2p_mr *mr, const struct fi_mr_attr *attr, uint64_t flags,
		       const struct dev_mem *mem)
{
	struct xfer *xfer = &mr->domain->xfer;
	int ret;

	if (!mr->domain->pmem) {
		P2P_WARN("FI_RMA_PMEM: the domain was opened without\n");
		return -FI_EOPNOTSUPP;
	}
	if (mem->ops || flags & LF_MR_DMABUF || mr_is_all(attr)) {
		P2P_WARN("FI_RMA_PMEM: device memory, or all of memory, is not persistent\n");
		return -FI_EINVAL;
	}
	ret = pmem_look(attr->mr_iov, attr->iov_count, &mr->pmem);
	if (ret)
		return ret;
	P2P_INFO("FI_RMA_PMEM: memory at %p is %s\n", attr->mr_iov->iov_base,
		 pmem_kind_says(mr->pmem));
	if (mr->pmem == PMEM_NOT) {
		P2P_WARN("FI_RMA_PMEM: memory at %p is no shared mapping of a file\n",
			 attr->mr_iov->iov_base);
		return -FI_EINVAL;
	}
	p2p_lock_take(&xfer->lock);
	ret = flusher_start(&xfer->flusher);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

/* Does the core not get it, whatever it is? A dma-buf it does: see mr_reg_dmabuf() */
static bool mr_is_ours(const struct p2p_mr *mr, uint64_t flags)
{
	const struct p2p_domain *domain = mr->domain;

	return !(flags & LF_MR_DMABUF) &&
	       (domain->xfer.keys_ours || domain->serves_all || mr->pmem != PMEM_NOT);
}

/* Registers memory of a device (@mem), or of the host, or a dma-buf. Sets @mr_fid if that works */
static int mr_open(struct p2p_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
		   const struct dev_mem *mem, struct fid_mr **mr_fid)
{
	struct p2p_mr *mr = calloc(1, sizeof *mr);
	int ret = 0;

	if (!mr)
		return -FI_ENOMEM;
	mr->domain = domain;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = attr->context;
	mr->fid.fid.ops = &mr_class.ops;
	if (flags & FI_RMA_PMEM && (domain->kind->ours & FI_RMA_PMEM || mem->ops))
		ret = mr_set_pmem(mr, attr, flags, mem);
	if (!ret && (mem->ops || mr_is_ours(mr, flags)))
		ret = mr_register_ours(mr, attr, mem);
	else if (!ret)
		ret = mr_register_core(mr, attr, flags, mem);
	if (ret) {
		mr_free(mr);
		return ret;
	}
	if (mem->ops && !mr->map)
		mr_describe(mr, mem);
	domain_hold(domain);
	*mr_fid = &mr->fid;
	return 0;
}

/*
 * May memory that is @mem's be registered as that of @iface? FI_HMEM_SYSTEM stands for "whatever it is": the address
 * tells. Runtimes have host memory, too. Without FI_HMEM, nobody looks at what is said of host memory (fi_mr(3));
 * over a hook, the core does.
 */
static bool mr_iface_fits(const struct p2p_domain *domain, const struct dev_mem *mem,
			  enum fi_hmem_iface iface, const void *addr)
{
	if (iface == FI_HMEM_SYSTEM)
		return true;
	if (mem->ops)
		return mem->ops->iface == (int) iface;
	return !(domain->kind->ours & FI_HMEM) || !domain->hmem || dev_hosts((int) iface, addr);
}

/* Host memory. Whose runtime it is says nothing to a core below us. */
static int mr_reg_host(struct p2p_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
		       struct fid_mr **mr_fid)
{
	const struct dev_mem host = {.ops = NULL};
	union libfabric_mr_attr u = {.room = {0}};

	if (!(domain->kind->ours & FI_HMEM) || attr->iface == FI_HMEM_SYSTEM)
		return mr_open(domain, attr, flags, &host, mr_fid);
	memcpy(&u.attr, attr, offsetof(struct fi_mr_attr, iface));
	u.attr.iface = FI_HMEM_SYSTEM;
	return mr_open(domain, &u.attr, flags, &host, mr_fid);
}

/* Registers buffers by their addresses, which tell what they are. */
static int mr_reg_buffers(struct p2p_domain *domain, const struct fi_mr_attr *attr,
			  uint64_t flags, struct fid_mr **mr_fid)
{
	union libfabric_mr_attr u = {.attr = *attr};
	struct dev_mem mem = {.ops = NULL};
	struct iovec buffer = *attr->mr_iov;
	int ret = 0;

	if (attr->iov_count == 1) {
		buffer.iov_len = mem_page_len(&buffer);
		u.attr.mr_iov = &buffer;
	}
	if (!mr_is_all(attr))
		ret = mem_classify_untouched(u.attr.mr_iov, attr->iov_count, &mem);
	if (ret)
		return ret;
	if (!mr_iface_fits(domain, &mem, attr->iface, buffer.iov_base)) {
		P2P_WARN(
			"memory at %p is %s, and registered as of iface %d (or its GPU runtime "
			"cannot be loaded)\n",
			buffer.iov_base, mem.ops ? mem.ops->name : "the host's",
			(int) attr->iface);
		return -FI_EINVAL;
	}
	if (!mem.ops)
		return mr_reg_host(domain, attr, flags, mr_fid);
	mr_meet_device(&domain->xfer, &mem);
	return mr_open(domain, &u.attr, flags, &mem, mr_fid);
}

/* May the core's NIC be given a dma-buf? Where we serve all memory, the core's key would be of no use to peers. */
static bool mr_core_takes_dmabuf(const struct p2p_domain *domain)
{
	return !(domain->xfer.quirks & QUIRK_NO_DMABUF) && !domain->xfer.keys_ours &&
	       !domain->serves_all;
}

/*
 * A dma-buf. It goes to a core that may take it. Any other core would have the CPU touch what is behind it, or fails.
 * Then its address tells whose memory it is, and that is registered as without a dma-buf.
 */
static int mr_reg_dmabuf(struct p2p_domain *domain, const struct fi_mr_attr *attr,
			 uint64_t flags, struct fid_mr **mr_fid)
{
	const struct lf_mr_dmabuf *dmabuf = (const void *) attr->mr_iov;
	const struct dev_mem unknown = {.ops = NULL};
	union libfabric_mr_attr u = {.attr = *attr};
	struct iovec buffer;
	int ret = -FI_ENOSYS;

	if (mr_core_takes_dmabuf(domain))
		ret = mr_open(domain, attr, flags, &unknown, mr_fid);
	if (!ret)
		return 0;
	if (!dmabuf->base_addr || attr->iov_count != 1) {
		P2P_WARN("the core provider cannot register a dma-buf (%s), and no address "
			 "comes with it\n",
			 fi_strerror(-ret));
		return ret;
	}
	buffer.iov_base = (char *) dmabuf->base_addr + dmabuf->offset;
	buffer.iov_len = dmabuf->len;
	u.attr.mr_iov = &buffer;
	return mr_reg_buffers(domain, &u.attr, flags & ~LF_MR_DMABUF, mr_fid);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr_fid)
{
	union libfabric_mr_attr u = {.room = {0}};
	struct p2p_domain *domain;

	if (fid->fclass != FI_CLASS_DOMAIN || !attr || !attr->mr_iov || !attr->iov_count ||
	    !mr_fid)
		return -FI_EINVAL;
	domain = domain_of(fid);
	if (domain->mr_attr_len) {
		memcpy(&u, attr, domain->mr_attr_len);
		attr = &u.attr;
	}
	if (flags & LF_MR_DMABUF)
		return mr_reg_dmabuf(domain, attr, flags, mr_fid);
	return mr_reg_buffers(domain, attr, flags, mr_fid);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
		   void *context)
{
	union libfabric_mr_attr u = {.room = {0}};

	u.attr.mr_iov = iov;
	u.attr.iov_count = count;
	u.attr.access = access;
	u.attr.offset = offset;
	u.attr.requested_key = requested_key;
	u.attr.context = context;
	u.attr.iface = FI_HMEM_SYSTEM;
	return mr_regattr(fid, &u.attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		  uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
		  void *context)
{
	struct iovec iov = {(void *) buf, len};

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
