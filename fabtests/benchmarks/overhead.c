/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_overhead: what ofi_p2p costs messages between host buffers. One process of each
 * side has three endpoints open: the core provider's, one of ofi_p2p on top of it, and a
 * second one of the core provider's as a control. They take turns of a millisecond or two,
 * on the same CPUs and with the same buffers, so that whatever else the machine does meets
 * all three; what is reported is the median of the ratios within each round of turns.
 *
 * The client says what is to be done, the server obeys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ft.h"

#define TAG 1
#define ROUNDS 20
#define TURN_USEC 1500 /* how long a turn is to last */
#define TRIAL 256      /* messages of the turn that tells how many that is */
#define CQ_SIZE 1024
#define CQ_BATCH 16


static const size_t default_sizes[] = {8, 64, 1024, 4096};

enum role { CORE, OURS, CONTROL, ROLES };
enum test { LATENCY, RATE, TESTS };

/**
 * struct side - one of the endpoints
 * @sent, @received: completions that nobody has waited for yet
 */
struct side {
	struct ft_opts opts;
	struct ft_ctx ctx;
	fi_addr_t peer;
	uint64_t sent, received;
};

/** struct row - a test, as the client tells the server; no rounds: the end */
struct row {
	uint64_t test, tagged, inject, size, window, count, rounds, seed;
};

/**
 * struct overhead - the program
 * @order:	of the turns; another in each round
 * @tx, @rx:	the data; every message of a window has its own place
 */
struct overhead {
	struct ft_opts opts;
	struct side sides[ROLES];
	enum role order[ROLES];
	bool client;
	int oob;
	struct row row;
	struct ft_buf tx, rx;
	struct fi_context2 *tx_context, *rx_context;
};

/*
 * Messages of each turn that are not timed: as many as are, or as lead once around the
 * completion queue, which the others' turns may have driven from the CPU's cache.
 */
static uint64_t warmup(const struct row *row)
{
	return FT_MIN(row->count, CQ_SIZE);
}

static void shuffle(struct overhead *o, uint64_t *seed)
{
	for (int i = ROLES - 1; i > 0; i--) {
		const int k = (int)(ft_random(seed) % (uint64_t)(i + 1));
		const enum role role = o->order[i];

		o->order[i] = o->order[k];
		o->order[k] = role;
	}
}

/* ---- messages: no more around libfabric's calls than there must be ---- */

static int progress(struct side *s)
{
	struct fi_cq_tagged_entry comp[CQ_BATCH];
	const ssize_t ret = fi_cq_read(s->ctx.cq, comp, CQ_BATCH);

	for (ssize_t i = 0; i < ret; i++) {
		if (comp[i].flags & FI_RECV)
			s->received++;
		else
			s->sent++;
	}
	return ret >= 0 || ret == -FI_EAGAIN
		       ? 0
		       : ft_fail((int)ret, "fi_cq_read", "%s",
				 s->ctx.info->fabric_attr->prov_name);
}

static int wait_for(struct side *s, uint64_t *done, uint64_t count)
{
	while (*done < count)
		FT_TRY(progress(s));
	*done -= count;
	return 0;
}

static ssize_t send_once(struct overhead *o, struct side *s, size_t slot, bool inject)
{
	const size_t len = o->row.size;
	const char *buf = o->tx.addr + slot * len;
	void *context = &o->tx_context[slot];

	if (o->row.tagged)
		return inject ? fi_tinject(s->ctx.ep, buf, len, s->peer, TAG)
			      : fi_tsend(s->ctx.ep, buf, len, NULL, s->peer, TAG, context);
	return inject ? fi_inject(s->ctx.ep, buf, len, s->peer)
		      : fi_send(s->ctx.ep, buf, len, NULL, s->peer, context);
}

static ssize_t recv_once(struct overhead *o, struct side *s, size_t slot)
{
	const size_t len = o->row.size;
	char *buf = o->rx.addr + slot * len;
	void *context = &o->rx_context[slot];

	if (o->row.tagged)
		return fi_trecv(s->ctx.ep, buf, len, NULL, FI_ADDR_UNSPEC, TAG, 0, context);
	return fi_recv(s->ctx.ep, buf, len, NULL, FI_ADDR_UNSPEC, context);
}

