/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Time, random numbers, the log and datagrams. These stand in the place of base/clock.c, base/random.c,
 * xfer/keepalive.c and xfer/gone.c, whose variables are a process's, and here are many in one.
 */
#include "exhaust.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "xfer/gone.h"
#include "xfer/keepalive.h"

struct world world;

#define WORLD_PORTS 4096

/* The last lines, for when the run fails */
#define WORLD_LINES 60
#define WORLD_LINE 160
static char lines[WORLD_LINES][WORLD_LINE];
static unsigned int line_count;

/* ---- random numbers ---- */

/* In small worlds each process has its own, so that what one draws does not depend on what others do */
static uint64_t world_random(void)
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

int random_fill(void *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *) buf)[i] = (uint8_t) (world_random() >> 32);
	return 0;
}

/* ---- time ---- */

uint64_t clock_ns(void)
{
	return world.now += 40;
}

/* A close may wait by it: the others go on meanwhile */
uint64_t clock_coarse_ms(void)
{
	if (world.closing) {
		world.now += 50000;
		node_others();
	}
	return world.now / SIM_MS;
}

int64_t clock_end(int timeout)
{
	return timeout < 0 ? INT64_MAX : (int64_t) (world.now / SIM_MS) + timeout;
}

/* Whoever asks waits within a call: the others go on meanwhile */
int64_t clock_left(int64_t end)
{
	int64_t left;

	world.now += 50000;
	/* where nothing else can happen, time passes faster */
	if (exhaust_on && !exhaust_within())
		world.now += 50 * SIM_MS;
	node_others();
	if (end == INT64_MAX)
		return -1;
	left = end - (int64_t) (world.now / SIM_MS);
	return left < 0 ? 0 : left;
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

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	world.moved = true;
	world_line(text);
}

