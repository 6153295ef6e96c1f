/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Asks a CUDA driver by what rules it goes, where probe.c asks for errors: what is legal in a
 * capture, when bytes are visible, who waits for whom. Each part is a process of its own, with an
 * alarm. So no part hangs, and a crash is a row, too.
 *
 * rules.h200 is what driver 580 (CUDA 13.0) says on two H200s. The emulator has to say the same: built
 * as a test, the program compares. By hand, on a machine with a GPU, it prints what that one says:
 *
 *   gcc -D_GNU_SOURCE -I. -I<prov/p2p/src> rules*.c -o rules -l:libcuda.so.1 -lpthread -ldl; ./rules [all | PART...]
 *
 * RULES_PATIENCE_MS is how long a call may take before it is said to wait. With RULES_COUNT, rows of
 * copies have numbers. These differ from run to run.
 */
#include "rules.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PART_SECONDS 40

struct rules rules;

/* The driver cannot be asked for it at the end of the process */
const char *rules_name(CUresult rc)
{
#define RULES_NAMED(name, value) {value, #name},
	static const struct {
		int value;
		const char *name;
	} names[] = {P2P_CUDA_RESULTS(RULES_NAMED)};
#undef RULES_NAMED
	const char *s = "unknown";
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].value == (int) rc)
			s = names[i].name;
	s += strncmp(s, "CUDA_", 5) ? 0 : 5;
	return s + (strncmp(s, "ERROR_", 6) ? 0 : 6);
}

void rules_row(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

void rules_must(CUresult rc, const char *call)
{
	if (rc == CUDA_SUCCESS)
		return;
	rules_row("(this part ends: %s: %s)", call, rules_name(rc));
	_exit(0);
}

/* ---- what the parts work with ---- */

void rules_open(void)
{
	RULES_MUST(cuInit(0));
	RULES_MUST(cuDevicePrimaryCtxRetain(&rules.ctx, 0));
	RULES_MUST(cuCtxSetCurrent(rules.ctx));
}

CUresult rules_vmm_access(CUdeviceptr ptr, size_t size, int device)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	return cuMemSetAccess(ptr, size, &access, 1);
}

CUdeviceptr rules_vmm_new(size_t size, int device, CUmemGenericAllocationHandle *handle)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	CUdeviceptr ptr;

	RULES_MUST(cuMemCreate(handle, size, &prop, 0));
	RULES_MUST(cuMemAddressReserve(&ptr, size, 0, 0, 0));
	RULES_MUST(cuMemMap(ptr, size, 0, *handle, 0));
	return ptr;
}

void rules_open_all(void)
{
	void *p;

	rules_open();
	RULES_MUST(cuStreamCreate(&rules.side, CU_STREAM_NON_BLOCKING));
	RULES_MUST(cuStreamCreate(&rules.blocking, CU_STREAM_DEFAULT));
	RULES_MUST(cuMemAlloc_v2(&rules.device, RULES_BIG));
	RULES_MUST(cuMemAlloc_v2(&rules.device2, RULES_BIG));
	RULES_MUST(cuMemAllocAsync(&rules.pool, RULES_BIG, rules.side));
	RULES_MUST(cuMemAllocManaged(&rules.managed, RULES_BIG, CU_MEM_ATTACH_GLOBAL));
	rules.vmm = rules_vmm_new(RULES_BIG, 0, &rules.vmm_handle);
	RULES_MUST(rules_vmm_access(rules.vmm, RULES_BIG, 0));
	RULES_MUST(cuMemHostAlloc(&rules.pinned, RULES_BIG, CU_MEMHOSTALLOC_PORTABLE));
	memset(rules.pinned, 0, RULES_BIG);
	RULES_MUST(cuMemHostAlloc(&p, sizeof(*rules.words), CU_MEMHOSTALLOC_PORTABLE));
	rules.words = p;
	rules.pageable = mmap(NULL, RULES_BIG, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(rules.pageable, 0, RULES_BIG);
	RULES_MUST(cuCtxSynchronize());
}

unsigned int rules_primary_flags(void)
{
	unsigned int flags = 0;
	int active;

	RULES_MUST(cuDevicePrimaryCtxGetState(0, &flags, &active));
	return flags;
}

/* ---- calls that may wait ---- */

static void *rules_held_run(void *arg)
{
	struct rules_held *held = arg;

	cuCtxSetCurrent(rules.ctx);
	held->rc = held->call();
	__atomic_store_n(&held->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

bool rules_returns(struct rules_held *held, CUresult (*call)(void))
{
	const char *env = getenv("RULES_PATIENCE_MS");
	const struct timespec round = {0, 1000000};
	int left = env ? atoi(env) : 250;
	pthread_t thread;

	held->call = call;
	held->done = 0;
	errno = pthread_create(&thread, NULL, rules_held_run, held);
	if (errno) {
		perror("a thread for a call that may be held");
		abort();
	}
	held->thread = (void *) thread;
	for (; left > 0 && !__atomic_load_n(&held->done, __ATOMIC_ACQUIRE); left--)
		nanosleep(&round, NULL);
	return __atomic_load_n(&held->done, __ATOMIC_ACQUIRE);
}

void rules_join(struct rules_held *held)
{
	pthread_join((pthread_t) held->thread, NULL);
}

/* ---- parts ---- */

static const struct {
	const char *name;
	rules_part *run;
	const char *loading; /* CUDA_MODULE_LOADING */
} rules_parts[] = {
	{"names", rules_names, NULL},
	{"visible devices", rules_visible, NULL},
	{"flags", rules_flags, NULL},
	{"attributes", rules_attributes, NULL},
	{"captures", rules_captures, NULL},
	{"captures, blocking", rules_captures_blocking, NULL},
	{"host functions", rules_host, NULL},
	{"copies", rules_copies, NULL},
	{"copies, attribute", rules_copies_attribute, NULL},
	{"copies, cuCtxSetFlags", rules_copies_current, NULL},
	{"copies, cuDevicePrimaryCtxSetFlags", rules_copies_active, NULL},
	{"copies, flag before the context", rules_copies_early, NULL},
	{"copies, cuCtxCreate", rules_copies_created, NULL},
	{"loading", rules_loading, NULL},
	{"loading, LAZY", rules_loading, "LAZY"},
	{"loading, EAGER", rules_loading, "EAGER"},
	{"access", rules_access, NULL},
	{"access by a kernel", rules_access_kernel, NULL},
	{"credit", rules_credit, NULL},
	{"imports", rules_imports, NULL},
	{"destroyed context", rules_destroyed, NULL},
	{"destroyed context, its stream is queried", rules_destroyed_query, NULL},
	{"destroyed context, its stream copies", rules_destroyed_copy, NULL},
	{"destroyed context, its stream is destroyed", rules_destroyed_destroy, NULL},
	{"reset context", rules_reset, NULL},
	{"exit", rules_exit, NULL},
	{"exit, a thread goes on", rules_exit_thread, NULL},
	{"waits", rules_waits, NULL},
	{"waits, SYNC_MEMOPS", rules_waits_flag, NULL},
	{"waits, flags are set", rules_waits_set, NULL},
	{"waits, memory of another process", rules_waits_peer, NULL},
	{"meanwhile", rules_meanwhile, NULL},
};

#define RULES_PARTS (sizeof(rules_parts) / sizeof(rules_parts[0]))

/* Runs the part in a process of its own, whose rows go to @out */
static pid_t rules_begin(size_t i, FILE *out)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	alarm(PART_SECONDS);
	dup2(fileno(out), STDOUT_FILENO);
	unsetenv("CUDA_MODULE_LOADING");
	if (rules_parts[i].loading)
		setenv("CUDA_MODULE_LOADING", rules_parts[i].loading, 1);
	rules_parts[i].run();
	fflush(stdout);
	_exit(0);
}

static void rules_end(pid_t pid, FILE *out)
{
	int status = 0;

	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status)) {
		fseek(out, 0, SEEK_END);
		fprintf(out, "(this part ended by signal %d)\n", WTERMSIG(status));
		fflush(out);
	}
}

