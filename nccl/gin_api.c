/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What NCCL calls for puts and signals: its GIN interface, whose kernels' requests NCCL's own thread reads (a proxy), and the
 * interfaces for remote memory that do this since 2.30.7. All are gin.c by other names.
 */
#include <rdma/fi_errno.h>

#include "gin.h"

/* 256 requests may be under way with each rank in a context. */
#define API_BATCH 8

/*
 * What init() returns to finalize(). NCCL 2.28 finalizes every communicator, and has called init() for the first alone: the
 * others have no context.
 */
static char api_begun;

static int api_init(void **ctx, uint64_t comm, nccl_logger log)
{
	int ret;

	fabric_logger(log);
	ret = fabric_open();
	if (!ret && !fabric_reaches()) {
		fabric_note(
			"no puts and signals: the provider has no remote memory or no atomics");
		fabric_close();
		ret = -FI_ENODATA;
	}
	*ctx = ret ? NULL : &api_begun;
	return ret ? NCCL_SYSTEM_ERROR : NCCL_SUCCESS;
}

static int api_finalize(void *ctx)
{
	if (ctx)
		fabric_close();
	return NCCL_SUCCESS;
}

static int api_devices(int *count)
{
	*count = 1;
	return NCCL_SUCCESS;
}

static int api_properties_v11(int dev, struct nccl_props_v11 *props)
{
	*props = (struct nccl_props_v11){
		.device = fabric_props(NCCL_DEVICE_PROXY, NCCL_DEVICE_PROXY_VERSION, API_BATCH),
		.parts = {.count = 1},
		.p2p_max = fabric_info()->ep_attr->max_msg_size,
		.coll_max = fabric_info()->ep_attr->max_msg_size,
		.multi_max = 1,
	};
	return NCCL_SUCCESS;
}

static int api_properties_v12(int dev, struct nccl_props_v12 *props)
{
	*props = (struct nccl_props_v12){
		.device = fabric_props(NCCL_DEVICE_PROXY, NCCL_DEVICE_PROXY_VERSION, API_BATCH),
		.parts = {.count = 1},
		.p2p_max = fabric_info()->ep_attr->max_msg_size,
		.coll_max = fabric_info()->ep_attr->max_msg_size,
		.multi_max = 1,
		.rail = -1,
		.plane = -1,
	};
	return NCCL_SUCCESS;
}

static int api_listen(void *ctx, int dev, void *handle, void **listens)
{
	return gin_listen(handle, listens);
}

static int api_connect(void *ctx, void *handles[], int nranks, int rank, void *listens,
		       void **coll)
{
	struct gin_coll *made = NULL;
	int ret = gin_connect(handles, nranks, rank, listens, &made);

	*coll = made;
	return ret;
}

static int api_create_context(void *coll, struct nccl_rma_config_v14 *config, void **rma_ctx)
{
	struct gin_ctx *made = NULL;
	int ret = gin_ctx_open(coll, config->contexts, &made);

	*rma_ctx = made;
	return ret;
}

static int api_destroy_context(void *rma_ctx)
{
	gin_ctx_close(rma_ctx);
	return NCCL_SUCCESS;
}

static int api_close_coll(void *coll)
{
	return gin_coll_close(coll);
}

static int api_reg_mr(void *coll, void *data, size_t size, int type, uint64_t flags, void **mr)
{
	struct gin_mr *made = NULL;
	int ret = gin_mr_open(coll, data, size, type, &made);

	*mr = made;
	return ret;
}

/* NCCL does not ask for it, as the properties do not offer it */
static int api_reg_mr_dmabuf(void *coll, void *data, size_t size, int type, uint64_t off,
			     int fd, uint64_t flags, void **mr)
{
	return NCCL_INVALID_USAGE;
}

static int api_dereg_mr(void *coll, void *mr)
{
	return gin_mr_close(mr);
}

