/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The simulated core provider: its objects (core.c), what moves in it (core_wire.c), and memory (core_mem.c). */
#ifndef P2P_SIM_CORE_H
#define P2P_SIM_CORE_H

#include "sim.h"

struct core_cntr;
struct fiber;

#define CORE_IOV 8
#define CORE_ATOMIC_LEN 16384

/**
 * struct core_domain - a domain.
 * @model:	of its provider: lanes may have another one than the application's
 * @lane:	it is a lane's
 * @safe:	several threads may call at a time (FI_THREAD_SAFE); else @inside is the one that does
 * @reader:	the thread that reads a queue
 * @local:	the NIC takes only what has a descriptor (FI_MR_LOCAL)
 */
/*
 * @out, @in: connections of its endpoints', and to them, where something may happen
 */
struct core_domain {
	struct fid_domain fid;
	const struct model *model;
	unsigned int node;
	bool lane;
	bool safe;
	const struct fiber *inside, *reader;
	bool random_keys;
	bool virt_addr;
	bool local;
	unsigned int open;
	LIST_HEAD(, core_mr) mrs;
	TAILQ_HEAD(, core_conn) out, in;
};

/*
 * @block:	device memory, which is the NIC's until the region is closed; @offset: in it. NULL: the host's
 * @dmabuf:	by a descriptor, so that what the owner frees stays
 */
struct core_mr {
	struct fid_mr fid;
	struct core_domain *domain;
	struct iovec iov;
	uint64_t access;
	struct gpu_block *block;
	size_t offset;
	bool dmabuf;
	LIST_ENTRY(core_mr) entry;
};

/* A name: endpoint @port of a node. 0: the entry is free */
struct core_name {
	unsigned int node;
	unsigned int port;
};

#define CORE_AV (256 + SIM_NODES)

/* A name has one entry, however often it was inserted (ofi_av_insert_addr()) */
struct core_av {
	struct fid_av fid;
	struct core_domain *domain;
	struct core_name names[CORE_AV];
	unsigned int uses[CORE_AV];
};

struct core_done {
	struct fi_cq_tagged_entry entry;
	fi_addr_t src;
	int err;
	size_t olen;
	TAILQ_ENTRY(core_done) link;
};

/* @fd: to sleep on, or -1; @signalled: by fi_cq_signal(); @stuck: the descriptor stays readable */
struct core_cq {
	struct fid_cq fid;
	struct core_domain *domain;
	enum fi_wait_obj wait_obj;
	int fd;
	bool signalled;
	bool stuck;
	TAILQ_HEAD(, core_done) comps;
};

/*
 * @multi: it takes message after message, until it is @full; @users: those that are under way. Each has a part, whose
 * @owner it is; the @last one gives it back
 */
struct core_recv {
	void *context;
	bool tagged;
	uint64_t tag, ignore;
	fi_addr_t src;
	struct iovec iov[CORE_IOV];
	struct core_mr *mr[CORE_IOV];
	size_t count;
	bool multi, full, last;
	unsigned int users;
	struct core_recv *owner;
	TAILQ_ENTRY(core_recv) link;
};

enum send_kind { SEND_MSG, SEND_WRITE, SEND_READ, SEND_ATOMIC };

/* Where an operation is: in the order in which it gets there */
enum send_state {
	SEND_QUEUED, /* with its sender */
	SEND_WIRE,   /* on its way; a long one is announced only */
	SEND_SAVED,  /* there, without a receive */
	SEND_WANTED, /* there, and its bytes are wanted */
	SEND_FILLED, /* its bytes are on their way */
	SEND_LANDED, /* there */
};

/**
 * struct core_send - an operation with a peer.
 * @at:		when it gets to the state's other side [ns]
 * @mr:		the pieces' descriptors, in a domain that wants such
 * @bytes:	a copy of what travels, once there is one; of a read: the answer
 * @long_:	its bytes travel when they are wanted
 * @recv:	what it has met
 * @claim:	the context that it is kept for
 * @lost:	its sender hears nothing of its end; @torn: the rest of it does not come
 * @op:		of an atomic operation; @result: where what was there before goes; @compares: its bytes are followed by those
 *		that it compares with
 * @tells:	the sender wants a completion; @told: it has it, or needs none any more
 * @done_at:	when the sender knows that it has ended, with @err [ns]; 0: it has not
 */
