/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the fuzzers share. Each is a program of libFuzzer's: an input is a string of bytes, which the
 * program takes from the front. A decision is one byte, so that a small change of an input is a small
 * change of what happens. Behind the end of an input there are zeros.
 */
#ifndef P2P_FUZZ_H
#define P2P_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Ends the program, as a sanitizer would: the input is kept, and the command to repeat it is shown. */
#define FUZZ_CHECK(cond)                                                                       \
	do {                                                                                   \
		if (!(cond)) {                                                                 \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);     \
			abort();                                                               \
		}                                                                              \
	} while (0)

/* What is left of an input */
struct fuzz {
	const uint8_t *at;
	size_t left;
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next number of @bytes bytes, 8 at most */
uint64_t fuzz_take(struct fuzz *in, size_t bytes);

/* One of 0 to @count - 1 */
unsigned int fuzz_pick(struct fuzz *in, unsigned int count);

/* Yes, in one of @in_all cases */
bool fuzz_rarely(struct fuzz *in, unsigned int in_all);

/* A number from where mistakes are: near 0, near a power of two, near the greatest; or any */
uint64_t fuzz_number(struct fuzz *in);

/* Up to @max bytes as they are; their number */
size_t fuzz_bytes(struct fuzz *in, void *buf, size_t max);

/* Logs go nowhere, unless FI_LOG_LEVEL is set: a lie is worth a line to users, not here. */
void fuzz_start(void);

/* Counts what came of inputs, for the line that the program ends with: "@what: number". */
void fuzz_tell(const char *what, const uint64_t *count);

#endif /* P2P_FUZZ_H */
