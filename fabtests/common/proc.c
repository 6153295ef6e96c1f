/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tests of several processes. The first process only watches. It forks the ranks before
 * anything has touched libfabric or a GPU, as neither survives a fork. It turns the ranks' ends
 * into one exit status.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ft_test.h"

#define GRACE_S 15 /* after one rank has failed, for the others to end by themselves */

int ft_skip(const char *fmt, ...)
{
	va_list args;

	printf("skip: ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	return FT_SKIP;
}

size_t ft_kinds(const struct ft_opts *opts, enum fi_hmem_iface kinds[2])
{
	kinds[0] = FI_HMEM_SYSTEM;
	kinds[1] = opts->iface;
	return opts->iface == FI_HMEM_SYSTEM ? 1 : 2;
}

bool ft_over_verbs(const struct ft_opts *opts)
{
	return opts->prov && !strncmp(opts->prov, "verbs", 5);
}

bool ft_has_cntrs(const struct ft_opts *opts)
{
	return opts->ep_type != FI_EP_MSG || !ft_over_verbs(opts);
}

/*
 * Some cores offer events and do not count them. A hook can only hand on what the core counts.
 * So can ofi_p2p over connections.
 */
bool ft_has_events(const struct ft_ctx *ctx)
{
	const char *prov = ctx->opts->prov;

	return !ft_hook_active() && !ft_connected(ctx) &&
	       !(prov && (!strcmp(prov, "tcp") || !strcmp(prov, "net"))) && ft_offered(ctx);
}

/* We have to offer automatic progress where the core provider does, whatever else it has. */
static int ask_automatic(struct ft_ctx *ctx)
{
	struct ft_opts core = *ctx->opts;
	struct ft_ctx alone;
	bool offered;
	char prov[128];
	char *end;

	ctx->hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	snprintf(prov, sizeof(prov), "%s", core.prov ? core.prov : "");
	end = strstr(prov, ";ofi_p2p");
	if (!end)
		return ft_skip("automatic progress: -p does not name ofi_p2p");
	*end = '\0';
	core.prov = prov;
	core.no_hmem = true;
	FT_TRY(ft_hints(&alone, &core));
	alone.hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	offered = ft_offered(&alone);
	fi_freeinfo(alone.hints);
	return offered ? 0 : ft_skip("%s has no automatic progress", prov);
}

int ft_test_own_device(struct ft_proc *proc)
{
	int count = 0;

	if (proc->opts.iface == FI_HMEM_CUDA)
		FT_TRY(ft_cuda_devices(&count));
	if (count >= proc->ranks)
		proc->opts.device = proc->rank;
	return 0;
}

int ft_test_hints(struct ft_proc *proc, struct ft_ctx *ctx)
{
	FT_TRY(ft_hints(ctx, &proc->opts));
	if (proc->opts.automatic)
		FT_TRY(ask_automatic(ctx));
	ctx->hints->caps |= FI_MSG;
	if (!ft_connected(ctx))
		ctx->hints->caps |= FI_TAGGED | FI_DIRECTED_RECV;
	ctx->hints->domain_attr->cq_data_size = 4;
	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			ctx->watch_fd[ctx->watch_count++] = proc->fd[i];
	return 0;
}

int ft_test_open(struct ft_proc *proc, struct ft_ctx *ctx)
{
	const char *const addr = proc->opts.src_addr;
	const bool connected = ft_connected(ctx);
	const int fd = proc->fd[!proc->rank];

	if (connected && proc->rank)
		FT_TRY(ft_resolve_listener(ctx, fd));
	else
		FT_TRY(ft_getinfo(ctx, addr, NULL, addr ? FI_SOURCE : 0));
	if (connected && !proc->rank)
		FT_TRY(ft_listen(ctx, fd));
	return ft_open(ctx);
}

int ft_test_connect(struct ft_proc *proc, struct ft_ctx *ctx)
{
	struct ft_name mine, other;

	if (ft_connected(ctx))
		return ft_connect(ctx);
	FT_TRY(ft_getname(ctx, &mine));
	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_send(proc->fd[i], &mine, sizeof(mine)));
	for (int i = 0; i < proc->ranks; i++) {
		if (i == proc->rank)
			continue;
		FT_TRY(ft_oob_recv(proc->fd[i], &other, sizeof(other), proc->opts.timeout));
		FT_TRY(ft_av_insert(ctx, other.bytes, &ctx->peer[i]));
	}
	return 0;
}

