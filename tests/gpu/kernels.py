#!/usr/bin/env python3
"""kernels.py [--cache FOLDER] CUDA [FILE...]: compiles the trainers' CUDA kernels
for an A100, an H200 and a B200, and checks, without a GPU, what decides whether
they reach its speed: registers, spills and local memory (ptxas), the threads that
fit on a multiprocessor at once, and, for those that only move memory, the bytes
that their threads have asked memory for before one of them waits (PTX). Prints a
row for each kernel; exits with 1 if one falls short. --cache keeps what the
compiler said, by the contents of the sources, for the next run."""

import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

# Memory's bandwidth in bytes/s, multiprocessors, and shared memory of each. To
# keep memory busy, bandwidth x latency bytes have to be on their way.
GPUS = {
    80: ("A100", 2.04e12, 108, 164 << 10),
    90: ("H200", 4.8e12, 132, 228 << 10),
    100: ("B200", 8.0e12, 148, 228 << 10),
}
LATENCY = 0.8e-6  # seconds, under load

# No kernel may spill registers, or keep an array in local memory, which is as far
# away as any other; and each fills a quarter of a multiprocessor.
THREADS_LEAST = 512

# Kernels that only move memory: they have to keep it busy.
BOUND = re.compile(
    r"norm_(moments|apply|slopes|backward)<|"
    r"(arena_(add|widen|narrow)|arena_(add_values|narrow|widen)<.*|"
    r"update_(look|pass))$")

REGISTERS, WARPS, BLOCKS, THREADS = 65536, 64, 32, 256


def source_name(mangled):
    """norm_apply<bf16, 1> of _ZN..10norm_applyItLb1EEv4walk11kernel_norm."""
    start = 0
    for m in re.finditer(r"\d+", mangled):
        n = int(m.group())
        name = mangled[m.end():m.end() + n]
        if len(name) == n and not name.startswith("_GLOBAL") and \
                not name.startswith("_INTERNAL"):
            start = m.end() + n
            break
    else:
        return mangled
    rest = mangled[start:]
    if not rest.startswith("I"):
        return name
    types = {"t": "bf16", "s": "fp16", "f": "f32"}
    args = [types.get(rest[1], rest[1])]
    args += re.findall(r"Lb([01])E", rest.split("Ev")[0] + "E")
    return f"{name}<{', '.join(args)}>"


def loops(lines):
    """The lines of each loop, from its label to the branch back to it."""
    labels = {}
    for i, line in enumerate(lines):
        label = re.match(r"(\$\w+):", line)
        if label:
            labels[label.group(1)] = i
        back = re.search(r"\bbra\S*\s+(\$\w+)", line)
        if back and back.group(1) in labels:
            yield lines[labels[back.group(1)]:i]


