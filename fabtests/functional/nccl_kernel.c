/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_nccl_kernel: what NCCL does while its kernel waits for messages. The kernel ends only when the host says so, and
 * the host says so when all messages are there. So no call of the GPU driver that waits for kernels may be made meanwhile.
 *
 * As NCCL's proxy does, a thread without a GPU context posts, reads completions, registers memory of which nobody has
 * heard before, opens an endpoint more and closes both. Before the kernel, memory was sent, freed, and made anew at the same
 * place: its messages come while the kernel runs, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "busygpu.h"
#include "cudamem.h"
#include "nccl.h"

#define LARGEST ((size_t) 4 << 20)
#define END 0x600d
#define SECONDS 20 /* a kernel that nobody ends */

static const size_t sizes[] = {8, 4096, 16384, 70001, 128 << 10, 512 << 10, LARGEST};

/* The plugin's virtual memory, and what programs allocate */
static const struct ft_mem_ops *const kinds[] = {&cudamem_vmm_shared, &ft_cuda_ops};

#define KINDS FT_COUNT(kinds)

/* Registered before the kernel, while it runs, and what was made where something was freed */
enum age { KNOWN, NEW, AGAIN, AGES };

static const char *const ages[AGES] = {"known", "new", "made anew"};

/** struct memory - out of one message, and into one */
struct memory {
	void *addr[2];
	struct fid_mr *mr[2];
};

struct side {
	struct ft_proc *proc;
	struct nccl_dev devs[NCCL_DEVS];
	struct nccl_ep ep, late;
	struct memory memory[AGES][KINDS];
	uint32_t *word; /* what the GPU looks at */
	uint64_t number;
	char *host;
	int ret;
};

/* ---- memory ---- */

static int make(struct side *s, enum age age, size_t kind)
{
	for (int into = 0; into < 2; into++)
		FT_TRY(kinds[kind]->alloc(LARGEST, &s->memory[age][kind].addr[into]));
	return 0;
}

/* What is sent from: freed, and at the same place once more */
static int make_again(struct side *s, size_t kind)
{
	void **addr = &s->memory[AGAIN][kind].addr[0], *before = *addr;

	kinds[kind]->release(*addr);
	FT_TRY(kinds[kind]->alloc(LARGEST, addr));
	if (*addr != before)
		printf("note: %s memory is somewhere else the second time\n",
		       kinds[kind]->name);
	return 0;
}

static int name(struct side *s, enum age age, size_t kind)
{
	struct memory *memory = &s->memory[age][kind];

	for (int into = 0; into < 2; into++)
		FT_TRY(nccl_register(&s->devs[0], memory->addr[into], LARGEST, true, false,
				     FI_SEND | FI_RECV, &memory->mr[into]));
	return 0;
}

static int forget(struct side *s, enum age age, size_t kind)
{
	for (int into = 0; into < 2; into++)
		FT_TRY(nccl_close(&s->memory[age][kind].mr[into]->fid, "region"));
	return 0;
}

static void free_all(struct side *s, enum age age, size_t kind)
{
	for (int into = 0; into < 2; into++)
		kinds[kind]->release(s->memory[age][kind].addr[into]);
}

/* ---- messages ---- */

/* One each way, out of memory of one kind */
static int exchange(struct side *s, struct nccl_ep *ep, enum age age, size_t kind, size_t len)
{
	const struct memory *memory = &s->memory[age][kind];
	const int rank = s->proc->rank;
	const struct nccl_comm *out = &ep->comm[rank], *into = &ep->comm[!rank];
	struct nccl_req req[2] = {{.done = false}, {.done = false}};
	const uint64_t key = ++s->number;
	unsigned char expected;
	ssize_t diff;

	ft_pattern_fill(s->host, len, 2 * key + (uint64_t) rank);
	FT_TRY(busygpu_to(memory->addr[0], s->host, len));
	memset(s->host, FT_GUARD, len);
	FT_TRY(busygpu_to(memory->addr[1], s->host, len));
	NCCL_POST(ep, fi_trecv(ep->ep, memory->addr[1], len, fi_mr_desc(memory->mr[1]),
			       FI_ADDR_UNSPEC, into->tag, 0, &req[1].context));
	NCCL_POST(ep, fi_tsend(ep->ep, memory->addr[0], len, fi_mr_desc(memory->mr[0]),
			       out->peer, out->tag, &req[0].context));
	FT_TRY(nccl_wait(ep, req, 2));
	FT_CHECK(req[1].comp.len == len, "%zu bytes, not %zu", req[1].comp.len, len);
	FT_TRY(busygpu_from(s->host, memory->addr[1], len));
	diff = ft_pattern_diff(s->host, len, 2 * key + (uint64_t) !rank, &expected);
	FT_CHECK(diff < 0, "%zu bytes of %s memory, %s: byte %zd is wrong", len,
		 kinds[kind]->name, ages[age], diff);
	return 0;
}

