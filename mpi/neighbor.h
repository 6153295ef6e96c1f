/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Neighbourhood collectives as messages (parts.h). Each function has the arguments of its call; else as parts_run(). */
#ifndef P2P_MPI_NEIGHBOR_H
#define P2P_MPI_NEIGHBOR_H

#include <mpi.h>
#include <stdbool.h>

#include "call.h"

bool neighbor_allgather(struct call *call, int *ret, const void *sendbuf, int sendcount,
			MPI_Datatype sendtype, void *recvbuf, int recvcount,
			MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request);
bool neighbor_allgatherv(struct call *call, int *ret, const void *sendbuf, int sendcount,
			 MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
			 const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
			 MPI_Request *request);
bool neighbor_alltoall(struct call *call, int *ret, const void *sendbuf, int sendcount,
		       MPI_Datatype sendtype, void *recvbuf, int recvcount,
		       MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request);
bool neighbor_alltoallv(struct call *call, int *ret, const void *sendbuf,
			const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
			void *recvbuf, const int recvcounts[], const int rdispls[],
			MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request);
bool neighbor_alltoallw(struct call *call, int *ret, const void *sendbuf,
			const int sendcounts[], const MPI_Aint sdispls[],
			const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
			const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
			MPI_Request *request);

#endif /* P2P_MPI_NEIGHBOR_H */
