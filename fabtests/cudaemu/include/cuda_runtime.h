/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The name that most programs include. NVIDIA's has C++ templates and the syntax of kernels
 * beside the interface; ours has the interface.
 */
#include "cuda_runtime_api.h"
