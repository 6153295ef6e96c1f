/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_containers: two ranks that namespaces keep apart, or not (fi_p2p_hosts --containers). Device memory of two kinds goes
 * both ways. The ranks tell each other where they are. So it is known which way each message has to take, and which reason
 * its sender has to be told. Then, without -q, rank 1 is killed, and what is under way with it ends.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rdma/fi_ext_p2p.h>

#include "cudamem.h"
#include "ft_test.h"

#define LONG_LEN ((size_t) 1100001)
#define ROUNDS 3
#define TRIES 10
#define UNMET 4 /* sends that never find a receive */
#define TAG 7

static const char *const spaces[] = {"pid", "ipc", "net", "user"};
enum { PID, IPC, NET, USER, SPACES };

/* Where a rank is: its namespaces, and who it is in there */
struct place {
	uint64_t space[SPACES];
	uint64_t number, user;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct fi_p2p_stats_ops *stats;
	struct place here, there;
};

static int look(struct side *side)
{
	const int fd = side->proc->fd[!side->proc->rank];
	struct stat ns;
	char path[32];

	for (int i = 0; i < SPACES; i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", spaces[i]);
		if (stat(path, &ns))
			return ft_errno("stat", path);
		side->here.space[i] = ns.st_ino;
	}
	side->here.number = (uint64_t) getpid();
	side->here.user = geteuid();
	FT_TRY(ft_oob_send(fd, &side->here, sizeof(side->here)));
	return ft_oob_recv(fd, &side->there, sizeof(side->there), side->proc->opts.timeout);
}

static bool apart(const struct side *side, int space)
{
	return side->here.space[space] != side->there.space[space];
}

/* The way of messages from such memory. NULL: from device to device; else a part of the reason why not */
static const char *expected(const struct side *side, bool virtual)
{
	const bool sees = !apart(side, PID) && !apart(side, USER);

	if (side->here.user != side->there.user)
		return "another user id";
	if (!sees && apart(side, NET))
		return "in another network namespace, and in another PID or user namespace";
	if (virtual)
		return apart(side, NET) ? "cannot ask for virtual memory" : NULL;
	return apart(side, PID) && side->here.number == side->there.number
		       ? "has the sender's process id"
		       : NULL;
}

static int message(struct side *side, bool sends, const struct ft_buf *buf, uint64_t number)
{
	const struct ft_slot slot = {.buf = buf,
				     .room = LONG_LEN + FT_ROOM,
				     .off = 65,
				     .len = LONG_LEN};
	struct ft_req req = {0};
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = side->ctx.peer[!side->proc->rank],
		.tag = TAG,
		.req = &req,
	};

	ft_op_buf(&op, buf, slot.off, LONG_LEN);
	FT_TRY(sends ? ft_slot_fill(&slot, number) : ft_slot_arm(&slot));
	FT_TRY(ft_post(&side->ctx, &op));
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	return sends ? 0 : ft_slot_check(&slot, LONG_LEN, number, "between containers");
}

/* Messages from the memory @buf. @bytes: how many went by that way, if this rank sends */
static int messages(struct side *side, const struct ft_buf *buf, bool sends,
		    enum fi_p2p_path path, uint64_t *bytes)
{
	struct fi_p2p_stats stats;

	FT_TRY(side->stats->read(&side->ctx.ep->fid, &stats, sizeof(stats)));
	*bytes = stats.tx_bytes[path];
	for (uint64_t i = 0; i < ROUNDS; i++)
		FT_TRY(message(side, sends, buf, i + 1));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(side->stats->read(&side->ctx.ep->fid, &stats, sizeof(stats)));
	*bytes = stats.tx_bytes[path] - *bytes;
	return 0;
}

/*
 * The same, from rank @from to the other one, until all go as expected. Who does not get memory within 0.3 s, as the
 * machine is busy, stages a few
 */
