/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of the buffer library with GPU memory. See unit_buffer.c. */
#include "unit_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"

/* Several pieces of a slot's size, the last one odd */
#define SIZE ((size_t) (3 << 20) + 5)
#define SLOTS 8

/* As much as the driver stages, often enough to see */
#define PUT_SIZE ((size_t) 65536)
#define PUTS 600

static struct p2p_buffer *alloc(struct p2p_buffer_context *context, int gpu, size_t size)
{
	struct p2p_buffer *buffer = NULL;

	assert_int_equal(p2p_buffer_alloc(context, gpu, size, &buffer), 0);
	assert_int_equal(p2p_buffer_gpu(buffer), gpu);
	return buffer;
}

static struct p2p_buffer *attach(struct p2p_buffer_context *context, struct p2p_buffer *buffer)
{
	struct p2p_buffer *remote = NULL;
	char id[P2P_BUFFER_ID_MAX];
	size_t len = sizeof id;

	assert_int_equal(p2p_buffer_id(buffer, id, &len), 0);
	assert_int_equal(p2p_buffer_attach(context, 0, id, len, &remote), 0);
	assert_int_equal(p2p_buffer_gpu(remote), p2p_buffer_gpu(buffer));
	return remote;
}

/* Ends all pieces of a transfer, and counts them */
static size_t finish(struct p2p_buffer_op *op, int ret)
{
	size_t pieces = 0;

	for (; ret == 1; pieces++) {
		assert_ptr_equal(fake_end(0), op);
		ret = p2p_buffer_op_next(op, 0);
	}
	assert_int_equal(ret, 0);
	return pieces;
}

/* From the GPU to a host's buffer and back, all but @skip bytes at each end. Returns the pieces. */
static size_t there_and_back(struct p2p_buffer_context *context, struct p2p_buffer *gpu,
			     size_t skip)
{
	const size_t size = p2p_buffer_size(gpu), len = size - 2 * skip;
	struct p2p_buffer *host = alloc(context, P2P_BUFFER_HOST, size);
	struct p2p_buffer *remote = attach(context, host);
	char *data = malloc(size), *got = malloc(size);
	struct p2p_buffer_op op;
	size_t pieces;

	unit_fill(data, size, 1);
	unit_dev_write(p2p_buffer_data(gpu), data, size);
	memset(p2p_buffer_data(host), 0, size);
	pieces = finish(&op, p2p_buffer_write(gpu, skip, remote, skip, len, &op));
	memset(data, 0, skip);
	memset(data + skip + len, 0, skip);
	assert_memory_equal(p2p_buffer_data(host), data, size);

	unit_fill(p2p_buffer_data(host), size, 2);
	unit_fill(got, size, 3);
	unit_dev_write(p2p_buffer_data(gpu), got, size);
	memcpy(data, got, size);
	memcpy(data + skip, p2p_buffer_data(host), len);
	pieces += finish(&op, p2p_buffer_read(gpu, skip, remote, 0, len, &op));
	unit_dev_read(got, p2p_buffer_data(gpu), size);
	assert_memory_equal(got, data, size);

	free(data);
	free(got);
	assert_int_equal(p2p_buffer_release(remote), 0);
	assert_int_equal(p2p_buffer_release(host), 0);
	return pieces;
}

