/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Greetings of strangers, whom the application has not inserted: they are let in, but not without end. */
#include "unit_hello.h"

#include <netinet/in.h>

#include <rdma/fi_errno.h>

#include "proto/proto_state.h"
#include "xfer/reports.h"

/* It is let in though others have used up what there is for strangers. */
void test_confirmed_among_strangers(void **state)
{
	struct wire_msg answer, confirm;

	open_ep();
	answer = answered();
	hello_ep.quirks |= QUIRK_STALLS;
	fake.stranger = true;
	for (size_t i = 0; i < 1000; i++)
		hear(greeting(WIRE_ASKS, 0));
	confirm = greeting(WIRE_CONFIRMS | WIRE_SIDE, answer.grant);
	confirm.payload = "aside";
	confirm.payload_len = 5;
	hear(confirm);
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_KNOWN);
	close_ep();
}

/* Whoever confirms again and again makes no room for strangers. */
void test_confirmed_again(void **state)
{
	struct wire_msg answer;

	open_ep();
	fake.stranger = true;
	answer = answered();
	answered();
	fake.stranger = false;
	assert_int_equal(hello_ep.proto->strangers, 2);
	for (int i = 0; i < 2; i++) {
		hear(greeting(WIRE_CONFIRMS, answer.grant));
		assert_int_equal(hello_ep.proto->strangers, 1);
	}
	close_ep();
}

/* Whoever names endless others is not answered without end. */
void test_strangers(void **state)
{
	size_t told, most = 100000;

	open_ep();
	fake.stranger = true;
	for (size_t i = 0; i < most; i++) {
		hear(greeting(WIRE_ASKS, 0));
		if (i % 1000)
			continue;
		told = sent_count();
		while (fake.count) {
			const struct fake_op op = fake_take(0);

			if (op.kind == FAKE_SEND)
				xfer_take(&fake_cq, &(struct core_comp){.context = op.context},
					  NULL);
		}
		assert_in_range(told, 0, 1000);
	}
	assert_in_range(fake.sent[FAKE_NEW], 1, 1000);
	assert_int_equal(HASH_COUNT(hello_ep.peers), FAKE_KNOWN);
	close_ep();
}

/*
 * Whoever has itself lost, or says that it speaks another version, and confirms again, has nobody more let in by
 * that: neither those that it names beside itself nor others that it names.
 */
void test_strangers_of_lost(void **state)
{
	struct wire_msg confirm, leave;
	unsigned int let_in = 0;

	for (int dies = 0; dies <= 1; dies++) {
		open_ep();
		confirm = greeting(WIRE_CONFIRMS | WIRE_SIDE, answered().grant);
		confirm.payload = "aside";
		confirm.payload_len = 5;
		leave = greeting(0, confirm.token);
		leave.oldest = leave.newest = WIRE_VERSION + !dies;
		leave.epoch = dies;
		hello_ep.quirks |= QUIRK_STALLS;
		fake.stranger = true;
		for (int i = 0; i < 1000; i++) {
			hear(confirm);
			let_in += state_of(FAKE_NEW) == XFER_PEER_KNOWN;
			hear(leave);
			hear(greeting(WIRE_ASKS, 0));
		}
		assert_in_range(let_in, 1, 300);
		let_in = 0;
		close_ep();
	}
}

/* Whoever names an endpoint of another host beside itself is neither answered nor let in. */
void test_aside_elsewhere(void **state)
{
	const struct sockaddr_in self = {.sin_family = AF_INET, .sin_port = htons(1)};
	struct sockaddr_in aside = {.sin_family = AF_INET, .sin_port = htons(2)};
	struct wire_msg ask = greeting(WIRE_ASKS | WIRE_SIDE, 0), answer, confirm;

	for (int elsewhere = 0; elsewhere <= 1; elsewhere++) {
		open_ep();
		ask.name = &self;
		ask.name_len = sizeof self;
		ask.payload = &aside;
		ask.payload_len = sizeof aside;
		hear(ask);
		assert_true(sent(0, &answer));
		confirm = ask;
		confirm.flags = WIRE_CONFIRMS | WIRE_SIDE;
		confirm.token = answer.grant;
		hello_ep.quirks = QUIRK_STALLS | QUIRK_DIRECTED;
		aside.sin_addr.s_addr = htonl(INADDR_LOOPBACK * (unsigned int) elsewhere);
		hear(ask);
		assert_int_equal(sent_count(), elsewhere ? 1 : 2);
		hear(confirm);
		assert_int_equal(state_of(FAKE_NEW),
				 elsewhere ? XFER_PEER_NEW : XFER_PEER_KNOWN);
		close_ep();
	}
}

/* Who is known and then says that it speaks another version holds nothing any more, and is not watched. */
void test_known_differs(void **state)
{
	const struct wire_msg announce = {.type = WIRE_ANNOUNCE,
					  .len = 100000,
					  .chunk = 65536,
					  .id = 1};
	struct wire_msg msg;
	uint64_t token;

	open_ep();
	token = answered().grant;
	hear(greeting(WIRE_CONFIRMS, token));
	msg = announce;
	msg.token = token;
	hear(msg);
	assert_int_equal(fake_xfer.open, 1);
	msg = greeting(0, token);
	msg.oldest = msg.newest = WIRE_VERSION + 1;
	hear(msg);
	assert_int_equal(state_of(FAKE_NEW), XFER_PEER_FOREIGN);
	assert_int_equal(fake_xfer.open, 0);
	assert_true(LIST_EMPTY(&fake_xfer.busy_peers));
	close_ep();
}

/* It was forgotten amid a message, which ends with what it says. Its record is there all the same. */
void test_forgotten_dies(void **state)
{
	struct wire_msg msg = {.type = WIRE_ANNOUNCE, .len = 100000, .chunk = 65536, .id = 1};
	uint64_t token;

	for (int dies = 0; dies <= 1; dies++) {
		open_ep();
		token = answered().grant;
		hear(greeting(WIRE_CONFIRMS, token));
		msg.token = token;
		hear(msg);
		p2p_lock_take(&fake_xfer.lock);
		assert_true(xfer_peer_forget(&hello_ep, FAKE_NEW));
		p2p_lock_drop(&fake_xfer.lock);
		assert_int_equal(fake_xfer.open, 1);
		msg = greeting(0, token);
		msg.epoch = dies;
		msg.oldest = msg.newest = WIRE_VERSION + !dies;
		hear(msg);
		assert_int_equal(fake_xfer.open, 0);
		p2p_lock_take(&fake_xfer.lock);
		assert_non_null(xfer_peer_find(&hello_ep, FAKE_NEW));
		p2p_lock_drop(&fake_xfer.lock);
		close_ep();
		msg = (struct wire_msg){.type = WIRE_ANNOUNCE,
					.len = 100000,
					.chunk = 65536,
					.id = 1};
	}
}
