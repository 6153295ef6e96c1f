/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of hello.c and peer.c, over a core provider made up in the test: who is believed, who is
 * answered, and how much one peer may have under way.
 */
#include "unit_hello.h"
#include "unit_wire_frozen.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/conf.h"
#include "proto/hello.h"
#include "proto/hello_facts.h"
#include "proto/post.h"
#include "proto/proto_state.h"
#include "proto/rndv_match.h"
#include "xfer/ctrl.h"
#include "xfer/life.h"
#include "xfer/progress.h"
#include "xfer/reports.h"
#include "xfer/xfer_proto.h"

/* ---- we ask ---- */

static void test_answered(void **state)
{
	struct wire_msg ask, confirm;

	open_ep();
	ask = greet();
	/* once is enough */
	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	assert_int_equal(sent_count(), 1);
	hear(greeting(WIRE_ANSWERS, ask.grant));
	assert_int_equal(ready(FAKE_NEW), 0);
	assert_int_equal(sent_count(), 2);
	assert_true(sent(0, &confirm));
	assert_int_equal(confirm.flags & WIRE_CONFIRMS, WIRE_CONFIRMS);
	assert_int_equal(confirm.token, GRANT);
	/* the number of the question was for its answer alone */
	assert_int_not_equal(confirm.grant, ask.grant);
	hear((struct wire_msg){.type = WIRE_PROBE, .flags = WIRE_ASKS, .token = ask.grant});
	assert_int_equal(sent_count(), 2);
	hear((struct wire_msg){.type = WIRE_PROBE, .flags = WIRE_ASKS, .token = confirm.grant});
	assert_int_equal(sent_count(), 3);
	close_ep();
}

/* Two that greet each other have one token each, and so has who answers again or confirms again. */
static void test_crossed(void **state)
{
	struct wire_msg ask, answer, again;

	open_ep();
	ask = greet();
	answer = answered();
	hear(greeting(WIRE_ANSWERS, ask.grant));
	assert_true(sent(0, &again));
	assert_int_equal(again.grant, answer.grant);
	hear(greeting(WIRE_CONFIRMS, answer.grant));
	assert_int_equal(answered().grant, answer.grant);
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_KNOWN);
	assert_int_equal(fake_xfer.wrong, 0);
	close_ep();
}

/* An endpoint that has no lanes says so, and is not told of the peer's by an answer to nothing. */
static void test_no_lanes(void **state)
{
	static const uint8_t names[32] = {2};
	struct wire_msg said = {
		.type = WIRE_LANES,
		.flags = WIRE_ANSWERS,
		.count = 8,
	};
	struct wire_msg answer;

	open_ep();
	hear(greeting(WIRE_ANSWERS | WIRE_MAY_LANES, greet().grant));
	assert_int_equal(sent_count(), 2);
	assert_true(sent(0, &answer));
	said.token = answer.grant;
	hear(said);
	assert_int_equal(sent_count(), 2);
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(xfer_peer_get(&hello_ep, FAKE_NEW)->lanes->heard[0], 0);
	p2p_lock_drop(&fake_xfer.lock);
	said.flags = WIRE_ASKS;
	said.count = 2;
	said.payload = names;
	said.payload_len = sizeof names;
	hear(said);
	assert_int_equal(sent_count(), 3);
	assert_true(sent(0, &answer));
	assert_int_equal(answer.type, WIRE_LANES);
	assert_int_equal(answer.flags, WIRE_ANSWERS);
	assert_int_equal(answer.count, 0);
	close_ep();
}

static void test_forged_answer(void **state)
{
	struct wire_msg ask;

	open_ep();
	ask = greet();
	hear(greeting(WIRE_ANSWERS, ask.grant + 1));
	hear(greeting(WIRE_ANSWERS, 0));
	/* who is known has no say in it */
	hear(greeting(WIRE_ANSWERS, FAKE_TOKEN(FAKE_OTHER)));
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_GREETED);
	assert_int_equal(sent_count(), 1);
	close_ep();
}

