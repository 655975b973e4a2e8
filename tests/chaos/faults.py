"""faults.py: does each kind of fault of a plan to a running trial, and undoes it.
`apply` returns what the checker has to know about it, or None if there was no target;
`undo` is called when the fault's time is over.
"""
import os
import resource
import signal
import subprocess

from hosts import send

SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM,
           "stop": signal.SIGSTOP}


def apply(trial, fault):
    name = fault["kind"].replace(" ", "_")
    how = globals().get("do_" + name)
    if how:
        return how(trial, fault)
    return aim(trial, fault, *fault["kind"].split())


def undo(trial, fault, done):
    name = fault["kind"].replace(" ", "_")
    how = globals().get("undo_" + name)
    if how:
        how(trial, fault, done)


# ---- Processes

def aim(trial, fault, what, how):
    host = trial.hosts[fault["host"]]
    found = host.of_kind(what) if host.up else []
    if not found:
        return None
    target = found[fault["pick"] % len(found)]
    if how == "descriptors":
        # before it has a guard, it reads its user's limit, and libuv aborts if it
        # cannot open a pipe; `make faults` does that
        ready = what != "agent" or host.of_kind("guard")
        return no_descriptors(target) if ready else None
    if not send(target.pid, SIGNALS[how]):
        return None
    done = {"pid": target.pid, "inner": target.inner, "line": target.line}
    if how == "stop":
        trial.later(fault["for"], lambda: send(target.pid, signal.SIGCONT))
    elif what in ("agent", "head"):
        done["aimed"] = trial.terminals_on(fault["host"])
        if fault["again"] and what == "agent":
            trial.again(fault["host"])
    elif what == "server" and trial.server:
        trial.later(fault["for"], trial.start_server)
    elif what == "etcd":
        trial.later(1, lambda: trial.start_etcd(fault["host"]))
    return done


def no_descriptors(target):
    """The process can open no further descriptor; the hard limit stays, because not
    every user may raise it again."""
    try:
        n = 1 + max(map(int, os.listdir("/proc/%d/fd" % target.pid)))
        old = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (n, old[1]))
    except (OSError, ValueError):
        return None
    return {"pid": target.pid, "limit": n, "old": old}


def undo_agent_descriptors(trial, fault, done):
    try:
        resource.prlimit(done["pid"], resource.RLIMIT_NOFILE,
                         tuple(done["old"]))
    except OSError:
        pass


undo_server_descriptors = undo_agent_descriptors


# ---- The network

def paths(trial, pairs, *how):
    for a, b in pairs:
        trial.hosts.switch.tell("path", a, b, *how)
    return {}


def around(fault):
    return [(fault["host"], "*"), ("*", fault["host"])]


def between(fault):
    return [(fault["host"], fault["peer"]), (fault["peer"], fault["host"])]


def do_drop(trial, fault):
    return paths(trial, between(fault), "off")


def undo_drop(trial, fault, done):
    paths(trial, between(fault), "0")


def do_oneway(trial, fault):
    return paths(trial, between(fault)[:1], "off")


undo_oneway = undo_drop


def do_split(trial, fault):
    return paths(trial, around(fault), "off")


def undo_split(trial, fault, done):
    paths(trial, around(fault), "0")


def do_delay(trial, fault):
    return paths(trial, around(fault), str(fault["ms"] * 1000),
                 str(fault["jitter"] * 1000))


undo_delay = undo_split


def do_loss(trial, fault):
    return paths(trial, around(fault), "0", "0", str(fault["ppm"]))


undo_loss = undo_split


def do_cable(trial, fault):
    trial.hosts.switch.tell("cable", fault["host"], "off")
    return {}


def undo_cable(trial, fault, done):
    trial.hosts.switch.tell("cable", fault["host"], "on")


def do_reset(trial, fault):
    """RST on its host's connections with the server."""
    host = trial.hosts[fault["host"]]
    if not host.up or host.frozen:
        return None
    out = host.start(["ss", "-K", "-H", "-t", "-n", "state", "established",
                      "dport", "=", ":29400"], None, subprocess.PIPE,
                     subprocess.DEVNULL)
    text = out.communicate()[0]
    return {"connections": text.count(b":29400")} if text else None


# ---- Whole hosts

def do_freeze(trial, fault):
    host = trial.hosts[fault["host"]]
    if not host.up:
        return None
    host.freeze()
    return {}


def undo_freeze(trial, fault, done):
    if trial.hosts[fault["host"]].up:
        trial.hosts[fault["host"]].thaw()


def do_power(trial, fault):
    host = trial.hosts[fault["host"]]
    if not host.up:
        return None
    aimed = trial.terminals_on(fault["host"])
    host.power_off()
    return {"aimed": aimed}


def undo_power(trial, fault, done):
    host = trial.hosts[fault["host"]]
    host.power_on()
    if trial.plan["way"] == "etcd":
        trial.start_etcd(fault["host"])
    if fault["host"] == "h1" and trial.server:
        trial.start_server()
    elif fault["again"]:
        trial.again(fault["host"])


# ---- Disks

def fill(trial, fault):
    """Each host has its own disk."""
    path = os.path.join(trial.folder, fault["kind"].split()[1], "filler")
    try:
        with open(path, "wb", buffering=0) as f:
            while f.write(bytes(4096)) == 4096:
                pass
    except OSError:
        pass
    return {}


def empty(trial, fault, done):
    path = os.path.join(trial.folder, fault["kind"].split()[1], "filler")
    os.unlink(path)


do_full_logs = do_full_checkpoint = do_full_journal = fill
undo_full_logs = undo_full_checkpoint = undo_full_journal = empty


# ---- Clocks

def do_clock(trial, fault):
    """The file that libfaketime reads in a host's ddprun."""
    with open(os.path.join(trial.folder, "clock." + fault["host"]), "w") as f:
        print("%+d" % fault["by"], file=f)
    return {} if trial.faketime else None