static int exchange_all(struct side *s, struct nccl_ep *ep, enum age age)
{
	for (size_t kind = 0; kind < KINDS; kind++)
		for (size_t i = 0; i < FT_COUNT(sizes); i++)
			FT_TRY(exchange(s, ep, age, kind, sizes[i]));
	return 0;
}

/* ---- the proxy ---- */

static int amid_kernel(struct side *s)
{
	FT_TRY(exchange_all(s, &s->ep, KNOWN));
	FT_TRY(exchange_all(s, &s->ep, AGAIN));
	for (size_t kind = 0; kind < KINDS; kind++)
		FT_TRY(name(s, NEW, kind));
	FT_TRY(exchange_all(s, &s->ep, NEW));
	FT_TRY(nccl_ep_open(&s->late, &s->devs[0], NCCL_SENDRECV));
	FT_TRY(nccl_connect(s->proc, &s->late));
	FT_TRY(exchange_all(s, &s->late, NEW));
	FT_TRY(nccl_meet(s->proc, &s->late, 1));
	for (size_t kind = 0; kind < KINDS; kind++)
		FT_TRY(forget(s, NEW, kind));
	return nccl_ep_close(&s->late);
}

static void *proxy(void *arg)
{
	struct side *s = arg;

	s->ret = amid_kernel(s);
	return NULL;
}

/* ---- the whole ---- */

static int set_up(struct side *s)
{
	int (*host_alloc)(void **data, size_t size, unsigned int flags);
	const struct ft_symbol symbol = {"cuMemHostAlloc", &host_alloc};
	void *word;

	FT_TRY(ft_load("libcuda.so.1", &symbol, 1));
	FT_TRY(ft_cuda_check(host_alloc(&word, sizeof(*s->word), 0), "cuMemHostAlloc"));
	s->word = word;
	*s->word = 0;
	s->host = malloc(LARGEST);
	if (!s->host)
		return -FI_ENOMEM;
	FT_TRY(nccl_devs_open(s->proc, NCCL_SENDRECV, s->devs));
	FT_TRY(nccl_ep_open(&s->ep, &s->devs[0], NCCL_SENDRECV));
	FT_TRY(nccl_connect(s->proc, &s->ep));
	for (size_t kind = 0; kind < KINDS; kind++) {
		FT_TRY(make(s, KNOWN, kind));
		FT_TRY(name(s, KNOWN, kind));
		FT_TRY(make(s, AGAIN, kind));
		FT_TRY(name(s, AGAIN, kind));
	}
	FT_TRY(exchange_all(s, &s->ep, AGAIN));
	FT_TRY(nccl_meet(s->proc, &s->ep, 1));
	for (size_t kind = 0; kind < KINDS; kind++) {
		FT_TRY(forget(s, AGAIN, kind));
		FT_TRY(make_again(s, kind));
		FT_TRY(name(s, AGAIN, kind));
		FT_TRY(make(s, NEW, kind));
	}
	return nccl_meet(s->proc, &s->ep, 1);
}

static int clear(struct side *s)
{
	FT_TRY(nccl_meet(s->proc, &s->ep, 1));
	for (size_t kind = 0; kind < KINDS; kind++) {
		FT_TRY(forget(s, KNOWN, kind));
		FT_TRY(forget(s, AGAIN, kind));
		for (int age = 0; age < AGES; age++)
			free_all(s, age, kind);
	}
	FT_TRY(nccl_ep_close(&s->ep));
	free(s->host);
	return nccl_devs_close(s->devs);
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc};
	pthread_t thread;
	bool runs;
	int err;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	if (!strncmp(proc->opts.prov, "shm", 3))
		return ft_skip("shm's names are too long for the plugin");
	FT_TRY(ft_test_own_device(proc));
	FT_TRY(cudamem_vmm_shared.init(proc->opts.device));
	FT_TRY(busygpu_open(proc->opts.device));
	FT_TRY(set_up(&s));
	FT_TRY(busygpu_start(s.word, END, SECONDS));
	err = pthread_create(&thread, NULL, proxy, &s);
	if (err)
		return ft_fail(-err, "pthread_create", "proxy");
	pthread_join(thread, NULL);
	FT_TRY(s.ret);
	FT_TRY(busygpu_runs(&runs));
	FT_CHECK(runs, "the GPU had nothing to do meanwhile");
	__atomic_store_n(s.word, END, __ATOMIC_RELEASE);
	while (runs) {
		FT_TRY(nccl_progress(&s.ep));
		FT_TRY(busygpu_runs(&runs));
	}
	return clear(&s);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "NCCL's proxy at work while a kernel waits for it.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
