/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What NCCL and its plugins hand each other: the layouts of NCCL 2.28 (plugins/net and plugins/gin of its source) and of
 * NCCL's proxy for remote memory since 2.30.7 (plugins/rma). Each table is found by a symbol with its version.
 */
#ifndef P2P_NCCL_API_H
#define P2P_NCCL_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_EXPORT __attribute__((visibility("default")))

/** enum nccl_result - what each call returns (ncclResult_t) */
enum nccl_result {
	NCCL_SUCCESS,
	NCCL_CUDA_ERROR,
	NCCL_SYSTEM_ERROR,
	NCCL_INTERNAL_ERROR,
	NCCL_INVALID_ARGUMENT,
	NCCL_INVALID_USAGE,
	NCCL_REMOTE_ERROR,
};

/* What is exchanged between ranks to connect them, at most [bytes] */
#define NCCL_HANDLE_MAX 128

/* Requests under way for each communicator, by which NCCL sizes its queues */
#define NCCL_REQUESTS 32

/* Kinds of memory */
#define NCCL_HOST 1
#define NCCL_CUDA 2

/* What a signal does to its word */
#define NCCL_SIGNAL_INC 1
#define NCCL_SIGNAL_ADD 2

/* Who carries out what kernels ask for: here NCCL's own thread, by calls of the plugin */
#define NCCL_DEVICE_HOST 0
#define NCCL_DEVICE_PROXY 2
#define NCCL_DEVICE_PROXY_VERSION 100

#define NCCL_LOG_WARN 2
#define NCCL_LOG_INFO 3
#define NCCL_LOG_NET 16

typedef void (*nccl_logger)(int level, unsigned long flags, const char *file, int line,
			    const char *format, ...);

/** struct nccl_props - what a device is like: the part that all versions have */
struct nccl_props {
	char *name;
	char *pci_path;
	uint64_t guid;
	int memory;
	int global_regions;
	int force_flush;
	int speed;
	int port;
	float latency;
	int comms_max;
	int recvs_max;
	int device_type;
	int device_version;
};

/** struct nccl_props_v11 - what a device is like (ncclNetProperties_v11_t) */
struct nccl_props_v11 {
	struct nccl_props device;
	struct {
		int count;
		int devs[4];
	} parts;
	size_t p2p_max;
	size_t coll_max;
	int multi_max;
};

/** struct nccl_props_v12 - the same of NCCL 2.30 (ncclNetProperties_v12_t) */
struct nccl_props_v12 {
	struct nccl_props device;
	struct {
		int count;
		int devs[8];
	} parts;
	size_t p2p_max;
	size_t coll_max;
	int multi_max;
	int16_t rail;
	int16_t plane;
};

