/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The plugin's RDMA protocol: the receiver writes into the sender's mailbox where the message is to go, the sender writes
 * it there with remote cq data, and the receiver reads a little of its own memory. Short ones go eagerly, in two pieces,
 * and are read from the buffer that they came in. And GIN by proxy, on an endpoint of its own in the same domain: a
 * write with remote cq data takes a receive at the target, whose completion tells who has written; a message with a
 * signal goes beside it, and is answered.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

#define DEPTH 8 /* of either direction */
#define ROUNDS 6
#define LARGEST ((size_t) 300 << 10)
#define SLOT (LARGEST + FT_ROOM)
#define OFFSET 64
#define EAGER_LEN ((size_t) 8192)
#define HEADER_LEN ((size_t) 16)
#define ACCESS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

/** struct memory - a buffer of the plugin's, and its region */
struct memory {
	struct ft_buf buf;
	struct fid_mr *mr;
};

/* What the other end has to know of three of them, and of the endpoint */
struct remote {
	uint64_t addr[3], key[3];
	struct nccl_name name;
};

enum { SOURCE, TARGET, HOST, MEMORIES };

/* The host's buffer: where the other end may write, and what it is written from, and messages */
struct host {
	struct mail {
		uint64_t number, addr, key, len;
	} mailbox[DEPTH], outgoing[DEPTH];
	struct message {
		uint64_t kind, number, value, unused;
	} messages[4 * DEPTH], received[4 * DEPTH];
	char headers[DEPTH][HEADER_LEN];
	char eager[DEPTH][HEADER_LEN + EAGER_LEN];
	char flush[64];
};

struct rdma {
	struct ft_proc *proc;
	struct nccl_ep ep;
	struct memory memory[MEMORIES];
	struct remote here, there;
	fi_addr_t peer;
	struct nccl_req post[DEPTH], recv[4 * DEPTH], send[4 * DEPTH];
	size_t sends;
	uint64_t arrived[DEPTH], signalled[DEPTH], answered, mails;
	uint64_t round;
};

static size_t len_of(uint64_t round, size_t i)
{
	static const size_t sizes[] = {LARGEST, 8, 131072, 4096, 1, 70001};

	return sizes[(round + i) % FT_COUNT(sizes)];
}

static uint64_t key_of(int rank, uint64_t round, size_t i)
{
	return ((uint64_t) rank * ROUNDS + round) * DEPTH + i;
}

/* Remote cq data has 32 bits; there is always something in the upper ones */
static uint64_t data_of(uint64_t round, size_t i)
{
	return 0xabc00000 | round << 8 | i;
}

static struct ft_slot slot_of(const struct rdma *r, int memory, size_t i, size_t len)
{
	return (struct ft_slot){&r->memory[memory].buf, i * SLOT, SLOT, i * SLOT + OFFSET, len};
}

static struct host *host_of(const struct rdma *r)
{
	return (struct host *) r->memory[HOST].buf.addr;
}

static bool is_virt(const struct rdma *r)
{
	return r->ep.dev->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
}

/* The name that a peer has for a place in a region that is at @base here */
static uint64_t name_of(const struct rdma *r, uint64_t base, const void *base_here,
			const void *place)
{
	return (is_virt(r) ? base : 0) +
	       (size_t) ((const char *) place - (const char *) base_here);
}

/* ---- what there is ---- */

static int open_memory(struct rdma *r, int i, const struct ft_mem_ops *ops, size_t size)
{
	struct memory *const memory = &r->memory[i];
	const bool gpu = ops->iface != FI_HMEM_SYSTEM;
	void *addr;

	memory->buf.ops = ops;
	memory->buf.size = size;
	FT_TRY(ops->init(r->proc->opts.device));
	FT_TRY(ops->alloc(size, &addr));
	memory->buf.addr = addr;
	FT_TRY(nccl_register(r->ep.dev, addr, size, gpu, gpu && i == TARGET, ACCESS,
			     &memory->mr));
	r->here.addr[i] = (uintptr_t) addr;
	r->here.key[i] = fi_mr_key(memory->mr);
	return 0;
}

