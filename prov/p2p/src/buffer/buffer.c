/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Contexts, buffers and views, and who refers to what. See fi_p2p_buffer.h and buffer.h. */
#include "buffer/buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* What ofi_p2p takes for a short message is 4096 bytes or less: fi_p2p(7), FI_P2P_PATH. */
#define GPU_ROOM_MIN 8192

#define MR_BASIC_BITS (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* ---- contexts ---- */

/* What the older two modes mean is in fi_mr(3). */
static int mr_mode_of(const struct fi_info *info)
{
	int mode = info->domain_attr->mr_mode;

	if (mode == FI_MR_BASIC)
		mode = MR_BASIC_BITS;
	else if (mode == FI_MR_SCALABLE)
		mode = 0;
	return info->mode & FI_LOCAL_MR ? mode | FI_MR_LOCAL : mode;
}

static uint64_t key_mask_of(const struct fi_info *info)
{
	const size_t size = info->domain_attr->mr_key_size;

	return size && size < sizeof(uint64_t) ? (1ULL << 8 * size) - 1 : UINT64_MAX;
}

int p2p_buffer_context_open(struct fid_domain *domain, struct fid_ep *ep,
			    const struct fi_info *info, struct p2p_buffer_context **context)
{
	struct p2p_buffer_context *new;

	if (!domain || !ep || !info || !info->domain_attr || !info->ep_attr || !info->tx_attr ||
	    !context)
		return -FI_EINVAL;
	if (!(info->caps & FI_RMA))
		return -FI_EOPNOTSUPP;
	new = calloc(1, sizeof *new);
	if (!new)
		return -FI_ENOMEM;
	new->domain = domain;
	new->ep = ep;
	new->mr_mode = mr_mode_of(info);
	new->caps = info->caps;
	new->key_mask = key_mask_of(info);
	/* Injected pieces would be short ones, and their completions are asked for one by one. */
	new->op_flags = (info->tx_attr->op_flags & ~FI_INJECT) | FI_COMPLETION;
	new->max_msg_size = info->ep_attr->max_msg_size;
	if (!new->max_msg_size)
		new->max_msg_size = SIZE_MAX;
	new->owner = getpid();
	pthread_mutex_init(&new->lock, NULL);
	LIST_INIT(&new->memories);
	SLIST_INIT(&new->slots);
	STAILQ_INIT(&new->dead);
	*context = new;
	return 0;
}

/*
 * Is it the parent's? A child of fork() has copies of the records, and of a lock that another thread may have held. The
 * memory and its registrations are not the child's to give back.
 */
static bool context_inherited(const struct p2p_buffer_context *context)
{
	return context->owner != getpid();
}

/* Closes what transfers have left open, and says whether anything else is still in use. */
static int close_orphans(struct p2p_buffer_context *context)
{
	struct p2p_buffer_memory *memory = LIST_FIRST(&context->memories), *next;
	int ret = 0;

	for (; memory; memory = next) {
		int closed;

		next = LIST_NEXT(memory, entry);
		closed = memory->orphan ? buffer_memory_put(memory) : -FI_EBUSY;
		ret = ret ? ret : closed;
	}
	return ret;
}

int p2p_buffer_context_close(struct p2p_buffer_context *context)
{
	struct p2p_buffer *buffer;
	int ret;

	if (!context)
		return -FI_EINVAL;
	if (context_inherited(context))
		return 0;
	ret = close_orphans(context);
	if (!ret)
		ret = context->slots_used ? -FI_EBUSY : buffer_slots_free(context);
	if (ret)
		return ret;
	while ((buffer = STAILQ_FIRST(&context->dead))) {
		STAILQ_REMOVE_HEAD(&context->dead, entry);
		free(buffer);
	}
	pthread_mutex_destroy(&context->lock);
	free(context);
	return 0;
}

/* ---- memory ---- */

static size_t host_room(size_t size)
{
	const size_t page = (size_t) sysconf(_SC_PAGESIZE);

	return size > SIZE_MAX - page ? 0 : (size + page - 1) / page * page;
}

