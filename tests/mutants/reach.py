"""Which test reaches which line: runs each test file once on programs that mark their
basic blocks (reached.c). The results are cached in a folder, one file per test file,
until that test file changes."""
import bisect
import concurrent.futures
import glob
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import time

TRACE = "__sanitizer_cov_trace_pc"
# ok 3 its title in 1234ms
TAP = re.compile(r"(ok|not ok) (\d+) (.*?)(?: # skip.*)?(?: in (\d+)(m?s)"
                 r"(?:ec)?)?(?: # skip.*)?$")


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True,
                          stderr=subprocess.DEVNULL).stdout


ALWAYS = ["ddprun", "ddprdzv", "ddprun-check", "libddp.a", "libddp.so"]


def wanted(names, tree, only):
    """What must be built to run these test files: all, or only what they name."""
    units = [name for name in names if name.startswith("unit/")]
    bats = [name for name in names if name not in units]
    if bats and not only:
        return ["tests"]
    words = set()
    for name in bats:
        with open(tree + "/tests/" + name) as f:
            words.update(re.findall(r"\w+", f.read()))
    programs = {os.path.basename(path)[:-2] for path in glob.glob(
        tree + "/tests/programs/*/*.c")}
    trainers = {os.path.basename(path)[:-2] for path in glob.glob(
        tree + "/trainers/*.c")}
    return ["tests/" + os.path.basename(name)[:-2] for name in units] + \
        (ALWAYS if bats else []) + sorted(trainers & words) + \
        ["tests/" + name for name in sorted(programs & words)]


class Blocks:
    """The basic blocks of a program, and the lines of each."""

    def __init__(self, program, tree):
        self.sites, self.lines = [], {}
        trace = [line.split() for line in
                 output("nm", program).decode().splitlines()]
        trace = [int(t[0], 16) for t in trace if t[-1] == TRACE]
        if not trace:
            return
        text = re.search(rb" \.text +PROGBITS +(\w+) (\w+) (\w+)",
                         output("readelf", "-SW", program)).groups()
        at, offset, size = [int(t, 16) for t in text]
        with open(program, "rb") as f:
            f.seek(offset)
            code = f.read(size)
        for m in re.finditer(rb"(?=\xe8(.{4}))", code, re.S):
            behind = at + m.start() + 5
            if behind + struct.unpack("<i", m.group(1))[0] == trace[0]:
                self.sites.append(behind)
        self.read_lines(output("readelf", "-WwL", program).decode(
            errors="replace"), tree)

    def read_lines(self, table, tree):
        path = None
        for row in table.splitlines():
            if row.endswith(":") or row.endswith(":[++]"):
                path = row.rsplit(":", 1)[0]
                path = path[4:] if path.startswith("CU: ") else path
                path = os.path.relpath(os.path.join(tree, path), tree)
            m = re.match(r"(\S+) +(\d+) +(0x[0-9a-f]+)", row)
            if m and path and path[0] != "." and \
                    m[1] == os.path.basename(path):
                i = bisect.bisect_right(self.sites, int(m[3], 16) + 5) - 1
                if i >= 0:
                    self.lines.setdefault(self.sites[i], set()).add(
                        (path, int(m[2])))

    def reached(self, marks):
        """The lines of the blocks that a file of marks names."""
        found, at = set(), 0
        with open(marks, "rb") as f:
            while True:  # the file is sparse
                try:
                    at = os.lseek(f.fileno(), at, os.SEEK_DATA)
                except OSError:
                    return found
                end = os.lseek(f.fileno(), at, os.SEEK_HOLE)
                data = os.pread(f.fileno(), end - at, at)
                for m in re.finditer(b"\1", data):
                    found |= self.lines.get(at + m.start(), set())
                at = end


