/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of mem.c, on the emulated device: whose memory a buffer is, and its parts.
 */
#include "unit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "../cudaemu/driver.h"
#include "dev/dev_pci.h"
#include "mem/mem.h"
#include "xfer/region.h"

#define PAGE 4096
#define SIZE ((size_t) 3 * PAGE)

static char host[2 * PAGE];
static char *dev, *dev1, *pinned;

static int setup(void **state)
{
	void *ptr;

	unit_dev_start();
	dev = unit_dev_alloc(SIZE);
	unit_dev_use(1);
	dev1 = unit_dev_alloc(SIZE);
	unit_dev_use(0);
	assert_int_equal(cuMemHostAlloc(&ptr, SIZE, 0), CUDA_SUCCESS);
	pinned = ptr;
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(cuMemFreeHost(pinned), CUDA_SUCCESS);
	unit_dev_free(dev);
	unit_dev_free(dev1);
	return 0;
}

static int classify(const void *base, size_t len, struct dev_mem *mem)
{
	const struct iovec iov = {(void *) (uintptr_t) base, len};

	memset(mem, 0x5a, sizeof *mem);
	return mem_classify(&iov, 1, NULL, mem);
}

/* One piece: what is said of it, and whether it is device memory (and of which device) */
static void test_pieces(void **state)
{
	const struct {
		const char *what;
		const void *base;
		size_t len;
		int ret;
		int device;
	} cases[] = {
		{"host", host, sizeof host, 0, -1},
		{"a byte of host", host, 1, 0, -1},
		{"pinned", pinned, SIZE, 0, -1},
		{"inside pinned", pinned + 5, SIZE - 5, 0, -1},
		{"code", "constant", 9, 0, -1},
		{"device", dev, SIZE, 0, 0},
		{"its first byte", dev, 1, 0, 0},
		{"its last byte", dev + SIZE - 1, 1, 0, 0},
		{"from an offset to the end", dev + 777, SIZE - 777, 0, 0},
		{"one past the end", dev, SIZE + 1, -FI_EFAULT, -1},
		{"one past the end from an offset", dev + 777, SIZE - 776, -FI_EFAULT, -1},
		{"from the last byte on", dev + SIZE - 1, 2, -FI_EFAULT, -1},
		{"far past the end", dev, (size_t) 1 << 40, -FI_EFAULT, -1},
		{"second device", dev1, SIZE, 0, 1},
		{"past its end", dev1 + 1, SIZE, -FI_EFAULT, -1},
		{"no address", NULL, 1, -FI_EINVAL, -1},
		{"no address, all memory", NULL, SIZE_MAX, -FI_EINVAL, -1},
		{"no address, no length", NULL, 0, 0, -1},
		{"no length on the host", host, 0, 0, -1},
		{"no length on the device", dev, 0, 0, -1},
		{"no length at the end", dev + SIZE, 0, 0, -1},
		{"no length nowhere", (void *) UINTPTR_MAX, 0, 0, -1},
		{"round the end of memory", host, SIZE_MAX, -FI_EFAULT, -1},
		{"round the end, device", dev, SIZE_MAX, -FI_EFAULT, -1},
		{"round the end by a byte", (void *) UINTPTR_MAX, 2, -FI_EFAULT, -1},
	};
	struct dev_mem mem;
	int ret;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		ret = classify(cases[i].base, cases[i].len, &mem);
		if (ret != cases[i].ret)
			fail_msg("%s: %d", cases[i].what, ret);
		if (ret)
			continue;
		if (!mem.ops != (cases[i].device < 0))
			fail_msg("%s: taken for the other kind", cases[i].what);
		if (mem.ops)
			assert_int_equal(mem.ordinal, cases[i].device);
	}
}

static void test_bounds(void **state)
{
	struct dev_mem mem, other;
	CUcontext ctx, after;

	assert_int_equal(cuCtxGetCurrent(&ctx), CUDA_SUCCESS);
	assert_int_equal(classify(dev + 1234, 1, &mem), 0);
	assert_int_equal(mem.base, (uintptr_t) dev);
	assert_int_equal(mem.size, SIZE);
	assert_string_equal(mem.ops->name, "cuda");
	unit_ops_complete(mem.ops);
	assert_int_equal(classify(dev1, 1, &other), 0);
	assert_ptr_not_equal(other.ctx, mem.ctx);
	assert_int_not_equal(other.id, mem.id);
	/* and nothing is left current that was not */
	assert_int_equal(cuCtxGetCurrent(&after), CUDA_SUCCESS);
	assert_ptr_equal(after, ctx);
}

