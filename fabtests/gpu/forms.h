/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Programs that do the same in several forms: by the host, by a stream, by a kernel */
#ifndef FORMS_H
#define FORMS_H

#include "xpu_side.h"

/* What a form has taken since its begin: all of the time, and the processor's in this thread [us] */
struct form_time {
	double usec, cpu;
};

/** form_begin() - when all ranks are here, the time begins */
int form_begin(const struct xpu_side *side, struct form_time *time);
/** form_end() - when all ranks are here, rank 0 prints what @turns of the form @name have taken */
int form_end(const struct xpu_side *side, const struct form_time *time, const char *name,
	     uint64_t turns);

#endif /* FORMS_H */
