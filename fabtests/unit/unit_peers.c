/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ten thousand peers that one endpoint knows, all idle, over a core provider made up in the test: each is found,
 * and takes little. What a look costs with them and without them is printed.
 */
#include "unit_fake_core.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "xfer/ctrl.h"
#include "xfer/life.h"
#include "xfer/loss.h"
#include "xfer/progress.h"

#define PEERS 10000
#define LOOKS 50000

/* A record, its token, and what two hash tables have for it */
#define PEER_BYTES_MAX 704

static struct xfer_ep ep;

static fi_addr_t peer_addr(int number)
{
	return FAKE_KNOWN + (fi_addr_t) number;
}

/* How long one pass of progress takes [ns] */
static double look(void)
{
	struct timespec began, ended;

	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < LOOKS; i++)
		xfer_progress(&fake_xfer);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	return ((double) (ended.tv_sec - began.tv_sec) * 1e9 +
		(double) (ended.tv_nsec - began.tv_nsec)) /
	       LOOKS;
}

static unsigned int past_count(void)
{
	const struct xfer_peer *past;
	unsigned int count = 0;

	TAILQ_FOREACH(past, &ep.pasts, past)
		count++;
	return count;
}

/* Who may use @token; NULL: nobody */
static struct xfer_peer *bearer_of(uint64_t token)
{
	const struct xfer_token *found = xfer_token_find(&ep, token);

	return found && !found->lost ? found->peer : NULL;
}

static void expect_all(bool known)
{
	struct xfer_peer *peer, *bearer;

	p2p_lock_take(&fake_xfer.lock);
	for (int i = 0; i < PEERS; i++) {
		peer = xfer_peer_find(&ep, peer_addr(i));
		bearer = bearer_of(FAKE_TOKEN(peer_addr(i)));
		assert_int_equal(peer != NULL, known);
		if (known)
			assert_ptr_equal(bearer, peer);
		else
			/* the first one, with which something is under way, and those that were forgotten last may speak */
			assert_int_equal(bearer != NULL, !i || i >= PEERS - XFER_PASTS);
	}
	p2p_lock_drop(&fake_xfer.lock);
}

/* Each has a name of its own. */
static int look_up(struct xfer_channel *of, fi_addr_t addr, void *name, size_t *len)
{
	memcpy(name, &addr, sizeof addr);
	*len = sizeof addr;
	return 0;
}

/* From now on each peer has a name of its own */
static void name_peers(void)
{
	static struct xfer_channel_ops ops;

	ops = *ep.front.ops;
	ops.lookup = look_up;
	ep.front.ops = &ops;
}

static void test_idle(void **state)
{
	double before, idle, after;
	struct xfer_peer *first;
	size_t bytes;

	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	name_peers();
	look();
	before = look();
	bytes = mallinfo2().uordblks;
	for (int i = 0; i < PEERS; i++)
		fake_peer(&ep, peer_addr(i));
	bytes = (mallinfo2().uordblks - bytes) / PEERS;
	expect_all(true);
	idle = look();
	p2p_lock_take(&fake_xfer.lock);
	first = xfer_peer_find(&ep, peer_addr(0));
	xfer_peer_hold(first);
	for (int i = 0; i < PEERS; i++)
		xfer_peer_forget(&ep, peer_addr(i));
	p2p_lock_drop(&fake_xfer.lock);
	expect_all(false);
	after = look();
	print_message(
		"%d idle peers: %zu bytes each; a look takes %.0f ns with them, %.0f before "
		"and %.0f after\n",
		PEERS, bytes, idle, before, after);
	assert_true(bytes <= PEER_BYTES_MAX);
	p2p_lock_take(&fake_xfer.lock);
	xfer_peer_put(first);
	p2p_lock_drop(&fake_xfer.lock);
	fake_ep_close(&ep);
	fake_stop();
}

