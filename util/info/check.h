/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_info --check and --serve: two hosts tell each other what they have. Then they send each other a
 * few messages, the way that applications would.
 *
 *	--check                                          --serve
 *	connects (TCP)                                   waits
 *	record: host, releases, providers, GPU  <----->  record
 *	use: the provider                        ----->
 *	address of an endpoint                  <----->  address
 *	messages through the provider           <----->  messages
 *	result: paths, reasons, lanes           <----->  result
 *
 * Both print the same. What they say over TCP are lines: a word, a space, and text.
 */
#ifndef INFO_CHECK_H
#define INFO_CHECK_H

#include "info.h"

/* ---- check_link.c: the TCP connection ---- */

#define CHECK_LINE 4096

/**
 * struct check_link - the connection to the other host.
 * @turn:	called several times a second while the other one is waited for; may be NULL
 * @arg:	its argument
 */
struct check_link {
	int fd;
	char line[CHECK_LINE];
	size_t have, taken;
	void (*turn)(void *arg);
	void *arg;
};

/* What is wrong with a port, or with HOST or HOST:PORT, before anything is tried; NULL: nothing */
const char *check_link_wrong_port(const char *port);
const char *check_link_wrong_host(const char *where);
/* Waits for a client. NULL: it is there; else why not */
const char *check_link_serve(struct check_link *link, const char *port);
/* Connects to HOST or HOST:PORT. NULL, or why that cannot be */
const char *check_link_connect(struct check_link *link, const char *where);
/* This host's own address of the connection; NULL: not known */
const char *check_link_own(const struct check_link *link);
/* Sends a line. That it is lost is found when the answer is waited for. */
void check_link_say(struct check_link *link, const char *word, const char *text);
/*
 * Waits for the line that begins with @word, and passes over others. Returns the rest of it, with what cannot be
 * printed replaced. NULL: the other one has gone, or says nothing for long.
 */
const char *check_link_hear(struct check_link *link, const char *word);

/* ---- check_ep.c: the messages ---- */

/**
 * struct check_result - how messages from this host to the other one went.
 * @path, @reason: of a short message, and of the last long one
 * @lane_pieces: pieces that lanes carried
 * @error:	NULL, or why they did not arrive
 */
struct check_result {
	const char *path[2], *reason[2];
	const char *lane_pieces;
	const char *error;
};

struct check_ep {
	struct info_fids fids;
	struct fi_p2p_stats_ops *ops;
	const struct info_gpu *gpu;
	char *buffer;
};

/* Opens an endpoint for who is reached from the address @own. NULL, or why that cannot be */
const char *check_ep_open(struct check_ep *ep, const struct info *info, const char *provider,
			  const char *own);
/* Its address as hexadecimal digits; NULL: it has none */
const char *check_ep_address(struct check_ep *ep);
/* Sends messages to @address, and receives as many */
void check_ep_exchange(struct check_ep *ep, const char *address, struct check_result *result);
/* For the peer, which may still want something of us */
void check_ep_turn(void *ep);

#endif /* INFO_CHECK_H */
