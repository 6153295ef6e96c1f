/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the benchmarks and the functional programs share. One section per source file of
 * this directory. Unless a comment says otherwise a function returns 0 or -FI_E*, and
 * whoever first meets an error has already reported it on stderr.
 */
#ifndef FT_H
#define FT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define FT_SKIP 77 /* exit status, and a test function's return value */
#define FT_MAX_RANKS 4
#define FT_MAX_IOV 4
#define FT_NAME_MAX 512 /* endpoint names; the longest known are shm's 256 bytes */

#define FT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define FT_MAX(a, b) ((a) > (b) ? (a) : (b))
#define FT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/** FT_TRY() - leave the function with the error of @expr, if it has one */
#define FT_TRY(expr)                                                                           \
	do {                                                                                   \
		int try_ret_ = (int) (expr);                                                   \
		if (try_ret_)                                                                  \
			return try_ret_;                                                       \
	} while (0)

/** FT_CHECK() - the test's own expectations: report what was found and leave */
#define FT_CHECK(cond, ...)                                                                    \
	do {                                                                                   \
		if (!(cond)) {                                                                 \
			ft_err(__VA_ARGS__);                                                   \
			return -FI_EOTHER;                                                     \
		}                                                                              \
	} while (0)

/* ---- report.c: messages and result tables ---- */

