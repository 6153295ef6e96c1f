/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_nccl: the calls of NCCL's plugin for libfabric (aws-ofi-nccl 1.21), without NCCL. Its SENDRECV protocol, with
 * two NICs, which the two ranks have in another order; several threads, each with an endpoint and communicators both
 * ways; buffers registered by address and by dma-buf; several messages of a communicator under one tag, shorter than
 * their receives; a read of the own memory behind each, as a flush; and everything closed in the plugin's order, with
 * receives pending, too. Then its RDMA protocol and GIN (nccl_rdma.c).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl.h"

#define THREADS 3
#define DEPTH 4 /* messages of a communicator at a time */
#define ROUNDS 6
#define LARGEST ((size_t) 512 << 10)
#define SLOT (LARGEST + FT_ROOM)
#define OFFSET 64

/* pattern.c has one buffer for all */
static pthread_mutex_t patterns = PTHREAD_MUTEX_INITIALIZER;

struct worker {
	struct ft_proc *proc;
	struct nccl_ep *ep;
	size_t index;
	pthread_t thread;
	atomic_bool *failed;
	int ret;
};

/* 128 KiB is what NCCL cuts sends into */
static size_t len_of(size_t round, size_t i)
{
	static const size_t sizes[] = {128 << 10, 8, LARGEST, 0, 70001, 4096, 1};

	return sizes[(round * DEPTH + i) % FT_COUNT(sizes)];
}

static uint64_t key_of(const struct worker *w, size_t comm, size_t round, size_t i)
{
	return ((w->index * NCCL_COMMS + comm) * ROUNDS + round) * DEPTH + i;
}

static struct ft_slot slot_of(const struct nccl_comm *comm, size_t i, size_t len)
{
	return (struct ft_slot){&comm->buf, i * SLOT, SLOT, i * SLOT + OFFSET, len};
}

/* ---- what belongs to a communicator ---- */

static int alloc_flush(struct nccl_ep *ep, struct nccl_comm *comm)
{
	const size_t page = (size_t) sysconf(_SC_PAGESIZE);

	if (posix_memalign(&comm->flush, page, page))
		return -FI_ENOMEM;
	return nccl_register(ep->dev, comm->flush, page, false, false,
			     FI_SEND | FI_RECV | FI_READ, &comm->flush_mr);
}

static int open_comm(struct ft_proc *proc, struct nccl_ep *ep, size_t i)
{
	struct nccl_comm *const comm = &ep->comm[i];
	const bool gpu = nccl_is_gpu(proc), rma = ep->dev->info->caps & FI_RMA;
	const uint64_t access = FI_SEND | FI_RECV | (!rma ? 0 : gpu ? FI_REMOTE_READ : FI_READ);
	void *addr;

	comm->buf.ops = ft_mem_ops(proc->opts.iface);
	FT_TRY(comm->buf.ops->init(proc->opts.device));
	FT_TRY(comm->buf.ops->alloc(DEPTH * SLOT, &addr));
	comm->buf.addr = addr;
	comm->buf.size = DEPTH * SLOT;
	/* the communicators at both ends of every second pair */
	FT_TRY(nccl_register(ep->dev, addr, DEPTH * SLOT, gpu, gpu && i / 2 % 2, access,
			     &comm->mr));
	return gpu && !comm->sends ? alloc_flush(ep, comm) : 0;
}

static int close_comm(struct nccl_comm *comm)
{
	FT_TRY(nccl_close(&comm->mr->fid, "region"));
	if (comm->flush)
		FT_TRY(nccl_close(&comm->flush_mr->fid, "region of a flush"));
	free(comm->flush);
	comm->buf.ops->release(comm->buf.addr);
	return 0;
}

/* A dma-buf without an address, and addresses that are not of a device: refused, and nobody touches them. */
static int refuse_dmabufs(struct nccl_dev *dev)
{
	const struct fi_mr_attr attr = {
		.iov_count = 1,
		.access = FI_SEND | FI_RECV,
		.requested_key = 1000000,
		.iface = dev->proc->opts.iface,
	};
	struct fid_mr *mr = NULL;
	char here[16];
	int ret = nccl_register_dmabuf(dev, &attr, NULL, 0, sizeof(here), &mr);

	FT_CHECK(ret == -FI_ENOSYS && !mr, "a dma-buf without an address: %d", ret);
	ret = nccl_register_dmabuf(dev, &attr, here, 0, sizeof(here), &mr);
	FT_CHECK(ret == -FI_EINVAL && !mr, "a dma-buf at an address of the stack: %d", ret);
	/* nothing is mapped there */
	ret = nccl_register_dmabuf(dev, &attr, (char *) 4096, 4096, sizeof(here), &mr);
	FT_CHECK(ret == -FI_EINVAL && !mr, "a dma-buf at an address of nothing: %d", ret);
	return 0;
}

