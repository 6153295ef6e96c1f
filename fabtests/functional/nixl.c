/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_nixl: the calls of NIXL's LIBFABRIC backend (1.4) where it has found tcp, without NIXL. It names no provider,
 * asks for FI_HMEM, and takes the first answer. Control messages with remote cq data; device memory of both ranks under
 * keys that are addresses; writes with remote cq data out of it and into it, and reads. A notification tells how many
 * writes there are, and may come before the last of them.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ft_test.h"

/* NIXL's numbers */
#define NAME_MAX_LEN 56
#define CONTROL_LEN 8192
#define CONTROL_REQS 4096
#define RECVS 1024
#define CQ_SIZE 12288
#define CQ_READS 16

/* What remote cq data has: the kind in 4 bits, 8 for the agent, 16 for the transfer, 4 for a number */
enum kind { NOTIFICATION = 2, TRANSFER = 4, HANDSHAKE = 8 };
#define DATA(kind, transfer, number)                                                           \
	((uint64_t) (kind) | (uint64_t) (transfer) << 12 | (uint64_t) (number) % 16 << 28)
#define DATA_KIND(data) ((data) &0xf)
#define DATA_TRANSFER(data) ((data) >> 12 & 0xffff)

#define DESCS 40 /* of a transfer */
#define PLACE ((size_t) 96 << 10)
#define TRANSFERS 6
#define SIZE (DESCS * PLACE)

struct control {
	struct fi_context2 context;
	char *room;
	size_t len;
};

struct data {
	struct fi_context2 context;
	bool done;
};

/* What a notification says */
struct notice {
	uint32_t transfer, writes;
};

/** struct metadata - what the other agent has to know of a region; and an endpoint's name */
struct metadata {
	uint64_t key, addr;
	char name[NAME_MAX_LEN];
};

/**
 * struct rail - @sends: control messages under way; @shakes: handshakes that came; @written: of each transfer, writes that have arrived; @noticed: what
 * has been told of it
 */
struct rail {
	struct ft_proc *proc;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct metadata here, there;
	fi_addr_t peer;
	char *rooms;
	struct fid_mr *rooms_mr;
	struct control *control;
	size_t control_next, sends;
	size_t shakes, meetings;
	uint32_t written[TRANSFERS + 1], noticed[TRANSFERS + 1];
	struct ft_buf memory;
	struct fid_mr *mr;
};

/* ---- what NIXL asks for ---- */

static struct fi_info *common_hints(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_RMA | FI_LOCAL_COMM | FI_REMOTE_COMM;
	hints->mode = FI_CONTEXT;
	hints->ep_attr->type = FI_EP_RDM;
	return hints;
}

/* NIXL asks for 1.18; this is for older releases, too */
static int ask(struct fi_info *hints, struct fi_info **list)
{
	int ret = fi_getinfo(FI_VERSION(1, 18), NULL, NULL, 0, hints, list);

	return ret == -FI_ENOSYS ? fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, list)
				 : ret;
}

/* Is that ours? With FI_P2P_AS it has the name that the test is for. */
static bool ours(const struct ft_proc *proc, const char *name)
{
	return getenv("FI_P2P_AS") ? !strcmp(name, proc->opts.prov)
				   : strstr(name, "ofi_p2p") != NULL;
}

static const struct fi_info *first_named(const struct fi_info *list, const char *name)
{
	while (list && strcmp(list->fabric_attr->prov_name, name))
		list = list->next;
	return list;
}

/*
 * The device is the first one of what is called tcp. Before 1.18 nothing is, and NIXL gives up; it is then that of the
 * provider under test.
 */
static int find_device(struct ft_proc *proc, char **device)
{
	struct fi_info *hints = common_hints(), *list;
	const struct fi_info *info;
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	/* all but the two old modes */
	hints->domain_attr->mr_mode = ~3;
	ret = ask(hints, &list);
	fi_freeinfo(hints);
	if (ret)
		return ft_fail(ret, "fi_getinfo", "what NIXL asks for first");
	info = getenv("FI_P2P_AS") ? NULL : first_named(list, "tcp");
	if (!info)
		info = first_named(list, proc->opts.prov);
	*device = info ? strdup(info->domain_attr->name) : NULL;
	fi_freeinfo(list);
	return *device ? 0 : ft_skip("no tcp, and no %s", proc->opts.prov);
}

