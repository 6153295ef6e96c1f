/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory that the CPU reaches: gdrcopy's library maps it by way of its kernel module. Off unless
 * FI_P2P_GDRCOPY is set, and nothing is lost where any of it is missing: who is told -FI_ENOSYS has the driver
 * copy, or kernels look at host memory. There are the smallest copies to and from the application's memory, and
 * memory of our own that kernels look at.
 *
 * The application's memory is mapped in windows, the latest used of which are kept, by their allocation's id: what
 * is freed is never looked for again, though its mapping may stay, and keep the memory from the
 * driver, until a window is opened the next time.
 *
 * The library may be used by one thread at a time: there is a lock, held while copying, too.
 */
#include "config.h"
#include "dev/dev_cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/conf.h"
#include "dev/dl.h"
#include "base/log.h"
#include "base/process.h"
#include "base/retry.h"

/* What the kernel module pins at least, and aligns to */
#define GDR_WINDOW ((size_t) 65536)
#define GDR_WINDOWS 64

/*
 * Bytes that the CPU copies at most. Reads of such memory are not cached: 3.5 us for 128 bytes,
 * and 0.4 us to write 4096, by the tables in gdrcopy's README.md; not measured by us. A copy of
 * the driver's takes 4 to 5 us of any such length.
 */
#define GDR_OUT_MAX 128
#define GDR_IN_MAX 4096

/*
 * To open a window takes as long as hundreds of the driver's copies (1.3 ms to pin it, by the same
 * tables, and 0.7 to give another one up). So when all are in use, only one copy of so many that
 * have no window gets one.
 */
#define GDR_PATIENCE 512

struct gdr_handle {
	unsigned long value;
};

/* What has been pinned. More may follow, by the library's version */
struct gdr_info {
	uint64_t addr;
	uint64_t len;
	uint64_t rest[16];
};

/**
 * struct gdr_window - GDR_WINDOW bytes of an allocation.
 * @id:		the allocation's; 0: none
 * @addr:	an address of it in the window, whose first one is @start
 * @map:	where @start is mapped; NULL: the library would not. It is asked again when @retry says so
 */
struct gdr_window {
	TAILQ_ENTRY(gdr_window) entry;
	uint64_t id;
	uintptr_t addr;
	uintptr_t start;
	struct gdr_handle handle;
	void *map;
	struct retry retry;
};

/* @lib: NULL: there is no library, or no module, or this is a child of the process that had it */
static struct {
	void *lib;
	void *(*open)(void);
	int (*pin)(void *lib, unsigned long addr, size_t len, uint64_t token, uint32_t space,
		   struct gdr_handle *handle);
	int (*unpin)(void *lib, struct gdr_handle handle);
	int (*info)(void *lib, struct gdr_handle handle, struct gdr_info *info);
	int (*map)(void *lib, struct gdr_handle handle, void **map, size_t len);
	int (*unmap)(void *lib, struct gdr_handle handle, void *map, size_t len);
	int (*to)(struct gdr_handle handle, void *map, const void *src, size_t len);
	int (*from)(struct gdr_handle handle, void *dst, const void *map, size_t len);
	TAILQ_HEAD(gdr_windows, gdr_window) windows; /* the latest used first */
	struct gdr_window all[GDR_WINDOWS];
	unsigned int missed;
} gdr;

static const struct dl_symbol gdr_symbols[] = {
	{"gdr_open", NULL, (void **) &gdr.open, 0},
	{"gdr_pin_buffer", NULL, (void **) &gdr.pin, 0},
	{"gdr_unpin_buffer", NULL, (void **) &gdr.unpin, 0},
	{"gdr_get_info_v2", "gdr_get_info", (void **) &gdr.info, 0},
	{"gdr_map", NULL, (void **) &gdr.map, 0},
	{"gdr_unmap", NULL, (void **) &gdr.unmap, 0},
	{"gdr_copy_to_mapping", NULL, (void **) &gdr.to, 0},
	{"gdr_copy_from_mapping", NULL, (void **) &gdr.from, 0},
};

