/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Records of the core's objects, and copies of their tables of calls. See busycore.h. */
#include "busycore.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/** struct table - calls that stand before an object's own */
struct table {
	struct table *next;
	max_align_t calls[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct busy *all;
static struct table *tables;

struct busy *busy_find(const void *object)
{
	struct busy *busy;

	pthread_mutex_lock(&lock);
	for (busy = all; busy && busy->object != object;)
		busy = busy->next;
	pthread_mutex_unlock(&lock);
	return busy;
}

struct busy *busy_new(const void *object)
{
	struct busy *busy = busy_find(object);

	if (busy)
		return busy;
	busy = calloc(1, sizeof(*busy));
	if (!busy)
		abort();
	busy->object = object;
	pthread_mutex_lock(&lock);
	busy->next = all;
	all = busy;
	pthread_mutex_unlock(&lock);
	return busy;
}

/* What it returns is never freed. */
void *busy_copy(const void *ops)
{
	const size_t size = *(const size_t *) ops;
	struct table *table = malloc(sizeof(*table) + size);

	if (!table)
		abort();
	pthread_mutex_lock(&lock);
	table->next = tables;
	tables = table;
	pthread_mutex_unlock(&lock);
	return memcpy(table->calls, ops, size);
}

size_t busy_entry_size(const struct fi_cq_attr *attr)
{
	return attr->format == FI_CQ_FORMAT_TAGGED ? sizeof(struct fi_cq_tagged_entry)
						   : sizeof(struct fi_cq_data_entry);
}

unsigned int busy_seed(void)
{
	const char *given = getenv("BUSYCORE_SEED");

	return given ? (unsigned int) atoi(given) : 1;
}
