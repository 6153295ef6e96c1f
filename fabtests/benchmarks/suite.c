/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_bench: what messages between device buffers take by ofi_p2p, or (--remote) operations on
 * the server's device memory.
 *
 * They are compared with the same between host buffers, by ofi_p2p and by the core provider
 * alone, and with the GPU's own copies. All take turns (turns.h) in one pair of processes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "floor.h"
#include "turns.h"

#define ROUNDS 20
#define ROUNDS_MIN 3
#define TURN_USEC 3000          /* how long a turn is to last */
#define WINDOW_BYTES (64 << 20) /* of memory: a longer window gets fewer messages, */
#define WINDOW_SIZE (1 << 20)   /* if these are longer than this */
#define WINDOW_MIN 4
#define RATE_SIZE 4096 /* messages of up to so many bytes are counted, too */
#define VERIFY_WINDOW 4

static const size_t default_sizes[] = {8,      256,     4096,    32768,   65536,
				       262144, 1048576, 4194304, 16777216};

/* What is measured of remote memory, by the name of its rows */
static const struct {
	enum turns_test test;
	const char *name;
} remote_tests[] = {
	{TURNS_WRITE, "write"},   {TURNS_WRITE_DATA, "writedata"}, {TURNS_READ, "read"},
	{TURNS_ATOMIC, "atomic"}, {TURNS_FETCH, "fetch"},
};

/* HOST is the core provider's alone. Without -D there are only the first two. */
enum side { HOST, OURS, DEVICE, FLOOR };

/**
 * struct suite - the program
 * @way:	how the floor's copies are waited for
 * @memory:	host's and device's, to and from
 * @deadline:	the end [us]; 0: rounds are counted
 * @rows_left:	the rows that share the time until then
 */
struct suite {
	struct turns turns;
	struct turns_ep core, ours;
	struct ft_buf host_tx, host_rx, device_tx, device_rx;
	int devices[2];
	const char *way;
	double deadline;
	size_t rows_left;
};

/* ---- rows ---- */

static uint64_t window_for(const struct ft_opts *opts, size_t size)
{
	const uint64_t window = (uint64_t) opts->window;

	return size <= WINDOW_SIZE ? window
				   : FT_MIN(FT_MAX(WINDOW_BYTES / size, WINDOW_MIN), window);
}

/* Four acknowledgments a window, or as near to it as can be */
static uint64_t batch_for(uint64_t window)
{
	uint64_t batch = FT_MAX(window / 4, 1);

	while (window % batch)
		batch--;
	return batch;
}

static bool is_counted(size_t size)
{
	return size <= RATE_SIZE;
}

static bool is_atomic(uint64_t test)
{
	return test == TURNS_ATOMIC || test == TURNS_FETCH;
}

static bool has_atomics(struct fid_ep *ep)
{
	size_t count;

	return !fi_atomicvalid(ep, FI_UINT64, FI_SUM, &count) &&
	       !fi_fetch_atomicvalid(ep, FI_UINT64, FI_SUM, &count);
}

/* Atomic operations are about one uint64_t, if both providers have them. */
static bool is_possible(const struct suite *s, enum turns_test test, size_t size)
{
	return !is_atomic(test) || (size == sizeof(uint64_t) && has_atomics(s->core.ctx.ep) &&
				    has_atomics(s->ours.ctx.ep));
}

static bool is_measured(const struct suite *s, size_t k, size_t size)
{
	return ft_is_listed(s->turns.opts.ops, remote_tests[k].name) &&
	       is_possible(s, remote_tests[k].test, size);
}

static size_t count_rows(const struct suite *s)
{
	const struct ft_opts *opts = &s->turns.opts;
	size_t rows = 0;

	for (size_t i = 0; i < opts->size_count; i++) {
		if (!opts->remote)
			rows += is_counted(opts->sizes[i]) ? 4 : 3;
		for (size_t k = 0; opts->remote && k < FT_COUNT(remote_tests); k++)
			rows += is_measured(s, k, opts->sizes[i]) ? 2 : 0;
	}
	return rows;
}

/* ---- what comes out ---- */

/** struct figures - medians of the rounds, in usec a message, and ratios in speed */
struct figures {
	double usec[TURNS_SIDES];
	double device[3];      /* usec; quartiles with the median in the middle, as in the
			        * rest */
	double ratio[3];       /* device to host */
	double floor_ratio[3]; /* see floor_ratio() */
};

