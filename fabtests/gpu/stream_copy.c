/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_stream_copy: writes and reads that a CUDA stream does itself, as copies to and from a peer's memory that is open here
 * (fi_p2p_stream_map()). All bytes are compared. Without -q it measures an exchange, too: posted by the proxy, copied by the
 * stream, and by plain copies in its place.
 */
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>
#include <rdma/fi_p2p_xpu.h>

#include "stream_side.h"

#define LARGEST ((size_t) 1 << 20)
#define REPLAYS 20
#define TAG 77
#define VICTIM 1
#define TURNS 5
#define PINGS 200
#define CU_NOT_READY 600

enum way { PROXY, COPY, RAW, WAYS };

/* Of a buffer, beyond what is exchanged: flags, and the words that they are written from */
#define FLAG LARGEST
#define WORDS (LARGEST + 4096)
#define SIZE (WORDS + 8 * (2 + TURNS * PINGS * 3 * WAYS))

static void *second;  /* another stream */
static uintptr_t raw; /* the peer's memory, opened without the provider */
static uint64_t flag; /* the last value of a flag */

struct handle {
	unsigned char bytes[64];
};

static int (*wait_value)(void *stream, uintptr_t addr, uint64_t value, unsigned int flags);
static int (*query)(void *stream);
static int (*ipc_get)(struct handle *handle, uintptr_t addr);
static int (*ipc_open)(uintptr_t *addr, struct handle handle, unsigned int flags);
static int (*ipc_close)(uintptr_t addr);

#define DO(call) FT_TRY(ft_cuda_check(call, #call))

/* ---- opening ---- */

static int load(void)
{
	static const struct ft_symbol symbols[] = {
		{"cuStreamWaitValue64_v2", &wait_value}, {"cuStreamQuery", &query},
		{"cuIpcGetMemHandle", &ipc_get},         {"cuIpcOpenMemHandle_v2", &ipc_open},
		{"cuIpcCloseMemHandle", &ipc_close},
	};

	return ft_load("libcuda.so.1", symbols, FT_COUNT(symbols));
}

static int side_open(struct stream_side *side, struct ft_proc *proc)
{
	side->tx_reads = true;
	FT_TRY(stream_side_open(side, proc, SIZE));
	FT_TRY(load());
	CU(stream_create(&second, CU_NON_BLOCKING));
	return 0;
}

/* @can: the peer's memory is open */
static int map(struct stream_side *side, bool *can)
{
	struct {
		size_t len;
		unsigned char bytes[FI_P2P_XPU_SHARE];
	} mine = {.len = sizeof(mine.bytes)}, theirs;
	struct fi_p2p_xpu_ops *xpu;
	int shared, ret;

	FT_TRY(fi_open_ops(&side->ctx.domain->fid, FI_P2P_XPU_OPS, 0, (void **) &xpu, NULL));
	shared = xpu->mr_share(side->in.mr, mine.bytes, &mine.len);
	FT_CHECK(!shared || shared == -FI_EOPNOTSUPP, "mr_share: %d", shared);
	FT_TRY(stream_side_swap(side, &mine, &theirs, sizeof(mine)));
	*can = false;
	if (shared)
		return 0;
	ret = fi_p2p_stream_map(side->ctx.ep, side->peer, mine.bytes, mine.len);
	FT_CHECK(ret == -FI_EOPNOTSUPP, "memory of this process is opened: %d", ret);
	ret = fi_p2p_stream_map(side->ctx.ep, side->peer, theirs.bytes, theirs.len - 1);
	FT_CHECK(ret == -FI_EINVAL, "half a share is taken: %d", ret);
	ret = fi_p2p_stream_map(side->ctx.ep, side->peer, theirs.bytes, theirs.len);
	FT_CHECK(!ret || ret == -FI_EOPNOTSUPP, "fi_p2p_stream_map: %d", ret);
	*can = !ret;
	return ft_meet_all(side->proc);
}

static int side_close(struct stream_side *side)
{
	CU(synchronize(second));
	FT_TRY(stream_side_end(side));
	CU(stream_destroy(second));
	CU(stream_destroy(side->stream));
	return ft_close(&side->ctx);
}

