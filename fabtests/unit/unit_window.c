/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a process does with messages of others about its windows on GPU memory, whatever they say: memory that is not asked
 * for stays as it is. The window is in host memory here, between guards; behind messages there is no memory.
 */
#include "unit.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mirror.h"
#include "window.h"

#define RANKS 3
#define NUMBER 7
#define GUARD 4096
#define SIZE (2 * SERVICE_LONGEST)
/* Messages of chance */
#define ROUNDS 200000

static struct window window;
static struct window_peer peers[RANKS];
static struct window_region region;
static char memory[GUARD + SIZE + GUARD] __attribute__((aligned(64))), before[sizeof memory];
/* What was sent; nobody takes more than that */
static struct service_message *sent[64];
static size_t sent_count;
static char *room;
static bool no_memory;
/* Where the process would end */
static jmp_buf fatal;

/* ---- the rest of the library ---- */

void window_lock(void)
{
}
void window_unlock(void)
{
}
void window_wake(void)
{
}

void window_wait(const struct window *of)
{
	fail_msg("a wait that nothing ends");
}

struct window *window_find(MPI_Win win)
{
	return &window;
}

struct window *window_get(uint32_t number)
{
	return number == NUMBER ? &window : NULL;
}

void window_put(void)
{
}

int window_error(const struct window *of, int error, const char *why)
{
	return error;
}

_Noreturn void window_fatal(const char *why)
{
	longjmp(fatal, 1);
}

struct service_message *service_message(size_t len)
{
	struct service_message *message = NULL;

	if (no_memory || posix_memalign((void **) &message, 16, sizeof *message + len))
		return NULL;
	message->len = len;
	return message;
}

void service_send(struct service_message *message, fi_addr_t to)
{
	assert_true(sent_count < UNIT_COUNT(sent) && message->len <= SERVICE_LONGEST);
	message->to = to;
	sent[sent_count++] = message;
}

/* All types here are of bytes, one for an element */
struct layout *layout_get(MPI_Datatype type)
{
	static struct layout_run run = {0, 1};
	static struct layout byte = {.count = 1,
				     .size = 1,
				     .runs = &run,
				     .extent = 1,
				     .high = 1};

	byte.leaf = MPI_BYTE;
	return &byte;
}

struct layout *layout_hold(struct layout *layout)
{
	return layout;
}

void layout_put(struct layout *layout)
{
}

bool layout_dense(const struct layout *layout)
{
	return true;
}

int mirror_make(struct mirror **mirror, void *buf, struct mirror_part *parts, size_t count,
		int flags, size_t *bytes, const char **why)
{
	fail_msg("the window is no GPU's");
	return MPI_ERR_OTHER;
}

void mirror_free(struct mirror *mirror)
{
}

int mirror_fill(struct mirror *mirror, const char **why)
{
	return MPI_SUCCESS;
}

int mirror_drain(struct mirror *mirror, const char **why)
{
	return MPI_SUCCESS;
}

/* ---- messages ---- */

/* Of rank 1: @runs of @len bytes each, one after the other, and data */
struct message {
	struct window_head head;
	struct layout_run runs[4];
	char data[4096];
};

static size_t message_len(const struct message *message, size_t runs)
{
	return sizeof message->head + runs * sizeof message->runs[0] + message->head.len;
}

static size_t message_make(struct message *message, unsigned int kind, size_t runs, size_t len)
{
	const size_t data = runs * len * (kind == WINDOW_SWAP ? 2 : 1);

	memset(message, 0, sizeof *message);
	message->head = (struct window_head){.kind = (uint16_t) kind,
					     .window = NUMBER,
					     .rank = 1,
					     .op = 1234,
					     .unit = 1,
					     .runs = runs,
					     .len = data};
	for (size_t i = 0; i < runs; i++)
		message->runs[i] = (struct layout_run){(MPI_Aint) (64 + i * len), len};
	unit_fill(&message->runs[runs], data, 3);
	return message_len(message, runs);
}

/* It comes in memory that ends with it, but for what aligns it. */
static void arrive(const void *message, size_t len)
{
	char *at = room - (len + 15) / 16 * 16;

	memcpy(at, message, len);
	window_arrived(at, len);
}

