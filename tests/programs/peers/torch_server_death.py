"""PyTorch's store before and after the death of the server that keeps it; nothing
in it knows ddprun. torch_server_death.py FIFO: it says "met", and reads a line of
FIFO.RANK, in which the server dies.
"""
import datetime
import os
import sys

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
minute = datetime.timedelta(seconds=60)


def add_up():
    """The sum of the ranks, by all of them."""
    t = torch.tensor([float(rank)])
    dist.all_reduce(t)
    assert t.item() == world * (world - 1) / 2, t


def connect():
    return dist.TCPStore(os.environ["MASTER_ADDR"],
                         int(os.environ["MASTER_PORT"]), world, False, minute)


def main():
    dist.init_process_group("gloo", timeout=minute)
    before = connect()
    before.set(f"key{rank}", f"of {rank}")
    before.add("n", 1)
    add_up()
    print("met", flush=True)
    with open(f"{sys.argv[1]}.{rank}") as f:
        f.readline()
    # who has met needs no store
    add_up()
    # a broken connection stays broken, and raises an error
    try:
        before.get("key0")
        print("no error", flush=True)
    except RuntimeError as e:
        print("error:", str(e).split("\n")[0], flush=True)
    # a new one finds what was there, and a new group can be made
    after = connect()
    for i in range(world):
        assert after.get(f"key{i}") == f"of {i}".encode()
    assert int(after.get("n")) == world
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.PrefixStore("again", after),
                            rank=rank, world_size=world, timeout=minute)
    add_up()
    print(f"rank {rank}: ok", flush=True)
    # see ddp_gloo.py
    dist.barrier()
    dist.destroy_process_group()


main()
