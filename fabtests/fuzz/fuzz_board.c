/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Notes on boards, whose page others write to at any time. An input is what the owner, a reader and a
 * vandal do one after the other. The first byte says whether a second vandal writes all the time.
 *
 * As long as nobody has vandalised the page, a reader finds what the owner has put up, and the owner
 * hears of each answer once. After that, nobody reads or writes past a note, and the owner is told of
 * its own notes only.
 */
#include "fuzz_msg.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "mem/board.h"

#define OWNER (0x1234567ULL << 24)
#define NOTES 8

/* Two ids have one place on the board now and then. */
#define ID(i) (OWNER | ((i) % 4 * 100 + (i) / 4 * BOARD_NOTES + 1))

/**
 * struct game - one input.
 * @page, @size: the board as others have it mapped
 * @up, @len:	which notes are up, and the lengths of their texts, which are full of the note's number
 * @answered:	which of them a reader has answered
 * @vandals:	somebody has written to the page
 */
struct game {
	struct board board;
	struct board_far *fars;
	uint8_t *page;
	size_t size;
	bool up[NOTES];
	bool answered[NOTES];
	size_t len[NOTES];
	bool vandals;
};

static uint64_t read_notes, read_messages;

static void put_up(struct game *game, unsigned int i, size_t len)
{
	void *text = board_note(&game->board, ID(i));

	if (!text)
		return;
	FUZZ_CHECK(!game->up[i]);
	memset(text, (int) i + 1, len);
	board_show(&game->board, ID(i), len);
	game->up[i] = true;
	game->answered[i] = false;
	game->len[i] = len;
}

static void take_back(struct game *game, unsigned int i, size_t len)
{
	board_give_up(&game->board, ID(i), -1 - (int) len);
	game->up[i] = false;
}

static void read_note(struct game *game, unsigned int i)
{
	uint8_t text[BOARD_TEXT_MAX];
	const int len = board_far_read(game->fars, OWNER, ID(i), text);
	struct wire_msg msg;
	const char *why;

	FUZZ_CHECK(len <= (int) sizeof text);
	read_notes += len > 0;
	read_messages += len > 0 && !wire_decode(text, (size_t) len, &msg, &why);
	FUZZ_CHECK(game->vandals || game->up[i] || len <= 0);
	if (game->vandals || !game->up[i])
		return;
	FUZZ_CHECK(len == (int) game->len[i]);
	for (int at = 0; at < len; at++)
		FUZZ_CHECK(text[at] == i + 1);
}

static void answer(struct game *game, unsigned int i)
{
	FUZZ_CHECK(board_far_answer(game->fars, OWNER, ID(i)));
	game->answered[i] |= game->up[i];
}

/* The owner looks for answers, until there is none. */
static void look(struct game *game)
{
	uint64_t id;
	unsigned int i;

	while (board_answered(&game->board, &id)) {
		for (i = 0; i < NOTES && ID(i) != id; i++)
			;
		FUZZ_CHECK(i < NOTES && game->up[i]);
		FUZZ_CHECK(game->answered[i] || game->vandals);
		game->up[i] = false;
	}
	for (i = 0; i < NOTES; i++)
		FUZZ_CHECK(!game->up[i] || !game->answered[i] || game->vandals);
}

/* Mostly where the heads of the notes that are in use lie */
static void vandalise(struct game *game, struct fuzz *in)
{
	const size_t note = (game->size - 128) / BOARD_NOTES;
	const size_t place = 128 + ID(fuzz_pick(in, NOTES)) % BOARD_NOTES * note;
	const size_t at =
		fuzz_rarely(in, 4) ? fuzz_take(in, 3) % game->size : place + fuzz_pick(in, 32);
	uint8_t bytes[64];
	size_t len = fuzz_bytes(in, bytes, 1 + fuzz_pick(in, sizeof bytes));

	game->vandals = true;
	memcpy(game->page + at, bytes, P2P_MIN(len, game->size - at));
}

