/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The gate: time, random numbers, locks, threads, files and memory. See gate.h. */
#include "gate.h"
#include "exhaust.h"
#include "fiber.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- time ---- */

/* Who only looks at the time waits for it: after so many looks others go on */
#define GATE_LOOKS 64

GATE(int, clock_gettime, clockid_t id, struct timespec *now)
{
	static unsigned int looks;

	world.now += 40;
	if (++looks % GATE_LOOKS == 0)
		fiber_yield();
	*now = (struct timespec){(time_t) (world.now / SIM_S), (long) (world.now % SIM_S)};
	return 0;
}

GATE(int, nanosleep, const struct timespec *span, struct timespec *left)
{
	fiber_wait(NULL, NULL,
		   world.now + (uint64_t) span->tv_sec * SIM_S + (uint64_t) span->tv_nsec);
	return 0;
}

GATE(int, sched_yield, void)
{
	fiber_yield();
	return 0;
}

/* ---- random numbers ---- */

GATE(ssize_t, getrandom, void *buf, size_t len, unsigned int flags)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *) buf)[i] = (uint8_t) (world_random() >> 32);
	return (ssize_t) len;
}

/* ---- locks: the first word of each tells ---- */

static bool mutex_free(const void *mutex)
{
	process_enter_for(mutex);
	return !*(const int *) mutex;
}

static bool cond_told(const void *wait)
{
	const struct {
		const unsigned int *cond;
		unsigned int seen;
	} *what = wait;

	return *what->cond != what->seen;
}

GATE(int, pthread_mutex_init, pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	*(int *) mutex = 0;
	return 0;
}

GATE(int, pthread_mutex_destroy, pthread_mutex_t *mutex)
{
	if (*(int *) mutex)
		world_fail("n%u: a lock that is held is destroyed", world.current);
	return 0;
}

GATE(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
	fiber_switch_point();
	while (*(int *) mutex)
		fiber_wait(mutex_free, mutex, UINT64_MAX);
	*(int *) mutex = 1;
	return 0;
}

GATE(int, pthread_mutex_trylock, pthread_mutex_t *mutex)
{
	fiber_switch_point();
	if (*(int *) mutex)
		return EBUSY;
	*(int *) mutex = 1;
	return 0;
}

GATE(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
	*(int *) mutex = 0;
	fiber_switch_point();
	return 0;
}

GATE(int, pthread_condattr_init, pthread_condattr_t *attr)
{
	return 0;
}

GATE(int, pthread_condattr_setclock, pthread_condattr_t *attr, clockid_t id)
{
	return 0;
}

GATE(int, pthread_condattr_destroy, pthread_condattr_t *attr)
{
	return 0;
}

GATE(int, pthread_cond_init, pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	*(unsigned int *) cond = 0;
	return 0;
}

GATE(int, pthread_cond_destroy, pthread_cond_t *cond)
{
	return 0;
}

/* Whoever waits wakes: more may than one */
GATE(int, pthread_cond_signal, pthread_cond_t *cond)
{
	++*(unsigned int *) cond;
	world.moved = true;
	return 0;
}

static int cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until)
{
	const struct {
		const unsigned int *cond;
		unsigned int seen;
	} what = {(const unsigned int *) cond, *(const unsigned int *) cond};
	bool told;

	sim_pthread_mutex_unlock(mutex);
	told = fiber_wait(cond_told, &what, until);
	sim_pthread_mutex_lock(mutex);
	return told ? 0 : ETIMEDOUT;
}

GATE(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return cond_wait(cond, mutex, UINT64_MAX);
}

GATE(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *mutex,
     const struct timespec *until)
{
	return cond_wait(cond, mutex,
			 (uint64_t) until->tv_sec * SIM_S + (uint64_t) until->tv_nsec);
}

/* ---- threads ---- */

GATE(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
     void *arg)
{
	*thread = (pthread_t) (uintptr_t) fiber_start(run, arg);
	return 0;
}

static bool thread_over(const void *thread)
{
	return fiber_has_ended(thread);
}

GATE(int, pthread_join, pthread_t thread, void **value)
{
	fiber_wait(thread_over, (const void *) (uintptr_t) thread, UINT64_MAX);
	fiber_free((struct fiber *) (uintptr_t) thread);
	return 0;
}

GATE(pthread_t, pthread_self, void)
{
	return (pthread_t) (uintptr_t) fiber_self();
}

GATE(int, pthread_setname_np, pthread_t thread, const char *name)
{
	return 0;
}

GATE(int, pthread_sigmask, int how, const sigset_t *set, sigset_t *before)
{
	return 0;
}

GATE(int, pthread_setaffinity_np, pthread_t thread, size_t size, const cpu_set_t *set)
{
	return ENOSYS;
}

GATE(int, sched_getaffinity, pid_t pid, size_t size, cpu_set_t *set)
{
	/* so that who has one thread too many gives way */
	CPU_ZERO(set);
	CPU_SET(0, set);
	return 0;
}

