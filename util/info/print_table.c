/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Prints struct info for people. See info.h. */
#include "info.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *or_unknown(const char *text)
{
	return text ? text : "unknown";
}

static const char *answer(enum info_answer answer)
{
	return answer == INFO_YES ? "yes" : answer == INFO_NO ? "no" : "unknown";
}

static const char *numa(int node)
{
	return node < 0 ? "unknown" : info_text("%d", node);
}

static const char *size(uint64_t bytes)
{
	return bytes ? info_text("%" PRIu64 " MiB", bytes >> 20) : "unknown";
}

static void line(const char *key, const char *value)
{
	printf("  %-*s%s\n", *value ? 18 : 0, key, value);
}

static const char *object(const char *path, const char *name,
			  const struct info_library *library)
{
	for (size_t i = 0; path && i < library->provider_count; i++) {
		const struct info_provider *provider = &library->providers[i];

		if (!strcmp(provider->name, name))
			return info_text("%u.%u, %s", FI_MAJOR(provider->version),
					 FI_MINOR(provider->version), path);
	}
	return "not loaded";
}

static void print_library(const struct info_library *library)
{
	const char *others = "";

	printf("libfabric\n");
	line("release", info_text("%s, %s", library->release, or_unknown(library->path)));
	line("ofi_p2p", object(library->layered, "ofi_p2p", library));
	line("ofi_hook_p2p", object(library->hook, "ofi_hook_p2p", library));
	for (size_t i = 0; i < library->provider_count; i++) {
		if (!strstr(library->providers[i].name, "p2p"))
			others = info_text("%s%s%s", others, *others ? " " : "",
					   library->providers[i].name);
	}
	line("other providers", others);
	if (library->search)
		line("FI_PROVIDER_PATH", library->search);
	if (library->restricted)
		line("FI_PROVIDER",
		     info_text("%s (others are not offered)", library->restricted));
	if (library->hooked)
		line("FI_HOOK", library->hooked);
}

static void print_system(const struct info_system *system)
{
	const char *loaded = "", *missing = "";

	printf("\nsystem\n");
	line("kernel", or_unknown(system->kernel));
	for (size_t i = 0; i < system->module_count; i++) {
		const struct info_module *module = &system->modules[i];

		if (!module->loaded)
			missing = info_text("%s %s", missing, module->name);
		else if (module->version)
			loaded = info_text("%s %s (%s)", loaded, module->name, module->version);
		else
			loaded = info_text("%s %s", loaded, module->name);
	}
	line("modules loaded", *loaded ? loaded + 1 : "none of those that matter");
	line("not loaded", *missing ? missing + 1 : "none");
	if (system->nvidia_open != INFO_UNKNOWN)
		line("NVIDIA's modules",
		     system->nvidia_open == INFO_YES ? "the open ones" : "not the open ones");
	line("IOMMU", system->iommu_words ? info_text("%s (%s)", info_iommu_word(system->iommu),
						      system->iommu_words)
					  : info_iommu_word(system->iommu));
}

static const char *attributes(const struct info_gpu *gpu)
{
	if (!gpu->attributes)
		return "dma-buf, GPUDirect RDMA and other attributes: not looked at";
	return info_text("dma-buf %s, GPUDirect RDMA %s, stream memory operations %s, "
			 "a NIC's writes in order for: %s",
			 answer(gpu->dmabuf), answer(gpu->rdma), answer(gpu->memops),
			 or_unknown(gpu->ordering));
}

static void print_gpus(const struct info *info)
{
	bool ready = false;

	printf("\nGPUs\n");
	for (size_t i = 0; i < info->runtime_count; i++) {
		line(info->runtimes[i].name, info->runtimes[i].status);
		ready |= info->runtimes[i].ready;
	}
	for (size_t i = 0; i < info->gpu_count; i++) {
		const struct info_gpu *gpu = &info->gpus[i];

		line(info_text("GPU %zu", i),
		     info_text("%s, %s device %d", or_unknown(gpu->name), gpu->runtime,
			       gpu->number));
		line("", info_text("PCI %s, NUMA node %s, driver %s", or_unknown(gpu->pci),
				   numa(gpu->numa), or_unknown(gpu->driver)));
		line("",
		     info_text("memory %s, largest BAR %s", size(gpu->memory), size(gpu->bar)));
		line("", attributes(gpu));
		if (gpu->error)
			line("", gpu->error);
	}
	for (size_t i = 0; i < info->unused_count; i++)
		line("unused",
		     info_text("%s GPU at PCI %s, driver %s: no runtime offers it",
			       info->unused[i].vendor, info->unused[i].pci,
			       info->unused[i].driver ? info->unused[i].driver : "none"));
	if (!ready)
		line("", "no GPU runtime: all buffers are host memory");
	else if (!info->gpu_count)
		line("", "no GPU: all buffers are host memory");
}

