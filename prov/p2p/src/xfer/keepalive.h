/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keepalive: signs of life from other processes, beside the core provider.
 *
 * A process that computes does not call libfabric, and answers no control message. A thread answers for it, over UDP. A
 * process has one once an endpoint of its own has greeted somebody. It sleeps until it is asked.
 *
 * A question names the process that it is for by a random number (struct ipc.process), which only
 * that process's peers know. An answer repeats the question's own random number. So nobody answers for
 * another process, and a stranger gets no answer. A question is as long as its answer.
 *
 * A process also tells a peer that it has lost it, and which token is dead (peer.h). The peer may have been stopped, and may
 * go on to copy from memory that is another message's by then. Within a host such a word is there as soon as it is sent.
 *
 * Each endpoint has a socket of its own for as long as it is open, an *ear*, at the address that the endpoint itself
 * has. It asks from there, and peers ask there and nowhere else: at another address of the host nobody has the port,
 * though the endpoint lives. If it is closed, or its process is gone, its host says that nobody has the port. That
 * counts only for a peer that has answered before: a firewall may say the same.
 *
 * Datagrams come from anybody. One look takes in a few hundred of each socket at most. Only other looks wait meanwhile.
 */
#ifndef P2P_KEEPALIVE_H
#define P2P_KEEPALIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The socket of one endpoint. NULL, wherever it is an argument: the endpoint has none */
struct keepalive_ear;

/*
 * From now on this process, whose number is @process, answers for the endpoint whose address is @name. NULL: it
 * does not (logged). The first ear starts the thread, and the last one's keepalive_hush() ends it.
 */
struct keepalive_ear *keepalive_listen(uint64_t process, const void *name, size_t len);
void keepalive_hush(struct keepalive_ear *ear);

/* The port at which peers may ask; 0: there is none */
uint16_t keepalive_port(const struct keepalive_ear *ear);

/* An endpoint of another process. NULL, wherever it is an argument: nothing is known of it */
struct keepalive;

/*
 * @process answers at @port for the endpoint whose address is @name; an IP address tells the host. @near: it is on this
 * one; @here: in this PID namespace, too. It is asked from @ear, which is closed after it. Without @ear, @port or an address
 * nobody asks it. NULL: no memory. Threads: any
 */
struct keepalive *keepalive_open(const struct keepalive_ear *ear, uint64_t process,
				 uint16_t port, const void *name, size_t len, bool near,
				 bool here);
void keepalive_close(struct keepalive *keepalive);

/* Asks it. That may be lost. */
void keepalive_ask(struct keepalive *keepalive);

/* Returns how often a peer's process has answered. */
unsigned int keepalive_answers(const struct keepalive *keepalive);
/*
 * Tells whether a peer's process has ended, or closed the endpoint, as its host says. If it has never
 * answered, that is known of processes of this PID namespace alone, which have an id here.
 */
bool keepalive_gone(const struct keepalive *keepalive);

/* Tells it that @token is dead */
void keepalive_bury(struct keepalive *keepalive, uint64_t token);

/* The token that it bears from now on; and the one of those that it has said to be dead, or 0 */
void keepalive_expect(struct keepalive *keepalive, uint64_t token);
/* Returns the token that a peer says is dead, or 0. */
uint64_t keepalive_dead(const struct keepalive *keepalive);

/* Takes in what has come, so that the thread need not have had time for it */
void keepalive_drain(void);

#endif /* P2P_KEEPALIVE_H */
