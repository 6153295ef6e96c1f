#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# conda build runs this.
set -eu

./configure --prefix="$PREFIX" --with-libfabric="$PREFIX" --disable-dependency-tracking
make -j "${CPU_COUNT:-2}"
make install
