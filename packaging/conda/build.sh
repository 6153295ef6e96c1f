#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# conda build runs this. An MPI that happens to be there is not conda's.
set -eu

./configure --prefix="$PREFIX" --with-libfabric="$PREFIX" --disable-dependency-tracking MPICC=/bin/false
make -j "${CPU_COUNT:-2}"
make install
