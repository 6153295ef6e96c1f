/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_kill: a peer is killed, or stopped for good, for a moment, or for longer than
 * FI_P2P_PEER_TIMEOUT, while operations of every kind are under way with it (kill_ops.c). Everything
 * that is not the core provider's ends, memory and regions come free, a third rank is served meanwhile
 * as if nothing had been, and all closes. Who comes back within the timeout loses nothing; who comes
 * back later is told, and may talk again.
 *
 * Each round has processes of its own. What is random in it comes from its seed, which is printed.
 * -q takes all scenes together in one round, where else each has rounds of its own.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kill.h"

#define EXCHANGE 8 /* messages each way: more than there is staging memory for */
#define GOOD_PLACE ((size_t) 300001 + FT_ROOM + 64)
#define TAG_GOOD ((uint64_t) 0x7000 << 16)
#define TAG_HAIL ((uint64_t) 0x7001 << 16)
#define HAIL_LEN ((size_t) 200000)
#define OTHERS_LEN ((size_t) 100)
#define REGION_US 4e6 /* for so long it is looked whether a region comes free that may not */
#define DESCRIPTOR_US 1e6 /* and so long until descriptors are closed */

/* What survivor and the others tell each other beside the fabric */
#define READY 'p'  /* all is posted */
#define BACK 'b'   /* the victim has been woken */
#define DONE 'd'   /* the victim's operations have ended */
#define MEET 'x'   /* exchange messages */
#define HAIL 'h'   /* find out whether messages arrive */
#define MET 'y'    /* that is done */
#define CHECK 'c'  /* look for what was written */
#define BUFFER 'm' /* send one into the buffer for many */
#define QUIT 'q'

static const char *const fates[KILL_FATES] = {"kill", "stop", "pause", "late"};

/* The round's: drawn before the ranks are forked */
static struct kill_plan plan;

/* ---- progress ---- */

static bool readable(int fd, int wait_ms)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, wait_ms) > 0;
}

/* When the signal comes late, both have posted everything before: each knows what the other one has */
static int arm(struct kill_side *s)
{
	const int fd = s->proc->fd[s->peer];
	char byte;

	if (s->armed || !(plan.fate != KILL_LATE || kill_posted(s)))
		return 0;
	if (plan.fate == KILL_LATE && !s->told) {
		byte = READY;
		s->told = true;
		FT_TRY(ft_oob_send(fd, &byte, 1));
	}
	if (plan.fate == KILL_LATE && !readable(fd, 0))
		return 0;
	if (plan.fate == KILL_LATE)
		FT_TRY(ft_oob_recv(fd, &byte, 1, s->proc->opts.timeout));
	s->armed = true;
	return 0;
}

static int step(struct kill_side *s)
{
	int n;

	FT_TRY(kill_post_due(s));
	n = ft_progress(&s->ctx);
	if (n < 0)
		return n;
	s->polls += s->armed;
	return n ? 0 : ft_idle(&s->ctx);
}

/* Without receives that may have met no message */
static bool engaged(const struct kill_side *s, const struct kill_op *op)
{
	return kill_must_end(s, op) && !kill_receives(op);
}

/* All but buffers for many, which end when they are full */
static bool single(const struct kill_side *s, const struct kill_op *op)
{
	return op->part->kind != KILL_MULTI && (op->posted || !op->refused);
}

static int await(struct kill_side *s, const char *what,
		 bool (*concerned)(const struct kill_side *s, const struct kill_op *op))
{
	int ret = 0;

	for (size_t i = 0; !ret && i < s->count; i++)
		while (!ret && concerned(s, &s->ops[i]) && !s->ops[i].req.done)
			ret = step(s);
	if (!ret)
		return 0;
	printf("[%d] %s:\n", s->proc->rank, what);
	for (size_t i = 0; i < s->count; i++)
		if (concerned(s, &s->ops[i]) && !s->ops[i].req.done)
			kill_op_print(&s->ops[i]);
	return ret;
}