static void test_iov(void **state)
{
	const struct iovec h = {host, 100}, p = {pinned, 9}, d = {dev + 5, 100},
			   d1 = {dev1, 100}, none = {NULL, 0}, bad = {dev, SIZE + 1},
			   nil = {NULL, 3};
	const struct {
		struct iovec iov[4];
		size_t count;
		int ret;
		const void *first;
	} cases[] = {
		{{}, 0, 0, NULL},
		{{none, none}, 2, 0, NULL},
		{{h, p, none, h}, 4, 0, NULL},
		{{h, d}, 2, 0, dev},
		{{none, p, d}, 3, 0, dev},
		{{d, h}, 2, 0, dev},
		{{d, d1}, 2, 0, dev},
		{{h, d1, none, d}, 4, 0, dev1},
		{{h, h, bad}, 3, -FI_EFAULT, NULL},
		{{d, bad}, 2, -FI_EFAULT, NULL},
		{{bad, nil}, 2, -FI_EFAULT, NULL},
		{{nil, bad}, 2, -FI_EINVAL, NULL},
		{{d, h, nil}, 3, -FI_EINVAL, NULL},
		{{h, bad}, 1, 0, NULL},
	};
	struct dev_mem mem;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		memset(&mem, 0x5a, sizeof mem);
		if (mem_classify(cases[i].iov, cases[i].count, NULL, &mem) != cases[i].ret)
			fail_msg("row %zu", i);
		if (cases[i].ret)
			continue;
		assert_int_equal(!!mem.ops, !!cases[i].first);
		if (mem.ops)
			assert_int_equal(mem.base, (uintptr_t) cases[i].first);
	}
}

/* Two mappings of device memory in one reservation, as allocators that grow make them */
#define MAPPING ((size_t) 2 << 20)

static char *vmm_reserve(void)
{
	CUdeviceptr ptr;

	assert_int_equal(cuMemAddressReserve(&ptr, 2 * MAPPING, 0, 0, 0), CUDA_SUCCESS);
	return (char *) (uintptr_t) ptr;
}

