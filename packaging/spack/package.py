# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""For a repository of yours, after contrib/recipes has filled in where the tarball is, and its checksum:
spack repo create DIR, then packages/libfabric_p2p/package.py below it; with Spack before 1.0, packages/libfabric-p2p/package.py.
"""

from spack.package import *

try:
    from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
except ImportError:
    # Before 1.0, spack.package has it.
    pass


class LibfabricP2p(AutotoolsPackage):
    """GPU memory over any libfabric: two plugins for the libfabric that is installed."""

    homepage = "https://to-be-filled-in.invalid/libfabric-p2p"
    url = "https://to-be-filled-in.invalid/libfabric-p2p/releases/libfabric-p2p-1.1.0.tar.xz"

    license("BSD-2-Clause OR GPL-2.0-only")

    version("1.1.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("mpi", default=False, description="Build libp2p-mpi, which has Open MPI take GPU memory")

    depends_on("c", type="build")
    # for the tests' kernels on the emulated GPU
    depends_on("cxx", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("uthash", type="build")
    # Spack's own libfabric has no rxm and no shm unless it is asked for them.
    depends_on("libfabric@1.17: fabrics=rxm,shm,tcp")
    depends_on("hwloc@2:")
    depends_on("json-c@0.13:")
    depends_on("openmpi fabrics=ofi", when="+mpi")
    depends_on("cmocka", type="test")

    def configure_args(self):
        mpicc = self.spec["openmpi"].prefix.bin.mpicc if "+mpi" in self.spec else "/bin/false"
        return [
            f"--with-libfabric={self.spec['libfabric'].prefix}",
            "--without-verbs",
            f"MPICC={mpicc}",
        ]

    def check(self):
        # The tree's own rules are for those who change it.
        make("check", "CHECK_TREE=true")

    def setup_run_environment(self, env):
        # It takes the place of libfabric's own directory, so that one is named, too.
        env.prepend_path("FI_PROVIDER_PATH", self.spec["libfabric"].prefix.lib.libfabric)
        env.prepend_path("FI_PROVIDER_PATH", self.prefix.lib.libfabric)
