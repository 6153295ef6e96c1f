/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Simulated threads and processes. See fiber.h. */

/* It takes a jump to another stack for a mistake */
#undef _FORTIFY_SOURCE

#include "fiber.h"
#include "exhaust.h"

#include <link.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <dlfcn.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define FIBER_STACK ((size_t) 1 << 20)
/* Of so many moments at which a thread may give way it takes one */
#define FIBER_SWITCHES 40

/* Who sleeps for no longer only looks again: time does not pass in such small steps for it [ns] */
#define FIBER_NAP (5 * SIM_MS)

/**
 * struct context - where a thread goes on: at @first, then where it has been left.
 * Jumps need no call of the system, as the system's own way does for the mask of signals.
 */
struct context {
	ucontext_t first;
	jmp_buf left;
	bool begun;
};

/**
 * struct fiber - a thread.
 * @ready, @what, @until: what it waits for; NULL: it has only given way, or waits for the time alone
 * @naps:	only for a moment: then it may be late, where nothing else moves
 * @tls:	its variables
 */
struct fiber {
	struct context context;
	unsigned int node;
	void *stack;
	void *(*run)(void *arg);
	void *arg;
	bool over;
	bool (*ready)(const void *what);
	const void *what;
	uint64_t until;
	bool naps;
	uint8_t *tls;
	void *fake_stack;
	TAILQ_ENTRY(fiber) link;
};

TAILQ_HEAD(fibers, fiber);

/* ---- the provider's variables ---- */

/* The linker's names for the two ends of the section */
extern uint8_t __start_p2p_state[], __stop_p2p_state[];

static uint8_t *state_first, *states[SIM_NODES];
static unsigned int state_of = SIM_NODES;

static size_t state_len(void)
{
	return (size_t) (__stop_p2p_state - __start_p2p_state);
}

#ifdef __SANITIZE_ADDRESS__
/* It guards what lies between variables, and would see that being copied */
__attribute__((no_sanitize("address", "undefined"), optimize("O2"))) static void
state_copy(uint8_t *to, const uint8_t *from)
{
	uint64_t *words = (uint64_t *) to;
	const uint64_t *from_words = (const uint64_t *) from;
	size_t i;

	for (i = 0; i < state_len() / sizeof *words; i++)
		words[i] = from_words[i];
	for (i *= sizeof *words; i < state_len(); i++)
		to[i] = from[i];
}
#else
static void state_copy(uint8_t *to, const uint8_t *from)
{
	memcpy(to, from, state_len());
}
#endif

void process_enter(unsigned int i)
{
	world.current = i;
	if (state_of == i || !states[i])
		return;
	if (state_of < SIM_NODES)
		state_copy(states[state_of], __start_p2p_state);
	state_copy(__start_p2p_state, states[i]);
	state_of = i;
}

void process_enter_for(const void *addr)
{
	const uint8_t *at = addr;

	if (at >= __start_p2p_state && at < __stop_p2p_state)
		process_enter(world.current);
}

void process_begin(unsigned int i)
{
	if (!state_first) {
		state_first = malloc(state_len());
		state_copy(state_first, __start_p2p_state);
	}
	if (!states[i])
		states[i] = malloc(state_len());
	state_copy(states[i], state_first);
	if (state_of == i)
		state_of = SIM_NODES;
	process_enter(i);
}

/* ---- variables of a thread ---- */

static uint8_t *tls_at;
static size_t tls_len;

static int tls_find(struct dl_phdr_info *info, size_t size, void *data)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_TLS)
			continue;
		tls_at = info->dlpi_tls_data;
		tls_len = info->dlpi_phdr[i].p_memsz;
	}
	/* the program is the first object */
	return 1;
}

static void tls_swap(struct fiber *fiber)
{
	for (size_t i = 0; i < tls_len; i++) {
		const uint8_t byte = tls_at[i];

		tls_at[i] = fiber->tls[i];
		fiber->tls[i] = byte;
	}
}

/* ---- fibers ---- */

static struct fibers fibers[SIM_NODES];
static struct fiber *running;
static struct context world_context;
static bool alone;
#ifdef __SANITIZE_ADDRESS__
static void *world_fake_stack;
static const void *world_stack;
static size_t world_stack_len;
#endif

struct fiber *fiber_self(void)
{
	return running;
}

/* The sanitizer's own one clears what it knows of the whole stack each time; it is told of switches otherwise */
static void context_swap(struct context *from, struct context *to)
{
#ifdef __SANITIZE_ADDRESS__
	static int (*swap)(ucontext_t * from, const ucontext_t *to);

	if (!swap)
		swap = dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "swapcontext");
	swap(&from->first, &to->first);
#else
	from->begun = true;
	if (_setjmp(from->left))
		return;
	if (to->begun)
		_longjmp(to->left, 1);
	setcontext(&to->first);
#endif
}

/* The rest of a fiber's life: it does not come back once it has ended */
static void fiber_leave(struct fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(fiber->over ? NULL : &fiber->fake_stack, world_stack,
				       world_stack_len);
#endif
	context_swap(&fiber->context, &world_context);
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(fiber->fake_stack, NULL, NULL);
#endif
}

