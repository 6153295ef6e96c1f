/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of conf.c: what the FI_P2P_* variables may be. libfabric reads a variable
 * once in the life of a process: every row is a scene of its own.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"

#define KiB ((size_t) 1 << 10)
#define MiB ((size_t) 1 << 20)

#define EAGER "FI_P2P_EAGER_SIZE="
#define CHUNK "FI_P2P_CHUNK_SIZE="
#define PINNED "FI_P2P_PINNED_SIZE="
#define PATH "FI_P2P_PATH="
#define PIN "FI_P2P_PIN="
#define MAP_SIZE "FI_P2P_MAP_SIZE="
#define MAP_COUNT "FI_P2P_MAP_COUNT="
#define STATS "FI_P2P_STATS="
#define CUDA "FI_P2P_CUDA="
#define ROCM "FI_P2P_ROCM="
#define GDRCOPY "FI_P2P_GDRCOPY="
#define CUDA_API "FI_P2P_CUDA_API="
#define PROXY_CPUS "FI_P2P_PROXY_CPUS="

/* In @want, a size of 0 is the default; what is eager is never more than a piece */
struct conf_case {
	const char *env[4];
	struct conf want;
};

#define GPUS(use_cuda, use_rocm, ...)                                                          \
	{                                                                                      \
		.cuda = use_cuda, .rocm = use_rocm, __VA_ARGS__                                \
	}
#define BUT(...) GPUS(true, true, __VA_ARGS__)
#define IS(eager, chunk, pinned, use_cuda)                                                     \
	GPUS(use_cuda, true, .eager_size = (eager), .chunk_size = (chunk),                     \
	     .pinned_size = (pinned))
#define DEFAULT IS(0, 0, 0, true)

static const struct conf_case good[] = {
	{{NULL}, DEFAULT},
	{{EAGER "4096"}, IS(4096, 0, 0, true)},
	{{EAGER "4097"}, IS(4097, 0, 0, true)},
	{{EAGER "8k"}, IS(8 * KiB, 0, 0, true)},
	{{EAGER "8K"}, IS(8 * KiB, 0, 0, true)},
	{{EAGER "0x2000"}, IS(8 * KiB, 0, 0, true)},
	{{EAGER "1m"}, IS(1 * MiB, 0, 0, true)},
	{{EAGER "1048576"}, IS(1 * MiB, 0, 0, true)},
	{{CHUNK "16384"}, IS(0, 16 * KiB, 0, true)},
	{{CHUNK "16385"}, IS(0, 16385, 0, true)},
	{{CHUNK "4M"}, IS(0, 4 * MiB, 0, true)},
	{{CHUNK "64m", PINNED "1g"}, IS(0, 64 * MiB, 1024 * MiB, true)},
	{{PINNED "1G"}, IS(0, 0, 1024 * MiB, true)},
	{{PINNED "1024g"}, IS(0, 0, (size_t) 1 << 40, true)},
	{{PINNED "4m", CHUNK "0x80000"}, IS(0, 512 * KiB, 4 * MiB, true)},
	{{PINNED "0x400000", EAGER "16k", CHUNK "16k"}, IS(16 * KiB, 16 * KiB, 4 * MiB, true)},
	/* a message that is longer than a piece is sent in pieces */
	{{EAGER "64m"}, IS(64 * MiB, 0, 0, true)},
	{{EAGER "16385", CHUNK "16k"}, IS(16 * KiB, 16 * KiB, 0, true)},
	{{EAGER "16384", CHUNK "16385"}, IS(16 * KiB, 16385, 0, true)},
	{{CHUNK "8388608", PINNED "64m"}, IS(0, 8 * MiB, 64 * MiB, true)},
	{{PINNED "8388608", CHUNK "1m"}, IS(0, 1 * MiB, 8 * MiB, true)},
	{{ROCM "yes"}, DEFAULT},
	{{ROCM "no"}, GPUS(true, false, .stats = CONF_STATS_NO)},
	{{ROCM "0", CUDA "0"}, GPUS(false, false, .stats = CONF_STATS_NO)},
	{{CUDA "1"}, DEFAULT},
	{{CUDA "yes"}, DEFAULT},
	{{CUDA "ON"}, DEFAULT},
	{{CUDA "True"}, DEFAULT},
	{{CUDA "0"}, IS(0, 0, 0, false)},
	{{CUDA "no"}, IS(0, 0, 0, false)},
	{{CUDA "Off"}, IS(0, 0, 0, false)},
	{{CUDA "FALSE", EAGER "32k"}, IS(32 * KiB, 0, 0, false)},
	{{PATH "auto"}, DEFAULT},
	{{PATH "peer"}, BUT(.path = CONF_PATH_PEER)},
	{{PATH "Stage"}, BUT(.path = CONF_PATH_STAGE)},
	{{PIN "auto"}, DEFAULT},
	{{PIN "dmabuf"}, BUT(.pin = CONF_PIN_DMABUF)},
	{{PIN "PEERMEM"}, BUT(.pin = CONF_PIN_PEERMEM)},
	{{PIN "none"}, BUT(.pin = CONF_PIN_NONE)},
	{{PATH "peer", PIN "dmabuf", STATS "1"},
	 BUT(.path = CONF_PATH_PEER, .pin = CONF_PIN_DMABUF, .stats = CONF_STATS_YES)},
	{{MAP_SIZE "65536"}, BUT(.map_size = 64 * KiB)},
	{{MAP_SIZE "65537"}, BUT(.map_size = 64 * KiB + 1)},
	{{MAP_SIZE "16g"}, DEFAULT},
	{{MAP_SIZE "1048576g"}, BUT(.map_size = (size_t) 1 << 50)},
	{{MAP_SIZE "1125899906842624"}, BUT(.map_size = (size_t) 1 << 50)},
	{{MAP_SIZE "5000000000k"}, BUT(.map_size = 5000000000 * KiB)},
	{{MAP_COUNT "1"}, BUT(.map_count = 1)},
	{{MAP_COUNT "1025"}, BUT(.map_count = 1025)},
	{{MAP_COUNT "1m"}, BUT(.map_count = 1 << 20)},
	{{MAP_COUNT "1048576", MAP_SIZE "1m"}, BUT(.map_count = 1 << 20, .map_size = 1 * MiB)},
	{{STATS "yes"}, BUT(.stats = CONF_STATS_YES)},
	{{STATS "TRUE"}, BUT(.stats = CONF_STATS_YES)},
	{{STATS "Json"}, BUT(.stats = CONF_STATS_JSON)},
	{{STATS "0"}, DEFAULT},
	{{STATS "off"}, DEFAULT},
	{{GDRCOPY "yes"}, BUT(.gdrcopy = true)},
	{{GDRCOPY "0"}, DEFAULT},
	{{CUDA_API "async"}, BUT(.cuda_api = CONF_API_ASYNC)},
	{{CUDA_API "Strict"}, DEFAULT},
	{{PROXY_CPUS "AUTO"}, DEFAULT},
	{{PROXY_CPUS "0-3,8"}, BUT(.proxy_cpus = "0-3,8")},
};

