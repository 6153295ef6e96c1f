/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 5: address vectors. See av.h. */
#include "av.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "log.h"
#include "peer.h"
#include "wire.h"

/* A peer's name and the core's address for it */
struct av_name {
	fi_addr_t addr;
	size_t len;
	uint8_t name[WIRE_NAME_MAX];
	UT_hash_handle hh;
};

/* The core's address of each of the application's; never changed but replaced */
struct av_table {
	struct av_table *next;
	size_t count;
	fi_addr_t addr[];
};

/* ---- the application's addresses and the core's ---- */

fi_addr_t av_core_addr_slow(const struct p2p_av *av, fi_addr_t addr)
{
	const struct av_table *table = __atomic_load_n(&av->table, __ATOMIC_ACQUIRE);

	if (addr == FI_ADDR_UNSPEC)
		return addr;
	return addr < table->count ? table->addr[addr] : FI_ADDR_NOTAVAIL;
}

fi_addr_t av_user_addr_slow(const struct p2p_av *av, fi_addr_t addr)
{
	const struct av_table *table = __atomic_load_n(&av->table, __ATOMIC_ACQUIRE);

	/* most are where they would be without learned peers, or a little before */
	for (size_t i = P2P_MIN(addr + 1, table->count); i-- > 0;) {
		if (table->addr[i] == addr)
			return i;
	}
	return FI_ADDR_NOTAVAIL;
}

/* Publishes @known as the table that translates. */
static int av_table_publish(struct p2p_av *av)
{
	struct av_table *table = malloc(sizeof *table + av->count * sizeof *table->addr);

	if (!table)
		return -FI_ENOMEM;
	table->count = av->count;
	if (av->count)
		memcpy(table->addr, av->known, av->count * sizeof *table->addr);
	table->next = av->old;
	av->old = table;
	__atomic_store_n(&av->table, table, __ATOMIC_RELEASE);
	return 0;
}

static int av_known_reserve(struct p2p_av *av, size_t more)
{
	size_t room = P2P_MAX(av->room * 2, av->count + more);
	fi_addr_t *known;

	if (av->count + more <= av->room)
		return 0;
	known = realloc(av->known, room * sizeof *known);
	if (!known)
		return -FI_ENOMEM;
	av->known = known;
	av->room = room;
	return 0;
}

/* ---- names ---- */

/*
 * One form for every spelling of an address, so that names can be compared: what
 * endpoints say of themselves and what vectors give back differ in unused bytes.
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

static void av_name_add(struct p2p_av *av, const uint8_t *name, size_t len, fi_addr_t addr)
{
	struct av_name *entry = calloc(1, sizeof *entry);

	if (!entry)
		return;
	entry->addr = addr;
	entry->len = len;
	memcpy(entry->name, name, len);
	HASH_ADD(hh, av->names, name, entry->len, entry);
	if (!entry->hh.tbl)
		free(entry);
}

/* Forgets the names of @addr; FI_ADDR_UNSPEC: of all */
static void av_names_forget(struct p2p_av *av, fi_addr_t addr)
{
	struct av_name *entry, *next;

	HASH_ITER(hh, av->names, entry, next) {
		if (addr != FI_ADDR_UNSPEC && addr != entry->addr)
			continue;
		HASH_DEL(av->names, entry);
		free(entry);
	}
}

/* Names the addresses from the @first on. */
static void av_names_make(struct p2p_av *av, size_t first)
{
	uint8_t raw[WIRE_NAME_MAX + 1], name[WIRE_NAME_MAX];
	size_t len;

	for (size_t i = first; i < av->count; i++) {
		memset(raw, 0, sizeof raw);
		len = WIRE_NAME_MAX;
		if (av->known[i] == FI_ADDR_NOTAVAIL ||
		    fi_av_lookup(av->core, av->known[i], raw, &len) || len > WIRE_NAME_MAX)
			continue;
		len = av_name_canon(raw, len, name);
		av_name_add(av, name, len, av->known[i]);
	}
	av->named = true;
}

/* Inserts a peer that the application does not know. */
static int av_learn(struct p2p_av *av, const void *addr, const uint8_t *name, size_t len,
		    fi_addr_t *core_addr)
{
	int ret;

	/* from here on the core's indices are not the application's any more */
	if (av->indexed && !av->table) {
		ret = av_table_publish(av);
		if (ret)
			return ret;
	}
	ret = fi_av_insert(av->core, addr, 1, core_addr, 0, NULL);
	if (ret != 1) {
		P2P_WARN("a peer that sends from device memory cannot be inserted: %s\n",
			 fi_strerror(ret < 0 ? -ret : FI_EINVAL));
		return ret < 0 ? ret : -FI_EINVAL;
	}
	P2P_INFO("learned a peer that the application has not inserted\n");
	av_name_add(av, name, len, *core_addr);
	return 0;
}

int av_resolve(struct p2p_av *av, const void *addr, size_t len, fi_addr_t *core_addr)
{
	uint8_t raw[WIRE_NAME_MAX + 1] = {0}, name[WIRE_NAME_MAX + 1] = {0};
	struct av_name *entry;
	int ret = 0;

	memcpy(raw, addr, len);
	len = av_name_canon(raw, len, name);
	pthread_mutex_lock(&av->lock);
	if (!av->named)
		av_names_make(av, 0);
	HASH_FIND(hh, av->names, name, len, entry);
	if (entry)
		*core_addr = entry->addr;
	else
		ret = av_learn(av, raw, name, len, core_addr);
	pthread_mutex_unlock(&av->lock);
	return ret;
}

/* ---- the calls ---- */

/*
 * Records what the core has inserted for the application, and turns the addresses into
 * the application's. @got: the core's addresses, @count of them.
 */