/** struct nccl_net_v11 - messages (ncclNet_v11_t) */
struct nccl_net_v11 {
	const char *name;
	int (*init)(void **ctx, uint64_t comm, void *config, nccl_logger log, void *profiler);
	int (*devices)(int *count);
	int (*get_properties)(int dev, struct nccl_props_v11 *props);
	int (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	int (*connect)(void *ctx, int dev, void *handle, void **send_comm, void **dev_comm);
	int (*accept)(void *listen_comm, void **recv_comm, void **dev_comm);
	int (*reg_mr)(void *comm, void *data, size_t size, int type, void **mr);
	int (*reg_mr_dmabuf)(void *comm, void *data, size_t size, int type, uint64_t off,
			     int fd, void **mr);
	int (*dereg_mr)(void *comm, void *mr);
	int (*isend)(void *comm, void *data, size_t size, int tag, void *mr, void *profile,
		     void **req);
	int (*irecv)(void *comm, int count, void **data, size_t *sizes, int *tags, void **mrs,
		     void **profiles, void **req);
	int (*iflush)(void *comm, int count, void **data, int *sizes, void **mrs, void **req);
	int (*test)(void *req, int *done, int *sizes);
	int (*close_send)(void *comm);
	int (*close_recv)(void *comm);
	int (*close_listen)(void *comm);
	int (*get_device_mr)(void *comm, void *mr, void **device_mr);
	int (*irecv_consumed)(void *comm, int count, void *req);
	int (*make_device)(int *dev, void *props);
	int (*finalize)(void *ctx);
	int (*set_attr)(void *ctx, void *attr);
};

/** struct nccl_gin_v11 - puts and signals (ncclGin_v11_t) */
struct nccl_gin_v11 {
	const char *name;
	int (*init)(void **ctx, uint64_t comm, nccl_logger log);
	int (*devices)(int *count);
	int (*get_properties)(int dev, struct nccl_props_v11 *props);
	int (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	int (*connect)(void *ctx, void *handles[], int nranks, int rank, void *listen_comm,
		       void **coll);
	int (*create_context)(void *coll, int signals, int counters, void **gin_ctx,
			      void **dev_handle);
	int (*reg_mr)(void *coll, void *data, size_t size, int type, uint64_t flags, void **mr,
		      void **gin_mr);
	int (*reg_mr_dmabuf)(void *coll, void *data, size_t size, int type, uint64_t off,
			     int fd, uint64_t flags, void **mr, void **gin_mr);
	int (*dereg_mr)(void *coll, void *mr);
	int (*destroy_context)(void *gin_ctx);
	int (*close_coll)(void *coll);
	int (*close_listen)(void *listen_comm);
	int (*iput)(void *coll, uint64_t src_off, void *src_mr, size_t size, uint64_t dst_off,
		    void *dst_mr, uint32_t rank, void **req);
	int (*iput_signal)(void *coll, uint64_t src_off, void *src_mr, size_t size,
			   uint64_t dst_off, void *dst_mr, uint32_t rank, uint64_t signal_off,
			   void *signal_mr, uint64_t value, uint32_t op, void **req);
	int (*test)(void *coll, void *req, int *done);
	int (*progress)(void *coll);
	int (*last_error)(void *gin_ctx, bool *failed);
	int (*finalize)(void *ctx);
};

/** struct nccl_gin_v12 - the same of NCCL 2.29.7: a communicator has contexts, which it calls connections (ncclGin_v12_t) */
struct nccl_gin_v12 {
	const char *name;
	int (*init)(void **ctx, uint64_t comm, nccl_logger log);
	int (*devices)(int *count);
	int (*get_properties)(int dev, struct nccl_props_v11 *props);
	int (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	int (*connect)(void *ctx, void *handles[], int nranks, int rank, int contexts,
		       int depth, void *listen_comm, void **coll);
	int (*create_context)(void *coll, int signals, int counters, int contexts,
			      void **gin_ctx, void **dev_handle);
	int (*reg_mr)(void *coll, void *data, size_t size, int type, uint64_t flags, void **mr,
		      void **gin_mr);
	int (*reg_mr_dmabuf)(void *coll, void *data, size_t size, int type, uint64_t off,
			     int fd, uint64_t flags, void **mr, void **gin_mr);
	int (*dereg_mr)(void *coll, void *mr);
	int (*destroy_context)(void *gin_ctx);
	int (*close_coll)(void *coll);
	int (*close_listen)(void *listen_comm);
	int (*iput)(void *coll, uint64_t src_off, void *src_mr, size_t size, uint64_t dst_off,
		    void *dst_mr, uint32_t rank, int context, void **req);
	int (*iput_signal)(void *coll, uint64_t src_off, void *src_mr, size_t size,
			   uint64_t dst_off, void *dst_mr, uint32_t rank, uint64_t signal_off,
			   void *signal_mr, uint64_t value, uint32_t op, int context,
			   void **req);
	int (*test)(void *coll, void *req, int *done);
	int (*progress)(void *coll);
	int (*last_error)(void *gin_ctx, bool *failed);
	int (*finalize)(void *ctx);
};

/** struct nccl_gin_config_v13 - contexts of a communicator (ncclGinConfig_v13_t) */
struct nccl_gin_config_v13 {
	int signals;
	int counters;
	int contexts;
	int depth;
	int traffic_class;
};

/** struct nccl_rma_v13 - the same with contexts, reads and flushes (ncclRma_v13_t, which is ncclGin_v13_t) */
struct nccl_rma_v13 {
	const char *name;
	int (*init)(void **ctx, uint64_t comm, nccl_logger log);
	int (*devices)(int *count);
	int (*get_properties)(int dev, struct nccl_props_v12 *props);
	int (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	int (*connect)(void *ctx, void *handles[], int nranks, int rank, void *listen_comm,
		       void **coll);
	int (*create_context)(void *coll, struct nccl_gin_config_v13 *config, void **rma_ctx,
			      void **dev_handle);
	int (*reg_mr)(void *coll, void *data, size_t size, int type, uint64_t flags, void **mr,
		      void **gin_mr);
	int (*reg_mr_dmabuf)(void *coll, void *data, size_t size, int type, uint64_t off,
			     int fd, uint64_t flags, void **mr, void **gin_mr);
	int (*dereg_mr)(void *coll, void *mr);
	int (*destroy_context)(void *rma_ctx);
	int (*close_coll)(void *coll);
	int (*close_listen)(void *listen_comm);
	int (*iput)(void *rma_ctx, int context, uint64_t src_off, void *src_mr, size_t size,
		    uint64_t dst_off, void *dst_mr, uint32_t rank, void **req);
	int (*iput_signal)(void *rma_ctx, int context, uint64_t src_off, void *src_mr,
			   size_t size, uint64_t dst_off, void *dst_mr, uint32_t rank,
			   uint64_t signal_off, void *signal_mr, uint64_t value, uint32_t op,
			   void **req);
	int (*iget)(void *rma_ctx, int context, uint64_t remote_off, void *remote_mr,
		    size_t size, uint64_t local_off, void *local_mr, uint32_t rank, void **req);
	int (*iflush)(void *rma_ctx, int context, void *mr, uint32_t rank, void **req);
	int (*test)(void *coll, void *req, int *done);
	int (*progress)(void *rma_ctx);
	int (*last_error)(void *rma_ctx, bool *failed);
	int (*finalize)(void *ctx);
};

/** struct nccl_rma_config_v14 - contexts of a communicator (ncclRmaConfig_v14_t) */
struct nccl_rma_config_v14 {
	int contexts;
	int traffic_class;
	int rank_stride;
};

/** struct nccl_rma_v14 - the same with weak signals (ncclRma_v14_t) */
struct nccl_rma_v14 {
	const char *name;
	int (*init)(void **ctx, uint64_t comm, nccl_logger log);
	int (*devices)(int *count);
	int (*get_properties)(int dev, struct nccl_props_v12 *props);
	int (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	int (*connect)(void *ctx, void *handles[], int nranks, int rank, void *listen_comm,
		       void **coll);
	int (*create_context)(void *coll, struct nccl_rma_config_v14 *config, void **rma_ctx);
	int (*reg_mr)(void *coll, void *data, size_t size, int type, uint64_t flags, void **mr);
	int (*reg_mr_dmabuf)(void *coll, void *data, size_t size, int type, uint64_t off,
			     int fd, uint64_t flags, void **mr);
	int (*dereg_mr)(void *coll, void *mr);
	int (*destroy_context)(void *rma_ctx);
	int (*close_coll)(void *coll);
	int (*close_listen)(void *listen_comm);
	int (*iput)(void *rma_ctx, int context, uint64_t src_off, void *src_mr, size_t size,
		    uint64_t dst_off, void *dst_mr, uint32_t rank, void **req);
	int (*iput_signal)(void *rma_ctx, int context, uint64_t src_off, void *src_mr,
			   size_t size, uint64_t dst_off, void *dst_mr, uint32_t rank,
			   uint64_t signal_off, void *signal_mr, uint64_t value, uint32_t op,
			   bool strong, void **req);
	int (*iget)(void *rma_ctx, int context, uint64_t remote_off, void *remote_mr,
		    size_t size, uint64_t local_off, void *local_mr, uint32_t rank, void **req);
	int (*iflush)(void *rma_ctx, int context, void *mr, uint32_t rank, void **req);
	int (*test)(void *coll, void *req, int *done);
	int (*progress)(void *rma_ctx);
	int (*last_error)(void *rma_ctx, bool *failed);
	int (*finalize)(void *ctx);
};

/** struct nccl_rma_v15 - the same with hints: bits of @hints permit to gather requests (ncclRma_v15_t) */
struct nccl_rma_v15 {
	const char *name;
	int (*init)(void **ctx, uint64_t comm, nccl_logger log);
	int (*devices)(int *count);
	int (*get_properties)(int dev, struct nccl_props_v12 *props);
	int (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	int (*connect)(void *ctx, void *handles[], int nranks, int rank, void *listen_comm,
		       void **coll);
	int (*create_context)(void *coll, struct nccl_rma_config_v14 *config, void **rma_ctx);
	int (*reg_mr)(void *coll, void *data, size_t size, int type, uint64_t flags, void **mr);
	int (*reg_mr_dmabuf)(void *coll, void *data, size_t size, int type, uint64_t off,
			     int fd, uint64_t flags, void **mr);
	int (*dereg_mr)(void *coll, void *mr);
	int (*destroy_context)(void *rma_ctx);
	int (*close_coll)(void *coll);
	int (*close_listen)(void *listen_comm);
	int (*iput)(void *rma_ctx, int context, uint64_t src_off, void *src_mr, size_t size,
		    uint64_t dst_off, void *dst_mr, uint32_t rank, uint32_t hints, void **req);
	int (*iput_signal)(void *rma_ctx, int context, uint64_t src_off, void *src_mr,
			   size_t size, uint64_t dst_off, void *dst_mr, uint32_t rank,
			   uint64_t signal_off, void *signal_mr, uint64_t value, uint32_t op,
			   bool strong, uint32_t hints, void **req);
	int (*iget)(void *rma_ctx, int context, uint64_t remote_off, void *remote_mr,
		    size_t size, uint64_t local_off, void *local_mr, uint32_t rank,
		    uint32_t hints, void **req);
	int (*iflush)(void *rma_ctx, int context, void *mr, uint32_t rank, void **req);
	int (*test)(void *coll, void *req, int *done);
	int (*progress)(void *rma_ctx);
	int (*last_error)(void *rma_ctx, bool *failed);
	int (*finalize)(void *ctx);
};

#endif /* P2P_NCCL_API_H */