static int await_byte(struct kill_side *s, int rank, char expected)
{
	char byte;

	while (!readable(s->proc->fd[rank], 0))
		FT_TRY(step(s));
	FT_TRY(ft_oob_recv(s->proc->fd[rank], &byte, 1, s->proc->opts.timeout));
	FT_CHECK(byte == expected, "rank %d says %c, not %c", rank, byte, expected);
	return 0;
}

/* ---- what goes right all the time ---- */

/* Both ways at once */
static int exchange(struct kill_side *s, int rank)
{
	static const size_t sizes[EXCHANGE] = {8,      300001, 3000,   30000,
					       300001, 60001,  300001, 200000};
	const uint64_t round = s->met[rank]++;
	struct ft_req req[2 * EXCHANGE] = {0};
	struct ft_slot slot[2 * EXCHANGE];

	for (size_t i = 0; i < 2 * EXCHANGE; i++) {
		const bool send = i >= EXCHANGE;
		const size_t at = i * GOOD_PLACE, len = sizes[i % EXCHANGE];
		struct ft_op op = {
			.call = send ? FT_SEND : FT_RECV,
			.tagged = true,
			.addr = s->ctx.peer[rank],
			.tag = TAG_GOOD | round << 8 | i % EXCHANGE,
			.req = &req[i],
		};

		slot[i] = (struct ft_slot){&s->good, at, len + FT_ROOM, at + 64, len};
		FT_TRY(send ? ft_slot_fill(&slot[i], op.tag) : ft_slot_arm(&slot[i]));
		ft_op_buf(&op, &s->good, slot[i].off, len);
		FT_TRY(ft_post(&s->ctx, &op));
	}
	FT_TRY(ft_wait(&s->ctx, req, 2 * EXCHANGE));
	for (size_t i = 0; i < EXCHANGE; i++)
		FT_TRY(ft_slot_check(&slot[i], slot[i].len, TAG_GOOD | round << 8 | i,
				     "a message beside those of the lost one"));
	/* the core may still have some of what is sent: nobody closes before it is there */
	FT_TRY(ft_oob_send(s->proc->fd[rank], &(char){MET}, 1));
	return await_byte(s, rank, MET);
}

/*
 * One message each way, of which one end or both may say that it has failed: who was stopped is told late, by
 * the answer to what it says. After that they can talk. What is received has no check, and no end: the
 * other end may have given up before.
 */
static int hail(struct kill_side *s)
{
	static struct ft_req received, sent;
	struct ft_op op = {
		.call = FT_RECV,
		.tagged = true,
		.addr = s->ctx.peer[s->peer],
		.tag = TAG_HAIL,
		.req = &received,
	};

	ft_op_buf(&op, &s->hail, 0, HAIL_LEN);
	FT_TRY(ft_post(&s->ctx, &op));
	op.call = FT_SEND;
	op.req = &sent;
	ft_op_buf(&op, &s->hail, HAIL_LEN, HAIL_LEN);
	FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_wait_any_result(&s->ctx, &sent, 1));
	FT_TRY(ft_oob_send(s->proc->fd[s->peer], &(char){MET}, 1));
	return await_byte(s, s->peer, MET);
}

/* Into the survivor's buffer for many, which also gets messages of the victim's */
static int send_to_buffer(struct kill_side *s)
{
	const struct ft_slot slot = {&s->good, 0, OTHERS_LEN + FT_ROOM, 64, OTHERS_LEN};
	struct ft_req req = {0};
	struct ft_op op = {
		.call = FT_SENDDATA,
		.addr = s->ctx.peer[SURVIVOR],
		.data = TAG_GOOD,
		.req = &req,
	};

	FT_TRY(ft_slot_fill(&slot, TAG_GOOD));
	ft_op_buf(&op, &s->good, slot.off, slot.len);
	FT_TRY(ft_post(&s->ctx, &op));
	return ft_wait(&s->ctx, &req, 1);
}

