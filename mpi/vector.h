/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Collective calls in which each rank knows its own lengths only, as messages between the ranks: each sends its parts from
 * where they lie, in host memory or a GPU's. Ranks need not ask each other, as messages do not tell the one from the other.
 * So all such calls of several ranks, on communicators that have a hidden one (hidden.h), go this way.
 *
 * Each function has the arguments of its call. True: it has carried it out, and *@ret is what it returns. False: MPI says
 * better what is wrong.
 */
#ifndef P2P_MPI_VECTOR_H
#define P2P_MPI_VECTOR_H

#include <mpi.h>
#include <stdbool.h>

/* Do the calls of @comm go this way? All ranks get the same answer. @sendbuf: if all have MPI_IN_PLACE there, or none; else NULL */
bool vector_can(MPI_Comm comm, const void *sendbuf);

bool vector_gatherv(int *ret, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
		    void *recvbuf, const int recvcounts[], const int displs[],
		    MPI_Datatype recvtype, int root, MPI_Comm comm);
bool vector_scatterv(int *ret, const void *sendbuf, const int sendcounts[], const int displs[],
		     MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
		     int root, MPI_Comm comm);
bool vector_alltoallv(int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
		      const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
		      MPI_Comm comm);
bool vector_alltoallw(int *ret, const void *sendbuf, const int sendcounts[],
		      const int sdispls[], const MPI_Datatype sendtypes[], void *recvbuf,
		      const int recvcounts[], const int rdispls[],
		      const MPI_Datatype recvtypes[], MPI_Comm comm);

#endif /* P2P_MPI_VECTOR_H */
