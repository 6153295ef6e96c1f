/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is special about core providers: one table (quirks.c), and flags that code asks for.
 *
 * No other file compares providers' names or libfabric's releases. All functions are pure.
 */
#ifndef P2P_QUIRKS_H
#define P2P_QUIRKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rdma/fabric.h>

/* The flags. The rows in quirks.c explain each. Code asks for these: */
#define QUIRK_STALLS (1U << 0)
#define QUIRK_MIXES (1U << 1)
#define QUIRK_LITTERS (1U << 2)
#define QUIRK_NEAR (1U << 3)
#define QUIRK_MAPS (1U << 4)
#define QUIRK_DIRECT (1U << 5)
#define QUIRK_LENDS (1U << 6)
#define QUIRK_ATOMICS (1U << 7)
#define QUIRK_NO_PEEK (1U << 8)
#define QUIRK_PEEK_UNMARKED (1U << 9)
#define QUIRK_NO_COUNTERS (1U << 10)
#define QUIRK_UNCOUNTED (1U << 11)
#define QUIRK_OWN_DATA (1U << 12)
#define QUIRK_NO_DATA (1U << 13)
#define QUIRK_AHEAD (1U << 14)
#define QUIRK_BEHIND (1U << 15)
#define QUIRK_NO_HOOK (1U << 16)
#define QUIRK_NO_DMABUF (1U << 17)
#define QUIRK_DIRECTED (1U << 20)
#define QUIRK_KEYS (1U << 30)
#define QUIRK_FRAGILE (1U << 31)

/*
 * Code does not ask for these flags, as their cures do no harm over any other core. A comment
 * at the cure names the flag.
 */
#define QUIRK_UNENABLED (1U << 18)
#define QUIRK_AUTO_LOSES (1U << 19)
#define QUIRK_READ_TWICE (1U << 21)
#define QUIRK_READABLE (1U << 22)
#define QUIRK_KEY_ONCE (1U << 23)
#define QUIRK_EMPTY_MR (1U << 24)
#define QUIRK_STALE_MR (1U << 25)
#define QUIRK_RECV_NOMEM (1U << 26)
#define QUIRK_LONG_LEN (1U << 27)
#define QUIRK_POLLFD (1U << 28)
#define QUIRK_NESTS (1U << 29)
#define QUIRK_DEAR (1U << 30)

/* The part of a core provider's name that a row is about */
enum quirk_match {
	/* the whole name: "tcp" is not "tcp;ofi_rxm" */
	QUIRK_WHOLE,
	/* one layer of the name, at any place: "ofi_rxm" is in "tcp;ofi_rxm" */
	QUIRK_LAYER,
	/* how the name begins */
	QUIRK_BEGINS,
	/* every name: the row is about libfabric itself */
	QUIRK_ANY,
};

/**
 * struct quirk - a row of the table.
 * @provider:	the core provider, as @match says; NULL: any
 * @match:	what part of the provider's name @provider is
 * @from:	the first release of libfabric with it
 * @below:	the first release without it
 * @flag:	what code asks for
 * @does:	what the provider does, in words that can end a log line
 * @why:	how that comes about, and what we do about it
 * @see:	how to see it
 */
struct quirk {
	const char *provider;
	enum quirk_match match;
	uint32_t from;
	uint32_t below;
	unsigned int flag;
	const char *does;
	const char *why;
	const char *see;
};

extern const struct quirk quirks_table[];
extern const size_t quirks_count;

/*
 * Is @row about the core provider of this name and release? @name has no "ofi_p2p"; NULL: no
 * name.
 */
bool quirks_match(const struct quirk *row, const char *provider, uint32_t version);

/* The flags of all rows that are about this provider and release */
unsigned int quirks_of_name(const char *provider, uint32_t version);

/*
 * A name of provider for fi_getinfo: it has reliable datagram endpoints over TCP by itself, which do what those of
 * ofi_rxm over tcp do, with less memory
 */
const char *quirks_tcp_alone(uint32_t version);

/* The flags of the core provider behind @core. @version: fi_version() */
unsigned int quirks_of(const struct fi_info *core, uint32_t version);

#endif /* P2P_QUIRKS_H */