static int open_all(struct rdma *r, struct nccl_dev *dev, enum nccl_kind kind)
{
	const int fd = r->proc->fd[!r->proc->rank];
	const struct ft_mem_ops *const gpu = ft_mem_ops(r->proc->opts.iface);

	FT_TRY(nccl_ep_open(&r->ep, dev, kind));
	FT_TRY(open_memory(r, SOURCE, gpu, DEPTH * SLOT));
	FT_TRY(open_memory(r, TARGET, gpu, DEPTH * SLOT));
	FT_TRY(open_memory(r, HOST, ft_mem_ops(FI_HMEM_SYSTEM), sizeof(struct host)));
	memset(host_of(r), 0, sizeof(struct host));
	r->here.name = r->ep.name;
	r->ep.test = r;
	FT_TRY(ft_oob_send(fd, &r->here, sizeof(r->here)));
	FT_TRY(ft_oob_recv(fd, &r->there, sizeof(r->there), r->proc->opts.timeout));
	FT_CHECK(fi_av_insert(r->ep.av, r->there.name.bytes, 1, &r->peer, 0, NULL) == 1,
		 "fi_av_insert failed");
	return nccl_meet(r->proc, &r->ep, 1);
}

/* The endpoint first: messages and receives may be pending in the regions. */
static int close_all(struct rdma *r)
{
	FT_TRY(nccl_ep_abort(&r->ep));
	for (int i = 0; i < MEMORIES; i++) {
		FT_TRY(nccl_close(&r->memory[i].mr->fid, "region"));
		r->memory[i].buf.ops->release(r->memory[i].buf.addr);
	}
	return nccl_ep_close(&r->ep);
}

static int prepare(struct rdma *r)
{
	for (size_t i = 0; i < DEPTH; i++) {
		const size_t len = len_of(r->round, i);
		const struct ft_slot from = slot_of(r, SOURCE, i, len);
		const struct ft_slot to = slot_of(r, TARGET, i, len);

		FT_TRY(ft_slot_fill(&from, key_of(r->proc->rank, r->round, i)));
		FT_TRY(ft_slot_arm(&to));
		r->post[i] = (struct nccl_req){.done = false};
		r->arrived[i] = r->signalled[i] = 0;
	}
	return 0;
}

static int check(struct rdma *r, size_t i, const char *what)
{
	const struct ft_slot slot = slot_of(r, TARGET, i, len_of(r->round, i));

	return ft_slot_check(&slot, slot.len, key_of(!r->proc->rank, r->round, i), what);
}

/* A read of this endpoint's own memory */
static int read_here(struct rdma *r, void *to, size_t len, int to_memory, const void *from,
		     int from_memory)
{
	const struct memory *const source = &r->memory[from_memory];
	struct nccl_req req = {.done = false};

	NCCL_POST(&r->ep,
		  fi_read(r->ep.ep, to, len, fi_mr_desc(r->memory[to_memory].mr), r->ep.self,
			  name_of(r, (uintptr_t) source->buf.addr, source->buf.addr, from),
			  fi_mr_key(source->mr), &req.context));
	return nccl_wait(&r->ep, &req, 1);
}

/* ---- the RDMA protocol ---- */

/* Whose message is there, remote cq data tells alone. */
static int written(struct nccl_ep *ep, const struct fi_cq_tagged_entry *comp)
{
	struct rdma *const r = ep->test;
	const size_t i = comp->data & 0xff;

	FT_CHECK(comp->flags & FI_REMOTE_WRITE && i < DEPTH &&
			 comp->data == data_of(r->round, i),
		 "written by a peer: flags 0x%" PRIx64 ", data 0x%" PRIx64, comp->flags,
		 comp->data);
	r->arrived[i]++;
	return 0;
}

