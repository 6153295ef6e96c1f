/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of board.c: notes are read whole or not at all, by this process and by another one,
 * and what is no board is not taken for one.
 */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "mem/board.h"
#include "mem/ipc_share.h"

#define OWNER 0x123456789a000000ULL

static uint64_t place_of(pid_t pid, int fd)
{
	return (uint64_t) pid << 32 | (uint32_t) fd;
}

static void put_up(struct board *board, uint64_t id, int value, size_t len)
{
	void *text = board_note(board, id);

	assert_non_null(text);
	memset(text, value, len);
	board_show(board, id, len);
}

static void check_text(const uint8_t *text, int value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(text[i], value);
}

static void test_note(void **state)
{
	struct board board = {.page = NULL};
	struct board_far *fars = NULL;
	uint8_t text[BOARD_TEXT_MAX];
	uint64_t id, place;

	assert_null(board_note(&board, OWNER + 1));
	assert_false(board_answered(&board, &id));
	place = board_open(&board, OWNER);
	assert_int_equal(place, place_of(getpid(), board.fd));
	assert_int_equal(board_open(&board, OWNER), place);

	assert_int_equal(board_far_read(fars, OWNER, OWNER + 1, text), 0);
	assert_false(board_far_answer(fars, OWNER, OWNER + 1));
	assert_false(board_far_known(fars, OWNER));
	assert_int_equal(board_far_open(&fars, OWNER, place, 0, true), 0);
	assert_true(board_far_known(fars, OWNER));
	assert_false(board_far_known(fars, OWNER + (1 << 24)));
	assert_int_equal(board_far_open(&fars, OWNER, place, 0, true), 0);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 1, text), 0);

	put_up(&board, OWNER + 1, 7, BOARD_TEXT_MAX);
	put_up(&board, OWNER + 2, 8, 1);
	/* the place is taken, until it is taken down */
	assert_null(board_note(&board, OWNER + 1));
	assert_null(board_note(&board, OWNER + 1 + BOARD_NOTES));
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 1, text), BOARD_TEXT_MAX);
	check_text(text, 7, BOARD_TEXT_MAX);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 2, text), 1);
	check_text(text, 8, 1);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 1 + BOARD_NOTES, text), 0);
	assert_int_equal(board_far_read(fars, OWNER + (1 << 24), OWNER + 1, text), 0);

	assert_false(board_answered(&board, &id));
	assert_true(board_far_answer(fars, OWNER, OWNER + 2));
	assert_true(board_answered(&board, &id));
	assert_int_equal(id, OWNER + 2);
	assert_false(board_answered(&board, &id));
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 2, text), 0);

	board_far_close_all(&fars);
	assert_null(fars);
	board_close(&board);
	board_close(&board);
}

static void test_answer(void **state)
{
	struct board board = {.page = NULL};
	struct board_far *fars = NULL;
	uint8_t text[BOARD_TEXT_MAX];
	uint64_t id;

	assert_int_equal(board_far_open(&fars, OWNER, board_open(&board, OWNER), 0, true), 0);
	put_up(&board, OWNER + 1, 7, 4);
	/* one about what is there no more is nobody's, even if another has its place */
	board_take_down(&board, OWNER + 1);
	board_take_down(&board, OWNER + 1);
	put_up(&board, OWNER + 1 + BOARD_NOTES, 9, 4);
	assert_true(board_far_answer(fars, OWNER, OWNER + 1));
	assert_false(board_answered(&board, &id));
	board_take_down(&board, OWNER + 1 + BOARD_NOTES);

	/* nor does it undo the other's answer */
	put_up(&board, OWNER + 1, 9, 4);
	board_take_down(&board, OWNER + 1);
	put_up(&board, OWNER + 1 + BOARD_NOTES, 9, 4);
	assert_true(board_far_answer(fars, OWNER, OWNER + 1 + BOARD_NOTES));
	assert_true(board_far_answer(fars, OWNER, OWNER + 1));
	assert_true(board_answered(&board, &id));
	assert_int_equal(id, OWNER + 1 + BOARD_NOTES);

	/* nor is one about the note that had this id before */
	put_up(&board, OWNER + 1, 10, 4);
	assert_false(board_answered(&board, &id));
	assert_true(board_far_answer(fars, OWNER, OWNER + 1));
	assert_true(board_answered(&board, &id));
	assert_int_equal(id, OWNER + 1);

	/* once it is given up it says why, once, until that is read */
	board_give_up(&board, OWNER + 3, -5);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 3, text), 0);
	put_up(&board, OWNER + 3, 11, 4);
	board_give_up(&board, OWNER + 3, -5);
	board_give_up(&board, OWNER + 3, -6);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 3, text), -5);
	assert_null(board_note(&board, OWNER + 3 + BOARD_NOTES));
	assert_true(board_far_answer(fars, OWNER, OWNER + 3));
	assert_false(board_answered(&board, &id));
	put_up(&board, OWNER + 3 + BOARD_NOTES, 13, 4);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 3, text), 0);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 3 + BOARD_NOTES, text), 4);
	board_take_down(&board, OWNER + 3 + BOARD_NOTES);

	board_far_close_all(&fars);
	board_close(&board);
}

