"""Loads libddp and declares its functions: the only module that knows ctypes'
signatures. It knows no Python buffers and keeps no state but the library."""
import ctypes
import os
import sys
from pathlib import Path
from typing import Dict, List, Optional, Tuple, Type

SONAME = "libddp.so.0"

# enum ddp_op and enum ddp_scope of ddp.h, whose values never change
OPS: Dict[str, int] = {
    "sum": 0, "avg": 1, "min": 2, "max": 3, "prod": 4, "band": 5, "bor": 6,
}
SCOPES: Dict[str, int] = {"host": 0, "job": 1}


class Error(Exception):
    """A call of libddp failed. str(error) is libddp's sentence: what failed, on
    which host and rank, and what to do. code is its negative DDP_ERR_* or
    -errno, name the short description of it."""

    def __init__(self, text: str, code: int, name: str) -> None:
        super().__init__(text)
        self.code = code
        self.name = name


class ArgumentError(Error, ValueError):
    """The caller's mistake, or calls of the ranks that do not match."""


class RemoteError(Error):
    """Another rank failed or left."""


class TimedOut(Error, TimeoutError):
    """The deadline passed; the text names the ranks that are late."""


class AbortedError(Error):
    """The round or the job ended while the call waited."""


class DataError(Error):
    """Data that was checked is wrong: replicas that differ, a damaged file."""


_classes: Dict[int, Type[Error]] = {
    -20001: ArgumentError,
    -20004: RemoteError,
    -20006: TimedOut,
    -20007: AbortedError,
    -20010: DataError,
}

_comm = ctypes.c_void_p
_buffer = ctypes.c_void_p
_int = ctypes.c_int
_size = ctypes.c_size_t
_counts = ctypes.POINTER(ctypes.c_size_t)
_text = ctypes.c_char_p
_request = ctypes.POINTER(ctypes.c_void_p)

Once = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Options(ctypes.Structure):
    """struct ddp_options"""

    _fields_ = [("backend", _text), ("timeout_ms", _int)]


class Span(ctypes.Structure):
    """struct ddp_span"""

    _fields_ = [("data", _buffer), ("count", _size), ("type", _int)]


# Arguments behind the communicator. Each of these also has an _async form, with
# a pointer to a request as its last argument.
_operations: Dict[str, List[object]] = {
    "all_reduce": [_buffer, _buffer, _size, _int, _int],
    "reduce": [_buffer, _buffer, _size, _int, _int, _int],
    "broadcast": [_buffer, _size, _int, _int],
    "all_gather": [_buffer, _buffer, _size, _int],
    "gather": [_buffer, _buffer, _size, _int, _int],
    "scatter": [_buffer, _buffer, _size, _int, _int],
    "reduce_scatter": [_buffer, _buffer, _size, _int, _int],
    "all_to_all": [_buffer, _buffer, _size, _int],
    "all_gather_v": [_buffer, _buffer, _counts, _int],
    "reduce_scatter_v": [_buffer, _buffer, _counts, _int, _int],
    "all_to_all_v": [_buffer, _counts, _buffer, _counts, _int],
    "barrier": [],
    "send": [_buffer, _size, _int, _int],
    "recv": [_buffer, _size, _int, _int],
}

_spans = ctypes.POINTER(Span)

# Those that return an int: 0 or a value, or an error below 0.
_calls: Dict[str, List[object]] = {
    "init": [ctypes.POINTER(_comm), ctypes.POINTER(Options)],
    "rank": [_comm],
    "world_size": [_comm],
    "world_rank": [_comm, _int],
    "local_rank": [_comm],
    "local_world_size": [_comm],
    "node_rank": [_comm],
    "nodes": [_comm],
    "attempt": [_comm],
    "host_leader": [_comm],
    "comm_split": [_comm, _int, _int, ctypes.POINTER(_comm)],
    "abort": [_comm, _text],
    "test": [ctypes.c_void_p],
    "wait": [_request],
    "wait_timeout": [_request, _int],
    "progress_start": [_comm, _int],
    "store_set": [_comm, _text, _text, _size],
    "store_add": [_comm, _text, ctypes.c_int64,
                  ctypes.POINTER(ctypes.c_int64)],
    "store_compare_set": [_comm, _text, _text, _size, _text, _size],
    "store_append": [_comm, _text, _text, _size],
    "store_delete": [_comm, _text],
    "check_replicas": [_comm, _spans, _int],
    "broadcast_spans": [_comm, _spans, _int, _int],
    "once": [_comm, _int, Once, ctypes.c_void_p],
    "should_stop": [_comm],
    "step": [_comm, ctypes.c_int64],
    "record_error": [_text],
}

