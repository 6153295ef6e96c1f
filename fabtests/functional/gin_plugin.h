/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What programs that call libnccl-gin-p2p as NCCL does have in common. */
#ifndef GIN_PLUGIN_H
#define GIN_PLUGIN_H

#include "ft_test.h"
#include "nccl_api.h"

/** gin_plugin_open() - opens NCCL_NET_PLUGIN, else the plugin that the system finds, which takes the test's provider */
int gin_plugin_open(const struct ft_proc *proc, void **plugin);

/** gin_heard - what the plugin has logged last */
extern char gin_heard[256];

/** gin_say() - NCCL's function for that. A test that passes is silent. */
void gin_say(int level, unsigned long flags, const char *file, int line, const char *format,
	     ...);

/** gin_check() - fails if @ret, the result of @call, is not NCCL_SUCCESS */
int gin_check(int ret, const char *call);

/** gin_exchange() - the first @ranks tell each other @len bytes at @all + their rank times @len */
int gin_exchange(struct ft_proc *proc, int ranks, void *all, size_t len);

#endif /* GIN_PLUGIN_H */