/* What the survivor asks for, until it says QUIT */
static int serve(struct kill_side *s)
{
	const int fd = s->proc->fd[SURVIVOR];
	char wish;
	int ret;

	do {
		/* the other two have the processors */
		while (!readable(fd, 1)) {
			ft_progress_note(); /* it is the survivor that watches the clock */
			FT_TRY(step(s));
		}
		FT_TRY(ft_oob_recv(fd, &wish, 1, s->proc->opts.timeout));
		if (wish == MEET)
			FT_TRY(exchange(s, SURVIVOR));
		if (wish == HAIL)
			FT_TRY(hail(s));
		if (wish == BUFFER)
			FT_TRY(send_to_buffer(s));
		while (wish == CHECK && !(ret = kill_written(s)))
			FT_TRY(step(s));
		if (wish == CHECK && ret < 0)
			return ret;
	} while (wish != QUIT);
	return 0;
}

/*
 * shm hands out completions in the order in which they were posted. So one of a silent peer's, for which
 * the core needs that peer, holds up everybody's (1.17).
 */
static bool others_served(const struct kill_side *s)
{
	const char *path = getenv("FI_P2P_PATH");

	return strncmp(s->ctx.info->fabric_attr->prov_name, "shm", 3) ||
	       (ft_is_p2p(&s->ctx) && plan.device[SURVIVOR] && plan.device[VICTIM] &&
		!(path && !strcmp(path, "stage")));
}

static int ask(struct kill_side *s, int rank, char wish)
{
	FT_TRY(ft_oob_send(s->proc->fd[rank], &wish, 1));
	if (wish == HAIL)
		return hail(s);
	return wish == MEET ? exchange(s, rank) : 0;
}

/* ---- the beginning of a round ---- */

static int find_kinds(struct kill_side *s)
{
	struct fi_info *const hints = s->ctx.hints;

	s->kinds = 1 << KILL_SEND | 1 << KILL_RECV;
	hints->caps |= FI_RMA;
	if (ft_offered(&s->ctx))
		s->kinds |= 1 << KILL_WRITE | 1 << KILL_READ;
	else
		hints->caps &= ~FI_RMA;
	hints->caps |= FI_ATOMIC;
	if (ft_offered(&s->ctx))
		s->kinds |= 1 << KILL_FETCH;
	else
		hints->caps &= ~FI_ATOMIC;
	hints->caps |= FI_MULTI_RECV;
	if (ft_offered(&s->ctx))
		s->kinds |= 1 << KILL_MULTI | 1 << KILL_SEND_MULTI;
	else
		hints->caps &= ~FI_MULTI_RECV;
	s->ctx.min_multi_recv = hints->caps & FI_MULTI_RECV ? 100000 : 0;
	return 0;
}

static int open_side(struct kill_side *s, struct ft_proc *proc)
{
	size_t most;

	*s = (struct kill_side){.proc = proc, .plan = &plan, .peer = !proc->rank};
	FT_TRY(ft_test_hints(proc, &s->ctx));
	s->ctx.watch_count = 0; /* that a peer goes is the point */
	FT_TRY(find_kinds(s));
	FT_TRY(ft_test_open(proc, &s->ctx));
	/* net of 1.17 has the capability, and no operations */
	if (fi_atomicvalid(s->ctx.ep, FI_UINT64, FI_SUM, &most))
		s->kinds &= ~(1u << KILL_FETCH);
	/* a long message makes a read of shm's 2.x not return */
	if (!strncmp(s->ctx.info->fabric_attr->prov_name, "shm", 3) &&
	    FI_VERSION_GE(fi_version(), FI_VERSION(2, 0)))
		s->kinds &= ~(1u << KILL_MULTI | 1u << KILL_SEND_MULTI);
	FT_TRY(ft_buf_alloc(&s->ctx, &s->hail, proc->opts.iface, 2 * HAIL_LEN));
	return ft_buf_alloc(&s->ctx, &s->good, proc->opts.iface, 2 * EXCHANGE * GOOD_PLACE);
}

