/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The GPU runtimes, behind one table of operations. Nothing above this rank
 * knows a vendor's name, and nothing here is linked against a vendor's library.
 *
 * Copies are asynchronous. Those of one queue may overtake each other, unless the runtime keeps them
 * in order (@ordered); after a group of copies a mark is put into the queue, and the queue's count of marks reached tells what
 * is done: a mark is reached when all copies before it have ended. Reading that count is a load from host memory where the device can write it
 * there, so that waiting costs no driver call.
 *
 * Threads: everything but the queues may be used from any thread at any time, about memory that is not being unmapped
 * (mem/ipc_own.h). A queue is used by one thread at a time (its owner's lock).
 */
#ifndef P2P_DEV_H
#define P2P_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "dev/dl.h"

struct dev_ops;

/**
 * struct dev_mem - the allocation that a device address lies in.
 * @ops:	the backend it belongs to; NULL: not device memory
 * @ctx:	the backend's own record of the context (or device) that owns it
 * @ordinal:	the device's number in this process
 * @base, @size: the allocation's bounds
 * @mapped:	it may be one of several mappings that the application uses as one
 * @id:		a number that no other allocation of this process ever had or will have
 */
struct dev_mem {
	const struct dev_ops *ops;
	void *ctx;
	int ordinal;
	uintptr_t base;
	size_t size;
	uint64_t id;
	bool mapped;
};

/**
 * struct dev_queue - a queue of copies. The backend's own queue begins with one.
 * @ops, @ctx:	whose it is
 * @marked:	marks put in so far
 * @reached:	how many marks the device has passed; it may write this itself
 */
struct dev_queue {
	const struct dev_ops *ops;
	void *ctx;
	uint32_t marked;
	uint32_t *reached;
};

/**
 * struct dev_window - memory of the device that the CPU writes, and never reads.
 * @addr:	where kernels find it; @map: where the CPU does, dev_window_order() orders what it writes there
 * @block:	the allocation that it is in
 * @handle:	the backend's own; @len: how much is mapped
 */
struct dev_window {
	void *addr;
	void *map;
	void *block;
	unsigned long handle;
	size_t len;
};

/* What a runtime opens another process's memory by, at most */
#define DEV_IPC_HANDLE 64

/* Of a copy between device and host memory, at least one byte */
struct dev_copy {
	void *dst;
	const void *src;
	size_t len;
};

/*
 * What a stream does: it waits until the word, in pinned memory, is no less than @value, or writes that
 * there. @word: where the device finds it
 */
struct dev_step {
	bool wait;
	uint64_t *word;
	uint64_t value;
};

/* Steps that a stream is given at once, at most */
#define DEV_STEPS 4

/* Copies that the device is given at once, at most */
#define DEV_BATCH 16

/* Bytes from one row to the next that the device copies at once, at most */
#define DEV_PITCH 0x7fffffffl

/* Bytes that may be put to one place of the device instead of copied, at most */
#define DEV_PUT 16

/**
 * struct dev_ops - one GPU runtime. No function is NULL: what a runtime cannot do is of dev_none.h.
 * @name:	for logs
 * @iface:	libfabric's number for it, enum fi_hmem_iface
 * @libdir:	where configure was told that its library is; NULL: where the system looks
 * @soname:	the library that is in every process that has such memory
 * @ordered:	of one queue's copies, those begun one by one end in that order
 * @words:	what a copy brings to the host can be seen coming, in whole words of 32 bits, and
 *		earlier than the mark behind it
 * @batches:	copies that are started by one @queue_batch take much less than each by itself
 * @modules:	kernel modules, NULL at the end; with any of them loaded, NICs can be given
 *		this backend's memory by its address
 * @load:	finds what is needed of the library without initialising a device.
 *		-FI_ENOSYS: it lacks something
 * @init:	initialises it, once it is loaded, or again: what dev_open() is for
 * @find:	1: @addr is this backend's device memory, which @mem is filled with. 0: it is host
 *		memory, pinned or not, or the application has not initialised the runtime itself.
 *		Negative: the runtime does not say, and nobody may take it for host memory
 * @identify:	the same, of the allocation's id alone, where less is asked for that. Pinned host memory may have one
 * @hosts:	is @addr host memory that the application has from this runtime, or has pinned by it?
 * @current:	fills @mem with no more than the device that this thread uses now, and returns 1. 0: it uses
 *		none, or that is not known. Negative: in a stream's host function, the runtime serves nobody
 * @gone:	is the context @ctx gone, as it was destroyed or reset, and all that was opened and pinned
 *		in it? Memory of it has another @ctx then
 * @sync:	has all copies that the application believes done be visible to our queues from now on, in
 *		whatever context they were made. May wait for kernels: for the application's threads, when
 *		they open something
 * @settle:	makes sure of that for an allocation, for copies that were made before, too; called for each id
 *		until it returns true. Waits for no kernel where @sync has been there before
 * @copy_short:	copies a few bytes between @mem and host memory at once, by the CPU, as if there had
 *		been nothing in any queue before; nothing is logged. -FI_ENOSYS: not these; they
 *		may have been copied in part
 * @node:	the NUMA node that @mem's device is at; negative: not known
 * @pin:	makes host memory fit for asynchronous copies; @unpin undoes it
 * @queue_open:	a new queue in @mem's context. @asks: for copies between devices, whose end
 *		the driver knows of before the device could have written a mark: it is asked.
 *		@queue_close waits for what is in it
 * @queue_copy:	starts a copy between device and host memory, or within either, or from
 *		what ipc_open() has given
 * @queue_rows:	as @queue_copy, for @rows rows of @len bytes; from one to the next it is @pitch bytes, up to DEV_PITCH, at
 *		either end. -FI_ENOSYS: not by one call
 * @queue_batch: starts up to DEV_BATCH copies, between the device and pinned memory; called
 *		where it @batches
 * @queue_put:	writes up to DEV_PUT bytes each to up to DEV_BATCH places of the device, in order,
 *		out of host memory that may change when the call has returned, and puts a mark
 *		behind them: sooner than copies are there. -FI_ENOSYS: not these
 * @queue_mark:	puts a mark after the copies started so far
 * @queue_poll:	fills @reached of a queue whose device cannot do it; 0, or -FI_EIO when
 *		the queue's device has failed
 * @queue_drain: waits until nothing in the queue is under way: after errors
 * @expose:	opens a dma-buf @fd of which, @offset bytes in, the @len bytes of device memory
 *		at @addr are (both multiples of DEV_PAGE). -FI_ENOSYS: this device or driver
 *		can never do that; another error: this memory cannot; both with @why
 * @flush:	what NICs have written to @mem's device becomes visible there; costs nothing
 *		where the device keeps that order by itself
 * @ipc_export:	fills @handle (DEV_IPC_HANDLE bytes) with what other processes open the
 *		allocation @mem by, or says @why they cannot; nothing is logged
 * @ipc_open:	opens another process's allocation for copies in @mem's context: @addr is its
 *		first byte. An error comes with @why, and is not logged
 * @ipc_close:	closes what was opened in @ctx; no copy may be under way
 * @ipc_share:	the same for what is @mapped, which has no handle: opens a descriptor @fd that
 *		another process, which got it over a socket, can attach
 * @ipc_attach:	maps the @size bytes that @fd is of, for copies in @mem's context: @addr is the
 *		first one. The caller closes @fd
 * @ipc_detach:	undoes that; no copy may be under way
 * @device:	fills @mem with the context in which device number @ordinal is worked on, and keeps that there until
 *		@device_close. -FI_ENODEV: there is no such device
 * @host_address: where kernels find pinned memory of the host
 * @alloc:	device memory of @len bytes. It may wait for kernels: no part of progress
 * @store:	copies @len bytes of the host's to memory of @alloc's, for kernels that are launched when it has returned; as @alloc
 * @free:	gives it back; no kernel may use it any more
 * @window_open: zeroed device memory of @len bytes that the CPU can write. It may wait for kernels, as @alloc.
 *		-FI_ENOSYS: the CPU cannot write there; nothing is logged
 * @window_close: gives it back; no kernel may use it any more
 * @stream_steps: has the application's @stream do these, in order, when it gets there
 * @stream_copy: has it copy between two places of device memory there, which may be another process's
 * @loads_late:	what ends that a kernel is loaded when it is first launched, which may wait for kernels that run,
 *		and keeps copies of other threads from beginning; NULL: it is loaded before
 * @kernel_load: has the driver compile PTX text, and finds the kernel that it calls @name, for queues of @mem's context. It
 *		stays until the context goes. It waits for kernels that run, and keeps copies of other threads from
 *		beginning: no part of progress. -FI_ENOSYS: nothing compiles it here; nothing is logged
 * @queue_kernel: starts a kernel behind all copies of the queue. @args: where each of its arguments is; they are copied
 * @stream_captured: 1: the stream is being captured, by the capture @id, into @graph; 0: it is not
 * @graph_keep:	has @end called with @arg when a graph that is being captured, and what was made of it, is
 *		gone. @end may call no driver
 *
 * Functions return 0 or a negative fi_errno value, and have logged the cause. All may be called while any thread
 * captures streams, and no capture takes notice.
 */
struct dev_ops {
	const char *name;
	int iface;
	const char *libdir;
	const char *soname;
	bool ordered;
	bool words;
	bool batches;
	const char *const *modules;
	int (*load)(void);
	int (*init)(void);
	int (*find)(const void *addr, struct dev_mem *mem);
	int (*identify)(const void *addr, uint64_t *id);
	bool (*hosts)(const void *addr);
	int (*current)(struct dev_mem *mem);
	bool (*gone)(const void *ctx);
	void (*sync)(void);
	bool (*settle)(const struct dev_mem *mem);
	int (*copy_short)(const struct dev_mem *mem, void *dst, const void *src, size_t len);
	int (*node)(const struct dev_mem *mem);
	int (*pin)(const struct dev_mem *mem, void *addr, size_t len);
	void (*unpin)(void *addr);
	int (*queue_open)(const struct dev_mem *mem, bool asks, struct dev_queue **queue);
	void (*queue_close)(struct dev_queue *queue);
	int (*queue_copy)(struct dev_queue *queue, void *dst, const void *src, size_t len);
	int (*queue_rows)(struct dev_queue *queue, void *dst, const void *src, size_t len,
			  size_t rows, size_t pitch);
	int (*queue_batch)(struct dev_queue *queue, const struct dev_copy *copies,
			   size_t count);
	int (*queue_put)(struct dev_queue *queue, const struct dev_copy *copies, size_t count);
	int (*queue_mark)(struct dev_queue *queue);
	int (*queue_poll)(struct dev_queue *queue);
	void (*queue_drain)(struct dev_queue *queue);
	int (*expose)(const struct dev_mem *mem, uintptr_t addr, size_t len, int *fd,
		      uint64_t *offset, const char **why);
	int (*flush)(const struct dev_mem *mem);
	int (*ipc_export)(const struct dev_mem *mem, void *handle, const char **why);
	int (*ipc_open)(const struct dev_mem *mem, const void *handle, void **addr,
			const char **why);
	void (*ipc_close)(void *ctx, void *addr);
	int (*ipc_share)(const struct dev_mem *mem, int *fd, const char **why);
	int (*ipc_attach)(const struct dev_mem *mem, int fd, size_t size, void **addr,
			  const char **why);
	void (*ipc_detach)(void *addr, size_t size);
	int (*device)(int ordinal, struct dev_mem *mem);
	void (*device_close)(void *ctx);
	int (*host_address)(const struct dev_mem *mem, void *host, void **addr);
	int (*alloc)(const struct dev_mem *mem, size_t len, void **addr);
	int (*store)(const struct dev_mem *mem, void *addr, const void *from, size_t len);
	void (*free)(const struct dev_mem *mem, void *addr);
	int (*window_open)(const struct dev_mem *mem, size_t len, struct dev_window *window);
	void (*window_close)(const struct dev_mem *mem, struct dev_window *window);
	int (*stream_steps)(const struct dev_mem *mem, void *stream,
			    const struct dev_step *steps, size_t count);
	int (*stream_copy)(const struct dev_mem *mem, void *stream,
			   const struct dev_copy *copy);
	const char *(*loads_late)(void);
	int (*kernel_load)(const struct dev_mem *mem, const char *text, const char *name,
			   void **kernel);
	int (*queue_kernel)(struct dev_queue *queue, void *kernel, void **args,
			    unsigned int blocks, unsigned int threads);
	int (*stream_captured)(void *stream, uint64_t *id, void **graph);
	int (*graph_keep)(void *graph, void (*end)(void *arg), void *arg);
};

/*
 * What the CPU has written to a window so far comes there before all that it writes later, and soon. Writes are combined
 * there (write-combining), and come in any order otherwise.
 */
static inline void dev_window_order(void)
{
#if defined(__x86_64__)
	__builtin_ia32_sfence();
#elif defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* What a dma-buf begins and ends at */
#define DEV_PAGE 4096

/*
 * Finds out which runtimes this machine has and the user allows, without leaving them in the
 * process if they are not. May be called again.
 */
void dev_init(void);

/*
 * Loads and initialises the runtime @iface, whatever the application does with it: for who has no application that
 * would. May be called again. -FI_ENOSYS: there is none, or it has no device
 */
int dev_open(int iface);

/* Is there any runtime on this machine? */
extern bool dev_present;

/*
 * Is any of them in this process? As long as the application has loaded none it can have no
 * device memory, and knowing that costs two loads: of @dev_news, and of what it points to, which
 * is NULL until a library comes (dl_watch()): dev_glance(). Then dev_look() looks which it was.
 * From the first runtime on the answer is yes.
 */
extern void *const *dev_news P2P_HIDDEN;
/* Tells whether there may be device memory, after a look at libraries that were loaded since. */
bool dev_look(void);

/* Tells whether any buffer may be device memory; one load as long as no GPU is in use. */
static inline bool dev_active(void)
{
	return p2p_unlikely(dl_news(__atomic_load_n(&dev_news, __ATOMIC_RELAXED))) &&
	       dev_look();
}

/* Tells, at the beginning of a call, whether any buffer may be device memory. */
P2P_GLANCE bool dev_glance(void)
{
	return p2p_unlikely(*dev_news);
}

/* Finds the runtime and the allocation of a device address: what dev_ops.find of that runtime says, or 0. */
int dev_find(const void *addr, struct dev_mem *mem);

/* Finds the id of an address's allocation. An application may free or map that memory meanwhile. As dev_find() */
int dev_identify(const void *addr, uint64_t *id);

/* The device that this thread uses now, in @mem: as dev_ops.current of the runtime that says more than 0 */
int dev_current(struct dev_mem *mem);

/* In a stream's host function: has a thread of ours do @run, and waits for its end. False: the caller can do it itself */
bool dev_lend(void *(*run)(void *arg), void *arg);

/* Is @addr host memory of the runtime @iface? As dev_ops.hosts; false if there is no such runtime */
bool dev_hosts(int iface, const void *addr);

/* As dev_ops.device of the runtime @iface */
int dev_by_number(int iface, int ordinal, struct dev_mem *mem);

/* As dev_ops.sync, of all runtimes that are in use */
void dev_sync(void);

/* As dev_ops.loads_late, of any runtime that is in use */
const char *dev_loads_late(void);

/* Does any runtime here open other processes' memory? */
bool dev_ipc_present(void);

/*
 * Tells whether the device has passed mark number @mark of @queue. Negative: the device has failed, and
 * nothing in the queue can be relied on.
 */
int dev_queue_passed(struct dev_queue *queue, uint32_t mark);

#endif /* P2P_DEV_H */
