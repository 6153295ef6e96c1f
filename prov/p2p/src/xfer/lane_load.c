/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How many lanes pay. See lane_load.h. */
#include "xfer/lane_load.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"

/* Each lane is a thread at either end; and there is the application */
#define LANE_LOAD_CPUS 2

/* How often the number is thought about, and for how long none is used where none pays [ms] */
#define LANE_LOAD_LOOK 50
#define LANE_LOAD_REST 2000

/* What is less says nothing [ns] */
#define LANE_LOAD_LEAST 1000000

/*
 * Of the time in which threads were ready to run they waited: one in so many is too much, or little. To be woken counts
 * as waiting, and may take a tenth of the time where processors sleep deeply.
 */
#define LANE_LOAD_MUCH 2
#define LANE_LOAD_LITTLE 4

unsigned int lane_load_start(unsigned int most)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set))
		return 1;
	return P2P_MIN(most, P2P_MAX(1u, (unsigned int) CPU_COUNT(&set) / LANE_LOAD_CPUS));
}

int lane_load_open(void)
{
	return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

void lane_load_read(int fd, uint64_t *ran, uint64_t *waited)
{
	unsigned long long thread_ran, thread_waited;
	char text[96];
	ssize_t len = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);

	if (len <= 0)
		return;
	text[len] = '\0';
	if (sscanf(text, "%llu %llu", &thread_ran, &thread_waited) != 2)
		return;
	*ran += thread_ran;
	*waited += thread_waited;
}

bool lane_load_due(const struct lane_load *load, uint64_t now)
{
	return now - load->looked >= (load->use ? LANE_LOAD_LOOK : LANE_LOAD_REST);
}

void lane_load_think(struct lane_load *load, uint64_t now, uint64_t ran, uint64_t waited)
{
	const uint64_t waits = waited - load->waited, ready = ran - load->ran + waits;
	const unsigned int before = load->use;

	load->looked = now;
	if (load->use && ready < LANE_LOAD_LEAST)
		return;
	load->ran = ran;
	load->waited = waited;
	if (!load->use)
		load->use = P2P_MIN(2u, load->most);
	else if (waits > ready / LANE_LOAD_MUCH)
		load->use = load->use < 4 ? 0 : load->use / 2;
	else if (waits < ready / LANE_LOAD_LITTLE)
		load->use = P2P_MIN(2 * load->use, load->most);
	if (load->use != before)
		P2P_INFO("%u lanes: their threads waited for a processor for %u in 100\n",
			 load->use, ready ? (unsigned int) (100 * waits / ready) : 0);
}
