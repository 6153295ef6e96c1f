/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A provider made up for the tests of the buffer library: its peers are in the same process, and it
 * ends operations when it is told to.
 */
#ifndef P2P_UNIT_BUFFER_H
#define P2P_UNIT_BUFFER_H

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_p2p.h>
#include <rdma/fi_p2p_buffer.h>

#include "unit.h"

#define FAKE_REGIONS 64
#define FAKE_OPS 64
#define FAKE_RAW_LEN 20

/**
 * struct fake_region - memory that is registered, or was.
 * @open:	it is
 * @bound, @enabled, @refreshed: it was told so
 */
struct fake_region {
	struct fid_mr fid;
	char *data;
	size_t size;
	uint64_t access;
	enum fi_hmem_iface iface;
	uint64_t device;
	bool open;
	bool bound;
	bool enabled;
	bool refreshed;
};

/**
 * struct fake_provider - what it is like, and what it has been asked.
 * @no_gpu:	the error of registering GPU memory; @no_gpu_peers: for access by peers
 * @taken_keys:	so many keys of the application's choice are refused
 * @busy_closes: so many times a region cannot be closed
 * @path:	what is told of a buffer; FI_P2P_PATH_MAX: nobody tells. @path_error: the call's error
 * @no_room:	so many operations are refused
 * @post_error:	the error of the next operation
 * @posted:	operations, the oldest first; @piece_max: the longest there was
 * @mapped:	raw keys that are
 * @flags:	of the last operation, @desc its descriptor
 * @mr_flags:	of the last registration
 */
extern struct fake_provider {
	struct fi_info info;
	int no_gpu;
	int no_gpu_peers;
	int taken_keys;
	int busy_closes;
	enum fi_p2p_path path;
	int path_error;
	int no_room;
	int post_error;
	struct fake_region regions[FAKE_REGIONS];
	size_t region_count;
	void *posted[FAKE_OPS];
	size_t posted_count;
	size_t posts;
	size_t piece_max;
	size_t mapped;
	uint64_t flags;
	uint64_t mr_flags;
	void *desc;
} fake;

/* A provider with that mr_mode and those capabilities besides FI_RMA and FI_MSG, and a context over it */
struct p2p_buffer_context *fake_open(int mr_mode, uint64_t caps);

/* One more context over it, of an endpoint with another limit. The caller closes it. */
struct p2p_buffer_context *fake_open_another(size_t max_msg_size);

/* Nothing may be left. */
void fake_close(struct p2p_buffer_context *context);

/* How many regions are open */
size_t fake_open_regions(void);

/* The latest region */
struct fake_region *fake_region(void);

/* Ends the oldest operation; its bytes are moved if @err is 0. */
struct p2p_buffer_op *fake_end(int err);

/* ---- unit_buffer_cuda.c, unit_buffer_rocr.c: the GPU, besides unit_dev_*() ---- */

extern const enum fi_hmem_iface unit_buffer_iface;

/* Starts the GPU, for cmocka */
int unit_buffer_setup(void **state);

/* Copies between any two kinds of memory */
void unit_buffer_copy(void *dst, const void *src, size_t len);

/* A synchronous copy to the GPU as an application makes it, which waits for no more than the call does */
void unit_buffer_put(void *dst, const void *src, size_t len);

/* This thread begins to capture a stream, in global mode; the capture ends well. ROCm captures above this rank */
void unit_buffer_capture(void);
void unit_buffer_captured(void);

/* This thread has a context of its own until the end; false: there are none */
bool unit_buffer_own(bool begin);

/* Do synchronous copies of the application wait? Afterwards they do not any more. Negative: they always do */
int unit_buffer_waits(void);

/* ---- unit_buffer_gpu.c ---- */

void test_gpu_bounced(void **state);
void test_gpu_slots(void **state);
void test_gpu_direct(void **state);
void test_gpu_refused(void **state);
void test_gpu_path(void **state);
void test_gpu_wrapped(void **state);
void test_gpu_captured(void **state);
void test_gpu_put(void **state);
void test_gpu_put_own(void **state);
void test_gpu_waits(void **state);

#endif /* P2P_UNIT_BUFFER_H */
