/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Prints what another process waits for: see waiting.h. Its page may be another user's, so no number is an index and no
 * text goes to the terminal before it was checked.
 */
#include "waiting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "info.h"
#include "xfer/req.h"

/* A peer that was quiet for so long is worth a word [ms] */
#define WAITING_QUIET 2000

/* What ends a state. What a device or staging memory is to blame for is said in its place */
static const char *const waiting_ends[] = {
	[XFER_CORE] = "the core provider, which has all of it: its peer is to take it",
	[XFER_COPYING] = "a copy of the GPU's, which may stand behind a kernel",
	[XFER_CLAIMED] = "the application's receive with FI_CLAIM",
	[XFER_ENDED] = "the application's next read of its queue",
	[XFER_GREETING] =
		"the peer's answer to a greeting: it runs ofi_p2p, and calls libfabric",
	[XFER_STAGING] = "a copy of the GPU's to the host, which may stand behind a kernel",
	[XFER_READY] = "room in the core's queue, and what goes before it to that peer",
	[XFER_MARKING] = "room in the core's queue, and what goes before it to that peer",
	[XFER_ANNOUNCED] = "the peer's receive that fits it, and its next call of libfabric",
	[XFER_PUSHING] =
		"the peer's next call of libfabric, by which it asks for more or has all",
	[XFER_ASKING] = "the answer of the memory's owner, by its next call of libfabric",
	[XFER_MATCHED] = "the sender's announcement of what its marker stands for",
	[XFER_PULLING] = "the sender's pieces, by its next call of libfabric",
	[XFER_MOVING] = "the core's reads or writes, or a copy from device to device",
	[XFER_TELLING] = "room in the core's queue, to tell the sender that all is here",
	[XFER_ENDING] = "what the core or a device still has of it",
};

_Static_assert(INFO_COUNT(waiting_ends) == XFER_STATES, "each state has its words");

static const char *waiting_end(const struct survey_row *row)
{
	const char *end = "something that this release does not know";

	if (row->starved)
		end = "staging memory, which others have now: see FI_P2P_PINNED_SIZE";
	else if (row->copying)
		end = waiting_ends[XFER_COPYING];
	else if (row->state == XFER_CORE && row->flags & FI_RECV)
		end = "a message that fits it";
	else if (row->state == XFER_ANNOUNCED && row->flags & FI_RMA)
		end = waiting_ends[XFER_ASKING];
	else if (row->state < XFER_STATES)
		end = waiting_ends[row->state];
	if (row->silent >= WAITING_QUIET)
		return info_text(
			"%s. That process has given no sign of life for %u s, perhaps it is stopped",
			end, row->silent / 1000);
	if (row->quiet >= WAITING_QUIET)
		return info_text("%s. That process lives, and has said nothing for %u s", end,
				 row->quiet / 1000);
	return end;
}

static const char *waiting_kind(const struct survey_row *row)
{
	const char *kind = "operation";

	if (row->flags & FI_REMOTE_READ)
		kind = "a peer's read";
	else if (row->flags & FI_REMOTE_WRITE)
		kind = "a peer's write";
	else if (row->flags & FI_ATOMIC)
		kind = "atomic";
	else if (row->flags & FI_READ)
		kind = "read";
	else if (row->flags & FI_WRITE)
		kind = "write";
	else if (row->flags & FI_RECV)
		kind = "receive";
	else if (row->flags & FI_SEND)
		kind = "send";
	return row->flags & FI_TAGGED ? info_text("%s, tag 0x%" PRIx64, kind, row->tag) : kind;
}

static const char *waiting_path(const struct survey_row *row)
{
	static const char *const ways[] = {
		[PATH_SHORT] = ", eager",      [PATH_LENT] = ", lent",
		[PATH_LONG] = ", pieces",      [PATH_WHOLE] = ", whole",
		[PATH_READ] = ", for the NIC", [PATH_DIRECT] = ", direct",
		[PATH_ACROSS] = ", offered",   [PATH_NONE] = "",
	};
	const char *way = row->proto < INFO_COUNT(ways) ? ways[row->proto] : NULL;

	/* which way a message comes is known when it is here */
	if (row->state == XFER_CORE && row->flags & FI_RECV)
		return "-";
	if (row->lanes)
		return info_text("%s, %u lanes", info_path_word(row->path), row->lanes);
	return info_text("%s%s", info_path_word(row->path), way ? way : "");
}

/* What a process says of itself may be anything */
static const char *waiting_clean(const char *chars, size_t room)
{
	char *text = info_text("%.*s", (int) room, chars);

	for (char *at = text; *at; at++) {
		if (*at < ' ' || *at > '~')
			*at = '?';
	}
	return text;
}

/* ---- the table ---- */

enum { COL_KIND, COL_BYTES, COL_PEER, COL_PATH, COL_STATE, COL_SINCE, COL_END, COLS };

struct waiting_line {
	const char *cells[COLS];
};

