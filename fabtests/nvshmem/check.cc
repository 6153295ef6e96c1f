/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVSHMEM's calls between two and more PEs, with every byte compared: puts and gets by the host, by streams and by kernels;
 * signals, single values, atomic operations, collective calls. contrib/check-nvshmem compiles and runs it. The PE has its
 * number in RANK, their number is in RANKS, and ID names a file that does not exist yet.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#define LONGEST (((size_t) 16 << 20) + 3)
#define ODD 5
#define ROUNDS 200

static int pe, pes, next_pe, last_pe, failed;

#define CUDA(call)                                                                             \
	do {                                                                                   \
		cudaError_t error = (call);                                                    \
		if (error != cudaSuccess) {                                                    \
			printf("PE %d: %s: %s\n", pe, #call, cudaGetErrorString(error));       \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

static unsigned char byte_of(size_t at, int from, int round)
{
	return (unsigned char) ((at * 2654435761u + (unsigned) from * 977 +
				 (unsigned) round * 131) >>
				7);
}

static void tell(const char *what, bool right)
{
	failed += !right;
	if (!right || !pe)
		printf("PE %d: %s: %s\n", pe, what, right ? "right" : "WRONG");
	fflush(stdout);
}

/* ---- puts and gets ---- */

enum way { HOST_PUT, HOST_GET, STREAM_PUT, THREAD_PUT, BLOCK_PUT, BLOCK_GET, PUT_SIGNAL, WAYS };

static const char *const way_names[] = {"host, put",
					"host, get",
					"stream, put",
					"kernel, put of one thread",
					"kernel, put of a block",
					"kernel, get of a block",
					"kernel, put and signal"};

static __global__ void move(int way, char *to, const char *from, size_t len, uint64_t *word,
			    int next_pe, int last_pe)
{
	if (way == THREAD_PUT && !threadIdx.x)
		nvshmem_putmem(to, from, len, next_pe);
	else if (way == BLOCK_PUT)
		nvshmemx_putmem_block(to, from, len, next_pe);
	else if (way == BLOCK_GET)
		nvshmemx_getmem_block(to, from, len, last_pe);
	else if (way == PUT_SIGNAL)
		nvshmemx_putmem_signal_block(to, from, len, word, 1, NVSHMEM_SIGNAL_ADD,
					     next_pe);
	__syncthreads();
	if (threadIdx.x)
		return;
	nvshmem_quiet();
	if (way == PUT_SIGNAL)
		nvshmem_signal_wait_until(word, NVSHMEM_CMP_EQ, 1);
}

static void move_one(int way, char *to, char *from, size_t len, uint64_t *word,
		     cudaStream_t stream)
{
	switch (way) {
	case HOST_PUT:
		nvshmem_putmem(to, from, len, next_pe);
		nvshmem_quiet();
		break;
	case HOST_GET:
		nvshmem_getmem(to, from, len, last_pe);
		break;
	case STREAM_PUT:
		nvshmemx_putmem_on_stream(to, from, len, next_pe, stream);
		nvshmemx_quiet_on_stream(stream);
		break;
	default:
		move<<<1, 128, 0, stream>>>(way, to, from, len, word, next_pe, last_pe);
		CUDA(cudaGetLastError());
	}
	CUDA(cudaStreamSynchronize(stream));
}

/* What the PE before has, in either direction, comes into a guarded place. */
static void moves(char *tx, char *rx, uint64_t *word, cudaStream_t stream)
{
	static const size_t lens[] = {1, 7, 8, 4096, 65537, 1 << 20, LONGEST};
	std::vector<unsigned char> host(LONGEST + 2 * ODD);
	int round = 0;

	for (int way = 0; way < WAYS; way++) {
		bool right = true;

		for (size_t len : lens) {
			for (size_t i = 0; i < len; i++)
				host[i] = byte_of(i, pe, round);
			CUDA(cudaMemcpy(tx + ODD, host.data(), len, cudaMemcpyDefault));
			CUDA(cudaMemset(rx, 0xee, len + 2 * ODD));
			CUDA(cudaMemset(word, 0, sizeof(*word)));
			CUDA(cudaDeviceSynchronize());
			nvshmem_barrier_all();
			move_one(way, rx + ODD, tx + ODD, len, word, stream);
			nvshmem_barrier_all();
			CUDA(cudaMemcpy(host.data(), rx, len + 2 * ODD, cudaMemcpyDefault));
			for (size_t i = 0; i < ODD; i++)
				right = right && host[i] == 0xee && host[ODD + len + i] == 0xee;
			for (size_t i = 0; i < len; i++)
				right = right && host[ODD + i] == byte_of(i, last_pe, round);
			round++;
		}
		tell(way_names[way], right);
	}
}

/* ---- words ---- */

/* @words: sums on PE 0, what was fetched here, what came by nvshmem_uint64_p() */
static __global__ void words_of(uint64_t *words, int pe, int next_pe, int last_pe)
{
	for (int i = 0; i < ROUNDS; i++) {
		nvshmem_uint64_atomic_add(&words[0], (uint64_t) i, 0);
		nvshmem_uint64_atomic_inc(&words[1], 0);
	}
	words[8] = nvshmem_uint64_atomic_fetch_add(&words[2], 1, 0);
	words[9] = nvshmem_uint64_atomic_compare_swap(&words[3], 0, (uint64_t) pe + 1, next_pe);
	words[10] = nvshmem_uint64_atomic_swap(&words[4], (uint64_t) pe + 100, next_pe);
	nvshmem_uint64_p(&words[5], (uint64_t) pe + 1000, next_pe);
	nvshmemx_signal_op(&words[6], (uint64_t) pe + 7, NVSHMEM_SIGNAL_SET, next_pe);
	nvshmem_quiet();
	nvshmem_signal_wait_until(&words[6], NVSHMEM_CMP_EQ, (uint64_t) last_pe + 7);
	words[11] = nvshmem_uint64_g(&words[7], next_pe);
}

static void words_all(uint64_t *words, cudaStream_t stream)
{
	uint64_t got[12] = {0};
	const uint64_t own = (uint64_t) pe + 50, sum = (uint64_t) ROUNDS * (ROUNDS - 1) / 2;

	CUDA(cudaMemset(words, 0, sizeof(got)));
	CUDA(cudaMemcpy(&words[7], &own, sizeof(own), cudaMemcpyDefault));
	CUDA(cudaDeviceSynchronize());
	nvshmem_barrier_all();
	words_of<<<1, 1, 0, stream>>>(words, pe, next_pe, last_pe);
	CUDA(cudaGetLastError());
	CUDA(cudaStreamSynchronize(stream));
	nvshmem_barrier_all();
	CUDA(cudaMemcpy(got, words, sizeof(got), cudaMemcpyDefault));
	tell("kernel, additions of all PEs",
	     pe || (got[0] == sum * (uint64_t) pes && got[1] == (uint64_t) ROUNDS * pes &&
		    got[2] == (uint64_t) pes));
	tell("kernel, fetched words", got[8] < (uint64_t) pes && !got[9] && !got[10]);
	tell("kernel, swapped words",
	     got[3] == (uint64_t) last_pe + 1 && got[4] == (uint64_t) last_pe + 100);
	tell("kernel, single values",
	     got[5] == (uint64_t) last_pe + 1000 && got[11] == (uint64_t) next_pe + 50);
}

/* ---- collective calls ---- */

static __global__ void meet(int times)
{
	for (int i = 0; i < times; i++)
		nvshmem_barrier_all();
}

static void collectives(int *to, int *from, cudaStream_t stream)
{
	const size_t count = 10007;
	std::vector<int> host(count);
	bool right = true;
	int times = 20;
	void *args[] = {&times};

	for (size_t i = 0; i < count; i++)
		host[i] = (int) i * (pe + 1);
	CUDA(cudaMemcpy(from, host.data(), count * sizeof(int), cudaMemcpyDefault));
	nvshmem_barrier_all();
	nvshmemx_int_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, to, from, count, stream);
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaMemcpy(host.data(), to, count * sizeof(int), cudaMemcpyDefault));
	for (size_t i = 0; i < count; i++)
		right = right && host[i] == (int) i * pes * (pes + 1) / 2;
	tell("stream, a sum", right);
	nvshmem_barrier_all();
	nvshmemx_int_broadcast_on_stream(NVSHMEM_TEAM_WORLD, to, from, count, pes - 1, stream);
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaMemcpy(host.data(), to, count * sizeof(int), cudaMemcpyDefault));
	right = true;
	for (size_t i = 0; i < count; i++)
		right = right && host[i] == (int) i * pes;
	tell("stream, a broadcast", right);
	nvshmem_barrier_all();
	right = !nvshmemx_collective_launch((const void *) meet, 1, 1, args, 0, stream);
	CUDA(cudaStreamSynchronize(stream));
	tell("kernel, barriers", right);
}

