/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See unit_hello.h. */
#include "unit_hello.h"

#include <rdma/fi_errno.h>

#include "proto/hello.h"
#include "xfer/ctrl.h"
#include "xfer/reports.h"

struct xfer_ep hello_ep;

/* As the peer knows it */
static uint64_t epoch;

void open_ep(void)
{
	epoch = 0;
	fake_start(false);
	fake_ep_open(&hello_ep, &fake_cq);
	hello_ep.tag_bit = FAKE_TAG_BIT;
	fake.named = FAKE_NEW;
	fake_xfer.keys_ours = true;
}

void close_ep(void)
{
	struct core_comp comp;

	fake_ep_close(&hello_ep);
	while (xfer_cq_next(&fake_cq, false, &comp) == 1 ||
	       xfer_cq_next(&fake_cq, true, &comp) == 1)
		;
	assert_int_equal(fake_xfer.cells.used, 0);
	fake_stop();
}

int ready(fi_addr_t addr)
{
	int ret;

	p2p_lock_take(&fake_xfer.lock);
	ret = hello_ready(&hello_ep, addr);
	p2p_lock_drop(&fake_xfer.lock);
	return ret;
}

enum xfer_peer_state state_of(fi_addr_t addr)
{
	const struct xfer_peer *peer;

	p2p_lock_take(&fake_xfer.lock);
	peer = xfer_peer_find(&hello_ep, addr);
	p2p_lock_drop(&fake_xfer.lock);
	return peer ? peer->state : XFER_PEER_NEW;
}

bool sent(size_t back, struct wire_msg *msg)
{
	const char *why;

	for (size_t i = fake.count; i--;) {
		if (fake.held[i].kind != FAKE_SEND || !fake.held[i].text_len || back--)
			continue;
		assert_int_equal(wire_decode(fake.held[i].text, fake.held[i].text_len, msg,
					     &why),
				 0);
		return true;
	}
	return false;
}

size_t sent_count(void)
{
	struct wire_msg msg;
	size_t count = 0;

	while (sent(count, &msg))
		count++;
	return count;
}

void hear(struct wire_msg msg)
{
	char buf[WIRE_MSG_MAX];
	struct wire_msg decoded;
	const char *why = "";
	size_t len = wire_encode(&msg, buf);

	if (wire_decode(buf, len, &decoded, &why))
		fail_msg("%s", why);
	p2p_lock_take(&fake_xfer.lock);
	ctrl_dispatch(&hello_ep, &decoded);
	p2p_lock_drop(&fake_xfer.lock);
}

struct wire_msg greeting(uint32_t flags, uint64_t token)
{
	return (struct wire_msg){
		.type = WIRE_HELLO,
		.flags = flags,
		.token = token,
		.grant = GRANT,
		.epoch = epoch,
		.process = PROCESS,
		.oldest = WIRE_VERSION_OLDEST,
		.newest = WIRE_VERSION,
		.name = NAME,
		.name_len = sizeof NAME,
	};
}

struct wire_msg greet(void)
{
	struct wire_msg ask;

	assert_int_equal(ready(FAKE_NEW), -FI_EAGAIN);
	assert_true(sent(0, &ask));
	assert_int_equal(ask.type, WIRE_HELLO);
	assert_int_equal(ask.flags & ~WIRE_SIDE, WIRE_ASKS);
	assert_int_equal(ask.flags & WIRE_SIDE,
			 hello_ep.quirks & QUIRK_DIRECTED ? WIRE_SIDE : 0);
	assert_int_equal(ask.token, 0);
	assert_int_not_equal(ask.grant, 0);
	epoch = ask.epoch;
	return ask;
}

uint64_t meet(void)
{
	struct wire_msg confirm;

	hear(greeting(WIRE_ANSWERS, greet().grant));
	assert_true(sent(0, &confirm));
	assert_int_equal(confirm.type, WIRE_HELLO);
	assert_int_equal(confirm.flags & (WIRE_ASKS | WIRE_CONFIRMS), WIRE_CONFIRMS);
	return confirm.grant;
}

struct wire_msg answered(void)
{
	struct wire_msg answer;

	hear(greeting(WIRE_ASKS, 0));
	assert_true(sent(0, &answer));
	assert_int_equal(answer.flags & WIRE_ANSWERS, WIRE_ANSWERS);
	assert_int_equal(answer.token, GRANT);
	epoch = answer.epoch;
	return answer;
}
