"""report.py: the output of tests/chaos/run: each trial with violations and the command
that repeats it, and the table at the end. tests/chaos/report.py LOG... [KEPT]... makes the
table from the logs of several runs, and lists the violations on stderr. KEPT are folders
of runs: trials whose records are still there are judged again by the present checker.
"""
import collections
import json
import os
import sys

import checker

HEAD = ["fault", "faults", "trials", "succeeded", "in a later round",
        "ended, cause named", "violations"]


class Kind:
    """The trials with one kind of fault. A trial with several kinds counts for
    each."""

    def __init__(self):
        self.faults = self.trials = self.well = self.named = 0
        self.later = self.known = 0  # older logs do not have the rounds
        self.promises = collections.Counter()

    def add(self, row, faults):
        kinds = {kind for kind, _ in row["violations"]}
        self.faults += faults
        self.trials += 1
        self.promises.update(kinds)
        if 0 in row["codes"].values():
            self.well += 1
            self.later += row.get("rounds", 1) > 1
            self.known += "rounds" in row
        else:
            self.named += "cause" not in kinds

    def cells(self):
        return [self.faults, self.trials, self.well,
                "%d of %d" % (self.later, self.known), self.named,
                list_counts(self.promises)]


def list_counts(counts):
    return ", ".join("%s %d" % c for c in sorted(counts.items()))


class Table:
    """Trials by the kinds of their faults."""

    def __init__(self):
        self.kinds = collections.defaultdict(Kind)
        self.all, self.ways = Kind(), collections.Counter()
        self.bad = self.must = self.busy = 0

    def add(self, row):
        done = collections.Counter(row["done"])
        self.all.add(row, len(row["done"]))
        self.bad += len(row["violations"]) > 0
        self.must += row["must"]
        self.busy += row.get("busy", False)
        self.ways[row["way"]] += 1
        for kind in done or ["none"]:
            self.kinds[kind].add(row, done[kind])

    def __str__(self):
        rows = sorted(self.kinds.items()) + [("**all**", self.all)]
        lines = [HEAD, ["---"] * len(HEAD)]
        lines += [[name] + [str(c) for c in kind.cells()]
                  for name, kind in rows]
        text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        lines = ["%d trials (%s)" % (self.all.trials, list_counts(self.ways)),
                 "%d faults; %d trials had to finish; %d have what must not "
                 "be" % (self.all.faults, self.must, self.bad)]
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


def find_records(folders):
    """The folders of trials below these, by the trial's name."""
    found = {}
    for top in folders:
        for folder, _, names in os.walk(top):
            if "result.json" in names:
                found[os.path.basename(folder)] = folder
    return found


def main():
    records = find_records(a for a in sys.argv[1:] if os.path.isdir(a))
    table, older = Table(), 0
    for name in sys.argv[1:]:
        if os.path.isdir(name):
            continue
        with open(name) as f:
            for row in map(json.loads, f):
                if "busy" not in row:
                    older += 1
                    continue
                if row["violations"] and row["trial"] in records:
                    row["violations"] = checker.check(records[row["trial"]])
                table.add(row)
                for kind, text in row["violations"]:
                    print("%s: %s: %s" % (row["trial"], kind, text),
                          file=sys.stderr)
    print(table)
    if older:
        print("left out: %d trials of a checker that did not measure how busy "
              "the machine was" % older)


if __name__ == "__main__":
    main()
