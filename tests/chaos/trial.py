"""trial.py: runs one plan: starts hosts and a job on them, does its faults at their
times, and records the outcome in a folder, which checker.py reads:

  plan.json           the plan
  events              what the workers reported (tests/programs/sdk/c_chaos.c)
  NAME.out, NAME.err  the output of each ddprun on a terminal: h2, h2.2 for the
                      second one there, head for the ddprun that uses ssh
  result.json         how each of them ended, which faults were done when, the
                      leftovers, and by how much the machine was late

Times are of CLOCK_MONOTONIC, in seconds.
"""
import glob
import heapq
import itertools
import json
import os
import selectors
import shutil
import subprocess
import time

import faults
from hosts import Hosts, O

PORT = "29400"


class Terminal:
    """A ddprun on a terminal, and its output."""

    def __init__(self, trial, name, host, argv, env):
        self.name, self.host = name, host
        self.began = time.monotonic()
        self.ended = self.code = None
        self.process = trial.hosts[host].start(
            argv, env, subprocess.PIPE, subprocess.PIPE)
        self.files = {}
        for stream, suffix in ((self.process.stdout, "out"),
                               (self.process.stderr, "err")):
            os.set_blocking(stream.fileno(), False)
            self.files[stream] = open(
                os.path.join(trial.folder, "%s.%s" % (name, suffix)), "wb")


