/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_stream: operations that begin when a CUDA stream gets there, and streams that wait for them
 * (FI_P2P_STREAM_OPS). The host puts everything into a stream, and waits once in the end. Then the
 * same from a graph that is launched again and again; and what goes wrong.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "stream_side.h"

#define ROUNDS 40
#define LARGEST ((size_t) 300001)
#define REPLAYS 12
#define TAG 77
#define LOOKS 3

static struct ft_buf arrivals; /* a copy of what each round has received */

/* ---- opening ---- */

static int side_open(struct stream_side *side, struct ft_proc *proc)
{
	FT_TRY(stream_side_open(side, proc, LARGEST));
	return ft_buf_alloc(&side->ctx, &arrivals, FI_HMEM_CUDA, ROUNDS * LARGEST);
}

/* The last thing that the stream waits for is closed, and then the domain. */
static int side_close(struct stream_side *side)
{
	struct fid_cntr *last;

	FT_TRY(stream_side_end(side));
	ft_buf_free(&arrivals);
	FT_TRY(ft_cntr_open(&side->ctx, FI_WAIT_NONE, 0, &last));
	FT_TRY(fi_p2p_stream_wait(&last->fid, 1, side->stream));
	FT_TRY(fi_close(&last->fid));
	FT_TRY(ft_close(&side->ctx));
	CU(synchronize(side->stream));
	CU(stream_destroy(side->stream));
	return 0;
}

static int refuse_close(struct fid *fid, const char *what)
{
	int ret = fi_close(fid);

	FT_CHECK(ret == -FI_EBUSY, "%s is in use, and its close is %d", what, ret);
	return 0;
}

/* ---- what a stream does ---- */

static unsigned char content(int rank, size_t round)
{
	return (unsigned char) (1 + round + 100 * (size_t) rank);
}

static int put_send(struct stream_side *side, size_t len)
{
	int ret = fi_p2p_stream_tsend(side->ctx.ep, side->out.addr, len, side->out.desc,
				      side->peer, TAG, NULL, side->stream);

	return ret ? ft_fail(ret, "fi_p2p_stream_tsend", "%zu bytes", len) : 0;
}

static int put_recv(struct stream_side *side, size_t len)
{
	int ret = fi_p2p_stream_trecv(side->ctx.ep, side->in.addr, len, side->in.desc,
				      side->peer, TAG, 0, NULL, side->stream);

	return ret ? ft_fail(ret, "fi_p2p_stream_trecv", "%zu bytes", len) : 0;
}

static int put_wait(struct stream_side *side, struct fid *fid, uint64_t threshold)
{
	int ret = fi_p2p_stream_wait(fid, threshold, side->stream);

	return ret ? ft_fail(ret, "fi_p2p_stream_wait", "%" PRIu64, threshold) : 0;
}

static int check_log(const struct stream_side *side, size_t rounds, size_t len,
		     const char *what)
{
	unsigned char *log = malloc(rounds * len);
	size_t wrong = 0;

	FT_CHECK(log, "no memory for %zu bytes", rounds * len);
	FT_TRY(arrivals.ops->from(log, arrivals.addr, rounds * len));
	while (wrong < rounds * len && log[wrong] == content(!side->proc->rank, wrong / len))
		wrong++;
	if (wrong < rounds * len)
		ft_err("%s: byte %zu of round %zu is 0x%02x", what, wrong % len, wrong / len,
		       log[wrong]);
	free(log);
	return wrong < rounds * len ? -FI_EOTHER : 0;
}

/* ---- scenes ---- */

/* Both send and receive at once. The host waits when all is in the stream. */
static int scene_exchange(struct stream_side *side, size_t len)
{
	const uint64_t sent = fi_cntr_read(side->tx), received = fi_cntr_read(side->rx);

	for (size_t i = 0; i < ROUNDS; i++) {
		CU(set(at(&side->out, 0), content(side->proc->rank, i), len, side->stream));
		FT_TRY(put_recv(side, len));
		FT_TRY(put_send(side, len));
		FT_TRY(put_wait(side, &side->tx->fid, sent + i + 1));
		FT_TRY(put_wait(side, &side->rx->fid, received + i + 1));
		CU(copy(at(&arrivals, i * len), at(&side->in, 0), len, side->stream));
	}
	CU(synchronize(side->stream));
	FT_TRY(ft_meet_all(side->proc));
	return check_log(side, ROUNDS, len, "exchanged");
}

