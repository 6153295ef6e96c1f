/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the two benchmarks share. See bench.h. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define FABRIC_PORT "9228"
#define CTRL_SIZE 1024
#define HELLO_MAGIC 0x70327066

/*
 * The first message each way: the endpoint's name, and the options that must be the same on
 * both sides. It is in host byte order, as fabrics between unlike machines are not benchmarked.
 * Release 1.0.0 expects what comes before @key, and no more.
 */
struct hello {
	uint32_t magic, kind;
	uint64_t size_count, size_sum, iterations, warmup, window, verify, one_buffer, tagged,
		oob_sync;
	struct ft_name name;
	uint64_t key, base; /* of the memory that the client writes to: with --remote alone */
};

#define HELLO_SHORT offsetof(struct hello, key)
/* @verify of those who run with --remote, and so without -v */
#define HELLO_REMOTE 2

_Static_assert(sizeof(struct hello) <= CTRL_SIZE, "a hello fits into a control message");

static const size_t default_sizes[] = {64, 256, 1024, 4096, 65536, 1048576};

static int post(struct bench *b, enum ft_call call, const struct ft_buf *buf, size_t off,
		size_t len, uint64_t tag, struct ft_req *req)
{
	struct ft_op op = {
		.call = call,
		.tagged = b->opts.tagged,
		.addr = call == FT_RECV ? FI_ADDR_UNSPEC : b->peer,
		.tag = tag,
		.req = req,
	};

	ft_op_buf(&op, buf, off, len);
	return ft_post(&b->ctx, &op);
}

int bench_send(struct bench *b, size_t off, size_t len, bool inject, struct ft_req *req)
{
	if (inject)
		req->done = true;
	return post(b, inject ? FT_INJECT : FT_SEND, &b->tx, off, len, BENCH_DATA_TAG,
		    inject ? NULL : req);
}

int bench_recv(struct bench *b, size_t off, size_t len, struct ft_req *req)
{
	return post(b, FT_RECV, &b->rx, off, len, BENCH_DATA_TAG, req);
}

int bench_ctrl_recv(struct bench *b, size_t len)
{
	return post(b, FT_RECV, &b->ctrl_rx, 0, len, BENCH_CTRL_TAG, &b->ctrl_rx_req);
}

int bench_ctrl_send(struct bench *b, size_t len)
{
	FT_TRY(post(b, FT_SEND, &b->ctrl_tx, 0, len, BENCH_CTRL_TAG, &b->ctrl_tx_req));
	return ft_wait(&b->ctx, &b->ctrl_tx_req, 1);
}

bool bench_may_inject(const struct bench *b, size_t len)
{
	return b->opts.iface == FI_HMEM_SYSTEM && !b->opts.delivery_complete &&
	       len <= b->inject_size;
}

int bench_sync_prepare(struct bench *b)
{
	return b->opts.oob_sync ? 0 : bench_ctrl_recv(b, 1);
}

/* The client speaks first. So the server's receives are posted when the client goes on. */
int bench_sync(struct bench *b)
{
	char byte = 0;

	if (b->opts.oob_sync) {
		FT_TRY(ft_oob_send(b->oob, &byte, 1));
		return ft_oob_recv(b->oob, &byte, 1, b->opts.timeout);
	}
	if (b->client)
		FT_TRY(bench_ctrl_send(b, 1));
	FT_TRY(ft_wait(&b->ctx, &b->ctrl_rx_req, 1));
	return b->client ? 0 : bench_ctrl_send(b, 1);
}

static int source_hint(struct bench *b)
{
	struct fi_info *hints = b->ctx.hints;
	struct addrinfo *list;
	int ret;

	if (!b->opts.src_addr && !b->opts.src_port)
		return 0;
	ret = getaddrinfo(b->opts.src_addr, b->opts.src_port,
			  &(struct addrinfo){.ai_flags = b->opts.src_addr ? 0 : AI_PASSIVE},
			  &list);
	if (ret) {
		ft_err("getaddrinfo: %s: source address (-s, -B)", gai_strerror(ret));
		return -FI_EADDRNOTAVAIL;
	}
	hints->src_addr = malloc(list->ai_addrlen);
	if (hints->src_addr) {
		memcpy(hints->src_addr, list->ai_addr, list->ai_addrlen);
		hints->src_addrlen = list->ai_addrlen;
	}
	freeaddrinfo(list);
	return hints->src_addr ? 0 : ft_fail(-FI_ENOMEM, "malloc", "source address");
}

