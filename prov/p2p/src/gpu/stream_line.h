/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lines: what was put into one stream, in that order. The proxy looks at the first entry of each.
 *
 * A stream's entries have tickets, in order. Two words in pinned host memory say how far both are:
 *
 *	stream                                 proxy
 *	@at = the ticket --------------------> an operation: posts it, and goes on
 *
 *	waits until @go has come to it         a wait: looks whether the counter is there
 *	             <------------------------ @go = the ticket, and goes on
 *
 * A graph runs again and again, and its values are always the same. So each entry has a word of its own, and the
 * line a gate. The line begins again after the last entry:
 *
 *	at first: waits until @gate is OPEN, and shuts it
 *	@word = RUNG ------------------------> an operation: posts it, @word = ARMED
 *
 *	waits until @word is PASS              a wait: looks whether the counter is there
 *	             <------------------------ @word = PASS, if it was ARMED, and @gate is SHUT
 *	@word = ARMED
 *	             <------------------------ after the last entry: @gate = OPEN
 *
 * The proxy's lock guards all of this.
 */
#ifndef P2P_STREAM_LINE_H
#define P2P_STREAM_LINE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "fid/cntr.h"
#include "fid/cq.h"
#include "gpu/xpu.h"

/* Words of a domain on one device: two of each stream at a time, and one of each entry of a graph */
#define STREAM_WORDS 8192

/* Entries of streams that wait, at most */
#define STREAM_ENTRIES 8192

/**
 * struct stream_entry - an operation, or a wait.
 * @ep:		an operation's; NULL: the endpoint is closed, or it is a wait
 * @op:		the operation; @copied: the stream has done it itself, and it is only to be reported
 * @cntr, @cq:	what a wait is for; both NULL: it is closed, and nothing is waited for
 * @threshold:	of the wait; 0: it is an operation
 * @ticket:	of a stream's; @word: of a graph's
 */
struct stream_entry {
	struct p2p_ep *ep;
	struct ring_op op;
	bool copied;
	struct p2p_cntr *cntr;
	struct p2p_cq *cq;
	uint64_t threshold;
	uint64_t ticket;
	uint64_t *word;
	TAILQ_ENTRY(stream_entry) entry;
};

TAILQ_HEAD(stream_entries, stream_entry);

/*
 * What a graph's waits have used of a counter. @count is as that of struct cntr_ends, and beyond it if an error
 * has ended a wait before all was there: what is missing still comes. @turns: since when it is counted
 */
struct stream_used {
	const struct p2p_cntr *cntr;
	uint64_t count;
	uint64_t turns;
	LIST_ENTRY(stream_used) entry;
};

/**
 * struct stream_graph - what a graph and its lines, one for each of its streams, have in common.
 * @refs:	who ends last frees it
 * @kept:	the driver tells when the graph is gone
 * @gone:	it is
 * @used:	what its waits have used
 */
struct stream_graph {
	unsigned int refs;
	bool kept;
	bool gone;
	LIST_HEAD(, stream_used) used;
};

/**
 * struct stream_line - what was put into one stream, in that order.
 * @stream:	which; of a graph: the one that was captured
 * @capture:	the graph's number; 0: none
 * @graph:	what it has in common with the graph's other lines; NULL: none
 * @at, @go, @ticket: of a stream: see above, and the last ticket
 * @gate:	of a graph
 * @entries:	in order; @next: the one to be looked at
 *
 * A stream's line without entries may become another stream's. It keeps words and tickets, as the first
 * stream may still be before a wait.
 */
struct stream_line {
	void *stream;
	uint64_t capture;
	struct stream_graph *graph;
	uint64_t *at, *go, *gate;
	uint64_t ticket;
	struct xpu_patience patience;
	struct stream_entries entries;
	struct stream_entry *next;
	LIST_ENTRY(stream_line) entry;
};

/**
 * struct stream_lines - all lines of a domain on a device.
 * @free:	words that are not in use, @free_count
 * @waiting:	entries of streams
 */
struct stream_lines {
	LIST_HEAD(, stream_line) lines;
	uint64_t *free[STREAM_WORDS];
	unsigned int free_count;
	unsigned int waiting;
};

/* @words: STREAM_WORDS of them */
void stream_lines_init(struct stream_lines *lines, uint64_t *words);
void stream_lines_free(struct stream_lines *lines);

/* The proxy's part. True: something was done */
bool stream_lines_look(struct stream_lines *lines);

/* May a stream get to an entry at any time? */
bool stream_lines_live(const struct stream_lines *lines);

/*
 * The line of a stream, or of a stream in the capture of this number, which may be new. 0, -FI_EAGAIN: there is no
 * room for one now, or -FI_ENOMEM
 */
int stream_line_get(struct stream_lines *lines, void *stream, uint64_t capture,
		    struct stream_line **line);

/*
 * Appends an entry, a copy of @what. @steps get what the stream is to do for it, @count of them.
 * 0 or a negative error
 */
int stream_line_append(struct stream_lines *lines, struct stream_line *line,
		       const struct stream_entry *what, struct stream_entry **appended,
		       struct dev_step steps[DEV_STEPS], size_t *count);

/* Takes back what no stream will get to. */
void stream_line_take_back(struct stream_lines *lines, struct stream_line *line,
			   struct stream_entry *entry);

/* The graph is gone: called by the driver, perhaps when the line is long gone */
void stream_graph_end(void *graph);

#endif /* P2P_STREAM_LINE_H */