/* NIXL takes the first answer: one of ours, if there is FI_HMEM. The test takes the one that it is for. */
static int find_rail(struct ft_proc *proc, struct rail *rail)
{
	struct fi_info *hints = common_hints(), *list;
	const struct fi_info *info;
	char *device;
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->caps |= FI_HMEM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED;
	hints->domain_attr->threading = FI_THREAD_COMPLETION;
	ret = find_device(proc, &device);
	if (!ret) {
		hints->domain_attr->name = device;
		ret = ask(hints, &list);
	}
	fi_freeinfo(hints);
	if (ret)
		return ret == FT_SKIP ? ret : ft_fail(ret, "fi_getinfo", "with FI_HMEM");
	info = first_named(list, proc->opts.prov);
	ret = ours(proc, list->fabric_attr->prov_name) ? 0 : -FI_EOTHER;
	if (ret)
		ft_err("NIXL would take %s", list->fabric_attr->prov_name);
	else if (info)
		rail->info = fi_dupinfo(info);
	fi_freeinfo(list);
	if (ret || rail->info)
		return ret;
	return ft_skip("no %s for NIXL's hints", proc->opts.prov);
}

/* ---- the rail ---- */

static int open_objects(struct rail *rail)
{
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait_obj = FI_WAIT_NONE,
		.size = CQ_SIZE,
	};
	struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC};
	size_t len = sizeof(rail->here.name);
	int ret = fi_fabric(rail->info->fabric_attr, &rail->fabric, NULL);

	if (!ret)
		ret = fi_domain(rail->fabric, rail->info, &rail->domain, NULL);
	if (!ret)
		ret = fi_cq_open(rail->domain, &cq_attr, &rail->cq, NULL);
	if (!ret)
		ret = fi_av_open(rail->domain, &av_attr, &rail->av, NULL);
	if (!ret)
		ret = fi_endpoint(rail->domain, rail->info, &rail->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(rail->ep, &rail->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(rail->ep, &rail->av->fid, 0);
	if (!ret)
		ret = fi_enable(rail->ep);
	if (!ret)
		ret = fi_getname(&rail->ep->fid, rail->here.name, &len);
	return ret ? ft_fail(ret, "opening a rail", "%s", rail->info->fabric_attr->prov_name)
		   : 0;
}

static int post_recv(struct rail *rail, struct control *control)
{
	struct iovec iov = {control->room, CONTROL_LEN};
	void *desc = fi_mr_desc(rail->rooms_mr);
	const struct fi_msg msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.context = &control->context,
	};
	ssize_t ret = fi_recvmsg(rail->ep, &msg, 0);

	return ret ? ft_fail((int) ret, "fi_recvmsg", "a control message") : 0;
}

static int open_control(struct rail *rail)
{
	const size_t size = (size_t) CONTROL_REQS * CONTROL_LEN;
	int ret;

	rail->rooms = malloc(size);
	rail->control = calloc(CONTROL_REQS, sizeof(*rail->control));
	if (!rail->rooms || !rail->control)
		return -FI_ENOMEM;
	ret = fi_mr_reg(rail->domain, rail->rooms, size, FI_SEND | FI_RECV, 0, 0, 0,
			&rail->rooms_mr, NULL);
	if (ret)
		return ft_fail(ret, "fi_mr_reg", "control messages");
	for (size_t i = 0; i < CONTROL_REQS; i++)
		rail->control[i].room = rail->rooms + i * CONTROL_LEN;
	for (; rail->control_next < RECVS; rail->control_next++)
		FT_TRY(post_recv(rail, &rail->control[rail->control_next]));
	return 0;
}

