/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The core's objects, and what stands before their calls. See busycore.c, above the others. */
#ifndef FABTESTS_BUSYCORE_H
#define FABTESTS_BUSYCORE_H

#include <stdbool.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

struct late;
struct null;

/**
 * struct busy - the core's own calls of one object; it stays after that object is closed
 * @late:	of a completion queue
 * @null:	of a completion queue, or of an endpoint the queue that tells what has ended
 */
struct busy {
	struct busy *next;
	const void *object;
	struct fi_ops_fabric *fabric;
	struct fi_ops_domain *domain;
	struct fi_ops *fid;
	struct fi_ops_msg *msg;
	struct fi_ops_tagged *tagged;
	struct fi_ops_rma *rma;
	struct fi_ops_cntr *cntr;
	struct late *late;
	struct null *null;
};

/* ---- objects.c ---- */

struct busy *busy_find(const void *object);

/*
 * The record of @object, which may lie where another object has been. If memory is short, the
 * test ends.
 */
struct busy *busy_new(const void *object);

/* A copy of a table of calls, to be changed. The first member of @ops is its length. */
void *busy_copy(const void *ops);

/* Of an entry of such a queue. ofi_p2p asks for two formats alone. */
size_t busy_entry_size(const struct fi_cq_attr *attr);

unsigned int busy_seed(void);

/* ---- completions.c ---- */

/* Are completions to be changed? */
bool late_wanted(void);

/* Puts its own calls before those of a queue, which has just been opened */
void late_opened(struct fid_cq *cq, const struct fi_cq_attr *attr);

/* The same of a counter: nobody sleeps on one while a completion is held back */
void late_counter_opened(struct fid_cntr *cntr);

/* An endpoint has been closed: its completions are held back no more */
void late_hurry(void);

/* Is @fid a queue of which completions are held back? */
bool late_holds(const struct fid *fid);

/* ---- null.c ---- */

/* Are writes and reads to end at once? */
bool null_wanted(void);

/* Ends an operation of @ep. @kind: FI_READ or FI_WRITE */
ssize_t null_end(const struct busy *ep, void *context, uint64_t kind, uint64_t flags);

/* The same of a write, whose memory it marks if that is wanted */
ssize_t null_write(const struct busy *ep, const struct fi_msg_rma *msg, uint64_t flags);

/* Puts its own calls before those of a queue, which has just been opened */
void null_opened(struct fid_cq *cq, const struct fi_cq_attr *attr);

#endif
