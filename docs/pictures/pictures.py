#!/usr/bin/env python3
"""pictures.py BUILD OUT [NAME...]: draws the README's pictures into the folder OUT.

  failure.svg  the failure page of a job of four workers
  top.svg      the screen of `ddprun top` while a trainer runs
  chart.svg    start and restart beside other launchers, of the output of
               make bench BENCH="launch restart", which it reads from stdin

The first two run the programs of BUILD in a terminal of their own, and draw what that
terminal shows. Needs pyte, a terminal emulator (on Debian: sh deps.sh site).
"""
import fcntl
import math
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from xml.sax.saxutils import escape

CELL_W, CELL_H, PAD, BAR = 7.8, 17, 14, 30
BACK, FORE, DIM = "#16181d", "#d8dbe0", "#2a2e37"
COLORS = {"black": "#3b4048", "red": "#f0717a", "green": "#8fcf7f",
          "brown": "#e3c06b", "yellow": "#e3c06b", "blue": "#6fb0f5",
          "magenta": "#cf8ff0", "cyan": "#5fc7c0", "white": "#d8dbe0"}

# Rank 2 fails once rank 0 has printed its lines, so that each picture is the same.
TRAIN = '''\
import os, time

def load(batch):
    images, labels = [0] * 4, [0] * (3 if batch == 17 else 4)
    if len(images) != len(labels):
        raise ValueError(f"batch {batch} has {len(labels)} labels for 4 images")

rank = int(os.environ["RANK"])
for batch in range(18):
    if rank == 0 and batch % 8 == 0:
        print(f"batch {batch}, loss {2.3 / (1 + batch / 4):.3f}", flush=True)
    while batch == 17 and (rank != 2 or not os.path.exists("printed")):
        open("printed", "a") if rank == 0 else time.sleep(0.2)
    load(batch)
'''


