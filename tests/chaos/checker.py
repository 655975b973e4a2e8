"""checker.py: reads the record of a trial (trial.py) and lists its violations. Each
violation is (KIND, TEXT); the kinds are the keys of KINDS. It starts nothing, and
relies on the files only; planted shows that it detects violations.

It derives what is allowed from the faults that were done: whether the job must survive
each of them, and which exit codes and first causes each may lead to.
"""
import json
import os
import re

KINDS = {
    "hang": "a ddprun did not end in the time that its timeouts give it",
    "process": "something of the job lives after its end",
    "file": "a file or folder is left behind",
    "torn": "a checkpoint is damaged, or not what was saved",
    "resume": "a job goes on from elsewhere than its last checkpoint",
    "sum": "a collective or the store gave a wrong result",
    "overlap": "two rounds ran on one host at once",
    "ranks": "the ranks of a round are not 0 to N-1, once each",
    "restarts": "more restarts than --max-restarts",
    "code": "an exit code that no fault of the trial explains",
    "codes": "nodes end with different codes",
    "cause": "a terminal has no first cause, or two",
    "blame": "the first cause is none of what was done",
    "crash": "a program of ours crashed",
    "finish": "the job had to finish, and did not",
    "steps": "success, and not all steps were done",
}

VERDICT = re.compile(r"^ddprun(?: on \S+)?: job '[^']*' (?:failed|ended): (.*)")
# a line of a host's own goes through ssh, and has the host's name before it
ERROR = re.compile(r"^(?:h\d: )?ddprun(?: on \S+)?: error: (.*)")
CRASH = re.compile(r"SIG(SEGV|ABRT|BUS|FPE|ILL)|[Aa]ssertion|"
                   r"Sanitizer|runtime error:")
SPARE = re.compile(r"^ddprun(?: on (\S+?))?: this node waits as a spare", re.M)
BETWEEN_TRIES = 1.0  # s, of a ddprun whose server is not there yet
VICTIM = 17  # c_chaos, of another's failure
# On a machine so busy that a process is late by more than this part of the heartbeat
# timeout, nodes are lost without a fault: these kinds cannot be judged there.
BUSY = 0.1
TIMED = {"code", "codes", "blame", "finish"}

# Possible exit codes of ddpruns that were not the target. An empty set: the job does
# not notice, or continues. For faults with a length: see `codes_of`.
LOST = {69, 75}
CODES = {
    "worker kill": {137}, "worker term": {143},
    "agent kill": LOST, "agent term": {143, 75},
    "head kill": {137}, "head term": {143},
    "ssh kill": LOST, "sshd kill": LOST, "far kill": LOST, "power": LOST,
    "agent descriptors": {66, 69, 71, 75},
}
# The node is silent meanwhile, and lost if that is long.
SILENT = {"agent stop", "server stop", "freeze", "split", "cable", "drop",
          "oneway"}
# The node is lost: an elastic job continues without it.
NODE = {"agent kill", "agent term", "agent stop", "ssh kill", "sshd kill",
        "far kill", "power", "freeze", "split", "cable"}