/* ---- times ---- */

static __global__ void ping(char *data, uint64_t *word, size_t len, int pe, int other,
			    int rounds)
{
	for (int i = 1; i <= rounds; i++) {
		if (pe && !threadIdx.x)
			nvshmem_signal_wait_until(word, NVSHMEM_CMP_GE, (uint64_t) i);
		__syncthreads();
		nvshmemx_putmem_signal_block(data, data, len, word, (uint64_t) i,
					     NVSHMEM_SIGNAL_SET, other);
		if (!pe && !threadIdx.x)
			nvshmem_signal_wait_until(word, NVSHMEM_CMP_GE, (uint64_t) i);
		__syncthreads();
	}
}

static void times_of(char *data, uint64_t *word, cudaStream_t stream)
{
	cudaEvent_t begin, end;
	float took;

	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	for (size_t len = 8; len <= (size_t) 1 << 20; len *= len == 8 ? 8192 : 16) {
		CUDA(cudaMemset(word, 0, sizeof(*word)));
		CUDA(cudaDeviceSynchronize());
		nvshmem_barrier_all();
		CUDA(cudaEventRecord(begin, stream));
		if (pe < 2)
			ping<<<1, 256, 0, stream>>>(data, word, len, pe, !pe, ROUNDS);
		CUDA(cudaEventRecord(end, stream));
		CUDA(cudaStreamSynchronize(stream));
		CUDA(cudaEventElapsedTime(&took, begin, end));
		if (!pe)
			printf("put of %zu bytes and signal, one way: %.1f us\n", len,
			       took * 1000 / (2 * ROUNDS));
		nvshmem_barrier_all();
	}
}

