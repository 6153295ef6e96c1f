/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of the buffer library, over a provider that is made up: every mr_mode, bounds, references,
 * forged ids, pieces, and use after release.
 */
#include "unit_buffer.h"

#include <endian.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 10007
#define VIEWS 1000
#define THREADS 4
#define ROUNDS 2000

static struct p2p_buffer *alloc(struct p2p_buffer_context *context, size_t size)
{
	struct p2p_buffer *buffer = NULL;

	assert_int_equal(p2p_buffer_alloc(context, P2P_BUFFER_HOST, size, &buffer), 0);
	assert_int_equal(p2p_buffer_size(buffer), size);
	assert_int_equal(p2p_buffer_gpu(buffer), P2P_BUFFER_HOST);
	assert_int_equal(p2p_buffer_is_gpudirect(buffer), 0);
	return buffer;
}

static struct p2p_buffer *attach(struct p2p_buffer_context *context, struct p2p_buffer *buffer)
{
	struct p2p_buffer *remote = NULL;
	char id[P2P_BUFFER_ID_MAX];
	size_t len = sizeof id;

	assert_int_equal(p2p_buffer_id(buffer, id, &len), 0);
	assert_in_range(len, 1, sizeof id);
	assert_int_equal(p2p_buffer_attach(context, 0, id, len, &remote), 0);
	assert_int_equal(p2p_buffer_size(remote), p2p_buffer_size(buffer));
	assert_null(p2p_buffer_data(remote));
	assert_null(p2p_buffer_cdata(remote));
	assert_int_equal(p2p_buffer_id(remote, id, &len), -FI_EINVAL);
	return remote;
}

static void release(struct p2p_buffer *buffer)
{
	assert_int_equal(p2p_buffer_release(buffer), 0);
}

static void finish(struct p2p_buffer_op *op, int ret)
{
	while (ret == 1) {
		assert_ptr_equal(fake_end(0), op);
		ret = p2p_buffer_op_next(op, 0);
	}
	assert_int_equal(ret, 0);
}

/* ---- modes of registration ---- */

