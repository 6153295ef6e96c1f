/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_fork: a process forks, again and again, amid messages and remote accesses of all lengths between two of its
 * endpoints. Meanwhile another thread opens endpoints and closes them, and a stranger floods the ports that the
 * endpoints have. Each child leaves at once, closes what it has inherited, runs another program, or opens objects
 * of its own and sends itself a message. Each one ends, and the parent's data is right.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ft_test.h"

#define ENDS 2
#define LARGEST ((size_t) 3000001)
#define PORTS 8
#define CHILD_LIMIT 30e6 /* us: a child that has not ended by then never does */
#define OWN_LEN ((size_t) 60000)
#define STRANGER_BATCH 64

/* What a child does */
enum fate { LEAVES, CLOSES, EXECS, OPENS, FATES };
static const char *const fates[] = {"leaves", "closes what is open", "runs another program",
				    "opens objects of its own"};

static const size_t sizes[] = {8, 5000, 20000, 66000, 300001, LARGEST};

/* The first byte of what is written by remote access lies behind all messages */
#define MESSAGES (2 * FT_COUNT(sizes))
#define PLACE (LARGEST + FT_ROOM)
#define WRITES 2
#define REQS (2 * MESSAGES + WRITES)

struct end {
	struct ft_ctx ctx;
	struct ft_name name;
	fi_addr_t addr;
};

struct state {
	struct ft_proc *proc;
	struct ft_ctx ctx; /* what the two endpoints share, and the first one */
	struct end end[ENDS];
	struct ft_buf out[2], in[2]; /* by kind */
	size_t kind_count;
	struct ft_req req[REQS];
	size_t req_count;
	uint64_t key, random;
	pthread_t opener;
	atomic_bool stop;
	int opener_ret;
	pid_t stranger;
	int order; /* the stranger reads ports from it, until it is closed */
};

/* While the opener calls libfabric. Its locks are not ours, and a child that opens objects wants them free */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* A mutex is not fair, and the opener would have it again before whoever waits has woken up */
static atomic_bool opening_wanted;

/* ---- the stranger ---- */

/* Sends what looks like questions, answers and farewells, and other things, as fast as it can */
static void stranger_run(int order)
{
	static const uint32_t magic = 0x7032704b;
	struct sockaddr_in6 at[PORTS];
	ssize_t got = read(order, at, sizeof(at));
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), off = 0;
	struct {
		uint32_t magic, kind;
		uint64_t process, nonce;
	} msg;
	uint64_t random = 1;
	char more;

	if (got <= 0 || fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)))
		_exit(EXIT_FAILURE);
	do {
		for (size_t i = 0; i < STRANGER_BATCH; i++) {
			const size_t to = i % ((size_t) got / sizeof(*at));

			msg.magic = i % 8 ? htole32(magic) : (uint32_t) ft_random(&random);
			msg.kind = htole32((uint32_t) (1 + i % 4));
			msg.process = ft_random(&random);
			msg.nonce = ft_random(&random);
			sendto(fd, &msg, i % 16 ? sizeof(msg) : i % sizeof(msg), MSG_DONTWAIT,
			       (struct sockaddr *) &at[to], sizeof(*at));
		}
		/* the parent closes its end, or is gone */
	} while (recv(order, &more, 1, MSG_DONTWAIT) < 0);
	_exit(EXIT_SUCCESS);
}

static int stranger_start(struct state *s)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return ft_errno("socketpair", "the stranger");
	s->stranger = fork();
	if (!s->stranger) {
		close(fd[0]);
		stranger_run(fd[1]);
	}
	close(fd[1]);
	s->order = fd[0];
	return s->stranger < 0 ? ft_errno("fork", "the stranger") : 0;
}