def loads_in_flight(lines):
    """The most bytes that a thread has asked for when it first uses some of them,
    on the path on which it takes no conditional branch."""
    labels = {line.split(":")[0]: i for i, line in enumerate(lines)
              if line.startswith("$")}
    most, pending, at = 0, [], 0  # pending: (registers, bytes)
    while at < len(lines):
        line = lines[at]
        at += 1
        jump = re.match(r"bra\S*\s+(\$\w+)", line)
        if jump:
            if labels.get(jump.group(1), 0) < at:
                break
            at = labels[jump.group(1)]
            continue
        if re.match(r"(ret|bar\.sync|barrier\.sync)\b", line):
            break
        load = re.match(
            r"(?:@!?%p\d+\s+)?ld\.global\S*?(?:\.v(\d))?\.[a-z](\d+)\s+"
            r"(\{[^}]*\}|%\w+),", line)
        used = set(re.findall(r"%\w+", line))
        if load:
            used -= set(re.findall(r"%\w+", load.group(3)))
        hit = [p for p in pending if p[0] & used]
        if hit:
            most = max(most, sum(p[1] for p in pending))
            pending = [p for p in pending if p not in hit]
        if load:
            count = int(load.group(1) or 1)
            pending.append((set(re.findall(r"%\w+", load.group(3))),
                            count * int(load.group(2)) // 8))
    return most


def read_ptx(text):
    """Kernel -> (threads of a block, most bytes in flight of a thread in one of
    its loops)."""
    kernels = {}
    for m in re.finditer(r"\.entry (\w+)\((.*?)\n\}", text, re.S):
        bound = re.search(r"\.maxntid (\d+)", m.group(2))
        threads = int(bound.group(1)) if bound else THREADS
        lines = [line.strip() for line in m.group(2).splitlines()]
        kernels[m.group(1)] = threads, max(map(loads_in_flight, loops(lines)),
                                           default=0)
    return kernels


def read_ptxas(text):
    """Kernel -> (registers, bytes spilled, bytes of local memory, shared)."""
    kernels = {}
    for part in text.split("Compiling entry function '")[1:]:
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill", part)]
        stack = re.search(r"(\d+) bytes stack frame", part)
        shared = re.search(r"(\d+) bytes smem", part)
        kernels[part.split("'")[0]] = (
            int(re.search(r"Used (\d+) registers", part).group(1)),
            sum(spills[:2]), int(stack.group(1)) if stack else 0,
            int(shared.group(1)) if shared else 0)
    return kernels


def blocks_at_once(threads, registers, shared, shared_max):
    """Blocks on a multiprocessor. Its registers are in four parts, and a warp
    gets them in units of 256."""
    warps = (threads + 31) // 32
    of_a_warp = (registers * 32 + 255) // 256 * 256
    by_registers = REGISTERS // 4 // of_a_warp * 4 // warps
    by_shared = shared_max // (shared + 1024)
    return min(by_registers, by_shared, WARPS // warps, BLOCKS)


def contents_key(cuda, sources, arch):
    """A name for what compile_one would say."""
    key = hashlib.sha256(arch.to_bytes(4, "little"))
    version = subprocess.run([f"{cuda}/bin/nvcc", "--version"], check=True,
                             capture_output=True).stdout
    headers = sorted(glob.glob("trainers/*/*.h") + glob.glob("base/*.h") +
                     glob.glob("trainers/cuda/*.cuh"))
    for name in [__file__, *sources, *headers]:
        with open(name, "rb") as f:
            key.update(f.read())
    key.update(version)
    return key.hexdigest()


def compile_cached(cuda, sources, arch, folder, cache):
    if not cache:
        return compile_one(cuda, sources, arch, folder)
    path = os.path.join(cache, contents_key(cuda, sources, arch) + ".json")
    try:
        with open(path, encoding="ascii") as f:
            return json.load(f)
    except (OSError, ValueError):
        pass
    said = compile_one(cuda, sources, arch, folder)
    os.makedirs(cache, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="ascii", dir=cache,
                                     delete=False) as f:
        json.dump(said, f)
    os.replace(f.name, path)
    return said


def compile_one(cuda, sources, arch, folder):
    # at once: nvcc spends most of its time on CUDA's headers
    source = os.path.join(folder, f"{arch}.cu")
    with open(source, "w", encoding="utf-8") as f:
        for name in sources:
            f.write(f'#include "{os.path.abspath(name)}"\n')
    ptx = os.path.join(folder, f"{arch}.ptx")
    subprocess.run(
        [f"{cuda}/bin/nvcc", "-O3", "-std=c++17", "-I.", "-ptx",
         f"-arch=compute_{arch}", "-o", ptx, source], check=True)
    done = subprocess.run(
        [f"{cuda}/bin/ptxas", "-v", f"-arch=sm_{arch}", "-o", "/dev/null",
         ptx], check=True, capture_output=True, text=True)
    with open(ptx, encoding="ascii") as f:
        return read_ptx(f.read()), read_ptxas(done.stderr + done.stdout)


def check(arch, ptx, ptxas):
    """Prints the rows of one GPU; the number of kernels that fall
    short."""
    gpu, bandwidth, sms, shared_max = GPUS[arch]
    need = bandwidth * LATENCY / sms
    bad = 0
    for mangled, (threads, flight) in sorted(ptx.items()):
        registers, spills, stack, shared = ptxas[mangled]
        name = source_name(mangled)
        blocks = blocks_at_once(threads, registers, shared, shared_max)
        have = flight * threads * blocks
        faults = []
        if blocks * threads < THREADS_LEAST:
            faults.append(f"{THREADS_LEAST} threads do not fit")
        if spills:
            faults.append(f"spills {spills} bytes")
        elif stack:
            faults.append(f"keeps {stack} bytes in local memory")
        if BOUND.match(name) and have < need:
            faults.append(f"needs {need / 1024:.0f} KiB in flight")
        print(f"{gpu} {name:32} {registers:4} registers "
              f"{threads * blocks:5} threads {flight:4} bytes each "
              f"{have / 1024:6.1f} KiB in flight"
              f"{': ' if faults else ''}{', '.join(faults)}")
        bad += bool(faults)
    return bad


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--cache")
    p.add_argument("cuda")
    p.add_argument("sources", nargs="*")
    args = p.parse_args()
    sources = args.sources or sorted(glob.glob("trainers/cuda/*.cu"))
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(
            lambda arch: compile_cached(args.cuda, sources, arch, folder,
                                        args.cache), GPUS))
    bad = sum(check(arch, *result) for arch, result in zip(GPUS, results))
    kernels = sum(len(ptx) for ptx, _ in results)
    print(f"{kernels} kernels, {bad} short")
    return bad != 0 or kernels == 0


if __name__ == "__main__":
    sys.exit(main())
