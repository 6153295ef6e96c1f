/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_past: a program that looks MPI's calls up in MPI's own library, and so goes past libp2p-mpi. The report says
 * that.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void *look_up(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (symbol)
		return symbol;
	fprintf(stderr, "fi_p2p_mpi_past: no %s\n", name);
	exit(1);
}

int main(int argc, char **argv)
{
	int (*init)(int *argc, char ***argv), (*finalize)(void);
	Dl_info info;
	void *library;

	/* nobody stands before this call */
	dladdr(look_up(RTLD_DEFAULT, "PMPI_Get_version"), &info);
	library = dlopen(info.dli_fname, RTLD_LAZY);
	if (!library) {
		fprintf(stderr, "fi_p2p_mpi_past: %s\n", dlerror());
		return 1;
	}
	*(void **) &init = look_up(library, "MPI_Init");
	*(void **) &finalize = look_up(library, "MPI_Finalize");
	return init(&argc, &argv) || finalize();
}