static void vmm_map(char *at)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	assert_int_equal(cuMemCreate(&handle, MAPPING, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemMap((uintptr_t) at, MAPPING, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemSetAccess((uintptr_t) at, MAPPING, &access, 1), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
}

static void vmm_unmap(char *at)
{
	assert_int_equal(cuMemUnmap((uintptr_t) at, MAPPING), CUDA_SUCCESS);
}

static void vmm_free(char *at)
{
	assert_int_equal(cuMemAddressFree((uintptr_t) at, 2 * MAPPING), CUDA_SUCCESS);
}

/*
 * A host page right below device memory: in the part of a reservation that nothing is
 * mapped to, for these are addresses that we may use as we like.
 */
static void test_host_runs_into_device(void **state)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	char *at = vmm_reserve(), *page = at + MAPPING - PAGE;
	struct dev_mem mem;

	vmm_map(at + MAPPING);
	assert_ptr_equal(mmap(page, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0), page);
	assert_int_equal(classify(page, PAGE, &mem), 0);
	assert_null(mem.ops);
	assert_int_equal(classify(page, PAGE + 1, &mem), -FI_EFAULT);
	assert_int_equal(classify(page + PAGE - 1, 2, &mem), -FI_EFAULT);
	assert_int_equal(classify(page + PAGE, 2, &mem), 0);
	assert_non_null(mem.ops);
	assert_false(mem_is_device(page, PAGE));
	assert_false(mem_is_device(page + PAGE - 1, 1));
	assert_true(mem_is_device(page + PAGE - 1, 2));
	assert_true(mem_is_device(page, PAGE + 1));
	assert_ptr_equal(mmap(page, PAGE, PROT_NONE, flags | MAP_NORESERVE, -1, 0), page);
	vmm_unmap(at + MAPPING);
	vmm_free(at);
}

/* Which device has the memory is one thing, and which ones may access it another: its own first, else another one. */
static void test_access(void **state)
{
	static const CUmemAccess_flags all = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CUmemAccessDesc access = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	char *at = vmm_reserve();
	struct dev_mem mem;

	vmm_map(at);
	for (int rights = 3; rights >= 0; rights--) {
		for (int i = 0; i < 2; i++) {
			access.location.id = i;
			access.flags = rights & 1 << i ? all : CU_MEM_ACCESS_FLAGS_PROT_NONE;
			assert_int_equal(cuMemSetAccess((uintptr_t) at, MAPPING, &access, 1),
					 CUDA_SUCCESS);
		}
		assert_int_equal(classify(at, MAPPING, &mem), rights ? 0 : -FI_EIO);
		if (rights)
			assert_int_equal(mem.ordinal, rights == 2);
	}
	vmm_unmap(at);
	vmm_free(at);
}

/* The device sees one buffer there, whatever it is made of */
static void test_mappings(void **state)
{
	char *at = vmm_reserve();
	struct dev_mem mem;

	vmm_map(at);
	vmm_map(at + MAPPING);
	assert_int_equal(classify(at + MAPPING, MAPPING, &mem), 0);
	assert_non_null(mem.ops);
	assert_int_equal(classify(at + MAPPING, MAPPING + 1, &mem), -FI_EFAULT);
	assert_int_equal(classify(at + MAPPING - 1, 2, &mem), 0);
	assert_non_null(mem.ops);
	assert_int_equal(classify(at, 2 * MAPPING, &mem), 0);
	assert_int_equal(classify(at, 2 * MAPPING + 1, &mem), -FI_EFAULT);
	/* a hole is no buffer */
	vmm_unmap(at + MAPPING);
	assert_int_equal(classify(at, MAPPING, &mem), 0);
	assert_int_equal(classify(at, MAPPING + 1, &mem), -FI_EFAULT);
	assert_int_equal(classify(at, 2 * MAPPING, &mem), -FI_EFAULT);
	vmm_unmap(at);
	vmm_free(at);
}

/* A region of all memory, and the part of it that a peer names */
struct everything {
	struct xfer xfer;
	struct region region;
	char *at;
	bool reached;
};

static int everything_reach(struct everything *all, struct dev_mem *mem)
{
	struct iovec iov[P2P_IOV_MAX];
	struct region *found;
	size_t count;

	return region_reach(&all->xfer, 1, (uintptr_t) all->at, MAPPING, FI_REMOTE_READ, &found,
			    iov, &count, mem);
}

static void *everything_asker(void *arg)
{
	struct everything *all = arg;
	struct dev_mem mem;

	p2p_lock_take(&all->xfer.lock);
	while (!everything_reach(all, &mem))
		__atomic_store_n(&all->reached, true, __ATOMIC_RELEASE);
	p2p_lock_drop(&all->xfer.lock);
	return NULL;
}

/* A peer asks for memory while the application unmaps it: the emulated driver ends who asks for more than the id then */
static void test_reached_and_unmapped(void **state)
{
	struct everything all = {.at = vmm_reserve()};
	struct dev_mem mem;
	pthread_t asker;

	all.region = (struct region){1, FI_REMOTE_READ, 0, {{NULL, SIZE_MAX}}, 1, SIZE_MAX};
	all.region.all = true;
	p2p_lock_init(&all.xfer.lock, false);
	p2p_lock_take(&all.xfer.lock);
	assert_int_equal(region_add(&all.xfer, &all.region, false), 0);
	for (int round = 0; round < 100; round++) {
		vmm_map(all.at);
		assert_int_equal(everything_reach(&all, &mem), 0);
		assert_int_equal(mem.base, (uintptr_t) all.at);
		p2p_lock_drop(&all.xfer.lock);
		all.reached = false;
		assert_int_equal(pthread_create(&asker, NULL, everything_asker, &all), 0);
		while (!__atomic_load_n(&all.reached, __ATOMIC_ACQUIRE))
			sched_yield();
		vmm_unmap(all.at);
		assert_int_equal(pthread_join(asker, NULL), 0);
		p2p_lock_take(&all.xfer.lock);
	}
	assert_int_equal(region_remove(&all.xfer, &all.region), 0);
	vmm_free(all.at);
}

/* What the kernel says of the first device that there is on the bus, and of one there is not */
static void test_pci_node(void **state)
{
	unsigned int domain, bus, device;
	char path[300];
	struct dirent *entry;
	DIR *dir = opendir("/sys/bus/pci/devices");
	int node = INT_MIN;
	FILE *file;

	assert_int_equal(dev_pci_node(0xfffe, 0xff, 0x1f), -1);
	while (dir && node == INT_MIN && (entry = readdir(dir))) {
		if (sscanf(entry->d_name, "%x:%x:%x.0", &domain, &bus, &device) != 3 ||
		    strcmp(strrchr(entry->d_name, '.'), ".0"))
			continue;
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node",
			 entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		assert_int_equal(fscanf(file, "%d", &node), 1);
		fclose(file);
		assert_int_equal(dev_pci_node((int) domain, (int) bus, (int) device), node);
	}
	if (dir)
		closedir(dir);
}

static void test_is_device(void **state)
{
	assert_true(mem_is_device(dev, SIZE));
	assert_true(mem_is_device(dev, 1));
	assert_true(mem_is_device(dev + SIZE - 1, 1));
	assert_true(mem_is_device(dev, SIZE + PAGE));
	assert_false(mem_is_device(dev, 0));
	assert_false(mem_is_device(NULL, 0));
	assert_false(mem_is_device(host, sizeof host));
	assert_false(mem_is_device(pinned, SIZE));
}

static unsigned int sbrks;

/* In the place of libc's. That of UCX is no question: it sets the heap's end, even if it adds nothing. */
void *sbrk(intptr_t by)
{
	static void *(*real)(intptr_t);

	if (!real)
		*(void **) &real = dlsym(RTLD_NEXT, "sbrk");
	sbrks++;
	return real(by);
}

/* The heap is known for what it is, and nothing else is taken for it */
static void test_in_heap(void **state)
{
	char *small = malloc(SIZE), *large = malloc(64 << 20);
	char *top;

	assert_non_null(small);
	assert_non_null(large);
	if (!mem_in_heap(small, SIZE)) {
		free(small);
		free(large);
		skip(); /* a malloc of its own: that of valgrind or of a sanitizer */
	}
	assert_true(mem_in_heap(small + SIZE - 1, 1));
	assert_false(mem_in_heap(small, SIZE_MAX));
	assert_false(mem_in_heap(large, 64 << 20));
	assert_false(mem_in_heap(host, sizeof host));
	assert_false(mem_in_heap(&small, sizeof small));
	assert_false(mem_in_heap(dev, SIZE));
	assert_int_equal(sbrks, 0);
	/* it ends where the program's break is now */
	top = sbrk(0);
	assert_true(mem_in_heap(top - 1, 1));
	assert_false(mem_in_heap(top - 1, 2));
	assert_false(mem_in_heap(top, 1));
	assert_ptr_equal(sbrk(PAGE), top);
	assert_true(mem_in_heap(top - 1, 2));
	assert_ptr_equal(sbrk(-PAGE), top + PAGE);
	assert_false(mem_in_heap(top, 1));
	free(small);
	free(large);
}

static char other_stack[64 << 10] __attribute__((aligned(64)));
static ucontext_t own_context, other_context;
static bool passed;

/* The address sanitizer keeps local variables elsewhere, for a time, to see them used too late */
#define ON_STACK __attribute__((no_sanitize_address))

/* On a stack that is not the thread's: nothing is known */
static ON_STACK void on_other_stack(void)
{
	char here[PAGE] = {0};

	passed = !mem_in_stack(here, sizeof here) && !mem_in_stack(host, sizeof host);
}

static ON_STACK void *in_other_thread(void *outside)
{
	char here[PAGE] = {0};

	passed = mem_in_stack(here, sizeof here) && !mem_in_stack(outside, PAGE);
	return NULL;
}

/* What a thread's stack holds is known for what it is, and nothing else is taken for it */
static ON_STACK void test_in_stack(void **state)
{
	char here[SIZE] = {0}, *top, *heap = malloc(SIZE);
	pthread_attr_t attr;
	pthread_t thread;
	void *bottom;
	size_t size;

	assert_true(mem_in_stack(here, sizeof here));
	assert_true(mem_in_stack(here + SIZE - 1, 1));
	assert_false(mem_in_stack(here, SIZE_MAX));
	assert_false(mem_in_stack((char *) ((uintptr_t) here - (64 << 10)), 1));
	assert_false(mem_in_stack(host, sizeof host));
	assert_false(mem_in_stack(heap, SIZE));
	assert_false(mem_in_stack(dev, SIZE));

	assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
	assert_int_equal(pthread_attr_getstack(&attr, &bottom, &size), 0);
	pthread_attr_destroy(&attr);
	top = (char *) bottom + size;
	assert_true(mem_in_stack(top - 1, 1));
	assert_false(mem_in_stack(top - 1, 2));
	assert_false(mem_in_stack(top, 1));

	assert_int_equal(pthread_create(&thread, NULL, in_other_thread, here), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(passed);

	passed = false;
	assert_int_equal(getcontext(&other_context), 0);
	other_context.uc_stack.ss_sp = other_stack;
	other_context.uc_stack.ss_size = sizeof other_stack;
	other_context.uc_link = &own_context;
	makecontext(&other_context, on_other_stack, 0);
	assert_int_equal(swapcontext(&own_context, &other_context), 0);
	assert_true(passed);
	free(heap);
}

static int sync_memops(const void *ptr)
{
	int on = -1;

	assert_int_equal(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					       (uintptr_t) ptr),
			 CUDA_SUCCESS);
	return on;
}

/* The same address again is another allocation: nothing known of the old one holds */
static void test_freed_and_allocated(void **state)
{
	const size_t len = 20 << 20;
	struct dev_mem mem;
	uint64_t ids[8];
	char *ptr, *last = NULL;

	for (size_t i = 0; i < UNIT_COUNT(ids); i++) {
		ptr = unit_dev_alloc(len);
		assert_true(!last || ptr == last);
		last = ptr;
		assert_int_equal(sync_memops(ptr), 0);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(classify(ptr + 1, 1, &mem), 0);
			assert_non_null(mem.ops);
			assert_int_equal(sync_memops(ptr), 1);
			assert_true(!again || mem.id == ids[i]);
			ids[i] = mem.id;
		}
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(ids[i], ids[j]);
		unit_dev_free(ptr);
		assert_int_equal(classify(ptr, 1, &mem), -FI_EFAULT);
	}
}

