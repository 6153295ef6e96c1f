/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ten thousand peers that one endpoint knows, all idle, over a core provider made up in the test: each is found,
 * and takes little. What a look costs with them and without them is printed.
 */
#include "unit_fake_core.h"

#include <malloc.h>
#include <time.h>

#include "xfer/life.h"
#include "xfer/progress.h"

#define PEERS 10000
#define LOOKS 50000

/* A record, its token, and what two hash tables have for it */
#define PEER_BYTES_MAX 704

static struct xfer_ep ep;

static fi_addr_t peer_addr(int number)
{
	return FAKE_KNOWN + (fi_addr_t) number;
}

/* How long one pass of progress takes [ns] */
static double look(void)
{
	struct timespec began, ended;

	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < LOOKS; i++)
		xfer_progress(&fake_xfer);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	return ((double) (ended.tv_sec - began.tv_sec) * 1e9 +
		(double) (ended.tv_nsec - began.tv_nsec)) /
	       LOOKS;
}

static void expect_all(bool known)
{
	p2p_lock_take(&fake_xfer.lock);
	for (int i = 0; i < PEERS; i++) {
		struct xfer_peer *peer = xfer_peer_find(&ep, peer_addr(i));

		assert_int_equal(peer != NULL, known);
		assert_ptr_equal(xfer_peer_of(&ep, FAKE_TOKEN(peer_addr(i))), peer);
	}
	p2p_lock_drop(&fake_xfer.lock);
}

static void test_idle(void **state)
{
	double before, idle, after;
	size_t bytes;

	fake_start(false);
	fake_ep_open(&ep, &fake_cq);
	look();
	before = look();
	bytes = mallinfo2().uordblks;
	for (int i = 0; i < PEERS; i++)
		fake_peer(&ep, peer_addr(i));
	bytes = (mallinfo2().uordblks - bytes) / PEERS;
	expect_all(true);
	idle = look();
	p2p_lock_take(&fake_xfer.lock);
	for (int i = 0; i < PEERS; i++)
		xfer_peer_forget(&ep, peer_addr(i));
	p2p_lock_drop(&fake_xfer.lock);
	expect_all(false);
	after = look();
	print_message(
		"%d idle peers: %zu bytes each; a look takes %.0f ns with them, %.0f before "
		"and %.0f after\n",
		PEERS, bytes, idle, before, after);
	assert_true(bytes <= PEER_BYTES_MAX);
	fake_ep_close(&ep);
	fake_stop();
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(test_idle)};
	static const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
	};

	return unit_main(argc, argv, &unit);
}
