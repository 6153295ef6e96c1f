/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_buffer: RDMA buffer objects between two processes: every pair of memory kinds, allocated and
 * wrapped, views of views whose parents are released, odd sizes, many transfers at a time, bounds,
 * damaged ids, and memory that its owner has released. Checks every byte, and the guards around. Then
 * the same over the core provider alone, which takes no GPU memory.
 *
 * Rank 1 owns the targets, rank 0 reads and writes them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>
#include <rdma/fi_p2p_buffer.h>

#include "ft_test.h"

#define GUARD 67
#define SHORT_MAX 4096 /* messages of device memory up to this are copied: fi_p2p(7) */
#define MANY 40
#define MANY_LEN 5003

static const size_t sizes[] = {
	1, 7, 4095, 4096, 65537, 1048576, 1048577, 3 * 1048576 + 5,
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct p2p_buffer_context *context;
	enum fi_hmem_iface kinds[2];
	size_t kind_count;
	size_t under_way; /* transfers */
	size_t gpudirect; /* targets that are */
	uint64_t number;
	char *room; /* as long as the longest buffer */
};

/** struct part - a view of guarded memory: @mine is what was wrapped, or NULL */
struct part {
	struct p2p_buffer *view;
	char *data; /* where the memory begins */
	size_t size;
	void *mine;
	const struct ft_mem_ops *ops;
};

/** struct told - what rank 1 tells of a buffer: @len is an id's length, or an error */
struct told {
	int64_t len;
	char id[P2P_BUFFER_ID_MAX];
};

static int failed(int ret, const char *call)
{
	return ft_fail(ret, call, "see fi_p2p_buffer(3)");
}

/* ---- memory ---- */

/* CUDA's GPUs are allocated from by number; those of another runtime may come second. */
static bool allocates(const struct side *side, enum fi_hmem_iface kind)
{
	return kind != FI_HMEM_ROCR && side->number % 2;
}

static int place(const struct side *side, enum fi_hmem_iface kind)
{
	return kind == FI_HMEM_SYSTEM ? P2P_BUFFER_HOST : side->proc->opts.device;
}

/* Makes memory with guards around @len bytes, and a view of a view of those. */
static int part_open(struct side *side, size_t kind, size_t len, struct part *part)
{
	const enum fi_hmem_iface iface = side->kinds[kind];
	struct p2p_buffer *root, *outer;
	int ret;

	memset(part, 0, sizeof(*part));
	part->ops = ft_mem_ops(iface);
	part->size = len + 2 * GUARD;
	FT_TRY(part->ops->init(side->proc->opts.device));
	if (allocates(side, iface)) {
		ret = p2p_buffer_alloc(side->context, place(side, iface), part->size, &root);
	} else {
		FT_TRY(part->ops->alloc(part->size, &part->mine));
		ret = p2p_buffer_wrap(side->context, place(side, iface), part->mine, part->size,
				      &root);
	}
	if (ret)
		return failed(ret, "p2p_buffer_alloc or _wrap");
	part->data = p2p_buffer_data(root);
	FT_CHECK(p2p_buffer_gpu(root) == place(side, iface), "the place is %d",
		 p2p_buffer_gpu(root));
	outer = p2p_buffer_duplicate(root, 1, part->size - 1);
	part->view = p2p_buffer_duplicate(outer, GUARD - 1, len);
	FT_CHECK(part->view && p2p_buffer_data(part->view) == part->data + GUARD,
		 "no view of a view of %zu bytes", len);
	ret = p2p_buffer_release(root);
	if (!ret)
		ret = p2p_buffer_release(outer);
	return ret ? failed(ret, "p2p_buffer_release") : 0;
}

static int part_close(struct part *part)
{
	int ret = part->view ? p2p_buffer_release(part->view) : 0;

	if (ret)
		return failed(ret, "p2p_buffer_release");
	if (part->mine)
		part->ops->release(part->mine);
	memset(part, 0, sizeof(*part));
	return 0;
}

/* Fills the memory with guards, and its middle with a pattern, or with guards, too, if @key is 0. */
static int part_fill(struct side *side, const struct part *part, uint64_t key)
{
	memset(side->room, FT_GUARD, part->size);
	if (key)
		ft_pattern_fill(side->room + GUARD, part->size - 2 * GUARD, key);
	return part->ops->to(part->data, side->room, part->size);
}

