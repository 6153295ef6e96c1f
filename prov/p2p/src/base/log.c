/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The provider that logs. See log.h. */
#include "base/log.h"

struct fi_provider *log_prov;
