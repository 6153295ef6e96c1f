/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A program that asks a CUDA driver by what rules it goes where the provider relies on them: see
 * rules.c. Its parts print rows of the form "name: result", the same in each run.
 */
#ifndef RULES_H
#define RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"

#define RULES_BIG (4u << 20)
#define RULES_KERNELS 16

/* What a waiting kernel and the host tell each other by, in pinned memory */
struct rules_words {
	uint32_t stop, begun, store;
};

/* What every part works with, in the primary context of one device */
extern struct rules {
	CUcontext ctx;
	CUstream side,
		blocking; /* side: non-blocking, and the one that the provider would use */
	CUdeviceptr device, device2, vmm, pool, managed;
	CUmemGenericAllocationHandle vmm_handle;
	void *pinned;
	char *pageable;
	struct rules_words *words;
} rules;

/* A driver's error without its prefix */
const char *rules_name(CUresult rc);
void rules_row(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the part if a call fails that all the rest needs */
#define RULES_MUST(call) rules_must(call, #call)
void rules_must(CUresult rc, const char *call);

void rules_open(void);     /* cuInit(), and the primary context of device 0 */
void rules_open_all(void); /* and all of struct rules */
CUdeviceptr rules_vmm_new(size_t size, int device, CUmemGenericAllocationHandle *handle);
CUresult rules_vmm_access(CUdeviceptr ptr, size_t size, int device);
unsigned int rules_primary_flags(void);

/* ---- kernels: rules_kernel.c ---- */

/* By what a kernel comes to the device. The emulator has neither. */
enum rules_way {
	RULES_MODULE,  /* cuModuleLoadData(), cuModuleGetFunction() */
	RULES_LIBRARY, /* cuLibraryLoadData(), cuLibraryGetKernel() */
};

/* Loads a kernel, of which there are RULES_KERNELS, into the current context */
void rules_kernel_load(unsigned int number, enum rules_way way);
/* What may load a kernel of a library before its first launch */
enum rules_ahead {
	RULES_AHEAD_FUNCTION,  /* cuKernelGetFunction() */
	RULES_AHEAD_ATTRIBUTE, /* cuFuncGetAttribute() */
	RULES_AHEAD_LOAD,      /* cuFuncLoad() */
};
CUresult rules_kernel_ahead(unsigned int number, enum rules_ahead ahead);
/* The kernel tells that it has begun, waits for words->stop, 3 s at most, then stores to *to */
CUresult rules_kernel_launch(unsigned int number, CUstream stream, struct rules_words *words,
			     CUdeviceptr to);
/* Starts kernel 0, which is loaded, and returns when it runs */
void rules_kernel_spin(CUstream stream);
void rules_kernel_stop(void);

/* ---- calls that may wait ---- */

/* A call in a thread of its own */
struct rules_held {
	CUresult (*call)(void);
	CUresult rc;
	int done;
	void *thread;
};

/* Does the call return while nothing else happens? */
bool rules_returns(struct rules_held *held, CUresult (*call)(void));
void rules_join(struct rules_held *held);

/* ---- the calls of the provider: rules_calls.c ---- */

struct rules_call {
	const char *name;
	CUresult (*before)(void);
	CUresult (*call)(void);
	CUresult (*after)(void);
	bool waits; /* does the part that looks for waits ask it? */
	bool held;  /* does the part ask it that looks what waits for a call that waits? */
};

extern const struct rules_call rules_calls[];
extern const size_t rules_calls_count;
CUresult rules_copy_aside(void);

/* ---- another process: rules_peer.c ---- */

struct rules_peer {
	int socket;
	int child;
	CUipcMemHandle handle;
	int fd; /* of its virtual memory */
};

#define RULES_PEER_SIZE (256ull << 20)

/* Before cuInit(). The other one has memory of both kinds, which it offers. */
void rules_peer_start(struct rules_peer *peer);
/* 'f': frees its memory; 'u': its virtual memory; 'i': only answers. All: its free MiB */
long rules_peer_ask(struct rules_peer *peer, char what);
void rules_peer_end(struct rules_peer *peer);

/* ---- parts ---- */

typedef void rules_part(void);
rules_part rules_captures, rules_captures_blocking;
rules_part rules_host;
rules_part rules_flags, rules_attributes;
rules_part rules_copies, rules_copies_attribute, rules_copies_current, rules_copies_active,
	rules_copies_early, rules_copies_created;
rules_part rules_waits, rules_waits_flag, rules_waits_set, rules_waits_peer, rules_meanwhile;
rules_part rules_loading;
rules_part rules_access, rules_access_kernel, rules_credit, rules_imports;
rules_part rules_destroyed, rules_destroyed_query, rules_destroyed_copy,
	rules_destroyed_destroy, rules_reset;
rules_part rules_exit, rules_exit_thread;
rules_part rules_visible, rules_names;

#endif