/* Who has not answered in time gets whole messages. What only it can answer waits: it may compute. */
static void test_late(void **state)
{
	size_t before = conf.hello_timeout;
	struct wire_msg ask;

	open_ep();
	ask = greet();
	conf.hello_timeout = 0;
	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_FOREIGN);
	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	assert_int_equal(sent_count(), 1);
	hear(greeting(WIRE_ANSWERS, ask.grant));
	assert_int_equal(ready(FAKE_NEW), 0);
	conf.hello_timeout = before;
	close_ep();
}

/* The core does not reach it: that is said once, then it is tried again. */
static void test_unreachable(void **state)
{
	open_ep();
	greet();
	for (size_t i = 0; i < fake.count; i++) {
		if (fake.held[i].kind == FAKE_SEND) {
			const struct fake_op op = fake_take(i);

			xfer_take(&fake_cq,
				  &(struct core_comp){.context = op.context,
						      .err = FI_ECONNREFUSED},
				  NULL);
		}
	}
	assert_int_equal(ready(FAKE_NEW), -FI_ECONNREFUSED);
	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	assert_int_equal(sent_count(), 1);
	close_ep();
}

/* A peer speaks versions that are all later, or earlier */
static void test_versions(void **state)
{
	static const uint16_t versions[][2] = {{WIRE_VERSION + 1, WIRE_VERSION + 2},
					       {WIRE_VERSION_GREETS, WIRE_VERSION_OLDEST - 1}};
	struct wire_msg ask, answer, again;

	for (size_t i = 0; i < UNIT_COUNT(versions); i++) {
		open_ep();
		ask = greet();
		answer = greeting(WIRE_ANSWERS, ask.grant);
		answer.oldest = versions[i][0];
		answer.newest = versions[i][1];
		hear(answer);
		assert_int_equal(state_of(FAKE_NEW), XFER_PEER_FOREIGN);
		/* who asks is told what is spoken here */
		again = greeting(WIRE_ASKS, 0);
		again.oldest = versions[i][0];
		again.newest = versions[i][1];
		hear(again);
		assert_int_equal(sent_count(), 2);
		assert_true(sent(0, &answer));
		assert_int_equal(answer.oldest, WIRE_VERSION_OLDEST);
		assert_int_equal(answer.newest, WIRE_VERSION);
		close_ep();
	}
}

/* Who has not answered may compute, whoever chooses the keys. So it is waited for, unless the user has set a time. */
static void test_hopeless(void **state)
{
	size_t before = conf.hello_timeout;
	struct xfer_peer *peer;

	open_ep();
	fake_xfer.keys_ours = *state != NULL;
	greet();
	conf.hello_timeout = 0;
	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_FOREIGN);
	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	p2p_lock_take(&fake_xfer.lock);
	peer = xfer_peer_find(&hello_ep, FAKE_NEW);
	peer->waited += 3600000;
	p2p_lock_drop(&fake_xfer.lock);
	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	conf.peer_timeout = 30;
	assert_int_equal(ready(FAKE_NEW), -FI_EOPNOTSUPP);
	conf.peer_timeout = 0;
	conf.hello_timeout = before;
	close_ep();
}

/* Nor is who has said that it speaks another version; until it has been started anew. */
static void test_differs(void **state)
{
	struct wire_msg ask, answer;

	open_ep();
	fake_xfer.keys_ours = false;
	ask = greet();
	answer = greeting(WIRE_ANSWERS, ask.grant);
	answer.oldest = answer.newest = WIRE_VERSION + 1;
	hear(answer);
	assert_int_equal(ready(FAKE_NEW), -FI_EOPNOTSUPP);
	hear(greeting(WIRE_ANSWERS, ask.grant));
	assert_int_equal(ready(FAKE_NEW), 0);
	close_ep();
}

/* ---- a peer asks ---- */