static int register_memory(struct rail *rail)
{
	struct ft_buf *const memory = &rail->memory;
	struct iovec iov = {memory->addr, SIZE};
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
		.requested_key = (uintptr_t) memory->addr,
		.iface = rail->proc->opts.iface,
	};
	int ret;

	if (attr.iface == FI_HMEM_CUDA)
		attr.device.cuda = rail->proc->opts.device;
	ret = fi_mr_regattr(rail->domain, &attr, 0, &rail->mr);
	if (ret)
		return ft_fail(ret, "fi_mr_regattr", "under an address as its key");
	rail->here.key = fi_mr_key(rail->mr);
	rail->here.addr = (uintptr_t) memory->addr;
	return 0;
}

static int open_rail(struct ft_proc *proc, struct rail *rail)
{
	const int fd = proc->fd[!proc->rank];
	void *addr;
	int ret;

	FT_TRY(open_objects(rail));
	FT_TRY(open_control(rail));
	rail->memory.ops = ft_mem_ops(proc->opts.iface);
	rail->memory.size = SIZE;
	FT_TRY(rail->memory.ops->init(proc->opts.device));
	FT_TRY(rail->memory.ops->alloc(SIZE, &addr));
	rail->memory.addr = addr;
	FT_TRY(register_memory(rail));
	FT_TRY(ft_oob_send(fd, &rail->here, sizeof(rail->here)));
	FT_TRY(ft_oob_recv(fd, &rail->there, sizeof(rail->there), proc->opts.timeout));
	ret = fi_av_insert(rail->av, rail->there.name, 1, &rail->peer, 0, NULL);
	FT_CHECK(ret == 1, "fi_av_insert returned %d", ret);
	return 0;
}

static int close_one(struct fid *fid, const char *what)
{
	int ret = fi_close(fid);

	return ret ? ft_fail(ret, "fi_close", "%s", what) : 0;
}

static int close_rail(struct rail *rail)
{
	FT_TRY(close_one(&rail->mr->fid, "region"));
	rail->memory.ops->release(rail->memory.addr);
	FT_TRY(close_one(&rail->ep->fid, "endpoint"));
	FT_TRY(close_one(&rail->cq->fid, "queue"));
	FT_TRY(close_one(&rail->av->fid, "vector"));
	FT_TRY(close_one(&rail->rooms_mr->fid, "region of control messages"));
	FT_TRY(close_one(&rail->domain->fid, "domain"));
	FT_TRY(close_one(&rail->fabric->fid, "fabric"));
	fi_freeinfo(rail->info);
	free(rail->rooms);
	free(rail->control);
	return 0;
}

/* ---- completions, in the order in which NIXL looks at their flags ---- */

static int received(struct rail *rail, const struct fi_cq_data_entry *comp)
{
	struct control *const control = comp->op_context;
	const struct notice *const notice = (const struct notice *) control->room;

	FT_CHECK(comp->flags & FI_REMOTE_CQ_DATA, "a control message without data");
	if (DATA_KIND(comp->data) == HANDSHAKE) {
		FT_CHECK(comp->len == sizeof(rail->there) &&
				 !memcmp(control->room, &rail->there, comp->len),
			 "a handshake of %zu bytes", comp->len);
		rail->shakes++;
	} else {
		FT_CHECK(DATA_KIND(comp->data) == NOTIFICATION &&
				 comp->len == sizeof(*notice) &&
				 notice->transfer == DATA_TRANSFER(comp->data),
			 "a control message of %zu bytes with data 0x%zx", comp->len,
			 (size_t) comp->data);
		rail->noticed[notice->transfer] = notice->writes;
	}
	return post_recv(rail, control);
}

static int written_here(struct rail *rail, const struct fi_cq_data_entry *comp)
{
	FT_CHECK(comp->flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) &&
			 DATA_KIND(comp->data) == TRANSFER &&
			 DATA_TRANSFER(comp->data) <= TRANSFERS,
		 "a completion with flags 0x%zx, data 0x%zx", (size_t) comp->flags,
		 (size_t) comp->data);
	rail->written[DATA_TRANSFER(comp->data)]++;
	return 0;
}

