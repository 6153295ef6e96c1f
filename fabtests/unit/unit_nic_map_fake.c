/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The world around nic_map.c, made up. See unit_map.h. */
#include "unit_nic_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"

struct fake fake;

/* The allocation that the dma-buf which is open now is of */
static uint64_t fake_exposed;

/* ---- libfabric and the kernel: these stand before the ones of the libraries ---- */

uint32_t fi_version(void)
{
	return FAKE_VERSION;
}

int access(const char *path, int mode)
{
	static const char modules[] = "/sys/module/";
	size_t len = sizeof modules - 1;

	if (strncmp(path, modules, len))
		return faccessat(AT_FDCWD, path, mode, 0);
	if (fake.module && !strcmp(path + len, fake.module))
		return 0;
	errno = ENOENT;
	return -1;
}

/* ---- the device ---- */

/* What lies in a dma-buf before the memory that was asked for, as some devices have it */
static uint64_t fake_offset(uintptr_t addr)
{
	return addr % (16 * PAGE);
}

static int fake_expose(const struct dev_mem *mem, uintptr_t addr, size_t len, int *fd,
		       uint64_t *offset, const char **why)
{
	fake.exposes++;
	assert_int_equal(addr % PAGE, 0);
	assert_int_equal(len % PAGE, 0);
	assert_true(len);
	if (fake.expose_error && (!fake.expose_id || fake.expose_id == mem->id)) {
		*why = fake.expose_why;
		return fake.expose_error;
	}
	*fd = fake.last_fd = memfd_create("unit_map", MFD_CLOEXEC);
	assert_true(*fd >= 0);
	*offset = fake_offset(addr);
	fake_exposed = mem->id;
	return 0;
}

static const char *const fake_modules[] = {FAKE_MODULE, FAKE_MODULE_OLD, NULL};

const struct dev_ops fake_dev = {
	.name = "fake",
	.modules = fake_modules,
	.expose = fake_expose,
};

const struct dev_ops fake_other_dev = {
	.name = "other",
	.modules = fake_modules,
	.expose = fake_expose,
};

struct dev_mem fake_alloc(uintptr_t base, size_t size)
{
	static uint64_t id;

	return (struct dev_mem){.ops = &fake_dev, .base = base, .size = size, .id = ++id};
}

/* ---- the NIC ---- */

static int fake_mr_close(struct fid *fid)
{
	struct fake_mr *mr = (struct fake_mr *) fid;

	/* nobody takes away what is in use */
	assert_int_equal(mr->users, 0);
	if (mr->last > fake.closed_last)
		fake.closed_last = mr->last;
	fake.closed++;
	fake.count--;
	fake.bytes -= mr->len;
	LIST_REMOVE(mr, entry);
	free(mr);
	return 0;
}

static struct fi_ops fake_mr_ops = {
	.size = sizeof(struct fi_ops),
	.close = fake_mr_close,
};

/* The memory that a dma-buf stands for; it is an open file */
static void fake_import(const struct fi_mr_attr *attr, struct iovec *iov)
{
	const struct {
		int fd;
		uint64_t offset;
		size_t len;
		void *base_addr;
	} *dmabuf = (const void *) attr->mr_iov;

	assert_int_equal(dmabuf->fd, fake.last_fd);
	assert_true(fcntl(dmabuf->fd, F_GETFD) >= 0);
	iov->iov_base = (char *) dmabuf->base_addr + dmabuf->offset;
	iov->iov_len = dmabuf->len;
	assert_int_equal(dmabuf->offset, fake_offset((uintptr_t) iov->iov_base));
}

static int fake_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
			struct fid_mr **mr_fid)
{
	struct iovec iov = *attr->mr_iov;
	struct fake_mr *mr;
	int error;

