/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_gin_death: a rank dies while the others register memory with libnccl-gin-p2p. They do not wait for its key. It has
 * exchanged keys with them before, or (FT_EARLY) not even connected. Or it dies amid their puts (FT_AMID): these fail, and so
 * does what is asked for later. The others make a communicator without it.
 */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gin_plugin.h"

#define RANKS 3
#define VICTIM 2
#define SIZE ((size_t) 1 << 20)
#define PUTS 64

/** struct memory - what is registered: host memory, or the device's with -D */
struct memory {
	const struct ft_mem_ops *ops;
	char *addr;
	int type;
};

static int connect_all(struct ft_proc *proc, int ranks, const struct nccl_gin_v11 *gin,
		       void **coll)
{
	char handles[RANKS][NCCL_HANDLE_MAX];
	void *said[RANKS], *listens;

	memset(handles, 0, sizeof(handles));
	FT_TRY(gin_check(gin->listen(NULL, 0, handles[proc->rank], &listens), "listen"));
	FT_TRY(gin_exchange(proc, ranks, handles, sizeof(handles[0])));
	for (int i = 0; i < ranks; i++)
		said[i] = handles[i];
	FT_TRY(gin_check(gin->connect(NULL, said, ranks, proc->rank, listens, coll),
			 "connect"));
	return gin_check(gin->close_listen(listens), "closing what listens");
}

/* The end of a request: NCCL_SUCCESS, or how it has failed */
static int end_of(struct ft_proc *proc, const struct nccl_gin_v11 *gin, void *coll, void *req,
		  int *result)
{
	const double end = ft_usec() + (double) proc->opts.timeout * 1e6;
	int done = 0;

	for (*result = NCCL_SUCCESS; *result == NCCL_SUCCESS && !done;) {
		FT_CHECK(ft_usec() < end, "a put does not end");
		*result = gin->test(coll, req, &done);
	}
	return 0;
}

/* The victim is killed by nobody else, and reads nothing. So what is put to it is under way, or not even begun, when it dies. */
static int amid(struct ft_proc *proc, const struct nccl_gin_v11 *gin, void *coll, void *mr)
{
	void *reqs[PUTS], *later;
	char bytes[RANKS];
	int result, failed = 0;

	for (int i = 0; i < PUTS && proc->rank != VICTIM; i++)
		FT_TRY(gin_check(gin->iput_signal(coll, 0, mr, SIZE - 8, 0, mr, VICTIM,
						  SIZE - 8, mr, 1, NCCL_SIGNAL_INC, &reqs[i]),
				 "iputSignal"));
	FT_TRY(gin_exchange(proc, RANKS, bytes, 1));
	if (proc->rank == VICTIM)
		raise(SIGKILL);
	for (int i = 0; i < PUTS; i++) {
		FT_TRY(end_of(proc, gin, coll, reqs[i], &result));
		failed += result == NCCL_SYSTEM_ERROR;
	}
	FT_CHECK(failed, "%d puts to a dead rank, none of which fails", PUTS);
	result = gin->iput(coll, 0, mr, 8, 8, mr, !proc->rank, &later);
	FT_CHECK(result == NCCL_SYSTEM_ERROR, "a put behind those that failed: %d", result);
	return 0;
}

/* The two that are left meet, and go on meanwhile, as the other one waits for answers. */
static int meet(struct ft_proc *proc, const struct nccl_gin_v11 *gin, void *coll)
{
	struct pollfd polled = {proc->fd[!proc->rank], POLLIN, 0};
	char byte = 0;

	FT_TRY(ft_oob_send(polled.fd, &byte, 1));
	while (poll(&polled, 1, 0) <= 0)
		FT_TRY(gin_check(gin->progress(coll), "progress"));
	return ft_oob_recv(polled.fd, &byte, 1, proc->opts.timeout);
}

