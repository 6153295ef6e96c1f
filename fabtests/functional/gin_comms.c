/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_gin_comms: several communicators of libnccl-gin-p2p in each process, whose ranks differ in their numbers. All put at
 * once, also by a thread for each; all add to one word; puts end where their regions end; calls of the GPU's driver fail; NCCL
 * aborts, on all ranks or on one, and begins anew.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gin_plugin.h"

#define COMMS 3
#define CONTEXTS 2
#define LENGTH ((size_t) 70001)
#define SLOT (LENGTH + FT_ROOM)
#define WORDS 64
#define CROWD 600
#define AGAIN 4
#define FAULTS 12

/**
 * struct comm - a communicator, with all that it has.
 * @number:	of it. It turns the processes' numbers into ranks.
 * @data:	first a slot for what goes to each rank, then one for what comes from each
 * @words:	signals, of which each rank adds to its own. All add to the last one.
 * @expected:	what the word of each rank has to be
 */
struct comm {
	struct ft_proc *proc;
	int number;
	int rank;
	struct ft_buf data, words;
	uint64_t expected[WORDS];
	void *coll, *ctx, *data_mr, *words_mr;
};

static const struct nccl_rma_v15 *rma;
static struct comm comms[COMMS];

static struct ft_slot slot_of(const struct comm *c, bool in, int rank)
{
	const size_t base = ((in ? (size_t) c->proc->ranks : 0) + (size_t) rank) * SLOT;

	return (struct ft_slot){&c->data, base, SLOT, base + 64, LENGTH};
}

static uint64_t key_of(const struct comm *c, int round, int from, int to)
{
	return (uint64_t) (((round * COMMS + c->number) * FT_MAX_RANKS + from) * FT_MAX_RANKS +
			   to);
}

static int process_of(const struct comm *c, int rank)
{
	return (rank - c->number + c->proc->ranks) % c->proc->ranks;
}

/* ---- waiting ---- */

static int progress(void)
{
	for (int i = 0; i < COMMS; i++)
		if (comms[i].ctx)
			FT_TRY(gin_check(rma->progress(comms[i].ctx), "progress"));
	return 0;
}

/* All processes meet, and go on meanwhile */
static int meet(struct ft_proc *proc)
{
	struct pollfd polled = {.events = POLLIN};
	char byte = 0;

	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_send(proc->fd[i], &byte, 1));
	for (int i = 0; i < proc->ranks; i++) {
		polled.fd = proc->fd[i];
		while (i != proc->rank && poll(&polled, 1, 0) <= 0)
			FT_TRY(progress());
		if (i != proc->rank)
			FT_TRY(ft_oob_recv(proc->fd[i], &byte, 1, proc->opts.timeout));
	}
	ft_progress_note();
	return 0;
}

/* The end of a request: NCCL_SUCCESS, or how it has failed */
static int end_of(struct comm *c, void *req, int *result)
{
	const double end = ft_usec() + (double) c->proc->opts.timeout * 1e6;
	int done = 0;

	for (*result = NCCL_SUCCESS; *result == NCCL_SUCCESS && !done;) {
		FT_CHECK(ft_usec() < end, "a request of communicator %d does not end",
			 c->number);
		FT_TRY(progress());
		*result = rma->test(c->coll, req, &done);
	}
	ft_progress_note();
	return 0;
}

static int finish(struct comm *c, void *req)
{
	int result;

	FT_TRY(end_of(c, req, &result));
	return gin_check(result, "test");
}

static int wait_word(struct comm *c, int word)
{
	const double end = ft_usec() + (double) c->proc->opts.timeout * 1e6;
	uint64_t has = 0;

	while (has != c->expected[word]) {
		FT_CHECK(ft_usec() < end && has <= c->expected[word],
			 "word %d of communicator %d is %llu, not %llu", word, c->number,
			 (unsigned long long) has, (unsigned long long) c->expected[word]);
		FT_TRY(progress());
		FT_TRY(c->words.ops->from(&has, c->words.addr + word * (int) sizeof(has),
					  sizeof(has)));
	}
	ft_progress_note();
	return 0;
}

/* ---- a communicator ---- */

