/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The GPUs' memory. See gpu.h. */
#include "gpu.h"
#include "exhaust.h"
#include "gate.h"

#include <sys/mman.h>

/* Each process has addresses of its own: in the first half is what it has, in the second one what it has opened */
#define GPU_ARENA SIM_ARENA
#define GPU_PAGE ((size_t) 1 << 16)
#define GPU_NIC_PAGE ((size_t) 4096)
#define GPU_PAGES (GPU_ARENA / GPU_PAGE)

/* Short buffers are parts of an allocation that the application has made for many */
#define GPU_POOL ((size_t) 1 << 18)

/**
 * struct gpu_block - an allocation.
 * @node, @life: the process that has it, or had
 * @users:	that process, those that have it open, and descriptors of it
 * @bytes:	where its bytes are: no longer at the owner's address, once that has freed it
 * @at, @size:	the owner's address
 * @mapped:	virtual memory, which has no handle; @closed: the driver does not share it
 * @handle:	what others open it by
 */
struct gpu_block {
	unsigned int node, life, users;
	bool mapped, closed;
	uint8_t *bytes, *at;
	size_t size;
	uint64_t handle;
};

/**
 * struct gpu_place - what lies at an address of a process's.
 * @own:	the process has it; @parts: buffers in it, @used: bytes of it
 * @opens:	how often it has opened it; @attached: by a descriptor
 */
struct gpu_place {
	unsigned int node, opens;
	bool own, attached;
	uint8_t *base;
	uint64_t number;
	struct gpu_block *block;
	unsigned int parts;
	size_t used;
};

/* NICs have whole pages: a liar's key for an allocation is one for the rest of its last page, too */
static size_t block_room(const struct gpu_block *block)
{
	return (block->size + GPU_NIC_PAGE - 1) / GPU_NIC_PAGE * GPU_NIC_PAGE;
}

static uint8_t *arena;
static struct gpu_place *places[SIM_NODES][GPU_PAGES];
static struct gpu_place *pools[SIM_NODES];
static uint64_t last_number;
static uint64_t refused_until[SIM_NODES];

