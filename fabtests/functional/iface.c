/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_iface: what the application says of memory that it registers, rightly or wrongly, in a domain with FI_HMEM
 * and without, and in a program of old, whose struct fi_mr_attr has no room for it.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ft_test.h"

#define LEN ((size_t) 8192)
#define UNKNOWN 99
#define OLD_API FI_VERSION(1, 8) /* the last one without iface */

/**
 * struct side - a domain, and memory of each kind.
 * @own:	the device's runtime
 * @pinned:	host memory of that runtime; NULL: not tried
 */
struct side {
	struct ft_ctx ctx;
	enum fi_hmem_iface own;
	struct ft_buf device, host;
	void *pinned;
};

/* ---- CUDA's host memory ---- */

static struct {
	int (*alloc)(void **addr, size_t size, unsigned int flags);
	int (*free)(void *addr);
} cuda;

static int pinned_alloc(struct side *s)
{
	static const struct ft_symbol symbols[] = {
		{"cuMemHostAlloc", &cuda.alloc},
		{"cuMemFreeHost", &cuda.free},
	};

	if (s->own != FI_HMEM_CUDA)
		return 0;
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	return ft_cuda_check(cuda.alloc(&s->pinned, LEN, 0), "cuMemHostAlloc");
}

static void pinned_free(struct side *s)
{
	if (s->pinned)
		ft_cuda_check(cuda.free(s->pinned), "cuMemFreeHost");
	s->pinned = NULL;
}

/* ---- registrations ---- */

static int register_attr(struct side *s, const struct fi_mr_attr *attr)
{
	struct fid_mr *mr;
	int ret = fi_mr_regattr(s->ctx.domain, attr, 0, &mr);

	return ret ? ret : fi_close(&mr->fid);
}

static int register_as(struct side *s, void *addr, int iface)
{
	static uint64_t key = 1000;
	struct iovec iov = {addr, LEN};
	const struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = FI_SEND | FI_RECV,
		.requested_key = key++,
		.iface = (enum fi_hmem_iface) iface,
	};

	return register_attr(s, &attr);
}

static int expect(struct side *s, void *addr, int iface, int expected, const char *what)
{
	const int ret = register_as(s, addr, iface);

	FT_CHECK(ret == expected, "%s memory as iface %d: %s, not %s", what, iface,
		 ret ? fi_strerror(-ret) : "registered",
		 expected ? fi_strerror(-expected) : "registered");
	return 0;
}

/* Of device memory it is the address that tells, everywhere. What is said of it must not be wrong. */
static int check_device(struct side *s)
{
	static const int ifaces[] = {FI_HMEM_SYSTEM, FI_HMEM_CUDA, FI_HMEM_ROCR,
				     FI_HMEM_ZE,     UNKNOWN,      -1};

	for (size_t i = 0; i < FT_COUNT(ifaces); i++)
		FT_TRY(expect(s, s->device.addr, ifaces[i],
			      ifaces[i] == FI_HMEM_SYSTEM || ifaces[i] == (int) s->own
				      ? 0
				      : -FI_EINVAL,
			      "device"));
	return 0;
}

/*
 * What is said of host memory counts where the domain has FI_HMEM. Over a hook it is the core's to look at it: only
 * that all is well is the same everywhere.
 */
static int check_host(struct side *s)
{
	const int wrong = s->ctx.info->caps & FI_HMEM ? -FI_EINVAL : 0;

	FT_TRY(expect(s, s->host.addr, FI_HMEM_SYSTEM, 0, "host"));
	if (s->pinned)
		FT_TRY(expect(s, s->pinned, FI_HMEM_SYSTEM, 0, "pinned"));
	if (ft_hook_active())
		return 0;
	FT_TRY(expect(s, s->host.addr, (int) s->own, wrong, "host"));
	FT_TRY(expect(s, s->host.addr, UNKNOWN, wrong, "host"));
	if (!s->pinned)
		return 0;
	FT_TRY(expect(s, s->pinned, (int) s->own, 0, "pinned"));
	return expect(s, s->pinned, UNKNOWN, wrong, "pinned");
}

/* The structure ends with the page, where nothing can be read behind it. */
static int check_old(struct side *s)
{
	const size_t size = (size_t) sysconf(_SC_PAGESIZE);
	const size_t len = offsetof(struct fi_mr_attr, iface);
	struct iovec iov = {NULL, LEN};
	struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_SEND | FI_RECV};
	void *const addrs[] = {s->host.addr, s->device.addr};
	char *pages = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	int ret;

	if (pages == MAP_FAILED || mprotect(pages + size, size, PROT_NONE))
		return ft_errno("mmap", "two pages");
	for (size_t i = 0; i < FT_COUNT(addrs); i++) {
		iov.iov_base = addrs[i];
		attr.requested_key = i;
		memcpy(pages + size - len, &attr, len);
		ret = register_attr(s, (void *) (pages + size - len));
		FT_CHECK(!ret, "a program of old registers %s memory: %s",
			 i ? "device" : "host", fi_strerror(-ret));
	}
	munmap(pages, 2 * size);
	return 0;
}

/* ---- domains ---- */

static int run_with(struct ft_proc *proc, bool hmem, uint32_t version)
{
	struct ft_opts opts = proc->opts;
	struct side s = {.own = opts.iface};

	opts.api_version = version;
	opts.no_hmem |= !hmem;
	FT_TRY(ft_hints(&s.ctx, &opts));
	FT_TRY(ft_getinfo(&s.ctx, NULL, NULL, 0));
	FT_TRY(ft_open(&s.ctx));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.device, opts.iface, LEN));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.host, FI_HMEM_SYSTEM, LEN));
	FT_TRY(pinned_alloc(&s));
	if (version == OLD_API) {
		FT_TRY(check_old(&s));
	} else {
		FT_TRY(check_device(&s));
		FT_TRY(check_host(&s));
	}
	pinned_free(&s);
	ft_buf_free(&s.device);
	ft_buf_free(&s.host);
	return ft_close(&s.ctx);
}

static int run(struct ft_proc *proc)
{
	const uint32_t version = proc->opts.api_version;

	if (proc->opts.iface == FI_HMEM_SYSTEM)
		return ft_skip("needs device memory (-D)");
	FT_TRY(run_with(proc, true, version));
	FT_TRY(run_with(proc, false, version));
	return run_with(proc, false, OLD_API);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "What is said of memory that is registered, rightly or wrongly.",
		.ranks = 1,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
