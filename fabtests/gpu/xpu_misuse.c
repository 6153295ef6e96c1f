/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu_misuse: kernels that ask for what there is not, read no queue, or have no room; and objects that are closed
 * meanwhile. Each rank's own thread is the kernel: the first one's writes, the other one's receives.
 */
#include <inttypes.h>
#include <time.h>
#include <rdma/fi_p2p_xpu_device.h>

#include "xpu_side.h"

#define LEN ((size_t) 1 << 20)
#define WORD 8

/* More puts at a time than a context has records for all, in so many rounds */
#define ROUNDS 12
#define PUTS 60

/* More than all errors that are kept, and than a ring has slots */
#define FAILURES 5000
#define GOOD 600

/* As much as a core takes, and more */
#define RECEIVES 2304

static uint64_t counted(struct xpu_side *side)
{
	return fi_p2p_xpu_cntr_read(&side->args.tx, FI_XPU_WORK_ITEM);
}

static uint64_t failed(struct xpu_side *side)
{
	return fi_p2p_xpu_cntr_readerr(&side->args.tx, FI_XPU_WORK_ITEM);
}

/* What waits for a condition gives up at the test's own timeout. */
#define UNTIL(side, condition, ...)                                                            \
	do {                                                                                   \
		const time_t until = time(NULL) + (side)->proc->opts.timeout;                  \
		while (!(condition))                                                           \
			FT_CHECK(time(NULL) < until, __VA_ARGS__);                             \
	} while (0)

static int put(struct xpu_side *side, uint32_t target, uint64_t offset, uint64_t local,
	       uint32_t len)
{
	int ret;

	UNTIL(side,
	      (ret = fi_p2p_xpu_put(&side->args.ep, target, offset, local, len, 0,
				    FI_XPU_WORK_ITEM)) != -FI_EAGAIN,
	      "a ring stays full");
	return ret;
}

/* Posts one that is to fail, and waits for its error. */
static int refused(struct xpu_side *side, int ret, uint64_t *errors, const char *what)
{
	FT_CHECK(!ret, "%s: %d", what, ret);
	UNTIL(side, failed(side) == *errors + 1, "%s: no error is counted", what);
	++*errors;
	return 0;
}

/* Numbers that a trigger has no room for are not taken for others, and the ring goes on. */
static int scene_numbers(struct xpu_side *side)
{
	const uint32_t none[] = {side->args.target + 100, 4096, 0x7fff, 0x8000, UINT32_MAX};
	struct fid_xpu_ep *ep = &side->args.ep;
	uint64_t value = counted(side), errors = failed(side);

	for (size_t i = 0; i < FT_COUNT(none); i++) {
		FT_TRY(refused(side, put(side, none[i], 0, 0, WORD), &errors, "put"));
		FT_TRY(refused(side,
			       fi_p2p_xpu_signal_set(ep, none[i], 0, 7, 0, FI_XPU_WORK_ITEM),
			       &errors, "signal"));
	}
	FT_TRY(refused(side, put(side, side->args.target, 1ULL << 40, 0, WORD), &errors,
		       "an offset there"));
	FT_TRY(refused(side, put(side, side->args.target, 0, 1ULL << 40, WORD), &errors,
		       "an offset here"));
	FT_TRY(refused(side,
		       fi_p2p_xpu_atomic(ep, side->args.buf, 1, &side->args.desc,
					 &side->args.peer, side->args.there, side->args.key,
					 FI_UINT64 + 256, FI_SUM, NULL, 0, FI_XPU_WORK_ITEM),
		       &errors, "a datatype"));
	FT_CHECK(counted(side) == value, "what fails is counted as done");
	for (int i = 0; i < GOOD; i++)
		FT_TRY(put(side, side->args.target, 0, 0, WORD));
	UNTIL(side, counted(side) == value + GOOD, "puts after errors: %" PRIu64 " of %d",
	      counted(side) - value, GOOD);
	FT_CHECK(failed(side) == errors, "good puts fail");
	return 0;
}

/* Posts a write that is reported, with @context */
static int mark(struct xpu_side *side, void *context)
{
	struct xpu_args *args = &side->args;
	int ret;

	UNTIL(side,
	      (ret = fi_p2p_xpu_write(&args->ep, args->buf, WORD, &args->desc, 0, &args->peer,
				      args->there, args->key, context, FI_COMPLETION,
				      FI_XPU_WORK_ITEM)) != -FI_EAGAIN,
	      "a ring stays full");
	return ret;
}

/* Reads until the write of that context, and counts the errors before it. */
static int drain(struct xpu_side *side, void *context, unsigned int *errors)
{
	struct fi_cq_err_entry error = {.err = 0};
	struct fi_cq_tagged_entry entry = {.len = 0};
	int64_t ret;

	*errors = 0;
	while (entry.op_context != context) {
		UNTIL(side,
		      (ret = fi_p2p_xpu_cq_read(&side->args.cq, &entry, 1, FI_XPU_WORK_ITEM)) !=
			      -FI_EAGAIN,
		      "a queue: the last write is not told");
		if (ret == -FI_EAVAIL)
			*errors += fi_p2p_xpu_cq_readerr(&side->args.cq, &error, 0,
							 FI_XPU_WORK_ITEM) == 1;
	}
	ft_progress_note();
	return 0;
}

