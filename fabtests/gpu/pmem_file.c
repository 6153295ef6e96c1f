/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A file and its shadow. See pmem_file.h. */
#include "pmem_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME_MAX_LEN 128

/* What the other rank has to know */
struct told {
	char file[NAME_MAX_LEN], shadow[NAME_MAX_LEN];
	pid_t owner;
	uint64_t key, base;
};

/* ---- the shadow ---- */

/* Of this process, for msync() */
static const struct pmem_file *mine;

/* In place of libc's: the provider calls it */
__attribute__((visibility("default"))) int msync(void *addr, size_t len, int flags)
{
	static int (*libc)(void *addr, size_t len, int flags);
	const size_t at = mine ? (size_t) ((char *) addr - mine->map) : PMEM_SIZE;
	int ret;

	if (!libc)
		*(void **) &libc = dlsym(RTLD_NEXT, "msync");
	if (at < PMEM_SIZE && at + len > PMEM_BROKEN) {
		errno = EIO;
		return -1;
	}
	ret = libc(addr, len, flags);
	if (!ret && at < PMEM_SIZE && flags & MS_SYNC &&
	    pwrite(mine->shadow, addr, len, (off_t) at) != (ssize_t) len)
		return -1;
	return ret;
}

/* ---- making ---- */

static int make_file(char *name, int *fd)
{
	snprintf(name, NAME_MAX_LEN, "%s/fi_p2p_pmem-XXXXXX", P_tmpdir);
	*fd = mkstemp(name);
	if (*fd < 0 || ftruncate(*fd, PMEM_SIZE))
		return ft_errno("mkstemp", name);
	return 0;
}

static int reg(struct ft_ctx *ctx, void *addr, struct fid_mr **mr)
{
	return fi_mr_reg(ctx->domain, addr, PMEM_SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
			 ctx->next_key++, FI_RMA_PMEM, mr, NULL);
}

/* What is in no file cannot be durable. */
static int refuse_anonymous(struct ft_ctx *ctx)
{
	static const int flags[] = {MAP_PRIVATE, MAP_SHARED};
	struct fid_mr *mr;

	for (size_t i = 0; i < FT_COUNT(flags); i++) {
		void *addr = mmap(NULL, PMEM_SIZE, PROT_READ | PROT_WRITE,
				  flags[i] | MAP_ANONYMOUS, -1, 0);
		int ret;

		if (addr == MAP_FAILED)
			return ft_errno("mmap", "anonymous memory");
		ret = reg(ctx, addr, &mr);
		munmap(addr, PMEM_SIZE);
		FT_CHECK(ret == -FI_EINVAL, "memory without a file is registered: %d", ret);
	}
	return 0;
}

int pmem_file_make(struct pmem_file *file, struct ft_proc *proc, struct ft_ctx *ctx)
{
	const int mode = ctx->info->domain_attr->mr_mode;
	struct told told = {.owner = getpid()};
	int ret;

	FT_TRY(refuse_anonymous(ctx));
	FT_TRY(make_file(told.file, &file->file));
	FT_TRY(make_file(told.shadow, &file->shadow));
	file->map = mmap(NULL, PMEM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file->file, 0);
	if (file->map == MAP_FAILED)
		return ft_errno("mmap", told.file);
	/* before there is a thread that calls msync() */
	mine = file;
	ret = reg(ctx, file->map, &file->mr);
	if (ret)
		return ft_fail(ret, "fi_mr_reg", "FI_RMA_PMEM");
	told.key = fi_mr_key(file->mr);
	told.base = mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC) ? (uintptr_t) file->map : 0;
	return ft_oob_send(proc->fd[!proc->rank], &told, sizeof(told));
}

static int open_file(const char *name, int *fd)
{
	*fd = open(name, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return ft_errno("open", name);
	return unlink(name) ? ft_errno("unlink", name) : 0;
}

int pmem_file_meet(struct pmem_file *file, struct ft_proc *proc)
{
	struct told told;

	FT_TRY(ft_oob_recv(proc->fd[!proc->rank], &told, sizeof(told), proc->opts.timeout));
	FT_TRY(open_file(told.file, &file->file));
	FT_TRY(open_file(told.shadow, &file->shadow));
	file->owner = told.owner;
	file->key = told.key;
	file->base = told.base;
	return 0;
}

int pmem_file_kill(struct pmem_file *file, struct ft_proc *proc)
{
	if (kill(file->owner, SIGKILL))
		return ft_errno("kill", "the owner of the file");
	while (!ft_oob_closed(proc->fd[!proc->rank]))
		sched_yield();
	return 0;
}

void pmem_file_close(struct pmem_file *file)
{
	close(file->file);
	close(file->shadow);
}

/* ---- looking ---- */

static int look(int fd, const char *what, size_t at, size_t len, uint64_t key, ssize_t *diff)
{
	unsigned char *bytes = malloc(len), expected;
	ssize_t got;

	FT_CHECK(bytes, "no memory for %zu bytes", len);
	got = pread(fd, bytes, len, (off_t) at);
	*diff = got == (ssize_t) len ? ft_pattern_diff(bytes, len, key, &expected) : 0;
	free(bytes);
	FT_CHECK(got == (ssize_t) len, "%s has %zd bytes at %zu, not %zu", what, got, at, len);
	return 0;
}

/* The file has the bytes. @diff: where the shadow differs, or -1 */
static int look_both(const struct pmem_file *file, size_t at, size_t len, uint64_t key,
		     ssize_t *diff)
{
	FT_TRY(look(file->file, "the file", at, len, key, diff));
	FT_CHECK(*diff < 0, "%zu bytes at %zu of the file: byte %zd is wrong", len, at, *diff);
	return look(file->shadow, "the shadow", at, len, key, diff);
}

int pmem_file_holds(const struct pmem_file *file, size_t at, size_t len, uint64_t key)
{
	ssize_t diff;

	FT_TRY(look_both(file, at, len, key, &diff));
	FT_CHECK(diff < 0, "%zu bytes at %zu are complete, and byte %zd is not durable", len,
		 at, diff);
	return 0;
}

int pmem_file_lacks(const struct pmem_file *file, size_t at, size_t len, uint64_t key)
{
	ssize_t diff;

	FT_TRY(look_both(file, at, len, key, &diff));
	FT_CHECK(!diff, "%zu bytes at %zu were made durable unasked", len, at);
	return 0;
}

int pmem_file_word(const struct pmem_file *file, size_t at, uint64_t *word)
{
	ssize_t got = pread(file->shadow, word, sizeof(*word), (off_t) at);

	FT_CHECK(got == sizeof(*word), "a word of the shadow: %zd bytes", got);
	return 0;
}
