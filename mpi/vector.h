/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Collectives that move data, as messages (parts.h). Each function has the arguments of its call; else as parts_run(). */
#ifndef P2P_MPI_VECTOR_H
#define P2P_MPI_VECTOR_H

#include <mpi.h>
#include <stdbool.h>

#include "call.h"

bool vector_gather(struct call *call, int *ret, const void *sendbuf, int sendcount,
		   MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
		   int root, MPI_Comm comm, MPI_Request *request);
bool vector_gatherv(struct call *call, int *ret, const void *sendbuf, int sendcount,
		    MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
		    const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm,
		    MPI_Request *request);
bool vector_scatter(struct call *call, int *ret, const void *sendbuf, int sendcount,
		    MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
		    int root, MPI_Comm comm, MPI_Request *request);
bool vector_scatterv(struct call *call, int *ret, const void *sendbuf, const int sendcounts[],
		     const int displs[], MPI_Datatype sendtype, void *recvbuf, int recvcount,
		     MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request);
bool vector_allgather(struct call *call, int *ret, const void *sendbuf, int sendcount,
		      MPI_Datatype sendtype, void *recvbuf, int recvcount,
		      MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request);
bool vector_allgatherv(struct call *call, int *ret, const void *sendbuf, int sendcount,
		       MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
		       const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
		       MPI_Request *request);
bool vector_alltoall(struct call *call, int *ret, const void *sendbuf, int sendcount,
		     MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
		     MPI_Comm comm, MPI_Request *request);
bool vector_alltoallv(struct call *call, int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
		      const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
		      MPI_Comm comm, MPI_Request *request);
bool vector_alltoallw(struct call *call, int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], const MPI_Datatype sendtypes[], void *recvbuf,
		      const int recvcounts[], const int rdispls[],
		      const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request *request);

#endif /* P2P_MPI_VECTOR_H */