static int resolve(struct bench *b)
{
	const struct ft_opts *opts = &b->opts;
	const char *port = opts->src_port;

	if (b->client && !opts->oob_addr) {
		FT_TRY(source_hint(b));
		return ft_getinfo(&b->ctx, opts->dst_addr,
				  opts->dst_port ? opts->dst_port : FABRIC_PORT, 0);
	}
	if (b->client && ft_connected(&b->ctx)) {
		FT_TRY(source_hint(b));
		return ft_resolve_listener(&b->ctx, b->oob);
	}
	if (!opts->oob_addr && !port)
		port = FABRIC_PORT;
	FT_TRY(ft_getinfo(&b->ctx, opts->src_addr, port,
			  opts->src_addr || port ? FI_SOURCE : 0));
	return ft_connected(&b->ctx) ? ft_listen(&b->ctx, b->oob) : 0;
}

static int hello_make(struct bench *b, const struct bench_kind *kind, struct hello *hello)
{
	const struct ft_opts *opts = &b->opts;
	memset(hello, 0, sizeof(*hello));
	hello->magic = HELLO_MAGIC;
	hello->kind = kind->id;
	hello->size_count = opts->size_count;
	for (size_t i = 0; i < opts->size_count; i++)
		hello->size_sum += opts->sizes[i];
	hello->iterations = (uint64_t) opts->iterations;
	hello->warmup = (uint64_t) opts->warmup;
	hello->window = (uint64_t) opts->window;
	hello->verify = opts->remote ? HELLO_REMOTE : opts->verify;
	hello->one_buffer = opts->one_buffer;
	hello->tagged = opts->tagged;
	hello->oob_sync = opts->oob_sync;
	hello->key = b->rx.key;
	hello->base = b->rx.base;
	return ft_connected(&b->ctx) ? 0 : ft_getname(&b->ctx, &hello->name);
}

static int hello_compare(const struct hello *mine, const struct hello *other)
{
	static const struct {
		const char *option;
		size_t offset;
	} fields[] = {
		{"-S", offsetof(struct hello, size_count)},
		{"-S", offsetof(struct hello, size_sum)},
		{"-I", offsetof(struct hello, iterations)},
		{"-w", offsetof(struct hello, warmup)},
		{"-W", offsetof(struct hello, window)},
		{"-v or --remote", offsetof(struct hello, verify)},
		{"--one-buffer", offsetof(struct hello, one_buffer)},
		{"-o", offsetof(struct hello, tagged)},
		{"-b", offsetof(struct hello, oob_sync)},
	};

	FT_CHECK(other->magic == mine->magic && other->kind == mine->kind,
		 "the peer runs another program, or another version of this one");
	for (size_t i = 0; i < FT_COUNT(fields); i++)
		FT_CHECK(!memcmp((const char *) mine + fields[i].offset,
				 (const char *) other + fields[i].offset, sizeof(uint64_t)),
			 "the peer runs with another %s: give both sides the same",
			 fields[i].option);
	return 0;
}

static size_t hello_len(const struct bench *b)
{
	return b->opts.remote ? sizeof(struct hello) : HELLO_SHORT;
}

static int meet_oob(struct bench *b, const struct hello *mine, struct hello *other)
{
	FT_TRY(ft_oob_send(b->oob, mine, hello_len(b)));
	FT_TRY(ft_oob_recv(b->oob, other, HELLO_SHORT, b->opts.timeout));
	FT_TRY(hello_compare(mine, other));
	FT_TRY(ft_oob_recv(b->oob, &other->key, hello_len(b) - HELLO_SHORT, b->opts.timeout));
	return ft_av_insert(&b->ctx, other->name.bytes, &b->peer);
}

static int meet_in_band(struct bench *b, const struct hello *mine, struct hello *other)
{
	memcpy(b->ctrl_tx.addr, mine, sizeof(*mine));
	FT_TRY(bench_ctrl_recv(b, sizeof(*mine)));
	if (b->client) {
		FT_CHECK(b->ctx.info->dest_addr,
			 "provider %s does not resolve addresses: use -E on both sides",
			 b->ctx.info->fabric_attr->prov_name);
		FT_TRY(ft_av_insert(&b->ctx, b->ctx.info->dest_addr, &b->peer));
		FT_TRY(bench_ctrl_send(b, hello_len(b)));
	}
	FT_TRY(ft_wait(&b->ctx, &b->ctrl_rx_req, 1));
	memcpy(other, b->ctrl_rx.addr, sizeof(*other));
	if (!b->client) {
		FT_CHECK(other->magic == mine->magic,
			 "the first message is not from a client of ours");
		FT_TRY(ft_av_insert(&b->ctx, other->name.bytes, &b->peer));
		FT_TRY(bench_ctrl_send(b, hello_len(b)));
	}
	return hello_compare(mine, other);
}

