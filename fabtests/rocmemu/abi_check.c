/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Proves at compile time that p2p_hsa_abi.h says the same as ROCm's own headers: values
 * and layouts by assertions, functions by declaring them a second time. Empty where those
 * headers are not used. Unlike CUDA's they may be of any release: what we use is old.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#if HAVE_ROCM_H
#include <stddef.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#define P2P_HSA_ABI_LISTS_ONLY
#include "dev/p2p_hsa_abi.h"

#define CHECK(expr, value) _Static_assert((expr) == (value), #expr);
#define DECLARE(type, name, parameters) type name parameters;
P2P_HSA_ENUMS(CHECK)
P2P_HSA_SIZES(CHECK)
P2P_HSA_FUNCTIONS(DECLARE)
#endif

int main(void)
{
	return 0;
}
