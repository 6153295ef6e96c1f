/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of ctrl.c: which control messages go several in one of the core's, in what order, and when.
 */
#include "unit_fake_core.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "xfer/ctrl.h"
#include "xfer/life.h"
#include "xfer/progress.h"
#include "xfer/reports.h"
#include "xfer/sendq.h"

static struct xfer_ep ep;

static void start(void)
{
	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	ep.tag_bit = FAKE_TAG_BIT;
}

static void stop(void)
{
	fake_ep_close(&ep);
	assert_int_equal(fake_xfer.cells.used, 0);
	assert_int_equal(fake_xfer.busy, 0);
	fake_stop();
}

/* One of those that others follow, number @id, with @len bytes that depend on it */
static void ask(fi_addr_t addr, uint64_t id, size_t len)
{
	static uint8_t payload[WIRE_PAYLOAD_MAX];
	struct wire_msg msg = {
		.type = WIRE_CALL,
		.op = FI_ATOMIC_WRITE,
		.id = id,
		.len = len,
		.front = true,
		.among = true,
	};

	memset(payload, (int) id, len);
	msg.payload = payload;
	msg.payload_len = len;
	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(ctrl_tell(xfer_peer_get(&ep, addr), &msg), 0);
	p2p_lock_drop(&fake_xfer.lock);
}

/* Any other one */
static void tell(fi_addr_t addr, uint64_t id)
{
	struct wire_msg msg = {.type = WIRE_DONE, .to_sender = true, .id = id};

	p2p_lock_take(&fake_xfer.lock);
	assert_int_equal(ctrl_tell(xfer_peer_get(&ep, addr), &msg), 0);
	p2p_lock_drop(&fake_xfer.lock);
}

/* Is the next one that the core was given for sending the messages @first to @last? It has ended now. */
static void sent(uint64_t first, uint64_t last)
{
	struct wire_msg msg;
	struct fake_op op;
	const char *why;
	size_t i = 0, at = 0;

	while (i < fake.count && fake.held[i].kind != FAKE_SEND)
		i++;
	op = fake_take(i);
	for (uint64_t id = first; id <= last; id++, at += msg.size) {
		assert_int_equal(wire_decode(op.text + at, op.text_len - at, &msg, &why), 0);
		assert_int_equal(msg.id, id);
		for (size_t k = 0; k < msg.payload_len; k++)
			assert_int_equal(((const uint8_t *) msg.payload)[k], (uint8_t) id);
	}
	assert_int_equal(at, op.text_len);
	xfer_take(&fake_cq, &(struct core_comp){.context = op.context}, NULL);
}

static size_t sends(void)
{
	size_t count = 0;

	for (size_t i = 0; i < fake.count; i++)
		count += fake.held[i].kind == FAKE_SEND;
	return count;
}

/* One alone goes at once. Those behind it go together, in the next pass, and another kind not among them. */
static void test_together(void **state)
{
	start();
	ask(FAKE_ALIVE, 1, 8);
	assert_int_equal(sends(), 1);
	ask(FAKE_ALIVE, 2, 8);
	ask(FAKE_ALIVE, 3, 1);
	ask(FAKE_ALIVE, 4, 13);
	assert_int_equal(sends(), 1);
	p2p_lock_take(&fake_xfer.lock);
	assert_true(ctrl_unsent(&ep.front, FAKE_ALIVE));
	p2p_lock_drop(&fake_xfer.lock);
	xfer_progress(&fake_xfer);
	assert_int_equal(sends(), 2);
	sent(1, 1);
	sent(2, 4);
	/* that has ended: again one alone */
	ask(FAKE_ALIVE, 5, 8);
	sent(5, 5);
	ask(FAKE_ALIVE, 6, 8);
	ask(FAKE_ALIVE, 7, 8);
	tell(FAKE_ALIVE, 8);
	assert_int_equal(sends(), 3);
	sent(6, 6);
	sent(7, 7);
	sent(8, 8);
	stop();
}

/* So many as fit. What is for somebody else, or long, goes by itself, behind what was before it. */
static void test_apart(void **state)
{
	uint64_t id = 1;

	start();
	while (sends() < 2)
		ask(FAKE_ALIVE, id++, 100);
	assert_int_equal(id, 13);
	ask(FAKE_OTHER, 90, 8);
	assert_int_equal(sends(), 3);
	ask(FAKE_ALIVE, 91, 8);
	assert_int_equal(sends(), 4);
	ask(FAKE_ALIVE, 92, WIRE_PAYLOAD_MAX / 2);
	assert_int_equal(sends(), 6);
	sent(1, 1);
	sent(2, id - 2);
	sent(id - 1, id - 1);
	sent(90, 90);
	sent(91, 91);
	stop();
}

/* The core has no room: they go when it has. A peer that is lost gets none of them. */
static void test_no_room(void **state)
{
	start();
	fake.no_internal = true;
	for (uint64_t id = 1; id < 4; id++)
		ask(FAKE_ALIVE, id, 8);
	xfer_progress(&fake_xfer);
	assert_int_equal(sends(), 0);
	fake.no_internal = false;
	xfer_progress(&fake_xfer);
	sent(1, 1);
	sent(2, 3);
	ask(FAKE_DEAD, 4, 8);
	ask(FAKE_DEAD, 5, 8);
	p2p_lock_take(&fake_xfer.lock);
	fake_xfer.losing = true;
	xfer_outq_fail(&ep.front, FAKE_DEAD, -FI_ECONNRESET);
	assert_false(ctrl_unsent(&ep.front, FAKE_DEAD));
	p2p_lock_drop(&fake_xfer.lock);
	stop();
}