static void test_asked(void **state)
{
	struct wire_msg answer;

	open_ep();
	answer = answered();
	/* nothing is remembered, and nothing is believed yet */
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_NEW);
	assert_int_equal(HASH_COUNT(hello_ep.peers), FAKE_KNOWN);
	hear(greeting(WIRE_CONFIRMS, answer.grant));
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_KNOWN);
	assert_int_equal(ready(FAKE_NEW), 0);
	assert_int_equal(fake_xfer.wrong, 0);
	close_ep();
}

/* Who names another as the endpoint, and itself as what is beside it, does not get the answer. */
static void test_aside(void **state)
{
	struct wire_msg ask = greeting(WIRE_ASKS | WIRE_SIDE, 0);

	open_ep();
	ask.payload = "aside";
	ask.payload_len = 5;
	hear(ask);
	assert_int_equal(sent_count(), 1);
	assert_string_equal(fake.asked, NAME);
	/* but where only that can be answered at once */
	hello_ep.quirks = QUIRK_STALLS | QUIRK_DIRECTED;
	hear(ask);
	assert_int_equal(sent_count(), 2);
	assert_string_equal(fake.asked, "aside");
	close_ep();
}

/* Whoever has got the answer tells who is to hear the rest. */
static void test_confirmed_aside(void **state)
{
	struct wire_msg answer, confirm;

	open_ep();
	answer = answered();
	confirm = greeting(WIRE_CONFIRMS | WIRE_SIDE, answer.grant);
	confirm.payload = "aside";
	confirm.payload_len = 5;
	/* not over a core where nobody needs that */
	hear(confirm);
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_KNOWN);
	assert_string_equal(fake.asked, NAME);
	hello_ep.quirks |= QUIRK_STALLS;
	hear(confirm);
	assert_string_equal(fake.asked, "aside");
	close_ep();
}

/*
 * Where a greeting leaves from, of an endpoint with one beside it; and the confirmation goes by both ways, as
 * what it lets in does.
 */
static void test_mouth(void **state)
{
	struct wire_msg ask, confirm;

	for (int shuns = 0; shuns <= 1; shuns++) {
		open_ep();
		fake_side_open(&hello_ep);
		hello_ep.quirks |= shuns ? QUIRK_DIRECTED : 0;
		ask = greet();
		p2p_lock_take(&fake_xfer.lock);
		assert_ptr_equal(xfer_peer_find(&hello_ep, FAKE_NEW)->via,
				 shuns ? &hello_ep.front : &hello_ep.side);
		p2p_lock_drop(&fake_xfer.lock);
		hear(greeting(WIRE_ANSWERS, ask.grant));
		assert_int_equal(sent_count(), 3);
		for (size_t back = 0; back < 2; back++) {
			assert_true(sent(back, &confirm));
			assert_int_equal(confirm.flags & WIRE_CONFIRMS, WIRE_CONFIRMS);
		}
		close_ep();
	}
}

static void test_forged_confirmation(void **state)
{
	struct wire_msg answer, forged;

	open_ep();
	answer = answered();
	hear(greeting(WIRE_CONFIRMS, answer.grant + 1));
	hear(greeting(WIRE_CONFIRMS, FAKE_TOKEN(FAKE_OTHER)));
	forged = greeting(WIRE_CONFIRMS, answer.grant);
	forged.name = "anybody.";
	hear(forged);
	forged = greeting(WIRE_CONFIRMS, answer.grant);
	forged.epoch++;
	hear(forged);
	forged = greeting(WIRE_CONFIRMS, answer.grant);
	forged.process++;
	hear(forged);
	assert_int_equal(fake_xfer.wrong, 5);
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_NEW);
	assert_int_equal(HASH_COUNT(hello_ep.peers), FAKE_KNOWN);
	close_ep();
}

static void progress(void)
{
	while (xfer_cq_progress(&fake_cq))
		;
}

/*
 * Nobody listens where these names lead. They keep no others waiting, and have one answer waiting each, the last one,
 * which does not wait for ever.
 */
