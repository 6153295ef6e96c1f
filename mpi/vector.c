/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the parts of collectives are. See vector.h. */
#include "vector.h"

#include "parts.h"

/* ---- one rank has a part of each ---- */

/* Each rank has one part for the root, which has room for @in. */
static bool vector_to_root(struct call *call, int *ret, const void *sendbuf, int sendcount,
			   MPI_Datatype sendtype, struct parts in, int root, MPI_Comm comm,
			   MPI_Request *request)
{
	const bool here = (int) call_rank(comm) == root;
	const struct parts out = {.buf = (char *) sendbuf,
				  .number = !here || sendbuf != MPI_IN_PLACE,
				  .peers = &root,
				  .count = sendcount,
				  .type = sendtype};

	in.number = here ? (int) call_own(comm) : 0;
	return root >= 0 && root < (int) call_own(comm) &&
	       parts_run(call, ret, comm, &out, &in, request);
}

static bool vector_from_root(struct call *call, int *ret, struct parts out, void *recvbuf,
			     int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
			     MPI_Request *request)
{
	const bool here = (int) call_rank(comm) == root;
	const struct parts in = {.buf = recvbuf,
				 .number = !here || recvbuf != MPI_IN_PLACE,
				 .peers = &root,
				 .count = recvcount,
				 .type = recvtype};

	out.number = here ? (int) call_own(comm) : 0;
	return root >= 0 && root < (int) call_own(comm) &&
	       parts_run(call, ret, comm, &out, &in, request);
}

bool vector_gather(struct call *call, int *ret, const void *sendbuf, int sendcount,
		   MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
		   int root, MPI_Comm comm, MPI_Request *request)
{
	const struct parts in = {.buf = recvbuf, .count = recvcount, .type = recvtype};

	return vector_to_root(call, ret, sendbuf, sendcount, sendtype, in, root, comm, request);
}

bool vector_gatherv(struct call *call, int *ret, const void *sendbuf, int sendcount,
		    MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
		    const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm,
		    MPI_Request *request)
{
	const struct parts in = {.buf = recvbuf,
				 .counts = recvcounts,
				 .displs = displs,
				 .type = recvtype};

	return (recvcounts || (int) call_rank(comm) != root) &&
	       vector_to_root(call, ret, sendbuf, sendcount, sendtype, in, root, comm, request);
}

bool vector_scatter(struct call *call, int *ret, const void *sendbuf, int sendcount,
		    MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
		    int root, MPI_Comm comm, MPI_Request *request)
{
	const struct parts out = {.buf = (char *) sendbuf,
				  .count = sendcount,
				  .type = sendtype};

	return vector_from_root(call, ret, out, recvbuf, recvcount, recvtype, root, comm,
				request);
}

bool vector_scatterv(struct call *call, int *ret, const void *sendbuf, const int sendcounts[],
		     const int displs[], MPI_Datatype sendtype, void *recvbuf, int recvcount,
		     MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request)
{
	const struct parts out = {.buf = (char *) sendbuf,
				  .counts = sendcounts,
				  .displs = displs,
				  .type = sendtype};

	return (sendcounts || (int) call_rank(comm) != root) &&
	       vector_from_root(call, ret, out, recvbuf, recvcount, recvtype, root, comm,
				request);
}

/* ---- all ranks have ---- */

/* Each rank has one part for all, which has its place in @in. */
static bool vector_to_all(struct call *call, int *ret, const void *sendbuf, int sendcount,
			  MPI_Datatype sendtype, struct parts in, MPI_Comm comm,
			  MPI_Request *request)
{
	struct parts out = {.buf = (char *) sendbuf,
			    .same = true,
			    .count = sendcount,
			    .type = sendtype};

	in.number = out.number = (int) call_own(comm);
	if (sendbuf == MPI_IN_PLACE)
		out = parts_of(&in, (int) call_rank(comm));
	return parts_run(call, ret, comm, &out, &in, request);
}

bool vector_allgather(struct call *call, int *ret, const void *sendbuf, int sendcount,
		      MPI_Datatype sendtype, void *recvbuf, int recvcount,
		      MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
	const struct parts in = {.buf = recvbuf, .count = recvcount, .type = recvtype};

	return vector_to_all(call, ret, sendbuf, sendcount, sendtype, in, comm, request);
}

bool vector_allgatherv(struct call *call, int *ret, const void *sendbuf, int sendcount,
		       MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
		       const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
		       MPI_Request *request)
{
	const struct parts in = {.buf = recvbuf,
				 .counts = recvcounts,
				 .displs = displs,
				 .type = recvtype};

	return recvcounts &&
	       vector_to_all(call, ret, sendbuf, sendcount, sendtype, in, comm, request);
}

/* Each rank has a part for each. */
static bool vector_all_to_all(struct call *call, int *ret, struct parts out, struct parts in,
			      MPI_Comm comm, MPI_Request *request)
{
	out.number = in.number = (int) call_own(comm);
	return parts_run(call, ret, comm, &out, &in, request);
}

bool vector_alltoall(struct call *call, int *ret, const void *sendbuf, int sendcount,
		     MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
		     MPI_Comm comm, MPI_Request *request)
{
	const struct parts out = {.buf = (char *) sendbuf,
				  .count = sendcount,
				  .type = sendtype},
			   in = {.buf = recvbuf, .count = recvcount, .type = recvtype};

	return vector_all_to_all(call, ret, out, in, comm, request);
}

bool vector_alltoallv(struct call *call, int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
		      const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
		      MPI_Comm comm, MPI_Request *request)
{
	const struct parts out = {.buf = (char *) sendbuf,
				  .counts = sendcounts,
				  .displs = sdispls,
				  .type = sendtype},
			   in = {.buf = recvbuf,
				 .counts = recvcounts,
				 .displs = rdispls,
				 .type = recvtype};

	return sendcounts && recvcounts && vector_all_to_all(call, ret, out, in, comm, request);
}

bool vector_alltoallw(struct call *call, int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], const MPI_Datatype sendtypes[], void *recvbuf,
		      const int recvcounts[], const int rdispls[],
		      const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request *request)
{
	const struct parts out = {.buf = (char *) sendbuf,
				  .counts = sendcounts,
				  .displs = sdispls,
				  .types = sendtypes},
			   in = {.buf = recvbuf,
				 .counts = recvcounts,
				 .displs = rdispls,
				 .types = recvtypes};

	return sendcounts && recvcounts && sendtypes && recvtypes &&
	       vector_all_to_all(call, ret, out, in, comm, request);
}