static int put(struct overhead *o, struct side *s, size_t slot)
{
	const bool inject = o->row.inject;
	ssize_t ret;

	while ((ret = send_once(o, s, slot, inject)) == -FI_EAGAIN)
		FT_TRY(progress(s));
	return ret ? ft_fail((int)ret, "sending", "%zu bytes", (size_t)o->row.size) : 0;
}

static int arm(struct overhead *o, struct side *s, size_t slots)
{
	ssize_t ret;

	for (size_t i = 0; i < slots; i++) {
		while ((ret = recv_once(o, s, i)) == -FI_EAGAIN)
			FT_TRY(progress(s));
		if (ret)
			return ft_fail((int)ret, "receiving", "%zu bytes",
				       (size_t)o->row.size);
	}
	return 0;
}

/* Waits for sends that have completions. */
static int sent(struct overhead *o, struct side *s, size_t count)
{
	return o->row.inject ? 0 : wait_for(s, &s->sent, count);
}

/* A message goes to the server, one of the same size returns. */
static int latency_turn(struct overhead *o, struct side *s, double *usec)
{
	const uint64_t untimed = warmup(&o->row) / 2, count = untimed + o->row.count;
	double start = 0;

	FT_TRY(arm(o, s, 1));
	for (uint64_t i = 0; i < count; i++) {
		if (i == untimed)
			start = ft_usec();
		if (o->client)
			FT_TRY(put(o, s, 0));
		FT_TRY(wait_for(s, &s->received, 1));
		/* the next receive is up before the message that makes the peer send */
		FT_TRY(arm(o, s, i + 1 < count));
		if (!o->client)
			FT_TRY(put(o, s, 0));
		FT_TRY(sent(o, s, 1));
	}
	*usec = (ft_usec() - start) / (double)(2 * o->row.count);
	return 0;
}

/* A window of messages goes to the server, one of the same size returns. */
static int rate_turn(struct overhead *o, struct side *s, double *usec)
{
	const size_t window = o->row.window;
	const uint64_t untimed = warmup(&o->row) / window;
	const uint64_t count = untimed + o->row.count / window;
	double start = 0;

	FT_TRY(arm(o, s, o->client ? 1 : window));
	for (uint64_t i = 0; i < count; i++) {
		if (i == untimed)
			start = ft_usec();
		for (size_t k = 0; o->client && k < window; k++)
			FT_TRY(put(o, s, k));
		FT_TRY(sent(o, s, o->client ? window : 0));
		FT_TRY(wait_for(s, &s->received, o->client ? 1 : window));
		FT_TRY(arm(o, s, i + 1 == count ? 0 : o->client ? 1 : window));
		if (o->client)
			continue;
		FT_TRY(put(o, s, 0));
		FT_TRY(sent(o, s, 1));
	}
	*usec = (ft_usec() - start) / (double)((count - untimed) * window);
	return 0;
}

/*
 * All rounds of a row; what a message took of each role goes to @usec, by rounds. In a round
 * everyone has a turn and then, in the opposite order, another, so that a load that grows
 * or fades meets all alike.
 */
static int run_row(struct overhead *o, double (*usec)[ROLES])
{
	int (*const turn)(struct overhead *, struct side *, double *) =
		o->row.test == RATE ? rate_turn : latency_turn;
	uint64_t seed = o->row.seed;

	for (uint64_t r = 0; r < o->row.rounds; r++) {
		double took[2 * ROLES];

		shuffle(o, &seed);
		for (int i = 0; i < 2 * ROLES; i++) {
			const enum role role = o->order[i < ROLES ? i : 2 * ROLES - 1 - i];

			FT_TRY(turn(o, &o->sides[role], &took[i]));
			ft_progress_note();
		}
		for (int i = 0; usec && i < ROLES; i++)
			usec[r][o->order[i]] = (took[i] + took[2 * ROLES - 1 - i]) / 2;
	}
	return 0;
}

/* ---- what comes out ---- */

