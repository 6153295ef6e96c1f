/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random numbers, and what is told: of the simulated world and by the provider's log.
 */
#include "exhaust.h"

#include <unistd.h>

#include "base/log.h"

struct world world;

/* The last lines, for when the run fails */
#define WORLD_LINES 60
#define WORLD_LINE 160
static char lines[WORLD_LINES][WORLD_LINE];
static unsigned int line_count;

/* ---- random numbers ---- */

/* In small worlds each process has its own, so that what one draws does not depend on what others do */
uint64_t world_random(void)
{
	static uint64_t own[SIM_NODES];
	uint64_t *random = exhaust_on ? &own[world.current] : &world.random;

	if (!*random)
		*random = 0x9e3779b97f4a7c15ULL * (world.current + 1);
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random * 0x2545f4914f6cdd1dULL;
}

uint64_t world_upto(uint64_t limit)
{
	return limit ? (world_random() >> 11) % limit : 0;
}

/* ---- what is told ---- */

static void world_line(const char *text)
{
	char *line = lines[line_count++ % WORLD_LINES];

	snprintf(line, WORLD_LINE, "%12.6f  %s", (double) world.now / 1e9, text);
	for (const char *at = line; *at; at++)
		world.digest = (world.digest ^ (uint8_t) *at) * 0x100000001b3ULL;
	if (world.verbose)
		puts(line);
}

void world_tell(const char *fmt, ...)
{
	char text[WORLD_LINE];
	va_list args;

	world.moved = true;
	if (world.quiet)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	world_line(text);
}

char *world_why;

void world_fail(const char *fmt, ...)
{
	va_list args;

	if (world_why) {
		va_start(args, fmt);
		vsnprintf(world_why, WORLD_WHY, fmt, args);
		va_end(args);
	}
	if (!world.verbose) {
		for (unsigned int i = line_count > WORLD_LINES ? line_count - WORLD_LINES : 0;
		     i < line_count; i++)
			puts(lines[i % WORLD_LINES]);
	}
	printf("FAILED at %.6f s: ", (double) world.now / 1e9);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

/* The provider's log becomes a part of what is told, where everything is */
int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
		   enum fi_log_subsys subsys)
{
	return level <= (world.verbose ? FI_LOG_INFO : FI_LOG_WARN);
}

void fi_log(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
	    const char *func, int line, const char *fmt, ...)
{
	char text[WORLD_LINE], said[2 * WORLD_LINE];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	text[strcspn(text, "\n")] = 0;
	snprintf(said, sizeof said, "n%u: %s", world.current, text);
	world_line(said);
}

void world_begin(const struct script *script, bool verbose)
{
	world = (struct world){
		.now = SIM_S,
		.random = (script->noise * 0x9e3779b97f4a7c15ULL) | 1,
		.digest = 0xcbf29ce484222325ULL,
		.verbose = verbose,
		.script = script,
		.liar = SIM_NODES,
	};
	for (size_t i = script->fault_count; i--;) {
		if (script->faults[i].kind == FAULT_LIE && !script->faults[i].dropped)
			world.liar = script->faults[i].node;
	}
	for (int i = 0; i < 10; i++)
		world_random();
}
