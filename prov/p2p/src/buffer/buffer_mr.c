/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Registering memory, as the domain's mr_mode wants it. See buffer.h and fi_mr(3). */
#include "buffer/buffer.h"

#include <string.h>
#include <sys/random.h>

#define LOCAL_ACCESS (FI_READ | FI_WRITE)
#define PEER_ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)

/* Another region may have the same key by chance. So many are tried */
#define KEY_TRIES 16

/* FI_RMA_EVENT if regions are to count what peers do, else 0 */
static uint64_t mr_flags(const struct p2p_buffer_context *context)
{
	return context->mr_mode & FI_MR_RMA_EVENT ? context->caps & FI_RMA_EVENT : 0;
}

/* What a region has to be told before it can be used. One with FI_RMA_EVENT is disabled at first (fi_mr(3)), too. */
static int mr_finish(struct p2p_buffer_context *context, struct fid_mr *mr,
		     const struct iovec *iov)
{
	int ret = 0;

	if (context->mr_mode & FI_MR_ENDPOINT)
		ret = fi_mr_bind(mr, &context->ep->fid, 0);
	if (!ret && (context->mr_mode & FI_MR_ENDPOINT || mr_flags(context)))
		ret = fi_mr_enable(mr);
	if (!ret && context->mr_mode & FI_MR_MMU_NOTIFY)
		ret = fi_mr_refresh(mr, iov, 1, 0);
	return ret;
}

/* A key that only those know who were told it */
static int random_key(const struct p2p_buffer_context *context, uint64_t *key)
{
	do {
		if (getrandom(key, sizeof *key, 0) != (ssize_t) sizeof *key)
			return -FI_EIO;
		*key &= context->key_mask;
	} while (*key == FI_KEY_NOTAVAIL);
	return 0;
}

static int mr_register(struct p2p_buffer_context *context, struct fi_mr_attr *attr,
		       struct fid_mr **mr)
{
	const uint64_t flags = mr_flags(context);
	int ret = -FI_ENOKEY;

	if (context->mr_mode & FI_MR_PROV_KEY)
		return fi_mr_regattr(context->domain, attr, flags, mr);
	for (int i = 0; ret == -FI_ENOKEY && i < KEY_TRIES; i++) {
		ret = random_key(context, &attr->requested_key);
		if (!ret)
			ret = fi_mr_regattr(context->domain, attr, flags, mr);
	}
	return ret;
}

static int mr_open(struct p2p_buffer_context *context, const struct dev_ops *ops, int gpu,
		   const struct iovec *iov, uint64_t access, struct buffer_mr *reg)
{
	union {
		struct fi_mr_attr attr;
		char room[sizeof(struct fi_mr_attr) + BUFFER_TAIL_ROOM];
	} u = {.room = {0}};
	struct fid_mr *mr;
	int ret;

	u.attr.mr_iov = iov;
	u.attr.iov_count = 1;
	u.attr.access = access;
	if (context->caps & (FI_MSG | FI_TAGGED))
		u.attr.access |= FI_SEND | FI_RECV;
	/* Who has not asked for FI_HMEM may not name a kind of memory. A hook sees what it is. */
	if (ops && context->caps & FI_HMEM) {
		u.attr.iface = (enum fi_hmem_iface) ops->iface;
		u.attr.device.reserved = (uint64_t) gpu;
	}
	ret = mr_register(context, &u.attr, &mr);
	if (ret)
		return ret;
	ret = mr_finish(context, mr, iov);
	if (ret)
		fi_close(&mr->fid);
	else
		reg->mr = mr;
	return ret;
}

int buffer_mr_open(struct p2p_buffer_context *context, void *data, size_t size,
		   struct buffer_mr *reg)
{
	const struct iovec iov = {data, size};

	return mr_open(context, NULL, P2P_BUFFER_HOST, &iov, LOCAL_ACCESS, reg);
}

int buffer_mr_open_shared(struct p2p_buffer_context *context, const struct dev_ops *ops,
			  int gpu, void *data, size_t size, struct buffer_mr *reg)
{
	const struct iovec iov = {data, size};
	int ret = mr_open(context, ops, gpu, &iov, LOCAL_ACCESS | PEER_ACCESS, reg);

	reg->shared = ret;
	if (ret && ops)
		ret = mr_open(context, ops, gpu, &iov, LOCAL_ACCESS, reg) ? ret : 0;
	return ret;
}

int buffer_mr_close(struct buffer_mr *reg)
{
	int ret = reg->mr ? fi_close(&reg->mr->fid) : 0;

	if (!ret)
		reg->mr = NULL;
	return ret;
}

bool buffer_gpu_taken(struct p2p_buffer_context *context, const void *data, size_t size)
{
	struct fi_p2p_stats_ops *stats = NULL;
	char reason[FI_P2P_REASON_MAX];
	enum fi_p2p_path path;
	int ret;

	/* Not before a GPU is used: from then on the endpoint counts host messages, too. */
	if (!context->stats &&
	    !fi_open_ops(&context->ep->fid, FI_P2P_STATS_OPS, 0, (void **) &stats, NULL))
		context->stats = stats;
	if (!context->stats)
		return context->caps & FI_HMEM;
	ret = context->stats->path(&context->ep->fid, data, size, &path, reason, sizeof reason);
	/* It may have no room just now. What it takes for host memory it would read by the CPU. */
	return ret == -FI_EAGAIN || (!ret && path != FI_P2P_PATH_HOST);
}
