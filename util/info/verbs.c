/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Does a verbs device take a dma-buf? Only its driver knows, so this tries one. See info.h.
 *
 * If a GPU has memory, its dma-buf is tried. Else the descriptor is one that cannot be a
 * dma-buf. A driver that knows dma-bufs calls it bad; another driver says that it is not
 * supported.
 */
#include "info.h"

#include "config.h"

#if HAVE_VERBS
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

static struct {
	__typeof__(ibv_get_device_list) *get_list;
	__typeof__(ibv_free_device_list) *free_list;
	__typeof__(ibv_get_device_name) *get_name;
	__typeof__(ibv_open_device) *open;
	__typeof__(ibv_close_device) *close;
	__typeof__(ibv_alloc_pd) *pd_alloc;
	__typeof__(ibv_dealloc_pd) *pd_free;
	__typeof__(ibv_reg_dmabuf_mr) *reg_dmabuf;
	__typeof__(ibv_dereg_mr) *dereg;
} verbs;

static const struct info_symbol verbs_symbols[] = {
	{"ibv_get_device_list", &verbs.get_list}, {"ibv_free_device_list", &verbs.free_list},
	{"ibv_get_device_name", &verbs.get_name}, {"ibv_open_device", &verbs.open},
	{"ibv_close_device", &verbs.close},       {"ibv_alloc_pd", &verbs.pd_alloc},
	{"ibv_dealloc_pd", &verbs.pd_free},       {"ibv_reg_dmabuf_mr", &verbs.reg_dmabuf},
	{"ibv_dereg_mr", &verbs.dereg},
};

/* Exports device memory as a dma-buf. -1: no GPU gives one. */
static int verbs_expose(const struct info *info, const struct info_gpu **from)
{
	int fd = -1;

	for (size_t i = 0; fd < 0 && i < info->gpu_count; i++) {
		*from = &info->gpus[i];
		if ((*from)->expose && (*from)->buffer && (*from)->dmabuf == INFO_YES)
			fd = (*from)->expose(*from);
	}
	return fd;
}

static void verbs_try(struct info_nic *nic, const struct info *info, struct ibv_pd *pd)
{
	const struct info_gpu *gpu = NULL;
	int fd = verbs_expose(info, &gpu), error;
	struct ibv_mr *mr;

	mr = verbs.reg_dmabuf(pd, 0, INFO_LONG, 0, fd,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	error = errno;
	if (mr) {
		verbs.dereg(mr);
		nic->dmabuf = INFO_YES;
		nic->dmabuf_how = info_text("tried with memory of %s device %d", gpu->runtime,
					    gpu->number);
	} else if (fd >= 0) {
		nic->dmabuf = INFO_NO;
		nic->dmabuf_how = info_text("tried with memory of %s device %d: %s",
					    gpu->runtime, gpu->number, strerror(error));
	} else {
		nic->dmabuf =
			error == EBADF ? INFO_YES
			: error == EOPNOTSUPP || error == EPROTONOSUPPORT || error == ENOSYS
				? INFO_NO
				: INFO_UNKNOWN;
		nic->dmabuf_how = info_text("tried with no dma-buf: %s", strerror(error));
	}
	if (fd >= 0)
		close(fd);
}

static void verbs_open(struct info_nic *nic, const struct info *info, struct ibv_device *device)
{
	struct ibv_context *context = verbs.open(device);
	struct ibv_pd *pd;

	if (!context) {
		nic->dmabuf_how = info_text("it cannot be opened: %s", strerror(errno));
		return;
	}
	pd = verbs.pd_alloc(context);
	if (pd) {
		verbs_try(nic, info, pd);
		verbs.pd_free(pd);
	} else {
		nic->dmabuf_how = info_text("it has no protection domain: %s", strerror(errno));
	}
	verbs.close(context);
}

void info_nic_try_dmabuf(struct info_nic *nic, const struct info *info)
{
	struct ibv_device **devices;
	int count = 0;

	if (!info_load("libibverbs.so.1", verbs_symbols, INFO_COUNT(verbs_symbols),
		       &nic->dmabuf_how))
		return;
	devices = verbs.get_list(&count);
	nic->dmabuf_how = "libibverbs does not list the device";
	for (int i = 0; i < count; i++) {
		if (!strcmp(verbs.get_name(devices[i]), nic->name))
			verbs_open(nic, info, devices[i]);
	}
	if (devices)
		verbs.free_list(devices);
}

#else

void info_nic_try_dmabuf(struct info_nic *nic, const struct info *info)
{
	nic->dmabuf_how = "built without libibverbs' headers";
}

#endif
