/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of pmem.c and flusher.c: what mappings are, and that each flush ends once. */
#include "unit.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "mem/flusher.h"

/* As the kernel writes it: of each mapping the first line and some others */
static const char smaps[] =
	"1000-3000 rw-s 00000000 fe:00 77                         /data/file\n"
	"Size:                  8 kB\n"
	"Anonymous:             0 kB\n"
	"VmFlags: rd wr sh mr mw me ms sd \n"
	"3000-4000 rw-s 00002000 fe:00 77                         /data/file\n"
	"VmFlags: rd wr sh mr mw me ms sd \n"
	"5000-6000 rw-s 00000000 103:02 78                        /pmem/a file with sf\n"
	"VmFlags: rd wr sh mr mw me ms sf mm hg \n"
	"6000-7000 rw-s 00000000 fe:00 79                         /data/other\n"
	"VmFlags: rd wr sh mr mw me ms sd \n"
	"8000-9000 rw-p 00000000 fe:00 77                         /data/file\n"
	"VmFlags: rd wr mr mw me sd \n"
	"9000-a000 rw-s 00000000 00:01 3                          /dev/zero (deleted)\n"
	"VmFlags: rd wr sh mr mw me ms sd \n"
	"b000-c000 rw-p 00000000 00:00 0 \n"
	"VmFlags: rd wr mr mw me ac sd \n"
	"c000-d000 rw-s 00000000 00:06 12                         /dev/dax0.0\n"
	"VmFlags: rd wr sh mr mw me ms mm hg \n";

#ifdef __x86_64__
#define DAX PMEM_DAX
#else
#define DAX PMEM_FILE
#endif

static struct iovec piece(uintptr_t start, uintptr_t end)
{
	return (struct iovec){(void *) start, end - start};
}

static void test_look(void **state)
{
	static const struct {
		uintptr_t start, end;
		enum pmem_kind kind;
	} cases[] = {
		{0x1000, 0x3000, PMEM_FILE}, {0x1001, 0x1002, PMEM_FILE},
		{0x1000, 0x4000, PMEM_FILE}, {0x2fff, 0x3001, PMEM_FILE},
		{0x3fff, 0x4001, PMEM_NOT},  {0xfff, 0x1001, PMEM_NOT},
		{0x4000, 0x5000, PMEM_NOT},  {0x5000, 0x6000, DAX},
		{0x5fff, 0x6001, PMEM_FILE}, {0x6000, 0x7000, PMEM_FILE},
		{0x8000, 0x9000, PMEM_NOT},  {0x9000, 0xa000, PMEM_NOT},
		{0xb000, 0xc000, PMEM_NOT},  {0xc000, 0xd000, DAX},
		{0xbfff, 0xc001, PMEM_NOT},  {0xd000, 0xd001, PMEM_NOT},
	};
	FILE *file = fmemopen((void *) smaps, sizeof smaps - 1, "r");

	assert_non_null(file);
	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		struct iovec iov = piece(cases[i].start, cases[i].end);

		if (pmem_look_in(file, &iov, 1) != cases[i].kind)
			fail_msg("row %zu", i);
	}
	fclose(file);
}

/* All pieces are what the least of them is. */
static void test_look_pieces(void **state)
{
	struct iovec iov[] = {piece(0xc000, 0xd000), piece(0x5000, 0x6000),
			      piece(0x1000, 0x2000), piece(0x8000, 0x9000)};
	FILE *file = fmemopen((void *) smaps, sizeof smaps - 1, "r");

	assert_non_null(file);
	assert_int_equal(pmem_look_in(file, iov, 2), DAX);
	assert_int_equal(pmem_look_in(file, iov, 3), PMEM_FILE);
	assert_int_equal(pmem_look_in(file, iov, 4), PMEM_NOT);
	fclose(file);
}

#define SIZE 65536

static char *map_file(void)
{
	FILE *file = tmpfile();
	char *map;

	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), SIZE), 0);
	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	fclose(file);
	return map;
}

/* The bytes stay what they are, whatever is done with them. */
static void test_flush(void **state)
{
	char *map = map_file();
	struct iovec iov[] = {{map + 1, 1}, {map + 100, 0}, {map + 4095, SIZE - 4095}};
	struct iovec nowhere = {map, 1};
	enum pmem_kind kind = PMEM_NOT;

	assert_int_equal(pmem_look(iov, UNIT_COUNT(iov), &kind), 0);
	assert_int_equal(kind, PMEM_FILE);
	memset(map, 7, SIZE);
	assert_int_equal(pmem_flush(PMEM_FILE, iov, UNIT_COUNT(iov)), 0);
	assert_int_equal(pmem_flush(PMEM_DAX, iov, UNIT_COUNT(iov)), 0);
	for (size_t i = 0; i < SIZE; i++)
		assert_int_equal(map[i], 7);
	munmap(map, SIZE);
	assert_int_equal(pmem_flush(PMEM_FILE, &nowhere, 1), -FI_ENOMEM);
}

#define FLUSHES 100

static unsigned int ended;

static void count(struct flush *flush, int status)
{
	assert_int_equal(status, 0);
	flush->count = 0;
	ended++;
}

static void test_flusher(void **state)
{
	char *map = map_file();
	struct iovec iov = {map, SIZE};
	struct flush flushes[FLUSHES];
	struct flusher flusher;
	unsigned int told = 0;

	flusher_init(&flusher);
	assert_int_equal(flusher_progress(&flusher), 0);
	assert_int_equal(flusher_start(&flusher), 0);
	assert_int_equal(flusher_start(&flusher), 0);
	for (size_t i = 0; i < FLUSHES; i++) {
		flushes[i] = (struct flush){
			.kind = PMEM_FILE,
			.iov = &iov,
			.count = 1,
			.done = count,
		};
		flusher_add(&flusher, &flushes[i]);
	}
	while (flusher.pending) {
		told += flusher_progress(&flusher);
		sched_yield();
	}
	assert_int_equal(told, FLUSHES);
	assert_int_equal(ended, FLUSHES);
	for (size_t i = 0; i < FLUSHES; i++)
		assert_int_equal(flushes[i].count, 0);
	flusher_fini(&flusher);
	munmap(map, SIZE);
}

static void test_flusher_unused(void **state)
{
	struct flusher flusher;

	flusher_init(&flusher);
	flusher_fini(&flusher);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_look),           cmocka_unit_test(test_look_pieces),
		cmocka_unit_test(test_flush),          cmocka_unit_test(test_flusher),
		cmocka_unit_test(test_flusher_unused),
	};
	static const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