/* Who reads no queue does not use up what others need: the counter has all errors, the queue some. */
static int scene_failures(struct xpu_side *side)
{
	const uint64_t before = failed(side);
	unsigned int read;

	for (int i = 0; i < FAILURES; i++)
		FT_TRY(put(side, side->args.target + 100, 0, 0, WORD));
	UNTIL(side, failed(side) == before + FAILURES, "errors: %" PRIu64 " of %d",
	      failed(side) - before, FAILURES);
	FT_TRY(mark(side, &read));
	FT_TRY(drain(side, &read, &read));
	FT_CHECK(read && read < FAILURES / 2, "%u errors of %d are kept", read, FAILURES);
	return 0;
}

/* An error ends the wait for more entries than there will be. */
static int scene_threshold(struct xpu_side *side)
{
	struct fi_cq_err_entry error = {.err = 0};
	struct fi_cq_tagged_entry entries[3];
	uint64_t errors = failed(side), value = counted(side);
	int64_t ret;

	FT_TRY(mark(side, entries));
	UNTIL(side, counted(side) == value + 1, "a write");
	FT_TRY(refused(side, put(side, side->args.target + 100, 0, 0, WORD), &errors, "put"));
	ret = fi_p2p_xpu_cq_sread(&side->args.cq, entries, 3, 3, FI_XPU_WORK_ITEM);
	FT_CHECK(ret == 1 && entries[0].op_context == entries, "read: %d", (int) ret);
	ret = fi_p2p_xpu_cq_sread(&side->args.cq, entries, 3, 3, FI_XPU_WORK_ITEM);
	FT_CHECK(ret == -FI_EAVAIL, "the error: %d", (int) ret);
	FT_CHECK(fi_p2p_xpu_cq_readerr(&side->args.cq, &error, 0, FI_XPU_WORK_ITEM) == 1 &&
			 error.err == FI_EINVAL,
		 "the error is %d", error.err);
	ft_progress_note();
	return 0;
}

/* A new endpoint has the counters of the one before. */
static int bind_again(struct ft_ctx *ctx)
{
	struct xpu_side *side = ctx->test;

	FT_TRY(fi_ep_bind(ctx->ep, &side->tx->fid, FI_SEND | FI_WRITE));
	return fi_ep_bind(ctx->ep, &side->rx->fid, FI_RECV | FI_READ);
}

/* Puts under way do not outlive their endpoint. The next one has room for its own. */
static int scene_closed(struct xpu_side *side)
{
	struct fi_p2p_xpu_ops *xpu = side->xpu;
	uint64_t value;
	uint32_t number;

	side->ctx.prepare = bind_again;
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PUTS; i++)
			FT_TRY(put(side, side->args.target, 0, 0, LEN));
		FT_TRY(fi_close(&side->ctx.ep->fid));
		FT_TRY(ft_ep_open(&side->ctx));
		FT_TRY(xpu->ep_export(side->xpu_ctx, side->ctx.ep, 0, &side->args.ep));
		FT_TRY(xpu_side_target(side, &side->out, side->args.there, side->args.key,
				       &number));
		FT_CHECK(number == side->args.target, "a new endpoint's target is %u", number);
		value = counted(side);
		FT_TRY(put(side, number, 0, 0, WORD));
		UNTIL(side, counted(side) != value, "the first put after a close");
		ft_progress_note();
	}
	return 0;
}

/* A queue has puts' ends told, as long as its endpoint is exported. */
static int scene_unexport(struct xpu_side *side)
{
	struct fi_p2p_xpu_ops *xpu = side->xpu;
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < PUTS; i++)
		FT_TRY(put(side, side->args.target, 0, 0, LEN));
	FT_CHECK(xpu->unexport(side->xpu_ctx, &side->args.cq.fid) == -FI_EBUSY,
		 "a queue goes before its endpoint");
	FT_TRY(xpu_side_take_back(side));
	FT_CHECK(fi_cq_read(side->ctx.cq, &entry, 1) == -FI_EAGAIN,
		 "the host is told of a kernel's put");
	return 0;
}

/* A receive waits for room, whatever FI_P2P_PEER_TIMEOUT is: here, a second. */
static int scene_receives(struct xpu_side *side)
{
	uint64_t anybody = FI_ADDR_UNSPEC;
	struct fid_xpu_ep *ep = &side->args.ep;
	const time_t end = time(NULL) + 3;
	int posted = 0, ret;

	while (time(NULL) < end) {
		ret = posted == RECEIVES
			      ? -FI_EAGAIN
			      : fi_p2p_xpu_recv(ep, side->args.in, WORD, &side->args.desc,
						&anybody, NULL, 0, FI_XPU_WORK_ITEM);
		FT_CHECK(!ret || ret == -FI_EAGAIN, "receive %d: %d", posted, ret);
		posted += !ret;
		ft_progress_note();
	}
	FT_CHECK(!fi_p2p_xpu_cntr_readerr(&side->args.rx, FI_XPU_WORK_ITEM),
		 "of %d receives some fail", posted);
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct xpu_side side = {0};

	FT_TRY(xpu_side_open(&side, proc, 0, LEN, 1, false));
	if (!proc->rank) {
		FT_TRY(scene_threshold(&side));
		FT_TRY(scene_numbers(&side));
		FT_TRY(scene_failures(&side));
		FT_TRY(scene_closed(&side));
		FT_TRY(scene_unexport(&side));
	} else {
		FT_TRY(scene_receives(&side));
	}
	FT_TRY(ft_meet_all(proc));
	return xpu_side_close(&side);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "GPU kernels that ask for what there is not.",
		.scope = FT_SCOPE_TEST,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
