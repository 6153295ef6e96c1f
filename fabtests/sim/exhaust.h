/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * All orders of a small world. What is on its way there has a ticket in the place of a time, and is there once the
 * ticket is drawn. exhaust.c draws them in every order, by replay; state.c tells worlds apart.
 */
#ifndef P2P_SIM_EXHAUST_H
#define P2P_SIM_EXHAUST_H

#include "sim.h"

/* Times from here on are tickets; what a time has beside it, such as a message's length, is in the lower bits */
#define TICKET_FIRST (1ULL << 62)
#define TICKET_SHIFT 32

/* Tickets are drawn: else world.now passes, and those that are left have been */
extern bool exhaust_on;

/* What has tickets in some worlds; else it happens at once */
enum ticket_kind { TICKET_ARRIVAL, TICKET_END, TICKET_COPY, TICKET_DATAGRAM };

/* A new ticket, or the time. Those of one @line are drawn in order */
uint64_t exhaust_ticket(enum ticket_kind kind, const void *line);
bool exhaust_undrawn(uint64_t at);
/* Nobody waits for those of @line any more */
void exhaust_forget(const void *line);

/* Is that moment, or ticket, still to come? */
static inline bool world_later(uint64_t at)
{
	return at >= TICKET_FIRST ? exhaust_undrawn(at) : at > world.now;
}

/* The world of run_script() in all orders, up to where everything has ended */
void exhaust_run(void);

/* A small world by its name, or all (NULL); @quick: only those that take seconds. Prints. False: something failed */
bool exhaust_world(const char *name, bool quick);
void exhaust_list(FILE *to);

/* What tells the state of all apart from another one, without times and pointers */
uint64_t state_digest(void);

#endif /* P2P_SIM_EXHAUST_H */