/* What has been freed is no host memory, whatever has been there before */
static void test_freed(void **state)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	char *ptr = unit_dev_alloc(SIZE), *page;
	const struct iovec iov = {ptr, SIZE};
	struct dev_mem mem;

	/* nobody has seen it */
	unit_dev_free(ptr);
	assert_int_equal(classify(ptr, SIZE, &mem), -FI_EFAULT);
	/* registering touches nothing */
	assert_int_equal(mem_classify_untouched(&iov, 1, &mem), 0);
	assert_null(mem.ops);
	/* then host memory is there, to the last byte of its page, and then device memory again */
	page = mmap(ptr, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
	assert_ptr_equal(page, ptr);
	assert_int_equal(classify(ptr, SIZE, &mem), 0);
	assert_int_equal(classify(ptr + SIZE - 1, 1, &mem), 0);
	assert_null(mem.ops);
	assert_ptr_equal(mmap(ptr, SIZE, PROT_NONE, flags | MAP_NORESERVE, -1, 0), ptr);
	assert_ptr_equal(unit_dev_alloc(SIZE), ptr);
	assert_int_equal(classify(ptr, SIZE, &mem), 0);
	assert_non_null(mem.ops);
	unit_dev_free(ptr);
	assert_int_equal(classify(ptr, SIZE, &mem), -FI_EFAULT);
	assert_int_equal(classify(ptr + SIZE - 1, 1, &mem), -FI_EFAULT);
}