static int exchange(struct side *side, const struct ft_buf *buf, bool virtual, int from)
{
	const int other = side->proc->fd[!side->proc->rank];
	const bool sends = side->proc->rank == from;
	const char *const why = expected(side, virtual);
	const enum fi_p2p_path path = why ? FI_P2P_PATH_STAGE : FI_P2P_PATH_IPC;
	struct fi_p2p_stats stats;
	uint64_t bytes;
	uint8_t again = 1;

	for (int i = 0; again && i < TRIES; i++) {
		FT_TRY(messages(side, buf, sends, path, &bytes));
		again = !why && bytes != ROUNDS * LONG_LEN;
		FT_TRY(sends ? ft_oob_send(other, &again, 1)
			     : ft_oob_recv(other, &again, 1, side->proc->opts.timeout));
	}
	if (!sends)
		return 0;
	FT_TRY(side->stats->read(&side->ctx.ep->fid, &stats, sizeof(stats)));
	FT_CHECK(bytes == ROUNDS * LONG_LEN,
		 "from %s memory: %" PRIu64
		 " bytes by way %d, where all %zu should: staged: %s",
		 virtual ? "virtual" : "device", bytes, path, ROUNDS * LONG_LEN,
		 stats.reason[FI_P2P_PATH_STAGE]);
	FT_CHECK(!why || strstr(stats.reason[path], why),
		 "the reason is \"%s\", and not \"%s\"", stats.reason[path], why);
	return 0;
}

/* Rank 1 is killed amid messages from both kinds of memory that it has not received: they fail */
static int lose(struct side *side, const struct ft_buf *bufs)
{
	static struct ft_req
		reqs[UNMET]; /* the provider may hold requests until the very end */
	double began;

	FT_TRY(ft_barrier(side->proc, &side->ctx));
	if (side->proc->rank) {
		raise(SIGKILL);
		return -FI_EIO;
	}
	began = ft_usec();
	for (int i = 0; i < UNMET; i++) {
		struct ft_op op = {
			.call = FT_SEND,
			.tagged = true,
			.addr = side->ctx.peer[1],
			.tag = TAG,
			.req = &reqs[i],
		};
		ssize_t ret;

		ft_op_buf(&op, &bufs[i % 2], 0, LONG_LEN);
		while ((ret = ft_post_once(&side->ctx, &op)) == -FI_EAGAIN)
			FT_TRY(ft_progress(&side->ctx) < 0 ? -FI_EIO : 0);
		/* the core may know already */
		reqs[i].done = ret;
		reqs[i].err = (int) -ret;
	}
	FT_TRY(ft_wait_any_result(&side->ctx, reqs, UNMET));
	for (int i = 0; i < UNMET; i++)
		FT_CHECK(reqs[i].err > 0, "a message to a killed rank has been sent");
	printf("[0] all has ended %.1f s after rank 1\n", (ft_usec() - began) / 1e6);
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct side side = {.proc = proc};
	struct ft_buf bufs[2] = {{0}};
	int ret;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return proc->rank ? FT_SKIP : ft_skip("needs CUDA memory (-D cuda)");
	FT_TRY(ft_test_hints(proc, &side.ctx));
	side.ctx.watch_count = 0; /* that a peer goes is the point */
	FT_TRY(cudamem_vmm_shared.init(proc->opts.device));
	FT_TRY(ft_test_open(proc, &side.ctx));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	if (fi_open_ops(&side.ctx.ep->fid, FI_P2P_STATS_OPS, 0, (void **) &side.stats, NULL))
		return proc->rank ? FT_SKIP : ft_skip("needs ofi_p2p");
	FT_TRY(look(&side));
	for (int i = 0; i < 2; i++)
		FT_TRY(ft_buf_alloc_by(&side.ctx, &bufs[i],
				       i ? &cudamem_vmm_shared : &ft_cuda_ops,
				       LONG_LEN + FT_ROOM));
	for (int i = 0; i < 4; i++)
		FT_TRY(exchange(&side, &bufs[i / 2], i / 2, i % 2));
	/* shm's peers share locks: one that is killed at the wrong moment stops the others, whatever we do */
	if (!proc->opts.quick && strncmp(proc->opts.prov, "shm", 3) != 0)
		FT_TRY(lose(&side, bufs));
	FT_TRY(fi_close(&side.ctx.ep->fid));
	side.ctx.ep = NULL;
	for (int i = 0; i < 2; i++)
		ft_buf_free(&bufs[i]);
	ret = ft_close(&side.ctx);
	/* ofi_rxm keeps its own registrations of what was lost, so its domain */
	return ret == -FI_EBUSY ? 0 : ret;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Device memory between containers of one host.",
		.ranks = 2,
		.may_die = 1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
