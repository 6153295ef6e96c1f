/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Log lines, through libfabric's own log (FI_LOG_LEVEL, FI_LOG_PROV). The function that first
 * knows of an error logs it, once. Its callers pass the code on.
 */
#ifndef P2P_LOG_H
#define P2P_LOG_H

#include <stdbool.h>
#include <rdma/providers/fi_log.h>

/* The provider whose name begins every line. fi_prov_ini() sets it before all else. */
extern struct fi_provider *log_prov;

#define P2P_LOG(level, ...)                                                                    \
	do {                                                                                   \
		if (fi_log_enabled(log_prov, level, FI_LOG_CORE))                              \
			fi_log(log_prov, level, FI_LOG_CORE, __func__, __LINE__, __VA_ARGS__); \
	} while (0)

#define P2P_WARN(...) P2P_LOG(FI_LOG_WARN, __VA_ARGS__)
#define P2P_INFO(...) P2P_LOG(FI_LOG_INFO, __VA_ARGS__)
#define P2P_DBG(...) P2P_LOG(FI_LOG_DEBUG, __VA_ARGS__)

/*
 * Tells a user of a mistake in the environment: in the log or, if nobody has asked for a log
 * (FI_LOG_LEVEL), on stderr. Without that, what was set would do nothing, and nobody would know.
 * fi_p2p_info has a function of its own in the place of this one.
 */
void log_tell(const char *func, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define P2P_TELL(...) log_tell(__func__, __LINE__, __VA_ARGS__)

/* May log_tell() use stderr? The first of our two objects in a process says it for both. */
extern bool log_aloud;

#endif /* P2P_LOG_H */
