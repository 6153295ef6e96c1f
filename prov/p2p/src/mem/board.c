/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Notes that other processes of the host read without a message. See board.h. */
#include "mem/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

/* a library does not end the process when memory is short */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/base.h"
#include "base/log.h"
#include "base/process.h"
#include "base/room.h"
#include "mem/ipc_share.h"

/*
 * The thread sanitizer knows no fences. Nor does it see the data that they order, which belongs
 * to another mapping. So there the fences bind the compiler only.
 */
#ifdef __SANITIZE_THREAD__
#define board_fence(order) __asm__ volatile("" ::: "memory")
#else
#define board_fence(order) __atomic_thread_fence(order)
#endif

/* "p2pBoard". The owner sets 0 when it closes the board. */
#define BOARD_MAGIC 0x703270426f617264ULL

/**
 * struct board_note - what is told about one id.
 * @id:		0: the note is empty. The text changes only while this is 0.
 * @done:	becomes @id once the reader needs no more of what the note is about
 * @len:	the text's length; or why the note is given up, a negative error
 */
struct board_note {
	uint64_t id;
	uint64_t done;
	int32_t len;
	uint8_t text[BOARD_TEXT_MAX];
};

_Static_assert(sizeof(struct board_note) % P2P_CACHE_LINE == 0, "notes share no cache line");

/* @answers: how often a reader has set some note's @done */
struct board_page {
	uint64_t magic;
	uint64_t owner;
	uint64_t zero[6];
	uint64_t answers;
	uint64_t zero_too[7];
	struct board_note notes[BOARD_NOTES];
};

_Static_assert(offsetof(struct board_page, notes) == 2 * P2P_CACHE_LINE,
	       "what owner and readers write is apart");

/* @process, @here: as for board_far_open(). @page: NULL: @process has not answered the @question for it (ipc_share.h) yet */
struct board_far {
	uint64_t owner;
	uint64_t place;
	uint64_t process;
	bool here;
	int question;
	struct board_page *page;
	UT_hash_handle hh;
};

/* Returns the place of a note on its board. */
static size_t board_index(uint64_t id)
{
	return id % BOARD_NOTES;
}

/* ---- our own ---- */

/* Kernels may insist that memory files cannot be made executable. Older ones do not know the flag. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static int board_create_fd(const char *name)
{
	int fd = room_spare(1);

	if (fd)
		return fd;
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

void *board_map_new(const char *name, size_t size, int *fd)
{
	void *page = MAP_FAILED;
	int ret = *fd = board_create_fd(name);

	if (ret < 0)
		return NULL;
	ret = -posix_fallocate(*fd, 0, (off_t) size);
	/* the seal keeps the owner from shrinking the file: a reader's look would end in SIGBUS */
	if (!ret && fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK))
		ret = -errno;
	if (!ret) {
		page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
		ret = -FI_ENOMEM;
	}
	if (page != MAP_FAILED)
		return page;
	close(*fd);
	*fd = ret;
	return NULL;
}

/* Is there a board, and is it this process's? A child has the page, too, which readers and owner still use. */
static bool board_there(const struct board *board)
{
	return board->page && board->forks == process_forks;
}

static int board_create(struct board *board, uint64_t owner)
{
	struct board_page *page;
	int fd;

	page = board_map_new("p2p-board", sizeof *page, &fd);
	if (!page)
		return fd;
	page->owner = owner;
	__atomic_store_n(&page->magic, BOARD_MAGIC, __ATOMIC_RELEASE);
	board->page = page;
	board->forks = process_forks;
	board->fd = fd;
	board->place = (uint64_t) getpid() << 32 | (uint32_t) fd;
	/* without memory for that, those that may look into this process open it all the same */
	if (ipc_share_grant(owner, fd, &board->share, NULL))
		board->share = NULL;
	return 0;
}

uint64_t board_open(struct board *board, uint64_t owner)
{
	int ret;

	if (!board->page && retry_due(&board->retry)) {
		ret = board_create(board, owner);
		if (ret) {
			P2P_INFO("no board for processes of this host: %s\n",
				 fi_strerror(-ret));
			retry_failed(&board->retry);
		}
	}
	return board_there(board) ? board->place : 0;
}

bool board_room(struct board *board, uint64_t owner)
{
	if (!board_open(board, owner))
		return false;
	for (size_t word = 0; word < BOARD_NOTES / 64; word++) {
		if (~board->used[word])
			return true;
	}
	return false;
}

bool board_taken(const struct board *board, uint64_t id)
{
	return board->ids[board_index(id)];
}

void board_close(struct board *board)
{
	if (!board->page)
		return;
	/* readers that still have the page mapped see this, and unmap it */
	if (board_there(board))
		__atomic_store_n(&board->page->magic, 0, __ATOMIC_RELAXED);
	if (board->share)
		ipc_share_revoke(board->share);
	munmap(board->page, sizeof *board->page);
	close(board->fd);
	board->page = NULL;
}