/* What a peer says that was removed is heard, and answered at the address that it has then. */
static void test_removed(void **state)
{
	struct wire_msg msg = {.type = WIRE_PROBE, .flags = WIRE_ASKS};
	struct xfer_peer *peer, *other;

	for (int again = 0; again <= 1; again++) {
		fake_start(false);
		fake_ep_open(&ep, &fake_cq);
		name_peers();
		msg.token = FAKE_TOKEN(FAKE_OTHER);
		fake.named = FAKE_ALIVE;
		p2p_lock_take(&fake_xfer.lock);
		peer = xfer_peer_find(&ep, FAKE_OTHER);
		/* its new address is nobody's, or that of a record made since */
		xfer_peer_forget(&ep, FAKE_ALIVE);
		other = again ? xfer_peer_get(&ep, FAKE_ALIVE) : NULL;
		assert_false(xfer_peer_forget(&ep, FAKE_OTHER));
		assert_null(xfer_peer_find(&ep, FAKE_OTHER));
		ctrl_dispatch(&ep, &msg);
		assert_int_equal(fake_xfer.wrong, 0);
		assert_int_equal(peer->addr, FAKE_ALIVE);
		assert_int_equal(peer->to, FAKE_ALIVE);
		assert_int_equal(fake.sent[FAKE_ALIVE], 1);
		assert_int_equal(fake.sent[FAKE_OTHER], 0);
		assert_ptr_equal(xfer_peer_find(&ep, FAKE_ALIVE), again ? other : peer);
		assert_int_equal(peer->name != NULL, again);
		/* what is under way keeps the address */
		xfer_peer_hold(peer);
		assert_int_equal(xfer_peer_forget(&ep, FAKE_ALIVE), !again);
		xfer_peer_put(peer);
		assert_true(past_count() >= 1);
		p2p_lock_drop(&fake_xfer.lock);
		fake_ep_close(&ep);
		fake_stop();
	}
}

/* Who is removed and comes back again and again takes one place, and what was agreed of lanes holds. */
static void test_removed_often(void **state)
{
	struct xfer_peer *peer;

	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	name_peers();
	peer = fake_peer(&ep, FAKE_NEW);
	p2p_lock_take(&fake_xfer.lock);
	peer->lanes = calloc(1, sizeof *peer->lanes);
	assert_non_null(peer->lanes);
	peer->lanes->out = 3;
	xfer_peer_forget(&ep, FAKE_NEW);
	p2p_lock_drop(&fake_xfer.lock);
	for (int i = 0; i < 5; i++) {
		assert_ptr_equal(fake_peer(&ep, FAKE_NEW), peer);
		p2p_lock_take(&fake_xfer.lock);
		assert_int_equal(past_count(), 0);
		assert_int_equal(peer->lanes->out, 3);
		xfer_peer_forget(&ep, FAKE_NEW);
		assert_int_equal(past_count(), 1);
		p2p_lock_drop(&fake_xfer.lock);
	}
	fake_ep_close(&ep);
	fake_stop();
}

/* A peer that is removed while something is under way, and inserted again */
static struct xfer_peer *again_start(void)
{
	struct xfer_peer *peer;

	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	name_peers();
	fake.named = FAKE_NEW;
	peer = fake_peer(&ep, FAKE_NEW);
	p2p_lock_take(&fake_xfer.lock);
	xfer_peer_hold(peer);
	assert_true(xfer_peer_forget(&ep, FAKE_NEW));
	assert_ptr_equal(xfer_peer_get(&ep, FAKE_NEW), peer);
	return peer;
}

static void again_stop(struct xfer_peer *peer)
{
	xfer_peer_put(peer);
	p2p_lock_drop(&fake_xfer.lock);
	fake_ep_close(&ep);
	fake_stop();
}

/* What was under way goes on. New messages wait until it is known who is there */
static void test_inserted(void **state)
{
	struct xfer_peer *peer = again_start();

	assert_int_equal(peer->state, XFER_PEER_NEW);
	assert_true(peer->open);
	assert_ptr_equal(bearer_of(FAKE_TOKEN(FAKE_NEW)), peer);
	assert_int_equal(past_count(), 0);
	again_stop(peer);
}

