"""hook_torch.py: what tests/bench/hook.sh times: steps of DistributedDataParallel on
CPUs, with gloo, with ddprun.torch's hook, and with a hook that averages nothing, in
turn, so that all see the same machine. The last is the floor: what a step takes
without any communication. Prints `NAME GLOO_MS HOOK_MS FLOOR_MS`, medians over the
steps of the slowest rank, and the same three of CPU time: the mean over the ranks of
their medians. usage: hook_torch.py STEPS"""
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ddprun
import ddprun.torch

steps = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("gloo")
world = ddprun.init()


class Bucket(nn.Module):
    """One gradient of a size, whose backward pass costs next to nothing."""

    def __init__(self, mib):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(mib << 18))

    def forward(self, x):
        return (self.weight * x).sum()


def auto_encoder():
    sizes, layers = (784, 128, 128, 128, 784), []
    for i in range(4):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers)


def step(model, x, optimizer):
    """Seconds, and seconds of CPU, of a step; of a Bucket, of its backward pass."""
    is_bucket = isinstance(model.module, Bucket)
    dist.barrier()
    start, cpu = time.perf_counter(), time.process_time()
    optimizer.zero_grad(set_to_none=False)
    out = model(x)
    if is_bucket:
        start, cpu = time.perf_counter(), time.process_time()
        out.backward()
        return time.perf_counter() - start, time.process_time() - cpu
    nn.functional.mse_loss(out, x).backward()
    optimizer.step()
    return time.perf_counter() - start, time.process_time() - cpu


def average_nothing(state, bucket):
    result = torch.futures.Future()
    result.set_result(bucket.buffer())
    return result


def compare(name, make, x, steps):
    runs = []
    for hook in ("gloo", "ddprun", "none"):
        torch.manual_seed(0)
        model = DistributedDataParallel(make(), bucket_cap_mb=100)
        if hook == "ddprun":
            ddprun.torch.register(model, world)
        elif hook == "none":
            model.register_comm_hook(None, average_nothing)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        runs.append((model, x, optimizer, [], []))
    for i in range(steps + 3):
        for model, batch, optimizer, times, cpus in runs:
            seconds, cpu = step(model, batch, optimizer)
            if i > 2: # DDP rebuilds its buckets in the first steps
                times.append(seconds)
                cpus.append(cpu)
    worst = torch.tensor([times for *unused, times, cpus in runs])
    mean = torch.tensor([statistics.median(cpus) for *unused, cpus in runs])
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    dist.all_reduce(mean)
    mean /= world.size
    for a, b in zip(runs[0][0].parameters(), runs[1][0].parameters()):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-6), name
    if world.rank == 0:
        medians = [statistics.median(row) * 1e3 for row in worst.tolist()]
        medians += [seconds * 1e3 for seconds in mean.tolist()]
        print(name, *(f"{ms:.3f}" for ms in medians), flush=True)


torch.manual_seed(world.rank)
compare("auto-encoder", auto_encoder, torch.rand(128 // world.size, 784),
        steps)
for mib in (1, 4, 16, 64):
    compare(f"bucket_of_{mib}_MiB", lambda: Bucket(mib), torch.ones(()),
            max(steps // mib, 7))
dist.barrier()
