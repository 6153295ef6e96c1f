/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is asked of a core and of its model. See conform.h. */
#include "conform.h"

/* ---- endpoints ---- */

#define MUST(call)                                                                             \
	do {                                                                                   \
		const int must = (int) (call);                                                 \
		if (must) {                                                                    \
			fprintf(stderr, "%s: %s\n", #call, fi_strerror(-must));                \
			exit(2);                                                               \
		}                                                                              \
	} while (0)

void player_open(struct player *player, struct fid_fabric *fabric, struct fi_info *info)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 4 * IDS};
	struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC};
	struct fid_domain *domain;

	player->rooms = calloc(17, ROOM);
	MUST(fi_domain(fabric, info, &domain, NULL));
	MUST(fi_av_open(domain, &av_attr, &player->av, NULL));
	MUST(fi_cq_open(domain, &cq_attr, &player->cq, NULL));
	MUST(fi_endpoint(domain, info, &player->ep, NULL));
	MUST(fi_ep_bind(player->ep, &player->av->fid, 0));
	MUST(fi_ep_bind(player->ep, &player->cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_enable(player->ep));
}

static struct answer player_read(struct player *player)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {.op_context = NULL};
	struct answer answer = {.ret = fi_cq_read(player->cq, &entry, 1)};
	const void *context = entry.op_context;

	if (answer.ret == -FI_EAVAIL && fi_cq_readerr(player->cq, &error, 0) == 1) {
		context = error.op_context;
		answer.err = error.err;
		answer.len = error.len;
		answer.ret = 1;
	} else if (answer.ret == 1) {
		answer.len = entry.len;
	}
	if (answer.ret == 1)
		answer.id = (unsigned int) ((const struct fi_context2 *) context -
					    player->contexts);
	return answer;
}

static ssize_t player_peek(struct player *player, const struct call *call)
{
	const struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC,
					  .tag = call->tag,
					  .context = &player->contexts[call->id]};

	return fi_trecvmsg(player->ep, &msg, FI_PEEK | FI_COMPLETION);
}

struct answer player_call(struct player *player, const struct call *call)
{
	void *context = &player->contexts[call->id];
	uint8_t *room = player->rooms + (call->id < 16 ? call->id + 1 : 0) * ROOM;

	switch (call->kind) {
	case CALL_SEND:
		return (struct answer){.ret = fi_tsend(player->ep, player->rooms, call->len,
						       NULL, player->peer, call->tag, context)};
	case CALL_RECV:
		return (struct answer){.ret = fi_trecv(player->ep, room, call->len, NULL,
						       FI_ADDR_UNSPEC, call->tag, 0, context)};
	case CALL_CANCEL:
		return (struct answer){.ret = fi_cancel(&player->ep->fid, context)};
	case CALL_PEEK:
		return (struct answer){.ret = player_peek(player, call)};
	default:
		return player_read(player);
	}
}

/* ---- calls, and what they lead to ---- */

/* What has ended: by side and id */
static struct answer ended[2][IDS];
static unsigned int last_id[2], order;
static unsigned int ended_at[2][IDS];

static void look(unsigned int side)
{
	const struct answer answer = side_call(side, &(struct call){.kind = CALL_READ});

	if (answer.ret != 1 || answer.id >= IDS)
		return;
	ended[side][answer.id] = answer;
	ended_at[side][answer.id] = ++order;
}

/* Sends have ids from 16 on, receives those below */
static unsigned int new_id(unsigned int side, enum call_kind kind)
{
	unsigned int id =
		kind == CALL_SEND ? 16 + last_id[side]++ % (IDS - 16) : last_id[side]++ % 16;

	ended[side][id].ret = 0;
	return id;
}

static bool is_over(unsigned int side, unsigned int id)
{
	return ended[side][id].ret == 1;
}