static int alloc_buffers(struct bench *b)
{
	const size_t slots = b->opts.one_buffer ? 1 : b->window;
	size_t largest = 1;

	for (size_t i = 0; i < b->opts.size_count; i++)
		largest = FT_MAX(largest, b->opts.sizes[i]);
	FT_CHECK(!b->opts.verify || slots == b->window,
		 "-v needs a buffer for each message: leave out --one-buffer");
	FT_CHECK(largest <= b->ctx.info->ep_attr->max_msg_size,
		 "-S %zu: the provider's largest message has %zu bytes", largest,
		 b->ctx.info->ep_attr->max_msg_size);
	FT_CHECK(largest <= SIZE_MAX / slots, "-S %zu: too large with -W", largest);
	FT_TRY(ft_buf_alloc(&b->ctx, &b->tx, b->opts.iface, largest * slots));
	FT_TRY(ft_buf_alloc(&b->ctx, &b->rx, b->opts.iface, largest * slots));
	b->tx_req = calloc(b->window, sizeof(*b->tx_req));
	b->rx_req = calloc(b->window, sizeof(*b->rx_req));
	if (!b->tx_req || !b->rx_req)
		return ft_fail(-FI_ENOMEM, "calloc", "window of %zu messages", b->window);
	return b->opts.remote ? ft_buf_share(&b->ctx, &b->rx, FI_REMOTE_WRITE) : 0;
}

static int start(struct bench *b, const struct bench_kind *kind)
{
	struct ft_opts *opts = &b->opts;
	struct hello mine, other = {0};

	FT_TRY(ft_watchdog_start(opts->timeout));
	FT_TRY(ft_mem_ops(opts->init_iface)->init(opts->device));
	if (opts->oob_addr) {
		FT_TRY(b->client ? ft_oob_connect(opts->dst_addr, opts->oob_port,
						  opts->patience, &b->oob)
				 : ft_oob_listen(opts->src_addr, opts->oob_port, opts->timeout,
						 &b->oob));
		b->ctx.watch_fd[b->ctx.watch_count++] = b->oob;
	}
	FT_TRY(resolve(b));
	FT_TRY(ft_open(&b->ctx));
	ft_path_count(b->ctx.ep);
	b->inject_size = opts->inject_size < 0 ? b->ctx.info->tx_attr->inject_size
					       : FT_MIN((size_t) opts->inject_size,
							b->ctx.info->tx_attr->inject_size);
	FT_TRY(ft_buf_alloc(&b->ctx, &b->ctrl_tx, FI_HMEM_SYSTEM, CTRL_SIZE));
	FT_TRY(ft_buf_alloc(&b->ctx, &b->ctrl_rx, FI_HMEM_SYSTEM, CTRL_SIZE));
	FT_TRY(alloc_buffers(b));
	FT_TRY(hello_make(b, kind, &mine));
	b->ctx.awaited = opts->oob_addr ? NULL : opts->dst_addr;
	FT_TRY(ft_connect(&b->ctx));
	FT_TRY(opts->oob_addr ? meet_oob(b, &mine, &other) : meet_in_band(b, &mine, &other));
	b->ctx.awaited = NULL;
	b->key = other.key;
	b->base = other.base;
	return 0;
}

/* Until the peer has answered a greeting a write is refused: so few are tried, with ever more progress between. */
static int write_once(struct bench *b, size_t off, size_t len, struct ft_req *req)
{
	size_t between = 1;
	ssize_t ret;

	req->done = false;
	while ((ret = fi_write(b->ctx.ep, b->tx.addr + off, len, b->tx.desc, b->peer,
			       b->base + off, b->key, req)) == -FI_EAGAIN) {
		for (size_t i = 0; i < between; i++) {
			const int n = ft_progress(&b->ctx);

			FT_TRY(n < 0 ? n : 0);
		}
		between *= 2;
	}
	return ret ? ft_fail((int) ret, "fi_write", "%zu bytes", len) : 0;
}

static int write_window(struct bench *b, size_t size, size_t count)
{
	for (size_t i = 0; i < count; i++)
		FT_TRY(write_once(b, b->opts.one_buffer ? 0 : i * size, size, &b->tx_req[i]));
	return ft_wait(&b->ctx, b->tx_req, count);
}