/* A close hands the core what waits for others. */
static void test_close(void **state)
{
	start();
	ask(FAKE_ALIVE, 1, 8);
	ask(FAKE_ALIVE, 2, 8);
	assert_int_equal(fake.sent[FAKE_ALIVE], 1);
	fake_ep_close(&ep);
	assert_int_equal(fake.sent[FAKE_ALIVE], 2);
	assert_int_equal(fake_xfer.cells.used, 0);
	fake_stop();
}

/*
 * So many messages wait in the core for receives. It gives out all of one sender's before the other's. @among: with as many
 * completions of the application's as a read has room for
 */
static unsigned int waiting[FAKE_PEERS];
static bool among;
/* The one sender asks for answers, and sends a message for each that it gets */
static bool goes_on;

/* How many messages has it been sent with one of the core's? */
static unsigned int answers(const struct fake_op *op)
{
	unsigned int count = 0;
	struct wire_msg msg;
	const char *why;

	for (size_t at = 0; at < op->text_len; at += msg.size, count++)
		assert_int_equal(wire_decode(op->text + at, op->text_len - at, &msg, &why), 0);
	return count;
}

static ssize_t read_waiting(struct fid_cq *cq, void *buf, size_t count)
{
	struct fi_cq_tagged_entry *entries = buf;
	size_t receives, read = 0;
	struct fake_op sent;

	for (size_t i = 0; goes_on && i < fake.count && read < count;) {
		if (fake.held[i].kind != FAKE_SEND) {
			i++;
			continue;
		}
		sent = fake_take(i);
		waiting[FAKE_ALIVE] += answers(&sent);
		entries[read++] = (struct fi_cq_tagged_entry){
			.op_context = sent.context,
			.flags = FI_SEND,
		};
	}
	receives = fake.count;
	while (receives-- && (waiting[FAKE_ALIVE] || waiting[FAKE_OTHER])) {
		const fi_addr_t from = waiting[FAKE_ALIVE] ? FAKE_ALIVE : FAKE_OTHER;
		const struct fake_op op = fake_take(0);
		const struct wire_msg msg = {
			.type = WIRE_PROBE,
			.flags = goes_on && from == FAKE_ALIVE ? WIRE_ASKS : 0,
			.token = FAKE_TOKEN(from),
		};

		assert_int_equal(op.kind, FAKE_RECV);
		waiting[from]--;
		entries[read++] = (struct fi_cq_tagged_entry){
			.op_context = op.context,
			.flags = FI_RECV | FI_TAGGED,
			.len = wire_encode(&msg, op.buf),
		};
	}
	while (among && read && read < count)
		entries[read++] = (struct fi_cq_tagged_entry){.flags = FI_SEND};
	return read ? (ssize_t) read : -FI_EAGAIN;
}

static struct fi_ops_cq *start_crowd(unsigned int alive, unsigned int other)
{
	static struct fi_ops_cq ops = {.size = sizeof ops, .read = read_waiting};
	struct fi_ops_cq *before;

	start();
	before = fake_cq.core->ops;
	fake_cq.core->ops = &ops;
	p2p_lock_take(&fake_xfer.lock);
	ep.front.inbox.wanted = 0;
	ctrl_listen(&ep.front);
	p2p_lock_drop(&fake_xfer.lock);
	waiting[FAKE_ALIVE] = alive;
	waiting[FAKE_OTHER] = other;
	return before;
}

/* One that has as many messages under way as it may does not keep others from being heard. */
static void test_crowd(void **state)
{
	struct fi_ops_cq *before = start_crowd(XFER_PEER_SENDS, 1);

	xfer_progress(&fake_xfer);
	assert_int_equal(waiting[FAKE_ALIVE], 0);
	assert_int_equal(waiting[FAKE_OTHER], 0);
	fake_cq.core->ops = before;
	stop();
}

/* Nor does one that sends another for each that is answered. */
static void test_crowd_goes_on(void **state)
{
	struct fi_ops_cq *before = start_crowd(XFER_PEER_SENDS, 1);

	goes_on = true;
	xfer_progress(&fake_xfer);
	assert_int_equal(waiting[FAKE_OTHER], 0);
	goes_on = false;
	fake_cq.core->ops = before;
	stop();
}

/* The application does not read what comes with them: what there is no room for stays in the core. */
static void test_crowd_unread(void **state)
{
	struct fi_ops_cq *before = start_crowd(4 * XFER_PEER_SENDS, 0);
	const uint32_t others = CELL_COUNT - CELL_SPARE - 64;
	struct core_comp comp;

	fake_xfer.cells.touched += others;
	fake_xfer.cells.used += others;
	for (among = true; waiting[FAKE_ALIVE];) {
		xfer_progress(&fake_xfer);
		assert_int_equal(fake_cq.failed, 0);
		while (xfer_cq_next(&fake_cq, false, &comp) == 1)
			assert_int_equal(comp.flags, FI_SEND);
	}
	among = false;
	fake_xfer.cells.used -= others;
	fake_cq.core->ops = before;
	stop();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_together),      cmocka_unit_test(test_apart),
		cmocka_unit_test(test_no_room),       cmocka_unit_test(test_close),
		cmocka_unit_test(test_crowd),         cmocka_unit_test(test_crowd_unread),
		cmocka_unit_test(test_crowd_goes_on),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