/* A provider without FI_HMEM never sees the address. */
void test_gpu_bounced(void **state)
{
	struct p2p_buffer_context *context = fake_open(FI_MR_LOCAL, 0);
	struct p2p_buffer *gpu = alloc(context, 1, SIZE), *view;
	char id[P2P_BUFFER_ID_MAX];
	size_t len = sizeof id;

	assert_int_equal(fake_open_regions(), 0);
	assert_int_equal(p2p_buffer_id(gpu, id, &len), -FI_EOPNOTSUPP);
	assert_int_equal(len, sizeof id);
	assert_null(p2p_buffer_desc(gpu));
	assert_int_equal(p2p_buffer_is_gpudirect(gpu), 0);
	assert_int_equal(there_and_back(context, gpu, 0), 8);
	assert_int_equal(there_and_back(context, gpu, 3), 6);
	view = p2p_buffer_duplicate(gpu, 4097, (1 << 20) + 1);
	assert_non_null(view);
	assert_int_equal(p2p_buffer_release(gpu), 0);
	assert_int_equal(there_and_back(context, view, 0), 4);
	assert_int_equal(p2p_buffer_release(view), 0);
	/* one slot has been enough, and peers cannot reach it */
	assert_int_equal(fake_open_regions(), 1);
	for (size_t i = 0; i < fake.region_count; i++) {
		if (fake.regions[i].open)
			assert_false(fake.regions[i].access &
				     (FI_REMOTE_READ | FI_REMOTE_WRITE));
	}
	fake_close(context);
}

/* With all slots in use a transfer waits, and takes the first that is free. */
void test_gpu_slots(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer *gpu = alloc(context, 0, SIZE);
	struct p2p_buffer *host = alloc(context, P2P_BUFFER_HOST, SIZE);
	struct p2p_buffer *remote = attach(context, host);
	struct p2p_buffer_op ops[SLOTS], more;

	for (size_t i = 0; i < SLOTS; i++)
		assert_int_equal(p2p_buffer_read(gpu, i, remote, 0, 100, &ops[i]), 1);
	assert_int_equal(p2p_buffer_read(gpu, 0, remote, 0, 100, &more), -FI_EAGAIN);
	assert_int_equal(p2p_buffer_op_next(&more, 0), -FI_EINVAL);
	assert_int_equal(p2p_buffer_context_close(context), -FI_EBUSY);
	assert_ptr_equal(fake_end(FI_EIO), &ops[0]);
	assert_int_equal(p2p_buffer_op_next(&ops[0], FI_EIO), -FI_EIO);
	assert_int_equal(p2p_buffer_write(gpu, 0, remote, 0, 100, &more), 1);
	for (size_t i = 1; i < SLOTS; i++) {
		assert_ptr_equal(fake_end(0), &ops[i]);
		assert_int_equal(p2p_buffer_op_next(&ops[i], 0), 0);
	}
	assert_ptr_equal(fake_end(0), &more);
	assert_int_equal(p2p_buffer_op_next(&more, 0), 0);
	assert_int_equal(p2p_buffer_release(gpu), 0);
	assert_int_equal(p2p_buffer_release(remote), 0);
	assert_int_equal(p2p_buffer_release(host), 0);
	fake_close(context);
}

/* A provider with FI_HMEM gets the address, and peers get at the memory. */
void test_gpu_direct(void **state)
{
	struct p2p_buffer_context *context =
		fake_open(FI_MR_LOCAL | FI_MR_HMEM | FI_MR_VIRT_ADDR, FI_HMEM);
	struct p2p_buffer *gpu = alloc(context, 1, SIZE);
	struct p2p_buffer *host = alloc(context, P2P_BUFFER_HOST, SIZE);
	struct p2p_buffer *remote = attach(context, gpu);
	struct p2p_buffer_op op;
	char *got = malloc(SIZE);

	assert_int_equal(fake.regions[0].iface, unit_buffer_iface);
	assert_int_equal(fake.regions[0].device, 1);
	assert_int_equal(fake.regions[1].iface, FI_HMEM_SYSTEM);
	assert_int_equal(p2p_buffer_is_gpudirect(gpu), 1);
	assert_int_equal(p2p_buffer_is_gpudirect(host), 0);
	assert_int_equal(p2p_buffer_is_gpudirect(remote), 0);
	assert_int_equal(there_and_back(context, gpu, 1), 2);

	unit_fill(p2p_buffer_data(host), SIZE, 4);
	assert_int_equal(finish(&op, p2p_buffer_write(host, 0, remote, 0, SIZE, &op)), 1);
	unit_dev_read(got, p2p_buffer_data(gpu), SIZE);
	assert_memory_equal(got, p2p_buffer_data(host), SIZE);
	free(got);
	assert_int_equal(p2p_buffer_release(remote), 0);
	assert_int_equal(p2p_buffer_release(host), 0);
	assert_int_equal(p2p_buffer_release(gpu), 0);
	fake_close(context);
}