/* Is the pattern of @key in bytes @at to @at + @len of the view, and a guard everywhere else? */
static int part_check(struct side *side, const struct part *part, size_t at, size_t len,
		      uint64_t key, const char *what)
{
	const size_t begin = GUARD + at;
	unsigned char expected;
	ssize_t diff;

	FT_TRY(part->ops->from(side->room, part->data, part->size));
	diff = key ? ft_pattern_diff(side->room + begin, len, key, &expected) : -1;
	FT_CHECK(diff < 0, "%s: byte %zd of %zu is wrong", what, diff, len);
	for (size_t i = 0; i < part->size; i++) {
		if (!key || i < begin || i >= begin + len)
			FT_CHECK((unsigned char) side->room[i] == FT_GUARD,
				 "%s: byte %zu of %zu beside the data was written", what, i,
				 part->size);
	}
	return 0;
}

/* ---- transfers ---- */

/*
 * Reads one completion, if there is one, and goes on with the transfer that it is of. Returns an error
 * that the transfer has ended with.
 */
static int go_on(struct side *side)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry entry = {0};
	ssize_t got = fi_cq_read(side->ctx.cq, &entry, 1);
	struct p2p_buffer_op *op = entry.op_context;
	int next;

	if (got == -FI_EAGAIN)
		return ft_idle(&side->ctx);
	if (got == -FI_EAVAIL) {
		got = fi_cq_readerr(side->ctx.cq, &err, 0);
		op = err.op_context;
	}
	FT_CHECK(got == 1 && op, "a completion queue says %zd", got);
	ft_progress_note();
	while ((next = p2p_buffer_op_next(op, err.err)) == -FI_EAGAIN)
		fi_cq_read(side->ctx.cq, NULL, 0);
	side->under_way -= next != 1;
	return next == 1 ? 0 : next;
}

/* Begins a transfer. While there is no room for it, goes on with others. */
static int begin(struct side *side, bool reads, struct p2p_buffer *local, size_t here,
		 struct p2p_buffer *remote, size_t there, size_t len, struct p2p_buffer_op *op)
{
	int ret;

	while ((ret = reads ? p2p_buffer_read(local, here, remote, there, len, op)
			    : p2p_buffer_write(local, here, remote, there, len, op)) ==
	       -FI_EAGAIN)
		FT_TRY(go_on(side));
	side->under_way += ret == 1;
	return ret == 1 ? 0 : ret;
}

static int finish(struct side *side)
{
	while (side->under_way)
		FT_TRY(go_on(side));
	return 0;
}

/* One transfer from its beginning to its end */
static int transfer(struct side *side, bool reads, struct p2p_buffer *local, size_t here,
		    struct p2p_buffer *remote, size_t there, size_t len)
{
	struct p2p_buffer_op op;

	FT_TRY(begin(side, reads, local, here, remote, there, len, &op));
	return finish(side);
}

/* Reads part of a target until what was written is there: before, it may be on its way. */
static int read_back(struct side *side, const struct part *local, struct p2p_buffer *remote,
		     size_t at, size_t len, uint64_t key)
{
	unsigned char expected;
	ssize_t diff;
	int ret;

	do {
		FT_TRY(part_fill(side, local, 0));
		ret = transfer(side, true, local->view, at, remote, at, len);
		if (ret)
			return failed(ret, "p2p_buffer_read");
		FT_TRY(local->ops->from(side->room, local->data, local->size));
		diff = ft_pattern_diff(side->room + GUARD + at, len, key, &expected);
		FT_TRY(diff < 0 ? 0 : ft_idle(&side->ctx));
	} while (diff >= 0);
	return part_check(side, local, at, len, key, "what was read back");
}

/* ---- what must not work ---- */

static int refuse_ids(struct side *side, const struct told *told)
{
	struct p2p_buffer *none = NULL;
	char id[P2P_BUFFER_ID_MAX];

	for (size_t len = 0; len < sizeof(id); len++) {
		if (len != (size_t) told->len)
			FT_CHECK(p2p_buffer_attach(side->context, side->ctx.peer[1], told->id,
						   len, &none) == -FI_EINVAL,
				 "an id of %zu bytes was taken", len);
	}
	for (size_t i = 0; i < (size_t) told->len; i++) {
		memcpy(id, told->id, sizeof(id));
		id[i] ^= (char) (1 + side->number % 255);
		FT_CHECK(p2p_buffer_attach(side->context, side->ctx.peer[1], id,
					   (size_t) told->len, &none) == -FI_EINVAL,
			 "an id with another byte %zu was taken", i);
	}
	return 0;
}

