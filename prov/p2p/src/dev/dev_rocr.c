/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The ROCm backend, on the HSA runtime (ROCr), which HIP is a client of.
 *
 * Why not HIP: its first call, whatever it asks, initialises all devices, so that asking
 * about a pointer would start the GPUs of a program that never uses them, and what it
 * says about a pointer changed its layout between releases. HSA answers "not initialised"
 * at once, has had one soname since the beginning, versions its structures by their size,
 * knows no current device, and completes copies in host memory, where polling is a load.
 *
 * The library is opened at run time and never initialised before the application has done
 * so. Written after ROCr's headers and source; run on an emulation only
 * (fabtests/rocmemu), never yet on a real device.
 */
#include "dev/dev_backends.h"

#include <stdlib.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "config.h"
#if HAVE_ROCM_H
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#else
#include "dev/p2p_hsa_abi.h"
#endif
#include "base/base.h"
#include "dev/dev_none.h"
#include "dev/dl.h"
#include "base/log.h"
#include "base/process.h"

#ifndef ROCM_LIBDIR
#define ROCM_LIBDIR NULL
#endif

/* of a queue; should more marks be in flight, some share one and are reached together */
#define ROCR_SIGNALS 256

#define ROCR_GPUS_MAX 64

/* HSA_EXT_POINTER_TYPE_HSA_VMEM: hipMemMap's memory; the newest releases tell */
#define ROCR_POINTER_VMEM 6

/* What is used of the runtime: field, symbol */
#define ROCR_FUNCTIONS(X)                                                                      \
	X(init, hsa_init)                                                                      \
	X(shut_down, hsa_shut_down)                                                            \
	X(status_string, hsa_status_string)                                                    \
	X(iterate_agents, hsa_iterate_agents)                                                  \
	X(agent_get_info, hsa_agent_get_info)                                                  \
	X(copy, hsa_memory_copy)                                                               \
	X(copy_async, hsa_amd_memory_async_copy)                                               \
	X(lock, hsa_amd_memory_lock)                                                           \
	X(unlock, hsa_amd_memory_unlock)                                                       \
	X(pointer_info, hsa_amd_pointer_info)                                                  \
	X(iterate_pools, hsa_amd_agent_iterate_memory_pools)                                   \
	X(pool_info, hsa_amd_memory_pool_get_info)                                             \
	X(allocate, hsa_amd_memory_pool_allocate)                                              \
	X(pool_free, hsa_amd_memory_pool_free)                                                 \
	X(pointer_set, hsa_amd_pointer_info_set_userdata)                                      \
	X(signal_create, hsa_amd_signal_create)                                                \
	X(signal_destroy, hsa_signal_destroy)                                                  \
	X(signal_load, hsa_signal_load_scacquire)                                              \
	X(signal_add, hsa_signal_add_relaxed)                                                  \
	X(signal_wait, hsa_signal_wait_scacquire)

#define ROCR_FIELD(field, name) __typeof__(name) *field;
#define ROCR_SYMBOL(field, name) {#name, NULL, (void **) &rocr.field, 0},

static struct {
	ROCR_FUNCTIONS(ROCR_FIELD)
	hsa_status_t (*export_dmabuf)(const void *addr, size_t len, int *fd, uint64_t *offset);
} rocr;

static const struct dl_symbol rocr_symbols[] = {
	ROCR_FUNCTIONS(ROCR_SYMBOL)
	/* ROCm 5.5 and later */
	{"hsa_amd_portable_export_dmabuf", NULL, (void **) &rocr.export_dmabuf, 1},
};

/* @host: any CPU; @gpus: by their ordinals */
static struct rocr_agents {
	hsa_agent_t host;
	hsa_agent_t gpus[ROCR_GPUS_MAX];
	int gpu_count;
} rocr_agents;

/**
 * struct rocr_queue - copies in flight.
 * @reached:	the latest mark whose copies, and all before them, have ended
 * @groups:	for each mark how many of the copies that it follows, and the mark before
 *		does not, have not ended: the device counts down. That behind the latest
 *		mark's is counted up by what is started now
 */
