"""plan.py: turns a seed into a plan: how a job is started, and its faults with their
times. It starts nothing; trial.py does. A plan is plain data, so that it can be stored
as JSON, read, and edited by hand.

A fault is {"kind", "host", "when", ...}. "when" names a phase and the seconds after
its start:

  start       the first ddprun has been started; here and in the next phase, the
              target may not exist yet, and is waited for
  rendezvous  all ddpruns run but that of the last node, which starts later
  init        the first worker runs, before ddp_init
  step        rank 0 has completed step "step"
  saving      rank 0 is about to write a checkpoint, for the "nth" time
  restart     the first worker of a later round runs
  end         a worker has completed all its steps, before ddp_finalize
"""
import random

# How a job is started, and how often.
WAYS = {"one": 2, "hand": 4, "elastic": 5, "spares": 3, "apart": 3,
        "ssh": 3, "ssh elastic": 4, "ssh spares": 3, "etcd": 2}

# Faults: the kind to how often, and in which ways (all).
KINDS = {
    "worker kill": (6, None), "worker term": (2, None),
    "worker stop": (3, None),
    "agent kill": (4, None), "agent term": (2, None),
    "agent stop": (4, None), "agent descriptors": (2, None),
    "guard kill": (3, None), "guard stop": (1, None),
    "server kill": (5, None), "server stop": (3, None),
    "server descriptors": (2, None),
    "ssh kill": (4, "ssh"), "ssh stop": (2, "ssh"),
    "sshd kill": (4, "ssh"), "sshd stop": (1, "ssh"),
    "far kill": (3, "ssh"), "far stop": (1, "ssh"),
    "head kill": (2, "ssh"), "head term": (2, "ssh"),
    "cable": (4, "hosts"), "drop": (3, "hosts"), "oneway": (2, "hosts"),
    "split": (2, "hosts"), "delay": (3, "hosts"), "loss": (3, "hosts"),
    "freeze": (4, "hosts"), "power": (4, "hosts"), "reset": (4, "hand"),
    "full logs": (3, None), "full checkpoint": (3, None),
    "full journal": (2, "journal"),
    "clock": (2, "hand"),
    "etcd kill": (8, "etcd"), "etcd stop": (6, "etcd"),
}

# Faults of a process that end after a random time.
LASTING = ("stop", "descriptors", "cable", "drop", "oneway", "split",
           "delay", "loss", "freeze", "power", "full")
PHASES = ["start", "rendezvous", "init", "step", "saving", "end"]

# Seconds. A job is short, and so is every wait in it.
HEARTBEAT, SHUTDOWN, RDZV, RECONNECT, LAST_CALL = 2.5, 2.0, 15.0, 6.0, 0.5
WORKERS = 15  # DDP_TIMEOUT


def over_ssh(plan):
    return plan["way"].startswith("ssh")


def fits(kind, plan):
    where = KINDS[kind][1]
    return where is None or \
        (where == "ssh" and over_ssh(plan)) or \
        (where == "hosts" and len(plan["hosts"]) > 1) or \
        (where == "hand" and plan["way"] in
         ("hand", "elastic", "spares", "apart")) or \
        (where == "journal" and plan["journal"]) or \
        where == plan["way"]


def draw_shape(draw, plan):
    """Hosts, nodes, and the value of --nnodes."""
    way = plan["way"]
    if way == "one":
        least = most = n = 1
    elif way in ("hand", "ssh", "apart"):
        least = most = n = draw.choice([2, 2, 3])
    elif way.endswith("spares"):
        least = most = draw.choice([1, 2])
        n = most + draw.choice([1, 1, 2])
        if draw.random() < 0.4:
            least = 1
    else:
        n = most = draw.choice([2, 3]) if way != "etcd" else 3
        least = draw.choice(range(1, most))
    first = 2 if way == "apart" else 1
    plan["nodes"] = ["h%d" % i for i in range(first, first + n)]
    plan["hosts"] = ["h%d" % i for i in range(1, first + n)]
    plan["min"], plan["max"] = least, most
    plan["nproc"] = draw.choice([1, 1, 2, 3]) if way != "one" \
        else draw.choice([1, 2, 4])
    late = 1.2 if least < most else 0.6
    plan["stagger"] = {h: round(draw.choice([0, 0, draw.random() * late]), 3)
                       for h in plan["nodes"]}


def restarts(fault, plan):
    """Whether it is likely that there is another round after it."""
    return fault["when"]["phase"] in ("init", "step", "saving") and \
        (fault["kind"] in ("worker kill", "worker term") and
         plan["restarts"] or
         fault["kind"] in ("agent kill", "sshd kill", "far kill") and
         fault["host"] != "h1" and plan["min"] < plan["max"])


def draw_when(draw, plan, kind, before):
    phases = PHASES[2:] + ["step"] * 4
    if any(restarts(f, plan) for f in before):
        phases += ["restart"] * 8
    if not kind.startswith("worker"):
        phases += PHASES[:1 if over_ssh(plan) or plan["way"] == "one" else 2]
    when = {"phase": draw.choice(phases),
            "after": round(draw.choice([0, 0, draw.random() * 0.03,
                                        draw.random() * 0.3]), 4)}
    if when["phase"] == "start":
        when["after"] = round(draw.random() * 0.6, 4)
    if when["phase"] == "end":
        when["after"] = round(draw.choice([0, draw.random() * 0.003]), 4)
    if when["phase"] == "step":
        when["step"] = draw.randrange(1, plan["steps"])
    if when["phase"] == "saving":
        when["nth"] = draw.randrange(3)
    return when


