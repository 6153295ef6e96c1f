/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory that kernels and the proxy share. See gpu_mem.h. */
#include "gpu/gpu_mem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include "base/log.h"
#include "dev/dev_none.h"

int gpu_dev_open(struct gpu_dev *dev, const struct fi_xpu_attr *attr)
{
	const struct fi_xpu_ops *ops = attr->ops;
	int ret;

	*dev = (struct gpu_dev){.number = attr->device};
	if (ops && ops->size >= offsetof(struct fi_xpu_ops, free))
		dev->import = ops->import;
	if (attr->iface == FI_HMEM_SYSTEM)
		return 0;
	/* which is not closed: kernels may have what is in its context for longer than we know */
	ret = dev_by_number(attr->iface, (int) attr->device, &dev->mem);
	if (!ret && dev->mem.ops->host_address == dev_none_host_address)
		ret = -FI_ENOSYS;
	if (ret)
		P2P_WARN("no device %zu of interface %d for kernels to run on: %s\n",
			 (size_t) attr->device, (int) attr->iface, fi_strerror(-ret));
	return ret;
}

int gpu_host_alloc(const struct gpu_dev *dev, size_t len, struct gpu_host *host)
{
	const size_t page = (size_t) getpagesize();
	const struct dev_ops *ops = dev->mem.ops;
	int ret = 0;

	len = (len + page - 1) / page * page;
	*host = (struct gpu_host){.len = len};
	host->host = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (host->host == MAP_FAILED) {
		*host = (struct gpu_host){.len = 0};
		P2P_WARN("no memory for rings and completions: %zu bytes\n", len);
		return -FI_ENOMEM;
	}
	host->addr = host->host;
	if (dev->import) {
		ret = dev->import(dev->number, host->host, len, FI_XPU_IMPORT_DEVICEMAP,
				  &host->addr);
	} else if (ops) {
		ret = ops->pin(&dev->mem, host->host, len);
		host->pinned = !ret;
		if (!ret)
			ret = ops->host_address(&dev->mem, host->host, &host->addr);
	}
	if (ret)
		gpu_host_free(dev, host);
	return ret;
}

void gpu_host_unpin(const struct gpu_dev *dev, struct gpu_host *host)
{
	if (host->pinned)
		dev->mem.ops->unpin(host->host);
	host->pinned = false;
}

void gpu_host_free(const struct gpu_dev *dev, struct gpu_host *host)
{
	gpu_host_unpin(dev, host);
	if (host->host)
		munmap(host->host, host->len);
	*host = (struct gpu_host){.len = 0};
}

int gpu_window_open(const struct gpu_dev *dev, size_t len, struct dev_window *window)
{
	return dev->mem.ops ? dev->mem.ops->window_open(&dev->mem, len, window) : -FI_ENOSYS;
}

void gpu_window_close(const struct gpu_dev *dev, struct dev_window *window)
{
	dev->mem.ops->window_close(&dev->mem, window);
	*window = (struct dev_window){.len = 0};
}

int gpu_state_alloc(const struct gpu_dev *dev, const void *init, size_t len, void **addr)
{
	int ret;

	if (dev->mem.ops)
		ret = dev->mem.ops->alloc(&dev->mem, len, addr);
	else
		ret = posix_memalign(addr, 128, len) ? -FI_ENOMEM : 0;
	if (ret)
		return ret;
	ret = gpu_state_store(dev, *addr, init, len);
	if (ret)
		gpu_state_free(dev, *addr);
	return ret;
}

int gpu_state_store(const struct gpu_dev *dev, void *addr, const void *from, size_t len)
{
	if (dev->mem.ops)
		return dev->mem.ops->store(&dev->mem, addr, from, len);
	memcpy(addr, from, len);
	return 0;
}

void gpu_state_free(const struct gpu_dev *dev, void *addr)
{
	if (dev->mem.ops && addr)
		dev->mem.ops->free(&dev->mem, addr);
	else
		free(addr);
}