/* ---- messages ---- */

static int prepare(struct worker *w, size_t round)
{
	int ret = 0;

	pthread_mutex_lock(&patterns);
	for (size_t c = 0; c < NCCL_COMMS; c++) {
		const struct nccl_comm *const comm = &w->ep->comm[c];

		for (size_t i = 0; !ret && i < DEPTH; i++) {
			const struct ft_slot slot = slot_of(comm, i, len_of(round, i));

			ret = comm->sends ? ft_slot_fill(&slot, key_of(w, c, round, i))
					  : ft_slot_arm(&slot);
		}
	}
	pthread_mutex_unlock(&patterns);
	return ret;
}

static int post(struct worker *w, struct nccl_comm *comm, size_t i, size_t len,
		struct nccl_req *req)
{
	struct fid_ep *const ep = w->ep->ep;
	char *const at = comm->buf.addr + i * SLOT + OFFSET;
	void *const desc = fi_mr_desc(comm->mr);

	*req = (struct nccl_req){.done = false};
	if (comm->sends)
		NCCL_POST(w->ep,
			  fi_tsend(ep, at, len, desc, comm->peer, comm->tag, &req->context));
	else
		NCCL_POST(w->ep, fi_trecv(ep, at, LARGEST, desc, FI_ADDR_UNSPEC, comm->tag, 0,
					  &req->context));
	return 0;
}

/*
 * Net, and tcp that came of it, give a message that came before its receive to any endpoint of the domain, if the tag
 * fits. The plugin's endpoints have the same tags. So there several threads get each other's messages.
 */
static size_t thread_count(const struct ft_proc *proc)
{
	const char *const prov = proc->opts.prov;

	return strstr(prov, "ofi_rxm") || (strncmp(prov, "net", 3) && strncmp(prov, "tcp", 3))
		       ? THREADS
		       : 1;
}

/* The receives' flag and length are what the plugin goes by. */
static int check(struct worker *w, size_t c, size_t round, const struct nccl_req *req)
{
	const struct nccl_comm *const comm = &w->ep->comm[c];
	int ret = 0;

	for (size_t i = 0; i < DEPTH; i++) {
		const bool received = req[i].comp.flags & FI_RECV;

		FT_CHECK(received != comm->sends, "communicator %zu: flags 0x%zx", c,
			 (size_t) req[i].comp.flags);
		FT_CHECK(comm->sends || req[i].comp.len == len_of(round, i),
			 "communicator %zu: %zu bytes, not %zu", c, req[i].comp.len,
			 len_of(round, i));
	}
	pthread_mutex_lock(&patterns);
	for (size_t i = 0; !comm->sends && !ret && i < DEPTH; i++) {
		const struct ft_slot slot = slot_of(comm, i, LARGEST);

		ret = ft_slot_check(&slot, req[i].comp.len, key_of(w, c, round, i),
				    "a message of a communicator");
	}
	pthread_mutex_unlock(&patterns);
	return ret;
}

/* A read of four bytes of what has arrived, from this process itself */
static int flush(struct worker *w, size_t c, size_t round, size_t i)
{
	const struct nccl_comm *const comm = &w->ep->comm[c];
	const bool virt = w->ep->dev->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	const uint64_t at = virt ? (uintptr_t) comm->buf.addr + i * SLOT + OFFSET : 0;
	struct nccl_req req = {.done = false};
	char expected[NCCL_FLUSH_LEN];

	memset(comm->flush, 0, NCCL_FLUSH_LEN);
	NCCL_POST(w->ep,
		  fi_read(w->ep->ep, comm->flush, NCCL_FLUSH_LEN, fi_mr_desc(comm->flush_mr),
			  w->ep->self, at, fi_mr_key(comm->mr), &req.context));
	FT_TRY(nccl_wait(w->ep, &req, 1));
	FT_CHECK(!(req.comp.flags & FI_RECV), "a flush: flags 0x%zx", (size_t) req.comp.flags);
	ft_pattern_fill(expected, sizeof(expected), key_of(w, c, round, i));
	FT_CHECK(!virt || len_of(round, i) < NCCL_FLUSH_LEN ||
			 !memcmp(comm->flush, expected, sizeof(expected)),
		 "a flush of communicator %zu reads other bytes than have arrived", c);
	return 0;
}

