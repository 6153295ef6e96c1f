/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_comd: atoms move through the cells of two to four ranks, which are a ring or a torus. Those that
 * leave a cell go to the neighbour: how many they are is different each time. That is done in four forms: by
 * the host, by a stream, and by a kernel that puts or sends. In the end each rank has the atoms that one
 * process computes for its cell: each of them once, all bits alike.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "comd_kernels.h"
#include "cu.h"
#include "forms.h"

/* Words of xpu_side.result */
enum {
	WORD_LISTED, /* and one more */
	WORD_MEET = WORD_LISTED + 2,
	WORD_FAILED,
	WORDS
};

/**
 * struct run - a rank.
 * @atoms:	both lists
 * @start, @expected: all atoms there are, by id
 * @found:	room for as many
 */
struct run {
	struct xpu_side side;
	struct comd comd;
	void *stream;
	struct ft_buf atoms;
	struct comd_atom *start, *expected, *found;
};

/* ---- what is expected ---- */

static bool is_mine(const struct run *run, const struct comd_atom *atom)
{
	return atom->at[0] / COMD_CELL == run->comd.cell[0] &&
	       atom->at[1] / COMD_CELL == run->comd.cell[1];
}

/* All atoms begin in a quarter of the box, so that some neighbours get none at first. */
static void expect(struct run *run)
{
	const struct comd *comd = &run->comd;
	uint64_t seed = run->side.proc->opts.seed;

	for (uint64_t i = 0; i < comd->most; i++) {
		struct comd_atom *atom = &run->start[i];

		atom->id = (uint32_t) i;
		for (int axis = 0; axis < 2; axis++) {
			const uint64_t half = (uint64_t) comd->cells[axis] * COMD_CELL / 2;

			atom->at[axis] = (int32_t) (ft_random(&seed) % half);
			atom->speed[axis] =
				(int32_t) (ft_random(&seed) % (2 * COMD_FASTEST + 1)) -
				COMD_FASTEST;
		}
		run->expected[i] = *atom;
		for (uint64_t step = 1; step <= comd->steps; step++)
			comd_advance(&run->expected[i], comd->cells, step);
	}
}

/* The atoms that are here are those that ought to be. */
static int check(struct run *run, const char *form)
{
	const struct comd *comd = &run->comd;
	const int last = (int) (comd->steps * (uint64_t) comd->axes % 2);
	uint64_t words[WORDS], expected = 0;
	bool *seen;

	FT_TRY(run->side.result.ops->from(words, run->side.result.addr, sizeof(words)));
	FT_CHECK(!words[WORD_FAILED], "%s: the kernel has ended with error %" PRIu64, form,
		 words[WORD_FAILED]);
	for (uint64_t i = 0; i < comd->most; i++)
		expected += is_mine(run, &run->expected[i]);
	FT_CHECK(words[WORD_LISTED + last] == expected,
		 "%s: %" PRIu64 " atoms are here, not %" PRIu64, form,
		 words[WORD_LISTED + last], expected);
	FT_TRY(run->atoms.ops->from(run->found, comd->list[last],
				    expected * sizeof(*run->found)));
	seen = calloc(comd->most, sizeof(*seen));
	FT_CHECK(seen, "no memory for %" PRIu64 " atoms", comd->most);
	for (uint64_t i = 0; i < expected; i++) {
		const uint32_t id = run->found[i].id;

		if (id >= comd->most || seen[id] || !is_mine(run, &run->found[i]) ||
		    memcmp(&run->found[i], &run->expected[id], sizeof(*run->found))) {
			ft_err("%s: atom %" PRIu64 " of the list, number %" PRIu32
			       ", is not that of one process",
			       form, i, id);
			free(seen);
			return -FI_EOTHER;
		}
		seen[id] = true;
	}
	free(seen);
	return 0;
}

/* ---- the forms ---- */

static int launched(int error)
{
	FT_CHECK(!error, "a kernel cannot be launched");
	return 0;
}

static int by_kernel(struct run *run, enum comd_form form)
{
	FT_TRY(launched(comd_run(&run->comd, form, run->stream)));
	CU(synchronize(run->stream));
	return 0;
}

static int by_puts(struct run *run)
{
	return by_kernel(run, COMD_PUT);
}

static int by_messages(struct run *run)
{
	return by_kernel(run, COMD_SEND);
}

/* What comes along one way is of the neighbour on the other side. */
static fi_addr_t sender(const struct run *run, int axis, int way)
{
	return run->comd.peer[axis][!way];
}

