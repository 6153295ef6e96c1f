/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_info --waiting PID: what ofi_p2p in another process waits for. See info.h.
 *
 * Each domain there has a page (xfer/survey.h). We ask by a number in it, and the process's next look after its
 * transfers fills in the rest. Whoever looks first notes in each row when that was. So a later look, or a later run,
 * can tell for how long an operation has been under way at least.
 */
#include "waiting.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "info.h"

/* How long an answer is waited for, and how long after the first look the second one is [ms] */
#define WAITING_ANSWER 2000
#define WAITING_AGAIN 1000
#define WAITING_TURN 10

static uint64_t waiting_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void waiting_pause(long ms)
{
	const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

/* ---- the pages of a process ---- */

/* The process's own number for itself: another one than ours in a container. 0: not known */
static long waiting_inner_pid(long pid)
{
	FILE *file = fopen(info_file("/proc/%ld/status", pid), "re");
	char line[256], *last;
	long inner = 0;

	while (file && fgets(line, sizeof line, file)) {
		last = strrchr(line, '\t');
		if (!strncmp(line, "NSpid:", 6) && last)
			inner = strtol(last, NULL, 10);
	}
	if (file)
		fclose(file);
	return inner;
}

/* Maps the page that a descriptor of the process leads to. NULL: that is none, or of another release */
static struct survey_page *waiting_map(const char *path, ino_t *inode)
{
	struct survey_page *page = MAP_FAILED;
	struct stat file;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	/* a file that may shrink would end this program by a signal */
	if (fd >= 0 && !fstat(fd, &file) && file.st_size == sizeof *page &&
	    fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) {
		*inode = file.st_ino;
		page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	if (fd >= 0)
		close(fd);
	return page == MAP_FAILED ? NULL : page;
}

static void waiting_add(struct waiting *waiting, const char *path)
{
	struct waiting_page *page;
	struct survey_page *shared;
	ino_t inode = 0;

	shared = waiting_map(path, &inode);
	for (size_t i = 0; i < waiting->count; i++) {
		if (waiting->pages[i].inode == inode)
			return;
	}
	if (!shared || __atomic_load_n(&shared->version, __ATOMIC_ACQUIRE) != SURVEY_VERSION) {
		waiting->strange = true;
	} else if (shared->pid != waiting_inner_pid(waiting->pid)) {
		waiting->parent = shared->pid;
	} else {
		page = info_append(&waiting->pages, &waiting->count, sizeof *page);
		*page = (struct waiting_page){.shared = shared,
					      .inode = inode,
					      .seen = *shared};
	}
}

/* NULL, or why its descriptors cannot be seen */
static const char *waiting_find(struct waiting *waiting)
{
	char *dir = info_file("/proc/%ld/fd", waiting->pid), target[64];
	const struct dirent *entry;
	const char *path;
	DIR *list = opendir(dir);
	ssize_t len;

	if (!list && errno == ENOENT)
		return "there is no such process here. In a container, or on another host? Run "
		       "fi_p2p_info there, or use the number that it has here";
	if (!list)
		return info_text("%s. The process belongs to another user, or keeps others "
				 "out: ask as that user, or as root",
				 strerror(errno));
	while ((entry = readdir(list))) {
		path = info_text("%s/%s", dir, entry->d_name);
		len = readlink(path, target, sizeof target - 1);
		target[len > 0 ? len : 0] = '\0';
		if (!strncmp(target, "/memfd:" SURVEY_FILE " ", sizeof "/memfd:" SURVEY_FILE))
			waiting_add(waiting, path);
	}
	closedir(list);
	return NULL;
}

/* Has the process mapped a file of this name? */
static bool waiting_loaded(long pid, const char *name)
{
	FILE *file = fopen(info_file("/proc/%ld/maps", pid), "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (file && !found && getline(&line, &room, file) >= 0)
		found = strstr(line, name);
	free(line);
	if (file)
		fclose(file);
	return found;
}

/* Why there is no page */
static const char *waiting_none(const struct waiting *waiting)
{
	if (waiting->parent)
		return info_text(
			"it is a child of process %ld, whose domains it only inherits: "
			"ask that one",
			waiting->parent);
	if (waiting->strange)
		return "it has loaded another release of ofi_p2p: use the fi_p2p_info of that";
	if (waiting_loaded(waiting->pid, "/libp2p-fi.so") ||
	    waiting_loaded(waiting->pid, "/libp2p_hook-fi.so"))
		return "it has loaded ofi_p2p, and has no domain of it open. Or its release is "
		       "older than " PACKAGE_VERSION ", or it had no descriptor to spare";
	return "it has not loaded ofi_p2p: see fi_p2p_info";
}

/* ---- questions and answers ---- */

/* An operation of the last look that this one shows, too; NULL: there is none, or that is not sure */
static const struct survey_row *waiting_same(const struct survey_page *before,
					     const struct survey_row *rows, size_t room,
					     const struct survey_row *row, bool sure)
{
	if (!before->told || (!sure && !row->id))
		return NULL;
	for (size_t i = 0; i < room; i++) {
		if (rows[i].request == row->request && rows[i].id == row->id &&
		    rows[i].flags == row->flags && rows[i].tag == row->tag &&
		    rows[i].len == row->len)
			return &rows[i];
	}
	return NULL;
}

/* Notes since when the operations in @rows are known, by the page as it was @before. */
static void waiting_date(const struct survey_page *before, const struct survey_row *olds,
			 struct survey_row *rows, size_t room, bool sure, uint64_t now)
{
	const struct survey_row *old;

	for (size_t i = 0; i < room; i++) {
		old = waiting_same(before, olds, room, &rows[i], sure);
		rows[i].since = old && old->since ? old->since : now;
	}
}

/* Takes the answer out of the page, and notes there what the next look wants to know. */
static void waiting_take(struct waiting_page *page)
{
	const struct survey_page before = page->seen;
	struct survey_page *seen = &page->seen, *shared = page->shared;
	bool sure;

	*seen = *shared;
	sure = seen->ended == before.ended;
	waiting_date(&before, before.rows, seen->rows, SURVEY_ROWS, sure, waiting_now());
	waiting_date(&before, before.receives, seen->receives, SURVEY_RECEIVES, sure,
		     waiting_now());
	for (size_t i = 0; i < SURVEY_ROWS; i++)
		shared->rows[i].since = seen->rows[i].since;
	for (size_t i = 0; i < SURVEY_RECEIVES; i++)
		shared->receives[i].since = seen->receives[i].since;
}

/* Asks all domains. How many have answered within WAITING_ANSWER? */
static size_t waiting_ask(struct waiting *waiting)
{
	const uint64_t end = waiting_now() + WAITING_ANSWER;
	size_t answered;

	for (size_t i = 0; i < waiting->count; i++) {
		struct survey_page *shared = waiting->pages[i].shared;

		waiting->pages[i].answered = false;
		/* 0 is told before anybody has asked */
		waiting->pages[i].asked = shared->told + 1 ? shared->told + 1 : 1;
		__atomic_store_n(&shared->asked, waiting->pages[i].asked, __ATOMIC_RELEASE);
	}
	do {
		answered = 0;
		waiting_pause(WAITING_TURN);
		for (size_t i = 0; i < waiting->count; i++) {
			struct waiting_page *page = &waiting->pages[i];

			if (!page->answered &&
			    __atomic_load_n(&page->shared->told, __ATOMIC_ACQUIRE) ==
				    page->asked) {
				waiting_take(page);
				page->answered = true;
			}
			answered += page->answered;
		}
	} while (answered < waiting->count && waiting_now() < end);
	return answered;
}

bool info_waiting(const char *pid)
{
	struct waiting waiting = {.pid = strtol(pid, NULL, 10)};
	const char *why = waiting_find(&waiting);

	if (!why && !waiting.count)
		why = waiting_none(&waiting);
	if (why) {
		fprintf(stderr, "fi_p2p_info: --waiting %s: %s\n", pid, why);
		return false;
	}
	/* twice: so what stands still is told from what has only begun */
	if (waiting_ask(&waiting)) {
		waiting_pause(WAITING_AGAIN);
		waiting_ask(&waiting);
	}
	return waiting_print(&waiting);
}
