/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The provider that logs. See log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct fi_provider *log_prov;
bool log_aloud;

void log_tell(const char *func, int line, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (fi_log_enabled(log_prov, FI_LOG_WARN, FI_LOG_CORE))
		fi_log(log_prov, FI_LOG_WARN, FI_LOG_CORE, func, line, "%s", text);
	else if (log_aloud && !getenv("FI_LOG_LEVEL"))
		fprintf(stderr, "%s: %s", log_prov->name, text);
}