/* The host reads how many atoms leave, so that its messages are as short as may be. */
static int host_exchange(struct run *run, uint64_t step, int axis)
{
	struct xpu_side *side = &run->side;
	const struct comd *comd = &run->comd;
	struct ft_req reqs[2 * COMD_WAYS] = {{.done = false}};
	uint64_t count;

	for (int way = 0; way < COMD_WAYS; way++) {
		struct ft_op op = {
			.call = FT_RECVMSG,
			.tagged = true,
			.addr = sender(run, axis, way),
			.tag = comd_word(step, axis, way),
			.flags = FI_COMPLETION,
			.req = &reqs[way],
		};

		ft_op_buf(&op, &side->in, comd_in(comd, step, axis, way),
			  comd_bytes(comd->most));
		FT_TRY(ft_post(&side->ctx, &op));
	}
	for (int way = 0; way < COMD_WAYS; way++) {
		struct ft_op op = {
			.call = FT_SENDMSG,
			.tagged = true,
			.addr = comd->peer[axis][way],
			.tag = comd_word(step, axis, way),
			.flags = FI_COMPLETION,
			.req = &reqs[COMD_WAYS + way],
		};

		FT_TRY(side->out.ops->from(&count, comd->out + comd_out(comd, axis, way),
					   sizeof(count)));
		ft_op_buf(&op, &side->out, comd_out(comd, axis, way), comd_bytes(count));
		FT_TRY(ft_post(&side->ctx, &op));
	}
	return ft_wait(&side->ctx, reqs, FT_COUNT(reqs));
}

static int by_host(struct run *run)
{
	const struct comd *comd = &run->comd;

	for (uint64_t step = 1; step <= comd->steps; step++) {
		for (int axis = 0; axis < comd->axes; axis++) {
			FT_TRY(launched(comd_pack(comd, step, axis, run->stream)));
			CU(synchronize(run->stream));
			FT_TRY(host_exchange(run, step, axis));
			FT_TRY(launched(comd_unpack(comd, step, axis, run->stream)));
		}
	}
	CU(synchronize(run->stream));
	return ft_barrier(run->side.proc, &run->side.ctx);
}

/* The host does not know how many atoms leave. So messages are as long as can be, and begin with the number. */
static int put_exchange(struct run *run, uint64_t step, int axis)
{
	struct xpu_side *side = &run->side;
	const struct comd *comd = &run->comd;
	const size_t len = comd_bytes(comd->most);

	for (int way = 0; way < COMD_WAYS; way++)
		FT_TRY(fi_p2p_stream_trecv(side->ctx.ep,
					   comd->in + comd_in(comd, step, axis, way), len,
					   side->in.desc, sender(run, axis, way),
					   comd_word(step, axis, way), 0, NULL, run->stream));
	for (int way = 0; way < COMD_WAYS; way++)
		FT_TRY(fi_p2p_stream_tsend(side->ctx.ep, comd->out + comd_out(comd, axis, way),
					   len, side->out.desc, comd->peer[axis][way],
					   comd_word(step, axis, way), NULL, run->stream));
	return 0;
}

static int by_stream(struct run *run)
{
	const struct comd *comd = &run->comd;
	struct xpu_side *side = &run->side;
	uint64_t sent = fi_cntr_read(side->tx), received = fi_cntr_read(side->rx);

	for (uint64_t step = 1; step <= comd->steps; step++) {
		for (int axis = 0; axis < comd->axes; axis++) {
			FT_TRY(launched(comd_pack(comd, step, axis, run->stream)));
			FT_TRY(put_exchange(run, step, axis));
			sent += COMD_WAYS;
			received += COMD_WAYS;
			FT_TRY(fi_p2p_stream_wait(&side->tx->fid, sent, run->stream));
			FT_TRY(fi_p2p_stream_wait(&side->rx->fid, received, run->stream));
			FT_TRY(launched(comd_unpack(comd, step, axis, run->stream)));
		}
	}
	CU(synchronize(run->stream));
	return 0;
}

/* ---- running ---- */

static int begin(struct run *run)
{
	const struct xpu_side *side = &run->side;
	uint64_t words[WORDS] = {0};

	for (uint64_t i = 0; i < run->comd.most; i++)
		if (is_mine(run, &run->start[i]))
			run->found[words[WORD_LISTED]++] = run->start[i];
	FT_TRY(run->atoms.ops->to(run->comd.list[0], run->found,
				  words[WORD_LISTED] * sizeof(*run->found)));
	FT_TRY(side->result.ops->to(side->result.addr, words, sizeof(words)));
	FT_TRY(xpu_side_clear(&side->signal));
	return xpu_side_clear(&side->out);
}

static int form(struct run *run, const char *name, int (*iterate)(struct run *run))
{
	struct form_time time;

	FT_TRY(begin(run));
	FT_TRY(form_begin(&run->side, &time));
	FT_TRY(iterate(run));
	FT_TRY(form_end(&run->side, &time, name, run->comd.steps));
	FT_TRY(check(run, name));
	ft_progress_note();
	return 0;
}

