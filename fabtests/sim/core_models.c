/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Core providers, as tables of properties. See sim.h. Each says where its values come from. */
#include "sim.h"

#include <strings.h>

/*
 * conform/run puts the same questions to each model and to the core of its name.
 * All: a first post says -FI_EAGAIN until the peer's progress has accepted a connection, or has mapped the sender.
 * rxm: a message of up to 16 KiB (128 KiB in 2.1) is copied, and buffered at both ends; a longer one is read by the
 * receiver, and never ends if that does.
 * net, tcp: what has no receive stops the connection, but for 4 (64 since 1.19) tagged messages: of 128 bytes in 1.17, of
 * any length in 2.1. The kernel's buffers take what is sent at once: so much is not asked exactly.
 * shm: a queue of commands in shared memory; nobody is told that a process has ended. Who reads or writes remote memory
 * does it itself.
 * A queue's length, and that of receives, are less than the cores', so that they fill up.
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
	 .lane = "net",
	 .atomic_len = 16288,
	 .keeps = true,
	 .loses = true},
	{.name = "rxm2",
	 .provider = "tcp;ofi_rxm",
	 .version = FI_VERSION(2, 1),
	 .connects = true,
	 .refuses = true,
	 .eager = 131072,
	 .window = 1 << 18,
	 .queue = 256,
	 .directs = true,
	 .peeks = true,
	 .multi = true,
	 .atomics = true,
	 .waits = true,
	 .litters = true,
	 .automatic = true,
	 .lane = "tcp2",
	 .atomic_len = 16288,
	 .keeps = true,
	 .counts = true,
	 .gives = true},
	{.name = "net",
	 .provider = "net",
	 .version = FI_VERSION(1, 17),
	 .connects = true,
	 .refuses = true,
	 .stalls = true,
	 .mixes = true,
	 .saved = 4,
	 .saved_len = 128,
	 .eager = 1 << 20,
	 .window = 1 << 18,
	 .queue = 256,
	 .directs = true,
	 .peeks = true,
	 .claims = true,
	 .waits = true,
	 .sticks = true,
	 .uncounting = true,
	 .automatic = true,
	 .delivers = DELIVERS_THERE},
	{.name = "tcp2",
	 .provider = "tcp",
	 .version = FI_VERSION(2, 1),
	 .connects = true,
	 .refuses = true,
	 .stalls = true,
	 .mixes = true,
	 .saved = 64,
	 .saved_len = SIZE_MAX,
	 .eager = 1 << 20,
	 .window = 1 << 18,
	 .queue = 256,
	 .directs = true,
	 .peeks = true,
	 .claims = true,
	 .waits = true,
	 .automatic = true,
	 .delivers = DELIVERS_THERE},
	{.name = "shm",
	 .provider = "shm",
	 .version = FI_VERSION(1, 17),
	 .connects = true,
	 .refuses = true,
	 .negative = true,
	 .eager = 4096,
	 .window = 1 << 20,
	 .queue = 128,
	 .silent = true,
	 .strings = true,
	 .fragile = true,
	 .directs = true,
	 .multi = true,
	 .atomics = true,
	 .serial = true,
	 .atomic_len = 4096,
	 .delivers = DELIVERS_RECEIVED,
	 .nomem = true,
	 .reaches = true,
	 .gives = true},
	{.name = "shm2",
	 .provider = "shm",
	 .version = FI_VERSION(2, 1),
	 .connects = true,
	 .refuses = true,
	 .eager = 4096,
	 .window = 1 << 20,
	 .queue = 128,
	 .silent = true,
	 .strings = true,
	 .fragile = true,
	 .directs = true,
	 .peeks = true,
	 .multi = true,
	 .atomics = true,
	 .atomic_len = 4096,
	 .delivers = DELIVERS_THERE,
	 .reaches = true,
	 .gives = true},
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