static int api_iput(void *rma_ctx, int context, uint64_t src_off, void *src_mr, size_t size,
		    uint64_t dst_off, void *dst_mr, uint32_t rank, void **req)
{
	return gin_put(rma_ctx, context, (struct gin_place){src_mr, src_off}, size,
		       (struct gin_place){dst_mr, dst_off}, rank, NULL,
		       (struct gin_req **) req);
}

static int api_iput_signal(void *rma_ctx, int context, uint64_t src_off, void *src_mr,
			   size_t size, uint64_t dst_off, void *dst_mr, uint32_t rank,
			   uint64_t signal_off, void *signal_mr, uint64_t value, uint32_t op,
			   bool strong, void **req)
{
	const struct gin_signal signal = {
		.place = {signal_mr, signal_off},
		.value = op == NCCL_SIGNAL_INC ? 1 : value,
		.strong = strong,
	};

	if (op != NCCL_SIGNAL_INC && op != NCCL_SIGNAL_ADD)
		return NCCL_INVALID_ARGUMENT;
	return gin_put(rma_ctx, context, (struct gin_place){src_mr, src_off}, size,
		       (struct gin_place){dst_mr, dst_off}, rank, &signal,
		       (struct gin_req **) req);
}

static int api_iget(void *rma_ctx, int context, uint64_t remote_off, void *remote_mr,
		    size_t size, uint64_t local_off, void *local_mr, uint32_t rank, void **req)
{
	return gin_get(rma_ctx, context, (struct gin_place){remote_mr, remote_off}, size,
		       (struct gin_place){local_mr, local_off}, rank, (struct gin_req **) req);
}

static int api_iflush(void *rma_ctx, int context, void *mr, uint32_t rank, void **req)
{
	return gin_flush(rma_ctx, context, rank, (struct gin_req **) req);
}

static int api_test(void *coll, void *req, int *done)
{
	return gin_test(req, done);
}

static int api_progress(void *rma_ctx)
{
	return gin_progress(gin_ctx_coll(rma_ctx));
}

static int api_last_error(void *rma_ctx, bool *failed)
{
	*failed = gin_failed(gin_ctx_coll(rma_ctx));
	return NCCL_SUCCESS;
}

NCCL_EXPORT const struct nccl_rma_v14 ncclRmaPlugin_v14 = {
	.name = "p2p",
	.init = api_init,
	.devices = api_devices,
	.get_properties = api_properties_v12,
	.listen = api_listen,
	.connect = api_connect,
	.create_context = api_create_context,
	.reg_mr = api_reg_mr,
	.reg_mr_dmabuf = api_reg_mr_dmabuf,
	.dereg_mr = api_dereg_mr,
	.destroy_context = api_destroy_context,
	.close_coll = api_close_coll,
	.close_listen = gin_listen_close,
	.iput = api_iput,
	.iput_signal = api_iput_signal,
	.iget = api_iget,
	.iflush = api_iflush,
	.test = api_test,
	.progress = api_progress,
	.last_error = api_last_error,
	.finalize = api_finalize,
};

/* ---- NCCL after 2.30.7 hints that more is to come. Nothing waits here for more, so hints change nothing. ---- */

static int api_iput_v15(void *rma_ctx, int context, uint64_t src_off, void *src_mr, size_t size,
			uint64_t dst_off, void *dst_mr, uint32_t rank, uint32_t hints,
			void **req)
{
	return api_iput(rma_ctx, context, src_off, src_mr, size, dst_off, dst_mr, rank, req);
}

static int api_iput_signal_v15(void *rma_ctx, int context, uint64_t src_off, void *src_mr,
			       size_t size, uint64_t dst_off, void *dst_mr, uint32_t rank,
			       uint64_t signal_off, void *signal_mr, uint64_t value,
			       uint32_t op, bool strong, uint32_t hints, void **req)
{
	return api_iput_signal(rma_ctx, context, src_off, src_mr, size, dst_off, dst_mr, rank,
			       signal_off, signal_mr, value, op, strong, req);
}

