/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_info --check and --serve: two hosts tell each other what they have, and send each other a few
 * messages by the way that applications would.
 *
 *	--check                                          --serve
 *	connects (TCP)                                   waits
 *	record: host, releases, providers, GPU  <----->  record
 *	use: the provider                        ----->
 *	address of an endpoint                  <----->  address
 *	messages through the provider           <----->  messages
 *	result: paths, reasons, lanes           <----->  result
 *
 * Both print the same. The records are lines: a word, a space, and text. A line that is a dot ends one.
 */
#ifndef INFO_CHECK_H
#define INFO_CHECK_H

#include "info.h"

/* ---- check_link.c: the TCP connection ---- */

struct check_link {
	int fd;
	const char *peer; /* in words */
	char line[4096];
	size_t have;
};

/*
 * Waits for a client, or connects to a server. @where: HOST or HOST:PORT. NULL: it works; else why it does
 * not.
 */
const char *check_link_serve(struct check_link *link, const char *port);
const char *check_link_connect(struct check_link *link, const char *where);
void check_link_close(struct check_link *link);
/* This host's own address of the connection; NULL: not known */
const char *check_link_own(const struct check_link *link);

/* Sends a line. What is lost is found when the answer is waited for. */
void check_link_say(struct check_link *link, const char *key, const char *text);
/*
 * Waits for a line. @turn is called meanwhile, several times a second; it may be NULL. Returns what
 * follows the word, which *@key gets, with what is not printable replaced; or NULL: the peer has gone,
 * or says nothing.
 */
const char *check_link_hear(struct check_link *link, const char **key, void (*turn)(void *arg),
			    void *arg);

/* ---- check_ep.c: the messages ---- */

/* The lengths of the messages: a short one, and then long ones, as the first may go without lanes */
#define CHECK_MESSAGES 5

struct check_result {
	const char *path[2], *reason[2]; /* of a short message, and of the last long one */
	uint64_t lane_pieces;
	const char *error;
};

struct check_ep;

/* Opens an endpoint of @provider for who is at @node; NULL, with @why */
struct check_ep *check_ep_open(const struct info *info, const char *provider, const char *node,
			       const char **why);
/* Its address, as hexadecimal digits */
const char *check_ep_address(struct check_ep *ep, const char **why);
/* Sends the messages to @address, and receives as many */
void check_ep_exchange(struct check_ep *ep, const char *address, struct check_result *result);
/* One look at what is to be done, for a peer that is not ready yet */
void check_ep_turn(void *ep);
void check_ep_close(struct check_ep *ep);
/* path.c: the infos of a provider at @node (NULL: anywhere), as info_paths() asks for them */
struct fi_info *check_getinfo(const char *provider, const char *node);

#endif /* INFO_CHECK_H */