static const char *way(const struct info_way *way)
{
	const char *far = info_distance_word(way->distance);

	if (way->why)
		far = info_text("%s (%s)", far, way->why);
	if (way->acs == INFO_YES)
		return info_text("%s; ACS redirects at %s", far, way->bridges);
	return info_text("%s; ACS redirects: %s", far,
			 way->acs == INFO_NO ? "no"
					     : "unknown (not readable, or not permitted)");
}

static void print_nics(const struct info *info)
{
	printf("\nverbs devices\n");
	for (size_t i = 0; i < info->nic_count; i++) {
		const struct info_nic *nic = &info->nics[i];

		line(nic->name, info_text("%s, driver %s, firmware %s", or_unknown(nic->type),
					  or_unknown(nic->driver), or_unknown(nic->firmware)));
		line("",
		     info_text("PCI %s, NUMA node %s", or_unknown(nic->pci), numa(nic->numa)));
		for (size_t j = 0; j < nic->port_count; j++)
			line("", info_text("port %s: %s, %s, %s", nic->ports[j].number,
					   or_unknown(nic->ports[j].state),
					   or_unknown(nic->ports[j].link),
					   or_unknown(nic->ports[j].rate)));
		line("", info_text("takes a dma-buf: %s (%s)", answer(nic->dmabuf),
				   nic->dmabuf_how));
		for (size_t j = 0; j < info->gpu_count; j++)
			line("", info_text("to GPU %zu: %s", j, way(&nic->ways[j])));
	}
	if (!info->nic_count)
		line("none", "");
}

static bool is_same_path(const struct info_path *a, const struct info_path *b)
{
	bool same = a->len == b->len && a->ret == b->ret && a->path == b->path &&
		    !strcmp(a->reason, b->reason) && a->advice_count == b->advice_count;

	for (size_t i = 0; same && i < a->advice_count; i++)
		same = !strcmp(a->advice[i], b->advice[i]);
	return same;
}

/* Prints one line for all GPUs that have the same path */
static void print_path(const struct info_offer *offer, size_t which)
{
	const struct info_path *path = &offer->paths[which];
	const char *gpus = "";

	for (size_t i = 0; i < offer->path_count; i++) {
		if (!is_same_path(path, &offer->paths[i]))
			continue;
		if (i < which)
			return;
		gpus = info_text("%s %zu", gpus, offer->paths[i].gpu);
	}
	printf("    GPU%s, %s: %s: %s\n", gpus,
	       path->len < 1 << 20 ? info_text("%zu bytes", path->len)
				   : info_text("%zu MiB", path->len >> 20),
	       path->ret ? "none" : info_path_word(path->path), path->reason);
	for (size_t i = 0; i < path->advice_count; i++)
		printf("      better: %s\n", path->advice[i]);
}

static void print_offers(const struct info *info)
{
	printf("\npaths of messages\n");
	for (size_t i = 0; i < info->offer_count; i++) {
		const struct info_offer *offer = &info->offers[i];

		printf("  %s, %s\n", offer->provider, offer->domain);
		if (offer->error)
			printf("    cannot be used: %s\n", offer->error);
		for (size_t j = 0; j < offer->path_count; j++)
			print_path(offer, j);
		if (!offer->error && !info->gpu_count)
			printf("    host: host memory\n");
	}
	if (!info->offer_count)
		line("no provider of ours is offered", "");
}

static void print_costs(const struct info *info)
{
	printf("\ncosts of messages from device memory, by figures of H200s, and the lengths that follow\n");
	printf("  %-26s%9s%11s   %-20s%s\n", "way", "fixed", "per KiB", "bytes", "decided by");
	for (size_t i = 0; i < info->cost_count; i++) {
		const struct info_cost *cost = &info->costs[i];
		const char *bytes = cost->none ? "none"
				    : cost->to ? info_text("%zu to %zu", cost->from, cost->to)
					       : info_text("%zu and more", cost->from);

		printf("  %-26s%9s%11s   %-20s%s\n", cost->way,
		       cost->fixed ? info_text("%.1f us", cost->fixed / 1e3) : "-",
		       cost->fixed ? info_text("%.3f us", cost->kib / 1e3) : "-", bytes,
		       cost->by);
	}
}

void info_print_advice(const struct info *info)
{
	if (info->advice_count)
		printf("\nto do\n");
	for (size_t i = 0; i < info->advice_count; i++)
		printf("  %s\n", info->advice[i]);
}

void info_print_table(const struct info *info)
{
	const char *idle = "";

	print_library(&info->library);
	print_system(&info->system);
	print_gpus(info);
	print_nics(info);
	print_offers(info);
	print_costs(info);
	info_print_advice(info);
	for (size_t i = 0; i < info->gpu_count; i++) {
		if (!info_gpu_works(info, i))
			idle = info_text("%s %zu", idle, i);
	}
	if (*idle)
		printf("\nno path that works: GPU%s\n", idle);
}
