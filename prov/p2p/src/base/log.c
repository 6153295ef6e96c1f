/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who logs. See log.h. */
#include "base/log.h"

struct fi_provider *log_prov;
