/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is to happen (script.c), over which core provider (core_models.c). See sim.h. */
#ifndef P2P_SIM_SCRIPT_H
#define P2P_SIM_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <rdma/fabric.h>

/* ---- models of core providers (core_models.c) ---- */

/* It is kept like any other; it is there, with a receive or without; or its receive has it */
enum model_delivers { DELIVERS_NOT, DELIVERS_THERE, DELIVERS_RECEIVED };

/**
 * struct model - what a core provider does, as properties.
 * @name:	for --model; @provider: whose quirks the provider under test believes in, of libfabric @version
 * @connects:	a message needs a connection, and that the peer's progress has accepted it
 * @refuses:	while there is none, a post says -FI_EAGAIN; else the message waits in the core
 * @stalls:	nothing is read from a peer behind a message without a receive, but for @saved of up to
 *		@saved_len tagged bytes; @mixes: a saved one is given to any endpoint of the domain
 * @sorts:	what waits for a receive is given out sender by sender: one that goes on to send is always first
 * @eager:	up to so many bytes a message is "sent" as soon as it is on its way; a longer one when it is there
 * @window:	so many bytes may be on their way to one peer
 * @queue:	so many operations of an endpoint may be under way: then -FI_EAGAIN. @posts: or so few, if it is not 0,
 *		whatever the core says
 * @silent:	what goes to a dead process never ends; else it ends with an error
 * @strings:	addresses are strings, else IPv4
 * @fragile:	a send to a closed endpoint of its process crashes; a new one at its address is not reached
 * @directs:	receives may be for one sender; @peeks, @multi, @atomics: it has those calls
 * @delivers:	what FI_DELIVERY_COMPLETE means for what is not long
 * @reaches:	who reads and writes remote memory does it; else its owner's progress. And the first SIM_PLACED bytes of a
 *		long message are where its receiver finds them, whatever its sender does
 * @keeps:	a long message whose receiver ends never ends
 * @loses:	the sender of a long message that is discarded does not hear of its end, nor the receiver of its length
 * @unmarked:	a peek tells data without saying that there is any
 * @waits:	queues and counters may have descriptors; @sticks: those stay readable once there was something
 * @hushes:	a read of a queue takes back that it was signalled
 * @unready:	a read crashes while an endpoint of the queue is not enabled
 * @litters:	fi_trywait() crashes for a queue that a closed endpoint had
 * @claims:	the highest bit of a receive's tag is its sign for FI_CLAIM
 * @uncounting:	it crashes when it counts
 * @serial:	it loses a message if a thread posts a receive while another one reads
 * @automatic:	progress may be asked to be automatic
 * @lane:	the provider that lanes are made of, or NULL: the same
 * @negative:	the error of a receive that is too short has the wrong sign
 * @counts:	it says by how much a short message is too long for its receive; of a long one all say so
 * @nomem:	-FI_ENOMEM says that all receives are in use
 * @gives:	a buffer for many is given back by a completion of its own; else with the message that fills it up
 * @segments:	of more than SIM_SEGMENT bytes, what is not long may be neither claimed nor discarded. Nobody does
 * @nic:	a NIC moves what is registered, a device's memory, too, when it comes to it, and needs no progress; but what is
 *		short the CPU copies
 * @atomic_len:	so many bytes may one atomic operation have; half of them if it compares
 */
struct model {
	const char *name;
	const char *provider;
	uint32_t version;
	bool connects;
	bool refuses;
	bool stalls;
	bool mixes;
	unsigned int saved;
	size_t saved_len;
	bool sorts;
	size_t eager;
	size_t window;
	unsigned int queue, posts;
	bool silent;
	bool strings;
	bool fragile;
	bool directs;
	bool peeks;
	bool unmarked;
	bool multi;
	bool atomics;
	bool waits, sticks;
	bool hushes, unready;
	bool litters;
	bool claims;
	bool uncounting;
	bool serial;
	bool automatic;
	const char *lane;
	size_t atomic_len;
	enum model_delivers delivers;
	bool reaches;
	bool keeps;
	bool loses;
	bool negative;
	bool counts;
	bool nomem;
	bool gives;
	bool segments;
	bool nic;
};

#define SIM_SEGMENT 16384
#define SIM_PLACED 32768

extern const struct model models[];
extern const size_t model_count;
const struct model *model_find(const char *name);

