"""examples.py PAGE PORT: runs the examples of a page in the current folder: each
literal block that begins with `$ `, a command line. It must print what the block shows.
A line `...` stands for any lines. Numbers and the host's name may be others; a port
29400 becomes PORT. Each example is a line of TAP.
"""
import os
import re
import subprocess
import sys


def examples(path):
    """(line number, command, [lines])"""
    block = None
    for number, line in enumerate(open(path), 1):
        line = line.rstrip("\n")
        if line.startswith("```"):
            if block and block[1].startswith("$ "):
                yield block[0], block[1][2:], block[2:]
            block = None if block or block == [] else [number + 1]
        elif block is not None:
            block.append(line)


def plain(line):
    """Without what differs from run to run."""
    line = line.replace(" (nanosleep)", "")  # not every kernel shows it
    line = line.replace(f" {os.uname().nodename},", " h1,")
    line = re.sub(rf" on {re.escape(os.uname().nodename)}\b", " on h1", line)
    line = re.sub(rf"host {re.escape(os.uname().nodename)}$", "host h1", line)
    return re.sub(r"[0-9]+([.][0-9]+)?", "N", line.replace("h1", "HOST"))


def matches(want, got):
    """Whether got is want, of whose lines `...` matches any number."""
    if not want:
        return not got
    if want[0] == "...":
        return any(matches(want[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and plain(want[0]) == plain(got[0]) and matches(
        want[1:], got[1:])


count = failed = 0
for at, line, want in examples(sys.argv[1]):
    # a command that does not end is the suite's to stop
    done = subprocess.run(
        ["bash", "-c", line.replace("29400", sys.argv[2])],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)
    count += 1
    if matches(want, done.stdout.splitlines()):
        print(f"ok {count} line {at}: {line}")
        continue
    failed += 1
    print(f"not ok {count} line {at}: {line}")
    for text in done.stdout.splitlines():
        print(f"# {text}")
print(f"{count} examples, {failed} failed")
sys.exit(failed > 0 or not count)
