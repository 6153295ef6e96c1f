/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keepalive: signs of life from other processes, beside the core provider.
 *
 * A process that computes does not call libfabric, and answers no control message. A thread answers
 * for it, over UDP. There is one in each process that has greeted somebody. It sleeps until it is asked.
 *
 * A question names the process that it is for by a random number (struct ipc.process), which only
 * that process's peers know. An answer repeats the question's own random number. So nobody answers for
 * another process, and a stranger gets no answer. A question is as long as its answer.
 *
 * A process also tells a peer that it has lost it, and which token is dead (peer.h). The peer may have
 * been stopped, and may copy, when it goes on, from memory that is another message's meanwhile. Within a
 * host such a word is there as soon as it is sent.
 *
 * If a process is gone, its host says that nobody has the port. That counts only for a process that has
 * answered before: a firewall may say the same.
 */
#ifndef P2P_KEEPALIVE_H
#define P2P_KEEPALIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a domain knows of this process's thread: all zero before keepalive_port() */
struct keepalive_use {
	bool tried;
	uint16_t port;
};

/*
 * The port at which this process answers, whose number is @process; 0: it does not (logged). The first
 * call starts the thread, unless another domain has. keepalive_end() ends the use.
 */
uint16_t keepalive_port(struct keepalive_use *use, uint64_t process);
void keepalive_end(struct keepalive_use *use);

/* Another process that may be asked */
struct keepalive;

/*
 * @process answers at @port. @name: the address of an endpoint of it; an IP address tells the host. @near:
 * it is on this one. NULL: it cannot be asked. Threads: any
 */
struct keepalive *keepalive_open(uint64_t process, uint16_t port, const void *name, size_t len,
				 bool near);
void keepalive_close(struct keepalive *keepalive);

/* Asks it. That may be lost. */
void keepalive_ask(struct keepalive *keepalive);

/* How often it has answered; and is there nobody any more who could, though it has? */
unsigned int keepalive_answers(const struct keepalive *keepalive);
bool keepalive_gone(const struct keepalive *keepalive);

/* Tells it that @token is dead */
void keepalive_bury(struct keepalive *keepalive, uint64_t token);

/* Has a peer said so? That is known of the latest ones. */
bool keepalive_buried(uint64_t token);

/* Takes in what has come, so that the thread need not have had time for it */
void keepalive_drain(void);

#endif /* P2P_KEEPALIVE_H */
