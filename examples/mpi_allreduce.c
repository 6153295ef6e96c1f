/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Adds GPU memory of all ranks, by an MPI that knows nothing of GPUs. MPI adds in host memory, which libp2p-mpi has in the
 * buffers' place.
 *
 *	mpirun-p2p -n 2 ./mpi_allreduce
 */
#include <stdio.h>

#include <cuda_runtime.h>
#include <mpi.h>

#define COUNT 1000

int main(int argc, char **argv)
{
	int rank, ranks, wrong = 0, numbers[COUNT];
	const size_t size = sizeof numbers;
	void *gpu;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < COUNT; i++)
		numbers[i] = rank + i;
	if (cudaMalloc(&gpu, size) || cudaMemcpy(gpu, numbers, size, cudaMemcpyHostToDevice))
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Allreduce(MPI_IN_PLACE, gpu, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (cudaMemcpy(numbers, gpu, size, cudaMemcpyDeviceToHost) || cudaFree(gpu))
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = 0; i < COUNT; i++)
		wrong += numbers[i] != ranks * i + ranks * (ranks - 1) / 2;
	if (rank == 0)
		printf("%d numbers of %d ranks in GPU memory, %d wrong\n", COUNT, ranks, wrong);
	MPI_Finalize();
	return wrong != 0;
}
