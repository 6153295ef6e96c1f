/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kernels that communicate, and how C programs launch them. xpu_kernels.cc compiles as CUDA, for the
 * emulator, and there for threads of the host, too.
 */
#ifndef XPU_KERNELS_H
#define XPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define FI_P2P_XPU_PREFIX
#include <rdma/fi_p2p_xpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel does: each block with a part of its own */
enum xpu_kernel {
	XPU_WRITE,  /* @count writes a block, of @len bytes; the first block waits for all */
	XPU_COMMIT, /* the same, and what is written is to be durable */
	XPU_PUT,    /* the same by short operations */
	XPU_SEND,   /* @count tagged messages a block */
	XPU_RECV,   /* receives them, and looks at the entries of the queue */
	XPU_SIGNAL, /* @count times: a put and a signal to the peer; waits for its signal */
	XPU_NEAR,   /* @count times: a put and a signal, without waiting for the peer */
	XPU_ADD,    /* adds 1 to a word of the peer's, @count times */
	XPU_FETCH,  /* the same, and fetches what was there */
	XPU_READ,  /* @count reads a block of the peer's parts; the first block waits for all */
	XPU_PARTS, /* each part by two writes, a short and a long one; the result is the sum of the contexts of all entries */
	XPU_TICKET, /* draws @count tickets from a word of the peer's, or its own; the result is their sum */
	XPU_ELSEWHERE, /* fetches into another allocation than the one of its buffer */
	XPU_SWAP,   /* compares and exchanges, until it has added 1 to that word @count times */
	XPU_WRONG,  /* a write that is refused: what fails is told */
	XPU_NOBODY, /* a put to a target that there is not */
	XPU_HALF,   /* a put that is refused, with a signal behind it: both fail */
	XPU_PASS, /* puts to a silent peer, and a signal behind them; then puts and signals to the peer */
	XPU_WAIT,  /* waits for what never comes, until the counter is no longer exported */
	XPU_COUNT, /* changes a counter by its own ring */
	XPU_ISSUE, /* puts, as fast as it can; the result is the time of one [ps] */
	XPU_BURST, /* the same in a burst */
	XPU_RATE,  /* bursts from all blocks; the result is the time of all [ns] */
	XPU_SET,   /* the same with signals */
	XPU_PING, /* as XPU_SIGNAL, without looking at bytes. As of the next six, the result is the
		     * time of all [ns], and behind those of all blocks, how many writes have been counted;
		     * and other blocks than the first are busy until it has ended */
	XPU_STORE, /* the same by plain stores to mapped memory */
	XPU_ROUND, /* puts, and waits for each to be counted */
	XPU_TRIP,  /* reads, and waits for each */
	XPU_LONE,  /* writes, and waits for an entry of each */
	XPU_ECHO,  /* sets a word of the host's, and waits for the host to set the next one */
	XPU_ASKED, /* puts, and waits until the core is asked: BUSYCORE_NULL=mark of null.c */
	XPU_REST,  /* does nothing until the host sets a word */
	XPU_KERNELS
};

#define XPU_REST_WORD 2

/* The first write of XPU_PARTS has so many bytes: kernels store them themselves */
#define XPU_SHORT 77

/* A block has no more */
#define XPU_THREADS_MAX 512

/* XPU_PASS signals once for so many puts */
#define XPU_PASS_SIGNAL 100

/* Words of signals for each block: two lines, so that no two of them look at the same one */
#define XPU_APART 16

/**
 * struct xpu_args - what a kernel is given.
 * @ep, @cq, @tx, @rx: exported objects
 * @peer, @desc: raw
 * @buf:	local memory; @there: the peer's @in, by @key
 * @in:		local memory that the peer writes to
 * @signal:	local words that the peer sets, one for each block
 * @target:	of puts; @signal_target: of signals
 * @silent:	of XPU_PASS: so many puts go to @silent_target first, then a signal to @silent_signal. Signals
 *		count up from @base
 * @shift:	of XPU_PUT: what is put begins so many bytes later in @buf
 * @result:	a word for each block: 0, or where it failed
 * @first:	this side begins
 * @adds:	signals may be added
 * @careful:	it stops posting when an error was counted
 * @posting:	busy blocks post puts, on the host all by one thread; or else they look at a signal
 * @over:	a word that tells busy blocks to end
 */
struct xpu_args {
	enum xpu_kernel kernel;
	struct fid_xpu_ep ep;
	struct fid_xpu_cq cq;
	struct fid_xpu_cntr tx, rx;
	uint64_t peer, desc;
	char *buf, *in;
	uint64_t there, key;
	uint64_t *signal;
	uint32_t target, signal_target;
	uint32_t silent_target, silent_signal;
	uint64_t silent;
	uint64_t *result;
	uint64_t count, len, blocks, base, shift;
	int scope, first, timeout, adds, careful, posting;
	uint64_t *over;
};

/*
 * Runs the kernel on @blocks blocks of @threads threads. xpu_launch() returns at once, and xpu_join()
 * when it has ended. With @device negative, threads of the host are the blocks. 0 or an error of the GPU
 */
int xpu_launch(const struct xpu_args *args, unsigned int blocks, unsigned int threads,
	       int device);
int xpu_join(int device);

/* Lets kernels of the current GPU use memory of the host, at the same address. 0 or an error */
int xpu_pin(void *addr, size_t len);
/* Undoes that, before the memory is freed */
int xpu_unpin(void *addr);

#ifdef __cplusplus
}
#endif

#endif /* XPU_KERNELS_H */
