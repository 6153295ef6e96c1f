/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is asked of a core and of its model. See conform.h. */
#include "conform.h"

#include <stdarg.h>

/* Flags that all cores agree on in completions */
#define KINDS (FI_SEND | FI_RECV | FI_MSG | FI_TAGGED | FI_REMOTE_CQ_DATA | FI_MULTI_RECV)

/* ---- calls, and what they lead to ---- */

/* What has ended: by side and id; and the last one that had an end more */
static struct answer ended[2][IDS], more[2];
static unsigned int last_id[2];

static void look(unsigned int side)
{
	const struct answer answer = side_call(side, &(struct call){.kind = CALL_READ});

	if (answer.ret != 1 || answer.id >= IDS)
		return;
	if (ended[side][answer.id].ret == 1)
		more[side] = answer;
	else
		ended[side][answer.id] = answer;
}

/* Receives have ids below ROOMS */
static unsigned int new_id(unsigned int side, enum call_kind kind)
{
	const bool receives = kind == CALL_RECV || kind == CALL_PEEK;
	const unsigned int id =
		receives ? last_id[side]++ % ROOMS : ROOMS + last_id[side]++ % (IDS - ROOMS);

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
static unsigned int post_call(unsigned int side, struct call call)
{
	call.id = new_id(side, call.kind);
	wait_begin();
	while (side_call(side, &call).ret == -FI_EAGAIN && !wait_over(true)) {
		look(0);
		look(1);
	}
	return call.id;
}

static unsigned int post(unsigned int side, enum call_kind kind, uint64_t tag, size_t len)
{
	return post_call(side, (struct call){.kind = kind, .tag = tag, .len = len});
}

/* Both sides look for a while */
static void rest(void)
{
	wait_begin();
	while (!wait_over(false)) {
		look(0);
		look(1);
	}
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

/* A question with names and numbers in it */
__attribute__((format(printf, 1, 2))) static const char *words(const char *fmt, ...)
{
	static char question[120];
	va_list args;

	va_start(args, fmt);
	vsnprintf(question, sizeof question, fmt, args);
	va_end(args);
	return question;
}

/* What is left of a question ends */
static void pass(unsigned int sent, unsigned int received)
{
	if (!ends(1, received, false, true) || !ends(0, sent, false, true))
		tell("a message that has not ended", 1);
}

/* A receive is taken back */
static void take_back(unsigned int side, unsigned int id)
{
	side_call(side, &(struct call){.kind = CALL_CANCEL, .id = id});
	ends(side, id, false, true);
}

/* ---- when a message is sent ---- */

/* Also: does it go once this side has looked, or only once the peer has? */
static void ask_first(void)
{
	static const char *const question = "a first post is taken before the peer looks";
	struct call call = {.kind = CALL_SEND, .id = new_id(0, CALL_SEND), .tag = 1, .len = 16};
	ssize_t ret = side_call(0, &call).ret;

	tell("a first post says -FI_EAGAIN", ret == -FI_EAGAIN);
	wait_begin();
	while (ret == -FI_EAGAIN && !wait_over(expects(question))) {
		look(0);
		ret = side_call(0, &call).ret;
	}
	tell(question, !ret);
	if (ret)
		call.id = post(0, CALL_SEND, 1, 16);
	pass(call.id, post(1, CALL_RECV, 1, 16));
}

static void ask_sent(size_t len)
{
	const unsigned int sent = post(0, CALL_SEND, 1, len);
	const char *question = words("%zu bytes are sent before the peer looks", len);

	tell(question, ends(0, sent, true, expects(question)));
	pass(sent, post(1, CALL_RECV, 1, len));
}

static void ask_delivered(size_t len)
{
	const unsigned int sent = post_call(0, (struct call){.kind = CALL_SEND,
							     .tag = 1,
							     .len = len,
							     .flags = FI_DELIVERY_COMPLETE});
	const char *question = words("%zu bytes are delivered before the peer looks", len);

	tell(question, ends(0, sent, true, expects(question)));
	question = words("%zu bytes are delivered without a receive", len);
	tell(question, ends(0, sent, false, expects(question)));
	pass(sent, post(1, CALL_RECV, 1, len));
}

static void ask_injected(void)
{
	unsigned int sent, received;

	side_call(0, &(struct call){.kind = CALL_FILL, .tag = 7});
	sent = post_call(0, (struct call){.kind = CALL_SEND,
					  .tag = 1,
					  .len = 100,
					  .flags = FI_INJECT});
	side_call(0, &(struct call){.kind = CALL_FILL, .tag = 8});
	received = post(1, CALL_RECV, 1, 100);
	pass(sent, received);
	tell("an injected message has the bytes of its call", ended[1][received].byte == 7);
}

/* ---- what stands before what ---- */

/* Does what comes behind @count such messages arrive? */
static void ask_behind(unsigned int count, struct call first)
{
	const char *kind = first.untagged ? " without a tag" : "";
	unsigned int sent[80], last, received;
	const char *question;

	for (unsigned int i = 0; i < count; i++)
		sent[i] = post_call(0, first);
	last = post(0, CALL_SEND, 2, 16);
	received = post(1, CALL_RECV, 2, 16);
	question = words("a message arrives behind %u of %zu%s", count, first.len, kind);
	tell(question, ends(1, received, false, expects(question)));
	first.kind = CALL_RECV;
	for (unsigned int i = 0; i < count; i++)
		pass(sent[i], post_call(1, first));
	pass(last, received);
}

static void ask_behind_all(void)
{
	static const unsigned int counts[] = {1, 4, 5, 64, 65};
	static const size_t lens[] = {128, 129, 20000, 70000};

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		ask_behind(counts[i], (struct call){.kind = CALL_SEND, .tag = 1, .len = 100});
	for (size_t i = 0; i < sizeof lens / sizeof *lens; i++)
		ask_behind(1, (struct call){.kind = CALL_SEND, .tag = 1, .len = lens[i]});
	ask_behind(1, (struct call){.kind = CALL_SEND, .untagged = true, .len = 16});
}

/* Remote memory, and the other way, while a message stands without a receive */
static void ask_beside(size_t len)
{
	const unsigned int sent = post(0, CALL_SEND, 1, len);
	const unsigned int write = post_call(0, (struct call){.kind = CALL_WRITE,
							      .len = 16,
							      .flags = FI_DELIVERY_COMPLETE});
	const unsigned int received = post(0, CALL_RECV, 3, 16);
	const unsigned int back = post(1, CALL_SEND, 3, 16);
	const char *question = words("a write arrives behind %zu", len);

	tell(question, ends(0, write, false, expects(question)));
	question = words("a message comes the other way beside %zu", len);
	tell(question, ends(0, received, false, expects(question)));
	pass(sent, post(1, CALL_RECV, 1, len));
	if (!ends(0, write, false, true) || !ends(0, received, false, true) ||
	    !ends(1, back, false, true))
		tell("what has not ended", 1);
}

static size_t nth_len(unsigned int i)
{
	static const size_t lens[] = {60000, 100, 5000, 20000, 0, 100000, 16, 17000};

	return lens[i % (sizeof lens / sizeof *lens)];
}

static void ask_order(bool early)
{
	unsigned int sent[8], received[8];
	bool good = true;

	for (unsigned int i = 0; i < 8 && !early; i++)
		received[i] = post(1, CALL_RECV, 1, ROOM);
	for (unsigned int i = 0; i < 8; i++)
		sent[i] = post(0, CALL_SEND, 1, nth_len(i));
	for (unsigned int i = 0; i < 8 && early; i++)
		received[i] = post(1, CALL_RECV, 1, ROOM);
	for (unsigned int i = 0; i < 8; i++) {
		pass(sent[i], received[i]);
		good &= ended[1][received[i]].len == nth_len(i);
	}
	tell(early ? "early messages of one tag keep their order"
		   : "messages of one tag keep their order",
	     good);
}

/* ---- what completions say ---- */

static void ask_fields(bool untagged)
{
	const struct call send = {.kind = CALL_SEND,
				  .tag = 5,
				  .len = 100,
				  .flags = FI_REMOTE_CQ_DATA,
				  .untagged = untagged};
	const struct call recv = {.kind = CALL_RECV,
				  .tag = 5,
				  .len = 200,
				  .untagged = untagged};
	const unsigned int received = post_call(1, recv), sent = post_call(0, send);
	const char *kind = untagged ? "without a tag" : "with a tag";
	const struct answer *at = &ended[1][received];

	pass(sent, received);
	tell(words("%s, flags of a send", kind), (long) (ended[0][sent].flags & KINDS));
	tell(words("%s, flags of a receive", kind), (long) (at->flags & KINDS));
	tell(words("%s, its length", kind), (long) at->len);
	tell(words("%s, its data", kind), at->data == 5);
	tell(words("%s, its sender", kind), at->peer);
	if (!untagged)
		tell("with a tag, its tag", (long) at->tag);
}

/* What is longer than 4 KiB shm waits for then, for ever */
static void ask_short(size_t len)
{
	const unsigned int received = post(1, CALL_RECV, 1, 10);
	const unsigned int sent = post(0, CALL_SEND, 1, len);
	const struct answer *at = &ended[1][received];
	const char *question;

	ends(1, received, false, true);
	tell(words("%zu bytes into ten, the error", len), at->err);
	tell(words("%zu bytes into ten, flags", len), (long) (at->flags & KINDS));
	tell(words("%zu bytes into ten, bytes too many", len), (long) at->olen);
	question = words("%zu bytes into ten, its sender has an end", len);
	tell(question, ends(0, sent, false, expects(question)));
	tell(words("%zu bytes into ten, its sender's error", len), ended[0][sent].err);
}

static void ask_taken_back(void)
{
	unsigned int received = post(1, CALL_RECV, 1, 16), next;

	take_back(1, received);
	tell("a receive is taken back", is_over(1, received));
	tell("... with the error", ended[1][received].err);
	tell("... and flags", (long) (ended[1][received].flags & KINDS));
	received = post(1, CALL_RECV, 1, 16);
	next = post(1, CALL_RECV, 1, 16);
	take_back(1, received);
	pass(post(0, CALL_SEND, 1, 16), next);
	tell("... and the next one has the message", ended[1][next].err == 0);
}

/* ---- peeks ---- */

/* A peek; its id. 0 in @err: it finds something; -1: it does not end */
static unsigned int peek(uint64_t flags, bool expects_end, int *err)
{
	const struct call call = {.kind = CALL_PEEK,
				  .id = new_id(1, CALL_PEEK),
				  .tag = 1,
				  .flags = FI_PEEK | flags};
	const ssize_t ret = side_call(1, &call).ret;

	if (ret)
		*err = (int) -ret;
	else if (!ends(1, call.id, false, expects_end))
		*err = -1;
	else
		*err = ended[1][call.id].err;
	return call.id;
}

/* Peeks until it finds something, which is told */
static unsigned int find(const char *what, uint64_t flags)
{
	unsigned int id = 0;
	int err = -1;

	wait_begin();
	for (unsigned int tries = 0; err && tries < 20000; tries++) {
		id = peek(flags, true, &err);
		look(0);
		look(1);
	}
	tell(words("%s finds a message", what), !err);
	tell(words("%s finds its length", what), (long) ended[1][id].len);
	tell(words("%s finds its flags", what), (long) (ended[1][id].flags & KINDS));
	tell(words("%s finds its data", what), ended[1][id].data == 1);
	return id;
}

static void ask_found(size_t len)
{
	const struct call send = {.kind = CALL_SEND,
				  .tag = 1,
				  .len = len,
				  .flags = FI_REMOTE_CQ_DATA};
	unsigned int sent = post_call(0, send), next, id;
	const char *question;
	char what[40];

	snprintf(what, sizeof what, "a peek at %zu", len);
	find(what, 0);
	pass(sent, post(1, CALL_RECV, 1, len));
	/* what is claimed goes to nobody else */
	sent = post_call(0, send);
	next = post(0, CALL_SEND, 1, 50);
	snprintf(what, sizeof what, "a claim of %zu", len);
	id = find(what, FI_CLAIM);
	ended[1][id].ret = 0;
	side_call(1, &(struct call){.kind = CALL_RECV,
				    .id = id,
				    .tag = 1,
				    .len = len,
				    .flags = FI_CLAIM});
	pass(sent, id);
	tell(words("%s, its length", what), (long) ended[1][id].len);
	tell(words("%s, its flags", what), (long) (ended[1][id].flags & KINDS));
	pass(next, post(1, CALL_RECV, 1, 50));
	/* what is discarded is sent all the same */
	sent = post_call(0, send);
	next = post(0, CALL_SEND, 1, 50);
	snprintf(what, sizeof what, "a discard of %zu", len);
	find(what, FI_DISCARD);
	question = words("%s, its sender has an end", what);
	tell(question, ends(0, sent, false, expects(question)));
	id = post(1, CALL_RECV, 1, ROOM);
	pass(next, id);
	tell(words("%s, the next one's length", what), (long) ended[1][id].len);
}

static void ask_peek(void)
{
	static const char *const question = "a peek at nothing";
	unsigned int id;
	long as_model = 0;
	int err;

	expected(question, &as_model);
	id = peek(0, as_model >= 0, &err);
	tell(question, err);
	/* it was taken for a receive: what comes now is its */
	if (err < 0) {
		pass(post(0, CALL_SEND, 1, 0), id);
		return;
	}
	ask_found(100);
	if (side_caps() & CAP_SEGMENTS)
		ask_found(30000);
}

/* ---- receives of other kinds ---- */

static void ask_directed(void)
{
	unsigned int other, received;

	if (!(side_caps() & FI_DIRECTED_RECV))
		return;
	other = post_call(1, (struct call){.kind = CALL_RECV, .tag = 1, .len = 16, .from = 2});
	received =
		post_call(1, (struct call){.kind = CALL_RECV, .tag = 1, .len = 16, .from = 1});
	pass(post(0, CALL_SEND, 1, 16), received);
	tell("a receive for somebody else is passed over", !is_over(1, other));
	/* and what was there before */
	received = post(0, CALL_SEND, 1, 16);
	rest();
	tell("... by what came before, too", !is_over(1, other));
	pass(received,
	     post_call(1, (struct call){.kind = CALL_RECV, .tag = 1, .len = 16, .from = 1}));
	take_back(1, other);
}

/* As many messages of @len as there is room for */
static void ask_many(size_t room, size_t len)
{
	const unsigned int id = post_call(1, (struct call){.kind = CALL_RECV,
							   .len = room,
							   .untagged = true,
							   .flags = FI_MULTI_RECV});
	const struct answer *at = &ended[1][id];
	const char *question;

	more[1].flags = 0;
	for (unsigned int count = 0; count < room / len; count++) {
		ended[1][id].ret = 0;
		pass(post_call(0,
			       (struct call){.kind = CALL_SEND, .len = len, .untagged = true}),
		     id);
		tell(words("message %u of %zu in %zu lies at", count, len, room),
		     (long) at->at);
		tell(words("message %u of %zu in %zu has flags", count, len, room),
		     (long) (at->flags & KINDS));
	}
	question =
		words("a buffer of %zu for messages of %zu is given back by itself", room, len);
	wait_begin();
	while (!(more[1].flags & FI_MULTI_RECV) && !wait_over(expects(question)))
		look(1);
	tell(question, (more[1].flags & FI_MULTI_RECV) != 0);
}

static void ask_multi(void)
{
	if (!(side_caps() & FI_MULTI_RECV))
		return;
	ask_many(1000, 300);
	ask_many(1200, 300);
	ask_many(1000, 303);
}

/* ---- remote memory ---- */

static void ask_remote(const char *what, struct call call)
{
	const unsigned int id = post_call(0, call);
	const char *question = words("%s of %zu ends before the peer looks", what, call.len);

	tell(question, ends(0, id, true, expects(question)));
	if (!ends(0, id, false, true))
		tell("remote memory is not reached", 1);
}

static void ask_rma(void)
{
	static const size_t lens[] = {16, 5000, 100000};
	unsigned int received, write;

	for (size_t i = 0; i < 3; i++) {
		ask_remote("a write", (struct call){.kind = CALL_WRITE, .len = lens[i]});
		ask_remote("a delivered write", (struct call){.kind = CALL_WRITE,
							      .len = lens[i],
							      .flags = FI_DELIVERY_COMPLETE});
		ask_remote("a read", (struct call){.kind = CALL_FETCH, .len = lens[i]});
	}
	/* a write is there when what comes behind it is */
	side_call(1, &(struct call){.kind = CALL_FILL, .tag = 1, .len = 1});
	side_call(0, &(struct call){.kind = CALL_FILL, .tag = 9});
	write = post(0, CALL_WRITE, 0, 100000);
	received = post(1, CALL_RECV, 1, 16);
	pass(post(0, CALL_SEND, 1, 16), received);
	tell("a write is there when the message behind it is",
	     side_call(1, &(struct call){.kind = CALL_BYTE}).byte == 9);
	ends(0, write, false, true);
}

static void ask_atomic(void)
{
	static const struct {
		const char *name;
		uint64_t flags;
	} kinds[] = {{"adds", 0},
		     {"fetches", FI_FETCH_ATOMIC},
		     {"compares", FI_COMPARE_ATOMIC}};

	for (size_t i = 0; side_caps() & FI_ATOMIC && i < 3; i++)
		tell(words("so many atomic %s go at once", kinds[i].name),
		     side_call(0, &(struct call){.kind = CALL_ATOMICS, .flags = kinds[i].flags})
			     .ret);
}

/* ---- limits ---- */

/* Does the core take 100 posts, while nobody looks? */
static void ask_limit(void)
{
	unsigned int ids[100], count = 0;
	struct call call = {.kind = CALL_SEND, .tag = 1, .len = 16};

	for (; count < 100; count++) {
		call.id = ids[count] = new_id(0, CALL_SEND);
		if (side_call(0, &call).ret)
			break;
	}
	tell("100 posts are taken while nobody looks", count == 100);
	for (unsigned int i = 0; i < count; i++)
		pass(ids[i], post(1, CALL_RECV, 1, 16));
}

/* More than there can be */
static void ask_receives(void)
{
	struct call call = {.kind = CALL_RECV, .tag = 9, .len = 16};
	ssize_t ret = 0;

	for (call.id = 0; !ret && call.id < IDS; call.id++) {
		ret = side_call(1, &call).ret;
		if (!ret && call.id == 400)
			tell("400 receives are taken", 1);
	}
	tell("one receive too many says -FI_ENOMEM", ret == -FI_ENOMEM);
}

/* ---- ends ---- */

/* 0: it is sent; 1: an error tells that nobody is there; 2: the core says -FI_EAGAIN; 3: it waits */
static long send_to_nobody(const char *question, size_t len)
{
	const struct call call = {.kind = CALL_SEND,
				  .id = new_id(0, CALL_SEND),
				  .tag = 1,
				  .len = len};
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

/* Nobody is there any more. This side has time to notice */
static void ask_nobody(const char *who)
{
	static const size_t lens[] = {16, 100000};
	const char *question;

	/* what is sent first may still go to a socket that nobody reads */
	send_to_nobody("", 16);
	wait_begin();
	while (!wait_over(false))
		look(0);
	for (size_t i = 0; i < 2; i++) {
		question = words("%zu bytes to %s that has ended", lens[i], who);
		tell(question, send_to_nobody(question, lens[i]));
	}
}

static void meet_next(void)
{
	memset(ended[1], 0, sizeof ended[1]);
	side_next();
	pass(post(0, CALL_SEND, 1, 16), post(1, CALL_RECV, 1, 16));
}

/* How it ends at this side, once the other one has: with an error (1) or without (0), or not at all (-1) */
static void ask_left(const char *question, unsigned int id)
{
	long as_model = 0;

	expected(question, &as_model);
	tell(question, ends(0, id, true, as_model >= 0) ? ended[0][id].err != 0 : -1);
}

/* A long message, before anything of it is wanted */
static void ask_receiver_ends(void)
{
	unsigned int sent;

	meet_next();
	sent = post(0, CALL_SEND, 1, LONG);
	rest();
	side_kill();
	ask_left("a long message whose receiver ends", sent);
}

static void ask_sender_ends(void)
{
	unsigned int received;

	meet_next();
	post(1, CALL_SEND, 1, LONG);
	rest();
	side_kill();
	received = post_call(0, (struct call){.kind = CALL_RECV, .tag = 1, .len = LONG});
	ask_left("a long message whose sender has ended", received);
	received =
		post_call(0, (struct call){.kind = CALL_RECV, .tag = 2, .len = 16, .from = 1});
	ask_left("a receive from a process that has ended", received);
}

static void ask_closed(void)
{
	meet_next();
	side_call(1, &(struct call){.kind = CALL_CLOSE});
	ask_nobody("an endpoint");
	side_kill();
}

void ask_all(void)
{
	static const size_t lens[] = {16, 4096, 4097, 16384, 16385, 65536, 100000, LONG};

	tell(QUESTION_CAPS, (long) side_caps());
	side_next();
	ask_first();
	for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++)
		ask_sent(lens[i]);
	ask_delivered(16);
	ask_delivered(5000);
	ask_delivered(100000);
	ask_injected();
	ask_behind_all();
	ask_beside(100);
	ask_beside(200);
	ask_order(false);
	ask_order(true);
	ask_fields(false);
	ask_fields(true);
	ask_taken_back();
	ask_directed();
	ask_multi();
	ask_rma();
	ask_atomic();
	ask_peek();
	ask_limit();
	/* some connections do not survive these */
	ask_short(16);
	side_kill();
	ask_nobody("a process");
	meet_next();
	ask_receives();
	side_kill();
	ask_receiver_ends();
	ask_sender_ends();
	ask_closed();
}