/* Whatever a reader writes: what is answered is what was put up, once */
static void test_scribble(void **state)
{
	struct board board = {.page = NULL};
	uint64_t id, *words, size;

	assert_int_not_equal(board_open(&board, OWNER), 0);
	size = (uint64_t) lseek(board.fd, 0, SEEK_END);
	words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, board.fd, 0);
	assert_ptr_not_equal(words, MAP_FAILED);
	for (uint64_t value = 0; value < 4; value++) {
		const uint64_t values[] = {0, OWNER + 1, OWNER + 2, UINT64_MAX};
		unsigned int answers = 0;

		put_up(&board, OWNER + 1, 7, 8);
		put_up(&board, OWNER + 5, 7, 8);
		for (size_t i = 0; i < size / sizeof *words; i++)
			words[i] = values[value];
		while (board_answered(&board, &id)) {
			assert_int_equal(id, OWNER + 1);
			assert_true(++answers == 1);
		}
		board_take_down(&board, OWNER + 1);
		board_take_down(&board, OWNER + 5);
	}
	munmap(words, size);
	board_close(&board);
}

#define LOOKS 5000000

/* The length of the first note, which its owner changes all the time */
static struct {
	_Atomic int32_t *len;
	_Atomic bool stop;
} liar;

static void *lie(void *arg)
{
	while (!liar.stop) {
		*liar.len = 1;
		*liar.len = BOARD_TEXT_MAX + 64;
	}
	return NULL;
}

/* However often an owner changes a note's length: no more is copied than there is room for */
static void test_length(void **state)
{
	struct board board = {.page = NULL};
	struct board_far *fars = NULL;
	uint8_t text[BOARD_TEXT_MAX + 64] = {0};
	bool seen[2] = {false};
	pthread_t thread;
	int len;

	assert_int_equal(board_far_open(&fars, OWNER, board_open(&board, OWNER), 0, true), 0);
	/* the text of the one is followed by the other's id */
	put_up(&board, OWNER + 1, 7, BOARD_TEXT_MAX);
	put_up(&board, OWNER + 2, 7, BOARD_TEXT_MAX);
	liar.len = (_Atomic int32_t *) ((char *) board_word(&board, OWNER + 1) + 16);
	liar.stop = false;
	assert_int_equal(pthread_create(&thread, NULL, lie, NULL), 0);
	for (int i = 0; i < LOOKS || !seen[0] || !seen[1]; i++) {
		len = board_far_read(fars, OWNER, OWNER + 1, text);
		assert_true(len == 1 || len == BOARD_TEXT_MAX);
		seen[len > 1] = true;
	}
	liar.stop = true;
	pthread_join(thread, NULL);
	for (size_t i = BOARD_TEXT_MAX; i < sizeof text; i++)
		assert_int_equal(text[i], 0);
	board_far_close_all(&fars);
	board_close(&board);
}