class Reach:
    def __init__(self, tree, folder, make, inside, jobs, only):
        self.tree, self.folder, self.only = tree, folder, only
        self.make, self.inside, self.jobs = make, inside, jobs
        self.build = os.path.join(tree, "build/reach")
        self.tests, self.blocks = [], {}
        os.makedirs(folder, exist_ok=True)

    def files(self):
        for room, end in (("unit", ".c"), ("e2e", ".bats"),
                          ("hosts", ".bats")):
            for path in sorted(glob.glob(self.tree + "/tests/" + room +
                                         "/**", recursive=True)):
                name = path[len(self.tree + "/tests/"):]
                if name.endswith(end) and (
                        room != "unit" or "/test_" in name) and (
                        not self.only or any(o in name for o in self.only)):
                    yield name

    def kept(self, name):
        return os.path.join(self.folder, name.replace("/", "_") + ".json")

    def load(self, name):
        try:
            with open(self.kept(name)) as f:
                known = json.load(f)
        except FileNotFoundError:
            return None
        if known["hash"] == digest(self.tree + "/tests/" + name):
            return known
        return None

    def measure(self):
        """Runs the new test files; then self.tests has all."""
        new = [name for name in self.files() if not self.load(name)]
        if new:
            print("%d test files are run to see which lines they reach" %
                  len(new), flush=True)
            self.make(wanted(new, self.tree, self.only), "build/reach")
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                list(pool.map(self.run, new))
        for name in self.files():
            known = self.load(name)
            stale = {s for s, h in known["sources"].items() if
                     not os.path.exists(self.tree + "/" + s) or
                     digest(self.tree + "/" + s) != h}
            for test in known["tests"]:
                test["file"] = name
                test["lines"] = {s: set(n) for s, n in test["lines"].items()}
                test["stale"] = stale
                self.tests.append(test)

    def run(self, name):
        marks = self.kept(name)[:-5]
        shutil.rmtree(marks, ignore_errors=True)
        os.makedirs(marks)
        os.chmod(marks, 0o777)
        unit = name.startswith("unit/")
        command = [self.build + "/tests/" + os.path.basename(name)[:-2]] if unit else [
            "bats", "-T", "--formatter", "tap", "tests/" + name]
        began = time.monotonic()
        done = subprocess.run(
            [self.inside, os.path.dirname(self.tree), "sh", "-c",
             'ln -s "$DDP_TEST_REACHED" /tmp/reached; exec "$@"', "sh",
             "timeout", "900"] + command,
            cwd=self.tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=dict(
                os.environ, O=self.build, DDP_TEST_REACHED=marks))
        took = time.monotonic() - began
        tests = [{"name": "", "number": 0, "seconds": took,
                  "passed": done.returncode == 0}] if unit else \
            self.of_tap(done.stdout.decode(errors="replace"))
        for test in tests:
            self.look(test, marks)
        sources = {s for t in tests for s in t["lines"]}
        with open(self.kept(name), "w") as f:
            json.dump({"hash": digest(self.tree + "/tests/" + name),
                       "sources": {s: digest(self.tree + "/" + s)
                                   for s in sources if os.path.exists(
                                       self.tree + "/" + s)},
                       "tests": tests}, f)
        shutil.rmtree(marks, ignore_errors=True)
        print("  %s: %.0f s, %d lines" % (name, took, len(
            {(s, n) for t in tests for s in t["lines"]
             for n in t["lines"][s]})), flush=True)

    @staticmethod
    def of_tap(text):
        tests = []
        for line in text.splitlines():
            m = TAP.match(line)
            if m and "# skip" not in line:
                took = int(m[4] or 0) / (1000 if m[5] == "ms" else 1)
                tests.append({"name": m[3], "number": int(m[2]),
                              "seconds": took, "passed": m[1] == "ok"})
        return tests

    def look(self, test, marks):
        """The blocks that the test reached, and setup_file before it."""
        lines, programs = {}, set()
        folders = [marks] + ([marks + "/%d" % test["number"]]
                             if test["number"] else [])
        for folder in folders:
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                program = self.program(name)
                if not program:
                    continue
                programs.add(os.path.relpath(program, self.build))
                if program not in self.blocks:
                    self.blocks[program] = Blocks(program, self.tree)
                for path, n in self.blocks[program].reached(
                        os.path.join(folder, name)):
                    lines.setdefault(path, set()).add(n)
        test["programs"] = sorted(programs)
        test["lines"] = {s: sorted(n) for s, n in lines.items()}

    def program(self, name):
        """The program built by that name, or copied from it."""
        name = name.replace("libddp.so.0", "libddp.so")
        for room in ("", "tests/", "examples/", "obj/launcher/crash/"):
            path = os.path.join(self.build, room + name)
            if os.path.isfile(path):
                return path
        path = self.build + "/ddprun"
        return path if name.startswith("ddprun") and os.path.isfile(path) else None