struct core_send {
	enum send_kind kind;
	enum send_state state;
	uint64_t at;
	struct iovec iov[CORE_IOV];
	struct core_mr *mr[CORE_IOV];
	size_t count;
	size_t len;
	uint8_t *bytes;
	bool long_, lost, torn;
	bool tagged;
	uint64_t tag;
	bool has_data;
	uint64_t data;
	uint64_t flags;
	void *context;
	bool tells, told, confirms;
	struct fi_rma_iov remote[CORE_IOV];
	size_t remotes;
	struct core_recv *recv;
	void *claim;
	enum fi_op op;
	void *result;
	bool compares;
	uint64_t done_at;
	int err;
	struct core_conn *conn;
	TAILQ_ENTRY(core_send) link;
	TAILQ_ENTRY(core_send) saved;
};

TAILQ_HEAD(core_sends, core_send);

enum conn_state { CONN_ASKED, CONN_ACCEPTED, CONN_UP, CONN_BROKEN };

/**
 * struct core_conn - what goes from one endpoint to another one.
 * @dst:	the endpoint that it goes to, which may be closed, or dead; @to: its name
 * @at:		when the question, or the answer, is there; or when the break is known [ns]
 * @is_out, @is_in: it is in the domains' lists
 * @flying:	bytes on their way; @saved: messages that wait for receives at the other end, if it stalls
 */
struct core_conn {
	enum conn_state state;
	uint64_t at;
	struct core_ep *src, *dst;
	struct core_name to;
	size_t flying;
	unsigned int saved;
	struct core_sends sends;
	bool is_out, is_in;
	TAILQ_ENTRY(core_conn) link;
	LIST_ENTRY(core_conn) of_src;
	TAILQ_ENTRY(core_conn) out, in;
};

/*
 * @cntrs: for FI_SEND, FI_RECV, FI_READ, FI_WRITE, or NULL; @alive: neither closed nor dead; @closed: by its process; @lane: it is a lane's;
 * @directs: FI_DIRECTED_RECV; @least: room that a buffer for many has to have
 */
struct core_ep {
	struct fid_ep fid;
	struct core_domain *domain;
	const struct model *model;
	struct core_av *av;
	struct core_cq *txcq, *rxcq;
	struct core_cntr *cntrs[4];
	unsigned int life;
	struct core_name name;
	bool enabled;
	bool alive;
	bool closed;
	bool lane;
	unsigned int posted;
	unsigned int receives;
	bool directs;
	size_t least;
	uint64_t data;
	TAILQ_HEAD(, core_recv) recvs;
	struct core_sends saved;
	TAILQ_ENTRY(core_ep) link;
	LIST_HEAD(, core_conn) conns;
};

TAILQ_HEAD(core_eps, core_ep);
extern struct core_eps core_eps;

TAILQ_HEAD(core_conns, core_conn);
extern struct core_conns core_conns;
/* The node loses the next internal message that it receives; so many, from each, were lost. Its own: posts that were refused */
extern bool core_losing[SIM_NODES];
extern unsigned int core_losses[SIM_NODES][SIM_NODES];

/* Does a fault refuse its next post? That is over then (core_fault.c) */
bool core_refuses(const struct core_ep *ep);
/* Does the connection break behind what it has just been given? */
bool core_cuts(const struct core_conn *conn, const struct core_send *send);
void core_conn_break(struct core_conn *conn, int err);

/*
 * A delay of about @usual [ns], and a long one at times. In small worlds a ticket makes the sum of it and the time; what
 * has one @line comes in its order
 */
uint64_t core_delay(const void *line, uint64_t usual);
/* The same until the sender of @send knows of its end */
uint64_t core_end_delay(const struct core_send *send, uint64_t usual);
void core_send_tell(const struct core_send *send, const char *what);
void core_send_done(struct core_send *send, int err, uint64_t after);

/* A message of the provider's, by its tag: one of the two highest bits is the provider's */
static inline bool core_is_internal(const struct core_send *send)
{
	return send->tagged && send->tag >> 62;
}

/* ---- memory (core_mem.c) ---- */

extern struct fi_ops_mr core_mr_ops;
/* A process has ended: its NIC has nothing of its any more */
void core_mem_forget(unsigned int node);
/*
 * A post gives the core @count pieces, with descriptors, which are regions that are open. Where the NIC itself is to have
 * the pieces, each has a region that holds it, and was registered for @access
 */
