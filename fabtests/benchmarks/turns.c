/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Several ways to send messages take turns. See turns.h. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "turns.h"

#define DATA_TAG 1
#define ACK_TAG 2
#define ACK_SIZE 4
/*
 * Messages in the turns that tell how many messages a turn may have. Long messages have fewer.
 */
#define TRIAL_FIRST 16
#define TRIAL 256
#define TRIAL_BYTES (4 << 20)
#define WARM_BYTES (4 << 20)
#define CQ_SIZE 1024
#define CQ_BATCH 16
/*
 * The least windows of a turn with several messages under way. So filling and draining the pipe
 * is a small part of it.
 */
#define WINDOWS_MIN 4

/*
 * Messages of each turn that are not timed.
 *
 * The others' turns may have driven the completion queue from the CPU's cache. So there are as
 * many as lead once around that queue, or as are timed, if these are fewer. Of long ones there
 * are as few as can be acknowledged.
 */
static uint64_t untimed(const struct turns_row *row, uint64_t count)
{
	const uint64_t few = FT_MIN(CQ_SIZE, WARM_BYTES / FT_MAX(row->size, 1));

	return FT_MAX(FT_MIN(count, few) / row->batch, 1) * row->batch;
}

void turns_shuffle(struct turns *t)
{
	for (int i = t->side_count - 1; i > 0; i--) {
		const int k = (int) (ft_random(&t->row.seed) % (uint64_t) (i + 1));
		const int side = t->order[i];

		t->order[i] = t->order[k];
		t->order[k] = side;
	}
}

/* ---- messages: no more around libfabric's calls than there must be ---- */

static int progress(struct turns_side *s)
{
	struct fi_cq_tagged_entry comp[CQ_BATCH];
	const ssize_t ret = fi_cq_read(s->ep->ctx.cq, comp, CQ_BATCH);

	/* what a peer has written here with data has no context */
	for (ssize_t i = 0; i < ret; i++)
		if (!(comp[i].flags & FI_REMOTE_CQ_DATA))
			((struct turns_slot *) comp[i].op_context)->busy = false;
	if (ret >= 0)
		return 0;
	if (ret != -FI_EAGAIN)
		return ft_fail((int) ret, "fi_cq_read", "%s",
			       s->ep->ctx.info->fabric_attr->prov_name);
	if (s->ep->opts.wait == FT_WAIT_YIELD)
		sched_yield();
	return 0;
}

static int wait_for(struct turns_side *s, const struct turns_slot *slot)
{
	while (slot->busy)
		FT_TRY(progress(s));
	return 0;
}

static ssize_t send_once(const struct turns_row *row, struct turns_side *s,
			 const struct ft_buf *buf, size_t off, size_t len, uint64_t tag,
			 void *context)
{
	struct fid_ep *const ep = s->ep->ctx.ep;
	const char *const pos = buf->addr + off;

	if (row->tagged)
		return row->inject
			       ? fi_tinject(ep, pos, len, s->ep->peer, tag)
			       : fi_tsend(ep, pos, len, buf->desc, s->ep->peer, tag, context);
	return row->inject ? fi_inject(ep, pos, len, s->ep->peer)
			   : fi_send(ep, pos, len, buf->desc, s->ep->peer, context);
}

static int put(const struct turns_row *row, struct turns_side *s, const struct ft_buf *buf,
	       size_t off, size_t len, uint64_t tag, struct turns_slot *slot)
{
	ssize_t ret;

	FT_TRY(wait_for(s, slot));
	slot->busy = !row->inject;
	while ((ret = send_once(row, s, buf, off, len, tag, slot)) == -FI_EAGAIN)
		FT_TRY(progress(s));
	return ret ? ft_fail((int) ret, "sending", "%zu bytes", len) : 0;
}

static int put_data(struct turns *t, struct turns_side *s, size_t i)
{
	return put(&t->row, s, s->tx, i * t->row.size, t->row.size, DATA_TAG, &t->tx[i]);
}