/* What cannot be registered for peers, or at all, is still of use here. */
void test_gpu_refused(void **state)
{
	char id[P2P_BUFFER_ID_MAX];
	size_t len = sizeof id;

	for (int peers = 0; peers < 2; peers++) {
		struct p2p_buffer_context *context =
			fake_open(FI_MR_LOCAL | FI_MR_HMEM, FI_HMEM);
		struct p2p_buffer *gpu;

		fake.no_gpu = peers ? 0 : -FI_EFAULT;
		fake.no_gpu_peers = -FI_EIO;
		gpu = alloc(context, 0, SIZE);
		assert_int_equal(p2p_buffer_id(gpu, id, &len), -FI_EIO);
		assert_int_equal(p2p_buffer_is_gpudirect(gpu), peers);
		assert_int_equal(!!p2p_buffer_desc(gpu), peers);
		assert_int_equal(there_and_back(context, gpu, 0), peers ? 2 : 8);
		assert_int_equal(p2p_buffer_release(gpu), 0);
		fake_close(context);
	}
}

/* Who answers for paths says what the provider takes, and by which way. */
void test_gpu_path(void **state)
{
	static const struct {
		enum fi_p2p_path path;
		int error;
		bool taken;
		int gpudirect;
	} cases[] = {
		{FI_P2P_PATH_PEER, 0, true, 1},  {FI_P2P_PATH_STAGE, 0, true, 0},
		{FI_P2P_PATH_IPC, 0, true, 0},   {FI_P2P_PATH_PEER, -FI_EAGAIN, true, 0},
		{FI_P2P_PATH_HOST, 0, false, 0}, {FI_P2P_PATH_STAGE, -FI_EOPNOTSUPP, false, 0},
	};

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		struct p2p_buffer_context *context = fake_open(0, 0);
		struct p2p_buffer *gpu;

		/* a hook, over a provider without FI_HMEM */
		fake.path = cases[i].path;
		fake.path_error = cases[i].error;
		gpu = alloc(context, 0, SIZE);
		assert_int_equal(p2p_buffer_is_gpudirect(gpu), cases[i].gpudirect);
		assert_int_equal(there_and_back(context, gpu, 0), cases[i].taken ? 2 : 8);
		assert_int_equal(p2p_buffer_release(gpu), 0);
		fake_close(context);
	}
}

/* Memory of the application's has to be where it says, and stays its own. */
void test_gpu_wrapped(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, FI_HMEM);
	char *mine = unit_dev_alloc(SIZE), host[100], *got = malloc(SIZE);
	struct p2p_buffer *gpu = NULL;

	assert_int_equal(p2p_buffer_wrap(context, 1, mine, SIZE, &gpu), -FI_EINVAL);
	assert_int_equal(p2p_buffer_wrap(context, 0, host, sizeof host, &gpu), -FI_EINVAL);
	assert_int_equal(p2p_buffer_wrap(context, 0, mine, SIZE + (64 << 20), &gpu),
			 -FI_EINVAL);
	assert_int_equal(p2p_buffer_alloc(context, 1000, 1, &gpu), -FI_EINVAL);
	assert_int_equal(p2p_buffer_alloc(context, 0, SIZE_MAX / 2, &gpu), -FI_ENOMEM);
	assert_null(gpu);
	assert_int_equal(fake_open_regions(), 0);

	assert_int_equal(p2p_buffer_wrap(context, 0, mine + 1, SIZE - 1, &gpu), 0);
	assert_ptr_equal(p2p_buffer_data(gpu), mine + 1);
	/* without a mode that says that it pins GPU memory, nobody knows */
	assert_int_equal(p2p_buffer_is_gpudirect(gpu), 0);
	assert_int_equal(there_and_back(context, gpu, 2), 2);
	assert_int_equal(p2p_buffer_release(gpu), 0);
	unit_dev_read(got, mine, SIZE);
	free(got);
	unit_dev_free(mine);
	fake_close(context);
}