/* ---- what a stream does ---- */

static int put_write(struct stream_side *side, size_t from, size_t to, size_t len, void *stream)
{
	int ret = fi_p2p_stream_write(side->ctx.ep, side->out.addr + from, len, side->out.desc,
				      side->peer, side->there + to, side->key, NULL, stream);

	return ret ? ft_fail(ret, "fi_p2p_stream_write", "%zu bytes", len) : 0;
}

static int put_read(struct stream_side *side, size_t from, size_t to, size_t len, void *stream)
{
	int ret = fi_p2p_stream_read(side->ctx.ep, side->out.addr + to, len, side->out.desc,
				     side->peer, side->there + from, side->key, NULL, stream);

	return ret ? ft_fail(ret, "fi_p2p_stream_read", "%zu bytes", len) : 0;
}

static int put_wait(struct fid_cntr *cntr, uint64_t threshold, void *stream)
{
	int ret = fi_p2p_stream_wait(&cntr->fid, threshold, stream);

	return ret ? ft_fail(ret, "fi_p2p_stream_wait", "%" PRIu64, threshold) : 0;
}

/* A message of 1 byte each way, which the proxy posts */
static int put_tell(struct stream_side *side, void *stream)
{
	const uint64_t here = SIZE - 8;
	int ret = fi_p2p_stream_trecv(side->ctx.ep, side->out.addr + here, 1, side->out.desc,
				      side->peer, TAG, 0, NULL, stream);

	if (!ret)
		ret = fi_p2p_stream_tsend(side->ctx.ep, side->out.addr, 1, side->out.desc,
					  side->peer, TAG, NULL, stream);
	return ret ? ft_fail(ret, "fi_p2p_stream_tsend", "1 byte") : 0;
}

static int check(const struct ft_buf *buf, size_t offset, unsigned char want, size_t len,
		 const char *what)
{
	unsigned char *seen = malloc(len);
	size_t right = 0;

	FT_CHECK(seen, "no memory for %zu bytes", len);
	FT_TRY(buf->ops->from(seen, buf->addr + offset, len));
	while (right < len && seen[right] == want)
		right++;
	if (right < len)
		ft_err("%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, right, len,
		       seen[right], want);
	free(seen);
	return right < len ? -FI_EOTHER : 0;
}

/* Has the stream copied the last write itself? */
static int check_copied(struct stream_side *side)
{
	struct fi_p2p_stats_ops *ops;
	struct fi_p2p_stats stats;

	FT_TRY(fi_open_ops(&side->ctx.ep->fid, FI_P2P_STATS_OPS, 0, (void **) &ops, NULL));
	FT_TRY(ops->read(&side->ctx.ep->fid, &stats, sizeof(stats)));
	FT_CHECK(!strcmp(stats.reason[FI_P2P_PATH_IPC], "the stream copies it"),
		 "the stream does not copy: %s", stats.reason[FI_P2P_PATH_IPC]);
	return 0;
}

/* ---- scenes ---- */

static unsigned char content(int rank, size_t round)
{
	return (unsigned char) (1 + round % 100 + 100 * (size_t) rank);
}

/* Nobody progresses here but the proxy, and a copy needs nobody at the other end. */
static int scene_write(struct stream_side *side, size_t offset, size_t len)
{
	const uint64_t ended = fi_cntr_read(side->tx);
	const int rank = side->proc->rank;

	CU(set(at(&side->in, 0), 0, LARGEST, side->stream));
	CU(synchronize(side->stream));
	FT_TRY(ft_meet_all(side->proc));
	CU(set(at(&side->out, 0), content(rank, 3), LARGEST, side->stream));
	FT_TRY(put_write(side, offset, offset, len, side->stream));
	/* the stream's own order keeps the buffer */
	CU(set(at(&side->out, 0), 0xee, LARGEST, side->stream));
	FT_TRY(put_wait(side->tx, ended + 1, side->stream));
	CU(synchronize(side->stream));
	FT_CHECK(fi_cntr_read(side->tx) == ended + 1 && !fi_cntr_readerr(side->tx),
		 "a write is not counted");
	FT_TRY(check_copied(side));
	FT_TRY(ft_meet_all(side->proc));
	FT_TRY(check(&side->in, offset, content(!rank, 3), len, "written"));
	FT_TRY(check(&side->in, offset + len, 0, 1, "behind what is written"));
	/* back again */
	FT_TRY(put_read(side, offset, offset, len, side->stream));
	FT_TRY(put_wait(side->tx, ended + 2, side->stream));
	CU(synchronize(side->stream));
	FT_TRY(check(&side->out, offset, content(rank, 3), len, "read"));
	FT_TRY(check(&side->out, offset + len, 0xee, 1, "behind what is read"));
	return ft_meet_all(side->proc);
}

