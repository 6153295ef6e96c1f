/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A notice board: memory that other processes of the host have mapped.
 *
 * The owner puts up a note for one of them. That process finds the note by an id, which it has
 * learned otherwise. The reader says on the note when it is done. Over a core provider, note
 * and answer would each be a message, with its locks, its receive and its completion.
 *
 * A board is a memfd. Other processes open it by the owner's process and descriptor, or ask the owner for it
 * (ipc_share.h), and may write to it. The owner may be another program, or dead. So the reader checks whatever a board
 * says. The owner believes only one thing: that a note is answered.
 *
 * The caller's lock guards struct board and struct board_far.
 */
#ifndef P2P_BOARD_H
#define P2P_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/retry.h"
#include "mem/ipc.h"

/* Notes on a board. If an id's place is taken, its owner tells the reader in another way. */
#define BOARD_NOTES 256

/* So many of those that are given up wait for their readers */
#define BOARD_LEFT_MAX (BOARD_NOTES / 2)

/* The longest note [bytes] */
#define BOARD_TEXT_MAX 492

/* Other processes' boards that are mapped at a time, at most */
#define BOARD_FAR_MAX 512

struct board_page;
struct board_far;

/**
 * struct board - our own board; all zero before board_open().
 * @page:	the page; NULL: not open
 * @forks:	whose process it is (process_forks): to a child, there is no board
 * @retry:	it could not be opened
 * @fd:		the descriptor that other processes open it by; @place: the same, for them; @share: by which they
 *		may ask for it, or NULL
 * @seen:	the count of answers when the last search found none
 * @ids:	the ids of the notes that may be answered; 0: none in this place
 * @used:	a bit for each @ids that is not 0
 * @left:	a bit for each note that is given up, of which there are @lefts
 */
struct board {
	struct board_page *page;
	unsigned int forks;
	struct retry retry;
	int fd;
	uint64_t place;
	struct ipc_share *share;
	uint64_t seen;
	uint64_t ids[BOARD_NOTES];
	uint64_t used[BOARD_NOTES / 64];
	uint64_t left[BOARD_NOTES / 64];
	unsigned int lefts;
};

/*
 * Makes @size bytes of memory in a file without a name, whose descriptor is @fd: processes that may look into this one
 * may map it. NULL: @fd is a negative error
 */
void *board_map_new(const char *name, size_t size, int *fd);

/*
 * Opens the board if it is not open. @owner: a number that no other board has. Returns the
 * board's place, for board_far_open(); 0: there is no board.
 */
uint64_t board_open(struct board *board, uint64_t owner);
void board_close(struct board *board);

/* Opens the board if it is not open. Is there room for one more note? */
bool board_room(struct board *board, uint64_t owner);

/* Tells whether another note has the place of the note @id. */
bool board_taken(const struct board *board, uint64_t id);

/* Room for the text of the note @id, which board_show() then puts up; NULL: none now */
void *board_note(struct board *board, uint64_t id);
void board_show(struct board *board, uint64_t id, size_t len);

/* The word that is @id as long as that note is up; and all memory that such words lie in */
const void *board_word(const struct board *board, uint64_t id);
struct iovec board_memory(const struct board *board);

/* Takes down the note @id, if there is one */
void board_take_down(struct board *board, uint64_t id);

/*
 * Gives up the note @id, if there is one: from now on it says no more than why, by the negative error @status. It stays until
 * a reader answers it, or too many are given up.
 */
void board_give_up(struct board *board, uint64_t id, int status);

/* Takes down a note that a reader has answered, and fills @id; tells whether there was one. */
bool board_answered(struct board *board, uint64_t *id);

/* ---- others' ---- */

/*
 * Maps the board of @owner, which is at @place, unless it is mapped already. @process: whom to ask for it otherwise; @here:
 * its id is the same in this namespace. Returns 0 or a negative error: this process may not or cannot map it, or it is
 * mapped from another place. -FI_EAGAIN: its owner has not answered, and is not asked again before it has.
 */
int board_far_open(struct board_far **fars, uint64_t owner, uint64_t place, uint64_t process,
		   bool here);
void board_far_close_all(struct board_far **fars);

/* Is @owner's board mapped? */
bool board_far_known(struct board_far *fars, uint64_t owner);

/*
 * Copies the note @id of @owner's board to @text, which has room for BOARD_TEXT_MAX bytes.
 * Returns the note's length; a negative error, as given, if it is given up; 0: no such board, or no such note on it.
 */
int board_far_read(struct board_far *fars, uint64_t owner, uint64_t id, void *text);

/* Tells the owner that the reader is done with the note @id. False: no such board */
bool board_far_answer(struct board_far *fars, uint64_t owner, uint64_t id);

#endif /* P2P_BOARD_H */