/* Until it ends at @side; @idle: side 1 does nothing meanwhile. False: it does not */
static bool ends(unsigned int side, unsigned int id, bool idle, bool expects)
{
	wait_begin();
	while (!is_over(side, id) && !wait_over(expects)) {
		look(0);
		if (!idle)
			look(1);
	}
	return is_over(side, id);
}

/* Posts it; where the core says -FI_EAGAIN, again, while both sides look. Its id */
static unsigned int post(unsigned int side, enum call_kind kind, uint64_t tag, size_t len)
{
	const struct call call = {kind, new_id(side, kind), tag, len};

	wait_begin();
	while (side_call(side, &call).ret == -FI_EAGAIN && !wait_over(true)) {
		look(0);
		look(1);
	}
	return call.id;
}

static void tell(const char *question, long number)
{
	printf("%s: %ld\n", question, number);
	fflush(stdout);
}

static bool expects(const char *question)
{
	long number;

	return !expected(question, &number) || number;
}

/* What is left of a question ends */
static void pass(unsigned int sent, unsigned int received)
{
	if (!ends(1, received, false, true) || !ends(0, sent, false, true))
		tell("a message that has not ended", 1);
}

/* ---- the questions ---- */

/* Also: does it go once this side has looked, or only once the peer has? */
static void ask_first(void)
{
	static const char *const question = "a first post is taken before the peer looks";
	struct call call = {CALL_SEND, new_id(0, CALL_SEND), 1, 16};
	ssize_t ret = side_call(0, &call).ret;
	unsigned int received;

	tell("a first post says -FI_EAGAIN", ret == -FI_EAGAIN);
	wait_begin();
	while (ret == -FI_EAGAIN && !wait_over(expects(question))) {
		look(0);
		ret = side_call(0, &call).ret;
	}
	tell(question, !ret);
	if (ret)
		call.id = post(0, CALL_SEND, 1, 16);
	received = post(1, CALL_RECV, 1, 16);
	pass(call.id, received);
}

static void ask_sent(size_t len)
{
	unsigned int sent, received;
	char question[80];

	snprintf(question, sizeof question, "%zu bytes are sent before the peer looks", len);
	sent = post(0, CALL_SEND, 1, len);
	tell(question, ends(0, sent, true, expects(question)));
	received = post(1, CALL_RECV, 1, len);
	pass(sent, received);
}

/* Does a message arrive behind @count of @len without a receive? */
static void ask_behind(unsigned int count, size_t len)
{
	unsigned int sent[80], last, received;
	char question[80];

	snprintf(question, sizeof question,
		 "a message arrives behind %u of %zu without a receive", count, len);
	for (unsigned int i = 0; i < count; i++)
		sent[i] = post(0, CALL_SEND, 1, len);
	last = post(0, CALL_SEND, 2, 16);
	received = post(1, CALL_RECV, 2, 16);
	tell(question, ends(1, received, false, expects(question)));
	for (unsigned int i = 0; i < count; i++)
		pass(sent[i], post(1, CALL_RECV, 1, len));
	pass(last, received);
}

static void ask_order(void)
{
	unsigned int sent[8], received[8];
	bool good = true;

	for (unsigned int i = 0; i < 8; i++)
		received[i] = post(1, CALL_RECV, 1, ROOM);
	for (unsigned int i = 0; i < 8; i++)
		sent[i] = post(0, CALL_SEND, 1, i % 2 ? 100 + i : 60000 + i);
	for (unsigned int i = 0; i < 8; i++) {
		pass(sent[i], received[i]);
		good &= ended[1][received[i]].len == (i % 2 ? 100 + i : 60000 + i);
	}
	tell("messages of one tag keep their order", good);
}

static void ask_errors(void)
{
	unsigned int sent, received = post(1, CALL_RECV, 1, 10);

	sent = post(0, CALL_SEND, 1, 16);
	pass(sent, received);
	tell("a receive that is too short", ended[1][received].err);
	received = post(1, CALL_RECV, 1, 16);
	side_call(1, &(struct call){.kind = CALL_CANCEL, .id = received});
	tell("a receive is taken back", ends(1, received, false, true));
	tell("... with the error", ended[1][received].err);
}