/* Each writes to the other, and tells it by a message. */
static int scene_write(struct stream_side *side, size_t len)
{
	struct fi_p2p_stream_op op = {
		.kind = FI_P2P_STREAM_WRITE,
		.flags = FI_DELIVERY_COMPLETE,
		.buf = side->out.addr,
		.len = len,
		.desc = side->out.desc,
		.peer = side->peer,
		.addr = side->there,
		.key = side->key,
	};
	const uint64_t sent = fi_cntr_read(side->tx), received = fi_cntr_read(side->rx);
	int ret;

	CU(set(at(&side->out, 0), content(side->proc->rank, 0), len, side->stream));
	ret = fi_p2p_stream_post(side->ctx.ep, &op, side->stream);
	if (ret)
		return ft_fail(ret, "fi_p2p_stream_post", "write");
	FT_TRY(put_wait(side, &side->tx->fid, sent + 1));
	ret = fi_p2p_stream_trecv(side->ctx.ep, arrivals.addr, 1, arrivals.desc, side->peer,
				  TAG, 0, NULL, side->stream);
	FT_CHECK(!ret, "fi_p2p_stream_trecv: %d", ret);
	FT_TRY(put_send(side, 1));
	FT_TRY(put_wait(side, &side->tx->fid, sent + 2));
	FT_TRY(put_wait(side, &side->rx->fid, received + 1));
	CU(copy(at(&arrivals, 0), at(&side->in, 0), len, side->stream));
	CU(synchronize(side->stream));
	FT_TRY(ft_meet_all(side->proc));
	return check_log(side, 1, len, "written");
}

/* A stream waits for completions, which the host reads afterwards. */
static int scene_queue(struct stream_side *side)
{
	struct fi_p2p_stream_op op = {
		.kind = FI_P2P_STREAM_TRECV,
		.flags = FI_COMPLETION,
		.buf = side->in.addr,
		.len = 1000,
		.desc = side->in.desc,
		.peer = side->peer,
		.tag = TAG,
		.context = side,
	};
	struct fi_cq_tagged_entry entry;
	int ret;

	CU(set(at(&side->out, 0), content(side->proc->rank, 0), 1000, side->stream));
	ret = fi_p2p_stream_post(side->ctx.ep, &op, side->stream);
	FT_CHECK(!ret, "fi_p2p_stream_post: %d", ret);
	FT_TRY(put_send(side, 1000));
	FT_TRY(put_wait(side, &side->ctx.cq->fid, 1));
	FT_TRY(refuse_close(&side->ctx.cq->fid, "a queue"));
	CU(copy(at(&arrivals, 0), at(&side->in, 0), 1000, side->stream));
	CU(synchronize(side->stream));
	FT_CHECK(fi_cq_read(side->ctx.cq, &entry, 1) == 1, "no completion is there");
	FT_CHECK(entry.op_context == side && entry.len == 1000 && entry.tag == TAG,
		 "a completion of %zu bytes", entry.len);
	FT_TRY(check_log(side, 1, 1000, "received"));
	return ft_meet_all(side->proc);
}

