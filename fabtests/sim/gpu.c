/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The GPUs, in the place of dev/dev.c: each node has one. Copies end late, a queue's in order, and other queues' in
 * any. The core may not touch their memory (core_span() looks). gpu.h says what memory there is.
 */
#include "gpu.h"
#include "exhaust.h"
#include "gate.h"

#include "dev/dev_none.h"

#define GPU_JOBS 4096
/* The words of streams are so many bytes at most */
#define GPU_WORDS 65536

/* A copy, or a mark. @places: what lay at the two addresses when it was put there */
struct gpu_job {
	uint64_t at;
	void *dst;
	const void *src;
	uint64_t places[2];
	size_t len;
	bool mark;
};

struct gpu_queue {
	struct dev_queue base;
	uint32_t reached;
	unsigned int head, tail, node;
	uint64_t last;
	struct gpu_job jobs[GPU_JOBS];
};

static bool failing[SIM_NODES];

static int gpu_find(const void *addr, struct dev_mem *mem);

static void gpu_run(struct gpu_queue *queue)
{
	while (queue->head != queue->tail) {
		const struct gpu_job *job = &queue->jobs[queue->head % GPU_JOBS];

		if (world_later(job->at))
			return;
		/* what polls for it goes on, and is not kept waiting by time that passes faster and faster */
		world.moved = true;
		if (job->mark)
			queue->reached++;
		else
			memcpy(gpu_bytes(queue->node, job->places[0], job->dst, job->len),
			       gpu_bytes(queue->node, job->places[1], job->src, job->len),
			       job->len);
		queue->head++;
	}
}

static void gpu_put(struct gpu_queue *queue, struct gpu_job job)
{
	const uint64_t spell = world_upto(60) ? 20000 : 2 * SIM_MS;

	if (queue->tail - queue->head == GPU_JOBS)
		world_fail("more than %d copies are under way", GPU_JOBS);
	if (queue->last < world.now)
		queue->last = world.now;
	queue->last += job.mark ? 100 : 2000 + job.len / 10 + world_upto(spell);
	job.at = exhaust_on ? exhaust_ticket(TICKET_COPY, queue) : queue->last;
	queue->jobs[queue->tail++ % GPU_JOBS] = job;
}

/* No GPU's driver works in a child of fork() */
static void gpu_asked(void)
{
	if (world.child)
		world_fail("n%u: a child of fork() asks its GPU's driver", world.current);
}

static bool gpu_fails(unsigned int node)
{
	const bool fails = failing[node];

	failing[node] = false;
	if (fails)
		world_tell("n%u: its GPU's driver fails a call", node);
	return fails;
}

static int gpu_open(const struct dev_mem *mem, bool asks, struct dev_queue **to)
{
	struct gpu_queue *queue = calloc(1, sizeof *queue);

	gpu_asked();
	queue->node = world.current;
	queue->base = (struct dev_queue){.ops = mem->ops,
					 .ctx = mem->ctx,
					 .reached = &queue->reached};
	*to = &queue->base;
	return 0;
}

static int gpu_poll(struct dev_queue *base)
{
	/* some poll until the copy is there */
	world.now += 60;
	gpu_run((struct gpu_queue *) base);
	return 0;
}

static void gpu_drain(struct dev_queue *base)
{
	struct gpu_queue *queue = (struct gpu_queue *) base;

	gpu_asked();
	if (world.now < queue->last)
		world.now = queue->last;
	exhaust_forget(queue);
	gpu_run(queue);
}

static void gpu_close(struct dev_queue *base)
{
	gpu_drain(base);
	free(base);
}

static int gpu_copy(struct dev_queue *base, void *dst, const void *src, size_t len)
{
	struct gpu_queue *queue = (struct gpu_queue *) base;

	gpu_asked();
	if (gpu_fails(queue->node))
		return -FI_EIO;
	gpu_put(queue, (struct gpu_job){.dst = dst,
					.src = src,
					.places = {gpu_place(dst), gpu_place(src)},
					.len = len});
	return 0;
}

static int gpu_mark(struct dev_queue *base)
{
	base->marked++;
	gpu_put((struct gpu_queue *) base, (struct gpu_job){.mark = true});
	return 0;
}

static bool gpu_settle(const struct dev_mem *mem)
{
	return true;
}

static bool gpu_hosts(const void *addr)
{
	return false;
}

static int gpu_pin(const struct dev_mem *mem, void *addr, size_t len)
{
	return gate_has_none() ? -FI_ENOMEM : 0;
}

