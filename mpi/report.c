/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Counts calls, and prints the table. See report.h. */
#include "report.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/conf.h"
#include "call.h"
#include "hidden.h"

void report_count(unsigned int number, bool first, enum report_way way, size_t bytes)
{
	struct report_count *count = &report_counts[number];

	__atomic_fetch_add(&count->calls, first, __ATOMIC_RELAXED);
	__atomic_fetch_add(&count->bytes[way], bytes, __ATOMIC_RELAXED);
}

/* Bytes with three digits, as "12.3 MB" */
static const char *report_bytes(uint64_t bytes, char text[16])
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
	double value = (double) bytes;
	int unit = 0;

	for (; value >= 999.5; unit++)
		value /= 1000;
	snprintf(text, 16, "%.*f %s", unit && value < 99.95 ? 1 : 0, value, units[unit]);
	return bytes ? text : "-";
}

static const char *report_remedy(unsigned int call, const struct report_count *count)
{
	return count->bytes[REPORT_SPARABLE] && call_carried() && report_remedies[call]
		       ? report_remedies[call]
		       : "";
}

static void report_table(const struct report_count *sums, int ranks)
{
	char as_they_are[16], by_host[16], exchanged[16];
	unsigned int lines = 0;

	fprintf(stderr, "libp2p-mpi: calls with GPU buffers, of %d ranks\n", ranks);
	for (unsigned int i = 0; i < report_calls; i++) {
		if (!sums[i].calls)
			continue;
		if (!lines++)
			fprintf(stderr, "%-28s %12s %12s %12s %12s  %s\n", "call", "times",
				"as they are", "GPU to GPU", "by the host",
				"may spare the host");
		fprintf(stderr, "MPI_%-24s %12llu %12s %12s %12s  %s\n", report_names[i],
			(unsigned long long) sums[i].calls,
			report_bytes(sums[i].bytes[REPORT_AS_IT_IS], as_they_are),
			report_bytes(sums[i].bytes[REPORT_EXCHANGED], exchanged),
			report_bytes(sums[i].bytes[REPORT_BY_HOST], by_host),
			report_remedy(i, &sums[i]));
	}
	if (!lines)
		fputs("There were none.\n", stderr);
	else if (call_carried())
		fputs("By the host: through a copy in host memory. docs/mpi.md says when.\n",
		      stderr);
	else
		fputs("By the host: through a copy in host memory, as MPI's provider is none of "
		      "ofi_p2p's.\n",
		      stderr);
}

/* The program has called MPI_Finalize() */
static bool report_ended;

void report_print(void)
{
	const int numbers = (int) (report_calls * sizeof report_counts[0] / sizeof(uint64_t));
	int rank = 0, ranks = 1;

	report_ended = true;
	if (!call_reports())
		return;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!hidden_partly()) {
		PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
		PMPI_Reduce(rank == 0 ? MPI_IN_PLACE : report_counts, report_counts, numbers,
			    MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	}
	if (rank == 0)
		report_table(report_counts, ranks);
}

/* Has the launcher made this the first rank? When MPI has ended there is nobody else to ask. */
static bool report_first(void)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");

	if (!rank)
		rank = getenv("PMI_RANK");
	return !rank || atoi(rank) == 0;
}

__attribute__((destructor)) static void report_past(void)
{
	int ended = 0;

	if (!report_ended && PMPI_Finalized(&ended) == MPI_SUCCESS && ended && report_first() &&
	    call_reports())
		fputs("libp2p-mpi: the program has called MPI past this library, as one does that looks calls up "
		      "in MPI's own: docs/mpi.md tells what helps.\n",
		      stderr);
}
