/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kernels: launched in stream order, each in a process of its own, but those of modules (module.c). See kernel.h for what
 * such a process sees.
 *
 *	stream reaches the kernel --> fork --> device memory is mapped --> a thread for each one of the grid
 *	          |                                                                      |
 *	later operations wait  <------------ end, or a signal: the context's error <-----+
 *
 * An address sanitizer's allocator may be locked in a child for ever. So a process that is stuck before the kernel
 * begins is replaced. A kernel's process ends with the application's, however that ends.
 */
#define _GNU_SOURCE
#include "emu.h"
#include "grid.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

EMU_EXPORT cudaemu_launch_fn cudaemu_launch;
EMU_EXPORT cudaemu_load_fn cudaemu_load;

/* What a kernel's process tells */
struct emu_progress {
	uint32_t here;  /* how many threads there are */
	uint32_t begun; /* EMU_BEGUN: all are there, and the kernel's code runs */
	uint32_t finished;
};

enum {
	EMU_BEGUN = 1,
	EMU_GIVEN_UP = 2,
};

/* A process that makes no thread in this time is stuck: ten rounds of 500 ms */
#define EMU_STUCK_ROUNDS 10
#define EMU_ROUND_NS 500000000l

/* Either the process begins or it is given up: who comes first decides */
static uint32_t emu_begun_set(struct emu_progress *progress, uint32_t value)
{
	uint32_t before = 0;

	__atomic_compare_exchange_n(&progress->begun, &before, value, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	return before;
}

/* A piece of device memory, and where kernels see it */
struct emu_view {
	void *rw, *at;
	size_t len;
	bool read_only;
};

/* ---- the kernel's process ---- */

static void emu_view_map(const struct emu_view *view)
{
	/* a second mapping of the same pages, as the old length is 0 */
	void *p = mremap(view->rw, 0, view->len, MREMAP_MAYMOVE | MREMAP_FIXED, view->at);

	if (p == MAP_FAILED) {
		emu_die("device memory for a kernel");
	}
	if (view->read_only)
		mprotect(view->at, view->len, PROT_READ);
}

/* A connection that the application closes must not stay open here */
static void emu_close_files(void)
{
	int fd, end = (int) sysconf(_SC_OPEN_MAX);

#ifdef SYS_close_range
	if (!syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0))
		return;
#endif
	for (fd = STDERR_FILENO + 1; fd < end; fd++)
		close(fd);
}

static void __attribute__((noreturn))
emu_kernel_process(const struct emu_op *op, const struct emu_view *views, size_t count,
		   pid_t parent, struct emu_progress *progress)
{
	size_t i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	emu_close_files();
	for (i = 0; i < count; i++)
		emu_view_map(&views[i]);
	/* what the application has not written yet is its own */
	__fpurge(stdout);
	emu_grid_create(op->grid, &progress->here);
	if (emu_begun_set(progress, EMU_BEGUN) == EMU_GIVEN_UP)
		_exit(1);
	syscall(SYS_futex, &progress->begun, FUTEX_WAKE, 1, NULL, NULL, 0);
	emu_grid_run();
	fflush(stdout);
	__atomic_store_n(&progress->finished, 1, __ATOMIC_RELEASE);
	_exit(0);
}

/* ---- the application's process ---- */

/* What the device's kernels see besides this process's own mappings. Called with the lock held. */
static struct emu_view *emu_views(CUdevice dev, size_t *count)
{
	struct emu_view *views = calloc(emu.nallocs + 1, sizeof(*views));
	const struct emu_alloc *alloc;
	size_t i;

	if (!views)
		emu_die("what a kernel sees");
	*count = 0;
	for (i = 0; i < emu.nallocs; i++) {
		alloc = emu.allocs[i];
		if ((uintptr_t) alloc->rw == alloc->base || !emu_access(alloc, dev))
			continue;
		views[(*count)++] = (struct emu_view){
			.rw = alloc->rw,
			.at = (void *) (uintptr_t) alloc->base,
			.len = EMU_ROUND_UP(alloc->size, EMU_PAGE),
			.read_only = emu_access(alloc, dev) == CU_MEM_ACCESS_FLAGS_PROT_READ,
		};
	}
	return views;
}

