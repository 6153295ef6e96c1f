/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Preloaded into tests: SIMULATES what a kernel with a real NIC does when memory of the
 * emulated GPU is registered.
 *
 * There the NIC's driver gets the device's own pages, of a dma-buf or by a peer-memory module.
 * Here the emulator keeps those pages in a file. A mapping of that file is registered in their
 * place, under the addresses that were asked for. The RDMA device then moves the data in truth.
 *
 * As a pinned page would, the mapping outlives the memory. So a program that uses a stale
 * registration gets wrong data.
 *
 * Faults by environment:
 *   RDMAEMU_PEERMEM=1         there is a peer-memory module; else device addresses are
 *                             left to the kernel, which knows nothing about them
 *   RDMAEMU_DMABUF=ERROR      dma-bufs are refused, with EOPNOTSUPP for example
 *   RDMAEMU_FAIL=N[+][:ERROR] the Nth registration of device memory fails (and all after
 *                             it), with ENOMEM or ERROR
 *   RDMAEMU_BAR1=BYTES        no more can be pinned at a time (ENOMEM)
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cudaemu/backing.h"

/* Here these are the names of functions */
#undef ibv_reg_mr
#define RDMAEMU_EXPORT __attribute__((visibility("default")))

static struct {
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
	int (*dereg_mr)(struct ibv_mr *);
} real;

static struct {
	bool peermem;
	int dmabuf_error;
	unsigned long fail_at;
	bool fail_on;
	int fail_error;
	size_t bar1;
} conf = {.bar1 = SIZE_MAX};

/* One registration of device memory */
struct pin {
	struct ibv_mr *mr;
	void *addr; /* the address that libibverbs had in the mr */
	void *map;
	size_t len;
	struct pin *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pin *pins;
static size_t pinned;
static unsigned long registrations;

/* ---- start ---- */

/* A test that injects nothing must not pass. */
static void __attribute__((noreturn)) bad_variable(const char *name)
{
	fprintf(stderr, "rdmaemu: %s: bad value \"%s\"\n", name, getenv(name));
	abort();
}

static int error_number(const char *name, const char *text)
{
	static const struct {
		const char *name;
		int number;
	} errors[] = {
		{"EFAULT", EFAULT}, {"EINVAL", EINVAL},         {"EIO", EIO},
		{"ENOMEM", ENOMEM}, {"EOPNOTSUPP", EOPNOTSUPP},
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!strcmp(errors[i].name, text))
			return errors[i].number;
	bad_variable(name);
}

static unsigned long number(const char *name, const char *text, char **end)
{
	unsigned long value = strtoul(text, end, 0);

	if (*end == text)
		bad_variable(name);
	return value;
}

static void conf_read(void)
{
	const char *text;
	char *end;

	text = getenv("RDMAEMU_PEERMEM");
	conf.peermem = text && *text && strcmp(text, "0");
	text = getenv("RDMAEMU_DMABUF");
	if (text)
		conf.dmabuf_error = error_number("RDMAEMU_DMABUF", text);
	text = getenv("RDMAEMU_BAR1");
	if (text) {
		conf.bar1 = number("RDMAEMU_BAR1", text, &end);
		if (*end)
			bad_variable("RDMAEMU_BAR1");
	}
	text = getenv("RDMAEMU_FAIL");
	if (text) {
		conf.fail_at = number("RDMAEMU_FAIL", text, &end);
		conf.fail_on = *end == '+';
		end += conf.fail_on;
		conf.fail_error = *end == ':' ? error_number("RDMAEMU_FAIL", end + 1) : ENOMEM;
		if (!conf.fail_at || (*end && *end != ':'))
			bad_variable("RDMAEMU_FAIL");
	}
}

static void start(void)
{
	void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY);

	real.reg_mr_iova2 = verbs ? dlsym(verbs, "ibv_reg_mr_iova2") : NULL;
	real.reg_dmabuf_mr = verbs ? dlsym(verbs, "ibv_reg_dmabuf_mr") : NULL;
	real.dereg_mr = verbs ? dlsym(verbs, "ibv_dereg_mr") : NULL;
	if (!real.reg_mr_iova2 || !real.reg_dmabuf_mr || !real.dereg_mr) {
		fprintf(stderr, "rdmaemu: libibverbs lacks what it stands before\n");
		abort();
	}
	conf_read();
	fprintf(stderr,
		"rdmaemu: SIMULATES the pinning of emulated device memory (test only), "
		"not the movement of data; peer-memory module: %s\n",
		conf.peermem ? "yes" : "no");
}

static void start_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start);
}

/* ---- pinning ---- */

/* A function of the emulated driver; NULL: there is no driver, or a real one */
static void *emulator(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *fn = driver ? dlsym(driver, name) : NULL;

	if (driver)
		dlclose(driver); /* the program that has loaded it keeps it */
	return fn;
}

