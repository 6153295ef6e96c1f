/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels that move atoms, also from rank to rank. See comd_kernels.h. */
#include "gpu_kernel.h"
#include "gpu_xpu.h"

#include "comd_kernels.h"

#define COMD_SCOPE FI_XPU_WORK_ITEM
#define COMD_STEP_SHIFT 32
#define COMD_TIMEOUT 60000

/* ---- atoms ---- */

/* The list that a turn takes atoms from; those that stay, and those that come, get into the other one. */
__device__ static int comd_from(const struct comd &comd, uint64_t step, int axis)
{
	return (int) (((step - 1) * (uint64_t) comd.axes + (uint64_t) axis) % 2);
}

__device__ static struct comd_message *comd_leaving(const struct comd &comd, int axis, int way)
{
	return (struct comd_message *) (comd.out + comd_out(&comd, axis, way));
}

__device__ static struct comd_message *comd_coming(const struct comd &comd, uint64_t step,
						   int axis, int way)
{
	return (struct comd_message *) (comd.in + comd_in(&comd, step, axis, way));
}

__device__ static void comd_append(struct comd_atom *atoms, uint64_t *count,
				   const struct comd_atom &atom)
{
	atoms[atomicAdd((unsigned long long *) count, 1ULL)] = atom;
}

__device__ static void comd_pack_all(const struct comd &comd, uint64_t step, int axis)
{
	const int from = comd_from(comd, step, axis);
	const uint64_t count = comd.listed[from];

	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += (uint64_t) gridDim.x * blockDim.x) {
		struct comd_atom atom = comd.list[from][i];
		int way;

		if (!axis)
			comd_advance(&atom, comd.cells, step);
		way = comd_way(&atom, comd.cell, axis);
		if (way < 0) {
			comd_append(comd.list[!from], &comd.listed[!from], atom);
		} else {
			struct comd_message *message = comd_leaving(comd, axis, way);

			comd_append(message->atom, &message->count, atom);
		}
	}
}

__device__ static void comd_unpack_all(const struct comd &comd, uint64_t step, int axis)
{
	const int from = comd_from(comd, step, axis);

	for (int way = 0; way < COMD_WAYS; way++) {
		const struct comd_message *message = comd_coming(comd, step, axis, way);

		for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < message->count;
		     i += (uint64_t) gridDim.x * blockDim.x)
			comd_append(comd.list[!from], &comd.listed[!from], message->atom[i]);
		if (!blockIdx.x && !threadIdx.x)
			comd_leaving(comd, axis, way)->count = 0;
	}
	if (!blockIdx.x && !threadIdx.x)
		comd.listed[from] = 0;
}

__global__ static void comd_pack_kernel(struct comd comd, uint64_t step, int axis)
{
	comd_pack_all(comd, step, axis);
}

__global__ static void comd_unpack_kernel(struct comd comd, uint64_t step, int axis)
{
	comd_unpack_all(comd, step, axis);
}

/* ---- messages: one thread exchanges them ---- */

/* How many operations a kernel has posted, and what the counters were before */
struct comd_counts {
	uint64_t tx, rx;
};

__device__ static int comd_await(struct fid_xpu_cntr *cntr, uint64_t all)
{
	fi_p2p_xpu_cntr_wait(cntr, all, COMD_TIMEOUT, COMD_SCOPE);
	return fi_p2p_xpu_cntr_read(cntr, COMD_SCOPE) < all ? -FI_EIO : 0;
}

__device__ static int comd_put(struct comd &comd, uint64_t step, int axis, int way,
			       struct comd_counts &counts)
{
	const uint64_t count = comd_leaving(comd, axis, way)->count;
	int ret = 0;

	if (count) {
		XPU_RETRY(ret, fi_p2p_xpu_put(&comd.ep, comd.target[axis][way],
					      comd_in(&comd, step, axis, way) + comd_bytes(0),
					      comd_out(&comd, axis, way) + comd_bytes(0),
					      (uint32_t) (count * sizeof(struct comd_atom)), 0,
					      COMD_SCOPE));
		counts.tx++;
	}
	if (!ret)
		XPU_RETRY(ret,
			  fi_p2p_xpu_signal_set(&comd.ep, comd.signal_target[axis][way],
						comd_word(step, axis, way) * sizeof(uint64_t),
						step << COMD_STEP_SHIFT | count,
						FI_P2P_XPU_NO_FENCE, COMD_SCOPE));
	counts.tx++;
	return ret;
}

