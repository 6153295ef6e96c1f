/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of path.c: the whole table of decisions, with their borders. */
#include "unit.h"

#include <stdint.h>

#include "path/path.h"

/* Sizes of the borders */
#define SHORT 65536
#define LEND 16384
#define PLAIN 4096

#define STAGE FI_P2P_PATH_STAGE
#define PEER FI_P2P_PATH_PEER
#define IPC FI_P2P_PATH_IPC

/* The core's CPU may touch what is no longer than this */
#define INLINE 220

#define NO_PEER "the test's NIC does not reach it"
#define NO_ACROSS "the test's runtime does not share it"

#define Q(announced, stalls, len, slot, unnamed)                                               \
	{                                                                                      \
		announced, stalls, len, SHORT, PLAIN, slot, unnamed                            \
	}

/*
 * Device memory, one piece of it, a slot free for it; P: the NIC reaches it, N: it does
 * not. What a row names comes last, and counts.
 */
#define P(is_announced, length, ...)                                                           \
	{                                                                                      \
		is_announced, false, length, SHORT, PLAIN, true,                               \
			.pieces = 1, .peer = true, .inline_max = INLINE, ##__VA_ARGS__         \
	}
#define N(is_announced, length, ...) P(is_announced, length, .peer = false, ##__VA_ARGS__)

/* The NIC does not reach it, other processes of the host do: over a network, or within a host */
#define A(length, ...) N(true, length, .across = true, ##__VA_ARGS__)
#define H(length, ...) A(length, .near = true, ##__VA_ARGS__)

#pragma GCC diagnostic ignored "-Woverride-init"

