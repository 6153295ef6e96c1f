/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of the states of requests: the table, every message in every state, and every two
 * messages, over a core provider made up in the test and the emulated device.
 */
#include "unit_states.h"

#define S(state) (1u << XFER_##state)

/* Those that the peer's answers find */
#define SENDING (S(MARKING) | S(ANNOUNCED) | S(PUSHING) | S(ASKING) | S(ENDING))
#define RECEIVING (S(MATCHED) | S(PULLING) | S(MOVING) | S(TELLING) | S(ENDING))

/* Of each type: the states that it fits, and those in which it is late. In all others it is wrong. */
static const struct {
	uint32_t fits;
	uint32_t late;
} rows[WIRE_TYPES] = {
	[WIRE_TAKE] = {S(ANNOUNCED) | S(PUSHING), S(ENDING)},
	[WIRE_DONE] = {S(MARKING) | S(ANNOUNCED) | S(PUSHING) | S(ASKING) |
			       (RECEIVING & ~S(TELLING)),
		       S(TELLING)},
	[WIRE_ANNOUNCE] = {S(ASKING), 0},
};

static enum xfer_fit fit(enum xfer_state state, enum wire_type type)
{
	if (rows[type].fits & 1u << state)
		return XFER_FITS;
	return rows[type].late & 1u << state ? XFER_LATE : XFER_WRONG;
}

/* ---- the table ---- */

static void test_fits(void **state)
{
	for (unsigned int at = 0; at < XFER_STATES; at++) {
		for (unsigned int type = 1; type < WIRE_TYPES; type++) {
			if (xfer_state_fit(at, type) != fit(at, type))
				fail_msg("%s when %s", wire_type_name(type),
					 xfer_state_name(at));
		}
	}
}

/* What a message fits is found by its id. Nothing else is. */
static void test_found(void **state)
{
	for (unsigned int at = 0; at < XFER_STATES; at++) {
		bool heard = false;

		for (unsigned int type = 1; type < WIRE_TYPES; type++)
			heard |= xfer_state_fit(at, type) != XFER_WRONG;
		assert_int_equal(heard, ((SENDING | RECEIVING) & 1u << at) != 0);
	}
}

/* The states that may be reached from @from, itself included */
static uint32_t reach(enum xfer_state from)
{
	uint32_t reached = 1u << from, before;

	do {
		before = reached;
		for (unsigned int at = 0; at < XFER_STATES; at++) {
			for (unsigned int next = 0; next < XFER_STATES; next++) {
				if (reached & 1u << at && xfer_state_follows(at, next))
					reached |= 1u << next;
			}
		}
	} while (reached != before);
	return reached;
}

static void test_reach(void **state)
{
	assert_int_equal(reach(XFER_CORE), (1u << XFER_STATES) - 1);
	assert_int_equal(reach(XFER_ENDED), S(ENDED));
	for (unsigned int at = 0; at < XFER_STATES; at++) {
		assert_true(xfer_state_follows(at, XFER_ENDED));
		assert_non_null(xfer_state_name(at));
		/* what is received is not sent, whatever comes; but a peek may claim */
		if (1u << at & RECEIVING && at != XFER_MATCHED)
			assert_int_equal(reach(at) & ~RECEIVING, S(ENDED));
	}
	assert_int_equal(reach(XFER_ENDING), S(ENDING) | S(ENDED));
}

/* ---- one message ---- */

/* Do the peer's answers find it? */
static bool sends(const struct scene_kind *kind)
{
	return SENDING & 1u << kind->state && !kind->failed;
}

/* Is it said to who sends what the id names? */
static bool to_sender(enum said said)
{
	return said_msg(said)->to_sender;
}

/* The state after a message that fits one that is announced */
static enum xfer_state after_announced(const struct scene_kind *kind, enum said said)
{
	enum xfer_state over = kind->unmarked ? XFER_ENDED : XFER_ENDING;

	switch (said) {
	case SAID_TAKE_PIECE:
	case SAID_TAKE_MORE:
		return XFER_PUSHING;
	case SAID_TAKE_ALL:
	case SAID_TAKE_REST:
	case SAID_TAKE_SMALL:
		/* pieces are in flight */
		return kind->waits ? XFER_PUSHING : XFER_ENDING;
	case SAID_TAKE_NOTHING:
		return kind->waits ? XFER_PUSHING : over;
	case SAID_TAKE_PLAIN:
		return kind->message ? XFER_PUSHING : kind->state;
	case SAID_DONE:
	case SAID_DONE_BYTES:
		return kind->taken ? over : kind->state;
	case SAID_TAKE_LANES:
	case SAID_REFUSED:
		return over;
	default:
		return kind->state;
	}
}