/*
 * Has every other rank sent its byte? None is read before all have come. A rank may end once it
 * has everybody's byte, and ft_idle() must not take that rank for one that failed.
 */
static bool all_ready(const struct ft_proc *proc)
{
	struct pollfd pfd = {.events = POLLIN};

	for (int i = 0; i < proc->ranks; i++) {
		pfd.fd = proc->fd[i];
		if (i != proc->rank && poll(&pfd, 1, 0) <= 0)
			return false;
	}
	return true;
}

int ft_meet_all(struct ft_proc *proc)
{
	char byte = 0;

	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_send(proc->fd[i], &byte, 1));
	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_recv(proc->fd[i], &byte, 1, proc->opts.timeout));
	ft_progress_note();
	return 0;
}

int ft_meet(struct ft_proc *proc)
{
	const int fd = proc->fd[!proc->rank];
	char byte = 0;

	FT_TRY(ft_oob_send(fd, &byte, 1));
	FT_TRY(ft_oob_recv(fd, &byte, 1, proc->opts.timeout));
	ft_progress_note();
	return 0;
}

int ft_barrier(struct ft_proc *proc, struct ft_ctx *ctx)
{
	char byte = 0;

	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_send(proc->fd[i], &byte, 1));
	/* peers may need our progress to get to their barrier */
	while (ctx->cq && !all_ready(proc)) {
		int n = ft_progress(ctx);

		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(ctx));
	}
	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_recv(proc->fd[i], &byte, 1, proc->opts.timeout));
	ft_progress_note();
	return 0;
}

/*
 * libfabric's psm libraries catch fatal signals and exit, so a death by signal would look like
 * a failed test. Sanitizers catch them, too, but they say more than the signal does.
 */
static void default_signals(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	void *self = dlopen(NULL, RTLD_LAZY);

	if (!self || dlsym(self, "__asan_init") || dlsym(self, "__tsan_init"))
		return;
	for (size_t i = 0; i < FT_COUNT(fatal); i++)
		signal(fatal[i], SIG_DFL);
}

/* The test passes only if each rank has copied that way */
static int run_with_gdrcopy(const struct ft_test *test, struct ft_proc *proc)
{
	unsigned long to, from;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(test->run(proc));
	FT_TRY(ft_cuda_calls("gdr_copy_to_mapping", &to));
	FT_TRY(ft_cuda_calls("gdr_copy_from_mapping", &from));
	printf("by way of gdrcopy: %lu copies to device memory, %lu from it\n", to, from);
	FT_CHECK(to || from, "no copies by way of gdrcopy");
	return 0;
}

