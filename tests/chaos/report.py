"""report.py: the output of tests/chaos/run: each trial with violations and the command
that repeats it, and the table at the end. tests/chaos/report.py LOG... makes the table
from the logs of several runs.
"""
import json
import os
import sys

HEAD = ["fault", "done", "survived", "ended", "violations"]


class Table:
    """Trials by the kinds of their faults."""

    def __init__(self):
        self.rows, self.ways = {}, {}
        self.trials = self.faults = self.bad = 0
        self.must = self.busy = 0

    def add(self, row):
        well = 0 in row["codes"].values()
        bad = len(row["violations"]) > 0
        self.trials += 1
        self.faults += len(row["done"])
        self.bad += bad
        self.must += row["must"]
        self.busy += row["busy"]
        self.ways[row["way"]] = self.ways.get(row["way"], 0) + 1
        for kind in row["done"] or ["none"]:
            counts = self.rows.setdefault(kind, [0, 0, 0, 0])
            counts[0] += 1
            counts[1 if well else 2] += 1
            counts[3] += bad

    def __str__(self):
        lines = [HEAD, ["---"] * len(HEAD)]
        lines += [[kind] + [str(n) for n in counts]
                  for kind, counts in sorted(self.rows.items())]
        text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        ways = ", ".join("%s %d" % w for w in sorted(self.ways.items()))
        lines = ["%d trials (%s)" % (self.trials, ways),
                 "%d faults; %d trials had to finish; %d have what must not "
                 "be" % (self.faults, self.must, self.bad)]
        if self.busy:
            lines.append("%d trials on a busy machine: their ends are not "
                         "judged" % self.busy)
        return "\n".join([text] + lines)


def describe(fault):
    when = fault["when"]
    at = " ".join(str(when[k]) for k in ("step", "nth") if k in when)
    more = " ".join("%s=%s" % (k, fault[k])
                    for k in ("for", "peer", "by", "ms", "ppm", "inner")
                    if k in fault)
    return "%s on %s, %.0f ms after %s %s %s" % (
        fault["kind"], fault["host"], when["after"] * 1000, when["phase"],
        at, more)


def show(folder, plan, row):
    with open(os.path.join(folder, "result.json")) as f:
        result = json.load(f)
    print("TRIAL %s: %s, %d of %d to %d nodes with %d workers, R=%d, %.1f s" % (
        plan["seed"], plan["way"], len(plan["nodes"]), plan["min"],
        plan["max"], plan["nproc"], plan["restarts"], row["seconds"]))
    for fault in result["faults"]:
        print("  fault: %s" % describe(fault))
    for kind, text in row["violations"]:
        print("  MUST NOT BE (%s): %s" % (kind, text))
    for line in result["stuck"]:
        print("  stuck: %s" % line)
    for t in result["terminals"]:
        print("  %s ended with %s" % (t["name"], t["code"]))
        with open(os.path.join(folder, t["name"] + ".err"),
                  errors="replace") as f:
            for line in f.read().splitlines()[:30]:
                print("  | " + line)
    seed, _, number = plan["seed"].rpartition(".")
    print("  kept in %s; again: make chaos SEED=%s TRIAL=%s" % (
        folder, seed, number))
    sys.stdout.flush()


def main():
    table = Table()
    for name in sys.argv[1:]:
        with open(name) as f:
            for line in f:
                table.add(json.loads(line))
    print(table)


if __name__ == "__main__":
    main()
