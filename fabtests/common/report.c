/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages for people: errors, the benchmarks' tables, and the line that tells which way the
 * data went
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "ft.h"

static char prefix[64] = "ft";

void ft_prefix_set(const char *prog, int rank)
{
	const char *slash = strrchr(prog, '/');

	if (slash)
		prog = slash + 1;
	if (!strncmp(prog, "lt-", 3)) /* the name of libtool's wrapper */
		prog += 3;
	if (rank < 0)
		snprintf(prefix, sizeof(prefix), "%s", prog);
	else
		snprintf(prefix, sizeof(prefix), "%.48s[%d]", prog, rank);
}

/* One fprintf() prints a whole line, so that lines of several processes do not mix. */
static void put_line(const char *head, const char *fmt, va_list args)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, args);
	fprintf(stderr, "%s: %s%s\n", prefix, head, text);
}

void ft_err(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	put_line("", fmt, args);
	va_end(args);
}

int ft_fail(int ret, const char *call, const char *fmt, ...)
{
	char head[256];
	va_list args;

	snprintf(head, sizeof(head), "%s: %s%s", call, fi_strerror(ret < 0 ? -ret : ret),
		 *fmt ? ": " : "");
	va_start(args, fmt);
	put_line(head, fmt, args);
	va_end(args);
	return ret;
}

int ft_errno(const char *call, const char *what)
{
	int err = errno;

	return ft_fail(-err, call, "%s", what);
}

void ft_say_absent(const char *server, const char *why, long patience)
{
	ft_err("no server at %s yet%s%s%s: start it with the same options%s. It is waited for up to %ld s "
	       "(--timeout)",
	       server, why ? " (" : "", why ? why : "", why ? ")" : "",
	       why ? "" : ", and -b at both ends if it has several addresses or IPv6",
	       patience);
}

int ft_absent(struct ft_ctx *ctx, double waited)
{
	if (!ctx->awaited || waited < FT_SOON_US)
		return 0;
	if (!ctx->absent)
		ft_say_absent(ctx->awaited, NULL, ctx->opts->patience);
	ctx->absent = true;
	if (waited < (double) ctx->opts->patience * 1e6)
		return 0;
	return ft_fail(-FI_ETIMEDOUT, "connecting", "no server at %s for %ld s (--timeout)",
		       ctx->awaited, ctx->opts->patience);
}

static const char *short_number(char *str, size_t len, uint64_t value, bool binary)
{
	const uint64_t step = binary ? 1024 : 1000;
	const char *unit = binary ? "kmgt" : "kmbt";
	char suffix[2] = "";

	while (value >= step && value % step == 0 && *unit) {
		value /= step;
		suffix[0] = *unit++;
	}
	/* totals are seldom round, and one decimal is enough */
	if (value >= 100 * step && *unit) {
		double approx = (double) value;

		while (approx >= step && *unit) {
			approx /= step;
			suffix[0] = *unit++;
		}
		snprintf(str, len, "%.1f%s", approx, suffix);
	} else {
		snprintf(str, len, "%" PRIu64 "%s", value, suffix);
	}
	return str;
}

static void print_row(const struct ft_result *res, double total, double per_xfer)
{
	static bool header_done;
	char bytes[32], sent[32], acked[32], sum[32];

	if (!header_done)
		printf("%-8s%-8s%-8s%-8s%9s%12s%13s%13s\n", "bytes", "#sent", "#ack", "total",
		       "time", "MB/sec", "usec/xfer", "Mxfers/sec");
	header_done = true;
	printf("%-8s%-8s%-8s%-8s%8.2fs%12.2f%13.2f%13.4f\n",
	       short_number(bytes, sizeof(bytes), res->bytes, true),
	       short_number(sent, sizeof(sent), res->sent, false),
	       short_number(acked, sizeof(acked), res->acked, false),
	       short_number(sum, sizeof(sum), (uint64_t) total, true), res->usec / 1e6,
	       total / res->usec, per_xfer, 1 / per_xfer);
}

static const char *memory_name(enum fi_hmem_iface iface)
{
	return iface == FI_HMEM_CUDA ? "cuda" : iface == FI_HMEM_ROCR ? "rocr" : "system";
}

void ft_result_print(const struct ft_result *res, const char *test, const char *prov_name,
		     const struct ft_opts *opts)
{
	static bool header_done;
	const double xfers = (double) res->sent * res->xfers_per_sent;
	const double total = xfers * (double) res->bytes;
	const double per_xfer = res->usec / xfers;

	if (opts->json) {
		printf("{\"test\":\"%s\",\"provider\":\"%s\",\"memory\":\"%s\",\"size\":%zu,"
		       "\"iterations\":%" PRIu64 ",\"acks\":%" PRIu64
		       ",\"bytes\":%.0f,\"seconds\":%.6f,\"mb_per_sec\":%.6g,"
		       "\"usec_per_xfer\":%.6g}\n",
		       test, prov_name, memory_name(opts->iface), res->bytes, res->sent,
		       res->acked, total, res->usec / 1e6, total / res->usec, per_xfer);
		fflush(stdout);
		return;
	}
	if (!opts->machine_readable) {
		print_row(res, total, per_xfer);
		fflush(stdout);
		return;
	}
	if (!header_done) {
		printf("---\n");
		for (int i = 0; i < opts->argc; i++)
			printf("%s ", opts->argv[i]);
		printf(":\n");
	}
	header_done = true;
	printf("- { xfer_size: %zu, iterations: %" PRIu64 ", acks: %" PRIu64
	       ", total: %.0f, time: %f, MB/sec: %f, usec/xfer: %f, Mxfers/sec: %f }\n",
	       res->bytes, res->sent, res->acked, total, res->usec / 1e6, total / res->usec,
	       per_xfer, 1 / per_xfer);
	fflush(stdout);
}