/* What the one message says that was sent; -1: there is none */
static int answer(struct window_head *head)
{
	int error = -1;

	assert_true(sent_count <= 1);
	if (sent_count) {
		*head = *(struct window_head *) sent[0]->data;
		assert_int_equal(head->kind, WINDOW_REPLY);
		assert_int_equal(head->len, sent[0]->len - sizeof *head);
		error = head->error;
		free(sent[0]);
	}
	sent_count = 0;
	return error;
}

static int setup(void **state)
{
	const size_t page = (size_t) sysconf(_SC_PAGESIZE), len = 2 * SERVICE_LONGEST;
	char *map;

	if (!room) {
		map = mmap(NULL, len + page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_true(map != MAP_FAILED);
		room = map + len;
		assert_int_equal(mprotect(room, page, PROT_NONE), 0);
	}
	memset(peers, 0, sizeof peers);
	for (int i = 0; i < RANKS; i++) {
		peers[i] = (struct window_peer){.addr = (fi_addr_t) i,
						.window = NUMBER,
						.size = SIZE,
						.unit = 1};
		TAILQ_INIT(&peers[i].pending);
	}
	window = (struct window){.number = NUMBER,
				 .ranks = RANKS,
				 .base = memory + GUARD,
				 .size = SIZE,
				 .unit = 1,
				 .flavor = MPI_WIN_FLAVOR_CREATE,
				 .peers = peers};
	region = (struct window_region){.base = window.base, .size = SIZE};
	SLIST_INSERT_HEAD(&window.regions, &region, entry);
	STAILQ_INIT(&window.waiters);
	unit_fill(memory, sizeof memory, 1);
	memcpy(before, memory, sizeof memory);
	return 0;
}

/* It is refused, and nothing is done. @answered: with an error */
static void refused(const void *message, size_t len, bool answered)
{
	struct window_head head;
	int error;

	arrive(message, len);
	error = answer(&head);
	if (answered)
		assert_true(error > WINDOW_FINE && error < WINDOW_ERRORS);
	else
		assert_int_equal(error, -1);
	assert_memory_equal(memory, before, sizeof memory);
}

/* ---- what is right ---- */

static void test_right(void **state)
{
	struct window_head head;
	struct message message;
	size_t len = message_make(&message, WINDOW_DATA, 3, 40);

	message.head.fetch = 1;
	arrive(&message, len);
	memcpy(before + GUARD + 64, &message.runs[3], 120);
	assert_int_equal(answer(&head), WINDOW_FINE);
	assert_true(head.op == 1234 && head.len == 120);
	assert_memory_equal(memory, before, sizeof memory);

	len = message_make(&message, WINDOW_SWAP, 1, 8);
	memcpy(&message.runs[1], before + GUARD + 64, 8);
	arrive(&message, len);
	memcpy(before + GUARD + 64, (char *) &message.runs[1] + 8, 8);
	assert_int_equal(answer(&head), WINDOW_FINE);
	assert_memory_equal(memory, before, sizeof memory);
}

/* ---- what is wrong ---- */

static void test_head(void **state)
{
	struct message message;
	size_t len = message_make(&message, WINDOW_DATA, 1, 8);

	for (size_t cut = 0; cut < sizeof message.head; cut++)
		refused(&message, cut, false);
	message.head.window++;
	refused(&message, len, false);
}

/* To whom there is no answer */
static void test_rank(void **state)
{
	static const int32_t ranks[] = {-1, RANKS, INT32_MIN, INT32_MAX};
	static const unsigned int kinds[] = {WINDOW_DATA, WINDOW_LOCK, WINDOW_POST,
					     WINDOW_COMPLETE};
	struct message message;

	for (size_t i = 0; i < UNIT_COUNT(ranks); i++) {
		for (size_t k = 0; k < UNIT_COUNT(kinds); k++) {
			const size_t len = message_make(&message, kinds[k], k == 0, 8);

			message.head.rank = ranks[i];
			refused(&message, len, false);
		}
	}
}

static void test_kind(void **state)
{
	struct message message;
	size_t len = message_make(&message, WINDOW_COMPLETE + 1, 0, 0);

	refused(&message, len, true);
	/* these have nothing behind their head */
	for (unsigned int kind = WINDOW_LOCK; kind <= WINDOW_COMPLETE; kind++) {
		len = message_make(&message, kind, 1, 8);
		refused(&message, len, true);
		assert_true(peers[1].posts == 0 && peers[1].completes == 0);
	}
}

static void test_runs(void **state)
{
	static const uint64_t counts[] = {0, 2, 1000, UINT64_MAX / 16 + 2, UINT64_MAX};
	struct message message;
	size_t len;

	for (size_t i = 0; i < UNIT_COUNT(counts); i++) {
		len = message_make(&message, WINDOW_DATA, 1, 8);
		message.head.runs = counts[i];
		refused(&message, len, true);
	}
	/* one without bytes */
	len = message_make(&message, WINDOW_DATA, 3, 8);
	message.runs[1].len = 0;
	message.runs[2].len = 16;
	refused(&message, len, true);
	/* a sum that is right only if it may overflow */
	message.runs[0].len = 1ULL << 63;
	message.runs[1].len = 1ULL << 63;
	message.runs[2].len = 24;
	refused(&message, len, true);
}

/* Runs that the window has not */
static void test_range(void **state)
{
	static const MPI_Aint places[] = {-1,       -8,        SIZE - 7,  SIZE,
					  SIZE + 1, INT64_MIN, INT64_MAX, INT64_MAX - 7};
	struct message message;

	for (size_t i = 0; i < UNIT_COUNT(places); i++) {
		const size_t len = message_make(&message, WINDOW_DATA, 1, 8);

		message.runs[0].at = places[i];
		refused(&message, len, true);
	}
}

/* As much data as runs have, and as has come */
static void test_len(void **state)
{
	static const uint64_t lens[] = {0, 23, 25, 4000, UINT64_MAX, UINT64_MAX - 47};
	struct message message;
	size_t len;

	for (size_t i = 0; i < UNIT_COUNT(lens); i++) {
		len = message_make(&message, WINDOW_DATA, 3, 8);
		message.head.len = lens[i];
		refused(&message, len, true);
	}
	len = message_make(&message, WINDOW_DATA, 3, 8);
	for (size_t cut = sizeof message.head; cut < len; cut++)
		refused(&message, cut, true);
	refused(&message, len + 1, true);
	/* nothing changes: so there is no data */
	message.head.calculation = CALCULATE_NO_OP;
	refused(&message, len, true);
}

static void test_swap(void **state)
{
	struct message message;
	size_t len = message_make(&message, WINDOW_SWAP, 1, 8);

	message.head.len = 8;
	refused(&message, len - 8, true);
	refused(&message, sizeof message.head, true);
	len = message_make(&message, WINDOW_SWAP, 2, 8);
	refused(&message, len, true);
}

/* A reply is no longer than other messages. */
static void test_fetch(void **state)
{
	struct message message;
	size_t len = message_make(&message, WINDOW_DATA, 1, 0);

	message.head.fetch = 1;
	message.head.calculation = CALCULATE_NO_OP;
	message.runs[0].len = SERVICE_LONGEST - sizeof message.head + 1;
	refused(&message, len, true);
}

static void test_calculation(void **state)
{
	const int byte = calculate_type(MPI_BYTE), number = calculate_type(MPI_INT),
		  place = calculate_type(MPI_LONG_DOUBLE_INT);
	const struct {
		uint16_t calculation;
		int32_t type;
		uint32_t unit;
	} wrong[] = {{CALCULATE_MINLOC + 1, byte, 1}, {UINT16_MAX, byte, 1},
		     {CALCULATE_SUM, -1, 1},          {CALCULATE_SUM, 100, 1},
		     {CALCULATE_SUM, INT32_MAX, 1},   {CALCULATE_SUM, number, 0},
		     {CALCULATE_SUM, number, 1},      {CALCULATE_SUM, number, 8},
		     {CALCULATE_MAXLOC, place, 1},    {CALCULATE_MAXLOC, place, 24}};
	struct message message;

	for (size_t i = 0; i < UNIT_COUNT(wrong); i++) {
		const size_t len = message_make(&message, WINDOW_DATA, 1, 24);

		message.head.calculation = wrong[i].calculation;
		message.head.type = wrong[i].type;
		message.head.unit = wrong[i].unit;
		refused(&message, len, true);
	}
	/* elements that are not whole */
	for (size_t bytes = 1; bytes < 24; bytes++) {
		const size_t len = message_make(&message, WINDOW_DATA, 1, bytes);

		message.head.calculation = CALCULATE_SUM;
		message.head.type = calculate_type(MPI_DOUBLE);
		message.head.unit = sizeof(double);
		if (bytes % sizeof(double))
			refused(&message, len, true);
	}
}

/* ---- locks ---- */

static void tell(int rank, unsigned int kind, bool exclusive)
{
	struct message message;
	const size_t len = message_make(&message, kind, 0, 0);

	message.head.rank = rank;
	message.head.unit = exclusive;
	message.head.op = (uint64_t) rank;
	arrive(&message, len);
}

/* The lock is given to @rank now, and to nobody else; -1: to nobody at all */
static void given(int rank)
{
	struct window_head head;
	const int error = answer(&head);

	assert_int_equal(error, rank < 0 ? -1 : WINDOW_FINE);
	assert_true(rank < 0 || head.op == (uint64_t) rank);
}

static void test_lock(void **state)
{
	tell(1, WINDOW_LOCK, true);
	given(1);
	tell(2, WINDOW_LOCK, false);
	tell(0, WINDOW_LOCK, true);
	given(-1);
	tell(1, WINDOW_UNLOCK, false);
	given(2);
	tell(1, WINDOW_LOCK, false);
	given(-1);
	tell(2, WINDOW_UNLOCK, false);
	given(0);
	tell(0, WINDOW_UNLOCK, false);
	given(1);
	tell(1, WINDOW_UNLOCK, false);
	given(-1);
}

/* Who has no lock, or only waits for it, gives none back. */
static void test_unlock_wrong(void **state)
{
	tell(2, WINDOW_UNLOCK, false);
	given(-1);
	tell(1, WINDOW_LOCK, true);
	given(1);
	tell(2, WINDOW_UNLOCK, false);
	tell(2, WINDOW_LOCK, true);
	tell(2, WINDOW_UNLOCK, false);
	given(-1);
	tell(1, WINDOW_UNLOCK, false);
	given(2);
	tell(1, WINDOW_UNLOCK, false);
	tell(0, WINDOW_LOCK, false);
	given(-1);
	tell(2, WINDOW_UNLOCK, false);
	given(0);
}

/* Who has it, or waits for it, gets it once. */
static void test_lock_wrong(void **state)
{
	struct window_head head;

	tell(1, WINDOW_LOCK, false);
	given(1);
	tell(1, WINDOW_LOCK, true);
	assert_int_equal(answer(&head), WINDOW_WRONG);
	tell(2, WINDOW_LOCK, true);
	given(-1);
	tell(2, WINDOW_LOCK, false);
	assert_int_equal(answer(&head), WINDOW_WRONG);
	tell(1, WINDOW_UNLOCK, false);
	given(2);
	tell(2, WINDOW_UNLOCK, false);
	tell(0, WINDOW_LOCK, true);
	given(0);
}

/* ---- replies ---- */

#define GOT 100

/* Asks @rank for bytes, which go into the guarded memory. The reply that would be right: its length */
static size_t ask(int rank, struct message *reply)
{
	const struct window_head *head;

	assert_int_equal(window_Get(window.base, GOT, MPI_BYTE, rank, 0, GOT, MPI_BYTE,
				    MPI_WIN_NULL),
			 MPI_SUCCESS);
	assert_int_equal(sent_count, 1);
	head = (void *) sent[0]->data;
	memset(reply, 0, sizeof *reply);
	reply->head = (struct window_head){.kind = WINDOW_REPLY,
					   .window = NUMBER,
					   .rank = rank,
					   .op = head->op,
					   .len = GOT};
	unit_fill(&reply->runs[0], GOT, 5);
	free(sent[0]);
	sent_count = 0;
	return message_len(reply, 0);
}

static void replied(const struct message *reply, size_t len)
{
	arrive(reply, len);
	assert_int_equal(sent_count, 0);
}

static void test_reply(void **state)
{
	struct message reply, second;
	const size_t len = ask(2, &reply);

	ask(2, &second);
	/* they need not come in order */
	replied(&second, len);
	assert_memory_equal(window.base, &second.runs[0], GOT);
	memset(&reply.runs[0], 1, GOT);
	replied(&reply, len);
	assert_memory_equal(window.base, &reply.runs[0], GOT);
	assert_int_equal(window_flush(&window, 2), MPI_SUCCESS);
	/* nothing comes twice */
	memcpy(before + GUARD, window.base, GOT);
	replied(&second, len);
	replied(&reply, len);
	assert_memory_equal(memory, before, sizeof memory);
}

/* Nobody has asked for these: the one that was asked for still comes. */
static void test_reply_unknown(void **state)
{
	struct message reply, other;
	const size_t len = ask(2, &reply);

	other = reply;
	other.head.op++;
	replied(&other, len);
	other.head.op = 0;
	replied(&other, len);
	other = reply;
	other.head.rank = 1;
	replied(&other, len);
	other.head.rank = RANKS;
	replied(&other, len);
	other = reply;
	other.head.window++;
	replied(&other, len);
	assert_memory_equal(memory, before, sizeof memory);
	replied(&reply, len);
	assert_memory_equal(window.base, &reply.runs[0], GOT);
	assert_int_equal(window_flush(&window, WINDOW_ALL), MPI_SUCCESS);
}

static void test_reply_wrong(void **state)
{
	static const uint64_t lens[] = {0, 1, GOT - 1, GOT + 1, 4000, UINT64_MAX};
	struct message reply;

	for (size_t i = 0; i < UNIT_COUNT(lens); i++) {
		const size_t len = ask(2, &reply);

		reply.head.len = lens[i];
		replied(&reply, len);
		assert_int_equal(window_flush(&window, 2), MPI_ERR_INTERN);
		ask(2, &reply);
		reply.head.len = lens[i];
		replied(&reply, lens[i] < sizeof reply - 64 ? 64 + lens[i] : 64);
		assert_int_equal(window_flush(&window, 2), MPI_ERR_INTERN);
	}
	for (unsigned int error = WINDOW_RANGE; error < UINT16_MAX; error += 1 + error / 8) {
		const size_t len = ask(2, &reply);

		reply.head.error = (uint16_t) error;
		replied(&reply, len);
		assert_true(window_flush(&window, 2) > MPI_SUCCESS);
	}
	assert_memory_equal(memory, before, sizeof memory);
}

/* What cannot be sent to one rank ends all that it was asked for, and nothing of others. */
static void test_lost(void **state)
{
	struct message first, second, other;
	const size_t len = ask(2, &first);

	ask(2, &second);
	ask(1, &other);
	window_lost_locked(&window, &(struct window_head){.kind = WINDOW_DATA}, 2);
	assert_int_equal(window_flush(&window, 2), MPI_ERR_OTHER);
	replied(&first, len);
	replied(&second, len);
	assert_memory_equal(memory, before, sizeof memory);
	replied(&other, len);
	assert_memory_equal(window.base, &other.runs[0], GOT);
	assert_int_equal(window_flush(&window, WINDOW_ALL), MPI_SUCCESS);
}

/* An unlock is heard of by nobody else: who sends it gets the error. */
static void test_lost_unlock(void **state)
{
	window_lost_locked(&window, &(struct window_head){.kind = WINDOW_UNLOCK}, 2);
	assert_int_equal(window_flush(&window, 1), MPI_SUCCESS);
	assert_int_equal(window_flush(&window, 2), MPI_ERR_OTHER);
	assert_int_equal(window_flush(&window, 2), MPI_SUCCESS);
}

/* Another rank would wait for ever. */
static void test_fatal(void **state)
{
	static const unsigned int kinds[] = {WINDOW_LOCK, WINDOW_POST, WINDOW_COMPLETE,
					     WINDOW_DATA, WINDOW_SWAP};
	const struct window_head reply = {.kind = WINDOW_REPLY};

	for (volatile size_t i = 0; i < UNIT_COUNT(kinds); i++) {
		struct message message;
		const bool has_data = kinds[i] == WINDOW_DATA || kinds[i] == WINDOW_SWAP;
		const size_t len = message_make(&message, kinds[i], has_data, 8);

		no_memory = true;
		if (!setjmp(fatal)) {
			arrive(&message, len);
			fail_msg("it goes on without a reply");
		}
		if (!has_data && !setjmp(fatal)) {
			window_ask(&window, 1, (enum window_kind) kinds[i], 0);
			fail_msg("it goes on without a request");
		}
		no_memory = false;
		assert_int_equal(sent_count, 0);
	}
	/* others than its ranks do not wait */
	window_lost_locked(&window, &reply, RANKS);
	if (!setjmp(fatal)) {
		window_lost_locked(&window, &reply, 1);
		fail_msg("it goes on without a reply");
	}
}

/* ---- what chance makes ---- */

static uint64_t chance(void)
{
	static uint64_t state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* A number from where mistakes are */
static uint64_t chance_number(void)
{
	const unsigned int shift = chance() % 64;

	switch (chance() % 5) {
	case 0:
		return chance() % 64;
	case 1:
		return (1ULL << shift) - chance() % 3;
	case 2:
		return -(chance() % 64);
	case 3:
		return SIZE - 32 + chance() % 64;
	default:
		return chance();
	}
}

/* One message: right, or with some of its numbers changed, or cut */
static size_t chance_message(struct message *message)
{
	const size_t runs = chance() % 4, step = 1ULL << chance() % 8;
	size_t len = message_make(message, chance() % (WINDOW_COMPLETE + 1), runs,
				  step * (1 + chance() % 4));

	message->head.calculation = chance() % (CALCULATE_MINLOC + 1);
	message->head.type = (int32_t) (chance() % 60);
	message->head.unit = (uint32_t) calculate_size(message->head.type);
	message->head.fetch = chance() % 2;
	for (size_t i = chance() % 4; i > 0; i--) {
		uint64_t *words = (uint64_t *) message;

		/* kind, rank, number, calculation and unit, runs, len, and runs themselves */
		words[chance() % (sizeof message->head / 8 + 2 * runs)] = chance_number();
		message->head.window = NUMBER;
		if (chance() % 2)
			message->head.rank = (int32_t) (chance() % RANKS);
	}
	if (chance() % 4 == 0)
		len = chance() % sizeof *message;
	return len;
}

/* Where @message's runs are, anything may have changed. */
static void forget_runs(const struct message *message)
{
	for (size_t i = 0; i < message->head.runs; i++)
		memcpy(before + GUARD + message->runs[i].at, window.base + message->runs[i].at,
		       message->runs[i].len);
}

static void test_chance(void **state)
{
	static struct message message;
	size_t done = 0, wrong = 0;

	for (int i = 0; i < ROUNDS; i++) {
		const size_t len = chance_message(&message);
		struct window_head head = {.len = 0};
		int error;

		arrive(&message, len);
		if (message.head.kind != WINDOW_DATA && message.head.kind != WINDOW_SWAP) {
			while (sent_count)
				free(sent[--sent_count]);
			continue;
		}
		error = answer(&head);
		if (error == WINDOW_FINE) {
			assert_true(head.len == 0 || message.head.fetch);
			forget_runs(&message);
		}
		done += error == WINDOW_FINE;
		wrong += error == WINDOW_WRONG;
		/* all of it costs much */
		if (error == WINDOW_FINE || i % 64 == 0)
			assert_memory_equal(memory, before, sizeof memory);
	}
	assert_memory_equal(memory, before, sizeof memory);
	assert_true(done > ROUNDS / 200 && wrong > ROUNDS / 20);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_right, setup),
		cmocka_unit_test_setup(test_head, setup),
		cmocka_unit_test_setup(test_rank, setup),
		cmocka_unit_test_setup(test_kind, setup),
		cmocka_unit_test_setup(test_runs, setup),
		cmocka_unit_test_setup(test_range, setup),
		cmocka_unit_test_setup(test_len, setup),
		cmocka_unit_test_setup(test_swap, setup),
		cmocka_unit_test_setup(test_fetch, setup),
		cmocka_unit_test_setup(test_calculation, setup),
		cmocka_unit_test_setup(test_lock, setup),
		cmocka_unit_test_setup(test_unlock_wrong, setup),
		cmocka_unit_test_setup(test_lock_wrong, setup),
		cmocka_unit_test_setup(test_reply, setup),
		cmocka_unit_test_setup(test_reply_unknown, setup),
		cmocka_unit_test_setup(test_reply_wrong, setup),
		cmocka_unit_test_setup(test_lost, setup),
		cmocka_unit_test_setup(test_lost_unlock, setup),
		cmocka_unit_test_setup(test_fatal, setup),
		cmocka_unit_test_setup(test_chance, setup),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