#ifdef RULES_RECORDED

/* ---- comparison with what another driver has said ---- */

#define ROW 1024
#define RULES_TRIES 5

static bool rules_has(FILE *rows, const char *row)
{
	char line[ROW];

	rewind(rows);
	while (fgets(line, sizeof(line), rows))
		if (!strcmp(line, row))
			return true;
	return false;
}

/* Are all rows of the part that the file has among these? Those in brackets say why there are no others. */
static bool rules_like(FILE *file, const char *part, FILE *rows, bool tell)
{
	char line[ROW], head[ROW];
	bool within = false, like = true;

	snprintf(head, sizeof(head), "-- %s\n", part);
	rewind(file);
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "-- ", 3)) {
			within = !strcmp(line, head);
			continue;
		}
		if (!within || line[0] == '(' || rules_has(rows, line))
			continue;
		like = false;
		if (tell)
			printf("%s: not so: %s", part, line);
	}
	return like;
}

/* All at once, as most parts do nothing but wait. What differs may have had too little time. */
static int rules_compare(const char *path)
{
	FILE *file = fopen(path, "r"), *rows[RULES_PARTS];
	pid_t pids[RULES_PARTS];
	int ret = 0;
	size_t i;

	if (!file) {
		perror(path);
		return 2;
	}
	setenv("RULES_PATIENCE_MS", "80", 0);
	setenv("RULES_QUICK", "yes", 1);
	for (i = 0; i < RULES_PARTS; i++) {
		rows[i] = tmpfile();
		if (!rows[i]) {
			perror("a file for rows");
			return 2;
		}
		pids[i] = rules_begin(i, rows[i]);
	}
	for (i = 0; i < RULES_PARTS; i++)
		rules_end(pids[i], rows[i]);
	setenv("RULES_PATIENCE_MS", "1000", 1);
	unsetenv("RULES_QUICK");
	for (i = 0; i < RULES_PARTS; i++) {
		int tries = 0;

		/* a copy that comes late shows only to a thread that looks in time: on a busy machine it may not */
		while (!rules_like(file, rules_parts[i].name, rows[i], tries == RULES_TRIES) &&
		       tries++ < RULES_TRIES) {
			fclose(rows[i]);
			rows[i] = tmpfile();
			rules_end(rules_begin(i, rows[i]), rows[i]);
		}
		if (tries > RULES_TRIES)
			ret = 1;
	}
	return ret;
}

#endif /* RULES_RECORDED */

int main(int argc, char **argv)
{
	bool wanted;
	size_t i;
	int arg;

#ifdef RULES_RECORDED
	if (argc == 1)
		return rules_compare(RULES_RECORDED);
#endif
	for (i = 0; i < RULES_PARTS; i++) {
		wanted = argc == 1;
		for (arg = 1; arg < argc; arg++)
			wanted |= !strcmp(argv[arg], "all") ||
				  !strcmp(argv[arg], rules_parts[i].name);
		if (!wanted)
			continue;
		printf("-- %s\n", rules_parts[i].name);
		rules_end(rules_begin(i, stdout), stdout);
	}
	return 0;
}
