/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Prints struct info for programs. What is not known is null. The manual has the fields. See
 * info.h.
 */
#include "info.h"

#include "config.h"

#if HAVE_JSON_C
#include <stdio.h>
#include <stdlib.h>
#include <json.h>

typedef struct json_object json;

static json *text(const char *value)
{
	return value ? json_object_new_string(value) : NULL;
}

static json *answer(enum info_answer answer)
{
	return answer == INFO_UNKNOWN ? NULL : json_object_new_boolean(answer == INFO_YES);
}

static json *number(int64_t value, int64_t unknown)
{
	return value == unknown ? NULL : json_object_new_int64(value);
}

static void add(json *object, const char *key, json *value)
{
	json_object_object_add(object, key, value);
}

static json *texts(const char *const *values, size_t count)
{
	json *array = json_object_new_array();

	for (size_t i = 0; i < count; i++)
		json_object_array_add(array, text(values[i]));
	return array;
}

static json *json_library(const struct info_library *library)
{
	json *object = json_object_new_object(), *providers = json_object_new_object();

	add(object, "release", text(library->release));
	add(object, "library", text(library->path));
	add(object, "ofi_p2p", text(library->layered));
	add(object, "ofi_hook_p2p", text(library->hook));
	add(object, "FI_PROVIDER_PATH", text(library->search));
	add(object, "FI_PROVIDER", text(library->restricted));
	add(object, "FI_HOOK", text(library->hooked));
	for (size_t i = 0; i < library->provider_count; i++)
		add(providers, library->providers[i].name,
		    text(info_text("%u.%u", FI_MAJOR(library->providers[i].version),
				   FI_MINOR(library->providers[i].version))));
	add(object, "providers", providers);
	return object;
}

static json *json_system(const struct info_system *system)
{
	json *object = json_object_new_object(), *modules = json_object_new_object(), *module;

	add(object, "kernel", text(system->kernel));
	for (size_t i = 0; i < system->module_count; i++) {
		module = json_object_new_object();
		add(module, "loaded", json_object_new_boolean(system->modules[i].loaded));
		add(module, "version", text(system->modules[i].version));
		add(modules, system->modules[i].name, module);
	}
	add(object, "modules", modules);
	add(object, "nvidia_open", answer(system->nvidia_open));
	add(object, "iommu", text(info_iommu_word(system->iommu)));
	add(object, "iommu_words", text(system->iommu_words));
	return object;
}

static json *json_runtimes(const struct info *info)
{
	json *array = json_object_new_array(), *object;

	for (size_t i = 0; i < info->runtime_count; i++) {
		object = json_object_new_object();
		add(object, "name", text(info->runtimes[i].name));
		add(object, "library", text(info->runtimes[i].library));
		add(object, "ready", json_object_new_boolean(info->runtimes[i].ready));
		add(object, "status", text(info->runtimes[i].status));
		json_object_array_add(array, object);
	}
	return array;
}

static json *json_gpus(const struct info *info)
{
	json *array = json_object_new_array(), *object;

	for (size_t i = 0; i < info->gpu_count; i++) {
		const struct info_gpu *gpu = &info->gpus[i];

		object = json_object_new_object();
		add(object, "runtime", text(gpu->runtime));
		add(object, "number", json_object_new_int(gpu->number));
		add(object, "name", text(gpu->name));
		add(object, "pci", text(gpu->pci));
		add(object, "numa", number(gpu->numa, -1));
		add(object, "driver", text(gpu->driver));
		add(object, "memory", number((int64_t) gpu->memory, 0));
		add(object, "bar", number((int64_t) gpu->bar, 0));
		add(object, "dmabuf", answer(gpu->dmabuf));
		add(object, "gpudirect_rdma", answer(gpu->rdma));
		add(object, "memops", answer(gpu->memops));
		add(object, "writes_ordering", text(gpu->ordering));
		add(object, "error", text(gpu->error));
		add(object, "works", json_object_new_boolean(info_gpu_works(info, i)));
		json_object_array_add(array, object);
	}
	return array;
}

static json *json_unused(const struct info *info)
{
	json *array = json_object_new_array(), *object;

	for (size_t i = 0; i < info->unused_count; i++) {
		object = json_object_new_object();
		add(object, "pci", text(info->unused[i].pci));
		add(object, "vendor", text(info->unused[i].vendor));
		add(object, "driver", text(info->unused[i].driver));
		json_object_array_add(array, object);
	}
	return array;
}