/* Descriptors of other things: they are refused, and nothing waits for them */
static void test_no_board(void **state)
{
	struct board board = {.page = NULL};
	struct board_far *fars = NULL;
	int pipes[2], fd, size;
	uint64_t place;

	place = board_open(&board, OWNER);
	assert_int_not_equal(place, 0);
	size = (int) lseek(board.fd, 0, SEEK_END);
	/* another one's */
	assert_true(board_far_open(&fars, OWNER + (1 << 24), place, 0, true) < 0);
	/* no process, no descriptor */
	assert_true(board_far_open(&fars, OWNER, place_of(0x7fffffff, board.fd), 0, true) < 0);
	assert_true(board_far_open(&fars, OWNER, place_of(getpid(), 0x7fffffff), 0, true) < 0);
	assert_int_equal(pipe(pipes), 0);
	assert_true(board_far_open(&fars, OWNER, place_of(getpid(), pipes[0]), 0, true) < 0);
	assert_true(board_far_open(&fars, OWNER, place_of(getpid(), pipes[1]), 0, true) < 0);
	close(pipes[0]);
	close(pipes[1]);
	/* of the right size, but it may shrink; then sealed, but empty */
	fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_true(board_far_open(&fars, OWNER, place_of(getpid(), fd), 0, true) < 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_true(board_far_open(&fars, OWNER, place_of(getpid(), fd), 0, true) < 0);
	close(fd);
	assert_null(fars);
	assert_int_equal(board_far_open(&fars, OWNER, place, 0, true), 0);
	board_far_close_all(&fars);
	board_close(&board);
}

/* The owner gives its board to a process that may not look into it, as long as it has one */
static void test_asked(void **state)
{
	const uint64_t process = 0x1234500000000000 | (uint32_t) getpid();
	struct board board = {.page = NULL}, other = {.page = NULL};
	struct board_far *fars = NULL;
	uint8_t text[BOARD_TEXT_MAX];
	uint64_t place = board_open(&board, OWNER);

	/* nobody answers yet */
	assert_true(board_far_open(&fars, OWNER, place, process, false) < 0);
	assert_int_equal(ipc_share_start(process), 0);
	assert_true(board_far_open(&fars, OWNER, place, process + 1, false) < 0);
	assert_true(board_far_open(&fars, OWNER + (1 << 24), place, process, false) < 0);
	assert_int_equal(board_far_open(&fars, OWNER, place, process, false), 0);
	memcpy(board_note(&board, OWNER + 1), "asked", 6);
	board_show(&board, OWNER + 1, 6);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 1, text), 6);
	assert_string_equal(text, "asked");
	board_far_close_all(&fars);
	/* the place means another process here, which has no such descriptor */
	assert_int_equal(board_far_open(&fars, OWNER, place_of(getpid(), 0x7fffffff), process,
					true),
			 0);
	board_far_close_all(&fars);
	/* what has the descriptor's number afterwards is not given away */
	board_close(&board);
	assert_int_not_equal(board_open(&other, OWNER + (2 << 24)), 0);
	assert_true(board_far_open(&fars, OWNER, place, process, false) < 0);
	board_close(&other);
	ipc_share_stop();
}

/* An owner that does not answer is asked once, and again when it has answered: whoever asks waits, with all that it has */
static void test_silent(void **state)
{
	const uint64_t process = 0x1234700000000000 | (uint32_t) getpid();
	const int silent = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct board board = {.page = NULL};
	struct board_far *fars = NULL;
	uint64_t place = board_open(&board, OWNER);
	int asked, len;

	len = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, IPC_SHARE_NAME,
		       process);
	len += (int) offsetof(struct sockaddr_un, sun_path) + 1;
	assert_int_equal(bind(silent, (struct sockaddr *) &address, (socklen_t) len), 0);
	assert_int_equal(listen(silent, 8), 0);
	for (int i = 0; i < 3; i++) {
		assert_true(board_far_open(&fars, OWNER, place, process, false) < 0);
		assert_false(board_far_known(fars, OWNER));
	}
	asked = accept(silent, NULL, NULL);
	assert_true(asked >= 0);
	assert_int_equal(accept(silent, NULL, NULL), -1);
	close(silent);
	assert_int_equal(ipc_share_start(process), 0);
	assert_true(board_far_open(&fars, OWNER, place, process, false) < 0);
	close(asked);
	assert_int_equal(board_far_open(&fars, OWNER, place, process, false), 0);
	board_far_close_all(&fars);
	board_close(&board);
	ipc_share_stop();
}

