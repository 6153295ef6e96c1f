/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inside of the CUDA emulator: a test device that keeps the driver's rules harder than a real
 * one does.
 *
 * Speed does not matter here. What matters is what a program shows that passes: it has touched
 * no device memory with the CPU, and has relied on no order that the driver does not promise.
 *
 * Locking: emu.lock guards every structure below. Only the bytes that copies move are touched
 * without it. Handles (streams, events, contexts) are used again and never returned to malloc.
 * So a look at a stale handle is safe.
 */
#ifndef EMU_H
#define EMU_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "dev/p2p_cuda_abi.h"

#define EMU_EXPORT __attribute__((visibility("default")))

/* Declares one driver function, and opens its definition */
#define EMU_API(name, ...)                                                                     \
	EMU_EXPORT CUresult name(__VA_ARGS__);                                                 \
	CUresult name(__VA_ARGS__)

/* A second exported name with the same signature */
#define EMU_API_ALIAS(alias_name, name)                                                        \
	extern __typeof(name) alias_name __attribute__((alias(#name))) EMU_EXPORT

/* Ends the process, which cannot get @what (errno): else a test would die without a word */
static inline void __attribute__((noreturn)) emu_die(const char *what)
{
	fprintf(stderr, "cudaemu: %s: %s\n", what, strerror(errno));
	abort();
}

/* What an entry point needs before it does anything. In a stream's host function, all from EMU_NEED_INIT on is refused */
enum emu_need {
	EMU_NEED_NOTHING,
	EMU_NEED_DRIVER, /* cuInit() */
	EMU_NEED_INIT,
	EMU_NEED_CTX,
};

/* Opens every driver function: injected faults, cuInit, current context */
#define EMU_ENTER(need)                                                                        \
	do {                                                                                   \
		CUresult enter_rc = emu_enter(__func__, need);                                 \
		if (enter_rc != CUDA_SUCCESS)                                                  \
			return enter_rc;                                                       \
	} while (0)

/* The same for functions that a capture may forbid, as they cannot be captured */
#define EMU_ENTER_UNSAFE(need)                                                                 \
	do {                                                                                   \
		CUresult unsafe_rc;                                                            \
		EMU_ENTER(need);                                                               \
		unsafe_rc = emu_capture_unsafe_unlocked();                                     \
		if (unsafe_rc != CUDA_SUCCESS)                                                 \
			return unsafe_rc;                                                      \
	} while (0)

#define EMU_MAX_DEVICES 16
#define EMU_PAGE 4096ull
#define EMU_GRANULARITY (2ull << 20)
/* In emu_config.host: the token of a process, and the device's number */
#define EMU_DEVICE_FILE "%016" PRIx64 "-%d"
/* The ordinal that the driver reports for memory that it does not know */
#define EMU_NO_DEVICE (-2)

/* Larger memory is poisoned only at its two ends, as it would not stay sparse otherwise */
#define EMU_POISON_SPAN (4ull << 20)
#define EMU_POISON_NEW 0xdb
#define EMU_POISON_FREED 0xdf

#define EMU_ROUND_UP(x, to) (((x) + (to) -1) / (to) * (to))

/* ---- memory ---- */

enum emu_kind {
	EMU_DEVICE,     /* cuMemAlloc */
	EMU_POOL,       /* cuMemAllocAsync */
	EMU_VMM,        /* cuMemMap */
	EMU_IPC,        /* cuIpcOpenMemHandle */
	EMU_MANAGED,    /* cuMemAllocManaged */
	EMU_HOST,       /* cuMemHostAlloc */
	EMU_REGISTERED, /* cuMemHostRegister */
};

/*
 * An address range of this process. Once free, it is kept for the next allocation of its size.
 */
struct emu_block {
	uint64_t va;
	size_t len;
	char *rw;        /* where the engine reaches it; for host memory this is va */
	int dev;         /* the device that owns the file behind it; EMU_NO_DEVICE: none */
	uint64_t offset; /* where it is in the device's file */
	struct emu_block *next;
};

struct CUgraphNode_st;
struct emu_capture;

/* Nodes of a graph, each once */
struct emu_nodes {
	struct CUgraphNode_st **node;
	size_t count;
};

/* A place in a stream's order. Numbers go on when a stream is recycled: never stale */
struct emu_point {
	struct CUstream_st *stream;
	uint64_t seq;
};

struct emu_alloc {
	enum emu_kind kind;
	uint64_t base;
	size_t size; /* exactly what was asked for */
	char *rw;
	int dev;
	struct CUctx_st *ctx; /* NULL for VMM and pool memory */
	uint64_t id;
	unsigned int flags;
	int sync_memops;
	struct emu_point sync; /* the latest synchronous operation that did not wait */
	bool freeing;          /* a cuMemFreeAsync is on its way */
	unsigned char access[EMU_MAX_DEVICES]; /* of each device: CUmemAccess_flags, VMM only */
	struct emu_block *block;
	struct CUmemPoolHandle_st *pool;
	struct emu_phys *phys;        /* VMM only */
	bool unmapping;               /* VMM only: cuMemUnmap is under way */
	struct emu_reservation *resv; /* VMM only */
	uint32_t slot;                /* its place in the device's table of exported memory;
				       * 0: none */
	struct emu_import *import;    /* IPC only */
};

/* How a copy reaches one operand */
struct emu_operand {
	char *p;
	struct emu_alloc *alloc; /* NULL for pageable memory */
	bool host;               /* the CPU may touch it: pinned or pageable */
};

/* ---- devices, contexts ---- */

struct CUctx_st {
	uint32_t magic;
	CUdevice dev;
	unsigned int flags;
	unsigned int id;
	bool primary;
	int refs; /* how often a primary context is retained */
	struct CUstream_st *legacy, *per_thread;
	uint32_t peers; /* the devices for which peer access was enabled */
	CUresult error; /* of a kernel: nothing works any more (emu_ctx_error()) */
	struct CUctx_st *next;
};

/* Each direction has a copy engine, as on a real device */
enum emu_direction {
	EMU_TO_DEVICE,
	EMU_TO_HOST,
	EMU_WITHIN,
	EMU_DIRECTIONS,
};

struct CUmemPoolHandle_st {
	CUdevice dev;
	CUmemPoolProps props;
	uint64_t threshold, used, used_high;
	int reuse[3];
	bool dead;
};

/* Memory that its owner has freed while another process had it open */
struct emu_ghost {
	struct emu_ghost *next;
	int fd, close_fd; /* where the others' locks are; what ends with the ghost, or -1 */
	uint64_t at, len; /* of the locks; len 0: the whole file */
	uint64_t charge;
	uint32_t slot; /* kept until then, or 0 */
};

struct emu_device {
	CUdevice ordinal;
	int number; /* of the machine's devices; CUDA_VISIBLE_DEVICES decides the ordinal */
	struct CUctx_st primary;
	unsigned int primary_flags;     /* what cuDevicePrimaryCtxSetFlags() was given */
	struct CUmemPoolHandle_st pool; /* the default one */
	struct CUmemPoolHandle_st *current_pool;
	uint64_t used;
	int fd; /* memory file: the table of exported memory, then device memory */
	uint64_t file_size;
	uint64_t *slots; /* slot 0: this process's token; others: an id each, 0 for none */
	struct emu_ghost *ghosts;
	pthread_mutex_t engine[EMU_DIRECTIONS]; /* held for the modelled time of a copy */
};

struct emu_config {
	int devices;
	uint64_t memory;
	unsigned int copy_latency_us;
	unsigned int kernel_latency_ms; /* as if others had the multiprocessors */
	double copy_gbps;
	bool shuffle;
	uint64_t shuffle_seed;
	unsigned long hang_copy;
	bool no_dmabuf, no_memops, no_init, unordered;
	int host; /* where all processes of this host have their memory, whatever their namespaces; negative: nowhere */
	bool eager; /* kernels are loaded before their first launch */
};

struct emu {
	pthread_mutex_t lock;
	struct emu_config conf;
	const char *vendor; /* the vendor whose interface it has, for the notice at the start */
	bool initialised;
	bool ended;  /* the process is about to end */
	bool forked; /* a child of a process that had initialised the driver */
	struct emu_device dev[EMU_MAX_DEVICES];
	uint64_t token; /* tells this process from one that had its pid earlier */
	uint64_t next_id;
	unsigned int next_ctx_id;
	unsigned long copies;
	bool udmabuf;

	struct emu_alloc **allocs; /* sorted by base */
	size_t nallocs, allocs_cap;
	struct emu_range {
		uint64_t base, len;
	} * ranges; /* every address range ever given out, sorted */
	size_t nranges, ranges_cap;
	struct emu_block *free_blocks;
	struct CUctx_st *contexts;
	struct CUstream_st *streams;
};

extern struct emu emu;

/* The thread is in a host function of a stream */
extern __thread bool emu_in_callback;

/* fault.c */
EMU_EXPORT CUresult emu_enter(const char *function, enum emu_need need);
void emu_config_read(struct emu_config *conf);
/* For tests: how often a function was called, whatever its version. NULL: all functions. */
EMU_EXPORT unsigned long cudaemu_calls(const char *name);
/*
 * For tests: from the @nth call from now on every function fails, as they do when a kernel has gone wrong. 0: none
 * does. Returns how many have failed since this was called last.
 */
EMU_EXPORT unsigned long cudaemu_break(unsigned long nth);

/* init.c */
CUresult emu_error_name(CUresult rc, const char **name);

/* device.c */
struct emu_device *emu_device_get(CUdevice dev);
void emu_device_init(struct emu_device *dev, int ordinal);
CUresult emu_devices_see(void);
CUdevice emu_device_ordinal(int number);

/* context.c */
struct CUctx_st *emu_ctx_current(void);
bool emu_ctx_is_open(const struct CUctx_st *ctx);
CUresult emu_ctx_check(struct CUctx_st *ctx);
struct emu_device *emu_ctx_device(void);
CUresult emu_ctx_error(const struct CUctx_st *ctx);
void emu_ctx_fail(struct CUctx_st *ctx, CUresult error);

/* memory.c */
struct emu_alloc *emu_alloc_find(uint64_t ptr);
bool emu_range_owned(uint64_t ptr);
void emu_range_add(uint64_t base, uint64_t len);
char *emu_address_reserve(size_t len);
CUresult emu_alloc_create(enum emu_kind kind, CUdevice dev, size_t size,
			  struct emu_alloc **out);
CUresult emu_alloc_insert(struct emu_alloc *alloc);
void emu_alloc_remove(struct emu_alloc *alloc);
void emu_alloc_destroy(struct emu_alloc *alloc);
void emu_poison(char *p, size_t size, int pattern);
bool emu_alloc_is_host(const struct emu_alloc *alloc);
CUdevice emu_accessor(const struct emu_alloc *alloc);
unsigned int emu_access(const struct emu_alloc *alloc, CUdevice dev);
bool emu_range_check(const struct emu_alloc *alloc, uint64_t ptr, size_t size, CUdevice dev);
CUresult emu_operand_resolve(uint64_t ptr, size_t size, CUdevice dev, struct emu_operand *out);
void emu_ctx_free_memory(struct CUctx_st *ctx);

/* ---- streams: stream.c ---- */

enum emu_op_kind {
	EMU_OP_COPY,
	EMU_OP_SET,
	EMU_OP_WAIT,       /* for a point of another stream */
	EMU_OP_WAIT_EVENT, /* only in graphs: for the event's record of before the launch */
	EMU_OP_RECORD,
	EMU_OP_WRITE_VALUE,
	EMU_OP_WAIT_VALUE,
	EMU_OP_CALL,
	EMU_OP_END, /* a call that also comes after an error */
	EMU_OP_KERNEL,
	EMU_OP_FREE,
};

struct emu_op {
	enum emu_op_kind kind;
	uint64_t seq;
	struct emu_op *next;
	union {
		struct {
			char *dst;
			const char *src;
			size_t width, height, dpitch, spitch;
			char *staging; /* freed with the operation */
			int dev;
			enum emu_direction dir;
			bool hang;
		} copy;
		struct {
			char *dst;
			size_t count;
			uint32_t value;
			int width;
		} set;
		struct emu_point wait;
		struct CUevent_st *event;
		struct {
			void *addr;
			uint64_t value;
			int width;
			unsigned int flags;
		} memop;
		struct {
			CUhostFn fn;
			CUstreamCallback callback;
			void *data;
		} call;
		struct emu_grid *grid; /* freed with the operation */
		uint64_t free_base;
	};
};

struct CUstream_st {
	uint32_t magic;
	struct CUctx_st *ctx;
	unsigned int flags;
	int priority;
	bool implicit;               /* belongs to its context, and cannot be destroyed */
	bool orphan;                 /* its context is gone */
	bool busy;                   /* a thread executes the head of the queue */
	struct emu_capture *capture; /* NULL: what it is asked to do is queued */
	struct emu_nodes after;      /* what the next node of the capture follows */
	CUgraphEdgeData *edges;      /* the latest answer about these */
	pid_t kernel;                /* the process of the one that runs; 0: none does */
	uint64_t tail_seq, done_seq;
	struct emu_op *head, **tail;
	pthread_cond_t work, done;
	uint64_t rng;
	struct CUstream_st *next;
};

struct CUevent_st {
	uint32_t magic;
	unsigned int flags;
	struct CUctx_st *ctx;
	unsigned int ctx_id;
	struct emu_point point; /* the latest record's; before the first it has no stream */
	uint64_t capture;       /* the one that the latest record belongs to; 0: none */
	struct emu_nodes after; /* what that stands for */
	uint64_t ns;
	struct CUevent_st *next;
};

/*
 * The driver has a lock that some calls keep while they wait for kernels (rules.h200): synchronous
 * copies of the legacy stream, frees, and first launches. Other threads' copies want it.
 */
void emu_hold_begin(void);
void emu_hold_end(void);
void emu_hold_pass(void);

/* The latter is for who adds an operation, and fails where a capture forbids that */
CUresult emu_stream_find(CUstream handle, struct CUstream_st **out);
CUresult emu_stream_get(CUstream handle, struct CUstream_st **out);
CUresult emu_stream_create(struct CUctx_st *ctx, unsigned int flags, int priority,
			   struct CUstream_st **out);
struct emu_op *emu_op_new(enum emu_op_kind kind);
void emu_op_free(struct emu_op *op);
struct emu_op *emu_op_copy(const struct emu_op *op);
void emu_stream_order(struct CUstream_st *stream);
void emu_stream_follow(struct CUstream_st *stream, struct CUstream_st *other);
void emu_stream_kick(struct CUstream_st *stream);
void emu_stream_retire(struct CUstream_st *stream);
void emu_stream_enqueue(struct CUstream_st *stream, struct emu_op *op);
void emu_stream_enqueue_and_wait(struct CUstream_st *stream, struct emu_op *op);
void emu_stream_wait(struct CUstream_st *stream, uint64_t seq);
void emu_stream_drain(struct CUstream_st *stream);
void emu_ctx_wait(struct CUctx_st *ctx);
void emu_device_wait(CUdevice dev);
void emu_ctx_drop_streams(struct CUctx_st *ctx);

/* engine.c: executes one operation. Called without the lock. */
void emu_op_run(struct CUstream_st *stream, struct emu_op *op);

/* kernel.c */
void emu_run_kernel(struct CUstream_st *stream, struct emu_op *op);
void emu_kernels_kill(const struct CUctx_st *ctx);
struct emu_grid *emu_grid_copy(const struct emu_grid *grid, const void *args);
void emu_kernel_load(struct CUctx_st *ctx, const void *kernel, bool waits);

/* event.c */
void emu_event_record(struct CUevent_st *event, struct CUstream_st *stream);
void emu_event_wait(struct emu_op *op);

/* capture.c: each may give an error, and spoil captures. All want the lock but the unlocked one. */
CUresult emu_capture_check(struct CUstream_st *stream);
CUresult emu_capture_refuse(struct CUstream_st *stream);
CUresult emu_capture_refuse_ctx(const struct CUctx_st *ctx);
CUresult emu_capture_unsafe(void);
CUresult emu_capture_unsafe_unlocked(void);
CUresult emu_capture_asks_stream(struct CUstream_st *stream);
CUresult emu_capture_asks(const struct CUevent_st *event);
CUresult emu_capture_wait(struct CUstream_st *stream, const struct CUevent_st *event);
void emu_capture_add(struct CUstream_st *stream, struct emu_op *op);
void emu_capture_record(struct CUstream_st *stream, struct CUevent_st *event);
void emu_capture_leave(struct CUstream_st *stream);

/* copy.c: one copy for all the entry points */
enum emu_copy_flags {
	EMU_COPY_BLOCKING = 1 << 0,  /* the synchronous form */
	EMU_COPY_DST_KNOWN = 1 << 1, /* destination must be memory that the driver knows */
	EMU_COPY_SRC_KNOWN = 1 << 2,
	EMU_COPY_SNAPSHOT = 1 << 3,    /* the source may change after the call */
	EMU_COPY_NO_SNAPSHOT = 1 << 4, /* the source is read in stream order */
};

struct emu_copy {
	uint64_t dst, src;
	size_t width, height, dpitch, spitch;
	unsigned int flags;
};

CUresult emu_copy_submit(const struct emu_copy *copy, CUstream stream);

/*
 * ghost.c: memory stays in use while others have it open. Who opens it holds a lock on a part of its
 * file, which ends with the last mapping, or with the process.
 */
bool emu_ghost_hold(int fd, uint64_t at, uint64_t len);
bool emu_ghost_held(int fd, uint64_t at, uint64_t len);
void emu_ghost_add(struct emu_device *dev, const struct emu_ghost *ghost);
void emu_ghosts_sweep(struct emu_device *dev);

/* vmm.c */
bool emu_vmm_reserved(uint64_t ptr, uint64_t *base, size_t *size);
void emu_vmm_range(const struct emu_alloc *alloc, uint64_t *base, size_t *size);
uint64_t emu_vmm_handle_types(const struct emu_alloc *alloc);
bool emu_vmm_rdma_capable(const struct emu_alloc *alloc);
int emu_vmm_fd(const struct emu_alloc *alloc);

/* ipc.c */
void emu_ipc_forget(struct emu_alloc *alloc, uint64_t charge);
void emu_ipc_unmap(struct emu_alloc *alloc);

#endif
