"""run.py [NAME...]: plants failures, one job each, and reads the first line that the
terminal of node 0 prints. Each job has two nodes, which are hosts of their own
(tests/programs/tools/host.c), so it needs root. plants_*.py list the failures.

  run.py                all
  run.py mutex torch    those whose name contains one of these words
  JOBS=4                how many jobs at a time (2)
  PYTHON=PATH           a python with PyTorch; without it, torch plants are left out
  KEEP=FOLDER           keeps the output of each job there

A failure counts as "right" if that line has the rank and host that the plant names, and
the cause; as "silent" if no line came within 40 s after the failure. Prints what was
wrong, and the counts; exits with 1 if fewer than 95 % are right, or any is silent."""

import collections
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import plants_blind  # noqa: F401
import plants_blind_more  # noqa: F401
import plants_blind_two  # noqa: F401
import plants_endings  # noqa: F401, fills PLANTS
import plants_later  # noqa: F401
import plants_operator  # noqa: F401
import plants_other  # noqa: F401
import plants_python  # noqa: F401
import plants_rare  # noqa: F401
import plants_unseen  # noqa: F401
import program

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("O", TOP + "/build")
KEEP = os.path.abspath(os.environ["KEEP"]) if os.environ.get("KEEP") else None
SILENT_S = 40  # from the failure to the first line about it
START_S = 60   # until the failure happens: imports, on a busy machine
# What ddprun says while all is well, or in advance.
LINE = re.compile(r"^ddprun: (?:job '[^']*' (?:failed|ended): |error: |no progress for "
                  r"|waiting for [0-9.]+ s: |restarting "
                  r"|waiting [0-9]+ s for .*(?:its stderr ends with: |no answer from ))")
Outcome = collections.namedtuple("Outcome", "plant verdict seconds line")


class Hosts:
    """h1 and h2, on a bridge."""

    def __init__(self, folder):
        self.pid, self.up = {}, []
        self.file = {h: os.path.join(folder, "hosts." + h)
                     for h in ("switch", "h1", "h2")}
        for path in self.file.values():
            with open(path, "w") as f:
                f.write("127.0.0.1 localhost\n10.79.0.1 h1\n10.79.0.2 h2\n")
        for h, path in self.file.items():
            p = subprocess.Popen([BUILD + "/tests/host", "up", h, path],
                                 stdout=subprocess.PIPE, text=True)
            self.up.append(p)
            self.pid[h] = int(p.stdout.readline())
        self.net("switch", "link add bridge type bridge")
        self.net("switch", "link set bridge up")
        for i in "12":
            self.net("switch", f"link add to{i} type veth peer name eth0 netns "
                     f"{self.pid['h' + i]}")
            self.net("switch", f"link set to{i} master bridge up")
            self.net("h" + i, f"addr add 10.79.0.{i}/24 dev eth0")
            self.net("h" + i, "link set eth0 up")

    def net(self, host, command):
        subprocess.run(["nsenter", f"--net=/proc/{self.pid[host]}/ns/net", "ip",
                        *command.split()], check=True)

    def down(self):
        for p in self.up:
            p.kill()
            p.wait()

    def start(self, host, argv, **how):
        return subprocess.Popen([BUILD + "/tests/host", "exec",
                                 str(self.pid[host]), *argv],
                                stdin=subprocess.DEVNULL, **how)


class Lines(threading.Thread):
    """The terminal of a node: its lines, each with the time at which it came."""

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self.pipe, self.lines, self.found = pipe, [], threading.Event()
        self.first = None
        self.start()

    def run(self):
        for line in self.pipe:
            line = line.rstrip("\n")
            self.lines.append((time.time(), line))
            if self.first is None and LINE.match(line):
                self.first = (time.time(), line)
                self.found.set()
        self.found.set()


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def environment(folder, host, plant):
    return {
        "PATH": BUILD + ":" + BUILD + "/tests:" + os.environ["PATH"],
        "HOME": folder, "TMPDIR": folder, "LC_ALL": "C.UTF-8",
        "PYTHONPATH": TOP + "/python", "DDP_LIBRARY": BUILD + "/libddp.so",
        "PLANTED": folder + "/planted", "OMP_NUM_THREADS": "1",
        "DDP_CACHE": folder + "/cache." + host,
        "PLANT_PYTHON": os.environ.get("PYTHON", "python3"),
        **plant.env,
    }