/* A graph writes, and tells by the proxy. What it has received it reads back from the peer in the next launch. */
static int scene_graph(struct stream_side *side, size_t len)
{
	const uint64_t ended = fi_cntr_read(side->tx);
	const int rank = side->proc->rank;
	void *graph, *exec;

	CU(capture_begin(side->stream, CU_CAPTURE_GLOBAL));
	FT_TRY(put_write(side, 0, 0, len, side->stream));
	FT_TRY(put_read(side, 0, LARGEST / 2, len, side->stream));
	FT_TRY(put_tell(side, side->stream));
	FT_TRY(put_wait(side->tx, 3, side->stream));
	FT_TRY(put_wait(side->rx, 1, side->stream));
	CU(capture_end(side->stream, &graph));
	CU(instantiate(&exec, graph, 0));
	CU(graph_destroy(graph));
	for (size_t i = 0; i < REPLAYS; i++) {
		CU(set(at(&side->out, 0), content(rank, i), len, side->stream));
		CU(launch(exec, side->stream));
		CU(synchronize(side->stream));
		FT_TRY(check(&side->in, 0, content(!rank, i), len, "written by a graph"));
		FT_TRY(check(&side->out, LARGEST / 2, content(rank, i), len,
			     "read by a graph"));
		FT_TRY(ft_meet_all(side->proc));
	}
	FT_CHECK(fi_cntr_read(side->tx) == ended + (uint64_t) (3 * REPLAYS),
		 "%" PRIu64 " counts", fi_cntr_read(side->tx) - ended);
	/* all at once: no launch is lost */
	for (size_t i = 0; i < REPLAYS; i++)
		CU(launch(exec, side->stream));
	CU(synchronize(side->stream));
	FT_CHECK(fi_cntr_read(side->tx) == ended + (uint64_t) (6 * REPLAYS),
		 "%" PRIu64 " counts", fi_cntr_read(side->tx) - ended);
	CU(exec_destroy(exec));
	return ft_meet_all(side->proc);
}

/* Two streams write, to parts of their own. A message of the proxy's comes behind each copy, and none in front of it. */
static int scene_mixed(struct stream_side *side)
{
	const size_t half = LARGEST / 2;
	const int rank = side->proc->rank;
	uint64_t received = fi_cntr_read(side->rx), ended = fi_cntr_read(side->tx);

	for (size_t i = 0; i < REPLAYS; i++) {
		CU(set(at(&side->out, half), content(rank, i), half, second));
		FT_TRY(put_write(side, half, half, half, second));
		CU(set(at(&side->out, 0), content(rank, i + 1), half, side->stream));
		FT_TRY(put_write(side, 0, 0, half, side->stream));
		FT_TRY(put_tell(side, side->stream));
		FT_TRY(put_wait(side->rx, ++received, side->stream));
		FT_TRY(put_wait(side->tx, ended += 3, side->stream));
		CU(synchronize(side->stream));
		CU(synchronize(second));
		FT_TRY(check(&side->in, 0, content(!rank, i + 1), half, "behind a message"));
		FT_TRY(ft_meet_all(side->proc));
		FT_TRY(check(&side->in, half, content(!rank, i), half, "by a second stream"));
		FT_TRY(ft_meet_all(side->proc));
	}
	return 0;
}

