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
 * Each open endpoint has a socket of its own, at the address that the endpoint itself has. It asks from there, and peers
 * ask there and nowhere else: at another address of the host nobody has the port, though the endpoint lives. If it is
 * closed, or its process is gone, its host says that nobody has the port. That counts only for a peer that has answered
 * before: a firewall may say the same.
 *
 * Datagrams come from anybody. One look takes in a few hundred of each socket at most. Only other looks wait meanwhile.
 */
#ifndef P2P_KEEPALIVE_H
#define P2P_KEEPALIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The socket of one endpoint. NULL, wherever it is an argument: the endpoint has none */
struct keepalive_sock;

/*
 * From now on this process, whose number is @process, answers for the endpoint whose address is @name. NULL: it
 * does not (logged). The first socket starts the thread, and the last one's keepalive_sock_close() ends it.
 */
struct keepalive_sock *keepalive_listen(uint64_t process, const void *name, size_t len);
void keepalive_sock_close(struct keepalive_sock *sock);

/* The port at which peers may ask; 0: there is none */
uint16_t keepalive_port(const struct keepalive_sock *sock);

/* An endpoint of another process. NULL, wherever it is an argument: nothing is known of it */
struct keepalive;

/*
 * @process answers at @port for the endpoint whose address is @name; an IP address tells the host. @near: it is on this
 * one; @here: in this PID namespace, too. It is asked from @sock, which is closed after it. Without @sock, @port or an
 * address nobody asks it. NULL: no memory. Threads: any
 */
struct keepalive *keepalive_open(const struct keepalive_sock *sock, uint64_t process,
				 uint16_t port, const void *name, size_t len, bool near,
				 bool here);
void keepalive_close(struct keepalive *keepalive);

/* Asks it. That may be lost. */
void keepalive_ask(struct keepalive *keepalive);

/**
 * struct keepalive_signs - what has become known of an endpoint of another process.
 * @answers:	how often its process has answered
 * @gone:	its process has ended, or has closed the endpoint: as its host says, if it has ever answered. If not, that
 *		is known of processes of this PID namespace alone, which have an id here
 * @reset:	the token that we have given it, and that it says is dead; or 0
 */
struct keepalive_signs {
	unsigned int answers;
	bool gone;
	uint64_t reset;
};

/* Returns what is known by now. */
struct keepalive_signs keepalive_signs(const struct keepalive *keepalive);

/* Tells it that @token is dead */
void keepalive_reset(struct keepalive *keepalive, uint64_t token);

/* The token that it bears from now on */
void keepalive_expect(struct keepalive *keepalive, uint64_t token);

/* Takes in what has come, so that the thread need not have had time for it */
void keepalive_drain(void);

#endif /* P2P_KEEPALIVE_H */
