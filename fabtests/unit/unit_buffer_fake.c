/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The provider of unit_buffer.h. */
#include "unit_buffer.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_rma.h>

struct fake_provider fake;

static struct {
	struct fid_domain domain;
	struct fid_ep ep;
	struct fi_domain_attr domain_attr;
	struct fi_ep_attr ep_attr;
	struct fi_tx_attr tx_attr;
	struct fi_rma_iov iov[FAKE_OPS];
	struct iovec local[FAKE_OPS];
	bool reads[FAKE_OPS];
} own;

static bool has(int bit)
{
	const int mode = own.domain_attr.mr_mode;

	if (mode == FI_MR_BASIC)
		return bit & (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
	return mode != FI_MR_SCALABLE && mode & bit;
}

/* ---- regions ---- */

static int mr_close(struct fid *fid)
{
	struct fake_region *region = (struct fake_region *) fid;
	char last;

	assert_true(region->open);
	if (fake.busy_closes) {
		fake.busy_closes--;
		return -FI_EBUSY;
	}
	/* what it is made of is still there */
	unit_buffer_copy(&last, region->data + region->size - 1, 1);
	region->open = false;
	return 0;
}

static int mr_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	assert_ptr_equal(to, &own.ep.fid);
	((struct fake_region *) fid)->bound = true;
	return 0;
}

/* A raw key has the plain one in it, in a way that nobody may rely on. */
static int mr_raw(struct fake_region *region, struct fi_mr_raw_attr *raw)
{
	if (*raw->key_size < FAKE_RAW_LEN)
		return -FI_ETOOSMALL;
	memset(raw->raw_key, 0x11, FAKE_RAW_LEN);
	memcpy(raw->raw_key + 3, &region->fid.key, sizeof region->fid.key);
	*raw->key_size = FAKE_RAW_LEN;
	*raw->base_addr = (uintptr_t) region->data;
	return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	struct fake_region *region = (struct fake_region *) fid;

	switch (command) {
	case FI_ENABLE:
		assert_int_equal(region->bound, has(FI_MR_ENDPOINT));
		region->enabled = true;
		return 0;
	case FI_REFRESH:
		region->refreshed = true;
		return 0;
	case FI_GET_RAW_MR:
		return mr_raw(region, arg);
	default:
		return -FI_ENOSYS;
	}
}

static struct fi_ops mr_ops = {
	.size = sizeof mr_ops,
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
};

static int mr_refused(const struct fi_mr_attr *attr)
{
	if (attr->iface == FI_HMEM_SYSTEM)
		return 0;
	if (attr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE) && fake.no_gpu_peers)
		return fake.no_gpu_peers;
	return fake.no_gpu;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr)
{
	struct fake_region *region = &fake.regions[fake.region_count];
	int ret = mr_refused(attr);

	assert_int_equal(attr->iov_count, 1);
	if (!ret && !has(FI_MR_PROV_KEY) && fake.taken_keys) {
		fake.taken_keys--;
		ret = -FI_ENOKEY;
	}
	if (ret)
		return ret;
	assert_in_range(fake.region_count, 0, FAKE_REGIONS - 1);
	*region = (struct fake_region){
		.data = attr->mr_iov->iov_base,
		.size = attr->mr_iov->iov_len,
		.access = attr->access,
		.iface = attr->iface,
		.device = attr->device.reserved,
		.open = true,
	};
	region->fid.fid.fclass = FI_CLASS_MR;
	region->fid.fid.ops = &mr_ops;
	region->fid.mem_desc = region;
	region->fid.key =
		has(FI_MR_PROV_KEY) ? 0x1000 + fake.region_count : attr->requested_key;
	fake.mr_flags = flags;
	fake.region_count++;
	*mr = &region->fid;
	return 0;
}

static struct fi_ops_mr domain_mr_ops = {.size = sizeof domain_mr_ops, .regattr = mr_regattr};

/* ---- the domain: raw keys ---- */

static int domain_control(struct fid *fid, int command, void *arg)
{
	struct fi_mr_map_raw *raw = arg;

	switch (command) {
	case FI_MAP_RAW_MR:
		if (raw->key_size != FAKE_RAW_LEN)
			return -FI_EINVAL;
		memcpy(raw->key, raw->raw_key + 3, sizeof *raw->key);
		fake.mapped++;
		return 0;
	case FI_UNMAP_KEY:
		fake.mapped--;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

static struct fi_ops domain_ops = {.size = sizeof domain_ops, .control = domain_control};

/* ---- the endpoint ---- */

static ssize_t post(const struct fi_msg_rma *msg, uint64_t flags, bool reads)
{
	const size_t at = fake.posted_count;
	int ret = fake.post_error;

	assert_int_equal(msg->iov_count, 1);
	assert_int_equal(msg->rma_iov_count, 1);
	assert_int_equal(msg->msg_iov->iov_len, msg->rma_iov->len);
	assert_true(flags & FI_COMPLETION);
	fake.post_error = 0;
	if (!ret && fake.no_room) {
		fake.no_room--;
		ret = -FI_EAGAIN;
	}
	if (ret)
		return ret;
	assert_in_range(at, 0, FAKE_OPS - 1);
	fake.posted[at] = msg->context;
	own.iov[at] = *msg->rma_iov;
	own.local[at] = *msg->msg_iov;
	own.reads[at] = reads;
	fake.posted_count++;
	fake.posts++;
	if (msg->rma_iov->len > fake.piece_max)
		fake.piece_max = msg->rma_iov->len;
	fake.flags = flags;
	fake.desc = msg->desc[0];
	return 0;
}

static ssize_t ep_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return post(msg, flags, true);
}

static ssize_t ep_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return post(msg, flags, false);
}