/* The mappings are the parent's */
static void gdr_forget(void)
{
	gdr.lib = NULL;
}

/* Never closed: it would be at the end of the process, when the driver may be gone already */
static void gdr_open(void)
{
	TAILQ_INIT(&gdr.windows);
	for (int i = 0; i < GDR_WINDOWS; i++)
		TAILQ_INSERT_TAIL(&gdr.windows, &gdr.all[i], entry);
	if (!dl_open(NULL, "libgdrapi.so.2", gdr_symbols,
		     sizeof gdr_symbols / sizeof gdr_symbols[0]))
		return;
	process_forget(gdr_forget);
	gdr.lib = gdr.open();
	if (!gdr.lib)
		P2P_INFO(
			"gdr_open: no kernel module that maps device memory (gdrdrv): the driver "
			"copies it\n");
}

/* Loads gdrcopy once, if the user has not switched it off, and tells whether it is there. */
static bool gdr_ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!conf.gdrcopy)
		return false;
	pthread_once(&once, gdr_open);
	return gdr.lib;
}

/* Maps multiples of GDR_WINDOW. Returns what has failed, then @map is NULL; @error is a number of errno's */
static const char *gdr_map_range(uintptr_t start, size_t len, struct gdr_handle *handle,
				 void **map, int *error)
{
	struct gdr_info info = {0};

	*error = gdr.pin(gdr.lib, start, len, 0, 0, handle);
	if (*error)
		return "gdr_pin_buffer";
	*error = gdr.info(gdr.lib, *handle, &info);
	/* a mapping begins where that says, which may be before what was asked for */
	if (!*error && (info.addr != start || info.len < len))
		*error = EINVAL;
	if (!*error)
		*error = gdr.map(gdr.lib, *handle, map, len);
	if (!*error)
		return NULL;
	*map = NULL;
	gdr.unpin(gdr.lib, *handle);
	return "gdr_map";
}

static void gdr_window_close(struct gdr_window *window)
{
	if (window->map) {
		gdr.unmap(gdr.lib, window->handle, window->map, GDR_WINDOW);
		gdr.unpin(gdr.lib, window->handle);
	}
	window->id = 0;
	window->map = NULL;
	window->retry = (struct retry){.delay = 0};
	TAILQ_REMOVE(&gdr.windows, window, entry);
	TAILQ_INSERT_TAIL(&gdr.windows, window, entry);
}

/* Lets go of allocations that are gone */
static void gdr_sweep(const struct dev_ops *ops)
{
	struct gdr_window *window;
	uint64_t id;

	for (int i = 0; i < GDR_WINDOWS; i++) {
		window = &gdr.all[i];
		if (window->id &&
		    !(ops->identify((void *) window->addr, &id) == 1 && id == window->id))
			gdr_window_close(window);
	}
}

static void gdr_window_open(struct gdr_window *window, const struct dev_mem *mem,
			    uintptr_t addr)
{
	const char *failed = "cuCtxPushCurrent";
	int error = 0;
	struct cuda_gate gate;

	window->id = mem->id;
	window->addr = addr;
	window->start = addr / GDR_WINDOW * GDR_WINDOW;
	if (!cuda_enter(mem->ctx, &gate)) {
		failed = gdr_map_range(window->start, GDR_WINDOW, &window->handle, &window->map,
				       &error);
		cuda_leave(&gate);
	}
	if (!failed)
		return;
	P2P_INFO("memory at 0x%zx cannot be mapped (%s: %s): the driver copies it\n",
		 (size_t) mem->base, failed, strerror(error));
	retry_failed(&window->retry);
}

/* The window that @addr is in. NULL: there is none; of an allocation that failed for one, too */
static struct gdr_window *gdr_window_get(const struct dev_mem *mem, uintptr_t addr)
{
	struct gdr_window *window;