static int refuse_bounds(struct side *side, struct p2p_buffer *local, struct p2p_buffer *remote)
{
	const size_t size = p2p_buffer_size(remote);
	const size_t parts[][2] = {
		{0, size + 1}, {1, size},     {size, 1},     {size + 1, 0},
		{SIZE_MAX, 1}, {1, SIZE_MAX}, {SIZE_MAX, 2}, {size, SIZE_MAX - size + 1},
	};
	struct p2p_buffer_op op;

	for (size_t i = 0; i < FT_COUNT(parts); i++) {
		const size_t at = parts[i][0], len = parts[i][1];

		FT_CHECK(!p2p_buffer_duplicate(remote, at, len) &&
				 p2p_buffer_write(local, 0, remote, at, len, &op) ==
					 -FI_EINVAL &&
				 p2p_buffer_write(local, at, remote, 0, len, &op) ==
					 -FI_EINVAL &&
				 p2p_buffer_read(local, 0, remote, at, len, &op) ==
					 -FI_EINVAL &&
				 p2p_buffer_read(local, at, remote, 0, len, &op) == -FI_EINVAL,
			 "%zu bytes at %zu are taken for a part of %zu", len, at, size);
	}
	FT_CHECK(!p2p_buffer_write(local, 0, remote, size, 0, &op), "no bytes are an error");
	return 0;
}

/* ---- a target, from both ends ---- */

static const char *const kind_names[] = {"host", "device"};

/* May it be that peers cannot reach such memory? */
static bool may_be_unreachable(const struct side *side, size_t kind)
{
	return kind && (ft_hook_active() || !ft_is_p2p(&side->ctx));
}

/* What the library says has to be what the endpoint says of the same memory. */
static int check_gpudirect(const struct side *side, size_t kind, const struct part *part,
			   bool said)
{
	const struct ft_buf buf = {.addr = part->data};
	/* what the library allocates is longer than short messages are */
	const size_t size = part->mine ? part->size : FT_MAX(part->size, 2 * SHORT_MAX);
	const int path = ft_path(side->ctx.ep, &buf, kind ? size : part->size);

	FT_CHECK(said == (kind && path == FI_P2P_PATH_PEER), "is it GPUDirect: %d, path %d",
		 said, path);
	return 0;
}

static int tell(struct side *side, size_t kind, const struct part *part, struct told *told)
{
	size_t len = sizeof(told->id);
	int ret = p2p_buffer_id(part->view, told->id, &len);

	told->len = ret ? ret : (int64_t) len;
	ret = p2p_buffer_is_gpudirect(part->view);
	FT_CHECK(ret == 0 || ret == 1, "p2p_buffer_is_gpudirect: %d", ret);
	FT_TRY(check_gpudirect(side, kind, part, ret));
	side->gpudirect += (size_t) ret;
	FT_CHECK(told->len > 0 || may_be_unreachable(side, kind), "no id: %s",
		 fi_strerror((int) -told->len));
	return ft_oob_send(side->proc->fd[0], told, sizeof(*told));
}

/* Does the owner see that memory was released? A NIC may keep it; the core's keys are its business. */
static bool knows_released(const struct side *side, size_t kind)
{
	return kind && ft_is_p2p(&side->ctx) && !ft_over_verbs(&side->proc->opts);
}

static int own(struct side *side, size_t kind, size_t size)
{
	const size_t inner = size > 2 ? size - 2 : 0;
	const uint64_t key = side->number * 4;
	struct told told = {0};
	struct part part;

	FT_TRY(part_open(side, kind, size, &part));
	FT_TRY(part_fill(side, &part, 0));
	FT_TRY(tell(side, kind, &part, &told));
	if (told.len < 0)
		return part_close(&part);
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(part_check(side, &part, 1, inner, inner ? key + 1 : 0, "a part of a target"));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(part_check(side, &part, 0, size, key + 2, "a target"));
	FT_TRY(part_fill(side, &part, key + 3));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(part_check(side, &part, 0, size, key + 3, "a target that was read"));
	FT_TRY(part_close(&part));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	return knows_released(side, kind) ? ft_barrier(side->proc, &side->ctx) : 0;
}

