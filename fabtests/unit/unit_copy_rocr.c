/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The scenes of unit_copy.c with ROCm. */
#include "unit_copy.h"

#define SLOW "CUDAEMU_COPY_LATENCY_US=20"
#define FAIL(what) "CUDAEMU_FAIL=" what

const struct unit_copy_play unit_copy_plays[] = {
	{"scene_bytes", {NULL}},
	{"scene_bytes", {SLOW}},
	{"scene_bytes", {"CUDAEMU_SHUFFLE=7"}},
	{"scene_many", {NULL}},
	{"scene_many", {SLOW}},
	{"scene_many", {"CUDAEMU_SHUFFLE=7"}},
	{"scene_close", {SLOW}},
	{"scene_one_fails", {FAIL("hsa_amd_memory_async_copy:1")}},
	{"scene_one_fails", {FAIL("hsa_amd_memory_async_copy:5")}},
	{"scene_one_fails", {FAIL("hsa_amd_memory_async_copy:17")}},
	{"scene_one_fails", {FAIL("hsa_amd_memory_async_copy:9"), SLOW}},
	/* the first is the application's */
	{"scene_one_fails", {FAIL("hsa_init:2")}},
	{"scene_one_fails", {FAIL("hsa_init:3")}},
	{"scene_one_fails", {FAIL("hsa_amd_signal_create:1")}},
	{"scene_one_fails", {FAIL("hsa_amd_signal_create:300:2")}},
	{"scene_device_fails", {FAIL("hsa_copy_ends:1")}},
	{"scene_device_fails", {FAIL("hsa_copy_ends:1+"), SLOW}},
	{"scene_run", {NULL}},
	{"scene_run", {SLOW}},
	{"scene_nothing_comes", {FAIL("hsa_copy_ends:1+"), SLOW}},
};

const size_t unit_copy_play_count = UNIT_COUNT(unit_copy_plays);