/* The others go on by themselves. */
static int without(struct ft_proc *proc, const struct nccl_gin_v11 *gin,
		   const struct memory *memory)
{
	const double end = ft_usec() + (double) proc->opts.timeout * 1e6;
	void *coll, *mr, *unused, *req;
	uint64_t word = 0;
	int result;

	FT_TRY(memory->ops->to(memory->addr + SIZE - 8, &word, sizeof(word)));
	FT_TRY(connect_all(proc, VICTIM, gin, &coll));
	FT_TRY(gin_check(gin->reg_mr(coll, memory->addr, SIZE, memory->type, 0, &mr, &unused),
			 "reg_mr of two"));
	FT_TRY(gin_check(gin->iput_signal(coll, 0, mr, 8, 8, mr, !proc->rank, SIZE - 8, mr, 1,
					  NCCL_SIGNAL_INC, &req),
			 "iputSignal"));
	FT_TRY(end_of(proc, gin, coll, req, &result));
	FT_TRY(gin_check(result, "a put without the dead rank"));
	while (!word) {
		FT_CHECK(ft_usec() < end, "a signal of the other one does not come");
		FT_TRY(gin_check(gin->progress(coll), "progress"));
		FT_TRY(memory->ops->from(&word, memory->addr + SIZE - 8, sizeof(word)));
	}
	FT_TRY(meet(proc, gin, coll));
	FT_TRY(gin_check(gin->dereg_mr(coll, mr), "dereg_mr"));
	return gin_check(gin->close_coll(coll), "close");
}

static int allocate(struct ft_proc *proc, struct memory *memory)
{
	void *addr;

	FT_TRY(memory->ops->init(proc->opts.device));
	FT_TRY(memory->ops->alloc(SIZE, &addr));
	memory->addr = addr;
	memory->type = memory->ops->iface == FI_HMEM_CUDA ? NCCL_CUDA : NCCL_HOST;
	return 0;
}

static int register_without(struct ft_proc *proc, const struct nccl_gin_v11 *gin, void *coll,
			    const struct memory *memory)
{
	void *unused;
	int ret;

	if (proc->rank == VICTIM)
		raise(SIGKILL);
	for (int i = 0; i < 2; i++) {
		ret = gin->reg_mr(coll, memory->addr, SIZE, memory->type, 0, &unused, &unused);
		FT_CHECK(ret == NCCL_SYSTEM_ERROR, "without rank %d: result %d", VICTIM, ret);
	}
	return gin_check(gin->close_coll(coll), "close");
}

static int scene(struct ft_proc *proc, const struct nccl_gin_v11 *gin,
		 const struct memory *memory)
{
	void *coll, *mr, *unused;
	char bytes[RANKS];

	FT_TRY(connect_all(proc, RANKS, gin, &coll));
	if (!getenv("FT_EARLY")) {
		FT_TRY(gin_check(gin->reg_mr(coll, memory->addr, SIZE, memory->type, 0, &mr,
					     &unused),
				 "reg_mr of all"));
		FT_TRY(gin_exchange(proc, RANKS, bytes, 1));
	}
	if (!getenv("FT_AMID"))
		return register_without(proc, gin, coll, memory);
	FT_TRY(amid(proc, gin, coll, mr));
	FT_TRY(gin_check(gin->dereg_mr(coll, mr), "dereg_mr"));
	FT_TRY(gin_check(gin->close_coll(coll), "close"));
	return without(proc, gin, memory);
}

static int run(struct ft_proc *proc)
{
	struct memory memory = {ft_mem_ops(proc->opts.iface)};
	const struct nccl_gin_v11 *gin;
	void *plugin, *ctx;

	if (proc->opts.prov && !strncmp(proc->opts.prov, "shm", 3))
		return ft_skip("shm's names are no addresses, so nobody can be asked");
	FT_TRY(gin_plugin_open(proc, &plugin));
	gin = dlsym(plugin, "ncclGinPlugin_v11");
	FT_CHECK(gin, "no puts");
	if (gin->init(&ctx, 1, gin_say) != NCCL_SUCCESS)
		return ft_skip("this provider has no puts");
	FT_TRY(allocate(proc, &memory));
	FT_TRY(scene(proc, gin, &memory));
	memory.ops->release(memory.addr);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "A rank dies while others register memory for puts, or put to it.",
		.ranks = RANKS,
		.may_die = VICTIM,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
