"""Communicators: the world, its groups, their collectives and requests. Owns
libddp's handles and keeps the buffers of operations under way alive."""
import ctypes
import weakref
from types import TracebackType
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple, Type

from ._buffers import BF16, F16, F32, F64, SIZES, Buffer, buffer, optional
from ._library import (OPS, SCOPES, ArgumentError, Error, Once, Options,
                       Span, library)
from ._store import Store

_FLOATS = (F32, F64, F16, BF16)


def _milliseconds(seconds: Optional[float], none: int) -> int:
    """For libddp: None is `none`, and what is above 0 stays above 0."""
    if seconds is None:
        return none
    return min(max(int(seconds * 1000), 1 if seconds > 0 else 0), 2**31 - 1)


def _op(name: str, kind: int) -> int:
    if name not in OPS:
        raise ValueError(f"there is no operation {name!r}; there are "
                         + ", ".join(OPS))
    if name in ("band", "bor") and kind in _FLOATS:
        raise ValueError(f"{name} needs integers")
    return OPS[name]


def _address(b: Optional[Buffer]) -> Optional[int]:
    return b.address if b else None


def _same(*buffers: Optional[Buffer]) -> int:
    """The type that all buffers have."""
    kinds = {b.type for b in buffers if b}
    if len(kinds) != 1:
        raise ValueError("the buffers have elements of different types")
    return kinds.pop()


def _part(whole: Buffer, part: Optional[Buffer], n: int, what: str) -> int:
    """The elements of one rank's part; whole has n such parts."""
    if whole.elements % n or (part and part.elements * n != whole.elements):
        have = part.elements if part else whole.elements / n
        raise ValueError(f"{what} has {whole.elements} elements, which is not "
                         f"{n} (ranks) times {have:g}")
    return whole.elements // n


def _counts(counts: Sequence[int], whole: Buffer,
            n: int) -> "ctypes.Array[ctypes.c_size_t]":
    if len(counts) != n or min(counts) < 0 or sum(counts) != whole.elements:
        raise ValueError(f"counts are {list(counts)}: not {n} numbers, one for "
                         f"each rank, whose sum is {whole.elements}")
    return (ctypes.c_size_t * n)(*counts)