static int connect_comm(struct comm *c)
{
	struct nccl_rma_config_v14 config = {.contexts = CONTEXTS, .rank_stride = 1};
	char handles[FT_MAX_RANKS][NCCL_HANDLE_MAX];
	void *all[FT_MAX_RANKS], *listens;
	struct ft_proc *proc = c->proc;

	FT_TRY(gin_check(rma->listen(NULL, 0, handles[proc->rank], &listens), "listen"));
	FT_TRY(gin_exchange(proc, proc->ranks, handles, NCCL_HANDLE_MAX));
	for (int i = 0; i < proc->ranks; i++)
		all[(i + c->number) % proc->ranks] = handles[i];
	FT_TRY(gin_check(rma->connect(NULL, all, proc->ranks, c->rank, listens, &c->coll),
			 "connect"));
	FT_TRY(gin_check(rma->create_context(c->coll, &config, &c->ctx), "contexts"));
	return gin_check(rma->close_listen(listens), "close of a listener");
}

static int register_comm(struct comm *c)
{
	const int type = c->data.ops->iface == FI_HMEM_CUDA ? NCCL_CUDA : NCCL_HOST;
	const uint64_t zero[WORDS] = {0};

	FT_TRY(c->words.ops->to(c->words.addr, zero, sizeof(zero)));
	memset(c->expected, 0, sizeof(c->expected));
	FT_TRY(gin_check(rma->reg_mr(c->coll, c->data.addr, c->data.size, type, 0, &c->data_mr),
			 "registering"));
	return gin_check(rma->reg_mr(c->coll, c->words.addr, c->words.size, type, 1,
				     &c->words_mr),
			 "registering words");
}

/* As NCCL ends a communicator, or aborts it: whether anything is under way plays no part. */
static int close_comm(struct comm *c)
{
	FT_TRY(gin_check(rma->dereg_mr(c->coll, c->data_mr), "deregistering"));
	FT_TRY(gin_check(rma->dereg_mr(c->coll, c->words_mr), "deregistering words"));
	FT_TRY(gin_check(rma->destroy_context(c->ctx), "end of contexts"));
	c->ctx = NULL;
	return gin_check(rma->close_coll(c->coll), "close");
}

/* ---- scenes ---- */

static int put_to(struct comm *c, int to, uint64_t value, bool strong, void **req)
{
	const struct ft_slot from = slot_of(c, false, to), there = slot_of(c, true, c->rank);

	return gin_check(rma->iput_signal(c->ctx, to % CONTEXTS, from.off, c->data_mr, LENGTH,
					  there.off, c->data_mr, (uint32_t) to,
					  (uint64_t) c->rank * sizeof(uint64_t), c->words_mr,
					  value, NCCL_SIGNAL_ADD, strong, 1, req),
			 "iputSignal");
}

static int arm_comm(struct comm *c, int round)
{
	struct ft_slot slot;

	for (int i = 0; i < c->proc->ranks; i++) {
		slot = slot_of(c, false, i);
		FT_TRY(ft_slot_fill(&slot, key_of(c, round, c->rank, i)));
		slot = slot_of(c, true, i);
		FT_TRY(ft_slot_arm(&slot));
	}
	return 0;
}

/* What every rank has put, once its signal is seen */
static int see_all(struct comm *c, int round)
{
	struct ft_slot slot;

	for (int i = 0; i < c->proc->ranks; i++) {
		slot = slot_of(c, true, i);
		c->expected[i] += 3;
		FT_TRY(wait_word(c, i));
		FT_TRY(ft_slot_check(&slot, LENGTH, key_of(c, round, i, c->rank),
				     "what was put"));
	}
	return 0;
}

/* All ranks of all communicators put to all, before anything is waited for. */
static int together(struct ft_proc *proc)
{
	void *reqs[COMMS][FT_MAX_RANKS];

	for (int i = 0; i < COMMS; i++)
		FT_TRY(arm_comm(&comms[i], 0));
	FT_TRY(meet(proc));
	for (int to = 0; to < proc->ranks; to++)
		for (int i = 0; i < COMMS; i++)
			FT_TRY(put_to(&comms[i], to, 3, true, &reqs[i][to]));
	for (int i = COMMS - 1; i >= 0; i--)
		FT_TRY(see_all(&comms[i], 0));
	for (int to = 0; to < proc->ranks; to++)
		for (int i = 0; i < COMMS; i++)
			FT_TRY(finish(&comms[i], reqs[i][to]));
	return meet(proc);
}