/** ft_err() - one line on stderr, headed by the program's name (and the rank) */
void ft_err(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** ft_fail() - report that @call returned @ret, and the way out in @fmt. Returns @ret */
int ft_fail(int ret, const char *call, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/** ft_errno() - as ft_fail(), for a system call that has just set errno */
int ft_errno(const char *call, const char *what);
/** ft_prefix_set() - what ft_err() puts in front of each line */
void ft_prefix_set(const char *prog, int rank);

/**
 * struct ft_result - one line of a benchmark's table
 * @usec:		time taken
 * @bytes:		payload of one message
 * @sent, @acked:	messages sent, and answers to them
 * @xfers_per_sent:	2 where the answer is as long as the message
 */
struct ft_result {
	double usec;
	size_t bytes;
	uint64_t sent, acked;
	unsigned int xfers_per_sent;
};

void ft_result_print(const struct ft_result *res, bool machine_readable, int argc, char **argv);
/** ft_path_count() - from here on host messages are counted, too */
void ft_path_count(struct fid_ep *ep);
/** ft_path_print() - which way the endpoint's bytes went, if its provider tells */
void ft_path_print(struct fid_ep *ep, const char *prov_name, bool machine_readable);
struct ft_buf;
/** ft_path() - the way of @len bytes of @buf (enum fi_p2p_path), if the provider tells;
 * -FI_ENOSYS: it does not; -FI_EOPNOTSUPP: they have none */
int ft_path(struct fid_ep *ep, const struct ft_buf *buf, size_t len);
/** ft_path_bytes() - what the endpoint has sent, or received, by a way */
int ft_path_bytes(struct fid_ep *ep, bool sent, int path, uint64_t *bytes);
struct ft_opts;
/** ft_path_expect() - have all bytes of device memory gone as --expect-path has it? */
int ft_path_expect(struct fid_ep *ep, const struct ft_opts *opts);

/* ---- options.c: the command line ---- */

enum ft_wait {
	FT_WAIT_SPIN,
	FT_WAIT_YIELD,
	FT_WAIT_SREAD,
	FT_WAIT_FD,
};

/** enum ft_floor - copies of the GPU's that messages are compared with */
enum ft_floor {
	FT_FLOOR_NONE,
	FT_FLOOR_COPY,
	FT_FLOOR_PEER,
};

/** enum ft_scope - which programs know an option */
enum ft_scope {
	FT_SCOPE_BENCH = 1 << 0,
	FT_SCOPE_BW = 1 << 1,
	FT_SCOPE_TEST = 1 << 2,
	FT_SCOPE_MPI = 1 << 3, /* libfabric's options are Open MPI's business */
	FT_SCOPE_STRESS = 1 << 4,
	FT_SCOPE_OVERHEAD = 1 << 5,
	FT_SCOPE_ROUNDS = 1 << 6, /* of a test that goes on as long as one likes */
	FT_SCOPE_SUITE = 1 << 7,
	/* a server and a client */
	FT_SCOPE_PAIR = FT_SCOPE_BENCH | FT_SCOPE_OVERHEAD | FT_SCOPE_SUITE,
	FT_SCOPE_ANY = FT_SCOPE_PAIR | FT_SCOPE_BW | FT_SCOPE_TEST | FT_SCOPE_STRESS,
	FT_SCOPE_ALL = FT_SCOPE_ANY | FT_SCOPE_MPI,
};

struct ft_opts {
	int argc;
	char **argv;
	enum fi_ep_type ep_type;
	const char *prov, *fabric, *domain;
	const char *src_addr, *src_port, *dst_addr, *dst_port, *oob_port;
	bool oob_addr; /* names are exchanged over a socket */
	bool oob_sync; /* barriers go over it, too */
	enum fi_hmem_iface iface;
	enum fi_hmem_iface
		init_iface; /* initialised before all else; buffers need not be there */
	int device;
	bool no_hmem, one_buffer;
	uint32_t api_version;
	enum ft_wait wait;
	bool tagged, kind_given; /* by -o */
	bool delivery_complete, verify, machine_readable;
	size_t *sizes; /* NULL: the default sizes */
	size_t size_count;
	long iterations; /* 0: by size */
	long warmup, window;
	long inject_size; /* -1: the provider's */
	long timeout;     /* seconds without progress */
	int expect_path;  /* enum fi_p2p_path; -1: any */
	const char *expect_reason;
	bool quick;
	bool automatic; /* FI_PROGRESS_AUTO */
	bool expect_gdrcopy;
	uint64_t seed;
	long seconds; /* of the stress program; 0: as many rounds as are asked for */
	uint64_t first, rounds;
	const char *ops;
	enum ft_floor floor;
	bool json;
};

/**
 * ft_options_parse() - fill @opts from the command line and the environment. Does not
 * return on -h (exit status 0) or on a mistake (2).
 */
void ft_options_parse(struct ft_opts *opts, unsigned int scope, const char *purpose, int argc,
		      char **argv);
/** ft_hook_active() - true when FI_HOOK asks for the p2p hook */
bool ft_hook_active(void);
/** ft_has_ours() - the hook, or ofi_p2p by -p: not a core provider alone */
bool ft_has_ours(const struct ft_opts *opts);

/* ---- oob.c: stream sockets beside the fabric ---- */

int ft_oob_listen(const char *addr, const char *port, long timeout, int *fd);
int ft_oob_connect(const char *addr, const char *port, long timeout, int *fd);
int ft_oob_send(int fd, const void *buf, size_t len);
int ft_oob_recv(int fd, void *buf, size_t len, long timeout);
/** ft_oob_closed() - true when the process at the other end is gone */
bool ft_oob_closed(int fd);

/* ---- mem.c, cuda.c, rocr.c: kinds of memory ---- */

/**
 * struct ft_mem_ops - one kind of memory
 * @to, @from:	copy to and from it; the data is there when they return
 * @device_name: of the device that was given to @init; host memory has none
 */
struct ft_mem_ops {
	const char *name;
	enum fi_hmem_iface iface;
	int (*init)(int device);
	int (*alloc)(size_t size, void **addr);
	void (*release)(void *addr);
	int (*to)(void *dst, const void *src, size_t len);
	int (*from)(void *dst, const void *src, size_t len);
	int (*device_name)(char *name, size_t len);
};

extern const struct ft_mem_ops ft_cuda_ops, ft_rocr_ops;

/** ft_cuda_check() - reports what @call of the CUDA driver has returned: 0, or -FI_EIO and why */
int ft_cuda_check(int err, const char *call);
/**
 * ft_cuda_calls() - how often @name was called in this process, whatever its version (NULL: all
 * of the driver's functions); skips on a real device, where nobody counts
 */
int ft_cuda_calls(const char *name, unsigned long *calls);

/** ft_mem_ops() - the operations for @iface; never NULL for a value that -D accepts */
const struct ft_mem_ops *ft_mem_ops(enum fi_hmem_iface iface);

/** struct ft_symbol - a function of a library, and the pointer that is to point at it */
struct ft_symbol {
	const char *name;
	void *slot;
};

/** ft_load() - open a GPU's library and fill the slots */
int ft_load(const char *soname, const struct ft_symbol *symbols, size_t count);

/** struct ft_buf - memory of one kind, registered where the provider wants it */
struct ft_buf {
	char *addr;
	size_t size;
	const struct ft_mem_ops *ops;
	struct fid_mr *mr;
	void *desc;
	uint64_t key, base; /* what peers name it by, after ft_buf_share() */
};

/* ---- fabric.c: opening and closing ---- */

/**
 * struct ft_ctx - an open endpoint and what it needs: an address vector, or (-e msg) a
 * connection, an event queue, and at the end that listens a passive endpoint. ft_hints()
 *sets the hints, which the caller may change; so may it set cq_attr, av_type, cq_flags
 *and mr_access before ft_open().
 * @cq_flags:	added to FI_TRANSMIT | FI_RECV when the CQ is bound
 * @min_multi_recv: FI_OPT_MIN_MULTI_RECV; 0: the provider's
 * @tx_only:	the CQ is for FI_TRANSMIT alone: @prepare has to bind another
 * @prepare:	called before the endpoint is enabled, or NULL; @test is for it
 * @mr_access:	what buffers are registered for besides FI_SEND | FI_RECV; not 0: they are
 *		registered in any case
 * @watch_fd:	sockets to peers: one that closes while we wait is an error
 * @peer:	addresses of the peers, by rank
 * @remote:	completed by what peers write here with remote cq data; may be NULL
 */
struct ft_ctx {
	const struct ft_opts *opts;
	struct fi_info *hints, *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_eq *eq;
	struct fid_pep *pep;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fi_cq_attr cq_attr;
	enum fi_av_type av_type;
	uint64_t cq_flags;
	size_t min_multi_recv;
	bool tx_only;
	int (*prepare)(struct ft_ctx *ctx);
	void *test;
	uint64_t mr_access;
	uint64_t next_key;
	int cq_fd;
	int watch_fd[FT_MAX_RANKS];
	int watch_count;
	fi_addr_t peer[FT_MAX_RANKS];
	struct ft_req *remote;
};

int ft_hints(struct ft_ctx *ctx, const struct ft_opts *opts);
int ft_getinfo(struct ft_ctx *ctx, const char *node, const char *service, uint64_t flags);
/** ft_offered() - does any provider have what the hints ask for? Reports nothing */
bool ft_offered(const struct ft_ctx *ctx);
/** ft_fabric_open() - once; ft_open() does it too */
int ft_fabric_open(struct ft_ctx *ctx);
/** ft_open() - all but the connection; with a passive endpoint, waits for a request */
int ft_open(struct ft_ctx *ctx);
/** ft_ep_open() - the last of it: ctx->ep, for ctx->info */
int ft_ep_open(struct ft_ctx *ctx);
/** ft_rx_cq_open() - for @prepare, with @tx_only: a queue like the other one, for receives */
int ft_rx_cq_open(struct ft_ctx *ctx, struct fid_cq **cq);
/** ft_close() - closes what is open, the hints too; may be called at any stage */
int ft_close(struct ft_ctx *ctx);
/** struct ft_name - an endpoint's name, as it is sent to peers */
struct ft_name {
	uint64_t len;
	char bytes[FT_NAME_MAX];
};

/** ft_getname() - of the endpoint; before there is one, of the passive endpoint */
int ft_getname(struct ft_ctx *ctx, struct ft_name *name);
/** ft_av_insert() - a peer's name; over a connection there is but one peer, at 0 */
int ft_av_insert(struct ft_ctx *ctx, const void *name, fi_addr_t *addr);
/** ft_is_p2p() - is ofi_p2p's protocol there? Not with the hook, nor over connections */
bool ft_is_p2p(const struct ft_ctx *ctx);
/** ft_connected() - true for -e msg */
bool ft_connected(const struct ft_ctx *ctx);

int ft_buf_alloc(struct ft_ctx *ctx, struct ft_buf *buf, enum fi_hmem_iface iface, size_t size);
/** ft_buf_alloc_by() - memory of a kind that has no name of libfabric's */
int ft_buf_alloc_by(struct ft_ctx *ctx, struct ft_buf *buf, const struct ft_mem_ops *ops,
		    size_t size);
/** ft_buf_share() - register for @access by peers; once for a buffer */
int ft_buf_share(struct ft_ctx *ctx, struct ft_buf *buf, uint64_t access);
void ft_buf_free(struct ft_buf *buf);

/* ---- cm.c: connections, for -e msg ---- */

/**
 * ft_listen() - after ft_getinfo(), in place of ft_resolve_listener() at the other end:
 * open fabric, event queue and passive endpoint. Its name is sent by the socket @fd, if
 * not -1.
 */
int ft_listen(struct ft_ctx *ctx, int fd);
/** ft_resolve_listener() - the info for whoever listens and sends its name by @fd */
int ft_resolve_listener(struct ft_ctx *ctx, int fd);
/** ft_eq_open() - once */
int ft_eq_open(struct ft_ctx *ctx);
/** ft_request_wait() - until somebody asks for a connection: the request's info is ours
 */
int ft_request_wait(struct ft_ctx *ctx);
/** ft_connect() - after ft_open() at both ends: ask or accept, and wait until it stands
 */
int ft_connect(struct ft_ctx *ctx);

/** struct ft_event - of a connection; @data_len: of what the other end gave, entry.data
 */
struct ft_event {
	size_t data_len;
	union {
		struct fi_eq_cm_entry entry;
		char room[sizeof(struct fi_eq_cm_entry) + 256];
	};
};

/** ft_eq_wait() - for the event @type; others are errors */
int ft_eq_wait(struct ft_ctx *ctx, uint32_t type, struct ft_event *event);
/** ft_eq_wait_any() - as fi_eq_sread(), which it calls until something comes */
ssize_t ft_eq_wait_any(struct ft_ctx *ctx, uint32_t *type, struct ft_event *event);

/* ---- xfer.c: posting, progress, waiting ---- */

/** struct ft_req - one operation in flight; op_context points at its first member */
struct ft_req {
	struct fi_context2 context;
	bool done;
	int err;     /* FI_E*, 0: none */
	size_t olen; /* bytes that did not fit, when err is FI_ETRUNC */
	struct fi_cq_tagged_entry comp;
};

enum ft_call {
	FT_SEND,
	FT_SENDV,
	FT_SENDMSG,
	FT_SENDDATA,
	FT_INJECT,
	FT_INJECTDATA,
	FT_RECV,
	FT_RECVV,
	FT_RECVMSG,
};

/**
 * struct ft_op - the arguments of any one of the calls above, tagged or not. An endpoint
 * without tags posts it untagged, whatever @tagged says.
 */
struct ft_op {
	enum ft_call call;
	bool tagged;
	struct iovec iov[FT_MAX_IOV];
	void *desc[FT_MAX_IOV];
	size_t count;
	fi_addr_t addr;
	uint64_t tag, ignore, data, flags;
	struct ft_req *req;
};

/** ft_has_tags() - were tagged messages asked for? */
bool ft_has_tags(const struct ft_ctx *ctx);
/** ft_op_buf() - point @op at one piece of @buf */
void ft_op_buf(struct ft_op *op, const struct ft_buf *buf, size_t off, size_t len);
/** ft_post_once() - the bare call: reports nothing, returns what libfabric returned */
ssize_t ft_post_once(struct ft_ctx *ctx, const struct ft_op *op);
/** ft_post() - post, and drive progress while the provider says -FI_EAGAIN */
int ft_post(struct ft_ctx *ctx, const struct ft_op *op);
/** ft_progress() - read completions. Returns how many, 0 for none, or -FI_E* */
int ft_progress(struct ft_ctx *ctx);
/** ft_progress_for() - for as many microseconds, whatever comes of it */
int ft_progress_for(struct ft_ctx *ctx, double usec);
/** ft_idle() - between fruitless polls: waits as -c has it, watches clock and peers */
int ft_idle(struct ft_ctx *ctx);
/** ft_wait() - until all @count requests are done. A failed one is an error */
int ft_wait(struct ft_ctx *ctx, struct ft_req *req, size_t count);
/** ft_wait_any_result() - as ft_wait(); the caller looks at the requests' errors */
int ft_wait_any_result(struct ft_ctx *ctx, struct ft_req *req, size_t count);
/** ft_progress_note() - for those who post and read by themselves: something happened */
void ft_progress_note(void);
/** ft_watchdog_start() - end the process when a call does not return for too long */
int ft_watchdog_start(long timeout);
double ft_usec(void);

/* ---- pattern.c: data that proves where it came from ---- */

#define FT_GUARD 0xa5
#define FT_ROOM 192 /* what a slot has beside the payload, at least */

/** ft_pattern_fill() - bytes that depend on @key and position */
void ft_pattern_fill(void *buf, size_t len, uint64_t key);
/** ft_pattern_diff() - offset of the first byte that is not the pattern's, or -1 */
ssize_t ft_pattern_diff(const void *buf, size_t len, uint64_t key, unsigned char *expected);
uint64_t ft_random(uint64_t *state);

/** struct ft_slot - a payload of up to @len bytes inside a guarded part of a buffer */
struct ft_slot {
	const struct ft_buf *buf;
	size_t base, room; /* the guarded part */
	size_t off;        /* of the payload, in the buffer */
	size_t len;
};

/** ft_slot_fill() - guards around, the pattern of @key inside */
int ft_slot_fill(const struct ft_slot *slot, uint64_t key);
/** ft_slot_arm() - guards everywhere: what a receive may not leave or go beyond */
int ft_slot_arm(const struct ft_slot *slot);
/** ft_slot_read() - a copy of the guarded part, good until the next call for any slot */
int ft_slot_read(const struct ft_slot *slot, unsigned char **mem);
/** ft_slot_holds() - are there @len bytes of @key's pattern? 1, 0 or -FI_E* */
int ft_slot_holds(const struct ft_slot *slot, size_t len, uint64_t key);
/** ft_slot_guards() - is every byte but the first @got of the payload untouched? */
int ft_slot_guards(const struct ft_slot *slot, size_t got, const char *what);
/** ft_slot_check() - @got bytes of @key's pattern, and every other byte untouched */
int ft_slot_check(const struct ft_slot *slot, size_t got, uint64_t key, const char *what);
/** ft_verify() - @len bytes at @off carry the pattern of message number @key */
int ft_verify(const struct ft_buf *buf, size_t off, size_t len, uint64_t key);

#endif /* FT_H */