static void with_mode(int mode)
{
	struct p2p_buffer_context *context = fake_open(mode, FI_RMA_EVENT);
	struct p2p_buffer *local = alloc(context, SIZE), *target, *remote, *view;
	struct p2p_buffer_op op;
	char *data;

	fake.taken_keys = 3;
	target = alloc(context, SIZE);
	assert_int_equal(fake_region()->enabled, !!(mode & (FI_MR_ENDPOINT | FI_MR_RMA_EVENT)));
	assert_int_equal(fake_region()->refreshed, !!(mode & FI_MR_MMU_NOTIFY));
	assert_int_equal(fake.mr_flags, mode & FI_MR_RMA_EVENT ? FI_RMA_EVENT : 0);
	/* what the application may choose from has 4 bytes here */
	assert_in_range(fake_region()->fid.key, 0, UINT32_MAX);
	assert_ptr_equal(p2p_buffer_desc(target), fake_region());
	view = p2p_buffer_duplicate(target, 7, SIZE - 7);
	remote = attach(context, view);
	release(view);

	data = p2p_buffer_data(local);
	unit_fill(data, SIZE, 1);
	memset(p2p_buffer_data(target), 0, SIZE);
	finish(&op, p2p_buffer_write(local, 3, remote, 1, 1000, &op));
	assert_int_equal(fake.flags, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	assert_ptr_equal(fake.desc, p2p_buffer_desc(local));
	assert_memory_equal((char *) p2p_buffer_data(target) + 8, data + 3, 1000);
	finish(&op, p2p_buffer_read(local, 5000, remote, 1, 1000, &op));
	assert_memory_equal(data + 5000, data + 3, 1000);
	release(local);
	release(target);
	release(remote);
	fake_close(context);
}

static void test_modes(void **state)
{
	static const int modes[] = {
		FI_MR_UNSPEC,    FI_MR_BASIC,      FI_MR_SCALABLE,  FI_MR_LOCAL,
		FI_MR_RAW,       FI_MR_ENDPOINT,   FI_MR_PROV_KEY,  FI_MR_VIRT_ADDR,
		FI_MR_RMA_EVENT, FI_MR_MMU_NOTIFY, FI_MR_ALLOCATED,
	};
	int all = 0;

	for (size_t i = 0; i < UNIT_COUNT(modes); i++) {
		with_mode(modes[i]);
		if (modes[i] != FI_MR_BASIC && modes[i] != FI_MR_SCALABLE)
			all |= modes[i];
	}
	with_mode(all);
	with_mode(all & ~FI_MR_RAW);
	with_mode(all & ~FI_MR_PROV_KEY);
}

static void test_keys_taken(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer *buffer = NULL;

	fake.taken_keys = 1000;
	assert_int_equal(p2p_buffer_alloc(context, P2P_BUFFER_HOST, SIZE, &buffer), -FI_ENOKEY);
	assert_null(buffer);
	fake_close(context);
}

/* ---- arguments ---- */

static void test_arguments(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0), *none = NULL;
	struct p2p_buffer *buffer = NULL;
	struct p2p_buffer_op op = {.state = 0};
	char id[P2P_BUFFER_ID_MAX];
	size_t len = sizeof id;

	assert_int_equal(p2p_buffer_context_open(NULL, NULL, &fake.info, &none), -FI_EINVAL);
	assert_int_equal(p2p_buffer_context_close(NULL), -FI_EINVAL);
	assert_int_equal(p2p_buffer_alloc(NULL, -1, 1, &buffer), -FI_EINVAL);
	assert_int_equal(p2p_buffer_alloc(context, -1, 0, &buffer), -FI_EINVAL);
	assert_int_equal(p2p_buffer_alloc(context, -2, 1, &buffer), -FI_EINVAL);
	assert_int_equal(p2p_buffer_alloc(context, -1, 1, NULL), -FI_EINVAL);
	assert_int_equal(p2p_buffer_alloc(context, -1, SIZE_MAX, &buffer), -FI_ENOMEM);
	assert_int_equal(p2p_buffer_alloc(context, -1, SIZE_MAX / 2, &buffer), -FI_ENOMEM);
	assert_int_equal(p2p_buffer_wrap(context, -1, NULL, 1, &buffer), -FI_EINVAL);
	assert_int_equal(p2p_buffer_wrap(context, -1, id, 0, &buffer), -FI_EINVAL);
	assert_int_equal(p2p_buffer_wrap(context, -1, id, SIZE_MAX, &buffer), -FI_EINVAL);
	assert_int_equal(p2p_buffer_attach(context, 0, NULL, 56, &buffer), -FI_EINVAL);
	assert_int_equal(p2p_buffer_id(NULL, id, &len), -FI_EINVAL);
	assert_int_equal(p2p_buffer_retain(NULL), -FI_EINVAL);
	assert_int_equal(p2p_buffer_release(NULL), -FI_EINVAL);
	assert_int_equal(p2p_buffer_is_gpudirect(NULL), -FI_EINVAL);
	assert_null(p2p_buffer_duplicate(NULL, 0, 0));
	assert_null(p2p_buffer_data(NULL));
	assert_null(p2p_buffer_desc(NULL));
	assert_int_equal(p2p_buffer_size(NULL), 0);
	assert_int_equal(p2p_buffer_gpu(NULL), P2P_BUFFER_HOST);
	assert_int_equal(p2p_buffer_op_next(NULL, 0), -FI_EINVAL);
	assert_int_equal(p2p_buffer_op_next(&op, 0), -FI_EINVAL);
	assert_null(buffer);

	/* room for an id, and one byte less */
	buffer = alloc(context, SIZE);
	assert_int_equal(p2p_buffer_id(buffer, id, NULL), -FI_EINVAL);
	assert_int_equal(p2p_buffer_id(buffer, id, &len), 0);
	len--;
	assert_int_equal(p2p_buffer_id(buffer, id, &len), -FI_ETOOSMALL);
	len++;
	assert_int_equal(p2p_buffer_id(buffer, id, &len), 0);
	release(buffer);
	fake.info.caps &= ~FI_RMA;
	assert_int_equal(p2p_buffer_context_open((struct fid_domain *) 1, (struct fid_ep *) 1,
						 &fake.info, &none),
			 -FI_EOPNOTSUPP);
	assert_null(none);
	fake_close(context);
}

/* ---- bounds ---- */