	TAILQ_FOREACH(window, &gdr.windows, entry) {
		if (window->id == mem->id &&
		    (!window->map || addr - window->start < GDR_WINDOW))
			break;
	}
	if (!window) {
		if (TAILQ_LAST(&gdr.windows, gdr_windows)->id && ++gdr.missed < GDR_PATIENCE)
			return NULL;
		gdr.missed = 0;
		gdr_sweep(mem->ops);
		window = TAILQ_LAST(&gdr.windows, gdr_windows);
		gdr_window_close(window);
		gdr_window_open(window, mem, addr);
	} else if (!window->map && retry_due(&window->retry)) {
		gdr_window_open(window, mem, addr);
	}
	if (window != TAILQ_FIRST(&gdr.windows)) {
		TAILQ_REMOVE(&gdr.windows, window, entry);
		TAILQ_INSERT_HEAD(&gdr.windows, window, entry);
	}
	return window->map ? window : NULL;
}

/*
 * Copies a few bytes by the CPU, through gdrcopy's mapping of the device memory. What is written is visible to
 * kernels launched and to copies and messages posted afterwards: the library ends with a store fence where
 * writes are combined, and the bus keeps writes in order with those that launch and post. It is not to kernels
 * that run already, which is so of any copy.
 */
int cuda_copy_short(const struct dev_mem *mem, void *dst, const void *src, size_t len)
{
	const bool in = (uintptr_t) dst - mem->base < mem->size;
	const uintptr_t addr = in ? (uintptr_t) dst : (uintptr_t) src;
	struct gdr_window *window;
	size_t done = 0, part, at;
	int error = 0;

	/* where mappings make one buffer, or pools are, the library promises nothing */
	if (len > (in ? GDR_IN_MAX : GDR_OUT_MAX) || mem->mapped ||
	    addr - mem->base >= mem->size || len > mem->size - (addr - mem->base) ||
	    !gdr_ready())
		return -FI_ENOSYS;
	process_lock(PROCESS_MAPPINGS);
	for (; done < len && !error; done += part) {
		window = gdr_window_get(mem, addr + done);
		if (!window)
			break;
		at = addr + done - window->start;
		part = P2P_MIN(len - done, GDR_WINDOW - at);
		error = in ? gdr.to(window->handle, (char *) window->map + at,
				    (const char *) src + done, part)
			   : gdr.from(window->handle, (char *) dst + done,
				      (char *) window->map + at, part);
	}
	process_unlock(PROCESS_MAPPINGS);
	return done == len && !error ? 0 : -FI_ENOSYS;
}

/* ---- memory of our own ---- */

int cuda_window_open(const struct dev_mem *mem, size_t len, struct dev_window *window)
{
	struct gdr_handle handle = {0};
	const char *failed = "cuCtxPushCurrent";
	int error = 0, ret = -FI_ENOSYS;
	struct cuda_gate gate;

	*window = (struct dev_window){.len = P2P_ALIGN_UP(len, GDR_WINDOW)};
	if (!gdr_ready())
		return -FI_ENOSYS;
	ret = cuda_alloc(mem, window->len + GDR_WINDOW, &window->block);
	if (ret)
		return ret;
	window->addr = (void *) P2P_ALIGN_UP((uintptr_t) window->block, GDR_WINDOW);
	if (!cuda_enter(mem->ctx, &gate)) {
		process_lock(PROCESS_MAPPINGS);
		failed = gdr_map_range((uintptr_t) window->addr, window->len, &handle,
				       &window->map, &error);
		process_unlock(PROCESS_MAPPINGS);
		cuda_leave(&gate);
	}
	window->handle = handle.value;
	if (!failed) {
		memset(window->map, 0, window->len);
		return 0;
	}
	P2P_INFO("%s: %s: kernels look at host memory\n", failed, strerror(error));
	cuda_free(mem, window->block);
	return -FI_ENOSYS;
}

void cuda_window_close(const struct dev_mem *mem, struct dev_window *window)
{
	const struct gdr_handle handle = {window->handle};

	if (gdr.lib) {
		process_lock(PROCESS_MAPPINGS);
		gdr.unmap(gdr.lib, handle, window->map, window->len);
		gdr.unpin(gdr.lib, handle);
		process_unlock(PROCESS_MAPPINGS);
	}
	cuda_free(mem, window->block);
}