/* A lie where a note is that the reader knows, with a length that may be another one */
static void vandalise_well(struct game *game, struct fuzz *in)
{
	const struct fuzz_known known = {.ids = {ID(0), ID(1)},
					 .id_count = 2,
					 .name = "liar",
					 .name_len = 4};
	const size_t note = (game->size - 128) / BOARD_NOTES;
	const unsigned int i = fuzz_pick(in, NOTES);
	uint8_t *place = game->page + 128 + ID(i) % BOARD_NOTES * note;
	uint8_t letter[WIRE_MSG_MAX];
	const size_t len = fuzz_letter(in, &known, letter);
	const uint32_t told = (uint32_t) (fuzz_rarely(in, 4) ? fuzz_number(in) : len);
	const uint64_t id = ID(i);

	game->vandals = true;
	memcpy(place, &id, sizeof id);
	memcpy(place + 16, &told, sizeof told);
	memcpy(place + 20, letter, P2P_MIN(len, BOARD_TEXT_MAX));
}

/* ---- who writes all the time ---- */

static struct {
	pthread_t thread;
	struct game *game;
	struct fuzz in;
	bool stop;
} scribbler;

static void *scribble(void *arg)
{
	struct game *game = scribbler.game;

	for (size_t i = 0; !__atomic_load_n(&scribbler.stop, __ATOMIC_RELAXED); i++) {
		if (scribbler.in.left)
			__atomic_store_n(&game->page[i % game->size],
					 scribbler.in.at[i % scribbler.in.left],
					 __ATOMIC_RELAXED);
	}
	return NULL;
}

static void scribble_start(struct game *game, const struct fuzz *in)
{
	scribbler.game = game;
	scribbler.in = *in;
	scribbler.stop = false;
	game->vandals = true;
	FUZZ_CHECK(!pthread_create(&scribbler.thread, NULL, scribble, NULL));
}

static void scribble_stop(void)
{
	__atomic_store_n(&scribbler.stop, true, __ATOMIC_RELAXED);
	pthread_join(scribbler.thread, NULL);
}

/* ---- what is no board ---- */

/* Descriptors that a place may name: none of them is opened, nor does the look do anything to them. */
static void no_board(struct fuzz *in)
{
	struct board_far *fars = NULL;
	const uint64_t pid = fuzz_rarely(in, 8) ? fuzz_number(in) : (uint64_t) getpid();
	const uint64_t fd = fuzz_rarely(in, 2) ? fuzz_number(in) : fuzz_take(in, 1);

	FUZZ_CHECK(board_far_open(&fars, OWNER + 1, pid << 32 | (uint32_t) fd, 0, true));
	FUZZ_CHECK(!fars);
}

static void step(struct game *game, struct fuzz *in)
{
	const unsigned int what = fuzz_pick(in, 16), i = fuzz_pick(in, NOTES);

	switch (what) {
	case 0:
	case 1:
	case 2:
		put_up(game, i, fuzz_take(in, 2) % (BOARD_TEXT_MAX + 1));
		break;
	case 3:
		board_take_down(&game->board, ID(i));
		game->up[i] = false;
		break;
	case 4:
		take_back(game, i, fuzz_take(in, 2) % (BOARD_TEXT_MAX + 1));
		break;
	case 5:
	case 6:
	case 7:
		read_note(game, i);
		break;
	case 8:
	case 9:
		answer(game, i);
		break;
	case 10:
	case 11:
		look(game);
		break;
	case 12:
		vandalise(game, in);
		break;
	case 13:
		vandalise_well(game, in);
		break;
	case 14:
		no_board(in);
		break;
	default:
		board_far_known(game->fars, OWNER);
		break;
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	fuzz_start();
	fuzz_tell("notes read", &read_notes);
	fuzz_tell("notes that are messages", &read_messages);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct game game = {.vandals = false};
	struct fuzz in = {data, size};
	const bool scribbles = fuzz_rarely(&in, 64);
	const uint64_t place = board_open(&game.board, OWNER);

	FUZZ_CHECK(place && !board_far_open(&game.fars, OWNER, place, 0, true));
	game.size = (size_t) lseek(game.board.fd, 0, SEEK_END);
	game.page = mmap(NULL, game.size, PROT_READ | PROT_WRITE, MAP_SHARED, game.board.fd, 0);
	FUZZ_CHECK(game.page != MAP_FAILED);
	if (scribbles)
		scribble_start(&game, &in);
	while (in.left)
		step(&game, &in);
	if (scribbles)
		scribble_stop();
	look(&game);
	munmap(game.page, game.size);
	board_close(&game.board);
	board_far_close_all(&game.fars);
	return 0;
}
