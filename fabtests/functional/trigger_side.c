/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A rank of fi_p2p_trigger, and the works of its scenes. See trigger.h. */
#include "trigger.h"

#include <inttypes.h>
#include <string.h>

static int open_cntrs(struct ft_ctx *ctx)
{
	struct side *s = ctx->test;

	FT_TRY(ft_cntr_open(&s->pair.ctx, FI_WAIT_UNSPEC, 0, &s->trigger));
	FT_TRY(ft_cntr_open(&s->pair.ctx, FI_WAIT_UNSPEC, 0, &s->done));
	FT_TRY(ft_cntr_open(&s->pair.ctx, FI_WAIT_UNSPEC, FI_SEND | FI_READ | FI_WRITE,
			    &s->tx));
	FT_TRY(ft_cntr_open(&s->pair.ctx, FI_WAIT_UNSPEC, FI_RECV, &s->rx));
	return ft_cntr_open(&s->pair.ctx, FI_WAIT_UNSPEC, FI_REMOTE_WRITE, &s->remote);
}

static int share(struct side *s)
{
	const uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	const int fd = s->pair.proc->fd[!s->pair.proc->rank];
	struct target mine[2] = {0};

	s->targets = ft_hook_active() ? 1 : s->pair.kind_count;
	for (size_t i = 0; i < s->targets; i++) {
		FT_TRY(ft_buf_alloc_by(&s->pair.ctx, &s->shared[i], s->pair.buf[i].ops,
				       LARGEST + FT_ROOM));
		FT_TRY(ft_buf_share(&s->pair.ctx, &s->shared[i], access));
		mine[i] = (struct target){s->shared[i].key, s->shared[i].base};
	}
	FT_TRY(ft_oob_send(fd, mine, sizeof(mine)));
	return ft_oob_recv(fd, s->target, sizeof(s->target), s->pair.proc->opts.timeout);
}

int trigger_open(struct side *s, struct ft_proc *proc)
{
	memset(s, 0, sizeof(*s));
	FT_TRY(ft_pair_hints(&s->pair, proc));
	s->pair.ctx.hints->caps |= FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER;
	if (!ft_offered(&s->pair.ctx))
		s->pair.ctx.hints->caps &= ~FI_ATOMIC;
	s->pair.ctx.cq_flags = FI_SELECTIVE_COMPLETION;
	s->pair.ctx.prepare = open_cntrs;
	s->pair.ctx.test = s;
	FT_TRY(ft_pair_open(&s->pair, LARGEST));
	return share(s);
}

int trigger_close(struct side *s)
{
	struct fid *const cntrs[] = {&s->trigger->fid, &s->done->fid, &s->tx->fid, &s->rx->fid,
				     &s->remote->fid};

	for (size_t i = 0; i < s->targets; i++)
		ft_buf_free(&s->shared[i]);
	return ft_pair_close(&s->pair, cntrs, FT_COUNT(cntrs));
}

/* ---- works ---- */

int trigger_control(struct side *s, int command, void *arg)
{
	return fi_control(&s->pair.ctx.domain->fid, command, arg);
}

struct ft_slot trigger_slot_of(const struct ft_buf *buf, size_t len)
{
	return (struct ft_slot){buf, 0, len + FT_ROOM, 64, len};
}

