/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ids: what a peer is told of a buffer, and what it makes of that. All numbers are in network byte
 * order.
 *
 *	 0	"P2PB"
 *	 4	version, 1 byte; flags, 1 byte; length of the key, 2 bytes
 *	 8	GPU, or all ones for the host; then zero, 4 bytes each
 *	16	size; RMA address of the first byte; base address of a raw key, else 0
 *	40	the key: 8 bytes, or as many as a raw key has
 *	then	checksum of all before, 8 bytes
 */
#include "buffer/buffer.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define ID_MAGIC 0x50325042U
#define ID_VERSION 1
#define ID_RAW 1 /* flag: it is a raw key */
#define ID_HEAD 40
#define ID_SUM sizeof(uint64_t)
#define ID_KEY_MAX (P2P_BUFFER_ID_MAX - ID_HEAD - ID_SUM)

/* An id in the host's terms */
struct id {
	uint32_t gpu;
	uint64_t size;
	uint64_t addr;
	uint64_t raw_base;
	bool raw;
	size_t key_len;
	uint8_t key[ID_KEY_MAX];
};

/* FNV-1a: damage shows. It does not keep anybody from forging. */
static uint64_t checksum(const uint8_t *bytes, size_t len)
{
	uint64_t sum = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3ULL;
	return sum;
}

static void put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof value);
}

static void put64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof value);
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof value);
	return be32toh(value);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof value);
	return be64toh(value);
}

/* ---- made ---- */

static int id_key(const struct p2p_buffer_memory *memory, struct id *id)
{
	id->raw = memory->context->mr_mode & FI_MR_RAW;
	if (id->raw) {
		id->key_len = sizeof id->key;
		return fi_mr_raw_attr(memory->reg.mr, &id->raw_base, id->key, &id->key_len, 0);
	}
	id->key_len = sizeof(uint64_t);
	put64(id->key, fi_mr_key(memory->reg.mr));
	return 0;
}

static size_t id_encode(const struct id *id, uint8_t *out)
{
	const size_t len = ID_HEAD + id->key_len;

	put32(out, ID_MAGIC);
	out[4] = ID_VERSION;
	out[5] = id->raw ? ID_RAW : 0;
	out[6] = (uint8_t) (id->key_len >> 8);
	out[7] = (uint8_t) id->key_len;
	put32(out + 8, id->gpu);
	put32(out + 12, 0);
	put64(out + 16, id->size);
	put64(out + 24, id->addr);
	put64(out + 32, id->raw_base);
	memcpy(out + ID_HEAD, id->key, id->key_len);
	put64(out + len, checksum(out, len));
	return len + ID_SUM;
}

int p2p_buffer_id(struct p2p_buffer *buffer, void *out, size_t *len)
{
	const struct p2p_buffer_memory *memory;
	struct id id = {.raw_base = 0};
	int ret;

	if (!buffer_alive(buffer) || !buffer->memory->data || !out || !len)
		return -FI_EINVAL;
	memory = buffer->memory;
	if (memory->reg.shared)
		return memory->reg.shared;
	ret = id_key(memory, &id);
	if (ret)
		return ret;
	if (*len < ID_HEAD + id.key_len + ID_SUM)
		return -FI_ETOOSMALL;
	id.gpu = (uint32_t) memory->gpu;
	id.size = buffer->size;
	id.addr = memory->base + buffer->offset;
	*len = id_encode(&id, out);
	return 0;
}

/* ---- understood ---- */

/* Is it an id that one of our own contexts could have made? */
static int id_decode(const uint8_t *in, size_t len, struct id *id)
{
	if (len < ID_HEAD + ID_SUM || len > P2P_BUFFER_ID_MAX)
		return -FI_EINVAL;
	id->key_len = (size_t) in[6] << 8 | in[7];
	if (len != ID_HEAD + id->key_len + ID_SUM || get32(in) != ID_MAGIC ||
	    in[4] != ID_VERSION || in[5] & ~ID_RAW || get32(in + 12) ||
	    get64(in + len - ID_SUM) != checksum(in, len - ID_SUM))
		return -FI_EINVAL;
	id->raw = in[5] & ID_RAW;
	id->gpu = get32(in + 8);
	id->size = get64(in + 16);
	id->addr = get64(in + 24);
	id->raw_base = get64(in + 32);
	memcpy(id->key, in + ID_HEAD, id->key_len);
	if (!id->key_len || (!id->raw && (id->key_len != sizeof(uint64_t) || id->raw_base)))
		return -FI_EINVAL;
	if ((id->gpu > INT32_MAX && id->gpu != (uint32_t) P2P_BUFFER_HOST) ||
	    id->size > SIZE_MAX || id->addr > UINT64_MAX - id->size)
		return -FI_EINVAL;
	return 0;
}

/* Gets the key that operations are given. */
static int id_map_key(struct p2p_buffer_context *context, struct id *id,
		      struct p2p_buffer_memory *memory)
{
	int ret;

	if (!id->raw) {
		memory->key = get64(id->key);
		return memory->key == FI_KEY_NOTAVAIL ? -FI_EINVAL : 0;
	}
	ret = fi_mr_map_raw(context->domain, id->raw_base, id->key, id->key_len, &memory->key,
			    0);
	memory->mapped = !ret;
	return ret;
}

int p2p_buffer_attach(struct p2p_buffer_context *context, fi_addr_t peer, const void *in,
		      size_t len, struct p2p_buffer **buffer)
{
	struct p2p_buffer_memory *memory;
	struct id id;
	int ret;

	if (!context || !in || !buffer || id_decode(in, len, &id))
		return -FI_EINVAL;
	if (id.raw != !!(context->mr_mode & FI_MR_RAW))
		return -FI_EINVAL;
	memory = calloc(1, sizeof *memory);
	if (!memory)
		return -FI_ENOMEM;
	memory->context = context;
	memory->refs = 1;
	memory->peer = peer;
	memory->gpu = (int) id.gpu;
	memory->size = id.size;
	memory->base = id.addr;
	ret = id_map_key(context, &id, memory);
	if (!ret)
		ret = buffer_new(memory, buffer);
	if (!ret)
		return 0;
	if (memory->mapped)
		fi_mr_unmap_key(context->domain, memory->key);
	free(memory);
	return ret;
}
