/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_objects: objects in unusual orders. A domain is busy as long as a region or a poll set
 * is open, whoever serves it; a queue leaves its poll set when it is closed, and can be read when
 * the address vector is closed already; what is refused is refused before anything happens. An
 * endpoint that is not enabled yet is in nobody's way. One that lacks a queue is not enabled until it has one.
 * A region of all memory (from address zero on), which some register once for everything:
 * a peer writes and reads memory of each kind through it.
 * A mem_tag_format that the application has changed. And keys of the provider's choice: none of them tells anything of another one.
 */
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "ft_test.h"

#define SIZE ((size_t) 70001)
#define KEY 42

static int expect(int ret, int expected, const char *what)
{
	FT_CHECK(ret == expected, "%s: %s, not %s", what, fi_strerror(-ret),
		 fi_strerror(-expected));
	return 0;
}

static int no_list(struct ft_pair *pair)
{
	struct ft_ctx *const ctx = &pair->ctx;

	if (!(ctx->info->caps & FI_RMA))
		return 0;
	FT_TRY(expect((int) fi_writev(ctx->ep, NULL, NULL, 1, pair->peer, 0, KEY, NULL),
		      -FI_EINVAL, "fi_writev of no list"));
	return expect((int) fi_readv(ctx->ep, NULL, NULL, 1, pair->peer, 0, KEY, NULL),
		      -FI_EINVAL, "fi_readv of no list");
}

/* ---- all of memory ---- */

static int all_register(struct ft_ctx *ctx, struct fid_mr **mr)
{
	int ret = fi_mr_reg(ctx->domain, NULL, SIZE_MAX, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
			    KEY, 0, mr, NULL);

	return ret ? ft_fail(ret, "fi_mr_reg", "all of memory") : 0;
}

/* One read or write, of the buffer in @slot and of the memory at @addr, and its end */
static int all_move(struct ft_pair *pair, bool read, const struct ft_slot *slot, uint64_t addr,
		    uint64_t key)
{
	char *const buf = slot->buf->addr + slot->off;
	struct ft_ctx *const ctx = &pair->ctx;
	struct ft_req req = {0};
	ssize_t ret;

	while ((ret = read ? fi_read(ctx->ep, buf, slot->len, NULL, pair->peer, addr, key, &req)
			   : fi_write(ctx->ep, buf, slot->len, NULL, pair->peer, addr, key,
				      &req)) == -FI_EAGAIN)
		FT_TRY(ft_progress(ctx) < 0 ? -FI_EIO : 0);
	FT_TRY(expect((int) ret, 0, read ? "fi_read" : "fi_write"));
	return ft_wait(ctx, &req, 1);
}

/* Rank 1 writes into, and reads back, what rank 0 has at the address that it tells */
static int all_access(struct ft_pair *pair, uint64_t key, size_t kind, size_t len)
{
	struct ft_ctx *const ctx = &pair->ctx;
	const struct ft_buf *const buf = &pair->buf[kind];
	const struct ft_slot slot = {buf, 0, SIZE + FT_ROOM, 64, len};
	const int fd = pair->proc->fd[!pair->proc->rank];
	uint64_t target[2] = {key, (uintptr_t) buf->addr + slot.off};

	if (!ft_pair_sends(pair)) {
		FT_TRY(ft_slot_arm(&slot));
		FT_TRY(ft_oob_send(fd, target, sizeof(target)));
		FT_TRY(ft_barrier(pair->proc, ctx));
		return ft_slot_check(&slot, len, KEY, "what a peer wrote");
	}
	FT_TRY(ft_oob_recv(fd, target, sizeof(target), pair->proc->opts.timeout));
	FT_TRY(ft_slot_fill(&slot, KEY));
	FT_TRY(all_move(pair, false, &slot, target[1], target[0]));
	FT_TRY(ft_slot_arm(&slot));
	FT_TRY(all_move(pair, true, &slot, target[1], target[0]));
	FT_TRY(ft_slot_check(&slot, len, KEY, "what was written, read back"));
	return ft_barrier(pair->proc, ctx);
}

