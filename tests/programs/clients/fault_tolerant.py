"""A fault-tolerant loop as torchft's README has it: each job is a replica group, the
groups meet through torchft's lighthouse ($TORCHFT_LIGHTHOUSE). Prints each step's loss.

  fault_tolerant.py lighthouse   prints its address, serves until the end of stdin
  fault_tolerant.py STEPS        trains, in the group $REPLICA_GROUP
"""
import os
import sys
from datetime import timedelta

import torch
import torchft
from torchft.coordination import LighthouseServer


def main():
    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=60)),
        min_replica_size=2, load_state_dict=None, state_dict=None,
        replica_id="group_" + os.environ["REPLICA_GROUP"],
        use_async_quorum=False, init_sync=False)
    group = int(os.environ["REPLICA_GROUP"])
    torch.manual_seed(7)
    model = torchft.DistributedDataParallel(manager, torch.nn.Linear(16, 1))
    optimizer = torchft.Optimizer(
        manager, torch.optim.SGD(model.parameters(), lr=0.01))
    data = torch.Generator().manual_seed(group)
    while manager.current_step() < int(sys.argv[1]):
        x = torch.randn(8, 16, generator=data)
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item()!r}", flush=True)
    print(f"done with {manager.num_participants()} groups", flush=True)
    manager.shutdown(wait=False)


if sys.argv[1] == "lighthouse":
    server = LighthouseServer(bind="127.0.0.1:0", min_replicas=2,
                              join_timeout_ms=60000)
    print("lighthouse", server.address(), flush=True)
    sys.stdin.read()
    server.shutdown()
else:
    main()
