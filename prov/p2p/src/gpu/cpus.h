/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which processors a proxy runs on. */
#ifndef P2P_CPUS_H
#define P2P_CPUS_H

#include <pthread.h>
#include <stdbool.h>

#include "gpu/gpu_mem.h"

/*
 * Binds the thread to FI_P2P_PROXY_CPUS; or, if that is not set, to those processors beside the
 * device that the process may use. If that cannot be done it runs anywhere, and the log says so.
 */
void cpus_place(pthread_t thread, const struct gpu_dev *dev);

/* Has the process so few processors that a thread which spins is in the way? */
bool cpus_few(void);

#endif /* P2P_CPUS_H */