static void quartiles(double *values, size_t count, double out[3])
{
	for (int i = 0; i < 3; i++)
		out[i] = turns_quantile(values, count, 0.25 * (i + 1));
}

/*
 * How device memory compares with the floor. In general, this is the device's speed to the
 * floor's.
 *
 * For one operation at a time, with copies to and from the host as the floor, it is another figure. That is what
 * device memory adds to the host's latency, counted in copies.
 */
static double floor_ratio(const struct suite *s, const double *usec)
{
	if (turns_alone(&s->turns.row) && s->turns.opts.floor == FT_FLOOR_COPY)
		return (usec[DEVICE] - usec[HOST]) / usec[FLOOR];
	return usec[FLOOR] / usec[DEVICE];
}

static void take_figures(const struct suite *s, struct figures *f)
{
	const struct turns *t = &s->turns;
	const int last = t->side_count - 1;
	double values[TURNS_ROUNDS];

	*f = (struct figures){0};
	for (int i = 0; i <= last; i++) {
		for (size_t r = 0; r < t->row.rounds; r++)
			values[r] = t->usec[r][i];
		f->usec[i] = turns_quantile(values, t->row.rounds, 0.5);
		if (i == DEVICE)
			quartiles(values, t->row.rounds, f->device);
	}
	for (size_t r = 0; r < t->row.rounds; r++)
		values[r] = t->usec[r][HOST] / t->usec[r][FT_MIN(last, DEVICE)];
	quartiles(values, t->row.rounds, f->ratio);
	if (last < FLOOR)
		return;
	for (size_t r = 0; r < t->row.rounds; r++)
		values[r] = floor_ratio(s, t->usec[r]);
	quartiles(values, t->row.rounds, f->floor_ratio);
}

/*
 * The way that most of what was sent, or read, since @before went. Writes the new totals to @before.
 * Nobody counts the bytes of atomic operations.
 */
static const char *path_taken(struct suite *s, uint64_t before[FI_P2P_PATH_MAX])
{
	static const char *const names[FI_P2P_PATH_MAX] = {
		[FI_P2P_PATH_PEER] = "peer",
		[FI_P2P_PATH_IPC] = "ipc",
		[FI_P2P_PATH_STAGE] = "staged",
	};
	const enum turns_test test = (enum turns_test) s->turns.row.test;
	const char *name = is_atomic(test) ? "-" : "host";
	uint64_t most = 0;

	for (int i = FI_P2P_PATH_HOST + 1; i < FI_P2P_PATH_MAX; i++) {
		uint64_t now = 0;

		if (!names[i] || is_atomic(test) ||
		    ft_path_bytes(s->ours.ctx.ep, test != TURNS_READ, i, &now))
			continue;
		if (now - before[i] > most) {
			most = now - before[i];
			name = names[i];
		}
		before[i] = now;
	}
	return name;
}

static void print_figure(const char *name, double value, bool known, bool json)
{
	if (json && !known)
		printf("\"%s\":null,", name);
	else if (json)
		printf("\"%s\":%.6g,", name, value);
	else if (known)
		printf(" %9.4g", value);
	else
		printf(" %9s", "-");
}

static void print_ratio(const char *name, const char *spread, const double *of, bool known,
			bool json)
{
	print_figure(name, of[1], known, json);
	if (json && known)
		printf("\"%s\":[%.4f,%.4f],", spread, of[0], of[2]);
	else if (json)
		printf("\"%s\":null,", spread);
	else if (known)
		printf(" %7.3f %7.3f", of[0], of[2]);
	else
		printf(" %7s %7s", "-", "-");
}

/* Converts @usec a message to the row's unit. @scale is the factor for a rate. */
static double in_unit(double usec, double scale)
{
	return scale > 0 ? scale / usec : usec;
}

