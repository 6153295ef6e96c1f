/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the parts of vector collectives are. See vector.h. */
#include "vector.h"

#include "parts.h"

bool vector_gatherv(struct call *call, int *ret, const void *sendbuf, int sendcount,
		    MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
		    const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm)
{
	const int ranks = (int) call_own(comm);
	const bool here = (int) call_rank(comm) == root;
	const struct parts out = {.buf = (char *) sendbuf,
				  .number = !here || sendbuf != MPI_IN_PLACE,
				  .peers = &root,
				  .count = sendcount,
				  .type = sendtype},
			   in = {.buf = recvbuf,
				 .number = here ? ranks : 0,
				 .counts = recvcounts,
				 .displs = displs,
				 .type = recvtype};

	return (here ? recvcounts != NULL : root >= 0 && root < ranks) &&
	       parts_run(call, ret, comm, &out, &in);
}

bool vector_scatterv(struct call *call, int *ret, const void *sendbuf, const int sendcounts[],
		     const int displs[], MPI_Datatype sendtype, void *recvbuf, int recvcount,
		     MPI_Datatype recvtype, int root, MPI_Comm comm)
{
	const int ranks = (int) call_own(comm);
	const bool here = (int) call_rank(comm) == root;
	const struct parts out = {.buf = (char *) sendbuf,
				  .number = here ? ranks : 0,
				  .counts = sendcounts,
				  .displs = displs,
				  .type = sendtype},
			   in = {.buf = recvbuf,
				 .number = !here || recvbuf != MPI_IN_PLACE,
				 .peers = &root,
				 .count = recvcount,
				 .type = recvtype};

	return (here ? sendcounts != NULL : root >= 0 && root < ranks) &&
	       parts_run(call, ret, comm, &out, &in);
}

bool vector_alltoallv(struct call *call, int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
		      const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
		      MPI_Comm comm)
{
	const int ranks = (int) call_own(comm);
	const struct parts out = {.buf = (char *) sendbuf,
				  .number = ranks,
				  .counts = sendcounts,
				  .displs = sdispls,
				  .type = sendtype},
			   in = {.buf = recvbuf,
				 .number = ranks,
				 .counts = recvcounts,
				 .displs = rdispls,
				 .type = recvtype};

	return sendcounts && recvcounts && parts_run(call, ret, comm, &out, &in);
}

bool vector_alltoallw(struct call *call, int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], const MPI_Datatype sendtypes[], void *recvbuf,
		      const int recvcounts[], const int rdispls[],
		      const MPI_Datatype recvtypes[], MPI_Comm comm)
{
	const int ranks = (int) call_own(comm);
	const struct parts out = {.buf = (char *) sendbuf,
				  .number = ranks,
				  .counts = sendcounts,
				  .displs = sdispls,
				  .types = sendtypes},
			   in = {.buf = recvbuf,
				 .number = ranks,
				 .counts = recvcounts,
				 .displs = rdispls,
				 .types = recvtypes};

	return sendcounts && recvcounts && sendtypes && recvtypes &&
	       parts_run(call, ret, comm, &out, &in);
}