/* If it is lost before it has answered, what was under way ends. New messages wait for whoever is there */
static void test_inserted_lost(void **state)
{
	struct xfer_peer *peer = again_start();

	xfer_peer_lose(peer, -FI_ECONNRESET);
	assert_false(peer->open);
	assert_int_equal(peer->epoch, 1);
	assert_int_equal(peer->state, XFER_PEER_NEW);
	assert_int_equal(peer->lost, 0);
	assert_null(bearer_of(FAKE_TOKEN(FAKE_NEW)));
	again_stop(peer);
}

/* It is given a token in place of the number of a question, and keeps it. The one that is lost is known until the next loss */
static void test_admitted(void **state)
{
	const struct wire_msg msg = {.type = WIRE_TAKE, .to_sender = true, .token = 8};
	struct xfer_peer *peer = again_start();

	assert_int_equal(xfer_peer_admit(peer, 7), 0);
	assert_null(xfer_token_find(&ep, FAKE_TOKEN(FAKE_NEW)));
	assert_int_equal(xfer_peer_admit(peer, 8), 0);
	assert_null(xfer_token_find(&ep, 7));
	xfer_token_count(xfer_token_find(&ep, 8), &msg);
	assert_int_equal(xfer_peer_admit(peer, 8), 0);
	assert_true(xfer_peer_spoke(peer));
	xfer_peer_expire(peer);
	assert_false(xfer_peer_spoke(peer));
	assert_int_equal(xfer_peer_admit(peer, 9), 0);
	assert_int_equal(xfer_peer_admit(peer, 10), 0);
	assert_null(xfer_token_find(&ep, 9));
	assert_null(bearer_of(8));
	assert_true(xfer_token_find(&ep, 8)->lost);
	assert_ptr_equal(bearer_of(10), peer);
	again_stop(peer);
}

/* It is removed once more, and speaks: it comes back as what it was */
static void test_inserted_removed(void **state)
{
	struct wire_msg msg = {.type = WIRE_PROBE, .flags = WIRE_ASKS};
	struct xfer_peer *peer = again_start();

	assert_true(xfer_peer_forget(&ep, FAKE_NEW));
	assert_null(xfer_peer_find(&ep, FAKE_NEW));
	msg.token = FAKE_TOKEN(FAKE_NEW);
	ctrl_dispatch(&ep, &msg);
	assert_ptr_equal(xfer_peer_find(&ep, FAKE_NEW), peer);
	assert_true(peer->open);
	again_stop(peer);
}

/* A read that the core has of it has come once the peer has said something by the same way, and knows of the epoch */
static void test_spoke(void **state)
{
	static const struct {
		struct wire_msg msg;
		bool two_ways, spoke;
	} said[] = {
		{{.type = WIRE_PROBE}, false, true},
		{{.type = WIRE_PROBE, .front = true}, false, true},
		{{.type = WIRE_PROBE}, true, true},
		{{.type = WIRE_PROBE, .front = true}, true, false},
		{{.type = WIRE_ANNOUNCE, .front = true}, true, false},
		{{.type = WIRE_HELLO, .flags = WIRE_CONFIRMS}, true, true},
		{{.type = WIRE_HELLO, .flags = WIRE_ANSWERS}, true, false},
	};

	for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
		struct xfer_peer *peer = again_start();
		const fi_addr_t to = peer->to;

		peer->to = said[i].two_ways ? FAKE_OTHER : peer->addr;
		assert_false(xfer_peer_spoke(peer));
		xfer_token_count(xfer_token_find(&ep, FAKE_TOKEN(FAKE_NEW)), &said[i].msg);
		assert_int_equal(xfer_peer_spoke(peer), said[i].spoke);
		xfer_peer_expire(peer);
		assert_false(xfer_peer_spoke(peer));
		peer->to = to;
		again_stop(peer);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idle),          cmocka_unit_test(test_removed),
		cmocka_unit_test(test_removed_often), cmocka_unit_test(test_inserted),
		cmocka_unit_test(test_inserted_lost), cmocka_unit_test(test_admitted),
		cmocka_unit_test(test_spoke),         cmocka_unit_test(test_inserted_removed),
	};
	static const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
	};

	return unit_main(argc, argv, &unit);
}