static int forms(struct run *run)
{
	struct xpu_side *side = &run->side;

	if (!side->proc->rank)
		printf("%d ranks, %" PRIu64 " atoms\n", side->proc->ranks, run->comd.most);
	FT_TRY(form(run, "puts", by_puts));
	FT_TRY(form(run, "messages", by_messages));
	FT_TRY(xpu_side_take_back(side));
	FT_TRY(ft_meet_all(side->proc));
	FT_TRY(form(run, "stream", by_stream));
	return form(run, "host", by_host);
}

/* Two or three ranks are a ring, four are a torus. */
static void place(struct run *run)
{
	const struct ft_proc *proc = run->side.proc;
	struct comd *comd = &run->comd;

	comd->axes = proc->ranks < 4 ? 1 : 2;
	comd->cells[0] = proc->ranks / comd->axes;
	comd->cells[1] = comd->axes;
	comd->cell[0] = proc->rank % comd->cells[0];
	comd->cell[1] = proc->rank / comd->cells[0];
}

static int find_neighbour(struct run *run, int axis, int way)
{
	struct xpu_side *side = &run->side;
	struct comd *comd = &run->comd;
	int32_t cell[2] = {comd->cell[0], comd->cell[1]};
	const struct xpu_memory *there;
	size_t len = sizeof(uint64_t);
	int rank;

	cell[axis] =
		(cell[axis] + (way == COMD_UP ? 1 : comd->cells[axis] - 1)) % comd->cells[axis];
	rank = cell[0] + cell[1] * comd->cells[0];
	there = &side->there[rank];
	FT_TRY(xpu_side_target_of(side, rank, &side->out, there->in, there->in_key,
				  &comd->target[axis][way]));
	FT_TRY(xpu_side_target_of(side, rank, &side->out, there->signal, there->signal_key,
				  &comd->signal_target[axis][way]));
	return side->xpu->av_lookup2(side->ctx.av, side->ctx.peer[rank], &comd->peer[axis][way],
				     &len, 0, side->xpu_ctx);
}

static int prepare(struct run *run)
{
	struct xpu_side *side = &run->side;
	struct comd *comd = &run->comd;
	const size_t size = comd->most * sizeof(struct comd_atom);
	size_t len = sizeof(uint64_t);

	run->start = calloc(3, size);
	FT_CHECK(run->start, "no memory for %zu bytes", 3 * size);
	run->expected = run->start + comd->most;
	run->found = run->expected + comd->most;
	FT_TRY(xpu_side_open(side, side->proc, 0, COMD_WORDS * comd_bytes(comd->most), WORDS,
			     false));
	FT_TRY(cu_load());
	FT_CHECK(!comd_load(), "the kernels cannot be loaded");
	CU(stream_create(&run->stream, CU_NON_BLOCKING));
	FT_TRY(ft_buf_alloc(&side->ctx, &run->atoms, FI_HMEM_CUDA, 2 * size));
	for (int axis = 0; axis < comd->axes; axis++)
		for (int way = 0; way < COMD_WAYS; way++)
			FT_TRY(find_neighbour(run, axis, way));
	if (side->in.mr)
		FT_TRY(side->xpu->mr_get_desc(side->in.mr, &comd->in_desc, &len, 0,
					      side->xpu_ctx));
	comd->out_desc = side->args.desc;
	comd->list[0] = (struct comd_atom *) run->atoms.addr;
	comd->list[1] = comd->list[0] + comd->most;
	comd->listed = (uint64_t *) side->result.addr + WORD_LISTED;
	comd->meet = (uint64_t *) side->result.addr + WORD_MEET;
	comd->failed = (uint64_t *) side->result.addr + WORD_FAILED;
	comd->out = side->out.addr;
	comd->in = side->in.addr;
	comd->ep = side->args.ep;
	comd->tx = side->args.tx;
	comd->rx = side->args.rx;
	comd->signal = (uint64_t *) side->signal.addr;
	return 0;
}

static int run(struct ft_proc *proc)
{
	const bool quick = proc->opts.quick;
	struct run run = {
		.side = {.proc = proc},
		.comd = {.most = quick ? 400 : 100000,
			 .steps = quick ? 6 : 200,
			 .blocks = quick ? 3 : 64,
			 .threads = quick ? 4 : 256},
	};

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	place(&run);
	FT_TRY(prepare(&run));
	expect(&run);
	FT_TRY(forms(&run));
	CU(stream_destroy(run.stream));
	ft_buf_free(&run.atoms);
	free(run.start);
	return xpu_side_close(&run.side);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose =
			"Atoms that move among the GPUs of two to four ranks: by host, stream "
			"and kernel.",
		.scope = FT_SCOPE_TEST | FT_SCOPE_RANKS,
		.ranks = 2,
		.most_ranks = 4,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
