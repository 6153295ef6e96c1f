/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Tables of functions. See table.h. */
#include "fid/table.h"

#include <sys/types.h>
#include <rdma/fi_errno.h>

/* Stands for functions of any arguments, and of any integer */
static ssize_t table_no_entry(void)
{
	return -FI_ENOSYS;
}

void table_complete(table_entry *entry, size_t offset, table_entry own)
{
	const size_t number = offset / sizeof own;

	entry[number] = own;
	/* the first member of each table is its size */
	*(size_t *) (void *) entry = (number + 1) * sizeof own;
	for (size_t i = 1; i < TABLE_ROOM; i++) {
		if (!entry[i])
			entry[i] = (table_entry) table_no_entry;
	}
}