/* For each: offset, length, and whether that is inside SIZE bytes */
static const struct {
	size_t offset, len;
	bool inside;
} parts[] = {
	{0, 0, true},
	{0, 1, true},
	{0, SIZE, true},
	{0, SIZE + 1, false},
	{1, SIZE - 1, true},
	{1, SIZE, false},
	{SIZE - 1, 1, true},
	{SIZE - 1, 2, false},
	{SIZE, 0, true},
	{SIZE, 1, false},
	{SIZE + 1, 0, false},
	{SIZE_MAX, 0, false},
	{SIZE_MAX, 1, false},
	{SIZE_MAX, SIZE_MAX, false},
	{0, SIZE_MAX, false},
	{1, SIZE_MAX, false},
	{SIZE / 2, SIZE_MAX - SIZE / 2 + 1, false},
	{SIZE_MAX - SIZE + 1, SIZE, false},
};

static void test_views(void **state)
{
	struct p2p_buffer_context *context = fake_open(FI_MR_VIRT_ADDR, 0);
	struct p2p_buffer *root = alloc(context, SIZE + 200);
	struct p2p_buffer *whole = p2p_buffer_duplicate(root, 100, SIZE);
	struct p2p_buffer *remote = attach(context, whole);

	/* of a view and of what is remote, beyond whose ends there is more of the same memory */
	for (size_t i = 0; i < UNIT_COUNT(parts); i++) {
		struct p2p_buffer *view, *there, *inner;
		const size_t offset = parts[i].offset, len = parts[i].len;

		view = p2p_buffer_duplicate(whole, offset, len);
		there = p2p_buffer_duplicate(remote, offset, len);
		assert_int_equal(!!view, parts[i].inside);
		assert_int_equal(!!there, parts[i].inside);
		if (!view)
			continue;
		assert_ptr_equal(p2p_buffer_data(view),
				 (char *) p2p_buffer_data(root) + 100 + offset);
		assert_int_equal(p2p_buffer_size(view), len);
		assert_int_equal(p2p_buffer_size(there), len);
		/* views of views */
		assert_null(p2p_buffer_duplicate(view, 0, len + 1));
		assert_null(p2p_buffer_duplicate(view, len + 1, 0));
		inner = p2p_buffer_duplicate(view, len, 0);
		assert_ptr_equal(p2p_buffer_data(inner),
				 (char *) p2p_buffer_data(root) + 100 + offset + len);
		release(inner);
		release(view);
		release(there);
	}
	release(root);
	release(whole);
	release(remote);
	fake_close(context);
}

static void test_transfer_bounds(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer_context *other = fake_open_another(SIZE_MAX);
	struct p2p_buffer *root = alloc(context, SIZE + 200);
	struct p2p_buffer *local = p2p_buffer_duplicate(root, 100, SIZE);
	struct p2p_buffer *remote = attach(context, local);
	struct p2p_buffer_op op;

	for (size_t i = 0; i < UNIT_COUNT(parts); i++) {
		const size_t offset = parts[i].offset, len = parts[i].len;
		const int begun = !parts[i].inside ? -FI_EINVAL : len ? 1 : 0;

		for (int n = 0; n < 4; n++) {
			const size_t here = n & 1 ? offset : 0, there = n & 1 ? 0 : offset;
			int ret;

			ret = n & 2 ? p2p_buffer_read(local, here, remote, there, len, &op)
				    : p2p_buffer_write(local, here, remote, there, len, &op);
			assert_int_equal(ret, begun);
			if (ret == 1)
				finish(&op, ret);
			assert_int_equal(p2p_buffer_op_next(&op, 0), -FI_EINVAL);
		}
	}
	/* each at its own end */
	assert_int_equal(p2p_buffer_write(remote, 0, remote, 0, 1, &op), -FI_EINVAL);
	assert_int_equal(p2p_buffer_write(local, 0, root, 0, 1, &op), -FI_EINVAL);
	assert_int_equal(p2p_buffer_write(local, 0, remote, 0, 1, NULL), -FI_EINVAL);
	assert_int_equal(p2p_buffer_write(NULL, 0, remote, 0, 1, &op), -FI_EINVAL);
	assert_int_equal(p2p_buffer_write(local, 0, NULL, 0, 1, &op), -FI_EINVAL);
	release(root);
	release(local);
	/* and both of one context */
	local = alloc(other, SIZE);
	assert_int_equal(p2p_buffer_write(local, 0, remote, 0, 1, &op), -FI_EINVAL);
	release(local);
	release(remote);
	assert_int_equal(p2p_buffer_context_close(other), 0);
	fake_close(context);
}

