/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints of this process that are closed. See gone.h. */
#include "xfer/gone.h"

#include <pthread.h>

/* So many are remembered, the latest ones */
#define GONE_MAX 256

static pthread_mutex_t gone_lock = PTHREAD_MUTEX_INITIALIZER;
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

void gone_opened(const struct xfer_ep *ep)
{
	uint64_t *place;

	pthread_mutex_lock(&gone_lock);
	place = gone_find(gone_hash(ep->name, ep->name_len));
	if (place)
		*place = 0;
	pthread_mutex_unlock(&gone_lock);
}

void gone_closed(const struct xfer_ep *ep)
{
	if (!ep->fragile || !ep->name_len)
		return;
	pthread_mutex_lock(&gone_lock);
	gone_names[gone_next++ % GONE_MAX] = gone_hash(ep->name, ep->name_len);
	__atomic_store_n(&gone_any, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&gone_lock);
}

bool gone_is(struct xfer_ep *ep, fi_addr_t addr)
{
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;
	bool gone;

	xfer_assert_locked(ep->xfer);
	if (!ep->fragile || !__atomic_load_n(&gone_any, __ATOMIC_ACQUIRE) ||
	    ep->lookup(ep, addr, name, &len))
		return false;
	pthread_mutex_lock(&gone_lock);
	gone = gone_find(gone_hash(name, P2P_MIN(len, sizeof name)));
	pthread_mutex_unlock(&gone_lock);
	return gone;
}