/* A graph exchanges what lies in @out, and the host changes that between launches. */
static int scene_graph(struct stream_side *side, size_t len)
{
	const uint64_t sent = fi_cntr_read(side->tx);
	void *graph = NULL, *exec = NULL;

	CU(capture_begin(side->stream, CU_CAPTURE_GLOBAL));
	FT_TRY(put_recv(side, len));
	FT_TRY(put_send(side, len));
	FT_CHECK(fi_p2p_stream_wait(&side->ctx.cq->fid, 1, side->stream) == -FI_EOPNOTSUPP,
		 "a graph waits for a queue");
	FT_TRY(put_wait(side, &side->tx->fid, 1));
	FT_TRY(put_wait(side, &side->rx->fid, 1));
	CU(copy(at(&arrivals, 0), at(&side->in, 0), len, side->stream));
	CU(capture_end(side->stream, &graph));
	CU(instantiate(&exec, graph, 0));
	CU(graph_destroy(graph));
	for (size_t i = 0; i < REPLAYS; i++) {
		CU(set(at(&side->out, 0), content(side->proc->rank, 0) + (unsigned char) i, len,
		       side->stream));
		CU(launch(exec, side->stream));
		CU(set(at(&side->in, 0), 0, len, side->stream));
	}
	CU(synchronize(side->stream));
	FT_CHECK(fi_cntr_read(side->tx) == sent + REPLAYS, "%d launches have sent %" PRIu64,
		 REPLAYS, fi_cntr_read(side->tx) - sent);
	/* of the last one */
	CU(set(at(&side->out, 0), content(side->proc->rank, 0), len, side->stream));
	CU(launch(exec, side->stream));
	CU(synchronize(side->stream));
	FT_TRY(check_log(side, 1, len, "by a graph"));
	CU(exec_destroy(exec));
	return ft_meet_all(side->proc);
}

/* A graph that waits for nothing is launched faster than its messages leave: none is lost. */
static int scene_bare(struct stream_side *side)
{
	const uint64_t sent = fi_cntr_read(side->tx), received = fi_cntr_read(side->rx);
	void *graph, *exec;

	CU(capture_begin(side->stream, CU_CAPTURE_GLOBAL));
	FT_TRY(put_send(side, 8));
	FT_TRY(put_send(side, 8));
	CU(capture_end(side->stream, &graph));
	CU(instantiate(&exec, graph, 0));
	CU(graph_destroy(graph));
	for (int i = 0; i < REPLAYS; i++)
		CU(launch(exec, side->stream));
	for (int i = 0; i < 2 * REPLAYS; i++)
		FT_TRY(put_recv(side, 8));
	FT_TRY(put_wait(side, &side->tx->fid, sent + 2 * REPLAYS));
	FT_TRY(put_wait(side, &side->rx->fid, received + 2 * REPLAYS));
	CU(synchronize(side->stream));
	CU(exec_destroy(exec));
	return ft_meet_all(side->proc);
}

/* A graph that waits for two counts of @cntr, in a stream or, with @fork and @event, in two. @pace: what @other waits for, to see the proxy look */
struct gate {
	struct fid_cntr *cntr, *pace;
	void *exec, *other, *fork, *event;
};

/* In one stream */
static int gate_wait(struct stream_side *side, struct gate *gate)
{
	CU(capture_begin(side->stream, CU_CAPTURE_GLOBAL));
	FT_TRY(put_wait(side, &gate->cntr->fid, 2));
	CU(copy(at(&arrivals, 0), at(&side->out, 0), 1, side->stream));
	return 0;
}

/* The first count in one stream, the second one in another, which comes after that */
static int gate_wait_forked(struct stream_side *side, struct gate *gate)
{
	int ret;

	CU(stream_create(&gate->fork, CU_NON_BLOCKING));
	CU(event_create(&gate->event, 0));
	CU(capture_begin(side->stream, CU_CAPTURE_GLOBAL));
	FT_TRY(put_wait(side, &gate->cntr->fid, 1));
	CU(event_record(gate->event, side->stream));
	CU(stream_wait_event(gate->fork, gate->event, 0));
	ret = fi_p2p_stream_wait(&gate->cntr->fid, 1, gate->fork);
	if (ret)
		return ft_fail(ret, "fi_p2p_stream_wait", "another stream of a graph");
	CU(copy(at(&arrivals, 0), at(&side->out, 0), 1, gate->fork));
	CU(event_record(gate->event, gate->fork));
	CU(stream_wait_event(side->stream, gate->event, 0));
	return 0;
}