static void waiting_line(struct waiting_line *line, const struct survey_row *row)
{
	const char **cells = line->cells;
	const char *peer = waiting_clean(row->peer, sizeof row->peer);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	cells[COL_KIND] = waiting_kind(row);
	cells[COL_BYTES] = row->moved
				   ? info_text("%" PRIu64 " of %" PRIu64, row->moved, row->len)
				   : info_text("%" PRIu64, row->len);
	cells[COL_PEER] = *peer ? peer : "any";
	cells[COL_PATH] = waiting_path(row);
	cells[COL_STATE] = waiting_clean(row->state_name, sizeof row->state_name);
	cells[COL_SINCE] =
		info_text("%.0f s", (double) now.tv_sec + (double) now.tv_nsec / 1e9 -
					    (double) row->since / 1e3);
	cells[COL_END] = waiting_end(row);
}

static void waiting_table(const struct waiting_line *lines, size_t count)
{
	int widths[COLS] = {0};

	for (size_t i = 0; i < count; i++) {
		for (size_t col = 0; col < COLS; col++) {
			const int width = (int) strlen(lines[i].cells[col]);

			if (width > widths[col])
				widths[col] = width;
		}
	}
	for (size_t i = 0; i < count; i++) {
		for (size_t col = 0; col < COL_END; col++)
			printf("  %-*s", widths[col], lines[i].cells[col]);
		printf("  %s\n", lines[i].cells[COL_END]);
	}
}

/* The oldest rows first, of which there are no more than @room */
static void waiting_lines(struct waiting_line **lines, size_t *line_count,
			  const struct survey_row *rows, uint32_t count, uint32_t room)
{
	for (uint32_t i = 0; i < count && i < room; i++)
		waiting_line(info_append(lines, line_count, sizeof **lines),
			     &rows[(count - 1 - i) % room]);
}

static void waiting_print_answer(const struct survey_page *seen)
{
	static const struct waiting_line head = {{"operation", "bytes", "peer", "path", "state",
						  "at least", "what would end it"}};
	struct waiting_line *lines = NULL;
	size_t count = 0;

	*(struct waiting_line *) info_append(&lines, &count, sizeof *lines) = head;
	waiting_lines(&lines, &count, seen->rows, seen->count, SURVEY_ROWS);
	waiting_lines(&lines, &count, seen->receives, seen->receive_count, SURVEY_RECEIVES);
	if (count > 1)
		waiting_table(lines, count);
	else
		puts("  Nothing of ofi_p2p's is under way. The core provider carries messages "
		     "between host buffers alone,\n  and may wait for some");
	if (seen->count > SURVEY_ROWS)
		printf("  and %u operations more\n", seen->count - SURVEY_ROWS);
	if (seen->receive_count > SURVEY_RECEIVES)
		printf("  and %u receives more that have no message yet\n",
		       seen->receive_count - SURVEY_RECEIVES);
	if (seen->works)
		printf("  %" PRIu64 " operations wait for counters (FI_TRIGGER)\n",
		       seen->works);
	if (seen->owed)
		printf("  %" PRIu64 " control messages and pieces wait for the core provider\n",
		       seen->owed);
}

/* Is the process stopped? The state in /proc/PID/stat comes after its name, which may be anything */
static bool waiting_stopped(long pid)
{
	const char *line = info_file_line("/proc/%ld/stat", pid);
	const char *name = line ? strrchr(line, ')') : NULL;

	return name && (name[2] == 'T' || name[2] == 't');
}

/* @others: another domain of the process has answered, so it calls */
static void waiting_print_silence(const struct waiting *waiting, uint64_t looked, bool others)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (others)
		puts("  No queue or counter of this domain was read for 2 s, so nothing moves there");
	else if (waiting_stopped(waiting->pid))
		printf("  The process has made no call of libfabric for 2 s: it is stopped. kill "
		       "-CONT %ld, or leave its debugger\n",
		       waiting->pid);
	else
		puts("  The process has made no call of libfabric that moves anything for 2 s, so "
		     "nothing moves: it computes, or waits elsewhere (gdb -p tells where)");
	if (looked)
		printf("  It has last looked after the transfers of this domain %.0f s ago\n",
		       (double) now.tv_sec - (double) looked / 1e3);
}

static void waiting_print_page(const struct waiting *waiting, const struct waiting_page *page,
			       bool any)
{
	const char *name = info_file_line("/proc/%ld/comm", waiting->pid);
	const struct survey_page *seen = &page->seen;

	printf("process %ld (%s): %s", waiting->pid,
	       name ? waiting_clean(name, strlen(name)) : "ended",
	       waiting_clean(seen->provider, sizeof seen->provider));
	if (page->answered) {
		printf(", %u endpoint%s, calls libfabric\n", seen->endpoints,
		       seen->endpoints == 1 ? "" : "s");
		waiting_print_answer(seen);
	} else {
		puts("");
		waiting_print_silence(waiting, page->shared->looked, any);
	}
}

bool waiting_print(const struct waiting *waiting)
{
	bool any = false;

	for (size_t i = 0; i < waiting->count; i++)
		any |= waiting->pages[i].answered;
	for (size_t i = 0; i < waiting->count; i++)
		waiting_print_page(waiting, &waiting->pages[i], any);
	return any;
}