/* Until all receives are there. Survivor and victim have met before, if they have at all. */
static int begin(struct kill_side *s)
{
	const int fd = s->proc->fd[s->peer];
	struct kill_note note;

	FT_TRY(kill_ops_make(s));
	FT_TRY(kill_ops_fill(s));
	note = (struct kill_note){getpid(), s->shared.key, s->shared.base};
	FT_TRY(ft_oob_send(fd, &note, sizeof(note)));
	FT_TRY(ft_oob_recv(fd, &s->note, sizeof(s->note), s->proc->opts.timeout));
	FT_TRY(plan.cold ? 0 : exchange(s, s->peer));
	s->when = KILL_FIRST;
	while (s->next < s->count && s->ops[s->next].part->when == KILL_FIRST)
		FT_TRY(step(s));
	FT_TRY(ft_meet(s->proc));
	s->when = KILL_THEN;
	return 0;
}

/*
 * Receives that no message has met end when they are cancelled. If the two still talk, that is not before
 * they have exchanged messages: what comes on the way behind others would find no receive, and tcp and
 * net would then read nothing more.
 */
static int end_receives(struct kill_side *s)
{
	kill_cancel(s);
	FT_TRY(await(s, "receives are cancelled", kill_must_end));
	FT_TRY(kill_settle(s, plan.fate == KILL_PAUSE));
	return kill_untouched(s);
}

/* ---- the victim ---- */

static int victim(struct kill_side *s)
{
	FT_TRY(begin(s));
	while (!s->armed || !readable(s->proc->fd[SURVIVOR], 0)) {
		ft_progress_note(); /* who is stopped is not late */
		FT_TRY(arm(s));
		if (!plan.outside && s->armed && s->polls == plan.polls) {
			s->polls++;
			raise(plan.fate == KILL_KILL ? SIGKILL : SIGSTOP);
		}
		FT_TRY(step(s));
	}
	ft_progress_note();
	FT_TRY(await_byte(s, SURVIVOR, BACK));
	s->when = KILL_AFTER;
	FT_TRY(kill_post_due(s));
	FT_TRY(plan.fate == KILL_PAUSE ? await(s, "after a pause", single)
				       : await(s, "told late", engaged));
	FT_TRY(kill_settle(s, plan.fate == KILL_PAUSE));
	FT_TRY(ft_oob_send(s->proc->fd[SURVIVOR], &(char){DONE}, 1));
	FT_TRY(serve(s));
	return end_receives(s);
}

/* ---- the survivor ---- */

/* Is the victim dead or stopped? 1, 0, or an error */
static int gone(const struct kill_side *s)
{
	const bool closed = ft_oob_closed(s->proc->fd[VICTIM]);
	char path[64], state = '?';
	FILE *file;

	if (plan.fate == KILL_KILL)
		return closed;
	FT_CHECK(!closed, "the victim has ended");
	snprintf(path, sizeof(path), "/proc/%d/stat", (int) s->note.pid);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = '?';
	if (file)
		fclose(file);
	return state == 'T';
}

static int until_gone(struct kill_side *s)
{
	int ret;

	/* the victim may be gone at once when both are armed */
	while (!(ret = gone(s)) || (ret > 0 && !s->armed)) {
		FT_TRY(arm(s));
		if (plan.outside && s->armed && s->polls >= plan.polls) {
			kill(s->note.pid, plan.fate == KILL_KILL ? SIGKILL : SIGSTOP);
			plan.outside = false;
		}
		ft_progress_note(); /* how often is known, not for how long */
		FT_TRY(step(s));
	}
	return ret < 0 ? ret : 0;
}

/* The victim goes on, and has ended what it has to end */
static int wake(struct kill_side *s)
{
	FT_TRY(ft_oob_send(s->proc->fd[VICTIM], &(char){BACK}, 1));
	kill(s->note.pid, SIGCONT);
	return await_byte(s, VICTIM, DONE);
}