static int gate_open(struct stream_side *side, struct gate *gate,
		     int (*waits)(struct stream_side *side, struct gate *gate))
{
	void *graph;

	FT_TRY(ft_cntr_open(&side->ctx, FI_WAIT_NONE, 0, &gate->cntr));
	FT_TRY(ft_cntr_open(&side->ctx, FI_WAIT_NONE, 0, &gate->pace));
	CU(stream_create(&gate->other, CU_NON_BLOCKING));
	FT_TRY(waits(side, gate));
	CU(capture_end(side->stream, &graph));
	CU(instantiate(&gate->exec, graph, 0));
	CU(graph_destroy(graph));
	return 0;
}

static int gate_close(struct gate *gate)
{
	CU(exec_destroy(gate->exec));
	CU(stream_destroy(gate->other));
	FT_TRY(fi_close(&gate->cntr->fid));
	return fi_close(&gate->pace->fid);
}

/* Lets the proxy look at all that waits. */
static int gate_pace(struct gate *gate)
{
	for (int i = 0; i < LOOKS; i++) {
		const uint64_t next = fi_cntr_read(gate->pace) + 1;
		int ret = fi_p2p_stream_wait(&gate->pace->fid, next, gate->other);

		if (ret)
			return ft_fail(ret, "fi_p2p_stream_wait", "another stream");
		FT_TRY(fi_cntr_add(gate->pace, 1));
		CU(synchronize(gate->other));
	}
	return 0;
}

static int gate_log(struct stream_side *side, unsigned char want, const char *what)
{
	unsigned char seen;

	CU(synchronize(side->stream));
	FT_TRY(arrivals.ops->from(&seen, arrivals.addr, 1));
	FT_CHECK(seen == want, "%s: the graph has not waited for two counts: %d", what, seen);
	return 0;
}

/* Launches the graph, which is let go by the second of two counts, or by an error. */
static int gate_launch(struct stream_side *side, struct gate *gate, bool error,
		       const char *what)
{
	CU(set(at(&side->out, 0), 1, 1, side->stream));
	CU(synchronize(side->stream));
	CU(launch(gate->exec, side->stream));
	FT_TRY(fi_cntr_add(gate->cntr, 1));
	FT_TRY(gate_pace(gate));
	CU(set(at(&side->out, 0), 2, 1, gate->other));
	CU(synchronize(gate->other));
	FT_TRY(error ? fi_cntr_adderr(gate->cntr, 1) : fi_cntr_add(gate->cntr, 1));
	return gate_log(side, 2, what);
}

/* Launches the graph, which need not wait. */
static int gate_pass(struct stream_side *side, struct gate *gate, const char *what)
{
	CU(set(at(&side->out, 0), 3, 1, side->stream));
	CU(launch(gate->exec, side->stream));
	return gate_log(side, 3, what);
}

/* The host sets a counter that a graph waits for. */
static int scene_set(struct stream_side *side)
{
	struct gate gate;

	FT_TRY(gate_open(side, &gate, gate_wait));
	FT_TRY(gate_launch(side, &gate, false, "the first launch"));
	for (int i = 0; i < REPLAYS; i++) {
		FT_TRY(fi_cntr_set(gate.cntr, 0));
		FT_TRY(gate_launch(side, &gate, false, "after fi_cntr_set() to 0"));
	}
	/* what the proxy has not seen before it is there again */
	FT_TRY(fi_cntr_set(gate.cntr, 0));
	FT_TRY(fi_cntr_add(gate.cntr, 2));
	FT_TRY(gate_pass(side, &gate, "two counts after fi_cntr_set()"));
	FT_TRY(fi_cntr_add(gate.cntr, 5));
	FT_TRY(fi_cntr_set(gate.cntr, 7));
	FT_TRY(gate_launch(side, &gate, false, "counts before fi_cntr_set()"));
	FT_TRY(fi_cntr_set(gate.cntr, 11));
	FT_TRY(gate_pass(side, &gate, "raised by fi_cntr_set()"));
	/* one of two has failed: both are used */
	FT_TRY(gate_launch(side, &gate, true, "an error"));
	FT_TRY(fi_cntr_seterr(gate.cntr, 0));
	FT_TRY(gate_launch(side, &gate, false, "after an error"));
	/* an error while only one of two is there */
	FT_TRY(fi_cntr_adderr(gate.cntr, 1));
	FT_TRY(gate_pass(side, &gate, "an error that is there before"));
	FT_TRY(fi_cntr_seterr(gate.cntr, 0));
	FT_TRY(fi_cntr_add(gate.cntr, 1));
	FT_TRY(gate_launch(side, &gate, false, "one count is missing"));
	FT_TRY(gate_close(&gate));
	return ft_meet_all(side->proc);
}