class Request:
    """An operation under way. Its buffers belong to it until wait returns or
    raises, or done is true and wait was called."""

    def __init__(self, comm: "Comm", name: str, arguments: Sequence[object],
                 owners: object) -> None:
        self._handle = ctypes.c_void_p()
        self._comm = comm
        self._owners = owners
        library().call(name + "_async", comm._c, *arguments,
                       ctypes.byref(self._handle))
        comm._requests.add(self)

    @property
    def done(self) -> bool:
        """Whether the operation has ended. Never waits; raises what wait would
        raise."""
        if not self._handle:
            return True
        result = library().value("test", self._handle)
        if result >= 0:
            return result > 0
        return self.wait()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the operation ends, at most timeout seconds (None: as
        long as the world's timeout allows). True: it has ended; False: it is
        still under way. Raises Error if it failed."""
        if not self._handle:
            return True
        at = ctypes.byref(self._handle)
        if timeout is None:
            result = library().value("wait", at)
        else:
            result = library().value("wait_timeout", at,
                                     _milliseconds(timeout, -1))
            if self._handle:
                return False
        self._comm._requests.discard(self)
        self._owners = None
        if result < 0:
            raise library().error(result)
        return True


class Comm:
    """A communicator: the world, or a group that split made. Every rank of it
    calls the same collectives in the same order, with the same number and type
    of elements. One thread at a time may use a world and its groups.

    Buffers are NumPy arrays, torch tensors in host memory, and whatever has the
    buffer protocol (array.array, bytearray, memoryview) or DLPack: contiguous,
    with elements of f32, f64, f16, bf16, i32, i64, i8, u8 or bool. Results are
    written to them in place."""

    def __init__(self, handle: ctypes.c_void_p,
                 parent: Optional["Comm"]) -> None:
        self._handle: Optional[ctypes.c_void_p] = handle
        self._parent = parent
        self._requests: Set[Request] = set()
        self._groups: "weakref.WeakSet[Comm]" = weakref.WeakSet()
        lib = library().lib
        self._free = weakref.finalize(
            self, lib.ddp_comm_free if parent else lib.ddp_finalize, handle)
        if parent:
            parent._groups.add(self)

    @property
    def _c(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ValueError("this communicator is freed already")
        return self._handle

    # ---- places

    @property
    def rank(self) -> int:
        """This process's rank: 0 to size - 1."""
        return library().value("rank", self._c)

    @property
    def size(self) -> int:
        """The number of ranks; the world's is the world size."""
        return library().value("world_size", self._c)

    world_size = size

    @property
    def local_rank(self) -> int:
        """The rank among the workers of this ddprun."""
        return library().value("local_rank", self._c)

    @property
    def local_world_size(self) -> int:
        """The number of workers of this ddprun."""
        return library().value("local_world_size", self._c)

    @property
    def node_rank(self) -> int:
        """The number of this node, from 0."""
        return library().value("node_rank", self._c)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return library().value("nodes", self._c)

    @property
    def attempt(self) -> int:
        """How often the job was restarted."""
        return library().value("attempt", self._c)

    @property
    def host_leader(self) -> int:
        """The lowest rank of this communicator on this host."""
        return library().value("host_leader", self._c)

    @property
    def backend(self) -> str:
        """"cpu" or "nccl"."""
        return library().text("backend", self._c)

    @property
    def warning(self) -> str:
        """A sentence about a setup that works but is slower than it should be;
        empty if there is nothing."""
        return library().text("warning", self._c)

    def world_rank(self, rank: int) -> int:
        """The rank in the world of a rank of this communicator."""
        result = library().value("world_rank", self._c, rank)
        if result < 0:
            raise ValueError(f"there is no rank {rank} among {self.size}")
        return result

    def __repr__(self) -> str:
        if self._handle is None:
            return "<ddprun.Comm, freed>"
        return (f"<ddprun.Comm rank {self.rank} of {self.size}, "
                f"{self.backend}>")

    # ---- life

    def split(self, color: int, key: int = 0) -> Optional["Comm"]:
        """Splits into groups, as MPI_Comm_split does: ranks with the same color
        form one, ordered by key, then by rank. None for a color below 0.
        Collective."""
        group = ctypes.c_void_p()
        library().call("comm_split", self._c, color, key, ctypes.byref(group))
        return Comm(group, self) if group else None

    def finalize(self) -> None:
        """Leaves the job, or frees a group. Requests under way fail; other
        ranks are not waited for: call barrier first to leave together."""
        if self._handle is None:
            return
        for group in list(self._groups):
            group.finalize()
        self._free()
        self._handle = None
        for request in list(self._requests):
            try:
                request.wait()
            except Error:
                pass

    def __enter__(self) -> "Comm":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]],
                 error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.finalize()

    def abort(self, why: str = "") -> None:
        """Ends every operation of the world, here and on the ranks that wait
        for this one, which see `why`. Only finalize may follow."""
        library().call("abort", self._c, why.encode() or None)

    def progress_start(self, cpu: int = -1) -> None:
        """Starts a thread, on this CPU if it is not -1, that advances requests
        while the program computes. finalize of the world ends it."""
        library().call("progress_start", self._c, cpu)

    # ---- collectives

    def _run(self, name: str, arguments: Sequence[object], asynchronous: bool,
             owners: object) -> Optional[Request]:
        if asynchronous:
            return Request(self, name, arguments, owners)
        library().call(name, self._c, *arguments)
        return None

    def all_reduce(self, send: object, op: str = "sum", *,
                   out: Optional[object] = None,
                   asynchronous: bool = False) -> Optional[Request]:
        """out (None: send, in place) = the sum over all ranks of send; op may
        also be avg, min, max, prod, and for integers band and bor."""
        s = buffer(send, out is None)
        r = s if out is None else buffer(out, True)
        kind = _same(s, r)
        if s.elements != r.elements:
            raise ValueError(f"send has {s.elements} elements, out {r.elements}")
        return self._run("all_reduce", (s.address, r.address, s.elements, kind,
                                        _op(op, kind)), asynchronous, (s, r))

    def reduce(self, send: object, op: str = "sum", *, root: int = 0,
               out: Optional[object] = None,
               asynchronous: bool = False) -> Optional[Request]:
        """As all_reduce, but only root has a result."""
        is_root = self.rank == root
        s = buffer(send, is_root and out is None)
        r = s if out is None else buffer(out, True)
        kind = _same(s, r)
        if is_root and s.elements != r.elements:
            raise ValueError(f"send has {s.elements} elements, out {r.elements}")
        return self._run(
            "reduce", (s.address, r.address if is_root else None, s.elements,
                       kind, _op(op, kind), root), asynchronous, (s, r))

    def broadcast(self, buf: object, *, root: int = 0,
                  asynchronous: bool = False) -> Optional[Request]:
        """Copies buf of root into buf of every other rank."""
        b = buffer(buf, self.rank != root)
        return self._run("broadcast", (b.address, b.elements, b.type, root),
                         asynchronous, b)

    def all_gather(self, send: object, recv: object, *,
                   counts: Optional[Sequence[int]] = None,
                   asynchronous: bool = False) -> Optional[Request]:
        """recv = send of each rank, one after another. With counts, rank r
        sends counts[r] elements."""
        s, r = buffer(send), buffer(recv, True)
        kind = _same(s, r)
        if counts is None:
            _part(r, s, self.size, "recv")
            return self._run("all_gather", (s.address, r.address, s.elements,
                                            kind), asynchronous, (s, r))
        c = _counts(counts, r, self.size)
        if s.elements != counts[self.rank]:
            raise ValueError(f"send has {s.elements} elements, not "
                             f"counts[{self.rank}], {counts[self.rank]}")
        return self._run("all_gather_v", (s.address, r.address, c, kind),
                         asynchronous, (s, r))

    def gather(self, send: object, recv: Optional[object] = None, *,
               root: int = 0, asynchronous: bool = False) -> Optional[Request]:
        """As all_gather, but only root has a result; others pass None."""
        s, r = buffer(send), optional(recv, True)
        if self.rank == root:
            if r is None:
                raise ValueError("the root has to pass recv")
            _part(r, s, self.size, "recv")
        return self._run("gather", (s.address, _address(r), s.elements,
                                    _same(s, r), root), asynchronous, (s, r))

    def scatter(self, send: Optional[object], recv: object, *, root: int = 0,
                asynchronous: bool = False) -> Optional[Request]:
        """recv = this rank's part of the root's send; others pass None."""
        s, r = optional(send), buffer(recv, True)
        if self.rank == root:
            if s is None:
                raise ValueError("the root has to pass send")
            _part(s, r, self.size, "send")
        return self._run("scatter", (_address(s), r.address, r.elements,
                                     _same(s, r), root), asynchronous, (s, r))

    def reduce_scatter(self, send: object, recv: object, op: str = "sum", *,
                       counts: Optional[Sequence[int]] = None,
                       asynchronous: bool = False) -> Optional[Request]:
        """recv = this rank's part of the sum over all ranks of send. With
        counts, rank r gets counts[r] elements."""
        s, r = buffer(send), buffer(recv, True)
        kind = _same(s, r)
        if counts is None:
            _part(s, r, self.size, "send")
            return self._run("reduce_scatter", (
                s.address, r.address, r.elements, kind, _op(op, kind)),
                asynchronous, (s, r))
        c = _counts(counts, s, self.size)
        if r.elements != counts[self.rank]:
            raise ValueError(f"recv has {r.elements} elements, not "
                             f"counts[{self.rank}], {counts[self.rank]}")
        return self._run("reduce_scatter_v", (
            s.address, r.address, c, kind, _op(op, kind)), asynchronous, (s, r))

    def all_to_all(self, send: object, recv: object, *,
                   send_counts: Optional[Sequence[int]] = None,
                   recv_counts: Optional[Sequence[int]] = None,
                   asynchronous: bool = False) -> Optional[Request]:
        """Part r of recv = this rank's part of the send of rank r. With counts,
        part r has that many elements."""
        s, r = buffer(send), buffer(recv, True)
        kind = _same(s, r)
        if send_counts is None and recv_counts is None:
            if s.elements != r.elements:
                raise ValueError(f"send has {s.elements} elements, recv {r.elements}")
            count = _part(s, None, self.size, "send")
            return self._run("all_to_all", (s.address, r.address, count, kind),
                             asynchronous, (s, r))
        if send_counts is None or recv_counts is None:
            raise ValueError("send_counts and recv_counts go together")
        sc = _counts(send_counts, s, self.size)
        rc = _counts(recv_counts, r, self.size)
        return self._run("all_to_all_v", (s.address, sc, r.address, rc, kind),
                         asynchronous, (s, r))

    def barrier(self, *, asynchronous: bool = False) -> Optional[Request]:
        """Returns when every rank has called it."""
        return self._run("barrier", (), asynchronous, None)

    def send(self, buf: object, to: int, *,
             asynchronous: bool = False) -> Optional[Request]:
        """Sends buf to a rank, which receives as many elements of the type."""
        b = buffer(buf)
        return self._run("send", (b.address, b.elements, b.type, to),
                         asynchronous, b)

    def recv(self, buf: object, source: int, *,
             asynchronous: bool = False) -> Optional[Request]:
        """Receives into buf what the rank source sends."""
        b = buffer(buf, True)
        return self._run("recv", (b.address, b.elements, b.type, source),
                         asynchronous, b)

    def broadcast_all(self, buffers: Sequence[object], *,
                      root: int = 0) -> None:
        """Broadcasts many buffers, a model's parameters; small ones travel
        together."""
        spans, owners = self._spans(buffers, self.rank != root)
        library().call("broadcast_spans", self._c, spans, len(owners), root)

    def check_replicas(self, buffers: Sequence[object]) -> None:
        """Raises DataError on all ranks, with the ranks that differ, unless the
        buffers have the same bits on all of them."""
        spans, owners = self._spans(buffers, False)
        library().call("check_replicas", self._c, spans, len(owners))

    @staticmethod
    def _spans(buffers: Sequence[object], writes: bool) -> Tuple[
            "ctypes.Array[Span]", List[Buffer]]:
        owners = [buffer(b, writes) for b in buffers]
        spans = [Span(b.address, b.elements, b.type) for b in owners]
        return (Span * len(spans))(*spans), owners

    # ---- the job

    @property
    def store(self) -> Store:
        """Small values that the ranks share."""
        return Store(self)

    def once(self, function: Callable[[], object], scope: str = "host") -> None:
        """Calls function on the lowest rank of each host (scope "host") or on
        rank 0 ("job") while the others wait, for example to download a data
        set. If it raises anywhere, all ranks raise. It may not use this
        communicator. Collective."""
        raised: Dict[str, BaseException] = {}

        def call(unused: object) -> int:
            try:
                function()
                return 0
            except BaseException as error:
                raised["error"] = error
                return -20003  # DDP_ERR_SYSTEM

        if scope not in SCOPES:
            raise ValueError(f"there is no scope {scope!r}; there are "
                             + ", ".join(SCOPES))
        result = library().value("once", self._c, SCOPES[scope], Once(call),
                                 None)
        if raised:
            raise raised["error"]
        if result < 0:
            raise library().error(result)

    def should_stop(self) -> bool:
        """True on all ranks in the same call once a rank or the launcher
        (preemption, a time limit) asked the job to stop. Collective: call it
        every step."""
        return library().call("should_stop", self._c) > 0

    def request_stop(self) -> None:
        """Asks the job to stop after this step."""
        library().lib.ddp_request_stop(self._c)

    def step(self, step: int) -> None:
        """Reports that this rank has done a step, which ddprun then shows."""
        library().call("step", self._c, step)


def init(backend: Optional[str] = "cpu",
         timeout: Optional[float] = None) -> Comm:
    """Joins the job and returns the world, when all ranks have joined. Without
    ddprun the world has one rank.

    backend is "cpu", "nccl" or "auto" (None: $DDP_BACKEND, else auto). timeout
    is how many seconds this call and each collective wait for other ranks:
    None: $DDP_TIMEOUT, else 30 minutes; below 0: no limit."""
    if timeout is not None and timeout < 0:
        limit = -1
    else:
        limit = _milliseconds(timeout, 0)
        if timeout is not None and limit == 0:
            raise ArgumentError("a timeout of 0 s cannot be met", -20001,
                                "argument")
    handle = ctypes.c_void_p()
    options = Options(backend.encode() if backend else None, limit)
    library().call("init", ctypes.byref(handle), ctypes.byref(options))
    return Comm(handle, None)


def type_size(obj: object) -> int:
    """Bytes in an element of a buffer."""
    return SIZES[buffer(obj).type]