class Trial:
    def __init__(self, plan, folder, keys=None, planted=""):
        self.plan, self.folder, self.planted = plan, folder, planted
        self.keys = keys
        self.ssh = plan["way"].startswith("ssh")
        self.terminals, self.timers, self.done = [], [], []
        self.order = itertools.count()
        self.selector = selectors.DefaultSelector()
        self.waiting = list(plan["faults"])  # for their phase
        self.savings = self.rounds = 0
        self.unstarted = 1 if self.ssh else len(plan["stagger"])
        self.server = self.faketime = None
        self.lag = 0
        self.pending = b""

    # ---- state

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def prepare(self):
        os.makedirs(self.folder)
        os.chmod(self.folder, 0o755)
        with open(self.path("plan.json"), "w") as f:
            json.dump(self.plan, f, indent=1)
        for disk in ("logs", "checkpoint", "journal"):
            os.mkdir(self.path(disk))
            if any(f["kind"] == "full " + disk for f in self.plan["faults"]):
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m",
                                "none", self.path(disk)], check=True)
        os.mkdir(self.path("state"))
        os.symlink("../checkpoint", self.path("state", "keep"))
        os.mkfifo(self.path("fifo"))
        self.fifo = os.open(self.path("fifo"), os.O_RDWR | os.O_NONBLOCK)
        self.events = open(self.path("events"), "wb")
        self.selector.register(self.fifo, selectors.EVENT_READ,
                               self.read_events)
        self.hosts = Hosts(self.folder, len(self.plan["hosts"]),
                           self.keys and self.ssh and self.keys)
        found = glob.glob("/usr/lib*/*/faketime/libfaketime.so.1")
        self.faketime = found[0] if found else None

    def environment(self, host):
        p = self.plan
        env = {k: v for k, v in os.environ.items()
               if k.endswith("SAN_OPTIONS")}
        env.update(
            PATH="%s:%s/tests:%s" % (O, O, os.environ["PATH"]), LANG="C",
            HOME=self.hosts[host].home, TMPDIR=self.hosts[host].tmp,
            DDP_TIMEOUT=str(p["ddp_timeout"]),
            CHAOS_EVENTS=self.path("fifo"), CHAOS_DIR=self.path("state"),
            CHAOS_STEPS=str(p["steps"]), CHAOS_PACE=str(p["pace"]),
            CHAOS_SAVE=str(p["save"]), CHAOS_PLANT=self.planted)
        if not self.ssh and p["way"] != "one":
            env["DDP_TOKEN"] = "a secret of this trial alone"
        if self.faketime and any(f["kind"] == "clock" and f["host"] == host
                                 for f in self.plan["faults"]):
            env.update(LD_PRELOAD=self.faketime, FAKETIME_NO_CACHE="1",
                       FAKETIME_TIMESTAMP_FILE=self.path("clock." + host),
                       DONT_FAKE_MONOTONIC="1",
                       FAKETIME_DONT_FAKE_MONOTONIC="1")
            with open(env["FAKETIME_TIMESTAMP_FILE"], "a") as f:
                if not f.tell():
                    print("+0", file=f)
        return env

    def options(self, host):
        p = self.plan
        nnodes = "%d:%d" % (p["min"], p["max"])
        if p["min"] == p["max"] and p["way"] != "ssh spares":
            nnodes = "%d" % p["max"]
        argv = ["ddprun", "--heartbeat-timeout", p["heartbeat"],
                "--shutdown-timeout", p["shutdown"],
                "--last-call-timeout", p["last_call"],
                "--max-restarts", p["restarts"]]
        conf = "reconnect_timeout=%g" % p["reconnect"]
        if p["way"] != "one":
            argv += ["--nnodes", nnodes, "--rdzv-timeout", p["rdzv"]]
        if p["way"] == "etcd":
            conf += ",ttl=2"
            argv += ["--rdzv-backend", "etcd", "--rdzv-id", "j",
                     "--rdzv-endpoint",
                     ",".join(h + ":2379" for h in p["hosts"])]
        elif p["way"] not in ("one",) and not self.ssh:
            argv += ["--rdzv-endpoint", "h1:" + PORT]
        if p["journal"] and host == "h1":
            argv += ["--journal", self.path("journal", "j")]
        if any(f["kind"] == "full logs" for f in p["faults"]):
            argv += ["--log-dir", self.path("logs")]
        argv += ["--rdzv-conf", conf]
        if self.ssh:
            argv += ["--ssh-args", "-F %s/config" % self.keys, "-H",
                     ",".join("%s:%d" % (h, p["nproc"])
                              for h in p["nodes"])]
        else:
            argv += ["--nproc-per-node", p["nproc"]]
        return [str(a) for a in argv] + ["c_chaos"]

    # ---- starting processes

    def start_all(self):
        if self.plan["way"] == "apart":
            self.start_server()
        if self.plan["way"] == "etcd":
            for h in self.plan["hosts"]:
                self.start_etcd(h)
        if self.ssh:
            self.start_terminal("head", "h1")
            return
        for h, after in self.plan["stagger"].items():
            self.later(after, lambda h=h: self.start_terminal(h, h))

    def can_start(self, host, again):
        """Whether a program can be started on the host; if it is only frozen, the
        start is retried."""
        host = self.hosts[host]
        if host.up and host.frozen and not self.over:
            self.later(0.05, again)
        return host.up and not host.frozen and not self.over

    def start_terminal(self, name, host):
        if not self.can_start(host, lambda: self.start_terminal(name, host)):
            self.unstarted -= not self.hosts[host].up and name == host
            return
        self.unstarted -= "." not in name
        t = Terminal(self, name, host, self.options(host),
                     self.environment(host))
        self.terminals.append(t)
        if self.unstarted == 1:
            self.later(0.2, lambda: self.on_phase("rendezvous"))
        for stream in t.files:
            self.selector.register(
                stream, selectors.EVENT_READ,
                lambda s=stream, t=t: self.read_stream(t, s))
        self.watch(t.process, lambda: self.on_end(t))

    def again(self, host):
        """That host's ddprun once more, if the job still runs elsewhere when
        the last one is gone."""
        def start():
            if any(t.code is None for t in self.terminals
                   if t.host == host):
                self.later(0.05, start)
            elif self.running():
                n = sum(t.host == host for t in self.terminals)
                self.start_terminal("%s.%d" % (host, n + 1), host)
        self.later(0.05, start)

    def watch(self, process, then):
        fd = os.pidfd_open(process.pid)

        def on_end():
            self.selector.unregister(fd)
            os.close(fd)
            process.wait()
            then()
        self.selector.register(fd, selectors.EVENT_READ, on_end)

    def start_server(self):
        """A server of its own, ready when it listens, because others look for it."""
        if not self.can_start("h1", self.start_server):
            return
        log = open(self.path("server.err"), "ab")
        self.server = self.hosts["h1"].start(
            ["ddprdzv", "--listen", "h1:" + PORT, "--journal",
             self.path("journal", "j"), "--heartbeat-timeout",
             str(self.plan["heartbeat"])], self.environment("h1"), log, log)
        log.close()

    def start_etcd(self, host):
        if not self.can_start(host, lambda: self.start_etcd(host)):
            return
        at = self.hosts[host].address
        cluster = ",".join("%s=http://%s:2380" % (
            h, self.hosts[h].address) for h in self.plan["hosts"])
        log = open(self.path("etcd.%s.err" % host), "ab")
        self.hosts[host].start(
            ["etcd", "--name", host, "--data-dir", self.path("etcd." + host),
             "--initial-cluster", cluster, "--initial-cluster-token", "chaos",
             "--heartbeat-interval", "100", "--election-timeout", "1000",
             "--listen-peer-urls", "http://%s:2380" % at,
             "--initial-advertise-peer-urls", "http://%s:2380" % at,
             "--listen-client-urls", "http://%s:2379" % at,
             "--advertise-client-urls", "http://%s:2379" % at],
            self.environment(host), log, log)
        log.close()

    # ---- events

    over = False

    def later(self, seconds, what):
        heapq.heappush(self.timers, (time.monotonic() + seconds,
                                     next(self.order), what))

    def running(self):
        return [t for t in self.terminals if t.code is None]

    def terminals_on(self, host):
        return [t.name for t in self.running() if t.host == host]

    def read_stream(self, terminal, stream):
        data = stream.read()
        if data:
            terminal.files[stream].write(data)
        elif data is not None:
            self.selector.unregister(stream)
            terminal.files[stream].close()

    def on_end(self, terminal):
        code = terminal.process.returncode
        terminal.code = code if code >= 0 else 128 - code
        terminal.ended = time.monotonic()

    def read_events(self):
        try:
            data = os.read(self.fifo, 1 << 16)
        except BlockingIOError:
            return
        self.events.write(data)
        lines = (self.pending + data).split(b"\n")
        self.pending = lines.pop()
        for line in lines:
            self.on_event(line.decode(errors="replace").split(" "))

    def on_event(self, words):
        what = words[8:]
        if what[0] == "born":
            if int(words[6]) > self.rounds:
                self.rounds = int(words[6])
                self.on_phase("restart")
            self.on_phase("init")
        elif what[0] == "step":
            self.on_phase("step", step=int(what[1]))
        elif what[0] == "saving":
            self.on_phase("saving", nth=self.savings)
            self.savings += 1
        elif what[0] == "done":
            self.on_phase("end")

    def on_phase(self, phase, **at):
        for fault in list(self.waiting):
            when = fault["when"]
            if when["phase"] != phase or \
                    any(when[k] > v for k, v in at.items()):
                continue
            self.waiting.remove(fault)
            self.later(when["after"], lambda f=fault: self.do(f))

    def do(self, fault):
        if not self.running():
            return
        at = time.monotonic()
        done = faults.apply(self, fault)
        if done is None:
            # wait for a target that does not exist yet
            if fault["when"]["phase"] in ("start", "rendezvous"):
                self.later(0.02, lambda: self.do(fault))
            return
        done.update(fault, at=at, since=time.monotonic(),
                    steps=self.savings)
        self.done.append(done)
        if "for" in fault and not fault["kind"].endswith("kill"):
            self.later(fault["for"],
                       lambda: faults.undo(self, fault, done))

    def turn(self, until):
        """Waits for the next event and handles it; 0 when the time is over."""
        now = time.monotonic()
        if now >= until:
            return 0
        while self.timers and self.timers[0][0] <= now:
            due, _, what = heapq.heappop(self.timers)
            self.lag = max(self.lag, time.monotonic() - due)
            what()
        end = min([until] + [t[0] for t in self.timers[:1]])
        for key, _ in self.selector.select(max(0, end - time.monotonic())):
            key.data()
        return 1

    def tick(self):
        """Something that is due often, so that `lag` shows how late a process of
        this machine can be."""
        self.later(0.05, self.tick)

    # ---- a complete trial

    def plant(self):
        """Plants the violations that the checker must find."""
        if "process" in self.planted:
            self.hosts["h1"].start(["tail", "-f", "/dev/null"], None,
                                   subprocess.DEVNULL, subprocess.DEVNULL)
        if "file" in self.planted:
            with open(os.path.join(self.hosts["h1"].tmp, "planted"), "w"):
                pass
        if "memory" in self.planted:
            self.hosts["h1"].start(["touch", "/dev/shm/planted"], None,
                                   None, None).wait()

    def run(self):
        began = time.monotonic()
        self.prepare()
        try:
            self.plant()
            self.start_all()
            self.on_phase("start")
            self.tick()
            until = began + self.plan["limit"]
            while (self.running() or self.unstarted > 0) and \
                    self.turn(until):
                pass
            result = self.collect(began)
        finally:
            self.over = True
            self.hosts.close()
            self.close()
        with open(self.path("result.json"), "w") as f:
            json.dump(result, f, indent=1)
        return result

    def leftovers(self):
        """Live processes of the job."""
        return [p for h in self.hosts.all if h.up for p in h.processes()
                if p.name != "etcd" and "sshd" not in p.name and
                not (self.server and p.pid in self.server_pids())]

    def server_pids(self):
        return [p.pid for p in self.hosts["h1"].of_kind("server")
                if "--listen h1" in p.line]

    def settle(self):
        """Gives processes their time to end, and returns the rest."""
        until = time.monotonic() + self.plan["settle"]
        while self.leftovers() and time.monotonic() < until:
            self.later(0.05, lambda: None)
            self.turn(until)
        return ["%s: %s (%s)" % (p.name, p.line, p.state)
                for p in self.leftovers()]

    def stuck(self):
        """For a hanging trial: its live processes, and where they wait."""
        found = []
        for h in self.hosts.all:
            for p in h.processes() if h.up else []:
                try:
                    with open("/proc/%d/wchan" % p.pid) as f:
                        where = f.read()
                except OSError:
                    where = "?"
                found.append("%s %s %s %s" % (h.name, p.state, where, p.line))
        return found

    def collect(self, began):
        self.over = True
        hung = [t.name for t in self.running()]
        result = {"seconds": round(time.monotonic() - began, 3),
                  "hung": hung, "stuck": self.stuck() if hung else []}
        self.hosts.heal()
        for _, _, what in sorted(self.timers):
            what()  # what is stopped is continued, full disks emptied
        self.timers.clear()
        left = [] if hung else self.settle()
        self.read_events()
        for t in self.terminals:
            for stream in t.files:
                if not t.files[stream].closed:
                    self.read_stream(t, stream)
        result.update(left=left, memory=[], folders=[], faults=self.done)
        for h in self.hosts.all:
            if h.up:
                result["memory"] += h.left_in_memory()
            # nothing could clean up on a host that lost its power
            if h.boots == 1 and h.up:
                result["folders"] += ["%s of %s" % (name, h.name)
                                      for name in os.listdir(h.tmp)]
        result["checkpoint"] = sorted(os.listdir(self.path("checkpoint")))
        result["terminals"] = [
            {"name": t.name, "host": t.host, "code": t.code,
             "began": t.began, "ended": t.ended} for t in self.terminals]
        result["load"] = os.getloadavg()[0]
        result["lag"] = round(self.lag, 3)
        return result

    def close(self):
        self.selector.close()
        os.close(self.fifo)
        self.events.close()
        for t in self.terminals:
            t.process.kill()
            t.process.wait()
            for stream in t.files:
                stream.close()
                t.files[stream].close()
        for disk in ("logs", "checkpoint", "journal"):
            if os.path.ismount(self.path(disk)):
                subprocess.run(["umount", self.path(disk)])
        os.unlink(self.path("fifo"))


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
