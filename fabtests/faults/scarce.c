/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Preloaded into tests: memory and threads that our two objects do not get, and memory that they
 * do not give back.
 *
 *   SCARCE=KIND:N	the N-th call of a kind fails: alloc, mmap or thread. Only calls from
 *			libp2p-fi.so and libp2p_hook-fi.so count
 *
 * A process says on stderr that it has made a call fail. At its end it says what is left of what our
 * objects have allocated: the size and the place of each allocation, the same in every run.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SCARCE_EXPORT __attribute__((visibility("default")))

/* Allocations of ours at a time, at most; what is more is not looked after */
#define SCARCE_LIVE_MAX 65536

/* glibc's own names, which can be called before symbols can be looked up */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *ptr);

enum scarce_kind { SCARCE_ALLOC, SCARCE_MMAP, SCARCE_THREAD, SCARCE_KINDS };

static const char *const scarce_names[SCARCE_KINDS] = {"alloc", "mmap", "thread"};

/** struct scarce_live - an allocation of ours, and where in our object it was asked for */
struct scarce_live {
	void *ptr;
	size_t size;
	uintptr_t where;
};

static struct scarce_live scarce_live[SCARCE_LIVE_MAX];
static unsigned int scarce_live_count;
static unsigned long scarce_calls[SCARCE_KINDS];
static pthread_mutex_t scarce_lock = PTHREAD_MUTEX_INITIALIZER;

/* Where in one of our two objects is the caller? 0: in another one */
static uintptr_t scarce_where(void *caller)
{
	struct dl_find_object found;
	const char *name;

	if (_dl_find_object(caller, &found))
		return 0;
	name = strrchr(found.dlfo_link_map->l_name, '/');
	if (!name || (strcmp(name, "/libp2p-fi.so") && strcmp(name, "/libp2p_hook-fi.so")))
		return 0;
	return (uintptr_t) caller - (uintptr_t) found.dlfo_map_start;
}

/* Does this call from @where, which is 0 for others' calls, fail? */
static bool scarce_fails(enum scarce_kind kind, uintptr_t where)
{
	const char *wish = getenv("SCARCE");
	const size_t len = strlen(scarce_names[kind]);
	char line[80];
	int chars;

	if (!where || !wish || strncmp(wish, scarce_names[kind], len) || wish[len] != ':' ||
	    __atomic_add_fetch(&scarce_calls[kind], 1, __ATOMIC_RELAXED) !=
		    strtoul(wish + len + 1, NULL, 0))
		return false;
	chars = snprintf(line, sizeof(line), "fault: %s at +%#zx\n", wish, (size_t) where);
	/* stdio may allocate */
	if (write(STDERR_FILENO, line, (size_t) chars) < 0)
		_exit(1);
	errno = ENOMEM;
	return true;
}

/* The places where an allocation may be noted: few are ever taken at a time */
#define SCARCE_TRIES 64

static struct scarce_live *scarce_place(const void *ptr, unsigned int try)
{
	return &scarce_live[((uintptr_t) ptr / 16 + try) % SCARCE_LIVE_MAX];
}

static void *scarce_note(void *ptr, size_t size, uintptr_t where)
{
	unsigned int try = 0;

	if (!ptr || !where)
		return ptr;
	pthread_mutex_lock(&scarce_lock);
	while (try < SCARCE_TRIES && scarce_place(ptr, try)->where)
		try++;
	if (try < SCARCE_TRIES) {
		*scarce_place(ptr, try) = (struct scarce_live){ptr, size, where};
		scarce_live_count++;
	}
	pthread_mutex_unlock(&scarce_lock);
	return ptr;
}

static void scarce_forget(void *ptr)
{
	if (!ptr || !__atomic_load_n(&scarce_live_count, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&scarce_lock);
	for (unsigned int try = 0; try < SCARCE_TRIES; try++) {
		struct scarce_live *live = scarce_place(ptr, try);

		if (live->where && live->ptr == ptr) {
			live->where = 0;
			scarce_live_count--;
			break;
		}
	}
	pthread_mutex_unlock(&scarce_lock);
}

SCARCE_EXPORT void *malloc(size_t size)
{
	const uintptr_t where = scarce_where(__builtin_return_address(0));

	return scarce_fails(SCARCE_ALLOC, where)
		       ? NULL
		       : scarce_note(__libc_malloc(size), size, where);
}

SCARCE_EXPORT void *calloc(size_t count, size_t size)
{
	const uintptr_t where = scarce_where(__builtin_return_address(0));

	return scarce_fails(SCARCE_ALLOC, where)
		       ? NULL
		       : scarce_note(__libc_calloc(count, size), count * size, where);
}

SCARCE_EXPORT void *realloc(void *ptr, size_t size)
{
	const uintptr_t where = scarce_where(__builtin_return_address(0));

	if (scarce_fails(SCARCE_ALLOC, where))
		return NULL;
	scarce_forget(ptr);
	return scarce_note(__libc_realloc(ptr, size), size, where);
}

SCARCE_EXPORT void *aligned_alloc(size_t align, size_t size)
{
	const uintptr_t where = scarce_where(__builtin_return_address(0));

	return scarce_fails(SCARCE_ALLOC, where)
		       ? NULL
		       : scarce_note(__libc_memalign(align, size), size, where);
}

SCARCE_EXPORT char *strdup(const char *text)
{
	const uintptr_t where = scarce_where(__builtin_return_address(0));
	const size_t size = strlen(text) + 1;
	char *copy;

	if (scarce_fails(SCARCE_ALLOC, where))
		return NULL;
	copy = scarce_note(__libc_malloc(size), size, where);
	return copy ? memcpy(copy, text, size) : NULL;
}

SCARCE_EXPORT void free(void *ptr)
{
	scarce_forget(ptr);
	__libc_free(ptr);
}

/* What comes after this library has under that name */
#define SCARCE_REAL(name) ((__typeof__(&name)) (uintptr_t) dlsym(RTLD_NEXT, #name))

SCARCE_EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (scarce_fails(SCARCE_MMAP, scarce_where(__builtin_return_address(0))))
		return MAP_FAILED;
	return SCARCE_REAL(mmap)(addr, len, prot, flags, fd, offset);
}

SCARCE_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
				 void *(*run)(void *), void *arg)
{
	if (scarce_fails(SCARCE_THREAD, scarce_where(__builtin_return_address(0))))
		return EAGAIN;
	return SCARCE_REAL(pthread_create)(thread, attr, run, arg);
}

static void __attribute__((destructor)) scarce_report(void)
{
	for (size_t i = 0; i < SCARCE_LIVE_MAX; i++) {
		if (scarce_live[i].where)
			fprintf(stderr, "left: %zu bytes of +%#zx\n", scarce_live[i].size,
				(size_t) scarce_live[i].where);
	}
}
