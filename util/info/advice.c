/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What to change: for each reason that the provider gives, and for what is wrong with the
 * machine. contrib/check-tree compares the reasons with the provider's sources. See info.h.
 */
#include "info.h"

#include <string.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

/* ---- of one path ---- */

/* What a condition of the table looks at */
struct advice_case {
	const struct info *info;
	const struct info_offer *offer;
	const struct info_gpu *gpu;
};

bool info_is_local(const char *provider)
{
	return !strncmp(provider, "shm;", 4) || !strncmp(provider, "sm2;", 4);
}

static bool advice_is_local(const struct advice_case *it)
{
	return info_is_local(it->offer->provider);
}

static bool advice_has_nic(const struct advice_case *it)
{
	return !advice_is_local(it) && it->info->nic_count;
}

static bool advice_has_no_nic(const struct advice_case *it)
{
	return !advice_is_local(it) && !it->info->nic_count;
}

static bool advice_is_cuda(const struct advice_case *it)
{
	return !strcmp(it->gpu->runtime, "CUDA");
}

static bool advice_is_rocm(const struct advice_case *it)
{
	return !strcmp(it->gpu->runtime, "ROCm");
}

/* Only a peer gives the reason: no path that is looked at without one has it */
static bool advice_is_peers(const struct advice_case *it)
{
	return false;
}

/**
 * struct advice_entry - what to do about a reason.
 * @reason:	a part of the reason
 * @when:	the condition for the advice; NULL: none
 */
struct advice_entry {
	const char *reason;
	bool (*when)(const struct advice_case *it);
	const char *text;
};

static const struct advice_entry advice_table[] = {
	{"the core provider registers no device memory", advice_has_nic,
	 "use the RDMA device: FI_PROVIDER=\"verbs;ofi_rxm;ofi_p2p\""},
	{"the core provider registers no device memory", advice_has_no_nic,
	 "nothing: there is no RDMA device here, and this network cannot reach device memory"},
	{"the core provider registers no device memory", advice_is_local,
	 "nothing: within a host, this provider copies by the CPU"},
	{"cannot register one (1.20 can)", NULL,
	 "install libfabric 1.20 or later, for dma-bufs"},
	{"the kernel module %s is not loaded", advice_is_cuda,
	 "load NVIDIA's peer memory module: modprobe nvidia_peermem (after ib_core)"},
	{"the kernel module %s is not loaded", advice_is_rocm,
	 "use amdgpu with peer memory (ib_peer_mem), which vendors' RDMA stacks bring along"},
	{"the driver is older than dma-bufs", NULL,
	 "install an NVIDIA driver of CUDA 11.7 or later"},
	{"the device exports no dma-buf", NULL,
	 "install NVIDIA's open kernel modules, on Linux 5.12 or later"},
	{"the runtime is older than dma-bufs", NULL, "install ROCm 5.5 or later"},
	{"the NIC's driver refuses to register one", NULL,
	 "use a NIC whose driver takes dma-bufs (see the verbs devices above), and a current "
	 "kernel and rdma-core"},
	{"the NIC's driver refuses device addresses", NULL,
	 "load the peer memory module after ib_core, in the version that belongs to the driver"},
	{"the NIC has no room for more device memory", NULL,
	 "enable a large BAR (\"resizable BAR\") in the firmware"},
	{"as much device memory as FI_P2P_MAP_SIZE and FI_P2P_MAP_COUNT allow is in use", NULL,
	 "raise FI_P2P_MAP_SIZE and FI_P2P_MAP_COUNT"},
	{"switched off by FI_P2P_PIN", NULL, "unset FI_P2P_PIN"},
	{"FI_P2P_PATH or FI_OPT_FI_HMEM_P2P wants it staged", NULL, "unset FI_P2P_PATH"},
	{"FI_P2P_PATH=stage", NULL, "unset FI_P2P_PATH"},
	{"over a hook, and the core provider's CPU may touch a message's buffer", NULL,
	 "use the layered provider, \";ofi_p2p\", instead of the hook"},
	{"this core provider stops at a message that has no receive yet", NULL,
	 "use \"tcp;ofi_rxm;ofi_p2p\", or tcp of libfabric 1.18 or later"},
	{"the core provider's addresses are too long to announce", NULL,
	 "use another core provider"},
	{"the receiver is another user's, or has another user id", advice_is_peers,
	 "run both ends as one user, with one id in the user namespaces of both containers"},
	{"the receiver is in another network namespace, and", advice_is_peers,
	 "let both containers share the network namespace, or both the PID and the user "
	 "namespace"},
	{"the receiver is in another network namespace, where", advice_is_peers,
	 "let both containers share the network namespace, or allocate by cudaMalloc"},
	{"the receiver is in another PID namespace", advice_is_peers,
	 "let both containers share the PID namespace, or start one end again: their process "
	 "ids have to differ"},
};