/* Whole pages are registered: what they have behind the end of an allocation is left out. */
static void test_page_len(void **state)
{
	const size_t size = 2 * PAGE + 100;
	char *const odd = unit_dev_alloc(size);
	const struct {
		const char *base;
		size_t len, expected;
	} cases[] = {
		{odd, size, size},
		{odd, 3 * PAGE, size},
		{odd + 10, 3 * PAGE - 10, size - 10},
		{odd + PAGE, PAGE, PAGE},
		/* neither a whole page, nor one too many */
		{odd, size + 1, size + 1},
		{odd, 4 * PAGE, 4 * PAGE},
		{odd, 0, 0},
		{odd, SIZE_MAX, SIZE_MAX},
		{dev, SIZE, SIZE},
		{host, PAGE, PAGE},
		{NULL, PAGE, PAGE},
	};

	assert_int_equal((uintptr_t) odd % PAGE, 0);
	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		const struct iovec iov = {(char *) cases[i].base, cases[i].len};

		if (mem_page_len(&iov) != cases[i].expected)
			fail_msg("case %zu: %zu", i, mem_page_len(&iov));
	}
	unit_dev_free(odd);
}

static void test_iov_len(void **state)
{
	const struct iovec iov[] = {
		{NULL, 0}, {host, 5}, {host, SIZE_MAX - 6}, {NULL, 1}, {host, 1}, {host, 1},
	};
	const size_t lens[] = {0, 0, 5, SIZE_MAX - 1, SIZE_MAX, SIZE_MAX, SIZE_MAX};

	for (size_t count = 0; count < UNIT_COUNT(lens); count++)
		assert_true(mem_iov_len(iov, count) == lens[count]);
	assert_true(mem_iov_len(iov + 2, 1) == SIZE_MAX - 6);
}

