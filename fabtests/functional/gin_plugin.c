/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What programs that call libnccl-gin-p2p as NCCL does have in common. See gin_plugin.h. */
#include "gin_plugin.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

char gin_heard[256];

int gin_plugin_open(const struct ft_proc *proc, void **plugin)
{
	const char *name = getenv("NCCL_NET_PLUGIN");

	setenv("P2P_NCCL_PROVIDER", proc->opts.prov, 1);
	*plugin = dlopen(name ? name : "libnccl-gin-p2p.so", RTLD_NOW | RTLD_LOCAL);
	FT_CHECK(*plugin, "%s", dlerror());
	return 0;
}

void gin_say(int level, unsigned long flags, const char *file, int line, const char *format,
	     ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(gin_heard, sizeof(gin_heard), format, args);
	va_end(args);
}

int gin_check(int ret, const char *call)
{
	FT_CHECK(ret == NCCL_SUCCESS, "%s: result %d", call, ret);
	return 0;
}

int gin_exchange(struct ft_proc *proc, int ranks, void *all, size_t len)
{
	char *said = all;

	for (int i = 0; i < ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_send(proc->fd[i], said + (size_t) proc->rank * len, len));
	for (int i = 0; i < ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_recv(proc->fd[i], said + (size_t) i * len, len,
					   proc->opts.timeout));
	return 0;
}
