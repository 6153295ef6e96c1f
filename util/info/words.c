/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Words for what both printers print. See info.h. */
#include "info.h"

const char *info_path_word(enum fi_p2p_path path)
{
	static const char *const words[FI_P2P_PATH_MAX] = {
		[FI_P2P_PATH_HOST] = "host",
		[FI_P2P_PATH_STAGE] = "staged",
		[FI_P2P_PATH_IPC] = "ipc",
		[FI_P2P_PATH_PEER] = "peer",
	};

	/* a newer provider may have more */
	return path < FI_P2P_PATH_MAX ? words[path] : "unknown";
}

const char *info_iommu_word(enum info_iommu iommu)
{
	static const char *const words[] = {
		[INFO_IOMMU_UNKNOWN] = "unknown",
		[INFO_IOMMU_OFF] = "off",
		[INFO_IOMMU_PASSTHROUGH] = "passthrough",
		[INFO_IOMMU_TRANSLATES] = "on",
	};

	return words[iommu];
}

const char *info_distance_word(enum info_distance distance)
{
	static const char *const words[] = {
		[INFO_FAR_UNKNOWN] = "unknown",         [INFO_SAME_SWITCH] = "same switch",
		[INFO_SAME_ROOT] = "same root complex", [INFO_SAME_NUMA] = "same NUMA node",
		[INFO_ACROSS] = "across NUMA nodes",
	};

	return words[distance];
}
