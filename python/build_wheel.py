"""build_wheel.py: `make wheel`: builds the programs and libddp for an old glibc
with zig, which pip installs into a folder of its own, and packs them with the
module into O/ddprun-VERSION-py3-none-manylinux_2_28_ARCH.whl.

  build_wheel.py TREE O VERSION ARCH MAKE...

ARCH is x86_64, aarch64 or "": this machine's. For the other one, apt downloads
Debian's libraries into a folder of its own, and the crash library needs Debian's
cross compiler (gcc-aarch64-linux-gnu).

Statically linked are libuv, libsodium and zlib, whose licences allow it and come
with the wheel; cJSON is in it. Other libraries are optional and loaded if the host
has them. Knows nothing of what the module contains."""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from pathlib import Path

GLIBC = "2.28"
ZIG = "ziglang>=0.13,<1"
PROGRAMS = ("ddprun", "ddprdzv", "ddprun-check")
HEADERS = (
    "uv.h uv cjson sodium.h sodium zlib.h zconf.h munge.h hwloc.h hwloc "
    "microhttpd.h elfutils dwarf.h gelf.h libelf.h curl"
).split()
# Debian's packages and the licences that come with them
STATIC = {"libuv1-dev": "libuv_a.a", "libsodium-dev": "libsodium.a",
          "zlib1g-dev": "libz.a"}
BUNDLED = {"libcjson1": "libcjson.so.1"}
ARCHES = {"x86_64": "amd64", "aarch64": "arm64"} # and Debian's names
# What every Linux with glibc has: the rest must be in the wheel.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.|ld-linux")
METADATA = """Metadata-Version: 2.1
Name: ddprun
Version: {version}
Summary: Starts distributed data-parallel jobs and keeps them alive: a launcher
 for PyTorch and other programs, its rendezvous server, and libddp
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

"""
PKG_CONFIG = """prefix=${{pcfiledir}}/../..

Name: ddp
Description: The worker side of a distributed data-parallel job
Version: {version}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib/ddprun -l:libddp.so.0 -Wl,-rpath,${{prefix}}/lib/ddprun
"""


def fail(text):
    sys.exit(f"make wheel: {text}")