/* Waits for the neighbour's signal. What it bears completes the message. */
__device__ static int comd_take(struct comd &comd, uint64_t step, int axis, int way)
{
	const uint64_t *word = &comd.signal[comd_word(step, axis, way)];
	const int ret = gpu_await(word, step << COMD_STEP_SHIFT, &comd.tx);

	if (!ret)
		comd_coming(comd, step, axis, way)->count = fi_p2p_xpu_load(word) & 0xffffffffU;
	return ret;
}

__device__ static int comd_exchange_puts(struct comd &comd, uint64_t step, int axis,
					 struct comd_counts &counts)
{
	int ret = 0;

	for (int way = 0; way < COMD_WAYS && !ret; way++)
		ret = comd_put(comd, step, axis, way, counts);
	for (int way = 0; way < COMD_WAYS && !ret; way++)
		ret = comd_take(comd, step, axis, way);
	return ret ? ret : comd_await(&comd.tx, counts.tx);
}

/* What comes along one way is of the neighbour on the other side. */
__device__ static int comd_exchange_messages(struct comd &comd, uint64_t step, int axis,
					     struct comd_counts &counts)
{
	int ret = 0;

	for (int way = 0; way < COMD_WAYS && !ret; way++)
		XPU_RETRY(ret,
			  fi_p2p_xpu_trecv(&comd.ep, comd_coming(comd, step, axis, way),
					   comd_bytes(comd.most), &comd.in_desc,
					   &comd.peer[axis][!way], comd_word(step, axis, way),
					   0, nullptr, 0, COMD_SCOPE));
	for (int way = 0; way < COMD_WAYS && !ret; way++) {
		struct comd_message *message = comd_leaving(comd, axis, way);

		XPU_RETRY(ret,
			  fi_p2p_xpu_tsend(&comd.ep, message, comd_bytes(message->count),
					   &comd.out_desc, 0, &comd.peer[axis][way],
					   comd_word(step, axis, way), nullptr, 0, COMD_SCOPE));
	}
	counts.tx += COMD_WAYS;
	counts.rx += COMD_WAYS;
	if (!ret)
		ret = comd_await(&comd.rx, counts.rx);
	return ret ? ret : comd_await(&comd.tx, counts.tx);
}

__global__ static void comd_run_kernel(struct comd comd, int form)
{
	struct comd_counts counts = {fi_p2p_xpu_cntr_read(&comd.tx, COMD_SCOPE),
				     fi_p2p_xpu_cntr_read(&comd.rx, COMD_SCOPE)};
	uint64_t met = 0;

	/* nobody posts before all have read */
	gpu_meet(comd.meet, ++met);
	for (uint64_t turn = 0; turn < comd.steps * (uint64_t) comd.axes; turn++) {
		const uint64_t step = turn / (uint64_t) comd.axes + 1;
		const int axis = (int) (turn % (uint64_t) comd.axes);

		comd_pack_all(comd, step, axis);
		gpu_meet(comd.meet, ++met);
		if (!blockIdx.x && !threadIdx.x) {
			int ret = form == COMD_PUT
					  ? comd_exchange_puts(comd, step, axis, counts)
					  : comd_exchange_messages(comd, step, axis, counts);

			*comd.failed = (uint64_t) -ret;
		}
		gpu_meet(comd.meet, ++met);
		if (fi_p2p_xpu_load(comd.failed))
			return;
		comd_unpack_all(comd, step, axis);
		gpu_meet(comd.meet, ++met);
	}
}

/* ---- launching ---- */

int comd_load(void)
{
	int ret = GPU_LOAD(comd_pack_kernel);

	return ret ? ret : GPU_LOAD(comd_unpack_kernel);
}

int comd_pack(const struct comd *comd, uint64_t step, int axis, void *stream)
{
	return GPU_LAUNCH(comd_pack_kernel, comd->blocks, comd->threads, GPU_STREAM(stream),
			  *comd, step, axis);
}

int comd_unpack(const struct comd *comd, uint64_t step, int axis, void *stream)
{
	return GPU_LAUNCH(comd_unpack_kernel, comd->blocks, comd->threads, GPU_STREAM(stream),
			  *comd, step, axis);
}

int comd_run(const struct comd *comd, enum comd_form form, void *stream)
{
	return GPU_LAUNCH(comd_run_kernel, comd->blocks, comd->threads, GPU_STREAM(stream),
			  *comd, (int) form);
}