	fake.asked++;
	assert_ptr_equal(fid, &fake_domain.fid);
	assert_true(flags == FLAG_DMABUF || flags == FLAG_NOCACHE);
	assert_int_equal(attr->iov_count, 1);
	assert_int_equal(attr->iface, FI_HMEM_SYSTEM);
	error = flags == FLAG_DMABUF ? fake.dmabuf_error : fake.plain_error;
	if (flags == FLAG_DMABUF)
		fake_import(attr, &iov);
	if (error)
		return error;
	if (iov.iov_len > fake.room - fake.bytes)
		return -FI_ENOMEM;
	mr = calloc(1, sizeof *mr);
	assert_non_null(mr);
	mr->fid.fid.ops = &fake_mr_ops;
	mr->id = flags == FLAG_DMABUF ? fake_exposed : 0;
	mr->start = (uintptr_t) iov.iov_base;
	mr->len = iov.iov_len;
	mr->access = attr->access;
	mr->flags = flags;
	LIST_INSERT_HEAD(&fake.mrs, mr, entry);
	fake.count++;
	fake.bytes += mr->len;
	*mr_fid = &mr->fid;
	return 0;
}

static struct fi_ops_mr fake_domain_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.regattr = fake_regattr,
};

struct fid_domain fake_domain = {.mr = &fake_domain_mr_ops};

static void fake_reset(void)
{
	fake = (struct fake){
		.expose_why = "no dma-buf of it",
		.room = SIZE_MAX,
		.last_fd = -1,
	};
	LIST_INIT(&fake.mrs);
	conf.pin = CONF_PIN_AUTO;
	conf.map_size = 256 * PAGE;
	conf.map_count = 8;
}

/* ---- what tests do ---- */

struct nic_map map;
struct fi_p2p_stats stats;

struct nic_map_entry *got_entry;
const char *got_why;

static int get(const struct dev_mem *mem, size_t offset, size_t len)
{
	int ret;

	got_why = NULL;
	ret = nic_map_get(&map, &stats, mem, (void *) (mem->base + offset), len, ACCESS,
			  &got_entry, &got_why);
	/* every dma-buf is closed again */
	if (fake.last_fd >= 0)
		assert_int_equal(fcntl(fake.last_fd, F_GETFD), -1);
	if (ret) {
		assert_non_null(got_why);
		assert_true(*got_why);
	}
	return ret;
}

struct fake_mr *must(const struct dev_mem *mem, size_t offset, size_t len)
{
	struct fake_mr *mr;

	if (get(mem, offset, len))
		fail_msg("%zu bytes at %zu: %s", len, offset, got_why);
	mr = (struct fake_mr *) got_entry->mr;
	assert_true(mr->start <= mem->base + offset);
	assert_true(mr->start + mr->len >= mem->base + offset + len);
	assert_int_equal(mr->access, ACCESS);
	assert_int_equal(got_entry->start, mr->start);
	mr->users++;
	return mr;
}

void put(struct nic_map_entry *entry)
{
	((struct fake_mr *) entry->mr)->users--;
	nic_map_put(entry);
}

struct fake_mr *must_and_put(const struct dev_mem *mem, size_t offset, size_t len)
{
	struct fake_mr *mr = must(mem, offset, len);

	put(got_entry);
	return mr;
}

void must_not(const struct dev_mem *mem, size_t offset, size_t len, int error,
	      const char *reason)
{
	assert_int_equal(get(mem, offset, len), error);
	if (!strstr(got_why, reason))
		fail_msg("\"%s\" does not say \"%s\"", got_why, reason);
}

int fake_begin(void **state)
{
	fake_reset();
	unit_clock_stop();
	stats = (struct fi_p2p_stats){.pins = 0};
	nic_map_init(&map, &fake_domain, NULL, true);
	return 0;
}

int fake_end(void **state)
{
	nic_map_fini(&map);
	unit_clock_run();
	assert_int_equal(fake.count, 0);
	assert_int_equal(fake.bytes, 0);
	assert_int_equal(fake.closed, stats.pins);
	assert_int_equal(map.count, 0);
	assert_int_equal(map.bytes, 0);
	return 0;
}
