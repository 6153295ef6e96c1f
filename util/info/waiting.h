/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_p2p_info --waiting: waiting.c asks, waiting_print.c prints. */
#ifndef INFO_WAITING_H
#define INFO_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config.h"
#include "xfer/survey.h"

/**
 * struct waiting_page - a domain of the process's.
 * @shared:	its page; the process and others may change it at any time
 * @seen:	the last answer; before there is one, the page as others have left it
 * @asked:	our question; @answered: it has its answer
 */
struct waiting_page {
	struct survey_page *shared;
	struct survey_page seen;
	ino_t inode;
	uint32_t asked;
	bool answered;
};

/**
 * struct waiting - a process.
 * @strange:	it has a page that cannot be read; @parent: it has one of this process's
 */
struct waiting {
	long pid;
	struct waiting_page *pages;
	size_t count;
	bool strange;
	long parent;
};

/* Prints what was found. Has any domain answered? */
bool waiting_print(const struct waiting *waiting);

#endif /* INFO_WAITING_H */