class Job:
    def __init__(self, hosts, plant, folder):
        self.plant, self.folder, self.began = plant, folder, time.time()
        self.port = free_port()
        self.nodes, self.terminals = [], []
        program.build(plant, folder, TOP, BUILD)
        if plant.before:
            plant.before(hosts, self)
        for host in ("h1", "h2"):
            env = environment(folder, host, plant)
            p = hosts.start(host, [
                "ddprun", "--nnodes", "2", "--nproc-per-node", str(plant.nproc),
                "--auth", "none", "--rdzv-endpoint", f"h1:{self.port}", *plant.options,
                "--", *plant.command], env=env, cwd=f"{folder}/{host}",
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                errors="replace")
            self.nodes.append(p)
            self.terminals.append(Lines(p.stderr))
        if plant.after:
            plant.after(hosts, self)

    def planted(self):
        try:
            return os.path.getmtime(self.folder + "/planted")
        except FileNotFoundError:
            return self.began

    def watch(self):
        terminal = self.terminals[self.plant.terminal - 1]
        while not terminal.found.wait(0.2):
            now, planted = time.time(), self.planted()
            limit = START_S if planted == self.began else SILENT_S + 5
            if now - planted > limit:
                break
        first = terminal.first
        return first or (time.time(), "")

    def end(self):
        for p in self.nodes:
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)
        for p in self.nodes:
            try:
                p.wait(8)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()


def verdict(plant, line, seconds):
    if not line or seconds > SILENT_S:
        return "silent"
    # the rank that failed, or, after the semicolon, the rank that others wait for
    who = re.search(r"(failed: |; |: )rank (?:%s) (\(local|on h)" % plant.rank,
                    line) if plant.rank else True
    where = plant.host in line if plant.host else True
    what = re.search(plant.cause, line)
    if who and where and what:
        return "right"
    return "wrong:" + "".join(" " + name for name, good in
                              (("rank", who), ("host", where), ("cause", what))
                              if not good)


def run(hosts, plant, outcomes, lock):
    folder = tempfile.mkdtemp(prefix="plant.", dir=KEEP)
    for host in ("h1", "h2"):
        os.mkdir(f"{folder}/{host}")
    try:
        job = Job(hosts, plant, folder)
        at, line = job.watch()
        seconds = at - job.planted()
        job.end()
        result = Outcome(plant, verdict(plant, line, seconds), seconds, line)
        if KEEP:
            for i, t in enumerate(job.terminals, 1):
                with open(f"{folder}/terminal.h{i}", "w") as f:
                    f.writelines(f"{at - job.began:8.2f} {s}\n" for at, s in t.lines)
        if plant.undo:
            plant.undo(hosts, job)
    except Exception as error:  # the plant itself is broken
        result = Outcome(plant, f"not planted: {error!r}", 0, "")
    if not KEEP:
        shutil.rmtree(folder, ignore_errors=True)
    with lock:
        outcomes.append(result)
        print(f"{plant.name:24} {result.verdict:12} {result.seconds:6.1f} s  "
              f"{result.line[8:500]}", flush=True)


def main():
    words = sys.argv[1:]
    todo = [p for p in program.PLANTS
            if not words or any(w in p.name for w in words)]
    if not os.environ.get("PYTHON"):
        todo = [p for p in todo if p.kind != "torch"]
    outcomes, lock = [], threading.Lock()
    folder = tempfile.mkdtemp(prefix="plants.")
    hosts = Hosts(folder)
    queue = collections.deque(p for p in todo if not p.alone)

    def worker():
        while True:
            try:
                plant = queue.popleft()
            except IndexError:
                return
            run(hosts, plant, outcomes, lock)

    threads = [threading.Thread(target=worker)
               for _ in range(int(os.environ.get("JOBS", "2")))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    queue.extend(p for p in todo if p.alone)
    worker()
    hosts.down()
    shutil.rmtree(folder, ignore_errors=True)
    right = sum(o.verdict == "right" for o in outcomes)
    silent = [o.plant.name for o in outcomes if o.verdict == "silent"]
    print(f"\n{right} of {len(outcomes)} right, {len(silent)} silent for {SILENT_S} s")
    for o in outcomes:
        if o.verdict != "right":
            print(f"  {o.plant.name}: {o.verdict}")
    return 0 if outcomes and right >= 0.95 * len(outcomes) and not silent else 1


if __name__ == "__main__":
    sys.exit(main())