class Terminal:
    """A program in a terminal of its own, until it ends or closes it."""

    def __init__(self, argv, cwd, env, columns, rows):
        import pyte
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(argv[0], argv, env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def show(self, until, limit=30.0):
        """Shows what comes until a line of the screen matches, or the end; 1 or 0."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if until and any(re.search(until, l) for l in self.screen.display):
                return 1
            if not select.select([self.fd], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # EIO: the program has ended
                return 0
            if not data:
                return 0
            self.stream.feed(data)
        return 0

    def close(self, keys=b""):
        if keys:
            os.write(self.fd, keys)
            self.show(None, 5)
        os.close(self.fd)
        os.waitpid(self.pid, 0)

    def rows(self):
        """Runs of cells of one style, for each row up to the last that has text."""
        last = max((y for y, l in enumerate(self.screen.display) if l.strip()),
                   default=0)
        for y in range(last + 1):
            cells = [self.screen.buffer[y][x] for x in range(self.screen.columns)]
            runs, x = [], 0
            while x < len(cells):
                end, style = x, cells[x]._replace(data="")
                while end < len(cells) and cells[end]._replace(data="") == style:
                    end += 1
                text = "".join(c.data for c in cells[x:end])
                runs.append((x, text, style))
                x = end
            yield runs


def renamed(rows, old, new):
    """The rows with another name, which is not longer, in their texts."""
    return [[(x, text.replace(old, new), style) for x, text, style in runs]
            for runs in rows]


def color(name, otherwise):
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return "#" + name
    return COLORS.get(name.replace("bright", ""), otherwise)


def draw_terminal(path, title, columns, rows):
    rows = list(rows)
    width = columns * CELL_W + 2 * PAD
    height = len(rows) * CELL_H + BAR + 2 * PAD
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} '
           f'{height:.0f}" role="img" aria-label="{escape(title)}" '
           'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', '
           'monospace" font-size="13">',
           f'<rect width="100%" height="100%" rx="8" fill="{BACK}"/>',
           f'<path d="M0 8a8 8 0 0 1 8-8H{width - 8:.0f}a8 8 0 0 1 8 8V{BAR}H0z" '
           f'fill="{DIM}"/>',
           f'<text x="{PAD}" y="20" fill="{FORE}">{escape(title)}</text>']
    for y, runs in enumerate(rows):
        base = BAR + PAD + y * CELL_H
        for x, text, style in runs:
            fore, back = color(style.fg, FORE), color(style.bg, BACK)
            if style.reverse:
                fore, back = back, fore
            left, span = PAD + x * CELL_W, len(text) * CELL_W
            if back != BACK:
                out.append(f'<rect x="{left:.1f}" y="{base}" width="{span:.1f}" '
                           f'height="{CELL_H}" fill="{back}"/>')
            shown = text.rstrip()
            if not shown:
                continue
            bold = ' font-weight="bold"' if style.bold else ""
            out.append(f'<text x="{left:.1f}" y="{base + 13}" fill="{fore}"{bold} '
                       f'textLength="{len(shown) * CELL_W:.1f}" '
                       f'xml:space="preserve">{escape(shown)}</text>')
    out.append("</svg>\n")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(out))


def environment(build):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("DDP_", "PET_", "SLURM_", "NO_COLOR"))}
    env.update(TERM="xterm-256color", PATH=f"{build}:{env['PATH']}",
               LANG="C.UTF-8")
    return env


def draw_failure(build, out):
    command = "ddprun --nproc-per-node 4 train.py"
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/train.py", "w") as f:
            f.write(TRAIN)
        t = Terminal(command.split(), folder, environment(build), 92, 40)
        t.show(None)
        t.close()
    rows = renamed(t.rows(), folder, "/home/ada")
    draw_terminal(out + "/failure.svg", "$ " + command, 92, rows)


def draw_top(build, out):
    job = "digits"
    env = environment(build)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/digits")
        subprocess.run([build + "/tests/t_idx", "digits", "20000", "32"],
                       cwd=folder, check=True)
        trainer = subprocess.Popen(
            ["ddprun", "--rdzv-id", job, "--nproc-per-node", "4",
             "--log-dir", "logs", "-r", "3", build + "/mnist_mlp", "--data", "digits",
             "--epochs", "100000", "--batch-size", "256"],
            cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            t = Terminal(["ddprun", "top", "--job", job], folder, env, 122, 12)
            found = t.show(r" in call +\d\d+ +[\d.]+ ")
            t.show(None, 6)  # until rates and waits are known
            rows = list(t.rows())
            t.close(b"q")
        finally:
            trainer.send_signal(signal.SIGINT)
            trainer.wait()
    if not found:
        sys.exit("pictures.py: ddprun top has shown no steps within 30 s:\n"
                 + "\n".join(t.screen.display))
    draw_terminal(out + "/top.svg", "$ ddprun top", 122, rows)


# Panels: a title, and what the benchmark prints above its table.
PANELS = [("start 4 workers, and return", r"launch and return of 4 workers"),
          ("one of 4 workers is killed, until all 4 run again",
           r"until all 4 run again")]
# The launchers: how the tables begin their lines, and the name here.
LAUNCHERS = [("ddprun", "ddprun"), ("hydra", "hydra (MPICH)"),
             ("mpirun", "mpirun (Open MPI)"),
             ("torchrun", "torchrun, polling every 10 ms")]
RANGE_MS = (1, 3000)


def medians(text):
    """[{name: ms}] of each panel."""
    found = []
    for title, words in PANELS:
        table = re.search(words + r".*\n((?:.+\n?)*)", text)
        if not table:
            sys.exit(f"pictures.py: stdin has no table of \"{words}\": pipe "
                     'make bench BENCH="launch restart" into it')
        rows = {}
        for start, name in LAUNCHERS:
            m = re.search(rf"^{start}\b.*?\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+",
                          table[1], re.M)
            if m:
                rows[name] = float(m[1])
        found.append(rows)
    return found


def shown_ms(ms):
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"


def draw_chart(build, out):
    width, left, right, row = 760, 240, 90, 26
    low, high = (math.log(x) for x in RANGE_MS)
    lines, y = [], 20
    for (title, _), rows in zip(PANELS, medians(sys.stdin.read())):
        lines.append(f'<text x="14" y="{y}" font-weight="bold">{title}</text>')
        y += 12
        for name, ms in rows.items():
            span = (math.log(ms) - low) / (high - low) * (width - left - right)
            ours = name == "ddprun"
            lines += [f'<text x="{left - 10}" y="{y + 16}" '
                      f'text-anchor="end">{name}</text>',
                      f'<rect x="{left}" y="{y + 3}" width="{max(span, 2):.0f}" '
                      f'height="18" rx="2" fill="{"#2f8f5b" if ours else "#8b95a5"}"/>',
                      f'<text x="{left + max(span, 2) + 8:.0f}" y="{y + 16}">'
                      f'{shown_ms(ms)} ms</text>']
            y += row
        y += 26
    lines.append(f'<text x="14" y="{y - 8}" font-size="11">Logarithmic scale; medians '
                 'of make bench BENCH="launch restart" (docs/performance.md). The '
                 'others do not restart workers.</text>')
    with open(out + "/chart.svg", "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 4}"'
                ' role="img" aria-label="Start and restart of ddprun and others" '
                'font-family="system-ui, sans-serif" font-size="13" fill="#4a5160">\n'
                f'<rect width="100%" height="100%" rx="8" fill="#f6f7f9"/>\n'
                + "\n".join(lines) + "\n</svg>\n")


def main():
    build, out = map(os.path.abspath, sys.argv[1:3])
    names = sys.argv[3:] or ["failure", "top", "chart"]
    drawers = {"failure": draw_failure, "top": draw_top, "chart": draw_chart}
    os.makedirs(out, exist_ok=True)
    for name in names:
        drawers[name](build, out)
        print(f"{out}/{name}.svg")


main()