static int compare(const void *one, const void *other)
{
	const double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* Sorts; the median */
static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void report(const struct overhead *o, double (*usec)[ROLES], double *values)
{
	static const char *const tests[] = {"latency", "rate"};
	const struct row *row = &o->row;
	const size_t rounds = row->rounds;

	printf("%-8s %-7s %-7s %6zu", tests[row->test], row->tagged ? "tagged" : "msg",
	       row->inject ? "inject" : "send", (size_t)row->size);
	for (enum role role = CORE; role <= OURS; role++) {
		double middle;

		for (size_t r = 0; r < rounds; r++)
			values[r] = usec[r][role];
		middle = median(values, rounds);
		printf(" %9.4f", row->test == RATE ? 1 / middle : middle);
	}
	for (enum role role = OURS; role <= CONTROL; role++) {
		for (size_t r = 0; r < rounds; r++)
			values[r] = usec[r][CORE] / usec[r][role];
		printf(" %7.4f", median(values, rounds));
	}
	printf("\n");
	fflush(stdout);
}

/* ---- client and server ---- */

static int tell_row(struct overhead *o, double (*usec)[ROLES])
{
	FT_TRY(ft_oob_send(o->oob, &o->row, sizeof(o->row)));
	return run_row(o, usec);
}

/* Measures one row, having found out how many messages a turn may have. */
static int measure(struct overhead *o, double (*usec)[ROLES], double *values)
{
	double quickest;

	o->row.rounds = 1;
	o->row.count = TRIAL;
	FT_TRY(tell_row(o, usec));
	quickest = FT_MIN(FT_MIN(usec[0][CORE], usec[0][OURS]), usec[0][CONTROL]);
	o->row.count = (uint64_t)(TURN_USEC / quickest);
	if (o->row.test == LATENCY)
		o->row.count /= 2;
	o->row.count = FT_MAX(o->row.count, o->row.window);
	o->row.rounds = o->opts.rounds;
	o->row.seed++;
	FT_TRY(tell_row(o, usec));
	report(o, usec, values);
	return 0;
}

static int run_client(struct overhead *o)
{
	double (*usec)[ROLES] = calloc(o->opts.rounds, sizeof(*usec));
	double *values = calloc(o->opts.rounds, sizeof(*values));
	const size_t injected = o->sides[OURS].ctx.info->tx_attr->inject_size;
	const size_t sizes = o->opts.size_count;
	int ret = 0;

	if (!usec || !values)
		ret = ft_fail(-FI_ENOMEM, "calloc", "figures");
	for (size_t i = 0; !ret && i < TESTS * 2 * sizes; i++) {
		o->row.test = i / (2 * sizes);
		o->row.inject = i / sizes % 2;
		o->row.size = o->opts.sizes[i % sizes];
		if (!o->row.inject || o->row.size <= injected)
			ret = measure(o, usec, values);
	}
	free(usec);
	free(values);
	if (ret)
		return ret;
	o->row.rounds = 0;
	return tell_row(o, NULL);
}

static int run_server(struct overhead *o)
{
	const struct row mine = o->row;

	do {
		FT_TRY(ft_oob_recv(o->oob, &o->row, sizeof(o->row), o->opts.timeout));
		FT_CHECK(o->row.tagged == mine.tagged && o->row.window == mine.window,
			 "the peer runs with another -o or -W: give both sides the same");
		FT_CHECK(o->row.size <= mine.size, "the peer's -S has larger sizes");
		FT_TRY(run_row(o, NULL));
	} while (o->row.rounds);
	return 0;
}

static int open_side(struct overhead *o, enum role role)
{
	struct side *s = &o->sides[role];
	const char *const suffix = strstr(o->opts.prov, ";ofi_p2p");
	struct ft_name name = {0};
	char prov[128];

	FT_CHECK(suffix, "-p %s: it has to end in \";ofi_p2p\"", o->opts.prov);
	snprintf(prov, sizeof(prov), "%.*s%s", (int)(suffix - o->opts.prov), o->opts.prov,
		 role == OURS ? suffix : "");
	s->opts = o->opts;
	s->opts.prov = prov;
	s->opts.no_hmem |= role != OURS;
	FT_TRY(ft_hints(&s->ctx, &s->opts));
	s->ctx.cq_attr.size = CQ_SIZE;
	FT_TRY(ft_getinfo(&s->ctx, o->opts.src_addr, NULL, o->opts.src_addr ? FI_SOURCE : 0));
	FT_CHECK(ft_is_p2p(&s->ctx) == (role == OURS), "-p %s: it is %s that was found", prov,
		 s->ctx.info->fabric_attr->prov_name);
	FT_CHECK(!(s->ctx.info->domain_attr->mr_mode & FI_MR_LOCAL),
		 "-p %s: a provider that wants its buffers registered is not measured", prov);
	FT_TRY(ft_open(&s->ctx));
	FT_TRY(ft_getname(&s->ctx, &name));
	FT_TRY(ft_oob_send(o->oob, &name, sizeof(name)));
	FT_TRY(ft_oob_recv(o->oob, &name, sizeof(name), o->opts.timeout));
	return ft_av_insert(&s->ctx, name.bytes, &s->peer);
}

static int set_defaults(struct ft_opts *opts)
{
	if (!opts->rounds)
		opts->rounds = ROUNDS;
	if (opts->sizes)
		return 0;
	opts->sizes = malloc(sizeof(default_sizes));
	if (!opts->sizes)
		return ft_fail(-FI_ENOMEM, "malloc", "sizes");
	memcpy(opts->sizes, default_sizes, sizeof(default_sizes));
	opts->size_count = FT_COUNT(default_sizes);
	return 0;
}

static int start(struct overhead *o)
{
	const struct ft_opts *opts = &o->opts;
	size_t largest = 1;

	FT_TRY(set_defaults(&o->opts));
	FT_CHECK(opts->prov && opts->oob_addr, "-p and -b are needed");
	FT_TRY(ft_watchdog_start(opts->timeout));
	FT_TRY(ft_mem_ops(opts->init_iface)->init(opts->device));
	FT_TRY(o->client
		       ? ft_oob_connect(opts->dst_addr, opts->oob_port, opts->timeout, &o->oob)
		       : ft_oob_listen(NULL, opts->oob_port, opts->timeout, &o->oob));
	/* the seed is the client's: both open and take turns in the same order */
	o->row.seed = opts->seed;
	FT_TRY(o->client ? ft_oob_send(o->oob, &o->row.seed, sizeof(o->row.seed))
			 : ft_oob_recv(o->oob, &o->row.seed, sizeof(o->row.seed),
				       opts->timeout));
	for (enum role role = CORE; role < ROLES; role++)
		o->order[role] = role;
	shuffle(o, &o->row.seed);
	for (int i = 0; i < ROLES; i++)
		FT_TRY(open_side(o, o->order[i]));

	for (size_t i = 0; i < opts->size_count; i++)
		largest = FT_MAX(largest, opts->sizes[i]);
	o->row.size = largest;
	o->row.tagged = opts->tagged;
	o->row.window = (uint64_t)opts->window;
	FT_TRY(ft_buf_alloc(&o->sides[CORE].ctx, &o->tx, FI_HMEM_SYSTEM,
			    largest * o->row.window));
	FT_TRY(ft_buf_alloc(&o->sides[CORE].ctx, &o->rx, FI_HMEM_SYSTEM,
			    largest * o->row.window));
	o->tx_context = calloc(o->row.window, sizeof(*o->tx_context));
	o->rx_context = calloc(o->row.window, sizeof(*o->rx_context));
	return o->tx_context && o->rx_context ? 0 : ft_fail(-FI_ENOMEM, "calloc", "contexts");
}

/* Nobody closes before the other has all it waits for. */
static int stop(struct overhead *o)
{
	char byte = 0;
	int ret = 0, closed;

	FT_TRY(ft_oob_send(o->oob, &byte, 1));
	FT_TRY(ft_oob_recv(o->oob, &byte, 1, o->opts.timeout));
	if (o->client)
		ft_path_print(o->sides[OURS].ctx.ep, o->opts.prov, true);
	ft_buf_free(&o->tx);
	ft_buf_free(&o->rx);
	for (enum role role = CORE; role < ROLES; role++) {
		closed = ft_close(&o->sides[role].ctx);
		ret = ret ? ret : closed;
	}
	free(o->tx_context);
	free(o->rx_context);
	free(o->opts.sizes);
	close(o->oob);
	return ret;
}

int main(int argc, char **argv)
{
	struct overhead o = {.oob = -1};
	int ret;

	ft_options_parse(&o.opts, FT_SCOPE_OVERHEAD,
			 "What ofi_p2p costs messages between host buffers: the medians of "
			 "the ratios, in speed, of\nPROVIDER (-p), which ends in \";ofi_p2p\", "
			 "to the core provider below it, and of a\nsecond endpoint of the core "
			 "provider's to the first.",
			 argc, argv);
	o.client = o.opts.dst_addr;
	ret = start(&o);
	if (!ret)
		ret = o.client ? run_client(&o) : run_server(&o);
	if (!ret)
		ret = stop(&o);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
