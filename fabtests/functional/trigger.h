/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What fi_p2p_trigger's scenes share: a rank, and works that wait for its counters */
#ifndef TRIGGER_H
#define TRIGGER_H

#include <rdma/fi_trigger.h>

#include "ft_test.h"

#define LARGEST ((size_t) (1 << 20) + 3)
#define ELEMENTS 8
#define CHAIN 100
#define MANY 300
#define WAIT_MS 60000
#define LOOKS 20 /* in which nothing may have happened */
#define TAG 11

/* Where a buffer of the peer's is */
struct target {
	uint64_t key, base;
};

/**
 * struct side - one rank.
 * @trigger:	bound to nothing: only the test, or a deferred work, changes it
 * @done:	the same, for completions
 * @tx, @rx, @remote: bound to the endpoint; @remote counts what the peer writes
 * @shared:	by kind, what the peer reaches; @target: the peer's
 * @targets:	so many kinds, as over a hook nobody serves device memory
 */
struct side {
	struct ft_pair pair;
	struct fid_cntr *trigger, *done, *tx, *rx, *remote;
	struct ft_buf shared[2];
	struct target target[2];
	size_t targets;
	uint64_t number;
};

/* A deferred work, with all that it points to */
struct job {
	struct fi_deferred_work work;
	union {
		struct fi_op_msg msg;
		struct fi_op_tagged tagged;
		struct fi_op_rma rma;
		struct fi_op_atomic atomic;
		struct fi_op_fetch_atomic fetch;
		struct fi_op_compare_atomic compare;
		struct fi_op_cntr cntr;
	} op;
	struct iovec iov;
	struct fi_ioc ioc, result, expected;
	struct fi_rma_iov remote;
	struct fi_rma_ioc remote_ioc;
	void *desc, *result_desc, *expected_desc;
};

int trigger_open(struct side *s, struct ft_proc *proc);
int trigger_close(struct side *s);
void trigger_job_init_cntr(struct side *s, struct job *job, enum fi_op_type type,
			   struct fid_cntr *cntr, uint64_t value);
void trigger_job_init(struct side *s, struct job *job, enum fi_op_type type,
		      const struct ft_buf *local, size_t len, size_t to);
int trigger_queue(struct side *s, struct job *job, uint64_t threshold);
int trigger_control(struct side *s, int command, void *arg);
int trigger_wait_for(struct fid_cntr *cntr, uint64_t value, const char *what);
int trigger_stays(struct fid_cntr *cntr, uint64_t value, const char *what);
int trigger_no_reports(struct side *s);
struct ft_slot trigger_slot_of(const struct ft_buf *buf, size_t len);

#endif /* TRIGGER_H */
