"""program.py: a failure that run.py plants: a program for all ranks, and what goes wrong
on one of them, in general rank 3, which is on h2. PLANTS gets all of them.

Kinds: py, c and cxx are programs of libddp in which all ranks call all_reduce; the
culprit runs `fault` before one of these calls. torch does the same with PyTorch's gloo,
one rank per host; mpi (MPICH) and ompi (Open MPI) with MPI_Barrier. sh, f90 and rust are programs that communicate with nobody: the
culprit runs `fault`, the others wait."""

import os
import subprocess
import textwrap

PLANTS = []


class Plant:
    def __init__(self, name, kind, cause, fault="", top="", files=None, rank="3",
                 host="h2", options=(), env=None, command=None, before=None,
                 after=None, undo=None, terminal=1, nproc=None):
        self.name, self.kind, self.cause, self.fault = name, kind, cause, fault
        self.top, self.files, self.rank, self.host = top, files or {}, rank, host
        self.options, self.env = list(options), env or {}
        self.nproc = nproc or (1 if kind == "torch" else 2)
        if kind == "torch" and rank == "3":
            self.rank = "1"
        self.command = command or {
            "py": ["$PLANT_PYTHON_PLAIN", "train.py"],
            "torch": ["train.py"], "sh": ["sh", "./train.sh"],
            "c": ["./train"], "cxx": ["./train"], "f90": ["sh", "./train.sh"],
            "rust": ["sh", "./train.sh"], "mpi": ["./train"], "ompi": ["./train"]}[kind]
        self.before, self.after, self.undo = before, after, undo
        self.alone = False  # not beside other jobs
        self.terminal = terminal


def plant(name, kind, cause, fault="", **more):
    PLANTS.append(Plant(name, kind, cause, textwrap.dedent(fault), **more))


def python_text(imports, loop):
    """A Python program as a template: its loop calls planted() and the plant's fault()
    on the culprit."""
    return f"""\
import os
import sys
import time
{imports}
{{top}}

rank = int(os.environ["RANK"])


def planted():
    open(os.environ["PLANTED"], "w").close()


def fault():
{{fault}}


{loop}"""


PY = python_text("import array\n\nimport ddprun", """\
world = ddprun.init()
data = array.array("f", [1.0] * 1000)
for step in range(1000000):
    world.step(step)
    if rank == 3 and step == 20:
        planted()
        fault()
    world.all_reduce(data)
    time.sleep(0.02)
""")

TORCH = python_text("""\
from datetime import timedelta

import torch
import torch.distributed as dist""", """\
if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(seconds={timeout}))
    data = torch.ones(1000)
    for step in range(1000000):
        if rank == 1 and step == 20:
            planted()
            fault()
        dist.all_reduce(data)
        time.sleep(0.02)
""")

C = """\
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddp.h"
{top}

static void fault(void)
{{
{fault}
}}

int main(void)
{{
	static float data[1000];
	ddp_comm *world;

	if (ddp_init(&world, NULL) < 0)
		return 1;
	for (int step = 0;; step++) {{
		if (ddp_rank(world) == 3 && step == 20) {{
			close(open(getenv("PLANTED"), O_CREAT | O_WRONLY, 0666));
			fault();
		}}
		if (ddp_all_reduce(world, data, data, 1000, DDP_F32, DDP_SUM) < 0)
			return 1;
		usleep(20000);
	}}
}}
"""

MPI = """\
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

static void fault(void)
{{
{fault}
}}

int main(int argc, char **argv)
{{
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int step = 0;; step++) {{
		if (rank == 3 && step == 20) {{
			close(open(getenv("PLANTED"), O_CREAT | O_WRONLY, 0666));
			fault();
		}}
		MPI_Barrier(MPI_COMM_WORLD);
		usleep(20000);
	}}
}}
"""

SH = """\
[ "$RANK" = 3 ] || exec sleep 1000
sleep 0.5
: >"$PLANTED"
{fault}
"""


def write(path, text, mode=0o755):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w" if isinstance(text, str) else "wb") as f:
        f.write(text)
    os.chmod(path, mode)


def compile_c(plant, folder, top, build):
    source = f"{folder}/train.{'cc' if plant.kind == 'cxx' else 'c'}"
    write(source, C.format(top=plant.top,
                           fault=textwrap.indent(plant.fault, "\t")))
    subprocess.run(["g++" if plant.kind == "cxx" else "gcc", "-g", "-w", "-O0", "-D_GLIBCXX_ASSERTIONS",
                    "-fstack-protector-all", "-I", top + "/worker-sdk", source,
                    "-o", folder + "/train", "-L", build, "-lddp", "-lpthread", "-lm",
                    "-Wl,-rpath," + build], check=True)


def compile_mpi(plant, folder):
    write(folder + "/train.c", MPI.format(fault=textwrap.indent(plant.fault, "\t")))
    mpi = {"mpi": "mpich", "ompi": "openmpi"}[plant.kind]
    subprocess.run(["mpicc." + mpi, "-g", "-w", folder + "/train.c", "-o",
                    folder + "/train"], check=True)


def build(plant, folder, top, out):
    """Puts the program and plant.files into both hosts' working folders. A file
    whose name begins with "h1/" or "h2/" is only there."""
    python = os.environ.get("PYTHON", "python3")
    plant.command = [{"$PLANT_PYTHON_PLAIN": "python3"}.get(w, w)
                     for w in plant.command]
    if plant.kind == "torch" and plant.command[0] == "train.py":
        plant.command = [python, "train.py"]
    texts = {}
    if plant.kind in ("py", "torch"):
        texts["train.py"] = (PY if plant.kind == "py" else TORCH).format(
            top=plant.top, fault=textwrap.indent(plant.fault or "pass", "    "),
            timeout=plant.env.get("TIMEOUT", "1800"))
    elif plant.kind in ("c", "cxx"):
        compile_c(plant, folder, top, out)
    elif plant.kind in ("mpi", "ompi"):
        compile_mpi(plant, folder)
    elif plant.kind == "f90":
        write(folder + "/x.f90", plant.top)
        subprocess.run(["gfortran", "-g", "-fcheck=all", folder + "/x.f90", "-o",
                        folder + "/x"], check=True)
    elif plant.kind == "rust":
        write(folder + "/x.rs", plant.top)
        subprocess.run(["rustc", "-g", folder + "/x.rs", "-o", folder + "/x"],
                       check=True, stderr=subprocess.DEVNULL)
    if plant.kind in ("sh", "f90", "rust"):
        texts["train.sh"] = SH.format(fault=plant.fault)
    texts.update(plant.files)
    for name, text in texts.items():
        hosts = [name[:2]] if name[:3] in ("h1/", "h2/") else ["h1", "h2"]
        for host in hosts:
            write(f"{folder}/{host}/{name.removeprefix(host + '/')}", text)
    for name in ("train", "x"):
        if os.path.exists(f"{folder}/{name}"):
            for host in ("h1", "h2"):
                if not os.path.exists(f"{folder}/{host}/{name}"):
                    os.link(f"{folder}/{name}", f"{folder}/{host}/{name}")
