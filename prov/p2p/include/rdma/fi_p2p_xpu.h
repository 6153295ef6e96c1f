/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Communication that a GPU starts, over any core provider: the calls of the host.
 *
 * fi_xpu(3) of libfabric 2.7 describes the model: endpoints, completion queues and counters are
 * exported to a GPU, whose kernels post operations and wait for them by the functions of
 * rdma/fi_p2p_xpu_device.h. Here a thread of the host, the proxy, posts what kernels ask for. So
 * any core provider will do, with any release of libfabric.
 *
 * With a libfabric that has rdma/fi_xpu.h, this header includes it. Otherwise it declares the same
 * structures under the same names.
 *
 * The functions are those of the table that fi_open_ops(3) returns for a domain:
 *
 *	struct fi_p2p_xpu_ops *xpu;
 *	fi_open_ops(&domain->fid, FI_P2P_XPU_OPS, 0, (void **) &xpu, NULL);
 *
 * With libfabric 2.7 the calls of fi_xpu(3) do the same, for objects that were opened with FI_XPU.
 */
#ifndef FI_P2P_XPU_H
#define FI_P2P_XPU_H

#include <stddef.h>
#include <stdint.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#if defined(__has_include)
#if __has_include(<rdma/fi_xpu.h>)
#include <rdma/fi_xpu.h>
#define FI_P2P_HAVE_FI_XPU 1
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FI_P2P_HAVE_FI_XPU

/** Who takes part in one call of a kernel: fi_xpu(3) */
enum {
	FI_XPU_WORK_ITEM,
	FI_XPU_SUBGROUP,
	FI_XPU_WORK_GROUP,
	FI_XPU_DEVICE,
};

/** Flag of fi_xpu_ops.alloc: the memory can be exported as a dma-buf */
#define FI_XPU_ALLOC_DMABUF (1ULL << 0)
/** Flag of fi_xpu_ops.import: the address is I/O memory */
#define FI_XPU_IMPORT_IOMEMORY (1ULL << 0)
/** Flag of fi_xpu_ops.import: kernels can use the resulting pointer */
#define FI_XPU_IMPORT_DEVICEMAP (1ULL << 1)

/** struct fi_xpu_ops - how the application wants memory to be had: fi_xpu(3) */
struct fi_xpu_ops {
	size_t size;
	int (*alloc)(uint64_t device, uint64_t size, uint64_t alignment, uint64_t flags,
		     void **addr, int *fd, uint64_t *offset);
	int (*import)(uint64_t device, void *host_addr, uint64_t size, uint64_t flags,
		      void **dev_addr);
	void (*free)(uint64_t device, void *addr);
};

/** struct fi_xpu_attr - which GPU: fi_xpu(3) */
struct fi_xpu_attr {
	enum fi_hmem_iface iface;
	uint64_t device;
	struct fi_xpu_ops *ops;
};

/** What a context can export: fi_xpu_ctx_attr.caps */
#define FI_XPU_CAP_EP (1ULL << 0)
#define FI_XPU_CAP_CQ (1ULL << 1)
#define FI_XPU_CAP_CNTR (1ULL << 2)

/** struct fi_xpu_ctx_attr - what a context offers: fi_xpu(3) */
struct fi_xpu_ctx_attr {
	uint64_t caps;
	size_t av_addr_size;
	size_t mr_desc_size;
};

struct fid_xpu_ctx;

struct fi_ops_xpu_ctx {
	size_t size;
	int (*query)(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr);
};

/** struct fid_xpu_ctx - a GPU as a domain sees it. fi_close(3) frees it. */
struct fid_xpu_ctx {
	struct fid fid;
	struct fi_ops_xpu_ctx *ops;
};

/** struct fid_xpu - what an exported object begins with: fi_xpu(3) */
struct fid_xpu {
	uint32_t fclass;
	uint32_t prov_id;
	uint64_t prov_ctx;
};

struct fid_xpu_ep {
	struct fid_xpu fid;
};

struct fid_xpu_cq {
	struct fid_xpu fid;
};

struct fid_xpu_cntr {
	struct fid_xpu fid;
};

static inline int fi_xpu_ctx_query(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr)
{
	return ctx->ops->query(ctx, attr);
}