static void print_row(const struct suite *s, const char *test, const char *unit,
		      const struct figures *f, double scale, const char *by)
{
	static const char *const names[] = {"host", "ours", "device", "floor"};
	static const char *const floors[] = {"none", "copy", "peer"};
	const struct turns *t = &s->turns;
	const struct turns_row *row = &t->row;
	const struct ft_opts *opts = &t->opts;
	const char *const path = getenv("FI_P2P_PATH");
	const char *const direction = row->test == TURNS_BOTH_WAYS ? "both" : "one";

	if (opts->json)
		printf("{\"test\":\"%s\",\"provider\":\"%.*s\",\"size\":%zu,"
		       "\"direction\":\"%s\",\"inflight\":%zu,\"unit\":\"%s\","
		       "\"path\":\"%s\",\"by\":\"%s\",\"floor_kind\":\"%s\",",
		       test, (int) (strstr(opts->prov, ";ofi_p2p") - opts->prov), opts->prov,
		       (size_t) row->size, direction, (size_t) row->window, unit,
		       path ? path : "auto", by, floors[opts->floor]);
	else
		printf("%-9s %-9s %5zu %9zu %-4s", test, direction, (size_t) row->window,
		       (size_t) row->size, unit);
	for (int i = 0; i < TURNS_SIDES; i++)
		print_figure(names[i], in_unit(f->usec[i], scale), i < t->side_count,
			     opts->json);
	if (opts->json && t->side_count > DEVICE)
		printf("\"device_spread\":[%.6g,%.6g],",
		       in_unit(f->device[scale > 0 ? 2 : 0], scale),
		       in_unit(f->device[scale > 0 ? 0 : 2], scale));
	print_ratio("ratio", "spread", f->ratio, true, opts->json);
	print_ratio("floor_ratio", "floor_spread", f->floor_ratio, t->side_count > FLOOR,
		    opts->json);
	printf(opts->json ? "\"n\":%zu}\n" : " %4zu\n", (size_t) row->rounds);
	fflush(stdout);
}

static void print_machine(const struct suite *s)
{
	const struct ft_opts *opts = &s->turns.opts;
	const uint32_t version = fi_version();
	char name[128] = "none";

	if (opts->iface != FI_HMEM_SYSTEM)
		ft_mem_ops(opts->iface)->device_name(name, sizeof(name));
	if (opts->json) {
		printf("{\"test\":\"machine\",\"provider\":\"%s\",\"libfabric\":\"%u.%u\","
		       "\"gpu\":\"%s\",\"devices\":[%d,%d],\"floor_wait\":\"%s\"}\n",
		       opts->prov, FI_MAJOR(version), FI_MINOR(version), name, s->devices[0],
		       s->devices[1], s->way);
		return;
	}
	printf("# %s, libfabric %u.%u, device %s (%d, %d), copies waited for: %s\n", opts->prov,
	       FI_MAJOR(version), FI_MINOR(version), name, s->devices[0], s->devices[1],
	       s->way);
	printf("%-9s %-9s %5s %9s %-4s %9s %9s %9s %9s %9s %7s %7s %9s %7s %7s %4s\n", "test",
	       "direction", "under", "size", "unit", "host", "ours", "device", "floor", "ratio",
	       "25%", "75%", "to floor", "25%", "75%", "n");
}

static void report_remote(const struct suite *s, const char *name, const struct figures *f,
			  const char *by)
{
	const struct turns_row *row = &s->turns.row;

	if (row->window == 1)
		print_row(s, name, "us", f, 0, by);
	else if (is_counted(row->size))
		print_row(s, name, "M/s", f, 1, by);
	else
		print_row(s, name, "GB/s", f, (double) row->size / 1e3, by);
}

static void report(struct suite *s, const char *by)
{
	const struct turns_row *row = &s->turns.row;
	const double size = (double) row->size;
	struct figures f;

	take_figures(s, &f);
	for (size_t i = 0; i < FT_COUNT(remote_tests); i++)
		if (row->test == remote_tests[i].test)
			report_remote(s, remote_tests[i].name, &f, by);
	if (row->test == TURNS_LATENCY)
		print_row(s, "latency", "us", &f, 0, by);
	if (row->test == TURNS_STREAM && is_counted(row->size))
		print_row(s, "rate", "M/s", &f, 1, by);
	if (row->test == TURNS_STREAM && row->window > 1)
		print_row(s, "bandwidth", "GB/s", &f, size / 1e3, by);
	if (row->test == TURNS_BOTH_WAYS)
		print_row(s, "bandwidth", "GB/s", &f, 2 * size / 1e3, by);
}

/* ---- client and server ---- */

static int verify(struct suite *s, enum turns_test test, size_t size)
{
	struct turns_row *row = &s->turns.row;

	row->test = test;
	row->size = size;
	row->window = FT_MIN(window_for(&s->turns.opts, size), VERIFY_WINDOW);
	row->batch = 1;
	row->rounds = 1;
	row->seed++;
	return turns_tell(&s->turns);
}