def draw_length(draw, kind, plan):
    """A heartbeat must survive a short outage, and must not survive a long one."""
    if kind.startswith("full") or kind.endswith("descriptors"):
        return round(draw.uniform(0.1, 2), 3)
    if kind in ("delay", "loss"):
        return round(draw.uniform(0.5, 4), 3)
    if kind == "power":
        return round(draw.uniform(0.2, 4), 3)
    if kind == "cable":  # the kernel takes a second to see that it is back
        return draw.choice([0.05, round(draw.uniform(0.1, 0.85)
                                        * plan["heartbeat"] - 0.15, 3),
                            round(draw.uniform(1.5, 2.2)
                                  * plan["heartbeat"], 3)])
    if draw.random() < 0.6:
        return round(draw.uniform(0.02, 0.85) * plan["heartbeat"], 3)
    return round(draw.uniform(1.6, 2.2) * plan["heartbeat"], 3)


def draw_fault(draw, plan, kind, before):
    fault = {"kind": kind, "host": draw.choice(plan["hosts"]),
             "when": draw_when(draw, plan, kind, before)}
    what = kind.split()[0]
    if what == "server" and plan["way"] != "etcd":
        fault["host"] = "h1"
    elif what in ("ssh", "head"):
        fault["host"] = "h1"  # where it is typed
    elif what in ("worker", "agent", "guard", "far", "sshd"):
        fault["host"] = draw.choice(plan["nodes"])
    elif kind == "reset":
        fault["host"] = draw.choice(plan["nodes"])
    fault["pick"] = draw.randrange(12)
    if any(word in kind for word in LASTING):
        fault["for"] = draw_length(draw, kind, plan)
    if kind == "server kill" and plan["way"] == "apart":
        fault["for"] = round(draw.uniform(0.05, 2), 3)
    if kind in ("drop", "oneway", "split"):
        fault["peer"] = draw.choice([h for h in plan["hosts"]
                                     if h != fault["host"]])
    if kind == "delay":
        fault["ms"] = draw.choice([2, 20, 80])
        fault["jitter"] = draw.choice([0, 5, 40])
    if kind == "loss":
        fault["ppm"] = draw.choice([2000, 20000, 50000])
    if kind == "clock":
        fault["host"] = draw.choice(plan["nodes"])
        fault["by"] = draw.choice([-86400, -3600, -5, 5, 3600, 86400])
    # a lost node may return
    fault["again"] = plan["min"] < plan["max"] and not over_ssh(plan) and \
        draw.random() < 0.5
    return fault


def draw_faults(draw, plan, n):
    kinds = [k for k in KINDS if fits(k, plan)]
    weights = [KINDS[k][0] for k in kinds]
    faults = []
    for kind in draw.choices(kinds, weights, k=n):
        # one disk, one clock
        if any(f["kind"].split()[0] == kind.split()[0] for f in faults) and \
                kind.split()[0] in ("full", "clock"):
            continue
        faults.append(draw_fault(draw, plan, kind, faults))
    if len(faults) > 1 and draw.random() < 0.25:
        faults[1]["when"] = dict(faults[0]["when"])  # both at once
    return faults


def limit(plan):
    """Seconds after which a trial counts as hanging: the sum of all its timeouts, on a
    busy machine."""
    each = 3 * plan["heartbeat"] + plan["shutdown"] + plan["reconnect"]
    last = plan["shutdown"] + 17 + 4 * plan["heartbeat"]
    return round(30 + plan["steps"] * (plan["pace"] / 1000 + 0.1) +
                 sum(f.get("for", 0) + each for f in plan["faults"]) +
                 plan["rdzv"] + plan["ddp_timeout"] + last)


def draw_plan(seed, number, ways=None, kinds=None):
    """The plan of trial `number` of that seed; ways and kinds: only these."""
    draw = random.Random("%s.%s" % (seed, number))
    ways = {w: n for w, n in WAYS.items() if not ways or w in ways}
    plan = {"seed": "%s.%s" % (seed, number),
            "way": draw.choices(list(ways), list(ways.values()))[0],
            "heartbeat": HEARTBEAT, "shutdown": SHUTDOWN, "rdzv": RDZV,
            "reconnect": RECONNECT, "last_call": LAST_CALL,
            "ddp_timeout": WORKERS,
            "steps": draw.choice([15, 40, 80]),
            "pace": draw.choice([2, 10, 25]),
            "save": draw.choice([2, 5, 9]),
            "restarts": draw.choice([0, 1, 3, 3])}
    plan["journal"] = plan["way"] == "apart" or \
        (plan["way"] in ("hand", "elastic") and draw.random() < 0.3)
    draw_shape(draw, plan)
    plan["faults"] = draw_faults(draw, plan,
                                 draw.choice([0, 1, 1, 1, 2, 2, 3, 3]))
    if kinds:
        plan["faults"] = [draw_fault(draw, plan, draw.choice(kinds), [])]
    if any(f["when"]["phase"] == "rendezvous" for f in plan["faults"]):
        plan["stagger"][plan["nodes"][-1]] = 0.9 + \
            max(plan["stagger"].values())
    plan["limit"] = limit(plan)
    # the time that processes have to end after the last ddprun
    plan["settle"] = 5 + plan["shutdown"] + 3 * plan["heartbeat"]
    return plan