class Trial:
    """The parsed files of a trial."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "plan.json")) as f:
            self.plan = json.load(f)
        with open(os.path.join(folder, "result.json")) as f:
            self.result = json.load(f)
        self.faults = self.result["faults"]
        self.terminals = self.result["terminals"]
        self.events = []
        with open(os.path.join(folder, "events"), errors="replace") as f:
            for line in f:
                self.events.append(Event(line.rstrip("\n").split(" ")))
        self.events.sort(key=lambda e: e.at)
        self.aimed = {name for f in self.faults for name in
                      f.get("aimed", [])}

    def text(self, terminal, suffix="err"):
        path = os.path.join(self.folder, terminal["name"] + "." + suffix)
        with open(path, errors="replace") as f:
            return f.read()

    def is_busy(self):
        return self.result["lag"] > BUSY * self.plan["heartbeat"]

    def has_begun(self, at):
        """Whether a worker was born before."""
        return any(e.at < at for e in self.of_kind("born"))

    def of_kind(self, what):
        return [e for e in self.events if e.what == what]


class Event:
    def __init__(self, words):
        self.at = int(words[0]) / 1e9
        self.host = words[1]
        self.node, self.rank, self.size = map(int, words[2:5])
        self.attempt, self.round, self.pid = map(int, words[5:8])
        self.what, self.rest = words[8], words[9:]

    def text(self):
        return "rank %d on %s, round %d: %s %s" % (
            self.rank, self.host, self.round, self.what, " ".join(self.rest))


# ---- What the faults explain

def bearable(plan):
    """Seconds of silence without effect; etcd has timeouts of its own."""
    return (0.5 if plan["way"] == "etcd" else 0.9) * plan["heartbeat"]


def is_short(fault, plan):
    late = 0
    if fault["kind"] == "cable" and fault["for"] >= 0.1:
        late = 1  # the kernel takes a second to see that it is back
    return fault.get("for", 0) + late < bearable(plan)


def silence(trial):
    """Seconds in which nodes may have been silent, one after the other."""
    return sum(f["for"] for f in trial.faults
               if f["kind"] in SILENT and is_short(f, trial.plan))


def codes_of(fault, trial):
    """Codes that a fault may cause, on terminals that were not the target."""
    kind, plan = fault["kind"], trial.plan
    if kind == "full journal" and not trial.has_begun(fault["at"]):
        return LOST  # a server without space for its journal does not start
    if kind == "server descriptors" and not trial.has_begun(fault["at"]):
        # it reads its limit when it starts, and refuses clients beyond that
        return LOST | {76}
    if kind == "agent term" and has_server(fault["host"], plan) and \
            not any(e.host == fault["host"] for e in trial.events):
        return CODES[kind] | LOST  # a spare leaves, and takes the server along
    if kind in CODES:
        return CODES[kind]
    if kind in SILENT:
        if is_short(fault, plan) and silence(trial) < bearable(plan):
            return set()
        # a node that is joining gives up a server that is silent for 5 s
        silent = {76} if fault["for"] > 4 and (
            kind == "server stop" or has_server(fault["host"], plan) or
            has_server(fault.get("peer"), plan)) else set()
        # if the server hears both, the workers miss each other
        path = kind in ("drop", "oneway", "split", "cable")
        return LOST | silent | ({VICTIM} if path else set())
    if kind.startswith("etcd") and \
            len([f for f in trial.faults if f["kind"].startswith("etcd") or
                 f["kind"] in NODE]) > 1:
        return LOST  # no majority
    return set()


def own_codes(fault):
    """Codes of the other terminals on its host."""
    return LOST | {137, 143} if fault["kind"] in NODE | SILENT else set()


def allowed_codes(trial, terminal):
    allowed = {0}
    for f in trial.faults:
        if f["at"] > (terminal["ended"] or f["at"]):
            continue
        allowed |= codes_of(f, trial)
        if terminal["host"] in (f["host"], f.get("peer")):
            allowed |= own_codes(f)
    if is_late(trial, terminal):
        allowed |= LOST
    return allowed


def is_late(trial, terminal):
    """It came again, or when the others were as good as through, or all of
    them between two of its tries to reach the server."""
    ends = [t["ended"] for t in trial.terminals
            if t["ended"] and t["name"] != terminal["name"]]
    first = min(t["began"] for t in trial.terminals)
    if "." in terminal["name"]:
        return True
    over = [e.at for e in trial.of_kind("end") if e.host != terminal["host"]]
    if not ends or terminal["host"] in {
            e.host for e in trial.events if not over or e.at < over[0]}:
        return False
    server = max([t["began"] for t in trial.terminals
                  if t["host"] == trial.plan["nodes"][0]], default=first)
    return terminal["began"] > min(first + 0.1, min(ends) - 0.3) or \
        min(ends) - server < BETWEEN_TRIES or \
        any(terminal["host"] in (f["host"], f.get("peer"))
            for f in trial.faults)


def must_finish(trial):
    """Whether the job must succeed in spite of its faults."""
    plan = trial.plan
    ends = [e.at for e in trial.of_kind("done")]
    kills, lost = 0, set()
    for f in trial.faults:
        if ends and f["at"] > ends[0] - 0.05:
            return False  # some have finished: nobody can be taken in again
        if not codes_of(f, trial):
            continue
        if f["kind"] == "agent term" and plan["min"] == plan["max"]:
            return False  # it is the whole job that is meant
        is_worker = f["kind"].startswith("worker")
        kills += is_worker or VICTIM in codes_of(f, trial)
        if f["kind"] in NODE and not has_server(f["host"], plan):
            lost.add(f["host"])
        elif not is_worker:
            return False
    return kills <= plan["restarts"] and \
        (not lost or len(came(trial) - lost) >= plan["min"])


def came(trial):
    """Nodes that can replace a lost one. A job of a fixed size does not wait: a node
    that was still starting when another was lost cannot."""
    plan = trial.plan
    if plan["min"] != plan["max"]:
        return set(plan["nodes"])
    here = {e.host for e in trial.events}
    for t in trial.terminals:
        here |= {name or t["host"] for name in SPARE.findall(trial.text(t))}
    return here


def has_server(host, plan):
    return plan["way"] != "etcd" and host == "h1"


def suspects(trial, terminal):
    """Hosts that the first cause may name on this terminal."""
    hosts = set()
    for f in trial.faults:
        mine = {f["host"], f.get("peer", f["host"])}
        if f["kind"].startswith("ssh "):  # where it leads to
            mine |= set(re.findall(r" -- (h\d)", f["line"]))
        hosts |= mine
        if terminal["host"] in mine and f["kind"] not in CODES:
            hosts.add("h1")  # it is the server that is silent to it
        # a server's host misses all others, and they miss it and, when it
        # is back, those that have given up
        if trial.plan["way"] == "etcd" and terminal["host"] in mine or \
                has_server(f["host"], trial.plan) and \
                f["kind"] in SILENT | {"power"}:
            hosts |= set(trial.plan["hosts"])
    return hosts


# ---- Checks: each yields the texts of its violations

def check_hang(trial):
    for name in trial.result["hung"]:
        yield "%s did not end within %d s" % (name, trial.plan["limit"])


def check_process(trial):
    yield from trial.result["left"]


def check_file(trial):
    for name in trial.result["memory"]:
        # libfaketime's, of a process that was killed
        if "faketime" not in name:
            yield "/dev/shm/" + name
    killed = [f for f in trial.faults if f["kind"] == "guard kill"]
    for name in trial.result["folders"]:
        # if ddprun and its guard are both killed, nothing cleans up
        if not killed or not trial.aimed:
            yield "TMPDIR: " + name
    for name in trial.result["checkpoint"]:
        if name not in ("checkpoint", "filler") and not trial.faults:
            yield "beside the checkpoint: " + name


def check_torn(trial):
    for e in trial.of_kind("torn"):
        yield e.text()


def check_resume(trial):
    """Rank 0 resumes from the last save; a pending save may have completed, and that
    of a rank that was cut off may arrive late."""
    begun, saved = {0}, 0
    under_way = False
    for e in trial.events:
        if e.what == "saving":
            begun.add(int(e.rest[0]))
            under_way = True
        elif e.what == "saved":
            saved, under_way = int(e.rest[0]), False
        elif e.what == "resumed":
            step = int(e.rest[0])
            if step not in begun:
                yield e.text() + ", which nobody saved"
            elif step < saved and not under_way:
                yield e.text() + ", and %d was saved" % saved


def check_sum(trial):
    for e in trial.of_kind("wrong"):
        yield e.text()


def check_overlap(trial):
    for e in trial.of_kind("overlap"):
        yield e.text()


def finished(trial):
    """The times at which the last worker of a round had done all of its steps."""
    alive, times, number = set(), [], None
    for e in trial.events:
        if e.what == "born":
            if e.round != number:
                alive.clear()  # others were killed
            number = e.round
            alive.add((e.host, e.pid))
        elif e.what == "end":
            alive.discard((e.host, e.pid))
            if not alive:
                times.append(e.at)
    return times


def job_at(trial, at):
    """The number of times that rounds had begun at 0 again by then. Under etcd a
    node that could not reach it until the others were through begins a job of its
    own. A server without a journal has lost all it knew if its host's ddprun was
    started again."""
    if trial.plan["way"] == "etcd":
        return sum(end < at for end in finished(trial))
    if trial.plan["journal"] or trial.plan["way"] == "apart":
        return 0
    return sum(t["host"] == trial.plan["hosts"][0] and t["began"] <= at
               for t in trial.terminals)


def check_ranks(trial):
    rounds = {}
    for e in trial.of_kind("begin"):
        ranks, pids = rounds.setdefault(
            (job_at(trial, e.at), e.round, e.size), (set(), set()))
        if e.rank in ranks and (e.host, e.pid) not in pids:
            yield e.text() + ": a second one"
        if not 0 <= e.rank < e.size:
            yield e.text() + " of %d" % e.size
        ranks.add(e.rank)
        pids.add((e.host, e.pid))
    least = trial.plan["min"]
    for (job, number, size), (ranks, _) in rounds.items():
        nodes = {e.node for e in trial.of_kind("begin")
                 if e.round == number and job_at(trial, e.at) == job}
        if len(ranks) == size and not least <= len(nodes) <= \
                trial.plan["max"]:
            yield "round %d has %d nodes" % (number, len(nodes))


def check_restarts(trial):
    for e in trial.of_kind("born"):
        if e.attempt > trial.plan["restarts"]:
            yield e.text() + ": attempt %d" % e.attempt


def check_code(trial):
    for t in trial.terminals:
        if t["name"] in trial.aimed or t["code"] is None:
            continue
        allowed = allowed_codes(trial, t)
        if t["code"] not in allowed:
            yield "%s ended with %d; %s may be" % (
                t["name"], t["code"], " ".join(map(str, sorted(allowed))))


def check_codes(trial):
    """If no host was cut off, all terminals report the same."""
    if any(f["kind"] in SILENT | {"power", "agent kill"} or
           f["kind"] == "agent descriptors" for f in trial.faults):
        return
    codes = {t["name"]: t["code"] for t in trial.terminals
             if t["name"] not in trial.aimed and t["code"] is not None and
             not is_late(trial, t)}
    if len(set(codes.values())) > 1:
        yield str(codes)


def causes(trial, terminal):
    """First causes that it prints: the job's, else its own error."""
    verdicts, errors = [], []
    for line in trial.text(terminal).splitlines():
        for pattern, found in ((VERDICT, verdicts), (ERROR, errors)):
            match = pattern.match(line)
            if match:
                found.append(match.group(1))
    return verdicts or errors[-1:]