static int arm(const struct turns_row *row, struct turns_side *s, const struct ft_buf *buf,
	       size_t off, size_t len, uint64_t tag, struct turns_slot *slot)
{
	struct fid_ep *const ep = s->ep->ctx.ep;
	char *const pos = buf->addr + off;
	ssize_t ret;

	slot->busy = true;
	do {
		ret = row->tagged
			      ? fi_trecv(ep, pos, len, buf->desc, FI_ADDR_UNSPEC, tag, 0, slot)
			      : fi_recv(ep, pos, len, buf->desc, FI_ADDR_UNSPEC, slot);
		if (ret == -FI_EAGAIN)
			FT_TRY(progress(s));
	} while (ret == -FI_EAGAIN);
	return ret ? ft_fail((int) ret, "receiving", "%zu bytes", len) : 0;
}

static int arm_data(struct turns *t, struct turns_side *s, size_t i)
{
	return arm(&t->row, s, s->rx, i * t->row.size, t->row.size, DATA_TAG, &t->rx[i]);
}

static int arm_ack(struct turns *t, struct turns_side *s, size_t i)
{
	return arm(&t->row, s, &t->ack_rx, 0, ACK_SIZE, ACK_TAG, &t->acks_in[i]);
}

/* Waits until nothing of this turn is under way, so that the next one begins with none. */
static int drain(struct turns *t, struct turns_side *s)
{
	for (size_t i = 0; i < t->row.window; i++)
		FT_TRY(wait_for(s, &t->tx[i]));
	for (size_t i = 0; i < t->row.window / t->row.batch; i++)
		FT_TRY(wait_for(s, &t->acks_out[i]));
	return 0;
}

/* For the message number @i, if only one is under way at a time. All go to one place. */
static int arm_one(struct turns *t, struct turns_side *s, uint64_t i)
{
	return arm(&t->row, s, s->rx, 0, t->row.size, DATA_TAG, &t->rx[i % 2]);
}

/*
 * A message goes to the server, and one of the same size returns. While it is on its way, the
 * receive for the one after it is posted. So no message is unexpected.
 */
static int latency_turn(struct turns *t, struct turns_side *s, uint64_t count, double *usec)
{
	const uint64_t before = (untimed(&t->row, count) + 1) / 2, total = before + count;
	double start = 0;

	FT_TRY(arm_one(t, s, 0));
	for (uint64_t i = 0; i < total; i++) {
		if (i == before)
			start = ft_usec();
		if (t->client)
			FT_TRY(put_data(t, s, 0));
		if (i + 1 < total)
			FT_TRY(arm_one(t, s, i + 1));
		FT_TRY(wait_for(s, &t->rx[i % 2]));
		if (!t->client)
			FT_TRY(put_data(t, s, 0));
	}
	*usec = (ft_usec() - start) / (double) (2 * count);
	return drain(t, s);
}

/*
 * @out messages go, @in come.
 *
 * A message is sent when less than a window of them wait to be acknowledged. The receiver
 * acknowledges it when the receive for its successor's successor, a window later, is posted. So
 * no message is unexpected.
 *
 * The clock starts with the first message after @before. None of those before may still be
 * under way, as that would be time for nothing. Besides, a core provider that is busy sending
 * may see acknowledgments a window late.
 */
