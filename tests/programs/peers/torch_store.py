"""PyTorch's own store, call by call, at MASTER_ADDR:MASTER_PORT as its ranks meet
there; nothing in it knows ddprun. Two ranks. torch_store.py MARK: also that no
key of an attempt before this one is there; attempt 0 then dies.
"""
import datetime
import os
import sys

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
short = datetime.timedelta(milliseconds=200)


def fails(f, *args):
    try:
        f(*args)
    except (RuntimeError, ValueError):
        return True
    return False


def one_alone(store):
    """What rank 0 does while nobody else is there."""
    n = store.num_keys()
    store.set("a", "1")
    assert store.get("a") == b"1"
    store.set("a", b"\0\xff" * 1000)
    assert store.get("a") == b"\0\xff" * 1000
    store.set("empty", "")
    assert store.get("empty") == b""
    assert store.num_keys() == n + 2
    assert store.add("n", 5) == 5 and store.add("n", -7) == -2
    assert store.get("n") == b"-2"
    assert store.delete_key("a") and not store.delete_key("a")
    assert fails(store.wait, ["a"], short)
    store.wait(["empty", "n"], short)
    assert store.compare_set("c", "", "first") == b"first"
    assert store.compare_set("c", "other", "second") == b"first"
    assert store.compare_set("c", "first", "second") == b"second"
    assert store.compare_set("none", "expected", "x") == b"expected"
    big = b"x" * (8 << 20)
    store.set("big", big)
    assert store.get("big") == big
    store.delete_key("big")


def newer(store):
    """What came with PyTorch 2.2, and after it."""
    if hasattr(store, "check"):
        assert store.check(["n"]) and not store.check(["n", "nowhere"])
    if hasattr(store, "append"):
        store.append("app", "one")
        store.append("app", "two")
        assert store.get("app") == b"onetwo"
    if hasattr(store, "multi_set"):
        store.multi_set(["m1", "m2"], ["1", "2"])
        assert store.multi_get(["m2", "m1"]) == [b"2", b"1"]
    if hasattr(store, "queue_push"):
        store.queue_push("q", "one")
        store.queue_push("q", "two")
        assert store.queue_len("q") == 2
        assert store.queue_pop("q") == b"one"
        assert store.queue_pop("q", False) == b"two"
        assert fails(store.queue_pop, "q", False)
    if hasattr(store, "list_keys"):
        keys = store.list_keys()
        assert "n" in keys and "q" not in keys, keys


def both(store):
    """One waits for what the other does."""
    if rank == 0:
        store.set("go", "now")
        assert store.get("answer") == b"here"
    else:
        assert store.get("go") == b"now"
        store.set("answer", "here")
    if hasattr(store, "queue_push"):
        if rank == 0:
            store.queue_push("work", "x" * 100)
        else:
            assert store.queue_pop("work") == b"x" * 100
    if hasattr(store, "barrier"):
        store.barrier("b", world, datetime.timedelta(seconds=60))
    assert store.add("met", 1) in (1, 2)


def main():
    store, got_rank, got_world = next(dist.rendezvous("env://"))
    assert (got_rank, got_world) == (rank, world)
    mark = sys.argv[1] if len(sys.argv) > 1 else None
    if rank == 0:
        if mark:
            assert fails(store.wait, [mark], short), "an older attempt's key"
            store.set(mark, "was here")
        one_alone(store)
        newer(store)
    both(store)
    if mark and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if rank == 0:
            os._exit(3)
        store.get("never")
    print(f"rank {rank}: store ok, PyTorch {torch.__version__}")


main()
