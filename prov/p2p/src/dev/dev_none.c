/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a runtime cannot do. See dev_none.h. */
#include "dev/dev_none.h"

#include <rdma/fi_errno.h>

void dev_none_sync(void)
{
}

int dev_none_current(struct dev_mem *mem)
{
	return 0;
}

bool dev_none_gone(const void *ctx)
{
	return false;
}

int dev_none_copy_short(const struct dev_mem *mem, void *dst, const void *src, size_t len)
{
	return -FI_ENOSYS;
}

int dev_none_node(const struct dev_mem *mem)
{
	return -1;
}

int dev_none_queue_rows(struct dev_queue *queue, void *dst, const void *src, size_t len,
			size_t rows, size_t pitch)
{
	return -FI_ENOSYS;
}

int dev_none_queue_batch(struct dev_queue *queue, const struct dev_copy *copies, size_t count)
{
	return -FI_ENOSYS;
}

int dev_none_queue_put(struct dev_queue *queue, const struct dev_copy *copies, size_t count)
{
	return -FI_ENOSYS;
}

/* ---- for other processes ---- */

static const char dev_none_shared[] =
	"this GPU runtime's memory is not shared with other processes yet";
static const char dev_none_opened[] = "this GPU runtime opens no memory of other processes yet";

int dev_none_ipc_export(const struct dev_mem *mem, void *handle, const char **why)
{
	*why = dev_none_shared;
	return -FI_ENOSYS;
}

int dev_none_ipc_open(const struct dev_mem *mem, const void *handle, void **addr,
		      const char **why)
{
	*why = dev_none_opened;
	return -FI_ENOSYS;
}

void dev_none_ipc_close(void *ctx, void *addr)
{
}

int dev_none_ipc_share(const struct dev_mem *mem, int *fd, const char **why)
{
	*why = dev_none_shared;
	return -FI_ENOSYS;
}

int dev_none_ipc_attach(const struct dev_mem *mem, int fd, size_t size, void **addr,
			const char **why)
{
	*why = dev_none_opened;
	return -FI_ENOSYS;
}

void dev_none_ipc_detach(void *addr, size_t size)
{
}

/* ---- for what the device starts ---- */

void dev_none_device_close(void *ctx)
{
}

int dev_none_host_address(const struct dev_mem *mem, void *host, void **addr)
{
	return -FI_ENOSYS;
}

int dev_none_window_open(const struct dev_mem *mem, size_t len, struct dev_window *window)
{
	return -FI_ENOSYS;
}

void dev_none_window_close(const struct dev_mem *mem, struct dev_window *window)
{
}

int dev_none_stream_steps(const struct dev_mem *mem, void *stream, const struct dev_step *steps,
			  size_t count)
{
	return -FI_ENOSYS;
}

int dev_none_stream_copy(const struct dev_mem *mem, void *stream, const struct dev_copy *copy)
{
	return -FI_ENOSYS;
}

const char *dev_none_loads_late(void)
{
	return NULL;
}

int dev_none_kernel_load(const struct dev_mem *mem, const char *text, const char *name,
			 void **kernel)
{
	return -FI_ENOSYS;
}

int dev_none_queue_kernel(struct dev_queue *queue, void *kernel, void **args,
			  unsigned int blocks, unsigned int threads)
{
	return -FI_ENOSYS;
}

int dev_none_stream_captured(void *stream, uint64_t *id, void **graph)
{
	return 0;
}

int dev_none_graph_keep(void *graph, void (*end)(void *arg), void *arg)
{
	return -FI_ENOSYS;
}