/* Is the socket with this number one of this process? */
static bool is_mine(unsigned long inode)
{
	char path[300], want[64], text[64];
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	bool found = false;
	ssize_t len;

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	while (dir && !found && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		len = readlink(path, text, sizeof(text) - 1);
		found = len == (ssize_t) strlen(want) && !memcmp(text, want, (size_t) len);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* The UDP sockets of this process, as IPv6 addresses; at most PORTS. Negative: an error */
static int find_ports(struct sockaddr_in6 at[PORTS])
{
	FILE *file = fopen("/proc/self/net/udp6", "re");
	char line[400];
	int count = 0;

	if (!file)
		return ft_errno("fopen", "/proc/self/net/udp6");
	while (count < PORTS && fgets(line, sizeof(line), file)) {
		unsigned int word[4], port;
		unsigned long inode;

		if (sscanf(line, " %*d: %8x%8x%8x%8x:%x %*s %*x %*s %*s %*s %*u %*u %lu",
			   &word[0], &word[1], &word[2], &word[3], &port, &inode) != 6 ||
		    !is_mine(inode))
			continue;
		at[count] = (struct sockaddr_in6){.sin6_family = AF_INET6};
		memcpy(&at[count].sin6_addr, word, sizeof(word));
		at[count++].sin6_port = htons((uint16_t) port);
	}
	fclose(file);
	return count;
}

/* Is the port at the address that the endpoint has? */
static bool is_at(const struct sockaddr_in6 *at, const struct end *end)
{
	struct sockaddr_in in;

	memcpy(&in, end->name.bytes, sizeof(in));
	if (in.sin_family == AF_INET6)
		return !memcmp(&at->sin6_addr,
			       &((const struct sockaddr_in6 *) end->name.bytes)->sin6_addr,
			       sizeof(at->sin6_addr));
	/* what has no IP address is on this host */
	if (in.sin_family != AF_INET)
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return IN6_IS_ADDR_V4MAPPED(&at->sin6_addr) &&
	       !memcmp(at->sin6_addr.s6_addr + 12, &in.sin_addr, sizeof(in.sin_addr));
}

/* After the first messages, when the ports are known. A core alone, and a hook, have none. */
static int stranger_begin(struct state *s)
{
	struct sockaddr_in6 at[PORTS];
	int count = find_ports(at);
	ssize_t put;

	if (count < 0)
		return count;
	FT_CHECK(!ft_is_p2p(&s->ctx) || s->kind_count < 2 || count >= ENDS,
		 "%d UDP ports for %d endpoints", count, ENDS);
	for (int i = 0; i < count; i++) {
		FT_CHECK(is_at(&at[i], &s->end[0]),
			 "a UDP port is open at another address than the endpoints'");
	}
	if (!count)
		return 0;
	put = write(s->order, at, (size_t) count * sizeof(*at));
	return put < 0 ? ft_errno("write", "ports") : 0;
}

static int stranger_end(struct state *s)
{
	int status;

	close(s->order);
	if (waitpid(s->stranger, &status, 0) != s->stranger)
		return ft_errno("waitpid", "the stranger");
	return 0;
}

/* ---- endpoints of this thread ---- */

static struct ft_op make(struct state *s, enum ft_call call, const struct ft_slot *slot,
			 fi_addr_t addr, uint64_t tag)
{
	struct ft_op op = {.call = call,
			   .tagged = true,
			   .addr = addr,
			   .tag = tag,
			   .req = &s->req[s->req_count++]};

	ft_op_buf(&op, slot->buf, slot->off, slot->len);
	return op;
}

static struct ft_slot slot_of(const struct ft_buf *buf, size_t i, size_t len)
{
	return (struct ft_slot){buf, i * PLACE, len + FT_ROOM, i * PLACE + 64, len};
}

static int post_message(struct state *s, size_t i)
{
	struct end *from = &s->end[i % ENDS], *to = &s->end[(i + 1) % ENDS];
	const size_t kind = i % s->kind_count, len = sizes[i / 2];
	const struct ft_slot out = slot_of(&s->out[kind], i, len);
	const struct ft_slot in = slot_of(&s->in[kind], i, len);
	struct ft_op recv, send;

	FT_TRY(ft_slot_fill(&out, s->key + i));
	FT_TRY(ft_slot_arm(&in));
	recv = make(s, FT_RECV, &in, FI_ADDR_UNSPEC, i);
	FT_TRY(ft_post(&to->ctx, &recv));
	send = make(s, FT_SEND, &out, to->addr, i);
	return ft_post(&from->ctx, &send);
}

static int post_write(struct state *s, size_t i)
{
	const size_t kind = s->kind_count - 1, len = sizes[2 + i];
	const struct ft_slot out = slot_of(&s->out[kind], MESSAGES + i, len);
	const struct ft_slot in = slot_of(&s->in[kind], MESSAGES + i, len);
	struct ft_req *req = &s->req[s->req_count++];
	ssize_t ret;

	FT_TRY(ft_slot_fill(&out, s->key + MESSAGES + i));
	FT_TRY(ft_slot_arm(&in));
	while ((ret = fi_write(s->end[0].ctx.ep, out.buf->addr + out.off, len, out.buf->desc,
			       s->end[1].addr, in.buf->base + in.off, in.buf->key, req)) ==
	       -FI_EAGAIN)
		FT_TRY(FT_MIN(ft_progress(&s->ctx), 0));
	return ret ? ft_fail((int) ret, "fi_write", "%zu bytes", len) : 0;
}

static bool has_writes(const struct state *s)
{
	return s->in[s->kind_count - 1].mr && s->ctx.info->caps & FI_RMA;
}

static int post_all(struct state *s)
{
	s->key += 1000;
	s->req_count = 0;
	memset(s->req, 0, sizeof(s->req));
	for (size_t i = 0; i < MESSAGES; i++)
		FT_TRY(post_message(s, i));
	for (size_t i = 0; has_writes(s) && i < WRITES; i++)
		FT_TRY(post_write(s, i));
	return 0;
}

static int check_all(struct state *s)
{
	FT_TRY(ft_wait(&s->ctx, s->req, s->req_count));
	for (size_t i = 0; i < MESSAGES; i++) {
		const struct ft_slot in = slot_of(&s->in[i % s->kind_count], i, sizes[i / 2]);

		FT_TRY(ft_slot_check(&in, in.len, s->key + i, "a message"));
	}
	for (size_t i = 0; has_writes(s) && i < WRITES; i++) {
		const struct ft_slot in =
			slot_of(&s->in[s->kind_count - 1], MESSAGES + i, sizes[2 + i]);

		FT_TRY(ft_slot_check(&in, in.len, s->key + MESSAGES + i, "what was written"));
	}
	return 0;
}

static int end_open(struct ft_ctx *shared, struct end *end, bool first)
{
	end->ctx = *shared;
	if (!first)
		FT_TRY(ft_ep_open(&end->ctx));
	FT_TRY(ft_getname(&end->ctx, &end->name));
	return ft_av_insert(&end->ctx, end->name.bytes, &end->addr);
}

static int open_all(struct state *s)
{
	enum fi_hmem_iface kinds[2];

	s->kind_count = ft_kinds(&s->proc->opts, kinds);
	FT_TRY(ft_test_hints(s->proc, &s->ctx));
	/* accesses that a hook leaves to the core are about host memory alone */
	s->ctx.hints->caps |= FI_RMA;
	s->ctx.hints->tx_attr->op_flags |= FI_DELIVERY_COMPLETE;
	if (!ft_offered(&s->ctx))
		s->ctx.hints->caps &= ~FI_RMA;
	FT_TRY(ft_test_open(s->proc, &s->ctx));
	for (size_t i = 0; i < ENDS; i++)
		FT_TRY(end_open(&s->ctx, &s->end[i], !i));
	for (size_t i = 0; i < s->kind_count; i++) {
		FT_TRY(ft_buf_alloc(&s->ctx, &s->out[i], kinds[i],
				    (MESSAGES + WRITES) * PLACE));
		FT_TRY(ft_buf_alloc(&s->ctx, &s->in[i], kinds[i], (MESSAGES + WRITES) * PLACE));
	}
	if (s->ctx.info->caps & FI_RMA && ft_is_p2p(&s->ctx))
		FT_TRY(ft_buf_share(&s->ctx, &s->in[s->kind_count - 1], FI_REMOTE_WRITE));
	return 0;
}

static int close_all(struct state *s)
{
	int ret = fi_close(&s->end[1].ctx.ep->fid);

	if (ret)
		return ft_fail(ret, "fi_close", "the second endpoint");
	ret = fi_close(&s->ctx.ep->fid);
	if (ret)
		return ft_fail(ret, "fi_close", "the first endpoint");
	s->ctx.ep = NULL;
	for (size_t i = 0; i < s->kind_count; i++) {
		if (s->out[i].mr)
			FT_TRY(fi_close(&s->out[i].mr->fid));
		if (s->in[i].mr)
			FT_TRY(fi_close(&s->in[i].mr->fid));
		s->out[i].mr = s->in[i].mr = NULL;
	}
	return ft_close(&s->ctx);
}

/* ---- objects of one's own, in host memory ---- */

struct own {
	struct ft_opts opts;
	struct ft_proc proc;
	struct ft_ctx ctx;
	struct end end[ENDS];
	char *out, *in;
};

static int own_open(struct own *own, const struct ft_proc *proc)
{
	own->proc = *proc;
	own->proc.opts.iface = own->proc.opts.init_iface = FI_HMEM_SYSTEM;
	own->proc.opts.automatic = false;
	FT_TRY(ft_test_hints(&own->proc, &own->ctx));
	/* host memory needs no registration then */
	own->ctx.hints->domain_attr->mr_mode = 0;
	FT_TRY(ft_test_open(&own->proc, &own->ctx));
	for (size_t i = 0; i < ENDS; i++)
		FT_TRY(end_open(&own->ctx, &own->end[i], !i));
	return 0;
}

static int own_message(struct own *own, uint64_t key)
{
	struct ft_req req[2] = {0};
	struct fi_cq_tagged_entry comp;
	size_t ended = 0;
	ssize_t ret;

	ft_pattern_fill(own->out, OWN_LEN, key);
	ret = fi_trecv(own->end[1].ctx.ep, own->in, OWN_LEN, NULL, FI_ADDR_UNSPEC, 1, 0,
		       &req[0]);
	FT_CHECK(!ret, "fi_trecv: %s", fi_strerror((int) -ret));
	while ((ret = fi_tsend(own->end[0].ctx.ep, own->out, OWN_LEN, NULL, own->end[1].addr, 1,
			       &req[1])) == -FI_EAGAIN)
		fi_cq_read(own->ctx.cq, NULL, 0);
	FT_CHECK(!ret, "fi_tsend: %s", fi_strerror((int) -ret));
	while (ended < 2) {
		ret = fi_cq_read(own->ctx.cq, &comp, 1);
		FT_CHECK(ret == 1 || ret == -FI_EAGAIN, "fi_cq_read: %s",
			 fi_strerror((int) -ret));
		ended += ret == 1;
	}
	FT_CHECK(ft_pattern_diff(own->in, OWN_LEN, key, NULL) < 0, "wrong bytes");
	return 0;
}

static int own_close(struct own *own)
{
	for (size_t i = ENDS; --i;)
		FT_TRY(fi_close(&own->end[i].ctx.ep->fid));
	return ft_close(&own->ctx);
}

static int own_run(const struct ft_proc *proc, uint64_t key)
{
	struct own own = {.out = malloc(OWN_LEN), .in = malloc(OWN_LEN)};
	int ret = own.out && own.in ? 0 : -FI_ENOMEM;

	if (!ret)
		ret = own_open(&own, proc);
	if (!ret)
		ret = own_message(&own, key);
	if (!ret)
		ret = own_close(&own);
	free(own.out);
	free(own.in);
	return ret;
}

/* A thread that opens and closes without end */
static void *opener_run(void *arg)
{
	struct state *s = arg;

	while (!atomic_load(&s->stop) && !s->opener_ret) {
		pthread_mutex_lock(&opening);
		s->opener_ret = own_run(s->proc, 7);
		pthread_mutex_unlock(&opening);
		while (atomic_load(&opening_wanted))
			sched_yield();
	}
	return NULL;
}

/* ---- children ---- */

static void child_run(struct state *s, enum fate fate)
{
	int ret = 0;

	if (fate == EXECS) {
		execl("/bin/true", "true", (char *) NULL);
		ret = -FI_EOTHER;
	} else if (fate == CLOSES) {
		ret = close_all(s);
	} else if (fate == OPENS) {
		ret = own_run(s->proc, (uint64_t) getpid());
	}
	_exit(ret ? EXIT_FAILURE : EXIT_SUCCESS);
}

static int child_wait(struct state *s, pid_t child, enum fate fate)
{
	const double end = ft_usec() + CHILD_LIMIT;
	int status = 0, ret;

	while (waitpid(child, &status, WNOHANG) != child) {
		ret = ft_progress(&s->ctx);
		if (ret >= 0 && ft_usec() < end)
			continue;
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		FT_CHECK(ret < 0, "a child that %s does not end", fates[fate]);
		return ret;
	}
	FT_CHECK(!status, "a child that %s ended with %#x", fates[fate], status);
	return 0;
}

static int bear(struct state *s, enum fate fate)
{
	pid_t child;

	if (fate == OPENS) {
		atomic_store(&opening_wanted, true);
		pthread_mutex_lock(&opening);
		atomic_store(&opening_wanted, false);
	}
	child = fork();
	if (!child)
		child_run(s, fate);
	if (fate == OPENS)
		pthread_mutex_unlock(&opening);
	return child < 0 ? ft_errno("fork", "a child") : child_wait(s, child, fate);
}

static int cycle(struct state *s, size_t round)
{
	FT_TRY(post_all(s));
	for (uint64_t i = ft_random(&s->random) % 200; i; i--)
		FT_TRY(FT_MIN(ft_progress(&s->ctx), 0));
	FT_TRY(bear(s, (enum fate)(round % FATES)));
	FT_TRY(check_all(s));
	return s->opener_ret;
}

static int run(struct ft_proc *proc)
{
	const size_t rounds = proc->opts.quick ? 12 : 400;
	static struct state s = {.random = 1};
	int ret = 0;

	s.proc = proc;
	FT_TRY(stranger_start(&s));
	FT_TRY(open_all(&s));
	FT_TRY(post_all(&s));
	FT_TRY(check_all(&s));
	FT_TRY(stranger_begin(&s));
	if (pthread_create(&s.opener, NULL, opener_run, &s))
		return ft_errno("pthread_create", "a thread");
	for (size_t i = 0; i < rounds && !ret; i++)
		ret = cycle(&s, i);
	atomic_store(&s.stop, true);
	pthread_join(s.opener, NULL);
	FT_TRY(ret ? ret : s.opener_ret);
	FT_TRY(stranger_end(&s));
	FT_TRY(close_all(&s));
	for (size_t i = 0; i < s.kind_count; i++) {
		ft_buf_free(&s.out[i]);
		ft_buf_free(&s.in[i]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Children of a process that is busy.",
		.ranks = 1,
		.may_die = -1,
		.run = run,
	};

	/* long messages have lanes, and their threads, wherever there may be any */
	setenv("FI_P2P_LANES", "2", 0);
	return ft_test_main(&test, argc, argv);
}