/* Where a stack is. Nobody says: then the driver is asked what an address is */
GATE(int, pthread_getattr_np, pthread_t thread, pthread_attr_t *attr)
{
	return ENOSYS;
}

GATE(int, pthread_attr_getstack, const pthread_attr_t *attr, void **stack, size_t *len)
{
	return ENOSYS;
}

GATE(int, pthread_attr_destroy, pthread_attr_t *attr)
{
	return 0;
}

GATE(int, prctl, int option, ...)
{
	return 0;
}

/* ---- processes ---- */

/* The program says it once, before there is any process */
static void (*fork_calls[FORK_MOMENTS])(void);

GATE(int, pthread_atfork, void (*before)(void), void (*parent)(void), void (*child)(void))
{
	fork_calls[FORK_BEFORE] = before;
	fork_calls[FORK_PARENT] = parent;
	fork_calls[FORK_CHILD] = child;
	return 0;
}

void gate_forks(enum fork_moment moment)
{
	fork_calls[moment]();
}

GATE(pid_t, getpid, void)
{
	return (pid_t) nodes[world.current].pid;
}

GATE(uid_t, geteuid, void)
{
	return 1000;
}

unsigned int gate_node(long pid)
{
	for (unsigned int i = 0; i < SIM_NODES; i++) {
		if (nodes[i].pid == pid && nodes[i].state != NODE_DEAD &&
		    node_host(i) == node_host(world.current))
			return i;
	}
	return SIM_NODES;
}

GATE(int, kill, pid_t pid, int number)
{
	if (number)
		world_fail("n%u: it sends a signal", world.current);
	return gate_node(pid) < SIM_NODES ? 0 : gate_failed(ESRCH);
}

GATE(char *, getenv, const char *name)
{
	return NULL;
}

extern char **sim_environ;
char **sim_environ = (char *[]){NULL};

/* ---- files that tell of the host ---- */

GATE(FILE *, fopen, const char *path, const char *mode)
{
	static char text[SIM_NODES][16];
	const unsigned int host = node_host(world.current);

	if (!strcmp(path, "/proc/self/maps") || !strcmp(path, "/proc/self/smaps"))
		return fopen(path, mode);
	errno = ENOENT;
	if (strcmp(path, "/proc/sys/kernel/random/boot_id") != 0)
		return NULL;
	snprintf(text[host], sizeof text[host], "host %u\n", host);
	return fmemopen(text[host], strlen(text[host]), "r");
}

GATE(int, stat, const char *path, struct stat *stat)
{
	if (strncmp(path, "/proc/self/ns/", 14) != 0)
		return gate_failed(ENOENT);
	*stat = (struct stat){.st_ino = 1};
	return 0;
}

GATE(int, access, const char *path, int mode)
{
	return gate_failed(ENOENT);
}

GATE(ssize_t, readlink, const char *path, char *to, size_t len)
{
	return gate_failed(ENOENT);
}

GATE(char *, realpath, const char *path, char *to)
{
	errno = ENOENT;
	return NULL;
}

GATE(ssize_t, pread, int fd, void *buf, size_t len, off_t from)
{
	return gate_failed(EBADF);
}

GATE(int, pthread_once, pthread_once_t *once, void (*run)(void))
{
	if (!*once)
		run();
	*once = 1;
	return 0;
}

/* ---- memory ---- */

size_t gate_heap[SIM_NODES];

/* One of so many requests for memory fails; 0: none does */
static unsigned int scarce[SIM_NODES];

void gate_scarce(unsigned int node, unsigned int often)
{
	scarce[node] = often;
}

bool gate_is_scarce(unsigned int node)
{
	return scarce[node];
}

/* Who opens, or closes, has what it needs: its application would give up else */
bool gate_has_none(void)
{
	const unsigned int node = world.current;
	const bool none = scarce[node] && !nodes[node].granting && !world_upto(scarce[node]);

	if (none)
		errno = ENOMEM;
	return none;
}

GATE(void *, malloc, size_t len)
{
	void *mem = gate_has_none() ? NULL : malloc(len);

	gate_heap[world.current] += malloc_usable_size(mem);
	return mem;
}

GATE(void *, calloc, size_t count, size_t len)
{
	void *mem = gate_has_none() ? NULL : calloc(count, len);

	gate_heap[world.current] += malloc_usable_size(mem);
	return mem;
}

GATE(void *, realloc, void *mem, size_t len)
{
	const size_t before = malloc_usable_size(mem);

	if (gate_has_none())
		return NULL;
	mem = realloc(mem, len);
	gate_heap[world.current] += malloc_usable_size(mem) - before;
	return mem;
}

GATE(void *, aligned_alloc, size_t alignment, size_t len)
{
	void *mem = gate_has_none() ? NULL : aligned_alloc(alignment, len);

	gate_heap[world.current] += malloc_usable_size(mem);
	return mem;
}

GATE(int, posix_memalign, void **mem, size_t alignment, size_t len)
{
	const int ret = gate_has_none() ? ENOMEM : posix_memalign(mem, alignment, len);

	if (!ret)
		gate_heap[world.current] += malloc_usable_size(*mem);
	return ret;
}