/* Two streams of one graph wait for one counter: each for a count of its own. */
static int scene_forked(struct stream_side *side)
{
	struct gate gate;

	FT_TRY(gate_open(side, &gate, gate_wait_forked));
	for (int i = 0; i < REPLAYS; i++)
		FT_TRY(gate_launch(side, &gate, false, "in two streams"));
	FT_TRY(gate_close(&gate));
	CU(event_destroy(gate.event));
	CU(stream_destroy(gate.fork));
	return ft_meet_all(side->proc);
}

/* An alias posts with its own flags, and may be closed before the stream gets there. */
static int scene_alias(struct stream_side *side)
{
	const uint64_t sent = fi_cntr_read(side->tx), received = fi_cntr_read(side->rx);
	struct fi_cq_tagged_entry entry;
	struct fid_ep *alias;
	int ret;

	FT_TRY(fi_ep_alias(side->ctx.ep, &alias, FI_TRANSMIT | FI_COMPLETION));
	CU(set(at(&side->out, 0), content(side->proc->rank, 0), 1000, side->stream));
	ret = fi_p2p_stream_tsend(alias, side->out.addr, 1000, side->out.desc, side->peer, TAG,
				  side, side->stream);
	FT_CHECK(!ret, "fi_p2p_stream_tsend by an alias: %d", ret);
	FT_TRY(refuse_close(&side->ctx.ep->fid, "an endpoint with an alias"));
	FT_TRY(fi_close(&alias->fid));
	FT_TRY(put_recv(side, 1000));
	FT_TRY(put_wait(side, &side->ctx.cq->fid, 1));
	FT_TRY(put_wait(side, &side->tx->fid, sent + 1));
	FT_TRY(put_wait(side, &side->rx->fid, received + 1));
	CU(copy(at(&arrivals, 0), at(&side->in, 0), 1000, side->stream));
	CU(synchronize(side->stream));
	FT_CHECK(fi_cq_read(side->ctx.cq, &entry, 1) == 1 && entry.op_context == side,
		 "what an alias with FI_COMPLETION has sent is not reported");
	FT_TRY(check_log(side, 1, 1000, "sent by an alias"));
	return ft_meet_all(side->proc);
}

/* What fails is told, and no stream is held for ever. */
static int scene_errors(struct stream_side *side)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	struct fid_cntr *other;
	ssize_t got;
	int ret;

	/* this bit of the tag is the provider's */
	ret = fi_p2p_stream_tsend(side->ctx.ep, side->out.addr, 8, side->out.desc, side->peer,
				  ~0ULL, side, side->stream);
	FT_CHECK(!ret, "fi_p2p_stream_tsend: %d", ret);
	FT_TRY(put_wait(side, &side->tx->fid, UINT64_MAX));
	CU(synchronize(side->stream));
	FT_CHECK(fi_cntr_readerr(side->tx) == 1, "%" PRIu64 " errors are counted",
		 fi_cntr_readerr(side->tx));
	got = fi_cq_read(side->ctx.cq, &entry, 1);
	FT_CHECK(got == -FI_EAVAIL, "fi_cq_read: %zd", got);
	got = fi_cq_readerr(side->ctx.cq, &error, 0);
	FT_CHECK(got == 1 && error.op_context == side && error.err == FI_EINVAL,
		 "fi_cq_readerr: %zd, error %d", got, error.err);
	FT_TRY(fi_cntr_seterr(side->tx, 0));
	/* what is waited for is closed */
	FT_TRY(ft_cntr_open(&side->ctx, FI_WAIT_NONE, 0, &other));
	FT_TRY(put_wait(side, &other->fid, 5));
	FT_TRY(fi_close(&other->fid));
	CU(synchronize(side->stream));
	FT_CHECK(fi_p2p_stream_post(side->ctx.ep, NULL, side->stream) == -FI_EINVAL,
		 "no operation is posted");
	return ft_meet_all(side->proc);
}