static int completed(struct rail *rail, const struct fi_cq_data_entry *comp)
{
	if (comp->flags & FI_SEND) {
		rail->sends--;
		return 0;
	}
	if (comp->flags & FI_RECV)
		return received(rail, comp);
	if (comp->flags & (FI_WRITE | FI_READ)) {
		((struct data *) comp->op_context)->done = true;
		return 0;
	}
	return written_here(rail, comp);
}

static int progress(struct rail *rail)
{
	struct fi_cq_data_entry entries[CQ_READS];
	struct fi_cq_err_entry err = {0};
	ssize_t n = fi_cq_read(rail->cq, entries, CQ_READS);

	for (ssize_t i = 0; i < n; i++)
		FT_TRY(completed(rail, &entries[i]));
	if (n > 0)
		ft_progress_note();
	else if (n == -FI_EAGAIN)
		sched_yield();
	else if (n == -FI_EAVAIL && fi_cq_readerr(rail->cq, &err, 0) == 1)
		return ft_fail(-err.err, "an operation", "flags 0x%zx", (size_t) err.flags);
	return n < 0 && n != -FI_EAGAIN ? ft_fail((int) n, "fi_cq_read", "queue") : 0;
}

static int wait_for(struct rail *rail, const struct data *data, size_t count)
{
	for (size_t i = 0; i < count; i++)
		while (!data[i].done)
			FT_TRY(progress(rail));
	return 0;
}

/* ---- transfers ---- */

static int send_control(struct rail *rail, const void *bytes, size_t len, uint64_t data)
{
	struct control *const control = &rail->control[rail->control_next++];
	ssize_t ret;

	memcpy(control->room, bytes, len);
	while ((ret = fi_senddata(rail->ep, control->room, len, fi_mr_desc(rail->rooms_mr),
				  data, rail->peer, &control->context)) == -FI_EAGAIN)
		FT_TRY(progress(rail));
	rail->sends++;
	return ret ? ft_fail((int) ret, "fi_senddata", "a control message") : 0;
}

static size_t len_of(size_t transfer, size_t i)
{
	static const size_t sizes[] = {PLACE, 1, 4096, 65536, 8, 16385};

	return sizes[(transfer + i) % FT_COUNT(sizes)];
}

/* Where @i's bytes lie: as many as NIXL would have them do, with room behind each */
static struct ft_slot place(const struct rail *rail, size_t transfer, size_t i)
{
	return (struct ft_slot){
		.buf = &rail->memory,
		.base = i * PLACE,
		.room = PLACE,
		.off = i * PLACE,
		.len = len_of(transfer, i),
	};
}

static ssize_t post_once(struct rail *rail, bool write, const struct ft_slot *slot,
			 uint64_t cq_data, uint64_t flags, struct data *data)
{
	const bool virt = rail->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	struct iovec iov = {rail->memory.addr + slot->off, slot->len};
	const struct fi_rma_iov remote = {
		.addr = (virt ? rail->there.addr : 0) + slot->off,
		.len = slot->len,
		.key = rail->there.key,
	};
	void *desc = fi_mr_desc(rail->mr);
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = rail->peer,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = &data->context,
		.data = cq_data,
	};

	if (write)
		return fi_writemsg(rail->ep, &msg, flags | FI_REMOTE_CQ_DATA);
	/* NIXL has both, of threads that post and of one that makes progress */
	return flags ? fi_readmsg(rail->ep, &msg, 0)
		     : fi_read(rail->ep, iov.iov_base, iov.iov_len, desc, rail->peer,
			       remote.addr, remote.key, &data->context);
}

