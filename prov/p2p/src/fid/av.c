/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Address vectors. See av.h. */
#include "fid/av.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fid/collective.h"
#include "fid/ep.h"
#include "fid/fid.h"
#include "fid/native.h"
#include "fid/table.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "xfer/wire.h"
#include "xfer/ep_state.h"
#include "xfer/peer.h"

/* A peer's name and the core's address for it */
struct av_name {
	fi_addr_t addr;
	size_t len;
	uint8_t name[WIRE_NAME_MAX];
	UT_hash_handle hh;
	UT_hash_handle by_addr;
};

/*
 * The core's address of each of the application's, and how often it was inserted. Entries are
 * read without the lock; a longer table replaces one that is full.
 */
struct av_table {
	struct av_table *old;
	size_t room;
	size_t count;
	struct av_entry {
		fi_addr_t addr;
		size_t uses;
	} entry[];
};

/* The first table's room: growing doubles it */
#define AV_ROOM 64

/* ---- the application's addresses and the core's ---- */

static fi_addr_t av_entry_addr(const struct av_table *table, size_t index)
{
	return __atomic_load_n(&table->entry[index].addr, __ATOMIC_RELAXED);
}

fi_addr_t av_core_addr_slow(const struct p2p_av *av, fi_addr_t addr)
{
	const struct av_table *table = __atomic_load_n(&av->table, __ATOMIC_ACQUIRE);

	if (addr == FI_ADDR_UNSPEC)
		return addr;
	return addr < __atomic_load_n(&table->count, __ATOMIC_ACQUIRE)
		       ? av_entry_addr(table, addr)
		       : FI_ADDR_NOTAVAIL;
}

int av_to_core(const struct p2p_av *av, fi_addr_t *addr)
{
	/* connected: whatever the application says, it is one peer */
	if (!av) {
		*addr = FI_ADDR_UNSPEC;
		return 0;
	}
	if (av_unknown(av, *addr)) {
		P2P_WARN("address 0x%zx is not in the address vector\n", (size_t) *addr);
		return -FI_EINVAL;
	}
	*addr = av_core_addr(av, *addr);
	return 0;
}

fi_addr_t av_user_addr_slow(const struct p2p_av *av, fi_addr_t addr)
{
	const struct av_table *table = __atomic_load_n(&av->table, __ATOMIC_ACQUIRE);
	size_t count = __atomic_load_n(&table->count, __ATOMIC_ACQUIRE);
	size_t near = P2P_MIN(addr + 1, count);

	/* holes in the table have this value, too */
	if (addr == FI_ADDR_NOTAVAIL)
		return addr;
	/* learned peers shift the core's indices: most of ours are equal, or a little lower */
	for (size_t i = near; i-- > 0;) {
		if (av_entry_addr(table, i) == addr)
			return i;
	}
	for (size_t i = near; i < count; i++) {
		if (av_entry_addr(table, i) == addr)
			return i;
	}
	return FI_ADDR_NOTAVAIL;
}

/* Makes room for entries up to @end. */
static int av_known_reserve(struct p2p_av *av, size_t end)
{
	struct av_table *known = av->known, *table;
	size_t room = known ? known->room : AV_ROOM;

	if (known && end <= known->room)
		return 0;
	while (room < end)
		room *= 2;
	table = malloc(sizeof *table + room * sizeof *table->entry);
	if (!table)
		return -FI_ENOMEM;
	*table = (struct av_table){.old = known, .room = room};
	if (known) {
		table->count = known->count;
		memcpy(table->entry, known->entry, known->count * sizeof *known->entry);
	}
	av->known = table;
	if (av->table)
		__atomic_store_n(&av->table, table, __ATOMIC_RELEASE);
	return 0;
}

/* The lowest index that nothing was inserted at, or that was removed again */
static size_t av_known_free(struct p2p_av *av)
{
	const struct av_table *known = av->known;

	while (known && av->lowest < known->count && known->entry[av->lowest].uses)
		av->lowest++;
	return av->lowest;
}

/* The application has inserted @addr, and knows it by the index @at. */
static void av_known_add(struct p2p_av *av, size_t at, fi_addr_t addr)
{
	struct av_table *known = av->known;

	for (size_t i = known->count; i <= at; i++)
		known->entry[i] = (struct av_entry){.addr = FI_ADDR_NOTAVAIL};
	known->entry[at].uses++;
	__atomic_store_n(&known->entry[at].addr, addr, __ATOMIC_RELAXED);
	if (at >= known->count)
		__atomic_store_n(&known->count, at + 1, __ATOMIC_RELEASE);
}