static const struct path_case {
	struct path_query query;
	enum fi_p2p_path path;
	enum path_proto proto;
} cases[] = {
	/* announced, stalls, len, slot, unnamed */
	{Q(true, false, 0, true, false), STAGE, PATH_SHORT},
	{Q(true, false, 1, true, false), STAGE, PATH_SHORT},
	{Q(true, false, SHORT, true, false), STAGE, PATH_SHORT},
	{Q(true, false, SHORT, true, true), STAGE, PATH_SHORT},
	{Q(false, false, 0, true, false), STAGE, PATH_SHORT},
	{Q(false, false, SHORT, true, false), STAGE, PATH_SHORT},
	{Q(false, false, SHORT + 1, true, false), STAGE, PATH_WHOLE},
	{Q(false, false, SIZE_MAX, true, false), STAGE, PATH_WHOLE},
	{Q(false, false, SHORT + 1, true, true), STAGE, PATH_WHOLE},
	{Q(true, false, SHORT + 1, true, false), STAGE, PATH_LONG},
	{Q(true, false, SIZE_MAX, true, false), STAGE, PATH_LONG},
	{Q(true, false, SHORT + 1, true, true), STAGE, PATH_WHOLE},
	{Q(true, true, SHORT, true, false), STAGE, PATH_SHORT},
	{Q(true, true, SHORT + 1, true, false), STAGE, PATH_WHOLE},
	{Q(true, true, SIZE_MAX, true, true), STAGE, PATH_WHOLE},
	{Q(false, true, SHORT + 1, true, false), STAGE, PATH_WHOLE},
	/* no slot is free: only what may not be announced waits for one */
	{Q(true, false, PLAIN, false, false), STAGE, PATH_SHORT},
	{Q(true, false, PLAIN + 1, false, false), STAGE, PATH_LONG},
	{Q(true, false, SHORT, false, false), STAGE, PATH_LONG},
	{Q(true, true, SHORT, false, false), STAGE, PATH_WHOLE},
	{Q(false, false, SHORT, false, false), STAGE, PATH_WHOLE},
	{Q(true, false, SHORT, false, true), STAGE, PATH_WHOLE},
	{N(true, SHORT + 1, .plain_max = SHORT + 1, .slot = false), STAGE, PATH_LONG},
	{N(true, 1, .short_max = 0), STAGE, PATH_LONG},
	{N(true, 0, .short_max = 0), STAGE, PATH_SHORT},
	/* read in its slot, with others */
	{N(true, LEND, .lends = true), STAGE, PATH_SHORT},
	{N(true, LEND + 1, .lends = true), STAGE, PATH_LENT},
	{N(true, SHORT, .lends = true), STAGE, PATH_LENT},
	{N(true, LEND + 1, .lends = true, .short_max = LEND), STAGE, PATH_LONG},
	{N(true, SHORT, .lends = true, .pieces = 2), STAGE, PATH_LENT},
	{N(true, SHORT, .lends = true, .unnamed = true), STAGE, PATH_SHORT},
	{N(true, SHORT, .lends = true, .inject = true), STAGE, PATH_SHORT},
	{N(true, SHORT, .lends = true, .slot = false), STAGE, PATH_LONG},
	{N(true, SHORT, .lends = true, .policy = PATH_STAGE_ONLY), STAGE, PATH_LENT},
	{N(true, SHORT + 1, .lends = true), STAGE, PATH_LONG},
	/* whoever is asked in any case is lent what is alone, or offered what is short */
	{N(true, PLAIN + 1, .lends = true, .asked = true), STAGE, PATH_LENT},
	{A(SHORT, .lends = true, .asked = true), STAGE, PATH_ACROSS},
	{A(SHORT, .lends = true, .asked = true, .refuses = true), STAGE, PATH_LENT},
	{A(SHORT + 1, .lends = true, .asked = true, .refuses = true), STAGE, PATH_ACROSS},
	{A(SHORT, .lends = true), STAGE, PATH_LENT},
	{A(SHORT + 1, .lends = true), STAGE, PATH_ACROSS},
	{H(SHORT, .lends = true), IPC, PATH_ACROSS},
	{P(true, SHORT, .lends = true), PEER, PATH_READ},
	/* injected */
	{N(true, SHORT + 1, .inject = true), STAGE, PATH_WHOLE},
	{N(true, PLAIN + 1, .inject = true, .slot = false), STAGE, PATH_WHOLE},
	{N(true, SHORT, .inject = true), STAGE, PATH_SHORT},
	/* what the NIC reaches is read, unless a copy is cheaper or it cannot be
	   announced */
	{P(true, 0), STAGE, PATH_SHORT},
	{P(true, PLAIN), STAGE, PATH_SHORT},
	{P(true, PLAIN + 1), PEER, PATH_READ},
	{P(true, PLAIN + 1, .slot = false), PEER, PATH_READ},
	{P(true, PLAIN + 1, .inline_max = PLAIN + 1), PEER, PATH_READ},
	{P(true, SIZE_MAX), PEER, PATH_READ},
	{P(true, SIZE_MAX, .direct = true), PEER, PATH_READ},
	{P(true, PLAIN + 1, .stalls = true), STAGE, PATH_SHORT},
	{P(true, SHORT + 1, .stalls = true), STAGE, PATH_WHOLE},
	{P(true, PLAIN + 1, .inject = true), STAGE, PATH_SHORT},
	{P(true, SHORT + 1, .inject = true), STAGE, PATH_WHOLE},
	{P(true, SHORT + 1, .unnamed = true), STAGE, PATH_WHOLE},
	{P(true, SHORT + 1, .pieces = 1), PEER, PATH_READ},
	{P(true, SHORT + 1, .pieces = 2), STAGE, PATH_LONG},
	{P(true, SHORT, .pieces = 2), STAGE, PATH_SHORT},
	/* over a hook only the core's own call can carry it, where no CPU touches it */
	{P(false, SIZE_MAX), STAGE, PATH_WHOLE},
	{P(false, SHORT), STAGE, PATH_SHORT},
	{P(false, 0, .direct = true), STAGE, PATH_SHORT},
	{P(false, 0, .direct = true, .inline_max = 0), STAGE, PATH_SHORT},
	{P(false, INLINE, .direct = true), STAGE, PATH_SHORT},
	{P(false, INLINE + 1, .direct = true), PEER, PATH_DIRECT},
	{P(false, 1, .direct = true, .inline_max = 0), PEER, PATH_DIRECT},
	{P(false, SIZE_MAX, .direct = true), PEER, PATH_DIRECT},
	{P(false, SIZE_MAX, .direct = true, .stalls = true), PEER, PATH_DIRECT},
	{P(false, SIZE_MAX, .direct = true, .unnamed = true), PEER, PATH_DIRECT},
	{P(false, SIZE_MAX, .direct = true, .pieces = 8), PEER, PATH_DIRECT},
	{P(false, SIZE_MAX, .direct = true, .inject = true), STAGE, PATH_WHOLE},
	{N(false, SIZE_MAX, .direct = true), STAGE, PATH_WHOLE},
	/* to be staged, whatever the NIC reaches */
	{P(true, PLAIN + 1, .policy = PATH_STAGE_ONLY), STAGE, PATH_SHORT},
	{P(true, SHORT + 1, .policy = PATH_STAGE_ONLY), STAGE, PATH_LONG},
	{P(false, SHORT + 1, .direct = true, .policy = PATH_STAGE_ONLY), STAGE, PATH_WHOLE},
	/* long ones not to be staged */
	{P(true, PLAIN, .policy = PATH_PEER_LONG), STAGE, PATH_SHORT},
	{P(true, PLAIN + 1, .policy = PATH_PEER_LONG), PEER, PATH_READ},
	{N(true, PLAIN, .policy = PATH_PEER_LONG), STAGE, PATH_SHORT},
	{N(true, PLAIN + 1, .policy = PATH_PEER_LONG), STAGE, PATH_NONE},
	{N(true, SIZE_MAX, .policy = PATH_PEER_LONG), STAGE, PATH_NONE},
	{P(true, PLAIN + 1, .policy = PATH_PEER_LONG, .stalls = true), STAGE, PATH_NONE},
	{P(true, PLAIN + 1, .policy = PATH_PEER_LONG, .inject = true), STAGE, PATH_NONE},
	{P(true, PLAIN, .policy = PATH_PEER_LONG, .inject = true), STAGE, PATH_SHORT},
	{P(true, PLAIN + 1, .policy = PATH_PEER_LONG, .pieces = 2), STAGE, PATH_NONE},
	{P(false, INLINE, .direct = true, .policy = PATH_PEER_LONG), STAGE, PATH_SHORT},
	{N(false, PLAIN, .direct = true, .policy = PATH_PEER_LONG), STAGE, PATH_SHORT},
	{N(false, PLAIN + 1, .direct = true, .policy = PATH_PEER_LONG), STAGE, PATH_NONE},
	/* none to be staged, but what has no bytes */
	{P(true, 0, .policy = PATH_PEER_ONLY), STAGE, PATH_SHORT},
	{P(true, 1, .policy = PATH_PEER_ONLY), STAGE, PATH_NONE},
	{P(true, PLAIN, .policy = PATH_PEER_ONLY), STAGE, PATH_NONE},
	{P(true, PLAIN + 1, .policy = PATH_PEER_ONLY), PEER, PATH_READ},
	{N(true, PLAIN + 1, .policy = PATH_PEER_ONLY), STAGE, PATH_NONE},
	{P(false, 0, .direct = true, .policy = PATH_PEER_ONLY), STAGE, PATH_SHORT},
	{P(false, INLINE, .direct = true, .policy = PATH_PEER_ONLY), STAGE, PATH_NONE},
	{P(false, INLINE + 1, .direct = true, .policy = PATH_PEER_ONLY), PEER, PATH_DIRECT},
	{P(false, INLINE + 1, .policy = PATH_PEER_ONLY), STAGE, PATH_NONE},
	/* what other processes open is offered, if it would not be sent at once; where the
	   receiver is, only the core provider within a host knows */
	{A(0), STAGE, PATH_SHORT},
	{A(PLAIN), STAGE, PATH_SHORT},
	{A(PLAIN + 1), STAGE, PATH_SHORT},
	{A(SHORT), STAGE, PATH_SHORT},
	{A(LEND, .takes = true), STAGE, PATH_SHORT},
	{A(LEND + 1, .takes = true), STAGE, PATH_ACROSS},
	{A(SHORT, .takes = true, .refuses = true), STAGE, PATH_SHORT},
	{A(SHORT, .takes = true, .foreign = true), STAGE, PATH_SHORT},
	{A(SHORT, .takes = true, .stalls = true), STAGE, PATH_SHORT},
	{A(SHORT, .slot = false), STAGE, PATH_ACROSS},
	{A(SHORT + 1), STAGE, PATH_ACROSS},
	{A(SIZE_MAX), STAGE, PATH_ACROSS},
	{A(SIZE_MAX, .peer = true), PEER, PATH_READ},
	{A(SHORT + 1, .inject = true), STAGE, PATH_WHOLE},
	{A(SHORT + 1, .stalls = true), STAGE, PATH_WHOLE},
	{A(SHORT + 1, .unnamed = true), STAGE, PATH_WHOLE},
	{A(SHORT + 1, .pieces = 2), STAGE, PATH_LONG},
	{H(0), STAGE, PATH_SHORT},
	{H(PLAIN), STAGE, PATH_SHORT},
	{H(PLAIN + 1), IPC, PATH_ACROSS},
	{H(SIZE_MAX), IPC, PATH_ACROSS},
	{H(PLAIN + 1, .inject = true), STAGE, PATH_SHORT},
	{H(PLAIN + 1, .pieces = 2), STAGE, PATH_SHORT},
	{H(PLAIN + 1, .across = false), STAGE, PATH_SHORT},
	{H(SHORT + 1, .across = false), STAGE, PATH_LONG},
	{H(PLAIN, .follows = true), IPC, PATH_ACROSS},
	{H(1, .follows = true), IPC, PATH_ACROSS},
	{H(0, .follows = true), STAGE, PATH_SHORT},
	{H(1, .follows = true, .inject = true), STAGE, PATH_SHORT},
	{H(1, .follows = true, .pieces = 2), STAGE, PATH_SHORT},
	{H(1, .follows = true, .across = false), STAGE, PATH_SHORT},
	{H(1, .follows = true, .policy = PATH_STAGE_ONLY), STAGE, PATH_SHORT},
	{H(1, .follows = true, .peer = true, .across = false), STAGE, PATH_SHORT},
	{H(SHORT, .refuses = true), STAGE, PATH_SHORT},
	{H(SHORT + 1, .refuses = true), IPC, PATH_ACROSS},
	{H(SHORT, .refuses = true, .policy = PATH_ACROSS_LONG), IPC, PATH_ACROSS},
	/* the policies for it */
	{A(SHORT + 1, .policy = PATH_STAGE_ONLY), STAGE, PATH_LONG},
	{H(SHORT + 1, .policy = PATH_STAGE_ONLY), STAGE, PATH_LONG},
	{H(SHORT + 1, .policy = PATH_PEER_LONG), STAGE, PATH_NONE},
	{H(1, .policy = PATH_PEER_ONLY), STAGE, PATH_NONE},
	{A(SHORT + 1, .policy = PATH_NO_NIC, .peer = true), STAGE, PATH_ACROSS},
	{H(SHORT + 1, .policy = PATH_NO_NIC, .peer = true), IPC, PATH_ACROSS},
	{P(true, SHORT + 1, .policy = PATH_NO_NIC), STAGE, PATH_LONG},
	{P(false, SIZE_MAX, .direct = true, .policy = PATH_NO_NIC), STAGE, PATH_WHOLE},
	{A(PLAIN, .policy = PATH_ACROSS_LONG), STAGE, PATH_SHORT},
	{A(PLAIN + 1, .policy = PATH_ACROSS_LONG), IPC, PATH_ACROSS},
	{A(SIZE_MAX, .policy = PATH_ACROSS_LONG, .peer = true), IPC, PATH_ACROSS},
	{N(true, PLAIN + 1, .policy = PATH_ACROSS_LONG), STAGE, PATH_NONE},
	{P(true, PLAIN + 1, .policy = PATH_ACROSS_LONG), STAGE, PATH_NONE},
	{A(PLAIN + 1, .policy = PATH_ACROSS_LONG, .inject = true), STAGE, PATH_NONE},
	{A(PLAIN, .policy = PATH_ACROSS_LONG, .inject = true), STAGE, PATH_SHORT},
	{A(PLAIN + 1, .policy = PATH_ACROSS_LONG, .pieces = 2), STAGE, PATH_NONE},
	{P(false, PLAIN + 1, .policy = PATH_ACROSS_LONG, .direct = true), STAGE, PATH_NONE},
	/* the other end of it: what is open here is copied, whatever it is long */
	{P(false, 1, .direct = true, .peer = false, .across = true), IPC, PATH_ACROSS},
	{P(false, SIZE_MAX, .direct = true, .peer = false, .across = true,
	   .policy = PATH_ACROSS_LONG),
	 IPC, PATH_ACROSS},
	{P(false, SIZE_MAX, .direct = true, .across = true), PEER, PATH_DIRECT},
};

