# Spack's package of ddprun. In a folder packages/ddprun of a repository of packages
# (`spack repo create`), or `spack repo add` the folder that has it; then:
# spack install ddprun
from spack.package import *

try:
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:
    pass  # Spack before 1.0: spack.package has it


class Ddprun(MakefilePackage):
    """Launcher for distributed data-parallel jobs: starts workers on one or many
    nodes, assigns ranks, restarts failed workers, and names the rank that failed
    first. With libddp, a worker SDK in C, and trainers."""

    homepage = "https://github.com/ddprun/ddprun"
    git = "https://github.com/ddprun/ddprun.git"

    license("Apache-2.0")

    version("main", branch="main")

    variant("trainers", default=True, description="Build the trainers")
    variant("cuda", default=False, description="Build the trainers' operations on GPUs")
    variant("munge", default=True, description="Authenticate with munge")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("libuv")
    depends_on("libsodium")
    depends_on("zlib-api")
    depends_on("xz")
    # loaded at run time
    depends_on("cjson")
    depends_on("hwloc")
    depends_on("elfutils")
    depends_on("libmicrohttpd")
    depends_on("curl")
    depends_on("munge", when="+munge")
    with when("+trainers"):
        depends_on("onednn")
        depends_on("libpng")
        depends_on("libjpeg-turbo")
    depends_on("cuda", when="+cuda")
    depends_on("cudnn", when="+cuda")
    depends_on("nccl", when="+cuda")

    conflicts("platform=darwin", msg="ddprun needs Linux")

    def _settings(self):
        spec = self.spec
        cuda = spec["cuda"].prefix if spec.satisfies("+trainers +cuda") else "/none"
        settings = [f"PREFIX={self.prefix}", f"CUDA={cuda}", "DEPS=0"]
        if spec.satisfies("~trainers"):
            # also where the system has oneDNN and libjpeg
            settings += ["has_dnnl=", "packer="]
        return settings

    def build(self, spec, prefix):
        make("all", *self._settings())

    def install(self, spec, prefix):
        make("install", *self._settings())

    def setup_run_environment(self, env):
        env.set("DDPRUN_ROOT", self.prefix)