/* So many boards of processes that have ended, whose ids say nothing here, make room */
static void test_many_asked(void **state)
{
	const uint64_t process = 0x1234600000000000 | (uint32_t) getpid();
	static struct board boards[BOARD_FAR_MAX + 1];
	struct board_far *fars = NULL;
	uint64_t place;

	assert_int_equal(ipc_share_start(process), 0);
	for (uint64_t i = 0; i <= BOARD_FAR_MAX; i++)
		assert_int_not_equal(board_open(&boards[i], OWNER + (i << 24)), 0);
	for (uint64_t i = 0; i < BOARD_FAR_MAX; i++)
		assert_int_equal(board_far_open(&fars, OWNER + (i << 24), 1, process, false),
				 0);
	place = boards[BOARD_FAR_MAX].place;
	assert_true(board_far_open(&fars, OWNER + ((uint64_t) BOARD_FAR_MAX << 24), place, 0,
				   true) < 0);
	ipc_share_stop();
	assert_int_equal(board_far_open(&fars, OWNER + ((uint64_t) BOARD_FAR_MAX << 24), place,
					0, true),
			 0);
	for (uint64_t i = 0; i <= BOARD_FAR_MAX; i++)
		board_close(&boards[i]);
	board_far_close_all(&fars);
}

/* More boards than are kept: those that their owners have closed make room */
static void test_many(void **state)
{
	static struct board boards[BOARD_FAR_MAX + 1];
	struct board_far *fars = NULL;
	uint64_t place;

	for (uint64_t i = 0; i < BOARD_FAR_MAX; i++) {
		place = board_open(&boards[i], OWNER + (i << 24));
		assert_int_not_equal(place, 0);
		assert_int_equal(board_far_open(&fars, OWNER + (i << 24), place, 0, true), 0);
	}
	place = board_open(&boards[BOARD_FAR_MAX], 5 << 24);
	assert_true(board_far_open(&fars, 5 << 24, place, 0, true) < 0);
	board_close(&boards[7]);
	assert_int_equal(board_far_open(&fars, 5 << 24, place, 0, true), 0);
	for (uint64_t i = 0; i <= BOARD_FAR_MAX; i++)
		board_close(&boards[i]);
	board_far_close_all(&fars);
}

#define ROUNDS 200000

/* Those that their reader answers, and the owner then takes down; it does so at once with others */
static bool answered(uint64_t id)
{
	return id % 3;
}

/* In another process: what is found is whole */
static int read_all(uint64_t place)
{
	struct board_far *fars = NULL;
	uint8_t text[BOARD_TEXT_MAX];
	int len;

	/* its parent may have failed */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (board_far_open(&fars, OWNER, place, 0, true))
		return 2;
	for (uint64_t id = OWNER + 1; id <= OWNER + ROUNDS; id++) {
		/* where there is but one processor, its parent needs it */
		while (!(len = board_far_read(fars, OWNER, id, text)) && answered(id))
			sched_yield();
		for (int i = 0; i < len; i++) {
			if (len != (int) (1 + id % BOARD_TEXT_MAX) || text[i] != (uint8_t) id)
				return 3;
		}
		if (len && answered(id) && !board_far_answer(fars, OWNER, id))
			return 4;
	}
	board_far_close_all(&fars);
	return 0;
}