void core_mem_take(struct core_domain *domain, const struct iovec *iov, size_t count,
		   void *const *desc, struct core_mr **mr);
void core_mem_check(const struct core_domain *domain, const struct iovec *iov, size_t count,
		    struct core_mr *const *mr, uint64_t access);
void core_mem_check_send(const struct core_send *send);
/* The bytes of @send's pieces become send.bytes; and some go to pieces: by the NIC with @mr. Returns how many */
void core_gather(struct core_send *send);
size_t core_scatter(const struct iovec *iov, struct core_mr *const *mr, size_t count,
		    const uint8_t *bytes, size_t len);
/* Remote memory is read or written. 0, or why not */
int core_mem_reach(struct core_ep *ep, struct core_send *send);

/* Does the NIC move its bytes? The CPU copies what is short */
static inline bool core_is_by_nic(const struct core_send *send)
{
	return send->conn->src->model->nic && !(send->flags & FI_INJECT) &&
	       (send->kind == SEND_READ || send->kind == SEND_WRITE || send->long_);
}

/* ---- matching (core_match.c) ---- */

bool core_recv_fits(const struct core_ep *ep, const struct core_recv *recv,
		    const struct core_send *send);
/* The receive that a message has come for, or NULL */
struct core_recv *core_recv_find(struct core_ep *ep, const struct core_send *send);
/* Is there a receive that the message is yet to meet? */
bool core_recv_waits(const struct core_ep *ep, const struct core_send *send);
void core_recv_cancel(struct core_ep *ep, struct core_recv *recv);
/* It has come before its receive, and waits */
void core_send_save(struct core_ep *ep, struct core_send *send);
/* It has met its receive; and its bytes are there */
void core_send_meet(struct core_ep *ep, struct core_send *send, struct core_recv *recv);
/* Is it there, and are others to come before it? */
bool core_send_waits(const struct core_send *send);
void core_send_land(struct core_ep *ep, struct core_send *send, int err);

/* ---- what moves (core_wire.c) ---- */

/* Control messages that were posted, of all nodes */
extern uint64_t core_controls;

/* A call of the core's posts @send, which is the core's from now on, or freed (core.c) */
ssize_t core_post_send(struct core_ep *ep, struct core_send *send, fi_addr_t addr);
ssize_t core_wire_send(struct core_ep *ep, struct core_send *send, fi_addr_t addr);
ssize_t core_wire_recv(struct core_ep *ep, struct core_recv *recv);
/* Tells of a message that waits for a receive as @recv, and drops it, or of none */
void core_wire_peek(struct core_ep *ep, struct core_recv *recv, uint64_t flags);
/* Receives what was claimed with its context, or throws it away */
ssize_t core_wire_claimed(struct core_ep *ep, struct core_recv *recv, bool discard);
extern struct fi_ops_atomic core_atomic_ops;
int core_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
		      struct fi_atomic_attr *attr, uint64_t flags);
bool core_wire_cancel(struct core_ep *ep, void *context);
/* A process's progress, in one of its domains */
void core_wire_progress(struct core_domain *domain);
/* Would that do something for those of its endpoints that @concerns is true of? */
bool core_wire_pends(const struct core_domain *domain,
		     bool (*concerns)(const struct core_ep *ep, const void *of),
		     const void *of);
void core_wire_close(struct core_ep *ep, bool dies);
void core_wire_complete(struct core_cq *cq, struct core_done comp);

/* ---- lies (lie.c) ---- */

/* What is about to go, once its bytes are there, or as it begins */
void lie_send(struct core_send *send);
/* What has come to a node */
void lie_hear(unsigned int node, const struct core_send *send);

/* ---- queues and counters (core_cq.c, core_cntr.c) ---- */

int core_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **to,
		 void *context);
int core_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
int core_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **to,
		   void *context);
void core_cntr_bind(struct core_ep *ep, struct fid *fid, uint64_t flags);
/* An operation of that kind has ended */
void core_count(struct core_ep *ep, uint64_t kind, int err);

/* ---- calls (core.c) ---- */

enum core_call { CALL_READS, CALL_RECEIVES, CALL_SENDS };

/* Around each call that may be a thread's beside others. Threads may be switched there */
void core_call_begin(struct core_domain *domain, enum core_call call);
void core_call_end(struct core_domain *domain);

/* What a process has left open is gone with it */
void core_forget(unsigned int node);

#endif /* P2P_SIM_CORE_H */
