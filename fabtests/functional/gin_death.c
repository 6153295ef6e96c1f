/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_gin_death: a rank dies while the others register memory with libnccl-gin-p2p. They do not wait for its key. It has
 * exchanged keys with them before, or (FT_EARLY) not even connected.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "ft_test.h"
#include "nccl_api.h"

#define RANKS 3
#define VICTIM 2
#define SIZE ((size_t) 4096)

/* NCCL logs what the plugin says; a test that passes is silent */
static void say(int level, unsigned long flags, const char *file, int line, const char *format,
		...)
{
}

static int check(int ret, const char *call)
{
	FT_CHECK(ret == NCCL_SUCCESS, "%s: result %d", call, ret);
	return 0;
}

/* Each rank tells all others @len bytes at @all + its rank times @len */
static int exchange(struct ft_proc *proc, void *all, size_t len)
{
	char *said = all;

	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_send(proc->fd[i], said + proc->rank * (int) len, len));
	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_recv(proc->fd[i], said + i * (int) len, len,
					   proc->opts.timeout));
	return 0;
}

static int connect_all(struct ft_proc *proc, const struct nccl_gin_v11 *gin, void **coll)
{
	char handles[RANKS][NCCL_HANDLE_MAX];
	void *said[RANKS], *ctx, *listens;

	memset(handles, 0, sizeof(handles));
	if (gin->init(&ctx, 1, say) != NCCL_SUCCESS)
		return ft_skip("this provider has no puts");
	FT_TRY(check(gin->listen(ctx, 0, handles[proc->rank], &listens), "listen"));
	FT_TRY(exchange(proc, handles, sizeof(handles[0])));
	for (int i = 0; i < RANKS; i++)
		said[i] = handles[i];
	FT_TRY(check(gin->connect(ctx, said, RANKS, proc->rank, listens, coll), "connect"));
	return check(gin->close_listen(listens), "closing what listens");
}

static int run(struct ft_proc *proc)
{
	const char *name = getenv("NCCL_NET_PLUGIN");
	static char memory[SIZE];
	char bytes[RANKS];
	const struct nccl_gin_v11 *gin;
	void *plugin, *coll, *mr, *unused;
	int ret;

	if (proc->opts.prov && !strncmp(proc->opts.prov, "shm", 3))
		return ft_skip("shm's names are no addresses, so nobody can be asked");
	setenv("P2P_NCCL_PROVIDER", proc->opts.prov, 1);
	plugin = dlopen(name ? name : "libnccl-gin-p2p.so", RTLD_NOW | RTLD_LOCAL);
	FT_CHECK(plugin, "%s", dlerror());
	gin = dlsym(plugin, "ncclGinPlugin_v11");
	FT_CHECK(gin, "no puts");
	FT_TRY(connect_all(proc, gin, &coll));
	if (!getenv("FT_EARLY")) {
		FT_TRY(check(gin->reg_mr(coll, memory, SIZE, NCCL_HOST, 0, &mr, &unused),
			     "reg_mr of all"));
		FT_TRY(exchange(proc, bytes, 1));
	}
	if (proc->rank == VICTIM)
		raise(SIGKILL);
	for (int i = 0; i < 2; i++) {
		ret = gin->reg_mr(coll, memory, SIZE, NCCL_HOST, 0, &unused, &unused);
		FT_CHECK(ret == NCCL_SYSTEM_ERROR, "without rank %d: result %d", VICTIM, ret);
	}
	return check(gin->close_coll(coll), "close");
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "A rank dies while others register memory for puts.",
		.ranks = RANKS,
		.may_die = VICTIM,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