static int write_whole(struct side *side, const struct part *local, struct p2p_buffer *remote,
		       size_t at, size_t len, uint64_t key)
{
	int ret;

	memset(side->room, FT_GUARD, local->size);
	ft_pattern_fill(side->room + GUARD + at, len, key);
	FT_TRY(local->ops->to(local->data, side->room, local->size));
	ret = transfer(side, false, local->view, at, remote, at, len);
	if (ret)
		return failed(ret, "p2p_buffer_write");
	return read_back(side, local, remote, at, len, key);
}

static int use(struct side *side, const struct part *local, struct p2p_buffer *remote,
	       bool knows)
{
	const size_t size = p2p_buffer_size(remote);
	const uint64_t key = side->number * 4;
	int ret;

	FT_TRY(refuse_bounds(side, local->view, remote));
	if (size > 2)
		FT_TRY(write_whole(side, local, remote, 1, size - 2, key + 1));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(write_whole(side, local, remote, 0, size, key + 2));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(read_back(side, local, remote, 0, size, key + 3));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	if (!knows)
		return 0;
	/* the owner has released it */
	FT_TRY(part_fill(side, local, 0));
	ret = transfer(side, true, local->view, 0, remote, 0, size);
	FT_CHECK(ret == -FI_EKEYREJECTED || ret == -FI_EACCES,
		 "a read of released memory ended with %d (%s)", ret, fi_strerror(-ret));
	FT_TRY(part_check(side, local, 0, 0, 0, "a read of released memory"));
	return ft_barrier(side->proc, &side->ctx);
}

static int initiate(struct side *side, size_t from, size_t to, size_t size)
{
	struct p2p_buffer *whole, *remote;
	struct part local;
	struct told told;
	int ret;

	FT_TRY(ft_oob_recv(side->proc->fd[1], &told, sizeof(told), side->proc->opts.timeout));
	if (told.len < 0)
		return 0;
	FT_TRY(refuse_ids(side, &told));
	ret = p2p_buffer_attach(side->context, side->ctx.peer[1], told.id, (size_t) told.len,
				&whole);
	if (ret)
		return failed(ret, "p2p_buffer_attach");
	FT_CHECK(p2p_buffer_size(whole) == size && !p2p_buffer_data(whole) &&
			 p2p_buffer_gpu(whole) == place(side, side->kinds[to]),
		 "attached: %zu bytes on %d", p2p_buffer_size(whole), p2p_buffer_gpu(whole));
	remote = p2p_buffer_duplicate(whole, 0, size);
	FT_CHECK(remote && !p2p_buffer_release(whole), "no view of what is remote");
	FT_TRY(part_open(side, from, size, &local));
	FT_TRY(use(side, &local, remote, knows_released(side, to)));
	ret = p2p_buffer_release(remote);
	return ret ? failed(ret, "p2p_buffer_release") : part_close(&local);
}

static int pairs(struct side *side)
{
	const size_t step = side->proc->opts.quick ? 2 : 1;

	for (size_t from = 0; from < side->kind_count; from++) {
		for (size_t to = 0; to < side->kind_count; to++) {
			for (size_t i = 0; i < FT_COUNT(sizes); i += step) {
				const size_t size = sizes[(i + from) % FT_COUNT(sizes)];

				side->number++;
				if (side->proc->rank ? own(side, to, size)
						     : initiate(side, from, to, size)) {
					ft_err("%s to %s, %zu bytes: failed", kind_names[from],
					       kind_names[to], size);
					return -FI_EOTHER;
				}
			}
		}
	}
	return 0;
}

/* ---- many at a time ---- */

/* Each between views of its own, which are released at once */
static int many_transfers(struct side *side, bool reads, const struct part *local,
			  struct p2p_buffer *remote)
{
	static struct p2p_buffer_op ops[MANY];
	int ret = 0;

