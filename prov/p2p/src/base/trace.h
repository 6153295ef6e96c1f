/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tracepoints (USDT), for who looks at a running process with bpftrace, perf or gdb. Each is one nop, and a note
 * in the object file: where it is, and where its arguments are. docs/seeing.md has the list; a test compares it.
 *
 * The name is <object>_<event>. Arguments are what is at hand, as nothing is to be computed for nobody. Calls that
 * go on to the core as they are have none. Six arguments at most: bpftrace passes no more.
 */
#ifndef P2P_TRACE_H
#define P2P_TRACE_H

/* configure says so if there is sys/sdt.h */
#ifdef P2P_USDT
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define P2P_TRACE(event, ...) STAP_PROBEV(ofi_p2p, event, __VA_ARGS__)
#else
#define P2P_TRACE(event, ...) ((void) 0)
#endif

#endif /* P2P_TRACE_H */
