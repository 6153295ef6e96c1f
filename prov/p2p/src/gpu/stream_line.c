/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Lines of entries. See stream_line.h. */
#include "gpu/stream_line.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "xfer/reports.h"

/* What is in the word of a graph's entry, and in a gate. A stream waits for no less than a value. */
enum {
	STREAM_ARMED = 0,
	STREAM_RUNG = 1,
	STREAM_PASS = 2,

	STREAM_SHUT = 0,
	STREAM_OPEN = 1,
};

/* ---- words ---- */

void stream_lines_init(struct stream_lines *lines, uint64_t *words)
{
	LIST_INIT(&lines->lines);
	for (unsigned int i = 0; i < STREAM_WORDS; i++)
		lines->free[i] = words + STREAM_WORDS - 1 - i;
	lines->free_count = STREAM_WORDS;
	lines->waiting = 0;
}

static uint64_t *stream_word_take(struct stream_lines *lines, uint64_t value)
{
	uint64_t *word = lines->free_count ? lines->free[--lines->free_count] : NULL;

	if (word)
		*word = value;
	return word;
}

static void stream_word_give(struct stream_lines *lines, uint64_t *word)
{
	if (word)
		lines->free[lines->free_count++] = word;
}

static void stream_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint64_t stream_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- lines ---- */

static void stream_entry_free(struct stream_lines *lines, struct stream_line *line,
			      struct stream_entry *entry)
{
	TAILQ_REMOVE(&line->entries, entry, entry);
	if (!line->capture)
		lines->waiting--;
	stream_word_give(lines, entry->word);
	free(entry);
}

static void stream_graph_put(struct stream_graph *graph)
{
	struct stream_used *used;

	if (__atomic_sub_fetch(&graph->refs, 1, __ATOMIC_ACQ_REL))
		return;
	while ((used = LIST_FIRST(&graph->used))) {
		LIST_REMOVE(used, entry);
		free(used);
	}
	free(graph);
}

void stream_graph_end(void *arg)
{
	struct stream_graph *graph = arg;

	__atomic_store_n(&graph->gone, true, __ATOMIC_RELEASE);
	stream_graph_put(graph);
}

static bool stream_line_gone(const struct stream_line *line)
{
	return line->graph && __atomic_load_n(&line->graph->gone, __ATOMIC_ACQUIRE);
}

static void stream_line_free(struct stream_lines *lines, struct stream_line *line)
{
	struct stream_entry *entry;

	while ((entry = TAILQ_FIRST(&line->entries)))
		stream_entry_free(lines, line, entry);
	LIST_REMOVE(line, entry);
	stream_word_give(lines, line->at);
	stream_word_give(lines, line->go);
	stream_word_give(lines, line->gate);
	if (line->graph)
		stream_graph_put(line->graph);
	free(line);
}

void stream_lines_free(struct stream_lines *lines)
{
	while (!LIST_EMPTY(&lines->lines))
		stream_line_free(lines, LIST_FIRST(&lines->lines));
}

static struct stream_line *stream_line_find(struct stream_lines *lines, const void *stream,
					    uint64_t capture)
{
	struct stream_line *line;

	LIST_FOREACH(line, &lines->lines, entry) {
		if (line->stream == stream && line->capture == capture &&
		    !stream_line_gone(line))
			break;
	}
	return line;
}

/* A stream's line that nothing is in; NULL: there is none */
static struct stream_line *stream_line_idle(struct stream_lines *lines)
{
	struct stream_line *line;

	LIST_FOREACH(line, &lines->lines, entry) {
		if (!line->capture && !line->next)
			break;
	}
	return line;
}

/* Of a capture, for a line more. NULL: no memory */
static struct stream_graph *stream_graph_get(struct stream_lines *lines, uint64_t capture)
{
	struct stream_graph *graph;
	struct stream_line *line;

	LIST_FOREACH(line, &lines->lines, entry) {
		if (line->capture == capture && !stream_line_gone(line))
			break;
	}
	graph = line ? line->graph : calloc(1, sizeof *graph);
	if (graph)
		__atomic_add_fetch(&graph->refs, 1, __ATOMIC_RELAXED);
	return graph;
}

int stream_line_get(struct stream_lines *lines, void *stream, uint64_t capture,
		    struct stream_line **found)
{
	struct stream_line *line = stream_line_find(lines, stream, capture);
	const unsigned int words = capture ? 1 : 2;

