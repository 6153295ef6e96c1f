/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The GPU runtimes that there are. See gpu.h. */
#include "buffer/gpu.h"

#include <rdma/fi_errno.h>

#include "config.h"

/* The first that has a GPU of the number wins. */
static const struct gpu_ops *const runtimes[] = {
#if HAVE_CUDA
	&buffer_gpu_cuda,
#endif
#if HAVE_ROCM
	&buffer_gpu_rocr,
#endif
	NULL,
};

/* A runtime that is not there says -FI_ENOSYS. What another one says tells more. */
static int worse(int before, int ret)
{
	return before == -FI_ENOSYS ? ret : before;
}

int buffer_gpu_find(int gpu, const struct gpu_ops **ops)
{
	int result = -FI_ENOSYS;

	for (size_t i = 0; runtimes[i]; i++) {
		int ret = runtimes[i]->load();

		if (!ret)
			ret = runtimes[i]->hold(gpu);
		if (!ret) {
			*ops = runtimes[i];
			return 0;
		}
		result = worse(result, ret);
	}
	return result;
}

int buffer_gpu_find_owner(int gpu, const void *data, size_t size, const struct gpu_ops **ops)
{
	int result = -FI_ENOSYS;

	for (size_t i = 0; runtimes[i]; i++) {
		int ret = runtimes[i]->load(), owner = -1;

		if (!ret)
			ret = runtimes[i]->owner(data, size, &owner);
		if (!ret)
			ret = owner == gpu ? runtimes[i]->hold(gpu) : -FI_EINVAL;
		if (!ret) {
			*ops = runtimes[i];
			return 0;
		}
		result = worse(result, ret);
	}
	return result;
}
