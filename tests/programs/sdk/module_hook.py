"""module_hook.py: DDP with the hook of ddprun.torch, whose gradients are those of
gloo. `module_hook.py [die|other]`; tests/e2e/python_hook.bats."""
import array
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import ddprun
import ddprun.torch

what = sys.argv[1:]
torch.set_num_threads(1)
dist.init_process_group("gloo")
world = ddprun.init()


def model(kind, bucket_mib=0.03):
    torch.manual_seed(3)
    layers = [layer for i in range(4)
              for layer in (nn.Linear(64, 64), nn.Tanh())]
    net = nn.Sequential(*layers).to(kind)
    # several buckets, or one
    return DistributedDataParallel(net, bucket_cap_mb=bucket_mib,
                                   find_unused_parameters=False)


def grads(m, x):
    m.zero_grad()
    for half in x.chunk(2):
        with m.no_sync():
            m(half).pow(2).mean().backward()
    # a collective of the program does not meet the buckets'
    mine = array.array("i", [1])
    m(x).pow(2).mean().backward()
    world.all_reduce(mine)
    assert mine[0] == world.size
    return [p.grad for p in m.parameters()]


if what == ["other"]:
    alone = dist.new_group([0])
    if world.rank == 0:
        plain = DistributedDataParallel(nn.Linear(2, 2), process_group=alone)
        ddprun.torch.register(plain, world)
for kind, near, mib in ((torch.float32, 1e-6, 0.03), (torch.float32, 1e-6, 25),
                        (torch.float64, 1e-12, 0.03),
                        (torch.bfloat16, 2e-2, 0.03)):
    plain, hooked = model(kind, mib), model(kind, mib)
    state = ddprun.torch.register(hooked, world)
    torch.manual_seed(world.rank)
    for step in range(4):
        x = torch.randn(8, 64, dtype=kind)
        if what == ["die"] and step == 2 and world.rank == 1:
            os._exit(5)
        if what == ["die"] and step == 2:
            try:
                hooked(x).sum().backward()
            except ddprun.Error as error:
                print("caught:", error)
                os._exit(0)
        for a, b in zip(grads(plain, x), grads(hooked, x)):
            assert torch.allclose(a, b, rtol=near, atol=near), kind

wrapped, plain = model(torch.float32), model(torch.float32)
wrapped.register_comm_hook(ddprun.torch.Hook(world),
                           default_hooks.bf16_compress_wrapper(
                               ddprun.torch.hook))
x = torch.randn(8, 64)
for a, b in zip(grads(plain, x), grads(wrapped, x)):
    assert torch.allclose(a, b, rtol=2e-2, atol=2e-3)
dist.barrier()
print(f"rank {world.rank}: ok")
