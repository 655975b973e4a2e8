"""module.py: what each rank of tests/e2e/python_module.bats does with the module
ddprun, without NumPy and torch. Prints `rank R of N: ok` when all was right."""
import array
import sys

import ddprun

INTEGERS = {"b": 1, "B": 1, "i": 4, "q": 8}
FLOATS = {"f": 4, "d": 8}


def raises(kind, what, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        assert what in str(error), str(error)
        return error
    raise AssertionError(f"no {kind.__name__} with {what}")


def collectives(w):
    n, r = w.size, w.rank
    for code in {**INTEGERS, **FLOATS}:
        x = array.array(code, [r + 1, 2, 3 * r])
        w.all_reduce(x)
        assert list(x) == [n * (n + 1) // 2, 2 * n, 3 * n * (n - 1) // 2]
        out = array.array(code, [0])
        w.all_reduce(array.array(code, [r]), "max", out=out)
        assert out[0] == n - 1
        x = array.array(code, [r])
        w.reduce(x, "min", root=n - 1)
        assert x[0] == (0 if r == n - 1 else r)
        every = array.array(code, [0] * 2 * n)
        w.all_gather(array.array(code, [r, r + 1]), every)
        assert list(every) == [v for i in range(n) for v in (i, i + 1)]
        part = array.array(code, [9] * n)
        w.gather(array.array(code, [r]), part if r == n - 1 else None,
                 root=n - 1)
        assert list(part) == (list(range(n)) if r == n - 1 else [9] * n)
    x = array.array("d", [r])
    w.all_reduce(x, "avg")
    assert x[0] == (n - 1) / 2
    x = bytearray(b"me" if r else b"it")
    w.broadcast(x)
    assert x == b"it"
    mine = array.array("i", [0])
    w.scatter(array.array("i", range(n)) if r == 0 else None, mine)
    assert mine[0] == r
    w.reduce_scatter(array.array("i", range(n)), mine)
    assert mine[0] == r * n
    to = array.array("i", [0] * n)
    w.all_to_all(array.array("i", [10 * r + i for i in range(n)]), to)
    assert list(to) == [10 * i + r for i in range(n)]
    w.barrier()


def counts(w):
    n, r = w.size, w.rank
    each = list(range(n))
    every = array.array("q", [-1] * sum(each))
    w.all_gather(array.array("q", [r] * r), every, counts=each)
    assert list(every) == [i for i in range(n) for _ in range(i)]
    mine = array.array("q", [0] * r)
    w.reduce_scatter(every, mine, counts=each)
    assert list(mine) == [n * r] * r
    got = array.array("q", [0] * (n * r))
    w.all_to_all(every, got, send_counts=each, recv_counts=[r] * n)
    assert list(got) == [r] * (n * r)
    raises(ValueError, "counts are [1]", w.all_gather, mine, every, counts=[1])


def messages(w):
    n, r = w.size, w.rank
    x = array.array("f", [r])
    got = array.array("f", [0])
    asked = w.recv(got, (r - 1) % n, asynchronous=True)
    w.send(x, (r + 1) % n)
    assert asked.wait() and asked.done and got[0] == (r - 1) % n


def requests(w):
    n = w.size
    w.progress_start()
    arrays = [array.array("i", [i, w.rank]) for i in range(20)]
    under_way = [w.all_reduce(x, asynchronous=True) for x in arrays]
    # its memory cannot go away while the operation uses it
    raises(BufferError, "export", arrays[-1].append, 1)
    while not under_way[0].done:
        pass
    for i, request in enumerate(under_way):
        while not request.wait(timeout=5):
            pass
        assert list(arrays[i]) == [n * i, n * (n - 1) // 2]
    arrays[-1].append(1)


def groups(w):
    n, r = w.size, w.rank
    group = w.split(r % 2, -r)
    assert group.world_rank(0) == (n - 1 if (n - 1) % 2 == r % 2 else n - 2)
    x = array.array("i", [1])
    group.all_reduce(x)
    assert x[0] == group.size == len(range(r % 2, n, 2))
    raises(ValueError, "there is no rank 9", group.world_rank, 9)
    group.finalize()
    raises(ValueError, "is freed already", lambda: group.rank)
    assert w.split(-1) is None


def shared(w):
    s = w.store
    if w.rank == 0:
        s.set("key", "ä" * 500)
    assert s.get("key", timeout=60).decode() == "ä" * 500
    assert s.try_get("none") is None
    error = raises(ddprun.TimedOut, "none", s.get, "none", 0)
    assert isinstance(error, TimeoutError) and error.code == -20006
    s.add("sum", w.rank)
    w.barrier()
    assert s.add("sum", 0) == w.size * (w.size - 1) // 2
    assert s.compare_set("once", "", b"0\0") == s.compare_set("once", "", b"0\0")
    assert s.get("once") == b"0\0"
    w.barrier()
    assert w.rank or s.delete("key")


def job(w):
    done = []
    w.once(lambda: done.append(1), "job")
    assert len(done) == (w.rank == 0)
    w.broadcast_all([x := array.array("f", [w.rank] * 3), array.array("q", [1])])
    assert list(x) == [0] * 3
    w.check_replicas([x])
    if w.size > 2:
        x[1] = w.rank == 2
        raises(ddprun.DataError, "rank 2", w.check_replicas, [x])

    def fail():
        raise KeyError("no data")
    kind = KeyError if w.rank == 0 else ddprun.Error
    raises(kind, "no data" if w.rank == 0 else "rank 0", w.once, fail, "job")
    w.step(7)
    assert not w.should_stop()
    if w.rank == 1:
        w.request_stop()
    for _ in range(1000):
        if w.should_stop():
            return
    raise AssertionError("no stop")


def mistakes(w):
    i = array.array("i", [1, 2])
    raises(TypeError, "no type for the format 'H'", w.all_reduce,
           array.array("H", [1]))
    raises(TypeError, "a int cannot be used as a buffer", w.all_reduce, 5)
    raises(TypeError, "it is read-only", w.all_reduce, b"abc")
    raises(TypeError, "not contiguous", w.all_reduce, memoryview(array.array("i", range(4)))[::2])
    raises(ValueError, "different types", w.all_reduce, i,
           out=array.array("f", [1, 2]))
    raises(ValueError, "send has 2 elements, out 1", w.all_reduce, i,
           out=array.array("i", [1]))
    raises(ValueError, "there is no operation 'mean'", w.all_reduce, i, "mean")
    raises(ValueError, "needs integers", w.all_reduce, array.array("f", [1]),
           "bor")
    raises(ValueError, "which is not", w.all_gather, i,
           array.array("i", [0] * 5))
    error = raises(ddprun.ArgumentError, "root", w.broadcast, i, root=99)
    assert isinstance(error, ValueError) and error.code == -20001
    assert "argument" in error.name


def main():
    with ddprun.init(timeout=100) as w:
        assert w.world_size == w.size and w.backend == "cpu"
        assert 0 <= w.local_rank < w.local_world_size and w.node_rank < w.nodes
        assert w.attempt == 0 and 0 <= w.host_leader <= w.rank
        mistakes(w)
        for part in sys.argv[1:]:
            globals()[part](w)
        w.barrier()
        print(f"rank {w.rank} of {w.size}: ok")
    assert repr(w) == "<ddprun.Comm, freed>"


main()