static void test_table(void **state)
{
	struct path_choice choice;
	struct path_query query;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		query = cases[i].query;
		/* of memory that the NIC does not reach somebody has said why */
		query.peer_why = NO_PEER;
		query.across_why = NO_ACROSS;
		choice = path_choose(&query);
		if (choice.path != cases[i].path || choice.proto != cases[i].proto)
			fail_msg("row %zu: path %d, proto %d (%s)", i, choice.path,
				 choice.proto, choice.reason);
		assert_non_null(choice.reason);
		assert_true(*choice.reason);
	}
}

/* Each reason says something else: two causes of one protocol are told apart */
static void test_reasons(void **state)
{
	static const struct path_query distinct[] = {
		P(true, 0),
		P(true, PLAIN),
		P(true, SHORT + 1),
		N(true, SHORT + 1, .peer_why = NO_PEER),
		P(true, SHORT + 1, .policy = PATH_STAGE_ONLY),
		P(true, SHORT + 1, .inject = true),
		P(true, SHORT + 1, .stalls = true),
		P(true, SHORT + 1, .unnamed = true),
		P(true, SHORT + 1, .pieces = 2),
		P(false, SHORT + 1),
		P(false, INLINE, .direct = true),
		H(SHORT + 1),
		H(SHORT + 1, .across = false, .across_why = NO_ACROSS),
		H(PLAIN),
		H(SHORT, .refuses = true),
		P(true, SHORT + 1, .policy = PATH_NO_NIC),
		N(true, SHORT + 1, .near = true, .policy = PATH_PEER_LONG),
	};

	for (size_t i = 0; i < UNIT_COUNT(distinct); i++) {
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(path_choose(&distinct[i]).reason,
						path_choose(&distinct[j]).reason);
	}
}

