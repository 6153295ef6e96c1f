/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends GPU memory from one rank to another, by an MPI that knows nothing of GPUs.
 *
 *	mpirun-p2p -n 2 ./mpi_send
 *
 * To build it by hand: mpicc mpi_send.c -o mpi_send -I CUDA/include -L CUDA/lib64 -lcudart
 */
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>
#include <mpi.h>

#define SIZE (1 << 20)
#define TRY(call) try(#call, call)

static void try(const char *call, int ret)
{
	if (!ret)
		return;
	fprintf(stderr, "mpi_send: %s: %d\n", call, ret);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
	static char data[SIZE], got[SIZE];
	int rank, size;
	void *gpu;

	TRY(MPI_Init(&argc, &argv));
	TRY(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	TRY(MPI_Comm_size(MPI_COMM_WORLD, &size));
	if (size != 2) {
		fprintf(stderr, "mpi_send: run it with -n 2\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}

	/* The buffer is GPU memory. MPI hands its address to libfabric unread. */
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (char) (i * 7 + (i >> 8));
	TRY(cudaMalloc(&gpu, SIZE));
	if (rank == 0) {
		TRY(cudaMemcpy(gpu, data, SIZE, cudaMemcpyHostToDevice));
		TRY(MPI_Send(gpu, SIZE, MPI_CHAR, 1, 7, MPI_COMM_WORLD));
	} else {
		TRY(MPI_Recv(gpu, SIZE, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		TRY(cudaMemcpy(got, gpu, SIZE, cudaMemcpyDeviceToHost));
		TRY(memcmp(got, data, SIZE) != 0);
		printf("received %d bytes of GPU memory, all as sent\n", SIZE);
	}
	TRY(cudaFree(gpu));
	return MPI_Finalize();
}
