/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the tests of the states share: a request in each state, and what peers may say of it. */
#ifndef P2P_UNIT_STATES_H
#define P2P_UNIT_STATES_H

#include "unit_fake_core.h"

#include "xfer/req_state.h"

/*
 * A message that is announced, as what is longer than SCENE_WHOLE is; and the pieces that are asked
 * for, SCENE_PIECES of them; or tiny ones. It fits a slot that is lent.
 */
#define SCENE_WHOLE 8192
#define SCENE_LEN 60000
#define SCENE_PIECE 20000
#define SCENE_PIECES 3
#define SCENE_TINY 8
/* Remote memory of which so much goes with a message */
#define SCENE_SHORT 8

/* Remote memory: of the peer's, which is asked for it; and of ours. */
#define SCENE_KEY_MARK (1ULL << 63)
#define SCENE_KEY_THERE (SCENE_KEY_MARK | 1)
#define SCENE_KEY_HERE (SCENE_KEY_MARK | 2)

/* Ids that the peer gives: to what is sent here, and to what answers a read */
#define SCENE_ID (77ULL << 24 | 1)
#define SCENE_ID_SUPPLY (77ULL << 24 | 2)

/**
 * struct scene - an endpoint with one request, which is brought into some state.
 * @req:	the request; scene_state() tells whether it is still there
 * @id:		what messages about it name
 * @token:	of the peer that says them
 * @own:	an offer of this process's, which may stand
 * @reports:	completions of the request that the application has read
 */
struct scene {
	struct xfer_ep ep;
	struct xfer_req *req;
	uint64_t id;
	uint64_t token;
	struct ipc_own own;
	struct board board;
	unsigned int reports;
};

/**
 * struct scene_kind - one way into a state.
 * @bring:	opens nothing, posts and says what leads there
 * @served:	for a peer: the application hears of nothing
 * @unmarked:	has no marker on its way, which would keep what is over from ending
 * @waits:	for a DONE
 * @taken:	a receiver may have taken it without asking for pieces
 * @wanted:	pieces of it are asked for
 * @whole:	all of it is, as one
 * @message:	could be sent whole
 * @supplied:	ANNOUNCE may answer it
 * @peek:	looks, and receives nothing
 * @idle:	nothing of it is in flight yet
 * @failed:	a receive that has failed
 * @alone:	no peer has announced it
 */
struct scene_kind {
	const char *name;
	enum xfer_state state;
	void (*bring)(struct scene *scene);
	bool served;
	bool unmarked;
	bool waits;
	bool taken;
	bool wanted;
	bool whole;
	bool message;
	bool supplied;
	bool peek;
	bool idle;
	bool failed;
	bool alone;
};

extern const struct scene_kind scene_kinds[];
extern const size_t scene_kind_count;

/* What peers may say. It is what wire_decode() lets through; the id is the scene's. */
enum said {
	SAID_ANNOUNCE,
	SAID_ANNOUNCE_LENT,
	SAID_TAKE_PIECE,
	SAID_TAKE_ALL,
	SAID_TAKE_SMALL,
	SAID_TAKE_NOTHING,
	SAID_TAKE_PLAIN,
	SAID_TAKE_TOO_LONG,
	SAID_TAKE_TOO_LARGE,
	SAID_TAKE_LANES,
	SAID_TAKE_MORE,
	SAID_TAKE_REST,
	SAID_DONE,
	SAID_REFUSED,
	SAID_GIVEN_UP,
	SAID_PROBE,
	SAID_PROBE_ASKS,
	SAID_WRITE,
	SAID_WRITE_LONG,
	SAID_WRITE_LENT,
	SAID_READ,
	SAID_READ_LONG,
	SAID_SUPPLY,
	SAID_SUPPLY_LENT,
	SAID_SUPPLY_OTHER,
	SAID_ATOMIC,
	SAID_DONE_BYTES,
	SAID_HELLO,
	SAID_COUNT,
	/* takes too long to be tried in every state */
	SAID_TAKE_TINY = SAID_COUNT
};

const char *said_name(enum said said);
enum wire_type said_type(enum said said);
const struct wire_msg *said_msg(enum said said);

/* A peer sends that: it goes as it would over the wire. */
void scene_dispatch(struct scene *scene, struct wire_msg *msg);