static int post_all(struct rail *rail, bool write, uint32_t transfer, struct data *data)
{
	const uint64_t more = write ? FI_MORE : 1;
	struct ft_slot slot;
	ssize_t ret;

	for (size_t i = 0; i < DESCS; i++) {
		data[i].done = false;
		slot = place(rail, transfer, i);
		while ((ret = post_once(rail, write, &slot, DATA(TRANSFER, transfer, i),
					i % 16 < 15 && i + 1 < DESCS ? more : 0, &data[i])) ==
		       -FI_EAGAIN)
			FT_TRY(progress(rail));
		if (ret)
			return ft_fail((int) ret, write ? "fi_writemsg" : "a read", "%zu bytes",
				       slot.len);
	}
	return 0;
}

/* The notification goes when the writes have been posted, and ended here. */
static int initiate(struct rail *rail, uint32_t transfer)
{
	static struct data data[DESCS];
	const struct notice notice = {transfer, DESCS};
	struct ft_slot slot;

	for (size_t i = 0; i < DESCS; i++) {
		slot = place(rail, transfer, i);
		FT_TRY(ft_slot_fill(&slot, transfer * DESCS + i));
	}
	FT_TRY(post_all(rail, true, transfer, data));
	FT_TRY(wait_for(rail, data, DESCS));
	FT_TRY(send_control(rail, &notice, sizeof(notice), DATA(NOTIFICATION, transfer, 0)));
	/* read back what the other end has been given */
	for (size_t i = 0; i < DESCS; i++) {
		slot = place(rail, transfer, i);
		FT_TRY(ft_slot_arm(&slot));
	}
	FT_TRY(post_all(rail, false, transfer, data));
	FT_TRY(wait_for(rail, data, DESCS));
	for (size_t i = 0; i < DESCS; i++) {
		slot = place(rail, transfer, i);
		FT_TRY(ft_slot_check(&slot, slot.len, transfer * DESCS + i, "what was read"));
	}
	while (rail->sends)
		FT_TRY(progress(rail));
	return 0;
}

/* The writes have arrived when as many have as the notification says. */
static int take(struct rail *rail, uint32_t transfer)
{
	struct ft_slot slot;

	while (!rail->noticed[transfer] || rail->written[transfer] < rail->noticed[transfer])
		FT_TRY(progress(rail));
	FT_CHECK(rail->written[transfer] == DESCS, "%u writes of %u", rail->written[transfer],
		 rail->noticed[transfer]);
	for (size_t i = 0; i < DESCS; i++) {
		slot = place(rail, transfer, i);
		FT_TRY(ft_slot_check(&slot, slot.len, transfer * DESCS + i,
				     "what was written"));
	}
	return 0;
}

/* A control message each, so that both ends make progress until the other one is here */
static int meet(struct rail *rail)
{
	rail->meetings++;
	FT_TRY(send_control(rail, &rail->here, sizeof(rail->here), DATA(HANDSHAKE, 0, 0)));
	while (rail->shakes < rail->meetings || rail->sends)
		FT_TRY(progress(rail));
	return 0;
}

static int transfer_one(struct rail *rail, uint32_t transfer)
{
	const bool initiator = (int) transfer % 2 == rail->proc->rank;
	struct ft_slot slot;

	for (size_t i = 0; !initiator && i < DESCS; i++) {
		slot = place(rail, transfer, i);
		FT_TRY(ft_slot_arm(&slot));
	}
	FT_TRY(meet(rail));
	FT_TRY(initiator ? initiate(rail, transfer) : take(rail, transfer));
	return meet(rail);
}

static int run(struct ft_proc *proc)
{
	struct rail rail = {.proc = proc};
	int ret;

	if (!proc->opts.prov || (!getenv("FI_P2P_AS") && !ft_has_ours(&proc->opts)))
		return ft_skip("for ofi_p2p");
	if (!strncmp(proc->opts.prov, "shm", 3))
		return ft_skip("shm's names are too long for NIXL");
	ret = find_rail(proc, &rail);
	if (ret)
		return ret;
	FT_TRY(open_rail(proc, &rail));
	FT_TRY(meet(&rail));
	for (uint32_t transfer = 1; transfer <= TRANSFERS; transfer++)
		FT_TRY(transfer_one(&rail, transfer));
	return close_rail(&rail);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "The calls of NIXL's LIBFABRIC backend over tcp.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
