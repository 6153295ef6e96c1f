/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is legal while a stream is captured in global mode, and does the capture survive it? */
#include "rules.h"

#include <pthread.h>
#include <stdio.h>

struct asked {
	CUresult (*call)(void);
	bool relaxed;
	CUresult rc;
};

static CUstream captured;

static void *ask(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct asked *asked = arg;

	cuCtxSetCurrent(rules.ctx);
	if (asked->relaxed)
		cuThreadExchangeStreamCaptureMode(&mode);
	asked->rc = asked->call();
	if (asked->relaxed)
		cuThreadExchangeStreamCaptureMode(&mode);
	return NULL;
}

/* "result/what became of the capture", of a call by another thread or by the one that captures */
static void print_answer(const struct rules_call *call, bool other, bool relaxed)
{
	struct asked asked = {call->call, relaxed, CUDA_SUCCESS};
	CUgraph graph = NULL;
	pthread_t thread;
	CUresult ended;

	if (call->before)
		call->before();
	cuCtxSynchronize();
	RULES_MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
	RULES_MUST(cuMemsetD8Async(rules.device2, 1, 64, captured));
	if (other) {
		pthread_create(&thread, NULL, ask, &asked);
		pthread_join(thread, NULL);
	} else {
		ask(&asked);
	}
	ended = cuStreamEndCapture(captured, &graph);
	if (graph)
		cuGraphDestroy(graph);
	cuCtxSynchronize();
	/* what was refused would have taken it back */
	if (asked.rc != CUDA_SUCCESS && call->before && !call->after)
		call->call();
	else if (call->after && (call->before || asked.rc == CUDA_SUCCESS))
		call->after();
	printf(" %s%s %s/%s", other ? "other" : "own", relaxed ? " relaxed" : "",
	       rules_name(asked.rc), rules_name(ended));
}

static void captures(CUstream stream)
{
	size_t i;

	captured = stream;
	for (i = 0; i < rules_calls_count; i++) {
		printf("%s:", rules_calls[i].name);
		print_answer(&rules_calls[i], true, false);
		print_answer(&rules_calls[i], true, true);
		print_answer(&rules_calls[i], false, false);
		print_answer(&rules_calls[i], false, true);
		rules_row("%s", "");
	}
}

void rules_captures(void)
{
	CUstream stream;

	rules_open_all();
	RULES_MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	captures(stream);
}

void rules_captures_blocking(void)
{
	rules_open_all();
	captures(rules.blocking);
}
