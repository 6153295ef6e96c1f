/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The plugin's use of libfabric: one domain for the process, and ports: endpoints with a queue each. Any provider does
 * that transfers GPU memory, reaches other hosts, and has tagged messages; puts and signals also want remote memory and
 * atomic operations.
 *
 * Functions return 0 or a negative fi_errno value. NCCL calls from several threads: each port has a lock, and what is
 * marked [locked] wants it.
 */
#ifndef P2P_NCCL_FABRIC_H
#define P2P_NCCL_FABRIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "nccl_api.h"

/* The longest name of an endpoint that fits into a handle of NCCL's, beside what else is in there */
#define FABRIC_NAME_MAX 96

struct fabric_name {
	uint32_t len;
	uint8_t bytes[FABRIC_NAME_MAX];
};

/**
 * struct fabric_port - an endpoint.
 * @ep:		NULL since fabric_port_shut() [locked]
 * @stalled:	operations for which libfabric has no room now, in their order [locked]
 * @turns:	how often fabric_progress() was called [locked]
 */
struct fabric_port {
	pthread_mutex_t lock;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	STAILQ_HEAD(, fabric_op) stalled;
	unsigned int turns;
};

/**
 * struct fabric_op - an operation under way. Every request begins with one.
 * @begin:	gives it to libfabric: 0, -FI_EAGAIN if there is no room, or another error
 * @done:	called when it has ended, with @err (0 or a positive fi_errno value) and @len [bytes]
 */
struct fabric_op {
	struct fi_context2 context;
	ssize_t (*begin)(struct fabric_op *op);
	void (*done)(struct fabric_op *op);
	int err;
	size_t len;
	STAILQ_ENTRY(fabric_op) entry;
};

/**
 * struct fabric_mr - a region, and how peers reach it: @key and @base, the address of its first byte there.
 */
struct fabric_mr {
	struct fid_mr *mr;
	void *desc;
	void *data;
	size_t size;
	uint64_t key;
	uint64_t base;
};

/** fabric_open() - the process' domain, opened by the first and closed by the last that uses it. */
int fabric_open(void);
void fabric_close(void);

/** fabric_info() - what the domain was opened with */
const struct fi_info *fabric_info(void);

/** fabric_reaches() - can remote memory and signals be had? */
bool fabric_reaches(void);

/**
 * fabric_props() - what NCCL is told of the device.
 * @type, @version:	how requests of its kernels go
 * @batch:	how many receives are asked for in one call; NCCL has 32 times as many requests of kernels under way
 */
struct nccl_props fabric_props(int type, int version, int batch);

/** fabric_logger() - what is said goes to @logger, which NCCL has given to init() */
void fabric_logger(nccl_logger logger);
#define fabric_warn(...)                                                                       \
	fabric_say(NCCL_LOG_WARN, __FILE__, __LINE__, "libnccl-gin-p2p: " __VA_ARGS__)
#define fabric_note(...)                                                                       \
	fabric_say(NCCL_LOG_INFO, __FILE__, __LINE__, "libnccl-gin-p2p: " __VA_ARGS__)
void fabric_say(int level, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** fabric_failed() - logs that @what has failed with @err; returns an enum nccl_result */
int fabric_failed(int err, const char *what);

int fabric_port_open(struct fabric_port *port);
void fabric_port_close(struct fabric_port *port);
/** fabric_port_shut() - closes the endpoint alone: what is under way may never end, and touches no memory any more [locked] */
void fabric_port_shut(struct fabric_port *port);
int fabric_port_name(struct fabric_port *port, struct fabric_name *name);
int fabric_port_insert(struct fabric_port *port, const struct fabric_name *name,
		       fi_addr_t *addr);

/** fabric_op_post() - begins an operation, or lets it wait for room [locked]. An error is told by @done. */
void fabric_op_post(struct fabric_port *port, struct fabric_op *op);

/** fabric_op_cancel() - ends an operation early, if libfabric can [locked] */
void fabric_op_cancel(struct fabric_port *port, struct fabric_op *op);

/** fabric_progress() - begins what has waited, and tells what has ended [locked] */
void fabric_progress(struct fabric_port *port);

/** fabric_mr_open() - registers memory of @type NCCL_HOST or NCCL_CUDA, which may wait for the GPU */
int fabric_mr_open(void *data, size_t size, int type, struct fabric_mr *mr);
/** fabric_mr_bind() - makes the region one of @port, or closes it [locked] */
int fabric_mr_bind(struct fabric_port *port, struct fabric_mr *mr);
/** fabric_mr_local() - both for our own memory, if the provider wants that for what it sends [locked] */
int fabric_mr_local(struct fabric_port *port, void *data, size_t size, struct fabric_mr *mr);
void fabric_mr_close(struct fabric_mr *mr);

#endif /* P2P_NCCL_FABRIC_H */