/* The application has removed a peer: @user is its own address for it, @addr the core's. */
static void av_known_remove(struct p2p_av *av, fi_addr_t user, fi_addr_t addr)
{
	struct av_table *known = av->known;
	size_t at = user;

	/* without indices, entries of one address are alike */
	if (!av->indexed)
		for (at = 0; at < known->count && known->entry[at].addr != addr;)
			at++;
	if (at >= known->count || !known->entry[at].uses || --known->entry[at].uses)
		return;
	av->lowest = P2P_MIN(av->lowest, at);
	__atomic_store_n(&known->entry[at].addr, FI_ADDR_NOTAVAIL, __ATOMIC_RELAXED);
}

/* ---- names ---- */

/*
 * Gives every spelling of an address one form, so that names can be compared. What endpoints say of
 * themselves and what vectors give back differ in unused bytes.
 */
static size_t av_name_canon(const void *addr, size_t len, uint8_t *name)
{
	const struct sockaddr *sa = addr;

	memcpy(name, addr, len);
	if (len == sizeof(struct sockaddr_in) && sa->sa_family == AF_INET)
		memset(name + offsetof(struct sockaddr_in, sin_zero), 0, 8);
	else if (len == sizeof(struct sockaddr_in6) && sa->sa_family == AF_INET6)
		memset(name + offsetof(struct sockaddr_in6, sin6_flowinfo), 0, 4);
	else if (strnlen(addr, len) > 3 && strstr((const char *) name, "://"))
		len = strnlen(addr, len);
	return len;
}

int av_lookup_name(const struct p2p_av *av, fi_addr_t addr, void *name, size_t *len)
{
	uint8_t raw[WIRE_NAME_MAX + 1] = {0};
	int ret;

	*len = WIRE_NAME_MAX;
	ret = fi_av_lookup(av->core, addr, raw, len);
	if (!ret && *len > WIRE_NAME_MAX)
		ret = -FI_ETOOSMALL;
	if (!ret)
		*len = av_name_canon(raw, *len, name);
	return ret;
}

static void av_name_drop(struct p2p_av *av, struct av_name *entry)
{
	HASH_DELETE(hh, av->names, entry);
	HASH_DELETE(by_addr, av->named_addrs, entry);
	if (av->found == entry)
		av->found = NULL;
	free(entry);
}

/* 0 or -FI_ENOMEM */
static int av_name_add(struct p2p_av *av, const uint8_t *name, size_t len, fi_addr_t addr)
{
	struct av_name *entry = calloc(1, sizeof *entry);

	if (!entry)
		return -FI_ENOMEM;
	entry->addr = addr;
	entry->len = len;
	memcpy(entry->name, name, len);
	HASH_ADD(hh, av->names, name, entry->len, entry);
	if (!entry->hh.tbl) {
		free(entry);
		return -FI_ENOMEM;
	}
	HASH_ADD(by_addr, av->named_addrs, addr, sizeof entry->addr, entry);
	if (entry->by_addr.tbl)
		return 0;
	HASH_DELETE(hh, av->names, entry);
	free(entry);
	return -FI_ENOMEM;
}

static struct av_name *av_name_find(const struct p2p_av *av, const uint8_t *name, size_t len)
{
	struct av_name *entry;

	HASH_FIND(hh, av->names, name, len, entry);
	return entry;
}

/* 0 or -FI_ENOMEM */
static int av_name_make(struct p2p_av *av, fi_addr_t addr)
{
	uint8_t raw[WIRE_NAME_MAX + 1] = {0}, name[WIRE_NAME_MAX];
	size_t len = WIRE_NAME_MAX;

	if (addr == FI_ADDR_NOTAVAIL || fi_av_lookup(av->core, addr, raw, &len) ||
	    len > WIRE_NAME_MAX)
		return 0;
	len = av_name_canon(raw, len, name);
	/* a peer that was learned, or inserted twice, has its name already */
	return av_name_find(av, name, len) ? 0 : av_name_add(av, name, len, addr);
}

