/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the unit tests of greetings do again and again: an endpoint, what it hears and what it has sent. */
#ifndef UNIT_HELLO_H
#define UNIT_HELLO_H

#include "unit_fake_core.h"

/* What the peer gives to us, and how it calls itself */
#define GRANT 501
#define NAME "somebody"
#define PROCESS (UINT64_C(9) << 32) /* no id of a process */

/* The endpoint, on one queue; what is sent there names FAKE_NEW */
extern struct xfer_ep hello_ep;
void open_ep(void);
void close_ep(void);

/* hello_ready(), and the state of a peer without a record: XFER_PEER_NEW */
int ready(fi_addr_t addr);
enum xfer_peer_state state_of(fi_addr_t addr);

/* The @back-th last control message that the core was given. False: there is none. And how many there are */
bool sent(size_t back, struct wire_msg *msg);
size_t sent_count(void);

/* A message comes; and a greeting that may, of the epoch that was asked or answered for last */
void hear(struct wire_msg msg);
struct wire_msg greeting(uint32_t flags, uint64_t token);

/* Greets the new peer, and says what was asked */
struct wire_msg greet(void);

/* The same; it answers, and has the token that this tells */
uint64_t meet(void);

/* The new peer asks: what it is told */
struct wire_msg answered(void);

/* ---- unit_hello_strangers.c ---- */

void test_confirmed_among_strangers(void **state);
void test_confirmed_again(void **state);
void test_strangers(void **state);
void test_strangers_of_lost(void **state);
void test_aside_elsewhere(void **state);
void test_known_differs(void **state);
void test_forgotten_dies(void **state);

/* ---- unit_hello_lost.c ---- */

void test_reset(void **state);
void test_reset_of_lost(void **state);
void test_asked_anew(void **state);
void test_doubts(void **state);
void test_bearer_told(void **state);
void test_old_confirmation(void **state);
void test_renewed(void **state);
void test_marker_alone(void **state);
void test_ended_unheard(void **state);
void test_unsent_aside(void **state);
void test_owed(void **state);

/* ---- unit_hello_notes.c ---- */

void test_note_given_up(void **state);
void test_note_stale(void **state);
void test_note_of_nobody(void **state);
void test_note_untracked(void **state);
void test_board_late(void **state);
void test_short_offers(void **state);

#endif /* UNIT_HELLO_H */