/* ---- references ---- */

static void test_references(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer *views[VIEWS], *root = alloc(context, SIZE), *view = root;

	assert_int_equal(p2p_buffer_retain(root), 0);
	release(root);
	/* each a view of the one before, which is released */
	for (size_t i = 0; i < VIEWS; i++) {
		views[i] = p2p_buffer_duplicate(view, i % 2, p2p_buffer_size(view) - 2);
		assert_non_null(views[i]);
		if (i % 3)
			release(view);
		else
			assert_int_equal(p2p_buffer_retain(view), 0);
		view = views[i];
	}
	assert_int_equal(fake_open_regions(), 1);
	assert_int_equal(p2p_buffer_context_close(context), -FI_EBUSY);
	unit_fill(p2p_buffer_data(view), p2p_buffer_size(view), 1);
	/* the last view alone keeps it all */
	release(root);
	release(root);
	for (size_t i = 0; i + 1 < VIEWS; i++) {
		if ((i + 1) % 3 == 0) {
			release(views[i]);
			release(views[i]);
		}
	}
	assert_int_equal(fake_open_regions(), 1);
	unit_fill(p2p_buffer_data(view), p2p_buffer_size(view), 2);
	release(view);
	assert_int_equal(fake_open_regions(), 0);
	fake_close(context);
}

/* Memory of the application's is not freed, and not before its region is closed. */
static void test_wrapped(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer *buffer = NULL;
	char *mine = malloc(SIZE);

	unit_fill(mine, SIZE, 1);
	assert_int_equal(p2p_buffer_wrap(context, P2P_BUFFER_HOST, mine, SIZE, &buffer), 0);
	assert_ptr_equal(p2p_buffer_data(buffer), mine);
	assert_ptr_equal(p2p_buffer_cdata(buffer), mine);
	release(buffer);
	assert_int_equal(fake_open_regions(), 0);
	unit_fill(mine, SIZE, 2);
	free(mine);
	fake_close(context);
}

/* What cannot be closed yet is still there. */
static void test_busy(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer *target = alloc(context, SIZE), *local = alloc(context, SIZE);
	struct p2p_buffer *remote = attach(context, target);
	struct p2p_buffer_op op;

	fake.busy_closes = 2;
	assert_int_equal(p2p_buffer_release(target), -FI_EBUSY);
	assert_int_equal(p2p_buffer_size(target), SIZE);
	assert_int_equal(p2p_buffer_release(target), -FI_EBUSY);
	unit_fill(p2p_buffer_data(target), SIZE, 1);

	/* released while a transfer has them; then it is the context that tries again */
	assert_int_equal(p2p_buffer_read(local, 0, remote, 0, SIZE, &op), 1);
	release(local);
	release(remote);
	assert_int_equal(fake_open_regions(), 2);
	assert_ptr_equal(fake_end(0), &op);
	fake.busy_closes = 1;
	assert_int_equal(p2p_buffer_op_next(&op, 0), 0);
	assert_int_equal(fake_open_regions(), 2);
	release(target);
	fake_close(context);
}

/* ---- ids ---- */

/* What unit_buffer expects of their layout: see buffer_id.c */
enum {
	ID_VERSION = 4,
	ID_FLAGS = 5,
	ID_KEY_LEN = 6,
	ID_GPU = 8,
	ID_ZERO = 12,
	ID_SIZE = 16,
	ID_ADDR = 24,
	ID_RAW_BASE = 32,
	ID_KEY = 40,
	ID_LEN = 56
};

/* Makes the checksum right again */
static void seal(unsigned char *id, size_t len)
{
	uint64_t sum = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i + 8 < len; i++)
		sum = (sum ^ id[i]) * 0x100000001b3ULL;
	sum = htobe64(sum);
	memcpy(id + len - 8, &sum, sizeof sum);
}

