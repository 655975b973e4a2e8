"""module_buffers.py: the memory of other packages in the module ddprun:
`module_buffers.py numpy|torch`, on two ranks. tests/e2e/python_module.bats."""
import importlib
import sys

import ddprun


def raises(what, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except TypeError as error:
        assert what in str(error), str(error)
        return
    raise AssertionError(f"no TypeError with {what}")


class OnlyDLPack:
    """A tensor of a package that has DLPack only, of its old or new protocol."""

    def __init__(self, of, device=None, versioned=False):
        self.of = of
        self.device = device
        self.versioned = versioned

    def __dlpack_device__(self):
        return self.device or self.of.__dlpack_device__()

    def __dlpack__(self, **named):
        if not self.versioned and named:
            raise TypeError("no arguments")
        return self.of.__dlpack__(**named)


def dlpack(w, make, versioned):
    x = make([w.rank, 1, 2])
    w.all_reduce(OnlyDLPack(x, versioned=versioned))
    assert x.tolist() == [1, 2, 4]
    w.all_reduce(OnlyDLPack(x[1:], versioned=versioned), "min")
    assert x.tolist() == [1, 2, 4]
    raises("not contiguous", w.all_reduce, OnlyDLPack(x[::2]))
    raises("device 2", w.all_reduce, OnlyDLPack(x, (2, 0)))


def numpy(w, np):
    for name in "float32 float64 float16 int32 int64 int8 uint8".split():
        x = np.full((3, 2), w.rank + 1, name)
        w.all_reduce(x)
        assert (x == 3).all(), name
        w.all_reduce(x, "avg", out=x[0:3])
        assert (x == 3).all(), name
    x = np.array([True, w.rank == 0])
    w.all_reduce(x, "band")
    assert x.tolist() == [True, False]
    x = np.zeros((0, 4), "float32")
    w.all_reduce(x)
    raises("not contiguous", w.all_reduce, np.zeros((2, 3)).T)
    raises("no type uint16", w.all_reduce, np.zeros(1, "uint16"))
    raises("this machine's order", w.all_reduce,
           np.zeros(1, np.dtype("f4").newbyteorder()))
    fixed = np.ones(2)
    fixed.flags.writeable = False
    raises("read-only", w.all_reduce, fixed)
    out = np.zeros(2)
    w.all_reduce(fixed, out=out)
    assert (out == 2).all()
    if hasattr(x, "__dlpack__"):
        dlpack(w, lambda v: np.array(v, "int64"), False)
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        dlpack(w, lambda v: np.array(v, "int64"), True)
        raises("read-only", w.all_reduce, OnlyDLPack(fixed, versioned=True))


def torch(w, torch):
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16,
                 torch.int32, torch.int64, torch.int8, torch.uint8):
        x = torch.full((3, 2), w.rank + 1, dtype=kind)
        w.all_reduce(x[1:])
        assert (x[1:] == 3).all() and (x[:1] == w.rank + 1).all(), kind
    p = torch.nn.Parameter(torch.full((2,), float(w.rank)))
    w.broadcast(p)
    assert p.tolist() == [0, 0]
    raises("not contiguous", w.all_reduce, torch.zeros(2, 3).T)
    raises("no type complex64", w.all_reduce, torch.zeros(2, dtype=torch.cfloat))
    raises("it is on meta", w.all_reduce, torch.zeros(2, device="meta"))
    raises("its layout", w.all_reduce, torch.eye(2).to_sparse())
    dlpack(w, lambda v: torch.tensor(v), False)


with ddprun.init() as world:
    globals()[sys.argv[1]](world, importlib.import_module(sys.argv[1]))
    world.barrier()
    print(f"rank {world.rank}: ok")