#endif /* FI_P2P_HAVE_FI_XPU */

/** fid_xpu.prov_id of this provider's objects */
#define FI_XPU_PROV_P2P 0x503250U

/**
 * FI_P2P_XPU_EXCLUSIVE - flag of ep_export: each ring has one user at a time.
 *
 * A block of threads uses the ring of its number, modulo the number of rings. The application
 * promises that no two calls use one ring at once: no more blocks run than there are rings
 * (FI_P2P_XPU_RINGS), and in each block one thread calls at a time. A call then needs no atomic
 * operation.
 */
#define FI_P2P_XPU_EXCLUSIVE (1ULL << 0)

/**
 * struct fi_p2p_xpu_target - what a short operation names by a number alone.
 * @buf:	begin of local memory
 * @desc:	its descriptor (fi_mr_desc(3)), or NULL
 * @dest_addr:	the peer
 * @addr:	begin of the peer's memory, as fi_rma(3) wants it
 * @key:	its key
 *
 * Offsets that kernels give count from @buf and from @addr.
 */
struct fi_p2p_xpu_target {
	void *buf;
	void *desc;
	fi_addr_t dest_addr;
	uint64_t addr;
	uint64_t key;
};

/** How many targets an endpoint can have */
#define FI_P2P_XPU_TARGETS 4096

/** The most that mr_share() writes [bytes] */
#define FI_P2P_XPU_SHARE 256

/** The name for fi_open_ops(3) of a domain */
#define FI_P2P_XPU_OPS "p2p_xpu_ops"

/**
 * struct fi_p2p_xpu_ops - the host's calls.
 * @size:	the size of this structure [bytes]. An older provider lacks what is beyond it.
 *
 * The provider owns the structure. It is valid until the domain is closed. Any thread may call the
 * functions. All return 0 or a negative error; outputs are set only after success.
 *
 * int ctx(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx,
 *	   void *context)
 * As fi_xpu_ctx() of fi_xpu(3). The attribute's interface is FI_HMEM_CUDA, or FI_HMEM_SYSTEM: then
 * threads of the host play the kernels' part.
 * -FI_EOPNOTSUPP	the domain was opened with FI_THREAD_DOMAIN, or with a core provider that wants
 *			FI_CONTEXT; or it is not of ofi_p2p
 * -FI_ENODEV		there is no such GPU
 *
 * int ep_export(struct fid_xpu_ctx *ctx, struct fid_ep *ep, uint64_t flags,
 *		 struct fid_xpu_ep *xpu)
 * As fi_ep_export_xpu(). The endpoint is enabled. Queues and counters that it is bound to were
 * exported before, in the same context, or opened for it with FI_XPU; one without queues needs none.
 * @flags: FI_P2P_XPU_EXCLUSIVE or 0. From then on the host posts nothing on it.
 *
 * int cq_export(struct fid_xpu_ctx *ctx, struct fid_cq *cq, uint64_t flags,
 *		 struct fid_xpu_cq *xpu)
 * int cntr_export(struct fid_xpu_ctx *ctx, struct fid_cntr *cntr, uint64_t flags,
 *		   struct fid_xpu_cntr *xpu)
 * As fi_cq_export_xpu() and fi_cntr_export_xpu(). @flags: 0. From then on the host reads the queue no
 * more. It may read the counter.
 *
 * An object can be exported once. unexport() undoes that; so does closing the object, or the context. A
 * kernel that waits for it returns then. What kernels look at is freed when the context is closed: no
 * kernel may use it any more then.
 *
 * int unexport(struct fid_xpu_ctx *ctx, struct fid_xpu *xpu)
 * @xpu:	the host's copy of what an export has filled, as &xpu_ep.fid
 * Operations that kernels have posted, but which the proxy has not, are dropped. Then the host may use
 * the object again.
 * -FI_EBUSY	it is a queue, and its endpoint is still exported; or an endpoint, with puts under way that do not end
 *		within a second. They do when their peer takes them, or is found dead. So it is with fi_close() of
 *		the context
 *
 * int target_add(struct fid_ep *ep, const struct fi_p2p_xpu_target *target, uint32_t *number)
 * Gives a target of an exported endpoint the next number, from 0 on, for fi_p2p_xpu_put() and its
 * like. It is copied.
 * -FI_ENOSPC	there are FI_P2P_XPU_TARGETS
 *
 * int mr_share(struct fid_mr *mr, void *share, size_t *len)
 * Fills @share, up to FI_P2P_XPU_SHARE bytes, and sets *@len. With that another process of this host can map the region, which
 * is device memory. The application gives it to its peers, as it gives them the key, and they map it soon.
 * -FI_ETOOSMALL	*@len is less than that, which it becomes
 * -FI_EOPNOTSUPP	other processes cannot map this memory, the core provider serves it, or FI_P2P_PATH=stage; the log says
 *			which
 *
 * int target_map(struct fid_ep *ep, uint32_t number, const void *share, size_t len)
 * Maps the memory of a target, of which its owner has filled @share. Once all targets of a peer are mapped, kernels put and
 * signal to that peer by stores of their own. They also do what the calls of fi_xpu(3) ask for there, if the memory here is in
 * the GPU's allocation that the target's buf lies in. What is mapped stays so until the context is closed: also after the peer has
 * closed the region, or has ended. Stores to memory that its owner has freed reach nobody, and no error tells.
 *
 * Call it, and target_add() afterwards, from one thread at a time for an endpoint. All that was posted to the peer has been
 * counted by then, and no kernel uses the endpoint meanwhile: kernels that are launched later see the change.
 * -FI_EOPNOTSUPP	the peer is not on this host, is another user's, or is this process; the GPU cannot reach the memory; the
 *			target's buf is neither memory of this GPU nor pinned; or FI_P2P_PATH=stage. The log says which. The
 *			proxy goes on
 * -FI_EAGAIN		other memory of that process is open there, or too much (FI_P2P_MAP_SIZE, FI_P2P_MAP_COUNT)
 * -FI_EALREADY		the target is mapped
 * -FI_EKEYREJECTED	@share is of another key than the target, or the target's addr lies outside of its region
 * -FI_EACCES		the region is not for FI_REMOTE_WRITE
 *
 * int av_lookup2(struct fid_av *av, fi_addr_t addr, void *buf, size_t *len, uint64_t flags,
 *		  struct fid_xpu_ctx *ctx)
 * int mr_get_desc(struct fid_mr *mr, void *buf, size_t *len, uint64_t flags,
 *		   struct fid_xpu_ctx *ctx)
 * As fi_av_lookup2() and fi_mr_get_xpu_desc(): raw addresses and descriptors, of 8 bytes each. The
 * application copies them to memory that kernels reach, and kernels give their address as dest_addr and
 * as desc. A raw address is the fi_addr_t. @flags: 0 or FI_XPU.
 * -FI_ETOOSMALL	*@len is less than 8, which it becomes
 */
