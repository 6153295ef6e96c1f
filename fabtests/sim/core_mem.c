/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory in the simulated core provider's hands: regions, and what is read and written. See core.h.
 *
 * A core without a NIC copies by its CPU, which may touch no device memory. A NIC (model.nic) reads and writes what is
 * registered, a device's memory, too. It does so when the operation comes to it, and not when that is posted. So what it
 * finds there may be something else by then. A region that it needs has to be open then.
 */
#include "core.h"
#include "gpu.h"

#include "base/amo.h"
#include "base/base.h"
#include "base/libfabric.h"

/* Regions of device memory that the NIC has of a process's, and their bytes; and it refuses the next one */
static size_t pins[SIM_NODES], pinned[SIM_NODES];
static bool refusing[SIM_NODES];

void core_mem_refuse(unsigned int node)
{
	refusing[node] = true;
}

void core_mem_forget(unsigned int node)
{
	pins[node] = pinned[node] = 0;
}

void core_mem_calm(void)
{
	memset(refusing, 0, sizeof refusing);
}

/* ---- regions ---- */

static int mr_close(struct fid *fid)
{
	struct core_mr *mr = container_of(fid, struct core_mr, fid.fid);

	core_asked();
	mr->domain->open--;
	LIST_REMOVE(mr, entry);
	if (mr->block) {
		gpu_memory_put(mr->block);
		pins[mr->domain->node]--;
		pinned[mr->domain->node] -= mr->iov.iov_len;
	}
	free(mr);
	return 0;
}

static struct fi_ops mr_fi_ops = {.size = sizeof mr_fi_ops, .close = mr_close};

static struct core_mr *mr_find(const struct core_domain *domain, uint64_t key)
{
	struct core_mr *mr;

	LIST_FOREACH(mr, &domain->mrs, entry) {
		if (mr->fid.key == key)
			return mr;
	}
	return NULL;
}

/* What is registered, in the form that the flags tell */
static void mr_place(struct core_mr *mr, const struct fi_mr_attr *attr, uint64_t flags)
{
	const struct lf_mr_dmabuf *dmabuf = (const void *) attr->mr_iov;

	if (!(flags & LF_MR_DMABUF)) {
		mr->iov = attr->mr_iov[0];
		mr->block = gpu_hold(mr->iov.iov_base, &mr->offset);
		return;
	}
	if (world.script->model->version < FI_VERSION(1, 20))
		world_fail("n%u: a dma-buf is registered, and the core knows none",
			   mr->domain->node);
	mr->iov = (struct iovec){(uint8_t *) dmabuf->base_addr + dmabuf->offset, dmabuf->len};
	mr->block = gpu_hold_memory(dmabuf->fd);
	mr->offset = dmabuf->offset;
	mr->dmabuf = true;
	if (!mr->block)
		world_fail("n%u: what is registered is no dma-buf", mr->domain->node);
}

