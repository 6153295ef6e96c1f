/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of fid.c: which object is behind ours and which around the core's, and which calls the
 * core's object sees.
 */
#include "unit.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_eq.h>

#include "fid/fid.h"

/* ---- an object of the core's, which notes what it is asked ---- */

static struct {
	unsigned int closes, controls, opens;
	int close_ret;
	int command;
} seen;

static int core_close(struct fid *fid)
{
	seen.closes++;
	/* its address is nobody's any more: it may be another object's the next moment */
	assert_ptr_equal(fid_user(fid), fid);
	return seen.close_ret;
}

static int core_control(struct fid *fid, int command, void *arg)
{
	seen.controls++;
	seen.command = command;
	return 7;
}

static int core_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
			 void *context)
{
	seen.opens++;
	*ops = fid;
	return 0;
}

static struct fi_ops core_ops = {
	.size = sizeof core_ops,
	.close = core_close,
	.control = core_control,
	.ops_open = core_ops_open,
};

static struct fid_cq core = {.fid = {.fclass = FI_CLASS_CQ, .ops = &core_ops}};

/* ---- objects of ours ---- */

struct object {
	struct fid_cq fid;
	struct fid_cq *core;
	struct fid_pair pair;
};

static int own_table;

static bool own_ops(struct fid *fid, const char *name, void **ops)
{
	if (strcmp(name, "own") != 0)
		return false;
	*ops = &own_table;
	return true;
}

/* What every class has */
#define OPS                                                                                    \
	{                                                                                      \
		.size = sizeof(struct fi_ops), .close = fid_close, .bind = fid_no_bind,        \
		.control = fid_control, .ops_open = fid_ops_open                               \
	}

static struct fid_class plain_class = {.ops = OPS, .core = offsetof(struct object, core)};
static struct fid_class own_class = {
	.ops = OPS,
	.core = offsetof(struct object, core),
	.own_ops = own_ops,
};
static struct fid_class alone_class = {.ops = OPS};

static struct object object_of(struct fid_class *class)
{
	return (struct object){
		.fid.fid = {.fclass = FI_CLASS_CQ, .ops = &class->ops},
		.core = &core,
	};
}

static int setup(void **state)
{
	memset(&seen, 0, sizeof seen);
	return 0;
}

/* ---- tests ---- */

static void test_core(void **state)
{
	struct object plain = object_of(&plain_class), alone = object_of(&alone_class);
	struct fid bare = {.fclass = FI_CLASS_CQ};

	assert_ptr_equal(fid_class(&plain.fid.fid), &plain_class);
	assert_ptr_equal(fid_core(&plain.fid.fid), &core.fid);
	assert_ptr_equal(fid_class(&alone.fid.fid), &alone_class);
	assert_ptr_equal(fid_core(&alone.fid.fid), &alone.fid.fid);
	/* memory that only we serve has no region of the core's */
	plain.core = NULL;
	assert_ptr_equal(fid_core(&plain.fid.fid), &plain.fid.fid);
	assert_null(fid_class(&core.fid));
	assert_ptr_equal(fid_core(&core.fid), &core.fid);
	assert_null(fid_class(&bare));
	assert_ptr_equal(fid_core(&bare), &bare);
	assert_null(fid_class(NULL));
	assert_null(fid_core(NULL));
}

static void test_user(void **state)
{
	struct object object = object_of(&plain_class);

	assert_ptr_equal(fid_user(&core.fid), &core.fid);
	assert_null(fid_user(NULL));
	fid_pair_add(&object.pair, &core.fid, &object.fid.fid);
	assert_ptr_equal(fid_user(&core.fid), &object.fid.fid);
	assert_ptr_equal(fid_user(&object.fid.fid), &object.fid.fid);
	fid_pair_remove(&core.fid);
	assert_ptr_equal(fid_user(&core.fid), &core.fid);
	fid_pair_remove(&core.fid);
}

static void test_close(void **state)
{
	struct object *object = malloc(sizeof *object);

	assert_non_null(object);
	*object = object_of(&plain_class);
	fid_pair_add(&object->pair, &core.fid, &object->fid.fid);
	/* the core keeps it: all stays as it was */
	seen.close_ret = -FI_EBUSY;
	assert_int_equal(fi_close(&object->fid.fid), -FI_EBUSY);
	assert_ptr_equal(fid_user(&core.fid), &object->fid.fid);
	seen.close_ret = 0;
	assert_int_equal(fi_close(&object->fid.fid), 0);
	assert_ptr_equal(fid_user(&core.fid), &core.fid);
	assert_int_equal(seen.closes, 2);
}

static void test_control(void **state)
{
	struct object object = object_of(&plain_class);

	assert_int_equal(fi_control(&object.fid.fid, FI_ENABLE, NULL), 7);
	assert_int_equal(seen.command, FI_ENABLE);
	assert_int_equal(fi_control(&object.fid.fid, FI_ALIAS, NULL), -FI_ENOSYS);
	assert_int_equal(fi_control(&object.fid.fid, FI_QUEUE_WORK, NULL), -FI_ENOSYS);
	assert_int_equal(seen.controls, 1);
	assert_int_equal(object.fid.fid.ops->bind(&object.fid.fid, &core.fid, 0), -FI_ENOSYS);
}

static void test_ops_open(void **state)
{
	struct object plain = object_of(&plain_class), own = object_of(&own_class);
	struct object alone = object_of(&alone_class);
	void *ops = NULL;

	assert_int_equal(fi_open_ops(&own.fid.fid, "own", 0, &ops, NULL), 0);
	assert_ptr_equal(ops, &own_table);
	assert_int_equal(seen.opens, 0);
	assert_int_equal(fi_open_ops(&own.fid.fid, "other", 0, &ops, NULL), 0);
	assert_ptr_equal(ops, &core.fid);
	assert_int_equal(fi_open_ops(&plain.fid.fid, "own", 0, &ops, NULL), 0);
	assert_ptr_equal(ops, &core.fid);
	assert_int_equal(seen.opens, 2);
	assert_int_equal(fi_open_ops(&plain.fid.fid, "ofix_any", 0, &ops, NULL), -FI_ENOSYS);
	assert_int_equal(fi_open_ops(&alone.fid.fid, "own", 0, &ops, NULL), -FI_ENOSYS);
	assert_int_equal(fi_open_ops(&own.fid.fid, NULL, 0, &ops, NULL), -FI_EINVAL);
	assert_int_equal(fi_open_ops(&own.fid.fid, "own", 0, NULL, NULL), -FI_EINVAL);
	assert_int_equal(seen.opens, 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_core, setup),
		cmocka_unit_test_setup(test_user, setup),
		cmocka_unit_test_setup(test_close, setup),
		cmocka_unit_test_setup(test_control, setup),
		cmocka_unit_test_setup(test_ops_open, setup),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