	for (size_t i = 0; !ret && i < MANY; i++) {
		struct p2p_buffer *here, *there;

		here = p2p_buffer_duplicate(local->view, i * MANY_LEN, MANY_LEN);
		there = p2p_buffer_duplicate(remote, i * MANY_LEN, MANY_LEN);
		ret = begin(side, reads, here, 0, there, 0, MANY_LEN, &ops[i]);
		p2p_buffer_release(here);
		p2p_buffer_release(there);
	}
	if (!ret)
		ret = finish(side);
	return ret ? failed(ret, "one of many transfers") : 0;
}

static int many(struct side *side, size_t kind)
{
	const size_t size = (size_t) MANY * MANY_LEN;
	struct p2p_buffer *remote;
	struct told told = {0};
	struct part part;
	int ret;

	side->number++;
	/* the owner's is the host's */
	FT_TRY(part_open(side, side->proc->rank ? 0 : kind, size, &part));
	FT_TRY(part_fill(side, &part, side->proc->rank ? 0 : side->number));
	if (side->proc->rank) {
		FT_TRY(tell(side, 0, &part, &told));
		FT_TRY(ft_barrier(side->proc, &side->ctx));
		FT_TRY(part_check(side, &part, 0, size, side->number, "many writes"));
		return part_close(&part);
	}
	FT_TRY(ft_oob_recv(side->proc->fd[1], &told, sizeof(told), side->proc->opts.timeout));
	ret = p2p_buffer_attach(side->context, side->ctx.peer[1], told.id, (size_t) told.len,
				&remote);
	if (ret)
		return failed(ret, "p2p_buffer_attach");
	FT_TRY(many_transfers(side, false, &part, remote));
	FT_TRY(read_back(side, &part, remote, 0, size, side->number));
	FT_TRY(part_fill(side, &part, 0));
	FT_TRY(many_transfers(side, true, &part, remote));
	FT_TRY(part_check(side, &part, 0, size, side->number, "many reads"));
	p2p_buffer_release(remote);
	FT_TRY(ft_barrier(side->proc, &side->ctx));
	return part_close(&part);
}

/* ---- domains ---- */

static int with_keys(struct ft_proc *proc, bool chosen)
{
	struct side side = {.proc = proc};
	const size_t room = sizes[FT_COUNT(sizes) - 1] + 2 * GUARD;
	int ret;

	side.kind_count = ft_kinds(&proc->opts, side.kinds);
	FT_TRY(ft_test_hints(proc, &side.ctx));
	side.ctx.hints->caps |= FI_RMA;
	if (!chosen)
		side.ctx.hints->domain_attr->mr_mode &= ~FI_MR_PROV_KEY;
	FT_TRY(ft_test_open(proc, &side.ctx));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	side.room = malloc(room);
	FT_CHECK(side.room, "no memory");
	ret = p2p_buffer_context_open(side.ctx.domain, side.ctx.ep, side.ctx.info,
				      &side.context);
	if (ret)
		return failed(ret, "p2p_buffer_context_open");
	FT_TRY(pairs(&side));
	for (size_t i = 0; i < side.kind_count; i++)
		FT_TRY(many(&side, i));
	FT_TRY(ft_barrier(proc, &side.ctx));
	ret = p2p_buffer_context_close(side.context);
	if (ret)
		return failed(ret, "p2p_buffer_context_close");
	if (side.gpudirect)
		printf("targets that the NIC itself reaches: %zu\n", side.gpudirect);
	free(side.room);
	return ft_close(&side.ctx);
}

/* The core provider alone takes no GPU memory, whatever it is asked for. */
static int without_ours(struct ft_proc *proc)
{
	char core[FT_NAME_MAX], *end;

	snprintf(core, sizeof(core), "%s", proc->opts.prov ? proc->opts.prov : "");
	end = strstr(core, ";ofi_p2p");
	if (!end)
		return 0;
	*end = '\0';
	proc->opts.prov = core;
	proc->opts.no_hmem = true;
	proc->opts.automatic = false;
	return with_keys(proc, true);
}

static int run(struct ft_proc *proc)
{
	/* a NIC chooses its keys: verbs is not there for who does not let it */
	const bool nic = ft_over_verbs(&proc->opts);

	FT_TRY(with_keys(proc, true));
	FT_TRY(nic ? 0 : with_keys(proc, false));
	return without_ours(proc);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "RDMA buffer objects: memory kinds, views, bounds, ids, transfers.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