/* Is @found a part of @reason? A "%s" in @found stands for anything. */
static bool advice_matches(const char *reason, const char *found)
{
	const char *gap = strstr(found, "%s"), *head;

	if (!gap)
		return strstr(reason, found);
	head = info_text("%.*s", (int) (gap - found), found);
	reason = strstr(reason, head);
	return reason && strstr(reason + strlen(head), gap + 2);
}

static void advice_add_to_path(struct info_path *path, const char *text)
{
	*(const char **) info_append(&path->advice, &path->advice_count, sizeof text) = text;
}

static void advice_for_path(const struct info *info, const struct info_offer *offer,
			    struct info_path *path)
{
	const struct advice_case it = {info, offer, &info->gpus[path->gpu]};

	if (!path->ret && path->path != FI_P2P_PATH_STAGE)
		return;
	if (path->ret == -FI_EFAULT)
		advice_add_to_path(path, "unset FI_P2P_CUDA and FI_P2P_ROCM, or build the "
					 "provider with this runtime's backend");
	if (path->ret == -FI_EOPNOTSUPP)
		advice_add_to_path(path,
				   "FI_P2P_PATH=peer or =ipc forbids to stage it: unset it");
	for (size_t i = 0; i < INFO_COUNT(advice_table); i++) {
		const struct advice_entry *entry = &advice_table[i];

		if (advice_matches(path->reason, entry->reason) &&
		    (!entry->when || entry->when(&it)))
			advice_add_to_path(path, entry->text);
	}
}

/* ---- of the machine ---- */

void info_add_advice(struct info *info, const char *text)
{
	*(const char **) info_append(&info->advice, &info->advice_count, sizeof text) = text;
}

void info_advise_peers(struct info *info, const char *reason)
{
	for (size_t i = 0; i < INFO_COUNT(advice_table); i++) {
		const struct advice_entry *entry = &advice_table[i];

		if (entry->when == advice_is_peers && advice_matches(reason, entry->reason))
			info_add_advice(info, entry->text);
	}
}

static void advice_library(struct info *info)
{
	if (info->library.layered)
		return;
	if (!access(PROVIDER_DIR "/libp2p-fi.so", R_OK))
		info_add_advice(info, "libfabric has not loaded libp2p-fi.so: set "
				      "FI_PROVIDER_PATH=" PROVIDER_DIR);
	else
		info_add_advice(
			info, "libfabric has not loaded libp2p-fi.so: set FI_PROVIDER_PATH to "
			      "the directory where it is installed (make install puts it "
			      "into " PROVIDER_DIR ")");
	info_add_advice(info,
			"if it is there already: FI_LOG_LEVEL=info FI_LOG_PROV=core fi_info -l "
			"tells why it is not loaded");
}

static void advice_gpus(struct info *info)
{
	for (size_t i = 0; i < info->unused_count; i++) {
		const struct info_unused *gpu = &info->unused[i];
		bool driven = gpu->driver && (!strcmp(gpu->driver, "nvidia") ||
					      !strcmp(gpu->driver, "amdgpu"));

		info_add_advice(info,
				info_text("%s GPU %s: %s", gpu->vendor, gpu->pci,
					  driven ? "it has a driver, but the runtimes (above) "
						   "do not offer it"
						 : "install its driver"));
	}
}

static bool advice_offers_nic(const struct info *info)
{
	for (size_t i = 0; i < info->offer_count; i++) {
		if (info->offers[i].nic)
			return true;
	}
	return false;
}

static void advice_nics(struct info *info)
{
	bool redirected = false;

	if (!info->gpu_count || !info->nic_count)
		return;
	if (!advice_offers_nic(info))
		info_add_advice(info,
				"no provider of ours is offered over the RDMA devices: "
				"libfabric's verbs provider, rdma-core, and an active port "
				"are needed");
	for (size_t i = 0; i < info->nic_count; i++) {
		for (size_t j = 0; j < info->gpu_count; j++)
			redirected |= info->nics[i].ways[j].acs == INFO_YES;
	}
	if (redirected)
		info_add_advice(info,
				"bridges send what GPU and NIC have for each other through the "
				"root complex: disable ACS redirection (firmware, or setpci)");
	if (info->system.iommu == INFO_IOMMU_TRANSLATES)
		info_add_advice(
			info, "the IOMMU translates what GPU and NIC have for each other: boot "
			      "with iommu=pt");
}

void info_advise(struct info *info)
{
	for (size_t i = 0; i < info->offer_count; i++) {
		struct info_offer *offer = &info->offers[i];

		for (size_t j = 0; j < offer->path_count; j++)
			advice_for_path(info, offer, &offer->paths[j]);
	}
	advice_library(info);
	advice_gpus(info);
	advice_nics(info);
}