/* More requests than there are at first. All ranks add to one word, strong and weak by turns, in all contexts. */
static int one_word(struct comm *c)
{
	void *reqs[CROWD];
	uint64_t sum = 0;

	for (int i = 0; i < CROWD; i++) {
		FT_TRY(gin_check(rma->iput_signal(c->ctx, i % CONTEXTS, 0, NULL, 0, 0, NULL, 0,
						  (WORDS - 1) * sizeof(uint64_t), c->words_mr,
						  (uint64_t) i, NCCL_SIGNAL_ADD, i % 3, 0,
						  &reqs[i]),
				 "a signal"));
		sum += (uint64_t) i;
	}
	for (int i = 0; i < CROWD; i++)
		FT_TRY(finish(c, reqs[i]));
	FT_TRY(meet(c->proc));
	c->expected[WORDS - 1] = c->rank ? 0 : sum * (uint64_t) c->proc->ranks;
	FT_TRY(wait_word(c, WORDS - 1));
	return meet(c->proc);
}

static int refused(struct comm *c, uint64_t near, size_t size, uint64_t far, uint64_t word,
		   uint32_t op)
{
	void *req;
	const int ret = rma->iput_signal(c->ctx, 0, near, c->data_mr, size, far, c->data_mr, 0,
					 word, c->words_mr, 1, op, true, 0, &req);

	FT_CHECK(ret == NCCL_INVALID_ARGUMENT, "%zu bytes at %llu, signal %u at %llu: %d", size,
		 (unsigned long long) far, op, (unsigned long long) word, ret);
	return 0;
}

/* Nothing, at the very end; the last byte; and what goes beyond by one, or beyond all numbers */
static int edges(struct comm *c)
{
	const uint64_t end = c->data.size, last = c->words.size - sizeof(uint64_t);
	const int me = c->rank, next = (me + 1) % c->proc->ranks;
	const int before = (me + c->proc->ranks - 1) % c->proc->ranks;
	unsigned char byte = (unsigned char) (me + 1), got = 0;
	void *reqs[2];

	FT_TRY(c->data.ops->to(c->data.addr, &byte, 1));
	FT_TRY(meet(c->proc));
	FT_TRY(gin_check(rma->iput(c->ctx, 0, end, c->data_mr, 0, end, c->data_mr,
				   (uint32_t) next, 0, &reqs[0]),
			 "a put of nothing"));
	FT_TRY(gin_check(rma->iput(c->ctx, 0, 0, c->data_mr, 1, end - 1, c->data_mr,
				   (uint32_t) next, 0, &reqs[1]),
			 "a put of the last byte"));
	FT_TRY(finish(c, reqs[0]));
	FT_TRY(finish(c, reqs[1]));
	FT_TRY(meet(c->proc));
	FT_TRY(c->data.ops->from(&got, c->data.addr + end - 1, 1));
	FT_CHECK(got == before + 1, "the last byte is %d", got);
	FT_TRY(gin_check(rma->iget(c->ctx, 1, end - 1, c->data_mr, 1, 1, c->data_mr,
				   (uint32_t) next, 0, &reqs[0]),
			 "a read of the last byte"));
	FT_TRY(gin_check(rma->iget(c->ctx, 1, end, c->data_mr, 0, end, c->data_mr,
				   (uint32_t) next, 0, &reqs[1]),
			 "a read of nothing"));
	FT_TRY(finish(c, reqs[1]));
	FT_TRY(finish(c, reqs[0]));
	FT_TRY(c->data.ops->from(&got, c->data.addr + 1, 1));
	FT_CHECK(got == me + 1, "the next rank's last byte is %d", got);
	FT_TRY(refused(c, 0, 1, end, last, NCCL_SIGNAL_INC));
	FT_TRY(refused(c, 1, end, 0, last, NCCL_SIGNAL_INC));
	FT_TRY(refused(c, 0, SIZE_MAX, 1, last, NCCL_SIGNAL_INC));
	FT_TRY(refused(c, 0, 1, UINT64_MAX, last, NCCL_SIGNAL_INC));
	FT_TRY(refused(c, 0, 1, 0, last + 1, NCCL_SIGNAL_INC));
	FT_TRY(refused(c, 0, 1, 0, UINT64_MAX, NCCL_SIGNAL_INC));
	FT_TRY(refused(c, 0, 1, 0, last, NCCL_SIGNAL_INC | NCCL_SIGNAL_ADD));
	return meet(c->proc);
}

