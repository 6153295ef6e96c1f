/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who the neighbours are, and what their parts are. See neighbor.h. */
#include "neighbor.h"

#include <stdlib.h>

#include "parts.h"

/* Of a Cartesian communicator: in each dimension the one before, and the one behind */
static bool neighbor_grid(MPI_Comm comm, int number, int peers[])
{
	for (int i = 0; i < number; i += 2) {
		if (PMPI_Cart_shift(comm, i / 2, 1, &peers[i], &peers[i + 1]) != MPI_SUCCESS)
			return false;
	}
	return true;
}

/* Of a distributed graph. MPI has weights to tell, too. */
static bool neighbor_graph(MPI_Comm comm, int in, int from[], int out, int to[])
{
	int *weights = calloc((size_t) (in + out) + 1, sizeof *weights);
	const bool known =
		weights && PMPI_Dist_graph_neighbors(comm, in, from, weights, out, to,
						     weights + in) == MPI_SUCCESS;

	free(weights);
	return known;
}

/* Carries a call out, as soon as the parts have peers. */
static bool neighbor_run(struct call *call, int *ret, MPI_Comm comm, struct parts *out,
			 struct parts *in, MPI_Request *request)
{
	int kind = MPI_UNDEFINED, *peers;
	bool ran;

	in->number = (int) call_neighbors(comm, true);
	out->number = (int) call_neighbors(comm, false);
	peers = calloc((size_t) (in->number + out->number) + 1, sizeof *peers);
	if (!peers || PMPI_Topo_test(comm, &kind) != MPI_SUCCESS)
		kind = MPI_UNDEFINED;
	/* but for a distributed graph's, both are the same */
	in->peers = peers;
	out->peers = kind == MPI_DIST_GRAPH ? peers + in->number : peers;
	/* both directions may lead to the same rank */
	in->turned = out->turned = kind == MPI_CART;
	ran = (kind == MPI_CART         ? neighbor_grid(comm, in->number, peers)
	       : kind == MPI_GRAPH      ? PMPI_Graph_neighbors(comm, (int) call_rank(comm),
							       in->number, peers) == MPI_SUCCESS
	       : kind == MPI_DIST_GRAPH ? neighbor_graph(comm, in->number, peers, out->number,
							 peers + in->number)
					: false) &&
	      parts_run(call, ret, comm, out, in, request);
	free(peers);
	return ran;
}

bool neighbor_allgather(struct call *call, int *ret, const void *sendbuf, int sendcount,
			MPI_Datatype sendtype, void *recvbuf, int recvcount,
			MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
	struct parts out = {.buf = (char *) sendbuf,
			    .same = true,
			    .count = sendcount,
			    .type = sendtype},
		     in = {.buf = recvbuf, .count = recvcount, .type = recvtype};

	return neighbor_run(call, ret, comm, &out, &in, request);
}

bool neighbor_allgatherv(struct call *call, int *ret, const void *sendbuf, int sendcount,
			 MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
			 const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
			 MPI_Request *request)
{
	struct parts out = {.buf = (char *) sendbuf,
			    .same = true,
			    .count = sendcount,
			    .type = sendtype},
		     in = {.buf = recvbuf,
			   .counts = recvcounts,
			   .displs = displs,
			   .type = recvtype};

	return recvcounts && neighbor_run(call, ret, comm, &out, &in, request);
}

bool neighbor_alltoall(struct call *call, int *ret, const void *sendbuf, int sendcount,
		       MPI_Datatype sendtype, void *recvbuf, int recvcount,
		       MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
	struct parts out = {.buf = (char *) sendbuf, .count = sendcount, .type = sendtype},
		     in = {.buf = recvbuf, .count = recvcount, .type = recvtype};

	return neighbor_run(call, ret, comm, &out, &in, request);
}

bool neighbor_alltoallv(struct call *call, int *ret, const void *sendbuf,
			const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
			void *recvbuf, const int recvcounts[], const int rdispls[],
			MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
	struct parts out = {.buf = (char *) sendbuf,
			    .counts = sendcounts,
			    .displs = sdispls,
			    .type = sendtype},
		     in = {.buf = recvbuf,
			   .counts = recvcounts,
			   .displs = rdispls,
			   .type = recvtype};

	return sendcounts && recvcounts && neighbor_run(call, ret, comm, &out, &in, request);
}

bool neighbor_alltoallw(struct call *call, int *ret, const void *sendbuf,
			const int sendcounts[], const MPI_Aint sdispls[],
			const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
			const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
			MPI_Request *request)
{
	struct parts out = {.buf = (char *) sendbuf,
			    .counts = sendcounts,
			    .far = sdispls,
			    .types = sendtypes},
		     in = {.buf = recvbuf,
			   .counts = recvcounts,
			   .far = rdispls,
			   .types = recvtypes};

	return sendcounts && recvcounts && sendtypes && recvtypes &&
	       neighbor_run(call, ret, comm, &out, &in, request);
}