/* Keys of the application's choice: the owner serves all of it, and sees what it is */
static int all_of_memory(struct ft_proc *proc)
{
	static const size_t sizes[] = {1, 600, SIZE};
	struct ft_pair pair;
	struct fid_mr *mr;
	size_t kinds;

	FT_TRY(ft_pair_hints(&pair, proc));
	pair.ctx.hints->caps |= FI_RMA;
	pair.ctx.hints->domain_attr->mr_mode &= ~(FI_MR_PROV_KEY | FI_MR_VIRT_ADDR);
	if (!ft_offered(&pair.ctx)) {
		fi_freeinfo(pair.ctx.hints);
		return 0;
	}
	FT_TRY(ft_pair_open(&pair, SIZE));
	FT_TRY(all_register(&pair.ctx, &mr));
	/* with the hook it is the core that serves it */
	kinds = ft_is_p2p(&pair.ctx) ? pair.kind_count : 1;
	for (size_t i = 0; i < FT_COUNT(sizes) * kinds; i++)
		FT_TRY(all_access(&pair, fi_mr_key(mr), i % kinds, sizes[i / kinds]));
	FT_TRY(expect(fi_close(&mr->fid), 0, "fi_close of all of memory"));
	return ft_pair_close(&pair, NULL, 0);
}

/* ---- keys ---- */

/* Random keys of 63 bits are that close to each other once in a billion runs. */
#define KEYS 32
#define KEYS_APART ((uint64_t) 1 << 16)

/* Of all regions in all domains so far, and of one more */
static int key_check(uint64_t key, size_t bits)
{
	static uint64_t keys[4 * KEYS];
	static size_t count;

	FT_CHECK(bits == 64 || !(key >> bits), "key 0x%" PRIx64 " has more than %zu bits", key,
		 bits);
	for (size_t i = 0; i < count; i++)
		FT_CHECK(key - keys[i] + KEYS_APART > 2 * KEYS_APART,
			 "keys 0x%" PRIx64 " and 0x%" PRIx64 " are neighbours", keys[i], key);
	FT_CHECK(count < FT_COUNT(keys), "too many keys");
	keys[count++] = key;
	return 0;
}

/* Regions of both kinds of memory, in a domain */
static int keys_of_domain(struct ft_pair *pair)
{
	struct ft_ctx *const ctx = &pair->ctx;
	struct fid_mr *mr[KEYS];
	int ret;

	for (size_t i = 0; i < KEYS; i++) {
		const struct ft_buf *const buf = &pair->buf[i % pair->kind_count];
		const size_t len = SIZE / KEYS;

		ret = fi_mr_reg(ctx->domain, buf->addr + i * len, len,
				FI_REMOTE_READ | FI_REMOTE_WRITE, 0, i, 0, &mr[i], NULL);
		if (ret)
			return ft_fail(ret, "fi_mr_reg", "region %zu", i);
		FT_TRY(key_check(fi_mr_key(mr[i]), 8 * ctx->info->domain_attr->mr_key_size));
	}
	for (size_t i = 0; i < KEYS; i++)
		FT_TRY(expect(fi_close(&mr[i]->fid), 0, "fi_close of a region"));
	return 0;
}

/* Over verbs it is the NIC that chooses, and with the hook the core. */
static int keys(struct ft_proc *proc)
{
	struct ft_pair pair;

	for (int i = 0; i < 2; i++) {
		FT_TRY(ft_pair_hints(&pair, proc));
		pair.ctx.hints->caps |= FI_RMA;
		if (!ft_offered(&pair.ctx)) {
			fi_freeinfo(pair.ctx.hints);
			return 0;
		}
		FT_TRY(ft_pair_open(&pair, SIZE));
		if (ft_is_p2p(&pair.ctx) && strncmp(proc->opts.prov, "verbs", 5) &&
		    pair.ctx.info->domain_attr->mr_mode & FI_MR_PROV_KEY)
			FT_TRY(keys_of_domain(&pair));
		FT_TRY(ft_pair_close(&pair, NULL, 0));
	}
	return 0;
}

/* ---- who is busy ---- */