static void test_made_up(void **state)
{
	const unsigned int names = 40;
	struct wire_msg answer = greeting(WIRE_ANSWERS, 1);
	unsigned int used;

	open_ep();
	used = fake_xfer.cells.used;
	for (unsigned int i = 0; i < 2 * names; i++) {
		fake.named = FAKE_PEERS + i % names;
		hear(greeting(WIRE_ASKS, 0));
	}
	assert_in_range(fake_xfer.cells.used - used, names, names + 2);
	fake.named = FAKE_NEW;
	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	progress();
	assert_int_equal(sent_count(), 1);
	/* nor do they when they end */
	used = fake_xfer.cells.used;
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(ctrl_answer(&hello_ep.front, FAKE_PEERS, &answer, 100000), 0);
	assert_int_equal(fake_xfer.cells.used, used);
	assert_int_equal(ctrl_answer(&hello_ep.front, FAKE_PEERS + names, &answer, 0), 0);
	p2p_lock_drop(&fake_xfer.lock);
	/* this process may have been held up: so it is tried for a while longer */
	unit_clock_stop();
	for (unsigned int i = 0; i < names; i++)
		progress();
	assert_int_equal(fake_xfer.cells.used, used + 1);
	unit_clock_pass(1000);
	for (unsigned int i = 0; i < names; i++)
		progress();
	assert_int_equal(fake_xfer.cells.used, used);
	unit_clock_run();
	close_ep();
}

/* Is what bears this token heard? It asks for an answer. */
static bool heard(uint64_t token)
{
	const size_t before = sent_count();
	struct wire_msg msg;

	hear((struct wire_msg){.type = WIRE_PROBE, .flags = WIRE_ASKS, .token = token});
	return sent_count() > before && sent(0, &msg) && msg.type == WIRE_PROBE;
}

/*
 * It has been started anew, as another process, or as an endpoint with another port: what was under way with the
 * former one has ended, and the new one is heard.
 */
static void restart(bool process)
{
	char buf[8];
	const struct iovec iov = {buf, sizeof buf};
	const struct fi_rma_iov remote = {.len = sizeof buf, .key = 1};
	const struct p2p_op op = {
		.type = FI_OP_READ,
		.rma.msg_iov = &iov,
		.rma.iov_count = 1,
		.rma.addr = FAKE_NEW,
		.rma.rma_iov = &remote,
		.rma.rma_iov_count = 1,
		.flags = FI_COMPLETION,
	};
	struct wire_msg answer, other;
	struct core_comp comp;

	open_ep();
	answer = answered();
	hear(greeting(WIRE_CONFIRMS, answer.grant));
	assert_int_equal(xfer_post_rma(&hello_ep, &op), 0);
	/* the same one, once more */
	hear(greeting(WIRE_CONFIRMS, answer.grant));
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 0);
	assert_true(heard(answer.grant));
	other = greeting(WIRE_ASKS, 0);
	other.grant++;
	other.process += process;
	other.port += !process;
	hear(other);
	assert_true(sent(0, &other));
	assert_int_equal(other.epoch, 1);
	other = greeting(WIRE_CONFIRMS, other.grant);
	other.epoch = 1;
	other.process += process;
	other.port += !process;
	hear(other);
	assert_int_equal(xfer_cq_next(&fake_cq, true, &comp), 1);
	assert_int_equal(comp.err, FI_ECONNRESET);
	assert_int_equal(ready(FAKE_NEW), 0);
	assert_true(heard(other.token));
	assert_false(heard(answer.grant));
	close_ep();
}

static void test_restart(void **state)
{
	restart(true);
	restart(false);
}

/* Who answers once more, as another process, is not known any more: its token was the former one's. */
static void test_answered_by_another(void **state)
{
	struct wire_msg other;
	uint64_t token;

	open_ep();
	token = meet();
	assert_true(heard(token));
	other = greeting(WIRE_ANSWERS, token);
	other.process++;
	hear(other);
	assert_int_not_equal(state_of(FAKE_NEW), XFER_PEER_KNOWN);
	assert_false(heard(token));
	close_ep();
}

/* ---- messages that the core loses ---- */