/* A buffer for many is not in anybody's hands: what another one sends there arrives */
static int use_buffer(struct kill_side *s)
{
	for (size_t i = 0; i < s->count; i++) {
		struct kill_op *op = &s->ops[i];

		if (op->part->kind != KILL_MULTI || !op->posted || op->req.done)
			continue;
		FT_TRY(ask(s, OTHER, BUFFER));
		while (!op->others)
			FT_TRY(step(s));
	}
	return 0;
}

static int after_pause(struct kill_side *s)
{
	int ret;

	for (uint64_t i = 0; i < plan.pause; i++) {
		ft_progress_note();
		FT_TRY(step(s));
	}
	FT_TRY(wake(s));
	FT_TRY(await(s, "after a pause", single));
	FT_TRY(kill_settle(s, true));
	FT_TRY(ask(s, VICTIM, CHECK));
	while ((ret = kill_written(s)) == 0)
		FT_TRY(step(s));
	if (ret < 0)
		return ret;
	FT_TRY(use_buffer(s));
	return end_receives(s);
}

/* As long as a peer may be silent, and live [us] */
static double peer_timeout(void)
{
	return 1e6 * atoi(getenv("FI_P2P_PEER_TIMEOUT"));
}

static int after_end(struct kill_side *s)
{
	const double start = ft_usec();
	size_t failed = 0;
	bool wait = false;

	FT_TRY(await(s, "the peer is lost", engaged));
	printf("[%d] what must end has ended after %.1f s\n", s->proc->rank,
	       (ft_usec() - start) / 1e6);
	for (size_t i = 0; i < s->count; i++)
		wait |= s->ops[i].posted && !s->ops[i].req.done;
	if (plan.fate == KILL_LATE) {
		/* what need not end may do so all the same, before the victim comes back */
		if (wait && ft_usec() - start < peer_timeout())
			FT_TRY(ft_progress_for(&s->ctx, peer_timeout() + 1e6));
		FT_TRY(kill_settle(s, false));
		FT_TRY(wake(s));
	}
	FT_TRY(use_buffer(s));
	if (plan.fate == KILL_LATE) {
		FT_TRY(ask(s, VICTIM, HAIL));
		FT_TRY(ask(s, VICTIM, MEET));
	}
	FT_TRY(end_receives(s));
	for (size_t i = 0; i < s->count; i++)
		failed += s->ops[i].req.done && s->ops[i].req.err;
	printf("[%d] %zu operations, %zu of them failed\n", s->proc->rank, s->count, failed);
	return 0;
}

/*
 * It may be in use by the core, or by a copy, when the last of its users has been told. Who has been lost before
 * it gave its first sign of life is not known to be dead: then it may be in use until the endpoint closes. So may host
 * memory over shm, which never gives back what a dead process has not fetched (1.17).
 */
static int close_region(struct kill_side *s)
{
	const bool owed = !plan.device[SURVIVOR] &&
			  !strncmp(s->ctx.info->fabric_attr->prov_name, "shm", 3);
	const bool stays = (plan.cold || owed) && plan.fate <= KILL_STOP;
	const double end = ft_usec() + REGION_US;
	int late = 0, ret;

	while (!late && (ret = fi_close(&s->shared.mr->fid)) == -FI_EBUSY) {
		if (stays && ft_usec() >= end) {
			printf("note: the region stays in use by a peer that is lost\n");
			return 0;
		}
		late = step(s);
	}
	if (ret)
		return ft_fail(ret, "fi_close", "region");
	s->shared.mr = NULL;
	return 0;
}

static int survivor(struct kill_side *s)
{
	FT_TRY(ask(s, OTHER, MEET));
	FT_TRY(begin(s));
	FT_TRY(until_gone(s));
	FT_TRY(others_served(s) ? ask(s, OTHER, MEET) : 0);
	s->when = KILL_AFTER;
	FT_TRY(kill_post_due(s));
	FT_TRY(plan.fate == KILL_PAUSE ? after_pause(s) : after_end(s));
	FT_TRY(close_region(s));
	FT_TRY(plan.fate == KILL_PAUSE || others_served(s) ? ask(s, OTHER, MEET) : 0);
	if (plan.fate >= KILL_PAUSE) {
		FT_TRY(ask(s, VICTIM, MEET));
		FT_TRY(ask(s, VICTIM, QUIT));
	}
	FT_TRY(ask(s, OTHER, QUIT));
	return kill_untouched(s);
}