/* Whatever is called while a thread captures a stream succeeds, and so does the capture. */
void test_gpu_captured(void **state)
{
	struct p2p_buffer_context *context = fake_open(FI_MR_LOCAL, 0);
	struct p2p_buffer *host = alloc(context, P2P_BUFFER_HOST, SIZE), *gpu;
	struct p2p_buffer *remote = attach(context, host);
	char *data = malloc(SIZE), *got = malloc(SIZE);
	struct p2p_buffer_op op;
	int ret;

	unit_buffer_capture();
	gpu = alloc(context, 0, SIZE);
	unit_buffer_captured();
	for (unsigned int reads = 0; reads < 2; reads++) {
		unit_fill(data, SIZE, 1 + reads);
		if (reads)
			memcpy(p2p_buffer_data(host), data, SIZE);
		else
			unit_dev_write(p2p_buffer_data(gpu), data, SIZE);
		unit_buffer_capture();
		ret = reads ? p2p_buffer_read(gpu, 0, remote, 0, SIZE, &op)
			    : p2p_buffer_write(gpu, 0, remote, 0, SIZE, &op);
		unit_buffer_captured();
		while (ret == 1) {
			assert_ptr_equal(fake_end(0), &op);
			unit_buffer_capture();
			ret = p2p_buffer_op_next(&op, 0);
			unit_buffer_captured();
		}
		assert_int_equal(ret, 0);
		if (reads)
			unit_dev_read(got, p2p_buffer_data(gpu), SIZE);
		assert_memory_equal(reads ? got : p2p_buffer_data(host), data, SIZE);
	}
	free(data);
	free(got);
	assert_int_equal(p2p_buffer_release(remote), 0);
	assert_int_equal(p2p_buffer_release(host), 0);
	unit_buffer_capture();
	assert_int_equal(p2p_buffer_release(gpu), 0);
	fake_close(context);
	unit_buffer_captured();
}

static void put_and_write(void)
{
	struct p2p_buffer_context *context = fake_open(FI_MR_LOCAL, 0);
	struct p2p_buffer *gpu = alloc(context, 0, PUT_SIZE);
	struct p2p_buffer *host = alloc(context, P2P_BUFFER_HOST, PUT_SIZE);
	struct p2p_buffer *remote = attach(context, host);
	char *data = malloc(PUT_SIZE);
	struct p2p_buffer_op op;

	for (unsigned int round = 0; round < PUTS; round++) {
		unit_fill(data, PUT_SIZE, round);
		unit_buffer_put(p2p_buffer_data(gpu), data, PUT_SIZE);
		finish(&op, p2p_buffer_write(gpu, 0, remote, 0, PUT_SIZE, &op));
		assert_memory_equal(p2p_buffer_data(host), data, PUT_SIZE);
	}
	free(data);
	assert_int_equal(p2p_buffer_release(gpu), 0);
	assert_int_equal(p2p_buffer_release(remote), 0);
	assert_int_equal(p2p_buffer_release(host), 0);
	fake_close(context);
}

/* What a synchronous copy has written is in what is written behind it. */
void test_gpu_put(void **state)
{
	put_and_write();
}

/* Also where the application has a context of its own */
void test_gpu_put_own(void **state)
{
	if (!unit_buffer_own(true))
		skip();
	put_and_write();
	unit_buffer_own(false);
}

/* Unless the user does not want it */
void test_gpu_waits(void **state)
{
	struct p2p_buffer_context *context = fake_open(FI_MR_LOCAL, 0);

	if (unit_buffer_waits() < 0) {
		fake_close(context);
		skip();
	}
	for (int wanted = 0; wanted < 2; wanted++) {
		conf.sync_memops = wanted;
		assert_int_equal(p2p_buffer_release(alloc(context, 0, SIZE)), 0);
		assert_int_equal(unit_buffer_waits(), wanted);
	}
	fake_close(context);
}
