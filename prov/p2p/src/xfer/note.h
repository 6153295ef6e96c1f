/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Notes: ANNOUNCE and DONE between processes of one host, by boards (mem/board.h) in place of the core. A note lies on its
 * sender's board, and is found by its id. Once it is there it is dispatched like a message (ctrl.h). Its reader answers on it: that
 * is dispatched as a DONE. All [locked].
 */
#ifndef P2P_NOTE_H
#define P2P_NOTE_H

#include "mem/board.h"
#include "xfer/wire.h"

struct xfer;
struct xfer_peer;

/**
 * struct note_look - the note @id is looked for, if @entry.le_prev is not NULL. A marker may have any id.
 * @far:	the board that it would be on is mapped
 */
struct note_look {
	uint64_t id;
	bool far;
	LIST_ENTRY(note_look) entry;
};

/**
 * struct notes - of a domain.
 * @board:	those for other processes; @boards: theirs
 * @mr:		the board, for peers' NICs that read how long messages stand; NULL: none has had to yet
 * @looks:	what is looked for
 */
struct notes {
	struct board board;
	struct board_far *boards;
	struct fid_mr *mr;
	LIST_HEAD(, note_look) looks;
};

/* Puts up @msg for a peer that reads our board. False: there is no room for it now */
bool note_tell(struct xfer_peer *peer, struct wire_msg *msg);

/* Gives up the note @id, for the reason @status, and what tells that its memory stands: from now on it does not */
void note_give_up(struct xfer *xfer, uint64_t id, int status);

/* Maps the board of @owner, which @peer says is at @place. 0 or a negative error, as of board_far_open() */
int note_board(const struct xfer_peer *peer, uint64_t owner, uint64_t place);

/* Looks for the note @id, now and in each pass, until note_await_no_more(): that is called before it is dispatched */
void note_await(struct xfer *xfer, struct note_look *look, uint64_t id);

/* Looks no more, if it does */
void note_await_no_more(struct xfer *xfer, struct note_look *look);

/* Looks for all that is awaited, and for answers */
void notes_progress(struct xfer *xfer);

/* Says on the note @id that all of it is here, in place of a DONE. False: that cannot be */
bool note_answer(const struct xfer *xfer, uint64_t id);

/* Does the memory of the message @id stand? Then that has not ended */
bool note_stands(const struct xfer *xfer, uint64_t id);

#endif /* P2P_NOTE_H */