struct rocr_queue {
	struct dev_queue base;
	uint32_t reached;
	hsa_signal_t groups[ROCR_SIGNALS];
};

/* Translates an error; the one place where it is logged. */
static int rocr_check(hsa_status_t status, const char *call)
{
	const char *text = NULL;

	if (p2p_likely(status == HSA_STATUS_SUCCESS))
		return 0;
	rocr.status_string(status, &text);
	P2P_WARN("%s: %s\n", call, text ? text : "unknown HSA status");
	switch (status) {
	case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
		return -FI_ENOMEM;
	case HSA_STATUS_ERROR_INVALID_ARGUMENT:
	case HSA_STATUS_ERROR_INVALID_ALLOCATION:
		return -FI_EFAULT;
	default:
		return -FI_EIO;
	}
}

static int rocr_load(void)
{
	return dl_open(dev_rocr_ops.libdir, dev_rocr_ops.soname, rocr_symbols,
		       sizeof rocr_symbols / sizeof rocr_symbols[0])
		       ? 0
		       : -FI_ENOSYS;
}

static int rocr_init(void)
{
	return rocr.init() == HSA_STATUS_SUCCESS ? 0 : -FI_ENOSYS;
}

static hsa_status_t rocr_agent_add(hsa_agent_t agent, void *arg)
{
	struct rocr_agents *agents = arg;
	hsa_device_type_t type;
	hsa_status_t status = rocr.agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);

	/* without one of them the ordinals of others would be wrong */
	if (status != HSA_STATUS_SUCCESS)
		return status;
	if (type == HSA_DEVICE_TYPE_CPU && !agents->host.handle)
		agents->host = agent;
	if (type != HSA_DEVICE_TYPE_GPU)
		return HSA_STATUS_SUCCESS;
	if (agents->gpu_count == ROCR_GPUS_MAX)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	agents->gpus[agents->gpu_count++] = agent;
	return HSA_STATUS_SUCCESS;
}

/* Once, and as often as that fails */
static int rocr_agents_find(void)
{
	static bool found;
	struct rocr_agents agents = {.gpu_count = 0};
	int ret = 0;

	if (p2p_likely(__atomic_load_n(&found, __ATOMIC_ACQUIRE)))
		return 0;
	process_lock(PROCESS_CONTEXTS);
	if (!found) {
		ret = rocr_check(rocr.iterate_agents(rocr_agent_add, &agents),
				 "hsa_iterate_agents");
		if (!ret) {
			rocr_agents = agents;
			__atomic_store_n(&found, true, __ATOMIC_RELEASE);
		}
	}
	process_unlock(PROCESS_CONTEXTS);
	return ret;
}

/* The number of this GPU; negative: it is none */
static int rocr_ordinal(hsa_agent_t agent)
{
	for (int i = 0; i < rocr_agents.gpu_count; i++) {
		if (rocr_agents.gpus[i].handle == agent.handle)
			return i;
	}
	return -1;
}

/*
 * An allocation has no number of its own, but room for one value of the application's,
 * which goes with it: ours, as long as nobody else has put something there.
 */
static uint64_t rocr_id(const hsa_amd_pointer_info_t *info)
{
	static uintptr_t last;
	uintptr_t id = (uintptr_t) info->userData;

	if (!id) {
		id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
		/* where it cannot be kept the allocation has another number each time */
		rocr.pointer_set(info->agentBaseAddress, (void *) id);
	}
	return id;
}