static void refused(struct p2p_buffer_context *context, const unsigned char *id, size_t len)
{
	struct p2p_buffer *remote = NULL;
	/* so that a look beyond its end is found out */
	unsigned char *copy = malloc(len ? len : 1);

	memcpy(copy, id, len);
	assert_int_equal(p2p_buffer_attach(context, 0, copy, len, &remote), -FI_EINVAL);
	assert_null(remote);
	free(copy);
}

static void put64(unsigned char *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof value);
}

/* Lies with a checksum that is right */
static void forge(struct p2p_buffer_context *context, const unsigned char *honest, size_t len)
{
	static const struct {
		size_t at;
		unsigned char byte;
	} lies[] = {
		{0, 'Q'},
		{3, 'b'},
		{ID_VERSION, 0},
		{ID_VERSION, 2},
		{ID_FLAGS, 1},
		{ID_FLAGS, 2},
		{ID_FLAGS, 0x80},
		{ID_KEY_LEN, 1},
		{ID_KEY_LEN + 1, 0},
		{ID_KEY_LEN + 1, 7},
		{ID_KEY_LEN + 1, 9},
		{ID_GPU, 0x80},
		{ID_GPU, 0xfe},
		{ID_ZERO, 1},
		{ID_ZERO + 3, 1},
		{ID_ADDR, 0xff},
		{ID_RAW_BASE + 7, 1},
	};
	unsigned char id[P2P_BUFFER_ID_MAX + 8];

	for (size_t i = 0; i < UNIT_COUNT(lies); i++) {
		memcpy(id, honest, len);
		id[lies[i].at] = lies[i].byte;
		if (lies[i].at == ID_ADDR)
			memset(id + ID_ADDR, 0xff, 8);
		seal(id, len);
		refused(context, id, len);
	}
	/* the size alone, and the address alone, so that their sum is too much */
	memcpy(id, honest, len);
	put64(id + ID_SIZE, UINT64_MAX);
	put64(id + ID_ADDR, 1);
	seal(id, len);
	refused(context, id, len);
	memcpy(id, honest, len);
	put64(id + ID_KEY, FI_KEY_NOTAVAIL);
	seal(id, len);
	refused(context, id, len);
	/* a length that fits the key's, where no such key is */
	for (size_t key_len = 0; key_len + 48 <= sizeof id; key_len++) {
		memset(id, 0, sizeof id);
		memcpy(id, honest, ID_KEY);
		id[ID_KEY_LEN] = 0;
		id[ID_KEY_LEN + 1] = (unsigned char) key_len;
		seal(id, key_len + 48);
		if (key_len != 8)
			refused(context, id, key_len + 48);
	}
}

static void test_forged(void **state)
{
	for (int raw = 0; raw < 2; raw++) {
		struct p2p_buffer_context *context = fake_open(raw ? FI_MR_RAW : 0, 0);
		struct p2p_buffer *buffer = alloc(context, SIZE), *remote;
		unsigned char id[P2P_BUFFER_ID_MAX + 8] = {0};
		size_t len = P2P_BUFFER_ID_MAX;

		assert_int_equal(p2p_buffer_id(buffer, id, &len), 0);
		assert_int_equal(len, raw ? ID_LEN - 8 + FAKE_RAW_LEN : ID_LEN);
		for (size_t cut = 0; cut <= sizeof id; cut++) {
			if (cut != len)
				refused(context, id, cut);
		}
		for (size_t bit = 0; bit < 8 * len; bit++) {
			id[bit / 8] ^= 1 << bit % 8;
			refused(context, id, len);
			id[bit / 8] ^= 1 << bit % 8;
		}
		if (!raw) {
			forge(context, id, len);
		} else {
			/* a raw key where there are none is the one lie that is left */
			id[ID_FLAGS] = 0;
			seal(id, len);
			refused(context, id, len);
		}
		remote = attach(context, buffer);
		release(remote);
		release(buffer);
		fake_close(context);
	}
}