static int stream(struct turns *t, struct turns_side *s, uint64_t out, uint64_t in,
		  uint64_t before, double *start)
{
	const uint64_t window = t->row.window, batch = t->row.batch, acks = window / batch;
	uint64_t sent = 0, acked = 0, taken = 0;

	for (uint64_t i = 0; i < window && i < in; i++)
		FT_TRY(arm_data(t, s, i));
	for (uint64_t i = 0; i < acks && i * batch < out; i++)
		FT_TRY(arm_ack(t, s, i));
	while (acked < out || taken < in) {
		if (sent == before && acked < before) {
			/* nothing to send until these are acknowledged */
		} else if (sent < out && sent - acked < window) {
			if (sent == before)
				*start = ft_usec();
			FT_TRY(put_data(t, s, sent++ % window));
			/* if more is to come the other way, progress has to look after it */
			if (taken == in)
				continue;
		}
		FT_TRY(progress(s));
		while (acked < out && !t->acks_in[acked / batch % acks].busy) {
			if (acked + window < out)
				FT_TRY(arm_ack(t, s, acked / batch % acks));
			else
				t->acks_in[acked / batch % acks].busy = true;
			acked += batch;
		}
		while (taken < in && !t->rx[taken % window].busy) {
			if (taken + window < in)
				FT_TRY(arm_data(t, s, taken % window));
			else
				t->rx[taken % window].busy = true;
			if (++taken % batch == 0)
				FT_TRY(put(&t->row, s, &t->ack_tx, 0, ACK_SIZE, ACK_TAG,
					   &t->acks_out[(taken - 1) / batch % acks]));
		}
	}
	return 0;
}

static int stream_turn(struct turns *t, struct turns_side *s, uint64_t count, double *usec)
{
	const bool both = t->row.test == TURNS_BOTH_WAYS;
	const uint64_t before = untimed(&t->row, count), total = before + count;
	double start = 0;

	FT_TRY(stream(t, s, both || t->client ? total : 0, both || !t->client ? total : 0,
		      before, &start));
	*usec = (ft_usec() - start) / (double) count;
	return drain(t, s);
}

/*
 * Sends a window each way, one after the other. Nothing of an earlier window may be left there.
 */
static int verify_turn(struct turns *t, struct turns_side *s, uint64_t count, double *usec)
{
	const size_t size = t->row.size, window = t->row.window;
	const uint64_t mine = t->row.seed + (t->client ? 0 : window);
	const uint64_t other = t->row.seed + (t->client ? window : 0);

	*usec = 0;
	for (size_t i = 0; i < window; i++) {
		const struct ft_slot out = {s->tx, i * size, size, i * size, size};
		const struct ft_slot in = {s->rx, i * size, size, i * size, size};

		FT_TRY(ft_slot_fill(&out, mine + i));
		FT_TRY(ft_slot_arm(&in));
	}
	FT_TRY(stream(t, s, t->client ? window : 0, t->client ? 0 : window, 0, usec));
	FT_TRY(stream(t, s, t->client ? 0 : window, t->client ? window : 0, 0, usec));
	FT_TRY(drain(t, s));
	for (size_t i = 0; i < window; i++)
		FT_TRY(ft_verify(s->rx, i * size, size, other + i));
	return 0;
}

/* ---- remote memory: the client reaches the server's ---- */

/*
 * Ends when the bytes are there. Of atomic operations that is not asked: their end says so over most
 * cores, and shm of 1.17 frees a buffer twice.
 */