	if (!line && !capture)
		line = stream_line_idle(lines);
	*found = line;
	if (line) {
		line->stream = stream;
		return 0;
	}
	if (lines->free_count < words)
		return -FI_EAGAIN;
	line = calloc(1, sizeof *line);
	if (line && capture)
		line->graph = stream_graph_get(lines, capture);
	if (!line || (capture && !line->graph)) {
		free(line);
		return -FI_ENOMEM;
	}
	line->stream = stream;
	line->capture = capture;
	if (capture) {
		line->gate = stream_word_take(lines, STREAM_OPEN);
	} else {
		line->at = stream_word_take(lines, 0);
		line->go = stream_word_take(lines, 0);
	}
	TAILQ_INIT(&line->entries);
	LIST_INSERT_HEAD(&lines->lines, line, entry);
	*found = line;
	return 0;
}

/* ---- what the proxy does ---- */

/* Uses up what a graph's wait is for, if that is there. */
static bool stream_use(const struct stream_line *line, const struct stream_entry *entry)
{
	const struct cntr_ends ends = cntr_ends(entry->cntr);
	struct stream_used *used;

	LIST_FOREACH(used, &line->graph->used, entry) {
		if (used->cntr == entry->cntr)
			break;
	}
	if (used->turns != ends.turns) {
		used->turns = ends.turns;
		used->count = ends.base;
	}
	if (!cntr_errors(entry->cntr) && ((int64_t) (ends.count - used->count) < 0 ||
					  ends.count - used->count < entry->threshold))
		return false;
	used->count += entry->threshold;
	return true;
}

static bool stream_cntr_there(const struct stream_line *line, const struct stream_entry *entry)
{
	if (line->capture)
		return stream_use(line, entry);
	return cntr_errors(entry->cntr) || cntr_value(entry->cntr) >= entry->threshold;
}

static bool stream_cq_there(const struct stream_entry *entry)
{
	struct xfer_cq *cq = &entry->cq->xfer;
	const struct xfer_report *first;
	bool error;

	if (__atomic_load_n(&cq->count, __ATOMIC_RELAXED) >= entry->threshold)
		return true;
	p2p_lock_take(&cq->xfer->lock);
	first = STAILQ_FIRST(&cq->reports);
	error = cq->failed || (first && first->comp.err);
	p2p_lock_drop(&cq->xfer->lock);
	return error;
}

static bool stream_wait_there(const struct stream_line *line, const struct stream_entry *entry)
{
	if (entry->cntr)
		return stream_cntr_there(line, entry);
	return entry->cq ? stream_cq_there(entry) : true;
}

/* The next entry; of a graph, after the last one comes the first one again. */
static void stream_line_go_on(struct stream_lines *lines, struct stream_line *line)
{
	struct stream_entry *entry = line->next;

	line->next = TAILQ_NEXT(entry, entry);
	if (!line->capture) {
		stream_entry_free(lines, line, entry);
	} else if (!line->next) {
		line->next = TAILQ_FIRST(&line->entries);
		stream_store(line->gate, STREAM_OPEN);
	}
}

/* Lets the stream go on, if what it waits for is there. */
static bool stream_wait_look(struct stream_lines *lines, struct stream_line *line,
			     struct stream_entry *entry)
{
	/*
	 * a graph may not have come to it the last time; and before it is launched again, the application
	 * may set the counter
	 */
	if (line->capture && (stream_load(line->gate) != STREAM_SHUT ||
			      stream_load(entry->word) != STREAM_ARMED))
		return false;
	if (!stream_wait_there(line, entry))
		return false;
	if (line->capture)
		stream_store(entry->word, STREAM_PASS);
	else
		stream_store(line->go, entry->ticket);
	stream_line_go_on(lines, line);
	return true;
}

/* Posts an operation, if the stream has come to it. */
static bool stream_op_look(struct stream_lines *lines, struct stream_line *line,
			   struct stream_entry *entry)
{
	int ret = 0;

	if (line->capture ? stream_load(entry->word) != STREAM_RUNG
			  : stream_load(line->at) < entry->ticket)
		return false;
	if (entry->ep && entry->copied)
		ret = xpu_op_done(entry->ep, &entry->op);
	else if (entry->ep)
		ret = xpu_op_patience(&line->patience, xpu_op_peer(&entry->op),
				      xpu_op_post_full(entry->ep, &entry->op));
	if (ret == -FI_EAGAIN || (ret && !xpu_op_fail(entry->ep, &entry->op, ret)))
		return false;
	if (line->capture)
		stream_store(entry->word, STREAM_ARMED);
	stream_line_go_on(lines, line);
	return true;
}

