/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * libp2p_as-fi.so: ofi_p2p under another provider's name, for programs that look for that name alone. FI_P2P_AS=efa has
 * fi_getinfo() offer "efa", which is ofi_p2p over tcp;ofi_rxm; FI_P2P_AS='efa=net' names another core provider.
 *
 * All objects are ofi_p2p's. Only calls with an info go through here: an info has names, and ofi_p2p needs its own.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#define AS_VARIABLE "FI_P2P_AS"
#define AS_CORE "tcp;ofi_rxm"
#define AS_TOP ";ofi_p2p"

/* Begins the names of providers that libfabric puts over others: ofi_p2p itself, ofi_rxm */
#define AS_UTILITY "ofi_"

/* Flags of fi_getinfo() that libfabric keeps for itself: utility providers look for a core */
#define AS_INTERNAL (7ULL << 58)

#define AS_MEMBER(object, type, member)                                                        \
	((type *) (void *) ((char *) (object) -offsetof(type, member)))

/** struct as_shape - how the provider of that name names its domains: @suffix is behind the device */
struct as_shape {
	const char *name, *suffix;
};

static const struct as_shape as_shapes[] = {{"efa", "-rdm"}};

/* Tables have more entries in later releases, which some inline functions call without a look at the size. */
#define AS_ROOM 32

typedef ssize_t (*as_entry)(void);

/**
 * struct as_table - the calls of objects whose own are at @real: those with an info go through here. Objects share it, for as
 * long as the process lives.
 */
struct as_table {
	union {
		struct fi_ops_fabric fabric;
		struct fi_ops_domain domain;
		as_entry entry[AS_ROOM];
	};
	void *real;
	struct as_table *next;
};

static struct {
	char name[64], core[128];
	const char *suffix;
	struct as_table *tables;
	pthread_mutex_t lock;
} as = {.suffix = "", .lock = PTHREAD_MUTEX_INITIALIZER};

static struct fi_provider as_provider;

/* ---- names ---- */

/**
 * struct as_info - an info by ofi_p2p's names, which points at another one's parts
 */
struct as_info {
	struct fi_info info;
	struct fi_fabric_attr fabric;
	struct fi_domain_attr domain;
	char name[256];
};

static void as_info_own(struct as_info *own, const struct fi_info *info)
{
	const size_t suffix = strlen(as.suffix);
	size_t len;

	memset(own, 0, sizeof *own);
	if (info)
		own->info = *info;
	if (own->info.fabric_attr)
		own->fabric = *own->info.fabric_attr;
	own->fabric.prov_name = as.core;
	/* ours, which the core's is less than */
	own->fabric.prov_version = 0;
	own->info.fabric_attr = &own->fabric;
	if (!own->info.domain_attr)
		return;
	own->domain = *own->info.domain_attr;
	own->info.domain_attr = &own->domain;
	if (!own->domain.name)
		return;
	snprintf(own->name, sizeof own->name, "%s", own->domain.name);
	len = strlen(own->name);
	if (len > suffix && !strcmp(own->name + len - suffix, as.suffix))
		own->name[len - suffix] = '\0';
	own->domain.name = own->name;
}

/* Gives an info the other provider's names: libfabric fills in the provider's, and frees the domain's. */
static int as_info_rename(struct fi_info *info)
{
	const size_t len = strlen(info->domain_attr->name) + strlen(as.suffix) + 1;
	char *domain = malloc(len);

	if (!domain)
		return -FI_ENOMEM;
	snprintf(domain, len, "%s%s", info->domain_attr->name, as.suffix);
	free(info->domain_attr->name);
	info->domain_attr->name = domain;
	free(info->fabric_attr->prov_name);
	info->fabric_attr->prov_name = NULL;
	return 0;
}

static int as_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info)
{
	struct as_info own;
	int ret;

	if (flags & AS_INTERNAL)
		return -FI_ENODATA;
	as_info_own(&own, hints);
	ret = fi_getinfo(version, node, service, flags, &own.info, info);
	for (struct fi_info *at = ret ? NULL : *info; at && !ret; at = at->next)
		ret = as_info_rename(at);
	if (ret == -FI_ENOMEM)
		fi_freeinfo(*info);
	return ret;
}

/* ---- tables ---- */

/* Stands for functions of any arguments */
static ssize_t as_no_entry(void)
{
	return -FI_ENOSYS;
}

/* The table for objects whose own is @real, of @size bytes, with what @own puts there. NULL: there is no memory */
static struct as_table *as_table_of(void *real, size_t size,
				    void (*own)(struct as_table *table))
{
	struct as_table *table;

	pthread_mutex_lock(&as.lock);
	for (table = as.tables; table && table->real != real; table = table->next)
		;
	if (!table && (table = calloc(1, sizeof *table))) {
		if (size > sizeof table->entry)
			size = sizeof table->entry;
		memcpy(table->entry, real, size);
		/* which all tables begin with */
		table->domain.size = size;
		for (size_t i = size / sizeof table->entry[0]; i < AS_ROOM; i++)
			table->entry[i] = as_no_entry;
		own(table);
		table->real = real;
		table->next = as.tables;
		as.tables = table;
	}
	pthread_mutex_unlock(&as.lock);
	return table;
}

/* ---- domains ---- */

static struct fi_ops_domain *as_domain_real(const struct fid_domain *domain)
{
	return AS_MEMBER(domain->ops, struct as_table, domain)->real;
}

