/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Calls of the CUDA driver for streams and graphs, found at run time. Handles are pointers. */
#ifndef CU_H
#define CU_H

#include <stddef.h>
#include <stdint.h>

#include "ft.h"

struct cu {
	int (*stream_create)(void **stream, unsigned int flags);
	int (*stream_destroy)(void *stream);
	int (*stream_wait_event)(void *stream, void *event, unsigned int flags);
	int (*synchronize)(void *stream);
	int (*event_create)(void **event, unsigned int flags);
	int (*event_record)(void *event, void *stream);
	int (*event_synchronize)(void *event);
	int (*event_destroy)(void *event);
	int (*set)(uintptr_t dst, unsigned char value, size_t count, void *stream);
	int (*copy)(uintptr_t dst, uintptr_t src, size_t len, void *stream);
	int (*capture_begin)(void *stream, int mode);
	int (*capture_end)(void *stream, void **graph);
	int (*instantiate)(void **exec, void *graph, unsigned long long flags);
	int (*launch)(void *exec, void *stream);
	int (*exec_destroy)(void *exec);
	int (*graph_destroy)(void *graph);
};

extern struct cu cu;

#define CU_NON_BLOCKING 1
#define CU_CAPTURE_GLOBAL 0
#define CU_EVENT_BLOCKING 1 /* who waits for it sleeps */

/** CU() - leave the function if the call of the driver fails */
#define CU(call) FT_TRY(ft_cuda_check(cu.call, #call))

int cu_load(void);

#endif /* CU_H */
