# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""For a repository of yours: spack repo create DIR, then packages/libfabric-p2p/package.py.

Where the tarball of make dist lies: spack install --no-checksum libfabric-p2p
"""

import os

from spack.package import *


class LibfabricP2p(AutotoolsPackage):
    """GPU memory over any libfabric: two plugins for the libfabric that is installed."""

    manual_download = True
    url = f"file://{os.getcwd()}/libfabric-p2p-1.1.0.tar.xz"

    license("BSD-2-Clause OR GPL-2.0-only")

    version("1.1.0")

    depends_on("c", type="build")
    # for the tests' kernels on the emulated GPU
    depends_on("cxx", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("uthash", type="build")
    depends_on("libfabric@1.17:")
    depends_on("hwloc@2:")
    depends_on("json-c@0.13:")
    depends_on("cmocka", type="test")

    def configure_args(self):
        return [f"--with-libfabric={self.spec['libfabric'].prefix}", "--without-verbs"]

    def check(self):
        # The tree's own rules are for those who change it.
        make("check", "CHECK_TREE=true")

    def setup_run_environment(self, env):
        # It takes the place of libfabric's own directory, so that one is named, too.
        env.prepend_path("FI_PROVIDER_PATH", self.spec["libfabric"].prefix.lib.libfabric)
        env.prepend_path("FI_PROVIDER_PATH", self.prefix.lib.libfabric)
