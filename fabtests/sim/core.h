/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The simulated core provider: its objects (core.c), and what moves in it (core_wire.c). */
#ifndef P2P_SIM_CORE_H
#define P2P_SIM_CORE_H

#include "sim.h"

#define CORE_IOV 8

struct core_domain {
	struct fid_domain fid;
	unsigned int node;
	bool random_keys;
	bool virt_addr;
	unsigned int open;
	LIST_HEAD(, core_mr) mrs;
};

struct core_mr {
	struct fid_mr fid;
	struct core_domain *domain;
	struct iovec iov;
	uint64_t access;
	LIST_ENTRY(core_mr) entry;
};

/* A name: endpoint @port of a node. 0: the entry is free */
struct core_name {
	unsigned int node;
	unsigned int port;
};

#define CORE_AV 64

struct core_av {
	struct fid_av fid;
	struct core_domain *domain;
	struct core_name names[CORE_AV];
};

struct core_done {
	struct fi_cq_tagged_entry entry;
	fi_addr_t src;
	int err;
	size_t olen;
	TAILQ_ENTRY(core_done) link;
};

struct core_cq {
	struct fid_cq fid;
	struct core_domain *domain;
	unsigned int count;
	TAILQ_HEAD(, core_done) comps;
};

struct core_recv {
	void *context;
	bool tagged;
	uint64_t tag, ignore;
	fi_addr_t src;
	struct iovec iov[CORE_IOV];
	size_t count;
	TAILQ_ENTRY(core_recv) link;
};

enum send_kind { SEND_MSG, SEND_WRITE, SEND_READ };

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
 * @bytes:	a copy of what travels, once there is one; of a read: the answer
 * @long_:	its bytes travel when they are wanted
 * @recv:	what it has met
 * @tells:	the sender wants a completion; @told: it has it, or needs none any more
 * @done_at:	when the sender knows that it has ended, with @err [ns]; 0: it has not
 */
struct core_send {
	enum send_kind kind;
	enum send_state state;
	uint64_t at;
	struct iovec iov[CORE_IOV];
	size_t count;
	size_t len;
	uint8_t *bytes;
	bool long_;
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
	TAILQ_ENTRY(core_conn) link;
};

/* @alive: neither closed nor dead */
struct core_ep {
	struct fid_ep fid;
	struct core_domain *domain;
	struct core_av *av;
	struct core_cq *txcq, *rxcq;
	unsigned int life;
	struct core_name name;
	bool enabled;
	bool alive;
	unsigned int posted;
	unsigned int receives;
	TAILQ_HEAD(, core_recv) recvs;
	struct core_sends saved;
	TAILQ_ENTRY(core_ep) link;
};

TAILQ_HEAD(core_eps, core_ep);
extern struct core_eps core_eps;

ssize_t core_wire_send(struct core_ep *ep, struct core_send *send, fi_addr_t addr);
ssize_t core_wire_recv(struct core_ep *ep, struct core_recv *recv);
/* Tells of a message that waits for a receive as @recv, and drops it, or of none */
void core_wire_peek(struct core_ep *ep, struct core_recv *recv, bool discard);
bool core_wire_cancel(struct core_ep *ep, void *context);
/* A process's progress, in one of its domains */
void core_wire_progress(struct core_domain *domain);
void core_wire_close(struct core_ep *ep, bool dies);
void core_wire_complete(struct core_cq *cq, struct core_done comp);

/* What a process has left open is gone with it */
void core_forget(unsigned int node);

#endif /* P2P_SIM_CORE_H */
