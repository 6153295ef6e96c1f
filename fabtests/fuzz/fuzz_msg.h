/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Control messages as a liar would make them: mostly right, about what there is, with one wrong number
 * now and then. What a new version of the protocol has in struct wire_msg belongs here.
 */
#ifndef P2P_FUZZ_MSG_H
#define P2P_FUZZ_MSG_H

#include "fuzz.h"

#include "xfer/wire.h"

#define FUZZ_IDS 256
#define FUZZ_KEYS 4
#define FUZZ_TOKENS 4

/**
 * struct fuzz_known - what a liar knows of whom it lies to.
 * @ids:	of transfers, @id_count of them so far: the latest are kept
 * @keys:	of regions, @key_count of them
 * @host:	where it is (struct ipc_offer)
 * @tokens:	that it was given, @token_count of them so far: the latest are kept
 * @lanes_kind:	of its lanes, as it has said
 * @grant:	the token that it gives
 * @name, @side: of the liar, or of any other endpoint
 */
struct fuzz_known {
	uint64_t ids[FUZZ_IDS];
	size_t id_count;
	uint64_t keys[FUZZ_KEYS];
	size_t key_count;
	uint64_t host;
	uint64_t tokens[FUZZ_TOKENS];
	size_t token_count;
	uint64_t lanes_kind;
	uint64_t grant;
	const void *name;
	size_t name_len;
	const void *side;
	size_t side_len;
};

/* What numbers of a message stand for: FUZZ_IN_PLACES are keys and addresses, FUZZ_IN_WORDS the others */
enum fuzz_fields {
	FUZZ_IN_LENGTHS = 1 << 0,
	FUZZ_IN_IDS = 1 << 1,
	FUZZ_IN_PLACES = 1 << 2,
	FUZZ_IN_OFFERS = 1 << 3,
	FUZZ_IN_VERSIONS = 1 << 4,
	FUZZ_IN_TOKENS = 1 << 5,
	FUZZ_IN_WORDS = 1 << 6,
};

/* Knows an id more, or has been given a token more */
void fuzz_know(struct fuzz_known *known, uint64_t id);
void fuzz_admit(struct fuzz_known *known, uint64_t token);

/* One of the ids, or any number */
uint64_t fuzz_id(struct fuzz *in, const struct fuzz_known *known);

/* Puts a number in the place of another one of those @kinds; @near: adds it to that one */
void fuzz_spoil(struct fuzz *in, unsigned int kinds, bool near, struct wire_msg *msg);

/* Makes a message. What it points to is @known's, or this file's until the next call. */
void fuzz_msg(struct fuzz *in, const struct fuzz_known *known, struct wire_msg *msg);

/*
 * Fills @buf, of WIRE_MSG_MAX bytes, with one message or several, encoded; rarely some byte of them is
 * wrong. Their length
 */
size_t fuzz_letter(struct fuzz *in, const struct fuzz_known *known, void *buf);

#endif /* P2P_FUZZ_MSG_H */
