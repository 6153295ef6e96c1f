/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_descriptors: one end, or both, may open few descriptors more, or have few addresses left, when a first long
 * message goes from device to device. Where the core has enough for a message from host memory, it arrives. Each round
 * has endpoints of its own.
 */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ft_test.h"

#define LEN ((size_t) 300000)
/* Longer than a whole message, and too short for lanes, which would open connections behind our back */
#define LEN_SELF ((size_t) 80000)
/* What a round needs no more than. A message that has not ended by then [us] never does */
#define PATIENCE 20e6
#define HOST_LEN 64
/* Over ofi_rxm the core alone needs 50 MB for a connection */
#define ADDRESSES ((rlim_t) 140 << 20)
/* Up to here what we open beside the core is in its way; above it is opened by and by */
#define FINE 17
#define COARSE 8
/* So many messages where we may open some: the first ones agree on it */
#define TIMES 8
/* Of those that are left, so many are the core's, and it takes so many of them */
#define SPARED 16
#define CORE_MOST 4

enum tag {
	LONG = 1,
	SHORT,
	SELF,
};

/*
 * What there is before. @connected: the core's connections, as host messages have gone both ways. @opened: what
 * ofi_p2p opens for itself, as a long message has gone to the endpoint itself. @most: the largest number of
 * descriptors that are left, and @most_one where only one end lacks some
 */
static const struct scene {
	const char *name;
	bool connected, opened;
	unsigned int most, most_one;
} scenes[] = {
	{"strangers", false, false, 113, 5},
	{"connected", true, false, 3, 2},
	{"others are known", false, true, 1, 0},
	{"connected, and others are known", true, true, 1, 0},
};

/* The limit that leaves @left descriptors */
static rlim_t descriptors_limit(rlim_t left)
{
	int fd;

	for (fd = 0; left || fcntl(fd, F_GETFD) >= 0; fd++)
		left -= fcntl(fd, F_GETFD) < 0;
	return (rlim_t) fd;
}

/* How many descriptors are left below the limit */
static unsigned int descriptors_left(rlim_t limit)
{
	unsigned int left = 0;

	for (int fd = 0; fd < (int) limit; fd++)
		left += fcntl(fd, F_GETFD) < 0;
	return left;
}

/* What is opened beside the core is for speed: it leaves some to the core, for its next connections. */
static int check_spared(rlim_t left)
{
	struct rlimit limit;
	unsigned int now;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return ft_errno("getrlimit", "what is left");
	now = descriptors_left(limit.rlim_cur);
	FT_CHECK(now + CORE_MOST >= (left < SPARED ? left : SPARED),
		 "of %llu descriptors %u are left", (unsigned long long) left, now);
	return 0;
}

/* The limit that leaves @left bytes of addresses; 0: that is not known */
static rlim_t addresses_limit(rlim_t left)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages ? pages * (rlim_t) sysconf(_SC_PAGESIZE) + left : 0;
}

/* @resource: RLIMIT_NOFILE or RLIMIT_AS */
static int leave(int resource, rlim_t left, struct rlimit *before)
{
	struct rlimit limit;

	if (getrlimit(resource, before))
		return ft_errno("getrlimit", "what is left");
	limit.rlim_max = before->rlim_max;
	limit.rlim_cur =
		resource == RLIMIT_AS ? addresses_limit(left) : descriptors_limit(left);
	FT_CHECK(limit.rlim_cur, "/proc/self/statm cannot be read");
	return setrlimit(resource, &limit) ? ft_errno("setrlimit", "what is left") : 0;
}

/* One end of a message, at @off of @buf */
static int post(struct ft_pair *pair, bool sends, fi_addr_t addr, enum tag tag,
		const struct ft_buf *buf, size_t off, size_t len, struct ft_req *req)
{
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = addr,
		.tag = tag,
		.req = req,
	};

	*req = (struct ft_req){.done = false};
	ft_op_buf(&op, buf, off, len);
	return ft_post(&pair->ctx, &op);
}

static int connect_core(struct ft_pair *pair)
{
	struct ft_req req[2];

	for (int sends = 0; sends < 2; sends++)
		FT_TRY(post(pair, sends, pair->peer, SHORT, &pair->buf[0], sends * HOST_LEN,
			    HOST_LEN, &req[sends]));
	return ft_wait(&pair->ctx, req, 2);
}