static int api_iget_v15(void *rma_ctx, int context, uint64_t remote_off, void *remote_mr,
			size_t size, uint64_t local_off, void *local_mr, uint32_t rank,
			uint32_t hints, void **req)
{
	return api_iget(rma_ctx, context, remote_off, remote_mr, size, local_off, local_mr,
			rank, req);
}

NCCL_EXPORT const struct nccl_rma_v15 ncclRmaPlugin_v15 = {
	.name = "p2p",
	.init = api_init,
	.devices = api_devices,
	.get_properties = api_properties_v12,
	.listen = api_listen,
	.connect = api_connect,
	.create_context = api_create_context,
	.reg_mr = api_reg_mr,
	.reg_mr_dmabuf = api_reg_mr_dmabuf,
	.dereg_mr = api_dereg_mr,
	.destroy_context = api_destroy_context,
	.close_coll = api_close_coll,
	.close_listen = gin_listen_close,
	.iput = api_iput_v15,
	.iput_signal = api_iput_signal_v15,
	.iget = api_iget_v15,
	.iflush = api_iflush,
	.test = api_test,
	.progress = api_progress,
	.last_error = api_last_error,
	.finalize = api_finalize,
};

/*
 * ---- NCCL 2.30: all signals are strong ----
 *
 * Neither this nor the next table tells of errors by itself: NCCL 2.30.3 and 2.30.4 hand a context of their own over. Failed
 * requests tell.
 */

static int api_create_context_v13(void *coll, struct nccl_gin_config_v13 *config,
				  void **rma_ctx, void **dev_handle)
{
	struct nccl_rma_config_v14 wants = {.contexts = config->contexts};

	return api_create_context(coll, &wants, rma_ctx);
}

static int api_reg_mr_v13(void *coll, void *data, size_t size, int type, uint64_t flags,
			  void **mr, void **gin_mr)
{
	int ret = api_reg_mr(coll, data, size, type, flags, mr);

	*gin_mr = *mr;
	return ret;
}

static int api_reg_mr_dmabuf_v13(void *coll, void *data, size_t size, int type, uint64_t off,
				 int fd, uint64_t flags, void **mr, void **gin_mr)
{
	return NCCL_INVALID_USAGE;
}

static int api_iput_signal_v13(void *rma_ctx, int context, uint64_t src_off, void *src_mr,
			       size_t size, uint64_t dst_off, void *dst_mr, uint32_t rank,
			       uint64_t signal_off, void *signal_mr, uint64_t value,
			       uint32_t op, void **req)
{
	return api_iput_signal(rma_ctx, context, src_off, src_mr, size, dst_off, dst_mr, rank,
			       signal_off, signal_mr, value, op, true, req);
}

NCCL_EXPORT const struct nccl_rma_v13 ncclRmaPlugin_v13 = {
	.name = "p2p",
	.init = api_init,
	.devices = api_devices,
	.get_properties = api_properties_v12,
	.listen = api_listen,
	.connect = api_connect,
	.create_context = api_create_context_v13,
	.reg_mr = api_reg_mr_v13,
	.reg_mr_dmabuf = api_reg_mr_dmabuf_v13,
	.dereg_mr = api_dereg_mr,
	.destroy_context = api_destroy_context,
	.close_coll = api_close_coll,
	.close_listen = gin_listen_close,
	.iput = api_iput,
	.iput_signal = api_iput_signal_v13,
	.iget = api_iget,
	.iflush = api_iflush,
	.test = api_test,
	.progress = api_progress,
	.finalize = api_finalize,
};

/* Puts by kernels of 2.30.3 and 2.30.4. Without it they would take version 11, which has no reads, and crash at a flush. */
extern const struct nccl_rma_v13 ncclGinPlugin_v13
	__attribute__((alias("ncclRmaPlugin_v13"), visibility("default")));

/* ---- NCCL 2.29.7: a communicator is its contexts, and all signals are strong ---- */

