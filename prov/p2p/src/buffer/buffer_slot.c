/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Pinned host memory for pieces of transfers. It is made as it is wanted, and kept. See buffer.h. */
#include "buffer/buffer.h"

#include <stdlib.h>

static int slot_free(struct p2p_buffer_slot *slot)
{
	int ret = buffer_mr_close(&slot->reg);

	if (ret)
		return ret;
	buffer_gpu_close(slot->queue, slot->data);
	free(slot);
	return 0;
}

static int slot_new(struct p2p_buffer_context *context, const struct p2p_buffer_memory *memory,
		    struct p2p_buffer_slot **slot)
{
	struct p2p_buffer_slot *new = calloc(1, sizeof *new);
	int ret;

	if (!new)
		return -FI_ENOMEM;
	ret = buffer_gpu_open(&memory->dev, BUFFER_SLOT_SIZE, &new->data, &new->queue);
	if (ret)
		goto free_slot;
	ret = buffer_mr_open(context, new->data, BUFFER_SLOT_SIZE, &new->reg);
	if (ret)
		goto close_queue;
	*slot = new;
	return 0;

close_queue:
	buffer_gpu_close(new->queue, new->data);
free_slot:
	free(new);
	return ret;
}

void buffer_slot_put(struct p2p_buffer_context *context, struct p2p_buffer_slot *slot)
{
	pthread_mutex_lock(&context->lock);
	SLIST_INSERT_HEAD(&context->slots, slot, entry);
	context->slots_used--;
	pthread_mutex_unlock(&context->lock);
}

int buffer_slot_get(struct p2p_buffer_context *context, const struct p2p_buffer_memory *memory,
		    struct p2p_buffer_slot **slot)
{
	struct p2p_buffer_slot *found;
	bool full;
	int ret;

	pthread_mutex_lock(&context->lock);
	SLIST_FOREACH(found, &context->slots, entry)
	{
		if (found->queue->ops == memory->dev.ops)
			break;
	}
	full = context->slots_used == BUFFER_SLOTS;
	if (!full) {
		context->slots_used++;
		if (found)
			SLIST_REMOVE(&context->slots, found, p2p_buffer_slot, entry);
	}
	pthread_mutex_unlock(&context->lock);
	if (full)
		return -FI_EAGAIN;
	ret = found ? 0 : slot_new(context, memory, &found);
	if (!ret) {
		*slot = found;
		return 0;
	}
	pthread_mutex_lock(&context->lock);
	context->slots_used--;
	pthread_mutex_unlock(&context->lock);
	return ret;
}

int buffer_slots_free(struct p2p_buffer_context *context)
{
	struct p2p_buffer_slot *slot;
	int ret;

	while ((slot = SLIST_FIRST(&context->slots))) {
		SLIST_REMOVE_HEAD(&context->slots, entry);
		ret = slot_free(slot);
		if (ret) {
			SLIST_INSERT_HEAD(&context->slots, slot, entry);
			return ret;
		}
	}
	return 0;
}
