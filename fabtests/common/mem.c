/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kinds of memory that a buffer can be made of: what they share, and host memory itself. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ft.h"

#define HOST_ALIGN 4096
/*
 * From this size on buffers are mappings of their own, whatever malloc() is told: freed ones fault, and they are not in the
 * heap. The page before each buffer says how long its mapping is; 0: malloc() has it.
 */
#ifdef __SANITIZE_ADDRESS__
#define HOST_MAPPED                                                                            \
	SIZE_MAX /* it knows freed buffers, and what lies beside others, of malloc()'s alone */
#else
#define HOST_MAPPED ((size_t) 128 << 10)
#endif

static int host_init(int device)
{
	return 0;
}

static int host_alloc(size_t size, void **addr)
{
	const size_t mapped = size < HOST_MAPPED ? 0 : HOST_ALIGN + size;
	void *base;

	if (!mapped && posix_memalign(&base, HOST_ALIGN, HOST_ALIGN + size))
		return ft_fail(-FI_ENOMEM, "posix_memalign", "%zu bytes", size);
	if (mapped) {
		base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
		if (base == MAP_FAILED)
			return ft_fail(-FI_ENOMEM, "mmap", "%zu bytes", size);
	}
	*(size_t *) base = mapped;
	*addr = (char *) base + HOST_ALIGN;
	/*
	 * pages that nobody has written are all the same page of zeros, which would be too fast
	 * to read
	 */
	memset(*addr, 0x5a, size);
	return 0;
}

static void host_release(void *addr)
{
	void *base = (char *) addr - HOST_ALIGN;
	const size_t mapped = *(size_t *) base;

	if (mapped)
		munmap(base, mapped);
	else
		free(base);
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
	.release = host_release,
	.to = host_copy,
	.from = host_copy,
};

int ft_load(const char *soname, const struct ft_symbol *symbols, size_t count)
{
	void *lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		ft_err("dlopen: %s: there is no such GPU here, or LD_LIBRARY_PATH does not "
		       "name its library's directory (or the emulator's)",
		       dlerror());
		return -FI_ENOSYS;
	}
	for (size_t i = 0; i < count; i++) {
		void *sym = dlsym(lib, symbols[i].name);

		if (!sym) {
			ft_err("dlsym: %s has no %s", soname, symbols[i].name);
			return -FI_ENOSYS;
		}
		memcpy(symbols[i].slot, &sym, sizeof(sym));
	}
	return 0;
}

const struct ft_mem_ops *ft_mem_ops(enum fi_hmem_iface iface)
{
	switch (iface) {
	case FI_HMEM_CUDA:
		return &ft_cuda_ops;
	case FI_HMEM_ROCR:
		return &ft_rocr_ops;
	default:
		return &host_ops;
	}
}
