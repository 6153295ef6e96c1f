/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Counts what the library sends. See sent.h. */
#include "sent.h"

#include <dlfcn.h>
#include <mpi.h>

struct mpi_sent mpi_sent;

static struct {
	const char *addr;
	size_t len;
} watched;

void mpi_sent_watch(const void *addr, size_t len)
{
	watched.addr = addr;
	watched.len = len;
}

/* MPICH's header does not say that it is public. */
__attribute__((visibility("default"))) int PMPI_Isend(const void *buf, int count,
						      MPI_Datatype type, int dest, int tag,
						      MPI_Comm comm, MPI_Request *request)
{
	static int (*real)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

	if (!real)
		*(void **) &real = dlsym(RTLD_NEXT, "PMPI_Isend");
	__atomic_fetch_add(&mpi_sent.all, 1, __ATOMIC_RELAXED);
	if (watched.addr && (const char *) buf >= watched.addr &&
	    (const char *) buf < watched.addr + watched.len)
		__atomic_fetch_add(&mpi_sent.watched, 1, __ATOMIC_RELAXED);
	return real(buf, count, type, dest, tag, comm, request);
}