static int rocr_find(const void *addr, struct dev_mem *mem)
{
	hsa_amd_pointer_info_t info = {.size = sizeof info};
	hsa_status_t status;
	int ordinal;

	/* which is no argument for the runtime */
	if (!addr)
		return 0;
	status = rocr.pointer_info(addr, &info, NULL, NULL, NULL);
	if (status == HSA_STATUS_ERROR_NOT_INITIALIZED)
		return 0;
	if (rocr_check(status, "hsa_amd_pointer_info"))
		return -FI_EIO;
	if (info.type != HSA_EXT_POINTER_TYPE_HSA &&
	    info.type != HSA_EXT_POINTER_TYPE_GRAPHICS &&
	    info.type != HSA_EXT_POINTER_TYPE_IPC && (int) info.type != ROCR_POINTER_VMEM)
		return 0;
	if (rocr_agents_find())
		return -FI_EIO;
	/* HIP's pinned host memory is HSA's as well, but a CPU's */
	ordinal = rocr_ordinal(info.agentOwner);
	if (ordinal < 0)
		return 0;
	*mem = (struct dev_mem){
		.ops = &dev_rocr_ops,
		.ctx = (void *) (uintptr_t) info.agentOwner.handle,
		.ordinal = ordinal,
		.base = (uintptr_t) info.agentBaseAddress,
		.size = info.sizeInBytes,
		.id = rocr_id(&info),
		.mapped = (int) info.type == ROCR_POINTER_VMEM,
	};
	return 1;
}

/* The runtime answers all of it in one question */
static int rocr_identify(const void *addr, uint64_t *id)
{
	struct dev_mem mem;
	const int ret = rocr_find(addr, &mem);

	if (ret == 1)
		*id = mem.id;
	return ret;
}

static bool rocr_hosts(const void *addr)
{
	hsa_amd_pointer_info_t info = {.size = sizeof info};
	struct dev_mem mem;

	return addr && !rocr.pointer_info(addr, &info, NULL, NULL, NULL) &&
	       info.type != HSA_EXT_POINTER_TYPE_UNKNOWN && !rocr_find(addr, &mem);
}

/*
 * HIP's copies between host and device have ended when they return, but for those that
 * the application has to wait for itself; HIP's streams cannot be waited for from here.
 */
static bool rocr_settle(const struct dev_mem *mem)
{
	return true;
}

/* The runtime itself takes care of host memory that is not pinned. */
static int rocr_pin(const struct dev_mem *mem, void *addr, size_t len)
{
	void *device_addr;

	/* for all devices; where they see it, rocr_place() asks */
	return rocr_check(rocr.lock(addr, len, NULL, 0, &device_addr), "hsa_amd_memory_lock");
}

static void rocr_unpin(void *addr)
{
	/* at exit the runtime may be gone already: nothing is lost then */
	rocr.unlock(addr);
}

static void rocr_queue_free(struct rocr_queue *queue)
{
	for (int i = 0; i < ROCR_SIGNALS && queue->groups[i].handle; i++)
		rocr.signal_destroy(queue->groups[i]);
	free(queue);
	rocr.shut_down();
}

static int rocr_queue_open(const struct dev_mem *mem, bool asks, struct dev_queue **base)
{
	struct rocr_queue *queue;
	int ret;

	/* a reference more to a runtime that is up: the application may drop its own */
	ret = rocr_check(rocr.init(), "hsa_init");
	if (ret)
		return ret;
	queue = calloc(1, sizeof *queue);
	if (!queue) {
		rocr.shut_down();
		return -FI_ENOMEM;
	}
	for (int i = 0; i < ROCR_SIGNALS; i++) {
		/* with no CPU to be woken: of those that do wake one a process has few */
		ret = rocr_check(rocr.signal_create(0, 0, NULL, HSA_AMD_SIGNAL_AMD_GPU_ONLY,
						    &queue->groups[i]),
				 "hsa_amd_signal_create");
		if (ret) {
			queue->groups[i].handle = 0;
			rocr_queue_free(queue);
			return ret;
		}
	}
	queue->base.ops = &dev_rocr_ops;
	queue->base.ctx = mem->ctx;
	queue->base.reached = &queue->reached;
	*base = &queue->base;
	return 0;
}

/* What marks the copies up to number @mark */
static hsa_signal_t rocr_group(const struct rocr_queue *queue, uint32_t mark)
{
	return queue->groups[mark % ROCR_SIGNALS];
}

