/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inside of the emulated HSA runtime: a front end to the emulated CUDA driver of
 * ../cudaemu, whose objects it is linked with and whose names it hides. Device memory,
 * threads that copy, the model of time and the injected faults (CUDAEMU_FAIL takes HSA's
 * functions) are that one's.
 */
#ifndef ROCMEMU_H
#define ROCMEMU_H

#include "../cudaemu/driver.h"
#include "../cudaemu/emu.h"

/* What is declared here is what the library exports */
#pragma GCC visibility push(default)
#include "dev/p2p_hsa_abi.h"
#pragma GCC visibility pop

/* Opens every function that returns a status */
#define ROCM_ENTER()                                                                           \
	do {                                                                                   \
		hsa_status_t enter_rc = rocm_enter(__func__);                                  \
		if (enter_rc != HSA_STATUS_SUCCESS)                                            \
			return enter_rc;                                                       \
	} while (0)

/* ---- hsa.c ---- */

hsa_status_t rocm_enter(const char *function);
hsa_status_t rocm_status(CUresult rc);

/* The device behind an agent; EMU_NO_DEVICE for the CPU, less for what is no agent */
CUdevice rocm_device(hsa_agent_t agent);
hsa_agent_t rocm_agent(CUdevice dev);

/* Makes @dev current in this thread */
CUresult rocm_use(CUdevice dev);

/* A mistake that a real device answers with a page fault: ends the process */
void rocm_fault(const char *function, const void *ptr) __attribute__((noreturn));

/* ---- signal.c ---- */

/* Counts down; or, where the fault "hsa_copy_ends" is injected, says that it failed */
void rocm_copy_ends(void *signal);

#endif /* ROCMEMU_H */