static void __attribute__((noreturn))
rank_main(const struct ft_test *test, struct ft_proc *proc)
{
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	default_signals();
	ft_prefix_set(proc->opts.argv[0], proc->ranks > 1 ? proc->rank : -1);
	ret = test->ask ? test->ask(proc) : 0;
	if (!ret && test->run) {
		ret = ft_watchdog_start(proc->opts.timeout);
		if (!ret)
			ret = proc->opts.expect_gdrcopy ? run_with_gdrcopy(test, proc)
							: test->run(proc);
	}
	if (ret == FT_SKIP) {
		/* what the test had begun is no leak */
		fflush(NULL);
		_exit(FT_SKIP);
	}
	exit(ret ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Socketpairs between any two ranks; fd[i][j] is rank i's end towards rank j. */
static int connect_all(int ranks, int fd[FT_MAX_RANKS][FT_MAX_RANKS])
{
	int pair[2];

	for (int i = 0; i < ranks; i++)
		for (int j = i + 1; j < ranks; j++) {
			if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
				return ft_errno("socketpair", "between ranks");
			fd[i][j] = pair[0];
			fd[j][i] = pair[1];
		}
	return 0;
}

/* A process closes the ends of others: one that stayed open here would hide a peer's death. */
static void close_others(int ranks, int self, int fd[FT_MAX_RANKS][FT_MAX_RANKS])
{
	for (int i = 0; i < ranks; i++)
		for (int j = 0; j < ranks; j++)
			if (i != j && i != self)
				close(fd[i][j]);
}

static int judge(const struct ft_test *test, int rank, int status)
{
	if (WIFEXITED(status)) {
		if (WEXITSTATUS(status) != EXIT_SUCCESS && WEXITSTATUS(status) != FT_SKIP)
			ft_err("rank %d failed with exit status %d", rank, WEXITSTATUS(status));
		return WEXITSTATUS(status);
	}
	if (WTERMSIG(status) == SIGKILL && rank == test->may_die)
		return EXIT_SUCCESS;
	ft_err("rank %d was killed by signal %d (%s)", rank, WTERMSIG(status),
	       strsignal(WTERMSIG(status)));
	return EXIT_FAILURE;
}

static void on_alarm(int sig)
{
	/* There is nothing to do: the signal interrupts waitpid(). */
}

static int supervise(const struct ft_test *test, int ranks, pid_t pid[FT_MAX_RANKS])
{
	struct sigaction action = {.sa_handler = on_alarm};
	int result = EXIT_SUCCESS, left = ranks;

	sigaction(SIGALRM, &action, NULL);
	while (left) {
		int status, rank, one;
		pid_t ended = waitpid(-1, &status, 0);

		if (ended < 0 && errno == EINTR) {
			ft_err("ranks left over after another's failure are killed");
			for (rank = 0; rank < ranks; rank++)
				if (pid[rank])
					kill(pid[rank], SIGKILL);
			continue;
		}
		if (ended < 0)
			return EXIT_FAILURE;
		for (rank = 0; rank < ranks && pid[rank] != ended; rank++)
			;
		if (rank == ranks)
			continue;
		pid[rank] = 0;
		left--;
		one = judge(test, rank, status);
		/* a failure outweighs a skip, and a skip outweighs a pass */
		if (one == FT_SKIP ? result == EXIT_SUCCESS : one != EXIT_SUCCESS)
			result = one;
		if (one != EXIT_SUCCESS)
			alarm(GRACE_S);
	}
	alarm(0);
	return result;
}

int ft_test_round(const struct ft_test *test, const struct ft_opts *opts)
{
	int fd[FT_MAX_RANKS][FT_MAX_RANKS];
	pid_t pid[FT_MAX_RANKS] = {0};
	struct ft_proc proc = {.opts = *opts};

	proc.opts.rests = !test->measures;
	proc.ranks = opts->ep_type == FI_EP_MSG ? 2 : test->ranks;
	if (connect_all(proc.ranks, fd))
		return EXIT_FAILURE;
	for (int i = 0; i < proc.ranks; i++) {
		pid[i] = ft_host_fork(i);
		if (pid[i] < 0) {
			ft_errno("fork", "rank");
			return EXIT_FAILURE;
		}
		if (pid[i])
			continue;
		proc.rank = i;
		memcpy(proc.fd, fd[i], sizeof(proc.fd));
		close_others(proc.ranks, i, fd);
		rank_main(test, &proc);
	}
	close_others(proc.ranks, -1, fd);
	return supervise(test, proc.ranks, pid);
}

int ft_test_main(const struct ft_test *test, int argc, char **argv)
{
	struct ft_test round = *test;
	struct ft_opts opts;
	int ret;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ft_options_parse(&opts, test->scope ? test->scope : FT_SCOPE_TEST, test->purpose, argc,
			 argv);
	if (opts.ep_type == FI_EP_MSG && !test->connects)
		return ft_skip("for reliable datagram endpoints only");
	printf("provider %s, seed %" PRIu64 "\n", opts.prov ? opts.prov : "(any)", opts.seed);
	if (opts.ranks)
		round.ranks = opts.ranks;
	do
		ret = ft_test_round(&round, &opts);
	while (ret == EXIT_SUCCESS && !opts.ranks && ++round.ranks <= test->most_ranks);
	free(opts.sizes);
	if (ret == EXIT_SUCCESS)
		printf("passed\n");
	return ret;
}

static bool is_core_socket(int fd)
{
	socklen_t len = sizeof(int);
	int family, type;

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) && family != AF_UNIX &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM;
}

/*
 * Where a thread of this process answers who asks for memory that it has offered: from the first
 * such offer until the process ends, and there is only one of the name.
 */
static bool is_share_socket(int fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNSPEC};
	socklen_t len = sizeof address;

	return !getsockname(fd, (struct sockaddr *) &address, &len) &&
	       address.sun_family == AF_UNIX && !strncmp(address.sun_path + 1, "ofi_p2p.", 8);
}

int ft_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int count = 0;

	while (dir && (entry = readdir(dir))) {
		const int fd = atoi(entry->d_name);

		count += !is_core_socket(fd) && !is_share_socket(fd);
	}
	if (dir)
		closedir(dir);
	return count;
}
