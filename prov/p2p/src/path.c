/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 3: the policy. See path.h. */
#include "path.h"

struct path_choice path_choose(const struct path_query *query)
{
	if (!query->device)
		return (struct path_choice){FI_P2P_PATH_HOST, PATH_CORE, "host memory"};

	if (query->len <= query->short_max && (query->slot || query->len <= query->plain_max))
		return (struct path_choice){FI_P2P_PATH_STAGE, PATH_SHORT,
					    "short message: one copy is cheaper than a "
					    "round trip"};
	if (!query->layered)
		return (struct path_choice){FI_P2P_PATH_STAGE, PATH_WHOLE,
					    "over a hook the peer knows no protocol of "
					    "ours: copied whole"};
	if (query->inject)
		return (struct path_choice){FI_P2P_PATH_STAGE, PATH_WHOLE,
					    "injected: the buffer is the application's "
					    "again at once: copied whole"};
	if (query->stalls)
		return (struct path_choice){FI_P2P_PATH_STAGE, PATH_WHOLE,
					    "this core provider stops at a message that has "
					    "no receive yet: copied whole"};
	if (query->name_len > query->name_max)
		return (struct path_choice){FI_P2P_PATH_STAGE, PATH_WHOLE,
					    "the core provider's addresses are too long "
					    "to announce: copied whole"};
	return (struct path_choice){FI_P2P_PATH_STAGE, PATH_LONG,
				    "the core provider cannot reach device memory: "
				    "copied in pieces"};
}