/* @front and @side messages have gone before it */
static struct wire_msg probe(uint64_t token, uint32_t front, uint32_t side)
{
	return (struct wire_msg){
		.type = WIRE_PROBE,
		.flags = WIRE_ASKS | WIRE_COUNTS_FRONT | WIRE_COUNTS_SIDE,
		.token = token,
		.transfer = front,
		.count = side,
	};
}

/* A peer tells how much it has sent. It is lost if not all of that has come. */
static void test_missing(void **state)
{
	const struct wire_msg said[] = {
		{.type = WIRE_ANNOUNCE, .len = 100000, .chunk = 65536, .front = true},
		{.type = WIRE_DONE, .to_sender = true, .id = 5},
		{.type = WIRE_DONE, .to_sender = true, .id = 6},
	};
	const uint64_t token = (open_ep(), meet());
	struct wire_msg answer;

	for (size_t i = 0; i < UNIT_COUNT(said); i++) {
		struct wire_msg next = said[i];

		next.token = token;
		hear(next);
	}
	hear(probe(token, 1, 2));
	assert_true(sent(0, &answer));
	assert_int_equal(answer.type, WIRE_PROBE);
	assert_int_equal(answer.flags, WIRE_COUNTS_FRONT | WIRE_COUNTS_SIDE);
	/* one that is older counts nothing, and nobody can say too little */
	hear((struct wire_msg){.type = WIRE_PROBE, .token = token});
	hear(probe(token, 0, 0));
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_KNOWN);
	hear(probe(token, 1, 3));
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_FOREIGN);
	close_ep();
}

/* A process that was held up has not looked: the answer may have come meanwhile. */
static void test_away(void **state)
{
	struct xfer_peer *peer;

	open_ep();
	greet();
	p2p_lock_take(&fake_xfer.lock);
	peer = xfer_peer_find(&hello_ep, FAKE_NEW);
	peer->looked -= 1000000;
	assert_int_equal(hello_state(peer), XFER_PEER_GREETED);
	p2p_lock_drop(&fake_xfer.lock);
	close_ep();
}

/* A question that is not answered is asked twice; an answer that is not confirmed, as far as is heard, too. */
static void test_again(void **state)
{
	const size_t timeout = conf.hello_timeout;
	struct wire_msg ask, again;
	struct xfer_peer *peer;

	open_ep();
	ask = greet();
	p2p_lock_take(&fake_xfer.lock);
	peer = xfer_peer_find(&hello_ep, FAKE_NEW);
	peer->waited += 500 * timeout;
	p2p_lock_drop(&fake_xfer.lock);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
		assert_int_equal(sent_count(), 2);
	}
	assert_true(sent(0, &again));
	assert_int_equal(again.grant, ask.grant);

	hear(greeting(WIRE_ANSWERS, ask.grant));
	p2p_lock_take(&fake_xfer.lock);
	hello_remind(peer);
	p2p_lock_drop(&fake_xfer.lock);
	assert_int_equal(sent_count(), 5);
	assert_true(sent(0, &again));
	hear((struct wire_msg){.type = WIRE_DONE, .to_sender = true, .token = again.grant});
	p2p_lock_take(&fake_xfer.lock);
	hello_remind(peer);
	p2p_lock_drop(&fake_xfer.lock);
	/* it has no port for datagrams: another process may be there by now, and would answer this */
	assert_int_equal(sent_count(), 6);
	ask = again;
	assert_true(sent(0, &again));
	assert_int_equal(again.flags & (WIRE_ASKS | WIRE_CONFIRMS), WIRE_ASKS);
	assert_int_equal(again.grant, ask.grant);
	close_ep();
}

/* ---- others ---- */