/* Tells the sender where message @i is to go. */
static int tell_sender(struct rdma *r, size_t i, struct nccl_req *req)
{
	struct host *const host = host_of(r);
	const struct ft_slot slot = slot_of(r, TARGET, i, len_of(r->round, i));
	const char *const at = slot.buf->addr + slot.off;

	host->outgoing[i] = (struct mail){
		.number = r->round + 1,
		.addr = name_of(r, r->here.addr[TARGET], slot.buf->addr, at),
		.key = r->here.key[TARGET],
		.len = slot.len,
	};
	*req = (struct nccl_req){.done = false};
	NCCL_POST(&r->ep, fi_write(r->ep.ep, &host->outgoing[i], sizeof(host->outgoing[i]),
				   fi_mr_desc(r->memory[HOST].mr), r->peer,
				   name_of(r, r->there.addr[HOST], host, &host->mailbox[i]),
				   r->there.key[HOST], &req->context));
	return 0;
}

/* Nothing but the mailbox itself says that there is mail. */
static int wait_for_mail(struct rdma *r, size_t i, struct mail *mail)
{
	const struct mail *const box = &host_of(r)->mailbox[i];

	while (__atomic_load_n(&box->number, __ATOMIC_ACQUIRE) != r->round + 1 ||
	       !__atomic_load_n(&box->len, __ATOMIC_ACQUIRE))
		FT_TRY(nccl_progress(&r->ep));
	*mail = *box;
	FT_CHECK(mail->len == len_of(r->round, i), "mail of %" PRIu64 " bytes", mail->len);
	return 0;
}

static int send_to(struct rdma *r, size_t i)
{
	const struct ft_slot slot = slot_of(r, SOURCE, i, len_of(r->round, i));
	struct mail mail;

	FT_TRY(wait_for_mail(r, i, &mail));
	NCCL_POST(&r->ep, fi_writedata(r->ep.ep, slot.buf->addr + slot.off, slot.len,
				       fi_mr_desc(r->memory[SOURCE].mr), data_of(r->round, i),
				       r->peer, mail.addr, mail.key, &r->post[i].context));
	return 0;
}

static int flush(struct rdma *r, size_t i)
{
	const struct ft_slot slot = slot_of(r, TARGET, i, len_of(r->round, i));

	return read_here(r, host_of(r)->flush, sizeof(host_of(r)->flush), HOST,
			 slot.buf->addr + slot.off, TARGET);
}

static int rdma_round(struct rdma *r)
{
	struct nccl_req told[DEPTH];

	FT_TRY(prepare(r));
	FT_TRY(nccl_meet(r->proc, &r->ep, 1));
	for (size_t i = 0; i < DEPTH; i++)
		FT_TRY(tell_sender(r, i, &told[i]));
	for (size_t i = 0; i < DEPTH; i++)
		FT_TRY(send_to(r, i));
	FT_TRY(nccl_wait(&r->ep, told, DEPTH));
	FT_TRY(nccl_wait(&r->ep, r->post, DEPTH));
	for (size_t i = 0; i < DEPTH; i++) {
		while (!r->arrived[i])
			FT_TRY(nccl_progress(&r->ep));
		FT_TRY(flush(r, i));
		FT_TRY(check(r, i, "what was written with data"));
	}
	return nccl_meet(r->proc, &r->ep, 1);
}