static int open_ours(struct ft_pair *pair, const struct ft_buf *buf)
{
	struct ft_req req[2];
	struct ft_name name;
	fi_addr_t self;

	FT_TRY(ft_getname(&pair->ctx, &name));
	FT_TRY(ft_av_insert(&pair->ctx, name.bytes, &self));
	for (int sends = 0; sends < 2; sends++)
		FT_TRY(post(pair, sends, self, SELF, buf, sends * LEN_SELF, LEN_SELF,
			    &req[sends]));
	return ft_wait(&pair->ctx, req, 2);
}

static int wait_patiently(struct ft_pair *pair, struct ft_req *req)
{
	const double since = ft_usec();

	while (!req->done) {
		FT_TRY(ft_progress(&pair->ctx) < 0 ? -FI_EOTHER : 0);
		FT_CHECK(ft_usec() - since < PATIENCE, "it never ends");
	}
	FT_CHECK(!req->err, "it fails: %s", fi_strerror(req->err));
	return 0;
}

static int transfer(struct ft_pair *pair, const struct ft_buf *buf, bool sends)
{
	const struct ft_slot slot = {buf, 0, LEN + FT_ROOM, 64, LEN};
	struct ft_req req;

	FT_TRY(sends ? ft_slot_fill(&slot, LONG) : ft_slot_arm(&slot));
	FT_TRY(post(pair, sends, pair->peer, LONG, buf, slot.off, LEN, &req));
	FT_TRY(wait_patiently(pair, &req));
	return sends ? 0 : ft_slot_check(&slot, LEN, LONG, "a long message");
}

/* Descriptors for its connection; and at the receiver for the one by which a greeting comes */
static unsigned int core_needs(const struct ft_proc *proc, const struct scene *scene)
{
	return scene->connected ? 0 : 1 + !proc->rank;
}

/* @short_ends: a bit for each rank. @left: what is left of @resource there */
static int round_of(struct ft_proc *proc, const struct scene *scene, int resource, rlim_t left,
		    unsigned int short_ends)
{
	const bool few = short_ends & 1u << proc->rank;
	struct ft_pair pair = {.proc = NULL};
	const struct ft_buf *buf;
	struct rlimit before;
	int ret = 0;

	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, LEN));
	buf = &pair.buf[pair.kind_count - 1];
	if (scene->opened)
		FT_TRY(open_ours(&pair, buf));
	if (scene->connected)
		FT_TRY(connect_core(&pair));
	FT_TRY(ft_barrier(proc, &pair.ctx));
	if (few)
		FT_TRY(leave(resource, left, &before));
	for (int i = 0; !ret && i < (left - core_needs(proc, scene) > FINE ? TIMES : 1); i++)
		ret = transfer(&pair, buf, ft_pair_sends(&pair));
	/* the other end may need this one's progress */
	if (!ret)
		ret = ft_barrier(proc, &pair.ctx);
	if (!ret && few && resource == RLIMIT_NOFILE)
		ret = check_spared(left);
	if (few && setrlimit(resource, &before))
		return ft_errno("setrlimit", "what was before");
	if (ret) {
		ft_err("%s, %llu %s left at %s", scene->name, (unsigned long long) left,
		       resource == RLIMIT_AS ? "bytes" : "descriptors",
		       few ? "this end" : "the other end");
		return ret;
	}
	return ft_pair_close(&pair, NULL, 0);
}

/* A sanitizer takes addresses as it likes */
static int addresses(struct ft_proc *proc)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	for (unsigned int ends = 1; ends <= 2; ends++)
		FT_TRY(round_of(proc, &scenes[0], RLIMIT_AS, ADDRESSES, ends));
#endif
	return 0;
}

static int run(struct ft_proc *proc)
{
	/* else libc reserves 64 MiB for each thread that allocates at the same time as another one */
	mallopt(M_ARENA_MAX, 1);
	FT_TRY(addresses(proc));
	for (size_t i = 0; i < FT_COUNT(scenes); i++) {
		const struct scene *scene = &scenes[i];

		for (unsigned int ends = 1; ends <= 3; ends++)
			for (unsigned int left = 0;
			     left <= (ends == 3 ? scene->most : scene->most_one);
			     left += left < FINE ? 1 : COARSE)
				FT_TRY(round_of(proc, scene, RLIMIT_NOFILE,
						left + core_needs(proc, scene), ends));
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose =
			"A long message arrives where few descriptors or addresses are left.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