static struct fi_ops_rma ep_rma_ops = {
	.size = sizeof ep_rma_ops,
	.readmsg = ep_readmsg,
	.writemsg = ep_writemsg,
};

static int ep_path(struct fid *fid, const void *buf, size_t len, enum fi_p2p_path *path,
		   char *reason, size_t size)
{
	if (fake.path_error)
		return fake.path_error;
	*path = fake.path;
	return 0;
}

static int ep_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
		       void *context)
{
	static struct fi_p2p_stats_ops stats = {.size = sizeof stats, .path = ep_path};

	if (fake.path == FI_P2P_PATH_MAX || strcmp(name, FI_P2P_STATS_OPS) != 0)
		return -FI_ENOSYS;
	*ops = &stats;
	return 0;
}

static struct fi_ops ep_ops = {.size = sizeof ep_ops, .ops_open = ep_ops_open};

/* ---- for the tests ---- */

struct p2p_buffer_context *fake_open_another(size_t max_msg_size)
{
	struct p2p_buffer_context *context = NULL;

	own.ep_attr.max_msg_size = max_msg_size;
	assert_int_equal(p2p_buffer_context_open(&own.domain, &own.ep, &fake.info, &context),
			 0);
	return context;
}

struct p2p_buffer_context *fake_open(int mr_mode, uint64_t caps)
{
	memset(&fake, 0, sizeof fake);
	memset(&own, 0, sizeof own);
	fake.path = FI_P2P_PATH_MAX;
	own.domain.fid.ops = &domain_ops;
	own.domain.mr = &domain_mr_ops;
	own.ep.fid.ops = &ep_ops;
	own.ep.rma = &ep_rma_ops;
	own.domain_attr.mr_mode = mr_mode;
	own.domain_attr.mr_key_size = 4;
	own.tx_attr.op_flags = FI_DELIVERY_COMPLETE | FI_INJECT;
	fake.info.caps = FI_RMA | FI_MSG | caps;
	fake.info.domain_attr = &own.domain_attr;
	fake.info.ep_attr = &own.ep_attr;
	fake.info.tx_attr = &own.tx_attr;
	return fake_open_another(SIZE_MAX);
}

size_t fake_open_regions(void)
{
	size_t count = 0;

	for (size_t i = 0; i < fake.region_count; i++)
		count += fake.regions[i].open;
	return count;
}

void fake_close(struct p2p_buffer_context *context)
{
	assert_int_equal(p2p_buffer_context_close(context), 0);
	assert_int_equal(fake_open_regions(), 0);
	assert_int_equal(fake.mapped, 0);
	assert_int_equal(fake.posted_count, 0);
}

struct fake_region *fake_region(void)
{
	return &fake.regions[fake.region_count - 1];
}

/* The memory that an operation is about; it has to be all there */
static char *reach(const struct fi_rma_iov *iov, uint64_t access)
{
	for (size_t i = 0; i < fake.region_count; i++) {
		struct fake_region *region = &fake.regions[i];
		const uint64_t base = has(FI_MR_VIRT_ADDR) ? (uintptr_t) region->data : 0;

		if (!region->open || region->fid.key != iov->key)
			continue;
		assert_true(region->access & access);
		assert_true(!has(FI_MR_ENDPOINT | FI_MR_RMA_EVENT) || region->enabled);
		assert_in_range(iov->addr, base, base + region->size);
		assert_in_range(iov->len, 0, base + region->size - iov->addr);
		return region->data + (iov->addr - base);
	}
	return NULL;
}

struct p2p_buffer_op *fake_end(int err)
{
	void *context = fake.posted[0];
	char *local = own.local[0].iov_base, *remote;
	const size_t len = own.iov[0].len;

	assert_in_range(fake.posted_count, 1, FAKE_OPS);
	remote = reach(&own.iov[0], own.reads[0] ? FI_REMOTE_READ : FI_REMOTE_WRITE);
	if (!err) {
		assert_non_null(remote);
		unit_buffer_copy(own.reads[0] ? local : remote, own.reads[0] ? remote : local,
				 len);
	}
	fake.posted_count--;
	memmove(fake.posted, fake.posted + 1, fake.posted_count * sizeof fake.posted[0]);
	memmove(own.iov, own.iov + 1, fake.posted_count * sizeof own.iov[0]);
	memmove(own.local, own.local + 1, fake.posted_count * sizeof own.local[0]);
	memmove(own.reads, own.reads + 1, fake.posted_count * sizeof own.reads[0]);
	return context;
}