static void rocr_queue_drain(struct dev_queue *base)
{
	struct rocr_queue *queue = (struct rocr_queue *) base;

	for (uint32_t mark = queue->reached + 1; mark != base->marked + 2; mark++)
		rocr.signal_wait(rocr_group(queue, mark), HSA_SIGNAL_CONDITION_LT, 1,
				 UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
}

static void rocr_queue_close(struct dev_queue *base)
{
	rocr_queue_drain(base);
	rocr_queue_free((struct rocr_queue *) base);
}

/*
 * Where the devices see @addr, and whose memory it is. False: they do not. Pinned memory
 * may have another address on a device than it has here.
 */
static bool rocr_place(const void *addr, size_t len, void **place, hsa_agent_t *owner)
{
	hsa_amd_pointer_info_t info = {.size = sizeof info};
	uintptr_t offset;

	if (rocr_check(rocr.pointer_info(addr, &info, NULL, NULL, NULL),
		       "hsa_amd_pointer_info") ||
	    info.type == HSA_EXT_POINTER_TYPE_UNKNOWN)
		return false;
	*owner = rocr_agents.host;
	*place = (void *) (uintptr_t) addr;
	if (info.type == HSA_EXT_POINTER_TYPE_LOCKED) {
		offset = (uintptr_t) addr - (uintptr_t) info.hostBaseAddress;
		*place = (char *) info.agentBaseAddress + offset;
		return offset <= info.sizeInBytes && len <= info.sizeInBytes - offset;
	}
	if (rocr_ordinal(info.agentOwner) >= 0)
		*owner = info.agentOwner;
	return true;
}

/* For good: what the device says of one copy is true of all that it is still to do */
static int rocr_queue_failed(void)
{
	P2P_WARN("a copy has failed on the device\n");
	return -FI_EIO;
}

static int rocr_queue_copy(struct dev_queue *base, void *dst, const void *src, size_t len)
{
	struct rocr_queue *queue = (struct rocr_queue *) base;
	hsa_signal_t group = rocr_group(queue, base->marked + 1);
	hsa_agent_t to_agent, from_agent;
	void *to, *from;
	int ret;

	/* a copy of nothing would not be counted down */
	if (!len)
		return 0;
	/* pageable memory is copied at once: waiting is the price, as with other vendors */
	if (!rocr_place(dst, len, &to, &to_agent) || !rocr_place(src, len, &from, &from_agent))
		return rocr_check(rocr.copy(dst, src, len), "hsa_memory_copy");
	/* counting up must not hide that one of the group has failed */
	if (rocr.signal_load(group) < 0)
		return rocr_queue_failed();
	rocr.signal_add(group, 1);
	ret = rocr_check(rocr.copy_async(to, to_agent, from, from_agent, len, 0, NULL, group),
			 "hsa_amd_memory_async_copy");
	if (ret)
		rocr.signal_add(group, -1);
	return ret;
}

static int rocr_queue_poll(struct dev_queue *base)
{
	struct rocr_queue *queue = (struct rocr_queue *) base;
	hsa_signal_value_t left = 0;

	while (queue->reached != base->marked) {
		left = rocr.signal_load(rocr_group(queue, queue->reached + 1));
		if (left)
			break;
		queue->reached++;
	}
	return p2p_likely(left >= 0) ? 0 : rocr_queue_failed();
}

static int rocr_queue_mark(struct dev_queue *base)
{
	base->marked++;
	return 0;
}

/* ---- memory of our own ---- */

static int rocr_device(int ordinal, struct dev_mem *mem)
{
	if (rocr_agents_find() || ordinal < 0 || ordinal >= rocr_agents.gpu_count)
		return -FI_ENODEV;
	*mem = (struct dev_mem){.ops = &dev_rocr_ops,
				.ctx = (void *) (uintptr_t) rocr_agents.gpus[ordinal].handle,
				.ordinal = ordinal};
	return 0;
}

/* The first pool that gives device memory */
static hsa_status_t rocr_visit_pool(hsa_amd_memory_pool_t pool, void *arg)
{
	hsa_amd_segment_t segment;
	bool allowed;
	hsa_status_t status = rocr.pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);

	if (status != HSA_STATUS_SUCCESS || segment != HSA_AMD_SEGMENT_GLOBAL)
		return status;
	status = rocr.pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
	if (status != HSA_STATUS_SUCCESS || !allowed)
		return status;
	*(hsa_amd_memory_pool_t *) arg = pool;
	return HSA_STATUS_INFO_BREAK;
}

