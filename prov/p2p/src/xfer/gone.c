/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints of this process that are closed. See gone.h. */
#include "xfer/gone.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/process.h"

/* So many are remembered, the latest ones */
#define GONE_MAX 256

static uint64_t gone_names[GONE_MAX];
static unsigned int gone_next;
static bool gone_any;

/* A number for a name; never 0 */
static uint64_t gone_hash(const uint8_t *name, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325;

	/* FNV-1a; what follows the end of a string is no part of it */
	for (size_t i = 0; i < len && name[i]; i++)
		hash = (hash ^ name[i]) * 0x100000001b3;
	return hash ? hash : 1;
}

/* The place of a name; NULL: it has none. Called with the lock held */
static uint64_t *gone_find(uint64_t hash)
{
	for (size_t i = 0; i < GONE_MAX; i++) {
		if (gone_names[i] == hash)
			return &gone_names[i];
	}
	return NULL;
}

/* The endpoint's own; 0: it has none, or none yet. With a hook nobody but the core has kept it */
static uint64_t gone_own(const struct xfer_channel *channel)
{
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;
	int ret;

	/* a receive context that is shared has no such calls */
	if (!(channel->ep->quirks & QUIRK_FRAGILE) || !channel->core->cm)
		return 0;
	ret = fi_getname(&channel->core->fid, name, &len);
	return ret && ret != -FI_ETOOSMALL ? 0 : gone_hash(name, P2P_MIN(len, sizeof name));
}

void gone_opened(const struct xfer_channel *channel)
{
	const uint64_t own = gone_own(channel);
	uint64_t *place;

	if (!own)
		return;
	process_lock(PROCESS_TABLES);
	place = gone_find(own);
	if (place)
		*place = 0;
	process_unlock(PROCESS_TABLES);
}

void gone_closed(const struct xfer_channel *channel)
{
	const uint64_t own = gone_own(channel);

	if (!own)
		return;
	process_lock(PROCESS_TABLES);
	gone_names[gone_next++ % GONE_MAX] = own;
	__atomic_store_n(&gone_any, true, __ATOMIC_RELEASE);
	process_unlock(PROCESS_TABLES);
}

/* Tells whether any endpoint of this process may be closed that the core would not survive. */
static bool gone_may_be(const struct xfer_ep *ep)
{
	return ep->quirks & QUIRK_FRAGILE && __atomic_load_n(&gone_any, __ATOMIC_ACQUIRE);
}

bool gone_is_late(struct xfer_ep *ep, fi_addr_t addr)
{
	bool gone;

	if (p2p_likely(!gone_may_be(ep)) || addr == FI_ADDR_UNSPEC || addr == FI_ADDR_NOTAVAIL)
		return false;
	p2p_lock_take(&ep->xfer->lock);
	gone = gone_is(&ep->front, addr);
	p2p_lock_drop(&ep->xfer->lock);
	return gone;
}

bool gone_is(struct xfer_channel *channel, fi_addr_t addr)
{
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;
	bool gone;

	xfer_assert_locked(channel->ep->xfer);
	if (!gone_may_be(channel->ep) || channel->ops->lookup(channel, addr, name, &len))
		return false;
	process_lock(PROCESS_TABLES);
	gone = gone_find(gone_hash(name, P2P_MIN(len, sizeof name)));
	process_unlock(PROCESS_TABLES);
	return gone;
}
