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
 * Each endpoint has a port of its own, for as long as it is open. If it is closed, or its process is gone,
 * its host says that nobody has the port. That counts only for who has answered before: a firewall may say
 * the same.
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

/* The socket for questions about one endpoint: all zero before keepalive_port() */
struct keepalive_ear {
	uint16_t port;
	bool own;
	int fd;
};

/*
 * The port at which this process, whose number is @process, answers for an endpoint; 0: it does not
 * (logged). The first call starts the thread, unless another domain has. Without a descriptor to spare for
 * it, the port is one that stays when the endpoint is closed. keepalive_hush() ends that,
 * keepalive_end() the domain's use, after its endpoints.
 */
uint16_t keepalive_port(struct keepalive_use *use, struct keepalive_ear *ear, uint64_t process);
void keepalive_hush(struct keepalive_ear *ear);
void keepalive_end(struct keepalive_use *use);

/* An endpoint of another process that may be asked for */
struct keepalive;

/*
 * @process answers at @port for the endpoint whose address is @name; an IP address tells the host. @near:
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
