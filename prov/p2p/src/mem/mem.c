/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Classification of buffers. See mem.h. */
#include "mem/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/log.h"

/* Device memory is mapped in pages. So the kind of memory changes only at a page boundary. */
#define MEM_PAGE_SHIFT 12

/* Allocations that are known to be settled (dev_ops.settle): each place has the latest id */
#define MEM_SETTLED 256

static uint64_t mem_settled[MEM_SETTLED];

/*
 * Pages at which the CPU has been able to read. Each has its place; others take it from it, and then
 * the kernel is asked again.
 */
#define MEM_PAGES 4096

static uintptr_t mem_pages[MEM_PAGES];

/* Where the device memory is now, there is no host memory any more */
static void mem_pages_forget(const struct dev_mem *mem)
{
	uintptr_t page;

	for (size_t i = 0; i < MEM_PAGES; i++) {
		page = __atomic_load_n(&mem_pages[i], __ATOMIC_RELAXED);
		if ((page << MEM_PAGE_SHIFT) - mem->base < mem->size)
			__atomic_store_n(&mem_pages[i], 0, __ATOMIC_RELAXED);
	}
}

/*
 * The call does nothing, as there is no signal 0. The kernel reads what is to be done at that signal
 * before it finds that. That is less than 64 bytes.
 */
static P2P_APART bool mem_ask_kernel(uintptr_t addr)
{
	return !syscall(SYS_rt_sigaction, 0, addr & ~(uintptr_t) 63, NULL, 8) ||
	       errno != EFAULT;
}

bool mem_readable(const void *addr)
{
	const uintptr_t page = (uintptr_t) addr >> MEM_PAGE_SHIFT;
	uintptr_t *known = &mem_pages[page % MEM_PAGES];

	if (p2p_likely(__atomic_load_n(known, __ATOMIC_RELAXED) == page))
		return true;
	if (!mem_ask_kernel((uintptr_t) addr))
		return false;
	__atomic_store_n(known, page, __ATOMIC_RELAXED);
	return true;
}

/* Makes sure, once for each allocation, that our copies see those that the application believes done. */
static void mem_settle(const struct dev_mem *mem)
{
	uint64_t *slot = &mem_settled[mem->id % MEM_SETTLED];

	/* a lost update costs one more call; a stale value is impossible, as no id comes again */
	if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == mem->id)
		return;
	mem_pages_forget(mem);
	if (mem->ops->settle(mem))
		__atomic_store_n(slot, mem->id, __ATOMIC_RELEASE);
}

/*
 * Where the heap ends, by libc's own variable. sbrk(0) would tell it as well, unless UCX is in the process. UCX's sbrk()
 * sets the end again that it has read, so the heap loses what another thread has added meanwhile.
 */
extern char *__curbrk __attribute__((weak));

static uintptr_t mem_heap_end(void)
{
	return &__curbrk ? (uintptr_t) __atomic_load_n(&__curbrk, __ATOMIC_RELAXED) : 0;
}

/*
 * The heap's first address. UINTPTR_MAX if the heap does not end where the kernel says. Under
 * valgrind it does not, as there is a heap beside the program's.
 */
static uintptr_t mem_heap_find(void)
{
	unsigned long first, last, start = 0, end = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	if (!maps)
		return UINTPTR_MAX;
	while (fgets(line, sizeof line, maps)) {
		if (!strstr(line, "[heap]") || sscanf(line, "%lx-%lx", &first, &last) != 2)
			continue;
		/* the kernel may list the heap in parts, of different protection */
		if (!start)
			start = first;
		end = last;
	}
	fclose(maps);
	return start && end == P2P_ALIGN_UP(mem_heap_end(), sysconf(_SC_PAGESIZE))
		       ? start
		       : UINTPTR_MAX;
}

bool mem_in_heap(const void *addr, size_t len)
{
	static uintptr_t known;
	uintptr_t start = __atomic_load_n(&known, __ATOMIC_RELAXED), first = (uintptr_t) addr;

	if (p2p_unlikely(!start)) {
		start = mem_heap_find();
		__atomic_store_n(&known, start, __ATOMIC_RELAXED);
	}
	/* the heap may have grown or shrunk since */
	return first >= start && first + len > first && first + len <= mem_heap_end();
}