static int as_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		       void *context)
{
	struct as_info own;

	as_info_own(&own, info);
	return as_domain_real(domain)->endpoint(domain, &own.info, ep, context);
}

static int as_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			  void *context)
{
	struct as_info own;

	as_info_own(&own, info);
	return as_domain_real(domain)->scalable_ep(domain, &own.info, ep, context);
}

static int as_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			uint64_t flags, void *context)
{
	struct as_info own;

	as_info_own(&own, info);
	return as_domain_real(domain)->endpoint2(domain, &own.info, ep, flags, context);
}

static void as_domain_own(struct as_table *table)
{
	struct fi_ops_domain *ops = &table->domain;

	ops->endpoint = as_endpoint;
	ops->scalable_ep = as_scalable_ep;
	if (ops->size > offsetof(struct fi_ops_domain, endpoint2) && ops->endpoint2)
		ops->endpoint2 = as_endpoint2;
}

static int as_domain_take(int ret, struct fid_domain **domain)
{
	struct as_table *table;

	if (ret)
		return ret;
	table = as_table_of((*domain)->ops, (*domain)->ops->size, as_domain_own);
	if (!table) {
		fi_close(&(*domain)->fid);
		return -FI_ENOMEM;
	}
	(*domain)->ops = &table->domain;
	return 0;
}

/* ---- fabrics ---- */

static struct fi_ops_fabric *as_fabric_real(const struct fid_fabric *fabric)
{
	return AS_MEMBER(fabric->ops, struct as_table, fabric)->real;
}

static int as_domain(struct fid_fabric *fabric, struct fi_info *info,
		     struct fid_domain **domain, void *context)
{
	struct as_info own;

	as_info_own(&own, info);
	return as_domain_take(as_fabric_real(fabric)->domain(fabric, &own.info, domain,
							     context),
			      domain);
}

static int as_domain2(struct fid_fabric *fabric, struct fi_info *info,
		      struct fid_domain **domain, uint64_t flags, void *context)
{
	struct as_info own;

	as_info_own(&own, info);
	return as_domain_take(as_fabric_real(fabric)->domain2(fabric, &own.info, domain, flags,
							      context),
			      domain);
}

static void as_fabric_own(struct as_table *table)
{
	struct fi_ops_fabric *ops = &table->fabric;

	ops->domain = as_domain;
	if (ops->size > offsetof(struct fi_ops_fabric, domain2) && ops->domain2)
		ops->domain2 = as_domain2;
}

static int as_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct fi_fabric_attr own = *attr;
	struct as_table *table;
	int ret;

	own.prov_name = as.core;
	own.prov_version = 0;
	ret = fi_fabric(&own, fabric, context);
	if (ret)
		return ret;
	table = as_table_of((*fabric)->ops, (*fabric)->ops->size, as_fabric_own);
	if (!table) {
		fi_close(&(*fabric)->fid);
		return -FI_ENOMEM;
	}
	(*fabric)->ops = &table->fabric;
	return 0;
}

/* ---- the variable ---- */

/* Is that a part of @core? It would be asked for itself, without an end. */
static bool as_below(const char *core, const char *name, size_t len)
{
	for (size_t part;; core += part + 1) {
		part = strcspn(core, ";");
		if (part == len && !strncasecmp(core, name, len))
			return true;
		if (!core[part])
			return false;
	}
}

/* False: nothing is to be offered, as the variable is not set, or wrong */
static bool as_read(const char *text)
{
	const char *core = text ? strchr(text, '=') : NULL;
	const size_t len = core ? (size_t) (core - text) : text ? strlen(text) : 0;

	if (!text || !*text || !strcasecmp(text, "no"))
		return false;
	core = core ? core + 1 : AS_CORE;
	if (len >= sizeof as.name || !len || strcspn(text, ";:,^") < len || !*core ||
	    strlen(core) + sizeof AS_TOP > sizeof as.core ||
	    !strncasecmp(text, AS_UTILITY, strlen(AS_UTILITY)) || as_below(core, text, len)) {
		FI_WARN(&as_provider, FI_LOG_CORE,
			AS_VARIABLE
			"=%s: use no, or the name of a provider that is not below ofi_p2p, such as efa, "
			"or efa=net for another core provider\n",
			text);
		return false;
	}
	snprintf(as.name, sizeof as.name, "%.*s", (int) len, text);
	snprintf(as.core, sizeof as.core, "%s%s", core, strstr(core, AS_TOP) ? "" : AS_TOP);
	for (size_t i = 0; i < sizeof as_shapes / sizeof as_shapes[0]; i++)
		if (!strcasecmp(as.name, as_shapes[i].name)) {
			strcpy(as.name, as_shapes[i].name);
			as.suffix = as_shapes[i].suffix;
		}
	return true;
}

/* It comes before a provider of that name that libfabric has. */
static struct fi_provider as_provider = {
	.version = FI_VERSION(9999, 0),
	.name = "ofi_p2p_as",
	.getinfo = as_getinfo,
	.fabric = as_fabric,
};

struct fi_provider *fi_prov_ini(void);

FI_EXT_INI
{
	as_provider.fi_version = fi_version();
	if (!as_read(getenv(AS_VARIABLE)))
		return NULL;
	as_provider.name = as.name;
	FI_WARN(&as_provider, FI_LOG_CORE,
		AS_VARIABLE
		": what is called %s in this process is %s. Unset it to have the real one\n",
		as.name, as.core);
	return &as_provider;
}