/* Refused; whatever is not at fault in them is read all the same */
static const struct conf_case bad[] = {
	{{EAGER ""}, DEFAULT},
	{{CUDA_API ""}, DEFAULT},
	{{CUDA_API "no"}, DEFAULT},
	{{CUDA_API "async,strict"}, DEFAULT},
	{{EAGER "large"}, DEFAULT},
	{{EAGER "k"}, DEFAULT},
	{{EAGER "-1"}, DEFAULT},
	{{EAGER "-16384"}, DEFAULT},
	{{EAGER "+16384"}, DEFAULT},
	{{EAGER " 16384"}, DEFAULT},
	{{EAGER "16384 "}, DEFAULT},
	{{EAGER "16x"}, DEFAULT},
	{{EAGER "16kb"}, DEFAULT},
	{{EAGER "16kk"}, DEFAULT},
	{{EAGER "16 k"}, DEFAULT},
	{{EAGER "16384,1"}, DEFAULT},
	{{EAGER "16384.0"}, DEFAULT},
	{{EAGER "1e5"}, DEFAULT},
	{{EAGER "0x"}, DEFAULT},
	{{EAGER "0xg"}, DEFAULT},
	{{EAGER "0"}, DEFAULT},
	{{EAGER "4095"}, DEFAULT},
	{{EAGER "67108865"}, DEFAULT},
	{{EAGER "65537k"}, DEFAULT},
	{{EAGER "65m"}, DEFAULT},
	{{EAGER "18446744073709551616"}, DEFAULT},
	{{EAGER "18446744073709567999"}, DEFAULT},
	{{EAGER "99999999999999999999999"}, DEFAULT},
	{{EAGER "17179869185g"}, DEFAULT},
	{{EAGER "18014398509481992k"}, DEFAULT},
	{{CHUNK "16383"}, DEFAULT},
	{{CHUNK "65m"}, DEFAULT},
	{{CHUNK "67108865"}, DEFAULT},
	{{PINNED "4194303"}, DEFAULT},
	{{PINNED "1025g"}, DEFAULT},
	{{PINNED "1099511627777"}, DEFAULT},
	/* fewer than eight pieces fit */
	{{CHUNK "8388609"}, IS(0, 8388609, 0, true)},
	{{CHUNK "9m"}, IS(0, 9 * MiB, 0, true)},
	{{CHUNK "524289", PINNED "4m"}, IS(0, 524289, 4 * MiB, true)},
	{{PINNED "8388607", CHUNK "1m"}, IS(0, 1 * MiB, 8388607, true)},
	{{CUDA ""}, DEFAULT},
	{{CUDA "maybe"}, DEFAULT},
	{{CUDA "2"}, DEFAULT},
	{{CUDA "yes "}, DEFAULT},
	{{CUDA "y"}, DEFAULT},
	{{ROCM "n"}, DEFAULT},
	{{STATS ""}, DEFAULT},
	{{STATS "all"}, DEFAULT},
	{{STATS "2"}, DEFAULT},
	{{STATS "json "}, DEFAULT},
	/* a word's number is no word, nor is a part of it, nor one of the other's */
	{{PATH ""}, DEFAULT},
	{{PATH "1"}, DEFAULT},
	{{PATH "pee"}, DEFAULT},
	{{PATH "peers"}, DEFAULT},
	{{PATH " peer"}, DEFAULT},
	{{PATH "peer,stage"}, DEFAULT},
	{{PATH "none"}, DEFAULT},
	{{PATH "dmabuf"}, DEFAULT},
	{{PIN ""}, DEFAULT},
	{{PIN "0"}, DEFAULT},
	{{PIN "no"}, DEFAULT},
	{{PIN "dma-buf"}, DEFAULT},
	{{PIN "peermem "}, DEFAULT},
	{{PIN "stage"}, DEFAULT},
	{{MAP_SIZE "0"}, DEFAULT},
	{{MAP_SIZE "65535"}, DEFAULT},
	{{MAP_SIZE "1048577g"}, DEFAULT},
	{{MAP_SIZE "1125899906842625"}, DEFAULT},
	{{MAP_SIZE "all"}, DEFAULT},
	{{MAP_COUNT "0"}, DEFAULT},
	{{MAP_COUNT "-1"}, DEFAULT},
	{{MAP_COUNT "1048577"}, DEFAULT},
	{{MAP_COUNT "1025k"}, DEFAULT},
	{{MAP_COUNT "many"}, DEFAULT},
	/* one good value does not make up for a bad one, before or after it */
	{{EAGER "x", CUDA "no"}, IS(0, 0, 0, false)},
	{{EAGER "8k", CUDA "x"}, IS(8 * KiB, 0, 0, true)},
	{{PATH "x", PIN "none"}, BUT(.pin = CONF_PIN_NONE)},
	{{PIN "x", PATH "stage"}, BUT(.path = CONF_PATH_STAGE)},
};

