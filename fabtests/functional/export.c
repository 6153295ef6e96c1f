/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_export: what the CUDA backend finds out about device memory of every kind, and
 * what of it the driver exports as a dma-buf: whole allocations, rounded to pages as the
 * map of the NIC's memory rounds them (nic_map.c), and single pages in them. One line for
 * each. An allocation at an address that was another's must have an id of its own.
 *
 * Uses the provider's own code, without libfabric: no NIC is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cudamem.h"
#include "dev/dev.h"
#include "ft_test.h"
#include "base/log.h"

#define TRIES 16 /* to get an address a second time */

static struct fi_provider provider = {
	.version = FI_VERSION(0, 1),
	.fi_version = FI_VERSION(1, 17),
	.name = "export",
};

/* Small ones may share a page with others */
static const struct kind {
	const struct ft_mem_ops *ops;
	size_t size;
} kinds[] = {
	{&ft_cuda_ops, 1000},          {&ft_cuda_ops, 1000},
	{&ft_cuda_ops, 1000},          {&ft_cuda_ops, 4096},
	{&ft_cuda_ops, (2 << 20) + 1}, {&ft_cuda_ops, 64 << 20},
	{&cudamem_vmm, 2 << 20},       {&cudamem_vmm, 6 << 20},
	{&cudamem_vmm_plain, 2 << 20}, {&cudamem_vmm_two, 1 << 20},
	{&cudamem_pool, 1000},         {&cudamem_pool, 1 << 20},
	{&cudamem_managed, 4096},
};

/* What a dma-buf is like, or why there is none */
struct outcome {
	bool ok;
	char text[200];
};

/* The kernel's word for it that @fd is a dma-buf */
static bool exporter(int fd, char *name, size_t len)
{
	char path[64], line[128];
	bool found = false;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "re");
	while (info && !found && fgets(line, sizeof(line), info)) {
		line[strcspn(line, "\n")] = '\0';
		found = !strncmp(line, "exp_name:", 9);
	}
	if (info)
		fclose(info);
	if (found)
		snprintf(name, len, "%s", line + 9 + strspn(line + 9, " \t"));
	return found;
}

static int check_fd(int fd, uint64_t offset, size_t len, struct outcome *outcome)
{
	const int flags = fcntl(fd, F_GETFD);
	const off_t size = lseek(fd, 0, SEEK_END);
	char name[64];

	FT_CHECK(flags >= 0, "the descriptor %d is not open", fd);
	FT_CHECK(exporter(fd, name, sizeof(name)), "the descriptor %d is no dma-buf", fd);
	FT_CHECK(size < 0 || (uint64_t) size >= offset + len,
		 "the dma-buf has %lld bytes, too few for %zu at %" PRIu64, (long long) size,
		 len, offset);
	snprintf(outcome->text, sizeof(outcome->text),
		 "%zu bytes at %" PRIu64 " of %lld, by %s%s", len, offset, (long long) size,
		 name, flags & FD_CLOEXEC ? "" : ", stays open on exec");
	return 0;
}

/* The pages that the @len bytes at @addr are in */
static int expose(const struct dev_mem *mem, uintptr_t addr, size_t len,
		  struct outcome *outcome)
{
	const uintptr_t first = addr & ~(uintptr_t) (DEV_PAGE - 1);
	const size_t all = P2P_ALIGN_UP(addr + len - first, DEV_PAGE);
	const char *why = "";
	uint64_t offset;
	int fd, ret;

	ret = mem->ops->expose(mem, first, all, &fd, &offset, &why);
	outcome->ok = !ret;
	if (ret) {
		snprintf(outcome->text, sizeof(outcome->text), "%s", why);
		return 0;
	}
	ret = check_fd(fd, offset, all, outcome);
	close(fd);
	return ret;
}

static int find(const struct kind *kind, const void *addr, struct dev_mem *mem)
{
	const uintptr_t at = (uintptr_t) addr;

	FT_CHECK(dev_find(addr, mem), "%s: dev_find() says that it is not device memory",
		 kind->ops->name);
	FT_CHECK(at >= mem->base && at - mem->base < mem->size,
		 "%s: found %zu bytes at %#zx, and asked for %#zx", kind->ops->name, mem->size,
		 mem->base, at);
	return 0;
}

static void print(const char *what, const struct outcome *outcome)
{
	printf("%s: %s%s", what, outcome->ok ? "" : "no, ", outcome->text);
}