bool stream_lines_look(struct stream_lines *lines)
{
	struct stream_line *line, *next;
	bool moved = false, more;

	for (line = LIST_FIRST(&lines->lines); line; line = next) {
		next = LIST_NEXT(line, entry);
		for (more = true; line->next && more; moved |= more)
			more = line->next->threshold ? stream_wait_look(lines, line, line->next)
						     : stream_op_look(lines, line, line->next);
		if (stream_line_gone(line))
			stream_line_free(lines, line);
	}
	return moved;
}

bool stream_lines_live(const struct stream_lines *lines)
{
	const struct stream_line *line;

	LIST_FOREACH(line, &lines->lines, entry) {
		if (line->next)
			return true;
	}
	return false;
}

/* ---- appending ---- */

/* From where on a graph counts: now, or where its last wait for this counter has ended */
static int stream_used_note(struct stream_graph *graph, const struct p2p_cntr *cntr)
{
	struct stream_used *used;
	struct cntr_ends ends;

	LIST_FOREACH(used, &graph->used, entry) {
		if (used->cntr == cntr)
			return 0;
	}
	used = calloc(1, sizeof *used);
	if (!used)
		return -FI_ENOMEM;
	ends = cntr_ends(cntr);
	used->cntr = cntr;
	used->count = ends.count;
	used->turns = ends.turns;
	LIST_INSERT_HEAD(&graph->used, used, entry);
	return 0;
}

/* What the stream does for an entry of its own. Returns how many steps these are */
static size_t stream_steps(const struct stream_line *line, const struct stream_entry *entry,
			   struct dev_step *steps)
{
	steps[0] = (struct dev_step){
		.wait = entry->threshold,
		.word = entry->threshold ? line->go : line->at,
		.value = entry->ticket,
	};
	return 1;
}

/* What a graph does for an entry */
static size_t stream_graph_steps(const struct stream_line *line,
				 const struct stream_entry *entry, struct dev_step *steps)
{
	size_t count = 0;

	if (entry == TAILQ_FIRST(&line->entries)) {
		steps[count++] = (struct dev_step){true, line->gate, STREAM_OPEN};
		steps[count++] = (struct dev_step){false, line->gate, STREAM_SHUT};
	}
	if (entry->threshold) {
		steps[count++] = (struct dev_step){true, entry->word, STREAM_PASS};
		steps[count++] = (struct dev_step){false, entry->word, STREAM_ARMED};
	} else {
		steps[count++] = (struct dev_step){false, entry->word, STREAM_RUNG};
	}
	return count;
}

int stream_line_append(struct stream_lines *lines, struct stream_line *line,
		       const struct stream_entry *what, struct stream_entry **appended,
		       struct dev_step steps[DEV_STEPS], size_t *count)
{
	struct stream_entry *entry;
	int ret;

	if (line->capture && what->cq) {
		P2P_WARN("a graph waits for counters, not for completion queues\n");
		return -FI_EOPNOTSUPP;
	}
	if (line->capture ? !lines->free_count : lines->waiting == STREAM_ENTRIES)
		return -FI_EAGAIN;
	ret = line->capture && what->cntr ? stream_used_note(line->graph, what->cntr) : 0;
	if (ret)
		return ret;
	entry = malloc(sizeof *entry);
	if (!entry)
		return -FI_ENOMEM;
	*entry = *what;
	TAILQ_INSERT_TAIL(&line->entries, entry, entry);
	if (line->capture) {
		entry->word = stream_word_take(lines, STREAM_ARMED);
		*count = stream_graph_steps(line, entry, steps);
	} else {
		lines->waiting++;
		entry->ticket = ++line->ticket;
		*count = stream_steps(line, entry, steps);
	}
	if (!line->next)
		line->next = entry;
	*appended = entry;
	return 0;
}

void stream_line_take_back(struct stream_lines *lines, struct stream_line *line,
			   struct stream_entry *entry)
{
	const struct stream_entry *found;

	/* the proxy is done with a wait, perhaps, before any stream comes to it */
	TAILQ_FOREACH(found, &line->entries, entry) {
		if (found == entry)
			break;
	}
	if (!found)
		return;
	if (line->next == entry)
		line->next = NULL;
	stream_entry_free(lines, line, entry);
	if (line->capture && !line->next)
		line->next = TAILQ_FIRST(&line->entries);
}