void world_fail(const char *fmt, ...)
{
	va_list args;

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

/* ---- closed endpoints of a process (QUIRK_FRAGILE) ---- */

static bool gone_ports[SIM_NODES][WORLD_PORTS];

static bool *gone_port(const void *name)
{
	const unsigned int port = core_port(name);

	if (port >= WORLD_PORTS)
		world_fail("more than %d addresses", WORLD_PORTS);
	return &gone_ports[world.current][port];
}

void gone_opened(const struct xfer_ep *ep)
{
	*gone_port(ep->name) = false;
}

void gone_closed(const struct xfer_ep *ep)
{
	*gone_port(ep->name) = ep->fragile;
}

bool gone_is(struct xfer_ep *ep, fi_addr_t addr)
{
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;

	return ep->fragile && !ep->lookup(ep, addr, name, &len) &&
	       core_node(name) == world.current && *gone_port(name);
}

/* ---- datagrams ---- */

/* @ep: the application's endpoint that has it; @life: of the process */
struct keepalive_ear {
	unsigned int node, life, ep;
	uint16_t port;
	bool open;
};

/* @gone: its host says that the port is nobody's */
struct keepalive {
	uint64_t process;
	uint16_t port;
	unsigned int node, ep;
	unsigned int answers;
	bool gone;
	bool closed;
};

enum datagram_kind { QUESTION, ANSWER, REFUSAL, BURIAL };

struct datagram {
	uint64_t at;
	enum datagram_kind kind;
	unsigned int node;
	struct keepalive *keepalive;
	uint64_t token;
	TAILQ_ENTRY(datagram) entry;
};

#define EARS 256
#define GRAVES 512
static TAILQ_HEAD(, datagram) datagrams = TAILQ_HEAD_INITIALIZER(datagrams);
static struct keepalive_ear ears[EARS];
static unsigned int ear_count;
static uint64_t graves[SIM_NODES][GRAVES];
static unsigned int grave_count[SIM_NODES];
static uint64_t datagrams_lost_until;

static void datagram_send(enum datagram_kind kind, unsigned int node,
			  struct keepalive *keepalive, uint64_t token)
{
	struct datagram *datagram;

	if (!world.calm && !exhaust_on && (world.now < datagrams_lost_until || !world_upto(12)))
		return;
	datagram = calloc(1, sizeof *datagram);
	*datagram =
		(struct datagram){.at = exhaust_on ? exhaust_ticket(TICKET_DATAGRAM, keepalive)
						   : world.now + 20000 + world_upto(200000),
				  .kind = kind,
				  .node = node,
				  .keepalive = keepalive,
				  .token = token};
	TAILQ_INSERT_TAIL(&datagrams, datagram, entry);
}

static const struct keepalive_ear *ear_at(const struct keepalive *keepalive)
{
	for (unsigned int i = 0; i < ear_count; i++) {
		const struct keepalive_ear *ear = &ears[i];
		const struct node *node = &nodes[ear->node];

		if (ear->open && ear->port == keepalive->port && node->state != NODE_DEAD &&
		    node->life == ear->life)
			return ear;
	}
	return NULL;
}

static void datagram_take(const struct datagram *datagram)
{
	static const char *const words[] = {"a question", "an answer", "a refusal", "a burial"};
	struct keepalive *keepalive = datagram->keepalive;
	const struct keepalive_ear *ear;
	char text[WORLD_LINE];

	snprintf(text, sizeof text, "%s between n%u and port %u", words[datagram->kind],
		 keepalive->node, keepalive->port);
	world_line(text);
	switch (datagram->kind) {
	case QUESTION:
		ear = ear_at(keepalive);
		if (!ear)
			datagram_send(REFUSAL, keepalive->node, keepalive, 0);
		else if (nodes[ear->node].process == keepalive->process)
			datagram_send(ANSWER, keepalive->node, keepalive, 0);
		break;
	case ANSWER:
		keepalive->answers++;
		ear = ear_at(keepalive);
		if (ear)
			node_met(keepalive->node, keepalive->ep, ear->node, ear->ep);
		keepalive->gone = false;
		break;
	case REFUSAL:
		keepalive->gone = true;
		break;
	case BURIAL:
		ear = ear_at(keepalive);
		if (ear && nodes[ear->node].process == keepalive->process)
			graves[ear->node][grave_count[ear->node]++ % GRAVES] = datagram->token;
		break;
	}
}

/* Those for a stopped process wait in its socket */
static bool datagram_waits(const struct datagram *datagram)
{
	const struct keepalive_ear *ear;

	if (world_later(datagram->at))
		return true;
	if (datagram->kind == ANSWER || datagram->kind == REFUSAL)
		return nodes[datagram->node].state == NODE_STOPPED;
	ear = ear_at(datagram->keepalive);
	return ear && nodes[ear->node].state == NODE_STOPPED;
}

void world_datagrams(void)
{
	struct datagram *datagram, *next;

	for (datagram = TAILQ_FIRST(&datagrams); datagram; datagram = next) {
		next = TAILQ_NEXT(datagram, entry);
		if (datagram_waits(datagram))
			continue;
		TAILQ_REMOVE(&datagrams, datagram, entry);
		if (!datagram->keepalive->closed || datagram->kind == BURIAL)
			datagram_take(datagram);
		free(datagram);
	}
}

void world_lose_datagrams(uint64_t span)
{
	datagrams_lost_until = world.now + span;
}

struct keepalive_ear *keepalive_listen(uint64_t process, const void *name, size_t len)
{
	struct keepalive_ear *ear = &ears[ear_count];

	if (ear_count == EARS)
		world_fail("more than %d endpoints", EARS);
	*ear = (struct keepalive_ear){.node = world.current,
				      .ep = (core_port(name) - CORE_PORT) % SIM_EPS,
				      .life = nodes[world.current].life,
				      .port = (uint16_t) (10000 + ear_count),
				      .open = true};
	ear_count++;
	return ear;
}

void keepalive_hush(struct keepalive_ear *ear)
{
	if (ear)
		ear->open = false;
}

uint16_t keepalive_port(const struct keepalive_ear *ear)
{
	return ear ? ear->port : 0;
}

struct keepalive *keepalive_open(const struct keepalive_ear *ear, uint64_t process,
				 uint16_t port, const void *name, size_t len, bool near)
{
	struct keepalive *keepalive = calloc(1, sizeof *keepalive);

	*keepalive = (struct keepalive){.process = process,
					.port = port,
					.node = world.current,
					.ep = ear ? ear->ep : 0};
	return keepalive;
}

/* Datagrams may still be on their way: the memory stays */
void keepalive_close(struct keepalive *keepalive)
{
	if (keepalive)
		keepalive->closed = true;
}

void keepalive_ask(struct keepalive *keepalive)
{
	datagram_send(QUESTION, keepalive->node, keepalive, 0);
}

unsigned int keepalive_answers(const struct keepalive *keepalive)
{
	return keepalive->answers;
}

bool keepalive_gone(const struct keepalive *keepalive)
{
	return keepalive->gone && keepalive->answers;
}

void keepalive_bury(struct keepalive *keepalive, uint64_t token)
{
	datagram_send(BURIAL, keepalive->node, keepalive, token);
}

bool keepalive_buried(uint64_t token)
{
	const unsigned int node = world.current;

	for (unsigned int i = 0; i < grave_count[node] && i < GRAVES; i++) {
		if (graves[node][i] == token)
			return true;
	}
	return false;
}

void keepalive_drain(void)
{
	world_datagrams();
}

/* ---- */

void world_begin(const struct script *script, bool verbose)
{
	world = (struct world){
		.now = SIM_S,
		.random = (script->noise * 0x9e3779b97f4a7c15ULL) | 1,
		.digest = 0xcbf29ce484222325ULL,
		.verbose = verbose,
		.script = script,
	};
	for (int i = 0; i < 10; i++)
		world_random();
}
