/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The owner's side of windows on GPU memory: what requests ask for is done here, in the service's thread. To MPI it is a
 * thread of its own, whatever MPI's thread level. So it calls nothing of MPI's.
 */
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "mirror.h"
#include "window.h"

/* ---- what is believed ---- */

/* The bytes of all runs. 0: one has none, or no whole elements of @unit bytes, or no message takes as much */
static size_t window_bytes(const struct window_head *head, size_t unit)
{
	const struct layout_run *runs = (const void *) (head + 1);
	size_t bytes = 0;

	for (uint64_t i = 0; i < head->runs; i++) {
		if (runs[i].len == 0 || runs[i].len % unit ||
		    runs[i].len > SERVICE_LONGEST - sizeof *head - bytes)
			return 0;
		bytes += runs[i].len;
	}
	return bytes;
}

/* Is a request one, with what belongs to its kind, and @room bytes behind its head? @bytes: what its runs have */
static bool window_understands(const struct window_head *head, size_t room, size_t *bytes)
{
	const bool swaps = head->kind == WINDOW_SWAP;
	const size_t times = swaps ? 2 : head->calculation != CALCULATE_NO_OP;
	size_t unit = 1;

	/* only what is about data has anything behind its head */
	if (head->kind != WINDOW_DATA && !swaps)
		return head->kind <= WINDOW_COMPLETE && room == 0;
	/* there is a run, and all of them are here; what is swapped is one */
	if (head->runs == 0 || head->runs > room / sizeof(struct layout_run) ||
	    (swaps && head->runs > 1))
		return false;
	/* it is a calculation, and elements are as long as those of its type */
	if (head->calculation > CALCULATE_NO_OP && !swaps) {
		unit = calculate_size(head->type);
		if (head->calculation > CALCULATE_MINLOC || unit == 0 || head->unit != unit)
			return false;
	}
	/* a reply with all that the runs have is no longer than others */
	*bytes = window_bytes(head, unit);
	/* behind them is as much data: twice, if it is what is expected, too; none, if nothing changes */
	return *bytes && head->len == times * *bytes &&
	       room == head->runs * sizeof(struct layout_run) + head->len;
}

/* ---- data ---- */

static const struct window_region *window_region(const struct window *window, uintptr_t at)
{
	const struct window_region *region;

	SLIST_FOREACH(region, &window->regions, entry)
	{
		if (at - (uintptr_t) region->base < (uintptr_t) region->size)
			break;
	}
	return region;
}

/* A run may go on from one region to the next. @gpu: set if some of that is a GPU's */
static bool window_has_run(const struct window *window, const struct layout_run *run, bool *gpu)
{
	/* window->base is 0 if memory was attached: then runs have addresses */
	uintptr_t at = (uintptr_t) window->base + (uintptr_t) run->at;
	size_t left = run->len, len;

	for (; left; at += len, left -= len) {
		const struct window_region *region = window_region(window, at);

		if (!region)
			return false;
		len = (size_t) region->size - (at - (uintptr_t) region->base);
		len = len < left ? len : left;
		*gpu = *gpu || region->gpu;
	}
	return true;
}

/* Are the runs in the window's memory? @gpu: is some of that a GPU's? */
static bool window_has(const struct window *window, const struct window_head *head, bool *gpu)
{
	const struct layout_run *runs = (const void *) (head + 1);
	bool has = true;

	*gpu = false;
	window_lock();
	for (uint64_t i = 0; i < head->runs && has; i++)
		has = window_has_run(window, &runs[i], gpu);
	window_unlock();
	return has;
}

/* What the runs are, as a type's layout */
static struct layout *window_runs(const struct window_head *head)
{
	const struct layout_run *runs = (const void *) (head + 1);
	struct layout *layout = calloc(1, sizeof *layout);

	if (!layout)
		return NULL;
	layout->refs = 1;
	layout->leaf = MPI_DATATYPE_NULL;
	layout->runs = malloc(head->runs * sizeof *runs);
	if (!layout->runs) {
		layout_put(layout);
		return NULL;
	}
	memcpy(layout->runs, runs, head->runs * sizeof *runs);
	layout->count = layout->room = head->runs;
	layout->low = runs[0].at;
	for (uint64_t i = 0; i < head->runs; i++) {
		const MPI_Aint end = runs[i].at + (MPI_Aint) runs[i].len;

		layout->size += runs[i].len;
		layout->low = runs[i].at < layout->low ? runs[i].at : layout->low;
		layout->high = i == 0 || end > layout->high ? end : layout->high;
	}
	layout->extent = (MPI_Aint) layout->size;
	return layout;
}

/* @memory: of one run, or the host memory in its place; @data: of the request */
static void window_calculate(const struct window_head *head, char *memory, const char *data,
			     size_t len)
{
	if (head->kind == WINDOW_SWAP) {
		/* two elements: what is expected, and what replaces that */
		if (!memcmp(memory, data, len))
			memcpy(memory, data + len, len);
	} else if (head->calculation == CALCULATE_REPLACE) {
		memcpy(memory, data, len);
	} else if (head->calculation != CALCULATE_NO_OP) {
		calculate(head->calculation, head->type, data, memory, len / head->unit);
	}
}

/* @memory: where runs count from; @result: of the reply, or NULL */
static void window_apply(const struct window_head *head, char *memory, char *result)
{
	const struct layout_run *runs = (const void *) (head + 1);
	const char *data = (const char *) (runs + head->runs);

	for (uint64_t i = 0; i < head->runs; i++) {
		char *at = memory + runs[i].at;

		if (result) {
			memcpy(result, at, runs[i].len);
			result += runs[i].len;
		}
		window_calculate(head, at, data, runs[i].len);
		if (head->len)
			data += runs[i].len;
	}
}

