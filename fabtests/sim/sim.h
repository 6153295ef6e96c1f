/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The simulated world. sim.c says what is simulated, and what is not.
 *
 * Files: script (what is to happen), world (random numbers, what is told), fiber (threads and processes), gate, gate_fd
 * and gate_local (what the provider asks of the system), gpu, gpu_mem, gpu_stream and gpu_ring, core, core_mem, core_wire
 * and others (the core provider), lie (a process that lies), node (processes, and what their applications open), op,
 * op_over, op_trigger, op_stream, op_graph and op_ring (their operations), check and check_end (the rules), run (one script
 * from begin to end), exhaust and state (all orders of small worlds), sim (the program).
 */
#ifndef P2P_SIM_H
#define P2P_SIM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_p2p_xpu.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#include "script.h"

#define SIM_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SIM_MS 1000000ULL
#define SIM_S 1000000000ULL

/* ---- the world (world.c) ---- */

/**
 * struct world - of one run.
 * @now:	[ns]; @step: counts
 * @current:	the node whose code runs
 * @moved:	something has happened at this step
 * @quiet:	nothing is told
 * @awake:	no application sleeps any more, and each reads as often as one does that has nothing else to do
 * @liar:	the process that lies at times; SIM_NODES: none does
 * @child:	this is a child of fork(), which has what its parent has opened, and may not use it
 * @digest:	of all that has happened
 * @cuts:	connections of lanes that were cut behind a piece
 */
struct world {
	uint64_t now;
	uint64_t step;
	uint64_t random;
	unsigned int current;
	unsigned int liar;
	bool moved;
	bool calm;
	bool verbose;
	bool quiet;
	bool awake;
	bool child;
	uint64_t digest;
	uint64_t cuts;
	const struct script *script;
};