/* Measures one row, with as many rounds as the time allows */
static int measure(struct suite *s, enum turns_test test, size_t size, uint64_t window)
{
	struct turns *t = &s->turns;
	struct turns_row *row = &t->row;
	uint64_t path_bytes[FI_P2P_PATH_MAX] = {0};
	double round, share;

	row->test = test;
	row->size = size;
	row->window = window;
	row->batch = batch_for(window);
	FT_TRY(turns_plan(t, TURN_USEC, &round));
	row->rounds = t->opts.rounds;
	if (s->deadline > 0) {
		share = (s->deadline - ft_usec()) / (double) s->rows_left--;
		share = FT_MAX(share / round, ROUNDS_MIN);
		row->rounds = (uint64_t) FT_MIN(share, (double) TURNS_ROUNDS);
	}
	row->seed++;
	path_taken(s, path_bytes);
	FT_TRY(turns_tell(t));
	report(s, path_taken(s, path_bytes));
	return 0;
}

static int measure_messages(struct suite *s, size_t size)
{
	const uint64_t window = window_for(&s->turns.opts, size);

	FT_TRY(verify(s, TURNS_VERIFY, size));
	FT_TRY(measure(s, TURNS_LATENCY, size, 1));
	if (is_counted(size))
		FT_TRY(measure(s, TURNS_STREAM, size, 1));
	FT_TRY(measure(s, TURNS_STREAM, size, window));
	return measure(s, TURNS_BOTH_WAYS, size, window);
}

static int measure_remote(struct suite *s, size_t size)
{
	const uint64_t window = window_for(&s->turns.opts, size);

	FT_TRY(verify(s,
		      is_possible(s, TURNS_ATOMIC, size) ? TURNS_VERIFY_ATOMIC
							 : TURNS_VERIFY_RMA,
		      size));
	for (size_t i = 0; i < FT_COUNT(remote_tests); i++) {
		if (!is_measured(s, i, size))
			continue;
		FT_TRY(measure(s, remote_tests[i].test, size, 1));
		FT_TRY(measure(s, remote_tests[i].test, size, window));
	}
	return 0;
}

static int run_client(struct suite *s)
{
	struct turns *t = &s->turns;
	const struct ft_opts *opts = &t->opts;

	print_machine(s);
	s->rows_left = count_rows(s);
	for (size_t i = 0; i < opts->size_count; i++)
		FT_TRY(opts->remote ? measure_remote(s, opts->sizes[i])
				    : measure_messages(s, opts->sizes[i]));
	t->row.rounds = 0;
	return turns_tell(t);
}

static int run_server(struct suite *s)
{
	do
		FT_TRY(turns_obey(&s->turns));
	while (s->turns.row.rounds);
	return 0;
}

/* Both ends copy, each with its own device. The result is the mean of what both took. */
static int take_floor(void *arg, const struct turns_row *row, uint64_t count, double *usec)
{
	struct suite *s = arg;
	struct turns *t = &s->turns;
	double other;

	if (t->client || t->opts.floor == FT_FLOOR_COPY)
		FT_TRY(floor_turn(row, count, usec));
	FT_TRY(ft_oob_send(t->oob, usec, sizeof(*usec)));
	FT_TRY(ft_oob_recv(t->oob, &other, sizeof(other), t->opts.timeout));
	if (t->opts.floor == FT_FLOOR_COPY)
		*usec = (*usec + other) / 2;
	return 0;
}

static int swap_devices(struct suite *s)
{
	struct turns *t = &s->turns;

	s->devices[0] = t->opts.device;
	FT_TRY(ft_oob_send(t->oob, &s->devices[0], sizeof(s->devices[0])));
	return ft_oob_recv(t->oob, &s->devices[1], sizeof(s->devices[1]), t->opts.timeout);
}

static int alloc(struct suite *s, enum fi_hmem_iface iface, struct turns_ep *ep,
		 struct ft_buf *tx, struct ft_buf *rx)
{
	const struct ft_opts *opts = &s->turns.opts;
	size_t size = 1;