static int show(const struct kind *kind, const void *addr)
{
	const bool across = kind->ops == &cudamem_vmm_two;
	struct outcome whole, page, range = {.ok = true};
	struct dev_mem mem;
	bool exported = false;

	FT_TRY(cudamem_exported(kind->ops, &exported));
	FT_TRY(find(kind, addr, &mem));
	FT_CHECK(across == ((uintptr_t) addr - mem.base > mem.size - kind->size ||
			    kind->size > mem.size),
		 "%s: found %zu bytes at %#zx for %zu at %p", kind->ops->name, mem.size,
		 mem.base, kind->size, addr);
	FT_TRY(expose(&mem, mem.base, mem.size, &whole));
	FT_TRY(expose(&mem, mem.base + mem.size / 2, 1, &page));
	if (across)
		FT_TRY(expose(&mem, (uintptr_t) addr, kind->size, &range));
	printf("%s, %zu bytes: found %zu at %#zx, id %" PRIu64 "%s; ", kind->ops->name,
	       kind->size, mem.size, mem.base, mem.id, mem.mapped ? ", mapped" : "");
	print("whole", &whole);
	print("; a page", &page);
	if (across)
		print("; across the pieces", &range);
	printf("\n");
	FT_CHECK(!exported || (whole.ok && page.ok),
		 "%s, %zu bytes, cannot be exported as a dma-buf, and the driver says that "
		 "it can be",
		 kind->ops->name, kind->size);
	return 0;
}

static int show_all(void)
{
	void *addr[FT_COUNT(kinds)];
	int ret = 0;

	for (size_t i = 0; i < FT_COUNT(kinds); i++)
		FT_TRY(kinds[i].ops->alloc(kinds[i].size, &addr[i]));
	/* the others' lines are of interest, too, when one of them is wrong */
	for (size_t i = 0; i < FT_COUNT(kinds); i++)
		ret = show(&kinds[i], addr[i]) ? -FI_EOTHER : ret;
	for (size_t i = 0; i < FT_COUNT(kinds); i++)
		kinds[i].ops->release(addr[i]);
	return ret;
}

/* Frees and allocates until an address comes again */
static int again(const struct kind *kind)
{
	struct dev_mem before = {0}, mem;
	void *addr, *last = NULL;
	bool same = false;

	for (int i = 0; i < TRIES && !same; i++) {
		FT_TRY(kind->ops->alloc(kind->size, &addr));
		FT_TRY(find(kind, addr, &mem));
		same = addr == last;
		FT_CHECK(!last || mem.id != before.id,
			 "%s, %zu bytes at %#zx, was freed and allocated again at %#zx, and "
			 "has the same id, %" PRIu64,
			 kind->ops->name, kind->size, before.base, mem.base, mem.id);
		if (same)
			printf("%s, %zu bytes at %p: id %" PRIu64 ", then %" PRIu64 "\n",
			       kind->ops->name, kind->size, addr, before.id, mem.id);
		kind->ops->release(addr);
		last = addr;
		before = mem;
	}
	if (!same)
		printf("%s, %zu bytes: %d times at other addresses\n", kind->ops->name,
		       kind->size, TRIES);
	return 0;
}

/* The device's own refusal, for the runner */
static int refusal(void)
{
	const struct kind *kind = &kinds[0];
	struct outcome outcome;
	struct dev_mem mem;
	void *addr;

	FT_TRY(kind->ops->alloc(kind->size, &addr));
	FT_TRY(find(kind, addr, &mem));
	FT_TRY(expose(&mem, mem.base, mem.size, &outcome));
	kind->ops->release(addr);
	FT_CHECK(!outcome.ok, "memory is exported as a dma-buf, and the driver says that the "
			      "device does not do that");
	return ft_skip("%s", outcome.text);
}

static int run(struct ft_proc *proc)
{
	char name[128] = "";
	bool dmabufs = false;
	int ret;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("it is about CUDA's memory (-D cuda)");
	FT_TRY(cudamem_vmm.init(proc->opts.device));
	dev_init();
	if (!dev_present)
		return ft_skip("built without the CUDA backend");
	FT_TRY(ft_cuda_ops.device_name(name, sizeof(name)));
	FT_TRY(cudamem_exported(&ft_cuda_ops, &dmabufs));
	printf("%s: %s\n", name, dmabufs ? "exports dma-bufs" : "no dma-bufs");
	ret = show_all();
	for (size_t i = 0; i < FT_COUNT(kinds); i++)
		ret = again(&kinds[i]) ? -FI_EOTHER : ret;
	return ret || dmabufs ? ret : refusal();
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "How CUDA's memory is found, and exported as dma-bufs.",
		.ranks = 1,
		.may_die = -1,
		.run = run,
	};

	/* the backend's code logs for it */
	log_prov = &provider;
	return ft_test_main(&test, argc, argv);
}