/* A header of the host and a payload of the device come into one buffer of the host, and are read from there. */
static int eager(struct rdma *r, size_t len)
{
	struct host *const host = host_of(r);
	const struct ft_slot from = slot_of(r, SOURCE, 0, len), to = slot_of(r, TARGET, 0, len);
	struct iovec iov[2] = {{host->headers[0], HEADER_LEN},
			       {from.buf->addr + from.off, len}};
	void *desc[2] = {fi_mr_desc(r->memory[HOST].mr), fi_mr_desc(r->memory[SOURCE].mr)};
	const struct fi_msg msg = {.msg_iov = iov,
				   .desc = desc,
				   .iov_count = 2,
				   .addr = r->peer,
				   .context = &r->post[0].context,
				   .data = data_of(7, len % 256)};

	r->post[0] = r->recv[0] = (struct nccl_req){.done = false};
	FT_TRY(ft_slot_fill(&from, key_of(r->proc->rank, 0, 0)));
	FT_TRY(ft_slot_arm(&to));
	memset(host->headers[0], 0x30 + r->proc->rank, HEADER_LEN);
	NCCL_POST(&r->ep,
		  fi_recv(r->ep.ep, host->eager[0], sizeof(host->eager[0]),
			  fi_mr_desc(r->memory[HOST].mr), FI_ADDR_UNSPEC, &r->recv[0].context));
	FT_TRY(nccl_meet(r->proc, &r->ep, 1));
	NCCL_POST(&r->ep, fi_sendmsg(r->ep.ep, &msg, FI_REMOTE_CQ_DATA));
	FT_TRY(nccl_wait(&r->ep, r->post, 1));
	FT_TRY(nccl_wait(&r->ep, r->recv, 1));
	FT_CHECK(r->recv[0].comp.flags & FI_RECV && r->recv[0].comp.flags & FI_REMOTE_CQ_DATA &&
			 r->recv[0].comp.data == data_of(7, len % 256) &&
			 r->recv[0].comp.len == HEADER_LEN + len &&
			 host->eager[0][0] == 0x30 + !r->proc->rank,
		 "an eager message: flags 0x%" PRIx64 ", %zu bytes", r->recv[0].comp.flags,
		 r->recv[0].comp.len);
	if (len)
		FT_TRY(read_here(r, to.buf->addr + to.off, len, TARGET,
				 host->eager[0] + HEADER_LEN, HOST));
	FT_TRY(ft_slot_check(&to, len, key_of(!r->proc->rank, 0, 0), "an eager message"));
	return nccl_meet(r->proc, &r->ep, 1);
}

static int rdma_protocol(struct ft_proc *proc, struct nccl_dev *dev)
{
	static const size_t eagers[] = {0, 8, 4000, EAGER_LEN};
	struct rdma *const r = calloc(1, sizeof(*r));

	if (!r)
		return -FI_ENOMEM;
	r->proc = proc;
	FT_TRY(open_all(r, dev, NCCL_RDMA));
	r->ep.foreign = written;
	FT_TRY(nccl_connect(proc, &r->ep));
	for (; r->round < ROUNDS; r->round++)
		FT_TRY(rdma_round(r));
	for (size_t i = 0; i < FT_COUNT(eagers); i++)
		FT_TRY(eager(r, eagers[i]));
	FT_TRY(close_all(r));
	free(r);
	return 0;
}

/* ---- GIN ---- */

enum { METADATA = 1, ACK };

/* Remote cq data of what goes from host to host, to a mailbox */
#define MAIL 0x80
#define MAIL_INJECTED 0x81

static int gin_recv(struct rdma *r, size_t i)
{
	struct message *const room = &host_of(r)->received[i];

	NCCL_POST(&r->ep, fi_recv(r->ep.ep, room, sizeof(*room), fi_mr_desc(r->memory[HOST].mr),
				  FI_ADDR_UNSPEC, &r->recv[i].context));
	return 0;
}

static int gin_sent(struct nccl_ep *ep, struct nccl_req *req)
{
	struct rdma *const r = ep->test;

	r->sends--;
	req->done = true;
	return 0;
}