_others: Dict[str, Tuple[object, List[object]]] = {
    "last_error": (_text, []),
    "error_name": (_text, [_int]),
    "version": (_text, []),
    "backend": (_text, [_comm]),
    "warning": (_text, [_comm]),
    "finalize": (None, [_comm]),
    "comm_free": (None, [_comm]),
    "request_stop": (None, [_comm]),
    "store_get": (ctypes.c_int64, [_comm, _text, _buffer, _size, _int]),
}


def roots() -> List[Path]:
    """Folders that pip may have filled: sys.prefix, or --user's."""
    return list(Path(__file__).resolve().parents)[1:]


def find(*names: str) -> Optional[Path]:
    """A file of the wheel, by its path below the folder that pip filled."""
    for root in roots():
        path = root.joinpath(*names)
        if path.is_file():
            return path
    return None


def library_path() -> str:
    """The libddp that is loaded: $DDP_LIBRARY, else the wheel's, else the
    system's."""
    named = os.environ.get("DDP_LIBRARY")
    return named or str(find("lib", "ddprun", SONAME) or SONAME)


class Library:
    """libddp with typed functions: call() raises, value() does not."""

    def __init__(self) -> None:
        path = library_path()
        if not sys.platform.startswith("linux"):
            raise ImportError("libddp runs on Linux only, this is "
                              + sys.platform)
        try:
            self.lib = ctypes.CDLL(path)
        except OSError as error:
            raise ImportError(
                f"cannot load libddp: {error}; install the wheel (pip install "
                f"ddprun), or set DDP_LIBRARY to the path of libddp.so"
            ) from None
        for name, arguments in _operations.items():
            self._declare(name, _int, [_comm, *arguments])
            self._declare(name + "_async", _int,
                          [_comm, *arguments, _request])
        for name, arguments in _calls.items():
            self._declare(name, _int, arguments)
        for name, (result, arguments) in _others.items():
            self._declare(name, result, arguments)

    def _declare(self, name: str, result: object,
                 arguments: List[object]) -> None:
        try:
            function = getattr(self.lib, "ddp_" + name)
        except AttributeError:
            raise ImportError(f"{library_path()} has no ddp_{name}: it is "
                              "older than this module") from None
        function.restype = result
        function.argtypes = arguments

    def value(self, name: str, *arguments: object) -> int:
        """What ddp_NAME returns, which may be an error."""
        result: int = getattr(self.lib, "ddp_" + name)(*arguments)
        return result

    def call(self, name: str, *arguments: object) -> int:
        """Calls ddp_NAME; raises Error if it fails."""
        result = self.value(name, *arguments)
        if result < 0:
            raise self.error(result)
        return result

    def text(self, name: str, *arguments: object) -> str:
        """What ddp_NAME, which returns a string, returns."""
        result: bytes = getattr(self.lib, "ddp_" + name)(*arguments)
        return result.decode("utf-8", "replace")

    def error(self, code: int) -> Error:
        """The exception for code, with the text of this thread's last error."""
        text = self.text("last_error") # until the next call
        name = self.text("error_name", code)
        return _classes.get(code, Error)(text or name, code, name)


_library: Optional[Library] = None


def library() -> Library:
    """libddp, loaded at the first call."""
    global _library
    if _library is None:
        _library = Library()
    return _library
