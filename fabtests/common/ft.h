/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the benchmarks and the functional programs share. Each source file of this directory has
 * one section.
 *
 * Unless a comment says otherwise, a function returns 0 or -FI_E*. The function that first
 * meets an error reports it on stderr.
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
#define FT_MAX_RANKS 64
#define FT_MAX_IOV 4
#define FT_NAME_MAX 512 /* an endpoint's name; the longest known are shm's, of 256 bytes */

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

/**
 * FT_CHECK() - what the test itself expects: if it is not so, report what was found and leave
 */
#define FT_CHECK(cond, ...)                                                                    \
	do {                                                                                   \
		if (!(cond)) {                                                                 \
			ft_err(__VA_ARGS__);                                                   \
			return -FI_EOTHER;                                                     \
		}                                                                              \
	} while (0)

/* ---- report.c: messages and result tables ---- */

/** ft_err() - print one line on stderr, which begins with the program's name (and the rank) */
void ft_err(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** ft_fail() - report that @call returned @ret, and the way out in @fmt. Returns @ret. */
int ft_fail(int ret, const char *call, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A server that is not there yet is waited for, which is said after so long */
#define FT_SOON_US 3e6
/** ft_say_absent() - says that @server does not answer, and how long it is waited for [s] */
void ft_say_absent(const char *server, const char *why, long patience);
struct ft_ctx;
/** ft_absent() - says so of @ctx's awaited, if @waited [us] is long. An error, if it is too long. */
int ft_absent(struct ft_ctx *ctx, double waited);
/** ft_errno() - does what ft_fail() does, for a system call that has just set errno */
int ft_errno(const char *call, const char *what);
/** ft_prefix_set() - set what ft_err() puts in front of each line */
void ft_prefix_set(const char *prog, int rank);

/**
 * struct ft_result - one line of a benchmark's table
 * @usec:		the time taken [us]
 * @bytes:		the payload of one message [bytes]
 * @sent:		how many messages were sent
 * @acked:		how many answers came
 * @xfers_per_sent:	2 where the answer is as long as the message
 */
struct ft_result {
	double usec;
	size_t bytes;
	uint64_t sent, acked;
	unsigned int xfers_per_sent;
};

struct ft_opts;
/** ft_result_print() - print it as @opts have it: a row, YAML (-m), or an object of JSON */
void ft_result_print(const struct ft_result *res, const char *test, const char *prov_name,
		     const struct ft_opts *opts);
/** ft_path_count() - count host messages, too, from here on */
void ft_path_count(struct fid_ep *ep);
/** ft_path_print() - print which way the endpoint's bytes went, if its provider tells */
void ft_path_print(struct fid_ep *ep, const char *prov_name, const struct ft_opts *opts);
struct ft_buf;
/**
 * ft_path() - the way of @len bytes of @buf (enum fi_p2p_path). -FI_ENOSYS: the provider does
 * not tell. -FI_EOPNOTSUPP: there is no way for them.
 */
int ft_path(struct fid_ep *ep, const struct ft_buf *buf, size_t len);
/** ft_path_bytes() - how many bytes the endpoint has sent, or received, by a way */
int ft_path_bytes(struct fid_ep *ep, bool sent, int path, uint64_t *bytes);
struct ft_opts;
/** ft_path_expect() - have all bytes of device memory gone the way that --expect-path names? */
int ft_path_expect(struct fid_ep *ep, const struct ft_opts *opts);

/* ---- usage.c: what a process has of the system ---- */

/**
 * struct ft_usage - memory in bytes
 * @own: what no other process has; @pss: that, and this process's share of the rest
 */
struct ft_usage {
	size_t resident, own, pss, descriptors, mappings, threads;
};

int ft_resident(size_t *bytes);
int ft_usage_read(struct ft_usage *usage);

/* ---- options.c: the command line ---- */

enum ft_wait {
	FT_WAIT_SPIN,
	FT_WAIT_YIELD,
	FT_WAIT_SREAD,
	FT_WAIT_FD,
};

/** enum ft_floor - the GPU's own copies that messages are compared with */
enum ft_floor {
	FT_FLOOR_NONE,
	FT_FLOOR_COPY,
	FT_FLOOR_PEER,
};

/** enum ft_scope - the programs that know an option */
enum ft_scope {
	FT_SCOPE_BENCH = 1 << 0,
	FT_SCOPE_BW = 1 << 1,
	FT_SCOPE_TEST = 1 << 2,
	FT_SCOPE_MPI = 1 << 3, /* Open MPI decides on libfabric's options */
	FT_SCOPE_STRESS = 1 << 4,
	FT_SCOPE_OVERHEAD = 1 << 5,
	FT_SCOPE_ROUNDS = 1 << 6, /* tests that go on as long as one likes */
	FT_SCOPE_SUITE = 1 << 7,
	FT_SCOPE_FAULTS = 1 << 8,
	FT_SCOPE_LOAD = 1 << 9,
	FT_SCOPE_KILL = 1 << 10,
	FT_SCOPE_SIZES = 1 << 11, /* tests whose sizes one may choose */
	FT_SCOPE_RANKS = 1 << 12, /* and how many ranks there are */
	FT_SCOPE_SCALE = 1 << 13,
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
	bool oob_sync; /* barriers go over a socket, too */
	enum fi_hmem_iface iface;
	enum fi_hmem_iface
		init_iface; /* initialised before all else, even if no buffer has this kind */
	int device;
	bool no_hmem, one_buffer;
	uint32_t api_version;
	enum ft_wait wait;
	bool rests; /* where a spinning wait takes long: tests do, and what measures does not */
	bool tagged, kind_given; /* given by -o */
	bool delivery_complete, verify, machine_readable;
	size_t *sizes; /* NULL: the default sizes */
	size_t size_count;
	long iterations; /* 0: depends on the size */
	long warmup, window;
	long inject_size; /* -1: what the provider has */
	long timeout;     /* seconds without progress */
	long patience;    /* seconds for a server that is not there */
	int expect_path;  /* enum fi_p2p_path; -1: any */
	const char *expect_reason;
	bool quick;
	bool automatic; /* FI_PROGRESS_AUTO */
	bool expect_gdrcopy;
	uint64_t seed;
	long seconds; /* for the stress program; 0: as many rounds as are asked for */
	uint64_t first, rounds;
	int ranks;       /* 0: all numbers that the test is for */
	uint64_t bursts; /* of short messages, for the load program */
	bool flat;
	const char *ops;
	const char *fate;
	enum ft_floor floor;
	bool json;
	bool remote; /* operations on remote memory, not messages */
};

/** ft_is_listed() - is @name in @list, which has commas? Everything is in NULL. */
bool ft_is_listed(const char *list, const char *name);
/**
 * ft_options_parse() - fill @opts from the command line and the environment. The program ends
 * here on -h (exit status 0) or on a mistake (2).
 */
void ft_options_parse(struct ft_opts *opts, unsigned int scope, const char *purpose, int argc,
		      char **argv);
/** ft_hook_active() - does FI_HOOK ask for the p2p hook? */
bool ft_hook_active(void);
/** ft_has_ours() - is there the hook, or ofi_p2p by -p, and not a core provider alone? */
bool ft_has_ours(const struct ft_opts *opts);

/* ---- oob.c: stream sockets beside the fabric ---- */

int ft_oob_listen(const char *addr, const char *port, long timeout, int *fd);
int ft_oob_connect(const char *addr, const char *port, long timeout, int *fd);
int ft_oob_send(int fd, const void *buf, size_t len);
int ft_oob_recv(int fd, void *buf, size_t len, long timeout);
/** ft_oob_closed() - is the process at the other end gone? */
bool ft_oob_closed(int fd);

/* ---- mem.c, cuda.c, rocr.c: kinds of memory ---- */

/**
 * struct ft_mem_ops - one kind of memory
 * @to, @from:	copy to this memory and from it; the data is there when they return
 * @device_name: the name of the device that was given to @init; host memory has none
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

/**
 * ft_cuda_check() - report the error that @call of the CUDA driver has returned. Returns 0 or
 * -FI_EIO.
 */
int ft_cuda_check(int err, const char *call);
/** ft_cuda_devices() - how many there are */
int ft_cuda_devices(int *count);
/** ft_cuda_reset() - reset the device's primary context: all that was in it is gone, and it goes on */
int ft_cuda_reset(void);
/**
 * ft_cuda_own() - before all else: have ft_cuda_ops work in a context of the program's own (cuCtxCreate). Later: in a
 * new one, and the one before is destroyed.
 */
int ft_cuda_own(int device);
/** ft_cuda_primaries() - of how many devices this process has an active primary context */
int ft_cuda_primaries(int *active);
/**
 * ft_cuda_calls() - how often this process has called @name, whatever its version. NULL means
 * all of the driver's functions. Skips on a real device, where nobody counts.
 */
int ft_cuda_calls(const char *name, unsigned long *calls);
/**
 * ft_cuda_break() - from the @nth call from now on each of the driver's functions fails in this process; 0: none does.
 * @failed gets how many have failed since this was called last. Skips on a real device.
 */
int ft_cuda_break(unsigned long nth, unsigned long *failed);

/** ft_mem_ops() - the operations for @iface; never NULL for a value that -D accepts */
const struct ft_mem_ops *ft_mem_ops(enum fi_hmem_iface iface);

/** struct ft_symbol - a function of a library, and the pointer that is to point at it */
struct ft_symbol {
	const char *name;
	void *slot;
};

/** ft_load() - open a GPU's library and fill the slots */
int ft_load(const char *soname, const struct ft_symbol *symbols, size_t count);

/** struct ft_buf - memory of one kind, registered where the provider wants that */
struct ft_buf {
	char *addr;
	size_t size;
	const struct ft_mem_ops *ops;
	struct fid_mr *mr;
	void *desc;
	uint64_t key, base; /* the names that peers use for it, after ft_buf_share() */
};

/* ---- fabric.c: opening and closing ---- */

/**
 * struct ft_ctx - an open endpoint and what it needs
 *
 * That is an address vector, or a connection and an event queue (-e msg). The end that listens
 * also has a passive endpoint. ft_hints() sets the hints. Before ft_open(), the caller may
 * change them, and may set cq_attr, av_type, cq_flags and mr_access.
 *
 * @cq_flags:	added to FI_TRANSMIT | FI_RECV when the CQ is bound
 * @min_multi_recv: FI_OPT_MIN_MULTI_RECV; 0: what the provider has
 * @tx_only:	the CQ is for FI_TRANSMIT alone, and @prepare has to bind another one
 * @prepare:	called before the endpoint is enabled, or NULL
 * @test:	for @prepare
 * @mr_access:	what buffers are registered for, besides FI_SEND | FI_RECV; if not 0, all
 *		buffers are registered
 * @watch_fd:	sockets to peers; it is an error if one closes while this process waits
 * @awaited:	if not NULL: who has not been heard of yet: see ft_absent()
 * @absent:	that has been said
 * @peer:	the peers' addresses, by rank
 * @remote:	completed by what peers write here with remote cq data; may be NULL
 * @took:	is given each completion first. 1: it was none of a struct ft_req; 0: it was; or
 *		an error. May be NULL
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
	const char *awaited;
	bool absent;
	fi_addr_t peer[FT_MAX_RANKS];
	struct ft_req *remote;
	int (*took)(struct ft_ctx *ctx, const struct fi_cq_tagged_entry *comp);
};

int ft_hints(struct ft_ctx *ctx, const struct ft_opts *opts);
int ft_getinfo(struct ft_ctx *ctx, const char *node, const char *service, uint64_t flags);
/** ft_offered() - does any provider have what the hints ask for? Reports nothing. */
bool ft_offered(const struct ft_ctx *ctx);
/** ft_fabric_open() - open the fabric, once; ft_open() calls it, too */
int ft_fabric_open(struct ft_ctx *ctx);
/**
 * ft_open() - open all but the connection. With a passive endpoint, this waits for a request.
 */
int ft_open(struct ft_ctx *ctx);
/** ft_ep_open() - the last part of ft_open(): opens ctx->ep for ctx->info */
int ft_ep_open(struct ft_ctx *ctx);
/**
 * ft_rx_cq_open() - for @prepare with @tx_only: opens a queue for receives, like the other one
 */
int ft_rx_cq_open(struct ft_ctx *ctx, struct fid_cq **cq);
/** ft_close() - close what is open, and free the hints. May be called at any stage. */
int ft_close(struct ft_ctx *ctx);
/** ft_cntr_open() - open a counter, and bind it to the endpoint for @flags; 0: to nothing */
int ft_cntr_open(struct ft_ctx *ctx, enum fi_wait_obj wait_obj, uint64_t flags,
		 struct fid_cntr **cntr);
/** struct ft_name - an endpoint's name, as it is sent to peers */
struct ft_name {
	uint64_t len;
	char bytes[FT_NAME_MAX];
};

/** ft_getname() - the endpoint's name; while there is no endpoint, the passive endpoint's */
int ft_getname(struct ft_ctx *ctx, struct ft_name *name);
/** ft_av_insert() - insert a peer's name. A connection has but one peer, at 0. */
int ft_av_insert(struct ft_ctx *ctx, const void *name, fi_addr_t *addr);
/** ft_is_p2p() - is ofi_p2p's protocol there? It is not with the hook, nor over connections. */
bool ft_is_p2p(const struct ft_ctx *ctx);
/** ft_whole_max() - what fits a buffer of ofi_rxm's: it announces longer messages, and reads them. Others have no such bound */
size_t ft_whole_max(const struct ft_ctx *ctx);
/** ft_connected() - is this -e msg? */
bool ft_connected(const struct ft_ctx *ctx);

int ft_buf_alloc(struct ft_ctx *ctx, struct ft_buf *buf, enum fi_hmem_iface iface, size_t size);
/** ft_buf_alloc_by() - allocate memory of a kind for which libfabric has no name */
int ft_buf_alloc_by(struct ft_ctx *ctx, struct ft_buf *buf, const struct ft_mem_ops *ops,
		    size_t size);
/** ft_buf_share() - register the buffer for @access by peers; once for a buffer */
int ft_buf_share(struct ft_ctx *ctx, struct ft_buf *buf, uint64_t access);
void ft_buf_free(struct ft_buf *buf);

/* ---- cm.c: connections, for -e msg ---- */

/**
 * ft_listen() - open fabric, event queue and passive endpoint. The caller has called
 * ft_getinfo(). The other end calls ft_resolve_listener() instead. If @fd is not -1, that
 * socket carries the name.
 */
int ft_listen(struct ft_ctx *ctx, int fd);
/** ft_resolve_listener() - get the info for the end that listens and sends its name by @fd */
int ft_resolve_listener(struct ft_ctx *ctx, int fd);
/** ft_eq_open() - open the event queue, once */
int ft_eq_open(struct ft_ctx *ctx);
/**
 * ft_request_wait() - wait until a peer asks for a connection. We take over the request's info.
 */
int ft_request_wait(struct ft_ctx *ctx);
/**
 * ft_connect() - ask or accept, and wait until the connection stands. Both ends call ft_open()
 * before.
 */
int ft_connect(struct ft_ctx *ctx);

/**
 * struct ft_event - an event of a connection; the other end's data is entry.data, @data_len
 * bytes
 */
struct ft_event {
	size_t data_len;
	union {
		struct fi_eq_cm_entry entry;
		char room[sizeof(struct fi_eq_cm_entry) + 256];
	};
};

/** ft_eq_wait() - wait for the event @type. Any other event is an error. */
int ft_eq_wait(struct ft_ctx *ctx, uint32_t type, struct ft_event *event);
/** ft_eq_wait_any() - call fi_eq_sread() until an event comes. Returns what that returns. */
ssize_t ft_eq_wait_any(struct ft_ctx *ctx, uint32_t *type, struct ft_event *event);

/* ---- xfer.c: posting, progress, waiting ---- */

/** struct ft_req - one operation in flight; op_context points at its first member */
struct ft_req {
	struct fi_context2 context;
	bool done;
	int err; /* FI_E*; 0: no error */
	int prov_errno;
	size_t olen; /* bytes that did not fit, if err is FI_ETRUNC */
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
/**
 * ft_post_once() - make the bare call. Reports nothing, and returns what libfabric returned.
 */
ssize_t ft_post_once(struct ft_ctx *ctx, const struct ft_op *op);
/** ft_post() - post the operation. While the provider says -FI_EAGAIN, drive progress. */
int ft_post(struct ft_ctx *ctx, const struct ft_op *op);
/** ft_progress() - read completions. Returns how many there were (0: none) or -FI_E*. */
int ft_progress(struct ft_ctx *ctx);
/** ft_progress_for() - drive progress for @usec microseconds, whatever comes of it */
int ft_progress_for(struct ft_ctx *ctx, double usec);
/** ft_idle() - wait between fruitless polls, as -c says, and watch clock and peers */
int ft_idle(struct ft_ctx *ctx);
/** ft_wait() - wait until all @count requests are done. A failed request is an error. */
int ft_wait(struct ft_ctx *ctx, struct ft_req *req, size_t count);
/**
 * ft_wait_any_result() - does what ft_wait() does, but leaves the requests' errors to the
 * caller
 */
int ft_wait_any_result(struct ft_ctx *ctx, struct ft_req *req, size_t count);
/**
 * ft_progress_note() - tell the clock that something happened, for code that posts and reads by
 * itself
 */
void ft_progress_note(void);
/**
 * ft_watchdog_start() - from now on, end the process when a call does not return for too long
 */
int ft_watchdog_start(long timeout);
double ft_usec(void);

/* ---- pattern.c: data that proves where it came from ---- */

#define FT_GUARD 0xa5
#define FT_ROOM 192 /* the least room that a slot has beside its payload */

/** ft_pattern_fill() - write bytes that depend on @key and position */
void ft_pattern_fill(void *buf, size_t len, uint64_t key);
/** ft_pattern_diff() - the offset of the first byte that is not the pattern's, or -1 */
ssize_t ft_pattern_diff(const void *buf, size_t len, uint64_t key, unsigned char *expected);
uint64_t ft_random(uint64_t *state);

/** struct ft_slot - a payload of up to @len bytes inside a guarded part of a buffer */
struct ft_slot {
	const struct ft_buf *buf;
	size_t base, room; /* the guarded part */
	size_t off;        /* where the payload is in the buffer */
	size_t len;
};

/** ft_slot_fill() - write guards around the payload, and the pattern of @key inside */
int ft_slot_fill(const struct ft_slot *slot, uint64_t key);
/**
 * ft_slot_arm() - write guards everywhere: a receive may not leave any inside, nor go beyond
 */
int ft_slot_arm(const struct ft_slot *slot);
/** ft_slot_read() - a copy of the guarded part, valid until the next call for any slot */
int ft_slot_read(const struct ft_slot *slot, unsigned char **mem);
/** ft_slot_holds() - are there @len bytes of @key's pattern? Returns 1, 0 or -FI_E*. */
int ft_slot_holds(const struct ft_slot *slot, size_t len, uint64_t key);
/** ft_slot_guards() - is every byte but the first @got of the payload untouched? */
int ft_slot_guards(const struct ft_slot *slot, size_t got, const char *what);
/**
 * ft_slot_check() - check for @got bytes of @key's pattern, and that every other byte is
 * untouched
 */
int ft_slot_check(const struct ft_slot *slot, size_t got, uint64_t key, const char *what);
/** ft_verify() - check that @len bytes at @off carry the pattern of message number @key */
int ft_verify(const struct ft_buf *buf, size_t off, size_t len, uint64_t key);

#endif /* FT_H */
