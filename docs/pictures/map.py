#!/usr/bin/env python3
"""map.py [OUT.svg]: draws docs/pictures/map.svg, the rooms of docs/structure.md and which
of them include which, from the real #include lines.

A room is drawn above the rooms that it includes. Redundant arrows are omitted: if a
includes b and b includes c, there is no arrow from a to c.
"""
import os
import re
import subprocess
import sys

TREE = os.path.realpath(os.path.dirname(__file__) + "/../..")
# The position of each program's frame: its column, its row from the bottom.
FRAMES = [("rendezvous", 0, 1), ("launcher", 1, 1), ("worker-sdk", 2, 1),
          ("trainers", 3, 1)]
GROUND = ["etcd", "slurm", "pmi", "base"]
BOX_W, BOX_H, GAP_X, GAP_Y, PAD = 104, 26, 14, 26, 16


def rooms():
    with open(TREE + "/docs/structure.md") as f:
        found = re.findall(r"^\| ([a-z-]+/[a-z/]*) \|", f.read(), re.M)
    return [r.rstrip("/") for r in found]


def sources():
    out = subprocess.run(["git", "-C", TREE, "ls-files", "*.c", "*.h"],
                         capture_output=True, text=True, check=True).stdout
    return out.split()


def includes(known):
    """{(room, room that it includes)} of all source files."""
    found = set()
    for path in sources():
        room = os.path.dirname(path)
        if room not in known:
            continue
        with open(TREE + "/" + path) as f:
            for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', f.read(),
                                     re.M):
                other = os.path.dirname(header)
                if other in known and other != room:
                    found.add((room, other))
    return found


def reduced(edges):
    """Without the edges that follow from others."""
    below = {}
    for a, b in edges:
        below.setdefault(a, set()).add(b)

    def reach(a, seen):
        for b in below.get(a, ()):
            if b not in seen:
                seen.add(b)
                reach(b, seen)
        return seen

    return {(a, b) for a, b in edges
            if not any(b in reach(c, set()) for c in below[a] if c != b)}


def levels(nodes, edges):
    """Each room's height: one more than the highest that it includes."""
    level = {}

    def height(a):
        if a not in level:
            level[a] = 0
            level[a] = max([1 + height(c) for b, c in edges
                            if b == a and c in nodes] or [0])
        return level[a]

    for a in nodes:
        height(a)
    return level


def place(known, edges):
    """{room: (x, y)}, [(frame's name, x, y, w, h)], width, height."""
    at, frames = {}, []
    columns = []
    for program, _, _ in FRAMES:
        nodes = [r for r in known if r.split("/")[0] == program]
        level = levels(nodes, edges)
        rows = [[n for n in nodes if level[n] == i]
                for i in range(max(level.values()) + 1)]
        columns.append((program, rows))
    height = max(len(rows) for _, rows in columns) * (BOX_H + GAP_Y)
    x = PAD
    top = PAD + 18
    for program, rows in columns:
        wide = max(len(r) for r in rows)
        w = wide * (BOX_W + GAP_X) + PAD
        for i, row in enumerate(rows):
            y = top + height - (i + 1) * (BOX_H + GAP_Y) + GAP_Y
            left = x + (w - len(row) * (BOX_W + GAP_X) + GAP_X) / 2
            for k, node in enumerate(row):
                at[node] = (left + k * (BOX_W + GAP_X), y)
        frames.append((program, x, PAD, w, height + 18 + PAD))
        x += w + PAD
    y = PAD + height + 18 + PAD + 2 * GAP_Y
    step = (x - PAD) / len(GROUND)
    for i, node in enumerate(GROUND):
        at[node] = (PAD + i * step + (step - BOX_W) / 2, y)
    return at, frames, x, y + BOX_H + PAD


def draw(known, edges):
    at, frames, width, height = place(known, edges)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" '
           'font-family="sans-serif" font-size="11">' % (width, height),
           '<title>The rooms of ddprun and which of them include which'
           "</title>",
           '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" '
           'markerWidth="6" markerHeight="6" orient="auto">'
           '<path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>',
           '<rect width="100%" height="100%" fill="#fff"/>']
    for name, x, y, w, h in frames:
        out.append('<rect x="%d" y="%d" width="%d" height="%d" rx="6" '
                   'fill="#f4f6f8" stroke="#ccd"/>' % (x, y, w, h))
        out.append('<text x="%d" y="%d" font-weight="bold" fill="#334">%s'
                   "</text>" % (x + 8, y + 15, name))
    for a, b in sorted(edges):
        if b == "base":
            continue
        inside = a.split("/")[0] == b.split("/")[0]
        (xa, ya), (xb, yb) = at[a], at[b]
        out.append('<path d="M%d %dL%d %d" stroke="%s" fill="none" '
                   'marker-end="url(#a)"/>'
                   % (xa + BOX_W / 2, ya + BOX_H, xb + BOX_W / 2, yb,
                      "#889" if inside else "#dcb9a0"))
    for name, (x, y) in at.items():
        out.append('<rect x="%d" y="%d" width="%d" height="%d" rx="4" '
                   'fill="#fff" stroke="#567"/>' % (x, y, BOX_W, BOX_H))
        out.append('<text x="%d" y="%d" text-anchor="middle" fill="#123">%s'
                   "</text>" % (x + BOX_W / 2, y + 17,
                                name.split("/")[-1] + ("/" if "/" not in name
                                                       else "")))
    out.append('<text x="%d" y="%d" fill="#667">Everything includes base. '
               "Orange: from one program to another.</text>"
               % (PAD, height - 4))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    known = [r for r in rooms()
             if r.split("/")[0] in [f[0] for f in FRAMES] or r in GROUND]
    text = draw(known, reduced(includes(set(known))))
    path = sys.argv[1] if len(sys.argv) > 1 else TREE + "/docs/pictures/map.svg"
    if path == "-":
        sys.stdout.write(text)
    else:
        with open(path, "w") as f:
            f.write(text)


main()
