/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kinds of memory a buffer can be made of, and host memory itself. */
#include <stdlib.h>
#include <string.h>

#include "ft.h"

#define HOST_ALIGN 4096

static int host_init(int device)
{
	return 0;
}

static int host_alloc(size_t size, void **addr)
{
	if (posix_memalign(addr, HOST_ALIGN, size))
		return ft_fail(-FI_ENOMEM, "posix_memalign", "%zu bytes", size);
	/* pages that nobody has written are all the same page of zeros: too fast to read */
	memset(*addr, 0x5a, size);
	return 0;
}

static int host_copy(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
	return 0;
}

static const struct ft_mem_ops host_ops = {
	.name = "host",
	.iface = FI_HMEM_SYSTEM,
	.init = host_init,
	.alloc = host_alloc,
	.release = free,
	.to = host_copy,
	.from = host_copy,
};

const struct ft_mem_ops *ft_mem_ops(enum fi_hmem_iface iface)
{
	return iface == FI_HMEM_CUDA ? &ft_cuda_ops : &host_ops;
}