def failed(trial):
    """Terminals that had to print a cause."""
    return [t for t in trial.terminals if t["code"] and
            t["name"] not in trial.aimed]


def check_cause(trial):
    for t in failed(trial):
        n = len(causes(trial, t))
        if n != 1:
            yield "%s ended with %d and names %d causes" % (
                t["name"], t["code"], n)


def named(text):
    return set(re.findall(r"\bh[1-9]\b", re.sub(
        r"\b10\.79\.0\.([1-9])\b", r"h\1", text)))


def check_blame(trial):
    for t in failed(trial):
        cause = " ".join(causes(trial, t))
        if not cause or is_late(trial, t) or cause.startswith("gave up"):
            continue  # no node came that could be named
        if "exited with code %d" % VICTIM in cause and \
                VICTIM not in allowed_codes(trial, t):
            yield "%s names a victim: %s" % (t["name"], cause)
        elif named(cause) and not named(cause) & suspects(trial, t):
            yield "%s: %s" % (t["name"], cause)
    kills = [f for f in trial.faults if f["kind"] == "worker kill"]
    if len(trial.faults) == 1 and kills:
        want = r"pid %d, was killed by signal 9 " % kills[0]["inner"]
        for t in failed(trial):
            if not is_late(trial, t) and \
                    not re.search(want, " ".join(causes(trial, t))):
                yield "%s does not name %s" % (t["name"], want)


def check_crash(trial):
    for t in trial.terminals:
        for line in trial.text(t).splitlines():
            if CRASH.search(line):
                yield "%s: %s" % (t["name"], line)
        if t["code"] in (70, 134, 135, 136, 139):
            yield "%s ended with %d" % (t["name"], t["code"])


def check_finish(trial):
    if not must_finish(trial):
        return
    for t in failed(trial):
        own = any(f["host"] == t["host"] and codes_of(f, trial)
                  for f in trial.faults)
        if not own and not is_late(trial, t):
            yield "%s ended with %d: %s" % (
                t["name"], t["code"], " ".join(causes(trial, t)))


def check_steps(trial):
    if not any(t["code"] == 0 for t in trial.terminals):
        return
    done = max([int(e.rest[0]) for e in trial.of_kind("step")], default=0)
    if done != trial.plan["steps"]:
        yield "%d of %d" % (done, trial.plan["steps"])


def check(folder):
    """All violations of the trial in that folder."""
    trial = Trial(folder)
    kinds = [k for k in KINDS if k not in TIMED or not trial.is_busy()]
    return [(kind, text) for kind in kinds
            for text in globals()["check_" + kind](trial)]