static size_t either(size_t size, size_t fallback)
{
	return size ? size : fallback;
}

static bool same(const struct conf *want, const struct conf *initial)
{
	size_t chunk = either(want->chunk_size, initial->chunk_size);
	size_t eager = either(want->eager_size, initial->eager_size);

	return conf.eager_size == (eager < chunk ? eager : chunk) && conf.chunk_size == chunk &&
	       conf.pinned_size == either(want->pinned_size, initial->pinned_size) &&
	       conf.map_size == either(want->map_size, initial->map_size) &&
	       conf.map_count == either(want->map_count, initial->map_count) &&
	       conf.path == want->path && conf.pin == want->pin && conf.stats == want->stats &&
	       conf.cuda == want->cuda && conf.rocm == want->rocm &&
	       conf.gdrcopy == want->gdrcopy && conf.cuda_api == want->cuda_api &&
	       !strcmp(conf.proxy_cpus, want->proxy_cpus ? want->proxy_cpus : "auto");
}

/* The child: returns its exit status */
static int read_conf(const struct conf_case *row, int want)
{
	const struct conf initial = conf;

	for (const char *const *env = row->env; *env; env++)
		putenv((char *) (uintptr_t) *env);
	/* before it is read there is nothing wrong; read twice, it is the same */
	if (conf_status())
		return 1;
	for (int again = 0; again < 2; again++) {
		if (conf_read() != want || conf_status() != want)
			return 2;
		if (!same(&row->want, &initial))
			return 3;
	}
	return 0;
}

static void check_rows(const struct conf_case *rows, size_t count, int want)
{
	static const char *const why[] = {"", "bad before it is read", "other result",
					  "other values"};
	int status;
	pid_t pid;

	for (size_t i = 0; i < count; i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (!pid)
			_exit(read_conf(&rows[i], want));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || (size_t) WEXITSTATUS(status) >= UNIT_COUNT(why))
			fail_msg("row %zu: wait status 0x%x", i, status);
		if (status)
			fail_msg("row %zu (%s): %s", i, rows[i].env[0] ? rows[i].env[0] : "-",
				 why[WEXITSTATUS(status)]);
	}
}

static void test_good(void **state)
{
	check_rows(good, UNIT_COUNT(good), 0);
}

static void test_bad(void **state)
{
	check_rows(bad, UNIT_COUNT(bad), -FI_EINVAL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
	};
	static const char *const names[] = {
		"FI_P2P_EAGER_SIZE", "FI_P2P_CHUNK_SIZE", "FI_P2P_PINNED_SIZE",
		"FI_P2P_PATH",       "FI_P2P_PIN",        "FI_P2P_MAP_SIZE",
		"FI_P2P_MAP_COUNT",  "FI_P2P_STATS",      "FI_P2P_CUDA",
		"FI_P2P_ROCM",       "FI_P2P_GDRCOPY",    "FI_P2P_CUDA_API",
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	/* the user's own settings are not what is tested */
	for (size_t i = 0; i < UNIT_COUNT(names); i++)
		unsetenv(names[i]);
	return unit_main(argc, argv, &unit);
}