/* May no more than this many bytes be staged? */
static size_t stage_max(enum path_policy policy)
{
	if (policy == PATH_PEER_ONLY)
		return 0;
	return policy == PATH_PEER_LONG || policy == PATH_ACROSS_LONG ? PLAIN : SIZE_MAX;
}

/* What holds for every message */
static void check_rules(const struct path_query *query)
{
	const struct path_choice choice = path_choose(query);
	const char *why = "", *across_why = "", *first;
	struct path_query staged = *query;
	bool wants = path_wants_peer(query, &why);
	bool wants_across = path_wants_across(query, &across_why);

	assert_int_equal(wants, !why);
	assert_int_equal(wants_across, !across_why);
	/* the NIC's way is taken if, and only if, it is wanted and there */
	assert_int_equal(choice.path == PEER, wants && query->peer);
	if (choice.path == PEER) {
		assert_int_equal(choice.proto, query->announced ? PATH_READ : PATH_DIRECT);
		assert_true(query->len && !query->inject);
		assert_true(query->policy == PATH_ANY || query->policy == PATH_PEER_LONG ||
			    query->policy == PATH_PEER_ONLY);
		return;
	}
	/* and if not that one, the other one */
	assert_int_equal(choice.proto == PATH_ACROSS, wants_across && query->across);
	if (choice.proto == PATH_ACROSS) {
		assert_true(query->len && !query->inject);
		assert_true(query->policy == PATH_ANY || query->policy == PATH_NO_NIC ||
			    query->policy == PATH_ACROSS_LONG);
		if (query->announced)
			assert_true(!query->stalls && !query->unnamed && query->pieces == 1 &&
				    (query->len > PLAIN || query->follows));
		return;
	}
	assert_int_equal(choice.path, STAGE);
	/* the reason is the first cause, of the way that was the likelier one */
	first = wants ? query->peer_why : why;
	if (query->near || query->policy == PATH_ACROSS_LONG)
		first = wants_across ? query->across_why : across_why;
	assert_ptr_equal(choice.reason, first);
	assert_int_equal(choice.proto == PATH_NONE, query->len > stage_max(query->policy));
	if (choice.proto == PATH_NONE)
		return;
	/* through the host it goes in one way, whatever else was hoped for */
	staged.policy = PATH_STAGE_ONLY;
	staged.direct = staged.peer = staged.across = false;
	assert_int_equal(choice.proto, path_choose(&staged).proto);
	if (choice.proto == PATH_LENT)
		assert_true(query->lends && query->slot && !query->inject && !query->stalls &&
			    !query->foreign && !query->unnamed && query->len > LEND &&
			    query->len <= SHORT);
	else if (choice.proto == PATH_SHORT)
		assert_true(query->len <= SHORT && (query->slot || query->len <= PLAIN));
	else if (choice.proto == PATH_LONG)
		assert_true(query->announced && !query->inject && !query->stalls &&
			    !query->foreign && !query->unnamed && query->len > PLAIN);
	else
		assert_int_equal(choice.proto, PATH_WHOLE);
}