/* @more: the next one follows at once */
static int gin_send(struct rdma *r, size_t i, struct message message, uint64_t more)
{
	const size_t at = (message.kind == ACK ? DEPTH : 0) + i;
	struct message *const room = &host_of(r)->messages[at];
	struct iovec iov = {room, sizeof(*room)};
	void *desc = fi_mr_desc(r->memory[HOST].mr);
	const struct fi_msg msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = r->peer,
		.context = &r->send[at].context,
	};

	*room = message;
	r->send[at] = (struct nccl_req){.arrived = gin_sent};
	r->sends++;
	if (message.kind == ACK)
		NCCL_POST(&r->ep, fi_send(r->ep.ep, room, sizeof(*room), desc, r->peer,
					  &r->send[at].context));
	else
		NCCL_POST(&r->ep, fi_sendmsg(r->ep.ep, &msg, more));
	return 0;
}

/* A receive has been taken: by a write, or by a message. Who sent it is the peer in either case. */
static int gin_arrived(struct nccl_ep *ep, struct nccl_req *req)
{
	struct rdma *const r = ep->test;
	const size_t at = (size_t) (req - r->recv);
	const struct message *const message = &host_of(r)->received[at];
	const size_t i = req->comp.data & 0xff;
	const size_t mail = i - MAIL;

	FT_CHECK(req->source == r->peer, "from address %" PRIu64 ", not %" PRIu64, req->source,
		 r->peer);
	if (req->comp.flags & FI_REMOTE_WRITE && mail < 2) {
		FT_CHECK(host_of(r)->mailbox[mail].number == r->round + 1,
			 "mail %" PRIu64 " in round %" PRIu64, host_of(r)->mailbox[mail].number,
			 r->round);
		r->mails++;
	} else if (req->comp.flags & FI_REMOTE_WRITE) {
		FT_CHECK(!(req->comp.flags & FI_RECV) && i < DEPTH &&
				 req->comp.data == data_of(r->round, i),
			 "a write has taken a receive: flags 0x%" PRIx64 ", data 0x%" PRIx64,
			 req->comp.flags, req->comp.data);
		r->arrived[i]++;
	} else if (message->kind == ACK) {
		r->answered++;
	} else {
		FT_CHECK(message->kind == METADATA && message->number < DEPTH &&
				 req->comp.len == sizeof(*message),
			 "a message of %zu bytes, kind %" PRIu64, req->comp.len, message->kind);
		r->signalled[message->number] = message->value;
	}
	return gin_recv(r, at);
}

static int gin_put(struct rdma *r, size_t i, bool signal)
{
	const struct ft_slot from = slot_of(r, SOURCE, i, len_of(r->round, i));
	const char *const base = r->memory[TARGET].buf.addr;
	struct iovec iov = {from.buf->addr + from.off, from.len};
	const struct fi_rma_iov to = {
		.addr = name_of(r, r->there.addr[TARGET], base, base + from.off),
		.len = from.len,
		.key = r->there.key[TARGET],
	};
	void *desc = fi_mr_desc(r->memory[SOURCE].mr);
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = r->peer,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = &r->post[i].context,
		.data = data_of(r->round, i),
	};

	NCCL_POST(&r->ep,
		  fi_writemsg(r->ep.ep, &msg, FI_REMOTE_CQ_DATA | (signal ? FI_MORE : 0)));
	if (!signal)
		return 0;
	return gin_send(r, i,
			(struct message){.kind = METADATA, .number = i, .value = r->round + 1},
			0);
}

/* The core's own writes, of host memory, and one of them without a completion here */
static int gin_put_mail(struct rdma *r)
{
	struct host *const host = host_of(r);
	struct nccl_req req = {.done = false};

	host->outgoing[0].number = r->round + 1;
	NCCL_POST(&r->ep,
		  fi_writedata(r->ep.ep, &host->outgoing[0], sizeof(host->outgoing[0]),
			       fi_mr_desc(r->memory[HOST].mr), data_of(r->round, MAIL), r->peer,
			       name_of(r, r->there.addr[HOST], host, &host->mailbox[0]),
			       r->there.key[HOST], &req.context));
	NCCL_POST(&r->ep,
		  fi_inject_writedata(r->ep.ep, &host->outgoing[0], sizeof(host->outgoing[0]),
				      data_of(r->round, MAIL_INJECTED), r->peer,
				      name_of(r, r->there.addr[HOST], host, &host->mailbox[1]),
				      r->there.key[HOST]));
	while (!req.done || r->mails < 2 * (r->round + 1))
		FT_TRY(nccl_progress(&r->ep));
	return 0;
}

