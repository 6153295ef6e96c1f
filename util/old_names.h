/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Names that libfabric of 2.x calls deprecated, while 1.17 has no others. Its headers warn of each use by a
 * pragma that no option of the compiler silences. So configure has this file included before all else, where
 * these names are macros.
 */
#ifndef OLD_NAMES_H
#define OLD_NAMES_H

#include <rdma/fabric.h>

#undef FI_MR_UNSPEC
#undef FI_MR_BASIC
#undef FI_MR_SCALABLE
#undef FI_LOCAL_MR
#undef FI_ORDER_STRICT
#undef FI_ORDER_DATA

#define FI_MR_UNSPEC 0
#define FI_MR_BASIC (1 << 0)
#define FI_MR_SCALABLE (1 << 1)
#define FI_LOCAL_MR (1ULL << 55)
#define FI_ORDER_STRICT 0x1FF
#define FI_ORDER_DATA (1ULL << 16)

#endif /* OLD_NAMES_H */