/* What cannot be a copy is the proxy's: it reports the error. */
static int scene_beyond(struct stream_side *side)
{
	struct fi_cq_err_entry error = {0};
	struct fi_cq_tagged_entry entry;

	FT_TRY(put_write(side, 0, SIZE - 4, 8, side->stream));
	FT_TRY(put_wait(side->tx, UINT64_MAX, side->stream));
	CU(synchronize(side->stream));
	FT_CHECK(fi_cntr_readerr(side->tx) == 1, "%" PRIu64 " errors",
		 fi_cntr_readerr(side->tx));
	FT_CHECK(fi_cq_read(side->ctx.cq, &entry, 1) == -FI_EAVAIL &&
			 fi_cq_readerr(side->ctx.cq, &error, 0) == 1,
		 "a write beyond the region is no error");
	FT_TRY(fi_cntr_seterr(side->tx, 0));
	return ft_meet_all(side->proc);
}

static int scene_queue(struct stream_side *side)
{
	struct fi_p2p_stream_op op = fi_p2p_stream_op_of(FI_P2P_STREAM_WRITE, side->out.addr, 8,
							 side->out.desc, side->peer, side);
	struct fi_cq_tagged_entry entry;
	int ret;

	op.flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	op.addr = side->there;
	op.key = side->key;
	ret = fi_p2p_stream_post(side->ctx.ep, &op, side->stream);
	if (!ret)
		ret = fi_p2p_stream_wait(&side->ctx.cq->fid, 1, side->stream);
	FT_CHECK(!ret, "fi_p2p_stream_post: %d", ret);
	CU(synchronize(side->stream));
	FT_CHECK(fi_cq_read(side->ctx.cq, &entry, 1) == 1 && entry.op_context == side &&
			 entry.flags & FI_WRITE,
		 "no completion of a copy");
	return ft_meet_all(side->proc);
}

/* The owner closes the region, and dies: copies reach nobody, and the stream goes on. */
static int scene_gone(struct stream_side *side)
{
	const uint64_t ended = fi_cntr_read(side->tx);

	if (side->proc->rank == VICTIM) {
		FT_TRY(fi_close(&side->in.mr->fid));
		side->in.mr = NULL;
		FT_TRY(ft_meet_all(side->proc));
		FT_TRY(ft_meet_all(side->proc));
		raise(SIGKILL);
	}
	FT_TRY(ft_meet_all(side->proc));
	FT_TRY(put_write(side, 0, 0, LARGEST, side->stream));
	FT_TRY(put_wait(side->tx, ended + 1, side->stream));
	CU(synchronize(side->stream));
	FT_TRY(ft_meet_all(side->proc));
	/* the socket tells that it has ended */
	FT_CHECK(ft_meet_all(side->proc), "a rank lives that has died");
	FT_TRY(put_write(side, 0, 0, LARGEST, side->stream));
	FT_TRY(put_wait(side->tx, ended + 2, side->stream));
	CU(synchronize(side->stream));
	FT_CHECK(fi_cntr_read(side->tx) == ended + 2 && !fi_cntr_readerr(side->tx),
		 "a copy to memory without an owner");
	return 0;
}

/* ---- how long it takes ---- */

/* Flags come out of an array, so that no stream waits to change one. */
static int words(struct stream_side *side)
{
	const size_t count = (SIZE - WORDS) / 8 - 1;
	uint64_t *values = malloc(count * 8);
	const uint64_t zero = 0;

	FT_CHECK(values, "no memory for %zu words", count);
	for (size_t i = 0; i < count; i++)
		values[i] = i;
	FT_TRY(side->out.ops->to(side->out.addr + WORDS, values, count * 8));
	free(values);
	return side->in.ops->to(side->in.addr + FLAG, &zero, 8);
}

static int raw_open(struct stream_side *side)
{
	struct handle mine, theirs;

	DO(ipc_get(&mine, at(&side->in, 0)));
	FT_TRY(stream_side_swap(side, &mine, &theirs, sizeof(mine)));
	DO(ipc_open(&raw, theirs, 1));
	return 0;
}