/* ---- what is to happen (script.c) ---- */

/* p2p_ranks has other figures of these */
#ifndef SIM_NODES
#define SIM_NODES 5
/*
 * Those of a script; two of each pair in each of four rounds (run.c); and receives of strays, one of each message that was
 * cancelled, one in each round, and two for what was in the way
 */
#define SIM_OPS_ALL (8 * SIM_OPS + 8 * SIM_NODES * SIM_NODES * SIM_EPS)
#define SIM_CHUNK 16384
#define SIM_ARENA ((size_t) 1 << 29)
#endif
#define SIM_OPS 160
#define SIM_FAULTS 12

/* Endpoints of a process, and its domains: the last endpoint has one of its own */
#define SIM_EPS 3
#define SIM_DOMAINS 2
#define SIM_DOMAIN_OF(ep) ((ep) / 2)

/* A process's descriptors, the ports of a host, and the IP address of the first process */
#define SIM_FDS 1024
/* The numbers of children of fork() are so much higher */
#define SIM_CHILD 1000000
#define SIM_PORTS 4000
#define SIM_IP 0x0a000001

enum op_kind { OP_MESSAGE, OP_WRITE, OP_READ, OP_ADD, OP_FETCH, OP_SWAP };

/* What a receiver does before it receives */
enum op_look {
	LOOK_NOT,
	LOOK_PEEK,    /* it peeks until the message is there */
	LOOK_CLAIM,   /* and claims it then */
	LOOK_DISCARD, /* or throws it away */
	LOOK_REFUSE,  /* or claims it, and throws it away then */
	LOOKS
};

/**
 * struct op_plan - one operation of the applications'.
 * @from, @to:	who sends, and who receives; or whose call it is, and whose memory
 * @from_dev, @to_dev: device memory
 * @tag:	messages of two nodes with one tag keep their order
 * @at, @recv_at: when the two are posted, at the earliest [ns]
 * @from_ep, @to_ep: the endpoints
 * @untagged:	a message without a tag; @data: with remote cq data; @directed: its receive is for its sender only
 * @pieces:	each buffer is of so many; 0: of one
 * @fence:	FI_FENCE
 * @look:	enum op_look
 * @cancel:	the receive is cancelled so long after it was posted [us]; 0: it is not
 * @trigger, @recv_trigger: the ends wait for a counter, which comes there so long after @at and @recv_at [us]; 0: they do
 *		not; odd: as deferred work. @chained: the first one waits for the other such operations before it
 * @stream, @recv_stream: which of the GPU's streams does so, and begins the operation then; 0: none
 * @put:	of a write: a kernel puts, and signals then (op_ring.c)
 * @graph:	of a stream's write or sum: it is in a graph, which is launched so often
 */
struct op_plan {
	bool dropped;
	enum op_kind kind;
	unsigned int from, to;
	size_t len;
	bool from_dev, to_dev;
	unsigned int tag;
	bool inject, delivery;
	uint64_t at, recv_at;
	unsigned int from_ep, to_ep;
	unsigned int untagged, data, directed, pieces, fence, look, cancel;
	unsigned int trigger, recv_trigger, chained, stream, recv_stream, put, graph;
};

enum fault_kind {
	FAULT_BUSY,      /* a process computes: no calls, but its threads run */
	FAULT_STOP,      /* it is stopped, and its threads, too */
	FAULT_KILL,      /* it ends */
	FAULT_RESTART,   /* it ends, and another one has its address after @span */
	FAULT_RESET,     /* the connections between two nodes break */
	FAULT_HARD,      /* the core refuses a post with a hard error */
	FAULT_LOSE,      /* the core ends an internal receive with an error */
	FAULT_GPU,       /* the GPU's driver fails a call */
	FAULT_DATAGRAMS, /* no datagram comes through */
	FAULT_CLOSE,     /* an endpoint is closed, and opened again after @span */
	FAULT_FORGET,    /* @peer's addresses are removed, and inserted again after @span */
	FAULT_LEAVE,     /* a process closes all, and ends */
	FAULT_REFUSE,    /* its GPU's driver shares no memory with other processes */
	FAULT_FULL,      /* it has few descriptors left, or none */
	FAULT_PAGES,     /* no pages can be shared */
	FAULT_LANE, /* the lanes' connections between two nodes break; or the core refuses a lane's post */
	FAULT_FORK,   /* a process forks; the child ends, or closes all before */
	FAULT_LIE,    /* a process lies, and ends then (lie.c) */
	FAULT_MEMORY, /* it has no memory, now and then */
	FAULT_PIN,    /* its NIC refuses the next region of device memory */
	FAULT_KINDS
};

