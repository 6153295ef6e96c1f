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

/* What code asks for. The rows in quirks.c explain each flag. */
#define QUIRK_STALLS (1ULL << 0)
#define QUIRK_MIXES (1ULL << 1)
#define QUIRK_LITTERS (1ULL << 2)
#define QUIRK_NEAR (1ULL << 3)
#define QUIRK_MAPS (1ULL << 4)
#define QUIRK_DIRECT (1ULL << 5)
#define QUIRK_LENDS (1ULL << 6)
#define QUIRK_ATOMICS (1ULL << 7)
#define QUIRK_NO_PEEK (1ULL << 8)
#define QUIRK_PEEK_UNMARKED (1ULL << 9)
#define QUIRK_NO_COUNTERS (1ULL << 10)
#define QUIRK_UNCOUNTED (1ULL << 11)
#define QUIRK_OWN_DATA (1ULL << 12)
#define QUIRK_NO_DATA (1ULL << 13)
#define QUIRK_AHEAD (1ULL << 14)
#define QUIRK_BEHIND (1ULL << 15)
#define QUIRK_NO_HOOK (1ULL << 16)
#define QUIRK_NO_DMABUF (1ULL << 17)
#define QUIRK_DIRECTED (1ULL << 18)
#define QUIRK_KEYS (1ULL << 19)
#define QUIRK_FRAGILE (1ULL << 20)
#define QUIRK_EARLY (1ULL << 21)
#define QUIRK_SERIAL (1ULL << 22)
#define QUIRK_DEAR (1ULL << 23)
#define QUIRK_RECV_NOMEM (1ULL << 24)
#define QUIRK_SOURCELESS (1ULL << 25)
#define QUIRK_DANGLES (1ULL << 26)

/* The part of a core provider's name that a row is about */
enum quirk_match {
	/* the whole name: "tcp" is not "tcp;ofi_rxm" */
	QUIRK_WHOLE,
	/* one layer of the name, at any place: "ofi_rxm" is in "tcp;ofi_rxm" */
	QUIRK_LAYER,
	/* "net", which is called "tcp" since 1.18 */
	QUIRK_NET,
	/* how the name begins */
	QUIRK_BEGINS,
	/* every name: the row is about libfabric itself */
	QUIRK_ANY,
};

/* For advice: a core provider that works everywhere, and what makes reliable datagrams of connections */
#define QUIRKS_USUAL "tcp;ofi_rxm"
#define QUIRKS_RDM_OVER "ofi_rxm"

/**
 * struct quirk - a row of the table.
 * @provider:	the core provider, as @match says; NULL: any
 * @match:	what part of the provider's name @provider is
 * @from:	the first release of libfabric with it
 * @below:	the first release without it
 * @flag:	what code asks for; 0: nothing, as the cure does no harm over any other core
 * @name:	where @flag is 0: what the comment at the cure calls the row
 * @does:	what the provider does, in words that can end a log line
 * @why:	how that comes about, and what we do about it
 * @see:	how to see it
 */
struct quirk {
	const char *provider;
	enum quirk_match match;
	uint32_t from;
	uint32_t below;
	uint64_t flag;
	const char *name;
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
uint64_t quirks_of_name(const char *provider, uint32_t version);

/*
 * A name of provider for fi_getinfo: it has reliable datagram endpoints over TCP by itself, which do what those of
 * ofi_rxm over tcp do, with less memory
 */
const char *quirks_tcp_alone(uint32_t version);

/* The flags of the core provider behind @core. @version: fi_version() */
uint64_t quirks_of(const struct fi_info *core, uint32_t version);

#endif /* P2P_QUIRKS_H */