/* The kernel leaves so much free below the main thread's stack, whatever its limit is */
#define MEM_STACK_MAX ((size_t) 128 << 20)

struct mem_stack {
	uintptr_t start;
	uintptr_t end;
};

/* This thread's stack; an empty one if it is not known */
static P2P_APART void mem_stack_find(struct mem_stack *stack)
{
	pthread_attr_t attr;
	void *addr;
	size_t size;

	stack->start = stack->end = UINTPTR_MAX;
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (!pthread_attr_getstack(&attr, &addr, &size)) {
		stack->end = (uintptr_t) addr + size;
		stack->start = stack->end - P2P_MIN(size, MEM_STACK_MAX);
	}
	pthread_attr_destroy(&attr);
}

bool mem_in_stack(const void *addr, size_t len)
{
	static __thread struct mem_stack known;
	struct mem_stack *stack = &known;
	uintptr_t here = (uintptr_t) __builtin_frame_address(0), first = (uintptr_t) addr;

	if (p2p_unlikely(!stack->end))
		mem_stack_find(stack);
	/* a thread may run on another stack than its own for a while */
	return here >= stack->start && here < stack->end && first >= here &&
	       first + len > first && first + len <= stack->end;
}

int mem_find_device(const void *addr, size_t len, struct dev_mem *mem)
{
	uintptr_t first = (uintptr_t) addr, last = first + len - 1;
	int ret;

	if (!len || mem_in_heap(addr, len) || mem_in_stack(addr, len))
		return 0;
	ret = dev_find(addr, mem);
	if (!ret && (first ^ last) >> MEM_PAGE_SHIFT)
		ret = dev_find((void *) last, mem);
	/* in a stream's host function the driver does not answer: what the CPU can read is the host's */
	return ret < 0 && mem_readable(addr) ? 0 : ret;
}

/*
 * Tells whether the allocation reaches to @end, with those mapped right behind it. 1: yes, 0: no, negative:
 * that is not known
 */
static int mem_covers(const struct dev_mem *mem, uintptr_t end)
{
	struct dev_mem part = *mem;
	int ret = 1;

	while (ret == 1 && end > part.base + part.size) {
		ret = part.mapped ? dev_find((void *) (part.base + part.size), &part) : 0;
		if (ret == 1 && (!part.mapped || part.ordinal != mem->ordinal))
			ret = 0;
	}
	return ret;
}

bool mem_moved(const struct dev_mem *mem)
{
	return mem->ops && mem->mapped && mem->ops->gone(mem->ctx);
}

/* Finds a piece's allocation: the one seen before, or what the drivers say. */
static int mem_find(const struct iovec *iov, const struct dev_mem *seen, struct dev_mem *mem)
{
	if (!seen || (uintptr_t) iov->iov_base - seen->base >= seen->size || mem_moved(seen))
		return dev_active() ? mem_find_device(iov->iov_base, iov->iov_len, mem) : 0;
	*mem = *seen;
	return 1;
}

/* Checks a piece, and fills @mem with the device memory that it lies in. @used: the CPU will touch it if it is host memory */
static int mem_classify_piece(const struct iovec *iov, const struct dev_mem *seen, bool used,
			      struct dev_mem *mem)
{
	uintptr_t start = (uintptr_t) iov->iov_base;
	int ret;

