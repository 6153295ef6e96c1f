/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A notice board: a page of memory that other processes of the host have mapped. What
 * its owner has to tell one of them is a note, found there by an id that the reader has learned
 * otherwise, and it is the reader who says on the note when it is done. Over a core provider
 * each of the two would be a message, with its locks, its receive and its completion.
 *
 * A board is a memfd, which others open by the owner's process and descriptor, and may write to.
 * Its owner can be another program, or have died: whatever a board says is checked by who reads
 * it, and its owner takes nothing from it but that a note is answered.
 *
 * The caller's lock guards struct board and struct board_far.
 */
#ifndef P2P_BOARD_H
#define P2P_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Notes on a board; who finds the place of an id taken tells it some other way */
#define BOARD_NOTES 256

/* The longest note */
#define BOARD_TEXT_MAX 492

/* Others' boards that are kept mapped at a time */
#define BOARD_FAR_MAX 512

struct board_page;
struct board_far;

/**
 * struct board - our own board; all zero before board_open().
 * @page:	NULL: not open
 * @failed:	it cannot be opened
 * @fd:		what others open it by
 * @seen:	how many answers had been written when none was found the last time
 * @ids:	the notes that may be answered, 0: none here; @used: a bit for each that is not 0
 */
struct board {
	struct board_page *page;
	bool failed;
	int fd;
	uint64_t seen;
	uint64_t ids[BOARD_NOTES];
	uint64_t used[BOARD_NOTES / 64];
};

/*
 * Opens the board if it is not; @owner: a number that no other board has. Its place, for
 * board_far_open(), or 0 if there is none.
 */
uint64_t board_open(struct board *board, uint64_t owner);
void board_close(struct board *board);

/* Room for the text of the note @id, which board_show() puts up; NULL: none now */
void *board_note(struct board *board, uint64_t id);
void board_show(struct board *board, uint64_t id, size_t len);

/* Takes down the note @id, if there is one */
void board_take_down(struct board *board, uint64_t id);

/*
 * What the note @id says, if there is one, may not be read any more: room for what is to be said
 * instead, which board_leave() puts up, to stay until its place is needed. NULL: there is none
 */
void *board_recall(struct board *board, uint64_t id);
void board_leave(struct board *board, uint64_t id, size_t len);

/* A note whose reader is done with it, taken down by this: true, with its @id */
bool board_answered(struct board *board, uint64_t *id);

/* ---- others' ---- */

/*
 * Maps the board of @owner, which is at @place, unless it is mapped already. 0, or a negative
 * error: this process may not or cannot, or it is mapped from another place.
 */
int board_far_open(struct board_far **fars, uint64_t owner, uint64_t place);
void board_far_close_all(struct board_far **fars);

/* Is @owner's board mapped? And is it, though its owner has closed it, or died? */
bool board_far_known(struct board_far *fars, uint64_t owner);
bool board_far_left(struct board_far *fars, uint64_t owner);

/*
 * Copies what the note @id on @owner's board says to @text (BOARD_TEXT_MAX bytes). Its length;
 * 0: no such board, or no such note on it
 */
size_t board_far_read(struct board_far *fars, uint64_t owner, uint64_t id, void *text);

/* Tells the owner that the reader is done with the note @id. False: no such board */
bool board_far_answer(struct board_far *fars, uint64_t owner, uint64_t id);

#endif /* P2P_BOARD_H */
