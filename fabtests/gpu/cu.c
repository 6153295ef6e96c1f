/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Calls of the CUDA driver. See cu.h. */
#include "cu.h"

struct cu cu;

int cu_load(void)
{
	static const struct ft_symbol symbols[] = {
		{"cuStreamCreate", &cu.stream_create},
		{"cuStreamDestroy_v2", &cu.stream_destroy},
		{"cuStreamWaitEvent", &cu.stream_wait_event},
		{"cuStreamSynchronize", &cu.synchronize},
		{"cuEventCreate", &cu.event_create},
		{"cuEventRecord", &cu.event_record},
		{"cuEventSynchronize", &cu.event_synchronize},
		{"cuEventDestroy_v2", &cu.event_destroy},
		{"cuMemsetD8Async", &cu.set},
		{"cuMemcpyDtoDAsync_v2", &cu.copy},
		{"cuStreamBeginCapture_v2", &cu.capture_begin},
		{"cuStreamEndCapture", &cu.capture_end},
		{"cuGraphInstantiateWithFlags", &cu.instantiate},
		{"cuGraphLaunch", &cu.launch},
		{"cuGraphExecDestroy", &cu.exec_destroy},
		{"cuGraphDestroy", &cu.graph_destroy},
	};

	return ft_load("libcuda.so.1", symbols, FT_COUNT(symbols));
}