/* A size that is a lie leads beyond the memory. The owner's provider is who refuses that. */
static void test_lie_about_size(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer *buffer = alloc(context, SIZE), *remote = NULL;
	unsigned char id[P2P_BUFFER_ID_MAX];
	struct p2p_buffer_op op;
	size_t len = sizeof id;

	assert_int_equal(p2p_buffer_id(buffer, id, &len), 0);
	put64(id + ID_SIZE, SIZE / 2);
	seal(id, len);
	assert_int_equal(p2p_buffer_attach(context, 0, id, len, &remote), 0);
	assert_int_equal(p2p_buffer_size(remote), SIZE / 2);
	assert_int_equal(p2p_buffer_write(buffer, 0, remote, 0, SIZE / 2 + 1, &op), -FI_EINVAL);
	release(remote);
	release(buffer);
	fake_close(context);
}

/* ---- pieces ---- */

static void test_pieces(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer_context *limited = fake_open_another(1000);
	struct p2p_buffer *local = alloc(limited, SIZE), *target = alloc(limited, SIZE);
	struct p2p_buffer *remote = attach(limited, target);
	struct p2p_buffer_op op;
	int ret;

	unit_fill(p2p_buffer_data(local), SIZE, 1);
	ret = p2p_buffer_write(local, 0, remote, 0, SIZE, &op);
	for (size_t i = 0; ret == 1; i++) {
		assert_int_equal(fake.posted_count, 1);
		assert_ptr_equal(fake_end(0), &op);
		/* every other piece finds no room, once or twice */
		fake.no_room = i % 3;
		while ((ret = p2p_buffer_op_next(&op, 0)) == -FI_EAGAIN)
			;
	}
	assert_int_equal(ret, 0);
	fake.no_room = 0;
	assert_int_equal(fake.posts, 11);
	assert_int_equal(fake.piece_max, 1000);
	assert_memory_equal(p2p_buffer_data(target), p2p_buffer_data(local), SIZE);

	/* no room at the beginning; an error there, amid it, and of a piece */
	fake.no_room = 1;
	assert_int_equal(p2p_buffer_read(local, 0, remote, 0, SIZE, &op), -FI_EAGAIN);
	assert_int_equal(p2p_buffer_op_next(&op, 0), -FI_EINVAL);
	fake.post_error = -FI_EMSGSIZE;
	assert_int_equal(p2p_buffer_read(local, 0, remote, 0, SIZE, &op), -FI_EMSGSIZE);
	assert_int_equal(p2p_buffer_read(local, 0, remote, 0, SIZE, &op), 1);
	assert_int_equal(p2p_buffer_op_next(&op, -1), -FI_EINVAL);
	assert_ptr_equal(fake_end(0), &op);
	fake.post_error = -FI_EIO;
	assert_int_equal(p2p_buffer_op_next(&op, 0), -FI_EIO);
	assert_int_equal(p2p_buffer_op_next(&op, 0), -FI_EINVAL);
	assert_int_equal(p2p_buffer_read(local, 0, remote, 0, SIZE, &op), 1);
	assert_ptr_equal(fake_end(FI_EKEYREJECTED), &op);
	assert_int_equal(p2p_buffer_op_next(&op, FI_EKEYREJECTED), -FI_EKEYREJECTED);
	assert_int_equal(p2p_buffer_op_next(&op, 0), -FI_EINVAL);
	/* given up while it waits for room */
	assert_int_equal(p2p_buffer_read(local, 0, remote, 0, SIZE, &op), 1);
	assert_ptr_equal(fake_end(0), &op);
	fake.no_room = 1;
	assert_int_equal(p2p_buffer_op_next(&op, 0), -FI_EAGAIN);
	assert_int_equal(p2p_buffer_op_next(&op, FI_ECANCELED), -FI_ECANCELED);
	release(local);
	release(target);
	release(remote);
	assert_int_equal(p2p_buffer_context_close(limited), 0);
	fake_close(context);
}

/* ---- threads ---- */

static void *use(void *arg)
{
	struct p2p_buffer *shared = arg;

	for (size_t i = 0; i < ROUNDS; i++) {
		struct p2p_buffer *view = p2p_buffer_duplicate(shared, i, SIZE - i);

		if (!view || p2p_buffer_retain(shared) || p2p_buffer_release(shared) ||
		    p2p_buffer_retain(view) || p2p_buffer_release(view) ||
		    p2p_buffer_release(view))
			return arg;
	}
	return p2p_buffer_release(shared) ? arg : NULL;
}