/* Every part of a small buffer, compared byte by byte with the list of its bytes */
static void test_iov_slice(void **state)
{
	static char a[3], b[5], c[1], d[4];
	const struct iovec iov[] = {{NULL, 0}, {a, 3}, {b, 5}, {d, 0}, {c, 1}, {d, 4}, {a, 0}};
	struct iovec out[UNIT_COUNT(iov) + 1];
	char *bytes[16];
	size_t total = 0, pieces, at, want;

	for (size_t i = 0; i < UNIT_COUNT(iov); i++)
		for (size_t j = 0; j < iov[i].iov_len; j++)
			bytes[total++] = (char *) iov[i].iov_base + j;
	for (size_t offset = 0; offset <= total + 1; offset++) {
		for (size_t len = 0; len <= total + 2; len++) {
			memset(out, 0x5a, sizeof out);
			pieces = mem_iov_slice(iov, UNIT_COUNT(iov), offset, len, out);
			want = offset < total ? P2P_MIN(len, total - offset) : 0;
			assert_true(pieces <= UNIT_COUNT(iov));
			at = 0;
			for (size_t i = 0; i < pieces; i++) {
				assert_int_not_equal(out[i].iov_len, 0);
				for (size_t j = 0; j < out[i].iov_len; j++)
					assert_ptr_equal((char *) out[i].iov_base + j,
							 bytes[offset + at++]);
			}
			assert_int_equal(at, want);
			assert_int_equal(out[pieces].iov_len, 0x5a5a5a5a5a5a5a5a);
		}
	}
	assert_int_equal(mem_iov_slice(iov, 0, 0, 9, out), 0);
	assert_int_equal(mem_iov_slice(iov, UNIT_COUNT(iov), SIZE_MAX, SIZE_MAX, out), 0);
	assert_int_equal(mem_iov_slice(iov, 2, 1, SIZE_MAX, out), 1);
	assert_int_equal(out[0].iov_len, 2);
}

/* Until the application begins with CUDA, we do not either */
static void scene_not_initialised(void **state)
{
	struct dev_mem mem;
	CUcontext ctx;
	int count;

	dev_init();
	assert_true(dev_present);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(classify(host, sizeof host, &mem), 0);
		assert_null(mem.ops);
		assert_int_equal(classify((void *) PAGE, SIZE, &mem), -FI_EFAULT);
		assert_false(mem_is_device(host, sizeof host));
	}
	assert_int_equal(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuCtxGetCurrent(&ctx), CUDA_ERROR_NOT_INITIALIZED);
	/* and when it does, that is seen */
	unit_dev_start();
	assert_int_equal(classify(unit_dev_alloc(16), 16, &mem), 0);
	assert_non_null(mem.ops);
}

static void test_not_initialised(void **state)
{
	unit_play("scene_not_initialised", (const char *[]){NULL});
}

/* A thread without a context asks as well */
static void scene_no_current_context(void **state)
{
	struct dev_mem mem;
	CUcontext ctx;
	char *ptr;

	unit_dev_start();
	ptr = unit_dev_alloc(SIZE);
	assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	assert_int_equal(classify(ptr, SIZE, &mem), 0);
	assert_non_null(mem.ops);
	assert_int_equal(mem.size, SIZE);
	assert_int_equal(cuCtxGetCurrent(&ctx), CUDA_SUCCESS);
	assert_null(ctx);
}

static void test_no_current_context(void **state)
{
	unit_play("scene_no_current_context", (const char *[]){NULL});
}

