/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a domain waits for, told to fi_p2p_info --waiting.
 *
 * Each domain has a page, a memory file as a board is. A program that may look into the process (ptrace(2),
 * PTRACE_MODE_READ) finds it in /proc/PID/fd, maps it and asks. Progress sees the question where it looks after what does not
 * move, and writes what is under way. So only calls of the application read the engine's lists. Else it costs a load at times.
 */
#ifndef P2P_SURVEY_H
#define P2P_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

struct xfer;

/* The version changes with the layout, and with what its numbers mean */
#define SURVEY_FILE "p2p-survey"
#define SURVEY_VERSION 1
#define SURVEY_ROWS 64
#define SURVEY_RECEIVES 8
#define SURVEY_TEXT 96

/**
 * struct survey_row - an operation under way.
 * @request, @id: what it is known by; without an id others have @request after it
 * @since:	whoever looks notes there when it saw the operation first [ms]; 0: not yet
 * @flags:	those of its completion
 * @moved:	bytes that have begun to travel, if it travels in parts
 * @state, @path, @proto: enum xfer_state, fi_p2p_path, path_proto; @state_name: in words
 * @quiet, @silent: of the peer's signs of life [ms] (struct xfer_life); 0: it is not watched
 * @copying:	a device copies; @starved: it wants staging memory
 */
struct survey_row {
	uint64_t request;
	uint64_t id;
	uint64_t since;
	uint64_t flags;
	uint64_t tag;
	uint64_t len;
	uint64_t moved;
	uint32_t state;
	uint32_t path;
	uint32_t proto;
	uint32_t lanes;
	uint32_t quiet;
	uint32_t silent;
	uint8_t copying;
	uint8_t starved;
	char state_name[24];
	char peer[SURVEY_TEXT];
};

/**
 * struct survey_page - of a domain. The process believes nothing that it reads here.
 * @asked:	whoever looks sets it to another number than @told, which follows once the rest is filled in
 * @pid:	as the process itself sees it
 * @looked:	when the domain last looked after its transfers, every 100 ms at most [coarse ms]
 * @works:	operations that wait for a counter
 * @owed:	control messages and pieces that the core has no room for, or has not sent
 * @ended:	operations that have begun or ended so far
 * @count:	operations, the last one in row (@count - 1) % SURVEY_ROWS
 * @receive_count: receives that have no message yet, the same way
 */
struct survey_page {
	uint32_t version;
	uint32_t asked;
	uint32_t told;
	int32_t pid;
	uint64_t looked;
	uint64_t works;
	uint64_t owed;
	uint64_t ended;
	uint32_t endpoints;
	uint32_t count;
	uint32_t receive_count;
	char provider[SURVEY_TEXT];
	struct survey_row rows[SURVEY_ROWS];
	struct survey_row receives[SURVEY_RECEIVES];
};

/* A thread that sleeps in a call looks so often whether somebody asks [ms] */
#define SURVEY_TURN 1000

/**
 * struct survey - of a domain.
 * @page:	NULL: there is none
 * @told:	the last question that was answered
 * @looked:	when progress last looked for what does not move [ms]
 */
struct survey {
	struct survey_page *page;
	int fd;
	uint32_t told;
	uint64_t looked;
};

/* @core: the core provider's name. If there is no room for the page, nobody can ask */
void survey_open(struct survey *survey, const char *core);
void survey_close(struct survey *survey);

/* Does somebody ask? Not [locked] */
static inline bool survey_asked(const struct survey *survey)
{
	return survey->page && __atomic_load_n(&survey->page->asked, __ATOMIC_RELAXED) !=
				       __atomic_load_n(&survey->told, __ATOMIC_RELAXED);
}

/* Progress looks for what does not move, at @now: answers who asks [locked] */
void survey_look(struct xfer *xfer, uint64_t now);

#endif /* P2P_SURVEY_H */