static int reopen(struct comm *c, int round)
{
	FT_TRY(close_comm(c));
	FT_TRY(meet(c->proc));
	FT_TRY(connect_comm(c));
	FT_TRY(register_comm(c));
	FT_TRY(arm_comm(c, round));
	return meet(c->proc);
}

/* NCCL aborts amid puts, and the application begins anew, again and again. Nothing is left of what was. */
static int anew(struct comm *c)
{
	int before = 0;
	void *req;

	for (int round = 1; round <= AGAIN; round++) {
		for (int i = 0; i < c->proc->ranks; i++)
			FT_TRY(put_to(c, i, 3, true, &req));
		FT_TRY(reopen(c, round));
		for (int i = 0; i < c->proc->ranks; i++)
			FT_TRY(put_to(c, i, 3, false, &req));
		FT_TRY(see_all(c, round));
		FT_TRY(meet(c->proc));
		if (round == 1)
			before = ft_descriptors();
	}
	/* one may be open for a moment, of memory that is shared */
	FT_CHECK(ft_descriptors() < before + AGAIN / 2, "%d descriptors, %d before",
		 ft_descriptors(), before);
	return 0;
}

/* One rank aborts alone. What the others have under way with it fails, and so does what they register next. */
static int alone(struct comm *c)
{
	const int leaves = c->proc->ranks - 1;
	int result;
	void *req;

	if (c->rank == leaves)
		FT_TRY(close_comm(c));
	FT_TRY(meet(c->proc));
	if (c->rank != leaves) {
		FT_TRY(put_to(c, leaves, 3, true, &req));
		FT_TRY(end_of(c, req, &result));
		FT_CHECK(result == NCCL_SYSTEM_ERROR, "a put to a rank that has left: %d",
			 result);
		result = rma->reg_mr(c->coll, c->words.addr, c->words.size, NCCL_HOST, 0, &req);
		FT_CHECK(result == NCCL_SYSTEM_ERROR, "registering without a rank: %d", result);
		FT_TRY(close_comm(c));
	}
	FT_TRY(meet(c->proc));
	FT_TRY(connect_comm(c));
	return register_comm(c);
}

static void *put_by_thread(void *arg)
{
	struct comm *c = arg;
	void *reqs[FT_MAX_RANKS];
	int failed = c->data.ops->init(c->proc->opts.device);

	for (int round = 0; round < AGAIN && !failed; round++) {
		for (int i = 0; i < c->proc->ranks && !failed; i++)
			failed = put_to(c, i, 3, round % 2, &reqs[i]);
		for (int i = 0; i < c->proc->ranks && !failed; i++)
			failed = finish(c, reqs[i]);
	}
	return failed ? c : NULL;
}

/* As NCCL has it, each communicator has a thread of its own. */
static int threads(struct ft_proc *proc)
{
	pthread_t thread[COMMS];
	void *failed[COMMS];

	for (int i = 0; i < COMMS; i++)
		FT_TRY(arm_comm(&comms[i], 1));
	FT_TRY(meet(proc));
	for (int i = 0; i < COMMS; i++)
		FT_CHECK(!pthread_create(&thread[i], NULL, put_by_thread, &comms[i]),
			 "no thread");
	for (int i = 0; i < COMMS; i++)
		pthread_join(thread[i], &failed[i]);
	for (int i = 0; i < COMMS; i++)
		FT_CHECK(!failed[i], "the thread of communicator %d has failed", i);
	FT_TRY(meet(proc));
	for (int i = 0; i < COMMS; i++)
		for (int from = 0; from < proc->ranks; from++) {
			const struct ft_slot slot = slot_of(&comms[i], true, from);

			comms[i].expected[from] += 3 * AGAIN;
			FT_TRY(wait_word(&comms[i], from));
			FT_TRY(ft_slot_check(&slot, LENGTH,
					     key_of(&comms[i], 1, from, comms[i].rank),
					     "what threads put"));
		}
	return meet(proc);
}

/*
 * From some call on the GPU's driver fails where rank 0 puts. Either all is right, or the request fails, and nobody sees its
 * signal.
 */