/* NULL: the provider has no statistics */
static struct fi_p2p_stats_ops *path_ops(struct fid_ep *ep)
{
	struct fi_p2p_stats_ops *ops = NULL;

	return fi_open_ops(&ep->fid, FI_P2P_STATS_OPS, 0, (void **) &ops, NULL) ? NULL : ops;
}

static int path_stats(struct fid_ep *ep, struct fi_p2p_stats *stats)
{
	struct fi_p2p_stats_ops *ops = path_ops(ep);
	int ret;

	if (!ops || !ops->read)
		return -FI_ENOSYS;
	ret = ops->read(&ep->fid, stats, sizeof(*stats));
	return ret ? ft_fail(ret, "fi_p2p_stats_ops.read", "no path totals") : 0;
}

void ft_path_count(struct fid_ep *ep)
{
	path_ops(ep);
}

int ft_path(struct fid_ep *ep, const struct ft_buf *buf, size_t len)
{
	struct fi_p2p_stats_ops *ops = path_ops(ep);
	char reason[FI_P2P_REASON_MAX];
	enum fi_p2p_path path;
	int ret;

	if (!ops || !ops->path)
		return -FI_ENOSYS;
	ret = ops->path(&ep->fid, buf->addr, len, &path, reason, sizeof(reason));
	return ret ? ret : (int) path;
}

static uint64_t path_bytes(const struct fi_p2p_stats *stats, enum fi_p2p_path path)
{
	return stats->tx_bytes[path] + stats->rx_bytes[path];
}

/* NULL: the provider does not tell */
static void path_print_json(const struct fi_p2p_stats *stats, const char *prov_name)
{
	static const char *const names[FI_P2P_PATH_MAX] = {"host", "stage", "ipc", "peer"};

	printf("{\"test\":\"path\",\"provider\":\"%s\"", prov_name);
	for (int path = 0; path < FI_P2P_PATH_MAX; path++) {
		if (stats)
			printf(",\"%s\":%" PRIu64, names[path],
			       path_bytes(stats, (enum fi_p2p_path) path));
		else
			printf(",\"%s\":null", names[path]);
	}
	printf("}\n");
}

void ft_path_print(struct fid_ep *ep, const char *prov_name, const struct ft_opts *opts)
{
	const char *mark = opts->machine_readable ? "# " : ""; /* a comment in YAML */
	struct fi_p2p_stats stats = {0};
	int ret = path_stats(ep, &stats);

	if (opts->json) {
		path_print_json(ret ? NULL : &stats, prov_name);
		return;
	}
	if (ret == -FI_ENOSYS)
		printf("%spath: not offered by provider %s\n", mark, prov_name);
	if (ret)
		return;
	printf("%spath: peer %" PRIu64 " B, ipc %" PRIu64 " B, staged %" PRIu64
	       " B, host %" PRIu64 " B (tx + rx)\n",
	       mark, path_bytes(&stats, FI_P2P_PATH_PEER), path_bytes(&stats, FI_P2P_PATH_IPC),
	       path_bytes(&stats, FI_P2P_PATH_STAGE), path_bytes(&stats, FI_P2P_PATH_HOST));
}

int ft_path_bytes(struct fid_ep *ep, bool sent, int path, uint64_t *bytes)
{
	struct fi_p2p_stats stats = {0};
	int ret = path_stats(ep, &stats);

	if (ret)
		return ft_fail(ret, "fi_open_ops", "no path totals");
	*bytes = sent ? stats.tx_bytes[path] : stats.rx_bytes[path];
	return 0;
}

int ft_path_expect(struct fid_ep *ep, const struct ft_opts *opts)
{
	const enum fi_p2p_path path = (enum fi_p2p_path) opts->expect_path;
	struct fi_p2p_stats stats = {0};
	const char *reason;

	if (opts->expect_path < 0)
		return 0;
	FT_CHECK(!path_stats(ep, &stats), "no path totals to compare with --expect-path");
	/* host memory has what the program itself sends */
	for (int i = FI_P2P_PATH_HOST + 1; i < FI_P2P_PATH_MAX; i++)
		FT_CHECK(!path_bytes(&stats, i) == (i != (int) path),
			 "%" PRIu64 " bytes by path %d, expected was path %d alone: %s",
			 path_bytes(&stats, i), i, path, stats.reason[i]);
	reason = stats.reason[path];
	FT_CHECK(!opts->expect_reason || strstr(reason, opts->expect_reason),
		 "the path's reason is \"%s\", and not \"%s\"", reason, opts->expect_reason);
	return 0;
}