/* Nobody is heard without a token. */
static void test_unknown(void **state)
{
	static const struct wire_msg said[] = {
		{.type = WIRE_ANNOUNCE, .len = 100000, .chunk = 65536},
		{.type = WIRE_TAKE, .to_sender = true},
		{.type = WIRE_TAKE, .to_sender = true, .count = 1},
		{.type = WIRE_DONE, .to_sender = true},
		{.type = WIRE_DONE, .status = -1},
		{.type = WIRE_PROBE},
		{.type = WIRE_CALL, .op = FI_ATOMIC_WRITE},
		{.type = WIRE_CALL, .op = FI_ATOMIC_READ, .flags = WIRE_FETCH, .len = 8},
		{.type = WIRE_ANNOUNCE, .to_sender = true, .len = 100000, .chunk = 65536},
	};

	open_ep();
	for (size_t i = 0; i < UNIT_COUNT(said); i++) {
		struct wire_msg msg = said[i];

		msg.id = i;
		hear(msg);
		msg.token = FAKE_TOKEN(FAKE_NEW);
		hear(msg);
		assert_int_equal(fake_xfer.wrong, 2 * (i + 1));
		assert_int_equal(fake_xfer.open, 0);
	}
	assert_int_equal(sent_count(), 0);
	close_ep();
}

/* Announcements without a message, without end: another peer's are heard all the same. */
static void test_bound(void **state)
{
	struct wire_msg msg = {.type = WIRE_ANNOUNCE, .len = 100000, .chunk = 65536};

	open_ep();
	for (size_t i = 0; i < 131000; i++) {
		msg.token = FAKE_TOKEN(FAKE_OTHER);
		msg.id = i;
		hear(msg);
	}
	assert_int_equal(fake_xfer.open, XFER_PEER_USERS);
	assert_int_equal(fake_xfer.wrong, 131000 - XFER_PEER_USERS);
	msg.token = FAKE_TOKEN(FAKE_ALIVE);
	msg.id++;
	hear(msg);
	assert_int_equal(fake_xfer.open, XFER_PEER_USERS + 1);
	assert_false(cell_scarce(&fake_xfer.cells));
	close_ep();
}

/* ---- version 7 ---- */

/* A message of version 7 comes, from who is named */
static void hear_old(uint8_t type, uint64_t id)
{
	enum { HEAD = 56, TARGET = 24, AT_NAME_LEN = 52, AT_SIZE = 54 };
	unsigned char buf[HEAD + TARGET + sizeof NAME] = {0x70, 0x32, 0x50, 0x66, 7};
	struct wire_msg msg;
	const char *why;

	buf[5] = type;
	for (int i = 0; i < 8; i++)
		buf[8 + i] = (unsigned char) (id >> 8 * i);
	buf[AT_NAME_LEN] = sizeof NAME;
	buf[AT_SIZE] = sizeof buf;
	memcpy(buf + HEAD + TARGET, NAME, sizeof NAME);
	assert_int_equal(wire_decode(buf, sizeof buf, &msg, &why), -FI_EOPNOTSUPP);
	p2p_lock_take(&fake_xfer.lock);
	XFER_PROTO_EACH(&fake_xfer, unheard, &hello_ep, NULL, &msg);
	p2p_lock_drop(&fake_xfer.lock);
}

/* The core has sent all that it had. Returns how much that was */
static size_t flush(void)
{
	size_t count = 0;

	for (size_t i = fake.count; i--;) {
		if (fake.held[i].kind != FAKE_SEND)
			continue;
		const struct fake_op op = fake_take(i);

		xfer_take(&fake_cq, &(struct core_comp){.context = op.context}, NULL);
		count++;
	}
	return count;
}

/* Who asks for something is told that it cannot be, in its own words; who does not is told nothing. */
static void test_old(void **state)
{
	static const uint8_t asks[] = {OLD_ANNOUNCE, OLD_WRITE, OLD_READ, OLD_ATOMIC};
	static const uint8_t others[] = {OLD_CTS,   OLD_CREDIT, OLD_FIN,    OLD_ABORT,
					 OLD_PROBE, OLD_SUPPLY, OLD_RESULT, OLD_HELLO};
	uint8_t bytes[WIRE_MSG_MAX];
	struct wire_msg refusal;
	const struct fake_op *last;

	open_ep();
	for (size_t i = 0; i < UNIT_COUNT(asks); i++) {
		const struct wire_msg msg = {.type = asks[i], .id = 70 + i};

		hear_old(asks[i], msg.id);
		last = &fake.held[fake.count - 1];
		assert_int_equal(last->kind, FAKE_SEND);
		refusal = wire_refusal(&msg);
		assert_int_equal(last->text_len, wire_encode(&refusal, bytes));
		assert_memory_equal(last->text, bytes, last->text_len);
		assert_int_equal(flush(), 1);
	}
	for (size_t i = 0; i < UNIT_COUNT(others); i++)
		hear_old(others[i], i);
	assert_int_equal(flush(), 0);
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_NEW);
	close_ep();
}