/* One region of each kind, and a poll set with the queue in it, keep the domain */
static int busy(struct ft_proc *proc)
{
	struct fi_poll_attr attr = {0};
	struct fid_poll *poll;
	struct ft_pair pair;
	void *context;

	FT_TRY(ft_pair_hints(&pair, proc));
	pair.ctx.hints->caps |= FI_RMA;
	pair.ctx.mr_access = FI_SEND | FI_RECV;
	FT_TRY(ft_pair_open(&pair, SIZE));
	FT_TRY(no_list(&pair));
	FT_TRY(expect(fi_poll_open(pair.ctx.domain, &attr, &poll), 0, "fi_poll_open"));
	FT_TRY(expect(fi_poll_add(poll, &pair.ctx.cq->fid, 0), 0, "fi_poll_add"));
	FT_TRY(ft_barrier(proc, &pair.ctx));
	FT_TRY(expect(fi_close(&pair.ctx.ep->fid), 0, "fi_close of the endpoint"));
	pair.ctx.ep = NULL;
	FT_TRY(expect(fi_close(&pair.ctx.av->fid), 0, "fi_close of the address vector"));
	pair.ctx.av = NULL;
	FT_TRY(expect((int) fi_cq_read(pair.ctx.cq, NULL, 0), -FI_EAGAIN,
		      "reading a queue without an address vector"));
	FT_TRY(expect(fi_close(&pair.ctx.cq->fid), 0, "fi_close of a queue in a poll set"));
	pair.ctx.cq = NULL;
	FT_TRY(expect(fi_poll(poll, &context, 1), 0, "fi_poll of nothing"));
	for (size_t i = 0; i < pair.kind_count; i++) {
		FT_TRY(expect(fi_close(&pair.ctx.domain->fid), -FI_EBUSY,
			      "fi_close of a domain with a region"));
		ft_buf_free(&pair.buf[i]);
	}
	FT_TRY(expect(fi_close(&pair.ctx.domain->fid), -FI_EBUSY,
		      "fi_close of a domain with a poll set"));
	FT_TRY(expect(fi_close(&poll->fid), 0, "fi_close of the poll set"));
	return ft_close(&pair.ctx);
}

/* A message came, its completion waits; the vector goes before it is read */
static int late_read(struct ft_proc *proc)
{
	struct fi_cq_tagged_entry entry;
	struct ft_req req = {0};
	struct ft_pair pair;
	struct ft_slot slot;
	struct ft_op op;
	fi_addr_t src;
	ssize_t ret;

	FT_TRY(ft_pair_hints(&pair, proc));
	pair.ctx.hints->caps |= FI_SOURCE;
	FT_TRY(ft_pair_open(&pair, SIZE));
	slot = ft_pair_message(&pair, pair.kind_count - 1, 0, SIZE, KEY, &req, &op);
	FT_TRY(ft_slot_fill(&slot, ft_pair_sends(&pair) ? KEY : ~KEY));
	FT_TRY(ft_post(&pair.ctx, &op));
	if (ft_pair_sends(&pair))
		FT_TRY(ft_wait(&pair.ctx, &req, 1));
	else
		/* of what there is nothing is taken */
		while ((ret = fi_cq_read(pair.ctx.cq, NULL, 0)) == -FI_EAGAIN)
			FT_TRY(ft_idle(&pair.ctx));
	FT_TRY(ft_meet(proc));
	FT_TRY(expect(fi_close(&pair.ctx.ep->fid), 0, "fi_close of the endpoint"));
	pair.ctx.ep = NULL;
	FT_TRY(expect(fi_close(&pair.ctx.av->fid), 0, "fi_close of the address vector"));
	pair.ctx.av = NULL;
	if (!ft_pair_sends(&pair)) {
		ret = fi_cq_readfrom(pair.ctx.cq, &entry, 1, &src);
		FT_CHECK(ret == 1 && entry.op_context == &req && entry.len == SIZE,
			 "a late read gives %zd", ret);
		FT_TRY(ft_slot_check(&slot, SIZE, KEY, "the message"));
	}
	for (size_t i = 0; i < pair.kind_count; i++)
		ft_buf_free(&pair.buf[i]);
	return ft_close(&pair.ctx);
}

static int wait_for(struct ft_pair *pair, struct ft_req *req)
{
	return ft_wait(&pair->ctx, req, 1);
}

