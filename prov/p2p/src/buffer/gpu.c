/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the buffer library does with GPUs. See gpu.h. */
#include "buffer/gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"

/* dev/ logs, and has parameters. What is wrong with one of these is told. */
static void gpu_init_once(void)
{
	static struct fi_provider buffer_log = {.name = "p2p_buffer"};

	if (!log_prov)
		log_prov = &buffer_log;
	conf_read();
}

/* Is the runtime's GPU @gpu one to take? @data: NULL, or memory that has to be there */
static int gpu_try(int iface, int gpu, const char *data, size_t size, struct dev_mem *mem)
{
	struct dev_mem first, last;
	int ret = dev_open(iface);

	if (ret)
		return ret;
	if (data && (dev_find(data, &first) <= 0 || dev_find(data + size - 1, &last) <= 0 ||
		     first.ops->iface != iface || last.ops->iface != iface ||
		     first.ordinal != gpu || last.ordinal != gpu))
		return -FI_EINVAL;
	return dev_by_number(iface, gpu, mem);
}

int buffer_gpu_find(int gpu, const void *data, size_t size, struct dev_mem *mem)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int result = -FI_ENOSYS;

	pthread_once(&once, gpu_init_once);
	for (int iface = FI_HMEM_SYSTEM + 1; iface <= FI_HMEM_SYNAPSEAI; iface++) {
		int ret = gpu_try(iface, gpu, data, size, mem);

		if (!ret) {
			/* what the application copies to the GPU has to be there for our copies */
			mem->ops->sync();
			return 0;
		}
		/* a runtime that is not there tells less than another one */
		if (result == -FI_ENOSYS)
			result = ret;
	}
	return result == -FI_ENODEV ? -FI_EINVAL : result;
}

int buffer_gpu_open(const struct dev_mem *mem, size_t size, char **data,
		    struct dev_queue **queue)
{
	void *memory = NULL;
	struct dev_mem held;
	int ret = mem->ops->device(mem->ordinal, &held);

	if (ret)
		return ret;
	ret = mem->ops->queue_open(&held, false, queue);
	if (ret)
		goto close_device;
	ret = -posix_memalign(&memory, (size_t) sysconf(_SC_PAGESIZE), size);
	if (ret)
		goto close_queue;
	/* copies to and from memory that cannot be pinned are slower, and right */
	held.ops->pin(&held, memory, size);
	*data = memory;
	return 0;

close_queue:
	held.ops->queue_close(*queue);
close_device:
	held.ops->device_close(held.ctx);
	return ret;
}

void buffer_gpu_close(struct dev_queue *queue, char *data)
{
	const struct dev_ops *ops = queue->ops;
	void *ctx = queue->ctx;

	ops->queue_close(queue);
	ops->unpin(data);
	ops->device_close(ctx);
	free(data);
}

/* Of a copy whose call has failed part may have begun. */
int buffer_gpu_copy(struct dev_queue *queue, void *dst, const void *src, size_t size)
{
	int ret = queue->ops->queue_copy(queue, dst, src, size);

	if (!ret)
		ret = queue->ops->queue_mark(queue);
	queue->ops->queue_drain(queue);
	if (ret)
		return ret;
	return dev_queue_passed(queue, queue->marked) > 0 ? 0 : -FI_EIO;
}