/* May the NIC have it? A core without one never has device memory */
static int mr_admit(struct core_mr *mr)
{
	const struct script *script = world.script;
	const unsigned int node = mr->domain->node;

	if (!mr->block)
		return 0;
	if (!mr->domain->model->nic)
		world_fail("n%u: device memory is registered with a core without a NIC", node);
	if (refusing[node]) {
		refusing[node] = false;
		world_tell("n%u: its NIC refuses a region", node);
		return -FI_EIO;
	}
	if ((script->pins && pins[node] >= script->pins) ||
	    (script->room && pinned[node] + mr->iov.iov_len > (size_t) script->room << 10))
		return -FI_ENOMEM;
	pins[node]++;
	pinned[node] += mr->iov.iov_len;
	return 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **to)
{
	struct core_domain *domain = container_of(fid, struct core_domain, fid.fid);
	uint64_t key = attr->requested_key;
	struct core_mr *mr;
	int ret;

	core_asked();
	if (attr->iov_count != 1)
		world_fail("n%u: a region of %zu pieces", domain->node, attr->iov_count);
	do {
		if (domain->random_keys)
			key = world_upto(1ULL << (domain->model->nic ? 32 : 40))
				      << (domain->model->nic ? 0 : 16) |
			      1;
	} while (domain->random_keys && mr_find(domain, key));
	if (mr_find(domain, key))
		return -FI_ENOKEY;
	mr = calloc(1, sizeof *mr);
	mr->domain = domain;
	mr->access = attr->access;
	mr_place(mr, attr, flags);
	ret = mr_admit(mr);
	if (ret) {
		if (mr->block)
			gpu_memory_put(mr->block);
		free(mr);
		return ret;
	}
	mr->fid = (struct fid_mr){.fid = {.fclass = FI_CLASS_MR, .ops = &mr_fi_ops},
				  .mem_desc = mr,
				  .key = key};
	domain->open++;
	LIST_INSERT_HEAD(&domain->mrs, mr, entry);
	*to = &mr->fid;
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **to,
		   void *context)
{
	const struct fi_mr_attr attr = {.mr_iov = iov,
					.iov_count = count,
					.access = access,
					.requested_key = key};

	return mr_regattr(fid, &attr, flags, to);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		  uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **to,
		  void *context)
{
	const struct iovec iov = {(void *) buf, len};

	return mr_regv(fid, &iov, 1, access, offset, key, flags, to, context);
}

struct fi_ops_mr core_mr_ops = {.size = sizeof core_mr_ops,
				.reg = mr_reg,
				.regv = mr_regv,
				.regattr = mr_regattr};

/* ---- local memory ---- */

static bool mr_is_open(const struct core_domain *domain, const struct core_mr *mr)
{
	const struct core_mr *other;

	LIST_FOREACH(other, &domain->mrs, entry) {
		if (other == mr)
			return true;
	}
	return false;
}

static bool mr_holds(const struct core_mr *mr, const void *addr, size_t len)
{
	const size_t at = (uintptr_t) addr - (uintptr_t) mr->iov.iov_base;

	return at <= mr->iov.iov_len && len <= mr->iov.iov_len - at;
}

void core_mem_take(struct core_domain *domain, const struct iovec *iov, size_t count,
		   void *const *desc, struct core_mr **mr)
{
	for (size_t i = 0; domain->local && i < count; i++) {
		mr[i] = desc && iov[i].iov_len ? desc[i] : NULL;
		if (mr[i] && !mr_is_open(domain, mr[i]))
			world_fail("n%u: %zu bytes have the descriptor of a region that was "
				   "closed",
				   domain->node, iov[i].iov_len);
	}
}

void core_mem_check(const struct core_domain *domain, const struct iovec *iov, size_t count,
		    struct core_mr *const *mr, uint64_t access)
{
	for (size_t i = 0; domain->local && i < count; i++) {
		if (!iov[i].iov_len)
			continue;
		if (!mr[i])
			world_fail("n%u: the NIC is given %zu bytes without a descriptor",
				   domain->node, iov[i].iov_len);
		if (!mr_is_open(domain, mr[i]))
			world_fail("n%u: its NIC needs a region that was closed", domain->node);
		if (!mr_holds(mr[i], iov[i].iov_base, iov[i].iov_len) ||
		    (mr[i]->access & access) != access)
			world_fail("n%u: %zu bytes have another region's descriptor, or one "
				   "for other uses",
				   domain->node, iov[i].iov_len);
	}
}

/* Where the core finds a piece's bytes */
static uint8_t *local_bytes(const struct core_mr *mr, const void *addr, size_t len)
{
	if (len && mr && mr->block)
		return gpu_block_bytes(mr->block,
				       mr->offset + ((uintptr_t) addr -
						     (uintptr_t) mr->iov.iov_base),
				       len);
	/*
	 * The core's CPU touches no device memory. A process that lies may tell itself that its put has ended. Then it gives
	 * the memory back, and the provider finds none of a device's there.
	 */
	if (len && world.current != world.liar &&
	    (gpu_has(addr) || gpu_has((const uint8_t *) addr + len - 1)))
		world_fail("n%u: the core touches device memory", world.current);
	return (uint8_t *) (uintptr_t) addr;
}

