/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a host function of a stream may call, and what another thread may meanwhile.
 *
 * The rows of rules.h200 are what another program has found (docs/results/2026-11-29-h200-stores.md). This one asks for more
 * calls. Those without a row have been asked of no driver yet.
 */
#include "rules.h"

#include <sched.h>

static struct asked {
	CUresult (*call)(void);
	CUresult rc;
	int answered, over;
} asked;

static void host_function(void *data)
{
	asked.rc = asked.call();
	__atomic_store_n(&asked.answered, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&asked.over, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void ask(const struct rules_call *call)
{
	struct rules_held other;
	bool returns;

	asked = (struct asked){.call = call->call};
	if (call->before)
		RULES_MUST(call->before());
	RULES_MUST(cuLaunchHostFunc(rules.blocking, host_function, NULL));
	while (!__atomic_load_n(&asked.answered, __ATOMIC_ACQUIRE))
		sched_yield();
	returns = rules_returns(&other, call->call);
	__atomic_store_n(&asked.over, 1, __ATOMIC_RELEASE);
	rules_join(&other);
	if (call->after && (call->before || other.rc == CUDA_SUCCESS))
		call->after();
	rules_row("%s: in it %s, other %s%s", call->name, rules_name(asked.rc),
		  rules_name(other.rc), returns ? "" : ", waits");
	cuCtxSynchronize();
}

void rules_host(void)
{
	size_t i;

	rules_open_all();
	for (i = 0; i < rules_calls_count; i++)
		ask(&rules_calls[i]);
}
