/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A file of one rank that the other one writes to, and its shadow: what would be left of it if the
 * machine lost power. This program's own msync() copies to the shadow what it was called for.
 */
#ifndef PMEM_FILE_H
#define PMEM_FILE_H

#include "ft_test.h"

#define PMEM_SIZE ((size_t) 8 << 20)
#define PMEM_PAGE ((size_t) 4096)
/* What lies in the last page cannot be made durable: msync() fails. */
#define PMEM_BROKEN (PMEM_SIZE - PMEM_PAGE)

/**
 * struct pmem_file - the file, at either rank.
 * @file, @shadow: descriptors
 * @map, @mr:	of the rank whose memory it is
 * @owner, @key, @base: what the other one knows of that
 */
struct pmem_file {
	int file, shadow;
	char *map;
	struct fid_mr *mr;
	pid_t owner;
	uint64_t key, base;
};

/** pmem_file_make() - make both, map one, register it with FI_RMA_PMEM, and tell the other rank */
int pmem_file_make(struct pmem_file *file, struct ft_proc *proc, struct ft_ctx *ctx);
/** pmem_file_meet() - open what the other rank has made */
int pmem_file_meet(struct pmem_file *file, struct ft_proc *proc);
/** pmem_file_kill() - kill its owner, and wait until it is dead */
int pmem_file_kill(struct pmem_file *file, struct ft_proc *proc);
void pmem_file_close(struct pmem_file *file);

/** pmem_file_holds() - do file and shadow have the pattern of @key at @at? Else that is an error */
int pmem_file_holds(const struct pmem_file *file, size_t at, size_t len, uint64_t key);
/** pmem_file_lacks() - has the file all of the pattern, and the shadow none of its bytes? */
int pmem_file_lacks(const struct pmem_file *file, size_t at, size_t len, uint64_t key);
/** pmem_file_word() - the word that the shadow has at @at */
int pmem_file_word(const struct pmem_file *file, size_t at, uint64_t *word);

#endif /* PMEM_FILE_H */