/* Whoever is last closes it, once. */
static void test_threads(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer *buffer = alloc(context, SIZE);
	pthread_t threads[THREADS];
	void *failed;

	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(p2p_buffer_retain(buffer), 0);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use, buffer), 0);
	release(buffer);
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(fake_open_regions(), 0);
	fake_close(context);
}

/* ---- use after release ---- */

static int after_retain(struct p2p_buffer *dead)
{
	return p2p_buffer_retain(dead) == -FI_EINVAL;
}

static int after_release(struct p2p_buffer *dead)
{
	return p2p_buffer_release(dead) == -FI_EINVAL;
}

static int after_duplicate(struct p2p_buffer *dead)
{
	return !p2p_buffer_duplicate(dead, 0, 0);
}

static int after_data(struct p2p_buffer *dead)
{
	return !p2p_buffer_data(dead) && !p2p_buffer_cdata(dead) && !p2p_buffer_desc(dead);
}

static int after_size(struct p2p_buffer *dead)
{
	return !p2p_buffer_size(dead) && p2p_buffer_gpu(dead) == P2P_BUFFER_HOST;
}

static int after_id(struct p2p_buffer *dead)
{
	char id[P2P_BUFFER_ID_MAX];
	size_t len = sizeof id;

	return p2p_buffer_id(dead, id, &len) == -FI_EINVAL &&
	       p2p_buffer_is_gpudirect(dead) == -FI_EINVAL;
}

static int after_write(struct p2p_buffer *dead)
{
	struct p2p_buffer_op op;

	return p2p_buffer_write(dead, 0, dead, 0, 0, &op) == -FI_EINVAL;
}

/* A released buffer is recognised: a debug build ends, another one returns an error. */
static void test_after_release(void **state)
{
	static int (*const uses[])(struct p2p_buffer *) = {
		after_retain, after_release, after_duplicate, after_data,
		after_size,   after_id,      after_write,
	};
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer *buffer = alloc(context, SIZE);
	struct p2p_buffer *view = p2p_buffer_duplicate(buffer, 0, 1), *dead[2] = {buffer, view};

	release(buffer);
	release(view);
	for (size_t i = 0; i < UNIT_COUNT(uses) * UNIT_COUNT(dead); i++) {
		const struct rlimit no_core = {0};
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (!pid) {
			/* the assertion's message is expected */
			close(STDERR_FILENO);
			setrlimit(RLIMIT_CORE, &no_core);
			signal(SIGABRT, SIG_DFL);
			_exit(uses[i / 2](dead[i % 2]) ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
#ifdef NDEBUG
		assert_int_equal(status, 0);
#else
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#endif
	}
	fake_close(context);
}

/* A child gives nothing back of what it has inherited. */
static void test_child(void **state)
{
	struct p2p_buffer_context *context = fake_open(0, 0);
	struct p2p_buffer *buffer = alloc(context, SIZE);
	pid_t child;
	int status;

	assert_int_equal(fake_open_regions(), 1);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(p2p_buffer_release(buffer) || p2p_buffer_context_close(context) ||
		      fake_open_regions() != 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	release(buffer);
	fake_close(context);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modes),           cmocka_unit_test(test_keys_taken),
		cmocka_unit_test(test_arguments),       cmocka_unit_test(test_views),
		cmocka_unit_test(test_transfer_bounds), cmocka_unit_test(test_references),
		cmocka_unit_test(test_wrapped),         cmocka_unit_test(test_busy),
		cmocka_unit_test(test_forged),          cmocka_unit_test(test_lie_about_size),
		cmocka_unit_test(test_pieces),          cmocka_unit_test(test_threads),
		cmocka_unit_test(test_after_release),   cmocka_unit_test(test_gpu_bounced),
		cmocka_unit_test(test_gpu_slots),       cmocka_unit_test(test_gpu_direct),
		cmocka_unit_test(test_gpu_refused),     cmocka_unit_test(test_gpu_path),
		cmocka_unit_test(test_gpu_wrapped),     cmocka_unit_test(test_gpu_captured),
		cmocka_unit_test(test_gpu_put),         cmocka_unit_test(test_gpu_put_own),
		cmocka_unit_test(test_gpu_waits),       cmocka_unit_test(test_child),
	};
	const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
		.setup = unit_buffer_setup,
	};

	return unit_main(argc, argv, &unit);
}