/* May the place of a note be used again that is given up? Its reader may come late, if at all */
static bool board_reuse(struct board *board, size_t index)
{
	struct board_note *note = &board->page->notes[index];
	const uint64_t bit = 1ULL << index % 64;

	if (!(board->left[index / 64] & bit))
		return true;
	if (board->lefts <= BOARD_LEFT_MAX &&
	    __atomic_load_n(&note->done, __ATOMIC_ACQUIRE) != note->id)
		return false;
	board->left[index / 64] &= ~bit;
	board->lefts--;
	return true;
}

void *board_note(struct board *board, uint64_t id)
{
	struct board_note *note;

	if (!board_there(board) || !id || board->ids[board_index(id)] ||
	    !board_reuse(board, board_index(id)))
		return NULL;
	note = &board->page->notes[board_index(id)];
	/* one that is given up may be here, which must not be read while it changes */
	__atomic_store_n(&note->id, 0, __ATOMIC_RELAXED);
	board_fence(__ATOMIC_RELEASE);
	return note->text;
}

void board_show(struct board *board, uint64_t id, size_t len)
{
	size_t index = board_index(id);
	struct board_note *note = &board->page->notes[index];

	board->ids[index] = id;
	board->used[index / 64] |= 1ULL << index % 64;
	/* an id may come round again, and must not find its own old answer */
	__atomic_store_n(&note->done, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&note->len, (int32_t) len, __ATOMIC_RELAXED);
	__atomic_store_n(&note->id, id, __ATOMIC_RELEASE);
}

const void *board_word(const struct board *board, uint64_t id)
{
	return &board->page->notes[board_index(id)].id;
}

struct iovec board_memory(const struct board *board)
{
	return (struct iovec){board->page, sizeof *board->page};
}

/* Takes the note out of the lists. False: it is not there */
static bool board_forget(struct board *board, uint64_t id)
{
	size_t index = board_index(id);

	if (!board_there(board) || !id || board->ids[index] != id)
		return false;
	board->ids[index] = 0;
	board->used[index / 64] &= ~(1ULL << index % 64);
	return true;
}

void board_take_down(struct board *board, uint64_t id)
{
	if (board_forget(board, id))
		__atomic_store_n(&board->page->notes[board_index(id)].id, 0, __ATOMIC_RELAXED);
}

void board_give_up(struct board *board, uint64_t id, int status)
{
	const size_t index = board_index(id);

	if (!board_forget(board, id))
		return;
	board->left[index / 64] |= 1ULL << index % 64;
	board->lefts++;
	__atomic_store_n(&board->page->notes[index].len, status, __ATOMIC_RELAXED);
}

static bool board_find_done(const struct board *board, uint64_t *id)
{
	for (size_t word = 0; word < BOARD_NOTES / 64; word++) {
		for (uint64_t left = board->used[word]; left; left &= left - 1) {
			size_t index = word * 64 + __builtin_ctzll(left);

			*id = board->ids[index];
			if (__atomic_load_n(&board->page->notes[index].done,
					    __ATOMIC_ACQUIRE) == *id)
				return true;
		}
	}
	return false;
}

bool board_answered(struct board *board, uint64_t *id)
{
	uint64_t answers;

	if (!board_there(board))
		return false;
	answers = __atomic_load_n(&board->page->answers, __ATOMIC_ACQUIRE);
	if (answers == board->seen)
		return false;
	if (board_find_done(board, id)) {
		board_take_down(board, *id);
		return true;
	}
	/* an answer that came during the search has raised the count after this value */
	board->seen = answers;
	return false;
}

/* ---- others' ---- */

static void board_far_free(struct board_far **fars, struct board_far *far)
{
	if (far->hh.tbl)
		HASH_DEL(*fars, far);
	if (far->page)
		munmap(far->page, sizeof *far->page);
	if (far->question >= 0)
		close(far->question);
	free(far);
}

/* Asks the owner for its board. Negative: it gives none, or none yet: then @question is the question */
static int board_far_ask(struct board_far *far)
{
	const struct ipc_offer offer = {.process = far->process, .id = far->owner};
	const char *why;
	int fd, ret = ipc_share_get(&offer, &fd, &why);

	if (ret == -FI_EAGAIN)
		far->question = fd;
	return ret ? ret : fd;
}

/* Does @process not answer yet? Then to ask it again would hold up all that this process has under way */
static bool board_far_waits(struct board_far *far, uint64_t process)
{
	uint64_t unused;

	if (far->process != process)
		return false;
	if (ipc_share_seen(far->question, 0, &unused) == -FI_EAGAIN)
		return true;
	far->question = -1;
	return false;
}

/* Nobody asks a process for its board that can see its id */
static bool board_far_ended(const struct board_far *far)
{
	const struct ipc_place nothing = {0};
	int conn;

	if (far->here)
		return process_ended((pid_t) (far->place >> 32));
	conn = ipc_share_look(far->process, &nothing, 0);
	if (conn >= 0)
		close(conn);
	return conn == -ECONNREFUSED;
}