/* Without memory for all of them, a peer might get another address. So they are made later. 0 or -FI_ENOMEM */
static int av_names_make(struct p2p_av *av)
{
	int ret = 0;

	for (size_t i = 0; !ret && av->known && i < av->known->count; i++)
		ret = av_name_make(av, av->known->entry[i].addr);
	av->named = !ret;
	return ret;
}

/* Inserts a peer that the application does not know [xfer.lock is held]. */
static int av_learn(struct p2p_av *av, const void *addr, const uint8_t *name, size_t len,
		    fi_addr_t *core_addr)
{
	struct xfer_ep *ep;
	int ret;

	/* from here on the core's indices differ from the application's */
	if (av->indexed && !av->table) {
		ret = av_known_reserve(av, 0);
		if (ret)
			return ret;
		LIST_FOREACH(ep, &av->domain->xfer.eps, entry) {
			ep->renamed = true;
			xfer_ep_limit(ep);
		}
		__atomic_store_n(&av->table, av->known, __ATOMIC_RELEASE);
		av->domain->learned = true;
	}
	ret = fi_av_insert(av->core, addr, 1, core_addr, 0, NULL);
	if (ret != 1) {
		P2P_WARN("a peer that sends from device memory cannot be inserted: %s\n",
			 fi_strerror(ret < 0 ? -ret : FI_EINVAL));
		/* memory may come back; what shm's table has no room for is not waited for */
		return ret == -FI_ENOMEM ? -FI_ENOSPC : ret < 0 ? ret : -FI_EINVAL;
	}
	ret = av_name_add(av, name, len, *core_addr);
	if (ret)
		fi_av_remove(av->core, core_addr, 1, 0);
	else
		P2P_INFO("learned a peer that the application has not inserted\n");
	return ret;
}

/* Does @addr spell the name of @entry? A longer spelling does if its next byte ends a string. */
static bool av_name_is(const struct av_name *entry, const void *addr, size_t len)
{
	return entry && entry->len <= len && !memcmp(entry->name, addr, entry->len) &&
	       (entry->len == len || !((const char *) addr)[entry->len]);
}

/* The same for a peer that is not the one that was looked up last */
static int av_resolve_other(struct p2p_av *av, const void *addr, size_t len, bool learn,
			    fi_addr_t *core_addr)
{
	uint8_t raw[WIRE_NAME_MAX + 1] = {0}, name[WIRE_NAME_MAX + 1] = {0};
	int ret = av->named ? 0 : av_names_make(av);

	if (ret)
		return ret;
	memcpy(raw, addr, len);
	len = av_name_canon(raw, len, name);
	av->found = av_name_find(av, name, len);
	if (!av->found)
		return learn ? av_learn(av, raw, name, len, core_addr) : -FI_ENOENT;
	*core_addr = av->found->addr;
	return 0;
}

int av_resolve(struct p2p_av *av, const void *addr, size_t len, bool learn,
	       fi_addr_t *core_addr)
{
	int ret = 0;

	pthread_mutex_lock(&av->lock);
	if (av_name_is(av->found, addr, len))
		*core_addr = av->found->addr;
	else
		ret = av_resolve_other(av, addr, len, learn, core_addr);
	pthread_mutex_unlock(&av->lock);
	return ret;
}

/* ---- the calls ---- */

/*
 * Records what the core has inserted for the application: the addresses @got. @fi_addr, if it is
 * not NULL, becomes the application's addresses.
 */
static int av_record(struct p2p_av *av, const fi_addr_t *got, size_t count, fi_addr_t *fi_addr)
{
	size_t at;
	int ret;

	for (size_t i = 0; i < count; i++) {
		if (fi_addr)
			fi_addr[i] = got[i];
		if (got[i] == FI_ADDR_NOTAVAIL)
			continue;
		/* the core's own index, as long as it is the application's, too */
		at = av->indexed && !av->table ? got[i] : av_known_free(av);
		ret = av->named ? av_name_make(av, got[i]) : 0;
		if (ret)
			return ret;
		/* without indices, names serve as well once there are any */
		if (!av->indexed && av->named)
			continue;
		ret = av_known_reserve(av, at + 1);
		if (ret)
			return ret;
		av_known_add(av, at, got[i]);
		if (fi_addr && av->table)
			fi_addr[i] = at;
	}
	return 0;
}

