/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What NCCL's plugin for libfabric (aws-ofi-nccl 1.21) does with it: the calls, their arguments and their order,
 * written anew. The plugin itself is not needed.
 */
#ifndef NCCL_H
#define NCCL_H

#include <pthread.h>
#include <stdatomic.h>

#include "ft_test.h"

/* Its numbers: of completions read at once, of a queue's entries, of bytes in a name, of those in a flush */
#define NCCL_READS 4
#define NCCL_CQ_SIZE 12288
#define NCCL_NAME_MAX 56
#define NCCL_FLUSH_LEN 4

#define NCCL_DEVS 2
#define NCCL_CM_RECVS 32
#define NCCL_COMMS 4 /* of an endpoint: half of them send */

struct nccl_ep;

/**
 * struct nccl_req - an operation. @arrived: called with its completion, or NULL
 */
struct nccl_req {
	struct fi_context2 context;
	int (*arrived)(struct nccl_ep *ep, struct nccl_req *req);
	bool done;
	struct fi_cq_tagged_entry comp;
	fi_addr_t source;
};

/** enum nccl_kind - the plugin's two protocols, and the endpoints of GIN beside the second one's */
enum nccl_kind { NCCL_SENDRECV, NCCL_RDMA, NCCL_GIN };

/**
 * struct nccl_dev - a NIC.
 * @version:	of libfabric's interface, which the plugin has asked for
 * @next_key:	keys are numbers, where the provider does not choose them
 */
struct nccl_dev {
	struct ft_proc *proc;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	uint32_t version;
	uint64_t next_key;
};

struct nccl_name {
	char bytes[NCCL_NAME_MAX];
};

/** struct nccl_cm_msg - what connects communicator @to at the other end */
struct nccl_cm_msg {
	uint32_t answer, to;
	uint64_t tag;
	struct nccl_name cm, name;
};

/**
 * struct nccl_comm - a communicator: messages one way
 * @buf:	its buffer, and @mr; @flush: what flushes are read to, with @flush_mr
 */
struct nccl_comm {
	bool sends, connected;
	fi_addr_t peer;
	uint64_t tag;
	struct ft_buf buf;
	struct fid_mr *mr;
	void *flush;
	struct fid_mr *flush_mr;
};

struct nccl_cm_req {
	struct nccl_req req;
	struct nccl_cm_msg *msg;
};

/**
 * struct nccl_ep - the endpoint of a thread, and the one beside it that connects communicators. Both have one queue.
 * @foreign:	gets a completion that has no context (written by a peer); NULL: there may be none
 */
struct nccl_ep {
	struct nccl_dev *dev;
	enum nccl_kind kind;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct nccl_name name;
	fi_addr_t self;
	struct fid_av *cm_av;
	struct fid_ep *cm_ep;
	struct nccl_name cm_name;
	struct nccl_cm_msg *cm_room;
	struct fid_mr *cm_mr;
	struct nccl_cm_req cm_recv[NCCL_CM_RECVS], cm_send[2 * NCCL_COMMS];
	size_t cm_sends, cm_sent;
	struct nccl_comm comm[NCCL_COMMS];
	uint64_t tags;
	int (*foreign)(struct nccl_ep *ep, const struct fi_cq_tagged_entry *comp);
	void *test;
};

/** nccl_is_gpu() - is the memory under test a device's? */
bool nccl_is_gpu(const struct ft_proc *proc);
/**
 * nccl_find() - what fi_getinfo() says to the hints of a protocol, as the plugin takes it. @like: the RDMA protocol's
 * info, for NCCL_GIN. Skips if there is nothing.
 */
int nccl_find(struct ft_proc *proc, enum nccl_kind kind, const struct fi_info *like,
	      struct fi_info **list, uint32_t *version);
/** nccl_devs_open() - two NICs: those that there are, or one of them twice */
int nccl_devs_open(struct ft_proc *proc, enum nccl_kind kind, struct nccl_dev devs[NCCL_DEVS]);
int nccl_devs_close(struct nccl_dev devs[NCCL_DEVS]);
int nccl_ep_open(struct nccl_ep *ep, struct nccl_dev *dev, enum nccl_kind kind);
/** nccl_ep_close() - the endpoint, and what belongs to it; regions of the application's are closed before */
int nccl_ep_close(struct nccl_ep *ep);
/** nccl_ep_abort() - close endpoint and vector ahead of the rest, with operations under way */
int nccl_ep_abort(struct nccl_ep *ep);
/** nccl_close() - close one object, and report if that fails */
int nccl_close(struct fid *fid, const char *what);
/** nccl_register() - register memory; by a dma-buf, if that is asked for. */
int nccl_register(struct nccl_dev *dev, void *addr, size_t len, bool gpu, bool dmabuf,
		  uint64_t access, struct fid_mr **mr);
/**
 * nccl_register_dmabuf() - the call alone, for @len bytes at @base + @offset; @common has the rest. Reports nothing.
 */
int nccl_register_dmabuf(struct nccl_dev *dev, const struct fi_mr_attr *common, char *base,
			 uint64_t offset, size_t len, struct fid_mr **mr);
/** nccl_connect() - connect all communicators of one endpoint to the other rank's */
int nccl_connect(struct ft_proc *proc, struct nccl_ep *ep);
/** nccl_meet() - a barrier of the two ranks, which makes progress */
int nccl_meet(struct ft_proc *proc, struct nccl_ep *eps, size_t count);
/** nccl_progress() - read completions. 0 or an error */
int nccl_progress(struct nccl_ep *ep);
/** nccl_posted() - is what a call returned an error? -FI_EAGAIN makes progress, and @again is set. */
int nccl_posted(struct nccl_ep *ep, ssize_t ret, const char *call, bool *again);
/** nccl_wait() - wait until @count requests are done */
int nccl_wait(struct nccl_ep *ep, const struct nccl_req *req, size_t count);

/** NCCL_POST() - call again while there is no room */
#define NCCL_POST(ep, call)                                                                    \
	do {                                                                                   \
		bool again_;                                                                   \
		do {                                                                           \
			FT_TRY(nccl_posted(ep, call, #call, &again_));                         \
		} while (again_);                                                              \
	} while (0)

/** nccl_rdma() - the RDMA protocol, and GIN by proxy. nccl_rdma.c */
int nccl_rdma(struct ft_proc *proc);

#endif /* NCCL_H */