static int api_connect_v12(void *ctx, void *handles[], int nranks, int rank, int contexts,
			   int depth, void *listens, void **coll)
{
	struct gin_coll *made = NULL;
	struct gin_ctx *all = NULL;
	int ret = gin_connect(handles, nranks, rank, listens, &made);

	if (!ret) {
		ret = gin_ctx_open(made, contexts, &all);
		if (ret)
			gin_coll_close(made);
	}
	*coll = all;
	return ret;
}

static int api_close_coll_v12(void *coll)
{
	return gin_coll_close(gin_ctx_coll(coll));
}

static int api_reg_mr_v12(void *coll, void *data, size_t size, int type, uint64_t flags,
			  void **mr, void **gin_mr)
{
	return api_reg_mr_v13(gin_ctx_coll(coll), data, size, type, flags, mr, gin_mr);
}

static int api_iput_v12(void *coll, uint64_t src_off, void *src_mr, size_t size,
			uint64_t dst_off, void *dst_mr, uint32_t rank, int context, void **req)
{
	return api_iput(coll, context, src_off, src_mr, size, dst_off, dst_mr, rank, req);
}

static int api_iput_signal_v12(void *coll, uint64_t src_off, void *src_mr, size_t size,
			       uint64_t dst_off, void *dst_mr, uint32_t rank,
			       uint64_t signal_off, void *signal_mr, uint64_t value,
			       uint32_t op, int context, void **req)
{
	return api_iput_signal(coll, context, src_off, src_mr, size, dst_off, dst_mr, rank,
			       signal_off, signal_mr, value, op, true, req);
}

NCCL_EXPORT const struct nccl_gin_v12 ncclGinPlugin_v12 = {
	.name = "p2p",
	.init = api_init,
	.devices = api_devices,
	.get_properties = api_properties_v11,
	.listen = api_listen,
	.connect = api_connect_v12,
	.reg_mr = api_reg_mr_v12,
	.reg_mr_dmabuf = api_reg_mr_dmabuf_v13,
	.dereg_mr = api_dereg_mr,
	.close_coll = api_close_coll_v12,
	.close_listen = gin_listen_close,
	.iput = api_iput_v12,
	.iput_signal = api_iput_signal_v12,
	.test = api_test,
	.progress = api_progress,
	.finalize = api_finalize,
};

/* ---- NCCL 2.28: a communicator has one context ---- */

static int api_connect_v11(void *ctx, void *handles[], int nranks, int rank, void *listens,
			   void **coll)
{
	return api_connect_v12(ctx, handles, nranks, rank, 1, 0, listens, coll);
}

static int api_iput_v11(void *coll, uint64_t src_off, void *src_mr, size_t size,
			uint64_t dst_off, void *dst_mr, uint32_t rank, void **req)
{
	return api_iput(coll, 0, src_off, src_mr, size, dst_off, dst_mr, rank, req);
}

static int api_iput_signal_v11(void *coll, uint64_t src_off, void *src_mr, size_t size,
			       uint64_t dst_off, void *dst_mr, uint32_t rank,
			       uint64_t signal_off, void *signal_mr, uint64_t value,
			       uint32_t op, void **req)
{
	return api_iput_signal(coll, 0, src_off, src_mr, size, dst_off, dst_mr, rank,
			       signal_off, signal_mr, value, op, true, req);
}

NCCL_EXPORT const struct nccl_gin_v11 ncclGinPlugin_v11 = {
	.name = "p2p",
	.init = api_init,
	.devices = api_devices,
	.get_properties = api_properties_v11,
	.listen = api_listen,
	.connect = api_connect_v11,
	.reg_mr = api_reg_mr_v12,
	.reg_mr_dmabuf = api_reg_mr_dmabuf_v13,
	.dereg_mr = api_dereg_mr,
	.close_coll = api_close_coll_v12,
	.close_listen = gin_listen_close,
	.iput = api_iput_v11,
	.iput_signal = api_iput_signal_v11,
	.test = api_test,
	.progress = api_progress,
	.finalize = api_finalize,
};