/* Another endpoint has a queue of its own and is not enabled yet, while long messages come and go */
static int half_open(struct ft_proc *proc)
{
	struct ft_pair pair;
	struct fid_ep *ep;
	struct fid_cq *cq;

	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, SIZE));
	/* two endpoints in a domain crash shm of later ones by themselves */
	if (!strncmp(pair.ctx.info->fabric_attr->prov_name, "shm", 3) &&
	    FI_VERSION_GE(fi_version(), FI_VERSION(2, 0)))
		return ft_pair_close(&pair, NULL, 0);
	FT_TRY(expect(fi_cq_open(pair.ctx.domain, &pair.ctx.cq_attr, &cq, NULL), 0,
		      "fi_cq_open"));
	FT_TRY(expect(fi_endpoint(pair.ctx.domain, pair.ctx.info, &ep, NULL), 0,
		      "fi_endpoint"));
	FT_TRY(expect(fi_ep_bind(ep, &pair.ctx.av->fid, 0), 0, "fi_ep_bind"));
	FT_TRY(expect(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0, "fi_ep_bind"));
	if (ft_is_p2p(&pair.ctx))
		FT_TRY(expect(fi_ep_bind(ep, &cq->fid, FI_RECV), -FI_EINVAL,
			      "fi_ep_bind of a second queue"));
	for (size_t i = 0; i < 2 * pair.kind_count; i++)
		FT_TRY(ft_pair_transfer(&pair, i / 2, i / 2, SIZE, i % 2, wait_for));
	FT_TRY(expect(fi_close(&cq->fid), -FI_EBUSY, "fi_close of a queue that is bound"));
	FT_TRY(expect(fi_enable(ep), 0, "fi_enable"));
	FT_TRY(ft_pair_transfer(&pair, 0, 0, SIZE, true, wait_for));
	FT_TRY(ft_barrier(proc, &pair.ctx));
	FT_TRY(expect(fi_close(&ep->fid), 0, "fi_close of another endpoint"));
	FT_TRY(expect(fi_close(&cq->fid), 0, "fi_close of its queue"));
	return ft_pair_close(&pair, NULL, 0);
}

/* An endpoint is enabled too early, and again when all is there. @cntr: counts receives in place of a queue, or NULL */
static int repair(struct ft_ctx *ctx, struct fid_cq *cq, struct fid_cntr *cntr)
{
	struct fid_ep *ep;

	FT_TRY(expect(fi_endpoint(ctx->domain, ctx->info, &ep, NULL), 0, "fi_endpoint"));
	FT_TRY(expect(fi_ep_bind(ep, &ctx->av->fid, 0), 0, "fi_ep_bind of a vector"));
	FT_TRY(expect(fi_enable(ep), -FI_ENOCQ, "fi_enable without queues"));
	if (cntr) {
		FT_TRY(expect(fi_ep_bind(ep, &cntr->fid, FI_RECV), 0,
			      "fi_ep_bind of a counter"));
		FT_TRY(expect(fi_enable(ep), -FI_ENOCQ, "fi_enable with a counter alone"));
	}
	FT_TRY(expect(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT), 0, "fi_ep_bind of a queue"));
	if (!cntr) {
		FT_TRY(expect(fi_enable(ep), -FI_ENOCQ, "fi_enable without one queue"));
		FT_TRY(expect(fi_ep_bind(ep, &cq->fid, FI_RECV), 0,
			      "fi_ep_bind of the queue that was missing"));
	}
	FT_TRY(expect(fi_enable(ep), 0, "fi_enable with all there is"));
	return expect(fi_close(&ep->fid), 0, "fi_close of the endpoint");
}