static void gpu_unpin(void *addr)
{
	gpu_asked();
	gpu_streams_leave(addr, GPU_WORDS);
}

static int gpu_flush(const struct dev_mem *mem)
{
	return 0;
}

/* dev_by_number() is here */
static int gpu_device(int ordinal, struct dev_mem *mem)
{
	return -FI_ENODEV;
}

static int gpu_host_address(const struct dev_mem *mem, void *host, void **addr)
{
	*addr = host;
	return 0;
}

static int gpu_current(struct dev_mem *mem);

static const char *const gpu_modules[] = {"sim_peermem", NULL};

static const struct dev_ops gpu_ops = {
	.name = "sim",
	.modules = gpu_modules,
	.iface = 1,
	.ordered = true,
	.find = gpu_find,
	.hosts = gpu_hosts,
	.current = gpu_current,
	.gone = dev_none_gone,
	.sync = dev_none_sync,
	.settle = gpu_settle,
	.copy_short = dev_none_copy_short,
	.node = dev_none_node,
	.pin = gpu_pin,
	.unpin = gpu_unpin,
	.queue_open = gpu_open,
	.queue_close = gpu_close,
	.queue_copy = gpu_copy,
	.queue_rows = dev_none_queue_rows,
	.queue_batch = dev_none_queue_batch,
	.queue_put = dev_none_queue_put,
	.queue_mark = gpu_mark,
	.queue_poll = gpu_poll,
	.queue_drain = gpu_drain,
	.expose = gpu_expose,
	.flush = gpu_flush,
	.ipc_export = gpu_ipc_export,
	.ipc_open = gpu_ipc_open,
	.ipc_close = gpu_ipc_close,
	.ipc_share = gpu_ipc_share,
	.ipc_attach = gpu_ipc_attach,
	.ipc_detach = gpu_ipc_detach,
	.device = gpu_device,
	.device_close = dev_none_device_close,
	.host_address = gpu_host_address,
	.alloc = gpu_object_new,
	.store = gpu_object_store,
	.free = gpu_object_free,
	.window_open = gpu_window_new,
	.window_close = gpu_window_free,
	.stream_steps = gpu_stream_steps,
	.stream_copy = dev_none_stream_copy,
	.loads_late = dev_none_loads_late,
	.kernel_load = dev_none_kernel_load,
	.queue_kernel = dev_none_queue_kernel,
	.stream_captured = gpu_stream_captured,
	.graph_keep = gpu_graph_keep,
};

static int gpu_find(const void *addr, struct dev_mem *mem)
{
	return gpu_mem_find(&gpu_ops, addr, mem);
}

static int gpu_current(struct dev_mem *mem)
{
	gpu_mem_device(&gpu_ops, mem);
	return 1;
}

/* ---- in the place of dev/dev.c ---- */

static void *const gpu_always = (void *) &gpu_always;
void *const *dev_news = &gpu_always;
bool dev_present = true;

bool dev_look(void)
{
	return true;
}

void dev_init(void)
{
}

int dev_find(const void *addr, struct dev_mem *mem)
{
	return gpu_find(addr, mem);
}

int dev_identify(const void *addr, uint64_t *id)
{
	struct dev_mem mem = {.id = 0};
	const int ret = gpu_find(addr, &mem);

	*id = mem.id;
	return ret;
}

int dev_current(struct dev_mem *mem)
{
	return gpu_current(mem);
}

bool dev_lend(void *(*run)(void *arg), void *arg)
{
	return false;
}

bool dev_hosts(int iface, const void *addr)
{
	return false;
}

int dev_by_number(int iface, int ordinal, struct dev_mem *mem)
{
	gpu_current(mem);
	return iface == gpu_ops.iface ? 0 : -FI_ENODEV;
}

void dev_sync(void)
{
}

const char *dev_loads_late(void)
{
	return NULL;
}

bool dev_ipc_present(void)
{
	return world.script->shares;
}

int dev_queue_passed(struct dev_queue *queue, uint32_t mark)
{
	const int ret = queue->ops->queue_poll(queue);

	return ret ? ret : (int32_t) (*queue->reached - mark) >= 0;
}

/* ---- for the world ---- */

void gpu_fail(unsigned int node)
{
	failing[node] = true;
}

void gpu_calm(void)
{
	memset(failing, 0, sizeof failing);
	for (unsigned int i = 0; i < SIM_NODES; i++)
		gpu_refuse(i, 0);
}