/* ---- a round ---- */

/* The endpoint first: what the core still does with the buffers ends with it */
static int close_side(struct kill_side *s)
{
	const bool rxm = strstr(s->ctx.info->fabric_attr->prov_name, "ofi_rxm");
	int ret;

	if (rxm && kill_fetches(s)) {
		/* tcp (1.17) tells it of a read that ends so, without a context */
		printf("note: ofi_rxm may crash in fi_close() amid a read from a silent peer\n");
		return FT_SKIP;
	}
	ret = fi_close(&s->ctx.ep->fid);
	if (ret)
		return ft_fail(ret, "fi_close", "endpoint");
	s->ctx.ep = NULL;
	kill_ops_free(s);
	ft_buf_free(&s->good);
	ft_buf_free(&s->hail);
	ret = ft_close(&s->ctx);
	if (ret == -FI_EBUSY && rxm && plan.fate != KILL_PAUSE) {
		/* it keeps its own registrations of lost rendezvous sends, so its domain */
		printf("note: ofi_rxm does not close its domain after a peer's death\n");
		return FT_SKIP;
	}
	return ret;
}

/* How many descriptors stay open for as long as the process lives */
static int open_and_close(struct kill_side *s, struct ft_proc *proc, int *descriptors)
{
	FT_TRY(open_side(s, proc));
	ft_buf_free(&s->good);
	ft_buf_free(&s->hail);
	FT_TRY(ft_close(&s->ctx));
	*descriptors = ft_descriptors();
	return 0;
}

static int part_company(const struct ft_proc *proc, int rank)
{
	char byte = 0;

	FT_TRY(ft_oob_send(proc->fd[rank], &byte, 1));
	return ft_oob_recv(proc->fd[rank], &byte, 1, proc->opts.timeout);
}

/* As many are open as before, or are in a moment: a thread may be about to close one, as it answers for a sign of life */
static bool closed_all(int before)
{
	const double end = ft_usec() + DESCRIPTOR_US;

	while (ft_descriptors() != before) {
		if (ft_usec() > end)
			return false;
		usleep(1000);
	}
	return true;
}

/* Nobody leaves before the survivor has closed, nor the survivor before the others have. */
static int run(struct ft_proc *proc)
{
	static struct kill_side s; /* the provider may hold requests until the very end */
	int before, ret;

	FT_TRY(open_and_close(&s, proc, &before));
	FT_TRY(open_side(&s, proc));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	if (proc->rank == VICTIM)
		FT_TRY(victim(&s));
	else
		FT_TRY(proc->rank == OTHER ? serve(&s) : survivor(&s));
	ret = close_side(&s);
	FT_CHECK(!ret || ret == FT_SKIP, "not everything closes");
	FT_CHECK(ret || closed_all(before), "%d descriptors were open, and now %d", before,
		 ft_descriptors());
	if (proc->rank != SURVIVOR)
		return part_company(proc, SURVIVOR);
	if (plan.fate == KILL_STOP)
		kill(s.note.pid, SIGKILL);
	FT_TRY(part_company(proc, OTHER));
	return plan.fate >= KILL_PAUSE ? part_company(proc, VICTIM) : 0;
}

static const struct ft_test test = {
	.purpose = "A peer is killed or stopped amid operations of every kind.",
	.scope = FT_SCOPE_TEST | FT_SCOPE_ROUNDS | FT_SCOPE_KILL,
	.ranks = RANKS,
	.may_die = VICTIM,
	.run = run,
};

