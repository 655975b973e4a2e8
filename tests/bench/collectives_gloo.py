"""bench_collectives.c's loop over PyTorch's gloo, for the sizes where it is
compared. Prints as that does."""
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
MIB = 1 << 20
WINDOW = 0.002
WINDOWS = 10


def timed(run, calls):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    mean = torch.tensor([(time.perf_counter() - start) / calls])
    dist.all_reduce(mean)
    return mean.item() / size


def row(name, bytes, run, halves=1):
    timed(run, 1)
    one = timed(run, 1)
    calls = int(WINDOW / one) + 1
    us = min(timed(run, calls) for _ in range(WINDOWS)) / halves * 1e6
    if rank == 0:
        print(f"{name} {bytes} out {us:.3f} 0", flush=True)


def ping_pong(buf):
    if rank == 0:
        dist.send(buf, 1)
        dist.recv(buf, 1)
    elif rank == 1:
        dist.recv(buf, 0)
        dist.send(buf, 0)


row("barrier", 0, dist.barrier)
for bytes in 4, 4096, 65536, MIB, 16 * MIB, 64 * MIB:
    buf = torch.zeros(bytes // 4)
    row("all_reduce", bytes, lambda: dist.all_reduce(buf))
for bytes in 4, MIB, 64 * MIB:
    buf = torch.zeros(bytes // 4)
    row("broadcast", bytes, lambda: dist.broadcast(buf, 0))
    if size == 2:
        row("send/recv", bytes, lambda: ping_pong(buf), 2)
    part = torch.zeros(max(1, bytes // 4 // size))
    parts = [torch.zeros_like(part) for _ in range(size)]
    row("all_gather", part.numel() * 4 * size,
        lambda: dist.all_gather(parts, part))
sys.stdout.flush()