/* Points the job at @len bytes of @local, and of the peer's memory of kind @to */
void trigger_job_init(struct side *s, struct job *job, enum fi_op_type type,
		      const struct ft_buf *local, size_t len, size_t to)
{
	const struct target *target = &s->target[to];
	struct fid_ep *ep = s->pair.ctx.ep;

	memset(job, 0, sizeof(*job));
	job->work.op_type = type;
	job->work.triggering_cntr = s->trigger;
	job->work.completion_cntr = s->done;
	job->iov = (struct iovec){local->addr + 64, len};
	job->desc = job->result_desc = job->expected_desc = local->desc;
	job->ioc = (struct fi_ioc){local->addr, ELEMENTS};
	job->result = (struct fi_ioc){local->addr + 8 * ELEMENTS, ELEMENTS};
	job->expected = (struct fi_ioc){local->addr + 16 * ELEMENTS, ELEMENTS};
	job->remote = (struct fi_rma_iov){target->base + 64, len, target->key};
	job->remote_ioc = (struct fi_rma_ioc){target->base, ELEMENTS, target->key};
	job->work.op.msg = &job->op.msg;
	switch (type) {
	case FI_OP_RECV:
	case FI_OP_SEND:
		job->op.msg.ep = ep;
		job->op.msg.msg = (struct fi_msg){&job->iov,    &job->desc,         1,
						  s->pair.peer, &job->work.context, 0};
		break;
	case FI_OP_TRECV:
	case FI_OP_TSEND:
		job->op.tagged.ep = ep;
		job->op.tagged.msg = (struct fi_msg_tagged){&job->iov,          &job->desc, 1,
							    s->pair.peer,       TAG,        0,
							    &job->work.context, 0};
		break;
	case FI_OP_READ:
	case FI_OP_WRITE:
		job->op.rma.ep = ep;
		job->op.rma.msg = (struct fi_msg_rma){&job->iov,
						      &job->desc,
						      1,
						      s->pair.peer,
						      &job->remote,
						      1,
						      &job->work.context,
						      0};
		break;
	default:
		/* the three begin in the same way */
		job->op.atomic.ep = ep;
		job->op.atomic.msg = (struct fi_msg_atomic){
			.msg_iov = &job->ioc,
			.desc = &job->desc,
			.iov_count = 1,
			.addr = s->pair.peer,
			.rma_iov = &job->remote_ioc,
			.rma_iov_count = 1,
			.datatype = FI_UINT64,
			.op = type == FI_OP_COMPARE_ATOMIC ? FI_CSWAP : FI_SUM,
			.context = &job->work.context,
		};
	}
	if (type == FI_OP_FETCH_ATOMIC || type == FI_OP_COMPARE_ATOMIC)
		job->op.fetch.fetch = (struct fi_msg_fetch){&job->result, &job->result_desc, 1};
	if (type == FI_OP_COMPARE_ATOMIC)
		job->op.compare.compare =
			(struct fi_msg_compare){&job->expected, &job->expected_desc, 1};
}

/* A job that changes @cntr */
void trigger_job_init_cntr(struct side *s, struct job *job, enum fi_op_type type,
			   struct fid_cntr *cntr, uint64_t value)
{
	memset(job, 0, sizeof(*job));
	job->work.op_type = type;
	job->work.triggering_cntr = s->trigger;
	job->op.cntr = (struct fi_op_cntr){cntr, value};
	job->work.op.cntr = &job->op.cntr;
}

/* Queues the job, and spoils what it points to: only its buffers matter from then on */
int trigger_queue(struct side *s, struct job *job, uint64_t threshold)
{
	int ret;

	job->work.threshold = threshold;
	ret = trigger_control(s, FI_QUEUE_WORK, &job->work);
	if (ret)
		return ft_fail(ret, "FI_QUEUE_WORK", "type %d", job->work.op_type);
	memset(&job->op, 0xa5, sizeof(*job) - offsetof(struct job, op));
	return 0;
}

int trigger_wait_for(struct fid_cntr *cntr, uint64_t value, const char *what)
{
	int ret = fi_cntr_wait(cntr, value, WAIT_MS);

	return ret ? ft_fail(ret, "fi_cntr_wait", "%s: %" PRIu64 " of %" PRIu64, what,
			     fi_cntr_read(cntr), value)
		   : 0;
}

/* Looks a few times, which makes progress: has nothing been counted? */
int trigger_stays(struct fid_cntr *cntr, uint64_t value, const char *what)
{
	for (int i = 0; i < LOOKS; i++)
		FT_CHECK(fi_cntr_read(cntr) == value,
			 "%s: %" PRIu64 " are counted, not %" PRIu64, what, fi_cntr_read(cntr),
			 value);
	return 0;
}

/* The queue has nothing to tell: what is deferred is only counted. */
int trigger_no_reports(struct side *s)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_read(s->pair.ctx.cq, &entry, 1);

	FT_CHECK(ret == -FI_EAGAIN, "fi_cq_read: %zd, nothing was to be reported", ret);
	return 0;
}