static void draw(const struct ft_opts *opts, uint64_t which, enum kill_fate fate)
{
	const bool device = opts->iface != FI_HMEM_SYSTEM;
	const bool unmet = which & kill_scenes_unmet();
	uint64_t rnd = opts->seed ^ which << 8 ^ (uint64_t) fate << 40;

	plan = (struct kill_plan){.scenes = which, .fate = fate};
	plan.cold = ft_random(&rnd) % 4 == 0;
	/* shm's peers share locks: who dies within a call may stop the others, whatever we do */
	plan.outside = ft_random(&rnd) % 2 && strncmp(opts->prov ? opts->prov : "", "shm", 3) &&
		       ft_host_signals();
	plan.device[SURVIVOR] = device && (ft_random(&rnd) % 4 || unmet);
	plan.device[VICTIM] = device && (ft_random(&rnd) % 4 || unmet);
	/* most of what there is to meet comes early */
	plan.polls = ft_random(&rnd) % (1ULL << ft_random(&rnd) % 13);
	plan.pause = ft_random(&rnd) % 2000;
}

static void describe(const struct ft_opts *opts)
{
	printf("%s: --ops ", fates[plan.fate]);
	for (size_t i = 0, n = 0; kill_scene_name(i); i++)
		if (plan.scenes >> i & 1)
			printf("%s%s", n++ ? "," : "", kill_scene_name(i));
	printf(" --fate %s --seed %" PRIu64 "%s (%s, %s to %s, after %" PRIu64
	       " polls of the %s)\n",
	       fates[plan.fate], opts->seed, opts->quick ? " -q" : "",
	       plan.cold ? "cold" : "greeted",
	       ft_mem_ops(plan.device[0] ? opts->iface : FI_HMEM_SYSTEM)->name,
	       ft_mem_ops(plan.device[1] ? opts->iface : FI_HMEM_SYSTEM)->name, plan.polls,
	       plan.outside ? "survivor" : "victim");
}

/* The rounds of these scenes and this fate. Counts those that fail. */
static size_t rounds(struct ft_opts *opts, uint64_t which, enum kill_fate fate)
{
	const uint64_t first = opts->seed;
	size_t failed = 0;

	/* who is dead is known for it without; and no pause ends anything */
	setenv("FI_P2P_PEER_TIMEOUT", fate == KILL_STOP || fate == KILL_LATE ? "2" : "0", 1);
	for (uint64_t i = 0; i < (opts->rounds ? opts->rounds : 1); i++) {
		opts->seed = first + i;
		draw(opts, which, fate);
		describe(opts);
		fflush(stdout);
		if (ft_test_round(&test, opts) == EXIT_SUCCESS)
			continue;
		failed++;
		printf("FAILED: ");
		describe(opts);
	}
	opts->seed = first;
	return failed;
}

int main(int argc, char **argv)
{
	struct ft_opts opts;
	uint64_t all, done = 0;
	size_t failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ft_options_parse(&opts, test.scope, test.purpose, argc, argv);
	/* pieces in plenty, and not enough staging memory for all of them */
	setenv("FI_P2P_CHUNK_SIZE", "65536", 0);
	setenv("FI_P2P_PINNED_SIZE", "4m", 0);
	all = kill_scenes(&opts, opts.ops);
	for (int fate = 0; fate < KILL_FATES; fate++) {
		if (opts.fate && !strstr(opts.fate, fates[fate]))
			continue;
		/* elsewhere nothing ends by itself, so who comes back late has paused */
		if (fate == KILL_LATE && !kill_is_ours(&opts))
			continue;
		/* all others are woken, or killed in the end, by another rank */
		if (fate != KILL_KILL && !ft_host_signals())
			continue;
		for (size_t i = 0; kill_scene_name(i); i++) {
			uint64_t which = (uint64_t) 1 << i;
			const uint64_t unmet = kill_scenes_unmet();

			if (opts.quick)
				which = all & (i ? ~unmet : unmet);
			if (!(which & all) || (opts.quick && i > 1))
				continue;
			failed += rounds(&opts, which, (enum kill_fate) fate);
			done++;
		}
	}
	if (!done)
		return ft_skip("nothing is to be done");
	printf("%zu rounds failed\n", failed);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
