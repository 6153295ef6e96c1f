/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Does a simulated core provider do what the real one does? The same questions (questions.c) are put to both: to the model
 * in one process (model.c), and to the core of that name in two (core.c). Each is a few calls at two endpoints, and what
 * their application sees of that is a number. The script run compares the numbers.
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
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define IDS 512
#define ROOM 200000

/* One call at one endpoint; READ takes one completion, if there is one */
enum call_kind { CALL_SEND, CALL_RECV, CALL_READ, CALL_CANCEL, CALL_PEEK };

struct call {
	enum call_kind kind;
	unsigned int id;
	uint64_t tag;
	size_t len;
};

/* @ret: of the call; of READ: 1, and what it was */
struct answer {
	ssize_t ret;
	unsigned int id;
	int err;
	size_t len;
};

/**
 * struct player - an endpoint, and its application.
 * @contexts:	one for each id; @rooms: of receives, one for each id below 16
 */
struct player {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	fi_addr_t peer;
	struct fi_context2 contexts[IDS];
	uint8_t *rooms;
};

/* Opens the rest, and binds it; ends the program where that fails */
void player_open(struct player *player, struct fid_fabric *fabric, struct fi_info *info);
struct answer player_call(struct player *player, const struct call *call);

/* ---- what model.c and core.c have ---- */

/* At side 0 or 1 */
struct answer side_call(unsigned int side, const struct call *call);
/* The process of side 1 ends */
void side_kill(void);
/* From now on something is waited for. The second: for long enough? @expected: as the model has it */
void wait_begin(void);
bool wait_over(bool expected);
/* What the model has answered; the model itself expects everything */
bool expected(const char *question, long *number);

/* Puts all questions, and prints the answers */
void ask_all(void);

#endif /* P2P_SIM_CONFORM_H */
