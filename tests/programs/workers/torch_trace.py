"""torch_trace.py PREFIX: the second calls of ranks 0 and 1 differ; each leaves the trace
that PyTorch would leave after a timeout."""

import os
import sys

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace

dist.init_process_group("gloo")
rank = dist.get_rank()
data = torch.ones(4, 3)
dist.all_reduce(data)


def step():
    # nobody waits for them: they would never end
    if rank == 0:
        return dist.all_reduce(data, async_op=True)
    return dist.broadcast(data, 0, async_op=True)


work = step()
with open(f"{sys.argv[1]}{rank}", "wb") as trace:
    trace.write(_dump_fr_trace())
os._exit(0)
