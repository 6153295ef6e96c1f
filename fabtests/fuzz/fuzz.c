/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Inputs of fuzzers. See fuzz.h. */
#include "fuzz.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include "base/base.h"
#include "base/log.h"

static struct fi_provider fuzz_provider = {
	.version = FI_VERSION(0, 1),
	.fi_version = FI_VERSION(1, 17),
	.name = "fuzz",
};

uint64_t fuzz_take(struct fuzz *in, size_t bytes)
{
	uint64_t value = 0;

	fuzz_bytes(in, &value, bytes);
	return value;
}

unsigned int fuzz_pick(struct fuzz *in, unsigned int count)
{
	return (unsigned int) fuzz_take(in, 1) % count;
}

bool fuzz_rarely(struct fuzz *in, unsigned int in_all)
{
	return fuzz_pick(in, in_all) == in_all - 1;
}

uint64_t fuzz_number(struct fuzz *in)
{
	const unsigned int kind = (unsigned int) fuzz_take(in, 1);
	const uint64_t power = 1ULL << kind % 64;

	switch (kind / 64) {
	case 0:
		return power;
	case 1:
		return power - 1;
	case 2:
		return kind % 64 < 32 ? kind % 64 : -(uint64_t) (kind % 32);
	default:
		return fuzz_take(in, 8);
	}
}

size_t fuzz_bytes(struct fuzz *in, void *buf, size_t max)
{
	const size_t len = P2P_MIN(max, in->left);

	if (len)
		memcpy(buf, in->at, len);
	in->at += len;
	in->left -= len;
	return len;
}

void fuzz_start(void)
{
	static const int signals[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};

	/* libfabric reads it once, before the first line */
	setenv("FI_LOG_LEVEL", "warn", 0);
	setenv("FI_LOG_PROV", "nobody", 0);
	/* libraries of libfabric's have taken these, and libFuzzer takes only what nobody has */
	for (size_t i = 0; i < FUZZ_COUNT(signals); i++)
		signal(signals[i], SIG_DFL);
	log_prov = &fuzz_provider;
}

/* ---- what came of them ---- */

static struct {
	const char *what;
	const uint64_t *count;
} tells[8];
static size_t tell_count;

static void tell_all(void)
{
	for (size_t i = 0; i < tell_count; i++)
		fprintf(stderr, "%s: %" PRIu64 "\n", tells[i].what, *tells[i].count);
}

void fuzz_tell(const char *what, const uint64_t *count)
{
	FUZZ_CHECK(tell_count < FUZZ_COUNT(tells));
	if (!tell_count)
		atexit(tell_all);
	tells[tell_count].what = what;
	tells[tell_count++].count = count;
}