/* What is freed is spoilt, so that its use shows */
GATE(void, free, void *mem)
{
	const size_t len = malloc_usable_size(mem);

	gate_heap[world.current] -= len;
	if (mem)
		memset(mem, SIM_GUARD_BYTE, len);
	free(mem);
}

/* Shared pages that processes have mapped */
struct mapping {
	unsigned int node;
	bool own;
	void *addr;
	size_t len;
	LIST_ENTRY(mapping) link;
};

static LIST_HEAD(, mapping) mappings = LIST_HEAD_INITIALIZER(mappings);

unsigned int gate_mapped(unsigned int node)
{
	const struct mapping *mapping;
	unsigned int count = 0;

	LIST_FOREACH(mapping, &mappings, link)
		count += mapping->node == node;
	return count;
}

void *gate_own_page(unsigned int node, size_t *len)
{
	const struct mapping *mapping;

	LIST_FOREACH(mapping, &mappings, link) {
		if (mapping->node == node && mapping->own)
			break;
	}
	if (!mapping)
		return NULL;
	*len = mapping->len;
	return mapping->addr;
}

uint64_t gate_pages_sum(unsigned int node)
{
	uint64_t sum = 0xcbf29ce484222325ULL;
	const struct mapping *mapping;

	LIST_FOREACH(mapping, &mappings, link) {
		for (size_t i = 0; mapping->node == node && i < mapping->len / 8; i++)
			sum = (sum ^ ((const uint64_t *) mapping->addr)[i]) * 0x100000001b3ULL;
	}
	return sum;
}

void gate_unmap_all(unsigned int node)
{
	struct mapping *mapping, *next;

	for (mapping = LIST_FIRST(&mappings); mapping; mapping = next) {
		next = LIST_NEXT(mapping, link);
		if (mapping->node != node)
			continue;
		LIST_REMOVE(mapping, link);
		free(mapping);
	}
}

GATE(void *, mmap, void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *at = gate_has_none() ? MAP_FAILED
				   : mmap(addr, len, prot, flags,
					  fd < 0 ? fd : gate_real_fd(fd), offset);
	struct mapping *mapping;

	if (fd < 0 || at == MAP_FAILED)
		return at;
	mapping = malloc(sizeof *mapping);
	*mapping = (struct mapping){
		.node = world.current,
		.own = gate_is_own(fd),
		.addr = at,
		.len = len,
	};
	LIST_INSERT_HEAD(&mappings, mapping, link);
	return at;
}

GATE(int, munmap, void *addr, size_t len)
{
	struct mapping *mapping;

	LIST_FOREACH(mapping, &mappings, link) {
		if (mapping->addr == addr)
			break;
	}
	if (mapping) {
		LIST_REMOVE(mapping, link);
		free(mapping);
	}
	return munmap(addr, len);
}

GATE(int, madvise, void *addr, size_t len, int advice)
{
	return madvise(addr, len, advice);
}

GATE(int, msync, void *addr, size_t len, int flags)
{
	return msync(addr, len, flags);
}

GATE(int, getrlimit, int resource, struct rlimit *limit)
{
	*limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
	if (resource == RLIMIT_NOFILE)
		limit->rlim_cur = limit->rlim_max = SIM_FDS;
	return 0;
}

/* ---- libraries ---- */

GATE(void *, dlopen, const char *path, int flags)
{
	return NULL;
}

GATE(char *, dlerror, void)
{
	return "the simulated host has no libraries";
}

GATE(void *, dlsym, void *library, const char *name)
{
	return NULL;
}

GATE(void *, dlvsym, void *library, const char *name, const char *version)
{
	return NULL;
}

GATE(int, dlclose, void *library)
{
	return 0;
}

GATE(int, dlinfo, void *library, int request, void *to)
{
	return -1;
}

GATE(int, dladdr, const void *addr, void *info)
{
	return 0;
}

GATE(int, dl_iterate_phdr, int (*each)(void *, size_t, void *), void *data)
{
	return 0;
}

/* Lanes open a fabric of their own */
GATE(int, fi_fabric, struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	for (size_t i = 0; i < model_count; i++) {
		if (!strcmp(models[i].provider, attr->prov_name) &&
		    models[i].version == world.script->model->version)
			*fabric = core_fabric(world.current, &models[i]);
	}
	return 0;
}

/* ---- calls without a function of their own ---- */

int sim_pidfd(long pid);

GATE(long, syscall, long number, ...)
{
	long args[6];
	va_list list;

	va_start(list, number);
	for (size_t i = 0; i < SIM_COUNT(args); i++)
		args[i] = va_arg(list, long);
	va_end(list);
	/* whether an address may be read */
	if (number == SYS_rt_sigaction)
		return syscall(number, args[0], args[1], args[2], args[3]);
#ifdef SYS_pidfd_open
	if (number == SYS_pidfd_open)
		return sim_pidfd(args[0]);
#endif
	return gate_failed(ENOSYS);
}