extern struct world world;
void world_begin(const struct script *script, bool verbose);
uint64_t world_random(void);
uint64_t world_upto(uint64_t limit);
/* Ends the run: a rule is broken */
void world_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* It leaves there, if it is not NULL, which rule: for the parent of a run's process */
#define WORLD_WHY 256
extern char *world_why;
/* A call that has to go well */
#define SIM_MUST(call)                                                                         \
	do {                                                                                   \
		const int must = (int) (call);                                                 \
		if (must)                                                                      \
			world_fail("n%u: %s: %s", world.current, #call, fi_strerror(-must));   \
	} while (0)
/* Something happens; it is part of the digest, and printed where the run is told in words */
void world_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Datagrams that are due arrive (gate_fd.c); and when the next one is due [ns], or UINT64_MAX */
void world_datagrams(void);
uint64_t world_datagrams_due(void);
/* From now on they are lost, for @span [ns] */
void world_lose_datagrams(uint64_t span);

/* ---- the GPU (gpu.c, gpu_mem.c) ---- */

void gpu_begin(void);
/* A buffer of the node's application, which gives it back */
uint8_t *gpu_alloc(unsigned int node, size_t len);
void gpu_free(void *addr);
bool gpu_has(const void *addr);
/* A process ends: it has and opens nothing any more */
void gpu_end(unsigned int node);
/* So much of other processes' is open */
unsigned int gpu_opened(unsigned int node);
/* The node's driver shares nothing until then [ns] */
void gpu_refuse(unsigned int node, uint64_t until);
/* A descriptor of memory is closed */
void gpu_memory_put(void *memory);
/* The node's next call of the driver fails */
void gpu_fail(unsigned int node);
void gpu_calm(void);

/* ---- its streams (gpu_stream.c) ---- */

#define SIM_STREAMS 2
/* One more is captured */
#define SIM_CAPTURED SIM_STREAMS
void *gpu_stream(unsigned int node, unsigned int stream);
/* A kernel, which takes no time */
void gpu_stream_kernel(void *stream, void (*kernel)(void *arg), void *arg);
/* They go on, as far as they can; and when one does next, but for those that wait [ns] */
void gpu_streams_run(void);
uint64_t gpu_streams_due(void);
/*
 * What is put into @stream becomes a graph, up to gpu_capture_end(). False: that is so already. Then a stream does all of it each
 * time that it is launched there. Once it is gone, and the last launch has ended, those who keep it are told.
 */
struct gpu_graph;
bool gpu_capture_begin(void *stream);
struct gpu_graph *gpu_capture_end(void *stream);
void gpu_graph_launch(struct gpu_graph *graph, void *stream);
void gpu_graph_destroy(struct gpu_graph *graph);
/* With its process a stream ends */
void gpu_streams_end(unsigned int node);

/* ---- the core provider (core.c) ---- */

#define CORE_PORT 1000 /* of an application's endpoint */

/* @model: of a lane; NULL: the application's */
struct fid_fabric *core_fabric(unsigned int node, const struct model *model);
struct fi_info *core_info(unsigned int node, const struct model *model);
/* The name of an endpoint of a node */
size_t core_name(unsigned int node, unsigned int port, void *name);
/* The port in a name, or 0; and the node */
unsigned int core_port(const void *name);
unsigned int core_node(const void *name);
void core_kill(unsigned int node);
/* @lanes: only those of lanes */
void core_reset(unsigned int a, unsigned int b, bool lanes);
void core_refuse(unsigned int node, bool lanes);
/* The connection by which a lane of the node's sends so many more pieces breaks then: some are there, some on their way */
void core_cut(unsigned int node, unsigned int pieces);
void core_lose(unsigned int node);
/* So many of the provider's messages between them were lost, or may have been refused */
unsigned int core_lost(unsigned int a, unsigned int b);
void core_calm(void);
/* NICs go on, as far as they can */
void core_nics_run(void);
/* The node's NIC refuses the next region of device memory; and none does any more */
void core_mem_refuse(unsigned int node);
void core_mem_calm(void);
/* The first moment at which something in the core is due, as seen since the last call [ns]; UINT64_MAX: never */
uint64_t core_due(void);
/* The core is asked for something */
void core_asked(void);

/**
 * struct core_kept - what is asked for: an operation on @len bytes at @buf, or @any.
 * @port:	of the other end, or 0
 * @rma:	it is one on remote memory, from memory that the core takes itself; else a message with @tag, or 0
 */
struct core_kept {
	unsigned int port;
	bool rma, any;
	uint64_t tag;
	const void *buf;
	size_t len;
};

/* Has the core such a thing, from endpoint @port of a node, or its lanes (0), to node @to, whose end it never tells (model.keeps, silent)? */
bool core_keeps(unsigned int node, unsigned int port, unsigned int to,
		const struct core_kept *what);
/* What of the node's is still open: a word, or NULL */
const char *core_left(unsigned int node);

/* ---- a process that lies (lie.c) ---- */

void lie_begin(const struct fault_plan *fault);
void lie_end(void);
/* Does a node not know where that process answers, or which one it is? */
bool lie_hides(unsigned int from);
/* At each step */
void lie_turn(void);
/* The current process sends a datagram, which is changed (true), or not; or by a local socket */
bool lie_datagram(uint8_t *bytes, size_t *len);
void lie_local(uint8_t *bytes, size_t *len);

/* ---- processes, and what their application does (node.c) ---- */

enum node_state { NODE_RUNS, NODE_BUSY, NODE_STOPPED, NODE_DEAD };

/**
 * struct op_end - one end of an operation: [0] of the sender, or of the caller; [1] of the receiver.
 * @posted:	or just being so (@calling); @tried_at: when the first call was made for that [ns], or 0
 * @met:	its peer was known by then, in the life that it has now
 * @skipped:	it is not posted, as the other end is gone; @life: of the endpoint that posts it
 * @closed:	its endpoint was closed before it ended
 * @turn:	its place among all that were posted
 * @queued, @process: when it was queued for a counter, and by which process; it waits until that is at @threshold, and its
 *		turn is UINT64_MAX until then; 0: it waits for none. @gone: the clock has come there. @deferred: its work, or NULL
 * @looking, @found: of a receiver that peeks: it asks; the message is there. @look_at: since when; or when it, or what
 *		found no memory, asks again
 * @cancel_at:	when it is cancelled
 * @buf:	NULL: it has none yet, or no more
 * @frozen:	nobody writes to its buffer any more; @sum: of what is in it
 */
struct op_end {
	bool posted, calling, met, skipped, done, cancelled, closed;
	uint64_t tried_at;
	int err;
	size_t len;
	unsigned int life;
	uint64_t turn;
	uint64_t queued, threshold;
	unsigned int process;
	bool gone;
	struct fi_deferred_work *deferred;
	uint8_t *buf;
	struct fi_context2 context;
	bool looking, found;
	uint64_t look_at, look_wait, cancel_at;
	bool frozen;
	uint64_t sum;
};

/**
 * struct op - an operation's state.
 * @found:	by a peek
 * @room:	of the receive; @taken: when the message was received [ns], or 0
 * @spare:	there is only a receive, for messages whose own has ended without them
 * @shown:	the process whose memory it reads or writes (node.life)
 * @aside:	of an atomic operation: [0] its result, [1] what it compares with
 * @graph:	that it is in (op_graph.c), or NULL once its endpoint is closed. @counted: launches of it that may begin, and may still end then;
 *		@ended: that have ended
 * @held_at:	when it had to wait last, as others wait for a process that rests [ns] (check_unhindered())
 * @held:	its own process keeps it, for a greeting or a fence (op_end_lost())
 * @turns:	of its processes, when it was in time last [ends]
 * @signal:	of a put: the word at the peer; @signals: it has not been signalled yet; @seen: the word is there; @target: the number of its target,
 *		which names @target_addr, of the endpoint's life before @target_life; 0: it has none
 */
struct op {
	struct op_plan plan;
	unsigned int number;
	struct op *found;
	size_t room;
	uint64_t taken;
	bool spare;
	unsigned int shown;
	struct op_end ends[2];
	uint8_t *aside[2];
	struct op_graph *graph;
	unsigned int counted, ended;
	uint64_t held_at;
	bool held;
	unsigned int turns[2];
	uint64_t *signal;
	bool signals, seen;
	uint32_t target;
	fi_addr_t target_addr;
	unsigned int target_life;
};

/* What a node knows of a peer's addresses: they are there; to be removed; removed */
enum node_knows { KNOWS, KNOWS_STILL, KNOWS_NOT };

/* Regions of a domain: the last two are for a peer that lies */
#define SIM_REGIONS 4

/**
 * struct node_domain - a domain of a process.
 * @addr:	the peers' endpoints; @ports: those that they are inserted by
 * @polls:	a poll set with the queue, or NULL
 * @clock, @chain: counters that operations wait for, or NULL (op_trigger.c); @clock_at: what the clock is at [us];
 *		@clock_moves: it is being set
 * @links:	operations that count on the chain; @mended: of them, those that the application has counted for
 * @ctx, @xpu, @kernel_cq: of one that the kernels have; @put_errors: of puts and signals that have failed, so many
 */
struct node_domain {
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_poll *polls;
	struct fid_cntr *clock, *chain;
	uint64_t clock_at, links, mended;
	bool clock_moves;
	struct fid_xpu_ctx *ctx;
	struct fi_p2p_xpu_ops *xpu;
	struct fid_xpu_cq kernel_cq;
	unsigned int put_errors;
	struct fid_mr *mr[SIM_REGIONS];
	fi_addr_t addr[SIM_NODES][SIM_EPS];
	unsigned int ports[SIM_NODES][SIM_EPS];
	enum node_knows knows[SIM_NODES];
};

/* A buffer for many messages; @used: bytes of it; @closed: its endpoint is */
struct node_multi {
	struct node_multi *next;
	bool closed;
	uint8_t *buf;
	bool *used;
	bool posted;
	struct fi_context2 context;
};

/* Each endpoint has so many, of so many bytes, and no message is longer than SIM_MULTI_LEN then */
#define SIM_MULTIS 2
#define SIM_MULTI 200000
#define SIM_MULTI_LEN 40000

/**
 * struct node_ep - an endpoint of a process.
 * @life:	how many there were before
 * @met:	the lives, and one more, of those of the peers that have answered a datagram of its
 * @removed:	those whose addresses were removed since they have answered: what is known of them was forgotten
 * @blind:	the ports of those that have ended before they had answered one; 0: none has
 * @multis:	those of the endpoints before, too
 * @counts:	of FI_SEND, FI_RECV, FI_READ, FI_WRITE: what has ended well
 * @kernel, @kernel_cntrs: it, and these, as kernels have them; @shown: what they have seen of these.
 *		@writes: what they have posted that the last one counts; @forgiven: of its errors
 */
struct node_ep {
	bool open;
	unsigned int life;
	unsigned int port;
	struct fid_ep *ep;
	struct fid_cntr *cntrs[4];
	uint64_t counts[4];
	struct fid_xpu_ep kernel;
	struct fid_xpu_cntr kernel_cntrs[4];
	uint64_t shown[4];
	uint64_t writes, forgiven;
	unsigned int met[SIM_NODES][SIM_EPS];
	bool removed[SIM_NODES][SIM_EPS];
	unsigned int blind[SIM_NODES][SIM_EPS];
	struct node_multi *multis;
};

/* What the world has a process do, in the application's thread: one wish after the other */
#define SIM_WISHES 32
struct wish {
	void (*grant)(unsigned int i, unsigned int arg);
	unsigned int arg;
};

/**
 * struct node - a process.
 * @life:	how many processes there were before at this address
 * @until:	when it goes on [ns]
 * @pid:	its number on its host
 * @app:	the application's threads. The first one grants wishes; @bell wakes those that sleep
 * @turning:	the thread is within a turn; @posting: so many threads post; @granting: none is to begin with that
 * @ends:	all but the first thread are to end
 * @turns:	so many the first thread has had
 * @rest:	how it waits; @asleep: threads that do; @rung: one was woken, and has not noticed yet
 * @away:	one of two threads has something else to do until the other one has woken (@wakes counts)
 * @awaited:	the operation whose counter is slept on; @awaited_cntr: that one
 * @ringer:	an eventfd, to sleep on besides; @set: a wait set, or NULL
 * @wishes:	@granted of them, of @wished, have been
 * @plain:	without the plugin; @hook: with the hook, and so without a protocol
 * @shown:	host and device memory that peers may read and write, and the same for one that lies; @shown_used: bytes of
 *		it that operations have
 */
struct node {
	enum node_state state;
	unsigned int life;
	uint64_t until;
	long pid;
	struct fiber *app[SIM_THREADS], *bell;
	bool turning[SIM_THREADS];
	unsigned int posting;
	bool granting, ends;
	unsigned int turns;
	enum node_rest rest;
	unsigned int asleep;
	bool rung, away;
	unsigned int wakes;
	const struct op *awaited;
	struct fid_cntr *awaited_cntr;
	int ringer;
	struct fid_wait *set;
	struct wish wishes[SIM_WISHES];
	unsigned int wished, granted;
	bool plain;
	bool hook;
	struct fid_fabric *fabric;
	struct fi_info *info;
	struct node_domain domains[SIM_DOMAINS];
	struct node_ep eps[SIM_EPS];
	uint8_t *shown[SIM_REGIONS];
	size_t shown_used[SIM_REGIONS];
};

extern struct node nodes[SIM_NODES];
extern struct op ops[SIM_OPS_ALL];
extern size_t op_count;

/* A turn of another application than op.c's, or NULL */
extern void (*node_application)(unsigned int i);

/* Its provider's parameters (node_conf.c) */
void node_configure(void);
/* A process starts, and opens all */
void node_open(unsigned int i);
/* It ends */
void node_kill(unsigned int i);
/* The processes of one host have one number */
unsigned int node_host(unsigned int i);
/* Its threads run, each as far as it can; @all: else some of them */
void node_step(unsigned int i, bool all);
/* It is to do that; and has it not done so yet? */
void node_wish(unsigned int i, void (*grant)(unsigned int i, unsigned int arg),
	       unsigned int arg);
bool node_is_acting(unsigned int i);

/* Wishes: it closes all; it does, and ends; it forks, and the child closes all, or nothing; endpoint @e is closed, or opened again, with another address (@e + SIM_EPS) */
void node_close(unsigned int i, unsigned int unused);
void node_leave(unsigned int i, unsigned int unused);
void node_fork(unsigned int i, unsigned int closes);
void node_ep_close(unsigned int i, unsigned int e);
void node_ep_reopen(unsigned int i, unsigned int e);

/* Has it something to do, beside waiting for completions? */
bool node_wants(unsigned int i);

/* How a process waits (node_sleep.c). Once its domains are there: what it takes for that; and before they go */
void node_rest_choose(unsigned int i);
void node_rest_begin(unsigned int i);
void node_rest_end(unsigned int i);
/* The wait object of its queues, and of its counters */
void node_rest_cq(unsigned int i, struct fi_cq_attr *attr);
enum fi_wait_obj node_rest_cntr(unsigned int i);
/* Thread @t reads a queue, or sleeps in a read of it */
void node_read(unsigned int i, unsigned int d, unsigned int t);
/* Sleeps until there may be something; @t: the thread */
void node_rest(unsigned int i, unsigned int t);

/* A datagram came to its port @port, from that of a node */
void node_heard(const void *bytes, size_t len, uint16_t port, unsigned int from,
		uint16_t from_port);
/* It has read that */
void node_take(unsigned int i, unsigned int d, const struct fi_cq_tagged_entry *entry,
	       fi_addr_t src);
/* A peer's addresses are to be removed, or inserted again */
void node_forget(unsigned int i, unsigned int peer, bool forget);
/* The address of a peer's endpoint, or FI_ADDR_NOTAVAIL */
fi_addr_t node_addr(unsigned int i, unsigned int e, unsigned int peer, unsigned int peer_ep);
uint8_t *node_buffer(unsigned int i, bool dev, size_t len);
/* One of the device's is given back, if @buf is such: another one has its address soon */
void node_buffer_free(uint8_t *buf);

/* ---- operations (op.c) ---- */

void op_turn(unsigned int node);
/* Its ends that are not done, in order: NULL behind the last one. Some may be done. @at: its place in the list */
struct op *op_todo(unsigned int node, size_t at, unsigned int *end);
void op_todo_add(const struct op *op);
/* Those that are done leave the list: nobody may be going through it */
void op_todo_tidy(unsigned int node);
/* Would that do something (node_sleep.c)? */
bool op_wants(unsigned int node);
/* Are those before it of its stream posted at this end? */
bool op_is_next(const struct op *op, unsigned int end);
/* It is tried again later, each time after a longer while */
void op_end_later(struct op_end *at);
/* Of FI_SEND, FI_RECV, FI_READ, FI_WRITE, the one that counts it */
unsigned int op_counts(const struct op *op, unsigned int end);
/* The next place among what is posted */
uint64_t op_next_turn(void);
/* A completion, of domain @d */
void op_take(unsigned int node, unsigned int d, const struct fi_cq_err_entry *entry,
	     fi_addr_t src);
/* Is something of the node's under way that names this peer? */
bool op_names(unsigned int node, unsigned int domain, unsigned int peer);
/* An endpoint is opened: what is posted later is its; and it is closed */
void op_adopt(unsigned int node, unsigned int e);
void op_close(unsigned int node, unsigned int e);
/* A process has ended, and its memory with it */
void op_end_process(unsigned int node);
bool op_end_exists(const struct op *op, unsigned int end);
bool op_end_lives(const struct op *op, unsigned int end);
/* Is it to be posted, or under way? */
bool op_end_is_open(const struct op *op, unsigned int end);
unsigned int op_node(const struct op *op, unsigned int end);
unsigned int op_ep(const struct op *op, unsigned int end);
/* A message of an endpoint that receives in buffers for many */
bool op_is_multi(const struct op *op);
uint64_t op_tag(const struct op_plan *plan);
/* The region of the other end that it reads or writes */
unsigned int op_region(const struct op_plan *plan);
struct op *op_add(const struct op_plan *plan);
/* One more receive for messages like that; NULL: they come to buffers for many */
struct op *op_add_spare(const struct op *like);
bool op_ended(const struct op *op);
bool op_end_over(const struct op *op, unsigned int end);
/*
 * Does it wait for a process that is gone, and nobody can know? The core alone would, too; or that process has never
 * answered a datagram, so that its host's refusal proves nothing (docs/reliability.md).
 */
bool op_end_lost(const struct op *op, unsigned int end);
/* Has the core a piece, or another long message, between the two nodes? Of pieces nothing tells which operation they are of */
bool op_piece_kept(const struct op *op);
/* Is it behind others in a stream, or does its ring wait as a whole, as it is full of others, or has one with FI_FENCE? */
bool op_end_hindered(const struct op *op, unsigned int end);
/* Its receive is to be cancelled */
void op_cancel(struct op *op);

/* ---- operations that wait for counters (op_trigger.c) ---- */

bool op_is_triggered(const struct op *op, unsigned int end);
/* Does its endpoint's counter count it? The chain does else */
bool op_is_counted(const struct op *op, unsigned int end);
/* Is its clock being set? What is queued then goes before, or after, what waits, and nobody knows */
bool op_trigger_moves(const struct op *op, unsigned int end);
/* Its place among what is posted, as it is queued; UINT64_MAX: it has none yet */
uint64_t op_trigger_turn(struct op *op, unsigned int end);
/* These post at once what waits for nothing */
ssize_t op_post_tagged(struct op *op, unsigned int end, const struct fi_msg_tagged *msg,
		       uint64_t flags);
ssize_t op_post_rma(struct op *op, const struct fi_msg_rma *msg, uint64_t flags);
ssize_t op_post_atomic(struct op *op, const struct fi_msg_atomic *msg, uint64_t flags);
/* The same for a stream (op_stream.c) */
bool op_is_streamed(const struct op *op, unsigned int end);
unsigned int op_stream(const struct op *op, unsigned int end);
int op_post_stream(struct op *op, unsigned int end);
/* What a stream does for it, into @stream, once @cntr is at @threshold */
int op_stream_put(struct op *op, unsigned int end, struct fid_cntr *cntr, uint64_t threshold,
		  void *stream);
/* Its buffer is not what it is to be, until a kernel fills it */
void op_stream_spoil(struct op *op);
/* It is in a graph (op_graph.c): posted is its first launch; the rest of them; and is there something to do? */
int op_post_graph(struct op *op);
void op_graph_turn(struct op *op);
bool op_graph_wants(const struct op *op);
/* One more launch has ended, or one that is in no graph. True: that was the last one */
bool op_graph_ended(struct op *op);
/* Its endpoint is closed, and so is its counter: no stream waits for that then; the same for those of a domain */
void op_graph_close(struct op *op);
void op_graphs_close(unsigned int node, unsigned int d);
/* A deferred work that waits is taken back. False: there is none */
bool op_trigger_cancel(struct op *op, unsigned int end);
/* A domain's counters go on; and is there something to count? */
void op_triggers_turn(unsigned int node, unsigned int d);
bool op_triggers_want(unsigned int node, unsigned int d);

#define SIM_SHOWN (8 << 20) /* bytes of each kind of memory that peers may read and write */

/* ---- the rules (check.c): each fails the run ---- */

void check_begin(void);
/* What begins from now on may not fail */
void check_no_excuse(void);
/* Operations of @a with @b may fail now; SIM_NODES: with any */
void check_reason(unsigned int a, unsigned int b, const char *why);
/* A process ends, which is a reason, too, but for what its successor does, or is asked for, from then on */
void check_death(unsigned int node);
void check_successor(unsigned int node);
/* A reason: a peer is silent for so long, and may live */
extern const char check_silence[];
/* Those of one endpoint may */
void check_reason_ep(unsigned int node, unsigned int e, const char *why);
bool check_may_fail(const struct op *op);
/* Are these messages whose receives may change places? May a receive get this message, once it is sent? And has it been? */
bool check_same_stream(const struct op *a, const struct op *b);
bool check_may_get(const struct op *op, const struct op *sent);
bool check_may_be(const struct op *op, const struct op *sent);
bool check_fails(unsigned int node);
/* Is there another reason than silence why those of a node may? */
bool check_breaks(unsigned int node);
/* May remote memory be refused to it, as descriptors were short, or its owner was not reached? */
bool check_refuses(const struct op *op);
/* Was a message in the way of a greeting for as long as FI_P2P_PEER_TIMEOUT says, or of the second one, as it had no receive? */
bool check_unheard(const struct op *op);
/* A process gets these bytes */
void check_granted(unsigned int node, const uint8_t *bytes, size_t len);
/* What is shown to honest processes is written by these alone */
void check_places(void);
void check_fill(const struct op *op, uint8_t *buf);
void check_arrived(struct op *op, const struct fi_cq_err_entry *entry, fi_addr_t src);
/* What a peek has found is a message that the receive may be for: that one */
struct op *check_looked(const struct op *op, const struct fi_cq_err_entry *entry,
			fi_addr_t src);
void check_ended(struct op *op, unsigned int end);
void check_rma(const struct op *op);
/* A put's word is there, and is to be @value */
void check_signal(const struct op *op, uint64_t value);
struct op *check_multi(unsigned int node, unsigned int e, struct node_multi *multi,
		       const struct fi_cq_err_entry *entry);
void check_freeze(struct op *op, unsigned int end);
void check_frozen_end(const struct op *op, unsigned int end);
void check_frozen(void);
void check_counted(unsigned int node, unsigned int e);
uint64_t check_data(const struct op *op);
void check_compare(const struct op *op, uint8_t *buf);
void check_all_ended(const char *when);
/* Each second */
void check_crowds(void);
void check_unhindered(void);
/* Are there requests, ids or looks, other than what waits for ever? */
bool check_is_left(unsigned int node);
void check_nothing_left(unsigned int node);
void check_closed(unsigned int node);
void check_nothing_wrong(unsigned int node);

#define SIM_GUARD 64
#define SIM_GUARD_BYTE 0xa5
/* Around what is shown to a process that lies, which may read it */
#define SIM_GUARD_BYTE_SHOWN 0x5a

/* ---- one run (run.c): prints, and ends the process ---- */

void run_script(const struct script *script, bool verbose);
/* Runs that take more time of a processor [s] hang. Other programs may have it */
#define SIM_LIMIT 20
void run_limit(unsigned int seconds);
/* A fault begins, for exhaust.c */
void run_fault(const struct fault_plan *fault);

#endif /* P2P_SIM_H */