static void test_rules(void **state)
{
	static const size_t lens[] = {0,    1,        INLINE, INLINE + 1, PLAIN,   PLAIN + 1,
				      LEND, LEND + 1, SHORT,  SHORT + 1,  SIZE_MAX};

	for (size_t i = 0; i < UNIT_COUNT(lens); i++) {
		for (unsigned int bits = 0; bits < 1 << 17; bits++) {
			const struct path_query query = {
				.unnamed = bits >> 0 & 1,
				.announced = bits >> 1 & 1,
				.stalls = bits >> 2 & 1,
				.slot = bits >> 3 & 1,
				.inject = bits >> 4 & 1,
				.direct = bits >> 5 & 1,
				.peer = bits >> 6 & 1,
				.pieces = 1 + (bits >> 7 & 1),
				.foreign = bits >> 8 & 1,
				.near = bits >> 9 & 1,
				.across = bits >> 10 & 1,
				.follows = bits >> 11 & 1,
				.refuses = bits >> 12 & 1,
				.policy = bits >> 13 & 7,
				.lends = bits >> 16 & bits >> 1 & 1,
				.len = lens[i],
				.short_max = SHORT,
				.plain_max = PLAIN,
				.inline_max = INLINE,
				.peer_why = NO_PEER,
				.across_why = NO_ACROSS,
			};

			if (query.policy <= PATH_STAGE_ONLY)
				check_rules(&query);
		}
	}
}