static int status;

static void note_status(struct xfer_arrival *arrival)
{
	status = arrival->status;
	rndv_arrival_free(arrival, &fake_xfer);
}

/* What its marker matches fails, whichever comes first. */
static void test_old_marker(void **state)
{
	struct xfer_arrival *arrival;
	int err;

	open_ep();
	for (uint64_t id = 1; id <= 2; id++) {
		status = 0;
		if (id == 1)
			hear_old(OLD_ANNOUNCE, id);
		p2p_lock_take(&fake_xfer.lock);
		arrival = rndv_arrival_claim(&fake_xfer, id, note_status, &err);
		assert_non_null(arrival);
		rndv_arrival_check(arrival, &hello_ep);
		p2p_lock_drop(&fake_xfer.lock);
		if (id == 2) {
			assert_int_equal(status, 0);
			hear_old(OLD_ANNOUNCE, id);
		}
		assert_int_equal(status, -FI_EOPNOTSUPP);
	}
	assert_int_equal(fake_xfer.open, 0);
	flush();
	close_ep();
}

/* Nobody knows who sends it, and anybody can: without end it costs neither memory nor answers. */
static void test_old_bound(void **state)
{
	size_t told = 0;

	open_ep();
	for (size_t i = 0; i < 131000; i++) {
		hear_old(OLD_ANNOUNCE, i);
		told += i % 1000 ? 0 : flush();
	}
	assert_int_equal(fake_xfer.open, 0);
	told += flush();
	assert_in_range(told, 1000, 10000);
	close_ep();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answered),
		cmocka_unit_test(test_crossed),
		cmocka_unit_test(test_no_lanes),
		cmocka_unit_test(test_short_offers),
		cmocka_unit_test(test_forged_answer),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_hopeless),
		cmocka_unit_test_prestate(test_hopeless, "keys of ours"),
		cmocka_unit_test(test_differs),
		cmocka_unit_test(test_asked),
		cmocka_unit_test(test_aside),
		cmocka_unit_test(test_confirmed_again),
		cmocka_unit_test(test_confirmed_aside),
		cmocka_unit_test(test_confirmed_among_strangers),
		cmocka_unit_test(test_mouth),
		cmocka_unit_test(test_forged_confirmation),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_strangers_of_lost),
		cmocka_unit_test(test_aside_elsewhere),
		cmocka_unit_test(test_known_differs),
		cmocka_unit_test(test_forgotten_dies),
		cmocka_unit_test(test_made_up),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_answered_by_another),
		cmocka_unit_test(test_away),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_reset_of_lost),
		cmocka_unit_test(test_asked_anew),
		cmocka_unit_test(test_doubts),
		cmocka_unit_test(test_bearer_told),
		cmocka_unit_test(test_old_confirmation),
		cmocka_unit_test(test_renewed),
		cmocka_unit_test(test_marker_alone),
		cmocka_unit_test(test_ended_unheard),
		cmocka_unit_test(test_unsent_aside),
		cmocka_unit_test(test_owed),
		cmocka_unit_test(test_old),
		cmocka_unit_test(test_old_marker),
		cmocka_unit_test(test_old_bound),
		cmocka_unit_test(test_note_given_up),
		cmocka_unit_test(test_note_stale),
		cmocka_unit_test(test_note_of_nobody),
		cmocka_unit_test(test_note_untracked),
		cmocka_unit_test(test_board_late),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
