/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tables of functions with room for entries of later releases.
 *
 * One binary serves all releases, so headers of an application may have more entries than those of this
 * build. Some of their inline functions call an entry without a look at the table's size. So what
 * is behind the last known entry returns -FI_ENOSYS.
 */
#ifndef P2P_TABLE_H
#define P2P_TABLE_H

#include <stddef.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

typedef void (*table_entry)(void);

/* Room for the table's size and for its entries: twice as many as the longest has that grew */
#define TABLE_ROOM 32

union table_domain {
	struct fi_ops_domain ops;
	table_entry entry[TABLE_ROOM];
};

union table_ep {
	struct fi_ops_ep ops;
	table_entry entry[TABLE_ROOM];
};

union table_cq {
	struct fi_ops_cq ops;
	table_entry entry[TABLE_ROOM];
};

union table_cntr {
	struct fi_ops_cntr ops;
	table_entry entry[TABLE_ROOM];
};

union table_av {
	struct fi_ops_av ops;
	table_entry entry[TABLE_ROOM];
};

/*
 * Completes a table when the object is loaded: @own is its last entry, @offset bytes from its begin, or
 * NULL. Entries that have no function return -FI_ENOSYS.
 */
void table_complete(table_entry *entry, size_t offset, table_entry own);

#endif /* P2P_TABLE_H */