/* The same for others that send, or ask */
static enum xfer_state after_sending(const struct scene_kind *kind, enum said said)
{
	if (kind->state == XFER_ANNOUNCED)
		return after_announced(kind, said);
	/* the marker goes in any case */
	if (kind->state == XFER_MARKING)
		return XFER_MARKING;
	switch (said) {
	case SAID_TAKE_ALL:
	case SAID_TAKE_REST:
		return kind->wanted ? XFER_ENDING : kind->state;
	case SAID_DONE:
	case SAID_DONE_BYTES:
	case SAID_REFUSED:
		return kind->state == XFER_ASKING ? XFER_ENDED : XFER_ENDING;
	case SAID_SUPPLY:
	case SAID_SUPPLY_LENT:
		return kind->supplied ? XFER_PULLING : kind->state;
	default:
		return kind->state;
	}
}

/* What the sender says to who receives */
static enum xfer_state after_receiving(const struct scene_kind *kind, enum said said)
{
	bool announces = said == SAID_ANNOUNCE || said == SAID_ANNOUNCE_LENT;

	switch (kind->state) {
	case XFER_MATCHED:
		if (announces)
			return kind->peek ? XFER_ENDED : XFER_PULLING;
		return said == SAID_GIVEN_UP ? XFER_ENDED : kind->state;
	case XFER_PULLING:
	case XFER_MOVING:
		if (said != SAID_GIVEN_UP || kind->alone)
			return kind->state;
		return kind->idle ? XFER_ENDED : XFER_ENDING;
	default:
		return kind->state;
	}
}

/* A message that fits, but whose content does not */
static bool misfits(const struct scene_kind *kind, enum said said)
{
	switch (said) {
	case SAID_TAKE_TOO_LONG:
	case SAID_TAKE_TOO_LARGE:
	case SAID_SUPPLY_OTHER:
		return true;
	/* the receiver has chosen before */
	case SAID_TAKE_SMALL:
	case SAID_TAKE_NOTHING:
		return kind->state == XFER_PUSHING;
	case SAID_TAKE_PIECE:
	case SAID_TAKE_ALL:
	case SAID_TAKE_LANES:
	case SAID_TAKE_MORE:
	case SAID_TAKE_REST:
		return kind->whole;
	case SAID_SUPPLY:
	case SAID_SUPPLY_LENT:
		return !kind->supplied;
	case SAID_TAKE_PLAIN:
		return !kind->message;
	case SAID_DONE:
	case SAID_DONE_BYTES:
		return kind->state != XFER_ASKING && kind->state != XFER_ENDING && !kind->taken;
	default:
		return false;
	}
}

/* How many messages are to be counted as wrong, and the state after */
static unsigned int expect(const struct scene_kind *kind, enum said said,
			   enum xfer_state *after)
{
	const uint32_t announced = (RECEIVING & ~S(MATCHED)) | S(CLAIMED);
	enum wire_type type = said_type(said);

	*after = kind->state;
	if (to_sender(said)) {
		if (!sends(kind))
			return 0;
		if (fit(kind->state, type) != XFER_FITS)
			return fit(kind->state, type) == XFER_WRONG;
		if (misfits(kind, said))
			return 1;
		*after = after_sending(kind, said);
		return 0;
	}
	if (!sends(kind))
		*after = after_receiving(kind, said);
	return type == WIRE_ANNOUNCE && !sends(kind) && !kind->alone &&
	       announced & 1u << kind->state;
}

static void finish(struct scene *scene, const struct scene_kind *kind)
{
	scene_drain(scene);
	scene_give_up(scene);
	if (kind->state != XFER_CLAIMED && scene_state(scene) != XFER_ENDED)
		fail_msg("%s: it stays %s", kind->name, xfer_state_name(scene_state(scene)));
	scene_close(scene);
	assert_int_equal(scene->reports, !kind->served);
}

/* Late, wrong or about nothing here: it changes nothing. */
static void say_in_vain(struct scene *scene, enum said said)
{
	struct xfer_req before = *scene->req;
	size_t held = fake.count;

	scene_say(scene, said);
	assert_memory_equal(scene->req, &before, sizeof before);
	assert_int_equal(fake.count, held);
}

static void one(const struct scene_kind *kind, enum said said)
{
	static struct scene scene;
	unsigned int wrong;
	enum xfer_state after;

	scene_open(&scene, kind);
	wrong = expect(kind, said, &after);
	if (to_sender(said) && (wrong || fit(kind->state, said_type(said)) != XFER_FITS))
		say_in_vain(&scene, said);
	else
		scene_say(&scene, said);
	if (scene_state(&scene) != after)
		fail_msg("%s when %s: %s", said_name(said), kind->name,
			 xfer_state_name(scene_state(&scene)));
	if (fake_xfer.wrong != wrong)
		fail_msg("%s when %s: %u messages are wrong", said_name(said), kind->name,
			 (unsigned int) fake_xfer.wrong);
	finish(&scene, kind);

	/* the same, and the application closes the endpoint at once */
	scene_open(&scene, kind);
	scene_say(&scene, said);
	scene_close(&scene);
	assert_in_range(scene.reports, 0, !kind->served);
}

static void test_one(void **state)
{
	for (size_t i = 0; i < scene_kind_count; i++) {
		for (unsigned int said = 0; said < SAID_COUNT; said++)
			one(&scene_kinds[i], said);
	}
}