/* A queue that is missing is told, whatever an endpoint is for, and may be bound then. */
static int repaired(struct ft_proc *proc, uint64_t caps)
{
	struct fid_cntr *cntr;
	struct ft_pair pair;
	struct fid_cq *cq;

	FT_TRY(ft_pair_hints(&pair, proc));
	pair.ctx.hints->caps |= caps;
	if (!ft_offered(&pair.ctx)) {
		fi_freeinfo(pair.ctx.hints);
		return 0;
	}
	FT_TRY(ft_pair_open(&pair, SIZE));
	/* as in half_open(); and it is cores that are asked without us */
	if (!ft_is_p2p(&pair.ctx) ||
	    (!strncmp(pair.ctx.info->fabric_attr->prov_name, "shm", 3) &&
	     FI_VERSION_GE(fi_version(), FI_VERSION(2, 0))))
		return ft_pair_close(&pair, NULL, 0);
	FT_TRY(expect(fi_cq_open(pair.ctx.domain, &pair.ctx.cq_attr, &cq, NULL), 0,
		      "fi_cq_open"));
	FT_TRY(ft_cntr_open(&pair.ctx, FI_WAIT_NONE, 0, &cntr));
	FT_TRY(repair(&pair.ctx, cq, NULL));
	FT_TRY(repair(&pair.ctx, cq, cntr));
	FT_TRY(ft_pair_transfer(&pair, 0, 0, SIZE, true, wait_for));
	FT_TRY(ft_barrier(proc, &pair.ctx));
	FT_TRY(expect(fi_close(&cntr->fid), 0, "fi_close of the counter"));
	FT_TRY(expect(fi_close(&cq->fid), 0, "fi_close of the queue"));
	return ft_pair_close(&pair, NULL, 0);
}

/* ---- mem_tag_format ---- */

/* The receiver's receive takes messages of any tag, beside a long one for which control messages come. */
static int any_tag(struct ft_pair *pair)
{
	struct ft_req req = {0};
	struct ft_slot slot;
	struct ft_op op;

	slot = ft_pair_message(pair, pair->kind_count - 1, 0, SIZE, KEY, &req, &op);
	op.ignore = ft_pair_sends(pair) ? 0 : ~0ULL;
	FT_TRY(ft_slot_fill(&slot, ft_pair_sends(pair) ? KEY : ~KEY));
	FT_TRY(ft_post(&pair->ctx, &op));
	FT_TRY(ft_wait(&pair->ctx, &req, 1));
	FT_CHECK(ft_pair_sends(pair) || req.comp.tag == op.tag,
		 "a message of %zu bytes has tag %#" PRIx64, req.comp.len, req.comp.tag);
	return ft_pair_sends(pair) ? 0 : ft_slot_check(&slot, SIZE, KEY, "the message");
}

/* What an application writes there between fi_getinfo and fi_endpoint does no harm, nor that it is another's. */
static int tag_format(struct ft_proc *proc, uint64_t format, bool both)
{
	struct ft_pair pair;

	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_getinfo(&pair.ctx, proc->opts.src_addr, NULL,
			  proc->opts.src_addr ? FI_SOURCE : 0));
	if (!ft_is_p2p(&pair.ctx))
		return ft_close(&pair.ctx);
	if (both || proc->rank)
		pair.ctx.info->ep_attr->mem_tag_format = format;
	FT_TRY(ft_open(&pair.ctx));
	FT_TRY(ft_pair_join(&pair, SIZE));
	for (int i = 0; i < 3; i++)
		FT_TRY(any_tag(&pair));
	FT_TRY(ft_barrier(proc, &pair.ctx));
	return ft_pair_close(&pair, NULL, 0);
}

static int tag_formats(struct ft_proc *proc)
{
	static const uint64_t formats[] = {0, 0xff, ~0ULL >> 4, ~0ULL >> 3, ~0ULL};

	for (size_t i = 0; i < 2 * FT_COUNT(formats); i++) {
		int ret = tag_format(proc, formats[i / 2], i % 2);

		if (ret) {
			ft_err("mem_tag_format %#" PRIx64 " of %s", formats[i / 2],
			       i % 2 ? "both" : "one");
			return ret;
		}
	}
	return 0;
}

static int run(struct ft_proc *proc)
{
	FT_TRY(tag_formats(proc));
	FT_TRY(busy(proc));
	FT_TRY(late_read(proc));
	FT_TRY(half_open(proc));
	FT_TRY(repaired(proc, 0));
	FT_TRY(repaired(proc, FI_TRIGGER));
	FT_TRY(keys(proc));
	return all_of_memory(proc);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Objects in unusual orders, a region of all memory, and keys.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