void emu_kernels_kill(const struct CUctx_st *ctx)
{
	struct CUstream_st *stream;

	for (stream = emu.streams; stream; stream = stream->next)
		if (stream->ctx == ctx && stream->kernel > 0)
			kill(stream->kernel, SIGKILL);
}

/* Makes a process for the kernel, as the stream's. Returns it, or -1. */
static pid_t emu_kernel_fork(struct CUstream_st *stream, struct emu_op *op,
			     struct emu_progress *progress)
{
	const pid_t parent = getpid();
	struct emu_view *views;
	size_t count;
	pid_t pid;

	pthread_mutex_lock(&emu.lock);
	views = emu_views(stream->ctx->dev, &count);
	/* with the lock, so that no thread is within the emulator */
	pid = fork();
	if (pid == 0)
		emu_kernel_process(op, views, count, parent, progress);
	free(views);
	stream->kernel = pid;
	if (pid > 0 && emu_ctx_error(stream->ctx))
		kill(pid, SIGKILL);
	pthread_mutex_unlock(&emu.lock);
	return pid;
}

static bool emu_kernel_ended(pid_t pid)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT | WNOHANG) || info.si_pid;
}

/* Waits until the kernel's code runs, or has ended. False: it never will. */
static bool emu_kernel_begins(pid_t pid, struct emu_progress *progress)
{
	const struct timespec round = {0, EMU_ROUND_NS};
	uint32_t here, before = 0;
	int stuck = 0;

	while (!__atomic_load_n(&progress->begun, __ATOMIC_ACQUIRE) && !emu_kernel_ended(pid)) {
		here = __atomic_load_n(&progress->here, __ATOMIC_RELAXED);
		stuck = here == before ? stuck + 1 : 0;
		if (stuck > EMU_STUCK_ROUNDS)
			return emu_begun_set(progress, EMU_GIVEN_UP) == EMU_BEGUN;
		before = here;
		syscall(SYS_futex, &progress->begun, FUTEX_WAIT, 0, &round, NULL, 0);
	}
	return true;
}

/*
 * A child of many threads can be unfit to allocate memory: the address sanitizer's allocator may
 * have been locked by a thread that is not there. Such a child is replaced.
 */
static pid_t emu_kernel_start(struct CUstream_st *stream, struct emu_op *op,
			      struct emu_progress *progress)
{
	pid_t pid;

	for (;;) {
		pid = emu_kernel_fork(stream, op, progress);
		if (pid < 0 || emu_kernel_begins(pid, progress))
			return pid;
		pthread_mutex_lock(&emu.lock);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		stream->kernel = 0;
		pthread_mutex_unlock(&emu.lock);
		progress->here = progress->begun = 0;
	}
}