/* What an offer of @len bytes of device memory here says, whether there is one or not */
void scene_describe(void *from, size_t len, struct ipc_offer *offer);

/* @msg has an offer, which stands as long as the note on another domain's board */
void scene_note(struct scene *scene, struct wire_msg *msg);

/* A peer says so, about @id. */
void scene_say_of(struct scene *scene, enum said said, uint64_t id);
void scene_say(struct scene *scene, enum said said);

const struct scene_kind *scene_kind_named(const char *name);

/* The domain, the device and the memory that scenes play with */
void scenes_start(void);
void scenes_stop(void);

/* Opens the endpoint, and brings the request into the state. */
void scene_open(struct scene *scene, const struct scene_kind *kind);

/* What is between marker and DONE goes by an endpoint beside the scene's. */
void scene_side(struct scene *scene);

/* Its state; XFER_ENDED: it is not there any more */
enum xfer_state scene_state(const struct scene *scene);

/*
 * The core has room for everything, and ends all that it has but the application's receives, again and
 * again until nothing more begins.
 */
void scene_drain(struct scene *scene);

/* The peer gives up, in every way that there is, and receives are cancelled: nothing is left to wait for. */
void scene_give_up(struct scene *scene);

/* Closes the endpoint: nothing of it may be left. */
void scene_close(struct scene *scene);

/* Posts a send of @len bytes of device memory: what the call says */
ssize_t scene_try(struct scene *scene, fi_addr_t addr, size_t len);

/* The same to FAKE_ALIVE, which succeeds; the request */
struct xfer_req *scene_send(struct scene *scene, size_t len, uint64_t flags);

/* Posts a write of SCENE_LEN bytes of device memory that is lent: they are being copied to a slot. */
void scene_write_lent(struct scene *scene);

/* Nothing can be sent to the peer any more, as the core says. */
void scene_lose(struct scene *scene);

/* A completion comes out of the core's queue. */
void scene_complete(const struct core_comp *comp);

/* The core ends operation number @index: with @len bytes, and an error or 0 */
void scene_end(size_t index, size_t len, int err);

/* Until the copies that are under way have ended */
void scene_copy(void);

/* ---- unit_states_orders.c ---- */

void test_answered_in_queue(void **state);
void test_take_late(void **state);
void test_done_first(void **state);
void test_failed_in_queue(void **state);
void test_failed_late(void **state);
void test_lost_while_copied(void **state);
void test_asked_for_tiny(void **state);
void test_asked_twice(void **state);
void test_marked(void **state);
void test_marked_untracked(void **state);
void test_announced_twice(void **state);
void test_offer_forged(void **state);
void test_offer_stands(void **state);
void test_stale_pieces(void **state);
void test_stale_near(void **state);
void test_stale_near_starved(void **state);
void test_stale_near_aborted(void **state);
void test_stale_near_many(void **state);
void test_slots_shared(void **state);
void test_spares_shared(void **state);
void test_short_starved(void **state);
void test_resumed_with_next(void **state);
void test_multi_recv_fails_last(void **state);

/* ---- unit_states_across.c ---- */

void test_closed_across(void **state);
void test_closed_across_copying(void **state);
void test_closed_across_telling(void **state);
void test_closed_across_late(void **state);
void test_closes_across(void **state);
void test_closes_across_idle(void **state);
void test_peeked_across(void **state);
void test_peeks_across(void **state);
void test_claimed_across(void **state);
void test_multi_recv_across(void **state);
void test_ways_across(void **state);

/* ---- unit_states_waits.c ---- */

void test_waits_unpinned(void **state);
void test_waits_unlent(void **state);
void test_waits_kept(void **state);
void test_waits_injected(void **state);
void test_waits_shared(void **state);
void test_waits_unread(void **state);
void test_waits_unasked(void **state);
void test_waits_answered(void **state);
void test_waits_refused(void **state);
void test_waits_unposted(void **state);
void test_waits_unknown(void **state);
void test_waits_behind_write(void **state);
void test_offer_fell(void **state);
void test_offer_falls_early(void **state);
void test_spare_for_core(void **state);
void test_offer_unnoted(void **state);

#endif /* P2P_UNIT_STATES_H */