static void test_processes(void **state)
{
	struct board board = {.page = NULL};
	uint64_t place = board_open(&board, OWNER), next = OWNER + 1, id;
	unsigned int shown = 0;
	bool ended = false;
	int status = 0;
	pid_t pid;

	assert_int_not_equal(place, 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(read_all(place));
	while (!ended) {
		ended = waitpid(pid, &status, WNOHANG) == pid;
		while (board_answered(&board, &id)) {
			assert_true(id < next && answered(id));
			shown--;
		}
		for (int i = 0; i < 64 && next <= OWNER + ROUNDS && board_note(&board, next);
		     i++, next++) {
			put_up(&board, next, (uint8_t) next, 1 + next % BOARD_TEXT_MAX);
			if (answered(next))
				shown++;
			else
				board_take_down(&board, next);
		}
		if (next > OWNER + ROUNDS || !board_note(&board, next))
			sched_yield();
	}
	assert_int_equal(status, 0);
	assert_int_equal(next, OWNER + ROUNDS + 1);
	assert_int_equal(shown, 0);
	board_close(&board);
}

/* Its board stays mapped when its owner dies: what it had put up can be read. */
static void test_left(void **state)
{
	struct board board = {.page = NULL};
	struct board_far *fars = NULL;
	uint8_t text[BOARD_TEXT_MAX];
	uint64_t place;
	int pipes[2];
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		place = board_open(&board, OWNER);
		put_up(&board, OWNER + 1, 7, 9);
		if (write(pipes[1], &place, sizeof place) == sizeof place)
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &place, sizeof place), sizeof place);
	assert_int_equal(board_far_open(&fars, OWNER, place, 0, true), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 1, text), 9);
	check_text(text, 7, 9);
	board_far_close_all(&fars);
	assert_int_equal(close(pipes[0]), 0);
	assert_int_equal(close(pipes[1]), 0);
}

/* A child of the owner has its board, and whatever it does with that, the board is still the owner's. */
static void test_child(void **state)
{
	struct board board = {.page = NULL};
	struct board_far *fars = NULL;
	uint8_t text[BOARD_TEXT_MAX];
	uint64_t place = board_open(&board, OWNER), id;
	int status = 1;
	pid_t pid;

	assert_int_equal(board_far_open(&fars, OWNER, place, 0, true), 0);
	for (int i = 1; i <= 3; i++)
		put_up(&board, OWNER + i, 7, 9);
	assert_true(board_far_answer(fars, OWNER, OWNER + 3));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		board_take_down(&board, OWNER + 1);
		board_give_up(&board, OWNER + 2, -5);
		if (board_answered(&board, &id) || board_note(&board, OWNER + 4))
			_exit(2);
		board_close(&board);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 1; i <= 3; i++)
		assert_int_equal(board_far_read(fars, OWNER, OWNER + i, text), 9);
	assert_true(board_answered(&board, &id));
	assert_int_equal(id, OWNER + 3);
	assert_int_equal(board_open(&board, OWNER), place);
	board_far_close_all(&fars);
	board_close(&board);
}

/* What nobody reads leaves room for other notes */
static void test_unread(void **state)
{
	struct board board = {.page = NULL};
	struct board_far *fars = NULL;
	uint8_t text[BOARD_TEXT_MAX];

	assert_int_equal(board_far_open(&fars, OWNER, board_open(&board, OWNER), 0, true), 0);
	for (uint64_t i = 1; i <= BOARD_LEFT_MAX + 1; i++) {
		if (i > 1)
			assert_null(board_note(&board, OWNER + 1 + BOARD_NOTES));
		put_up(&board, OWNER + i, 7, 4);
		board_give_up(&board, OWNER + i, -5);
	}
	put_up(&board, OWNER + 1 + BOARD_NOTES, 9, 4);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 1, text), 0);
	assert_int_equal(board_far_read(fars, OWNER, OWNER + 2, text), -5);
	assert_null(board_note(&board, OWNER + 2 + BOARD_NOTES));
	board_far_close_all(&fars);
	board_close(&board);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_note),       cmocka_unit_test(test_answer),
	cmocka_unit_test(test_unread),     cmocka_unit_test(test_left),
	cmocka_unit_test(test_scribble),   cmocka_unit_test(test_no_board),
	cmocka_unit_test(test_many),       cmocka_unit_test(test_processes),
	cmocka_unit_test(test_child),      cmocka_unit_test(test_length),
	cmocka_unit_test(test_asked),      cmocka_unit_test(test_silent),
	cmocka_unit_test(test_many_asked),
};

int main(int argc, char **argv)
{
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