/* The error of a peek, by its completion, or at once; 0: it finds something; -1: it does not end */
static unsigned int last_peek;

static int peek(size_t *len, bool expects_end)
{
	const struct call call = {CALL_PEEK, new_id(1, CALL_PEEK), 1, 0};
	const ssize_t ret = side_call(1, &call).ret;

	last_peek = call.id;
	if (ret)
		return (int) -ret;
	if (!ends(1, call.id, false, expects_end))
		return -1;
	*len = ended[1][call.id].len;
	return ended[1][call.id].err;
}

static void ask_peek(void)
{
	static const char *const question = "a peek at nothing";
	unsigned int sent, received;
	long as_model = 0;
	size_t len = 0;
	int ret;

	expected(question, &as_model);
	ret = peek(&len, as_model >= 0);
	tell(question, ret);
	/* it was taken for a receive: what comes now is its */
	if (ret < 0) {
		pass(post(0, CALL_SEND, 1, 100), last_peek);
		return;
	}
	sent = post(0, CALL_SEND, 1, 100);
	for (unsigned int tries = 0; tries < 20000 && peek(&len, true); tries++) {
		look(0);
		look(1);
	}
	tell("a peek finds a message of", (long) len);
	received = post(1, CALL_RECV, 1, 100);
	pass(sent, received);
}

/* Does the core take 100 posts, while nobody looks? */
static void ask_limit(void)
{
	static unsigned int ids[IDS];
	unsigned int count = 0;
	struct call call = {CALL_SEND, 0, 1, 16};

	for (; count < 100; count++) {
		call.id = ids[count] = new_id(0, CALL_SEND);
		if (side_call(0, &call).ret)
			break;
	}
	tell("100 posts are taken while nobody looks", count == 100);
	for (unsigned int i = 0; i < count; i++)
		pass(ids[i], post(1, CALL_RECV, 1, 16));
}

/* 0: it is sent; 1: an error tells that nobody is there; 2: the core says -FI_EAGAIN; 3: it waits */
static long send_to_nobody(const char *question, size_t len)
{
	const struct call call = {CALL_SEND, new_id(0, CALL_SEND), 1, len};
	ssize_t ret = -FI_EAGAIN;
	long as_model = 0;
	bool ends_so;

	expected(question, &as_model);
	ends_so = as_model < 2;

	wait_begin();
	while (ret == -FI_EAGAIN && !wait_over(ends_so)) {
		ret = side_call(0, &call).ret;
		look(0);
	}
	if (ret == -FI_EAGAIN)
		return 2;
	if (ret)
		return 1;
	if (!ends(0, call.id, true, ends_so))
		return 3;
	return ended[0][call.id].err != 0;
}

static void ask_nobody(void)
{
	static const size_t lens[] = {16, 100000};
	char question[80];

	side_kill();
	/* what is sent first may still go to a socket that nobody reads; then this side has time to notice */
	send_to_nobody("", 16);
	wait_begin();
	while (!wait_over(false))
		look(0);
	for (size_t i = 0; i < 2; i++) {
		snprintf(question, sizeof question, "%zu bytes to a process that has ended",
			 lens[i]);
		tell(question, send_to_nobody(question, lens[i]));
	}
}

void ask_all(void)
{
	static const size_t lens[] = {16, 4096, 4097, 16384, 16385, 65536, 100000};

	ask_first();
	for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++)
		ask_sent(lens[i]);
	ask_behind(1, 100);
	ask_behind(4, 100);
	ask_behind(5, 100);
	ask_behind(64, 100);
	ask_behind(65, 100);
	ask_behind(1, 200);
	ask_behind(1, 20000);
	ask_order();
	ask_peek();
	ask_limit();
	/* some connections do not survive the first of these */
	ask_errors();
	ask_nobody();
}