/*
 * Counts a registration, and @len bytes with it. Returns 0, or the error that it has to fail
 * with.
 */
static int pin_charge(size_t len)
{
	int error = 0;

	pthread_mutex_lock(&lock);
	registrations++;
	if (conf.fail_at &&
	    (registrations == conf.fail_at || (conf.fail_on && registrations > conf.fail_at)))
		error = conf.fail_error;
	else if (len > conf.bar1 - pinned)
		error = ENOMEM;
	else
		pinned += len;
	pthread_mutex_unlock(&lock);
	return error;
}

static void pin_uncharge(size_t len)
{
	pthread_mutex_lock(&lock);
	pinned -= len;
	pthread_mutex_unlock(&lock);
}

static void pin_insert(struct pin *pin)
{
	pthread_mutex_lock(&lock);
	pin->next = pins;
	pins = pin;
	pthread_mutex_unlock(&lock);
}

static struct pin *pin_take(const struct ibv_mr *mr)
{
	struct pin **link, *pin;

	pthread_mutex_lock(&lock);
	for (link = &pins; *link && (*link)->mr != mr; link = &(*link)->next)
		;
	pin = *link;
	if (pin)
		*link = pin->next;
	pthread_mutex_unlock(&lock);
	return pin;
}

/* @shown: the memory that the mr says it is of */
static struct ibv_mr *pin_memory(struct ibv_pd *pd, const struct cudaemu_backing *backing,
				 void *shown, size_t length, uint64_t iova, unsigned int access)
{
	const size_t page = (size_t) sysconf(_SC_PAGESIZE);
	const size_t lead = backing->offset % page;
	struct pin *pin;
	int error;

	if (!length || length > backing->size || lead != iova % page) {
		errno = EINVAL;
		return NULL;
	}
	pin = calloc(1, sizeof(*pin));
	if (!pin)
		return NULL;
	pin->len = (lead + length + page - 1) / page * page;
	error = pin_charge(pin->len);
	if (error)
		goto free_pin;
	pin->map = mmap(NULL, pin->len, PROT_READ | PROT_WRITE, MAP_SHARED, backing->fd,
			(off_t) (backing->offset - lead));
	error = errno;
	if (pin->map == MAP_FAILED)
		goto uncharge;
	pin->mr = real.reg_mr_iova2(pd, (char *) pin->map + lead, length, iova, access);
	error = errno;
	if (!pin->mr)
		goto unmap;
	pin->addr = pin->mr->addr;
	pin->mr->addr = shown;
	pin_insert(pin);
	return pin->mr;

unmap:
	munmap(pin->map, pin->len);
uncharge:
	pin_uncharge(pin->len);
free_pin:
	free(pin);
	errno = error;
	return NULL;
}

/* ---- what programs call ---- */

RDMAEMU_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					       uint64_t iova, unsigned int access)
{
	struct cudaemu_backing backing;
	cudaemu_address_backing_fn *find;

	start_once();
	find = conf.peermem ? (cudaemu_address_backing_fn *) emulator("cudaemu_address_backing")
			    : NULL;
	if (find && find((uintptr_t) addr, &backing))
		return pin_memory(pd, &backing, addr, length, iova, access);
	return real.reg_mr_iova2(pd, addr, length, iova, access);
}

RDMAEMU_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
					 int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t) addr, (unsigned int) access);
}

RDMAEMU_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
						size_t length, uint64_t iova, int fd,
						int access)
{
	struct cudaemu_backing backing;
	cudaemu_dmabuf_backing_fn *find;

	start_once();
	find = (cudaemu_dmabuf_backing_fn *) emulator("cudaemu_dmabuf_backing");
	if (!find || !find(fd, &backing))
		return real.reg_dmabuf_mr(pd, offset, length, iova, fd, access);
	if (conf.dmabuf_error || offset > backing.size) {
		errno = conf.dmabuf_error ? conf.dmabuf_error : EINVAL;
		return NULL;
	}
	backing.offset += offset;
	backing.size -= offset;
	return pin_memory(pd, &backing, (void *) (uintptr_t) offset, length, iova,
			  (unsigned int) access);
}

RDMAEMU_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct pin *pin;
	void *shown;
	int ret;

	start_once();
	/* this has to come before another mr can have the same address */
	pin = pin_take(mr);
	if (!pin)
		return real.dereg_mr(mr);
	shown = mr->addr;
	mr->addr = pin->addr;
	ret = real.dereg_mr(mr);
	if (ret) {
		mr->addr = shown;
		pin_insert(pin);
		return ret;
	}
	munmap(pin->map, pin->len);
	pin_uncharge(pin->len);
	free(pin);
	return 0;
}
