/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Proves at compile time that p2p_cuda_abi.h says the same as NVIDIA's cuda.h. Without a cuda.h
 * this file is empty.
 *
 * It wants the cuda.h of the release that CUDA_VERSION in our header names. An older or newer
 * one may lack an enumerator, and then this does not compile.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#if HAVE_CUDA_H
#include <stddef.h>
#include <cuda.h>

#define OUR_CUDA_VERSION 13000
#endif

#if defined(CUDA_VERSION) && CUDA_VERSION == OUR_CUDA_VERSION
#define P2P_CUDA_ABI_LISTS_ONLY
#include "dev/p2p_cuda_abi.h"

#define CHECK(expr, value) _Static_assert((expr) == (value), #expr);
P2P_CUDA_ENUMS(CHECK)
P2P_CUDA_SIZES(CHECK)
#endif

int main(void)
{
	return 0;
}