def zig(folder):
    """The command of zig's compiler: this python's, else that of a virtual
    environment, made and installed at the first call."""
    def has(python):
        return subprocess.run([python, "-c", "import ziglang"], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0
    if has(sys.executable):
        return [sys.executable, "-m", "ziglang", "cc"]
    python = folder / "bin" / "python"
    if not python.exists():
        print("  VENV ", folder)
        try:
            venv.create(folder, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            fail(f"cannot make a virtual environment for ziglang: {error}; "
                 "install python3-venv, or ziglang for this python")
    if not has(python):
        print("  PIP   ziglang")
        run("pip's installation of ziglang, the compiler for an old glibc,",
            python, "-m", "pip", "install", "-q",
            "--disable-pip-version-check", ZIG,
            advice=f": is there no network? Install '{ZIG}' for "
                   f"{sys.executable} or {python}")
    return [str(python), "-m", "ziglang", "cc"]


def library(name, root=None):
    """The path of a file of a Debian package: this machine's, or below root."""
    for folder in ([root] if root else
                   [f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}",
                    "/usr/lib64", "/usr/lib", "/usr/local/lib"]):
        path = Path(folder, name)
        if path.exists():
            return path.resolve()
    return fail(f"there is no {name}; make build-deps installs it")


def download(folder, arch):
    """Debian's packages for another architecture, from the sources of this
    machine's apt, whose own state stays as it is; returns their libraries'
    folder."""
    libraries = folder / "root" / "usr" / "lib" / f"{arch}-linux-gnu"
    if (libraries / "complete").exists():
        return libraries
    if not shutil.which("apt-get"):
        fail(f"libraries for {arch} come from Debian, and there is no apt-get")
    shutil.rmtree(folder, ignore_errors=True)
    for sub in ("state/lists/partial", "cache/archives/partial", "root"):
        (folder / sub).mkdir(parents=True)
    (folder / "status").touch()
    apt = ["apt-get", "-qq", "-o", f"APT::Architecture={ARCHES[arch]}",
           "-o", f"APT::Architectures={ARCHES[arch]}",
           "-o", f"Dir::State={folder}/state",
           "-o", f"Dir::State::status={folder}/status",
           "-o", f"Dir::Cache={folder}/cache", "-o", "APT::Sandbox::User="]
    print("  APT  ", *STATIC, *BUNDLED, f"for {ARCHES[arch]}")
    run("apt-get update", *apt, "update")
    run("apt-get download", *apt, "download", *STATIC, *BUNDLED, at=folder)
    for package in folder.glob("*.deb"):
        run(f"unpacking {package}", "dpkg-deb", "-x", package, folder / "root")
    (libraries / "complete").touch()
    return libraries


def run(what, *command, advice="", at=None):
    # make's jobserver is an inherited file
    if subprocess.run([str(word) for word in command], check=False, cwd=at,
                      close_fds=False).returncode:
        fail(f"{what} failed{advice}")


def sysroot(folder, tree, cc, libraries):
    """The few headers and static libraries that are not glibc's, so that the
    compiler sees no other file of the host; libuv with what it
    needs (uv_symbols.c). The headers of optional libraries are the same for both
    architectures. libraries: another architecture's, or None."""
    shutil.rmtree(folder, ignore_errors=True)
    for sub in ("include", "include-arch", "lib"):
        (folder / sub).mkdir(parents=True)
    for header in HEADERS:
        for sub, at in (
                ("include", "/usr/include"),
                ("include-arch",
                 f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}")):
            if Path(at, header).exists():
                (folder / sub / header).symlink_to(Path(at, header))
    for name in STATIC.values():
        (folder / "lib" / name).symlink_to(library(name, libraries))
    uv = folder / "lib" / STATIC["libuv1-dev"]
    uv.unlink()
    shutil.copy(library(uv.name, libraries), uv)
    (folder / "lib" / "libuv.a").symlink_to(uv.name)
    run("compiling uv_symbols.c", *cc, "-O2", "-fPIC", "-c", "-o",
        folder / "uv_symbols.o", tree / "python" / "uv_symbols.c")
    run("adding them to libuv", *cc[:cc.index("cc")], "ar", "rcs", uv,
        folder / "uv_symbols.o")


def build(tree, out, arch, libraries, make):
    """Runs make with zig in a build folder of its own; returns the folder."""
    folder = out / "wheel" / arch
    cc = [*zig(out / "wheel" / "zig"), "-target", f"{arch}-linux-gnu.{GLIBC}"]
    sysroot(folder / "sysroot", tree, cc, libraries)
    crash_cc, more = "cc", []
    if libraries:
        crash_cc = f"{arch}-linux-gnu-gcc"
        if not shutil.which(crash_cc):
            fail(f"there is no {crash_cc}: install Debian's package "
                 f"gcc-{arch.replace('_', '-')}-linux-gnu")
        # pkg-config would name this machine's libraries
        more = ["PKG_CONFIG=false", f"AR={' '.join(cc[:cc.index('cc')])} ar",
                f"OBJCOPY={arch}-linux-gnu-objcopy"]
    rpath = "'$$ORIGIN/../lib/ddprun:$$ORIGIN'"

    def build_files(ldflags, *names):
        # the crash library needs libc's headers, which zig's -nostdlib hides
        run("the build for an old glibc",
            *make, "-C", tree, f"O={folder}", f"CC={' '.join(cc)}",
            f"CRASH_CC={crash_cc}", "CUDA=/none", *more,
            f"CFLAGS=-O2 -fno-sanitize=undefined "
            f"-isystem {folder}/sysroot/include "
            f"-isystem {folder}/sysroot/include-arch "
            f"-include {tree}/python/old_glibc.h -Wno-enum-float-conversion",
            f"LDFLAGS=-L{folder}/sysroot/lib -s -Wl,--build-id=sha1 "
            f"-Wl,-rpath,{rpath} {ldflags}",
            *(folder / name for name in names))
    build_files("-pie", *PROGRAMS)
    build_files("", "libddp.so", "man/ddp_init.3")
    return folder


def audit(path):
    """Fails unless the file runs with glibc 2.28 and no library of the host."""
    def readelf(option):
        return subprocess.run(["readelf", "-W", option, path], text=True,
                              check=True, stdout=subprocess.PIPE).stdout
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d")):
        if not SYSTEM.match(name):
            fail(f"{path} needs {name}, which is not in the wheel")
    if path.name in PROGRAMS and "DYN" not in readelf("-h"):
        fail(f"{path} is not position-independent")
    if re.search("_COPY .* environ",
                 readelf("-r")):
        fail(f"{path} has a copy of environ that libc does not know")
    newest = max((tuple(map(int, v.split("."))) for v in
                  re.findall(r"GLIBC_([0-9.]+)", readelf("-V"))), default=())
    if newest > tuple(map(int, GLIBC.split("."))):
        fail(f"{path} needs glibc {'.'.join(map(str, newest))}")


class Wheel:
    """A wheel under construction: a zip with a RECORD of its files."""

    def __init__(self, path, version):
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH", 1704067200))
        self.date = time.gmtime(epoch)[:6]
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.name = f"ddprun-{version}"
        self.records = []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, self.date)
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        self.records.append(
            f"{name},sha256={digest.decode().rstrip('=')},{len(data)}")

    def data(self, name, path, mode=0o644):
        self.add(f"{self.name}.data/{name}", Path(path).read_bytes(), mode)

    def info(self, name, text):
        self.add(f"{self.name}.dist-info/{name}", text.encode())

    def close(self):
        record = f"{self.name}.dist-info/RECORD"
        self.records.append(f"{record},,\n")
        self.zip.writestr(zipfile.ZipInfo(record, self.date),
                          "\n".join(self.records))
        self.zip.close()


def pack(tree, folder, libraries, path, version, tag):
    """Writes the wheel."""
    wheel = Wheel(path, version)
    for source in sorted((tree / "python" / "ddprun").iterdir()):
        if source.is_file():
            wheel.add(f"ddprun/{source.name}", source.read_bytes())
    for name in PROGRAMS:
        audit(folder / name)
        wheel.data(f"scripts/{name}", folder / name, 0o755)
    at = "data/lib/ddprun/"
    audit(folder / "libddp.so")
    wheel.data(at + "libddp.so.0", folder / "libddp.so", 0o755)
    for name in BUNDLED.values():
        audit(library(name, libraries))
        wheel.data(at + name, library(name, libraries))
    wheel.data("data/include/ddp.h", tree / "worker-sdk" / "ddp.h")
    for page in sorted((tree / "docs").glob("*.[13]")) + sorted(
            (folder / "man").glob("*.3")):
        wheel.data(f"data/share/man/man{page.suffix[1:]}/{page.name}", page)
    wheel.add(f"{wheel.name}.data/data/lib/pkgconfig/ddp.pc",
              PKG_CONFIG.format(version=version).encode())
    wheel.info("licenses/LICENSE", (tree / "LICENSE").read_text())
    for package in (*STATIC, *BUNDLED):
        text = Path("/usr/share/doc", package, "copyright")
        if not text.exists():
            fail(f"there is no {text}, the licence of a library in the wheel")
        wheel.info(f"licenses/{package}", text.read_text())
    wheel.info("METADATA", METADATA.format(version=version)
               + (tree / "docs" / "python.md").read_text())
    wheel.info("WHEEL", "Wheel-Version: 1.0\nGenerator: ddprun\n"
               f"Root-Is-Purelib: false\nTag: {tag}\n")
    wheel.close()


def main():
    tree, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    version, arch, make = sys.argv[3], sys.argv[4], sys.argv[5:]
    here = os.uname().machine
    arch = arch or here
    if arch != here and arch not in ARCHES:
        fail(f"ARCH={arch}: {' or '.join(ARCHES)}, or this machine's")
    tag = f"py3-none-manylinux_{GLIBC.replace('.', '_')}_{arch}"
    path = out / f"ddprun-{version}-{tag}.whl"
    libraries = None if arch == here else download(
        out / "wheel" / f"debian-{ARCHES[arch]}", arch)
    folder = build(tree, out, arch, libraries, make)
    pack(tree, folder, libraries, path, version, tag)
    print("  WHEEL", path)


main()
