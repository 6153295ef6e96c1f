/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_autoprogress: automatic progress (FI_PROGRESS_AUTO). Rank 0 calls nothing of libfabric,
 * but blocks in a socket of ours, while rank 1 sends to its receives, reads and writes its
 * memory and does atomic operations on it, all of which ends; and while what rank 0 has begun
 * itself goes on. Only when rank 1 says that it is through does rank 0 look.
 *
 * Then: more completions than there is room for wait for somebody who does not read them, and
 * are all there; when nothing moves, the thread that does all this sleeps; who does not ask
 * has none; it moves what comes to an endpoint that is opened when there was none any more; and
 * it is gone when the domain is, if that could be closed, or the process.
 */
#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ft_test.h"

#define THREAD "p2p_auto"
#define TID_MAX 16

/* What is left open at the end of a process would be called a leak. */
#ifdef __SANITIZE_ADDRESS__
#define MAY_LEAVE 0
#else
#define MAY_LEAVE 1
#endif

#define SUMS 20 /* to each of ELEMENTS */
#define ELEMENTS ((size_t) 9)
#define SUMMED_LEN (ELEMENTS * sizeof(uint64_t))
#define FLOOD 150000 /* more than ofi_p2p keeps */
#define LATE_LEN ((size_t) 64)
#define SILENCE_MS 250 /* longer than the thread sleeps while anything is under way */

static const size_t sizes[] = {1, 1000, 60001, 3300001};

#define MESSAGES (FT_COUNT(sizes) * 4) /* from each kind of memory to each */

/* Rank 0's memory, as rank 1 names it */
struct target {
	uint64_t key, base;
};

struct side {
	struct ft_pair pair;
	struct ft_buf shared[2], local[2]; /* by kind: host, device */
	struct target target[2];
	bool atomics;
	char tid[TID_MAX]; /* of the thread */
	struct ft_req req[MESSAGES];
};

/* ---- threads ---- */

/* The line of /proc/self/task/TID/status that begins with @name */
static bool task_line(const char *tid, const char *name, char *line, int size)
{
	char path[300];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	file = fopen(path, "r");
	while (file && !found && fgets(line, size, file))
		found = !strncmp(line, name, strlen(name));
	if (file)
		fclose(file);
	return found;
}

/*
 * The provider's thread, of one that has never used the GPU: those that the GPU's runtime starts
 * in it would have its name
 */