/*
 * @ep: of FAULT_CLOSE; @renamed: the new endpoint has another address; of FAULT_LANE: 1: a post is refused, 2: a
 *	connection breaks behind a piece
 * @lies: bits of enum lie_kind, or 0: all; @often: one of so many messages is a lie, or one of so
 *		many requests for memory fails
 */
struct fault_plan {
	bool dropped;
	enum fault_kind kind;
	unsigned int node, peer;
	uint64_t at, span;
	unsigned int ep, renamed;
	unsigned int lies, often;
};

/*
 * How an application waits for completions. What its process or its core does not have becomes something else
 * (node_sleep.c)
 */
enum node_rest {
	REST_POLL,    /* it does not: it reads */
	REST_SREAD,   /* in fi_cq_sreadfrom() */
	REST_FD,      /* by fi_trywait() and poll() on the queues' descriptors */
	REST_SET,     /* for a wait set */
	REST_POLLSET, /* it asks a poll set, and reads what that tells */
	REST_CNTR,    /* in fi_cntr_wait() */
	RESTS
};
#define SIM_REST_BITS 3

/* Threads of an application, at most */
#define SIM_THREADS 2

/**
 * struct script - a whole run. It is made from a seed, or read from a file.
 * @noise:	what delays and the like are drawn from
 * @full:	[%] of posts that the core says -FI_EAGAIN to; @shuffled: completions come in another order
 * @plain:	the last node is without the plugin
 * @timeout:	FI_P2P_PEER_TIMEOUT [s]
 * @eps:	so many endpoints has each process
 * @sources, @directs, @fences: the capabilities that the applications ask for
 * @multi:	messages without a tag are received in buffers for many
 * @counted:	endpoints have counters; @triggers: operations may wait for counters (FI_TRIGGER)
 * @hook:	the last node has the hook
 * @hosts:	so many have the processes, in turn; 0: each has its own. Over shm all have one
 * @shares:	the GPU's driver shares memory within a host
 * @lanes:	FI_P2P_LANES; 0: 1
 * @pinned:	FI_P2P_PINNED_SIZE [KiB], may be less than users may say; 0: 4096
 * @eager:	FI_P2P_EAGER_SIZE [KiB], which pieces have, too; 0: 8, and pieces of 16
 * @rests:	how processes wait: enum node_rest of each, in SIM_REST_BITS bits
 * @pairs:	a bit for each process whose application has two threads; @autos: that asks for FI_PROGRESS_AUTO; @alone:
 *		for FI_THREAD_DOMAIN; @rings: whose last domain is its kernels' (gpu_ring.c)
 * Of NICs that reach device memory:
 * @pins, @room: so many regions of it may a process have there, and so much of it [KiB]; 0: there is enough
 * @maps:	FI_P2P_MAP_COUNT; 0: the usual one; @ways: 1: by a peer-memory module, 2: by dma-bufs, 0: by either
 * @staged:	a bit for each process whose FI_P2P_PATH is stage
 */
struct script {
	const struct model *model;
	uint64_t noise;
	unsigned int nodes;
	unsigned int full;
	bool shuffled;
	bool plain;
	unsigned int timeout;
	unsigned int eps, sources, directs, fences, multi, counted, hook, hosts, shares;
	unsigned int lanes, rests, pairs, autos, alone, triggers, pinned, eager, rings;
	unsigned int pins, room, maps, ways, staged;
	size_t op_count, fault_count;
	struct op_plan ops[SIM_OPS];
	struct fault_plan faults[SIM_FAULTS];
};

extern const char *const fault_names[FAULT_KINDS];
/* @fault: the kind of all its faults, of which it has one then, or more; FAULT_KINDS: of any kind, or none */
void script_make(struct script *script, uint64_t seed, const struct model *model,
		 enum fault_kind fault);
/* The kind of that name; FAULT_KINDS: there is none */
enum fault_kind script_fault(const char *name);
void script_print(const struct script *script, FILE *to);
/* False: it is not understood (printed) */
bool script_read(struct script *script, const char *path);

#endif /* P2P_SIM_SCRIPT_H */