static int driver_fails(struct comm *c)
{
	struct ft_slot slot = slot_of(c, true, 0);
	unsigned long failed;
	int result = NCCL_SUCCESS;
	uint64_t has = 0;
	void *req;

	for (unsigned long nth = 1; nth <= FAULTS; nth++) {
		FT_TRY(reopen(c, (int) nth));
		if (!c->rank) {
			FT_TRY(ft_cuda_break(nth, &failed));
			result = rma->iput_signal(c->ctx, 0, slot_of(c, false, 1).off,
						  c->data_mr, LENGTH, slot.off, c->data_mr, 1,
						  0, c->words_mr, 3, NCCL_SIGNAL_ADD, true, 0,
						  &req);
			if (result == NCCL_SUCCESS)
				FT_TRY(end_of(c, req, &result));
			FT_TRY(ft_cuda_break(0, &failed));
		}
		FT_TRY(meet(c->proc));
		if (!c->rank)
			FT_TRY(ft_oob_send(c->proc->fd[process_of(c, 1)], &result,
					   sizeof(result)));
		if (c->rank != 1)
			continue;
		FT_TRY(ft_oob_recv(c->proc->fd[process_of(c, 0)], &result, sizeof(result),
				   c->proc->opts.timeout));
		FT_TRY(c->words.ops->from(&has, c->words.addr, sizeof(has)));
		FT_CHECK(has == (result == NCCL_SUCCESS ? 3 : 0), "result %d, a signal of %llu",
			 result, (unsigned long long) has);
		if (has)
			FT_TRY(ft_slot_check(&slot, LENGTH, key_of(c, (int) nth, 0, 1),
					     "what was put while the driver fails"));
	}
	return reopen(c, 0);
}

static int buffer(struct ft_proc *proc, struct ft_buf *buf, size_t size)
{
	void *addr;

	*buf = (struct ft_buf){.ops = ft_mem_ops(proc->opts.iface), .size = size};
	FT_TRY(buf->ops->init(proc->opts.device));
	FT_TRY(buf->ops->alloc(size, &addr));
	buf->addr = addr;
	return 0;
}

static int scenes(struct ft_proc *proc)
{
	for (int i = 0; i < COMMS; i++) {
		struct comm *c = &comms[i];

		*c = (struct comm){proc, i, (proc->rank + i) % proc->ranks, .ctx = NULL};
		FT_TRY(buffer(proc, &c->data, 2 * (size_t) proc->ranks * SLOT));
		FT_TRY(buffer(proc, &c->words, WORDS * sizeof(uint64_t)));
		FT_TRY(connect_comm(c));
		FT_TRY(register_comm(c));
	}
	FT_TRY(together(proc));
	FT_TRY(one_word(&comms[1]));
	FT_TRY(edges(&comms[1]));
	FT_TRY(anew(&comms[2]));
	/* shm's names are no addresses, so nobody can be asked */
	if (!strstr(proc->opts.prov, "shm"))
		FT_TRY(alone(&comms[0]));
	FT_TRY(threads(proc));
	if (getenv("FT_DRIVER_FAILS"))
		FT_TRY(driver_fails(&comms[2]));
	FT_TRY(together(proc));
	for (int i = 0; i < COMMS; i++)
		FT_TRY(close_comm(&comms[i]));
	return 0;
}

static int run(struct ft_proc *proc)
{
	unsigned long failed;
	void *plugin, *ctx;

	FT_TRY(ft_test_own_device(proc));
	/* a real driver is not to be broken: then all ranks are left out */
	if (getenv("FT_DRIVER_FAILS")) {
		FT_TRY(ft_mem_ops(proc->opts.iface)->init(proc->opts.device));
		FT_TRY(ft_cuda_break(0, &failed));
	}
	FT_TRY(gin_plugin_open(proc, &plugin));
	rma = dlsym(plugin, "ncclRmaPlugin_v15");
	FT_CHECK(rma, "no puts for NCCL after 2.30.7");
	if (rma->init(&ctx, 1, gin_say) != NCCL_SUCCESS)
		return ft_skip("this provider has no puts");
	FT_TRY(scenes(proc));
	FT_TRY(gin_check(rma->finalize(ctx), "finalize"));
	for (int i = 0; i < COMMS; i++) {
		comms[i].data.ops->release(comms[i].data.addr);
		comms[i].words.ops->release(comms[i].words.addr);
	}
	return ft_meet_all(proc);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Several communicators of libnccl-gin-p2p.",
		.ranks = 3,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