/* A domain is closed too early: the stream waits on, for a counter and then for a message. */
static int scene_early(struct stream_side *side)
{
	const uint64_t sent = fi_cntr_read(side->tx), received = fi_cntr_read(side->rx);
	struct fid_cntr *other;

	FT_TRY(ft_cntr_open(&side->ctx, FI_WAIT_NONE, 0, &other));
	CU(set(at(&side->out, 0), content(side->proc->rank, 0), 8, side->stream));
	CU(set(at(&side->in, 0), 0, 8, side->stream));
	FT_TRY(put_wait(side, &other->fid, 1));
	FT_TRY(put_recv(side, 8));
	FT_TRY(put_send(side, 8));
	FT_TRY(put_wait(side, &side->tx->fid, sent + 1));
	FT_TRY(put_wait(side, &side->rx->fid, received + 1));
	CU(copy(at(&arrivals, 0), at(&side->in, 0), 8, side->stream));
	FT_TRY(refuse_close(&side->ctx.domain->fid, "a domain"));
	FT_TRY(fi_cntr_add(other, 1));
	CU(synchronize(side->stream));
	FT_TRY(fi_close(&other->fid));
	FT_TRY(check_log(side, 1, 8, "after a close that was refused"));
	return ft_meet_all(side->proc);
}

/* A graph that outlives its endpoint */
static int scene_late(struct stream_side *side, void **exec)
{
	void *graph;

	CU(capture_begin(side->stream, CU_CAPTURE_GLOBAL));
	FT_TRY(put_send(side, 8));
	FT_TRY(put_wait(side, &side->tx->fid, 1));
	CU(capture_end(side->stream, &graph));
	CU(instantiate(exec, graph, 0));
	CU(graph_destroy(graph));
	FT_TRY(refuse_close(&side->ctx.domain->fid, "a domain"));
	return ft_meet_all(side->proc);
}

static int scenes(struct ft_proc *proc)
{
	static const size_t lens[] = {1, 4096, LARGEST};
	struct stream_side side = {0};
	void *exec;

	FT_TRY(side_open(&side, proc));
	for (size_t i = 0; i < FT_COUNT(lens); i++) {
		/* first, so that all that is prepared once is prepared while a stream is captured */
		FT_TRY(scene_graph(&side, lens[i]));
		FT_TRY(scene_exchange(&side, lens[i]));
		FT_TRY(scene_write(&side, lens[i]));
	}
	FT_TRY(scene_queue(&side));
	FT_TRY(scene_bare(&side));
	FT_TRY(scene_set(&side));
	FT_TRY(scene_forked(&side));
	FT_TRY(scene_errors(&side));
	FT_TRY(scene_early(&side));
	FT_TRY(scene_late(&side, &exec));
	FT_TRY(side_close(&side));
	CU(exec_destroy(exec));
	return 0;
}

/* A domain with FI_TRIGGER, whose endpoints have aliases */
static int aliases(struct ft_proc *proc)
{
	struct stream_side side = {.caps = FI_TRIGGER};

	FT_TRY(side_open(&side, proc));
	FT_TRY(scene_alias(&side));
	FT_TRY(scene_exchange(&side, 4096));
	return side_close(&side);
}

static int run(struct ft_proc *proc)
{
	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(scenes(proc));
	FT_TRY(ft_meet_all(proc));
	return aliases(proc);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "CUDA streams that send, receive, write and wait.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