static int av_record(struct p2p_av *av, const fi_addr_t *got, size_t count,
		     fi_addr_t *fi_addr)
{
	size_t first = av->count;

	for (size_t i = 0; i < count; i++) {
		if (fi_addr)
			fi_addr[i] = got[i];
		if (got[i] == FI_ADDR_NOTAVAIL)
			continue;
		if (fi_addr && av->table)
			fi_addr[i] = av->count;
		av->known[av->count++] = got[i];
	}
	if (av->named)
		av_names_make(av, first);
	return av->table ? av_table_publish(av) : 0;
}

/* The three ways to insert, with their arguments as the core's call wants them */
struct av_insertion {
	const void *addr;
	const char *node, *service;
	size_t nodes, services;
	size_t count;
};

static int av_insert_core(struct p2p_av *av, const struct av_insertion *what,
			  fi_addr_t *got, uint64_t flags, void *context)
{
	if (what->addr)
		return fi_av_insert(av->core, what->addr, what->count, got, flags, context);
	if (what->nodes)
		return fi_av_insertsym(av->core, what->node, what->nodes, what->service,
				       what->services, got, flags, context);
	return fi_av_insertsvc(av->core, what->node, what->service, got, flags, context);
}

static int av_insert_any(struct p2p_av *av, const struct av_insertion *what,
			 fi_addr_t *fi_addr, uint64_t flags, void *context)
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
	ret = av_known_reserve(av, what->count);
	inserted = ret ? ret : av_insert_core(av, what, got, flags, context);
	if (inserted >= 0)
		ret = av_record(av, got, what->count, fi_addr);
	pthread_mutex_unlock(&av->lock);
	free(got);
	return ret ? ret : inserted;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count,
		     fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	const struct av_insertion what = {.addr = addr, .count = count};

	if (!addr && count)
		return -FI_EINVAL;
	/* nothing, too, may have an event to tell of it */
	if (!count)
		return fi_av_insert(((struct p2p_av *) fid)->core, addr, 0, fi_addr, flags,
				    context);
	return av_insert_any((struct p2p_av *) fid, &what, fi_addr, flags, context);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	const struct av_insertion what = {.node = node, .service = service, .count = 1};

	if (!node || !service)
		return -FI_EINVAL;
	return av_insert_any((struct p2p_av *) fid, &what, fi_addr, flags, context);
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt,
			const char *service, size_t svccnt, fi_addr_t *fi_addr,
			uint64_t flags, void *context)
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
	return av_insert_any((struct p2p_av *) fid, &what, fi_addr, flags, context);
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct p2p_av *av = (struct p2p_av *) fid;
	int ret = 0;

	if (!fi_addr && count)
		return -FI_EINVAL;
	p2p_lock_take(&av->domain->xfer.lock);
	for (size_t i = 0; i < count; i++)
		peer_forget(&av->domain->xfer, av_core_addr(av, fi_addr[i]));
	p2p_lock_drop(&av->domain->xfer.lock);
	pthread_mutex_lock(&av->lock);
	for (size_t i = 0; !ret && i < count; i++) {
		fi_addr_t addr = av_core_addr(av, fi_addr[i]);

		ret = fi_av_remove(av->core, &addr, 1, flags);
		if (!ret)
			av_names_forget(av, addr);
		for (size_t k = 0; !ret && k < av->count; k++) {
			if (av->known[k] == addr)
				av->known[k] = FI_ADDR_NOTAVAIL;
		}
	}
	if (av->table && !ret)
		ret = av_table_publish(av);
	pthread_mutex_unlock(&av->lock);
	return ret;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct p2p_av *av = (struct p2p_av *) fid;

	return fi_av_lookup(av->core, av_core_addr(av, fi_addr), addr, addrlen);
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	return fi_av_straddr(((struct p2p_av *) fid)->core, addr, buf, len);
}

static int av_no_set(struct fid_av *av, struct fi_av_set_attr *attr,
		     struct fid_av_set **av_set, void *context)
{
	return -FI_ENOSYS;
}

static int av_close(struct fid *fid)
{
	struct p2p_av *av = (struct p2p_av *) fid;
	struct av_table *table;
	int ret = fid_close_core(&av->core->fid);

	if (ret)
		return ret;
	while ((table = av->old)) {
		av->old = table->next;
		free(table);
	}
	av_names_forget(av, FI_ADDR_UNSPEC);
	free(av->known);
	pthread_mutex_destroy(&av->lock);
	free(av);
	return 0;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return fi_av_bind(((struct p2p_av *) fid)->core, fid_core(bfid), flags);
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = av_bind,
	.control = fid_control,
	.ops_open = fid_ops_open,
};

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
	.av_set = av_no_set,
};

int av_open(struct fid_domain *domain_fid, struct fi_av_attr *attr, struct fid_av **av_fid,
	    void *context)
{
	struct p2p_domain *domain = (struct p2p_domain *) domain_fid;
	struct p2p_av *av;
	int ret;

	if (!attr || !av_fid)
		return -FI_EINVAL;
	av = p2p_new(sizeof *av);
	if (!av)
		return -FI_ENOMEM;
	ret = fi_av_open(domain->core, attr, &av->core, av);
	if (ret)
		goto free_av;
	ret = fid_pair_add(&av->core->fid, &av->fid.fid);
	if (ret)
		goto close_core;
	/* the core may have chosen the type */
	av->indexed = attr->type != FI_AV_MAP;
	av->domain = domain;
	pthread_mutex_init(&av->lock, NULL);
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &av_fid_ops;
	av->fid.ops = &av_ops;
	*av_fid = &av->fid;
	return 0;

close_core:
	fi_close(&av->core->fid);
free_av:
	free(av);
	return ret;
}