static int rocr_alloc(const struct dev_mem *mem, size_t len, void **addr)
{
	hsa_amd_memory_pool_t pool;

	if (rocr.iterate_pools(rocr_agents.gpus[mem->ordinal], rocr_visit_pool, &pool) !=
	    HSA_STATUS_INFO_BREAK)
		return -FI_EIO;
	return rocr_check(rocr.allocate(pool, len, 0, addr), "hsa_amd_memory_pool_allocate");
}

static int rocr_store(const struct dev_mem *mem, void *addr, const void *from, size_t len)
{
	return rocr_check(rocr.copy(addr, from, len), "hsa_memory_copy");
}

static void rocr_free(const struct dev_mem *mem, void *addr)
{
	rocr_check(rocr.pool_free(addr), "hsa_amd_memory_pool_free");
}

/* ---- for NICs ---- */

static int rocr_expose(const struct dev_mem *mem, uintptr_t addr, size_t len, int *fd,
		       uint64_t *offset, const char **why)
{
	hsa_status_t status;

	if (!rocr.export_dmabuf) {
		*why = "the runtime is older than dma-bufs (ROCm 5.5)";
		return -FI_ENOSYS;
	}
	status = rocr.export_dmabuf((void *) addr, len, fd, offset);
	if (status == HSA_STATUS_SUCCESS)
		return 0;
	*why = "the runtime exports no dma-buf of this memory";
	return -FI_EOPNOTSUPP;
}

/* The device orders what comes over the bus before what the host does next. */
static int rocr_flush(const struct dev_mem *mem)
{
	return 0;
}

/* Part of the kernel's driver since it began, where the NIC's stack has peer memory */
static const char *const rocr_modules[] = {"ib_peer_mem", NULL};

const struct dev_ops dev_rocr_ops = {
	.name = "rocr",
	.iface = FI_HMEM_ROCR,
	.libdir = ROCM_LIBDIR,
	.soname = "libhsa-runtime64.so.1",
	.modules = rocr_modules,
	.load = rocr_load,
	.init = rocr_init,
	.find = rocr_find,
	.identify = rocr_identify,
	.hosts = rocr_hosts,
	.current = dev_none_current,
	.gone = dev_none_gone,
	.sync = dev_none_sync,
	.settle = rocr_settle,
	.copy_short = dev_none_copy_short,
	.node = dev_none_node,
	.pin = rocr_pin,
	.unpin = rocr_unpin,
	.queue_open = rocr_queue_open,
	.queue_close = rocr_queue_close,
	.queue_copy = rocr_queue_copy,
	.queue_rows = dev_none_queue_rows,
	.queue_batch = dev_none_queue_batch,
	.queue_put = dev_none_queue_put,
	.queue_mark = rocr_queue_mark,
	.queue_poll = rocr_queue_poll,
	.queue_drain = rocr_queue_drain,
	.expose = rocr_expose,
	.flush = rocr_flush,
	.ipc_export = dev_none_ipc_export,
	.ipc_open = dev_none_ipc_open,
	.ipc_close = dev_none_ipc_close,
	.ipc_share = dev_none_ipc_share,
	.ipc_attach = dev_none_ipc_attach,
	.ipc_detach = dev_none_ipc_detach,
	.device = rocr_device,
	.device_close = dev_none_device_close,
	.host_address = dev_none_host_address,
	.alloc = rocr_alloc,
	.store = rocr_store,
	.free = rocr_free,
	.window_open = dev_none_window_open,
	.window_close = dev_none_window_close,
	.stream_steps = dev_none_stream_steps,
	.stream_copy = dev_none_stream_copy,
	.loads_late = dev_none_loads_late,
	.kernel_load = dev_none_kernel_load,
	.queue_kernel = dev_none_queue_kernel,
	.stream_captured = dev_none_stream_captured,
	.graph_keep = dev_none_graph_keep,
};