static void fiber_main(void)
{
	struct fiber *fiber = running;

#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(NULL, &world_stack, &world_stack_len);
#endif
	fiber->run(fiber->arg);
	fiber->over = true;
	world.moved = true;
	fiber_leave(fiber);
}

struct fiber *fiber_start(void *(*run)(void *arg), void *arg)
{
	struct fiber *fiber = calloc(1, sizeof *fiber);

	if (!tls_at)
		dl_iterate_phdr(tls_find, NULL);
	*fiber = (struct fiber){.node = world.current, .run = run, .arg = arg};
	fiber->tls = calloc(1, tls_len + 1);
	fiber->stack = mmap(NULL, FIBER_STACK, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fiber->stack == MAP_FAILED || getcontext(&fiber->context.first))
		abort();
	fiber->context.first.uc_stack.ss_sp = fiber->stack;
	fiber->context.first.uc_stack.ss_size = FIBER_STACK;
	makecontext(&fiber->context.first, fiber_main, 0);
	if (!fibers[world.current].tqh_last)
		TAILQ_INIT(&fibers[world.current]);
	TAILQ_INSERT_TAIL(&fibers[world.current], fiber, link);
	return fiber;
}

bool fiber_timed;
uint64_t fiber_spent, fiber_aside;

uint64_t fiber_clock(void)
{
	struct timespec now = {0};

	if (fiber_timed)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t) now.tv_sec * SIM_S + (uint64_t) now.tv_nsec;
}

void fiber_resume(struct fiber *fiber)
{
	const bool moved = world.moved;
	uint64_t begun, aside = fiber_aside;

	process_enter(fiber->node);
	running = fiber;
	world.moved = false;
	tls_swap(fiber);
	begun = fiber_clock();
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(&world_fake_stack, fiber->stack, FIBER_STACK);
#endif
	context_swap(&world_context, &fiber->context);
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(world_fake_stack, NULL, NULL);
#endif
	if (world.moved)
		fiber_spent += fiber_clock() - begun - (fiber_aside - aside);
	world.moved |= moved;
	tls_swap(fiber);
	running = NULL;
}

void fiber_free(struct fiber *fiber)
{
	TAILQ_REMOVE(&fibers[fiber->node], fiber, link);
	munmap(fiber->stack, FIBER_STACK);
	free(fiber->tls);
	free(fiber);
}

void fiber_kill_all(unsigned int i)
{
	while (fibers[i].tqh_last && !TAILQ_EMPTY(&fibers[i]))
		fiber_free(TAILQ_FIRST(&fibers[i]));
}

bool fiber_has_ended(const struct fiber *fiber)
{
	return fiber->over;
}

bool fiber_is_ready(const struct fiber *fiber)
{
	if (fiber->over)
		return false;
	world.current = fiber->node;
	return !fiber->until || world.now >= fiber->until ||
	       (fiber->ready && fiber->ready(fiber->what));
}

bool fiber_wait(bool (*ready)(const void *what), const void *what, uint64_t until)
{
	struct fiber *fiber = running;

	if (ready && ready(what))
		return true;
	if (world.now >= until)
		return false;
	if (!fiber)
		world_fail("n%u: the world itself is to wait", world.current);
	if (alone && until == UINT64_MAX)
		world_fail("n%u: a child of fork() waits for a thread that it has not",
			   world.current);
	if (alone) {
		world.now = until;
		return ready && ready(what);
	}
	fiber->ready = ready;
	fiber->what = what;
	fiber->until = until;
	fiber->naps = until - world.now <= FIBER_NAP;
	fiber_leave(fiber);
	fiber->ready = NULL;
	fiber->until = 0;
	return ready && ready(what);
}

void fiber_yield(void)
{
	if (running && !alone)
		fiber_leave(running);
}

void fiber_alone(void)
{
	alone = true;
}

void fiber_switch_point(void)
{
	const struct fibers *all = &fibers[world.current];

	if (!running || alone || exhaust_on || !TAILQ_NEXT(TAILQ_FIRST(all), link) ||
	    world_upto(FIBER_SWITCHES))
		return;
	fiber_leave(running);
}

struct fiber *fiber_next(unsigned int i, struct fiber *before)
{
	if (!fibers[i].tqh_last)
		return NULL;
	if (!before)
		before = TAILQ_FIRST(&fibers[i]);
	return before ? TAILQ_NEXT(before, link) : NULL;
}

uint64_t fiber_due(void)
{
	uint64_t due = UINT64_MAX;

	for (unsigned int i = 0; i < SIM_NODES; i++) {
		struct fiber *fiber;

		if (!fibers[i].tqh_last || nodes[i].state == NODE_STOPPED)
			continue;
		TAILQ_FOREACH(fiber, &fibers[i], link) {
			if (!fiber->over && (!fiber->naps || exhaust_on) &&
			    fiber->until > world.now && fiber->until < due)
				due = fiber->until;
		}
	}
	return due;
}