/* What to insert, in one of three ways: the arguments of the core's call */
struct av_insertion {
	const void *addr;
	const char *node, *service;
	size_t nodes, services;
	size_t count;
};

static int av_insert_core(struct p2p_av *av, const struct av_insertion *what, fi_addr_t *got,
			  uint64_t flags, void *context)
{
	if (what->addr)
		return fi_av_insert(av->core, what->addr, what->count, got, flags, context);
	if (what->nodes)
		return fi_av_insertsym(av->core, what->node, what->nodes, what->service,
				       what->services, got, flags, context);
	return fi_av_insertsvc(av->core, what->node, what->service, got, flags, context);
}

static int av_insert_any(struct p2p_av *av, const struct av_insertion *what, fi_addr_t *fi_addr,
			 uint64_t flags, void *context)
{
	bool user_id = flags & FI_AV_USER_ID;
	fi_addr_t *got;
	int ret, inserted;

	got = malloc(P2P_MAX(what->count, 1) * sizeof *got);
	if (!got)
		return -FI_ENOMEM;
	for (size_t i = 0; i < what->count; i++)
		got[i] = user_id && fi_addr ? fi_addr[i] : FI_ADDR_NOTAVAIL;

	pthread_mutex_lock(&av->lock);
	inserted = av_insert_core(av, what, got, flags, context);
	ret = inserted < 0 ? inserted : av_record(av, got, what->count, fi_addr);
	pthread_mutex_unlock(&av->lock);
	free(got);
	return ret ? ret : inserted;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		     uint64_t flags, void *context)
{
	const struct av_insertion what = {.addr = addr, .count = count};

	if (!addr && count)
		return -FI_EINVAL;
	/* the insertion of nothing, too, may have an event */
	if (!count)
		return fi_av_insert(av_of(&fid->fid)->core, addr, 0, fi_addr, flags, context);
	return av_insert_any(av_of(&fid->fid), &what, fi_addr, flags, context);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	const struct av_insertion what = {.node = node, .service = service, .count = 1};

	if (!node || !service)
		return -FI_EINVAL;
	return av_insert_any(av_of(&fid->fid), &what, fi_addr, flags, context);
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt,
			const char *service, size_t svccnt, fi_addr_t *fi_addr, uint64_t flags,
			void *context)
{
	const struct av_insertion what = {.node = node,
					  .service = service,
					  .nodes = nodecnt,
					  .services = svccnt,
					  .count = nodecnt * svccnt};

	if (!node || !service)
		return -FI_EINVAL;
	if (!what.count)
		return 0;
	return av_insert_any(av_of(&fid->fid), &what, fi_addr, flags, context);
}

/* Finds the core's address for one of the application's. False: it names nobody */
static bool av_find(const struct p2p_av *av, fi_addr_t user, fi_addr_t *addr)
{
	*addr = av_core_addr(av, user);
	return av_same(av) || *addr != FI_ADDR_NOTAVAIL;
}

static int av_remove_core(struct p2p_av *av, fi_addr_t addr, uint64_t flags)
{
	struct av_name *entry;
	int ret = fi_av_remove(av->core, &addr, 1, flags);

	if (ret)
		return ret;
	HASH_FIND(by_addr, av->named_addrs, &addr, sizeof addr, entry);
	if (entry)
		av_name_drop(av, entry);
	return 0;
}

/* @keep: the peer stays in the core's vector, as learned ones do */
static int av_remove_one(struct p2p_av *av, fi_addr_t user, uint64_t flags, bool keep)
{
	fi_addr_t addr;
	int ret;

	if (!av_find(av, user, &addr))
		return -FI_EINVAL;
	ret = keep ? 0 : av_remove_core(av, addr, flags);
	if (ret)
		return ret;
	if (av->known && (av->indexed || !av->named))
		av_known_remove(av, user, addr);
	return 0;
}