/* Waits for the end of the stream's kernel. Somebody else in this process may get its status. */
static CUresult emu_kernel_wait(struct CUstream_st *stream, const struct emu_progress *progress)
{
	pid_t pid = stream->kernel;
	siginfo_t info = {0};
	int status = 0;

	while (waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	/* nobody kills a process that is gone */
	pthread_mutex_lock(&emu.lock);
	stream->kernel = 0;
	if (waitpid(pid, &status, 0) != pid)
		status = 0;
	pthread_mutex_unlock(&emu.lock);
	if (__atomic_load_n(&progress->finished, __ATOMIC_ACQUIRE))
		return CUDA_SUCCESS;
	if (!WIFSIGNALED(status))
		return CUDA_ERROR_LAUNCH_FAILED;
	if (!emu_ctx_error(stream->ctx))
		fprintf(stderr, "cudaemu: a kernel ended by a signal: %s\n",
			strsignal(WTERMSIG(status)));
	return WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS
		       ? CUDA_ERROR_ILLEGAL_ADDRESS
		       : CUDA_ERROR_LAUNCH_FAILED;
}

void emu_run_kernel(struct CUstream_st *stream, struct emu_op *op)
{
	struct emu_progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CUresult rc = CUDA_ERROR_LAUNCH_FAILED;

	usleep(1000 * emu.conf.kernel_latency_ms);
	if (op->grid->here)
		rc = op->grid->here(stream, op->grid->args) ? CUDA_SUCCESS
							    : CUDA_ERROR_ILLEGAL_ADDRESS;
	else if (progress != MAP_FAILED && emu_kernel_start(stream, op, progress) > 0)
		rc = emu_kernel_wait(stream, progress);
	else
		perror("cudaemu: no process for a kernel");
	if (progress != MAP_FAILED)
		munmap(progress, sizeof(*progress));
	if (rc == CUDA_SUCCESS)
		return;
	pthread_mutex_lock(&emu.lock);
	emu_ctx_fail(stream->ctx, rc);
	pthread_mutex_unlock(&emu.lock);
}

/* A grid with its arguments behind it */
struct emu_grid *emu_grid_copy(const struct emu_grid *grid, const void *args)
{
	const size_t head = EMU_ROUND_UP(sizeof(*grid), (size_t) 16);
	struct emu_grid *copy = malloc(head + grid->size);

	if (!copy)
		emu_die("copy of a kernel");
	*copy = *grid;
	copy->args = (char *) copy + head;
	if (grid->size)
		memcpy(copy->args, args, grid->size);
	return copy;
}

/* ---- loading ---- */

/* What was loaded, in which context. There are few kernels, and they stay. */
static struct emu_loaded {
	struct emu_loaded *next;
	const void *kernel;
	unsigned int ctx_id;
} * emu_loaded;

static bool emu_kernel_is_loaded(const struct CUctx_st *ctx, const void *kernel)
{
	const struct emu_loaded *loaded;

	for (loaded = emu_loaded; loaded; loaded = loaded->next)
		if (loaded->kernel == kernel && loaded->ctx_id == ctx->id)
			return true;
	return false;
}

/* Called with the lock held. Loading waits for all that the context does, streams that wait for a value included. */
void emu_kernel_load(struct CUctx_st *ctx, const void *kernel, bool waits)
{
	struct emu_loaded *loaded;

	if (emu_kernel_is_loaded(ctx, kernel))
		return;
	if (waits) {
		emu_hold_begin();
		emu_ctx_wait(ctx);
		emu_hold_end();
	}
	loaded = malloc(sizeof(*loaded));
	if (!loaded)
		emu_die("kernel that is loaded");
	*loaded = (struct emu_loaded){emu_loaded, kernel, ctx->id};
	emu_loaded = loaded;
}

int cudaemu_load(const void *kernel)
{
	EMU_ENTER(EMU_NEED_CTX);
	pthread_mutex_lock(&emu.lock);
	emu_hold_pass();
	emu_kernel_load(emu_ctx_current(), kernel, true);
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}

int cudaemu_launch(CUstream stream, const void *kernel, void (*fn)(void *args),
		   const void *args, size_t size, struct cudaemu_dim3 grid,
		   struct cudaemu_dim3 block, unsigned int shared)
{
	const struct emu_grid wanted = {.fn = fn,
					.size = size,
					.grid = grid,
					.block = block,
					.shared = shared};
	struct emu_op *op;
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	if (!fn || !emu_grid_valid(&wanted))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	emu_hold_pass();
	rc = emu_stream_get(stream, &stream);
	if (rc == CUDA_SUCCESS) {
		emu_kernel_load(stream->ctx, kernel, !emu.conf.eager);
		op = emu_op_new(EMU_OP_KERNEL);
		op->grid = emu_grid_copy(&wanted, args);
		emu_stream_enqueue(stream, op);
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
