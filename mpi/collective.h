/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reductions of much data in GPUs' memory, and exchanges in place, from GPU to GPU. All ranks of a communicator ask each other,
 * and do the same: either one of them has data in a GPU's memory, and all data lies without gaps; or the call is left to MPI,
 * with mirrors (mirror.h). So are reductions that have no kernel (kernel.h).
 *
 * Each function has the arguments of its call, and the call's number. True: it has carried it out, and *@ret is what it returns.
 */
#ifndef P2P_MPI_COLLECTIVE_H
#define P2P_MPI_COLLECTIVE_H

#include <mpi.h>
#include <stdbool.h>

bool collective_alltoall(unsigned int number, int *ret, const void *sendbuf, int sendcount,
			 MPI_Datatype sendtype, void *recvbuf, int recvcount,
			 MPI_Datatype recvtype, MPI_Comm comm);
bool collective_reduce(unsigned int number, int *ret, const void *sendbuf, void *recvbuf,
		       int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
bool collective_allreduce(unsigned int number, int *ret, const void *sendbuf, void *recvbuf,
			  int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
bool collective_reduce_scatter_block(unsigned int number, int *ret, const void *sendbuf,
				     void *recvbuf, int recvcount, MPI_Datatype type, MPI_Op op,
				     MPI_Comm comm);
bool collective_reduce_scatter(unsigned int number, int *ret, const void *sendbuf,
			       void *recvbuf, const int recvcounts[], MPI_Datatype type,
			       MPI_Op op, MPI_Comm comm);

#endif /* P2P_MPI_COLLECTIVE_H */