static json *json_ports(const struct info_nic *nic)
{
	json *array = json_object_new_array(), *object;

	for (size_t i = 0; i < nic->port_count; i++) {
		object = json_object_new_object();
		add(object, "number", text(nic->ports[i].number));
		add(object, "state", text(nic->ports[i].state));
		add(object, "link", text(nic->ports[i].link));
		add(object, "rate", text(nic->ports[i].rate));
		json_object_array_add(array, object);
	}
	return array;
}

static json *json_ways(const struct info *info, const struct info_nic *nic)
{
	json *array = json_object_new_array(), *object;

	for (size_t i = 0; i < info->gpu_count; i++) {
		object = json_object_new_object();
		add(object, "gpu", json_object_new_int64((int64_t) i));
		add(object, "distance",
		    nic->ways[i].distance == INFO_FAR_UNKNOWN
			    ? NULL
			    : text(info_distance_word(nic->ways[i].distance)));
		add(object, "why", text(nic->ways[i].why));
		add(object, "acs_redirects", answer(nic->ways[i].acs));
		add(object, "acs_bridges", text(nic->ways[i].bridges));
		json_object_array_add(array, object);
	}
	return array;
}

static json *json_nics(const struct info *info)
{
	json *array = json_object_new_array(), *object;

	for (size_t i = 0; i < info->nic_count; i++) {
		const struct info_nic *nic = &info->nics[i];

		object = json_object_new_object();
		add(object, "name", text(nic->name));
		add(object, "type", text(nic->type));
		add(object, "driver", text(nic->driver));
		add(object, "firmware", text(nic->firmware));
		add(object, "pci", text(nic->pci));
		add(object, "numa", number(nic->numa, -1));
		add(object, "ports", json_ports(nic));
		add(object, "dmabuf", answer(nic->dmabuf));
		add(object, "dmabuf_how", text(nic->dmabuf_how));
		add(object, "to_gpus", json_ways(info, nic));
		json_object_array_add(array, object);
	}
	return array;
}

static json *json_paths(const struct info_offer *offer)
{
	json *array = json_object_new_array(), *object;

	for (size_t i = 0; i < offer->path_count; i++) {
		const struct info_path *path = &offer->paths[i];

		object = json_object_new_object();
		add(object, "gpu", json_object_new_int64((int64_t) path->gpu));
		add(object, "bytes", json_object_new_int64((int64_t) path->len));
		add(object, "path", path->ret ? NULL : text(info_path_word(path->path)));
		add(object, "reason", text(path->reason));
		add(object, "advice", texts(path->advice, path->advice_count));
		json_object_array_add(array, object);
	}
	return array;
}

static json *json_offers(const struct info *info)
{
	json *array = json_object_new_array(), *object;

	for (size_t i = 0; i < info->offer_count; i++) {
		const struct info_offer *offer = &info->offers[i];

		object = json_object_new_object();
		add(object, "provider", text(offer->provider));
		add(object, "domain", text(offer->domain));
		add(object, "nic", text(offer->nic ? offer->nic->name : NULL));
		add(object, "error", text(offer->error));
		add(object, "paths", json_paths(offer));
		json_object_array_add(array, object);
	}
	return array;
}

static json *json_costs(const struct info *info)
{
	json *array = json_object_new_array(), *object;

	for (size_t i = 0; i < info->cost_count; i++) {
		const struct info_cost *cost = &info->costs[i];

		object = json_object_new_object();
		add(object, "way", text(cost->way));
		add(object, "fixed_ns", number(cost->fixed, 0));
		add(object, "kib_ns", number(cost->kib, 0));
		add(object, "from",
		    cost->none ? NULL : json_object_new_int64((int64_t) cost->from));
		add(object, "to", cost->none ? NULL : number((int64_t) cost->to, 0));
		add(object, "by", text(cost->by));
		json_object_array_add(array, object);
	}
	return array;
}

bool info_print_json(const struct info *info)
{
	json *object = json_object_new_object();

	add(object, "libfabric", json_library(&info->library));
	add(object, "system", json_system(&info->system));
	add(object, "runtimes", json_runtimes(info));
	add(object, "gpus", json_gpus(info));
	add(object, "unused_gpus", json_unused(info));
	add(object, "nics", json_nics(info));
	add(object, "offers", json_offers(info));
	add(object, "costs", json_costs(info));
	add(object, "advice", texts(info->advice, info->advice_count));
	add(object, "works", json_object_new_boolean(info_works(info)));
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
	return true;
}

#else

bool info_print_json(const struct info *info)
{
	return false;
}

#endif