static int exchange(struct worker *w, size_t round)
{
	struct nccl_req req[NCCL_COMMS][DEPTH];
	struct nccl_comm *comm;

	FT_TRY(prepare(w, round));
	for (size_t i = 0; i < DEPTH; i++)
		for (size_t c = 0; c < NCCL_COMMS; c++)
			FT_TRY(post(w, &w->ep->comm[c], i, len_of(round, i), &req[c][i]));
	for (size_t c = 0; c < NCCL_COMMS; c++)
		FT_TRY(nccl_wait(w->ep, req[c], DEPTH));
	for (size_t c = 0; c < NCCL_COMMS; c++) {
		comm = &w->ep->comm[c];
		FT_TRY(check(w, c, round, req[c]));
		for (size_t i = 0; comm->flush && i < DEPTH; i++)
			if (len_of(round, i))
				FT_TRY(flush(w, c, round, i));
	}
	return 0;
}

static void *work(void *arg)
{
	struct worker *const w = arg;

	/* a device's context is a thread's */
	w->ret = w->ep->comm[0].buf.ops->init(w->proc->opts.device);
	for (size_t round = 0; !w->ret && round < ROUNDS && !atomic_load(w->failed); round++)
		w->ret = exchange(w, round);
	if (w->ret)
		atomic_store(w->failed, true);
	return NULL;
}

/* ---- the whole ---- */

static int run_threads(struct ft_proc *proc, struct nccl_ep eps[THREADS])
{
	struct worker workers[THREADS];
	const size_t count = thread_count(proc);
	atomic_bool failed = false;
	int err;

	for (size_t i = 0; i < count; i++) {
		workers[i] = (struct worker){.proc = proc,
					     .ep = &eps[i],
					     .index = i,
					     .failed = &failed};
		err = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		if (err)
			return ft_fail(-err, "pthread_create", "worker");
	}
	for (size_t i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);
	for (size_t i = 0; i < count; i++)
		FT_TRY(workers[i].ret);
	return nccl_meet(proc, eps, count);
}

/* With receives pending the plugin closes the endpoint first, else the regions. */
static int close_ep(struct worker *w, bool pending)
{
	static struct nccl_req left[NCCL_COMMS];

	for (size_t c = 0; pending && c < NCCL_COMMS; c++)
		if (!w->ep->comm[c].sends)
			FT_TRY(post(w, &w->ep->comm[c], 0, LARGEST, &left[c]));
	if (pending)
		FT_TRY(nccl_ep_abort(w->ep));
	for (size_t c = 0; c < NCCL_COMMS; c++)
		FT_TRY(close_comm(&w->ep->comm[c]));
	return nccl_ep_close(w->ep);
}

static int sendrecv(struct ft_proc *proc)
{
	static struct nccl_ep eps[THREADS];
	struct nccl_dev devs[NCCL_DEVS];
	const size_t count = thread_count(proc);
	struct worker closer = {.proc = proc};
	int ret = nccl_devs_open(proc, NCCL_SENDRECV, devs);

	if (ret)
		return ret;
	for (size_t i = 0; i < count; i++) {
		const size_t nic = (i + (size_t) proc->rank) % NCCL_DEVS;

		FT_TRY(nccl_ep_open(&eps[i], &devs[nic], NCCL_SENDRECV));
		FT_TRY(nccl_connect(proc, &eps[i]));
		for (size_t c = 0; c < NCCL_COMMS; c++)
			FT_TRY(open_comm(proc, &eps[i], c));
	}
	if (nccl_is_gpu(proc) && !ft_over_verbs(&proc->opts))
		FT_TRY(refuse_dmabufs(&devs[0]));
	FT_TRY(run_threads(proc, eps));
	for (size_t i = 0; i < count; i++) {
		closer.ep = &eps[i];
		FT_TRY(close_ep(&closer, i + 1 == count));
	}
	return nccl_devs_close(devs);
}

static int run(struct ft_proc *proc)
{
	if (!proc->opts.prov)
		return ft_skip("-p names no provider");
	if (!strncmp(proc->opts.prov, "shm", 3))
		return ft_skip("shm's names are too long for the plugin");
	FT_TRY(sendrecv(proc));
	return nccl_is_gpu(proc) ? nccl_rdma(proc) : 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "The calls of NCCL's plugin for libfabric.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