/* Asked for before anything is known of the memory: the answer does not depend on that */
static void test_wants(void **state)
{
	struct path_query query;
	const char *why, *other;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		query = cases[i].query;
		query.peer = query.across = false;
		query.peer_why = query.across_why = NULL;
		assert_int_equal(path_wants_peer(&query, &why),
				 path_wants_peer(&cases[i].query, &other));
		assert_ptr_equal(why, other);
		if (cases[i].path == PEER)
			assert_null(why);
		assert_int_equal(path_wants_across(&query, &why),
				 path_wants_across(&cases[i].query, &other));
		assert_ptr_equal(why, other);
		if (cases[i].proto == PATH_ACROSS)
			assert_null(why);
	}
}

/* What a receiver says, of whatever release it is */
static void test_far_reasons(void **state)
{
	for (uint64_t i = 0; i < PATH_FAR_KINDS; i++) {
		assert_non_null(path_far_reason(i));
		for (uint64_t j = 0; j < i; j++)
			assert_string_not_equal(path_far_reason(i), path_far_reason(j));
	}
	assert_ptr_equal(path_far_reason(PATH_FAR_KINDS), path_far_reason(PATH_FAR_UNKNOWN));
	assert_ptr_equal(path_far_reason(UINT64_MAX), path_far_reason(PATH_FAR_UNKNOWN));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),       cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_rules),       cmocka_unit_test(test_wants),
		cmocka_unit_test(test_far_reasons),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