/* Every third put has no signal. */
static bool signals(size_t i)
{
	return i % 3 != 2;
}

static int gin_get(struct rdma *r, size_t i)
{
	const struct ft_slot slot = slot_of(r, TARGET, i, len_of(r->round, i));
	const char *const base = r->memory[SOURCE].buf.addr;
	struct nccl_req req = {.done = false};

	FT_TRY(ft_slot_arm(&slot));
	NCCL_POST(&r->ep, fi_read(r->ep.ep, slot.buf->addr + slot.off, slot.len,
				  fi_mr_desc(r->memory[TARGET].mr), r->peer,
				  name_of(r, r->there.addr[SOURCE], base, base + slot.off),
				  r->there.key[SOURCE], &req.context));
	FT_TRY(nccl_wait(&r->ep, &req, 1));
	return check(r, i, "what a get has read");
}

static int gin_round(struct rdma *r)
{
	FT_TRY(prepare(r));
	FT_TRY(nccl_meet(r->proc, &r->ep, 1));
	for (size_t i = 0; i < DEPTH; i++)
		FT_TRY(gin_put(r, i, signals(i)));
	FT_TRY(gin_put_mail(r));
	for (size_t i = 0; i < DEPTH; i++) {
		while (!r->arrived[i] || (signals(i) && r->signalled[i] != r->round + 1))
			FT_TRY(nccl_progress(&r->ep));
		FT_TRY(check(r, i, "what was put"));
		FT_TRY(gin_send(r, i, (struct message){.kind = ACK}, 0));
	}
	FT_TRY(nccl_wait(&r->ep, r->post, DEPTH));
	while (r->answered < (r->round + 1) * DEPTH || r->sends)
		FT_TRY(nccl_progress(&r->ep));
	for (size_t i = 0; i < DEPTH; i++)
		FT_CHECK(r->arrived[i] == 1, "put %zu has been told of %" PRIu64 " times", i,
			 r->arrived[i]);
	FT_TRY(nccl_meet(r->proc, &r->ep, 1));
	for (size_t i = 0; i < DEPTH; i++)
		FT_TRY(gin_get(r, i));
	return nccl_meet(r->proc, &r->ep, 1);
}

static int gin(struct ft_proc *proc, struct nccl_dev *dev)
{
	struct rdma *const r = calloc(1, sizeof(*r));

	if (!r)
		return -FI_ENOMEM;
	r->proc = proc;
	FT_TRY(open_all(r, dev, NCCL_GIN));
	for (size_t i = 0; i < FT_COUNT(r->recv); i++) {
		r->recv[i].arrived = gin_arrived;
		FT_TRY(gin_recv(r, i));
	}
	for (; r->round < ROUNDS; r->round++)
		FT_TRY(gin_round(r));
	FT_TRY(close_all(r));
	free(r);
	return 0;
}

int nccl_rdma(struct ft_proc *proc)
{
	struct nccl_dev devs[NCCL_DEVS];

	FT_TRY(nccl_devs_open(proc, NCCL_RDMA, devs));
	for (size_t i = 0; i < NCCL_DEVS; i++) {
		const struct fi_domain_attr *const domain = devs[i].info->domain_attr;

		FT_CHECK(!(domain->mr_mode & FI_MR_ENDPOINT) && domain->cq_data_size >= 4,
			 "mr_mode 0x%x, %zu bytes of cq data", (unsigned int) domain->mr_mode,
			 domain->cq_data_size);
	}
	FT_TRY(rdma_protocol(proc, &devs[0]));
	FT_TRY(gin(proc, &devs[0]));
	return nccl_devs_close(devs);
}