/* Is there room for one more board? If there is none, unmaps the boards whose owners are gone. */
static bool board_far_room(struct board_far **fars)
{
	struct board_far *far, *next;

	if (HASH_COUNT(*fars) < BOARD_FAR_MAX)
		return true;
	HASH_ITER(hh, *fars, far, next) {
		if (!far->page ||
		    __atomic_load_n(&far->page->magic, __ATOMIC_RELAXED) != BOARD_MAGIC ||
		    board_far_ended(far))
			board_far_free(fars, far);
	}
	return HASH_COUNT(*fars) < BOARD_FAR_MAX;
}

/* May it be one, as it is a file of that kind and size? */
static bool board_far_fits(int fd)
{
	struct stat stat;

	return !fstat(fd, &stat) && S_ISREG(stat.st_mode) && !stat.st_nlink &&
	       stat.st_size == (off_t) sizeof(struct board_page);
}

/*
 * Opens what is at @place. Negative: it is no board.
 *
 * @place comes from another process and may be anything. To open some kinds of files has
 * effects. So the first look is at a descriptor that only names the file (O_PATH).
 */
static int board_far_fd(uint64_t place)
{
	char path[64];
	int fd, look;

	snprintf(path, sizeof path, "/proc/%u/fd/%u", (unsigned int) (place >> 32),
		 (unsigned int) place);
	look = open(path, O_PATH | O_CLOEXEC);
	if (look < 0)
		return -errno;
	if (!board_far_fits(look)) {
		close(look);
		return -FI_EINVAL;
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", look);
	fd = open(path, O_RDWR | O_CLOEXEC);
	close(look);
	return fd < 0 ? -errno : fd;
}

static struct board_page *board_far_map(struct board_far *far)
{
	struct board_page *page = MAP_FAILED;
	int fd = far->here ? board_far_fd(far->place) : -FI_EACCES, seals;

	if (fd < 0)
		fd = board_far_ask(far);
	if (fd < 0)
		return NULL;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals >= 0 && seals & F_SEAL_SHRINK && board_far_fits(fd))
		page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return NULL;
	if (page->magic == BOARD_MAGIC && page->owner == far->owner)
		return page;
	munmap(page, sizeof *page);
	return NULL;
}

int board_far_open(struct board_far **fars, uint64_t owner, uint64_t place, uint64_t process,
		   bool here)
{
	struct board_far *far;

	HASH_FIND(hh, *fars, &owner, sizeof owner, far);
	if (far && far->page)
		return far->place == place ? 0 : -FI_EACCES;
	if (far && board_far_waits(far, process))
		return -FI_EAGAIN;
	if (far)
		board_far_free(fars, far);
	if (!board_far_room(fars))
		return -FI_ENOSPC;
	far = calloc(1, sizeof *far);
	if (!far)
		return -FI_ENOMEM;
	*far = (struct board_far){owner, place, process, here, .question = -1};
	far->page = board_far_map(far);
	if (far->page || far->question >= 0)
		HASH_ADD(hh, *fars, owner, sizeof far->owner, far);
	if (far->hh.tbl)
		return far->page ? 0 : -FI_EAGAIN;
	board_far_free(fars, far);
	return -FI_EACCES;
}

void board_far_close_all(struct board_far **fars)
{
	struct board_far *far, *next;

	HASH_ITER(hh, *fars, far, next)
		board_far_free(fars, far);
}

/* @owner's board, if it is mapped, or NULL */
static const struct board_far *board_far_find(struct board_far *fars, uint64_t owner)
{
	const struct board_far *far;

	HASH_FIND(hh, fars, &owner, sizeof owner, far);
	return far && far->page ? far : NULL;
}

bool board_far_known(struct board_far *fars, uint64_t owner)
{
	return board_far_find(fars, owner);
}

int board_far_read(struct board_far *fars, uint64_t owner, uint64_t id, void *text)
{
	const struct board_far *far = board_far_find(fars, owner);
	const struct board_note *note;
	int32_t len;

	if (!far)
		return 0;
	note = &far->page->notes[board_index(id)];
	if (__atomic_load_n(&note->id, __ATOMIC_ACQUIRE) != id)
		return 0;
	/* loaded once: the owner may change it between two looks */
	len = __atomic_load_n(&note->len, __ATOMIC_RELAXED);
	len = P2P_MIN(len, BOARD_TEXT_MAX);
	if (len > 0)
		memcpy(text, note->text, (size_t) len);
	/* the text counts only if the note is still the same after the copy */
	board_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&note->id, __ATOMIC_RELAXED) == id ? P2P_MAX(len, -INT32_MAX)
								  : 0;
}

bool board_far_answer(struct board_far *fars, uint64_t owner, uint64_t id)
{
	const struct board_far *far = board_far_find(fars, owner);
	struct board_note *note;
	uint64_t old;

	if (!far)
		return false;
	note = &far->page->notes[board_index(id)];
	old = __atomic_load_n(&note->done, __ATOMIC_RELAXED);
	do {
		/* nobody waits for this answer any more, and it must not replace the answer of another note */
		if (__atomic_load_n(&note->id, __ATOMIC_ACQUIRE) != id)
			return true;
	} while (!__atomic_compare_exchange_n(&note->done, &old, id, false, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	__atomic_fetch_add(&far->page->answers, 1, __ATOMIC_RELEASE);
	return true;
}