/* ---- answers ---- */

static struct service_message *window_answer(const struct window *window, int rank, uint64_t op,
					     size_t len, enum window_error error)
{
	struct service_message *message = service_message(sizeof(struct window_head) + len);

	if (message)
		*(struct window_head *) message->data =
			(struct window_head){.kind = WINDOW_REPLY,
					     .window = window->peers[rank].window,
					     .rank = window->rank,
					     .op = op,
					     .error = error,
					     .len = len};
	return message;
}

static void window_reply(const struct window *window, int rank, uint64_t op,
			 enum window_error error)
{
	struct service_message *message = window_answer(window, rank, op, 0, error);

	if (!message)
		window_fatal("no memory to answer another rank");
	service_send(message, window->peers[rank].addr);
}

/* Does what @head says with the memory that @mirror stands for: NULL if that is the host's. */
static enum window_error window_access(const struct window *window,
				       const struct window_head *head, struct mirror *mirror,
				       char *result)
{
	const bool is_data = head->kind == WINDOW_DATA;
	const char *why;

	if (!mirror) {
		window_apply(head, window->base, result);
		return WINDOW_FINE;
	}
	mirror->reads = !is_data || head->fetch || head->calculation != CALCULATE_REPLACE;
	mirror->writes = !is_data || head->calculation != CALCULATE_NO_OP;
	if (mirror_fill(mirror, &why) != MPI_SUCCESS)
		return WINDOW_FAILED;
	window_apply(head, mirror->host, result);
	return mirror_drain(mirror, &why) == MPI_SUCCESS ? WINDOW_FINE : WINDOW_FAILED;
}

static enum window_error window_serve_data(const struct window *window,
					   const struct window_head *head,
					   struct service_message *answer)
{
	struct window_head *reply = (void *) answer->data;
	struct mirror *mirror = NULL;
	struct mirror_part *part;
	enum window_error error;
	const char *why;
	size_t bytes;
	bool gpu;

	if (!window_has(window, head, &gpu))
		return WINDOW_RANGE;
	if (gpu) {
		part = calloc(1, sizeof *part);
		if (!part)
			return WINDOW_NO_MEM;
		part->count = 1;
		part->layout = window_runs(head);
		if (!part->layout) {
			free(part);
			return WINDOW_NO_MEM;
		}
		/* no mirror, no error: it is a GPU's no more */
		if (mirror_make(&mirror, window->base, part, 1, false, &bytes, &why) !=
			    MPI_SUCCESS ||
		    !mirror)
			return WINDOW_GONE;
	}
	error = window_access(window, head, mirror,
			      reply->len ? answer->data + sizeof *reply : NULL);
	if (mirror)
		mirror_free(mirror);
	return error;
}

/* ---- locks ---- */

/* Gives the lock to those who may have it, the first first. */
static void window_grant(struct window *window)
{
	struct window_peer *peer;

	while ((peer = STAILQ_FIRST(&window->waiters))) {
		if (window->exclusive || (peer->exclusive && window->holders))
			break;
		STAILQ_REMOVE_HEAD(&window->waiters, entry);
		peer->holds = WINDOW_HOLDS;
		window->holders++;
		window->exclusive = peer->exclusive;
		window_reply(window, (int) (peer - window->peers), peer->lock, WINDOW_FINE);
	}
}

static void window_serve_lock(struct window *window, const struct window_head *head)
{
	struct window_peer *peer = &window->peers[head->rank];

	/* who has it, or waits for it, does not ask again */
	if (peer->holds != WINDOW_NOTHING)
		return window_reply(window, head->rank, head->op, WINDOW_WRONG);
	peer->holds = WINDOW_WAITS;
	peer->exclusive = head->unit;
	peer->lock = head->op;
	STAILQ_INSERT_TAIL(&window->waiters, peer, entry);
	window_grant(window);
}

static void window_serve_unlock(struct window *window, const struct window_head *head)
{
	struct window_peer *peer = &window->peers[head->rank];

	/* who has not got it gives nothing back */
	if (peer->holds != WINDOW_HOLDS)
		return;
	peer->holds = WINDOW_NOTHING;
	window->holders--;
	window->exclusive = false;
	window_grant(window);
}

static void window_serve_notice(struct window *window, const struct window_head *head)
{
	struct window_peer *peer = &window->peers[head->rank];

	window_lock();
	if (head->kind == WINDOW_POST)
		peer->posts++;
	else
		peer->completes++;
	window_wake();
	window_unlock();
	window_reply(window, head->rank, head->op, WINDOW_FINE);
}

void window_serve(struct window *window, const struct window_head *head, size_t len)
{
	size_t bytes = 0;
	struct service_message *answer;
	struct window_head *reply;

	if (!window_understands(head, len - sizeof *head, &bytes))
		return window_reply(window, head->rank, head->op, WINDOW_WRONG);
	if (head->kind == WINDOW_LOCK)
		return window_serve_lock(window, head);
	if (head->kind == WINDOW_UNLOCK)
		return window_serve_unlock(window, head);
	if (head->kind != WINDOW_DATA && head->kind != WINDOW_SWAP)
		return window_serve_notice(window, head);
	answer = window_answer(window, head->rank, head->op, head->fetch ? bytes : 0,
			       WINDOW_FINE);
	if (!answer)
		return window_reply(window, head->rank, head->op, WINDOW_NO_MEM);
	reply = (void *) answer->data;
	reply->error = window_serve_data(window, head, answer);
	service_send(answer, window->peers[head->rank].addr);
}