/* ---- the program ---- */

static void begin()
{
	nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
	nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
	const char *name = getenv("ID");
	char part[4096];
	FILE *file = NULL;
	int devices;

	pe = atoi(getenv("RANK"));
	pes = atoi(getenv("RANKS"));
	next_pe = (pe + 1) % pes;
	last_pe = (pe + pes - 1) % pes;
	CUDA(cudaGetDeviceCount(&devices));
	CUDA(cudaSetDevice(pe % devices));
	if (!pe) {
		nvshmemx_get_uniqueid(&id);
		snprintf(part, sizeof(part), "%s.part", name);
		file = fopen(part, "w");
		if (!file || fwrite(&id, sizeof(id), 1, file) != 1 || fclose(file) ||
		    rename(part, name))
			exit(1);
	}
	while (pe && !(file = fopen(name, "r")))
		usleep(1000);
	if (pe && fread(&id, sizeof(id), 1, file) != 1)
		exit(1);
	nvshmemx_set_attr_uniqueid_args(pe, pes, &id, &attr);
	if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr))
		exit(1);
}

int main()
{
	cudaStream_t stream;
	char *tx, *rx;
	uint64_t *words;

	begin();
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	tx = (char *) nvshmem_malloc(LONGEST + 2 * ODD);
	rx = (char *) nvshmem_malloc(LONGEST + 2 * ODD);
	words = (uint64_t *) nvshmem_malloc(4096);
	if (!tx || !rx || !words)
		exit(1);
	moves(tx, rx, words, stream);
	words_all(words, stream);
	collectives((int *) rx, (int *) tx, stream);
	times_of(rx, words, stream);
	nvshmem_barrier_all();
	printf("PE %d of %d: %s\n", pe, pes, failed ? "FAILED" : "passed");
	fflush(stdout);
	nvshmem_finalize();
	return failed;
}