/* A driver that fails does not say that it is host memory; the next time it may know */
static void scene_driver_fails(void **state)
{
	struct dev_mem mem;
	char *ptr, *at = NULL;

	unit_dev_start();
	ptr = unit_dev_alloc(SIZE);
	if (getenv("MAPPED")) {
		at = vmm_reserve();
		vmm_map(at);
		ptr = at;
	}
	if (getenv("SEEN"))
		assert_int_equal(classify(ptr, SIZE, &mem), 0);
	assert_int_equal(classify(ptr, SIZE, &mem), -FI_EIO);
	assert_int_equal(classify(ptr, SIZE, &mem), 0);
	assert_non_null(mem.ops);
	assert_non_null(mem.ctx);
	assert_int_equal(mem.base, (uintptr_t) ptr);
	assert_int_equal(mem_is_device(ptr, SIZE), 1);
	if (at) {
		vmm_unmap(at);
		vmm_free(at);
	}
}

/* There, the next part of what is mapped is asked about */
static void scene_driver_fails_behind(void **state)
{
	char *at;
	struct dev_mem mem;

	unit_dev_start();
	at = vmm_reserve();
	vmm_map(at);
	vmm_map(at + MAPPING);
	assert_int_equal(classify(at, 2 * MAPPING, &mem), -FI_EIO);
	assert_int_equal(classify(at, 2 * MAPPING, &mem), 0);
	assert_non_null(mem.ops);
	vmm_unmap(at);
	vmm_unmap(at + MAPPING);
	vmm_free(at);
}

/* A driver that is not there any more, or not yet, has no memory */
static void scene_driver_gone(void **state)
{
	struct dev_mem mem;

	unit_dev_start();
	assert_int_equal(classify(host, sizeof host, &mem), 0);
	assert_null(mem.ops);
	assert_int_equal(mem_is_device(host, sizeof host), 0);
}

#define FAIL(what) "CUDAEMU_FAIL=" what

static void test_driver_fails(void **state)
{
	static const struct {
		const char *scene;
		const char *env[4];
	} plays[] = {
		{"scene_driver_fails", {FAIL("cuPointerGetAttributes:1")}},
		{"scene_driver_fails", {FAIL("cuPointerGetAttributes:2")}},
		{"scene_driver_fails", {FAIL("cuPointerGetAttributes:1:1")}},
		{"scene_driver_fails", {FAIL("cuPointerGetAttributes:2:700")}},
		{"scene_driver_fails", {FAIL("cuPointerGetAttributes:3"), "SEEN=1"}},
		{"scene_driver_fails", {FAIL("cuMemGetAddressRange:1"), "MAPPED=1"}},
		{"scene_driver_fails", {FAIL("cuMemGetAddressRange:2"), "MAPPED=1", "SEEN=1"}},
		{"scene_driver_fails_behind", {FAIL("cuPointerGetAttributes:3")}},
		{"scene_driver_gone", {FAIL("cuPointerGetAttributes:1+:3")}},
		{"scene_driver_gone", {FAIL("cuPointerGetAttributes:1+:4")}},
	};

	for (size_t i = 0; i < UNIT_COUNT(plays); i++)
		unit_play(plays[i].scene, plays[i].env);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_iov),
		cmocka_unit_test(test_host_runs_into_device),
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_access),
		cmocka_unit_test(test_reached_and_unmapped),
		cmocka_unit_test(test_pci_node),
		cmocka_unit_test(test_is_device),
		cmocka_unit_test(test_in_heap),
		cmocka_unit_test(test_in_stack),
		cmocka_unit_test(test_freed_and_allocated),
		cmocka_unit_test(test_freed),
		cmocka_unit_test(test_page_len),
		cmocka_unit_test(test_iov_len),
		cmocka_unit_test(test_iov_slice),
		cmocka_unit_test(test_not_initialised),
		cmocka_unit_test(test_no_current_context),
		cmocka_unit_test(test_driver_fails),
	};
	const struct CMUnitTest scenes[] = {
		cmocka_unit_test(scene_not_initialised),
		cmocka_unit_test(scene_no_current_context),
		cmocka_unit_test(scene_driver_fails),
		cmocka_unit_test(scene_driver_fails_behind),
		cmocka_unit_test(scene_driver_gone),
	};
	const struct unit unit = {tests, UNIT_COUNT(tests), scenes, UNIT_COUNT(scenes),
				  setup, teardown};

	return unit_main(argc, argv, &unit);
}
