/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Does a simulated core provider do what the real one does? The same questions (questions.c) are put to both: to the model
 * in one process (model.c), and to the core of that name in several (core.c). Each is a few calls at two endpoints
 * (player.c), and what their application sees of that is a number. The script run compares the numbers.
 */
#ifndef P2P_SIM_CONFORM_H
#define P2P_SIM_CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* Receives and peeks have the first ids, and a room each; all else has the others */
#define IDS 4096
#define ROOMS 16
#define ROOM ((size_t) 1 << 20)
/* So much fits no kernel's buffers. It takes all rooms */
#define LONG (ROOMS * ROOM)
/* A buffer for many is given back once it has less room */
#define LEAST ((size_t) 300)

/* So many processes are side 1, one after the other, at most */
#define OTHERS 6

/* One call at one endpoint */
enum call_kind {
	CALL_SEND,
	CALL_RECV,
	CALL_PEEK,
	CALL_WRITE,  /* to the peer's memory */
	CALL_FETCH,  /* from there */
	CALL_READ,   /* takes one completion, if there is one */
	CALL_CANCEL, /* of the receive with that id */
	CALL_FILL, /* the byte @tag to what is sent, or into one's own memory if there is a length */
	CALL_BYTE,    /* tells the first byte of one's own memory */
	CALL_ATOMICS, /* tells how many atomic operations go at once, of the kind @flags */
	CALL_CLOSE,   /* of the endpoint */
};

/*
 * @flags: of the call, beside FI_COMPLETION; @untagged: a message; @from: of a receive: 0 any sender, 1 the peer, 2 nobody
 */
struct call {
	enum call_kind kind;
	unsigned int id;
	uint64_t tag;
	size_t len;
	uint64_t flags;
	bool untagged;
	unsigned int from;
};

/*
 * @ret: of the call; of READ: 1, and what it was. @at: where the message lies in its room, @byte: its first one.
 * @peer: it names the peer as its sender
 */
struct answer {
	ssize_t ret;
	unsigned int id;
	int err;
	size_t len;
	size_t olen;
	uint64_t flags;
	uint64_t tag;
	uint64_t data;
	ptrdiff_t at;
	uint8_t byte;
	bool peer;
};

/* What the other side has to know */
struct card {
	char name[256];
	uint64_t addr;
	uint64_t key;
};

/**
 * struct player - an endpoint, and its application.
 * @self:	its own address, from which nothing comes
 * @far:	the other side's
 * @contexts:	one for each id
 * @rooms:	of receives; @source: what is sent; @shown: its own memory
 */
struct player {
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_mr *mr;
	bool virt_addr, met;
	fi_addr_t self, peer;
	struct card far;
	struct fi_context2 contexts[IDS];
	uint8_t *rooms, *source, *shown;
};

/* Opens the rest, and binds it; ends the program where that fails */
void player_open(struct player *player, struct fid_fabric *fabric, struct fi_info *info);
void player_show(struct player *player, struct card *card);
void player_meet(struct player *player, const struct card *card);
struct answer player_call(struct player *player, const struct call *call);

/* ---- what model.c and core.c have ---- */

/* At side 0 or 1 */
struct answer side_call(unsigned int side, const struct call *call);
/* The process of side 1 ends; and another one takes its place */
void side_kill(void);
void side_next(void);
/* Of the capabilities that not all have, those that the model has; and whether what comes in segments may be claimed */
#define CAP_SEGMENTS FI_TAGGED
uint64_t side_caps(void);
/* From now on something is waited for. The second: for long enough? @expected: as the model has it */
void wait_begin(void);
bool wait_over(bool expected);
/* What the model has answered; the model itself expects everything */
bool expected(const char *question, long *number);

/* Puts all questions, and prints the answers */
void ask_all(void);

#define QUESTION_CAPS "what the core is asked for"

#endif /* P2P_SIM_CONFORM_H */