struct fi_p2p_xpu_ops {
	size_t size;
	int (*ctx)(struct fid_domain *domain, struct fi_xpu_attr *attr,
		   struct fid_xpu_ctx **ctx, void *context);
	int (*ep_export)(struct fid_xpu_ctx *ctx, struct fid_ep *ep, uint64_t flags,
			 struct fid_xpu_ep *xpu);
	int (*cq_export)(struct fid_xpu_ctx *ctx, struct fid_cq *cq, uint64_t flags,
			 struct fid_xpu_cq *xpu);
	int (*cntr_export)(struct fid_xpu_ctx *ctx, struct fid_cntr *cntr, uint64_t flags,
			   struct fid_xpu_cntr *xpu);
	int (*unexport)(struct fid_xpu_ctx *ctx, struct fid_xpu *xpu);
	int (*target_add)(struct fid_ep *ep, const struct fi_p2p_xpu_target *target,
			  uint32_t *number);
	int (*av_lookup2)(struct fid_av *av, fi_addr_t addr, void *buf, size_t *len,
			  uint64_t flags, struct fid_xpu_ctx *ctx);
	int (*mr_get_desc)(struct fid_mr *mr, void *buf, size_t *len, uint64_t flags,
			   struct fid_xpu_ctx *ctx);
	int (*mr_share)(struct fid_mr *mr, void *share, size_t *len);
	int (*target_map)(struct fid_ep *ep, uint32_t number, const void *share, size_t len);
};

#ifdef __cplusplus
}
#endif

#endif /* FI_P2P_XPU_H */
