/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The scenes of unit_copy.c with CUDA: with and without stream memory operations. */
#include "unit_copy.h"

#define EVENTS "CUDAEMU_NO_MEMOPS=1"
#define SLOW "CUDAEMU_COPY_LATENCY_US=20"
#define FAIL(what) "CUDAEMU_FAIL=" what

const struct unit_copy_play unit_copy_plays[] = {
	{"scene_bytes", {NULL}},
	{"scene_bytes", {EVENTS}},
	{"scene_bytes", {SLOW}},
	{"scene_bytes", {"CUDAEMU_SHUFFLE=7"}},
	{"scene_bytes", {FAIL("cuStreamSynchronize:1+"), "CUDAEMU_COPY_LATENCY_US=2000"}},
	{"scene_many", {NULL}},
	{"scene_many", {EVENTS}},
	{"scene_many", {SLOW}},
	{"scene_many", {EVENTS, SLOW}},
	{"scene_many", {"CUDAEMU_SHUFFLE=7"}},
	{"scene_close", {SLOW}},
	{"scene_close", {EVENTS, SLOW}},
	{"scene_one_fails", {FAIL("cuMemcpyAsync:1")}},
	{"scene_one_fails", {FAIL("cuMemcpyAsync:5")}},
	{"scene_one_fails", {FAIL("cuMemcpyAsync:17")}},
	{"scene_one_fails", {FAIL("cuMemcpyAsync:9"), SLOW}},
	{"scene_one_fails", {FAIL("cuMemcpyAsync:9"), EVENTS}},
	/* the first three of these are the backend's trials */
	{"scene_one_fails", {FAIL("cuStreamWriteValue32:4")}},
	{"scene_one_fails", {FAIL("cuStreamWriteValue32:6")}},
	{"scene_one_fails", {FAIL("cuEventRecord:1"), EVENTS}},
	{"scene_one_fails", {FAIL("cuEventRecord:4"), EVENTS}},
	{"scene_one_fails", {FAIL("cuStreamCreate:1")}},
	{"scene_one_fails", {FAIL("cuStreamCreate:2")}},
	{"scene_one_fails", {FAIL("cuStreamCreate:3")}},
	{"scene_one_fails", {FAIL("cuStreamCreate:1:2"), EVENTS}},
	/* without pinned memory for marks there are events */
	{"scene_many", {FAIL("cuMemHostRegister:1")}},
	{"scene_many", {FAIL("cuMemHostRegister:2")}},
	{"scene_many", {FAIL("cuMemHostRegister:1+:2"), SLOW}},
	{"scene_one_fails", {FAIL("cuEventCreate:1"), EVENTS}},
	{"scene_one_fails", {FAIL("cuEventCreate:300"), EVENTS}},
	{"scene_device_fails", {FAIL("cuEventQuery:1+:719"), EVENTS}},
	{"scene_device_fails", {FAIL("cuStreamQuery:1+:700"), "CUDAEMU_HANG_COPY=1"}},
	{"scene_held_fails", {FAIL("cuMemcpyBatchAsync:1")}},
	{"scene_held_fails", {FAIL("cuMemcpyBatchAsync:2"), SLOW}},
	{"scene_held_fails", {FAIL("cuMemcpyBatchAsync:1+:801,cuMemcpyAsync:22")}},
	{"scene_held_fails", {FAIL("cuStreamWriteValue32:4")}},
	{"scene_held_fails", {FAIL("cuEventRecord:2"), EVENTS}},
	{"scene_run", {NULL}},
	{"scene_run", {EVENTS}},
	{"scene_run", {SLOW}},
	{"scene_run", {"CUDAEMU_SHUFFLE=7"}},
	{"scene_nothing_comes", {FAIL("cuStreamQuery:1+:700"), "CUDAEMU_HANG_COPY=1"}},
};

const size_t unit_copy_play_count = UNIT_COUNT(unit_copy_plays);