	for (size_t i = 0; i < opts->size_count; i++)
		size = FT_MAX(size, opts->sizes[i] * window_for(opts, opts->sizes[i]));
	/*
	 * registered, as by applications that know what it is: its descriptor spares look-ups
	 */
	if (iface != FI_HMEM_SYSTEM)
		ep->ctx.mr_access = FI_SEND | FI_RECV | (opts->remote ? FI_READ | FI_WRITE : 0);
	FT_TRY(ft_buf_alloc(&ep->ctx, tx, iface, size));
	return ft_buf_alloc(&ep->ctx, rx, iface, size);
}

/* The buffers that peers reach, in the order of the sides */
static int share(struct suite *s)
{
	struct turns *t = &s->turns;

	for (int i = 0; t->opts.remote && i < t->side_count; i++)
		if (!t->sides[i].own)
			FT_TRY(turns_share(t, &t->sides[i]));
	return 0;
}

static int start(struct suite *s)
{
	struct turns *t = &s->turns;
	struct ft_opts *opts = &t->opts;
	const uint64_t caps = opts->remote ? FI_RMA | FI_ATOMIC : 0;
	const struct turns_side sides[] = {
		[HOST] = {.ep = &s->core, .tx = &s->host_tx, .rx = &s->host_rx},
		[OURS] = {.ep = &s->ours, .tx = &s->host_tx, .rx = &s->host_rx},
		[DEVICE] = {.ep = &s->ours, .tx = &s->device_tx, .rx = &s->device_rx},
		[FLOOR] = {.own = take_floor, .arg = s},
	};
	size_t largest = 1;

	FT_TRY(turns_sizes(opts, default_sizes, FT_COUNT(default_sizes)));
	for (size_t i = 0; i < opts->size_count; i++)
		largest = FT_MAX(largest, opts->sizes[i]);
	FT_CHECK(opts->tagged, "-o: messages have to be tagged");
	FT_CHECK(opts->floor == FT_FLOOR_NONE || opts->iface == FI_HMEM_CUDA,
		 "--floor is for -D cuda");
	if (!opts->rounds)
		opts->rounds = ROUNDS;
	t->side_count = opts->iface == FI_HMEM_SYSTEM  ? DEVICE
			: opts->floor == FT_FLOOR_NONE ? FLOOR
						       : TURNS_SIDES;
	memcpy(t->sides, sides, sizeof(sides));
	FT_TRY(turns_start(t));
	FT_TRY(swap_devices(s));
	FT_TRY(turns_open(t, &s->core, false, caps));
	FT_TRY(turns_open(t, &s->ours, true, caps));
	FT_TRY(alloc(s, FI_HMEM_SYSTEM, &s->core, &s->host_tx, &s->host_rx));
	if (t->side_count > DEVICE)
		FT_TRY(alloc(s, opts->iface, &s->ours, &s->device_tx, &s->device_rx));
	FT_TRY(share(s));
	if (t->client || opts->floor == FT_FLOOR_COPY)
		FT_TRY(floor_open(opts->floor, s->devices[1], largest, &s->way));
	if (opts->seconds)
		s->deadline = ft_usec() + (double) opts->seconds * 1e6;
	return turns_slots(t, &s->core, (size_t) opts->window);
}

static int stop(struct suite *s)
{
	int ret = turns_stop(&s->turns), closed;

	floor_close();
	for (int i = 0; i < s->turns.side_count; i++)
		turns_unshare(&s->turns.sides[i]);
	ft_buf_free(&s->host_tx);
	ft_buf_free(&s->host_rx);
	ft_buf_free(&s->device_tx);
	ft_buf_free(&s->device_rx);
	closed = ft_close(&s->ours.ctx);
	ret = ret ? ret : closed;
	closed = ft_close(&s->core.ctx);
	return ret ? ret : closed;
}

int main(int argc, char **argv)
{
	struct suite s = {.turns.oob = -1, .way = "none"};
	int ret;

	ft_options_parse(
		&s.turns.opts, FT_SCOPE_SUITE,
		"Latency, bandwidth and rate of messages between device buffers (-D) "
		"by PROVIDER (-p),\nwhich ends in \";ofi_p2p\", or of operations on the "
		"server's (--remote), compared with\nthose between host buffers, by "
		"PROVIDER and by the core provider below it, and with\nthe GPU's own "
		"copies (--floor): all take turns.",
		argc, argv);
	ret = start(&s);
	if (!ret)
		ret = s.turns.client ? run_client(&s) : run_server(&s);
	if (!ret)
		ret = stop(&s);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
