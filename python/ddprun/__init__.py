"""ddprun: libddp for Python. The launcher ddprun starts a program once per rank,
and this module lets the ranks work together:

    import array
    import ddprun

    with ddprun.init() as world:
        x = array.array("f", [world.rank])
        world.all_reduce(x)
        print(x[0])          # the sum of all ranks

It needs neither NumPy nor torch, and uses the memory of both. A call that fails
raises ddprun.Error with libddp's sentence: what failed, on which host and rank,
and what to do. ddprun.torch has a communication hook for PyTorch's DDP."""
from ._comm import Comm, Request, init
from ._library import (AbortedError, ArgumentError, DataError, Error,
                       RemoteError, TimedOut, library, library_path)
from ._store import Store
from ._wheel import include_path, program

__all__ = [
    "AbortedError", "ArgumentError", "Comm", "DataError", "Error",
    "RemoteError", "Request", "Store", "TimedOut", "include_path", "init",
    "library_path", "program", "record_error", "version",
]


def record_error(message: str) -> None:
    """Writes to $TORCHELASTIC_ERROR_FILE why this process is about to fail; the
    launcher prints it. The first message is kept. Does nothing without
    ddprun."""
    library().call("record_error", message.encode("utf-8", "replace"))


def version() -> str:
    """libddp's version."""
    return library().text("version")