static bool find_thread(char tid[TID_MAX])
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	bool found = false;
	char line[128];

	while (dir && !found && (entry = readdir(dir))) {
		found = *entry->d_name != '.' &&
			task_line(entry->d_name, "Name:", line, sizeof(line)) &&
			!strcmp(line, "Name:\t" THREAD "\n");
		snprintf(tid, TID_MAX, "%.*s", TID_MAX - 1, entry->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* How often it has slept */
static unsigned long count_sleeps(const char *tid)
{
	char line[128];

	return task_line(tid, "voluntary_ctxt_switches:", line, sizeof(line))
		       ? strtoul(strchr(line, ':') + 1, NULL, 10)
		       : 0;
}

/* Somewhen it does not wake for SILENCE_MS, else the test takes too long. */
static int check_idle(const struct side *s)
{
	const struct timespec silence = {.tv_nsec = SILENCE_MS * 1000000L};
	const double end = ft_usec() + 1e6 * (double) s->pair.proc->opts.timeout;
	unsigned long before, after;

	do {
		before = count_sleeps(s->tid);
		nanosleep(&silence, NULL);
		after = count_sleeps(s->tid);
	} while (before != after && ft_usec() < end);
	FT_CHECK(before && before == after, "the thread does not sleep though nothing moves");
	return 0;
}

/* Somewhen it is, else the test takes too long: who was joined may still be listed. */
static int check_gone(const struct side *s)
{
	const double end = ft_usec() + 1e6 * (double) s->pair.proc->opts.timeout;

	while (count_sleeps(s->tid) && ft_usec() < end)
		sched_yield();
	FT_CHECK(!count_sleeps(s->tid), "the thread has outlived its domain");
	return 0;
}

static int check_unasked(struct ft_proc *proc)
{
	char tid[TID_MAX];
	struct ft_ctx ctx;

	FT_TRY(ft_test_hints(proc, &ctx));
	FT_TRY(ft_test_open(proc, &ctx));
	FT_CHECK(ctx.info->domain_attr->data_progress == FI_PROGRESS_MANUAL,
		 "data_progress is %d though nobody has asked",
		 (int) ctx.info->domain_attr->data_progress);
	FT_CHECK(!find_thread(tid), "there is a thread though nobody has asked");
	return ft_close(&ctx);
}

/* ---- without libfabric ---- */

static int say(const struct side *s)
{
	char byte = 0;

	return ft_oob_send(s->pair.proc->fd[!s->pair.proc->rank], &byte, 1);
}

static int hear(const struct side *s)
{
	char byte;

	return ft_oob_recv(s->pair.proc->fd[!s->pair.proc->rank], &byte, 1,
			   s->pair.proc->opts.timeout);
}

/* ---- messages ---- */

static size_t stride(size_t size)
{
	return size + FT_ROOM;
}

/* The place of message @i in @buf, which holds one of each size and other kind */
static struct ft_slot place(const struct ft_buf *buf, size_t i)
{
	struct ft_slot slot = {.buf = buf, .len = sizes[i / 4]};

	for (size_t k = 0; k < i; k++)
		slot.base += stride(sizes[k / 4]);
	slot.room = stride(slot.len);
	slot.off = slot.base + 64;
	return slot;
}

static bool used(const struct side *s, size_t i)
{
	return s->pair.kind_count == 2 || i % 4 == 0;
}

static int post_messages(struct side *s, bool send)
{
	memset(s->req, 0, sizeof(s->req));
	for (size_t i = 0; i < MESSAGES; i++) {
		const struct ft_slot slot = place(&s->pair.buf[send ? i % 2 : i / 2 % 2], i);
		struct ft_op op = {
			.call = send ? FT_SENDMSG : FT_RECV,
			.tagged = true,
			.addr = s->pair.peer,
			.tag = i,
			.flags = send ? FI_COMPLETION | FI_DELIVERY_COMPLETE : 0,
			.req = &s->req[i],
		};

		s->req[i].done = !used(s, i);
		if (s->req[i].done)
			continue;
		FT_TRY(send ? ft_slot_fill(&slot, i) : ft_slot_arm(&slot));
		ft_op_buf(&op, slot.buf, slot.off, slot.len);
		FT_TRY(ft_post(&s->pair.ctx, &op));
	}
	return 0;
}

static int check_messages(const struct side *s)
{
	for (size_t i = 0; i < MESSAGES; i++) {
		const struct ft_slot slot = place(&s->pair.buf[i / 2 % 2], i);
		char what[64];

		snprintf(what, sizeof(what), "message %zu of %zu bytes", i, slot.len);
		if (used(s, i))
			FT_TRY(ft_slot_check(&slot, slot.len, i, what));
	}
	return 0;
}

/* ---- remote memory ---- */

enum { WRITTEN, READ, SUMMED };

/* Three parts of a buffer of rank 0's, and of rank 1's */
static struct ft_slot part(const struct side *s, const struct ft_buf *buf, size_t which)
{
	const size_t len = sizes[FT_COUNT(sizes) - 1], base = which * stride(len);

	return (struct ft_slot){buf, base, stride(len), base + 64,
				which == SUMMED ? SUMMED_LEN : len};
}

static ssize_t post_remote(struct side *s, size_t from, size_t to, size_t which,
			   struct ft_req *req)
{
	struct ft_slot local = part(s, &s->local[from], which);
	const struct target *target = &s->target[to];
	struct fid_ep *ep = s->pair.ctx.ep;
	void *desc = local.buf->desc, *buf = local.buf->addr + local.off;
	const struct iovec iov = {buf, local.len};
	const struct fi_rma_iov remote = {target->base + local.off, local.len, target->key};
	const struct fi_msg_rma msg = {&iov, &desc, 1, s->pair.peer, &remote, 1, req, 0};

	if (which == WRITTEN)
		return fi_writemsg(ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	if (which == READ)
		return fi_readmsg(ep, &msg, FI_COMPLETION);
	/* what was there before is not of interest */
	return fi_fetch_atomic(ep, buf, ELEMENTS, desc, (char *) buf + local.len, desc,
			       s->pair.peer, remote.addr, remote.key, FI_UINT64, FI_SUM, req);
}

static int do_remote(struct side *s, size_t from, size_t to, size_t which)
{
	struct ft_req req = {0};
	ssize_t ret;

	while ((ret = post_remote(s, from, to, which, &req)) == -FI_EAGAIN) {
		if (ft_progress(&s->pair.ctx) < 0)
			return -FI_EOTHER;
	}
	if (ret)
		return ft_fail((int) ret, "remote memory", "%zu, to kind %zu", which, to);
	return ft_wait(&s->pair.ctx, &req, 1);
}

static int set_elements(const struct ft_slot *slot, uint64_t factor)
{
	uint64_t element[ELEMENTS];

	for (size_t i = 0; i < ELEMENTS; i++)
		element[i] = factor * (i + 1);
	return slot->buf->ops->to(slot->buf->addr + slot->off, element, sizeof(element));
}

static int use_remote(struct side *s, size_t from, size_t to)
{
	const struct ft_slot written = part(s, &s->local[from], WRITTEN),
			     read = part(s, &s->local[from], READ),
			     summed = part(s, &s->local[from], SUMMED);

	FT_TRY(ft_slot_fill(&written, 1000 * from + to));
	FT_TRY(do_remote(s, from, to, WRITTEN));
	FT_TRY(ft_slot_arm(&read));
	FT_TRY(do_remote(s, from, to, READ));
	FT_TRY(ft_slot_check(&read, read.len, to, "read"));
	FT_TRY(set_elements(&summed, 1));
	for (int i = 0; s->atomics && i < SUMS; i++)
		FT_TRY(do_remote(s, from, to, SUMMED));
	return 0;
}

static int share(struct side *s)
{
	const uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;

	for (size_t k = 0; k < s->pair.kind_count; k++) {
		const struct ft_slot written = part(s, &s->shared[k], WRITTEN),
				     read = part(s, &s->shared[k], READ),
				     summed = part(s, &s->shared[k], SUMMED);

		FT_TRY(ft_slot_arm(&written));
		FT_TRY(ft_slot_fill(&read, k));
		FT_TRY(set_elements(&summed, 0));
		FT_TRY(ft_buf_share(&s->pair.ctx, &s->shared[k], access));
		s->target[k] = (struct target){s->shared[k].key, s->shared[k].base};
	}
	return ft_oob_send(s->pair.proc->fd[1], s->target, sizeof(s->target));
}

static int check_shared(const struct side *s)
{
	const size_t kinds = s->pair.kind_count;
	uint64_t element[ELEMENTS];

	for (size_t k = 0; k < kinds; k++) {
		const struct ft_slot written = part(s, &s->shared[k], WRITTEN),
				     summed = part(s, &s->shared[k], SUMMED);

		FT_TRY(ft_slot_check(&written, written.len, 1000 * (kinds - 1) + k, "written"));
		FT_TRY(summed.buf->ops->from(element, summed.buf->addr + summed.off,
					     sizeof(element)));
		for (size_t i = 0; s->atomics && i < ELEMENTS; i++)
			FT_CHECK(element[i] == kinds * SUMS * (i + 1),
				 "element %zu of kind %zu is %" PRIu64, i, k, element[i]);
	}
	return 0;
}

/* ---- completions that nobody reads ---- */

static int flood(struct side *s)
{
	const struct ft_slot to = part(s, &s->shared[0], WRITTEN);
	ssize_t ret;

	for (uint64_t i = 0; i < FLOOD; i++) {
		const char byte = (char) i;

		while ((ret = fi_inject_writedata(s->pair.ctx.ep, &byte, 1, i, s->pair.peer,
						  s->target[0].base + to.off,
						  s->target[0].key)) == -FI_EAGAIN) {
			if (ft_progress(&s->pair.ctx) < 0)
				return -FI_EOTHER;
		}
		if (ret)
			return ft_fail((int) ret, "fi_inject_writedata", "%" PRIu64, i);
	}
	return 0;
}

/* As many as were sent, each one once */
static int check_flood(struct side *s)
{
	struct fi_cq_tagged_entry entry[64];
	unsigned char *seen = calloc(FLOOD, 1);
	struct ft_ctx *ctx = &s->pair.ctx;
	ssize_t ret;
	int left = FLOOD;

	FT_CHECK(seen, "no memory");
	while (left) {
		ret = fi_cq_read(ctx->cq, entry, FT_COUNT(entry));
		if (ret == -FI_EAGAIN) {
			FT_TRY(ft_idle(ctx));
			continue;
		}
		if (ret < 0)
			return ft_fail((int) ret, "fi_cq_read", "with %d left", left);
		ft_progress_note();
		for (ssize_t i = 0; i < ret; i++, left--)
			FT_CHECK(entry[i].flags & FI_REMOTE_WRITE && entry[i].data < FLOOD &&
					 !seen[entry[i].data]++,
				 "data %" PRIu64 ", flags %#" PRIx64, entry[i].data,
				 entry[i].flags);
	}
	free(seen);
	return 0;
}

/* ---- the ranks ---- */

static int target(struct side *s)
{
	FT_TRY(post_messages(s, false));
	FT_TRY(share(s));
	FT_TRY(hear(s));
	FT_TRY(check_messages(s));
	FT_TRY(check_shared(s));
	FT_TRY(ft_wait(&s->pair.ctx, s->req, MESSAGES));

	FT_TRY(post_messages(s, true));
	FT_TRY(say(s));
	FT_TRY(hear(s));
	FT_TRY(ft_wait(&s->pair.ctx, s->req, MESSAGES));

	FT_TRY(say(s));
	FT_TRY(hear(s));
	FT_TRY(check_flood(s));
	FT_TRY(say(s));
	return check_idle(s);
}

static int initiator(struct side *s)
{
	FT_TRY(ft_oob_recv(s->pair.proc->fd[0], s->target, sizeof(s->target),
			   s->pair.proc->opts.timeout));
	FT_TRY(post_messages(s, true));
	FT_TRY(ft_wait(&s->pair.ctx, s->req, MESSAGES));
	for (size_t i = 0; i < s->pair.kind_count * s->pair.kind_count; i++)
		FT_TRY(use_remote(s, i / s->pair.kind_count, i % s->pair.kind_count));

	FT_TRY(post_messages(s, false));
	FT_TRY(say(s));
	FT_TRY(hear(s));
	FT_TRY(ft_wait(&s->pair.ctx, s->req, MESSAGES));
	FT_TRY(check_messages(s));
	FT_TRY(say(s));

	FT_TRY(hear(s));
	FT_TRY(flood(s));
	FT_TRY(say(s));
	return hear(s);
}

/* A child has not got the thread, and does not miss it. */
static int check_fork(void)
{
	const pid_t child = fork();
	int status;

	if (child < 0)
		return ft_errno("fork", "child");
	if (!child)
		exit(EXIT_SUCCESS);
	if (waitpid(child, &status, 0) != child)
		return ft_errno("waitpid", "child");
	FT_CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "the child ended with %#x", status);
	return 0;
}

static int side_open(struct side *s, struct ft_proc *proc)
{
	const size_t room = 3 * stride(sizes[FT_COUNT(sizes) - 1]);
	struct ft_ctx *ctx = &s->pair.ctx;
	size_t count = 0;

	FT_TRY(ft_pair_hints(&s->pair, proc));
	ctx->hints->caps |= FI_RMA | FI_ATOMIC;
	s->atomics = ft_offered(ctx);
	if (!s->atomics)
		ctx->hints->caps &= ~FI_ATOMIC;
	FT_TRY(ft_pair_open(&s->pair, MESSAGES * stride(sizes[FT_COUNT(sizes) - 1])));
	FT_CHECK(ctx->info->domain_attr->data_progress == FI_PROGRESS_AUTO,
		 "data_progress is %d", (int) ctx->info->domain_attr->data_progress);
	FT_CHECK(find_thread(s->tid), "there is no thread %s", THREAD);
	/* net has none, whatever it says */
	s->atomics = s->atomics && !fi_fetch_atomicvalid(ctx->ep, FI_UINT64, FI_SUM, &count) &&
		     count >= ELEMENTS;
	/* ofi_rxm has freed half of it when it finds that it cannot be closed */
	FT_CHECK(strstr(ctx->info->fabric_attr->prov_name, "ofi_rxm") ||
			 fi_close(&ctx->domain->fid) == -FI_EBUSY,
		 "a domain in use was closed");
	for (size_t k = 0; k < s->pair.kind_count; k++) {
		FT_TRY(ft_buf_alloc(ctx, &s->shared[k], s->pair.buf[k].ops->iface, room));
		FT_TRY(ft_buf_alloc(ctx, &s->local[k], s->pair.buf[k].ops->iface, room));
	}
	return 0;
}

/* ---- another endpoint where there was none any more ---- */

/* Nobody calls libfabric until the message is there. */
static int see_late(const struct side *s, const volatile char *byte)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	const double end = ft_usec() + 1e6 * (double) s->pair.proc->opts.timeout;

	while (!*byte && ft_usec() < end)
		nanosleep(&pause, NULL);
	FT_CHECK(*byte, "nothing comes to an endpoint opened after the last was closed");
	return 0;
}

static int receive_late(struct side *s)
{
	struct ft_ctx *ctx = &s->pair.ctx;
	const struct ft_proc *proc = s->pair.proc;
	struct ft_op op = {.call = FT_RECV, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1};
	struct ft_req req = {0};
	struct ft_buf buf = {0};
	struct ft_name name = {0};

	FT_TRY(ft_buf_alloc(ctx, &buf, FI_HMEM_SYSTEM, LATE_LEN));
	memset(buf.addr, 0, LATE_LEN);
	FT_TRY(fi_endpoint(ctx->domain, ctx->info, &ctx->ep, NULL));
	FT_TRY(fi_ep_bind(ctx->ep, &ctx->av->fid, 0));
	FT_TRY(fi_ep_bind(ctx->ep, &ctx->cq->fid, FI_TRANSMIT | FI_RECV));
	FT_CHECK(fi_close(&ctx->cq->fid) == -FI_EBUSY, "a queue in use was closed");
	FT_TRY(fi_enable(ctx->ep));
	op.req = &req;
	ft_op_buf(&op, &buf, 0, LATE_LEN);
	FT_TRY(ft_post(ctx, &op));
	FT_TRY(ft_getname(ctx, &name));
	FT_TRY(ft_oob_send(proc->fd[1], &name, sizeof(name)));
	FT_TRY(see_late(s, buf.addr + LATE_LEN - 1));
	FT_TRY(ft_wait(ctx, &req, 1));
	for (size_t i = 0; i < LATE_LEN; i++)
		FT_CHECK(buf.addr[i] == (char) (i + 1), "byte %zu is %d", i, buf.addr[i]);
	ft_buf_free(&buf);
	return say(s);
}

static int send_late(struct side *s)
{
	struct ft_ctx *ctx = &s->pair.ctx;
	const struct ft_proc *proc = s->pair.proc;
	struct ft_op op = {.call = FT_SEND, .tagged = true, .tag = 1};
	struct ft_req req = {0};
	struct ft_buf buf = {0};
	struct ft_name name;

	FT_TRY(ft_buf_alloc(ctx, &buf, FI_HMEM_SYSTEM, LATE_LEN));
	for (size_t i = 0; i < LATE_LEN; i++)
		buf.addr[i] = (char) (i + 1);
	FT_TRY(ft_oob_recv(proc->fd[0], &name, sizeof(name), proc->opts.timeout));
	FT_TRY(ft_av_insert(ctx, name.bytes, &op.addr));
	op.req = &req;
	ft_op_buf(&op, &buf, 0, LATE_LEN);
	FT_TRY(ft_post(ctx, &op));
	FT_TRY(ft_wait(ctx, &req, 1));
	FT_TRY(hear(s));
	ft_buf_free(&buf);
	return 0;
}

static int side_close(struct side *s)
{
	for (size_t k = 0; k < s->pair.kind_count; k++) {
		ft_buf_free(&s->shared[k]);
		ft_buf_free(&s->local[k]);
		ft_buf_free(&s->pair.buf[k]);
	}
	FT_TRY(fi_close(&s->pair.ctx.ep->fid));
	s->pair.ctx.ep = NULL;
	/* with a queue that nothing comes from any more */
	FT_TRY(check_idle(s));
	if (!s->pair.proc->rank)
		FT_TRY(receive_late(s));
	FT_TRY(ft_close(&s->pair.ctx));
	return check_gone(s);
}

static int run(struct ft_proc *proc)
{
	static struct side s;

	if (!proc->opts.prov || !strstr(proc->opts.prov, "ofi_p2p"))
		return ft_skip("-p does not name ofi_p2p");
	FT_TRY(check_unasked(proc));
	proc->opts.automatic = true;
	FT_TRY(side_open(&s, proc));
	FT_TRY(proc->rank ? initiator(&s) : target(&s));
	if (proc->rank)
		FT_TRY(send_late(&s));
	/* many programs leave without closing anything */
	if (proc->rank && MAY_LEAVE)
		return 0;
	if (MAY_LEAVE)
		FT_TRY(check_fork());
	return side_close(&s);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Automatic progress.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