void gpu_begin(void)
{
	arena = mmap(NULL, SIM_NODES * GPU_ARENA, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		abort();
}

bool gpu_has(const void *addr)
{
	const uint8_t *at = addr;

	return at >= arena && at < arena + SIM_NODES * GPU_ARENA;
}

/* ---- places ---- */

static size_t place_pages(const struct gpu_place *place)
{
	return (place->block->size + GPU_PAGE - 1) / GPU_PAGE;
}

static struct gpu_place **place_at(const void *addr)
{
	const size_t page = (size_t) ((const uint8_t *) addr - arena) / GPU_PAGE;

	return &places[page / GPU_PAGES][page % GPU_PAGES];
}

static struct gpu_place *place_find(const void *addr)
{
	struct gpu_place *place = gpu_has(addr) ? *place_at(addr) : NULL;

	return place && (const uint8_t *) addr < place->base + place->block->size ? place
										  : NULL;
}

/* The lowest addresses that are free, which were somebody's a moment ago */
static struct gpu_place *place_new(unsigned int node, struct gpu_block *block, bool own)
{
	struct gpu_place *place = calloc(1, sizeof *place);
	size_t first = own ? 0 : GPU_PAGES / 2, end = first + GPU_PAGES / 2, free_ = 0, at;

	*place = (struct gpu_place){.node = node,
				    .own = own,
				    .block = block,
				    .number = ++last_number};
	for (at = first; at < end && free_ < place_pages(place); at++)
		free_ = places[node][at] ? 0 : free_ + 1;
	if (free_ < place_pages(place))
		world_fail("n%u: the device is full", node);
	at -= free_;
	place->base = arena + node * GPU_ARENA + at * GPU_PAGE;
	for (size_t i = 0; i < free_; i++)
		places[node][at + i] = place;
	block->users++;
	return place;
}

static void block_put(struct gpu_block *block)
{
	if (--block->users)
		return;
	if (block->bytes != block->at)
		free(block->bytes);
	free(block);
}

static void place_free(struct gpu_place *place)
{
	struct gpu_block *block = place->block;

	for (size_t i = 0, count = place_pages(place); i < count; i++)
		*place_at(place->base + i * GPU_PAGE) = NULL;
	if (place->own && block->users > 1) {
		block->bytes = calloc(1, block_room(block));
		memcpy(block->bytes, block->at, block->size);
	}
	block_put(block);
	free(place);
}

/* A context of each process's device: addresses alone */
static char contexts[SIM_NODES];

void gpu_mem_device(const struct dev_ops *ops, struct dev_mem *mem)
{
	*mem = (struct dev_mem){.ops = ops, .ctx = &contexts[world.current]};
}

int gpu_mem_find(const struct dev_ops *ops, const void *addr, struct dev_mem *mem)
{
	const struct gpu_place *place = place_find(addr);

	if (!place)
		return 0;
	*mem = (struct dev_mem){
		.ops = ops,
		.ctx = &contexts[place->node],
		.base = (uintptr_t) place->base,
		.size = place->block->size,
		.mapped = place->attached || (place->own && place->block->mapped),
		.id = place->number,
	};
	return 1;
}

/* ---- copies ---- */

uint64_t gpu_place(const void *addr)
{
	const struct gpu_place *place = place_find(addr);

	if (gpu_has(addr) && !place)
		world_fail("n%u: it copies device memory that it does not have", world.current);
	return place ? place->number : 0;
}

uint8_t *gpu_bytes(unsigned int node, uint64_t number, const void *addr, size_t len)
{
	const struct gpu_place *place = place_find(addr);
	const size_t offset = place ? (size_t) ((const uint8_t *) addr - place->base) : 0;

	if (!number)
		return (uint8_t *) (uintptr_t) addr;
	if (!place || place->number != number)
		world_fail("n%u: device memory was freed, or closed, amid a copy", node);
	if (place->node != node || len > place->block->size - offset)
		world_fail("n%u: a copy goes beyond the memory that it begins in", node);
	return place->block->bytes + offset;
}

/* ---- the application's ---- */

static struct gpu_place *gpu_block_new(unsigned int node, size_t size)
{
	struct gpu_block *block = calloc(1, sizeof *block);
	struct gpu_place *place;

	*block = (struct gpu_block){.node = node, .life = nodes[node].life, .size = size};
	place = place_new(node, block, true);
	block->bytes = block->at = place->base;
	block->handle = world_random();
	block->mapped = world.script->shares && !world_upto(4);
	block->closed = !world.script->shares || !world_upto(12);
	return place;
}

uint8_t *gpu_alloc(unsigned int node, size_t len)
{
	const bool short_ = len <= GPU_POOL / 4 && (exhaust_on || world_upto(2));
	struct gpu_place *place = short_ ? pools[node] : NULL;
	uint8_t *addr;

	if (!place || place->block->size - place->used < len)
		place = gpu_block_new(node, short_ ? GPU_POOL : len);
	if (short_)
		pools[node] = place;
	addr = place->base + place->used;
	place->used += (len + 255) & ~(size_t) 255;
	if (place->used > place->block->size)
		place->used = place->block->size;
	place->parts++;
	return addr;
}

void gpu_free(void *addr)
{
	struct gpu_place *place = place_find(addr);

	if (--place->parts)
		return;
	if (pools[place->node] == place)
		pools[place->node] = NULL;
	place_free(place);
}

/* ---- for other processes ---- */

static const char gpu_refuses[] = "the simulated driver shares nothing now";

static bool gpu_shares(const struct gpu_block *block)
{
	return !block->closed && world.now >= refused_until[world.current];
}

int gpu_ipc_export(const struct dev_mem *mem, void *handle, const char **why)
{
	const struct gpu_place *place = place_find((void *) mem->base);

	*why = gpu_refuses;
	if (!place || !place->own || place->block->mapped || !gpu_shares(place->block))
		return -FI_EOPNOTSUPP;
	memset(handle, 0, DEV_IPC_HANDLE);
	memcpy(handle, &place->block->handle, sizeof place->block->handle);
	return 0;
}

/* What a handle stands for, among all processes of the host; NULL: it was freed, or never was */
static struct gpu_block *gpu_by_handle(uint64_t handle)
{
	for (unsigned int node = 0; node < world.script->nodes; node++) {
		for (size_t page = 0; page < GPU_PAGES / 2; page++) {
			const struct gpu_place *place = places[node][page];

			if (place && place->block->handle == handle && !place->block->mapped &&
			    node_host(node) == node_host(world.current))
				return place->block;
		}
	}
	return NULL;
}

/* Is older memory still open that was in that place of its owner's? Drivers refuse another one then */
static bool gpu_in_the_way(const struct gpu_block *block)
{
	for (size_t page = GPU_PAGES / 2; page < GPU_PAGES; page++) {
		const struct gpu_place *place = places[world.current][page];
		const struct gpu_block *other = place ? place->block : NULL;

		if (other && other != block && !place->attached && other->node == block->node &&
		    other->life == block->life && other->at < block->at + block->size &&
		    block->at < other->at + other->size)
			return true;
	}
	return false;
}

static struct gpu_place *gpu_map(struct gpu_block *block, bool attached)
{
	struct gpu_place *place = place_new(world.current, block, false);

	place->opens = 1;
	place->attached = attached;
	world_tell("n%u: %s %zu bytes of n%u's device memory", world.current,
		   attached ? "attaches" : "opens", block->size, block->node);
	return place;
}

int gpu_ipc_open(const struct dev_mem *mem, const void *handle, void **addr, const char **why)
{
	struct gpu_place *place;
	struct gpu_block *block;
	uint64_t number;

	memcpy(&number, handle, sizeof number);
	block = gpu_by_handle(number);
	*why = gpu_refuses;
	if (!block || block->node == world.current || !gpu_shares(block) ||
	    gpu_in_the_way(block))
		return -FI_EOPNOTSUPP;
	*why = NULL;
	for (size_t page = GPU_PAGES / 2; page < GPU_PAGES; page++) {
		place = places[world.current][page];
		if (place && place->block == block && !place->attached) {
			place->opens++;
			*addr = place->base;
			return 0;
		}
	}
	*addr = gpu_map(block, false)->base;
	return 0;
}

static void gpu_unmap(void *addr, bool attached)
{
	struct gpu_place *place = place_find(addr);

	if (world.child)
		world_fail("n%u: a child of fork() closes device memory", world.current);
	if (!place || place->own || place->base != addr || place->attached != attached)
		world_fail("n%u: it closes memory that it has not opened", world.current);
	if (--place->opens)
		return;
	world_tell("n%u: closes %zu bytes of n%u's device memory", world.current,
		   place->block->size, place->block->node);
	place_free(place);
}

void gpu_ipc_close(void *ctx, void *addr)
{
	gpu_unmap(addr, false);
}

int gpu_ipc_share(const struct dev_mem *mem, int *fd, const char **why)
{
	const struct gpu_place *place = place_find((void *) mem->base);

	*why = gpu_refuses;
	if (!place || !place->own || !place->block->mapped || !gpu_shares(place->block))
		return -FI_EOPNOTSUPP;
	*fd = gate_memory(place->block);
	if (*fd < 0)
		return -FI_EOPNOTSUPP;
	place->block->users++;
	*why = NULL;
	return 0;
}

void gpu_memory_put(void *memory)
{
	block_put(memory);
}

int gpu_ipc_attach(const struct dev_mem *mem, int fd, size_t size, void **addr,
		   const char **why)
{
	struct gpu_block *block = gate_memory_of(fd);

	*why = gpu_refuses;
	if (!block || block->size != size || !gpu_shares(block))
		return -FI_EOPNOTSUPP;
	*addr = gpu_map(block, true)->base;
	*why = NULL;
	return 0;
}

void gpu_ipc_detach(void *addr, size_t size)
{
	gpu_unmap(addr, true);
}

/* ---- for NICs ---- */

struct gpu_block *gpu_hold(const void *addr, size_t *offset)
{
	struct gpu_place *place = place_find(addr);

	if (!place)
		return NULL;
	place->block->users++;
	*offset = (size_t) ((const uint8_t *) addr - place->base);
	return place->block;
}

struct gpu_block *gpu_hold_memory(int fd)
{
	struct gpu_block *block = gate_memory_of(fd);

	if (block)
		block->users++;
	return block;
}

bool gpu_block_is_free(const struct gpu_block *block)
{
	return block->bytes != block->at;
}

uint8_t *gpu_block_bytes(const struct gpu_block *block, size_t offset, size_t len)
{
	const size_t room = block_room(block);

	if (offset > room || len > room - offset)
		world_fail("n%u: its NIC goes beyond the device memory that it has",
			   block->node);
	return block->bytes + offset;
}

int gpu_expose(const struct dev_mem *mem, uintptr_t addr, size_t len, int *fd, uint64_t *offset,
	       const char **why)
{
	const struct gpu_place *place = place_find((void *) mem->base);

	*why = gpu_refuses;
	if (!place || !place->own)
		return -FI_EOPNOTSUPP;
	*fd = gate_memory(place->block);
	if (*fd < 0)
		return -FI_EOPNOTSUPP;
	place->block->users++;
	*offset = addr - (uintptr_t) place->base;
	*why = NULL;
	return 0;
}

/* ---- for kernels ---- */

/* What they have beside the application's memory: no copy is about it */
static unsigned int states[SIM_NODES];

static void *state_new(size_t len)
{
	if (world.child)
		world_fail("n%u: a child of fork() asks its GPU's driver", world.current);
	states[world.current]++;
	return aligned_alloc(128, (len + 127) & ~(size_t) 127);
}

int gpu_object_new(const struct dev_mem *mem, size_t len, void **addr)
{
	*addr = state_new(len);
	return 0;
}

int gpu_object_store(const struct dev_mem *mem, void *addr, const void *from, size_t len)
{
	memcpy(addr, from, len);
	return 0;
}

void gpu_object_free(const struct dev_mem *mem, void *addr)
{
	states[world.current]--;
	free(addr);
}

/* Some processors cannot write there */
int gpu_window_new(const struct dev_mem *mem, size_t len, struct dev_window *window)
{
	if (world.script->noise >> world.current & 1)
		return -FI_ENOSYS;
	*window = (struct dev_window){.addr = memset(state_new(len), 0, len), .len = len};
	window->map = window->addr;
	return 0;
}

void gpu_window_free(const struct dev_mem *mem, struct dev_window *window)
{
	gpu_object_free(mem, window->addr);
}

/* ---- for the world ---- */

unsigned int gpu_opened(unsigned int node)
{
	const struct gpu_place *before = NULL;
	unsigned int count = 0;

	for (size_t page = GPU_PAGES / 2; page < GPU_PAGES; page++) {
		count += places[node][page] && places[node][page] != before;
		before = places[node][page];
	}
	return count + states[node];
}

void gpu_end(unsigned int node)
{
	for (size_t page = 0; page < GPU_PAGES; page++) {
		if (places[node][page])
			place_free(places[node][page]);
	}
	pools[node] = NULL;
	states[node] = 0;
}

void gpu_refuse(unsigned int node, uint64_t until)
{
	refused_until[node] = until;
}
