/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends what a CUDA stream has written, and waits for it in a stream: mpirun-p2p -n 2 ./mpi_enqueue
 * To build it by hand: mpicc mpi_enqueue.c -o mpi_enqueue -lp2p-mpi -I CUDA/include -L CUDA/lib64 -lcudart
 */
#include <stdio.h>
#include <cuda_runtime.h>
#include <mpi.h>
#include <rdma/fi_p2p_mpi.h>

#define SIZE 1000000

int main(int argc, char **argv)
{
	static unsigned char got[SIZE];
	int level, rank, wrong;
	cudaStream_t cuda = NULL;
	MPIX_Stream stream;
	MPI_Comm comm;
	MPI_Info info = MPI_INFO_NULL;
	void *gpu;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (cudaMalloc(&gpu, SIZE) || cudaStreamCreate(&cuda) || MPI_Info_create(&info))
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Info_set(info, "type", "cudaStream_t");
	MPIX_Info_set_hex(info, "value", &cuda, sizeof cuda);
	MPIX_Stream_create(info, &stream);
	MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm);
	if (rank == 0 && !cudaMemsetAsync(gpu, 7, SIZE, cuda))
		MPIX_Send_enqueue(gpu, SIZE, MPI_BYTE, 1, 0, comm);
	if (rank == 1 && !MPIX_Recv_enqueue(gpu, SIZE, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE))
		cudaMemcpyAsync(got, gpu, SIZE, cudaMemcpyDeviceToHost, cuda);
	wrong = cudaStreamSynchronize(cuda) != cudaSuccess;
	for (int i = 0; rank == 1 && i < SIZE; i++)
		wrong += got[i] != 7;
	if (rank == 1)
		printf("%d bytes of GPU memory in a stream, %d wrong\n", SIZE, wrong);
	MPI_Finalize();
	return wrong != 0;
}