/* Data, then the flag behind it. What the proxy writes has to have ended before. */
static int give(struct stream_side *side, enum way way, size_t len, uint64_t *ended)
{
	const size_t word = WORDS + 8 * flag;

	if (way == RAW) {
		CU(copy(raw, at(&side->out, 0), len, side->stream));
		CU(copy(raw + FLAG, at(&side->out, word), 8, side->stream));
		return 0;
	}
	FT_TRY(put_write(side, 0, 0, len, side->stream));
	*ended += 2;
	if (way == PROXY)
		FT_TRY(put_wait(side->tx, *ended - 1, side->stream));
	FT_TRY(put_write(side, word, FLAG, 8, side->stream));
	return way == PROXY ? put_wait(side->tx, *ended, side->stream) : 0;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *) a, y = *(const double *) b;

	return x < y ? -1 : x > y;
}

static int measure(struct stream_side *side, enum way way, size_t len)
{
	static const char *const names[] = {"the proxy writes", "the stream copies",
					    "plain copies"};
	uint64_t ended = fi_cntr_read(side->tx);
	double us[TURNS], begin;

	for (int t = 0; t < TURNS; t++) {
		FT_TRY(ft_meet_all(side->proc));
		begin = ft_usec();
		for (int i = 0; i < PINGS; i++) {
			flag++;
			FT_TRY(give(side, way, len, &ended));
			DO(wait_value(side->stream, at(&side->in, FLAG), flag, 0));
		}
		/* the proxy serves the peer's writes only while the stream has something of ours */
		while (query(side->stream) == CU_NOT_READY)
			fi_cntr_read(side->tx);
		ft_progress_note();
		us[t] = (ft_usec() - begin) / PINGS;
		while (fi_cntr_read(side->tx) < ended)
			FT_TRY(ft_idle(&side->ctx));
		ft_progress_note();
	}
	qsort(us, TURNS, sizeof(us[0]), compare);
	if (!side->proc->rank)
		printf("an exchange of %7zu bytes: %-18s %9.2f %9.2f %9.2f us\n", len,
		       names[way], us[TURNS / 2], us[0], us[TURNS - 1]);
	return ft_meet_all(side->proc);
}

static int measure_ways(struct stream_side *side, enum way first, enum way last)
{
	static const size_t lens[] = {8, 16384, LARGEST};

	for (size_t i = 0; i < FT_COUNT(lens); i++) {
		for (enum way way = first; way <= last; way++)
			FT_TRY(measure(side, way, lens[i]));
	}
	return 0;
}

/* ---- all of it ---- */

/* What follows an operation with FI_FENCE waits for it, which a copy would not */
static int fenced(struct ft_proc *proc)
{
	struct stream_side side = {.caps = FI_FENCE};
	bool can;

	FT_TRY(side_open(&side, proc));
	FT_TRY(map(&side, &can));
	FT_CHECK(!can, "a stream copies, in front of fences");
	return side_close(&side);
}

static int run(struct ft_proc *proc)
{
	static const size_t lens[] = {1, 4096, 300001};
	const char *path = getenv("FI_P2P_PATH");
	struct stream_side side = {0};
	bool can;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(fenced(proc));
	FT_TRY(side_open(&side, proc));
	FT_TRY(words(&side));
	if (!proc->opts.quick) {
		FT_TRY(raw_open(&side));
		FT_TRY(measure_ways(&side, PROXY, PROXY));
	}
	FT_TRY(map(&side, &can));
	if (path && !strcmp(path, "stage")) {
		FT_CHECK(!can, "FI_P2P_PATH=stage, and a stream copies");
		return side_close(&side);
	}
	if (!can) {
		FT_TRY(side_close(&side));
		return proc->rank ? FT_SKIP : ft_skip("a stream cannot copy here");
	}
	if (!proc->opts.quick) {
		FT_TRY(measure_ways(&side, COPY, RAW));
		DO(ipc_close(raw));
	}
	for (size_t i = 0; i < FT_COUNT(lens); i++) {
		/* first, so that all that is prepared once is prepared while a stream is captured */
		FT_TRY(scene_graph(&side, lens[i]));
		FT_TRY(scene_write(&side, i, lens[i]));
	}
	FT_TRY(scene_mixed(&side));
	FT_TRY(scene_beyond(&side));
	FT_TRY(scene_queue(&side));
	FT_TRY(scene_gone(&side));
	return side_close(&side);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "CUDA streams that copy to and from a peer's memory themselves.",
		.ranks = 2,
		.measures = true,
		.may_die = VICTIM,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