static ssize_t write_once(const struct turns_row *row, struct turns_side *s, size_t off,
			  uint64_t flags, void *context)
{
	const struct iovec iov = {s->tx->addr + off, row->size};
	const struct fi_rma_iov remote = {s->base + off, row->size, s->key};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &s->tx->desc,
		.iov_count = 1,
		.addr = s->ep->peer,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = context,
		.data = off,
	};

	return fi_writemsg(s->ep->ctx.ep, &msg, flags | FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

static ssize_t reach_once(const struct turns_row *row, struct turns_side *s,
			  enum turns_test test, size_t i, void *context)
{
	struct fid_ep *const ep = s->ep->ctx.ep;
	const fi_addr_t peer = s->ep->peer;
	const size_t off = i * row->size;
	const uint64_t at = s->base + off;
	char *const out = s->tx->addr + off, *const in = s->rx->addr + off;

	switch (test) {
	case TURNS_WRITE:
		return write_once(row, s, off, 0, context);
	case TURNS_WRITE_DATA:
		return write_once(row, s, off, FI_REMOTE_CQ_DATA, context);
	case TURNS_READ:
		return fi_read(ep, in, row->size, s->rx->desc, peer, at, s->key, context);
	case TURNS_ATOMIC:
		return fi_atomic(ep, out, 1, s->tx->desc, peer, at, s->key, FI_UINT64, FI_SUM,
				 context);
	case TURNS_FETCH:
		return fi_fetch_atomic(ep, out, 1, s->tx->desc, in, s->rx->desc, peer, at,
				       s->key, FI_UINT64, FI_SUM, context);
	default:
		return -FI_ENOSYS;
	}
}

/* Operations number 0 to @count - 1, a window of them at a time, until all have ended */
static int reach(struct turns *t, struct turns_side *s, enum turns_test test, uint64_t count)
{
	for (uint64_t k = 0; k < count; k++) {
		const size_t i = k % t->row.window;
		ssize_t ret;

		FT_TRY(wait_for(s, &t->tx[i]));
		t->tx[i].busy = true;
		while ((ret = reach_once(&t->row, s, test, i, &t->tx[i])) == -FI_EAGAIN)
			FT_TRY(progress(s));
		if (ret)
			return ft_fail((int) ret, "reaching remote memory", "%zu bytes",
				       (size_t) t->row.size);
	}
	return drain(t, s);
}

/* Either end tells the other one that it is there, @mine, or waits for that. */
static int meet(struct turns *t, struct turns_side *s, bool mine)
{
	if (mine) {
		FT_TRY(put(&t->row, s, &t->ack_tx, 0, ACK_SIZE, ACK_TAG, &t->acks_out[0]));
		return wait_for(s, &t->acks_out[0]);
	}
	FT_TRY(arm_ack(t, s, 0));
	return wait_for(s, &t->acks_in[0]);
}

/* The server makes progress until the client says that it has done all. */
static int reach_turn(struct turns *t, struct turns_side *s, uint64_t count, double *usec)
{
	double start;

	if (t->client) {
		FT_TRY(reach(t, s, t->row.test, untimed(&t->row, count)));
		start = ft_usec();
		FT_TRY(reach(t, s, t->row.test, count));
		*usec = (ft_usec() - start) / (double) count;
	}
	return meet(t, s, t->client);
}

/* Writes a window, and reads it again. */
static int verify_rma(struct turns *t, struct turns_side *s)
{
	const size_t size = t->row.size, window = t->row.window;

	for (size_t i = 0; i < window; i++) {
		const struct ft_slot out = {s->tx, i * size, size, i * size, size};
		const struct ft_slot in = {s->rx, i * size, size, i * size, size};

		FT_TRY(ft_slot_fill(&out, t->row.seed + i));
		FT_TRY(ft_slot_arm(&in));
	}
	FT_TRY(reach(t, s, t->row.seed % 2 ? TURNS_WRITE : TURNS_WRITE_DATA, window));
	FT_TRY(reach(t, s, TURNS_READ, window));
	for (size_t i = 0; i < window; i++)
		FT_TRY(ft_verify(s->rx, i * size, size, t->row.seed + i));
	return 0;
}

/* Writes what it then adds, twice. So what the second addition finds is twice that. */
static int verify_atomic(struct turns *t, struct turns_side *s)
{
	uint64_t added, found;

	FT_TRY(verify_rma(t, s));
	FT_TRY(reach(t, s, TURNS_ATOMIC, t->row.window));
	FT_TRY(reach(t, s, TURNS_FETCH, t->row.window));
	for (size_t i = 0; i < t->row.window; i++) {
		FT_TRY(s->tx->ops->from(&added, s->tx->addr + i * sizeof(added),
					sizeof(added)));
		FT_TRY(s->rx->ops->from(&found, s->rx->addr + i * sizeof(found),
					sizeof(found)));
		FT_CHECK(found == 2 * added, "an atomic operation finds 0x%zx, not 0x%zx",
			 (size_t) found, (size_t) (2 * added));
	}
	return 0;
}

static int verify_remote_turn(struct turns *t, struct turns_side *s, uint64_t count,
			      double *usec)
{
	const size_t size = t->row.size;

	for (size_t i = 0; !t->client && i < t->row.window; i++) {
		const struct ft_slot in = {s->rx, i * size, size, i * size, size};

		FT_TRY(ft_slot_arm(&in));
	}
	FT_TRY(meet(t, s, !t->client));
	if (t->client)
		FT_TRY(t->row.test == TURNS_VERIFY_RMA ? verify_rma(t, s)
						       : verify_atomic(t, s));
	return meet(t, s, t->client);
}

/* ---- turns ---- */

static bool is_timed(uint64_t test)
{
	return test != TURNS_VERIFY && test != TURNS_VERIFY_RMA && test != TURNS_VERIFY_ATOMIC;
}

static int take_turn(struct turns *t, int side, double *usec)
{
	static int (*const turns[])(struct turns *, struct turns_side *, uint64_t, double *) = {
		[TURNS_LATENCY] = latency_turn,
		[TURNS_STREAM] = stream_turn,
		[TURNS_BOTH_WAYS] = stream_turn,
		[TURNS_VERIFY] = verify_turn,
		[TURNS_WRITE] = reach_turn,
		[TURNS_WRITE_DATA] = reach_turn,
		[TURNS_READ] = reach_turn,
		[TURNS_ATOMIC] = reach_turn,
		[TURNS_FETCH] = reach_turn,
		[TURNS_VERIFY_RMA] = verify_remote_turn,
		[TURNS_VERIFY_ATOMIC] = verify_remote_turn,
	};
	struct turns_side *const s = &t->sides[side];
	const uint64_t count = t->row.count[side];

	*usec = 0;
	ft_progress_note();
	if (!s->own)
		return turns[t->row.test](t, s, count, usec);
	return is_timed(t->row.test) ? s->own(s->arg, &t->row, count, usec) : 0;
}

/*
 * In a round everyone has a turn, and then another one in the opposite order. So a load that
 * grows or fades meets all alike.
 */
static int run(struct turns *t)
{
	const int last = 2 * t->side_count - 1;

	FT_CHECK(t->row.test < TURNS_TESTS, "the peer is another version of this program");
	FT_CHECK(t->row.rounds <= TURNS_ROUNDS, "--rounds: at most %d", TURNS_ROUNDS);
	for (int i = 0; i < t->side_count; i++)
		FT_CHECK(t->sides[i].own ||
				 (t->row.window <= t->slots &&
				  t->row.size * t->row.window <= t->sides[i].tx->size),
			 "the peer runs with another -S or -W: give both sides the same");
	for (uint64_t r = 0; r < t->row.rounds; r++) {
		double took[2 * TURNS_SIDES];

		turns_shuffle(t);
		for (int i = 0; i <= last; i++)
			FT_TRY(take_turn(t, t->order[i < t->side_count ? i : last - i],
					 &took[i]));
		for (int i = 0; i < t->side_count; i++)
			t->usec[r][t->order[i]] = (took[i] + took[last - i]) / 2;
	}
	return 0;
}

/* ---- client and server ---- */

int turns_tell(struct turns *t)
{
	FT_TRY(ft_oob_send(t->oob, &t->row, sizeof(t->row)));
	return run(t);
}

int turns_obey(struct turns *t)
{
	const struct turns_row mine = t->row;

	FT_TRY(ft_oob_recv(t->oob, &t->row, sizeof(t->row), t->opts.timeout));
	FT_CHECK(t->row.tagged == mine.tagged, "the peer runs with another -o");
	return run(t);
}

/*
 * What one message took each side in a turn of about @count. Gives the longest time to
 * @slowest.
 */
static int try_count(struct turns *t, uint64_t count, double *slowest)
{
	struct turns_row *const row = &t->row;
	const uint64_t short_enough = TRIAL_BYTES / FT_MAX(row->size, 1);

	for (int i = 0; i < t->side_count; i++)
		row->count[i] =
			FT_MAX(FT_MIN(count, short_enough) / row->window, 1) * row->window;
	row->rounds = 1;
	FT_TRY(turns_tell(t));
	*slowest = 0;
	for (int i = 0; i < t->side_count; i++)
		*slowest = FT_MAX(*slowest, t->usec[0][i]);
	return 0;
}

int turns_plan(struct turns *t, double turn_usec, double *round)
{
	struct turns_row *const row = &t->row;
	double slowest;

	FT_TRY(try_count(t, TRIAL_FIRST, &slowest));
	/* the first messages may have been slow, or few; a second try costs little */
	if (slowest * TRIAL < 8 * turn_usec)
		FT_TRY(try_count(t, TRIAL, &slowest));
	*round = 0;
	for (int i = 0; i < t->side_count; i++) {
		/* an answer is as long as the message */
		const double one = t->usec[0][i] * (row->test == TURNS_LATENCY ? 2 : 1);
		const double windows = one > 0 ? turn_usec / one / (double) row->window : 0;
		const double least = row->window > 1 ? WINDOWS_MIN : 1;

		row->count[i] = (uint64_t) FT_MAX(windows, least) * row->window;
		*round += 2 * one * (double) (row->count[i] + untimed(row, row->count[i]));
	}
	return 0;
}

int turns_sizes(struct ft_opts *opts, const size_t *sizes, size_t count)
{
	if (opts->sizes)
		return 0;
	opts->sizes = malloc(count * sizeof(*sizes));
	if (!opts->sizes)
		return ft_fail(-FI_ENOMEM, "malloc", "sizes");
	memcpy(opts->sizes, sizes, count * sizeof(*sizes));
	opts->size_count = count;
	return 0;
}

int turns_start(struct turns *t)
{
	const struct ft_opts *opts = &t->opts;
	const enum fi_hmem_iface iface =
		opts->iface != FI_HMEM_SYSTEM ? opts->iface : opts->init_iface;

	t->client = opts->dst_addr;
	FT_CHECK(opts->prov && opts->oob_addr, "-p and -b are needed");
	FT_CHECK(opts->wait == FT_WAIT_SPIN || opts->wait == FT_WAIT_YIELD,
		 "-c: spin and yield are the only ways to wait here");
	FT_TRY(ft_watchdog_start(opts->timeout));
	FT_TRY(ft_mem_ops(iface)->init(opts->device));
	FT_TRY(t->client
		       ? ft_oob_connect(opts->dst_addr, opts->oob_port, opts->patience, &t->oob)
		       : ft_oob_listen(NULL, opts->oob_port, opts->timeout, &t->oob));
	t->row.seed = opts->seed;
	t->row.tagged = opts->tagged;
	for (int i = 0; i < t->side_count; i++)
		t->order[i] = i;
	return t->client
		       ? ft_oob_send(t->oob, &t->row.seed, sizeof(t->row.seed))
		       : ft_oob_recv(t->oob, &t->row.seed, sizeof(t->row.seed), opts->timeout);
}

static int ask_for(struct turns_ep *ep, uint64_t caps)
{
	FT_TRY(ft_hints(&ep->ctx, &ep->opts));
	ep->ctx.hints->caps |= caps;
	if (caps & FI_ATOMIC && !ft_offered(&ep->ctx))
		ep->ctx.hints->caps &= ~FI_ATOMIC;
	return 0;
}

int turns_open(struct turns *t, struct turns_ep *ep, bool ours, uint64_t caps)
{
	const char *const suffix = strstr(t->opts.prov, ";ofi_p2p");
	struct ft_name name = {0};
	char prov[128];

	FT_CHECK(suffix, "-p %s: it has to end in \";ofi_p2p\"", t->opts.prov);
	snprintf(prov, sizeof(prov), "%.*s%s", (int) (suffix - t->opts.prov), t->opts.prov,
		 ours ? suffix : "");
	ep->opts = t->opts;
	ep->opts.prov = prov;
	ep->opts.no_hmem |= !ours;
	FT_TRY(ask_for(ep, caps));
	ep->ctx.cq_attr.size = CQ_SIZE;
	FT_TRY(ft_getinfo(&ep->ctx, t->opts.src_addr, NULL, t->opts.src_addr ? FI_SOURCE : 0));
	FT_CHECK(ft_is_p2p(&ep->ctx) == ours, "-p %s: it is %s that was found", prov,
		 ep->ctx.info->fabric_attr->prov_name);
	FT_CHECK(!(ep->ctx.info->domain_attr->mr_mode & FI_MR_LOCAL),
		 "-p %s: a provider that wants its buffers registered is not measured", prov);
	FT_TRY(ft_open(&ep->ctx));
	FT_TRY(ft_getname(&ep->ctx, &name));
	FT_TRY(ft_oob_send(t->oob, &name, sizeof(name)));
	FT_TRY(ft_oob_recv(t->oob, &name, sizeof(name), t->opts.timeout));
	ep->opts.prov = t->opts.prov;
	return ft_av_insert(&ep->ctx, name.bytes, &ep->peer);
}

int turns_share(struct turns *t, struct turns_side *s)
{
	uint64_t name[2];

	s->target = *s->rx;
	s->target.mr = NULL;
	FT_TRY(ft_buf_share(&s->ep->ctx, &s->target, FI_REMOTE_READ | FI_REMOTE_WRITE));
	name[0] = s->target.key;
	name[1] = s->target.base;
	FT_TRY(ft_oob_send(t->oob, name, sizeof(name)));
	FT_TRY(ft_oob_recv(t->oob, name, sizeof(name), t->opts.timeout));
	s->key = name[0];
	s->base = name[1];
	return 0;
}

void turns_unshare(struct turns_side *s)
{
	/* the memory is the buffer's */
	s->target.addr = NULL;
	ft_buf_free(&s->target);
}

int turns_slots(struct turns *t, struct turns_ep *ep, size_t window)
{
	FT_TRY(ft_buf_alloc(&ep->ctx, &t->ack_tx, FI_HMEM_SYSTEM, ACK_SIZE));
	FT_TRY(ft_buf_alloc(&ep->ctx, &t->ack_rx, FI_HMEM_SYSTEM, ACK_SIZE));
	t->slots = window;
	t->usec = calloc(TURNS_ROUNDS, sizeof(*t->usec));
	t->tx = calloc(window, sizeof(*t->tx));
	t->rx = calloc(window, sizeof(*t->rx));
	t->acks_out = calloc(window, sizeof(*t->acks_out));
	t->acks_in = calloc(window, sizeof(*t->acks_in));
	return t->usec && t->tx && t->rx && t->acks_out && t->acks_in
		       ? 0
		       : ft_fail(-FI_ENOMEM, "calloc", "window of %zu messages", window);
}

int turns_stop(struct turns *t)
{
	char byte = 0;

	FT_TRY(ft_oob_send(t->oob, &byte, 1));
	FT_TRY(ft_oob_recv(t->oob, &byte, 1, t->opts.timeout));
	ft_buf_free(&t->ack_tx);
	ft_buf_free(&t->ack_rx);
	free(t->usec);
	free(t->tx);
	free(t->rx);
	free(t->acks_out);
	free(t->acks_in);
	free(t->opts.sizes);
	close(t->oob);
	return 0;
}

/* ---- statistics ---- */

static int compare(const void *one, const void *other)
{
	const double a = *(const double *) one, b = *(const double *) other;

	return (a > b) - (a < b);
}

double turns_quantile(double *values, size_t count, double q)
{
	const double place = q * (double) (count - 1);
	const size_t below = (size_t) place, above = FT_MIN(below + 1, count - 1);

	qsort(values, count, sizeof(*values), compare);
	return values[below] + (place - (double) below) * (values[above] - values[below]);
}
