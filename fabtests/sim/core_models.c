/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Core providers, as tables of properties. See sim.h. Each says where its values come from. */
#include "sim.h"

#include <strings.h>

/*
 * rxm: a message of up to 16 KiB is copied, and buffered at both ends; a longer one is read by the receiver. A first post
 * says -FI_EAGAIN until the peer's progress has accepted the connection.
 * net, tcp: what has no receive stops the connection, but for 4 (64 since 1.19) short tagged messages.
 * shm: a queue of commands in shared memory; nobody is told that a process has ended.
 */
const struct model models[] = {
	{.name = "rxm",
	 .provider = "tcp;ofi_rxm",
	 .version = FI_VERSION(1, 17),
	 .unmarked = true,
	 .connects = true,
	 .refuses = true,
	 .eager = 16384,
	 .window = 1 << 18,
	 .queue = 256,
	 .directs = true,
	 .peeks = true,
	 .multi = true,
	 .atomics = true,
	 .waits = true,
	 .litters = true,
	 .automatic = true,
	 .lane = "net"},
	{.name = "rxm2",
	 .provider = "tcp;ofi_rxm",
	 .version = FI_VERSION(2, 1),
	 .connects = true,
	 .refuses = true,
	 .eager = 16384,
	 .window = 1 << 18,
	 .queue = 256,
	 .directs = true,
	 .peeks = true,
	 .multi = true,
	 .atomics = true,
	 .waits = true,
	 .litters = true,
	 .automatic = true,
	 .lane = "tcp2"},
	{.name = "net",
	 .provider = "net",
	 .version = FI_VERSION(1, 17),
	 .connects = true,
	 .stalls = true,
	 .mixes = true,
	 .saved = 4,
	 .saved_len = 128,
	 .eager = 65536,
	 .window = 1 << 18,
	 .queue = 256,
	 .directs = true,
	 .peeks = true,
	 .waits = true,
	 .sticks = true,
	 .uncounting = true,
	 .automatic = true},
	{.name = "tcp2",
	 .provider = "tcp",
	 .version = FI_VERSION(2, 1),
	 .connects = true,
	 .stalls = true,
	 .mixes = true,
	 .saved = 64,
	 .saved_len = 128,
	 .eager = 65536,
	 .window = 1 << 18,
	 .queue = 256,
	 .directs = true,
	 .peeks = true,
	 .waits = true,
	 .automatic = true},
	{.name = "shm",
	 .provider = "shm",
	 .version = FI_VERSION(1, 17),
	 .eager = 4096,
	 .window = 1 << 20,
	 .queue = 128,
	 .silent = true,
	 .strings = true,
	 .fragile = true,
	 .directs = true,
	 .multi = true,
	 .atomics = true,
	 .serial = true},
	{.name = "shm2",
	 .provider = "shm",
	 .version = FI_VERSION(2, 1),
	 .eager = 4096,
	 .window = 1 << 20,
	 .queue = 128,
	 .silent = true,
	 .strings = true,
	 .fragile = true,
	 .directs = true,
	 .peeks = true,
	 .multi = true,
	 .atomics = true},
};
const size_t model_count = SIM_COUNT(models);

const struct model *model_find(const char *name)
{
	for (size_t i = 0; i < model_count; i++) {
		if (!strcasecmp(models[i].name, name))
			return &models[i];
	}
	return NULL;
}