/* For the endpoints that it is bound to. True: the core's vector has to keep it (xfer_peer_forget()) */
static bool av_forget(const struct p2p_av *av, fi_addr_t addr)
{
	struct xfer_ep *ep;
	bool used = false;

	LIST_FOREACH(ep, &av->domain->xfer.eps, entry) {
		if (container_of(ep, struct p2p_ep, xfer)->av == av)
			used |= xfer_peer_forget(ep, addr);
	}
	return used;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct p2p_av *av = av_of(&fid->fid);
	struct xfer *xfer = &av->domain->xfer;
	bool keep;
	int ret = 0;

	if (!fi_addr && count)
		return -FI_EINVAL;
	p2p_lock_take(&xfer->lock);
	/* transfers under way may still send to the peer, and cores trust an address */
	keep = xfer_moving(xfer);
	for (size_t i = 0; i < count; i++)
		keep |= av_forget(av, av_core_addr(av, fi_addr[i]));
	pthread_mutex_lock(&av->lock);
	for (size_t i = 0; !ret && i < count; i++)
		ret = av_remove_one(av, fi_addr[i], flags, keep);
	pthread_mutex_unlock(&av->lock);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct p2p_av *av = av_of(&fid->fid);
	fi_addr_t core_addr;

	if (!av_find(av, fi_addr, &core_addr))
		return -FI_EINVAL;
	return fi_av_lookup(av->core, core_addr, addr, addrlen);
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	return fi_av_straddr(av_of(&fid->fid)->core, addr, buf, len);
}

static int av_close(struct fid *fid)
{
	struct p2p_av *av = av_of(fid);
	struct av_name *entry, *next;
	struct av_table *known;
	int ret;

	if (domain_inherited(av->domain))
		return 0;
	ret = fid_close_core(&av->core->fid);
	if (ret)
		return ret;
	if (av->closed)
		av->closed(av);
	while ((known = av->known)) {
		av->known = known->old;
		free(known);
	}
	HASH_ITER(hh, av->names, entry, next)
		av_name_drop(av, entry);
	pthread_mutex_destroy(&av->lock);
	free(av);
	return 0;
}

static struct fid_class av_class = {
	.ops = FID_OPS(.close = av_close, .bind = fid_bind, .control = fid_control),
	.core = offsetof(struct p2p_av, core),
};

static int av_lookup2(struct fid_av *fid, fi_addr_t fi_addr, void *buf, size_t *len,
		      uint64_t flags, struct fid_xpu_ctx *ctx)
{
	if (!(flags & LF_XPU))
		return av_lookup(fid, fi_addr, buf, len);
	return native_calls ? native_calls->av_lookup2(fid, fi_addr, buf, len, flags, ctx)
			    : -FI_ENOSYS;
}

static union table_av av_table = {
	.ops =
		{
			.insert = av_insert,
			.insertsvc = av_insertsvc,
			.insertsym = av_insertsym,
			.remove = av_remove,
			.lookup = av_lookup,
			.straddr = av_straddr,
			.av_set = collective_av_set,
		},
};

static __attribute__((constructor)) void av_complete_table(void)
{
	table_complete(av_table.entry, LF_AV_LOOKUP2, (table_entry) av_lookup2);
}

static int av_new(struct p2p_domain *domain, struct fi_av_attr *attr, struct p2p_av **opened)
{
	struct p2p_av *av = p2p_new(sizeof *av);
	int ret;

	if (!av)
		return -FI_ENOMEM;
	ret = fi_av_open(domain->core, attr, &av->core, av);
	if (ret)
		goto free_av;
	fid_pair_add(&av->pair, &av->core->fid, &av->fid.fid);
	av->domain = domain;
	pthread_mutex_init(&av->lock, NULL);
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.ops = &av_class.ops;
	av->fid.ops = &av_table.ops;
	*opened = av;
	return 0;

free_av:
	free(av);
	return ret;
}

int av_open(struct fid_domain *domain_fid, struct fi_av_attr *attr, struct fid_av **av_fid,
	    void *context)
{
	struct p2p_domain *domain = domain_of(&domain_fid->fid);
	struct p2p_av *av;
	int ret;

	if (!attr || !av_fid)
		return -FI_EINVAL;
	/* another provider's own is not wrapped, see cq_open() */
	if (attr->flags & FI_PEER)
		return fi_av_open(domain->core, attr, av_fid, context);
	ret = av_new(domain, attr, &av);
	if (ret)
		return ret;
	/* the core may have chosen the type */
	av->indexed = attr->type != FI_AV_MAP;
	av->fid.fid.context = context;
	*av_fid = &av->fid;
	return 0;
}

int av_open_own(struct p2p_domain *domain, struct p2p_av **av)
{
	struct fi_av_attr attr = {.type = domain->av_type};

	return av_new(domain, &attr, av);
}