/* Nobody else may answer, whatever it knows: nor who is known, nor who is not. */
static void test_other(void **state)
{
	static const uint64_t tokens[] = {FAKE_TOKEN(FAKE_OTHER), FAKE_TOKEN(FAKE_NEW), 0};
	static struct scene scene;

	for (size_t i = 0; i < scene_kind_count; i++) {
		const struct scene_kind *kind = &scene_kinds[i];
		for (unsigned int said = 0; said < SAID_COUNT; said++) {
			for (size_t by = 0; by < UNIT_COUNT(tokens); by++) {
				if (!to_sender(said) && said != SAID_GIVEN_UP)
					continue;
				/* until it is announced, who knows the id is its sender */
				if (!by && !to_sender(said) && kind->state == XFER_MATCHED)
					continue;
				scene_open(&scene, kind);
				scene.token = tokens[by];
				say_in_vain(&scene, said);
				if (by || (sends(kind) && to_sender(said)))
					assert_int_equal(fake_xfer.wrong, 1);
				assert_int_equal(scene_state(&scene), kind->state);
				scene.token = FAKE_TOKEN(FAKE_ALIVE);
				finish(&scene, kind);
			}
		}
	}
}

/* Each way into a state, and what of it is found by its id, without any message */
static void test_none(void **state)
{
	static struct scene scene;

	for (size_t i = 0; i < scene_kind_count; i++) {
		const struct scene_kind *kind = &scene_kinds[i];

		scene_open(&scene, kind);
		p2p_lock_take(&fake_xfer.lock);
		assert_ptr_equal(xfer_req_find(&fake_xfer, scene.id),
				 sends(kind) ? scene.req : NULL);
		p2p_lock_drop(&fake_xfer.lock);
		finish(&scene, kind);
	}
}

/* ---- two messages ---- */

/* Whatever comes after whatever: nothing is left, and the request ends once. */
static void test_two(void **state)
{
	static struct scene scene;

	for (size_t i = 0; i < scene_kind_count; i++) {
		for (unsigned int first = 0; first < SAID_COUNT; first++) {
			for (unsigned int second = 0; second < SAID_COUNT; second++) {
				scene_open(&scene, &scene_kinds[i]);
				scene_say(&scene, first);
				scene_say(&scene, second);
				finish(&scene, &scene_kinds[i]);
			}
		}
	}
}

static int setup(void **state)
{
	scenes_start();
	return 0;
}

/* What a test that has failed leaves behind, the next ones would stumble over. */
static int clean(void **state)
{
	return LIST_EMPTY(&fake_xfer.eps) ? 0 : -1;
}

static int teardown(void **state)
{
	if (clean(state))
		return -1;
	scenes_stop();
	return 0;
}

#define TEST(test) cmocka_unit_test_setup(test, clean)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_fits),
		TEST(test_found),
		TEST(test_reach),
		TEST(test_none),
		TEST(test_one),
		TEST(test_other),
		TEST(test_two),
		TEST(test_offer_fell),
		TEST(test_offer_falls_early),
		TEST(test_spare_for_core),
		TEST(test_offer_unnoted),
		TEST(test_answered_in_queue),
		TEST(test_take_late),
		TEST(test_done_first),
		TEST(test_failed_in_queue),
		TEST(test_failed_late),
		TEST(test_lost_while_copied),
		TEST(test_asked_for_tiny),
		TEST(test_asked_twice),
		TEST(test_marked),
		TEST(test_marked_untracked),
		TEST(test_announced_twice),
		TEST(test_offer_forged),
		TEST(test_offer_stands),
		TEST(test_stale_pieces),
		TEST(test_stale_near),
		TEST(test_stale_near_starved),
		TEST(test_stale_near_aborted),
		TEST(test_stale_near_many),
		TEST(test_slots_shared),
		TEST(test_spares_shared),
		TEST(test_short_starved),
		TEST(test_resumed_with_next),
		TEST(test_multi_recv_fails_last),
		TEST(test_closed_across),
		TEST(test_closed_across_copying),
		TEST(test_closed_across_telling),
		TEST(test_closed_across_late),
		TEST(test_closes_across),
		TEST(test_closes_across_idle),
		TEST(test_peeked_across),
		TEST(test_peeks_across),
		TEST(test_claimed_across),
		TEST(test_multi_recv_across),
		TEST(test_ways_across),
		TEST(test_waits_unpinned),
		TEST(test_waits_unlent),
		TEST(test_waits_kept),
		TEST(test_waits_injected),
		TEST(test_waits_shared),
		TEST(test_waits_unread),
		TEST(test_waits_unasked),
		TEST(test_waits_answered),
		TEST(test_waits_refused),
		TEST(test_waits_unposted),
		TEST(test_waits_unknown),
		TEST(test_waits_behind_write),
	};
	const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
		.setup = setup,
		.teardown = teardown,
	};

	return unit_main(argc, argv, &unit);
}
