/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The backends that dev.c chooses from. */
#ifndef P2P_DEV_BACKENDS_H
#define P2P_DEV_BACKENDS_H

#include "dev/dev.h"

extern const struct dev_ops dev_cuda_ops;
extern const struct dev_ops dev_rocr_ops;

#endif /* P2P_DEV_BACKENDS_H */
