"""A DDP script as PyTorch's tutorials have it; nothing in it knows ddprun.

Trains a linear model on gloo, rank 0 writes a snapshot after each epoch, and a
start finds the snapshot and goes on from it. ddp_gloo.py SNAPSHOT EPOCHS [FILE]:
with FILE it trains on after EPOCHS, until FILE exists.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

try:
    from torch.distributed.elastic.multiprocessing.errors import record
except ImportError:
    def record(f):
        return f


def data():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(256, 8, generator=g)
    return TensorDataset(x, x.sum(1, keepdim=True))


def agree(value):
    """The same number on all ranks, or an error."""
    mine = torch.tensor([value])
    all_of_them = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, mine)
    assert all(torch.equal(a, mine) for a in all_of_them), all_of_them


def is_over(epoch, epochs, until):
    """Rank 0 looks, so that all stop after the same epoch."""
    over = epoch >= epochs and (not until or os.path.exists(until))
    flag = torch.tensor([int(over)])
    dist.broadcast(flag, 0)
    return bool(flag.item())


@record
def main():
    snapshot, epochs = sys.argv[1], int(sys.argv[2])
    until = sys.argv[3] if len(sys.argv) > 3 else None
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    assert rank == int(os.environ["RANK"])
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    epoch = 0
    if os.path.exists(snapshot):
        saved = torch.load(snapshot)
        model.load_state_dict(saved["model"])
        epoch = saved["epoch"]
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    sampler = DistributedSampler(data())
    loader = DataLoader(data(), batch_size=16, sampler=sampler)
    print(f"start: rank {rank} of {world} at epoch {epoch} pid {os.getpid()}",
          flush=True)
    while not is_over(epoch, epochs, until):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = (model(x) - y).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epoch += 1
        agree(sum(p.sum() for p in model.parameters()).item())
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "epoch": epoch},
                       snapshot + ".new")
            os.replace(snapshot + ".new", snapshot)
            print(f"epoch {epoch}: loss {loss.item():.6f}", flush=True)
    print(f"rank {rank} of {world}: ok", flush=True)
    # PyTorch 1.13 can hang here without it, under any launcher: a gloo thread
    # that drops the last tensor waits for the GIL, which we would hold while
    # the group's destructor waits for that thread.
    time.sleep(0.5)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