/* What the NIC reads or writes here for an operation is right */
void core_mem_check_send(const struct core_send *send)
{
	static const uint64_t access[] =
		{[SEND_MSG] = FI_SEND, [SEND_WRITE] = FI_WRITE, [SEND_READ] = FI_READ};

	if (core_is_by_nic(send))
		core_mem_check(send->conn->src->domain, send->iov, send->count, send->mr,
			       access[send->kind]);
}

void core_gather(struct core_send *send)
{
	const bool by_nic = core_is_by_nic(send);
	size_t at = 0;

	core_mem_check_send(send);
	send->bytes = malloc((send->compares ? 2 : 1) * send->len + 1);
	for (size_t i = 0; i < send->count; i++) {
		const struct iovec *iov = &send->iov[i];

		if (iov->iov_len)
			memcpy(send->bytes + at,
			       local_bytes(by_nic ? send->mr[i] : NULL, iov->iov_base,
					   iov->iov_len),
			       iov->iov_len);
		at += iov->iov_len;
	}
}

size_t core_scatter(const struct iovec *iov, struct core_mr *const *mr, size_t count,
		    const uint8_t *bytes, size_t len)
{
	size_t at = 0, part;

	for (size_t i = 0; i < count && at < len; i++) {
		part = iov[i].iov_len < len - at ? iov[i].iov_len : len - at;
		if (part)
			memcpy(local_bytes(mr ? mr[i] : NULL, iov[i].iov_base, part),
			       bytes + at, part);
		at += part;
	}
	return at;
}

/* ---- remote memory ---- */

/* What was there before takes the operands' place */
static void atomic_do(struct core_send *send, uint8_t *mem)
{
	uint8_t before[CORE_ATOMIC_LEN];

	memcpy(before, mem, send->len);
	amo_apply(FI_UINT64, send->op, send->len / 8, mem, send->bytes,
		  send->compares ? send->bytes + send->len : NULL);
	memcpy(send->bytes, before, send->len);
}

/* The bytes that a key and an address stand for, or NULL */
static uint8_t *remote_bytes(const struct core_domain *domain, const struct fi_rma_iov *remote,
			     uint64_t access)
{
	const struct core_mr *mr = mr_find(domain, remote->key);
	const uint64_t base = mr && domain->virt_addr ? (uintptr_t) mr->iov.iov_base : 0;

	if (!mr || remote->addr < base || remote->addr - base > mr->iov.iov_len ||
	    mr->iov.iov_len - (remote->addr - base) < remote->len || !(mr->access & access))
		return NULL;
	/* a peer-memory module takes back what its owner frees */
	if (mr->block && !mr->dmabuf && gpu_block_is_free(mr->block))
		return NULL;
	return mr->block
		       ? gpu_block_bytes(mr->block, mr->offset + (remote->addr - base),
					 remote->len)
		       : local_bytes(NULL, (uint8_t *) mr->iov.iov_base + (remote->addr - base),
				     remote->len);
}

int core_mem_reach(struct core_ep *ep, struct core_send *send)
{
	const bool read = send->kind == SEND_READ;
	size_t at = 0;

	if (read)
		send->bytes = malloc(send->len + 1);
	for (size_t i = 0; i < send->remotes; i++) {
		const struct fi_rma_iov *remote = &send->remote[i];
		uint8_t *mem = remote_bytes(ep->domain, remote,
					    read ? FI_REMOTE_READ : FI_REMOTE_WRITE);

		if (!mem)
			return FI_EACCES;
		if (send->kind == SEND_ATOMIC)
			atomic_do(send, mem);
		else if (read)
			memcpy(send->bytes + at, mem, remote->len);
		else
			memcpy(mem, send->bytes + at, remote->len);
		at += remote->len;
	}
	return 0;
}