static int host_alloc(size_t size, void **data)
{
	const size_t room = host_room(size);
	void *new = MAP_FAILED;

	if (room)
		new = mmap(NULL, room, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (new == MAP_FAILED)
		return -FI_ENOMEM;
	*data = new;
	return 0;
}

/* As much of a GPU's is allocated as makes no short message. So its path can be asked for. */
static size_t gpu_room(size_t size)
{
	return size < GPU_ROOM_MIN ? GPU_ROOM_MIN : size;
}

/* Gives back what the memory is made of. */
static void memory_free(struct p2p_buffer_memory *memory)
{
	if (memory->owned && memory->dev.ops)
		memory->dev.ops->free(&memory->dev, memory->data);
	else if (memory->owned)
		munmap(memory->data, host_room(memory->size));
	if (memory->dev.ops)
		memory->dev.ops->device_close(memory->dev.ctx);
	free(memory);
}

void buffer_memory_get(struct p2p_buffer_memory *memory)
{
	__atomic_add_fetch(&memory->refs, 1, __ATOMIC_RELAXED);
}

/* A region that is closed, or was, is closed. So the call may be made again after an error. */
static int memory_close(struct p2p_buffer_memory *memory)
{
	struct p2p_buffer_context *context = memory->context;
	int ret = buffer_mr_close(&memory->reg);

	if (!ret && memory->mapped)
		ret = fi_mr_unmap_key(context->domain, memory->key);
	if (ret)
		return ret;
	pthread_mutex_lock(&context->lock);
	LIST_REMOVE(memory, entry);
	pthread_mutex_unlock(&context->lock);
	memory_free(memory);
	return 0;
}

int buffer_memory_put(struct p2p_buffer_memory *memory)
{
	int ret;

	if (__atomic_sub_fetch(&memory->refs, 1, __ATOMIC_ACQ_REL))
		return 0;
	ret = memory_close(memory);
	/* Nobody else has a reference, so nobody else can look meanwhile. */
	if (ret)
		__atomic_store_n(&memory->refs, 1, __ATOMIC_RELEASE);
	return ret;
}

/* ---- buffers ---- */

static struct p2p_buffer *object_new(struct p2p_buffer_memory *memory, size_t offset,
				     size_t size)
{
	struct p2p_buffer *buffer = calloc(1, sizeof *buffer);

	if (!buffer)
		return NULL;
	buffer->magic = BUFFER_ALIVE;
	buffer->refs = 1;
	buffer->memory = memory;
	buffer->offset = offset;
	buffer->size = size;
	return buffer;
}

/* Poisons a released object. It is kept for a while, so that who uses it is found out. */
static void object_bury(struct p2p_buffer_context *context, struct p2p_buffer *buffer)
{
	struct p2p_buffer *oldest = NULL;

	pthread_mutex_lock(&context->lock);
	buffer->magic = BUFFER_DEAD;
	buffer->memory = NULL;
	STAILQ_INSERT_TAIL(&context->dead, buffer, entry);
	if (++context->dead_count > BUFFER_DEAD_KEPT) {
		oldest = STAILQ_FIRST(&context->dead);
		STAILQ_REMOVE_HEAD(&context->dead, entry);
		context->dead_count--;
	}
	pthread_mutex_unlock(&context->lock);
	free(oldest);
}

int buffer_new(struct p2p_buffer_memory *memory, struct p2p_buffer **buffer)
{
	struct p2p_buffer_context *context = memory->context;
	struct p2p_buffer *new = object_new(memory, 0, memory->size);

	if (!new)
		return -FI_ENOMEM;
	pthread_mutex_lock(&context->lock);
	LIST_INSERT_HEAD(&context->memories, memory, entry);
	pthread_mutex_unlock(&context->lock);
	*buffer = new;
	return 0;
}

/* Registers what @memory is made of, and makes a buffer of it. Frees it after an error. */
static int register_memory(struct p2p_buffer_memory *memory, struct p2p_buffer **buffer)
{
	struct p2p_buffer_context *context = memory->context;
	int ret = 0;

	memory->refs = 1;
	memory->peer = FI_ADDR_UNSPEC;
	if (context->mr_mode & FI_MR_VIRT_ADDR)
		memory->base = (uintptr_t) memory->data;
	memory->direct =
		!memory->dev.ops || buffer_gpu_taken(context, memory->data, memory->size);
	memory->reg.shared = -FI_EOPNOTSUPP;
	if (memory->direct)
		ret = buffer_mr_open_shared(context, memory->dev.ops, memory->gpu, memory->data,
					    memory->size, &memory->reg);
	/* The library can do without for what it copies. */
	if (ret && memory->dev.ops) {
		memory->direct = context->stats && !(context->mr_mode & FI_MR_LOCAL) &&
				 !(context->mr_mode & FI_MR_HMEM);
		ret = 0;
	}
	if (!ret)
		ret = buffer_new(memory, buffer);
	if (ret) {
		buffer_mr_close(&memory->reg);
		memory_free(memory);
	}
	return ret;
}

static struct p2p_buffer_memory *memory_new(struct p2p_buffer_context *context, int gpu,
					    size_t size)
{
	struct p2p_buffer_memory *memory = calloc(1, sizeof *memory);

	if (!memory)
		return NULL;
	memory->context = context;
	memory->gpu = gpu;
	memory->size = size;
	return memory;
}

int p2p_buffer_alloc(struct p2p_buffer_context *context, int gpu, size_t size,
		     struct p2p_buffer **buffer)
{
	struct p2p_buffer_memory *memory;
	void *data = NULL;
	int ret = 0;

	if (!context || !buffer || !size || gpu < P2P_BUFFER_HOST)
		return -FI_EINVAL;
	memory = memory_new(context, gpu, size);
	if (!memory)
		return -FI_ENOMEM;
	if (gpu != P2P_BUFFER_HOST)
		ret = buffer_gpu_find(gpu, NULL, 0, &memory->dev);
	if (!ret)
		ret = memory->dev.ops
			      ? memory->dev.ops->alloc(&memory->dev, gpu_room(size), &data)
			      : host_alloc(size, &data);
	if (ret) {
		memory_free(memory);
		return ret;
	}
	memory->data = data;
	memory->owned = true;
	return register_memory(memory, buffer);
}

int p2p_buffer_wrap(struct p2p_buffer_context *context, int gpu, void *data, size_t size,
		    struct p2p_buffer **buffer)
{
	struct p2p_buffer_memory *memory;
	int ret = 0;

	if (!context || !buffer || !data || !size || gpu < P2P_BUFFER_HOST ||
	    (uintptr_t) data > UINTPTR_MAX - size)
		return -FI_EINVAL;
	memory = memory_new(context, gpu, size);
	if (!memory)
		return -FI_ENOMEM;
	if (gpu != P2P_BUFFER_HOST)
		ret = buffer_gpu_find(gpu, data, size, &memory->dev);
	if (ret) {
		memory_free(memory);
		return ret;
	}
	memory->data = data;
	return register_memory(memory, buffer);
}

struct p2p_buffer *p2p_buffer_duplicate(struct p2p_buffer *buffer, size_t offset, size_t size)
{
	struct p2p_buffer *view;

	if (!buffer_alive(buffer) || !buffer_inside(buffer->size, offset, size))
		return NULL;
	view = object_new(buffer->memory, buffer->offset + offset, size);
	if (view)
		buffer_memory_get(view->memory);
	return view;
}

int p2p_buffer_retain(struct p2p_buffer *buffer)
{
	uint32_t refs;

	if (!buffer_alive(buffer))
		return -FI_EINVAL;
	refs = __atomic_load_n(&buffer->refs, __ATOMIC_RELAXED);
	do {
		if (refs == UINT32_MAX)
			return -FI_EBUSY;
	} while (!__atomic_compare_exchange_n(&buffer->refs, &refs, refs + 1, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return 0;
}

int p2p_buffer_release(struct p2p_buffer *buffer)
{
	struct p2p_buffer_context *context;
	int ret;

	if (!buffer_alive(buffer))
		return -FI_EINVAL;
	if (context_inherited(buffer->memory->context) ||
	    __atomic_sub_fetch(&buffer->refs, 1, __ATOMIC_ACQ_REL))
		return 0;
	context = buffer->memory->context;
	ret = buffer_memory_put(buffer->memory);
	if (ret)
		__atomic_store_n(&buffer->refs, 1, __ATOMIC_RELEASE);
	else
		object_bury(context, buffer);
	return ret;
}

/* ---- what a buffer is ---- */

const void *p2p_buffer_cdata(const struct p2p_buffer *buffer)
{
	if (!buffer_alive(buffer) || !buffer->memory->data)
		return NULL;
	return buffer->memory->data + buffer->offset;
}

void *p2p_buffer_data(struct p2p_buffer *buffer)
{
	return (void *) (uintptr_t) p2p_buffer_cdata(buffer);
}

size_t p2p_buffer_size(const struct p2p_buffer *buffer)
{
	return buffer_alive(buffer) ? buffer->size : 0;
}

int p2p_buffer_gpu(const struct p2p_buffer *buffer)
{
	return buffer_alive(buffer) ? buffer->memory->gpu : P2P_BUFFER_HOST;
}

void *p2p_buffer_desc(const struct p2p_buffer *buffer)
{
	if (!buffer_alive(buffer) || !buffer->memory->reg.mr)
		return NULL;
	return fi_mr_desc(buffer->memory->reg.mr);
}

int p2p_buffer_is_gpudirect(struct p2p_buffer *buffer)
{
	const struct p2p_buffer_context *context;
	const struct p2p_buffer_memory *memory;
	char reason[FI_P2P_REASON_MAX];
	enum fi_p2p_path path;

	if (!buffer_alive(buffer))
		return -FI_EINVAL;
	memory = buffer->memory;
	context = memory->context;
	if (!memory->dev.ops || !memory->direct)
		return 0;
	/* Of the memory, and not of a view of it, as short messages have a way of their own. */
	if (context->stats)
		return !context->stats->path(&context->ep->fid, memory->data,
					     memory->owned ? gpu_room(memory->size)
							   : memory->size,
					     &path, reason, sizeof reason) &&
		       path == FI_P2P_PATH_PEER;
	return memory->reg.mr && context->mr_mode & FI_MR_HMEM;
}