/* The client writes, a window at a time, and says when it has done. The server serves it until then. */
static int measure_remote(struct bench *b, size_t size, long count, struct ft_result *res)
{
	double start;

	FT_TRY(bench_sync_prepare(b));
	FT_TRY(bench_sync(b));
	start = ft_usec();
	if (b->client) {
		for (size_t left = (size_t) count, now; left; left -= now) {
			now = FT_MIN(left, b->window);
			FT_TRY(write_window(b, size, now));
		}
		FT_TRY(bench_ctrl_send(b, 1));
	} else {
		FT_TRY(bench_ctrl_recv(b, 1));
		FT_TRY(ft_wait(&b->ctx, &b->ctrl_rx_req, 1));
	}
	*res = (struct ft_result){
		.usec = ft_usec() - start,
		.bytes = size,
		.sent = (uint64_t) count,
		.xfers_per_sent = 1,
	};
	return 0;
}

/* No side closes before the other side has all that it waits for. */
static int finish(struct bench *b)
{
	char byte = 0;

	FT_TRY(bench_sync_prepare(b));
	FT_TRY(bench_sync(b));
	ft_path_print(b->ctx.ep, b->ctx.info->fabric_attr->prov_name, &b->opts);
	FT_TRY(ft_path_expect(b->ctx.ep, &b->opts));
	if (!b->opts.oob_addr)
		return 0;
	b->ctx.watch_count = 0;
	FT_TRY(ft_oob_send(b->oob, &byte, 1));
	return ft_oob_recv(b->oob, &byte, 1, b->opts.timeout);
}

static long count_for(const struct bench_kind *kind, const struct ft_opts *opts, size_t size)
{
	const long base = size >= 1 << 20 ? 100 : size >= 1 << 16 ? 1000 : 10000;

	if (opts->iterations)
		return opts->iterations;
	return kind->scope & FT_SCOPE_BW ? 2 * base : base; /* as libfabric's fabtests have
							     * it */
}

static int run(struct bench *b, const struct bench_kind *kind)
{
	const struct ft_opts *opts = &b->opts;
	int (*const measure)(struct bench *, size_t, long, struct ft_result *) =
		opts->remote ? measure_remote : kind->measure;

	FT_CHECK(!opts->remote || !opts->verify, "--remote: -v is not possible");
	FT_TRY(start(b, kind));
	for (size_t i = 0; i < opts->size_count; i++) {
		const size_t size = opts->sizes[i];
		struct ft_result res = {.bytes = size};

		if (opts->warmup)
			FT_TRY(measure(b, size, opts->warmup, &res));
		FT_TRY(measure(b, size, count_for(kind, opts, size), &res));
		ft_result_print(&res, kind->name, b->ctx.info->fabric_attr->prov_name, opts);
	}
	return finish(b);
}

static int stop(struct bench *b)
{
	int ret;

	ft_buf_free(&b->tx);
	ft_buf_free(&b->rx);
	ft_buf_free(&b->ctrl_tx);
	ft_buf_free(&b->ctrl_rx);
	ret = ft_close(&b->ctx);
	free(b->tx_req);
	free(b->rx_req);
	free(b->opts.sizes);
	if (b->oob >= 0)
		close(b->oob);
	return ret;
}

int bench_main(const struct bench_kind *kind, int argc, char **argv)
{
	struct bench b = {.oob = -1, .peer = FI_ADDR_UNSPEC};
	struct ft_opts *opts = &b.opts;
	int ret, closed;

	ft_options_parse(opts, kind->scope, kind->purpose, argc, argv);
	if (!opts->sizes) {
		opts->sizes = malloc(sizeof(default_sizes));
		if (!opts->sizes)
			return EXIT_FAILURE;
		memcpy(opts->sizes, default_sizes, sizeof(default_sizes));
		opts->size_count = FT_COUNT(default_sizes);
	}
	b.client = opts->dst_addr != NULL;
	b.window = kind->scope & FT_SCOPE_BW ? (size_t) opts->window : 1;
	ret = ft_hints(&b.ctx, opts);
	if (!ret && opts->remote)
		b.ctx.hints->caps |= FI_RMA;
	if (!ret)
		ret = run(&b, kind);
	/*
	 * after an error, operations may be under way into the buffers: the end of the process
	 * frees them
	 */
	if (ret)
		return EXIT_FAILURE;
	closed = stop(&b);
	return closed ? EXIT_FAILURE : EXIT_SUCCESS;
}