	mem->ops = NULL;
	if (!iov->iov_len)
		return 0;
	if (!start) {
		P2P_WARN("a buffer of %zu bytes has no address\n", iov->iov_len);
		return -FI_EINVAL;
	}
	if (start + iov->iov_len < start) {
		P2P_WARN("buffer %p+%zu runs past the end of memory\n", iov->iov_base,
			 iov->iov_len);
		return -FI_EFAULT;
	}
	ret = mem_find(iov, seen, mem);
	if (ret < 0)
		return ret;
	if (!ret && used && dev_active() && !mem_readable(iov->iov_base)) {
		P2P_WARN(
			"buffer %p+%zu: nothing is there, or device memory that has been freed\n",
			iov->iov_base, iov->iov_len);
		return -FI_EFAULT;
	}
	if (!ret)
		return 0;
	if (start < mem->base) {
		P2P_WARN("buffer %p+%zu begins in host memory and ends in %s memory of "
			 "device %d: use one buffer for each\n",
			 iov->iov_base, iov->iov_len, mem->ops->name, mem->ordinal);
		return -FI_EFAULT;
	}
	ret = mem_covers(mem, start + iov->iov_len);
	if (ret < 0)
		return ret;
	if (!ret) {
		P2P_WARN("buffer %p+%zu leaves its allocation 0x%zx+%zu on %s device %d\n",
			 iov->iov_base, iov->iov_len, (size_t) mem->base, mem->size,
			 mem->ops->name, mem->ordinal);
		return -FI_EFAULT;
	}
	mem_settle(mem);
	return 0;
}

/*
 * Checks every piece of a buffer, and fills @mem with the first device memory among them. Virtual memory comes before
 * all other: only the devices that may access it reach it.
 */
static int mem_classify_all(const struct iovec *iov, size_t count, const struct dev_mem *seen,
			    bool used, struct dev_mem *mem)
{
	struct dev_mem piece;
	int ret;

	mem->ops = NULL;
	for (size_t i = 0; i < count; i++) {
		ret = mem_classify_piece(&iov[i], seen, used, &piece);
		if (ret)
			return ret;
		if (piece.ops && (!mem->ops || (piece.mapped && !mem->mapped)))
			*mem = piece;
	}
	return 0;
}

int mem_classify(const struct iovec *iov, size_t count, const struct dev_mem *seen,
		 struct dev_mem *mem)
{
	return mem_classify_all(iov, count, seen, true, mem);
}

int mem_classify_untouched(const struct iovec *iov, size_t count, struct dev_mem *mem)
{
	return mem_classify_all(iov, count, NULL, false, mem);
}

size_t mem_page_len(const struct iovec *iov)
{
	const uintptr_t page = (uintptr_t) 1 << MEM_PAGE_SHIFT;
	const uintptr_t start = (uintptr_t) iov->iov_base, end = start + iov->iov_len;
	struct dev_mem mem;
	uintptr_t last;

	if (end % page || end <= start || !dev_active() || dev_find(iov->iov_base, &mem) != 1)
		return iov->iov_len;
	last = mem.base + mem.size;
	if (end <= last || end - last >= page || mem_covers(&mem, end))
		return iov->iov_len;
	return last - start;
}

size_t mem_iov_len(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++) {
		if (__builtin_add_overflow(len, iov[i].iov_len, &len))
			return SIZE_MAX;
	}
	return len;
}

size_t mem_iov_slice(const struct iovec *iov, size_t count, size_t offset, size_t len,
		     struct iovec *out)
{
	size_t pieces = 0;

	for (size_t i = 0; i < count && len; i++) {
		if (offset >= iov[i].iov_len) {
			offset -= iov[i].iov_len;
			continue;
		}
		out[pieces].iov_base = (char *) iov[i].iov_base + offset;
		out[pieces].iov_len = P2P_MIN(iov[i].iov_len - offset, len);
		len -= out[pieces++].iov_len;
		offset = 0;
	}
	return pieces;
}

void mem_gather(const struct iovec *iov, size_t count, void *host)
{
	char *at = host;

	for (size_t i = 0; i < count; at += iov[i++].iov_len) {
		if (iov[i].iov_len)
			memcpy(at, iov[i].iov_base, iov[i].iov_len);
	}
}

void mem_scatter(const struct iovec *iov, size_t count, const void *host)
{
	const char *at = host;

	for (size_t i = 0; i < count; at += iov[i++].iov_len) {
		if (iov[i].iov_len)
			memcpy(iov[i].iov_base, at, iov[i].iov_len);
	}
}
